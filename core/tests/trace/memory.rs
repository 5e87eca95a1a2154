//! Findings on memory snapshots: each finds what was planted, names who asked for it, and leaves its nearest neighbour alone.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use spanlift::advise::trace::{MemoryFinding, memory_findings};
use spanlift::trace::snapshot::{Figures, Snapshot};

/// A value of a pickle.
enum Value<'a> {
    Int(i64),
    Text(&'a str),
    List(Vec<Value<'a>>),
    Dict(Vec<(&'a str, Value<'a>)>),
}
use Value::{Dict, Int, List, Text};

fn write(value: &Value<'_>, to: &mut Vec<u8>) {
    match value {
        Int(n) => {
            to.extend(b"\x8a\x08");
            to.extend(n.to_le_bytes());
        }
        Text(text) => {
            to.push(b'X');
            to.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            to.extend(text.as_bytes());
        }
        List(items) => {
            to.extend(b"](");
            items.iter().for_each(|item| write(item, to));
            to.push(b'e');
        }
        Dict(items) => {
            to.extend(b"}(");
            for (name, item) in items {
                write(&Text(name), to);
                write(item, to);
            }
            to.push(b'u');
        }
    }
}

const MIB: i64 = 1 << 20;

/// One device: `(action, address, size, line of train.py)`, and the blocks in use at the end with what was asked for; both
/// in one segment of 1 GiB from address 0 on.
fn found(events: &[(&'static str, i64, i64, i64)], blocks: &[(i64, i64, i64)]) -> Vec<MemoryFinding> {
    let frames = |line: i64| {
        let frame = |file, line, name| {
            Dict(vec![("filename", Text(file)), ("line", Int(line)), ("name", Text(name))])
        };
        let library = frame("/venv/site-packages/torch/nn/linear.py", 3, "forward");
        List(vec![
            frame("??", 0, "at::empty"),
            library,
            frame("train.py", line, "step"),
            frame("train.py", 7, "main"),
        ])
    };
    let event = |&(action, addr, size, line): &(&'static str, i64, i64, i64)| {
        let words = [("addr", Int(addr)), ("size", Int(size)), ("stream", Int(0)), ("frames", frames(line))];
        Dict(std::iter::once(("action", Text(action))).chain(words).collect())
    };
    let block = |&(addr, size, asked): &(i64, i64, i64)| {
        let state = Text("active_allocated");
        Dict(vec![
            ("address", Int(addr)),
            ("size", Int(size)),
            ("requested_size", Int(asked)),
            ("state", state),
        ])
    };
    let all = [("address", Int(0)), ("total_size", Int(1024 * MIB)), ("stream", Int(0)), ("device", Int(0))];
    let sizes = ["allocated_size", "active_size", "requested_size"].map(|name| (name, Int(0)));
    let rest = [("segment_type", Text("large")), ("blocks", List(blocks.iter().map(block).collect()))];
    let segment = Dict(all.into_iter().chain(sizes).chain(rest).collect());
    let traces = List(vec![List(events.iter().map(event).collect())]);
    let mut pickle = b"\x80\x04".to_vec();
    write(&Dict(vec![("segments", List(vec![segment])), ("device_traces", traces)]), &mut pickle);
    pickle.push(b'.');
    let snapshot = Snapshot::read(&pickle).unwrap();
    memory_findings(&snapshot, &Figures::of(&snapshot))
}

fn rule<'a>(found: &'a [MemoryFinding], rule: &str) -> Option<&'a MemoryFinding> {
    found.iter().find(|finding| finding.rule == rule)
}

#[test]
fn what_piles_up_is_named_by_the_line_that_keeps_it() {
    // Each step keeps a block of line 42, or frees it, and frees one of line 50.
    let steps = |kept: &dyn Fn(i64) -> bool, size: i64| {
        let (mut events, mut blocks) = (Vec::new(), Vec::new());
        for k in 0..40 {
            // Blocks in use tile the segment from its beginning.
            let is_kept = kept(k);
            let n_before = i64::try_from(blocks.len()).unwrap();
            let (at, shortly) = (if is_kept { n_before * size } else { 900 * MIB }, 800 * MIB);
            events.push(("alloc", shortly, MIB, 50));
            events.push(("alloc", at, size, 42));
            if is_kept {
                blocks.push((at, size, size));
            } else {
                events.push(("free_completed", at, size, 60));
            }
            events.push(("free_completed", shortly, MIB, 50));
        }
        found(&events, &blocks)
    };
    let grew = |kept: &dyn Fn(i64) -> bool, size: i64| {
        rule(&steps(kept, size), "grew").map(|found| (found.title.clone(), found.bytes, found.events.len()))
    };
    let expected = "train.py:42 step: device 0: 40 blocks of 167.8 MB allocated in the recorded events are still there, some of \
                    every quarter of them";
    assert_eq!(grew(&|_| true, 4 * MIB), Some((expected.to_owned(), i128::from(160 * MIB), 40)));
    // Made in the beginning as weights, alive for the last step as activations, or less than a tenth of the segment.
    assert_eq!(grew(&|k| k < 20, 4 * MIB), None);
    assert_eq!(grew(&|k| 25 < k, 4 * MIB), None);
    assert_eq!(grew(&|_| true, 2 * MIB), None);
    assert_eq!(grew(&|_| false, 4 * MIB), None);
}

#[test]
fn waste_is_put_down_to_rounding_where_rounding_can_waste_as_much() {
    let change = |size: i64, asked: i64| {
        let n = 80 * MIB / size;
        let blocks: Vec<_> = (0..n).map(|k| (k * size, size, asked)).collect();
        let events: Vec<_> = (0..n).map(|k| ("alloc", k * size, size, 42)).collect();
        let found = found(&events, &blocks);
        let rounding = rule(&found, "rounding").unwrap();
        assert_eq!(rounding.bytes, i128::from(n * (size - asked)));
        assert!(rounding.title.starts_with("train.py:42 step: "), "{}", rounding.title);
        rounding.change.clone()
    };
    assert!(change(512, 4).contains("take 512 each"));
    assert!(change(2 * MIB, MIB).contains("expandable_segments:True"));
}

#[test]
fn a_segment_is_got_again_for_one_that_was_given_back() {
    let thrash = |list: &[(&'static str, i64)]| {
        let events: Vec<_> = list.iter().map(|&(action, size)| (action, 4096, size * MIB, 12)).collect();
        rule(&found(&events, &[]), "thrash").map(|found| (found.title.clone(), found.bytes))
    };
    let (got, back) = ("segment_alloc", "segment_free");
    assert_eq!(thrash(&[(back, 100), (got, 2), (got, 2), (got, 2), (got, 2), (got, 2)]), None);
    let expected =
        "train.py:12 step: device 0: 2 segments were given back to the driver and got again, 4.2 MB in all";
    assert_eq!(
        thrash(&[(back, 2), (back, 100), (got, 2), (got, 2), (got, 2)]),
        Some((expected.to_owned(), i128::from(4 * MIB)))
    );
}
