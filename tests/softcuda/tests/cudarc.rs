//! cudarc's own safe layer, unchanged, over two virtual devices.
#![expect(unsafe_code, reason = "cudarc asks for it where it takes uninitialised memory and C functions")]

use std::ffi::c_void;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, ThreadId};

use cudarc::driver::{CudaContext, DriverError, result, sys};
use spanlift_softcuda::{Config, Scheduler, kit};

/// Every scheduler that gives the same answer each time, and threads.
fn schedulers() -> Vec<Config> {
    let mut all = vec![Scheduler::Lazy, Scheduler::Eager, Scheduler::Threads(0), Scheduler::Threads(200)];
    all.extend((0..6).map(Scheduler::Seeded));
    all.into_iter().map(Config::under).collect()
}

#[test]
fn data_goes_up_across_and_home() {
    kit::alone(&schedulers(), |driver| {
        assert_eq!(CudaContext::device_count(), Ok(2));
        let (near, far) = (CudaContext::new(0).expect("device 0"), CudaContext::new(1).expect("device 1"));
        assert_eq!(near.compute_capability(), Ok((8, 0)));
        let (a, b) = (near.new_stream().expect("a stream"), far.new_stream().expect("a stream"));
        let data: Vec<u32> = (0..5000).collect();
        let up = a.clone_htod(&data).expect("up");
        let mut across = b.alloc_zeros::<u32>(5000).expect("room");
        b.memcpy_dtod(&up, &mut across).expect("across");
        let home = b.clone_dtoh(&across).expect("home");
        assert_eq!(home, data);
        drop((up, across));
        let report = driver.report();
        assert_eq!(report.calls.get("cuMemAllocAsync"), Some(&2));
        assert!(report.ops["copy"] >= 2, "{:?}", report.ops);
    });
}

#[test]
fn pinned_memory_events_and_host_functions() {
    kit::alone(&schedulers(), |_| {
        let context = CudaContext::new(0).expect("device 0");
        let (a, b) = (context.new_stream().expect("a stream"), context.new_stream().expect("a stream"));
        // SAFETY: written below before it is read.
        let mut pinned = unsafe { context.alloc_pinned::<u8>(4096) }.expect("pinned");
        pinned.as_mut_slice().expect("idle").fill(7);
        let mut device = a.alloc_zeros::<u8>(4096).expect("room");
        a.memcpy_htod(&pinned, &mut device).expect("up");
        let done = a.record_event(None).expect("an event");
        b.wait(&done).expect("waits");
        let (send, receive) = channel::<ThreadId>();
        let send = Box::into_raw(Box::new(send));
        // SAFETY: `tell` takes the box back, once.
        unsafe { result::stream::launch_host_function(b.cu_stream(), tell, send.cast()) }.expect("enqueued");
        b.synchronize().expect("b is done");
        assert_ne!(receive.recv().expect("it ran"), thread::current().id());
        assert_eq!(b.clone_dtoh(&device).expect("home"), vec![7; 4096]);
    });
}

unsafe extern "C" fn tell(send: *mut c_void) {
    // SAFETY: the box that was given to the launch, taken back once.
    let send = unsafe { Box::from_raw(send.cast::<Sender<ThreadId>>()) };
    send.send(thread::current().id()).expect("the test listens");
}

#[test]
fn errors_are_values() {
    kit::alone(&schedulers(), |_| {
        let code = |e: DriverError| e.0;
        assert_eq!(CudaContext::new(2).map_err(code).err(), Some(sys::CUresult::CUDA_ERROR_INVALID_DEVICE));
        let context = CudaContext::new(0).expect("device 0");
        let stream = context.default_stream();
        let much = stream.alloc_zeros::<u8>(9 << 30).map_err(code).err();
        assert_eq!(much, Some(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert_eq!(context.mem_get_info(), Ok((8 << 30, 8 << 30)));
        let text = sys::CUresult::CUDA_ERROR_NOT_READY;
        assert_eq!(DriverError(text).error_string(), Ok(c"device not ready"));
        assert_eq!(result::device::get(-1).map_err(code), Err(sys::CUresult::CUDA_ERROR_INVALID_DEVICE));
    });
}
