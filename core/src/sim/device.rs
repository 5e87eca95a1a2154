//! Copy engines and compute units of devices: who begins when, and how long it takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::link::Way;
use super::lowered::{Act, Alone, EngineId, NONE, NodeId, Work};
use super::schedule::{Event, Sim};
use crate::machine::{Rate, Ratio};
use crate::units::quotient;

/// What waits for a place: when it got here, its node, and which part of it. The smallest goes first.
type Queue = BinaryHeap<Reverse<(i64, NodeId, u32)>>;

/// One copy engine.
#[derive(Debug, Default)]
pub(super) struct Engine {
    queue: Queue,
    pub(super) job: Option<Job>,
    /// Which planned event is not outdated.
    epoch: u32,
}

impl Engine {
    /// Whether the event that was planned in this epoch has been planned anew.
    pub(super) fn is_stale(&self, epoch: u32) -> bool {
        self.job.is_none() || self.epoch != epoch
    }
}

/// The copy that an engine works on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) node: NodeId,
    /// The chunk of a staged copy, or the hop.
    pub(super) part: u32,
    pub(super) start: i64,
    pub(super) bytes: u64,
    /// Latency to come.
    latency: i64,
    /// Bytes to come, in billionths.
    left: u128,
    /// The rate alone and the rate now.
    pub(super) alone: Rate,
    rate: Rate,
    /// The time up to which `latency` and `left` are told.
    at: i64,
    /// The direction of the link between host and device that the bytes take, if they do.
    pub(super) way: Option<Way>,
}

const NANO: u128 = 1_000_000_000;

impl Job {
    /// Some bytes of a part of a node that begin to move now, with the rate that they have by themselves.
    pub(super) fn new(
        (node, part): (NodeId, u32),
        now: i64,
        (bytes, alone): (u64, Rate),
        latency: i64,
        way: Option<Way>,
    ) -> Job {
        let left = u128::from(bytes) * NANO;
        Job { node, part, start: now, bytes, latency, left, alone, rate: alone, at: now, way }
    }

    /// Moves at another rate from now on.
    pub(super) fn go_on_at(&mut self, rate: Rate, now: i64) {
        self.advance(now);
        self.rate = rate;
    }

    fn advance(&mut self, now: i64) {
        let dt = now - self.at;
        let latency = dt.min(self.latency);
        self.latency -= latency;
        let moved = u128::from((dt - latency).unsigned_abs()) * u128::from(self.rate.0);
        self.left = self.left.saturating_sub(moved);
        self.at = now;
    }

    pub(super) fn end(&self) -> i64 {
        let rate = self.rate.0.max(1);
        let ns = quotient(self.left + u128::from(rate / 2), rate);
        self.at.saturating_add(self.latency).saturating_add(i64::try_from(ns).unwrap_or(i64::MAX))
    }

    /// When its first byte moves.
    pub(super) fn moves_from(&self) -> i64 {
        self.at.saturating_add(self.latency)
    }

    /// Billionths of bytes that have been moved at time `now`.
    pub(super) fn place(&self, now: i64) -> i128 {
        let mut then = *self;
        then.advance(now);
        i128::from(self.bytes) * NANO.cast_signed() - then.left.cast_signed()
    }

    /// Bytes that have been moved at time `now`.
    pub(super) fn moved(&self, now: i64) -> u64 {
        let mut then = *self;
        then.advance(now);
        self.bytes - u64::try_from(then.left.div_ceil(NANO)).unwrap_or(self.bytes).min(self.bytes)
    }
}

/// The compute units of one device.
#[derive(Debug, Default)]
pub(super) struct Compute {
    queue: Queue,
    /// What runs, and whether it fills the device.
    n_running: u32,
    full_runs: bool,
    /// What runs on each lane of the timeline, or [`NONE`].
    lanes: Vec<NodeId>,
}

/// How far a staged copy is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StagingState {
    /// The node could run.
    pub(super) ready: bool,
    /// Chunks that the thread has staged, or given to the engine on the way out.
    pub(super) staged: u32,
    /// Chunks that the engine has moved.
    pub(super) moved: u32,
}

impl Sim<'_> {
    pub(super) fn queue_engine(&mut self, engine: EngineId, node: NodeId, part: u32) {
        self.engines[engine.index()].queue.push(Reverse((self.now, node, part)));
        self.free_engines.push(engine.0);
    }

    pub(super) fn queue_compute(&mut self, dev: u16, node: NodeId) {
        let dev = u32::from(dev);
        self.computes[dev as usize].queue.push(Reverse((self.now, node, 0)));
        self.free_computes.push(dev);
    }

    pub(super) fn dispatch_engines(&mut self) {
        while let Some(engine) = self.free_engines.pop() {
            let state = &mut self.engines[engine as usize];
            if state.job.is_some() {
                continue;
            }
            let Some(Reverse((_, node, part))) = state.queue.pop() else { continue };
            let (bytes, alone, way) = self.part(node, part);
            let start = self.now;
            let latency = self.latency(node, bytes).saturating_add(self.fetch_changed(node));
            let job = Job::new((node, part), start, (bytes, alone), latency, way);
            self.engines[engine as usize].job = Some(job);
            self.link_takes(engine, way);
            let progress = &mut self.nodes[node as usize];
            progress.at = progress.at.min(start);
            self.transfer_begins(engine, node, part, bytes);
            if self.shares_with_kernels(engine) {
                self.rerate_link(EngineId(engine).dev());
            } else {
                self.rerate(engine);
                self.rerate_partner(engine);
            }
        }
    }

    fn link_takes(&mut self, engine: u32, way: Option<Way>) {
        if let Some(way) = way {
            self.links.carried[EngineId(engine).dev() as usize][way as usize] += 1;
            self.busy_links += 1;
        }
    }

    fn link_gives_up(&mut self, engine: u32, way: Option<Way>) {
        if let Some(way) = way {
            self.links.carried[EngineId(engine).dev() as usize][way as usize] -= 1;
            self.busy_links -= 1;
        }
    }

    fn shares_with_kernels(&self, engine: u32) -> bool {
        !self.low.mapped.is_empty() && self.is_reached_over(EngineId(engine).dev())
    }

    /// Bytes and rate of one part of a node, and the direction of the link to the host that it takes, if it does.
    fn part(&self, node: NodeId, part: u32) -> (u64, Rate, Option<Way>) {
        let m = self.machine;
        let (there, back) = (Some(Way::ToDevice), Some(Way::ToHost));
        match self.nodes[node as usize].work {
            Work::Dma { bytes, rate, .. } => {
                let way = match rate {
                    Alone::ToDevice | Alone::PageableToDevice => there,
                    Alone::ToHost | Alone::PageableToHost => back,
                    Alone::Peer => None,
                };
                (bytes, rate.rate(m), way)
            }
            Work::TwoHops { .. } if part == 0 => (self.says(node).bytes, m.d2h_bw, back),
            Work::TwoHops { .. } => (self.says(node).bytes, m.h2d_bw, there),
            Work::StageIn { staging, .. } => {
                (self.low.stagings[staging as usize].chunk_bytes(part), m.h2d_bw, there)
            }
            Work::StageOut { staging, .. } => {
                (self.low.stagings[staging as usize].chunk_bytes(part), m.d2h_bw, back)
            }
            _ => unreachable!("bug: work without a copy engine was given to one"),
        }
    }

    /// The latency before one part of a node, or before each of the chunks that are moved as one.
    fn latency(&self, node: NodeId, bytes: u64) -> i64 {
        let n = match self.nodes[node as usize].work {
            Work::StageIn { staging, .. } | Work::StageOut { staging, .. }
                if !self.low.stagings[staging as usize].inline =>
            {
                bytes.div_ceil(self.machine.stage_chunk.0.max(1))
            }
            _ => 1,
        };
        self.machine.lat.0.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// The engine of the other direction on the same device.
    fn partner(engine: u32) -> Option<u32> {
        match engine % EngineId::PER_DEVICE {
            0 => Some(engine + 1),
            1 => Some(engine - 1),
            _ => None,
        }
    }

    fn rerate_partner(&mut self, engine: u32) {
        if let Some(partner) = Self::partner(engine)
            && self.engines[partner as usize].job.is_some()
            && self.bidirectional(partner) != Ratio::ONE
        {
            self.rerate(partner);
        }
    }

    fn bidirectional(&self, engine: u32) -> Ratio {
        match engine % EngineId::PER_DEVICE {
            0 => self.machine.bidir_factor_h2d,
            1 => self.machine.bidir_factor_d2h,
            _ => Ratio::ONE,
        }
    }

    /// Gives an engine's copy the rate that it has from now on, and plans its end.
    pub(super) fn rerate(&mut self, engine: u32) {
        self.rates_change();
        let now = self.now;
        let state = &mut self.engines[engine as usize];
        let Some(job) = &mut state.job else { return };
        let rate = match job.way {
            Some(way) => self.links.share(self.machine, EngineId(engine).dev(), way, job.alone),
            None => job.alone,
        };
        job.go_on_at(Rate(rate.0.max(1)), now);
        state.epoch = state.epoch.wrapping_add(1);
        let (end, epoch, node) = (job.end(), state.epoch, job.node);
        let command = self.nodes[node as usize].command;
        self.plan_at(end, Event::Engine { engine, epoch }, command);
    }

    pub(super) fn engine_event(&mut self, engine: u32, epoch: u32) {
        let state = &self.engines[engine as usize];
        let Some(job) = state.job.filter(|_| !state.is_stale(epoch)) else { return };
        self.transfer_ends(engine);
        self.engines[engine as usize].job = None;
        self.link_gives_up(engine, job.way);
        self.free_engines.push(engine);
        if self.shares_with_kernels(engine) {
            self.rerate_link(EngineId(engine).dev());
        } else {
            self.rerate_partner(engine);
        }
        self.record_job(EngineId(engine), &job);
        self.forget_written(job.node);
        match self.nodes[job.node as usize].work {
            Work::TwoHops { to, .. } if job.part == 0 => self.queue_engine(to, job.node, 1),
            Work::StageIn { staging, .. } => self.chunk_in_moved(staging),
            Work::StageOut { staging, .. } => self.chunk_out_moved(staging),
            _ => self.complete(job.node),
        }
    }

    pub(super) fn dispatch_computes(&mut self) {
        while let Some(dev) = self.free_computes.pop() {
            while let Some(&Reverse((arrived, node, _))) = self.computes[dev as usize].queue.peek() {
                let (ns, full, reaches) = match self.nodes[node as usize].work {
                    Work::Compute { ns, full, .. } => (ns, full, false),
                    Work::Mapped { full, at, .. } => (self.low.mapped[at as usize].ns, full, true),
                    _ => unreachable!("bug: other work was given to compute units"),
                };
                let state = &mut self.computes[dev as usize];
                let fits = if full {
                    state.n_running == 0
                } else {
                    !state.full_runs && state.n_running < self.machine.max_resident_grids
                };
                // First come, first served: what does not fit holds back what came later.
                if !fits {
                    break;
                }
                state.queue.pop();
                state.n_running += 1;
                state.full_runs = full;
                match state.lanes.iter_mut().find(|lane| **lane == NONE) {
                    Some(lane) => *lane = node,
                    None => state.lanes.push(node),
                }
                let start = self.now.max(arrived.saturating_add(self.machine.kernel_start_gap.0));
                self.nodes[node as usize].at = start;
                self.kernel_begins(node, start);
                let command = self.nodes[node as usize].command;
                if reaches {
                    self.plan_at(start, Event::Mapped(node), command);
                }
                self.plan_at(start.saturating_add(ns), Event::Compute(node), command);
            }
        }
    }

    pub(super) fn compute_done(&mut self, node: NodeId) {
        let (Work::Compute { dev, .. } | Work::Mapped { dev, .. }) = self.nodes[node as usize].work else {
            unreachable!("bug: other work was given to compute units")
        };
        self.work_ends(node);
        let state = &mut self.computes[usize::from(dev)];
        state.n_running -= 1;
        state.full_runs = false;
        let lane = state.lanes.iter().position(|&runs| runs == node).unwrap_or(0);
        state.lanes[lane] = NONE;
        self.record_compute(u32::from(dev), lane, node);
        self.forget_written(node);
        self.free_computes.push(u32::from(dev));
        self.complete(node);
    }

    /// A pageable copy's node could run: what is staged goes to the engine.
    pub(super) fn stage_in_begins(&mut self, engine: EngineId, staging: u32) {
        let state = &mut self.stagings[staging as usize];
        state.ready = true;
        let node = self.low.stagings[staging as usize].node;
        for part in 0..state.staged {
            self.queue_engine(engine, node, part);
        }
    }

    /// The thread has staged one more chunk.
    pub(super) fn chunk_staged(&mut self, staging: u32) {
        let node = self.low.stagings[staging as usize].node;
        let Work::StageIn { engine, .. } = self.nodes[node as usize].work else {
            unreachable!("bug: a staging belongs to a staged copy")
        };
        let state = &mut self.stagings[staging as usize];
        state.staged += 1;
        let part = state.staged - 1;
        if state.ready {
            self.queue_engine(engine, node, part);
        }
    }

    fn chunk_in_moved(&mut self, staging: u32) {
        let copy = self.low.stagings[staging as usize];
        if !copy.inline {
            self.give_slot(copy.thread);
        }
        let state = &mut self.stagings[staging as usize];
        state.moved += 1;
        if state.moved == copy.n_chunks() {
            self.complete(copy.node);
        }
    }

    pub(super) fn stage_out_begins(&mut self, staging: u32) {
        self.stagings[staging as usize].ready = true;
        self.ask_for_chunks(staging);
    }

    /// Lets the engine bring as many chunks as there are slots for.
    pub(super) fn ask_for_chunks(&mut self, staging: u32) {
        let copy = self.low.stagings[staging as usize];
        let Work::StageOut { engine, .. } = self.nodes[copy.node as usize].work else {
            unreachable!("bug: a staging belongs to a staged copy")
        };
        while self.stagings[staging as usize].ready
            && self.stagings[staging as usize].staged < copy.n_chunks()
            && self.threads[copy.thread as usize].slots > 0
        {
            self.threads[copy.thread as usize].slots -= 1;
            let part = self.stagings[staging as usize].staged;
            self.stagings[staging as usize].staged += 1;
            self.queue_engine(engine, copy.node, part);
        }
    }

    fn chunk_out_moved(&mut self, staging: u32) {
        self.stagings[staging as usize].moved += 1;
        self.wake(self.low.stagings[staging as usize].thread, Act::StageOut { staging });
    }
}
