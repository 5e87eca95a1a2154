//! Random well-formed programs of every kind of command, in the file form.

use serde_json::{Value, json};

/// A small generator of its own, so that a seed names the same program for ever.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..4).for_each(|_| _ = r.next());
        r
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 3
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("below a usize")
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Bytes of every block: small, so that spans meet often.
pub(crate) const BLOCK: i64 = 24;

#[derive(Clone)]
struct Buffer {
    name: String,
    space: &'static str,
    via: &'static str,
    freed: bool,
    reused: bool,
}

/// An open capture: its origin and the streams that take part, the origin first.
struct Capture {
    streams: Vec<String>,
    /// Legacy streams may not be used meanwhile.
    forbids_legacy: bool,
    events: Vec<String>,
}

struct Maker {
    r: Random,
    ops: Vec<Value>,
    /// Name, device, kind.
    streams: Vec<(String, u64, &'static str)>,
    buffers: Vec<Buffer>,
    threads: Vec<String>,
    /// Names of events that hold a place in a capture.
    captured_events: Vec<String>,
    destroyed: Vec<String>,
    capture: Option<Capture>,
    graphs: Vec<String>,
    n_names: usize,
}

/// What a generated program may have.
#[derive(Clone, Copy, Default)]
pub(crate) struct Plain {
    /// Neither threads nor synchronous peer copies, which reach all over a program.
    pub(crate) alone: bool,
    /// Many commands on few buffers.
    pub(crate) long: bool,
}

/// The commands of program `seed`.
pub(crate) fn program(seed: u64, plain: Plain) -> Vec<Value> {
    let mut m = Maker {
        r: Random::new(seed),
        ops: vec![],
        streams: vec![("0".to_owned(), 0, "legacy"), ("0@1".to_owned(), 1, "legacy")],
        buffers: vec![],
        threads: vec!["main".to_owned()],
        captured_events: vec![],
        destroyed: vec![],
        capture: None,
        graphs: vec![],
        n_names: 0,
    };
    for _ in 0..=m.r.below(4) {
        m.stream();
    }
    for _ in 0..=m.r.below(3) {
        m.alloc();
    }
    let length = if plain.long { 100 + m.r.below(150) } else { 3 + m.r.below(16) };
    // Some programs are about one thing, so that its rules meet often.
    let taste = m.r.below(12);
    for _ in 0..length {
        m.any(plain, taste);
    }
    m.end_capture();
    m.ops
}

impl Maker {
    fn name(&mut self, prefix: &str) -> String {
        self.n_names += 1;
        format!("{prefix}{}", self.n_names)
    }

    /// Adds a command called by any thread.
    fn push(&mut self, mut op: Value) {
        let t = self.r.pick(&self.threads).clone();
        if t != "main" {
            op["t"] = t.into();
        }
        self.ops.push(op);
    }

    fn stream(&mut self) {
        let (name, dev) = (self.name("s"), self.r.below(2) as u64);
        let kind = *self.r.pick(&["nonblocking", "blocking", "per_thread", "nonblocking"]);
        self.ops.push(json!({"op": "stream", "s": name, "dev": dev, "kind": kind}));
        self.streams.push((name, dev, kind));
    }

    fn alloc(&mut self) {
        let kinds = [
            ("device", "malloc"),
            ("pinned", "malloc"),
            ("pageable", "malloc"),
            ("managed", "malloc"),
            ("device", "malloc_async"),
            ("device", "pool"),
            ("pinned", "pinned_pool"),
            ("device", "rawpool"),
        ];
        let (space, via) = *self.r.pick(&kinds);
        self.alloc_as(space, via, None);
    }

    fn alloc_as(&mut self, space: &'static str, via: &'static str, reuse: Option<String>) {
        let name = self.name("b");
        let mut dev = self.r.below(2) as u64;
        let mut op = json!({"op": "alloc", "buf": name, "bytes": BLOCK, "space": space, "via": via});
        if via == "malloc_async" || via == "pool" || via == "rawpool" {
            let Some(s) = self.open_stream() else { return };
            dev = self.device_of(&s);
            op["s"] = s.into();
        }
        if space == "pinned" || space == "pageable" {
            dev = 0;
        }
        op["dev"] = dev.into();
        if let Some(old) = reuse {
            op["reuse"] = old.into();
        }
        self.push(op);
        self.buffers.push(Buffer { name, space, via, freed: false, reused: false });
    }

    fn device_of(&self, s: &str) -> u64 {
        self.streams.iter().find(|x| x.0 == s).map_or(0, |x| x.1)
    }

    fn is_capturing(&self, s: &str) -> bool {
        self.capture.as_ref().is_some_and(|c| c.streams.iter().any(|x| x == s))
    }

    fn may_enqueue(&self, s: &(String, u64, &str)) -> bool {
        s.2 != "legacy" || !self.capture.as_ref().is_some_and(|c| c.forbids_legacy)
    }

    /// A stream on which something may be enqueued.
    fn any_stream(&mut self) -> Option<String> {
        let open: Vec<_> = self.streams.iter().filter(|s| self.may_enqueue(s)).map(|s| s.0.clone()).collect();
        (!open.is_empty()).then(|| self.r.pick(&open).clone())
    }

    /// One that is not being captured.
    fn open_stream(&mut self) -> Option<String> {
        self.any_stream().filter(|s| !self.is_capturing(s))
    }

    fn legacy_stream(&mut self) -> Option<String> {
        let s = if self.r.chance(70) { "0" } else { "0@1" };
        let blocked = self.capture.as_ref().is_some_and(|c| c.forbids_legacy);
        (!blocked).then(|| s.to_owned())
    }

    /// Some bytes of a buffer in one of these spaces; freed ones are rare.
    fn span(&mut self, spaces: &[&str], len: Option<i64>) -> Option<Value> {
        let allow_freed = self.r.chance(4);
        let fits = |b: &&Buffer| spaces.contains(&b.space) && (allow_freed || !b.freed);
        let names: Vec<_> = self.buffers.iter().filter(fits).map(|b| b.name.clone()).collect();
        if names.is_empty() {
            return None;
        }
        let name = self.r.pick(&names).clone();
        let mut span = match len {
            Some(len) => {
                let off = self.r.below(usize::try_from(BLOCK - len).expect("small") + 1);
                json!({"buf": name, "off": off, "len": len})
            }
            None => match self.r.below(8) {
                0 => {
                    let off = self.r.below(24);
                    json!({"buf": name, "off": off, "len": self.r.below(3).min(24 - off)})
                }
                1 => json!({"buf": name, "off": self.r.below(4), "dims": [[5, 4]], "elem": self.r.below(3)}),
                2 => json!({"buf": name, "off": 16 + self.r.below(4), "dims": [[3, -6], [2, 2]], "elem": 1}),
                3 => {
                    // All in one place, or each over half of the one before.
                    let stride = self.r.below(2);
                    let off = self.r.below(20 - 8 * stride);
                    json!({"buf": name, "off": off, "dims": [[9, stride]], "elem": 2})
                }
                4 => json!({"buf": name, "off": 0, "len": BLOCK}),
                _ => {
                    let off = self.r.below(20);
                    json!({"buf": name, "off": off, "len": 1 + self.r.below(24 - off)})
                }
            },
        };
        if self.r.chance(6) {
            span["opaque"] = true.into();
        }
        Some(span)
    }

    fn spans(&mut self, spaces: &[&str]) -> Vec<Value> {
        let n = *self.r.pick(&[0, 1, 1, 1, 2]);
        (0..n).filter_map(|_| self.span(spaces, None)).collect()
    }

    fn kernel(&mut self) -> Option<()> {
        let s = self.any_stream()?;
        let op = if self.r.chance(85) { "kernel" } else { "host_fn" };
        let spaces: &[&str] = match op {
            "kernel" => &["device", "managed", "pinned"],
            _ => &["pinned", "pageable", "managed"],
        };
        let (reads, writes) = (self.spans(spaces), self.spans(spaces));
        self.push(json!({"op": op, "s": s, "reads": reads, "writes": writes}));
        Some(())
    }

    fn copy(&mut self, plain: Plain) -> Option<()> {
        let all = ["device", "pinned", "pageable", "managed"];
        let len = i64::try_from(self.r.below(12)).expect("small");
        let (dst, src) = (self.span(&all, Some(len))?, self.span(&all, Some(len))?);
        let sync = self.r.chance(40);
        let s = if sync { self.legacy_stream()? } else { self.any_stream()? };
        let mut op = json!({"op": "copy", "s": s, "dst": dst, "src": src, "sync": sync});
        if self.r.chance(15) {
            op["untracked"] = true.into();
        }
        if self.r.chance(20) && !(plain.alone && sync) {
            op["peer"] = true.into();
        }
        self.push(op);
        Some(())
    }

    fn event(&mut self) -> Option<String> {
        let e = format!("e{}", self.r.below(3));
        (!self.destroyed.contains(&e)).then_some(e)
    }

    fn record(&mut self) -> Option<()> {
        let (e, s) = (self.event()?, self.any_stream()?);
        self.captured_events.retain(|x| *x != e);
        let capturing = self.is_capturing(&s);
        if let Some(c) = &mut self.capture {
            c.events.retain(|x| *x != e);
            if capturing {
                c.events.push(e.clone());
                self.captured_events.push(e.clone());
            }
        }
        self.push(json!({"op": "record", "e": e, "s": s}));
        Some(())
    }

    fn wait(&mut self) -> Option<()> {
        let (e, s) = (self.event()?, self.any_stream()?);
        let held_by_capture = self.captured_events.contains(&e);
        let current = self.capture.as_ref().is_some_and(|c| c.events.contains(&e));
        if held_by_capture != current || (self.is_capturing(&s) && !current) {
            return None;
        }
        if current && !self.is_capturing(&s) {
            if self.streams.iter().any(|x| x.0 == s && x.2 == "legacy") {
                return None;
            }
            self.capture.as_mut()?.streams.push(s.clone());
        }
        self.push(json!({"op": "wait", "s": s, "e": e}));
        Some(())
    }

    fn host_side(&mut self) -> Option<()> {
        let host = ["pinned", "pageable", "managed"];
        let op = match self.r.below(5) {
            0 | 1 => json!({"op": "host_read", "span": self.span(&host, None)?}),
            2 | 3 => json!({"op": "host_write", "span": self.span(&host, None)?}),
            _ => {
                let (dst, src) = (self.span(&host[..2], Some(4))?, self.span(&host[..2], Some(4))?);
                json!({"op": "host_copy", "dst": dst, "src": src})
            }
        };
        self.push(op);
        Some(())
    }

    fn sync(&mut self) -> Option<()> {
        let op = match self.r.below(6) {
            0 | 1 => {
                let e = self.event()?;
                if self.captured_events.contains(&e) {
                    return None;
                }
                match self.r.below(3) {
                    0 => json!({"op": "event_query", "e": e, "ready": self.r.chance(60)}),
                    _ => json!({"op": "event_sync", "e": e}),
                }
            }
            2..=4 => {
                let s = self.open_stream()?;
                match self.r.below(3) {
                    0 => json!({"op": "stream_query", "s": s, "ready": self.r.chance(60)}),
                    _ => json!({"op": "stream_sync", "s": s}),
                }
            }
            _ if self.capture.is_none() => json!({"op": "device_sync", "dev": self.r.below(2)}),
            _ => return None,
        };
        self.push(op);
        Some(())
    }

    fn memory(&mut self) -> Option<()> {
        let live: Vec<_> = (0..self.buffers.len()).filter(|&k| !self.buffers[k].freed).collect();
        let reusable: Vec<_> =
            (0..self.buffers.len()).filter(|&k| self.buffers[k].freed && !self.buffers[k].reused).collect();
        match self.r.below(6) {
            0 => self.alloc(),
            1 | 2 if !live.is_empty() => {
                let k = *self.r.pick(&live);
                let b = self.buffers[k].clone();
                let mut op = json!({"op": "free", "buf": b.name});
                let via = match (b.via, b.space) {
                    ("malloc", "pinned") => *self.r.pick(&["host_free", "unregister"]),
                    ("malloc", "pageable") => "host_free",
                    ("malloc", _) => "free",
                    ("malloc_async", _) if self.r.chance(75) => {
                        op["s"] = self.open_stream()?.into();
                        "free_async"
                    }
                    ("malloc_async", _) => "free",
                    (via, _) => via,
                };
                op["via"] = via.into();
                self.push(op);
                self.buffers[k].freed = true;
            }
            3 | 4 if !reusable.is_empty() => {
                let k = *self.r.pick(&reusable);
                let b = self.buffers[k].clone();
                let n = self.buffers.len();
                self.alloc_as(b.space, b.via, Some(b.name));
                self.buffers[k].reused = self.buffers.len() > n;
            }
            _ => {
                let pooled = |b: &&Buffer| !b.freed && b.via.ends_with("pool");
                let pooled: Vec<_> = self.buffers.iter().filter(pooled).map(|b| b.name.clone()).collect();
                if pooled.is_empty() {
                    return None;
                }
                let (buf, s) = (self.r.pick(&pooled).clone(), self.open_stream()?);
                self.push(json!({"op": "record_stream", "buf": buf, "s": s}));
            }
        }
        Some(())
    }

    fn threads(&mut self) -> Option<()> {
        match self.r.below(5) {
            0 if self.threads.len() < 3 => {
                let t = self.name("t");
                self.ops.push(json!({"op": "thread_spawn", "t": t}));
                self.threads.push(t);
            }
            1 if self.threads.len() > 1 => {
                let k = 1 + self.r.below(self.threads.len() - 1);
                let t = self.threads.remove(k);
                self.ops.push(json!({"op": "thread_join", "t": t}));
            }
            k => {
                let ch = format!("c{}", k % 2);
                let op = *self.r.pick(&["signal", "await"]);
                self.push(json!({"op": op, "ch": ch}));
            }
        }
        Some(())
    }

    fn graph(&mut self) -> Option<()> {
        match self.r.below(4) {
            0 if self.capture.is_none() => {
                let s = self.open_stream()?;
                let kind = self.streams.iter().find(|x| x.0 == s)?.2;
                if kind == "legacy" {
                    return None;
                }
                let forbids_legacy = kind != "nonblocking";
                self.capture = Some(Capture { streams: vec![s.clone()], forbids_legacy, events: vec![] });
                self.push(json!({"op": "capture_begin", "s": s}));
            }
            1 => self.end_capture(),
            _ if !self.graphs.is_empty() => {
                let (g, s) = (self.r.pick(&self.graphs).clone(), self.open_stream()?);
                self.push(json!({"op": "graph_launch", "g": g, "s": s}));
            }
            _ => return None,
        }
        Some(())
    }

    /// Joins all branches to the origin and ends the capture.
    fn end_capture(&mut self) {
        let Some(capture) = self.capture.take() else { return };
        let origin = &capture.streams[0];
        for s in &capture.streams[1..] {
            let e = self.name("join");
            self.push(json!({"op": "record", "e": e, "s": s}));
            self.push(json!({"op": "wait", "s": origin, "e": e}));
            self.captured_events.push(e);
        }
        let g = self.name("g");
        self.push(json!({"op": "capture_end", "s": origin, "g": g}));
        self.graphs.push(g);
    }

    fn events(&mut self) -> Option<()> {
        let e = format!("e{}", self.r.below(3));
        if self.destroyed.contains(&e) || self.r.chance(30) {
            self.destroyed.retain(|x| *x != e);
            self.push(json!({"op": "event_create", "e": e}));
        } else {
            self.destroyed.push(e.clone());
            self.push(json!({"op": "event_destroy", "e": e}));
        }
        self.captured_events.retain(|x| *x != e);
        if let Some(c) = &mut self.capture {
            c.events.retain(|x| *x != e);
        }
        Some(())
    }

    /// One command, or none where what was picked is not possible now.
    fn any(&mut self, plain: Plain, taste: usize) {
        let roll = if self.r.chance(35) {
            [0, 20, 40, 50, 62, 70, 78, 92, 45, 55, 0, 40][taste]
        } else {
            self.r.below(100)
        };
        _ = match roll {
            0..28 => self.kernel(),
            28..42 => self.copy(plain),
            42..48 => {
                let sync = self.r.chance(50);
                let s = if sync { self.legacy_stream() } else { self.any_stream() };
                s.and_then(|s| {
                    let dst = self.span(&["device", "pinned", "managed"], None)?;
                    self.push(json!({"op": "memset", "s": s, "dst": dst, "sync": sync}));
                    Some(())
                })
            }
            48..56 => self.record(),
            56..64 => self.wait(),
            64..71 => self.host_side(),
            71..77 => self.sync(),
            77..88 => self.memory(),
            88..91 if !plain.alone => self.threads(),
            91..97 => self.graph(),
            97 => {
                self.stream();
                Some(())
            }
            98 => {
                let s = self.r.pick(&self.streams).0.clone();
                let ops = [
                    json!({"op": "stream_destroy", "s": s}),
                    json!({"op": "host_sleep", "us": 5}),
                    json!({"op": "host_work", "ns": 100}),
                ];
                // Nobody uses a destroyed stream again.
                let op = ops[if self.streams.len() > 4 && !self.is_capturing(&s) && !s.starts_with('0') {
                    self.r.below(3)
                } else {
                    1 + self.r.below(2)
                }]
                .clone();
                if op["op"] == "stream_destroy" {
                    self.streams.retain(|x| x.0 != s);
                }
                self.push(op);
                Some(())
            }
            _ => self.events(),
        };
    }
}
