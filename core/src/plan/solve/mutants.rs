//! Recipes with one fault: each has to be seen in what it solves.

use super::drive::{Limits, drive};
use super::methods::{self, Frame};
use super::recipe::{Act, Recipe, ScalarId as S, VectorId as V};
use super::reference::Reference;
use super::{Solved, Stop};
use crate::memory::Dtype;
use crate::op::{Array, FromFn, Operator, Space, dense, identity};
use crate::program::Func;

const SIZE: i64 = 5;

/// A complex Hermitian positive operator that is not diagonal.
fn system() -> Operator {
    let w = (0..SIZE * SIZE).map(|k| {
        let of = |m: i64| f64::from(i32::try_from((k * k * m + 3 * k) % 11).unwrap_or(0) - 5) / 4.0;
        num_complex::Complex64::new(of(3), of(7))
    });
    let a = dense(["m"], ["n"], [("m", SIZE), ("n", SIZE)], w, Dtype::C64).unwrap();
    (a.normal() + 0.5 * identity()).unwrap()
}

fn right(space: &Space) -> Array {
    let values = (0..SIZE).map(|k| num_complex::Complex64::new(1.0, f64::from(i32::try_from(k).unwrap())));
    Array::new(space.clone(), values).unwrap()
}

fn solved(recipe: &Recipe, b: &Array) -> Solved {
    drive(recipe, &mut Reference::new(recipe, &[b])).unwrap()
}

/// `|b - A x| / |b|` by the definition.
fn residual(a: &Operator, x: &Array, b: &Array) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.sum::<f64>().sqrt();
    let ax = a.apply(x).unwrap();
    let off = norm(&mut ax.values().iter().zip(b.values()).map(|(y, b)| (y - b).norm_sqr()));
    off / norm(&mut b.values().iter().map(|b| b.norm_sqr()))
}

/// Whether the recipe solves the system as conjugate gradients do: to rounding, in as many steps as there are dimensions.
fn is_right(recipe: &Recipe) -> bool {
    let (a, b) = (system(), right(system().domain()));
    let found = solved(recipe, &b);
    found.stop == Stop::Converged && found.iterations <= 6 && residual(&a, &found.solution, &b) < 1e-9
}

fn recipe() -> Recipe {
    let a = system();
    let limits = Limits { enough: 1e-20, iterations: 2 * 5, check_every: 1 };
    let frame = Frame { b: a.domain(), x: a.domain(), start: false, enough: 1e-20, scale: 1.0 };
    Recipe { limits, ..methods::cg(&a, None, &frame) }
}

fn scalar(recipe: &Recipe, name: &str) -> S {
    S(recipe.scalars.iter().position(|(n, _)| n == name).unwrap())
}

/// The place in a step of the act that writes a scalar by some formula.
fn writes(recipe: &Recipe, name: &str) -> usize {
    let wanted = scalar(recipe, name);
    let here = |act: &Act| matches!(act, Act::Scalar { s, .. } | Act::Dot { s, .. } if *s == wanted);
    recipe.step.iter().position(here).unwrap()
}

type Fault = fn(&mut Recipe);

#[test]
fn every_fault_of_conjugate_gradients_is_caught() {
    assert!(is_right(&recipe()), "the recipe itself");
    let faults: &[(&str, Fault)] = &[
        ("a missing conjugate in the inner product", |r| {
            // conj(x) in its place, so that nothing is conjugated in the end.
            let space = r.vectors[0].1.clone();
            let conj = |x: &[num_complex::Complex64], y: &mut [num_complex::Complex64]| {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = x.conj());
            };
            r.operators.push(FromFn::new("conj", space.clone(), space.clone(), conj, conj).into());
            r.vectors.push(("turned".to_owned(), space));
            let (turned, operator) = (V(r.vectors.len() - 1), r.operators.len() - 1);
            let at = writes(r, "pq");
            if let Act::Dot { x, .. } = &mut r.step[at] {
                let of = std::mem::replace(x, turned);
                r.step.insert(at, Act::Apply { y: turned, operator, x: of });
            }
        }),
        ("beta upside down", |r| {
            let at = writes(r, "beta");
            if let Act::Scalar { of, .. } = &mut r.step[at] {
                of.reverse();
            }
        }),
        ("beta of Fletcher and Reeves with the wrong norm", |r| {
            let (at, pq) = (writes(r, "beta"), scalar(r, "pq"));
            if let Act::Scalar { of, .. } = &mut r.step[at] {
                of[1] = pq;
            }
        }),
        ("a stale scalar: alpha before its product", |r| {
            let (at, pq) = (writes(r, "alpha"), writes(r, "pq"));
            let act = r.step.remove(at);
            r.step.insert(pq, act);
        }),
        ("a stale scalar: rho of the step before", |r| {
            let at =
                r.step.iter().rposition(|act| matches!(act, Act::Scalar { func: Func::Affine { .. }, .. }));
            r.step.remove(at.unwrap());
        }),
        ("the product of another direction", |r| {
            let at = writes(r, "pq");
            if let Act::Dot { x, y, .. } = &mut r.step[at] {
                *x = *y;
            }
        }),
        ("the residual grows instead of shrinking", |r| {
            let factor = r.step.iter_mut().find_map(|act| match act {
                Act::Multiple { factor, .. } if *factor == -1.0 => Some(factor),
                _ => None,
            });
            *factor.unwrap() = 1.0;
        }),
        ("no direction but the residual", |r| {
            let at = r.step.iter().rposition(|act| matches!(act, Act::Multiple { .. })).unwrap();
            if let Act::Multiple { factor, .. } = &mut r.step[at] {
                *factor = 0.0;
            }
        }),
        ("the adjoint of another operator", |r| r.operators[0] = r.operators[0].times(2.0).unwrap()),
    ];
    for (name, plant) in faults {
        let mut broken = recipe();
        plant(&mut broken);
        assert!(!is_right(&broken), "not caught: {name}");
    }
}
