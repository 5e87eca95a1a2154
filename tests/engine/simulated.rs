//! The engine's safe interface on the simulator: one source, compiled against both, does the same on both; and what only the
//! simulator answers is held against its program, its machine and plain values.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use num_complex::Complex;
use spanlift::hazard::{self, Mode};
use spanlift::machine::{Grade, Machine, Source};
use spanlift::memory::Dtype;
use spanlift::program::{Compute, Op, StreamKind};
use spanlift::simulated::{DevBuf, Engine, EngineError, Event, Stream, Value};
use spanlift::trace::Kind;
use spanlift::{Nanos, Program, mib, sim};
use spanlift_softcuda::kit;

use crate::schedules;

/// A generator of 31 bits.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }

    fn value(&mut self, n: usize) -> i32 {
        i32::try_from(self.below(n)).expect("31 bits")
    }
}

/// Random calls on streams that events order, held against plain vectors at every look. `$update` is `x = 3 x + 1`.
macro_rules! calls {
    ($name:ident, $Engine:ty, $Stream:ty, $Event:ty, $stream:expr, $update:expr) => {
        fn $name(engine: &$Engine, seed: u64) {
            const LENGTHS: [usize; 4] = [0, 1, 7, 1000];
            let mut random = Random(seed);
            let streams: [$Stream; 3] = [engine.stream().clone(), $stream(engine), $stream(engine)];
            let mut last = 0; // the stream with all of the order so far
            let len = LENGTHS[random.below(4)];
            let mut known: Vec<[Vec<i32>; 2]> = Vec::new();
            let (mut hosts, mut devices) = (Vec::new(), Vec::new());
            for k in 0..3 {
                let values: Vec<i32> = (0..len).map(|_| random.value(1000) - 500).collect();
                hosts.push(Some(engine.pin(&values).expect("room")));
                let there = engine.alloc::<i32>(&streams[0], len).expect("room");
                let host = hosts[k].take().expect("it is there");
                let flight = engine.h2d(&streams[0], host, there).expect("up");
                let (host, there) = flight.wait().expect("landed");
                hosts[k] = Some(host);
                devices.push(Some(there));
                known.push([values.clone(), values]);
            }
            for _ in 0..30 {
                let now = random.below(3);
                // All that was given before comes before what is given now.
                streams[now].wait(&<$Event>::after(&streams[last]).expect("an event")).expect("waits");
                last = now;
                let (stream, h, d) = (&streams[now], random.below(3), random.below(3));
                let (host, there) = (&mut hosts[h], &mut devices[d]);
                match random.below(10) {
                    0 => {
                        let host = host.as_mut().expect("it is there");
                        for (k, v) in host.iter_mut().enumerate() {
                            *v = v.wrapping_add(random.value(100));
                            known[h][0][k] = *v;
                        }
                    }
                    1 => assert_eq!(host.as_ref().expect("it is there")[..], known[h][0][..], "{seed}"),
                    2 => {
                        $update(engine, stream, there.as_mut().expect("it is there"));
                        known[d][1].iter_mut().for_each(|v| *v = v.saturating_mul(3).saturating_add(1));
                    }
                    3 => {
                        let sides = (host.take().expect("it is there"), there.take().expect("it is there"));
                        let flight = engine.h2d(stream, sides.0, sides.1).expect("up");
                        let (a, b) = flight.wait().expect("landed");
                        (*host, *there) = (Some(a), Some(b));
                        known[d][1] = known[h][0].clone();
                    }
                    4 => {
                        let sides = (host.take().expect("it is there"), there.take().expect("it is there"));
                        let flight = engine.d2h(stream, sides.1, sides.0).expect("down");
                        let (b, a) = flight.wait().expect("landed");
                        (*host, *there) = (Some(a), Some(b));
                        known[h][0] = known[d][1].clone();
                    }
                    5 => {
                        // Both are lost with the token, which waits.
                        let sides = (host.take().expect("it is there"), there.take().expect("it is there"));
                        drop(engine.h2d(stream, sides.0, sides.1).expect("up"));
                        *host = Some(engine.pin(&known[h][0]).expect("room"));
                        let anew = engine.pin(&known[d][1]).expect("room");
                        let flight = engine.h2d(stream, anew, engine.alloc(stream, len).expect("room"));
                        *there = Some(flight.expect("up").wait().expect("landed").1);
                    }
                    6 => {
                        let there = there.as_mut().expect("it is there");
                        let mut slice: Vec<i32> = (0..len).map(|_| random.value(99)).collect();
                        engine.upload_into(stream, &slice, there).expect("up");
                        known[d][1].clone_from(&slice);
                        slice.fill(-1);
                    }
                    7 => {
                        let mut slice = vec![-1; len];
                        let there = there.as_ref().expect("it is there");
                        engine.download(stream, there, &mut slice).expect("down");
                        assert_eq!(slice, known[d][1], "{seed}");
                    }
                    way => {
                        let (host, there) =
                            (host.as_mut().expect("it is there"), there.as_mut().expect("it is there"));
                        let other = &streams[(now + 1) % 3];
                        engine
                            .scope(|s| {
                                if way == 8 {
                                    let up = s.h2d(stream, host, there)?;
                                    up.on(other)?;
                                    last = (now + 1) % 3;
                                    std::mem::forget(up);
                                    known[d][1] = known[h][0].clone();
                                } else {
                                    let (host, there) = s.h2d(stream, host, there)?.wait()?;
                                    host.iter_mut().for_each(|v| *v = v.wrapping_sub(7));
                                    known[d][1] = known[h][0].clone();
                                    known[h][0].iter_mut().for_each(|v| *v = v.wrapping_sub(7));
                                    assert_eq!(host[..], known[h][0][..], "{seed}");
                                    drop(s.d2h(stream, there, host)?);
                                    known[h][0] = known[d][1].clone();
                                }
                                Ok(())
                            })
                            .expect("all landed");
                    }
                }
            }
            for (d, there) in devices.into_iter().enumerate() {
                let there = there.expect("it is there");
                let home = engine.pinned(len).expect("room");
                let (_, found) =
                    engine.d2h(&streams[last], there, home).expect("down").wait().expect("landed");
                assert_eq!(found[..], known[d][1][..], "{seed}");
            }
        }
    };
}

calls!(
    on_simulator,
    Engine,
    Stream,
    Event,
    |engine| Stream::new(engine, StreamKind::NonBlocking),
    |engine: &Engine, stream: &Stream, x| {
        engine.update(stream, Compute::affine(Dtype::I32, 3.0, 1.0), x).expect("a kernel");
    }
);

mod native {
    use super::{Compute, Dtype, Random, StreamKind};
    use spanlift_native::cuda::{Event, Kernels, Stream};
    use spanlift_native::engine::Engine;

    calls!(
        on_device,
        Engine,
        Stream,
        Event,
        |engine: &Engine| Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream"),
        |engine: &Engine, stream: &Stream, x| {
            let kernels = Kernels::load(engine.context()).expect("the module loads");
            let formula = Compute::affine(Dtype::I32, 3.0, 1.0);
            engine.update(stream, &kernels, formula, x).expect("a kernel");
            stream.synchronize().expect("the module is in use until then");
        }
    );

    pub(super) fn run(engine: &Engine, seed: u64) {
        on_device(engine, seed);
    }
}

fn open() -> Engine {
    Engine::open(0, Machine::default()).expect("a machine of the house")
}

fn races(program: &Program) -> Vec<String> {
    let found =
        hazard::check(program, Mode::Contract).unwrap_or_else(|e| panic!("{e}\n{}", program.to_text()));
    found.hazards.iter().map(|h| hazard::sentence(program, h)).collect()
}

#[test]
fn the_same_source_does_the_same_on_both() {
    for seed in 0..60 {
        let engine = open();
        on_simulator(&engine, seed);
        let program = engine.program();
        assert_eq!(races(&program), Vec::<String>::new(), "{seed}: {}", program.to_text());
        // All that is in it, contents too, is said in words.
        let text = Program::from_text(&program.to_text()).expect("its own text");
        let again = sim::run(&text, &Machine::default()).expect("it runs");
        assert_eq!(again.finals, engine.run().expect("it runs").finals, "{seed}");
    }
    kit::alone(&schedules(2), |_| {
        let engine = crate::engine();
        (0..6).for_each(|seed| native::run(&engine, seed));
    });
}

fn there_and_back<T: Value + std::fmt::Debug>(values: &[T]) -> Vec<T> {
    let engine = open();
    let stream = engine.stream();
    let there = engine.alloc(stream, values.len()).expect("room");
    let (mut host, there) =
        engine.h2d(stream, engine.pin(values).expect("room"), there).expect("up").wait().expect("landed");
    host.fill(T::ZERO);
    let (_, host) = engine.d2h(stream, there, host).expect("down").wait().expect("landed");
    // Through the file form too: whatever the values are, a program can say them.
    let json = Program::from_json(engine.program().to_json().as_bytes()).expect("its own JSON");
    let again = sim::run(&json, &Machine::default()).expect("it runs");
    assert_eq!(again.finals, engine.run().expect("it runs").finals);
    host.to_vec()
}

#[test]
fn values_of_every_type_come_back_bit_by_bit() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(there_and_back(&all), all);
    assert_eq!(there_and_back(&[i8::MIN, -1, 0, i8::MAX]), [i8::MIN, -1, 0, i8::MAX]);
    assert_eq!(there_and_back(&[i16::MIN, -1, i16::MAX]), [i16::MIN, -1, i16::MAX]);
    assert_eq!(there_and_back(&[i32::MIN, -1, i32::MAX]), [i32::MIN, -1, i32::MAX]);
    let far = [i64::MIN, i64::MIN + 1, -(1 << 53) - 1, 1 << 53, (1 << 53) + 1, i64::MAX];
    for values in [&far[..], &far[3..4], &far[4..5], &[-7, 9]] {
        assert_eq!(there_and_back(values), values);
    }
    let odd = [0x7fc0_0001, 0xff80_0000, 0x8000_0000, 1, 0x7f7f_ffff, 0x3dcc_cccd].map(f32::from_bits);
    for values in [&odd[..], &odd[..1], &odd[1..2], &odd[2..3], &odd[3..]] {
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&there_and_back(values)), bits(values));
    }
    let odd = [f64::NAN, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE / 3.0, f64::MAX, 0.1];
    for values in [&odd[..], &odd[1..2], &odd[2..3], &odd[3..]] {
        let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&there_and_back(values)), bits(values));
    }
    let real = [Complex::new(1.5f32, 0.0), Complex::new(-2.0, 0.0)];
    assert_eq!(there_and_back(&real), real);
    let both = [Complex::new(1.5f64, -0.0), Complex::new(0.0, f64::INFINITY)];
    let bits = |v: &[Complex<f64>]| v.iter().map(|v| (v.re.to_bits(), v.im.to_bits())).collect::<Vec<_>>();
    assert_eq!(bits(&there_and_back(&both)), bits(&both));
}

#[test]
fn a_missing_wait_is_seen_as_an_old_value_and_as_a_race() {
    // Slow enough that the copy home begins in the middle of the kernel.
    let mut machine = Machine::default();
    let source = Source { grade: Grade::Assumed, text: "slow".into() };
    machine.set("d2d_bw", 10.0, source).expect("a rate");
    let run = |is_ordered: bool| {
        let engine = Engine::open(0, machine.clone()).expect("opens");
        let (copy, compute) = (engine.stream(), Stream::new(&engine, StreamKind::NonBlocking));
        let n = 1 << 20;
        let there = engine.alloc(copy, n).expect("room");
        let (ones, home) = (engine.pin(&vec![1i32; n]).expect("room"), engine.pinned(n).expect("room"));
        let (_, mut there) = engine.h2d(copy, ones, there).expect("up").wait().expect("landed");
        engine.update(&compute, Compute::affine(Dtype::I32, 2.0, 0.0), &mut there).expect("a kernel");
        if is_ordered {
            copy.wait(&Event::after(&compute).expect("an event")).expect("waits");
        }
        let (_, back) = engine.d2h(copy, there, home).expect("down").wait().expect("landed");
        (back[0], races(&engine.program()))
    };
    assert_eq!(run(true), (2, vec![]));
    let (value, found) = run(false);
    assert_eq!(value, 1, "the copy begins first");
    assert!(found.len() == 1 && found[0].starts_with("race: "), "{found:?}");
}

/// A block is freed after what every stream was given on it.
#[test]
fn a_block_used_on_another_stream_is_freed_behind_it() {
    type Use = fn(&Engine, &Stream, &mut DevBuf<i32>) -> Result<(), EngineError>;
    let uses: [Use; 2] = [
        |engine, side, there| engine.update(side, Compute::affine(Dtype::I32, 2.0, 0.0), there),
        |engine, side, there| engine.upload_into(side, &[2; 4], there),
    ];
    for used in uses {
        let engine = open();
        let (home, side) = (engine.stream(), Stream::new(&engine, StreamKind::NonBlocking));
        let there = engine.alloc(home, 4).expect("room");
        let up = engine.h2d(home, engine.pin(&[1i32; 4]).expect("room"), there).expect("up");
        let (_, mut there) = up.wait().expect("landed");
        used(&engine, &side, &mut there).expect("work");
        drop(there);
        engine.synchronize().expect("done");
        let text = engine.program().to_text();
        assert_eq!(races(&engine.program()), Vec::<String>::new(), "{text}");
        // Without the wait it would be a use after the free.
        let without: String =
            text.lines().filter(|l| !l.starts_with("wait")).map(|l| format!("{l}\n")).collect();
        assert!(without != text);
        assert_eq!(races(&Program::from_text(&without).expect("a program")).len(), 1, "{without}");
    }
}

#[test]
fn transfers_take_what_the_machine_says_and_two_directions_overlap() {
    let machine = Machine::builtin("h200-pcie5").expect("of the house");
    let engine = Engine::open(0, machine.clone()).expect("opens");
    let (up, down) = (engine.stream(), Stream::new(&engine, StreamKind::NonBlocking));
    let n = 4 << 20;
    let (mut a, mut b) = (engine.pinned::<u8>(n).expect("room"), engine.pinned::<u8>(n).expect("room"));
    let (mut x, mut y) = (engine.alloc(up, n).expect("room"), engine.alloc(&down, n).expect("room"));
    let copies = |engine: &Engine| -> Vec<(Nanos, Nanos)> {
        let run = engine.run().expect("it runs");
        let copies = run.trace.slices.iter().filter(|s| matches!(s.kind, Kind::ToDevice | Kind::ToHost));
        // Each stands on its stream's lane and on its engine's.
        copies.map(|s| (s.start, s.end)).collect::<BTreeSet<_>>().into_iter().collect()
    };
    engine
        .scope(|s| s.h2d(up, &mut a, &mut x)?.wait().map(|_| ()).map_err(EngineError::from))
        .expect("landed");
    let alone = copies(&engine);
    assert_eq!(alone.len(), 1);
    assert_eq!(alone[0].1.0 - alone[0].0.0, machine.h2d_bw.time(mib(4)).0 + machine.lat.0);
    engine
        .scope(|s| {
            let _ = (s.h2d(up, &mut a, &mut x)?, s.d2h(&down, &mut y, &mut b)?);
            Ok(())
        })
        .expect("landed");
    let all = copies(&engine);
    assert_eq!(all.len(), 3);
    assert!(all[1].0 < all[2].1 && all[2].0 < all[1].1, "{all:?}");
}

/// Around the size of a slot and of all of them.
#[test]
fn slices_go_through_slots_chunk_by_chunk() {
    let chunk = 1 << 20;
    for n in [1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3 * chunk + 1, 4 * chunk + 17] {
        let engine = open();
        let stream = engine.stream();
        let (first, second) = (crate::bytes(n, 1), crate::bytes(n, 2));
        let a = engine.upload(stream, &first).expect("up");
        let b = engine.upload(stream, &second).expect("up");
        assert_eq!(crate::n_wrong(&engine.download_vec(stream, &a).expect("down"), &first), 0, "{n}");
        assert_eq!(crate::n_wrong(&engine.download_vec(stream, &b).expect("down"), &second), 0, "{n}");
    }
}

/// What the slots wait for is needed, each wait of it: without one a slot is overwritten, or read before it was written.
#[test]
fn no_wait_for_a_slot_can_be_left_out() {
    let chunk = 1 << 20;
    for n in [1, 3 * chunk, 3 * chunk + 1, 5 * chunk + 17] {
        let engine = open();
        let (stream, side) = (engine.stream(), Stream::new(&engine, StreamKind::NonBlocking));
        let a = engine.upload(stream, &vec![1u8; n]).expect("up");
        let b = engine.upload(&side, &vec![2u8; n]).expect("up");
        engine.download_vec(&side, &b).expect("down");
        engine.download_vec(stream, &a).expect("down");
        let text = engine.program().to_text();
        assert_eq!(races(&engine.program()), Vec::<String>::new(), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("pinned")).count(), 3);
        // A stream's wait for an event of its own is none.
        let is_wait = |line: &&str| {
            let event = line.strip_prefix("wait");
            line.starts_with("sync ")
                || event.is_some_and(|event| !text.contains(&format!("record{}", &event[2..])))
        };
        let waits = text.lines().filter(is_wait).count();
        for left_out in 0..waits {
            let mut k = 0;
            let lines = text.lines().filter(|line| {
                k += usize::from(is_wait(line));
                !is_wait(line) || k != left_out + 1
            });
            let without: String = lines.flat_map(|line| [line, "\n"]).collect();
            let found = races(&Program::from_text(&without).expect("a program"));
            assert!(!found.is_empty(), "{n}: no race without wait {left_out} of {text}");
        }
    }
}

/// Each call is a command once, and what says the same again is none.
#[test]
fn the_program_says_what_was_called_and_no_more() {
    let engine = open();
    let (home, side) = (engine.stream(), Stream::new(&engine, StreamKind::NonBlocking));
    let mut sent = engine.pin(&[0i32; 4]).expect("room");
    engine.pin_into(&[1, 2, 3, 4], &mut sent).expect("as many");
    let (sent, x) =
        engine.h2d(home, sent, engine.alloc(home, 4).expect("room")).expect("up").wait().expect("landed");
    // What the host has not changed since is not told again.
    let (_, y) =
        engine.h2d(home, sent, engine.alloc(home, 4).expect("room")).expect("up").wait().expect("landed");
    let mut z = engine.alloc(home, 4).expect("room");
    side.wait(&Event::after(home).expect("an event")).expect("waits");
    for _ in 0..2 {
        engine.compute(&side, Compute::affine(Dtype::I32, 2.0, 1.0), &x, &mut z).expect("a kernel");
    }
    engine.synchronize().expect("done");
    engine.compute(home, Compute::affine(Dtype::I32, 3.0, 1.0), &y, &mut z).expect("a kernel");
    let (z, back) =
        engine.d2h(home, z, engine.pinned(4).expect("room")).expect("down").wait().expect("landed");
    assert_eq!(back[..], [4, 7, 10, 13]);
    let told = |program: &Program| {
        let text = program.to_text();
        let n = |word: &str| text.lines().filter(|l| l.starts_with(word)).count();
        ["write", "copy", "kernel", "sync    cuda:0", "read", "wait", "free"].map(n)
    };
    assert_eq!(told(&engine.program()), [1, 3, 3, 1, 1, 1, 0], "{}", engine.program().to_text());
    // The side stream is waited for once by what it used, and by nothing else.
    drop((x, y, z));
    assert_eq!(told(&engine.program()), [1, 3, 3, 1, 1, 3, 3], "{}", engine.program().to_text());
    assert_eq!(races(&engine.program()), Vec::<String>::new());
}

#[test]
fn the_program_names_its_machine_where_the_name_says_it() {
    assert_eq!(open().program().machine.as_deref(), Some("tutorial-ci"));
    let other = |figure: &str, value: f64| {
        let mut machine = Machine::default();
        let source = Source { grade: Grade::Assumed, text: "other".into() };
        machine.set(figure, value, source).map(|()| machine)
    };
    let machine = other("lat", 9.0).expect("a latency");
    assert_eq!(Engine::open(0, machine).expect("opens").program().machine, None);
    // No file says this.
    let machine = Machine { copy_engines: 0, ..Machine::default() };
    assert!(Engine::open(0, machine).is_err());
}

#[test]
fn another_stream_waits_for_the_copy_and_the_host_does_not() {
    let engine = open();
    let side = Stream::new(&engine, StreamKind::NonBlocking);
    let (sent, there) =
        (engine.pin(&[1u8; 9]).expect("room"), engine.alloc(engine.stream(), 9).expect("room"));
    let up = engine.h2d(engine.stream(), sent, there).expect("up");
    let before = engine.program();
    up.on(&side).expect("waits");
    assert_eq!(up.on(open().stream()), Err(EngineError::OtherEngine));
    let (event, waiter) = match engine.program().commands() {
        [rest @ .., last] if rest == before.commands() => match last.op {
            Op::Wait { stream, event } => (event, stream),
            ref other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let recorded = before.commands().last().map(|command| command.op.clone());
    assert!(matches!(recorded, Some(Op::Record { event: e, stream }) if e == event && stream != waiter));
}

#[test]
fn a_token_waits_when_it_is_dropped_and_not_when_it_is_forgotten() {
    let engine = open();
    let sent = || {
        let there = engine.alloc(engine.stream(), 9).expect("room");
        engine.h2d(engine.stream(), engine.pin(&[1u8; 9]).expect("room"), there).expect("up")
    };
    let waits =
        || engine.program().commands().iter().filter(|c| matches!(c.op, Op::EventSync { .. })).count();
    let (forgotten, dropped) = (sent(), sent());
    std::mem::forget(forgotten);
    assert_eq!(waits(), 0);
    drop(dropped);
    assert_eq!(waits(), 1);
}

#[test]
fn a_scope_waits_when_its_closure_panics() {
    let engine = open();
    let stream = engine.stream();
    let mut sent = engine.pin(&[5u8; 9]).expect("room");
    let mut there = engine.alloc(stream, 9).expect("room");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        engine.scope(|s| -> Result<(), EngineError> {
            std::mem::forget(s.h2d(stream, &mut sent, &mut there)?);
            panic!("planted");
        })
    }));
    assert!(panicked.is_err());
    sent.fill(6);
    let home = engine.pinned(9).expect("room");
    let (_, home) = engine.d2h(stream, there, home).expect("down").wait().expect("landed");
    assert_eq!(home[..], [5; 9]);
    assert_eq!(races(&engine.program()), Vec::<String>::new());
    let text = engine.program().to_text();
    assert!(text.lines().filter(|l| l.starts_with("sync ")).count() >= 2, "{text}");
}

#[test]
fn refusals_give_back_what_was_given() {
    let (engine, other) = (open(), open());
    let (stream, foreign) = (engine.stream(), other.stream());
    let pinned = |n: usize| engine.pin(&vec![1u8; n]).expect("room");
    let there = |n: usize| engine.alloc::<u8>(stream, n).expect("room");
    let refused = engine.h2d(stream, pinned(3), there(4)).expect_err("lengths");
    assert_eq!(refused.error, EngineError::Length { from: 3, to: 4 });
    assert_eq!(refused.to_string(), "3 elements do not fit 4");
    assert_eq!(refused.buffers.map(|(a, b)| (a[..].to_vec(), b.len())), Some((vec![1; 3], 4)));
    let refused = engine.d2h(stream, there(4), pinned(3)).expect_err("lengths");
    assert_eq!(refused.error, EngineError::Length { from: 4, to: 3 });
    for error in [
        engine.h2d(foreign, pinned(3), there(3)).expect_err("a foreign stream").error,
        engine.h2d(stream, other.pin(&[1; 3]).expect("room"), there(3)).expect_err("foreign memory").error,
        engine.d2h(stream, other.alloc(foreign, 3).expect("room"), pinned(3)).expect_err("as well").error,
        engine.alloc::<u8>(foreign, 3).expect_err("a foreign stream"),
        stream.wait(&Event::after(foreign).expect("an event")).expect_err("a foreign event"),
        engine.update(foreign, Compute::affine(Dtype::U8, 1.0, 0.0), &mut there(3)).expect_err("as well"),
        engine.upload_into(foreign, &[1; 3], &mut there(3)).expect_err("as well"),
        engine.download(foreign, &there(3), &mut [1; 3]).expect_err("as well"),
    ] {
        assert_eq!(error, EngineError::OtherEngine);
    }
    let mut x = there(3);
    let formula = || Compute::affine(Dtype::U8, 1.0, 0.0);
    let refused = engine.compute(stream, formula(), &there(4), &mut x);
    assert_eq!(refused, Err(EngineError::Length { from: 4, to: 3 }));
    assert_eq!(engine.pin_into(&[1; 2], &mut pinned(3)), Err(EngineError::Length { from: 2, to: 3 }));
    for formula in
        [Compute::affine(Dtype::I8, 1.0, 0.0), Compute::mul(Dtype::U8), Compute::fill(Dtype::U8, 1.0)]
    {
        assert!(matches!(engine.update(stream, formula, &mut x), Err(EngineError::Argument(_))));
    }
    let too_large = open().pinned::<u8>((1 << 30) + 1).expect_err("a byte more than a GiB");
    assert_eq!(too_large, EngineError::TooLarge { needed: (1 << 30) + 1, limit: 1 << 30 });
    let EngineError::TooLarge { needed, .. } = engine.pinned::<u8>(1 << 40).expect_err("a TiB") else {
        panic!()
    };
    assert!(1 << 40 < needed, "with those that are there: {needed}");
    assert!(matches!(
        engine.alloc::<f64>(stream, usize::MAX),
        Err(EngineError::TooLarge { needed: u64::MAX, .. })
    ));
    assert_eq!(engine.pin_into(&[1; 2], &mut pinned(3)), Err(EngineError::Length { from: 2, to: 3 }));
    // None of it was issued.
    assert_eq!(races(&engine.program()), Vec::<String>::new());
    assert!(!engine.program().to_text().contains("copy"));
}
