//! Modules, functions, launches, and memory as kernels see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::code::Code;
use crate::host;
use crate::kernel::{self, Body, Global, Kernel, Shape, Stop, rust};
use crate::report::ViolationKind;

use super::device::{handle_id, handle_of};
use super::exec::Failure;
use super::memory::Life;
use super::op::{Op, Span, Work};
use super::race::{Access, Touch};
use super::{Engine, Needs, Session};

const MODULE: u64 = 0x5500_0000_0000;
const FUNCTION: u64 = 0x5600_0000_0000;

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) device: usize,
    kernels: Vec<Arc<Kernel>>,
    pub(crate) unloaded: bool,
}

/// A function that was asked for.
#[derive(Debug)]
pub(crate) struct Function {
    module: usize,
    kernel: Arc<Kernel>,
}

/// Sets of bytes as ranges that do not meet.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((&s, &e)) = self.0.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            if s <= start && end <= e {
                return;
            }
            self.0.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.0.insert(start, end);
    }
}

/// Memory as one launch sees it.
struct Seen<'s, 'e> {
    session: &'s mut Session<'e>,
    op: &'s Op,
    reads: Ranges,
    writes: Ranges,
}

impl Seen<'_, '_> {
    /// Whether a kernel may touch a range; what it does there is remembered.
    fn touch(&mut self, start: u64, len: usize, touch: Touch) -> Result<bool, Stop> {
        let end = start.checked_add(len as u64).ok_or(Stop(Code::ILLEGAL_ADDRESS))?;
        let illegal = Stop(Code::ILLEGAL_ADDRESS);
        let access = Access {
            start,
            end,
            touch,
            lane: self.op.lane,
            seq: self.op.seq,
            op: self.op.id,
            call: self.op.call,
        };
        let on_device = self.session.memory.device_of(start).is_some();
        if on_device {
            let block = self.session.memory.block(start).filter(|b| end <= b.end());
            let Some((life, owner, pool)) = block.map(|b| (b.life, b.device, b.pool)) else {
                let missing = "no allocation holds all of these bytes";
                self.session.accuse(ViolationKind::OutOfBounds, &access, missing);
                return Err(illegal);
            };
            let me = self.op.device;
            let is_guest = match pool {
                Some(pool) => self.session.pools[pool].guests.contains(&me),
                None => self.session.devices[me].peers.contains(&owner),
            };
            if owner != me && !is_guest {
                let missing = "the device was given no access to the other's memory";
                self.session.accuse(ViolationKind::PeerRights, &access, missing);
                return Err(illegal);
            }
            if life != Life::Live {
                self.session.check_life(&access, life);
            }
        } else if !self
            .session
            .memory
            .host(start)
            .is_some_and(|r| !r.freed && end <= r.end() && r.is_mapped())
        {
            let missing = "a kernel sees no pageable memory, and registered memory that is mapped alone";
            self.session.accuse(ViolationKind::OutOfBounds, &access, missing);
            return Err(illegal);
        }
        if touch == Touch::Read {
            self.reads.add(start, end)
        } else {
            self.writes.add(start, end)
        }
        Ok(on_device)
    }

    /// Holds everything that was touched against what others did.
    fn settle(self) {
        let Seen { session, op, reads, writes } = self;
        session.trace_touched(op.id, "reads", &reads.0);
        session.trace_touched(op.id, "writes", &writes.0);
        for (ranges, touch) in [(reads, Touch::Read), (writes, Touch::Write)] {
            for (start, end) in ranges.0 {
                session.access(Session::access_of(op, Span { start, end, touch }), &op.clock);
            }
        }
    }
}

impl Global for Seen<'_, '_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), Stop> {
        if self.touch(address, out.len(), Touch::Read)? {
            self.session.memory.read(address, out);
        } else {
            host::read(address, out);
        }
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Stop> {
        if self.touch(address, bytes.len(), Touch::Write)? {
            if let Some(room) = self.session.memory.bytes_mut(address, bytes.len() as u64) {
                room.copy_from_slice(bytes);
            }
        } else {
            host::write(address, bytes);
        }
        Ok(())
    }
}

impl Session<'_> {
    pub(crate) fn run_kernel(
        &mut self,
        op: &Op,
        kernel: &Kernel,
        shape: Shape,
        args: &[u8],
    ) -> Result<(), Failure> {
        let steps = self.config.steps;
        let mut seen = Seen { session: self, op, reads: Ranges::default(), writes: Ranges::default() };
        let ran = match &kernel.body {
            Body::Rust(rust) => rust.run(shape, args, &kernel.params, &mut seen),
            Body::Ptx(program) => kernel::exec::run(program.as_ref(), shape, args, &mut seen, steps),
        };
        seen.settle();
        ran.map_err(|Stop(code)| (code, true))
    }

    /// Whether something enqueued may touch a range: a kernel, all of every block that an argument points into.
    pub(crate) fn may_touch(&self, op: &Op, start: u64, end: u64) -> bool {
        if let Work::Launch { args, .. } = &op.work {
            return args.chunks_exact(8).any(|word| {
                let at = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                let block = self.memory.block(at).map(|b| (b.start, b.end()));
                let range = block.or_else(|| self.memory.host(at).map(|r| (r.start, r.end())));
                range.is_some_and(|(s, e)| s < end && start < e)
            });
        }
        // What a host function touches nobody knows but that it is the host's.
        let is_host = matches!(op.work, Work::Host { .. }) && self.memory.device_of(start).is_none();
        is_host || op.work.spans().iter().any(|s| s.start < end && start < s.end)
    }

    fn module(&self, handle: u64) -> Result<usize, Code> {
        let id = handle_id(handle, MODULE).filter(|id| *id < self.modules.len());
        id.filter(|id| !self.modules[*id].unloaded).ok_or(Code::INVALID_HANDLE)
    }

    fn function(&self, handle: u64) -> Result<&Function, Code> {
        let function = handle_id(handle, FUNCTION).and_then(|id| self.functions.get(id));
        function.filter(|f| !self.modules[f.module].unloaded).ok_or(Code::INVALID_HANDLE)
    }
}

/// Checks a launch against the limits that the device's attributes name.
fn fits(shape: &Shape) -> Result<(), Code> {
    let Shape { grid, block, shared } = *shape;
    let most_grid = [0x7fff_ffff, 65535, 65535];
    let most_block = [1024, 1024, 64];
    let within =
        |sizes: [u32; 3], most: [u32; 3]| sizes.iter().zip(most).all(|(n, most)| 0 < *n && *n <= most);
    let threads: u64 = block.iter().map(|n| u64::from(*n)).product();
    let fits = within(grid, most_grid) && within(block, most_block) && threads <= 1024 && shared <= 49152;
    if fits { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

impl Engine {
    /// Waits for the device, as drivers do: nothing is ordered by it.
    pub(crate) fn module_load(&self, text: &str) -> Result<u64, Code> {
        self.call("cuModuleLoadData", Needs::Context, |s| {
            let kernels = kernel::load(text, s.config.version, s.config.capability)?;
            let device = s.device;
            s.drain_device(device);
            s.modules.push(Module { device, kernels, unloaded: false });
            Ok(handle_of(s.modules.len() - 1, MODULE))
        })
    }

    /// Waits for the module's kernels that are queued.
    pub(crate) fn module_unload(&self, handle: u64) -> Result<(), Code> {
        self.call("cuModuleUnload", Needs::Context, |s| {
            let module = s.module(handle)?;
            let kernels = s.modules[module].kernels.clone();
            let of_module = |op: &&Op| match &op.work {
                Work::Launch { kernel, .. } => kernels.iter().any(|k| Arc::ptr_eq(k, kernel)),
                _ => false,
            };
            let queued: Vec<u64> = s.ops.values().filter(of_module).map(|op| op.id).collect();
            s.run_until(&queued);
            s.modules[module].unloaded = true;
            Ok(())
        })
    }

    pub(crate) fn module_function(&self, module: u64, name: &str) -> Result<u64, Code> {
        self.call("cuModuleGetFunction", Needs::Context, |s| {
            let module = s.module(module)?;
            let kernel = s.modules[module].kernels.iter().find(|k| k.name == name);
            let kernel = Arc::clone(kernel.ok_or(Code::NOT_FOUND)?);
            s.functions.push(Function { module, kernel });
            Ok(handle_of(s.functions.len() - 1, FUNCTION))
        })
    }

    /// Where a function's arguments go in their bytes: offset and size of each.
    pub(crate) fn function_params(&self, function: u64) -> Result<Vec<(usize, usize)>, Code> {
        let session = self.session("cuLaunchKernel");
        session.function(function).map(|f| f.kernel.params.clone())
    }

    /// Work of a library on a stream: a function in the place of its kernels, with its arguments as one struct.
    pub(crate) fn library(
        &self,
        call: &'static str,
        function: rust::Function,
        args: Vec<u8>,
        stream: u64,
    ) -> Result<(), Code> {
        self.call(call, Needs::Context, |s| {
            let stream = s.stream(stream)?;
            if s.streams[stream].device != s.device {
                return Err(Code::INVALID_HANDLE);
            }
            let (params, body) = (vec![(0, args.len())], Body::Rust(rust::registered(function)));
            let kernel = Arc::new(Kernel { name: call.to_owned(), params, body });
            let shape = Shape { grid: [1; 3], block: [1; 3], shared: 0 };
            let op = s.enqueue(stream, Work::Launch { kernel, shape, args }, None);
            s.trace_launch(stream, op);
            Ok(())
        })
    }

    pub(crate) fn launch(&self, function: u64, shape: Shape, args: Vec<u8>, stream: u64) -> Result<(), Code> {
        self.call("cuLaunchKernel", Needs::Context, |s| {
            let stream = s.stream(stream)?;
            let function = s.function(function)?;
            let (kernel, device) = (Arc::clone(&function.kernel), s.modules[function.module].device);
            fits(&shape)?;
            // A launch is for the current device, on a stream of it.
            if device != s.streams[stream].device || device != s.device {
                return Err(Code::INVALID_HANDLE);
            }
            if args.len() != kernel.param_bytes() {
                return Err(Code::INVALID_VALUE);
            }
            let op = s.enqueue(stream, Work::Launch { kernel, shape, args }, None);
            s.trace_launch(stream, op);
            Ok(())
        })
    }
}
