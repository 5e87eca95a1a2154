//! The link between host and one device: who shares its two directions, and kernels that reach over it by themselves.
//!
//! A direction carries at most one copy of an engine and any number of kernels' accesses to host memory. They share it
//! evenly, and a kernel reads at `mapped_read_bw` at most; while the other direction carries anything, this one has its factor of the rate.

use super::device::Job;
use super::lowered::{EngineId, NodeId, Work};
use super::schedule::{Event, Sim};
use crate::machine::{Machine, Rate, Ratio};
use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::{Engine as Which, Kind};

/// A direction of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    ToDevice,
    ToHost,
}

impl Way {
    pub(super) fn rate(self, machine: &Machine) -> Rate {
        match self {
            Way::ToDevice => machine.h2d_bw,
            Way::ToHost => machine.d2h_bw,
        }
    }

    fn factor(self, machine: &Machine) -> Ratio {
        match self {
            Way::ToDevice => machine.bidir_factor_h2d,
            Way::ToHost => machine.bidir_factor_d2h,
        }
    }

    /// The kind of what moves this way.
    pub(super) fn kind(self) -> Kind {
        match self {
            Way::ToDevice => Kind::ToDevice,
            Way::ToHost => Kind::ToHost,
        }
    }

    pub(super) fn engine(self) -> Which {
        match self {
            Way::ToDevice => Which::ToDevice,
            Way::ToHost => Which::ToHost,
        }
    }
}

/// The links of all devices.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// By device: what each direction carries now.
    pub(super) carried: Vec<[u32; 2]>,
    /// Accesses of kernels that are on their way, by a number of their own.
    reaches: BTreeMap<u32, Reach>,
    n_reaches: u32,
    /// Kernels that reach over a link: how many of their parts, their own time included, are to come.
    parts: BTreeMap<NodeId, u32>,
}

/// A kernel's access to host memory, on its way.
#[derive(Debug)]
struct Reach {
    dev: u32,
    way: Way,
    job: Job,
    /// Which planned event is not outdated.
    epoch: u32,
}

impl Links {
    pub(super) fn new(n_devices: usize) -> Links {
        Links { carried: vec![[0; 2]; n_devices], ..Links::default() }
    }

    /// The part of a way's rate that each of those on it has.
    pub(super) fn share(&self, machine: &Machine, dev: u32, way: Way, alone: Rate) -> Rate {
        let carried = self.carried[dev as usize];
        let (own, other) = (carried[way as usize].max(1), carried[1 - way as usize]);
        let factor = if other > 0 { way.factor(machine) } else { Ratio::ONE };
        Rate((factor.of(alone.0) / u64::from(own)).max(1))
    }

    /// Whether the end of a kernel's access that was planned in this epoch has been planned anew.
    pub(super) fn is_stale(&self, reach: u32, epoch: u32) -> bool {
        self.reaches.get(&reach).is_none_or(|r| r.epoch != epoch)
    }
}

impl Sim<'_> {
    /// A kernel that touches host memory begins: so does its traffic.
    pub(super) fn reach(&mut self, node: NodeId) {
        let Work::Mapped { dev, at, .. } = self.nodes[node as usize].work else {
            unreachable!("bug: only kernels reach over a link")
        };
        let dev = u32::from(dev);
        let mut n = 1;
        let mapped = self.low.mapped[at as usize];
        for (way, bytes) in [Way::ToDevice, Way::ToHost].into_iter().zip(mapped.bytes) {
            if bytes == 0 {
                continue;
            }
            n += 1;
            let mut rate = way.rate(self.machine);
            if mapped.reads && way == Way::ToDevice {
                rate = rate.min(self.machine.mapped_read_bw);
            }
            let job = Job::new((node, way as u32), self.now, (bytes, rate), 0, Some(way));
            self.links.carried[dev as usize][way as usize] += 1;
            self.busy_links += 1;
            self.links.reaches.insert(self.links.n_reaches, Reach { dev, way, job, epoch: 0 });
            self.links.n_reaches += 1;
        }
        self.links.parts.insert(node, n);
        self.rerate_link(dev);
    }

    /// Whether a kernel's own time is all that it takes, or was the last of its parts.
    pub(super) fn part_is_last(&mut self, node: NodeId) -> bool {
        match self.links.parts.get_mut(&node) {
            Some(n) if *n > 1 => {
                *n -= 1;
                false
            }
            Some(_) => {
                self.links.parts.remove(&node);
                true
            }
            None => true,
        }
    }

    /// Whether a kernel reaches over a device's link now.
    pub(super) fn is_reached_over(&self, dev: u32) -> bool {
        self.links.reaches.values().any(|r| r.dev == dev)
    }

    /// Gives everything on a device's link the rate that it has from now on.
    pub(super) fn rerate_link(&mut self, dev: u32) {
        for engine in 0..EngineId::PER_DEVICE {
            self.rerate(dev * EngineId::PER_DEVICE + engine);
        }
        let now = self.now;
        let here = self.links.reaches.iter().filter(|(_, r)| r.dev == dev);
        let numbers: Vec<u32> = here.map(|(&number, _)| number).collect_vec();
        for number in numbers {
            let Some((way, alone)) = self.links.reaches.get(&number).map(|r| (r.way, r.job.alone)) else {
                continue;
            };
            // Of the link it has its share, or what it can take where that is less.
            let rate = self.links.share(self.machine, dev, way, way.rate(self.machine)).min(alone);
            let Some(reach) = self.links.reaches.get_mut(&number) else { continue };
            reach.epoch = reach.epoch.wrapping_add(1);
            reach.job.go_on_at(rate, now);
            let (end, node, epoch) = (reach.job.end(), reach.job.node, reach.epoch);
            let command = self.nodes[node as usize].command;
            self.plan_at(end, Event::Reach { reach: number, epoch }, command);
        }
    }

    /// A kernel's access to host memory is over, unless it was planned anew.
    pub(super) fn reach_event(&mut self, number: u32, epoch: u32) {
        if self.links.is_stale(number, epoch) {
            return;
        }
        let Some(Reach { dev, way, job, .. }) = self.links.reaches.remove(&number) else { return };
        self.links.carried[dev as usize][way as usize] -= 1;
        self.busy_links -= 1;
        self.rerate_link(dev);
        self.record_reach(dev, way, &job);
        if self.part_is_last(job.node) {
            self.compute_done(job.node);
        }
    }
}
