//! Every result that a program can have: all orders of its steps, searched without trying each.
//!
//! A step's *value* is its name and what it read; a *result* is what is left in memory that is still allocated, and what the
//! steps found that only read. Two orders have the same result when every access finds the same values.
//!
//! Only steps that race are picked in different orders: any other one commutes with all that it is unordered with, and
//! runs as soon as it can. Two ways to the same set of steps with the same values go on alike, so they are followed once;
//! how many ways there were is counted, and the one with the fewest late steps is kept. A step is *late* when one that the
//! list has behind it ran before it.

use std::fmt;

use super::net::{Bits, Net};
use super::policy::{Policy, Random};
use super::schedule::Schedule;
use super::witness::Stamp;
use crate::hazard::{Life, Relation, StepId};
use crate::ordered::{BTreeMap, CollectVec, Entry, sort_by, sort_by_key};
use crate::program::{BufferId, FreeVia, Op};

/// Why the orders of a program are not explored.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExploreError {
    /// Too many steps.
    TooManySteps {
        /// How many there are.
        n: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Too many pieces of memory.
    TooManyBytes,
    /// Too many sets of steps.
    TooManyStates(usize),
}

impl fmt::Display for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExploreError::TooManySteps { n, limit } => {
                write!(f, "{n} steps touch memory, the orders of at most {limit} are explored")
            }
            ExploreError::TooManyBytes => {
                f.write_str("the accesses cut memory into more pieces than can be told apart")
            }
            ExploreError::TooManyStates(n) => write!(
                f,
                "after {n} states the end is not in sight; a number of schedules can be sampled instead"
            ),
        }
    }
}

crate::error::told!(ExploreError);

/// What one access finds, or what is left at the end. A read finds bytes; a write is told where it finds no memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Find {
    /// The step of the access; `None` for what is left.
    pub by: Option<StepId>,
    /// The buffer; for what is left the last one that had the block.
    pub buffer: BufferId,
    /// Whose bytes they are, each once.
    pub stamps: Vec<Stamp>,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// A schedule with this result, with the fewest late steps.
    pub schedule: Schedule,
    /// How many steps of it are late, of those that race (of a sample: of those that touch memory).
    pub n_late: usize,
    /// Orders of the racing steps that have this result, or schedules of the sample that did.
    pub n_orders: u128,
    /// What every access finds and what is left, in the order of the list.
    pub finds: Vec<Find>,
}

/// What exploring a program gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explored {
    /// Steps that touch memory.
    pub n_steps: usize,
    /// Those that race with one another.
    pub n_racing: usize,
    /// Orders of all steps that touch memory, where they can be counted.
    pub n_schedules: Option<u128>,
    /// Orders of the racing steps, or schedules sampled.
    pub n_orders: u128,
    /// Whether every order was looked at.
    pub is_complete: bool,
    /// Every result that was found, that of the fewest late steps first.
    pub outcomes: Vec<Outcome>,
    /// How many results there are; more than `outcomes` where these are very many.
    pub n_results: usize,
}

/// States that the search may visit.
const MOST_STATES: usize = 200_000;
/// Numbers that the states of two neighbouring sets of steps may have in all.
const MOST_NUMBERS: usize = 1 << 25;
/// Results that are told in full.
const MOST_OUTCOMES: usize = 256;

/// Explores every order of a program's steps.
///
/// # Errors
/// [`ExploreError`] where the program is too large for that.
///
/// # Cost
/// Linear in the sets of racing steps that can be over at one time, with different values: up to exponential in how many
/// race at once, and bounded.
///
/// ```
/// use spanlift::Program;
/// use spanlift::explore::explore;
/// use spanlift::hazard::{Mode, Relation};
///
/// let p = Program::from_text("stream a, b, c\ndevice d 8\nkernel on a writes d\nkernel on b writes d\nkernel on c writes d")?;
/// let found = explore(&Relation::of(&p, Mode::Contract)?)?;
/// assert_eq!((found.n_orders, found.n_results), (6, 3)); // whoever writes last
/// let names: Vec<String> = found.outcomes.iter().map(|o| o.schedule.holds(&Relation::of(&p, Mode::Contract).unwrap()).to_string()).collect();
/// assert_eq!(names, ["-", "w5:w6", "w4:w6"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn explore(relation: &Relation<'_>) -> Result<Explored, ExploreError> {
    let net = Net::of(relation)?;
    let racing: Vec<usize> = (0..net.nodes.len()).filter(|&k| net.nodes[k].races).collect_vec();
    let mut values = Values::new(relation, &net);
    let start = {
        let mut state = values.start();
        values.settle(&mut state);
        state
    };
    let most = MOST_STATES.min(MOST_NUMBERS / (start.memory.len() + start.seen.len()).max(1));
    // Every state that was reached: from which one and by which step.
    let mut trail: Vec<(usize, usize)> = vec![(usize::MAX, usize::MAX)];
    let mut layer = BTreeMap::from([(start, Way { at: 0, n_late: 0, n_orders: 1 })]);
    for _ in &racing {
        let mut next: BTreeMap<State, Way> = BTreeMap::new();
        for (state, way) in layer {
            let last = racing.iter().rev().find(|&&k| state.done.has(k)).copied();
            for &k in
                racing.iter().filter(|&&k| !state.done.has(k) && state.done.holds_all(&net.nodes[k].past))
            {
                let overtaken =
                    racing.iter().filter(|&&x| last < Some(x) && x < k && !state.done.has(x)).count();
                let mut after = state.clone();
                values.run(&mut after, k);
                values.settle(&mut after);
                let n_late = way.n_late + overtaken;
                let mut reach = || {
                    trail.push((way.at, k));
                    trail.len() - 1
                };
                match next.entry(after) {
                    Entry::Vacant(new) => {
                        new.insert(Way { at: reach(), n_late, n_orders: way.n_orders });
                    }
                    Entry::Occupied(mut known) => {
                        let known = known.get_mut();
                        known.n_orders = known.n_orders.saturating_add(way.n_orders);
                        if n_late < known.n_late {
                            (known.at, known.n_late) = (reach(), n_late);
                        }
                    }
                }
            }
            if most < trail.len() {
                return Err(ExploreError::TooManyStates(most));
            }
        }
        layer = next;
    }
    let ends = layer.into_iter().map(|(state, way)| {
        let mut order = Vec::new();
        let mut at = way.at;
        while let Some(&(before, k)) = trail.get(at).filter(|(before, _)| *before != usize::MAX) {
            order.push(k);
            at = before;
        }
        order.reverse();
        (values.result(state), End { order, n_late: way.n_late, n_orders: way.n_orders })
    });
    let mut results = BTreeMap::new();
    let mut n_orders = 0u128;
    for (result, end) in ends {
        n_orders = n_orders.saturating_add(end.n_orders);
        merge(&mut results, result, end);
    }
    let n_schedules = net.n_orders(MOST_STATES);
    Ok(told(relation, &net, &racing, results, n_orders, n_schedules, true))
}

/// Looks at `n` schedules: the order of the list, and others at random from `seed`.
///
/// # Errors
/// [`ExploreError`] where the program is too large for that.
///
/// # Cost
/// For each schedule one look at every step for each one that runs.
pub fn sample(relation: &Relation<'_>, n: u64, seed: u64) -> Result<Explored, ExploreError> {
    let net = Net::of(relation)?;
    let all: Vec<usize> = (0..net.nodes.len()).collect_vec();
    let mut values = Values::new(relation, &net);
    let mut policy = Random::new(seed);
    let mut results = BTreeMap::new();
    for round in 0..n {
        let mut state = values.start();
        let (mut order, mut n_late, mut last) = (Vec::new(), 0, None);
        let mut ready: Vec<usize> =
            all.iter().copied().filter(|&k| state.done.holds_all(&net.nodes[k].past)).collect_vec();
        while !ready.is_empty() {
            let pick = if round == 0 { 0 } else { policy.pick(&ready).min(ready.len() - 1) };
            let k = ready.remove(pick);
            if Some(k) < last {
                n_late += 1;
            }
            last = last.max(Some(k));
            values.run(&mut state, k);
            order.push(k);
            for next in k + 1..net.nodes.len() {
                let node = &net.nodes[next];
                if node.past.has(k) && state.done.holds_all(&node.past) {
                    ready.insert(ready.partition_point(|&r| r < next), next);
                }
            }
        }
        merge(&mut results, values.result(state), End { order, n_late, n_orders: 1 });
    }
    Ok(told(relation, &net, &all, results, u128::from(n), None, false))
}

/// A state's best way and how many there are.
struct Way {
    at: usize,
    n_late: usize,
    n_orders: u128,
}

/// An order that has a result.
struct End {
    order: Vec<usize>,
    n_late: usize,
    n_orders: u128,
}

fn merge(results: &mut BTreeMap<Vec<u32>, End>, result: Vec<u32>, end: End) {
    match results.entry(result) {
        Entry::Vacant(new) => _ = new.insert(end),
        Entry::Occupied(mut known) => {
            let known = known.get_mut();
            known.n_orders = known.n_orders.saturating_add(end.n_orders);
            if (end.n_late, &end.order) < (known.n_late, &known.order) {
                (known.n_late, known.order) = (end.n_late, end.order);
            }
        }
    }
}

fn told(
    relation: &Relation<'_>,
    net: &Net,
    picked: &[usize],
    results: BTreeMap<Vec<u32>, End>,
    n_orders: u128,
    n_schedules: Option<u128>,
    is_complete: bool,
) -> Explored {
    let n_results = results.len();
    let mut ends: Vec<End> = results.into_values().collect_vec();
    sort_by(&mut ends, |a, b| (a.n_late, &a.order).cmp(&(b.n_late, &b.order)));
    ends.truncate(MOST_OUTCOMES);
    let outcome = |end: End| {
        let steps: Vec<usize> = end.order.iter().map(|&k| net.nodes[k].step).collect_vec();
        let mut is_picked = vec![false; relation.steps().len()];
        picked.iter().for_each(|&k| is_picked[net.nodes[k].step] = true);
        let schedule = Schedule::by(relation, &mut Follow { steps: &steps, is_picked: &is_picked, next: 0 });
        let finds = finds(relation, net, &schedule);
        Outcome { schedule, n_late: end.n_late, n_orders: end.n_orders, finds }
    };
    let outcomes = ends.into_iter().map(outcome).collect_vec();
    let n_racing = net.nodes.iter().filter(|node| node.races).count();
    Explored { n_steps: net.nodes.len(), n_racing, n_schedules, n_orders, is_complete, outcomes, n_results }
}

/// Picks some steps in a given order, and all others as early as the list has them.
struct Follow<'a> {
    steps: &'a [usize],
    is_picked: &'a [bool],
    next: usize,
}

impl Policy for Follow<'_> {
    fn pick(&mut self, ready: &[usize]) -> usize {
        let wanted = self.steps.get(self.next).copied();
        let fits = |&step: &usize| !self.is_picked[step] || Some(step) == wanted;
        let at = ready.iter().position(fits).unwrap_or_default();
        self.next += usize::from(Some(ready[at]) == wanted);
        at
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// What every access of a schedule finds, in the order of the list, and what is left at the end.
///
/// # Errors
/// [`ExploreError`] where the program is too large for that.
pub fn replayed(relation: &Relation<'_>, schedule: &Schedule) -> Result<Vec<Find>, ExploreError> {
    Ok(finds(relation, &Net::of(relation)?, schedule))
}

fn finds(relation: &Relation<'_>, net: &Net, schedule: &Schedule) -> Vec<Find> {
    let mut node_of = vec![usize::MAX; relation.steps().len()];
    net.nodes.iter().enumerate().for_each(|(k, node)| node_of[node.step] = k);
    let mut stamps = vec![Stamp::Unwritten; net.block_of.len()];
    let mut done = Bits::none(net.nodes.len());
    let lives = Lives::of(net);
    let mut found: Vec<(usize, Find)> = Vec::new();
    let distinct = |list: &mut dyn Iterator<Item = Stamp>| {
        let mut stamps: Vec<Stamp> = Vec::new();
        list.for_each(|stamp| {
            if !stamps.contains(&stamp) {
                stamps.push(stamp);
            }
        });
        stamps
    };
    for &step in schedule.order() {
        let k = node_of[step];
        let Some(node) = net.nodes.get(k) else { continue };
        let id = relation.steps()[step].id;
        for (buffer, classes) in &node.reads {
            let stamps = match lives.is_there(*buffer, &done) {
                true => distinct(&mut classes.iter().map(|&class| stamps[class as usize])),
                false => vec![Stamp::Outside],
            };
            found.push((k, Find { by: Some(id), buffer: *buffer, stamps }));
        }
        for (buffer, _) in &node.writes {
            if !lives.is_there(*buffer, &done) {
                found.push((k, Find { by: Some(id), buffer: *buffer, stamps: vec![Stamp::Outside] }));
            }
        }
        node.writes.iter().flat_map(|(_, classes)| classes).for_each(|&c| stamps[c as usize] = Stamp::By(id));
        done.add(k);
    }
    sort_by_key(&mut found, |(k, _)| *k);
    let mut finds: Vec<Find> = found.into_iter().map(|(_, find)| find).collect_vec();
    for (block, owner) in owners(relation) {
        let classes = (0..stamps.len()).filter(|&c| net.block_of[c] == block);
        let stamps = distinct(&mut classes.map(|c| stamps[c]));
        if !stamps.is_empty() {
            finds.push(Find { by: None, buffer: owner, stamps });
        }
    }
    finds
}

/// The blocks that are still allocated at the end, each with the buffer that has it.
fn owners(relation: &Relation<'_>) -> BTreeMap<BufferId, BufferId> {
    let mut owners = BTreeMap::new();
    for command in relation.program.commands() {
        match &command.op {
            Op::Alloc(alloc) => _ = owners.insert(relation.facts.buffer(alloc.buffer).block, alloc.buffer),
            // Memory that is no longer registered is still there.
            Op::Free { buffer, via, .. } if *via != FreeVia::Unregister => {
                let block = relation.facts.buffer(*buffer).block;
                if owners.get(&block) == Some(buffer) {
                    owners.remove(&block);
                }
            }
            _ => {}
        }
    }
    owners
}

/// Which nodes begin and end the lives of buffers.
#[derive(Debug)]
struct Lives(BTreeMap<BufferId, (Option<usize>, Option<usize>)>);

impl Lives {
    fn of(net: &Net) -> Lives {
        let mut lives: BTreeMap<BufferId, (Option<usize>, Option<usize>)> = BTreeMap::new();
        for (k, node) in net.nodes.iter().enumerate() {
            match node.life {
                Some(Life::Begins(buffer)) => lives.entry(buffer).or_default().0 = Some(k),
                Some(Life::Ends(buffer)) => lives.entry(buffer).or_default().1 = Some(k),
                None => {}
            }
        }
        Lives(lives)
    }

    fn is_there(&self, buffer: BufferId, done: &Bits) -> bool {
        let (begins, ends) = self.0.get(&buffer).copied().unwrap_or_default();
        begins.is_none_or(|k| done.has(k)) && !ends.is_some_and(|k| done.has(k))
    }
}

/// Which steps are over, what every class of bytes holds, and what the steps found that only read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    done: Bits,
    memory: Vec<u32>,
    seen: Vec<u32>,
}

/// Values as numbers: 0 is unwritten, 1 is what is read of memory that is not there.
struct Values<'n> {
    net: &'n Net,
    lives: Lives,
    /// The classes whose block is still allocated at the end.
    left: Vec<usize>,
    /// Where each node that only reads keeps what it saw.
    place: Vec<Option<usize>>,
    n_seen: usize,
    numbers: BTreeMap<(usize, Vec<u32>), u32>,
}

impl<'n> Values<'n> {
    fn new(relation: &Relation<'_>, net: &'n Net) -> Values<'n> {
        let owners = owners(relation);
        let left = (0..net.block_of.len()).filter(|&c| owners.contains_key(&net.block_of[c])).collect_vec();
        let mut n_seen = 0;
        let place = net.nodes.iter().map(|node| {
            let only_reads = node.writes.is_empty() && !node.reads.is_empty();
            n_seen += usize::from(only_reads);
            only_reads.then(|| n_seen - 1)
        });
        let place = place.collect_vec();
        Values { net, lives: Lives::of(net), left, place, n_seen, numbers: BTreeMap::new() }
    }

    fn start(&self) -> State {
        let (n_classes, n) = (self.net.block_of.len(), self.net.nodes.len());
        State { done: Bits::none(n), memory: vec![0; n_classes], seen: vec![0; self.n_seen] }
    }

    /// Runs one node.
    fn run(&mut self, state: &mut State, k: usize) {
        const OUTSIDE: u32 = 1;
        let node = &self.net.nodes[k];
        let mut found = Vec::new();
        for (buffer, classes) in &node.reads {
            match self.lives.is_there(*buffer, &state.done) {
                true => found.extend(classes.iter().map(|&class| state.memory[class as usize])),
                false => found.push(OUTSIDE),
            }
        }
        for (buffer, _) in &node.writes {
            found.push(u32::from(!self.lives.is_there(*buffer, &state.done)));
        }
        let next = u32::try_from(self.numbers.len() + 2).unwrap_or(u32::MAX);
        let value = *self.numbers.entry((k, found)).or_insert(next);
        for (_, classes) in &node.writes {
            classes.iter().for_each(|&class| state.memory[class as usize] = value);
        }
        if let Some(place) = self.place[k] {
            state.seen[place] = value;
        }
        state.done.add(k);
    }

    /// Runs everything that races with nothing and can run.
    fn settle(&mut self, state: &mut State) {
        for k in 0..self.net.nodes.len() {
            let node = &self.net.nodes[k];
            if !node.races && !state.done.has(k) && state.done.holds_all(&node.past) {
                self.run(state, k);
            }
        }
    }

    /// What a finished state says of the result.
    fn result(&self, state: State) -> Vec<u32> {
        let left = self.left.iter().map(|&class| state.memory[class]);
        left.chain(state.seen.iter().copied()).collect_vec()
    }
}
