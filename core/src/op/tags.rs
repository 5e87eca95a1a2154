//! What is known of an expression from what its parts promise.

use num_complex::Complex64;

use super::leaves::{Cuts, Gather};
use super::operator::Operator;
use super::{Along, Leaf, Name, Tags};
use crate::ordered::CollectVec;

impl Operator {
    /// What the expression is known to be, from the promises of its parts: what is not said may hold all the same.
    ///
    /// A unitary operator is an isometry and a coisometry ([`Tags::unitary`]).
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Diagonal, Space, fft};
    /// let line = Space::new([("x", 4)], Dtype::C64)?;
    /// let a = chain![Diagonal::new(line, [1.0, 2.0, 3.0, 4.0])?, fft(["x"])]?;
    /// let normal = chain![&a, a.h()]?.tags();
    /// assert!(normal.hermitian && normal.psd && !a.tags().hermitian);
    /// assert!(fft(["x"]).over(a.domain())?.tags().isometry);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    ///
    /// # Cost
    /// One look at every part, and at the adjoint of a chain.
    pub fn tags(&self) -> Tags {
        Tags { separable: self.is_separable(), ..self.promised() }
    }

    /// Whether no dimension of either side is in the way of a cut; members of tuples are cut one by one.
    fn is_separable(&self) -> bool {
        if let Operator::BlockDiag(blocks) = self {
            return blocks.parts().iter().all(Operator::is_separable);
        }
        let sides = [self.domain(), self.codomain()];
        let whole = sides.iter().all(|space| space.members().is_none());
        whole && sides.iter().flat_map(|space| space.names()).all(|dim| self.cut_anywhere(dim))
    }

    /// Whether a cut of a dimension may be anywhere: that of joins and of merged dimensions may be at some edges alone.
    fn cut_anywhere(&self, dim: &Name) -> bool {
        let by_groups = |leaf: &Leaf| {
            leaf.downcast::<Gather>().is_some_and(|g| matches!(g.cuts, Cuts::By(_, unit) if unit > 1))
        };
        match self {
            Operator::Leaf(leaf) if by_groups(leaf) && leaf.along(dim) != Along::Pointwise => false,
            _ => {
                let there = |part: &&Operator| part.along(dim) != Along::Absent;
                self.along(dim) != Along::Mixed
                    && self.children().iter().filter(there).all(|part| part.cut_anywhere(dim))
            }
        }
    }

    /// What follows from what the parts promise.
    fn promised(&self) -> Tags {
        let square = self.domain() == self.codomain();
        match self {
            Operator::Leaf(leaf) => leaf.tags(),
            Operator::Identity(_) => EVERYTHING,
            Operator::Zero(_) => Tags {
                hermitian: square,
                real: true,
                idempotent: square,
                psd: square,
                diagonal: square,
                in_place: square,
                ..Tags::NONE
            },
            Operator::Scale(scale) => {
                let a = scale.factor;
                let real = a.im == 0.0;
                let unitary = a.re * a.im == 0.0 && a.re.abs() + a.im.abs() == 1.0;
                Tags {
                    hermitian: real,
                    real,
                    isometry: unitary,
                    coisometry: unitary,
                    idempotent: a == Complex64::ZERO || a == Complex64::ONE,
                    involution: real && unitary,
                    psd: real && a.re >= 0.0,
                    diagonal: true,
                    in_place: true,
                    ..Tags::NONE
                }
            }
            Operator::ToDevice(_) => Tags::REORDERING,
            Operator::Chain(chain) => {
                // Each part is asked once: what is asked twice at every level takes twice as long for each.
                let parts = chain.parts().iter().map(Operator::promised).collect_vec();
                let hermitian = square && *self == self.adjoint();
                // B^H M B, or B^H B where nothing stands in the middle.
                let psd = hermitian && (parts.len() % 2 == 0 || parts[parts.len() / 2].psd);
                let all = together(parts);
                Tags { hermitian, psd, idempotent: false, involution: false, ..all }
            }
            Operator::Sum(sum) => {
                let Tags { hermitian, real, psd, diagonal, .. } = shared(sum.parts());
                Tags { hermitian, real, psd, diagonal, in_place: diagonal, ..Tags::NONE }
            }
            // The same blocks at the same places of both sides are all of the operator.
            Operator::Concat(c) if c.odim().is_some() && c.odim() == c.idim() => side_by_side(c.parts()),
            Operator::Stack(s) if s.slot(true).is_some() && s.slot(true) == s.slot(false) => {
                side_by_side(s.parts())
            }
            Operator::BlockDiag(blocks) => shared(blocks.parts()),
            Operator::Concat(_) | Operator::Stack(_) => {
                Tags { real: shared(self.children()).real, ..Tags::NONE }
            }
            Operator::Power(power) => power.base().promised(),
        }
    }
}

const EVERYTHING: Tags = Tags {
    hermitian: true,
    real: true,
    isometry: true,
    coisometry: true,
    idempotent: true,
    involution: true,
    psd: true,
    diagonal: true,
    separable: true,
    in_place: true,
};

/// What blocks are that share one memory, whose ranges need not lie in a row.
fn side_by_side(parts: &[Operator]) -> Tags {
    let all = shared(parts);
    Tags { in_place: all.diagonal, ..all }
}

/// What all parts promise.
fn shared(parts: &[Operator]) -> Tags {
    together(parts.iter().map(Operator::promised))
}

fn together(parts: impl IntoIterator<Item = Tags>) -> Tags {
    parts.into_iter().fold(EVERYTHING, |a, b| Tags {
        hermitian: a.hermitian && b.hermitian,
        real: a.real && b.real,
        isometry: a.isometry && b.isometry,
        coisometry: a.coisometry && b.coisometry,
        idempotent: a.idempotent && b.idempotent,
        involution: a.involution && b.involution,
        psd: a.psd && b.psd,
        diagonal: a.diagonal && b.diagonal,
        separable: false,
        in_place: a.in_place && b.in_place,
    })
}
