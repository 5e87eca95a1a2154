//! `spanlift bench transfers`: the tutorial's rows and further ones, as one object that other tools pair with theirs.
//!
//! On the simulator a row is the program of the way that the engine would choose, simulated. No bytes move, so that no row
//! is verified, and its status says what it is. On a device the engine moves them (`bench_device`).

use serde_json::{Map, Value, json};
use spanlift::advise::transfer::{Calibration, Caps, Explain, HostMemory, Request, Route, Way, choose};
use spanlift::advise::{self, Depth, Origin, Strategy};
use spanlift::machine::Machine;
use spanlift::{Bytes, Nanos, Program, sim};
use spanlift_native::{host, probe, tutorial};

use crate::bench_device::{self, Measured};
use crate::cli::{BenchTransfersArgs, Format, On};
use crate::say::{self, Fail, Out};
use crate::{End, machine, on};

/// What is measured: bytes from one place to another.
pub(crate) struct Row {
    pub(crate) id: String,
    label: String,
    pub(crate) kind: Kind,
    pub(crate) count: u64,
    pub(crate) each: u64,
    /// Tensors of whoever has them that lie in each of these, one behind the other: 1 but for one row.
    pub(crate) views: u64,
    tutorial: Option<(usize, f64)>,
}

/// How bytes move.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Move(Route, HostMemory),
    /// A ring with so many threads.
    Threads(u32),
    /// Into page-locked memory only.
    Pin,
    /// To the host, into page-locked memory that is asked for each time; not simulated.
    PinnedAlloc,
    /// Within the device, many small pieces; not simulated.
    Scatter,
    /// Both ways with work between, as one strategy, from page-locked or pageable sources; the latter are not simulated.
    Pipe(Strategy, HostMemory),
}

impl Kind {
    fn is_simulated(self) -> bool {
        !matches!(self, Kind::PinnedAlloc | Kind::Scatter | Kind::Pipe(_, HostMemory::Pageable))
    }
}

impl Row {
    /// Bytes that move; of a pipeline both ways.
    pub(crate) fn bytes(&self) -> u64 {
        self.count * self.each * if matches!(self.kind, Kind::Pipe(..)) { 2 } else { 1 }
    }

    /// What is known of it before it is measured.
    pub(crate) fn object(&self, by: &str) -> Map<String, Value> {
        let direction = match self.kind {
            Kind::Move(Route::Up, _) | Kind::Threads(_) => "h2d",
            Kind::Move(Route::Down, _) | Kind::PinnedAlloc => "d2h",
            Kind::Move(..) | Kind::Scatter => "d2d",
            Kind::Pin => "h2h",
            Kind::Pipe(..) => "pipe",
        };
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("id", json!(self.id));
        put("label", json!(self.label));
        put("impl", json!(by));
        put("direction", json!(direction));
        put("count", json!(self.count * self.views));
        put("bytes", json!(self.bytes()));
        put("bytes_each", json!(self.each / self.views));
        // Nothing, where the tutorial has no such row, is said as the peer's script says it.
        put("tutorial_row", json!(self.tutorial.map(|(row, _)| row)));
        put("published_ms", json!(self.tutorial.map(|(_, published)| published)));
        object
    }
}

/// How many tensors rows have, and how large ones.
struct Scale {
    small: u64,
    big: u64,
    d2h: u64,
    d2d: u64,
    scatter: u64,
    items: u64,
    item: u64,
}

impl Scale {
    /// What the rows' names say, the same numbers as of the other side of a pair; or a little of each, least of pipelines,
    /// whose kernels a driver without a device interprets.
    fn of(args: &BenchTransfersArgs) -> Scale {
        if args.dry {
            return Scale {
                small: 20,
                big: 4,
                d2h: 400_000,
                d2d: 262_144,
                scatter: 50,
                items: 7,
                item: 20_000,
            };
        }
        let items = if args.quick { 16 } else { 32 };
        let (small, big, scatter) = (1000, args.big_count, 10_000);
        Scale { small, big, d2h: 799_999_200, d2d: 1 << 30, scatter, items, item: 64 << 20 }
    }
}

/// What a row took on the simulator.
struct Simulated {
    time: Nanos,
    cpu: Nanos,
    device: Bytes,
    strategy: &'static str,
    explain: Value,
}

pub(crate) fn run(args: &BenchTransfersArgs, out: &mut Out) -> Result<End, Fail> {
    let force = args.strategy.as_deref().map(way).transpose()?;
    let all = rows(&Scale::of(args));
    if let Some(none) = args.rows.iter().find(|pattern| !all.iter().any(|row| fits(pattern, &row.id))) {
        let names: Vec<&str> = all.iter().map(|row| row.id.as_str()).collect();
        return Err(Fail::at("--rows", format!("{none:?} fits none of {}", names.join(", "))));
    }
    let asked: Vec<Row> = all.into_iter().filter(|row| is_asked(args, &row.id)).collect();
    let whole = match args.on {
        On::Sim => {
            let of_devices =
                [("--quick", args.quick), ("--dry", args.dry), ("--compute-steps", args.compute_steps != 1)];
            if let Some((option, _)) = of_devices.into_iter().find(|(_, is_given)| *is_given) {
                return Err(Fail::at(option, "is for a device: --on cuda:0"));
            }
            let chosen = machine::named(args.machine.as_deref().unwrap_or(spanlift::machine::USUAL))?;
            let rows = asked.iter().filter(|row| row.kind.is_simulated());
            let simulated = rows.map(|row| object(row, &chosen.machine, force));
            let rows = simulated.collect::<Result<Vec<Value>, Fail>>()?;
            let profile = json!({
                "h2d_gb_s": chosen.machine.figure("h2d_bw"), "d2h_gb_s": chosen.machine.figure("d2h_bw"),
                "source": "the profile, not measured",
            });
            Whole { rows, simulated: Some(chosen.machine.name), probe: profile, ..Whole::default() }
        }
        On::Cuda(_) if args.machine.is_some() => {
            return Err(Fail::at("--machine", "only simulated rows have a machine's figures: --on sim"));
        }
        On::Cuda(ordinal) => match available(ordinal)? {
            Ok(gpu) => {
                let Measured { rows, probe, is_wrong } = bench_device::rows(args, ordinal, &asked, force)?;
                Whole { rows, gpu: Some(gpu), probe, is_wrong, ..Whole::default() }
            }
            Err(why) => Whole { unavailable: Some(why), ..Whole::default() },
        },
        On::Cpu => return Err(Fail::new("transfers are measured on sim or on a cuda device, not on cpu")),
    };
    match args.report.format {
        Format::Json => out.json(&whole.object(args)),
        Format::Text => {
            if let Some(why) = &whole.unavailable {
                out.line(&say::one_line(why));
                out.line("the rows on a simulated machine: spanlift bench transfers --on sim");
            }
            whole.rows.iter().for_each(|row| out.line(&line(row)));
        }
    }
    Ok(if whole.is_wrong { End::Hazard } else { End::Done })
}

/// A row in words.
fn line(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let [id, strategy, status] = ["id", "strategy", "status"].map(text);
    match (row["median_ms"].as_f64(), row["gb_s"].as_f64()) {
        (Some(ms), Some(rate)) => {
            let status = if matches!(status, "ok" | "simulated") { "" } else { status };
            let line = format!("{id:<42} {strategy:<7} {ms:>11.4} ms {rate:>8.2} GB/s  {status}");
            line.trim_end().to_owned()
        }
        _ => format!("{id:<42} {status}: {}", say::one_line(text("reason"))),
    }
}

fn way(id: &str) -> Result<Way, Fail> {
    let found = Way::ALL.into_iter().find(|way| way.id().eq_ignore_ascii_case(id));
    found.ok_or_else(|| Fail::new(format!("--strategy: {id:?} is none of S0 to S8 and driver")))
}

/// The device's name, or why no row can be measured here; one that is not among those that there are is asked for in error.
fn available(ordinal: u32) -> Result<Result<String, String>, Fail> {
    let devices = match probe::probe() {
        Ok(found) => found.devices,
        Err(why) => return Ok(Err(why.to_string())),
    };
    let n_devices = devices.len();
    let device = devices.into_iter().find(|device| device.ordinal == ordinal);
    let name = device.map(|device| device.name);
    name.map(Ok).ok_or_else(|| on::none_such(&format!("--on cuda:{ordinal}"), n_devices))
}

/// Whether a row's name fits one of the patterns, or there are none.
fn is_asked(args: &BenchTransfersArgs, id: &str) -> bool {
    args.rows.is_empty() || args.rows.iter().any(|pattern| fits(pattern, id))
}

/// `*` stands for anything. Greedy from the left, which is enough for a pattern of fixed parts in order.
fn fits(pattern: &str, id: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| id.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// All rows in the order of the contract.
fn rows(scale: &Scale) -> Vec<Row> {
    use HostMemory::{Fresh, Pageable, Pinned};
    use Route::{Down, Up, Within};
    let (small, big) = (scale.small, scale.big);
    let mut all: Vec<Row> = tutorial::rows()
        .into_iter()
        .map(|row| {
            let is_pinned = row.id.contains(".pinned");
            let kind = match is_pinned {
                _ if row.id.starts_with("pin.") => Kind::Pin,
                true => Kind::Move(Up, Pinned),
                false => Kind::Move(Up, Pageable),
            };
            let count = match (row.tensors, row.bytes_each) {
                (1000, 4000) => small,
                (1000, _) => big,
                (n, _) => n,
            };
            let tutorial = Some((row.row, row.published_ms));
            Row { id: row.id, label: row.label, kind, count, each: row.bytes_each, views: 1, tutorial }
        })
        .collect();
    let mut add = |id: &str, label: &str, kind, count, each| {
        let views = if id.ends_with(".consolidated") { small } else { 1 };
        all.push(Row {
            id: id.to_owned(),
            label: label.to_owned(),
            kind,
            count,
            each,
            views,
            tutorial: None,
        });
    };
    let (up, down) = (|host| Kind::Move(Up, host), |host| Kind::Move(Down, host));
    add("h2d.1x4MB.pinned.prealloc", "into memory that is there", up(Pinned), 1, 4_000_000);
    add("h2d.1x4MB.staged.prealloc", "staged into memory that is there", up(Pageable), 1, 4_000_000);
    for id in ["cat", "pinned_pack", "dict.non_blocking", "dict.consolidate_inside"] {
        add(&format!("h2d.1000x4KB.{id}"), "many as one", up(Pageable), small, 4000);
    }
    add("h2d.1000x4KB.dict.consolidated", "one page-locked block", up(Pinned), 1, 4000 * small);
    add("h2d.1000x4MB.pinned.prealloc", "into memory that is there", up(Pinned), big, 4_000_000);
    for n in [8, 16] {
        add(&format!("h2d.1000x4MB.dict.pin_threads{n}"), "a dictionary", up(Pageable), big, 4_000_000);
    }
    for n in [1, 4, 8, 16] {
        let label = format!("{n} copy threads");
        add(&format!("h2d.1000x4MB.staged.t{n}"), &label, Kind::Threads(n), big, 4_000_000);
    }
    add("d2h.800MB.pageable_fresh", "into fresh memory", down(Fresh), 1, scale.d2h);
    add("d2h.800MB.pageable_reused", "into memory in use", down(Pageable), 1, scale.d2h);
    add("d2h.800MB.pinned_alloc", "into page-locked memory asked for", Kind::PinnedAlloc, 1, scale.d2h);
    add("d2h.800MB.pinned_reused", "into page-locked memory", down(Pinned), 1, scale.d2h);
    add("d2d.1GiB", "within the device", Kind::Move(Within, Pinned), 1, scale.d2d);
    add("d2d.10000x4KB.scatter", "within the device, many", Kind::Scatter, scale.scatter, 4000);
    let pipes = [
        ("pipe.sequential", Strategy::A { slots: 1 }, Pinned),
        ("pipe.A.s2", Strategy::A { slots: 2 }, Pinned),
        ("pipe.A.s4", Strategy::A { slots: 4 }, Pinned),
        ("pipe.B.k3", Strategy::B { slots: 3 }, Pinned),
        ("pipe.A.s4.pageable", Strategy::A { slots: 4 }, Pageable),
    ];
    for (id, strategy, host) in pipes {
        let label = "in, work as long as a copy, out";
        add(id, label, Kind::Pipe(strategy, host), scale.items, scale.item);
    }
    all
}

fn object(row: &Row, machine: &Machine, force: Option<Way>) -> Result<Value, Fail> {
    // The engine calls the driver itself: no framework's time is in its rows.
    let machine = &Machine { framework_to_overhead: Nanos::ZERO, ..machine.clone() };
    let Simulated { time, cpu, device, strategy, explain } = simulate(row, machine, force)?;
    let bytes = row.bytes();
    let ms = time.0 as f64 / 1e6;
    let mut object = Value::Object(row.object(&format!("simulated on {}", machine.name)));
    let measured = json!({
        "median_ms": ms, "min_ms": ms, "p25_ms": ms, "p75_ms": ms, "return_median_ms": ms, "samples": 1,
        "gb_s": bytes as f64 / 1e6 / ms, "cpu_s_per_gb": cpu.0 as f64 / bytes as f64,
        "peak_device_bytes": device.0, "verified": false, "status": "simulated",
        "reason": "a model's time: no bytes moved", "strategy": strategy, "explain": explain,
    });
    if let (Value::Object(fields), Some(map)) = (measured, object.as_object_mut()) {
        map.extend(fields);
    }
    Ok(object)
}

fn simulate(row: &Row, machine: &Machine, force: Option<Way>) -> Result<Simulated, Fail> {
    let total = Bytes(row.count * row.each);
    match row.kind {
        Kind::Pin => {
            let mut p = Program::new();
            let (from, to) = (p.pageable("t", total), p.pinned("p", total));
            p.host_write(from, None);
            p.mark("begin");
            p.host_copy(to, from);
            p.mark("end");
            let time = timed(&p, machine)?;
            Ok(Simulated { time, cpu: time, device: Bytes(0), strategy: "pin", explain: Value::Null })
        }
        Kind::PinnedAlloc | Kind::Scatter => Err(Fail::new(format!("{} is not simulated", row.id))),
        Kind::Pipe(strategy, _) => {
            let mut request = asked(row, Origin::Pinned);
            (request.work, request.back) = (machine.h2d_bw.time(Bytes(row.each)), true);
            let mut found = predicted(strategy, &request, machine)?;
            found.strategy = if matches!(strategy, Strategy::A { .. }) { "A" } else { "B" };
            Ok(found)
        }
        Kind::Threads(threads) => {
            let found = predicted(Strategy::Ring { threads }, &asked(row, Origin::Pageable), machine)?;
            Ok(Simulated { strategy: "S2", ..found })
        }
        Kind::Move(route, host) => {
            let request = Request { force, ..Request::many(route, host, row.count, total) };
            let calibration = Calibration::of(machine.clone());
            let caps = Caps { register: false, mapped: false, batch: false, ..Caps::ALL };
            let plan = choose(&request, &calibration, &caps);
            let (way, threads) = (plan.chosen.way, plan.chosen.workers.max(1));
            let mut found = match way {
                Way::Drain if host == HostMemory::Fresh => {
                    // Page faults bound what a thread writes there.
                    let copies = machine.host_memcpy_cold_bw.min(machine.host_fault_bw);
                    let machine = Machine {
                        host_memcpy_cold_bw: copies,
                        host_memcpy_hot_bw: copies,
                        ..machine.clone()
                    };
                    drained(total, threads, plan.chosen.chunk, &machine)?
                }
                Way::Drain => drained(total, threads, plan.chosen.chunk, machine)?,
                Way::Device => copied(total, machine, None)?,
                Way::Direct if route == Route::Down => copied(total, machine, Some(host))?,
                Way::Driver if route == Route::Down => copied(total, machine, Some(host))?,
                Way::Inline | Way::Ring => {
                    predicted(Strategy::Ring { threads }, &asked(row, Origin::Pageable), machine)?
                }
                Way::Coalesce => {
                    predicted(Strategy::Coalesced { threads }, &asked(row, Origin::Pageable), machine)?
                }
                Way::Driver => {
                    // Many tensors become views of one block, which is one copy.
                    let block = vec![advise::Tensors { count: 1, bytes: total }];
                    let request = advise::Request::new(block, Origin::Pageable);
                    predicted(Strategy::Direct, &request, machine)?
                }
                _ => predicted(Strategy::Direct, &asked(row, Origin::Pinned), machine)?,
            };
            // What the engine copies itself it copies before the driver begins, or after it is done.
            for own in plan.chosen.terms.iter().filter(|term| term.name == "own copy") {
                found.time = Nanos(found.time.0.saturating_add(own.ns.0));
                found.cpu = Nanos(found.cpu.0.saturating_add(own.ns.0));
            }
            let explain = Explain { measured: None, ..Explain::new(&request, &calibration, plan) };
            let explain = serde_json::to_value(&explain).map_err(|e| Fail::new(e.to_string()))?;
            Ok(Simulated { strategy: way.id(), explain, ..found })
        }
    }
}

fn asked(row: &Row, from: Origin) -> advise::Request {
    advise::Request::new(vec![advise::Tensors { count: row.count, bytes: Bytes(row.each) }], from)
}

fn predicted(strategy: Strategy, request: &advise::Request, machine: &Machine) -> Result<Simulated, Fail> {
    let found =
        advise::predict(strategy, request, machine, Depth::FULL).map_err(|e| Fail::new(e.to_string()))?;
    let (time, cpu, device) = (found.time, found.spent.cpu, found.memory.device);
    Ok(Simulated { time, cpu, device, strategy: "", explain: Value::Null })
}

/// One copy within the device or from it.
fn copied(total: Bytes, machine: &Machine, host: Option<HostMemory>) -> Result<Simulated, Fail> {
    let mut p = Program::new();
    let stream = p.stream("transfer");
    let from = p.device(0, "d", total);
    let to = match host {
        None => p.device(0, "e", total),
        Some(HostMemory::Pinned) => p.pinned("h", total),
        Some(_) => p.pageable("h", total),
    };
    p.mark("begin");
    p.copy(to, from).on(stream);
    p.sync(stream);
    p.mark("end");
    let time = timed(&p, machine)?;
    let device = if host.is_none() { Bytes(2 * total.0) } else { total };
    Ok(Simulated { time, cpu: Nanos::ZERO, device, strategy: "", explain: Value::Null })
}

/// To pageable memory through slots: threads fetch ahead into three each and drain them in turn.
fn drained(total: Bytes, threads: u32, chunk: Bytes, machine: &Machine) -> Result<Simulated, Fail> {
    const SLOTS: usize = 3;
    let mut p = Program::new();
    let threads = threads as usize;
    let (from, to) = (p.device(0, "d", total), p.pageable("h", total));
    let streams: Vec<_> = (0..threads).map(|w| p.stream(&format!("down{w}"))).collect();
    let slots: Vec<Vec<_>> = (0..threads)
        .map(|w| (0..SLOTS).map(|k| p.pinned(&format!("slot{w}.{k}"), chunk)).collect())
        .collect();
    p.mark("begin");
    let workers: Vec<_> = (0..threads).map(|w| p.spawn(&format!("worker{w}"))).collect();
    let size = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let chunks: Vec<(i64, i64)> = (0..total.0)
        .step_by(usize::try_from(chunk.0.max(1)).unwrap_or(usize::MAX))
        .map(|at| (size(at), size(chunk.0.min(total.0 - at))))
        .collect();
    for (w, worker) in workers.iter().enumerate() {
        let own: Vec<(i64, i64)> = chunks.iter().copied().skip(w).step_by(threads).collect();
        let events: Vec<_> = (0..SLOTS).map(|k| p.event(&format!("fetched{w}.{k}"))).collect();
        p.by(*worker, |p| {
            let fetch = |p: &mut Program, j: usize| {
                if let Some(&(at, len)) = own.get(j) {
                    p.copy(slots[w][j % SLOTS].range(0, len), from.range(at, len)).on(streams[w]);
                    p.record(events[j % SLOTS], streams[w]);
                }
            };
            (0..SLOTS).for_each(|j| fetch(p, j));
            for (j, &(at, len)) in own.iter().enumerate() {
                p.event_sync(events[j % SLOTS]);
                p.host_copy(to.range(at, len), slots[w][j % SLOTS].range(0, len));
                fetch(p, j + SLOTS);
            }
        });
    }
    for worker in workers {
        p.join(worker);
    }
    p.mark("end");
    let time = timed(&p, machine)?;
    Ok(Simulated {
        time,
        cpu: Nanos(time.0 * size(threads as u64)),
        device: total,
        strategy: "",
        explain: Value::Null,
    })
}

/// The time between the marks.
fn timed(program: &Program, machine: &Machine) -> Result<Nanos, Fail> {
    let run = sim::run(program, machine).map_err(|e| Fail::new(e.to_string()))?;
    let at = |label: &str| run.marks.iter().find(|m| m.label == label).map_or(0, |m| m.at.0);
    Ok(Nanos(at("end") - at("begin")))
}

/// What is told in a file of the system's, if it is there.
fn told_by(path: &str, read: fn(&str) -> Option<&str>) -> Option<String> {
    std::fs::read_to_string(path).ok().and_then(|text| read(&text).map(str::to_owned))
}

/// The version in what the driver's kernel module says of itself: the first word of numbers with dots between.
fn driver_version(text: &str) -> Option<&str> {
    let is_version =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.lines().next()?.split_whitespace().find(is_version)
}

/// The name of the first processor.
fn processor(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// All that is told.
#[derive(Default)]
struct Whole {
    rows: Vec<Value>,
    gpu: Option<String>,
    simulated: Option<String>,
    probe: Value,
    unavailable: Option<String>,
    is_wrong: bool,
}

impl Whole {
    fn object(&self, args: &BenchTransfersArgs) -> Value {
        let Scale { small, big, d2h, d2d, scatter, items, item } = Scale::of(args);
        let mut object = json!({
            "schema": "spanlift.transfers/1", "tool": "spanlift",
            "machine": {
                "gpu": self.gpu, "driver_version": told_by("/proc/driver/nvidia/version", driver_version),
                "cpu": told_by("/proc/cpuinfo", processor), "simulated": self.simulated, "cores": host::read().cores,
            },
            "config": {
                "quick": args.quick, "dry": args.dry, "compute_steps": args.compute_steps, "strategy": args.strategy,
                "scale": {
                    "small_count": small, "big_count": big, "d2h_words": d2h / 4, "d2d_words": d2d / 4,
                    "scatter_count": scatter, "pipe_items": items, "pipe_words": item / 4,
                },
            },
            "probe": self.probe, "rows": self.rows,
        });
        if let (Some(why), Some(map)) = (&self.unavailable, object.as_object_mut()) {
            map.insert("unavailable".to_owned(), json!(why));
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_a_machine_has() {
        let module = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (x@y)  Sun Jul 27\n\
                      GCC version:  gcc version 12.3.0\n";
        assert_eq!(driver_version(module), Some("580.65.06"));
        assert_eq!(driver_version("GCC version: 12\n12.3"), None);
        assert_eq!(
            processor("processor\t: 0\nmodel name\t: A CPU @ 2.00GHz\nmodel name\t: B\n"),
            Some("A CPU @ 2.00GHz")
        );
        assert_eq!(processor("processor : 0\n"), None);
    }

    #[test]
    fn patterns_fit_as_shells_have_them() {
        for (pattern, id, expected) in [
            ("*", "a.b", true),
            ("h2d.*", "h2d.1x4MB", true),
            ("h2d.*", "d2h.x", false),
            ("*.pinned", "h2d.1x4MB.pinned", true),
            ("*.pinned", "h2d.1x4MB.pinned.prealloc", false),
            ("h2d.*.pin*", "h2d.1x4MB.pin_copy", true),
            ("a*a", "a", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(fits(pattern, id), expected, "{pattern} {id}");
        }
    }
}
