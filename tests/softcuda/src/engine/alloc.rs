//! Calls that allocate, free, pin and register, and what pointers say of themselves.

use crate::code::Code;
use crate::report::ViolationKind;

use super::device::context_handle;
use super::memory::Life;
use super::op::{Op, Place, Work};
use super::race::Touch;
use super::{Engine, Needs, Session};

/// Portable, mapped, write-combined.
const HOST_FLAGS: u32 = 7;
/// Portable, mapped, I/O memory, read-only.
const REGISTER_FLAGS: u32 = 15;

/// What a pointer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PointerFacts {
    /// 1 for host memory, 2 for a device's.
    pub(crate) memory_type: u32,
    pub(crate) context: u64,
    pub(crate) ordinal: i32,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Session<'_> {
    /// Where a host address is, or a device address given as one.
    pub(crate) fn place(&self, address: u64) -> Place {
        if self.memory.device_of(address).is_some() {
            Place::Device(address)
        } else if self.memory.host(address).is_some() {
            Place::Pinned(address)
        } else {
            Place::Pageable(address)
        }
    }

    /// Runs the frees that are enqueued, when memory is short.
    fn reserve(&mut self, device: usize, len: u64, pool: Option<usize>) -> Result<u64, Code> {
        if !self.fits(device, len, pool) {
            let frees: Vec<u64> =
                self.ops.values().filter(|op| matches!(op.work, Work::Free { .. })).map(|op| op.id).collect();
            self.run_until(&frees);
            if !self.fits(device, len, pool) {
                return Err(Code::OUT_OF_MEMORY);
            }
        }
        self.memory.reserve(device, len, pool)
    }

    /// Frees a block, to its pool if it has one.
    pub(crate) fn release(&mut self, start: u64) {
        if let Some((len, pool)) = self.memory.release(start)
            && let Some(pool) = pool
        {
            self.back_to_pool(pool, len);
        }
    }

    /// Reports every use of a range that the host cannot know to be over, queued or run.
    fn end_of_life(&mut self, start: u64, end: u64, kind: ViolationKind) {
        let (access, clock) = self.host_step(start, end, Touch::Death);
        // That a host function might touch it is no reason: it is the host's, which knows what it frees.
        let is_of_device = |op: &&Op| !matches!(op.work, Work::Host { .. });
        let used = self.ops.values().filter(is_of_device).filter(|op| self.may_touch(op, start, end));
        let queued: Vec<_> = used.map(|op| (op.id, op.call, op.seq, op.lane)).collect();
        let ran = self.memory.history(start).unknown_to(&clock, start, end).cloned();
        let site = self.site(&access);
        if let Some(earlier) = ran {
            let other = self.site(&earlier);
            let missing = format!("the host does not know that {} is over", other.place);
            self.add_violation(kind, site.clone(), Some(other), missing);
        }
        for (op, call, seq, lane) in queued {
            let other =
                self.site(&super::race::Access { start, end, touch: Touch::Read, lane, seq, op, call });
            let missing = format!("{} has not run", other.place);
            self.add_violation(kind, site.clone(), Some(other), missing);
        }
    }

    /// What is known of a pointer; pageable memory is not known.
    pub(crate) fn pointer(&self, address: u64) -> Result<PointerFacts, Code> {
        if let Some(block) = self.memory.block(address).filter(|b| b.life != Life::Freed) {
            let ordinal = i32::try_from(block.device).unwrap_or(i32::MAX);
            let (start, len) = (block.start, block.len);
            return Ok(PointerFacts {
                memory_type: 2,
                context: context_handle(block.device),
                ordinal,
                start,
                len,
            });
        }
        let range = self.memory.host(address).filter(|r| !r.freed).ok_or(Code::INVALID_VALUE)?;
        let (start, len) = (range.start, range.len);
        Ok(PointerFacts { memory_type: 1, context: context_handle(self.device), ordinal: 0, start, len })
    }
}

impl Engine {
    pub(crate) fn memory_info(&self) -> Result<(u64, u64), Code> {
        self.call("cuMemGetInfo_v2", Needs::Context, |s| {
            let total = s.config.memory;
            Ok((total - s.memory.used[s.device] - s.kept(s.device), total))
        })
    }

    pub(crate) fn alloc(&self, len: u64) -> Result<u64, Code> {
        self.call("cuMemAlloc_v2", Needs::Context, |s| {
            if len == 0 {
                return Err(Code::INVALID_VALUE);
            }
            let block = s.reserve(s.device, len, None)?;
            s.trace_alloc(block, len, "device", None);
            Ok(block)
        })
    }

    /// Waits for the device, as drivers do; the documentation does not promise it, so nothing is ordered by it. For memory of a pool it
    /// says that this call waits for nothing.
    pub(crate) fn free(&self, address: u64) -> Result<(), Code> {
        self.call("cuMemFree_v2", Needs::Context, |s| {
            if address == 0 {
                return Ok(());
            }
            let block = s.memory.blocks.get(&address).filter(|b| b.life != Life::Freed && !b.doomed);
            let block = block.map(|b| (b.end(), b.device, b.pool.is_some()));
            let (end, device, is_pooled) = block.ok_or(Code::INVALID_VALUE)?;
            s.end_of_life(address, end, ViolationKind::FreeInFlight);
            s.trace_free(address, "free", None);
            if !is_pooled {
                s.drain_device(device);
            }
            s.release(address);
            s.outcome(device)
        })
    }

    pub(crate) fn alloc_async(
        &self,
        call: &'static str,
        len: u64,
        pool: u64,
        stream: u64,
    ) -> Result<u64, Code> {
        self.call(call, Needs::Context, |s| {
            let stream = s.stream(stream)?;
            if len == 0 {
                return Err(Code::INVALID_VALUE);
            }
            if !s.config.pools {
                return Err(Code::NOT_SUPPORTED);
            }
            // A device's own pool has the device's number.
            let pool = if pool == 0 { s.streams[stream].device } else { s.pool(pool)? };
            let block = s.reserve(s.pools[pool].device, len, Some(pool))?;
            s.enqueue(stream, Work::Alloc { block }, None);
            s.trace_alloc(block, len, "device", Some(stream));
            Ok(block)
        })
    }

    pub(crate) fn free_async(&self, address: u64, stream: u64) -> Result<(), Code> {
        self.call("cuMemFreeAsync", Needs::Context, |s| {
            let stream = s.stream(stream)?;
            if address == 0 {
                return Err(Code::INVALID_VALUE);
            }
            let block = s.memory.blocks.get_mut(&address).filter(|b| b.life != Life::Freed && !b.doomed);
            block.ok_or(Code::INVALID_VALUE)?.doomed = true;
            s.trace_free(address, "free_async", Some(stream));
            s.enqueue(stream, Work::Free { block: address }, None);
            Ok(())
        })
    }

    pub(crate) fn host_alloc(&self, len: u64, flags: u32) -> Result<u64, Code> {
        self.call("cuMemHostAlloc", Needs::Context, |s| {
            if flags & !HOST_FLAGS != 0 {
                return Err(Code::INVALID_VALUE);
            }
            // Of no bytes a driver says that it allocated them.
            if len == 0 {
                return Ok(0);
            }
            let start = s.memory.pin(len, flags)?;
            s.trace_alloc(start, len, "pinned", None);
            Ok(start)
        })
    }

    /// Waits as [`Engine::free`] does.
    pub(crate) fn host_free(&self, address: u64) -> Result<(), Code> {
        self.call("cuMemFreeHost", Needs::Context, |s| {
            if address == 0 {
                return Ok(());
            }
            let range = s.memory.hosts.get(&address).filter(|r| !r.freed && !r.registered);
            let end = range.map(super::memory::HostRange::end).ok_or(Code::INVALID_VALUE)?;
            s.end_of_life(address, end, ViolationKind::FreeInFlight);
            s.trace_free(address, "host_free", None);
            s.drain_device(s.device);
            s.memory.unpin(address);
            s.outcome(s.device)
        })
    }

    pub(crate) fn host_register(&self, address: u64, len: u64, flags: u32) -> Result<(), Code> {
        self.call("cuMemHostRegister_v2", Needs::Context, |s| {
            if address == 0 || len == 0 || flags & !REGISTER_FLAGS != 0 {
                return Err(Code::INVALID_VALUE);
            }
            if s.memory.host_overlap(address, len) {
                return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
            }
            s.memory.note_host(address, len, flags, true);
            s.trace_alloc(address, len, "pinned", None);
            Ok(())
        })
    }

    /// Waits as [`Engine::free`] does. What another device has queued keeps its copy of the address: it reads or writes what the caller
    /// made of the memory.
    pub(crate) fn host_unregister(&self, address: u64) -> Result<(), Code> {
        self.call("cuMemHostUnregister", Needs::Context, |s| {
            if address == 0 {
                return Err(Code::INVALID_VALUE);
            }
            let range = s.memory.host(address).filter(|r| !r.freed);
            let range = range.ok_or(Code::HOST_MEMORY_NOT_REGISTERED)?;
            // Known memory that does not begin here, or was not registered.
            if range.start != address || !range.registered {
                return Err(Code::INVALID_VALUE);
            }
            let end = range.end();
            s.end_of_life(address, end, ViolationKind::UnregisterInFlight);
            s.trace_free(address, "unregister", None);
            s.drain_device(s.device);
            s.memory.hosts.remove(&address);
            s.outcome(s.device)
        })
    }

    pub(crate) fn host_flags(&self, address: u64) -> Result<u32, Code> {
        self.call("cuMemHostGetFlags", Needs::Context, |s| {
            s.memory.host(address).filter(|r| !r.freed).map(|r| r.flags).ok_or(Code::INVALID_VALUE)
        })
    }

    /// Host and device see known host memory at one address.
    pub(crate) fn host_device_pointer(&self, address: u64, flags: u32) -> Result<u64, Code> {
        self.call("cuMemHostGetDevicePointer_v2", Needs::Context, |s| {
            let known = flags == 0 && s.memory.host(address).is_some_and(|r| !r.freed);
            if known { Ok(address) } else { Err(Code::INVALID_VALUE) }
        })
    }

    pub(crate) fn pointer_facts(
        &self,
        call: &'static str,
        address: u64,
    ) -> Result<Result<PointerFacts, Code>, Code> {
        self.call(call, Needs::Context, |s| Ok(s.pointer(address)))
    }
}
