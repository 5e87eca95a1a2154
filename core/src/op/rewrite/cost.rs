//! What an expression costs: how many operators, how many bytes between devices, how many operations.

use std::fmt;

use crate::op::operator::Operator;
use crate::units::Bytes;

/// The cost of an expression; less of an earlier field counts more than anything of a later one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Operators, containers included.
    pub nodes: u64,
    /// Bytes that move between devices.
    pub bytes: u64,
    /// Multiplications and additions, roughly.
    pub flops: u64,
}

impl Cost {
    /// The cost of operators one after the other.
    pub fn of(parts: &[Operator]) -> Cost {
        parts.iter().map(cost).fold(Cost::default(), Cost::plus)
    }

    fn plus(self, other: Cost) -> Cost {
        Cost {
            nodes: self.nodes.saturating_add(other.nodes),
            bytes: self.bytes.saturating_add(other.bytes),
            flops: self.flops.saturating_add(other.flops),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes, {}, {} flops", self.nodes, Bytes(self.bytes), self.flops)
    }
}

impl Operator {
    /// What one apply costs.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, cpu, cuda};
    /// use spanlift::op::{Space, to};
    /// let up = to(cuda(0)).over(Space::new([("x", 4)], Dtype::F32)?)?;
    /// assert_eq!((up.cost().nodes, up.cost().bytes), (1, 16));
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn cost(&self) -> Cost {
        Cost::of(std::slice::from_ref(self))
    }
}

fn cost(a: &Operator) -> Cost {
    let elements = a.codomain().elements().unsigned_abs();
    let inner = || Cost::of(a.children());
    match a {
        Operator::Identity(_) => Cost::default(),
        Operator::Leaf(leaf) => Cost { nodes: 1, bytes: 0, flops: leaf.op.facts().flops },
        Operator::Zero(_) => Cost { nodes: 1, ..Cost::default() },
        Operator::Scale(_) => Cost { nodes: 1, bytes: 0, flops: elements },
        Operator::ToDevice(t) => Cost { nodes: 1, bytes: t.domain().bytes().unsigned_abs(), flops: 0 },
        Operator::Chain(_) => inner(),
        Operator::Sum(sum) => {
            // Of identities alone it is a factor, which is less to do.
            let (inner, terms) = (inner(), sum.parts().len() as u64);
            let adds = elements.saturating_mul(terms - u64::from(inner.nodes > 0));
            Cost { nodes: 1, bytes: 0, flops: adds }.plus(inner)
        }
        Operator::Concat(_) | Operator::Stack(_) | Operator::BlockDiag(_) => {
            Cost { nodes: 1, ..Cost::default() }.plus(inner())
        }
        Operator::Power(power) => {
            let (inner, k) = (inner(), u64::from(power.exponent()));
            Cost {
                nodes: inner.nodes,
                bytes: inner.bytes.saturating_mul(k),
                flops: inner.flops.saturating_mul(k),
            }
        }
    }
}
