//! `spanlift check`: the hazards of a program, and the verdict as exit code.
//!
//! The printed object and the exit codes are those of the contract for program files: 0 safe, 1 hazards, 2 error.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};
use std::path::Path;

use spanlift::Program;
use spanlift::explore;
use spanlift::hazard::{self, Certainty, Mode, Relation, Report, Verdict};
use spanlift::program::ReadError;

use crate::End;
use crate::cli::{CheckArgs, Format};
use crate::input::{self, NoProgram};
use crate::say::{self, Fail, Out, Style};
use crate::source::{PIECE, Source};
use crate::{explain, output};

/// Hazards told at most in text; `--format json` lists all.
const MOST_HAZARDS: usize = 50;
/// Changes that `--mended` makes at most.
const MOST_FIXES: usize = 1_000;

pub(crate) fn run(args: &CheckArgs, out: &mut Out) -> Result<End, Fail> {
    let mode = args.mode.into();
    if !args.explain && args.mended.is_none() && is_large(&args.program) {
        return streamed(args, out);
    }
    let program = match input::program(&args.program) {
        Ok(program) => program,
        // The contract asks for one line; people are told of every line of the text form that is wrong.
        Err(NoProgram::Unreadable(fail)) => {
            return Err(if args.report.format == Format::Json { fail.first() } else { fail });
        }
        Err(NoProgram::Wrong(messages)) => return Err(wrong(args, &messages, out)),
    };
    let report = match hazard::check(&program, mode) {
        Ok(report) => report,
        Err(problems) => return Err(wrong(args, &input::messages(&problems), out)),
    };
    if let Some(path) = &args.mended {
        mend(args, &program, path)?;
    }
    let relation = match args.explain && !report.hazards.is_empty() {
        true => Some(Relation::of(&program, mode).map_err(|e| wrong(args, &input::messages(&e), out))?),
        false => None,
    };
    match (args.report.format, &relation) {
        (Format::Json, None) => out.line(&report.to_json(&program)),
        (Format::Json, Some(relation)) => out.line(&explore::explained_json(relation, &report)),
        (Format::Text, relation) => text(&program, &report, relation.as_ref(), out),
    }
    Ok(if report.verdict() == Verdict::Safe { End::Done } else { End::Hazard })
}

/// Bytes from which on a file is checked as it is read.
const LARGE: u64 = 64 << 20;

fn is_large(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && LARGE <= file.len())
}

/// Checks a file command by command, without ever holding it.
fn streamed(args: &CheckArgs, out: &mut Out) -> Result<End, Fail> {
    let mut source = Reading { source: Source::open(&args.program)?, fault: None };
    let found = hazard::check_read(BufReader::with_capacity(PIECE, &mut source), args.mode.into());
    if let Some(fault) = source.fault {
        return Err(fault);
    }
    let place = say::place(&args.program);
    let found = match found {
        Ok(found) => found,
        Err(ReadError::Problems(problems)) => return Err(wrong(args, &input::messages(&problems), out)),
        // A list of commands in a file of a version that is not known.
        Err(ReadError::Syntax { offset, message }) if message.starts_with("schema_version") => {
            return Err(wrong(args, &[ReadError::Syntax { offset, message }.to_string()], out));
        }
        Err(error) => {
            let fail = Fail::all(&place, &error.messages());
            return Err(if args.report.format == Format::Json { fail.first() } else { fail });
        }
    };
    match args.report.format {
        Format::Json => out.line(&found.report.to_json(&found.program)),
        Format::Text if found.report.hazards.is_empty() => safe(found.n_commands(), found.report.mode, out),
        Format::Text => {
            for hazard in found.report.hazards.iter().take(MOST_HAZARDS) {
                out.line(&say::one_line(&hazard::short_sentence(&found.program, hazard)));
            }
            if MOST_HAZARDS < found.report.hazards.len() {
                let n = say::grouped((found.report.hazards.len() - MOST_HAZARDS) as u64);
                out.line(&format!("and {n} other ones, which --format json lists"));
            }
            summary(&found.report, out);
        }
    }
    Ok(if found.verdict() == Verdict::Safe { End::Done } else { End::Hazard })
}

/// A source as the standard library reads; its own fault is kept, since it says more.
struct Reading {
    source: Source,
    fault: Option<Fail>,
}

impl Read for Reading {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.source.read(room).map_err(|fault| {
            self.fault = Some(fault);
            io::Error::other("the file cannot be read")
        })
    }
}

/// What is said of a program in error: the object too, where it was asked for.
fn wrong(args: &CheckArgs, messages: &[String], out: &mut Out) -> Fail {
    let place = say::place(&args.program);
    match args.report.format {
        Format::Text => Fail::all(&place, messages),
        Format::Json => {
            // Fields in the order of the other verdicts' objects.
            let errors = serde_json::json!(messages);
            out.line(&format!("{{\"verdict\":\"error\",\"hazards\":[],\"errors\":{errors}}}"));
            Fail::all(&place, messages).first()
        }
    }
}

/// Writes the program without its hazards.
fn mend(args: &CheckArgs, program: &Program, path: &Path) -> Result<(), Fail> {
    output::differs_from(path, &args.program)?;
    let place = say::place(&args.program);
    let mended = hazard::mend(program, args.mode.into(), MOST_FIXES)
        .map_err(|e| Fail::all(&place, &input::messages(&e)))?;
    if mended.report.verdict() != Verdict::Safe {
        let n = say::counted(mended.report.hazards.len(), "hazard");
        say::warning_line(&format!("{}: {n} are left after {} changes", path.display(), mended.n_fixes));
    }
    let is_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    let text = if is_json { mended.program.to_json() } else { mended.program.to_text() };
    output::write(path, text.as_bytes())
}

fn text(program: &Program, report: &Report, relation: Option<&Relation<'_>>, out: &mut Out) {
    if report.hazards.is_empty() {
        return safe(program.len(), report.mode, out);
    }
    let alike = hazard::alike(program, report);
    let mut explained = BTreeSet::new();
    for (found, n) in alike.iter().take(MOST_HAZARDS) {
        let style = if found.certainty == Certainty::Must { Style::Error } else { Style::May };
        let sentence = say::harmless(&hazard::sentence(program, found));
        // The sentence begins with what it is, up to a colon.
        let (what, rest) = sentence.split_at(sentence.find(':').map_or(0, |colon| colon + 1));
        out.line(&format!("{}{rest}{}\n", out.paint(style, what), and_more(*n)));
        match relation {
            // The same two commands, so the same fix and the same two orders.
            Some(_) if !explained.insert((found.first, found.second, found.captured)) => {}
            Some(relation) => explain::print(relation, found, out),
            None => {}
        }
    }
    if MOST_HAZARDS < alike.len() {
        let n = say::grouped((alike.len() - MOST_HAZARDS) as u64);
        out.line(&format!("and {n} other ones, which --format json lists\n"));
    }
    summary(report, out);
}

fn by(mode: Mode) -> &'static str {
    match mode {
        Mode::Contract => "by CUDA's documentation",
        Mode::Typical => "on today's drivers",
    }
}

fn safe(n_commands: usize, mode: Mode, out: &mut Out) {
    let verdict = out.paint(Style::Good, "safe:");
    let n = say::counted(n_commands, "command");
    out.line(&format!("{verdict} {n}, no hazard {}", by(mode)));
}

fn summary(report: &Report, out: &mut Out) {
    let n = say::counted(report.hazards.len(), "hazard");
    let at_least = if report.complete { "" } else { "at least " };
    let n_may = report.hazards.iter().filter(|h| h.certainty == Certainty::May).count();
    let unsure = match n_may {
        0 => String::new(),
        n => format!(" ({} not certain)", say::grouped(n as u64)),
    };
    out.line(&format!("{at_least}{}{unsure} {}", out.paint(Style::Strong, &n), by(report.mode)));
}

/// What follows a hazard that stands for `n`.
pub(crate) fn and_more(n: usize) -> String {
    match n {
        0 | 1 => String::new(),
        n => format!(" The same holds {} more times between these lines.", say::grouped((n - 1) as u64)),
    }
}
