//! A program at a point of its run: what its engines do, and how much the driver holds in its slots.

use spanlift::Program;
use spanlift::program::{Command, Op, Space};
use spanlift::trace::{Kind, LaneKind, Slice};

use super::App;
use crate::lifetimes::Times;
use crate::rows::Track;
use crate::text;

impl App {
    /// What each engine does at a moment, by the engine's name.
    pub(super) fn engines(&self, at: i64) -> Vec<(String, Option<String>)> {
        let (rows, slices) = (self.model.rows.by_stream(), &self.model.trace.slices);
        let is_engine = |k: &usize| matches!(rows.rows[*k].kind, LaneKind::Engine { .. });
        let does = |row: usize| {
            let now = |track: &Track| {
                let first = track.slices.partition_point(|&k| slices.end[k as usize] <= at);
                track.slices.get(first).copied().filter(|&k| slices.start[k as usize] <= at)
            };
            let k = rows.rows[row].tracks.iter().find_map(now)?;
            Some(text::clean(self.model.trace.strings.get(slices.name[k as usize])))
        };
        let engines = (0..rows.rows.len()).filter(is_engine);
        engines.map(|row| (rows.called(row).unwrap_or_default(), does(row))).collect()
    }

    /// How many pieces of pageable memory the driver holds: each from the beginning of its first move, by a thread or by an engine, to
    /// the end of the other one.
    pub(super) fn staged(&self, at: i64, program: &Program, times: &[Times]) -> Option<usize> {
        let trace = &self.model.trace;
        let is_pageable = |c: &Command| matches!(&c.op, Op::Alloc(alloc) if alloc.space == Space::Pageable);
        let is_under_way = |t: &Times| {
            let parts = || t.call.into_iter().chain(t.work);
            parts().any(|(start, _)| start <= at) && parts().any(|(_, end)| at < end)
        };
        let in_use = |command: usize| {
            let (mut host, mut engine) = ([0usize; 2], [0usize; 2]);
            for k in self.model.rows.of_command(u32::try_from(command).unwrap_or(Slice::NONE)) {
                let k = k as usize;
                let moved = match (trace.slices.kind[k], trace.lanes[trace.slices.lane[k] as usize].kind) {
                    (Kind::HostCopy, _) => &mut host,
                    (kind, LaneKind::Engine { .. }) if kind.is_copy() => &mut engine,
                    _ => continue,
                };
                moved[0] += usize::from(trace.slices.start[k] <= at);
                moved[1] += usize::from(trace.slices.end[k] <= at);
            }
            host[0].max(engine[0]) - host[1].min(engine[1])
        };
        let copies = program.commands().iter().zip(times).enumerate();
        let copies = copies.filter(|(_, (c, t))| matches!(c.op, Op::Copy(_)) && is_under_way(t));
        program
            .commands()
            .iter()
            .any(is_pageable)
            .then(|| copies.filter(|&(c, _)| self.is_staged(c)).map(|(c, _)| in_use(c)).sum())
    }

    /// Whether a thread moves pieces of what a copy moves.
    fn is_staged(&self, command: usize) -> bool {
        let mut of = self.model.rows.of_command(u32::try_from(command).unwrap_or(Slice::NONE));
        of.any(|k| self.model.trace.slices.kind[k as usize] == Kind::HostCopy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::pack::PageItem;
    use crate::theme::Theme;

    /// Beside a look at each piece: a slot is taken while a thread or an engine moves its bytes, and between the two.
    #[test]
    fn engines_and_the_slots_of_the_driver_are_told() {
        for (ways, host_first) in [("d <- x", true), ("x <- d", false)] {
            let text =
                format!("stream s\npageable x 8MiB\ndevice d 8MiB\nwrite x\ncopy {ways} on s\nsync s\n");
            let model = Model::open(&PageItem::source("p", &text, "h200-pcie5")).unwrap();
            let mut app = App::new(model, Theme::LIGHT);
            app.resize(900.0, 320.0);
            let trace = app.model.trace.clone();
            let moves = |is: &dyn Fn(&Slice) -> bool| {
                let mut found: Vec<(i64, i64)> =
                    trace.slices.iter().filter(is).map(|s| (s.start.0, s.end.0)).collect();
                found.sort_unstable();
                found
            };
            let staging = moves(&|s| s.kind == Kind::HostCopy);
            let moved = moves(&|s| {
                s.kind.is_copy() && matches!(trace.lanes[s.lane as usize].kind, LaneKind::Engine { .. })
            });
            assert_eq!((staging.len(), moved.len()), (8, 8), "a MiB each");
            let (first, then) = if host_first { (&staging, &moved) } else { (&moved, &staging) };
            let mut most = 0;
            for at in staging.iter().chain(&moved).flat_map(|&(a, b)| [a, (a + b) / 2, b]) {
                app.set_at(Some(at));
                let state = app.state().unwrap();
                let taken = first.iter().zip(then).filter(|(f, t)| f.0 <= at && at < t.1).count();
                assert_eq!(state.staged, Some(taken), "{ways} at {at}");
                most = most.max(taken);
                let busy = moved.iter().any(|m| m.0 <= at && at < m.1);
                let does: Vec<_> = state.engines.iter().filter_map(|(_, does)| does.as_deref()).collect();
                assert_eq!(does.len(), usize::from(busy), "{does:?}");
            }
            assert!(0 < most && most <= 4, "the machine has four slots: {most}");
        }
        let model = Model::open(&PageItem::source(
            "p",
            "stream s\npinned x 8\ndevice d 8\ncopy d <- x on s",
            "h200-pcie5",
        ));
        let mut app = App::new(model.unwrap(), Theme::LIGHT);
        app.resize(900.0, 320.0);
        app.set_at(Some(0));
        let state = app.state().unwrap();
        assert_eq!(state.staged, None, "nothing is pageable");
        assert_eq!(state.engines[0].0, "copy to device");
    }

    #[test]
    fn a_copy_of_pinned_memory_is_in_no_slot() {
        let text = "stream s\npageable y 8MiB\npinned x 8MiB\ndevice d 8MiB\ncopy d <- x on s\nsync s\n";
        let mut app =
            App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
        app.resize(900.0, 320.0);
        let slices = &app.model.trace.slices;
        let k = (0..slices.len()).find(|&k| slices.kind[k].is_copy()).unwrap();
        let (start, end) = (slices.start[k], slices.end[k]);
        for at in [start, start / 2 + end / 2, end] {
            app.set_at(Some(at));
            assert_eq!(app.state().unwrap().staged, Some(0), "at {at}");
        }
    }
}
