//! Orders of execution as data: named by the steps they hold back, replayed from that name.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use super::policy::Policy;
use crate::hazard::{Line, Relation, StepId, UnknownStep};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort_by_key};

/// One step held back until another has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The step that waits.
    pub step: StepId,
    /// What it waits for.
    pub until: StepId,
}

/// The decisions that make a schedule: what is held back, everything else as early as the list has it.
///
/// Written `w4:w5,w7:c9`: the work of command 4 right after that of command 5, the work of command 7 right after the call
/// of command 9. Nothing held back is written `-`. Every schedule has such a name ([`Schedule::holds`]).
///
/// ```
/// use spanlift::explore::{Holds, HoldsError};
/// let holds: Holds = "w4:w5,w7:c9".parse()?;
/// assert_eq!((holds.0.len(), holds.to_string()), (2, "w4:w5,w7:c9".to_owned()));
/// assert_eq!("w4".parse::<Holds>(), Err(HoldsError::Alone("w4".to_owned())));
/// # Ok::<(), HoldsError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holds(pub Vec<Hold>);

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("-");
        }
        for (k, Hold { step, until }) in self.0.iter().enumerate() {
            write!(f, "{}{step}:{until}", if k == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Why a text is no name of a schedule.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldsError {
    /// A part of it that stands for a step is none.
    Step(UnknownStep),
    /// A part of it does not say what a step waits for.
    Alone(String),
}

impl fmt::Display for HoldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldsError::Step(error) => error.fmt(f),
            HoldsError::Alone(text) => {
                write!(f, "{text:?} holds nothing back: w4:w5 does, and - is the order of the list")
            }
        }
    }
}

crate::error::wraps!(HoldsError { Step(UnknownStep) });

impl FromStr for Holds {
    type Err = HoldsError;

    fn from_str(text: &str) -> Result<Holds, HoldsError> {
        if text == "-" {
            return Ok(Holds::default());
        }
        let hold = |text: &str| {
            let (step, until) = text.split_once(':').ok_or_else(|| HoldsError::Alone(text.to_owned()))?;
            Ok(Hold { step: step.parse()?, until: until.parse()? })
        };
        text.split(',').map(hold).try_collect_vec().map(Holds)
    }
}

/// Why a schedule cannot be replayed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// The program has no such step.
    NoStep(StepId),
    /// One step cannot wait for two.
    Twice(StepId),
    /// What it waits for comes after it, or waits for it.
    Never {
        /// The step that waits.
        step: StepId,
        /// What it waits for.
        until: StepId,
    },
    /// The steps are too many, too far apart.
    TooLong(u64),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::NoStep(error) => write!(f, "there is no step {error}"),
            ReplayError::Twice(error) => write!(f, "step {error} is held back twice"),
            ReplayError::Never { step, until } => {
                write!(f, "step {step} is held back for ever: {until} cannot run before it")
            }
            ReplayError::TooLong(n) => write!(f, "the schedule takes more than {n} comparisons of steps"),
        }
    }
}

crate::error::told!(ReplayError);

/// One order of all steps of a program that obeys its relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Positions of steps in the relation.
    order: Vec<usize>,
}

/// Comparisons of steps that a replay may take.
const MOST_WORK: u64 = 1 << 26;

impl Schedule {
    /// The order of the list.
    pub fn in_order(relation: &Relation<'_>) -> Schedule {
        Schedule { order: (0..relation.steps().len()).collect_vec() }
    }

    /// The order in which these steps are held back and all others come as early as the list has them.
    ///
    /// # Errors
    /// [`ReplayError`]: steps that are not there, held back twice or for ever, or too many comparisons.
    ///
    /// # Cost
    /// A comparison of each step with those that are held back when its turn comes, or that wait for these.
    /// # Examples
    /// ```
    /// use spanlift::explore::{Holds, Schedule};
    /// use spanlift::hazard::{Mode, Relation};
    /// use spanlift::program::Program;
    ///
    /// let program = Program::from_text("stream s1\nstream s2\nkernel a on s1 for 1us\nkernel b on s2 for 1us\n")?;
    /// let relation = Relation::of(&program, Mode::Contract)?;
    /// // The first kernel's work waits until that of the second one is done, which no order forbids.
    /// let holds: Holds = "w2:w3".parse()?;
    /// let schedule = Schedule::replay(&relation, &holds)?;
    /// assert_ne!(schedule, Schedule::in_order(&relation));
    /// assert_eq!(schedule.holds(&relation), holds);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replay(relation: &Relation<'_>, holds: &Holds) -> Result<Schedule, ReplayError> {
        match Schedule::replay_by(relation, holds, Relation::before) {
            // The letter of typical order, which alone is transitive; see `Relation::before`.
            Err(ReplayError::Never { .. }) => Schedule::replay_by(relation, holds, Relation::surely_before),
            found => found,
        }
    }

    fn replay_by<'p>(
        relation: &Relation<'p>,
        holds: &Holds,
        before: fn(&Relation<'p>, usize, usize) -> bool,
    ) -> Result<Schedule, ReplayError> {
        let find = |id| relation.find(id).ok_or(ReplayError::NoStep(id));
        let mut until = BTreeMap::new();
        for hold in &holds.0 {
            if until.insert(find(hold.step)?, find(hold.until)?).is_some() {
                return Err(ReplayError::Twice(hold.step));
            }
        }
        let releases: BTreeSet<usize> = until.values().copied().collect();
        let n = relation.steps().len();
        let (mut order, mut done) = (Vec::with_capacity(n), vec![false; n]);
        // Steps whose turn has come: held back, or after another one of these. Each stands in the line of its chain, of which
        // only the first can become free or need be looked at: what comes after a later one comes after the first.
        let mut lines: BTreeMap<Line, VecDeque<usize>> = BTreeMap::new();
        let mut firsts: BTreeSet<usize> = BTreeSet::new();
        let (mut next, mut work) = (0, 0u64);
        // Whether one of them may have become free since all were looked at.
        let mut look = false;
        loop {
            let mut is_free = |step: usize, done: &[bool]| {
                let mut frees = |other: &usize| {
                    work += 1;
                    !before(relation, *other, step)
                };
                until.get(&step).is_none_or(|&until| done[until])
                    && firsts.range(..step).all(&mut frees)
                    && (!relation.reads_early(step) || lines.values().flatten().all(frees))
            };
            let freed = if look { firsts.iter().copied().find(|&step| is_free(step, &done)) } else { None };
            let step = match freed {
                Some(step) => step,
                None if next == n => break,
                None => {
                    next += 1;
                    if !is_free(next - 1, &done) {
                        let line = lines.entry(relation.line(next - 1)).or_default();
                        line.push_back(next - 1);
                        firsts.insert(line[0]);
                        look = false;
                        continue;
                    }
                    next - 1
                }
            };
            if MOST_WORK < work {
                return Err(ReplayError::TooLong(MOST_WORK));
            }
            done[step] = true;
            order.push(step);
            let was_delayed = firsts.remove(&step);
            if was_delayed && let Some(line) = lines.get_mut(&relation.line(step)) {
                line.pop_front();
                if let Some(&first) = line.front() {
                    firsts.insert(first);
                }
            }
            look = (was_delayed || releases.contains(&step)) && !firsts.is_empty();
        }
        match until.iter().find(|&(&step, &until)| !done[step] && !done[until]) {
            None => Ok(Schedule { order }),
            Some((&step, &until)) => {
                let id = |k: usize| relation.steps()[k].id;
                Err(ReplayError::Never { step: id(step), until: id(until) })
            }
        }
    }

    /// The order that a policy picks, step by step.
    ///
    /// # Cost
    /// Quadratic in the number of steps; for small programs.
    pub fn by(relation: &Relation<'_>, policy: &mut dyn Policy) -> Schedule {
        let n = relation.steps().len();
        let mut left: Vec<usize> =
            (0..n).map(|k| (0..k).filter(|&j| relation.before(j, k)).count()).collect_vec();
        let mut ready: Vec<usize> = (0..n).filter(|&k| left[k] == 0).collect_vec();
        let mut order = Vec::with_capacity(n);
        while !ready.is_empty() {
            let pick = policy.pick(&ready).min(ready.len() - 1);
            let step = ready.remove(pick);
            order.push(step);
            for (k, left) in left.iter_mut().enumerate().skip(step + 1) {
                if relation.before(step, k) {
                    *left -= 1;
                    if *left == 0 {
                        ready.insert(ready.partition_point(|&r| r < k), k);
                    }
                }
            }
        }
        Schedule { order }
    }

    /// Positions of all steps in the relation, first to last.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The names of all steps, first to last.
    pub fn ids<'a>(&'a self, relation: &'a Relation<'_>) -> impl Iterator<Item = StepId> + 'a {
        self.order.iter().map(|&k| relation.steps()[k].id)
    }

    /// The steps to hold back so that [`Schedule::replay`] gives this order.
    ///
    /// # Cost
    /// For each step that others overtook, a comparison with those that ran while it could have.
    pub fn holds(&self, relation: &Relation<'_>) -> Holds {
        let id = |k: usize| relation.steps()[k].id;
        let mut holds = Vec::new();
        let mut furthest = None;
        for (place, &step) in self.order.iter().enumerate() {
            if furthest < Some(step) {
                furthest = Some(step);
                continue;
            }
            // Overtaken: but did it have to wait for all that overtook it?
            let waited = self.order[..place].iter().rev().take_while(|&&other| !relation.before(other, step));
            if waited.into_iter().any(|&other| step < other) {
                holds.push(Hold { step: id(step), until: id(self.order[place - 1]) });
            }
        }
        sort_by_key(&mut holds, |hold| hold.step);
        Holds(holds)
    }
}
