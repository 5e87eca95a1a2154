//! Memory over time against what a walk through the trace says, and as golden text.

use spanlift::program::Op;

use crate::app::App;
use crate::grip::{Grip, Turn};
use crate::lifetimes::{Place, touched};
use crate::model::Model;
use crate::pack::PageItem;
use crate::rows::Shown;
use crate::scene::{Rect, Scene, Shape};
use crate::testing::{Random, golden, hang, texts_keep_apart};
use crate::theme::{KERNEL, TO_DEVICE, Theme};
use crate::timeline::{TimelineOptions, scene};

/// A copy of a part, a kernel that works in place, a buffer that takes over the bytes of another, and a small one.
const PROGRAM: &str = "stream s\npinned x 8MiB\ndevice d 8MiB\npageable small 64\nwrite x\n\
                       copy d[0..4194304] <- x[4194304..8388608] on s\nkernel k on s reads d writes d for 300us\nsync s\n\
                       free d\ndevice e 4MiB reuse d\ncopy e <- x[0..4194304] on s\nwrite small\nsync s\nfree e\n";

fn app(text: &str) -> App {
    let model = Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap();
    let mut app = App::new(model, Theme::LIGHT);
    app.resize(900.0, 800.0);
    app
}

fn places(app: &App) -> Vec<&Place> {
    app.model.rows.rows.iter().filter_map(|row| row.memory.as_deref()).collect()
}

/// The filled rectangles of a colour below the headings of lanes, where the memory is.
fn filled(app: &App, scene: &Scene, fill: crate::color::Color) -> Vec<Rect> {
    let first = app.model.rows.rows.iter().position(|row| row.memory.is_some()).unwrap();
    let top = app.frame.row(first).0 - app.scroll;
    scene.rects().filter(|r| r.fill == Some(fill) && r.y >= top).cloned().collect()
}

/// A program of random buffers that come and go, some of them copied.
fn random(seed: u64) -> String {
    let mut random = Random(seed);
    let mut text = "stream s\n".to_owned();
    let mut there: Vec<(String, bool, u64)> = Vec::new();
    for k in 0..40 {
        if random.below(3) > 0 || there.is_empty() {
            let (is_device, bits) = (random.below(2) == 0, random.below(24));
            let (kind, bytes) = (if is_device { "device" } else { "pinned" }, 1 + random.below(1 << bits));
            text += &format!("{kind} b{k} {bytes}\n");
            there.push((format!("b{k}"), is_device, bytes));
        } else {
            let at = usize::try_from(random.below(there.len() as u64)).unwrap();
            text += &format!("free {}\n", there.swap_remove(at).0);
        }
        let host = there.iter().find(|b| !b.1);
        if let (Some(d), Some(h)) = (there.iter().rev().find(|b| b.1), host) {
            let n = d.2.min(h.2);
            text += &format!("copy {}[0..{n}] <- {}[0..{n}] on s\nsync s\n", d.0, h.0);
        }
    }
    text
}

#[test]
fn a_program_over_time_looks_as_agreed() {
    let app = app(PROGRAM);
    let shown = Shown { memory: true, engines: false, ..Shown::default() };
    let options = TimelineOptions { shown, width: 800.0, ..TimelineOptions::default() };
    let picture = scene(&app.model.trace, &options);
    texts_keep_apart(&picture);
    hang("memory-over-time", &picture);
    golden("memory_over_time.scene.txt", &picture.to_text());
    let without = Shown { memory: false, ..shown };
    let plain = scene(&app.model.trace, &TimelineOptions { shown: without, ..options });
    assert!(plain.height < picture.height, "a still picture has it where it is asked for");
}

#[test]
fn buffers_that_are_there_together_lie_apart_and_the_peak_is_that_of_every_moment() {
    for seed in 0..30 {
        let app = app(&random(seed));
        let program = app.model.trace.program.as_ref().unwrap();
        let allocated = program.commands().iter().filter(|c| matches!(c.op, Op::Alloc(_))).count();
        assert_eq!(
            places(&app).iter().map(|place| place.blocks.len()).sum::<usize>(),
            allocated,
            "seed {seed}"
        );
        for place in places(&app) {
            let alive = |at: i64| place.blocks.iter().filter(move |b| b.life.0 <= at && at < b.life.1);
            let held = place.blocks.iter().map(|b| alive(b.life.0).map(|b| b.bytes).sum::<u64>());
            assert_eq!(place.peak, held.max().unwrap(), "seed {seed}");
            for (i, a) in place.blocks.iter().enumerate() {
                let size = |b: &crate::lifetimes::Block| if b.is_line { 1.0 } else { b.bytes as f64 };
                assert!(a.at + size(a) <= if a.is_line { place.lines } else { place.top }, "seed {seed}");
                for b in &place.blocks[..i] {
                    let together = a.life.0 < b.life.1 && b.life.0 < a.life.1 && a.is_line == b.is_line;
                    let apart = a.at + size(a) <= b.at || b.at + size(b) <= a.at;
                    assert!(!together || apart, "seed {seed}: {} on {}", a.name, b.name);
                }
            }
            // Each access of the program is one of its buffer's.
            for block in &place.blocks {
                for (tracks, wanted) in [(&block.reads, false), (&block.writes, true)] {
                    let found: usize = tracks.iter().map(|track| track.slices.len()).sum();
                    let told = program.commands().iter().filter(|command| {
                        touched(&command.op)
                            .iter()
                            .any(|(r, is_write)| r.buffer == block.buffer && *is_write == wanted)
                    });
                    assert_eq!(found, told.count(), "seed {seed}: {}", block.name);
                }
            }
        }
    }
}

#[test]
fn texts_keep_apart_and_nothing_leaves_whatever_is_on_screen() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let mut app = app(&self::random(seed));
        for _ in 0..25 {
            app.resize(320.0 + random.below(1300) as f64, 120.0 + random.below(800) as f64);
            app.wheel(
                (random.below(900) as f64, 40.0 + random.below(300) as f64),
                (0.0, random.below(700) as f64 - 350.0),
                random.pick([Turn::Zoom, Turn::Zoom, Turn::Zoom, Turn::Pan]),
            );
            app.wheel((5.0, 100.0), (0.0, random.below(500) as f64), Turn::Scroll);
            app.pointer_moved(random.below(900) as f64, random.below(700) as f64);
            let scene = app.scene();
            let (left, width) = app.plot();
            let top = app.model.rows.rows.iter().position(|row| row.memory.is_some()).unwrap();
            let top = app.frame.row(top).0 - app.scroll;
            for r in scene.rects().filter(|r| r.y > top && r.x >= left) {
                assert!(
                    r.x + r.w <= left + width + 12.5 && r.y + r.h <= scene.height + 0.01,
                    "seed {seed}: {r:?}"
                );
            }
            app.hovered_buffer();
        }
    }
}

#[test]
fn what_is_touched_is_drawn_at_its_bytes_and_time() {
    let app = app(PROGRAM);
    let scene = app.scene();
    let (slices, program) = (&app.model.trace.slices, app.model.trace.program.as_ref().unwrap());
    let [host, device] = places(&app)[..] else { panic!() };
    assert_eq!(
        (&*host.name, host.peak, &*device.name, device.peak),
        ("host", (8 << 20) + 64, "cuda:0", 8 << 20)
    );
    let (d, e) = (&device.blocks[0], &device.blocks[1]);
    assert_eq!((d.at, e.at, d.name.as_str(), e.name.as_str()), (0.0, 0.0, "d", "e"), "e has the bytes of d");
    assert!(host.blocks.iter().any(|b| b.is_line && b.name == "small"));
    // The first copy writes the lower half of d: a rectangle of half its height, at its foot.
    let kernel = &filled(&app, &scene, KERNEL)[0];
    let copies = filled(&app, &scene, TO_DEVICE);
    assert_eq!(copies.len(), 2, "d and e: {copies:?}");
    assert!(
        (copies[0].h - kernel.h / 2.0).abs() < 1e-9
            && (copies[0].y + copies[0].h - kernel.y - kernel.h).abs() < 1e-9
    );
    let at = |name: &str| {
        let c = (0..program.len()).find(|&c| program.commands()[c].op.name() == name).unwrap();
        let k = crate::lifetimes::work(&app.model.trace, &app.model.rows, u32::try_from(c).unwrap())[0];
        app.plot().0 + app.view().x_from_time(slices.start[k as usize])
    };
    assert!((copies[0].x - at("copy")).abs() <= 1.0 && (kernel.x - at("kernel")).abs() <= 1.0);
    // Both copies have an arrow from the host down to the device.
    let upright = |s: &&Shape| matches!(s, Shape::Path { points, .. } if points[0].0 == points[1].0 && points.len() == 2);
    let of_copy = |s: &Shape| match s {
        Shape::Path { points, .. } => {
            (points[1].1 - copies[0].y).abs() < 1e-9 || (points[1].1 - copies[1].y).abs() < 1e-9
        }
        _ => false,
    };
    assert_eq!(scene.shapes.iter().filter(upright).filter(|s| of_copy(s)).count(), 2);
}

/// A block that a pool has taken back at the call, while its kernel has yet to run: `t` first, then its bytes are those of `u`.
const POOL: &str = "stream s\ndevice t 4MiB via pool home s\nkernel make on s writes t for 60us\nfree t via pool\n\
                    device u 4MiB via pool home s reuse t\nkernel next on s writes u for 60us\nsync s\n";

#[test]
fn work_after_a_pool_has_taken_memory_back_is_shown_and_reached() {
    let mut app = app(POOL);
    let scene = app.scene();
    let kernels = filled(&app, &scene, KERNEL);
    // The second where the first one ends, in the same bytes.
    let [make, next] = &kernels[..] else { panic!("{kernels:?}") };
    assert!(
        (0.0..20.0).contains(&(next.x - make.x - make.w)) && make.y == next.y && make.h == next.h,
        "{kernels:?}"
    );
    let place =
        |wanted: &Rect| scene.shapes.iter().position(|s| matches!(s, Shape::Rect(r) if r == wanted)).unwrap();
    let over = |s: &Shape| {
        matches!(s, Shape::Rect(r) if r.fill.is_some() && r.y <= make.y && make.y + make.h <= r.y + r.h
            && r.x <= make.x && make.x + make.w <= r.x + r.w)
    };
    assert!(!scene.shapes[place(make) + 1..].iter().any(over), "what is painted later hides it");
    let [device] = places(&app)[..] else { panic!() };
    let [t, u] = &device.blocks[..] else { panic!() };
    assert_eq!((t.at, u.at, device.peak), (0.0, 0.0, 4 << 20), "one after the other, of the same bytes");
    assert!(t.life.1 < t.used && t.told(&app.model.trace, &app.model.rows).contains(", used until "));
    assert_eq!(u.life.1.max(u.used), u.life.1);
    // Its slice is under the pointer, and at the end of all it is freed, not written.
    app.pointer_moved(make.x + make.w / 2.0, make.y + make.h / 2.0);
    let slices = &app.model.trace.slices;
    assert_eq!(app.hovered().map(|k| app.model.trace.strings.get(slices.name[k as usize])), Some("make"));
    app.set_at(app.model.trace.extent().map(|(_, last)| last.0));
    assert_eq!(app.state().unwrap().buffers[0].words, "freed by free, line 4");
}

#[test]
fn memory_that_is_freed_in_the_order_of_a_stream_lives_until_its_work_is_done() {
    let text = "stream s\ndevice w 1MiB via malloc_async on s\nkernel warm on s writes w for 1us\nsync s\n\
                device t 4MiB via malloc_async on s\nkernel make on s writes t for 60us\nfree t via free_async on s\n\
                device u 4MiB via malloc_async on s reuse t\nkernel next on s writes u for 60us\nsync s\n";
    let app = app(text);
    let trace = &app.model.trace;
    let end = |name: &str| {
        let is_work = |&k: &usize| {
            trace.strings.get(trace.slices.name[k]) == name
                && trace.slices.kind[k] == spanlift::trace::Kind::Kernel
        };
        trace.slices.end[(0..trace.slices.len()).find(is_work).unwrap()]
    };
    let [device] = places(&app)[..] else { panic!() };
    let block = |name: &str| device.blocks.iter().find(|b| b.name == name).unwrap();
    let (t, u) = (block("t"), block("u"));
    assert_eq!(
        (t.life.1, u.life.0, t.at == u.at),
        (end("make"), end("make"), true),
        "handed on in the stream"
    );
    assert!(!t.told(trace, &app.model.rows).contains("used until"));
    assert_eq!(device.peak, 5 << 20);
}

#[test]
fn a_finding_in_memory_that_a_pool_took_back_is_framed_there() {
    let text = "stream main, side\ndevice t 4MiB via pool home main\npinned y 4MiB\nevent made\n\
                kernel make on main writes t for 60us\nrecord made on main\nwait made on side\ncopy y <- t on side\n\
                free t via pool\ndevice u 4MiB via pool home main reuse t\nkernel next on main writes u for 60us\nsync side\n";
    let mut app = app(text);
    assert!(app.select_finding(0), "the copy may read what the next kernel writes");
    let scene = app.scene();
    let first = app.model.rows.rows.iter().position(|row| row.memory.is_some()).unwrap();
    let top = app.frame.row(first).0 - app.scroll;
    let red = |r: &&Rect| r.y >= top && r.outline.is_some_and(|line| line.color == Theme::LIGHT.hazard);
    assert!(scene.rects().any(|r| red(&r)), "no frame in the memory");
}

#[test]
fn a_press_chooses_the_moment_and_who_wrote_and_the_cursor_is_one() {
    let mut app = app(PROGRAM);
    let scene = app.scene();
    let kernel = filled(&app, &scene, KERNEL)[0].clone();
    let (x, y) = (kernel.x + kernel.w / 2.0, kernel.y + kernel.h / 2.0);
    let name = |app: &App| {
        app.selected_command().map(|c| app.model.trace.program.as_ref().unwrap().commands()[c].op.name())
    };
    let press = |app: &mut App, x: f64, y: f64| {
        app.pointer_moved(x, y);
        app.pressed(x, y, Grip::Main);
        app.released(x, y);
    };
    press(&mut app, x, y);
    assert_eq!(name(&app), Some("kernel"));
    let at = app.at().unwrap();
    assert!((app.plot().0 + app.view().x_from_time(at) - x).abs() < 1.0);
    let state = app.state().unwrap();
    assert!(state.buffers.iter().any(|b| b.words == "being written by kernel, line 7"), "{state:?}");
    // Between kernel and free nobody touches d: the kernel wrote it last. Before the copy nobody has.
    let x1 = kernel.x + kernel.w;
    press(&mut app, x1 + 2.0, y);
    assert!(app.at().unwrap() > at && name(&app) == Some("kernel") && app.hovered().is_none());
    assert!(app.hovered_buffer().is_some_and(|(name, told)| name == "d" && told.contains("8 MiB")));
    let copy = filled(&app, &app.scene(), TO_DEVICE)[0].clone();
    press(&mut app, copy.x - 2.0, y);
    assert!(app.at().unwrap() < at && app.selected().is_none());
    // The other way: a step of the host moves the line in the memory too.
    app.key("]", false);
    let at = app.plot().0 + app.view().x_from_time(app.at().unwrap());
    let is_cursor =
        |s: &&Shape| matches!(s, Shape::Path { points, .. } if points[0].0 == at && points[1] == (at, 800.0));
    assert_eq!(app.scene().shapes.iter().filter(is_cursor).count(), 1);
    // The row without a buffer: the moment alone.
    let bottom = app.frame.row(app.model.rows.rows.len() - 1);
    let right = app.plot().0 + app.plot().1 - 1.0;
    press(&mut app, right, bottom.0 + 5.0);
    assert!(app.at().is_some() && app.selected().is_none());
}

#[test]
fn names_of_buffers_stand_over_what_was_found_and_selected() {
    let text = "pinned source 4MiB\ndevice d 4MiB\nkernel k on 0 for 1ms\ncopy d <- source on 0\nwrite source\nsync 0\n";
    let mut app = App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
    app.resize(900.0, 500.0);
    assert!(app.select_finding(0), "a write while the copy may still read");
    let scene = app.scene();
    let frame = |shape: &Shape| matches!(shape, Shape::Rect(r) if r.fill.is_none() && r.outline.is_some());
    let name = |shape: &Shape| matches!(shape, Shape::Text(t) if t.text.starts_with("source ·"));
    let (last, first) = (scene.shapes.iter().rposition(frame), scene.shapes.iter().position(name));
    assert!(last.is_some() && last < first, "{last:?} {first:?}");
}

/// Down a line at one moment: the buffers that are there, the one at the top of the stack first, each as high as its bytes.
#[test]
fn what_is_pointed_at_is_the_buffer_that_is_there_and_lies_there() {
    let (mut n_found, mut n_used) = (0, 0);
    for text in (0..12).map(random).chain([PROGRAM.to_owned(), POOL.to_owned()]) {
        let mut app = app(&text);
        app.resize(1200.0, 800.0);
        let (left, width) = app.plot();
        for r in 0..app.model.rows.rows.len() {
            let Some(place) = app.model.rows.rows[r].memory.clone() else { continue };
            let (top, height) = app.frame.row(r);
            if top - app.scroll() + height > 800.0 {
                continue;
            }
            for block in place.blocks.iter().filter(|b| !b.is_line) {
                let at = block.life.0 + (block.life.1.max(block.used) - block.life.0) / 2;
                let x = left + app.view().x_from_time(at);
                // Lives whose ends are so near each other that one pixel is of both.
                let ends = |b: &crate::lifetimes::Block| [b.life.0, b.life.1.max(b.used)];
                let is_near = |at: i64| (left + app.view().x_from_time(at) - x).abs() < 2.0;
                if x < left + 1.0 || left + width < x + 1.0 || place.blocks.iter().flat_map(ends).any(is_near)
                {
                    continue;
                }
                let there =
                    |b: &&crate::lifetimes::Block| !b.is_line && b.life.0 <= at && at < b.life.1.max(b.used);
                // What a pool took back is over what it has made of its bytes, as long as it is touched.
                let over = |b: &crate::lifetimes::Block, other: &crate::lifetimes::Block| {
                    let meet = other.at < b.at + b.bytes as f64 && b.at < other.at + other.bytes as f64;
                    other.buffer != b.buffer && other.life.1 <= at && meet
                };
                let all = || place.blocks.iter().filter(there);
                let mut expected: Vec<_> = all().filter(|b| !all().any(|other| over(b, other))).collect();
                expected.sort_by(|a, b| b.at.total_cmp(&a.at));
                n_used += usize::from(expected.iter().any(|b| b.life.1 <= at));
                let mut found: Vec<(String, f64)> = Vec::new();
                for y in (0u32..).map(|y| f64::from(y) / 4.0).take_while(|y| *y < height) {
                    app.pointer_moved(x, top - app.scroll() + y);
                    let Some((name, _)) = app.hovered_buffer() else { continue };
                    match found.last_mut() {
                        Some(last) if last.0 == name => last.1 += 0.25,
                        _ => found.push((name, 0.25)),
                    }
                }
                found.retain(|(name, _)| place.blocks.iter().any(|b| b.name == *name && !b.is_line));
                let pixels = found.iter().map(|of| of.1).sum::<f64>();
                let bytes = expected.iter().map(|b| b.bytes as f64).sum::<f64>();
                let seen: Vec<_> = expected
                    .iter()
                    .filter(|b| b.bytes as f64 / bytes * pixels > 0.5)
                    .map(|b| &*b.name)
                    .collect();
                let hit: Vec<_> = found.iter().filter(|of| of.1 > 0.5).map(|of| &*of.0).collect();
                assert_eq!(hit, seen, "at {at} in {text}");
                for block in &expected {
                    let is_it = |of: &&(String, f64)| of.0 == block.name;
                    let high = found.iter().find(is_it).map_or(0.0, |of| of.1);
                    let should = block.bytes as f64 / bytes * pixels;
                    assert!(
                        (high - should).abs() < 0.5,
                        "{} is {high} high, not {should}, in {text}",
                        block.name
                    );
                    n_found += 1;
                }
            }
        }
    }
    assert!(n_found > 100 && n_used > 0, "{n_found}, {n_used}");
}

#[test]
fn a_buffer_takes_the_bytes_of_another_where_they_are_free_and_else_the_lowest_that_are() {
    let at = |text: &str| {
        let app = app(&format!("device a 4MiB\ndevice b 4MiB\n{text}"));
        let blocks = places(&app)[0].blocks.clone();
        blocks.iter().map(|b| (b.name.clone(), b.at / (1 << 20) as f64)).collect::<Vec<_>>()
    };
    let named = |places: &[(&str, f64)]| {
        places.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect::<Vec<_>>()
    };
    assert_eq!(at("free a\nfree b\ndevice e 4MiB reuse b\n"), named(&[("a", 0.0), ("b", 4.0), ("e", 4.0)]));
    assert_eq!(at("free a\nfree b\ndevice e 4MiB\n"), named(&[("a", 0.0), ("b", 4.0), ("e", 0.0)]));
    // Just as large as the gap, and larger.
    assert_eq!(at("free a\ndevice e 4MiB\n"), named(&[("a", 0.0), ("b", 4.0), ("e", 0.0)]));
    assert_eq!(at("free a\ndevice e 5MiB\n"), named(&[("a", 0.0), ("b", 4.0), ("e", 8.0)]));
    let taken = "free b\ndevice c 6MiB\ndevice e 4MiB reuse b\n";
    assert_eq!(at(taken), named(&[("a", 0.0), ("b", 4.0), ("c", 4.0), ("e", 10.0)]));
}

/// What is queued, runs and waits on a stream at each call and at the beginning of each kernel, against a look at every slice.
#[test]
fn a_queue_has_what_was_called_for_and_is_not_done() {
    let kernels: String = (0..7).map(|k| format!("kernel k{k} on s reads d writes e for 40us\n")).collect();
    let text = format!(
        "stream s, t\npinned x 1MiB\ndevice d 1MiB\ndevice e 1MiB\ncopy d <- x on s\n{kernels}copy x <- e on t\nsync s\nsync t\n"
    );
    let mut app = app(&text);
    let trace = app.model.trace.clone();
    let slices = &trace.slices;
    let on = |k: usize, name: &str| {
        let lane = &trace.lanes[slices.lane[k] as usize];
        matches!(lane.kind, spanlift::trace::LaneKind::Stream { .. }) && trace.strings.get(lane.name) == name
    };
    let called = |k: usize| {
        let is_call = |&o: &usize| {
            slices.command[o] == slices.command[k]
                && trace.lanes[slices.lane[o] as usize].kind == spanlift::trace::LaneKind::Host
        };
        slices.start[(0..slices.len()).find(is_call).unwrap()]
    };
    let mut n_many = 0;
    for at in slices.start.iter().chain(&slices.end).copied() {
        app.set_at(Some(at));
        for queue in app.state().unwrap().queues {
            let mut left: Vec<usize> = (0..slices.len())
                .filter(|&k| on(k, &queue.name) && at < slices.end[k] && called(k) < at)
                .collect();
            left.sort_by_key(|&k| slices.start[k]);
            let name = |k: &usize| trace.strings.get(slices.name[*k]).to_owned();
            let running: Vec<String> = left.iter().filter(|&&k| slices.start[k] <= at).map(name).collect();
            let waiting: Vec<String> = left.iter().filter(|&&k| at < slices.start[k]).map(name).collect();
            assert_eq!(queue.running, running.last().cloned(), "at {at}");
            assert_eq!(queue.n_waiting, waiting.len(), "at {at}");
            assert_eq!(queue.waiting, waiting[..waiting.len().min(3)], "at {at}");
            n_many += usize::from(waiting.len() > 3);
        }
    }
    assert!(n_many > 0);
    // Which buffers the selected command reads and writes, and what is under way there.
    let copy = trace.program.as_ref().unwrap().commands().iter().position(|c| c.op.name() == "copy").unwrap();
    assert!(app.select_command(copy));
    let told = app.state().unwrap().buffers;
    let told: Vec<_> = told.iter().map(|buffer| (&*buffer.name, buffer.selected)).collect();
    assert_eq!(told, [("x", Some("read")), ("d", Some("written")), ("e", None)]);
}

#[test]
fn of_very_many_buffers_the_largest_are_drawn_and_the_others_counted() {
    let buffers: Vec<String> =
        (0..1003).map(|k| format!("device b{k} {}\n", 64 * (1 + k * 7 % 1003))).collect();
    let app = app(&format!("{}stream s\nkernel k on s for 9us\nsync s\n", buffers.concat()));
    let [place] = places(&app)[..] else { panic!() };
    assert_eq!((place.blocks.len(), place.left_out), (1000, 3));
    assert_eq!(place.blocks.iter().map(|block| block.bytes).min(), Some(64 * 4));
    let told = "3 buffers, the smallest, not drawn in memory over time";
    assert!(app.model.notes.iter().any(|note| note.text == told), "{:?}", app.model.notes);
}

#[test]
fn a_buffer_is_told_with_its_life_and_how_often_it_is_touched() {
    let check = |text: &str, of: usize, name: &str, starts: &str, ends: &str, is_used: bool| {
        let app = app(text);
        let block = places(&app)[of].blocks.iter().find(|block| block.name == name).unwrap();
        let clock = |at: i64| crate::timeline::clock(&app.model.trace, &app.model.rows, at);
        let used = if is_used { format!(", used until {}", clock(block.used)) } else { String::new() };
        let expected =
            format!("{starts}, from {} to {}, {ends}{used}", clock(block.life.0), clock(block.life.1));
        assert_eq!(block.told(&app.model.trace, &app.model.rows), expected);
    };
    check(PROGRAM, 1, "d", "device memory, 8 MiB", "read 1 time, written 2 times", false);
    check(PROGRAM, 0, "x", "pinned, 8 MiB", "read 2 times, written 1 time", false);
    check(PROGRAM, 0, "small", "pageable, 64 B", "read 0 times, written 1 time", false);
    check(POOL, 0, "t", "device memory, 4 MiB", "read 0 times, written 1 time", true);
}

#[test]
fn of_a_write_and_a_read_under_way_at_once_the_write_is_told() {
    let text = "stream a, b\npinned x 8MiB\ndevice d 8MiB\ncopy d <- x on a\nkernel k on b reads d for 500us\nsync a\nsync b\n";
    let mut app = app(text);
    let slices = &app.model.trace.slices;
    let of =
        |kind| (0..slices.len()).find(|&k| slices.kind[k] == kind).map(|k| (slices.start[k], slices.end[k]));
    let (copy, kernel) =
        (of(spanlift::trace::Kind::ToDevice).unwrap(), of(spanlift::trace::Kind::Kernel).unwrap());
    let both = (copy.0.max(kernel.0), copy.1.min(kernel.1));
    assert!(both.0 < both.1 && copy.1 < kernel.1, "{copy:?} {kernel:?}");
    for (at, words) in [(both.0, "being written by copy, line 4"), (both.1, "being read by kernel, line 5")] {
        app.set_at(Some(at));
        assert_eq!(app.state().unwrap().buffers[1].words, words, "at {at}");
    }
}
