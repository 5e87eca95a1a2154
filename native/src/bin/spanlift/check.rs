//! `spanlift check`: the hazards of a program, and the verdict as exit code.
//!
//! The printed object and the exit codes are those of the contract for program files: 0 safe, 1 hazards, 2 error.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};
use std::path::Path;

use spanlift::Program;
use spanlift::explore;
use spanlift::hazard::{self, Certainty, Mode, Relation, Report, Terms, Unreached, Verdict};
use spanlift::machine::Machine;
use spanlift::program::ReadError;
use spanlift::text::grouped;
use spanlift_viewer::explained_svg;
use spanlift_viewer::kind::{self, Kind};

use crate::End;
use crate::cli::{CheckArgs, Format};
use crate::input::{self, NoProgram};
use crate::say::{self, Fail, Out, Style};
use crate::source::{PIECE, Source};
use crate::{explain, machine, output};

/// Hazards told at most in text; `--format json` lists all.
const MOST_HAZARDS: usize = 50;
/// Commands told in text at most that touch what they do not reach.
const MOST_UNREACHED: usize = 10;
/// Pixels of a picture from left to right.
const PICTURE_WIDTH: f64 = 1000.0;
/// Changes that `--mended` makes at most.
const MOST_FIXES: usize = 1_000;

pub(crate) fn run(args: &CheckArgs, out: &mut Out) -> Result<End, Fail> {
    // A wrong name is told before a large file is read.
    let asked = args.machine.as_deref().map(machine::named).transpose()?.map(|chosen| chosen.machine);
    if let Some(path) = &args.out {
        is_picture(path)?;
    }
    let whole = args.explain || args.out.is_some() || args.mended.is_some();
    if !whole && is_large(&args.program) && is_list(&args.program)? {
        return streamed(args, asked, out);
    }
    let program = match input::program(&args.program) {
        Ok(program) => program,
        // The contract asks for one line; people are told of every line of the text form that is wrong.
        Err(NoProgram::Unreadable(fail)) => {
            return Err(if args.report.format == Format::Json { fail.first() } else { fail });
        }
        Err(NoProgram::Wrong(messages)) => return Err(wrong(args, &messages, out)),
    };
    output::are_free([&args.mended, &args.out].into_iter().filter_map(|path| path.as_deref()))?;
    let machine = of_program(args, asked, &program);
    let terms = terms(args, machine.as_ref());
    let report = match hazard::check(&program, terms) {
        Ok(report) => report,
        Err(problems) => return Err(wrong(args, &input::messages(&problems), out)),
    };
    if let Some(path) = &args.mended {
        mend(args, &program, terms, path)?;
    }
    let relation = match args.out.is_some() || args.explain && !report.hazards.is_empty() {
        true => Some(Relation::of(&program, terms).map_err(|e| wrong(args, &input::messages(&e), out))?),
        false => None,
    };
    if let (Some(path), Some(relation)) = (&args.out, &relation) {
        output::write(path, explained_svg(relation, &report, PICTURE_WIDTH).as_bytes())?;
    }
    let unreached = hazard::unreached(&program, machine.as_ref())
        .map_err(|problems| wrong(args, &input::messages(&problems), out))?;
    let explained = relation.as_ref().filter(|_| args.explain && !report.hazards.is_empty());
    match (args.report.format, explained) {
        (Format::Json, None) => {
            out.json_text(&object(report.to_json(&program), &report, &program, &unreached));
        }
        (Format::Json, Some(relation)) => {
            let text = explore::explained_json(relation, &report);
            out.json_text(&object(text, &report, &program, &unreached));
        }
        (Format::Text, relation) => {
            text(&program, &report, relation, out);
            warn_unreached(args, &program, &unreached);
        }
    }
    Ok(if report.verdict() == Verdict::Safe { End::Done } else { End::Hazard })
}

/// The machine asked for, else the one that a program names; one that nobody knows is told, since `run` will refuse it.
fn of_program(args: &CheckArgs, asked: Option<Machine>, program: &Program) -> Option<Machine> {
    if asked.is_none()
        && args.report.format == Format::Text
        && let Some(wrong) = machine::wrong_own(program, &say::place(&args.program))
    {
        wrong.warn();
    }
    asked.or_else(|| machine::own(program))
}

/// By what terms: those of a machine, or CUDA's.
fn terms(args: &CheckArgs, machine: Option<&Machine>) -> Terms {
    let mode = Mode::from(args.mode);
    machine.map_or(mode.into(), |machine| Terms::of(mode, machine))
}

/// A picture's name says what it is.
fn is_picture(path: &Path) -> Result<(), Fail> {
    if output::ends_in(path, "svg") {
        return Ok(());
    }
    Err(Fail::at(&path.display().to_string(), "the picture's name ends in .svg"))
}

/// Bytes from which on a file is checked as it is read.
const LARGE: u64 = 16 << 20;

fn is_large(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && LARGE <= file.len())
}

/// Whether what a file begins with is a program: an operator is planned as a whole.
///
/// # Errors
/// One line for a file of another kind.
fn is_list(path: &Path) -> Result<bool, Fail> {
    let mut source = Reading { source: Source::open(path)?, fault: None };
    let mut begin = Vec::new();
    let read = (&mut source).take(PIECE as u64).read_to_end(&mut begin);
    match (read, source.fault) {
        (Err(_), Some(fault)) => Err(fault),
        _ if kind::of(&begin) == Ok(Kind::Operator) => Ok(false),
        _ => match input::instead(&begin, Kind::Program) {
            Some(what) => Err(Fail::at(&say::place(path), what)),
            None => Ok(true),
        },
    }
}

/// Checks a file command by command, without ever holding it.
fn streamed(args: &CheckArgs, asked: Option<Machine>, out: &mut Out) -> Result<End, Fail> {
    let terms = terms(args, asked.as_ref());
    let mut source = Reading { source: Source::open(&args.program)?, fault: None };
    let found = hazard::check_read(BufReader::with_capacity(PIECE, &mut source), terms);
    if let Some(fault) = source.fault {
        return Err(fault);
    }
    let place = say::place(&args.program);
    let mut found = match found {
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
    // What a large program names is known at its end, and no profile that has a name is without CUDA's rules.
    debug_assert!(
        args.machine.is_some()
            || machine::terms(None, terms.mode, &found.program).is_ok_and(|own| own == terms)
    );
    let machine = of_program(args, asked, &found.program);
    found.unreached.retain(|one| one.is_on(machine.as_ref()));
    match args.report.format {
        Format::Json => {
            let text = found.report.to_json(&found.program);
            out.json_text(&object(text, &found.report, &found.program, &found.unreached));
        }
        Format::Text if found.report.hazards.is_empty() => safe(found.n_commands(), &found.report, out),
        Format::Text => {
            for hazard in found.report.hazards.iter().take(MOST_HAZARDS) {
                out.line(&say::one_line(&hazard::short_sentence(&found.program, hazard)));
            }
            if MOST_HAZARDS < found.report.hazards.len() {
                let n = grouped(found.report.hazards.len() - MOST_HAZARDS);
                out.line(&format!("and {n} other ones, which --format json lists"));
            }
            summary(&found.report, out);
        }
    }
    if args.report.format == Format::Text {
        warn_unreached(args, &found.program, &found.unreached);
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

/// The object of a report with two fields beside it that the contract does not know, where there is something to say: that the
/// list ended early, and what is out of reach.
fn object(text: String, report: &Report, program: &Program, unreached: &[Unreached]) -> String {
    let Some(open) = text.strip_suffix('}') else { return text };
    let ended = if report.complete { "" } else { ",\"is_complete\":false" };
    let one = |found: &Unreached| {
        serde_json::json!({
            "command": found.index,
            "buffer": program.names().buffer(found.buffer),
            "kind": found.why.name(),
            "sentence": found.sentence(program.names()),
        })
    };
    let unreached = match unreached {
        [] => String::new(),
        _ => format!(",\"unreached\":{}", unreached.iter().map(one).collect::<serde_json::Value>()),
    };
    format!("{open}{ended}{unreached}}}")
}

/// Says what is out of reach, once for each line and buffer.
fn warn_unreached(args: &CheckArgs, program: &Program, unreached: &[Unreached]) {
    let place = say::place(&args.program);
    let mut told = BTreeSet::new();
    // Where there are no lines, each command stands for itself.
    let site = |found: &Unreached| {
        (program.line(found.index).map_or(found.index, |line| line as usize), found.buffer)
    };
    let each: Vec<&Unreached> = unreached.iter().filter(|found| told.insert(site(found))).collect();
    for found in each.iter().take(MOST_UNREACHED) {
        let at = match program.line(found.index) {
            Some(line) => format!("line {line} (command {})", found.index),
            None => format!("command {}", found.index),
        };
        say::warning_line(&say::one_line(&format!("{place}: {at}: {}", found.sentence(program.names()))));
    }
    if MOST_UNREACHED < each.len() {
        let n = grouped(each.len() - MOST_UNREACHED);
        say::warning_line(&format!("{place}: and {n} other ones out of reach, which --format json lists"));
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
            out.json_text(&format!("{{\"verdict\":\"error\",\"hazards\":[],\"errors\":{errors}}}"));
            Fail::all(&place, messages).first()
        }
    }
}

/// Writes the program without its hazards.
fn mend(args: &CheckArgs, program: &Program, terms: Terms, path: &Path) -> Result<(), Fail> {
    let place = say::place(&args.program);
    let mended =
        hazard::mend(program, terms, MOST_FIXES).map_err(|e| Fail::all(&place, &input::messages(&e)))?;
    if mended.report.verdict() != Verdict::Safe {
        let [at_least, left] = counted(&mended.report);
        let changes = say::counted(mended.n_fixes, "change");
        say::warning_line(&format!("{}: left after {changes}: {at_least}{left}", say::written(path)));
    }
    let is_json = output::ends_in(&output::unpacked(path), "json");
    let text = if is_json { mended.program.to_json() } else { mended.program.to_text() };
    output::write(path, text.as_bytes())
}

fn text(program: &Program, report: &Report, relation: Option<&Relation<'_>>, out: &mut Out) {
    if report.hazards.is_empty() {
        return safe(program.len(), report, out);
    }
    let alike = hazard::alike(program, report);
    let mut explained = BTreeSet::new();
    for (found, n) in alike.iter().take(MOST_HAZARDS) {
        let style = if found.certainty == Certainty::Must { Style::Error } else { Style::May };
        let sentence = say::one_line(&hazard::sentence(program, found));
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
        let n = grouped(alike.len() - MOST_HAZARDS);
        out.line(&format!("and {n} other ones, which --format json lists\n"));
    }
    summary(report, out);
}

/// Whose word counts.
pub(crate) fn by(terms: Terms) -> &'static str {
    match (terms.mode, terms.ordered_copies) {
        (Mode::Contract, true) => "by CUDA's documentation",
        (Mode::Typical, true) => "on today's drivers",
        (Mode::Contract, false) => "by CUDA's documentation, on a device that orders no copies",
        (Mode::Typical, false) => "on today's drivers, on a device that orders no copies",
    }
}

fn safe(n_commands: usize, report: &Report, out: &mut Out) {
    let verdict = out.paint(Style::Good, "safe:");
    let n = say::counted(n_commands, "command");
    out.line(&format!(
        "{verdict} {n}, no hazard {}",
        by(Terms { mode: report.mode, ordered_copies: report.ordered_copies })
    ));
}

/// `at least ` where not all are listed, and how many are.
fn counted(report: &Report) -> [String; 2] {
    let at_least = if report.complete { "" } else { "at least " };
    [at_least.to_owned(), say::counted(report.hazards.len(), "hazard")]
}

fn summary(report: &Report, out: &mut Out) {
    let [at_least, n] = counted(report);
    let n_may = report.hazards.iter().filter(|h| h.certainty == Certainty::May).count();
    let unsure = match n_may {
        0 => String::new(),
        n => format!(" ({} not certain)", grouped(n)),
    };
    out.line(&format!(
        "{at_least}{}{unsure} {}",
        out.paint(Style::Strong, &n),
        by(Terms { mode: report.mode, ordered_copies: report.ordered_copies })
    ));
}

/// What follows a hazard that stands for `n`.
pub(crate) fn and_more(n: usize) -> String {
    match n {
        0 | 1 => String::new(),
        2 => " The same holds once more between these lines.".to_owned(),
        n => format!(" The same holds {} more times between these lines.", grouped(n - 1)),
    }
}
