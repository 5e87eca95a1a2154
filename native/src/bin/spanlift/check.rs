//! `spanlift check`: the hazards of a program, and the verdict as exit code.
//!
//! The printed object and the exit codes are those of the contract for program files: 0 safe, 1 hazards, 2 error.

use spanlift::Program;

use crate::End;
use crate::cli::{CheckArgs, Format, ModeArg};
use crate::input::{self, NoProgram};
use crate::say::{self, Fail, Out, Style};
use crate::stand_in::hazard::{self, Certainty, Mode, Report};

/// Hazards told at most in text; `--format json` lists all.
const MOST_HAZARDS: usize = 50;

pub(crate) fn run(args: &CheckArgs, out: &mut Out) -> Result<End, Fail> {
    let program = match input::program(&args.program) {
        Ok(program) => program,
        Err(NoProgram::Unreadable(fail)) => return Err(fail),
        Err(NoProgram::Wrong(messages)) => return Err(wrong(args, &messages, out)),
    };
    let mode = match args.mode {
        ModeArg::Contract => Mode::Contract,
        ModeArg::Typical => Mode::Typical,
    };
    let report = match hazard::check(&program, mode) {
        Ok(report) => report,
        Err(problems) => {
            let messages: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            return Err(wrong(args, &messages, out));
        }
    };
    match args.report.format {
        Format::Json => out.line(report.to_json(&program).trim_end()),
        Format::Text => text(&program, &report, args.mode, out),
    }
    Ok(if report.hazards.is_empty() { End::Done } else { End::Hazard })
}

/// What is said of a program in error: the object too, where it was asked for.
fn wrong(args: &CheckArgs, messages: &[String], out: &mut Out) -> Fail {
    let place = say::place(&args.program);
    match args.report.format {
        Format::Text => Fail::all(&place, messages),
        Format::Json => {
            let object = serde_json::json!({"verdict": "error", "hazards": [], "errors": messages});
            out.line(&object.to_string());
            Fail::all(&place, messages.get(..1).unwrap_or_default())
        }
    }
}

fn text(program: &Program, report: &Report, mode: ModeArg, out: &mut Out) {
    let by = match mode {
        ModeArg::Contract => "by CUDA's contract",
        ModeArg::Typical => "on today's drivers",
    };
    if report.hazards.is_empty() {
        let verdict = out.paint(Style::Good, "safe");
        let n = say::counted(program.len(), "command");
        return out.line(&format!("{verdict}: every access in {n} is ordered {by}"));
    }
    let n_must = report.hazards.iter().filter(|h| h.certainty == Certainty::Must).count();
    for hazard in report.hazards.iter().take(MOST_HAZARDS) {
        let head = match hazard.certainty {
            Certainty::Must => out.paint(Style::Error, "race:"),
            Certainty::May => out.paint(Style::May, "may race:"),
        };
        out.line(&format!("{head} {}\n", say::harmless(&hazard::sentence(program, hazard))));
    }
    if MOST_HAZARDS < report.hazards.len() {
        let n = say::grouped((report.hazards.len() - MOST_HAZARDS) as u64);
        out.line(&format!("and {n} more: --format json lists all\n"));
    }
    let n = say::counted(report.hazards.len(), "hazard");
    let unsure = match report.hazards.len() - n_must {
        0 => String::new(),
        n if n_must == 0 => format!(
            ", {} on bytes that are known as an upper bound only",
            if n == 1 { "it rests" } else { "all rest" }
        ),
        n => format!(", {n} of them on bytes that are known as an upper bound only"),
    };
    out.line(&format!("{} {by}{unsure}", out.paint(Style::Strong, &n)));
}
