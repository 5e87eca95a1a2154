//! Writes the JSON form, one command a line, defaults left out.

use serde_json::{Map, Value, json};

use crate::memory::Dtype;
use crate::program::Program;
use crate::program::command::*;
use crate::program::words::{ALLOC_VIAS, FREE_VIAS, HOST_COSTS, SPACES, STREAM_KINDS, word};

pub(in crate::program) fn write(program: &Program) -> String {
    let mut out = String::from("{\"schema_version\": 1,");
    if !program.title.is_empty() {
        out += &format!(" \"title\": {},", Value::from(program.title.as_str()));
    }
    if let Some(machine) = &program.machine {
        out += &format!(" \"machine\": {},", Value::from(machine.as_str()));
    }
    out += " \"ops\": [";
    for (index, command) in program.commands().iter().enumerate() {
        out += if index == 0 { "\n  " } else { ",\n  " };
        out += &Value::Object(object(program, command)).to_string();
    }
    out += "\n]}\n";
    out
}

fn object(program: &Program, command: &Command) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("op".to_owned(), command.op.name().into());
    if let Value::Object(fields) = fields(program, &command.op) {
        // Absent options are null here and left out of the file.
        map.extend(fields.into_iter().filter(|(_, v)| !v.is_null()));
    }
    if command.thread != ThreadId::FIRST {
        map.insert("t".to_owned(), program.names().thread(command.thread).into());
    }
    if let Some(label) = &command.label {
        map.insert("label".to_owned(), label.as_ref().into());
    }
    map
}

fn fields(program: &Program, op: &Op) -> Value {
    let names = program.names();
    let stream = |id: StreamId| names.stream(id);
    let region = |r: &Region| region(program, r);
    let regions = |list: &[Region]| Value::from(list.iter().map(region).collect::<Vec<_>>());
    let on = |flag: bool| if flag { Value::Bool(true) } else { Value::Null };
    match op {
        Op::Stream { stream: s, dev, kind, thread, priority } => json!({
            "s": stream(*s), "dev": dev, "kind": word(&STREAM_KINDS, kind),
            "thread": (*thread != ThreadId::FIRST).then(|| names.thread(*thread)),
            "priority": (*priority != 0).then_some(priority),
        }),
        Op::StreamDestroy { stream: s } | Op::StreamSync { stream: s } | Op::CaptureBegin { stream: s } => {
            json!({"s": stream(*s)})
        }
        Op::Alloc(a) => json!({
            "buf": names.buffer(a.buffer), "bytes": a.bytes, "space": word(&SPACES, &a.space), "dev": a.dev,
            "via": word(&ALLOC_VIAS, &a.via), "s": a.stream.map(stream), "reuse": a.reuse.map(|b| names.buffer(b)),
            "contents": a.contents.as_ref().map(contents),
        }),
        Op::Free { buffer, via, stream: s } => {
            json!({"buf": names.buffer(*buffer), "via": word(&FREE_VIAS, via), "s": s.map(stream)})
        }
        Op::RecordStream { buffer, stream: s } => json!({"buf": names.buffer(*buffer), "s": stream(*s)}),
        Op::Kernel(k) => json!({
            "s": stream(k.stream), "reads": regions(&k.reads), "writes": regions(&k.writes),
            "grid": k.full_grid.then_some("full"), "takes_ns": k.takes.map(|t| t.0), "compute": k.compute.map(compute),
        }),
        Op::Copy(c) => json!({
            "s": stream(c.stream), "dst": region(&c.dst), "src": region(&c.src), "sync": c.sync,
            "peer": on(c.peer), "untracked": on(c.untracked), "torch": on(c.torch),
        }),
        Op::Memset { stream: s, dst, sync, value } => {
            json!({"s": stream(*s), "dst": region(dst), "sync": sync, "value": (*value != 0).then_some(value)})
        }
        Op::HostRead { region: r, expect } => {
            json!({"span": region(r), "expect": expect.as_ref().map(contents)})
        }
        Op::HostWrite { region: r, contents: c } => {
            json!({"span": region(r), "contents": c.as_ref().map(contents)})
        }
        Op::HostFn { stream: s, reads, writes, takes, compute: c } => json!({
            "s": stream(*s), "reads": regions(reads), "writes": regions(writes), "takes_ns": takes.map(|t| t.0),
            "compute": c.map(compute),
        }),
        Op::EventCreate { event } | Op::EventDestroy { event } | Op::EventSync { event } => {
            json!({"e": names.event(*event)})
        }
        Op::Record { event, stream: s } | Op::Wait { stream: s, event } => {
            json!({"e": names.event(*event), "s": stream(*s)})
        }
        Op::EventQuery { event, ready } => json!({"e": names.event(*event), "ready": ready}),
        Op::StreamQuery { stream: s, ready } => json!({"s": stream(*s), "ready": ready}),
        Op::DeviceSync { dev } => json!({"dev": dev}),
        Op::ThreadSpawn { thread } | Op::ThreadJoin { thread } => json!({"t": names.thread(*thread)}),
        Op::Signal { channel } | Op::Await { channel } => json!({"ch": names.channel(*channel)}),
        Op::HostSleep { micros } => json!({"us": micros}),
        Op::HostCopy { dst, src } => json!({"dst": region(dst), "src": region(src)}),
        Op::HostWork { time, cost } => json!({"ns": time.0, "cost": cost.map(|c| word(&HOST_COSTS, &c))}),
        Op::CaptureEnd { stream: s, graph } | Op::GraphLaunch { graph, stream: s } => {
            json!({"s": stream(*s), "g": names.graph(*graph)})
        }
        Op::Mark => json!({}),
    }
}

fn region(program: &Program, region: &Region) -> Value {
    let span = &region.span;
    let mut map = Map::new();
    map.insert("buf".to_owned(), program.names().buffer(region.buffer).into());
    map.insert("off".to_owned(), span.off().into());
    if span.is_range() {
        map.insert("len".to_owned(), span.elem().into());
    } else {
        let dims: Vec<Value> = span.dims().iter().map(|d| json!([d.count, d.stride])).collect();
        map.insert("dims".to_owned(), dims.into());
        map.insert("elem".to_owned(), span.elem().into());
    }
    if region.opaque {
        map.insert("opaque".to_owned(), true.into());
    }
    Value::Object(map)
}

fn dtype(dtype: Dtype) -> &'static str {
    dtype.name()
}

fn contents(contents: &Contents) -> Value {
    match contents {
        Contents::Fill { dtype: d, value } => json!({"dtype": dtype(*d), "fill": value}),
        Contents::Ramp { dtype: d, start, step } => json!({"dtype": dtype(*d), "start": start, "step": step}),
        Contents::Values { dtype: d, values } => json!({"dtype": dtype(*d), "values": values}),
        Contents::Seed(seed) => json!({"seed": seed}),
    }
}

fn compute(compute: Compute) -> Value {
    let d = dtype(compute.dtype);
    match compute.func {
        Func::Fill(value) => json!({"dtype": d, "fn": "fill", "value": value}),
        Func::Affine { mul, add } => json!({"dtype": d, "fn": "affine", "mul": mul, "add": add}),
        Func::Mul { conj } => json!({"dtype": d, "fn": "mul", "conj": conj}),
        Func::Add => json!({"dtype": d, "fn": "add"}),
    }
}
