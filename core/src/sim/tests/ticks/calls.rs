//! What programs ask for less often: graphs, memory that comes and goes, threads and what they say to each other.

use std::collections::BTreeMap;

use super::clock::{Does, Step, Work};
use super::{Ask, LEGACY, Lowered, OTHER, Random};

#[derive(Debug, Clone)]
pub(super) enum Rare {
    /// What is captured: on one stream, and where there are two on both from the first part to the last.
    Graph {
        name: usize,
        streams: Vec<usize>,
        parts: [Vec<(Ask, [usize; 2])>; 3],
    },
    Launch {
        name: usize,
        stream: usize,
    },
    /// The buffer with its number, in the place of one that is free.
    New {
        n: usize,
        kind: Memory,
        reuse: Option<usize>,
    },
    Free {
        n: usize,
        kind: Memory,
    },
    /// A stream uses memory of a pool.
    Note {
        n: usize,
        stream: usize,
    },
    QueryEvent {
        event: usize,
    },
    Query {
        stream: usize,
    },
    Signal,
    Await,
    Spawn,
    Join,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Memory {
    Device,
    /// So many bytes.
    Pinned(i64),
    /// Allocated and freed on a stream.
    Ordered(usize),
    Pool,
}

/// The nodes of a graph: what they do and which of them come before.
#[derive(Debug, Default)]
pub(super) struct Capture {
    nodes: Vec<(usize, Vec<usize>)>,
    last: BTreeMap<usize, usize>,
}

impl Capture {
    pub(super) fn add(&mut self, stream: usize, work: usize, also: Option<usize>) -> usize {
        let before = self.last.get(&stream).copied().into_iter().chain(also).collect();
        self.nodes.push((work, before));
        self.last.insert(stream, self.nodes.len() - 1);
        self.nodes.len() - 1
    }
}

/// What has to be kept of it.
#[derive(Debug, Default)]
pub(super) struct Rarely {
    pub(super) capture: Option<Capture>,
    /// With the end of the launch before.
    graphs: Vec<(Capture, Option<usize>)>,
    /// The works at the ends of what was freed.
    freed: BTreeMap<usize, Vec<usize>>,
    noted: BTreeMap<usize, Vec<usize>>,
    signals: Vec<usize>,
}

/// What may be asked for after what was.
#[derive(Debug, Default)]
struct Drawn {
    n_graphs: usize,
    n: usize,
    live: Vec<(usize, Memory)>,
    free: Vec<(usize, Memory)>,
}

/// Asks with who asks, and their places in buffers.
pub(super) fn draw_all(random: &mut Random, n_threads: u32, reaches: bool) -> Vec<(usize, Ask, [usize; 2])> {
    let n = 2 + random.index(40);
    let mut drawn = Drawn::default();
    let mut asks = Vec::new();
    let begins = if n_threads == 2 { random.index(4).min(n - 1) } else { n };
    let ends = if n_threads == 2 { n - random.index(4).min(n - 1 - begins) } else { n };
    for k in 0..n {
        if k == begins {
            asks.push((0, Ask::Rare(Rare::Spawn), [0; 2]));
        }
        if k == ends {
            asks.push((0, Ask::Rare(Rare::Join), [0; 2]));
        }
        let t = if (begins..ends).contains(&k) { random.index(2) } else { 0 };
        if random.index(12) == 0 {
            asks.extend(drawn.reuse(random).map(|ask| (t, ask, [0; 2])));
        }
        let rare = if random.index(4) == 0 { drawn.draw(random, reaches) } else { None };
        let ask = rare.map_or_else(|| Ask::draw(random, reaches), Ask::Rare);
        asks.push((t, ask, places(random)));
    }
    asks
}

fn places(random: &mut Random) -> [usize; 2] {
    [0, 1].map(|_| 100 * random.index(8) + random.index(3))
}

impl Drawn {
    /// Memory in use by one stream, freed, and used again by another at once.
    fn reuse(&mut self, random: &mut Random) -> [Ask; 6] {
        let kernel =
            |stream, random: &mut Random| Ask::Kernel { stream, ns: 1 + random.int(300), full: false };
        let [one, other] = [random.index(4), random.index(4)];
        let is_pool = random.index(2) == 0;
        let kind = |stream| if is_pool { Memory::Pool } else { Memory::Ordered(stream) };
        self.n += 2;
        let n = self.n - 1;
        self.live.push((self.n, kind(other)));
        [
            Ask::Rare(Rare::New { n, kind: kind(one), reuse: None }),
            kernel(one, random),
            Ask::Rare(if is_pool { Rare::Note { n, stream: one } } else { Rare::Query { stream: other } }),
            Ask::Rare(Rare::Free { n, kind: kind(one) }),
            Ask::Rare(Rare::New { n: n + 1, kind: kind(other), reuse: Some(n) }),
            kernel(other, random),
        ]
    }

    fn draw(&mut self, random: &mut Random, reaches: bool) -> Option<Rare> {
        let (event, stream) = (random.index(2), random.index(5));
        Some(match random.index(20) {
            0 => {
                self.n_graphs += 1;
                let first = random.index(4);
                let mut streams = vec![first];
                if random.index(2) == 0 {
                    streams.push((first + 1 + random.index(4)) % 5);
                }
                let parts = [0, 1, 2].map(|part| {
                    let on = if part == 1 { &streams[..] } else { &streams[..1] };
                    (0..random.index(4)).map(|_| (captured(random, on, reaches), places(random))).collect()
                });
                Rare::Graph { name: self.n_graphs - 1, streams, parts }
            }
            1..4 if self.n_graphs > 0 => {
                Rare::Launch { name: random.index(u32::try_from(self.n_graphs).unwrap()), stream }
            }
            4..8 => {
                let kind = match random.index(6) {
                    0 => Memory::Device,
                    1 => Memory::Pinned(1 + random.int(9000)),
                    2 | 3 => Memory::Ordered(stream),
                    _ => Memory::Pool,
                };
                let like = |&(_, free): &(usize, Memory)| match kind {
                    Memory::Ordered(_) => {
                        matches!(free, Memory::Ordered(of) if (of == OTHER) == (stream == OTHER))
                    }
                    Memory::Pool => free == Memory::Pool,
                    _ => false,
                };
                let reuse = self.free.iter().position(like).map(|k| self.free.swap_remove(k).0);
                self.n += 1;
                self.live.push((self.n, kind));
                Rare::New { n: self.n, kind, reuse }
            }
            8..13 if !self.live.is_empty() => {
                let k = random.index(u32::try_from(self.live.len()).unwrap());
                let (n, kind) = self.live.swap_remove(k);
                let kind = match kind {
                    Memory::Ordered(of) if of != OTHER => Memory::Ordered(random.index(4)),
                    kind => kind,
                };
                self.free.push((n, kind));
                Rare::Free { n, kind }
            }
            13..16 => {
                let n = self.live.iter().find(|(_, kind)| *kind == Memory::Pool)?.0;
                Rare::Note { n, stream: random.index(4) }
            }
            16 => Rare::QueryEvent { event },
            17 => Rare::Query { stream },
            18 => Rare::Signal,
            19 => Rare::Await,
            _ => return None,
        })
    }
}

/// What a capture takes in, on one of these streams.
fn captured(random: &mut Random, streams: &[usize], reaches: bool) -> Ask {
    loop {
        let mut ask = Ask::draw(random, reaches);
        let on = streams[random.index(u32::try_from(streams.len()).unwrap())];
        match &mut ask {
            Ask::Copy { stream, sync, .. } => (*stream, *sync) = (on, false),
            Ask::Memset { stream, sync, .. } if on != OTHER => (*stream, *sync) = (on, false),
            Ask::Within { stream, .. } if on != OTHER => *stream = on,
            Ask::Kernel { stream, .. }
            | Ask::Reach { stream, .. }
            | Ask::HostFn { stream, .. }
            | Ask::HostToHost { stream, .. }
            | Ask::Peer { stream, .. } => *stream = on,
            _ => continue,
        }
        return ask;
    }
}

impl Rare {
    pub(super) fn text(&self, name: impl Fn(usize) -> &'static str) -> String {
        match self {
            Rare::Graph { name: graph, streams, parts } => {
                let [first, .., last] = &streams[..] else {
                    return one_stream(name(streams[0]), *graph, parts);
                };
                let (first, last) = (name(*first), name(*last));
                let [before, beside, after] = parts.each_ref().map(|part| lines(part));
                format!(
                    "capture {first}\n{before}record c0 on {first}\nwait c0 on {last}\n{beside}\
                     record c1 on {last}\nwait c1 on {first}\n{after}end capture {first} as g{graph}"
                )
            }
            Rare::Launch { name: graph, stream } => format!("launch g{graph} on {}", name(*stream)),
            Rare::New { n, kind, reuse } => {
                let reuse = reuse.map_or(String::new(), |of| format!(" reuse z{of}"));
                match kind {
                    Memory::Device => format!("device z{n} 64"),
                    Memory::Pinned(bytes) => format!("pinned z{n} {bytes}"),
                    Memory::Ordered(on) => {
                        let dev = usize::from(*on == OTHER);
                        format!("device z{n} 64 on cuda:{dev} via malloc_async on {}{reuse}", name(*on))
                    }
                    Memory::Pool => format!("device z{n} 64 via pool home s{reuse}"),
                }
            }
            Rare::Free { n, kind: Memory::Ordered(on) } => format!("free z{n} on {}", name(*on)),
            Rare::Free { n, .. } => format!("free z{n}"),
            Rare::Note { n, stream } => format!("record_stream z{n} on {}", name(*stream)),
            Rare::QueryEvent { event } => format!("query event e{event} ready"),
            Rare::Query { stream } => format!("query {} ready", name(*stream)),
            Rare::Signal => "signal said".to_owned(),
            Rare::Await => "await said".to_owned(),
            Rare::Spawn => "spawn w".to_owned(),
            Rare::Join => "join w".to_owned(),
        }
    }
}

fn lines(part: &[(Ask, [usize; 2])]) -> String {
    part.iter().map(|(ask, places)| ask.text(*places) + "\n").collect()
}

fn one_stream(stream: &str, graph: usize, parts: &[Vec<(Ask, [usize; 2])>; 3]) -> String {
    let all: String = parts.iter().map(|part| lines(part)).collect();
    format!("capture {stream}\n{all}end capture {stream} as g{graph}")
}

impl Lowered<'_> {
    pub(super) fn ask_rarely(&mut self, t: usize, ask: &Rare) {
        let m = self.machine;
        let call = |ns: i64| Step::Call(ns, 0..0);
        match ask {
            Rare::Graph { streams, parts, .. } => {
                self.rarely.capture = Some(Capture::default());
                let fork = streams.get(1).map(|&other| [(streams[0], other), (other, streams[0])]);
                for (k, part) in parts.iter().enumerate() {
                    if let Some((from, to)) = fork.and_then(|fork| fork.get(k.wrapping_sub(1)).copied()) {
                        self.lead_over(t, from, to);
                    }
                    part.iter().for_each(|(ask, places)| self.ask(t, ask, *places));
                }
                self.rarely.graphs.push((self.rarely.capture.take().unwrap(), None));
            }
            Rare::Launch { name, stream } => self.launch(t, *name, *stream),
            Rare::New { kind: Memory::Device, .. } => self.steps[t].push(call(m.call_malloc.0)),
            Rare::New { kind: Memory::Pinned(bytes), .. } => {
                self.steps[t]
                    .push(call(m.host_alloc_fixed.0 + (bytes + 4095) / 4096 * m.host_alloc_per_4k.0));
            }
            Rare::New { kind: Memory::Ordered(stream), reuse, .. } => {
                let end = reuse.map(|of| self.rarely.freed[&of][0]);
                self.enqueue(t, *stream, m.call_malloc_async, Does::Point, end);
            }
            Rare::New { kind: Memory::Pool, reuse, .. } => {
                let ends = reuse.map_or(Vec::new(), |of| self.rarely.freed[&of].clone());
                self.steps[t].push(Step::Until(ends, 0));
            }
            Rare::Free { n, kind: Memory::Ordered(stream) } => {
                let end = self.enqueue(t, *stream, m.call_free_async, Does::Point, None);
                self.rarely.freed.insert(*n, vec![end]);
            }
            Rare::Free { n, kind: Memory::Pool } => {
                let noted = self.rarely.noted.remove(n).unwrap_or_default();
                let ends = self.last_of_all(&noted);
                self.rarely.freed.insert(*n, ends);
            }
            Rare::Free { kind, .. } => {
                let all = self.all_up_to_now(&[0, 1, 2, 3, OTHER, LEGACY]);
                let ns = match kind {
                    Memory::Pinned(bytes) => (bytes + 4095) / 4096 * m.host_free_per_4k.0,
                    _ => m.call_free.0,
                };
                self.steps[t].extend([Step::Until(all, 0), call(ns)]);
            }
            Rare::Note { n, stream } => self.rarely.noted.entry(*n).or_default().push(*stream),
            Rare::QueryEvent { event } => {
                let until = self.events[*event].into_iter().collect();
                self.steps[t].push(Step::Until(until, m.call_event_query.0));
            }
            Rare::Query { stream } => {
                let until = self.up_to_now(*stream);
                self.steps[t].push(Step::Until(until, m.call_event_query.0));
            }
            Rare::Signal => {
                let said = self.reached(t);
                self.rarely.signals.push(said);
            }
            Rare::Await => self.steps[t].push(Step::Until(self.rarely.signals.clone(), 0)),
            Rare::Spawn => {
                let begin = self.reached(t);
                self.steps[1].push(Step::Until(vec![begin], 0));
            }
            Rare::Join => {
                let end = self.reached(1);
                self.steps[t].push(Step::Until(vec![end], 0));
            }
        }
    }

    /// A work that is done when the thread comes here.
    fn reached(&mut self, t: usize) -> usize {
        let work = self.works.len();
        self.works.push(Work::new(Does::Point, Vec::new()));
        self.steps[t].push(Step::Call(0, work..work + 1));
        work
    }

    /// Within a capture what comes on one stream is after what was on another.
    fn lead_over(&mut self, t: usize, from: usize, to: usize) {
        let (record, wait) = (self.machine.call_event_record, self.machine.call_stream_wait);
        self.enqueue(t, from, record, Does::Point, None);
        let before = self.works.len();
        self.works.push(Work::captured(Does::Point));
        let capture = self.rarely.capture.as_mut().unwrap();
        let recorded = capture.last[&from];
        capture.add(to, before, Some(recorded));
        self.steps[t].push(Step::Call(wait.0, 0..0));
    }

    fn launch(&mut self, t: usize, name: usize, stream: usize) {
        let before = self.rarely.graphs[name].1;
        let entry = self.enqueue(t, stream, self.machine.graph_launch, Does::Point, before);
        let (capture, end) = &mut self.rarely.graphs[name];
        for (work, before) in &capture.nodes {
            let after = before.iter().map(|node| entry + 1 + node);
            let after = if before.is_empty() { vec![entry] } else { after.collect() };
            let work = self.works[*work].once_more(after);
            self.works.push(work);
        }
        let exit = self.works.len();
        self.works.push(Work::new(Does::Point, (entry..exit).collect()));
        *end = Some(exit);
        self.streams[stream].push(exit);
        *self.queues[stream].last_mut().unwrap() = exit;
        self.steps[t].pop();
        self.steps[t].push(Step::Call(self.machine.graph_launch.0, entry..exit + 1));
    }
}
