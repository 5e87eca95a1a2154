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
        ("span", "elements 7 to 9907, both inclusive"),
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
