//! Rules for two neighbours of a chain; the first is applied first.

use num_complex::Complex64;

use super::{Cost, Known};
use crate::memory::Dtype;
use crate::op::Name;
use crate::op::eval::Array;
use crate::op::join::{Concat, Stack};
use crate::op::leaf::{Leaf, Linearity, Side};
use crate::op::leaves::{Dense, Diagonal, Fourier, Gather, combined, merged, weights_of};
use crate::op::operator::{Operator, Scale, Zero};
use crate::op::tensor::Tensor;
use crate::op::walk::walk;
use crate::op::{Along, Space, Tile};
use crate::ordered::CollectVec;

type Parts = Option<Vec<Operator>>;

fn leaf(a: &Operator) -> Option<&Leaf> {
    if let Operator::Leaf(leaf) = a { Some(leaf) } else { None }
}

fn leaves<'a>(a: &'a Operator, b: &'a Operator) -> Option<(&'a Leaf, &'a Leaf)> {
    Some((leaf(a)?, leaf(b)?))
}

fn identity(a: &Operator) -> Operator {
    Operator::Identity(a.domain().clone())
}

fn is_movement(a: &Leaf) -> bool {
    a.downcast::<Gather>().is_some()
}

pub(super) fn zeros(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let zero = |domain: &Operator, codomain: &Operator| {
        let (domain, codomain) = (domain.domain().clone(), codomain.codomain().clone());
        Some(vec![Operator::Zero(Zero { domain, codomain })])
    };
    match (a, b) {
        (Operator::ToDevice(_), _) | (_, Operator::ToDevice(_)) => None,
        (Operator::Zero(_), _) | (_, Operator::Zero(_)) => zero(a, b),
        _ => None,
    }
}

/// Whether products with this factor are exact.
fn exact(z: Complex64) -> bool {
    z.re * z.im == 0.0 && z.re.abs() + z.im.abs() == 1.0
}

pub(super) fn signs(a: &Operator, b: &Operator, _: &Known) -> Parts {
    match (a, b) {
        (Operator::Scale(a), Operator::Scale(b)) if exact(a.factor) && exact(b.factor) => {
            Some(vec![Operator::Scale(Scale::of(a.factor * b.factor, a.space.clone()))])
        }
        _ => None,
    }
}

/// `A` and then its adjoint.
fn and_back(a: &Operator, b: &Operator) -> bool {
    *b == a.adjoint()
}

pub(super) fn unitary_movement(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, _) = leaves(a, b)?;
    let exact = is_movement(first) || first.downcast::<Diagonal>().is_some();
    (exact && first.tags().isometry && and_back(a, b)).then(|| vec![identity(a)])
}

pub(super) fn unitary(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, second) = leaves(a, b)?;
    // Another object than the adjoint may be the same transform.
    let transforms = || first.downcast::<Fourier>().zip(second.downcast::<Fourier>());
    let alike = || {
        (first.side != second.side && first.conj == second.conj)
            && transforms().is_some_and(|(f, g)| f.alike(g))
    };
    (first.tags().isometry && (and_back(a, b) || alike())).then(|| vec![identity(a)])
}

/// A leaf and the inverse that was made of it.
pub(super) fn undone(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, second) = leaves(a, b)?;
    (a.domain() == b.codomain() && first.undone_by(second)).then(|| vec![identity(a)])
}

pub(super) fn idempotent(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, second) = leaves(a, b)?;
    if first != second {
        return None;
    }
    match first.tags() {
        tags if tags.involution => Some(vec![identity(a)]),
        tags if tags.idempotent => Some(vec![a.clone()]),
        _ => None,
    }
}

pub(super) fn movements(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, second) = leaves(a, b)?;
    merged(first, second).map(|one| vec![one])
}

/// The values that a movement makes of weights, as a diagonal on `on`.
fn carried(movement: &Operator, diagonal: &Leaf, on: &Operator) -> Option<Operator> {
    let weights = weights_of(diagonal)?;
    // Weights for every element, in double precision: moving them computes nothing.
    let wide = |a: &Operator| {
        let space = a.domain();
        crate::op::Space::named(space.dims().to_vec(), Dtype::C64).ok()
    };
    let all = weights.spread(diagonal.domain());
    let space = wide(movement)?;
    let moved = applied_wide(movement, &Array::new(space, all).ok()?)?;
    let target = on.domain();
    let tensor = Tensor::of(target, moved.into()).compact();
    Some(Diagonal::of(diagonal.to_string(), target.clone(), tensor).into())
}

/// A movement applied to values of a wider type than its own.
fn applied_wide(movement: &Operator, x: &Array) -> Option<Vec<Complex64>> {
    let leaf = leaf(movement)?;
    let mut y = vec![Complex64::ZERO; leaf.codomain().len()];
    leaf.op.apply(leaf.side, x.values(), &mut y);
    Some(y)
}

pub(super) fn restricted(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, second) = leaves(a, b)?;
    let fewer = |a: &Operator| a.codomain().elements() < a.domain().elements();
    // A movement, or the adjoint of one that takes no element twice: either way each element comes from one place.
    let injective = |l: &Leaf| l.op.facts().tags.isometry || l.op.facts().tags.coisometry;
    let single = |l: &Leaf| is_movement(l) && (l.side == Side::Forward || injective(l));
    // S D = D' S: each element that is kept has its own weight.
    if first.downcast::<Diagonal>().is_some() && single(second) && fewer(b) {
        let on = Operator::Identity(b.codomain().clone());
        return Some(vec![b.clone(), carried(b, first, &on)?]);
    }
    // D P = P D': zeros stay zeros.
    let back = a.adjoint();
    if second.downcast::<Diagonal>().is_some() && is_movement(first) && injective(first) && fewer(&back) {
        let on = Operator::Identity(a.domain().clone());
        return Some(vec![carried(&back, second, &on)?, a.clone()]);
    }
    None
}

/// A dimension and the ranges of parts along it.
type Partition = (Option<Name>, Vec<(i64, i64)>);

/// How a join reads or writes: along which dimension and in which ranges.
fn partition(a: &Operator, output: bool) -> Option<Partition> {
    match a {
        Operator::Concat(c) => {
            let dim = if output { c.odim() } else { c.idim() };
            Some((dim.cloned(), c.ranges(output).unwrap_or_default()))
        }
        Operator::Stack(s) => {
            let dim = if output { s.odim() } else { s.idim() };
            Some((dim.cloned(), Vec::new()))
        }
        Operator::BlockDiag(_) => Some((None, Vec::new())),
        _ => None,
    }
}

pub(super) fn block_products(a: &Operator, b: &Operator, known: &Known) -> Parts {
    let n = a.children().len();
    if n != b.children().len() {
        return None;
    }
    let products = || {
        let pairs = a.children().iter().zip(b.children());
        pairs.map(|(p, q)| Operator::join(vec![p.clone(), q.clone()])).collect_vec()
    };
    let fits = || a.children().iter().zip(b.children()).all(|(p, q)| p.codomain() == q.domain());
    match (a, b) {
        (Operator::BlockDiag(_), Operator::BlockDiag(_)) if fits() => {
            Operator::blocks(products()).ok().map(|one| vec![one])
        }
        (Operator::Concat(_) | Operator::Stack(_), Operator::Concat(_) | Operator::Stack(_)) => {
            let (written, read) = (partition(a, true)?, partition(b, false)?);
            if written.0.is_none() || written != read || !fits() {
                return None;
            }
            let products = products();
            // Products that are added up would be flattened where they are sums, and added in another order.
            let adds = |p: &Operator| match p {
                Operator::Sum(_) => true,
                Operator::Concat(c) => c.odim().is_none(),
                _ => false,
            };
            let added = partition(b, true).is_some_and(|(dim, _)| dim.is_none());
            if known.exact && added && products.iter().skip(1).any(adds) {
                return None;
            }
            joined_products(a, b, products)
        }
        _ => None,
    }
}

/// The products of parts, joined as the first reads and the second writes.
fn joined_products(a: &Operator, b: &Operator, products: Vec<Operator>) -> Parts {
    let one = match (a, b) {
        (Operator::Concat(first), Operator::Concat(second)) => concat_products(first, second, products),
        (Operator::Stack(first), Operator::Stack(second)) => stack_products(first, second, products),
        _ => None,
    };
    one.map(|one| vec![one])
}

fn concat_products(first: &Concat, second: &Concat, products: Vec<Operator>) -> Option<Operator> {
    let tree = first.tree() || second.tree();
    match (second.odim(), first.idim()) {
        (None, None) => Some(Operator::added(products, tree)),
        (odim, idim) => Operator::concatenated(odim.cloned(), idim.cloned(), products, tree).ok(),
    }
}

fn stack_products(first: &Stack, second: &Stack, products: Vec<Operator>) -> Option<Operator> {
    match (second.slot(true), first.slot(false)) {
        (None, None) => Some(Operator::added(products, false)),
        (out, into) => Operator::stacked(out, into, products).ok(),
    }
}

pub(super) fn powers(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let split = |a: &Operator| match a {
        Operator::Power(power) => (power.base().clone(), power.exponent()),
        a => (a.clone(), 1),
    };
    let ((base, m), (other, n)) = (split(a), split(b));
    let square = base.domain() == base.codomain() && base == other;
    let trivial = matches!(base, Operator::ToDevice(_) | Operator::Identity(_) | Operator::Scale(_));
    (square && !trivial).then(|| Some(vec![Operator::power(base, m.checked_add(n)?)]))?
}

/// Whether a factor may pass an operator.
pub(super) fn passes(factor: Complex64, a: &Operator) -> bool {
    let same_field = a.domain().dtype() == a.codomain().dtype();
    same_field && (factor.im == 0.0 || a.linearity() == Linearity::Complex)
}

pub(super) fn scale_into(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let into = |scale: &Scale, diagonal: &Leaf| {
        let weights = weights_of(diagonal)?;
        let name = format!("({} {diagonal})", scale.number());
        let one = Tensor::scalar(scale.factor);
        combined(name, diagonal.domain(), [&one, &weights], |a, w| a * w).map(|d| vec![d])
    };
    match (a, b) {
        (Operator::Scale(scale), Operator::Leaf(leaf)) | (Operator::Leaf(leaf), Operator::Scale(scale)) => {
            into(scale, leaf)
        }
        _ => None,
    }
}

pub(super) fn scale_smaller(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let on = |factor: Complex64, space: &Space| Operator::Scale(Scale::of(factor, space.clone()));
    match (a, b) {
        (Operator::Scale(s), b) if passes(s.factor, b) && b.codomain().elements() < b.domain().elements() => {
            Some(vec![b.clone(), on(s.factor, b.codomain())])
        }
        (a, Operator::Scale(s)) if passes(s.factor, a) && a.domain().elements() < a.codomain().elements() => {
            Some(vec![on(s.factor, a.domain()), a.clone()])
        }
        _ => None,
    }
}

/// Whether two weights together have as many values as one for both: those of different dimensions have fewer.
pub(super) fn no_larger(v: &Tensor, w: &Tensor) -> bool {
    let rest = w.dims().iter().filter(|(name, _)| v.size(name).is_none());
    let both = rest.map(|dim| dim.1).try_fold(v.elements(), i64::checked_mul);
    both.is_some_and(|both| both <= v.elements().saturating_add(w.elements()))
}

pub(super) fn diagonals(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, second) = leaves(a, b)?;
    let (v, w) = (weights_of(first)?, weights_of(second)?);
    no_larger(&v, &w).then(|| one_diagonal(first, second, [&w, &v]))?
}

/// As [`diagonals`], with weights that depend on the dimensions of both.
pub(super) fn outer_diagonals(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, second) = leaves(a, b)?;
    one_diagonal(first, second, [&weights_of(second)?, &weights_of(first)?])
}

fn one_diagonal(first: &Leaf, second: &Leaf, weights: [&Tensor; 2]) -> Parts {
    combined(format!("({second} {first})"), first.domain(), weights, |w, v| w * v).map(|d| vec![d])
}

pub(super) fn fast_normal(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, _) = leaves(a, b)?;
    if !and_back(a, b) {
        return None;
    }
    crate::op::normal::leaf_normal(first)
        .map(|normal| normal.parts().to_vec())
        .filter(|parts| !parts.is_empty())
}

/// How many columns a product of matrices may have: each is one apply.
const MOST_COLUMNS: i64 = 4096;

pub(super) fn premultiplied(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (first, second) = leaves(a, b)?;
    let dense = |l: &Leaf| l.downcast::<Dense>().map(|d| d.weights().clone());
    let weights = |l: &Leaf| dense(l).or_else(|| l.downcast::<Diagonal>().map(|d| d.weights().clone()));
    let (w, v) = (weights(first)?, weights(second)?);
    if dense(first).is_none() && dense(second).is_none() {
        return None;
    }
    let (reads, writes) = (a.domain(), b.codomain());
    let shared = |name: &&Name| reads.axis(name).is_some() && writes.axis(name).is_some();
    let pointwise = |name: &Name| [a, b].iter().all(|part| part.along(name) == Along::Pointwise);
    // A name that goes in and comes out and is another one in between would be read as a batch.
    if !reads.names().filter(shared).all(pointwise) {
        return None;
    }
    // Where every index has the same matrix, one of them shows it.
    let alike = |name: &&Name| shared(name) && w.size(name).is_none() && v.size(name).is_none();
    let tile = reads.names().filter(alike).fold(Tile::default(), |tile, name| tile.with(name, (0, 1)));
    if reads.names().filter(alike).any(|name| reads.size(name) == Some(0)) {
        return None;
    }
    let dims = |space: &Space, wanted: &dyn Fn(&Name) -> bool| {
        space.dims().iter().filter(|(n, _)| wanted(n)).cloned().collect_vec()
    };
    let batch = dims(writes, &|n| shared(&n) && !alike(&n));
    let (rows, columns) = (dims(writes, &|n| !shared(&n)), dims(reads, &|n| !shared(&n)));
    let space = |dims: Vec<(Name, i64)>| reads.with_dims(dims).ok();
    let product = space([&batch[..], &rows, &columns].concat())?;
    let inner = space(columns)?;
    if product.elements() > w.elements().checked_add(v.elements())? || inner.elements() > MOST_COLUMNS {
        return None;
    }
    let both = Operator::join(vec![a.cut(&tile).ok()?, b.cut(&tile).ok()?]);
    let (reads_one, writes_one) = (both.domain(), both.codomain());
    // Where in the product the rows of one column are, and where in the input that column is.
    let strides = |of: &Space, on: &Space| -> Vec<i64> {
        on.names().map(|n| of.axis(n).map_or(0, |k| of.strides()[k])).collect_vec()
    };
    let mut values = vec![Complex64::ZERO; product.len()];
    for j in 0..inner.len() {
        let mut x = vec![Complex64::ZERO; reads_one.len()];
        let at = [0, 0];
        walk(
            &reads_one.shape(),
            [&reads_one.strides(), &strides(&inner, reads_one)],
            at,
            |[x_at, column]| {
                x[x_at] = Complex64::from(f64::from(u8::from(column == j)));
            },
        );
        let y = both.apply(&Array::new(reads_one.clone(), x).ok()?).ok()?;
        let at = [0, i64::try_from(j).ok()?];
        walk(
            &writes_one.shape(),
            [&writes_one.strides(), &strides(&product, writes_one)],
            at,
            |[y_at, to]| {
                values[to] = y.values()[y_at];
            },
        );
    }
    let finite = values.iter().all(|v| v.re.is_finite() && v.im.is_finite());
    let product = finite.then(|| Tensor::of(&product, values.into()))?;
    let output: Vec<Name> = writes.names().cloned().collect_vec();
    let one = Dense::of(format!("({second} {first})"), reads.clone(), product, &output).ok()?;
    let one = Operator::leaf(one);
    let before = Cost::of(&[a.clone(), b.clone()]);
    (one.cost().flops <= before.flops).then(|| vec![one])
}
