//! Reads the JSON form, keeping going after a bad command so that all problems are told at once.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::memory::{Dim, Dtype, Span};
use crate::program::command::*;
use crate::program::words::{ALLOC_VIAS, FREE_VIAS, HOST_COSTS, MAX_DEVICES, SPACES, STREAM_KINDS};
use crate::program::{FileText, Names, Problem, Problems, Program, ReadError};
use crate::units::Nanos;

/// A command's object, as far as it could be made out.
type RawOp = Value;

#[derive(Deserialize)]
struct RawProgram {
    schema_version: Option<Value>,
    title: Option<Value>,
    machine: Option<Value>,
    #[serde(deserialize_with = "ops")]
    ops: Vec<RawOp>,
}

/// A list of any values: what is in them is looked at one by one, below.
fn ops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RawOp>, D::Error> {
    struct Ops;
    impl<'de> Visitor<'de> for Ops {
        type Value = Vec<RawOp>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of commands")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<RawOp>, A::Error> {
            let mut ops = Vec::new();
            while let Some(op) = seq.next_element()? {
                ops.push(op);
            }
            Ok(ops)
        }
    }
    deserializer.deserialize_seq(Ops)
}

pub(in crate::program) fn read(file: FileText<'_>) -> Result<Program, ReadError> {
    let raw: RawProgram = serde_json::from_str(file.text).map_err(|e| syntax(&file, &e))?;
    let mut problems = Vec::new();
    let mut say = |index: usize, message: String| problems.push(Problem { index, line: None, message });
    if !matches!(raw.schema_version.as_ref().and_then(Value::as_i64), Some(1)) {
        let message = match raw.schema_version {
            None => "schema_version is missing, 1 is needed".to_owned(),
            Some(v) => format!("schema_version is {v}, only 1 is known"),
        };
        return Err(ReadError::Syntax { offset: 0, message });
    }
    let mut program = Program::new();
    program.title = raw.title.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    program.machine = raw.machine.as_ref().and_then(Value::as_str).map(str::to_owned);
    let mut broken = Vec::new();
    for (index, value) in raw.ops.iter().enumerate() {
        let mut fields = match Fields::new(value, program.names_mut()) {
            Ok(fields) => fields,
            Err(message) => {
                say(index, message);
                broken.push(index);
                program.push(Op::Mark);
                continue;
            }
        };
        let op = fields.op();
        let thread = fields.thread();
        let label = fields.optional_str("label");
        let faults = std::mem::take(&mut fields.faults);
        if !faults.is_empty() {
            broken.push(index);
        }
        for message in faults {
            say(index, format!("{}: {message}", fields.name));
        }
        match thread {
            Some(thread) => program.by(thread, |p| {
                p.push_labelled(op.unwrap_or(Op::Mark), label.as_deref());
            }),
            None => {
                program.push(Op::Mark);
            }
        }
    }
    // The form is looked over even after a bad command, so that everything is told in one go; what only follows from a
    // bad command is not told again.
    if let Err(Problems(more)) = program.check() {
        problems.extend(more.into_iter().filter(|p| !broken.contains(&p.index)));
        problems.sort_by_key(|p| p.index);
    }
    if problems.is_empty() { Ok(program) } else { Err(Problems(problems).into()) }
}

fn syntax(file: &FileText<'_>, error: &serde_json::Error) -> ReadError {
    let bytes = file.text.as_bytes();
    // serde_json counts lines and columns; people and editors want the byte.
    let before: usize =
        bytes.split_inclusive(|&b| b == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let offset = file.skipped + (before + error.column()).min(bytes.len());
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    ReadError::Syntax { offset, message: message.to_owned() }
}

/// The fields of one command, and what is wrong with them.
struct Fields<'a> {
    map: &'a Map<String, Value>,
    names: &'a mut Names,
    name: &'a str,
    faults: Vec<String>,
}

impl<'a> Fields<'a> {
    fn new(value: &'a Value, names: &'a mut Names) -> Result<Fields<'a>, String> {
        let Value::Object(map) = value else {
            return Err("a command is an object with a field \"op\"".to_owned());
        };
        match map.get("op") {
            Some(Value::String(name)) => Ok(Fields { map, names, name, faults: Vec::new() }),
            Some(_) => Err("\"op\" is not text".to_owned()),
            None => Err("a field \"op\" is missing".to_owned()),
        }
    }

    fn fault<T>(&mut self, message: String) -> Option<T> {
        self.faults.push(message);
        None
    }

    fn present(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    fn required(&mut self, key: &str) -> Option<&'a Value> {
        match self.present(key) {
            Some(value) => Some(value),
            None => self.fault(format!("field {key:?} is missing")),
        }
    }

    fn str(&mut self, key: &str) -> Option<&'a str> {
        match self.required(key)? {
            Value::String(text) => Some(text),
            other => self.fault(format!("field {key:?} is {other}, text is needed")),
        }
    }

    fn optional_str(&mut self, key: &str) -> Option<String> {
        self.present(key)?;
        self.str(key).map(str::to_owned)
    }

    fn int_of(&mut self, key: &str, value: &Value) -> Option<i64> {
        match value.as_i64() {
            Some(n) => Some(n),
            None if value.is_number() => {
                self.fault(format!("field {key:?} is {value}, which is no integer within i64"))
            }
            None => self.fault(format!("field {key:?} is {value}, an integer is needed")),
        }
    }

    fn int(&mut self, key: &str) -> Option<i64> {
        let value = self.required(key)?;
        self.int_of(key, value)
    }

    fn dev(&mut self) -> Option<u32> {
        let dev = self.int("dev")?;
        match u32::try_from(dev) {
            // One more than the number must fit too, since tables are that long.
            Ok(n) if n < MAX_DEVICES => Some(n),
            _ => self.fault(format!("field \"dev\" is {dev}, a device is 0 to {}", MAX_DEVICES - 1)),
        }
    }

    fn bool(&mut self, key: &str) -> Option<bool> {
        match self.required(key)? {
            Value::Bool(b) => Some(*b),
            other => self.fault(format!("field {key:?} is {other}, true or false is needed")),
        }
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        if self.present(key).is_none() { Some(false) } else { self.bool(key) }
    }

    fn float(&mut self, key: &str, map: &'a Map<String, Value>) -> Option<f64> {
        match map.get(key).and_then(Value::as_f64).filter(|v| v.is_finite()) {
            Some(v) => Some(v),
            None => self.fault(format!("field {key:?} needs a finite number")),
        }
    }

    fn one_of<T: std::marker::Copy>(&mut self, key: &str, table: &[(&str, T)]) -> Option<T> {
        let text = self.str(key)?;
        match table.iter().find(|(name, _)| *name == text) {
            Some(&(_, value)) => Some(value),
            None => {
                let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
                self.fault(format!("field {key:?} is {text:?}, one of {} is needed", names.join(", ")))
            }
        }
    }

    fn intern<T>(
        &mut self,
        key: &str,
        intern: impl FnOnce(&mut Names, &str) -> Result<crate::id::Id<T>, crate::id::TooMany>,
    ) -> Option<crate::id::Id<T>> {
        let name = self.str(key)?;
        match intern(self.names, name) {
            Ok(id) => Some(id),
            Err(e) => self.fault(e.to_string()),
        }
    }

    fn stream(&mut self) -> Option<StreamId> {
        self.intern("s", |n, s| n.streams.intern(s))
    }

    fn optional_stream(&mut self) -> Option<Option<StreamId>> {
        if self.present("s").is_none() { Some(None) } else { self.stream().map(Some) }
    }

    fn buffer(&mut self) -> Option<BufferId> {
        self.intern("buf", |n, s| n.buffers.intern(s))
    }

    fn event(&mut self) -> Option<EventId> {
        self.intern("e", |n, s| n.events.intern(s))
    }

    fn channel(&mut self) -> Option<ChannelId> {
        self.intern("ch", |n, s| n.channels.intern(s))
    }

    fn graph(&mut self) -> Option<GraphId> {
        self.intern("g", |n, s| n.graphs.intern(s))
    }

    fn thread_named(&mut self, key: &str) -> Option<ThreadId> {
        self.intern(key, |n, s| n.threads.intern(s))
    }

    /// The calling thread; declarations of streams and threads belong to `main`.
    fn thread(&mut self) -> Option<ThreadId> {
        let main =
            matches!(self.name, "stream" | "thread_spawn" | "thread_join") || self.present("t").is_none();
        if main { Some(ThreadId::FIRST) } else { self.thread_named("t") }
    }

    fn nanos(&mut self, key: &str) -> Option<Option<Nanos>> {
        if self.present(key).is_none() {
            return Some(None);
        }
        match self.int(key)? {
            n if n < 0 => self.fault(format!("field {key:?} is {n}, time is not negative")),
            n => Some(Some(Nanos(n))),
        }
    }

    fn region(&mut self, key: &str) -> Option<Region> {
        let value = self.required(key)?;
        self.region_of(key, value)
    }

    fn regions(&mut self, key: &str) -> Option<Vec<Region>> {
        match self.required(key)? {
            Value::Array(list) => {
                // Every element is looked at, so that one bad span does not hide the next.
                let regions: Vec<_> = list.iter().map(|v| self.region_of(key, v)).collect();
                regions.into_iter().collect()
            }
            other => self.fault(format!("field {key:?} is {other}, a list of spans is needed")),
        }
    }

    fn region_of(&mut self, key: &str, value: &'a Value) -> Option<Region> {
        let Value::Object(map) = value else {
            return self.fault(format!("field {key:?} is {value}, a span is needed"));
        };
        let mut inner = Fields { map, names: self.names, name: self.name, faults: Vec::new() };
        let region = inner.region_fields();
        let faults = std::mem::take(&mut inner.faults);
        self.faults.extend(faults.into_iter().map(|f| format!("{key}: {f}")));
        region
    }

    fn region_fields(&mut self) -> Option<Region> {
        let buffer = self.buffer();
        let off = self.int("off");
        let opaque = self.flag("opaque");
        let span = if let Some(dims) = self.present("dims") {
            let elem = self.int("elem");
            let dims = self.dims(dims);
            Span::strided(off?, elem?, dims?)
        } else {
            let len = self.int("len");
            Span::range(off?, len?)
        };
        match span {
            Ok(span) => Some(Region { buffer: buffer?, span, opaque: opaque? }),
            Err(e) => self.fault(e.to_string()),
        }
    }

    fn dims(&mut self, value: &Value) -> Option<Vec<Dim>> {
        let pairs = value.as_array().map(Vec::as_slice);
        let Some(pairs) = pairs else {
            return self.fault(format!("field \"dims\" is {value}, a list of [count, stride] is needed"));
        };
        let mut dims = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let Some([count, stride]) = pair.as_array().map(Vec::as_slice) else {
                return self.fault(format!("an entry of \"dims\" is {pair}, [count, stride] is needed"));
            };
            dims.push(Dim { count: self.int_of("count", count)?, stride: self.int_of("stride", stride)? });
        }
        Some(dims)
    }

    fn dtype(&mut self, map: &Map<String, Value>) -> Option<Dtype> {
        match map.get("dtype").and_then(Value::as_str).map(str::parse) {
            Some(Ok(dtype)) => Some(dtype),
            Some(Err(e)) => self.fault(e.to_string()),
            None => self.fault("field \"dtype\" is missing".to_owned()),
        }
    }

    fn contents(&mut self, key: &str) -> Option<Option<Contents>> {
        let map = match self.present(key) {
            None => return Some(None),
            Some(Value::Object(map)) => map,
            Some(other) => {
                return self.fault(format!("field {key:?} is {other}, declared contents are needed"));
            }
        };
        if let Some(seed) = map.get("seed") {
            return match seed.as_u64() {
                Some(seed) => Some(Some(Contents::Seed(seed))),
                None => self.fault(format!("field \"seed\" is {seed}, a non-negative integer is needed")),
            };
        }
        let dtype = self.dtype(map)?;
        if map.contains_key("fill") {
            return Some(Some(Contents::Fill { dtype, value: self.float("fill", map)? }));
        }
        if map.contains_key("start") {
            let (start, step) = (self.float("start", map)?, self.float("step", map)?);
            return Some(Some(Contents::Ramp { dtype, start, step }));
        }
        let values = map.get("values").and_then(Value::as_array);
        let values: Option<Vec<f64>> = values.and_then(|list| list.iter().map(Value::as_f64).collect());
        match values {
            Some(values) if !values.is_empty() => Some(Some(Contents::Values { dtype, values })),
            _ => self.fault(format!(
                "field {key:?} needs \"fill\", \"start\" and \"step\", \"values\" or \"seed\""
            )),
        }
    }

    fn compute(&mut self) -> Option<Option<Compute>> {
        let map = match self.present("compute") {
            None => return Some(None),
            Some(Value::Object(map)) => map,
            Some(other) => return self.fault(format!("field \"compute\" is {other}, an object is needed")),
        };
        let dtype = self.dtype(map)?;
        let func = match map.get("fn").and_then(Value::as_str) {
            Some("fill") => Func::Fill(self.float("value", map)?),
            Some("affine") => Func::Affine { mul: self.float("mul", map)?, add: self.float("add", map)? },
            Some("mul") => Func::Mul { conj: map.get("conj").and_then(Value::as_bool).unwrap_or(false) },
            Some("add") => Func::Add,
            _ => return self.fault("field \"fn\" of \"compute\" is fill, affine, mul or add".to_owned()),
        };
        Some(Some(Compute { dtype, func }))
    }

    /// The command; `None` with at least one fault. Every field is looked at before the first `?`.
    fn op(&mut self) -> Option<Op> {
        match self.name {
            "stream" => {
                let (stream, dev) = (self.stream(), self.dev());
                let kind = self.one_of("kind", &STREAM_KINDS);
                let thread = if self.present("thread").is_none() {
                    Some(ThreadId::FIRST)
                } else {
                    self.thread_named("thread")
                };
                let priority =
                    if self.present("priority").is_none() { Some(0) } else { self.int("priority") };
                Some(Op::Stream {
                    stream: stream?,
                    dev: dev?,
                    kind: kind?,
                    thread: thread?,
                    priority: priority?,
                })
            }
            "stream_destroy" => self.stream().map(|stream| Op::StreamDestroy { stream }),
            "alloc" => self.alloc(),
            "free" => {
                let (buffer, via, stream) =
                    (self.buffer(), self.one_of("via", &FREE_VIAS), self.optional_stream());
                Some(Op::Free { buffer: buffer?, via: via?, stream: stream? })
            }
            "record_stream" => {
                let (buffer, stream) = (self.buffer(), self.stream());
                Some(Op::RecordStream { buffer: buffer?, stream: stream? })
            }
            "kernel" => {
                let (stream, reads, writes) = (self.stream(), self.regions("reads"), self.regions("writes"));
                let (takes, compute) = (self.nanos("takes_ns"), self.compute());
                let full_grid = match self.present("grid") {
                    None => Some(false),
                    Some(_) => self.one_of("grid", &[("full", true)]),
                };
                let (takes, compute) = (takes?, compute?);
                Some(Op::Kernel(Kernel {
                    stream: stream?,
                    reads: reads?,
                    writes: writes?,
                    full_grid: full_grid?,
                    takes,
                    compute,
                }))
            }
            "copy" => {
                let (stream, dst, src) = (self.stream(), self.region("dst"), self.region("src"));
                let (sync, peer) = (self.bool("sync"), self.flag("peer"));
                let (untracked, torch) = (self.flag("untracked"), self.flag("torch"));
                let (dst, src) = (dst?, src?);
                Some(Op::Copy(Copy {
                    stream: stream?,
                    dst,
                    src,
                    sync: sync?,
                    peer: peer?,
                    untracked: untracked?,
                    torch: torch?,
                }))
            }
            "memset" => {
                let (stream, dst, sync) = (self.stream(), self.region("dst"), self.bool("sync"));
                let value = if self.present("value").is_none() { Some(0) } else { self.int("value") };
                let value = match value.map(u8::try_from) {
                    Some(Err(_)) => self.fault("field \"value\" is a byte, 0 to 255".to_owned()),
                    value => value.and_then(Result::ok),
                };
                Some(Op::Memset { stream: stream?, dst: dst?, sync: sync?, value: value? })
            }
            "host_read" => {
                let (region, expect) = (self.region("span"), self.contents("expect"));
                Some(Op::HostRead { region: region?, expect: expect? })
            }
            "host_write" => {
                let (region, contents) = (self.region("span"), self.contents("contents"));
                Some(Op::HostWrite { region: region?, contents: contents? })
            }
            "host_fn" => {
                let (stream, reads, writes) = (self.stream(), self.regions("reads"), self.regions("writes"));
                let (takes, compute) = (self.nanos("takes_ns"), self.compute());
                Some(Op::HostFn {
                    stream: stream?,
                    reads: reads?,
                    writes: writes?,
                    takes: takes?,
                    compute: compute?,
                })
            }
            "event_create" => self.event().map(|event| Op::EventCreate { event }),
            "event_destroy" => self.event().map(|event| Op::EventDestroy { event }),
            "event_sync" => self.event().map(|event| Op::EventSync { event }),
            "record" => {
                let (event, stream) = (self.event(), self.stream());
                Some(Op::Record { event: event?, stream: stream? })
            }
            "wait" => {
                let (event, stream) = (self.event(), self.stream());
                Some(Op::Wait { stream: stream?, event: event? })
            }
            "event_query" => {
                let (event, ready) = (self.event(), self.bool("ready"));
                Some(Op::EventQuery { event: event?, ready: ready? })
            }
            "stream_sync" => self.stream().map(|stream| Op::StreamSync { stream }),
            "stream_query" => {
                let (stream, ready) = (self.stream(), self.bool("ready"));
                Some(Op::StreamQuery { stream: stream?, ready: ready? })
            }
            "device_sync" => self.dev().map(|dev| Op::DeviceSync { dev }),
            "thread_spawn" => self.thread_named("t").map(|thread| Op::ThreadSpawn { thread }),
            "thread_join" => self.thread_named("t").map(|thread| Op::ThreadJoin { thread }),
            "signal" => self.channel().map(|channel| Op::Signal { channel }),
            "await" => self.channel().map(|channel| Op::Await { channel }),
            "host_sleep" => match self.int("us")? {
                micros if micros < 0 => self.fault(format!("field \"us\" is {micros}, time is not negative")),
                micros => Some(Op::HostSleep { micros }),
            },
            "host_copy" => {
                let (dst, src) = (self.region("dst"), self.region("src"));
                Some(Op::HostCopy { dst: dst?, src: src? })
            }
            "host_work" => {
                let time = if self.required("ns").is_some() { self.nanos("ns") } else { None };
                let cost = if self.present("cost").is_none() {
                    Some(None)
                } else {
                    self.one_of("cost", &HOST_COSTS).map(Some)
                };
                Some(Op::HostWork { time: time??, cost: cost? })
            }
            "capture_begin" => self.stream().map(|stream| Op::CaptureBegin { stream }),
            "capture_end" => {
                let (stream, graph) = (self.stream(), self.graph());
                Some(Op::CaptureEnd { stream: stream?, graph: graph? })
            }
            "graph_launch" => {
                let (stream, graph) = (self.stream(), self.graph());
                Some(Op::GraphLaunch { graph: graph?, stream: stream? })
            }
            "mark" => Some(Op::Mark),
            other => {
                // Named in front of every fault already.
                let _ = other;
                self.fault("unknown op".to_owned())
            }
        }
    }

    fn alloc(&mut self) -> Option<Op> {
        let (buffer, bytes, dev) = (self.buffer(), self.int("bytes"), self.dev());
        let (space, via) = (self.one_of("space", &SPACES), self.one_of("via", &ALLOC_VIAS));
        let (stream, contents) = (self.optional_stream(), self.contents("contents"));
        let reuse = match self.present("reuse") {
            None => Some(None),
            Some(_) => self.intern("reuse", |n, s| n.buffers.intern(s)).map(Some),
        };
        let (stream, reuse, contents) = (stream?, reuse?, contents?);
        Some(Op::Alloc(Alloc {
            buffer: buffer?,
            bytes: bytes?,
            space: space?,
            dev: dev?,
            via: via?,
            stream,
            reuse,
            contents,
        }))
    }
}
