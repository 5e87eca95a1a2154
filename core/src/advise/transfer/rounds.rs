//! Two stages side by side: the processor copies one round of chunks while the link has another.

use crate::machine::Ratio;
use crate::units::Nanos;

use super::Term;
use super::formula::{beyond, sum, term, times};

/// A chunk of each thread: the processor's part and the link's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) copy: Nanos,
    pub(super) calls: Nanos,
    pub(super) link: Nanos,
}

impl Round {
    fn host(self) -> Nanos {
        sum([self.copy, self.calls])
    }

    /// Beside the link's part of another round, which takes from the host's memory too: a copy takes `g` longer while that goes on.
    fn beside(self, link: Nanos, g: Ratio) -> Round {
        let of = |ns: Nanos| g.of(ns.0.max(0).unsigned_abs());
        let whole = u128::from(Ratio::ONE.0);
        let meanwhile = u128::from(of(link)) * whole / (whole + u128::from(g.0));
        let longer = u128::from(of(self.copy)).min(meanwhile);
        Round { copy: sum([self.copy, Nanos(i64::try_from(longer).unwrap_or(i64::MAX))]), ..self }
    }
}

/// Rounds of chunks, all alike but the last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    pub(super) n: u64,
    pub(super) full: Round,
    pub(super) last: Round,
}

impl Rounds {
    /// The processor's part comes first.
    pub(super) fn up(self, g: Ratio) -> Vec<Term> {
        let Rounds { n, full, last } = self;
        let beside = |round: Round| if n > 1 { round.beside(full.link, g) } else { round };
        let rounds = Rounds { n, full: beside(full), last: beside(last) };
        // The first round is copied beside nothing.
        let saved = beyond(rounds.full.copy, full.copy);
        let host = (rounds.full.host(), rounds.last.host());
        let total = pipelined(n, host, (full.link, last.link));
        rounds.told(beyond(total, saved), saved)
    }

    /// The link's part comes first; `first` is that of the chunks whose threads have one in the last round.
    pub(super) fn down(self, first: Nanos, g: Ratio) -> Vec<Term> {
        let rounds = Rounds { full: self.full.beside(self.full.link, g), ..self };
        let Rounds { n, full, last } = rounds;
        let (copied, brought) = (times(full.host().0, n - 1), times(full.link.0, n - 1));
        let by_link = sum([brought, last.link, last.host()]);
        // Threads begin as their first chunks come, and those that have one less end earlier.
        let by_host = sum([first, copied, last.host()]).max(sum([full.link, copied]));
        let total = if n > 1 { by_link.max(by_host).max(sum([brought, full.host()])) } else { by_link };
        rounds.told(total, Nanos::ZERO)
    }

    /// Which of the two bounds a total, and what else is in it; so much of the copies there is less.
    fn told(self, total: Nanos, saved: Nanos) -> Vec<Term> {
        let of = |part: fn(Round) -> Nanos| sum([times(part(self.full).0, self.n - 1), part(self.last)]);
        let (copies, calls, link) = (beyond(of(|r| r.copy), saved), of(|r| r.calls), of(|r| r.link));
        let host = sum([copies, calls]);
        match host < link {
            true => vec![term("link", link), term("first chunks", beyond(total, link))],
            false => vec![
                term("host copy", copies),
                term("calls", calls),
                term("last chunks", beyond(total, host)),
            ],
        }
    }
}

/// When the last of `n` rounds leaves the second of two stages that work side by side; each stage's time for one of the first
/// `n - 1` rounds, and for the last.
pub(super) fn pipelined(n: u64, (a, last_a): (Nanos, Nanos), (b, last_b): (Nanos, Nanos)) -> Nanos {
    if n < 2 {
        return sum([last_a, last_b]);
    }
    let first_bound = sum([times(a.0, n - 1), last_a.max(b), last_b]);
    let second_bound = sum([a, times(b.0, n - 1), last_b]);
    first_bound.max(second_bound)
}
