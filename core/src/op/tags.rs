//! What is known of an expression from what its parts promise.

use num_complex::Complex64;

use super::Tags;
use super::operator::Operator;

impl Operator {
    /// What the expression is known to be, from the promises of its parts: what is not said may hold all the same.
    ///
    /// A unitary operator is an isometry and a coisometry.
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
        let square = self.domain() == self.codomain();
        match self {
            Operator::Leaf(leaf) => leaf.tags(),
            Operator::Identity(_) => EVERYTHING,
            Operator::Zero(_) => {
                Tags { hermitian: square, real: true, idempotent: square, psd: square, ..Tags::NONE }
            }
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
                }
            }
            Operator::ToDevice(_) => Tags::REORDERING,
            Operator::Chain(chain) => {
                let (all, parts) = (shared(chain.parts()), chain.parts());
                let hermitian = square && *self == self.adjoint();
                // B^H M B, or B^H B where nothing stands in the middle.
                let middle = &parts[parts.len() / 2];
                let psd = hermitian && (parts.len() % 2 == 0 || middle.tags().psd);
                Tags { hermitian, psd, idempotent: false, involution: false, ..all }
            }
            Operator::Sum(sum) => {
                let Tags { hermitian, real, psd, .. } = shared(sum.parts());
                Tags { hermitian, real, psd, ..Tags::NONE }
            }
            // The same blocks at the same places of both sides are all of the operator.
            Operator::Concat(c) if c.odim().is_some() && c.odim() == c.idim() => shared(c.parts()),
            Operator::Stack(s) if s.slot(true).is_some() && s.slot(true) == s.slot(false) => {
                shared(s.parts())
            }
            Operator::BlockDiag(blocks) => shared(blocks.parts()),
            Operator::Concat(_) | Operator::Stack(_) => {
                Tags { real: shared(self.children()).real, ..Tags::NONE }
            }
            Operator::Power(power) => power.base().tags(),
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
};

/// What all parts promise.
fn shared(parts: &[Operator]) -> Tags {
    parts.iter().map(Operator::tags).fold(EVERYTHING, |a, b| Tags {
        hermitian: a.hermitian && b.hermitian,
        real: a.real && b.real,
        isometry: a.isometry && b.isometry,
        coisometry: a.coisometry && b.coisometry,
        idempotent: a.idempotent && b.idempotent,
        involution: a.involution && b.involution,
        psd: a.psd && b.psd,
    })
}
