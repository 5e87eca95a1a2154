//! Threads that copy chunks side by side, and the link that has them one after the other.

use crate::machine::{Rate, Ratio};
use crate::units::{Bytes, Nanos, quotient};

use super::cut::least;
use super::formula::{beyond, sum, term, times};
use super::{Cut, Term};

/// Chunks in the order in which threads take them to the device; on the way back the same happens backwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes {
    pub(super) cut: Cut,
    pub(super) bytes: u64,
    /// How many chunks they are, at least one.
    pub(super) n: u64,
    /// Threads that have a chunk, no more than there are.
    pub(super) busy: u64,
    /// What each of them copies.
    pub(super) core: Rate,
    /// What a thread does for a chunk beside copying it.
    pub(super) calls: Nanos,
    pub(super) link: Rate,
    pub(super) lat: Nanos,
    /// By how much a copy takes longer beside the link.
    pub(super) interference: Ratio,
    pub(super) is_down: bool,
}

impl Lanes {
    /// The bytes of chunk `k`.
    fn size(&self, k: u64) -> u64 {
        self.cut.size(k).min(self.bytes.saturating_sub(self.cut.first(k)))
    }

    /// The link with chunks `from` to `to`.
    fn sent(&self, from: u64, to: u64) -> Nanos {
        let before = |k| self.cut.first(k).min(self.bytes);
        sum([self.link.time(Bytes(before(to) - before(from))), times(self.lat.0, to - from)])
    }

    /// A chunk of each thread on the link.
    pub(super) fn round(&self) -> Nanos {
        self.sent(self.n - self.busy, self.n)
    }

    /// The last chunk on the link.
    pub(super) fn last(&self) -> Nanos {
        self.sent(self.n - 1, self.n)
    }

    /// How long its thread is busy with chunk `k`: while the link has those before it, a copy takes longer.
    fn own(&self, k: u64) -> Nanos {
        let alone = self.core.time(Bytes(self.size(k)));
        let mut longer = 0;
        if self.interference.0 > 0 {
            let of = |ns: Nanos| self.interference.of(ns.0.max(0).unsigned_abs());
            let whole = Ratio::ONE.0;
            let link = of(self.sent(k.saturating_sub(self.busy), k));
            let most =
                quotient(u128::from(link) * u128::from(whole), whole.saturating_add(self.interference.0));
            longer = i64::try_from(u128::from(of(alone)).min(most)).unwrap_or(i64::MAX);
        }
        sum([alone, Nanos(longer), self.calls])
    }

    /// When chunk `k` is copied: a thread takes every `busy`-th.
    fn copied(&self, k: u64) -> Nanos {
        match k.checked_sub(self.busy) {
            None => self.own(k),
            // All between the first of its thread and this one are whole.
            Some(before) => {
                let n_whole = before / self.busy;
                let whole = if n_whole > 0 { times(self.own(k - 1).0, n_whole) } else { Nanos::ZERO };
                sum([self.own(k % self.busy), whole, self.own(k)])
            }
        }
    }

    /// What the threads and the link take side by side, and what of it is seen.
    ///
    /// Of the times `copied(k) + sent(k, n)` the greatest counts. Within a round they rise as long as the next chunk is copied
    /// later than this one is sent; from round to round, or to the last chunk, they rise or fall throughout.
    pub(super) fn terms(self) -> Vec<Term> {
        let n = self.n;
        // Threads end so long after each other.
        let later = beyond(self.core.time(Bytes(self.cut.size(0))), self.lat);
        let peak = least(0, self.busy - 1, |k| later <= self.link.time(Bytes(self.cut.size(k))));
        let last_peak = peak + (n - 1 - peak) / self.busy * self.busy;
        // The last chunk is smaller, and is sent before those that were begun before it and are copied later. On the way back the
        // link has them in order.
        let (last, before) = (self.copied(n - 1), self.copied(n.saturating_sub(2)));
        let overtaken = match self.is_down || before <= last {
            true => n - 1,
            false => least(n.saturating_sub(self.busy), n - 1, |k| last < self.copied(k)),
        };
        let end = |(k, copied): (u64, Nanos)| match k {
            k if k == n - 1 => sum([last, self.sent(k, n), self.sent(overtaken, k)]),
            k => sum([copied, self.sent(k, if overtaken <= k { n - 1 } else { n })]),
        };
        let peaks = [peak, last_peak].map(|k| (k, self.copied(k)));
        let ends = [peaks[0], peaks[1], (n.saturating_sub(2), before), (n - 1, last)];
        let total = ends.map(end).into_iter().fold(Nanos::ZERO, Ord::max);
        let host = last.max(before);
        let calls = times(self.calls.0, n.div_ceil(self.busy)).min(host);
        let link = self.sent(0, n);
        match host < link {
            true => vec![term("link", link), term("first chunks", beyond(total, link))],
            false => vec![
                term("host copy", beyond(host, calls)),
                term("calls", calls),
                term("last chunks", beyond(total, host)),
            ],
        }
    }
}
