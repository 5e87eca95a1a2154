//! What each command does to order and to memory: the contract's table of effects, one method or line for each.

use std::rc::Rc;

use super::access::Access;
use super::capture::{Capture, Graph};
use super::clock::{Clock, Epoch};
use super::found::{Evidence, Found, HazardKind, Key};
use super::history::History;
use super::order::Order;
use super::relation::{Life as LifeStep, Part, Step, StepId};
use super::rules::{Mutation, Rule, Rules};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec};
use crate::program::{
    Alloc, AllocVia, BufferId, Command, Copy, EventId, FreeVia, GraphId, Kernel, Names, Op, Program, Region,
    Space, StreamId, ThreadId,
};

/// What a buffer is and where it stands in its life.
#[derive(Debug)]
struct Life {
    space: Space,
    via: AllocVia,
    /// The first buffer that had its physical block.
    block: BufferId,
    /// The node of a stream-ordered allocation and its command.
    birth: Option<(Epoch, usize)>,
    freed_by: Option<usize>,
    /// What knows of the death node, where the free has one.
    death: Option<Box<Clock>>,
    /// What its caching pool keeps.
    pooled: Option<Box<Pooled>>,
}

/// What a caching pool keeps of a buffer.
#[derive(Debug, Default)]
struct Pooled {
    /// Streams that it will wait for.
    noted: BTreeSet<StreamId>,
    /// Their frontiers, as they were at the free.
    kept: Vec<Clock>,
}

/// What an event holds.
#[derive(Debug)]
enum Held {
    /// The node of its latest record.
    Node(Clock, StreamId),
    /// A place in a capture, given by its number.
    Captured(usize, Clock),
}

/// The walk over a program, command by command; it keeps nothing of a command but the regions that it touches.
#[derive(Debug)]
pub(super) struct Walk {
    rules: Rules,
    order: Order,
    /// By buffer, as far as they are declared.
    lives: Vec<Option<Life>>,
    history: History,
    events: BTreeMap<EventId, Held>,
    /// Captures under way, by number.
    captures: BTreeMap<usize, Capture>,
    n_captures: usize,
    /// The capture that each capturing stream takes part in.
    capturing: BTreeMap<StreamId, usize>,
    graphs: BTreeMap<GraphId, Graph>,
    found: Found,
    /// Every step so far, where somebody wants the relation.
    steps: Option<Vec<Step>>,
}

/// Every step of a program with what it knows.
pub(super) fn steps(program: &Program, rules: Rules) -> Vec<Step> {
    let mut walk = Walk::new(rules, last_calls(program));
    walk.steps = Some(Vec::new());
    for (index, command) in program.commands().iter().enumerate() {
        walk.step(index, command, program.names());
    }
    walk.steps.unwrap_or_default()
}

/// One past the last command that each thread calls.
pub(super) fn last_calls(program: &Program) -> Option<Vec<usize>> {
    let mut last = vec![0; program.names().n_threads()];
    for (index, command) in program.commands().iter().enumerate() {
        last[command.thread.index()] = index + 1;
    }
    Some(last)
}

/// Which clock an access belongs to.
#[derive(Debug, Clone, Copy)]
enum At {
    Host(ThreadId),
    Stream(StreamId),
}

impl Walk {
    /// A walk that has seen nothing; `last_calls` lets it forget more, where what follows is known.
    pub(super) fn new(rules: Rules, last_calls: Option<Vec<usize>>) -> Walk {
        Walk {
            rules,
            order: Order::new(rules, last_calls),
            lives: Vec::new(),
            history: History::new(rules),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            n_captures: 0,
            capturing: BTreeMap::new(),
            graphs: BTreeMap::new(),
            found: Found::default(),
            steps: None,
        }
    }

    pub(super) fn into_found(self) -> Found {
        self.found
    }

    /// Takes in the next command.
    ///
    /// It has passed the check of form, as have all before it.
    pub(super) fn step(&mut self, index: usize, command: &Command, names: &Names) {
        let t = command.thread;
        if let Some(s) = command.op.stream() {
            self.order.meet(s, names);
        }
        if !returns_late(command) {
            self.call(index, t);
        }
        match &command.op {
            &Op::Stream { stream, dev, kind, .. } => self.order.create(stream, dev, kind),
            // Time, hints and names order nothing.
            &Op::StreamDestroy { stream } if self.rules.stray(Mutation::DestroySyncs) => {
                self.join_frontier(t, stream);
            }
            Op::StreamDestroy { .. } | Op::HostSleep { .. } | Op::HostWork { .. } | Op::Mark => {}

            Op::Kernel(Kernel { stream, reads, writes, .. }) | Op::HostFn { stream, reads, writes, .. } => {
                self.run(index, t, *stream, reads, writes);
            }
            Op::Memset { stream, dst, sync, .. } => self.memset(index, t, *stream, dst, *sync),
            Op::Copy(copy) => self.copy(index, t, copy),
            Op::HostRead { .. } | Op::HostWrite { .. } | Op::HostCopy { .. } => {
                let (reads, writes) = command.op.regions();
                self.touch_on_host(index, t, reads, writes);
            }

            Op::Alloc(alloc) => self.alloc(index, t, alloc),
            &Op::Free { buffer, via, stream } => self.free(index, t, buffer, via, stream),
            &Op::RecordStream { buffer, stream } => {
                if self.rules.hold(Rule::NotedStream) {
                    self.note(buffer, stream);
                }
            }

            // A created or destroyed event holds nothing.
            Op::EventCreate { event } | Op::EventDestroy { event } => {
                if !self.rules.stray(Mutation::DestroyedStillHolds) {
                    self.events.remove(event);
                }
            }
            &Op::Record { event, stream } => self.record(index, t, stream, event),
            &Op::Wait { stream, event } => self.wait(index, t, stream, event),
            &Op::EventSync { event } => self.join_event(t, event, Rule::EventSync),
            &Op::EventQuery { event, ready: true } => self.join_event(t, event, Rule::EventQuery),
            &Op::StreamSync { stream } => self.join_stream(t, stream, Rule::StreamSync),
            &Op::StreamQuery { stream, ready: true } => self.join_stream(t, stream, Rule::StreamQuery),
            &Op::EventQuery { event, .. } if self.rules.stray(Mutation::NotReadyOrders) => {
                self.join_event(t, event, Rule::EventQuery);
            }
            &Op::StreamQuery { stream, .. } if self.rules.stray(Mutation::NotReadyOrders) => {
                self.join_stream(t, stream, Rule::StreamQuery);
            }
            // What was seen unfinished is not ordered.
            Op::EventQuery { ready: false, .. } | Op::StreamQuery { ready: false, .. } => {}
            &Op::DeviceSync { dev } => {
                if self.rules.hold(Rule::DeviceSync) {
                    self.order.host_joins_device(t, dev);
                }
            }

            &Op::ThreadSpawn { thread } => self.order.spawn(thread),
            &Op::ThreadJoin { thread } => self.order.join(thread),
            &Op::Signal { channel } => self.order.signal(t, channel),
            &Op::Await { channel } => self.order.receive(t, channel),

            &Op::CaptureBegin { stream } => {
                self.capturing.insert(stream, self.n_captures);
                self.captures.insert(self.n_captures, Capture::begin(stream));
                self.n_captures += 1;
            }
            &Op::CaptureEnd { stream, graph } => self.end_capture(stream, graph),
            &Op::GraphLaunch { graph, stream } => self.launch(index, t, graph, stream),
        }
        self.call(index, t);
    }

    /// Notes the call of a command, once; it is a node of its own, since a thread's clock may not have changed.
    fn call(&mut self, index: usize, t: ThreadId) {
        let Some(steps) = &mut self.steps else { return };
        let is_new = |step: &Step| step.id.command != index;
        if steps.last().is_none_or(is_new) {
            let host = self.order.host(t);
            host.tick();
            steps.push(Step::new(StepId { command: index, part: Part::Call }, host.clone()));
        }
    }

    /// Notes work at the frontier of a stream.
    fn work(&mut self, index: usize, s: StreamId) {
        if self.steps.is_some() {
            let node = self.order.frontier(s).clone();
            self.work_at(index, &node);
        }
    }

    /// Notes work that is this node.
    fn work_at(&mut self, index: usize, node: &Clock) {
        if let Some(steps) = &mut self.steps {
            let id = StepId { command: index, part: Part::Work };
            steps.push(Step::new(id, node.clone()));
        }
    }

    /// The step noted last.
    fn noted(&mut self) -> Option<&mut Step> {
        self.steps.as_mut()?.last_mut()
    }

    /// Accesses in a node at the frontier of a stream, or in a node of the graph that the stream is captured into.
    fn run(&mut self, index: usize, t: ThreadId, s: StreamId, reads: &[Region], writes: &[Region]) {
        if !self.captured(index, s, reads, writes) {
            self.order.enqueue(s, t, &[]);
            self.work(index, s);
            self.touch(index, At::Stream(s), reads, writes);
        }
    }

    fn memset(&mut self, index: usize, t: ThreadId, s: StreamId, dst: &Region, sync: bool) {
        let captured = self.capturing.contains_key(&s);
        self.run(index, t, s, &[], std::slice::from_ref(dst));
        let on_device = self.life(dst.buffer).space == Space::Device;
        let returns = !on_device || self.rules.stray(Mutation::MemsetAlwaysReturns);
        if sync && !captured && returns && self.rules.hold(Rule::MemsetReturns) {
            self.join_frontier(t, s);
        }
    }

    fn copy(&mut self, index: usize, t: ThreadId, copy: &Copy) {
        let s = copy.stream;
        let (src, dst) = (std::slice::from_ref(&copy.src), std::slice::from_ref(&copy.dst));
        if self.captured(index, s, src, dst) {
            return;
        }
        for region in [&copy.src, &copy.dst] {
            let is_told = !copy.untracked || self.rules.stray(Mutation::UntrackedNoted);
            let tracked = is_told && self.life(region.buffer).via == AllocVia::PinnedPool;
            if tracked && !region.span.is_empty() && self.rules.hold(Rule::NotedCopy) {
                self.note(region.buffer, s);
            }
        }
        if copy.peer && (copy.sync || self.rules.stray(Mutation::PeerAlwaysFences)) {
            self.call(index, t);
            self.order.enqueue_peer(s, t);
            self.work(index, s);
            self.touch(index, At::Stream(s), src, dst);
            return;
        }
        if self.rules.loosens(copy.sync) {
            self.call(index, t);
            let node = self.order.enqueue_loose(s, t);
            self.work_at(index, &node);
            self.touch_at(index, &node, src, dst);
            return;
        }
        let space = |region: &Region| match self.life(region.buffer).space {
            Space::Pinned => Side::Pinned,
            Space::Pageable => Side::Pageable,
            Space::Device | Space::Managed => Side::Device,
        };
        use Side::{Device, Pageable, Pinned};
        let hold = |rule| self.rules.hold(rule);
        #[rustfmt::skip]
        let (source, on_return) = match (space(&copy.src), space(&copy.dst), copy.sync) {
            (Pinned | Pageable, Pinned | Pageable, _) if hold(Rule::HostCopyReturns) => (Source::InNode,    true),
            (Pageable, Device, true)                  if hold(Rule::StagedSync)      => (Source::AfterSync, false),
            (Pageable, Device, false)                 if hold(Rule::StagedRead)      => (Source::AtCall,    false),
            (Pinned, Device, true)                    if hold(Rule::SyncFromPinned)  => (Source::InNode,    true),
            (Device, Pinned | Pageable, true)         if hold(Rule::SyncToHost)      => (Source::InNode,    true),
            (Device, Pageable, false)                 if hold(Rule::PageableArrives) => (Source::InNode,    true),
            (Device, Device, true) if self.rules.stray(Mutation::SyncWithinDevice)   => (Source::InNode,    true),
            _                                                                        => (Source::InNode,    false),
        };
        if source != Source::AfterSync {
            self.call(index, t);
        }
        match source {
            Source::InNode => self.run(index, t, s, src, dst),
            Source::AfterSync => {
                self.order.host_joins_stream(t, s);
                self.touch_on_host(index, t, src, &[]);
                self.run(index, t, s, &[], dst);
            }
            Source::AtCall => {
                // Over when the call returns, and still after what the stream had to do: no mode takes a guarantee back.
                self.order.host(t).tick();
                let own = self.order.host(t).clone();
                self.order.enqueue(s, t, &[]);
                let after = self.order.frontier(s).clone();
                let source = Rc::new(copy.src.clone());
                if let Some(call) = self.noted() {
                    call.touch(&source, false);
                    call.comes_also_after(&after);
                }
                self.add(&Access { region: source, write: false, op: index, named_by: index }, &own, &after);
                self.work(index, s);
                self.touch(index, At::Stream(s), &[], dst);
            }
        }
        if on_return {
            self.join_frontier(t, s);
        }
    }

    fn alloc(&mut self, index: usize, t: ThreadId, alloc: &Alloc) {
        let reused = alloc.reuse.map(|old| self.life(old));
        let dies = self.rules.stray(Mutation::HistoryDies);
        let block = reused.filter(|_| !dies).map_or(alloc.buffer, |old| old.block);
        let mut life = Life {
            space: alloc.space,
            via: alloc.via,
            block,
            birth: None,
            freed_by: None,
            death: None,
            pooled: None,
        };
        match (alloc.via, alloc.stream) {
            (AllocVia::MallocAsync, Some(s)) => {
                let death = reused.and_then(|old| old.death.clone()).filter(|_| self.rules.hold(Rule::Reuse));
                self.order.enqueue(s, t, death.as_deref().as_slice());
                self.work(index, s);
                self.lives_with(LifeStep::Begins(alloc.buffer));
                life.birth = Some((self.order.frontier(s).epoch(), index));
            }
            (AllocVia::Malloc, _) if self.rules.stray(Mutation::AllocSyncs) => self.order.host_joins_all(t),
            (AllocVia::RawPool, _) if !self.rules.stray(Mutation::RawPoolWaits) => {}
            (AllocVia::Pool | AllocVia::PinnedPool | AllocVia::RawPool, _) => {
                let pooled = reused.and_then(|old| old.pooled.as_ref());
                let kept = match self.rules.stray(Mutation::KeptAtReuse) {
                    true => {
                        pooled.map(|p| p.noted.iter().map(|&s| self.order.frontier(s).clone()).collect_vec())
                    }
                    false => pooled.map(|pooled| pooled.kept.clone()),
                };
                for frontier in kept.unwrap_or_default() {
                    self.order.host_joins(t, &frontier);
                }
            }
            _ => {}
        }
        let k = alloc.buffer.index();
        if self.lives.len() <= k {
            self.lives.resize_with(k + 1, || None);
        }
        self.lives[k] = Some(life);
    }

    /// What is known of a declared buffer.
    fn life(&self, buffer: BufferId) -> &Life {
        let life = self.lives.get(buffer.index()).and_then(Option::as_ref);
        life.unwrap_or_else(|| unreachable!("bug: an undeclared buffer passed the check"))
    }

    fn life_mut(&mut self, buffer: BufferId) -> &mut Life {
        let life = self.lives.get_mut(buffer.index()).and_then(Option::as_mut);
        life.unwrap_or_else(|| unreachable!("bug: an undeclared buffer passed the check"))
    }

    fn free(&mut self, index: usize, t: ThreadId, buffer: BufferId, via: FreeVia, s: Option<StreamId>) {
        let &Life { space, via: allocated, block, .. } = self.life(buffer);
        let mut death = None;
        match (via, s) {
            (FreeVia::FreeAsync, Some(s)) => {
                self.order.enqueue(s, t, &[]);
                self.work(index, s);
                self.lives_with(LifeStep::Ends(buffer));
                death = Some(self.order.frontier(s).clone());
            }
            (FreeVia::Free | FreeVia::HostFree | FreeVia::Unregister | FreeVia::FreeAsync, _) => {
                let every = self.rules.stray(Mutation::EveryFreeWaits);
                let waits = every || (space != Space::Pageable && allocated != AllocVia::MallocAsync);
                if waits && self.rules.hold(Rule::FreeWaits) {
                    self.order.host_joins_all(t);
                }
                self.call(index, t);
                self.lives_with(LifeStep::Ends(buffer));
                let host = self.order.host(t);
                host.tick();
                death = Some(host.clone());
            }
            (FreeVia::RawPool, _) if !self.rules.stray(Mutation::RawPoolWaits) => {}
            (FreeVia::Pool | FreeVia::PinnedPool | FreeVia::RawPool, _) => {
                let frontier = |&s: &StreamId| self.order.frontier(s).clone();
                let noted = self.life(buffer).pooled.as_ref().map(|pooled| &pooled.noted);
                let kept: Vec<Clock> = noted.into_iter().flatten().map(frontier).collect_vec();
                if let Some(pooled) = &mut self.life_mut(buffer).pooled {
                    pooled.kept = kept;
                }
            }
        }
        let looks = !self.rules.stray(Mutation::DeathsUnseen) && !self.found.is_closed_to(index);
        if let Some(death) = death.as_ref().filter(|_| looks) {
            self.history.unknown_to(block.index(), buffer, death, |access| {
                self.found.lifetime(HazardKind::FreeInFlight, access.op, index, access);
            });
        }
        let life = self.life_mut(buffer);
        (life.freed_by, life.death) = (Some(index), death.map(Box::new));
    }

    /// The step noted last begins or ends a life.
    fn lives_with(&mut self, life: LifeStep) {
        if let Some(step) = self.noted() {
            step.life = Some(life);
        }
    }

    fn note(&mut self, buffer: BufferId, s: StreamId) {
        self.life_mut(buffer).pooled.get_or_insert_default().noted.insert(s);
    }

    fn record(&mut self, index: usize, t: ThreadId, s: StreamId, event: EventId) {
        let held = match self.capture_of(s) {
            Some((number, capture)) => Held::Captured(number, capture.record(s)),
            None => {
                if self.rules.hold(Rule::RecordActs) {
                    self.order.enqueue(s, t, &[]);
                    self.work(index, s);
                }
                Held::Node(self.order.recorded(s), s)
            }
        };
        if self.rules.stray(Mutation::FirstRecordStays) && self.events.contains_key(&event) {
            return;
        }
        self.events.insert(event, held);
    }

    fn wait(&mut self, index: usize, t: ThreadId, s: StreamId, event: EventId) {
        let rules = self.rules;
        match self.events.get(&event) {
            // Recorded in a capture that goes on: the stream takes part in it from now on.
            Some(Held::Captured(number, held)) if self.captures.contains_key(number) => {
                let number = *self.capturing.entry(s).or_insert(*number);
                if let Some(capture) = self.captures.get_mut(&number) {
                    capture.wait(s, held, rules);
                }
            }
            _ if self.capturing.contains_key(&s) => {}
            Some(&Held::Node(_, on)) if rules.stray(Mutation::WaitTakesStream) => {
                let now = self.order.frontier(on).clone();
                self.order.enqueue(s, t, &[&now]);
                self.work(index, s);
            }
            Some(Held::Node(held, _)) => {
                let after = Some(held).filter(|_| rules.hold(Rule::Wait));
                match rules.hold(Rule::WaitActs) {
                    true => self.order.enqueue(s, t, after.as_slice()),
                    false => self.order.hear(s, after.as_slice()),
                }
                self.work(index, s);
            }
            // For nothing: then there is no action, and no fence on a legacy stream either.
            _ if rules.stray(Mutation::EmptyWaitActs) => {
                self.order.enqueue(s, t, &[]);
                self.work(index, s);
            }
            _ => {}
        }
    }

    fn join_event(&mut self, t: ThreadId, event: EventId, rule: Rule) {
        if self.rules.hold(rule)
            && let Some(Held::Node(held, on)) = self.events.get(&event)
        {
            match self.rules.stray(Mutation::SyncTakesStream) {
                true => self.join_frontier(t, *on),
                false => self.order.host_joins(t, held),
            }
        }
    }

    fn join_stream(&mut self, t: ThreadId, s: StreamId, rule: Rule) {
        if self.rules.hold(rule) {
            self.order.host_joins_stream(t, s);
        }
    }

    /// The calling thread waits for the node that it has just put on `s`.
    fn join_frontier(&mut self, t: ThreadId, s: StreamId) {
        let node = self.order.frontier(s).clone();
        self.order.host_joins(t, &node);
    }

    fn capture_of(&mut self, s: StreamId) -> Option<(usize, &mut Capture)> {
        let number = *self.capturing.get(&s)?;
        self.captures.get_mut(&number).map(|capture| (number, capture))
    }

    /// Puts the accesses into a graph where stream `s` is being captured; says whether it is.
    fn captured(&mut self, index: usize, s: StreamId, reads: &[Region], writes: &[Region]) -> bool {
        let Some(&number) = self.capturing.get(&s) else { return false };
        let (lives, rules) = (&self.lives, self.rules);
        let Some(capture) = self.captures.get_mut(&number) else { return false };
        let block = |buffer: BufferId| lives[buffer.index()].as_ref().map_or(buffer, |life| life.block);
        let accesses =
            accesses(index, reads, writes).map(|a| (block(a.region.buffer), a)).map(|(b, a)| (a, b));
        capture.node(index, s, rules, accesses);
        true
    }

    fn end_capture(&mut self, s: StreamId, graph: GraphId) {
        let Some(number) = self.capturing.get(&s).copied() else { return };
        if let Some(capture) = self.captures.remove(&number) {
            capture.streams().for_each(|s| {
                self.capturing.remove(&s);
            });
            self.graphs.insert(graph, capture.end());
        }
    }

    fn launch(&mut self, index: usize, t: ThreadId, graph: GraphId, s: StreamId) {
        // Taken out while its accesses are put into the history.
        let Some(mut launched) = self.graphs.remove(&graph) else { return };
        let before = launched.launched.take().filter(|_| self.rules.hold(Rule::Relaunch));
        let mut before: Vec<&Clock> = before.iter().collect_vec();
        if self.rules.stray(Mutation::GraphsInLine) {
            before.extend(self.graphs.values().filter_map(|graph| graph.launched.as_ref()));
        }
        self.order.enqueue(s, t, &before);
        let is_closed = self.found.is_closed_to(index);
        let inner = launched.inner.pairs.iter().filter(|_| !is_closed);
        for (key, Evidence { certainty, first, second }) in inner {
            let [first, second] = [first, second].map(|access| Access { op: index, ..access.clone() });
            let key = Key { first: index, second: index, ..*key };
            self.found.add(key, Evidence { certainty: *certainty, first, second });
        }
        self.found.complete &= launched.inner.complete;
        let node = self.order.frontier(s).clone();
        for captured in &launched.nodes {
            if let Some(steps) = &mut self.steps {
                let id = StepId { command: index, part: Part::Captured(captured.op) };
                let mut step = Step::captured(id, node.clone(), captured.clock.clone());
                captured.accesses.iter().for_each(|a| step.touch(&a.region, a.write));
                steps.push(step);
            }
            for access in &captured.accesses {
                self.add(&Access { op: index, ..access.clone() }, &node, &node);
            }
        }
        launched.launched = Some(node);
        self.graphs.insert(graph, launched);
    }

    fn touch_on_host(&mut self, index: usize, t: ThreadId, reads: &[Region], writes: &[Region]) {
        self.call(index, t);
        self.order.host(t).tick();
        self.touch(index, At::Host(t), reads, writes);
    }

    fn touch(&mut self, index: usize, at: At, reads: &[Region], writes: &[Region]) {
        let clock = match at {
            At::Host(t) => self.order.host(t).clone(),
            At::Stream(s) => self.order.frontier(s).clone(),
        };
        self.touch_at(index, &clock, reads, writes);
    }

    fn touch_at(&mut self, index: usize, node: &Clock, reads: &[Region], writes: &[Region]) {
        for access in accesses(index, reads, writes) {
            if let Some(step) = self.noted() {
                step.touch(&access.region, access.write);
            }
            self.add(&access, node, node);
        }
    }

    /// One access of `own`'s last node, ordered after what `after` knows.
    fn add(&mut self, access: &Access, own: &Clock, after: &Clock) {
        let region = &access.region;
        if region.span.is_empty() {
            return;
        }
        let &Life { birth, freed_by, block, .. } = self.life(region.buffer);
        if let Some((birth, by)) = birth
            && !after.knows(birth)
            && !self.rules.stray(Mutation::BirthsUnseen)
        {
            self.found.lifetime(HazardKind::UseBeforeAlloc, by, access.op, access);
        }
        if let Some(by) = freed_by.filter(|_| !self.rules.stray(Mutation::FreedUnseen)) {
            self.found.lifetime(HazardKind::UseAfterFree, by, access.op, access);
        }
        let (lives, order) = (&self.lives, &self.order);
        self.history.add(
            block.index(),
            access,
            own,
            after,
            |buffer| lives[buffer.index()].as_ref().is_some_and(|life| life.freed_by.is_some()),
            |node| order.is_known_to_all(node, access.op),
            &mut self.found,
        );
    }
}

/// A side of a copy, as the table of copies has them.
#[derive(Debug, Clone, Copy)]
enum Side {
    Pinned,
    Pageable,
    /// Device or managed memory.
    Device,
}

/// When a copy reads its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// As it runs.
    InNode,
    /// In the call, on the host.
    AtCall,
    /// In the call, which waits for the stream first.
    AfterSync,
}

/// Whether the call is told of when it returns: what it waits for is over by then.
fn returns_late(command: &Command) -> bool {
    match &command.op {
        Op::StreamSync { .. }
        | Op::StreamQuery { .. }
        | Op::EventSync { .. }
        | Op::EventQuery { .. }
        | Op::DeviceSync { .. }
        | Op::ThreadJoin { .. }
        | Op::Await { .. } => true,
        Op::Alloc(alloc) => alloc.via != AllocVia::MallocAsync,
        Op::Free { via, .. } => *via != FreeVia::FreeAsync,
        // It waits for its stream before it reads a pageable source.
        Op::Copy(copy) => copy.sync,
        _ => false,
    }
}

fn accesses<'c>(op: usize, reads: &'c [Region], writes: &'c [Region]) -> impl Iterator<Item = Access> + 'c {
    let access = move |write| {
        move |region: &Region| Access { region: Rc::new(region.clone()), write, op, named_by: op }
    };
    reads.iter().map(access(false)).chain(writes.iter().map(access(true)))
}
