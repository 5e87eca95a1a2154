//! What a driver answers while a stream captures, against the check of programs: a problem is what every mode of capture refuses.
//!
//! The answers are those of `native/measured/capture-h200-2026-11-28.json`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spanlift::Program;

const ANSWERS: &str = include_str!("../../native/measured/capture-h200-2026-11-28.json");

/// What is there when a call is made: `s` captures, `c` was recorded in the capture, `b` before it.
const HEAD: &str = "stream s, t\nspawn u\npinned x, y 8\npageable z 8\ndevice d, e 8\ndevice f 8 via malloc_async on s\nrecord b on t\n\
    capture s\nmemset d on s\nrecord c on s\n";

/// Names of the answers, and the call as commands.
#[rustfmt::skip]
const ASKED: &[(&str, &str)] = &[
    ("nothing",                  ""),
    ("ctx_sync",                 "sync cuda:0"),
    ("ctx_sync_other_thread",    "u: sync cuda:0"),
    ("stream_sync_self",         "sync s"),
    ("stream_sync_other",        "sync t"),
    ("stream_sync_other_thread", "u: sync t"),
    ("stream_query_self",        "query s ready"),
    ("stream_query_other",       "query t ready"),
    ("event_sync_captured",      "sync event c"),
    ("event_sync_before",        "sync event b"),
    ("event_query_captured",     "query event c ready"),
    ("event_query_before",       "query event b ready"),
    ("wait_recorded_before",     "wait b on s"),
    ("wait_never_recorded",      "wait n on s"),
    ("record_legacy",            "record l on 0"),
    ("wait_legacy_record",       "wait c on 0"),
    ("legacy_memcpy",            "copy e <- x blocking"),
    ("memset_sync",              "memset e blocking"),
    ("memcpy_async_pageable",    "copy d <- z on s"),
    ("memcpy_async_pinned",      "copy d <- x on s"),
    ("memcpy_d2d_async",         "copy d <- e on s"),
    ("pageable_d2h",             "copy z <- d on s"),
    ("alloc",                    "device a 8"),
    ("alloc_other_thread",       "u: device a 8"),
    ("free",                     "free e"),
    ("alloc_host",               "pinned a 8"),
    ("free_host",                "free y"),
    ("register",                 "pinned a 8\nfree a via unregister"),
    ("alloc_async_self",         "device a 8 via malloc_async on s"),
    ("alloc_async_other",        "device a 8 via malloc_async on t"),
    ("free_async_before",        "free f on s"),
    ("free_async_own",           "device a 8 via malloc_async on s\nfree a on s"),
    ("begin_twice",              "capture s"),
    ("destroy_stream",           "destroy stream t"),
];

/// What no command of a program is.
const OTHER: &[&str] = &["event_elapsed"];

/// Done in every mode, and a problem by the rules for programs: such a wait is for what the capture did not record.
const STRICTER: &[&str] = &["wait_never_recorded"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Refused {
    Always,
    Sometimes,
    Never,
}

/// In which modes each call is refused.
fn answers() -> BTreeMap<String, Refused> {
    let file: Value = serde_json::from_str(ANSWERS).expect("the file of the answers");
    let n_modes = file["modes"].as_array().expect("a list").len();
    let is_refused = |of_mode: &Value| match &of_mode[0] {
        Value::Array(calls) => calls.iter().any(|code| code.as_u64().expect("a code") != 0),
        code => code.as_u64().expect("a code") != 0,
    };
    let refused = |(name, modes): (&String, &Value)| {
        let modes = modes.as_array().expect("a list");
        assert_eq!(modes.len(), n_modes, "{name}");
        let n = modes.iter().filter(|mode| is_refused(mode)).count();
        let refused = match n {
            0 => Refused::Never,
            n if n == n_modes => Refused::Always,
            _ => Refused::Sometimes,
        };
        (name.clone(), refused)
    };
    file["answers"].as_object().expect("the answers").iter().map(refused).collect()
}

#[test]
fn a_problem_is_what_every_mode_of_capture_refuses() {
    let (mut wrong, mut n_refused) = (Vec::new(), 0);
    let mut names: BTreeSet<&str> = OTHER.iter().copied().collect();
    let answers = answers();
    for (name, call) in ASKED {
        assert!(names.insert(name), "{name} stands twice");
        let text = format!("{HEAD}{call}\n");
        let last = u32::try_from(text.trim_end().lines().count()).unwrap();
        let found = match Program::from_text(&text) {
            Ok(_) => Vec::new(),
            Err(error) => error.messages(),
        };
        // The last command of the call is what is told, and nothing else.
        let is_told = found.len() == 1 && found[0].starts_with(&format!("line {last} "));
        let refused = answers[*name] == Refused::Always;
        n_refused += usize::from(refused);
        if found.is_empty() == (refused || STRICTER.contains(name)) || (!found.is_empty() && !is_told) {
            wrong.push(format!("{name} is refused {:?}, and here: {found:?}", answers[*name]));
        }
    }
    assert_eq!(names, answers.keys().map(String::as_str).collect());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(n_refused, 10);
}

/// The page of the check names each answer in its row.
#[test]
fn the_page_of_the_check_says_what_was_measured() {
    let page = include_str!("../../core/src/program/mod.rs");
    let section = page.split("# What hardware answered").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut told = BTreeMap::new();
    for line in section.lines() {
        let Some(row) = line.trim_start().strip_prefix("/// | ") else { continue };
        let cells: Vec<&str> = row.split(" | ").collect();
        let refused = match cells[0] {
            "refused in every mode" => Refused::Always,
            "refused in some modes" => Refused::Sometimes,
            "done in every mode" => Refused::Never,
            _ => continue,
        };
        for name in cells[1].split(' ') {
            assert!(told.insert(name.trim_matches('`').to_owned(), refused).is_none(), "{name} stands twice");
        }
    }
    assert_eq!(told, answers());
}
