//! What a solver does, as data: a list of acts on vectors and scalars that stay where they are.
//!
//! Every runner follows the same recipe, so that they can be compared act by act. Knows no program.

use super::Stop;
use super::drive::Limits;
use crate::memory::Dtype;
use crate::op::{Operator, Space};
use crate::program::Func;

/// A vector of a recipe: a buffer that stays from one program to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorId(pub(super) usize);

/// A scalar of a recipe: one `f64` beside the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalarId(pub(super) usize);

impl VectorId {
    /// Its number among the vectors.
    pub fn index(self) -> usize {
        self.0
    }
}

impl ScalarId {
    /// Its number among the scalars.
    pub fn index(self) -> usize {
        self.0
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each variant's equation says what its fields are")]
pub enum Act {
    /// `y = x` on another device.
    Move { y: VectorId, x: VectorId },
    /// `y = A x` with the operator of that number.
    Apply { y: VectorId, operator: usize, x: VectorId },
    /// `y = 0`
    Clear { y: VectorId },
    /// `y = factor s x + a`; nothing is added where `s` is 0 or not finite.
    Multiple { y: VectorId, factor: f64, s: ScalarId, x: VectorId, a: Option<VectorId> },
    /// `y = x (1 - by/|x|)` where `|x|` is larger than `by`, else 0.
    Shrink { y: VectorId, x: VectorId, by: f64 },
    /// `s = Re <x, y>`
    Dot { s: ScalarId, x: VectorId, y: VectorId },
    /// A formula of one or two scalars; see [`scalar_formula`](super::scalar_formula).
    Scalar { s: ScalarId, func: Func, of: Vec<ScalarId> },
}

/// When acts are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Once, at the beginning: the right-hand side goes where the iteration is.
    SetUp,
    /// Once for each iteration.
    Step,
    /// One scalar to the host: how far it is.
    Check,
    /// Once, at the end: the solution comes back.
    Finish,
}

/// A solver for one operator, as data: its vectors and scalars, and what is done to them in each [`Phase`].
///
/// Whoever carries out the acts is an [`Engine`](super::Engine); [`Recipe::run`] is the loop around them.
/// # Examples
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Diagonal, Space};
/// use spanlift::plan::{Act, Phase, Solver};
///
/// let a = Diagonal::new(Space::new([("x", 3)], Dtype::F64)?, [1.0, 2.0, 4.0])?;
/// let recipe = Solver::cg().recipe(a)?;
/// let step = recipe.acts(Phase::Step);
/// assert_eq!(step.iter().filter(|act| matches!(act, Act::Apply { .. })).count(), 1); // A, once
/// assert_eq!(step.iter().filter(|act| matches!(act, Act::Move { .. })).count(), 0); // nothing moves
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Names and spaces of the vectors.
    pub(super) vectors: Vec<(String, Space)>,
    /// Names of the scalars, and what they hold before the first act.
    pub(super) scalars: Vec<(String, f64)>,
    pub(super) operators: Vec<Operator>,
    pub(super) set_up: Vec<Act>,
    pub(super) step: Vec<Act>,
    pub(super) finish: Vec<Act>,
    /// The vectors that are given: the right-hand side, and a start where there is one.
    pub(super) given: Vec<VectorId>,
    /// Where the solution is at the end.
    pub(super) solution: VectorId,
    /// How far it is: the square of a relative residual, or a negative number when something is wrong.
    pub(super) check: ScalarId,
    /// What else is read at the end.
    pub(super) value: Option<ScalarId>,
    pub(super) limits: Limits,
    /// Of a method with a bound of the eigenvalues: what the operator was taken times. A negative number that is looked at is minus an
    /// eigenvalue beyond the bound, times the square of it.
    pub(super) bound: Option<f64>,
    /// What a right-hand side that is known was multiplied with.
    pub(super) scale: f64,
}

impl Recipe {
    /// What to multiply what is given with, and to divide the solution by, where the largest part of any number that is given is
    /// `largest`: a power of two that brings it near 1 where squares would leave the range of numbers, else 1.
    ///
    /// Powers of two round nothing, so that no bit depends on it where nothing would have been lost.
    pub fn scale(&self, largest: f64) -> f64 {
        near_one(largest, self.space(self.given[0]).dtype())
    }

    /// Whether `solution`, all zeros or not, and what else was found cannot be what the solver ended with: it left the range of
    /// numbers on the way.
    pub fn is_lost(&self, stop: Stop, iterations: usize, is_zero: bool, value: Option<f64>) -> bool {
        let thin = self.step.iter().any(|act| matches!(act, Act::Shrink { .. }));
        // Of a system whose solution is zero nobody takes a step; an eigenvector is never zero but for that of nothing.
        let solved = if self.value.is_some() { value != Some(0.0) } else { iterations > 0 && !thin };
        is_zero && stop == Stop::Converged && solved
    }

    /// The spaces of all vectors.
    pub fn vectors(&self) -> impl ExactSizeIterator<Item = &Space> {
        self.vectors.iter().map(|(_, space)| space)
    }

    /// The space of a vector.
    pub fn space(&self, v: VectorId) -> &Space {
        &self.vectors[v.0].1
    }

    /// What all scalars are before the first act.
    pub fn scalars(&self) -> impl ExactSizeIterator<Item = f64> {
        self.scalars.iter().map(|(_, value)| *value)
    }

    /// The scalar of that name.
    pub fn scalar(&self, name: &str) -> Option<ScalarId> {
        self.scalars.iter().position(|(known, _)| known == name).map(ScalarId)
    }

    /// The operators that are applied.
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// The vectors that are given: the right-hand side, and a start where there is one.
    pub fn given(&self) -> &[VectorId] {
        &self.given
    }

    /// Where the solution is at the end.
    pub fn solution(&self) -> VectorId {
        self.solution
    }

    /// What else is found: an eigenvalue.
    pub fn value(&self) -> Option<ScalarId> {
        self.value
    }

    /// What is done in a phase, in order.
    pub fn acts(&self, phase: Phase) -> &[Act] {
        match phase {
            Phase::SetUp => &self.set_up,
            Phase::Step => &self.step,
            Phase::Check => &[],
            Phase::Finish => &self.finish,
        }
    }

    /// How often operators are applied in a phase.
    pub(super) fn applies(&self, phase: Phase) -> usize {
        self.acts(phase).iter().filter(|act| matches!(act, Act::Apply { .. })).count()
    }

    /// How often a vector moves between devices in a phase.
    pub(super) fn transfers(&self, phase: Phase) -> usize {
        let each = |act: &Act| match act {
            Act::Move { .. } => 1,
            Act::Apply { operator, .. } => n_transfers(&self.operators[*operator]),
            _ => 0,
        };
        self.acts(phase).iter().map(each).sum()
    }

    /// Where the iteration is.
    pub(super) fn home(&self) -> &Space {
        // The last act of an iteration may be a formula; vectors that are worked on are all there.
        let worked = self.step.iter().find_map(|act| match act {
            Act::Apply { x, .. } => Some(*x),
            _ => None,
        });
        &self.vectors[worked.unwrap_or(self.solution).0].1
    }
}

/// How often an operator moves data: once for each transfer in it, as often as that is applied.
fn n_transfers(a: &Operator) -> usize {
    let parts: usize = a.children().iter().map(n_transfers).sum();
    match a {
        Operator::ToDevice(_) => 1,
        Operator::Power(power) => parts * power.exponent() as usize,
        _ => parts,
    }
}

/// See [`Recipe::scale`].
pub(super) fn near_one(largest: f64, dtype: Dtype) -> f64 {
    let single = matches!(dtype, Dtype::F32 | Dtype::C32);
    let (free, most) = if single { (40, 126) } else { (300, 1000) };
    if largest == 0.0 || !largest.is_finite() {
        return 1.0;
    }
    // Numbers without a leading bit get one.
    let lifted = largest.abs() * 2f64.powi(64);
    let (bits, off) = if largest.is_normal() { (largest.abs(), 0) } else { (lifted, 64) };
    let exponent = i32::try_from(bits.to_bits() >> 52).unwrap_or(0) - 1023 - off;
    if exponent.abs() <= free { 1.0 } else { 2f64.powi((-exponent).clamp(-most, most)) }
}

/// A recipe while it is written.
pub(super) struct Kitchen {
    pub(super) recipe: Recipe,
    one: ScalarId,
}

impl Kitchen {
    pub(super) fn new(operators: Vec<Operator>) -> Kitchen {
        let recipe = Recipe {
            vectors: Vec::new(),
            scalars: vec![("one".to_owned(), 1.0)],
            operators,
            set_up: Vec::new(),
            step: Vec::new(),
            finish: Vec::new(),
            given: Vec::new(),
            solution: VectorId(0),
            check: ScalarId(0),
            value: None,
            limits: Limits { enough: 0.0, iterations: 0, check_every: 1 },
            bound: None,
            scale: 1.0,
        };
        Kitchen { recipe, one: ScalarId(0) }
    }

    pub(super) fn vector(&mut self, name: &str, space: &Space) -> VectorId {
        self.recipe.vectors.push((name.to_owned(), space.clone()));
        VectorId(self.recipe.vectors.len() - 1)
    }

    pub(super) fn scalar(&mut self, name: &str) -> ScalarId {
        self.starting(name, 0.0)
    }

    pub(super) fn starting(&mut self, name: &str, value: f64) -> ScalarId {
        self.recipe.scalars.push((name.to_owned(), value));
        ScalarId(self.recipe.scalars.len() - 1)
    }

    /// A vector that is given in `outer`, as the vector `here` at `home`, where it may be overwritten.
    pub(super) fn given(&mut self, name: &str, outer: &Space, here: &str, home: &Space) -> VectorId {
        let x = self.vector(name, outer);
        self.recipe.given.push(x);
        let here = self.vector(here, home);
        let act = self.passed(here, x);
        self.recipe.set_up.push(act);
        here
    }

    /// What went wrong in a step before still does where the last one looks like the end: nothing moves any more.
    pub(super) fn remember(&mut self, check: ScalarId, health: ScalarId) {
        let wrong = self.scalar("wrong");
        let acts = [
            scalar(wrong, Func::Affine { mul: 1.0, add: -1.0 }, &[health]),
            scalar(check, Func::Add, &[check, wrong]),
        ];
        self.recipe.step.extend(acts);
    }

    /// Whether squares of elements may leave the range of a scalar; those of single precision do not.
    pub(super) fn is_double(&self, x: VectorId) -> bool {
        matches!(self.recipe.vectors[x.0].1.dtype(), Dtype::F64 | Dtype::C64)
    }

    /// A scalar that is 0, or the lowest number, which is a breakdown, where `x` is not zero and its square all but is: what is looked
    /// at would be taken for zero. Writes to `free`.
    pub(super) fn lost(&mut self, x: VectorId, free: VectorId) -> ScalarId {
        const ABOVE: fn(f64) -> Func = |above| Func::Where { above };
        let [square, lifted] = ["x-square", "x-lifted"].map(|name| self.scalar(name));
        let up = Act::Multiple { y: free, factor: 2f64.powi(500), s: self.one, x, a: None };
        self.recipe.set_up.extend([
            Act::Dot { s: square, x, y: x },
            up,
            Act::Dot { s: lifted, x: free, y: free },
            scalar(square, ABOVE(1e-290), &[self.one, square]),
            scalar(square, Func::Affine { mul: -1.0, add: 1.0 }, &[square]),
            scalar(lifted, ABOVE(0.0), &[self.one, lifted]),
            scalar(lifted, Func::Mul { conj: false }, &[lifted, square]),
            scalar(lifted, Func::Affine { mul: f64::MIN, add: 0.0 }, &[lifted]),
        ]);
        lifted
    }

    /// The solution of a right-hand side that was multiplied with `scale`, which lies at `home`, as a vector in `outer`.
    pub(super) fn solved(&mut self, x: VectorId, outer: &Space, scale: f64) {
        if scale != 1.0 {
            let back = Act::Multiple { y: x, factor: scale.recip(), s: self.one, x, a: None };
            self.recipe.finish.push(back);
        }
        self.recipe.solution = if self.recipe.vectors[x.0].1 == *outer {
            x
        } else {
            let y = self.vector("solution", outer);
            self.recipe.finish.push(Act::Move { y, x });
            y
        };
    }

    /// `y = x`, with a transfer where they lie on different devices.
    fn passed(&self, y: VectorId, x: VectorId) -> Act {
        let device = |v: VectorId| self.recipe.vectors[v.0].1.device();
        if device(x) == device(y) { self.copied(y, x) } else { Act::Move { y, x } }
    }

    /// `y = x` on one device.
    pub(super) fn copied(&self, y: VectorId, x: VectorId) -> Act {
        Act::Multiple { y, factor: 1.0, s: self.one, x, a: None }
    }

    /// `y = a + factor x`
    pub(super) fn added(&self, y: VectorId, a: VectorId, factor: f64, x: VectorId) -> Act {
        Act::Multiple { y, factor, s: self.one, x, a: Some(a) }
    }
}

/// `y = a + factor s x`
pub(super) fn multiple(y: VectorId, a: VectorId, factor: f64, s: ScalarId, x: VectorId) -> Act {
    Act::Multiple { y, factor, s, x, a: Some(a) }
}

/// `y = s x`
pub(super) fn scaled(y: VectorId, s: ScalarId, x: VectorId) -> Act {
    Act::Multiple { y, factor: 1.0, s, x, a: None }
}

/// `s = func(of)`
pub(super) fn scalar(s: ScalarId, func: Func, of: &[ScalarId]) -> Act {
    Act::Scalar { s, func, of: of.to_vec() }
}
