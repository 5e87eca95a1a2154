//! Plans and their parts whose public fields somebody changed: an answer or an error, never a panic.

use spanlift::Bytes;
use spanlift::memory::{
    Dtype, Layout, MapError, MemoryMap, MoveError, MovePlan, Span, StorageId, Target, View, cpu, cuda,
};

use crate::cases::random_layout;
use crate::rng::Rng;

/// A number as a careless or hostile hand writes it.
fn number(rng: &mut Rng) -> i64 {
    match rng.below(6) {
        0 => i64::MAX,
        1 => i64::MIN,
        2 => -1,
        3 => i64::MAX - rng.below(64),
        _ => rng.below(64),
    }
}

fn index(rng: &mut Rng) -> usize {
    if rng.below(4) == 0 { usize::MAX } else { rng.index(6) }
}

fn storage(rng: &mut Rng) -> StorageId {
    StorageId::try_from(rng.index(6)).expect("a small number")
}

/// Changes one field of a plan.
fn change(plan: &mut MovePlan, rng: &mut Rng) {
    let (allocations, copies, tensors) = (plan.allocations.len(), plan.copies.len(), plan.tensors.len());
    match rng.below(14) {
        0 => plan.before = Layout::new(),
        1 => plan.to = if rng.below(2) == 0 { Target::InPlace } else { Target::Device(cpu()) },
        2 => plan.allocations.truncate(rng.index(allocations + 1)),
        3 => plan.tensors.extend(plan.tensors.first().cloned()),
        4 => plan.before = random_layout(rng),
        5 if allocations > 0 => plan.allocations[rng.index(allocations)].storage = storage(rng),
        6 if allocations > 0 => {
            plan.allocations[rng.index(allocations)].bytes = Bytes(number(rng).unsigned_abs())
        }
        7 if allocations > 0 => {
            let name = if rng.below(2) == 0 { "s0" } else { "s1@cuda:0" };
            plan.allocations[rng.index(allocations)].name = name.to_owned();
        }
        8 if copies > 0 => plan.copies[rng.index(copies)].allocation = index(rng),
        9 if copies > 0 => plan.copies[rng.index(copies)].from = storage(rng),
        10 if copies > 0 => plan.copies[rng.index(copies)].shift = number(rng),
        11 if tensors > 0 => plan.tensors[rng.index(tensors)].tensor = index(rng),
        12 if tensors > 0 => {
            let place = if rng.below(2) == 0 { None } else { Some(index(rng)) };
            plan.tensors[rng.index(tensors)].allocation = place;
        }
        13 if tensors > 0 => {
            let view = &mut plan.tensors[rng.index(tensors)].view;
            match rng.below(3) {
                0 => view.offset = number(rng),
                1 => view.shape.push(number(rng)),
                _ => view.strides = vec![number(rng); view.shape.len()],
            }
        }
        _ => plan.allocations.clear(),
    }
}

#[test]
fn plans_changed_by_hand_are_answered_or_refused() {
    let (mut refused, mut whole) = (0, 0);
    for case in 0..4_000 {
        let rng = &mut Rng(case);
        let layout = random_layout(rng);
        let mut plan = match rng.below(3) {
            0 => layout.move_naively(cuda(0)),
            1 => layout.deepcopy().expect("few runs"),
            _ => layout.move_to(cuda(0)).expect("few runs"),
        };
        assert_eq!(plan.check(), Ok(()), "case {case}");
        plan.after().unwrap_or_else(|e| panic!("case {case}: {e}"));
        for _ in 0..1 + rng.below(2) {
            change(&mut plan, rng);
        }
        match (plan.check(), plan.after()) {
            (Err(why), after) => {
                assert_eq!(after, Err(why.clone()), "case {case}");
                assert!(spanlift::plan::lower(&plan).is_err(), "case {case}: {why}");
                assert_eq!(why.to_string().lines().count(), 1, "case {case}: {why}");
                refused += 1;
            }
            (Ok(()), _) => {
                plan.copies.iter().for_each(|copy| _ = copy.target());
                let _ = spanlift::plan::lower(&plan);
                whole += 1;
            }
        }
        // What only tells of a plan leaves out what is not there.
        let _ = (plan.to_string(), plan.explain().map(|told| told.to_string()), plan.bytes_copied());
        if let Ok(report) = layout.report() {
            let _ = (report.moved(&plan), report.to_json(Some(&plan)));
        }
        let mut map = MemoryMap::from(layout);
        let mut plan = map.move_to(cuda(0)).expect("few runs");
        for _ in 0..rng.below(3) {
            change(&mut plan, rng);
        }
        let _ = map.apply(&plan);
        let _ = (map.layout().report(), map.move_to(cpu()), map.deepcopy());
    }
    assert!(refused > 500 && whole > 500, "{refused} refused, {whole} not");
}

#[test]
fn what_does_not_fit_is_named() {
    let mut layout = Layout::new();
    let w = layout.storage("w", cpu(), Bytes(400)).expect("new");
    let view = View { dtype: Dtype::F32, shape: vec![10], strides: vec![1], offset: 3 };
    layout.tensor("row", w, view).expect("inside");
    let changed = |change: &dyn Fn(&mut MovePlan)| {
        let mut plan = layout.move_to(cuda(0)).expect("few runs");
        change(&mut plan);
        plan.after().expect_err("changed").to_string()
    };
    assert_eq!(changed(&|p| p.copies[0].allocation = 1), "copy 0 names allocation 1, there are 1");
    assert_eq!(changed(&|p| p.copies[0].shift = i64::MAX), "copy 0 reaches outside \"w@cuda:0\"");
    assert_eq!(
        changed(&|p| p.copies[0].span = Span::range(396, 8).expect("a range")),
        "copy 0 reaches outside \"w\""
    );
    assert_eq!(changed(&|p| p.before = Layout::new()), "allocation 0 names storage 0, there are 0");
    assert_eq!(changed(&|p| p.tensors[0].tensor = 7), "place 0 names tensor 7, there are 1");
    assert_eq!(changed(&|p| p.tensors[0].allocation = None), "tensor \"row\" moves to no block");
    assert_eq!(changed(&|p| p.tensors[0].view.shape[0] = 1), "tensor \"row\" changes on its way");
    assert_eq!(changed(&|p| p.tensors.extend_from_within(..)), "tensor \"row\" moves twice");
    let doubled = |p: &mut MovePlan| {
        let other = spanlift::memory::Allocation { bytes: Bytes(8), ..p.allocations[0].clone() };
        p.allocations.push(other);
    };
    assert_eq!(changed(&doubled), "two blocks of different size or place are called \"w@cuda:0\"");
    let outside = changed(&|p| p.tensors[0].view.offset = 1);
    assert_eq!(
        outside,
        "tensor \"row\": outside storage: it needs bytes [4, 44) of \"w@cuda:0\", which has 40 bytes"
    );

    // Another plan than the map made is no plan of the map.
    let mut map = MemoryMap::from(layout.clone());
    let mut plan = map.move_to(cuda(0)).expect("few runs");
    plan.allocations.clear();
    assert_eq!(map.apply(&plan), Err(MapError::Stale));
    assert_eq!(
        plan.check(),
        Err(MoveError::Missing { what: "copy 0".to_owned(), kind: "allocation", number: 0, n: 0 })
    );
}
