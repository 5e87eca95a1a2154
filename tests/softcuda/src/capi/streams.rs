//! Streams, events, host functions.

use std::ffi::{c_int, c_uint, c_void};

use cudarc::driver::sys::{CUevent, CUhostFn, CUstream};

use super::{engine, exports};
use crate::code::Code;
use crate::engine::{Callback, Needs};

exports! {
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) {
        stream.writable()?;
        stream.set_handle(engine().stream_create("cuStreamCreate", flags)?)
    }

    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, _priority: c_int) {
        stream.writable()?;
        stream.set_handle(engine().stream_create("cuStreamCreateWithPriority", flags)?)
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        engine().call("cuCtxGetStreamPriorityRange", Needs::Context, |_| Ok(()))?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(-5);
        Ok(())
    }

    fn cuStreamDestroy_v2(stream: CUstream) {
        engine().stream_destroy(stream.number())
    }

    fn cuStreamSynchronize(stream: CUstream) {
        engine().stream_synchronize(stream.number())
    }

    fn cuStreamQuery(stream: CUstream) {
        engine().stream_query(stream.number())
    }

    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        engine().stream_wait(stream.number(), event.number(), flags)
    }

    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let data = usize::try_from(data.address()).map_err(|_| Code::UNKNOWN)?;
        engine().launch_host(stream.number(), Callback::C(function, data))
    }

    fn cuEventCreate(event: *mut CUevent, flags: c_uint) {
        event.writable()?;
        event.set_handle(engine().event_create(flags)?)
    }

    fn cuEventDestroy_v2(event: CUevent) {
        engine().event_destroy(event.number())
    }

    fn cuEventRecord(event: CUevent, stream: CUstream) {
        engine().event_record(event.number(), stream.number())
    }

    fn cuEventQuery(event: CUevent) {
        engine().event_query(event.number())
    }

    fn cuEventSynchronize(event: CUevent) {
        engine().event_synchronize(event.number())
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        milliseconds.writable()?;
        milliseconds.set(engine().event_elapsed(start.number(), end.number())?)
    }
}
