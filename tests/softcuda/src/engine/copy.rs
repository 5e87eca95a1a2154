//! Copies and memset: what is promised when the call returns, and what is left for later.

use crate::code::Code;
use crate::config::Pageable;
use crate::host;
use crate::report::ViolationKind;

use super::memory::{IN_FLIGHT, Life};
use super::op::{Place, Work};
use super::{Engine, Needs, Session};

/// Which way a copy goes, by the function that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
}

impl Session<'_> {
    /// The two ends of a copy, where the function's kinds fit what the pointers are.
    fn ends(&mut self, way: Way, to: u64, from: u64, len: u64) -> Result<(Place, Place), Code> {
        let (to_place, from_place) = (self.usable(to, len)?, self.usable(from, len)?);
        // A "device pointer" may be that of pinned memory, which has one address everywhere; never a pageable one.
        let fits_device = |place: &Place| !matches!(place, Place::Pageable(_));
        let fits = match way {
            Way::HostToDevice => fits_device(&to_place) && from != 0,
            Way::DeviceToHost => fits_device(&from_place) && to != 0,
            Way::DeviceToDevice => fits_device(&to_place) && fits_device(&from_place),
        };
        if fits { Ok((to_place, from_place)) } else { Err(Code::INVALID_VALUE) }
    }

    /// What a range is, and that the host may still name it: memory that was given up is reported.
    fn usable(&mut self, start: u64, len: u64) -> Result<Place, Code> {
        let end = start.checked_add(len).ok_or(Code::INVALID_VALUE)?;
        let place = self.place(start);
        match &place {
            Place::Device(_)
                if self.memory.block(start).is_some_and(|b| b.doomed || b.life == Life::Freed) =>
            {
                self.misuse_of(
                    ViolationKind::UseAfterFree,
                    start,
                    end,
                    "the memory was given up before this call",
                );
            }
            Place::Pinned(_) => {
                let (freed, last) = self.memory.host(start).map_or((true, 0), |r| (r.freed, r.end()));
                if freed {
                    self.misuse_of(ViolationKind::UseAfterFree, start, end, "the pinned memory was freed");
                    return Err(Code::INVALID_VALUE);
                }
                if end > last {
                    self.misuse_of(
                        ViolationKind::OutOfBounds,
                        start,
                        end,
                        "the range leaves its pinned memory",
                    );
                    return Err(Code::INVALID_VALUE);
                }
            }
            _ => {}
        }
        Ok(place)
    }

    /// Whether something queued touches these bytes: then poison and checksums would not mean what they say.
    fn touched_by_queue(&self, start: u64, len: u64) -> bool {
        let end = start + len;
        self.ops.values().any(|op| self.may_touch(op, start, end))
    }

    /// Reads a pageable source now, on the calling thread.
    fn stage(&mut self, from: u64, len: u64) -> Place {
        self.host_touch(from, len, false);
        let mut bytes = vec![0; usize::try_from(len).expect("a copy fits into memory")];
        host::read(from, &mut bytes);
        Place::Staged(bytes)
    }

    fn enqueue_copy(&mut self, stream: usize, from: Place, to: Place, len: u64) {
        let sum = match from {
            Place::Pinned(start) if !self.touched_by_queue(start, len) => Some(host::sum(start, len)),
            _ => None,
        };
        if let Place::Pinned(start) | Place::Pageable(start) = to
            && !self.touched_by_queue(start, len)
            && !overlaps(&from, start, len)
        {
            host::fill(start, len, IN_FLIGHT);
        }
        self.enqueue(stream, Work::Copy { from, to, len, sum }, None);
    }

    /// Of all forms of a copy the host waits for that between two places of its own.
    fn copy_within_host(&mut self, stream: usize, from: Place, to: Place, len: u64) -> Result<(), Code> {
        self.enqueue_copy(stream, from, to, len);
        self.join_streams(&[stream]);
        self.outcome(self.streams[stream].device)
    }

    fn copy_async(&mut self, way: Way, to: u64, from: u64, len: u64, stream: u64) -> Result<(), Code> {
        let stream = self.stream(stream)?;
        if len == 0 {
            return Ok(());
        }
        let (to_place, from_place) = self.ends(way, to, from, len)?;
        self.trace_copy(stream, to, from, len, false);
        let kind = self.config.pageable == Pageable::Kind;
        match (from_place, to_place) {
            (from, to) if is_within_host(&from, &to) => self.copy_within_host(stream, from, to, len),
            (Place::Pageable(from), to) if kind => {
                let staged = self.stage(from, len);
                self.enqueue_copy(stream, staged, to, len);
                Ok(())
            }
            (from, Place::Pageable(to)) if kind => {
                self.enqueue_copy(stream, from, Place::Pageable(to), len);
                self.join_streams(&[stream]);
                self.outcome(self.streams[stream].device)
            }
            (from, to) => {
                self.enqueue_copy(stream, from, to, len);
                Ok(())
            }
        }
    }

    /// The synchronous forms go through the default stream. A pageable source is read before the call returns, its DMA may
    /// still run; between two places on devices nothing is waited for.
    fn copy_now(&mut self, way: Way, to: u64, from: u64, len: u64) -> Result<(), Code> {
        let stream = self.stream(0)?;
        if len == 0 {
            return Ok(());
        }
        let places = self.ends(way, to, from, len)?;
        self.trace_copy(stream, to, from, len, true);
        let (to, from) = places;
        let (device, scope) = (self.device, self.ordered_with(stream));
        match from {
            from if is_within_host(&from, &to) => return self.copy_within_host(stream, from, to, len),
            Place::Pageable(from) => {
                self.join_streams(&scope);
                let staged = self.stage(from, len);
                self.enqueue_copy(stream, staged, to, len);
            }
            from => {
                self.enqueue_copy(stream, from, to, len);
                if way != Way::DeviceToDevice {
                    self.join_streams(&[stream]);
                }
            }
        }
        self.outcome(device)
    }

    fn fill(&mut self, to: u64, byte: u8, len: u64, stream: u64, sync: bool) -> Result<usize, Code> {
        let stream = self.stream(stream)?;
        if len > 0 {
            match self.usable(to, len)? {
                Place::Pageable(_) => return Err(Code::INVALID_VALUE),
                place => {
                    self.trace_fill(stream, to, len, sync);
                    self.enqueue(stream, Work::Fill { to: place, len, byte }, None)
                }
            };
        }
        Ok(stream)
    }
}

fn is_within_host(from: &Place, to: &Place) -> bool {
    [from, to].into_iter().all(|place| !matches!(place, Place::Device(_)))
}

fn overlaps(from: &Place, start: u64, len: u64) -> bool {
    from.address().is_some_and(|from| from < start + len && start < from + len)
}

impl Engine {
    /// Enqueues a copy.
    ///
    /// The caller promises of host addresses what CUDA asks: they hold `len` bytes until the copy is complete.
    pub(crate) fn copy_async(
        &self,
        call: &'static str,
        way: Way,
        to: u64,
        from: u64,
        len: u64,
        stream: u64,
    ) -> Result<(), Code> {
        self.call(call, Needs::Context, |s| s.copy_async(way, to, from, len, stream))
    }

    /// Copies with the promises of the synchronous forms; host addresses as in [`Engine::copy_async`].
    pub(crate) fn copy_now(
        &self,
        call: &'static str,
        way: Way,
        to: u64,
        from: u64,
        len: u64,
    ) -> Result<(), Code> {
        self.call(call, Needs::Context, |s| s.copy_now(way, to, from, len))
    }

    /// Works with and without peer access; both contexts must be live.
    pub(crate) fn copy_peer(
        &self,
        (to, to_context): (u64, u64),
        (from, from_context): (u64, u64),
        len: u64,
        stream: u64,
    ) -> Result<(), Code> {
        self.call("cuMemcpyPeerAsync", Needs::Context, |s| {
            for (address, context) in [(to, to_context), (from, from_context)] {
                let device = s.context(context)?;
                s.healthy(device)?;
                if len > 0 && s.memory.device_of(address) != Some(device) {
                    return Err(Code::INVALID_VALUE);
                }
            }
            s.copy_async(Way::DeviceToDevice, to, from, len, stream)
        })
    }

    pub(crate) fn fill_async(&self, to: u64, byte: u8, len: u64, stream: u64) -> Result<(), Code> {
        self.call("cuMemsetD8Async", Needs::Context, |s| s.fill(to, byte, len, stream, false).map(|_| ()))
    }

    /// Waits where the target is host memory, not where it is a device's.
    pub(crate) fn fill_now(&self, to: u64, byte: u8, len: u64) -> Result<(), Code> {
        self.call("cuMemsetD8_v2", Needs::Context, |s| {
            let stream = s.fill(to, byte, len, 0, true)?;
            if matches!(s.place(to), Place::Pinned(_)) {
                s.join_streams(&[stream]);
            }
            s.outcome(s.device)
        })
    }
}
