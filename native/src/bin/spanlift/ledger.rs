//! Bytes asked for and bytes moved, as every report tells them.

use serde_json::{Value, json};
use spanlift::Bytes;
use spanlift::sim::Ledger;

use crate::run;
use crate::say::{Out, Style};

/// As JSON: `factor` is null where nothing is asked for.
pub(crate) fn object(ledger: &Ledger) -> Value {
    let mut object = json!({
        "payload_bytes": ledger.payload, "moved_bytes": ledger.moved(), "factor": ledger.factor(),
    });
    for (name, bytes) in ledger.hops() {
        object[format!("{name}_bytes")] = json!(bytes);
    }
    object
}

/// In lines; nothing where nothing is moved.
pub(crate) fn text(ledger: &Ledger, out: &mut Out) {
    if ledger.moved() == Bytes(0) {
        return;
    }
    run::heading(out, "bytes moved");
    let row = |name: &str, bytes: Bytes| format!("  {name:<28}  {:>10}", bytes.to_string());
    out.line(&row("payload", ledger.payload));
    for (name, bytes) in ledger.hops() {
        if bytes != Bytes(0) {
            out.line(&row(in_words(name), bytes));
        }
    }
    let factor = match ledger.factor() {
        Some(factor) => format!("  {factor:.2} for each byte of payload"),
        None => String::new(),
    };
    let sum = row("in all", ledger.moved());
    out.line(&format!("{}{factor}", out.paint(Style::Strong, &sum)));
}

fn in_words(hop: &str) -> &str {
    match hop {
        "within_host" => "copied within the host",
        "staging" => "staged by the driver",
        "to_device" => "to a device",
        "to_host" => "to the host",
        "peer" => "between devices",
        "within_device" => "copied within a device",
        other => other,
    }
}
