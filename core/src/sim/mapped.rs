//! Lowers what touches memory without a copy: kernels and memsets on host memory, and managed memory that moves by itself.

use super::lower::Lowering;
use super::lowered::{Act, Alone, EngineId, Mapped, NONE, Why, Work, bytes_of, position};
use crate::program::{Kernel, Region, Space, StreamId};
use crate::trace::Engine;

impl Lowering<'_> {
    pub(super) fn kernel(&mut self, kernel: &Kernel) -> Work {
        let dev = self.facts.stream(kernel.stream).dev;
        // Bytes of the device's memory, and those that go over the link.
        let (mut own, mut over, mut reads) = (0u64, [0u64; 2], false);
        for (regions, way) in [(&kernel.reads, 0), (&kernel.writes, 1)] {
            for region in regions {
                let bytes = bytes_of(&region.span);
                let sum = match self.facts.buffer(region.buffer).space {
                    Space::Device => &mut own,
                    Space::Managed => {
                        over[0] = over[0].saturating_add(self.bring(region, dev));
                        &mut own
                    }
                    Space::Pinned | Space::Pageable => {
                        reads |= way == 0 && bytes > 0;
                        &mut over[way]
                    }
                };
                *sum = sum.saturating_add(bytes);
            }
        }
        let ns = kernel.takes.unwrap_or_else(|| self.memory_time(own)).0.max(0);
        // A kernel whose time is that of its bytes keeps the device's memory busy by itself.
        let work = self.compute_over(dev, ns, kernel.full_grid || kernel.takes.is_none(), over);
        if let (true, Some(mapped)) = (reads, self.out.mapped.last_mut()) {
            mapped.reads = true;
        }
        work
    }

    pub(super) fn memset(&mut self, stream: StreamId, dst: &Region) -> Work {
        let (bytes, space) = (bytes_of(&dst.span), self.facts.buffer(dst.buffer).space);
        let dev = self.facts.stream(stream).dev;
        match space {
            // As a copy of nothing.
            _ if bytes == 0 => Work::Point,
            Space::Device => self.compute(dev, self.memory_time(bytes).0, true),
            Space::Managed => {
                let brought = self.bring(dst, dev);
                self.compute_over(dev, self.memory_time(bytes).0, true, [brought, 0])
            }
            Space::Pinned | Space::Pageable => self.compute_over(dev, 0, true, [0, bytes]),
        }
    }

    pub(super) fn compute(&self, dev: u32, ns: i64, full: bool) -> Work {
        Work::Compute { dev: narrow(dev), full, ns }
    }

    /// Work of compute units that sends bytes over the link, to the device and to the host.
    pub(super) fn compute_over(&mut self, dev: u32, ns: i64, full: bool, bytes: [u64; 2]) -> Work {
        if bytes == [0, 0] {
            return self.compute(dev, ns, full);
        }
        self.out.mapped.push(Mapped { ns, bytes, reads: false });
        Work::Mapped { dev: narrow(dev), full, at: position(self.out.mapped.len() - 1) }
    }

    /// A device touches managed memory: gives the bytes that lay with the host until now.
    pub(super) fn bring(&mut self, region: &Region, dev: u32) -> u64 {
        let (block, lo, hi) = self.extent(region);
        if lo < hi {
            self.holder[block as usize] = dev;
        }
        self.on_device.touch(block, lo, hi);
        self.on_host.remove(block, lo, hi)
    }

    /// A thread touches memory: managed bytes that lie with a device come back before it goes on.
    pub(super) fn fetch(&mut self, region: &Region) {
        let facts = self.facts.buffer(region.buffer);
        if facts.space != Space::Managed {
            return;
        }
        let (block, lo, hi) = self.extent(region);
        self.on_host.touch(block, lo, hi);
        let bytes = self.on_device.remove(block, lo, hi);
        if bytes > 0 {
            let engine = EngineId::new(self.machine, self.holder[block as usize], Engine::ToHost);
            let work = Work::Dma { engine, rate: Alone::ToHost, bytes };
            let node = self.out.node(self.at(NONE, work), []);
            self.account(self.command, work);
            let time = self.out.time(0);
            self.step(Act::Call { time, first: node, n: 1 });
            self.join([node], 0, Why::Call);
        }
    }

    /// The block of a region and the range that covers its bytes: pages move whole.
    fn extent(&self, region: &Region) -> (u32, u64, u64) {
        let block = position(self.facts.buffer(region.buffer).block.index());
        let (lo, hi) = region.span.bounds().unwrap_or((0, 0));
        (block, lo.max(0).unsigned_abs(), hi.max(0).unsigned_abs())
    }
}

fn narrow(dev: u32) -> u16 {
    u16::try_from(dev).unwrap_or_else(|_| unreachable!("bug: device {dev} passed the check"))
}
