//! Copies beside work, and what a device may hold.

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{Diagonal, Operator, Space, fft, to};
use spanlift::plan::{Plan, PlanError, Planning};
use spanlift::trace::Kind;
use spanlift::{Bytes, Program, chain, sim};

use crate::drawn::Wild;
use crate::oracle::{Random, eps};
use crate::soak::draws;

/// Five stages on a device over an image that is sent there and back.
fn staged(y: i64, x: i64) -> Operator {
    let image = Space::new([("y", y), ("x", x)], Dtype::C32).unwrap().on(mock(0));
    let f = fft(["x"]).over(&image).unwrap();
    let half = Operator::scale(0.5, f.codomain().clone()).unwrap();
    chain![to(mock(0)), &f, &half, f.h(), to(cpu())].unwrap()
}

fn peak(plan: &Plan) -> u64 {
    plan.peaks()[&mock(0)].total().0
}

fn safe(plan: &Plan) -> bool {
    hazard::check(plan.program(), Mode::Contract).unwrap().verdict() == Verdict::Safe
}

/// How long copies to the device and kernels ran at the same time, and how long it all took.
fn overlap(program: &Program) -> (i64, i64) {
    let run = sim::run(program, &Machine::builtin("h200-pcie5").unwrap()).unwrap();
    let slices = &run.trace.slices;
    let of = |kind: Kind| {
        let here = (0..slices.kind.len()).filter(move |&k| slices.kind[k] == kind);
        here.map(|k| (slices.start[k], slices.end[k])).collect::<Vec<_>>()
    };
    let (copies, kernels) = (of(Kind::ToDevice), of(Kind::Kernel));
    assert!(!copies.is_empty() && !kernels.is_empty());
    let both = copies.iter().flat_map(|c| kernels.iter().map(move |k| (c.1.min(k.1) - c.0.max(k.0)).max(0)));
    (both.sum(), run.end.0)
}

#[test]
fn the_copy_of_a_tile_overlaps_the_work_on_the_one_before() {
    let tiles = staged(1 << 10, 1 << 10).tiles([("y", 128)]).unwrap().joined().unwrap();
    let plans = [Some(0), Some(1), Some(2), None].map(|ahead| {
        let planning = ahead.map_or_else(Planning::new, |n| Planning::new().ahead(n));
        let plan = planning.plan(&tiles).unwrap();
        assert!(safe(&plan) && plan.transfers().len() == 16);
        plan
    });
    let ran = plans.each_ref().map(|plan| overlap(plan.program()));
    let held = plans.each_ref().map(peak);
    assert_eq!(ran[0].0, 0, "nothing ahead, nothing beside: {ran:?}");
    assert!(ran[1].0 > 0 && ran[1].1 < ran[0].1, "one tile ahead: {ran:?}");
    assert!(ran[3].1 <= ran[1].1, "{ran:?}");
    // One set of buffers, two, and one for every tile on its way.
    assert_eq!(held[1], 2 * held[0], "{held:?}");
    assert!(held[2] <= 3 * held[0] && held[1] < held[3], "{held:?}");
    // The event order of the simulator is the same every time.
    assert_eq!(overlap(plans[1].program()), ran[1]);
}

/// Every tiling of two dimensions, and what it holds at least.
fn least(a: &Operator) -> u64 {
    let image = a.domain();
    let sizes = |dim: &str| 1..=image.size(&dim.parse().unwrap()).unwrap();
    let mut least = peak(&Planning::new().ahead(0).plan(a).unwrap());
    for y in sizes("y") {
        for x in sizes("x") {
            let Ok(tiles) = a.tiles([("y", y), ("x", x)]) else { continue };
            let tiles = tiles.joined().unwrap();
            least = least.min(peak(&Planning::new().ahead(0).plan(&tiles).unwrap()));
        }
        let tiles = a.tiles([("y", y)]).unwrap().joined().unwrap();
        least = least.min(peak(&Planning::new().ahead(0).plan(&tiles).unwrap()));
    }
    least
}

#[test]
fn a_limit_is_kept_by_tiles_or_refused_with_the_smallest_that_is_possible() {
    let image = Space::new([("y", 6), ("x", 5)], Dtype::F32).unwrap();
    let mut random = Random(8);
    let weights = random.array(&image).values().to_vec();
    let d: Operator = Diagonal::new(image.on(mock(0)), weights).unwrap().into();
    let roll = spanlift::op::roll("x", 2).over(image.on(mock(0))).unwrap();
    let all = [
        chain![to(mock(0)), &d, to(cpu())].unwrap(),
        chain![to(mock(0)), &d, &roll, to(cpu())].unwrap(),
        staged(6, 5),
    ];
    for a in all {
        let whole = peak(&a.plan().unwrap());
        let least = least(&a);
        assert!(least < whole, "{a}");
        let x = random.array(a.domain());
        for cap in (least..whole).step_by(9).chain([whole]) {
            let plan = Planning::new().cap(mock(0), Bytes(cap)).plan_for(&a, &x).unwrap();
            assert!(peak(&plan) <= cap && safe(&plan), "{a} within {cap}");
            let machine = Machine::builtin("h200-pcie5").unwrap();
            let run = sim::run_knowing(plan.program(), &machine, &plan).unwrap();
            assert_eq!(plan.result(&run.finals).unwrap(), a.apply(&x).unwrap(), "{a} within {cap}");
            if cap == whole {
                assert!(plan.notes().is_empty() && plan.operator() == &a);
            }
            if cap == least {
                assert!(plan.notes()[0].text.contains("to stay within"), "{:?}", plan.notes());
            }
        }
        let refused = Planning::new().cap(mock(0), Bytes(least - 1)).plan(&a).unwrap_err();
        let PlanError::Cap { needs, cap, .. } = &refused else { panic!("{refused}") };
        assert_eq!((needs.0, cap.0), (least, least - 1), "{a}: {refused}");
    }
}

#[test]
fn as_few_tiles_as_will_do() {
    let a = staged(64, 16);
    // Two sets of two buffers of 8 rows.
    let row = 16 * 8;
    let plan = Planning::new().cap(mock(0), Bytes(4 * 8 * row)).plan(&a).unwrap();
    assert_eq!(plan.notes()[0].text, "in tiles of y=8 to stay within 4.00 KiB: 4.00 KiB on mock:0");
    assert_eq!((plan.transfers().len(), plan.planning().ahead_of()), (16, Some(1)));
    // What cannot be cut is said with what it needs.
    let line = Space::new([("x", 64)], Dtype::C64).unwrap();
    let f = chain![to(mock(0)), fft(["x"]).over(line.on(mock(0))).unwrap(), to(cpu())].unwrap();
    let refused = Planning::new().cap(mock(0), Bytes(100)).plan(&f).unwrap_err().to_string();
    assert!(
        refused.ends_with("needs at least 2.00 KiB on mock:0, 100 B are allowed; that is uncut"),
        "{refused}"
    );
}

#[test]
fn drawn_expressions_stay_within_any_limit_that_is_not_refused() {
    let machine = Machine::builtin("h200-pcie5").unwrap();
    let (mut tiled, mut refused) = (0, 0);
    for seed in 1..=draws(60, 4000) {
        let mut w = Wild::new(seed);
        let drawn = w.expression(u32::try_from(seed % 3).unwrap());
        // Not everything that is drawn can be sent, or has an element to send.
        let Ok(a) = chain![to(mock(0)), drawn.on(mock(0)), to(cpu())] else { continue };
        let x = w.random.array(a.domain());
        let Ok(whole) = a.plan_for(&x) else { continue };
        let Some(whole) = whole.peaks().get(&mock(0)).map(|peak| peak.total().0) else { continue };
        let expected = a.apply(&x).unwrap();
        let limits = [0, whole / 8, whole / 4, whole / 2, whole * 3 / 4, whole.saturating_sub(1)];
        let mut within = |limit: u64| {
            let what = format!("seed {seed}: {a} within {limit} of {whole} B");
            let plan = match Planning::new().cap(mock(0), Bytes(limit)).plan_for(&a, &x) {
                Ok(plan) => plan,
                Err(PlanError::Cap { needs, cap, .. }) => {
                    assert!(cap.0 == limit && needs.0 > limit, "{what}: {needs}");
                    refused += 1;
                    return Some(needs.0);
                }
                Err(error) => panic!("{what}: {error}"),
            };
            assert!(peak(&plan) <= limit && safe(&plan), "{what}");
            let run = sim::run_knowing(plan.program(), &machine, &plan).unwrap();
            let found = plan.result(&run.finals).unwrap();
            assert_eq!(found.space(), expected.space(), "{what}");
            let size = expected.values().iter().fold(1.0, |m: f64, v| m.max(v.norm()));
            let off = found.values().iter().zip(expected.values()).map(|(f, e)| (f - e).norm());
            let most = 1024.0 * eps(a.codomain().dtype()).max(eps(a.domain().dtype())) * size;
            assert!(off.clone().all(|off| off <= most), "{what}: {off:?} off");
            tiled += usize::from(plan.operator() != &a);
            None
        };
        for limit in limits {
            // What is said to be needed is enough.
            if let Some(needs) = within(limit) {
                assert_eq!(within(needs), None, "seed {seed}: {a} within {limit} B, then within {needs} B");
            }
        }
    }
    assert!(tiled > 20 && refused > 20, "{tiled} in tiles, {refused} refused");
}

/// Small tiles along one dimension leave few along the next, which are tried instead of one for each element, too many to be planned.
#[test]
fn tiles_along_two_dimensions_are_few_enough_to_be_planned() {
    let image = Space::new([("y", 200), ("x", 200)], Dtype::F64).unwrap();
    let a = chain![to(mock(0)), Operator::scale(2.0, image.on(mock(0))).unwrap(), to(cpu())].unwrap();
    // A row has 1600 bytes.
    let held = Planning::new().cap(mock(0), Bytes(400)).plan(&a).map(|plan| peak(&plan)).unwrap();
    assert!(held <= 400, "{held}");
    let refused = Planning::new().cap(mock(0), Bytes(79)).plan(&a);
    assert!(matches!(refused, Err(PlanError::Cap { .. })));
}
