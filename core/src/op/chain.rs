//! Putting operators one after the other, with every mismatch said while the expression is built.

use std::fmt;
use std::ops::Mul;
use std::sync::Arc;

use num_complex::Complex64;

use super::error::Mismatch;
use super::name::Name;
use super::operator::{Number, Operator};
use super::sum::MOST_ROOM;
use super::transfer::Route;
use super::{Dense, Diagonal, Gather, OpError, Space, ToDevice};
use crate::memory::Device;
use crate::ordered::joined;

/// Something that can stand in a chain.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// An operator that knows its spaces.
    Operator(Operator),
    /// A transfer that takes its space from its neighbours.
    Route(Route),
    /// The identity on whatever it is given.
    Identity,
    /// This factor on whatever it is given.
    Scale(Complex64),
    /// Any operator that takes its space from what is before it.
    Open(Open),
    /// An expression that could not be built: the chain cannot be built either.
    Failed(OpError),
}

/// What builds an operator on the space that it is given, with names of its choice that are none of the listed ones.
type Build = dyn Fn(&Space, &[Name]) -> Result<Operator, OpError> + Send + Sync;

/// An operator that is built as soon as its domain is known.
#[derive(Clone)]
pub struct Open {
    name: String,
    build: Arc<Build>,
    /// Whether it may choose names: with others to avoid it may become another operator.
    chooses: bool,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Open").field(&self.name).finish()
    }
}

/// The same object.
impl PartialEq for Open {
    fn eq(&self, other: &Open) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.build, &other.build)
    }
}

/// The identity, which takes its space from its neighbours in a chain or a sum: `a.normal() + 0.1 * identity()`.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Diagonal, Operator, Space, identity};
/// let d = Operator::from(Diagonal::new(Space::new([("x", 2)], Dtype::F64)?, [1.0, 2.0])?);
/// assert_eq!((d.normal() + 0.1 * identity())?.formula(), "|D|^2 + 0.1");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
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
/// [`OpError::SizeMismatch`] for a name with two sizes along the chain, or [`SpaceError::DuplicateDim`](super::SpaceError::DuplicateDim)
/// for one that a part would make twice. Names inside a normal are its own. A fresh name that a part chose which takes its space from
/// its neighbours is another one where the first would be in the way: it is none of what the chain reads, of no other size before
/// it, and gives way to what other parts say behind it.
/// [`OpError::Untyped`] when no part knows its space.
///
/// See [`chain!`](crate::chain) for the form with commas.
///
/// # Cost
/// One look at each part, and one for each name that it makes at the names before; no weight is copied.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Part, Space, chain, fft, roll};
/// let line = Space::new([("x", 4)], Dtype::C64)?;
/// let a = chain([roll("x", 1).over(&line).into(), Part::from(fft(["x"]))])?;
/// assert_eq!(a.to_string(), "F(x) · Roll(x,1) : c64[x]@cpu -> c64[kx]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn chain(parts: impl IntoIterator<Item = Part>) -> Result<Operator, OpError> {
    Ok(assembled(parts, false)?.0)
}

/// As [`chain`](fn@chain), with a transfer inserted wherever a part works on another device than its input lies on; the list
/// says which, with their places in the chain.
///
/// # Errors
/// As [`chain`](fn@chain), for everything but devices.
///
/// ```
/// use spanlift::memory::{Dtype, cuda};
/// use spanlift::op::{Diagonal, Space, auto_transfer};
/// let space = Space::new([("x", 2)], Dtype::F64)?;
/// let d = |device| Diagonal::new(space.on(device), [1.0, 2.0]);
/// let (a, inserted) = auto_transfer([d(cuda(0))?.into(), d(cuda(1))?.into()])?;
/// assert_eq!(a.formula(), "D · T(cuda:0->cuda:1) · D");
/// assert_eq!((inserted.len(), inserted[0].0), (1, 1));
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn auto_transfer(
    parts: impl IntoIterator<Item = Part>,
) -> Result<(Operator, Vec<(usize, ToDevice)>), OpError> {
    assembled(parts, true)
}

/// The chain, and the transfers that were inserted, if any may be.
fn assembled(
    parts: impl IntoIterator<Item = Part>,
    insert: bool,
) -> Result<(Operator, Vec<(usize, ToDevice)>), OpError> {
    let parts = parts.into_iter();
    let mut flat: Vec<Part> = Vec::new();
    let mut operators: Vec<Operator> = Vec::with_capacity(parts.size_hint().0.min(MOST_ROOM));
    for part in parts {
        match part {
            Part::Failed(error) => return Err(error),
            // As long as every part knows its spaces, that is all there is to know.
            Part::Operator(Operator::Chain(chain)) if flat.is_empty() => {
                operators.extend_from_slice(chain.parts());
            }
            Part::Operator(a) if flat.is_empty() => operators.push(a),
            Part::Operator(Operator::Chain(chain)) => {
                flat.extend(chain.parts().iter().cloned().map(Part::Operator));
            }
            part => {
                if flat.is_empty() {
                    flat = std::mem::take(&mut operators).into_iter().map(Part::Operator).collect();
                }
                flat.push(part);
            }
        }
    }
    if flat.is_empty() && !operators.is_empty() {
        if operators.windows(2).all(|w| w[0].codomain() == w[1].domain()) {
            // Where nothing changes the space, no name can have two sizes.
            if !operators.iter().all(|a| a.domain() == a.codomain()) {
                one_size_each(&operators)?;
            }
            return Ok((Operator::join(operators), Vec::new()));
        }
        flat = std::mem::take(&mut operators).into_iter().map(Part::Operator).collect();
    }
    // Names that each part must not choose.
    let mut avoid: Vec<Vec<Name>> = vec![Vec::new(); flat.len()];
    let mut built = Vec::with_capacity(flat.len());
    let error = match laid(&flat, &avoid, insert, &mut built) {
        Ok(chain) => return Ok(chain),
        Err(error) => error,
    };
    // A name in the way that a part made up: it takes another one, as long as that is what is wrong. What it takes nobody said so far,
    // and nobody takes what it leaves: a name that was said later meant the same before, or is not there any more.
    let mut now = error.clone();
    for _ in 0..4 * flat.len() {
        let Some(part) = now.clash().and_then(|name| giving_way(&flat, &built, &avoid, name)) else { break };
        let left = made(&built[part]);
        avoid.iter_mut().for_each(|names| names.extend_from_slice(&left));
        let given = flat.iter().filter_map(|p| if let Part::Operator(a) = p { Some(a.dims()) } else { None });
        avoid[part].extend(joined(given.chain(built.iter().map(Operator::dims))));
        built.clear();
        match laid(&flat, &avoid, insert, &mut built) {
            Ok(chain) => return Ok(chain),
            Err(error) => now = error,
        }
    }
    Err(error)
}

/// The last of the built parts that made `name` up and can do with another one.
fn giving_way(flat: &[Part], built: &[Operator], avoid: &[Vec<Name>], name: &Name) -> Option<usize> {
    let can = |k: &usize| {
        let Part::Open(open) = &flat[*k] else { return false };
        let reads = built[*k].domain();
        let others = || {
            let avoid: Vec<Name> = avoid[*k].iter().chain([name]).cloned().collect();
            (open.build)(reads, &avoid)
        };
        open.chooses && made(&built[*k]).contains(name) && others().is_ok_and(|a| !made(&a).contains(name))
    };
    (0..built.len()).rev().find(can)
}

/// The names that are anywhere in an operator and not in what it reads.
fn made(a: &Operator) -> Vec<Name> {
    let mut names = a.dims();
    names.retain(|name| a.domain().axis(name).is_none());
    names
}

/// The parts one after the other, each with names to avoid, and the transfers that were inserted; `built` is each part as it was
/// built, as far as it came.
fn laid(
    flat: &[Part],
    avoid: &[Vec<Name>],
    insert: bool,
    built: &mut Vec<Operator>,
) -> Result<(Operator, Vec<(usize, ToDevice)>), OpError> {
    let mut operators: Vec<Operator> = Vec::with_capacity(flat.len());
    let mut inserted = Vec::new();
    let reads = first_space(flat)?;
    let n = flat.len();
    // The part before, where an operator does not say what was written for it.
    let mut before: Option<&Part> = None;
    for (k, part) in flat.iter().enumerate() {
        let space = operators.last().map_or(&reads, Operator::codomain);
        let open = if matches!(part, Part::Operator(_)) { None } else { Some(part) };
        let mut operator = match part {
            Part::Open(open) => (open.build)(space, &avoid[k]),
            part => part.clone().over(space),
        }
        .map_err(|e| e.at(k, n))?;
        if let Part::Open(open) = part
            && open.chooses
            && names_two_things(&reads, &operators, &operator)
        {
            let sides = operators.iter().map(Operator::dims);
            let taken: Vec<Name> =
                [joined(sides), reads.names().cloned().collect(), avoid[k].clone()].concat();
            operator = (open.build)(space, &taken).map_err(|e| e.at(k, n))?;
        }
        if *operator.domain() != *space {
            let there = operator.domain().device();
            if !insert || there == space.device() || *operator.domain() != space.on(there) {
                let name = |part: Option<&Part>, a: &Operator| part.map_or_else(|| a.formula(), Part::name);
                let reader = name(open, &operator);
                return Err(OpError::Mismatch(Box::new(Mismatch {
                    writer: operators.last().map_or_else(|| reader.clone(), |a| name(before, a)),
                    reader,
                    expects: operator.domain().clone(),
                    gives: space.clone(),
                    place: k + 1,
                    parts: n,
                })));
            }
            let transfer = ToDevice::of(space.device().into(), there.into(), space);
            inserted.push((operators.len(), transfer.clone()));
            operators.push(Operator::to_device(transfer));
        }
        built.push(operator.clone());
        operators.push(operator);
        before = open;
    }
    one_size_each(&operators)?;
    Ok((Operator::join(operators), inserted))
}

/// The product of two, which most products are, without a list of parts in between.
fn product(second: Part, first: Part) -> Result<Operator, OpError> {
    // Neither vanishes or comes apart in a chain.
    let stays =
        |a: &Operator| !matches!(a, Operator::Chain(_) | Operator::Identity(_) | Operator::ToDevice(_));
    // One space throughout: no name has two sizes.
    let fit = |a: &Operator, b: &Operator| {
        let space = a.codomain();
        a.domain() == space && b.domain() == space && b.codomain() == space
    };
    match (first, second) {
        (Part::Operator(first), Part::Operator(second))
            if stays(&first) && stays(&second) && fit(&first, &second) =>
        {
            Ok(Operator::pair(first, second))
        }
        (first, second) => chain([first, second]),
    }
}

/// What a chain reads: the space of the first part that knows one, where the data is.
fn first_space(parts: &[Part]) -> Result<Space, OpError> {
    let first = parts.first().ok_or(OpError::Empty { container: "chain" })?;
    // Until the first operator that knows its space, only the device may change.
    let keeps = |p: &&Part| !matches!(p, Part::Operator(_) | Part::Open(_));
    match parts.iter().find(|p| !keeps(p)) {
        Some(Part::Operator(a)) => Ok(a.domain().on(beginning(parts))),
        Some(open) => Err(OpError::Untyped(open.name())),
        None => Err(OpError::Untyped(first.name())),
    }
}

/// Whether what the next part makes has another size somewhere before, or is there at the beginning, where it is something else.
fn names_two_things(reads: &Space, before: &[Operator], next: &Operator) -> bool {
    let other = |name: &Name| {
        let size = next.size(name);
        // Several sizes before it are others as well.
        let differs = |a: &Operator| a.one_size(name).map_or(true, |n| n.is_some_and(|n| Some(n) != size));
        reads.axis(name).is_some() || before.iter().any(differs)
    };
    made(next).iter().any(other)
}

/// Refuses a name that has two sizes between the parts of a chain: sizes belong to names.
fn one_size_each(parts: &[Operator]) -> Result<(), OpError> {
    let first = parts.first().map(Operator::domain);
    if parts.iter().all(|part| Some(part.domain()) == first && Some(part.codomain()) == first) {
        return Ok(());
    }
    one_device_each(parts)?;
    let mut known: Vec<(&Name, i64, &Operator)> = Vec::new();
    let mut before = None;
    for (k, part) in parts.iter().enumerate() {
        for (space, pair) in [(part.domain(), k.checked_sub(1)), (part.codomain(), Some(k))] {
            // What one part writes the next one reads: most spaces were just looked at.
            if before.replace(space) == Some(space) || pair.is_some_and(|k| renamed_back(&parts[k..])) {
                continue;
            }
            for (name, size) in space.dims() {
                match known.iter().find(|(n, ..)| *n == name) {
                    Some((_, other, first)) if other != size => {
                        let formula = |a: &Operator| format!("`{}`", a.formula());
                        let (first, second) = (formula(first), formula(part));
                        let error = OpError::SizeMismatch {
                            dim: name.clone(),
                            first,
                            second,
                            sizes: (*other, *size),
                        };
                        return Err(error.at(k, parts.len()));
                    }
                    Some(_) => {}
                    None => known.push((name, *size, part)),
                }
            }
        }
    }
    Ok(())
}

/// Refuses a leaf that reads on one device and writes on another.
fn one_device_each(parts: &[Operator]) -> Result<(), OpError> {
    let torn = |a: &Operator| if let Operator::Leaf(leaf) = a { leaf.torn() } else { None };
    let Some((k, (reads, writes))) = (0..).zip(parts).find_map(|(k, a)| Some((k, torn(a)?))) else {
        return Ok(());
    };
    let fix = format!("make it on one and insert `to({})` behind it", writes.call());
    let problem =
        format!("it reads on {reads} and writes on {writes}, where data moves by a transfer alone; {fix}");
    Err(OpError::Argument { operator: parts[k].formula(), problem }.at(k, parts.len()))
}

/// Whether the first two parts give back the names that the first one reads: what stands between them, as in the normal of a
/// matrix, is no name of anybody else's.
fn renamed_back(parts: &[Operator]) -> bool {
    let [first, second, ..] = parts else { return false };
    let renames = |a: &Operator| matches!(a, Operator::Leaf(leaf) if leaf.downcast::<Gather>().is_some_and(Gather::renames));
    first.domain() == second.codomain() && (renames(first) || renames(second))
}

/// Refuses a name that has one size in the input and another one in the output.
pub(super) fn one_size(a: Operator) -> Result<Operator, OpError> {
    let differs = |(name, n): &(Name, i64)| a.codomain().size(name).filter(|m| m != n).map(|m| (*n, m));
    let found = a.domain().dims().iter().find_map(|dim| Some((dim.0.clone(), differs(dim)?)));
    let Some((dim, sizes)) = found else { return Ok(a) };
    let (first, second) = ("the input".to_owned(), "the output".to_owned());
    Err(OpError::SizeMismatch { dim, first, second, sizes })
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
    /// An operator that `build` makes as soon as its domain is known.
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Operator, Part, Space};
    /// let twice = Part::open("twice", |space| Operator::scale(2.0, space.clone()));
    /// let line = Space::new([("x", 2)], Dtype::F64)?;
    /// assert_eq!(chain![Operator::identity(line), twice]?.formula(), "2");
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn open(
        name: impl Into<String>,
        build: impl Fn(&Space) -> Result<Operator, OpError> + Send + Sync + 'static,
    ) -> Part {
        Part::Open(Open { name: name.into(), build: Arc::new(move |space, _| build(space)), chooses: false })
    }

    /// As [`Part::open`], for an operator that chooses names: none of those that it is given.
    pub(super) fn choosing(
        name: String,
        build: impl Fn(&Space, &[Name]) -> Result<Operator, OpError> + Send + Sync + 'static,
    ) -> Part {
        Part::Open(Open { name, build: Arc::new(build), chooses: true })
    }

    /// The same, built on spaces alone that `may` lets pass.
    pub(crate) fn guarded(self, may: impl Fn(&Space) -> Result<(), OpError> + Send + Sync + 'static) -> Part {
        let Part::Open(Open { name, build, chooses }) = self else { return self };
        let build = move |space: &Space, taken: &[Name]| {
            may(space)?;
            build(space, taken)
        };
        Part::Open(Open { name, build: Arc::new(build), chooses })
    }

    /// The part as an operator that reads `space`; one that knows its space keeps it.
    ///
    /// # Errors
    /// Whatever keeps it from being built.
    pub fn over(self, space: &Space) -> Result<Operator, OpError> {
        match self {
            Part::Operator(a) => Ok(a),
            Part::Route(route) => {
                let from = route.from.clone().unwrap_or_else(|| space.device().into());
                let reads = space.on(from.device);
                Ok(Operator::to_device(
                    ToDevice::of(from, route.to.clone(), &reads).listening(route.listener.clone()),
                ))
            }
            Part::Identity => Ok(Operator::Identity(space.clone())),
            Part::Scale(factor) => Operator::scale(factor, space.clone()),
            Part::Open(open) => (open.build)(space, &[]),
            Part::Failed(error) => Err(error),
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Part::Operator(a) => a.formula(),
            Part::Route(route) => route.to_string(),
            Part::Identity => "I".to_owned(),
            Part::Scale(factor) => Number(*factor).to_string(),
            Part::Open(open) => open.name.clone(),
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

impl From<Dense> for Part {
    fn from(dense: Dense) -> Part {
        Part::Operator(dense.into())
    }
}

impl From<Route> for Part {
    fn from(route: Route) -> Part {
        Part::Route(route)
    }
}

impl From<&Result<Operator, OpError>> for Part {
    fn from(built: &Result<Operator, OpError>) -> Part {
        built.clone().map_or_else(Part::Failed, Part::Operator)
    }
}

impl<T: Into<Part>> From<Result<T, OpError>> for Part {
    fn from(built: Result<T, OpError>) -> Part {
        built.map_or_else(Part::Failed, Into::into)
    }
}

/// What every builder of an operator that takes its space from its neighbours has.
///
/// The builder has a method `build(&self, &Space) -> Result<Operator, OpError>` and a `title(&self) -> String`; one that chooses
/// fresh names has a list `avoid` of names that it does not choose.
macro_rules! builder {
    ($builder:ty) => {
        $crate::op::chain::builder!($builder, |builder| {
            $crate::op::Part::open(builder.title(), move |space| builder.over(space))
        });
    };
    ($builder:ty, fresh) => {
        $crate::op::chain::builder!($builder, |builder| {
            $crate::op::Part::choosing(builder.title(), move |space, taken| {
                <$builder>::clone(&builder).avoiding(taken).over(space)
            })
        });

        impl $builder {
            fn avoiding(mut self, names: &[$crate::op::Name]) -> $builder {
                self.avoid.extend_from_slice(names);
                self
            }
        }
    };
    ($builder:ty, |$own:ident| $part:expr) => {
        impl $builder {
            /// The operator on `space`.
            ///
            /// # Errors
            /// Whatever keeps it from being built on this space.
            pub fn over(
                &self,
                space: impl std::borrow::Borrow<$crate::op::Space>,
            ) -> Result<$crate::op::Operator, $crate::op::OpError> {
                let space = space.borrow();
                self.build(space).map_err(|e| e.on(self.title(), space))
            }
        }

        impl From<$builder> for $crate::op::Part {
            fn from($own: $builder) -> $crate::op::Part {
                $part
            }
        }

        /// The right first; see [`chain`](crate::op::chain()).
        impl<R: Into<$crate::op::Part>> std::ops::Mul<R> for $builder {
            type Output = Result<$crate::op::Operator, $crate::op::OpError>;

            fn mul(self, first: R) -> Self::Output {
                $crate::op::chain([first.into(), self.into()])
            }
        }
    };
}
pub(super) use builder;

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
                product(self.into(), first.into())
            }
        }
    )*};
}
product!(Operator, &Operator, Diagonal, Dense, Route, Part);

macro_rules! product_goes_on {
    ($($right:ty),*) => {$(
        impl Mul<$right> for Result<Operator, OpError> {
            type Output = Result<Operator, OpError>;

            fn mul(self, first: $right) -> Result<Operator, OpError> {
                product(self.into(), first.into())
            }
        }
    )*};
}
product_goes_on!(Operator, &Operator, Diagonal, Dense, Route, Part);
