//! Programs written in CUDA C++ and with PyTorch, run: on a stand-in that says each call, in drawn interleavings of their threads.
//!
//! What each call must be is told from the program's file form and the contract of its fields; that the order in which a run
//! called keeps all the order that the list has, by the contract's table of effects. Texts with a fault in them must be caught.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

#[path = "../../core/tests/hazard/generate.rs"]
mod generate;
#[expect(dead_code, reason = "what the checker's tests ask besides")]
#[path = "../../core/tests/hazard/reference.rs"]
mod reference;

mod faults;
mod judge;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::program::code::Language;

/// Interleavings of each program.
const N_RUNS: usize = 3;

/// Commands with numbers of their own, so that none is like another, and the text that they become.
fn written(language: Language, seed: u64) -> Option<(Vec<Value>, String)> {
    let mut ops = generate::program(seed, generate::Plain { alone: false, long: seed.is_multiple_of(60) });
    if !seed.is_multiple_of(3) && ops.iter().all(|op| op["op"] != "thread_spawn") {
        ops = by_threads(ops, seed);
    }
    for (index, op) in ops.iter_mut().enumerate() {
        match op["op"].as_str().unwrap() {
            "kernel" => {
                op["takes_ns"] = json!(index);
                op["label"] = json!(format!("k{}", index % 3));
            }
            "memset" => op["value"] = json!(index % 256),
            "host_work" => op["ns"] = json!(index),
            "host_sleep" => op["us"] = json!(index),
            _ => {}
        }
    }
    let program =
        Program::from_json(json!({"schema_version": 1, "ops": ops}).to_string().as_bytes()).unwrap();
    program.check().ok()?;
    let code = program.to_code(language);
    Some((ops, if language == Language::Cuda { body(&code) } else { code }))
}

/// The same calls, by three threads that only the list orders.
fn by_threads(ops: Vec<Value>, seed: u64) -> Vec<Value> {
    let mut random = generate::Random::new(seed);
    let threads = ["main", "u", "v"];
    let spawned = threads[1..].iter().map(|t| json!({"op": "thread_spawn", "t": t}));
    let called = ops.into_iter().map(|mut op| {
        if op["op"] != "stream" {
            op["t"] = json!(random.pick(&threads));
        }
        op
    });
    let mut all: Vec<Value> = spawned.chain(called).collect();
    all.push(json!({"op": "thread_join", "t": "u"}));
    all
}

/// The calls of a text, with words for what only a device could do, and for what is not called.
fn body(code: &str) -> String {
    let mut body = String::new();
    for line in code[code.find("int main() {").unwrap()..].lines().skip(1) {
        let call = line.trim_start();
        if let Some(command) = call.strip_prefix("// no CUDA form: ") {
            let word = command.split_once(' ').map_or(command, |(word, _)| word);
            writeln!(body, "no_form(\"{word}\");").unwrap();
        } else if let Some((kernel, (stream, rest))) = call
            .split_once("<<<1, 1, 0, ")
            .and_then(|(kernel, rest)| Some((kernel, rest.split_once(">>>(")?)))
        {
            writeln!(body, "launched(\"{kernel}\", {stream}, {rest}").unwrap();
        } else {
            let call = call.replace("(void)*(volatile char *)(", "host_read(");
            writeln!(body, "{}", call.replace("(void)(", "host_reads_none(")).unwrap();
        }
    }
    body
}

/// Compiles texts and runs each in every interleaving; `None`, said aloud, where no compiler is.
fn said(bodies: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut all = "#include <cuda_runtime.h>\n".to_owned();
    for (k, body) in bodies.iter().enumerate() {
        write!(all, "namespace n{k} {{\nstatic void calls() {{\n{body}}}\n").unwrap();
    }
    all += "int main() {\n";
    for k in 0..bodies.len() {
        (0..N_RUNS).for_each(|seed| writeln!(all, "run({k}, {seed}, n{k}::calls);").unwrap());
    }
    all += "}\n";
    let path = std::env::temp_dir().join(format!("spanlift-code-{}-{}", std::process::id(), bodies.len()));
    let mut compiler = Command::new("g++");
    compiler
        .args(["-std=c++20", "-pthread", "-w", "-ftrivial-auto-var-init=pattern", "-x", "c++", "-I"])
        .args([concat!(env!("CARGO_MANIFEST_DIR"), "/code"), "-", "-o"])
        .arg(&path);
    let Ok(mut child) = compiler.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        eprintln!("left out: no g++ that compiles the texts");
        return None;
    };
    child.stdin.take().unwrap().write_all(all.as_bytes()).unwrap();
    let compiled = child.wait_with_output().unwrap();
    let why = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{}", why.chars().take(3000).collect::<String>());
    let output = Command::new(&path).output();
    let _ = std::fs::remove_file(&path);
    let output = output.unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    Some(runs(&output.stdout, bodies.len()))
}

/// The same of texts in Python.
fn said_in_python(texts: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut python = Command::new("python3");
    python.args([concat!(env!("CARGO_MANIFEST_DIR"), "/code/torch.py"), &N_RUNS.to_string()]);
    let Ok(mut child) = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        eprintln!("left out: no python3 that runs the texts");
        return None;
    };
    child.stdin.take().unwrap().write_all(texts.join("\u{c}").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    Some(runs(&output.stdout, texts.len()))
}

/// By program what each of its runs said.
fn runs(said: &[u8], n: usize) -> Vec<Vec<String>> {
    let text = String::from_utf8(said.to_vec()).unwrap();
    let runs: Vec<String> = text.split("program ").skip(1).map(str::to_owned).collect();
    assert_eq!(runs.len(), N_RUNS * n);
    runs.chunks(N_RUNS).map(<[String]>::to_vec).collect()
}

/// Runs programs and judges each; gives the calls there were.
fn check(language: Language) -> BTreeMap<String, usize> {
    let drawn: Vec<(Vec<Value>, String)> = (0..200).filter_map(|seed| written(language, seed)).collect();
    assert!(drawn.len() > 180, "{}", drawn.len());
    let bodies: Vec<&str> = drawn.iter().map(|(_, body)| body.as_str()).collect();
    let said = if language == Language::Cuda { said(&bodies) } else { said_in_python(&bodies) };
    let mut seen = BTreeMap::new();
    for ((ops, body), runs) in drawn.iter().zip(said.into_iter().flatten()) {
        for run in &runs {
            if let Err(why) = judge::run(language, ops, run) {
                let listed: Vec<String> = ops.iter().enumerate().map(|(k, op)| format!("{k} {op}")).collect();
                panic!("{why}\n{}\n{body}\n{run}", listed.join("\n"));
            }
            for call in run.lines().skip(1).filter_map(|line| line.split(' ').nth(2)) {
                *seen.entry(call.to_owned()).or_insert(0) += 1;
            }
        }
    }
    seen
}

#[test]
fn texts_in_cuda_call_what_their_programs_say() {
    let seen = check(Language::Cuda);
    // Every call there is, and most of them often.
    assert!(seen.is_empty() || seen.len() > 35 && seen["copy"] > 500, "{seen:?}");
}

#[test]
fn texts_in_python_call_what_their_programs_say() {
    let seen = check(Language::PyTorch);
    assert!(seen.is_empty() || seen.len() > 25 && seen["copy"] > 500, "{seen:?}");
}

/// Of each kind of fault how many texts have one, and how many of those no run told.
fn planted(language: Language) -> BTreeMap<&'static str, (usize, usize)> {
    let drawn: Vec<(Vec<Value>, String)> = (1000..1070).filter_map(|seed| written(language, seed)).collect();
    let faults = if language == Language::Cuda { faults::planted } else { faults::planted_in_python };
    let planted: Vec<(&Vec<Value>, &str, String)> = drawn
        .iter()
        .enumerate()
        .flat_map(|(k, (ops, body))| faults(k, body).into_iter().map(move |(kind, body)| (ops, kind, body)))
        .collect();
    let bodies: Vec<&str> = planted.iter().map(|(_, _, body)| body.as_str()).collect();
    let said = if language == Language::Cuda { said(&bodies) } else { said_in_python(&bodies) };
    let mut told = BTreeMap::new();
    for ((ops, kind, body), runs) in planted.iter().zip(said.into_iter().flatten()) {
        let (n, n_missed) = told.entry(*kind).or_insert((0, 0));
        *n += 1;
        if runs.iter().all(|run| judge::run(language, ops, run).is_ok()) {
            *n_missed += 1;
            // A turn may be waited for in vain: in three interleavings it came by itself.
            assert_eq!(*kind, "no turn", "{body}\n{}", runs[0]);
        }
    }
    told
}

#[test]
fn faults_in_a_text_are_caught() {
    let told = planted(Language::Cuda);
    for kind in ["dropped", "swapped", "other stream", "other size", "no turn"] {
        let Some(&(n, n_missed)) = told.get(kind) else { continue };
        assert!(n >= 20 && n_missed <= 2 * n / 3, "{told:?}");
    }
}

#[test]
fn faults_in_a_text_in_python_are_caught() {
    let told = planted(Language::PyTorch);
    assert!(told.values().all(|(n, _)| *n >= 40), "{told:?}");
}
