//! Copies and memset.

use std::ffi::{c_uchar, c_void};

use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUstream};

use super::{engine, exports};
use crate::engine::Way;

exports! {
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, len: usize, stream: CUstream) {
        let (way, from) = (Way::HostToDevice, from.address());
        engine().copy_async("cuMemcpyHtoDAsync_v2", way, to, from, len as u64, stream.number())
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, len: usize, stream: CUstream) {
        let (way, to) = (Way::DeviceToHost, to.address());
        engine().copy_async("cuMemcpyDtoHAsync_v2", way, to, from, len as u64, stream.number())
    }

    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, len: usize, stream: CUstream) {
        engine().copy_async("cuMemcpyDtoDAsync_v2", Way::DeviceToDevice, to, from, len as u64, stream.number())
    }

    fn cuMemcpyPeerAsync(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        len: usize,
        stream: CUstream,
    ) {
        let (to, from) = ((to, to_context.number()), (from, from_context.number()));
        engine().copy_peer(to, from, len as u64, stream.number())
    }

    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, len: usize) {
        engine().copy_now("cuMemcpyHtoD_v2", Way::HostToDevice, to, from.address(), len as u64)
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, len: usize) {
        engine().copy_now("cuMemcpyDtoH_v2", Way::DeviceToHost, to.address(), from, len as u64)
    }

    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, len: usize) {
        engine().copy_now("cuMemcpyDtoD_v2", Way::DeviceToDevice, to, from, len as u64)
    }

    fn cuMemsetD8Async(to: CUdeviceptr, byte: c_uchar, len: usize, stream: CUstream) {
        engine().fill_async(to, byte, len as u64, stream.number())
    }

    fn cuMemsetD8_v2(to: CUdeviceptr, byte: c_uchar, len: usize) {
        engine().fill_now(to, byte, len as u64)
    }
}
