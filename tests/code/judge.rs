//! Whether a run's calls are those of its program.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::hazard::Mode;
use spanlift::program::code::Language;

use crate::reference::{self, bytes, s};

struct Judge<'a> {
    language: Language,
    ops: &'a [Value],
    /// By thread its lines, each with its position.
    lines: Vec<VecDeque<(usize, Vec<&'a str>)>>,
    /// Threads as they were spawned, `main` first.
    threads: Vec<&'a str>,
    allocs: BTreeMap<&'a str, &'a Value>,
    registered: BTreeSet<&'a str>,
    /// The buffers whose name is gone in Python.
    freed: BTreeSet<&'a str>,
    /// Of each stream its device, and whether somebody makes it.
    streams: BTreeMap<String, (u64, bool)>,
    /// By kind and name the handle.
    handles: BTreeMap<(String, String), &'a str>,
    taken: BTreeSet<&'a str>,
    event_devices: BTreeMap<&'a str, u64>,
    /// By channel who signalled.
    sent: BTreeMap<&'a str, Vec<usize>>,
    /// By channel and thread how many of those it awaited.
    known: BTreeMap<(&'a str, usize), usize>,
    /// Where each command was called; a command without a call, right behind the one before.
    places: Vec<(usize, usize)>,
    /// By thread the place of the last call.
    last: Vec<usize>,
}

/// A buffer and bytes of it as runs without gaps: `b@x 0+4,8+4`.
fn runs(span: &Value, bytes: &[i64]) -> String {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for &at in bytes {
        match runs.last_mut() {
            Some((from, n)) if *from + *n == at => *n += 1,
            _ => runs.push((at, 1)),
        }
    }
    let words: Vec<String> = runs.iter().map(|(from, n)| format!("{from}+{n}")).collect();
    format!("b@{} {}", s(span, "buf"), if words.is_empty() { "-".to_owned() } else { words.join(",") })
}

/// What a command makes.
fn made(op: &Value) -> Option<&str> {
    let field = match s(op, "op") {
        "stream" => "s",
        "alloc" => "buf",
        "capture_end" => "g",
        _ => return None,
    };
    op[field].as_str()
}

/// What a command names that another made.
fn used(op: &Value) -> Vec<&str> {
    let regions = [&op["dst"], &op["src"], &op["span"]];
    let lists = [&op["reads"], &op["writes"]].into_iter().filter_map(Value::as_array).flatten();
    let buffers = regions.into_iter().chain(lists).filter_map(|span| span["buf"].as_str());
    let names = ["s", "buf", "reuse", "g"].into_iter().filter_map(|field| op[field].as_str());
    names.chain(buffers).filter(|name| Some(*name) != made(op)).collect()
}

/// Tells what is wrong with what a run said.
pub(crate) fn run(language: Language, ops: &[Value], said: &str) -> Result<(), String> {
    let mut judge = Judge::of(language, ops, said);
    judge.implicit_events()?;
    for (index, op) in ops.iter().enumerate() {
        let by = op["t"].as_str().unwrap_or("main");
        let by = judge.threads.iter().position(|t| *t == by).ok_or("no such thread")?;
        let judged = match language {
            Language::PyTorch => judge.in_torch(op, by),
            _ => judge.command(op, by),
        };
        judged.map_err(|why| format!("command {index} {op}: {why}"))?;
        judge.places.push((judge.last[by], index));
    }
    if let Some((_, line)) = judge.lines.iter().flatten().next() {
        return Err(format!("called beyond its program: {}", line.join(" ")));
    }
    judge.order()
}

impl<'a> Judge<'a> {
    fn of(language: Language, ops: &'a [Value], said: &'a str) -> Judge<'a> {
        let spawned = ops.iter().filter(|op| op["op"] == "thread_spawn").map(|op| s(op, "t"));
        let threads: Vec<&str> = ["main"].into_iter().chain(spawned).collect();
        let mut lines = vec![VecDeque::new(); threads.len()];
        for (place, line) in said.lines().skip(1).enumerate() {
            let mut words = line.split(' ');
            let thread: usize = words.next().unwrap().parse().unwrap();
            lines[thread].push_back((place, words.collect()));
        }
        let mut streams: BTreeMap<String, (u64, bool)> = BTreeMap::new();
        for op in ops.iter().filter(|op| op["s"].is_string()) {
            let name = s(op, "s");
            let dev = name.strip_prefix("0@").map_or(0, |n| n.parse().unwrap());
            streams.entry(name.to_owned()).or_insert((dev, false));
            if op["op"] == "stream" {
                streams.insert(name.to_owned(), (op["dev"].as_u64().unwrap(), true));
            }
        }
        let last = vec![0; threads.len()];
        Judge {
            language,
            ops,
            lines,
            threads,
            allocs: ops.iter().filter(|op| op["op"] == "alloc").map(|op| (s(op, "buf"), op)).collect(),
            registered: ops.iter().filter(|op| op["via"] == "unregister").map(|op| s(op, "buf")).collect(),
            freed: BTreeSet::new(),
            streams,
            handles: BTreeMap::new(),
            taken: BTreeSet::new(),
            event_devices: BTreeMap::new(),
            sent: BTreeMap::new(),
            known: BTreeMap::new(),
            places: Vec::new(),
            last,
        }
    }

    /// The events that nobody creates before they are used are there from the beginning.
    fn implicit_events(&mut self) -> Result<(), String> {
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        for op in self.ops.iter().filter(|op| op["e"].is_string()) {
            first.entry(s(op, "e")).or_insert(s(op, "op"));
        }
        for _ in first.values().filter(|op| **op != "event_create") {
            let (_, line) = self.lines[0].pop_front().ok_or("no event is made")?;
            let ["event", event] = line[1..] else { return Err(format!("no event: {line:?}")) };
            self.event_devices.insert(event, line[0].parse().unwrap());
        }
        Ok(())
    }

    fn next(&self, by: usize) -> &'a str {
        self.lines[by].front().map_or("", |(_, line)| line[1])
    }

    /// The next call of a thread, which must be this one: a device (`?` for any), the call, and its words. `b@x` is what
    /// buffer `x` has for a handle, `b+x` one that it has from now on.
    fn call(&mut self, by: usize, expected: &str) -> Result<Vec<&'a str>, String> {
        let (place, line) = self.lines[by].pop_front().ok_or_else(|| format!("no call, but {expected}"))?;
        let told = || format!("called {}, but {expected}", line.join(" "));
        let words: Vec<&str> = expected.split(' ').collect();
        if words.len() > line.len() {
            return Err(told());
        }
        for (word, found) in words.iter().zip(&line) {
            let fits = match word.as_bytes() {
                b"?" => true,
                [kind @ b'a'..=b'z', b'+', name @ ..] => {
                    let key = ((*kind as char).to_string(), String::from_utf8_lossy(name).into_owned());
                    self.handles.insert(key, found);
                    self.taken.insert(found)
                }
                [kind @ b'a'..=b'z', b'@', name @ ..] => {
                    let key = ((*kind as char).to_string(), String::from_utf8_lossy(name).into_owned());
                    let is_new = !self.handles.contains_key(&key);
                    let is_free = self.taken.insert(found) && found.as_bytes()[0] == *kind;
                    *self.handles.entry(key).or_insert(found) == *found && (is_free || !is_new)
                }
                _ => word == found,
            };
            if !fits {
                return Err(told());
            }
        }
        self.last[by] = place;
        Ok(line)
    }

    /// The device that must be current for a stream, and what the stream is called. Each device has its own stream 0.
    fn stream(&self, op: &Value, is_its_own: bool) -> (String, String) {
        let (dev, is_made) = self.streams[s(op, "s")];
        if self.language == Language::PyTorch {
            let name = s(op, "s");
            return ("?".to_owned(), format!("s{}{name}", if is_made { "@" } else { "" }));
        }
        let current = if is_its_own || !is_made { dev.to_string() } else { "?".to_owned() };
        (current, if is_made { format!("s@{}", s(op, "s")) } else { "s0".to_owned() })
    }

    fn space(&self, span: &Value) -> &'a str {
        s(self.allocs[s(span, "buf")], "space")
    }

    fn is_on_device(&self, span: &Value) -> bool {
        matches!(self.space(span), "device" | "managed")
    }

    /// Whether what follows says that there is no such call, as there may be none for rows.
    fn has_no_form(&mut self, by: usize, word: &str, spans: &[&Value]) -> Result<bool, String> {
        let may = spans
            .iter()
            .any(|span| span["dims"].is_array() || self.space(span) == "device" && word != "copy");
        if self.next(by) != "no_form" || !may {
            return Ok(false);
        }
        self.call(by, &format!("? no_form {word}"))?;
        Ok(true)
    }

    fn command(&mut self, op: &'a Value, by: usize) -> Result<(), String> {
        let how = if op["sync"] == true { "sync" } else { "async" };
        match s(op, "op") {
            "stream" => {
                let flags = u8::from(op["kind"] == "nonblocking");
                self.call(by, &format!("{} stream s+{} {flags} 0", op["dev"], s(op, "s")))?;
            }
            "stream_destroy" => _ = self.call(by, &format!("? destroy_stream s@{}", s(op, "s")))?,
            "alloc" => {
                let (buffer, n, dev) = (s(op, "buf"), &op["bytes"], &op["dev"]);
                match (s(op, "space"), op["s"].is_string()) {
                    ("device", true) => {
                        let on = self.stream(op, true).1;
                        self.call(by, &format!("{dev} malloc_async b+{buffer} {n} {on}"))?;
                    }
                    ("device", false) => _ = self.call(by, &format!("{dev} malloc b+{buffer} {n}"))?,
                    ("managed", _) => _ = self.call(by, &format!("{dev} malloc_managed b+{buffer} {n}"))?,
                    ("pinned", _) if self.registered.contains(buffer) => {
                        self.call(by, &format!("? host_malloc b+{buffer} {n}"))?;
                        self.call(by, &format!("? register b@{buffer} {n}"))?;
                    }
                    ("pinned", _) => _ = self.call(by, &format!("? malloc_host b+{buffer} {n}"))?,
                    _ => _ = self.call(by, &format!("? host_malloc b+{buffer} {n}"))?,
                }
            }
            "free" => {
                let alloc = self.allocs[s(op, "buf")];
                let home = [op, alloc].into_iter().find(|on| on["s"].is_string());
                let (current, call, on) = match (s(op, "via"), s(alloc, "space"), home) {
                    ("unregister", ..) => ("?".to_owned(), "unregister", String::new()),
                    (_, "pageable", _) => ("?".to_owned(), "host_free", String::new()),
                    (_, "pinned", _) => ("?".to_owned(), "free_host", String::new()),
                    ("free_async" | "pool" | "rawpool", _, Some(home)) => {
                        let (current, on) = self.stream(home, false);
                        (current, "free_async", format!(" {on}"))
                    }
                    _ => ("?".to_owned(), "free", String::new()),
                };
                self.call(by, &format!("{current} {call} b@{}{on}", s(op, "buf")))?;
            }
            "record_stream" => _ = self.call(by, "? no_form record_stream")?,
            "kernel" => {
                let (dev, on) = self.stream(op, true);
                self.call(by, &format!("{dev} kernel {} {on} {}", s(op, "label"), op["takes_ns"]))?;
            }
            "copy" => self.copy(op, by, how)?,
            "memset" => {
                let dst = &op["dst"];
                if dst["dims"].is_array() && self.next(by) == "no_form" {
                    self.call(by, "? no_form memset")?;
                } else {
                    let (dev, on) = self.stream(op, true);
                    let told = format!("{dev} memset {how} {} {} {on}", runs(dst, &bytes(dst)), op["value"]);
                    self.call(by, &told)?;
                }
            }
            "host_write" if !self.has_no_form(by, "write", &[&op["span"]])? => {
                self.call(by, &format!("? host_set {}", runs(&op["span"], &bytes(&op["span"]))))?;
            }
            // One byte stands for all.
            "host_read" if !self.has_no_form(by, "read", &[&op["span"]])? => {
                let first: Vec<i64> = bytes(&op["span"]).into_iter().take(1).collect();
                self.call(by, &format!("? host_read {}", runs(&op["span"], &first)))?;
            }
            "host_copy" if !self.has_no_form(by, "host", &[&op["dst"], &op["src"]])? => {
                let (dst, src) = (&op["dst"], &op["src"]);
                self.call(by, &format!("? host_copy {} {}", runs(dst, &bytes(dst)), runs(src, &bytes(src))))?;
            }
            "host_fn" => {
                let (dev, on) = self.stream(op, false);
                self.call(by, &format!("{dev} host_fn {on}"))?;
            }
            "event_create" => self.event(op, by)?,
            "event_destroy" => _ = self.call(by, &format!("? destroy_event e@{}", s(op, "e")))?,
            "record" => {
                // Made anew where it was another device's.
                if self.next(by) == "destroy_event" {
                    self.call(by, &format!("? destroy_event e@{}", s(op, "e")))?;
                    self.event(op, by)?;
                }
                let (dev, on) = self.stream(op, true);
                let line = self.call(by, &format!("{dev} record e@{} {on}", s(op, "e")))?;
                if self.event_devices.get(line[2]).is_none_or(|made| made.to_string() != dev) {
                    return Err("the event is another device's".to_owned());
                }
            }
            "wait" => {
                let (dev, on) = self.stream(op, false);
                self.call(by, &format!("{dev} wait {on} e@{}", s(op, "e")))?;
            }
            "event_sync" => _ = self.call(by, &format!("? sync_event e@{}", s(op, "e")))?,
            "event_query" => self.query(op, by, &format!("? query_event e@{}", s(op, "e")))?,
            "stream_sync" => {
                let (dev, on) = self.stream(op, false);
                self.call(by, &format!("{dev} sync_stream {on}"))?;
            }
            "stream_query" => {
                let (dev, on) = self.stream(op, false);
                self.query(op, by, &format!("{dev} query_stream {on}"))?;
            }
            "device_sync" => _ = self.call(by, &format!("{} sync_device", op["dev"]))?,
            "thread_spawn" | "thread_join" => {
                let (call, thread) = (&s(op, "op")["thread_".len()..], s(op, "t"));
                let number = self.threads.iter().position(|t| *t == thread).unwrap();
                self.call(0, &format!("? {call} {number}"))?;
                self.last[number] = self.last[0];
            }
            "signal" => {
                let channel = s(op, "ch");
                self.sent.entry(channel).or_default().push(by);
                let is_queue = self.next(by) == "put";
                let told =
                    if is_queue { format!("? put c@{channel}") } else { format!("? raise c@{channel}/{by}") };
                self.call(by, &told)?;
            }
            "await" => self.awaits(s(op, "ch"), by)?,
            "host_sleep" => _ = self.call(by, &format!("? sleep {}", op["us"]))?,
            "host_work" => _ = self.call(by, &format!("? busy {}", op["ns"]))?,
            "capture_begin" => _ = self.call(by, &format!("? begin_capture s@{}", s(op, "s")))?,
            "capture_end" => {
                self.call(by, &format!("? end_capture s@{} g+{}", s(op, "s"), s(op, "g")))?;
                self.call(by, &format!("? instantiate g@{}", s(op, "g")))?;
            }
            "graph_launch" => {
                let (dev, on) = self.stream(op, true);
                self.call(by, &format!("{dev} launch g@{} {on}", s(op, "g")))?;
            }
            "host_write" | "host_read" | "host_copy" => {}
            other => return Err(format!("{other} is not known here")),
        }
        Ok(())
    }

    /// The calls of PyTorch where they are others.
    fn in_torch(&mut self, op: &'a Value, by: usize) -> Result<(), String> {
        let spans: Vec<&'a Value> =
            [&op["dst"], &op["src"], &op["span"]].into_iter().filter(|s| s.is_object()).collect();
        let name = |span: &&'a Value| -> &'a str { s(span, "buf") };
        // A name that is gone, bytes that go backwards or are written twice, and a copy within a buffer may have none.
        let is_gone =
            spans.iter().map(name).chain(op["buf"].as_str()).any(|buffer| self.freed.contains(buffer));
        let may_be_none = is_gone
            || spans.iter().any(|span| span["dims"].is_array())
            || spans.len() == 2 && name(&spans[0]) == name(&spans[1])
            || matches!(s(op, "op"), "stream_destroy" | "host_fn");
        if self.next(by) == "no_form" && may_be_none {
            return self.call(by, "? no_form").map(drop);
        }
        // Work is on the program's stream where that is of the memory's device.
        let dev_of = |span: &&Value| self.allocs[s(span, "buf")]["dev"].as_u64();
        let far: Vec<&&Value> = spans.iter().filter(|span| self.is_on_device(span)).collect();
        let is_there = |on: &Value| {
            let dev = Some(self.streams[s(on, "s")].0);
            !far.is_empty() && far.iter().all(|span| dev_of(span) == dev)
        };
        let on = match op["s"].is_string() && is_there(op) {
            true => format!(" {}", self.stream(op, true).1),
            false => String::new(),
        };
        let how = if op["sync"] == false { "async" } else { "sync" };
        let told = |span: &Value| runs(span, &bytes(span));
        let expected = match s(op, "op") {
            "stream" => format!("stream s+{} {}", s(op, "s"), op["dev"]),
            "alloc" => {
                let (buffer, n) = (s(op, "buf"), &op["bytes"]);
                let is_registered = self.registered.contains(buffer);
                let home = op["s"].is_string().then(|| format!(" {}", self.stream(op, true).1));
                let place = match s(op, "space") {
                    "device" => format!("cuda:{}{}", op["dev"], home.unwrap_or_default()),
                    "managed" => format!("cuda:{}", op["dev"]),
                    "pinned" if !is_registered => "pinned".to_owned(),
                    _ => "cpu".to_owned(),
                };
                self.call(by, &format!("? alloc b+{buffer} {n} {place}"))?;
                if !is_registered || op["space"] != "pinned" {
                    return Ok(());
                }
                format!("register b@{buffer} {n}")
            }
            "free" if op["via"] == "unregister" => format!("unregister b@{}", s(op, "buf")),
            "free" => {
                self.freed.insert(s(op, "buf"));
                format!("del {}", s(op, "buf"))
            }
            "record_stream" => format!("record_stream b@{} {}", s(op, "buf"), self.stream(op, true).1),
            "kernel" => format!("kernel {} {}", self.stream(op, true).1, op["takes_ns"]),
            "copy" | "host_copy" => format!("copy {how} {} {}{on}", told(&op["dst"]), told(&op["src"])),
            "memset" => format!("fill {} {}{on}", told(&op["dst"]), op["value"]),
            "host_write" => format!("fill {} 1", told(&op["span"])),
            "host_read" => format!("sum {}", told(&op["span"])),
            "event_destroy" => format!("del {}", s(op, "e")),
            "record" => {
                // Made anew where it was another device's.
                if self.next(by) == "event" {
                    self.event(op, by)?;
                }
                format!("record e@{} {}", s(op, "e"), self.stream(op, true).1)
            }
            "device_sync" => format!("sync_device {}", op["dev"]),
            "capture_end" => format!("end_capture s@{} g@{}", s(op, "s"), s(op, "g")),
            _ => return self.command(op, by),
        };
        self.call(by, &format!("? {expected}")).map(drop)
    }

    fn copy(&mut self, op: &'a Value, by: usize, how: &str) -> Result<(), String> {
        let (dst, src) = (&op["dst"], &op["src"]);
        if self.has_no_form(by, "copy", &[dst, src])? {
            return Ok(());
        }
        let (current, on) = self.stream(op, false);
        let side = |span: &Value| if self.is_on_device(span) { 'D' } else { 'H' };
        let dev = |span: &Value| &self.allocs[s(span, "buf")]["dev"];
        // The smaller count moves.
        let (mut to, mut from) = (bytes(dst), bytes(src));
        let n = to.len().min(from.len());
        to.truncate(n);
        from.truncate(n);
        let told = match op["peer"] == true {
            true => {
                format!("peer {how} {} {} {} {} {on}", runs(dst, &to), dev(dst), runs(src, &from), dev(src))
            }
            false => {
                let kind = format!("{}to{}", side(src), side(dst));
                format!("copy {how} {} {} {kind} {on}", runs(dst, &to), runs(src, &from))
            }
        };
        self.call(by, &format!("{current} {told}")).map(drop)
    }

    fn event(&mut self, op: &Value, by: usize) -> Result<(), String> {
        let line = self.call(by, &format!("? event e+{}", s(op, "e")))?;
        self.event_devices.insert(line[2], line[0].parse().unwrap());
        Ok(())
    }

    /// What was seen ready is asked for until it is.
    fn query(&mut self, op: &Value, by: usize, expected: &str) -> Result<(), String> {
        while self.call(by, expected)?[3] == "0" && op["ready"] == true {}
        Ok(())
    }

    /// Every signal before this one that the thread has not awaited yet, however many and whoever sent them.
    fn awaits(&mut self, channel: &'a str, by: usize) -> Result<(), String> {
        let sent = self.sent.get(channel).cloned().unwrap_or_default();
        let known = self.known.insert((channel, by), sent.len()).unwrap_or(0);
        if self.next(by) == "get" {
            return self.call(by, &format!("? get c@{channel}")).map(drop);
        }
        for sender in sent[known..].iter().collect::<BTreeSet<_>>() {
            let n = sent.iter().filter(|one| *one == sender).count();
            while self.call(by, &format!("? seen c@{channel}/{sender}"))?[3].parse::<usize>().unwrap() < n {}
        }
        Ok(())
    }

    /// What the list orders is ordered in the order of the calls.
    fn order(&self) -> Result<(), String> {
        let mut called: Vec<usize> = (0..self.ops.len()).collect();
        called.sort_by_key(|&index| self.places[index]);
        let as_called: Vec<Value> = called.iter().map(|&index| self.ops[index].clone()).collect();
        let mut missing: BTreeSet<&str> = self.ops.iter().filter_map(made).collect();
        for op in &as_called {
            if let Some(name) = used(op).into_iter().find(|name| missing.contains(name)) {
                return Err(format!("{name} is used before it is made"));
            }
            made(op).map(|name| missing.remove(name));
        }
        // Captures forbid calls that the list has before or behind them.
        let file = json!({"schema_version": 1, "ops": as_called}).to_string();
        let read = Program::from_json(file.as_bytes()).map_err(|e| e.to_string())?;
        read.check().map_err(|e| format!("in this order {e}"))?;
        // Steps are called by a letter and their command, those of a launch besides by the command that was captured.
        let listed = |name: &String| {
            let numbers = name[1..].split('.').map(|n| called[n.parse::<usize>().unwrap()].to_string());
            format!("{}{}", &name[..1], numbers.collect::<Vec<_>>().join("."))
        };
        let (list, run) =
            (reference::order(self.ops, Mode::Contract), reference::order(&as_called, Mode::Contract));
        let run: BTreeMap<String, BTreeSet<String>> =
            run.iter().map(|(name, before)| (listed(name), before.iter().map(listed).collect())).collect();
        for (name, before) in &list {
            let kept = run.get(name).ok_or_else(|| format!("step {name} is none in this order"))?;
            if let Some(lost) = before.difference(kept).next() {
                return Err(format!("step {lost} is not before {name} any more"));
            }
        }
        Ok(())
    }
}
