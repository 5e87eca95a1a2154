//! `spanlift bench`: measures, on this machine, what the documentation claims.
//!
//! One function per subject gives its figures, in base units and within 20 seconds; they are printed here.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use spanlift::memory::{cuda, sample};

use crate::End;
use crate::cli::{BenchArgs, BenchSubject, Format};
use crate::say::{Fail, Out};

/// One measured figure.
#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
}

pub(crate) fn run(args: &BenchArgs, out: &mut Out) -> Result<End, Fail> {
    let (figures, report) = match &args.subject {
        BenchSubject::Memory(args) => (memory(args.tensors)?, &args.report),
    };
    match report.format {
        Format::Json => {
            let array = serde_json::to_string(&figures).map_err(|e| Fail::new(e.to_string()))?;
            out.line(&array);
        }
        Format::Text => {
            let width = figures.iter().map(|f| f.name.len()).max().unwrap_or(0);
            for Figure { name, value, unit } in &figures {
                out.line(&format!("{name:width$}  {value:>14.4e} {unit}"));
            }
        }
    }
    Ok(End::Done)
}

/// Tensors of a large layout that are reported and planned for a move in a second.
fn memory(tensors: u32) -> Result<Vec<Figure>, Fail> {
    let layout = sample::matrices(tensors as usize / 10).map_err(|e| Fail::new(e.to_string()))?;
    let tensors = layout.tensors().len() as f64;
    let fail = |e: spanlift::memory::Undecided| Fail::new(e.to_string());
    let report_s = least_s(|| layout.report().map_err(fail))?;
    let plan_s = least_s(|| layout.move_to(cuda(0)).map_err(fail))?;
    Ok(vec![
        Figure { name: "memory.tensors_per_s", value: tensors / (report_s + plan_s), unit: "1/s" },
        Figure { name: "memory.report_s", value: report_s, unit: "s" },
        Figure { name: "memory.plan_s", value: plan_s, unit: "s" },
    ])
}

/// The least time that `work` takes, in seconds: it is done at least three times, and again until a second is over.
fn least_s<T>(mut work: impl FnMut() -> Result<T, Fail>) -> Result<f64, Fail> {
    let began = Instant::now();
    let (mut least, mut times) = (Duration::MAX, 0);
    while times < 3 || began.elapsed() < Duration::from_secs(1) {
        let start = Instant::now();
        black_box(work()?);
        least = least.min(start.elapsed());
        times += 1;
    }
    Ok(least.as_secs_f64())
}
