//! Changes of random programs: what was safe stays safe when a stream is split, and every run extends its relation.

use spanlift::advise::whatif::{WhatIf, what_if};
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::{Bytes, Nanos, Program, sim};

use crate::extension::{self, Random};

/// Items that go through a stream and are waited for by another, with events and syncs here and there.
fn random_items(seed: u64) -> Program {
    let mut r = Random(seed);
    let mut p = Program::new();
    let streams = [p.stream("s"), p.legacy(0), p.stream("t")];
    let events = [p.event("e"), p.event("f")];
    let buffers: Vec<_> = (0..4)
        .map(|k| (p.pinned(&format!("x{k}"), Bytes(4096)), p.device(0, &format!("d{k}"), Bytes(4096))))
        .collect();
    for _ in 0..12 {
        let s = streams[r.below(3)];
        let (x, d) = buffers[r.below(4)];
        match r.below(9) {
            0..3 => drop(p.copy(d, x).on(s)),
            3..5 => drop(p.kernel("k").reads(d).writes(d).takes(Nanos(3_000)).on(s)),
            5 => drop(p.record(events[r.below(2)], s)),
            6 => drop(p.wait(s, events[r.below(2)])),
            7 => drop(p.sync(s)),
            _ => drop(p.host_write(x, None)),
        }
    }
    p
}

#[test]
fn a_safe_program_stays_safe_when_its_streams_are_split() {
    let machine = Machine::default();
    let (mut n_safe, mut n_split) = (0, 0);
    for seed in 0..4_000 {
        let program = random_items(seed);
        let verdict = |p: &Program, mode| hazard::check(p, mode).expect("well formed").verdict();
        for change in ["split:s=3", "split:0=2", "streams=4"] {
            let change: WhatIf = change.parse().expect("written as it is read");
            // A stream that the program never names is refused.
            let Ok(changed) = what_if(&program, &machine, std::slice::from_ref(&change)) else { continue };
            n_split += u32::from(changed.program.len() != program.len());
            for mode in [Mode::Contract, Mode::Typical] {
                if verdict(&program, mode) == Verdict::Safe {
                    n_safe += 1;
                    let after = verdict(&changed.program, mode);
                    let text = || {
                        format!(
                            "seed {seed}, {change}:\n{}\n{}",
                            program.to_text(),
                            changed.program.to_text()
                        )
                    };
                    assert_eq!(after, Verdict::Safe, "{}", text());
                }
            }
            if seed % 16 == 0 {
                let run = sim::run(&changed.program, &changed.machine)
                    .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                extension::check(&changed.program, &run, &format!("seed {seed}, {change}"));
            }
        }
    }
    assert!(500 < n_safe && 5_000 < n_split, "{n_safe} safe, {n_split} split");
}
