//! Both pipelines of the forum's question as an H200 ran them, copy by copy, beside the same programs simulated on its profile, which was
//! measured minutes before.

use spanlift::Nanos;
use spanlift::machine::Machine;
use spanlift::sim;
use spanlift::trace::{self, Kind, Trace};

const PROFILE: &[u8] = include_bytes!("../../native/measured/profile-h200-2026-11-28.json");
const A: &[u8] = include_bytes!("../../native/measured/pipeline-a-h200-2026-11-28.json");
const B: &[u8] = include_bytes!("../../native/measured/pipeline-b-h200-2026-11-28.json");

/// How far simulated times may lie from measured ones.
const NEAR: f64 = 0.03;

/// What a device did of one kind of work.
#[derive(Debug)]
struct Seen {
    /// From the first to the last.
    begins: Nanos,
    ends: Nanos,
    n: usize,
    busy: i64,
    /// The longest time between one and the next, none where some lie beside each other.
    gap: Option<i64>,
}

fn seen(trace: &Trace, kind: Kind) -> Seen {
    let is_engine = |lane: u32| matches!(trace.lanes[lane as usize].kind, trace::LaneKind::Engine { .. });
    let slices = (0..trace.slices.len()).map(|k| trace.slices.get(k));
    let of_kind = slices.filter(|slice| slice.kind == kind && is_engine(slice.lane));
    let mut times: Vec<(Nanos, Nanos)> = of_kind.map(|slice| (slice.start, slice.end)).collect();
    times.sort_unstable();
    let gaps = times.windows(2).map(|pair| pair[1].0.0 - pair[0].1.0);
    let gap = gaps.clone().all(|gap| 0 <= gap).then(|| gaps.max()).flatten();
    Seen {
        begins: times[0].0,
        ends: times.iter().map(|time| time.1).max().expect("some"),
        n: times.len(),
        busy: times.iter().map(|(start, end)| end.0 - start.0).sum(),
        gap,
    }
}

#[track_caller]
fn near(what: &str, simulated: i64, measured: i64) {
    let error = simulated as f64 / measured as f64 - 1.0;
    assert!(error.abs() <= NEAR, "{what}: {simulated} ns simulated, {measured} ns measured");
}

#[test]
fn copies_of_pipelines_take_as_long_as_simulated_and_nothing_idles() {
    let machine = Machine::from_json(PROFILE).expect("a profile");
    for (name, file) in [("A", A), ("B", B)] {
        let measured = trace::read(file).expect("a trace");
        let program = measured.program.clone().expect("it has its program");
        let simulated = sim::run(&program, &machine).expect("a program").trace;
        let both = |kind| [&simulated, &measured].map(|trace| seen(trace, kind));
        let [up, seen_up] = both(Kind::ToDevice);
        let [down, seen_down] = both(Kind::ToHost);
        for (what, simulated, measured) in [("to the device", &up, &seen_up), ("home", &down, &seen_down)] {
            assert_eq!((simulated.n, measured.n), (16, 16), "{name}, {what}");
            near(&format!("{name}, copies {what}"), simulated.busy, measured.busy);
            // A copy's latency, or the kernel that the first copy home waits for.
            assert!(measured.gap.is_some_and(|gap| gap < 50_000), "{name}, {what}: {measured:?}");
        }
        near(&format!("{name} as a whole"), down.ends.0 - up.begins.0, seen_down.ends.0 - seen_up.begins.0);
    }
}
