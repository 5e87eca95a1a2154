//! Device blocks and known host ranges, by address.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::host;

use super::race::History;

/// First address of device 0. Nothing is ever mapped there, so the host cannot follow a device pointer by accident.
const BASE: u64 = 0x2400_0000_0000;
/// Address range of each device.
pub(crate) const SPAN: u64 = 1 << 40;
const ALIGN: u64 = 512;
/// `CU_MEMHOSTREGISTER_DEVICEMAP`
const DEVICE_MAP: u32 = 2;
/// Between two blocks, so that a range that leaves its block meets nothing.
const GAP: u64 = 4096;

/// What fresh device memory holds.
const FRESH: u8 = 0xCD;
/// What is read from freed device memory.
const FREED: u8 = 0xDD;
/// What a destination holds until its copy ran.
pub(crate) const IN_FLIGHT: u8 = 0xDB;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// The allocation is enqueued.
    Pending,
    Live,
    Freed,
}

/// One allocation of device memory.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) device: usize,
    pub(crate) life: Life,
    /// The pool that it came from, stream-ordered.
    pub(crate) pool: Option<usize>,
    /// Whether somebody asked for it to be freed, though that did not run yet.
    pub(crate) doomed: bool,
    /// Empty until the first write.
    bytes: Vec<u8>,
    pub(crate) history: History,
}

impl Block {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }

    pub(crate) fn freed(&mut self) {
        self.life = Life::Freed;
        self.bytes = Vec::new();
    }
}

/// One range of host memory that the driver knows.
#[derive(Debug)]
pub(crate) struct HostRange {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) flags: u32,
    /// Registered, not allocated here.
    pub(crate) registered: bool,
    pub(crate) freed: bool,
    pub(crate) history: History,
}

impl HostRange {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Whether kernels may touch it: what was allocated here, and what was registered for that.
    pub(crate) fn is_mapped(&self) -> bool {
        !self.registered || self.flags & DEVICE_MAP != 0
    }
}

/// All memory that the driver knows.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) blocks: BTreeMap<u64, Block>,
    pub(crate) hosts: BTreeMap<u64, HostRange>,
    /// Accesses to host memory that the driver does not know otherwise.
    pub(crate) pageable: History,
    next: Vec<u64>,
    pub(crate) used: Vec<u64>,
}

impl Memory {
    pub(crate) fn new(devices: usize) -> Memory {
        let start = |device| BASE + device as u64 * SPAN;
        Memory {
            blocks: BTreeMap::new(),
            hosts: BTreeMap::new(),
            pageable: History::default(),
            next: (0..devices).map(start).collect(),
            used: vec![0; devices],
        }
    }

    /// The device whose address range holds `address`, whether or not anything is there.
    pub(crate) fn device_of(&self, address: u64) -> Option<usize> {
        let device = usize::try_from(address.checked_sub(BASE)? / SPAN).ok()?;
        (device < self.next.len()).then_some(device)
    }

    /// A new block, for which there is room. Addresses are never used twice.
    pub(crate) fn reserve(&mut self, device: usize, len: u64, pool: Option<usize>) -> Result<u64, Code> {
        let start = self.next[device];
        let next = start + len.next_multiple_of(ALIGN) + GAP;
        if next > BASE + (device as u64 + 1) * SPAN {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.next[device] = next;
        self.used[device] += len;
        let life = if pool.is_some() { Life::Pending } else { Life::Live };
        let block = Block {
            start,
            len,
            device,
            life,
            pool,
            doomed: false,
            bytes: Vec::new(),
            history: History::default(),
        };
        self.blocks.insert(start, block);
        Ok(start)
    }

    /// Frees a block's bytes; its addresses keep saying that it was freed. How many there were, and of which pool.
    pub(crate) fn release(&mut self, start: u64) -> Option<(u64, Option<usize>)> {
        let block = self.blocks.get_mut(&start).filter(|b| b.life != Life::Freed)?;
        self.used[block.device] -= block.len;
        block.freed();
        Some((block.len, block.pool))
    }

    /// The block that holds `address`, freed or not.
    pub(crate) fn block(&self, address: u64) -> Option<&Block> {
        self.blocks.range(..=address).next_back().map(|(_, b)| b).filter(|b| address < b.end())
    }

    pub(crate) fn block_mut(&mut self, address: u64) -> Option<&mut Block> {
        self.blocks.range_mut(..=address).next_back().map(|(_, b)| b).filter(|b| address < b.end())
    }

    /// The known host range that holds `address`.
    pub(crate) fn host(&self, address: u64) -> Option<&HostRange> {
        self.hosts.range(..=address).next_back().map(|(_, r)| r).filter(|r| address < r.end())
    }

    /// The history that accesses at `address` belong to.
    pub(crate) fn history(&mut self, address: u64) -> &mut History {
        if self.device_of(address).is_some() {
            if self.block(address).is_some() {
                return &mut self.block_mut(address).expect("seen a line above").history;
            }
        } else if let Some((_, range)) =
            self.hosts.range_mut(..=address).next_back().filter(|(_, r)| address < r.end() && !r.freed)
        {
            return &mut range.history;
        }
        &mut self.pageable
    }

    /// Whether `[start, start + len)` meets a known host range.
    pub(crate) fn host_overlap(&self, start: u64, len: u64) -> bool {
        self.hosts.range(..start.saturating_add(len)).next_back().is_some_and(|(_, r)| start < r.end())
    }

    /// Reads bytes that lie in one block; what was never written reads as fresh, what was freed as freed.
    pub(crate) fn read(&self, address: u64, out: &mut [u8]) {
        match self.block(address) {
            Some(block) if block.life == Life::Freed => out.fill(FREED),
            Some(block) if !block.bytes.is_empty() => {
                let at = index(address - block.start);
                out.copy_from_slice(&block.bytes[at..at + out.len()]);
            }
            _ => out.fill(FRESH),
        }
    }

    /// The bytes of a range that lies in one block that is not freed.
    pub(crate) fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        let block = self.block_mut(address).filter(|b| b.life != Life::Freed)?;
        if block.bytes.is_empty() {
            block.bytes = vec![FRESH; index(block.len)];
        }
        let at = index(address - block.start);
        block.bytes.get_mut(at..at + index(len))
    }

    /// Maps pinned memory.
    pub(crate) fn pin(&mut self, len: u64, flags: u32) -> Result<u64, Code> {
        let start = host::map(len).ok_or(Code::OUT_OF_MEMORY)?;
        self.note_host(start, len, flags, false);
        Ok(start)
    }

    pub(crate) fn note_host(&mut self, start: u64, len: u64, flags: u32, registered: bool) {
        let history = History::default();
        self.hosts.insert(start, HostRange { start, len, flags, registered, freed: false, history });
    }

    /// Makes pinned memory inaccessible; the range keeps saying that it was freed.
    pub(crate) fn unpin(&mut self, start: u64) {
        if let Some(range) = self.hosts.get_mut(&start) {
            range.freed = true;
            host::seal(start, range.len);
        }
    }
}

/// An offset inside of a block as an index.
fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a block lies in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_aligned_apart_and_never_used_twice() {
        let mut memory = Memory::new(2);
        let a = memory.reserve(0, 10, None).expect("room");
        let b = memory.reserve(0, 10, None).expect("room");
        let other = memory.reserve(1, 10, None).expect("room");
        assert!(a.is_multiple_of(512) && b > a + 10 && other >= BASE + SPAN);
        assert_eq!(memory.release(a), Some((10, None)));
        let c = memory.reserve(0, 10, None).expect("room");
        assert!(c > b);
        assert_eq!(
            (memory.device_of(b), memory.device_of(other), memory.device_of(7)),
            (Some(0), Some(1), None)
        );
        assert_eq!((memory.used[0], memory.used[1]), (20, 10));
    }

    #[test]
    fn fresh_and_freed_bytes_are_poison() {
        let mut memory = Memory::new(1);
        let a = memory.reserve(0, 100, None).expect("room");
        let mut out = [0; 3];
        memory.read(a, &mut out);
        assert_eq!(out, [FRESH; 3]);
        memory.bytes_mut(a + 1, 1).expect("live")[0] = 5;
        memory.read(a, &mut out);
        assert_eq!(out, [FRESH, 5, FRESH]);
        assert!(memory.release(a).is_some() && memory.release(a).is_none());
        memory.read(a, &mut out);
        assert_eq!(out, [FREED; 3]);
        assert!(memory.bytes_mut(a, 1).is_none());
    }
}
