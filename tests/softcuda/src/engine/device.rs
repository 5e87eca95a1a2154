//! Devices, their primary contexts, and what they say of themselves.

use std::collections::BTreeSet;

use crate::code::Code;

use super::memory::Life;
use super::{Engine, Needs, Session};

/// A handle of a context is this plus the ordinal of its device.
const CONTEXT: u64 = 0x5300_0000_0000;
const STEP: u64 = 0x100;

/// The first number that no attribute has, in the declarations that this is built against.
const NO_ATTRIBUTE: u32 = cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX as u32;

/// One virtual device.
#[derive(Debug)]
pub(crate) struct Device {
    /// How often its primary context is retained.
    pub(crate) retained: u32,
    /// The error that every call answers from now on.
    pub(crate) sticky: Option<Code>,
    /// The error that the next synchronisation answers.
    pub(crate) passing: Option<Code>,
    /// Devices whose memory its kernels may touch.
    pub(crate) peers: BTreeSet<usize>,
    pub(crate) legacy: usize,
    pub(crate) flags: u32,
}

impl Device {
    pub(crate) fn new(legacy: usize) -> Device {
        Device { retained: 0, sticky: None, passing: None, peers: BTreeSet::new(), legacy, flags: 0 }
    }
}

/// The handle of a device's primary context.
pub(crate) fn context_handle(device: usize) -> u64 {
    CONTEXT + device as u64 * STEP
}

/// The id behind a handle made by adding steps to `base`; the range of ids is the caller's to check.
pub(crate) fn handle_id(handle: u64, base: u64) -> Option<usize> {
    let offset = handle.checked_sub(base)?;
    offset.is_multiple_of(STEP).then(|| usize::try_from(offset / STEP).ok()).flatten()
}

/// The handle of the thing `id` of the kind that starts at `base`.
pub(crate) fn handle_of(id: usize, base: u64) -> u64 {
    base + id as u64 * STEP
}

impl Session<'_> {
    /// The device of the calling thread's current context.
    pub(crate) fn current(&mut self) -> Result<usize, Code> {
        let thread = self.thread;
        let device = self.thread(thread).current.ok_or(Code::INVALID_CONTEXT)?;
        if self.devices[device].retained == 0 { Err(Code::CONTEXT_IS_DESTROYED) } else { Ok(device) }
    }

    /// The error that a lost device answers to everything.
    pub(crate) fn healthy(&self, device: usize) -> Result<(), Code> {
        self.devices[device].sticky.map_or(Ok(()), Err)
    }

    /// The error that waiting for a device's work reports.
    pub(crate) fn outcome(&mut self, device: usize) -> Result<(), Code> {
        self.healthy(device)?;
        self.devices[device].passing.take().map_or(Ok(()), Err)
    }

    pub(crate) fn ordinal(&self, ordinal: i32) -> Result<usize, Code> {
        usize::try_from(ordinal).ok().filter(|o| *o < self.devices.len()).ok_or(Code::INVALID_DEVICE)
    }

    /// The device of a live context.
    pub(crate) fn context(&self, handle: u64) -> Result<usize, Code> {
        let device = handle_id(handle, CONTEXT).filter(|d| *d < self.devices.len());
        device.filter(|d| self.devices[*d].retained > 0).ok_or(Code::INVALID_CONTEXT)
    }

    fn attribute_value(&self, attribute: u32, device: usize) -> Result<i32, Code> {
        let number = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        Ok(match attribute {
            1..=3 => 1024,                    // threads of a block; block x and y
            4 => 64,                          // block z
            5 => i32::MAX,                    // grid x
            6 | 7 => 65535,                   // grid y and z
            8 => 49152,                       // shared memory of a block
            9 => 65536,                       // constant memory
            10 => 32,                         // warp
            11 => i32::MAX,                   // pitch
            12 | 82 => 65536,                 // registers
            14 => 512,                        // texture alignment
            15 | 19 | 31 | 41 | 78 | 99 => 1, // overlap, mapped host memory, concurrent kernels, unified addresses,
            // priorities, registration
            115 => i32::from(self.config.pools),
            16 => 4,                               // multiprocessors
            17 | 18 | 20 | 32 | 34 | 35 | 50 => 0, // timeout, integrated, compute mode, ECC, PCI device, TCC, PCI domain
            33 => number(device + 1),              // PCI bus
            39 => 2048,                            // threads of a multiprocessor
            40 => self.config.engines,
            75 => self.config.capability.0,
            76 => self.config.capability.1,
            81 | 97 => 65536, // shared memory of a multiprocessor, of a block that asks for it
            83 | 84 | 86 | 88 | 89 | 95 | 96 | 100 | 101 | 116 | 119 => 0, // managed memory, pageable access and their kin
            91 => 1, // host pointers of registered memory
            0 | NO_ATTRIBUTE.. => return Err(Code::INVALID_VALUE),
            _ => return Err(Code::NOT_SUPPORTED),
        })
    }

    /// Frees everything that belongs to a context, after its work is done.
    fn destroy_context(&mut self, device: usize) {
        self.drain_device(device);
        let legacy = self.devices[device].legacy;
        for (id, stream) in self.streams.iter_mut().enumerate() {
            stream.destroyed |= stream.device == device && id != legacy;
        }
        for event in self.events.iter_mut().filter(|e| e.device == device) {
            event.destroyed = true;
        }
        for module in self.modules.iter_mut().filter(|m| m.device == device) {
            module.unloaded = true;
        }
        let live = |b: &&super::memory::Block| b.device == device && b.life != Life::Freed;
        let starts: Vec<u64> = self.memory.blocks.values().filter(live).map(|b| b.start).collect();
        let lost = self.leaked_blocks(device);
        self.left_behind.extend(lost);
        for start in starts {
            self.release(start);
        }
        let Device { legacy, sticky, .. } = self.devices[device];
        // What lost the device left the process as it is: a new context helps nobody.
        self.devices[device] = Device { sticky, ..Device::new(legacy) };
    }
}

impl Engine {
    pub(crate) fn init(&self, flags: u32) -> Result<(), Code> {
        self.call("cuInit", Needs::Nothing, |s| {
            if flags != 0 {
                return Err(Code::INVALID_VALUE);
            }
            if s.devices.is_empty() {
                return Err(Code::NO_DEVICE);
            }
            s.initialised = true;
            Ok(())
        })
    }

    pub(crate) fn version(&self) -> Result<i32, Code> {
        self.call("cuDriverGetVersion", Needs::Nothing, |s| Ok(s.config.version))
    }

    pub(crate) fn device_count(&self) -> Result<i32, Code> {
        let count = |s: &mut Session<'_>| i32::try_from(s.devices.len()).map_err(|_| Code::UNKNOWN);
        self.call("cuDeviceGetCount", Needs::Init, count)
    }

    pub(crate) fn device_get(&self, ordinal: i32) -> Result<i32, Code> {
        self.call("cuDeviceGet", Needs::Init, |s| s.ordinal(ordinal).map(|_| ordinal))
    }

    /// A device that a call named by ordinal; the call needs `cuInit` alone.
    pub(crate) fn device_call(&self, call: &'static str, device: i32) -> Result<usize, Code> {
        self.call(call, Needs::Init, |s| s.ordinal(device))
    }

    pub(crate) fn device_memory(&self, device: i32) -> Result<u64, Code> {
        self.call("cuDeviceTotalMem_v2", Needs::Init, |s| s.ordinal(device).map(|_| s.config.memory))
    }

    pub(crate) fn device_attribute(&self, attribute: u32, device: i32) -> Result<i32, Code> {
        self.call("cuDeviceGetAttribute", Needs::Init, |s| {
            let device = s.ordinal(device)?;
            s.attribute_value(attribute, device)
        })
    }

    pub(crate) fn retain(&self, device: i32) -> Result<u64, Code> {
        self.call("cuDevicePrimaryCtxRetain", Needs::Init, |s| {
            let device = s.ordinal(device)?;
            s.healthy(device)?;
            if s.devices[device].retained == 0
                && let Some((code, _)) = s.due(|at| at == "context", device)
            {
                return Err(code);
            }
            s.devices[device].retained += 1;
            Ok(context_handle(device))
        })
    }

    pub(crate) fn release(&self, device: i32) -> Result<(), Code> {
        self.call("cuDevicePrimaryCtxRelease_v2", Needs::Init, |s| {
            let device = s.ordinal(device)?;
            match s.devices[device].retained {
                0 => return Err(Code::INVALID_CONTEXT),
                1 => s.destroy_context(device),
                more => s.devices[device].retained = more - 1,
            }
            Ok(())
        })
    }

    /// The handle of the current context, or 0.
    pub(crate) fn get_current(&self) -> Result<u64, Code> {
        self.call("cuCtxGetCurrent", Needs::Init, |s| {
            let thread = s.thread;
            Ok(s.thread(thread).current.map_or(0, context_handle))
        })
    }

    pub(crate) fn set_current(&self, handle: u64) -> Result<(), Code> {
        self.call("cuCtxSetCurrent", Needs::Init, |s| {
            let device = if handle == 0 { None } else { Some(s.context(handle)?) };
            let thread = s.thread;
            s.thread(thread).current = device;
            Ok(())
        })
    }

    pub(crate) fn current_device(&self) -> Result<i32, Code> {
        let device = |s: &mut Session<'_>| i32::try_from(s.current()?).map_err(|_| Code::UNKNOWN);
        self.call("cuCtxGetDevice", Needs::Init, device)
    }

    pub(crate) fn context_flags(&self, flags: u32) -> Result<(), Code> {
        self.call("cuCtxSetFlags", Needs::Context, |s| {
            // Four ways to wait (0, 1, 2, 4), mapped host memory (8), local memory kept (16).
            if flags & !0x1f != 0 {
                return Err(Code::INVALID_VALUE);
            }
            let device = s.device;
            s.devices[device].flags = flags;
            Ok(())
        })
    }

    pub(crate) fn synchronize(&self) -> Result<(), Code> {
        self.call("cuCtxSynchronize", Needs::Context, |s| {
            let device = s.device;
            s.trace_device_sync(device);
            s.join_device(device);
            s.settle_pools(device);
            s.outcome(device)
        })
    }

    pub(crate) fn can_access_peer(&self, device: i32, peer: i32) -> Result<bool, Code> {
        self.call("cuDeviceCanAccessPeer", Needs::Init, |s| {
            let (device, peer) = (s.ordinal(device)?, s.ordinal(peer)?);
            Ok(s.config.peers && device != peer)
        })
    }

    pub(crate) fn peer_attribute(&self, attribute: u32, from: i32, to: i32) -> Result<i32, Code> {
        self.call("cuDeviceGetP2PAttribute", Needs::Init, |s| {
            let (from, to) = (s.ordinal(from)?, s.ordinal(to)?);
            match attribute {
                _ if from == to => Err(Code::INVALID_DEVICE),
                1 | 3 | 4 => Ok(0),
                2 => Ok(i32::from(s.config.peers)),
                _ => Err(Code::INVALID_VALUE),
            }
        })
    }

    pub(crate) fn enable_peer(&self, context: u64, flags: u32) -> Result<(), Code> {
        self.call("cuCtxEnablePeerAccess", Needs::Context, |s| {
            let peer = s.context(context)?;
            let device = s.device;
            if flags != 0 {
                return Err(Code::INVALID_VALUE);
            }
            if peer == device {
                return Err(Code::INVALID_CONTEXT);
            }
            if !s.config.peers {
                return Err(Code::PEER_ACCESS_UNSUPPORTED);
            }
            let fresh = s.devices[device].peers.insert(peer);
            if fresh { Ok(()) } else { Err(Code::PEER_ACCESS_ALREADY_ENABLED) }
        })
    }

    pub(crate) fn disable_peer(&self, context: u64) -> Result<(), Code> {
        self.call("cuCtxDisablePeerAccess", Needs::Context, |s| {
            let peer = s.context(context)?;
            let device = s.device;
            let was = s.devices[device].peers.remove(&peer);
            if was { Ok(()) } else { Err(Code::PEER_ACCESS_NOT_ENABLED) }
        })
    }
}
