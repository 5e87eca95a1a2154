//! Machines and requests whose public fields somebody filled in: an answer or an error, never a panic and never for ever.

use spanlift::advise::{Depth, Origin, Request, Strategy, Tensors, factors, predict, rank};
use spanlift::machine::{Machine, Rate, Ratio};
use spanlift::sim::{self, SimError};
use spanlift::{Bytes, Nanos, Program};

use crate::ranks::Rng;

const FEW: Depth = Depth { tensors: 6, bytes: 1 << 24 };

/// A number as a careless or hostile hand writes it.
fn number(rng: &mut Rng) -> u64 {
    let small = rng.below(100);
    rng.of(&[0, 0, 1, 2, small, 4096, 1 << 32, i64::MAX.unsigned_abs(), u64::MAX - small, u64::MAX])
}

fn count(rng: &mut Rng) -> u32 {
    rng.of(&[0, 1, 2, 1000, u32::MAX])
}

fn time(rng: &mut Rng) -> Nanos {
    rng.of(&[Nanos(0), Nanos(1), Nanos(-1), Nanos(i64::MIN), Nanos(i64::MAX), Nanos(1 << 62)])
}

/// Another value for one field of a machine.
fn change(m: &mut Machine, rng: &mut Rng) {
    let (rate, ratio, bytes) = (Rate(number(rng)), Ratio(number(rng)), Bytes(number(rng)));
    match rng.below(36) {
        0 => m.inline_h2d_bytes = bytes,
        1 => m.queue_depth_per_stream = count(rng),
        2 => m.max_resident_grids = count(rng),
        3 => m.call_launch = time(rng),
        4 => m.call_memcpy_async = time(rng),
        5 => m.call_event_record = time(rng),
        6 => m.call_stream_wait = time(rng),
        7 => m.sync_return = time(rng),
        8 => m.call_malloc = time(rng),
        9 => m.kernel_start_gap = time(rng),
        10 => m.host_alloc_fixed = time(rng),
        11 => m.host_alloc_per_4k = time(rng),
        12 => m.host_register_per_4k = time(rng),
        13 => m.copy_engines = count(rng),
        14 => m.h2d_bw = rate,
        15 => m.d2h_bw = rate,
        16 => m.bidir_factor_h2d = ratio,
        17 => m.bidir_factor_d2h = ratio,
        18 => m.lat = time(rng),
        19 => m.d2d_bw = rate,
        20 => m.p2p_bw = rate,
        21 => m.pageable_direct = !m.pageable_direct,
        22 => m.ordered_copies = !m.ordered_copies,
        23 => m.pageable_h2d_bw = rate,
        24 => m.stage_hot_bw = rate,
        25 => m.stage_cold_bw = rate,
        26 => m.stage_chunk = bytes,
        27 => m.stage_slots = count(rng),
        28 => m.host_memcpy_hot_bw = rate,
        29 => m.host_memcpy_cap_bw = rate,
        30 => m.dma_interference = ratio,
        31 => m.last_level_cache = bytes,
        32 => m.framework_to_overhead = time(rng),
        33 => m.framework_copy_threads = count(rng),
        34 => m.framework_copy_grain = bytes,
        _ => m.pin_overhead = time(rng),
    }
}

const PROGRAM: &str = "stream s, r\nstream old blocking\npinned x 64KiB\npageable y 3MiB\ndevice d 3MiB\ndevice o 3MiB on cuda:1\n\
    copy d <- y on s\ncopy d[0..65536] <- x on r\nkernel k on s reads d writes d\nmemset d 0 on r\ncopy o <- d on s\ncopy y <- d blocking\n\
    kernel f on old reads x for 3us\nsync cuda:0\ndevice late 4KiB\nfree late\nsync s\n";

#[test]
fn machines_filled_in_by_hand_are_simulated_or_refused() {
    let program = Program::from_text(PROGRAM).unwrap();
    let mut n_run = 0;
    for seed in 0..1_500 {
        let rng = &mut Rng(seed);
        let mut machine = Machine::default();
        for _ in 0..1 + rng.below(3) {
            change(&mut machine, rng);
        }
        let ran = sim::run(&program, &machine);
        assert_eq!(machine.check().is_err(), matches!(ran, Err(SimError::Machine(_))), "seed {seed}");
        n_run += usize::from(ran.is_ok());
        let _ = (machine.to_json(), machine.figure("lat"));
        let strategy = rng.of(&[
            Strategy::Direct,
            Strategy::Ring { threads: 2 },
            Strategy::Register,
            Strategy::B { slots: 3 },
        ]);
        let request = Request::new(vec!["3x70000B".parse().unwrap()], Origin::Pageable);
        let _ = predict(strategy, &request, &machine, FEW);
    }
    assert!((300..1_200).contains(&n_run), "{n_run} run");
}

#[test]
fn requests_filled_in_by_hand_are_answered_or_refused() {
    let (mut n, mut n_ranked) = (0, 0);
    for seed in 0..150 {
        let rng = &mut Rng(seed);
        let mut tensors = Vec::new();
        for _ in 0..rng.below(3) {
            let [count, bytes] = [number(rng), number(rng)];
            let bytes = Bytes(rng.of(&[1000, 70_000, 4_000_000, bytes]));
            tensors.push(Tensors { count: rng.of(&[1, 2, 3, count]), bytes });
        }
        let mut request = Request::new(tensors, rng.of(&[Origin::Pageable, Origin::Pinned, Origin::File]));
        let work = time(rng);
        request.work = rng.of(&[Nanos(0), Nanos(1000), work]);
        request.back = rng.below(2) == 0;
        request.in_flight = rng.of(&[None, None, None, Some(0), Some(1), Some(u32::MAX)]);
        request.cores = count(rng);
        request.load = rng.of(&[0.0, 1.0, -1.0, 7.0, f64::NAN, f64::INFINITY]);
        request.free_ram = rng.of(&[None, Some(Bytes(0)), Some(Bytes(u64::MAX))]);
        request.repeat = count(rng);
        let machine = Machine::default();
        n += 1;
        if let Ok(ranking) = rank(&request, &machine, FEW) {
            n_ranked += 1;
            let _ = (ranking.best().map(|p| p.bound()), ranking.decision(request.repeat));
        }
        let _ = factors(&request, &machine, FEW);
    }
    assert!(5 < n_ranked && n_ranked < n, "{n_ranked} of {n} ranked");
}
