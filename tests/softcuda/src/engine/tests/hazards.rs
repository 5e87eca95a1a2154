//! The shared table of programs with hand-labelled verdicts, driven through the engine: it must call the same ones racy.
//!
//! Left out, and counted: graphs, managed memory, caching allocators, several host threads, 2-D copies, `may`, and calls that
//! this driver does not have.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use spanlift::Program;
use spanlift::hazard::{self, Mode};

use super::super::op::{Span, Work};
use super::super::race::Touch;
use super::super::{Needs, Way};
use super::lab::{Handle, Lab};
use crate::code::Code;
use crate::config::{Config, Pageable, Scheduler};

fn shared() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("SPANLIFT_SHARED").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no shared cases beside this checkout");
    None
}

/// What a case came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Safe,
    Race,
    Error,
}

/// Why a case cannot be run.
struct Skip;

struct Buffer {
    at: Handle,
    pinned: bool,
    pageable: bool,
}

/// A case as it runs.
struct Case {
    lab: Lab,
    buffers: BTreeMap<String, Buffer>,
    streams: BTreeMap<String, (Handle, usize)>,
    events: BTreeMap<String, Handle>,
    failed: bool,
}

fn text(op: &Value, key: &str) -> String {
    op[key].as_str().unwrap_or_default().to_owned()
}

fn word(op: &Value, key: &str) -> u64 {
    op[key].as_u64().unwrap_or(0)
}

/// The ranges of a span, relative to its buffer.
fn ranges(span: &Value) -> Result<Vec<(u64, u64)>, Skip> {
    if span["opaque"] == true {
        return Err(Skip);
    }
    let off = span["off"].as_i64().ok_or(Skip)?;
    let Some(dims) = span["dims"].as_array() else {
        return Ok(vec![(word(span, "off"), word(span, "len"))]);
    };
    let mut starts = vec![off];
    for dim in dims {
        let (count, stride) = (dim[0].as_i64().ok_or(Skip)?, dim[1].as_i64().ok_or(Skip)?);
        starts = starts.iter().flat_map(|s| (0..count).map(move |i| s + i * stride)).collect();
        if starts.len() > 100_000 {
            return Err(Skip);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let elem = word(span, "elem");
    Ok(starts.iter().map(|s| (u64::try_from(*s).unwrap_or(0), elem)).collect())
}

impl Case {
    fn note(&mut self, answer: Result<(), Code>) {
        self.failed |= answer.is_err();
    }

    fn stream(&self, name: &str) -> Handle {
        let (handle, device) = self.streams[name];
        self.lab.on(device);
        handle
    }

    fn buffer(&self, span: &Value) -> &Buffer {
        &self.buffers[span["buf"].as_str().unwrap_or_default()]
    }

    fn event(&mut self, name: &str, stream: Option<&str>) -> Handle {
        if let Some(stream) = stream {
            self.stream(stream);
        }
        if !self.events.contains_key(name) {
            let event = self.lab.event();
            self.events.insert(name.to_owned(), event);
        }
        self.events[name]
    }

    /// Work that touches exactly these spans.
    fn touch(&mut self, op: &Value) -> Result<(), Skip> {
        let mut spans = Vec::new();
        for (key, touch) in [("reads", Touch::Read), ("writes", Touch::Write)] {
            for span in op[key].as_array().into_iter().flatten() {
                let at = self.buffer(span).at;
                let ranges = ranges(span)?.into_iter().filter(|(_, len)| *len > 0);
                spans.extend(ranges.map(|(off, len)| Span { start: at + off, end: at + off + len, touch }));
            }
        }
        let stream = self.stream(&text(op, "s"));
        let answer = self.lab.engine.call("kernel", Needs::Context, |s| {
            let stream = s.stream(stream)?;
            let op = s.enqueue(stream, Work::Touch { spans }, None);
            s.trace_launch(stream, op);
            Ok(())
        });
        self.note(answer);
        Ok(())
    }

    fn copy(&mut self, op: &Value) -> Result<(), Skip> {
        let (dst, src) = (&op["dst"], &op["src"]);
        let sync = op["sync"] == true;
        if !dst["dims"].is_null() || !src["dims"].is_null() || (sync && op["peer"] == true) {
            return Err(Skip);
        }
        let host = |b: &Buffer| b.pinned || b.pageable;
        let (to, from) = (self.buffer(dst), self.buffer(src));
        let way = match (host(from), host(to)) {
            // One side of each call is an address of a device, which is one of pinned memory too.
            (true, true) if to.pageable || from.pageable => return Err(Skip),
            (true, true) => Way::DeviceToDevice,
            (true, false) => Way::HostToDevice,
            (false, true) => Way::DeviceToHost,
            (false, false) => Way::DeviceToDevice,
        };
        let (to, from, len) = (to.at + word(dst, "off"), from.at + word(src, "off"), word(dst, "len"));
        let stream = self.stream(&text(op, "s"));
        let answer = if sync {
            self.lab.engine.copy_now("copy", way, to, from, len)
        } else {
            self.lab.engine.copy_async("copy", way, to, from, len, stream)
        };
        // Naming freed pinned memory is answered with an error as well as reported.
        self.failed |= answer.is_err() && self.lab.engine.report().found == 0;
        Ok(())
    }

    fn alloc(&mut self, op: &Value, registered: bool) -> Result<(), Skip> {
        let bytes = word(op, "bytes");
        let (pinned, pageable) = (op["space"] == "pinned", op["space"] == "pageable");
        let engine = &self.lab.engine;
        let at = match (text(op, "space").as_str(), text(op, "via").as_str()) {
            ("device", "malloc") => {
                self.lab.on(usize::try_from(word(op, "dev")).map_err(|_| Skip)?);
                engine.alloc(bytes)
            }
            ("device", "malloc_async") => {
                engine.alloc_async("cuMemAllocAsync", bytes, 0, self.stream(&text(op, "s")))
            }
            ("pinned", "malloc") if !registered => engine.host_alloc(bytes, 0),
            ("pinned" | "pageable", "malloc") => {
                let memory = vec![0u8; usize::try_from(bytes).map_err(|_| Skip)?].leak();
                let at = memory.as_mut_ptr().expose_provenance() as u64;
                if pinned { engine.host_register(at, bytes, 0).map(|()| at) } else { Ok(at) }
            }
            _ => return Err(Skip),
        };
        let at = at.map_err(|_| Skip)?;
        self.buffers.insert(text(op, "buf"), Buffer { at, pinned, pageable });
        Ok(())
    }

    fn free(&mut self, op: &Value) -> Result<(), Skip> {
        let buffer = &self.buffers[&text(op, "buf")];
        let (at, engine) = (buffer.at, &self.lab.engine);
        let answer = match text(op, "via").as_str() {
            "free" => engine.free(at),
            "free_async" => engine.free_async(at, self.stream(&text(op, "s"))),
            "host_free" if buffer.pinned => engine.host_free(at),
            "unregister" => engine.host_unregister(at),
            _ => return Err(Skip),
        };
        self.note(answer);
        Ok(())
    }

    fn step(&mut self, op: &Value, registered: bool) -> Result<(), Skip> {
        if !op["t"].is_null() {
            return Err(Skip);
        }
        let (s, e) = (text(op, "s"), text(op, "e"));
        match text(op, "op").as_str() {
            "stream" => {
                let device = usize::try_from(word(op, "dev")).map_err(|_| Skip)?;
                self.lab.on(device);
                let handle = match text(op, "kind").as_str() {
                    "nonblocking" => self.lab.stream(),
                    "blocking" => self.lab.blocking(),
                    "per_thread" if op["thread"].is_null() || op["thread"] == "main" => 2,
                    _ => return Err(Skip),
                };
                self.streams.insert(s, (handle, device));
            }
            "stream_destroy" => {
                let answer = self.lab.engine.stream_destroy(self.stream(&s));
                self.note(answer);
            }
            "alloc" => self.alloc(op, registered)?,
            "free" => self.free(op)?,
            "kernel" | "host_fn" => self.touch(op)?,
            "copy" => self.copy(op)?,
            "memset" => {
                let dst = &op["dst"];
                let (at, len) = (self.buffer(dst).at + word(dst, "off"), word(dst, "len"));
                if self.buffer(dst).pageable || !dst["dims"].is_null() {
                    return Err(Skip);
                }
                let stream = self.stream(&s);
                let engine = &self.lab.engine;
                let answer = if op["sync"] == true {
                    engine.fill_now(at, 1, len)
                } else {
                    engine.fill_async(at, 1, len, stream)
                };
                self.note(answer);
            }
            "host_read" | "host_write" => {
                let at = self.buffer(&op["span"]).at;
                for (off, len) in ranges(&op["span"])? {
                    self.lab.engine.host_access(at + off, len, op["op"] == "host_write");
                }
            }
            "event_create" => {
                self.events.remove(&e);
            }
            "event_destroy" => {
                let event = self.event(&e, None);
                let answer = self.lab.engine.event_destroy(event);
                self.note(answer);
            }
            "record" => {
                let (event, stream) = (self.event(&e, Some(&s)), self.stream(&s));
                let answer = self.lab.engine.event_record(event, stream);
                self.note(answer);
            }
            "wait" => {
                let (event, stream) = (self.event(&e, Some(&s)), self.stream(&s));
                let answer = self.lab.engine.stream_wait(stream, event, 0);
                self.note(answer);
            }
            "event_sync" => {
                let event = self.event(&e, None);
                let answer = self.lab.engine.event_synchronize(event);
                self.note(answer);
            }
            "event_query" if op["ready"] == true => {
                let event = self.event(&e, None);
                while self.lab.engine.event_query(event) == Err(Code::NOT_READY) {}
            }
            "stream_query" if op["ready"] == true => {
                let stream = self.stream(&s);
                while self.lab.engine.stream_query(stream) == Err(Code::NOT_READY) {}
            }
            "event_query" | "stream_query" | "host_sleep" | "host_work" => {}
            "stream_sync" => {
                let answer = self.lab.engine.stream_synchronize(self.stream(&s));
                self.note(answer);
            }
            "device_sync" => {
                self.lab.on(usize::try_from(word(op, "dev")).map_err(|_| Skip)?);
                let answer = self.lab.engine.synchronize();
                self.note(answer);
            }
            _ => return Err(Skip),
        }
        Ok(())
    }
}

fn run(ops: &[Value], scheduler: Scheduler) -> Result<Verdict, Skip> {
    let devices = 4;
    let lab =
        Lab::new(Config { devices, pageable: Pageable::Strict, trace: true, ..Config::under(scheduler) });
    let legacy = |d: usize| if d == 0 { "0".to_owned() } else { format!("0@{d}") };
    let streams = (0..devices).map(|d| (legacy(d), (0, d))).collect();
    let mut case = Case { lab, buffers: BTreeMap::new(), streams, events: BTreeMap::new(), failed: false };
    for op in ops {
        let unregistered = |other: &Value| other["via"] == "unregister" && other["buf"] == op["buf"];
        case.step(op, ops.iter().any(unregistered))?;
    }
    let report = case.lab.end();
    let found = report.found;
    if !case.failed {
        let program =
            Program::from_json(report.program().to_string().as_bytes()).expect("a well-formed program");
        let verdict = hazard::check(&program, Mode::Contract).expect("a program without problems").verdict();
        assert_eq!(
            verdict == hazard::Verdict::Safe,
            found == 0,
            "the checker says {verdict:?} of {}",
            report.program()
        );
    }
    Ok(match (case.failed, found) {
        (true, _) => Verdict::Error,
        (false, 0) => Verdict::Safe,
        (false, _) => Verdict::Race,
    })
}

#[test]
fn the_engine_and_the_labels_agree_under_every_scheduler() {
    let Some(shared) = shared() else { return };
    let file = std::fs::read_to_string(shared.join("data/programs/hazards.json")).expect("the case table");
    let table: Value = serde_json::from_str(&file).expect("JSON");
    let cases = table["cases"].as_array().expect("a list of cases");
    let schedulers = [Scheduler::Lazy, Scheduler::Eager].into_iter().chain((0..4).map(Scheduler::Seeded));
    let (mut wrong, mut skipped, mut races, mut safe) = (Vec::new(), Vec::new(), 0, 0);
    for scheduler in schedulers {
        for case in cases {
            let ops = case["ops"].as_array().expect("a list");
            let expected = match case["expected"]["contract"].as_str() {
                Some("safe") => Verdict::Safe,
                Some("race") => Verdict::Race,
                Some("error") => Verdict::Error,
                _ => continue,
            };
            match run(ops, scheduler) {
                Ok(verdict) if verdict == expected => match verdict {
                    Verdict::Safe => safe += 1,
                    Verdict::Race => races += 1,
                    Verdict::Error => {}
                },
                Ok(verdict) => wrong
                    .push(format!("{} under {scheduler}: {verdict:?}, labelled {expected:?}", case["id"])),
                Err(Skip) => skipped.push(format!("{}", case["id"])),
            }
        }
    }
    skipped.sort();
    skipped.dedup();
    eprintln!("{races} racy and {safe} safe runs agree; left out: {}", skipped.join(" "));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(skipped.len() <= 45, "{} of {} cases left out", skipped.len(), cases.len());
}
