//! The event loop: what is done when, and what that lets begin.
//!
//! Everything due at one time is handled before engines and compute units choose what to do next, so that ties between
//! what became ready at the same time go by the order of the list.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::cache::Cache;
use super::device::{Compute, Engine, StagingState};
use super::host::Thread;
use super::link::Links;
use super::lowered::{Act, Lowered, NONE, Node, NodeId, Step, Work};
use super::memcpy::Memcpy;
use super::prepared::{Prepared, Says};
use super::record::Recorder;
use super::values::Values;
use super::{Run, SimError};
use crate::machine::Machine;
use crate::ordered::CollectVec;
use crate::program::{Computes, Facts, Program};
use crate::units::Nanos;

/// What was planned for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A thread's timed step is over.
    Thread(u32),
    /// An engine's copy is over, unless it was planned anew.
    Engine { engine: u32, epoch: u32 },
    /// Work of the compute units is over.
    Compute(NodeId),
    /// A kernel begins to touch host memory.
    Mapped(NodeId),
    /// A kernel's access to host memory is over, unless it was planned anew.
    Reach { reach: u32, epoch: u32 },
    /// Work of compute units reads its operands.
    Operands(NodeId),
    /// A function that a stream runs on the host is over.
    HostFn(NodeId),
    /// The next host copy is over, unless it was planned anew.
    Memcpy { epoch: u32 },
}

/// A simulation in progress.
pub(super) struct Sim<'a> {
    pub(super) program: &'a Program,
    pub(super) facts: &'a Facts,
    pub(super) says: &'a [Says],
    /// What commands without a formula compute.
    pub(super) knows: &'a dyn Computes,
    pub(super) machine: &'a Machine,
    pub(super) low: &'a Lowered,
    pub(super) now: i64,
    /// By time, then as planned: the event and its command.
    planned: BinaryHeap<Reverse<(i64, u64, Event, u32)>>,
    n_planned: u64,
    pub(super) nodes: Vec<Node>,
    /// What comes after the node that was done last; empty but for the length of a call.
    after: Vec<NodeId>,
    /// Threads that wait for a node, each with the next entry of the same node.
    waiters: Vec<(u32, u32)>,
    ready: VecDeque<NodeId>,
    /// Threads that can go on, by the commands that they are at: what stands first in the list goes first.
    awake: BinaryHeap<Reverse<(u32, u32)>>,
    pub(super) threads: Vec<Thread>,
    pub(super) engines: Vec<Engine>,
    /// Engines that may be able to begin something.
    pub(super) free_engines: Vec<u32>,
    pub(super) computes: Vec<Compute>,
    pub(super) free_computes: Vec<u32>,
    pub(super) stagings: Vec<StagingState>,
    /// What moves bytes to or from the host now: engines, and kernels that touch host memory.
    pub(super) busy_links: u32,
    pub(super) links: Links,
    pub(super) memcpy: Memcpy,
    pub(super) cache: Cache,
    /// What threads of a framework wrote last and their cores have not given back to memory.
    pub(super) changed: Cache,
    pub(super) values: Values,
    pub(super) record: Recorder,
}

/// Times beyond this one are refused, so that sums of two never overflow.
const FAR: i64 = i64::MAX / 4;

impl<'a> Sim<'a> {
    pub(super) fn new(
        prepared: &'a Prepared,
        machine: &'a Machine,
        low: &'a mut Lowered,
        knows: &'a dyn Computes,
    ) -> Sim<'a> {
        let Prepared { program, facts, says, .. } = prepared;
        let record = Recorder::new(prepared, machine, low);
        let nodes = std::mem::take(&mut low.nodes);
        let low = &*low;
        Sim {
            program,
            facts,
            says,
            knows,
            machine,
            low,
            now: 0,
            planned: BinaryHeap::new(),
            n_planned: 0,
            nodes,
            after: Vec::new(),
            waiters: Vec::new(),
            ready: VecDeque::new(),
            awake: BinaryHeap::new(),
            threads: low.steps.iter().map(|_| Thread::new(machine.stage_slots)).collect_vec(),
            engines: (0..low.n_devices * 3).map(|_| Engine::default()).collect_vec(),
            free_engines: Vec::new(),
            computes: (0..low.n_devices).map(|_| Compute::default()).collect_vec(),
            free_computes: Vec::new(),
            stagings: vec![StagingState::default(); low.stagings.len()],
            busy_links: 0,
            links: Links::new(low.n_devices),
            memcpy: Memcpy::new(machine),
            cache: Cache::new(machine.last_level_cache.0),
            changed: Cache::new(machine.core_cache.0.saturating_mul(machine.framework_copy_threads.into())),
            values: Values::new(program, facts, &prepared.carried),
            record,
        }
    }

    pub(super) fn run(mut self) -> Result<Run, SimError> {
        (0..self.threads.len()).filter_map(|t| u32::try_from(t).ok()).for_each(|t| self.goes_on(t));
        loop {
            self.settle();
            self.dispatch();
            // No time passes for what was planned anew, least of all at the end.
            while self.planned.peek().is_some_and(|&Reverse((.., event, _))| self.is_stale(event)) {
                self.planned.pop();
            }
            let Some(&Reverse((time, .., command))) = self.planned.peek() else { break };
            // Only now: what goes slowly for a while may be planned beyond, and anew before it gets there.
            if time > FAR {
                let index = command as usize;
                return Err(SimError::TooLong { index, line: self.program.line(index) });
            }
            self.now = time;
            while let Some(&Reverse((at, _, event, _))) = self.planned.peek() {
                if at != time {
                    break;
                }
                self.planned.pop();
                self.handle(event);
            }
        }
        let here = |(t, thread): (&Thread, &[Step])| Some(thread.get(t.step)?.command as usize);
        let mut threads = self.threads.iter().zip(self.low.steps.iter().map(Vec::as_slice));
        if let Some(index) = threads.find_map(here) {
            return Err(SimError::Stuck { index, line: self.program.line(index) });
        }
        let end = Nanos(self.now);
        let (trace, marks) = self.record.finish();
        let (reads, finals) = self.values.finals(self.program, self.facts);
        Ok(Run { trace, end, marks, reads, finals, ledger: self.low.ledger })
    }

    /// Plans an event `ns` from now.
    pub(super) fn plan(&mut self, ns: i64, event: Event, command: u32) {
        self.plan_at(self.now.saturating_add(ns), event, command);
    }

    pub(super) fn plan_at(&mut self, time: i64, event: Event, command: u32) {
        self.planned.push(Reverse((time, self.n_planned, event, command)));
        self.n_planned += 1;
    }

    /// Whether what was planned then has been planned anew since.
    fn is_stale(&self, event: Event) -> bool {
        match event {
            Event::Engine { engine, epoch } => self.engines[engine as usize].is_stale(epoch),
            Event::Reach { reach, epoch } => self.links.is_stale(reach, epoch),
            Event::Memcpy { epoch } => epoch != self.memcpy.epoch,
            _ => false,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Thread(thread) => self.goes_on(thread),
            Event::Engine { engine, epoch } => self.engine_event(engine, epoch),
            Event::Compute(node) => {
                if self.part_is_last(node) {
                    self.compute_done(node);
                }
            }
            Event::Mapped(node) => self.reach(node),
            Event::Reach { reach, epoch } => self.reach_event(reach, epoch),
            Event::Operands(node) => self.read_operands(node),
            Event::HostFn(node) => {
                self.work_ends(node);
                self.complete(node);
            }
            Event::Memcpy { .. } => {
                if !self.is_stale(event) {
                    while let Some(thread) = self.memcpy.ended(self.now) {
                        self.goes_on(thread);
                    }
                }
            }
        }
    }

    /// Lets everything go on that can without time passing.
    fn settle(&mut self) {
        loop {
            if let Some(node) = self.ready.pop_front() {
                self.begin(node);
            } else if let Some(Reverse((_, thread))) = self.awake.pop() {
                self.advance(thread);
            } else {
                return;
            }
        }
    }

    /// A thread can go on now.
    pub(super) fn goes_on(&mut self, t: u32) {
        let step = self.low.steps[t as usize].get(self.threads[t as usize].step);
        self.awake.push(Reverse((step.map_or(NONE, |step| step.command), t)));
    }

    /// Whether another thread is to go on before this command, or may be once what can begin has begun.
    pub(super) fn is_after_another(&self, command: u32) -> bool {
        !self.ready.is_empty() || self.awake.peek().is_some_and(|Reverse((first, _))| *first < command)
    }

    /// Engines and compute units choose what to do next; then host copies know how fast they are.
    fn dispatch(&mut self) {
        self.dispatch_engines();
        self.dispatch_computes();
        if let Some((time, command)) = self.memcpy.plan(self.now, self.busy_links > 0) {
            self.plan_at(time, Event::Memcpy { epoch: self.memcpy.epoch }, command);
        }
    }

    /// One thing less stands before a node.
    pub(super) fn release(&mut self, node: NodeId) {
        let progress = &mut self.nodes[node as usize];
        progress.pending -= 1;
        if progress.pending == 0 {
            self.ready.push_back(node);
        }
    }

    /// A node could run now.
    fn begin(&mut self, node: NodeId) {
        let Node { command, work, .. } = self.nodes[node as usize];
        match work {
            Work::Point => {
                self.life_begins(node);
                self.complete(node);
            }
            Work::Host | Work::Record | Work::Wait { .. } => self.complete(node),
            Work::Compute { dev, .. } | Work::Mapped { dev, .. } => self.queue_compute(dev, node),
            Work::Dma { engine, .. } | Work::TwoHops { from: engine, .. } => {
                self.queue_engine(engine, node, 0)
            }
            Work::StageIn { engine, staging } => self.stage_in_begins(engine, staging),
            Work::StageOut { staging, .. } => self.stage_out_begins(staging),
            Work::HostCopy { thread } => self.wake(thread, Act::HostCopy { node }),
            Work::HostFn { ns } => {
                self.nodes[node as usize].at = self.now;
                self.host_fn_begins(node);
                self.plan(ns, Event::HostFn(node), command);
            }
        }
    }

    /// A node is done.
    pub(super) fn complete(&mut self, node: NodeId) {
        self.record_node(node);
        let done = &mut self.nodes[node as usize];
        (done.at, done.is_done) = (self.now, true);
        let (first, mut last) = (done.first_after, done.last_after);
        let mut entry = std::mem::replace(&mut done.waiters, NONE);
        if first != NONE {
            self.release(first);
        }
        // The list leads from the last to the second.
        while last != NONE {
            let (node, before) = self.low.edges[last as usize];
            self.after.push(node);
            last = before;
        }
        while let Some(node) = self.after.pop() {
            self.release(node);
        }
        while entry != NONE {
            let (thread, next) = self.waiters[entry as usize];
            entry = next;
            let state = &mut self.threads[thread as usize];
            state.waits_for -= 1;
            if state.waits_for == 0 {
                state.woken_by = node;
                self.goes_on(thread);
            }
        }
    }

    /// Lets a thread wait for those of its joins that are to come; gives their number.
    pub(super) fn wait_for(&mut self, thread: u32, joins: &[NodeId]) -> u32 {
        let mut n = 0;
        for &node in joins {
            let progress = &mut self.nodes[node as usize];
            if !progress.is_done {
                let entry = u32::try_from(self.waiters.len())
                    .unwrap_or_else(|_| unreachable!("bug: joins are bounded"));
                self.waiters.push((thread, progress.waiters));
                progress.waiters = entry;
                n += 1;
            }
        }
        self.threads[thread as usize].waits_for = n;
        n
    }
}
