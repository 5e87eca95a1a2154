//! What commands compute that no formula says.

/// What the kernels and host functions of a program compute, for those who know more than its formulas say.
///
/// A program is data; the work of a kernel that is no [`Func`](super::Func) has only a name in it. Whoever made the
/// program may know the work and tells it to a run this way.
pub trait Computes {
    /// Whether the work of a command is known.
    fn computes(&self, command: usize) -> bool;

    /// The bytes of the first region that a command writes, from the bytes of all regions that it reads, each in the order
    /// of its elements; `None` when the work is not known.
    fn compute(&self, command: usize, operands: &[Vec<u8>]) -> Option<Vec<u8>>;
}

/// Nothing beyond the formulas.
impl Computes for () {
    fn computes(&self, _: usize) -> bool {
        false
    }

    fn compute(&self, _: usize, _: &[Vec<u8>]) -> Option<Vec<u8>> {
        None
    }
}
