//! Where tiles are: a device for each tile and role, and grids of devices.

use super::OpError;
use crate::memory::Device;
use crate::ordered::{CollectVec, joined};

/// Where the tiles of an operator are read, computed and written: one device for each tile and role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// Where its input is expected.
    pub input: Vec<Device>,
    /// Where it is computed.
    pub compute: Vec<Device>,
    /// Where its result goes.
    pub output: Vec<Device>,
}

impl Roles {
    /// All tiles at home on one device, computed in turn on each of several.
    pub fn round_robin(tiles: usize, home: Device, devices: &[Device]) -> Roles {
        let compute = devices.iter().cycle().take(if devices.is_empty() { 0 } else { tiles }).copied();
        Roles { input: vec![home; tiles], compute: compute.collect_vec(), output: vec![home; tiles] }
    }

    /// The transfers between input and computation, one for each tile that moves: tile, from, to.
    ///
    /// ```
    /// use spanlift::op::{Roles, mock};
    /// let roles = Roles::round_robin(4, mock(0), &[mock(0), mock(1)]);
    /// assert_eq!(roles.sent(), [(1, mock(0), mock(1)), (3, mock(0), mock(1))]);
    /// assert_eq!(roles.returned(), [(1, mock(1), mock(0)), (3, mock(1), mock(0))]);
    /// ```
    pub fn sent(&self) -> Vec<(usize, Device, Device)> {
        moved(&self.input, &self.compute)
    }

    /// The transfers between computation and result.
    pub fn returned(&self) -> Vec<(usize, Device, Device)> {
        moved(&self.compute, &self.output)
    }

    /// The roles of the adjoint: input and output swapped.
    #[must_use]
    pub fn h(&self) -> Roles {
        Roles { input: self.output.clone(), compute: self.compute.clone(), output: self.input.clone() }
    }
}

fn moved(from: &[Device], to: &[Device]) -> Vec<(usize, Device, Device)> {
    let pairs = from.iter().zip(to).enumerate();
    pairs.filter(|(_, (a, b))| a != b).map(|(k, (a, b))| (k, *a, *b)).collect_vec()
}

/// A grid filled with a smaller array: last dimensions aligned, repeated to fill, cut where it is too long.
///
/// `values` lies in row-major order of `shape`; the result in that of `grid`.
///
/// # Errors
/// [`OpError::Argument`] for an array without an element, with another number of elements than its shape has, or with more
/// dimensions than the grid.
///
/// ```
/// use spanlift::op::broadcast;
/// assert_eq!(broadcast(&[1, 2, 3], &[3], &[4])?, [1, 2, 3, 1]);
/// assert_eq!(broadcast(&[1, 2], &[2], &[2, 3])?, [1, 2, 1, 1, 2, 1]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn broadcast<T: Clone>(values: &[T], shape: &[usize], grid: &[usize]) -> Result<Vec<T>, OpError> {
    let elements = shape.iter().try_fold(1usize, |n, s| n.checked_mul(*s));
    if values.is_empty() || elements != Some(values.len()) || shape.len() > grid.len() {
        let problem = format!("{} values in {shape:?} do not fill a grid of {grid:?}", values.len());
        return Err(OpError::Argument { operator: "broadcast".to_owned(), problem });
    }
    let mut filled = vec![0usize];
    for (d, &n) in grid.iter().enumerate() {
        // Dimensions that the array lacks see the same everywhere.
        let size = (d + shape.len()).checked_sub(grid.len()).map_or(1, |k| shape[k]);
        filled = joined(filled.iter().map(|at| (0..n).map(move |i| at * size + i % size)));
    }
    Ok(filled.into_iter().map(|at| values[at].clone()).collect_vec())
}
