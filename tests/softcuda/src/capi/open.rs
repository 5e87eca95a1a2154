//! Versions, devices, contexts, peers, error texts.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_P2PAttribute, CUdevice_attribute, CUdriverProcAddressQueryResult, CUresult,
    CUuuid, cuuint64_t,
};

use super::{engine, exports, find};
use crate::code::Code;
use crate::engine::Needs;

/// The number of a device in each of the 16 bytes after a fixed beginning.
fn uuid(device: usize) -> CUuuid {
    let mut bytes = *b"softcuda\0\0\0\0\0\0\0\0";
    bytes[15] = u8::try_from(device).unwrap_or(u8::MAX);
    CUuuid { bytes: bytes.map(|b| c_char::from_ne_bytes([b])) }
}

/// What a name means in a version: newer drivers have a second entry for elapsed times, which takes and answers the same, and which
/// older ones do not export.
fn newer(name: &str, version: c_int) -> &str {
    match name {
        "cuEventElapsedTime_v2" if version >= 12080 => "cuEventElapsedTime",
        name => name,
    }
}

exports! {
    fn cuInit(flags: c_uint) {
        engine().init(flags)
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        version.writable()?;
        version.set(engine().version()?)
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        count.writable()?;
        count.set(engine().device_count()?)
    }

    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) {
        device.writable()?;
        device.set(engine().device_get(ordinal)?)
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice) {
        let device = engine().device_call("cuDeviceGetName", dev)?;
        name.set_text(&format!("software device {device}"), len)
    }

    fn cuDeviceGetUuid(out: *mut CUuuid, dev: CUdevice) {
        out.writable()?;
        out.set(uuid(engine().device_call("cuDeviceGetUuid", dev)?))
    }

    fn cuDeviceGetUuid_v2(out: *mut CUuuid, dev: CUdevice) {
        out.writable()?;
        out.set(uuid(engine().device_call("cuDeviceGetUuid_v2", dev)?))
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) {
        bytes.writable()?;
        bytes.set(usize::try_from(engine().device_memory(dev)?).map_err(|_| Code::UNKNOWN)?)
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, dev: CUdevice) {
        value.writable()?;
        value.set(engine().device_attribute(attribute, dev)?)
    }

    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, dev: CUdevice) {
        context.writable()?;
        context.set_handle(engine().retain(dev)?)
    }

    fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) {
        engine().release(dev)
    }

    fn cuCtxGetCurrent(context: *mut CUcontext) {
        context.writable()?;
        context.set_handle(engine().get_current()?)
    }

    fn cuCtxSetCurrent(context: CUcontext) {
        engine().set_current(context.number())
    }

    fn cuCtxGetDevice(device: *mut CUdevice) {
        device.writable()?;
        device.set(engine().current_device()?)
    }

    fn cuCtxSetFlags(flags: c_uint) {
        engine().context_flags(flags)
    }

    fn cuCtxSynchronize() {
        engine().synchronize()
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, dev: CUdevice, peer: CUdevice) {
        can.writable()?;
        can.set(c_int::from(engine().can_access_peer(dev, peer)?))
    }

    fn cuDeviceGetP2PAttribute(value: *mut c_int, attribute: CUdevice_P2PAttribute, from: CUdevice, to: CUdevice) {
        value.writable()?;
        value.set(engine().peer_attribute(attribute, from, to)?)
    }

    fn cuCtxEnablePeerAccess(context: CUcontext, flags: c_uint) {
        engine().enable_peer(context.number(), flags)
    }

    fn cuCtxDisablePeerAccess(context: CUcontext) {
        engine().disable_peer(context.number())
    }

    fn cuGetErrorName(error: CUresult, text: *mut *const c_char) {
        let name = engine().call("cuGetErrorName", Needs::Nothing, |_| Ok(Code(error).name()))?;
        text.set(name.map_or(ptr::null(), |n| n.as_ptr()))?;
        name.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    fn cuGetErrorString(error: CUresult, text: *mut *const c_char) {
        let words = engine().call("cuGetErrorString", Needs::Nothing, |_| Ok(Code(error).text()))?;
        text.set(words.map_or(ptr::null(), |w| w.as_ptr()))?;
        words.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: cuuint64_t,
        status: *mut CUdriverProcAddressQueryResult,
    ) {
        function.writable()?;
        let name = symbol.text()?.to_str().map_err(|_| Code::INVALID_VALUE)?;
        let reported = engine().call("cuGetProcAddress_v2", Needs::Nothing, |s| {
            // Legacy (1) and per-thread (2) default streams are the only flags.
            if version < 0 || flags > 2 { Err(Code::INVALID_VALUE) } else { Ok(s.config.version) }
        })?;
        let found = find(newer(name, version.min(reported)));
        status.set_if_wanted(match found {
            Some(_) => CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS,
            None => CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
        });
        function.set(found.unwrap_or(ptr::null_mut()))
    }
}
