//! Operators from two functions.

use std::fmt;
use std::sync::Arc;

use num_complex::Complex64;

use crate::op::{Along, LeafFacts, LeafOp, Name, OpError, Operator, Side, Space, Tile};
use crate::ordered::CollectVec;

/// What computes one side: reads the first, writes the second, which is all zeros before.
type Apply = Arc<dyn Fn(&[Complex64], &mut [Complex64]) + Send + Sync>;

/// An operator from a function and its adjoint.
///
/// Nothing is known of the two but what they are called with; [`dot_test`](crate::op::dot_test) tells whether they belong
/// together. Where dimensions are declared pointwise, a cut calls the same functions with fewer elements.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{FromFn, Operator, Space, dot_test};
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let sums = FromFn::new(
///     "cumsum",
///     line.clone(),
///     line,
///     |x, y| (0..x.len()).for_each(|i| y[i] = x[..=i].iter().sum()),
///     |y, x| (0..y.len()).for_each(|i| x[i] = y[i..].iter().sum()),
/// );
/// assert!(dot_test(&Operator::from(sums), 1).passed());
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Clone)]
pub struct FromFn {
    facts: LeafFacts,
    forward: Apply,
    adjoint: Apply,
    pointwise: Vec<Name>,
}

impl fmt::Debug for FromFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").field("facts", &self.facts).field("pointwise", &self.pointwise).finish()
    }
}

impl FromFn {
    /// The operator that `forward` computes and `adjoint` is the adjoint of.
    pub fn new(
        name: &str,
        domain: Space,
        codomain: Space,
        forward: impl Fn(&[Complex64], &mut [Complex64]) + Send + Sync + 'static,
        adjoint: impl Fn(&[Complex64], &mut [Complex64]) + Send + Sync + 'static,
    ) -> FromFn {
        FromFn {
            facts: LeafFacts::new(name, domain, codomain),
            forward: Arc::new(forward),
            adjoint: Arc::new(adjoint),
            pointwise: Vec::new(),
        }
    }

    /// Declares dimensions along which each index of the output depends on the same index of the input alone, and both
    /// functions take any number of indices.
    ///
    /// # Errors
    /// [`OpError::UnknownDim`] for a name that is not on both sides.
    pub fn pointwise<'a>(mut self, dims: impl IntoIterator<Item = &'a str>) -> Result<FromFn, OpError> {
        let names = dims.into_iter().map(str::parse).try_collect_vec()?;
        for dim in &names {
            let LeafFacts { domain, codomain, name, .. } = &self.facts;
            if Along::by_place(domain, codomain, dim) != Along::Pointwise {
                let known = domain.names().filter(|n| codomain.axis(n).is_some()).cloned().collect_vec();
                return Err(OpError::UnknownDim { operator: name.clone(), dim: dim.clone(), known });
            }
        }
        self.pointwise = names;
        Ok(self)
    }
}

impl LeafOp for FromFn {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        match side {
            Side::Forward => (self.forward)(x, y),
            Side::Adjoint => (self.adjoint)(x, y),
        }
    }

    fn along(&self, dim: &Name) -> Along {
        match Along::by_place(&self.facts.domain, &self.facts.codomain, dim) {
            Along::Absent => Along::Absent,
            place if self.pointwise.contains(dim) => place,
            _ => Along::Mixed,
        }
    }

    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let mut cut = self.clone();
        cut.facts.domain = tile.space(&self.facts.domain);
        cut.facts.codomain = tile.space(&self.facts.codomain);
        Some(Operator::leaf(cut))
    }
}

impl From<FromFn> for Operator {
    fn from(op: FromFn) -> Operator {
        Operator::leaf(op)
    }
}
