//! Expressions as operators.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::functions::Args;
use super::measure::{listed, measured, products};
use super::tree::{Kind, Node, whole};
use super::{
    MOST_BUILT, MOST_NEAR, MOST_PARTS, MOST_PRODUCTS, MOST_ROWS, MOST_SIZE, MOST_VALUES, Place, Rule,
    ScriptError,
};
use crate::memory::{Device, Dtype};
use crate::op::{
    Complex64, Convolution, Dense, Diagonal, Fft, FiniteDifference, Gradient, Interpolate, Movement, Nufft,
    OpError, Operator, Part, Random, Sampling, Space, chain, minus, sum,
};
use crate::ordered::{BTreeMap, CollectVec};
use crate::program::MAX_DEVICES;

/// How deep operators may lie in each other: what asks a part several times takes twice as long for each.
pub(super) const DEEPEST: usize = 32;

/// How deep expressions may lie in each other, brackets and what is made of one counted alike.
const NESTED: usize = 80;

/// How far a kernel of an interpolation may reach.
pub(super) const WIDEST: f64 = 32.0;

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
    /// With how many points it has, and along how many dimensions.
    Interpolate(Interpolate, [usize; 2]),
    Nufft(Nufft, [usize; 2]),
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
    /// What whoever reads the script brings along.
    Brought(Rule),
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
    /// As part of a chain that builds it on spaces of bearable size alone, since some make a table of what they are given; `rows`
    /// counts what stands in those.
    fn part(self, rows: &Arc<AtomicUsize>) -> Part {
        let lists = matches!(self, Builder::Nufft(..) | Builder::Difference(_) | Builder::Gradient(_));
        let rows = lists.then(|| rows.clone());
        let part = match self {
            Builder::Fft(b) => Part::from(b),
            Builder::Movement(b) => Part::from(b),
            Builder::Convolution(b) => Part::from(b),
            Builder::Interpolate(b, _) => Part::from(b),
            Builder::Nufft(b, _) => Part::from(b),
            Builder::Difference(b) => Part::from(b),
            Builder::Gradient(b) => Part::from(b),
            Builder::Sampling(b) => Part::from(b),
        };
        part.guarded(move |space| bearable(space, rows.as_deref()))
    }
}

/// Refuses a space with a dimension that no script may have, and more rows than all its operators may list.
fn bearable(space: &Space, rows: Option<&AtomicUsize>) -> Result<(), OpError> {
    let wrong = |problem| Err(OpError::Argument { operator: space.sized(), problem });
    if let Some((name, size)) = space.dims().iter().find(|(_, size)| *size > MOST_SIZE) {
        return wrong(format!("`{name}` is {size} long, in a script at most {MOST_SIZE}"));
    }
    let Some(rows) = rows else { return Ok(()) };
    let all = space.dims().iter().map(|(_, size)| usize::try_from(*size).unwrap_or(0)).sum();
    if rows.fetch_add(all, Ordering::Relaxed).saturating_add(all) > MOST_ROWS {
        return wrong(format!("the operators of the script list more than {MOST_ROWS} rows"));
    }
    Ok(())
}

/// What is known while a script is read.
pub(super) struct Scope<'t> {
    pub(super) names: BTreeMap<&'t str, Value>,
    /// Rules for values that are brought along, by name.
    pub(super) rules: &'t [(&'t str, Rule)],
    /// Expressions around the one that is looked at.
    depth: usize,
    /// Values that stand in the script or follow from its rules.
    values: usize,
    /// Parts of what was built so far.
    built: usize,
    /// Rows that operators list for the places along dimensions.
    rows: Arc<AtomicUsize>,
    /// Weights of kernels that interpolate.
    near: usize,
    /// Steps for normals and tiles.
    products: usize,
}

/// What stands at a place of a chain or a list, and of how many parts it is.
pub(super) type Placed = (Place, usize);

impl<'t> Scope<'t> {
    pub(super) fn new(rules: &'t [(&'t str, Rule)]) -> Scope<'t> {
        Scope {
            names: BTreeMap::new(),
            rules,
            depth: 0,
            values: 0,
            built: 0,
            rows: Arc::default(),
            near: 0,
            products: 0,
        }
    }

    /// Defines a name, which leaves of the definition bear in formulas.
    pub(super) fn define(
        &mut self,
        place: Place,
        name: &'t str,
        node: &Node<'t>,
    ) -> Result<&Value, ScriptError> {
        if name.contains(':') || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(place.error(format!("`{name}` is no name: letters, digits and `_`, no digit first")));
        }
        if self.names.contains_key(name) {
            return Err(place.error(format!("`{name}` is defined twice")));
        }
        let value = match self.value(node)? {
            Value::Operator(a) if is_new(node) => Value::Operator(named(a, name)),
            other => other,
        };
        Ok(self.names.entry(name).or_insert(value))
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
        Err(place.error(format!("{n} values here make more than {MOST_VALUES} in the script")))
    }

    /// Room for so many more parts of operators.
    fn more(&mut self, place: Place, parts: usize) -> Result<(), ScriptError> {
        self.built = self.built.saturating_add(parts);
        if self.built <= MOST_BUILT {
            return Ok(());
        }
        Err(place.error(format!("all that the script builds has more than {MOST_BUILT} parts")))
    }

    /// Room for the weights of a kernel `width` wide around so many points of a grid.
    pub(super) fn near(
        &mut self,
        place: Place,
        [points, dims]: [usize; 2],
        width: f64,
    ) -> Result<(), ScriptError> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the widest")]
        let each = width.clamp(0.0, WIDEST) as usize + 1;
        let all = (0..dims).fold(points, |all, _| all.saturating_mul(each));
        self.near = self.near.saturating_add(all);
        if self.near <= MOST_NEAR {
            return Ok(());
        }
        Err(place.error(format!("{all} weights of kernels here make more than {MOST_NEAR} in the script")))
    }

    /// Room for what a normal of this may take.
    pub(super) fn products(&mut self, place: Place, a: &Operator) -> Result<(), ScriptError> {
        let all = products(a);
        self.work(place, all)
    }

    /// Room for looking at all that parts may list along a dimension, once for each tile.
    pub(super) fn tiles(&mut self, place: Place, a: &Operator, tiles: usize) -> Result<(), ScriptError> {
        self.work(place, listed(a).saturating_mul(tiles))
    }

    fn work(&mut self, place: Place, all: usize) -> Result<(), ScriptError> {
        self.products = self.products.saturating_add(all);
        if self.products <= MOST_PRODUCTS {
            return Ok(());
        }
        Err(place.error(format!("{all} steps to build this make more than {MOST_PRODUCTS} in the script")))
    }

    /// What was built, unless it is too much. `list` says where its parts stand, so that an error of one of them is there.
    pub(super) fn made(
        &mut self,
        place: Place,
        list: &[Placed],
        built: Result<Operator, OpError>,
    ) -> Result<Value, ScriptError> {
        let operator = built.map_err(|e| culprit(&e, list).unwrap_or(place).error(e.to_string()))?;
        let parts = measured(&operator).map_err(|e| place.error(e))?;
        self.more(place, parts)?;
        Ok(Value::Operator(operator))
    }

    /// A chain of what is in order of execution.
    fn chain_of(&mut self, place: Place, nodes: &[Node<'t>]) -> Result<Value, ScriptError> {
        let (mut flat, mut list) = (Vec::new(), Vec::new());
        let mut all = 0;
        for node in nodes {
            let from = flat.len();
            match self.value(node)? {
                Value::Open(open) => flat.extend(open),
                other => flat.push(self.part_of(node.place, other)?),
            }
            let parts = flat[from..].iter().map(flattened).sum::<usize>();
            list.push((node.start(), parts));
            all += parts;
            if all > MOST_PARTS {
                return Err(node.place.error(format!("an operator of more than {MOST_PARTS} parts")));
            }
        }
        if flat.iter().all(|part| !matches!(part, Part::Operator(_))) {
            return Ok(Value::Open(flat));
        }
        self.made(place, &list, chain(flat))
    }

    /// What takes its space from its neighbours, on a space.
    pub(super) fn over(&mut self, of: &Node<'t>, value: Value, space: Space) -> Result<Value, ScriptError> {
        let parts = match value {
            Value::Open(parts) => parts,
            other => vec![self.part_of(of.place, other)?],
        };
        let list = match &of.kind {
            Kind::Chain(nodes) if nodes.len() == parts.len() => {
                nodes.iter().map(|node| (node.start(), 1)).collect_vec()
            }
            _ => vec![(of.place, parts.len())],
        };
        self.made(of.place, &list, along(space, parts))
    }

    /// What can stand in a chain or a sum.
    pub(super) fn part_of(&self, place: Place, value: Value) -> Result<Part, ScriptError> {
        match value {
            Value::Number(n) => Ok(Part::Scale(n)),
            Value::Operator(a) => Ok(Part::Operator(a)),
            Value::Builder(builder) => Ok(builder.part(&self.rows)),
            Value::Open(mut parts) if parts.len() == 1 => {
                parts.pop().ok_or_else(|| place.error("expected an operator"))
            }
            Value::Open(parts) => {
                let name = parts.iter().rev().map(Part::name).collect_vec().join(" · ");
                Ok(Part::open(name, move |space| {
                    // A place in this chain is none among the parts that it is one of.
                    along(space.clone(), parts.iter().cloned()).map_err(|error| match error {
                        OpError::Part { problem, .. } => *problem,
                        error => error,
                    })
                }))
            }
            other => Err(place.error(format!("expected an operator, found {}", other.words()))),
        }
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

    /// `[8, 3, 2]` as sizes.
    pub(super) fn sizes(&mut self, node: &Node<'t>) -> Result<Vec<i64>, ScriptError> {
        let Kind::List(list) = &node.kind else { return Ok(vec![self.size(node)?]) };
        list.iter().map(|node| self.size(node)).try_collect_vec()
    }

    /// `[0.5, 1.5]`
    pub(super) fn reals(&mut self, node: &Node<'t>) -> Result<Vec<f64>, ScriptError> {
        let Kind::List(list) = &node.kind else { return Ok(vec![self.real(node)?]) };
        self.room(node.place, list.len())?;
        list.iter().map(|node| self.real(node)).try_collect_vec()
    }

    /// Where an error of values that a list or a rule gave stands.
    pub(super) fn fault(node: &Node<'t>, error: &OpError) -> ScriptError {
        let place = match (error, &node.kind) {
            (OpError::MixedFields { index, .. } | OpError::NotFinite { index, .. }, Kind::List(list)) => {
                list.get(*index).map_or(node.place, |value| value.place)
            }
            _ => node.place,
        };
        place.error(error.to_string())
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
            Fill::Brought(rule) => {
                let values = rule(space).map_err(|e| node.place.error(e))?;
                if i64::try_from(values.len()) != Ok(space.elements()) {
                    let (n, of) = (values.len(), space.elements());
                    return Err(node
                        .place
                        .error(format!("{n} values for the {of} elements of {}", space.sized())));
                }
                values
            }
        })
    }

    /// What an expression stands for.
    pub(super) fn value(&mut self, node: &Node<'t>) -> Result<Value, ScriptError> {
        self.depth += 1;
        if self.depth > NESTED {
            return Err(node.place.error(format!("more than {NESTED} expressions inside each other")));
        }
        let value = self.evaluated(node);
        self.depth -= 1;
        value
    }

    fn evaluated(&mut self, node: &Node<'t>) -> Result<Value, ScriptError> {
        let place = node.place;
        match &node.kind {
            Kind::Number(n) => Ok(Value::Number(*n)),
            Kind::Word(word) => match self.names.get(word) {
                Some(value) => {
                    let value = value.clone();
                    match &value {
                        Value::Operator(a) => self.more(place, measured(a).unwrap_or(MOST_PARTS))?,
                        Value::Open(parts) => self.more(place, parts.len())?,
                        _ => {}
                    }
                    Ok(value)
                }
                None => match self.rules.iter().find(|(name, _)| name == word) {
                    Some((_, rule)) => Ok(Value::Values(Fill::Brought(*rule))),
                    None => self.call(place, None, word, &[]),
                },
            },
            Kind::List(_) => Err(place.error("a list of what? here stands an operator, a space or a number")),
            Kind::Range(_) => Err(place.error("a range stands in a list or between brackets")),
            Kind::Pair(name, _) => Err(place.error(format!("`{name}=` means nothing here"))),
            Kind::Space { dtype, dims, device } => self.space_of(place, dtype, dims, *device),
            Kind::Call { of, name, args } => self.call(place, of.as_deref(), name, args),
            Kind::Chain(parts) => self.chain_of(place, parts),
            Kind::Sum(parts) => self.sum_of(place, parts),
            Kind::Times(factors) => self.times(place, factors),
            Kind::Power(base, exponent) => match self.value(base)? {
                Value::Number(n) => finite(place, n.powu(*exponent)),
                value => {
                    let a = operator_of(base.place, value)?;
                    self.made(place, &[], a.pow(*exponent))
                }
            },
        }
    }

    /// Numbers, and at most one operator among them.
    fn times(&mut self, place: Place, factors: &[(bool, Node<'t>)]) -> Result<Value, ScriptError> {
        let mut factor = Complex64::new(1.0, 0.0);
        let mut multiplied = None;
        for (divides, node) in factors {
            match (self.value(node)?, divides) {
                (Value::Number(n), false) => factor *= n,
                // Not by the rule for complex numbers, which rounds twice.
                (Value::Number(n), true) if n.im == 0.0 => factor /= n.re,
                (Value::Number(n), true) => factor /= n,
                (other, true) => {
                    let problem = format!("`/` has a number on its right, found {}", other.words());
                    return Err(node.place.error(problem));
                }
                (other, false) if multiplied.is_none() => multiplied = Some((node.place, other)),
                (other, false) => {
                    return Err(node.place.error(format!(
                        "`*` is of one operator and numbers, found {} as well; one after the other is `->`",
                        other.words()
                    )));
                }
            }
            finite(node.place, factor)?;
        }
        match multiplied {
            None => Ok(Value::Number(factor)),
            Some((_, Value::Operator(a))) => self.made(place, &[], a.times(factor)),
            Some((at, other)) => {
                let mut parts = match other {
                    Value::Open(parts) => parts,
                    other => vec![self.part_of(at, other)?],
                };
                parts.push(Part::Scale(factor));
                Ok(Value::Open(parts))
            }
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
        // Flat, so that what it is part of knows of how many it is.
        if let ([Value::Open(open)], [(is_minus, _)]) = (&values[..], parts) {
            let sign = is_minus.then_some(Part::Scale(-Complex64::ONE));
            return Ok(Value::Open(open.iter().cloned().chain(sign).collect_vec()));
        }
        let (mut found, mut list) = (Vec::new(), Vec::new());
        for (value, (is_minus, node)) in values.into_iter().zip(parts) {
            let part = self.part_of(node.place, value)?;
            found.push(if *is_minus { minus(part) } else { part });
            list.push((node.start(), 1));
        }
        if parts.len() == 1
            && let Some(only) = found.pop()
        {
            return match only {
                Part::Operator(a) => self.made(place, &[], Ok(a)),
                open => Ok(Value::Open(vec![open])),
            };
        }
        self.made(place, &list, sum(found))
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
            if Space::MOST_DIMS == sized.len() {
                return Err(dim.place.error(format!("more than {} dimensions", Space::MOST_DIMS)));
            }
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
    match word.parse() {
        Ok(Device::Cuda(n) | Device::Mock(n)) if n >= MAX_DEVICES => {
            Err(place.error(format!("`{word}` is no device: their numbers are 0 to {}", MAX_DEVICES - 1)))
        }
        Ok(device) => Ok(device),
        Err(_) => Err(place.error(format!("`{word}` is no device; `cpu`, `cuda:0` and `mock:0` are"))),
    }
}

pub(super) fn finite(place: Place, n: Complex64) -> Result<Value, ScriptError> {
    if n.re.is_finite() && n.im.is_finite() {
        return Ok(Value::Number(n));
    }
    Err(place.error("a number that is not finite"))
}

/// Where what an error speaks of stands among the parts of a chain, a sum or a list.
fn culprit(error: &OpError, list: &[Placed]) -> Option<Place> {
    let (at, of) = match error {
        OpError::Part { place, parts, .. } => (*place, *parts),
        OpError::Mismatch(mismatch) => (mismatch.place, mismatch.parts),
        OpError::Misfit(misfit) => (misfit.place, misfit.parts),
        _ => return None,
    };
    if list.iter().map(|(_, parts)| parts).sum::<usize>() != of {
        return None;
    }
    let mut before = 0;
    for (place, parts) in list {
        before += parts;
        if at <= before {
            return Some(*place);
        }
    }
    None
}

/// A chain that begins on a space.
fn along(space: Space, parts: impl IntoIterator<Item = Part>) -> Result<Operator, OpError> {
    let first = std::iter::once(Part::Operator(Operator::identity(space)));
    chain(first.chain(parts)).map_err(without_first)
}

/// An error of a chain, as if its first part were not there.
fn without_first(error: OpError) -> OpError {
    match error {
        OpError::Part { problem, parts: 2, .. } => *problem,
        OpError::Part { problem, place, parts } if place > 1 => {
            OpError::Part { problem, place: place - 1, parts: parts - 1 }
        }
        OpError::Mismatch(mut mismatch) if mismatch.place > 1 => {
            mismatch.place -= 1;
            mismatch.parts -= 1;
            OpError::Mismatch(mismatch)
        }
        other => other,
    }
}

/// The parts of which a part is when chains in chains are flattened.
fn flattened(part: &Part) -> usize {
    if let Part::Operator(Operator::Chain(chain)) = part { chain.parts().len() } else { 1 }
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
