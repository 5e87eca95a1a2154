//! What calls answer: plain integers, each of which cudarc's enum has.

use std::ffi::CStr;

use cudarc::driver::sys::CUresult;
use serde::{Deserialize, Serialize};

/// An error of the driver. Success is `Ok`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($short:ident $variant:ident $name:literal $text:literal;)*) => {
        /// Every code of the bindings: number, name, text.
        const TABLE: &[(u32, &CStr, &CStr)] = &[$((CUresult::$variant as u32, $name, $text)),*];

        impl Code {
            $(#[doc = stringify!($variant)] pub const $short: Code = Code(CUresult::$variant as u32);)*
        }
    };
}

impl Code {
    fn entry(self) -> Option<&'static (u32, &'static CStr, &'static CStr)> {
        TABLE.iter().find(|(number, ..)| *number == self.0)
    }

    /// The name of the code, or `None` where the bindings have none.
    #[must_use]
    pub fn name(self) -> Option<&'static CStr> {
        self.entry().map(|(_, name, _)| *name)
    }

    /// What it means, in the driver's words.
    #[must_use]
    pub fn text(self) -> Option<&'static CStr> {
        self.entry().map(|(_, _, text)| *text)
    }
}

codes! {
    SUCCESS CUDA_SUCCESS c"CUDA_SUCCESS" c"no error";
    INVALID_VALUE CUDA_ERROR_INVALID_VALUE c"CUDA_ERROR_INVALID_VALUE" c"invalid argument";
    OUT_OF_MEMORY CUDA_ERROR_OUT_OF_MEMORY c"CUDA_ERROR_OUT_OF_MEMORY" c"out of memory";
    NOT_INITIALIZED CUDA_ERROR_NOT_INITIALIZED c"CUDA_ERROR_NOT_INITIALIZED" c"initialization error";
    DEINITIALIZED CUDA_ERROR_DEINITIALIZED c"CUDA_ERROR_DEINITIALIZED" c"driver shutting down";
    PROFILER_DISABLED CUDA_ERROR_PROFILER_DISABLED c"CUDA_ERROR_PROFILER_DISABLED" c"profiler disabled while using external profiling tool";
    PROFILER_NOT_INITIALIZED CUDA_ERROR_PROFILER_NOT_INITIALIZED c"CUDA_ERROR_PROFILER_NOT_INITIALIZED" c"profiler not initialized: call cudaProfilerInitialize()";
    PROFILER_ALREADY_STARTED CUDA_ERROR_PROFILER_ALREADY_STARTED c"CUDA_ERROR_PROFILER_ALREADY_STARTED" c"profiler already started";
    PROFILER_ALREADY_STOPPED CUDA_ERROR_PROFILER_ALREADY_STOPPED c"CUDA_ERROR_PROFILER_ALREADY_STOPPED" c"profiler already stopped";
    STUB_LIBRARY CUDA_ERROR_STUB_LIBRARY c"CUDA_ERROR_STUB_LIBRARY" c"CUDA driver is a stub library";
    NO_DEVICE CUDA_ERROR_NO_DEVICE c"CUDA_ERROR_NO_DEVICE" c"no CUDA-capable device is detected";
    INVALID_DEVICE CUDA_ERROR_INVALID_DEVICE c"CUDA_ERROR_INVALID_DEVICE" c"invalid device ordinal";
    DEVICE_NOT_LICENSED CUDA_ERROR_DEVICE_NOT_LICENSED c"CUDA_ERROR_DEVICE_NOT_LICENSED" c"device doesn't have valid Grid license";
    INVALID_IMAGE CUDA_ERROR_INVALID_IMAGE c"CUDA_ERROR_INVALID_IMAGE" c"device kernel image is invalid";
    INVALID_CONTEXT CUDA_ERROR_INVALID_CONTEXT c"CUDA_ERROR_INVALID_CONTEXT" c"invalid device context";
    CONTEXT_ALREADY_CURRENT CUDA_ERROR_CONTEXT_ALREADY_CURRENT c"CUDA_ERROR_CONTEXT_ALREADY_CURRENT" c"context already current";
    MAP_FAILED CUDA_ERROR_MAP_FAILED c"CUDA_ERROR_MAP_FAILED" c"mapping of buffer object failed";
    UNMAP_FAILED CUDA_ERROR_UNMAP_FAILED c"CUDA_ERROR_UNMAP_FAILED" c"unmapping of buffer object failed";
    ARRAY_IS_MAPPED CUDA_ERROR_ARRAY_IS_MAPPED c"CUDA_ERROR_ARRAY_IS_MAPPED" c"array is mapped";
    ALREADY_MAPPED CUDA_ERROR_ALREADY_MAPPED c"CUDA_ERROR_ALREADY_MAPPED" c"resource already mapped";
    NO_BINARY_FOR_GPU CUDA_ERROR_NO_BINARY_FOR_GPU c"CUDA_ERROR_NO_BINARY_FOR_GPU" c"no kernel image is available for execution on the device";
    ALREADY_ACQUIRED CUDA_ERROR_ALREADY_ACQUIRED c"CUDA_ERROR_ALREADY_ACQUIRED" c"resource already acquired";
    NOT_MAPPED CUDA_ERROR_NOT_MAPPED c"CUDA_ERROR_NOT_MAPPED" c"resource not mapped";
    NOT_MAPPED_AS_ARRAY CUDA_ERROR_NOT_MAPPED_AS_ARRAY c"CUDA_ERROR_NOT_MAPPED_AS_ARRAY" c"resource not mapped as array";
    NOT_MAPPED_AS_POINTER CUDA_ERROR_NOT_MAPPED_AS_POINTER c"CUDA_ERROR_NOT_MAPPED_AS_POINTER" c"resource not mapped as pointer";
    ECC_UNCORRECTABLE CUDA_ERROR_ECC_UNCORRECTABLE c"CUDA_ERROR_ECC_UNCORRECTABLE" c"uncorrectable ECC error encountered";
    UNSUPPORTED_LIMIT CUDA_ERROR_UNSUPPORTED_LIMIT c"CUDA_ERROR_UNSUPPORTED_LIMIT" c"limit is not supported on this architecture";
    CONTEXT_ALREADY_IN_USE CUDA_ERROR_CONTEXT_ALREADY_IN_USE c"CUDA_ERROR_CONTEXT_ALREADY_IN_USE" c"exclusive-thread device already in use by a different thread";
    PEER_ACCESS_UNSUPPORTED CUDA_ERROR_PEER_ACCESS_UNSUPPORTED c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" c"peer access is not supported between these two devices";
    INVALID_PTX CUDA_ERROR_INVALID_PTX c"CUDA_ERROR_INVALID_PTX" c"a PTX JIT compilation failed";
    INVALID_GRAPHICS_CONTEXT CUDA_ERROR_INVALID_GRAPHICS_CONTEXT c"CUDA_ERROR_INVALID_GRAPHICS_CONTEXT" c"invalid OpenGL or DirectX context";
    NVLINK_UNCORRECTABLE CUDA_ERROR_NVLINK_UNCORRECTABLE c"CUDA_ERROR_NVLINK_UNCORRECTABLE" c"uncorrectable NVLink error detected during the execution";
    JIT_COMPILER_NOT_FOUND CUDA_ERROR_JIT_COMPILER_NOT_FOUND c"CUDA_ERROR_JIT_COMPILER_NOT_FOUND" c"PTX JIT compiler library not found";
    UNSUPPORTED_PTX_VERSION CUDA_ERROR_UNSUPPORTED_PTX_VERSION c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION" c"the provided PTX was compiled with an unsupported toolchain.";
    JIT_COMPILATION_DISABLED CUDA_ERROR_JIT_COMPILATION_DISABLED c"CUDA_ERROR_JIT_COMPILATION_DISABLED" c"PTX JIT compilation was disabled";
    UNSUPPORTED_EXEC_AFFINITY CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY c"CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY" c"the provided execution affinity is not supported";
    INVALID_SOURCE CUDA_ERROR_INVALID_SOURCE c"CUDA_ERROR_INVALID_SOURCE" c"device kernel image is invalid";
    FILE_NOT_FOUND CUDA_ERROR_FILE_NOT_FOUND c"CUDA_ERROR_FILE_NOT_FOUND" c"file not found";
    SHARED_OBJECT_SYMBOL_NOT_FOUND CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND c"CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND" c"shared object symbol not found";
    SHARED_OBJECT_INIT_FAILED CUDA_ERROR_SHARED_OBJECT_INIT_FAILED c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED" c"shared object initialization failed";
    OPERATING_SYSTEM CUDA_ERROR_OPERATING_SYSTEM c"CUDA_ERROR_OPERATING_SYSTEM" c"OS call failed or operation not supported on this OS";
    INVALID_HANDLE CUDA_ERROR_INVALID_HANDLE c"CUDA_ERROR_INVALID_HANDLE" c"invalid resource handle";
    ILLEGAL_STATE CUDA_ERROR_ILLEGAL_STATE c"CUDA_ERROR_ILLEGAL_STATE" c"the operation cannot be performed in the present state";
    NOT_FOUND CUDA_ERROR_NOT_FOUND c"CUDA_ERROR_NOT_FOUND" c"named symbol not found";
    NOT_READY CUDA_ERROR_NOT_READY c"CUDA_ERROR_NOT_READY" c"device not ready";
    ILLEGAL_ADDRESS CUDA_ERROR_ILLEGAL_ADDRESS c"CUDA_ERROR_ILLEGAL_ADDRESS" c"an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" c"too many resources requested for launch";
    LAUNCH_TIMEOUT CUDA_ERROR_LAUNCH_TIMEOUT c"CUDA_ERROR_LAUNCH_TIMEOUT" c"the launch timed out and was terminated";
    LAUNCH_INCOMPATIBLE_TEXTURING CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING c"CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING" c"launch uses incompatible texturing mode";
    PEER_ACCESS_ALREADY_ENABLED CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" c"peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED CUDA_ERROR_PEER_ACCESS_NOT_ENABLED c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" c"peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE" c"cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED CUDA_ERROR_CONTEXT_IS_DESTROYED c"CUDA_ERROR_CONTEXT_IS_DESTROYED" c"context is destroyed";
    ASSERT CUDA_ERROR_ASSERT c"CUDA_ERROR_ASSERT" c"device-side assert triggered";
    TOO_MANY_PEERS CUDA_ERROR_TOO_MANY_PEERS c"CUDA_ERROR_TOO_MANY_PEERS" c"peer mapping resources exhausted";
    HOST_MEMORY_ALREADY_REGISTERED CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" c"part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" c"pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR CUDA_ERROR_HARDWARE_STACK_ERROR c"CUDA_ERROR_HARDWARE_STACK_ERROR" c"hardware stack error";
    ILLEGAL_INSTRUCTION CUDA_ERROR_ILLEGAL_INSTRUCTION c"CUDA_ERROR_ILLEGAL_INSTRUCTION" c"an illegal instruction was encountered";
    MISALIGNED_ADDRESS CUDA_ERROR_MISALIGNED_ADDRESS c"CUDA_ERROR_MISALIGNED_ADDRESS" c"misaligned address";
    INVALID_ADDRESS_SPACE CUDA_ERROR_INVALID_ADDRESS_SPACE c"CUDA_ERROR_INVALID_ADDRESS_SPACE" c"operation not supported on global/shared address space";
    INVALID_PC CUDA_ERROR_INVALID_PC c"CUDA_ERROR_INVALID_PC" c"invalid program counter";
    LAUNCH_FAILED CUDA_ERROR_LAUNCH_FAILED c"CUDA_ERROR_LAUNCH_FAILED" c"unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" c"too many blocks in cooperative launch";
    NOT_PERMITTED CUDA_ERROR_NOT_PERMITTED c"CUDA_ERROR_NOT_PERMITTED" c"operation not permitted";
    NOT_SUPPORTED CUDA_ERROR_NOT_SUPPORTED c"CUDA_ERROR_NOT_SUPPORTED" c"operation not supported";
    SYSTEM_NOT_READY CUDA_ERROR_SYSTEM_NOT_READY c"CUDA_ERROR_SYSTEM_NOT_READY" c"system not yet initialized";
    SYSTEM_DRIVER_MISMATCH CUDA_ERROR_SYSTEM_DRIVER_MISMATCH c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" c"system has unsupported display driver / cuda driver combination";
    COMPAT_NOT_SUPPORTED_ON_DEVICE CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE c"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE" c"forward compatibility was attempted on non supported HW";
    MPS_CONNECTION_FAILED CUDA_ERROR_MPS_CONNECTION_FAILED c"CUDA_ERROR_MPS_CONNECTION_FAILED" c"MPS client failed to connect to the MPS control daemon or the MPS server";
    MPS_RPC_FAILURE CUDA_ERROR_MPS_RPC_FAILURE c"CUDA_ERROR_MPS_RPC_FAILURE" c"the remote procedural call between the MPS server and the MPS client failed";
    MPS_SERVER_NOT_READY CUDA_ERROR_MPS_SERVER_NOT_READY c"CUDA_ERROR_MPS_SERVER_NOT_READY" c"MPS server is not ready to accept new MPS client requests";
    MPS_MAX_CLIENTS_REACHED CUDA_ERROR_MPS_MAX_CLIENTS_REACHED c"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED" c"the hardware resources required to create MPS client have been exhausted";
    MPS_MAX_CONNECTIONS_REACHED CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED c"CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED" c"the hardware resources required to support device connections have been exhausted";
    STREAM_CAPTURE_UNSUPPORTED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" c"operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED CUDA_ERROR_STREAM_CAPTURE_INVALIDATED c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" c"operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE CUDA_ERROR_STREAM_CAPTURE_MERGE c"CUDA_ERROR_STREAM_CAPTURE_MERGE" c"operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED CUDA_ERROR_STREAM_CAPTURE_UNMATCHED c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" c"capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED CUDA_ERROR_STREAM_CAPTURE_UNJOINED c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED" c"capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION CUDA_ERROR_STREAM_CAPTURE_ISOLATION c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION" c"dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT CUDA_ERROR_STREAM_CAPTURE_IMPLICIT c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" c"operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT CUDA_ERROR_CAPTURED_EVENT c"CUDA_ERROR_CAPTURED_EVENT" c"operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" c"attempt to terminate a thread-local capture sequence from another thread";
    TIMEOUT CUDA_ERROR_TIMEOUT c"CUDA_ERROR_TIMEOUT" c"wait operation timed out";
    GRAPH_EXEC_UPDATE_FAILURE CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" c"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    EXTERNAL_DEVICE CUDA_ERROR_EXTERNAL_DEVICE c"CUDA_ERROR_EXTERNAL_DEVICE" c"an async error has occured in external entity outside of CUDA";
    UNKNOWN CUDA_ERROR_UNKNOWN c"CUDA_ERROR_UNKNOWN" c"unknown error";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_codes_have_texts_and_others_have_none() {
        assert_eq!(Code::INVALID_VALUE.name(), Some(c"CUDA_ERROR_INVALID_VALUE"));
        assert_eq!(Code::NO_DEVICE.text(), Some(c"no CUDA-capable device is detected"));
        for (number, name, _) in TABLE {
            assert_eq!(Code(*number).name(), Some(*name), "a number stands twice in the table");
        }
        assert_eq!((Code(12345).name(), Code(12345).text()), (None, None));
    }
}
