//! The recordings that the course's lesson on traces looks at: a training loop with stalls, run by the simulator and written as
//! PyTorch's profiler writes one, and what its allocator would have noted.
//!
//! `samples trace` and `samples snapshot` print them; they lie in `notebooks/data`, and a test says that they are the same.

use std::ops::RangeInclusive;

use serde_json::{Value, json};
use spanlift::machine::Machine;
use spanlift::program::{BufferId, HostCost, StreamId};
use spanlift::sim::{self, SimError};
use spanlift::trace::write_chrome;
use spanlift::{Nanos, Program, kib, mib, us};

const MACHINE: &str = "tutorial-ci";
const STEPS: usize = 6;
/// Small tensors that each step sends one by one.
const SMALL: usize = 16;
const LAYERS: usize = 8;

/// The process and the thread of the loop, and where its device's streams stand, as in a file of the profiler's.
const HOST: (u64, u64) = (4242, 4242);
const DEVICE: u64 = 0;
const STREAM: u64 = 7;

/// The trace file: Kineto's categories, names and fields, and nothing that only spanlift writes.
///
/// # Errors
/// [`SimError`]; the loop is one that runs.
pub fn trace() -> Result<String, SimError> {
    let looped = Loop::new();
    let machine = Machine::builtin(MACHINE).unwrap_or_else(|| unreachable!("bug: no machine {MACHINE}"));
    let run = sim::run(&looped.program, &machine)?;
    let slices: Vec<_> = run.trace.slices.iter().collect();
    let written: Value = serde_json::from_str(&write_chrome(&run.trace))
        .unwrap_or_else(|e| unreachable!("bug: what is written is JSON: {e}"));
    let mut events: Vec<Value> =
        written["traceEvents"].as_array().into_iter().flatten().filter_map(recorded).collect();
    // On equal times the outer one stands first.
    let frames = looped.frames.iter().filter_map(|frame| {
        let within = slices.iter().filter(|s| {
            frame.commands.contains(&(s.command as usize))
                && run.trace.lanes[s.lane as usize].kind == spanlift::trace::LaneKind::Host
        });
        let (start, end) =
            within.fold((i64::MAX, i64::MIN), |(a, b), s| (a.min(s.start.0), b.max(s.end.0)));
        (start <= end).then(|| {
            json!({"ph": "X", "cat": frame.cat, "name": frame.name, "pid": HOST.0, "tid": HOST.1, "ts": micros(start),
                "dur": micros(end - start), "args": {}})
        })
    });
    events.splice(0..0, frames);
    events.splice(0..0, names());
    let head = json!({"schemaVersion": 1, "displayTimeUnit": "ms", "with_stack": 1, "traceName": "training.pt.trace.json",
        "deviceProperties": [{"id": 0, "name": format!("simulated {MACHINE}")}]});
    let mut text = head.to_string();
    text.pop();
    text.push_str(",\"traceEvents\":[\n");
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    text.push_str(&lines.join(",\n"));
    text.push_str("\n]}\n");
    Ok(text)
}

fn micros(ns: i64) -> f64 {
    ns as f64 / 1e3
}

fn names() -> Vec<Value> {
    let name = |what: &str, (pid, tid): (u64, u64), name: &str| json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}});
    vec![
        name("process_name", HOST, "python3"),
        name("thread_name", HOST, "thread 4242 (python3)"),
        name("process_name", (DEVICE, 0), "python3"),
        name("thread_name", (DEVICE, STREAM), &format!("stream {STREAM}")),
    ]
}

/// An event as the profiler would have it: no rows of engines, nothing inside a call, none of spanlift's own fields.
fn recorded(event: &Value) -> Option<Value> {
    let mut event = event.clone();
    let (pid, tid) = match event["cat"].as_str()? {
        "cuda_runtime" => HOST,
        "kernel" | "gpu_memcpy" => (DEVICE, STREAM),
        // From a call to its work.
        "ac2g" if event["ph"] == "s" => HOST,
        "ac2g" => (DEVICE, STREAM),
        _ => return None,
    };
    let fields = event.as_object_mut()?;
    fields.insert("pid".to_owned(), json!(pid));
    fields.insert("tid".to_owned(), json!(tid));
    fields.remove("spanlift");
    if let Some(args) = fields.get_mut("args").and_then(Value::as_object_mut) {
        args.remove("spanlift");
        if args.contains_key("stream") {
            args.insert("stream".to_owned(), json!(STREAM));
        }
    }
    Some(event)
}

/// Something that stands around calls on the host's row.
struct Frame {
    cat: &'static str,
    name: String,
    commands: RangeInclusive<usize>,
}

/// The loop as a program, with what a profiler would have seen around its calls.
struct Loop {
    program: Program,
    frames: Vec<Frame>,
    stream: StreamId,
}

impl Loop {
    fn new() -> Loop {
        let mut program = Program::new();
        program.machine = Some(MACHINE.to_owned());
        let stream = program.legacy(0);
        let mut looped = Loop { program, frames: Vec::new(), stream };
        looped.write();
        looped
    }

    fn write(&mut self) {
        let p = &mut self.program;
        let batch = p.pageable("batch", mib(12));
        let weights: Vec<BufferId> = (0..SMALL).map(|k| p.pageable(&format!("weight{k}"), kib(4))).collect();
        let x = p.device(0, "x", mib(12));
        let w: Vec<BufferId> = (0..SMALL).map(|k| p.device(0, &format!("w{k}"), kib(4))).collect();
        let loss = p.device(0, "loss", kib(4));
        let seen = p.pageable("loss_seen", kib(4));
        for step in 0..STEPS {
            self.within("user_annotation", &format!("ProfilerStep#{step}"), |l| {
                l.within("python_function", "train.py(31): load", |l| {
                    l.program.host_write(batch, None);
                    l.to(x, batch);
                    for (to, from) in w.iter().zip(&weights) {
                        l.to(*to, *from);
                    }
                });
                l.within("python_function", "train.py(38): forward", |l| {
                    for layer in 0..LAYERS {
                        l.launch("aten::linear", &format!("gemm_forward_{layer}"), 100, x);
                    }
                    l.launch("aten::nll_loss", "nll_loss", 12, loss);
                });
                l.within("python_function", "train.py(44): log", |l| l.item(seen, loss));
                l.within("python_function", "train.py(47): backward", |l| {
                    for layer in (0..LAYERS).rev() {
                        l.launch("aten::mm", &format!("gemm_backward_{layer}"), 190, x);
                    }
                });
                l.within("python_function", "train.py(50): optimizer_step", |l| {
                    for part in 0..4 {
                        l.launch("aten::_foreach_add_", &format!("adam_{part}"), 30, x);
                    }
                });
                l.within("python_function", "train.py(53): time_of_step", |l| {
                    l.program.device_sync(0);
                });
            });
        }
    }

    /// `calls` with a frame around all of them; an outer frame stands before those inside.
    fn within(&mut self, cat: &'static str, name: &str, calls: impl FnOnce(&mut Loop)) {
        let (at, first) = (self.frames.len(), self.program.len());
        self.frames.push(Frame { cat, name: name.to_owned(), commands: first..=first });
        calls(self);
        self.frames[at].commands = first..=self.program.len().saturating_sub(1);
    }

    /// `to.copy_(from)`: blocking, from pageable memory.
    fn to(&mut self, to: BufferId, from: BufferId) {
        self.within("cpu_op", "aten::to", |l| {
            l.program.host_cost(HostCost::FrameworkTo);
            l.within("cpu_op", "aten::copy_", |l| {
                let stream = l.stream;
                l.program.copy(to, from).on(stream);
                l.program.sync(stream);
            });
        });
    }

    /// `loss.item()`.
    fn item(&mut self, to: BufferId, from: BufferId) {
        self.within("cpu_op", "aten::item", |l| {
            l.within("cpu_op", "aten::_local_scalar_dense", |l| {
                let stream = l.stream;
                l.program.copy(to.bytes(0..4), from.bytes(0..4)).on(stream);
                l.program.sync(stream);
            });
        });
    }

    /// An operator that launches one kernel.
    fn launch(&mut self, operator: &str, kernel: &str, takes_us: i64, on: BufferId) {
        self.within("cpu_op", operator, |l| {
            l.program.host_work(us(6), operator);
            let stream = l.stream;
            l.program.kernel(kernel).reads(on).writes(on).takes(Nanos(1000 * takes_us)).on(stream);
        });
    }
}

const MIB: i64 = 1 << 20;

/// What an allocator may note in four steps of such a loop: a segment for the batch that is given back and got again in every
/// step (`empty_cache()` in the loop), one that is held by a single small tensor, and activations in a third.
pub fn snapshot() -> Vec<u8> {
    let base = [0x7000_0000, 0x7200_0000, 0x7400_0000];
    let mut events: Vec<(&str, i64, i64, i64)> = vec![
        ("segment_alloc", base[1], 20 * MIB, 12),
        ("alloc", base[1], 8 * MIB, 38),
        ("alloc", base[1] + 8 * MIB, 2 * MIB, 44),
        ("segment_alloc", base[2], 40 * MIB, 12),
    ];
    for _ in 0..4 {
        events.push(("segment_alloc", base[0], 12 * MIB, 31));
        events.push(("alloc", base[0], 12 * MIB, 31));
        for layer in 0..4 {
            events.push(("alloc", base[2] + layer * 10 * MIB, 10 * MIB, 38));
        }
        for layer in (0..4).rev() {
            events.push(("free_requested", base[2] + layer * 10 * MIB, 10 * MIB, 47));
            events.push(("free_completed", base[2] + layer * 10 * MIB, 10 * MIB, 47));
        }
        events.push(("free_requested", base[0], 12 * MIB, 53));
        events.push(("free_completed", base[0], 12 * MIB, 53));
        events.push(("segment_free", base[0], 12 * MIB, 54));
    }
    events.push(("free_requested", base[1], 8 * MIB, 55));
    events.push(("free_completed", base[1], 8 * MIB, 55));

    let mut file = Pickle::default();
    file.op(b"\x80\x04}(").text("segments").op(b"](");
    for (address, blocks) in [
        (base[1], &[(8 * MIB, "inactive"), (2 * MIB, "active_allocated"), (10 * MIB, "inactive")][..]),
        (base[2], &[(40 * MIB, "inactive")][..]),
    ] {
        file.segment(address, blocks);
    }
    file.op(b"e").text("device_traces").op(b"](](");
    for (at, (action, addr, size, line)) in (0i64..).zip(&events) {
        file.op(b"}(").texts("action", action);
        let time_us = 1_000 + 150 * at;
        for (key, value) in [("addr", *addr), ("size", *size), ("stream", 0), ("time_us", time_us)] {
            file.int(key, value);
        }
        file.text("frames").op(b"](}(");
        file.texts("filename", "train.py").texts("name", line_of(*line)).int("line", *line).op(b"ueu");
    }
    file.op(b"eeu.");
    file.0
}

fn line_of(line: i64) -> &'static str {
    match line {
        12 => "setup",
        31 => "load",
        38 => "forward",
        44 => "log",
        47 => "backward",
        54 => "empty_cache",
        _ => "step",
    }
}

/// Writes a pickle of plain values, opcode by opcode.
#[derive(Default)]
struct Pickle(Vec<u8>);

impl Pickle {
    fn op(&mut self, opcodes: &[u8]) -> &mut Pickle {
        self.0.extend(opcodes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Pickle {
        self.0.push(b'X');
        let n = u32::try_from(text.len()).unwrap_or_else(|_| unreachable!("bug: a name of 4 GiB"));
        self.0.extend(n.to_le_bytes());
        self.op(text.as_bytes())
    }

    fn texts(&mut self, key: &str, text: &str) -> &mut Pickle {
        self.text(key).text(text)
    }

    fn int(&mut self, key: &str, number: i64) -> &mut Pickle {
        self.text(key).op(&[0x8a, 8]).op(&number.to_le_bytes())
    }

    fn segment(&mut self, address: i64, blocks: &[(i64, &str)]) {
        let sum =
            |of: &str| blocks.iter().filter(|(_, state)| of.is_empty() || *state == of).map(|(n, _)| n).sum();
        self.op(b"}(").text("blocks").op(b"](");
        let mut at = address;
        for (size, state) in blocks {
            self.op(b"}(")
                .texts("state", state)
                .int("address", at)
                .int("size", *size)
                .int("requested_size", *size)
                .op(b"u");
            at += size;
        }
        self.op(b"e").texts("segment_type", "large").int("address", address).int("total_size", sum(""));
        let used = sum("active_allocated");
        self.int("allocated_size", used)
            .int("active_size", used)
            .int("requested_size", used)
            .int("stream", 0);
        self.int("device", 0).op(b"u");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use spanlift::trace::Source;
    use spanlift::trace::snapshot::{Figures, Snapshot};

    fn shipped(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/../notebooks/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn the_recordings_of_the_course_are_what_is_made_here() {
        assert!(trace().unwrap().into_bytes() == shipped("training.pt.trace.json"), "run `samples trace`");
        assert!(snapshot() == shipped("training.pickle"), "run `samples snapshot`");
    }

    #[test]
    fn the_trace_is_one_of_the_profilers_to_whoever_reads_it() {
        let text = trace().unwrap();
        let own = "{\"spanlift";
        assert!(!text.contains(own) && !text.contains("\"spanlift\":"), "a field that only spanlift writes");
        let read = spanlift::trace::read(text.as_bytes()).unwrap();
        assert!(matches!(read.source, Source::Imported { .. }), "{:?}", read.source);
        // Calls and their work are joined, and every operation has its operator around it.
        let work = read.slices.kind.iter().filter(|kind| kind.is_device_work()).count();
        assert_eq!(work, STEPS * (1 + SMALL + 1 + 2 * LAYERS + 1 + 4));
        let joined = read.flows.iter().filter(|f| f.kind == spanlift::trace::FlowKind::Launch).count();
        assert_eq!(joined, work);
    }

    /// The lesson says of each kind that is found what it is, and how many there are.
    #[test]
    fn the_lesson_names_every_kind_of_stall_that_is_found() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../notebooks/08_reading_a_trace.ipynb");
        let notebook: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let words: String = notebook["cells"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|cell| cell["cell_type"] == "markdown")
            .flat_map(|cell| {
                cell["source"].as_array().unwrap().iter().filter_map(Value::as_str).chain(["\n"])
            })
            .collect();
        let mut scan = spanlift::trace::table::Scan::new();
        scan.feed(trace().unwrap().as_bytes()).unwrap();
        let table = scan.finish().unwrap();
        let found = spanlift::advise::trace::findings(&table, &spanlift::trace::analysis::Order::of(&table));
        let found: BTreeSet<&str> = found.findings.iter().map(|finding| finding.rule).collect();
        let named = words
            .lines()
            .filter_map(|line| line.strip_prefix("- **")?.split_once("**: "))
            .map(|(kind, _)| kind);
        assert_eq!(named.filter(|kind| kind.contains('-')).collect::<BTreeSet<_>>(), found);
        assert!(words.contains("you find seven kinds of them") && found.len() == 7, "{found:?}");
    }

    #[test]
    fn the_snapshot_adds_up() {
        let read = Snapshot::read(&snapshot()).unwrap();
        let figures = Figures::of(&read);
        assert_eq!(figures.segment_block_layout_inconsistencies, 0);
        assert!(read.problems.is_empty(), "{:?}", read.problems);
        let device = &figures.traces["0"];
        assert_eq!((device.undo_inconsistencies, device.allocated_start), (0, 0));
        assert_eq!(device.allocated_end, i128::from(2 * MIB));
    }
}
