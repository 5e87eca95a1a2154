//! A better machine makes no program later, as far as that is true.
//!
//! A schedule in which every engine takes its work in an order that does not depend on times is built of sums and maxima
//! alone, so that whatever gets shorter makes nothing later. That holds for one host thread with
//!
//! - one stream, whatever is on it;
//! - any number of streams that nothing ties to each other, each with copies of one direction and nothing else, as long as
//!   directions do not slow each other down.
//!
//! Elsewhere engines take first what comes first, and a shorter copy can bring a long kernel before a short one that others
//! wait for (Graham 1969, "Bounds on multiprocessing timing anomalies"): the last test finds such programs.

use spanlift::machine::{Machine, Rate, Ratio};
use spanlift::program::{BufferId, StreamId};
use spanlift::sim::Prepared;
use spanlift::{Nanos, Program, mib};

use crate::extension::Random;

/// Buffers that copies go between: pinned memory and a device's.
fn buffers(p: &mut Program, n: usize) -> (Vec<BufferId>, Vec<BufferId>) {
    (0..n).map(|k| (p.pinned(&format!("x{k}"), mib(4)), p.device(0, &format!("d{k}"), mib(4)))).unzip()
}

fn n_bytes(r: &mut Random) -> i64 {
    [1, 4 << 10, 300_000, 1 << 20, 4 << 20][r.below(5)]
}

fn copy(p: &mut Program, r: &mut Random, s: StreamId, (x, d): (BufferId, BufferId), is_up: bool) {
    let n = n_bytes(r);
    match is_up {
        true => p.copy(d.range(0, n), x.range(0, n)).on(s),
        false => p.copy(x.range(0, n), d.range(0, n)).on(s),
    };
}

fn kernel(p: &mut Program, r: &mut Random, s: StreamId, d: BufferId) {
    let takes = Nanos([900, 20_000, 150_000, 700_000][r.below(4)]);
    p.kernel("k").reads(d).writes(d).takes(takes).on(s);
}

/// One stream with anything on it.
fn one_stream(seed: u64) -> Program {
    let mut r = Random(seed);
    let mut p = Program::new();
    let s = p.stream("s");
    let (x, d) = buffers(&mut p, 3);
    for _ in 0..30 {
        let k = r.below(3);
        match r.below(6) {
            0 | 1 => copy(&mut p, &mut r, s, (x[k], d[k]), true),
            2 => copy(&mut p, &mut r, s, (x[k], d[k]), false),
            3 => kernel(&mut p, &mut r, s, d[k]),
            4 => drop(p.copy(d[k], d[(k + 1) % 3]).on(s)),
            _ => {
                p.sync(s);
            }
        }
    }
    p.sync(s);
    p
}

/// Streams of one direction each.
fn many_streams(seed: u64) -> Program {
    let mut r = Random(seed);
    let mut p = Program::new();
    let streams: Vec<StreamId> = (0..4).map(|k| p.stream(&format!("s{k}"))).collect();
    let (x, d) = buffers(&mut p, 4);
    for _ in 0..40 {
        let k = r.below(4);
        match r.below(5) {
            0 => {
                p.sync(streams[k]);
            }
            _ => copy(&mut p, &mut r, streams[k], (x[k], d[k]), k.is_multiple_of(2)),
        }
    }
    streams.into_iter().for_each(|s| {
        p.sync(s);
    });
    p
}

/// Streams that go in, compute and come back.
fn pipelines(seed: u64) -> Program {
    let mut r = Random(seed);
    let mut p = Program::new();
    let streams: Vec<StreamId> = (0..3).map(|k| p.stream(&format!("s{k}"))).collect();
    let (x, d) = buffers(&mut p, 3);
    for _ in 0..8 {
        let k = r.below(3);
        copy(&mut p, &mut r, streams[k], (x[k], d[k]), true);
        kernel(&mut p, &mut r, streams[k], d[k]);
        copy(&mut p, &mut r, streams[k], (x[k], d[k]), false);
    }
    streams.into_iter().for_each(|s| {
        p.sync(s);
    });
    p
}

fn faster(rate: Rate, eighths: u64) -> Rate {
    Rate(rate.0 / 8 * (8 + eighths))
}

/// Machines that are better than `m` in one thing each.
fn better(m: &Machine, eighths: u64) -> [Machine; 5] {
    [
        Machine { h2d_bw: faster(m.h2d_bw, eighths), ..m.clone() },
        Machine { d2h_bw: faster(m.d2h_bw, eighths), ..m.clone() },
        Machine { d2d_bw: faster(m.d2d_bw, eighths), ..m.clone() },
        Machine { lat: Nanos(m.lat.0 / 2), ..m.clone() },
        Machine { copy_engines: m.copy_engines + 1, ..m.clone() },
    ]
}

/// How many better machines make a program later.
fn n_later(program: &Program, machine: &Machine, eighths: u64) -> usize {
    let prepared = Prepared::new(program).expect("well formed");
    let end = |m: &Machine| prepared.run(m).expect("it runs").end;
    let before = end(machine);
    better(machine, eighths).iter().filter(|m| before < end(m)).count()
}

fn machines() -> Vec<Machine> {
    let all = Machine::names().filter_map(Machine::builtin).take(4);
    all.flat_map(|m| {
        (1..=2).map(move |copy_engines| Machine {
            copy_engines,
            bidir_factor_h2d: Ratio::ONE,
            bidir_factor_d2h: Ratio::ONE,
            ..m.clone()
        })
    })
    .collect()
}

#[test]
fn a_better_machine_makes_no_program_of_one_stream_later() {
    for (seed, machine) in (0..160).zip(machines().iter().cycle()) {
        assert_eq!(n_later(&one_stream(seed), machine, 1 + seed % 16), 0, "seed {seed}");
    }
}

#[test]
fn a_better_machine_makes_no_streams_of_one_direction_later() {
    for (seed, machine) in (0..160).zip(machines().iter().cycle()) {
        assert_eq!(n_later(&many_streams(seed), machine, 1 + seed % 16), 0, "seed {seed}");
    }
}

/// The bound of the claim is real: where order depends on times, some programs are later on a better machine.
#[test]
fn pipelines_have_scheduling_anomalies() {
    let n: usize = (0..400).map(|seed| n_later(&pipelines(seed), &machines()[1], 1 + seed % 16)).sum();
    assert!(0 < n && n < 400, "{n} of 2,000 better machines make a program later");
}
