//! The normal operator `A^H A`, with what stands in the middle kept there.

use num_complex::Complex64;

use super::OpError;
use super::leaf::{Leaf, LeafFacts, LeafOp, Side, Tags};
use super::operator::{Operator, Scale, Zero};

impl Operator {
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

    /// The normal operator; see [`Operator::normal`].
    #[must_use]
    pub fn gram(&self) -> Operator {
        self.normal()
    }

    /// `A A^H`, the normal of the adjoint.
    #[must_use]
    pub fn cogram(&self) -> Operator {
        self.adjoint().normal()
    }

    /// `A^H inner A`
    pub(super) fn normal_around(&self, inner: Operator) -> Operator {
        let alone = matches!(inner, Operator::Identity(_));
        let around = |inner| Operator::join(vec![self.clone(), inner, self.adjoint()]);
        match self {
            Operator::Identity(_) => inner,
            Operator::Zero(zero) => {
                Operator::Zero(Zero { domain: zero.domain.clone(), codomain: zero.domain.clone() })
            }
            Operator::Scale(Scale { factor, space, .. }) => {
                let squared = space.round(Complex64::from(factor.norm_sqr()));
                // A square that leaves the type's range is no factor.
                if alone && squared.re.is_finite() {
                    Operator::Scale(Scale::of(squared, space.clone()))
                } else {
                    around(inner)
                }
            }
            Operator::ToDevice(t) if alone => Operator::Identity(t.domain().clone()),
            Operator::Leaf(leaf) if alone => leaf_normal(leaf).unwrap_or_else(|| around(inner)),
            Operator::Leaf(_) | Operator::ToDevice(_) => around(inner),
            Operator::Chain(chain) => {
                let parts = chain.parts();
                let (mut inner, mut left) = (inner, parts.len());
                // Around anything but the identity every part stands on both sides, so the rest is one join.
                while let Some(last) = left.checked_sub(1)
                    && (matches!(inner, Operator::Identity(_)) || has_zero(&parts[..left]))
                {
                    (inner, left) = (parts[last].normal_around(inner), last);
                }
                let before = parts[..left].iter().cloned();
                let after = parts[..left].iter().rev().map(Operator::adjoint);
                Operator::join(before.chain([inner]).chain(after).collect())
            }
            // Without its cross terms the normal of a sum would be wrong, and with them it costs a square.
            Operator::Sum(_) => around(inner),
            Operator::Concat(concat) if alone => concat.normal().unwrap_or_else(|| around(inner)),
            Operator::Stack(stack) if alone => stack.normal().unwrap_or_else(|| around(inner)),
            Operator::BlockDiag(blocks) if alone => blocks.map(Operator::normal),
            Operator::Concat(_) | Operator::Stack(_) | Operator::BlockDiag(_) | Operator::Power(_) => {
                around(inner)
            }
        }
    }
}

fn has_zero(parts: &[Operator]) -> bool {
    parts.iter().any(|part| matches!(part, Operator::Zero(_)))
}

/// The fast normal of a leaf on its side; `conj(A)^H conj(A) = conj(A^H A)`.
pub(super) fn leaf_normal(leaf: &Leaf) -> Option<Operator> {
    if leaf.tags().isometry {
        return Some(Operator::Identity(leaf.domain().clone()));
    }
    let normal = leaf.op.normal(leaf.side)?.on(leaf.domain().device()).turned(false, leaf.conj);
    let held = leaf.held("normal", normal, [leaf.domain(); 2]);
    Some(held.unwrap_or_else(|error| Operator::leaf(Unfit::new(leaf, error))))
}

/// Stands for the normal of a leaf that offered one on other spaces: who applies or plans it is told.
#[derive(Debug)]
pub(super) struct Unfit {
    facts: LeafFacts,
    leaf: Leaf,
    pub(super) error: OpError,
}

impl Unfit {
    fn new(leaf: &Leaf, error: OpError) -> Unfit {
        let space = leaf.domain();
        let tags = Tags { hermitian: true, psd: true, ..Tags::NONE };
        let linearity = leaf.op.facts().linearity;
        let facts = LeafFacts::new(format!("|{leaf}|^2"), space.clone(), space.clone());
        Unfit { facts: LeafFacts { tags, linearity, ..facts }, leaf: leaf.clone(), error }
    }
}

impl LeafOp for Unfit {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    /// The two one after the other.
    fn apply(&self, _: Side, x: &[Complex64], y: &mut [Complex64]) {
        y.copy_from_slice(&self.leaf.turned(true, false).apply(&self.leaf.apply(x)));
    }
}
