//! Lists of copies within one device, as the kernel that makes them reads them (`native/kernels/list.cu`).
//!
//! An entry of a [`Table`] is checked when it is added, so that whoever launches the kernel over a table knows what it touches: the
//! table, and bytes inside of blocks of that device.

use std::ffi::CStr;
use std::ptr;

use super::context::Context;
use super::error::CudaError;
use super::kernel::{Function, Module, Shape};
use super::memory::DeviceBlock;
use super::place::{Address, Place};
use super::stream::Stream;

/// What `native/kernels/list.cu` compiles to, with the zero that ends it for the driver.
const LIST: &str = concat!(include_str!("../../kernels/list.ptx"), "\0");

/// Bytes of an entry.
pub(crate) const ENTRY: usize = 32;
/// Threads of a block, as the source says, and of a warp, which has an entry at a time.
const THREADS: u32 = 256;
const LANES: u32 = 32;
/// Blocks at most: as many as the largest devices run at once, twice.
const MAX_BLOCKS: usize = 2048;

/// The kernel that copies a list, loaded for one device.
#[derive(Debug, Clone)]
pub(crate) struct ListKernel(Function);

impl ListKernel {
    /// Loads it.
    ///
    /// # Errors
    /// The context is lost, or the driver cannot make code of it.
    pub(crate) fn load(context: &Context) -> Result<ListKernel, CudaError> {
        let ptx = CStr::from_bytes_with_nul(LIST.as_bytes());
        let ptx = ptx.map_err(|_| CudaError::Argument("PTX with a zero byte"))?;
        Ok(ListKernel(Module::load(context, ptx)?.function("spanlift_list")?))
    }

    /// `spanlift_list`, whose parameters are the address of a table and the number of its entries.
    pub(crate) fn function(&self) -> &Function {
        &self.0
    }

    /// Threads for so many entries, at least one.
    pub(crate) fn shape(n: usize) -> Shape {
        let blocks = n.div_ceil((THREADS / LANES) as usize).clamp(1, MAX_BLOCKS);
        Shape { grid: u32::try_from(blocks).unwrap_or(1), block: THREADS }
    }
}

/// Bytes of a block, from one on.
pub(crate) type Part<'b> = (&'b DeviceBlock, usize);

/// A list in the making, in memory that the kernel will read.
pub(crate) struct Table<'t> {
    bytes: &'t mut [u8],
    n: usize,
    context: &'t Context,
    /// The blocks of the last entry, which most entries share with the next.
    last: [*const DeviceBlock; 2],
}

impl<'t> Table<'t> {
    /// An empty table for a device of this context.
    pub(crate) fn new(bytes: &'t mut [u8], context: &'t Context) -> Table<'t> {
        Table { bytes, n: 0, context, last: [ptr::null(); 2] }
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// Whether there is no room for another.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() / ENTRY <= self.n
    }

    /// Adds a copy of `len` bytes, of which none is one that another entry writes; nothing for no bytes.
    ///
    /// # Errors
    /// It lies outside of its blocks, they are another device's, it has 4 GiB or more, or the table is full.
    pub(crate) fn push(&mut self, dst: Part<'_>, src: Part<'_>, len: usize) -> Result<(), CudaError> {
        if len == 0 {
            return Ok(());
        }
        let mut words = [0; ENTRY / 8];
        words[2] =
            u64::from(u32::try_from(len).map_err(|_| CudaError::Argument("a piece of 4 GiB or more"))?);
        for (k, (block, at)) in [dst, src].into_iter().enumerate() {
            let place = Place::Device(block, at);
            if let Address::Device(address) = place.address(len)? {
                words[k] = address;
            }
            if !ptr::eq(self.last[k], block) {
                if !block.context().is(self.context) {
                    let (memory, stream) = (block.context().ordinal(), self.context.ordinal());
                    return Err(CudaError::OtherDevice { memory, stream });
                }
                place.used_by(self.context);
                self.last[k] = block;
            }
        }
        let room = self.bytes.get_mut(self.n * ENTRY..).and_then(|rest| rest.get_mut(..ENTRY));
        let room = room.ok_or(CudaError::Argument("a full table"))?;
        for (bytes, word) in room.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.n += 1;
        Ok(())
    }

    /// What the kernel will touch beside the table, if somebody notes it: parts that lie behind one another as one.
    pub(crate) fn touched(&self) -> Option<Touched> {
        self.context.recorder()?;
        let mut touched = Touched::default();
        for entry in self.bytes.chunks_exact(ENTRY).take(self.n) {
            let word = |k: usize| {
                let bytes = entry.get(8 * k..8 * k + 8).and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, u64::from_le_bytes)
            };
            let (to, from, n) = (word(0), word(1), usize::try_from(word(2)).unwrap_or(usize::MAX));
            let last = (touched.writes.last_mut(), touched.reads.last_mut());
            match last {
                (Some(write), Some(read))
                    if write.0 + write.1 as u64 == to && read.0 + read.1 as u64 == from =>
                {
                    (write.1, read.1) = (write.1 + n, read.1 + n);
                }
                _ => {
                    touched.writes.push((to, n));
                    touched.reads.push((from, n));
                }
            }
        }
        Some(touched)
    }
}

/// Addresses and bytes that a kernel reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    reads: Vec<(u64, usize)>,
    writes: Vec<(u64, usize)>,
}

impl Stream {
    /// Takes it that the kernel was launched over a table of so many bytes, for the recorder.
    pub(crate) fn note_list(&self, (table, n): (u64, usize), touched: Touched) {
        let Touched { mut reads, writes } = touched;
        reads.push((table, n));
        self.note(|recorder, id| recorder.kernel(id, &reads, &writes));
    }
}
