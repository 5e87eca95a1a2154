//! `spanlift bench`: measures, on this machine, what the documentation claims.
//!
//! One function per subject gives its figures, in base units and within 20 seconds; they are printed here.

use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use spanlift::advise::trace::findings;
use spanlift::hazard::sample::columns;
use spanlift::hazard::{self, Mode};
use spanlift::machine::Machine;
use spanlift::memory::{cuda, sample};
use spanlift::program::Problems;
use spanlift::sim::{self, Prepared};
use spanlift::trace::analysis::{Figures, Order};
use spanlift_native::programs;

use crate::End;
use crate::analyze;
use crate::cli::{BenchArgs, BenchSubject, Format};
use crate::say::{self, Fail, Out};
use crate::{bench_copy, bench_transfers, source};

/// One measured figure.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: Cow<'static, str>,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

pub(crate) fn run(args: &BenchArgs, out: &mut Out) -> Result<End, Fail> {
    let (figures, report) = match &args.subject {
        BenchSubject::Sim(args) => (sim(args.commands, args.streams)?, &args.report),
        BenchSubject::Memory(args) => (memory(args.tensors)?, &args.report),
        BenchSubject::Check(args) => (check(args.commands, args.streams)?, &args.report),
        BenchSubject::Trace(args) => (trace(&args.file)?, &args.report),
        BenchSubject::Copy(args) => (bench_copy::figures(args.threads)?, &args.report),
        BenchSubject::Transfers(args) => return bench_transfers::run(args, out),
    };
    match report.format {
        Format::Json => out.json(&figures),
        Format::Text => {
            let width = figures.iter().map(|f| f.name.len()).max().unwrap_or(0);
            for Figure { name, value, unit } in &figures {
                out.line(&format!("{name:width$}  {value:>14.4e} {unit}"));
            }
        }
    }
    Ok(End::Done)
}

/// Events of a simulation in a second, from the program and from what was prepared of it, and the tutorial's run of a
/// thousand tensors as a slider asks for it.
fn sim(commands: u32, streams: u32) -> Result<Vec<Figure>, Fail> {
    let machine = Machine::builtin("h200-pcie5").unwrap_or_default();
    let program = sim::sample::pipelines(commands as usize, streams as usize);
    let events = 2.0 * sim::sample::n_timed(&program) as f64;
    let fail = |e: sim::SimError| Fail::new(e.to_string());
    let run_s = least_s(|| sim::run(&program, &machine).map_err(fail))?;
    let prepared = Prepared::new(&program).map_err(fail)?;
    let rerun_s = least_s(|| prepared.run(&machine).map_err(fail))?;
    let Some(row) = programs::named("row07-h2d.1000x4MB.pageable.blocking") else {
        return Err(Fail::new("the tutorial's row is not there"));
    };
    let row = Prepared::new(&row.program()).map_err(fail)?;
    let row_s = least_s(|| row.run(&Machine::default()).map_err(fail))?;
    Ok(vec![
        Figure { name: "sim.events_per_s".into(), value: events / rerun_s, unit: "1/s" },
        Figure { name: "sim.events_per_s_from_program".into(), value: events / run_s, unit: "1/s" },
        Figure { name: "sim.thousand_tensors_s".into(), value: row_s, unit: "s" },
    ])
}

/// Tensors of a large layout that are reported and planned for a move in a second.
fn memory(tensors: u32) -> Result<Vec<Figure>, Fail> {
    let layout = sample::matrices(tensors as usize / 10).map_err(|e| Fail::new(e.to_string()))?;
    let tensors = layout.tensors().len() as f64;
    let fail = |e: spanlift::memory::Undecided| Fail::new(e.to_string());
    let report_s = least_s(|| layout.report().map_err(fail))?;
    let plan_s = least_s(|| layout.move_to(cuda(0)).map_err(fail))?;
    Ok(vec![
        Figure { name: "memory.tensors_per_s".into(), value: tensors / (report_s + plan_s), unit: "1/s" },
        Figure { name: "memory.report_s".into(), value: report_s, unit: "s" },
        Figure { name: "memory.plan_s".into(), value: plan_s, unit: "s" },
    ])
}

/// Commands that are checked in a second, in memory and as a file of each form is read.
fn check(n: u32, n_streams: u32) -> Result<Vec<Figure>, Fail> {
    let program = columns(n as usize, n_streams as usize);
    let n = program.len() as f64;
    let fail = |e: Problems| Fail::new(e.to_string());
    let whole_s = least_s(|| hazard::check(&program, Mode::Contract).map_err(fail))?;
    let read = |bytes: &[u8]| {
        least_s(|| hazard::check_read(bytes, Mode::Contract).map_err(|e| Fail::new(e.to_string())))
    };
    let text_s = read(program.to_text().as_bytes())?;
    let json_s = read(program.to_json().as_bytes())?;
    Ok(vec![
        Figure { name: "check.ops_per_s".into(), value: n / whole_s, unit: "1/s" },
        Figure { name: "check.text_ops_per_s".into(), value: n / text_s, unit: "1/s" },
        Figure { name: "check.json_ops_per_s".into(), value: n / json_s, unit: "1/s" },
    ])
}

/// Bytes of JSON that are read in a second, alone and with all figures and findings; a compressed file's bytes are those
/// unpacked.
fn trace(file: &Path) -> Result<Vec<Figure>, Fail> {
    if source::is_once(file) {
        return Err(Fail::at(&say::place(file), "is there once, and a file is read several times here"));
    }
    let (table, n_bytes) = analyze::table(file)?;
    let n_events = table.n_events as f64;
    drop(table);
    let scan_s = least_s(|| analyze::table(file))?;
    let all_s = least_s(|| {
        let (table, _) = analyze::table(file)?;
        let order = Order::of(&table);
        Ok((Figures::with(&table, &order), findings(&table, &order)))
    })?;
    let n_bytes = n_bytes as f64;
    Ok(vec![
        Figure { name: "trace.bytes_per_s".into(), value: n_bytes / all_s, unit: "B/s" },
        Figure { name: "trace.scan_bytes_per_s".into(), value: n_bytes / scan_s, unit: "B/s" },
        Figure { name: "trace.events_per_s".into(), value: n_events / all_s, unit: "1/s" },
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
