//! Formulas over regions, and what overlaps itself, by way of scratch memory.

use spanlift::memory::Span;
use spanlift::program::{
    Alloc, AllocVia, BufferId, Command, Compute, Copy, FreeVia, Func, Kernel, Op, Region, Space, StreamId,
};

use super::super::kernel::Shape;
use super::super::stream::Stream;
use super::blocks::{Home, Queue};
use super::copies::piece;
use super::issue::{Issue, Refusal};
use super::kernels::{self, Elementwise, Type, View};
use crate::cpu::blocks::{bytes_of, runs};

/// Bytes of a number that stands beside vectors.
const NUMBER: u64 = 8;

/// Threads of a block, as `THREADS` of the kernels' source says, and blocks at most: each thread takes as many elements as
/// are left.
const THREADS: u32 = 256;
const MAX_BLOCKS: u64 = 4096;

/// Runs of a region that are looked at to see whether it counts a byte twice.
const MAX_RUNS: u64 = 1 << 20;

/// Memory of one command only, in the order of its stream.
pub(super) struct Scratch {
    pub(super) buffer: BufferId,
    pub(super) region: Region,
}

/// What a formula reads: so many bytes of each operand, for `n` elements.
struct Operands<'k> {
    regions: Vec<(&'k Region, u64)>,
    n: u64,
    /// Whether something is written: a sum of no elements is a number all the same.
    writes: bool,
}

impl<'k> Operands<'k> {
    /// No element where an operand is missing or nothing is left to write.
    fn of(kernel: &'k Kernel, Compute { dtype, func }: Compute, out: &Region) -> Operands<'k> {
        let given = |k: usize| kernel.reads.get(k);
        // Where the second operand is not given it is the first.
        let pair = [given(0), given(1).or(given(0))];
        let (number, vectors): (Option<&Region>, Vec<&Region>) = match func {
            Func::Fill(_) => (None, Vec::new()),
            Func::Affine { .. } | Func::Sqrt | Func::Shrink { .. } => (None, given(0).into_iter().collect()),
            Func::Multiple { .. } => (given(0), kernel.reads.iter().skip(1).take(2).collect()),
            _ => (None, pair.into_iter().flatten().collect()),
        };
        let size = dtype.bytes().unsigned_abs();
        let n_out = bytes_of(&out.span);
        let is_complete = match func {
            Func::Fill(_) => true,
            Func::Multiple { .. } => {
                number.is_some_and(|a| NUMBER <= bytes_of(&a.span)) && !vectors.is_empty()
            }
            Func::Dot => !vectors.is_empty() && NUMBER <= n_out,
            _ => !vectors.is_empty(),
        };
        let most = if func == Func::Dot { u64::MAX } else { n_out };
        let n = vectors.iter().fold(most, |n, x| n.min(bytes_of(&x.span))) / size;
        let writes = is_complete && (n > 0 || func == Func::Dot);
        let vectors = vectors.into_iter().map(|x| (x, n * size));
        let regions = number.map(|a| (a, NUMBER)).into_iter().chain(vectors).collect();
        Operands { regions, n, writes }
    }
}

impl Issue<'_> {
    pub(super) fn kernel(&mut self, command: &Command, kernel: &Kernel) -> Result<(), Refusal> {
        let out = kernel.writes.first().filter(|region| !region.span.is_empty());
        let operands = kernel.compute.zip(out).map(|(compute, out)| Operands::of(kernel, compute, out));
        let operands = operands.filter(|operands| operands.writes);
        let (Some(compute), Some(out), Some(Operands { regions, n, .. })) = (kernel.compute, out, operands)
        else {
            self.tick(kernel.stream, false)?;
            self.note(command, Op::Kernel(kernel.clone()));
            return Ok(());
        };
        let stream = self.stream(kernel.stream)?;
        let is_twice = counts_twice(&out.span);
        let mut scratches = Vec::new();
        let mut issued = kernel.clone();
        let mut views = Vec::new();
        for (k, (operand, bytes)) in regions.iter().enumerate() {
            // All is read before anything is written; the number that all threads read, by every one of them.
            let is_number = k == 0 && matches!(compute.func, Func::Multiple { .. });
            let is_same = operand.span == out.span && !is_twice && !is_number;
            if *bytes > 0 && self.meets(operand, out) && !is_same {
                let scratch = self.scratch(command, kernel.stream, operand, *bytes)?;
                let address = self.blocks.address(scratch.buffer, &stream)?.unwrap_or_default();
                views.push(View::row(address, *bytes));
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
        self.compute(&stream, compute, n, (&y, is_twice), &views)?;
        self.note(command, Op::Kernel(issued));
        scratches.into_iter().try_for_each(|scratch| self.end_scratch(command, kernel.stream, &scratch))
    }

    /// Launches the kernel that computes a formula: that for whole elements of floating-point types, else that for every
    /// type and region, which knows fewer formulas.
    fn compute(
        &self,
        stream: &Stream,
        compute: Compute,
        n: u64,
        (y, is_twice): (&View, bool),
        views: &[View],
    ) -> Result<(), Refusal> {
        let device = self.device(stream)?;
        let is_number = |k: usize| matches!(compute.func, Func::Multiple { .. }) && k == 0;
        let whole = |ty: Type| {
            let out = if compute.func == Func::Dot { Type::F64 } else { ty };
            let reads = views.iter().enumerate();
            y.is_whole(out)
                && reads.into_iter().all(|(k, x)| x.is_whole(if is_number(k) { Type::F64 } else { ty }))
        };
        let with_sum = views.len() == 3;
        if let Some(ty) = Type::of(compute.dtype).filter(|ty| !is_twice && whole(*ty))
            && let Some(formula) = Elementwise::of(compute.func, with_sum)
        {
            let functions = device.operators()?;
            let (functions, shape) = match compute.func {
                Func::Dot => (&functions.dot, Shape { grid: 1, block: THREADS }),
                _ => (&functions.elementwise, shape(n)),
            };
            let words = formula.words(n, y, views);
            return Ok(self.blocks.launch(&functions[ty as usize], stream, shape, &words)?);
        }
        if !matches!(compute.func, Func::Fill(_) | Func::Affine { .. } | Func::Mul { .. } | Func::Add) {
            let why = format!("has a formula that no kernel computes for such elements of {}", compute.dtype);
            return Err(Refusal::Unsupported(why));
        }
        let shape = if is_twice { Shape { grid: 1, block: 1 } } else { shape(n) };
        let (a, b) = (views.first().unwrap_or(y), views.get(1).or(views.first()).unwrap_or(y));
        Ok(self.blocks.launch(device.formula()?, stream, shape, &kernels::words(compute, n, y, a, b))?)
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
    pub(super) fn view(&self, stream: &Stream, region: &Region) -> Result<View, Refusal> {
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

    /// Takes `n` bytes of a region aside.
    fn scratch(
        &mut self,
        command: &Command,
        stream_id: StreamId,
        from: &Region,
        n: u64,
    ) -> Result<Scratch, Refusal> {
        let scratch = self.room(command, stream_id, n)?;
        let block = self.block(from.buffer);
        let sides = ((scratch.buffer, &scratch.region), (block, from));
        self.copy_pieces(command, stream_id, sides, n)?;
        Ok(scratch)
    }

    /// Memory of one command, of `n` bytes.
    pub(super) fn room(
        &mut self,
        command: &Command,
        stream_id: StreamId,
        n: u64,
    ) -> Result<Scratch, Refusal> {
        let buffer = self.fresh("scratch");
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
        Ok(Scratch { buffer, region: buffer.range(0, bytes) })
    }

    pub(super) fn end_scratch(
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
