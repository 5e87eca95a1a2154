//! A memory snapshot over time: which moment the map shows, what happened there, and how much was held at every other one.

use std::cell::Cell;
use std::sync::Arc;

use spanlift::trace::StrId;
use spanlift::trace::snapshot::{Event, Held, Life, Moment, Past, Snapshot};

use crate::scene::{Rect, Scene, Shape, Stroke, Text};
use crate::text;
use crate::theme::Theme;

/// Height of the strip of a snapshot.
pub const HEIGHT: f64 = 76.0;
/// Of it, what shows bytes; the rest shows fragmentation.
const BYTES: f64 = 46.0;
const LABEL: f64 = 10.0;
/// Moments at which the strip is exact.
const SAMPLES: usize = 400;
/// Frames of a stack that are told.
const FRAMES: usize = 24;

/// A snapshot and the moment that is shown.
#[derive(Debug, Clone)]
pub struct OverTime {
    snapshot: Arc<Snapshot>,
    /// The devices that were recorded, with their lives.
    pasts: Vec<(usize, Past)>,
    /// Which of them the moments count: the one with the most events.
    main: usize,
    moment: usize,
    /// What was held at the moment whose memory was asked for last.
    held: Cell<Option<(usize, Held)>>,
    /// Moments and what was held at them.
    samples: Vec<(usize, Held)>,
    /// At most how wide the name of a block is.
    name_width: f64,
    /// The kinds of the segments that are there at the end, by address.
    kinds: Vec<(i64, StrId)>,
}

/// What there is to tell of the moment that is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// `event 17 of 1,500`.
    pub at: String,
    /// Lines about what happens next and what is held.
    pub lines: Vec<String>,
    /// Who asked for it, innermost first.
    pub stack: Vec<String>,
    /// The selected block: when it came and went, and who asked for it.
    pub block: Option<(String, Vec<String>)>,
}

impl OverTime {
    /// The end of a snapshot; nothing where no event was recorded.
    ///
    /// # Cost
    /// `n log n` in the events of all devices.
    pub fn new(snapshot: Snapshot) -> Option<OverTime> {
        let recorded = (0..snapshot.traces.len()).filter(|&d| !snapshot.traces[d].is_empty());
        let pasts: Vec<(usize, Past)> = recorded.map(|device| (device, snapshot.past(device))).collect();
        let main = (0..pasts.len()).max_by_key(|&k| (pasts[k].1.n_events(), std::cmp::Reverse(k)))?;
        let n = pasts[main].1.n_events();
        let count = SAMPLES.min(n);
        let at = |k: usize| (k * n).checked_div(count).unwrap_or(0);
        let samples = (0..=count).map(|k| (at(k), pasts[main].1.at(at(k)).held())).collect();
        let kinds = snapshot.segments.iter().map(|segment| (segment.address, segment.segment_type));
        let mut kinds: Vec<(i64, StrId)> = kinds.collect();
        kinds.sort_unstable();
        Some(OverTime {
            name_width: crate::snapshot::name_width(&snapshot),
            kinds,
            snapshot: Arc::new(snapshot),
            pasts,
            main,
            moment: n,
            held: Cell::default(),
            samples,
        })
    }

    /// How many events the cursor goes through.
    pub fn n_events(&self) -> usize {
        self.pasts[self.main].1.n_events()
    }

    /// The moment that is shown: the state before this event, or the end.
    pub fn moment(&self) -> usize {
        self.moment
    }

    /// Chooses a moment.
    pub fn go(&mut self, moment: usize) {
        self.moment = moment.min(self.n_events());
    }

    /// Chooses the next event, or the one before, that hands memory out or takes it back.
    pub fn step(&mut self, by: isize) {
        let events = &self.snapshot.traces[self.pasts[self.main].0];
        let mut at = self.moment;
        while let Some(next) = at.checked_add_signed(by).filter(|&k| k <= events.len()) {
            at = next;
            let moves = |k: usize| {
                let action = events.get(k).map_or("", |event| self.snapshot.strings.get(event.action));
                matches!(action, "alloc" | "free_completed") || action.starts_with("segment")
            };
            if at == events.len() || moves(at) {
                break;
            }
        }
        self.moment = at;
    }

    /// The wall clock at the moment, in nanoseconds; nothing in files without times.
    pub fn wall_ns(&self) -> Option<i64> {
        let events = &self.snapshot.traces[self.pasts[self.main].0];
        let event = events.get(self.moment).or(events.last())?;
        event.time_us?.checked_mul(1000)
    }

    /// Chooses the moment at this time of the wall clock, if it lies within what was recorded.
    pub fn go_to_wall(&mut self, ns: i64) -> bool {
        let events = &self.snapshot.traces[self.pasts[self.main].0];
        let time = |event: Option<&Event>| event.and_then(|event| event.time_us?.checked_mul(1000));
        let ends = time(events.first()).zip(time(events.last()));
        let is_in = ends.is_some_and(|(first, last)| first <= ns && ns <= last);
        if is_in {
            self.moment = self.before(self.main, ns);
        }
        is_in
    }

    /// The moment of a device after every event that lies before this time of the wall clock.
    fn before(&self, k: usize, ns: i64) -> usize {
        let events = &self.snapshot.traces[self.pasts[k].0];
        let lies_before = |event: &Event| event.time_us.is_some_and(|at| at.saturating_mul(1000) < ns);
        events.partition_point(lies_before)
    }

    /// What is there at the moment, by device; other devices at the same time, where the file has times.
    pub fn moments(&self) -> Vec<(usize, Moment)> {
        let wall = self.wall_ns().filter(|_| self.moment < self.n_events());
        let of = |k: usize| match wall {
            _ if k == self.main => self.moment,
            Some(ns) => self.before(k, ns),
            None => self.pasts[k].1.n_events(),
        };
        let at = |k: usize| {
            let moment = self.pasts[k].1.at(of(k));
            if k == self.main {
                self.held.set(Some((self.moment, moment.held())));
            }
            (self.pasts[k].0, moment)
        };
        (0..self.pasts.len()).map(at).collect()
    }

    /// Which devices the moments are about.
    pub fn devices(&self) -> impl Iterator<Item = usize> + '_ {
        self.pasts.iter().map(|(device, _)| *device)
    }

    /// The snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The kind of the segment at an address, if one is there at the end.
    pub(crate) fn kind(&self, address: i64) -> Option<StrId> {
        let k = self.kinds.binary_search_by_key(&address, |kind| kind.0).ok()?;
        Some(self.kinds[k].1)
    }

    pub(crate) fn name_width(&self) -> f64 {
        self.name_width
    }

    fn stack(&self, stack: u32) -> Vec<String> {
        let frames = self.snapshot.stacks.get(stack);
        let line = |&frame: &u32| {
            let frame = self.snapshot.stacks.frames[frame as usize];
            let [file, name] = [frame.filename, frame.name].map(|id| self.snapshot.strings.get(id));
            text::clean(&format!("{name} ({file}:{})", frame.line))
        };
        let mut told: Vec<String> = frames.iter().take(FRAMES).map(line).collect();
        if frames.len() > FRAMES {
            told.push(format!("and {} more", text::count(frames.len() - FRAMES, "frame")));
        }
        told
    }

    /// What there is to tell, with a block selected.
    pub fn told(&self, selected: Option<Life>) -> Told {
        let (device, past) = &self.pasts[self.main];
        let events = &self.snapshot.traces[*device];
        let known = self.held.get().filter(|(moment, _)| *moment == self.moment);
        let held = known.map_or_else(|| past.at(self.moment).held(), |(_, held)| held);
        let size = |n: i128| text::bytes(u64::try_from(n).unwrap_or(0));
        let clock = |event: usize| {
            let time = |k: usize| events.get(k).or(events.last()).and_then(|event| event.time_us);
            match (time(0), time(event)) {
                (Some(first), Some(at)) => text::time(at.saturating_sub(first).saturating_mul(1000)),
                _ => String::new(),
            }
        };
        let n = text::thousands(events.len() as u64);
        let mut told = Told::default();
        match events.get(self.moment) {
            Some(event) => {
                let action = self.snapshot.strings.get(event.action).replace('_', " ");
                told.at = format!("event {} of {n}", text::thousands(self.moment as u64));
                let size = size(event.size.into());
                told.lines
                    .push(format!("next: {action}, {size} at {:#x}, stream {}", event.addr, event.stream));
                told.stack = self.stack(event.stack);
            }
            None => told.at = format!("the end, after {n} events"),
        }
        let since = clock(self.moment);
        if !since.is_empty() {
            told.lines.push(format!("{since} after the first event"));
        }
        told.lines.push(format!(
            "cuda:{device}: {} allocated of {} reserved; {} free within segments, the largest piece {}: fragmentation {:.1} %",
            size(held.allocated),
            size(held.reserved),
            size(held.free),
            size(held.largest_free),
            100.0 * held.fragmentation()
        ));
        told.block = selected.map(|life| {
            let came = match life.from {
                0 => "before the first event".to_owned(),
                from => format!("by event {}", text::thousands(u64::from(from) - 1)),
            };
            let went = match life.to as usize {
                to if to >= events.len() => "still there at the end".to_owned(),
                to => format!("freed by event {}", text::thousands(to as u64)),
            };
            (
                format!("{} at {:#x}: allocated {came}, {went}", size(life.size.into()), life.addr),
                self.stack(life.stack),
            )
        });
        told
    }

    /// The strip above the map: reserved and allocated bytes and fragmentation over all events, and the moment.
    pub fn strip(&self, width: f64, theme: &Theme) -> Scene {
        let mut scene = Scene::new(width, HEIGHT, theme.lane);
        let n = self.n_events().max(1) as f64;
        let most = self.samples.iter().map(|(_, held)| held.reserved).max().unwrap_or(0).max(1) as f64;
        let x = |moment: usize| moment as f64 / n * width;
        let mut area = |of: &dyn Fn(&Held) -> f64, base: f64, fill| {
            let mut points: Vec<(f64, f64)> = vec![(0.0, base)];
            points.extend(self.samples.iter().map(|(m, held)| (x(*m), base - of(held))));
            points.push((width, base));
            scene.shapes.push(Shape::Polygon { points, fill });
        };
        area(&|held| held.reserved as f64 / most * (BYTES - 4.0), BYTES, theme.accent.toward(theme.lane, 72));
        area(&|held| held.allocated as f64 / most * (BYTES - 4.0), BYTES, theme.accent);
        let room = HEIGHT - BYTES - 4.0;
        area(&|held| held.fragmentation() * room, HEIGHT, theme.hazard.toward(theme.lane, 45));
        scene.line((0.0, BYTES), (width, BYTES), Stroke::solid(theme.ground, 2.0));
        let peak = self.samples.iter().map(|(_, held)| held.reserved).max().unwrap_or(0);
        let bytes =
            format!("allocated of reserved, {} at most", text::bytes(u64::try_from(peak).unwrap_or(0)));
        for (top, words) in [(2.0, bytes), (BYTES + 3.0, "fragmentation, 0 to 100 %".to_owned())] {
            let w = text::width(&words, LABEL, false);
            scene.add(Rect::filled(2.0, top, w + 8.0, LABEL + 4.0, theme.lane.toward(theme.ground, 50)));
            let y = top + (LABEL + 4.0) / 2.0;
            scene.shapes.push(Shape::Text(Text::new(6.0, y, LABEL, theme.ink, words)));
        }
        let at = x(self.moment).clamp(1.0, width - 1.0);
        scene.line((at, 0.0), (at, HEIGHT), Stroke::solid(theme.ink, 2.0));
        scene
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryApp, MemoryPicture};
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
            let blocks: usize = over.moments().iter().map(|(_, m)| m.blocks.len()).sum();
            assert_eq!(app.map().n_views(), blocks, "moment {moment}");
            assert_eq!(over.moment(), moment);
            let strip = over.strip(600.0, &Theme::LIGHT);
            assert!(strip.rects().all(|r| 0.0 <= r.x && r.x + r.w <= 600.0 && r.y + r.h <= HEIGHT));
        }
        let names =
            |map: &MemoryPicture| (0..map.n_views()).map(|k| map.name(k).into_owned()).collect::<Vec<_>>();
        assert_eq!(names(app.map()), names(&end), "the last moment is the end");
    }

    /// All that a map shows, in words.
    fn shown(map: &MemoryPicture) -> Vec<String> {
        let storages = map.layout.storages().iter().enumerate().map(|(k, s)| {
            let held = &map.held[k];
            format!("{} {} {:?} {} {:?}", s.id, s.device, s.bytes, held.listed, held.bytes)
        });
        let views = (0..map.n_views()).map(|k| format!("{k} {} {:?}", map.sentence(k), map.span(k).bounds()));
        storages.chain(views).chain(map.told()).collect()
    }

    /// A map of the moment made of a layout, each block a named tensor of it: nothing is made later or kept.
    fn from_nothing(bytes: &[u8], moment: usize) -> MemoryPicture {
        let snapshot = Snapshot::read(bytes).unwrap();
        let mut over = OverTime::new(snapshot).unwrap();
        over.go(moment);
        let (mut layout, blocks) = crate::snapshot::layout_at(&over).unwrap();
        for k in 0..blocks.len() {
            let tensor = blocks.tensor(k);
            layout.tensor(tensor.name(), tensor.storage(), tensor.view().clone()).unwrap();
        }
        MemoryPicture::of(layout)
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
                shown(&from_nothing(&bytes, moment)),
                "step {step}: moment {moment}"
            );
            // The picture too, with nothing chosen and everything in sight.
            if step % 10 == 0 {
                app.select(None);
                let mut fresh = super::super::MemoryApp::of_snapshot("s", &bytes, Theme::LIGHT).unwrap();
                fresh.resize(900.0, 500.0);
                assert!(fresh.look_back());
                fresh.go_to_moment(moment);
                assert_eq!(app.scene().shapes, fresh.scene().shapes, "step {step}: moment {moment}");
            }
        }
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
        assert!(app.go_to_wall(wall));
        assert_eq!(app.over_time().unwrap().wall_ns(), Some(wall));
        assert!(!app.go_to_wall(0), "long before");
    }
}
