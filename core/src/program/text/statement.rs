//! Reads one line as commands.

use super::lex::{Cursor, Fault};
use crate::id::{Id, TooMany};
use crate::memory::{Dim, Span};
use crate::ordered::CollectVec;
use crate::program::Program;
use crate::program::command::*;
use crate::program::words::{
    ALLOC_VIAS, FREE_VIAS, HOST_COSTS, SPACES, STREAM_KINDS, value, word as word_of,
};
use crate::units::Nanos;

/// Reads what one line says into the program.
pub(super) struct Statement<'p> {
    pub(super) program: &'p mut Program,
    /// The line stands in a loop.
    pub(super) repeated: bool,
}

impl Statement<'_> {
    pub(super) fn read(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let Some(word) = c.peek_word() else { return c.expected("a command") };
        if word == "copy" {
            return self.copy(c);
        }
        if let Some(space) = value(&SPACES, word) {
            return self.alloc(c, space);
        }
        c.step();
        match word {
            "machine" => self.machine(c),
            "stream" => self.stream(c),
            "free" => self.free(c),
            "record_stream" => {
                let buffer = self.buffer(c)?;
                c.keyword("on")?;
                let stream = self.stream_named(c)?;
                self.finish(c, Op::RecordStream { buffer, stream })
            }
            "memset" => self.memset(c),
            "kernel" => self.kernel(c, false),
            "host" if c.eat("fn") => self.kernel(c, true),
            "host" if c.peek_word() == Some("copy") => {
                c.step();
                let (dst, src) = self.dst_from_src(c)?;
                self.finish(c, Op::HostCopy { dst, src })
            }
            "host" => c.expected("`fn` or `copy`"),
            "read" => {
                let region = self.region(c)?;
                let expect = if c.eat("expect") { Some(c.contents()?) } else { None };
                if expect.is_none() {
                    rest(c, "`opaque`, `expect`")?;
                }
                self.finish(c, Op::HostRead { region, expect })
            }
            "write" => {
                let region = self.region(c)?;
                let bare = c.peek_word().is_some();
                let contents = if c.eat_mark("=") || bare { Some(c.contents()?) } else { None };
                self.finish(c, Op::HostWrite { region, contents })
            }
            "event" => {
                self.each(c, "an event", |s, name| s.event(name).map(|event| Op::EventCreate { event }))
            }
            "destroy" if c.eat("event") => {
                self.each(c, "an event", |s, name| s.event(name).map(|event| Op::EventDestroy { event }))
            }
            "destroy" if c.eat("stream") => self
                .each(c, "a stream", |s, name| s.stream_id(name).map(|stream| Op::StreamDestroy { stream })),
            "destroy" => c.expected("`event` or `stream`"),
            "record" => {
                let (event, stream) = self.event_on_stream(c)?;
                self.finish(c, Op::Record { event, stream })
            }
            "wait" => {
                let (event, stream) = self.event_on_stream(c)?;
                self.finish(c, Op::Wait { stream, event })
            }
            "sync" => self.sync(c),
            "query" => self.query(c),
            "spawn" => self
                .each(c, "a host thread", |s, name| s.thread(name).map(|thread| Op::ThreadSpawn { thread })),
            "join" => self
                .each(c, "a host thread", |s, name| s.thread(name).map(|thread| Op::ThreadJoin { thread })),
            "signal" => {
                self.each(c, "a channel", |s, name| s.channel(name).map(|channel| Op::Signal { channel }))
            }
            "await" => {
                self.each(c, "a channel", |s, name| s.channel(name).map(|channel| Op::Await { channel }))
            }
            "sleep" => {
                let micros = c.sleep()?;
                self.finish(c, Op::HostSleep { micros })
            }
            "work" => self.work(c),
            "capture" => {
                let stream = self.stream_named(c)?;
                self.finish(c, Op::CaptureBegin { stream })
            }
            "end" => {
                c.keyword("capture")?;
                let stream = self.stream_named(c)?;
                c.keyword("as")?;
                let graph = self.graph(c)?;
                self.finish(c, Op::CaptureEnd { stream, graph })
            }
            "launch" => {
                let graph = self.graph(c)?;
                c.keyword("on")?;
                let stream = self.stream_named(c)?;
                self.finish(c, Op::GraphLaunch { graph, stream })
            }
            "mark" => {
                let label = if c.peek().is_some() { Some(c.name("a name")?.to_owned()) } else { None };
                c.end()?;
                self.program.push_labelled(Op::Mark, label.as_deref());
                Ok(())
            }
            "repeat" => Err("`repeat` stands at the start of its line".to_owned()),
            _ => Err(format!("unknown command `{word}`{}", nearest(word))),
        }
    }

    /// Reads a label and the end of the line, and adds the command.
    fn finish(&mut self, c: &mut Cursor<'_>, op: Op) -> Result<(), Fault> {
        self.finish_each(c, vec![op])
    }

    fn finish_each(&mut self, c: &mut Cursor<'_>, ops: Vec<Op>) -> Result<(), Fault> {
        let label = c.label();
        c.end()?;
        for op in ops {
            self.program.push_labelled(op, label.as_deref());
        }
        Ok(())
    }

    /// A command for each of several names.
    fn each(
        &mut self,
        c: &mut Cursor<'_>,
        what: &str,
        op: impl Fn(&mut Self, &str) -> Result<Op, Fault>,
    ) -> Result<(), Fault> {
        let names = c.names(what)?;
        let ops = names.iter().map(|name| op(self, name)).try_collect_vec()?;
        self.finish_each(c, ops)
    }

    fn stream_id(&mut self, name: &str) -> Result<StreamId, Fault> {
        fits(self.program.names_mut().streams.intern(name))
    }

    fn buffer_id(&mut self, name: &str) -> Result<BufferId, Fault> {
        fits(self.program.names_mut().buffers.intern(name))
    }

    fn event(&mut self, name: &str) -> Result<EventId, Fault> {
        fits(self.program.names_mut().events.intern(name))
    }

    fn thread(&mut self, name: &str) -> Result<ThreadId, Fault> {
        fits(self.program.names_mut().threads.intern(name))
    }

    fn channel(&mut self, name: &str) -> Result<ChannelId, Fault> {
        fits(self.program.names_mut().channels.intern(name))
    }

    fn graph(&mut self, c: &mut Cursor<'_>) -> Result<GraphId, Fault> {
        fits(self.program.names_mut().graphs.intern(c.name("a graph")?))
    }

    fn stream_named(&mut self, c: &mut Cursor<'_>) -> Result<StreamId, Fault> {
        self.stream_id(c.name("a stream")?)
    }

    /// A device, or nothing where a stream is named.
    fn device(&self, c: &mut Cursor<'_>) -> Result<Option<u32>, Fault> {
        c.device(|word| self.program.names().streams.find(word).is_some())
    }

    fn buffer(&mut self, c: &mut Cursor<'_>) -> Result<BufferId, Fault> {
        self.buffer_id(c.name("a buffer")?)
    }

    fn event_on_stream(&mut self, c: &mut Cursor<'_>) -> Result<(EventId, StreamId), Fault> {
        let event = self.event(c.name("an event")?)?;
        c.keyword("on")?;
        Ok((event, self.stream_named(c)?))
    }

    fn machine(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let name = c.name("the name of a machine")?.to_owned();
        c.end()?;
        if self.repeated {
            return Err("`machine` stands outside of loops".to_owned());
        }
        once(&mut self.program.machine, name, "machine")
    }

    fn stream(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let names = c.names("a stream")?;
        let (mut kind, mut of, mut dev, mut priority) = (None, None, None, None);
        while let Some(word) = c.peek_word() {
            if let Some(found) = value(&STREAM_KINDS, word) {
                c.step();
                if let Some(before) = kind.filter(|before| *before != found) {
                    let before = word_of(&STREAM_KINDS, &before);
                    return Err(format!("a stream is `{before}` or `{word}`, not both"));
                }
                once(&mut kind, found, word)?;
            } else if c.eat("of") {
                once(&mut of, self.thread(c.name("a host thread")?)?, "of")?;
            } else if c.eat("on") {
                match c.device(|_| false)? {
                    Some(found) => once(&mut dev, found, "on")?,
                    None => return c.expected("a device such as `cuda:0`"),
                }
            } else if c.eat("priority") {
                once(&mut priority, c.int("a priority")?, "priority")?;
            } else {
                return c.expected(
                    "`nonblocking`, `blocking`, `per_thread`, `of`, `on`, `priority` or the end of the line",
                );
            }
        }
        let kind = kind.unwrap_or(StreamKind::NonBlocking);
        if of.is_some() && kind != StreamKind::PerThread {
            return Err("`of` names the host thread of a `per_thread` stream, and this is none".to_owned());
        }
        let mut ops = Vec::with_capacity(names.len());
        for name in &names {
            ops.push(Op::Stream {
                stream: self.stream_id(name)?,
                dev: dev.unwrap_or(0),
                kind,
                thread: of.unwrap_or(ThreadId::FIRST),
                priority: priority.unwrap_or(0),
            });
        }
        self.finish_each(c, ops)
    }

    fn alloc(&mut self, c: &mut Cursor<'_>, space: Space) -> Result<(), Fault> {
        c.step();
        let names = c.names("a buffer")?;
        let bytes = c.size("a size such as 4MiB")?;
        let (mut dev, mut via, mut stream, mut reuse, mut contents) = (None, None, None, None, None);
        loop {
            if c.eat("on") {
                match self.device(c)? {
                    Some(found) => once(&mut dev, found, "on")?,
                    None => once(&mut stream, self.stream_named(c)?, "on")?,
                }
            } else if c.eat("via") {
                once(&mut via, c.one_of("an allocator", &ALLOC_VIAS)?, "via")?;
            } else if c.eat("home") {
                once(&mut stream, self.stream_named(c)?, "home")?;
            } else if c.eat("reuse") {
                once(&mut reuse, self.buffer(c)?, "reuse")?;
            } else if c.eat_mark("=") {
                once(&mut contents, c.contents()?, "=")?;
            } else if c.peek_word().is_some() {
                return c.expected("`on`, `via`, `home`, `reuse`, `=` or the end of the line");
            } else {
                break;
            }
        }
        let (dev, via) = (dev.unwrap_or(0), via.unwrap_or(AllocVia::Malloc));
        let mut ops = Vec::with_capacity(names.len());
        for name in &names {
            let buffer = self.buffer_id(name)?;
            let contents = contents.clone();
            ops.push(Op::Alloc(Alloc { buffer, bytes, space, dev, via, stream, reuse, contents }));
        }
        self.finish_each(c, ops)
    }

    fn free(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let names = c.names("a buffer")?;
        let (mut via, mut stream) = (None, None);
        loop {
            if c.eat("via") {
                once(&mut via, c.one_of("a way to free", &FREE_VIAS)?, "via")?;
            } else if c.eat("on") {
                once(&mut stream, self.stream_named(c)?, "on")?;
            } else {
                break;
            }
        }
        rest(c, "`via`, `on`")?;
        let mut ops = Vec::with_capacity(names.len());
        for name in &names {
            let buffer = self.buffer_id(name)?;
            let usual = if stream.is_some() {
                FreeVia::FreeAsync
            } else {
                self.program.usual_free(buffer, self.program.len())
            };
            ops.push(Op::Free { buffer, via: via.unwrap_or(usual), stream });
        }
        self.finish_each(c, ops)
    }

    fn dst_from_src(&mut self, c: &mut Cursor<'_>) -> Result<(Region, Region), Fault> {
        let dst = self.region(c)?;
        if !c.eat_mark("<-") {
            return c.expected("`<-` and the source");
        }
        Ok((dst, self.region(c)?))
    }

    fn copy(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        c.step();
        let (dst, src) = self.dst_from_src(c)?;
        let (mut stream, mut sync, mut peer, mut untracked, mut torch) = (None, false, false, false, false);
        loop {
            if c.eat("on") {
                once(&mut stream, self.stream_named(c)?, "on")?;
            } else if !(flag(c, &mut sync, "blocking")?
                || flag(c, &mut peer, "peer")?
                || flag(c, &mut untracked, "untracked")?
                || flag(c, &mut torch, "torch")?)
            {
                break;
            }
        }
        let stream = match stream {
            Some(stream) => stream,
            None if sync => self.program.legacy_of(&[dst.buffer, src.buffer]),
            None => return c.expected("`on` and a stream, or `blocking`"),
        };
        rest(c, "`blocking`, `peer`, `untracked`, `torch`")?;
        self.finish(c, Op::Copy(Copy { stream, dst, src, sync, peer, untracked, torch }))
    }

    fn memset(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let dst = self.region(c)?;
        let starts_with_digit =
            |word: &str| word.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        let value = if c.peek_word().is_some_and(starts_with_digit) { c.int("a byte, 0 to 255")? } else { 0 };
        let value = u8::try_from(value).map_err(|_| format!("{value} is no byte, 0 to 255"))?;
        let (mut stream, mut sync) = (None, false);
        loop {
            if c.eat("on") {
                once(&mut stream, self.stream_named(c)?, "on")?;
            } else if !flag(c, &mut sync, "blocking")? {
                break;
            }
        }
        let stream = match stream {
            Some(stream) => stream,
            None if sync => self.program.legacy_of(&[dst.buffer]),
            None => return c.expected("`on` and a stream, or `blocking`"),
        };
        rest(c, "`blocking`")?;
        self.finish(c, Op::Memset { stream, dst, sync, value })
    }

    fn kernel(&mut self, c: &mut Cursor<'_>, on_host: bool) -> Result<(), Fault> {
        const PARTS: [&str; 6] = ["on", "reads", "writes", "for", "computes", "grid"];
        let unnamed = c.peek().is_none() || c.peek_word().is_some_and(|word| PARTS.contains(&word));
        let label = if unnamed { None } else { Some(c.name("a name")?.to_owned()) };
        let (mut stream, mut reads, mut writes) = (None, None, None);
        let (mut takes, mut compute, mut full_grid) = (None, None, false);
        while c.peek().is_some() {
            if c.eat("on") {
                once(&mut stream, self.stream_named(c)?, "on")?;
            } else if c.eat("reads") {
                once(&mut reads, self.regions(c)?, "reads")?;
            } else if c.eat("writes") {
                once(&mut writes, self.regions(c)?, "writes")?;
            } else if c.eat("for") {
                once(&mut takes, c.time("a time such as 120us")?, "for")?;
            } else if c.eat("computes") {
                once(&mut compute, c.compute()?, "computes")?;
            } else if !on_host && flag(c, &mut full_grid, "grid")? {
                c.keyword("full")?;
            } else {
                let grid = if on_host { "" } else { ", `grid full`" };
                let parts =
                    format!("`on`, `reads`, `writes`, `for`, `computes`{grid} or the end of the line");
                return c.expected(&parts);
            }
        }
        let Some(stream) = stream else { return c.expected("`on` and a stream") };
        let (reads, writes) = (reads.unwrap_or_default(), writes.unwrap_or_default());
        let op = if on_host {
            Op::HostFn { stream, reads, writes, takes, compute }
        } else {
            Op::Kernel(Kernel { stream, reads, writes, full_grid, takes, compute })
        };
        self.program.push_labelled(op, label.as_deref());
        Ok(())
    }

    fn sync(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let op = if let Some(dev) = self.device(c)? {
            Op::DeviceSync { dev }
        } else if c.eat("device") {
            Op::DeviceSync { dev: c.device_number()? }
        } else if c.eat("event") {
            Op::EventSync { event: self.event(c.name("an event")?)? }
        } else {
            c.eat("stream");
            Op::StreamSync { stream: self.stream_named(c)? }
        };
        self.finish(c, op)
    }

    fn query(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let of_event = c.eat("event");
        if !of_event {
            c.eat("stream");
        }
        let name = c.name(if of_event { "an event" } else { "a stream" })?.to_owned();
        let ready = !c.eat("not");
        if !c.eat("ready") {
            return c.expected("the answer, `ready` or `not ready`");
        }
        let op = if of_event {
            Op::EventQuery { event: self.event(&name)?, ready }
        } else {
            Op::StreamQuery { stream: self.stream_id(&name)?, ready }
        };
        self.finish(c, op)
    }

    fn work(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let cost = c.peek_word().and_then(|word| value(&HOST_COSTS, word));
        let time = match cost {
            None => c.time("a time such as 13us, or `framework_to`, `dict_leaf` or `pin_overhead`")?,
            Some(_) => {
                c.step();
                if c.peek_word().is_some() { c.time("a time")? } else { Nanos::ZERO }
            }
        };
        self.finish(c, Op::HostWork { time, cost })
    }

    fn regions(&mut self, c: &mut Cursor<'_>) -> Result<Vec<Region>, Fault> {
        let mut regions = vec![self.region(c)?];
        while c.eat_mark(",") {
            regions.push(self.region(c)?);
        }
        Ok(regions)
    }

    fn region(&mut self, c: &mut Cursor<'_>) -> Result<Region, Fault> {
        let buffer = self.buffer(c)?;
        let bytes = self.program.whole(buffer, self.program.len());
        let span = if c.eat_mark("[") { span(c, bytes)? } else { range(0, bytes)? };
        Ok(Region { buffer, span, opaque: c.eat("opaque") })
    }
}

pub(super) fn fits<T>(id: Result<Id<T>, TooMany>) -> Result<Id<T>, Fault> {
    id.map_err(|e| e.to_string())
}

/// Puts the value of a part of a line in its place, once.
fn once<T>(place: &mut Option<T>, value: T, what: &str) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{what}` stands twice")),
    }
}

/// A word that needs nothing after it, such as `peer`; each once.
fn flag(c: &mut Cursor<'_>, place: &mut bool, word: &str) -> Result<bool, Fault> {
    let found = c.eat(word);
    if found && std::mem::replace(place, true) {
        return Err(format!("`{word}` stands twice"));
    }
    Ok(found)
}

/// No word but these could stand here.
fn rest(c: &Cursor<'_>, words: &str) -> Result<(), Fault> {
    match c.peek_word() {
        Some(_) => c.expected(&format!("{words} or the end of the line")),
        None => Ok(()),
    }
}

fn range(from: i64, to: i64) -> Result<Span, Fault> {
    let len = to.checked_sub(from).ok_or_else(|| format!("range {from}..{to}: its length leaves i64"))?;
    if len < 0 {
        return Err(format!("range {from}..{to} ends before it begins"));
    }
    Span::range(from, len).map_err(|e| format!("range {from}..{to}: {e}"))
}

/// What stands behind a `[`, up to and with the `]`; `bytes` is the size of the buffer.
fn span(c: &mut Cursor<'_>, bytes: i64) -> Result<Span, Fault> {
    let first =
        if c.mark_ahead(0, "..") { 0 } else { c.size("a byte, as in [0..4096] or [4 at 0, 64 every 256]")? };
    let span = if c.eat_mark("..") {
        let to = if c.mark_ahead(0, "]") { bytes } else { c.size("the byte after the last")? };
        range(first, to)?
    } else if c.eat("at") {
        let off = c.size("where the first run starts")?;
        let mut dims = Vec::new();
        while c.eat_mark(",") {
            let count = c.int("a number of runs")?;
            c.keyword("every")?;
            dims.push(Dim { count, stride: c.size("the bytes from one run to the next")? });
        }
        Span::strided(off, first, dims).map_err(|e| format!("runs of {first} bytes at {off}: {e}"))?
    } else {
        return c.expected("`..` or `at`");
    };
    if c.eat_mark("]") { Ok(span) } else { c.expected("`]`") }
}

/// The command that a misspelt word comes closest to, as a question; empty when none is close.
fn nearest(word: &str) -> String {
    const COMMANDS: [&str; 32] = [
        "title",
        "machine",
        "stream",
        "device",
        "pinned",
        "pageable",
        "managed",
        "free",
        "record_stream",
        "copy",
        "memset",
        "kernel",
        "host",
        "read",
        "write",
        "event",
        "destroy",
        "record",
        "wait",
        "sync",
        "query",
        "spawn",
        "join",
        "signal",
        "await",
        "sleep",
        "work",
        "capture",
        "launch",
        "mark",
        "repeat",
        "end",
    ];
    match super::nearest(word, &mut COMMANDS.into_iter()) {
        Some(known) => format!("; did you mean `{known}`?"),
        None => String::new(),
    }
}
