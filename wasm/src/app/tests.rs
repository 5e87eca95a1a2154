//! What each input does, and that no order of them does harm.

use super::*;
use crate::testing::{Random, crowd, race};

fn app() -> App {
    let mut model = Model::new("race", race());
    model.findings[0].push(Finding { first: 4, second: 5, title: "RAW on d".into(), ..Finding::default() });
    let mut app = App::new(model, Theme::LIGHT);
    app.resize(900.0, 320.0);
    app
}

/// Where a slice is drawn.
fn middle(app: &App, k: u32) -> (f64, f64) {
    let of = crate::scene::Of::Slice(k);
    let scene = app.scene();
    let rect = scene.rects().find(|r| r.of == of).unwrap_or_else(|| panic!("slice {k} is not drawn"));
    (rect.x + rect.w / 2.0, rect.y + rect.h / 2.0)
}

#[test]
fn a_trace_without_slices_shows_its_samples_or_says_that_there_is_nothing() {
    let open = |events: &str| {
        let text = format!("{{\"traceEvents\": [{events}]}}");
        let trace = spanlift::trace::read(text.as_bytes()).unwrap();
        let svg = crate::timeline_svg(&trace, &crate::TimelineOptions::default());
        let mut app = App::new(Model::new("t", trace), Theme::LIGHT);
        app.resize(900.0, 400.0);
        (app, svg)
    };
    let sample = |ts: u32| {
        format!("{{\"ph\": \"C\", \"name\": \"c\", \"pid\": 1, \"ts\": {ts}, \"args\": {{\"v\": {ts}}}}}")
    };
    let (app, svg) = open(&[sample(7), sample(9)].join(","));
    assert_eq!(app.model.extent(), (7_000, 9_000));
    assert!(!svg.contains("no slices"));
    let (app, _) = open(r#"{"ph": "i", "name": "m", "pid": 1, "tid": 1, "ts": 5, "s": "t"}"#);
    assert_eq!(app.model.extent(), (5_000, 5_001), "a mark alone");
    let (app, svg) = open("");
    let says =
        |shape: &crate::scene::Shape| matches!(shape, crate::scene::Shape::Text(t) if t.text == "no slices");
    assert!(app.scene().shapes.iter().any(says) && svg.contains("no slices"));
}

#[test]
fn the_wheel_zooms_at_the_pointer() {
    let mut app = app();
    let (x, y) = middle(&app, 5);
    let before = app.view().time_from_x(x - app.frame.gutter);
    app.wheel((x, y), (0.0, -100.0), false);
    assert!(app.view().ns_per_px() < 300.0);
    let after = app.view().time_from_x(x - app.frame.gutter);
    assert!((before - after).abs() <= 1, "{before} {after}");
    app.wheel((x, y), (0.0, 100.0), true);
    assert!(app.view().time_from_x(x - app.frame.gutter) > after, "shift pans");
    let view = app.view();
    app.wheel((3.0, y), (0.0, 100.0), false);
    assert_eq!(app.view(), view, "over the names it scrolls");
}

#[test]
fn a_click_selects_and_a_drag_does_not() {
    let mut app = app();
    let (x, y) = middle(&app, 6);
    app.pressed(x, y);
    app.pointer_moved(x + 2.0, y);
    assert!(app.released(x + 2.0, y));
    assert_eq!((app.selected(), app.selected_command()), (Some(6), Some(5)));
    let view = app.view();
    app.pressed(x, y);
    app.pointer_moved(x - 60.0, y);
    assert!(!app.released(x - 60.0, y));
    assert_eq!(app.selected(), Some(6));
    assert!((app.view().x_from_time(0) - view.x_from_time(0) + 60.0).abs() < 1e-6);
}

#[test]
fn every_key_of_the_table_does_something() {
    let check = |key: &str, shift: bool, expected: &dyn Fn(&App, &App) -> bool| {
        let mut app = app();
        app.select(Some(6));
        let before = app.clone();
        assert!(app.key(key, shift), "{key}");
        assert!(expected(&before, &app), "{key}: {:?} {:?}", app.selected, app.view);
    };
    let scale = |a: &App| a.view().ns_per_px();
    check("w", false, &|a, b| scale(b) < scale(a));
    check("W", true, &|a, b| scale(b) < scale(a) / 3.0);
    check("s", false, &|a, b| scale(b) > scale(a));
    check("a", false, &|a, b| b.view().start_ns() < a.view().start_ns());
    check("d", false, &|a, b| b.view().start_ns() > a.view().start_ns());
    check("D", true, &|a, b| b.view().start_ns() > a.view().start_ns() + 40_000);
    check("f", false, &|_, b| (b.view().x_from_time(34_000) - 60.0).abs() < 15.0);
    check("0", false, &|_, b| b.view().start_ns() < 0);
    check("ArrowRight", false, &|_, b| b.selected() == Some(6));
    check("ArrowUp", false, &|_, b| b.selected() == Some(5));
    check("ArrowDown", false, &|_, b| b.selected() == Some(7));
    check("Enter", false, &|_, b| b.selected() == Some(2));
    check("n", false, &|_, b| b.finding() == Some(0));
    check("m", false, &|_, b| b.mode == Mode::Typical);
    check("Escape", false, &|_, b| b.selected().is_none());
    assert!(!app().key("x", false));
}

#[test]
fn steps_along_a_lane_reach_every_slice() {
    for seed in 0..5 {
        let trace = crowd(seed, 120);
        let n = trace.slices.lane.iter().filter(|&&l| l == 0).count();
        let mut app = App::new(Model::new("crowd", trace), Theme::DARK);
        app.key("ArrowRight", false);
        let mut seen = vec![app.selected().unwrap()];
        loop {
            app.key("ArrowRight", false);
            let now = app.selected().unwrap();
            if seen.last() == Some(&now) {
                break;
            }
            seen.push(now);
        }
        assert_eq!(seen.len(), n, "seed {seed}");
    }
}

#[test]
fn a_finding_is_jumped_to_from_anywhere() {
    let mut app = app();
    app.fit(170_000, 170_100, 0.0);
    assert!(app.select_finding(0));
    middle(&app, 5);
    middle(&app, 6);
    assert_eq!(app.selected(), Some(6));
    assert!(!app.select_finding(1));
    app.fit(170_000, 170_100, 0.0);
    assert!(app.select_command(4) && !app.select_command(77));
    middle(&app, 5);
}

#[test]
fn random_interactions_never_panic_and_keep_the_trace_near() {
    let keys =
        ["w", "s", "a", "d", "f", "0", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter", "n", "m"];
    for seed in 0..10 {
        let mut random = Random(seed);
        let mut app = App::new(Model::new("crowd", crowd(seed, 80)), Theme::LIGHT);
        for _ in 0..200 {
            let at = (random.below(1000) as f64, random.below(500) as f64);
            match random.below(7) {
                0 => app.wheel(at, (0.0, random.below(800) as f64 - 400.0), false),
                1 => app.wheel(at, (random.below(800) as f64 - 400.0, 0.0), true),
                2 => app.pressed(at.0, at.1),
                3 => app.pointer_moved(at.0, at.1),
                4 => drop(app.released(at.0, at.1)),
                5 => app.resize(at.0, at.1),
                _ => drop(app.key(random.pick(keys), random.below(2) == 0)),
            }
            let scene = app.scene();
            assert!(scene.width > 0.0);
            let whole = 1_100_000.0;
            assert!(app.view().ns_per_px() * app.view().width_px() < whole * 1.5, "seed {seed}");
        }
    }
}
