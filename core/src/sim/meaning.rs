//! What declared contents and formulas are in bytes, for whoever else runs programs: one meaning, one place.

use super::element;
use super::values::{compute_bytes, differences};
use super::{Wrong, values};
use crate::memory::Dtype;
use crate::program::{BufferId, Compute, Computes, Contents, Facts, Program};

/// What was found where contents were expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The type of the elements.
    pub dtype: Dtype,
    /// How many there are.
    pub n_elements: u64,
    /// How many are not as expected.
    pub n_wrong: u64,
    /// The first of those.
    pub first_wrong: Option<Wrong>,
}

impl Contents {
    /// The bytes of all whole elements in `n` bytes that begin at byte `at` of their block.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::program::Contents;
    /// assert_eq!(Contents::ramp(Dtype::I16, 1.0, 2.0).bytes(0, 5), [1, 0, 3, 0]);
    /// ```
    pub fn bytes(&self, at: u64, n: usize) -> Vec<u8> {
        element::bytes_of(self, at, n)
    }

    /// Compares what was read of a region that begins at byte `at` of its block with these contents.
    pub fn compare(&self, at: u64, read: &[u8]) -> Compared {
        let dtype = element::dtype_of(self);
        let (n_elements, n_wrong, first_wrong) = differences(dtype, read, &self.bytes(at, read.len()));
        Compared { dtype, n_elements, n_wrong, first_wrong }
    }
}

impl Compute {
    /// The bytes that the formula makes of its operands, at most `n`.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::program::Compute;
    /// assert_eq!(Compute::affine(Dtype::U8, 2.0, 1.0).apply(&[vec![1, 2, 3]], 2), [3, 5]);
    /// ```
    pub fn apply(&self, operands: &[Vec<u8>], n: u64) -> Vec<u8> {
        compute_bytes(*self, operands, n)
    }
}

/// Which blocks carry bytes, by the position of the buffer that names the block: those that declared bytes can reach
/// through copies and formulas, and the bytes that somebody gives the buffers in `given`. What memsets write counts as
/// declared where it is small and no kernel without a formula writes there, and so does what formulas make of zeros: see
/// the [module](super).
///
/// Empty where none does.
pub fn carried(program: &Program, facts: &Facts, given: &[BufferId]) -> Vec<bool> {
    values::carried(program, facts, given, &())
}

/// The same where `knows` says what commands without a formula compute.
pub fn carried_knowing(
    program: &Program,
    facts: &Facts,
    given: &[BufferId],
    knows: &dyn Computes,
) -> Vec<bool> {
    values::carried(program, facts, given, knows)
}
