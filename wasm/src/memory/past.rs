//! A memory snapshot over time: which moment the map shows, what happened there, and how much was held at every other one.

use std::cell::Cell;
use std::sync::Arc;

use spanlift::memory::Layout;
use spanlift::text::grouped;
use spanlift::trace::snapshot::{Alive, Event, Held, History, Life, Moment, Past, Snapshot};

use crate::scene::{Rect, Scene, Shape, Stroke, Text};
use crate::snapshot::{Names, place};
use crate::text;
use crate::theme::Theme;

/// Height of the strip of a snapshot.
pub const HEIGHT: f64 = 76.0;
/// Of it, what shows bytes; the rest shows fragmentation.
const BYTES: f64 = 46.0;
const LABEL: f64 = 10.0;
/// Moments at which the strip is exact.
const SAMPLES: usize = 400;

/// A snapshot and the moment that is shown.
#[derive(Debug, Clone)]
pub struct OverTime {
    snapshot: Arc<Snapshot>,
    names: Arc<Names>,
    /// Which of the devices that were recorded the moments count: that of what was chosen last, else the one with the most events of
    /// those that ran out of memory, or of all.
    main: usize,
    /// Which it is at first.
    usual: usize,
    moment: usize,
    /// What was held at the moment whose map was made last.
    held: Cell<Option<(usize, Held)>>,
    /// Moments and what was held at them, with the most that was held until the next of them.
    samples: Vec<(usize, Held, Alive)>,
    /// Of each device that was recorded, what going through its events found.
    histories: Vec<(usize, History)>,
    /// When the device ran out of memory.
    ooms: Vec<usize>,
    /// The peak of a snapshot that this one is compared with.
    beside: Option<i128>,
    /// The end of the devices that were not recorded.
    rest: Layout,
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
        let has_oom = |k: usize| !crate::snapshot::ooms(&snapshot, pasts[k].0).is_empty();
        let main =
            (0..pasts.len()).max_by_key(|&k| (has_oom(k), pasts[k].1.n_events(), std::cmp::Reverse(k)))?;
        let is_recorded =
            |device: i64| pasts.iter().any(|&(recorded, _)| usize::try_from(device) == Ok(recorded));
        // What could be laid out with the others can be without them.
        let rest = crate::snapshot::layout(&snapshot, |segment| !is_recorded(segment.device));
        let rest = rest.unwrap_or_default();
        let snapshot = Arc::new(snapshot);
        let mut over = OverTime {
            moment: pasts[main].1.n_events(),
            names: Arc::new(Names::of(&snapshot, pasts)),
            rest,
            snapshot,
            main,
            usual: main,
            held: Cell::default(),
            samples: Vec::new(),
            histories: Vec::new(),
            ooms: Vec::new(),
            beside: None,
        };
        over.sample();
        Some(over)
    }

    /// Goes through the events for what the strip of the device shows.
    fn sample(&mut self) {
        let (recorded, past) = &self.names.pasts[self.main];
        let n = past.n_events();
        let count = SAMPLES.min(n);
        let at = |k: usize| (k * n).checked_div(count).unwrap_or(0);
        let nothing = Alive { allocated: 0, reserved: 0 };
        let mut samples: Vec<(usize, Held, Alive)> =
            (0..=count).map(|k| (at(k), past.at(at(k)).held(), nothing)).collect();
        let mut raise = |moment: usize, now: Alive| {
            let next = samples.partition_point(|(at, ..)| *at <= moment);
            if let Some((.., most)) = next.checked_sub(1).and_then(|k| samples.get_mut(k)) {
                most.allocated = most.allocated.max(now.allocated);
                most.reserved = most.reserved.max(now.reserved);
            }
        };
        let histories = crate::snapshot::histories(&self.snapshot, &mut |device, moment, now| {
            if device == *recorded {
                raise(moment, now);
            }
        });
        raise(n, histories[self.main].1.end);
        self.ooms = crate::snapshot::ooms(&self.snapshot, *recorded);
        (self.samples, self.histories) = (samples, histories);
    }

    /// Counts the moments of another device from now on, beginning at the same time; says whether that is another one than before.
    ///
    /// # Cost
    /// `n log n` in the events of all devices, where it is.
    pub fn follow(&mut self, device: usize) -> bool {
        let place = self.names.pasts.iter().position(|(recorded, _)| *recorded == device);
        let Some(main) = place.filter(|&k| k != self.main) else { return false };
        (self.moment, self.main) = (self.moment_of(main), main);
        self.held.take();
        self.sample();
        true
    }

    /// How many events the cursor goes through.
    pub fn n_events(&self) -> usize {
        self.names.pasts[self.main].1.n_events()
    }

    /// The moment that is shown: the state before this event, or the end.
    pub fn moment(&self) -> usize {
        self.moment
    }

    /// Chooses a moment.
    pub fn go(&mut self, moment: usize) {
        self.moment = moment.min(self.n_events());
    }

    /// Chooses the next event, or the one before, that hands memory out, takes it back or has none.
    pub fn step(&mut self, by: isize) {
        let events = &self.snapshot.traces[self.names.pasts[self.main].0];
        let mut at = self.moment;
        while let Some(next) = at.checked_add_signed(by).filter(|&k| k <= events.len()) {
            at = next;
            let moves = |k: usize| {
                let action = events.get(k).map_or("", |event| self.snapshot.strings.get(event.action));
                matches!(action, "alloc" | "free_completed" | "oom") || action.starts_with("segment")
            };
            if at == events.len() || moves(at) {
                break;
            }
        }
        self.moment = at;
    }

    /// The wall clock at the moment, in nanoseconds; nothing in files without times.
    pub fn wall_ns(&self) -> Option<i64> {
        let events = &self.snapshot.traces[self.names.pasts[self.main].0];
        let event = events.get(self.moment).or(events.last())?;
        event.time_us?.checked_mul(1000)
    }

    /// Chooses the moment at this time of the wall clock, if it lies within what was recorded, or as near as can be.
    pub fn go_to_wall(&mut self, ns: i64, is_near: bool) -> bool {
        let events = &self.snapshot.traces[self.names.pasts[self.main].0];
        let time = |event: Option<&Event>| event.and_then(|event| event.time_us?.checked_mul(1000));
        let ends = time(events.first()).zip(time(events.last()));
        let is_in = ends.is_some_and(|(first, last)| is_near || first <= ns && ns <= last);
        if is_in {
            self.moment = self.before(self.main, ns);
        }
        is_in
    }

    /// The moment of a device after every event that lies before this time of the wall clock.
    fn before(&self, k: usize, ns: i64) -> usize {
        let events = &self.snapshot.traces[self.names.pasts[k].0];
        let lies_before = |event: &Event| event.time_us.is_some_and(|at| at.saturating_mul(1000) < ns);
        events.partition_point(lies_before)
    }

    /// What is there at the moment, by device; other devices at the same time, where the file has times.
    pub fn moments(&self) -> Vec<(usize, Moment<'_>)> {
        let pasts = self.names.pasts.iter().enumerate();
        pasts.map(|(k, (device, past))| (*device, past.at(self.moment_of(k)))).collect()
    }

    fn moment_of(&self, k: usize) -> usize {
        match self.wall_ns().filter(|_| self.moment < self.n_events()) {
            _ if k == self.main => self.moment,
            Some(ns) => self.before(k, ns),
            None => self.names.pasts[k].1.n_events(),
        }
    }

    /// What the device of the moments holds.
    pub(crate) fn now(&self) -> Held {
        let known = self.held.get().filter(|(moment, _)| *moment == self.moment);
        known.map_or_else(|| self.names.pasts[self.main].1.at(self.moment).held(), |(_, held)| held)
    }

    /// Of each device that was recorded, what going through its events found.
    pub(crate) fn histories(&self) -> &[(usize, History)] {
        &self.histories
    }

    /// The device that the moments count, and whether others were recorded.
    pub(crate) fn main(&self) -> (usize, bool) {
        (self.histories[self.main].0, self.histories.len() > 1)
    }

    /// The device whose moments count until something is chosen on another.
    pub fn usual(&self) -> usize {
        self.histories[self.usual].0
    }

    /// The most that the device of the moments held, at any of them.
    pub fn peak(&self) -> Alive {
        self.histories[self.main].1.peak
    }

    /// The peak of reserved bytes of a snapshot that this one is compared with.
    pub(crate) fn set_beside(&mut self, peak: Option<i128>) {
        self.beside = peak;
    }

    /// The bytes that are as high as the strip, and the peak of what is compared where that is another one.
    pub(crate) fn height(&self) -> (i128, Option<i128>) {
        let peak = self.peak();
        let own = peak.reserved.max(peak.allocated).max(1);
        (own.max(self.beside.unwrap_or(0)), self.beside.filter(|&other| 0 < other && other != peak.reserved))
    }

    /// Keeps what is held at the moment, of the device at a place among the recorded ones.
    pub(crate) fn held(&self, place: usize, held: Held) {
        if place == self.main {
            self.held.set(Some((self.moment, held)));
        }
    }

    /// Which devices the moments are about.
    pub fn devices(&self) -> impl Iterator<Item = usize> + '_ {
        self.names.pasts.iter().map(|(device, _)| *device)
    }

    /// The snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// What segments and blocks are named by.
    pub(crate) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// The end of the devices that were not recorded.
    pub(crate) fn rest(&self) -> &Layout {
        &self.rest
    }

    fn stack(&self, stack: u32) -> Vec<String> {
        let frames = self.snapshot.stacks.get(stack);
        let line = |&frame: &u32| {
            let frame = self.snapshot.stacks.frames[frame as usize];
            let [file, name] = [frame.filename, frame.name].map(|id| self.snapshot.strings.get(id));
            text::clean(&format!("{name} ({})", place(file, frame.line)))
        };
        frames.iter().map(line).collect()
    }

    /// The moment in words: `event 17 of 1,500`, and on which device where several were recorded.
    pub(crate) fn at(&self) -> String {
        let n = self.n_events();
        let at = match self.moment {
            at if at < n => format!("event {} of {}", grouped(at), grouped(n)),
            _ => format!("the end, after {}", text::count(n, "event")),
        };
        match self.main() {
            (device, true) => format!("{at} on cuda:{device}"),
            _ => at,
        }
    }

    /// What there is to tell, with a block selected.
    pub fn told(&self, selected: Option<Life>) -> Told {
        let (device, held) = (self.main().0, self.now());
        let events = &self.snapshot.traces[device];
        let size = |n: i128| text::bytes(u64::try_from(n).unwrap_or(0));
        let clock = |event: usize| {
            let time = |k: usize| events.get(k).or(events.last()).and_then(|event| event.time_us);
            match (time(0), time(event)) {
                (Some(first), Some(at)) => text::time(at.saturating_sub(first).saturating_mul(1000)),
                _ => String::new(),
            }
        };
        let mut told = Told { at: self.at(), ..Told::default() };
        if let Some(event) = events.get(self.moment) {
            let action = self.snapshot.strings.get(event.action).replace('_', " ");
            let size = |n: i64| size(n.into());
            let rest = match &*action {
                // It moves nothing.
                "snapshot" => String::new(),
                // In place of an address it has what the device had left.
                "oom" => format!(", {} free", size(event.addr)),
                _ => format!(" at {:#x}", event.addr),
            };
            told.lines.push(format!("next: {action}, {}{rest}, stream {}", size(event.size), event.stream));
            told.stack = self.stack(event.stack);
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
                from => format!("by event {}", grouped(u64::from(from) - 1)),
            };
            let went = match life.to as usize {
                to if to >= events.len() => "still there at the end".to_owned(),
                to => format!("freed by event {}", grouped(to)),
            };
            (
                format!("{} at {:#x}: allocated {came}, {went}", size(life.size.into()), life.addr),
                self.stack(life.stack),
            )
        });
        told
    }

    /// The strip above the map: reserved and allocated bytes and fragmentation over all events, at whatever moment.
    pub fn strip(&self, width: f64, theme: &Theme) -> Scene {
        let mut scene = Scene::new(width, HEIGHT, theme.lane);
        let n = self.n_events().max(1) as f64;
        let (height, other) = self.height();
        let high = |bytes: i128| bytes.max(0) as f64 / height as f64 * (BYTES - 4.0);
        let x = |moment: usize| moment as f64 / n * width;
        let mut area = |of: &dyn Fn(&Held, &Alive) -> f64, base: f64, fill| {
            let mut points: Vec<(f64, f64)> = vec![(0.0, base)];
            points.extend(self.samples.iter().map(|(m, held, most)| (x(*m), base - of(held, most))));
            points.push((width, base));
            scene.shapes.push(Shape::Polygon { points, fill });
        };
        area(&|_, most| high(most.reserved), BYTES, theme.accent.toward(theme.lane, 72));
        area(&|_, most| high(most.allocated), BYTES, theme.accent);
        let room = HEIGHT - BYTES - 4.0;
        area(&|held, _| held.fragmentation() * room, HEIGHT, theme.hazard.toward(theme.lane, 45));
        scene.line((0.0, BYTES), (width, BYTES), Stroke::solid(theme.ground, 2.0));
        let mut last = -1.0;
        for &moment in &self.ooms {
            let x = x(moment).floor();
            if x > last {
                scene.line((x, 0.0), (x, BYTES), Stroke::solid(theme.hazard, 2.0));
            }
            last = x;
        }
        let peak = self.peak().reserved;
        let size = |n: i128| text::bytes(u64::try_from(n).unwrap_or(0));
        let of = match self.main() {
            (device, true) => format!("cuda:{device}: "),
            _ => String::new(),
        };
        let own = format!("{of}allocated of reserved, {} at most", size(peak));
        let words = match other {
            // Where the top of the other one's lies in this one.
            Some(other) if other < peak => {
                let y = BYTES - high(other);
                scene.line((0.0, y), (width, y), Stroke { dashed: true, ..Stroke::solid(theme.ink, 1.0) });
                format!("{own}; dashed: that of the other, {}", size(other))
            }
            Some(other) => format!("{own}, to the scale of the other's {}", size(other)),
            None => own.clone(),
        };
        let bytes = if text::width(&words, LABEL, false) <= width - 12.0 { words } else { own };
        for (top, words) in [(2.0, bytes), (BYTES + 3.0, "fragmentation, 0 to 100 %".to_owned())] {
            let w = text::width(&words, LABEL, false);
            scene.add(Rect::filled(2.0, top, w + 8.0, LABEL + 4.0, theme.lane.toward(theme.ground, 50)));
            let y = top + (LABEL + 4.0) / 2.0;
            scene.shapes.push(Shape::Text(Text::new(6.0, y, LABEL, theme.ink, words)));
        }
        scene
    }
}

#[cfg(test)]
mod tests;
