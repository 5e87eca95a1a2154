//! Evidence for a hazard: schedules that obey the relation and show what can go wrong.
//!
//! Every write stamps the bytes that it writes with its own name, so that what a read finds tells whose bytes they are.
//! For a race there are two schedules, with the two accesses next to each other in opposite orders; what the reading one
//! finds (of two writes: what is left) differs between them. For a use outside a life one schedule shows it.

use std::fmt;

use super::schedule::{Hold, Holds, ReplayError, Schedule};
use crate::hazard::{Certainty, Hazard, HazardKind, Life, Part, Relation, StepId, Touch};
use crate::memory::{DEFAULT_LIMIT, Overlap, Span};
use crate::ordered::CollectVec;
use crate::program::BufferId;

/// What bytes hold: whose stamp is on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stamp {
    /// Nothing has written them.
    Unwritten,
    /// This step wrote them last.
    By(StepId),
    /// Their memory is not there: its life has not begun, or has ended.
    Outside,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stamp::Unwritten => f.write_str("unwritten"),
            Stamp::By(step) => write!(f, "{step}"),
            Stamp::Outside => f.write_str("outside"),
        }
    }
}

/// What is found in the bytes in conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The step that finds it; of two writes the one that comes second in this schedule and leaves it.
    pub by: StepId,
    /// Whether the bytes are read by it, or left.
    pub is_read: bool,
    /// What it finds or leaves.
    pub stamp: Stamp,
}

/// One schedule and what it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The order of all steps.
    pub schedule: Schedule,
    /// Its name, from which [`Schedule::replay`] makes it again.
    pub holds: Holds,
    /// What is found in the bytes in conflict.
    pub seen: Seen,
}

/// Schedules that show a hazard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// The steps of the first and of the second access; for lifetimes, of the access and of the life's beginning or end, in
    /// the order of the hazard.
    pub sites: [StepId; 2],
    /// Block and bytes `[lo, hi)` in conflict that are watched.
    pub bytes: (BufferId, i64, i64),
    /// Two for a race, first the one in which `sites` run in the order of the list; one for a use outside a life.
    pub shown: Vec<Shown>,
}

/// Evidence for a hazard that [`check`](crate::hazard::check) found with the same program and mode.
///
/// `None` where none is owed: for hazards that are not certain. Where the steps lie so far apart that an order of them takes
/// too long to make, the error says so.
///
/// # Cost
/// As [`Schedule::replay`], twice.
///
/// # Errors
/// [`ReplayError::TooLong`].
///
/// ```
/// use spanlift::explore::{Stamp, witness};
/// use spanlift::hazard::{Mode, Relation, check};
/// use spanlift::Program;
///
/// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy x <- d on s\nread x")?;
/// let race = &check(&p, Mode::Contract)?.hazards[0];
/// let relation = Relation::of(&p, Mode::Contract)?;
/// let shown = witness(&relation, race)?.unwrap().shown;
/// assert_eq!((shown[0].holds.to_string(), shown[0].seen.stamp.to_string()), ("-".into(), "w3".into()));
/// assert_eq!((shown[1].holds.to_string(), shown[1].seen.stamp), ("w3:c4".into(), Stamp::Unwritten));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn witness(relation: &Relation<'_>, hazard: &Hazard) -> Result<Option<Witness>, ReplayError> {
    if hazard.certainty != Certainty::Must {
        return Ok(None);
    }
    match hazard.kind {
        HazardKind::Raw | HazardKind::War | HazardKind::Waw => race(relation, hazard),
        _ => outside(relation, hazard),
    }
}

/// A touch of one step.
#[derive(Debug, Clone)]
struct Site {
    step: usize,
    touch: Touch,
}

impl Site {
    fn span(&self) -> &Span {
        &self.touch.region.span
    }
}

/// What one command of the hazard touches, in the part that takes part.
fn sites(relation: &Relation<'_>, command: usize, captured: Option<usize>) -> Vec<Site> {
    let steps = relation.of_command(command);
    let fits = |part: Part| captured.is_none() || captured.map(Part::Captured) == Some(part);
    steps
        .filter(|&step| fits(relation.steps()[step].id.part))
        .flat_map(|step| {
            relation.steps()[step].touches.iter().map(move |touch| Site { step, touch: touch.clone() })
        })
        .collect_vec()
}

fn race(relation: &Relation<'_>, hazard: &Hazard) -> Result<Option<Witness>, ReplayError> {
    let (first_writes, second_writes) = match hazard.kind {
        HazardKind::Raw => (true, false),
        HazardKind::War => (false, true),
        _ => (true, true),
    };
    let block = |site: &Site| relation.facts.buffer(site.touch.region.buffer).block;
    let firsts = sites(relation, hazard.first, hazard.captured[0]);
    let seconds = sites(relation, hazard.second, hazard.captured[1]);
    let pairs = firsts.iter().flat_map(|a| seconds.iter().map(move |b| (a, b))).filter(|(a, b)| {
        a.step < b.step
            && a.touch.write == first_writes
            && b.touch.write == second_writes
            && [block(a), block(b)] == [relation.facts.buffer(hazard.buffer).block; 2]
            && !relation.before(a.step, b.step)
            && !(a.touch.region.opaque || b.touch.region.opaque)
            && a.span().overlaps(b.span(), DEFAULT_LIMIT) == Overlap::Yes
    });
    let common = |(a, b): (&Site, &Site)| a.span().common(b.span(), DEFAULT_LIMIT);
    // The bytes that the hazard tells of, before others that the two share besides.
    let (told, others): (Vec<_>, Vec<_>) =
        pairs.partition(|&pair| hazard.bytes.is_some() && common(pair) == hazard.bytes);
    for (a, b) in told.into_iter().chain(others) {
        let Some((lo, hi)) = common((a, b)) else { continue };
        let watch = (block(a), lo);
        let id = |step: usize| relation.steps()[step].id;
        let late = Holds(vec![Hold { step: id(a.step), until: id(b.step) }]);
        let reversed = match Schedule::replay(relation, &late) {
            Ok(schedule) => schedule,
            // Ordered after all, by way of a third step.
            Err(ReplayError::Never { .. }) => continue,
            Err(error) => return Err(error),
        };
        let reader = if second_writes { a.step } else { b.step };
        let look = |schedule: Schedule, holds: Holds| {
            let by = match hazard.kind {
                HazardKind::Waw => last_of(&schedule, [a.step, b.step]),
                _ => reader,
            };
            let is_read = hazard.kind != HazardKind::Waw;
            let stamp = stamp_at(relation, &schedule, watch, by, is_read);
            Shown { schedule, holds, seen: Seen { by: id(by), is_read, stamp } }
        };
        let reversed = look(reversed, late);
        let mut straight = look(Schedule::in_order(relation), Holds::default());
        if hazard.kind == HazardKind::Raw && straight.seen.stamp != Stamp::By(id(a.step)) {
            // Others write the bytes in between: those that may come later do, and the first access waits for the rest.
            let between = (a.step + 1..b.step).filter(|&step| writes(relation, step, watch));
            let (sooner, later): (Vec<usize>, Vec<usize>) =
                between.partition(|&step| relation.before(step, b.step));
            let hold = |step, until| Hold { step: id(step), until: id(until) };
            let first = sooner.last().map(|&last| hold(a.step, last));
            let holds = Holds(first.into_iter().chain(later.iter().map(|&w| hold(w, b.step))).collect_vec());
            straight = look(Schedule::replay(relation, &holds)?, holds);
        }
        let sites = [id(a.step), id(b.step)];
        return Ok(Some(Witness { sites, bytes: (watch.0, lo, hi), shown: vec![straight, reversed] }));
    }
    Ok(None)
}

fn last_of(schedule: &Schedule, steps: [usize; 2]) -> usize {
    schedule.order().iter().rev().copied().find(|step| steps.contains(step)).unwrap_or(steps[1])
}

/// What is on a byte of a block when step `by` reads it, or right after it has written.
fn stamp_at(
    relation: &Relation<'_>,
    schedule: &Schedule,
    watch: (BufferId, i64),
    by: usize,
    is_read: bool,
) -> Stamp {
    let mut stamp = Stamp::Unwritten;
    for &step in schedule.order() {
        if step == by && is_read {
            return stamp;
        }
        if writes(relation, step, watch) {
            stamp = Stamp::By(relation.steps()[step].id);
        }
        if step == by {
            return stamp;
        }
    }
    stamp
}

fn writes(relation: &Relation<'_>, step: usize, (block, byte): (BufferId, i64)) -> bool {
    let Ok(watched) = Span::range(byte, 1) else { return false };
    relation.steps()[step].touches.iter().any(|t| {
        t.write
            && relation.facts.buffer(t.region.buffer).block == block
            && t.region.span.overlaps(&watched, DEFAULT_LIMIT) == Overlap::Yes
    })
}

fn outside(relation: &Relation<'_>, hazard: &Hazard) -> Result<Option<Witness>, ReplayError> {
    let (life, used) = match hazard.kind {
        HazardKind::FreeInFlight => (hazard.second, hazard.first),
        _ => (hazard.first, hazard.second),
    };
    let captured = hazard.captured[usize::from(used == hazard.second)];
    // A free into a pool is no step of its own, but its call is.
    let turns = relation.of_command(life).rev().find(|&step| match relation.steps()[step].life {
        Some(Life::Begins(buffer)) => hazard.kind == HazardKind::UseBeforeAlloc && buffer == hazard.buffer,
        Some(Life::Ends(buffer)) => hazard.kind != HazardKind::UseBeforeAlloc && buffer == hazard.buffer,
        None => hazard.kind == HazardKind::UseAfterFree,
    });
    let Some(turns) = turns else { return Ok(None) };
    let id = |step: usize| relation.steps()[step].id;
    for site in sites(relation, used, captured) {
        let region = site.touch.region;
        let Some((lo, hi)) = region.span.bounds().filter(|_| region.buffer == hazard.buffer) else {
            continue;
        };
        let holds = match hazard.kind {
            HazardKind::UseAfterFree => Holds::default(),
            HazardKind::UseBeforeAlloc => Holds(vec![Hold { step: id(turns), until: id(site.step) }]),
            _ => Holds(vec![Hold { step: id(site.step), until: id(turns) }]),
        };
        let schedule = match Schedule::replay(relation, &holds) {
            Ok(schedule) => schedule,
            Err(ReplayError::Never { .. }) => continue,
            Err(error) => return Err(error),
        };
        let seen = Seen { by: id(site.step), is_read: !site.touch.write, stamp: Stamp::Outside };
        let sites = if used == hazard.first { [site.step, turns] } else { [turns, site.step] }.map(id);
        let block = relation.facts.buffer(region.buffer).block;
        let shown = vec![Shown { schedule, holds, seen }];
        return Ok(Some(Witness { sites, bytes: (block, lo, hi), shown }));
    }
    Ok(None)
}
