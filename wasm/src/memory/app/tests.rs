//! What each input does to a memory map, and that no order of them does harm.

use super::*;
use crate::testing::Random;
use spanlift::Bytes;
use spanlift::memory::{Dtype, View, cpu, cuda};

/// A matrix, a column and a row of it, something apart; and a second storage.
fn app() -> MemoryApp {
    let mut layout = Layout::new();
    let w = layout.storage("w", cpu(), Bytes(64_000)).unwrap();
    let v = layout.storage("v", cpu(), Bytes(4000)).unwrap();
    let mut add = |name: &str, of, shape: &[i64], strides: &[i64], offset| {
        let view = View { dtype: Dtype::F32, shape: shape.to_vec(), strides: strides.to_vec(), offset };
        layout.tensor(name, of, view).unwrap();
    };
    add("matrix", w, &[100, 100], &[100, 1], 0);
    add("column", w, &[100], &[100], 7);
    add("row", w, &[100], &[1], 300);
    add("apart", w, &[10], &[1], 15_000);
    add("other", v, &[1000], &[1], 0);
    let mut app =
        MemoryApp::new("m", layout, Some(Target::Device(cuda(0))), MoveKind::Aware, Theme::LIGHT).unwrap();
    app.resize(1000.0, 400.0);
    app
}

/// The middle of a tensor's row.
fn row(app: &MemoryApp, k: usize) -> f64 {
    let row = app.frame.rows.iter().find(|r| matches!(r.item, Item::View { tensor, .. } if tensor == k));
    row.map(|r| r.y + 6.0 - app.focus.scroll).unwrap()
}

#[test]
fn the_wheel_zooms_at_the_pointer_and_stops_at_the_ends() {
    let mut app = app();
    let (x, y) = (app.frame.panels.gutter + 100.0, row(&app, 0));
    for factor in [-200.0, -300.0, -100.0, 100.0] {
        let before = byte_at(&app.axis_at(0, x), x);
        let pixel = app.axis_at(0, x).bytes() / 100;
        assert!(app.wheel((x, y), (0.0, factor), Turn::Zoom), "{factor}");
        assert!((byte_at(&app.axis_at(0, x), x) - before).abs() <= pixel.max(1), "{factor}");
    }
    let near = app.window(0);
    assert!(near.1 - near.0 < 64_000 && app.window(1) == (0, 4000), "only this storage is zoomed");
    assert!(app.wheel((x, y), (0.0, 300.0), Turn::Pan));
    assert!(app.window(0).0 > near.0, "shift pans");
    for _ in 0..80 {
        app.wheel((x, y), (0.0, -400.0), Turn::Zoom);
    }
    assert_eq!(app.window(0).1 - app.window(0).0, CLOSEST);
    for _ in 0..80 {
        app.wheel((x, y), (0.0, 400.0), Turn::Zoom);
    }
    assert_eq!(app.window(0), (0, 64_000));
    assert!(!app.wheel((x, y), (0.0, 400.0), Turn::Zoom), "nothing moves");
    app.resize(1000.0, 100.0);
    assert!(app.wheel((x, 50.0), (0.0, 60.0), Turn::Scroll));
    assert_eq!((app.scroll(), app.window(0)), (60.0, (0, 64_000)), "it scrolls");
    assert!(
        app.wheel((x, 50.0), (0.0, 9e9), Turn::Scroll) && !app.wheel((x, 50.0), (0.0, 1.0), Turn::Scroll)
    );
}

#[test]
fn what_is_looked_at_is_said_in_words_and_looked_at_again() {
    let mut app = app();
    assert_eq!(app.looks(), (String::new(), String::new()));
    app.wheel((app.frame.panels.gutter + 100.0, row(&app, 0)), (0.0, -300.0), Turn::Zoom);
    app.select(Some(2));
    app.key("Enter", false);
    let (looks, part) = (app.looks(), app.window(0));
    assert_eq!(looks, (format!("0.{}.{}.{MORE}", part.0, part.1), "2".to_owned()));
    let mut other = self::app();
    other.look_at(&looks.0, &looks.1);
    assert_eq!((other.window(0), other.window(1), other.selected()), (part, (0, 4000), Some(2)));
    assert_eq!((other.looks(), other.partners()), (looks, app.partners()));
    other.look_at("", "s1");
    assert_eq!((other.looks(), other.selected_storage()), ((String::new(), "s1".to_owned()), Some(1)));
    // What nobody wrote does no harm.
    for bytes in ["7.0.5", "x", "0.5", "0.9.3.-1", "0.-5.99999999999,1.0.1.9223372036854775807", "0.1e3.5"] {
        for chosen in ["99", "s99", "-1", "s", "x"] {
            other.look_at(bytes, chosen);
            assert_eq!((other.selected(), other.selected_storage()), (None, None), "{chosen}");
            let (lo, hi) = other.window(0);
            assert!(0 <= lo && lo < hi && hi <= 64_000, "{bytes}");
            other.scene();
        }
    }
}

#[test]
fn a_selected_view_names_those_that_share_its_bytes() {
    let mut app = app();
    let y = row(&app, 1);
    app.pressed(300.0, y, Grip::Main);
    app.released(300.0, y);
    assert_eq!((app.selected(), app.partners()), (Some(1), vec![0, 2]));
    let details = app.details().unwrap();
    let value = |name: &str| details.rows.iter().find(|r| r.0 == name).map(|r| r.1.as_str());
    assert_eq!((&*details.title, &*details.place), ("column", "view of w on cpu"));
    for (name, expected) in [
        ("type", "f32, 4 B an element"),
        ("strides", "[100] elements"),
        ("offset", "7 elements, byte 28"),
        ("span", "elements 7 to 9,907, both inclusive"),
        ("bytes", "[28, 39,632)"),
        ("touches", "400 B"),
        ("shares with", "matrix, row"),
        ("after", "w@cuda:0, offset 7 elements"),
    ] {
        assert_eq!(value(name), Some(expected), "{name}");
    }
    app.key("ArrowRight", false);
    assert_eq!((app.selected(), app.partners()), (Some(2), vec![0, 1]));
    app.key("ArrowDown", false);
    app.key("f", false);
    assert_eq!((app.selected(), app.partners()), (Some(3), vec![]));
    assert!(app.window(0).1 - app.window(0).0 < 64_000);
    app.key("Escape", false);
    assert_eq!(app.details(), None);
}

#[test]
fn the_other_kind_of_move_is_planned_in_place() {
    let mut app = app();
    let allocations = |app: &MemoryApp| app.map().plan.as_ref().map(|p| p.allocations.len());
    assert_eq!((app.kind(), allocations(&app)), (Some(MoveKind::Aware), Some(3)));
    assert!(app.key("y", false));
    assert_eq!((app.kind(), allocations(&app)), (Some(MoveKind::Naive), Some(5)));
    assert!(app.scene().texts().any(|t| t.text.contains("4 allocations, one for each view")));
}

#[test]
fn more_views_are_drawn_when_asked_for() {
    let mut layout = Layout::new();
    let s = layout.storage("s", cpu(), Bytes(8 * 5000)).unwrap();
    for k in 0..5000 {
        let view = View { dtype: Dtype::F32, shape: vec![1], strides: vec![1], offset: k };
        layout.tensor(&format!("t{k}"), s, view).unwrap();
    }
    let mut app = MemoryApp::new("many", layout, None, MoveKind::Aware, Theme::DARK).unwrap();
    app.resize(900.0, 500.0);
    let n = app.frame.rows.len();
    assert!(n < LIMITS.views + 10);
    app.key("Enter", false);
    assert_eq!(app.frame.rows.len(), n + MORE);
    assert!(app.scene().shapes.len() < 2000, "rows out of sight are not drawn");
}

#[test]
fn no_order_of_inputs_does_harm() {
    let keys = [
        "w",
        "s",
        "a",
        "d",
        "f",
        "0",
        "n",
        "N",
        "y",
        "Enter",
        "Escape",
        "ArrowUp",
        "ArrowDown",
        "ArrowLeft",
        "ArrowRight",
        "PageUp",
        "PageDown",
        "?",
    ];
    for seed in 0..6 {
        let (mut app, mut random) = (app(), Random(seed));
        for _ in 0..400 {
            let (x, y) = (random.below(1100) as f64 - 50.0, random.below(500) as f64 - 50.0);
            match random.below(8) {
                0 => app.pressed(x, y, random.pick([Grip::Main, Grip::Pan, Grip::Touch])),
                1 => app.released(x, y),
                2 | 3 => app.pointer_moved(x, y),
                4 => drop(app.wheel(
                    (x, y),
                    (random.below(200) as f64 - 100.0, random.below(1000) as f64 - 500.0),
                    random.pick([Turn::Scroll, Turn::Pan, Turn::Zoom]),
                )),
                5 => app.resize(random.below(2000) as f64, random.below(900) as f64),
                _ => drop(app.key(keys[usize::try_from(random.below(18)).unwrap()], random.below(4) == 0)),
            }
            let _ = (app.scene(), app.tip(), app.details(), app.in_sight());
            for storage in 0..2 {
                let (lo, hi) = app.window(storage);
                assert!(0 <= lo && lo < hi && hi <= [64_000, 4000][storage], "seed {seed}: {lo}..{hi}");
            }
        }
    }
}

#[test]
fn the_byte_that_is_pointed_at_is_written_as_in_all_other_places() {
    let mut app = app();
    let axis = app.axis_at(0, 0.0);
    let bar = app.frame.rows.iter().find(|row| matches!(row.item, Item::Storage(0))).unwrap();
    app.pointer_moved(axis.x + axis.w * 0.999, bar.y + 5.0);
    let (_, told) = app.tip().unwrap();
    assert!(told.starts_with("62.50 KiB · byte 63,9"), "{told}");
}

#[test]
fn a_drag_takes_bytes_and_rows_along_with_the_pointer() {
    let mut app = app();
    app.resize(1000.0, 100.0);
    let (x, y) = (app.frame.panels.gutter + 200.0, row(&app, 0));
    for _ in 0..8 {
        app.wheel((x, y), (0.0, -200.0), Turn::Zoom);
    }
    for (dx, dy) in [(STILL, 0.0), (0.0, -STILL)] {
        app.pressed(x, y, Grip::Main);
        app.pointer_moved(x + dx, y + dy);
        assert!(!app.is_dragging() && app.tip().is_some(), "{dx}, {dy}");
        app.let_go();
    }
    for (dx, dy) in [(STILL + 1.0, 0.0), (-30.0, 0.0), (0.0, STILL + 1.0), (2.0, -STILL - 1.0)] {
        app.set_scroll(20.0);
        let y = row(&app, 0);
        app.pressed(x, y, Grip::Main);
        let under = byte_at(&app.axis_at(0, x), x);
        for part in [1.0, 2.0, 1.5] {
            app.pointer_moved(x + part * dx, y + part * dy);
            assert!(app.is_dragging() && app.tip().is_none(), "{dx}, {dy}");
            let axis = app.axis_at(0, x);
            let off = (byte_at(&axis, x + part * dx) - under).abs();
            // Each move is a whole number of bytes.
            assert!(off as f64 <= 3.0 + 3.0 * axis.bytes() as f64 / axis.w, "{dx}, {dy}: {off} bytes off");
            assert_eq!(app.scroll(), 20.0 - part * dy, "{dx}, {dy}");
        }
        app.released(x, y);
        assert_eq!((app.is_dragging(), app.selected()), (false, None));
    }
    // Sideways the wheel pans what is below the pointer; up and a little aside it scrolls.
    app.set_scroll(40.0);
    let (y, before) = (row(&app, 0), app.window(0));
    assert!(app.wheel((x, y), (60.0, -20.0), Turn::Scroll));
    assert!(before.0 < app.window(0).0 && app.scroll() == 40.0);
    let before = app.window(0);
    assert!(app.wheel((x, y), (10.0, -30.0), Turn::Scroll));
    assert_eq!((app.window(0), app.scroll()), (before, 10.0));
    // Beside the bar what is at its end stays there.
    for (x, at) in [(2.0, 0), (app.frame.panels.gutter + app.frame.panels.width + 3.0, 1)] {
        app.key("0", false);
        app.set_scroll(0.0);
        let y = row(&app, 0);
        app.wheel((x, y), (0.0, -200.0), Turn::Zoom);
        let window = app.window(0);
        assert!(window.1 - window.0 < 64_000);
        if app.frame.panels.after.is_none_or(|(_, below)| below) || at == 0 {
            assert_eq!([window.0, window.1][at], [0, 64_000][at], "at {x}");
        }
    }
}

/// Left and right go through those that share a byte with the selected view, in a circle; each comes into sight.
#[test]
fn keys_go_through_all_that_share_bytes_and_each_is_looked_at_from_end_to_end() {
    let mut n_partners = 0;
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut layout = Layout::new();
        let mut bytes: Vec<Vec<i64>> = Vec::new();
        let mut homes = Vec::new();
        for s in 0..2 {
            let storage = layout.storage(&format!("s{s}"), cpu(), Bytes(600)).unwrap();
            for k in 0..9 {
                let number = |n: u64| i64::try_from(n).unwrap();
                let (n, stride) = (number(1 + random.below(9)), number(1 + random.below(7)));
                let offset = number(random.below(80));
                let view = View { dtype: Dtype::F32, shape: vec![n], strides: vec![stride], offset };
                layout.tensor(&format!("t{s}{k}"), storage, view).unwrap();
                bytes.push((0..n).flat_map(|i| (0..4).map(move |b| 4 * (offset + i * stride) + b)).collect());
                homes.push(s);
            }
        }
        let mut app = MemoryApp::new("m", layout, None, MoveKind::Aware, Theme::LIGHT).unwrap();
        app.resize(900.0, 110.0);
        for k in 0..bytes.len() {
            let is_partner = |&o: &usize| {
                o != k && homes[o] == homes[k] && bytes[o].iter().any(|byte| bytes[k].contains(byte))
            };
            let partners: Vec<usize> = (0..bytes.len()).filter(is_partner).collect();
            n_partners += partners.len();
            app.select(Some(k));
            assert_eq!(app.partners(), partners, "seed {seed}: {k}");
            let next = partners.iter().find(|&&o| o > k).or(partners.first()).copied();
            let last = partners.iter().rfind(|&&o| o < k).or(partners.last()).copied();
            for (key, to) in [("ArrowRight", next), ("n", next), ("ArrowLeft", last), ("N", last)] {
                app.select(Some(k));
                app.key(key, false);
                assert_eq!(app.selected(), to.or(Some(k)), "seed {seed}: {key} from {k}");
                if let Some(to) = to {
                    let y = row(&app, to);
                    assert!((0.0..=110.0).contains(&y), "seed {seed}: {to} is at {y}");
                }
            }
            app.select(Some(k));
            app.key("f", false);
            let (lo, hi) = (bytes[k][0], bytes[k][bytes[k].len() - 1] + 1);
            let (from, to) = app.window(homes[k]);
            assert!(from <= lo && hi <= to, "seed {seed}: {k}");
            let room = ((hi - lo) / 20).max(4);
            assert!(lo - from <= room && to - hi <= room + CLOSEST, "seed {seed}: {k}");
            app.key("0", false);
        }
    }
    assert!(n_partners > 100, "{n_partners}");
}

/// On the bar of a segment: the block under the pointer, else one within a pixel, the nearest first; beside the bar none.
#[test]
fn a_block_of_a_segment_is_pointed_at_where_it_lies() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let Ok(bytes) = std::fs::read(folder.join("snapshot_small_p4.pickle")) else { return };
    let mut app = MemoryApp::of_snapshot("s", &bytes, Theme::LIGHT).unwrap();
    app.resize(900.0, 4000.0);
    let mut random = Random(3);
    let (mut n_hit, mut n_beside, mut n_none) = (0, 0, 0);
    for zoomed in [false, true] {
        for storage in 0..app.map.held.len() {
            let row = app.frame.rows.iter().find(|r| matches!(r.item, Item::Storage(k) if k == storage));
            let y = row.map(|row| row.y + 6.0).unwrap();
            let axis = app.axis_at(storage, 500.0);
            if zoomed {
                app.wheel((axis.x + axis.w * 0.4, y), (0.0, -500.0), Turn::Zoom);
            }
            let axis = app.axis_at(storage, 500.0);
            let blocks: Vec<_> =
                app.map.tensors(storage).iter().map(|&k| (k, app.map.span(k).bounds().unwrap())).collect();
            for _ in 0..60 {
                let x = axis.x - 4.0 + (axis.w + 8.0) * random.below(1000) as f64 / 1000.0;
                let found = app.view_at(x, y);
                let at = byte_at(&axis, x);
                let (lo, hi) = (byte_at(&axis, x - 1.0), byte_at(&axis, x + 1.0));
                let away = |(from, to): (i64, i64)| if to <= at { at + 1 - to } else { (from - at).max(0) };
                let near = blocks.iter().filter(|(_, (from, to))| *from <= hi && lo < *to);
                let least = near.map(|(_, span)| away(*span)).min();
                let is_on = axis.x <= x && x <= axis.x + axis.w;
                let told = found.map(|k| away(blocks.iter().find(|(of, _)| *of == k).unwrap().1));
                assert_eq!(told, least.filter(|_| is_on), "{storage} at {x}");
                match told {
                    Some(0) => n_hit += 1,
                    Some(_) => n_beside += 1,
                    None => n_none += 1,
                }
            }
        }
    }
    assert!(n_hit > 300 && n_beside > 5 && n_none > 50, "{n_hit}, {n_beside}, {n_none}");
}

#[test]
fn keys_pan_and_zoom_the_bytes_that_they_are_about() {
    let mut app = app();
    let start = |app: &mut MemoryApp| {
        app.key("0", false);
        app.select(Some(0));
        app.look_at("0.30000.34000.0", "0");
        (app.window(0), app.axis_at(0, 0.0))
    };
    let length = |window: (i64, i64)| window.1 - window.0;
    for (key, shift, by) in [("d", false, 0.1), ("a", false, -0.1), ("D", true, 0.5), ("A", true, -0.5)] {
        let (before, axis) = start(&mut app);
        app.key(key, shift);
        let moved = (app.window(0).0 - before.0) as f64;
        let wanted = by * app.frame.panels.width / axis.w * 4000.0;
        assert!(
            (moved - wanted).abs() <= 1.0 && length(app.window(0)) == 4000,
            "{key}: {moved}, not {wanted}"
        );
    }
    for (key, shift, nearer) in [("w", false, 1.3), ("s", false, 1.0 / 1.3), ("W", true, 1.3f64.powi(5))] {
        let (before, _) = start(&mut app);
        app.key(key, shift);
        let found = length(before) as f64 / length(app.window(0)) as f64;
        assert!((found / nearer - 1.0).abs() < 0.002, "{key}: {found}, not {nearer}");
        let middle = |window: (i64, i64)| (window.0 + window.1) / 2;
        assert!((middle(before) - middle(app.window(0))).abs() <= 2, "{key}");
    }
}

/// A part alone, more views alone, and nothing: each comes back by its words.
#[test]
fn each_look_has_words_of_its_own() {
    let mut app = app();
    for (bytes, window) in
        [("0.100.900.0", (100, 900)), ("0.0.0.200", (0, 64_000)), ("0.100.900.200", (100, 900))]
    {
        app.look_at(bytes, "");
        assert_eq!((app.looks().0, app.window(0)), (bytes.to_owned(), window));
    }
    app.look_at("0.100.900.0", "");
    app.key("f", false);
    assert_eq!(app.window(0), (100, 900), "nothing is chosen");
    app.look_at("1.100.900.0", "s1");
    app.key("f", false);
    assert_eq!((app.looks().0, app.window(1)), (String::new(), (0, 4000)), "all of a chosen storage");
}

#[test]
fn a_snapshot_tells_its_past_and_its_segments_and_parts_stay_in_sight() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let Ok(bytes) = std::fs::read(folder.join("snapshot_small_p4.pickle")) else { return };
    let open = || {
        let mut app = MemoryApp::of_snapshot("s", &bytes, Theme::LIGHT).unwrap();
        app.resize(900.0, 500.0);
        app
    };
    // Whichever comes first, the past or what it is compared with.
    let (mut one, mut other) = (open(), open());
    let beside = Scale { peak: 1 << 40, ..one.scale().unwrap() };
    assert!(one.level(Some(beside)) && one.look_back());
    assert!(other.look_back() && other.level(Some(beside)));
    let strip = |app: &MemoryApp| app.over_time().unwrap().strip(900.0, &Theme::LIGHT);
    assert_eq!(strip(&one), strip(&other));
    assert_ne!(strip(&one), {
        let mut app = open();
        app.look_back();
        strip(&app)
    });
    let mut app = open();
    let before = app.notes();
    assert!(app.look_back());
    let (n, device) = (app.over_time().unwrap().n_events(), app.over_time().unwrap().main().0);
    let told = format!("cuda:{device}: {} recorded, at the peak ", crate::text::count(n, "event"));
    assert!(!before.iter().any(|note| note.starts_with(&told)));
    assert!(app.notes().iter().any(|note| note.starts_with(&told)), "{:?}", app.notes());
    let names = |app: &MemoryApp| -> Vec<String> {
        (0..app.map.held.len()).map(|k| format!("{} {}", app.map.storage(k).id, app.map.size(k))).collect()
    };
    let (mut n_same, mut n_other) = (0, 0);
    for moment in (0..n).step_by(n / 60) {
        app.go_to_moment(moment);
        // Each segment tells the bytes of its blocks.
        for k in 0..app.map.held.len() {
            let sizes = app.map.tensors(k).iter().map(|&view| app.map.life(view).unwrap().1.size);
            let (count, all) = (app.map.tensors(k).len(), sizes.sum::<i64>().unsigned_abs());
            let value = |name: &str| {
                let details = app.map.storage_details(k);
                details.rows.into_iter().find(|row| row.0 == name).map(|row| row.1)
            };
            assert_eq!(value("blocks"), Some(spanlift::text::grouped(count)));
            assert_eq!(value("in blocks"), Some(crate::text::bytes(all)), "{k} at {moment}");
            assert_eq!(value("free"), Some(crate::text::bytes(app.map.size(k) - all)), "{k} at {moment}");
        }
        if app.map.held.is_empty() {
            continue;
        }
        app.look_at("0.1000.9000.0", "");
        let (before, window) = (names(&app), app.window(0));
        app.key("]", false);
        let is_same = names(&app) == before;
        assert_eq!(app.looks().0.is_empty(), !is_same, "at {moment}");
        if is_same {
            assert_eq!(app.window(0), window);
            n_same += 1;
        } else {
            n_other += 1;
        }
    }
    assert!(n_same > 9, "{n_same}, {n_other}");
}
