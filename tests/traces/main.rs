//! The figures of trace files beside a second implementation of their definitions, in Python's own library alone: on made
//! files of every generation of profilers, and on each of the shared ones.
//!
//! Python is named by the variable `SPANLIFT_PYTHON`, which `tests/run` sets; without it nothing is compared.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spanlift::trace::analysis::Figures;
use spanlift::trace::table::Scan;

const FILES: &str = "600";
const SEED: &str = "1";

fn python() -> Option<OsString> {
    let named = std::env::var_os("SPANLIFT_PYTHON");
    if named.is_none() {
        eprintln!("skipped: SPANLIFT_PYTHON names no Python");
    }
    named
}

/// Runs the reference with these arguments and standard input; gives the lines that it prints.
fn reference(python: &OsStr, args: &[&OsStr], input: &[u8]) -> Vec<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/reference.py");
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let mut stdin = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A reference that ends early says why in its own way.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().expect("the reference ends")
    });
    assert!(output.status.success(), "the reference failed: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("the reference prints text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn figures(text: &str, piece: usize) -> Value {
    let mut scan = Scan::new();
    for piece in text.as_bytes().chunks(piece) {
        scan.feed(piece).expect("a usable trace");
    }
    let table = scan.finish().expect("a usable trace");
    serde_json::from_str(&Figures::of(&table).to_json()).expect("JSON")
}

fn check(python: &OsStr, cases: &[(Value, Value)]) -> (Vec<Value>, Value) {
    let lines = cases.iter().flat_map(|(case, answer)| {
        let line =
            json!({"generation": case["generation"], "text": case["text"], "answer": answer.to_string()});
        format!("{line}\n").into_bytes()
    });
    let mut said = reference(python, &["check".as_ref()], &lines.collect::<Vec<u8>>());
    let last = said.pop().expect("a summary");
    (said, last)
}

/// The same with something wrong in it, where it has what can be made wrong.
fn spoiled(k: usize, answer: &Value) -> Option<Value> {
    fn more(value: &mut Value) -> Option<()> {
        *value = (value.as_i64()? + 1).into();
        Some(())
    }
    fn first<'a>(value: &'a mut Value, of: &str) -> Option<&'a mut Value> {
        value[of].as_object_mut()?.values_mut().next()
    }
    let mut answer = answer.clone();
    match k % 8 {
        0 => more(&mut answer["ts_ns"]["min"])?,
        1 => more(&mut first(&mut answer, "copies")?["host_wait_before_copy_ns"])?,
        2 => more(&mut first(&mut answer, "streams")?["max_in_flight"])?,
        3 => more(&mut first(&mut answer, "devices")?["busy_ns"])?,
        4 => more(&mut answer["launch"]["negative_delay"])?,
        5 => more(&mut answer["partially_overlapping_X_on_same_tid"]["total"])?,
        6 => answer["by_phase_cat"]["X|never"] = 1.into(),
        _ => more(&mut answer["host_sync"]["stall_ns_union_per_thread_sum"])?,
    }
    Some(answer)
}

#[test]
fn made_traces_of_every_generation_have_the_figures_of_their_definitions() {
    let Some(python) = python() else { return };
    let made = reference(&python, &["make".as_ref(), FILES.as_ref(), SEED.as_ref()], &[]);
    let cases: Vec<(Value, Value)> = made
        .into_iter()
        .enumerate()
        .map(|(k, case)| {
            let answer = figures(case["text"].as_str().expect("text"), [Scan::PIECE, 1000, 7][k % 3]);
            (case, answer)
        })
        .collect();
    let (said, last) = check(&python, &cases);
    assert_eq!(last["wrong"], 0, "{said:#?}");
    let checked = last["checked"].as_object().expect("counts");
    assert!(10 == checked.len() && checked.values().all(|n| Some(20) < n.as_i64()), "one-sided: {last}");
    // The reference must see what is wrong, wherever something is made so.
    let planted: Vec<(Value, Value)> = cases
        .iter()
        .enumerate()
        .filter_map(|(k, (case, answer))| Some((case.clone(), spoiled(k, answer)?)))
        .collect();
    assert!(planted.len() > 300, "only {} planted", planted.len());
    let (_, last) = check(&python, &planted);
    assert_eq!(last["wrong"], planted.len());
    eprintln!("the reference accepts {} answers and sees {} wrong ones", cases.len(), planted.len());
}

#[test]
fn the_reference_says_of_shared_traces_what_their_table_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let Some(python) = python() else { return };
    let Ok(table) = std::fs::read(folder.join("reference.json")) else {
        eprintln!("skipped: no shared traces beside this checkout");
        return;
    };
    let table: Value = serde_json::from_slice(&table).expect("JSON");
    let names: Vec<&String> = table.as_object().expect("files").keys().collect();
    // The two largest take Python most of a minute.
    let small = |name: &&&String| std::fs::metadata(folder.join(name)).is_ok_and(|file| file.len() < 200_000);
    let names: Vec<&String> = names.iter().filter(small).copied().collect();
    let paths: Vec<_> = names.iter().map(|name| folder.join(name)).collect();
    let args: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
    for (name, found) in names.iter().zip(reference(&python, &args, &[])) {
        for (key, found) in found.as_object().expect("figures") {
            same(&format!("{name}/{key}"), found, &table[*name][key]);
        }
    }
    assert!(8 < names.len(), "{names:?}");
}

/// Whether all that the reference computes stands in the table too.
fn same(path: &str, found: &Value, table: &Value) {
    match found.as_object() {
        Some(members) => {
            members.iter().for_each(|(key, found)| same(&format!("{path}/{key}"), found, &table[key]))
        }
        None => assert_eq!(found, table, "{path}"),
    }
}
