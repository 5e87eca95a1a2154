//! Programs in Python, with PyTorch.

use super::turns::Turns;
use super::{Counted, Idents, Lines, is_relaxed, micros, told, unique};
use crate::memory::{Dtype, Span};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort};
use crate::program::Program;
use crate::program::command::*;
use crate::program::names::legacy_device;

const RESERVED: &str = "False None Signals True and as assert async await break busy class continue def del elif else except finally for from \
    global if import in is kernel lambda len nonlocal not or pass print queue raise return round threading time torch try \
    while with yield";

const KERNEL: &str = "\
def kernel(us):
    torch.cuda._sleep(round(us * torch.cuda.clock_rate()))  # megahertz are cycles in a microsecond
";

const BUSY: &str = "\
def busy(us):
    end = time.perf_counter() + us * 1e-6
    while time.perf_counter() < end:
        pass
";

const SIGNALS: &str = "\
class Signals:
    def __init__(self):
        self.n, self.changed = 0, threading.Condition()

    def signal(self):
        with self.changed:
            self.n += 1
            self.changed.notify_all()

    def wait(self, n):
        with self.changed:
            self.changed.wait_for(lambda: n <= self.n)
";

pub(super) fn write(program: &Program) -> String {
    let mut ids = Idents::of(program, RESERVED, |_| false);
    let turns = Turns::of(program, &mut ids);
    let counted = Counted::of(program, &mut ids);
    let captures = captures(program);
    let capture_mode = if is_relaxed(program, true) { "capture_error_mode=\"relaxed\"" } else { "" };
    let late = late(program);
    let mut writer =
        Writer { program, ids, counted, turns, captures, capture_mode, late, out: Lines::new("#") };
    for turn in writer.turns.told.values() {
        writer.out.line(&format!("{turn} = threading.Event()"));
    }
    for (channel, counts) in writer.ids.channels.iter().zip(&writer.counted.counts) {
        match counts {
            Some(counts) => {
                counts.values().for_each(|count| writer.out.line(&format!("{count} = Signals()")));
            }
            None => writer.out.line(&format!("{channel} = queue.Queue()")),
        }
    }
    for event in writer.ids.implicit_events(program) {
        writer.out.line(&format!("{} = torch.cuda.Event()", writer.ids.events[event]));
    }
    writer.thread(ThreadId::FIRST);
    let body = writer.out.text;
    let mut out = Lines::new("#");
    // Python looks for its text's encoding in the first two lines, comments of ours among them; the first that it finds is it.
    if [Some(&program.title), program.machine.as_ref()]
        .into_iter()
        .flatten()
        .any(|text| text.contains("coding"))
    {
        out.tell("coding: utf-8");
    }
    out.head(program, "Kernels stand for theirs: they take the time, not the bytes.");
    for module in ["queue", "threading", "time"] {
        let is_meant = match module {
            "time" => body.contains("busy("),
            "threading" => body.contains("Signals("),
            _ => false,
        };
        if is_meant || body.contains(&format!("{module}.")) {
            out.line(&format!("import {module}"));
        }
    }
    out.line("import torch");
    out.line("");
    for (used, text) in [("kernel(", KERNEL), ("busy(", BUSY), ("Signals(", SIGNALS)] {
        if body.contains(used) {
            out.text += text;
            out.line("");
        }
    }
    out.text + &body
}

struct Writer<'a> {
    program: &'a Program,
    ids: Idents,
    counted: Counted,
    turns: Turns,
    /// The graph that each capture becomes, by the command that begins it.
    captures: BTreeMap<usize, GraphId>,
    capture_mode: &'static str,
    /// The commands that use what is freed: its name is gone.
    late: BTreeSet<usize>,
    out: Lines,
}

fn late(program: &Program) -> BTreeSet<usize> {
    let mut freed = BTreeSet::new();
    let is_late = |(index, command): (usize, &Command)| {
        let (reads, writes) = command.op.regions();
        let is_late = match &command.op {
            Op::Free { buffer, via, .. } => {
                // What is unregistered keeps its name.
                if *via != FreeVia::Unregister {
                    freed.insert(*buffer);
                }
                false
            }
            Op::RecordStream { buffer, .. } => freed.contains(buffer),
            _ => {
                let is_moved = matches!(
                    command.op,
                    Op::Copy(_)
                        | Op::HostCopy { .. }
                        | Op::Memset { .. }
                        | Op::HostRead { .. }
                        | Op::HostWrite { .. }
                );
                is_moved && reads.iter().chain(writes).any(|region| freed.contains(&region.buffer))
            }
        };
        is_late.then_some(index)
    };
    program.commands().iter().enumerate().filter_map(is_late).collect()
}

/// A capture is ended by the next command that ends one on its stream.
fn captures(program: &Program) -> BTreeMap<usize, GraphId> {
    let (mut begun, mut captures): (BTreeMap<StreamId, usize>, BTreeMap<usize, GraphId>) = Default::default();
    for (index, command) in program.commands().iter().enumerate() {
        match command.op {
            Op::CaptureBegin { stream } => _ = begun.insert(stream, index),
            Op::CaptureEnd { stream, graph } => {
                captures.extend(begun.remove(&stream).map(|begin| (begin, graph)));
            }
            _ => {}
        }
    }
    captures
}

impl Writer<'_> {
    /// The calls of one host thread.
    fn thread(&mut self, thread: ThreadId) {
        for index in self.ids.calls[thread.index()].clone() {
            for before in self.turns.awaited.get(&index).into_iter().flatten() {
                let words = told(self.program, &self.program.commands()[*before], *before);
                self.out.told(&format!("{}.wait()", self.turns.told[before]), &format!("after: {words}"));
            }
            self.command(&self.program.commands()[index], index);
            if let Some(turn) = self.turns.told.get(&index) {
                self.out.line(&format!("{turn}.set()"));
            }
        }
    }

    fn command(&mut self, command: &Command, index: usize) {
        let words = told(self.program, command, index);
        if let Op::ThreadSpawn { thread } = command.op {
            let name = self.ids.threads[thread.index()].clone();
            let calls = unique(&mut self.ids.taken, &format!("{name}_calls"));
            self.out.line(&format!("def {calls}():"));
            self.out.depth += 1;
            let made = self.made(thread);
            if !made.is_empty() {
                let line = format!("global {}", made.join(", "));
                self.out.line(&line);
            }
            self.thread(thread);
            // Comments alone are no body.
            let own = &self.ids.calls[thread.index()];
            if !own.iter().any(|&k| self.call(&self.program.commands()[k], k).is_some()) {
                self.out.line("pass");
            }
            self.out.depth -= 1;
            self.out.line(&format!("{name} = threading.Thread(target={calls})"));
            self.out.line(&format!("{name}.start()"));
            return;
        }
        match self.call(command, index) {
            Some((call, true)) => self.out.told(&call, &words),
            Some((call, false)) => self.out.line(&call),
            None => self.out.tell(&format!("no PyTorch form: {words}")),
        }
    }

    /// The names that a thread gives or takes away.
    fn made(&self, thread: ThreadId) -> Vec<&str> {
        let ids = &self.ids;
        let of = |&k: &usize| match &self.program.commands()[k].op {
            Op::Stream { stream, .. } => Some(ids.streams[stream.index()].as_str()),
            Op::ThreadSpawn { thread } => Some(ids.threads[thread.index()].as_str()),
            Op::Alloc(Alloc { buffer, .. }) | Op::Free { buffer, .. } => {
                Some(ids.buffers[buffer.index()].as_str())
            }
            Op::EventCreate { event } | Op::EventDestroy { event } => {
                Some(ids.events[event.index()].as_str())
            }
            Op::Record { event, .. } if ids.moved.contains(&k) => Some(ids.events[event.index()].as_str()),
            Op::CaptureBegin { .. } => self.captured(k),
            _ => None,
        };
        let mut made: Vec<&str> = ids.calls[thread.index()].iter().filter_map(of).collect_vec();
        sort(&mut made);
        made.dedup();
        made
    }

    fn stream(&self, id: StreamId) -> String {
        match legacy_device(self.program.names().stream(id)) {
            Some(dev) => format!("torch.cuda.default_stream({dev})"),
            None => self.ids.streams[id.index()].clone(),
        }
    }

    /// A call with its stream as the current one.
    fn on(&self, id: StreamId, call: &str) -> String {
        match legacy_device(self.program.names().stream(id)) {
            // The current stream, unless somebody said otherwise.
            Some(0) => call.to_owned(),
            _ => format!("with torch.cuda.stream({}): {call}", self.stream(id)),
        }
    }

    /// The call, and whether it needs words; `None` where there is none.
    fn call(&self, command: &Command, index: usize) -> Option<(String, bool)> {
        let ids = &self.ids;
        let event = |id: EventId| ids.events[id.index()].as_str();
        let mut needs_words = false;
        if self.late.contains(&index) {
            return None;
        }
        let call = match &command.op {
            Op::Stream { stream, dev, kind, priority, .. } => {
                // Streams of PyTorch are non-blocking, and none has a priority below the usual one.
                let taken = (*priority).clamp(i32::MIN.into(), 0);
                needs_words = *kind != StreamKind::NonBlocking || taken != *priority;
                let priority = if taken == 0 { String::new() } else { format!(", priority={taken}") };
                format!("{} = torch.cuda.Stream(device={dev}{priority})", self.stream(*stream))
            }
            Op::Alloc(alloc) => {
                needs_words = alloc.space == Space::Managed
                    || alloc.via == AllocVia::RawPool
                    || alloc.via == AllocVia::MallocAsync
                    || alloc.reuse.is_some();
                self.alloc(alloc, &mut needs_words)
            }
            Op::Free { buffer, via: FreeVia::Unregister, .. } => {
                format!("torch.cuda.cudart().cudaHostUnregister({}.data_ptr())", ids.buffers[buffer.index()])
            }
            Op::Free { buffer, via, .. } => {
                needs_words = matches!(via, FreeVia::FreeAsync | FreeVia::RawPool);
                format!("del {}", ids.buffers[buffer.index()])
            }
            Op::RecordStream { buffer, stream } => {
                format!("{}.record_stream({})", ids.buffers[buffer.index()], self.stream(*stream))
            }
            Op::Kernel(kernel) => {
                needs_words = true;
                let us = micros(kernel.takes.map_or(0, |takes| takes.0));
                self.on(kernel.stream, &format!("kernel({us})"))
            }
            Op::Copy(copy) => {
                let how = if copy.sync { "" } else { ", non_blocking=True" };
                let call = self.copy_into(&copy.dst, &copy.src, how)?;
                // PyTorch waits for a blocking copy of pageable memory to its end, and for the current streams of both
                // devices: it orders more than the program says.
                let (to, from) = (self.place(&copy.dst), self.place(&copy.src));
                let orders_more =
                    copy.sync && from == Some((Space::Pageable, 0)) && self.is_on_device(&copy.dst)
                        || self.is_on_device(&copy.dst) && self.is_on_device(&copy.src) && to != from;
                // Between host tensors it is the thread's own copy, which waits for no stream; so is what makes rows of host
                // memory one piece.
                let on_host = [&copy.dst, &copy.src].into_iter().filter(|side| !self.is_on_device(side));
                let is_own =
                    on_host.clone().count() == 2 || on_host.into_iter().any(|side| !side.span.is_range());
                let is_apart = self.is_apart(copy.stream, &copy.dst) || self.is_apart(copy.stream, &copy.src);
                needs_words = copy.peer || copy.untracked || orders_more || is_own || is_apart;
                self.on(copy.stream, &call)
            }
            Op::Memset { stream, dst, value, .. } => {
                // Of host memory it is the thread's own work.
                needs_words = !self.is_on_device(dst) || self.is_apart(*stream, dst);
                self.on(*stream, &format!("{}.fill_({value})", self.part(dst)?))
            }
            Op::HostRead { region, expect: Some(Contents::Fill { dtype, value }) } => {
                needs_words = self.is_on_device(region);
                let typed = self.typed(region, *dtype)?;
                format!("assert ({typed} == {}).all()", held(*dtype, *value))
            }
            Op::HostRead { region, .. } => {
                needs_words = true;
                format!("{}.sum()", self.part(region)?)
            }
            Op::HostWrite { region, contents: Some(Contents::Fill { dtype, value }) } => {
                needs_words = self.is_on_device(region);
                format!("{}.fill_({})", self.typed(region, *dtype)?, held(*dtype, *value))
            }
            Op::HostWrite { region, contents } => {
                needs_words = contents.is_some() || self.is_on_device(region);
                format!("{}.fill_(1)", self.part(region)?)
            }
            Op::EventCreate { event: id } => format!("{} = torch.cuda.Event()", event(*id)),
            Op::EventDestroy { event: id } => format!("del {}", event(*id)),
            Op::Record { event: id, stream } => {
                let (event, on) = (event(*id), self.stream(*stream));
                needs_words = ids.moved.contains(&index);
                let again =
                    if needs_words { format!("{event} = torch.cuda.Event(); ") } else { String::new() };
                format!("{again}{event}.record({on})")
            }
            Op::Wait { stream, event: id } => format!("{}.wait_event({})", self.stream(*stream), event(*id)),
            Op::EventSync { event: id } => format!("{}.synchronize()", event(*id)),
            Op::EventQuery { event: id, ready } => {
                needs_words = true;
                asked(event(*id), *ready)
            }
            Op::StreamSync { stream } => format!("{}.synchronize()", self.stream(*stream)),
            Op::StreamQuery { stream, ready } => {
                needs_words = true;
                asked(&self.stream(*stream), *ready)
            }
            Op::DeviceSync { dev } => format!("torch.cuda.synchronize({dev})"),
            Op::ThreadJoin { .. } if ids.idle_joins.contains(&index) => {
                needs_words = true;
                "pass".to_owned()
            }
            Op::ThreadJoin { thread } => format!("{}.join()", ids.threads[thread.index()]),
            Op::Signal { channel } => match &self.counted.counts[channel.index()] {
                Some(counts) => format!("{}.signal()", counts[&command.thread.index()]),
                None => format!("{}.put(None)", ids.channels[channel.index()]),
            },
            Op::Await { channel } => {
                let Some(awaited) = self.counted.awaited(index, channel.index()) else {
                    return Some((format!("{}.get()", ids.channels[channel.index()]), false));
                };
                let waits: Vec<String> = awaited.map(|(count, n)| format!("{count}.wait({n})")).collect_vec();
                needs_words = waits.len() != 1;
                if waits.is_empty() { "pass".to_owned() } else { waits.join("; ") }
            }
            Op::HostSleep { micros } => format!("time.sleep({micros}e-6)"),
            Op::HostCopy { dst, src } => {
                needs_words = self.is_on_device(dst) || self.is_on_device(src);
                self.copy_into(dst, src, "")?
            }
            Op::HostWork { time, cost } => {
                needs_words = cost.is_some() || command.label.is_some();
                format!("busy({})", micros(time.0))
            }
            Op::CaptureBegin { stream } => {
                let graph = self.captured(index)?;
                let call = format!("{graph}.capture_begin({})", self.capture_mode);
                self.out_graph(graph, &self.on(*stream, &call))
            }
            Op::CaptureEnd { stream, graph } => {
                self.on(*stream, &format!("{}.capture_end()", ids.graphs[graph.index()]))
            }
            Op::GraphLaunch { graph, stream } => {
                self.on(*stream, &format!("{}.replay()", ids.graphs[graph.index()]))
            }
            Op::StreamDestroy { .. } | Op::HostFn { .. } | Op::ThreadSpawn { .. } | Op::Mark => return None,
        };
        Some((call, needs_words || command.label.is_some() && !matches!(command.op, Op::Kernel(_))))
    }

    /// The graph that the capture which begins at this command becomes.
    fn captured(&self, begin: usize) -> Option<&str> {
        self.captures.get(&begin).map(|graph| self.ids.graphs[graph.index()].as_str())
    }

    fn out_graph(&self, graph: &str, begin: &str) -> String {
        let indent = "    ".repeat(self.out.depth);
        format!("{graph} = torch.cuda.CUDAGraph()\n{indent}{begin}")
    }

    fn alloc(&self, alloc: &Alloc, needs_words: &mut bool) -> String {
        let name = &self.ids.buffers[alloc.buffer.index()];
        let is_registered = alloc.space == Space::Pinned && self.ids.is_registered[alloc.buffer.index()];
        let place = match alloc.space {
            Space::Device | Space::Managed => format!(", device=\"cuda:{}\"", alloc.dev),
            Space::Pinned if is_registered => String::new(),
            Space::Pinned => ", pin_memory=True".to_owned(),
            Space::Pageable => String::new(),
        };
        let whole = |dtype: Dtype| alloc.bytes % dtype.bytes() == 0;
        let plain = format!("torch.empty({}, dtype=torch.uint8{place})", alloc.bytes);
        let made = match &alloc.contents {
            Some(Contents::Fill { dtype, value }) if whole(*dtype) => {
                format!(
                    "torch.full(({},), {}, dtype={}{place}).view(torch.uint8)",
                    alloc.bytes / dtype.bytes(),
                    held(*dtype, *value),
                    torch_dtype(*dtype)
                )
            }
            Some(_) => {
                *needs_words = true;
                plain
            }
            None => plain,
        };
        // Memory of a pool belongs to the stream that is current.
        match alloc.stream.filter(|_| alloc.space == Space::Device) {
            Some(home) => self.on(home, &format!("{name} = {made}")),
            None if is_registered => {
                format!(
                    "{name} = {made}; torch.cuda.cudart().cudaHostRegister({name}.data_ptr(), {}, 0)",
                    alloc.bytes
                )
            }
            None => format!("{name} = {made}"),
        }
    }

    /// Where a buffer lies: its kind of memory, and of device memory the device.
    fn place(&self, region: &Region) -> Option<(Space, u32)> {
        let alloc = self.ids.allocs[region.buffer.index()].as_ref()?;
        let is_host = matches!(alloc.space, Space::Pinned | Space::Pageable);
        Some((alloc.space, if is_host { 0 } else { alloc.dev }))
    }

    fn is_on_device(&self, region: &Region) -> bool {
        matches!(self.place(region), Some((Space::Device | Space::Managed, _)))
    }

    /// Whether a region is of another device than a stream: it is that device's current stream that counts.
    fn is_apart(&self, stream: StreamId, region: &Region) -> bool {
        self.is_on_device(region)
            && self.place(region).is_some_and(|(_, dev)| dev != self.ids.devices[stream.index()])
    }

    /// `dst.copy_(src)`, in rows where one side has gaps; `None` where the two differ in size, and where PyTorch sees that one byte
    /// would be written twice, or read and written.
    fn copy_into(&self, dst: &Region, src: &Region, how: &str) -> Option<String> {
        let is_dense =
            |span: &Span| span.bounds().is_none_or(|(from, to)| n_bytes(span) == (to - from).into());
        let meet = |a: (i64, i64), b: (i64, i64)| a.0 < b.1 && b.0 < a.1 && a != b;
        let bounds = dst.span.bounds().zip(src.span.bounds());
        let is_mixed = dst.buffer == src.buffer && is_dense(&dst.span) && is_dense(&src.span);
        let is_again = dst.span.dims().iter().any(|dim| dim.stride == 0 && 1 < dim.count);
        if is_mixed && bounds.is_some_and(|(a, b)| meet(a, b)) || is_again && !dst.span.is_empty() {
            return None;
        }
        let shape = |region: &Region| {
            let dims = region.span.dims().iter().map(|d| d.count);
            dims.chain([region.span.elem()]).map(|n| n.to_string()).collect_vec().join(", ")
        };
        let (to, from) = (self.part(dst)?, self.part(src)?);
        if shape(dst) == shape(src) {
            Some(format!("{to}.copy_({from}{how})"))
        } else {
            (n_bytes(&dst.span) == n_bytes(&src.span))
                .then(|| format!("{to}.copy_({from}.reshape({}){how})", shape(dst)))
        }
    }

    /// The bytes of a region; `None` where they go backwards, which tensors cannot.
    fn part(&self, region: &Region) -> Option<String> {
        let name = &self.ids.buffers[region.buffer.index()];
        let span = &region.span;
        let (off, elem) = (span.off(), span.elem());
        if self.ids.is_whole(region) {
            return Some(name.clone());
        }
        if span.is_range() {
            return Some(format!("{name}[{off}:{}]", off.saturating_add(elem)));
        }
        if span.dims().iter().any(|d| d.stride < 0) {
            return None;
        }
        let list = |of: &dyn Fn(&crate::memory::Dim) -> i64, last: i64| {
            let dims = span.dims().iter().map(of).chain([last]);
            dims.map(|n| n.to_string()).collect_vec().join(", ")
        };
        Some(format!(
            "{name}.as_strided(({}), ({}), {off})",
            list(&|d| d.count, elem),
            list(&|d| d.stride, 1)
        ))
    }

    /// A region as elements of a type; `None` where it has none of them.
    fn typed(&self, region: &Region, dtype: Dtype) -> Option<String> {
        let span = &region.span;
        let size = dtype.bytes();
        let fits = span.is_range() && span.elem() % size == 0 && span.off() % size == 0;
        let part = self.part(region).filter(|_| fits)?;
        Some(format!("{part}.view({})", torch_dtype(dtype)))
    }
}

/// Bytes of a span, those that it has twice counted twice.
fn n_bytes(span: &Span) -> i128 {
    // A stride of 0 goes any number of times over its byte.
    span.dims().iter().fold(span.elem().into(), |n: i128, dim| n.saturating_mul(dim.count.into()))
}

/// What was seen ready was waited for.
fn asked(of: &str, ready: bool) -> String {
    if ready { format!("while not {of}.query(): pass") } else { format!("{of}.query()") }
}

/// A number as a type holds it: PyTorch takes none that is beyond the type's ends.
#[expect(
    clippy::cast_possible_truncation,
    reason = "integers end where their type does, far within 128 bits"
)]
fn held(dtype: Dtype, value: f64) -> String {
    // The largest, and from where on a number rounds to infinity.
    let (largest, end) = match dtype {
        Dtype::U8 => return (value as i128).clamp(0, 255).to_string(),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            let end = 1 << (8 * dtype.bytes() - 1);
            return (value as i128).clamp(-end, end - 1).to_string();
        }
        Dtype::F16 => (65_504.0, 65_520.0),
        Dtype::Bf16 => (f32::from_bits(0x7f7f_0000).into(), f32::from_bits(0x7f7f_8000).into()),
        Dtype::F32 | Dtype::C32 => (f32::MAX.into(), f64::from(f32::MAX) + (1_u128 << 103) as f64),
        Dtype::F64 | Dtype::C64 => (f64::MAX, f64::INFINITY),
    };
    if value.abs() < end {
        format!("{:?}", value.clamp(-largest, largest))
    } else {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}torch.inf")
    }
}

fn torch_dtype(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U8 => "torch.uint8",
        Dtype::I8 => "torch.int8",
        Dtype::I16 => "torch.int16",
        Dtype::F16 => "torch.float16",
        Dtype::Bf16 => "torch.bfloat16",
        Dtype::I32 => "torch.int32",
        Dtype::F32 => "torch.float32",
        Dtype::I64 => "torch.int64",
        Dtype::F64 => "torch.float64",
        Dtype::C32 => "torch.complex64",
        Dtype::C64 => "torch.complex128",
    }
}
