//! `spanlift run --on cpu` and `--on cuda:N`: programs that really run.

use std::path::{Path, PathBuf};

use serde_json::json;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::op::Array;
use spanlift::plan::{Plan, Tasks};
use spanlift::sim::{Ledger, Run};
use spanlift::{Program, trace};
use spanlift_native::cpu::CpuError;
use spanlift_native::cuda::{self, Clock, CudaError, Driver, RunError};
use spanlift_viewer::written::{Applied, Written};

use crate::cli::{Format, RunArgs};
use crate::run::{lanes, object, of_operator, tell_operator, text, warn};
use crate::say::{self, Fail, Out, Style};
use crate::{End, input, output};

/// Runs a program on this machine's memory.
pub(crate) fn cpu(args: &RunArgs, written: &Written, place: &str, out: &mut Out) -> Result<End, Fail> {
    only_itself(args, "--on cpu")?;
    let fed = fed(written, place)?;
    let program = fed.as_ref().map_or(&written.program, Plan::program);
    let report =
        hazard::check(program, Mode::Contract).map_err(|e| Fail::all(place, &input::messages(&e)))?;
    let ran = match &fed {
        Some(plan) => spanlift_native::cpu::run_knowing(program, plan),
        None => spanlift_native::cpu::run(program),
    };
    let ran = ran.map_err(|e| failed(place, &e))?;
    let spanlift_native::cpu::Run { mut trace, end, marks, reads, finals, n_unknown, n_empty } = ran;
    written.name_lanes(&mut trace);
    let run = Run { trace, end, marks, reads, finals, ledger: Ledger::default() };
    if let Some(path) = &args.record {
        record_of(path, program.clone(), written)?;
    }
    warn(place, program, &report);
    let operator = written.operator.as_deref().map(|applied| (applied, result(fed.as_ref(), &run)));
    tell(args, program, &run, (report.verdict(), "cpu", [n_unknown, n_empty]), (None, operator), out)
}

/// The plan of an operator for its input, which runs carry.
fn fed(written: &Written, place: &str) -> Result<Option<Plan>, Fail> {
    let Some(applied) = &written.operator else { return Ok(None) };
    applied.bearable().map_err(|why| Fail::at(place, format!("not applied here: {why}")))?;
    applied.fed().map_err(|e| Fail::at(place, e))
}

fn result(fed: Option<&Plan>, run: &Run) -> Option<Array> {
    fed.and_then(|plan| plan.result(&run.finals))
}

/// Runs a program on devices of this machine, its device 0 on `cuda:first`.
pub(crate) fn cuda(
    args: &RunArgs,
    first: u32,
    written: &Written,
    place: &str,
    out: &mut Out,
) -> Result<End, Fail> {
    let on = format!("--on cuda:{first}");
    only_itself(args, &on)?;
    let driver = driver(first, &on)?;
    let fed = fed(written, place)?;
    let program = fed.as_ref().map_or(&written.program, Plan::program);
    let tasks: &dyn Tasks = fed.as_ref().map_or(&(), |plan| plan);
    // Times cost events: only where somebody wants them.
    let ran = match args.trace {
        Some(_) => cuda::run_timed(program, &driver, first, tasks),
        None => cuda::run_knowing(program, &driver, first, tasks),
    };
    let ran = ran.map_err(|e| match &e {
        RunError::Problems(problems) => Fail::all(place, &input::messages(problems)),
        RunError::Limit(e) => failed(place, e),
        RunError::Device(CudaError::NoSuchDevice { .. }) => {
            let asked = "the program uses more devices than there are from here on";
            Fail::at(&on, format!("{asked}: {e}"))
        }
        RunError::Device(e) => Fail::at(&on, e),
        e => Fail::at(place, e),
    })?;
    let cuda::Run { trace, clock, end, marks, reads, finals, issued } = ran;
    let run = Run { trace, end, marks, reads, finals, ledger: Ledger::default() };
    if let Some(path) = &args.record {
        record_of(path, issued, written)?;
    }
    let name = format!("cuda:{first}");
    let operator = written.operator.as_deref().map(|applied| (applied, result(fed.as_ref(), &run)));
    tell(args, program, &run, (Verdict::Safe, &name, [0, 0]), (Some(clock), operator), out)
}

/// The driver, if it has this device.
pub(crate) fn driver(first: u32, on: &str) -> Result<Driver, Fail> {
    let driver = Driver::open().map_err(|why| Fail::at(on, why))?;
    let n_devices = driver.n_devices();
    if usize::try_from(first).is_ok_and(|first| first < n_devices) {
        return Ok(driver);
    }
    Err(none_such(on, n_devices))
}

/// What is said of a device that is not among so many.
pub(crate) fn none_such(on: &str, n_devices: usize) -> Fail {
    let last = n_devices.saturating_sub(1);
    let there = if last == 0 { "cuda:0".to_owned() } else { format!("cuda:0 to cuda:{last}") };
    Fail::at(on, format!("there is no such device; this machine has {there}"))
}

/// Refuses what is for the simulator.
fn only_itself(args: &RunArgs, on: &str) -> Result<(), Fail> {
    if args.schedules.is_some() || args.replay.is_some() || !args.what_if.is_empty() || args.machine.is_some()
    {
        let why = "runs the program itself, in one order; machines, schedules and changes are for --on sim";
        return Err(Fail::at(on, why));
    }
    are_free(args)
}

/// What a run writes beside its report, each by the name that it has there.
pub(crate) fn outputs(args: &RunArgs) -> [(&'static str, &Option<PathBuf>); 2] {
    [("trace", &args.trace), ("record", &args.record)]
}

/// Whether all of it has a place.
///
/// # Errors
/// As [`output::are_free`].
pub(crate) fn are_free(args: &RunArgs) -> Result<(), Fail> {
    output::are_free(outputs(args).into_iter().filter_map(|(_, path)| path.as_deref()))
}

/// Tells where it is, in lines.
pub(crate) fn tell_outputs(args: &RunArgs, out: &mut Out) {
    for (name, path) in outputs(args) {
        if let Some(path) = path {
            out.line(&format!("\n{name} written to {}", say::written(path)));
        }
    }
}

/// Writes a program that was carried out for what was written: title and machine are of that.
fn record_of(path: &Path, mut program: Program, written: &Written) -> Result<(), Fail> {
    program.title.clone_from(&written.program.title);
    program.machine.clone_from(&written.program.machine);
    record(path, &program)
}

/// Writes a program that was carried out: as JSON where the file is called so, else as text.
///
/// # Errors
/// As [`output::write`].
pub(crate) fn record(path: &Path, program: &Program) -> Result<(), Fail> {
    let is_json = output::ends_in(&output::unpacked(path), "json");
    let recorded = if is_json { program.to_json() } else { program.to_text() };
    output::write(path, recorded.as_bytes())
}

fn failed(place: &str, error: &CpuError) -> Fail {
    match error {
        CpuError::Problems(problems) => Fail::all(place, &input::messages(problems)),
        error => Fail::at(place, error),
    }
}

/// Writes the trace and tells what was done.
fn tell(
    args: &RunArgs,
    program: &Program,
    run: &Run,
    (verdict, on, [n_unknown, n_empty]): (Verdict, &str, [usize; 2]),
    (clock, operator): (Option<Clock>, Option<(&Applied, Option<Array>)>),
    out: &mut Out,
) -> Result<End, Fail> {
    if let Some(path) = &args.trace {
        output::write(path, trace::write_chrome(&run.trace).as_bytes())?;
    }
    let lanes = lanes(&run.trace);
    match args.report.format {
        Format::Json => {
            let mut object = object(program, run, &lanes);
            object["on"] = json!(on);
            // What a machine would have moved is the simulator's to tell.
            object.as_object_mut().map(|fields| fields.remove("ledger"));
            object["verdict"] = json!(verdict.name());
            object["n_unknown"] = json!(n_unknown);
            object["n_empty"] = json!(n_empty);
            if let Some((applied, result)) = operator {
                object["operator"] = of_operator(applied, result);
            }
            if let Some(clock) = clock {
                object["clock"] = json!(clock.to_string());
            }
            for (name, path) in outputs(args) {
                object[name] = json!(path.as_ref().map(|path| path.display().to_string()));
            }
            out.json(&object);
        }
        Format::Text => {
            let n = say::counted(program.len(), "command");
            let end = out.paint(Style::Strong, &run.end.to_string());
            let on = if on == "cpu" { "the CPU" } else { on };
            out.line(&format!("{n} run on {on}, in the order of the list: {end}"));
            if let Some((applied, result)) = operator {
                tell_operator(applied, result, out);
            }
            text(program, run, &lanes, out);
            if n_unknown > 0 {
                let times = say::counted(n_unknown, "time");
                out.line(&format!(
                    "\na kernel without a formula ran {times}: what it writes stays as it was"
                ));
            }
            if n_empty > 0 {
                let them = say::counted(n_empty, "command");
                out.line(&format!(
                    "\nnothing was moved by {them}, since no contents reach what they write; --on sim tells how long they take"
                ));
            }
            if let Some(clock) = clock {
                out.line(&format!("\ntimes of streams: {clock}"));
            }
            tell_outputs(args, out);
        }
    }
    Ok(End::Done)
}
