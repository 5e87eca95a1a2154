//! The file contract of `spanlift memory` beside a second implementation of it, by sets of bytes, in Python.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spanlift::memory::{Layout, LayoutError};

const LAYOUTS: &str = "400";
const SEED: &str = "1";

/// Runs the reference with these arguments and standard input.
fn reference(python: &std::ffi::OsStr, args: &[&str], input: Vec<u8>) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/memory/reference.py");
    let mut command = Command::new(python);
    command.arg(script).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let mut stdin = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A reference that ends early says why in its own way.
            let _ = stdin.write_all(&input);
        });
        child.wait_with_output().expect("the reference ends")
    });
    String::from_utf8(output.stdout).expect("the reference prints text")
}

/// What the library says of a layout: the answer, or a line for each problem.
fn answered(case: &Value) -> Value {
    let mut case = case.clone();
    let text = case["layout"].as_str().expect("text");
    match Layout::from_json(text.as_bytes()) {
        Ok(layout) => {
            let to = case["to"].as_str().map(|to| to.parse().expect("a device"));
            let plan = to.map(|to| layout.move_to(to).expect("decided"));
            case["answer"] = layout.report().expect("decided").to_json(plan.as_ref()).into();
        }
        Err(LayoutError::Problems(problems)) => {
            case["problems"] = problems.0.iter().map(ToString::to_string).collect();
        }
        Err(e) => panic!("{e}: {text}"),
    }
    case
}

/// The same with something wrong in it.
fn spoiled(k: usize, case: &Value) -> Option<Value> {
    let mut case = case.clone();
    if let Some(lines) = case["problems"].as_array_mut() {
        lines.pop();
        return Some(case);
    }
    let mut answer: Value = serde_json::from_str(case["answer"].as_str()?).expect("JSON");
    match k % 6 {
        0 => answer["move"]["bytes_copied"] = (answer["move"]["bytes_copied"].as_u64()? + 1).into(),
        1 => _ = answer["overlaps"].as_array_mut()?.pop()?,
        2 => {
            let device = answer["devices"].as_object_mut()?.values_mut().next()?;
            device["unique_bytes"] = (device["unique_bytes"].as_u64()? + 1).into();
        }
        3 => answer["move"]["allocations"]
            .as_array_mut()?
            .push(json!({"storage": "w0", "start": 0, "bytes": 1})),
        4 => {
            let placed = answer["move"]["tensors"].as_object_mut()?.values_mut().next()?;
            placed["offset"] = (placed["offset"].as_i64()? + 1).into();
        }
        _ => {
            let tensor = answer["tensors"].as_object_mut()?.values_mut().next()?;
            tensor["span"] = if tensor["span"].is_null() { json!([0, 0]) } else { Value::Null };
        }
    }
    case["answer"] = answer.to_string().into();
    Some(case)
}

fn lines(cases: &[Value]) -> Vec<u8> {
    cases.iter().flat_map(|case| format!("{case}\n").into_bytes()).collect()
}

#[test]
fn a_reference_by_sets_of_bytes_accepts_every_answer() {
    let Some(python) = std::env::var_os("SPANLIFT_PYTHON") else {
        eprintln!("skipped: SPANLIFT_PYTHON names no Python");
        return;
    };
    let made = reference(&python, &["make", LAYOUTS, SEED], Vec::new());
    let cases: Vec<Value> =
        made.lines().map(|line| answered(&serde_json::from_str(line).expect("a layout"))).collect();
    assert_eq!(cases.len().to_string(), LAYOUTS);
    let refused = cases.iter().filter(|case| case["problems"].is_array()).count();
    assert!((40..200).contains(&refused), "{refused} of {LAYOUTS} are refused: the cases are one-sided");
    let said = reference(&python, &["check"], lines(&cases));
    let last: Value =
        said.lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("a summary");
    assert_eq!(last, json!({"checked": cases.len(), "refused": refused, "wrong": 0}), "{said}");
    // The reference must see what is wrong, wherever something is made so.
    let planted: Vec<Value> = cases.iter().enumerate().filter_map(|(k, case)| spoiled(k, case)).collect();
    assert!(planted.len() > 150, "only {} planted", planted.len());
    let said = reference(&python, &["check"], lines(&planted));
    let last: Value =
        said.lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("a summary");
    assert_eq!(last["wrong"], planted.len(), "{said}");
    eprintln!("the reference accepts {} answers and sees {} wrong ones", cases.len(), planted.len());
}
