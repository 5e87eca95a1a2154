//! Lowers copies and memsets: which engine takes them, who stages them, and what their calls join.

use super::lower::{Late, Lowering};
use super::lowered::{Act, Alone, EngineId, MAX_CHUNKS, NONE, Staging, Why, Work, copied, position};
use crate::machine::Rate;
use crate::program::{AllocVia, BufferFacts, Copy, Space, StreamId};
use crate::trace::Engine;
use crate::units::{Bytes, Nanos};

impl Lowering<'_> {
    /// How long the device's memory takes for bytes read or written: a copy within it does both.
    pub(super) fn memory_time(&self, bytes: u64) -> Nanos {
        Rate(self.machine.d2d_bw.0.saturating_mul(2)).time(Bytes(bytes))
    }

    pub(super) fn copy(&mut self, copy: &Copy) {
        let m = self.machine;
        let (ns, ret) = (m.call_memcpy_async.0, m.sync_return.0);
        let (src, dst) = (self.facts.buffer(copy.src.buffer), self.facts.buffer(copy.dst.buffer));
        let bytes = copied(&copy.src, &copy.dst);
        let host = |space| matches!(space, Space::Pinned | Space::Pageable);
        if let Some(capture) = self.order.capturing(copy.stream) {
            self.order.captured(capture, copy.stream, self.command);
            return self.call(ns);
        }
        let work = self.copy_work(copy);
        if !copy.untracked {
            for region in [&copy.src, &copy.dst] {
                let is_pooled = self.facts.buffer(region.buffer).via == AllocVia::PinnedPool;
                if is_pooled && !region.span.is_empty() {
                    self.order.note(region.buffer, copy.stream);
                }
            }
        }
        if copy.peer && copy.sync {
            // Its own rules, whatever the memory: between all work of all devices, and no wait of the host.
            let before = self.order.all_legacy_frontiers();
            let node = self.enqueue(copy.stream, ns, work, &before);
            self.order.advance_every_legacy(node);
            return;
        }
        if !m.ordered_copies && !copy.sync {
            // Neither staged nor in the stream's order: only a sync of its stream or device has to do with it.
            self.loose(copy.stream, ns, work);
            return;
        }
        use Space::{Pageable, Pinned};
        if copy.sync && src.space == Pageable && !host(dst.space) {
            // A sync of its stream comes first, also where no byte moves, and takes what one takes where bytes are staged behind it.
            let before = self.order.join_stream(self.thread, copy.stream);
            self.join(before, if m.pageable_direct { 0 } else { ret }, Why::Call);
        }
        match (src.space, dst.space) {
            (Pageable | Pinned, Pageable | Pinned) => {
                let work = Work::HostCopy { thread: position(self.thread.index()) };
                let node = self.enqueue(copy.stream, ns, work, &[]);
                self.step(Act::HostCopy { node });
                self.join([node], ret, Why::Call);
            }
            (Pageable, _) if bytes > 0 => {
                let late = self.late[src.block.index()];
                if late != Late::No && late != Late::For(self.thread) && !m.pageable_direct {
                    // What is staged is what the stream's order says: its work before the copy may have yet to write it.
                    let before = self.order.join_stream(self.thread, copy.stream);
                    self.join(before, 0, Why::Call);
                }
                self.send_pageable(copy.stream, dst.dev, bytes);
            }
            (Space::Device | Space::Managed, Pageable) if bytes > 0 => {
                self.fetch_pageable(copy.stream, src.dev, bytes);
            }
            (from, to) => {
                let node = self.enqueue(copy.stream, ns, work, &[]);
                if host(to) && (copy.sync || to == Pageable) || host(from) && copy.sync && from == Pinned {
                    self.join([node], ret, Why::Call);
                }
            }
        }
    }

    /// From pageable memory to a device: the call returns when the bytes are staged, or arrived where nobody stages them.
    fn send_pageable(&mut self, stream: StreamId, dev: u32, bytes: u64) {
        let m = self.machine;
        let (engine, ns) = (EngineId::new(m, dev, Engine::ToDevice), m.call_memcpy_async.0);
        if m.pageable_direct {
            let work = Work::Dma { engine, bytes, rate: Alone::PageableToDevice };
            let node = self.enqueue(stream, ns, work, &[]);
            self.join([node], m.sync_return.0, Why::Call);
        } else {
            let staging = self.staging(bytes, bytes <= m.inline_h2d_bytes.0);
            let node = self.enqueue(stream, ns, Work::StageIn { engine, staging }, &[]);
            self.out.stagings[staging as usize].node = node;
            self.step(Act::StageIn { staging });
        }
    }

    /// From a device to pageable memory: the call returns when the bytes are there.
    fn fetch_pageable(&mut self, stream: StreamId, dev: u32, bytes: u64) {
        let m = self.machine;
        let (engine, ns) = (EngineId::new(m, dev, Engine::ToHost), m.call_memcpy_async.0);
        let node = if m.pageable_direct {
            let work = Work::Dma { engine, bytes, rate: Alone::PageableToHost };
            self.enqueue(stream, ns, work, &[])
        } else {
            let staging = self.staging(bytes, false);
            let node = self.enqueue(stream, ns, Work::StageOut { engine, staging }, &[]);
            self.out.stagings[staging as usize].node = node;
            self.step(Act::StageOut { staging });
            node
        };
        self.join([node], m.sync_return.0, Why::Call);
    }

    fn staging(&mut self, bytes: u64, inline: bool) -> u32 {
        let each = self.machine.stage_chunk.0.max(1);
        let chunk = if inline { bytes } else { each * bytes.div_ceil(each).div_ceil(MAX_CHUNKS).max(1) };
        let thread = position(self.thread.index());
        self.out.stagings.push(Staging { node: NONE, thread, bytes, chunk, inline });
        position(self.out.stagings.len() - 1)
    }

    /// A copy without the help of a host thread: all but pageable ones, and those of a graph.
    pub(super) fn copy_work(&mut self, copy: &Copy) -> Work {
        let m = self.machine;
        let (src, dst) = (self.facts.buffer(copy.src.buffer), self.facts.buffer(copy.dst.buffer));
        let bytes = copied(&copy.src, &copy.dst);
        let engine = |dev, engine| EngineId::new(m, dev, engine);
        let host = |b: &BufferFacts| matches!(b.space, Space::Pinned | Space::Pageable);
        let direct = |b: &BufferFacts| m.pageable_direct && b.space == Space::Pageable;
        // A copy within a device reads as a kernel does; engines take managed memory as the device's, wherever it lies.
        let within = !host(&src) && !host(&dst) && src.dev == dst.dev;
        let brought = if within && src.space == Space::Managed { self.bring(&copy.src, src.dev) } else { 0 };
        if dst.space == Space::Managed {
            // What a copy writes lies with the device, wherever it was; nothing of it is brought there first.
            self.bring(&copy.dst, dst.dev);
        }
        if bytes == 0 {
            return Work::Point;
        }
        match (host(&src), host(&dst)) {
            (true, true) => Work::HostFn { ns: m.host_memcpy_cold_bw.time(Bytes(bytes)).0 },
            (true, false) => {
                let rate = if direct(&src) { Alone::PageableToDevice } else { Alone::ToDevice };
                Work::Dma { engine: engine(dst.dev, Engine::ToDevice), bytes, rate }
            }
            (false, true) => {
                let rate = if direct(&dst) { Alone::PageableToHost } else { Alone::ToHost };
                Work::Dma { engine: engine(src.dev, Engine::ToHost), bytes, rate }
            }
            (false, false) if within => {
                self.compute_over(src.dev, m.d2d_bw.time(Bytes(bytes)).0, true, [brought, 0])
            }
            (false, false) if m.p2p_bw.0 > 0 => {
                Work::Dma { engine: engine(src.dev, Engine::Peer), bytes, rate: Alone::Peer }
            }
            (false, false) => {
                Work::TwoHops { from: engine(src.dev, Engine::ToHost), to: engine(dst.dev, Engine::ToDevice) }
            }
        }
    }
}
