//! What the machine has and the language does not: wide vectors of newer processors, stores that pass the cache by, large pages,
//! files without a name.
//!
//! Loops are compiled twice, for every processor of the architecture and for wide vectors. Wider vectors change no result:
//! each element goes through the same operations, and none is joined with another.
#![cfg_attr(
    any(target_arch = "x86_64", target_os = "linux"),
    expect(
        unsafe_code,
        reason = "functions for newer processors, intrinsics on pointers, advice to the system"
    )
)]

/// A loop. Its `run`, and what it calls, are `#[inline(always)]`, so that they are compiled where they are called from.
pub(crate) trait Loop {
    /// What comes out.
    type Out;

    /// Runs it.
    fn run(self) -> Self::Out;
}

/// Runs a loop with the widest vectors that this processor has.
///
/// Always inline: a loop that is handed on by another call is copied between its parts being written and read, and waits.
#[inline(always)]
pub(crate) fn widest<L: Loop>(it: L) -> L::Out {
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

/// Copies all of `from` with stores that pass the cache by; the two are of one length. Nobody is to be told that it is done
/// before a [`fence`].
#[cfg(target_arch = "x86_64")]
pub(crate) fn copy_streaming(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128};
    // Miri runs no assembly, which this one is made of: the usual store asks the same of its pointer.
    #[cfg(miri)]
    use std::arch::x86_64::_mm_store_si128 as _mm_stream_si128;
    #[cfg(not(miri))]
    use std::arch::x86_64::_mm_stream_si128;

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
            // Written out: an array's `map` stays a call here, and a line takes five times as long.
            let (a, b) = (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
            let (c, d) = (_mm_loadu_si128(from.add(2)), _mm_loadu_si128(from.add(3)));
            _mm_stream_si128(to, a);
            _mm_stream_si128(to.add(1), b);
            _mm_stream_si128(to.add(2), c);
            _mm_stream_si128(to.add(3), d);
        }
    }
}

/// Orders the stores of [`copy_streaming`] before all that this thread stores later: whoever sees that sees them too.
#[cfg(target_arch = "x86_64")]
pub(crate) fn fence() {
    // SAFETY: SSE, which has this instruction, is part of x86-64; it touches no memory.
    #[cfg(not(miri))]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Where there are no such stores: the usual copy.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn copy_streaming(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

/// The usual stores need none.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn fence() {}

/// Asks for large pages for memory that nobody has touched yet, where the system gives them on request.
pub(crate) fn ask_for_large_pages(bytes: &mut [u8]) {
    // Miri has no system to ask.
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        /// No machine that has large pages has smaller ones than these.
        const PAGE: usize = 4096;
        let head = bytes.as_ptr().align_offset(PAGE).min(bytes.len());
        let pages = &mut bytes[head..];
        let len = pages.len() & !(PAGE - 1);
        // SAFETY: the pages are live and lent to this function alone; the advice changes no byte of them, and nothing where
        // it is refused.
        let _ = unsafe { libc::madvise(pages.as_mut_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}

/// Names an open file that has no name.
#[cfg(target_os = "linux")]
pub(crate) fn link(file: &std::fs::File, path: &std::path::Path) -> std::io::Result<()> {
    use std::ffi::CString;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;

    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both are strings that end in a zero and live until the call is back, which keeps and changes neither.
    let code = unsafe {
        libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::AT_SYMLINK_FOLLOW)
    };
    if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asked_or_not_memory_is_what_it_was() {
        let mut bytes = vec![7u8; if cfg!(miri) { 9_000 } else { 5 << 20 }];
        let len = bytes.len();
        for range in [0..len, 1..len - 1, 4095..4097, 3..3] {
            ask_for_large_pages(&mut bytes[range]);
        }
        assert!(bytes.iter().all(|&byte| byte == 7));
    }

    /// `y_i = a x_i + y_i`, and the largest of them.
    struct Scaled<'a>(f64, &'a [f64], &'a mut [f64]);

    impl Loop for Scaled<'_> {
        type Out = f64;

        #[inline(always)]
        fn run(self) -> f64 {
            let Scaled(a, x, y) = self;
            y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
            y.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        }
    }

    #[test]
    fn wide_vectors_have_the_same_bits() {
        for n in [0, 1, 3, 4, 5, 16, 33] {
            let x: Vec<f64> = (0..n).map(|k| 0.1 * f64::from(k) - 1.0).collect();
            let (mut plain, mut wide) = (x.clone(), x.clone());
            let (a, b) = (Scaled(1.0 / 3.0, &x, &mut plain).run(), widest(Scaled(1.0 / 3.0, &x, &mut wide)));
            assert_eq!((a.to_bits(), &plain), (b.to_bits(), &wide), "{n} elements");
        }
    }
}
