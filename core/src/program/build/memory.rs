//! Buffers, parts of them, and what they hold.

use std::ops::Range;

use super::fits;
use crate::id::Id;
use crate::memory::{Dim, Span};
use crate::ordered::CollectVec;
use crate::program::Program;
use crate::program::command::*;
use crate::units::Bytes;

/// A whole buffer or a part of it, as the methods of [`Program`] take it.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Every byte of the buffer.
    Whole(BufferId),
    /// These bytes.
    Region(Region),
}

impl From<BufferId> for Part {
    fn from(buffer: BufferId) -> Part {
        Part::Whole(buffer)
    }
}

impl From<Region> for Part {
    fn from(region: Region) -> Part {
        Part::Region(region)
    }
}

/// Parts of a buffer.
///
/// ```
/// use spanlift::{Program, mib};
///
/// let mut p = Program::new();
/// let (x, m) = (p.pinned("x", mib(4)), p.pageable("m", mib(1)));
/// p.host_read(x.bytes(4096..8192));
/// p.host_read(m.strided(0, 4, [(64, 256)]).opaque()); // 64 runs of 4 bytes, 256 bytes apart; at most these
/// assert!(p.to_text().ends_with("read    x[4096..8192]\nread    m[4 at 0, 64 every 256] opaque\n"));
/// ```
impl Id<Buffer> {
    /// The bytes from `range.start` up to before `range.end`; positions in a block are `i64`, as those of every [`Span`].
    ///
    /// # Panics
    /// When the range ends before it begins, or its length leaves `i64`.
    pub fn bytes(self, range: Range<i64>) -> Region {
        let (start, end) = (range.start, range.end);
        match end.checked_sub(start) {
            Some(len) if len >= 0 => self.range(start, len),
            _ => panic!("bytes {start}..{end} of a buffer: the range ends before it begins"),
        }
    }

    /// The bytes `[off, off + len)`.
    ///
    /// # Panics
    /// When the range is no range of bytes: `len` negative, or an end outside `i64`.
    pub fn range(self, off: i64, len: i64) -> Region {
        let span = Span::range(off, len).unwrap_or_else(|e| panic!("range [{off}, +{len}) of a buffer: {e}"));
        self.spanned(span)
    }

    /// Runs of `elem` bytes on a grid from byte `off`: each dimension is a count and the bytes from one to the next.
    ///
    /// # Panics
    /// When `elem` or a count is negative, or a byte position leaves `i64`.
    pub fn strided(self, off: i64, elem: i64, dims: impl IntoIterator<Item = (i64, i64)>) -> Region {
        let dims: Vec<Dim> = dims.into_iter().map(|(count, stride)| Dim { count, stride }).collect_vec();
        let span = Span::strided(off, elem, dims)
            .unwrap_or_else(|e| panic!("runs of {elem} bytes at {off} of a buffer: {e}"));
        self.spanned(span)
    }

    /// The bytes of a span, such as that of a strided view.
    pub fn spanned(self, span: Span) -> Region {
        Region { buffer: self, span, opaque: false }
    }
}

impl Region {
    /// The same bytes as an upper bound: a conflict that needs them is `may`.
    pub fn opaque(mut self) -> Region {
        self.opaque = true;
        self
    }
}

/// A buffer that is not in the program yet: `declare` adds it.
#[must_use = "it is added to the program by `declare`"]
#[derive(Debug)]
pub struct AllocDraft<'p> {
    program: &'p mut Program,
    name: String,
    alloc: Alloc,
}

/// Memory.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::program::{AllocVia, Contents, Space};
/// use spanlift::{Program, mib};
///
/// let mut p = Program::new();
/// let side = p.stream("side");
/// let x = p.alloc(Space::Pinned, "x", mib(4)).holds(Contents::fill(Dtype::F32, 1.0)).declare();
/// let a = p.alloc(Space::Device, "a", mib(4)).pool(AllocVia::Pool, side).declare();
/// p.copy(a, x).on(side);
/// p.record_stream(a, side);
/// p.free(a);
/// let b = p.alloc(Space::Device, "b", mib(4)).pool(AllocVia::Pool, side).reuse(a).declare();
/// p.copy(x, b).on(side);
/// assert!(p.check().is_ok());
/// ```
impl Program {
    /// Declares ordinary host memory.
    pub fn pageable(&mut self, name: &str, bytes: Bytes) -> BufferId {
        self.alloc(Space::Pageable, name, bytes).declare()
    }

    /// Declares page-locked host memory.
    pub fn pinned(&mut self, name: &str, bytes: Bytes) -> BufferId {
        self.alloc(Space::Pinned, name, bytes).declare()
    }

    /// Declares memory of device `dev`.
    pub fn device(&mut self, dev: u32, name: &str, bytes: Bytes) -> BufferId {
        self.alloc(Space::Device, name, bytes).dev(dev).declare()
    }

    /// Declares managed memory of device `dev`.
    pub fn managed(&mut self, dev: u32, name: &str, bytes: Bytes) -> BufferId {
        self.alloc(Space::Managed, name, bytes).dev(dev).declare()
    }

    /// Declares a buffer, with contents where its values matter.
    pub fn buffer(
        &mut self,
        name: &str,
        space: Space,
        dev: u32,
        bytes: Bytes,
        contents: impl Into<Option<Contents>>,
    ) -> BufferId {
        let mut draft = self.alloc(space, name, bytes).dev(dev);
        draft.alloc.contents = contents.into();
        draft.declare()
    }

    /// Declares a buffer in several steps.
    pub fn alloc(&mut self, space: Space, name: &str, bytes: Bytes) -> AllocDraft<'_> {
        let alloc = Alloc {
            buffer: Id::FIRST,
            // A size beyond i64 stays wrong, so that the check names it.
            bytes: i64::try_from(bytes.0).unwrap_or(i64::MIN),
            space,
            dev: 0,
            via: AllocVia::Malloc,
            stream: None,
            reuse: None,
            contents: None,
        };
        AllocDraft { program: self, name: name.to_owned(), alloc }
    }

    /// Frees a buffer the way it was allocated: `cudaFree`, as host memory, or back into its pool.
    pub fn free(&mut self, buffer: BufferId) -> usize {
        let via = self.usual_free(buffer, self.len());
        self.free_via(buffer, via)
    }

    /// Frees a buffer in a given way.
    pub fn free_via(&mut self, buffer: BufferId, via: FreeVia) -> usize {
        self.push(Op::Free { buffer, via, stream: None })
    }

    /// Frees a buffer in the order of a stream (`cudaFreeAsync`).
    pub fn free_async(&mut self, buffer: BufferId, stream: StreamId) -> usize {
        self.push(Op::Free { buffer, via: FreeVia::FreeAsync, stream: Some(stream) })
    }

    /// Tells the pool that `stream` uses a buffer (PyTorch's `Tensor.record_stream`).
    pub fn record_stream(&mut self, buffer: BufferId, stream: StreamId) -> usize {
        self.push(Op::RecordStream { buffer, stream })
    }
}

impl AllocDraft<'_> {
    /// The device whose memory it is.
    pub fn dev(mut self, dev: u32) -> Self {
        self.alloc.dev = dev;
        self
    }

    /// Taken from a pool, with the stream that is its home.
    pub fn pool(mut self, via: AllocVia, home: impl Into<Option<StreamId>>) -> Self {
        self.alloc.via = via;
        self.alloc.stream = home.into();
        self
    }

    /// Allocated in the order of a stream (`cudaMallocAsync`).
    pub fn on(self, stream: StreamId) -> Self {
        self.pool(AllocVia::MallocAsync, stream)
    }

    /// The freed buffer whose bytes it gets.
    pub fn reuse(mut self, freed: BufferId) -> Self {
        self.alloc.reuse = Some(freed);
        self
    }

    /// What it holds at birth, which makes it carry bytes.
    pub fn holds(mut self, contents: Contents) -> Self {
        self.alloc.contents = Some(contents);
        self
    }

    /// Adds it to the program.
    pub fn declare(mut self) -> BufferId {
        self.alloc.buffer = fits(self.program.names_mut().buffers.intern(&self.name));
        let buffer = self.alloc.buffer;
        self.program.push(Op::Alloc(self.alloc));
        buffer
    }
}
