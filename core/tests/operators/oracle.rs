//! Matrices: written down from a definition, or read off an operator column by column. Nothing here knows the library's
//! way of computing anything.

use num_complex::Complex64;
use spanlift::memory::Dtype;
use spanlift::op::{Array, Operator, Space};

pub(crate) type C = Complex64;

/// Entries by row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) entries: Vec<C>,
}

/// Every index of a shape, the last dimension fastest.
pub(crate) fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for &n in shape {
        all = all.iter().flat_map(|i| (0..n).map(move |k| [&i[..], &[k]].concat())).collect();
    }
    all
}

impl Matrix {
    /// The entry for each index of the output and of the input.
    pub(crate) fn of(codomain: &Space, domain: &Space, entry: impl Fn(&[i64], &[i64]) -> C) -> Matrix {
        let (rows, columns) = (indices(&codomain.shape()), indices(&domain.shape()));
        let entries = rows.iter().flat_map(|o| columns.iter().map(|i| entry(o, i)).collect::<Vec<_>>());
        Matrix { entries: entries.collect(), rows: rows.len(), columns: columns.len() }
    }

    /// The operator's columns, one apply each.
    pub(crate) fn read(a: &Operator) -> Matrix {
        let (n, m) = (a.domain().elements(), a.codomain().elements());
        let (columns, rows) = (usize::try_from(n).unwrap(), usize::try_from(m).unwrap());
        let mut entries = vec![C::ZERO; rows * columns];
        for j in 0..columns {
            let unit = (0..columns).map(|k| if k == j { 1.0 } else { 0.0 });
            let y = a.apply(&Array::new(a.domain().clone(), unit).unwrap()).unwrap();
            assert_eq!(y.space(), a.codomain(), "{a}");
            for (i, v) in y.values().iter().enumerate() {
                entries[i * columns + j] = *v;
            }
        }
        Matrix { rows, columns, entries }
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> C {
        self.entries[row * self.columns + column]
    }

    pub(crate) fn map(&self, f: impl Fn(C) -> C) -> Matrix {
        Matrix { entries: self.entries.iter().map(|z| f(*z)).collect(), ..*self }
    }

    pub(crate) fn transpose(&self) -> Matrix {
        let (rows, columns) = (self.columns, self.rows);
        let entries = (0..rows).flat_map(|i| (0..columns).map(move |j| self.at(j, i)));
        Matrix { rows, columns, entries: entries.collect() }
    }

    pub(crate) fn conj(&self) -> Matrix {
        self.map(|z| z.conj())
    }

    pub(crate) fn h(&self) -> Matrix {
        self.conj().transpose()
    }

    /// `self other`
    pub(crate) fn times(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows);
        let (rows, columns) = (self.rows, other.columns);
        let entry = |i: usize, j: usize| (0..other.rows).map(|k| self.at(i, k) * other.at(k, j)).sum();
        let entries = (0..rows).flat_map(|i| (0..columns).map(move |j| entry(i, j)));
        Matrix { rows, columns, entries: entries.collect() }
    }

    /// The largest entry.
    pub(crate) fn size(&self) -> f64 {
        self.entries.iter().map(|z| z.norm()).fold(0.0, f64::max)
    }

    /// The largest difference between entries.
    pub(crate) fn distance(&self, other: &Matrix) -> f64 {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns));
        let pairs = self.entries.iter().zip(&other.entries);
        pairs.map(|(a, b)| (a - b).norm()).fold(0.0, |m, d| if d.is_nan() { f64::NAN } else { m.max(d) })
    }
}

/// Asserts that the operator is the matrix, up to rounding in its own type.
#[track_caller]
pub(crate) fn check_matrix(what: &str, a: &Operator, expected: &Matrix) {
    let found = Matrix::read(a);
    assert_eq!((found.rows, found.columns), (expected.rows, expected.columns), "{what}: {a}");
    let tolerance = 64.0 * eps(a.domain().dtype()) * expected.size().max(1.0);
    let distance = found.distance(expected);
    assert!(distance <= tolerance, "{what}: {a} is {distance:e} off, {tolerance:e} is rounding");
}

pub(crate) fn eps(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 | Dtype::C32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// Numbers that depend on the seed alone.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Forgets what seeds that are near each other have in common.
    pub(crate) fn warm(&mut self) {
        for _ in 0..8 {
            self.bits();
        }
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// A number in `[-1, 1]` that every type holds exactly.
    pub(crate) fn unit(&mut self) -> f64 {
        f64::from(i32::try_from(self.below(2049)).unwrap() - 1024) / 1024.0
    }

    pub(crate) fn value(&mut self, dtype: Dtype) -> C {
        let complex = matches!(dtype, Dtype::C32 | Dtype::C64);
        C::new(self.unit(), if complex { self.unit() } else { 0.0 })
    }

    pub(crate) fn array(&mut self, space: &Space) -> Array {
        let values: Vec<C> = (0..space.elements()).map(|_| self.value(space.dtype())).collect();
        Array::new(space.clone(), values).unwrap()
    }
}
