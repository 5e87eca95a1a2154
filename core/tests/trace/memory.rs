//! Findings on memory snapshots: each finds what was planted, names who asked for it, and leaves its nearest neighbour alone.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use spanlift::advise::trace::{MemoryFinding, memory_findings};
use spanlift::trace::snapshot::Snapshot;

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

/// `(action, address, size, line of train.py)`
type Event = (&'static str, i64, i64, i64);

fn event(&(action, addr, size, line): &Event) -> Value<'static> {
    let frame =
        |file, line, name| Dict(vec![("filename", Text(file)), ("line", Int(line)), ("name", Text(name))]);
    let frames = List(vec![
        frame("??", 0, "at::empty"),
        frame("/venv/site-packages/torch/nn/linear.py", 3, "forward"),
        frame("train.py", line, "step"),
        frame("train.py", 7, "main"),
    ]);
    let words = [("addr", Int(addr)), ("size", Int(size)), ("stream", Int(0)), ("frames", frames)];
    Dict(std::iter::once(("action", Text(action))).chain(words).collect())
}

/// One device: its events, and the blocks in use at the end with what was asked for; both in one segment of 1 GiB from
/// address 0 on.
fn found(events: &[Event], blocks: &[(i64, i64, i64)]) -> Vec<MemoryFinding> {
    let block = |&(addr, size, asked): &(i64, i64, i64)| {
        let state = Text("active_allocated");
        Dict(vec![
            ("address", Int(addr)),
            ("size", Int(size)),
            ("requested_size", Int(asked)),
            ("state", state),
        ])
    };
    let segment = segment(0, (0, 1024 * MIB), blocks.iter().map(block).collect());
    findings(vec![segment], &[events.to_vec()])
}

/// A segment of a device at an address, with a size and its blocks.
fn segment(device: i64, (at, size): (i64, i64), blocks: Vec<Value<'static>>) -> Value<'static> {
    let all = [("address", Int(at)), ("total_size", Int(size)), ("stream", Int(0)), ("device", Int(device))];
    let sizes = ["allocated_size", "active_size", "requested_size"].map(|name| (name, Int(0)));
    let rest = [("segment_type", Text("large")), ("blocks", List(blocks))];
    Dict(all.into_iter().chain(sizes).chain(rest).collect())
}

/// What is found in a snapshot of these segments and the events of each device.
fn findings(segments: Vec<Value<'_>>, events: &[Vec<Event>]) -> Vec<MemoryFinding> {
    let snapshot = snapshot(segments, events);
    memory_findings(&snapshot)
}

/// A snapshot of these segments and the events of each device.
fn snapshot(segments: Vec<Value<'_>>, events: &[Vec<Event>]) -> Snapshot {
    let traces = events.iter().map(|events| List(events.iter().map(event).collect())).collect();
    let mut pickle = b"\x80\x04".to_vec();
    write(&Dict(vec![("segments", List(segments)), ("device_traces", List(traces))]), &mut pickle);
    pickle.push(b'.');
    Snapshot::read(&pickle).unwrap()
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
    let expected = "train.py:42 step: device 0: 40 blocks of 160.0 MiB allocated in the recorded events are still there, some of \
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
        "train.py:12 step: device 0: 2 segments were given back to the driver and got again, 4.0 MiB in all";
    assert_eq!(
        thrash(&[(back, 2), (back, 100), (got, 2), (got, 2), (got, 2)]),
        Some((expected.to_owned(), i128::from(4 * MIB)))
    );
}

/// Segments of 40 MiB whose first halves are in use, so many on each device, allocated by the lines 1, 2, ...
fn half_used(segments_of: &[i64]) -> Vec<MemoryFinding> {
    let half = |at: i64, state| {
        let words =
            [("address", at), ("size", 20 * MIB), ("requested_size", 20 * MIB)].map(|(k, n)| (k, Int(n)));
        Dict(words.into_iter().chain([("state", Text(state))]).collect())
    };
    let (mut segments, mut events) = (Vec::new(), Vec::new());
    for (device, &n) in (0..).zip(segments_of) {
        let places = (0..n).map(|k| (k + 1) * 64 * MIB);
        segments.extend(places.clone().map(|at| {
            segment(
                device,
                (at, 40 * MIB),
                vec![half(at, "active_allocated"), half(at + 20 * MIB, "inactive")],
            )
        }));
        events.push(places.map(|at| ("alloc", at, 20 * MIB, at / (64 * MIB))).collect());
    }
    findings(segments, &events)
}

#[test]
fn what_is_free_on_one_device_is_no_piece_of_another() {
    let title = |segments_of: &[i64]| {
        rule(&half_used(segments_of), "fragmentation")
            .map(|found| (found.title.clone(), found.bytes / i128::from(MIB)))
    };
    // Each device has one piece of 20 MiB: nothing larger could be had by moving anything.
    assert_eq!(title(&[1; 8]), None);
    assert_eq!(title(&[1]), None);
    // Two halves are not more than half in pieces; three are.
    assert_eq!(title(&[1, 2]), None);
    let of_three = "60.0 MiB of 120.0 MiB held are free in pieces, of which the largest is 20.0 MiB";
    let others = "train.py:1 step and 2 other places: ";
    assert_eq!(title(&[3]), Some((format!("{others}{of_three}"), 60)));
    assert_eq!(title(&[1, 3, 2]), Some((format!("{others}device 1: {of_three}"), 60)));
    assert_eq!(
        title(&[3, 1, 3]),
        Some((format!("{others}device 0: {of_three}; 1 other device as well"), 60))
    );
}

/// Segments with free memory are named by who keeps them, those with the most of it first; full ones keep nothing free.
#[test]
fn what_keeps_free_memory_is_shown_where_most_of_it_is() {
    let block = |at: i64, size: i64, state: &'static str| {
        let words = [("address", at), ("size", size), ("requested_size", size)].map(|(k, n)| (k, Int(n)));
        Dict(words.into_iter().chain([("state", Text(state))]).collect())
    };
    // Segments with little free memory, one that is full, one of which nothing is used, three with much.
    let shown = |n_little: usize| {
        let (mut segments, mut events) = (Vec::new(), Vec::new());
        let used_and_free =
            vec![(1, 2); n_little].into_iter().chain([(30, 0), (0, 60), (2, 50), (3, 40), (4, 50)]);
        for (k, (used, free)) in (1..).zip(used_and_free) {
            let at = k * 1024 * MIB;
            let blocks = [(at, used, "active_allocated"), (at + used * MIB, free, "inactive")];
            let blocks =
                blocks.into_iter().filter(|b| 0 < b.1).map(|(at, n, state)| block(at, n * MIB, state));
            segments.push(segment(0, (at, (used + free) * MIB), blocks.collect()));
            if 0 < used {
                events.push(("alloc", at, used * MIB, k));
            }
        }
        let found = findings(segments, &[events]);
        rule(&found, "fragmentation").unwrap().events.iter().map(|event| event.1).collect::<Vec<_>>()
    };
    assert_eq!(shown(2), [0, 1, 3, 4, 5]);
    // Of 64 those with much are three, which were allocated last.
    assert_eq!(shown(70), (0..61).chain([71, 72, 73]).collect::<Vec<_>>());
}

#[test]
fn places_are_listed_with_the_most_bytes_first() {
    let places = |segments: i64| {
        let found = half_used(&[0, segments]);
        let found = rule(&found, "fragmentation").unwrap();
        assert!(found.events.iter().all(|(device, _)| *device == 1));
        found.places.iter().map(|p| (p.maker.clone(), p.count, p.bytes)).collect::<Vec<_>>()
    };
    let line = |line: i64| (format!("train.py:{line} step"), 1, i128::from(20 * MIB));
    assert_eq!(places(3), [line(1), line(2), line(3)]);
    assert_eq!(places(9), [1, 2, 3, 4, 5].map(line));

    // All 200 segments are counted, though 64 events are shown.
    let mut events = Vec::new();
    for k in 0..200 {
        events.push(("segment_free", 4096, 2 * MIB, 3));
        events.push(("segment_alloc", 4096, 2 * MIB, if k % 4 == 0 { 12 } else { 13 }));
    }
    let found = found(&events, &[]);
    let thrash = rule(&found, "thrash").unwrap();
    assert!(
        thrash.title.starts_with("train.py:13 step and 1 other place: device 0: 200 segments"),
        "{}",
        thrash.title
    );
    let places: Vec<_> =
        thrash.places.iter().map(|p| (&*p.maker, p.count, p.bytes / i128::from(MIB))).collect();
    assert_eq!(places, [("train.py:13 step", 150, 300), ("train.py:12 step", 50, 100)]);
    assert_eq!(thrash.events.len(), 64);
}

/// Files of before blocks had addresses say in a block's history what newer ones say of the block itself.
#[test]
fn a_blocks_history_stands_for_what_it_does_not_say() {
    let frames = |line: i64| {
        let frame = vec![("filename", Text("train.py")), ("line", Int(line)), ("name", Text("step"))];
        ("frames", List(vec![Dict(frame)]))
    };
    let history = |entries: &[(i64, i64)]| {
        let entry = |&(asked, line): &(i64, i64)| Dict(vec![("real_size", Int(asked)), frames(line)]);
        ("history", List(entries.iter().map(entry).collect()))
    };
    let read = |block: Vec<(&'static str, Value<'static>)>| {
        let before = Dict(vec![("size", Int(512)), ("state", Text("inactive"))]);
        let whole = [("size", Int(1024)), ("state", Text("active_allocated"))];
        let block = Dict(whole.into_iter().chain(block).collect());
        let snapshot = snapshot(vec![segment(0, (4096, 1536), vec![before, block])], &[]);
        let (at, block) = snapshot.placed(&snapshot.segments[0]).last().unwrap();
        let lines = snapshot.stacks.get(block.stack).iter().map(|&f| snapshot.stacks.frames[f as usize].line);
        (at, block.requested_size, lines.collect::<Vec<_>>())
    };
    // Blocks follow each other; the first entry is of the block that is there.
    assert_eq!(read(vec![history(&[(1000, 3), (900, 4)])]), (4608, 1000, vec![3]));
    // What the block says itself comes first.
    assert_eq!(read(vec![("requested_size", Int(800)), history(&[(1000, 3)])]), (4608, 800, vec![3]));
    assert_eq!(read(vec![frames(5), history(&[(1000, 3)])]), (4608, 1000, vec![5]));
    // Without either, all of it was asked for.
    assert_eq!(read(vec![history(&[])]), (4608, 1024, vec![]));
    assert_eq!(read(vec![]), (4608, 1024, vec![]));
}
