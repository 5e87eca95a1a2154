//! Writes the JSON form, one command a line, `op` first and the fields in the order of the table; defaults are left out.

use serde_json::Value;

use crate::memory::Dtype;
use crate::ordered::CollectVec;
use crate::program::command::*;
use crate::program::words::{ALLOC_VIAS, FREE_VIAS, HOST_COSTS, SPACES, STREAM_KINDS, word};
use crate::program::{Names, Program};

pub(in crate::program) fn write(program: &Program) -> String {
    let mut out = String::from("{\"schema_version\": 1,");
    if !program.title.is_empty() {
        out += &format!(" \"title\": {},", text(&program.title));
    }
    if let Some(machine) = &program.machine {
        out += &format!(" \"machine\": {},", text(machine));
    }
    out += " \"ops\": [";
    for (index, command) in program.commands().iter().enumerate() {
        out += if index == 0 { "\n  " } else { ",\n  " };
        out += &object(program, command);
    }
    out += "\n]}\n";
    out
}

/// One command as its object.
pub(in crate::program) fn write_command(program: &Program, command: &Command) -> String {
    object(program, command)
}

fn object(program: &Program, command: &Command) -> String {
    let line = Object::new().text("op", command.op.name());
    let mut line = fields(line, program.names(), &command.op);
    if command.thread != ThreadId::FIRST {
        line = line.text("t", program.names().thread(command.thread));
    }
    line.maybe_text("label", command.label.as_deref()).end()
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

/// An object on one line, its fields in the order in which they are put.
struct Object(String);

impl Object {
    fn new() -> Object {
        Object("{".to_owned())
    }

    fn put(mut self, key: &str, value: &str) -> Object {
        if self.0 != "{" {
            self.0 += ", ";
        }
        self.0 += "\"";
        self.0 += key;
        self.0 += "\": ";
        self.0 += value;
        self
    }

    fn text(self, key: &str, value: &str) -> Object {
        self.put(key, &text(value))
    }

    fn int(self, key: &str, value: i64) -> Object {
        self.put(key, &value.to_string())
    }

    fn float(self, key: &str, value: f64) -> Object {
        self.put(key, &Value::from(value).to_string())
    }

    fn bool(self, key: &str, value: bool) -> Object {
        self.put(key, if value { "true" } else { "false" })
    }

    fn dtype(self, dtype: Dtype) -> Object {
        self.text("dtype", dtype.name())
    }

    /// A flag that is false when it is left out.
    fn flag(self, key: &str, value: bool) -> Object {
        if value { self.bool(key, true) } else { self }
    }

    fn maybe(self, key: &str, value: Option<String>) -> Object {
        match value {
            Some(value) => self.put(key, &value),
            None => self,
        }
    }

    fn maybe_text(self, key: &str, value: Option<&str>) -> Object {
        self.maybe(key, value.map(text))
    }

    fn maybe_int(self, key: &str, value: Option<i64>) -> Object {
        self.maybe(key, value.map(|n| n.to_string()))
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn fields(line: Object, names: &Names, op: &Op) -> Object {
    let stream = |id: StreamId| names.stream(id);
    let region = |r: &Region| region(names, r);
    let regions = |list: &[Region]| format!("[{}]", list.iter().map(region).collect_vec().join(", "));
    match op {
        Op::Stream { stream: s, dev, kind, thread, priority } => line
            .text("s", stream(*s))
            .int("dev", i64::from(*dev))
            .text("kind", word(&STREAM_KINDS, kind))
            .maybe_text("thread", (*thread != ThreadId::FIRST).then(|| names.thread(*thread)))
            .maybe_int("priority", (*priority != 0).then_some(*priority)),
        Op::StreamDestroy { stream: s } | Op::StreamSync { stream: s } | Op::CaptureBegin { stream: s } => {
            line.text("s", stream(*s))
        }
        Op::Alloc(a) => line
            .text("buf", names.buffer(a.buffer))
            .int("bytes", a.bytes)
            .text("space", word(&SPACES, &a.space))
            .int("dev", i64::from(a.dev))
            .text("via", word(&ALLOC_VIAS, &a.via))
            .maybe_text("s", a.stream.map(stream))
            .maybe_text("reuse", a.reuse.map(|b| names.buffer(b)))
            .maybe("contents", a.contents.as_ref().map(contents)),
        Op::Free { buffer, via, stream: s } => line
            .text("buf", names.buffer(*buffer))
            .text("via", word(&FREE_VIAS, via))
            .maybe_text("s", s.map(stream)),
        Op::RecordStream { buffer, stream: s } => {
            line.text("buf", names.buffer(*buffer)).text("s", stream(*s))
        }
        Op::Kernel(k) => line
            .text("s", stream(k.stream))
            .put("reads", &regions(&k.reads))
            .put("writes", &regions(&k.writes))
            .maybe_text("grid", k.full_grid.then_some("full"))
            .maybe_int("takes_ns", k.takes.map(|t| t.0))
            .maybe("compute", k.compute.map(compute)),
        Op::Copy(c) => line
            .text("s", stream(c.stream))
            .put("dst", &region(&c.dst))
            .put("src", &region(&c.src))
            .bool("sync", c.sync)
            .flag("peer", c.peer)
            .flag("untracked", c.untracked)
            .flag("torch", c.torch),
        Op::Memset { stream: s, dst, sync, value } => line
            .text("s", stream(*s))
            .put("dst", &region(dst))
            .bool("sync", *sync)
            .maybe_int("value", (*value != 0).then_some(i64::from(*value))),
        Op::HostRead { region: r, expect } => {
            line.put("span", &region(r)).maybe("expect", expect.as_ref().map(contents))
        }
        Op::HostWrite { region: r, contents: c } => {
            line.put("span", &region(r)).maybe("contents", c.as_ref().map(contents))
        }
        Op::HostFn { stream: s, reads, writes, takes, compute: c } => line
            .text("s", stream(*s))
            .put("reads", &regions(reads))
            .put("writes", &regions(writes))
            .maybe_int("takes_ns", takes.map(|t| t.0))
            .maybe("compute", c.map(compute)),
        Op::EventCreate { event } | Op::EventDestroy { event } | Op::EventSync { event } => {
            line.text("e", names.event(*event))
        }
        Op::Record { event, stream: s } | Op::Wait { stream: s, event } => {
            line.text("e", names.event(*event)).text("s", stream(*s))
        }
        Op::EventQuery { event, ready } => line.text("e", names.event(*event)).bool("ready", *ready),
        Op::StreamQuery { stream: s, ready } => line.text("s", stream(*s)).bool("ready", *ready),
        Op::DeviceSync { dev } => line.int("dev", i64::from(*dev)),
        Op::ThreadSpawn { thread } | Op::ThreadJoin { thread } => line.text("t", names.thread(*thread)),
        Op::Signal { channel } | Op::Await { channel } => line.text("ch", names.channel(*channel)),
        Op::HostSleep { micros } => line.int("us", *micros),
        Op::HostCopy { dst, src } => line.put("dst", &region(dst)).put("src", &region(src)),
        Op::HostWork { time, cost } => {
            line.int("ns", time.0).maybe_text("cost", cost.map(|c| word(&HOST_COSTS, &c)))
        }
        Op::CaptureEnd { stream: s, graph } | Op::GraphLaunch { graph, stream: s } => {
            line.text("s", stream(*s)).text("g", names.graph(*graph))
        }
        Op::Mark => line,
    }
}

fn region(names: &Names, region: &Region) -> String {
    let span = &region.span;
    let object = Object::new().text("buf", names.buffer(region.buffer)).int("off", span.off());
    let object = if span.is_range() {
        object.int("len", span.elem())
    } else {
        let dims: Vec<String> =
            span.dims().iter().map(|d| format!("[{}, {}]", d.count, d.stride)).collect_vec();
        object.put("dims", &format!("[{}]", dims.join(", "))).int("elem", span.elem())
    };
    object.flag("opaque", region.opaque).end()
}

fn contents(contents: &Contents) -> String {
    let object = Object::new();
    match contents {
        Contents::Fill { dtype, value } => object.dtype(*dtype).float("fill", *value),
        Contents::Ramp { dtype, start, step } => {
            object.dtype(*dtype).float("start", *start).float("step", *step)
        }
        Contents::Values { dtype, values } => {
            object.dtype(*dtype).put("values", &Value::from(values.as_slice()).to_string())
        }
        Contents::Seed(seed) => object.put("seed", &seed.to_string()),
    }
    .end()
}

fn compute(compute: Compute) -> String {
    let object = Object::new().dtype(compute.dtype);
    match compute.func {
        Func::Fill(value) => object.text("fn", "fill").float("value", value),
        Func::Affine { mul, add } => object.text("fn", "affine").float("mul", mul).float("add", add),
        Func::Mul { conj } => object.text("fn", "mul").bool("conj", conj),
        Func::Add => object.text("fn", "add"),
        Func::Dot => object.text("fn", "dot"),
        Func::Multiple { factor } => object.text("fn", "multiple").float("factor", factor),
        Func::Divide => object.text("fn", "divide"),
        Func::Sqrt => object.text("fn", "sqrt"),
        Func::Where { above } => object.text("fn", "where").float("above", above),
        Func::Guard { strict } => object.text("fn", "guard").bool("strict", strict),
        Func::Shrink { by } => object.text("fn", "shrink").float("by", by),
    }
    .end()
}
