//! An expression as steps: each reads values that are there and writes one that is not.
//!
//! A flat list in the order in which things are done. Nothing is overwritten, so the only order that matters is that a
//! value is written before it is read. What a backend computes for a step is in [`Does`].

use num_complex::Complex64;

use crate::memory::Device;
use crate::op::{
    Concat, DeviceSpec, Leaf, Operator, Scale, Space, Stack, ToDevice, compute_stream, transfer_stream,
};

/// What one step does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Does {
    /// A transfer.
    Copy(ToDevice),
    /// A leaf of the expression.
    Leaf(Leaf),
    /// Every element times a factor.
    Scale(Complex64),
    /// Zeros.
    Fill,
    /// The sum of the two values that are read.
    Add,
    /// A part of the value that is read.
    Take,
    /// The values that are read, side by side.
    Join,
}

/// One step with everything that its command names.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) does: Does,
    pub(super) label: String,
    /// Values that are read: 0 is the input, `k + 1` what step `k` writes.
    pub(super) reads: Vec<usize>,
    /// The space of what is written.
    pub(super) space: Space,
    /// Name of the stream and the device that has it.
    pub(super) stream: (String, Device),
}

/// The steps of an expression, and the value that is its result.
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    pub(super) result: usize,
    /// The end of the transfer that brought each value where it is.
    arrived: Vec<Option<DeviceSpec>>,
    /// A device that has streams: functions that a stream calls on the host need one too.
    any: Device,
}

impl Steps {
    pub(super) fn of(operator: &Operator) -> Steps {
        let mut transfers = Vec::new();
        collect(operator, &mut transfers);
        // A transfer names the compute stream at its end, and at its beginning if nothing came before.
        let first = transfers.first().map(|t| t.ispec().clone());
        let mut devices = Vec::new();
        places(operator, &mut devices);
        let any = devices.into_iter().find(|d| !d.is_host()).unwrap_or(Device::Cuda(0));
        let mut steps = Steps { steps: Vec::new(), result: 0, arrived: vec![first], any };
        steps.result = steps.lower(operator, 0);
        steps
    }

    /// Adds the steps of an operator that reads a value, and gives the value that it writes.
    fn lower(&mut self, a: &Operator, x: usize) -> usize {
        match a {
            Operator::Identity(_) => x,
            Operator::ToDevice(t) => {
                let (name, device) = transfer_stream(t.ispec().device, t.ospec().device);
                let stream = (t.ispec().transfer_stream.clone().unwrap_or(name), device);
                let y = self.add(Does::Copy(t.clone()), a.formula(), vec![x], t.codomain(), Some(stream));
                self.arrived[y] = Some(t.ospec().clone());
                y
            }
            Operator::Leaf(leaf) => {
                self.add(Does::Leaf(leaf.clone()), a.formula(), vec![x], leaf.codomain(), None)
            }
            Operator::Scale(scale @ Scale { .. }) => {
                self.add(Does::Scale(scale.factor()), a.formula(), vec![x], a.codomain(), None)
            }
            Operator::Zero(_) => {
                let y = self.add(Does::Fill, a.formula(), Vec::new(), a.codomain(), None);
                self.arrived[y] = self.arrived[x].clone();
                y
            }
            Operator::Chain(chain) => chain.parts().iter().fold(x, |x, part| self.lower(part, x)),
            Operator::Power(power) => (0..power.exponent()).fold(x, |x, _| self.lower(power.base(), x)),
            Operator::Sum(sum) => {
                let terms: Vec<usize> = sum.parts().iter().map(|part| self.lower(part, x)).collect();
                self.total(&terms, a.codomain(), sum.tree())
            }
            Operator::Concat(concat) => self.concat(concat, x),
            Operator::Stack(stack) => self.stack(stack, x),
            Operator::BlockDiag(blocks) => {
                let terms = blocks.parts().iter().enumerate().map(|(k, part)| {
                    let label = format!("take member {k}");
                    let own = self.add(Does::Take, label, vec![x], part.domain(), None);
                    self.lower(part, own)
                });
                let terms = terms.collect();
                self.add(Does::Join, "join members".to_owned(), terms, a.codomain(), None)
            }
        }
    }

    /// The sum of values: one after the other, or in the tree that fixes the order.
    fn total(&mut self, terms: &[usize], space: &Space, tree: bool) -> usize {
        match terms {
            [] => unreachable!("bug: a sum of nothing"),
            [one] => *one,
            _ => {
                let at = if tree { crate::op::first_branch(terms.len()) } else { terms.len() - 1 };
                let (left, right) = terms.split_at(at);
                let reads = vec![self.total(left, space, tree), self.total(right, space, tree)];
                self.add(Does::Add, "+".to_owned(), reads, space, None)
            }
        }
    }

    fn concat(&mut self, concat: &Concat, x: usize) -> usize {
        let ranges = concat.ranges(false);
        let terms = concat.parts().iter().enumerate().map(|(k, part)| {
            let own = match (concat.idim(), &ranges) {
                (Some(dim), Some(ranges)) => {
                    let (lo, hi) = ranges[k];
                    let label = format!("take {dim}={lo}..{hi}");
                    self.add(Does::Take, label, vec![x], part.domain(), None)
                }
                _ => x,
            };
            self.lower(part, own)
        });
        let terms: Vec<usize> = terms.collect();
        match concat.odim() {
            Some(dim) => self.add(Does::Join, format!("join {dim}"), terms, concat.codomain(), None),
            None => self.total(&terms, concat.codomain(), false),
        }
    }

    fn stack(&mut self, stack: &Stack, x: usize) -> usize {
        let terms = stack.parts().iter().enumerate().map(|(k, part)| {
            let own = match stack.idim() {
                Some(dim) => self.add(Does::Take, format!("take {dim}={k}"), vec![x], part.domain(), None),
                None => x,
            };
            self.lower(part, own)
        });
        let terms: Vec<usize> = terms.collect();
        match stack.odim() {
            Some(dim) => self.add(Does::Join, format!("join {dim}"), terms, stack.codomain(), None),
            None => self.total(&terms, stack.codomain(), false),
        }
    }

    /// Adds one step; work that names no stream runs on the compute stream of its device.
    fn add(
        &mut self,
        does: Does,
        label: String,
        reads: Vec<usize>,
        space: &Space,
        stream: Option<(String, Device)>,
    ) -> usize {
        let arrived = reads.first().and_then(|&x| self.arrived[x].clone());
        let stream = stream.unwrap_or_else(|| {
            let device = space.device();
            let here = arrived.as_ref().filter(|spec| spec.device == device);
            let named = here.and_then(|spec| spec.compute_stream.clone());
            let name = named.unwrap_or_else(|| compute_stream(device));
            (name, if device.is_host() { self.any } else { device })
        });
        self.steps.push(Step { does, label, reads, space: space.clone(), stream });
        self.arrived.push(arrived);
        self.steps.len()
    }
}

fn collect<'a>(a: &'a Operator, found: &mut Vec<&'a ToDevice>) {
    match a {
        Operator::ToDevice(t) => found.push(t),
        _ => a.children().iter().for_each(|part| collect(part, found)),
    }
}

/// Every device of the expression, in the order of the steps: where results lie, then where inputs lie.
fn places(a: &Operator, found: &mut Vec<Device>) {
    fn ends(a: &Operator, codomain: bool, found: &mut Vec<Device>) {
        match a.children() {
            [] => found.push(if codomain { a.codomain().device() } else { a.domain().device() }),
            parts => parts.iter().for_each(|part| ends(part, codomain, found)),
        }
    }
    ends(a, true, found);
    ends(a, false, found);
}
