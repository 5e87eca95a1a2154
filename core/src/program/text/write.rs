//! Writes the text form: one line a command, parts that say the default left out.

use std::fmt::{self, Display, Write};

use super::lex::is_word_char;
use super::quantity::{SIZES, SLEEPS, TIMES, with_unit};
use crate::memory::Span;
use crate::ordered::CollectVec;
use crate::program::Program;
use crate::program::command::*;
use crate::program::names::legacy_device;
use crate::program::words::{ALLOC_VIAS, FREE_VIAS, HOST_COSTS, SPACES, STREAM_KINDS, word};
use crate::units::Nanos;

pub(in crate::program) fn write(program: &Program) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = program_to(&mut out, program);
    out
}

/// One command as its line, without the end of the line.
pub(in crate::program) fn write_command(program: &Program, command: &Command, index: usize) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = Writer { out: &mut out, program, index }.command(command);
    out.truncate(out.trim_end().len());
    out
}

fn program_to(out: &mut String, program: &Program) -> fmt::Result {
    if !program.title.is_empty() {
        let title = program.title.as_str();
        if title.trim() == title && !title.starts_with('"') && !title.contains(char::is_control) {
            writeln!(out, "title   {title}")?;
        } else {
            writeln!(out, "title   {}", quoted(title))?;
        }
    }
    if let Some(machine) = &program.machine {
        writeln!(out, "machine {}", Name(machine))?;
    }
    for (index, command) in program.commands().iter().enumerate() {
        Writer { out, program, index }.command(command)?;
    }
    if out.is_empty() {
        out.push_str("# no commands\n");
    }
    Ok(())
}

/// Keywords that follow where a name may stand, so that names like them need quotation marks.
const KEYWORDS: [&str; 30] = [
    "as",
    "blocking",
    "computes",
    "conj",
    "cuda",
    "device",
    "event",
    "expect",
    "for",
    "grid",
    "home",
    "nonblocking",
    "not",
    "of",
    "on",
    "opaque",
    "peer",
    "per_thread",
    "priority",
    "reads",
    "ready",
    "reuse",
    "seed",
    "stream",
    "torch",
    "untracked",
    "via",
    "writes",
    "end",
    "repeat",
];

/// A name as it stands in the file: bare where that is safe.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0;
        let bare = name.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            && name.chars().all(is_word_char)
            && !name.contains("..")
            && !KEYWORDS.contains(&name);
        if bare { f.write_str(name) } else { f.write_str(&quoted(name)) }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number such that it reads back the same, without a point where it is whole.
struct Float(f64);

impl Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.0 == 0.0 || (1e-5 <= self.0.abs() && self.0.abs() < 1e15);
        if short { write!(f, "{}", self.0) } else { write!(f, "{:?}", self.0) }
    }
}

struct Contained<'a>(&'a Contents);

impl Display for Contained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Contents::Fill { dtype, value } => write!(f, "{dtype} fill {}", Float(*value)),
            Contents::Ramp { dtype, start, step } => {
                write!(f, "{dtype} ramp {} {}", Float(*start), Float(*step))
            }
            Contents::Values { dtype, values } => {
                write!(f, "{dtype} values")?;
                values.iter().try_for_each(|&v| write!(f, " {}", Float(v)))
            }
            Contents::Seed(seed) => write!(f, "seed {seed}"),
        }
    }
}

fn size(bytes: i64, least: i128) -> String {
    // Units of 1024 only: a size that people gave as 4 MB reads well as 4000000 too.
    with_unit(bytes, &SIZES[6..], least)
}

fn time(time: Nanos) -> String {
    if time.0 == 0 { "0ns".to_owned() } else { with_unit(time.0, &TIMES, 1) }
}

struct Writer<'a> {
    out: &'a mut String,
    program: &'a Program,
    index: usize,
}

impl Writer<'_> {
    fn stream(&self, id: StreamId) -> Name<'_> {
        Name(self.program.names().stream(id))
    }

    fn buffer(&self, id: BufferId) -> Name<'_> {
        Name(self.program.names().buffer(id))
    }

    fn event(&self, id: EventId) -> Name<'_> {
        Name(self.program.names().event(id))
    }

    fn thread(&self, id: ThreadId) -> Name<'_> {
        Name(self.program.names().thread(id))
    }

    fn command(self, command: &Command) -> fmt::Result {
        if command.thread != ThreadId::FIRST {
            let line = format!("{}: ", self.thread(command.thread));
            self.out.push_str(&line);
        }
        let line = self.line(command);
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        // Verbs are padded, so that what they act on stands below each other.
        if rest.is_empty() {
            write!(self.out, "{verb}")?
        } else {
            write!(self.out, "{verb:<7} {rest}")?
        }
        match &command.label {
            Some(label) if !matches!(command.op, Op::Kernel(_) | Op::HostFn { .. } | Op::Mark) => {
                write!(self.out, " {}", quoted(label))?;
            }
            _ => {}
        }
        self.out.push('\n');
        Ok(())
    }

    /// The line without its thread and label.
    fn line(&self, command: &Command) -> String {
        let names = self.program.names();
        let label = command.label.as_deref().map(|label| format!(" {}", Name(label))).unwrap_or_default();
        match &command.op {
            Op::Stream { stream, dev, kind, thread, priority } => {
                let mut line = format!("stream {}", self.stream(*stream));
                if *kind != StreamKind::NonBlocking {
                    line += &format!(" {}", word(&STREAM_KINDS, kind));
                }
                if *thread != ThreadId::FIRST {
                    line += &format!(" of {}", self.thread(*thread));
                }
                if *dev != 0 {
                    line += &format!(" on cuda:{dev}");
                }
                if *priority != 0 {
                    line += &format!(" priority {priority}");
                }
                line
            }
            Op::StreamDestroy { stream } => format!("destroy stream {}", self.stream(*stream)),
            Op::Alloc(alloc) => self.alloc(alloc),
            Op::Free { buffer, via, stream } => {
                let mut line = format!("free {}", self.buffer(*buffer));
                let usual = if stream.is_some() {
                    FreeVia::FreeAsync
                } else {
                    self.program.usual_free(*buffer, self.index)
                };
                if *via != usual {
                    line += &format!(" via {}", word(&FREE_VIAS, via));
                }
                self.on(line, *stream)
            }
            Op::RecordStream { buffer, stream } => {
                format!("record_stream {} on {}", self.buffer(*buffer), self.stream(*stream))
            }
            Op::Kernel(Kernel { stream, reads, writes, full_grid, takes, compute }) => {
                let head = format!("kernel{label} on {}", self.stream(*stream));
                let line = self.work(head, reads, writes, *takes, *compute);
                if *full_grid { line + " grid full" } else { line }
            }
            Op::HostFn { stream, reads, writes, takes, compute } => {
                let head = format!("host fn{label} on {}", self.stream(*stream));
                self.work(head, reads, writes, *takes, *compute)
            }
            Op::Copy(copy) => {
                let mut line = format!("copy {} <- {}", self.region(&copy.dst), self.region(&copy.src));
                let usual = self.program.blocking_device(&[copy.dst.buffer, copy.src.buffer], self.index);
                line += &self.how(copy.sync, copy.stream, usual);
                for (flag, word) in
                    [(copy.peer, "peer"), (copy.untracked, "untracked"), (copy.torch, "torch")]
                {
                    if flag {
                        line += " ";
                        line += word;
                    }
                }
                line
            }
            Op::Memset { stream, dst, sync, value } => {
                let usual = self.program.blocking_device(&[dst.buffer], self.index);
                format!("memset {} {value}{}", self.region(dst), self.how(*sync, *stream, usual))
            }
            Op::HostRead { region, expect } => {
                let line = format!("read {}", self.region(region));
                expect.as_ref().map_or(line.clone(), |c| format!("{line} expect {}", Contained(c)))
            }
            Op::HostWrite { region, contents } => {
                let line = format!("write {}", self.region(region));
                contents.as_ref().map_or(line.clone(), |c| format!("{line} = {}", Contained(c)))
            }
            Op::EventCreate { event } => format!("event {}", self.event(*event)),
            Op::EventDestroy { event } => format!("destroy event {}", self.event(*event)),
            Op::Record { event, stream } => {
                format!("record {} on {}", self.event(*event), self.stream(*stream))
            }
            Op::Wait { stream, event } => format!("wait {} on {}", self.event(*event), self.stream(*stream)),
            Op::EventSync { event } => format!("sync event {}", self.event(*event)),
            Op::EventQuery { event, ready } => {
                format!("query event {} {}", self.event(*event), answer(*ready))
            }
            Op::StreamSync { stream } => format!("sync {}", self.stream(*stream)),
            Op::StreamQuery { stream, ready } => format!("query {} {}", self.stream(*stream), answer(*ready)),
            Op::DeviceSync { dev } => format!("sync cuda:{dev}"),
            Op::ThreadSpawn { thread } => format!("spawn {}", self.thread(*thread)),
            Op::ThreadJoin { thread } => format!("join {}", self.thread(*thread)),
            Op::Signal { channel } => format!("signal {}", Name(names.channel(*channel))),
            Op::Await { channel } => format!("await {}", Name(names.channel(*channel))),
            Op::HostSleep { micros: 0 } => "sleep 0us".to_owned(),
            Op::HostSleep { micros } => format!("sleep {}", with_unit(*micros, &SLEEPS, 1)),
            Op::HostCopy { dst, src } => format!("host copy {} <- {}", self.region(dst), self.region(src)),
            Op::HostWork { time: t, cost: None } => format!("work {}", time(*t)),
            Op::HostWork { time: t, cost: Some(cost) } => {
                let line = format!("work {}", word(&HOST_COSTS, cost));
                if *t == Nanos::ZERO { line } else { format!("{line} {}", time(*t)) }
            }
            Op::CaptureBegin { stream } => format!("capture {}", self.stream(*stream)),
            Op::CaptureEnd { stream, graph } => {
                format!("end capture {} as {}", self.stream(*stream), Name(names.graph(*graph)))
            }
            Op::GraphLaunch { graph, stream } => {
                format!("launch {} on {}", Name(names.graph(*graph)), self.stream(*stream))
            }
            Op::Mark => format!("mark{label}"),
        }
    }

    fn alloc(&self, alloc: &Alloc) -> String {
        let space = word(&SPACES, &alloc.space);
        let mut line = format!("{space} {} {}", self.buffer(alloc.buffer), size(alloc.bytes, 1));
        if alloc.dev != 0 || alloc.space == Space::Device {
            line += &format!(" on cuda:{}", alloc.dev);
        }
        if alloc.via != AllocVia::Malloc {
            line += &format!(" via {}", word(&ALLOC_VIAS, &alloc.via));
        }
        if let Some(stream) = alloc.stream {
            let word = if alloc.via == AllocVia::MallocAsync { "on" } else { "home" };
            line += &format!(" {word} {}", self.stream(stream));
        }
        if let Some(reuse) = alloc.reuse {
            line += &format!(" reuse {}", self.buffer(reuse));
        }
        if let Some(contents) = &alloc.contents {
            line += &format!(" = {}", Contained(contents));
        }
        line
    }

    fn on(&self, line: String, stream: Option<StreamId>) -> String {
        match stream {
            Some(stream) => format!("{line} on {}", self.stream(stream)),
            None => line,
        }
    }

    /// `on copy`, `blocking`, or `blocking on copy` where the stream is not the usual one.
    fn how(&self, sync: bool, stream: StreamId, usual: u32) -> String {
        let is_usual = legacy_device(self.program.names().stream(stream)) == Some(usual);
        match (sync, is_usual) {
            (true, true) => " blocking".to_owned(),
            (true, false) => format!(" blocking on {}", self.stream(stream)),
            (false, _) => format!(" on {}", self.stream(stream)),
        }
    }

    fn work(
        &self,
        mut line: String,
        reads: &[Region],
        writes: &[Region],
        takes: Option<Nanos>,
        compute: Option<Compute>,
    ) -> String {
        for (word, regions) in [("reads", reads), ("writes", writes)] {
            if !regions.is_empty() {
                let list: Vec<_> = regions.iter().map(|r| self.region(r)).collect_vec();
                line += &format!(" {word} {}", list.join(", "));
            }
        }
        if let Some(takes) = takes {
            line += &format!(" for {}", time(takes));
        }
        if let Some(Compute { dtype, func }) = compute {
            line += &match func {
                Func::Fill(value) => format!(" computes {dtype} fill {}", Float(value)),
                Func::Affine { mul, add } => {
                    format!(" computes {dtype} affine {} {}", Float(mul), Float(add))
                }
                Func::Mul { conj: false } => format!(" computes {dtype} mul"),
                Func::Mul { conj: true } => format!(" computes {dtype} mul conj"),
                Func::Add => format!(" computes {dtype} add"),
                Func::Dot => format!(" computes {dtype} dot"),
                Func::Multiple { factor } => format!(" computes {dtype} multiple {}", Float(factor)),
                Func::Divide => format!(" computes {dtype} divide"),
                Func::Sqrt => format!(" computes {dtype} sqrt"),
                Func::Where { above } => format!(" computes {dtype} where {}", Float(above)),
                Func::Guard { strict: false } => format!(" computes {dtype} guard"),
                Func::Guard { strict: true } => format!(" computes {dtype} guard strict"),
                Func::Shrink { by } => format!(" computes {dtype} shrink {}", Float(by)),
            };
        }
        line
    }

    fn region(&self, region: &Region) -> String {
        let Region { buffer, span, opaque } = region;
        let end = span.off().saturating_add(span.elem());
        let mut text = self.buffer(*buffer).to_string();
        if !(span.is_range() && span.off() == 0 && end == self.program.whole(*buffer, self.index)) {
            text += &if span.is_range() {
                format!("[{}..{}]", byte(span.off()), byte(end))
            } else {
                strided(span)
            };
        }
        if *opaque {
            text += " opaque";
        }
        text
    }
}

fn byte(n: i64) -> String {
    size(n, 1 << 20)
}

fn strided(span: &Span) -> String {
    let mut text = format!("[{} at {}", byte(span.elem()), byte(span.off()));
    for dim in span.dims() {
        text += &format!(", {} every {}", dim.count, byte(dim.stride));
    }
    text + "]"
}

fn answer(ready: bool) -> &'static str {
    if ready { "ready" } else { "not ready" }
}
