//! An expression as steps: each reads parts of values that are there and writes a value, or a part of one.
//!
//! A flat list in the order in which things are done. Nothing is written twice, so the only order that matters is that
//! bytes are written before they are read. Taking a part and joining parts are no steps: who reads a part reads it where it
//! is, who makes a part writes it where it belongs. What a backend computes for a step is in [`Does`].

use crate::ordered::{CollectVec, sort_by_key};
use std::fmt;
use std::sync::Arc;

use super::PlanError;
use super::planning::Planning;
use super::view::{Reads, View};
use crate::memory::Device;
use crate::op::{
    Concat, DeviceSpec, Diagonal, Leaf, Operator, Scale, Space, Stack, ToDevice, Work, compute_stream,
    first_branch, transfer_stream,
};

/// The most steps that an expression may have to be planned.
pub(super) const MOST_STEPS: u64 = 1 << 16;

/// What one step does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Does {
    /// The caller's work that makes an input on a device; no command of the plan.
    Given,
    /// A transfer.
    Copy(ToDevice),
    /// A leaf of the expression.
    Leaf(Leaf),
    /// Every element times a factor.
    Scale(Scale),
    /// Zeros.
    Fill,
    /// The sum of the two values that are read.
    Add,
    /// The value that is read, elsewhere on its device; with the word for it.
    Move(&'static str),
}

/// The name of a stream and the device that has it.
pub(super) type Stream = (Arc<str>, Device);

/// One step with everything that its command names.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) does: Does,
    /// What is read.
    pub(super) reads: Reads,
    /// What is written.
    pub(super) writes: View,
    /// The space of what is written.
    pub(super) space: Space,
    /// Name of the stream and the device that has it.
    pub(super) stream: Stream,
    /// Position among the steps that do something.
    pub(super) edge: usize,
    /// How many tiles with transfers of their own have begun.
    pub(super) tile: usize,
}

/// What its command is called.
impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Does::Given => f.write_str("input"),
            Does::Copy(t) => t.fmt(f),
            Does::Leaf(leaf) => leaf.fmt(f),
            Does::Scale(scale) => scale.number().fmt(f),
            Does::Fill => f.write_str("0"),
            Does::Add => f.write_str("+"),
            Does::Move(word) => f.write_str(word),
        }
    }
}

/// A value: the input, or what steps write.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) space: Space,
    /// The end of the transfer that brought it where it is.
    arrived: Option<DeviceSpec>,
}

/// Some steps for each value, in their order.
#[derive(Debug, Default)]
struct Lists {
    ends: Vec<usize>,
    steps: Vec<usize>,
}

impl Lists {
    /// The lists of `n` values from pairs of a value and a step.
    fn new(n: usize, pairs: impl Iterator<Item = (usize, usize)> + Clone) -> Lists {
        let mut ends = vec![0; n + 1];
        pairs.clone().for_each(|(value, _)| ends[value + 1] += 1);
        (0..n).for_each(|value| ends[value + 1] += ends[value]);
        let mut steps = vec![0; ends[n]];
        // While a list is filled, its beginning stands for its end.
        for (value, step) in pairs {
            steps[ends[value]] = step;
            ends[value] += 1;
        }
        Lists { ends, steps }
    }

    fn of(&self, value: usize) -> &[usize] {
        let first = value.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.steps[first..self.ends[value]]
    }
}

/// The steps of an expression, the values between them, and the value that is the result.
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    /// The input stands first.
    pub(super) roots: Vec<Root>,
    pub(super) result: usize,
    /// A device that has streams: functions that a stream calls on the host need one too.
    any: Device,
    tile: usize,
    /// The compute streams that no transfer named.
    streams: Vec<(Device, Arc<str>)>,
    /// All of a value of the space that came up last: mostly the next one is of the same.
    whole: (Space, View),
    writers: Lists,
    readers: Lists,
}

impl Steps {
    /// Unless nothing may be ahead, the inputs of a tile are sent before the work on the tile before begins.
    pub(super) fn of(operator: &Operator, planning: &Planning) -> Result<Steps, PlanError> {
        let steps = count(operator);
        if steps > MOST_STEPS {
            return Err(PlanError::TooManySteps { steps, limit: MOST_STEPS });
        }
        let mut transfers = Vec::new();
        collect(operator, &mut transfers);
        // A transfer names the compute stream at its end, and at its beginning if nothing came before.
        let first = transfers.first().map(|t| t.ispec().clone());
        let any = a_device(operator, true).or_else(|| a_device(operator, false)).unwrap_or(Device::Cuda(0));
        let domain = operator.domain();
        let room = usize::try_from(steps).unwrap_or(0) + 2;
        let mut roots = Vec::with_capacity(room);
        roots.push(Root { space: domain.clone(), arrived: first });
        let x = View::whole(0, domain);
        let mut steps = Steps {
            steps: Vec::with_capacity(room),
            roots,
            result: 0,
            any,
            tile: 0,
            streams: planning.streams().iter().map(|(d, name)| (*d, name.as_str().into())).collect_vec(),
            whole: (domain.clone(), x.clone()),
            writers: Lists::default(),
            readers: Lists::default(),
        };
        if !domain.device().is_host() {
            let stream = steps.computes(domain.device(), Some(&x));
            steps.push(Does::Given, Reads::default(), x.clone(), domain, stream);
        }
        let mut result = steps.lower(operator, &x, None);
        if !result.is_whole(operator.codomain()) {
            let space = operator.codomain();
            result = steps.add(Does::Move("gather"), Reads::one(result), space, None, None);
        }
        steps.result = result.root;
        steps.keep_what_matters();
        if planning.ahead_of() != Some(0) && steps.tile > 0 {
            steps.send_ahead();
        }
        let (n, each) = (steps.roots.len(), steps.steps.iter().enumerate());
        steps.writers = Lists::new(n, each.clone().map(|(k, step)| (step.writes.root, k)));
        steps.readers =
            Lists::new(n, each.flat_map(|(k, step)| step.reads.roots().map(move |root| (root, k))));
        Ok(steps)
    }

    /// The steps that write a value; several write parts of a join.
    pub(super) fn writers(&self, root: usize) -> &[usize] {
        self.writers.of(root)
    }

    /// The steps that read a value.
    pub(super) fn readers(&self, root: usize) -> &[usize] {
        self.readers.of(root)
    }

    /// The steps that have to do with a value.
    pub(super) fn accesses(&self, root: usize) -> impl Iterator<Item = usize> {
        self.writers(root).iter().chain(self.readers(root)).copied()
    }

    /// The last step that has to do with a value.
    pub(super) fn last_access(&self, root: usize) -> Option<usize> {
        self.writers(root).last().max(self.readers(root).last()).copied()
    }

    /// Sends what tiles need of the input one tile ahead: the host is not at work on one tile while the next could be sent.
    fn send_ahead(&mut self) {
        let sends = |step: &Step| {
            matches!(step.does, Does::Copy(_))
                && step.tile > 0
                && step.reads.iter().all(|read| read.root == 0)
        };
        // A stable order: tile by tile, each behind the copies of the next.
        let mut steps = std::mem::take(&mut self.steps);
        sort_by_key(&mut steps, |step| if sends(step) { (step.tile - 1, 0) } else { (step.tile, 1) });
        self.steps = steps;
    }

    /// Drops steps whose results reach nobody.
    fn keep_what_matters(&mut self) {
        let mut matters = vec![false; self.roots.len()];
        matters[self.result] = true;
        let mut keep = vec![false; self.steps.len()];
        for (k, step) in self.steps.iter().enumerate().rev() {
            keep[k] = matters[step.writes.root];
            if keep[k] {
                step.reads.iter().for_each(|read| matters[read.root] = true);
            }
        }
        let mut keep = keep.into_iter();
        self.steps.retain(|_| keep.next() == Some(true));
    }

    /// Adds the steps of an operator that reads `x`, and gives what it writes: `into`, where that is given.
    fn lower(&mut self, a: &Operator, x: &View, into: Option<View>) -> View {
        let y = a.codomain();
        match a {
            Operator::Identity(_) => self.moved(x, y, into),
            Operator::ToDevice(t) => {
                let (name, device) = transfer_stream(t.ispec().device, t.ospec().device);
                let stream = (t.ispec().transfer_stream.clone().unwrap_or(name).into(), device);
                let does = Does::Copy(t.clone());
                let view = self.add(does, Reads::one(x.clone()), y, into, Some(stream));
                self.roots[view.root].arrived = Some(t.ospec().clone());
                view
            }
            Operator::Leaf(leaf) => self.add(Does::Leaf(leaf.clone()), Reads::one(x.clone()), y, into, None),
            Operator::Scale(scale) => {
                self.add(Does::Scale(scale.clone()), Reads::one(x.clone()), y, into, None)
            }
            Operator::Zero(_) => {
                let view = self.add(Does::Fill, Reads::default(), y, into, None);
                let arrived = self.roots[x.root].arrived.clone();
                self.roots[view.root].arrived = arrived;
                view
            }
            Operator::Chain(chain) => self.in_a_row(chain.parts().iter(), x, into),
            Operator::Power(power) if power.exponent() == 0 => self.moved(x, y, into),
            Operator::Power(power) => {
                self.in_a_row(std::iter::repeat_n(power.base(), power.exponent() as usize), x, into)
            }
            Operator::Sum(sum) => {
                let parts = sum.parts();
                let tiles = are_tiles(parts);
                self.total((0, parts.len()), sum.tree(), y, into, &mut |steps, k, into| {
                    steps.tile += usize::from(tiles);
                    steps.lower(&parts[k], x, into)
                })
            }
            Operator::Concat(concat) => self.concat(concat, x, into),
            Operator::Stack(stack) => self.stack(stack, x, into),
            Operator::BlockDiag(blocks) => {
                let into = into.unwrap_or_else(|| self.value(y, x));
                let tiles = are_tiles(blocks.parts());
                let (mut reads, mut writes) = (0, 0);
                for part in blocks.parts() {
                    self.tile += usize::from(tiles);
                    let own = x.member(reads, part.domain());
                    self.lower(part, &own, Some(into.member(writes, part.codomain())));
                    reads += part.domain().elements();
                    writes += part.codomain().elements();
                }
                into
            }
        }
    }

    fn in_a_row<'a>(
        &mut self,
        parts: impl ExactSizeIterator<Item = &'a Operator>,
        x: &View,
        into: Option<View>,
    ) -> View {
        let last = parts.len() - 1;
        parts.enumerate().fold(x.clone(), |x, (k, part)| {
            let into = if k == last { into.clone() } else { None };
            self.lower(part, &x, into)
        })
    }

    /// What is there already, moved only if it belongs elsewhere.
    fn moved(&mut self, x: &View, space: &Space, into: Option<View>) -> View {
        match into {
            None => x.clone(),
            into => self.add(Does::Move("move"), Reads::one(x.clone()), space, into, None),
        }
    }

    /// The sum of terms, each added when it is there: one after the other, or in the tree that fixes the order.
    fn total(
        &mut self,
        (first, end): (usize, usize),
        tree: bool,
        space: &Space,
        into: Option<View>,
        term: &mut dyn FnMut(&mut Steps, usize, Option<View>) -> View,
    ) -> View {
        if end - first == 1 {
            return term(self, first, into);
        }
        let at = if tree { first + first_branch(end - first) } else { end - 1 };
        let left = self.total((first, at), tree, space, None, term);
        let right = self.total((at, end), tree, space, None, term);
        self.add(Does::Add, Reads::two(left, right), space, into, None)
    }

    fn concat(&mut self, concat: &Concat, x: &View, into: Option<View>) -> View {
        let parts = concat.parts();
        let axis = |space: &Space, dim: Option<&_>| dim.and_then(|dim| space.axis(dim));
        let (iaxis, oaxis) = (axis(concat.domain(), concat.idim()), axis(concat.codomain(), concat.odim()));
        let (reads, writes) = (concat.ranges(false), concat.ranges(true));
        let own = |k: usize| match (iaxis, &reads) {
            (Some(axis), Some(ranges)) => x.range(axis, ranges[k]),
            _ => x.clone(),
        };
        let tiles = are_tiles(parts);
        let (Some(axis), Some(ranges)) = (oaxis, writes) else {
            return self.total((0, parts.len()), false, concat.codomain(), into, &mut |steps, k, into| {
                steps.tile += usize::from(tiles);
                steps.lower(&parts[k], &own(k), into)
            });
        };
        let into = into.unwrap_or_else(|| self.value(concat.codomain(), x));
        for (k, part) in parts.iter().enumerate() {
            self.tile += usize::from(tiles);
            self.lower(part, &own(k), Some(into.range(axis, ranges[k])));
        }
        into
    }

    fn stack(&mut self, stack: &Stack, x: &View, into: Option<View>) -> View {
        let parts = stack.parts();
        let slot = |output: bool| stack.slot(output).map(|(_, axis)| axis);
        let place = |k: usize| i64::try_from(k).unwrap_or(i64::MAX);
        let own = |k: usize| slot(false).map_or_else(|| x.clone(), |axis| x.index(axis, place(k)));
        let tiles = are_tiles(parts);
        let Some(axis) = slot(true) else {
            return self.total((0, parts.len()), false, stack.codomain(), into, &mut |steps, k, into| {
                steps.tile += usize::from(tiles);
                steps.lower(&parts[k], &own(k), into)
            });
        };
        let into = into.unwrap_or_else(|| self.value(stack.codomain(), x));
        for (k, part) in parts.iter().enumerate() {
            self.tile += usize::from(tiles);
            self.lower(part, &own(k), Some(into.index(axis, place(k))));
        }
        into
    }

    /// A new value that steps will write in parts.
    fn value(&mut self, space: &Space, x: &View) -> View {
        let arrived = self.roots[x.root].arrived.clone();
        self.roots.push(Root { space: space.clone(), arrived });
        if self.whole.0 != *space {
            self.whole = (space.clone(), View::whole(0, space));
        }
        self.whole.1.of_root(self.roots.len() - 1)
    }

    /// Adds one step; work that names no stream runs on the compute stream of its device.
    fn add(
        &mut self,
        does: Does,
        reads: Reads,
        space: &Space,
        into: Option<View>,
        stream: Option<Stream>,
    ) -> View {
        let stream = stream.unwrap_or_else(|| self.computes(space.device(), reads.first()));
        let into = into.unwrap_or_else(|| match reads.first() {
            Some(x) => self.value(space, x),
            None => {
                self.roots.push(Root { space: space.clone(), arrived: None });
                View::whole(self.roots.len() - 1, space)
            }
        });
        self.push(does, reads, into.clone(), space, stream);
        into
    }

    fn push(&mut self, does: Does, reads: Reads, writes: View, space: &Space, stream: Stream) {
        let given = self.steps.first().is_some_and(|step| step.does == Does::Given);
        let edge = self.steps.len() - usize::from(given);
        let space = space.clone();
        self.steps.push(Step { does, reads, writes, space, stream, edge, tile: self.tile });
    }

    /// The stream of work on a device: the one that the transfer named that brought what is read, else the device's.
    fn computes(&mut self, device: Device, reads: Option<&View>) -> Stream {
        let arrived = reads.and_then(|x| self.roots[x.root].arrived.as_ref());
        let named =
            arrived.filter(|spec| spec.device == device).and_then(|spec| spec.compute_stream.as_deref());
        let name = named.map(Arc::from).unwrap_or_else(|| self.usual(device));
        (name, if device.is_host() { self.any } else { device })
    }

    /// The compute stream of a device that no transfer named; there are few devices.
    fn usual(&mut self, device: Device) -> Arc<str> {
        if let Some((_, name)) = self.streams.iter().find(|known| known.0 == device) {
            return Arc::clone(name);
        }
        let name: Arc<str> = compute_stream(device).into();
        self.streams.push((device, Arc::clone(&name)));
        name
    }
}

/// Whether a leaf multiplies element by element.
pub(super) fn multiplies(leaf: &Leaf) -> bool {
    matches!(leaf.op.facts().work, Work::Multiply(_)) || leaf.downcast::<Diagonal>().is_some()
}

/// How many steps an expression has at most, one for each leaf and for each sum of two.
pub(super) fn count(a: &Operator) -> u64 {
    let parts = a.children().iter().map(count).fold(0, u64::saturating_add);
    match a {
        Operator::Power(power) => parts.saturating_mul(power.exponent().into()),
        Operator::Chain(_) => parts,
        a => parts.saturating_add(a.children().len().max(1) as u64),
    }
}

/// Whether parts side by side are tiles: some have transfers, and none is itself made of such.
fn are_tiles(parts: &[Operator]) -> bool {
    fn sends(a: &Operator) -> bool {
        matches!(a, Operator::ToDevice(_)) || a.children().iter().any(sends)
    }
    fn divided(a: &Operator) -> bool {
        let joins =
            matches!(a, Operator::Sum(_) | Operator::Concat(_) | Operator::Stack(_) | Operator::BlockDiag(_));
        joins && a.children().iter().any(sends) || a.children().iter().any(divided)
    }
    parts.iter().any(sends) && !parts.iter().any(divided)
}

fn collect<'a>(a: &'a Operator, found: &mut Vec<&'a ToDevice>) {
    match a {
        Operator::ToDevice(t) => found.push(t),
        _ => a.children().iter().for_each(|part| collect(part, found)),
    }
}

/// The first device that is not the host, in the order of the steps: where results lie, or where inputs lie.
fn a_device(a: &Operator, codomain: bool) -> Option<Device> {
    match a.children() {
        [] => {
            let space = if codomain { a.codomain() } else { a.domain() };
            Some(space.device()).filter(|device| !device.is_host())
        }
        parts => parts.iter().find_map(|part| a_device(part, codomain)),
    }
}
