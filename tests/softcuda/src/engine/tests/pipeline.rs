//! A double-buffered pipeline over three streams, with all its waits or without one: what each scheduler shows of it.

use std::collections::BTreeSet;

use super::lab::{Lab, SIZE};
use crate::config::{Config, Scheduler};
use crate::report::Report;

const ITEMS: u8 = 12;
const SLOTS: usize = 2;

/// Which wait is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dropped {
    Nothing,
    /// Compute does not wait for the copy in.
    Ready,
    /// The copy in does not wait for compute to be done with the slot.
    Free,
    /// The copy out does not wait for compute.
    Done,
}

/// Runs items through; how many came out wrong, and what was reported.
fn run(scheduler: Scheduler, dropped: Dropped) -> (usize, Report) {
    let lab = Lab::new(Config::under(scheduler));
    let [copy_in, compute, copy_out] = [(); 3].map(|()| lab.stream());
    let raw = [(); SLOTS].map(|()| lab.device());
    let made = [(); SLOTS].map(|()| lab.device());
    let [ready, free, done, out] = [(); 4].map(|()| [(); SLOTS].map(|()| lab.event()));
    let sources: Vec<_> = (0..ITEMS).map(|i| lab.pinned(i + 1)).collect();
    let results: Vec<_> = (0..ITEMS).map(|_| lab.pinned(0)).collect();
    for (i, (source, result)) in sources.iter().zip(&results).enumerate() {
        let slot = i % SLOTS;
        if dropped != Dropped::Free {
            lab.wait(copy_in, free[slot]);
        }
        lab.up(raw[slot], *source, copy_in);
        lab.record(ready[slot], copy_in);
        if dropped != Dropped::Ready {
            lab.wait(compute, ready[slot]);
        }
        lab.wait(compute, out[slot]);
        lab.copy(made[slot], raw[slot], compute);
        lab.record(free[slot], compute);
        lab.record(done[slot], compute);
        if dropped != Dropped::Done {
            lab.wait(copy_out, done[slot]);
        }
        lab.down(*result, made[slot], copy_out);
        lab.record(out[slot], copy_out);
    }
    lab.sync(copy_out);
    let wrong = (1..=ITEMS).zip(&results).filter(|(i, at)| Lab::look(**at) != [*i; SIZE]).count();
    (wrong, lab.end())
}

fn seeds(count: u64) -> Vec<Scheduler> {
    (0..count).map(Scheduler::Seeded).collect()
}

/// Runs that gave wrong bytes, runs that were reported, distinct orders.
fn tally(schedulers: &[Scheduler], dropped: Dropped) -> (usize, usize, usize) {
    let runs: Vec<_> = schedulers.iter().map(|s| run(*s, dropped)).collect();
    let wrong = runs.iter().filter(|(wrong, _)| *wrong > 0).count();
    let reported = runs.iter().filter(|(_, report)| report.found > 0).count();
    let orders: BTreeSet<_> = runs.iter().map(|(_, report)| report.order.clone()).collect();
    (wrong, reported, orders.len())
}

#[test]
fn without_a_bug_nothing_is_wrong_and_nothing_is_reported() {
    let mut all = vec![Scheduler::Lazy, Scheduler::Eager, Scheduler::Threads(0), Scheduler::Threads(200)];
    all.extend(seeds(50));
    let (wrong, reported, _) = tally(&all, Dropped::Nothing);
    assert_eq!((wrong, reported), (0, 0));
}

#[test]
fn one_lazy_run_shows_each_missing_wait_as_wrong_bytes() {
    // Without the wait for the free slot the copies in are not late, but too early: a wait for the last one finds them.
    for dropped in [Dropped::Ready, Dropped::Done] {
        assert_eq!(tally(&[Scheduler::Lazy; 20], dropped), (20, 20, 1), "{dropped:?}");
    }
}

#[test]
fn seeds_show_each_missing_wait_in_many_orders() {
    for dropped in [Dropped::Ready, Dropped::Free, Dropped::Done] {
        let (wrong, reported, orders) = tally(&seeds(50), dropped);
        assert_eq!(reported, 50, "{dropped:?}: every run is reported");
        let least = if dropped == Dropped::Free { 25 } else { 45 };
        assert!(wrong >= least, "{dropped:?}: wrong bytes in {wrong} of 50 runs");
        assert!(orders >= 45, "{dropped:?}: {orders} distinct orders");
    }
}

#[test]
fn a_missing_wait_is_reported_where_the_bytes_are_right() {
    for dropped in [Dropped::Ready, Dropped::Free, Dropped::Done] {
        assert_eq!(tally(&[Scheduler::Eager], dropped), (0, 1, 1), "{dropped:?}");
    }
}

#[test]
fn the_same_seed_runs_the_same_way() {
    for scheduler in seeds(10) {
        // Pinned memory is where the system has room; everything else repeats.
        let repeats = |(wrong, mut report): (usize, Report)| {
            for violation in &mut report.violations {
                violation.site.range.0 = 0;
                violation.other.iter_mut().for_each(|o| o.range.0 = 0);
            }
            report.leaked.clear();
            (wrong, report)
        };
        assert_eq!(repeats(run(scheduler, Dropped::Ready)), repeats(run(scheduler, Dropped::Ready)));
    }
}
