//! What was called, as commands of a program in spanlift's JSON form: so a run can be checked, drawn and simulated again.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Session;

/// Commands in the order of the calls.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    on: bool,
    commands: Vec<Value>,
    /// Pageable buffers, which are there from the beginning.
    declared: Vec<Value>,
    /// Buffers by their first address.
    names: BTreeMap<u64, String>,
    buffers: usize,
    /// Ranges of pageable memory that stand for a buffer each: first address and length.
    pageable: BTreeMap<u64, u64>,
    /// Where the command of a launch stands, whose ranges are known when it ran.
    launches: BTreeMap<u64, usize>,
}

impl Trace {
    pub(crate) fn new(on: bool) -> Trace {
        Trace { on, ..Trace::default() }
    }

    /// Everything so far.
    pub(crate) fn commands(&self) -> Vec<Value> {
        self.declared.iter().chain(&self.commands).cloned().collect()
    }

    fn name(&mut self, start: u64) -> String {
        self.buffers += 1;
        let name = format!("b{}", self.buffers);
        self.names.insert(start, name.clone());
        name
    }
}

impl Session<'_> {
    fn stream_name(&self, stream: usize) -> String {
        let device = self.streams[stream].device;
        match (stream == self.devices[device].legacy, device) {
            (false, _) => format!("s{stream}"),
            (true, 0) => "0".to_owned(),
            (true, device) => format!("0@{device}"),
        }
    }

    fn trace(&mut self, command: Value) {
        self.trace.commands.push(command);
    }

    pub(crate) fn trace_stream(&mut self, stream: usize, kind: &str) {
        if self.trace.on {
            let (name, device) = (self.stream_name(stream), self.streams[stream].device);
            self.trace(json!({"op": "stream", "s": name, "dev": device, "kind": kind}));
        }
    }

    /// Memory that begins at `start`; `stream` where it is allocated in its order.
    pub(crate) fn trace_alloc(&mut self, start: u64, len: u64, space: &str, stream: Option<usize>) {
        if self.trace.on {
            let name = self.trace.name(start);
            let device = self.memory.device_of(start).unwrap_or(0);
            let via = if stream.is_some() { "malloc_async" } else { "malloc" };
            let mut command =
                json!({"op": "alloc", "buf": name, "bytes": len, "space": space, "dev": device, "via": via});
            if let Some(stream) = stream {
                command["s"] = json!(self.stream_name(stream));
            }
            self.trace(command);
        }
    }

    pub(crate) fn trace_free(&mut self, start: u64, via: &str, stream: Option<usize>) {
        if self.trace.on
            && let Some(name) = self.trace.names.get(&start).cloned()
        {
            let mut command = json!({"op": "free", "buf": name, "via": via});
            if let Some(stream) = stream {
                command["s"] = json!(self.stream_name(stream));
            }
            self.trace(command);
        }
    }

    /// A range of a buffer. Pageable memory is declared by nobody: each range is a buffer of its own, unless it lies
    /// inside of an earlier one.
    fn trace_span(&mut self, start: u64, len: u64) -> Value {
        let block = self.memory.block(start).map(|b| b.start);
        let base = block.or_else(|| self.memory.host(start).map(|r| r.start));
        let pageable = self.trace.pageable.range(..=start).next_back();
        let pageable = pageable.filter(|(s, n)| start + len <= *s + *n).map(|(s, _)| *s);
        let base = base.or(pageable);
        let known = base.and_then(|base| Some((base, self.trace.names.get(&base)?.clone())));
        let (base, name) = known.unwrap_or_else(|| {
            let name = self.trace.name(start);
            self.trace.declared.push(
                json!({"op": "alloc", "buf": name, "bytes": len, "space": "pageable", "dev": 0, "via": "malloc"}),
            );
            self.trace.pageable.insert(start, len);
            (start, self.trace.names[&start].clone())
        });
        json!({"buf": name, "off": start - base, "len": len})
    }

    pub(crate) fn trace_copy(&mut self, stream: usize, to: u64, from: u64, len: u64, sync: bool) {
        if self.trace.on {
            let (dst, src) = (self.trace_span(to, len), self.trace_span(from, len));
            let s = self.stream_name(stream);
            self.trace(json!({"op": "copy", "s": s, "dst": dst, "src": src, "sync": sync}));
        }
    }

    pub(crate) fn trace_fill(&mut self, stream: usize, to: u64, len: u64, sync: bool) {
        if self.trace.on {
            let (s, dst) = (self.stream_name(stream), self.trace_span(to, len));
            self.trace(json!({"op": "memset", "s": s, "dst": dst, "sync": sync}));
        }
    }

    pub(crate) fn trace_launch(&mut self, stream: usize, op: u64) {
        if self.trace.on {
            let (s, at) = (self.stream_name(stream), self.trace.commands.len());
            self.trace.launches.insert(op, at);
            self.trace(json!({"op": "kernel", "s": s, "reads": [], "writes": []}));
        }
    }

    /// Adds ranges to a launch that ran.
    pub(crate) fn trace_touched(&mut self, op: u64, key: &str, ranges: &BTreeMap<u64, u64>) {
        if let Some(at) = self.trace.launches.get(&op).copied() {
            let spans: Vec<Value> =
                ranges.iter().map(|(start, end)| self.trace_span(*start, end - start)).collect();
            self.trace.commands[at][key] = Value::Array(spans);
        }
    }

    pub(crate) fn trace_host_function(&mut self, stream: usize) {
        if self.trace.on {
            let s = self.stream_name(stream);
            self.trace(json!({"op": "host_fn", "s": s, "reads": [], "writes": []}));
        }
    }

    /// `record` and `wait`.
    pub(crate) fn trace_event(&mut self, op: &str, event: usize, stream: usize) {
        if self.trace.on {
            let s = self.stream_name(stream);
            self.trace(json!({"op": op, "e": format!("e{event}"), "s": s}));
        }
    }

    pub(crate) fn trace_event_sync(&mut self, event: usize) {
        if self.trace.on {
            self.trace(json!({"op": "event_sync", "e": format!("e{event}")}));
        }
    }

    pub(crate) fn trace_stream_sync(&mut self, stream: usize) {
        if self.trace.on {
            let s = self.stream_name(stream);
            self.trace(json!({"op": "stream_sync", "s": s}));
        }
    }

    pub(crate) fn trace_device_sync(&mut self, device: usize) {
        if self.trace.on {
            self.trace(json!({"op": "device_sync", "dev": device}));
        }
    }

    pub(crate) fn trace_host(&mut self, start: u64, len: u64, write: bool) {
        if self.trace.on && len > 0 {
            let span = self.trace_span(start, len);
            self.trace(json!({"op": if write { "host_write" } else { "host_read" }, "span": span}));
        }
    }
}
