//! The steps that touch memory, as small numbers: their order closed, their bytes cut into classes, and who races.
//!
//! Bytes that the same accesses touch behave alike, so that one value stands for a whole class of them.

use super::results::ExploreError;
use crate::hazard::{Life, Relation};
use crate::memory::Span;
use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::program::BufferId;

/// A set of small numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bits(Box<[u64]>);

impl Bits {
    pub(super) fn none(n: usize) -> Bits {
        Bits(vec![0; n.div_ceil(64)].into())
    }

    pub(super) fn has(&self, k: usize) -> bool {
        self.0[k / 64] >> (k % 64) & 1 == 1
    }

    pub(super) fn add(&mut self, k: usize) {
        self.0[k / 64] |= 1 << (k % 64);
    }

    fn join(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    pub(super) fn holds_all(&self, other: &Bits) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| theirs & !mine == 0)
    }
}

/// A step that touches memory, or begins or ends a life.
#[derive(Debug)]
pub(super) struct Node {
    /// Its position in the relation.
    pub(super) step: usize,
    /// The nodes before it: transitively closed.
    pub(super) past: Bits,
    /// Buffer and classes of each region that it reads.
    pub(super) reads: Vec<(BufferId, Vec<u32>)>,
    /// The same of what it writes.
    pub(super) writes: Vec<(BufferId, Vec<u32>)>,
    pub(super) life: Option<Life>,
    /// Whether an unordered one touches the same bytes and one of the two writes.
    pub(super) races: bool,
}

/// All of them, in the order of the list.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    /// The block of each class.
    pub(super) block_of: Vec<BufferId>,
}

/// Steps that touch memory, at most.
pub(super) const MOST_STEPS: usize = 2_048;
/// Runs of bytes that are cut, at most.
const MOST_RUNS: usize = 1 << 18;

impl Net {
    pub(super) fn of(relation: &Relation<'_>) -> Result<Net, ExploreError> {
        let steps = relation.steps();
        let places: Vec<usize> = (0..steps.len())
            .filter(|&k| !steps[k].touches.is_empty() || steps[k].life.is_some())
            .collect_vec();
        if MOST_STEPS < places.len() {
            return Err(ExploreError::TooManySteps { n: places.len(), limit: MOST_STEPS });
        }
        let (touched, block_of) = classes(relation, &places)?;
        let mut nodes: Vec<Node> = Vec::with_capacity(places.len());
        for (k, (&step, touched)) in places.iter().zip(touched).enumerate() {
            let mut past = Bits::none(places.len());
            for j in (0..k).rev() {
                if !past.has(j) && relation.before(places[j], step) {
                    past.add(j);
                    past.join(&nodes[j].past);
                }
            }
            let (mut reads, mut writes) = (Vec::new(), Vec::new());
            for (touch, classes) in steps[step].touches.iter().zip(touched) {
                let list = if touch.write { &mut writes } else { &mut reads };
                list.push((touch.region.buffer, classes));
            }
            nodes.push(Node { step, past, reads, writes, life: steps[step].life, races: false });
        }
        for b in 0..nodes.len() {
            for a in 0..b {
                if !nodes[b].past.has(a) && nodes[a].conflicts(&nodes[b]) {
                    (nodes[a].races, nodes[b].races) = (true, true);
                }
            }
        }
        Ok(Net { nodes, block_of })
    }

    /// How many orders of these nodes there are, if at most `limit` sets of them have to be looked at.
    pub(super) fn n_orders(&self, limit: usize) -> Option<u128> {
        let n = self.nodes.len();
        let mut sets = BTreeMap::from([(Bits::none(n), 1u128)]);
        let mut n_sets = 0;
        for _ in 0..n {
            let mut next: BTreeMap<Bits, u128> = BTreeMap::new();
            for (done, ways) in &sets {
                for (k, node) in self.nodes.iter().enumerate() {
                    if !done.has(k) && done.holds_all(&node.past) {
                        let mut more = done.clone();
                        more.add(k);
                        let sum = next.entry(more).or_default();
                        *sum = sum.checked_add(*ways)?;
                    }
                }
                if limit < n_sets + next.len() {
                    return None;
                }
            }
            n_sets += next.len();
            sets = next;
        }
        sets.into_values().next()
    }
}

impl Node {
    fn conflicts(&self, other: &Node) -> bool {
        let meet = |a: &[(BufferId, Vec<u32>)], b: &[(BufferId, Vec<u32>)]| {
            a.iter().any(|(_, a)| b.iter().any(|(_, b)| a.iter().any(|class| b.binary_search(class).is_ok())))
        };
        let lives = |a: &Node, b: &Node| match a.life {
            Some(Life::Begins(buffer) | Life::Ends(buffer)) => {
                b.reads.iter().chain(&b.writes).any(|(used, _)| *used == buffer)
            }
            None => false,
        };
        meet(&self.writes, &other.writes)
            || meet(&self.writes, &other.reads)
            || meet(&self.reads, &other.writes)
            || lives(self, other)
            || lives(other, self)
    }
}

/// The classes of each touch of each step.
type Touched = Vec<Vec<Vec<u32>>>;

/// The classes that each touch of these steps covers, in ascending order, and the block of each class.
fn classes(relation: &Relation<'_>, places: &[usize]) -> Result<(Touched, Vec<BufferId>), ExploreError> {
    let steps = relation.steps();
    let mut touched: Touched =
        places.iter().map(|&step| vec![Vec::new(); steps[step].touches.len()]).collect_vec();
    // By block: where runs begin and end, and of which touch.
    let mut cuts: BTreeMap<BufferId, Vec<(i64, bool, usize)>> = BTreeMap::new();
    let mut touch_at = Vec::new();
    let mut n_runs = 0;
    for (node, &step) in places.iter().enumerate() {
        for (k, touch) in steps[step].touches.iter().enumerate() {
            let block = relation.facts.buffer(touch.region.buffer).block;
            let list = cuts.entry(block).or_default();
            for (lo, hi) in runs(&touch.region.span, MOST_RUNS - n_runs).ok_or(ExploreError::TooManyBytes)? {
                list.push((lo, true, touch_at.len()));
                list.push((hi, false, touch_at.len()));
                n_runs += 1;
            }
            touch_at.push((node, k));
        }
    }
    let mut block_of = Vec::new();
    for (block, mut cuts) in cuts {
        sort(&mut cuts);
        let mut known: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
        // Touches whose runs are open, ascending; runs of one touch do not overlap.
        let mut open: Vec<usize> = Vec::new();
        let mut at = i64::MIN;
        let mut work = 0;
        for (place, begins, touch) in cuts {
            if at < place && !open.is_empty() {
                work += open.len();
                if 64 * MOST_RUNS < work {
                    return Err(ExploreError::TooManyBytes);
                }
                if !known.contains_key(&open) {
                    let class = u32::try_from(block_of.len()).unwrap_or(u32::MAX);
                    open.iter().for_each(|&t| touched[touch_at[t].0][touch_at[t].1].push(class));
                    known.insert(open.clone(), class);
                    block_of.push(block);
                }
            }
            at = place;
            match open.binary_search(&touch) {
                Ok(k) if !begins => drop(open.remove(k)),
                Err(k) if begins => open.insert(k, touch),
                _ => {}
            }
        }
    }
    Ok((touched, block_of))
}

/// The bytes of a span as runs that neither meet nor touch, if they are at most `limit` before they are joined.
fn runs(span: &Span, limit: usize) -> Option<Vec<(i64, i64)>> {
    if span.is_empty() {
        return Some(Vec::new());
    }
    let mut starts = vec![span.off()];
    for dim in span.dims().iter().filter(|d| d.stride != 0) {
        let count = usize::try_from(dim.count).ok()?;
        if limit < starts.len().checked_mul(count)? {
            return None;
        }
        starts = starts
            .iter()
            .flat_map(|&start| (0..dim.count).map(move |i| start.wrapping_add(i.wrapping_mul(dim.stride))))
            .collect_vec();
    }
    if limit < starts.len() {
        return None;
    }
    starts.sort_unstable();
    let mut runs: Vec<(i64, i64)> = Vec::with_capacity(starts.len());
    for lo in starts {
        let hi = lo.saturating_add(span.elem());
        match runs.last_mut() {
            Some(last) if lo <= last.1 => last.1 = hi,
            _ => runs.push((lo, hi)),
        }
    }
    Some(runs)
}
