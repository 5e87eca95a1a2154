//! Programs in CUDA C++.

use super::turns::Turns;
use super::{Counted, Idents, Lines, is_relaxed, told, unique};
use crate::memory::{Dim, Span};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec};
use crate::program::Program;
use crate::program::captured::Captured;
use crate::program::command::*;
use crate::program::names::legacy_device;

const RESERVED: &str = "abs alignas alignof and and_eq asm assert auto bitand bitor blockDim blockIdx bool break busy captured case catch char \
    char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr \
    constinit continue daylight decltype default delete dim3 do double dynamic_cast else enum environ errno explicit \
    export extern false fd_set ffsll float for free friend goto gridDim host_fn if inline int linux llabs long main malloc \
    memcpy memmove memset mutable namespace new noexcept not not_eq nullptr operator optarg or or_eq private protected \
    public register reinterpret_cast requires return seen short signed signgam sizeof spin static static_assert \
    static_cast std stderr stdin stdout struct switch template this threadIdx thread_local throw timezone true try typedef \
    typeid typename typeof uint ulong union unix unsigned ushort using va_list virtual void volatile warpSize wchar_t \
    while xor xor_eq";

/// How long a kernel takes is all that is known of it.
const SPIN: &str = "\
static __device__ void spin(long long ns) {
    long long now, begin;
    asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(begin));
    do asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now)); while (now - begin < ns);
}
";

const BUSY: &str = "\
static void busy(long long ns) {
    auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
    while (std::chrono::steady_clock::now() < end) {}
}
";

pub(super) fn write(program: &Program) -> String {
    let mut ids = Idents::of(program, RESERVED, is_foreign);
    let turns = Turns::of(program, &mut ids);
    let event_devices = event_devices(program, &ids);
    let counted = Counted::of(program, &mut ids);
    let out = Lines::new("//");
    let mut writer = Writer {
        program,
        ids,
        event_devices,
        counted,
        turns,
        captured: captured(program),
        out,
        kernels: BTreeMap::new(),
        defined: String::new(),
        capture_mode: if is_relaxed(program, false) { "Relaxed" } else { "Global" },
    };
    writer.out.depth = 1;
    let device = writer.declare();
    writer.thread(ThreadId::FIRST, device);
    let body = writer.out.text;
    let mut out = Lines::new("//");
    out.head(program, "Kernels stand for theirs: they take the time, not the bytes. No error is looked at.");
    for (header, word) in [
        ("atomic", "std::atomic"),
        ("chrono", "std::chrono"),
        ("cstdlib", "malloc("),
        ("cstring", "    memcpy("),
        ("cstring", "    memmove("),
        ("cstring", "    memset("),
        ("latch", "std::latch"),
        ("semaphore", "std::counting_semaphore"),
        ("thread", "std::jthread"),
        ("thread", "std::this_thread"),
    ] {
        let is_busy = header == "chrono" && body.contains("    busy(");
        let line = format!("#include <{header}>\n");
        if (is_busy || body.contains(word)) && !out.text.ends_with(&line) {
            out.text += &line;
        }
    }
    out.line("#include <cuda_runtime.h>");
    out.line("");
    if !writer.kernels.is_empty() {
        out.text += SPIN;
        out.text += &writer.defined;
        out.line("");
    }
    if body.contains("    busy(") {
        out.text += BUSY;
        out.line("");
    }
    if body.contains(", host_fn, nullptr);") {
        out.line("static void CUDART_CB host_fn(void *) {}");
        out.line("");
    }
    out.text + "int main() {\n" + &body + "}\n"
}

struct Writer<'a> {
    program: &'a Program,
    ids: Idents,
    event_devices: EventDevices,
    counted: Counted,
    turns: Turns,
    captured: BTreeSet<usize>,
    out: Lines,
    /// What kernels are called here, by their name in the program.
    kernels: BTreeMap<String, String>,
    /// What defines them.
    defined: String,
    capture_mode: &'static str,
}

/// The commands on a stream that is captured at that point of the list.
fn captured(program: &Program) -> BTreeSet<usize> {
    let mut captured = Captured::default();
    let is_captured = |(index, command): (usize, &Command)| {
        captured.step(&command.op);
        captured.has(&command.op).then_some(index)
    };
    program.commands().iter().enumerate().filter_map(is_captured).collect()
}

/// An event is of the device that is current when it is created, and only streams of that device record it.
struct EventDevices {
    /// Of the events that nobody creates, by event.
    first: Vec<u32>,
    /// Of the commands that create one, by command.
    created: BTreeMap<usize, u32>,
}

/// The device of whoever records an event next.
fn event_devices(program: &Program, ids: &Idents) -> EventDevices {
    let mut next = vec![0; ids.events.len()];
    let mut created = BTreeMap::new();
    for (index, command) in program.commands().iter().enumerate().rev() {
        match command.op {
            Op::Record { event, stream } => next[event.index()] = ids.devices[stream.index()],
            Op::EventCreate { event } => {
                created.insert(index, std::mem::take(&mut next[event.index()]));
            }
            _ => {}
        }
    }
    EventDevices { first: next, created }
}

impl Writer<'_> {
    /// Everything that has a name, so that every thread sees it; then this device is current.
    fn declare(&mut self) -> u32 {
        let names = self.program.names();
        let made: Vec<String> = names
            .streams
            .names()
            .zip(&self.ids.streams)
            .filter(|(name, _)| legacy_device(name).is_none())
            .map(|(_, ident)| ident.clone())
            .collect_vec();
        let pointers: Vec<String> = self.ids.buffers.iter().map(|name| format!("*{name}")).collect_vec();
        for (kind, list) in [
            ("cudaStream_t", &made),
            ("cudaEvent_t", &self.ids.events),
            ("cudaGraphExec_t", &self.ids.graphs),
            ("char", &pointers),
        ] {
            if !list.is_empty() {
                self.out.line(&format!("{kind} {};", list.join(", ")));
            }
        }
        for (channel, counts) in self.ids.channels.iter().zip(&self.counted.counts) {
            match counts {
                Some(counts) => {
                    counts.values().for_each(|count| self.out.line(&format!("std::atomic<int> {count}(0);")));
                }
                None => self.out.line(&format!("std::counting_semaphore<> {channel}(0);")),
            }
        }
        for turn in self.turns.told.values() {
            self.out.line(&format!("std::latch {turn}(1);"));
        }
        // Last, so that they end before what they use: one that nobody joins is joined at the end.
        if let [_, threads @ ..] = &self.ids.threads[..]
            && !threads.is_empty()
        {
            self.out.line(&format!("std::jthread {};", threads.join(", ")));
        }
        let mut device = 0;
        for event in self.ids.implicit_events(self.program) {
            self.make_current(self.event_devices.first[event], &mut device);
            self.out.line(&create_event(&self.ids.events[event]));
        }
        device
    }

    fn make_current(&mut self, dev: u32, device: &mut u32) {
        if dev != *device {
            *device = dev;
            self.out.line(&format!("cudaSetDevice({dev});"));
        }
    }

    /// The calls of one host thread, for which this device is current.
    fn thread(&mut self, thread: ThreadId, mut device: u32) {
        for index in std::mem::take(&mut self.ids.calls[thread.index()]) {
            for before in self.turns.awaited.get(&index).into_iter().flatten() {
                let words = told(self.program, &self.program.commands()[*before], *before);
                self.out.told(&format!("{}.wait();", self.turns.told[before]), &format!("after: {words}"));
            }
            self.command(&self.program.commands()[index], index, &mut device);
            if let Some(turn) = self.turns.told.get(&index) {
                self.out.line(&format!("{turn}.count_down();"));
            }
        }
    }

    fn stream(&self, id: StreamId) -> String {
        match legacy_device(self.program.names().stream(id)) {
            Some(_) => "0".to_owned(),
            None => self.ids.streams[id.index()].clone(),
        }
    }

    fn command(&mut self, command: &Command, index: usize, device: &mut u32) {
        let words = told(self.program, command, index);
        let needed = match &command.op {
            Op::Stream { dev, .. } | Op::DeviceSync { dev } => Some(*dev),
            Op::Alloc(alloc) if alloc.space != Space::Pageable => Some(alloc.dev),
            Op::Kernel(Kernel { stream, .. })
            | Op::Memset { stream, .. }
            | Op::Record { stream, .. }
            | Op::GraphLaunch { stream, .. }
            | Op::Copy(Copy { stream, .. }) => Some(self.ids.devices[stream.index()]),
            Op::EventCreate { .. } => self.event_devices.created.get(&index).copied(),
            // Each device has its own stream 0: that of the current one is meant.
            op => op
                .stream()
                .or_else(|| self.home(op))
                .filter(|&id| legacy_device(self.program.names().stream(id)).is_some())
                .map(|id| self.ids.devices[id.index()]),
        };
        if let Some(dev) = needed {
            self.make_current(dev, device);
        }
        if let Op::ThreadSpawn { thread } = command.op {
            self.out.line(&format!("{} = std::jthread([&] {{", self.ids.threads[thread.index()]));
            self.out.depth += 1;
            self.thread(thread, 0);
            self.out.depth -= 1;
            self.out.line("});");
            return;
        }
        match self.call(command, index) {
            Some((call, true)) => self.out.told(&call, &words),
            Some((call, false)) => self.out.line(&call),
            None => self.out.tell(&format!("no CUDA form: {words}")),
        }
    }

    /// What a pool gets back is free in the order of its home stream.
    fn home(&self, op: &Op) -> Option<StreamId> {
        match op {
            Op::Free { buffer, via: FreeVia::Pool | FreeVia::RawPool, .. } => {
                self.ids.allocs[buffer.index()].as_ref()?.stream
            }
            _ => None,
        }
    }

    /// The host does not reach memory of a device.
    fn is_far(&self, region: &Region) -> bool {
        self.ids.allocs[region.buffer.index()].as_ref().is_some_and(|alloc| alloc.space == Space::Device)
    }

    /// The call, and whether it needs words; `None` where there is none.
    fn call(&mut self, command: &Command, index: usize) -> Option<(String, bool)> {
        let ids = &self.ids;
        let event = |id: EventId| ids.events[id.index()].as_str();
        let mut needs_words = false;
        let call = match &command.op {
            Op::Stream { stream, kind, priority, .. } => {
                let flags = if *kind == StreamKind::NonBlocking { "NonBlocking" } else { "Default" };
                needs_words = *kind == StreamKind::PerThread;
                let stream = self.stream(*stream);
                // As far as an `int` goes: beyond its ends all are alike.
                match (*priority).clamp(i32::MIN.into(), i32::MAX.into()) {
                    0 => format!("cudaStreamCreateWithFlags(&{stream}, cudaStream{flags});"),
                    n => format!("cudaStreamCreateWithPriority(&{stream}, cudaStream{flags}, {n});"),
                }
            }
            Op::StreamDestroy { stream } => format!("cudaStreamDestroy({});", self.stream(*stream)),
            Op::Alloc(alloc) => {
                let (name, n) = (&ids.buffers[alloc.buffer.index()], alloc.bytes);
                needs_words = alloc.via != AllocVia::Malloc && alloc.via != AllocVia::MallocAsync
                    || alloc.reuse.is_some()
                    || alloc.contents.is_some();
                match (alloc.space, alloc.stream) {
                    (Space::Device, Some(on)) => {
                        format!("cudaMallocAsync(&{name}, {n}, {});", self.stream(on))
                    }
                    (Space::Device, None) => format!("cudaMalloc(&{name}, {n});"),
                    (Space::Pinned, _) if ids.is_registered[alloc.buffer.index()] => {
                        format!(
                            "{name} = (char *)malloc({n}); cudaHostRegister({name}, {n}, cudaHostRegisterDefault);"
                        )
                    }
                    (Space::Pinned, _) => format!("cudaMallocHost(&{name}, {n});"),
                    (Space::Pageable, _) => format!("{name} = (char *)malloc({n});"),
                    (Space::Managed, _) => format!("cudaMallocManaged(&{name}, {n});"),
                }
            }
            Op::Free { buffer, via, stream } => {
                let name = &ids.buffers[buffer.index()];
                let alloc = ids.allocs[buffer.index()].as_ref();
                let space = alloc.map(|alloc| alloc.space);
                let home = self.home(&command.op);
                needs_words = matches!(via, FreeVia::Pool | FreeVia::PinnedPool | FreeVia::RawPool);
                match (via, space, stream.or(home)) {
                    (FreeVia::Unregister, ..) => format!("cudaHostUnregister({name});"),
                    (_, Some(Space::Pageable), _) => format!("free({name});"),
                    (_, Some(Space::Pinned), _) => format!("cudaFreeHost({name});"),
                    (_, _, Some(on)) => format!("cudaFreeAsync({name}, {});", self.stream(on)),
                    _ => format!("cudaFree({name});"),
                }
            }
            Op::RecordStream { .. } => return None,
            Op::Kernel(kernel) => {
                needs_words = true;
                let on = self.stream(kernel.stream);
                let ns = kernel.takes.map_or(0, |takes| takes.0);
                format!(
                    "{}<<<1, 1, 0, {on}>>>({ns});",
                    self.kernel(command.label.as_deref().unwrap_or("kernel"))
                )
            }
            Op::Copy(copy) => {
                let call = self.copy(copy)?;
                let waits = self.waits_behind(copy.stream, copy.sync, index);
                needs_words = !waits.is_empty();
                call + &waits
            }
            Op::Memset { stream, dst, sync, value } => {
                let bytes = dst.span.elem();
                let at = self.at(dst);
                let (suffix, on) = self.form(*stream, *sync);
                let how = format!("cudaMemset{suffix}");
                // Of device memory no memset is waited for.
                let is_host =
                    ids.allocs[dst.buffer.index()].as_ref().is_none_or(|a| a.space != Space::Device);
                let waits = self.waits_behind(*stream, *sync && is_host, index);
                needs_words = !waits.is_empty();
                match dst.span.dims() {
                    [] => format!("{how}({at}, {value}, {bytes}{on});{waits}"),
                    // A pitch is no shorter than a row.
                    [one] if bytes <= one.stride => {
                        let how = how.replace("Memset", "Memset2D");
                        format!("{how}({at}, {}, {value}, {bytes}, {}{on});{waits}", one.stride, one.count)
                    }
                    _ => return None,
                }
            }
            Op::HostRead { region, .. } | Op::HostWrite { region, .. } if self.is_far(region) => return None,
            Op::HostCopy { dst, src } if self.is_far(dst) || self.is_far(src) => return None,
            Op::HostWrite { region, .. } if region.span.is_range() => {
                needs_words = true;
                format!("memset({}, 0, {});", self.at(region), region.span.elem())
            }
            Op::HostRead { region, .. } if region.span.is_empty() => {
                needs_words = true;
                format!("(void)({});", self.at(region))
            }
            Op::HostRead { region, .. } => {
                needs_words = true;
                format!("(void)*(volatile char *)({});", self.at(region))
            }
            Op::HostWrite { .. } => return None,
            Op::HostFn { stream, .. } => {
                needs_words = true;
                format!("cudaLaunchHostFunc({}, host_fn, nullptr);", self.stream(*stream))
            }
            Op::EventCreate { event: id } => create_event(event(*id)),
            Op::EventDestroy { event: id } => format!("cudaEventDestroy({});", event(*id)),
            Op::Record { event: id, stream } => {
                let (event, on) = (event(*id), self.stream(*stream));
                needs_words = ids.moved.contains(&index);
                let again = format!("cudaEventDestroy({event}); {} ", create_event(event));
                format!("{}cudaEventRecord({event}, {on});", if needs_words { &again } else { "" })
            }
            Op::Wait { stream, event: id } => {
                format!("cudaStreamWaitEvent({}, {}, 0);", self.stream(*stream), event(*id))
            }
            Op::EventSync { event: id } => format!("cudaEventSynchronize({});", event(*id)),
            Op::EventQuery { event: id, ready } => {
                needs_words = true;
                asked(&format!("cudaEventQuery({})", event(*id)), *ready)
            }
            Op::StreamSync { stream } => format!("cudaStreamSynchronize({});", self.stream(*stream)),
            Op::StreamQuery { stream, ready } => {
                needs_words = true;
                asked(&format!("cudaStreamQuery({})", self.stream(*stream)), *ready)
            }
            Op::DeviceSync { .. } => "cudaDeviceSynchronize();".to_owned(),
            Op::ThreadJoin { .. } if ids.idle_joins.contains(&index) => {
                needs_words = true;
                ";".to_owned()
            }
            Op::ThreadJoin { thread } => format!("{}.join();", ids.threads[thread.index()]),
            Op::Signal { channel } => match &self.counted.counts[channel.index()] {
                Some(counts) => {
                    let count = &counts[&command.thread.index()];
                    format!("{count}++; {count}.notify_all();")
                }
                None => format!("{}.release();", ids.channels[channel.index()]),
            },
            Op::Await { channel } => {
                let Some(awaited) = self.counted.awaited(index, channel.index()) else {
                    return Some((format!("{}.acquire();", ids.channels[channel.index()]), false));
                };
                let wait =
                    |(count, n)| format!("for (int seen; (seen = {count}) < {n};) {count}.wait(seen);");
                let waits: Vec<String> = awaited.map(wait).collect_vec();
                needs_words = waits.len() != 1;
                if waits.is_empty() { ";".to_owned() } else { waits.join(" ") }
            }
            Op::HostSleep { micros } => {
                format!("std::this_thread::sleep_for(std::chrono::microseconds({micros}));")
            }
            Op::HostCopy { dst, src } if dst.span.is_range() && src.span.is_range() => {
                let n = dst.span.elem().min(src.span.elem());
                // Only this one may overlap.
                let how = if dst.buffer == src.buffer { "memmove" } else { "memcpy" };
                format!("{how}({}, {}, {n});", self.at(dst), self.at(src))
            }
            Op::HostWork { time, cost } => {
                needs_words = cost.is_some() || command.label.is_some();
                format!("busy({});", time.0)
            }
            Op::CaptureBegin { stream } => {
                let (stream, mode) = (self.stream(*stream), self.capture_mode);
                format!("cudaStreamBeginCapture({stream}, cudaStreamCaptureMode{mode});")
            }
            Op::CaptureEnd { stream, graph } => {
                let graph = &ids.graphs[graph.index()];
                format!(
                    "{{ cudaGraph_t captured; cudaStreamEndCapture({}, &captured); cudaGraphInstantiate(&{graph}, captured, 0); }}",
                    self.stream(*stream)
                )
            }
            Op::GraphLaunch { graph, stream } => {
                format!("cudaGraphLaunch({}, {});", ids.graphs[graph.index()], self.stream(*stream))
            }
            Op::HostCopy { .. } | Op::ThreadSpawn { .. } | Op::Mark => return None,
        };
        Some((call, needs_words || command.label.is_some() && !matches!(command.op, Op::Kernel(_))))
    }

    /// The kernel that stands for one of this name.
    fn kernel(&mut self, label: &str) -> String {
        if let Some(ident) = self.kernels.get(label) {
            return ident.clone();
        }
        let is_named = label.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_plain = is_named && !is_foreign(label) && !is_type(label);
        let base = if is_plain { label.to_owned() } else { format!("k_{label}") };
        let ident = unique(&mut self.ids.taken, &base);
        self.defined += &format!("__global__ void {ident}(long long ns) {{ spin(ns); }}\n");
        self.kernels.insert(label.to_owned(), ident.clone());
        ident
    }

    /// The first byte of a region.
    fn at(&self, region: &Region) -> String {
        let name = &self.ids.buffers[region.buffer.index()];
        match region.span.off() {
            0 => name.clone(),
            off => format!("{name} + {off}"),
        }
    }

    /// What a call's name ends with and its last argument: forms without a stream are on stream 0.
    fn form(&self, stream: StreamId, sync: bool) -> (&'static str, String) {
        match sync && legacy_device(self.program.names().stream(stream)).is_some() {
            true => ("", String::new()),
            false => ("Async", format!(", {}", self.stream(stream))),
        }
    }

    /// How the host waits for a blocking call on another stream than 0, for which there is no form; for one that is captured
    /// it does not.
    fn waits_behind(&self, stream: StreamId, sync: bool, index: usize) -> String {
        let is_zero = legacy_device(self.program.names().stream(stream)).is_some();
        match sync && !is_zero && !self.captured.contains(&index) {
            true => format!(" cudaStreamSynchronize({});", self.stream(stream)),
            false => String::new(),
        }
    }

    /// A copy as one call; `None` where there is none for such strides.
    fn copy(&self, copy: &Copy) -> Option<String> {
        let (dst, src) = (self.at(&copy.dst), self.at(&copy.src));
        let of = |region: &Region| self.ids.allocs[region.buffer.index()].as_ref();
        let side = |region: &Region| match of(region).map(|alloc| alloc.space) {
            Some(Space::Device | Space::Managed) => "Device",
            _ => "Host",
        };
        let kind = format!("cudaMemcpy{}To{}", side(&copy.src), side(&copy.dst));
        let dev = |region: &Region| of(region).map_or(0, |alloc| alloc.dev);
        let (suffix, on) = self.form(copy.stream, copy.sync);
        let (a, b) = (&copy.dst.span, &copy.src.span);
        // The smaller count moves.
        let n = a.elem().min(b.elem());
        let is_all =
            |rows: &Span, dim: &Dim, plain: &Span| rows.elem().checked_mul(dim.count) == Some(plain.elem());
        // Both sides in rows of the same length; a side without gaps has rows wherever the other has them.
        let (rows, pitches) = match (a.dims(), b.dims()) {
            ([], []) if copy.peer => {
                let (to, from) = (dev(&copy.dst), dev(&copy.src));
                return Some(format!("cudaMemcpyPeer{suffix}({dst}, {to}, {src}, {from}, {n}{on});"));
            }
            ([], []) => return Some(format!("cudaMemcpy{suffix}({dst}, {src}, {n}, {kind}{on});")),
            ([one], []) if is_all(a, one, b) => ((a.elem(), one.count), [one.stride, a.elem()]),
            ([], [one]) if is_all(b, one, a) => ((b.elem(), one.count), [b.elem(), one.stride]),
            ([one], [other]) if one.count == other.count && a.elem() == b.elem() => {
                ((a.elem(), one.count), [one.stride, other.stride])
            }
            _ => return None,
        };
        let (width, height) = rows;
        let [to, from] = pitches;
        // A pitch is no shorter than a row.
        (width <= to && width <= from && !copy.peer).then(|| {
            format!("cudaMemcpy2D{suffix}({dst}, {to}, {src}, {from}, {width}, {height}, {kind}{on});")
        })
    }
}

/// Whether it may be a macro, or what CUDA's header declares.
fn is_foreign(name: &str) -> bool {
    let is_upper = name.starts_with(|c: char| c.is_ascii_uppercase())
        && !name.contains(|c: char| c.is_ascii_lowercase());
    is_upper && 2 < name.len() || name.starts_with("cuda")
}

/// Whether it may be a type of the headers, which a variable may hide but a kernel not be called.
fn is_type(name: &str) -> bool {
    let scalar = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let scalar = scalar.strip_prefix('u').unwrap_or(scalar);
    let is_vector = scalar != name
        && matches!(scalar, "char" | "short" | "int" | "long" | "longlong" | "float" | "double");
    is_vector || name.ends_with("_t")
}

/// What was seen ready was waited for.
fn asked(query: &str, ready: bool) -> String {
    if ready { format!("while ({query} != cudaSuccess) {{}}") } else { format!("{query};") }
}

fn create_event(name: &str) -> String {
    format!("cudaEventCreateWithFlags(&{name}, cudaEventDisableTiming);")
}
