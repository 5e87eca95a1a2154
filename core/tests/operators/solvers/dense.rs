//! Elimination with pivots on matrices read off operators: the oracle. Knows nothing of iterations.

use num_complex::Complex64;
use spanlift::memory::Dtype;
use spanlift::op::{Array, Operator, Space, dense};

pub(crate) type C = Complex64;

/// Rows of a matrix.
pub(crate) type Rows = Vec<Vec<C>>;

/// The rows of an operator, one apply for each column.
pub(crate) fn rows(a: &Operator) -> Rows {
    let n = usize::try_from(a.domain().elements()).unwrap();
    let column = |j: usize| {
        let unit = (0..n).map(|k| if k == j { 1.0 } else { 0.0 });
        a.apply(&Array::new(a.domain().clone(), unit).unwrap()).unwrap().values().to_vec()
    };
    let columns: Vec<Vec<C>> = (0..n).map(column).collect();
    let m = usize::try_from(a.codomain().elements()).unwrap();
    (0..m).map(|i| columns.iter().map(|c| c[i]).collect()).collect()
}

/// `A^H A + shift` and `A^H b`.
pub(crate) fn normal_equations(a: &Rows, b: &[C], shift: f64) -> (Rows, Vec<C>) {
    let n = a[0].len();
    let entry = |i: usize, j: usize| -> C {
        let sum: C = a.iter().map(|row| row[i].conj() * row[j]).sum();
        sum + if i == j { shift } else { 0.0 }
    };
    let normal = (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect();
    let right = (0..n).map(|i| a.iter().zip(b).map(|(row, b)| row[i].conj() * b).sum()).collect();
    (normal, right)
}

/// The solution of a square system by elimination with partial pivoting.
pub(crate) fn solve(a: &Rows, b: &[C]) -> Vec<C> {
    let n = b.len();
    let mut m: Rows = a.iter().zip(b).map(|(row, b)| [&row[..], &[*b]].concat()).collect();
    for k in 0..n {
        let pivot = (k..n).max_by(|i, j| m[*i][k].norm().total_cmp(&m[*j][k].norm())).unwrap();
        m.swap(k, pivot);
        assert!(m[k][k].norm() > 0.0, "singular");
        for i in k + 1..n {
            let factor = m[i][k] / m[k][k];
            let from = m[k].clone();
            m[i].iter_mut().zip(from).skip(k).for_each(|(entry, from)| *entry -= factor * from);
        }
    }
    let mut x = vec![C::ZERO; n];
    for i in (0..n).rev() {
        let rest: C = (i + 1..n).map(|j| m[i][j] * x[j]).sum();
        x[i] = (m[i][n] - rest) / m[i][i];
    }
    x
}

pub(crate) fn distance(x: &[C], y: &[C]) -> f64 {
    assert_eq!(x.len(), y.len());
    let norm = |v: &mut dyn Iterator<Item = C>| v.map(|z| z.norm_sqr()).sum::<f64>().sqrt();
    norm(&mut x.iter().zip(y).map(|(x, y)| x - y)) / norm(&mut y.iter().copied()).max(1e-300)
}

/// Numbers that depend on the seed alone.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX) * 2.0 - 1.0
    }

    pub(crate) fn value(&mut self, dtype: Dtype) -> C {
        let re = self.unit();
        C::new(re, if matches!(dtype, Dtype::C32 | Dtype::C64) { self.unit() } else { 0.0 })
    }

    pub(crate) fn array(&mut self, space: &Space) -> Array {
        let values: Vec<C> = (0..space.elements()).map(|_| self.value(space.dtype())).collect();
        Array::new(space.clone(), values).unwrap()
    }

    /// A matrix of `m` by `n`.
    pub(crate) fn matrix(&mut self, m: i64, n: i64, dtype: Dtype) -> Operator {
        let w: Vec<C> = (0..m * n).map(|_| self.value(dtype)).collect();
        dense(["m"], ["n"], [("m", m), ("n", n)], w, dtype).unwrap()
    }
}

pub(crate) fn eps(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 | Dtype::C32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

pub(crate) fn line(n: i64, dtype: Dtype) -> Space {
    Space::new([("n", n)], dtype).unwrap()
}
