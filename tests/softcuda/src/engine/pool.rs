//! Memory pools: those of the devices, and those that are made.
//!
//! A pool keeps what is freed until a synchronisation finds that it holds more than its release threshold. What it keeps
//! nobody else has, other pools least of all.

use std::collections::BTreeSet;

use crate::code::Code;

use super::device::{handle_id, handle_of};
use super::{Engine, Needs, Session};

const POOL: u64 = 0x5400_0000_0000;

/// The attribute that is the release threshold.
const THRESHOLD: usize = 3;

/// A pool of a device's memory.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    /// The device's own, which is never destroyed.
    is_default: bool,
    is_gone: bool,
    /// Three flags of reuse, and the release threshold.
    values: [u64; 4],
    /// Devices beside its own whose kernels may touch its memory.
    pub(crate) guests: BTreeSet<usize>,
    /// Bytes in use, and bytes that are kept for the next allocations.
    live: u64,
    kept: u64,
}

impl Pool {
    pub(crate) fn new(device: usize, is_default: bool) -> Pool {
        let (values, guests) = ([1, 1, 1, 0], BTreeSet::new());
        Pool { device, is_default, is_gone: false, values, guests, live: 0, kept: 0 }
    }

    /// Gives back what is kept beyond `bytes` in all.
    fn trim(&mut self, bytes: u64) {
        self.kept = self.kept.min(bytes.saturating_sub(self.live));
    }

    /// What a synchronisation, or a lack of memory, makes it give back.
    fn settle(&mut self) {
        self.trim(self.values[THRESHOLD]);
    }

    /// In words, where it was made and not destroyed.
    pub(crate) fn left(&self) -> Option<String> {
        (!self.is_default && !self.is_gone).then(|| format!("a pool of device {}", self.device))
    }
}

impl Session<'_> {
    pub(crate) fn pool(&self, handle: u64) -> Result<usize, Code> {
        let known =
            handle_id(handle, POOL).filter(|id| self.pools.get(*id).is_some_and(|pool| !pool.is_gone));
        known.ok_or(Code::INVALID_VALUE)
    }

    /// Bytes that the pools of a device keep.
    pub(crate) fn kept(&self, device: usize) -> u64 {
        self.pools.iter().filter(|pool| pool.device == device).map(|pool| pool.kept).sum()
    }

    /// Whether `len` bytes more fit on a device, for a pool or for nobody's; what is asked of the system is counted.
    pub(crate) fn fits(&mut self, device: usize, len: u64, pool: Option<usize>) -> bool {
        let of_pool = pool.map_or(0, |id| self.pools[id].kept.min(len));
        let room = |s: &Self| s.config.memory.saturating_sub(s.memory.used[device] + s.kept(device));
        if room(self) < len - of_pool {
            self.settle_pools(device);
        }
        // The settled pool may keep less.
        let of_pool = pool.map_or(0, |id| self.pools[id].kept.min(len));
        if room(self) < len - of_pool {
            return false;
        }
        if let Some(id) = pool {
            self.pools[id].kept -= of_pool;
            self.pools[id].live += len;
            self.mapped += u64::from(of_pool < len);
        }
        true
    }

    /// A block of a pool is freed.
    pub(crate) fn back_to_pool(&mut self, id: usize, len: u64) {
        let pool = &mut self.pools[id];
        pool.live -= len;
        if !pool.is_gone {
            pool.kept += len;
        }
    }

    /// The host has waited: pools that hold more than they are to give it back.
    pub(crate) fn settle_pools(&mut self, device: usize) {
        self.pools.iter_mut().filter(|pool| pool.device == device).for_each(Pool::settle);
    }

    fn has_pools(&self) -> Result<(), Code> {
        if self.config.pools { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
    }
}

impl Engine {
    pub(crate) fn default_pool(&self, call: &'static str, device: i32) -> Result<u64, Code> {
        self.call(call, Needs::Init, |s| {
            s.has_pools()?;
            s.ordinal(device).map(|d| handle_of(d, POOL))
        })
    }

    /// Only a device's own pool can be made its current one.
    pub(crate) fn set_pool(&self, device: i32, pool: u64) -> Result<(), Code> {
        self.call("cuDeviceSetMemPool", Needs::Init, |s| {
            let device = s.ordinal(device)?;
            if s.pool(pool)? == device { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
        })
    }

    pub(crate) fn create_pool(&self, device: i32) -> Result<u64, Code> {
        self.call("cuMemPoolCreate", Needs::Init, |s| {
            s.has_pools()?;
            let device = s.ordinal(device)?;
            s.pools.push(Pool::new(device, false));
            Ok(handle_of(s.pools.len() - 1, POOL))
        })
    }

    /// What is in use stays until it is freed, and is then kept by nobody.
    pub(crate) fn destroy_pool(&self, pool: u64) -> Result<(), Code> {
        self.call("cuMemPoolDestroy", Needs::Init, |s| {
            let id = s.pool(pool)?;
            let pool = &mut s.pools[id];
            if pool.is_default {
                return Err(Code::INVALID_VALUE);
            }
            (pool.is_gone, pool.kept) = (true, 0);
            Ok(())
        })
    }

    pub(crate) fn trim_pool(&self, pool: u64, bytes: u64) -> Result<(), Code> {
        self.call("cuMemPoolTrimTo", Needs::Init, |s| {
            let id = s.pool(pool)?;
            s.pools[id].trim(bytes);
            Ok(())
        })
    }

    /// Reuse flags (1 to 3) and the release threshold (4) are kept; reserved (5, 6) and used bytes (7, 8) are counted.
    pub(crate) fn pool_value(&self, pool: u64, attribute: u32) -> Result<u64, Code> {
        self.call("cuMemPoolGetAttribute", Needs::Init, |s| {
            let pool = &s.pools[s.pool(pool)?];
            match attribute {
                1..=4 => Ok(pool.values[attribute as usize - 1]),
                5 | 6 => Ok(pool.live + pool.kept),
                7 | 8 => Ok(pool.live),
                _ => Err(Code::INVALID_VALUE),
            }
        })
    }

    pub(crate) fn set_pool_value(&self, pool: u64, attribute: u32, value: u64) -> Result<(), Code> {
        self.call("cuMemPoolSetAttribute", Needs::Init, |s| {
            let id = s.pool(pool)?;
            match attribute {
                1..=4 => s.pools[id].values[attribute as usize - 1] = value,
                6 | 8 if value == 0 => {}
                _ => return Err(Code::INVALID_VALUE),
            }
            Ok(())
        })
    }

    /// Devices whose kernels may touch a pool's memory.
    pub(crate) fn set_pool_access(&self, pool: u64, grants: &[(i32, u32)]) -> Result<(), Code> {
        self.call("cuMemPoolSetAccess", Needs::Init, |s| {
            let id = s.pool(pool)?;
            let owner = s.pools[id].device;
            for (device, access) in grants {
                let device = s.ordinal(*device)?;
                match access {
                    // 0 takes the right away, 3 gives reading and writing; a device keeps its own memory.
                    0 if device == owner => return Err(Code::INVALID_DEVICE),
                    0 => {
                        s.pools[id].guests.remove(&device);
                    }
                    1 | 3 if !s.config.peers && device != owner => return Err(Code::INVALID_DEVICE),
                    1 | 3 => {
                        s.pools[id].guests.insert(device);
                    }
                    _ => return Err(Code::INVALID_VALUE),
                }
            }
            Ok(())
        })
    }
}
