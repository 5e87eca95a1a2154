//! Writes Chrome Trace Event JSON, in Kineto's words where it has some, so that Perfetto and others open it.
//!
//! Processes are the groups, threads the lanes; slices of a lane that overlap without nesting go to further threads of
//! the same name. Times are microseconds with three decimals, written from integers. What the format cannot say stands
//! in objects named `spanlift` (the module `own` has the table), so that [`read`](super::read()) gives the trace back.
//! The same trace gives the same bytes.

use std::borrow::Cow;
use std::fmt::Write;

use serde_core::Serialize;
use serde_json::value::RawValue;

use super::figures::{StreamWork, device_name, stream_work};
use super::own::{Arrow, CounterForm, Header, LaneForm, LaneKindForm, Mark, SCHEMA_VERSION, SourceForm};
use super::read::scan::{Cursor, Value};
use super::time::write_micros;
use super::{FlowKind, Import, Instant, Kind, LaneKind, Slice, Trace, tracks};
use crate::ordered::{BTreeMap, CollectVec};

/// The trace as Chrome Trace Event JSON, one event a line.
///
/// What that format cannot say stands in one more object, `spanlift`, which Perfetto and others pass over:
///
/// | member | type | what |
/// |---|---|---|
/// | `schema_version` | int | 1 |
/// | `title` | str | what the trace shows |
/// | `source` | `{"simulated": machine}`, `{"schedule": name}`, `{"imported": tool}` or `"unknown"` | where it came from |
/// | `lanes` | list of `{"kind", "group", "name", "pid", "tids"}` | one per lane, in order; several `tids` where slices overlap. `kind`: `"host"`, `{"stream": [dev, stream]}`, `{"engine": [dev, "to_device"\|"to_host"\|"peer"\|"compute"]}`, `"other"` |
/// | `counters` | list of `{"group", "name"}` | one per counter |
/// | `import` | object, absent for traces that were no file | the counts of the file that the trace was first read from |
/// | `program` | object, absent when not known | the program in its JSON form |
///
/// Events carry the rest. `args.spanlift` of a slice or an instant has its `kind`, `command`, `pageable`, `pinned`, the `cat` of the file
/// that it was first read from, and `name`, `bytes`, `correlation`, `args` where the event's own are not ours; everything in `args`
/// before it is the slice's own arguments, everything after it repeats in Kineto's words what other tools look for. The member
/// `spanlift` of a flow's start is an arrow, `{"kind", "from", "to"}` by positions among the slices, that of a counter's sample the
/// counter's position.
///
/// [`read`](super::read()) gives an equal trace back. Its [`Import`] is that of the trace when that was itself read from a
/// file, and counts the events of the written file otherwise.
///
/// # Panics
/// When a slice names no lane.
///
/// # Cost
/// Linear in the slices but for one sort; arguments are walked once to see that they are valid JSON.
///
/// # Examples
/// ```
/// use spanlift::trace::{LaneKind, Trace, read, write_chrome};
///
/// let mut trace = Trace { title: "nothing happens".to_owned(), ..Trace::default() };
/// trace.lane(LaneKind::Host, "host", "main");
/// let text = write_chrome(&trace);
/// assert!(text.contains(r#""ph":"M","name":"thread_name""#));
/// assert_eq!(read(text.as_bytes())?.lanes.len(), 1);
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
pub fn write_chrome(trace: &Trace) -> String {
    let rows = Rows::new(trace);
    let launched = correlations_of_launches(trace);
    let mut out = Writer { text: String::with_capacity(1024 + 256 * trace.slices.len()), first: true };
    out.header(trace, &rows);
    out.names(trace, &rows);
    for (index, launched) in launched.into_iter().enumerate() {
        out.slice(trace, &rows, index, launched);
    }
    for (index, flow) in trace.flows.iter().enumerate() {
        out.flow(trace, &rows, index, *flow);
    }
    for instant in &trace.instants {
        out.instant(trace, &rows, instant);
    }
    for (index, counter) in trace.counters.iter().enumerate() {
        let pid = rows.pid_of[trace.strings.get(counter.group)];
        for &(at, value) in &counter.samples {
            out.sample(trace.strings.get(counter.name), pid, index, at.0, value);
        }
    }
    out.text.push_str("\n]}\n");
    out.text
}

/// Process and thread numbers.
struct Rows<'a> {
    /// Groups in order of their first lane, numbered from 1: process 0 is the idle process to some readers.
    groups: Vec<&'a str>,
    pid_of: BTreeMap<&'a str, usize>,
    /// The row of each slice within its lane, and the threads of each lane.
    row_of: Vec<u8>,
    tids: Vec<Vec<i64>>,
}

impl<'a> Rows<'a> {
    fn new(trace: &'a Trace) -> Rows<'a> {
        let (row_of, n_rows) = tracks::rows(&trace.slices, trace.lanes.len());
        let mut rows = Rows { groups: Vec::new(), pid_of: BTreeMap::new(), row_of, tids: Vec::new() };
        let lanes = trace.lanes.iter().map(|lane| lane.group);
        for group in lanes.chain(trace.counters.iter().map(|counter| counter.group)) {
            let group = trace.strings.get(group);
            if !rows.pid_of.contains_key(group) {
                rows.groups.push(group);
                rows.pid_of.insert(group, rows.groups.len());
            }
        }
        // Thread numbers are unlike any process number: a thread of its process's number counts as its main thread.
        let mut next = rows.groups.len() as i64 + 1;
        for n in n_rows {
            let n = i64::from(n.max(1));
            rows.tids.push((next..next + n).collect_vec());
            next += n;
        }
        rows
    }

    fn pid(&self, trace: &Trace, lane: u32) -> usize {
        self.pid_of[trace.strings.get(trace.lanes[lane as usize].group)]
    }

    fn tid(&self, trace: &Trace, slice: usize) -> i64 {
        let tids = &self.tids[trace.slices.lane[slice] as usize];
        tids[usize::from(self.row_of[slice]).min(tids.len() - 1)]
    }
}

struct Writer {
    text: String,
    /// No event stands there yet.
    first: bool,
}

impl Writer {
    fn header(&mut self, trace: &Trace, rows: &Rows<'_>) {
        let text = |id| trace.strings.get(id).to_owned();
        let raw = |json: String| RawValue::from_string(json).ok();
        let header = Header {
            schema_version: SCHEMA_VERSION,
            title: trace.title.clone(),
            source: SourceForm(trace.source.clone()),
            lanes: (0..)
                .zip(&trace.lanes)
                .map(|(index, lane)| LaneForm {
                    kind: LaneKindForm(lane.kind),
                    group: text(lane.group),
                    name: text(lane.name),
                    pid: rows.pid(trace, index) as i64,
                    tids: rows.tids[index as usize].clone(),
                })
                .collect_vec(),
            counters: trace
                .counters
                .iter()
                .map(|counter| CounterForm { group: text(counter.group), name: text(counter.name) })
                .collect_vec(),
            import: (trace.import != Import::default()).then(|| trace.import.clone()),
            program: trace.program.as_ref().and_then(|program| raw(program.to_json())),
        };
        self.text.push_str("{\"spanlift\":");
        self.json(&header);
        // What stood beside the events of an imported file stays there: other tools look for it.
        for (name, value) in &trace.import.header {
            if valid(value) && !["traceEvents", "spanlift", "baseTimeNanoseconds"].contains(&name.as_str()) {
                self.text.push_str(",\n");
                self.json(name);
                self.text.push(':');
                self.text.push_str(value);
            }
        }
        if let Some(base) = trace.import.base_time_ns {
            let _ = write!(self.text, ",\n\"baseTimeNanoseconds\":{base}");
        }
        self.text.push_str(",\n\"traceEvents\":[");
    }

    fn names(&mut self, trace: &Trace, rows: &Rows<'_>) {
        for (index, group) in rows.groups.iter().enumerate() {
            let pid = index + 1;
            self.name("process_name", pid, 0, group);
            self.sort("process_sort_index", pid, 0, index);
        }
        let mut order = 0;
        for (index, lane) in (0..).zip(&trace.lanes) {
            let pid = rows.pid(trace, index);
            for &tid in &rows.tids[index as usize] {
                self.name("thread_name", pid, tid, trace.strings.get(lane.name));
                self.sort("thread_sort_index", pid, tid, order);
                order += 1;
            }
        }
    }

    fn name(&mut self, what: &str, pid: usize, tid: i64, name: &str) {
        self.event("M", what, pid, tid);
        self.text.push_str(",\"args\":{\"name\":");
        self.json(name);
        self.text.push_str("}}");
    }

    fn sort(&mut self, what: &str, pid: usize, tid: i64, index: usize) {
        self.event("M", what, pid, tid);
        let _ = write!(self.text, ",\"args\":{{\"sort_index\":{index}}}}}");
    }

    fn slice(&mut self, trace: &Trace, rows: &Rows<'_>, index: usize, launched: i64) {
        let slice = trace.slices.get(index);
        let lane = trace.lanes[slice.lane as usize].kind;
        let own_cat = trace.strings.get(trace.slices.cat[index]);
        let own_name = trace.strings.get(slice.name);
        let name = match stream_work(trace, index) {
            Some(_) => device_name(trace, index),
            None => own_name.into(),
        };
        self.event("X", &name, rows.pid(trace, slice.lane), rows.tid(trace, index));
        self.text.push_str(",\"cat\":");
        self.json(if own_cat.is_empty() { category(trace, index, lane) } else { own_cat });
        self.text.push_str(",\"ts\":");
        write_micros(&mut self.text, i128::from(slice.start.0));
        self.text.push_str(",\"dur\":");
        write_micros(&mut self.text, i128::from(slice.end.0) - i128::from(slice.start.0));

        let args = Arguments::of(trace.strings.get(slice.args));
        let flags = trace.slices.flags[index];
        let has_bytes = args.has("bytes");
        // A call is joined to its work by the correlation, in other tools; one that has none gets that of its work.
        let correlation =
            if slice.correlation == Slice::NO_CORRELATION { launched } else { slice.correlation };
        let plain_correlation = !args.has("correlation") && correlation == slice.correlation;
        // Bytes from 2^63 are no number to other readers.
        let plain_bytes = !has_bytes && i64::try_from(slice.bytes).is_ok();
        let mark = Mark {
            kind: Some(slice.kind),
            name: (name != own_name).then_some(own_name.into()),
            command: (slice.command != Slice::NONE).then_some(slice.command),
            pageable: flags & Slice::PAGEABLE != 0,
            pinned: flags & Slice::PINNED != 0,
            cat: (!own_cat.is_empty()).then_some(own_cat.into()),
            bytes: (!plain_bytes).then_some(slice.bytes),
            no_correlation: !plain_correlation && slice.correlation == Slice::NO_CORRELATION,
            correlation: (!plain_correlation && slice.correlation != Slice::NO_CORRELATION)
                .then_some(slice.correlation),
            args: args.verbatim.map(Cow::from),
        };
        self.args(&args, &mark);
        if let LaneKind::Stream { dev, stream } = lane {
            self.number(&args, "device", dev);
            self.number(&args, "stream", stream);
        }
        if correlation != Slice::NO_CORRELATION {
            self.number(&args, "correlation", correlation);
        }
        if 0 < slice.bytes && plain_bytes {
            self.number(&args, "bytes", slice.bytes);
        }
        self.text.push_str("}}");
    }

    /// Opens `args` with a slice's own arguments and what we say of it.
    fn args(&mut self, args: &Arguments<'_>, mark: &Mark<'_>) {
        self.text.push_str(",\"args\":{");
        if !args.inside.is_empty() {
            self.text.push_str(args.inside);
            self.text.push(',');
        }
        self.text.push_str("\"spanlift\":");
        self.json(mark);
    }

    /// An argument for other tools, unless the slice's own say something of that name.
    fn number(&mut self, args: &Arguments<'_>, name: &str, value: impl std::fmt::Display) {
        if !args.has(name) {
            let _ = write!(self.text, ",\"{name}\":{value}");
        }
    }

    fn flow(&mut self, trace: &Trace, rows: &Rows<'_>, index: usize, flow: super::Flow) {
        let (cat, name) = match flow.kind {
            FlowKind::Launch => ("ac2g", "ac2g"),
            FlowKind::Event => ("event_wait", "event"),
            FlowKind::Sync => ("host_wait", "sync"),
            FlowKind::Other => ("flow", "flow"),
        };
        let [from, to] = [flow.from, flow.to].map(|slice| slice as usize);
        // Both ends lie within their slices and, where these allow it, the end not before the start.
        let start = trace.slices.start[from];
        let (to_start, to_end) = (trace.slices.start[to], trace.slices.end[to]);
        let end = start.clamp(to_start, to_end.saturating_sub(1).max(to_start));
        let mark = Arrow { kind: flow.kind, from: flow.from, to: flow.to };
        for (ph, slice, at) in [("s", from, start), ("f", to, end)] {
            let pid = rows.pid(trace, trace.slices.lane[slice]);
            self.event(ph, name, pid, rows.tid(trace, slice));
            let _ = write!(self.text, ",\"cat\":\"{cat}\",\"id\":{},\"ts\":", index + 1);
            write_micros(&mut self.text, i128::from(at));
            if ph == "s" {
                self.text.push_str(",\"spanlift\":");
                self.json(&mark);
                self.text.push('}');
            } else {
                self.text.push_str(",\"bp\":\"e\",\"spanlift\":{}}");
            }
        }
    }

    fn instant(&mut self, trace: &Trace, rows: &Rows<'_>, instant: &Instant) {
        let pid = rows.pid(trace, instant.lane);
        let tid = rows.tids[instant.lane as usize][0];
        self.event("i", trace.strings.get(instant.name), pid, tid);
        self.text.push_str(",\"s\":\"t\",\"ts\":");
        write_micros(&mut self.text, i128::from(instant.at.0));
        let args = Arguments::of(trace.strings.get(instant.args));
        let command = (instant.command != Slice::NONE).then_some(instant.command);
        let mark = Mark { command, args: args.verbatim.map(Cow::from), ..Mark::default() };
        self.args(&args, &mark);
        self.text.push_str("}}");
    }

    fn sample(&mut self, name: &str, pid: usize, index: usize, at: i64, value: f64) {
        self.event("C", name, pid, 0);
        self.text.push_str(",\"ts\":");
        write_micros(&mut self.text, i128::from(at));
        let _ = write!(self.text, ",\"spanlift\":{index},\"args\":{{\"value\":");
        if value.is_finite() {
            self.json(&value);
        } else {
            let _ = write!(self.text, "\"{value}\"");
        }
        self.text.push_str("}}");
    }

    /// Opens an event.
    fn event(&mut self, ph: &str, name: &str, pid: usize, tid: i64) {
        self.text.push_str(if self.first { "\n" } else { ",\n" });
        self.first = false;
        let _ = write!(self.text, "{{\"ph\":\"{ph}\",\"name\":");
        self.json(name);
        let _ = write!(self.text, ",\"pid\":{pid},\"tid\":{tid}");
    }

    fn json<T: Serialize + ?Sized>(&mut self, value: &T) {
        // Texts, numbers and structs of them: nothing that serialisation can refuse.
        let text = serde_json::to_string(value).expect("bug: plain data serialises");
        self.text.push_str(&text);
    }
}

/// For each slice the correlation of the first work that it launched.
fn correlations_of_launches(trace: &Trace) -> Vec<i64> {
    let mut launched = vec![Slice::NO_CORRELATION; trace.slices.len()];
    for flow in trace.flows.iter().filter(|flow| flow.kind == FlowKind::Launch) {
        let first = &mut launched[flow.from as usize];
        if *first == Slice::NO_CORRELATION {
            *first = trace.slices.correlation[flow.to as usize];
        }
    }
    launched
}

/// Kineto's category of a slice that was made here, or one of ours that other tools will not count as device work.
fn category(trace: &Trace, index: usize, lane: LaneKind) -> &'static str {
    let synchronizes = trace.strings.get(trace.slices.name[index]).ends_with("Synchronize");
    match (stream_work(trace, index), lane, trace.slices.kind[index]) {
        (Some(StreamWork::Kernel), ..) => "kernel",
        (Some(StreamWork::Memcpy), ..) => "gpu_memcpy",
        (Some(StreamWork::Memset), ..) => "gpu_memset",
        (None, LaneKind::Engine { .. }, _) => "engine",
        (None, LaneKind::Stream { .. }, Kind::Annotation) => "gpu_user_annotation",
        (None, LaneKind::Stream { .. }, Kind::Sync) => "cuda_sync",
        (None, LaneKind::Stream { .. }, Kind::Record) => "cuda_event",
        (None, LaneKind::Host, Kind::Call) => "cuda_runtime",
        // A call that does nothing but wait is one slice; other waits lie within the slice of their call.
        (None, LaneKind::Host, Kind::Wait) if synchronizes => "cuda_runtime",
        (None, LaneKind::Host, Kind::Annotation) => "user_annotation",
        (None, _, Kind::Wait) => "host_wait",
        (None, _, Kind::Work) => "host_work",
        (None, _, Kind::HostCopy) => "host_copy",
        (None, _, Kind::HostFn) => "host_fn",
        (None, ..) => "other",
    }
}

/// A slice's own arguments, as far as they can stand in an event's `args`.
struct Arguments<'a> {
    /// The members, without the braces; empty when there is none.
    inside: &'a str,
    names: Vec<Cow<'a, str>>,
    /// The text, when it is no object with members and has to be kept as a string.
    verbatim: Option<&'a str>,
}

impl<'a> Arguments<'a> {
    fn of(text: &'a str) -> Arguments<'a> {
        let verbatim = Arguments { inside: "", names: Vec::new(), verbatim: Some(text) };
        if text.is_empty() {
            return Arguments { verbatim: None, ..verbatim };
        }
        if !text.starts_with('{') || !valid(text) {
            return verbatim;
        }
        let Some(inside) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else { return verbatim };
        if inside.trim().is_empty() {
            return verbatim;
        }
        let mut names = Vec::new();
        super::read::members(text, |name, _| names.push(name.text()));
        Arguments { inside, names, verbatim: None }
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }
}

/// Whether a text is one JSON value and nothing else, by the strict rules.
fn valid(text: &str) -> bool {
    let mut cursor = Cursor::new(text);
    let walked: Result<Value<'_>, _> = cursor.value();
    let lenient = cursor.lenient;
    walked.is_ok()
        && cursor.peek() == 0
        && cursor.is_at_end()
        && lenient.non_finite_literal + lenient.control_character + lenient.unescaped_quote == 0
}
