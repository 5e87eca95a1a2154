//! Which operation runs next.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use crate::config::Scheduler;

use super::op::Work;
use super::state::State;
use super::{Session, Shared};

/// A small generator (xorshift64*): the same numbers everywhere.
#[derive(Debug)]
pub(crate) struct Rng {
    state: u64,
    /// A stream is stalled at one call in this many: some seeds starve, some hardly do.
    patience: u64,
}

impl Rng {
    /// Seeds are mixed first: small ones would otherwise begin alike.
    pub(crate) fn new(scheduler: Scheduler) -> Rng {
        let seed = if let Scheduler::Seeded(seed) = scheduler { seed } else { 0 };
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mut rng = Rng { state: (mixed ^ (mixed >> 31)) | 1, patience: 1 };
        rng.patience = 8 << rng.below(6);
        rng
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

impl State {
    fn done(&self, op: u64) -> bool {
        !self.ops.contains_key(&op)
    }

    fn ready(&self, op: u64) -> bool {
        self.ops.get(&op).is_some_and(|op| op.after.iter().all(|before| self.done(*before)))
    }

    /// Everything that must run for `targets` to have run, in an order in which it may.
    fn needed(&self, targets: &[u64]) -> BTreeSet<u64> {
        let mut needed = BTreeSet::new();
        let mut open: Vec<u64> = targets.to_vec();
        while let Some(id) = open.pop() {
            if let Some(op) = self.ops.get(&id)
                && needed.insert(id)
            {
                open.extend(&op.after);
            }
        }
        needed
    }

    /// The first operations of all streams that may run now.
    fn heads(&self) -> Vec<u64> {
        let heads = self.streams.iter().filter_map(|s| s.queue.front().copied());
        heads.filter(|id| self.ready(*id) && !self.ops[id].started).collect()
    }
}

impl Session<'_> {
    /// What the scheduler does of its own accord around a call.
    pub(crate) fn progress(&mut self) {
        match self.config.scheduler {
            Scheduler::Lazy => {}
            Scheduler::Eager => self.run_ready(),
            Scheduler::Seeded(_) => self.stroll(),
            Scheduler::Threads(_) => self.shared.changed.notify_all(),
        }
    }

    /// Runs everything that can run.
    fn run_ready(&mut self) {
        loop {
            let heads = self.heads();
            if heads.is_empty() {
                return;
            }
            for head in heads {
                self.start(head);
            }
        }
    }

    /// Some steps of some streams, with streams left alone for long stretches. Host functions are not begun here: when
    /// they return is the system's choice, and the order must not hang on it.
    fn stroll(&mut self) {
        let now: u64 = self.calls.values().sum();
        for stream in 0..self.streams.len() {
            let patience = self.rng.patience;
            if self.streams[stream].stalled_until <= now && self.rng.below(patience) == 0 {
                let stretch = 1 << self.rng.below(9);
                self.streams[stream].stalled_until = now + stretch;
            }
        }
        let steps = match self.rng.below(4) {
            0 | 1 => 0,
            2 => 1,
            _ => self.rng.below(8),
        };
        for _ in 0..steps {
            let mut heads = self.heads();
            heads.retain(|id| {
                let op = &self.ops[id];
                !matches!(op.work, Work::Host { .. }) && self.streams[op.stream].stalled_until <= now
            });
            if heads.is_empty() {
                return;
            }
            let head = self.pick(&heads);
            self.start(head);
        }
    }

    /// One of several.
    fn pick(&mut self, from: &[u64]) -> u64 {
        let choice = usize::try_from(self.rng.below(from.len() as u64)).unwrap_or(0);
        from[choice]
    }

    /// Waits until `targets` have run. What runs besides what they need is the scheduler's choice.
    pub(crate) fn run_until(&mut self, targets: &[u64]) {
        if matches!(self.config.scheduler, Scheduler::Threads(_)) {
            self.shared.changed.notify_all();
            while targets.iter().any(|id| !self.done(*id)) {
                self.wait();
            }
            return;
        }
        let needed = self.needed(targets);
        if matches!(self.config.scheduler, Scheduler::Seeded(_)) {
            self.wander(&needed);
        }
        for id in needed {
            if self.ready(id) && !self.ops[&id].started {
                self.start(id);
            }
            while !self.done(id) {
                if !self.collect(id) {
                    self.wait();
                }
            }
        }
    }

    /// Runs what is needed in an order drawn from the seed, with other work between, up to host functions: whoever waits
    /// for those waits for the system too.
    fn wander(&mut self, needed: &BTreeSet<u64>) {
        let now: u64 = self.calls.values().sum();
        loop {
            if self.rng.below(4) == 0 {
                self.stroll();
            }
            let mut heads = self.heads();
            heads.retain(|id| needed.contains(id) && !matches!(self.ops[id].work, Work::Host { .. }));
            let awake = |id: &u64| self.streams[self.ops[id].stream].stalled_until <= now;
            let lively: Vec<u64> = heads.iter().copied().filter(awake).collect();
            // A stalled stream moves when nothing else can.
            let choices = if lively.is_empty() { heads } else { lively };
            if choices.is_empty() {
                return;
            }
            let head = self.pick(&choices);
            self.start(head);
        }
    }

    /// Whether `targets` have run; where not, one step towards it, so that whoever polls gets there.
    pub(crate) fn poll(&mut self, targets: &[u64]) -> bool {
        let needed = self.needed(targets);
        if needed.is_empty() {
            return true;
        }
        if matches!(self.config.scheduler, Scheduler::Threads(_)) {
            return false;
        }
        for id in needed {
            if self.ops[&id].started {
                if self.collect(id) {
                    break;
                }
            } else if self.ready(id) {
                self.start(id);
                break;
            }
        }
        targets.iter().all(|id| self.done(*id)) && matches!(self.config.scheduler, Scheduler::Eager)
    }

    /// Ends a host function that returned; false where it did not.
    fn collect(&mut self, id: u64) -> bool {
        let returned =
            self.ops.get(&id).is_some_and(|op| matches!(op.work, Work::Host { returned: true, .. }));
        if returned {
            self.finish_op(id);
        }
        returned
    }

    /// Gives the lock away until something ran.
    fn wait(&mut self) {
        let guard = self.guard.take().expect("a session has the lock");
        self.guard = Some(self.shared.changed.wait(guard).unwrap_or_else(PoisonError::into_inner));
    }

    /// Runs an operation that may run; a host function is only begun.
    fn start(&mut self, id: u64) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.started = true;
        let device = op.device;
        let callback = if let Work::Host { callback, .. } = &mut op.work { callback.take() } else { None };
        let Some(callback) = callback else {
            self.finish_op(id);
            return;
        };
        let shared = Arc::clone(self.shared);
        callback.start(device, move || shared.host_function_returned(id));
    }

    /// Gives every stream its thread, where streams have threads.
    pub(crate) fn serve_all(&self) {
        for stream in 0..self.streams.len() {
            self.serve(stream);
        }
    }

    /// Gives a new stream its thread, where streams have threads.
    pub(crate) fn serve(&self, stream: usize) {
        let Scheduler::Threads(delay) = self.config.scheduler else { return };
        let (shared, life, served) =
            (Arc::downgrade(self.shared), self.life, Arc::clone(&self.shared.served));
        served.fetch_add(1, Ordering::Relaxed);
        thread::spawn(move || {
            while shared.upgrade().is_some_and(|shared| shared.work((life, stream), delay)) {}
            served.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

impl Shared {
    fn session<'s>(self: &'s Arc<Self>) -> Session<'s> {
        Session {
            shared: self,
            guard: Some(self.lock()),
            call: "",
            thread: thread::current().id(),
            device: 0,
        }
    }

    fn host_function_returned(self: &Arc<Self>, id: u64) {
        let mut session = self.session();
        if let Some(Work::Host { returned, .. }) = session.ops.get_mut(&id).map(|op| &mut op.work) {
            *returned = true;
        }
        match session.config.scheduler {
            Scheduler::Eager => {
                session.collect(id);
                session.run_ready();
            }
            Scheduler::Threads(_) => {
                session.collect(id);
            }
            // The order must not hang on when this thread comes here: whoever waits or polls ends it.
            Scheduler::Lazy | Scheduler::Seeded(_) => {}
        }
        self.changed.notify_all();
    }

    /// One step of the thread of a stream; false when there is nothing left to do for good: what begins anew gives its streams
    /// threads of their own.
    fn work(self: &Arc<Self>, (life, stream): (u64, usize), delay: u32) -> bool {
        let mut session = self.session();
        if life != session.life {
            return false;
        }
        let head = session.streams[stream].queue.front().copied();
        match head.filter(|id| session.ready(*id) && !session.ops[id].started) {
            None if head.is_none() && session.streams[stream].destroyed => false,
            None => {
                let guard = session.guard.take().expect("a session has the lock");
                // Not for ever: the engine may be given up meanwhile.
                drop(self.changed.wait_timeout(guard, Duration::from_millis(50)));
                true
            }
            Some(id) => {
                if delay > 0 {
                    let late = session.rng.below(u64::from(delay) + 1);
                    drop(session);
                    thread::sleep(Duration::from_micros(late));
                    session = self.session();
                }
                if life == session.life && session.ready(id) && !session.ops[&id].started {
                    session.start(id);
                }
                drop(session);
                self.changed.notify_all();
                true
            }
        }
    }
}
