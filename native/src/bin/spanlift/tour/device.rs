//! What of the tour runs on a device as well: its chain of operators, and its safe programs that move little.

use serde_json::{Value, json};
use spanlift::chain;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Device, Dtype, cpu, cuda as device};
use spanlift::op::{Array, Diagonal, Operator, Space, roll, sum_reduce, to};
use spanlift::program::Op;
use spanlift::{Nanos, Program, Trace};
use spanlift_native::cuda::{self, Driver, RunError, placed};
use spanlift_native::programs;

use crate::run::pad;
use crate::say::{Fail, Out, Style, counted};

/// Programs that copy more are left out: what they show on a device is `spanlift bench transfers`.
const MOST_BYTES: u64 = 8 << 20;

/// Everything that ran.
pub(super) struct OnDevice {
    /// As it is asked for: `cuda:0`.
    name: String,
    ran: Vec<Ran>,
    /// Programs that only the simulator runs, and why the first of them.
    left_out: Vec<(&'static str, String)>,
    /// The chain forward once more; it says whose times these are.
    pub(super) trace: Trace,
}

/// One expression or program.
struct Ran {
    name: String,
    /// Where each part was computed and by what.
    places: Vec<String>,
    is_right: bool,
    took: Nanos,
}

impl OnDevice {
    /// Runs them, device 0 of each on `cuda:first`.
    pub(super) fn new(driver: &Driver, first: u32) -> Result<OnDevice, Fail> {
        let on = format!("--on cuda:{first}");
        let fail = |e: &dyn std::fmt::Display| Fail::at(&on, e);
        let n_devices = u32::try_from(driver.n_devices()).unwrap_or(u32::MAX).saturating_sub(first);
        let (chain, x) = operators(n_devices).map_err(|e| fail(&e))?;
        let (mut ran, mut trace) = (Vec::new(), Trace::default());
        for (name, a) in [("forward", chain.clone()), ("adjoint", chain.h()), ("normal", chain.normal())] {
            let x =
                if *a.domain() == *x.space() { x.clone() } else { chain.apply(&x).map_err(|e| fail(&e))? };
            let plan = a.plan_for(&x).map_err(|e| fail(&e))?;
            let run = cuda::run_knowing(plan.program(), driver, first, &plan).map_err(|e| fail(&e))?;
            let expected = a.apply(&x).map_err(|e| fail(&e))?;
            let is_right = plan.result(&run.finals).is_some_and(|found| found == expected);
            // Device 0 of the plan is the one that was asked for.
            let place = |device: Device| match device {
                Device::Cuda(n) => format!("cuda:{}", n.saturating_add(first)),
                other => other.to_string(),
            };
            let found = placed(&plan);
            let places = found.iter().map(|p| format!("{} on {} by {}", p.label, place(p.device), p.by));
            let places = places.collect();
            ran.push(Ran { name: format!("the chain, {name}"), places, is_right, took: run.end });
            if name == "forward" {
                // By itself: its times cost calls.
                let timed = cuda::run_timed(plan.program(), driver, first, &plan).map_err(|e| fail(&e))?;
                trace = timed.trace;
            }
        }
        let mut left_out = Vec::new();
        for shipped in programs::all() {
            let program = shipped.program();
            let is_safe = hazard::check(&program, Mode::Contract).is_ok_and(|r| r.verdict() == Verdict::Safe);
            if !is_safe {
                left_out.push((shipped.name, "is not safe".to_owned()));
                continue;
            }
            if MOST_BYTES < bytes(&program) {
                left_out.push((shipped.name, "moves much".to_owned()));
                continue;
            }
            match cuda::run(&program, driver, first) {
                Ok(run) => {
                    let is_right = run.reads.iter().all(spanlift::sim::Reading::is_right);
                    let name = shipped.name.to_owned();
                    ran.push(Ran { name, places: Vec::new(), is_right, took: run.end });
                }
                Err(RunError::Unsupported { why, .. }) => left_out.push((shipped.name, why)),
                Err(e) => return Err(fail(&e)),
            }
        }
        Ok(OnDevice { name: format!("cuda:{first}"), ran, left_out, trace })
    }

    /// Whether everything that ran ended with the right values.
    pub(super) fn is_right(&self) -> bool {
        self.ran.iter().all(|ran| ran.is_right)
    }

    pub(super) fn tell(&self, out: &mut Out) {
        let head = out.paint(Style::Strong, &format!("6  The same on {}, for real", self.name));
        out.line(&format!("\n{head}\n"));
        out.line("Times are the host's, from the first command to the last byte back, and with what is made ready in between.\n");
        for ran in &self.ran {
            let verdict =
                if ran.is_right { out.paint(Style::Good, "right") } else { out.paint(Style::Error, "WRONG") };
            out.line(&format!("  {}  {verdict}  {:>10}", pad(&ran.name, 40), ran.took.to_string()));
            ran.places.iter().for_each(|place| out.line(&format!("      {place}")));
        }
        let n = counted(self.left_out.len(), "program");
        out.line(&format!("\n  {n} left to the simulator: racy ones on purpose, and large ones, which `spanlift bench transfers` measures."));
    }

    pub(super) fn object(&self) -> Value {
        let ran = self.ran.iter().map(|ran| {
            json!({"name": ran.name, "places": ran.places, "is_right": ran.is_right, "took_ns": ran.took})
        });
        let left_out = self.left_out.iter().map(|(name, why)| json!({"name": name, "why": why}));
        json!({
            "name": self.name, "is_right": self.is_right(), "ran": ran.collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
        })
    }
}

/// Bytes that a program copies.
fn bytes(program: &Program) -> u64 {
    let copies = program.commands().iter().filter_map(|command| match &command.op {
        Op::Copy(copy) => copy.dst.span.bounds(),
        _ => None,
    });
    copies.map(|(lo, hi)| (hi - lo).unsigned_abs()).fold(0, u64::saturating_add)
}

/// The tour's chain, smaller, with a movement and a sum in it; over two devices where there are two.
fn operators(n_devices: u32) -> Result<(Operator, Array), Box<dyn std::error::Error>> {
    let image = Space::new([("y", 32), ("x", 48)], Dtype::C32)?;
    let other = device(u32::from(n_devices > 1));
    let weight = |k: usize| (0..32 * 48).map(move |i| f64::from(u8::from(i % 7 == k)) + 0.5);
    let w0 = Diagonal::new(image.on(device(0)), weight(0))?.named("W0");
    let w1 = Diagonal::new(image.on(other), weight(1))?.named("W1");
    let turned = roll("x", 5).over(image.on(other))?;
    let summed = sum_reduce(["y"]).over(image.on(other))?;
    let a = chain![to(device(0)), w0, to(other), turned, w1, summed, to(cpu())]?;
    let x = Array::new(image, (0..32 * 48).map(|k: i32| f64::from(k % 13) - 6.0))?;
    Ok((a, x))
}
