//! The tour as one self-contained page: pictures, tables, and viewers that simulate the programs in the page.

use std::fmt::Write as _;

use spanlift::Trace;
use spanlift::explore::Explanation;
use spanlift::hazard::Mode;
use spanlift::text::grouped;
use spanlift::text::signed_percent;
use spanlift_native::claims::Test;
use spanlift_native::programs;
use spanlift_native::tutorial::{self, CHARTS, Chart};
use spanlift_viewer::bars::{BarChart, Cluster, Entry};
use spanlift_viewer::figure::{Note, Panel, PanelOptions};
use spanlift_viewer::memory::MemoryOptions;
use spanlift_viewer::model::findings;
use spanlift_viewer::orders::{self, of_hazard};
use spanlift_viewer::rows::Shown;
use spanlift_viewer::svg::svg;
use spanlift_viewer::text;
use spanlift_viewer::{
    Finding, PageItem, Theme, TimelineOptions, bars_svg, mount_html, move_svg, page_head, panels_svg,
    timeline_svg, viewer_assets_html,
};

use super::operators::{Moved, Way};
use super::story::{Control, Demonstration, Judged, STRATEGY_MACHINE, Story, overtaken};
use super::words;

/// The one word that the page's own style and scripts carry.
const NONCE: &str = "spanlift-tour";

const CSS: &str = include_str!("page.css");

/// The page.
pub(super) fn html(story: &Story) -> String {
    let mut page = page_head("spanlift tour", NONCE);
    let _ = writeln!(page, "<style nonce=\"{NONCE}\">{CSS}</style></head><body><main>");
    opening(story, &mut page);
    overlap(story, &mut page);
    rows(story, &mut page);
    corruption(story, &mut page);
    operators(story, &mut page);
    strategies(story, &mut page);
    page.push_str("</main>");
    page.push_str(&viewer_assets_html(NONCE));
    page.push_str("</body></html>\n");
    page
}

fn opening(story: &Story, page: &mut String) {
    let _ = write!(
        page,
        "<h1>How data moves between a host and its devices</h1>\
         <p class=\"lead\">Everything on this page is computed from small programs: lists of copies, kernels and waits. \
         spanlift says whether a program is safe, how long it takes and why. The machine is simulated (profile \
         <code>{}</code>); nothing here needs a GPU or a network.</p>\
         <nav><a href=\"#overlap\">1 Overlap</a><a href=\"#rows\">2 Sixteen rows</a>\
         <a href=\"#corruption\">3 Wrong values</a><a href=\"#operators\">4 Operators and memory</a>\
         <a href=\"#strategies\">5 Two strategies</a></nav>",
        escape(&story.machine.name)
    );
}

fn overlap(story: &Story, page: &mut String) {
    let overlap = match story.is_by_conditions() {
        true => "Copy",
        false => "As a rule, though not in each of these runs, copy",
    };
    let _ = write!(
        page,
        "<h2 id=\"overlap\">1 When does a copy run beside a kernel?</h2>\
         <p>A copy of 20 MiB to the device, and <code>t3*t3*t3</code> on data that is there already. Four runs differ in two \
         things: whether the source is pinned, and whether the copy has a stream of its own. {overlap} and kernels overlap when \
         three conditions hold together, and only then: the copy engine is free, the copy is on another stream than the kernels, \
         and the source is pinned.</p>",
    );
    let panels: Vec<Panel<'_>> = story
        .runs
        .iter()
        .map(|run| {
            let mut notes: Vec<Note> = run
                .conditions
                .iter()
                .map(|c| Note { holds: Some(c.holds), text: c.says.to_owned() })
                .collect();
            let overlap = if run.overlap.0 > 0 {
                format!("copy and kernels overlap for {}", text::time(run.overlap.0))
            } else {
                "copy and kernels do not overlap".to_owned()
            };
            notes.push(Note { holds: None, text: overlap });
            Panel { title: words::title(run), trace: &run.run.trace, findings: Vec::new(), notes }
        })
        .collect();
    let draw = |theme| {
        let options =
            PanelOptions { title: String::new(), width: 1120.0, columns: 2, theme, shown: Shown::default() };
        panels_svg(&panels, &options)
    };
    picture(page, &draw, "Four timelines of a copy beside two multiplications");
    let held = match story.machine.pageable_direct {
        true => "until the engine has read it",
        false => "while the driver stages it",
    };
    let _ = write!(
        page,
        "<p>The pageable copy holds its host thread {held}, so the kernels are launched late, whatever \
         stream the copy is on. On the main stream a pinned copy returns at once, and the kernels still wait for it: a \
         stream runs one thing after the other.</p>\
         <p>The same four, to look around in: W and S zoom, A and D pan, a click says what a slice is.</p>"
    );
    let items: Vec<PageItem> =
        story.runs.iter().map(|r| item(&words::title(r), r.name, &story.machine_source)).collect();
    page.push_str(&mount_html(&items, "", "The four runs, interactive", 520));
}

fn rows(story: &Story, page: &mut String) {
    let _ = write!(
        page,
        "<h2 id=\"rows\">2 Sixteen published rows, simulated</h2>\
         <p>PyTorch's tutorial on <code>pin_memory()</code> and <code>non_blocking</code> prints sixteen times. Beside each \
         stands the time of a program that does the same on the simulated machine. The profile <code>tutorial-ci</code> was \
         fitted to these rows with nine parameters. Times and bytes are those between the programs' marks.</p>\
         <div class=\"pair\">"
    );
    for chart in &CHARTS {
        let chart = bars(story, chart);
        picture(page, &|theme| bars_svg(&chart, 540.0, &theme), &chart.title);
    }
    page.push_str("</div><div class=\"scroll\"><table><tr><th class=\"n\">row<th>what<th>call<th class=\"n\">published<th class=\"n\">simulated<th class=\"n\">difference<th class=\"n\">payload<th class=\"n\">bytes moved for each</tr>");
    for row in &story.rows {
        let p = &row.published;
        let _ = write!(
            page,
            "<tr><td class=\"n\">{}<td>{}<td><code>{}</code><td class=\"n\">{:.4} ms<td class=\"n\">{:.4} ms<td class=\"n\">{:+.2} %\
             <td class=\"n\">{}<td class=\"n\">{}</tr>",
            p.row,
            escape(&p.label),
            escape(&p.call),
            p.published_ms,
            row.simulated.as_millis(),
            row.difference_percent(),
            row.ledger.payload,
            row.factor()
        );
    }
    page.push_str("</table></div>");
    profiles(story, page);
    let _ = write!(
        page,
        "<h3>What follows from them</h3><p>The tutorial's conclusions, where {} agrees; what holds there instead, \
         where it does not.</p><div class=\"scroll\"><table><tr><th>time of<th>over time of<th class=\"n\">published\
         <th class=\"n\">simulated<th><th>so</tr>",
        escape(&story.machine.name)
    );
    for tested in &story.claims {
        let label = |row: usize| format!("{row} {}", escape(&story.rows[row - 1].published.label));
        let (over, under, published) = match tested.rows {
            Some((over, under, ratio)) => (label(over), label(under), format!("{ratio:.2}")),
            None => {
                let (over, under) = match &tested.claim.test {
                    Test::Ratio { over, under, .. } => (over.as_str(), under.as_str()),
                    Test::Overlap { program, .. } | Test::Verdict { program, .. } => (program.as_str(), ""),
                };
                (escape(over), escape(under), String::new())
            }
        };
        let simulated = tested.outcome.ratio.map_or_else(String::new, |r| format!("{r:.2}"));
        let mark = if tested.outcome.holds { "✓" } else { "✗" };
        let _ = write!(
            page,
            "<tr><td>{over}<td>{under}<td class=\"n\">{published}<td class=\"n\">{simulated}<td>{mark}<td>{}</tr>",
            escape(&tested.outcome.says)
        );
    }
    let _ = write!(
        page,
        "</table></div><p>Published figures: {}.</p><p>The sixteen programs, simulated here:</p>",
        escape(&tutorial::source())
    );
    let items: Vec<PageItem> = story
        .rows
        .iter()
        .zip(programs::ROWS)
        .map(|(row, shipped)| {
            let title = format!("{} {}", row.published.row, row.published.label);
            item(&title, shipped.name, &story.machine_source)
        })
        .collect();
    page.push_str(&mount_html(&items, "", "The sixteen rows, interactive", 520));
}

fn profiles(story: &Story, page: &mut String) {
    page.push_str(
        "<h3>Where the host waits for a thousand small tensors</h3><p>The tutorial profiles rows 5 and 6. The copies take as \
         long in both, and a blocking call adds a wait of its own to each.</p><div class=\"scroll\"><table><tr>\
         <th class=\"n\">row<th>call<th class=\"n\">published calls<th class=\"n\">in all<th class=\"n\">simulated calls\
         <th class=\"n\">in all</tr>",
    );
    for profile in &story.profiles {
        for (published, simulated) in profile.published.calls.iter().zip(&profile.simulated) {
            let _ = write!(
                page,
                "<tr><td class=\"n\">{}<td><code>{}</code><td class=\"n\">{}<td class=\"n\">{:.3} ms<td class=\"n\">{}\
                 <td class=\"n\">{:.3} ms</tr>",
                profile.published.row,
                escape(&published.name),
                grouped(published.count),
                published.total_us / 1e3,
                grouped(simulated.count),
                simulated.total_ns as f64 / 1e6
            );
        }
    }
    page.push_str("</table></div>");
}

fn bars(story: &Story, chart: &Chart) -> BarChart {
    let entry = |&(label, row): &(&str, usize)| {
        let row = &story.rows[row - 1];
        Entry {
            label: label.to_owned(),
            values: vec![row.published.published_ms, row.simulated.as_millis()],
            note: signed_percent(row.difference_percent() / 100.0),
        }
    };
    let cluster = |&(label, entries): &(&str, &[(&str, usize)])| Cluster {
        label: label.to_owned(),
        entries: entries.iter().map(entry).collect(),
    };
    BarChart {
        title: chart.title.to_owned(),
        unit: "ms".to_owned(),
        series: vec!["published".to_owned(), "simulated".to_owned()],
        clusters: chart.groups.iter().map(cluster).collect(),
        is_log: false,
    }
}

fn corruption(story: &Story, page: &mut String) {
    page.push_str(
        "<h2 id=\"corruption\">3 Two ways to read wrong values, and how to mend them</h2>\
         <p>These programs declare what their buffers hold, so the simulator moves real bytes at the simulated times. What a \
         program reads is what was there at that moment.</p>",
    );
    for demonstration in &story.demonstrations {
        demonstrated(demonstration, &story.machine_source, page);
    }
    page.push_str("<h3>Their neighbours read right values every time</h3><div class=\"pair\">");
    for control in &story.controls {
        controlled(control, page);
    }
    page.push_str("</div>\n");
}

fn demonstrated(demonstration: &Demonstration, machine: &str, page: &mut String) {
    let _ = write!(
        page,
        "<h3>{}</h3><p>{}</p><div class=\"pair\">",
        escape(demonstration.title),
        escape(demonstration.says)
    );
    judged(&demonstration.broken, "bad", "As written", page);
    judged(&demonstration.mended, "good", "Mended", page);
    page.push_str("</div>");
    orders(&demonstration.broken, page);
    let still =
        timeline(&demonstration.broken.run.trace, &findings(&demonstration.broken.program, Mode::Contract));
    let items = [
        PageItem::source("as written", &*demonstration.broken.source, machine),
        PageItem::source("mended", &*demonstration.mended.source, machine),
    ];
    page.push_str(&mount_html(&items, &still, demonstration.title, 520));
}

/// Each hazard in the orders that show it, a column for each step.
fn orders(judged: &Judged, page: &mut String) {
    let relation = judged.relation();
    for hazard in &judged.contract.hazards {
        let orders = of_hazard(&relation, hazard).unwrap_or_default();
        let names: Vec<String> =
            orders.iter().map(|order| format!("{}: {}", order.title, order.seen)).collect();
        if names.is_empty() {
            continue;
        }
        page.push_str("<p>The program allows both orders of the two; a column is a step, not a time:</p>");
        let draw =
            |theme: Theme| svg(&orders::scene(&orders, 1120.0, &theme), "two orders", &names.join("; "));
        picture(page, &draw, &names.join("; "));
    }
}

fn judged(judged: &Judged, class: &str, title: &str, page: &mut String) {
    let read = judged.telling_read().map(words::reading_in_words).unwrap_or_default();
    let _ = write!(
        page,
        "<div class=\"card {class}\"><h3>{title}</h3><p class=\"verdict\">{}</p><pre>{}</pre>",
        escape(&read),
        escape(judged.listing())
    );
    let findings = words::findings(judged);
    if findings.is_empty() {
        page.push_str("<p class=\"finding\">The checker finds nothing, by contract and in typical mode.</p>");
    }
    let relation = judged.relation();
    for (hazard, finding) in judged.contract.hazards.iter().zip(findings) {
        let _ = write!(page, "<p class=\"finding\">{}</p><ul class=\"where\">", code(&escape(&finding)));
        for line in Explanation::of(&relation, hazard).fix_lines(&judged.program) {
            let _ = write!(page, "<li>{}: <code>{}</code>", escape(&line.place), escape(&line.text));
        }
        page.push_str("</ul>");
    }
    page.push_str("</div>");
}

fn controlled(control: &Control, page: &mut String) {
    let (right, of) = control.judged.right();
    let _ = write!(
        page,
        "<div class=\"card good\"><h3>{}</h3><p class=\"verdict\">right {right} of {of}</p>\
         <p class=\"finding\">by contract: <b>{}</b>, in typical mode: <b>{}</b></p><p>{}</p><pre>{}</pre></div>",
        escape(control.title),
        control.judged.contract.verdict().name(),
        control.judged.typical.verdict().name(),
        escape(control.says),
        escape(control.judged.listing())
    );
}

fn operators(story: &Story, page: &mut String) {
    page.push_str(
        "<h2 id=\"operators\">4 Operators over two devices, and a move that keeps aliasing</h2>\
         <p>A chain of operators says where its data is. Transfers stand in it as operators; a chain that mixes devices \
         without one is refused when it is built. Planned, it is a program like any other. Its adjoint goes the same way \
         back; in its normal, what goes up and comes straight down again is left out.</p>",
    );
    for way in &story.operators.ways {
        planned(way, page);
    }
    let items: Vec<PageItem> = story
        .operators
        .ways
        .iter()
        .map(|w| PageItem::source(w.name, w.program.to_text(), &story.machine_source))
        .collect();
    let still = timeline(&story.operators.ways[0].run.trace, &[]);
    page.push_str(&mount_html(&items, &still, "The chain's programs, interactive", 640));
    moved(&story.operators.memory, page);
}

/// A module whose weights are views of one buffer, before and after a move, in both ways.
fn moved(memory: &Moved, page: &mut String) {
    let _ = write!(
        page,
        "<h3>A module whose weights are views of one buffer</h3><p>{}</p>\
         <div class=\"scroll\"><table><tr><th>move<th class=\"n\">allocations<th class=\"n\">allocated<th class=\"n\">copied<th class=\"n\">pairs that still share bytes</tr>",
        escape(&memory.says)
    );
    for by in &memory.ways {
        let _ = write!(
            page,
            "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{} of {}</tr>",
            by.name, by.n_allocations, by.allocated, by.copied, by.n_shared.1, by.n_shared.0
        );
    }
    page.push_str(
        "</table></div><p>The embedding and the head are one matrix, read by rows and by columns; queries, keys and values are rows \
         of one projection. A move that keeps views copies each of their bytes once, and no byte that no tensor has:</p>",
    );
    let draw = |theme| move_svg(&memory.aware, &MemoryOptions { title: String::new(), width: 1120.0, theme });
    picture(page, &draw, "The memory map before and after the move that keeps views");
    page.push_str(
        "<p>One tensor at a time, each gets a block of its own with everything between its first and its last byte. The \
         head is no longer tied: training would change one copy and not the other.</p>",
    );
    let draw = |theme| move_svg(&memory.naive, &MemoryOptions { title: String::new(), width: 1120.0, theme });
    picture(page, &draw, "The memory map before and after a move of each tensor by itself");
    page.push_str("<p>Both, to look around in: a click on a tensor says with whom it shares bytes, W and S zoom along them, M shows the other way.</p>");
    let plan = &memory.aware;
    let items = [PageItem::layout("a module", &plan.before, Some(plan.to), plan.kind)];
    page.push_str(&mount_html(&items, "", "The move of the module, interactive", 700));
}

fn planned(way: &Way, page: &mut String) {
    let _ = write!(
        page,
        "<h3>{}</h3><pre class=\"formula\">{}</pre><ul class=\"where\">",
        escape(way.name),
        escape(&way.formula)
    );
    for t in &way.transfers {
        let route = format!("{} to {}: {} on stream {}, since {}", t.from, t.to, t.bytes, t.stream, t.why);
        let _ = write!(page, "<li>{}</li>", code(&escape(&route)));
    }
    let _ = write!(page, "</ul><p>Simulated: {}.</p>", text::time(way.run.end.0));
}

/// What the forum asks: a stream for each item, or one for each stage?
fn strategies(story: &Story, page: &mut String) {
    let _ = write!(
        page,
        "<h2 id=\"strategies\">5 A stream for each item, or one for each stage?</h2>\
         <p>Twelve items of 32 MiB go to the device, are worked on for 600 µs and come back. Strategy A gives each item under \
         way a stream; strategy B has a stream for each stage, and events between them. With memory for two items, which the \
         others take in turn, only B keeps the link busy both ways: an input's slot is free again as soon as it was worked on, \
         while a stream of A has to wait for the copy back (on <code>{STRATEGY_MACHINE}</code>):</p>\
         <div class=\"scroll\"><table><tr><th>strategy<th class=\"n\">time<th class=\"n\">device memory</tr>"
    );
    for s in &story.strategies {
        let _ = write!(
            page,
            "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}</tr>",
            escape(s.title),
            s.took,
            s.device_memory
        );
    }
    page.push_str("</table></div>");
    if let Some(work) = overtaken(story) {
        let _ = write!(
            page,
            "<p>Where the work leaves room for that of other items, A with two under way is the faster one from {work} an \
             item on, about as long as both copies take.</p>"
        );
    }
    let items: Vec<PageItem> =
        story.strategies.iter().map(|s| item(s.title, s.name, STRATEGY_MACHINE)).collect();
    page.push_str(&mount_html(&items, "", "The strategies, interactive", 640));
}

/// A shipped program as its author wrote it, for a viewer.
fn item(title: &str, name: &str, machine: &str) -> PageItem {
    PageItem::source(title, programs::named(name).map_or("", |s| s.text), machine)
}

fn timeline(trace: &Trace, findings: &[Finding]) -> String {
    let options = TimelineOptions {
        title: Some(String::new()),
        width: 1120.0,
        findings: findings.to_vec(),
        ..TimelineOptions::default()
    };
    timeline_svg(trace, &options)
}

/// A figure that follows the reader's colour scheme.
fn picture(page: &mut String, draw: &dyn Fn(Theme) -> String, alt: &str) {
    let _ = write!(
        page,
        "<figure><picture><source media=\"(prefers-color-scheme: dark)\" srcset='data:image/svg+xml,{}'>\
         <img alt=\"{}\" src='data:image/svg+xml,{}'></picture></figure>",
        // Blanks end an address in a `srcset`.
        in_address(&draw(on_card(Theme::DARK))).replace(' ', "%20"),
        escape(alt),
        in_address(&draw(on_card(Theme::LIGHT)))
    );
}

/// A picture's text within an address in single quotes: three quarters of what base64 would take.
fn in_address(svg: &str) -> String {
    let mut text = String::with_capacity(svg.len() + svg.len() / 16);
    for c in svg.chars() {
        match c {
            '%' => text.push_str("%25"),
            '#' => text.push_str("%23"),
            '&' => text.push_str("%26"),
            '\'' => text.push_str("%27"),
            // These would be taken out; between words they are as good as a blank.
            '\n' | '\t' | '\r' => text.push(' '),
            c => text.push(c),
        }
    }
    // The name of SVG itself, the one address in a picture: a page that names none is seen to ask nobody.
    text.replace("http://", "http%3A//")
}

/// The theme of a picture on a card, whose ground it shares.
fn on_card(theme: Theme) -> Theme {
    Theme { ground: theme.panel, ..theme }
}

/// What stands between backticks as code.
fn code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(k, part)| if k % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() }).collect()
}

/// Text as HTML shows it.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            c => html.push(c),
        }
    }
    html
}
