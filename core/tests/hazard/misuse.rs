//! What the checker lets through runs, and misuse planted anywhere is refused with its place.

use serde_json::{Value, json};
use spanlift::hazard::{self, Mode, check_read};
use spanlift::machine::Machine;
use spanlift::{Program, sim};

use crate::generate::{self, Plain};

fn file(ops: &[Value]) -> String {
    json!({"schema_version": 1, "ops": ops}).to_string()
}

fn at(ops: &[Value], k: usize, planted: &[Value]) -> Vec<Value> {
    [&ops[..k], planted, &ops[k..]].concat()
}

/// Commands on names of their own, the last of which is wrong, and what is said of it.
fn misuses() -> Vec<(Vec<Value>, &'static str)> {
    let stream = json!({"op": "stream", "s": "x", "dev": 3, "kind": "nonblocking"});
    let event = json!({"op": "event_create", "e": "x"});
    let destroy = json!({"op": "event_destroy", "e": "x"});
    let alloc = json!({"op": "alloc", "buf": "x", "bytes": 8, "space": "pinned", "dev": 0, "via": "malloc"});
    let free = json!({"op": "free", "buf": "x", "via": "host_free"});
    let spawn = json!({"op": "thread_spawn", "t": "x"});
    let begin = json!({"op": "capture_begin", "s": "x"});
    let end = json!({"op": "capture_end", "s": "x", "g": "x"});
    let gone = json!({"op": "stream_destroy", "s": "x"});
    vec![
        (vec![event.clone(), destroy.clone(), destroy.clone()], "event handle destroyed"),
        (vec![event, destroy.clone(), json!({"op": "event_sync", "e": "x"})], "event handle destroyed"),
        (
            vec![stream.clone(), destroy, json!({"op": "record", "e": "x", "s": "x"})],
            "event handle destroyed",
        ),
        (vec![alloc.clone(), free.clone(), free], "double free"),
        (vec![alloc.clone(), alloc], "declared twice"),
        (vec![stream.clone(), gone.clone(), gone.clone()], "was destroyed"),
        (vec![stream.clone(), gone, json!({"op": "stream_sync", "s": "x"})], "was destroyed"),
        (vec![json!({"op": "thread_join", "t": "x"})], "is not started"),
        (vec![spawn.clone(), spawn], "started twice"),
        (vec![json!({"op": "thread_join", "t": "main"})], "cannot join itself"),
        (vec![stream.clone(), begin.clone(), json!({"op": "stream_sync", "s": "x"})], "sync during capture"),
        (
            vec![stream.clone(), begin.clone(), json!({"op": "stream_query", "s": "x", "ready": true})],
            "sync during capture",
        ),
        (vec![stream.clone(), begin.clone(), json!({"op": "device_sync", "dev": 3})], "sync during capture"),
        (
            vec![
                stream.clone(),
                begin.clone(),
                json!({"op": "record", "e": "x", "s": "x"}),
                json!({"op": "event_sync", "e": "x"}),
            ],
            "sync during capture",
        ),
        (
            vec![
                stream.clone(),
                json!({"op": "alloc", "buf": "x", "bytes": 8, "space": "device", "dev": 3, "via": "malloc"}),
                begin.clone(),
                json!({"op": "free", "buf": "x", "via": "free_async", "s": "x"}),
            ],
            "free outside capture",
        ),
        (vec![stream.clone(), begin.clone(), begin.clone()], "captures already"),
        (vec![stream.clone(), end.clone()], "captures nothing"),
        (vec![stream.clone(), begin.clone(), end.clone(), begin, end], "captured twice"),
        (vec![stream, json!({"op": "graph_launch", "g": "x", "s": "x"})], "is not captured"),
    ]
}

#[test]
fn planted_misuse_is_refused_with_its_place() {
    let misuses = misuses();
    for seed in 1..=crate::random::n_programs(150) {
        let ops = generate::program(seed, Plain::default());
        for (k, (planted, words)) in misuses.iter().enumerate() {
            let place = generate::Random::new(seed + 1000 * k as u64).below(ops.len() + 1);
            let file = file(&at(&ops, place, planted));
            let place = format!("command {}: ", place + planted.len() - 1);
            for said in [
                Program::from_json(file.as_bytes()).map(|_| ()).map_err(|e| e.messages()),
                check_read(file.as_bytes(), Mode::Contract).map(|_| ()).map_err(|e| e.messages()),
            ] {
                let said = said.expect_err(words);
                assert!(
                    said[0].starts_with(&place) && said[0].contains(words),
                    "seed {seed} {words}: {said:?}"
                );
            }
        }
    }
}

/// Odd, but not wrong.
fn oddities() -> Vec<Vec<Value>> {
    let stream = json!({"op": "stream", "s": "x", "dev": 3, "kind": "nonblocking"});
    vec![
        vec![],
        vec![stream.clone(), json!({"op": "capture_begin", "s": "x"})],
        vec![json!({"op": "event_create", "e": "x"}), json!({"op": "event_create", "e": "x"})],
        vec![json!({"op": "event_destroy", "e": "x"})],
        vec![json!({"op": "event_sync", "e": "x"})],
        vec![
            json!({"op": "signal", "ch": "x"}),
            json!({"op": "await", "ch": "x"}),
            json!({"op": "await", "ch": "x"}),
        ],
        vec![
            json!({"op": "thread_spawn", "t": "x"}),
            json!({"op": "thread_join", "t": "x"}),
            json!({"op": "thread_join", "t": "x"}),
            json!({"op": "signal", "ch": "x", "t": "x"}),
        ],
        vec![
            stream.clone(),
            json!({"op": "wait", "s": "x", "e": "x"}),
            json!({"op": "stream_destroy", "s": "x"}),
        ],
    ]
}

#[test]
fn what_is_checked_runs() {
    let (machine, oddities) = (Machine::default(), oddities());
    for seed in 1..=crate::random::n_programs(400) {
        let ops = generate::program(seed, Plain { long: seed % 100 == 0, ..Plain::default() });
        let odd = &oddities[usize::try_from(seed).unwrap() % oddities.len()];
        let place = generate::Random::new(seed).below(ops.len() + 1);
        let file = file(&at(&ops, place, odd));
        let program =
            Program::from_json(file.as_bytes()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{file}"));
        hazard::check(&program, Mode::Typical).unwrap();
        if let Err(error) = sim::run(&program, &machine) {
            panic!("seed {seed}: {error}\n{file}");
        }
    }
}

/// Above a line that is no command, a stream that is declared twice is told of however the file is read.
#[test]
fn what_is_wrong_above_a_bad_line_is_told_as_the_file_is_read() {
    let text = "stream a\nstream a\nkernel on a\nbogus\nstream a\n";
    let whole = Program::read(text.as_bytes()).map(|_| ()).map_err(|e| e.messages()).expect_err("wrong");
    let each = check_read(text.as_bytes(), Mode::Contract).map(|_| ()).map_err(|e| e.messages());
    assert!(whole.len() == 2 && whole[0].starts_with("line 2"), "{whole:?}");
    assert_eq!(each, Err(whole));
}
