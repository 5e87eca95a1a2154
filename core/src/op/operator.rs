//! Expressions: a closed set of combinators over open leaves.
//!
//! **Invariant:** an [`Operator`] fits together. Chains are flat, hold at least two parts, no identity and no transfer that
//! goes where the data is or straight back; every part reads what the part before it writes.

use std::fmt;
use std::sync::Arc;

use super::leaf::{Leaf, LeafOp, Side};
use super::{Space, ToDevice};

/// A linear operator: what it reads, what it writes, and how to get from one to the other.
///
/// A value: cheap to clone, never changed. `a * b` applies `b` first; [`chain!`](crate::chain) lists operators in the
/// order in which they are applied.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Operator {
    /// An operator that is no combination of others, or its adjoint.
    Leaf(Leaf),
    /// `y = x`
    Identity(Space),
    /// `y = x` on another device.
    ToDevice(ToDevice),
    /// One after the other.
    Chain(Chain),
}

/// Operators applied one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain(Arc<[Operator]>);

impl Chain {
    /// The parts in the order in which they are applied.
    pub fn parts(&self) -> &[Operator] {
        &self.0
    }
}

impl Operator {
    /// An operator of your own.
    pub fn leaf(op: impl LeafOp + 'static) -> Operator {
        Operator::Leaf(Leaf { op: Arc::new(op), side: Side::Forward })
    }

    /// `y = x` on `space`.
    pub fn identity(space: Space) -> Operator {
        Operator::Identity(space)
    }

    /// A transfer, or the identity when it goes where the data is.
    pub(super) fn to_device(transfer: ToDevice) -> Operator {
        if transfer.ispec().device == transfer.ospec().device {
            Operator::Identity(transfer.domain().clone())
        } else {
            Operator::ToDevice(transfer)
        }
    }

    /// What it reads.
    pub fn domain(&self) -> &Space {
        match self {
            Operator::Leaf(leaf) => leaf.domain(),
            Operator::Identity(space) => space,
            Operator::ToDevice(t) => t.domain(),
            Operator::Chain(chain) => chain.0[0].domain(),
        }
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        match self {
            Operator::Leaf(leaf) => leaf.codomain(),
            Operator::Identity(space) => space,
            Operator::ToDevice(t) => t.codomain(),
            Operator::Chain(chain) => chain.0[chain.0.len() - 1].codomain(),
        }
    }

    /// The parts in the order in which they are applied: those of a chain, none of the identity, else itself.
    pub fn parts(&self) -> &[Operator] {
        match self {
            Operator::Chain(chain) => chain.parts(),
            Operator::Identity(_) => &[],
            _ => std::slice::from_ref(self),
        }
    }

    /// The adjoint `A^H`, with `<A x, y> = <x, A^H y>`.
    ///
    /// `(A B)^H = B^H A^H`; a transfer goes back with its ends swapped.
    #[must_use]
    pub fn adjoint(&self) -> Operator {
        match self {
            Operator::Leaf(leaf) => Operator::Leaf(leaf.adjoint()),
            Operator::Identity(space) => Operator::Identity(space.clone()),
            Operator::ToDevice(t) => Operator::ToDevice(t.adjoint()),
            Operator::Chain(chain) => {
                Operator::Chain(Chain(chain.0.iter().rev().map(Operator::adjoint).collect()))
            }
        }
    }

    /// The adjoint; see [`Operator::adjoint`].
    #[must_use]
    pub fn h(&self) -> Operator {
        self.adjoint()
    }

    /// The normal operator `A^H A`, folded from the inside.
    ///
    /// The normal of the last part is formed first and wrapped by the parts before it, so that a part with a fast normal
    /// in the middle of a chain is one operator, and transfers at the end of the chain vanish: data that would come back
    /// only to be sent again stays where it is.
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::{Dtype, cpu, cuda};
    /// use spanlift::op::{Diagonal, Space, to};
    ///
    /// let space = Space::new([("x", 2)], Dtype::F32)?.on(cuda(0));
    /// let a = chain![to(cuda(0)), Diagonal::new(space, [3.0, 4.0])?, to(cpu())]?;
    /// assert_eq!(a.normal().formula(), "T(cuda:0->cpu) · |D|^2 · T(cpu->cuda:0)");
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    #[must_use]
    pub fn normal(&self) -> Operator {
        self.normal_around(Operator::Identity(self.codomain().clone()))
    }

    /// The normal operator; see [`Operator::normal`].
    #[must_use]
    pub fn n(&self) -> Operator {
        self.normal()
    }

    /// `A^H inner A`
    fn normal_around(&self, inner: Operator) -> Operator {
        let alone = matches!(inner, Operator::Identity(_));
        match self {
            Operator::Identity(_) => inner,
            Operator::ToDevice(t) if alone => Operator::Identity(t.domain().clone()),
            Operator::Leaf(Leaf { op, side: Side::Forward }) if alone => {
                op.normal().unwrap_or_else(|| Operator::join(vec![self.clone(), self.adjoint()]))
            }
            Operator::Leaf(_) | Operator::ToDevice(_) => {
                Operator::join(vec![self.clone(), inner, self.adjoint()])
            }
            Operator::Chain(chain) => chain.0.iter().rev().fold(inner, |inner, a| a.normal_around(inner)),
        }
    }

    /// Operators that fit, one after the other; the trivial ones vanish.
    pub(super) fn join(operators: Vec<Operator>) -> Operator {
        let domain = operators.first().map(|a| a.domain().clone());
        let mut parts: Vec<Operator> = Vec::new();
        for part in operators.iter().flat_map(Operator::parts) {
            debug_assert!(
                parts.last().is_none_or(|before| before.codomain() == part.domain()),
                "bug: {part} does not fit"
            );
            match (parts.last(), part) {
                // There and straight back, whichever streams were meant.
                (Some(Operator::ToDevice(there)), Operator::ToDevice(back))
                    if there.domain() == back.codomain() =>
                {
                    parts.pop();
                }
                _ => parts.push(part.clone()),
            }
        }
        match (parts.len(), domain) {
            (0, Some(space)) => Operator::Identity(space),
            (0, None) => unreachable!("bug: nothing to join"),
            (1, _) => parts.remove(0),
            _ => Operator::Chain(Chain(parts.into())),
        }
    }

    /// The formula without the spaces; what is applied first stands last.
    pub fn formula(&self) -> String {
        match self {
            Operator::Leaf(leaf) => leaf.to_string(),
            Operator::Identity(_) => "I".to_owned(),
            Operator::ToDevice(t) => t.to_string(),
            Operator::Chain(chain) => {
                let parts: Vec<String> = chain.0.iter().rev().map(Operator::formula).collect();
                parts.join(" · ")
            }
        }
    }
}

/// The formula with both spaces: `D · T(cpu->cuda:0) : c32[y,x]@cpu -> c32[y,x]@cuda:0`.
impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} : {} -> {}", self.formula(), self.domain(), self.codomain())
    }
}
