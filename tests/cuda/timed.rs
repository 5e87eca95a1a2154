//! Traces with the devices' own times: every piece of work stands there once, where its stream has it, with its call.

use std::collections::BTreeMap;

use spanlift::machine::Machine;
use spanlift::program::Op;
use spanlift::trace::{FlowKind, Kind, LaneKind, Slice, Trace};
use spanlift::{Program, sim};
use spanlift_native::cuda::{self, Clock, Driver, RunError};
use spanlift_softcuda::kit;
use spanlift_softcuda::{Code, Config, Cupti, Fault, Scheduler};

use crate::programs::{Kinds, is_safe, random};

/// What lies on streams, by command: kind, bytes and what is known of the host's memory.
fn on_streams(trace: &Trace) -> BTreeMap<u32, Vec<(Slice, u8)>> {
    let mut of: BTreeMap<u32, Vec<(Slice, u8)>> = BTreeMap::new();
    for (slice, flags) in trace.slices.iter().zip(&trace.slices.flags) {
        let lane = trace.lanes[usize::try_from(slice.lane).unwrap()];
        let is_known = slice.command != Slice::NONE && slice.kind.is_device_work();
        if is_known && matches!(lane.kind, LaneKind::Stream { .. }) {
            of.entry(slice.command).or_default().push((slice, *flags));
        }
    }
    of
}

fn is_work(op: &Op) -> bool {
    matches!(op, Op::Kernel(_) | Op::Copy(_) | Op::Memset { .. } | Op::HostFn { .. })
}

fn checked(program: &Program, trace: &Trace, what: &str) {
    let found = on_streams(trace);
    // The simulator's trace is the oracle of what a piece of work is.
    let simulated = sim::run(program, &Machine::default()).unwrap();
    for (command, expected) in on_streams(&simulated.trace) {
        let [(slice, flags)] = found[&command][..] else {
            panic!("{what}: {command}: {:?}", found[&command])
        };
        let (expected, _) = expected[0];
        assert_eq!((slice.kind, slice.bytes), (expected.kind, expected.bytes), "{what}: {command}");
        assert!(slice.start <= slice.end, "{what}: {slice:?}");
        let Op::Copy(copy) = &program.commands()[usize::try_from(command).unwrap()].op else { continue };
        let spaces = [&copy.dst, &copy.src].map(|side| {
            let declared = program.commands().iter().find_map(|command| match &command.op {
                Op::Alloc(alloc) if alloc.buffer == side.buffer => Some(alloc.space),
                _ => None,
            });
            declared.unwrap()
        });
        let has = |space| spaces.contains(&space);
        assert_eq!(
            flags & Slice::PAGEABLE != 0,
            has(spanlift::program::Space::Pageable),
            "{what}: {command}"
        );
        assert_eq!(flags & Slice::PINNED != 0, has(spanlift::program::Space::Pinned), "{what}: {command}");
    }
    let n_work = program.commands().iter().filter(|command| is_work(&command.op)).count();
    assert_eq!(found.values().map(Vec::len).sum::<usize>(), n_work, "{what}");
    // A stream does one thing at a time, in the order of its commands.
    let mut last: BTreeMap<u32, Slice> = BTreeMap::new();
    for slices in found.values() {
        let slice = slices[0].0;
        if let Some(before) = last.insert(slice.lane, slice) {
            assert!(before.end <= slice.start, "{what}: {before:?} and {slice:?}");
        }
    }
    // Each has the call that enqueued it: same command, same correlation, an arrow between them.
    for flow in &trace.flows {
        let [from, to] = [flow.from, flow.to].map(|k| trace.slices.get(usize::try_from(k).unwrap()));
        assert_eq!((flow.kind, from.kind), (FlowKind::Launch, Kind::Call), "{what}");
        assert_eq!((from.command, from.correlation), (to.command, to.correlation), "{what}");
        assert_eq!(from.correlation, i64::from(from.command), "{what}");
    }
    assert_eq!(trace.flows.len(), n_work, "{what}");
}

#[test]
fn every_piece_of_work_has_its_time() {
    kit::alone(&crate::everywhere(3), |soft| {
        let driver = Driver::open().unwrap();
        let mut n_work = 0;
        for seed in 0..40 {
            let program = random(seed, Kinds { kernels: seed % 2 == 1 });
            if !is_safe(&program) {
                let told = cuda::run_timed(&program, &driver, 0, &());
                assert!(matches!(told, Err(RunError::NotSafe { .. })), "seed {seed}");
                continue;
            }
            let what = format!("seed {seed}");
            let timed = cuda::run_timed(&program, &driver, 0, &()).unwrap();
            assert!(matches!(timed.clock, Clock::Events { .. }), "{what}: {}", timed.clock);
            checked(&program, &timed.trace, &what);
            // Looking changes nothing of what is done.
            let plain = cuda::run(&program, &driver, 0).unwrap();
            assert_eq!((plain.finals, plain.issued), (timed.finals, timed.issued), "{what}");
            assert_eq!(plain.clock, Clock::Host);
            n_work += timed.trace.flows.len();
            // What is written is read again, with its times.
            let text = spanlift::trace::write_chrome(&timed.trace);
            let again = spanlift::trace::read(text.as_bytes()).unwrap();
            assert_eq!(
                (&again.slices.start, &again.slices.end),
                (&timed.trace.slices.start, &timed.trace.slices.end)
            );
        }
        assert!(n_work > 60, "{n_work}");
        assert!(soft.report().violations.is_empty(), "{:?}", soft.report().violations);
    });
}

/// One stream after the other, by an event: the times say so too, however late the driver is.
#[test]
fn work_that_waits_comes_later() {
    kit::alone(&crate::everywhere(4), |_| {
        let driver = Driver::open().unwrap();
        let text = "stream s\nstream t\npinned x 64KiB = u8 fill 1\npinned y 64KiB = u8 fill 0\ndevice d 64KiB\n\
                    copy d <- x on s\nrecord e on s\nwait e on t\ncopy y <- d on t\nsync t\nread y expect u8 fill 1";
        let program = Program::read(text.as_bytes()).unwrap();
        for _ in 0..3 {
            let run = cuda::run_timed(&program, &driver, 1, &()).unwrap();
            assert!(run.reads[0].is_right());
            checked(&program, &run.trace, "two streams");
            let slices: Vec<Slice> = on_streams(&run.trace).into_values().map(|slices| slices[0].0).collect();
            let [up, down] = slices[..] else { panic!("{slices:?}") };
            assert!(
                up.kind == Kind::ToDevice && down.kind == Kind::ToHost && up.end <= down.start,
                "{slices:?}"
            );
            // The trace itself says whose times these are.
            let said =
                run.trace.instants.iter().any(|at| run.trace.strings.get(at.name).contains("CUDA events"));
            assert!(said && run.trace.slices.iter().any(|slice| slice.kind == Kind::Wait));
        }
    });
}

/// More pieces than events are kept for: those behind are asked while the run goes on.
#[test]
fn long_runs_keep_few_events() {
    kit::alone(&[Config::default()], |soft| {
        let driver = Driver::open().unwrap();
        let text = "stream s\ndevice d 64\nrepeat k 5000\n memset d 3 on s\nend\nsync s";
        let program = Program::read(text.as_bytes()).unwrap();
        let run = cuda::run_timed(&program, &driver, 0, &()).unwrap();
        assert_eq!(run.trace.flows.len(), 5000);
        checked(&program, &run.trace, "long");
        let n_events = soft.report().calls.get("cuEventCreate").copied().unwrap_or_default();
        assert!(n_events <= 2 * 4096 + 16, "{n_events}");
    });
}

fn with_cupti(scheduler: Scheduler, cupti: Cupti) -> Config {
    Config { libraries: true, cupti, ..Config::under(scheduler) }
}

/// Where CUPTI is, its records are what is told: of each command as many bytes as it moves, by stream and by engine.
#[test]
fn records_of_cupti_are_the_programs_work() {
    let orders = [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(4), Scheduler::Threads(0)];
    let mut configs = orders.map(|scheduler| with_cupti(scheduler, Cupti::Honest)).to_vec();
    // Records that nobody knows, and a buffer of nobody's, change nothing.
    configs.extend(
        [Cupti::Unknown, Cupti::Foreign, Cupti::Beyond].map(|cupti| with_cupti(Scheduler::Lazy, cupti)),
    );
    kit::alone(&configs, |_| {
        let driver = Driver::open().unwrap();
        let (mut n_work, mut n_other, mut n_on_host) = (0, 0, 0);
        for seed in 0..40 {
            let program = random(seed, Kinds { kernels: seed % 2 == 1 });
            if !is_safe(&program) {
                continue;
            }
            let what = format!("seed {seed}");
            let run = cuda::run_timed(&program, &driver, 0, &()).unwrap();
            assert!(matches!(run.clock, Clock::Cupti { n_lost: 0, .. }), "{what}: {}", run.clock);
            let simulated = sim::run(&program, &Machine::default()).unwrap();
            let found = on_streams(&run.trace);
            for (command, expected) in on_streams(&simulated.trace) {
                let (expected, _) = expected[0];
                let pieces = found.get(&command).map_or(&[][..], Vec::as_slice);
                // What the host does for a stream has no record but our own; copies within the host are its calls.
                let by_host = on_host(&run.trace).remove(&command).unwrap_or_default();
                if expected.kind == Kind::HostFn {
                    assert_eq!((pieces.len(), by_host.len()), (0, 1), "{what}: {command}");
                    n_on_host += 1;
                }
                assert!(by_host.iter().all(|slice| slice.kind == expected.kind), "{what}: {by_host:?}");
                assert!(by_host.iter().all(|slice| slice.bytes == expected.bytes), "{what}: {by_host:?}");
                if [Kind::HostFn, Kind::OtherCopy].contains(&expected.kind) {
                    continue;
                }
                let is_host_memset = expected.kind == Kind::Memset && by_host.len() == 1;
                let bytes: u64 = pieces.iter().map(|(slice, _)| slice.bytes).sum();
                n_work += pieces.len();
                // A kernel or a copy onto itself may go by memory of its own, with copies there and back.
                if ![Kind::Kernel, Kind::WithinDevice].contains(&expected.kind) {
                    let what = format!("{what}: {command}: {expected:?}, {pieces:?}");
                    assert!(bytes == expected.bytes || is_host_memset, "{what}");
                    assert!(pieces.iter().all(|(slice, _)| slice.kind == expected.kind), "{what}");
                }
            }
            // The same work lies on engines.
            let of = |is_engine: bool| {
                let is_of = |slice: &Slice| {
                    let is_lane = match run.trace.lanes[usize::try_from(slice.lane).unwrap()].kind {
                        LaneKind::Engine { .. } => is_engine,
                        LaneKind::Stream { .. } => !is_engine,
                        _ => false,
                    };
                    is_lane && slice.kind.is_device_work()
                };
                let mut all: Vec<_> = run
                    .trace
                    .slices
                    .iter()
                    .filter(is_of)
                    .map(|s| (s.start, s.end, s.bytes, s.command))
                    .collect();
                all.sort_unstable();
                all
            };
            assert_eq!(of(true), of(false), "{what}");
            n_other += of(false).iter().filter(|(.., command)| *command == Slice::NONE).count();
            let plain = cuda::run(&program, &driver, 0).unwrap();
            assert_eq!((plain.finals, plain.issued), (run.finals, run.issued), "{what}");
        }
        // Bytes that buffers are born with and last ones that are fetched are seen too, and are nobody's.
        assert!(n_work > 60 && n_other > 10 && n_on_host > 4, "{n_work}, {n_other}, {n_on_host}");
    });
}

/// What the host did for streams, by command.
fn on_host(trace: &Trace) -> BTreeMap<u32, Vec<Slice>> {
    let mut of: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    for slice in trace.slices.iter() {
        let lane = trace.lanes[usize::try_from(slice.lane).unwrap()];
        if trace.strings.get(lane.name).starts_with("host functions of ") {
            of.entry(slice.command).or_default().push(slice);
        }
    }
    of
}

/// Host functions, which CUPTI has no records of, stand beside their stream with the host's own times, and the trace says whose
/// these are.
#[test]
fn host_functions_stand_beside_cuptis_records() {
    let orders = [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(4), Scheduler::Threads(0)];
    kit::alone(&orders.map(|scheduler| with_cupti(scheduler, Cupti::Honest)), |_| {
        let driver = Driver::open().unwrap();
        let text = "stream s\nstream t\npinned x 64KiB = u8 fill 1\npinned y 64KiB = u8 fill 0\ndevice d 64KiB\n\
                    copy d <- x on s\nhost fn h on s reads x writes y computes u8 affine 3 1\nrecord e on s\nwait e on t\n\
                    host fn i on t reads y writes y computes u8 affine 2 0\nmemset x 9 on t\nsync t\nread y expect u8 fill 8\n\
                    read x expect u8 fill 9";
        let program = Program::read(text.as_bytes()).unwrap();
        let run = cuda::run_timed(&program, &driver, 1, &()).unwrap();
        assert!(matches!(run.clock, Clock::Cupti { n_lost: 0, .. }), "{}", run.clock);
        assert!(run.reads.iter().all(sim::Reading::is_right));
        let trace = &run.trace;
        let lanes: Vec<(&str, &str)> = trace
            .lanes
            .iter()
            .map(|lane| (trace.strings.get(lane.group), trace.strings.get(lane.name)))
            .filter(|(_, name)| name.starts_with("host functions"))
            .collect();
        assert_eq!(lanes, [("cuda:0", "host functions of s"), ("cuda:0", "host functions of t")]);
        let slices: Vec<Slice> = on_host(trace).into_values().flatten().collect();
        let kinds: Vec<Kind> = slices.iter().map(|slice| slice.kind).collect();
        assert_eq!(kinds, [Kind::HostFn, Kind::HostFn, Kind::Memset]);
        // In the order of the streams, within the run, behind the calls that asked for them.
        let times: Vec<_> = slices.iter().flat_map(|slice| [slice.start, slice.end]).collect();
        assert!(times.is_sorted() && times[0].0 >= 0 && times[5] <= run.end, "{times:?} of {}", run.end);
        for slice in &slices {
            let calls =
                trace.slices.iter().filter(|call| call.kind == Kind::Call && call.command == slice.command);
            let begun: Vec<_> = calls.map(|call| call.start).collect();
            assert!(begun.len() == 1 && begun[0] <= slice.start, "{begun:?}, {slice:?}");
        }
        let arrows = trace.flows.iter().filter(|flow| {
            let to = trace.slices.get(usize::try_from(flow.to).unwrap());
            slices.iter().any(|slice| slice == &to)
        });
        assert_eq!(arrows.count(), 3);
        let said: Vec<&str> = trace.instants.iter().map(|at| trace.strings.get(at.name)).collect();
        let is_said =
            |text: &&str| text.contains("CUPTI") && text.contains("host functions: the host's clock");
        assert!(said.iter().any(is_said), "{said:?}");
        // The file says all of it again.
        let again = spanlift::trace::read(spanlift::trace::write_chrome(trace).as_bytes()).unwrap();
        assert_eq!(
            on_host(&again).into_values().flatten().map(|s| (s.start, s.end, s.kind)).collect::<Vec<_>>(),
            slices.iter().map(|s| (s.start, s.end, s.kind)).collect::<Vec<_>>()
        );
    });
}

/// What CUPTI should never do ends in a count or in events, and never in a hang or in times that are none.
#[test]
fn a_cupti_that_breaks_its_word_is_told() {
    let manners = [
        Cupti::Short,
        Cupti::Backwards,
        Cupti::Outside,
        Cupti::Lost,
        Cupti::Deaf,
        Cupti::Timeless,
        Cupti::Refused,
    ];
    kit::alone(&manners.map(|cupti| with_cupti(Scheduler::Lazy, cupti)), |_| {
        let cupti = Config::from_environment().unwrap().cupti;
        let driver = Driver::open().unwrap();
        let text = "stream s\ndevice d 64\nrepeat k 100\n memset d 3 on s\nend\nsync s";
        let program = Program::read(text.as_bytes()).unwrap();
        for _ in 0..2 {
            let run = cuda::run_timed(&program, &driver, 0, &()).unwrap();
            let n = on_streams(&run.trace).len();
            match (cupti, run.clock) {
                (Cupti::Refused, Clock::Events { .. }) => assert_eq!(n, 100),
                (Cupti::Lost, Clock::Cupti { n_lost: 3, .. }) => assert_eq!(n, 100),
                // Each command that it took no id of, and one for all records.
                (Cupti::Deaf, Clock::Cupti { n_lost: 101, .. }) => assert_eq!(n, 0),
                (Cupti::Timeless, Clock::Cupti { n_lost, .. }) => {
                    assert!(n == 0 && n_lost >= 100, "{n_lost}")
                }
                (Cupti::Short, Clock::Cupti { n_lost, .. }) => {
                    assert!(0 < n_lost && n + n_lost >= 100 && n < 100, "{n}, {n_lost}");
                }
                (Cupti::Backwards | Cupti::Outside, Clock::Cupti { n_lost, .. }) => {
                    assert!(n_lost > 1 && n < 100, "{n}, {n_lost}");
                }
                (cupti, clock) => panic!("{cupti:?}: {clock}"),
            }
            let says = run.clock.to_string();
            assert_eq!(says.contains("records lost"), cupti != Cupti::Refused, "{says}");
        }
    });
}

/// A kernel's record that ends before its name has none: what lies behind it is another record, and no address.
#[test]
fn a_record_that_is_cut_short_names_nothing() {
    kit::alone(&[with_cupti(Scheduler::Lazy, Cupti::Stubby)], |_| {
        let driver = Driver::open().unwrap();
        let text = "stream s\ndevice d 64 = u8 fill 3\nrepeat k 9\n kernel k on s reads d writes d computes u8 affine 1 1\nend\nsync s";
        let program = Program::read(text.as_bytes()).unwrap();
        let run = cuda::run_timed(&program, &driver, 0, &()).unwrap();
        let kernels = on_streams(&run.trace).into_values().flatten().filter(|(s, _)| s.kind == Kind::Kernel);
        assert_eq!(kernels.count(), 9, "{}", run.clock);
        assert!(run.finals.iter().all(|last| last.bytes == [12; 64]));
    });
}

/// One capture at a time: another one meanwhile has its times from events.
#[test]
fn two_captures_at_a_time_do_not_meet() {
    kit::alone(&[with_cupti(Scheduler::Lazy, Cupti::Honest)], |_| {
        let driver = Driver::open().unwrap();
        let text = "stream s\ndevice d 64\nrepeat k 300\n memset d 3 on s\nend\nsync s";
        let program = Program::read(text.as_bytes()).unwrap();
        std::thread::scope(|scope| {
            let work = || {
                for _ in 0..3 {
                    let run = cuda::run_timed(&program, &driver, 0, &()).unwrap();
                    assert_eq!(on_streams(&run.trace).len(), 300, "{}", run.clock);
                }
            };
            for _ in 0..3 {
                scope.spawn(work);
            }
        });
    });
}

#[test]
fn a_driver_that_refuses_times_is_an_error() {
    let fault = |at: &str, after| Fault {
        at: at.to_owned(),
        device: None,
        after,
        code: Code(2),
        times: 1,
        sticky: false,
    };
    let faults =
        [("cuEventCreate", 2), ("cuEventRecord", 6), ("cuEventElapsedTime", 0), ("cuEventSynchronize", 1)];
    let configs = faults.map(|(at, after)| Config { faults: vec![fault(at, after)], ..Config::default() });
    kit::alone(&configs, |_| {
        let driver = Driver::open().unwrap();
        let program = Program::read(b"stream s\ndevice d 64\nmemset d 3 on s\nsync s").unwrap();
        let told = cuda::run_timed(&program, &driver, 0, &()).unwrap_err();
        assert!(matches!(told, RunError::Device(_) | RunError::Cuda { .. }), "{told}");
        // And the next run is as any other.
        assert_eq!(cuda::run_timed(&program, &driver, 0, &()).unwrap().trace.flows.len(), 1);
    });
}
