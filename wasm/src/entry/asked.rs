//! What the page asks of the second part of the module. Inlined where it is called, each of these would be of the first.

use serde_json::{Value, json};
use spanlift::advise::trace::{
    NotAChange, RecordedChange, Recording, findings_of, memory_findings, skeleton,
};
use spanlift::advise::whatif::{WhatIf, compare, what_if};
use spanlift::hazard::{self, Mode, Terms};
use spanlift::machine::Machine;
use spanlift::text::grouped;
use spanlift::trace::Source;
use spanlift::{Program, sim};

use super::Viewer;
use super::handle::{is_recorded, percent};
use crate::app::App;
use crate::memory::against;
use crate::model::machine_of;
use crate::pack::{Content, PageItem};
use crate::text;

/// A program of the range of a recorded trace that is chosen.
#[inline(never)]
pub(super) fn cut_out(viewer: &Viewer) -> Result<PageItem, String> {
    let app = viewer.time().ok_or("no trace is shown")?;
    let (from, to) = app.range().ok_or("no range is chosen")?;
    let made = skeleton(&app.model.trace, from, to).map_err(|e| e.to_string())?;
    Ok(PageItem::source(format!("range of {}", app.model.name), made.to_text(), ""))
}

/// What could be better in a recorded trace or a snapshot, as JSON.
#[inline(never)]
pub(super) fn advised(viewer: &mut Viewer) -> Result<String, String> {
    let snapshot = viewer.memory_mut().and_then(|app| app.snapshot());
    let told = if let Some(snapshot) = snapshot {
        let findings = memory_findings(snapshot);
        let findings = findings.iter().map(|f| {
            let places = f.places.iter().map(|p| json!([text::clean(&p.maker), grouped(p.count), p.size()]));
            json!({
                "title": text::clean(&f.title), "wins": f.size(), "change": f.change,
                "places": places.collect::<Vec<_>>(), "events": f.events.iter().map(|(device, at)| [at, device]).collect::<Vec<_>>(),
            })
        });
        json!({"findings": findings.collect::<Vec<_>>()})
    } else {
        let app = viewer.time().ok_or("nothing that was recorded is shown")?;
        let found = findings_of(&app.model.trace);
        let findings = found.findings.iter().map(|f| {
            let places = f.places.iter().map(|p| json!([text::clean(&p.maker), grouped(p.count), p.cost()]));
            json!({
                "title": text::clean(&f.title), "wins": f.won(), "why": text::clean(&f.why), "change": f.change,
                "places": places.collect::<Vec<_>>(), "slices": f.events,
            })
        });
        json!({
            "findings": findings.collect::<Vec<_>>(), "error": found.replay.map(|replay| percent(replay.error)),
            "missing": found.missing.iter().map(|m| format!("{}; to record it: {}", m.what, m.record)).collect::<Vec<_>>(),
        })
    };
    Ok(text::unbroken(&told.to_string()))
}

/// What sets two snapshots apart, as JSON.
#[inline(never)]
pub(super) fn set_apart(a: &mut Viewer, b: &mut Viewer) -> Option<String> {
    let told = against::compare(a.memory_mut()?, b.memory_mut()?)?;
    Some(text::unbroken(&json!({"rows": told.rows, "only": told.only}).to_string()))
}

/// The program that is shown, changed: the times as JSON, and an item that shows it.
#[inline(never)]
pub(super) fn changed(viewer: &Viewer, changes: &str) -> Result<(Value, PageItem), String> {
    let words = |e: &dyn std::fmt::Display| e.to_string();
    let app = viewer.time().ok_or("no program is shown")?;
    let lines = changes.lines().map(str::trim).filter(|line| !line.is_empty());
    if is_recorded(app) {
        return recorded(app, lines);
    }
    let program = app.model.trace.program.as_ref().ok_or("without a program nothing can be changed")?;
    let machine = match (&viewer.items[viewer.item].content, &app.model.trace.source) {
        (Content::Program { machine, .. }, _) => machine.as_str(),
        (_, Source::Simulated { machine }) => machine.as_str(),
        _ => "",
    };
    let machine = machine_of(program, machine)?;
    let list = lines.map(str::parse::<WhatIf>).collect::<Result<Vec<_>, _>>().map_err(|e| words(&e))?;
    let made = what_if(program, &machine, &list).map_err(|e| words(&e))?;
    let before = sim::run(program, &machine).map_err(|e| words(&e))?;
    let after = sim::run(&made.program, &made.machine).map_err(|e| words(&e))?;
    let verdict = |program: &Program, machine: &Machine| {
        hazard::check(program, Terms::of(Mode::Contract, machine))
            .map_or("", |report| report.verdict().name())
    };
    let compared = compare(&before, &after, &made.from);
    let saved = compared.saved().0;
    let told = json!({
        "before": text::time(before.end.0), "after": text::time(after.end.0),
        "saved": text::time(saved.saturating_abs()), "sooner": saved >= 0, "same": saved == 0,
        "factor": if after.end.0 > 0 { before.end.0 as f64 / after.end.0 as f64 } else { 1.0 },
        "verdicts": [verdict(program, &machine), verdict(&made.program, &made.machine)],
    });
    let name = format!("what if {}", changes.lines().collect::<Vec<_>>().join(", "));
    Ok((told, PageItem::program(name, &made.program, made.machine.to_json())))
}

/// A recorded trace run again with changes: the error of the model and the times as JSON, and an item that shows them.
fn recorded<'l>(app: &App, lines: impl Iterator<Item = &'l str>) -> Result<(Value, PageItem), String> {
    let recording = Recording::of(&app.model.trace).ok_or("no operation of this trace has its call")?;
    let list: Vec<RecordedChange> =
        lines.map(str::parse).collect::<Result<_, NotAChange>>().map_err(|e| e.to_string())?;
    let error = recording.error();
    let made = recording.what_if(&list);
    // What a change saves or loses means little where the model is further from the recorded time than that.
    let off = error.replayed_ns.abs_diff(error.recorded_ns);
    let told = json!({
        "doubtful": made.saved_ns.unsigned_abs() < off, "recorded": text::time(error.recorded_ns), "error": percent(error.error),
        "before": text::time(error.replayed_ns), "after": text::time(made.length_ns),
        "saved": text::time(made.saved_ns.saturating_abs()), "sooner": made.saved_ns >= 0, "same": made.saved_ns == 0,
        "factor": if made.length_ns > 0 { error.replayed_ns as f64 / made.length_ns as f64 } else { 1.0 },
    });
    Ok((told, PageItem::trace("what if", &made.trace)))
}
