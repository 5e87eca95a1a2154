//! Everything behind the lock.

use std::collections::{BTreeMap, HashMap};
use std::thread::{self, ThreadId};

use crate::clock::{Clock, Lane};
use crate::code::Code;
use crate::config::{Config, Fault};
use crate::report::{Report, Site, Violation, ViolationKind};

use super::Session;
use super::activity::Activities;
use super::device::Device;
use super::event::Event;
use super::launch::{Function, Module};
use super::memory::{Life, Memory};
use super::op::Op;
use super::pool::Pool;
use super::race::{Access, Touch};
use super::rule::Rule;
use super::schedule::Rng;
use super::stream::Stream;
use super::trace::Trace;

/// A host thread, as far as the driver knows it.
#[derive(Debug, Default)]
pub(crate) struct HostThread {
    pub(crate) current: Option<usize>,
    pub(crate) per_thread: HashMap<usize, usize>,
    pub(crate) lane: Lane,
    pub(crate) clock: Clock,
}

/// A fault and how much of it is left.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) fault: Fault,
    pub(crate) passed: u32,
    pub(crate) fired: u32,
}

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    /// How often the engine began anew.
    pub(crate) life: u64,
    pub(crate) config: Config,
    pub(crate) initialised: bool,
    pub(crate) devices: Vec<Device>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) events: Vec<Event>,
    pub(crate) memory: Memory,
    /// Those of the devices first, by their numbers.
    pub(crate) pools: Vec<Pool>,
    /// How often a pool had to ask the system for memory.
    pub(crate) mapped: u64,
    pub(crate) modules: Vec<Module>,
    pub(crate) functions: Vec<Function>,
    pub(crate) ops: BTreeMap<u64, Op>,
    pub(crate) next_op: u64,
    /// Operations run so far: the only time there is.
    pub(crate) ran: u64,
    pub(crate) order: Vec<u64>,
    pub(crate) calls: BTreeMap<&'static str, u64>,
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    pub(crate) faults: Vec<Armed>,
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) activities: Activities,
    /// What went with its context, in words.
    pub(crate) left_behind: Vec<String>,
    violations: Vec<Violation>,
    found: u64,
    lanes: Vec<String>,
    threads: HashMap<ThreadId, HostThread>,
    /// The one clock of all host threads, where they share one.
    host: HostThread,
}

impl State {
    pub(crate) fn new(config: Config, life: u64) -> State {
        let mut state = State {
            life,
            initialised: false,
            devices: Vec::new(),
            streams: Vec::new(),
            events: Vec::new(),
            memory: Memory::new(config.devices),
            pools: (0..config.devices).map(|device| Pool::new(device, true)).collect(),
            mapped: 0,
            modules: Vec::new(),
            functions: Vec::new(),
            ops: BTreeMap::new(),
            next_op: 0,
            ran: 0,
            order: Vec::new(),
            calls: BTreeMap::new(),
            kinds: BTreeMap::new(),
            faults: config.faults.iter().map(|f| Armed { fault: f.clone(), passed: 0, fired: 0 }).collect(),
            rng: Rng::new(config.scheduler),
            trace: Trace::new(config.trace),
            activities: Activities::default(),
            left_behind: Vec::new(),
            violations: Vec::new(),
            found: 0,
            lanes: vec!["host".to_owned()],
            threads: HashMap::new(),
            host: HostThread::default(),
            config,
        };
        for ordinal in 0..state.config.devices {
            let legacy = state.add_stream(ordinal, true, &format!("legacy stream of device {ordinal}"));
            state.devices.push(Device::new(legacy));
        }
        state
    }

    /// A new lane, named for reports.
    pub(crate) fn add_lane(&mut self, name: String) -> Lane {
        self.lanes.push(name);
        self.lanes.len() - 1
    }

    /// What a driver knows of a thread. A thread that calls for the first time knows what all others know: whoever made it
    /// had made their calls before.
    pub(crate) fn thread(&mut self, id: ThreadId) -> &mut HostThread {
        if !self.threads.contains_key(&id) {
            let mut clock = Clock::default();
            #[expect(clippy::iter_over_hash_type, reason = "a join is the same in any order")]
            for thread in self.threads.values() {
                clock.join(&thread.clock);
            }
            let lane = self.add_lane(format!("host thread {}", self.threads.len()));
            self.threads.insert(id, HostThread { lane, clock, ..HostThread::default() });
        }
        self.threads.entry(id).or_default()
    }

    /// The clock of the host as the thread `id` has it.
    pub(crate) fn host(&mut self, id: ThreadId) -> &mut HostThread {
        if self.config.host_threads { self.thread(id) } else { &mut self.host }
    }

    /// Whether everything that may still come knows step `seq` of `lane`: the host and all that is queued.
    pub(crate) fn settled(&self, lane: Lane, seq: u32) -> bool {
        let hosts = if self.config.host_threads {
            self.threads.values().all(|t| t.clock.knows(lane, seq))
        } else {
            self.host.clock.knows(lane, seq)
        };
        hosts && (!Rule::Queued.holds() || self.ops.values().all(|op| op.clock.knows(lane, seq)))
    }

    pub(crate) fn site(&self, access: &Access) -> Site {
        let lane = self.lanes.get(access.lane).map_or("?", String::as_str);
        Site {
            call: access.call.to_owned(),
            place: format!("op {} of {lane}", access.seq),
            range: (access.start, access.end - access.start),
            op: access.op,
        }
    }

    pub(crate) fn add_violation(
        &mut self,
        kind: ViolationKind,
        site: Site,
        other: Option<Site>,
        missing: String,
    ) {
        self.found += 1;
        // Of each kind by itself: a call that a host function repeats hides no race.
        if self.violations.iter().filter(|v| v.kind == kind).count() < Report::KEPT {
            self.violations.push(Violation { kind, site, other, missing });
        }
    }

    /// A violation of one access alone.
    pub(crate) fn accuse(&mut self, kind: ViolationKind, access: &Access, missing: &str) {
        let site = self.site(access);
        self.add_violation(kind, site, None, missing.to_owned());
    }

    /// Holds an access against those before it, reports conflicts, and notes it.
    pub(crate) fn access(&mut self, access: Access, clock: &Clock) {
        let conflicts = self.memory.history(access.start).conflicts(&access, clock);
        for (kind, earlier) in conflicts {
            let (site, other) = (self.site(&access), self.site(&earlier));
            let missing = format!("nothing orders {} and {}", other.place, site.place);
            self.add_violation(kind, site, Some(other), missing);
        }
        let mut history = std::mem::take(self.memory.history(access.start));
        let start = access.start;
        history.note(access, clock, |lane, seq| self.settled(lane, seq));
        *self.memory.history(start) = history;
    }

    pub(crate) fn report(&self) -> Report {
        let named = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        Report {
            violations: self.violations.clone(),
            found: self.found,
            calls: named(&self.calls),
            ops: named(&self.kinds),
            order: self.order.clone(),
            pending: self.ops.len(),
            leaked: self.leaked(),
            mapped: self.mapped,
            trace: self.trace.commands(),
        }
    }

    /// The blocks of a device that nobody freed, in words.
    pub(crate) fn leaked_blocks(&self, device: usize) -> Vec<String> {
        let whose = |ordered| if ordered { "the pool of device" } else { "device" };
        let blocks = self.memory.blocks.values();
        blocks
            .filter(|b| b.device == device && b.life != Life::Freed && !b.doomed)
            .map(|b| format!("{} bytes of {} {} at {:#x}", b.len, whose(b.pool.is_some()), b.device, b.start))
            .collect()
    }

    /// What nobody freed: what went with its context first.
    fn leaked(&self) -> Vec<String> {
        let blocks = (0..self.devices.len()).flat_map(|d| self.leaked_blocks(d));
        let how = |registered| if registered { "registered" } else { "pinned" };
        let hosts = self.memory.hosts.values().filter(|r| !r.freed);
        let hosts = hosts.map(|r| format!("{} {} bytes at {:#x}", r.len, how(r.registered), r.start));
        let pools = self.pools.iter().filter_map(Pool::left);
        self.left_behind.iter().cloned().chain(blocks).chain(hosts).chain(pools).collect()
    }

    /// The first armed fault that is due at `place` on `device`.
    pub(crate) fn due(&mut self, place: impl Fn(&str) -> bool, device: usize) -> Option<(Code, bool)> {
        for armed in &mut self.faults {
            if !place(&armed.fault.at) || armed.fault.device.is_some_and(|d| d != device) {
                continue;
            }
            armed.passed += 1;
            if armed.passed > armed.fault.after && armed.fired < armed.fault.times {
                armed.fired += 1;
                return Some((armed.fault.code, armed.fault.sticky));
            }
        }
        None
    }
}

impl Session<'_> {
    /// A violation that is the call itself.
    pub(crate) fn misuse(&mut self, kind: ViolationKind, missing: &str) {
        self.misuse_of(kind, 0, 0, missing);
    }

    /// A violation that is the call itself, with the range it names.
    pub(crate) fn misuse_of(&mut self, kind: ViolationKind, start: u64, end: u64, missing: &str) {
        let place = format!("{:?}", thread::current().id());
        let site = Site { call: self.call.to_owned(), place, range: (start, end - start), op: self.next_op };
        self.add_violation(kind, site, None, missing.to_owned());
    }

    /// The fault that a test put at this function.
    pub(crate) fn api_fault(&mut self) -> Result<(), Code> {
        let (call, device) = (self.call, self.device);
        match self.due(|at| at == call, device) {
            Some((code, sticky)) => {
                if sticky {
                    self.devices[device].sticky = Some(code);
                }
                Err(code)
            }
            None => Ok(()),
        }
    }

    /// The step of the calling thread at which it touches memory itself, or frees it.
    pub(crate) fn host_step(&mut self, start: u64, end: u64, touch: Touch) -> (Access, Clock) {
        let (thread, call, op) = (self.thread, self.call, self.next_op);
        let host = self.host(thread);
        let (lane, seq) = (host.lane, host.clock.tick(host.lane));
        (Access { start, end, touch, lane, seq, op, call }, host.clock.clone())
    }

    pub(crate) fn host_touch(&mut self, start: u64, len: u64, write: bool) {
        if len > 0 && Rule::Host.holds() {
            let touch = if write { Touch::Write } else { Touch::Read };
            let (access, clock) = self.host_step(start, start.saturating_add(len), touch);
            self.access(access, &clock);
        }
    }
}
