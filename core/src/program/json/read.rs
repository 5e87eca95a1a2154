//! Reads the JSON form, keeping going after a bad command so that all problems are told at once.

use std::fmt;
use std::io::BufRead;
use std::rc::Rc;

use serde_core::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::fields::Fields;
use super::value::Json;
use crate::ordered::sort_by_key;
use crate::program::check::{Broken, check_beside};
use crate::program::command::*;
use crate::program::stream::{Lines, Noted, Rest, Taker};
use crate::program::words::{ALLOC_VIAS, FREE_VIAS, HOST_COSTS, SPACES, STREAM_KINDS};
use crate::program::{FileText, Problem, Problems, Program, ReadError};
use crate::units::Nanos;

pub(in crate::program) fn read(file: FileText<'_>) -> Result<Program, ReadError> {
    let mut reader = Reader::default();
    let mut json = serde_json::Deserializer::from_str(file.text);
    reader.deserialize(&mut json).and_then(|()| json.end()).map_err(|e| syntax(&file, &e))?;
    reader.finish(file.skipped)?;
    let Reader { program, mut problems, broken, .. } = reader;
    // The form is looked over even after a bad command, so that everything is told in one go; what only follows from a
    // bad command is not told again.
    if let Err(Problems(more)) = check_beside(&program, &broken) {
        problems.extend(more);
        sort_by_key(&mut problems, |p| p.index);
    }
    if problems.is_empty() { Ok(program) } else { Err(Problems(problems).into()) }
}

/// Hands every command on as soon as it is read; `skipped` bytes stood before.
pub(in crate::program) fn read_each(
    input: impl BufRead,
    skipped: usize,
    take: &mut Taker<'_>,
) -> Result<Rest, ReadError> {
    let lines = Rc::new(Lines::default());
    let mut reader = Reader { take: Some(take), ..Reader::default() };
    let mut json = serde_json::Deserializer::from_reader(Noted { inner: input, lines: Rc::clone(&lines) });
    reader
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|e| ReadError::Syntax { offset: skipped + lines.offset(&e), message: without_place(&e) })?;
    reader.finish(skipped)?;
    Ok(Rest { program: reader.program, problems: reader.problems })
}

/// The message without line and column.
fn without_place(error: &serde_json::Error) -> String {
    let text = crate::json::told(error);
    text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned()
}

fn syntax(file: &FileText<'_>, error: &serde_json::Error) -> ReadError {
    let bytes = file.text.as_bytes();
    // serde_json counts lines and columns; people and editors want the byte.
    let before: usize =
        bytes.split_inclusive(|&b| b == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    // The column is that of the byte met last, from 1; at the end of the file that is the byte before the missing one.
    let column = error.column().saturating_sub(usize::from(!error.is_eof()));
    let offset = file.skipped + (before + column).min(bytes.len());
    ReadError::Syntax { offset, message: without_place(error) }
}

/// Problems that are kept of a file that is not; the first ones.
const MAX_PROBLEMS: usize = 1 << 16;

/// What has been read so far. Commands are taken one by one: a file of millions of them is never held as JSON values.
#[derive(Default)]
struct Reader<'t, 'u> {
    program: Program,
    /// Who takes the commands, where they are not kept.
    take: Option<&'t mut Taker<'u>>,
    title: Option<Value>,
    machine: Option<Value>,
    version: Option<Value>,
    has_ops: bool,
    problems: Vec<Problem>,
    broken: Vec<Broken>,
}

impl<'de> DeserializeSeed<'de> for &mut Reader<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Reader<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a program, which is an object with a list \"ops\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "schema_version" => once("schema_version", &mut self.version, &mut map)?,
                "title" => once("title", &mut self.title, &mut map)?,
                "machine" => once("machine", &mut self.machine, &mut map)?,
                "ops" if self.has_ops => return Err(Error::duplicate_field("ops")),
                "ops" => {
                    self.has_ops = true;
                    map.next_value_seed(Ops(self))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if self.has_ops { Ok(()) } else { Err(Error::missing_field("ops")) }
    }
}

/// A field that stands in the file at most once.
fn once<'de, A: MapAccess<'de>>(
    name: &'static str,
    field: &mut Option<Value>,
    map: &mut A,
) -> Result<(), A::Error> {
    if field.is_some() {
        return Err(A::Error::duplicate_field(name));
    }
    *field = Some(map.next_value()?);
    Ok(())
}

struct Ops<'r, 't, 'u>(&'r mut Reader<'t, 'u>);

impl<'de> DeserializeSeed<'de> for Ops<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Ops<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of commands")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(value) = seq.next_element::<Json<'de>>()? {
            self.0.command(&value);
            if let Some(take) = &mut self.0.take {
                let broken = self.0.broken.pop();
                self.0.program.hand_on(&mut **take, broken.as_ref());
                // What cannot be read is told of up to a bound.
                self.0.problems.truncate(MAX_PROBLEMS);
            }
        }
        Ok(())
    }
}

impl Reader<'_, '_> {
    /// Looks at what may stand behind the commands: the version is known, title and machine are the program's.
    fn finish(&mut self, offset: usize) -> Result<(), ReadError> {
        let text = |field: &Option<Value>| field.as_ref().and_then(Value::as_str).map(str::to_owned);
        self.program.title = text(&self.title).unwrap_or_default();
        self.program.machine = text(&self.machine);
        let message = match &self.version {
            Some(v) if v.as_i64() == Some(1) => return Ok(()),
            None => "schema_version is missing, 1 is needed".to_owned(),
            Some(v) => format!("schema_version is {v}, only 1 is known"),
        };
        Err(ReadError::Syntax { offset, message })
    }

    /// Adds a command, or a placeholder for one that cannot be read.
    fn command(&mut self, value: &Json<'_>) {
        let index = self.program.len();
        let mut fields = match Fields::new(value, self.program.names_mut()) {
            Ok(fields) => fields,
            Err(message) => {
                self.problems.push(Problem { index, line: None, message });
                self.broken.push(Broken { index, may_capture: true, ..Broken::default() });
                self.program.push(Op::Mark);
                return;
            }
        };
        let (op, thread, label) = (fields.op(), fields.thread(), fields.optional_str("label"));
        let faults = std::mem::take(&mut fields.faults);
        if !faults.is_empty() {
            self.broken.push(fields.broken(index));
            let name = if fields.name.is_empty() { "\"\"" } else { fields.name };
            let problem = |message| Problem { index, line: None, message: format!("{name}: {message}") };
            self.problems.extend(faults.into_iter().map(problem));
        }
        self.program.by(thread.unwrap_or(ThreadId::FIRST), |p| {
            p.push_labelled(op.unwrap_or(Op::Mark), label.as_deref());
        });
    }
}

impl Fields<'_> {
    /// What a command with faults still declares.
    fn broken(&mut self, index: usize) -> Broken {
        let declares = |op: &str| self.is_unknown || self.name == op;
        let (stream, buffer) = (declares("stream"), declares("alloc"));
        let (thread, graph) = (declares("thread_spawn"), declares("capture_end"));
        let may_capture =
            self.is_unknown || matches!(self.name, "capture_begin" | "capture_end" | "record" | "wait");
        let mut broken = Broken { index, may_capture, ..Broken::default() };
        if stream && self.present("s").is_some() {
            broken.stream = self.stream();
        }
        if buffer && self.present("buf").is_some() {
            broken.buffer = self.buffer();
        }
        if thread && self.present("t").is_some() {
            broken.thread = self.thread_named("t");
        }
        if graph && self.present("g").is_some() {
            broken.graph = self.graph();
        }
        broken
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
            "host_sleep" => self.int("us").map(|micros| Op::HostSleep { micros }),
            "host_copy" => {
                let (dst, src) = (self.region("dst"), self.region("src"));
                Some(Op::HostCopy { dst: dst?, src: src? })
            }
            "host_work" => {
                let time = self.int("ns").map(Nanos);
                let cost = if self.present("cost").is_none() {
                    Some(None)
                } else {
                    self.one_of("cost", &HOST_COSTS).map(Some)
                };
                Some(Op::HostWork { time: time?, cost: cost? })
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
            _ => {
                self.is_unknown = true;
                // Its name stands in front of the fault.
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
