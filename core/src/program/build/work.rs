//! Copies, kernels and what the host does with memory.

use super::Part;
use crate::id::Id;
use crate::program::Program;
use crate::program::command::*;
use crate::units::Nanos;

/// A copy that is not in the program yet: name its stream with `on`, or make it `blocking`.
#[must_use = "it is added to the program by `on` or `blocking`"]
#[derive(Debug)]
pub struct CopyDraft<'p> {
    program: &'p mut Program,
    copy: Copy,
}

/// A fill that is not in the program yet: name its stream with `on`, or make it `blocking`.
#[must_use = "it is added to the program by `on` or `blocking`"]
#[derive(Debug)]
pub struct MemsetDraft<'p> {
    program: &'p mut Program,
    dst: Region,
    value: u8,
}

/// A kernel or host function that is not in the program yet: name its stream with `on`.
#[must_use = "it is added to the program by `on`"]
#[derive(Debug)]
pub struct KernelDraft<'p> {
    program: &'p mut Program,
    kernel: Kernel,
    on_host: bool,
    label: String,
}

/// Work of devices.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::program::Compute;
/// use spanlift::{Program, mib, us};
///
/// let mut p = Program::new();
/// let (copy, compute) = (p.stream("copy"), p.stream("compute"));
/// let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
/// p.copy(d, x).on(copy);                            // d <- x, asynchronous
/// p.kernel("scale").reads(d).writes(d).takes(us(120)).on(compute);
/// p.kernel("twice").reads(d).writes(d).computes(Compute::affine(Dtype::F32, 2.0, 0.0)).on(compute);
/// p.memset(d.bytes(0..4096), 0).on(compute);
/// p.copy(x, d).blocking();                          // x <- d, done when the call returns
/// assert!(p.to_text().ends_with("copy    x <- d blocking\n"));
/// ```
impl Program {
    /// Copies `src` to `dst`: `cudaMemcpyAsync` with `on`, `cudaMemcpy` with `blocking`. Of parts of two sizes as much moves as the
    /// smaller one has.
    pub fn copy(&mut self, dst: impl Into<Part>, src: impl Into<Part>) -> CopyDraft<'_> {
        let (dst, src) = (self.region(dst.into()), self.region(src.into()));
        let stream = Id::FIRST;
        let copy = Copy { stream, dst, src, sync: false, peer: false, untracked: false, torch: false };
        CopyDraft { program: self, copy }
    }

    /// Sets every byte of `dst`: `cudaMemsetAsync` with `on`, `cudaMemset` with `blocking`.
    pub fn memset(&mut self, dst: impl Into<Part>, value: u8) -> MemsetDraft<'_> {
        let dst = self.region(dst.into());
        MemsetDraft { program: self, dst, value }
    }

    /// Launches a kernel: name what it touches, then its stream with `on`.
    pub fn kernel(&mut self, label: &str) -> KernelDraft<'_> {
        let kernel = Kernel {
            stream: Id::FIRST,
            reads: Vec::new(),
            writes: Vec::new(),
            full_grid: false,
            takes: None,
            compute: None,
        };
        KernelDraft { program: self, kernel, on_host: false, label: label.to_owned() }
    }

    /// Lets the host run a function in the order of a stream (`cudaLaunchHostFunc`).
    pub fn host_fn(&mut self, label: &str) -> KernelDraft<'_> {
        KernelDraft { on_host: true, ..self.kernel(label) }
    }
}

/// What the calling thread does with host memory.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::program::Contents;
/// use spanlift::{Program, mib};
///
/// let mut p = Program::new();
/// let (x, pinned) = (p.pageable("x", mib(4)), p.pinned("pinned", mib(4)));
/// p.host_write(x, Contents::fill(Dtype::F32, 1.0));
/// p.host_copy(pinned, x);
/// p.host_expect(pinned, Contents::fill(Dtype::F32, 1.0));
/// assert!(p.to_text().ends_with("read    pinned expect f32 fill 1\n"));
/// ```
impl Program {
    /// The calling thread reads memory.
    pub fn host_read(&mut self, part: impl Into<Part>) -> usize {
        let region = self.region(part.into());
        self.push(Op::HostRead { region, expect: None })
    }

    /// The calling thread reads memory that should hold these contents.
    pub fn host_expect(&mut self, part: impl Into<Part>, expect: Contents) -> usize {
        let region = self.region(part.into());
        self.push(Op::HostRead { region, expect: Some(expect) })
    }

    /// The calling thread writes memory.
    pub fn host_write(&mut self, part: impl Into<Part>, contents: impl Into<Option<Contents>>) -> usize {
        let region = self.region(part.into());
        self.push(Op::HostWrite { region, contents: contents.into() })
    }

    /// The calling thread copies host memory itself, as `pin_memory()` does.
    pub fn host_copy(&mut self, dst: impl Into<Part>, src: impl Into<Part>) -> usize {
        let (dst, src) = (self.region(dst.into()), self.region(src.into()));
        self.push(Op::HostCopy { dst, src })
    }
}

impl CopyDraft<'_> {
    /// Between devices, by the rules of `cudaMemcpyPeer`.
    pub fn peer(mut self) -> Self {
        self.copy.peer = true;
        self
    }

    /// Of pinned memory whose pool does not know the pointer.
    pub fn untracked(mut self) -> Self {
        self.copy.untracked = true;
        self
    }

    /// Issued by PyTorch, which refuses pageable memory during capture.
    pub fn torch(mut self) -> Self {
        self.copy.torch = true;
        self
    }

    /// `cudaMemcpyAsync` on `stream`; gives the command's index.
    pub fn on(mut self, stream: StreamId) -> usize {
        self.copy.stream = stream;
        self.program.push(Op::Copy(self.copy))
    }

    /// `cudaMemcpy`, which goes through the legacy stream of the device involved; gives the command's index.
    pub fn blocking(mut self) -> usize {
        let buffers = [self.copy.dst.buffer, self.copy.src.buffer];
        self.copy.stream = self.program.legacy_of(&buffers);
        self.copy.sync = true;
        self.program.push(Op::Copy(self.copy))
    }
}

impl MemsetDraft<'_> {
    /// `cudaMemsetAsync` on `stream`; gives the command's index.
    pub fn on(self, stream: StreamId) -> usize {
        let MemsetDraft { program, dst, value } = self;
        program.push(Op::Memset { stream, dst, sync: false, value })
    }

    /// `cudaMemset` through the legacy stream of the device; gives the command's index.
    pub fn blocking(self) -> usize {
        let MemsetDraft { program, dst, value } = self;
        let stream = program.legacy_of(&[dst.buffer]);
        program.push(Op::Memset { stream, dst, sync: true, value })
    }
}

impl KernelDraft<'_> {
    /// Adds something that it reads.
    pub fn reads(mut self, part: impl Into<Part>) -> Self {
        self.kernel.reads.push(self.program.region(part.into()));
        self
    }

    /// Adds something that it writes.
    pub fn writes(mut self, part: impl Into<Part>) -> Self {
        self.kernel.writes.push(self.program.region(part.into()));
        self
    }

    /// How long it runs.
    pub fn takes(mut self, time: Nanos) -> Self {
        self.kernel.takes = Some(time);
        self
    }

    /// What it computes.
    pub fn computes(mut self, compute: Compute) -> Self {
        self.kernel.compute = Some(compute);
        self
    }

    /// It fills the whole device: nothing else runs beside it. Host functions never do.
    pub fn full_grid(mut self) -> Self {
        self.kernel.full_grid = true;
        self
    }

    /// Launches it on `stream` and gives the command's index.
    pub fn on(self, stream: StreamId) -> usize {
        let Kernel { reads, writes, takes, compute, .. } = self.kernel;
        let op = if self.on_host {
            Op::HostFn { stream, reads, writes, takes, compute }
        } else {
            let full_grid = self.kernel.full_grid;
            Op::Kernel(Kernel { stream, reads, writes, full_grid, takes, compute })
        };
        self.program.push_labelled(op, Some(&self.label))
    }
}
