//! Memory layouts, machine files and rows of measurements.

use spanlift::advise;
use spanlift::machine::Machine;
use spanlift::memory::{DEFAULT_LIMIT, Layout, LayoutError, cuda, sample};

use crate::kit::{fuzz, mutated};

const WORDS: &[&[u8]] = &[
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"\"\"",
    b"NaN",
    b"\\u0000",
    "\u{feff}".as_bytes(),
    b"\"offset\": 1,",
    b"\"shape\": [2, 3],",
    b"\"shape\": [],",
    b"\"strides\": [-1],",
    b"\"strides\": [0, 0],",
    b"\"dtype\": \"f64\",",
    b"\"dtype\": \"u8\",",
    b"\"bytes\": 1152921504606846976,",
    b"\"device\": \"cuda:0\",",
    b"\"storage\": \"w0\",",
    b"\"tensors\": [],",
    b"\"storages\": [],",
    b"\"source\": \"assumption\",",
    b"\"extends\": \"tutorial-ci\",",
    b"\"value\": -1,",
    b"1e400",
    b"0.1",
];

/// What is read is reported and planned, and is the same when it is written and read again.
fn judge_layout(bytes: &[u8]) -> Result<bool, String> {
    let layout = match Layout::from_json(bytes) {
        Err(LayoutError::Problems(problems)) if problems.0.is_empty() => return Err("no problem".to_owned()),
        Err(e) if e.to_string().is_empty() => return Err("no words".to_owned()),
        Err(_) => return Ok(false),
        Ok(layout) => layout,
    };
    let written = layout.to_json();
    let again =
        Layout::from_json(written.as_bytes()).map_err(|e| format!("written, it cannot be read: {e}"))?;
    if again.to_json() != written {
        return Err("another file when it is written again".to_owned());
    }
    // A budget may end before an answer is found, which is one too.
    let plan = layout.move_to(cuda(0)).ok();
    if let Ok(report) = layout.report() {
        report.to_json(plan.as_ref());
    }
    let _ = layout.tensors().iter().zip(layout.tensors().iter().skip(1)).try_for_each(|(a, b)| {
        let [a, b] = [a, b].map(|tensor| tensor.view().span());
        a.ok().zip(b.ok()).map(|(a, b)| _ = a.overlaps(&b, DEFAULT_LIMIT))
    });
    Ok(true)
}

#[test]
fn damaged_layouts_get_an_answer() {
    let mut corpus: Vec<Vec<u8>> = vec![
        br#"{"storages": [{"id": "w0", "bytes": 4096, "device": "cpu"}, {"id": "w1", "bytes": 64, "device": "cuda:0"}],
 "tensors": [{"name": "a", "storage": "w0", "dtype": "f32", "shape": [4, 8], "strides": [8, 1], "offset": 0},
  {"name": "b", "storage": "w0", "dtype": "f32", "shape": [8, 4], "strides": [1, 8], "offset": 16},
  {"name": "c", "storage": "w1", "dtype": "u8", "shape": [], "strides": [], "offset": 3}]}"#
            .to_vec(),
    ];
    corpus.extend(sample::matrices(2).map(|layout| layout.to_json().into_bytes()));
    assert!(corpus.iter().all(|file| judge_layout(file) == Ok(true)), "good layouts");
    fuzz("layouts", 3000, |r| mutated(r, &corpus, WORDS, 1 << 14), |bytes, _| judge_layout(bytes));
}

fn judge_machine(bytes: &[u8]) -> Result<bool, String> {
    let machine = match Machine::from_json(bytes) {
        Err(e) if e.to_string().is_empty() => return Err("no words".to_owned()),
        Err(_) => return Ok(false),
        Ok(machine) => machine,
    };
    match Machine::all_from_json(bytes) {
        Ok(all) if all.iter().any(|other| other.to_json() == machine.to_json()) => {}
        other => return Err(format!("one machine, but among all {other:?}")),
    }
    let written = machine.to_json();
    let again =
        Machine::from_json(written.as_bytes()).map_err(|e| format!("written, it cannot be read: {e}"))?;
    if again.to_json() != written {
        return Err("another file when it is written again".to_owned());
    }
    Ok(true)
}

#[test]
fn damaged_machines_get_an_answer() {
    let named = ["tutorial-ci", "h200-pcie5"];
    let corpus: Vec<Vec<u8>> =
        named.iter().filter_map(|name| Some(Machine::builtin(name)?.to_json().into_bytes())).collect();
    assert_eq!(corpus.len(), named.len());
    assert!(corpus.iter().all(|file| judge_machine(file) == Ok(true)), "good machines");
    fuzz("machines", 3000, |r| mutated(r, &corpus, WORDS, 1 << 16), |bytes, _| judge_machine(bytes));
}

fn judge_rows(bytes: &[u8]) -> Result<bool, String> {
    let rows = match advise::rows(bytes) {
        Err(e) if e.to_string().is_empty() => return Err("no words".to_owned()),
        Err(_) => return Ok(false),
        Ok(rows) => rows,
    };
    // Whatever is read is the program of somebody's measurement.
    for row in rows.iter().take(20).filter(|row| row.tensors <= 1000) {
        row.program().check().map_err(|e| format!("{}: {e}", row.id))?;
    }
    Ok(true)
}

#[test]
fn damaged_rows_get_an_answer() {
    let words = [
        WORDS,
        &[
            b"\"pinned\": true,",
            b"\"pin_call\": true,",
            b"\"copy\": false,",
            b"\"tensordict\": true,",
            b"\"pin_threads\": 4,",
            b"\"tensors\": 0,",
            b"\"bytes_each\": 1099511627776,",
            b"\"schema_version\": 2,",
        ],
    ]
    .concat();
    let corpus = [
        spanlift_native::tutorial::TABLE.as_bytes().to_vec(),
        br#"{"rows": [{"id": "one", "tensors": 10, "bytes_each": 4000, "measured_ms": 0.46, "pin_call": true, "tensordict": true, "pin_threads": 2},
 {"tensors": 1, "bytes_each": 4000000, "published_ms": 1, "pin_call": true, "non_blocking": true}]}"#
            .to_vec(),
    ];
    for file in &corpus {
        assert_eq!(judge_rows(file), Ok(true), "{}", file.escape_ascii());
    }
    fuzz("rows", 2000, |r| mutated(r, &corpus, &words, 1 << 14), |bytes, _| judge_rows(bytes));
}
