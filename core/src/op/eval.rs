//! The reference evaluator: naive and obviously right, the oracle of every backend.

use num_complex::Complex64;

use super::leaf::check_values;
use super::operator::Operator;
use super::{OpError, Space};

/// Values in a space, as the reference evaluator sees them.
///
/// Values are held in double precision and rounded to the space's type wherever an operator writes them. The device is
/// a label: the values lie in host memory, but only an operator on that device takes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    space: Space,
    values: Vec<Complex64>,
}

impl Array {
    /// Values for every element of `space` in row-major order.
    ///
    /// # Errors
    /// Another number of values than elements, a value that is not finite, or a complex one in a real space.
    pub fn new<V: Into<Complex64>>(
        space: Space,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Array, OpError> {
        let values: Vec<Complex64> = values.into_iter().map(|v| space.round(v.into())).collect();
        Array::of(space, values)
    }

    fn of(space: Space, values: Vec<Complex64>) -> Result<Array, OpError> {
        if i64::try_from(values.len()) != Ok(space.elements()) {
            return Err(OpError::Values { values: values.len(), space: Box::new(space) });
        }
        check_values("values", &values, &space)?;
        Ok(Array { space, values })
    }

    /// Where the values belong.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[Complex64] {
        &self.values
    }

    /// The real parts in row-major order.
    pub fn reals(&self) -> Vec<f64> {
        self.values.iter().map(|v| v.re).collect()
    }
}

impl Operator {
    /// `A x`, computed one part after the other on the host.
    ///
    /// Each part is computed in double precision and its result rounded to the type of its codomain.
    ///
    /// # Errors
    /// [`OpError::Input`] for values of another space, device included: nothing is moved silently.
    ///
    /// # Panics
    /// When a leaf of the user's panics.
    pub fn apply(&self, x: &Array) -> Result<Array, OpError> {
        if *self.domain() != x.space {
            return Err(OpError::Input {
                operator: self.formula(),
                expects: Box::new(self.domain().clone()),
                gives: Box::new(x.space.clone()),
            });
        }
        let mut values = x.values.clone();
        for part in self.parts() {
            // A transfer changes the place alone.
            if let Operator::Leaf(leaf) = part {
                let space = leaf.codomain();
                let n = usize::try_from(space.elements()).unwrap_or(usize::MAX);
                let mut written = vec![Complex64::ZERO; n];
                leaf.op.apply(leaf.side, &values, &mut written);
                values = written.into_iter().map(|v| space.round(v)).collect();
            }
        }
        Ok(Array { space: self.codomain().clone(), values })
    }
}
