//! A copy whose stores pass the cache by.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "streaming stores are intrinsics on pointers")
)]

/// Copies all of `from`; the two are of one length.
#[cfg(target_arch = "x86_64")]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128};
    // Miri runs no assembly, which these two are made of: the usual store asks the same of its pointer and needs no fence.
    #[cfg(miri)]
    use std::arch::x86_64::_mm_store_si128 as _mm_stream_si128;
    #[cfg(not(miri))]
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si128};

    /// Bytes of a cache line: stores that fill one go to memory as one.
    const LINE: usize = 64;
    assert_eq!(to.len(), from.len(), "bug: a copy between different lengths");
    // The part of `to` that consists of whole, aligned lines; the rest is copied as usual.
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let body = (to.len() - head) / LINE * LINE;
    to[..head].copy_from_slice(&from[..head]);
    to[head + body..].copy_from_slice(&from[head + body..]);
    let lines = to[head..head + body].chunks_exact_mut(LINE).zip(from[head..head + body].chunks_exact(LINE));
    for (to, from) in lines {
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        #[expect(
            clippy::multiple_unsafe_ops_per_block,
            reason = "four loads and stores of one line, one argument"
        )]
        // SAFETY: both chunks have 64 bytes, four vectors. `to` is aligned to 64: `head` bytes are off the start and whole
        // lines follow. Loads need no alignment. The chunks are borrowed, `to` exclusively, so nobody else uses them.
        // SSE2, which has these instructions, is part of x86-64.
        unsafe {
            let line = [0, 1, 2, 3].map(|k| _mm_loadu_si128(from.add(k)));
            for (k, vector) in line.into_iter().enumerate() {
                _mm_stream_si128(to.add(k), vector);
            }
        }
    }
    // Streaming stores are ordered with no other store until a fence: whoever is told that the copy is done must see it.
    // SAFETY: SSE, which has this instruction, is part of x86-64; it touches no memory.
    #[cfg(not(miri))]
    unsafe {
        _mm_sfence();
    }
}

/// Where there are no such stores: the usual copy.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}
