//! Movements and matrices with few entries, as tables of what is read for what is written.

use std::collections::BTreeMap;

use num_complex::Complex64;

use super::kernel::{Kernel, Scratch};
use super::real::{Element, Real, elements, elements_mut};

/// Elements that lie at equal distances on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run<E> {
    to: usize,
    from: usize,
    len: usize,
    to_step: isize,
    from_step: isize,
    weight: E,
}

/// What a matrix with few entries does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Table<E> {
    /// Every element of the output is one of the input, or zero where `is_full` says that some are none.
    Copies { runs: Vec<Run<E>>, is_full: bool },
    /// `y = 0`, then `y += w x` run by run.
    Adds(Vec<Run<E>>),
    /// Row by row: where each ends, and the place in the input and the weight of each entry.
    Rows { ends: Vec<u32>, entries: Vec<(u32, E)> },
}

/// Runs shorter than this are rather rows.
const SHORT: usize = 4;

/// One entry: the place in the output, in the input, and the weight.
type Entry = (usize, usize, Complex64);

impl<E: Element> Table<E> {
    /// The table of elements that move, each as often as it is listed.
    pub(super) fn of_moves(rows: usize, each: impl Fn(&mut dyn FnMut(usize, usize))) -> Table<E> {
        let mut is_written = vec![false; rows];
        let mut once = true;
        each(&mut |to, _| once &= !std::mem::replace(&mut is_written[to], true));
        let mut runs: Vec<Run<E>> = Vec::new();
        let mut n = 0;
        each(&mut |to, from| {
            n += 1;
            push(&mut runs, to, from, E::of(Complex64::ONE));
        });
        if once {
            Table::Copies { runs, is_full: !is_written.contains(&false) }
        } else if n < runs.len() * SHORT {
            Table::rows(rows, |f| each(&mut |to, from| f((to, from, Complex64::ONE))))
        } else {
            Table::Adds(runs)
        }
    }

    /// The table of weighted entries.
    pub(super) fn of_entries(rows: usize, each: impl Fn(&mut dyn FnMut(Entry))) -> Table<E> {
        let mut n = 0;
        each(&mut |_| n += 1);
        // Entries on one diagonal with one weight follow each other.
        let mut diagonals: BTreeMap<(isize, [u64; 2]), Vec<Run<E>>> = BTreeMap::new();
        let mut n_runs = 0;
        each(&mut |(to, from, w)| {
            // Too short on the whole: they would take several times the memory of rows until that is known.
            if n < n_runs * SHORT {
                return diagonals.clear();
            }
            let key = (to.wrapping_sub(from).cast_signed(), [w.re.to_bits(), w.im.to_bits()]);
            let runs = diagonals.entry(key).or_default();
            match runs.last_mut() {
                Some(run) if run.to + run.len == to => run.len += 1,
                _ => {
                    n_runs += 1;
                    let weight = E::of(w);
                    runs.push(Run { to, from, len: 1, to_step: 1, from_step: 1, weight });
                }
            }
        });
        if n < n_runs * SHORT {
            return Table::rows(rows, each);
        }
        Table::Adds(diagonals.into_values().flatten().collect())
    }

    fn rows(rows: usize, each: impl Fn(&mut dyn FnMut(Entry))) -> Table<E> {
        let mut ends = vec![0u32; rows + 1];
        each(&mut |(to, ..)| ends[to + 1] += 1);
        for k in 0..rows {
            ends[k + 1] += ends[k];
        }
        let mut next = ends.clone();
        let mut entries = vec![(0u32, E::default()); next[rows] as usize];
        each(&mut |(to, from, w)| {
            entries[next[to] as usize] = (u32::try_from(from).unwrap_or(u32::MAX), E::of(w));
            next[to] += 1;
        });
        ends.remove(0);
        Table::Rows { ends, entries }
    }

    /// Whether it writes what it reads: nothing moves.
    pub(super) fn is_trivial(&self, len: usize) -> bool {
        let whole = |run: &Run<E>| {
            (run.to, run.from, run.len) == (0, 0, len) && (len == 1 || (run.to_step, run.from_step) == (1, 1))
        };
        matches!(self, Table::Copies { runs, is_full: true } if runs.len() == 1 && whole(&runs[0]))
    }

    fn run(&self, x: &[E], y: &mut [E]) {
        match self {
            Table::Copies { runs, is_full } => {
                if !is_full {
                    y.fill(E::default());
                }
                runs.iter().for_each(|run| run.copy(x, y));
            }
            Table::Adds(runs) => {
                y.fill(E::default());
                runs.iter().for_each(|run| run.add(x, y));
            }
            Table::Rows { ends, entries } => {
                let mut at = 0;
                for (y, &end) in y.iter_mut().zip(ends) {
                    let row = &entries[at..end as usize];
                    *y = row.iter().fold(E::default(), |sum, &(from, w)| sum + w * x[from as usize]);
                    at = end as usize;
                }
            }
        }
    }
}

/// Adds one element to the last run, or begins another.
fn push<E: Element>(runs: &mut Vec<Run<E>>, to: usize, from: usize, weight: E) {
    if let Some(run) = runs.last_mut() {
        let step = |now: usize, first: usize, each: isize| {
            first.wrapping_add_signed(each.wrapping_mul(run.len.cast_signed())) == now
        };
        if run.len == 1 {
            run.to_step = to.wrapping_sub(run.to).cast_signed();
            run.from_step = from.wrapping_sub(run.from).cast_signed();
            run.len = 2;
            return;
        }
        if step(to, run.to, run.to_step) && step(from, run.from, run.from_step) {
            run.len += 1;
            return;
        }
    }
    runs.push(Run { to, from, len: 1, to_step: 1, from_step: 1, weight });
}

impl<E: Element> Run<E> {
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let at = |first: usize, step: isize, k: usize| {
            first.wrapping_add_signed(step.wrapping_mul(k.cast_signed()))
        };
        let run = *self;
        (0..run.len).map(move |k| (at(run.to, run.to_step, k), at(run.from, run.from_step, k)))
    }

    fn copy(&self, x: &[E], y: &mut [E]) {
        if (self.to_step, self.from_step) == (1, 1) {
            y[self.to..self.to + self.len].copy_from_slice(&x[self.from..self.from + self.len]);
        } else {
            self.places().for_each(|(to, from)| y[to] = x[from]);
        }
    }

    fn add(&self, x: &[E], y: &mut [E]) {
        let (from, w) = (self.from, self.weight);
        match (self.to_step, self.from_step) {
            (1, 1) => {
                let x = &x[from..from + self.len];
                let y = &mut y[self.to..self.to + self.len];
                y.iter_mut().zip(x).for_each(|(y, x)| *y += w * *x);
            }
            (0, 1) => {
                let sum = total(&x[from..from + self.len]);
                y[self.to] += w * sum;
            }
            _ => self.places().for_each(|(to, from)| y[to] += w * x[from]),
        }
    }
}

/// The sum, in as many parts as fill the processor's lanes.
fn total<E: Element>(x: &[E]) -> E {
    let (groups, rest) = x.as_chunks::<8>();
    let mut sums = [E::default(); 8];
    for group in groups {
        sums.iter_mut().zip(group).for_each(|(s, x)| *s += *x);
    }
    sums.iter().chain(rest).fold(E::default(), |sum, x| sum + *x)
}

impl<R: Real, E: Element<Real = R>> Kernel<R> for Table<E> {
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        self.run(elements(x), elements_mut(y));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the entries say, one by one.
    fn naive(rows: usize, entries: &[Entry], x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; rows];
        entries.iter().for_each(|(to, from, w)| y[*to] += w.re * x[*from]);
        y
    }

    #[test]
    fn tables_are_their_entries() {
        let mut state = 1u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % n
        };
        for case in 0..3_000 {
            let (rows, columns) = (1 + below(12), 1 + below(12));
            let (a, b, c) = (below(4), below(4), below(6));
            let mut entries: Vec<Entry> = Vec::new();
            for k in 0..below(30) {
                // Mostly regular, so that runs of every kind come up.
                let (to, from) = if below(5) == 0 {
                    (below(rows), below(columns))
                } else {
                    ((a * k + c) % rows, (b * k + k / 7) % columns)
                };
                entries.push((to, from, Complex64::from(0.5 * below(3) as f64)));
            }
            let x: Vec<f64> = (0..columns).map(|k| 1.0 + k as f64).collect();
            let mut y = vec![f64::NAN; rows];
            let table = Table::<f64>::of_entries(rows, |f| entries.iter().for_each(|e| f(*e)));
            table.run(&x, &mut y);
            assert_eq!(y, naive(rows, &entries, &x), "case {case}: {table:?}");
            let ones: Vec<Entry> = entries.iter().map(|e| (e.0, e.1, Complex64::ONE)).collect();
            let table = Table::<f64>::of_moves(rows, |f| entries.iter().for_each(|e| f(e.0, e.1)));
            y.fill(f64::NAN);
            table.run(&x, &mut y);
            assert_eq!(y, naive(rows, &ones, &x), "case {case}: {table:?}");
        }
    }
}
