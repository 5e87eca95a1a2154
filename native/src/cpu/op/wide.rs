//! Loops compiled twice: for every processor of the architecture, and for the wide vectors of newer ones.
//!
//! Wider vectors change no result: each element goes through the same operations, and none is joined with another.

/// A loop. Its `run`, and what it calls, are `#[inline(always)]`, so that they are compiled where they are called from.
pub(super) trait Loop {
    /// What comes out.
    type Out;

    /// Runs it.
    fn run(self) -> Self::Out;
}

/// Runs a loop with the widest vectors that this processor has.
///
/// Always inline: a loop that is handed on by another call is copied between its parts being written and read, and waits.
#[inline(always)]
pub(super) fn widest<L: Loop>(it: L) -> L::Out {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as it was just asked.
        return unsafe { with_avx2(it) };
    }
    it.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<L: Loop>(it: L) -> L::Out {
    it.run()
}
