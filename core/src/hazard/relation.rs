//! Happens-before as a value: every step of a program and which of them come before which.
//!
//! A *step* is something that happens at one moment of an order of execution: a host thread's call, a piece of work on a
//! stream, a captured command in a launch. The walk that looks for hazards notes the clock of every step; asking whether
//! one step comes before another is asking its clock, so that the relation is the checker's own and not a second telling.

use std::fmt;
use std::rc::Rc;

use super::clock::{Clock, Epoch};
use super::rules::Rules;
use super::{Terms, walk};
use crate::memory::{DEFAULT_LIMIT, Overlap};
use crate::program::{BufferId, Facts, Problems, Program, Region};

/// Which part of a command a step is, in the order in which they can follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The call of the host thread; of a call that waits, its return. Accesses of the host are here.
    Call,
    /// What it put on a stream.
    Work,
    /// Of a graph launch: the work of the captured command with this index.
    Captured(usize),
}

/// The name of a step: `c4` is the call of command 4, `w4` its work, `w9.3` the captured command 3 in the launch 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// Index of the command.
    pub command: usize,
    /// Which part of it.
    pub part: Part,
}

impl StepId {
    /// The command that says what the step does: of a captured one its own, not the launch.
    pub fn of(self) -> usize {
        match self.part {
            Part::Captured(inner) => inner,
            _ => self.command,
        }
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Call => write!(f, "c{}", self.command),
            Part::Work => write!(f, "w{}", self.command),
            Part::Captured(index) => write!(f, "w{}.{index}", self.command),
        }
    }
}

/// A name that is no step.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownStep(pub String);

impl fmt::Display for UnknownStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no step: c4, w4 and w9.3 are", self.0)
    }
}

crate::error::told!(UnknownStep);

impl std::str::FromStr for StepId {
    type Err = UnknownStep;

    fn from_str(text: &str) -> Result<StepId, UnknownStep> {
        let wrong = || UnknownStep(text.to_owned());
        let number = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
            true => digits.parse::<usize>().map_err(|_| wrong()),
            false => Err(wrong()),
        };
        if let Some(command) = text.strip_prefix('c') {
            return Ok(StepId { command: number(command)?, part: Part::Call });
        }
        let work = text.strip_prefix('w').ok_or_else(wrong)?;
        Ok(match work.split_once('.') {
            None => StepId { command: number(work)?, part: Part::Work },
            Some((launch, index)) => {
                StepId { command: number(launch)?, part: Part::Captured(number(index)?) }
            }
        })
    }
}

/// Some bytes that a step reads or writes.
#[derive(Debug, Clone)]
pub struct Touch {
    /// Which bytes, under which name.
    pub region: Rc<Region>,
    /// Whether it writes them.
    pub write: bool,
}

/// The beginning or end of a buffer's life, where it is a step of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// A stream-ordered allocation.
    Begins(BufferId),
    /// A free, but into a pool, which ends nothing by itself.
    Ends(BufferId),
}

/// One thing that happens.
#[derive(Debug)]
pub struct Step {
    /// Its name.
    pub id: StepId,
    /// What it reads and writes, reads first.
    pub touches: Vec<Touch>,
    /// What begins or ends with it.
    pub life: Option<Life>,
    clock: Clock,
    /// What it comes after besides as far as that writes what it reads, without handing it on: see [`Relation::before`].
    also: Option<Clock>,
    /// Its place in the graph that a launch runs.
    inner: Option<Clock>,
}

impl Step {
    pub(super) fn new(id: StepId, clock: Clock) -> Step {
        Step { id, touches: Vec::new(), life: None, clock, also: None, inner: None }
    }

    pub(super) fn captured(id: StepId, clock: Clock, inner: Clock) -> Step {
        Step { inner: Some(inner), ..Step::new(id, clock) }
    }

    pub(super) fn comes_also_after(&mut self, clock: &Clock) {
        self.also = Some(clock.clone());
    }

    /// The bytes without those that are no access at all.
    pub(super) fn touch(&mut self, region: &Rc<Region>, write: bool) {
        if !region.span.is_empty() {
            self.touches.push(Touch { region: Rc::clone(region), write });
        }
    }
}

/// A chain of steps; of captured ones with the launch and the chain in its graph.
pub(crate) type Line = (u32, Option<(usize, u32)>);

/// Which steps of a program come before which, on some terms.
///
/// Steps stand in the order of the list, which is itself one of the orders that the relation allows. A relation stays on its thread,
/// since steps share what they know: others make one of their own.
#[derive(Debug)]
pub struct Relation<'p> {
    /// The program.
    pub program: &'p Program,
    /// Its tables.
    pub facts: Facts,
    /// Whose order it is.
    pub terms: Terms,
    steps: Vec<Step>,
}

impl<'p> Relation<'p> {
    /// The relation of a program.
    ///
    /// # Errors
    /// The [`Problems`] of form that [`Program::check`] finds.
    ///
    /// # Cost
    /// As [`check`](super::check), and a clock for each step.
    ///
    /// ```
    /// use spanlift::Program;
    /// use spanlift::hazard::{Mode, Relation};
    ///
    /// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy d <- x on s\nwrite x\nsync s\nread x")?;
    /// let relation = Relation::of(&p, Mode::Contract)?;
    /// let step = |name: &str| relation.find(name.parse().unwrap()).unwrap();
    /// assert!(relation.before(step("c3"), step("w3")));  // work comes after its call ..
    /// assert!(!relation.before(step("w3"), step("c4"))); // .. which does not wait for it
    /// assert!(relation.before(step("w3"), step("c6")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(program: &'p Program, terms: impl Into<Terms>) -> Result<Relation<'p>, Problems> {
        let (terms, facts) = (terms.into(), program.check()?);
        let steps = walk::steps(program, Rules::of(terms));
        Ok(Relation { program, facts, terms, steps })
    }

    /// Every step, in the order of the list.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The position of a step.
    pub fn find(&self, id: StepId) -> Option<usize> {
        self.steps.binary_search_by_key(&id, |step| step.id).ok()
    }

    /// The positions of a command's steps.
    pub fn of_command(&self, command: usize) -> std::ops::Range<usize> {
        let from = self.steps.partition_point(|step| step.id.command < command);
        from..self.steps.partition_point(|step| step.id.command <= command)
    }

    /// Whether the step at position `a` must be over before the one at `b` begins.
    ///
    /// Not transitive in one corner: a pageable source that drivers read in the call (typical mode) comes after what its
    /// stream wrote there, as in contract mode, yet what comes after the call need not. Orders obey this all the same.
    pub fn before(&self, a: usize, b: usize) -> bool {
        a < b && (self.steps[b].knows(&self.steps[a]) || self.is_source_of(a, b))
    }

    /// As [`Relation::before`] without that corner: a partial order by itself.
    pub fn surely_before(&self, a: usize, b: usize) -> bool {
        a < b && self.steps[b].knows(&self.steps[a])
    }

    /// The chain that a step stands in: of two of one chain the later comes after the earlier, and what knows the later knows both.
    pub(crate) fn line(&self, step: usize) -> Line {
        let Step { id, clock, inner, .. } = &self.steps[step];
        (clock.epoch().chain, inner.as_ref().map(|inner| (id.command, inner.epoch().chain)))
    }

    /// Whether a step comes after what writes its source besides, as [`Relation::before`] says.
    pub(crate) fn reads_early(&self, step: usize) -> bool {
        self.steps[step].also.is_some()
    }

    /// Whether the step at `a` writes what the call at `b` reads early, and its stream has it before the copy.
    fn is_source_of(&self, a: usize, b: usize) -> bool {
        let also = self.steps[b].also.as_ref();
        also.is_some_and(|also| also.knows(self.steps[a].epoch()))
            && self.meet(a, b, |write, read| write && !read)
    }

    /// Whether two steps touch a common byte, as far as is known, with touches of which these may write.
    pub(super) fn meet(&self, a: usize, b: usize, write: impl Fn(bool, bool) -> bool) -> bool {
        let block = |touch: &Touch| self.facts.buffer(touch.region.buffer).block;
        let meets = |x: &Touch, y: &Touch| {
            let spans = [x, y].map(|touch| &touch.region.span);
            write(x.write, y.write)
                && block(x) == block(y)
                && spans[0].overlaps(spans[1], DEFAULT_LIMIT) != Overlap::No
        };
        self.steps[a].touches.iter().any(|x| self.steps[b].touches.iter().any(|y| meets(x, y)))
    }
}

impl Step {
    fn epoch(&self) -> Epoch {
        self.clock.epoch()
    }

    fn knows(&self, other: &Step) -> bool {
        if let (Some(mine), Some(theirs)) = (&self.inner, &other.inner)
            && self.id.command == other.id.command
        {
            return mine.knows(theirs.epoch());
        }
        self.clock.knows(other.epoch())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_they_are_written() {
        for text in ["c0", "w4", "w9.3"] {
            assert_eq!(text.parse::<StepId>().map(|id| id.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "4", "c", "c4.1", "w", "w.", "w1.", "x4", "w+4", "w99999999999999999999999"] {
            let told: &dyn std::error::Error = &text.parse::<StepId>().unwrap_err();
            assert_eq!(told.to_string(), format!("{text:?} is no step: c4, w4 and w9.3 are"));
        }
    }
}
