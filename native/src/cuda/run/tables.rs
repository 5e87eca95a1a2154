//! What leaves need beside their values, as words: which elements move, and which ones rows read.

use spanlift::op::{Convolve, Gather, Leaf, LeafOp, Side, Space, Sparse, Tensor};

/// A leaf as the launch of a kernel, before anything has an address.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Table {
    Move(Move),
    Rows(Rows),
}

/// `spanlift_move`: dimensions of what is written, or of what is read where it adds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Move {
    /// Whether it adds up what is repeated: the adjoint.
    pub(super) adds: bool,
    pub(super) axes: Vec<Axis>,
    /// Sizes and distances of the dimensions over which it adds.
    pub(super) repeats: Vec<(u64, u64)>,
    /// Whether elements are left that nothing is written to.
    pub(super) has_gaps: bool,
    /// All pieces of all dimensions in a row.
    pub(super) pieces: Vec<[i64; 4]>,
}

/// One dimension: its size, the distance of its indices, and its pieces among all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) size: u64,
    pub(super) unit: u64,
    pub(super) pieces: std::ops::Range<usize>,
}

/// `spanlift_rows`: one row for each element that is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rows {
    pub(super) ends: Vec<u64>,
    pub(super) columns: Vec<u32>,
    pub(super) weights: Weights,
    /// Whether listed weights are conjugated; whether what is read is, and the result again.
    pub(super) conj: (bool, bool),
}

/// What entries of rows are multiplied with.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Weights {
    Ones,
    Real(Vec<f64>),
    /// Places among the weights that lie beside the data.
    Listed(Vec<u32>),
}

/// Why a leaf has no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTable {
    /// Nothing here computes it.
    Unknown,
    /// More elements than tables count.
    TooLarge,
}

/// Lists on their way to a device, one behind the other in one block.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) bytes: Vec<u8>,
    /// Where each begins.
    pub(super) at: Vec<usize>,
}

impl Sections {
    pub(super) fn add(&mut self, bytes: Vec<u8>) {
        // Where an element of any type may begin.
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        self.at.push(self.bytes.len());
        self.bytes.extend(bytes);
    }

    /// Axes and pieces, the two lists of a move.
    pub(super) fn moved(&mut self, moved: &Move) {
        let of = |axis: &Axis| [axis.size, axis.unit, axis.pieces.start as u64, axis.pieces.len() as u64];
        let repeats = moved.repeats.iter().map(|&(size, unit)| [size, unit, 0, 0]);
        self.add(moved.axes.iter().map(of).chain(repeats).flatten().flat_map(u64::to_le_bytes).collect());
        self.add(moved.pieces.iter().flatten().flat_map(|n| n.to_le_bytes()).collect());
    }
}

impl Move {
    /// `y_i = x[f(i)]` by the sizes of the dimensions of `y`, each with its pieces.
    pub(super) fn forward(dims: Vec<(i64, Vec<[i64; 4]>)>) -> Move {
        let (mut axes, mut pieces, mut unit) = (Vec::new(), Vec::new(), 1);
        for (size, _) in dims.iter().rev() {
            axes.push((size.unsigned_abs(), unit));
            unit *= size.unsigned_abs();
        }
        axes.reverse();
        let axes = axes.into_iter().zip(dims).map(|((size, unit), (_, of))| {
            let first = pieces.len();
            pieces.extend(of);
            Axis { size, unit, pieces: first..pieces.len() }
        });
        let axes = axes.collect();
        Move { adds: false, axes, repeats: Vec::new(), has_gaps: false, pieces }
    }

    /// Threads that have something to do.
    pub(super) fn n(&self) -> u64 {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Whether the kernel, which counts elements in 32 bits, counts as many.
    pub(super) fn is_counted(&self) -> bool {
        u32::try_from(self.n()).is_ok()
    }

    /// How often each of them reads.
    pub(super) fn n_repeats(&self) -> u64 {
        self.repeats.iter().map(|repeat| repeat.0).product()
    }
}

impl Table {
    /// The kernel that reads the table of a leaf; `None` for leaves without one.
    pub(super) fn kernel_of(leaf: &Leaf) -> Option<&'static str> {
        if leaf.downcast::<Gather>().is_some() {
            return Some("spanlift_move");
        }
        let has_rows = leaf.downcast::<Sparse>().is_some() || leaf.downcast::<Convolve>().is_some();
        has_rows.then_some("spanlift_rows")
    }

    /// The table as bytes: axes and pieces, or ends, columns and weights.
    pub(super) fn sections(&self) -> Sections {
        let mut sections = Sections::default();
        match self {
            Table::Move(moved) => sections.moved(moved),
            Table::Rows(rows) => {
                sections.add(rows.ends.iter().flat_map(|n| n.to_le_bytes()).collect());
                sections.add(rows.columns.iter().flat_map(|n| n.to_le_bytes()).collect());
                sections.add(match &rows.weights {
                    Weights::Ones => Vec::new(),
                    Weights::Real(weights) => weights.iter().flat_map(|w| w.to_le_bytes()).collect(),
                    Weights::Listed(places) => places.iter().flat_map(|n| n.to_le_bytes()).collect(),
                });
            }
        }
        sections
    }

    pub(super) fn of(leaf: &Leaf) -> Result<Table, NoTable> {
        let sizes = [leaf.domain(), leaf.codomain()].map(|space| u32::try_from(space.elements()));
        let [Ok(_), Ok(n_rows)] = sizes else { return Err(NoTable::TooLarge) };
        let is_adjoint = leaf.side == Side::Adjoint;
        let n_rows = n_rows as usize;
        if let Some(gather) = leaf.downcast::<Gather>() {
            let moved = if is_adjoint { added(gather) } else { Some(taken(gather)) };
            return match moved {
                Some(moved) => Ok(Table::Move(moved)),
                None => Ok(Table::Rows(of_gather(gather, is_adjoint, n_rows)?)),
            };
        }
        if let Some(sparse) = leaf.downcast::<Sparse>() {
            let mut entries = Entries::default();
            sparse.each(|to, from, w| entries.add((to, from), is_adjoint, w));
            let (ends, columns, weights) = entries.rows(n_rows)?;
            return Ok(Table::Rows(Rows {
                ends,
                columns,
                weights: Weights::Real(weights),
                conj: (false, leaf.conj),
            }));
        }
        if let Some(convolve) = leaf.downcast::<Convolve>() {
            let places = places(convolve.kernel());
            let mut entries = Entries::default();
            convolve.each(|to, from, h| entries.add((to, from), is_adjoint, places[h]));
            let (ends, columns, places) = entries.rows(n_rows)?;
            let (weights, conj) = (Weights::Listed(places), (is_adjoint, leaf.conj));
            return Ok(Table::Rows(Rows { ends, columns, weights, conj }));
        }
        Err(NoTable::Unknown)
    }
}

/// `y_i = x[f(i)]`
fn taken(gather: &Gather) -> Move {
    let sizes = gather.facts().codomain.dims().iter().map(|dim| dim.1);
    let pieces = |ranges: Option<Vec<[i64; 4]>>, size| ranges.unwrap_or_else(|| vec![[0, size, 0, 0]]);
    Move::forward(sizes.zip(gather.ranges()).map(|(size, ranges)| (size, pieces(ranges, size))).collect())
}

/// `y[f(i)] = sum over what is repeated`; `None` where two elements otherwise come from one.
fn added(gather: &Gather) -> Option<Move> {
    let (domain, codomain) = (&gather.facts().domain, &gather.facts().codomain);
    let (mut axes, mut repeats, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    for (ranges, (size, unit)) in gather.ranges().into_iter().zip(dims(codomain)) {
        match ranges {
            None => repeats.push((size, unit)),
            Some(ranges) => {
                let first = pieces.len();
                pieces.extend(ranges);
                axes.push(Axis { size, unit, pieces: first..pieces.len() });
            }
        }
    }
    let times: u64 = repeats.iter().map(|r| r.0).product();
    let mut n_taken = vec![0u64; usize::try_from(domain.elements()).ok()?];
    gather.each(|_, from| n_taken[from] += 1);
    let has_gaps = n_taken.contains(&0);
    (n_taken.iter().all(|n| *n == 0 || *n == times)).then_some(Move {
        adds: true,
        axes,
        repeats,
        has_gaps,
        pieces,
    })
}

fn of_gather(gather: &Gather, is_adjoint: bool, n_rows: usize) -> Result<Rows, NoTable> {
    let mut entries = Entries::default();
    gather.each(|to, from| entries.add((to, from), is_adjoint, ()));
    let (ends, columns, _) = entries.rows(n_rows)?;
    Ok(Rows { ends, columns, weights: Weights::Ones, conj: (false, false) })
}

/// Sizes of the dimensions of a space, and distances of their indices.
pub(super) fn dims(space: &Space) -> Vec<(u64, u64)> {
    let mut unit = 1;
    let mut dims = Vec::new();
    for (_, size) in space.dims().iter().rev() {
        dims.push((size.unsigned_abs(), unit));
        unit *= size.unsigned_abs();
    }
    dims.reverse();
    dims
}

/// For each element of a tensor's storage its place among the tensor's elements in row-major order.
fn places(tensor: &Tensor) -> Vec<u32> {
    let mut places = vec![0; tensor.storage().len()];
    let mut at = vec![tensor.offset()];
    for ((_, size), stride) in tensor.dims().iter().zip(tensor.strides()) {
        at = at.iter().flat_map(|at| (0..*size).map(move |k| at + k * stride)).collect();
    }
    for (place, at) in (0u32..).zip(at) {
        if let Some(of) = usize::try_from(at).ok().and_then(|at| places.get_mut(at)) {
            *of = place;
        }
    }
    places
}

/// Where each row ends, and the column and the weight of each entry.
type ByRow<W> = (Vec<u64>, Vec<u32>, Vec<W>);

/// Entries in the order in which they are added up, not yet by row.
struct Entries<W> {
    entries: Vec<(usize, usize, W)>,
}

impl<W> Default for Entries<W> {
    fn default() -> Entries<W> {
        Entries { entries: Vec::new() }
    }
}

impl<W: Copy + Default> Entries<W> {
    fn add(&mut self, (to, from): (usize, usize), is_adjoint: bool, weight: W) {
        let (row, column) = if is_adjoint { (from, to) } else { (to, from) };
        self.entries.push((row, column, weight));
    }

    /// Ends, columns and weights of rows; entries of a row keep their order.
    fn rows(self, n_rows: usize) -> Result<ByRow<W>, NoTable> {
        let mut next = vec![0usize; n_rows + 1];
        for (row, ..) in &self.entries {
            next[row + 1] += 1;
        }
        for row in 0..n_rows {
            next[row + 1] += next[row];
        }
        let ends = next[1..].iter().map(|end| *end as u64).collect();
        let mut columns = vec![0; self.entries.len()];
        let mut weights = vec![W::default(); self.entries.len()];
        for (row, column, weight) in self.entries {
            let at = next[row];
            next[row] += 1;
            columns[at] = u32::try_from(column).map_err(|_| NoTable::TooLarge)?;
            weights[at] = weight;
        }
        Ok((ends, columns, weights))
    }
}
