//! Putting operators one after the other, with every mismatch said while the expression is built.

use std::ops::Mul;

use super::error::Mismatch;
use super::operator::Operator;
use super::transfer::Route;
use super::{Diagonal, OpError, ToDevice};
use crate::memory::Device;

/// Something that can stand in a chain.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// An operator that knows its spaces.
    Operator(Operator),
    /// A transfer that takes its space from its neighbours.
    Route(Route),
    /// The identity on whatever it is given.
    Identity,
    /// An expression that could not be built: the chain cannot be built either.
    Failed(OpError),
}

/// The identity, which takes its space from its neighbours in a chain.
pub fn identity() -> Part {
    Part::Identity
}

/// Puts operators one after the other, **in the order in which they are applied**.
///
/// Transfers take their space from their neighbours and begin where the data is; the first of a chain begins at the host
/// when nothing else is said. Chains in chains are flattened; identities, transfers that go where the data is, and
/// transfers straight there and back vanish.
///
/// # Errors
/// [`OpError::Mismatch`] where a part does not read what the part before it writes: names, sizes, type or device.
/// [`OpError::Untyped`] when no part knows its space.
///
/// See [`chain!`](crate::chain) for the form with commas.
pub fn chain(parts: impl IntoIterator<Item = Part>) -> Result<Operator, OpError> {
    let mut flat: Vec<Part> = Vec::new();
    for part in parts {
        match part {
            Part::Failed(error) => return Err(error),
            Part::Operator(Operator::Chain(chain)) => {
                flat.extend(chain.parts().iter().cloned().map(Part::Operator));
            }
            part => flat.push(part),
        }
    }
    let first = flat.first().ok_or(OpError::EmptyChain)?;
    let known = flat.iter().find_map(|p| match p {
        Part::Operator(a) => Some(a.domain().clone()),
        _ => None,
    });
    // Until the first operator, only the device can change.
    let mut space = known.ok_or_else(|| OpError::Untyped(first.name()))?.on(beginning(&flat));
    let mut operators: Vec<Operator> = Vec::new();
    for (k, part) in flat.iter().enumerate() {
        let operator = match part {
            Part::Operator(a) => a.clone(),
            Part::Route(route) => {
                let from = route.from.clone().unwrap_or_else(|| space.device().into());
                let reads = space.on(from.device);
                Operator::to_device(ToDevice::of(from, route.to.clone(), &reads))
            }
            Part::Identity => Operator::Identity(space.clone()),
            Part::Failed(_) => unreachable!("bug: failed parts returned above"),
        };
        if *operator.domain() != space {
            return Err(OpError::Mismatch(Box::new(Mismatch {
                reader: part.name(),
                expects: operator.domain().clone(),
                writer: flat[k.saturating_sub(1)].name(),
                gives: space,
                place: k + 1,
                parts: flat.len(),
            })));
        }
        space = operator.codomain().clone();
        operators.push(operator);
    }
    Ok(Operator::join(operators))
}

/// Where the data is before the first part.
fn beginning(parts: &[Part]) -> Device {
    let device = parts.iter().find_map(|p| match p {
        Part::Operator(a) => Some(a.domain().device()),
        Part::Route(Route { from, .. }) => Some(from.as_ref().map_or(Device::Cpu, |spec| spec.device)),
        _ => None,
    });
    device.unwrap_or(Device::Cpu)
}

impl Part {
    fn name(&self) -> String {
        match self {
            Part::Operator(a) => a.formula(),
            Part::Route(route) => route.to_string(),
            Part::Identity => "I".to_owned(),
            Part::Failed(error) => error.to_string(),
        }
    }
}

/// Puts operators one after the other, in the order in which they are applied; see [`chain`](crate::op::chain()).
///
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, cuda};
/// use spanlift::op::{Diagonal, Space, to};
///
/// let space = Space::new([("y", 1), ("x", 2)], Dtype::C32)?;
/// let d = Diagonal::new(space.on(cuda(0)), [2.0, 3.0])?;
/// let a = chain![to(cuda(0)), d.clone(), to(cpu())]?;
/// assert_eq!(
///     a.to_string(),
///     "T(cuda:0->cpu) · D · T(cpu->cuda:0) : c32[y,x]@cpu -> c32[y,x]@cpu"
/// );
///
/// let wrong = chain![to(cuda(1)), d, to(cpu())];
/// assert_eq!(
///     wrong.unwrap_err().to_string(),
///     "`D` expects c32[y,x]@cuda:0 but `to(cuda(1))` gives c32[y,x]@cuda:1 (second of three in the chain); \
///      insert `to(cuda(0))` between them"
/// );
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[macro_export]
macro_rules! chain {
    ($($part:expr),* $(,)?) => {
        $crate::op::chain([$($crate::op::Part::from($part)),*])
    };
}

impl From<Operator> for Part {
    fn from(operator: Operator) -> Part {
        Part::Operator(operator)
    }
}

impl From<&Operator> for Part {
    fn from(operator: &Operator) -> Part {
        Part::Operator(operator.clone())
    }
}

impl From<Diagonal> for Part {
    fn from(diagonal: Diagonal) -> Part {
        Part::Operator(diagonal.into())
    }
}

impl From<Route> for Part {
    fn from(route: Route) -> Part {
        Part::Route(route)
    }
}

impl<T: Into<Part>> From<Result<T, OpError>> for Part {
    fn from(built: Result<T, OpError>) -> Part {
        built.map_or_else(Part::Failed, Into::into)
    }
}

/// `a * b` applies `b` first.
///
/// The result is that of [`chain`]; results multiply on, so that one `?` at the end of `(a * b * c)?` is enough. A
/// transfer that does not name its beginning takes it from what stands to its right in the same product, which makes
/// [`chain!`](crate::chain) the better place for it.
macro_rules! product {
    ($($left:ty),*) => {$(
        impl<R: Into<Part>> Mul<R> for $left {
            type Output = Result<Operator, OpError>;

            fn mul(self, first: R) -> Result<Operator, OpError> {
                chain([first.into(), self.into()])
            }
        }
    )*};
}
product!(Operator, &Operator, Diagonal, Route);

macro_rules! product_goes_on {
    ($($right:ty),*) => {$(
        impl Mul<$right> for Result<Operator, OpError> {
            type Output = Result<Operator, OpError>;

            fn mul(self, first: $right) -> Result<Operator, OpError> {
                chain([first.into(), self.into()])
            }
        }
    )*};
}
product_goes_on!(Operator, &Operator, Diagonal, Route);
