//! Programs: what host threads ask of devices, as plain data.
//!
//! A [`Program`] is a list of commands over named streams, buffers, events, threads, channels and graphs. It is built
//! with methods, read from JSON or from the text form, and looked at by the hazard checker, the simulator and the
//! backends; it knows none of them.
//!
//! **Invariant:** commands stand in the order in which the host calls happen; with several host threads it is one legal
//! interleaving. A command's index is its position.
//!
//! ```
//! use spanlift::{Program, mib, us};
//!
//! let mut p = Program::new();
//! let (copy, compute) = (p.stream("copy"), p.stream("compute"));
//! let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
//! p.copy(d, x).on(copy); // d <- x
//! let ready = p.event_after(copy);
//! p.wait(compute, ready);
//! p.kernel("scale").reads(d).writes(d).takes(us(120)).on(compute);
//! p.sync(compute);
//! assert!(p.check().is_ok()); // well formed; whether it is safe is asked of `hazard::check`
//! assert_eq!(Program::from_text(&p.to_text())?, p);
//! assert_eq!(Program::from_json(p.to_json().as_bytes())?, p);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod alive;
mod build;
pub(crate) mod captured;
mod check;
pub mod code;
mod command;
mod computes;
mod edit;
pub mod json;
mod names;
mod problem;
mod rewrite;
mod same;
mod stream;
pub mod text;
mod words;

use std::sync::Arc;

pub(crate) use alive::Walk;
pub use alive::{Alive, AliveBuffer, AliveBytes, AliveOn};
pub(crate) use build::Source;
pub use build::{
    AllocDraft, Arrangement, CopyDraft, IssueOrder, KernelDraft, Loader, MemsetDraft, Part, Pin, Pipeline,
    PipelineError, Refill, TensorTo, Torch, Transfer,
};
pub(crate) use check::Known;
pub use check::{BufferFacts, Facts, GraphFacts, StreamFacts};
pub use command::{
    Alloc, AllocVia, Buffer, BufferId, Channel, ChannelId, Command, Compute, Contents, Copy, Event, EventId,
    FreeVia, Func, Graph, GraphId, HostCost, Kernel, Op, Region, Space, Stream, StreamId, StreamKind, Thread,
    ThreadId,
};
pub use computes::Computes;
pub use edit::Edit;
pub use names::Names;
pub use problem::{LineProblem, LineProblems, Problem, Problems, ReadError};
pub use rewrite::Renaming;
pub(crate) use stream::read_each;
pub(crate) use words::MAX_DEVICES;

/// What host threads ask of devices, in order.
///
/// Cheap to clone: the commands are shared until one side changes.
///
/// # Examples
/// ```
/// use spanlift::{Program, mib, us};
///
/// let mut p = Program::new();
/// let copy = p.stream("copy");
/// let compute = p.stream("compute");
/// let x = p.pinned("x", mib(4));
/// let d = p.device(0, "d", mib(4));
/// p.copy(d, x).on(copy);
/// p.kernel("scale").reads(d).writes(d).takes(us(120)).on(compute);
/// p.sync(compute);
/// assert_eq!(p.len(), 7);
/// assert!(p.check().is_ok()); // well formed; whether it is safe is asked of `hazard::check`
/// ```
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// What it shows, for people.
    pub title: String,
    /// The name of the machine profile that its author had in mind.
    pub machine: Option<String>,
    /// The line of the text that names it.
    machine_line: Option<u32>,
    commands: Arc<Vec<Command>>,
    names: Arc<Names>,
    /// The line of the text form that each command came from; empty for programs that had none.
    lines: Arc<Vec<u32>>,
    /// What each buffer was declared as, first where there are several declarations.
    allocs: Arc<Vec<Option<Declared>>>,
    /// Commands that were handed on and stand before `commands`; only readers that keep nothing do so.
    n_gone: usize,
    /// Who makes the calls that the builder adds; `main` but for the length of [`Program::by`].
    caller: ThreadId,
}

/// What the text form has to know of a buffer's declaration.
#[derive(Debug, Clone, Copy)]
struct Declared {
    index: usize,
    bytes: i64,
    space: Space,
    dev: u32,
    via: AllocVia,
    stream: Option<StreamId>,
}

impl Program {
    /// A program without commands.
    pub fn new() -> Program {
        Program::default()
    }

    /// The commands in order.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Number of commands, declarations included.
    pub fn len(&self) -> usize {
        self.n_gone + self.commands.len()
    }

    /// Whether there is no command.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of everything that the commands mention.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The line of the text form that command `index` came from, counted from 1.
    pub fn line(&self, index: usize) -> Option<u32> {
        self.lines.get(index).copied()
    }

    /// The line of the text that names the machine, counted from 1; `None` where no text does.
    ///
    /// ```
    /// use spanlift::Program;
    /// let p = Program::from_text("# teaches\nmachine h200-pcie5\nstream s")?;
    /// assert_eq!((p.machine.as_deref(), p.machine_line()), (Some("h200-pcie5"), Some(2)));
    /// # Ok::<(), spanlift::program::ReadError>(())
    /// ```
    pub fn machine_line(&self) -> Option<u32> {
        self.machine_line
    }

    /// Looks the whole program over and gives the tables that its readers need.
    ///
    /// Safety is not asked here: a race is no problem of form. A bad declaration still declares its name, so that it is told of once and
    /// not again at every use.
    ///
    /// | problem | reason |
    /// |---|---|
    /// | a name that nothing declared before it (a per-thread stream's thread: anywhere) | contract |
    /// | a field that the command needs and lacks, a size, time or number outside its range | contract |
    /// | a span outside its physical block | contract |
    /// | double free of a name, whatever the way | contract |
    /// | `record`, `wait`, `event_sync`, `event_query` on a destroyed event that was not created again | contract |
    /// | destroying such an event a second time | a destroyed handle is used |
    /// | `capture_begin` on a legacy stream; work on a legacy stream while a blocking or per-thread stream captures | contract |
    /// | `stream_sync` or `stream_query` of a capturing stream; a capturing stream waiting for an event that its capture did not record | contract |
    /// | `device_sync` while a stream of that device captures, `stream_sync` or `stream_query` of its legacy stream while a blocking or per-thread one does; `event_sync` or `event_query` of an event that an open capture recorded, and a legacy stream waiting for one; `free_async` on a capturing stream of memory that its capture did not allocate | refused in every mode of capture |
    /// | `capture_end` with work that never joined back to the origin; a PyTorch copy of pageable memory on a capturing stream | contract |
    /// | `graph_launch` on a capturing stream | graphs within graphs are not modelled |
    /// | more than 2^20 commands captured in all, or more than 2^24 run by launches | each is kept, each is looked at |
    /// | a stream, buffer, thread or graph declared twice; a use of a destroyed stream | a name means one thing |
    /// | `capture_begin` while capturing, `capture_end` anywhere but on a capture's origin, joining or starting `main`, destroying a legacy stream | without meaning |
    ///
    /// Well formed, though odd: creating an event twice, calls of a joined thread, captures that never end, an `await` of a channel that
    /// nothing before it signals (it waits for nothing, as a wait for an event that is not recorded does), and a copy whose two sides
    /// differ in size (the smaller count moves).
    ///
    /// # Errors
    /// All [`Problems`] at once, each with the index of its command.
    ///
    /// # Cost
    /// Linear in the number of commands and regions.
    ///
    /// # What hardware answered
    ///
    /// What a driver refuses while a stream captures depends on the capture's mode (`cudaStreamCaptureMode`), and programs have none: only
    /// what every mode refuses is a problem. An H200 (driver 580.159.04, CUDA 13.0) was asked on 2026-11-28, while a non-blocking stream
    /// captured; its answers are `native/measured/capture-h200-2026-11-28.json`, under the names below. A test holds each against this check.
    ///
    /// | answer | asked | here |
    /// |---|---|---|
    /// | refused in every mode | `ctx_sync` `ctx_sync_other_thread` `stream_sync_self` `stream_query_self` `event_sync_captured` `event_query_captured` `wait_recorded_before` `wait_legacy_record` `free_async_before` `begin_twice` `event_elapsed` | a problem; no command asks for elapsed time |
    /// | refused in some modes | `stream_sync_other` `stream_query_other` `event_sync_before` `event_query_before` `alloc` `free` `alloc_host` `free_host` `register` `alloc_async_other` `alloc_other_thread` `stream_sync_other_thread` | well formed: relaxed mode does it |
    /// | done in every mode | `nothing` `legacy_memcpy` `memset_sync` `memcpy_async_pageable` `memcpy_async_pinned` `memcpy_d2d_async` `pageable_d2h` `alloc_async_self` `free_async_own` `record_legacy` `destroy_stream` `wait_never_recorded` | well formed, but for the last: what a capture waits for it has to record |
    ///
    /// # Examples
    /// ```
    /// let mut p = spanlift::Program::new();
    /// let s = p.stream_id("s"); // named, and never declared
    /// p.sync(s);
    /// assert_eq!(p.check().unwrap_err().to_string(), "command 0: stream \"s\" is not declared");
    /// ```
    pub fn check(&self) -> Result<Facts, Problems> {
        check::check(self)
    }

    /// The program as JSON, one command a line.
    pub fn to_json(&self) -> String {
        json::write(self)
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// [`ReadError::Syntax`] when the bytes are no JSON object with a list `ops`; [`ReadError::Problems`] with every
    /// problem of the commands otherwise.
    pub fn from_json(bytes: &[u8]) -> Result<Program, ReadError> {
        json::read(utf8(bytes)?)
    }

    /// The program in its text form, one command a line; it reads back as an equal program.
    ///
    /// ```
    /// let mut p = spanlift::Program::new();
    /// let s = p.stream("s");
    /// let x = p.pinned("x", spanlift::mib(4));
    /// let d = p.device(0, "d", spanlift::mib(4));
    /// p.copy(d, x).on(s);
    /// assert_eq!(p.to_text(), "stream  s\npinned  x 4MiB\ndevice  d 4MiB on cuda:0\ncopy    d <- x on s\n");
    /// ```
    pub fn to_text(&self) -> String {
        text::write(self)
    }

    /// Reads the text form, whose grammar stands in [`text`].
    ///
    /// # Errors
    /// [`ReadError::Lines`] with every line that is no command and the problems of the commands above the first of them (at most
    /// 50 lines); when all are commands, [`ReadError::Problems`] with every problem of the commands.
    pub fn from_text(text: &str) -> Result<Program, ReadError> {
        text::read(text)
    }

    /// Reads a program file: JSON when its first non-blank byte is `{`, else the text form. A byte order mark is skipped.
    ///
    /// # Errors
    /// As [`Program::from_json`] and [`Program::from_text`]; an empty file and bytes that are no UTF-8 are
    /// [`ReadError::Syntax`].
    pub fn read(bytes: &[u8]) -> Result<Program, ReadError> {
        let text = utf8(bytes)?;
        match text.text.trim_ascii_start().bytes().next() {
            None => Err(ReadError::Syntax { offset: bytes.len(), message: "the file is empty".to_owned() }),
            Some(b'{') => json::read(text),
            Some(_) => text::read(text.text),
        }
    }
}

/// The text of a file.
struct FileText<'a> {
    text: &'a str,
    /// Bytes of the file that stand before `text`: a byte order mark.
    skipped: usize,
}

fn utf8(bytes: &[u8]) -> Result<FileText<'_>, ReadError> {
    let skipped = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    match std::str::from_utf8(&bytes[skipped..]) {
        Ok(text) => Ok(FileText { text, skipped }),
        Err(e) => Err(ReadError::Syntax {
            offset: skipped + e.valid_up_to(),
            message: "the file is no UTF-8 text".to_owned(),
        }),
    }
}
