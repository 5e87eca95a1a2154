//! The rows of a timeline: which lanes stand where, and their slices in the order of time.
//!
//! Built once per trace. Slices that overlap on one lane lie on tracks below each other; on every track starts and ends
//! both ascend, so that what is on screen is found by bisection and nothing is ever hidden behind something else.

mod arrows;
mod counters;
mod engines;
#[cfg(not(target_arch = "wasm32"))]
mod fewer;
mod flight;
mod track;

use std::ops::Range;

use arrows::Arrows;
use engines::{engines, regrouped};
pub(crate) use flight::calls;
use spanlift::ordered::BTreeMap;
use spanlift::trace::{FlowKind, Kind, LaneKind, Source, StrId, Trace};
pub use track::Track;
pub(crate) use track::{first_where, order, sorted};

use crate::lifetimes::{Place, copies, places};
use crate::text::clean;

/// All rows of one trace, in the order in which they are drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// Groups of rows under one heading.
    pub sections: Vec<Section>,
    /// The rows from top to bottom.
    pub rows: Vec<Row>,
    /// Slices that `shallow` left out.
    pub n_below: u64,
    /// Where each slice lies: row and track; slices of lanes that are not shown have [`Rows::NOWHERE`].
    places: Vec<(u32, u32)>,
    /// Pairs of a command and one of its slices, ordered.
    by_command: Vec<(u32, u32)>,
    /// Where memory is shown, the copies by their beginning.
    copies: Vec<u32>,
    /// First and last moment, looked for once: of a million slices that is no work for every picture.
    extent: Option<(i64, i64)>,
    /// Times are counted from 0, not from the first.
    has_own_zero: bool,
    /// The trace's arrows of each kind, in the order of [`ARROWS`].
    arrows: [Arrows; ARROWS.len()],
    /// The marks by time.
    marks: Vec<u32>,
    /// The rows by stream, where these are by something else.
    by_stream: Option<Box<Rows>>,
}

/// The kinds of arrows.
const ARROWS: [FlowKind; 4] = [FlowKind::Launch, FlowKind::Event, FlowKind::Sync, FlowKind::Other];

/// A heading and its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// `HOST`, `STREAMS`, `ENGINES` or `OTHER`, with the group where there are several.
    pub title: String,
    /// Positions of its rows.
    pub rows: Range<usize>,
}

/// One lane, drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What stands to its left.
    pub name: String,
    /// What it shows.
    pub kind: LaneKind,
    /// Its tracks from top to bottom, at least one.
    pub tracks: Vec<Track>,
    /// The values of a counter in the order of time; empty for a row of slices.
    pub samples: Vec<(i64, f64)>,
    /// What a place holds over time; nothing for a row of slices or samples.
    pub memory: Option<Box<Place>>,
}

impl Row {
    fn empty() -> Row {
        Row {
            name: String::new(),
            kind: LaneKind::Other,
            tracks: vec![Track::default()],
            samples: Vec::new(),
            memory: None,
        }
    }
}

/// Which lanes are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Host threads.
    pub host: bool,
    /// Streams.
    pub streams: bool,
    /// Copy engines and compute units.
    pub engines: bool,
    /// Annotations and whatever else a file holds.
    pub other: bool,
    /// Counters.
    pub counters: bool,
    /// The memory of a program: its buffers over time, a row for each place that holds any.
    pub memory: bool,
    /// Also streams and engines on which nothing happens.
    pub empty: bool,
    /// By what the work of devices is put on rows.
    pub group: Group,
}

/// By what the work of devices is put on rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Group {
    /// A row for each stream, and below them one for each engine that shows the same work again.
    #[default]
    Stream,
    /// A row for each engine, whatever stream the work is on, and below those that copy in one direction the bytes in flight.
    Engine,
    /// A row for each kind of work.
    Kind,
}

impl Default for Shown {
    fn default() -> Self {
        Shown {
            host: true,
            streams: true,
            engines: true,
            other: true,
            counters: true,
            memory: false,
            empty: true,
            group: Group::Stream,
        }
    }
}

/// The kinds of sections from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Host,
    Device,
    Other,
}

impl Rows {
    /// The place of a slice that is on no row.
    pub const NOWHERE: (u32, u32) = (u32::MAX, u32::MAX);

    /// The rows of `trace`.
    ///
    /// A trace that knows no engines gets rows for them from the work on its streams.
    ///
    /// # Cost
    /// Sorts the slices of each lane once.
    pub fn new(trace: &Trace, shown: Shown) -> Rows {
        let mut of_lane: Vec<Vec<u32>> = vec![Vec::new(); trace.lanes.len()];
        for (k, &lane) in (0u32..).zip(&trace.slices.lane) {
            if let Some(list) = of_lane.get_mut(lane as usize) {
                list.push(k);
            }
        }
        // A device's streams and engines stand together, under the first name that the device was given.
        let mut keys: Vec<(Part, StrId, Vec<usize>)> = Vec::new();
        // Where each stands among them; a file may have as many as it has lanes.
        let mut known: BTreeMap<(Part, StrId), usize> = BTreeMap::new();
        for (l, lane) in trace.lanes.iter().enumerate() {
            let part = match lane.kind {
                LaneKind::Host => Part::Host,
                LaneKind::Stream { .. } | LaneKind::Engine { .. } => Part::Device,
                LaneKind::Other => Part::Other,
            };
            match known.get(&(part, lane.group)) {
                Some(&k) => keys[k].2.push(l),
                None => {
                    known.insert((part, lane.group), keys.len());
                    keys.push((part, lane.group, vec![l]));
                }
            }
        }
        keys.sort_by_key(|(part, _, _)| *part);
        let mut rows = Rows { places: vec![Rows::NOWHERE; trace.slices.len()], ..Rows::default() };
        let knows_engines = trace.lanes.iter().any(|l| matches!(l.kind, LaneKind::Engine { .. }));
        let calls = if shown.group == Group::Engine { calls(trace) } else { Vec::new() };
        let mut n_groups = [0; 3];
        keys.iter().for_each(|(part, _, _)| n_groups[*part as usize] += 1);
        for (part, group, lanes) in &keys {
            let title = |what: &str| {
                let group = clean(trace.strings.get(*group));
                if n_groups[*part as usize] > 1 { format!("{what} · {group}") } else { what.to_owned() }
            };
            let of = |engine: bool| {
                let is = move |l: &&usize| matches!(trace.lanes[**l].kind, LaneKind::Engine { .. }) == engine;
                lanes.iter().filter(is).copied().collect::<Vec<usize>>()
            };
            let mut drafts = |lanes: &[usize]| -> Vec<Draft> {
                let draft = |&l: &usize| {
                    let lane = &trace.lanes[l];
                    let slices = std::mem::take(&mut of_lane[l]);
                    Draft {
                        name: clean(trace.strings.get(lane.name)),
                        kind: lane.kind,
                        slices,
                        is_home: true,
                        is_flight: false,
                    }
                };
                lanes.iter().map(draft).collect()
            };
            let drawn = match part {
                Part::Host => vec![("HOST", drafts(lanes), shown.host)],
                Part::Other => vec![("OTHER", drafts(lanes), shown.other)],
                Part::Device => {
                    let streams = drafts(&of(false));
                    let by = |what| vec![(what, regrouped(trace, &streams, shown.group), shown.streams)];
                    match shown.group {
                        Group::Engine => by("ENGINES"),
                        Group::Kind => by("KINDS"),
                        Group::Stream => {
                            let engines =
                                if knows_engines { drafts(&of(true)) } else { engines(trace, &streams) };
                            vec![("STREAMS", streams, shown.streams), ("ENGINES", engines, shown.engines)]
                        }
                    }
                }
            };
            for (what, drafts, on) in drawn {
                if on {
                    rows.section(trace, title(what), drafts, shown, &calls);
                }
            }
        }
        if shown.counters {
            rows.counters(trace);
        }
        rows.has_own_zero = matches!(trace.source, Source::Simulated { .. } | Source::Schedule { .. });
        rows.extent = extent(trace);
        for (k, flow) in (0u32..).zip(&trace.flows) {
            if let Some(kind) = ARROWS.iter().position(|kind| *kind == flow.kind) {
                rows.arrows[kind].push(trace, k, *flow);
            }
        }
        rows.marks = (0u32..).take(trace.instants.len()).collect();
        rows.marks.sort_by_key(|&k| trace.instants[k as usize].at);
        let commands =
            (0u32..).zip(&trace.slices.command).filter(|(_, c)| **c != spanlift::trace::Slice::NONE);
        rows.by_command = commands.map(|(k, &c)| (c, k)).collect();
        rows.by_command.sort_unstable();
        if shown.group != Group::Stream {
            let plain = Shown { group: Group::Stream, memory: false, counters: false, ..shown };
            rows.by_stream = Some(Box::new(Rows::new(trace, plain)));
        }
        if shown.memory {
            rows.memory(trace);
        }
        rows
    }

    /// The rows by stream, whatever these are by.
    pub fn by_stream(&self) -> &Rows {
        self.by_stream.as_deref().unwrap_or(self)
    }

    /// What a row is called, with its device or process where there are several: of such every one may have a `stream 7`.
    pub fn called(&self, row: usize) -> Option<String> {
        let name = &self.rows.get(row)?.name;
        let section = self.sections.iter().find(|section| section.rows.contains(&row));
        let group = section.and_then(|section| Some(section.title.split_once(" · ")?.1));
        Some(group.filter(|group| group != name).map_or(name.clone(), |group| format!("{name}, {group}")))
    }

    /// Row and track of a slice, or [`Rows::NOWHERE`].
    pub fn place(&self, slice: u32) -> (u32, u32) {
        self.places.get(slice as usize).copied().unwrap_or(Rows::NOWHERE)
    }

    /// Moves a row up or down among those of its section: above the first one goes the section, below the last one the
    /// next. [`isize::MIN`] moves it to the top of its section, and that above all others.
    ///
    /// # Cost
    /// Linear in the number of slices.
    pub fn shift(&mut self, row: usize, by: isize) {
        let Some(mut s) = self.sections.iter().position(|section| section.rows.contains(&row)) else {
            return;
        };
        let mut row = row;
        // A row goes down where the next one goes up.
        if by > 0 {
            row += 1;
            s += usize::from(row == self.sections[s].rows.end);
        }
        let Some(Range { start, end }) = self.sections.get(s).map(|section| section.rows.clone()) else {
            return;
        };
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let mut raise = |from: usize, to: usize| {
            for k in (to..from).rev() {
                self.rows.swap(k, k + 1);
                order.swap(k, k + 1);
            }
        };
        let is_top = by == isize::MIN;
        raise(row, if is_top { start } else { start.max(row.saturating_sub(1)) });
        if is_top || row == start {
            let above = if is_top { 0 } else { s.saturating_sub(1) };
            let first = self.sections[above].rows.start;
            for k in 0..end - start {
                raise(start + k, first + k);
            }
            self.sections[above..=s].rotate_right(1);
            let mut at = 0;
            for section in &mut self.sections {
                section.rows = at..at + section.rows.len();
                at = section.rows.end;
            }
        }
        let mut places = vec![0; order.len()];
        for (k, old) in (0u32..).zip(order) {
            places[old] = k;
        }
        for place in &mut self.places {
            if let Some(&now) = places.get(place.0 as usize) {
                place.0 = now;
            }
        }
    }

    /// The time that is written as 0: a simulation's own zero, or where a recording begins.
    pub fn zero(&self) -> i64 {
        if self.has_own_zero { 0 } else { self.extent.map_or(0, |(first, _)| first) }
    }

    /// First and last moment of the trace.
    pub fn extent(&self) -> Option<(i64, i64)> {
        self.extent
    }

    /// The arrows of the trace by kind.
    pub(crate) fn arrows(&self) -> impl Iterator<Item = (FlowKind, &Arrows)> {
        ARROWS.into_iter().zip(&self.arrows)
    }

    /// The trace's marks by time.
    pub(crate) fn marks(&self) -> &[u32] {
        &self.marks
    }

    /// The slices that belong to a command, by index.
    pub fn of_command(&self, command: u32) -> impl Iterator<Item = u32> + '_ {
        let from = self.by_command.partition_point(|&(c, _)| c < command);
        self.by_command[from..].iter().take_while(move |&&(c, _)| c == command).map(|&(_, k)| k)
    }

    /// The copies by their beginning, where memory is shown.
    pub(crate) fn copies(&self) -> &[u32] {
        &self.copies
    }

    /// A row for each place that holds buffers, below everything else.
    fn memory(&mut self, trace: &Trace) {
        let places = places(trace, self);
        let from = self.rows.len();
        for place in places {
            self.rows.push(Row { name: place.name.clone(), memory: Some(Box::new(place)), ..Row::empty() });
        }
        if from < self.rows.len() {
            self.sections.push(Section { title: "MEMORY".to_owned(), rows: from..self.rows.len() });
            self.copies = copies(trace, self);
        }
    }

    fn section(&mut self, trace: &Trace, title: String, drafts: Vec<Draft>, shown: Shown, calls: &[u32]) {
        let from = self.rows.len();
        for Draft { name, kind, slices, is_home, is_flight } in drafts {
            if is_flight {
                self.rows.extend(flight::row(trace, &name, &slices, calls));
                continue;
            }
            // Work that could have been there says something; a thread or a profiler's row without slices does not.
            let says = matches!(kind, LaneKind::Stream { .. } | LaneKind::Engine { .. });
            if slices.is_empty() && !(shown.empty && says) {
                continue;
            }
            let tracks = tracks(trace, slices);
            if is_home {
                let row = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
                for (t, track) in (0u32..).zip(&tracks) {
                    for &k in &track.slices {
                        self.places[k as usize] = (row, t);
                    }
                }
            }
            self.rows.push(Row { name, kind, tracks, ..Row::empty() });
        }
        if from < self.rows.len() {
            self.sections.push(Section { title, rows: from..self.rows.len() });
        }
    }
}

impl Rows {
    /// Leaves every row `most` tracks, at least two: the innermost annotations go first, since below a hundred frames of Python lie
    /// the calls that a picture is about. What goes is counted.
    pub(crate) fn shallow(&mut self, trace: &Trace, most: usize) {
        for (r, row) in (0u32..).zip(&mut self.rows).filter(|(_, row)| most < row.tracks.len()) {
            let all: Vec<u32> = row.tracks.iter().flat_map(|track| track.slices.iter().copied()).collect();
            let is_home = all.first().is_some_and(|&k| self.places[k as usize].0 == r);
            let kind = |k: &u32| trace.slices.kind[*k as usize];
            let (told, asked): (Vec<u32>, Vec<u32>) = all.iter().partition(|k| kind(k) == Kind::Annotation);
            let mut calls = if asked.is_empty() { Vec::new() } else { tracks(trace, asked) };
            calls.truncate(if told.is_empty() { most } else { most - 1 });
            row.tracks = if told.is_empty() { Vec::new() } else { tracks(trace, told) };
            row.tracks.truncate(most - calls.len());
            row.tracks.append(&mut calls);
            if !is_home {
                continue;
            }
            let kept = row.tracks.iter().map(|track| track.slices.len()).sum::<usize>();
            self.n_below += (all.len() - kept) as u64;
            all.iter().for_each(|&k| self.places[k as usize] = Rows::NOWHERE);
            for (t, track) in (0u32..).zip(&row.tracks) {
                track.slices.iter().for_each(|&k| self.places[k as usize] = (r, t));
            }
        }
    }
}

/// First and last moment of a trace: of its slices, else of its samples and marks.
fn extent(trace: &Trace) -> Option<(i64, i64)> {
    let samples = trace.counters.iter().flat_map(|counter| &counter.samples).map(|(at, _)| at.0);
    let moments = || samples.chain(trace.instants.iter().map(|instant| instant.at.0));
    match trace.extent() {
        Some((first, last)) => Some((first.0, last.0)),
        None => moments().fold(None, |all, at| Some(all.map_or((at, at), |(a, b)| (at.min(a), at.max(b))))),
    }
}

/// A row before its slices are laid on tracks.
struct Draft {
    name: String,
    kind: LaneKind,
    slices: Vec<u32>,
    /// Whether this is where its slices live; else it shows slices of other rows again.
    is_home: bool,
    /// Whether its slices are copies whose bytes in flight are drawn.
    is_flight: bool,
}

/// Puts each slice on the first track that is free when it begins.
pub(crate) fn tracks(trace: &Trace, slices: Vec<u32>) -> Vec<Track> {
    let (start, end) = (&trace.slices.start, &trace.slices.end);
    let slices = sorted(trace, slices);
    let mut tracks: Vec<Vec<u32>> = Vec::new();
    let mut free = Free::default();
    for k in slices {
        let (from, to) = (start[k as usize], end[k as usize].max(start[k as usize]));
        let place = free.take(from, to);
        match tracks.get_mut(place) {
            Some(track) => track.push(k),
            None => tracks.push(vec![k]),
        }
    }
    if tracks.is_empty() {
        return vec![Track::default()];
    }
    tracks.into_iter().map(|slices| Track::new(trace, slices)).collect()
}

/// From when on each track is free: a tree of minima, so that a hundred thousand slices at once do not take their square.
#[derive(Debug, Default)]
struct Free {
    /// How many tracks are in use.
    n: usize,
    /// Node `k` holds the least of its children `2 k` and `2 k + 1`; the tracks are the second half.
    least: Vec<i64>,
}

impl Free {
    /// The first track that is free at `from`, one more where none is, which is taken until `to`.
    fn take(&mut self, from: i64, to: i64) -> usize {
        let mut at = 1;
        if self.least.get(at).is_some_and(|&least| least <= from) {
            while at < self.least.len() / 2 {
                at *= 2;
                at += usize::from(self.least[at] > from);
            }
        } else {
            if self.n == self.least.len() / 2 {
                self.grow();
            }
            at = self.least.len() / 2 + self.n;
        }
        let place = at - self.least.len() / 2;
        self.n = self.n.max(place + 1);
        self.least[at] = to;
        while at > 1 {
            at /= 2;
            self.least[at] = self.least[2 * at].min(self.least[2 * at + 1]);
        }
        place
    }

    /// Twice the room.
    fn grow(&mut self) {
        let room = (2 * self.n).max(1);
        // A track that is not in use is never free.
        let mut least = vec![i64::MAX; 2 * room];
        least[room..room + self.n].copy_from_slice(&self.least[self.n..]);
        for at in (1..room).rev() {
            least[at] = least[2 * at].min(least[2 * at + 1]);
        }
        self.least = least;
    }
}

#[cfg(test)]
mod tests {
    use super::engines::engine_of;
    use super::*;
    use crate::testing::{crowd, race};
    use crate::theme::kind_name;

    #[test]
    fn sections_stand_in_the_order_of_a_copys_way() {
        let rows = Rows::new(&race(), Shown::default());
        let told: Vec<String> = rows
            .sections
            .iter()
            .map(|s| {
                let names: Vec<&str> = rows.rows[s.rows.clone()].iter().map(|r| &*r.name).collect();
                format!("{}: {}", s.title, names.join(", "))
            })
            .collect();
        assert_eq!(
            told,
            ["HOST: main", "STREAMS: copy, compute", "ENGINES: copy to device, copy to host, compute"]
        );
    }

    #[test]
    fn engines_are_made_where_a_trace_knows_none() {
        let rows = Rows::new(&crowd(1, 300), Shown::default());
        let titles: Vec<&str> = rows.sections.iter().map(|s| &*s.title).collect();
        assert_eq!(
            titles,
            ["HOST", "STREAMS · cuda:0", "ENGINES · cuda:0", "STREAMS · cuda:1", "ENGINES · cuda:1", "OTHER"]
        );
    }

    #[test]
    fn every_slice_has_one_place_and_no_track_overlaps() {
        for seed in 0..20 {
            let trace = crowd(seed, 400);
            let rows = Rows::new(&trace, Shown::default());
            let mut n = 0;
            for (r, row) in (0u32..).zip(&rows.rows) {
                for (t, track) in (0u32..).zip(&row.tracks) {
                    for pair in track.slices.windows(2) {
                        let (a, b) = (pair[0] as usize, pair[1] as usize);
                        assert!(trace.slices.end[a] <= trace.slices.start[b], "seed {seed}");
                    }
                    let home = track.slices.iter().filter(|&&k| rows.place(k) == (r, t));
                    n += home.count();
                }
            }
            assert_eq!(n, trace.slices.len());
        }
    }

    #[test]
    fn a_slice_lies_on_the_first_track_that_is_free() {
        let mut random = crate::testing::Random(3);
        for n in 0..200 {
            let mut free = Free::default();
            let mut expected: Vec<i64> = Vec::new();
            for k in 0..n {
                // Nothing may be said of the end of time.
                let from = if k % 50 == 49 { i64::MAX } else { i64::try_from(random.below(60)).unwrap() + k };
                let to = from.saturating_add(i64::try_from(random.below(40)).unwrap());
                let place = expected.iter().position(|&free| free <= from).unwrap_or(expected.len());
                expected.resize(expected.len().max(place + 1), 0);
                expected[place] = to;
                assert_eq!(free.take(from, to), place, "{n} {k}");
            }
        }
    }

    #[test]
    fn work_stands_on_rows_by_what_is_asked_and_none_is_lost() {
        let told = |group| {
            let rows = Rows::new(&race(), Shown { group, ..Shown::default() });
            let names = |s: &Section| {
                let names: Vec<&str> = rows.rows[s.rows.clone()].iter().map(|r| &*r.name).collect();
                format!("{}: {}", s.title, names.join(", "))
            };
            rows.sections.iter().map(names).collect::<Vec<_>>()
        };
        assert_eq!(
            told(Group::Engine),
            ["HOST: main", "ENGINES: copy to device, to device: bytes in flight, compute"]
        );
        assert_eq!(told(Group::Kind), ["HOST: main", "KINDS: copy to device, kernel"]);
        for seed in 0..20 {
            let trace = crowd(seed, 400);
            let plain = Rows::new(&trace, Shown::default());
            for group in [Group::Engine, Group::Kind] {
                let rows = Rows::new(&trace, Shown { group, ..Shown::default() });
                assert_eq!(rows.by_stream().rows, plain.rows, "seed {seed}: the rows by stream are kept");
                let is_stream = |k: u32| {
                    let lane = trace.slices.lane[k as usize] as usize;
                    matches!(trace.lanes[lane].kind, LaneKind::Stream { .. })
                };
                for (k, slice) in (0u32..).zip(trace.slices.iter()) {
                    let place = rows.place(k);
                    assert_ne!(place, Rows::NOWHERE, "seed {seed}: slice {k}");
                    let row = &rows.rows[place.0 as usize];
                    assert!(row.tracks[place.1 as usize].slices.contains(&k));
                    if !is_stream(k) {
                        continue;
                    }
                    let expected = match (group, engine_of(slice.kind)) {
                        (Group::Engine, Some(engine)) => engine.name(),
                        (Group::Engine, None) => "no engine",
                        _ => kind_name(slice.kind),
                    };
                    assert_eq!(row.name, expected, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn a_command_finds_its_slices() {
        let rows = Rows::new(&race(), Shown::default());
        assert_eq!(rows.of_command(4).collect::<Vec<_>>(), [1, 5, 7]);
        assert_eq!(rows.of_command(99).count(), 0);
    }
}
