//! Choices on recorded calibrations: what is chosen, that thresholds are monotone, that nothing forced would be better.

use super::calibration::recorded;
use super::*;
use crate::machine::Grade;

const SIZES: [u64; 11] = [
    4 << 10,
    28 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
    1 << 30,
    4 << 30,
];
const COUNTS: [u64; 5] = [1, 10, 100, 1_000, 10_000];
const SOURCES: [HostMemory; 4] =
    [HostMemory::Pageable, HostMemory::Fresh, HostMemory::Pinned, HostMemory::File];
const ROUTES: [Route; 4] = [Route::Up, Route::Down, Route::Within, Route::Peer];

fn calibrations() -> Vec<Calibration> {
    recorded().iter().cloned().map(Calibration::of).collect()
}

/// What an engine has before hardware showed that more is needed.
fn first() -> Caps {
    Caps { register: false, mapped: false, batch: false, ..Caps::ALL }
}

/// Section 9's matrix: sizes, counts, sources, directions, one way and both.
fn matrix() -> impl Iterator<Item = Request> {
    let sized = SIZES.into_iter().flat_map(|size| COUNTS.map(|count| (size, count)));
    let fits = sized.filter(|(size, count)| size * count <= 4 << 30);
    fits.flat_map(|(size, count)| {
        SOURCES.into_iter().flat_map(move |host| {
            ROUTES.into_iter().flat_map(move |route| {
                [false, true].map(|both_ways| Request {
                    both_ways,
                    ..Request::many(route, host, count, Bytes(size * count))
                })
            })
        })
    })
}

#[test]
fn there_are_four_calibrations_and_every_figure_has_a_source() {
    let machines = recorded();
    let names: Vec<&str> = machines.iter().map(|m| &*m.name).collect();
    assert_eq!(names, ["gen3", "gen5", "no-batch", "slow-cores"]);
    for machine in machines {
        assert!(machine.ignored.is_empty());
        assert!(machine.figures().all(|f| f.source.grade != Grade::Unstated), "{machine}");
    }
}

#[test]
fn the_automatic_choice_is_within_a_tenth_of_the_best_forced_one() {
    let mut n = 0;
    for calibration in calibrations() {
        for caps in [Caps::ALL, first(), Caps { workers: 1, ..first() }] {
            for request in matrix() {
                let auto = choose(&request, &calibration, &caps);
                for way in Way::ALL {
                    let forced =
                        choose(&Request { force: Some(way), ..request.clone() }, &calibration, &caps);
                    if !forced.forced {
                        continue;
                    }
                    assert_eq!(forced.chosen.way, way);
                    let (auto, forced) = (auto.chosen.predicted.0, forced.chosen.predicted.0);
                    assert!(auto * 10 <= forced * 11, "{auto} {forced} {way:?} {request:?}");
                    n += 1;
                }
            }
        }
    }
    assert!(n > 5_000, "{n} comparisons");
}

#[test]
fn more_bytes_take_longer_and_thresholds_are_crossed_once() {
    for calibration in calibrations() {
        for host in [HostMemory::Pageable, HostMemory::Pinned, HostMemory::Fresh] {
            for route in ROUTES {
                let (mut least, mut seen) = (Nanos::ZERO, Vec::new());
                // Three sizes to each doubling, from 1 byte to 8 GiB.
                for bytes in (0..34).flat_map(|k| [4, 5, 6].map(|n| Bytes((1u64 << k) * n / 4))) {
                    let plan = choose(&Request::one(route, host, bytes), &calibration, &first());
                    // A slower figure for memory out of the cache, or a tie, may shift a little.
                    assert!(least.0 - least.0 / 20 <= plan.chosen.predicted.0, "{bytes} {plan:?}");
                    least = plan.chosen.predicted.max(least);
                    if seen.last() != Some(&plan.chosen.way) {
                        seen.push(plan.chosen.way);
                    }
                }
                let mut once = seen.clone();
                once.sort();
                once.dedup();
                assert_eq!(once.len(), seen.len(), "{host:?} {route:?}: {seen:?}");
            }
        }
    }
}

#[track_caller]
fn check(name: &str, request: &Request, caps: &Caps, expected: &str) {
    let calibration = Calibration::recorded(name).unwrap();
    let plan = choose(request, &calibration, caps);
    let c = &plan.chosen;
    assert_eq!(format!("{} x{} {}", c.way.id(), c.workers, c.chunk.0 >> 10), expected, "{request:?}");
}

#[test]
fn what_is_chosen_on_known_machines() {
    use HostMemory::{Fresh, Pageable, Pinned};
    use Route::{Down, Peer, Up, Within};
    let one = |route, host, bytes| Request::one(route, host, Bytes(bytes));
    let many = |host, n, each| Request::many(Up, host, n, Bytes(n * each));
    let all = &Caps::ALL;
    check("gen5", &one(Up, Pageable, 4_000), all, "S1 x1 4");
    check("gen5", &one(Up, Pinned, 4_000_000), all, "S0 x0 0");
    check("gen5", &many(Pinned, 1000, 4_000_000), &first(), "S0 x0 0");
    check("gen5", &one(Within, Pinned, 1 << 30), all, "S8 x0 0");
    check("gen5", &one(Peer, Pinned, 1 << 30), all, "S8 x0 0");
    check("slow-cores", &one(Peer, Pinned, 1 << 30), all, "S8 x0 4096");
    // Four threads cannot fill a fast link, eight can; on a slow link two are enough.
    let workers = |name: &str, request: &Request| {
        choose(request, &Calibration::recorded(name).unwrap(), all).chosen.workers
    };
    let large = one(Up, Pageable, 4_000_000_000);
    assert_eq!(workers("gen5", &large), 8);
    assert_eq!(workers("gen3", &large), 3);
    assert_eq!(workers("gen3", &one(Down, Fresh, 800_000_000)), 8);
    // Nothing page-locked: the driver is what is left.
    let none = Caps { slots: Bytes(0), ..first() };
    check("gen3", &large, &none, "driver x0 0");
    // Reuse that pays and reuse that does not.
    let reused = |uses| Request { uses: Some(uses), ..one(Up, Pageable, 64 << 20) };
    check("slow-cores", &reused(1000), all, "S3 x0 0");
    assert_ne!(workers("slow-cores", &reused(1)), 0);
    // A batch where the driver has one, not where it has none.
    let pieces = many(Pinned, 10_000, 100_000);
    check("gen5", &pieces, all, "S7 x0 0");
    check("no-batch", &pieces, all, "S0 x0 0");
}

#[test]
fn slots_fit_into_what_is_page_locked() {
    for mib in [0u64, 1, 8, 64] {
        for workers in 1..=8 {
            for size in SIZES {
                let caps = Caps { workers, slots: Bytes(mib << 20), ..Caps::ALL };
                let chunk = formula::chunk(Bytes(size), workers, &caps);
                assert!(u64::from(workers) * 3 * chunk.0 <= mib << 20);
                assert!(chunk <= caps.slot());
                assert_eq!(chunk.0 % 4096, 0);
            }
        }
    }
}

#[test]
fn a_forced_way_that_cannot_be_is_not_taken_and_says_why() {
    let request =
        Request { force: Some(Way::Direct), ..Request::one(Route::Up, HostMemory::Pageable, Bytes(9)) };
    let plan = choose(&request, &Calibration::recorded("gen3").unwrap(), &Caps::ALL);
    assert!(!plan.forced);
    let why = plan.rejected.iter().find(|r| r.way() == Way::Direct);
    assert_eq!(
        why,
        Some(&Rejected::Excluded { way: Way::Direct, rule: "the host's memory is not page-locked" })
    );
    assert_eq!(plan.rejected.len(), Way::ALL.len() - 1);
}

/// Pieces within a device that are shorter than a call go as a list, from as many on as are worth a launch; the closed forms agree
/// with that rule on every machine.
#[test]
fn short_pieces_within_a_device_are_a_list() {
    let request = |n: u64, each: u64| Request::many(Route::Within, HostMemory::Pinned, n, Bytes(n * each));
    let is_list = |plan: &Plan| plan.chosen.terms.iter().any(|term| term.name == "list");
    let bare = Caps { list: false, ..Caps::ALL };
    for calibration in calibrations() {
        let machine = calibration.machine();
        let (own, fewest) = (calibration.own_call().0, calibration.fewest_listed());
        // To the nanosecond, in which times are.
        assert!(machine.d2d_bw.time(Bytes(own)).0.abs_diff(machine.call_memcpy_async.0) <= 1);
        let calls = |n: u64| machine.call_memcpy_async.0 * i64::try_from(n).unwrap();
        let list = machine.call_launch.0 + machine.call_event_record.0;
        assert!(list < calls(fewest) && (fewest == 2 || calls(fewest - 1) <= list));
        for (n, each, expected) in [
            (fewest, 1, true),
            (fewest - 1, 1, false),
            (fewest, own - 1, true),
            (fewest, own, false),
            (10_000, 4000, true),
        ] {
            let plan = choose(&request(n, each), &calibration, &Caps::ALL);
            assert_eq!((plan.chosen.way, is_list(&plan)), (Way::Device, expected), "{n} x {each}");
            let calls = choose(&request(n, each), &calibration, &bare);
            assert!(!is_list(&calls) && plan.chosen.predicted <= calls.chosen.predicted, "{n} x {each}");
        }
    }
    let mut machine = calibrations()[0].machine().clone();
    (machine.call_launch, machine.call_event_record) = (Nanos(4 * machine.call_memcpy_async.0), Nanos(1));
    assert_eq!(Calibration::of(machine).fewest_listed(), 5);
}

/// Also where nothing could be page-locked, whatever the memory is and whatever is forced.
#[test]
fn there_is_always_a_way() {
    let bare = Caps { slots: Bytes(0), workers: 1, peer: false, ..first() };
    for caps in [Caps::ALL, first(), bare] {
        for request in matrix() {
            for force in [None, Some(Way::Ring), Some(Way::Register)] {
                let request = Request { force, ..request.clone() };
                let plan = choose(&request, &calibrations()[0], &caps);
                assert_eq!(plan.rejected.len(), Way::ALL.len() - 1, "{request:?}");
            }
        }
    }
}

#[test]
fn sizes_without_end_are_no_panic() {
    for bytes in [0, 1, u64::MAX] {
        for tensors in [0, 1, u64::MAX] {
            for (host, route) in SOURCES.into_iter().zip(ROUTES) {
                for calibration in calibrations() {
                    let plan =
                        choose(&Request::many(route, host, tensors, Bytes(bytes)), &calibration, &first());
                    assert!(plan.chosen.predicted.0 > 0);
                }
            }
        }
    }
}
