//! Matrices and their kin: sums over named dimensions.

use num_complex::Complex64;

use crate::memory::Dtype;
use crate::op::error::listed;
use crate::op::leaf::check_values;
use crate::op::walk::walk;
use crate::op::{Along, LeafFacts, LeafOp, Name, OpError, Operator, Side, Space, Tags, Tensor, Tile, Work};
use crate::ordered::CollectVec;

/// Sums products over named dimensions: `y = sum w x` over the names that `w` and the input have and the output lacks.
///
/// | a name in | is |
/// |---|---|
/// | weights and input | summed over |
/// | weights and output | made |
/// | all three | a batch: every index has a matrix of its own |
/// | input and output | broadcast: every index has the same matrix |
///
/// The adjoint has `conj(w)` and the sides swapped, on the same storage. The normal is one `Dense` where its weights are not
/// more than those of `w`, else `A^H A`.
///
/// Shapes: domain, weights and codomain are what the names say; the type is that of the domain.
///
/// # Cost
/// One multiplication and addition for every index of all names together; no scratch.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Dense, Operator, Space, Tensor};
///
/// let w = Tensor::new([("m", 2), ("n", 3)], (1..=6).map(f64::from))?;
/// let a = Operator::from(Dense::new(Space::new([("b", 2), ("n", 3)], Dtype::F64)?, &w, ["b", "m"])?);
/// let x = Array::new(a.domain().clone(), [1.0, 10.0, 100.0, 0.0, 0.0, 1.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [321.0, 654.0, 3.0, 6.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    facts: LeafFacts,
    weights: Tensor,
}

/// A matrix: weights in row-major order of the names of the output, then of those of the input that the output lacks.
///
/// `sizes` says how long each name is.
///
/// # Errors
/// As [`Dense::new`]; [`OpError::UnsizedDim`] for a name without a size.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, dense};
/// let a = dense(["m"], ["n"], [("m", 2), ("n", 3)], (1..=6).map(f64::from), Dtype::F64)?;
/// let x = Array::new(a.domain().clone(), [1.0, 10.0, 100.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [321.0, 654.0]);
/// assert_eq!(a.normal().apply(&x)?.reals(), [2937.0, 3912.0, 4887.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn dense<'a, W: Into<Complex64>>(
    output: impl IntoIterator<Item = &'a str>,
    input: impl IntoIterator<Item = &'a str>,
    sizes: impl IntoIterator<Item = (&'a str, i64)>,
    weights: impl IntoIterator<Item = W>,
    dtype: Dtype,
) -> Result<Operator, OpError> {
    let (output, input): (Vec<&str>, Vec<&str>) =
        (output.into_iter().collect_vec(), input.into_iter().collect_vec());
    let mut known: Vec<(Name, i64)> = Vec::new();
    for (name, size) in sizes {
        known.push((name.parse()?, size));
    }
    let sized = |text: &&'a str| {
        let name: Name = text.parse()?;
        let size = known.iter().find(|(n, _)| *n == name).map(|k| k.1);
        let names = || known.iter().map(|k| k.0.clone()).collect_vec();
        size.map(|size| (*text, size)).ok_or_else(|| unsized_dim("W", name, &names()))
    };
    let inputs = input.iter().map(sized).try_collect_vec()?;
    let mut all = output.iter().map(sized).try_collect_vec()?;
    for &(name, size) in &inputs {
        let parsed: Name = name.parse()?;
        let made = output.iter().any(|o| o.parse() == Ok(parsed.clone()));
        if !made {
            all.push((name, size));
        }
    }
    let weights: Vec<Complex64> = weights.into_iter().map(Into::into).collect_vec();
    let all = Space::new(all, dtype)?;
    if i64::try_from(weights.len()) != Ok(all.elements()) {
        return Err(OpError::Values { values: weights.len(), space: Box::new(all) });
    }
    Ok(Dense::new(Space::new(inputs, dtype)?, &Tensor::of(&all, weights.into()), output)?.into())
}

fn unsized_dim(operator: &str, dim: Name, known: &[Name]) -> OpError {
    OpError::UnsizedDim { operator: operator.to_owned(), dim, known: listed(known) }
}

impl Dense {
    /// The operator that reads `domain` and writes the dimensions `output`.
    ///
    /// # Errors
    /// [`OpError::UnsizedDim`] for a name of the output that neither weights nor input have, [`OpError::SizeMismatch`] for one
    /// that both have in different sizes, [`OpError::UnknownDim`] for one that only the weights have, and
    /// [`OpError::SummedAlone`] for one of the input that neither weights nor output have.
    pub fn new<'a>(
        domain: Space,
        weights: &Tensor,
        output: impl IntoIterator<Item = &'a str>,
    ) -> Result<Dense, OpError> {
        let names = output.into_iter().map(str::parse).try_collect_vec()?;
        check_values("W", &weights.to_vec(), &domain)?;
        let weights = weights.map(|w| domain.round(w));
        Dense::of("W".to_owned(), domain, weights, &names)
    }

    pub(in crate::op) fn of(
        name: String,
        domain: Space,
        weights: Tensor,
        output: &[Name],
    ) -> Result<Dense, OpError> {
        if domain.members().is_some() {
            return Err(OpError::tuple(name));
        }
        let mut dims = Vec::new();
        for dim in output {
            let size = weights.size(dim).or_else(|| domain.size(dim));
            let known = || weights.dims().iter().chain(domain.dims()).map(|d| d.0.clone()).collect_vec();
            dims.push((dim.clone(), size.ok_or_else(|| unsized_dim(&name, dim.clone(), &known()))?));
        }
        let codomain = domain.with_dims(dims)?;
        for (dim, size) in weights.dims() {
            if domain.size(dim).is_some_and(|n| n != *size) {
                return Err(OpError::SizeMismatch {
                    dim: dim.clone(),
                    first: format!("the weights of `{name}`"),
                    second: domain.to_string(),
                    sizes: (*size, domain.size(dim).unwrap_or(0)),
                });
            }
            if domain.axis(dim).is_none() && codomain.axis(dim).is_none() {
                let known = domain.names().chain(codomain.names()).cloned().collect_vec();
                return Err(OpError::UnknownDim { operator: name, dim: dim.clone(), known });
            }
        }
        let lonely = |n: &&Name| weights.size(n).is_none() && codomain.axis(n).is_none();
        if let Some(dim) = domain.names().find(lonely) {
            return Err(OpError::SummedAlone { operator: name, dim: dim.clone() });
        }
        let flops =
            all_dims(&domain, &codomain).iter().map(|d| d.1.unsigned_abs()).fold(2, u64::saturating_mul);
        let real = weights.to_vec().iter().all(|w| w.im == 0.0);
        let facts = LeafFacts {
            tags: Tags { real, ..Tags::default() },
            work: Work::Weights(weights.clone()),
            flops,
            ..LeafFacts::new(name, domain, codomain)
        };
        Ok(Dense { facts, weights })
    }

    /// The same with another name in formulas and messages.
    #[must_use]
    pub fn named(mut self, name: &str) -> Dense {
        name.clone_into(&mut self.facts.name);
        self
    }

    /// The weights.
    pub fn weights(&self) -> &Tensor {
        &self.weights
    }

    /// `w^H w` on the side that is meant, with fresh names for what it makes.
    fn squared(&self, side: Side) -> Option<Operator> {
        let (reads, writes) = match side {
            Side::Forward => (&self.facts.domain, &self.facts.codomain),
            Side::Adjoint => (&self.facts.codomain, &self.facts.domain),
        };
        // Names of the weights that the normal sums over, reads and writes, or keeps as a batch.
        let has = |name: &Name| self.weights.size(name).is_some();
        let summed = |name: &Name| has(name) && reads.axis(name).is_none();
        let shared = |name: &Name| has(name) && writes.axis(name).is_some() && reads.axis(name).is_some();
        let size = |name: &Name| self.weights.size(name).unwrap_or(1);
        let mut avoid: Vec<Name> = reads.names().chain(writes.names()).cloned().collect_vec();
        let (mut dims, mut fresh) = (Vec::new(), Vec::new());
        for name in reads.names().filter(|n| has(n) && !shared(n)) {
            let new = name.next_unused(&avoid);
            avoid.push(new.clone());
            dims.push((new.clone(), size(name)));
            fresh.push((name.clone(), new));
        }
        let inner: Vec<(Name, i64)> = fresh.iter().map(|(n, _)| (n.clone(), size(n))).collect_vec();
        let batch: Vec<(Name, i64)> =
            reads.names().filter(|n| shared(n)).map(|n| (n.clone(), size(n))).collect_vec();
        let sums: Vec<(Name, i64)> =
            writes.names().filter(|n| summed(n)).map(|n| (n.clone(), size(n))).collect_vec();
        let made: Vec<(Name, i64)> = batch.into_iter().chain(dims).chain(inner).collect_vec();
        let space = reads.with_dims(made).ok()?;
        if space.elements() > self.weights.elements() {
            return None;
        }
        // v[batch, new, old] = sum over the summed names of conj(w[.., new]) w[.., old], for the forward side.
        let stride = |name: &Name, of_new: bool| {
            let renamed = fresh.iter().find(|(_, new)| new == name);
            match (renamed, of_new) {
                (Some((old, _)), true) => self.weights.stride_of(old),
                (Some(_), false) => 0,
                (None, true) if fresh.iter().any(|(old, _)| old == name) => 0,
                (None, _) => self.weights.stride_of(name),
            }
        };
        let all: Vec<(Name, i64)> = space.dims().iter().cloned().chain(sums).collect_vec();
        let shape: Vec<i64> = all.iter().map(|d| d.1).collect_vec();
        let strides = |of_new: bool| all.iter().map(|(n, _)| stride(n, of_new)).collect_vec();
        let writes_at: Vec<i64> =
            all.iter().map(|(n, _)| space.axis(n).map_or(0, |k| space.strides()[k])).collect_vec();
        let mut values = vec![Complex64::ZERO; space.len()];
        let storage = self.weights.storage();
        let start = [0, self.weights.offset(), self.weights.offset()];
        walk(&shape, [&writes_at, &strides(true), &strides(false)], start, |[v, new, old]| {
            values[v] += match side {
                Side::Forward => storage[new].conj() * storage[old],
                Side::Adjoint => storage[new] * storage[old].conj(),
            };
        });
        values.iter_mut().for_each(|v| *v = reads.round(*v));
        if !values.iter().all(|v| v.re.is_finite() && v.im.is_finite()) {
            return None;
        }
        let weights = Tensor::of(&space, values.into());
        let output: Vec<Name> = reads
            .names()
            .map(|n| fresh.iter().find(|(old, _)| old == n).map_or(n, |(_, new)| new).clone())
            .collect_vec();
        let name = match side {
            Side::Forward => format!("|{}|^2", self.facts.name),
            Side::Adjoint => format!("|{}^H|^2", self.facts.name),
        };
        let dense = Dense::of(name, reads.clone(), weights, &output).ok()?;
        let back = super::rename_back(&dense.facts.codomain, &fresh).ok()?;
        Some(Operator::join(vec![Operator::leaf(dense), back]))
    }
}

/// All names of both sides with their sizes.
fn all_dims(domain: &Space, codomain: &Space) -> Vec<(Name, i64)> {
    let mut all = codomain.dims().to_vec();
    all.extend(domain.dims().iter().filter(|(n, _)| codomain.axis(n).is_none()).cloned());
    all
}

impl LeafOp for Dense {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        let (domain, codomain) = (&self.facts.domain, &self.facts.codomain);
        let all = all_dims(domain, codomain);
        let shape: Vec<i64> = all.iter().map(|d| d.1).collect_vec();
        let of = |space: &Space| {
            let strides = space.strides();
            all.iter().map(|(n, _)| space.axis(n).map_or(0, |k| strides[k])).collect_vec()
        };
        let weights: Vec<i64> = all.iter().map(|(n, _)| self.weights.stride_of(n)).collect_vec();
        let storage = self.weights.storage();
        let start = [0, self.weights.offset(), 0];
        walk(&shape, [&of(domain), &weights, &of(codomain)], start, |[i, w, o]| match side {
            Side::Forward => y[o] += storage[w] * x[i],
            Side::Adjoint => y[i] += storage[w].conj() * x[o],
        });
    }

    fn normal(&self, side: Side) -> Option<Operator> {
        self.squared(side)
    }

    fn along(&self, dim: &Name) -> Along {
        Along::by_place(&self.facts.domain, &self.facts.codomain, dim)
    }

    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let output: Vec<Name> = self.facts.codomain.names().cloned().collect_vec();
        let (domain, weights) = (tile.space(&self.facts.domain), self.weights.cut(tile));
        // Names that only the output has are among the weights, which are cut too.
        Dense::of(self.facts.name.clone(), domain, weights, &output).ok().map(Operator::leaf)
    }
}

impl From<Dense> for Operator {
    fn from(dense: Dense) -> Operator {
        Operator::leaf(dense)
    }
}
