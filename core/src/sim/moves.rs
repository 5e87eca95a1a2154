//! Which bytes change hands when, as the simulation goes on; the table stands in [`super::values`].

use super::element;
use super::lowered::{NodeId, Work, bytes_of, copied};
use super::schedule::{Event, Sim};
use super::values::{Moving, Place, compute_bytes, differences, formula, known, length};
use super::{Reading, Wrong};
use crate::id::Id;
use crate::memory::Dtype;
use crate::ordered::CollectVec;
use crate::program::{Alloc, Contents, Copy, Op, Region, ThreadId};
use crate::units::Nanos;

impl<'a> Sim<'a> {
    fn block(&self, region: &Region) -> usize {
        self.facts.buffer(region.buffer).block.index()
    }

    fn op(&self, command: u32) -> &'a Op {
        &self.program.commands()[command as usize].op
    }

    fn node_op(&self, node: NodeId) -> &'a Op {
        self.op(self.nodes[node as usize].command)
    }

    /// Engines that meet are settled before they go on at other rates.
    pub(super) fn rates_change(&mut self) {
        if self.values.meet {
            self.settle_values();
        }
    }

    /// Moves what engines have moved by now.
    fn settle_values(&mut self) {
        let before = std::mem::replace(&mut self.values.settled, self.now);
        if self.values.meet {
            return self.interleave(before, self.now);
        }
        let engines: Vec<u32> = self.values.moving.keys().copied().collect_vec();
        for engine in engines {
            if let Some(job) = self.engines[engine as usize].job {
                self.move_up_to(engine, job.moved(self.now));
            }
        }
    }

    pub(super) fn move_up_to(&mut self, engine: u32, moved: u64) {
        let program = self.program;
        let Some(&Moving { node, part, offset, done, from, to, .. }) = self.values.moving.get(&engine) else {
            return;
        };
        let Op::Copy(Copy { src, dst, .. }) =
            &program.commands()[self.nodes[node as usize].command as usize].op
        else {
            return;
        };
        if moved <= done {
            return;
        }
        let (src_block, dst_block) = (self.block(src), self.block(dst));
        let values = &mut self.values;
        let (at, n, slot) = (offset + done, moved - done, (node, part));
        let now = length(done)..length(moved);
        match (from, to) {
            (Place::Region, Place::Region) => {
                values.carry((src_block, &src.span), (dst_block, &dst.span), at, n)
            }
            (Place::Region, Place::Staged) => {
                if let Some(mut bytes) = values.staged.remove(&slot) {
                    bytes[now].copy_from_slice(&values.read(src_block, &src.span, at, n));
                    values.staged.insert(slot, bytes);
                }
            }
            (Place::Staged, _) => {
                if let Some(bytes) = values.staged.remove(&slot) {
                    values.write(dst_block, &dst.span, at, &bytes[now]);
                    values.staged.insert(slot, bytes);
                }
            }
        }
        if let Some(moving) = values.moving.get_mut(&engine) {
            moving.done = moved;
        }
    }

    /// An engine begins one part of a copy.
    pub(super) fn transfer_begins(&mut self, engine: u32, node: NodeId, part: u32, bytes: u64) {
        if !self.values.is_on() {
            return;
        }
        let Op::Copy(Copy { src, dst, .. }) = self.node_op(node) else { return };
        let blocks = [self.block(src), self.block(dst)];
        if blocks.iter().all(|&b| self.values.blocks[b].is_none()) {
            return;
        }
        let chunk = |staging: u32| u64::from(part) * self.low.stagings[staging as usize].chunk;
        let (offset, from, to) = match self.nodes[node as usize].work {
            Work::StageIn { staging, .. } => (chunk(staging), Place::Staged, Place::Region),
            Work::StageOut { staging, .. } => (chunk(staging), Place::Region, Place::Staged),
            Work::TwoHops { .. } if part == 0 => (0, Place::Region, Place::Staged),
            Work::TwoHops { .. } => (0, Place::Staged, Place::Region),
            _ => (0, Place::Region, Place::Region),
        };
        if to == Place::Staged {
            self.values.staged.insert((node, part), vec![0; length(bytes)]);
        }
        self.values.moving.insert(engine, Moving { node, part, offset, bytes, done: 0, from, to });
        if self.values.moving.len() > 1 {
            self.settle_values();
            self.values.meet = self.engines_meet();
        }
    }

    /// An engine has ended its part of a copy.
    pub(super) fn transfer_ends(&mut self, engine: u32) {
        if !self.values.moving.contains_key(&engine) {
            return;
        }
        self.settle_values();
        let bytes = self.values.moving[&engine].bytes;
        self.move_up_to(engine, bytes);
        let Some(Moving { node, part, from, to, .. }) = self.values.moving.remove(&engine) else { return };
        if from == Place::Staged {
            self.values.staged.remove(&(node, part));
        }
        self.values.meet = self.values.meet && self.engines_meet();
        // What the first hop brought is what the second one takes.
        if to == Place::Staged
            && let Work::TwoHops { .. } = self.nodes[node as usize].work
            && let Some(bytes) = self.values.staged.remove(&(node, part))
        {
            self.values.staged.insert((node, part + 1), bytes);
        }
    }

    /// A thread has copied a chunk into its slot.
    pub(super) fn chunk_taken(&mut self, staging: u32, part: u32) {
        if !self.values.is_on() {
            return;
        }
        self.settle_values();
        let copy = self.low.stagings[staging as usize];
        let Op::Copy(Copy { src, dst, .. }) = self.node_op(copy.node) else { return };
        let (block, dst_block) = (self.block(src), self.block(dst));
        if self.values.blocks[dst_block].is_none() {
            return;
        }
        let span = src.span.clone();
        let bytes = self.values.read(block, &span, u64::from(part) * copy.chunk, copy.chunk_bytes(part));
        let bytes = bytes.into_owned();
        self.values.staged.insert((copy.node, part), bytes);
    }

    /// A thread has copied a chunk out of its slot.
    pub(super) fn chunk_taken_out(&mut self, staging: u32, part: u32) {
        let copy = self.low.stagings[staging as usize];
        let Some(bytes) = self.values.staged.remove(&(copy.node, part)) else { return };
        self.settle_values();
        let Op::Copy(Copy { dst, .. }) = self.node_op(copy.node) else { return };
        let (block, span) = (self.block(dst), dst.span.clone());
        self.values.write(block, &span, u64::from(part) * copy.chunk, &bytes);
    }

    /// Work of compute units will begin at `start`: its operands are read then.
    pub(super) fn kernel_begins(&mut self, node: NodeId, start: i64) {
        if self.reads_operands(node) {
            self.plan_at(start, Event::Operands(node), self.nodes[node as usize].command);
        }
    }

    /// Work of the driver begins, before any thread that acts in the same nanosecond goes on.
    pub(super) fn host_fn_begins(&mut self, node: NodeId) {
        if self.reads_operands(node) {
            self.read_operands(node);
        }
    }

    fn reads_operands(&self, node: NodeId) -> bool {
        let (op, command) = (self.node_op(node), self.nodes[node as usize].command as usize);
        self.values.is_on()
            && (formula(op).is_some() || matches!(op, Op::Copy(_)) || self.knows.computes(command))
    }

    /// Reads what a node's work needs and keeps what it will write.
    pub(super) fn read_operands(&mut self, node: NodeId) {
        self.settle_values();
        let op = self.node_op(node);
        let (reads, writes) = op.regions();
        let Some(out) = writes.first() else { return };
        if self.values.blocks[self.block(out)].is_none() {
            return;
        }
        let whole = |r: &Region| self.values.read(self.block(r), &r.span, 0, copied(r, out)).into_owned();
        let command = self.nodes[node as usize].command as usize;
        if formula(op).is_none() && self.knows.computes(command) {
            let all =
                |r: &Region| self.values.read(self.block(r), &r.span, 0, bytes_of(&r.span)).into_owned();
            if let Some(result) = self.knows.compute(command, &reads.iter().map(all).collect_vec()) {
                self.values.results.insert(node, result);
            }
            return;
        }
        let result = match formula(op) {
            Some(compute) => {
                // A sum over all elements is shorter than what it reads.
                let all =
                    |r: &Region| self.values.read(self.block(r), &r.span, 0, bytes_of(&r.span)).into_owned();
                compute_bytes(compute, &reads.iter().take(3).map(all).collect_vec(), bytes_of(&out.span))
            }
            None => reads.first().map(whole).unwrap_or_default(),
        };
        self.values.results.insert(node, result);
    }

    /// Work of compute units or of the driver has ended: what it made is there.
    pub(super) fn work_ends(&mut self, node: NodeId) {
        if !self.values.is_on() {
            return;
        }
        let op = self.node_op(node);
        if let Op::Memset { dst, value, .. } = op {
            self.settle_values();
            let block = self.block(dst);
            return self.values.fill(block, &dst.span, *value);
        }
        let Some(result) = self.values.results.remove(&node) else { return };
        self.settle_values();
        if let Some(out) = op.regions().1.first() {
            let (block, span) = (self.block(out), out.span.clone());
            self.values.write(block, &span, 0, &result);
        }
    }

    /// Memory that a stream hands out again is there.
    pub(super) fn life_begins(&mut self, node: NodeId) {
        let program = self.program;
        if !self.values.is_on() {
            return;
        }
        let command = self.nodes[node as usize].command as usize;
        if let Op::Alloc(alloc @ Alloc { reuse: Some(_), .. }) = &program.commands()[command].op {
            self.settle_values();
            self.declare(alloc);
        }
    }

    fn declare(&mut self, alloc: &Alloc) {
        if let Some(contents) = &alloc.contents {
            let region = alloc.buffer.range(0, alloc.bytes);
            let block = self.block(&region);
            self.values.put(block, &region.span, contents);
        }
    }

    /// A thread begins to read, write or copy host memory.
    pub(super) fn access_begins(&mut self, t: u32, command: u32) {
        let program = self.program;
        if !self.values.is_on() {
            return;
        }
        self.settle_values();
        match &program.commands()[command as usize].op {
            Op::HostRead { region, expect } => self.look(t, command, region, expect.as_ref()),
            Op::HostWrite { region, contents: Some(contents) } => {
                let block = self.block(region);
                self.values.put(block, &region.span, contents);
            }
            Op::Alloc(alloc) => self.declare(alloc),
            Op::HostCopy { src, dst } | Op::Copy(Copy { src, dst, .. }) => {
                if self.values.blocks[self.block(dst)].is_none() {
                    return;
                }
                let n = copied(src, dst);
                let bytes = self.values.read(self.block(src), &src.span, 0, n).into_owned();
                self.values.held.insert(t, bytes);
            }
            _ => {}
        }
    }

    /// A thread has ended its copy of host memory.
    pub(super) fn access_ends(&mut self, t: u32, command: u32) {
        let Some(bytes) = self.values.held.remove(&t) else { return };
        self.settle_values();
        if let Op::HostCopy { dst, .. } | Op::Copy(Copy { dst, .. }) = self.op(command) {
            let (block, span) = (self.block(dst), dst.span.clone());
            self.values.write(block, &span, 0, &bytes);
        }
    }

    /// A thread reads carried bytes.
    fn look(&mut self, t: u32, command: u32, region: &Region, expect: Option<&Contents>) {
        let block = self.block(region);
        if self.values.blocks[block].is_none() {
            return;
        }
        let (n_elements, n_wrong, first_wrong) =
            expect.map_or((0, 0, None), |e| self.compare(block, region, e));
        let thread = ThreadId::try_from(t as usize).unwrap_or(Id::FIRST);
        let reading = Reading {
            command: command as usize,
            thread,
            at: Nanos(self.now),
            buffer: region.buffer,
            expected: expect.cloned(),
            dtype: expect.map_or(Dtype::U8, element::dtype_of),
            n_elements,
            n_wrong,
            first_wrong,
        };
        if expect.is_some() {
            self.record_instant(t, command, &reading.sentence(self.program));
        }
        self.values.reads.push(reading);
    }

    fn compare(&mut self, block: usize, region: &Region, expect: &Contents) -> (u64, u64, Option<Wrong>) {
        let n = bytes_of(&region.span);
        let mut contents = std::mem::take(&mut self.values.known);
        let read = self.values.read(block, &region.span, 0, n);
        let expected = known(&mut contents, expect, &region.span, length(n));
        let found = differences(element::dtype_of(expect), &read, expected);
        self.values.known = contents;
        found
    }
}
