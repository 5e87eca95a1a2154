//! What is wrong with an expression, said when it is built: both sides, the place and the fix.

use crate::op::space::{Space, SpaceError};

/// Why an expression cannot be built, or an operator not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum OpError {
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    #[error("`{operator}` expects {} but the input is {}; {}", shown(expects, gives).0, shown(expects, gives).1,
            fix(expects, gives, "before it"))]
    Input { operator: String, expects: Box<Space>, gives: Box<Space> },
    #[error("`{operator}` has {weights} weights but {} has {} elements", space.sized(), space.elements())]
    Weights { operator: String, weights: usize, space: Box<Space> },
    #[error("{space} has {} elements but {values} values are given", space.elements())]
    Values { values: usize, space: Box<Space> },
    #[error("value {index} of `{of}` has an imaginary part but {space} is real")]
    MixedFields { of: String, index: usize, space: Box<Space> },
    #[error("value {index} of `{of}` is not finite")]
    NotFinite { of: String, index: usize },
    #[error("a chain needs at least one operator")]
    EmptyChain,
    #[error("nothing says which space `{0}` works on; give it one with `over(space)`")]
    Untyped(String),
}

/// The output of one part of a chain is not the input of the next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{reader}` expects {} but `{writer}` gives {} ({} of {} in the chain); {}",
        shown(expects, gives).0, shown(expects, gives).1,
        ordinal(*place), cardinal(*parts), fix(expects, gives, "between them"))]
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

/// Both spaces, with sizes where only these differ.
fn shown(expects: &Space, gives: &Space) -> (String, String) {
    if names(expects) == names(gives) && expects.dims() != gives.dims() {
        (expects.sized(), gives.sized())
    } else {
        (expects.to_string(), gives.to_string())
    }
}

fn names(space: &Space) -> Vec<String> {
    space.dims().iter().map(|(name, _)| name.to_string()).collect()
}

/// What to do so that `gives` becomes `expects`.
fn fix(expects: &Space, gives: &Space, place: &str) -> String {
    let mut steps = Vec::new();
    if expects.device() != gives.device() {
        steps.push(format!("insert `to({})` {place}", expects.device().call()));
    }
    if expects.dtype() != gives.dtype() {
        steps.push(format!("build both in {} or both in {}", expects.dtype(), gives.dtype()));
    }
    if expects.dims() != gives.dims() {
        let (mut wanted, mut found) = (names(expects), names(gives));
        let ordered = wanted == found;
        wanted.sort();
        found.sort();
        let unequal = expects.dims().iter().zip(gives.dims()).find(|(a, b)| a != b);
        match unequal {
            Some(((name, n), (_, m))) if ordered => {
                steps.push(format!("make `{name}` as long on both sides: it is {n} and {m}"));
            }
            _ if wanted == found => steps.push("list the names in one order on both sides".to_owned()),
            _ => steps.push("give both sides the same names".to_owned()),
        }
    }
    steps.join("; ")
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
