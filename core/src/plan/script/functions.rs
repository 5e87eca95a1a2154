//! What stands in front of brackets: functions and their arguments.

use super::eval::{Builder, Fill, Placed, Scope, Value, device_of};
use super::methods::{BOUNDARIES, METHODS};
use super::tree::{Kind, Node};
use super::{Place, ScriptError};
use crate::memory::{Device, Dtype};
use crate::op::{
    Complex64, Dense, Diagonal, Movement, Name, Operator, Part, Space, Tensor, block, block_diag, blocks,
    convolution, crop, embed, end_pad, fft, finite_difference, flip, gradient, hstack, identity, interpolate,
    merge_dims, nufft, pad, permute, rename, repeat, rfft, roll, sampling, select, slice, split_dim, stack,
    sum, sum_reduce, to, tree_sum, unblocks, vstack,
};
use crate::ordered::CollectVec;
use crate::program::text::nearest;

/// The arguments of a call.
pub(super) struct Args<'c, 't> {
    pub(super) scope: &'c mut Scope<'t>,
    pub(super) place: Place,
    pub(super) name: &'t str,
    pub(super) list: &'c [Node<'t>],
}

/// What brackets may stand behind.
const FUNCTIONS: &[&str] = &[
    "block",
    "block_diag",
    "blocks",
    "convolution",
    "crop",
    "dense",
    "diagonal",
    "embed",
    "end_pad",
    "fft",
    "fill",
    "finite_difference",
    "flip",
    "gradient",
    "hstack",
    "interpolate",
    "merge_dims",
    "nufft",
    "pad",
    "permute",
    "ramp",
    "random",
    "rename",
    "repeat",
    "rfft",
    "roll",
    "sampling",
    "select",
    "slice",
    "split_dim",
    "stack",
    "sum",
    "sum_reduce",
    "to",
    "tree_sum",
    "unblocks",
    "vstack",
    "zero",
];

/// Dimensions and what belongs to each.
type Pairs<'t, T> = Vec<(&'t str, T)>;

fn movement(movement: Movement) -> Result<Value, ScriptError> {
    Ok(Value::Builder(Builder::Movement(movement)))
}

impl<'c, 't> Args<'c, 't> {
    pub(super) fn error(&self, message: impl Into<String>) -> ScriptError {
        self.place.error(message)
    }

    /// Exactly so many arguments, as the words behind the name say.
    pub(super) fn of<const N: usize>(&self, words: &str) -> Result<&'c [Node<'t>; N], ScriptError> {
        self.list.try_into().map_err(|_| self.written(words))
    }

    /// How a call is written.
    pub(super) fn written(&self, words: &str) -> ScriptError {
        let name = self.name;
        self.error(match words {
            "" if name == "identity" => {
                "`identity` has no arguments: `identity.over(SPACE)` gives it a space".to_owned()
            }
            "" => format!("`{name}` has no arguments"),
            _ => format!("`{name}` is written `{name}{words}`"),
        })
    }

    /// The name of a dimension, whatever the script may mean by that name.
    pub(super) fn dim(&self, node: &Node<'t>) -> Result<&'t str, ScriptError> {
        match &node.kind {
            Kind::Word(word) => {
                let name: Result<Name, _> = word.parse();
                name.map(|_| *word).map_err(|e| node.place.error(e.to_string()))
            }
            _ => Err(node.place.error("expected the name of a dimension")),
        }
    }

    /// `x, y` or `[x, y]`
    pub(super) fn dims(&self, list: &[Node<'t>]) -> Result<Vec<&'t str>, ScriptError> {
        match list {
            [Node { kind: Kind::List(inside), .. }] => self.dims(inside),
            list => list.iter().map(|node| self.dim(node)).try_collect_vec(),
        }
    }

    pub(super) fn device(&self, node: &Node<'t>) -> Result<Device, ScriptError> {
        match &node.kind {
            Kind::Word(word) => device_of(node.place, word),
            _ => Err(node.place.error("expected a device, as `cuda:0`")),
        }
    }

    pub(super) fn devices(&self, node: &Node<'t>) -> Result<Vec<Device>, ScriptError> {
        match &node.kind {
            Kind::List(list) => list.iter().map(|node| self.device(node)).try_collect_vec(),
            _ => Ok(vec![self.device(node)?]),
        }
    }

    /// `x=…, y=…`, each value as `read` takes it.
    pub(super) fn pairs<T>(
        &mut self,
        list: &'c [Node<'t>],
        mut read: impl FnMut(&mut Scope<'t>, &'c Node<'t>) -> Result<T, ScriptError>,
    ) -> Result<Pairs<'t, T>, ScriptError> {
        let mut found = Vec::new();
        for node in list {
            let Kind::Pair(name, value) = &node.kind else {
                return Err(node.place.error("expected a dimension and what belongs to it, as `x=…`"));
            };
            found.push((*name, read(self.scope, value)?));
        }
        Ok(found)
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, node: &Node<'t>, words: &[(&str, T)]) -> Result<T, ScriptError> {
        let found = match &node.kind {
            Kind::Word(word) => words.iter().find(|(name, _)| name == word),
            _ => None,
        };
        found.map(|(_, value)| *value).ok_or_else(|| {
            let list = words.iter().map(|(name, _)| *name).collect_vec().join(", ");
            node.place.error(format!("expected one of {list}"))
        })
    }

    /// `[A, B]`, and where each stands.
    fn parts(&mut self, node: &Node<'t>) -> Result<(Vec<Part>, Vec<Placed>), ScriptError> {
        let Kind::List(list) = &node.kind else {
            return Err(node.place.error("expected operators in brackets, as `[A, B]`"));
        };
        let (mut parts, mut places) = (Vec::new(), Vec::new());
        for node in list {
            let value = self.scope.value(node)?;
            parts.push(self.scope.part_of(node.place, value)?);
            places.push((node.start(), 1));
        }
        Ok((parts, places))
    }

    /// What a word, or a word with arguments, stands for that no operator is in front of.
    pub(super) fn function(mut self) -> Result<Value, ScriptError> {
        let place = self.place;
        match self.name {
            "identity" => {
                self.of::<0>("")?;
                Ok(Value::Open(vec![identity()]))
            }
            "zero" => {
                let [domain, codomain] = self.of("(SPACE, SPACE)")?;
                let (domain, codomain) = (self.scope.space(domain)?, self.scope.space(codomain)?);
                Ok(Value::Operator(Operator::zero(domain, codomain)))
            }
            "to" => {
                let [device] = self.of("(DEVICE)")?;
                Ok(Value::Open(vec![Part::Route(to(self.device(device)?))]))
            }
            "diagonal" => self.diagonal(),
            "dense" => self.dense(),
            "fft" => Ok(Value::Builder(Builder::Fft(fft(self.dims(self.list)?)))),
            "rfft" => Ok(Value::Builder(Builder::Fft(rfft(self.dims(self.list)?)))),
            "nufft" => {
                let (points, locations) = self.located(Scope::reals)?;
                let size = [locations.first().map_or(0, |(_, list)| list.len()), locations.len()];
                self.scope.near(place, size, 4.0)?;
                Ok(Value::Builder(Builder::Nufft(nufft(locations, points), size)))
            }
            "interpolate" => {
                let (points, locations) = self.located(Scope::reals)?;
                let size = [locations.first().map_or(0, |(_, list)| list.len()), locations.len()];
                self.scope.near(place, size, 2.0)?;
                Ok(Value::Builder(Builder::Interpolate(interpolate(locations, points), size)))
            }
            "sampling" => {
                let (points, index) = self.located(Scope::wholes)?;
                Ok(Value::Builder(Builder::Sampling(sampling(index, points))))
            }
            "convolution" => {
                let [dims, kernel] = self.of("([DIM=SIZE, …], VALUES)")?;
                let Kind::List(list) = &dims.kind else {
                    return Err(dims.place.error("expected the sizes of the kernel, as `[x=3]`"));
                };
                let dims = self.pairs(list, Scope::size)?;
                let kernel = self.tensor(&dims, Dtype::F64, kernel)?;
                let names = dims.iter().map(|(name, _)| *name).collect_vec();
                Ok(Value::Builder(Builder::Convolution(convolution(names, &kernel))))
            }
            "finite_difference" => {
                let [dim, boundary] = self.of("(DIM, BOUNDARY)")?;
                let (dim, boundary) = (self.dim(dim)?, self.choice(boundary, BOUNDARIES)?);
                Ok(Value::Builder(Builder::Difference(finite_difference(dim, boundary))))
            }
            "gradient" => {
                let Some((name, dims)) = self.list.split_first() else {
                    return Err(self.written("(NAME, DIM, …)"));
                };
                Ok(Value::Builder(Builder::Gradient(gradient(self.dims(dims)?, self.dim(name)?))))
            }
            "vstack" | "hstack" => {
                let [dim, parts] = self.of("(DIM, [A, B])")?;
                let (dim, (parts, list)) = (self.dim(dim)?, self.parts(parts)?);
                let built = if self.name == "vstack" { vstack(dim, parts) } else { hstack(dim, parts) };
                self.scope.made(place, &list, built)
            }
            "block" => {
                let [out, into, parts] = self.of("(DIM, DIM, [A, B])")?;
                let (out, into, (parts, list)) = (self.dim(out)?, self.dim(into)?, self.parts(parts)?);
                self.scope.made(place, &list, block(out, into, parts))
            }
            "stack" => self.stack(),
            "block_diag" => {
                let [parts] = self.of("([A, B])")?;
                let (parts, list) = self.parts(parts)?;
                self.scope.made(place, &list, block_diag(parts))
            }
            "sum" | "tree_sum" => {
                let [parts] = self.of("([A, B])")?;
                let (parts, list) = self.parts(parts)?;
                let built = if self.name == "sum" { sum(parts) } else { tree_sum(parts) };
                self.scope.made(place, &list, built)
            }
            "ones" => {
                self.of::<0>("")?;
                Ok(Value::Values(Fill::Same(Complex64::new(1.0, 0.0))))
            }
            "fill" => {
                let [value] = self.of("(NUMBER)")?;
                Ok(Value::Values(Fill::Same(self.scope.number(value)?)))
            }
            "ramp" => {
                let [start, step] = self.of("(FIRST, STEP)")?;
                Ok(Value::Values(Fill::Ramp(self.scope.real(start)?, self.scope.real(step)?)))
            }
            "random" => {
                let [seed] = self.of("(SEED)")?;
                let seed =
                    u64::try_from(self.scope.whole(seed)?).map_err(|_| seed.place.error("a seed below 0"))?;
                Ok(Value::Values(Fill::Random(seed)))
            }
            _ => self.moved(),
        }
    }

    /// The functions that move elements, and what is left.
    fn moved(mut self) -> Result<Value, ScriptError> {
        match self.name {
            "rename" => {
                let mut pairs = Vec::new();
                for node in self.list {
                    let Kind::Pair(old, new) = &node.kind else {
                        return Err(node.place.error("expected the old name and the new one, as `x=y`"));
                    };
                    pairs.push((*old, self.dim(new)?));
                }
                movement(rename(pairs))
            }
            "permute" => movement(permute(self.dims(self.list)?)),
            "merge_dims" => {
                let [dims, into] = self.of("([DIM, …], DIM)")?;
                movement(merge_dims(self.dims(std::slice::from_ref(dims))?, self.dim(into)?))
            }
            "split_dim" => {
                let Some((dim, list)) = self.list.split_first() else {
                    return Err(self.written("(DIM, DIM=SIZE, …)"));
                };
                let dim = self.dim(dim)?;
                movement(split_dim(dim, self.pairs(list, Scope::size)?))
            }
            "slice" => {
                let (dim, range, step) = match self.list {
                    [dim, range] => (dim, range, 1),
                    [dim, range, step] => (dim, range, self.scope.size(step)?),
                    _ => return Err(self.written("(DIM, 0..8)` or `slice(DIM, 0..8, STEP)")),
                };
                let Kind::Range(ends) = &range.kind else {
                    return Err(range.place.error("expected a range, as `0..8`"));
                };
                let (lo, hi) = (self.scope.size(&ends[0])?, self.scope.size(&ends[1])?);
                movement(slice(self.dim(dim)?, lo..hi, step))
            }
            "select" => {
                let [dim, keep] = self.of("(DIM, [0, 2, 4..8])")?;
                movement(select(self.dim(dim)?, self.scope.wholes(keep)?))
            }
            "embed" => {
                let [dim, keep, n] = self.of("(DIM, [0, 2, 4..8], SIZE)")?;
                movement(embed(self.dim(dim)?, self.scope.wholes(keep)?, self.scope.size(n)?))
            }
            "roll" => {
                let [dim, by] = self.of("(DIM, INT)")?;
                movement(roll(self.dim(dim)?, self.scope.whole(by)?))
            }
            "pad" | "crop" | "repeat" => {
                let [dim, n] = self.of("(DIM, SIZE)")?;
                let (dim, n) = (self.dim(dim)?, self.scope.size(n)?);
                movement(match self.name {
                    "pad" => pad(dim, n),
                    "crop" => crop(dim, n),
                    _ => repeat(dim, n),
                })
            }
            "end_pad" => {
                let [dim, before, after] = self.of("(DIM, BEFORE, AFTER)")?;
                movement(end_pad(self.dim(dim)?, self.scope.size(before)?, self.scope.size(after)?))
            }
            "flip" => movement(flip(self.dims(self.list)?)),
            "sum_reduce" => movement(sum_reduce(self.dims(self.list)?)),
            "blocks" => {
                let windows = self.windows::<2>("(DIM=[BLOCK, STRIDE], …)")?;
                movement(blocks(windows.into_iter().map(|(dim, [block, stride])| (dim, block, stride))))
            }
            "unblocks" => {
                let windows = self.windows::<3>("(DIM=[SIZE, BLOCK, STRIDE], …)")?;
                let windows =
                    windows.into_iter().map(|(dim, [size, block, stride])| (dim, size, block, stride));
                movement(unblocks(windows))
            }
            _ => match self.list.split_first() {
                // `normal(A)` as well as `A.normal`
                Some((of, list)) if METHODS.contains(&self.name) => {
                    let value = self.scope.value(of)?;
                    Args { list, ..self }.method(of, value)
                }
                _ => Err(self.unknown()),
            },
        }
    }

    /// What no function and no name of the script is.
    fn unknown(&self) -> ScriptError {
        let name = self.name;
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return self.error(format!("`{name}` is no number"));
        }
        if self.scope.names.contains_key(name) {
            return self.error(format!("`{name}` is no function"));
        }
        let functions = if self.list.is_empty() { &["identity", "ones"] } else { FUNCTIONS };
        let methods = if self.list.is_empty() { &[] } else { METHODS };
        let brought = self.scope.rules.iter().map(|(name, _)| *name);
        let known = self.scope.names.keys().copied().chain(brought);
        let close = nearest(name, &mut known.chain(functions.iter().copied()).chain(methods.iter().copied()));
        let missing = if self.list.is_empty() { "is not defined" } else { "is no function" };
        self.error(match close {
            Some(close) => format!("`{name}` {missing}; did you mean `{close}`?"),
            None => format!("`{name}` {missing}"),
        })
    }

    /// Dimensions with `N` sizes each.
    fn windows<const N: usize>(&mut self, words: &str) -> Result<Pairs<'t, [i64; N]>, ScriptError> {
        let mut found = Vec::new();
        for (dim, list) in self.pairs(self.list, Scope::sizes)? {
            let sizes = list.try_into().map_err(|_| self.written(words))?;
            found.push((dim, sizes));
        }
        Ok(found)
    }

    /// `POINTS, DIM=[…], …`
    fn located<T>(
        &mut self,
        read: impl FnMut(&mut Scope<'t>, &'c Node<'t>) -> Result<T, ScriptError>,
    ) -> Result<(&'t str, Pairs<'t, T>), ScriptError> {
        let Some((points, list)) = self.list.split_first() else {
            return Err(self.written("(POINTS, DIM=[…], …)"));
        };
        Ok((self.dim(points)?, self.pairs(list, read)?))
    }

    /// Values for sized dimensions.
    fn tensor(
        &mut self,
        dims: &[(&str, i64)],
        dtype: Dtype,
        values: &Node<'t>,
    ) -> Result<Tensor, ScriptError> {
        if Space::MOST_DIMS < dims.len() {
            return Err(self.error(format!("more than {} dimensions", Space::MOST_DIMS)));
        }
        let space = Space::new(dims.iter().copied(), dtype).map_err(|e| self.error(e.to_string()))?;
        let list = self.scope.values(values, &space)?;
        Tensor::new(dims.iter().copied(), list).map_err(|e| Scope::fault(values, &e))
    }

    fn diagonal(&mut self) -> Result<Value, ScriptError> {
        let place = self.place;
        match self.list {
            [space, values] => {
                let space = self.scope.space(space)?;
                let list = self.scope.values(values, &space)?;
                let diagonal = Diagonal::new(space, list).map_err(|e| Scope::fault(values, &e))?;
                self.scope.made(place, &[], Ok(diagonal.into()))
            }
            [space, dims, values] => {
                let space = self.scope.space(space)?;
                let mut sized = Vec::new();
                for dim in self.dims(std::slice::from_ref(dims))? {
                    let name: Name = dim.parse().map_err(|_| self.error("no name"))?;
                    let size = space.size(&name).ok_or_else(|| {
                        dims.place.error(format!("{} has no dimension `{dim}`", space.sized()))
                    })?;
                    sized.push((dim, size));
                }
                let weights = self.tensor(&sized, space.dtype(), values)?;
                let diagonal = Diagonal::broadcast(space, &weights).map_err(|e| Scope::fault(values, &e))?;
                self.scope.made(place, &[], Ok(diagonal.into()))
            }
            _ => Err(self.written("(SPACE, VALUES)` or `diagonal(SPACE, [DIM, …], VALUES)")),
        }
    }

    fn dense(&mut self) -> Result<Value, ScriptError> {
        let [space, output, values] = self.of("(SPACE, [DIM=SIZE, …], VALUES)")?;
        let space = self.scope.space(space)?;
        let Kind::List(list) = &output.kind else {
            return Err(output.place.error("expected the dimensions of the result, as `[m=4]`"));
        };
        let (mut names, mut dims) = (Vec::new(), Vec::new());
        for node in list {
            if let Kind::Pair(name, size) = &node.kind {
                dims.push((*name, self.scope.size(size)?));
                names.push(*name);
            } else {
                names.push(self.dim(node)?);
            }
        }
        let texts =
            space.dims().iter().map(|(name, size)| (name.to_string(), name.clone(), *size)).collect_vec();
        let same = |name: &str, other: &Name| name.parse::<Name>().is_ok_and(|name| name == *other);
        for (text, name, size) in &texts {
            if !names.iter().any(|n| same(n, name)) {
                dims.push((text.as_str(), *size));
            }
        }
        let weights = self.tensor(&dims, space.dtype(), values)?;
        let dense = Dense::new(space, &weights, names);
        self.scope.made(self.place, &[], dense.map(Operator::from))
    }

    fn stack(&mut self) -> Result<Value, ScriptError> {
        let words = "([A, B], out=DIM)`, `stack([A, B], into=DIM)` or both";
        let Some((parts, sides)) = self.list.split_first() else {
            return Err(self.error(format!("`stack` is written `stack{words}")));
        };
        let (parts, list) = self.parts(parts)?;
        let (mut out, mut into) = (None, None);
        for side in sides {
            match &side.kind {
                Kind::Pair("out", dim) => out = Some((self.dim(dim)?, 0)),
                Kind::Pair("into", dim) => into = Some((self.dim(dim)?, 0)),
                _ => return Err(side.place.error(format!("`stack` is written `stack{words}"))),
            }
        }
        self.scope.made(self.place, &list, stack(out, into, parts))
    }
}
