//! Lesson 8: a recorded trace read, asked for its figures and findings, and run again with changes.

use std::collections::BTreeMap;
use std::fmt;

use spanlift::advise::trace::{
    Finding, Findings, RecordedChange, Recording, findings, memory_findings, skeleton,
};
use spanlift::hazard::{self, Mode};
use spanlift::machine::USUAL;
use spanlift::sim;
use spanlift::text::grouped;
use spanlift::text::signed_percent;
use spanlift::trace::analysis::{Figures, Order};
use spanlift::trace::snapshot::Snapshot;
use spanlift::trace::table::Scan;
use spanlift::trace::{Kind, LaneKind, read};
use spanlift::{Nanos, Program, Size, Trace};

use super::flow::same_flow;
use super::guess::beside;
use super::strategies::with_notes;
use super::{Answer, told};
use crate::app::App;
use crate::bars::{BarChart, Cluster, Entry};
use crate::figure::{Panel, PanelOptions, panels};
use crate::memory::{MemoryOptions, MemoryPicture};
use crate::model::{Model, machine_of};
use crate::pack::PageItem;
use crate::pictures::map_svg;
use crate::rows::Shown;
use crate::show::{Figure, Show};
use crate::svg::svg;
use crate::text;
use crate::theme::{Theme, kind_name};

/// Changes that can be asked of a recorded trace without choosing a number.
const CHANGES: [&str; 3] = ["pin:*", "copy_stream", "no_waits"];

/// A trace file of PyTorch's profiler that was read, with all that is known of it.
///
/// ```
/// use spanlift_viewer::course::Recorded;
/// let file = br#"[
///   {"ph": "X", "cat": "cpu_op", "name": "aten::item", "pid": 1, "tid": 1, "ts": 0, "dur": 900},
///   {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 1, "dur": 890,
///    "args": {"correlation": 5}},
///   {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7, "ts": 880, "dur": 2,
///    "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 4}}]"#;
/// let recorded = Recorded::read(file)?;
/// assert!(recorded.findings().plain().contains("hidden-sync"));
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
#[derive(Clone)]
pub struct Recorded {
    trace: Trace,
    figures: Figures,
    found: Findings,
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorded({} slices)", self.trace.slices.len())
    }
}

impl Recorded {
    /// Reads a trace file, unpacked.
    ///
    /// # Errors
    /// What is wrong with it, with the byte.
    pub fn read(file: &[u8]) -> Result<Recorded, spanlift::trace::ReadError> {
        let trace = read(file)?;
        let mut scan = Scan::new();
        scan.feed(file)?;
        let table = scan.finish()?;
        let order = Order::of(&table);
        Ok(Recorded { trace, figures: Figures::with(&table, &order), found: findings(&table, &order) })
    }

    /// Whom the host and the device waited for, as bars: the device's time by what it does, and the host's in calls that wait.
    pub fn figures(&self) -> Figure {
        let mut clusters = Vec::new();
        for (name, device) in &self.figures.devices {
            let bars = [
                ("kernels run", device.kernel_busy_ns),
                ("copies run", device.copy_busy_ns),
                ("both at once", device.copy_and_kernel_overlap_ns),
                ("nothing runs", device.idle_ns.unwrap_or(0)),
            ];
            clusters.push(Cluster {
                label: name.clone(),
                entries: bars.map(|(label, ns)| bar(label, ns, String::new())).to_vec(),
            });
        }
        let copies = self.figures.copies.iter().map(|(name, c)| {
            let held = c.host_wait_before_copy_ns + c.host_during_copy_ns + c.host_after_copy_ns;
            let note = format!("{} of {}", counted(c.count, "copy"), size(c.bytes));
            // Short enough for the room that labels have.
            bar(&format!("held by {}", name.strip_prefix("Memcpy ").unwrap_or(name)), held, note)
        });
        let syncs = self.figures.host_sync.time_ns_by_call.iter().map(|(name, ns)| {
            let n = self.figures.host_sync.calls.get(name).copied().unwrap_or(0);
            bar(&format!("in {name}"), *ns, counted(n, "call"))
        });
        clusters.push(Cluster { label: "the host".to_owned(), entries: copies.chain(syncs).collect() });
        with_notes(&BarChart {
            title: "Where the time went".to_owned(),
            unit: "ms".to_owned(),
            series: vec!["time".to_owned()],
            clusters,
            is_log: false,
        })
    }

    /// What could be better, who asked for it and what a change would win; first how well the model repeats the recording.
    pub fn findings(&self) -> Figure {
        let mut lines = Vec::new();
        if let Some(error) = &self.found.replay {
            lines.push(format!(
                "the model repeats the recorded {} with an error of {}",
                text::time(error.recorded_ns),
                signed_percent(error.error)
            ));
        }
        for finding in &self.found.findings {
            lines.push(format!("\n{}: {}", finding.rule, finding.title));
            lines.push(format!("    {}", finding.why));
            lines.push(format!("    costs {}{}", text::time(nanos(finding.cost_ns)), wins(finding)));
            lines.push(format!("    {}", finding.change));
        }
        if self.found.findings.is_empty() {
            lines.push("nothing found that costs enough to be told".to_owned());
        }
        Figure::words(lines.join("\n"))
    }

    /// The findings as bars: what each costs the host or the device, and what a change would win.
    pub fn costs(&self) -> Figure {
        let bars = self.found.findings.iter().map(|finding| Entry {
            label: finding.rule.to_owned(),
            values: vec![in_ms(finding.cost_ns), in_ms(finding.wins_ns.unwrap_or(0).max(0).into())],
            note: String::new(),
        });
        let chart = BarChart {
            title: "What findings cost, and what a change would win".to_owned(),
            unit: "ms".to_owned(),
            series: vec!["costs".to_owned(), "wins".to_owned()],
            clusters: vec![Cluster { label: String::new(), entries: bars.collect() }],
            is_log: false,
        };
        chart.show()
    }

    /// What happens between two times, counted from the first event.
    pub fn totals(&self, from: Nanos, to: Nanos) -> Figure {
        let first = self.trace.extent().map_or(0, |(start, _)| start.0);
        let model = match Model::open(&PageItem::trace("recorded", &self.trace)) {
            Ok(model) => model,
            Err(why) => return Figure::error(&why),
        };
        let mut app = App::new(model, Theme::LIGHT);
        app.set_range(Some((first.saturating_add(from.0), first.saturating_add(to.0))));
        let Some(totals) = app.totals() else { return Figure::error(&"the range is empty") };
        let length = (totals.range.1 - totals.range.0).max(1);
        let mut lines = vec![format!("{} from {} on", text::time(length), text::time(from.0))];
        for total in &totals.kinds {
            let bytes =
                if total.bytes > 0 { format!(", {}", text::bytes(total.bytes)) } else { String::new() };
            lines.push(format!(
                "  {:<16} {:>5}  {}{bytes}",
                kind_name(total.kind),
                total.n,
                text::time(total.ns)
            ));
        }
        for lane in &totals.lanes {
            lines.push(format!("  {}: {:.1} % busy", lane.name, 100.0 * lane.busy as f64 / length as f64));
        }
        Figure::words(lines.join("\n"))
    }

    /// Where the step that a profiler's mark calls so begins and ends, counted from the first event.
    pub fn step(&self, name: &str) -> Option<(Nanos, Nanos)> {
        let first = self.trace.extent()?.0;
        let step = self.trace.slices.iter().find(|s| self.trace.strings.get(s.name) == name)?;
        Some((Nanos(step.start.0 - first.0), Nanos(step.end.0 - first.0)))
    }

    /// A guess beside a time of the recording.
    pub fn guessed(&self, what: &str, guess: Nanos, found: Nanos) -> Figure {
        beside(what, guess, "recorded", found)
    }

    /// The recording run again with changes, each a [`RecordedChange`] as it is written: what it takes then, and both timelines.
    pub fn what_if(&self, changes: &[&str]) -> Figure {
        let Some(recording) = Recording::of(&self.trace) else {
            return Figure::error(&"no operation of this trace has its call");
        };
        let list: Result<Vec<RecordedChange>, _> = changes.iter().map(|change| change.parse()).collect();
        let list = match list {
            Ok(list) => list,
            Err(why) => return Figure::error(&why),
        };
        let (same, made) = (recording.what_if(&[]), recording.what_if(&list));
        let name = if changes.is_empty() { "no change".to_owned() } else { changes.join(", ") };
        let plain = format!(
            "{name}: {} instead of {}, {} saved; without a change the model is off by {}",
            text::time(made.length_ns),
            text::time(same.length_ns),
            text::time(made.saved_ns),
            signed_percent(recording.error().error)
        );
        let panel = |title: &str, trace| Panel {
            title: title.to_owned(),
            trace,
            findings: Vec::new(),
            notes: Vec::new(),
        };
        let list = [panel("as recorded", &same.trace), panel(&name, &made.trace)];
        let options = PanelOptions {
            title: plain.clone(),
            width: 900.0,
            columns: 1,
            shown: Shown { empty: false, ..Shown::default() },
            ..PanelOptions::default()
        };
        let drawn = svg(&panels(&list, &options), "What if", &plain);
        Figure::still(plain, "What if", drawn)
    }

    /// What begins between two times, counted from the first event, as a program in the text form.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn program(&self, from: Nanos, to: Nanos) -> Result<String, String> {
        let first = self.trace.extent().map_or(0, |(start, _)| start.0);
        let made = skeleton(&self.trace, first.saturating_add(from.0), first.saturating_add(to.0));
        made.map(|made| made.to_text()).map_err(|e| e.to_string())
    }
}

impl Show for Recorded {
    fn show(&self) -> Figure {
        let span = self.figures.ts_ns.span.map_or(0, nanos);
        let ops: u64 = self.figures.gpu_ops.values().sum();
        let plain = format!(
            "{} events over {}, {} operations on {}",
            grouped(self.figures.n_events),
            text::time(span),
            grouped(ops),
            text::count(self.figures.devices.len(), "device")
        );
        self.trace.show().saying(plain).taller(160)
    }
}

fn nanos(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn size(bytes: i128) -> String {
    format!("{:.1}", Size::decimal(bytes))
}

/// Milliseconds to a thousandth, as they are written.
fn in_ms(ns: i128) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}

fn bar(label: &str, ns: i128, note: String) -> Entry {
    Entry { label: label.to_owned(), values: vec![in_ms(ns)], note }
}

fn wins(finding: &Finding) -> String {
    finding.wins_ns.map_or_else(String::new, |ns| format!(", a change wins {}", text::time(ns)))
}

/// Lesson 8, exercise 1: who holds the host longest, as the name of the operator or call that asked for it.
///
/// The answer is looked for among the places of the findings on calls that hold the host, each operator's together.
pub fn check_holder(recorded: &Recorded, operator: &str) -> Figure {
    let holds = |f: &&Finding| {
        matches!(f.rule, "hidden-sync" | "pageable-upload" | "blocking-copy" | "explicit-sync")
    };
    let mut held: BTreeMap<&str, (i128, u64)> = BTreeMap::new();
    for place in recorded.found.findings.iter().filter(holds).flat_map(|f| &f.places) {
        let of_operator = held.entry(operator_of(&place.maker)).or_default();
        *of_operator = (of_operator.0 + place.cost_ns, of_operator.1 + place.count);
    }
    let most = held.values().map(|(ns, _)| *ns).max().unwrap_or(0);
    let time = |ns| text::time(nanos(ns));
    told(match held.get(operator.trim()) {
        Some(&(ns, count)) if ns == most => {
            Ok(format!("{operator} holds the host for {}, in {}", time(ns), counted(count, "call")))
        }
        Some(&(ns, _)) => {
            Err(format!("{operator} holds the host for {}; something else does for {}", time(ns), time(most)))
        }
        None => Err(format!("no finding says that {operator:?} holds the host")),
    })
}

/// The operator of a place in words: `train.py:31 load: aten::to in ProfilerStep#1`.
fn operator_of(maker: &str) -> &str {
    let operator = maker.split(" in ").next().unwrap_or(maker);
    operator.rsplit(": ").next().unwrap_or(operator)
}

fn counted(n: u64, what: &str) -> String {
    text::count(usize::try_from(n).unwrap_or(usize::MAX), what)
}

/// Lesson 8, exercise 2: the one change that wins most of a recording.
pub fn check_change(recorded: &Recorded, change: &str) -> Figure {
    told(best_change(recorded, change))
}

fn best_change(recorded: &Recorded, change: &str) -> Result<String, String> {
    let chosen: RecordedChange =
        change.parse().map_err(|e: spanlift::advise::trace::NotAChange| e.to_string())?;
    let recording = Recording::of(&recorded.trace).ok_or("no operation of this trace has its call")?;
    let saved = |change| recording.what_if(&[change]).saved_ns;
    let own = saved(chosen);
    if !CHANGES.contains(&change.trim()) {
        return Err(format!(
            "{change} wins {}, but no line of a program makes a link faster",
            text::time(own)
        ));
    }
    let best = CHANGES.iter().filter_map(|c| c.parse().ok()).map(saved).max().unwrap_or(own);
    match own == best && own > 0 {
        true => {
            Ok(format!("{change} wins {} of {}", text::time(own), text::time(recording.error().replayed_ns)))
        }
        false => {
            Err(format!("{change} wins {}; another single change wins {}", text::time(own), text::time(best)))
        }
    }
}

/// What the copy engines and the compute units did in a run, as far as exercise 3 asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Done {
    to_device: u64,
    kernel_ns: i64,
    /// How long no kernel runs between the first and the last one.
    idle_ns: i64,
}

impl Done {
    fn of(trace: &Trace) -> Done {
        let is_engine = |lane: u32| {
            trace.lanes.get(lane as usize).is_some_and(|l| matches!(l.kind, LaneKind::Engine { .. }))
        };
        let on_engines = || trace.slices.iter().filter(|s| is_engine(s.lane));
        let to_device = on_engines().filter(|s| s.kind == Kind::ToDevice).map(|s| s.bytes).sum();
        let kernels = on_engines().filter(|s| s.kind == Kind::Kernel);
        let mut kernels: Vec<(i64, i64)> = kernels.map(|s| (s.start.0, s.end.0)).collect();
        kernels.sort_unstable();
        let kernel_ns = kernels.iter().map(|(start, end)| end - start).sum();
        let (mut idle_ns, mut until) = (0, kernels.first().map_or(0, |k| k.0));
        for (start, end) in kernels {
            idle_ns += (start - until).max(0);
            until = until.max(end);
        }
        Done { to_device, kernel_ns, idle_ns }
    }
}

/// Lesson 8, exercise 3: two steps of a recording as a program; mended, it brings the same bytes to the device of the same machine,
/// runs the same kernels on them, lets the host read what they made, is safe by contract, and the device's kernels wait for next to
/// nothing.
pub fn check_steps(asked: &str, answer: &(impl Answer + ?Sized)) -> Figure {
    told(steps(asked, &answer))
}

fn steps(asked: &str, answer: &dyn Answer) -> Result<String, String> {
    let run = |program: &Program| -> Result<sim::Run, String> {
        sim::run(program, &machine_of(program, "")?).map_err(|e| e.to_string())
    };
    let asked = Program::from_text(asked).map_err(|e| e.to_string())?;
    let before = run(&asked)?;
    let program = answer.program()?;
    let [was, is] = [&asked, &program].map(|p| p.machine.as_deref().unwrap_or(USUAL));
    if was != is {
        return Err(format!("the steps run on {was}, this runs on {is}: mend the program, not the machine"));
    }
    let report = hazard::check(&program, Mode::Contract).map_err(|e| e.to_string())?;
    let after = run(&program)?;
    let (was, is) = (Done::of(&before.trace), Done::of(&after.trace));
    if is.to_device < was.to_device {
        let bytes = [was.to_device, is.to_device].map(text::bytes);
        return Err(format!("the steps bring {} to the device, this brings {}", bytes[0], bytes[1]));
    }
    if is.kernel_ns < was.kernel_ns {
        let time = [was.kernel_ns, is.kernel_ns].map(text::time);
        return Err(format!("the steps' kernels take {}, these take {}", time[0], time[1]));
    }
    same_flow(&asked, &program)?;
    if let Some(hazard) = report.hazards.first() {
        let n = text::count(report.hazards.len(), "hazard");
        return Err(format!(
            "{n} by CUDA's documentation, the first one\n{}",
            hazard::sentence(&program, hazard)
        ));
    }
    if let Some(wrong) = after.reads.iter().find(|r| r.expected.is_some() && !r.is_right()) {
        return Err(format!("no hazard, but not the right values\nread {}", wrong.sentence(&program)));
    }
    let words = format!(
        "done after {} instead of {}; between its first and its last kernel the device computes nothing for {} instead of {}",
        text::time(after.end.0),
        text::time(before.end.0),
        text::time(is.idle_ns),
        text::time(was.idle_ns)
    );
    let is_better = is.idle_ns.saturating_mul(4) <= was.idle_ns && after.end < before.end;
    if is_better { Ok(words) } else { Err(format!("safe, but {words}")) }
}

/// A memory snapshot of PyTorch's allocator at its end: the segments that it holds and the blocks in use.
pub fn snapshot_at_end(file: &[u8]) -> Figure {
    let (layout, told) = match crate::snapshot::map(file) {
        Ok(opened) => opened,
        Err(why) => return Figure::error(&why),
    };
    let options = MemoryOptions { title: "What the allocator holds".to_owned(), ..MemoryOptions::default() };
    let drawn = map_svg(&MemoryPicture::of_segments(layout), &options);
    Figure::over(
        told.join("\n"),
        "memory snapshot",
        drawn,
        PageItem::snapshot("snapshot", file.to_vec()),
        560,
    )
}

/// What could be better about the memory of a snapshot.
pub fn snapshot_findings(file: &[u8]) -> Figure {
    let read = match Snapshot::read(file) {
        Ok(read) => read,
        Err(why) => return Figure::error(&why),
    };
    let found = memory_findings(&read);
    let lines = found.iter().map(|f| format!("{}: {}\n    {}", f.rule, f.title, f.change));
    Figure::words(lines.collect::<Vec<_>>().join("\n"))
}

/// Lesson 8, exercise 4: the line of the program that gives back a segment which is got again.
pub fn check_memory(file: &[u8], line: i64) -> Figure {
    let found = || -> Result<String, String> {
        let snapshot = Snapshot::read(file).map_err(|e| e.to_string())?;
        let findings = memory_findings(&snapshot);
        let again = findings.iter().find(|f| f.rule == "thrash").ok_or("no segment is got again")?;
        let given_back = |&(device, at): &(usize, usize)| {
            let events = snapshot.traces.get(device)?.get(..=at)?;
            let got = events.last()?;
            let free = snapshot.strings.find("segment_free");
            let freed = events.iter().rev().find(|e| Some(e.action) == free && e.addr == got.addr)?;
            let frame = snapshot.stacks.get(freed.stack).first()?;
            Some(snapshot.stacks.frames[*frame as usize].line)
        };
        match again.events.iter().filter_map(given_back).any(|freed_at| freed_at == line) {
            true => Ok(format!("{}\n{}", again.title, again.change)),
            false => Err(format!("line {line} gives no segment back that is got again")),
        }
    };
    told(found())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training() -> Recorded {
        let file =
            std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../notebooks/data/training.pt.trace.json"));
        Recorded::read(&file.unwrap()).unwrap()
    }

    #[test]
    fn the_stalls_of_the_lesson_are_found_and_nothing_else_holds_the_host() {
        let recorded = training();
        for rule in ["pageable-upload", "hidden-sync", "explicit-sync", "missed-overlap"] {
            assert!(recorded.findings().plain().contains(&format!("\n{rule}: ")), "{rule}");
        }
        assert!(!recorded.figures().svg().contains('…'), "a label is cut");
        assert!(check_holder(&recorded, "").plain().starts_with("not yet: "));
        assert!(check_holder(&recorded, "aten::nothing").plain().starts_with("not yet: no finding says"));
        assert!(
            check_change(&recorded, "h2d_bw*2").plain().contains("no line of a program makes a link faster")
        );
        assert!(check_change(&recorded, "sleep").plain().starts_with("not yet: "));
        let right: Vec<_> =
            CHANGES.iter().filter(|c| check_change(&recorded, c).plain().starts_with("right: ")).collect();
        assert_eq!(right.len(), 1, "{right:?}");
    }

    #[test]
    fn the_line_that_gives_memory_back_is_that_of_the_free() {
        let file =
            std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../notebooks/data/training.pickle")).unwrap();
        assert!(snapshot_findings(&file).plain().contains("thrash: "));
        for (line, answer) in [(54, "right: "), (31, "not yet: "), (53, "not yet: "), (0, "not yet: ")] {
            assert!(check_memory(&file, line).plain().starts_with(answer), "{line}");
        }
        assert!(check_memory(b"no pickle", 54).plain().starts_with("not yet: byte 0"));
    }

    #[test]
    fn what_is_left_out_of_a_step_is_told() {
        let asked = "machine tutorial-ci\nstream s\npageable b 4MiB\ndevice d 4MiB\ncopy d <- b on s\n\
                     kernel k on s reads d for 1ms\nsync s\ncopy d <- b on s\nkernel k on s reads d for 1ms\nsync s";
        let check = |answer: &str, expected: &str| {
            let found = check_steps(asked, answer);
            assert!(found.plain().contains(expected), "{expected:?} in {}", found.plain());
        };
        check(asked, "not yet: safe, but done after");
        check(&asked.replace("sync s\ncopy", "copy"), "not yet: ");
        check(&asked.replace("1ms", "1us"), "not yet: the steps' kernels take");
        check(&asked.replacen("copy d <- b on s\n", "", 1), "not yet: the steps bring 8 MiB");
        check("copy d <- b", "not yet: line 1");
        check(
            &asked.replace("tutorial-ci", "gh200-c2c"),
            "not yet: the steps run on tutorial-ci, this runs on gh200-c2c",
        );
        check(&asked.replace("machine tutorial-ci\n", ""), "not yet: safe, but done after");
        check(
            &asked.replace(" reads d", ""),
            "not yet: `k` (number 1) reads 4 MiB that come from the host, here 0 B",
        );
    }

    /// The exercise of the notebook, its solution, and the notebook's tempting ways around it.
    #[test]
    fn the_steps_of_the_lesson_are_held() {
        let solutions = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../notebooks/solutions/08_reading_a_trace.rs"
        ));
        let mut texts = solutions.split("r#\"").skip(1).filter_map(|text| text.split("\"#").next());
        let (asked, mended) = (texts.next().unwrap(), texts.next().unwrap());
        let check = |answer: &str, expected: &str| {
            let found = check_steps(asked, answer);
            assert!(found.plain().contains(expected), "{expected:?} in {}", found.plain());
        };
        check(asked, "not yet: safe, but done after 8.468 ms instead of 8.468 ms");
        check(mended, "right: ");
        // Step by step: copies ahead on their own stream, losses read one by one, small tensors each for themselves.
        let one_by_one = asked
            .replace("pageable", "pinned  ")
            .replace("end\n\nrepeat i 2\n    copy    x", "    event    there{i}\nend\nstream load\n\nrepeat i 2\n    copy    x")
            .replace("on 0                  # batch", "on load               # batch")
            .replace("on 0      # weight", "on load   # weight")
            .replace("        sync    0\n", "")
            .replace("    sync    0\n    repeat k", "    repeat k")
            .replace("    kernel  forward", "    record  there{i} on load\nend\nrepeat i 2\n    wait    there{i} on 0\n    kernel  forward")
            .replace("    sync    0                                      # torch", "    # torch")
            .replace("    sync    0\n    read    seen{i} expect f32 fill 2\n", "")
            + "sync    0\nrepeat i 2\n    read    seen{i} expect f32 fill 2\nend\n";
        check(&one_by_one, "right: ");
        check(&asked.replace("tutorial-ci", "gh200-c2c"), "not yet: the steps run on tutorial-ci");
        let faster = asked.replace("tutorial-ci", "h200-pcie5").replace("pageable", "pinned  ");
        check(&faster, "not yet: the steps run on tutorial-ci, this runs on h200-pcie5");
        check(
            &mended.replace(" reads x{i}, w{i} writes", " writes"),
            "`forward` (number 1) reads 12.02 MiB that come from the host",
        );
        check(
            &mended.replace("reads x{i}, w{i} writes", "reads x{i} writes"),
            "`forward` (number 1) reads 12.02 MiB",
        );
        check(
            &mended.replace("backward on 0 reads x{i}, loss", "backward on 0 reads loss"),
            "`backward` (number 1) reads 12 MiB",
        );
        check(&mended.replace("    wait    there{i} on 0\n", ""), "not yet: 6 hazards");
        check(&mended.replace("    read    seen{i} expect f32 fill 2\n", "    read    seen{i}\n"), "right: ");
        let unread = mended.replace("repeat i 2\n    read    seen{i} expect f32 fill 2\nend\n", "");
        check(&unread, "not yet: the host looks at 4 KiB that `forward` (number 1) writes, here at 0 B");
        let uncopied = unread.replace("    copy    seen{i} <- loss{i} on 0\n", "");
        check(&uncopied, "not yet: the host looks at 4 KiB that `forward` (number 1) writes, here at 0 B");
        check(
            &mended.replace("fill 2\n    copy", "fill 3\n    copy"),
            "not yet: no hazard, but not the right values\nread seen0",
        );
        check(&mended.replace("reads x{i}, w{i}", "reads x0, w{i}"), "other bytes of the host's than");
        check(
            &mended.replace("copy    seen{i} <- loss{i}", "copy    seen{i} <- loss0"),
            "`forward` (number 2) writes, here at 0 B",
        );
    }
}
