//! The lanes of a foreign file: found by place while reading, named and ordered at the end.

use std::borrow::Cow;

use super::{Key, Own};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort};
use crate::trace::{LaneKind, Strings};

/// What makes two events lie on the same lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A lane of our own file, by its position.
    Own(u32),
    /// A stream, by its device's number and its own.
    Stream(i64, i64),
    /// A stream whose device or handle is no number.
    Unnumbered(Key, Key),
    /// Rows that tell of synchronisation, by device and stream.
    Sync(Key, Key),
    /// A thread, by its process and its own name.
    Thread(Key, Key),
}

impl Place {
    fn device(self) -> Option<Key> {
        match self {
            Place::Stream(dev, _) => Some(Key::Number(dev)),
            Place::Unnumbered(dev, _) | Place::Sync(dev, _) => Some(dev),
            Place::Own(_) | Place::Thread(..) => None,
        }
    }
}

/// A lane and what was seen of it.
#[derive(Debug)]
struct Found {
    place: Place,
    host: bool,
    /// The row of the first event.
    pid: Key,
    tid: Key,
}

#[derive(Debug, Default)]
struct Process {
    name: Option<String>,
    label: Option<String>,
    sort: Option<i64>,
}

#[derive(Debug, Default)]
struct Thread {
    name: Option<String>,
    sort: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Lanes {
    found: Vec<Found>,
    by_place: BTreeMap<Place, u32>,
    /// The last thread, and the last other place: events of calls and of their work take turns.
    last: [Option<(Place, u32)>; 2],
    /// The devices that rows name; processes of these numbers are theirs.
    devices: BTreeSet<Key>,
    processes: BTreeMap<Key, Process>,
    threads: BTreeMap<(Key, Key), Thread>,
}

/// The lanes in order, and for each number while reading its position there.
pub(super) struct Order {
    pub lanes: Vec<(LaneKind, String, String)>,
    pub position: Vec<u32>,
}

/// Where a lane goes: by process, then within it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: Rows,
    process: (i64, usize),
    /// Host threads before other rows, the main thread before others, by number or the file's own order, the stream
    /// before the rows beside it.
    within: (bool, bool, i64, u8),
    index: usize,
}

/// Which processes come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rows {
    Own,
    Host,
    Device,
    Rest,
}

impl Lanes {
    /// The number of the lane at a place.
    pub(super) fn find(&mut self, place: Place, host: bool, pid: Key, tid: Key) -> u32 {
        let turn = usize::from(matches!(place, Place::Thread(..)));
        let index = match self.last[turn] {
            Some((last, index)) if last == place => index,
            _ => match self.by_place.get(&place) {
                Some(&index) => index,
                None => {
                    let index = u32::try_from(self.found.len()).expect("bug: fewer lanes than events");
                    self.by_place.insert(place, index);
                    self.devices.extend(place.device());
                    self.found.push(Found { place, host, pid, tid });
                    index
                }
            },
        };
        self.last[turn] = Some((place, index));
        self.found[index as usize].host |= host;
        index
    }

    /// The number of a stream's lane, where there is work on it.
    pub(super) fn of_stream(&self, device: Key, stream: Key) -> Option<u32> {
        let place = match (device, stream) {
            (Key::Number(dev), Key::Number(stream)) => Place::Stream(dev, stream),
            _ => Place::Unnumbered(device, stream),
        };
        self.by_place.get(&place).copied()
    }

    pub(super) fn name_process(&mut self, pid: Key, name: Option<Cow<'_, str>>) {
        self.processes.entry(pid).or_default().name = trimmed(name);
    }

    pub(super) fn label_process(&mut self, pid: Key, label: Option<Cow<'_, str>>) {
        self.processes.entry(pid).or_default().label = trimmed(label);
    }

    pub(super) fn sort_process(&mut self, pid: Key, sort: Option<i64>) {
        self.processes.entry(pid).or_default().sort = sort;
    }

    pub(super) fn name_thread(&mut self, pid: Key, tid: Key, name: Option<Cow<'_, str>>) {
        self.threads.entry((pid, tid)).or_default().name = trimmed(name);
    }

    pub(super) fn sort_thread(&mut self, pid: Key, tid: Key, sort: Option<i64>) {
        self.threads.entry((pid, tid)).or_default().sort = sort;
    }

    /// What a process or a device is called.
    pub(super) fn group(&self, pid: Key, keys: &Strings) -> String {
        let process = self.processes.get(&pid);
        // The label names a device; the name of a device's rows is the program's.
        if let Some(label) = process.and_then(|p| p.label.as_ref()).filter(|l| *l != "CPU") {
            return label.clone();
        }
        let name = process.and_then(|p| p.name.as_deref());
        match (pid, name) {
            (Key::Number(n), _) if self.devices.contains(&pid) => format!("device {n}"),
            (Key::Number(n), Some(name)) => format!("{name} {n}"),
            (Key::Number(n), None) => format!("process {n}"),
            (_, Some(name)) => name.to_owned(),
            (Key::Text(id), None) if !keys.get(id).trim().is_empty() => keys.get(id).to_owned(),
            _ => "trace".to_owned(),
        }
    }

    /// Names and orders all lanes: those of our own file as it says, then host processes, devices, and the rest.
    pub(super) fn order(&self, own: Option<&Own>, keys: &Strings) -> Order {
        let devices: BTreeMap<Key, usize> = self.devices.iter().copied().zip(0..).collect();
        let mut hosts: BTreeMap<Key, usize> = BTreeMap::new();
        for found in self.found.iter().filter(|found| found.host) {
            let next = hosts.len();
            hosts.entry(found.pid).or_insert(next);
        }
        let mut ranked: Vec<(Rank, usize)> =
            (0..self.found.len()).map(|index| (self.rank(index, &devices, &hosts), index)).collect_vec();
        sort(&mut ranked);
        let n_own = own.map_or(0, |own| own.header.lanes.len());
        let mut order = Order { lanes: Vec::new(), position: vec![0; self.found.len()] };
        for lane in own.iter().flat_map(|own| &own.header.lanes) {
            order.lanes.push((lane.kind.0, lane.group.clone(), lane.name.clone()));
        }
        for (rank, index) in ranked {
            let found = &self.found[index];
            let position = match found.place {
                Place::Own(lane) => lane as usize,
                _ => {
                    let group = self.group(found.place.device().unwrap_or(found.pid), keys);
                    let name = self.lane_name(found, rank.class, keys);
                    order.lanes.push((found.kind(), group, name));
                    order.lanes.len() - 1
                }
            };
            debug_assert!(position < n_own || !matches!(found.place, Place::Own(_)));
            order.position[index] = u32::try_from(position).expect("bug: fewer lanes than events");
        }
        order
    }

    fn rank(&self, index: usize, devices: &BTreeMap<Key, usize>, hosts: &BTreeMap<Key, usize>) -> Rank {
        let found = &self.found[index];
        let number = |key: Key| if let Key::Number(n) = key { n } else { i64::MAX };
        let device = |dev: Key, within| Rank {
            class: Rows::Device,
            process: (0, devices.get(&dev).copied().unwrap_or(usize::MAX)),
            within,
            index,
        };
        match found.place {
            Place::Own(lane) => {
                Rank { class: Rows::Own, process: (0, lane as usize), within: (false, false, 0, 0), index }
            }
            Place::Stream(dev, stream) => device(Key::Number(dev), (false, false, stream, 0)),
            Place::Unnumbered(dev, stream) => device(dev, (false, false, number(stream), 0)),
            Place::Sync(dev, stream) => device(dev, (false, false, number(stream), 1)),
            Place::Thread(pid, tid) if devices.contains_key(&pid) && !found.host => {
                device(pid, (false, false, number(tid), 2))
            }
            Place::Thread(pid, tid) => {
                let sort = self.processes.get(&pid).and_then(|p| p.sort).unwrap_or(0);
                let thread_sort = self.threads.get(&(pid, tid)).and_then(|t| t.sort);
                let (class, process) = match hosts.get(&pid) {
                    Some(&nth) => (Rows::Host, nth),
                    None => (Rows::Rest, index),
                };
                // Negative numbers are made up by the profiler, for threads that it knows nothing of.
                let order = thread_sort.unwrap_or(if number(tid) < 0 { i64::MAX } else { number(tid) });
                let within = (!found.host, tid != pid, order, 0);
                Rank { class, process: (sort, process), within, index }
            }
        }
    }

    fn lane_name(&self, found: &Found, class: Rows, keys: &Strings) -> String {
        let text = |key: Key| match key {
            Key::None => String::new(),
            Key::Number(n) => n.to_string(),
            Key::Text(id) => keys.get(id).to_owned(),
        };
        let named = self.threads.get(&(found.pid, found.tid)).and_then(|t| t.name.clone());
        match found.place {
            Place::Stream(_, stream) => {
                // Rows of several streams may share a thread, whose name is then that of one of them.
                let fits = |name: &String| match name.to_ascii_lowercase().strip_prefix("stream ") {
                    Some(rest) => rest.split(' ').next() == Some(&stream.to_string()),
                    None => found.tid == Key::Number(stream) && !name.starts_with("Device "),
                };
                named.filter(fits).unwrap_or_else(|| format!("stream {stream}"))
            }
            Place::Unnumbered(_, stream) => format!("stream {}", text(stream)),
            Place::Sync(_, Key::None) => "device sync".to_owned(),
            Place::Sync(_, stream) => format!("stream {} sync", text(stream)),
            Place::Own(_) | Place::Thread(..) => {
                let name = named.unwrap_or_else(|| match found.tid {
                    Key::Number(n) => format!("thread {n}"),
                    other if text(other).trim().is_empty() => "marks".to_owned(),
                    other => text(other),
                });
                if class == Rows::Device { format!("{name} annotations") } else { name }
            }
        }
    }
}

impl Found {
    fn kind(&self) -> LaneKind {
        match self.place {
            Place::Stream(dev, stream) => LaneKind::Stream { dev, stream },
            Place::Thread(..) if self.host => LaneKind::Host,
            _ => LaneKind::Other,
        }
    }
}

fn trimmed(name: Option<Cow<'_, str>>) -> Option<String> {
    name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}
