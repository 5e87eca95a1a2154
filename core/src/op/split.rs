//! Operators in tiles: cut along named dimensions, put together again, spread over devices.

use std::ops::Range;

use super::cut::{Along, Tile};
use super::json::MOST_POINTS;
use super::leaves::{rename, slice};
use super::name::Name;
use super::operator::Operator;
use super::sum::first_branch;
use super::window::{Window, joined};
use super::{OpError, Roles, SpaceError, ToDevice};
use crate::memory::Device;
use crate::ordered::CollectVec;

/// An operator and the grid of its tiles.
///
/// | the dimension is | tiles make the whole |
/// |---|---|
/// | on both sides, treated index by index | side by side on both |
/// | on the output alone | joined |
/// | on the input alone | added |
/// | between two parts of a chain alone | added |
/// | on both sides, mirrored | joined, each reading the range at the other end |
/// | on both sides, neighbours mixed, with a halo asked for | joined, each reading some elements more |
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Along, dense};
/// let a = dense(["m"], ["n"], [("m", 3), ("n", 7)], (0..21).map(f64::from), Dtype::F64)?;
/// let tiles = a.tiles([("n", 2), ("m", 1)])?;
/// assert_eq!(tiles.grid(), [4, 3]);
/// assert_eq!(tiles.tile(&[3, 0])?.to_string(), "m=0..1, n=6..7");
/// assert_eq!(tiles.joined()?.codomain(), a.codomain());
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tiles {
    pub(super) operator: Operator,
    pub(super) dims: Vec<Ranges>,
}

/// Tiles that are tried before a dimension is proposed.
const MOST_TRIED: usize = 64;

/// Where tiles of a dimension of so many elements begin and end.
type Edges<'a> = &'a dyn Fn(&Name, i64) -> Result<Vec<i64>, OpError>;

/// The ranges of one dimension.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ranges {
    pub(super) dim: Name,
    along: Along,
    /// One more than there are tiles: 0, rising, the size.
    pub(super) edges: Vec<i64>,
    /// Whether tiles read other ranges than they write.
    pub(super) windows: bool,
}

impl Ranges {
    pub(super) fn range(&self, k: usize) -> Option<(i64, i64)> {
        Some((*self.edges.get(k)?, *self.edges.get(k + 1)?))
    }

    fn ranges(&self) -> impl Iterator<Item = (i64, i64)> {
        self.edges.windows(2).map(|w| (w[0], w[1]))
    }
}

impl Tiles {
    /// The operator that is cut.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// How many tiles there are along each dimension, in the order in which they were listed.
    pub fn grid(&self) -> Vec<usize> {
        self.dims.iter().map(|d| d.edges.len() - 1).collect_vec()
    }

    /// The ranges of one tile, in the domain, in the codomain and between parts.
    ///
    /// # Errors
    /// [`OpError::Argument`] for a tile that is not on the grid.
    pub fn tile(&self, index: &[usize]) -> Result<Tile, OpError> {
        let wrong = || OpError::Argument {
            operator: self.operator.formula(),
            problem: format!("there is no tile {index:?} on a grid of {:?}", self.grid()),
        };
        if index.len() != self.dims.len() {
            return Err(wrong());
        }
        let mut tile = Tile::default();
        for (d, &k) in self.dims.iter().zip(index) {
            tile = tile.with(&d.dim, d.range(k).ok_or_else(wrong)?);
        }
        Ok(tile)
    }

    /// The operator of one tile.
    ///
    /// # Errors
    /// As [`Tiles::tile`] and [`Operator::cut`].
    pub fn cut(&self, index: &[usize]) -> Result<Operator, OpError> {
        self.piece(&self.tile(index)?)
    }

    /// The operator inside a tile; along dimensions with windows the tile says what is written.
    pub(super) fn piece(&self, tile: &Tile) -> Result<Operator, OpError> {
        let (mut operator, mut rest) = (self.operator.clone(), tile.clone());
        for d in self.dims.iter().filter(|d| d.windows) {
            if let Some(range) = tile.range(&d.dim) {
                operator = operator.windowed(&d.dim, range)?.operator;
                rest = rest.without(&d.dim);
            }
        }
        operator.cut(&rest)
    }

    /// The tiles put together: the same operator, part by part, the last listed dimension innermost.
    ///
    /// # Errors
    /// As [`Operator::cut`].
    pub fn joined(&self) -> Result<Operator, OpError> {
        let pieces = self.pieces();
        self.put_together(&mut |tile| pieces.of(tile))
    }

    /// The same; nothing where a tile cannot be cut, or `goes_on` says no to one.
    pub(crate) fn joined_while(&self, goes_on: &mut dyn FnMut(&Operator) -> bool) -> Option<Operator> {
        let pieces = self.pieces();
        let mut piece = |tile: &Tile| {
            let piece = pieces.of(tile)?;
            // Whatever ends it is not told.
            if goes_on(&piece) { Ok(piece) } else { Err(OpError::NoAxis) }
        };
        self.put_together(&mut piece).ok()
    }

    /// The tiles put together, each computed on its own device: the input of a tile goes there, its result comes back.
    ///
    /// `devices` gives one device for each tile, in the order of the grid, the last listed dimension fastest
    /// ([`broadcast`](super::broadcast()) fills a grid). Transfers stand around every tile; [`Operator::simplify`] joins those of
    /// a device.
    ///
    /// # Errors
    /// As [`Operator::cut`]; [`OpError::Argument`] for another number of devices than tiles.
    pub fn on(&self, devices: &[Device]) -> Result<Operator, OpError> {
        let count: usize = self.grid().iter().product();
        if devices.len() != count {
            let problem = format!("{} devices for {count} tiles", devices.len());
            return Err(OpError::Argument { operator: self.operator.formula(), problem });
        }
        let mut devices = devices.iter();
        let pieces = self.pieces();
        self.put_together(&mut |tile| {
            let part = pieces.of(tile)?;
            Ok(devices.next().map_or_else(|| part.clone(), |&device| there_and_back(&part, device)))
        })
    }

    /// The tiles put together, each read, computed and written where its roles say.
    ///
    /// One space lies on one device, so all inputs must be expected on one, and all results; the computation of each tile may
    /// be anywhere. [`Operator::simplify`] joins the transfers of tiles on one device.
    ///
    /// # Errors
    /// As [`Operator::cut`]; [`OpError::Argument`] for another number of roles than tiles, and for inputs or results on
    /// several devices.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Roles, dense, mock};
    /// let a = dense(["m"], ["n"], [("m", 4), ("n", 3)], [1.0; 12], Dtype::F64)?;
    /// let roles = Roles { compute: [0, 0, 1, 1].map(mock).to_vec(), ..Roles::round_robin(4, mock(2), &[mock(0)]) };
    /// let b = a.tiles([("m", 1)])?.with_roles(&roles)?.simplify();
    /// assert_eq!(b.plan().unwrap().transfers().len(), 4);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn with_roles(&self, roles: &Roles) -> Result<Operator, OpError> {
        let wrong = |problem: String| OpError::Argument { operator: self.operator.formula(), problem };
        let count: usize = self.grid().iter().product();
        if [&roles.input, &roles.compute, &roles.output].iter().any(|list| list.len() != count) {
            let of = [&roles.input, &roles.compute, &roles.output].map(Vec::len);
            return Err(wrong(format!("roles of {of:?} tiles for {count}")));
        }
        let one = |list: &[Device], what: &str| match list {
            [first, rest @ ..] if rest.iter().all(|d| d == first) => Ok(*first),
            _ => Err(wrong(format!("{what} of tiles lie on several devices: one space lies on one"))),
        };
        let (from, to) = (one(&roles.input, "inputs")?, one(&roles.output, "results")?);
        let mut computes = roles.compute.iter();
        let pieces = self.pieces();
        self.put_together(&mut |tile| {
            let part = pieces.of(tile)?;
            let device = computes.next().copied().unwrap_or(from);
            let there = part.on(device);
            let up = ToDevice::of(from.into(), device.into(), &part.domain().on(from));
            let down = ToDevice::of(device.into(), to.into(), there.codomain());
            Ok(Operator::join(vec![Operator::to_device(up), there, Operator::to_device(down)]))
        })
    }

    fn put_together(
        &self,
        cut: &mut dyn FnMut(&Tile) -> Result<Operator, OpError>,
    ) -> Result<Operator, OpError> {
        let listed = |dim: &Name| self.dims.iter().any(|d| d.dim == *dim);
        let works = |dim: &Name| !listed(dim) && self.operator.cuttable(dim, &[]).is_ok();
        self.level(0, &Tile::default(), cut).map_err(|e| self.operator.proposing(e, &works))
    }

    fn level(
        &self,
        k: usize,
        tile: &Tile,
        cut: &mut dyn FnMut(&Tile) -> Result<Operator, OpError>,
    ) -> Result<Operator, OpError> {
        let Some(d) = self.dims.get(k) else { return cut(tile) };
        let parts = d.ranges().map(|range| self.level(k + 1, &tile.with(&d.dim, range), cut));
        let parts = parts.try_collect_vec()?;
        if !d.windows {
            return recombined(&d.dim, d.along, parts);
        }
        let windows = d
            .ranges()
            .zip(parts)
            .map(|(range, operator)| Ok(Window { operator, ..self.operator.windowed(&d.dim, range)? }));
        let windows = windows.collect::<Result<Vec<_>, OpError>>()?;
        let size = self.operator.domain().size(&windows[0].from).unwrap_or(0);
        joined(&d.dim, size, windows)
    }
}

/// Tiles of one dimension as the whole.
fn recombined(dim: &Name, along: Along, parts: Vec<Operator>) -> Result<Operator, OpError> {
    let dim = Some(dim.clone());
    match along {
        Along::Pointwise => Operator::concatenated(dim.clone(), dim, parts, false),
        Along::Out => Operator::concatenated(dim, None, parts, false),
        Along::In => Operator::concatenated(None, dim, parts, false),
        Along::Inner => Ok(Operator::added(parts, false)),
        Along::Absent | Along::Mixed | Along::Mirrored => {
            unreachable!("bug: refused when the tiles were made")
        }
    }
}

/// Where tiles of `size` begin and end along a dimension of `n`.
fn edges_of(dim: &Name, n: i64, size: i64) -> Result<Vec<i64>, OpError> {
    let dim = dim.clone();
    match size {
        0 => Err(OpError::EmptyTiles { dim }),
        ..0 => Err(OpError::NegativeTiles { dim, size }),
        _ if (n - 1) / size >= MOST_POINTS => {
            Err(OpError::TooManyTiles { dim, size: n, tiles: (n - 1) / size + 1 })
        }
        _ => Ok((0..n).step_by(usize::try_from(size).unwrap_or(usize::MAX)).chain([n]).collect_vec()),
    }
}

/// The operator on `device`, with its input sent there and its result sent back.
fn there_and_back(a: &Operator, device: Device) -> Operator {
    let there = a.on(device);
    let up = ToDevice::of(a.domain().device().into(), device.into(), a.domain());
    let down = ToDevice::of(device.into(), a.codomain().device().into(), there.codomain());
    Operator::join(vec![Operator::to_device(up), there, Operator::to_device(down)])
}

impl Operator {
    /// The tiles of the given sizes along each listed dimension; the last one of a dimension may be smaller.
    ///
    /// # Errors
    /// [`OpError::UnknownDim`] for a name that is nowhere, [`OpError::EmptyTiles`] and [`OpError::NegativeTiles`] for a
    /// size below 1, [`OpError::Uncuttable`] where tiles would not make the whole.
    pub fn tiles<'a>(&self, sizes: impl IntoIterator<Item = (&'a str, i64)>) -> Result<Tiles, OpError> {
        let mut dims: Vec<Ranges> = Vec::new();
        for (dim, size) in sizes {
            dims.push(self.ranges(dim, &dims, &|dim, n| edges_of(dim, n, size))?);
        }
        Ok(Tiles { operator: self.clone(), dims })
    }

    /// The tiles between the given edges along each listed dimension: 0, rising, and its size.
    ///
    /// # Errors
    /// As [`Operator::tiles`]; [`OpError::TileEdges`] for edges that are none.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Operator, Space};
    /// let a = Operator::identity(Space::new([("x", 9)], Dtype::F64)?);
    /// assert_eq!(a.tiles_at([("x", vec![0, 1, 9])])?.tile(&[1])?.to_string(), "x=1..9");
    /// assert!(a.tiles_at([("x", vec![0, 8])]).is_err());
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn tiles_at<'a>(
        &self,
        edges: impl IntoIterator<Item = (&'a str, Vec<i64>)>,
    ) -> Result<Tiles, OpError> {
        let mut dims: Vec<Ranges> = Vec::new();
        for (dim, edges) in edges {
            let given = |dim: &Name, size: i64| {
                let edges = edges.clone();
                let covered = covers(&edges, size);
                if covered { Ok(edges) } else { Err(OpError::TileEdges { dim: dim.clone(), edges, size }) }
            };
            dims.push(self.ranges(dim, &dims, &given)?);
        }
        Ok(Tiles { operator: self.clone(), dims })
    }

    /// The tiles of `size` along `dim`, each reading up to `halo` elements beyond either end of what it writes: for differences
    /// and convolutions, and for chains and sums of these with what treats `dim` index by index. `dim` is a dimension of what is
    /// written: of results that are shorter or longer than the input the one with their name.
    ///
    /// # Errors
    /// As [`Operator::tiles`]; [`OpError::Halo`] where a tile needs more; [`OpError::Uncuttable`] for what has no neighbours,
    /// such as a Fourier transform, or has them at the other end, such as a periodic convolution.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Boundary, Space, finite_difference};
    /// let d = finite_difference("x", Boundary::Zero).over(Space::new([("x", 5)], Dtype::F64)?)?;
    /// assert!(d.tiles([("x", 2)]).is_err());
    /// let tiles = d.tiles_with_halo("x", 2, 1)?;
    /// assert_eq!(tiles.cut(&[0])?.domain().elements(), 3);
    /// let x = Array::new(d.domain().clone(), [1.0, 4.0, 9.0, 16.0, 25.0])?;
    /// assert_eq!(tiles.joined()?.apply(&x)?, d.apply(&x)?);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn tiles_with_halo(&self, dim: &str, size: i64, halo: i64) -> Result<Tiles, OpError> {
        let ranges = self.halo(dim, halo, &|dim, n| edges_of(dim, n, size))?;
        Ok(Tiles { operator: self.clone(), dims: vec![ranges] })
    }

    /// Ranges of a dimension that read no more than a halo beside themselves.
    fn halo(&self, dim: &str, halo: i64, edges: Edges<'_>) -> Result<Ranges, OpError> {
        let works = |dim: &Name| self.haloed(dim.clone(), halo, edges).is_ok();
        self.haloed(dim.parse()?, halo, edges).map_err(|e| self.proposing(e, &works))
    }

    fn haloed(&self, dim: Name, halo: i64, edges: Edges<'_>) -> Result<Ranges, OpError> {
        let Some(n) = self.codomain().size(&dim) else {
            let (operator, known) = (self.formula(), self.dims());
            if !known.contains(&dim) {
                return Err(OpError::UnknownDim { operator, dim, known });
            }
            let why = "tiles with a halo are tiles of what is written, which lacks it".to_owned();
            return Err(OpError::Uncuttable { operator, dim, why, others: Vec::new() });
        };
        if n == 0 {
            return Err(OpError::TileCount { dim, tiles: 1, size: 0 });
        }
        let edges = edges(&dim, n)?;
        let mut needs = 0;
        for w in edges.windows(2) {
            let (lo, hi) = (w[0], w[1]);
            let (a, b) = self.windowed(&dim, (lo, hi))?.reads;
            let beside = |lo: i64, hi: i64| (lo - a).max(b - hi);
            // What mirrors reads beside the range at the other end.
            needs = beside(lo, hi).min(beside(n - hi, n - lo)).max(needs);
        }
        if needs > halo {
            return Err(OpError::Halo { operator: self.formula(), dim, needs, halo });
        }
        Ok(Ranges { along: self.along(&dim), dim, edges, windows: true })
    }

    /// The ranges of a dimension that can be cut, beside those before.
    fn ranges(&self, dim: &str, before: &[Ranges], edges: Edges<'_>) -> Result<Ranges, OpError> {
        let ranges = |dim: &Name| -> Result<Ranges, OpError> {
            let (along, n) = self.cuttable(dim, before)?;
            let edges = edges(dim, n)?;
            Ok(Ranges { dim: dim.clone(), along, edges, windows: along == Along::Mirrored })
        };
        let works = |dim: &Name| ranges(dim).is_ok_and(|ranges| self.tries(ranges));
        ranges(&dim.parse()?).map_err(|e| self.proposing(e, &works))
    }

    /// Whether the first of these tiles can be cut: groups of elements stay together.
    fn tries(&self, ranges: Ranges) -> bool {
        let tiles = Tiles { operator: self.clone(), dims: vec![ranges] };
        let d = &tiles.dims[0];
        d.ranges().take(MOST_TRIED).all(|range| tiles.piece(&Tile::default().with(&d.dim, range)).is_ok())
    }

    /// How a dimension acts that can be cut, and its size.
    fn cuttable(&self, dim: &Name, before: &[Ranges]) -> Result<(Along, i64), OpError> {
        let dim = dim.clone();
        if before.iter().any(|d| d.dim == dim) {
            return Err(SpaceError::DuplicateDim(dim).into());
        }
        match (self.along(&dim), self.size(&dim)) {
            (Along::Mixed, _) => Err(self.uncuttable(&dim)),
            (Along::Absent, _) | (_, None) => {
                Err(OpError::UnknownDim { operator: self.formula(), dim, known: self.dims() })
            }
            (_, Some(0)) => Err(OpError::TileCount { dim, tiles: 1, size: 0 }),
            (along, Some(size)) if self.joins_tiles(&dim, along) => Ok((along, size)),
            _ => {
                let why = "only members of a tuple have it; cut them before they are put together".to_owned();
                Err(OpError::Uncuttable { operator: self.formula(), dim, why, others: Vec::new() })
            }
        }
    }

    /// The operator in tiles, level by level: each level cuts the tiles of the one before.
    ///
    /// # Errors
    /// As [`Operator::tiles`].
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Operator, dense};
    /// let a = dense(["m"], ["n"], [("m", 3), ("n", 7)], (0..21).map(f64::from), Dtype::F64)?;
    /// let b = a.batch(&[&[("n", 4)], &[("n", 2), ("m", 2)]])?;
    /// let x = Array::new(a.domain().clone(), (0..7).map(f64::from))?;
    /// assert_eq!(b.apply(&x)?, a.apply(&x)?);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn batch(&self, levels: &[&[(&str, i64)]]) -> Result<Operator, OpError> {
        let Some((first, rest)) = levels.split_first() else { return Ok(self.clone()) };
        let tiles = self.tiles(first.iter().copied())?;
        tiles.put_together(&mut |tile| self.cut(tile)?.batch(rest))
    }

    /// The operator in `tiles` parts along `dim`, spread over devices: neighbouring tiles on one device, which gets its input
    /// in one transfer and gives its result in one.
    ///
    /// # Errors
    /// [`OpError::Uncuttable`] where tiles would not make the whole, as along the dimension of a Fourier transform;
    /// [`OpError::TileCount`] for no tile or more tiles than elements; [`OpError::Argument`] without a device.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, mock};
    /// use spanlift::op::dense;
    /// let a = dense(["m"], ["n"], [("m", 16), ("n", 2)], [1.0; 32], Dtype::F64)?;
    /// let b = a.split("m", 8, &[mock(0), mock(1)])?;
    /// assert_eq!(b.plan().unwrap().transfers().len(), 4);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn split(&self, dim: &str, tiles: usize, devices: &[Device]) -> Result<Operator, OpError> {
        self.even_spread(dim, tiles, devices, false)
    }

    /// As [`Operator::split`], with results that are added up in a fixed tree over the tiles, by the adjoint and the normal too:
    /// the same bits for any number of devices. A device has one branch of the tree, so that some have up to twice as many
    /// tiles as others.
    ///
    /// # Errors
    /// As [`Operator::split`].
    ///
    /// ```
    /// use spanlift::memory::{Dtype, mock};
    /// use spanlift::op::{Array, dense};
    /// let w = (0..16).map(|k| 1.0 / f64::from(k + 3));
    /// let a = dense(["m"], ["n"], [("m", 1), ("n", 16)], w, Dtype::F32)?;
    /// let x = Array::new(a.domain().clone(), (0..16).map(|k| 0.1 * f64::from(k)))?;
    /// let on = |n| a.split_fixed("n", 8, &(0..n).map(mock).collect::<Vec<_>>())?.apply(&x);
    /// assert!((1..=8).all(|n| on(n) == on(1)));
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn split_fixed(&self, dim: &str, tiles: usize, devices: &[Device]) -> Result<Operator, OpError> {
        self.even_spread(dim, tiles, devices, true)
    }

    /// As [`Operator::split`], along a dimension whose tiles also read up to `halo` elements beyond either end of what they
    /// write. What tiles of one device read in common is sent there once.
    ///
    /// # Errors
    /// As [`Operator::split`] and [`Operator::tiles_with_halo`].
    ///
    /// ```
    /// use spanlift::memory::{Dtype, mock};
    /// use spanlift::op::{Boundary, Space, finite_difference};
    /// let d = finite_difference("x", Boundary::Zero).over(Space::new([("x", 16)], Dtype::F32)?)?;
    /// let plan = d.split_with_halo("x", 8, 1, &[mock(0), mock(1)])?.plan().unwrap();
    /// let bytes: Vec<u64> = plan.transfers().iter().map(|t| t.bytes.0).collect();
    /// assert_eq!(bytes, [4 * 9, 4 * 8, 4 * 8, 4 * 8]); // one element more for the first device
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn split_with_halo(
        &self,
        dim: &str,
        tiles: usize,
        halo: i64,
        devices: &[Device],
    ) -> Result<Operator, OpError> {
        let ranges = self.halo(dim, halo, &|dim, n| even(dim, n, tiles))?;
        self.spread(&ranges, devices, false)
    }

    fn even_spread(
        &self,
        dim: &str,
        tiles: usize,
        devices: &[Device],
        fixed: bool,
    ) -> Result<Operator, OpError> {
        let edges = |dim: &Name, n: i64| even(dim, n, tiles);
        let works = |dim: &Name| self.ranges(&dim.to_string(), &[], &edges).is_ok_and(|r| self.tries(r));
        let ranges = self.ranges(dim, &[], &edges)?;
        self.spread(&ranges, devices, fixed).map_err(|e| self.proposing(e, &works))
    }

    fn spread(&self, ranges: &Ranges, devices: &[Device], fixed: bool) -> Result<Operator, OpError> {
        if devices.is_empty() {
            let problem = "there is no device to spread it over".to_owned();
            return Err(OpError::Argument { operator: self.formula(), problem });
        }
        let tiles = ranges.edges.len() - 1;
        let groups = devices.len().min(tiles);
        let owner = |tile: usize| {
            // Tile k belongs to the group g with g tiles/groups <= k < (g + 1) tiles/groups.
            ((tile + 1) * groups - 1) / tiles
        };
        let spread = Spread { whole: self, ranges, owner: &owner, devices };
        if fixed && matches!(ranges.along, Along::In | Along::Inner | Along::Out) {
            return spread.tree((0, tiles), &devices[..groups]);
        }
        let mut bounds = vec![0];
        bounds.extend((1..tiles).filter(|&k| owner(k) != owner(k - 1)));
        bounds.push(tiles);
        let groups = bounds.windows(2).map(|w| (w[0], w[1]));
        if ranges.windows {
            let windows = groups.map(|(first, end)| spread.window(first, end));
            let windows = windows.try_collect_vec()?;
            let size = self.domain().size(&windows[0].from).unwrap_or(0);
            return joined(&ranges.dim, size, windows);
        }
        let parts = groups.map(|(first, end)| spread.group(first, end)).try_collect_vec()?;
        recombined(&ranges.dim, ranges.along, parts)
    }
}

/// Edges of so many tiles; sizes differ by one at most.
fn even(dim: &Name, n: i64, tiles: usize) -> Result<Vec<i64>, OpError> {
    let count = i64::try_from(tiles).unwrap_or(i64::MAX);
    if !(1..=n).contains(&count) {
        return Err(OpError::TileCount { dim: dim.clone(), tiles, size: n });
    }
    if count > MOST_POINTS {
        return Err(OpError::TooManyTiles { dim: dim.clone(), size: n, tiles: count });
    }
    Ok((0..=count).map(|k| k * (n / count) + k.min(n % count)).collect_vec())
}

/// Tiles of one dimension and the devices that they belong to.
struct Spread<'a> {
    whole: &'a Operator,
    ranges: &'a Ranges,
    owner: &'a dyn Fn(usize) -> usize,
    devices: &'a [Device],
}

impl Spread<'_> {
    fn cut(&self, first: usize, end: usize) -> Result<Operator, OpError> {
        let (lo, hi) = (self.ranges.edges[first], self.ranges.edges[end]);
        self.whole.cut(&Tile::default().with(&self.ranges.dim, (lo, hi)))
    }

    /// The tiles of one device behind one transfer in and one out.
    fn group(&self, first: usize, end: usize) -> Result<Operator, OpError> {
        let parts = (first..end).map(|k| self.cut(k, k + 1)).try_collect_vec()?;
        let together = recombined(&self.ranges.dim, self.ranges.along, parts)?;
        Ok(there_and_back(&together, self.devices[(self.owner)(first)]))
    }

    /// The tiles of one device, which read what they need together in one transfer.
    fn window(&self, first: usize, end: usize) -> Result<Window, OpError> {
        let (dim, edge) = (&self.ranges.dim, |k: usize| self.ranges.edges[k]);
        let Window { from, reads: whole, .. } = self.whole.windowed(dim, (edge(first), edge(end)))?;
        let tiles = (first..end).map(|k| {
            let tile = self.whole.windowed(dim, (edge(k), edge(k + 1)))?;
            let (a, b) = tile.reads;
            Ok(Window { reads: (a - whole.0, b - whole.0), ..tile })
        });
        let together = joined(dim, whole.1 - whole.0, tiles.collect::<Result<_, OpError>>()?)?;
        let operator = there_and_back(&together, self.devices[(self.owner)(first)]);
        Ok(Window { from, reads: whole, operator })
    }

    /// The tree over tiles: every device has one branch, which is added up there.
    fn tree(&self, (first, end): (usize, usize), devices: &[Device]) -> Result<Operator, OpError> {
        if let [device] = devices {
            let branch = there_and_back(&self.branch(first, end)?, *device);
            return self.taken(branch, (first, end), (0, self.ranges.edges.len() - 1));
        }
        let left = first_branch(end - first);
        let right = end - first - left;
        // As many devices for each side as it has tiles, and on neither side more than that.
        let n = devices.len();
        let here = (n * left / (left + right)).clamp(n.saturating_sub(right).max(1), left.min(n - 1));
        let (middle, (here, there)) = (first + left, devices.split_at(here));
        self.both(self.tree((first, middle), here)?, self.tree((middle, end), there)?)
    }

    /// The tiles of one branch, which read what the branch reads.
    fn branch(&self, first: usize, end: usize) -> Result<Operator, OpError> {
        if self.ranges.along != Along::Out {
            let terms = (first..end).map(|k| self.term(k, (first, end))).try_collect_vec()?;
            return Ok(Operator::added(terms, true));
        }
        if end - first == 1 {
            return self.cut(first, end);
        }
        let middle = first + first_branch(end - first);
        self.both(self.branch(first, middle)?, self.branch(middle, end)?)
    }

    /// Two branches: added, or joined so that the adjoint adds them.
    fn both(&self, left: Operator, right: Operator) -> Result<Operator, OpError> {
        if self.ranges.along == Along::Out {
            return Operator::concatenated(Some(self.ranges.dim.clone()), None, vec![left, right], true);
        }
        Ok(Operator::added(vec![left, right], true))
    }

    /// One tile as a term that reads what a branch of the tree reads.
    fn term(&self, tile: usize, branch: (usize, usize)) -> Result<Operator, OpError> {
        self.taken(self.cut(tile, tile + 1)?, (tile, tile + 1), branch)
    }

    /// An operator on the input of `tiles` as one on the input of `of`, from which it takes its part.
    fn taken(&self, a: Operator, tiles: (usize, usize), of: (usize, usize)) -> Result<Operator, OpError> {
        if self.ranges.along != Along::In || tiles == of {
            return Ok(a);
        }
        let edge = |k: usize| self.ranges.edges[k];
        let dim = &self.ranges.dim;
        let names: Vec<Name> = a.domain().names().cloned().collect_vec();
        let (old, fresh) = (dim.to_string(), dim.next_unused(&names).to_string());
        let reads = Tile::default().with(dim, (edge(of.0), edge(of.1))).space(self.whole.domain());
        let range = edge(tiles.0) - edge(of.0)..edge(tiles.1) - edge(of.0);
        let part = slice(&old, range, 1).named([fresh.as_str()]).over(reads.on(a.domain().device()))?;
        let back = rename([(fresh.as_str(), old.as_str())]).over(part.codomain())?;
        Ok(Operator::join(vec![part, back, a]))
    }
}

/// Whether edges begin at 0, rise and end at the size.
fn covers(edges: &[i64], size: i64) -> bool {
    edges.first() == Some(&0) && edges.last() == Some(&size) && edges.windows(2).all(|w| w[0] < w[1])
}

/// The parts that a range meets, among parts between `edges`: the index of each and the range inside it.
///
/// # Errors
/// [`OpError::Argument`] for edges that do not rise from 0, a range that leaves them, or a step other than 1.
///
/// ```
/// use spanlift::op::partition;
/// assert_eq!(partition(&[0, 5, 10, 15, 20], 3..11, 1)?, [(0, 3..5), (1, 0..5), (2, 0..1)]);
/// assert!(partition(&[0, 20], 0..21, 1).is_err());
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn partition(edges: &[i64], range: Range<i64>, step: i64) -> Result<Vec<(usize, Range<i64>)>, OpError> {
    let size = edges.last().copied().unwrap_or(0);
    let wrong = |problem: String| OpError::Argument { operator: "partition".to_owned(), problem };
    if !covers(edges, size) {
        return Err(wrong(format!("edges {edges:?} do not rise from 0")));
    }
    if step != 1 {
        return Err(wrong(format!("a step of {step} is not 1")));
    }
    if !(0 <= range.start && range.start <= range.end && range.end <= size) {
        return Err(wrong(format!("{range:?} is not inside 0..{size}")));
    }
    let parts = edges.windows(2).enumerate().filter_map(|(k, w)| {
        let (lo, hi) = (range.start.max(w[0]), range.end.min(w[1]));
        (lo < hi).then(|| (k, lo - w[0]..hi - w[0]))
    });
    Ok(parts.collect_vec())
}
