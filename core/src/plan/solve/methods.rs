//! The methods as recipes: what is set up, what one step does, what is looked at.
//!
//! Inner products are `Re <x, y>`, which is all of it for the Hermitian operators of conjugate gradients, and the inner product
//! of operators that are linear over real numbers alone.

use super::recipe::{Act, Kitchen, Recipe, ScalarId as S, VectorId as V, multiple, scalar, scaled};
use crate::op::{Operator, Space};
use crate::ordered::CollectVec;
use crate::program::Func;

const DIVIDE: Func = Func::Divide;
const SQRT: Func = Func::Sqrt;
const TIMES: Func = Func::Mul { conj: false };
const SAME: Func = Func::Affine { mul: 1.0, add: 0.0 };
const GUARD: Func = Func::Guard { strict: false };
const STRICT: Func = Func::Guard { strict: true };

fn dot(s: S, x: V, y: V) -> Act {
    Act::Dot { s, x, y }
}

fn apply(y: V, operator: usize, x: V) -> Act {
    Act::Apply { y, operator, x }
}

/// Where vectors come from and go to, and how near is near enough.
pub(super) struct Frame<'a> {
    /// Where the right-hand side lies.
    pub(super) b: &'a Space,
    /// Where the solution is wanted.
    pub(super) x: &'a Space,
    /// Whether a start is given.
    pub(super) start: bool,
    /// The square of the tolerance: beyond it an iteration that knows how stands still.
    pub(super) enough: f64,
    /// What the right-hand side was multiplied with; the solution is divided by it.
    pub(super) scale: f64,
}

/// Conjugate gradients for a Hermitian positive operator, with a preconditioner that approximates its inverse or without.
///
/// `a = <r,z> / <p,Ap>`, `x += a p`, `r -= a A p`, `z = M r`, `b = <r,z> / <r,z> before`, `p = z + b p`. Once the residual is small
/// enough `<r,z>` counts as zero, so that everything stands still; that of a preconditioner has to be positive before. (Hestenes and
/// Stiefel 1952.)
pub(super) fn cg(a: &Operator, m: Option<&Operator>, frame: &Frame) -> Recipe {
    let home = a.domain().clone();
    let mut k = Kitchen::new(std::iter::once(a).chain(m).cloned().collect_vec());
    let r = k.given("b", frame.b, "r", &home);
    let [rr, bb, pq] = ["rr", "bb", "pq"].map(|name| k.scalar(name));
    let (rho, next, rel, alpha, beta) =
        (k.scalar("rho"), k.scalar("rho-next"), k.scalar("rel"), k.scalar("alpha"), k.scalar("beta"));
    let check = k.scalar("check");
    let health = m.map(|_| k.starting("health", 1.0));
    let one = S(0);
    let q = k.vector("q", &home);
    let p = k.vector("p", &home);
    k.recipe.set_up.push(dot(bb, r, r));
    let x = if frame.start {
        let x = k.given("start", frame.x, "x", &home);
        let act = k.added(r, r, -1.0, q);
        k.recipe.set_up.extend([apply(q, 0, x), act]);
        x
    } else {
        let x = k.vector("x", &home);
        k.recipe.set_up.push(Act::Clear { y: x });
        x
    };
    let z = if m.is_some() { k.vector("z", &home) } else { r };
    let far = Func::Where { above: frame.enough };
    let residual = |rho_of: S| {
        let mut acts = vec![dot(rr, r, r), scalar(rel, DIVIDE, &[rr, bb])];
        if m.is_some() {
            acts.extend([apply(z, 1, r), dot(rho_of, r, z)]);
            acts.extend(
                health.iter().flat_map(|h| [scalar(*h, STRICT, &[one, rho_of]), scalar(*h, far, &[*h, rel])]),
            );
            acts.push(scalar(rho_of, far, &[rho_of, rel]));
        } else {
            acts.push(scalar(rho_of, far, &[rr, rel]));
        }
        acts
    };
    let copied = k.copied(p, z);
    k.recipe.set_up.extend(residual(rho));
    let looked: Vec<Act> = std::iter::once(scalar(check, GUARD, &[rel, rho]))
        .chain(health.map(|h| scalar(check, GUARD, &[check, h])))
        .collect_vec();
    k.recipe.set_up.push(copied);
    k.recipe.set_up.extend(looked.iter().cloned());
    k.recipe.step.extend([
        apply(q, 0, p),
        dot(pq, p, q),
        scalar(rho, STRICT, &[rho, pq]),
        scalar(alpha, DIVIDE, &[rho, pq]),
        multiple(x, x, 1.0, alpha, p),
        multiple(r, r, -1.0, alpha, q),
    ]);
    k.recipe.step.extend(residual(next));
    k.recipe.step.extend([
        scalar(next, GUARD, &[next, rho]),
        scalar(beta, DIVIDE, &[next, rho]),
        multiple(p, z, 1.0, beta, p),
        scalar(rho, SAME, &[next]),
    ]);
    k.recipe.step.extend(looked);
    k.recipe.check = check;
    k.solved(x, frame.x, frame.scale);
    k.recipe
}

/// Least squares by bidiagonalisation: the `x` with the smallest `|A x - b|^2 + damp^2 |x|^2`.
///
/// What is looked at is `|A^H r| / |A^H b|` (without damping). The rotation's sign alternates; it is kept apart, so that all
/// quotients are of positive numbers. (Paige and Saunders, ACM TOMS 8, 1982.)
///
/// Once that is small enough, or nothing but rounding, `x` stands still: beyond the last direction that `A` has, what is left of a
/// vector is noise, made as long as 1, and along that `x` would go as far as one over rounding.
pub(super) fn lsqr(a: &Operator, damp: f64, frame: &Frame) -> Recipe {
    let (reads, writes) = (a.domain().clone(), a.codomain().clone());
    let mut k = Kitchen::new(vec![a.clone(), a.adjoint()]);
    let u = k.given("b", frame.b, "u", &writes);
    let (au, x, v, w, av) = (
        k.vector("Av", &writes),
        k.vector("x", &reads),
        k.vector("v", &reads),
        k.vector("w", &reads),
        k.vector("Au", &reads),
    );
    let [alpha, beta, rhobar, phibar, rho, c, s] =
        ["alpha", "beta", "rhobar", "phibar", "rho", "c", "s"].map(|n| k.scalar(n));
    let [by, t, t1, first, check] = ["by", "t", "t1", "first", "check"].map(|n| k.scalar(n));
    let one = S(0);
    let sign = k.starting("sign", -1.0);
    let (go, stay, rel) = (k.starting("go", 1.0), k.scalar("stay"), k.scalar("rel"));
    let far = Func::Where { above: frame.enough.max((4.0 * reads.eps()).powi(2)) };
    let going = Func::Where { above: 0.0 };
    let health = k.starting("health", 1.0);
    let damp2 = k.starting("damp2", damp * damp);
    let normed =
        |s: S, v: V| [dot(s, v, v), scalar(s, SQRT, &[s]), scalar(by, DIVIDE, &[one, s]), scaled(v, by, v)];
    k.recipe.set_up.extend(normed(beta, u));
    k.recipe.set_up.push(apply(v, 1, u));
    let lost = k.is_double(v).then(|| k.lost(v, av));
    k.recipe.set_up.extend(normed(alpha, v));
    let copied = k.copied(w, v);
    k.recipe.set_up.extend([
        copied,
        Act::Clear { y: x },
        scalar(rhobar, SAME, &[alpha]),
        scalar(phibar, SAME, &[beta]),
        scalar(first, TIMES, &[alpha, beta]),
        scalar(check, DIVIDE, &[first, first]),
        scalar(check, GUARD, &[check, health]),
    ]);
    k.recipe.set_up.extend(lost.map(|lost| scalar(check, Func::Add, &[check, lost])));
    k.recipe.step.extend([
        // u = A v - alpha u, v = A^H u - beta v, both of length 1
        apply(au, 0, v),
        multiple(u, au, -1.0, alpha, u),
    ]);
    k.recipe.step.extend(normed(beta, u));
    k.recipe.step.extend([apply(av, 1, u), multiple(v, av, -1.0, beta, v)]);
    // The damping is rotated away first: rhobar grows, phibar shrinks by what it was of it.
    k.recipe.step.extend([
        scalar(t, TIMES, &[rhobar, rhobar]),
        scalar(t1, Func::Add, &[t, damp2]),
        scalar(t1, SQRT, &[t1]),
        scalar(c, DIVIDE, &[rhobar, t1]),
        scalar(phibar, TIMES, &[phibar, c]),
        scalar(rhobar, SAME, &[t1]),
    ]);
    k.recipe.step.extend(normed(alpha, v));
    k.recipe.step.extend([
        scalar(t, TIMES, &[rhobar, rhobar]),
        scalar(t1, TIMES, &[beta, beta]),
        scalar(rho, Func::Add, &[t, t1]),
        scalar(rho, SQRT, &[rho]),
        scalar(c, DIVIDE, &[rhobar, rho]),
        scalar(s, DIVIDE, &[beta, rho]),
        // x += phi/rho w, w = v - theta/rho w
        scalar(sign, Func::Affine { mul: -1.0, add: 0.0 }, &[sign]),
        scalar(t, TIMES, &[c, phibar]),
        scalar(by, DIVIDE, &[t, rho]),
        scalar(by, TIMES, &[by, sign]),
        scalar(by, going, &[by, go]),
        multiple(x, x, 1.0, by, w),
        scalar(t1, TIMES, &[s, alpha]),
        scalar(t1, DIVIDE, &[t1, rho]),
        scalar(t1, going, &[t1, go]),
        multiple(w, v, -1.0, t1, w),
        scalar(rhobar, TIMES, &[c, alpha]),
        scalar(phibar, TIMES, &[s, phibar]),
        // |A^H r| = phibar alpha c
        scalar(t, TIMES, &[phibar, alpha]),
        scalar(t, TIMES, &[t, c]),
        scalar(t, going, &[t, go]),
        scalar(health, GUARD, &[health, t]),
        scalar(t, DIVIDE, &[t, first]),
        scalar(t, TIMES, &[t, t]),
        // What was found before it stood still stays as well.
        scalar(stay, Func::Affine { mul: -1.0, add: 1.0 }, &[go]),
        scalar(rel, going, &[rel, stay]),
        scalar(rel, Func::Add, &[rel, t]),
        scalar(go, far, &[go, t]),
        scalar(check, GUARD, &[rel, health]),
    ]);
    k.remember(check, health);
    k.recipe.check = check;
    k.solved(x, frame.x, frame.scale);
    k.recipe
}

/// What of `x` is small in the solution of [`fista`].
pub(super) struct Shrinkage {
    /// The weight of `|x|_1`.
    pub(super) weight: f64,
    /// The largest eigenvalue of the normal operator, or more.
    pub(super) lipschitz: f64,
    /// What the operator was taken times.
    pub(super) lift: f64,
}

/// Beyond this times its bound an eigenvalue makes the iteration grow, however small it begins: with a momentum near 1 the roots of
/// `z^2 - 2 (1 - q) z + (1 - q) = 0` leave the unit circle at `q = 4/3`.
const TOO_STEEP: f64 = 4.0 / 3.0;

/// Vectors with squares below this may be nothing but rounding.
const ROUNDING: f64 = 1e-70;

/// Least squares with few entries: the `x` with the smallest `|A x - b|^2 / 2 + weight |x|_1`.
///
/// `z = y - A^H (A y - b) / L`, `x = shrink(z, weight/L)`, `t' = (1 + sqrt(1 + 4 t^2)) / 2`, `y = x + (t - 1)/t' (x - x before)`.
/// What is looked at is how far `x` moves. (Beck and Teboulle 2009.)
///
/// No quotient `|A^H b|^2 / |b|^2` or `<y, A^H A y> / <y, y>` is larger than the largest eigenvalue: one that is too large for `L` is what
/// is looked at from then on, as a negative number, and the solution is zero.
///
/// Takes the adjoint and the normal operator of `A`.
pub(super) fn fista(operators: [Operator; 2], how: &Shrinkage, frame: &Frame) -> Recipe {
    let (reads, writes) = (operators[0].codomain().clone(), operators[0].domain().clone());
    let mut k = Kitchen::new(operators.into());
    let b = k.given("b", frame.b, "b-here", &writes);
    let [c, g, x, y, d] = ["Ab", "g", "x", "y", "d"].map(|name| k.vector(name, &reads));
    let [dd, xx, check, u, m] = ["dd", "xx", "check", "t-next", "m"].map(|name| k.scalar(name));
    let (t, health) = (k.starting("t", 1.0), k.starting("health", 1.0));
    k.recipe.set_up.extend([apply(c, 0, b), Act::Clear { y: x }, Act::Clear { y }]);
    k.recipe.set_up.extend([dot(xx, c, c), scalar(check, DIVIDE, &[xx, xx])]);
    k.recipe.set_up.push(scalar(check, GUARD, &[check, health]));
    let lost = k.is_double(c).then(|| k.lost(c, g));
    k.recipe.set_up.extend(lost.map(|lost| scalar(check, Func::Add, &[check, lost])));
    let [squares, quotient, large] = ["squares", "quotient", "large"].map(|name| k.scalar(name));
    let (one, steep, ok) = (S(0), k.scalar("steep"), k.starting("ok", 1.0));
    // The first quotient that is too large stays.
    let judged = [
        scalar(quotient, DIVIDE, &[quotient, squares]),
        scalar(quotient, Func::Where { above: TOO_STEEP * how.lipschitz }, &[quotient, quotient]),
        scalar(quotient, Func::Where { above: ROUNDING }, &[quotient, squares]),
        scalar(quotient, Func::Where { above: 0.0 }, &[quotient, ok]),
        scalar(steep, Func::Add, &[steep, quotient]),
        scalar(large, Func::Where { above: 0.0 }, &[one, steep]),
        scalar(ok, Func::Affine { mul: -1.0, add: 1.0 }, &[large]),
    ];
    let looked = [
        scalar(check, Func::Where { above: 0.0 }, &[check, ok]),
        scalar(large, Func::Affine { mul: -1.0, add: 0.0 }, &[steep]),
        scalar(check, Func::Add, &[check, large]),
    ];
    k.recipe.set_up.extend([dot(squares, b, b), scalar(quotient, SAME, &[xx])]);
    k.recipe.set_up.extend(judged.iter().chain(&looked).cloned());
    k.recipe.bound = Some(how.lift);
    let step = -1.0 / how.lipschitz;
    // Of an operator that is all but zero every entry is small.
    let small = (how.weight / how.lipschitz).min(f64::MAX);
    let (gradient, down) = (k.added(g, g, -1.0, c), k.added(g, y, step, g));
    let before = k.copied(d, x);
    let moved = k.added(d, x, -1.0, d);
    k.recipe.step.extend([apply(g, 1, y), dot(quotient, y, g), dot(squares, y, y)]);
    k.recipe.step.extend(judged);
    k.recipe.step.extend([
        gradient,
        down,
        before,
        Act::Shrink { y: x, x: g, by: small },
        moved,
        scalar(u, TIMES, &[t, t]),
        scalar(u, Func::Affine { mul: 4.0, add: 1.0 }, &[u]),
        scalar(u, SQRT, &[u]),
        scalar(u, Func::Affine { mul: 0.5, add: 0.5 }, &[u]),
        scalar(m, Func::Affine { mul: 1.0, add: -1.0 }, &[t]),
        scalar(m, DIVIDE, &[m, u]),
        scalar(t, SAME, &[u]),
        multiple(y, x, 1.0, m, d),
        dot(dd, d, d),
        dot(xx, x, x),
        scalar(health, GUARD, &[health, xx]),
        scalar(check, DIVIDE, &[dd, xx]),
        scalar(check, GUARD, &[check, health]),
    ]);
    k.remember(check, health);
    k.recipe.step.extend(looked);
    k.recipe.check = check;
    k.recipe.finish.push(scaled(x, ok, x));
    k.solved(x, frame.x, frame.scale);
    k.recipe
}

/// The eigenvector of the largest eigenvalue of a Hermitian operator, from a start that is not zero.
///
/// `w = A v`, `lambda = <v,w>`, `v = w / |w|`; what is looked at is `|w - lambda v| / |w|`. What the operator was taken times is divided
/// out at the end.
pub(super) fn power(a: &Operator, lift: f64, frame: &Frame) -> Recipe {
    let home = a.domain().clone();
    let mut k = Kitchen::new(vec![a.clone()]);
    let v = k.given("start", frame.b, "v", &home);
    let [w, d] = ["w", "d"].map(|name| k.vector(name, &home));
    let [norm, by, lambda, ww, dd, check] =
        ["norm", "by", "lambda", "ww", "dd", "check"].map(|name| k.scalar(name));
    let (one, health) = (S(0), k.starting("health", 1.0));
    k.recipe.set_up.extend([
        dot(norm, v, v),
        scalar(norm, SQRT, &[norm]),
        scalar(by, DIVIDE, &[one, norm]),
        scaled(v, by, v),
        scalar(check, GUARD, &[norm, health]),
        scalar(check, DIVIDE, &[check, check]),
    ]);
    // Steps make `|A v|` no smaller: what can be told from zero at first stays so.
    if k.is_double(w) {
        k.recipe.set_up.push(apply(w, 0, v));
        let lost = k.lost(w, d);
        k.recipe.set_up.push(scalar(check, Func::Add, &[check, lost]));
    }
    k.recipe.step.extend([
        apply(w, 0, v),
        dot(lambda, v, w),
        multiple(d, w, -1.0, lambda, v),
        dot(dd, d, d),
        dot(ww, w, w),
        scalar(norm, SQRT, &[ww]),
        scalar(by, DIVIDE, &[one, norm]),
        scaled(v, by, w),
        scalar(health, GUARD, &[health, ww]),
        scalar(check, DIVIDE, &[dd, ww]),
        scalar(check, GUARD, &[check, health]),
    ]);
    k.remember(check, health);
    k.recipe.check = check;
    k.recipe.value = Some(lambda);
    if lift != 1.0 {
        k.recipe.finish.push(scalar(lambda, Func::Affine { mul: lift.recip(), add: 0.0 }, &[lambda]));
    }
    k.solved(v, frame.x, 1.0);
    k.recipe
}
