//! Drawn snapshots, of which it is known what is there at every moment, against each other.

use serde_json::{Value, json};

use super::*;
use crate::memory::past::HEIGHT;
use crate::scene::{Rect, Scene, Shape};
use crate::testing::{Random, texts_keep_apart};
use crate::theme::Theme;

/// A value as Python's pickle of protocol 2 has it.
fn pickle(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Number(n) => {
            out.extend([0x8a, 8]);
            out.extend(n.as_i64().unwrap().to_le_bytes());
        }
        Value::String(text) => {
            out.push(b'X');
            out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            out.extend(text.as_bytes());
        }
        Value::Array(all) => {
            out.extend(b"](");
            all.iter().for_each(|value| pickle(value, out));
            out.push(b'e');
        }
        Value::Object(all) => {
            out.extend(b"}(");
            for (name, value) in all {
                pickle(&Value::String(name.clone()), out);
                pickle(value, out);
            }
            out.push(b'u');
        }
        _ => unreachable!("no snapshot holds {value}"),
    }
}

/// What is there at a moment: who asked for which size, and how much is reserved.
type State = (Vec<(String, i64)>, i64);

/// A snapshot and what is there at each of its moments.
#[derive(Clone)]
struct Drawn {
    bytes: Vec<u8>,
    value: Value,
    states: Vec<State>,
}

const UNKNOWN: &str = "where the file does not say who asked";
const SLOT: i64 = 1 << 20;

/// Segments come one after the other, the `k`th of `segments[k]` slots; blocks come and go in them.
fn drawn(seed: u64, segments: &[i64], n_events: usize) -> Drawn {
    let mut random = Random(seed);
    let frames = |line: u64| json!([{"filename": "a/model.py", "line": line, "name": "forward"}]);
    let asker = |line: u64| format!("forward (model.py:{line})");
    let place = |k: usize| 0x7f00_0000_0000 + (i64::try_from(k).unwrap() << 32);
    // Slots that are held: who asked and the size; those that were there before the first event are known by the end alone.
    let mut held: BTreeMap<i64, (Option<u64>, i64)> = BTreeMap::new();
    let (mut events, mut states, mut reserved) = (Vec::new(), Vec::new(), segments[0] * SLOT);
    let mut before = BTreeMap::new();
    for slot in 0..segments[0].min(3) {
        held.insert(place(0) + slot * SLOT, (None, 4096));
        before.insert(place(0) + slot * SLOT, 1 + random.below(4));
    }
    let mut n_there = 1;
    let state = |held: &BTreeMap<i64, (Option<u64>, i64)>, reserved| {
        (held.iter().map(|(at, (line, size))| (*at, *line, *size)).collect::<Vec<_>>(), reserved)
    };
    for time in 0..n_events {
        states.push(state(&held, reserved));
        let mut event = |action: &str, addr: i64, size: i64, frames: Value| {
            events.push(json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "frames": frames}));
        };
        let grows = n_there < segments.len() && random.below(10) == 0;
        if grows || time + segments.len() >= n_events + n_there && n_there < segments.len() {
            event("segment_alloc", place(n_there), segments[n_there] * SLOT, frames(99));
            reserved += segments[n_there] * SLOT;
            n_there += 1;
            continue;
        }
        let segment = usize::try_from(random.below(n_there as u64)).unwrap();
        let slot = i64::try_from(random.below(segments[segment].unsigned_abs())).unwrap();
        let at = place(segment) + slot * SLOT;
        if let Some((_, size)) = held.remove(&at) {
            event("free_completed", at, size, json!([]));
            before.remove(&at);
        } else {
            let (line, size) = (1 + random.below(9), random.pick([512, 4096, 300_000, SLOT]));
            event("alloc", at, size, frames(line));
            held.insert(at, (Some(line), size));
        }
    }
    states.push(state(&held, reserved));
    let segment = |k: usize| {
        let (mut at, end) = (place(k), place(k) + segments[k] * SLOT);
        let mut blocks = Vec::new();
        let mut add = |size: i64, state: &str, frames: Value| {
            if size > 0 {
                blocks.push(json!({"size": size, "requested_size": size, "state": state, "frames": frames}));
            }
        };
        for (&addr, &(line, size)) in held.range(at..end) {
            add(addr - at, "inactive", json!([]));
            add(size, "active_allocated", line.or(before.get(&addr).copied()).map_or(json!([]), frames));
            at = addr + size;
        }
        add(end - at, "inactive", json!([]));
        json!({"device": 0, "address": place(k), "total_size": segments[k] * SLOT, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "large", "blocks": blocks})
    };
    let all: Vec<Value> = (0..n_there).map(segment).collect();
    let traces = if n_events > 0 { json!([events]) } else { json!([]) };
    let value = json!({"segments": all, "device_traces": traces, "allocator_settings": {}});
    let named = |(at, line, _): &(i64, Option<u64>, i64)| {
        line.or(before.get(at).copied()).map_or(UNKNOWN.to_owned(), asker)
    };
    let states = states.iter().map(|(blocks, reserved)| {
        (blocks.iter().map(|block| (named(block), block.2)).collect::<Vec<_>>(), *reserved)
    });
    Drawn { bytes: pickled(&value), value, states: states.collect() }
}

fn pickled(value: &Value) -> Vec<u8> {
    let mut bytes = vec![0x80, 2];
    pickle(value, &mut bytes);
    bytes.push(b'.');
    bytes
}

fn app(drawn: &Drawn) -> MemoryApp {
    let mut app = MemoryApp::of_snapshot("s", &drawn.bytes, Theme::LIGHT).unwrap();
    app.resize(900.0, 600.0);
    app.look_back();
    app
}

fn row<'c>(told: &'c Compared, name: &str) -> Option<&'c str> {
    told.rows.iter().find(|row| row.0 == name).map(|row| row.1.as_str())
}

#[test]
fn what_one_holds_alone_is_what_is_left_when_each_block_has_met_one_that_is_alike() {
    let (mut n_alike, mut n_alone, mut n_more) = (0, 0, 0);
    for seed in 0..40 {
        let mut random = Random(seed);
        let two = [seed, 1000 + seed]
            .map(|seed| drawn(seed, &[8, 20, 30], 60 + usize::try_from(seed % 50).unwrap()));
        let mut apps = [app(&two[0]), app(&two[1])];
        for _ in 0..6 {
            let moments = [0, 1].map(|k| usize::try_from(random.below(two[k].states.len() as u64)).unwrap());
            for (app, moment) in apps.iter_mut().zip(moments) {
                app.go_to_moment(moment);
            }
            let case = format!("seed {seed}, moments {moments:?}");
            let told = compare(&apps[0], &apps[1]).unwrap();
            let [(mut a, a_reserved), (b, b_reserved)] = [0, 1].map(|k| two[k].states[moments[k]].clone());
            let (mut alike, mut b_alone) = (Vec::new(), Vec::new());
            let sum = |list: &[(String, i64)]| list.iter().map(|block| i128::from(block.1)).sum::<i128>();
            let words = |list: &[(String, i64)]| {
                let s = if list.len() == 1 { "" } else { "s" };
                format!("{} block{s}, {}", list.len(), size(sum(list)))
            };
            let allocated = [sum(&a), sum(&b)];
            for block in b {
                match a.iter().position(|other| *other == block) {
                    Some(at) => alike.push(a.swap_remove(at)),
                    None => b_alone.push(block),
                }
            }
            let found = row(&told, "alike").unwrap();
            assert_eq!(
                found,
                format!("{}: asked for by the same line, of the same size", words(&alike)),
                "{case}"
            );
            assert_eq!(
                row(&told, "allocated").unwrap(),
                against(Some(allocated[0]), Some(allocated[1])),
                "{case}"
            );
            let reserved = [a_reserved, b_reserved].map(|n| Some(i128::from(n)));
            assert_eq!(row(&told, "reserved").unwrap(), against(reserved[0], reserved[1]), "{case}");
            for (k, (place, alone)) in [("above", &a), ("below", &b_alone)].into_iter().enumerate() {
                assert_eq!(told.only[k].0, format!("only {place}: {}", words(alone)), "{case}");
                let mut lines: BTreeMap<String, Vec<(String, i64)>> = BTreeMap::new();
                alone.iter().for_each(|block| lines.entry(block.0.clone()).or_default().push(block.clone()));
                let mut lines: Vec<(i128, String, Vec<_>)> =
                    lines.into_iter().map(|(name, list)| (-sum(&list), name, list)).collect();
                lines.sort();
                let rest: Vec<_> = lines.iter().skip(NAMED).flat_map(|line| line.2.clone()).collect();
                let mut expected: Vec<String> = lines
                    .iter()
                    .take(NAMED)
                    .map(|(_, name, list)| format!("{name}: {}", words(list)))
                    .collect();
                if !rest.is_empty() {
                    let n = lines.len() - NAMED;
                    expected.push(format!(
                        "{n} more line{}: {}",
                        if n == 1 { "" } else { "s" },
                        words(&rest)
                    ));
                    n_more += 1;
                }
                assert_eq!(told.only[k].1, expected, "{case}");
                n_alone += alone.len();
            }
            n_alike += alike.len();
        }
        let peaks =
            |of: fn(&State) -> i64| [0, 1].map(|k| two[k].states.iter().map(of).max().map(i128::from));
        let told = compare(&apps[0], &apps[1]).unwrap();
        let [a, b] = peaks(|state| state.1);
        assert_eq!(row(&told, "peak reserved").unwrap(), against(a, b), "seed {seed}");
        let [a, b] = peaks(|state| state.0.iter().map(|block| block.1).sum());
        assert_eq!(row(&told, "peak allocated").unwrap(), against(a, b), "seed {seed}");
    }
    assert!(n_alike > 200 && n_alone > 1000 && n_more > 20, "{n_alike}, {n_alone}, {n_more}");
}

#[test]
fn a_stack_has_all_its_frames() {
    let mut value = drawn(1, &[8], 30).value;
    let frame = |line: u64| json!({"filename": "a/train.py", "line": line, "name": "f"});
    value["device_traces"][0][7]["frames"] = (1..=60).map(frame).collect();
    let mut app = app(&Drawn { bytes: pickled(&value), value, states: Vec::new() });
    app.go_to_moment(7);
    let stack = app.over_time().unwrap().told(None).stack;
    assert_eq!((stack.len(), &*stack[59]), (60, "f (a/train.py:60)"), "the outermost is the user's own");
}

/// Snapshots of one device each as one of several: their words for what they hold at the end.
fn joined(all: &[&Drawn]) -> MemoryApp {
    let mut whole = json!({"segments": [], "device_traces": [], "allocator_settings": {}});
    for (device, drawn) in (0u64..).zip(all) {
        let mut one = drawn.value.clone();
        for segment in one["segments"].as_array_mut().unwrap() {
            segment["device"] = json!(device);
            segment["address"] = json!(segment["address"].as_i64().unwrap() + (1 << 44) * device as i64);
        }
        for event in one["device_traces"][0].as_array_mut().unwrap() {
            event["addr"] = json!(event["addr"].as_i64().unwrap() + (1 << 44) * device as i64);
        }
        for key in ["segments", "device_traces"] {
            let more = one[key].as_array().unwrap().clone();
            whole[key].as_array_mut().unwrap().extend(more);
        }
    }
    app(&Drawn { bytes: pickled(&whole), value: whole, states: Vec::new() })
}

#[test]
fn of_several_devices_the_same_one_is_compared() {
    let [a, b, c, d] = [(1, 90), (2, 60), (3, 50), (4, 80)].map(|(seed, n)| drawn(seed, &[8, 20], n));
    // Above the first has the most events, below the second.
    let (mut above, below) = (joined(&[&a, &b]), joined(&[&c, &d]));
    let single = |x: &Drawn, y: &Drawn| compare(&app(x), &app(y)).unwrap();
    let (first, second) = (single(&a, &c), single(&b, &d));
    for (device, alone) in [(0, &first), (1, &second)] {
        let n = above.over_time().unwrap().snapshot().traces[device].len();
        above.go_to_moment_of(Some(device), n);
        let told = compare(&above, &below).unwrap();
        assert_eq!(row(&told, "these of").unwrap(), format!("cuda:{device} in both"));
        for name in ["allocated", "reserved", "peak allocated", "peak reserved", "alike"] {
            assert_eq!(row(&told, name), row(alone, name), "cuda:{device}, {name}");
        }
        assert_eq!(told.only, alone.only, "cuda:{device}");
    }
    // What is not there below is held against what is.
    let told = compare(&above, &app(&c)).unwrap();
    assert_eq!(row(&told, "these of"), Some("cuda:1 above, cuda:0 below"));
    assert_eq!(row(&told, "reserved"), row(&single(&b, &c), "reserved"));
}

#[test]
fn differences_are_said_with_their_side_and_what_is_not_known_as_that() {
    assert_eq!(against(Some(3 << 20), Some(1 << 20)), "3 MiB above, 1 MiB below: 2 MiB more above");
    assert_eq!(against(Some(1 << 20), Some(3 << 20)), "1 MiB above, 3 MiB below: 2 MiB more below");
    assert_eq!(against(Some(512), Some(512)), "512 B in both");
    assert_eq!(against(None, Some(512)), "not recorded above, 512 B below");
    // Without events there is the end alone; without those of either, no peak.
    let (with, without) = (app(&drawn(1, &[8], 30)), app(&drawn(2, &[8], 0)));
    let told = compare(&with, &without).unwrap();
    assert_eq!(row(&told, "moments"), Some("above the end, after 30 events; below the end"));
    assert_eq!(row(&told, "peak reserved"), Some("8 MiB above, not recorded below"));
    assert_eq!(row(&told, "peaks of"), None);
    let told = compare(&without, &without).unwrap();
    assert_eq!((row(&told, "peak reserved"), row(&told, "reserved")), (None, Some("8 MiB in both")));
    assert_eq!(
        told.only,
        ["above", "below"].map(|place| (format!("only {place}: 0 blocks, 0 B"), Vec::new()))
    );
    // Before its past is known there is nothing to say.
    let early = MemoryApp::of_snapshot("s", &drawn(1, &[8], 30).bytes, Theme::LIGHT).unwrap();
    assert_eq!(compare(&early, &with), None);
    let layout = MemoryApp::new(
        "l",
        spanlift::memory::Layout::new(),
        None,
        spanlift::memory::MoveKind::Aware,
        Theme::LIGHT,
    );
    assert_eq!(compare(&with, &layout.unwrap()), None);
}

/// The bars of segments: left end and width.
fn bars(scene: &Scene) -> Vec<(f64, f64)> {
    let is_bar = |r: &&Rect| r.h == super::super::frame::BAR && r.fill == Some(Theme::LIGHT.lane);
    scene.rects().filter(is_bar).map(|r| (r.x, r.w)).collect()
}

/// How high reserved bytes are drawn in a strip at their peak.
fn top(scene: &Scene) -> f64 {
    let Some(Shape::Polygon { points, .. }) = scene.shapes.first() else { panic!("no area") };
    points[0].1 - points.iter().map(|point| point.1).fold(HEIGHT, f64::min)
}

#[test]
fn two_snapshots_have_one_scale_and_their_own_again() {
    // The second is larger in every way: four times the segment, some eight times the bytes.
    let two = [drawn(1, &[8, 8], 50), drawn(2, &[8, 32, 64, 32], 50)];
    let [mut a, mut b] = [app(&two[0]), app(&two[1])];
    let alone = [a.scene(), b.scene()];
    assert_eq!(top(&a.over_time().unwrap().strip(900.0, &Theme::LIGHT)), 42.0);
    assert!(level(&mut a, &mut b) && !level(&mut a, &mut b), "levelled once");
    let [x, y] = [bars(&a.scene()), bars(&b.scene())];
    assert_eq!((x.len(), y.len()), (2, 4));
    assert!(x.iter().all(|bar| *bar == y[0]), "8 MiB are as wide in both: {x:?}, {y:?}");
    assert!(bars(&alone[0])[0].1 > x[0].1, "the largest of the smaller is no longer as wide as the map");
    let strips = [&a, &b].map(|app| app.over_time().unwrap().strip(900.0, &Theme::LIGHT));
    let peaks = [16.0, 136.0];
    assert!((top(&strips[1]) - 42.0).abs() < 1e-9);
    assert!((top(&strips[0]) - 42.0 * peaks[0] / peaks[1]).abs() < 1e-9, "{}", top(&strips[0]));
    let words = strips.each_ref().map(|strip| strip.texts().next().unwrap().text.clone());
    assert_eq!(words[0], "allocated of reserved, 16 MiB at most, to the scale of the other's 136 MiB");
    assert_eq!(words[1], "allocated of reserved, 136 MiB at most; dashed: that of the other, 16 MiB");
    // The dashed line is as high as the peak of the other is drawn in its own strip.
    let line = strips[1].shapes.iter().find_map(|shape| match shape {
        Shape::Path { points, stroke } if stroke.dashed => Some(points[0].1),
        _ => None,
    });
    let base = |strip: &Scene| {
        if let Some(Shape::Polygon { points, .. }) = strip.shapes.first() { points[0].1 } else { 0.0 }
    };
    assert!((base(&strips[1]) - line.unwrap() - top(&strips[0])).abs() < 1e-9, "{line:?}");
    strips.iter().for_each(texts_keep_apart);
    // Earlier the second has no segment but the first: the scale is that of what is there.
    b.go_to_moment(0);
    assert!(level(&mut a, &mut b));
    assert_eq!(bars(&a.scene())[0], bars(&alone[0])[0]);
    // In other widths the names have the same room too.
    for width in [320.0, 700.0, 1400.0] {
        let [x, y] = [&mut a, &mut b].map(|app| {
            app.resize(width, 600.0);
            bars(&app.scene())[0].0
        });
        assert_eq!(x, y, "width {width}");
    }
    // Each for itself.
    [&mut a, &mut b].into_iter().for_each(|app| app.resize(900.0, 600.0));
    b.go_to_moment(50);
    let layout = MemoryApp::new(
        "l",
        spanlift::memory::Layout::new(),
        None,
        spanlift::memory::MoveKind::Aware,
        Theme::LIGHT,
    );
    let mut layout = layout.unwrap();
    let before = layout.scene();
    assert!(level(&mut a, &mut layout) && level(&mut layout, &mut b));
    assert_eq!(
        [a.scene(), b.scene(), layout.scene()].map(|s| s.to_text()),
        [alone[0].to_text(), alone[1].to_text(), before.to_text()]
    );
    assert_eq!(top(&a.over_time().unwrap().strip(900.0, &Theme::LIGHT)), 42.0);
}

#[test]
fn names_have_the_room_of_the_wider_in_both() {
    let short = drawn(1, &[8], 30);
    let mut long = short.bytes.clone();
    // The same with a name as long, byte for byte as many, is no wider; one that is longer is.
    let find = b"forward";
    let at = long.windows(find.len()).position(|w| w == find).unwrap();
    let name = "a_name_that_takes_more_room";
    long.splice(
        at - 4..at + find.len(),
        u32::try_from(name.len()).unwrap().to_le_bytes().into_iter().chain(name.bytes()),
    );
    let long = Drawn { bytes: long, ..short.clone() };
    let [mut a, mut b] = [app(&short), app(&long)];
    [&mut a, &mut b].into_iter().for_each(|app| app.resize(1400.0, 600.0));
    let own = [a.plot_x(), b.plot_x()];
    assert!(own[0] < own[1], "{own:?}");
    assert!(level(&mut b, &mut a));
    assert_eq!([a.plot_x(), b.plot_x()], [own[1], own[1]]);
}

/// A peak between two of the moments at which a strip is exact.
#[test]
fn a_strip_shows_the_peak_wherever_it_is() {
    let mut random = Random(5);
    for seed in 0..6 {
        let n = 900 + usize::try_from(random.below(900)).unwrap();
        let one = drawn(seed, &[8], n);
        let app = app(&one);
        let over = app.over_time().unwrap();
        let most = one
            .states
            .iter()
            .map(|(blocks, _)| blocks.iter().map(|block| block.1).sum::<i64>())
            .max()
            .unwrap();
        let strip = over.strip(900.0, &Theme::LIGHT);
        let areas: Vec<_> = strip
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Polygon { points, .. } => Some(points),
                _ => None,
            })
            .collect();
        let high = areas[1][0].1 - areas[1].iter().map(|point| point.1).fold(HEIGHT, f64::min);
        let expected = 42.0 * most as f64 / (8 * SLOT) as f64;
        assert!((high - expected).abs() < 1e-9, "seed {seed}: {high} for {expected}");
    }
}
