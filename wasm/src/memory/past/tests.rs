//! Moments of snapshots: the map of each, how one gets there, and what stays as it was.

use spanlift::Bytes;
use spanlift::memory::{Dtype, View, cuda};
use spanlift::ordered::{BTreeMap, BTreeSet};
use spanlift::trace::snapshot::{Block, Segment};

use super::*;
use crate::memory::{MemoryApp, MemoryOptions, MemoryPicture, scene};
use crate::snapshot::Blocks;
use crate::testing::Random;
use crate::theme::Theme;

/// The shared snapshot, where it is.
fn app() -> Option<MemoryApp> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let bytes = std::fs::read(folder.join("snapshot_small_p4.pickle")).ok()?;
    let mut app = MemoryApp::of_snapshot("s", &bytes, Theme::LIGHT).unwrap();
    app.resize(900.0, 500.0);
    assert!(app.look_back());
    Some(app)
}

#[test]
fn the_map_shows_what_was_there_at_each_moment() {
    let Some(mut app) = app() else { return };
    let n = app.over_time().unwrap().n_events();
    let end = app.map().clone();
    for moment in [0, 1, n / 3, n / 2, n - 1, n] {
        app.go_to_moment(moment);
        let over = app.over_time().unwrap();
        let blocks: usize = over.moments().iter().map(|(_, m)| m.places.len()).sum();
        assert_eq!(app.map().n_views(), blocks, "moment {moment}");
        assert_eq!(over.moment(), moment);
        let strip = over.strip(600.0, &Theme::LIGHT);
        assert!(strip.rects().all(|r| 0.0 <= r.x && r.x + r.w <= 600.0 && r.y + r.h <= HEIGHT));
    }
    let names =
        |map: &MemoryPicture| (0..map.n_views()).map(|k| map.name(k).into_owned()).collect::<Vec<_>>();
    assert_eq!(names(app.map()), names(&end), "the last moment is the end");
}

#[test]
fn an_event_is_shown_by_the_moment_before_it_and_the_segment_that_has_its_address() {
    let Some(mut app) = app() else { return };
    app.resize(900.0, 300.0);
    let snapshot = app.snapshot().unwrap().clone();
    let (mut chosen, mut free) = (0, 0);
    for (device, events) in snapshot.traces.iter().enumerate() {
        for (at, event) in events.iter().enumerate().step_by(7) {
            app.select(Some(0));
            app.go_to_event(device, at);
            let over = app.over_time().unwrap();
            assert_eq!((over.main().0, over.moment(), app.selected()), (device, at, None));
            // Found anew among all segments of the moment.
            let of_device = over.moments().into_iter().find(|(of, _)| *of == device).unwrap().1;
            let has = |life: &&Life| (life.addr..life.addr + life.size).contains(&event.addr);
            let segment = of_device.segments.iter().find(has).map(|life| format!("{:#x}", life.addr));
            let Some(storage) = app.selected_storage() else {
                assert_eq!(segment, None, "event {at} of device {device}");
                free += 1;
                continue;
            };
            chosen += 1;
            let id = app.map().storage(storage).id.clone();
            assert_eq!(id.split([' ', ',']).next(), segment.as_deref());
            app.pointer_moved(400.0, 0.0);
            let is_told = |y: i32| {
                app.pointer_moved(400.0, f64::from(y));
                app.tip().is_some_and(|(title, rest)| title == id || rest.contains(&id))
            };
            assert!((0..300).any(is_told), "{id} is not in sight");
            let is_mark = |r: &&crate::scene::Rect| (r.x, r.w) == (0.0, 4.0);
            assert_eq!(app.scene().rects().filter(is_mark).count(), 1, "{id} is marked, and nothing else");
        }
    }
    assert!(chosen > 100 && free > 0, "{chosen} and {free} events were looked at");
}

/// Shift makes a brace of a bracket on some keyboards, and on others leaves it one.
#[test]
fn with_shift_a_hundred_events_are_passed_on_any_keyboard() {
    let Some(mut app) = app() else { return };
    for (forth, back, shift) in [("]", "[", true), ("}", "{", true), ("}", "{", false)] {
        app.go_to_moment(500);
        app.key(forth, shift);
        assert_eq!(app.over_time().unwrap().moment(), 600, "{forth}");
        app.key(back, shift);
        assert_eq!(app.over_time().unwrap().moment(), 500, "{back}");
    }
}

#[test]
fn the_stream_of_a_segment_can_be_read() {
    let Some(mut app) = app() else { return };
    // As wide as the map is in a window of 1024.
    app.resize(764.0, 4000.0);
    let scene = app.scene();
    let words: Vec<&str> = scene.texts().map(|text| text.text.as_str()).collect();
    for storage in 0..app.map().held.len() {
        let id = app.map().storage(storage).into_owned().id;
        let (segment, stream) = id.split_once(", ").unwrap();
        let is_below = |w: &[&str]| w[0] == segment && w[1].split(", ").next() == Some(stream);
        assert!(words.windows(2).any(is_below), "{id}: {words:?}");
    }
}

#[test]
fn every_segment_is_a_bar_and_every_block_is_reached_on_it_by_hand_and_by_key() {
    let Some(mut app) = app() else { return };
    let map = app.map().clone();
    app.resize(1400.0, 4000.0);
    let mut in_sight = app.in_sight();
    in_sight.sort_unstable();
    assert!(in_sight.iter().copied().eq(0..map.n_views()), "all are in sight, none is listed");
    let rows = |app: &MemoryApp| {
        (0..4000).filter_map(|y| app.frame_row(f64::from(y))).collect::<BTreeSet<_>>().len()
    };
    let n_rows = rows(&app);
    assert!(n_rows <= map.held.len() + map.devices.len(), "{n_rows} rows");
    // By key, from the first to the last.
    let mut seen = Vec::new();
    for _ in 0..map.n_views() {
        app.key("ArrowDown", false);
        seen.extend(app.selected());
    }
    assert_eq!(seen, app.in_sight());
    app.key("ArrowDown", false);
    assert_eq!(app.selected(), seen.last().copied(), "it ends there");
    // By hand: whatever is wider than three pixels at its middle, and nothing between.
    let mut found = BTreeSet::new();
    for y in (0..4000).step_by(5).map(f64::from) {
        for x in (0..1400).map(f64::from) {
            app.pressed(x, y, crate::grip::Grip::Main);
            app.released(x, y);
            found.extend(app.selected());
        }
    }
    assert!(found.len() * 10 > map.n_views() * 6, "{} of {}", found.len(), map.n_views());
    // A segment lists its blocks and hides them again.
    app.select(Some(0));
    app.key("Enter", false);
    assert!(n_rows < rows(&app));
    assert_eq!(app.in_sight().len(), map.n_views(), "listed ones are not there twice");
    app.key("Enter", false);
    assert_eq!(rows(&app), n_rows);
}

#[test]
fn a_segment_is_told_from_the_next_one_in_the_narrowest_page_and_called_what_it_is() {
    let Some(mut app) = app() else { return };
    let n = app.map().held.len();
    for width in [280.0, 296.0, 360.0, 700.0] {
        app.resize(width, 4000.0);
        let scene = app.scene();
        let names: Vec<&str> = scene.texts().filter(|t| t.size == 11.0).map(|t| &*t.text).collect();
        let names: BTreeSet<&str> = names.into_iter().filter(|name| name.contains("00000")).collect();
        assert_eq!(names.len(), n, "at {width}: {names:?}");
        crate::testing::texts_keep_apart(&scene);
    }
    // A still picture shows the same: a bar for each segment, and no row for a block.
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let bytes = std::fs::read(folder.join("snapshot_small_p4.pickle")).unwrap();
    let map = MemoryPicture::of_segments(crate::snapshot::map(&bytes).unwrap().0);
    let still = scene(&map, &MemoryOptions { width: 1100.0, ..MemoryOptions::default() }).to_text();
    let bars = |scene: &str| scene.matches("00000 small").count() + scene.matches("00000 large").count();
    assert_eq!(bars(&still), 24, "{still}");
    app.resize(1100.0, 4000.0);
    for told in [still, app.scene().to_text(), map.told().join("\n"), app.legend(900.0).to_text()] {
        assert!(!told.contains("view") && !told.contains("storage"), "{told}");
    }
}

#[test]
fn the_legend_says_the_same_at_every_moment_so_that_the_map_stays_where_it_is() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let Ok(bytes) = std::fs::read(folder.join("snapshot_small_p4.pickle")) else { return };
    let mut app = MemoryApp::of_snapshot("s", &bytes, Theme::LIGHT).unwrap();
    app.resize(900.0, 500.0);
    // Before anything is drawn: what the last moment shows may be all or nothing of it.
    let at_first = app.legend(360.0);
    assert!(app.look_back());
    let n = app.over_time().unwrap().n_events();
    let moments: Vec<usize> = (0..=40).map(|k| k * 37 % 41 * n / 40).collect();
    for moment in moments {
        app.go_to_moment(moment);
        app.scene();
        assert_eq!(app.legend(360.0), at_first, "moment {moment}");
    }
}

/// All that a map shows, in words.
fn shown(map: &MemoryPicture) -> Vec<String> {
    let storages = map.held.iter().enumerate().map(|(k, held)| {
        let s = map.storage(k);
        format!("{} {} {:?} {} {:?}", s.id, s.device, s.bytes, held.listed, held.bytes)
    });
    let views = (0..map.n_views()).map(|k| {
        format!("{k} {} {} {} {:?}", map.storage_of(k), map.name(k), map.listed(k), map.span(k).bounds())
    });
    storages.chain(views).chain(map.told()).collect()
}

/// The map of the moment made of a layout: every segment a named storage of it, every block a named tensor.
fn from_nothing(over: &OverTime) -> MemoryPicture {
    let mut layout = over.rest().clone();
    let known = over.snapshot();
    for (device, moment) in over.moments() {
        for segment in &moment.segments {
            let (from, to) = (segment.addr, segment.addr + segment.size);
            let at_end = known.segments.iter().find(|s| s.address == from);
            let kind = at_end.map_or(String::new(), |s| format!(" {}", known.strings.get(s.segment_type)));
            let id = format!("{from:#x}{kind}, stream {}", segment.stream.unwrap());
            let size = Bytes(u64::try_from(segment.size).unwrap());
            let storage = layout.storage(&id, cuda(u32::try_from(device).unwrap()), size).unwrap();
            for block in moment.blocks().filter(|b| from <= b.addr && b.addr + b.size <= to) {
                let asked = known.stacks.get(block.stack).first().map_or(String::new(), |&frame| {
                    let frame = known.stacks.frames[frame as usize];
                    let [file, name] = [frame.filename, frame.name].map(|id| known.strings.get(id));
                    let (file, line) = (file.rsplit('/').next().unwrap(), frame.line);
                    let line = if line > 0 { format!(":{line}") } else { String::new() };
                    format!(" {name} ({file}{line})")
                });
                let (shape, offset) = (vec![block.size], block.addr - from);
                let view = View { dtype: Dtype::U8, shape, strides: vec![1], offset };
                layout.tensor(&format!("{:#x}{asked}", block.addr), storage, view).unwrap();
            }
        }
    }
    MemoryPicture::of_segments(layout)
}

/// Of a device's memory, segments with their sizes and the slots that blocks have.
#[derive(Default)]
struct Memory(BTreeMap<i64, i64>, BTreeSet<i64>);

const SLOT: i64 = 1024;

impl Memory {
    /// Something that the allocator might do next: action, address, size.
    fn step(&mut self, source: &mut Random, base: i64) -> Option<(&'static str, i64, i64)> {
        let mut below = |n: usize| usize::try_from(source.below(n.max(1) as u64)).unwrap();
        let Memory(segments, blocks) = self;
        match below(8) {
            0 => {
                let (at, size) = (base + 0x10_0000 * below(9) as i64, SLOT * (1 + below(12)) as i64);
                let is_new = !segments.contains_key(&at);
                is_new.then(|| segments.insert(at, size)).map(|_| ("segment_alloc", at, size))
            }
            1 => {
                let (&at, &size) = segments.iter().nth(below(segments.len()))?;
                let is_empty = blocks.range(at..at + size).next().is_none();
                is_empty.then(|| segments.remove(&at)).map(|_| ("segment_free", at, size))
            }
            2 | 3 => {
                let &at = blocks.iter().nth(below(blocks.len()))?;
                blocks.remove(&at);
                Some(("free_completed", at, SLOT))
            }
            _ => {
                let (&at, &size) = segments.iter().nth(below(segments.len()))?;
                let at = at + SLOT * below(usize::try_from(size / SLOT).unwrap()) as i64;
                blocks.insert(at).then_some(("alloc", at, SLOT))
            }
        }
    }
}

/// Memory of three devices, of which two were recorded. Some events know of blocks that lie in no segment, or partly
/// on others.
fn random(seed: u64) -> Snapshot {
    recorded(seed, true)
}

/// The same; unless it is broken, every event is one that memory took.
fn recorded(seed: u64, is_broken: bool) -> Snapshot {
    let mut source = Random(seed);
    let mut found = Snapshot::default();
    let names = ["small", "active_allocated", "inactive"];
    let [small, active, inactive] = names.map(|name| found.strings.intern(name));
    for device in 0..3 {
        let (mut memory, mut events, mut known) = (Memory::default(), Vec::new(), BTreeSet::new());
        let base = 0x7f00_0000_0000 + (device << 32);
        for time in 0..60 + 200 * device {
            let mut step = memory.step(&mut source, base);
            if let (0, Some(&at), true) = (source.below(20), known.first(), is_broken) {
                step = Some(("free_completed", at + [-9, 7, 512][usize::try_from(time % 3).unwrap()], SLOT));
            }
            let Some((action, addr, size)) = step else { continue };
            known.insert(addr);
            let (action, stream) = (found.strings.intern(action), device);
            events.push(Event { action, addr, size, stream, time_us: Some(time), stack: 0 });
        }
        for (&address, &total_size) in memory.0.iter() {
            let first = found.blocks.len();
            for at in (0..total_size / SLOT).map(|k| address + k * SLOT) {
                let state = if memory.1.contains(&at) { active } else { inactive };
                found.blocks.push(Block { address: None, size: SLOT, requested_size: SLOT, state, stack: 0 });
            }
            found.segments.push(Segment {
                device,
                address,
                total_size,
                allocated_size: 0,
                active_size: 0,
                requested_size: 0,
                stream: device,
                segment_type: small,
                blocks: first..found.blocks.len(),
                stack: 0,
            });
        }
        found.traces.push(if device == 1 { Vec::new() } else { events });
    }
    found
}

#[test]
fn the_map_of_a_moment_is_that_of_a_layout_made_of_it() {
    let (mut n_shared, mut n_same, mut n_other) = (0, 0, 0);
    for seed in 0..16 {
        let mut over = OverTime::new(random(seed)).unwrap();
        let mut source = Random(seed);
        let mut before: Option<MemoryPicture> = None;
        for _ in 0..24 {
            let far = usize::try_from(source.below(over.n_events() as u64 + 1)).unwrap();
            let near = (over.moment() + 1).min(over.n_events());
            over.go(if source.below(2) == 0 { far } else { near });
            let case = format!("seed {seed}, moment {}", over.moment());
            let map = MemoryPicture::of_blocks(over.rest().clone(), Blocks::at(&over).unwrap());
            let held = over.moments()[over.main].1.held();
            assert_eq!(over.held.get(), Some((over.moment(), held)), "{case}");
            let wanted = from_nothing(&over);
            assert_eq!(shown(&map), shown(&wanted), "{case}");
            // So narrow that the column of names has one width for all.
            let options = MemoryOptions { width: 320.0, ..MemoryOptions::default() };
            assert_eq!(scene(&map, &options), scene(&wanted, &options), "{case}");
            n_shared += map.held.iter().filter(|held| held.bytes.unwrap().1 > 0).count();
            for k in map.layout.tensors().len()..map.n_views() {
                assert_eq!(map.same(map.life(k).unwrap()), Some(k), "{case}: {k}");
            }
            // Parts in sight stay where the storages are the same, by name and size.
            let storages = |map: &MemoryPicture| -> Vec<_> {
                (0..map.held.len()).map(|k| map.storage(k).into_owned()).collect()
            };
            if let Some(before) = &before {
                let is_same = storages(&map) == storages(before);
                assert_eq!(map.has_storages_of(before), is_same, "{case}");
                assert!(wanted.has_storages_of(&map), "{case}");
                if is_same { n_same += 1 } else { n_other += 1 }
            }
            before = Some(map);
        }
    }
    assert!(n_shared > 9 && n_same > 50 && n_other > 50, "{n_shared}, {n_same}, {n_other}");
}

#[test]
fn any_way_to_a_moment_leads_to_the_same_map() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let Ok(bytes) = std::fs::read(folder.join("snapshot_small_p4.pickle")) else { return };
    let mut app = app().unwrap();
    let n = app.over_time().unwrap().n_events();
    let mut seed = 11u64;
    let mut below = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % n
    };
    for step in 0..120 {
        match below(6) {
            0 => app.go_to_moment(below(n + 1)),
            1 => assert!(app.key("}", false)),
            2 => assert!(app.key("{", false)),
            3 => assert!(app.key("[", false)),
            _ => assert!(app.key("]", false)),
        }
        if step % 5 == 0 {
            app.select(Some(below(app.map().n_views().max(1))));
        }
        let moment = app.over_time().unwrap().moment();
        assert_eq!(
            shown(app.map()),
            shown(&from_nothing(app.over_time().unwrap())),
            "step {step}: moment {moment}"
        );
        // The picture too, with nothing chosen and everything in sight.
        if step % 10 == 0 {
            app.select(None);
            let mut fresh = MemoryApp::of_snapshot("s", &bytes, Theme::LIGHT).unwrap();
            fresh.resize(900.0, 500.0);
            assert!(fresh.look_back());
            // Whatever was chosen last has made its device the one whose moments count.
            fresh.go_to_moment_of(Some(app.over_time().unwrap().main().0), moment);
            assert_eq!(app.scene().shapes, fresh.scene().shapes, "step {step}: moment {moment}");
        }
    }
}

#[test]
fn a_segment_stays_chosen_while_it_is_there_wherever_it_stands_in_the_list() {
    let Some(mut app) = app() else { return };
    let n = app.over_time().unwrap().n_events();
    let names = |app: &MemoryApp| -> Vec<String> {
        let n: usize = app.over_time().unwrap().moments().iter().map(|(_, m)| m.segments.len()).sum();
        (0..n).map(|k| app.map().storage_details(k).title).collect()
    };
    let (mut n_kept, mut n_gone) = (0, 0);
    for moment in (0..n).step_by(37) {
        app.go_to_moment(n);
        let last = names(&app).len() - 1;
        app.look_at("", &format!("s{last}"));
        let name = app.details().unwrap().title;
        app.go_to_moment(moment);
        let is_there = names(&app).contains(&name);
        assert_eq!(app.details().map(|details| details.title), is_there.then_some(name), "moment {moment}");
        if is_there { n_kept += 1 } else { n_gone += 1 }
    }
    assert!(n_kept > 0 && n_gone > 0, "{n_kept} kept, {n_gone} gone");
}

#[test]
fn steps_stop_where_memory_moves_and_a_block_stays_chosen_while_it_is_there() {
    let Some(mut app) = app() else { return };
    let n = app.over_time().unwrap().n_events();
    app.go_to_moment(0);
    let mut before = 0;
    for _ in 0..50 {
        assert!(app.key("]", false));
        let now = app.over_time().unwrap().moment();
        assert!(before < now && now <= n);
        before = now;
    }
    assert!(app.key("[", false) && app.over_time().unwrap().moment() < before);
    app.go_to_moment(n);
    app.select(Some(0));
    let life = app.map().life(0).unwrap();
    let told = app.over_time().unwrap().told(Some(life.1));
    assert!(told.block.unwrap().0.contains(&format!("{:#x}", life.1.addr)));
    app.go_to_moment(life.1.from as usize);
    let chosen = app.selected().and_then(|k| app.map().life(k));
    assert_eq!(chosen, Some(life));
    if 0 < life.1.from {
        app.go_to_moment(life.1.from as usize - 1);
        assert_eq!(app.selected(), None, "it is not there yet");
    }
}

#[test]
fn the_wall_clock_leads_to_the_same_moment() {
    let Some(mut app) = app() else { return };
    let n = app.over_time().unwrap().n_events();
    app.go_to_moment(n / 2);
    let wall = app.over_time().unwrap().wall_ns().unwrap();
    app.go_to_moment(n);
    assert!(app.go_to_wall(wall, false));
    assert_eq!(app.over_time().unwrap().wall_ns(), Some(wall));
    assert!(!app.go_to_wall(0, false), "long before");
    assert!(app.go_to_wall(0, true) && app.over_time().unwrap().moment() == 0, "nearest is the beginning");
    assert!(app.go_to_wall(i64::MAX, true) && app.over_time().unwrap().moment() == n, "or the end");
}

#[test]
fn where_memory_ran_out_is_shown_told_and_stepped_to() {
    for seed in 0..10 {
        let mut found = random(seed);
        let oom = found.strings.intern("oom");
        let wanted = [5, 11, 20];
        for (k, at) in wanted.into_iter().enumerate() {
            let old = found.traces[0][at];
            found.traces[0].insert(at, Event { action: oom, addr: 6 << 20, size: 20 << 20, ..old });
            assert!(found.traces[0].len() < found.traces[2].len(), "seed {seed}, {k}");
        }
        let told =
            crate::snapshot::told_before(&found, &crate::snapshot::histories(&found, &mut |_, _, _| ()));
        assert!(told[0].ends_with(", out of memory 3 times, first at event 5"), "{}", told[0]);
        assert!(!told[1].contains("out of memory"), "{}", told[1]);
        let mut over = OverTime::new(found).unwrap();
        assert_eq!(over.main(), (0, true), "the device where it ran out, though another has more events");
        over.go(0);
        let mut seen = Vec::new();
        for _ in 0..over.n_events() {
            over.step(1);
            seen.push(over.moment());
        }
        assert!(wanted.iter().all(|at| seen.contains(at)), "{seen:?}");
        over.go(wanted[1]);
        let stream = over.snapshot().traces[0][wanted[1]].stream;
        assert_eq!(over.told(None).lines[0], format!("next: oom, 20 MiB, 6 MiB free, stream {stream}"));
        // A line on the strip for each, where it happened.
        let strip = over.strip(1000.0, &Theme::LIGHT);
        let lines: Vec<f64> = strip
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Path { points, stroke } if stroke.color == Theme::LIGHT.hazard => Some(points[0].0),
                _ => None,
            })
            .collect();
        let n = over.n_events() as f64;
        assert_eq!(lines, wanted.map(|at| (at as f64 / n * 1000.0).floor()), "seed {seed}");
    }
}

#[test]
fn what_moves_nothing_has_no_address() {
    let mut found = random(3);
    let action = found.strings.intern("snapshot");
    let old = found.traces[2][9];
    found.traces[2].insert(9, Event { action, addr: 0, size: 4096, stream: 0, ..old });
    let mut over = OverTime::new(found).unwrap();
    over.go(9);
    assert_eq!(over.told(None).lines[0], "next: snapshot, 4 KiB, stream 0");
}

#[test]
fn one_event_is_one() {
    let mut found = random(3);
    for (device, events) in found.traces.iter_mut().enumerate() {
        events.truncate(usize::from(device == 0));
    }
    assert_eq!(OverTime::new(found).unwrap().at(), "the end, after 1 event");
}

#[test]
fn moments_count_the_device_that_is_followed_from_the_same_time_on() {
    for seed in 0..10 {
        let mut over = OverTime::new(random(seed)).unwrap();
        assert_eq!(over.main(), (2, true), "seed {seed}: it has the most events");
        over.go(over.n_events() / 2);
        let shown = |over: &OverTime| {
            let moments = over.moments();
            moments.iter().find(|(device, _)| *device == 0).map(|(_, moment)| moment.places.clone()).unwrap()
        };
        let before = (shown(&over), over.wall_ns().unwrap());
        assert!(!over.follow(1) && !over.follow(2), "one was not recorded, the other is followed");
        assert!(over.follow(0));
        assert_eq!((over.main(), shown(&over)), ((0, true), before.0), "seed {seed}");
        assert_eq!(
            over.usual(),
            2,
            "seed {seed}: an address without a device is of the one that a page begins with"
        );
        assert_eq!(over.n_events(), over.snapshot().traces[0].len());
        let is_end = over.moment() == over.n_events();
        assert!(is_end || before.1 <= over.wall_ns().unwrap(), "seed {seed}: no event between");
        let told = over.told(None);
        assert!(told.at.ends_with(" on cuda:0"), "{}", told.at);
        assert!(told.lines.iter().any(|line| line.starts_with("cuda:0: ")), "{:?}", told.lines);
        let most = (0..=over.n_events()).map(|k| {
            over.go(k);
            over.now().reserved
        });
        let most = most.max().unwrap();
        assert!(most <= over.peak().reserved, "seed {seed}: the strip is as high as this device needs");
    }
}

#[test]
fn a_block_that_is_chosen_brings_the_history_of_its_device() {
    let Some(mut app) = app() else { return };
    let (main, several) = app.over_time().unwrap().main();
    assert!(several, "the shared snapshot has more than one device");
    let k = (0..app.map().n_views()).find(|&k| app.map().life(k).is_some_and(|(device, _)| device != main));
    let life = app.map().life(k.unwrap()).unwrap();
    app.select(k);
    let over = app.over_time().unwrap();
    assert_eq!(over.main().0, life.0);
    assert_eq!(app.selected().and_then(|k| app.map().life(k)), Some(life), "it stays chosen");
    // The address says which device a moment counts, and leads back.
    app.go_to_moment_of(Some(main), 3);
    let over = app.over_time().unwrap();
    assert_eq!((over.main().0, over.moment(), app.selected()), (main, 3, None));
    // A segment does as well as a block, and the name beside it is its.
    let n = over.n_events();
    app.go_to_moment(n);
    app.resize(900.0, 9000.0);
    let device = |app: &MemoryApp, k: usize| app.map().storage(k).device;
    let other = format!("cuda:{}", life.0);
    let y = (0..9000).map(f64::from).find(|&y| {
        app.pressed(12.0, y, crate::grip::Grip::Main);
        app.released(12.0, y);
        app.selected_storage().is_some_and(|k| device(&app, k).to_string() == other)
    });
    assert!(y.is_some(), "a segment of the other device is there");
    assert_eq!(app.over_time().unwrap().main().0, life.0);
    assert!(app.selected_storage().is_some_and(|k| device(&app, k).to_string() == other), "it stays chosen");
}

/// What a walk forward through the events says of each moment: actions, times and sizes, and how high the strip is there.
#[test]
fn every_moment_is_told_as_a_walk_through_its_events_finds_it() {
    for seed in 0..6 {
        let mut found = recorded(seed, false);
        let [snap, asked] = ["snapshot", "free_requested"].map(|name| found.strings.intern(name));
        for (at, action) in [(3, snap), (9, asked), (10, asked)] {
            let old = found.traces[2][at];
            found.traces[2].insert(at, Event { action, ..old });
        }
        let events = found.traces[2].clone();
        let n = events.len();
        let name = |event: &Event| found.strings.get(event.action).to_owned();
        let names: Vec<String> = events.iter().map(name).collect();
        // Allocated and reserved before each event, and at the end.
        let mut walk = vec![(0i64, 0i64)];
        for (event, name) in events.iter().zip(&names) {
            let (allocated, reserved) = walk[walk.len() - 1];
            walk.push(match &**name {
                "alloc" => (allocated + event.size, reserved),
                "free_completed" => (allocated - event.size, reserved),
                "segment_alloc" => (allocated, reserved + event.size),
                "segment_free" => (allocated, reserved - event.size),
                _ => (allocated, reserved),
            });
        }
        let mut over = OverTime::new(found.clone()).unwrap();
        assert_eq!((over.main().0, over.n_events()), (2, n), "seed {seed}");
        let in_words = |n: i64| crate::text::bytes(n.unsigned_abs());
        let stops = |k: usize| k == n || !["snapshot", "free_requested"].contains(&&*names[k]);
        for (k, &(allocated, reserved)) in walk.iter().enumerate() {
            over.go(k);
            let next = events.get(k).map(|event| {
                let at =
                    if names[k] == "snapshot" { String::new() } else { format!(" at {:#x}", event.addr) };
                format!("next: {}, {}{at}, stream 2", names[k].replace('_', " "), in_words(event.size))
            });
            let us = events[k.min(n - 1)].time_us.unwrap() - events[0].time_us.unwrap();
            let since = format!("{} after the first event", crate::text::time(us * 1000));
            let part = 100.0 * over.now().fragmentation();
            let at = if k < n { format!("event {k} of {n}") } else { format!("the end, after {n} events") };
            assert_eq!(over.told(None).at, format!("{at} on cuda:2"), "seed {seed}");
            let told = over.told(None).lines;
            let (last, others) = told.split_last().unwrap();
            assert_eq!(others, &next.into_iter().chain([since]).collect::<Vec<_>>()[..], "seed {seed}, {k}");
            let starts = format!(
                "cuda:2: {} allocated of {} reserved; {} free within segments, ",
                in_words(allocated),
                in_words(reserved),
                in_words(reserved - allocated)
            );
            assert!(last.starts_with(&starts), "seed {seed}, {k}: {last:?}, not {starts:?}");
            assert!(last.ends_with(&format!(": fragmentation {part:.1} %")), "seed {seed}, {k}: {last:?}");
            for (by, to) in [
                (1, (k + 1..=n).find(|&k| stops(k)).unwrap_or(k)),
                (-1, (0..k).rev().find(|&k| stops(k)).unwrap_or(0)),
            ] {
                over.go(k);
                over.step(by);
                assert_eq!(over.moment(), to, "seed {seed}: {by} from {k}");
            }
        }
        // Block by block: when it came, when it went.
        let mut lives: Vec<Life> = Vec::new();
        for k in 0..=n {
            over.go(k);
            let moments = over.moments();
            lives.extend(moments.iter().find(|(device, _)| *device == 2).unwrap().1.blocks());
        }
        let (mut n_kept, mut n_freed) = (0, 0);
        for life in lives {
            let (from, to) = (life.from as usize, life.to as usize);
            assert_eq!((&*names[from - 1], events[from - 1].addr), ("alloc", life.addr));
            let went = if to < n {
                n_freed += 1;
                assert_eq!((&*names[to], events[to].addr), ("free_completed", life.addr));
                format!("freed by event {to}")
            } else {
                n_kept += 1;
                "still there at the end".to_owned()
            };
            let words = format!(
                "{} at {:#x}: allocated by event {}, {went}",
                in_words(life.size),
                life.addr,
                from - 1
            );
            assert_eq!(over.told(Some(life)).block.unwrap().0, words, "seed {seed}");
        }
        assert!(n_kept > 9 && n_freed > 9, "seed {seed}: {n_kept} kept, {n_freed} freed");
        // The strip: of so few events each moment is a corner of it.
        assert!(n <= SAMPLES);
        let strip = over.strip(900.0, &Theme::LIGHT);
        let areas = strip.shapes.iter().filter_map(|shape| match shape {
            Shape::Polygon { points, .. } => Some(points.clone()),
            _ => None,
        });
        let [reserved, allocated, fragmented] = &areas.collect::<Vec<_>>()[..] else { panic!() };
        let most = walk.iter().map(|held| held.1).max().unwrap() as f64;
        for (k, held) in walk.iter().enumerate() {
            over.go(k);
            let x = k as f64 / n as f64 * 900.0;
            let high = |bytes: i64| BYTES - bytes as f64 / most * (BYTES - 4.0);
            let low = HEIGHT - over.now().fragmentation() * (HEIGHT - BYTES - 4.0);
            for (area, y) in [(reserved, high(held.1)), (allocated, high(held.0)), (fragmented, low)] {
                let corner = area[k + 1];
                let is_there = (corner.0 - x).abs() < 1e-6 && (corner.1 - y).abs() < 1e-6;
                assert!(is_there, "seed {seed}, {k}: {corner:?}, not {x}, {y}");
            }
        }
    }
}
