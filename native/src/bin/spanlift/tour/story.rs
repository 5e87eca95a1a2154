//! What the tour tells, as data: computed once, then written to the terminal, as JSON and as a page.

use spanlift::advise::{self, Crossing, Varies};
use spanlift::hazard::{self, Mode, Relation, Report};
use spanlift::machine::Machine;
use spanlift::program::{Arrangement, Op, Pipeline, Space, StreamKind};
use spanlift::sim::{self, Ledger, Reading, Run};
use spanlift::trace::analysis::{Calls, Figures};
use spanlift::trace::table::Scan;
use spanlift::trace::{Engine, LaneKind, Trace, write_chrome};
use spanlift::{Bytes, Nanos, Program, mib, us};
use spanlift_native::claims::{self, Bench, Claim, Outcome, Test};
use spanlift_native::programs;
use spanlift_native::tutorial::{self, PublishedCalls, PublishedRow};

use super::operators::Operators;
use crate::machine::Chosen;
use crate::say::Fail;

/// Everything that the tour tells.
pub(super) struct Story {
    pub(super) machine: Machine,
    /// How the page is told of the machine.
    pub(super) machine_source: String,
    pub(super) runs: Vec<ProfiledRun>,
    pub(super) rows: Vec<Row>,
    pub(super) profiles: Vec<Profile>,
    pub(super) claims: Vec<Tested>,
    pub(super) demonstrations: Vec<Demonstration>,
    pub(super) controls: Vec<Control>,
    pub(super) operators: Operators,
    pub(super) strategies: Vec<Strategy>,
    /// Where one strategy overtakes the other.
    pub(super) crossings: Vec<Crossing>,
}

/// One of the tutorial's four profiled runs.
pub(super) struct ProfiledRun {
    pub(super) name: &'static str,
    pub(super) streamed: bool,
    pub(super) pinned: bool,
    pub(super) run: Run,
    pub(super) conditions: [Condition; 3],
    /// How long a kernel ran while the engine moved bytes.
    pub(super) overlap: Nanos,
}

/// One of the three conditions for a copy to overlap with a kernel.
pub(super) struct Condition {
    pub(super) says: &'static str,
    pub(super) holds: bool,
}

/// A published row beside its simulation.
pub(super) struct Row {
    pub(super) published: PublishedRow,
    pub(super) simulated: Nanos,
    /// What it asked for and moved in that time.
    pub(super) ledger: Ledger,
}

impl Row {
    /// Bytes moved for each byte asked for: `1.00`.
    pub(super) fn factor(&self) -> String {
        self.ledger.factor().map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2}"))
    }

    /// By how much the simulation differs, in percent of the published time, to a hundredth; no zero is negative.
    pub(super) fn difference_percent(&self) -> f64 {
        let part = self.simulated.as_millis() / self.published.published_ms - 1.0;
        (10_000.0 * part).round() / 100.0 + 0.0
    }
}

/// One of the tutorial's two profiler tables beside the simulated calls.
pub(super) struct Profile {
    pub(super) published: PublishedCalls,
    /// Of each published name, the simulated calls.
    pub(super) simulated: Vec<Calls>,
}

/// A conclusion of the tutorial, tested on the machine.
pub(super) struct Tested {
    pub(super) claim: Claim,
    pub(super) outcome: Outcome,
    /// The published rows that it compares, by number, and the ratio of their published times.
    pub(super) rows: Option<(usize, usize, f64)>,
}

/// A program that reads wrong values, and the same with the checker's own fix in it.
pub(super) struct Demonstration {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) says: &'static str,
    pub(super) broken: Judged,
    pub(super) mended: Judged,
}

/// A demonstration's neighbour that reads right values every time.
pub(super) struct Control {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) says: &'static str,
    pub(super) judged: Judged,
}

/// A way to send many items through a device.
pub(super) struct Strategy {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) took: Nanos,
    pub(super) device_memory: Bytes,
}

/// A program, what the checker says of it and what it read.
pub(super) struct Judged {
    /// As its author wrote it, or as the fix left it.
    pub(super) source: String,
    pub(super) program: Program,
    pub(super) contract: Report,
    pub(super) typical: Report,
    pub(super) run: Run,
}

impl Judged {
    fn new(name: &'static str, machine: &Machine) -> Result<Judged, Fail> {
        let source = programs::named(name).map_or("", |shipped| shipped.text).to_owned();
        let (program, run) = simulated(name, machine)?;
        Judged::of(name, source, program, run)
    }

    fn of(name: &str, source: String, program: Program, run: Run) -> Result<Judged, Fail> {
        let ask = |mode| hazard::check(&program, mode).map_err(|e| Fail::at(name, e));
        let (contract, typical) = (ask(Mode::Contract)?, ask(Mode::Typical)?);
        Ok(Judged { source, program, contract, typical, run })
    }

    /// The same program, mended by what the checker proposes.
    fn mended(&self, name: &str, machine: &Machine) -> Result<Judged, Fail> {
        let mended = hazard::mend(&self.program, Mode::Contract, 10).map_err(|e| Fail::at(name, e))?;
        let run = sim::run(&mended.program, machine).map_err(|e| Fail::at(name, e))?;
        Judged::of(name, mended.program.to_text(), mended.program, run)
    }

    /// Its source from the first declaration on: what stands above is said in words around it.
    pub(super) fn listing(&self) -> &str {
        self.source.split_once("\n\n").map_or(&*self.source, |(_, rest)| rest).trim_end()
    }

    /// The relation by contract, in which its hazards are explained.
    pub(super) fn relation(&self) -> Relation<'_> {
        Relation::of(&self.program, Mode::Contract)
            .unwrap_or_else(|e| unreachable!("bug: a program that was checked is well formed: {e}"))
    }

    /// How many of the reads that expected something got it, and how many there were.
    pub(super) fn right(&self) -> (usize, usize) {
        let reads = &self.run.reads;
        (reads.iter().filter(|r| r.is_right()).count(), reads.len())
    }

    /// The first wrong read, or the first.
    pub(super) fn telling_read(&self) -> Option<&Reading> {
        self.run.reads.iter().find(|r| !r.is_right()).or_else(|| self.run.reads.first())
    }
}

/// The shipped program of this name and its simulation.
fn simulated(name: &'static str, machine: &Machine) -> Result<(Program, Run), Fail> {
    let shipped = programs::named(name).unwrap_or_else(|| unreachable!("bug: {name} does not ship"));
    let program = shipped.program();
    let run = sim::run(&program, machine).map_err(|e| Fail::at(name, e))?;
    Ok((program, run))
}

impl Story {
    /// Whether copies and kernels overlap where all three conditions hold, and nowhere else.
    pub(super) fn is_by_conditions(&self) -> bool {
        self.runs.iter().all(|run| (run.overlap > Nanos::ZERO) == run.conditions.iter().all(|c| c.holds))
    }

    /// Runs and judges every program of the tour on the machine.
    pub(super) fn new(chosen: Chosen) -> Result<Story, Fail> {
        let Chosen { machine, source: machine_source } = chosen;
        let (rows, profiles) = rows(&machine)?;
        Ok(Story {
            runs: runs(&machine)?,
            claims: tested(&rows, &machine)?,
            rows,
            profiles,
            demonstrations: demonstrations(&machine)?,
            controls: controls(&machine)?,
            operators: Operators::new(&machine)?,
            strategies: strategies()?,
            crossings: crossings()?,
            machine,
            machine_source,
        })
    }
}

fn rows(machine: &Machine) -> Result<(Vec<Row>, Vec<Profile>), Fail> {
    let mut rows = Vec::new();
    let mut profiles = Vec::new();
    let mut tables = tutorial::profiles().into_iter().peekable();
    for (shipped, published) in programs::ROWS.iter().zip(tutorial::rows()) {
        let (_, run) = simulated(shipped.name, machine)?;
        if let Some(table) = tables.next_if(|table| table.row == published.row) {
            profiles.push(Profile::new(table, &run.trace)?);
        }
        let ledger = timed_ledger(&run, shipped.text, machine).map_err(|e| Fail::at(shipped.name, e))?;
        rows.push(Row { published, simulated: timed_part(&run, shipped.name), ledger });
    }
    Ok((rows, profiles))
}

impl Profile {
    /// The calls are counted as `spanlift analyze` counts them, in the trace as it is written.
    fn new(published: PublishedCalls, trace: &Trace) -> Result<Profile, Fail> {
        let mut scan = Scan::new();
        let table = scan.feed(write_chrome(trace).as_bytes()).and_then(|()| scan.finish());
        let table = table.map_err(|e| Fail::new(e.to_string()))?;
        let mut figures = Figures::of(&table);
        let simulated = published
            .calls
            .iter()
            .map(|call| figures.host_calls.remove(&call.name).unwrap_or_default())
            .collect();
        Ok(Profile { published, simulated })
    }
}

/// The time between the marks `begin` and `end` of a row's program.
fn timed_part(run: &Run, name: &str) -> Nanos {
    let at = |label: &str| run.marks.iter().find(|m| m.label == label).map(|m| m.at);
    match (at("begin"), at("end")) {
        (Some(begin), Some(end)) => Nanos(end.0 - begin.0),
        _ => unreachable!("bug: the program {name} has no marks `begin` and `end`"),
    }
}

/// What a row's program moves between its marks: all of it, less what stands before the first one. Behind the second one stands
/// nothing.
fn timed_ledger(run: &Run, text: &str, machine: &Machine) -> Result<Ledger, String> {
    let before: Vec<&str> = text.lines().take_while(|line| !line.starts_with("mark ")).collect();
    let before = Program::from_text(&before.join("\n")).map_err(|e| e.to_string())?;
    let before = sim::run(&before, machine).map_err(|e| e.to_string())?.ledger;
    let less = |all: Bytes, before: Bytes| Bytes(all.0.saturating_sub(before.0));
    let all = run.ledger;
    Ok(Ledger {
        payload: less(all.payload, before.payload),
        within_host: less(all.within_host, before.within_host),
        staging: less(all.staging, before.staging),
        to_device: less(all.to_device, before.to_device),
        to_host: less(all.to_host, before.to_host),
        peer: less(all.peer, before.peer),
        within_device: less(all.within_device, before.within_device),
    })
}

/// The tutorial's conclusions on the machine whose rows these are.
fn tested(rows: &[Row], machine: &Machine) -> Result<Vec<Tested>, Fail> {
    let mut bench = Bench::new(machine);
    for (row, shipped) in rows.iter().zip(programs::ROWS) {
        bench.know(shipped.name, row.simulated);
    }
    let number = |name: &str| programs::ROWS.iter().position(|row| row.name == name).map(|k| k + 1);
    let published = |row: usize| rows[row - 1].published.published_ms;
    let all = claims::all().into_iter().map(|claim| {
        let outcome = bench.judge(&claim).map_err(|e| Fail::at(&claim.id, e))?;
        let rows = match &claim.test {
            Test::Ratio { over, under, .. } => number(over).zip(number(under)),
            _ => None,
        };
        let rows = rows.map(|(over, under)| (over, under, published(over) / published(under)));
        Ok(Tested { claim, outcome, rows })
    });
    all.collect()
}

fn runs(machine: &Machine) -> Result<Vec<ProfiledRun>, Fail> {
    let runs = programs::RUNS.iter().map(|&(name, streamed, pinned)| {
        let (program, run) = simulated(name, machine)?;
        let overlap = busy_together(&run.trace);
        let conditions = conditions(&program, &run.trace);
        Ok(ProfiledRun { name, streamed, pinned, run, conditions, overlap })
    });
    runs.collect()
}

/// The spans of time in which `engine` of device 0 was busy, sorted, touching ones joined.
pub(super) fn busy(trace: &Trace, engine: Engine) -> Vec<(i64, i64)> {
    let lane = LaneKind::Engine { dev: 0, engine };
    let on_lane = trace.slices.iter().filter(|s| trace.lanes[s.lane as usize].kind == lane);
    let mut spans: Vec<(i64, i64)> = on_lane.map(|s| (s.start.0, s.end.0)).filter(|(a, b)| a < b).collect();
    spans.sort_unstable();
    let mut union: Vec<(i64, i64)> = Vec::new();
    for (a, b) in spans {
        match union.last_mut() {
            Some(last) if a <= last.1 => last.1 = last.1.max(b),
            _ => union.push((a, b)),
        }
    }
    union
}

/// How long the engine to the device and the compute units were busy at the same time.
fn busy_together(trace: &Trace) -> Nanos {
    let (copies, kernels) = (busy(trace, Engine::ToDevice), busy(trace, Engine::Compute));
    let common =
        copies.iter().flat_map(|&(a, b)| kernels.iter().map(move |&(c, d)| (b.min(d) - a.max(c)).max(0)));
    Nanos(common.sum())
}

/// Which of the three conditions hold for the program's copy to the device.
fn conditions(program: &Program, trace: &Trace) -> [Condition; 3] {
    let facts =
        program.check().unwrap_or_else(|e| unreachable!("bug: a simulated program is well formed: {e}"));
    let commands = program.commands();
    let copies: Vec<usize> = (0..commands.len()).filter(|&k| matches!(commands[k].op, Op::Copy(_))).collect();
    let timed = *copies.last().unwrap_or_else(|| unreachable!("bug: a profiled run has a copy"));
    let Op::Copy(copy) = &commands[timed].op else { unreachable!("bug: picked as a copy") };
    let kernels =
        || commands.iter().filter_map(|c| if let Op::Kernel(k) = &c.op { Some(k.stream) } else { None });
    let own_stream =
        facts.stream(copy.stream).kind != StreamKind::Legacy && kernels().all(|s| s != copy.stream);
    let engine = LaneKind::Engine { dev: 0, engine: Engine::ToDevice };
    let of_copy = |s: &spanlift::trace::Slice| s.command as usize == timed;
    let first = trace.slices.iter().filter(of_copy).map(|s| s.start).min();
    let last = trace.slices.iter().filter(of_copy).map(|s| s.end).max();
    let others =
        || trace.slices.iter().filter(|s| trace.lanes[s.lane as usize].kind == engine && !of_copy(s));
    let free =
        others().all(|s| last.is_none_or(|last| last <= s.start) || first.is_none_or(|first| s.end <= first));
    [
        Condition { says: "a free copy engine", holds: free },
        Condition { says: "a stream of its own", holds: own_stream },
        Condition { says: "a pinned source", holds: facts.buffer(copy.src.buffer).space == Space::Pinned },
    ]
}

fn demonstrations(machine: &Machine) -> Result<Vec<Demonstration>, Fail> {
    struct Shipped {
        id: &'static str,
        title: &'static str,
        says: &'static str,
        name: &'static str,
    }
    let shipped = [
        Shipped {
            id: "h2d-pinned-overwritten",
            title: "A pinned source is overwritten while its copy is in flight",
            says: "The tensor of ones is pinned, so the copy to the device returns at once. The host then writes zeros \
                   into it, and the engine copies what it finds.",
            name: "demo-h2d-pinned-overwritten",
        },
        Shipped {
            id: "d2h-read-before-sync",
            title: "A result is read on the host before its copy has arrived",
            says: "Copying to the host without blocking makes a pinned destination and returns at once. The host reads it \
                   before the engine has written it.",
            name: "demo-d2h-read-before-sync",
        },
    ];
    let told = shipped.into_iter().map(|Shipped { id, title, says, name }| {
        let broken = Judged::new(name, machine)?;
        let mended = broken.mended(name, machine)?;
        Ok(Demonstration { id, title, says, broken, mended })
    });
    told.collect()
}

fn controls(machine: &Machine) -> Result<Vec<Control>, Fail> {
    Ok(vec![
        Control {
            id: "h2d-pageable-overwritten",
            title: "The same overwrite with a pageable source",
            says: "A race by contract: the documentation lets the driver read the source after the call returned. Safe in \
                   typical mode: today's drivers have staged the whole source by then. Both are true; only one of them is \
                   promised.",
            judged: Judged::new("control-h2d-pageable-overwritten", machine)?,
        },
        Control {
            id: "d2h-read-after-sync",
            title: "The same read after a sync",
            says: "The host waits for the copy before it reads. Nothing is left to chance, in either mode.",
            judged: Judged::new("control-d2h-read-after-sync", machine)?,
        },
    ])
}

/// The machine that the strategies run on: its link is fast enough for copies and work to take about as long.
pub(super) const STRATEGY_MACHINE: &str = "h100-pcie5";

/// The work on an item from which on A is faster than B, with two items under way and work that leaves room for others.
pub(super) fn overtaken(story: &Story) -> Option<Nanos> {
    let crossing = story.crossings.iter().find(|c| c.varies == Varies::Work && c.above == "A")?;
    i64::try_from(crossing.at).ok().map(Nanos)
}

fn crossings() -> Result<Vec<Crossing>, Fail> {
    let machine = Machine::builtin(STRATEGY_MACHINE)
        .unwrap_or_else(|| unreachable!("bug: the profile comes with spanlift"));
    let pipeline =
        Pipeline { in_flight: Some(2), work: us(600), ..Pipeline::new(Arrangement::PerStage, 12, mib(32)) };
    advise::crossings(&pipeline, &machine).map_err(|e| Fail::at("strategies", e))
}

fn strategies() -> Result<Vec<Strategy>, Fail> {
    let machine = Machine::builtin(STRATEGY_MACHINE)
        .unwrap_or_else(|| unreachable!("bug: the profile comes with spanlift"));
    let strategies = [
        ("strategy-a", "A: a stream per item, all under way"),
        ("strategy-a-two", "A: a stream per item, two under way"),
        ("strategy-b", "B: a stream per stage, two under way"),
    ];
    let strategies = strategies.into_iter().map(|(name, title)| {
        let (program, run) = simulated(name, &machine)?;
        let on_device = program.commands().iter().filter_map(|c| match &c.op {
            Op::Alloc(a) if a.space == Space::Device => Some(a.bytes.unsigned_abs()),
            _ => None,
        });
        Ok(Strategy { name, title, took: timed_part(&run, name), device_memory: Bytes(on_device.sum()) })
    });
    strategies.collect()
}
