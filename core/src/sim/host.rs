//! Host threads: one clock each, one step after the other.

use super::lowered::{Act, Alone, NONE, Node, NodeId, Staging, Step, Why, Work, bytes_of, copied};
use super::schedule::{Event, Sim};
use crate::machine::{Rate, Ratio};
use crate::program::{Op, Region, Space};
use crate::trace::Kind;
use crate::units::Bytes;

/// Where a host thread is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    /// The step that it is at.
    pub(super) step: usize,
    /// How far it is in that step.
    phase: Phase,
    /// When the phase began.
    since: i64,
    /// When the command began, and the slice of its call.
    begun: i64,
    call: u32,
    /// The chunk of a staged copy.
    chunk: u32,
    /// Free staging slots.
    pub(super) slots: u32,
    /// Whether the source or destination of the current copy is in the cache.
    hot: bool,
    /// Nodes that it waits for, and the one that woke it.
    pub(super) waits_for: u32,
    pub(super) woken_by: NodeId,
    /// It stands in the list of threads that can go on.
    awake: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing of the step is done.
    New,
    /// Waits until something else is done.
    Waits,
    /// Waited, and is now on the way back out of the call.
    Returns,
    /// Works for a time that is planned.
    Works,
}

impl Thread {
    pub(super) fn new(slots: u32) -> Thread {
        Thread {
            step: 0,
            phase: Phase::New,
            since: 0,
            begun: 0,
            call: NONE,
            chunk: 0,
            slots: slots.max(1),
            hot: false,
            waits_for: 0,
            woken_by: NONE,
            awake: false,
        }
    }
}

/// Whether a thread can take its next step at once.
enum Next {
    Goes,
    Stays,
}

impl Sim<'_> {
    /// The step that a thread is at; `None` after the last one.
    fn step_of(&self, t: u32) -> Option<&Step> {
        self.low.steps[t as usize].get(self.threads[t as usize].step)
    }

    /// Lets a thread go on as far as it can without time passing.
    pub(super) fn advance(&mut self, t: u32) {
        self.threads[t as usize].awake = false;
        let low = self.low;
        while let Some(step) = low.steps[t as usize].get(self.threads[t as usize].step) {
            let next = match step.act {
                Act::Call { time, first, n } => self.call(t, step.command, low.ns(time), first, n),
                Act::Join { first, n, ret, why } => {
                    self.join(t, step.command, (first as usize, n as usize), low.ns(ret), why)
                }
                Act::Done { node } => {
                    self.release(node);
                    Next::Goes
                }
                Act::Work { time } => self.work(t, step.command, low.ns(time)),
                Act::Access => self.access(t, step.command, false),
                Act::Pin => self.access(t, step.command, true),
                Act::StageIn { staging } => self.stage_in(t, step.command, staging),
                Act::StageOut { staging } => self.stage_out(t, step.command, staging),
                Act::HostCopy { node } => self.host_copy(t, step.command, node),
                Act::Mark => {
                    self.record_mark(t, step.command);
                    Next::Goes
                }
            };
            match next {
                Next::Stays => return,
                Next::Goes => {
                    let thread = &mut self.threads[t as usize];
                    thread.step += 1;
                    thread.phase = Phase::New;
                    thread.woken_by = NONE;
                    let next = low.steps[t as usize].get(thread.step);
                    if next.is_none_or(|next| next.command != step.command) {
                        thread.begun = self.now;
                        let call = std::mem::replace(&mut thread.call, NONE);
                        self.call_ends(call);
                        if next.is_some_and(|next| self.is_after_another(next.command)) {
                            return self.goes_on(t);
                        }
                    }
                }
            }
        }
    }

    /// Puts a thread into a phase that begins now.
    fn enter(&mut self, t: u32, phase: Phase) -> Next {
        let now = self.now;
        let thread = &mut self.threads[t as usize];
        thread.phase = phase;
        thread.since = now;
        Next::Stays
    }

    fn call(&mut self, t: u32, command: u32, ns: i64, first: NodeId, n: u32) -> Next {
        if self.threads[t as usize].phase == Phase::New && ns > 0 {
            self.plan(ns, Event::Thread(t), command);
            return self.enter(t, Phase::Works);
        }
        let begun = self.threads[t as usize].begun;
        let slice = self.record_host(t, Kind::Call, command, begun, 0);
        self.threads[t as usize].call = slice;
        for node in first..first + n {
            self.nodes[node as usize].call = slice;
            self.release(node);
        }
        Next::Goes
    }

    fn join(&mut self, t: u32, command: u32, (first, n): (usize, usize), ret: i64, why: Why) -> Next {
        let low = self.low;
        let phase = self.threads[t as usize].phase;
        if phase == Phase::New {
            self.enter(t, Phase::Waits);
            if self.wait_for(t, &low.joins[first..first + n]) > 0 {
                return Next::Stays;
            }
        }
        if phase != Phase::Returns && ret > 0 {
            self.threads[t as usize].phase = Phase::Returns;
            self.plan(ret, Event::Thread(t), command);
            return Next::Stays;
        }
        let Thread { since, woken_by, call, step, .. } = self.threads[t as usize];
        // The slice of a call that this begins, or that it ends, covers it.
        let goes_on = low.steps[t as usize].get(step + 1).is_some_and(|next| next.command == command);
        if woken_by != NONE || call == NONE && !goes_on {
            self.record_wait(t, command, since, woken_by, why);
        }
        Next::Goes
    }

    fn work(&mut self, t: u32, command: u32, ns: i64) -> Next {
        if self.threads[t as usize].phase == Phase::New {
            self.plan(ns, Event::Thread(t), command);
            return self.enter(t, Phase::Works);
        }
        let since = self.threads[t as usize].since;
        self.record_host(t, Kind::Work, command, since, 0);
        Next::Goes
    }

    /// Starts moving bytes of host memory; the end wakes the thread.
    fn move_bytes(&mut self, t: u32, bytes: u64, rate: Rate) -> Next {
        self.move_bytes_taking(t, bytes, rate, rate.0)
    }

    fn move_bytes_taking(&mut self, t: u32, bytes: u64, rate: Rate, takes: u64) -> Next {
        let command = self.step_of(t).map_or(NONE, |step| step.command);
        self.memcpy.start(self.now, (t, command), bytes, (rate, takes));
        self.enter(t, Phase::Works)
    }

    /// Touches host memory; a copy that `pins` is the framework's.
    fn access(&mut self, t: u32, command: u32, pins: bool) -> Next {
        let program = self.program;
        let op = &program.commands()[command as usize].op;
        match op {
            // Memory that is used again begins with what its declaration says.
            Op::Alloc(_) => self.access_begins(t, command),
            // A program says with `host_work` how long its own code takes; touching memory is a point in time.
            Op::HostRead { region, .. } | Op::HostWrite { region, .. } => {
                self.touch(region);
                self.access_begins(t, command);
                self.record_host(t, Kind::Work, command, self.now, bytes_of(&region.span));
            }
            Op::HostCopy { src, dst } if self.threads[t as usize].phase == Phase::New => {
                let hot = self.touch(src);
                self.touch(dst);
                self.access_begins(t, command);
                let (bytes, rate) = (copied(src, dst), self.memcpy_rate(hot));
                if !pins {
                    return self.move_bytes(t, bytes, rate);
                }
                let rate = Rate(rate.0.saturating_mul(self.machine.framework_copy_parts(bytes)));
                let factor = if hot { self.machine.framework_hot_factor } else { Ratio::ONE };
                return self.move_bytes_taking(t, bytes, rate, factor.part(rate.0));
            }
            Op::HostCopy { src, dst } => {
                let since = self.threads[t as usize].since;
                self.record_host(t, Kind::HostCopy, command, since, copied(src, dst));
                self.access_ends(t, command);
                if pins {
                    self.leave_changed(dst, copied(src, dst));
                }
            }
            _ => unreachable!("bug: {} touches no host memory", op.name()),
        }
        Next::Goes
    }

    fn memcpy_rate(&self, hot: bool) -> Rate {
        if hot { self.machine.host_memcpy_hot_bw } else { self.machine.host_memcpy_cold_bw }
    }

    fn stage_rate(&self, hot: bool) -> Rate {
        if hot { self.machine.stage_hot_bw } else { self.machine.stage_cold_bw }
    }

    /// A thread touches a region of host memory; tells whether it was in the cache.
    fn touch(&mut self, region: &Region) -> bool {
        let (block, lo, hi) = self.extent(region);
        self.cache.touch(block, lo, hi)
    }

    /// A framework's threads have written a region: its end lies changed in the caches of their cores.
    fn leave_changed(&mut self, region: &Region, bytes: u64) {
        let (block, lo, hi) = self.extent(region);
        let most = self.machine.core_cache.0.saturating_mul(self.machine.framework_copy_parts(bytes));
        self.changed.touch(block, lo.max(hi.saturating_sub(most)), hi);
    }

    /// How much longer an engine takes for a copy to a device since some of its bytes lie changed in the caches of cores,
    /// which have them no longer then.
    pub(super) fn fetch_changed(&mut self, node: NodeId) -> i64 {
        let Node { command, work, .. } = self.nodes[node as usize];
        let has_none = self.changed.is_empty() || self.machine.changed_read_bw == Rate(0);
        if has_none || !matches!(work, Work::Dma { rate: Alone::ToDevice, .. }) {
            return 0;
        }
        let program = self.program;
        let Op::Copy(copy) = &program.commands()[command as usize].op else { return 0 };
        let (block, lo, hi) = self.extent(&copy.src);
        let bytes = self.changed.remove(block, lo, hi).min(self.says[command as usize].bytes);
        self.machine.changed_read_bw.time(Bytes(bytes)).0
    }

    /// A device has written memory that threads touch: the caches have it no longer.
    pub(super) fn forget_written(&mut self, node: NodeId) {
        let Node { command, work, .. } = self.nodes[node as usize];
        if !self.says[command as usize].stales || matches!(work, Work::StageOut { .. }) {
            return;
        }
        let program = self.program;
        for region in program.commands()[command as usize].op.regions().1 {
            if self.facts.buffer(region.buffer).space != Space::Device {
                let (block, lo, hi) = self.extent(region);
                self.cache.remove(block, lo, hi);
                self.changed.remove(block, lo, hi);
            }
        }
    }

    /// The block of a region and the range that covers its bytes.
    fn extent(&self, region: &Region) -> (u32, u64, u64) {
        let block = self.facts.buffer(region.buffer).block.index();
        let (lo, hi) = region.span.bounds().unwrap_or((0, 0));
        (u32::try_from(block).unwrap_or(NONE), lo.max(0).unsigned_abs(), hi.max(0).unsigned_abs())
    }

    fn copy_regions(&self, command: u32) -> (&'_ Region, &'_ Region) {
        match &self.program.commands()[command as usize].op {
            Op::Copy(copy) => (&copy.src, &copy.dst),
            op => unreachable!("bug: {} is no copy", op.name()),
        }
    }

    fn stage_in(&mut self, t: u32, command: u32, staging: u32) -> Next {
        let copy = self.low.stagings[staging as usize];
        match self.threads[t as usize].phase {
            Phase::New => {
                let region = self.copy_regions(command).0.clone();
                let thread = &mut self.threads[t as usize];
                thread.chunk = 0;
                let hot = self.touch(&region);
                self.threads[t as usize].hot = hot;
            }
            Phase::Waits => {
                let Thread { slots, since, .. } = self.threads[t as usize];
                if slots == 0 {
                    return Next::Stays;
                }
                self.record_staging_wait(t, command, since);
            }
            Phase::Works | Phase::Returns => {
                let Thread { since, chunk, .. } = self.threads[t as usize];
                self.record_host(t, Kind::HostCopy, command, since, copy.chunk_bytes(chunk));
                self.chunk_taken(staging, chunk);
                self.chunk_staged(staging);
                self.threads[t as usize].chunk += 1;
            }
        }
        if self.threads[t as usize].chunk == copy.n_chunks() {
            return Next::Goes;
        }
        self.stage_next(t, &copy)
    }

    fn stage_next(&mut self, t: u32, copy: &Staging) -> Next {
        let thread = &mut self.threads[t as usize];
        if !copy.inline {
            if thread.slots == 0 {
                return self.enter(t, Phase::Waits);
            }
            thread.slots -= 1;
        }
        let (chunk, hot) = (thread.chunk, thread.hot);
        let rate = self.stage_rate(hot);
        self.move_bytes(t, copy.chunk_bytes(chunk), rate)
    }

    /// A staging slot is free again; the thread may wait for it.
    pub(super) fn give_slot(&mut self, t: u32) {
        let thread = &mut self.threads[t as usize];
        thread.slots += 1;
        match self.step_of(t).map(|step| step.act) {
            Some(act @ Act::StageIn { .. }) => self.wake(t, act),
            Some(Act::StageOut { staging }) => self.ask_for_chunks(staging),
            _ => {}
        }
    }

    fn stage_out(&mut self, t: u32, command: u32, staging: u32) -> Next {
        let copy = self.low.stagings[staging as usize];
        match self.threads[t as usize].phase {
            Phase::New => {
                let region = self.copy_regions(command).1.clone();
                self.threads[t as usize].chunk = 0;
                let hot = self.touch(&region);
                self.threads[t as usize].hot = hot;
                self.enter(t, Phase::Waits);
            }
            Phase::Waits => {}
            Phase::Works | Phase::Returns => {
                let Thread { since, chunk, .. } = self.threads[t as usize];
                self.record_host(t, Kind::HostCopy, command, since, copy.chunk_bytes(chunk));
                self.chunk_taken_out(staging, chunk);
                self.threads[t as usize].chunk += 1;
                self.threads[t as usize].slots += 1;
                self.ask_for_chunks(staging);
                if chunk + 1 == copy.n_chunks() {
                    self.complete(copy.node);
                    return Next::Goes;
                }
                self.enter(t, Phase::Waits);
            }
        }
        let Thread { chunk, hot, since, .. } = self.threads[t as usize];
        if self.stagings[staging as usize].moved <= chunk {
            return Next::Stays;
        }
        if since < self.now {
            self.record_staging_wait(t, command, since);
        }
        let rate = self.stage_rate(hot);
        self.move_bytes(t, copy.chunk_bytes(chunk), rate)
    }

    /// A copy within the host that a stream orders: the thread does it as soon as the stream has come there.
    fn host_copy(&mut self, t: u32, command: u32, node: NodeId) -> Next {
        let (src, dst) = self.copy_regions(command);
        let (src, dst, bytes) = (src.clone(), dst.clone(), copied(src, dst));
        match self.threads[t as usize].phase {
            Phase::New | Phase::Waits => {
                if self.threads[t as usize].phase == Phase::New {
                    self.enter(t, Phase::Waits);
                }
                if self.nodes[node as usize].pending > 0 {
                    return Next::Stays;
                }
                let since = self.threads[t as usize].since;
                if since < self.now {
                    self.record_staging_wait(t, command, since);
                }
                let hot = self.touch(&src);
                self.touch(&dst);
                self.nodes[node as usize].at = self.now;
                self.access_begins(t, command);
                let rate = self.memcpy_rate(hot);
                self.move_bytes(t, bytes, rate)
            }
            Phase::Works | Phase::Returns => {
                let since = self.threads[t as usize].since;
                self.record_host(t, Kind::HostCopy, command, since, bytes);
                self.access_ends(t, command);
                self.complete(node);
                Next::Goes
            }
        }
    }

    /// Lets a thread go on that waits in this step.
    pub(super) fn wake(&mut self, t: u32, act: Act) {
        let here = self.step_of(t).is_some_and(|step| step.act == act);
        let thread = &self.threads[t as usize];
        if here && thread.phase == Phase::Waits && !thread.awake {
            self.threads[t as usize].awake = true;
            self.goes_on(t);
        }
    }
}
