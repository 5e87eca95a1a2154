//! Which buffer holds which value, and what each step waits for.
//!
//! Input and result have buffers of their own. Every other value gets a slot, which it may have from a value that nobody
//! needs any more: at once when its steps are known to be done by then, in place where a step works element by element, and
//! with a wait for them when [`Ahead`] says that memory matters more.

use crate::ordered::{BTreeMap, CollectVec};
use std::sync::Arc;

use super::order::{Done, Order};
use super::steps::{Does, Step, Steps, multiplies};
use super::view::View;
use crate::memory::{DEFAULT_LIMIT, Device, Overlap, Span};

/// How many tiles may be on their way at once before buffers are taken over with a wait; `None` for all of them.
pub(super) type Ahead = Option<usize>;

/// A buffer between input and result.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) device: Device,
    pub(super) bytes: i64,
    holder: usize,
}

/// Buffers and waits of all steps.
#[derive(Debug)]
pub(super) struct Schedule {
    /// For each step, the steps of other streams that it waits for.
    pub(super) waits: Vec<Vec<usize>>,
    /// For each transfer with a named event, the step that records it.
    pub(super) listens: BTreeMap<usize, usize>,
    pub(super) slots: Vec<Slot>,
    /// The slot of each value; none for input and result.
    pub(super) slot_of: Vec<Option<usize>>,
    /// The steps whose streams the host waits for at the end.
    pub(super) syncs: Vec<usize>,
}

pub(super) fn schedule(lowered: &Steps, ahead: Ahead) -> Schedule {
    let mut planner = Planner {
        lowered,
        order: Order::default(),
        streams: Vec::new(),
        one_stream: lowered
            .steps
            .iter()
            .all(|step| !matches!(step.does, Does::Copy(_)) && step.stream == lowered.steps[0].stream),
        after: vec![Vec::new(); lowered.roots.len()],
        known: Done::default(),
        then: Done::default(),
        done: Schedule {
            waits: Vec::with_capacity(lowered.steps.len()),
            listens: BTreeMap::new(),
            slots: Vec::new(),
            slot_of: vec![None; lowered.roots.len()],
            syncs: Vec::new(),
        },
    };
    let last = lowered.writers(lowered.result).iter().copied();
    let mut last = last.filter(|&k| lowered.steps[k].does != Does::Given);
    if planner.one_stream {
        (0..lowered.steps.len()).for_each(|k| planner.next(k, ahead));
        planner.done.syncs.extend(last.next_back());
    } else {
        (0..lowered.steps.len()).for_each(|k| planner.step(k, ahead));
        planner.done.syncs = planner.order.waits(&mut Done::default(), last.collect_vec());
    }
    planner.done
}

struct Planner<'a> {
    lowered: &'a Steps,
    order: Order,
    /// The streams by name, in the order in which they come up: few, mostly the one of the step before.
    streams: Vec<&'a Arc<str>>,
    /// Whether all steps compute on one stream, whose order is all that is needed: `order` says nothing then.
    one_stream: bool,
    /// For each value that took over a slot, the steps that had to do with the one before, and with which of its bytes.
    after: Vec<Vec<(usize, Span)>>,
    /// What is done when a step begins, and when it gets its slot; kept for their memory.
    known: Done,
    then: Done,
    done: Schedule,
}

impl<'a> Planner<'a> {
    /// A step of the only stream, which waits for nothing.
    fn next(&mut self, k: usize, ahead: Ahead) {
        if self.begins(k) {
            self.place(k, &Done::default(), ahead);
        }
        self.done.waits.push(Vec::new());
    }

    /// Whether a step is the first to write a value that needs a slot.
    fn begins(&self, k: usize) -> bool {
        let root = self.lowered.steps[k].writes.root;
        root != self.lowered.result && root != 0 && self.lowered.writers(root)[0] == k
    }

    fn step(&mut self, k: usize, ahead: Ahead) {
        let lowered = self.lowered;
        let step = &lowered.steps[k];
        let stream = self.stream(&step.stream.0);
        let mut known = std::mem::take(&mut self.known);
        self.order.begin(stream, &mut known);
        let mut needs = Vec::new();
        step.reads.iter().for_each(|read| self.writers(read, k, &mut needs));
        let mut waits = Vec::new();
        if let Does::Copy(t) = &step.does
            && let (Some(_), Some(&last)) = (t.listener(), needs.iter().max())
        {
            // The event was asked for, whether or not it is needed.
            waits.push(last);
            self.order.learn(&mut known, last);
            self.done.listens.insert(k, last);
        }
        let root = step.writes.root;
        if root != lowered.result && root != 0 {
            if self.begins(k) {
                let mut then = std::mem::take(&mut self.then);
                then.copy_from(&known);
                needs.iter().for_each(|&step| self.order.learn(&mut then, step));
                self.place(k, &then, ahead);
                self.then = then;
            }
            if !self.after[root].is_empty() {
                let writes = step.writes.span(step.space.dtype().bytes());
                let meets = |span: &Span| span.overlaps(&writes, DEFAULT_LIMIT) != Overlap::No;
                // A step that works in place is not after itself, and what is done by then needs no look.
                let open = |other: usize| other != k && !self.order.covers(&known, other);
                let before = self.after[root].iter().filter(|(other, span)| open(*other) && meets(span));
                needs.extend(before.map(|(other, _)| *other));
            }
        }
        waits.extend(self.order.waits(&mut known, needs));
        self.done.waits.push(waits);
        self.order.push(stream, &mut known);
        self.known = known;
    }

    /// The number of a stream, a new one where it is new.
    fn stream(&mut self, name: &'a Arc<str>) -> usize {
        let known = self.streams.iter().position(|other| Arc::ptr_eq(other, name) || *other == name);
        known.unwrap_or_else(|| {
            self.streams.push(name);
            self.streams.len() - 1
        })
    }

    /// Adds the steps before `k` that write what a view reads.
    fn writers(&self, read: &View, k: usize, found: &mut Vec<usize>) {
        let writers = self.lowered.writers(read.root);
        let before = writers.iter().copied().filter(|&w| w < k);
        if writers.len() == 1 {
            return found.extend(before);
        }
        let item = self.lowered.roots[read.root].space.dtype().bytes();
        let span = read.span(item);
        let meets = |&w: &usize| {
            let writes = self.lowered.steps[w].writes.span(item);
            span.overlaps(&writes, DEFAULT_LIMIT) != Overlap::No
        };
        found.extend(before.filter(meets));
    }

    /// The steps that write or read a value, and the bytes of it that they touch.
    fn touched(&self, root: usize) -> Vec<(usize, Span)> {
        let (writers, readers) = (self.lowered.writers(root), self.lowered.readers(root));
        let item = self.lowered.roots[root].space.dtype().bytes();
        let mut touched = Vec::with_capacity(writers.len() + readers.len());
        for &k in writers {
            touched.push((k, self.lowered.steps[k].writes.span(item)));
        }
        for &k in readers {
            let reads = self.lowered.steps[k].reads.iter().filter(|read| read.root == root);
            touched.extend(reads.map(|read| (k, read.span(item))));
        }
        touched
    }

    /// What who takes over the slot of `holder` has to be after: the steps that had to do with it, and the bytes of the holder
    /// before it that it did not write.
    fn before(&self, holder: usize) -> Vec<(usize, Span)> {
        let mut before = self.touched(holder);
        let writes = self.lowered.writers(holder).len();
        let left = |(_, span): &&(usize, Span)| {
            !before[..writes].iter().any(|(_, w)| w.is_range() && within(span, w))
        };
        let older: Vec<(usize, Span)> = self.after[holder].iter().filter(left).cloned().collect_vec();
        before.extend(older);
        before
    }

    /// Gives the value that step `k` is the first to write a slot.
    fn place(&mut self, k: usize, known: &Done, ahead: Ahead) {
        let lowered = self.lowered;
        let step = &lowered.steps[k];
        let root = step.writes.root;
        let value = &lowered.roots[root];
        let (device, bytes) = (value.space.device(), value.space.bytes());
        // Parts that are written later may be written before what was known here is known there.
        let one = lowered.writers(root).len() == 1;
        // Nobody but this step needs its value any more.
        let is_free = |holder: usize| {
            let others = || lowered.accesses(holder).filter(|&step| step != k);
            lowered.last_access(holder) <= Some(k)
                && (self.one_stream || others().all(|step| self.order.covers(known, step)))
        };
        let in_place = |holder: usize| {
            let whole = |read: &View| read.root == holder && read.is_whole(&lowered.roots[holder].space);
            works_in_place(step) && step.reads.iter().any(whole)
        };
        let may_wait = |holder: usize| {
            let late = |n: usize, last: usize| last < k && step.tile - lowered.steps[last].tile > n;
            ahead.zip(lowered.last_access(holder)).is_some_and(|(n, last)| late(n, last))
        };
        let class = |slot: &Slot| {
            let holder = slot.holder;
            let reads = step.reads.iter().any(|read| read.root == holder);
            let free = one && is_free(holder);
            if free && slot.bytes == bytes && in_place(holder) {
                Some(0)
            } else if free && !reads {
                Some(1)
            } else {
                may_wait(holder).then_some(2)
            }
        };
        let here = self.done.slots.iter().enumerate().filter(|(_, slot)| slot.device == device);
        // In place, then without a wait, then what was done with first; the tightest fit, else the least growth.
        let ranked = here.filter_map(|(at, slot)| {
            let class = class(slot)?;
            let last = if class == 2 { lowered.last_access(slot.holder) } else { None };
            Some(((class, (slot.bytes - bytes).max(0), (bytes - slot.bytes).max(0), last), at))
        });
        let at = match ranked.min() {
            Some((_, at)) => {
                let holder = std::mem::replace(&mut self.done.slots[at].holder, root);
                if !self.one_stream {
                    self.after[root] = self.before(holder);
                }
                at
            }
            None => {
                self.done.slots.push(Slot { device, bytes, holder: root });
                self.done.slots.len() - 1
            }
        };
        let slot = &mut self.done.slots[at];
        slot.bytes = slot.bytes.max(bytes);
        self.done.slot_of[root] = Some(at);
    }
}

/// Whether all bytes of `span` lie between the first and the last byte of `of`.
fn within(span: &Span, of: &Span) -> bool {
    match (span.bounds(), of.bounds()) {
        (Some((lo, hi)), Some((first, end))) => first <= lo && hi <= end,
        (inner, _) => inner.is_none(),
    }
}

/// Whether every element that is written depends on the same element of what is read alone.
fn works_in_place(step: &Step) -> bool {
    match &step.does {
        Does::Leaf(leaf) => multiplies(leaf),
        Does::Scale(_) | Does::Add => true,
        Does::Given | Does::Copy(_) | Does::Fill | Does::Move(_) => false,
    }
}
