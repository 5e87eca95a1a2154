//! Copies and memsets of a program: one call of the driver for each piece that both sides have in a row.

use spanlift::memory::Span;
use spanlift::program::{AllocVia, Command, Copy, Op, Region, StreamId};

use super::super::error::CudaError;
use super::blocks::Queue;
use super::issue::{Issue, Refusal};
use crate::cpu::blocks::{bytes_of, pairs};

/// Calls that one strided command may come to.
const MAX_PIECES: usize = 1 << 20;

impl Issue<'_> {
    pub(super) fn copy(&mut self, command: &Command, copy: &Copy) -> Result<(), Refusal> {
        let n = bytes_of(&copy.dst.span).min(bytes_of(&copy.src.span));
        for region in [&copy.dst, &copy.src].into_iter().filter(|region| !region.span.is_empty()) {
            if self.facts.buffer(region.buffer).via == AllocVia::PinnedPool && !copy.untracked {
                self.note_stream(region.buffer, copy.stream);
            }
        }
        let stream = self.stream(copy.stream)?;
        let (to_host, from_host) = (self.is_host(&copy.dst), self.is_host(&copy.src));
        let everybody = copy.peer && copy.sync;
        if n == 0 {
            // It moves nothing, and orders what it would order otherwise.
            self.tick(copy.stream, copy.sync || to_host && from_host)?;
            if everybody {
                self.synchronize_all()?;
            }
            self.note(command, Op::Copy(copy.clone()));
            return Ok(());
        }
        if to_host && from_host {
            // Wholly synchronous, in the stream's order: what is enqueued there comes after the legacy stream's work too, which a
            // sync of the stream alone does not wait for.
            self.tick(copy.stream, true)?;
            self.host_copy(&copy.dst, &copy.src)?;
            self.note(command, Op::Copy(copy.clone()));
            return Ok(());
        }
        self.is_few(&copy.dst.span, &copy.src.span, n)?;
        if !to_host && !from_host && self.meets(&copy.dst, &copy.src) {
            return self.copy_within(command, copy, n);
        }
        if everybody {
            self.synchronize_all()?;
        }
        // Between devices the synchronous form waits for nothing; it is the asynchronous one on the legacy stream.
        let context = stream.context().clone();
        let queue = match copy.sync && (to_host || from_host) {
            true => Queue::Now(&context),
            false => Queue::On(&stream),
        };
        if !copy.sync && self.is_read_early(&copy.src) {
            self.tick(copy.stream, true)?;
        }
        let mut pieces = Vec::new();
        let (dst, src) = (self.part(&copy.dst), self.part(&copy.src));
        self.blocks.copy(queue, (dst, src), n, |to, from, len| pieces.push((to, from, len)))?;
        if everybody {
            self.synchronize_all()?;
        }
        if let [_] = pieces[..] {
            self.note(command, Op::Copy(copy.clone()));
            return Ok(());
        }
        for (to, from, len) in pieces {
            let (dst, src) = (piece(&copy.dst, to, len), piece(&copy.src, from, len));
            self.note(command, Op::Copy(Copy { dst, src, ..copy.clone() }));
        }
        Ok(())
    }

    pub(super) fn synchronize_all(&self) -> Result<(), CudaError> {
        self.devices.iter().try_for_each(|device| device.context.synchronize())
    }

    /// Whether both regions are of one block and may have bytes in common.
    pub(super) fn meets(&self, a: &Region, b: &Region) -> bool {
        let bounds = a.span.bounds().zip(b.span.bounds());
        self.block(a.buffer) == self.block(b.buffer)
            && bounds.is_some_and(|((a_lo, a_hi), (b_lo, b_hi))| a_lo < b_hi && b_lo < a_hi)
    }

    /// Refuses what would come to too many calls.
    fn is_few(&self, dst: &Span, src: &Span, n: u64) -> Result<(), Refusal> {
        let mut n_pieces = 0usize;
        let smallest = dst.elem().min(src.elem()).max(1).unsigned_abs();
        if n / smallest > MAX_PIECES as u64 {
            pairs(dst, src, n, |_, _, _| n_pieces += 1);
        }
        if n_pieces > MAX_PIECES {
            return Err(Refusal::Unsupported(format!("comes to more than {MAX_PIECES} pieces")));
        }
        Ok(())
    }

    pub(super) fn memset(
        &mut self,
        (index, command): (usize, &Command),
        stream_id: StreamId,
        dst: &Region,
        sync: bool,
        value: u8,
    ) -> Result<(), Refusal> {
        let stream = self.stream(stream_id)?;
        let op = |dst: Region| Op::Memset { stream: stream_id, dst, sync, value };
        if dst.span.is_empty() {
            self.tick(stream_id, sync && self.is_host(dst))?;
            self.note(command, op(dst.clone()));
            return Ok(());
        }
        if self.is_host(dst) {
            self.writes_late(dst);
            self.host_fn(index, &stream, self.blocks.filler(self.part(dst), value)?)?;
            if sync {
                stream.synchronize()?;
            }
            self.note(command, op(dst.clone()));
            return Ok(());
        }
        self.is_few(&dst.span, &dst.span, bytes_of(&dst.span))?;
        let context = stream.context().clone();
        let queue = if sync { Queue::Now(&context) } else { Queue::On(&stream) };
        let mut pieces = Vec::new();
        self.blocks.fill(queue, self.part(dst), value, |at, len| pieces.push((at, len)))?;
        if let [_] = pieces[..] {
            self.note(command, op(dst.clone()));
            return Ok(());
        }
        for (at, len) in pieces {
            self.note(command, op(piece(dst, at, len)));
        }
        Ok(())
    }
}

/// A piece of a region, by its place in the block.
pub(super) fn piece(region: &Region, at: usize, len: usize) -> Region {
    let (at, len) = (i64::try_from(at).unwrap_or(i64::MAX), i64::try_from(len).unwrap_or(i64::MAX));
    Region { opaque: region.opaque, ..region.buffer.range(at, len) }
}
