//! Buffers: declared before their use, freed once, touched inside their blocks, with contents that are numbers.

use super::{BufferFacts, BufferState, Check};
use crate::program::command::*;

impl Check<'_> {
    pub(super) fn contents(&mut self, contents: Option<&Contents>) {
        let finite = match contents {
            None | Some(Contents::Seed(_)) => true,
            Some(Contents::Fill { value, .. }) => value.is_finite(),
            Some(Contents::Ramp { start, step, .. }) => start.is_finite() && step.is_finite(),
            Some(Contents::Values { values, .. }) => {
                if values.is_empty() {
                    self.say("declared contents have no value".to_owned());
                }
                values.iter().all(|v| v.is_finite())
            }
        };
        if !finite {
            self.say("declared contents have a value that is no finite number".to_owned());
        }
    }

    pub(super) fn compute(&mut self, compute: Option<Compute>) {
        let finite = match compute.map(|c| c.func) {
            Some(Func::Fill(value)) => value.is_finite(),
            Some(Func::Affine { mul, add }) => mul.is_finite() && add.is_finite(),
            Some(Func::Multiple { factor: v } | Func::Where { above: v } | Func::Shrink { by: v }) => {
                v.is_finite()
            }
            Some(
                Func::Mul { .. } | Func::Add | Func::Dot | Func::Divide | Func::Sqrt | Func::Guard { .. },
            )
            | None => true,
        };
        if !finite {
            self.say("what is computed has a value that is no finite number".to_owned());
        }
    }

    pub(super) fn alloc(&mut self, alloc: &Alloc) {
        let name = self.names.buffer(alloc.buffer);
        let (mut block, mut known) = ((alloc.buffer, alloc.bytes), true);
        if alloc.bytes <= 0 {
            self.say(match alloc.bytes {
                // What the builder makes of more than there can be.
                i64::MIN => format!("buffer {name:?} has no size of 1 to {} bytes", i64::MAX),
                bytes => format!("buffer {name:?} has {bytes} bytes, at least 1 is needed"),
            });
            known = false;
        }
        self.device(alloc.dev);
        self.contents(alloc.contents.as_ref());
        match (alloc.via, alloc.stream) {
            (AllocVia::MallocAsync, None) => {
                self.say(format!("field \"s\" is missing: malloc_async of {name:?}"))
            }
            (AllocVia::MallocAsync, Some(stream)) => {
                self.work(stream);
                self.buffers[alloc.buffer.index()].captured = self.captures.id_of(stream);
            }
            _ => {}
        }
        if let Some(reuse) = alloc.reuse {
            match self.facts.buffers[reuse.index()] {
                Some(old) => {
                    block = (old.block, old.block_bytes);
                    known &= !self.buffers[reuse.index()].size_unknown;
                }
                None => {
                    known = false;
                    self.undeclared(reuse);
                }
            }
        }
        if self.facts.buffers[alloc.buffer.index()].is_some() {
            self.say(format!("buffer {name:?} is declared twice"));
            known = false;
        }
        self.buffers[alloc.buffer.index()].size_unknown |= !known;
        self.facts.buffers[alloc.buffer.index()] = Some(BufferFacts {
            bytes: alloc.bytes,
            space: alloc.space,
            dev: alloc.dev,
            via: alloc.via,
            stream: alloc.stream,
            block: block.0,
            block_bytes: block.1,
            declared_at: self.index,
            freed_at: None,
        });
    }

    /// Tells of an undeclared buffer once for each command.
    pub(super) fn undeclared(&mut self, buffer: BufferId) {
        let index = self.index;
        if self.buffers[buffer.index()].told_at.replace(index) != Some(index) {
            self.say(format!("buffer {:?} is not declared", self.names.buffer(buffer)));
        }
    }

    pub(super) fn buffer_is_there(&mut self, buffer: BufferId) -> Option<BufferFacts> {
        let facts = self.facts.buffers[buffer.index()];
        if facts.is_none() {
            self.undeclared(buffer);
        }
        facts
    }

    pub(super) fn region(&mut self, region: &Region) {
        let Some(facts) = self.buffer_is_there(region.buffer) else { return };
        let Some((lo, hi)) = region.span.bounds() else { return };
        if (0 <= lo && hi <= facts.block_bytes) || self.buffers[region.buffer.index()].size_unknown {
            return;
        }
        let name = self.names.buffer(region.buffer);
        let whose = if facts.block == region.buffer { "" } else { "the block of " };
        self.say(format!(
            "span [{lo}, {hi}) reaches outside {whose}buffer {name:?} of {} bytes",
            facts.block_bytes
        ));
    }

    pub(super) fn free(&mut self, buffer: BufferId, via: FreeVia, stream: Option<StreamId>) {
        let name = self.names.buffer(buffer);
        match (via, stream) {
            (FreeVia::FreeAsync, None) => self.say(format!("field \"s\" is missing: free_async of {name:?}")),
            (FreeVia::FreeAsync, Some(stream)) => self.work(stream),
            _ => {}
        }
        match self.buffer_is_there(buffer).map(|facts| facts.freed_at) {
            Some(Some(first)) => {
                self.say(format!("double free: buffer {name:?} was freed by {}", self.at(first)))
            }
            Some(None) => {
                let index = self.index;
                if let Some(facts) = &mut self.facts.buffers[buffer.index()] {
                    facts.freed_at = Some(index);
                }
                self.free_in_capture(buffer, stream.filter(|_| via == FreeVia::FreeAsync));
            }
            None => {}
        }
    }

    /// A graph frees at each launch what that launch allocated, and nothing else.
    fn free_in_capture(&mut self, buffer: BufferId, stream: Option<StreamId>) {
        let BufferState { size_unknown, captured, .. } = self.buffers[buffer.index()];
        if let Some(stream) = stream
            && let Some(capture) = self.captures.id_of(stream)
            && captured != Some(capture)
            && !size_unknown
        {
            let name = self.names.buffer(buffer);
            self.outside(capture, stream, "free", format!("buffer {name:?} was not allocated"));
        }
    }

    pub(super) fn copy(&mut self, copy: &Copy) {
        self.work(copy.stream);
        if !copy.torch || self.captures.of(copy.stream).is_none() {
            return;
        }
        for buffer in [copy.dst.buffer, copy.src.buffer] {
            if self.facts.buffers[buffer.index()].is_some_and(|b| b.space == Space::Pageable) {
                self.say_of_capture(format!(
                    "unpinned in capture: PyTorch copies pageable buffer {:?} while stream {:?} captures",
                    self.names.buffer(buffer),
                    self.names.stream(copy.stream),
                ));
            }
        }
    }
}
