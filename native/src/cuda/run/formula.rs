//! Formulas over regions, and what overlaps itself, by way of scratch memory.

use spanlift::memory::Span;
use spanlift::program::{
    Alloc, AllocVia, BufferId, Command, Copy, FreeVia, Func, Kernel, Op, Region, Space, StreamId,
};

use super::super::error::CudaError;
use super::super::kernel::Shape;
use super::super::stream::Stream;
use super::blocks::{Home, Queue};
use super::issue::{Issue, Refusal, piece};
use super::kernels::{self, View};
use crate::cpu::blocks::{bytes_of, runs};

/// Threads of a block, and blocks at most: each thread takes as many elements as are left.
const THREADS: u32 = 256;
const MAX_BLOCKS: u64 = 4096;

/// Runs of a region that are looked at to see whether it counts a byte twice.
const MAX_RUNS: u64 = 1 << 20;

/// Memory of one command only, in the order of its stream.
struct Scratch {
    buffer: BufferId,
    region: Region,
}

impl Issue<'_> {
    pub(super) fn kernel(&mut self, command: &Command, kernel: &Kernel) -> Result<(), Refusal> {
        let out = kernel.writes.first().filter(|region| !region.span.is_empty());
        let (Some(compute), Some(out)) = (kernel.compute, out) else {
            self.tick(kernel.stream, false)?;
            self.note(command, Op::Kernel(kernel.clone()));
            return Ok(());
        };
        let n_operands = match compute.func {
            Func::Fill(_) => 0,
            Func::Affine { .. } => 1,
            Func::Mul { .. } | Func::Add => 2,
            _ => return Err(Refusal::Unsupported("has a formula that no kernel computes".to_owned())),
        };
        // Where the second operand is not given it is the first.
        let (first, second) = (kernel.reads.first(), kernel.reads.get(1).or(kernel.reads.first()));
        let operands: Vec<&Region> = [first, second].into_iter().flatten().take(n_operands).collect();
        let size = compute.dtype.bytes().unsigned_abs();
        let n_out = bytes_of(&out.span);
        let n = match operands.len() == n_operands {
            true => operands.iter().fold(n_out, |n, r| n.min(bytes_of(&r.span))) / size,
            false => 0,
        };
        if n == 0 {
            self.tick(kernel.stream, false)?;
            self.note(command, Op::Kernel(kernel.clone()));
            return Ok(());
        }
        let stream = self.stream(kernel.stream)?;
        let is_twice = counts_twice(&out.span);
        let mut scratches = Vec::new();
        let mut issued = kernel.clone();
        let mut views = Vec::new();
        for (k, operand) in operands.iter().enumerate() {
            // All is read before anything is written.
            let is_same = operand.span == out.span && !is_twice;
            if self.meets(operand, out) && !is_same {
                let scratch = self.scratch(command, kernel.stream, operand, n * size)?;
                let address = self.blocks.address(scratch.buffer, &stream)?.unwrap_or_default();
                views.push(View::row(address, n * size));
                match issued.reads.get_mut(k) {
                    Some(read) => *read = scratch.region.clone(),
                    None => issued.reads.push(scratch.region.clone()),
                }
                scratches.push(scratch);
            } else {
                views.push(self.view(&stream, operand)?);
            }
        }
        let y = self.view(&stream, out)?;
        let (a, b) = (views.first().unwrap_or(&y), views.get(1).or(views.first()).unwrap_or(&y));
        let shape = if is_twice { Shape { grid: 1, block: 1 } } else { shape(n) };
        self.launch(&stream, shape, &kernels::words(compute, n, &y, a, b))?;
        self.note(command, Op::Kernel(issued));
        scratches.into_iter().try_for_each(|scratch| self.end_scratch(command, kernel.stream, &scratch))
    }

    /// A copy within one block whose sides overlap: as if all were read before any is written.
    pub(super) fn copy_within(&mut self, command: &Command, copy: &Copy, n: u64) -> Result<(), Refusal> {
        let scratch = self.scratch(command, copy.stream, &copy.src, n)?;
        let block = self.block(copy.dst.buffer);
        let sides = ((block, &copy.dst), (scratch.buffer, &scratch.region));
        self.copy_pieces(command, copy.stream, sides, n)?;
        self.end_scratch(command, copy.stream, &scratch)
    }

    /// Copies by a stream, as so many copies as there are pieces.
    fn copy_pieces(
        &mut self,
        command: &Command,
        stream_id: StreamId,
        (dst, src): ((BufferId, &Region), (BufferId, &Region)),
        n: u64,
    ) -> Result<(), Refusal> {
        let stream = self.stream(stream_id)?;
        let mut pieces = Vec::new();
        let parts = ((dst.0, &dst.1.span), (src.0, &src.1.span));
        self.blocks.copy(Queue::On(&stream), parts, n, |to, from, len| pieces.push((to, from, len)))?;
        for (to, from, len) in pieces {
            let (dst, src) = (piece(dst.1, to, len), piece(src.1, from, len));
            let copy =
                Copy { stream: stream_id, dst, src, sync: false, peer: false, untracked: true, torch: false };
            self.note(command, Op::Copy(copy));
        }
        Ok(())
    }

    /// A region as a kernel on this stream takes it.
    fn view(&self, stream: &Stream, region: &Region) -> Result<View, Refusal> {
        let facts = self.facts.buffer(region.buffer);
        let dev = self.devices.iter().find(|device| &device.context == stream.context());
        if facts.space == Space::Device && dev.is_some_and(|device| !device.reaches.contains(&facts.dev)) {
            let why = format!("touches memory of device {}, which its own device cannot reach", facts.dev);
            return Err(Refusal::Unsupported(why));
        }
        let address = self.blocks.address(facts.block, stream)?;
        let address = address.ok_or_else(|| {
            Refusal::Unsupported("touches pageable memory, which devices do not reach".to_owned())
        })?;
        View::new(address, &region.span).ok_or_else(|| {
            let most = kernels::MAX_RANK;
            Refusal::Unsupported(format!(
                "has a region of more than {most} dimensions, which no kernel takes"
            ))
        })
    }

    fn launch(&self, stream: &Stream, shape: Shape, words: &[u64; kernels::WORDS]) -> Result<(), CudaError> {
        let device = self.devices.iter().find(|device| &device.context == stream.context());
        let device =
            device.ok_or(CudaError::Argument("a stream of a device that the program does not use"))?;
        self.blocks.launch(device.formula()?, stream, shape, words)
    }

    /// Takes `n` bytes of a region aside.
    fn scratch(
        &mut self,
        command: &Command,
        stream_id: StreamId,
        from: &Region,
        n: u64,
    ) -> Result<Scratch, Refusal> {
        let name = loop {
            self.n_scratch += 1;
            let name = format!("scratch {}", self.n_scratch);
            if self.issued.names().find_buffer(&name).is_none() {
                break name;
            }
        };
        let buffer = self.issued.buffer_id(&name);
        let bytes = i64::try_from(n).unwrap_or(i64::MAX);
        let alloc = Alloc {
            buffer,
            bytes,
            space: Space::Device,
            dev: self.facts.stream(stream_id).dev,
            via: AllocVia::MallocAsync,
            stream: Some(stream_id),
            reuse: None,
            contents: None,
        };
        let stream = self.stream(stream_id)?;
        let len = usize::try_from(n).unwrap_or(usize::MAX);
        self.blocks.make(buffer, Home::Ordered(&stream), len)?;
        self.note(command, Op::Alloc(alloc));
        let region = buffer.range(0, bytes);
        let block = self.block(from.buffer);
        self.copy_pieces(command, stream_id, ((buffer, &region), (block, from)), n)?;
        Ok(Scratch { buffer, region })
    }

    fn end_scratch(
        &mut self,
        command: &Command,
        stream_id: StreamId,
        scratch: &Scratch,
    ) -> Result<(), Refusal> {
        let stream = self.stream(stream_id)?;
        self.blocks.end(scratch.buffer, Some(&stream))?;
        let free = Op::Free { buffer: scratch.buffer, via: FreeVia::FreeAsync, stream: Some(stream_id) };
        self.note(command, free);
        Ok(())
    }
}

pub(super) fn shape(n: u64) -> Shape {
    let blocks = n.div_ceil(THREADS.into()).clamp(1, MAX_BLOCKS);
    Shape { grid: u32::try_from(blocks).unwrap_or(1), block: THREADS }
}

/// Whether some byte is counted more than once, so that the last one must win; `true` where that takes too long to see.
fn counts_twice(span: &Span) -> bool {
    if span.is_range() {
        return false;
    }
    if bytes_of(span) / span.elem().max(1).unsigned_abs() > MAX_RUNS {
        return true;
    }
    let mut all = Vec::new();
    runs(span, |at, len| all.push((at, at + len)));
    all.sort_unstable();
    all.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

#[cfg(test)]
mod tests {
    use spanlift::memory::Dim;

    use super::*;

    #[test]
    fn bytes_that_are_counted_twice_are_seen() {
        let dims = |list: &[(i64, i64)]| list.iter().map(|&(count, stride)| Dim { count, stride }).collect();
        for (elem, list, expected) in [
            (4, &[(3, 4)][..], false),
            (4, &[(3, 3)], true),
            (4, &[(3, 0)], true),
            (1, &[(2, 4), (4, 1)], false),
            (1, &[(2, 3), (4, 1)], true),
            (2, &[(3, -2)], false),
        ] {
            let span = Span::strided(8, elem, dims(list)).unwrap();
            assert_eq!(counts_twice(&span), expected, "{span:?}");
        }
    }
}
