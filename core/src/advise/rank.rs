//! Which strategy is best for a request, what decided, and what would change the answer.

use super::predict::{AdviseError, Depth, Memory, Prediction, Spent, predict};
use super::request::{Origin, Request};
use super::strategy::Strategy;
use crate::machine::Machine;
use crate::ordered::{CollectVec, sort_by_key};
use crate::units::{Bytes, Nanos};

/// All strategies for a request, the best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// What can be done, the best first; of strategies with threads the best number of them.
    pub strategies: Vec<Prediction>,
    /// What cannot, and why.
    pub excluded: Vec<Excluded>,
}

/// A strategy that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excluded {
    /// The strategy.
    pub strategy: Strategy,
    /// Why it cannot.
    pub reason: String,
}

/// What made the best strategy the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It needs fewer or shorter calls.
    Calls,
    /// Copies within the host take less time, or are not made.
    Copies,
    /// Nothing is page-locked on the way.
    Locking,
    /// What is set up once is less.
    Setup,
    /// What all of them do overlaps more.
    Overlap,
    /// There is no other.
    Alone,
}

impl Decision {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Calls => "calls",
            Decision::Copies => "host copies",
            Decision::Locking => "page-locking",
            Decision::Setup => "set-up",
            Decision::Overlap => "overlap",
            Decision::Alone => "no alternative",
        }
    }
}

/// Times that differ by less than this part are equal: then what keeps the processors less busy is better.
const TIE: f64 = 0.03;
/// How much more than the best one a strategy may take in a quick look that can be the best when more is simulated.
const NEAR: f64 = 0.25;

/// Numbers of threads that are tried: doubling, up to those that the host has.
fn thread_counts(request: &Request) -> impl Iterator<Item = u32> + use<> {
    let most = request.threads();
    (0..6).map(|k| 1 << k).filter(move |n| *n <= most)
}

/// Families of strategies that differ in their number of threads only, and what cannot be used.
fn candidates(request: &Request) -> (Vec<Vec<Strategy>>, Vec<Excluded>) {
    let mut families = vec![vec![Strategy::Direct]];
    let mut excluded = Vec::new();
    let mut exclude =
        |strategy, reason: &str| excluded.push(Excluded { strategy, reason: reason.to_owned() });
    let threads = |of: fn(u32) -> Strategy| thread_counts(request).map(of).collect_vec();
    let pinned = |threads| Strategy::Pinned { threads };
    let ring = |threads| Strategy::Ring { threads };
    if request.from == Origin::Pinned {
        for strategy in [pinned(1), ring(1), Strategy::Register] {
            exclude(strategy, "the tensors are in pinned memory already");
        }
    } else {
        families.push(threads(pinned));
        families.push(threads(ring));
        match request.from {
            Origin::File => exclude(Strategy::Register, "the pages of a file cannot be page-locked in place"),
            _ => families.push(vec![Strategy::Register]),
        }
    }
    let [a, b] = [4, 3].map(|usual| request.in_flight.unwrap_or(usual));
    let rest = [Strategy::A { slots: a }, Strategy::B { slots: b }];
    if request.count() < 2 {
        for strategy in [Strategy::Coalesced { threads: 1 }].into_iter().chain(rest) {
            exclude(strategy, "there is one tensor");
        }
    } else {
        families.push(threads(|threads| Strategy::Coalesced { threads }));
        families.extend(rest.map(|s| vec![s]));
    }
    (families, excluded)
}

/// The best of all: of those about as fast as the fastest the ones about as idle as the idlest, and of these the one with the
/// least host memory. What is about the same as the best is not measured against others of that kind, or small steps would
/// lead far.
fn best(of: &[Prediction], repeat: u32) -> Option<usize> {
    let close = |all: Vec<usize>, value: &dyn Fn(&Prediction) -> Nanos, part: f64| {
        let least = all.iter().map(|&k| value(&of[k]).0).min().unwrap_or(0);
        let most = least as f64 * (1.0 + part);
        all.into_iter().filter(|&k| value(&of[k]).0 as f64 <= most).collect_vec()
    };
    let fast = close((0..of.len()).collect_vec(), &|p| p.cost(repeat), TIE);
    let idle = close(fast, &|p| p.spent.cpu, 4.0 * TIE);
    let host = |p: &Prediction| p.memory.pinned.0.saturating_add(p.memory.pageable.0);
    idle.into_iter().min_by_key(|&k| (host(&of[k]), of[k].cost(repeat)))
}

/// Ranks all strategies for a request on a machine.
///
/// Every strategy is written as a program and simulated; of those with threads the best number of threads counts. Cost is
/// the time of one transfer and its part of what is set up once. A strategy that needs more host memory than is free is
/// left out, with the reason.
///
/// # Errors
/// [`AdviseError`]: a request without tensors.
///
/// # Examples
/// ```
/// use spanlift::advise::{Depth, Origin, Request, rank};
/// use spanlift::machine::Machine;
///
/// let machine = Machine::builtin("h200-pcie5").ok_or("unknown")?;
/// let small = Request::new(vec!["1000x4KB".parse()?], Origin::Pageable);
/// assert_eq!(rank(&small, &machine, Depth::QUICK)?.strategies[0].strategy.name(), "coalesced");
/// let pinned = Request::new(vec!["10x64MiB".parse()?], Origin::Pinned);
/// assert_eq!(rank(&pinned, &machine, Depth::QUICK)?.strategies[0].strategy.name(), "direct");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rank(request: &Request, machine: &Machine, depth: Depth) -> Result<Ranking, AdviseError> {
    ranked(&mut Predictions::new(request, machine, depth))
}

/// What strategies would take for one request, each simulated once.
pub(super) struct Predictions<'a> {
    request: &'a Request,
    machine: &'a Machine,
    depth: Depth,
    known: Vec<Prediction>,
}

impl<'a> Predictions<'a> {
    pub(super) fn new(request: &'a Request, machine: &'a Machine, depth: Depth) -> Predictions<'a> {
        Predictions { request, machine, depth, known: Vec::new() }
    }

    pub(super) fn of(&mut self, strategy: Strategy) -> Result<Prediction, AdviseError> {
        if let Some(known) = self.known.iter().find(|p| p.strategy == strategy) {
            return Ok(known.clone());
        }
        let found = predict(strategy, self.request, self.machine, self.depth)?;
        self.known.push(found.clone());
        Ok(found)
    }

    /// As a number, for comparisons by part.
    pub(super) fn cost(&mut self, strategy: Strategy) -> Result<f64, AdviseError> {
        Ok(self.of(strategy)?.cost(self.request.repeat).0 as f64)
    }
}

/// The best strategy, as [`rank`] has it: only those that a quick look has near the best, and one of each kind, are simulated as far
/// as `depth` says.
pub(super) fn best_strategy(
    request: &Request,
    machine: &Machine,
    depth: Depth,
) -> Result<Option<Strategy>, AdviseError> {
    let strategy = |ranking: &Ranking| ranking.best().map(|p| p.strategy);
    let Depth { tensors, bytes } = Depth::QUICK;
    let quick = Depth { tensors: depth.tensors.min(tensors), bytes: depth.bytes.min(bytes) };
    let mut look = Predictions::new(request, machine, quick);
    let seen = ranked(&mut look)?;
    if quick == depth {
        return Ok(strategy(&seen));
    }
    let Some(best) = seen.best() else { return Ok(strategy(&rank(request, machine, depth)?)) };
    let most = best.cost(request.repeat).0 as f64 * (1.0 + NEAR);
    let (mut families, excluded) = candidates(request);
    for family in &mut families {
        let (mut near, mut nearest) = (Vec::new(), None);
        for strategy in family.drain(..) {
            let cost = look.cost(strategy)?;
            if cost <= most {
                near.push(strategy);
            } else if nearest.is_none_or(|(least, _)| cost < least) {
                nearest = Some((cost, strategy));
            }
        }
        // Of a few tensors a pipeline may look slow that of many is as fast as any.
        if near.is_empty() {
            near.extend(nearest.map(|(_, strategy)| strategy));
        }
        *family = near;
    }
    Ok(strategy(&ranked_of(&mut Predictions::new(request, machine, depth), families, excluded)?))
}

/// [`rank`] with what is predicted already.
pub(super) fn ranked(predictions: &mut Predictions<'_>) -> Result<Ranking, AdviseError> {
    let (families, excluded) = candidates(predictions.request);
    ranked_of(predictions, families, excluded)
}

fn ranked_of(
    predictions: &mut Predictions<'_>,
    families: Vec<Vec<Strategy>>,
    mut excluded: Vec<Excluded>,
) -> Result<Ranking, AdviseError> {
    let request = predictions.request;
    let (mut found, mut strategies): (Vec<Vec<Prediction>>, Vec<Prediction>) = (Vec::new(), Vec::new());
    for family in families {
        let mut fit = Vec::new();
        for strategy in family {
            let prediction = predictions.of(strategy)?;
            match too_much(&prediction.memory, request) {
                Some(reason) => excluded.push(Excluded { strategy, reason }),
                None => fit.push(prediction),
            }
        }
        found.push(fit);
    }
    // Of all of them with all their threads: the best of each measured against each other would be two small steps from the fastest.
    let all = found.concat();
    let first = best(&all, request.repeat).map(|k| all[k].strategy);
    for mut fit in found {
        let at = fit.iter().position(|p| Some(p.strategy) == first).or_else(|| best(&fit, request.repeat));
        strategies.extend(at.map(|k| fit.swap_remove(k)));
    }
    // About as fast and less busy goes first.
    sort_by_key(&mut strategies, |p| (Some(p.strategy) != first, p.cost(request.repeat)));
    // Of a strategy that is there with fewer threads, the others are no news.
    excluded.retain(|e| !strategies.iter().any(|p| p.strategy.name() == e.strategy.name()));
    excluded.dedup_by_key(|e| e.strategy.name());
    Ok(Ranking { strategies, excluded })
}

/// Why a strategy does not fit into the host's memory.
fn too_much(memory: &Memory, request: &Request) -> Option<String> {
    let free = request.free_ram?;
    let all = memory.pinned.0.saturating_add(memory.pageable.0);
    // Tensors are there already, and results have to be somewhere.
    let given = request.total().0.saturating_mul(1 + u64::from(request.back));
    let extra = Bytes(all.saturating_sub(given));
    (free < extra).then(|| format!("it takes {extra} of host memory beside the tensors, {free} is free"))
}

impl Ranking {
    /// The best one.
    pub fn best(&self) -> Option<&Prediction> {
        self.strategies.first()
    }

    /// What made the best one the best, against the direct copies or, if these are the best, against the next one; and
    /// that other one.
    pub fn decision(&self, repeat: u32) -> (Decision, Option<&Prediction>) {
        let Some(best) = self.best() else { return (Decision::Alone, None) };
        let is_direct = |p: &&Prediction| p.strategy == Strategy::Direct;
        let other = match best.strategy {
            Strategy::Direct => self.strategies.get(1),
            _ => self.strategies.iter().find(is_direct).or(self.strategies.get(1)),
        };
        let Some(other) = other else { return (Decision::Alone, None) };
        let saved = |of: fn(&Spent) -> Nanos| of(&other.spent).0 - of(&best.spent).0;
        let setup = (other.setup.0 - best.setup.0) / i64::from(repeat.max(1));
        let found = [
            (saved(|s| s.calls), Decision::Calls),
            (saved(|s| s.copies), Decision::Copies),
            (saved(|s| s.locking), Decision::Locking),
            (setup, Decision::Setup),
        ];
        let all = other.cost(repeat).0 - best.cost(repeat).0;
        let most = found.into_iter().max_by_key(|(time, _)| *time);
        match most {
            // Less than a third of the difference decides nothing.
            Some((time, decision)) if time > 0 && all / 3 <= time => (decision, Some(other)),
            _ => (Decision::Overlap, Some(other)),
        }
    }
}
