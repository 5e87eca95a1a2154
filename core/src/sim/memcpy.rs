//! Host threads that move bytes at the same time: each has its own rate, all share what the machine can do, and engines
//! on the links slow them down.
//!
//! Every job slows by the same factor, so one virtual clock serves all: it runs at the factor's speed, and a job ends
//! when the clock has advanced by what the job would take alone. The clock counts 2^-60 ns, so that integers suffice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::machine::{Machine, Rate};
use crate::units::{Bytes, quotient};

/// All host copies that run now.
#[derive(Debug)]
pub(super) struct Memcpy {
    cap: u64,
    interference: u64,
    /// By the virtual time of their end, then by the order of the list; the thread and what it takes of `cap`.
    jobs: BinaryHeap<Reverse<(u128, u32, u32, u64)>>,
    /// What all `jobs` take of `cap`.
    wanted: u128,
    /// The virtual clock at `at`.
    clock: u128,
    at: i64,
    /// How fast the virtual clock runs, in 2^-60.
    speed: u64,
    /// Whether something changed since the last event was planned.
    changed: bool,
    engines_busy: bool,
    /// Which planned event is not outdated.
    pub(super) epoch: u32,
}

const ONE: u64 = 1 << 60;

impl Memcpy {
    pub(super) fn new(machine: &Machine) -> Memcpy {
        Memcpy {
            cap: machine.host_memcpy_cap_bw.0.max(1),
            interference: machine.dma_interference.0,
            jobs: BinaryHeap::new(),
            wanted: 0,
            clock: 0,
            at: 0,
            speed: ONE,
            changed: false,
            engines_busy: false,
            epoch: 0,
        }
    }

    fn advance(&mut self, now: i64) {
        self.clock += u128::from(now.abs_diff(self.at)) * u128::from(self.speed);
        self.at = now;
    }

    /// A thread begins to move `bytes` at `rate` for a command, which takes so much of what there is for all.
    pub(super) fn start(
        &mut self,
        now: i64,
        (thread, command): (u32, u32),
        bytes: u64,
        (rate, takes): (Rate, u64),
    ) {
        self.advance(now);
        let alone = rate.time(Bytes(bytes)).0.unsigned_abs();
        let end = self.clock + u128::from(alone) * u128::from(ONE);
        self.jobs.push(Reverse((end, command, thread, takes)));
        self.wanted += u128::from(takes);
        self.changed = true;
    }

    /// A thread whose job has ended by `now`.
    pub(super) fn ended(&mut self, now: i64) -> Option<u32> {
        self.advance(now);
        let &Reverse((end, _, thread, takes)) = self.jobs.peek()?;
        if self.clock < end {
            return None;
        }
        self.jobs.pop();
        self.wanted -= u128::from(takes);
        self.changed = true;
        Some(thread)
    }

    /// When the next job ends, and its command, if that has to be planned anew.
    pub(super) fn plan(&mut self, now: i64, engines_busy: bool) -> Option<(i64, u32)> {
        if !self.changed && self.engines_busy == engines_busy {
            return None;
        }
        self.changed = false;
        self.engines_busy = engines_busy;
        let &Reverse((end, command, ..)) = self.jobs.peek()?;
        self.advance(now);
        // speed = min(1, cap / wanted) / (1 + g while engines are busy)
        let slower = 1_000_000_000 + if engines_busy { u128::from(self.interference) } else { 0 };
        // Rounded up, so that what ends with a nanosecond ends with it.
        let alone = (u128::from(ONE) * 1_000_000_000).div_ceil(slower);
        let speed = (alone * u128::from(self.cap).min(self.wanted)).div_ceil(self.wanted.max(1));
        self.speed = u64::try_from(speed).unwrap_or(ONE);
        self.epoch = self.epoch.wrapping_add(1);
        let ns = quotient(end.saturating_sub(self.clock) + u128::from(self.speed - 1), self.speed);
        Some((now.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX)), command))
    }
}
