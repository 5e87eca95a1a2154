//! What is said where a list ends early, and of programs so long that the past is looked through for what may go.

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::hazard::{self, Mode, Report, Verdict};

use crate::generate::{self, Plain, Random};
use crate::random::found;

/// Hazards that a list has at most.
const MOST: usize = 1 << 16;

/// A report in which `opaque` reads on one stream may race with three writes on another, after `n` sure pairs of one write.
fn report(n: usize, n_opaque: usize, last: &str) -> Report {
    let text = format!(
        "stream a, b\ndevice x, y 8\nkernel on a writes y\nrepeat i {n}\nkernel on b reads y\nend\n\
         repeat i 3\nkernel on a writes x\nend\nrepeat i {n_opaque}\nkernel on b reads x opaque\nend\n{last}\n"
    );
    let program = Program::from_text(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    hazard::check(&program, Mode::Contract).unwrap()
}

/// What a write stands for is looked at behind it, so that the list may be full at any of the three.
#[test]
fn a_list_is_complete_exactly_if_it_has_every_hazard() {
    let n_opaque = MOST / 3 - 1;
    for n in 0..8 {
        let (found, all) = (report(n, n_opaque, ""), n + 3 * n_opaque);
        assert_eq!((found.hazards.len(), found.complete), (all.min(MOST), all <= MOST), "{all} hazards");
        assert_eq!(found.verdict(), if n > 0 { Verdict::Race } else { Verdict::May }, "{all} hazards");
    }
}

/// However long the list is by then, and whether it was known to be incomplete.
#[test]
fn one_sure_hazard_decides_behind_any_number_of_others() {
    for n_opaque in MOST / 3 - 1..MOST / 3 + 3 {
        let found = report(0, n_opaque, "kernel on b reads y\nkernel on b reads y");
        assert_eq!(found.verdict(), Verdict::Race, "{n_opaque}");
        assert_eq!(found.complete, 3 * n_opaque + 2 <= MOST, "{n_opaque}");
        assert!(found.hazards.len() <= MOST + 1, "{n_opaque}");
    }
}

/// Enough accesses to memory of the host that all blocks are looked through at least once; nobody else touches it.
#[test]
fn a_long_while_in_between_changes_nothing() {
    let filler = std::iter::once(
        json!({"op": "alloc", "buf": "filler", "space": "pageable", "dev": 0, "bytes": 8, "via": "malloc"}),
    )
    .chain(std::iter::repeat_n(
        json!({"op": "host_write", "span": {"buf": "filler", "off": 0, "len": 8}}),
        70_000,
    ));
    let filler: Vec<Value> = filler.collect();
    let mut n_across = 0;
    for seed in 1..=6 {
        let ours = generate::program(seed, Plain { long: true, ..Plain::default() });
        let at = Random::new(seed).below(ours.len());
        let with = [&ours[..at], &filler, &ours[at..]].concat();
        let place = |k: usize| if k < at { k } else { k + filler.len() };
        let expected = found(&ours, Mode::Contract);
        n_across += expected.iter().filter(|p| p.2 < at && at <= p.3).count();
        let expected = expected.into_iter().map(|p| (p.0, p.1, place(p.2), place(p.3), p.4)).collect();
        assert!(found(&with, Mode::Contract) == expected, "seed {seed}");
    }
    assert!(n_across > 50, "{n_across} hazards reach over the while");
}
