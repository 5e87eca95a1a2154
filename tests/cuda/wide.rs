//! Programs drawn from all that runners know: threads that hand over, buffers of many sizes that come and go in every way,
//! registered memory, streams and events that end, queries, formulas of every kind, memory of the other device.

use spanlift::memory::{Dim, Dtype, Span};
use spanlift::program::{
    BufferId, Compute, Contents, EventId, FreeVia, Func, Op, Region, Space, StreamId, StreamKind, ThreadId,
};
use spanlift::{Bytes, Nanos, Program};
use spanlift_native::cpu;
use spanlift_native::cuda::{self, Driver, RunError};
use spanlift_softcuda::{Code, Config, Fault, kit};

use crate::programs::{Rng, is_safe};
use crate::run::{agrees, broke_no_rule};

/// A buffer that is there.
#[derive(Clone, Copy)]
struct Held {
    id: BufferId,
    space: Space,
    bytes: i64,
    is_ordered: bool,
    is_registered: bool,
}

struct Drawing {
    rng: Rng,
    p: Program,
    threads: Vec<ThreadId>,
    /// Who called last.
    caller: ThreadId,
    streams: Vec<(StreamId, u32)>,
    events: Vec<EventId>,
    held: Vec<Held>,
    n_buffers: usize,
    n_channels: usize,
}

impl Drawing {
    fn size(&mut self) -> i64 {
        match self.rng.below(12) {
            0 => 1 + self.rng.below(9),
            // More than what drivers take along with the call of a pageable copy.
            1 => 65_536 + self.rng.below(6_000),
            2 => 4_000 + self.rng.below(200),
            _ => 16 + 8 * self.rng.below(30),
        }
    }

    fn allocate(&mut self) {
        let bytes = self.size();
        let name = format!("b{}", self.n_buffers);
        self.n_buffers += 1;
        let space =
            self.rng.of(&[Space::Pinned, Space::Pageable, Space::Device, Space::Device, Space::Device]);
        let (stream, dev) = self.rng.of(&self.streams);
        let is_ordered = space == Space::Device && self.rng.below(2) == 0;
        let contents = match self.rng.below(4) {
            0 => Some(Contents::Seed(self.rng.next())),
            1 => Some(Contents::ramp(self.rng.of(&Dtype::ALL), -3.0, 0.75)),
            2 => Some(Contents::fill(Dtype::U8, 9.0)),
            _ => None,
        };
        // What is declared and born in the middle of a program is born in the order of nobody.
        let contents = contents.filter(|_| !is_ordered);
        let mut draft = self.p.alloc(space, &name, Bytes(bytes.unsigned_abs()));
        draft = draft.dev(if space == Space::Device { dev } else { 0 });
        if is_ordered {
            draft = draft.on(stream);
        }
        if let Some(contents) = contents {
            draft = draft.holds(contents);
        }
        let id = draft.declare();
        let is_registered = space == Space::Pinned && self.rng.below(2) == 0;
        self.held.push(Held { id, space, bytes, is_ordered, is_registered });
    }

    /// Ends a buffer, in one of the ways that it has.
    fn end(&mut self, k: usize) {
        let held = self.held.swap_remove(k);
        match held.space {
            Space::Device if held.is_ordered && self.rng.below(3) > 0 => {
                let (stream, _) = self.rng.of(&self.streams);
                self.p.free_async(held.id, stream);
            }
            Space::Device if !held.is_ordered => {
                self.p.free_via(held.id, FreeVia::Free);
            }
            Space::Pinned if held.is_registered => {
                self.p.free_via(held.id, FreeVia::Unregister);
            }
            Space::Pinned => {
                self.p.free_via(held.id, FreeVia::HostFree);
            }
            _ => self.held.push(held),
        }
    }

    fn one(&mut self) -> Held {
        if self.held.is_empty() {
            self.allocate();
        }
        self.rng.of(&self.held)
    }

    fn part(&mut self, of: Held) -> Region {
        for _ in 0..20 {
            let dims: Vec<Dim> = (0..self.rng.below(4))
                .map(|_| Dim { count: 1 + self.rng.below(6), stride: self.rng.below(50) - 18 })
                .collect();
            let elem = self.rng.of(&[1, 2, 3, 4, 8, 12, 16, 40]);
            let span = Span::strided(self.rng.below(of.bytes), elem, dims).unwrap();
            if span.bounds().is_some_and(|(lo, hi)| 0 <= lo && hi <= of.bytes) {
                return of.id.spanned(span);
            }
        }
        of.id.range(0, of.bytes)
    }

    fn compute(&mut self) -> (Compute, usize) {
        let dtype = self.rng.of(&Dtype::ALL);
        let floats = self.rng.of(&[Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64]);
        let of = |dtype, func| Compute { dtype, func };
        match self.rng.below(12) {
            0 => (of(dtype, Func::Fill(-1.5)), 0),
            1 | 2 => (of(dtype, Func::Affine { mul: -0.5, add: 3.0 }), 1),
            3 => (of(dtype, Func::Mul { conj: self.rng.below(2) == 0 }), 2),
            4 | 5 => (of(dtype, Func::Add), 2),
            6 => (of(floats, Func::Dot), 2),
            7 => (of(floats, Func::Multiple { factor: 0.5 }), 3),
            8 => (of(floats, Func::Divide), 2),
            9 => (of(floats, Func::Sqrt), 1),
            10 => (of(floats, Func::Where { above: 0.5 }), 2),
            _ => (of(floats, Func::Shrink { by: 0.75 }), 1),
        }
    }

    fn step(&mut self) {
        let (a, b, c, d) = (self.one(), self.one(), self.one(), self.one());
        let [at, from, other, third] = [a, b, c, d].map(|held| self.part(held));
        let (stream, dev) = self.rng.of(&self.streams);
        let is_host = |held: Held| held.space != Space::Device;
        match self.rng.below(26) {
            0..6 if self.rng.below(5) == 0 => {
                self.p.copy(at, from).blocking();
            }
            0..6 => {
                self.p.copy(at, from).on(stream);
            }
            6 if !is_host(a) && self.rng.below(3) == 0 => {
                self.p.memset(at, 0x5a).blocking();
            }
            6 if !is_host(a) => {
                self.p.memset(at, 0xa5).on(stream);
            }
            7..12 if [a, b, c, d].iter().all(|held| held.space != Space::Pageable) => {
                let (compute, n) = self.compute();
                let reads = [from, other, third].into_iter().take(n);
                reads
                    .fold(self.p.kernel("k"), |k, read| k.reads(read))
                    .writes(at)
                    .computes(compute)
                    .on(stream);
            }
            12 | 13 if is_host(a) && [b, c, d].into_iter().all(is_host) => {
                let (compute, n) = self.compute();
                let reads = [from, other, third].into_iter().take(n);
                reads
                    .fold(self.p.host_fn("h"), |h, read| h.reads(read))
                    .writes(at)
                    .computes(compute)
                    .on(stream);
            }
            14 if is_host(a) => {
                self.p.host_write(at, Contents::ramp(Dtype::I16, 1.0, 5.0));
            }
            15 if is_host(a) => {
                self.p.host_expect(at, Contents::fill(Dtype::U8, 9.0));
            }
            16 if is_host(a) && is_host(b) && a.id != b.id => {
                self.p.host_copy(at, from);
            }
            17 => {
                let event = self.rng.of(&self.events);
                self.p.record(event, stream);
                let (waiter, _) = self.rng.of(&self.streams);
                self.p.wait(waiter, event);
            }
            18 => {
                let event = self.rng.of(&self.events);
                self.p.event_sync(event);
            }
            19 => {
                let (event, ready) = (self.rng.of(&self.events), self.rng.below(2) == 0);
                if ready {
                    self.p.event_query(event, ready);
                } else {
                    self.p.stream_query(stream, true);
                }
            }
            20 => {
                let name = format!("short{}", self.p.len());
                let short = self.p.stream_of_kind(
                    dev,
                    &name,
                    self.rng.of(&[StreamKind::Blocking, StreamKind::NonBlocking]),
                );
                if !is_host(a) {
                    self.p.memset(at, 3).on(short);
                }
                if self.rng.below(2) == 0 {
                    self.p.sync(short);
                }
                self.p.destroy_stream(short);
            }
            21 => {
                let name = format!("gone{}", self.p.len());
                let event = self.p.create_event(&name);
                self.p.record(event, stream);
                self.p.wait(self.streams[0].0, event);
                self.p.destroy_event(event);
            }
            22 => self.allocate(),
            23 if self.held.len() > 3 => {
                let k = usize::try_from(self.rng.below(i64::try_from(self.held.len()).unwrap())).unwrap();
                self.settle();
                self.end(k);
            }
            24 => {
                self.p.sleep(Nanos(1000));
            }
            25 => {
                self.p.mark("m");
            }
            _ => {}
        }
    }

    /// Everything is over, and everybody who calls next knows.
    fn settle(&mut self) {
        self.p.device_sync(0);
        self.p.device_sync(1);
    }

    /// Some order, mostly as much as is needed.
    fn order(&mut self) {
        match self.rng.below(8) {
            0 => {}
            1..4 => self.settle(),
            4 | 5 => {
                // From every stream to every other.
                let events: Vec<EventId> =
                    self.streams.clone().into_iter().map(|(stream, _)| self.p.event_after(stream)).collect();
                for (waiter, _) in self.streams.clone() {
                    for &event in &events {
                        self.p.wait(waiter, event);
                    }
                }
                if self.rng.below(2) == 0 {
                    for &event in &events {
                        self.p.event_sync(event);
                    }
                }
            }
            6 => {
                for (stream, _) in self.streams.clone() {
                    self.p.sync(stream);
                }
            }
            _ => {
                let (stream, _) = self.rng.of(&self.streams);
                self.p.sync(stream);
            }
        }
    }

    /// Another thread goes on, which mostly waits to be told.
    fn hand_over(&mut self) {
        let next = self.rng.of(&self.threads);
        if next != self.caller && self.rng.below(10) > 0 {
            let channel = self.p.channel(&format!("c{}", self.n_channels));
            self.n_channels += 1;
            self.p.by(self.caller, |p| p.signal(channel));
            self.p.by(next, |p| p.await_signal(channel));
            self.caller = next;
        }
    }
}

fn wide(seed: u64) -> Program {
    let mut p = Program::new();
    let main = p.thread_id("main");
    let workers = [p.spawn("one"), p.spawn("two")];
    let mut streams = vec![
        (p.stream("s"), 0),
        (p.stream_on(1, "t"), 1),
        (p.blocking_stream(0, "u"), 0),
        (p.blocking_stream(1, "w"), 1),
        (p.thread_stream(0, "v", workers[0]), 0),
        (p.legacy(0), 0),
        (p.legacy(1), 1),
    ];
    let (urgent, kind) = (p.stream_id("urgent"), StreamKind::NonBlocking);
    p.push(Op::Stream { stream: urgent, dev: 0, kind, thread: main, priority: -1 });
    streams.push((urgent, 0));
    let events: Vec<EventId> = (0..3).map(|k| p.create_event(&format!("own{k}"))).collect();
    let threads = vec![main, main, workers[0], workers[1]];
    let mut drawing = Drawing {
        rng: Rng(seed),
        p,
        threads,
        caller: main,
        streams,
        events,
        held: Vec::new(),
        n_buffers: 0,
        n_channels: 0,
    };
    (0..5).for_each(|_| drawing.allocate());
    for _ in 0..14 {
        let caller = drawing.caller;
        let mut p = std::mem::take(&mut drawing.p);
        p.by(caller, |p| {
            std::mem::swap(p, &mut drawing.p);
            drawing.step();
            drawing.order();
            std::mem::swap(p, &mut drawing.p);
        });
        drawing.p = p;
        drawing.hand_over();
    }
    let Drawing { mut p, caller, n_channels, .. } = drawing;
    if caller != main {
        let channel = p.channel(&format!("c{n_channels}"));
        p.by(caller, |p| p.signal(channel));
        p.await_signal(channel);
    }
    for worker in workers {
        p.join(worker);
    }
    p.device_sync(0);
    p.device_sync(1);
    p
}

#[test]
fn all_that_runners_know_is_run_alike() {
    // More of them where somebody asks.
    let n: u64 = std::env::var("SPANLIFT_WIDE").map_or(60, |n| n.parse().unwrap());
    kit::alone(&crate::everywhere(3), |soft| {
        let base = Config::from_environment().unwrap();
        let (mut n_safe, mut n_racy, mut n_not) = (0, 0, std::collections::BTreeMap::<String, u32>::new());
        for seed in 0..n {
            let program = wide(seed);
            let what = format!("seed {seed}");
            if let Err(why) = program.check() {
                panic!("{what}: {why}\n{}", program.to_text());
            }
            if !is_safe(&program) {
                n_racy += 1;
                continue;
            }
            // Anew for each: what the driver has seen is looked at after every program.
            soft.reset(base.clone());
            let driver = Driver::open_first(&["libcuda.so"]).unwrap();
            match cuda::run(&program, &driver, 0) {
                Err(RunError::Unsupported { why, .. }) => *n_not.entry(why).or_default() += 1,
                Err(other) => panic!("{what}: {other}\n{}", program.to_text()),
                Ok(ran) => {
                    n_safe += 1;
                    agrees(&program, &driver, &what);
                    let here = cpu::run(&program).unwrap();
                    assert_eq!(here.finals, ran.finals, "{what}\n{}", program.to_text());
                }
            }
            broke_no_rule(soft, &program, &what);
            drop(driver);
            assert_eq!(soft.report().leaked, Vec::<String>::new(), "{what}");
        }
        assert!(n_safe > n / 5, "{n_safe} safe, {n_racy} racy, refused: {n_not:?}");
    });
}

/// An error at a call or in a piece of work of each, drawn: told, or the right bytes all the same; nothing misused, and nothing left
/// behind but what nobody can show to be idle.
#[test]
fn programs_end_where_the_driver_fails() {
    kit::alone_unchecked(&crate::everywhere(1), |soft| {
        let base = Config::from_environment().unwrap();
        let run = |program: &Program, faults: Vec<Fault>| {
            soft.reset(Config { faults, ..base.clone() });
            let driver = Driver::open_first(&["libcuda.so"]).unwrap();
            cuda::run(program, &driver, 0).map(|ran| ran.finals)
        };
        let (mut n_told, mut rng) = (0, Rng(5));
        for seed in 2000..2030 {
            let program = wide(seed);
            if !is_safe(&program) {
                continue;
            }
            let Ok(expected) = run(&program, Vec::new()) else { continue };
            let report = soft.finish();
            assert_eq!((report.violations, report.leaked), (Vec::new(), Vec::new()), "seed {seed}");
            // Before there is a driver nothing of it can be refused here.
            let asked_first =
                |call: &str| call.starts_with("cuDevice") || ["cuDriverGetVersion", "cuInit"].contains(&call);
            let calls = report.calls.iter().filter(|(call, _)| !asked_first(call));
            let calls = calls.map(|(call, n)| (call.clone(), *n));
            let work = report
                .ops
                .iter()
                .filter(|(kind, _)| ["copy", "kernel", "memset", "host"].contains(&kind.as_str()));
            let places: Vec<(String, u64)> =
                calls.chain(work.map(|(kind, n)| (format!("exec:{kind}"), *n))).collect();
            for _ in 0..12 {
                let (at, n) = rng.of(&places);
                let after = u32::try_from(rng.below(i64::try_from(n).unwrap())).unwrap();
                let (code, sticky) =
                    rng.of(&[(1, false), (2, false), (400, false), (719, true), (700, true)]);
                let fault = Fault { at: at.clone(), device: None, after, code: Code(code), times: 1, sticky };
                let what = format!("seed {seed}, {at} {after} of {n}: {code}");
                match run(&program, vec![fault]) {
                    Ok(finals) => assert_eq!(finals, expected, "{what}"),
                    Err(told) => {
                        n_told += 1;
                        assert!(told.to_string().contains(&code.to_string()), "{what}: {told}");
                    }
                }
                let report = soft.finish();
                assert_eq!(report.violations, [], "{what}");
                let gives_back = ["Free", "Unregister", "Destroy", "Synchronize", "exec:", "cuCtxSetCurrent"];
                let may_leak = sticky || gives_back.iter().any(|word| at.contains(word));
                assert!(may_leak || report.leaked.is_empty(), "{what}: {:?}", report.leaked);
            }
        }
        assert!(n_told > 60, "{n_told}");
    });
}

/// What drawn programs found: elements that are not whole, sums of nothing, and a number that lies where the result goes.
#[test]
fn formulas_at_the_edges_of_their_operands_are_run_alike() {
    let head =
        "stream s\ndevice x 64 = f32 fill 3\ndevice y 64 = u8 fill 9\ndevice n 8 = f64 fill 2\nsync cuda:0\n";
    let kernels = [
        // Room for two elements and a half, for none, and for no whole sum.
        "reads n, x[0..40], x[8..48] writes y[0..10] computes f32 multiple 0.5",
        "reads n, x writes y[0..3] computes f32 multiple 0.5",
        "reads x, x writes y[0..3] computes f32 dot",
        "reads x, x writes y[0..11] computes f32 dot",
        // Nothing to sum, elsewhere and where the sum goes.
        "reads x[0..3], x[8..11] writes y[0..8] computes f32 dot",
        "reads x[0..7], y[0..7] writes y[0..8] computes c32 dot",
        "reads x[0..7], x writes x[0..4] computes f64 dot",
        // The number that every thread reads.
        "reads y[0..8], x[0..8] writes y[0..8] computes f32 multiple 0.5",
        "reads y[0..8], x[0..32] writes y[0..32] computes f32 multiple 0.5",
        "reads y[8..16], x[0..32], y[0..32] writes y[0..32] computes f32 multiple 0.5",
    ];
    kit::alone(&crate::everywhere(1), |soft| {
        let driver = Driver::open().unwrap();
        for kernel in kernels {
            let number = if kernel.contains("y[0..8], x") || kernel.contains("y[8..16]") {
                "= f64 fill 2"
            } else {
                "= u8 fill 9"
            };
            let text = format!("{}kernel k on s {kernel}\nsync s\n", head.replace("= u8 fill 9", number));
            let program = Program::read(text.as_bytes()).unwrap();
            assert!(is_safe(&program), "{kernel}");
            agrees(&program, &driver, kernel);
            assert_eq!(
                cpu::run(&program).unwrap().finals,
                cuda::run(&program, &driver, 0).unwrap().finals,
                "{kernel}"
            );
            // Bytes behind the last whole element are nobody's.
            let y = &cpu::run(&program).unwrap().finals[1].bytes;
            if let Some(end) = kernel.split("writes y[0..").nth(1).and_then(|rest| rest.split(']').next()) {
                let (end, size) = (end.parse::<usize>().unwrap(), if kernel.contains("dot") { 8 } else { 4 });
                let before =
                    cpu::run(&Program::read(head.replace("= u8 fill 9", number).as_bytes()).unwrap())
                        .unwrap();
                assert_eq!(y[end - end % size..], before.finals[1].bytes[end - end % size..], "{kernel}");
            }
        }
        assert!(soft.report().violations.is_empty());
    });
}

/// The same where no device reaches the other's memory, and where there are no pools.
#[test]
fn devices_that_lack_something_run_it_alike() {
    let lacking = crate::everywhere(1)
        .into_iter()
        .flat_map(|config| [Config { peers: false, ..config.clone() }, Config { pools: false, ..config }]);
    kit::alone(&lacking.collect::<Vec<_>>(), |soft| {
        let driver = Driver::open().unwrap();
        let mut n_safe = 0;
        for seed in 1000..1030 {
            let program = wide(seed);
            if !is_safe(&program) {
                continue;
            }
            match cuda::run(&program, &driver, 0) {
                Err(RunError::Unsupported { .. }) => {}
                Err(other) => panic!("seed {seed}: {other}\n{}", program.to_text()),
                Ok(_) => {
                    n_safe += 1;
                    agrees(&program, &driver, &format!("seed {seed}"));
                }
            }
            broke_no_rule(soft, &program, &format!("seed {seed}"));
        }
        assert!(n_safe > 5, "{n_safe}");
        assert_eq!(soft.report().leaked, Vec::<String>::new());
    });
}
