//! The contract's table of effects once more, from the file form: explicit nodes, transitive closure, sets of bytes.
//!
//! Shares nothing with the checker but the JSON that both read and the terms that are asked for. Slow and plain on purpose.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spanlift::hazard::{Mode, Terms};

/// Kind, buffer, first, second, certainty.
pub(crate) type Pair = (String, String, usize, usize, String);

/// A touch of some bytes by a node.
#[derive(Clone)]
struct Touch {
    node: usize,
    /// A node that it is ordered after the predecessors of, besides its own.
    also: Option<usize>,
    op: usize,
    buffer: String,
    write: bool,
    opaque: bool,
    bytes: BTreeSet<i64>,
}

#[derive(Clone)]
struct Buffer {
    space: String,
    via: String,
    block: String,
    birth: Option<(usize, usize)>,
    freed: Option<usize>,
    death: Option<usize>,
    noted: BTreeSet<String>,
    kept: Vec<usize>,
}

#[derive(Clone)]
enum Event {
    Node(usize),
    /// Number of the capture, nodes of its graph.
    Captured(usize, BTreeSet<usize>),
}

/// A captured node: what it comes after in the graph, and what it touches.
#[derive(Clone, Default)]
struct GraphNode {
    op: usize,
    after: BTreeSet<usize>,
    touches: Vec<(bool, Value)>,
}

#[derive(Default)]
struct Capture {
    nodes: Vec<GraphNode>,
    frontiers: BTreeMap<String, BTreeSet<usize>>,
    open: bool,
}

#[derive(Default)]
struct World {
    typical: bool,
    /// Whether asynchronous copies stand in no stream's order.
    loose: bool,
    /// Those of each stream.
    loose_on: BTreeMap<String, Vec<usize>>,
    /// Which bytes are touched is not asked: one stands for all.
    blind: bool,
    /// Predecessors of each node.
    preds: Vec<Vec<usize>>,
    host: BTreeMap<String, usize>,
    /// Device, kind, frontier.
    streams: BTreeMap<String, (u64, String, Option<usize>)>,
    events: BTreeMap<String, Event>,
    signals: BTreeMap<String, Vec<usize>>,
    buffers: BTreeMap<String, Buffer>,
    captures: Vec<Capture>,
    /// Captured nodes and the last node of the latest launch.
    graphs: BTreeMap<String, (Vec<GraphNode>, Option<usize>)>,
    touches: Vec<Touch>,
    found: Vec<Pair>,
    /// The nodes of steps by name, and for early reads a node whose predecessors come before it too.
    labels: BTreeMap<String, (usize, Option<usize>)>,
    /// For each free with a death node: its op, its node, the buffer, and how many touches came before.
    deaths: Vec<(usize, usize, String, usize)>,
}

pub(crate) fn s<'v>(op: &'v Value, field: &str) -> &'v str {
    op[field].as_str().unwrap_or_else(|| panic!("{field} in {op}"))
}

/// The bytes of a span in the order in which they move.
pub(crate) fn bytes(span: &Value) -> Vec<i64> {
    let off = span["off"].as_i64().unwrap();
    let Some(dims) = span["dims"].as_array() else {
        return (off..off + span["len"].as_i64().unwrap()).collect();
    };
    let mut starts = vec![off];
    for d in dims {
        let (count, stride) = (d[0].as_i64().unwrap(), d[1].as_i64().unwrap());
        starts = starts.iter().flat_map(|p| (0..count).map(move |i| p + i * stride)).collect();
    }
    let elem = span["elem"].as_i64().unwrap();
    starts.into_iter().flat_map(|p| p..p + elem).collect()
}

/// Byte 0 for a span that has any.
fn some_bytes(span: &Value) -> BTreeSet<i64> {
    let counts = span["dims"].as_array().into_iter().flatten().map(|d| &d[0]);
    let is_empty = counts.chain([&span["elem"], &span["len"]]).any(|n| n.as_i64() == Some(0));
    if is_empty { BTreeSet::new() } else { BTreeSet::from([0]) }
}

/// Every hazard of the program, as the contract defines them.
pub(crate) fn hazards(ops: &[Value], terms: impl Into<Terms>) -> BTreeSet<Pair> {
    World::of(ops, terms, false).judge()
}

/// Steps by name with the names of those that come before them: the transitive closure, over steps alone. An early read
/// comes besides after what its stream wrote there.
pub(crate) fn order(ops: &[Value], terms: impl Into<Terms>) -> BTreeMap<String, BTreeSet<String>> {
    let terms = terms.into();
    let mut w = World::of(ops, terms, true);
    if w.labels.values().any(|(_, also)| also.is_some()) {
        w = World::of(ops, terms, false);
    }
    let before = w.closure();
    let block = |x: &Touch| &w.buffers[&x.buffer].block;
    let is_source = |a: usize, b: usize| {
        w.touches.iter().filter(|x| x.node == a && x.write).any(|x| {
            let mut reads = w.touches.iter().filter(|y| y.node == b);
            reads.any(|y| block(x) == block(y) && !x.bytes.is_disjoint(&y.bytes))
        })
    };
    let is_before = |a: usize, (b, also): (usize, Option<usize>)| {
        a != b && (before[b][a] || also.is_some_and(|also| also != a && before[also][a] && is_source(a, b)))
    };
    let past = |&at: &(usize, Option<usize>)| {
        w.labels.iter().filter(|(_, a)| is_before(a.0, at)).map(|(name, _)| name.clone()).collect()
    };
    w.labels.iter().map(|(name, at)| (name.clone(), past(at))).collect()
}

/// What the steps of a program do to memory.
#[derive(Default)]
pub(crate) struct Memory {
    /// Step, whether it writes, buffer, bytes; in the order of the list.
    pub(crate) touches: Vec<(String, bool, String, BTreeSet<i64>)>,
    /// The block of each buffer.
    pub(crate) block_of: BTreeMap<String, String>,
    /// The steps where stream-ordered buffers begin, and where buffers end.
    pub(crate) births: BTreeMap<String, String>,
    pub(crate) deaths: BTreeMap<String, String>,
    /// Buffers that were freed, but for those that are only unregistered.
    pub(crate) freed: BTreeSet<String>,
}

pub(crate) fn memory(ops: &[Value], terms: impl Into<Terms>) -> Memory {
    let w = World::of(ops, terms, false);
    let name_of: BTreeMap<usize, String> = w.labels.iter().map(|(name, at)| (at.0, name.clone())).collect();
    let touch = |t: &Touch| (name_of[&t.node].clone(), t.write, t.buffer.clone(), t.bytes.clone());
    let mut memory = Memory { touches: w.touches.iter().map(touch).collect(), ..Memory::default() };
    for (name, buffer) in &w.buffers {
        memory.block_of.insert(name.clone(), buffer.block.clone());
        if let Some((birth, _)) = buffer.birth {
            memory.births.insert(name.clone(), name_of[&birth].clone());
        }
        if let Some(death) = buffer.death {
            memory.deaths.insert(name.clone(), name_of[&death].clone());
        }
        if buffer.freed.is_some_and(|k| s(&ops[k], "via") != "unregister") {
            memory.freed.insert(name.clone());
        }
    }
    memory
}

impl World {
    fn of(ops: &[Value], terms: impl Into<Terms>, blind: bool) -> World {
        let Terms { mode, ordered_copies } = terms.into();
        let (typical, loose) = (mode == Mode::Typical, !ordered_copies);
        let mut w = World { typical, loose, blind, preds: vec![vec![]], ..World::default() };
        w.host.insert("main".to_owned(), 0);
        // Legacy streams exist from the start, on every device that is mentioned.
        let devs = ops.iter().filter_map(|o| o["dev"].as_u64());
        let named = ops.iter().filter_map(|o| o["s"].as_str()?.strip_prefix("0@")?.parse().ok());
        for dev in devs.chain(named).chain([0]).collect::<BTreeSet<u64>>() {
            w.streams.insert(legacy(dev), (dev, "legacy".to_owned(), None));
        }
        for (index, op) in ops.iter().enumerate() {
            w.step(index, op);
        }
        w
    }
}

fn legacy(dev: u64) -> String {
    if dev == 0 { "0".to_owned() } else { format!("0@{dev}") }
}

impl World {
    fn node(&mut self, preds: Vec<usize>) -> usize {
        self.preds.push(preds);
        self.preds.len() - 1
    }

    fn frontiers(&self, pick: impl Fn(u64, &str) -> bool) -> Vec<usize> {
        self.streams.values().filter(|(dev, kind, _)| pick(*dev, kind)).filter_map(|x| x.2).collect()
    }

    fn is_legacy(&self, stream: &str) -> bool {
        self.streams[stream].1 == "legacy"
    }

    fn enqueue(&mut self, stream: &str, t: &str, extra: Vec<usize>) -> usize {
        let (dev, kind, frontier) = self.streams[stream].clone();
        let mut preds = extra;
        preds.extend(frontier);
        preds.push(self.host[t]);
        match kind.as_str() {
            "legacy" => {
                preds.extend(self.frontiers(|d, k| d == dev && (k == "blocking" || k == "per_thread")))
            }
            "blocking" | "per_thread" => preds.extend(self.streams[&legacy(dev)].2),
            _ => {}
        }
        let node = self.node(preds);
        self.streams.get_mut(stream).unwrap().2 = Some(node);
        node
    }

    fn join(&mut self, t: &str, mut preds: Vec<usize>) {
        preds.push(self.host[t]);
        let node = self.node(preds);
        self.host.insert(t.to_owned(), node);
    }

    fn stream_sync(&mut self, t: &str, stream: &str) {
        let (dev, _, frontier) = self.streams[stream].clone();
        let mut preds: Vec<usize> = frontier.into_iter().collect();
        preds.extend(self.loose_on.get(stream).into_iter().flatten());
        if self.is_legacy(stream) {
            preds.extend(self.frontiers(|d, k| d == dev && (k == "blocking" || k == "per_thread")));
        }
        self.join(t, preds);
    }

    fn touch(&mut self, node: usize, op: usize, write: bool, span: &Value) {
        let bytes = if self.blind { some_bytes(span) } else { bytes(span).into_iter().collect() };
        if bytes.is_empty() {
            return;
        }
        let buffer = s(span, "buf").to_owned();
        let opaque = span["opaque"].as_bool().unwrap_or(false);
        self.touches.push(Touch { node, also: None, op, buffer, write, opaque, bytes });
    }

    fn capture_of(&self, stream: &str) -> Option<usize> {
        self.captures.iter().position(|c| c.open && c.frontiers.contains_key(stream))
    }

    /// A node of a graph, or a node on the stream.
    fn run(&mut self, index: usize, stream: &str, t: &str, touches: Vec<(bool, Value)>) -> usize {
        if let Some(c) = self.capture_of(stream) {
            let capture = &mut self.captures[c];
            let after = capture.frontiers[stream].clone();
            capture.nodes.push(GraphNode { op: index, after, touches });
            let node = capture.nodes.len() - 1;
            capture.frontiers.insert(stream.to_owned(), BTreeSet::from([node]));
            return usize::MAX;
        }
        let node = self.enqueue(stream, t, vec![]);
        self.label(index, 'w', node);
        for (write, span) in touches {
            self.touch(node, index, write, &span);
        }
        node
    }

    fn label(&mut self, index: usize, part: char, node: usize) {
        self.labels.insert(format!("{part}{index}"), (node, None));
    }

    fn copy(&mut self, index: usize, t: &str, op: &Value) {
        let stream = s(op, "s");
        let flag = |name: &str| op[name].as_bool().unwrap_or(false);
        let (src, dst) = (&op["src"], &op["dst"]);
        let both = vec![(false, src.clone()), (true, dst.clone())];
        if self.capture_of(stream).is_some() {
            self.run(index, stream, t, both);
            return;
        }
        for span in [src, dst] {
            let buffer = self.buffers.get_mut(s(span, "buf")).unwrap();
            if buffer.via == "pinned_pool" && !flag("untracked") && !some_bytes(span).is_empty() {
                buffer.noted.insert(stream.to_owned());
            }
        }
        let space = |span: &Value| self.buffers[s(span, "buf")].space.clone();
        let (from, to) = (space(src), space(dst));
        let host = |x: &str| x == "pinned" || x == "pageable";
        let (sync, peer) = (flag("sync"), flag("peer"));
        if sync && peer {
            let before = self.frontiers(|_, k| k != "nonblocking");
            let node = self.enqueue(stream, t, before);
            self.label(index, 'w', node);
            self.touch(node, index, false, src);
            self.touch(node, index, true, dst);
            let all: Vec<String> =
                self.streams.iter().filter(|(_, x)| x.1 == "legacy").map(|(name, _)| name.clone()).collect();
            for name in all {
                let old = self.streams[&name].2;
                let moved = self.node([Some(node), old].into_iter().flatten().collect());
                self.streams.get_mut(&name).unwrap().2 = Some(moved);
            }
            return;
        }
        if self.loose && !sync {
            // After what the caller did; before nothing but what waits for this stream or its device.
            let node = self.node(vec![self.host[t]]);
            self.label(index, 'w', node);
            self.touch(node, index, false, src);
            self.touch(node, index, true, dst);
            self.loose_on.entry(stream.to_owned()).or_default().push(node);
            return;
        }
        let read_on_host = |w: &mut World| {
            let node = w.node(vec![w.host[t]]);
            w.host.insert(t.to_owned(), node);
            w.label(index, 'c', node);
            w.touch(node, index, false, src);
        };
        if from == "pageable" && !host(&to) && sync {
            self.stream_sync(t, stream);
            read_on_host(self);
            self.run(index, stream, t, vec![(true, dst.clone())]);
        } else if from == "pageable" && !host(&to) && self.typical {
            let n = self.touches.len();
            read_on_host(self);
            // Typical order has all of contract order: the read keeps what the stream guarantees.
            let read = self.touches.len();
            let node = self.run(index, stream, t, vec![(true, dst.clone())]);
            self.touches[n..read].iter_mut().for_each(|x| x.also = Some(node));
            self.labels.insert(format!("c{index}"), (node - 1, Some(node)));
        } else {
            let node = self.run(index, stream, t, both);
            let joins = (host(&from) && host(&to))
                || (from == "pinned" && sync)
                || (!host(&from) && host(&to) && sync)
                || (!host(&from) && to == "pageable" && self.typical);
            if joins {
                self.join(t, vec![node]);
            }
        }
    }

    fn free(&mut self, index: usize, t: &str, op: &Value) {
        let name = s(op, "buf").to_owned();
        let buffer = self.buffers[&name].clone();
        let mut death = None;
        match s(op, "via") {
            "free_async" => {
                let node = self.enqueue(s(op, "s"), t, vec![]);
                self.label(index, 'w', node);
                death = Some(node);
            }
            "free" | "host_free" | "unregister" => {
                if self.typical && buffer.space != "pageable" && buffer.via != "malloc_async" {
                    let mut all = self.frontiers(|_, _| true);
                    all.extend(self.loose_on.values().flatten());
                    self.join(t, all);
                }
                let node = self.node(vec![self.host[t]]);
                self.label(index, 'c', node);
                self.host.insert(t.to_owned(), node);
                death = Some(node);
            }
            "pool" | "pinned_pool" => {
                let kept = buffer.noted.iter().filter_map(|s| self.streams[s].2).collect();
                self.buffers.get_mut(&name).unwrap().kept = kept;
            }
            _ => {}
        }
        let buffer = self.buffers.get_mut(&name).unwrap();
        (buffer.freed, buffer.death) = (Some(index), death);
        if let Some(node) = death {
            self.deaths.push((index, node, name, self.touches.len()));
        }
    }

    fn step(&mut self, index: usize, op: &Value) {
        let t = op["t"].as_str().unwrap_or("main").to_owned();
        let t = t.as_str();
        match s(op, "op") {
            "stream" => {
                let kind = s(op, "kind").to_owned();
                let frontier = Some(self.host["main"]);
                self.streams.insert(s(op, "s").to_owned(), (op["dev"].as_u64().unwrap(), kind, frontier));
            }
            "alloc" => {
                let name = s(op, "buf").to_owned();
                let old = op["reuse"].as_str().map(|old| self.buffers[old].clone());
                let via = s(op, "via").to_owned();
                let mut birth = None;
                if via == "malloc_async" {
                    let extra = old.as_ref().and_then(|old| old.death).into_iter().collect();
                    birth = Some((self.enqueue(s(op, "s"), t, extra), index));
                    self.label(index, 'w', self.preds.len() - 1);
                }
                if via.ends_with("pool")
                    && via != "rawpool"
                    && let Some(old) = &old
                {
                    self.join(t, old.kept.clone());
                }
                let block = old.map_or(name.clone(), |old| old.block);
                let space = s(op, "space").to_owned();
                let (noted, kept) = (BTreeSet::new(), vec![]);
                let buffer = Buffer { space, via, block, birth, freed: None, death: None, noted, kept };
                self.buffers.insert(name, buffer);
            }
            "free" => self.free(index, t, op),
            "record_stream" => {
                self.buffers.get_mut(s(op, "buf")).unwrap().noted.insert(s(op, "s").to_owned());
            }
            "kernel" | "host_fn" => {
                let list = |field: &str, write: bool| {
                    op[field].as_array().unwrap().iter().map(move |span| (write, span.clone()))
                };
                let touches = list("reads", false).chain(list("writes", true)).collect();
                self.run(index, s(op, "s"), t, touches);
            }
            "memset" => {
                let captured = self.capture_of(s(op, "s")).is_some();
                let node = self.run(index, s(op, "s"), t, vec![(true, op["dst"].clone())]);
                let device = self.buffers[s(&op["dst"], "buf")].space == "device";
                if op["sync"].as_bool().unwrap() && !device && !captured {
                    self.join(t, vec![node]);
                }
            }
            "copy" => self.copy(index, t, op),
            "host_read" | "host_write" | "host_copy" => {
                let node = self.node(vec![self.host[t]]);
                self.host.insert(t.to_owned(), node);
                self.label(index, 'c', node);
                match s(op, "op") {
                    "host_read" => self.touch(node, index, false, &op["span"]),
                    "host_write" => self.touch(node, index, true, &op["span"]),
                    _ => {
                        self.touch(node, index, false, &op["src"]);
                        self.touch(node, index, true, &op["dst"]);
                    }
                }
            }
            "event_create" | "event_destroy" => {
                self.events.remove(s(op, "e"));
            }
            "record" => {
                let stream = s(op, "s");
                let event = match self.capture_of(stream) {
                    Some(c) => Event::Captured(c, self.captures[c].frontiers[stream].clone()),
                    None => {
                        let node = self.enqueue(stream, t, vec![]);
                        self.label(index, 'w', node);
                        Event::Node(node)
                    }
                };
                self.events.insert(s(op, "e").to_owned(), event);
            }
            "wait" => {
                let stream = s(op, "s");
                match self.events.get(s(op, "e")).cloned() {
                    Some(Event::Captured(c, nodes)) if self.captures[c].open => {
                        self.captures[c].frontiers.entry(stream.to_owned()).or_default().extend(nodes);
                    }
                    Some(Event::Node(node)) => {
                        let node = self.enqueue(stream, t, vec![node]);
                        self.label(index, 'w', node);
                    }
                    // For nothing: no node, so that nobody comes after anything by it.
                    _ => {}
                }
            }
            "event_sync" | "event_query" => {
                let done = op["ready"].as_bool().unwrap_or(true);
                if let (true, Some(Event::Node(node))) = (done, self.events.get(s(op, "e")).cloned()) {
                    self.join(t, vec![node]);
                }
            }
            "stream_sync" | "stream_query" => {
                if op["ready"].as_bool().unwrap_or(true) {
                    self.stream_sync(t, s(op, "s"));
                }
            }
            "device_sync" => {
                let dev = op["dev"].as_u64().unwrap();
                let mut all = self.frontiers(|d, _| d == dev);
                let on_it = self.loose_on.iter().filter(|(stream, _)| self.streams[*stream].0 == dev);
                all.extend(on_it.flat_map(|(_, nodes)| nodes));
                self.join(t, all);
            }
            "thread_spawn" => {
                let start = self.node(vec![self.host["main"]]);
                self.host.insert(t.to_owned(), start);
            }
            "thread_join" => {
                let end = self.host[t];
                self.join("main", vec![end]);
            }
            "signal" => {
                let node = self.host[t];
                self.signals.entry(s(op, "ch").to_owned()).or_default().push(node);
            }
            "await" => {
                let all = self.signals.get(s(op, "ch")).cloned().unwrap_or_default();
                self.join(t, all);
            }
            "capture_begin" => {
                let frontiers = BTreeMap::from([(s(op, "s").to_owned(), BTreeSet::new())]);
                self.captures.push(Capture { open: true, frontiers, nodes: vec![] });
            }
            "capture_end" => {
                let c = self.capture_of(s(op, "s")).unwrap();
                self.captures[c].open = false;
                let nodes = std::mem::take(&mut self.captures[c].nodes);
                self.graphs.insert(s(op, "g").to_owned(), (nodes, None));
            }
            "graph_launch" => {
                let (nodes, before) = self.graphs[s(op, "g")].clone();
                let stream = s(op, "s");
                let entry = self.enqueue(stream, t, before.into_iter().collect());
                let mut made: Vec<usize> = vec![];
                for node in nodes {
                    let mut preds: Vec<usize> = node.after.iter().map(|&k| made[k]).collect();
                    preds.push(entry);
                    let id = self.node(preds);
                    self.labels.insert(format!("w{index}.{}", node.op), (id, None));
                    made.push(id);
                    for (write, span) in node.touches {
                        self.touch(id, index, write, &span);
                    }
                }
                made.push(entry);
                let exit = self.node(made);
                self.streams.get_mut(stream).unwrap().2 = Some(exit);
                self.graphs.get_mut(s(op, "g")).unwrap().1 = Some(exit);
            }
            "stream_destroy" | "host_sleep" | "host_work" | "mark" => {}
            other => panic!("unknown op {other}"),
        }
        // Lifetimes are looked at when everything is known, but for what the list order decides.
        let fresh: Vec<Touch> = self.touches.iter().filter(|x| x.op == index).cloned().collect();
        for x in fresh {
            if let Some(by) = self.buffers[&x.buffer].freed {
                self.tell("use-after-free", &x.buffer, by, index, !x.opaque);
            }
        }
    }

    fn tell(&mut self, kind: &str, buffer: &str, first: usize, second: usize, must: bool) {
        let certainty = if must { "must" } else { "may" };
        self.found.push((kind.to_owned(), buffer.to_owned(), first, second, certainty.to_owned()));
    }

    fn closure(&self) -> Vec<Vec<bool>> {
        let n = self.preds.len();
        // before[k] has every node that happens before k; nodes come after their predecessors in number.
        let mut before: Vec<Vec<bool>> = Vec::with_capacity(n);
        for k in 0..n {
            let mut row = vec![false; n];
            for &p in &self.preds[k] {
                assert!(p < k);
                row[p] = true;
                for (mine, theirs) in row.iter_mut().zip(&before[p]) {
                    *mine |= *theirs;
                }
            }
            before.push(row);
        }
        before
    }

    fn judge(mut self) -> BTreeSet<Pair> {
        let before = self.closure();
        let touches = std::mem::take(&mut self.touches);
        for (k, b) in touches.iter().enumerate() {
            if let Some((birth, by)) = self.buffers[&b.buffer].birth
                && !before[b.node][birth]
            {
                self.tell("use-before-alloc", &b.buffer, by, b.op, !b.opaque);
            }
            for a in &touches[..k] {
                let block = |x: &Touch| self.buffers[&x.buffer].block.clone();
                let after = |n: usize| before[n][a.node];
                let ordered = a.node == b.node || after(b.node) || b.also.is_some_and(after);
                if ordered || !(a.write || b.write) || block(a) != block(b) || a.bytes.is_disjoint(&b.bytes) {
                    continue;
                }
                let kind = match (a.write, b.write) {
                    (true, true) => "WAW",
                    (true, false) => "RAW",
                    _ => "WAR",
                };
                self.tell(kind, &a.buffer, a.op, b.op, !a.opaque && !b.opaque);
            }
        }
        for (op, node, name, n_before) in std::mem::take(&mut self.deaths) {
            for a in touches[..n_before].iter().filter(|a| a.buffer == name) {
                if !before[node][a.node] {
                    self.tell("free-in-flight", &name, a.op, op, !a.opaque);
                }
            }
        }
        // One entry for each kind, buffer and pair: certain if any of its evidence is.
        let certain: BTreeSet<Pair> = self.found.iter().filter(|p| p.4 == "must").cloned().collect();
        let covered = |p: &Pair| certain.contains(&(p.0.clone(), p.1.clone(), p.2, p.3, "must".to_owned()));
        let rest = self.found.iter().filter(|p| !covered(p)).cloned();
        rest.collect::<BTreeSet<_>>().union(&certain).cloned().collect()
    }
}
