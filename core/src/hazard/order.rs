//! Happens-before as clocks: what every stream and every host thread knows of all others.
//!
//! Knows nothing of memory. Each method is one effect of the contract; where a rule of the table decides, it is named.

use super::clock::{Chains, Clock, Epoch};
use super::rules::{Mutation, Rule, Rules};
use crate::ordered::BTreeMap;
use crate::program::{ChannelId, Names, StreamId, StreamKind, ThreadId};

/// A stream's frontier and what it is a part of.
#[derive(Debug)]
struct Stream {
    clock: Clock,
    device: usize,
    kind: StreamKind,
    /// Crowds whose clocks have not heard of the latest change yet, as they do know it; one bit each.
    told: u8,
    /// Its copies that no order holds, where there were any.
    loose: Option<Box<Loose>>,
}

/// The copies of a stream on a device without CUDA's rules.
#[derive(Debug)]
struct Loose {
    /// Chains of copies that came one after the other all the same, since their callers knew of the one before.
    chains: Vec<Clock>,
    /// The chain that is asked first.
    next: usize,
    /// What knows of all of them.
    all: Clock,
}

/// The joint frontier of many streams, brought up to date when somebody asks.
#[derive(Debug)]
struct Crowd {
    clock: Clock,
    /// Streams that changed since.
    changed: Vec<usize>,
}

/// Which streams a crowd has, of one device or of all.
#[derive(Debug, Clone, Copy)]
enum Who {
    /// All.
    All = 0,
    /// Blocking and per-thread streams of one device; with the legacy streams for all devices.
    Fenced = 1,
}

#[derive(Debug)]
struct Device {
    crowds: [Crowd; 2],
    /// Its legacy stream, named or not.
    legacy: usize,
}

/// The clocks of a program.
#[derive(Debug)]
pub(super) struct Order {
    rules: Rules,
    chains: Chains,
    /// In order of first mention; legacy streams with their devices, named or not.
    streams: Vec<Stream>,
    /// Where each named stream is among them.
    place_of: Vec<Option<usize>>,
    devices: Vec<Device>,
    number_of: BTreeMap<u32, usize>,
    everywhere: [Crowd; 2],
    /// What has to come before the work of legacy streams that are mentioned later: all synchronous peer copies.
    peers: Clock,
    threads: Vec<Option<Clock>>,
    /// One past the last command of each thread, where it is known.
    last_calls: Option<Vec<usize>>,
    channels: BTreeMap<ChannelId, Clock>,
    /// The streams that have loose copies.
    with_loose: Vec<usize>,
}

impl Order {
    pub(super) fn new(rules: Rules, last_calls: Option<Vec<usize>>) -> Order {
        let mut chains = Chains::default();
        let mut main = chains.start();
        main.tick();
        let everywhere = [(); 2].map(|()| Crowd::new(&mut chains));
        let peers = chains.start();
        Order {
            rules,
            chains,
            streams: Vec::new(),
            place_of: Vec::new(),
            devices: Vec::new(),
            number_of: BTreeMap::new(),
            everywhere,
            peers,
            threads: vec![Some(main)],
            last_calls,
            channels: BTreeMap::new(),
            with_loose: Vec::new(),
        }
    }

    /// The number of a device, given on first mention together with its legacy stream.
    fn device(&mut self, dev: u32) -> usize {
        let next = self.devices.len();
        let number = *self.number_of.entry(dev).or_insert(next);
        if number == next {
            let crowds = [(); 2].map(|()| Crowd::new(&mut self.chains));
            let legacy = self.streams.len();
            self.devices.push(Device { crowds, legacy });
            self.streams.push(Stream {
                clock: self.chains.start(),
                device: number,
                kind: StreamKind::Legacy,
                told: 0,
                loose: None,
            });
            if self.rules.hold(Rule::PeerHolds) && self.streams[legacy].clock.hear(&self.peers) {
                self.advance(legacy);
            }
        }
        number
    }

    /// A stream is used: a legacy one is known by its name alone.
    pub(super) fn meet(&mut self, s: StreamId, names: &Names) {
        if self.place_of.get(s.index()).is_none_or(Option::is_none)
            && let Some(dev) = names.legacy_device(s)
        {
            let device = self.device(dev);
            self.put(s, self.devices[device].legacy);
        }
    }

    fn put(&mut self, s: StreamId, place: usize) {
        if self.place_of.len() <= s.index() {
            self.place_of.resize(s.index() + 1, None);
        }
        self.place_of[s.index()] = Some(place);
    }

    fn place(&self, s: StreamId) -> usize {
        let place = self.place_of.get(s.index()).copied().flatten();
        place.unwrap_or_else(|| unreachable!("bug: an undeclared stream passed the check"))
    }

    /// The clock of a stream's last node.
    pub(super) fn frontier(&self, s: StreamId) -> &Clock {
        &self.streams[self.place(s)].clock
    }

    /// The clock of a thread.
    pub(super) fn host(&mut self, t: ThreadId) -> &mut Clock {
        // A thread that calls before it was started knows nothing.
        let k = t.index();
        if self.threads.len() <= k {
            self.threads.resize(k + 1, None);
        }
        self.threads[k].get_or_insert_with(|| self.chains.start())
    }

    /// Whether every thread that still calls something from command `index` on knows of `node`: then so will every node
    /// that is still to come.
    pub(super) fn is_known_to_all(&self, node: Epoch, index: usize) -> bool {
        // Asking many threads about every node would cost more than forgetting saves.
        const MANY: usize = 64;
        let main = ThreadId::FIRST.index();
        let ended = |k: usize| self.last_calls.as_ref().is_some_and(|last| last[k] <= index);
        // Threads still to be started take their past from `main`; those that never are know nothing.
        let n_threads = self.last_calls.as_ref().map_or(self.threads.len(), Vec::len);
        let unborn = |k: usize| ended(k) || self.rules.hold(Rule::Spawn);
        n_threads <= MANY
            && self.threads.iter().enumerate().all(|(k, clock)| match clock {
                Some(clock) => clock.knows(node) || (k != main && ended(k)),
                None => unborn(k),
            })
            && (self.threads.len()..n_threads).all(unborn)
    }

    /// A stream is created: it starts from what `main` knows.
    pub(super) fn create(&mut self, s: StreamId, dev: u32, kind: StreamKind) {
        let kind = match kind {
            StreamKind::NonBlocking if self.rules.stray(Mutation::NonBlockingFenced) => StreamKind::Blocking,
            StreamKind::PerThread if self.rules.stray(Mutation::PerThreadApart) => StreamKind::NonBlocking,
            kind => kind,
        };
        let device = self.device(dev);
        let place = self.streams.len();
        self.streams.push(Stream { clock: self.chains.start(), device, kind, told: 0, loose: None });
        self.put(s, place);
        if self.rules.hold(Rule::Born) {
            let main = self.host(ThreadId::FIRST).clone();
            self.streams[place].clock.hear(&main);
        }
        self.advance(place);
    }

    /// A new node at the frontier of stream `s`, called by thread `t`, also after the nodes `also`.
    pub(super) fn enqueue(&mut self, s: StreamId, t: ThreadId, also: &[&Clock]) {
        let s = self.place(s);
        if self.rules.hold(Rule::Enqueue) {
            let host = self.host(t).clone();
            self.streams[s].clock.hear(&host);
        }
        let Stream { device, kind, .. } = self.streams[s];
        match kind {
            StreamKind::NonBlocking => {}
            StreamKind::Legacy if self.rules.hold(Rule::LegacyWaits) => {
                let fenced = self.of_device(device, Who::Fenced);
                self.streams[s].clock.hear(&fenced);
            }
            StreamKind::Blocking | StreamKind::PerThread if self.rules.hold(Rule::LegacyHolds) => {
                let legacy = self.streams[self.devices[device].legacy].clock.clone();
                self.streams[s].clock.hear(&legacy);
            }
            _ => {}
        }
        self.hear_at(s, also);
    }

    /// As [`Order::enqueue`] after `also` alone, as if it were no action of its stream: a fault.
    pub(super) fn hear(&mut self, s: StreamId, also: &[&Clock]) {
        self.hear_at(self.place(s), also);
    }

    fn hear_at(&mut self, place: usize, also: &[&Clock]) {
        for clock in also {
            self.streams[place].clock.hear(clock);
        }
        self.advance(place);
    }

    /// The node of a synchronous peer copy: after the blocking work of all devices, and all legacy streams after it.
    pub(super) fn enqueue_peer(&mut self, s: StreamId, t: ThreadId) {
        let mut before = None;
        if self.rules.hold(Rule::PeerWaits) {
            before = Some(self.of_all_devices(Who::Fenced));
        }
        self.enqueue(s, t, before.as_ref().as_slice());
        if self.rules.hold(Rule::PeerHolds) {
            let node = self.frontier(s).clone();
            if self.peers.hear(&node) {
                self.peers.tick();
            }
            for device in 0..self.devices.len() {
                let legacy = self.devices[device].legacy;
                if self.streams[legacy].clock.hear(&node) {
                    self.advance(legacy);
                }
            }
        }
    }

    /// A copy on `s` that only a sync of its stream or device waits for: after what its caller did, and nothing else.
    ///
    /// # Cost
    /// Constant. Chains are used again once their last copy was waited for, so that there are no more of them than copies in
    /// flight.
    pub(super) fn enqueue_loose(&mut self, s: StreamId, t: ThreadId) -> Clock {
        let place = self.place(s);
        let before = match self.rules.hold(Rule::Enqueue) {
            true => self.host(t).clone(),
            false => self.chains.start(),
        };
        if self.streams[place].loose.is_none() {
            let (chains, all) = (Vec::new(), self.chains.start());
            self.streams[place].loose = Some(Box::new(Loose { chains, next: 0, all }));
            self.with_loose.push(place);
        }
        let Stream { loose: Some(loose), clock: frontier, .. } = &mut self.streams[place] else {
            unreachable!("bug: the line above puts it there")
        };
        let in_line = self.rules.stray(Mutation::LooseInLine);
        let is_over = |k: &usize| loose.chains.get(*k).is_some_and(|c| in_line || before.knows(c.epoch()));
        let k = [loose.next, 0].into_iter().find(is_over).unwrap_or(loose.chains.len());
        if k == loose.chains.len() {
            loose.chains.push(self.chains.start());
        }
        loose.next = k + 1;
        let node = &mut loose.chains[k];
        node.hear(&before);
        if self.rules.stray(Mutation::LooseAfterStream) {
            node.hear(frontier);
        }
        node.tick();
        let node = node.clone();
        if loose.all.hear(&node) {
            loose.all.tick();
        }
        if self.rules.stray(Mutation::LooseBeforeStream) && frontier.hear(&node) {
            self.advance(place);
        }
        if self.rules.stray(Mutation::LooseReturns) {
            self.host_joins(t, &node);
        }
        node
    }

    /// The calling thread waits for the loose copies of some streams.
    fn host_joins_loose(&mut self, t: ThreadId, which: impl Fn(usize, &Stream) -> bool) {
        for k in 0..self.with_loose.len() {
            let place = self.with_loose[k];
            let stream = &self.streams[place];
            if let Some(all) = stream.loose.as_ref().filter(|_| which(place, stream)).map(|l| l.all.clone()) {
                self.host_joins(t, &all);
            }
        }
    }

    /// What an event that is recorded on a stream now holds.
    pub(super) fn recorded(&self, s: StreamId) -> Clock {
        let stream = &self.streams[self.place(s)];
        let mut held = stream.clock.clone();
        if self.rules.stray(Mutation::LooseRecorded)
            && let Some(loose) = &stream.loose
            && held.hear(&loose.all)
        {
            held.tick();
        }
        held
    }

    /// The calling thread comes after `node`.
    pub(super) fn host_joins(&mut self, t: ThreadId, node: &Clock) {
        let host = self.host(t);
        if host.hear(node) {
            host.fold();
            host.tick();
        }
    }

    /// The calling thread waits for a stream; `covers` says whether a legacy stream stands for the blocking ones too.
    pub(super) fn host_joins_stream(&mut self, t: ThreadId, s: StreamId) {
        let Stream { device, kind, .. } = self.streams[self.place(s)];
        let frontier = self.frontier(s).clone();
        self.host_joins(t, &frontier);
        if kind == StreamKind::Legacy && self.rules.hold(Rule::SyncCovers) {
            let all = self.rules.stray(Mutation::SyncCoversAll);
            let fenced = self.of_device(device, if all { Who::All } else { Who::Fenced });
            self.host_joins(t, &fenced);
        }
        if !self.with_loose.is_empty() && !self.rules.stray(Mutation::LooseUnjoined) {
            let own = self.place(s);
            let covers = kind == StreamKind::Legacy && self.rules.stray(Mutation::LooseCovered);
            self.host_joins_loose(t, |place, stream| place == own || covers && stream.device == device);
        }
    }

    /// The calling thread waits for every stream of a device.
    pub(super) fn host_joins_device(&mut self, t: ThreadId, dev: u32) {
        if self.rules.stray(Mutation::DeviceSyncEverywhere) {
            return self.host_joins_all(t);
        }
        let device = self.device(dev);
        let all = self.of_device(device, Who::All);
        self.host_joins(t, &all);
        if !self.rules.stray(Mutation::LooseLeftByDevice) {
            self.host_joins_loose(t, |_, stream| stream.device == device);
        }
    }

    /// The calling thread waits for every stream of every device.
    pub(super) fn host_joins_all(&mut self, t: ThreadId) {
        let all = self.of_all_devices(Who::All);
        self.host_joins(t, &all);
        if !self.rules.stray(Mutation::LooseLeftByFree) {
            self.host_joins_loose(t, |_, _| true);
        }
    }

    pub(super) fn spawn(&mut self, t: ThreadId) {
        // A chain of its own, so that a thread started twice without a join is two threads.
        let mut clock = self.chains.start();
        if self.rules.hold(Rule::Spawn) {
            clock.hear(self.host(ThreadId::FIRST));
        }
        clock.tick();
        let k = t.index();
        if self.threads.len() <= k {
            self.threads.resize(k + 1, None);
        }
        self.threads[k] = Some(clock);
    }

    pub(super) fn join(&mut self, t: ThreadId) {
        if self.rules.hold(Rule::Join) {
            let thread = self.host(t).clone();
            self.host_joins(ThreadId::FIRST, &thread);
        }
    }

    pub(super) fn signal(&mut self, t: ThreadId, channel: ChannelId) {
        let sender = self.host(t).clone();
        if self.rules.stray(Mutation::LastSenderOnly) {
            self.channels.remove(&channel);
        }
        let chains = &mut self.chains;
        let kept = self.channels.entry(channel).or_insert_with(|| chains.start());
        if kept.hear(&sender) {
            kept.tick();
        }
    }

    pub(super) fn receive(&mut self, t: ThreadId, channel: ChannelId) {
        if self.rules.hold(Rule::Channel)
            && let Some(kept) = self.channels.get(&channel).cloned()
        {
            self.host_joins(t, &kept);
        }
    }

    /// The next node of a stream, which its crowds have not heard of.
    fn advance(&mut self, s: usize) {
        let stream = &mut self.streams[s];
        stream.clock.tick();
        let fenced = matches!(stream.kind, StreamKind::Blocking | StreamKind::PerThread);
        let device = &mut self.devices[stream.device];
        let [all, all_fenced] = &mut self.everywhere;
        let [of_device, of_device_fenced] = &mut device.crowds;
        #[rustfmt::skip]
        let crowds = [
            (of_device,        true),
            (of_device_fenced, fenced),
            (all,              true),
            (all_fenced,       fenced || stream.kind == StreamKind::Legacy),
        ];
        for (bit, (crowd, belongs)) in crowds.into_iter().enumerate() {
            if belongs && stream.told >> bit & 1 == 0 {
                stream.told |= 1 << bit;
                crowd.changed.push(s);
            }
        }
    }

    fn of_device(&mut self, device: usize, who: Who) -> Clock {
        self.devices[device].crowds[who as usize].up_to_date(&mut self.streams, who as usize)
    }

    fn of_all_devices(&mut self, who: Who) -> Clock {
        self.everywhere[who as usize].up_to_date(&mut self.streams, 2 + who as usize)
    }
}

impl Crowd {
    fn new(chains: &mut Chains) -> Crowd {
        Crowd { clock: chains.start(), changed: Vec::new() }
    }

    fn up_to_date(&mut self, streams: &mut [Stream], bit: usize) -> Clock {
        let mut news = false;
        for s in self.changed.drain(..) {
            streams[s].told &= !(1 << bit);
            news |= self.clock.hear(&streams[s].clock);
        }
        if news {
            self.clock.tick();
        }
        self.clock.clone()
    }
}
