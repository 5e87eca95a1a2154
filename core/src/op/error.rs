//! What is wrong with an expression, said when it is built: both sides, the place and the fix.

use std::fmt;

use crate::error::wraps;
use crate::memory::{Device, Dtype, ViewError};
use crate::op::name::Name;
use crate::op::parts::DEEPEST;
use crate::op::space::{Space, SpaceError};
use crate::ordered::{CollectVec, sort};

/// Why an expression cannot be built, or an operator not be applied.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum OpError {
    /// There is no such space.
    Space(SpaceError),
    /// An operator makes no space of the one that it is given.
    On { operator: String, space: Box<Space>, problem: Box<SpaceError> },
    /// A part of a chain is wrong by itself; `place` counts from 1.
    Part { problem: Box<OpError>, place: usize, parts: usize },
    /// The output of one part of a chain is not the input of the next.
    Mismatch(Box<Mismatch>),
    /// Values, or an operator's input, are of another space than it reads.
    Input { operator: String, expects: Box<Space>, gives: Box<Space> },
    /// What a result is to be written to is of another space.
    Output { operator: String, gives: Box<Space>, holds: Box<Space> },
    /// Within one memory an element that is read would be written, or one written twice.
    Aliased { operator: String, reads: (usize, usize), writes: (usize, usize), element: usize, twice: bool },
    /// A view has another shape than the space that it is to hold.
    ViewShape { space: Box<Space>, shape: Vec<i64> },
    /// Another number of weights than the space has elements.
    Weights { operator: String, weights: usize, space: Box<Space> },
    /// Another number of values than the space has elements.
    Values { values: usize, space: Box<Space> },
    /// A complex number in a real space.
    MixedFields { of: String, index: usize, space: Box<Space> },
    /// A value that is infinite or no number.
    NotFinite { of: String, index: usize },
    /// A list without an operator, or without a coefficient.
    Empty { container: &'static str },
    /// The parts of a sum or a join differ.
    Misfit(Box<Misfit>),
    /// A factor that is not finite, or a complex one on a real space.
    Factor { factor: String, space: Box<Space> },
    /// A part that nothing undoes exactly.
    NoInverse { operator: String },
    /// A power, or what is made of powers, of an operator from a space to another one.
    NotSquare { operator: String, reads: Box<Space>, gives: Box<Space> },
    /// A dimension that the operator does not have.
    UnknownDim { operator: String, dim: Name, known: Vec<Name> },
    /// A dimension along which parts are joined on one side stands on the other side too.
    JoinedTwice { dim: Name, operator: String },
    /// A dimension of the input that neither the weights nor the output of a matrix have.
    SummedAlone { operator: String, dim: Name },
    /// A join, or a stack, along no dimension.
    NoAxis,
    /// Operators lie too deep inside each other.
    TooDeep,
    /// A new dimension at a place that the space does not have.
    Place { name: String, place: i64, space: Box<Space> },
    /// A view that cannot be, or that leaves its memory.
    View { space: Box<Space>, problem: ViewError },
    /// No cut along this dimension is exact, or none pays.
    Uncuttable { operator: String, dim: Name, why: String, others: Vec<Name> },
    /// A tile that is empty, or leaves its dimension.
    TileRange { operator: String, dim: Name, size: i64, lo: i64, hi: i64 },
    /// Tiles read further beyond their ends than was allowed.
    Halo { operator: String, dim: Name, needs: i64, halo: i64 },
    /// Tiles of no element.
    EmptyTiles { dim: Name },
    /// Tiles of a negative size.
    NegativeTiles { dim: Name, size: i64 },
    /// No tile, or more tiles than a dimension has elements.
    TileCount { dim: Name, tiles: usize, size: i64 },
    /// More tiles than are listed.
    TooManyTiles { dim: Name, size: i64, tiles: i64 },
    /// Edges of tiles that do not rise from 0 to the size of their dimension.
    TileEdges { dim: Name, edges: Vec<i64>, size: i64 },
    /// A dimension whose size nothing says.
    UnsizedDim { operator: String, dim: Name, known: String },
    /// One name with two sizes.
    SizeMismatch { dim: Name, first: String, second: String, sizes: (i64, i64) },
    /// An index outside its dimension.
    Index { operator: String, dim: Name, entry: i64, size: i64 },
    /// An index that is kept twice.
    Twice { operator: String, dim: Name, entry: i64 },
    /// An argument that the operator cannot have.
    Argument { operator: String, problem: String },
    /// Nothing says which space the parts work on.
    Untyped(String),
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpError::Space(error) => error.fmt(f),
            OpError::On { operator, space, problem } => {
                write!(f, "`{operator}` on {}: {problem}", space.sized())
            }
            OpError::Part { problem, place, parts } => {
                write!(f, "{problem} ({} of {} in the chain)", ordinal(*place), cardinal(*parts))
            }
            OpError::Mismatch(error) => error.fmt(f),
            OpError::Input { operator, expects, gives } => write!(
                f,
                "`{operator}` expects {} but the input is {}; {}",
                shown(expects, gives).0,
                shown(expects, gives).1,
                fix(expects, gives, "before it")
            ),
            OpError::Output { operator, gives, holds } => write!(
                f,
                "`{operator}` gives {} but the output is {}; {}",
                shown(gives, holds).0,
                shown(gives, holds).1,
                fix(holds, gives, "behind it")
            ),
            OpError::Aliased { operator, reads, writes, element, twice } => write!(
                f,
                "`{operator}` reads elements {}..={} and writes {}..={} of one memory: element {element} would be {}",
                reads.0,
                reads.1,
                writes.0,
                writes.1,
                if *twice {
                    "written twice; let the output lie apart from itself"
                } else {
                    "overwritten while it is still read; let the output lie apart from the input"
                }
            ),
            OpError::ViewShape { space, shape } => {
                write!(f, "a view of shape {shape:?} holds no {}", space.sized())
            }
            OpError::Weights { operator, weights, space } => write!(
                f,
                "`{operator}` has {weights} weights but {} has {} elements",
                space.sized(),
                space.elements()
            ),
            OpError::Values { values, space } => {
                write!(f, "{} has {} elements but {values} values are given", space.sized(), space.elements())
            }
            OpError::MixedFields { of, index, space } => write!(
                f,
                "value {index} of `{of}` has an imaginary part but {space} is real; build both in {}",
                wider(space)
            ),
            OpError::NotFinite { of, index } => write!(f, "value {index} of `{of}` is not finite"),
            OpError::Empty { container: "polynomial" } => {
                f.write_str("a polynomial needs at least one coefficient")
            }
            OpError::Empty { container } => write!(f, "a {container} needs at least one operator"),
            OpError::Misfit(error) => error.fmt(f),
            OpError::Factor { factor, space } => {
                write!(f, "factor {factor} on {space} is not finite; no operator is left of it")
            }
            OpError::NoInverse { operator } => {
                write!(f, "`{operator}` has no exact inverse; solve with it instead")
            }
            OpError::NotSquare { operator, reads, gives } => write!(
                f,
                "`{operator}` reads {} but gives {}: only a square operator has powers",
                reads.sized(),
                gives.sized()
            ),
            OpError::UnknownDim { operator, dim, known } => {
                write!(f, "`{operator}` has no dimension `{dim}`; it has {}", listed(known))
            }
            OpError::JoinedTwice { dim, operator } => write!(
                f,
                "`{operator}` has `{dim}` on the other side too, where it is not joined; rename it there"
            ),
            OpError::SummedAlone { operator, dim } => write!(
                f,
                "`{operator}` has `{dim}` in neither the weights nor the output; sum over it with `sum_reduce`"
            ),
            OpError::NoAxis => f.write_str(
                "say along which dimension the operators are joined: on the output, on the input, or on both",
            ),
            OpError::TooDeep => write!(
                f,
                "operators lie more than {DEEPEST} deep inside each other; multiply sums and chains out, or make a leaf of a part"
            ),
            OpError::Place { name, place, space } => write!(
                f,
                "`{name}` cannot be inserted at {place} of {space}: choose 0 to {}",
                space.dims().len()
            ),
            OpError::View { space, problem } => write!(f, "a view of {} is none: {problem}", space.sized()),
            OpError::Uncuttable { operator, dim, why, others } => {
                write!(f, "`{operator}` cannot be cut along `{dim}`: {why}{}", instead(others))
            }
            OpError::TileRange { operator, dim, size, lo, hi } => {
                write!(f, "`{operator}`: `{dim}` is {size} long, so no tile is {lo}..{hi}")
            }
            OpError::Halo { operator, dim, needs, halo } => write!(
                f,
                "`{operator}` reads up to {needs} elements beyond a tile of `{dim}`; a halo of {halo} is too small, ask for {needs}"
            ),
            OpError::EmptyTiles { dim } => {
                write!(f, "tiles of `{dim}` without an element: make them at least 1 long")
            }
            OpError::NegativeTiles { dim, size } => write!(f, "tiles of `{dim}` cannot be {size} long"),
            OpError::TileCount { dim, tiles, size } => {
                write!(f, "`{dim}` is {size} long: it has no {tiles} tiles")
            }
            OpError::TooManyTiles { dim, size, tiles } => write!(
                f,
                "`{dim}` is {size} long: {tiles} tiles are more than anybody lists; make them larger"
            ),
            OpError::TileEdges { dim, edges, size } => {
                write!(f, "edges {edges:?} of tiles do not rise from 0 to {size}, the size of `{dim}`")
            }
            OpError::UnsizedDim { operator, dim, known } => {
                write!(f, "`{operator}`: nothing says how long `{dim}` is; of {known} it is known")
            }
            OpError::SizeMismatch { dim, first, second, sizes } => write!(
                f,
                "`{dim}` is {} long in {first} and {} long in {second}; give one of the two another name",
                sizes.0, sizes.1
            ),
            OpError::Index { operator, dim, entry, size } => {
                write!(f, "`{operator}`: entry {entry} along `{dim}` is outside 0..{size}")
            }
            OpError::Twice { operator, dim, entry } => {
                write!(f, "`{operator}`: entry {entry} along `{dim}` is kept twice")
            }
            OpError::Argument { operator, problem } => write!(f, "`{operator}`: {problem}"),
            OpError::Untyped(text) => {
                write!(f, "nothing says which space `{text}` works on; give it one with `over(space)`")
            }
        }
    }
}

wraps!(OpError { Space(SpaceError) });

/// The output of one part of a chain is not the input of the next.
#[derive(Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The part that reads.
    pub reader: String,
    /// What it reads.
    pub expects: Space,
    /// The part before it.
    pub writer: String,
    /// What that one gives.
    pub gives: Space,
    /// Place of the reader in the chain, in execution order, counted from 1.
    pub place: usize,
    /// Parts of the chain.
    pub parts: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { reader, expects, writer, gives, place, parts } = self;
        write!(
            f,
            "`{reader}` expects {} but `{writer}` gives {} ({} of {} in the chain); {}",
            shown(expects, gives).0,
            shown(expects, gives).1,
            ordinal(*place),
            cardinal(*parts),
            fix(expects, gives, "between them")
        )
    }
}

crate::error::told!(Mismatch);

/// The parts of a sum or a join differ.
#[derive(Clone, PartialEq, Eq)]
pub struct Misfit {
    /// What the parts are put into.
    pub container: &'static str,
    /// Which side differs: what each `reads` or `gives`.
    pub verb: &'static str,
    /// The first part.
    pub first: String,
    /// Its space.
    pub has: Space,
    /// The part that differs.
    pub other: String,
    /// Its space.
    pub gives: Space,
    /// Its place, counted from 1.
    pub place: usize,
    /// Parts of the container.
    pub parts: usize,
    /// The dimension along which they are joined on this side: each may have its own size there.
    pub joined: Option<Name>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misfit { container, verb, first, has, other, gives, place, parts, joined } = self;
        // Blocks have dimensions of their own.
        let free = *container == BLOCKS;
        let dims = if free { None } else { mended(has, gives, joined.as_ref()) };
        write!(
            f,
            "`{other}` {verb} {} but `{first}` {verb} {} ({} of {} in the {container}); {}",
            shown(gives, has).0,
            shown(gives, has).1,
            ordinal(*place),
            cardinal(*parts),
            if *verb == "reads" {
                // What the first reads is there; it has to become what the other one reads.
                fix_moving([has, gives], [has.device(), gives.device()], "before it", dims)
            } else {
                fix_moving([has, gives], [gives.device(), has.device()], "after it", dims)
            }
        )
    }
}

crate::error::told!(Misfit);

impl OpError {
    /// A tuple where dimensions are asked for.
    pub(super) fn tuple(operator: String) -> OpError {
        OpError::Argument { operator, problem: "a tuple of spaces has no dimensions of its own".to_owned() }
    }

    /// A new dimension beyond the rank.
    pub(super) fn place(name: &Name, place: usize, space: &Space) -> OpError {
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        OpError::Place { name: name.to_string(), place, space: Box::new(space.clone()) }
    }

    /// The same with the operator that could not be built, where only names or sizes are said.
    pub(super) fn on(self, operator: String, space: &Space) -> OpError {
        match self {
            OpError::Space(problem) => {
                OpError::On { operator, space: Box::new(space.clone()), problem: Box::new(problem) }
            }
            OpError::SizeMismatch { dim, first, second, sizes } => {
                OpError::SizeMismatch { dim, first: format!("{first} of `{operator}`"), second, sizes }
            }
            error => error,
        }
    }

    /// The name that stands for two things, where that is what is wrong.
    pub(super) fn clash(&self) -> Option<&Name> {
        match self {
            OpError::SizeMismatch { dim, .. } => Some(dim),
            OpError::Space(SpaceError::DuplicateDim(dim)) => Some(dim),
            OpError::On { problem, .. } => {
                if let SpaceError::DuplicateDim(dim) = &**problem {
                    Some(dim)
                } else {
                    None
                }
            }
            OpError::Part { problem, .. } => problem.clash(),
            _ => None,
        }
    }

    /// The same with a place in a chain, counted from 0, where none is said.
    pub(super) fn at(self, place: usize, parts: usize) -> OpError {
        match self {
            error @ (OpError::Mismatch(_) | OpError::Part { .. }) => error,
            error => OpError::Part { problem: Box::new(error), place: place + 1, parts },
        }
    }
}

/// What parts of a [`BlockDiag`](super::BlockDiag) are in.
pub(super) const BLOCKS: &str = "block diagonal";

/// The complex type of the same precision.
pub(super) fn wider(space: &Space) -> Dtype {
    if matches!(space.dtype(), Dtype::F32 | Dtype::C32) { Dtype::C32 } else { Dtype::C64 }
}

pub(super) fn listed(names: &[Name]) -> String {
    let mut known: Vec<String> = Vec::new();
    for name in names.iter().map(|n| format!("`{n}`")) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let names = known;
    match &names[..] {
        [] => "none".to_owned(),
        _ => names.join(", "),
    }
}

fn instead(others: &[Name]) -> String {
    if others.is_empty() { String::new() } else { format!("; cut along {} instead", listed(others)) }
}

/// Both spaces, with sizes where only these differ.
fn shown(expects: &Space, gives: &Space) -> (String, String) {
    if same(expects, gives, &|a, b| a.names().eq(b.names())) && !fits(expects, gives) {
        (expects.sized(), gives.sized())
    } else {
        (expects.to_string(), gives.to_string())
    }
}

/// Whether two spaces have as many members, nested in one way, and all that have dimensions of their own are alike.
fn same(a: &Space, b: &Space, alike: &dyn Fn(&Space, &Space) -> bool) -> bool {
    match (a.members(), b.members()) {
        (None, None) => alike(a, b),
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, alike)),
        _ => false,
    }
}

/// Whether names and sizes are the same, whatever the type and the device.
fn fits(a: &Space, b: &Space) -> bool {
    same(a, b, &|a, b| a.dims() == b.dims())
}

fn names(space: &Space) -> Vec<String> {
    space.dims().iter().map(|(name, _)| name.to_string()).collect_vec()
}

/// What to do so that `gives` becomes `expects`.
fn fix(expects: &Space, gives: &Space, place: &str) -> String {
    fix_moving([expects, gives], [gives.device(), expects.device()], place, mended(expects, gives, None))
}

/// The same, where data that differs in its place moves between these devices, and `dims` is what to do about dimensions.
fn fix_moving(sides: [&Space; 2], [from, to]: [Device; 2], place: &str, dims: Option<String>) -> String {
    let [expects, gives] = sides;
    let mut steps = Vec::new();
    if from != to {
        // At the beginning of a chain a transfer that does not say where it begins begins on the host.
        let begins = place == "before it" && from != Device::Cpu;
        let (from, to) = (from.call(), to.call());
        let transfer = if begins { format!("ToDevice::from({from}).to({to})") } else { format!("to({to})") };
        steps.push(format!("insert `{transfer}` {place}"));
    }
    let one_is_a_tuple = expects.members().is_some() != gives.members().is_some();
    if expects.dtype() != gives.dtype() && !(one_is_a_tuple && dims.is_some()) {
        steps.push(format!("build both in {} or both in {}", expects.dtype(), gives.dtype()));
    }
    steps.extend(dims);
    steps.join("; ")
}

/// What to change about names, sizes and members, where these differ.
fn mended(expects: &Space, gives: &Space, free: Option<&Name>) -> Option<String> {
    let (wants, has) = match (expects.members(), gives.members()) {
        (Some(wants), Some(has)) => (wants, has),
        (None, None) => return renamed_or_resized(expects, gives, free),
        _ => {
            let step = "one of them is a tuple of spaces, as `block_diag` has them; `stack` and `block` have one space";
            return Some(step.to_owned());
        }
    };
    if fits(expects, gives) {
        return None;
    }
    let (flat, other) = (leaves(expects), leaves(gives));
    let mut sorted = [wants, has].map(|members| members.iter().map(|m| leaves(m).join(";")).collect_vec());
    sorted.iter_mut().for_each(|members| sort(members));
    if flat == other {
        return Some("nest the members in one way on both sides".to_owned());
    }
    if wants.len() != has.len() {
        let (n, m) = (cardinal(wants.len()), cardinal(has.len()));
        return Some(format!("put as many members into both tuples: one has {n}, the other {m}"));
    }
    if sorted[0] == sorted[1] {
        return Some("list the members in one order on both sides".to_owned());
    }
    let (k, (a, b)) = (1..).zip(wants.iter().zip(has)).find(|(_, (a, b))| !fits(a, b))?;
    Some(format!("in the {} member, {}", ordinal(k), mended(a, b, free)?))
}

/// Names and sizes of all spaces in a tuple of any depth.
fn leaves(space: &Space) -> Vec<String> {
    match space.members() {
        Some(members) => members.iter().flat_map(leaves).collect_vec(),
        None => vec![space.dims().iter().map(|(name, n)| format!("{name}={n}")).collect_vec().join(",")],
    }
}

/// What to change about the dimensions of two spaces.
fn renamed_or_resized(expects: &Space, gives: &Space, free: Option<&Name>) -> Option<String> {
    let (mut wanted, mut found) = (names(expects), names(gives));
    if wanted == found {
        let pairs = || expects.dims().iter().zip(gives.dims());
        let ((name, n), (_, m)) = pairs().find(|(a, b)| a != b && Some(&a.0) != free)?;
        return Some(format!("make `{name}` as long on both sides: it is {n} and {m}"));
    }
    sort(&mut wanted);
    sort(&mut found);
    let step = if wanted == found {
        "list the names in one order on both sides"
    } else {
        "give both sides the same names"
    };
    Some(step.to_owned())
}

const WORDS: [(&str, &str); 13] = [
    ("zeroth", "none"),
    ("first", "one"),
    ("second", "two"),
    ("third", "three"),
    ("fourth", "four"),
    ("fifth", "five"),
    ("sixth", "six"),
    ("seventh", "seven"),
    ("eighth", "eight"),
    ("ninth", "nine"),
    ("tenth", "ten"),
    ("eleventh", "eleven"),
    ("twelfth", "twelve"),
];

fn ordinal(n: usize) -> String {
    WORDS.get(n).map_or_else(|| format!("number {n}"), |w| w.0.to_owned())
}

fn cardinal(n: usize) -> String {
    WORDS.get(n).map_or_else(|| n.to_string(), |w| w.1.to_owned())
}
