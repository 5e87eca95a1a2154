//! What hardware answered, against the checker: where work was seen out of order nobody calls the same program safe, and where
//! it was seen in order the checker says whose word that is.
//!
//! The answers are those of `native/measured/probe-h100-2026-11-26.json`. That work was seen in order proves nothing: which
//! order is documented stands here beside each program, and is not taken from the answer.

use std::collections::BTreeSet;

use serde_json::Value;
use spanlift::Program;
use spanlift::hazard::{self, Mode, Verdict};

const PROBE: &str = include_str!("../../native/measured/probe-h100-2026-11-26.json");

/// Whose word it is that the accesses are in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// The documentation's: safe in both modes.
    Contract,
    /// Drivers do so: safe in typical mode.
    Typical,
    /// Nobody's: a race in both modes.
    Nobody,
}
use Word::{Contract, Nobody, Typical};

/// What is there before each program; `SIZE` is the size that the question was asked for.
const HEAD: &str = "stream a, b blocking\nstream n, o\nstream p per_thread\npinned x, y 4KiB\npageable z, w SIZE\n\
    device d, e SIZE\nmanaged m 4KiB\n";

/// Findings (by the beginning of their ids), the answer by which they were in order, whose word it is, and the program.
#[rustfmt::skip]
const ASKED: &[(&str, &str, Word, &str)] = &[
    ("stream.fifo", "yes", Contract, "kernel on a writes d\nkernel on a reads d"),
    ("stream.blocking_blocking", "yes", Nobody, "kernel on a writes d\nkernel on b reads d"),
    ("stream.nonblocking_pair", "yes", Nobody, "kernel on n writes d\nkernel on o reads d"),
    ("stream.legacy_after_blocking", "yes", Contract, "kernel on a writes d\nkernel on 0 reads d"),
    ("stream.blocking_after_legacy", "yes", Contract, "kernel on 0 writes d\nkernel on a reads d"),
    ("stream.legacy_after_nonblocking", "yes", Nobody, "kernel on n writes d\nkernel on 0 reads d"),
    ("stream.nonblocking_after_legacy", "yes", Nobody, "kernel on 0 writes d\nkernel on n reads d"),
    ("stream.per_thread_blocking", "yes", Nobody, "kernel on a writes d\nkernel on p reads d"),
    ("stream.per_thread_after_legacy", "yes", Contract, "kernel on 0 writes d\nkernel on p reads d"),
    ("stream.legacy_after_per_thread", "yes", Contract, "kernel on p writes d\nkernel on 0 reads d"),
    ("stream.destroy_returns_early", "no", Nobody, "kernel on n writes m\ndestroy stream n\nread m"),
    ("stream.destroy_work_completes", "yes", Contract, "kernel on n writes m\ndestroy stream n\nsync device 0\nread m"),
    ("legacy.kernel_fences", "yes", Contract, "kernel on a writes d\nkernel on 0 reads e\nkernel on b reads d"),
    ("legacy.record_fences", "yes", Contract, "kernel on a writes d\nrecord f on 0\nkernel on b reads d"),
    ("legacy.wait_empty_event_fences", "yes", Nobody, "kernel on a writes d\nwait f on 0\nkernel on b reads d"),
    ("legacy.record_captures_blocking", "yes", Contract, "kernel on a writes d\nrecord f on 0\nwait f on n\nkernel on n reads d"),
    ("legacy.record_not_nonblocking", "yes", Nobody, "kernel on n writes d\nrecord f on 0\nwait f on o\nkernel on o reads d"),
    ("sync.legacy_covers_blocking", "yes", Contract, "kernel on a writes m\nsync 0\nread m"),
    ("sync.legacy_not_nonblocking", "yes", Nobody, "kernel on n writes m\nsync 0\nread m"),
    ("sync.blocking_not_other", "yes", Nobody, "kernel on a writes m\nsync b\nread m"),
    ("sync.blocking_covers_legacy", "yes", Nobody, "kernel on 0 writes m\nsync a\nread m"),
    ("sync.event_on_legacy", "yes", Contract, "kernel on a writes m\nrecord f on 0\nsync event f\nread m"),
    ("query.legacy_sees_blocking", "yes", Contract, "kernel on a writes m\nquery 0 ready\nread m"),
    ("event.wait_unrecorded_is_noop", "yes", Nobody, "kernel on n writes d\nwait f on o\nkernel on o reads d"),
    ("event.unrecorded_query_ready", "no", Nobody, "kernel on n writes m\nquery event f ready\nread m"),
    ("event.unrecorded_sync_returns", "no", Nobody, "kernel on n writes m\nsync event f\nread m"),
    ("event.record_is_snapshot", "no", Nobody, "record f on n\nkernel on n writes m\nsync event f\nread m"),
    ("event.rerecord_weakens_wait", "no", Contract, "kernel on n writes d\nrecord f on n\nwait f on o\nrecord f on a\nkernel on o reads d"),
    ("event.rerecord_moves_query", "no", Nobody, "kernel on n writes m\nrecord f on n\nrecord f on o\nquery event f ready\nread m"),
    ("event.rerecord_strengthens_wait", "yes", Nobody, "record f on n\nwait f on o\nkernel on n writes d\nrecord f on n\nkernel on o reads d"),
    ("event.wait_is_transitive", "yes", Contract, "kernel on n writes d\nrecord f on n\nwait f on o\nrecord g on o\nwait g on a\nkernel on a reads d"),
    ("event.destroy_keeps_wait", "yes", Contract, "kernel on n writes d\nrecord f on n\nwait f on o\ndestroy event f\nkernel on o reads d"),
    ("event.ready_after_sync", "yes", Contract, "kernel on n writes m\nsync device 0\nread m"),
    ("h2d.pageable_async_held.source_free.", "yes", Typical, "copy d <- z on n\nwrite z"),
    ("h2d.pageable_async_idle.source_free.", "yes", Typical, "copy d <- z on n\nwrite z"),
    ("d2h.pageable_async_held.returns_early.", "no", Typical, "copy z <- d on n\nread z"),
    ("d2h.pageable_async_held.data_at_return.", "yes", Typical, "copy z <- d on n\nread z"),
    ("d2h.pageable_async_idle.returns_early.", "no", Typical, "copy z <- d on n\nread z"),
    ("d2h.pageable_async_idle.data_at_return.", "yes", Typical, "copy z <- d on n\nread z"),
    ("h2d.pinned_async_held.returns_early.", "no", Nobody, "copy d[0..8] <- x[0..8] on n\nwrite x[0..8]"),
    ("h2d.pinned_async_held.source_free.", "yes", Nobody, "copy d[0..8] <- x[0..8] on n\nwrite x[0..8]"),
    ("d2h.pinned_async_held.returns_early.", "no", Nobody, "copy x[0..8] <- d[0..8] on n\nread x[0..8]"),
    ("d2h.pinned_async_held.data_at_return.", "yes", Nobody, "copy x[0..8] <- d[0..8] on n\nread x[0..8]"),
    ("demo.h2d_overwrite", "no", Nobody, "copy d[0..8] <- x[0..8] on n\nwrite x"),
    ("demo.d2h_read", "no", Nobody, "copy x[0..8] <- d[0..8] on n\nread x"),
    ("demo.h2d_overwrite.control", "no", Contract, "copy d[0..8] <- x[0..8] on n\nsync n\nwrite x"),
    ("demo.d2h_read.control", "no", Contract, "copy x[0..8] <- d[0..8] on n\nsync n\nread x"),
    ("sync_form.h2d_pinned_fences_blocking", "yes", Contract, "kernel on a writes m\ncopy d[0..8] <- x[0..8] blocking\nread m"),
    ("sync_form.h2d_pageable_fences_blocking", "yes", Contract, "kernel on a writes m\ncopy d <- z blocking\nread m"),
    ("sync_form.h2d_pinned_not_nonblocking", "yes", Nobody, "kernel on n writes m\ncopy d[0..8] <- x[0..8] blocking\nread m"),
    ("sync_form.d2h_fences_blocking", "yes", Contract, "kernel on a writes m\ncopy z <- d blocking\nread m"),
    ("sync_form.d2d_host_waits", "yes", Nobody, "kernel on a writes m\ncopy e <- d blocking\nread m"),
    ("sync_form.memset_device", "yes", Nobody, "kernel on a writes m\nmemset d blocking\nread m"),
    ("sync_form.memset_pinned", "yes", Contract, "kernel on a writes m\nmemset x blocking\nread m"),
    ("async_form.memset_pinned", "yes", Nobody, "kernel on n writes m\nmemset x on n\nread m"),
    ("sync_form.h2h_pageable_fences", "yes", Contract, "kernel on a writes m\ncopy w <- z blocking on 0\nread m"),
    ("sync_form.h2h_pinned_fences", "yes", Contract, "kernel on a writes m\ncopy y <- x blocking on 0\nread m"),
    ("async_form.h2h_pageable", "yes", Contract, "kernel on n writes m\ncopy w <- z on n\nread m"),
    ("async_form.h2h_pinned", "yes", Contract, "kernel on n writes m\ncopy y <- x on n\nread m"),
    ("sync_form.h2d_pageable.dma_pending_at_return.", "no", Nobody, "copy d <- z blocking\nkernel on n reads d"),
    ("sync_form.h2d_pinned.dma_pending_at_return.", "no", Contract, "copy d[0..8] <- x[0..8] blocking\nkernel on n reads d"),
    ("alloc.cuMemAlloc.get_waits.", "yes", Nobody, "kernel on n writes m\ndevice t SIZE\nread m"),
    ("alloc.cuMemAlloc.put_waits.", "yes", Typical, "kernel on n writes m\nfree e\nread m"),
    ("alloc.cuMemAllocAsync.get_waits.", "yes", Nobody, "kernel on n writes m\ndevice t SIZE via malloc_async on o\nread m"),
    ("alloc.cuMemAllocAsync.put_waits.", "yes", Nobody, "device t SIZE via malloc_async on o\nkernel on n writes m\nfree t on o\nread m"),
    ("alloc.cuMemHostAlloc.get_waits.", "yes", Nobody, "kernel on n writes m\npinned t SIZE\nread m"),
    ("alloc.cuMemHostAlloc.put_waits.", "yes", Typical, "kernel on n writes m\nfree y\nread m"),
    ("alloc.cuMemHostRegister.get_waits.", "yes", Nobody, "kernel on n writes m\npinned t SIZE\nread m"),
    ("alloc.cuMemHostRegister.put_waits.", "yes", Typical, "kernel on n writes m\nfree y via unregister\nread m"),
    ("busy.stream_create", "yes", Nobody, "kernel on n writes m\nstream t\nread m"),
    ("queue.", "no", Nobody, "kernel on n writes m\nkernel on n reads d\nread m"),
    ("overlap.", "no", Nobody, "copy d[0..8] <- x[0..8] on n\ncopy d[0..8] <- y[0..8] on o"),
    ("with_one_block_kernel.", "no", Nobody, "kernel on n writes d\nmemset d on o"),
    ("with_full_kernel.", "no", Nobody, "kernel on n writes d grid full\nmemset d on o"),
    ("concurrency.resident_grids", "no", Nobody, "kernel on n writes d\nkernel on o writes d"),
    ("hostfn.after_prior_work", "yes", Contract, "copy x[0..8] <- d[0..8] on n\nhost fn on n reads x"),
    ("hostfn.blocks_later_work", "yes", Contract, "host fn on n writes x\ncopy d[0..8] <- x[0..8] on n"),
    ("hostfn.two_streams_parallel", "no", Nobody, "host fn on n writes x\nhost fn on o writes x"),
    ("graph.one_executable_two_streams", "yes", Contract, "capture n\nkernel on n writes d\nend capture n as k\nlaunch k on n\nlaunch k on o"),
    ("graph.two_executables_two_streams", "yes", Nobody, "capture n\nkernel on n writes d\nend capture n as k\ncapture n\nkernel on n writes d\nend capture n as l\nlaunch k on n\nlaunch l on o"),
    ("graph.copy_reads_at_replay", "no", Nobody, "capture n\ncopy d[0..8] <- x[0..8] on n\nend capture n as k\nlaunch k on n\nwrite x"),
];

/// What is no question of order, or of none that a program can have.
#[rustfmt::skip]
const OTHER: &[&str] = &[
    "h2d.pageable_async_held.returns_early.",   // how much of a machine's staging one copy fills
    "h2d.pageable_async_idle.returns_early.",
    "h2d.pageable_inline_limit",
    "event.elapsed_codes",                      // codes
    "hostfn.driver_call_refused",
    "graph.capture_errors",
    "busy.module_load",                         // no command loads modules
];

/// What was asked behind the longest beginning of an id.
fn asked(id: &str) -> Option<&'static (&'static str, &'static str, Word, &'static str)> {
    ASKED.iter().filter(|asked| id.starts_with(asked.0)).max_by_key(|asked| asked.0.len())
}

fn verdicts(program: &str, id: &str) -> [Verdict; 2] {
    let size = id.rsplit('.').next().filter(|last| last.bytes().all(|b| b.is_ascii_digit()));
    let text = format!("{HEAD}{program}").replace("SIZE", size.unwrap_or("4096"));
    let program = Program::from_text(&text).unwrap_or_else(|e| panic!("{id}: {e}\n{text}"));
    [Mode::Contract, Mode::Typical].map(|mode| hazard::check(&program, mode).expect(id).verdict())
}

#[test]
fn nothing_is_called_safe_that_hardware_was_seen_to_do_out_of_order() {
    let probe: Value = serde_json::from_str(PROBE).unwrap();
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    let (mut n_asked, mut n_in_order) = (0, 0);
    for finding in probe["semantics"].as_array().unwrap() {
        let [id, level, verdict] = ["id", "level", "verdict"].map(|key| finding[key].as_str().unwrap());
        let Some(&(beginning, in_order, word, program)) = asked(id) else {
            if !OTHER.iter().any(|other| id.starts_with(other)) {
                wrong.push(format!("{id}: nobody says what it is of the checker's"));
            }
            continue;
        };
        used.insert(beginning);
        n_asked += 1;
        let expected = match word {
            Contract => [Verdict::Safe; 2],
            Typical => [Verdict::Race, Verdict::Safe],
            Nobody => [Verdict::Race; 2],
        };
        let found = verdicts(program, id);
        if found != expected {
            wrong.push(format!("{id}: {found:?}, not {expected:?}"));
        }
        // A schedule is no order, whatever it was.
        let was_in_order = level != "schedule" && verdict == in_order;
        n_in_order += usize::from(was_in_order);
        if was_in_order != (word != Nobody) || !["yes", "no"].contains(&verdict) {
            wrong.push(format!("{id} ({level}): hardware says {verdict}, the table {word:?}"));
        }
    }
    let unused: Vec<_> = ASKED.iter().map(|asked| asked.0).filter(|name| !used.contains(name)).collect();
    assert!(wrong.is_empty() && unused.is_empty(), "unused {unused:?}\n{}", wrong.join("\n"));
    assert!(n_asked > 150 && n_in_order > 60, "{n_asked}, {n_in_order}");
}

/// Whether a name is the pattern, `*` being anything.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && fits(tail, &rest[at..]))
        }),
    }
}

/// What the checker's page says of hardware is in the file, as often as it says.
#[test]
fn the_page_of_the_rules_says_what_was_measured() {
    let probe: Value = serde_json::from_str(PROBE).unwrap();
    let findings = probe["semantics"].as_array().unwrap();
    let page = include_str!("../../core/src/hazard/mod.rs");
    let section = page.split("# What hardware answered").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter_map(|line| line.strip_prefix("//! | "))
        .map(|line| line.trim_end_matches(" |").split(" | ").collect())
        .skip(1)
        .collect();
    let (mut wrong, mut named) = (Vec::new(), BTreeSet::new());
    for row in &rows {
        let [asked, answer, _, patterns] = row[..] else { panic!("not four columns: {row:?}") };
        let (mut counts, mut others) = ([0, 0], Vec::new());
        for pattern in patterns.split(' ').map(|pattern| pattern.trim_matches('`')) {
            let of: Vec<&Value> =
                findings.iter().filter(|f| fits(pattern, f["id"].as_str().unwrap_or_default())).collect();
            if of.is_empty() {
                wrong.push(format!("{asked}: nothing is called {pattern}"));
            }
            for finding in of {
                named.insert(finding["id"].as_str().unwrap_or_default());
                for (count, key) in counts.iter_mut().zip(["yes", "no"]) {
                    *count += finding["observed"][key].as_u64().unwrap();
                }
                if !answer.starts_with(finding["verdict"].as_str().unwrap()) {
                    others.push(finding["id"].clone());
                }
            }
        }
        let n = counts[0] + counts[1];
        let says = if answer.starts_with("yes") { ("yes", counts[0]) } else { ("no", counts[1]) };
        if answer != format!("{}, {} of {n}", says.0, says.1) || !others.is_empty() {
            wrong.push(format!("{asked} {answer}: {counts:?} {others:?}"));
        }
    }
    // The figures beside the answers.
    let detail = |id: &str, key: &str| {
        let finding = findings.iter().find(|f| f["id"] == id).expect(id);
        finding["detail"][key].as_f64().expect(key)
    };
    for (id, key, value, words) in [
        ("h2d.pageable_inline_limit", "largest_returning_early", 2_097_152.0, "2 MiB did"),
        ("h2d.pageable_inline_limit", "smallest_waiting", 2_162_688.0, "2,162,688 bytes did not"),
        ("queue.launch.3_streams", "accepted_per_stream", 1020.0, "1,020 launches"),
        ("queue.pinned_copy.1_streams", "accepted_per_stream", 1020.0, "or copies of each stream"),
        ("overlap.h2d_d2d", "second_end_over_span", 0.049, "0.049 of the whole"),
    ] {
        let found = detail(id, key);
        if (found - value).abs() > 1e-9 || !section.contains(words) {
            wrong.push(format!("{id} {key}: {found}, {words}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows.len() > 25 && named.len() > 80, "{} rows, {} findings", rows.len(), named.len());
}
