//! The tour as one JSON object, for programs that compare.

use serde_json::{Value, json};
use spanlift::explore;
use spanlift::program::{Contents, Op};
use spanlift::sim::Reading;

use super::story::{Judged, Story};
use crate::ledger;

/// `{"rows": [...], "demonstrations": [...], "controls": [...]}` and what belongs to them.
pub(super) fn object(story: &Story) -> Value {
    let rows: Vec<Value> = story
        .rows
        .iter()
        .map(|row| {
            json!({
                "id": row.published.id, "tutorial_row": row.published.row,
                "published_ms": row.published.published_ms, "simulated_ms": row.simulated.as_millis(),
                "ledger": ledger::object(&row.ledger),
            })
        })
        .collect();
    let runs: Vec<Value> = story
        .runs
        .iter()
        .map(|run| {
            let [engine, stream, pinned] = &run.conditions;
            json!({
                "id": run.name, "streamed": run.streamed, "pinned": run.pinned, "overlap_ns": run.overlap.0,
                "free_copy_engine": engine.holds, "separate_stream": stream.holds, "pinned_source": pinned.holds,
            })
        })
        .collect();
    let host_calls: Vec<Value> = story
        .profiles
        .iter()
        .flat_map(|profile| {
            profile.published.calls.iter().zip(&profile.simulated).map(|(published, simulated)| {
                json!({
                    "tutorial_row": profile.published.row, "name": published.name,
                    "published_count": published.count, "published_ms": published.total_us / 1e3,
                    "simulated_count": simulated.count, "simulated_ms": simulated.total_ns as f64 / 1e6,
                })
            })
        })
        .collect();
    let demonstrations: Vec<Value> = story
        .demonstrations
        .iter()
        .map(|d| {
            let (expected, read) = values(&d.broken);
            let (_, mended_read) = values(&d.mended);
            json!({
                "id": d.id, "expected": expected, "read": read, "hazards": hazards(&d.broken),
                "mended_read": mended_read, "mended_hazards": hazards(&d.mended),
            })
        })
        .collect();
    let controls: Vec<Value> = story
        .controls
        .iter()
        .map(|c| {
            let (right, of) = c.judged.right();
            json!({
                "id": c.id, "n_right": right, "n_reads": of,
                "contract": c.judged.contract.verdict().name(), "typical": c.judged.typical.verdict().name(),
            })
        })
        .collect();
    let claims: Vec<Value> = story
        .claims
        .iter()
        .map(|t| json!({"id": t.claim.id, "holds": t.outcome.holds, "says": t.outcome.says, "ratio": t.outcome.ratio}))
        .collect();
    json!({
        "machine": story.machine.name, "claims": claims, "rows": rows, "runs": runs, "demonstrations": demonstrations,
        "controls": controls, "host_calls": host_calls,
    })
}

/// What the telling read should have found and what it found: at the first wrong element, else at the first.
fn values(judged: &Judged) -> (Value, Value) {
    let number = |text: &str| text.parse::<f64>().map_or_else(|_| json!(text), |n| json!(n));
    match judged.telling_read() {
        Some(Reading { first_wrong: Some(wrong), .. }) => (number(&wrong.expected), number(&wrong.read)),
        Some(reading) => {
            let first = expected_first(judged, reading.command);
            (first.clone(), first)
        }
        None => (Value::Null, Value::Null),
    }
}

/// The first element that a read expects.
fn expected_first(judged: &Judged, command: usize) -> Value {
    match &judged.program.commands()[command].op {
        Op::HostRead { expect: Some(Contents::Fill { value, .. }), .. } => json!(value),
        Op::HostRead { expect: Some(Contents::Ramp { start, .. }), .. } => json!(start),
        _ => Value::Null,
    }
}

/// The checker's hazards in the form of its own report, explained.
fn hazards(judged: &Judged) -> Value {
    let report = explore::explained_json(&judged.relation(), &judged.contract);
    let report: Value = serde_json::from_str(&report).unwrap_or_default();
    report.get("hazards").cloned().unwrap_or_else(|| json!([]))
}
