//! Layouts and pairs of views to test and to measure with: as many as asked for, the same every time.

use super::{Dtype, Layout, LayoutProblems, View, cpu};
use crate::ordered::CollectVec;
use crate::{Bytes, splitmix};

/// Rows and columns of each matrix.
const SIDE: i64 = 64;

/// `n_storages` matrices of 64 x 64 `f32` on the host, each seen through ten views that interleave and overlap.
///
/// # Errors
/// More bytes or names than a layout holds; not below billions of storages.
///
/// # Examples
/// ```
/// let layout = spanlift::memory::sample::matrices(3)?;
/// assert_eq!(layout.tensors().len(), 30);
/// assert_eq!(layout.report()?.devices["cpu"].unique_bytes, 3 * 64 * 64 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn matrices(n_storages: usize) -> Result<Layout, LayoutProblems> {
    let half = SIDE / 2;
    let f32s = |shape: &[i64], strides: &[i64], offset| view(Dtype::F32, shape, strides, offset);
    let views = [
        ("left", f32s(&[SIDE, half], &[SIDE, 1], 0)),
        ("right", f32s(&[SIDE, half], &[SIDE, 1], half)),
        ("even", f32s(&[half, SIDE], &[2 * SIDE, 1], 0)),
        ("odd", f32s(&[half, SIDE], &[2 * SIDE, 1], SIDE)),
        ("column", f32s(&[SIDE], &[SIDE], 5)),
        ("diagonal", f32s(&[SIDE], &[SIDE + 1], 0)),
        ("reversed", f32s(&[SIDE], &[-1], 8 * SIDE - 1)),
        ("transposed", f32s(&[half, half], &[1, SIDE], half * (SIDE + 1))),
        ("third", f32s(&[SIDE, SIDE / 3], &[SIDE, 3], 1)),
        ("bytes", view(Dtype::U8, &[4 * SIDE], &[1], 2)),
    ];
    let mut layout = Layout::new();
    for k in 0..n_storages {
        let storage = layout.storage(&format!("w{k}"), cpu(), Bytes((4 * SIDE * SIDE).unsigned_abs()))?;
        for (name, view) in &views {
            layout.tensor(&format!("w{k}.{name}"), storage, view.clone())?;
        }
    }
    Ok(layout)
}

/// What two views of one block are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Pair {
    /// Contiguous, and their ranges do not cross.
    Apart,
    /// Contiguous, and their ranges cross or touch.
    Ranges,
    /// Two columns of a matrix.
    Columns,
    /// Two blocks of an array of three dimensions, some with steps.
    Blocks,
    /// As the blocks, of different element types.
    Mixed,
    /// Up to six dimensions of any strides, 0 and negative ones included, some of them empty.
    Any,
    /// Up to six dimensions of large strides without a pattern, laid so that they just meet or just miss.
    Odd,
    /// Two to six dimensions of large strides, some of which share a large factor, with thousands of elements: what needs
    /// the longest search.
    Hard,
}

impl Pair {
    /// Every kind.
    pub const ALL: [Pair; 8] = [
        Pair::Apart,
        Pair::Ranges,
        Pair::Columns,
        Pair::Blocks,
        Pair::Mixed,
        Pair::Any,
        Pair::Odd,
        Pair::Hard,
    ];

    /// Its name, one word.
    pub fn name(self) -> &'static str {
        match self {
            Pair::Apart => "apart",
            Pair::Ranges => "ranges",
            Pair::Columns => "columns",
            Pair::Blocks => "blocks",
            Pair::Mixed => "mixed",
            Pair::Any => "any",
            Pair::Odd => "odd",
            Pair::Hard => "hard",
        }
    }

    /// Two views of this kind; the same for the same seed.
    ///
    /// # Examples
    /// ```
    /// use spanlift::memory::{DEFAULT_LIMIT, Overlap, sample::Pair};
    /// let [a, b] = Pair::Apart.views(7);
    /// assert_eq!(a.span()?.overlaps(&b.span()?, DEFAULT_LIMIT), Overlap::No);
    /// # Ok::<(), spanlift::memory::ViewError>(())
    /// ```
    pub fn views(self, seed: u64) -> [View; 2] {
        let mut random = Random::new(seed, self as u64);
        let r = &mut random;
        match self {
            Pair::Apart | Pair::Ranges => {
                let (n, m) = (r.pick(1, 4096), r.pick(1, 4096));
                let apart = if self == Pair::Apart { n + r.pick(0, 50) } else { r.pick(-8, n + 8) };
                let first = r.pick(64, 4096);
                [view(Dtype::F32, &[n], &[1], first), view(Dtype::F32, &[m], &[1], first + apart)]
            }
            Pair::Columns => {
                let (row, first) = (r.pick(2, 4096), r.pick(0, 100));
                [(); 2].map(|()| {
                    let n = r.pick(2, 1024);
                    view(Dtype::F32, &[n], &[row], first + r.pick(0, 20).min(row - 1) + row * r.pick(0, 8))
                })
            }
            Pair::Blocks | Pair::Mixed => {
                let whole = [16, 24, 32].map(|n| r.pick(4, n));
                [0, 1].map(|k| {
                    let dtype = if self == Pair::Mixed { r.dtype() } else { Dtype::F32 };
                    let strides = [whole[1] * whole[2], whole[2], 1];
                    let mut offset = 0;
                    let (mut shape, mut steps) = (Vec::new(), Vec::new());
                    for (size, stride) in whole.into_iter().zip(strides) {
                        let (from, step) =
                            (r.pick(0, size - 1), if r.pick(0, 2) == 0 { r.pick(1, 3) } else { 1 });
                        shape.push(r.pick(1, (size - 1 - from) / step + 1));
                        steps.push(stride * step);
                        offset += from * stride;
                    }
                    // The second of a mixed pair begins where an element of another size would.
                    view(dtype, &shape, &steps, offset + k * i64::from(self == Pair::Mixed))
                })
            }
            Pair::Any => {
                let (a, b) = (r.any(), r.any());
                r.near(a, b)
            }
            Pair::Odd => {
                let (a, b) = (r.odd(), r.odd());
                r.near(a, b)
            }
            Pair::Hard => {
                let factor = r.pick(1, 4000);
                let (a, b) = (r.hard(factor), r.hard(factor));
                r.near(a, b)
            }
        }
    }
}

fn view(dtype: Dtype, shape: &[i64], strides: &[i64], offset: i64) -> View {
    View { dtype, shape: shape.to_vec(), strides: strides.to_vec(), offset }
}

/// A small generator of its own, so that a seed names the same views for ever.
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x9e37_79b9_7f4a_7c15);
        (0..2).for_each(|_| _ = random.next());
        random
    }

    fn next(&mut self) -> u64 {
        splitmix::next(&mut self.0)
    }

    /// A number in `lo..=hi`.
    fn pick(&mut self, lo: i64, hi: i64) -> i64 {
        let n = (hi - lo).unsigned_abs() + 1;
        lo + i64::try_from(self.next() % n).unwrap_or(0)
    }

    fn dtype(&mut self) -> Dtype {
        [Dtype::U8, Dtype::F16, Dtype::F32, Dtype::F64, Dtype::C64]
            [usize::try_from(self.pick(0, 4)).unwrap_or(0)]
    }

    /// Up to six dimensions, small enough to meet often.
    fn any(&mut self) -> View {
        let rank = self.pick(0, 6);
        let most = [60, 60, 24, 12, 8, 6, 5][usize::try_from(rank).unwrap_or(0)];
        let scale = self.pick(1, 12);
        let size = |r: &mut Random| if r.pick(0, 60) == 0 { 0 } else { r.pick(1, most) };
        let shape: Vec<i64> = (0..rank).map(|_| size(self)).collect_vec();
        let strides: Vec<i64> = (0..rank).map(|_| self.pick(-12, 40) * self.pick(1, scale)).collect_vec();
        view(self.dtype(), &shape, &strides, 0)
    }

    /// Large strides: most sums of them are reached once.
    fn odd(&mut self) -> View {
        let rank = self.pick(1, 6);
        let most = [0, 4000, 60, 16, 8, 5, 4][usize::try_from(rank).unwrap_or(0)];
        let factor = self.pick(1, 6);
        let shape: Vec<i64> = (0..rank).map(|_| self.pick(2, most)).collect_vec();
        let strides: Vec<i64> = (0..rank)
            .map(|_| factor * self.pick(50, 100_000) * if self.pick(0, 3) == 0 { -1 } else { 1 })
            .collect_vec();
        view([Dtype::U8, Dtype::I16][usize::try_from(self.pick(0, 1)).unwrap_or(0)], &shape, &strides, 0)
    }

    /// As large as [`Random::odd`] and larger; about half of the strides are multiples of `factor`.
    fn hard(&mut self, factor: i64) -> View {
        let rank = self.pick(2, 6);
        let most = [0, 0, 90, 20, 9, 6, 4][usize::try_from(rank).unwrap_or(0)];
        let shape: Vec<i64> = (0..rank).map(|_| self.pick(2.max(most / 2), most)).collect_vec();
        let strides: Vec<i64> =
            (0..rank)
                .map(|_| {
                    if self.pick(0, 1) == 0 {
                        factor * self.pick(50, 4000)
                    } else {
                        self.pick(1000, 9_000_000)
                    }
                })
                .collect_vec();
        view(Dtype::U8, &shape, &strides, 0)
    }

    /// Lays the views so that an element of one lies at or beside an element of the other, or anywhere near.
    fn near(&mut self, a: View, b: View) -> [View; 2] {
        let mut views = [a, b];
        let lowest =
            |v: &View| v.strides.iter().zip(&v.shape).map(|(s, n)| ((n - 1) * s).min(0)).sum::<i64>();
        let bytes = |v: &View, element: i64| element * v.dtype.bytes();
        let room = views.iter().map(|v| bytes(v, -lowest(v))).max().unwrap_or(0) + 4096;
        for v in &mut views {
            v.offset = room / v.dtype.bytes();
        }
        let [a, b] = &mut views;
        let mut element = |v: &View| {
            let index = v.strides.iter().zip(&v.shape).map(|(s, n)| s * self.pick(0, (n - 1).max(0)));
            bytes(v, index.sum())
        };
        let apart = element(a) - element(b);
        let beside = if self.pick(0, 3) == 0 { self.pick(-200, 200) } else { self.pick(-5, 5) };
        let shift = (apart + beside).div_euclid(b.dtype.bytes());
        b.offset += shift;
        // Both move up together when the second would begin before the block.
        let short = lowest(b) + b.offset;
        if short < 0 {
            let up = (bytes(b, -short) + 15) / 16 * 16;
            a.offset += up / a.dtype.bytes();
            b.offset += up / b.dtype.bytes();
        }
        views
    }
}
