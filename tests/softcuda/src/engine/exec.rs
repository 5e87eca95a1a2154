//! What an operation does when it runs: checks first, then bytes.

use std::time::Duration;

use crate::code::Code;
use crate::host;
use crate::report::ViolationKind;

use super::Session;
use super::memory::Life;
use super::op::{Op, Place, Span, Work};
use super::race::{Access, Touch};
use super::rule::Rule;

/// An error of an operation, and whether the device is lost with it.
pub(crate) type Failure = (Code, bool);

impl Session<'_> {
    /// Runs an operation; a host function has returned.
    pub(crate) fn finish_op(&mut self, id: u64) {
        let Some(op) = self.ops.remove(&id) else { return };
        let front = self.streams[op.stream].queue.pop_front();
        assert_eq!(front, Some(id), "a stream runs in order");
        if self.config.latency_us > 0 {
            let most = u64::from(self.config.latency_us);
            let late = self.rng.below(most + 1);
            std::thread::sleep(Duration::from_micros(late));
        }
        self.ran += 1;
        self.order.push(id);
        let kind = op.work.kind();
        *self.kinds.entry(kind).or_insert(0) += 1;
        self.activity_work(&op);
        let device = op.device;
        let hit = |at: &str| at.strip_prefix("exec:").is_some_and(|k| k == kind || k == "any");
        let outcome = match self.due(hit, device) {
            Some(failure) => Err(failure),
            None => self.run(op),
        };
        match outcome {
            Err((code, true)) => self.devices[device].sticky = self.devices[device].sticky.or(Some(code)),
            Err((code, false)) => self.devices[device].passing = Some(code),
            Ok(()) => {}
        }
    }

    /// A lost device does nothing, but its memory can still be given up.
    fn run(&mut self, op: Op) -> Result<(), Failure> {
        if self.devices[op.device].sticky.is_some() && !matches!(op.work, Work::Free { .. }) {
            return Ok(());
        }
        for span in op.work.spans() {
            self.check(&op, span)?;
        }
        match &op.work {
            Work::Copy { from, to, len, sum } => {
                self.check_source(&op, from, *len, *sum);
                self.copy_bytes(from, to, *len);
            }
            Work::Fill { to, len, byte } => self.fill_bytes(to, *len, *byte),
            Work::Record { event, number } => {
                let now = self.ran;
                self.events[*event].ran(*number, now);
            }
            Work::Alloc { block } => self.born(&op, *block),
            Work::Free { block } => self.dies(&op, *block),
            Work::Launch { kernel, shape, args } => self.run_kernel(&op, kernel, *shape, args)?,
            Work::Wait | Work::Host { .. } => {}
            #[cfg(test)]
            Work::Touch { spans } => {
                for (key, touch) in [("reads", Touch::Read), ("writes", Touch::Write)] {
                    let ranges =
                        spans.iter().filter(|s| s.touch == touch).map(|s| (s.start, s.end)).collect();
                    self.trace_touched(op.id, key, &ranges);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn access_of(op: &Op, span: Span) -> Access {
        let Span { start, end, touch } = span;
        Access { start, end, touch, lane: op.lane, seq: op.seq, op: op.id, call: op.call }
    }

    /// Bounds, life and order of one range that an operation is about to touch.
    pub(crate) fn check(&mut self, op: &Op, span: Span) -> Result<(), Failure> {
        let access = Self::access_of(op, span);
        if self.memory.device_of(span.start).is_some() {
            let block = self.memory.block(span.start).filter(|b| span.end <= b.end()).map(|b| b.life);
            let Some(life) = block else {
                self.accuse(ViolationKind::OutOfBounds, &access, "no allocation holds all of these bytes");
                return Err((Code::ILLEGAL_ADDRESS, true));
            };
            let owner = self.memory.device_of(span.start).filter(|owner| *owner != op.device);
            if let Some(code) = owner.and_then(|owner| self.devices[owner].sticky) {
                // The other device is lost: what was to make this memory will never run, and that is nobody's misuse.
                return Err((code, false));
            }
            self.check_life(&access, life);
        } else if self.memory.host(span.start).is_some_and(|r| r.freed) {
            self.accuse(ViolationKind::UseAfterFree, &access, "the pinned memory was freed");
            return Err((Code::ILLEGAL_ADDRESS, true));
        }
        self.access(access, &op.clock);
        Ok(())
    }

    pub(crate) fn check_life(&mut self, access: &Access, life: Life) {
        let (kind, missing) = match life {
            Life::Live => return,
            Life::Pending => (ViolationKind::UseBeforeAlloc, "the allocation has not run"),
            Life::Freed => (ViolationKind::UseAfterFree, "the memory was freed"),
        };
        self.accuse(kind, access, missing);
    }

    /// A pinned source must hold what it held when the copy was enqueued.
    fn check_source(&mut self, op: &Op, from: &Place, len: u64, sum: Option<u64>) {
        if let (Place::Pinned(start), Some(sum)) = (from, sum)
            && host::sum(*start, len) != sum
        {
            let access = Self::access_of(op, Span { start: *start, end: start + len, touch: Touch::Read });
            self.accuse(
                ViolationKind::SourceChanged,
                &access,
                "the host wrote the source before the copy ran",
            );
        }
    }

    fn born(&mut self, op: &Op, block: u64) {
        if let Some(b) = self.memory.block_mut(block).filter(|b| b.life == Life::Pending) {
            b.life = Life::Live;
            let (start, end) = (b.start, b.end());
            if Rule::Birth.holds() {
                self.access(Self::access_of(op, Span { start, end, touch: Touch::Birth }), &op.clock);
            }
        }
    }

    fn dies(&mut self, op: &Op, block: u64) {
        if let Some(b) = self.memory.block(block).filter(|b| b.life != Life::Freed) {
            let (start, end) = (b.start, b.end());
            if Rule::Death.holds() {
                self.access(Self::access_of(op, Span { start, end, touch: Touch::Death }), &op.clock);
            }
            self.release(block);
        }
    }

    fn copy_bytes(&mut self, from: &Place, to: &Place, len: u64) {
        let size = usize::try_from(len).expect("a copy fits into memory");
        match (from, to) {
            (_, Place::Staged(_)) => {}
            (Place::Pinned(src) | Place::Pageable(src), Place::Device(dst)) => {
                if let Some(bytes) = self.memory.bytes_mut(*dst, len) {
                    host::read(*src, bytes);
                }
            }
            (Place::Staged(bytes), to) => self.put(to, bytes),
            (from, to) => {
                let mut bytes = vec![0; size];
                self.get(from, &mut bytes);
                self.put(to, &bytes);
            }
        }
    }

    fn get(&self, from: &Place, out: &mut [u8]) {
        match from {
            Place::Device(at) => self.memory.read(*at, out),
            Place::Pinned(at) | Place::Pageable(at) => host::read(*at, out),
            Place::Staged(bytes) => out.copy_from_slice(bytes),
        }
    }

    fn put(&mut self, to: &Place, bytes: &[u8]) {
        match to {
            Place::Device(at) => {
                if let Some(room) = self.memory.bytes_mut(*at, bytes.len() as u64) {
                    room.copy_from_slice(bytes);
                }
            }
            Place::Pinned(at) | Place::Pageable(at) => host::write(*at, bytes),
            Place::Staged(_) => {}
        }
    }

    fn fill_bytes(&mut self, to: &Place, len: u64, byte: u8) {
        match to {
            Place::Device(at) => {
                if let Some(room) = self.memory.bytes_mut(*at, len) {
                    room.fill(byte);
                }
            }
            Place::Pinned(at) | Place::Pageable(at) => host::fill(*at, len, byte),
            Place::Staged(_) => {}
        }
    }
}
