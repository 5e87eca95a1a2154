//! A program at a point of its run: what each stream has in its queue, and what the buffers hold.
//!
//! All of it is read from the trace and its program: a call is on host lanes, its work on streams, and both carry the
//! command. So one step of a host thread shows how far ahead of the device it is.

use spanlift::memory::Overlap;
use spanlift::program::{Op, Space};
use spanlift::trace::LaneKind;

use super::App;
use crate::lifetimes::{Times, times};
use crate::text;

/// Names that are told of what waits in a queue.
const NAMED: usize = 3;
/// Buffers that are told of, at most: nobody reads a thousand lines at each step, and the page would wait for them.
const TOLD: usize = 48;
/// Work of asking whether two accesses share a byte; where it is not enough they may.
const OVERLAP: u64 = 1 << 16;

/// A program at a point in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// How many calls have returned, of how many.
    pub calls: (usize, usize),
    /// The streams.
    pub queues: Vec<Queue>,
    /// The engines by name, and what each does.
    pub engines: Vec<(String, Option<String>)>,
    /// How many pieces of pageable memory the driver holds in its slots; nothing where no memory is pageable.
    pub staged: Option<usize>,
    /// The buffers of the program in the order of their declaration; of many the ones that something is done with, and the first.
    pub buffers: Vec<BufferState>,
    /// How many buffers are left out.
    pub n_more: usize,
}

/// What a stream has to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// What it does.
    pub running: Option<String>,
    /// The first of what was called for and has not begun.
    pub waiting: Vec<String>,
    /// How much that is.
    pub n_waiting: usize,
}

/// What is known of a buffer's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BufferState {
    /// Its name.
    pub name: String,
    /// Where it is: `pinned`, `cuda:0`.
    pub place: String,
    /// Its size.
    pub bytes: u64,
    /// Who writes or reads it, who wrote it last, or who freed it.
    pub words: String,
    /// Thousandths of the write that is under way.
    pub written: Option<u32>,
    /// The command that the words are about.
    pub command: Option<usize>,
    /// Whether the selected command reads it, or writes it.
    pub selected: Option<&'static str>,
    /// The bytes that the selected command touches, from the first to the last of each access.
    pub lit: Vec<Lit>,
}

/// Bytes of a buffer that are pointed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lit {
    /// The first byte.
    pub lo: i64,
    /// One past the last byte.
    pub hi: i64,
    /// They are written, not read.
    pub is_write: bool,
}

impl App {
    /// Goes to the next mark of the trace or value of a counter, or to the one before; without a point in time from what is on
    /// screen on.
    fn step_sample(&mut self, by: isize) {
        let (start, end) = (self.view.start_ns(), self.view.end_ns());
        // Gone through for one press of a key: all of them, since a search for each row is more to send than it saves.
        let samples = self.model.rows.rows.iter().flat_map(|row| &row.samples).map(|sample| sample.0);
        let times = samples.chain(self.model.trace.instants.iter().map(|mark| mark.at.0));
        let (from, until) = match self.at() {
            Some(at) => (at.saturating_add(1), at.saturating_sub(1)),
            None => (start, end),
        };
        let next =
            if by > 0 { times.filter(|&at| from <= at).min() } else { times.filter(|&at| at <= until).max() };
        if let Some(at) = next {
            self.go_to(at);
        }
    }

    /// The point in time that the state is told of: the chosen one, else the end of what is selected of a program.
    fn told_at(&self) -> Option<i64> {
        let done = || Some(self.model.trace.slices.end[self.selected_command().and(self.selected)? as usize]);
        self.at().or_else(done)
    }

    /// Goes to the end of the call after the one whose state is told, or before; without a program to the next mark or value of a
    /// counter.
    pub(super) fn step_call(&mut self, by: isize) {
        if self.model.trace.program.is_none() {
            return self.step_sample(by);
        }
        let mut calls: Vec<(i64, usize, u32)> = Vec::new();
        for (command, of) in times(&self.model.trace).iter().enumerate() {
            calls.extend(of.call.map(|(_, end)| (end, command, of.slice)));
        }
        calls.sort_unstable();
        let now = self.told_at().map(|at| {
            // Calls that end together are stepped through one by one.
            let chosen = self.selected_command();
            (at, calls.iter().find(|c| c.0 == at && Some(c.1) == chosen).map_or(usize::MAX, |c| c.1))
        });
        let next = match (now, by > 0) {
            (None, true) => calls.first(),
            (None, false) => calls.last(),
            (Some(now), true) => calls.iter().find(|c| now < (c.0, c.1)),
            (Some(now), false) => calls.iter().rev().find(|c| (c.0, c.1) < now),
        };
        if let Some(&(end, _, slice)) = next {
            // Call by call at one scale: a closer look at each would be of something else every time.
            self.select(Some(slice));
            self.go_to(end);
            self.scroll_to(slice);
        }
    }

    /// Chooses the moment that is pressed in the memory of a place, and there who touches the buffer, else who wrote it
    /// last.
    pub(super) fn press_memory(&mut self, x: f64, y: f64) {
        let at = self.view.time_from_x(x - self.frame.gutter);
        let (timeline, trace) = (self.timeline(), &self.model.trace);
        let found = timeline.slice_at(x, y).or_else(|| timeline.block_at(x, y)?.writer(trace, at));
        self.select(found);
        self.set_at(Some(at));
    }

    /// The buffer under the pointer: its name, and what is known of it; of a row whose name is cut that name.
    pub fn hovered_buffer(&self) -> Option<(String, String)> {
        let (x, y) = self.pointer().filter(|_| !self.is_dragging())?;
        let timeline = self.timeline();
        if let Some(name) = timeline.cut_name(x, y) {
            return Some((name.to_owned(), String::new()));
        }
        let block = timeline.block_at(x, y)?;
        Some((block.name.clone(), block.told(&self.model.trace, &self.model.rows)))
    }

    /// Selects the command that wrote last what the selected one reads, or what it writes over where it reads nothing.
    pub(super) fn select_writer(&mut self) {
        let found = self.selected_command().and_then(|reader| {
            let program = self.model.trace.program.as_ref()?;
            let times = times(&self.model.trace);
            let span = |c: usize| times.get(c).and_then(|t| t.work.or(t.call));
            let (reads, writes) = program.commands().get(reader)?.op.regions();
            let wanted = if reads.is_empty() { writes } else { reads };
            let begins = span(reader)?.0;
            let is_before = |c: usize| span(c).filter(|&(_, end)| c != reader && end <= begins);
            let writes_it = |c: usize| {
                let (_, written) = program.commands()[c].op.regions();
                written.iter().any(|w| {
                    let mut same = wanted.iter().filter(|r| r.buffer == w.buffer);
                    same.any(|r| r.span.overlaps(&w.span, OVERLAP) != Overlap::No)
                })
            };
            let mut writers: Vec<(i64, usize)> =
                (0..program.len()).filter_map(|c| is_before(c).map(|(_, end)| (end, c))).collect();
            writers.sort_unstable();
            writers.into_iter().rev().map(|(_, c)| c).find(|&c| writes_it(c))
        });
        if let Some(command) = found {
            self.select_command(command);
        }
    }

    /// The program at the chosen point in time, else at the end of the selected slice; nothing without a program.
    pub fn state(&self) -> Option<State> {
        let program = self.model.trace.program.as_ref()?;
        let times = times(&self.model.trace);
        let at = self.told_at()?;
        let n_calls = times.iter().filter(|t| t.call.is_some()).count();
        // Of calls that end together those are back that have been stepped to.
        let ends_now = |c: usize| times[c].call.is_some_and(|(_, end)| end == at);
        let last = self.selected_command().filter(|&c| c < times.len() && ends_now(c));
        let is_back = |&c: &usize| {
            let is_over = times[c].call.is_some_and(|(_, end)| end <= at) && self.is_made(c, at, &times);
            is_over && !(ends_now(c) && last.is_some_and(|last| last < c))
        };
        let calls = ((0..times.len()).filter(is_back).count(), n_calls);
        let (buffers, n_more) = self.buffers(at, program, &times);
        let (engines, staged) = (self.engines(at), self.staged(at, program, &times));
        Some(State { calls, queues: self.queues(at, &times), engines, staged, buffers, n_more })
    }

    /// Whether a command's call has been made at a moment. What begins just then is yet to come; of calls without length there, those are
    /// made that stand up to the selected command.
    fn is_made(&self, command: usize, at: i64, times: &[Times]) -> bool {
        let is_first = || self.selected_command().is_none_or(|selected| command <= selected);
        times[command].call.is_none_or(|(from, to)| from < at || from == at && to <= at && is_first())
    }

    fn queues(&self, at: i64, times: &[Times]) -> Vec<Queue> {
        let slices = &self.model.trace.slices;
        let mut queues = Vec::new();
        for row in
            self.model.rows.by_stream().rows.iter().filter(|r| matches!(r.kind, LaneKind::Stream { .. }))
        {
            let mut queue = Queue { name: row.name.clone(), ..Queue::default() };
            // On a track starts and ends ascend: what has ended are its first.
            let left = row.tracks.iter().flat_map(|track| {
                &track.slices[track.slices.partition_point(|&k| slices.end[k as usize] <= at)..]
            });
            let is_called = |&&k: &&u32| match usize::try_from(slices.command[k as usize])
                .ok()
                .filter(|c| *c < times.len())
            {
                Some(c) if times[c].call.is_some() => self.is_made(c, at, times),
                _ => slices.start[k as usize] <= at,
            };
            for k in crate::rows::sorted(&self.model.trace, left.filter(is_called).copied().collect()) {
                let start = slices.start[k as usize];
                let name = text::clean(self.model.trace.strings.get(slices.name[k as usize]));
                if start <= at {
                    queue.running = Some(name);
                } else {
                    queue.n_waiting += 1;
                    if queue.waiting.len() < NAMED {
                        queue.waiting.push(name);
                    }
                }
            }
            queues.push(queue);
        }
        queues
    }

    fn buffers(&self, at: i64, program: &spanlift::Program, all: &[Times]) -> (Vec<BufferState>, usize) {
        let names = program.names();
        // With when the last write that is told ended, and what freed the buffer.
        let mut states: Vec<Option<(BufferState, i64, Option<usize>)>> = Vec::new();
        let selected = self.selected_command();
        for (c, (command, times)) in program.commands().iter().zip(all).enumerate() {
            if let Op::Alloc(alloc) = &command.op {
                let k = alloc.buffer.index();
                states.resize_with(states.len().max(k + 1), || None);
                let place = match alloc.space {
                    Space::Device => format!("cuda:{}", alloc.dev),
                    Space::Pinned => "pinned".to_owned(),
                    Space::Pageable => "pageable".to_owned(),
                    Space::Managed => "managed".to_owned(),
                };
                let words = match (times.call.or(times.work), &alloc.contents) {
                    (Some((_, end)), _) if at < end => "not allocated yet",
                    (_, Some(_)) => "as declared",
                    (_, None) => "nothing written",
                };
                let state = BufferState {
                    name: text::clean(names.buffer(alloc.buffer)),
                    place,
                    bytes: alloc.bytes.unsigned_abs(),
                    words: words.to_owned(),
                    ..BufferState::default()
                };
                states[k] = Some((state, i64::MIN, None));
                continue;
            }
            let (reads, writes) = command.op.regions();
            let Some((start, end)) = times.work.or(times.call) else { continue };
            let is_over = end <= at && self.is_made(c, at, all);
            if let Op::Free { buffer, .. } = command.op
                && let Some(Some((.., freed))) = states.get_mut(buffer.index())
                && is_over
            {
                *freed = Some(c);
            }
            for (region, is_write) in reads.iter().map(|r| (r, false)).chain(writes.iter().map(|r| (r, true)))
            {
                let Some(Some((state, last, _))) = states.get_mut(region.buffer.index()) else { continue };
                if selected == Some(c) {
                    state.selected = Some(if is_write { "written" } else { "read" });
                    state.lit.extend(region.span.bounds().map(|(lo, hi)| Lit { lo, hi, is_write }));
                }
                let is_running = start <= at && at < end;
                let does = match (is_write, is_running) {
                    (true, true) => {
                        let part =
                            (i128::from(at) - i128::from(start)) * 1000 / i128::from(end - start).max(1);
                        state.written = u32::try_from(part).ok();
                        *last = i64::MAX;
                        "being written by"
                    }
                    // Nothing that is over is told before what is under way.
                    (false, true) if state.written.is_none() => {
                        *last = i64::MAX;
                        "being read by"
                    }
                    // Streams do not keep the order of the list: the last write is the one that ended last.
                    (true, false) if is_over && *last <= end => {
                        *last = end;
                        "written by"
                    }
                    _ => continue,
                };
                state.words.clear();
                state.words.push_str(does);
                state.command = Some(c);
            }
        }
        let what = |c: usize| {
            let name = program.commands()[c].op.name();
            self.model
                .listing
                .as_ref()
                .and_then(|l| l.line_of(c))
                .map_or_else(|| format!("{name} (command {c})"), |line| format!("{name}, line {}", line + 1))
        };
        let is_busy =
            |(state, last, _): &(BufferState, i64, _)| state.selected.is_some() || *last == i64::MAX;
        let n = states.iter().flatten().count();
        let n_busy = states.iter().flatten().filter(|state| is_busy(state)).count();
        let (mut busy, mut quiet) = (TOLD, TOLD.saturating_sub(n_busy));
        let mut told = Vec::with_capacity(n.min(TOLD));
        for state in states.into_iter().flatten() {
            let room = if is_busy(&state) { &mut busy } else { &mut quiet };
            if *room == 0 {
                continue;
            }
            *room -= 1;
            let (mut state, last, freed) = state;
            if let Some(c) = state.command {
                state.words = format!("{} {}", state.words, what(c));
            }
            if let Some(c) = freed {
                let freed = format!("freed by {}", what(c));
                match last {
                    i64::MAX => state.words = format!("{}, {freed}", state.words),
                    _ => (state.words, state.command) = (freed, None),
                }
            }
            told.push(state);
        }
        let n_more = n - told.len();
        (told, n_more)
    }
}

#[cfg(test)]
mod tests {
    use crate::app::App;
    use crate::lifetimes::times;
    use crate::model::Model;
    use crate::pack::PageItem;
    use crate::theme::Theme;

    const PROGRAM: &str = "stream copy, compute\npinned x 4MiB\ndevice d 4MiB\nwrite x\ncopy d <- x on copy\n\
                           kernel scale on copy reads d writes d for 120us\nsync copy\n";

    fn app() -> App {
        let model = Model::open(&PageItem::source("p", PROGRAM, "h200-pcie5")).unwrap();
        let mut app = App::new(model, Theme::LIGHT);
        app.resize(900.0, 320.0);
        app
    }

    #[test]
    fn of_many_buffers_those_are_told_that_something_is_done_with() {
        let text = "stream s\nrepeat i 100\n  pinned x{i} 4MiB\n  device d{i} 4MiB\nend\nrepeat i 100\n  copy d{i} <- x{i} on s\nend\nsync s\n";
        let model = Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap();
        let mut app = App::new(model, Theme::LIGHT);
        app.resize(900.0, 320.0);
        let slices = &app.model.trace.slices;
        let busy = (0..slices.len()).find(|&k| {
            let name = app.model.trace.strings.get(slices.name[k]);
            name == "d90 from x90" && slices.kind[k].is_copy()
        });
        let k = busy.unwrap();
        let middle = (slices.start[k] + slices.end[k]) / 2;
        app.set_at(Some(middle));
        let state = app.state().unwrap();
        assert_eq!((state.buffers.len(), state.n_more), (48, 152));
        let names: Vec<&str> = state.buffers.iter().map(|b| &*b.name).collect();
        assert_eq!(&names[..3], ["x0", "d0", "x1"], "the first, as they are declared");
        assert_eq!(&names[46..], ["x90", "d90"], "and what is copied then, from far down");
        assert!(
            state.buffers[47].words.starts_with("being written by copy, line 7"),
            "{:?}",
            state.buffers[47]
        );
        assert!(state.buffers[0].words.starts_with("nothing written"), "{:?}", state.buffers[0]);
        assert!(state.buffers[1].words.starts_with("written by copy, line 7"), "{:?}", state.buffers[1]);
    }

    #[test]
    fn calls_are_stepped_through_in_order_and_back() {
        let mut app = app();
        assert_eq!(app.state(), None, "no point in time");
        let mut seen = Vec::new();
        for _ in 0..12 {
            app.key("]", false);
            seen.push((app.at().unwrap(), app.selected_command().unwrap()));
        }
        seen.dedup();
        let commands: Vec<usize> = seen.iter().map(|s| s.1).collect();
        assert!(commands.is_sorted(), "one thread calls in the order of its program: {commands:?}");
        assert!(commands.ends_with(&[4, 5, 6, 7]), "write, copy, kernel and sync: {commands:?}");
        let n = seen.len();
        assert_eq!(app.state().unwrap().calls, (n, n));
        for wanted in seen.iter().rev().skip(1) {
            app.key("[", false);
            assert_eq!((app.at().unwrap(), app.selected_command().unwrap()), *wanted);
        }
    }

    #[test]
    fn steps_go_on_from_the_selected_call() {
        let mut calls: Vec<(i64, usize)> = Vec::new();
        for (command, of) in times(&app().model.trace).iter().enumerate() {
            calls.extend(of.call.map(|(_, end)| (end, command)));
        }
        calls.sort_unstable();
        for k in 1..calls.len() - 1 {
            for (key, wanted) in [("]", calls[k + 1]), ("[", calls[k - 1])] {
                let mut app = app();
                let slice = times(&app.model.trace)[calls[k].1].slice;
                app.select(Some(slice));
                app.key(key, false);
                assert_eq!((app.at(), app.selected_command()), (Some(wanted.0), Some(wanted.1)), "{k} {key}");
            }
        }
        // From work on with the call that is made next: those that the state counts have returned.
        let mut app = app();
        assert!(app.select_command(6));
        let (n, _) = app.state().unwrap().calls;
        app.key("]", false);
        assert_eq!(app.at(), Some(calls[n.min(calls.len() - 1)].0));
    }

    #[test]
    fn a_chosen_call_shows_the_state_when_it_returns() {
        let mut app = app();
        let mut calls: Vec<(i64, u32)> = Vec::new();
        for of in times(&app.model.trace) {
            calls.extend(of.call.map(|(_, end)| (end, of.slice)));
        }
        // One thread: when its k-th call returns, k have.
        for (k, &(_, slice)) in calls.iter().enumerate() {
            app.select(Some(slice));
            assert_eq!(app.state().unwrap().calls.0, k + 1);
        }
    }

    /// After each step as many calls have returned as were made: what begins just then is yet to come, in queues and buffers too.
    #[test]
    fn a_call_that_was_not_made_is_nowhere() {
        let text = "stream s\npinned x 4MiB\ndevice d 4MiB\nevent e\nwrite x\ncopy d <- x on s\nwrite x\nrecord e on s\nsync s\n";
        let mut app =
            App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
        app.resize(900.0, 320.0);
        let mut told = Vec::new();
        for _ in 0..5 {
            app.key("]", false);
            let state = app.state().unwrap();
            let queue = &state.queues[0];
            let source = state.buffers.iter().find(|b| b.name == "x").unwrap();
            told.push((
                state.calls.0,
                queue.n_waiting + usize::from(queue.running.is_some()),
                source.command,
            ));
        }
        // The copy is under way when its call returns, and reads on while the second write is made; the record waits behind it.
        assert_eq!(
            told,
            [(1, 0, Some(4)), (2, 1, Some(5)), (3, 1, Some(5)), (4, 2, Some(5)), (5, 0, Some(6))]
        );
    }

    #[test]
    fn marks_and_counters_of_a_recording_are_stepped_through_from_what_is_on_screen() {
        let sample = |ts: u32| format!(r#"{{"ph":"C","name":"c","pid":1,"ts":{ts},"args":{{"v":1}}}}"#);
        let mark = |ts: u32| format!(r#"{{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":{ts},"s":"t"}}"#);
        let kernel = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":0,"dur":100}"#.to_owned();
        let events = [kernel, mark(40), sample(10), sample(70), mark(20), mark(40)].join(",");
        let trace = spanlift::trace::read(format!(r#"{{"traceEvents":[{events}]}}"#).as_bytes()).unwrap();
        let mut app = App::new(Model::new("t", trace), Theme::LIGHT);
        app.resize(900.0, 320.0);
        let mut steps = |keys: &str| -> Vec<i64> {
            let step = |key: char| {
                app.key(&key.to_string(), false);
                app.at().unwrap() / 1000
            };
            keys.chars().map(step).collect()
        };
        assert_eq!(steps("]]]]]"), [10, 20, 40, 70, 70]);
        assert_eq!(steps("[[[["), [40, 20, 10, 10]);
        app.set_at(None);
        app.show(30_000, 60_000);
        app.key("[", false);
        assert_eq!(app.at(), Some(40_000), "the last one on screen");
        app.key("]", false);
        let view = app.view();
        assert!(view.start_ns() < 70_000 && 70_000 < view.end_ns(), "it comes into sight");
    }

    #[test]
    fn calls_are_stepped_through_at_the_scale_that_is_on_screen() {
        // Beside a kernel of 20 ms no call is as wide as a pixel.
        let text = PROGRAM.replace("120us", "20ms");
        let mut app =
            App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
        app.resize(900.0, 320.0);
        let whole = app.view();
        for _ in 0..9 {
            app.key("]", false);
            assert_eq!(app.view(), whole, "all of it stays in sight");
        }
        app.key("f", false);
        app.key("w", true);
        let close = app.view();
        for key in ["[", "[", "[", "]", "]"] {
            app.key(key, false);
            assert_eq!(app.view().ns_per_px(), close.ns_per_px());
            let x = app.view().x_from_time(app.at().unwrap());
            assert!((0.0..=app.plot().1).contains(&x), "the call comes into sight: {x}");
        }
    }

    #[test]
    fn what_is_jumped_to_is_brought_as_near_as_it_takes_to_see_it() {
        let mut app = app();
        let commands = app.model.trace.program.as_ref().unwrap().commands().to_vec();
        let of = |name: &str| commands.iter().position(|command| command.op.name() == name).unwrap();
        let whole = app.view();
        assert!(app.select_command(of("host_write")));
        assert_eq!(app.view(), whole, "it has no length, so no scale shows more of it");
        let far = App { view: whole.zoom(0.0, 1e-3), ..app };
        let mut app = far;
        assert!(app.select_command(of("copy")));
        let slices = &app.model.trace.slices;
        let k = app.selected().unwrap() as usize;
        let [x0, x1] = [slices.start[k], slices.end[k]].map(|at| app.view().x_from_time(at));
        assert!(0.0 < x0 && x1 < app.plot().1 && (20.0..30.0).contains(&(x1 - x0)), "{x0} to {x1}");
    }

    #[test]
    fn a_selected_copy_lights_its_bytes_in_both_memories_and_leads_to_who_wrote_them() {
        let text = "stream s\npinned x 4MiB\ndevice d 8MiB\nwrite x[0..4096]\nwrite x[4096..8192]\n\
                    copy d[1024..3072] <- x[2048..4096] on s\nkernel k on s reads d[0..2048] for 10us\nsync s\n";
        let mut app =
            App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
        app.resize(900.0, 320.0);
        assert_eq!(app.state(), None, "nothing is chosen");
        let names: Vec<_> = app.model.trace.program.as_ref().unwrap().commands().to_vec();
        let of = |name: &str, nth: usize| {
            (0..names.len()).filter(|&c| names[c].op.name() == name).nth(nth).unwrap()
        };
        let (copy, kernel, first_write) = (of("copy", 0), of("kernel", 0), of("host_write", 0));
        assert!(app.select_command(copy));
        let [x, d] = &app.state().unwrap().buffers[..] else { panic!() };
        assert_eq!(x.lit, [super::Lit { lo: 2048, hi: 4096, is_write: false }]);
        assert_eq!(d.lit, [super::Lit { lo: 1024, hi: 3072, is_write: true }]);
        assert_eq!(d.command, Some(copy), "after it the block says who wrote it");
        // From the kernel to the copy, and on to the one write that wrote these bytes.
        assert!(app.select_command(kernel));
        assert!(app.key("g", false));
        assert_eq!(app.selected_command(), Some(copy));
        app.key("g", false);
        assert_eq!(app.selected_command(), Some(first_write), "the later write is of other bytes");
        app.key("g", false);
        assert_eq!(app.selected_command(), Some(first_write), "nobody wrote before");
    }

    /// The words of the buffers at a point in time.
    fn words(app: &App) -> Vec<String> {
        app.state().unwrap().buffers.into_iter().map(|buffer| buffer.words).collect()
    }

    #[test]
    fn the_last_write_is_the_one_that_ended_last_whatever_stands_last_in_the_list() {
        let text = "stream copy, compute\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on copy\n\
                    kernel scale on compute reads d writes d for 1us\nsync compute\nsync copy\n";
        let mut app =
            App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
        app.resize(900.0, 320.0);
        app.key("[", false);
        assert_eq!(words(&app)[1], "written by copy, line 4", "the kernel is called later and done sooner");
        assert!(app.select_finding(0));
        let ends = (0..2).map(|order| {
            assert!(app.show_order(Some(order)));
            app.key("Escape", false);
            assert!(app.show_order(Some(order)));
            app.set_at(Some(i64::MAX));
            words(&app)[1].clone()
        });
        let ends: Vec<String> = ends.collect();
        assert_eq!(ends, ["written by kernel, line 5", "written by copy, line 4"]);
    }

    #[test]
    fn a_buffer_that_is_freed_says_so_also_while_it_is_still_read() {
        let text = "stream s\npinned h 4MiB\ndevice d 4MiB\ncopy d <- h on s\nfree h via unregister\nsync s\nfree d\n";
        let mut app =
            App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
        app.resize(900.0, 320.0);
        app.key("[", false);
        assert_eq!(words(&app), ["freed by free, line 5", "freed by free, line 7"]);
        assert!(app.select_finding(0) && app.show_order(Some(0)));
        assert_eq!(words(&app)[0], "being read by copy, line 4, freed by free, line 5");
        app.key("]", false);
        app.set_at(Some(0));
        assert!(words(&app).iter().all(|words| words == "not allocated yet"), "{:?}", words(&app));
    }

    #[test]
    fn the_host_runs_ahead_and_buffers_say_who_wrote_them() {
        let mut app = app();
        let kernel = app.model.trace.program.as_ref().unwrap().len() - 2;
        while app.selected_command() != Some(kernel) {
            app.key("]", false);
        }
        let state = app.state().unwrap();
        let [queue] = &state.queues[..] else {
            panic!("a stream without work has no lane: {:?}", state.queues)
        };
        assert_eq!((&*queue.name, queue.running.as_deref()), ("copy", Some("d from x")));
        assert_eq!((queue.n_waiting, &*queue.waiting[0]), (1, "scale"));
        let [x, d] = &state.buffers[..] else { panic!("{:?}", state.buffers) };
        assert_eq!((&*x.place, &*d.place, d.bytes), ("pinned", "cuda:0", 4 << 20));
        assert_eq!(x.words, "being read by copy, line 5");
        assert_eq!(d.words, "being written by copy, line 5");
        assert!(d.written.is_some_and(|part| part < 1000) && d.selected == Some("written"), "{d:?}");
        app.key("]", false);
        let end = app.state().unwrap();
        assert_eq!(end.buffers[1].words, "written by kernel, line 6");
        assert!(end.queues.iter().all(|q| q.running.is_none() && q.n_waiting == 0));
    }

    /// Two threads' calls that end at the same time are counted as they are stepped to.
    #[test]
    fn calls_that_end_together_are_counted_one_by_one() {
        let text = "stream s\nspawn t\nt: sync s\nt: signal done\nawait done\n";
        let text = format!(
            "stream a\ndevice d 8\nkernel k on a reads d for 50us\n{}",
            text.replace("sync s", "sync a")
        );
        let model = Model::open(&PageItem::source("p", &text, "h200-pcie5")).unwrap();
        let mut app = App::new(model, Theme::LIGHT);
        app.resize(900.0, 320.0);
        let mut counted = Vec::new();
        for _ in 0..9 {
            app.key("]", false);
            counted.push(app.state().unwrap().calls.0);
        }
        let (_, n) = app.state().unwrap().calls;
        counted.dedup();
        assert_eq!(counted, (1..=n).collect::<Vec<_>>());
    }

    #[test]
    fn the_writer_is_who_wrote_last_what_is_read_and_not_other_bytes_or_another_buffer() {
        let text = "stream s, t\npinned x 4096\npinned y 4096\ndevice d 4096\nwrite x[0..64]\nwrite x[64..128]\nwrite y\n\
                    copy d[0..64] <- x[0..64] on s\nkernel k on s reads d[0..64] writes d[64..128] for 9us\n\
                    kernel other on t writes d[128..256] for 1us\nwrite x[0..8]\nsync s\nsync t\n";
        let mut app =
            App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
        app.resize(900.0, 400.0);
        let commands: Vec<String> = {
            let program = app.model.trace.program.as_ref().unwrap();
            program.commands().iter().map(|command| command.op.name().to_owned()).collect()
        };
        let nth = |name: &str, n: usize| (0..commands.len()).filter(|&c| commands[c] == name).nth(n).unwrap();
        let (copy, kernel) = (nth("copy", 0), nth("kernel", 0));
        for (from, to) in [
            (kernel, copy),
            // Not what was written into the other buffer, or later.
            (copy, nth("host_write", 0)),
            // Nobody wrote before what it writes.
            (nth("kernel", 1), nth("kernel", 1)),
            // What reads nothing leads to who wrote what it writes over.
            (nth("host_write", 3), nth("host_write", 0)),
        ] {
            assert!(app.select_command(from));
            app.key("g", false);
            assert_eq!(app.selected_command(), Some(to), "from {from}: {commands:?}");
        }
    }
}
