//! What is timed on this side.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use num_complex::Complex;
use spanlift::chain;
use spanlift::memory::{Dtype, mock};
use spanlift::op::{Dense, Diagonal, OpError, Operator, Space, Tensor, chain, fft, rename, roll, stack, sum};
use spanlift::plan::Solver;
use spanlift_native::cpu::{Element, Runner, Solving};

use crate::{Contender, data, faer_side};

type Built<T> = Result<T, Box<dyn std::error::Error>>;

/// The contenders of one row.
pub(crate) fn row(bench: &str, keys: &[&str]) -> Built<Vec<Contender>> {
    let text = |key: &str| {
        let found = keys.iter().find_map(|k| k.strip_prefix(key)?.strip_prefix('='));
        found.ok_or_else(|| format!("{bench} needs {key}="))
    };
    let number = |key: &str| Ok::<u64, Box<dyn std::error::Error>>(text(key)?.parse()?);
    match bench {
        "chain" => diagonals(number("n")?, number("k")?, text("what")?),
        "pass" => one_pass(number("n")?),
        "dispatch" => dispatch(number("k")?),
        "fft" => Ok(vec![masked(number("side")?)?]),
        "sum" => sums(text("what")?, number("n")?, number("m")?),
        "gram" => grams(text("what")?, number("n")?, number("m")?),
        "cg" => Ok(vec![
            cg(number("n")?, number("k")?)?,
            faer_side::cg(number("n")?, usize::try_from(number("k")?)?),
        ]),
        "build" => build(number("k")?),
        "split" => split(number("n")?, number("devices")?),
        "threads" => threads(text("what")?, number("n")?),
        _ => Err(format!("no bench is called {bench:?}").into()),
    }
}

fn line(n: u64) -> Result<Space, OpError> {
    Ok(Space::new([("x", n.cast_signed())], Dtype::F64)?)
}

fn diagonal(n: u64, k: u64) -> Result<Diagonal, OpError> {
    Diagonal::new(line(n)?, data::weights(n, k))
}

/// An operator run by kernels, checks on.
fn runs<E: Element>(name: &'static str, a: &Operator, x: Vec<E>) -> Built<Contender>
where
    Complex<E::Real>: Element<Real = E::Real>,
{
    let runner = Runner::<E::Real>::new(a)?;
    let mut workspace = runner.workspace();
    let n = usize::try_from(a.codomain().elements())?;
    let y = Rc::new(RefCell::new(vec![E::default(); n]));
    let seen = Rc::clone(&y);
    let run = move |repeats: u64| {
        let y = &mut *y.borrow_mut();
        for _ in 0..repeats {
            let done = runner.apply(black_box(&x), black_box(&mut y[..]), &mut workspace);
            assert!(done.is_ok(), "{done:?}");
        }
    };
    let value = move || {
        let parts = |v: &E| {
            if E::DTYPE == <E::Real as Element>::DTYPE {
                vec![v.wide().re]
            } else {
                vec![v.wide().re, v.wide().im]
            }
        };
        seen.borrow().iter().take(4096).flat_map(parts).collect()
    };
    Ok(Contender { name, run: Box::new(run), value: Box::new(value) })
}

/// Loops over slices as somebody writes them by hand: one weight after the other, between two vectors.
fn by_hand(name: &'static str, weights: Vec<Vec<f64>>, n: u64) -> Contender {
    let x = data::vector(n);
    let both = Rc::new(RefCell::new((x.clone(), x.clone())));
    let seen = Rc::clone(&both);
    let run = move |repeats: u64| {
        let (y, z) = &mut *both.borrow_mut();
        for _ in 0..repeats {
            times(&weights[0], black_box(&x), y);
            for w in &weights[1..] {
                times(w, y, z);
                std::mem::swap(y, z);
            }
            black_box(&mut *y);
        }
    };
    let value = move || seen.borrow().0.iter().take(4096).copied().collect();
    Contender { name, run: Box::new(run), value: Box::new(value) }
}

#[inline(never)]
fn times(w: &[f64], x: &[f64], y: &mut [f64]) {
    for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
        *y = w * x;
    }
}

/// One stage of the chain that a library without checks and names would have.
trait Stage {
    fn apply(&self, x: &[f64], y: &mut [f64]);
}

struct Times(Vec<f64>);

impl Stage for Times {
    fn apply(&self, x: &[f64], y: &mut [f64]) {
        times(&self.0, x, y);
    }
}

/// The least that dynamic dispatch costs: stages behind pointers, in turn between two vectors, and no check.
fn prototype(weights: &[Vec<f64>], n: u64) -> Contender {
    let stages: Vec<Arc<dyn Stage>> =
        weights.iter().map(|w| Arc::new(Times(w.clone())) as Arc<dyn Stage>).collect();
    let x = data::vector(n);
    let both = Rc::new(RefCell::new((x.clone(), x.clone())));
    let seen = Rc::clone(&both);
    let run = move |repeats: u64| {
        let (y, z) = &mut *both.borrow_mut();
        for _ in 0..repeats {
            stages[0].apply(black_box(&x), y);
            for stage in &stages[1..] {
                stage.apply(y, z);
                std::mem::swap(y, z);
            }
            black_box(&mut *y);
        }
    };
    let value = move || seen.borrow().0.iter().take(4096).copied().collect();
    Contender { name: "prototype", run: Box::new(run), value: Box::new(value) }
}

fn diagonals(n: u64, k: u64, what: &str) -> Built<Vec<Contender>> {
    let parts = (0..k).map(|k| Ok(diagonal(n, k)?.into()));
    let a = chain(parts.collect::<Result<Vec<_>, OpError>>()?)?;
    let a = match what {
        "adjoint" => a.h(),
        "normal" => chain![a.clone(), a.h()]?,
        _ => a,
    };
    let there = (0..k).map(|k| data::weights(n, k));
    let back = (0..k).rev().map(|k| data::weights(n, k));
    let weights: Vec<Vec<f64>> = match what {
        "adjoint" => back.collect(),
        "normal" => there.chain(back).collect(),
        _ => there.collect(),
    };
    Ok(vec![
        runs("spanlift", &a, data::vector(n))?,
        runs("spanlift-simplified", &a.simplify(), data::vector(n))?,
        prototype(&weights, n),
        by_hand("loops", weights, n),
        faer_side::chain(n, k, what == "normal"),
    ])
}

/// One multiplication of every element: what no kernel goes below.
fn one_pass(n: u64) -> Built<Vec<Contender>> {
    let parts = (0..10).map(|k| Ok(diagonal(n, k)?.into()));
    let a = chain(parts.collect::<Result<Vec<_>, OpError>>()?)?;
    let product = (0..n).map(|i| (0..10).map(|k| data::weight(i, k)).product()).collect();
    Ok(vec![
        runs("spanlift-simplified", &a.simplify(), data::vector(n))?,
        by_hand("one-pass", vec![product], n),
    ])
}

/// Stages of next to no work, so that what is left is getting from one to the next: matrices of one entry; diagonals and such
/// matrices in turn; matrices between one index and two; and two elements that change places, each time a step of its own.
fn dispatch(k: u64) -> Built<Vec<Contender>> {
    let matrix = |to: i64| {
        let w = Tensor::new([("m", to), ("x", 1)], [1.0].repeat(usize::try_from(to)?))?;
        Ok::<Operator, Box<dyn std::error::Error>>(Dense::new(line(1)?, &w, ["m"])?.into())
    };
    let (one, up) = (chain![matrix(1)?, rename([("m", "x")])]?, matrix(2)?);
    let (down, weight) = (up.h(), Operator::from(diagonal(1, 0)?));
    let in_turn = |a: &Operator, b: &Operator| {
        Ok::<Operator, OpError>(chain((0..k).map(|i| if i % 2 == 0 { a.clone() } else { b.clone() }.into()))?)
    };
    let change = roll("x", 1).over(&line(2)?)?;
    Ok(vec![
        runs("spanlift", &chain((0..k).map(|_| one.clone().into()))?, data::vector(1))?,
        runs("kinds", &in_turn(&weight, &one)?, data::vector(1))?,
        runs("shapes", &in_turn(&up, &down)?, data::vector(1))?,
        runs("apart", &in_turn(&change, &change)?, data::vector(2))?,
    ])
}

fn masked(side: u64) -> Built<Contender> {
    let n = side.cast_signed();
    let image = Space::new([("y", n), ("x", n)], Dtype::C32)?;
    let f = fft(["y", "x"]).over(&image)?;
    let mask = Diagonal::new(f.codomain().clone(), data::mask(side * side))?;
    runs("spanlift", &chain![f, mask]?.normal(), data::image(side * side))
}

fn sums(what: &str, n: u64, m: u64) -> Built<Vec<Contender>> {
    let parts = (0..m).map(|k| Ok(diagonal(n, k)?)).collect::<Result<Vec<_>, OpError>>()?;
    let a = if what == "sum" { sum(parts)? } else { stack(Some(("s", 0)), None, parts)? };
    Ok(vec![runs("spanlift", &a, data::vector(n))?])
}

/// The normal of a sum or stack of matrices beside both sides one after the other.
fn grams(what: &str, n: u64, m: u64) -> Built<Vec<Contender>> {
    let matrices = (0..m).map(|k| {
        let size = n.cast_signed();
        let w = Tensor::new([("m", size), ("x", size)], (0..n * n).map(|i| data::element(i, k)))?;
        Ok(Operator::from(Dense::new(line(n)?, &w, ["m"])?))
    });
    let parts = matrices.collect::<Result<Vec<_>, OpError>>()?;
    let a = if what == "sum" { sum(parts)? } else { stack(Some(("s", 0)), None, parts)? };
    let (there, back) = (Runner::<f64>::new(&a)?, Runner::<f64>::new(&a.h())?);
    let (mut one, mut other) = (there.workspace(), back.workspace());
    let x = data::vector(n);
    let mut y = vec![0.0; usize::try_from(a.codomain().elements())?];
    let z = Rc::new(RefCell::new(x.clone()));
    let seen = Rc::clone(&z);
    let run = move |repeats: u64| {
        let z = &mut *z.borrow_mut();
        for _ in 0..repeats {
            let done = there
                .apply(black_box(&x), &mut y, &mut one)
                .and_then(|()| back.apply(&y, &mut z[..], &mut other));
            assert!(done.is_ok(), "{done:?}");
        }
    };
    let value = move || seen.borrow().iter().take(4096).copied().collect();
    let both = Contender { name: "there-and-back", run: Box::new(run), value: Box::new(value) };
    Ok(vec![runs("spanlift", &a.normal(), data::vector(n))?, both])
}

pub(crate) fn cg_weights(n: u64) -> (Vec<f64>, Vec<f64>) {
    let of = |k: u64| (0..n).map(|i| 1.5 + data::element(i, k)).collect();
    (of(3), of(4))
}

fn cg(n: u64, iterations: u64) -> Built<Contender> {
    let (e, d) = cg_weights(n);
    let (e, d) = (Diagonal::new(line(n)?, e)?, Diagonal::new(line(n)?, d)?);
    let limit = usize::try_from(iterations)?;
    let solver = Solver::cg().tolerance(0.0).iterations(limit).check_every(limit);
    let mut cg = Solving::<f64>::new(&solver, chain![e.clone(), d, e]?)?;
    let b = data::vector(n);
    let x = Rc::new(RefCell::new(b.clone()));
    let seen = Rc::clone(&x);
    let run = move |repeats: u64| {
        for _ in 0..repeats {
            let done = cg.solve(black_box(&b), &mut x.borrow_mut()[..]);
            assert!(done.is_ok(), "{done:?}");
        }
    };
    let value = move || seen.borrow().iter().take(4096).copied().collect();
    Ok(Contender { name: "spanlift", run: Box::new(run), value: Box::new(value) })
}

fn repeated(name: &'static str, mut f: impl FnMut() + 'static) -> Contender {
    Contender {
        name,
        run: Box::new(move |repeats| (0..repeats).for_each(|_| f())),
        value: Box::new(Vec::new),
    }
}

/// What an expression of `k` operators costs before it is applied.
fn build(k: u64) -> Built<Vec<Contender>> {
    let n = 4;
    let parts = (0..k).map(|k| diagonal(n, k)).collect::<Result<Vec<_>, _>>()?;
    let a = chain(parts.iter().cloned().map(Into::into))?;
    let (one, other) = (Operator::from(diagonal(n, 1)?), Operator::from(diagonal(n, 2)?));
    // Chains of weights, movements and transforms, so that many rules find something and most nothing.
    let image = Space::new([("x", 4)], Dtype::C64)?;
    let f = fft(["x"]).named(["x"]).over(&image)?;
    let mixed = (0..k).map(|k| {
        Ok(match k % 4 {
            0 => Diagonal::new(image.clone(), data::weights(4, k))?.into(),
            1 => f.clone(),
            2 => roll("x", 1 + (k % 3).cast_signed()).over(&image)?,
            _ => Operator::scale(1.0 + 1.0 / f64::from(u32::try_from(k).unwrap_or(1)), image.clone())?,
        })
    });
    let mixed = chain(mixed.collect::<Result<Vec<Operator>, OpError>>()?.into_iter().map(Into::into))?;
    let (b, c, d, e, g) = (a.clone(), a.clone(), mixed.clone(), mixed.clone(), mixed);
    Ok(vec![
        repeated("h", move || drop(black_box(a.h()))),
        repeated("normal", move || drop(black_box(c.normal()))),
        repeated("add", {
            let (one, other) = (one.clone(), other.clone());
            move || drop(black_box(&one + &other))
        }),
        repeated("multiply", move || drop(black_box(&one * &other))),
        repeated("chain", move || drop(black_box(chain(b.parts().iter().map(Into::into))))),
        repeated("simplify", move || drop(black_box(d.simplify()))),
        repeated("plan", move || drop(black_box(e.plan()))),
        repeated("runner", move || drop(black_box(Runner::<f64>::new(&g)))),
    ])
}

/// The same diagonal whole and in tiles over devices that are this machine.
fn split(n: u64, devices: u64) -> Built<Vec<Contender>> {
    let a = Operator::from(diagonal(n, 1)?);
    let devices: Vec<_> = (0..u32::try_from(devices)?).map(mock).collect();
    let tiles = a.split("x", devices.len(), &devices)?;
    Ok(vec![runs("whole", &a, data::vector(n))?, runs("split", &tiles, data::vector(n))?])
}

/// Two weights in a row, or a transform along two dimensions of together `n` elements.
fn threads(what: &str, n: u64) -> Built<Vec<Contender>> {
    let side = n.isqrt().cast_signed();
    Ok(vec![match what {
        "product" => runs("spanlift", &chain![diagonal(n, 0)?, diagonal(n, 1)?]?, data::vector(n))?,
        _ => {
            let image = Space::new([("y", side), ("x", side)], Dtype::C32)?;
            runs("spanlift", &fft(["y", "x"]).over(&image)?, data::image(image.elements().unsigned_abs()))?
        }
    }])
}
