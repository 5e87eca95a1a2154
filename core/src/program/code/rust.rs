//! Programs in Rust: the calls of the builder that make them.

use super::{Idents, Lines};
use crate::memory::Dtype;
use crate::ordered::{CollectVec, sort};
use crate::program::Program;
use crate::program::command::*;
use crate::program::names::legacy_device;
use crate::units::Nanos;

const RESERVED: &str = "Bytes Err Nanos None Ok Self Some abstract as async await become box break const continue crate do dyn else enum \
    extern false final fn for gen if impl in kib let loop macro match mib mod move mut override p priv program pub ref return self static \
    struct super trait true try type typeof union unsafe unsized us use virtual where while yield";

pub(super) fn write(program: &Program) -> String {
    let ids = Idents::of(program, RESERVED, |_| false);
    let seen = [ids.streams.len(), ids.events.len(), ids.threads.len(), ids.channels.len()];
    let mut writer = Writer { program, out: Lines::new("//"), ids, seen: seen.map(|n| vec![false; n]) };
    writer.seen[2][0] = true;
    writer.out.depth = 1;
    for (index, command) in program.commands().iter().enumerate() {
        writer.command(command, index);
    }
    let body = writer.out.text;
    // Names that the body uses, as they stand there, in the order in which imports are sorted.
    let import = |text: &mut String, from: &str, names: &[&'static str]| {
        let bare = |name: &&str| name.trim_end_matches([':', '(', ' ', '{']).to_owned();
        let mut used: Vec<String> = names.iter().filter(|name| body.contains(**name)).map(bare).collect_vec();
        used.extend((from == "spanlift").then(|| "Program".to_owned()));
        sort(&mut used);
        match used.as_slice() {
            [] => {}
            [one] => *text += &format!("use {from}::{one};\n"),
            all => *text += &format!("use {from}::{{{}}};\n", all.join(", ")),
        }
    };
    let mut text = String::new();
    import(&mut text, "spanlift::memory", &["Dtype::"]);
    #[rustfmt::skip]
    import(&mut text, "spanlift::program", &[
        "AllocVia::", "Compute {", "Contents::", "Copy {", "FreeVia::", "Func::", "HostCost::", "Op::", "Space::",
        "StreamKind::", "ThreadId::",
    ]);
    import(&mut text, "spanlift", &["Bytes(", "Nanos(", "kib(", "mib(", "us("]);
    text.push('\n');
    text += "fn program() -> Program {\n    let mut p = Program::new();\n";
    if !program.title.is_empty() {
        text += &format!("    p.title = {:?}.to_owned();\n", program.title);
    }
    if let Some(machine) = &program.machine {
        text += &format!("    p.machine = Some({machine:?}.to_owned());\n");
    }
    text + &body + "    p\n}\n"
}

struct Writer<'a> {
    program: &'a Program,
    out: Lines,
    ids: Idents,
    /// Streams, events, threads and channels that have their name already.
    seen: [Vec<bool>; 4],
}

impl Writer<'_> {
    fn command(&mut self, command: &Command, index: usize) {
        let names = self.program.names();
        // What is mentioned before anything declares it gets its name first.
        if let Some(stream) = command.op.stream().filter(|_| !matches!(command.op, Op::Stream { .. }))
            && !std::mem::replace(&mut self.seen[0][stream.index()], true)
        {
            let call = match legacy_device(names.stream(stream)) {
                Some(dev) => format!("legacy({dev})"),
                None => format!("stream_id({:?})", names.stream(stream)),
            };
            self.out.line(&format!("let {} = p.{call};", self.ids.streams[stream.index()]));
        }
        let first = match command.op {
            Op::EventDestroy { event }
            | Op::Record { event, .. }
            | Op::Wait { event, .. }
            | Op::EventSync { event }
            | Op::EventQuery { event, .. } => {
                Some((1, event.index(), &self.ids.events, "event", names.event(event)))
            }
            Op::Signal { channel } | Op::Await { channel } => {
                Some((3, channel.index(), &self.ids.channels, "channel", names.channel(channel)))
            }
            Op::Stream { thread, .. } | Op::ThreadJoin { thread } => {
                Some((2, thread.index(), &self.ids.threads, "thread_id", names.thread(thread)))
            }
            _ => None,
        };
        if let Some((kind, k, idents, call, name)) = first
            && !std::mem::replace(&mut self.seen[kind][k], true)
        {
            self.out.line(&format!("let {} = p.{call}({name:?});", idents[k]));
        }
        let (made, call) = self.call(command, index);
        let call = match command.thread {
            main if main == ThreadId::FIRST => call,
            thread => format!("p.by({}, |p| {call})", self.ids.threads[thread.index()]),
        };
        let line = made.map_or(format!("{call};"), |name| format!("let {name} = {call};"));
        let has_label =
            matches!(command.op, Op::Kernel(_) | Op::HostFn { .. } | Op::Mark | Op::HostWork { .. });
        match command.label.as_deref().filter(|_| !has_label) {
            Some(label) => self.out.told(&line, label),
            None => self.out.line(&line),
        }
    }

    /// What the call gives a name to, and the call.
    fn call(&mut self, command: &Command, index: usize) -> (Option<String>, String) {
        let names = self.program.names();
        let ids = &self.ids;
        let stream = |id: StreamId| ids.streams[id.index()].as_str();
        let buffer = |id: BufferId| ids.buffers[id.index()].as_str();
        let event = |id: EventId| ids.events[id.index()].as_str();
        let label = command.label.as_deref().unwrap_or_default();
        let mut made = None;
        let call = match &command.op {
            Op::Stream { stream: id, dev, kind, thread, priority } => {
                self.seen[0][id.index()] = true;
                made = Some(stream(*id).to_owned());
                let name = names.stream(*id);
                match (kind, dev, priority) {
                    (StreamKind::NonBlocking, 0, 0) => format!("p.stream({name:?})"),
                    (StreamKind::NonBlocking, _, 0) => format!("p.stream_on({dev}, {name:?})"),
                    (StreamKind::Blocking, _, 0) => format!("p.blocking_stream({dev}, {name:?})"),
                    (StreamKind::PerThread, _, 0) => {
                        format!("p.thread_stream({dev}, {name:?}, {})", self.thread(*thread))
                    }
                    _ => {
                        let id = stream(*id);
                        self.out.line(&format!("let {id} = p.stream_id({name:?});"));
                        made = None;
                        format!(
                            "p.push(Op::Stream {{ stream: {id}, dev: {dev}, kind: StreamKind::{kind:?}, thread: {}, priority: {priority} }})",
                            self.thread(*thread)
                        )
                    }
                }
            }
            Op::StreamDestroy { stream: id } => format!("p.destroy_stream({})", stream(*id)),
            Op::Alloc(alloc) => {
                made = Some(buffer(alloc.buffer).to_owned());
                self.alloc(alloc)
            }
            Op::Free { buffer: id, via, stream: on } => match (via, on) {
                (FreeVia::FreeAsync, Some(on)) => format!("p.free_async({}, {})", buffer(*id), stream(*on)),
                (via, Some(on)) => format!(
                    "p.push(Op::Free {{ buffer: {}, via: FreeVia::{via:?}, stream: Some({}) }})",
                    buffer(*id),
                    stream(*on)
                ),
                (via, None) if *via == self.program.usual_free(*id, index) => {
                    format!("p.free({})", buffer(*id))
                }
                (via, None) => format!("p.free_via({}, FreeVia::{via:?})", buffer(*id)),
            },
            Op::RecordStream { buffer: id, stream: on } => {
                format!("p.record_stream({}, {})", buffer(*id), stream(*on))
            }
            Op::Kernel(Kernel { stream: on, reads, writes, full_grid, takes, compute }) => {
                let work = self.work(reads, writes, *takes, *compute);
                let grid = if *full_grid { ".full_grid()" } else { "" };
                format!("p.kernel({label:?}){work}{grid}.on({})", stream(*on))
            }
            Op::HostFn { stream: on, reads, writes, takes, compute } => {
                let work = self.work(reads, writes, *takes, *compute);
                format!("p.host_fn({label:?}){work}.on({})", stream(*on))
            }
            Op::Copy(copy) => self.copy(copy, index),
            Op::Memset { stream: on, dst, sync, value } => {
                let usual = self.program.blocking_device(&[dst.buffer], index);
                let is_usual = legacy_device(names.stream(*on)) == Some(usual);
                match (sync, is_usual) {
                    (false, _) => format!("p.memset({}, {value}).on({})", self.part(dst), stream(*on)),
                    (true, true) => format!("p.memset({}, {value}).blocking()", self.part(dst)),
                    (true, false) => format!(
                        "p.push(Op::Memset {{ stream: {}, dst: {}, sync: true, value: {value} }})",
                        stream(*on),
                        self.region(dst)
                    ),
                }
            }
            Op::HostRead { region, expect: None } => format!("p.host_read({})", self.part(region)),
            Op::HostRead { region, expect: Some(expect) } => {
                format!("p.host_expect({}, {})", self.part(region), contents(expect))
            }
            Op::HostWrite { region, contents: None } => format!("p.host_write({}, None)", self.part(region)),
            Op::HostWrite { region, contents: Some(to) } => {
                format!("p.host_write({}, {})", self.part(region), contents(to))
            }
            Op::EventCreate { event: id } => {
                self.seen[1][id.index()] = true;
                made = Some(event(*id).to_owned());
                format!("p.create_event({:?})", names.event(*id))
            }
            Op::EventDestroy { event: id } => format!("p.destroy_event({})", event(*id)),
            Op::Record { event: id, stream: on } => format!("p.record({}, {})", event(*id), stream(*on)),
            Op::Wait { stream: on, event: id } => format!("p.wait({}, {})", stream(*on), event(*id)),
            Op::EventSync { event: id } => format!("p.event_sync({})", event(*id)),
            Op::EventQuery { event: id, ready } => format!("p.event_query({}, {ready})", event(*id)),
            Op::StreamSync { stream: on } => format!("p.sync({})", stream(*on)),
            Op::StreamQuery { stream: on, ready } => format!("p.stream_query({}, {ready})", stream(*on)),
            Op::DeviceSync { dev } => format!("p.device_sync({dev})"),
            Op::ThreadSpawn { thread } => {
                self.seen[2][thread.index()] = true;
                made = Some(self.ids.threads[thread.index()].clone());
                format!("p.spawn({:?})", names.thread(*thread))
            }
            Op::ThreadJoin { thread } => format!("p.join({})", self.ids.threads[thread.index()]),
            Op::Signal { channel } => format!("p.signal({})", ids.channels[channel.index()]),
            Op::Await { channel } => format!("p.await_signal({})", ids.channels[channel.index()]),
            Op::HostSleep { micros } if micros.unsigned_abs() < 1 << 50 => format!("p.sleep(us({micros}))"),
            Op::HostSleep { micros } => format!("p.push(Op::HostSleep {{ micros: {micros} }})"),
            Op::HostCopy { dst, src } => format!("p.host_copy({}, {})", self.part(dst), self.part(src)),
            Op::HostWork { time: t, cost: None } => format!("p.host_work({}, {label:?})", time(*t)),
            Op::HostWork { time: Nanos::ZERO, cost: Some(cost) } if label.is_empty() => {
                format!("p.host_cost(HostCost::{cost:?})")
            }
            Op::HostWork { time: t, cost: Some(cost) } => format!(
                "p.push_labelled(Op::HostWork {{ time: {}, cost: Some(HostCost::{cost:?}) }}, Some({label:?}))",
                time(*t)
            ),
            Op::CaptureBegin { stream: on } => format!("p.capture({})", stream(*on)),
            Op::CaptureEnd { stream: on, graph } => {
                made = Some(ids.graphs[graph.index()].clone());
                format!("p.end_capture({}, {:?})", stream(*on), names.graph(*graph))
            }
            Op::GraphLaunch { graph, stream: on } => {
                format!("p.launch({}, {})", ids.graphs[graph.index()], stream(*on))
            }
            Op::Mark => format!("p.mark({label:?})"),
        };
        (made, call)
    }

    /// A thread where its id is asked for.
    fn thread(&self, thread: ThreadId) -> String {
        match thread {
            main if main == ThreadId::FIRST => "ThreadId::FIRST".to_owned(),
            other => self.ids.threads[other.index()].clone(),
        }
    }

    fn alloc(&self, alloc: &Alloc) -> String {
        let Alloc { buffer, bytes: size, space, dev, via, stream, reuse, contents: holds } = alloc;
        let name = self.program.names().buffer(*buffer);
        let plain = *via == AllocVia::Malloc && stream.is_none() && reuse.is_none() && holds.is_none();
        let size = bytes(*size);
        match (plain, space, dev) {
            (true, Space::Pinned, 0) => return format!("p.pinned({name:?}, {size})"),
            (true, Space::Pageable, 0) => return format!("p.pageable({name:?}, {size})"),
            (true, Space::Device, dev) => return format!("p.device({dev}, {name:?}, {size})"),
            (true, Space::Managed, dev) => return format!("p.managed({dev}, {name:?}, {size})"),
            _ => {}
        }
        let mut call = format!("p.alloc(Space::{space:?}, {name:?}, {size})");
        if *dev != 0 {
            call += &format!(".dev({dev})");
        }
        let home = stream.map(|id| self.ids.streams[id.index()].as_str());
        match (via, home) {
            (AllocVia::Malloc, None) => {}
            (AllocVia::MallocAsync, Some(on)) => call += &format!(".on({on})"),
            (via, Some(home)) => call += &format!(".pool(AllocVia::{via:?}, {home})"),
            (via, None) => call += &format!(".pool(AllocVia::{via:?}, None)"),
        }
        if let Some(freed) = reuse {
            call += &format!(".reuse({})", self.ids.buffers[freed.index()]);
        }
        if let Some(holds) = holds {
            call += &format!(".holds({})", contents(holds));
        }
        call + ".declare()"
    }

    fn copy(&self, copy: &Copy, index: usize) -> String {
        let Copy { stream, dst, src, sync, peer, untracked, torch } = copy;
        let on = &self.ids.streams[stream.index()];
        let usual = self.program.blocking_device(&[dst.buffer, src.buffer], index);
        let is_usual = legacy_device(self.program.names().stream(*stream)) == Some(usual);
        if *sync && !is_usual {
            let (dst, src) = (self.region(dst), self.region(src));
            return format!(
                "p.push(Op::Copy(Copy {{ stream: {on}, dst: {dst}, src: {src}, sync: true, peer: {peer}, untracked: {untracked}, \
                 torch: {torch} }}))"
            );
        }
        let mut call = format!("p.copy({}, {})", self.part(dst), self.part(src));
        for (flag, name) in [(peer, ".peer()"), (untracked, ".untracked()"), (torch, ".torch()")] {
            if *flag {
                call += name;
            }
        }
        if *sync { call + ".blocking()" } else { format!("{call}.on({on})") }
    }

    fn work(
        &self,
        reads: &[Region],
        writes: &[Region],
        takes: Option<Nanos>,
        compute: Option<Compute>,
    ) -> String {
        let mut text = String::new();
        for (name, regions) in [("reads", reads), ("writes", writes)] {
            for region in regions {
                text += &format!(".{name}({})", self.part(region));
            }
        }
        if let Some(takes) = takes {
            text += &format!(".takes({})", time(takes));
        }
        if let Some(Compute { dtype: of, func }) = compute {
            // How these values are shown is how they are written.
            text += &format!(".computes(Compute {{ dtype: {}, func: Func::{func:?} }})", dtype(of));
        }
        text
    }

    /// A region, or the whole buffer.
    fn part(&self, region: &Region) -> String {
        let is_whole = self.ids.is_whole(region) && !region.opaque;
        if is_whole { self.ids.buffers[region.buffer.index()].clone() } else { self.region(region) }
    }

    fn region(&self, region: &Region) -> String {
        let name = &self.ids.buffers[region.buffer.index()];
        let span = &region.span;
        let (off, elem) = (span.off(), span.elem());
        let text = if span.is_range() {
            format!("{name}.range({off}, {elem})")
        } else {
            let dims: Vec<_> =
                span.dims().iter().map(|d| format!("({}, {})", d.count, d.stride)).collect_vec();
            format!("{name}.strided({off}, {elem}, [{}])", dims.join(", "))
        };
        if region.opaque { text + ".opaque()" } else { text }
    }
}

fn dtype(dtype: Dtype) -> String {
    format!("Dtype::{dtype:?}")
}

fn contents(contents: &Contents) -> String {
    match contents {
        Contents::Fill { dtype: of, value } => format!("Contents::fill({}, {value:?})", dtype(*of)),
        Contents::Ramp { dtype: of, start, step } => {
            format!("Contents::ramp({}, {start:?}, {step:?})", dtype(*of))
        }
        Contents::Values { dtype: of, values } => format!("Contents::values({}, {values:?})", dtype(*of)),
        Contents::Seed(seed) => format!("Contents::Seed({seed})"),
    }
}

fn time(time: Nanos) -> String {
    if time.0 % 1000 == 0 { format!("us({})", time.0 / 1000) } else { format!("Nanos({})", time.0) }
}

fn bytes(n: i64) -> String {
    match n {
        n if n % (1 << 20) == 0 => format!("mib({})", n >> 20),
        n if n % 1024 == 0 => format!("kib({})", n >> 10),
        n => format!("Bytes({n})"),
    }
}
