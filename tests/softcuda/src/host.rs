//! Host memory, read and written where an operation runs: the one file that follows addresses.
//!
//! Every address here was handed over by a caller of the driver, whose contract is CUDA's: the range belongs to the
//! caller and stays mapped until the operation is complete. What the driver knows better, it checks before it comes
//! here: memory of its own that was freed is never followed.
#![expect(unsafe_code, reason = "a driver reads and writes memory that its callers own")]

use std::ptr;

/// Copies `out.len()` bytes from the host address `from`.
pub(crate) fn read(from: u64, out: &mut [u8]) {
    // SAFETY: the caller of the driver promises `out.len()` readable bytes at `from` until the operation is complete (see
    // the file's head). `out` is a live slice. `copy` allows overlap; a concurrent write by the host is the misuse that
    // this driver is there to provoke, and is seen as changed bytes, as with a real copy engine.
    unsafe { ptr::copy(at(from).cast_const(), out.as_mut_ptr(), out.len()) }
}

/// Copies `bytes` to the host address `to`.
pub(crate) fn write(to: u64, bytes: &[u8]) {
    // SAFETY: the caller of the driver promises as many writable bytes at `to` until the operation is complete; as `read`.
    unsafe { ptr::copy(bytes.as_ptr(), at(to), bytes.len()) }
}

/// Sets `len` bytes from the host address `to` on.
pub(crate) fn fill(to: u64, len: u64, byte: u8) {
    // SAFETY: the caller of the driver promises `len` writable bytes at `to`; as `read`.
    unsafe { ptr::write_bytes(at(to), byte, size(len)) }
}

/// A checksum of `len` bytes from the host address `from` on, by words.
pub(crate) fn sum(from: u64, len: u64) -> u64 {
    // SAFETY: the caller of the driver promises `len` readable bytes at `from` until the operation is complete. The slice
    // lives for this function only, and the driver writes nothing meanwhile: it holds its lock.
    let bytes = unsafe { std::slice::from_raw_parts(at(from).cast_const(), size(len)) };
    let mut words = bytes.chunks_exact(8);
    let mut sum = len ^ 0x9e37_79b9_7f4a_7c15;
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        sum = (sum.rotate_left(5) ^ u64::from_le_bytes(eight)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    for byte in words.remainder() {
        sum = (sum.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    sum
}

/// Maps `len` fresh bytes; `None` where the system has none.
pub(crate) fn map(len: u64) -> Option<u64> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous map at an address of the system's choice touches nothing that exists.
    let address = unsafe { libc::mmap(ptr::null_mut(), size(len), protection, flags, -1, 0) };
    (address != libc::MAP_FAILED).then(|| address.addr() as u64)
}

/// Makes a map inaccessible for good and gives its pages back; its addresses are never used again.
pub(crate) fn seal(address: u64, len: u64) {
    let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: `address` and `len` are those of a map of this process (`map`), which nothing in the driver refers to any
    // more. Its owner said by freeing it that nothing else does; whoever does is to be stopped by a fault.
    let sealed = unsafe { libc::mmap(at(address).cast(), size(len), libc::PROT_NONE, fixed, -1, 0) };
    assert_ne!(sealed, libc::MAP_FAILED, "a map can be replaced by an empty one");
}

fn at(address: u64) -> *mut u8 {
    ptr::with_exposed_provenance_mut(size(address))
}

fn size(value: u64) -> usize {
    usize::try_from(value).expect("addresses and sizes have 64 bits on every platform this runs on")
}
