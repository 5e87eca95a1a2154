//! Leaves: what an operator computes. Anyone adds one with the trait [`LeafOp`].

use std::fmt;
use std::sync::Arc;

use num_complex::Complex64;

use super::operator::Operator;
use super::{OpError, Space};

/// An operator that is no combination of others.
///
/// `facts` says what it is, `apply` computes it, `normal` offers a faster form of `A^H A` where there is one. Adjoints,
/// chains and transfers need nothing more.
///
/// # Examples
/// ```
/// use num_complex::Complex64;
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, LeafFacts, LeafOp, Operator, Side, Space, Work, dot_test};
///
/// /// `y_i = x_{i+1}`, and 0 at the end.
/// #[derive(Debug)]
/// struct Shift(LeafFacts);
///
/// impl LeafOp for Shift {
///     fn facts(&self) -> &LeafFacts {
///         &self.0
///     }
///     fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
///         for i in 1..x.len() {
///             match side {
///                 Side::Forward => y[i - 1] = x[i],
///                 Side::Adjoint => y[i] = x[i - 1],
///             }
///         }
///     }
/// }
///
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let facts = LeafFacts { name: "S".into(), domain: line.clone(), codomain: line.clone(), hermitian: false, work: Work::Opaque };
/// let shift = Operator::leaf(Shift(facts));
/// assert_eq!(shift.apply(&Array::new(line, [1.0, 2.0, 3.0])?)?.reals(), [2.0, 3.0, 0.0]);
/// assert!(dot_test(&shift, 1).passed());
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub trait LeafOp: fmt::Debug + Send + Sync {
    /// Name, spaces and what is known of the work.
    fn facts(&self) -> &LeafFacts;

    /// Computes `y = A x` or `y = A^H x`, on the host and in double precision; `y` is all zeros before.
    ///
    /// This is the reference: it should be obviously right rather than fast.
    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]);

    /// `A^H A` as something faster than the two one after the other.
    fn normal(&self) -> Option<Operator> {
        None
    }
}

/// What is known of a leaf.
#[derive(Debug, Clone, PartialEq)]
pub struct LeafFacts {
    /// The name in formulas and messages.
    pub name: String,
    /// What it reads.
    pub domain: Space,
    /// What it writes.
    pub codomain: Space,
    /// Whether it is its own adjoint.
    pub hermitian: bool,
    /// What a device has to do.
    pub work: Work,
}

/// What a device has to do for a leaf.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Work {
    /// Multiply element by element with weights that lie beside the data; the adjoint conjugates them.
    Multiply(Arc<[Complex64]>),
    /// Something that plans know only by what it reads and writes.
    Opaque,
}

/// An operator or its adjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The operator.
    Forward,
    /// Its adjoint.
    Adjoint,
}

/// A leaf or its adjoint, as it stands in an expression.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The operator.
    pub op: Arc<dyn LeafOp>,
    /// Whether its adjoint is meant.
    pub side: Side,
}

/// The same object on the same side.
impl PartialEq for Leaf {
    fn eq(&self, other: &Leaf) -> bool {
        Arc::ptr_eq(&self.op, &other.op) && self.side == other.side
    }
}

impl Leaf {
    /// What it reads.
    pub fn domain(&self) -> &Space {
        match self.side {
            Side::Forward => &self.op.facts().domain,
            Side::Adjoint => &self.op.facts().codomain,
        }
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        match self.side {
            Side::Forward => &self.op.facts().codomain,
            Side::Adjoint => &self.op.facts().domain,
        }
    }

    pub(super) fn adjoint(&self) -> Leaf {
        let side = match self.side {
            Side::Adjoint => Side::Forward,
            Side::Forward if self.op.facts().hermitian => Side::Forward,
            Side::Forward => Side::Adjoint,
        };
        Leaf { op: Arc::clone(&self.op), side }
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = if self.side == Side::Adjoint { "^H" } else { "" };
        write!(f, "{}{power}", self.op.facts().name)
    }
}

/// Multiplies element by element: `y_i = w_i x_i`.
///
/// The adjoint multiplies with `conj(w_i)`, the normal with `|w_i|^2`; it is its own adjoint when all weights are real.
///
/// Shapes: domain and codomain are one space, and the weights lie where the data lies.
///
/// ```
/// use num_complex::Complex64;
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Diagonal, Operator, Space};
///
/// let space = Space::new([("N", 3)], Dtype::C64)?;
/// let weights = [Complex64::new(1.0, 1.0), Complex64::new(2.0, 0.0), Complex64::new(0.0, 3.0)];
/// let d = Operator::from(Diagonal::new(space.clone(), weights)?);
/// let ones = Array::new(space, [1.0, 1.0, 1.0])?;
/// assert_eq!(d.normal().apply(&ones)?.reals(), [2.0, 4.0, 9.0]);
/// assert_eq!(d.normal().to_string(), "|D|^2 : c64[N]@cpu -> c64[N]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Diagonal {
    facts: LeafFacts,
    weights: Arc<[Complex64]>,
}

impl Diagonal {
    /// Weights for every element of `space`, in its order, rounded to its type.
    ///
    /// # Errors
    /// Another number of weights than elements, a weight that is not finite, or a complex one in a real space.
    pub fn new<W: Into<Complex64>>(
        space: Space,
        weights: impl IntoIterator<Item = W>,
    ) -> Result<Diagonal, OpError> {
        let weights: Vec<Complex64> = weights.into_iter().map(Into::into).collect();
        let operator = "D".to_owned();
        if i64::try_from(weights.len()) != Ok(space.elements()) {
            return Err(OpError::Weights { operator, weights: weights.len(), space: Box::new(space) });
        }
        check_values(&operator, &weights, &space)?;
        Ok(Diagonal::of(operator, space, weights))
    }

    fn of(name: String, space: Space, weights: Vec<Complex64>) -> Diagonal {
        let weights: Arc<[Complex64]> = weights.into_iter().map(|w| space.round(w)).collect();
        let facts = LeafFacts {
            name,
            domain: space.clone(),
            codomain: space,
            hermitian: weights.iter().all(|w| w.im == 0.0),
            work: Work::Multiply(Arc::clone(&weights)),
        };
        Diagonal { facts, weights }
    }

    /// The same with another name in formulas and messages.
    #[must_use]
    pub fn named(mut self, name: &str) -> Diagonal {
        name.clone_into(&mut self.facts.name);
        self
    }

    /// The weights in the order of the elements.
    pub fn weights(&self) -> &[Complex64] {
        &self.weights
    }
}

impl LeafOp for Diagonal {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        for ((y, w), x) in y.iter_mut().zip(&*self.weights).zip(x) {
            *y = match side {
                Side::Forward => w * x,
                Side::Adjoint => w.conj() * x,
            };
        }
    }

    fn normal(&self) -> Option<Operator> {
        let squares = self.weights.iter().map(|w| w.norm_sqr().into()).collect();
        let name = format!("|{}|^2", self.facts.name);
        Some(Diagonal::of(name, self.facts.domain.clone(), squares).into())
    }
}

impl From<Diagonal> for Operator {
    fn from(diagonal: Diagonal) -> Operator {
        Operator::leaf(diagonal)
    }
}

/// Refuses values that `space` cannot hold.
pub(super) fn check_values(of: &str, values: &[Complex64], space: &Space) -> Result<(), OpError> {
    for (index, v) in values.iter().enumerate() {
        if !v.re.is_finite() || !v.im.is_finite() {
            return Err(OpError::NotFinite { of: of.to_owned(), index });
        }
        if v.im != 0.0 && !space.is_complex() {
            return Err(OpError::MixedFields { of: of.to_owned(), index, space: Box::new(space.clone()) });
        }
    }
    Ok(())
}
