//! Scenes as golden text, and laws that every scene keeps.

use super::*;
use crate::rows::Shown;
use crate::scene::Face;
use crate::testing::{Random, crowd, golden, hang, race, texts_keep_apart};

fn finding() -> Finding {
    Finding {
        first: 4,
        second: 5,
        title: "RAW on d".into(),
        text: "…".into(),
        is_certain: true,
        slices: None,
    }
}

#[test]
fn the_race_looks_as_agreed() {
    let options = TimelineOptions { findings: vec![finding()], width: 700.0, ..TimelineOptions::default() };
    let scene = scene(&race(), &options);
    golden("race.scene.txt", &scene.to_text());
    golden("race.svg", &crate::svg::svg(&scene, "pinned race", "a copy and a kernel that reads too early"));
}

#[test]
fn by_engine_the_race_has_its_bytes_in_flight() {
    let shown = Shown { group: crate::rows::Group::Engine, ..Shown::default() };
    let scene = scene(&race(), &TimelineOptions { shown, width: 700.0, ..TimelineOptions::default() });
    texts_keep_apart(&scene);
    golden("race_by_engine.scene.txt", &scene.to_text());
}

/// Each of thousands of findings would be an outline and a zigzag: a picture of red that takes seconds.
#[test]
fn of_thousands_of_findings_each_is_seen_with_what_it_is_about_and_the_chosen_one_is_joined() {
    let n = 3000;
    let lines: String = (0..n)
        .map(|k| {
            let (from, to) = (64 * k, 64 * k + 64);
            format!(
                "copy d[{from}..{to}] <- x[{from}..{to}] on a\nkernel k on b reads d[{from}..{to}] for 2us\n"
            )
        })
        .collect();
    let text = format!("stream a, b\npinned x 1MiB\ndevice d 1MiB\n{lines}sync a\nsync b\n");
    let item = crate::pack::PageItem::source("p", text, "h200-pcie5");
    let mut app = crate::app::App::new(crate::model::Model::open(&item).unwrap(), Theme::LIGHT);
    app.resize(1000.0, 500.0);
    let red = Stroke::solid(Theme::LIGHT.hazard, 2.0);
    let count = |app: &crate::app::App| {
        let (mut outlines, mut zigzags) = (Vec::new(), 0);
        for shape in app.scene().shapes {
            match shape {
                // Of a slice without room for a frame a line says so, which leaves most of it in its colour.
                Shape::Rect(rect) if rect.fill == Some(red.color) => {
                    assert!(rect.h < 4.0);
                    outlines.push((rect.x, rect.y, rect.w));
                }
                Shape::Rect(rect) if rect.outline == Some(red) => {
                    outlines.push((rect.x, rect.y, rect.w));
                }
                Shape::Path { stroke, .. } if stroke == red => zigzags += 1,
                _ => {}
            }
        }
        (outlines, zigzags)
    };
    let findings = app.findings().to_vec();
    assert_eq!(findings.len(), n);
    let (outlines, zigzags) = count(&app);
    // Two streams, and as often as there are pixels at most.
    assert!(outlines.len() <= 2000 && zigzags == 0, "{} and {zigzags}", outlines.len());
    let view = app.view();
    for k in findings.iter().flat_map(|finding| [finding.slices.unwrap().0, finding.slices.unwrap().1]) {
        let x = app.plot().0 + view.x_from_time(app.model.trace.slices.start[k as usize]);
        assert!(outlines.iter().any(|(at, _, w)| at - 1.0 <= x && x <= at + w), "slice {k} at {x}");
    }
    assert!(app.select_finding(1500));
    let (_, zigzags) = count(&app);
    assert!(0 < zigzags && zigzags <= 8, "{zigzags}");
    // From afar it is the only one, whatever else its slices are about.
    app.fit_all();
    assert_eq!(count(&app).1, 1);
    assert!(app.select_finding(1500));
    app.select(None);
    let (few, zigzags) = count(&app);
    assert!(0 < zigzags && zigzags < few.len(), "close by each is joined: {zigzags}, {}", few.len());
    // The way out of each is told as far as they are listed: to say it takes a look at the whole program.
    let program = app.model.trace.program.as_ref().unwrap();
    let hazards = spanlift::hazard::check(program, spanlift::hazard::Mode::Contract).unwrap().hazards;
    assert_eq!(findings[0].text, spanlift::hazard::sentence(program, &hazards[0]));
    assert_eq!(findings[n - 1].text, spanlift::hazard::short_sentence(program, &hazards[n - 1]));
}

#[test]
fn no_text_touches_another_or_leaves() {
    for (seed, width) in [(1, 300.0), (2, 420.0), (3, 640.0), (4, 960.0), (5, 1600.0)] {
        for trace in [race(), crowd(seed, 40), crowd(seed, 500)] {
            let scene = scene(&trace, &TimelineOptions { width, ..TimelineOptions::default() });
            texts_keep_apart(&scene);
            hang(&format!("timeline-{width}-{}", trace.slices.len()), &scene);
        }
    }
}

#[test]
fn names_in_any_script_are_drawn_in_any_width() {
    let names = [
        "内存复制核函数",
        "نسخ الذاكرة",
        "🚀🔥",
        "é",
        "threadx",
        "thread ",
        "thread 內 存",
        &"w".repeat(200),
    ];
    for name in names.map(|name| name.repeat(1 + 40 / name.len())) {
        let event = |cat: &str, tid: u32| {
            format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":{tid},"ts":1,"dur":9}}"#)
        };
        let meta = |what: &str, tid: u32| {
            format!(r#"{{"ph":"M","name":"{what}","pid":1,"tid":{tid},"args":{{"name":"{name}"}}}}"#)
        };
        let events =
            [meta("process_name", 1), meta("thread_name", 1), event("cpu_op", 1), event("kernel", 7)];
        let trace = spanlift::trace::read(format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")).as_bytes());
        for width in (240..900).step_by(9) {
            let options =
                TimelineOptions { figures: true, width: f64::from(width), ..TimelineOptions::default() };
            texts_keep_apart(&scene(trace.as_ref().unwrap(), &options));
        }
        for room in 0..200 {
            named(&name, f64::from(room));
        }
    }
}

#[test]
fn pictures_of_many_slices_stay_small_and_say_so() {
    let trace = crowd(9, 6_000);
    let scene = scene(&trace, &TimelineOptions::default());
    let svg = crate::svg::svg(&scene, "many", "");
    assert!(svg.len() < 300_000, "{} bytes", svg.len());
    let said: Vec<&str> = scene.texts().map(|t| &*t.text).collect();
    assert!(said.iter().any(|t| t.contains("drawn together")) && said.iter().any(|t| t.contains("too deep")));
}

#[test]
fn a_picture_of_thousands_of_lanes_has_those_with_the_most_to_show_and_stays_small() {
    let slice = |cat: &str, pid: u32, tid: u32, ts: u32| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"n{tid}","pid":{pid},"tid":{tid},"ts":{ts},"dur":5,"args":{{"device":{pid},"stream":{tid}}}}}"#
        )
    };
    let mut events: Vec<String> = Vec::new();
    for k in 0..3000 {
        events.push(slice("cpu_op", 77, k + 1, k));
        events.push(slice("kernel", k % 8, k / 8, k + 3));
    }
    events.extend((0..40).map(|k| slice("cpu_op", 77, 2990, 4000 + 9 * k)));
    let trace = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let trace = spanlift::trace::read(trace.as_bytes()).unwrap();
    let options = TimelineOptions { figures: true, ..TimelineOptions::default() };
    let scene = scene(&trace, &options);
    texts_keep_apart(&scene);
    let said: Vec<&str> = scene.texts().map(|t| &*t.text).collect();
    assert!(said.contains(&"thread 2990"), "{said:?}");
    assert!(said.iter().any(|t| t.contains("more lanes, those with the least to show")), "{said:?}");
    let svg = crate::svg::svg(&scene, "many", "");
    assert!(svg.len() < 300_000, "{} bytes", svg.len());
    // Those that stay are as they were: name, section, slices and where these are.
    let whole = Rows::new(&trace, Shown::default());
    let mut rows = whole.clone();
    assert_eq!((rows.fewer(whole.rows.len()), &rows), (0, &whole));
    assert_eq!(rows.fewer(200), whole.rows.len() - 200);
    let mut at = 0;
    for section in &rows.sections {
        assert_eq!(section.rows.start, at);
        at = section.rows.end;
        let old = whole.sections.iter().find(|old| old.title == section.title).unwrap();
        assert!(rows.rows[section.rows.clone()].iter().all(|row| whole.rows[old.rows.clone()].contains(row)));
    }
    assert_eq!(at, 200);
    for k in 0..u32::try_from(trace.slices.len()).unwrap() {
        let ((row, track), (old, _)) = (rows.place(k), whole.place(k));
        match rows.rows.get(row as usize) {
            Some(row) => assert!(row.tracks[track as usize].slices.contains(&k)),
            None => assert!(!rows.rows.contains(&whole.rows[old as usize])),
        }
    }
}

/// Patterns take more than slices do, and what is wide is never merged.
#[test]
fn pictures_stay_small_whatever_is_in_them() {
    let picture = |event: &dyn Fn(u32, u32) -> String| {
        let events: Vec<String> = (0..200).flat_map(|lane| (0..16).map(move |k| event(lane, k))).collect();
        let trace = spanlift::trace::read(format!("[{}]", events.join(",")).as_bytes()).unwrap();
        let scene = scene(&trace, &TimelineOptions { figures: true, ..TimelineOptions::default() });
        texts_keep_apart(&scene);
        let svg = crate::svg::svg(&scene, "many", "");
        assert!(svg.len() < 300_000, "{} bytes: {}", svg.len(), event(0, 0));
        (scene, svg)
    };
    let slice = |cat: &str, name: &str, tid: u32, ts: u32, dur: u32| {
        format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{tid},"ts":{ts},"dur":{dur}}}"#)
    };
    let upload = "Memcpy HtoD (Pageable -> Device)";
    let (_, svg) = picture(&|lane, k| slice("gpu_memcpy", upload, lane, 100 * k, 90));
    assert!(svg.matches("<polyline").count() > 300, "narrow or wide, pageable memory is hatched");
    let (_, svg) = picture(&|lane, k| slice("cuda_sync", "Stream Sync", lane, 100 * k, 90));
    assert!(svg.matches("<circle").count() > 300);
    for (cat, name) in [("gpu_memcpy", upload), ("cuda_runtime", "cudaDeviceSynchronize")] {
        let (scene, _) = picture(&|lane, k| slice(cat, name, lane, k, 1000));
        let said: Vec<&str> = scene.texts().map(|t| &*t.text).collect();
        assert!(said.iter().any(|t| t.contains("more lanes")) && said.contains(&"3,200"), "{said:?}");
    }
    picture(&|lane, k| {
        let samples = (0..200).map(|s| {
            let (ts, value) = (200 * k + s, (200 * k + s) * 7919 % 101);
            format!(r#"{{"ph":"C","name":"c{lane}","pid":0,"ts":{ts},"args":{{"a":{value}}}}}"#)
        });
        samples.collect::<Vec<_>>().join(",")
    });
    picture(&|lane, k| {
        let flow = |ph: &str, tid: u32| {
            format!(
                r#"{{"ph":"{ph}","id":{},"cat":"c","name":"f","pid":0,"tid":{tid},"ts":{}}}"#,
                16 * lane + k,
                10 * k
            )
        };
        [slice("cpu_op", "a", lane, 10 * k, 9), flow("s", lane), flow("f", 199 - lane)].join(",")
    });
}

#[test]
fn below_a_hundred_frames_the_calls_are_still_in_the_picture() {
    let slice = |cat: &str, name: &str, ts: u32, dur: u32| {
        format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#)
    };
    let mut events: Vec<String> =
        (0..100).map(|k| slice("python_function", &format!("frame{k}"), k, 1000 - 2 * k)).collect();
    events.push(slice("cuda_runtime", "cudaDeviceSynchronize", 200, 600));
    let trace = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let trace = spanlift::trace::read(trace.as_bytes()).unwrap();
    let scene = scene(&trace, &TimelineOptions { figures: true, ..TimelineOptions::default() });
    texts_keep_apart(&scene);
    let said: Vec<&str> = scene.texts().map(|t| &*t.text).collect();
    assert!(said.contains(&"cudaDeviceSynchronize") && said.contains(&"frame6"), "{said:?}");
    assert!(!said.contains(&"frame7"));
    assert!(said.iter().any(|t| t.starts_with("93 more slices, the innermost, lie too deep")), "{said:?}");
    // And what is not drawn is counted in the figures.
    let table = said.windows(3).rfind(|words| words[0] == "annotation").unwrap();
    assert_eq!(table[1..], ["100", "90.10 ms"]);
}

#[test]
fn the_figures_of_a_picture_are_those_of_the_page() {
    let trace = race();
    // A narrow one has the first columns.
    for (width, n) in [(300.0, 4), (960.0, 5)] {
        let options = TimelineOptions { figures: true, width, ..TimelineOptions::default() };
        let scene = scene(&trace, &options);
        texts_keep_apart(&scene);
        let y = scene.texts().find(|t| t.text == "kind").unwrap().y;
        let copy = scene.texts().find(|t| t.text == "copy to device" && t.y > y).unwrap().y;
        let line: Vec<&str> = scene.texts().filter(|t| t.y == copy).map(|t| &*t.text).collect();
        assert_eq!(line, ["copy to device", "1", "98 µs", "4 MiB", "42.8 GB/s"][..n]);
    }
}

/// 31,112 B at 1.5 B/ns take 20.74 us, of which the file keeps 14: a rate and a time that do not go together are told apart.
#[test]
fn a_rate_stands_with_the_time_that_it_is_of() {
    let trace = r#"[{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":0,"dur":14,
        "args":{"device":0,"stream":7,"bytes":31112,"memory bandwidth (GB/s)":1.5}}]"#;
    let trace = spanlift::trace::read(trace.as_bytes()).unwrap();
    let scene = scene(&trace, &TimelineOptions { figures: true, width: 960.0, ..TimelineOptions::default() });
    assert!(scene.texts().any(|t| t.text == "1.5 GB/s in 20.74 µs"));
}

#[test]
fn what_is_under_the_pointer_is_what_was_drawn_there() {
    let trace = race();
    let rows = Rows::new(&trace, Shown::default());
    let frame = Frame::new(&trace, &rows, 900.0);
    let mut random = Random(3);
    for _ in 0..50 {
        let view = TimeView::around(0, 176_000, frame.plot_width)
            .zoom(random.below(700) as f64, 1.0 + random.below(5) as f64)
            .pan(random.below(300) as f64 - 150.0);
        let scroll = random.below(40) as f64;
        let timeline = Timeline {
            trace: &trace,
            rows: &rows,
            frame: &frame,
            view,
            findings: &[],
            theme: Theme::DARK,
            grain: 1.0,
            scroll,
            height: 300.0,
            selected: None,
            hovered: None,
            cursor: Some(86_000),
            over: super::Overlay::default(),
        };
        let (scene, _) = timeline.scene();
        for rect in scene.rects() {
            let (x, y) = (rect.x + rect.w / 2.0, rect.y + rect.h / 2.0);
            if let Of::Slice(k) = rect.of
                && y >= RULER
            {
                assert_eq!(timeline.slice_at(x, y), Some(k));
                assert!(rect.x >= frame.gutter && rect.x + rect.w <= frame.gutter + frame.plot_width);
            }
        }
    }
}

#[test]
fn a_trace_without_slices_is_a_picture_too() {
    let scene = scene(&Trace::default(), &TimelineOptions::default());
    assert!(scene.height > 0.0);
    crate::svg::svg(&scene, "", "");
}

#[test]
fn a_thread_in_a_narrow_page_keeps_its_number() {
    for (room, name, expected) in [
        (200.0, "thread 59811 (python3)", "thread 59811 (python3)"),
        (130.0, "thread 59811 (python3)", "thread 59811 (pyt…"),
        (86.0, "thread 59811 (python3)", "thread 59811"),
        (60.0, "thread 59811 (python3)", "59811"),
        (60.0, "thread 59811", "59811"),
        (60.0, "thread -247463936", "thread…"),
        (60.0, "threads", "threads"),
        (60.0, "thread ", "thread "),
        (60.0, "copy to device", "copy to…"),
    ] {
        assert_eq!(super::named(name, room), expected, "{name:?} in {room}");
    }
}

#[test]
fn no_arrow_from_a_call_to_its_work_runs_back_in_time() {
    // A copy of pageable memory is under way before its call returns; the kernel's call is over before it begins.
    let text = "pageable x 16MiB\ndevice d 16MiB\ncopy d <- x on 0\nkernel k on 0 reads d for 50us\nsync 0\n";
    let model = crate::model::Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap();
    let slices = &model.trace.slices;
    let is_launch = |f: &&spanlift::trace::Flow| f.kind == spanlift::trace::FlowKind::Launch;
    let launches: Vec<_> = model.trace.flows.iter().filter(is_launch).collect();
    assert!(launches.iter().any(|f| slices.start[f.to as usize] < slices.end[f.from as usize]));
    let scene = scene(&model.trace, &TimelineOptions { width: 900.0, ..TimelineOptions::default() });
    let curves = scene.shapes.iter().filter_map(|shape| match shape {
        Shape::Path { points, .. } if points.len() > 4 => Some((points[0].0, points[points.len() - 1].0)),
        _ => None,
    });
    let curves: Vec<_> = curves.collect();
    assert!(curves.len() >= launches.len(), "{curves:?}");
    assert!(curves.iter().all(|(from, to)| from <= to), "{curves:?}");
}

#[test]
fn an_arrow_of_the_chosen_slice_is_drawn_to_the_edge_where_its_other_end_is_beyond() {
    let trace = race();
    let arrows = |selected| {
        let mut app =
            crate::app::App::new(crate::model::Model::new("race", trace.clone()), crate::theme::Theme::LIGHT);
        app.resize(900.0, 400.0);
        app.select(selected);
        // The call that launches the kernel is there to its end, and the kernel begins when all of that is over.
        app.show(15_000, 30_000);
        let scene = app.scene();
        let curves = scene.shapes.iter().filter_map(|shape| match shape {
            Shape::Path { points, .. } => Some(points),
            _ => None,
        });
        let is_arrow = |points: &&Vec<(f64, f64)>| {
            points.len() > 1 && points[0].0 < points[1].0 && points[0].1 < points[1].1
        };
        curves.filter(is_arrow).count()
    };
    assert_eq!((arrows(None), arrows(Some(2))), (0, 1));
}

/// No two kinds of copies differ in hue alone, whether their memory is pageable or not.
#[test]
fn every_copy_with_room_for_it_has_the_letter_of_its_direction() {
    let letters = [(Kind::ToDevice, "D"), (Kind::ToHost, "H"), (Kind::WithinDevice, "W"), (Kind::Peer, "B")];
    let mut seen = [false; 4];
    for seed in 0..20 {
        let trace = crowd(seed, 60);
        let scene = scene(&trace, &TimelineOptions { width: 3000.0, ..TimelineOptions::default() });
        for (n, shape) in scene.shapes.iter().enumerate() {
            let Shape::Rect(Rect { of: Of::Slice(k), x, y, w, h, .. }) = shape else { continue };
            // With a ground where it stands on a pattern; up to the next slice.
            let rest = scene.shapes[n + 1..].iter();
            let own = rest
                .take_while(|shape| !matches!(shape, Shape::Rect(rect) if rect.of != Of::Nothing))
                .take(3);
            let first =
                own.filter_map(|shape| if let Shape::Text(text) = shape { Some(text) } else { None }).next();
            let kind = letters.iter().position(|(kind, _)| *kind == trace.slices.kind[*k as usize]);
            let letter = kind.map(|at| letters[at].1).filter(|_| 16.0 <= *w);
            let found = first.filter(|text| text.face == Face::Bold && text.anchor == Anchor::Middle);
            assert_eq!(found.map(|text| &*text.text), letter, "seed {seed}: slice {k} of {w}");
            if let (Some(text), Some(at)) = (found, kind) {
                let (x0, y0, x1, y1) = text.bounds();
                assert!(
                    *x < x0 && x1 < x + w && *y <= y0 && y1 <= y + h,
                    "seed {seed}: {text:?} in {x} {y} {w} {h}"
                );
                seen[at] = true;
            }
        }
    }
    // No other kind is in these.
    assert_eq!(seen[..2], [true; 2]);
    assert_eq!(letters.map(|(kind, _)| kind_letter(kind)), letters.map(|(_, letter)| Some(letter)));
}

/// At any point: the slice of the rectangle that is drawn there, half a pixel beside it still, and nothing where there is none.
#[test]
fn what_is_under_any_point_is_what_is_drawn_there_and_nothing_else() {
    let (mut n_hit, mut n_missed) = (0, 0);
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut app = crate::app::App::new(crate::model::Model::new("crowd", crowd(seed, 500)), Theme::LIGHT);
        app.resize(700.0, 130.0);
        for _ in 0..12 {
            let at = (200.0 + random.below(500) as f64, 60.0);
            app.key("0", false);
            app.wheel(at, (0.0, -(random.below(900) as f64)), crate::grip::Turn::Zoom);
            app.set_scroll(random.below(90) as f64);
            app.pointer_left();
            let scene = app.scene();
            let rects: Vec<_> = scene.rects().filter(|r| !matches!(r.of, Of::Nothing)).cloned().collect();
            let (left, width) = app.plot();
            for _ in 0..150 {
                let x = (left + width) * random.below(1000) as f64 / 1000.0;
                let y = random.below(1300) as f64 / 10.0;
                app.pointer_moved(x, y);
                // Tracks have a pixel between them, and so have neighbours.
                let near = |by: f64, hair: f64| {
                    let is_on = move |r: &&Rect| {
                        let (left, right) = (r.x - by, r.x + r.w + by + hair);
                        left <= x && x <= right && r.y - hair <= y && y < r.y + r.h + hair
                    };
                    rects.iter().filter(is_on).collect::<Vec<_>>()
                };
                let is_plot = RULER <= y && left <= x;
                match (app.hovered(), is_plot) {
                    (None, true) => {
                        assert!(
                            near(-0.1, 0.0).is_empty(),
                            "seed {seed}: nothing at {x}, {y}: {:?}",
                            near(-0.1, 0.0)
                        );
                        n_missed += 1;
                    }
                    (None, false) => {}
                    (Some(k), _) => {
                        assert!(y >= RULER && x >= left, "seed {seed}: {k} at {x}, {y}");
                        let slices = &app.model.trace.slices;
                        let starts = app.view().x_from_time(slices.start[k as usize]) + left;
                        let ends = app.view().x_from_time(slices.end[k as usize]) + left;
                        let is_it = |r: &&Rect| match r.of {
                            Of::Slice(of) => of == k,
                            // One of those that are drawn as one: it begins or ends in that column.
                            _ => r.x - 1.0 <= ends && starts <= r.x + r.w + 1.0,
                        };
                        assert!(near(0.6, 1.0).iter().any(is_it), "seed {seed}: {k} at {x}, {y}");
                        n_hit += 1;
                    }
                }
            }
        }
    }
    assert!(n_hit > 300 && n_missed > 300, "{n_hit}, {n_missed}");
}

#[test]
fn a_kind_without_bytes_has_none_in_the_figures() {
    let scene = scene(&race(), &TimelineOptions { figures: true, ..TimelineOptions::default() });
    let y = scene.texts().find(|t| t.text == "kind").unwrap().y;
    let kernel = scene.texts().find(|t| t.text == "kernel" && t.y > y).unwrap().y;
    let line: Vec<&str> = scene.texts().filter(|t| t.y == kernel).map(|t| &*t.text).collect();
    assert_eq!(line, ["kernel", "1", "120 µs", "", ""]);
}

/// What goes on beyond the right end of the plot is not drawn in the room beside it, and not there for the pointer.
#[test]
fn beside_the_plot_nothing_is_pointed_at() {
    let program = "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n";
    let item = crate::pack::PageItem::source("p", program, "h200-pcie5");
    let program = crate::model::Model::open(&item).unwrap();
    for model in [crate::model::Model::new("crowd", crowd(1, 500)), program] {
        let mut app = crate::app::App::new(model, Theme::LIGHT);
        app.resize(900.0, 600.0);
        let (left, width) = app.plot();
        // So near that most goes on at both ends.
        app.wheel((left + width / 2.0, 100.0), (0.0, -300.0), crate::grip::Turn::Zoom);
        let mut n = 0;
        for y in (0..600).map(f64::from) {
            let beside = [left - 1.0, left + width + 3.0, 899.0].map(|x| (x, true));
            let within = (1..40).map(|k| (left + width - 5.0 * f64::from(k), false));
            for (x, is_beside) in beside.into_iter().chain(within) {
                app.pointer_moved(x, y);
                let found = app.hovered().is_some() || x > left && app.hovered_buffer().is_some();
                assert!(!(is_beside && found), "at {x}, {y}");
                n += u32::from(found);
            }
        }
        assert!(n > 9, "{n}");
    }
}
