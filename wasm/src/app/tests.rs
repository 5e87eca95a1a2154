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
fn no_name_stands_where_the_page_says_that_rows_go_on() {
    let text = "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n";
    let program = Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap();
    for mut app in [app(), App::new(program, Theme::LIGHT)] {
        for height in 60..700 {
            app.resize(900.0, f64::from(height));
            let goes_on = app.end() > f64::from(height) + 12.0;
            let (scene, gutter) = (app.scene(), app.frame.gutter);
            let mut names = scene.texts().filter(|text| text.x < gutter && text.y > crate::timeline::RULER);
            let last = f64::from(height) - 16.0;
            assert!(!goes_on || names.all(|text| text.y + text.size / 2.0 <= last), "{height}");
        }
    }
}

#[test]
fn what_is_stepped_to_comes_into_sight_without_empty_time_beside_it() {
    let text = "stream s\npinned x 4MiB\ndevice d 4MiB\nrepeat i 9\ncopy d <- x on s\nsync s\nend\n";
    let model = Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap();
    let mut app = App::new(model, Theme::LIGHT);
    app.resize(900.0, 600.0);
    let (first, last) = app.model.extent();
    for by in ["[", "]"] {
        app.show(first + (last - first) / 3, first + (last - first) * 2 / 3);
        for _ in 0..30 {
            app.key(by, false);
            let (at, view) = (app.at().unwrap(), app.view());
            let width = app.plot().1;
            assert!((0.0..=width).contains(&view.x_from_time(at)), "{by}: {at} is not on screen");
            let (x0, x1) = (view.x_from_time(first), view.x_from_time(last));
            assert!(x0 <= width * 0.05 && width * 0.95 <= x1, "{by} at {at}: {x0} to {x1} of {width}");
        }
    }
}

#[test]
fn the_first_slice_is_shown_without_time_before_the_trace_and_where_it_is_to_all_digits() {
    let text = "stream s\npinned x 4MiB\ndevice d 4MiB\nrepeat i 900\ncopy d <- x on s\nsync s\nend\n";
    let model = Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap();
    let mut app = App::new(model, Theme::LIGHT);
    app.resize(900.0, 600.0);
    let (first, last) = app.model.extent();
    app.key("ArrowRight", false);
    for key in ["ArrowRight", "ArrowLeft", "ArrowDown"] {
        app.key(key, false);
        let (view, width) = (app.view(), app.plot().1);
        let slices = &app.model.trace.slices;
        let k = app.selected().unwrap() as usize;
        let (x0, x1) = (view.x_from_time(slices.start[k]), view.x_from_time(slices.end[k]));
        assert!(0.0 <= x0 && x1 <= width && 1.0 < x1 - x0, "{key}: {x0} to {x1}");
        assert!(view.x_from_time(first) <= width * 0.05, "{key}: {}", view.x_from_time(first));
    }
    // Far from the beginning a few digits name no place.
    let from = last - 54_321;
    app.show(from, from + 10_007);
    let view = app.view();
    assert_eq!(app.on_screen(), format!("{} from {}", text::time(10_007), app.model.moment(view.start_ns())));
    assert_eq!(app.model.moment(view.start_ns()), axis_of(view.start_ns() - app.model.rows.zero()));
}

#[test]
fn the_pointer_says_another_time_at_another_pixel_in_a_close_look_and_few_digits_in_a_wide_one() {
    let text = "stream s\npinned x 4MiB\ndevice d 4MiB\nrepeat i 900\ncopy d <- x on s\nsync s\nend\n";
    let model = Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap();
    let mut app = App::new(model, Theme::LIGHT);
    app.resize(900.0, 600.0);
    let (_, last) = app.model.extent();
    let tag = |app: &mut App, x: f64| {
        app.pointer_moved(x, 100.0);
        let (scene, ink) = (app.scene(), app.theme.hazard.ink());
        scene.texts().find(|t| t.y < RULER && t.color == ink).map(|t| t.text.clone()).unwrap()
    };
    let wide = tag(&mut app, 500.0);
    assert_eq!(wide.chars().filter(char::is_ascii_digit).count(), 4, "{wide}");
    for length in [1_000_000, 30_000, 700] {
        app.show(last - 2_000_000, last - 2_000_000 + length);
        for x in [300.0, 500.0, 700.0] {
            let (near, next) = (tag(&mut app, x), tag(&mut app, x + 2.0 + 800.0 / length as f64));
            assert_ne!(near, next, "{length} ns on screen, at {x}");
        }
    }
    app.show(last - 2_000_000, last - 1_999_300);
    let at = app.view().time_from_x(500.0 - app.plot().0);
    assert_eq!(tag(&mut app, 500.0), axis_of(at - app.model.rows.zero()), "of nanoseconds each is told");
}

/// A point in time to the nanosecond, by way of its digits.
fn axis_of(ns: i64) -> String {
    let digits = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
    format!("{} ms", digits.trim_end_matches('0'))
}

#[test]
fn a_name_that_is_cut_is_told_where_it_stands() {
    let long = "upload_of_the_second_half_".repeat(9);
    let text =
        format!("stream {long}, b\npinned x 8\ndevice d 8\ncopy d <- x on {long}\nkernel k on b for 1us\n");
    let model = Model::open(&crate::pack::PageItem::source("p", &text, "h200-pcie5")).unwrap();
    let mut app = App::new(model, Theme::LIGHT);
    app.resize(900.0, 600.0);
    for (name, told) in [(&*long, Some(long.clone())), ("b", None)] {
        let row = app.model.rows.rows.iter().position(|row| row.name == name).unwrap();
        let (top, height) = app.frame.row(row);
        app.pointer_moved(20.0, top + height / 2.0);
        assert_eq!(app.hovered_buffer().map(|(name, _)| name), told);
        app.pointer_moved(app.frame.gutter + 1.0, top + height / 2.0);
        assert_eq!(app.hovered_buffer(), None, "over the plot");
    }
}

#[test]
fn names_have_as_much_room_as_another_timeline_needs_and_lanes_have_some_too() {
    let mut app = app();
    let (alone, view) = (app.plot(), app.view());
    assert_eq!(app.widen(alone.0 + 50.0), alone.0, "what its own names take");
    assert_eq!(app.plot(), (alone.0 + 50.0, alone.1 - 50.0));
    assert_eq!((app.view().start_ns(), app.view().end_ns()), (view.start_ns(), view.end_ns()));
    // A viewer that is hidden has no size.
    app.resize(0.0, 0.0);
    assert!(app.plot().1 >= 40.0, "{:?}", app.plot());
    app.scene();
    app.resize(900.0, 320.0);
    app.widen(0.0);
    assert_eq!(app.plot(), alone);
}

#[test]
fn the_wheel_scrolls_zooms_at_the_pointer_and_pans() {
    let mut app = app();
    let (x, y) = middle(&app, 5);
    let view = app.view();
    assert!(!app.wheel((x, y), (0.0, -100.0), Turn::Scroll), "at its top nothing moves");
    assert!(app.wheel((x, y), (0.0, -100.0), Turn::Zoom));
    let before = view.time_from_x(x - app.frame.gutter);
    assert!(app.view().ns_per_px() < 300.0);
    let after = app.view().time_from_x(x - app.frame.gutter);
    assert!((before - after).abs() <= 1, "{before} {after}");
    assert!(app.wheel((x, y), (0.0, 100.0), Turn::Pan));
    assert!(app.view().time_from_x(x - app.frame.gutter) > after, "shift pans");
    let start = app.view().start_ns();
    assert!(app.wheel((x, y), (50.0, 3.0), Turn::Scroll) && app.view().start_ns() > start, "sideways pans");
    let view = app.view();
    app.resize(900.0, 120.0);
    let view = view.resize(app.frame.plot_width);
    assert!(app.wheel((x, y), (0.0, 100.0), Turn::Scroll));
    assert_eq!((app.view(), app.scroll()), (view, 100.0), "it scrolls");
    assert!(
        app.wheel((x, y), (0.0, 9e9), Turn::Scroll) && !app.wheel((x, y), (0.0, 1.0), Turn::Scroll),
        "to the end"
    );
}

#[test]
fn what_is_zoomed_out_to_is_in_sight_wherever_the_pointer_is() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut app = App::new(Model::new("crowd", crowd(seed, 80)), Theme::LIGHT);
        app.resize(900.0, 320.0);
        let (first, last) = app.model.extent();
        let (left, width) = app.plot();
        for _ in 0..12 {
            let at = left + width * random.below(1000) as f64 / 1000.0;
            app.wheel((at, 100.0), (0.0, -(random.below(400) as f64)), Turn::Zoom);
            app.wheel((at, 100.0), (random.below(3000) as f64 - 1500.0, 0.0), Turn::Pan);
        }
        for _ in 0..80 {
            let at = left + width * random.below(1000) as f64 / 1000.0;
            app.wheel((at, 100.0), (0.0, 120.0), Turn::Zoom);
            let (x0, x1) = (app.view().x_from_time(first), app.view().x_from_time(last));
            assert!(x0 < width && 0.0 < x1, "seed {seed}: {x0} to {x1}");
            let is_all = 0.0 <= x0 + 1e-6 && x1 <= width + 1e-6;
            assert!(x1 - x0 > width || is_all, "seed {seed}: {x0} to {x1} of {width}");
        }
        assert!(app.view().start_ns() <= first && last <= app.view().end_ns(), "seed {seed}");
    }
}

#[test]
fn the_base_of_an_axis_has_its_unit_and_nothing_over_it() {
    let mut app = App::new(Model::new("crowd", crowd(1, 80)), Theme::LIGHT);
    // Far from the beginning, where a base is named.
    let last = 1_999_999_937;
    app.reach(Some((0, 2_000_000_000)));
    let mut n = 0;
    for width in [420.0, 700.0, 1100.0] {
        app.resize(width, 320.0);
        app.pointer_left();
        for length in [7, 20, 45, 130] {
            app.show(last - 9_999 - length, last - 9_999);
            let scene = app.scene();
            if let Some(base) = scene.texts().find(|text| text.text.starts_with("from ")) {
                n += 1;
                assert!(base.text.ends_with(" s") && !base.text.contains('…'), "{}", base.text);
                let right = base.bounds().2;
                for label in scene.texts().filter(|t| t.y < RULER && t.text.starts_with(['+', '-'])) {
                    assert!(right <= label.bounds().0, "{} below {}", label.text, base.text);
                }
            }
        }
    }
    assert!(n > 3, "{n}");
}

#[test]
fn a_click_on_the_ruler_chooses_a_moment_that_is_on_screen() {
    let mut app = app();
    app.resize(900.0, 400.0);
    for _ in 0..6 {
        app.key("w", false);
    }
    // The ruler reaches to the edge of the picture, the plot does not.
    let end = app.view().end_ns();
    for x in [880.0, 888.1, 895.0, 899.9] {
        app.pressed(x, 8.0, Grip::Main);
        assert!(app.released(x, 8.0));
        assert!(app.at().is_some_and(|at| at <= end), "{:?} at {x} of {end}", app.at());
    }
    assert_eq!(app.at(), Some(end));
}

#[test]
fn a_click_selects_and_a_drag_does_not() {
    let mut app = app();
    let (x, y) = middle(&app, 6);
    app.pressed(x, y, Grip::Main);
    app.pointer_moved(x + 2.0, y);
    assert!(app.released(x + 2.0, y));
    assert_eq!((app.selected(), app.selected_command()), (Some(6), Some(5)));
    let drags = |app: &mut App, from: (f64, f64), to: (f64, f64), grip| {
        app.pressed(from.0, from.1, grip);
        app.pointer_moved(to.0, to.1);
        assert!(!app.released(to.0, to.1), "a drag is no click");
        assert_eq!(app.selected(), Some(6));
    };
    // What pans: the ruler, the middle button and the space bar anywhere, a finger.
    for (y, grip) in [(8.0, Grip::Main), (y, Grip::Pan), (y, Grip::Touch)] {
        let view = app.view();
        drags(&mut app, (x, y), (x - 60.0, y), grip);
        assert!((app.view().x_from_time(0) - view.x_from_time(0) + 60.0).abs() < 1e-6, "{grip:?}");
        assert_eq!(app.range(), None);
        app.fit_all();
    }
    app.pressed(x, y, Grip::Pan);
    assert!(!app.released(x, y), "a click of the middle button means nothing");
    // What chooses: with shift all lanes, else those that the drag goes over.
    let view = app.view();
    let times = |a: f64, b: f64| {
        let time = |x: f64| view.time_from_x(x - app.frame.gutter);
        Some((time(a), time(b)))
    };
    let (whole, part) = (times(x - 90.0, x + 10.0), times(x - 30.0, x + 30.0));
    drags(&mut app, (x + 10.0, y), (x - 90.0, y), Grip::Range);
    assert_eq!((app.range(), app.lanes(), app.view()), (whole, None, view));
    drags(&mut app, (x - 30.0, y), (x + 30.0, y + 3.0), Grip::Main);
    let row = app.row_at(Some(y)).unwrap();
    assert_eq!((app.range(), app.lanes(), app.view()), (part, Some((row, row)), view));
    drags(&mut app, (x - 30.0, y), (x + 30.0, y - 30.0), Grip::Main);
    assert_eq!(app.lanes(), Some((row - 1, row)), "up as well as down");
    app.shift_row(row, -1);
    assert_eq!(
        (app.range(), app.lanes()),
        (None, None),
        "rows that stand elsewhere: not silently a range of all"
    );
    app.set_range(part);
    app.set_lanes(Some((row, row)));
    app.set_group(Group::Kind);
    assert_eq!((app.range(), app.lanes()), (None, None), "rows that are gone: not silently a range of all");
    app.set_group(Group::Stream);
    app.set_range(part);
    // Beside all slices: with shift, as from the menu, the range stays.
    let (right, name) = (app.plot().0 + app.plot().1 - 3.0, app.frame.row(row).0 + 6.0);
    for (grip, range) in [(Grip::Range, part), (Grip::Main, None)] {
        app.pressed(right, name, grip);
        assert!(app.released(right, name));
        assert_eq!((app.selected(), app.range()), (None, range), "{grip:?}");
    }
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
    check("y", false, &|_, b| b.mode == Mode::Typical);
    check("m", false, &|_, b| b.marks().len() == 1);
    check("M", true, &|_, b| b.marks().is_empty());
    check("Escape", false, &|_, b| b.selected().is_none());
    // With the letters locked in capitals shift still says which of two is meant.
    check("M", false, &|_, b| b.marks().len() == 1);
    check("m", true, &|_, b| b.marks().is_empty());
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
    let keys = [
        "w",
        "s",
        "a",
        "d",
        "f",
        "0",
        "ArrowLeft",
        "ArrowRight",
        "ArrowUp",
        "ArrowDown",
        "Enter",
        "n",
        "y",
        "m",
        "]",
        "[",
    ];
    for seed in 0..10 {
        let mut random = Random(seed);
        let mut app = App::new(Model::new("crowd", crowd(seed, 80)), Theme::LIGHT);
        for _ in 0..200 {
            let at = (random.below(1000) as f64, random.below(500) as f64);
            match random.below(9) {
                0 => drop(app.wheel(at, (0.0, random.below(800) as f64 - 400.0), Turn::Zoom)),
                1 => drop(app.wheel(at, (random.below(800) as f64 - 400.0, 0.0), Turn::Pan)),
                2 => app.pressed(at.0, at.1, random.pick([Grip::Main, Grip::Range, Grip::Pan, Grip::Touch])),
                3 => app.pointer_moved(at.0, at.1),
                4 => drop(app.released(at.0, at.1)),
                5 => app.resize(at.0, at.1),
                6 => drop(app.wheel(at, (0.0, random.below(800) as f64 - 400.0), Turn::Scroll)),
                7 => app.set_group(random.pick([Group::Stream, Group::Engine, Group::Kind])),
                _ => drop(app.key(random.pick(keys), random.below(2) == 0)),
            }
            let scene = app.scene();
            assert!(scene.width > 0.0);
            let whole = 1_100_000.0;
            assert!(app.view().ns_per_px() * app.view().width_px() < whole * 1.5, "seed {seed}");
        }
    }
}

#[test]
fn a_short_trace_is_left_as_far_as_what_it_is_compared_with_lasts() {
    let mut app = App::new(Model::new("race", race()), Theme::LIGHT);
    app.resize(900.0, 400.0);
    let (first, last) = app.model.extent();
    let (from, to) = (first - 10_000, last + 500 * (last - first));
    app.reach(Some((from, to)));
    app.key("0", false);
    let both = app.view();
    assert!(both.start_ns() <= from && both.end_ns() >= to, "0 shows all of both");
    app.key("s", false);
    assert!(app.view().ns_per_px() >= both.ns_per_px(), "zooming out does not come nearer");
    app.key("0", false);
    app.key("w", false);
    let nearer = both.ns_per_px() / app.view().ns_per_px();
    assert!((nearer - 1.3).abs() < 1e-9, "one step nearer, not {nearer} times");
    for _ in 0..30 {
        app.key("w", true);
    }
    app.show(to - 1000, to);
    app.key("a", false);
    assert!(app.view().start_ns() > last, "beside the trace there is the other");
    app.reach(None);
    app.key("0", false);
    assert!(app.view().end_ns() < last + (last - first) / 10, "without it the trace alone");
}

/// What moves at least so far in either direction is a drag; what lay under the pointer goes along with it.
#[test]
fn a_drag_takes_times_and_lanes_along_with_the_pointer() {
    let mut app = app();
    app.resize(900.0, 100.0);
    app.wheel((500.0, 50.0), (0.0, -300.0), Turn::Zoom);
    let (x, y) = (500.0, 50.0);
    for (dx, dy) in [(STILL, 0.0), (0.0, STILL), (-STILL, -STILL)] {
        app.pressed(x, y, Grip::Touch);
        app.pointer_moved(x + dx, y + dy);
        assert!(!app.is_dragging() && !app.is_panning(), "{dx}, {dy}");
        app.let_go();
    }
    for (dx, dy) in [(STILL + 1.0, 0.0), (-STILL - 1.0, 0.0), (0.0, STILL + 1.0), (3.0, -STILL - 1.0)] {
        app.set_scroll(20.0);
        app.pressed(x, y, Grip::Touch);
        let under = app.view().time_from_x(x - app.frame.gutter);
        for part in [1.0, 2.0, 1.5] {
            app.pointer_moved(x + part * dx, y + part * dy);
            assert!(app.is_panning() && app.hovered().is_none(), "{dx}, {dy}");
            let off = app.view().x_from_time(under) + app.frame.gutter - (x + part * dx);
            assert!(off.abs() * app.view().ns_per_px() <= 1.0, "{dx}, {dy}: {off} pixels off");
            assert_eq!(app.scroll(), 20.0 - part * dy, "{dx}, {dy}");
        }
        assert!(!app.released(x, y) && !app.is_dragging());
    }
    // A wheel that is turned up and a little aside scrolls up.
    app.set_scroll(60.0);
    let view = app.view();
    assert!(app.wheel((x, y), (20.0, -50.0), Turn::Scroll));
    assert_eq!((app.scroll(), app.view()), (10.0, view));
}

#[test]
fn escape_takes_back_one_thing_after_the_other() {
    let mut app = app();
    app.select(Some(6));
    app.set_at(Some(50_000));
    app.set_range(Some((20_000, 90_000)));
    let left = |app: &App| (app.range().is_some(), app.at().is_some(), app.selected().is_some());
    for expected in [(false, true, true), (false, false, true), (false, false, false)] {
        assert!(app.key("Escape", false));
        assert_eq!(left(&app), expected);
    }
}

/// A call waits for work by another relation than it asks for work by.
#[test]
fn what_only_waits_leads_nowhere() {
    let mut app = app();
    for (from, to) in [(1, 5), (5, 1), (2, 6), (6, 2), (3, 3)] {
        app.select(Some(from));
        app.key("Enter", false);
        assert_eq!(app.selected(), Some(to), "from {from}");
    }
}

#[test]
fn steps_lead_from_slice_to_slice_in_both_directions_and_to_the_nearest_of_the_next_lane() {
    let mut n_far = 0;
    for seed in 0..4 {
        let mut app = App::new(Model::new("crowd", crowd(seed, 90)), Theme::LIGHT);
        app.resize(900.0, 130.0);
        let home = |app: &App, row: usize| -> Vec<u32> {
            let all = 0..u32::try_from(app.model.trace.slices.len()).unwrap();
            all.filter(|&k| app.model.rows.place(k).0 as usize == row).collect()
        };
        let in_sight = |app: &App, k: u32| {
            let (row, track) = app.model.rows.place(k);
            let (top, height) = app.frame.track(row as usize, track as usize);
            let (top, bottom) = (top - app.scroll(), top + height - app.scroll());
            (RULER <= top && bottom <= 130.0, RULER + 24.0 <= top && bottom <= 130.0 - 24.0)
        };
        let n_rows = app.model.rows.rows.len();
        for row in 0..n_rows {
            let mut list = home(&app, row);
            let span = |app: &App, k: u32| {
                let slices = &app.model.trace.slices;
                (slices.start[k as usize], slices.end[k as usize])
            };
            // By their beginnings; of those that begin together marks first, then what lasts longest.
            list.sort_by_key(|&k| {
                let (start, end) = span(&app, k);
                (start, end > start, -end, k)
            });
            for pair in list.windows(2) {
                for (key, from, to) in [("ArrowRight", pair[0], pair[1]), ("ArrowLeft", pair[1], pair[0])] {
                    app.select(Some(from));
                    app.key(key, false);
                    assert_eq!(app.selected(), Some(to), "seed {seed}: {key} from {from}");
                    assert!(in_sight(&app, to).0, "seed {seed}: {key} from {from}");
                }
            }
            for &k in &list {
                let (start, end) = span(&app, k);
                let middle = start / 2 + end / 2;
                let away = |o: u32| {
                    let (a, b) = span(&app, o);
                    if b < middle { middle - b } else { (a - middle).max(0) }
                };
                let nearest = |row: usize| home(&app, row).into_iter().map(away).min();
                let found = |mut rows: Box<dyn Iterator<Item = usize>>| {
                    rows.find_map(|row| Some((row, nearest(row)?)))
                };
                let below = found(Box::new(row + 1..n_rows));
                let above = found(Box::new((0..row).rev()));
                for (key, expected) in [("ArrowDown", below), ("ArrowUp", above)] {
                    let mut app = app.clone();
                    app.select_shown(k);
                    let (before, was) = (app.scroll(), app.clone());
                    app.key(key, false);
                    let to = app.selected().unwrap();
                    let found = (to != k).then(|| (app.model.rows.place(to).0 as usize, away(to)));
                    assert_eq!(found, expected, "seed {seed}: {key} from {k}");
                    assert!(in_sight(&app, to).0, "seed {seed}: {key} from {k}");
                    n_far += usize::from(!in_sight(&was, to).0);
                    assert!(!in_sight(&was, to).1 || app.scroll() == before, "nothing scrolls without need");
                }
            }
        }
    }
    assert!(n_far > 20, "{n_far}");
}

#[test]
fn keys_zoom_where_the_pointer_is_and_else_in_the_middle() {
    let mut app = app();
    let (left, width) = app.plot();
    for (pointer, at) in [(None, width / 2.0), (Some(3.0), width / 2.0), (Some(left + 200.0), 200.0)] {
        for (key, shift, nearer) in [("w", false, 1.3), ("w", true, 1.3f64.powi(5)), ("s", false, 1.0 / 1.3)]
        {
            app.show(60_000, 90_000);
            app.pointer_left();
            if let Some(x) = pointer {
                app.pointer_moved(x, 100.0);
            }
            let before = app.view();
            app.key(key, shift);
            let moved = app.view().x_from_time(before.time_from_x(at)) - at;
            assert!(moved.abs() * before.ns_per_px() < 3.0, "{key} at {pointer:?}: {moved}");
            assert!((before.ns_per_px() / app.view().ns_per_px() - nearer).abs() < 1e-9, "{key}");
        }
        for (key, shift, by) in [("d", false, 0.1), ("a", false, -0.1), ("d", true, 0.5), ("a", true, -0.5)] {
            app.show(60_000, 90_000);
            let start = app.view().x_from_time(60_000);
            app.key(key, shift);
            let moved = start - app.view().x_from_time(60_000);
            assert!((moved - by * width).abs() < 1e-6, "{key}: {moved} of {width}");
        }
    }
}

#[test]
fn what_is_chosen_by_key_comes_into_sight() {
    for seed in 0..4 {
        let mut trace = crowd(seed, 90);
        // From each of the first slices to one far away.
        for k in 0..20 {
            trace.flows.push(spanlift::trace::Flow { kind: FlowKind::Launch, from: k, to: 89 - k });
        }
        let mut app = App::new(Model::new("crowd", trace), Theme::LIGHT);
        app.resize(900.0, 130.0);
        let (first, last) = app.model.extent();
        let check = |app: &App, case: &str| {
            let k = app.selected().unwrap();
            let slices = &app.model.trace.slices;
            let [x0, x1] =
                [slices.start[k as usize], slices.end[k as usize]].map(|at| app.view().x_from_time(at));
            let width = app.plot().1;
            assert!(-1e-6 <= x0 && x1 <= width + 1e-6, "seed {seed}: {case}: {x0} to {x1} of {width}");
            let (row, track) = app.model.rows.place(k);
            let (top, height) = app.frame.track(row as usize, track as usize);
            let (top, bottom) = (top - app.scroll(), top + height - app.scroll());
            assert!(RULER <= top && bottom <= 130.0, "seed {seed}: {case}: {top} to {bottom}");
        };
        for k in 0..90 {
            for (key, is_far) in
                [("ArrowRight", false), ("ArrowLeft", true), ("ArrowDown", true), ("Enter", true)]
            {
                app.select(Some(k));
                let from = if is_far { first } else { last - (last - first) / 20 };
                app.show(from, from + (last - first) / 20);
                app.key(key, false);
                if app.selected() != Some(k) {
                    check(&app, &format!("{key} from {k}"));
                }
            }
        }
    }
}

#[test]
fn of_several_findings_the_next_and_the_one_before_are_gone_to_in_a_circle() {
    let mut model = Model::new("race", race());
    for (first, second) in [(4, 5), (5, 6), (4, 6)] {
        model.findings[0].push(Finding { first, second, ..Finding::default() });
    }
    let mut app = App::new(model, Theme::LIGHT);
    app.resize(900.0, 320.0);
    let mut go = |keys: &str| -> Vec<usize> {
        app.set_mode(app.mode);
        let go = |key: char| {
            app.key(&key.to_string(), key == 'N');
            app.finding().unwrap()
        };
        keys.chars().map(go).collect()
    };
    assert_eq!(go("nnnn"), [0, 1, 2, 0]);
    assert_eq!(go("NNNN"), [2, 1, 0, 2]);
}

#[test]
fn of_an_order_the_last_step_is_the_last_that_is_on_screen() {
    let text = "stream copy, compute\npinned x 64\ndevice d 64\ncopy d <- x on copy\n\
                kernel k on compute reads d for 1us\nsync compute\nsync copy\n";
    let mut app =
        App::new(Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
    app.resize(900.0, 320.0);
    assert!(app.select_finding(0) && app.show_order(Some(0)));
    let n = app.model.trace.slices.len();
    app.key("0", false);
    assert_eq!(app.on_screen(), format!("step 1 to step {n}"));
}
