//! Small dense least squares: singular values, and Levenberg's damped steps over them.
//!
//! Problems here have a dozen parameters and some tens of rows, so a one-sided Jacobi iteration is fast enough and gives
//! what a fit must tell: which directions of the parameters the rows see, and how well.

use crate::ordered::{CollectVec, sort_by};

/// `A = U diag(sigma) V^T`, by columns; `sigma` falls. Columns of `u` for a `sigma` of 0 are zero.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Svd {
    pub(super) u: Vec<Vec<f64>>,
    pub(super) sigma: Vec<f64>,
    pub(super) v: Vec<Vec<f64>>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The singular value decomposition of the matrix with these columns.
///
/// # Source
/// One-sided Jacobi: Hestenes 1958; the rotation as in Demmel and Veselić 1992.
pub(super) fn svd(columns: &[Vec<f64>]) -> Svd {
    let n = columns.len();
    let mut u = columns.to_vec();
    let mut v: Vec<Vec<f64>> =
        (0..n).map(|j| (0..n).map(|i| f64::from(u8::from(i == j))).collect_vec()).collect_vec();
    // It converges in about ten sweeps; the bound only ends a matrix with values that are no numbers.
    for _ in 0..60 {
        let mut turned = false;
        for q in 1..n {
            for p in 0..q {
                let (a, b, c) = (dot(&u[p], &u[p]), dot(&u[q], &u[q]), dot(&u[p], &u[q]));
                if c.abs() <= 1e-15 * (a * b).sqrt() || c == 0.0 {
                    continue;
                }
                turned = true;
                let zeta = (b - a) / (2.0 * c);
                let t = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                let cos = 1.0 / t.hypot(1.0);
                for columns in [&mut u, &mut v] {
                    let (left, right) = columns.split_at_mut(q);
                    for (x, y) in left[p].iter_mut().zip(&mut right[0]) {
                        (*x, *y) = (cos * (*x - t * *y), cos * (*y + t * *x));
                    }
                }
            }
        }
        if !turned {
            break;
        }
    }
    let mut order: Vec<(f64, usize)> = u.iter().map(|c| dot(c, c).sqrt()).zip(0..).collect_vec();
    sort_by(&mut order, |a, b| b.0.total_cmp(&a.0));
    for (sigma, k) in &order {
        if *sigma > 0.0 {
            u[*k].iter_mut().for_each(|x| *x /= sigma);
        }
    }
    Svd {
        u: order.iter().map(|&(_, k)| u[k].clone()).collect_vec(),
        sigma: order.iter().map(|&(sigma, _)| sigma).collect_vec(),
        v: order.iter().map(|&(_, k)| v[k].clone()).collect_vec(),
    }
}

impl Svd {
    /// The step that makes `|A x + r|^2 + damping |x|^2` smallest.
    pub(super) fn step(&self, r: &[f64], damping: f64) -> Vec<f64> {
        let mut x = vec![0.0; self.v.len()];
        for ((u, &sigma), v) in self.u.iter().zip(&self.sigma).zip(&self.v) {
            let scale = sigma * sigma + damping;
            if sigma > 0.0 && scale > 0.0 {
                let along = -sigma / scale * dot(u, r);
                x.iter_mut().zip(v).for_each(|(x, v)| *x += along * v);
            }
        }
        x
    }
}

/// Why an iteration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// No step makes the residuals noticeably smaller.
    Settled,
    /// After this many steps, still getting better.
    StepLimit(u32),
}

/// Where an iteration ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Minimum {
    pub(super) x: Vec<f64>,
    /// The residuals there.
    pub(super) r: Vec<f64>,
    /// Their derivatives there, by parameter.
    pub(super) columns: Vec<Vec<f64>>,
    pub(super) n_steps: u32,
    pub(super) stop: Stop,
}

/// Steps of the difference quotients.
const DIFFERENCE: f64 = 1e-3;
/// No parameter moves further in one step.
const LONGEST: f64 = 0.7;

/// The derivatives of `residuals` at `x`, one column for each parameter.
pub(super) fn jacobian<E>(
    residuals: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
    x: &[f64],
) -> Result<Vec<Vec<f64>>, E> {
    let mut columns = Vec::with_capacity(x.len());
    let mut near = x.to_vec();
    for k in 0..x.len() {
        near[k] = x[k] + DIFFERENCE;
        let above = residuals(&near)?;
        near[k] = x[k] - DIFFERENCE;
        let below = residuals(&near)?;
        near[k] = x[k];
        columns.push(above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * DIFFERENCE)).collect_vec());
    }
    Ok(columns)
}

/// Makes the sum of squared residuals smallest, from `x` on, in at most `most` steps (Levenberg 1944).
///
/// # Errors
/// What `residuals` gives.
pub(super) fn minimise<E>(
    residuals: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
    mut x: Vec<f64>,
    most: u32,
) -> Result<Minimum, E> {
    let mut r = residuals(&x)?;
    let mut damping = 1e-4;
    let mut stop = Stop::StepLimit(most);
    let mut n_steps = 0;
    let mut columns = jacobian(residuals, &x)?;
    while n_steps < most {
        let seen = svd(&columns);
        // Of the size of what is damped, so that residuals in any unit lead the same way.
        let scale = seen.sigma.first().map_or(0.0, |sigma| sigma * sigma);
        let mut better = None;
        for _ in 0..12 {
            let mut step = seen.step(&r, damping * scale);
            let longest = step.iter().fold(0.0, |m: f64, s| m.max(s.abs()));
            if longest > LONGEST {
                step.iter_mut().for_each(|s| *s *= LONGEST / longest);
            }
            let there: Vec<f64> = x.iter().zip(&step).map(|(x, s)| x + s).collect_vec();
            let r_there = residuals(&there)?;
            if dot(&r_there, &r_there) < dot(&r, &r) {
                better = Some((there, r_there, longest));
                damping = (damping * 0.2).max(1e-9);
                break;
            }
            damping *= 6.0;
        }
        let Some((there, r_there, longest)) = better else {
            stop = Stop::Settled;
            break;
        };
        let gain = 1.0 - dot(&r_there, &r_there) / dot(&r, &r);
        (x, r) = (there, r_there);
        n_steps += 1;
        columns = jacobian(residuals, &x)?;
        if gain < 1e-4 && longest < 1e-3 || dot(&r, &r) < 1e-14 {
            stop = Stop::Settled;
            break;
        }
    }
    Ok(Minimum { x, r, columns, n_steps, stop })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }

    #[test]
    fn the_decomposition_gives_the_matrix_back_with_orthonormal_factors() {
        let mut seed = 7;
        for (m, n) in [(1, 1), (5, 3), (16, 9), (3, 5), (4, 4)] {
            let mut a: Vec<Vec<f64>> = (0..n).map(|_| (0..m).map(|_| random(&mut seed)).collect()).collect();
            if n == 4 {
                // Of rank 2.
                a[2] = a[0].iter().zip(&a[1]).map(|(x, y)| 2.0 * x - y).collect();
                a[3] = vec![0.0; m];
            }
            let Svd { u, sigma, v } = svd(&a);
            assert!(sigma.windows(2).all(|s| s[0] >= s[1]), "{sigma:?}");
            let rank = if n == 4 { 2 } else { m.min(n) };
            assert_eq!(sigma.iter().filter(|s| **s > 1e-12).count(), rank, "{m} x {n}: {sigma:?}");
            for i in 0..n {
                for j in 0..n {
                    let unit = f64::from(u8::from(i == j));
                    assert!((dot(&v[i], &v[j]) - unit).abs() < 1e-12, "{m} x {n}");
                    if i < rank && j < rank {
                        assert!((dot(&u[i], &u[j]) - unit).abs() < 1e-12, "{m} x {n}");
                    }
                }
                for row in 0..m {
                    let back: f64 = (0..n).map(|k| u[k][row] * sigma[k] * v[k][i]).sum();
                    assert!((back - a[i][row]).abs() < 1e-12, "{m} x {n}");
                }
            }
        }
    }

    #[test]
    fn a_curve_is_found_and_a_step_limit_is_told() {
        // y = a exp(b t), the parameters as logarithms.
        let t = [0.0, 1.0, 2.0, 3.0, 4.0];
        let curve = |a: f64, b: f64| t.map(|t| a * (b * t).exp());
        let wanted = curve(3.0, 0.25);
        let mut residuals = |x: &[f64]| -> Result<Vec<f64>, ()> {
            Ok(curve(x[0].exp(), x[1].exp()).iter().zip(&wanted).map(|(y, w)| y / w - 1.0).collect())
        };
        let found = minimise(&mut residuals, vec![0.0, 0.0], 100).unwrap();
        assert!((found.x[0].exp() - 3.0).abs() < 1e-6 && (found.x[1].exp() - 0.25).abs() < 1e-6, "{found:?}");
        assert_eq!(found.stop, Stop::Settled);
        let cut = minimise(&mut residuals, vec![0.0, 0.0], 2).unwrap();
        assert_eq!((cut.stop, cut.n_steps), (Stop::StepLimit(2), 2));
    }
}
