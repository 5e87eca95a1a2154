//! Expressions as operators.

use super::functions::Args;
use super::tree::{Kind, Node, whole};
use super::{MOST_PARTS, MOST_SIZE, MOST_VALUES, Place, ScriptError};
use crate::memory::{Device, Dtype};
use crate::op::{
    Complex64, Convolution, Dense, Diagonal, Fft, FiniteDifference, Gradient, Interpolate, Movement, Nufft,
    OpError, Operator, Part, Random, Sampling, Space, chain, sum,
};
use crate::ordered::{BTreeMap, CollectVec};

/// How deep operators may lie in each other.
const DEEPEST: usize = 32;

/// What an expression stands for.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Number(Complex64),
    Space(Space),
    Operator(Operator),
    /// Parts of a chain, of which none knows its space.
    Open(Vec<Part>),
    /// One of those, as long as more can be said of it.
    Builder(Builder),
    Values(Fill),
}

/// An operator that takes its space from its neighbours, with its choices.
#[derive(Debug, Clone)]
pub(super) enum Builder {
    Fft(Fft),
    Movement(Movement),
    Convolution(Convolution),
    Interpolate(Interpolate),
    Nufft(Nufft),
    Difference(FiniteDifference),
    Gradient(Gradient),
    Sampling(Sampling),
}

/// A rule for values, however many.
#[derive(Debug, Clone)]
pub(super) enum Fill {
    Same(Complex64),
    Ramp(f64, f64),
    Random(u64),
}

impl Value {
    pub(super) fn words(&self) -> &'static str {
        match self {
            Value::Number(_) => "a number",
            Value::Space(_) => "a space",
            Value::Operator(_) => "an operator",
            Value::Open(_) | Value::Builder(_) => "an operator that takes its space from its neighbours",
            Value::Values(_) => "a rule for values",
        }
    }
}

impl Builder {
    /// As part of a chain that builds it on spaces of bearable size alone, since some make a table of what they are given.
    fn part(self) -> Part {
        let part = match self {
            Builder::Fft(b) => Part::from(b),
            Builder::Movement(b) => Part::from(b),
            Builder::Convolution(b) => Part::from(b),
            Builder::Interpolate(b) => Part::from(b),
            Builder::Nufft(b) => Part::from(b),
            Builder::Difference(b) => Part::from(b),
            Builder::Gradient(b) => Part::from(b),
            Builder::Sampling(b) => Part::from(b),
        };
        part.guarded(bearable)
    }
}

/// Refuses a space with a dimension that no script may have.
fn bearable(space: &Space) -> Result<(), OpError> {
    match space.dims().iter().find(|(_, size)| *size > MOST_SIZE) {
        None => Ok(()),
        Some((name, size)) => Err(OpError::Argument {
            operator: space.to_string(),
            problem: format!("`{name}` is {size} long, in a script at most {MOST_SIZE}"),
        }),
    }
}

/// The parts of an expression and how deep they lie in each other, or that they are too many.
pub(super) fn measured(a: &Operator, depth: usize, parts: &mut usize) -> Result<(), String> {
    *parts += 1;
    if *parts > MOST_PARTS {
        return Err(format!("an operator of more than {MOST_PARTS} parts"));
    }
    if depth > DEEPEST {
        return Err(format!("operators more than {DEEPEST} deep inside each other"));
    }
    a.children().iter().try_for_each(|child| measured(child, depth + 1, parts))
}

/// What is known while a script is read.
pub(super) struct Scope<'t> {
    pub(super) names: BTreeMap<&'t str, Value>,
    /// Values that stand in the script or follow from its rules.
    values: usize,
}

impl<'t> Scope<'t> {
    pub(super) fn new() -> Scope<'t> {
        Scope { names: BTreeMap::new(), values: 0 }
    }

    /// Defines a name, which leaves of the definition bear in formulas.
    pub(super) fn define(&mut self, place: Place, name: &'t str, node: &Node<'t>) -> Result<(), ScriptError> {
        if self.names.contains_key(name) {
            return Err(place.error(format!("`{name}` is defined twice")));
        }
        let value = match self.value(node)? {
            Value::Operator(a) if is_new(node) => Value::Operator(named(a, name)),
            other => other,
        };
        self.names.insert(name, value);
        Ok(())
    }

    /// The operator that a name of the script stands for.
    pub(super) fn known(&self, name: &str) -> Option<&Operator> {
        if let Some(Value::Operator(a)) = self.names.get(name) { Some(a) } else { None }
    }

    pub(super) fn operator(&mut self, node: &Node<'t>) -> Result<Operator, ScriptError> {
        let value = self.value(node)?;
        operator_of(node.place, value)
    }

    pub(super) fn space(&mut self, node: &Node<'t>) -> Result<Space, ScriptError> {
        match self.value(node)? {
            Value::Space(space) => Ok(space),
            other => Err(node
                .place
                .error(format!("expected a space as `c64[x=8]@cuda:0`, found {}", other.words()))),
        }
    }

    pub(super) fn number(&mut self, node: &Node<'t>) -> Result<Complex64, ScriptError> {
        match self.value(node)? {
            Value::Number(n) => Ok(n),
            other => Err(node.place.error(format!("expected a number, found {}", other.words()))),
        }
    }

    pub(super) fn real(&mut self, node: &Node<'t>) -> Result<f64, ScriptError> {
        let n = self.number(node)?;
        if n.im == 0.0 { Ok(n.re) } else { Err(node.place.error("expected a real number")) }
    }

    pub(super) fn whole(&mut self, node: &Node<'t>) -> Result<i64, ScriptError> {
        whole(self.number(node)?).ok_or_else(|| node.place.error("expected a whole number"))
    }

    pub(super) fn count(&mut self, node: &Node<'t>) -> Result<usize, ScriptError> {
        usize::try_from(self.whole(node)?).map_err(|_| node.place.error("expected a whole number from 0"))
    }

    pub(super) fn size(&mut self, node: &Node<'t>) -> Result<i64, ScriptError> {
        let size = self.whole(node)?;
        if size.abs() <= MOST_SIZE {
            return Ok(size);
        }
        Err(node.place.error(format!("{size} is too long, at most {MOST_SIZE}")))
    }

    /// Room for so many more values.
    pub(super) fn room(&mut self, place: Place, n: usize) -> Result<(), ScriptError> {
        self.values = self.values.saturating_add(n);
        if self.values <= MOST_VALUES {
            return Ok(());
        }
        Err(place.error(format!("the script has more than {MOST_VALUES} values")))
    }

    /// `[1, 2, 5..8]` as whole numbers; a single one may stand alone.
    pub(super) fn wholes(&mut self, node: &Node<'t>) -> Result<Vec<i64>, ScriptError> {
        let list = match &node.kind {
            Kind::List(list) => list.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut found = Vec::new();
        for node in list {
            if let Kind::Range(ends) = &node.kind {
                let (lo, hi) = (self.size(&ends[0])?, self.size(&ends[1])?);
                self.room(node.place, usize::try_from(hi.saturating_sub(lo)).unwrap_or(0))?;
                found.extend(lo..hi);
            } else {
                self.room(node.place, 1)?;
                found.push(self.whole(node)?);
            }
        }
        Ok(found)
    }

    /// `[0.5, 1.5]`
    pub(super) fn reals(&mut self, node: &Node<'t>) -> Result<Vec<f64>, ScriptError> {
        let Kind::List(list) = &node.kind else { return Ok(vec![self.real(node)?]) };
        self.room(node.place, list.len())?;
        list.iter().map(|node| self.real(node)).try_collect_vec()
    }

    /// As many values as `space` has elements, by a list or a rule.
    pub(super) fn values(&mut self, node: &Node<'t>, space: &Space) -> Result<Vec<Complex64>, ScriptError> {
        if let Kind::List(list) = &node.kind {
            self.room(node.place, list.len())?;
            let values = list.iter().map(|node| self.number(node)).try_collect_vec()?;
            if i64::try_from(values.len()) != Ok(space.elements()) {
                let (n, of) = (values.len(), space.elements());
                return Err(node
                    .place
                    .error(format!("{n} values for the {of} elements of {}", space.sized())));
            }
            return Ok(values);
        }
        let fill = match self.value(node)? {
            Value::Values(fill) => fill,
            other => {
                let words = "expected values as `[1, 2]`, `ones`, `fill(2)`, `ramp(0, 1)` or `random(1)`";
                return Err(node.place.error(format!("{words}, found {}", other.words())));
            }
        };
        self.room(node.place, usize::try_from(space.elements()).unwrap_or(usize::MAX))?;
        Ok(match fill {
            Fill::Same(value) => (0..space.elements()).map(|_| value).collect_vec(),
            #[expect(clippy::cast_precision_loss, reason = "a script has fewer values than that")]
            Fill::Ramp(start, step) => {
                (0..space.elements()).map(|k| Complex64::from(start + step * k as f64)).collect_vec()
            }
            Fill::Random(seed) => Random(seed).array(space).values().to_vec(),
        })
    }

    /// What an expression stands for.
    pub(super) fn value(&mut self, node: &Node<'t>) -> Result<Value, ScriptError> {
        let place = node.place;
        match &node.kind {
            Kind::Number(n) => Ok(Value::Number(*n)),
            Kind::Word(word) => match self.names.get(word) {
                Some(value) => Ok(value.clone()),
                None => self.call(place, None, word, &[]),
            },
            Kind::List(_) => Err(place.error("a list of what? here stands an operator, a space or a number")),
            Kind::Range(_) => Err(place.error("a range stands in a list or between brackets")),
            Kind::Pair(name, _) => Err(place.error(format!("`{name}=` means nothing here"))),
            Kind::Space { dtype, dims, device } => self.space_of(place, dtype, dims, *device),
            Kind::Call { of, name, args } => self.call(place, of.as_deref(), name, args),
            Kind::Chain(parts) => {
                let mut flat = Vec::new();
                for part in parts {
                    match self.value(part)? {
                        Value::Open(open) => flat.extend(open),
                        other => flat.push(part_of(part.place, other)?),
                    }
                }
                if flat.iter().all(|part| !matches!(part, Part::Operator(_))) && flat.len() <= MOST_PARTS {
                    return Ok(Value::Open(flat));
                }
                made(place, chain(flat))
            }
            Kind::Sum(parts) => self.sum_of(place, parts),
            Kind::Times(factors) => {
                let [left, right] = &**factors;
                match (self.value(left)?, self.value(right)?) {
                    (Value::Number(a), Value::Number(b)) => finite(place, a * b),
                    (Value::Number(a), Value::Operator(b)) => made(place, b.times(a)),
                    (Value::Number(a), other) => {
                        let mut parts = match other {
                            Value::Open(parts) => parts,
                            other => vec![part_of(right.place, other)?],
                        };
                        parts.push(Part::Scale(a));
                        Ok(Value::Open(parts))
                    }
                    (left, _) => Err(place.error(format!(
                        "`*` has a number on its left, found {}; one operator after the other is `->`",
                        left.words()
                    ))),
                }
            }
            Kind::Power(base, exponent) => match self.value(base)? {
                Value::Number(n) => finite(place, n.powu(*exponent)),
                value => made(place, operator_of(base.place, value)?.pow(*exponent)),
            },
        }
    }

    fn sum_of(&mut self, place: Place, parts: &[(bool, Node<'t>)]) -> Result<Value, ScriptError> {
        let values = parts.iter().map(|(_, node)| self.value(node)).try_collect_vec()?;
        let sign = |minus: bool, n: Complex64| if minus { -n } else { n };
        if values.iter().all(|value| matches!(value, Value::Number(_))) {
            let numbers = values.iter().zip(parts).map(|(value, (minus, _))| match value {
                Value::Number(n) => sign(*minus, *n),
                _ => Complex64::default(),
            });
            return finite(place, numbers.fold(Complex64::default(), |a, b| a + b));
        }
        let mut found = Vec::new();
        for (value, (minus, node)) in values.into_iter().zip(parts) {
            found.push(match value {
                Value::Number(n) => Part::Scale(sign(*minus, n)),
                Value::Operator(a) if *minus => {
                    Part::Operator(a.times(-1.0).map_err(|e| node.place.error(e.to_string()))?)
                }
                other if *minus => {
                    let words = other.words();
                    return Err(node.place.error(format!("{words} cannot be taken away; write `-1 * …`")));
                }
                other => part_of(node.place, other)?,
            });
        }
        if let (1, Some(Part::Operator(only))) = (found.len(), found.first()) {
            return Ok(Value::Operator(only.clone()));
        }
        made(place, sum(found))
    }

    fn space_of(
        &mut self,
        place: Place,
        dtype: &str,
        dims: &[Node<'t>],
        device: Option<&str>,
    ) -> Result<Value, ScriptError> {
        let dtype: Dtype = dtype.parse().map_err(|_| {
            place.error(format!("`{dtype}` is no element type of a space: f32, f64, c32 and c64 are"))
        })?;
        let mut sized = Vec::new();
        for dim in dims {
            let Kind::Pair(name, size) = &dim.kind else {
                return Err(dim.place.error("expected a dimension with its size, as `x=8`"));
            };
            sized.push((*name, self.size(size)?));
        }
        let space = Space::new(sized, dtype).map_err(|e| place.error(e.to_string()))?;
        Ok(Value::Space(match device {
            Some(device) => space.on(device_of(place, device)?),
            None => space,
        }))
    }

    fn call(
        &mut self,
        place: Place,
        of: Option<&Node<'t>>,
        name: &'t str,
        list: &[Node<'t>],
    ) -> Result<Value, ScriptError> {
        if let Some(of) = of {
            let value = self.value(of)?;
            return Args { scope: self, place, name, list }.method(of, value);
        }
        Args { scope: self, place, name, list }.function()
    }
}

/// Whether an expression makes a diagonal or a matrix, wherever that is to lie.
fn is_new(node: &Node<'_>) -> bool {
    match &node.kind {
        Kind::Call { of: None, name, .. } => matches!(*name, "diagonal" | "dense"),
        Kind::Call { of: Some(of), name: "on", .. } => is_new(of),
        _ => false,
    }
}

/// A diagonal or a matrix with another name.
fn named(a: Operator, name: &str) -> Operator {
    let Operator::Leaf(leaf) = &a else { return a };
    let renamed: Operator = match (leaf.downcast::<Diagonal>(), leaf.downcast::<Dense>()) {
        (Some(diagonal), _) => diagonal.clone().named(name).into(),
        (None, Some(dense)) => dense.clone().named(name).into(),
        (None, None) => return a,
    };
    renamed.on(leaf.domain().device())
}

pub(super) fn device_of(place: Place, word: &str) -> Result<Device, ScriptError> {
    word.parse().map_err(|_| place.error(format!("`{word}` is no device; `cpu`, `cuda:0` and `mock:0` are")))
}

pub(super) fn finite(place: Place, n: Complex64) -> Result<Value, ScriptError> {
    if n.re.is_finite() && n.im.is_finite() {
        return Ok(Value::Number(n));
    }
    Err(place.error("a number that is not finite"))
}

/// What was built, unless it is too much.
pub(super) fn made(place: Place, built: Result<Operator, OpError>) -> Result<Value, ScriptError> {
    let operator = built.map_err(|e| place.error(e.to_string()))?;
    measured(&operator, 0, &mut 0).map_err(|e| place.error(e))?;
    Ok(Value::Operator(operator))
}

/// Said of what has no space where it needs one.
pub(super) const NO_SPACE: &str =
    "an operator that takes its space from its neighbours, and has none here: `.over(SPACE)` gives it one";

pub(super) fn operator_of(place: Place, value: Value) -> Result<Operator, ScriptError> {
    match value {
        Value::Operator(a) => Ok(a),
        Value::Open(_) | Value::Builder(_) => Err(place.error(NO_SPACE)),
        other => Err(place.error(format!("expected an operator, found {}", other.words()))),
    }
}

/// What can stand in a chain or a sum.
pub(super) fn part_of(place: Place, value: Value) -> Result<Part, ScriptError> {
    match value {
        Value::Number(n) => Ok(Part::Scale(n)),
        Value::Operator(a) => Ok(Part::Operator(a)),
        Value::Builder(builder) => Ok(builder.part()),
        Value::Open(mut parts) if parts.len() == 1 => {
            parts.pop().ok_or_else(|| place.error("expected an operator"))
        }
        Value::Open(_) => Err(place.error(NO_SPACE)),
        other => Err(place.error(format!("expected an operator, found {}", other.words()))),
    }
}
