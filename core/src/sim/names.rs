//! What calls and work are called on the timeline.

use std::borrow::Cow;

use crate::program::{Alloc, AllocVia, Command, Copy, FreeVia, HostCost, Op, Program, Space};

pub(super) const STAGING: &str = "staging";
pub(super) const STAGING_WAIT: &str = "wait for staging";
pub(super) const QUEUE_FULL: &str = "launch queue full";

/// The call that a host thread makes.
pub(super) fn of_call(command: &Command) -> &'static str {
    match &command.op {
        Op::Kernel(_) => "cudaLaunchKernel",
        Op::Copy(Copy { sync: true, peer: true, .. }) => "cudaMemcpyPeer",
        Op::Copy(Copy { sync: false, peer: true, .. }) => "cudaMemcpyPeerAsync",
        Op::Copy(Copy { sync: true, .. }) => "cudaMemcpy",
        Op::Copy(_) => "cudaMemcpyAsync",
        Op::Memset { sync: true, .. } => "cudaMemset",
        Op::Memset { .. } => "cudaMemsetAsync",
        Op::HostFn { .. } => "cudaLaunchHostFunc",
        Op::Record { .. } => "cudaEventRecord",
        Op::Wait { .. } => "cudaStreamWaitEvent",
        Op::EventSync { .. } => "cudaEventSynchronize",
        Op::EventQuery { .. } => "cudaEventQuery",
        Op::StreamSync { .. } => "cudaStreamSynchronize",
        Op::StreamQuery { .. } => "cudaStreamQuery",
        Op::DeviceSync { .. } => "cudaDeviceSynchronize",
        Op::GraphLaunch { .. } => "cudaGraphLaunch",
        Op::Alloc(Alloc { via: AllocVia::MallocAsync, .. }) => "cudaMallocAsync",
        Op::Alloc(Alloc { via: AllocVia::Malloc, space: Space::Pinned, .. }) => "cudaHostAlloc",
        Op::Alloc(Alloc { via: AllocVia::Malloc, space: Space::Managed, .. }) => "cudaMallocManaged",
        Op::Alloc(Alloc { via: AllocVia::Malloc, .. }) => "cudaMalloc",
        Op::Alloc(_) => "allocate from a pool",
        Op::Free { via: FreeVia::Free, .. } => "cudaFree",
        Op::Free { via: FreeVia::FreeAsync, .. } => "cudaFreeAsync",
        Op::Free { via: FreeVia::HostFree, .. } => "cudaFreeHost",
        Op::Free { via: FreeVia::Unregister, .. } => "cudaHostUnregister",
        Op::Free { .. } => "free to a pool",
        Op::ThreadSpawn { .. } => "start",
        Op::ThreadJoin { .. } => "join",
        Op::Await { .. } => "await",
        // Managed memory that lies elsewhere.
        Op::HostRead { .. } | Op::HostWrite { .. } | Op::HostCopy { .. } => "page faults",
        op => op.name(),
    }
}

/// The work that a command asks for, of a stream or of its own thread.
pub(super) fn of_work(program: &Program, index: usize) -> Cow<'_, str> {
    let command = &program.commands()[index];
    let names = program.names();
    if let Some(label) = command.label.as_deref().filter(|l| !l.is_empty()) {
        return label.into();
    }
    match &command.op {
        Op::Copy(Copy { dst, src, .. }) | Op::HostCopy { dst, src } => {
            format!("{} from {}", names.buffer(dst.buffer), names.buffer(src.buffer)).into()
        }
        Op::Memset { dst, .. } => format!("set {}", names.buffer(dst.buffer)).into(),
        Op::HostRead { region, .. } => format!("read {}", names.buffer(region.buffer)).into(),
        Op::HostWrite { region, .. } => format!("write {}", names.buffer(region.buffer)).into(),
        Op::Record { event, .. } => format!("record {}", names.event(*event)).into(),
        Op::Wait { event, .. } => format!("wait for {}", names.event(*event)).into(),
        Op::HostFn { .. } => "host function".into(),
        Op::HostSleep { .. } => "sleep".into(),
        Op::HostWork { cost: Some(cost), .. } => match cost {
            HostCost::FrameworkTo => "framework: copy call",
            HostCost::DictLeaf => "framework: dictionary leaf",
            HostCost::PinOverhead => "framework: pin",
        }
        .into(),
        Op::HostWork { .. } => "work".into(),
        op => op.name().into(),
    }
}
