//! A recipe carried out by the reference evaluator: naive and obviously right.

use std::convert::Infallible;

use num_complex::Complex64;

use super::drive::Engine;
use super::recipe::{Act, Phase, Recipe, ScalarId as S, VectorId as V};
use crate::op::{Array, Space};
use crate::ordered::CollectVec;
use crate::program::Func;

/// Vectors and scalars as they are.
pub(super) struct Reference<'r> {
    recipe: &'r Recipe,
    vectors: Vec<Vec<Complex64>>,
    scalars: Vec<f64>,
}

impl<'r> Reference<'r> {
    pub(super) fn new(recipe: &'r Recipe, given: &[&Array]) -> Reference<'r> {
        let zeros = |space: &Space| vec![Complex64::ZERO; usize::try_from(space.elements()).unwrap_or(0)];
        let mut vectors: Vec<_> = recipe.vectors.iter().map(|(_, space)| zeros(space)).collect_vec();
        for (v, array) in recipe.given.iter().zip(given) {
            vectors[v.0] = array.values().to_vec();
        }
        Reference { recipe, vectors, scalars: recipe.scalars.iter().map(|s| s.1).collect_vec() }
    }

    fn space(&self, v: V) -> &'r Space {
        &self.recipe.vectors[v.0].1
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Move { y, x } => self.vectors[y.0] = self.vectors[x.0].clone(),
            Act::Apply { y, operator, x } => {
                self.vectors[y.0] = self.recipe.operators[*operator].applied(&self.vectors[x.0]);
            }
            Act::Clear { y } => self.vectors[y.0].fill(Complex64::ZERO),
            Act::Multiple { y, factor, s, x, a } => {
                let s = self.scalars[s.0];
                let by = if s.is_finite() { factor * s } else { 0.0 };
                let space = self.space(*y);
                let value = |k: usize| {
                    let a = a.map_or(Complex64::ZERO, |a| self.vectors[a.0][k]);
                    let x = self.vectors[x.0][k];
                    space.round(if by == 0.0 { a } else { x * by + a })
                };
                self.vectors[y.0] = (0..self.vectors[y.0].len()).map(value).collect_vec();
            }
            Act::Shrink { y, x, by } => {
                let space = self.space(*y);
                let shrunk = self.vectors[x.0].iter().map(|z| {
                    let size = z.norm();
                    space.round(if size > *by { z * (1.0 - by / size) } else { Complex64::ZERO })
                });
                self.vectors[y.0] = shrunk.collect_vec();
            }
            Act::Dot { s, x, y } => {
                let pairs = self.vectors[x.0].iter().zip(&self.vectors[y.0]);
                self.scalars[s.0] = pairs.fold(0.0, |sum, (x, y)| sum + (x.re * y.re + x.im * y.im));
            }
            Act::Scalar { s, func, of } => {
                let of: Vec<f64> = of.iter().map(|s| self.scalars[s.0]).collect_vec();
                self.scalars[s.0] = scalar_formula(*func, of[0], of[of.len() - 1]);
            }
        }
    }

    pub(super) fn value(&self, s: S) -> f64 {
        self.scalars[s.0]
    }
}

/// What the formulas of [`Act::Scalar`] say of one or two real numbers.
///
/// # Panics
/// For formulas of vectors alone, which no recipe has there.
pub fn scalar_formula(func: Func, a: f64, b: f64) -> f64 {
    match func {
        Func::Affine { mul, add } => mul * a + add,
        Func::Mul { .. } => a * b,
        Func::Add => a + b,
        Func::Divide => {
            if a <= 0.0 || b <= 0.0 {
                0.0
            } else {
                a / b
            }
        }
        Func::Sqrt => {
            if a < 0.0 {
                0.0
            } else {
                a.sqrt()
            }
        }
        Func::Where { above } => {
            if b > above {
                a
            } else {
                0.0
            }
        }
        Func::Guard { strict } => {
            if a <= 0.0 {
                a
            } else if !a.is_finite() || !b.is_finite() {
                f64::MIN
            } else if b < 0.0 {
                b
            } else if b == 0.0 && strict {
                -f64::MIN_POSITIVE
            } else {
                a
            }
        }
        _ => unreachable!("bug: {func:?} is no formula of scalars"),
    }
}

impl Engine for Reference<'_> {
    type Error = Infallible;

    fn run(&mut self, phase: Phase) -> Result<(), Infallible> {
        self.recipe.acts(phase).iter().for_each(|act| self.act(act));
        Ok(())
    }

    fn scalar(&mut self, name: &str) -> Result<f64, Infallible> {
        let known = self.recipe.scalars.iter().position(|(n, _)| n == name);
        Ok(known.map_or(f64::NAN, |k| self.value(S(k))))
    }

    fn vector(&mut self, name: &str) -> Result<Vec<Complex64>, Infallible> {
        let known = self.recipe.vectors.iter().position(|(n, _)| n == name);
        Ok(known.map_or(Vec::new(), |k| self.vectors[k].clone()))
    }
}
