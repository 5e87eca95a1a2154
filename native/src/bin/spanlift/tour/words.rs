//! The tour at the terminal.

use spanlift::text::grouped;
use spanlift::trace::{Engine, Trace};
use spanlift::{Nanos, hazard};

use super::operators::Operators;
use super::story::{
    Condition, Control, Demonstration, Judged, ProfiledRun, STRATEGY_MACHINE, Story, Tested, busy, overtaken,
};
use crate::explain;
use crate::say::{Out, Style, counted};

/// Columns of a bar.
const BAR: i64 = 56;

/// Tells the whole story; `is_all` where nothing follows that ran on a device.
pub(super) fn tell(story: &Story, is_all: bool, out: &mut Out) {
    let machine = &story.machine.name;
    let what = if is_all { "Everything below is" } else { "Parts 1 to 5 are" };
    out.line(&format!("{what} simulated on the machine profile {machine}; no GPU is used."));
    heading(out, "1  When does a copy run beside a kernel?");
    out.line("A copy of 20 MiB and two multiplications, four times: from pageable or pinned");
    out.line(match story.is_by_conditions() {
        true => "memory, on the main stream or on one of its own. They overlap when three things\nhold together, and only then.\n",
        false => "memory, on the main stream or on one of its own. As a rule they overlap when three\nthings hold together, and only then; here not always.\n",
    });
    let end = story.runs.iter().map(|r| r.run.end).max().unwrap_or_default();
    for run in &story.runs {
        profiled(run, end, out);
    }

    heading(out, "2  Sixteen published rows, simulated");
    rows(story, out);

    heading(out, "3  Two ways to read wrong values, and how to mend them");
    for demonstration in &story.demonstrations {
        demonstrated(demonstration, out);
    }
    out.line("Their neighbours read right values every time:\n");
    for control in &story.controls {
        controlled(control, out);
    }

    heading(out, "4  Operators over two devices, and a move that keeps aliasing");
    operators(&story.operators, out);

    heading(out, "5  A stream for each item, or one for each stage?");
    out.line(&format!(
        "Twelve items of 32 MiB in, 600 us of work on each, and out again, on {STRATEGY_MACHINE}:\n"
    ));
    for s in &story.strategies {
        out.line(&format!("  {:<38} {} with {} of device memory", s.title, s.took, s.device_memory));
    }
    if let Some(work) = overtaken(story) {
        out.line(&format!("\n  Where work leaves room for that of others, A with two under way is the faster one from {work} an item on."));
    }
}

fn heading(out: &mut Out, text: &str) {
    let text = out.paint(Style::Strong, text);
    out.line(&format!("\n{text}\n"));
}

fn profiled(run: &ProfiledRun, end: Nanos, out: &mut Out) {
    out.line(&format!("  {}", title(run)));
    out.line(&format!("    copy    {}", bar(&run.run.trace, Engine::ToDevice, end, '█')));
    out.line(&format!("    kernels {}", bar(&run.run.trace, Engine::Compute, end, '▒')));
    let verdict = if run.overlap > Nanos::ZERO {
        out.paint(Style::Good, &format!("overlap {}", run.overlap))
    } else {
        "no overlap".to_owned()
    };
    let conditions: Vec<String> = run.conditions.iter().map(|c| condition(c, out)).collect();
    out.line(&format!("    {}   {verdict}\n", conditions.join("  ")));
}

/// What sets a run apart, in words.
pub(super) fn title(run: &ProfiledRun) -> String {
    let source = if run.pinned { "pinned source" } else { "pageable source" };
    let stream = if run.streamed { "a stream of its own" } else { "the main stream" };
    format!("{source}, {stream}")
}

fn condition(condition: &Condition, out: &Out) -> String {
    let mark = if condition.holds { out.paint(Style::Good, "✓") } else { out.paint(Style::Error, "✗") };
    format!("{mark} {}", condition.says)
}

/// One engine's work from time 0 to `end` as a bar of text.
fn bar(trace: &Trace, engine: Engine, end: Nanos, ink: char) -> String {
    let spans = busy(trace, engine);
    // To the nearest column, so that what begins where another thing ends shares none with it; nothing is too short for one.
    let column = |at: i64| {
        let nearest = (i128::from(at) * i128::from(BAR) + i128::from(end.0) / 2) / i128::from(end.0.max(1));
        i64::try_from(nearest).unwrap_or(BAR)
    };
    let cells = (0..BAR).map(|k| {
        let is_in = |&(a, b): &(i64, i64)| {
            let first = column(a).min(BAR - 1);
            first <= k && k < column(b).max(first + 1)
        };
        if spans.iter().any(is_in) { ink } else { '·' }
    });
    cells.collect()
}

fn rows(story: &Story, out: &mut Out) {
    out.line(&format!(
        "  {:<37}{:>9} {:>9} {:>6} {:>8} {:>5}",
        "row (times in ms)", "published", "simulated", "off, %", "payload", "moved"
    ));
    for row in &story.rows {
        let p = &row.published;
        let simulated = row.simulated.as_millis();
        out.line(&format!(
            "  {:>2}  {:<33} {:>8.3} {simulated:>9.3} {:>+6.2} {:>8} {:>5}",
            p.row,
            p.label,
            p.published_ms,
            row.difference_percent(),
            row.ledger.payload.to_string(),
            row.factor(),
        ));
    }
    out.line("\n  Between the marks. moved: bytes moved for each byte of payload; what is");
    out.line("  staged, or pinned first, is copied once more.");
    profiles(story, out);
    let machine = &story.machine.name;
    out.line(&format!("\nWhat the tutorial concludes from them, as ratios (published, simulated), and whether {machine} agrees:\n"));
    for tested in &story.claims {
        let Some((over, under, published)) = tested.rows else { continue };
        let simulated = tested.outcome.ratio.unwrap_or_default();
        let ratios = format!("{over:>2} / {under:<2}  {published:>5.2}  {simulated:>5.2}");
        conclusion(tested, &ratios, out);
    }
    out.line("\nFurther conclusions, from other programs:\n");
    for tested in story.claims.iter().filter(|t| t.rows.is_none()) {
        let ratio = tested.outcome.ratio.map_or_else(String::new, |r| format!("{r:.2}"));
        conclusion(tested, &format!("{:14}{ratio:>6}", ""), out);
    }
}

fn profiles(story: &Story, out: &mut Out) {
    out.line("\nWhere the host waits for a thousand small tensors, beside the tutorial's two");
    out.line("profiler tables: the copies take as long in both, and a blocking call adds a");
    out.line("wait of its own to each.\n");
    out.line("                                        published              simulated");
    out.line("  row  call                       calls       in all     calls       in all");
    for profile in &story.profiles {
        for (published, simulated) in profile.published.calls.iter().zip(&profile.simulated) {
            out.line(&format!(
                "  {:>3}  {:<24} {:>7} {:>9.3} ms {:>9} {:>9.3} ms",
                profile.published.row,
                published.name,
                grouped(published.count),
                published.total_us / 1e3,
                grouped(simulated.count),
                simulated.total_ns as f64 / 1e6
            ));
        }
    }
}

/// One line or two: the tutorial's words where they hold, else what holds here.
fn conclusion(tested: &Tested, ratios: &str, out: &mut Out) {
    let mark = match tested.outcome.holds {
        true => out.paint(Style::Good, "✓"),
        false => out.paint(Style::May, "✗"),
    };
    let mut lines = wrapped(&tested.outcome.says, 88).into_iter();
    out.line(&format!("  {ratios}  {mark} {}", lines.next().unwrap_or_default()));
    for line in lines {
        out.line(&format!("{:26}{line}", ""));
    }
}

fn demonstrated(demonstration: &Demonstration, out: &mut Out) {
    let title = out.paint(Style::Strong, demonstration.title);
    out.line(&format!("  {title}"));
    wrap(out, "  ", demonstration.says);
    let broken = &demonstration.broken;
    let relation = broken.relation();
    for (found, sentence) in broken.contract.hazards.iter().zip(findings(broken)) {
        let sentence = out.paint(Style::Error, &sentence);
        wrap(out, "    ", &sentence);
        explain::print(&relation, found, out);
    }
    out.line(&format!("    broken: {}", read(&demonstration.broken, out)));
    out.line(&format!("    mended: {}\n", read(&demonstration.mended, out)));
}

fn controlled(control: &Control, out: &mut Out) {
    let (right, all) = control.judged.right();
    let title = out.paint(Style::Strong, control.title);
    let score = out.paint(Style::Good, &format!("right {right} of {all}"));
    out.line(&format!("  {title}: {score}"));
    let verdict = |report: &hazard::Report| report.verdict().name();
    out.line(&format!(
        "    by contract: {}   in typical mode: {}",
        verdict(&control.judged.contract),
        verdict(&control.judged.typical)
    ));
    wrap(out, "    ", control.says);
    out.line("");
}

/// The checker's sentences on a program, by contract.
pub(super) fn findings(judged: &Judged) -> Vec<String> {
    judged.contract.hazards.iter().map(|h| hazard::sentence(&judged.program, h)).collect()
}

/// What a program's telling read found.
fn read(judged: &Judged, out: &Out) -> String {
    match judged.telling_read() {
        Some(reading) => {
            let style = if reading.is_right() { Style::Good } else { Style::Error };
            out.paint(style, &reading_in_words(reading))
        }
        None => "nothing was read".to_owned(),
    }
}

/// `expected 1, read 0: 1,048,576 of 1,048,576 elements wrong`
pub(super) fn reading_in_words(reading: &spanlift::sim::Reading) -> String {
    let n = grouped(reading.n_elements);
    match &reading.first_wrong {
        None => format!("all {n} elements as expected"),
        Some(wrong) => format!(
            "{} of {n} elements wrong: number {} should be {} and was read as {}",
            grouped(reading.n_wrong),
            grouped(wrong.index + 1),
            wrong.expected,
            wrong.read
        ),
    }
}

fn operators(operators: &Operators, out: &mut Out) {
    for way in &operators.ways {
        out.line(&format!("  {:<8} {}", way.name, way.formula));
        out.line(&format!(
            "           {} of {} in all, {}",
            counted(way.transfers.len(), "transfer"),
            way.bytes,
            way.run.end
        ));
    }
    let memory = &operators.memory;
    out.line(&format!("\n  {}", memory.says));
    for line in &memory.lines {
        out.line(&format!("    {line}"));
    }
}

/// Prints text in lines of at most 108 characters, each after `indent`.
fn wrap(out: &mut Out, indent: &str, text: &str) {
    for line in wrapped(text, 108 - indent.len()) {
        out.line(&format!("{indent}{line}"));
    }
}

/// Text in lines of at most `most` characters; a longer word has a line of its own.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > most {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
