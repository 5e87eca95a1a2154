//! An expression as steps: what each kernel reads and writes, before buffers have places.
//!
//! Neighbours that work element by element are one step, as are neighbours of a few elements, and a Fourier transform with weights
//! and its inverse behind it.
//! Parts of joins write straight where their result belongs.

use num_complex::{Complex, Complex64};
use spanlift::op::{
    Concat, Convolve, Dense, Diagonal, Fourier, Gather, Leaf, Name, Operator, Side, Space, Sparse, Stack,
    Work,
};

use super::fourier::{Line, Passes, RealPasses};
use super::halves::Halves;
use super::kernel::{Add, Blocks, Fill, Foreign, Kernel};
use super::matrix::{Seen, matrix};
use super::product::{Act, Product, Weights};
use super::real::{Element, Real};
use super::short::{self, Made, short};
use super::table::Table;

/// A part of a buffer; all in real numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    pub(super) buffer: usize,
    pub(super) at: usize,
    pub(super) len: usize,
}

/// One kernel with what it reads and writes.
pub(super) struct Step<R> {
    pub(super) kernel: Box<dyn Kernel<R>>,
    pub(super) reads: View,
    pub(super) writes: View,
    /// Whether what is written was there before and is read too.
    pub(super) adds: bool,
}

/// The buffer of the input.
pub(super) const INPUT: usize = 0;
/// The buffer of the result.
pub(super) const OUTPUT: usize = 1;

/// Steps and how long their buffers are; the first two are input and output.
pub(super) struct Steps<R> {
    pub(super) steps: Vec<Step<R>>,
    pub(super) lens: Vec<usize>,
    /// Matrices whose weights several steps share.
    matrices: Seen,
}

/// A size as a length.
pub(super) fn len(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Elements from one index to the next along each dimension.
pub(super) fn strides(space: &Space) -> Vec<usize> {
    let mut strides = vec![1; space.dims().len()];
    for k in (1..strides.len()).rev() {
        strides[k - 1] = strides[k] * len(space.dims()[k].1).max(1);
    }
    strides
}

/// Elements of a space.
fn count(space: &Space) -> usize {
    len(space.elements())
}

/// Real numbers of a space.
pub(super) fn reals(space: &Space) -> usize {
    count(space) * if space.is_complex() { 2 } else { 1 }
}

/// What stands in a chain, with neighbours that work element by element as one.
enum Atom<'a> {
    Product(Vec<Factor<'a>>),
    Weighted(&'a Leaf, Vec<Factor<'a>>),
    /// Several products and matrices of a few elements.
    Short(Vec<Piece<'a>>),
    Other(&'a Operator),
}

/// A part of [`Atom::Short`].
#[derive(Clone, Copy)]
enum Piece<'a> {
    /// A factor of so many elements.
    Factor(Factor<'a>, usize),
    Matrix(&'a Leaf, &'a Dense),
}

/// One of the factors that an element is multiplied with.
#[derive(Clone, Copy)]
enum Factor<'a> {
    Scale(Complex64),
    Diagonal(&'a Leaf),
}

impl<R: Real> Steps<R>
where
    Complex<R>: Element<Real = R>,
{
    pub(super) fn of(a: &Operator) -> Steps<R> {
        let lens = vec![reals(a.domain()), reals(a.codomain())];
        let mut steps = Steps { steps: Vec::new(), lens, matrices: Seen::default() };
        let (x, y) = (steps.whole(INPUT), steps.whole(OUTPUT));
        steps.lower(a, x, y);
        steps
    }

    fn whole(&self, buffer: usize) -> View {
        View { buffer, at: 0, len: self.lens[buffer] }
    }

    fn fresh(&mut self, space: &Space) -> View {
        self.lens.push(reals(space));
        self.whole(self.lens.len() - 1)
    }

    fn push(&mut self, kernel: impl Kernel<R> + 'static, reads: View, writes: View) {
        self.step(Box::new(kernel), reads, writes, false);
    }

    fn step(&mut self, kernel: Box<dyn Kernel<R>>, reads: View, writes: View, adds: bool) {
        match (reads.len, writes.len) {
            (_, 0) => {}
            (0, _) if adds => {}
            (0, _) => self.steps.push(Step { kernel: Box::new(Fill), reads, writes, adds }),
            _ => self.steps.push(Step { kernel, reads, writes, adds }),
        }
    }

    /// `y = A x`
    fn lower(&mut self, a: &Operator, x: View, y: View) {
        let atoms = joined(atoms(a), a.domain());
        let Some((last, first)) = atoms.split_last() else {
            return self.push(Blocks::whole(x.len), x, y);
        };
        let mut at = x;
        let mut space = a.domain().clone();
        for atom in first {
            space = atom.codomain(&space);
            let next = self.fresh(&space);
            self.atom(atom, &space, at, next);
            at = next;
        }
        self.atom(last, a.codomain(), at, y);
    }

    /// One step of a chain; `space` is what it writes.
    fn atom(&mut self, atom: &Atom, space: &Space, x: View, y: View) {
        match atom {
            Atom::Product(factors) => {
                let kernel = elementwise(std::slice::from_ref(factors), space, false);
                self.step(kernel, x, y, false);
            }
            Atom::Weighted(leaf, factors) => {
                let lines = lines_of(leaf);
                let n = count(space);
                let span = lines.iter().map(|l| l.n * l.inner).max().unwrap_or(1);
                let period = period(factors, leaf.codomain());
                let period = if period.is_multiple_of(span) { period } else { n };
                let weights = combined(factors, period);
                self.push(Passes::<R>::weighted(&lines, is_inverse(leaf), n, &weights), x, y);
            }
            Atom::Short(pieces) if space.is_complex() => {
                self.step(few::<Complex<R>>(pieces), x, y, false);
            }
            Atom::Short(pieces) => self.step(few::<R>(pieces), x, y, false),
            Atom::Other(a) => self.operator(a, x, y),
        }
    }

    /// Anything but a chain.
    fn operator(&mut self, a: &Operator, x: View, y: View) {
        match a {
            Operator::Leaf(leaf) if leaf.domain().is_complex() || leaf.codomain().is_complex() => {
                let kernel = self.leaf::<Complex<R>>(leaf);
                self.step(kernel, x, y, false);
            }
            Operator::Leaf(leaf) => {
                let kernel = self.leaf::<R>(leaf);
                self.step(kernel, x, y, false);
            }
            Operator::Sum(sum) => self.sum(sum.parts(), sum.tree(), x, y),
            Operator::Concat(concat) => self.concat(concat, x, y),
            Operator::Stack(stack) => self.stack(stack, x, y),
            Operator::BlockDiag(blocks) => {
                let (mut from, mut to) = (x.at, y.at);
                for part in blocks.parts() {
                    let (n, m) = (reals(part.domain()), reals(part.codomain()));
                    self.lower(part, View { at: from, len: n, ..x }, View { at: to, len: m, ..y });
                    (from, to) = (from + n, to + m);
                }
            }
            Operator::Zero(_) => self.push(Fill, View { len: 0, ..x }, y),
            // Whatever is made of others only passes through `lower`.
            _ => self.lower(a, x, y),
        }
    }

    fn leaf<E: Element<Real = R>>(&mut self, leaf: &Leaf) -> Box<dyn Kernel<R>> {
        let (reads, writes) = (leaf.domain(), leaf.codomain());
        let conj = (leaf.side == Side::Adjoint) != leaf.conj;
        let turned = move |w: Complex64| if conj { w.conj() } else { w };
        let is_adjoint = leaf.side == Side::Adjoint;
        if let Some(table) = moves::<E>(leaf) {
            return Box::new(table);
        }
        if let Some(dense) = leaf.downcast::<Dense>() {
            return matrix::<E>(leaf, dense, &mut self.matrices);
        }
        if let Some(sparse) = leaf.downcast::<Sparse>() {
            return Box::new(Table::<E>::of_entries(count(writes), |f| {
                sparse.each(|to, from, w| {
                    f(if is_adjoint { (from, to, w.into()) } else { (to, from, w.into()) })
                });
            }));
        }
        if let Some(convolve) = leaf.downcast::<Convolve>() {
            let kernel = convolve.kernel().storage();
            return Box::new(Table::<E>::of_entries(count(writes), |f| {
                convolve.each(|to, from, h| {
                    let w = turned(kernel[h]);
                    f(if is_adjoint { (from, to, w) } else { (to, from, w) });
                });
            }));
        }
        if leaf.downcast::<Fourier>().is_some() {
            return fourier(leaf);
        }
        let sizes = (count(reads), count(writes));
        match (reads.is_complex(), writes.is_complex()) {
            (false, false) => Box::new(Foreign::<R, R>::new(leaf, sizes)),
            (false, true) => Box::new(Foreign::<R, Complex<R>>::new(leaf, sizes)),
            (true, false) => Box::new(Foreign::<Complex<R>, R>::new(leaf, sizes)),
            (true, true) => Box::new(Foreign::<Complex<R>, Complex<R>>::new(leaf, sizes)),
        }
    }

    /// `y = A_1 x + A_2 x + ...`, in the order of the sum.
    fn sum(&mut self, parts: &[Operator], is_tree: bool, x: View, y: View) {
        let products: Option<Vec<Vec<Factor>>> = parts.iter().map(factors).collect();
        if let (Some(terms), false) = (products, is_tree) {
            let kernel = elementwise(&terms, parts[0].codomain(), false);
            return self.step(kernel, x, y, false);
        }
        let terms: Vec<(&Operator, View)> = parts.iter().map(|part| (part, x)).collect();
        self.total(&terms, is_tree, y);
    }

    /// `y = A_1 x_1 + A_2 x_2 + ...`
    fn total(&mut self, terms: &[(&Operator, View)], is_tree: bool, y: View) {
        let (first, rest) = match terms {
            [] => return,
            [(a, x)] => return self.lower(a, *x, y),
            // The tree of `n` terms joins that of the largest power of two below `n` with that of the rest.
            _ if is_tree => terms.split_at(terms.len().next_power_of_two() / 2),
            _ => terms.split_at(terms.len() - 1),
        };
        self.total(first, is_tree, y);
        if let [(a, x)] = rest
            && let Some(factors) = factors(a)
        {
            let kernel = elementwise(&[factors], a.codomain(), true);
            return self.step(kernel, *x, y, true);
        }
        let term = self.fresh(rest[0].0.codomain());
        self.total(rest, is_tree, term);
        self.step(Box::new(Add), term, y, true);
    }

    fn concat(&mut self, concat: &Concat, x: View, y: View) {
        let ranges = |output| concat.ranges(output).unwrap_or_default();
        let reads = concat.idim().and_then(|d| concat.domain().axis(d));
        let writes = concat.odim().and_then(|d| concat.codomain().axis(d));
        let (inputs, outputs) = (ranges(false), ranges(true));
        self.side_by_side(
            concat.parts(),
            (concat.domain(), reads, &inputs),
            (concat.codomain(), writes, &outputs),
            x,
            y,
        );
    }

    fn stack(&mut self, stack: &Stack, x: View, y: View) {
        let slots: Vec<(i64, i64)> = (0..).map(|k| (k, k + 1)).take(stack.parts().len()).collect();
        let reads = stack.slot(false).map(|s| s.1);
        let writes = stack.slot(true).map(|s| s.1);
        self.side_by_side(
            stack.parts(),
            (stack.domain(), reads, &slots),
            (stack.codomain(), writes, &slots),
            x,
            y,
        );
    }

    /// Parts that read and write their own ranges along an axis, where there is one.
    fn side_by_side(
        &mut self,
        parts: &[Operator],
        (domain, reads, inputs): (&Space, Option<usize>, &[(i64, i64)]),
        (codomain, writes, outputs): (&Space, Option<usize>, &[(i64, i64)]),
        x: View,
        y: View,
    ) {
        let mut terms = Vec::new();
        for (k, part) in parts.iter().enumerate() {
            let own = match reads {
                Some(axis) => self.take(domain, axis, inputs[k], part.domain(), x),
                None => x,
            };
            match writes {
                Some(axis) => self.put(part, own, (codomain, axis, outputs[k]), y),
                None => terms.push((part, own)),
            }
        }
        self.total(&terms, false, y);
    }

    /// The part of `x` with an index in `range` along an axis.
    fn take(&mut self, space: &Space, axis: usize, range: (i64, i64), part: &Space, x: View) -> View {
        let blocks = Ranges::of(space, axis, range);
        if blocks.count == 1 {
            return View { at: x.at + blocks.first, len: blocks.width, ..x };
        }
        let own = self.fresh(part);
        let Ranges { count, width, first, row } = blocks;
        self.push(Blocks { count, width, from: (first, row), to: (0, width) }, x, own);
        own
    }

    /// Writes `A x` at the indices in `range` along an axis of `y`.
    fn put(&mut self, a: &Operator, x: View, (space, axis, range): (&Space, usize, (i64, i64)), y: View) {
        let blocks = Ranges::of(space, axis, range);
        if blocks.width == 0 {
            // A result without elements goes nowhere: what others write stays.
            return;
        }
        if blocks.count == 1 {
            return self.lower(a, x, View { at: y.at + blocks.first, len: blocks.width, ..y });
        }
        let own = self.fresh(a.codomain());
        self.lower(a, x, own);
        let Ranges { count, width, first, row } = blocks;
        self.push(Blocks { count, width, from: (0, width), to: (first, row) }, own, y);
    }
}

/// Where the elements with an index in a range along an axis lie: blocks of `width`, one in each `row`.
struct Ranges {
    count: usize,
    width: usize,
    first: usize,
    row: usize,
}

impl Ranges {
    fn of(space: &Space, axis: usize, (lo, hi): (i64, i64)) -> Ranges {
        let each = if space.is_complex() { 2 } else { 1 };
        let shape: Vec<usize> = space.dims().iter().map(|d| len(d.1)).collect();
        let inner = shape[axis + 1..].iter().product::<usize>() * each;
        let count = shape[..axis].iter().product();
        Ranges { count, width: len(hi - lo) * inner, first: len(lo) * inner, row: shape[axis] * inner }
    }
}

impl<'a> Atom<'a> {
    /// Its pieces, where all of them are of a few elements.
    fn pieces(&self, domain: &Space) -> Option<Vec<Piece<'a>>> {
        let n = domain.elements();
        match self {
            Atom::Product(factors) if (1..=short::MOST).contains(&n) => {
                Some(factors.iter().map(|factor| Piece::Factor(*factor, len(n))).collect())
            }
            Atom::Other(a) => short::matrix(a).map(|(leaf, dense)| vec![Piece::Matrix(leaf, dense)]),
            _ => None,
        }
    }

    fn codomain(&self, domain: &Space) -> Space {
        match self {
            Atom::Product(_) => domain.clone(),
            Atom::Weighted(leaf, _) => leaf.domain().clone(),
            Atom::Short(pieces) => {
                let mut matrices = pieces.iter().rev().filter_map(|piece| match piece {
                    Piece::Matrix(leaf, _) => Some(leaf.codomain()),
                    Piece::Factor(..) => None,
                });
                matrices.next().unwrap_or(domain).clone()
            }
            Atom::Other(a) => a.codomain().clone(),
        }
    }
}

/// The parts of a chain, those of chains and powers in it too.
fn flat<'a>(a: &'a Operator, parts: &mut Vec<&'a Operator>) {
    match a {
        Operator::Chain(chain) => chain.parts().iter().for_each(|part| flat(part, parts)),
        Operator::Power(power) => (0..power.exponent()).for_each(|_| flat(power.base(), parts)),
        _ => parts.push(a),
    }
}

/// The operator as factors, where it works element by element.
fn factor(a: &Operator) -> Option<Vec<Factor<'_>>> {
    match a {
        Operator::Identity(_) | Operator::ToDevice(_) => Some(Vec::new()),
        Operator::Scale(scale) => Some(vec![Factor::Scale(scale.factor())]),
        Operator::Leaf(leaf) => {
            let is_diagonal = matches!(leaf.op.facts().work, Work::Multiply(_));
            if is_diagonal || leaf.downcast::<Diagonal>().is_some() {
                return Some(vec![Factor::Diagonal(leaf)]);
            }
            // Renamed and reshaped data lies where it lay; the beginning of something longer does not.
            if leaf.domain().elements() != leaf.codomain().elements() {
                return None;
            }
            let table = moves::<f32>(leaf)?;
            table.is_trivial(count(leaf.codomain())).then(Vec::new)
        }
        _ => None,
    }
}

/// The same for a whole chain.
fn factors(a: &Operator) -> Option<Vec<Factor<'_>>> {
    let mut parts = Vec::new();
    flat(a, &mut parts);
    let all = parts.into_iter().map(factor).collect::<Option<Vec<_>>>()?;
    Some(all.concat())
}

fn atoms(a: &Operator) -> Vec<Atom<'_>> {
    let mut parts = Vec::new();
    flat(a, &mut parts);
    let mut atoms: Vec<Atom> = Vec::new();
    for part in parts {
        let Some(more) = factor(part) else {
            atoms.push(Atom::Other(part));
            continue;
        };
        match atoms.last_mut() {
            _ if more.is_empty() => {}
            Some(Atom::Product(factors)) => factors.extend(more),
            _ => atoms.push(Atom::Product(more)),
        }
    }
    // A transform, weights and the way back are one.
    let mut k = 0;
    while k + 2 < atoms.len() {
        if let (Atom::Other(there), Atom::Product(factors), Atom::Other(back)) =
            (&atoms[k], &atoms[k + 1], &atoms[k + 2])
            && let Some(leaf) = there_and_back(there, back)
        {
            let weighted = Atom::Weighted(leaf, factors.clone());
            atoms.splice(k..k + 3, [weighted]);
        }
        k += 1;
    }
    atoms
}

/// The same with neighbours of a few elements as one.
fn joined<'a>(atoms: Vec<Atom<'a>>, domain: &Space) -> Vec<Atom<'a>> {
    let mut space = domain.clone();
    let mut out: Vec<Atom> = Vec::new();
    // The pieces of the last of `out`, where that is none of several.
    let mut single: Option<Vec<Piece>> = None;
    for atom in atoms {
        let pieces = atom.pieces(&space);
        space = atom.codomain(&space);
        match (pieces, out.last_mut(), single.take()) {
            (Some(more), Some(Atom::Short(all)), _) => all.extend(more),
            (Some(more), Some(last), Some(mut all)) => {
                all.extend(more);
                *last = Atom::Short(all);
            }
            (pieces, ..) => {
                out.push(atom);
                single = pieces;
            }
        }
    }
    out
}

/// The kernel of pieces.
fn few<E: Element>(pieces: &[Piece<'_>]) -> Box<dyn Kernel<E::Real>> {
    let size = |piece: &Piece| match piece {
        Piece::Factor(_, n) => *n,
        Piece::Matrix(leaf, _) => count(leaf.domain()).max(count(leaf.codomain())),
    };
    let made = pieces.iter().map(|piece| match *piece {
        Piece::Factor(Factor::Scale(a), n) => Made::Weights(vec![E::of(a); n]),
        Piece::Factor(Factor::Diagonal(leaf), n) => {
            Made::Weights(weights_of(leaf, n).into_iter().map(E::of).collect())
        }
        Piece::Matrix(leaf, dense) => Made::Matrix(leaf, dense),
    });
    short(pieces.iter().map(size).max().unwrap_or(1), made.collect())
}

/// The first of two complex transforms that undo each other.
fn there_and_back<'a>(there: &'a Operator, back: &Operator) -> Option<&'a Leaf> {
    let (Operator::Leaf(there), Operator::Leaf(back)) = (there, back) else { return None };
    let (a, b) = (there.downcast::<Fourier>()?, back.downcast::<Fourier>()?);
    let mut lines = (lines_of(there), lines_of(back));
    lines.0.sort_by_key(|l| l.inner);
    lines.1.sort_by_key(|l| l.inner);
    let is_complex = there.domain().is_complex() && there.codomain().is_complex();
    let same = lines.0 == lines.1 && a.centered() == b.centered() && !lines.0.is_empty();
    (is_complex && same && is_inverse(there) != is_inverse(back)).then_some(there)
}

/// The table of a movement.
fn moves<E: Element>(leaf: &Leaf) -> Option<Table<E>> {
    let gather = leaf.downcast::<Gather>()?;
    let is_adjoint = leaf.side == Side::Adjoint;
    Some(Table::of_moves(count(leaf.codomain()), |f| {
        gather.each(|to, from| if is_adjoint { f(from, to) } else { f(to, from) });
    }))
}

/// Where the lines of a transform lie, in the space of the data that is transformed.
fn lines_of(leaf: &Leaf) -> Vec<Line> {
    let Some(fourier) = leaf.downcast::<Fourier>() else { return Vec::new() };
    let domain = &leaf.op.facts().domain;
    let strides = strides(domain);
    let line = |name: &Name| {
        let axis = domain.axis(name)?;
        let n = len(domain.dims()[axis].1);
        Some(Line { n, inner: strides[axis], origin: if fourier.centered() { n / 2 } else { 0 } })
    };
    fourier.dims().into_iter().filter_map(|(name, _)| line(name)).collect()
}

/// Whether the sign of the exponent is positive: the conjugate of a transform is its inverse.
fn is_inverse(leaf: &Leaf) -> bool {
    (leaf.side == Side::Adjoint) != leaf.conj
}

fn fourier<R: Real>(leaf: &Leaf) -> Box<dyn Kernel<R>>
where
    Complex<R>: Element<Real = R>,
{
    let lines = lines_of(leaf);
    let facts = leaf.op.facts();
    let n = count(&facts.domain);
    if facts.domain.is_complex() {
        return Box::new(Passes::<R>::transform(&lines, is_inverse(leaf), n));
    }
    let last = lines[lines.len() - 1];
    let kept = last.n / 2 + 1;
    let sides = (leaf.side == Side::Adjoint, is_inverse(leaf));
    match Halves::<R>::new(&lines, n, sides) {
        Some(halves) => Box::new(halves),
        None => Box::new(RealPasses::<R>::new(&lines, last, kept, n, sides)),
    }
}

/// The weights that a diagonal multiplies with, as far as they repeat.
fn weights_of(leaf: &Leaf, period: usize) -> Vec<Complex64> {
    let mut values = vec![Complex64::ZERO; period];
    if let Some(diagonal) = leaf.downcast::<Diagonal>() {
        diagonal.each(|i, w| {
            if i < period {
                values[i] = w;
            }
        });
    } else if let Work::Multiply(weights) = &leaf.op.facts().work {
        values.copy_from_slice(&weights[..period]);
    }
    if (leaf.side == Side::Adjoint) != leaf.conj {
        values.iter_mut().for_each(|w| *w = w.conj());
    }
    values
}

/// After how many of the elements of `space` the weights of all factors repeat.
fn period(factors: &[Factor], space: &Space) -> usize {
    let n = count(space);
    let each = factors.iter().map(|factor| match factor {
        Factor::Scale(_) => 1,
        Factor::Diagonal(leaf) => {
            let own = leaf.domain();
            let Some(diagonal) = leaf.downcast::<Diagonal>() else { return n };
            let depends = |name: &Name| diagonal.weights().size(name).is_some_and(|n| n > 1);
            let first = own.names().position(depends).unwrap_or(own.dims().len());
            own.dims()[first..].iter().map(|d| len(d.1)).product()
        }
    });
    each.fold(1, |all, period| common(all, period, n))
}

/// The larger of two periods where the smaller divides it, else all `n` elements.
fn common(a: usize, b: usize, n: usize) -> usize {
    let (small, large) = (a.min(b), a.max(b));
    if small > 0 && large.is_multiple_of(small) { large } else { n }
}

/// A multiple of a period that is worth a loop, among those that divide `n`.
fn worthwhile(period: usize, n: usize) -> usize {
    let fits = |m: &usize| (512..4096).contains(m) && n.is_multiple_of(*m);
    match () {
        () if n <= 512 => n,
        () if period >= 512 => period,
        () => (1..4096).map(|k| k * period).find(fits).unwrap_or(n),
    }
}

/// The product of all factors, element by element.
fn combined(factors: &[Factor], period: usize) -> Vec<Complex64> {
    let mut all = vec![Complex64::ONE; period];
    for factor in factors {
        match factor {
            Factor::Scale(a) => all.iter_mut().for_each(|w| *w *= a),
            Factor::Diagonal(leaf) => {
                all.iter_mut().zip(weights_of(leaf, period)).for_each(|(w, v)| *w *= v);
            }
        }
    }
    all
}

/// The kernel of a sum of chains of factors.
fn elementwise<R: Real>(terms: &[Vec<Factor>], space: &Space, adds: bool) -> Box<dyn Kernel<R>>
where
    Complex<R>: Element<Real = R>,
{
    fn kernel<E: Element>(terms: &[Vec<Factor>], space: &Space, adds: bool) -> Product<E> {
        let mut acts = Vec::new();
        let mut diagonals = Vec::new();
        for (k, factors) in terms.iter().enumerate() {
            if k > 0 {
                acts.push(Act::Term);
            }
            for factor in factors {
                match factor {
                    Factor::Scale(a) => acts.push(Act::Factor(E::of(*a))),
                    Factor::Diagonal(leaf) => {
                        acts.push(Act::Weight);
                        diagonals.push(*leaf);
                    }
                }
            }
        }
        let n = count(space);
        let period = terms.iter().fold(1, |all, factors| common(all, period(factors, space), n));
        let period = worthwhile(period, n);
        let weights =
            |k: usize| Weights { values: weights_of(diagonals[k], period).into_iter().map(E::of).collect() };
        Product::new(acts, period, weights, adds)
    }
    if space.is_complex() {
        Box::new(kernel::<Complex<R>>(terms, space, adds))
    } else {
        Box::new(kernel::<R>(terms, space, adds))
    }
}
