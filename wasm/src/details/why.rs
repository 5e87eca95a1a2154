//! Why a slice took its time: what it waited for, and who held it.

use spanlift::program::{Op, StreamId, StreamKind};
use spanlift::trace::analysis::host_parts;
use spanlift::trace::{Flow, FlowKind, Kind, LaneKind, Slice};

use crate::model::Model;
use crate::rows::{Row, Rows, Track};
use crate::text;
use crate::timeline::is_schedule;

/// An engine takes up its next piece of work within so many nanoseconds.
const ENGINE_NS: i64 = 2_000;

impl Model {
    /// What is known of a slice's waiting.
    pub(super) fn why(&self, k: u32, slice: &Slice) -> Vec<String> {
        let mut why = Vec::new();
        if is_schedule(&self.trace) {
            return why;
        }
        let call = self.trace.flows.iter().find(|f| f.kind == FlowKind::Launch && (f.from == k || f.to == k));
        // What ended before the call, as far as a recording has one, was waited for in name only.
        let slices = &self.trace.slices;
        let asked = call.filter(|call| call.to == k && slice.command == Slice::NONE);
        let asked = asked.and_then(|call| slices.start.get(call.from as usize).copied());
        let is_late =
            |from: u32| slices.end.get(from as usize).is_some_and(|end| asked.is_none_or(|at| at < *end));
        let is_wait = |f: &&Flow| {
            f.to == k && f.kind != FlowKind::Launch && (f.kind != FlowKind::Event || is_late(f.from))
        };
        for flow in self.trace.flows.iter().filter(is_wait).take(3) {
            if (flow.from as usize) < self.trace.slices.len() {
                let from = self.trace.slices.get(flow.from as usize);
                let ended = self.clock(from.end.0);
                why.push(format!(
                    "waited for {} on {}, which ended at {ended}",
                    self.other(from.name),
                    self.lane_of(&from)
                ));
            }
        }
        let blocked = call.and_then(|flow| self.blocked(flow));
        // Of a call that was held the reason is what held its copy.
        let work = match (call, blocked.is_some()) {
            (Some(flow), true) => flow.to,
            _ => k,
        };
        why.extend(blocked);
        why.extend(self.staged(work));
        if !self.trace.flows.iter().any(|f| is_wait(&f)) {
            why.extend(self.before(work));
        }
        // What frees memory waits for the device, and no file says so.
        let name = self.trace.strings.get(slice.name);
        let is_free = slice.kind == Kind::Call && name.contains("Free") && !name.contains("Async");
        if why.is_empty() && (slice.kind == Kind::Wait || is_free) {
            let nothing = || "no work of a device ended meanwhile".to_owned();
            why.push(self.last_within(slice).unwrap_or_else(nothing));
        }
        why
    }

    /// How a call that was still under way when its copy began was held.
    fn blocked(&self, flow: &Flow) -> Option<String> {
        let slices = &self.trace.slices;
        let n = slices.len();
        let (call, copy) = (flow.from as usize, flow.to as usize);
        if n <= call.max(copy) || !slices.kind[copy].is_copy() || slices.end[call] <= slices.start[copy] {
            return None;
        }
        let span = |k: usize| (slices.start[k], slices.end[k]);
        let mut told = String::new();
        for (ns, when) in host_parts(span(call), span(copy)).into_iter().zip([
            "before its copy began",
            "during it",
            "after it",
        ]) {
            if ns > 0 {
                let start = if told.is_empty() { "the call held the host for" } else { "," };
                let took = text::time(i64::try_from(ns).unwrap_or(i64::MAX));
                told.push_str(&format!("{start} {took} {when}"));
            }
        }
        if slices.end[copy] <= slices.end[call] && slices.flags[copy] & Slice::PAGEABLE != 0 {
            told.push_str(
                ": a copy of pageable memory lets it go when it is done, one of pinned memory need not",
            );
        }
        Some(told)
    }

    /// What the stream of a piece of work did right before it, or its engine, or a stream that its own waits for, where that did it later.
    fn before(&self, k: u32) -> Option<String> {
        let (streams, slices) = (self.rows.by_stream(), &self.trace.slices);
        let (row, track) = streams.place(k);
        let kind = slices.kind[k as usize];
        if (row, track) == Rows::NOWHERE || !kind.is_device_work() {
            return None;
        }
        let (start, command) = (slices.start[k as usize], slices.command[k as usize]);
        let earlier = |track: &Track| {
            let at = track.slices.partition_point(|&o| slices.start[o as usize] < start);
            (at.checked_sub(1).map(|at| track.slices[at]), track.slices.get(at).copied())
        };
        let own = &streams.rows[row as usize];
        let before = earlier(&own.tracks[track as usize]).0;
        let ended = |o: u32| slices.end[o as usize];
        let is_own = |o: u32| o == k || command != Slice::NONE && slices.command[o as usize] == command;
        let is_engine = |row: &Row| matches!(row.kind, LaneKind::Engine { .. });
        let rows = |engines: bool| streams.rows.iter().filter(move |row| is_engine(row) == engines);
        let does = |row: &&Row| row.tracks.iter().any(|track| earlier(track).1.is_some_and(is_own));
        let mine = rows(true).find(does);
        // Kernels that run side by side are drawn on several rows.
        let is_mine = |row: &Row| match mine {
            Some(mine) if kind.is_copy() => std::ptr::eq(mine, row),
            mine => mine.is_some_and(|mine| mine.kind == row.kind),
        };
        for row in rows(true).chain(rows(false)) {
            let lasts = row.tracks.iter().filter_map(|track| earlier(track).0).filter(|&o| ended(o) <= start);
            let Some(other) = lasts.max_by_key(|&o| ended(o)) else { continue };
            let is_late = start.saturating_sub(ended(other)) <= ENGINE_NS;
            if !is_late || before.is_some_and(|before| ended(other) <= ended(before)) {
                continue;
            }
            let name = self.other(slices.name[other as usize]);
            if is_mine(row) && (kind.is_copy() || self.fills(k) || self.fills(other)) {
                return Some(format!("until it began its engine was busy with {name} of another stream"));
            }
            if self.is_ordered(own.kind, row.kind) {
                let lane = self.lane_of(&slices.get(other as usize));
                return Some(format!(
                    "waited for {name} on {lane}: the default stream waits for blocking ones, and they for it"
                ));
            }
        }
        let name = self.other(slices.name[before? as usize]);
        Some(match start.saturating_sub(ended(before?)) {
            0 => format!("began the moment {name} on the same stream ended"),
            gap => format!("the stream was idle for {} before, since {name} ended", text::time(gap)),
        })
    }

    /// Whether work lets no other work onto the compute units, as far as a program says so.
    fn fills(&self, k: u32) -> bool {
        let command = self.trace.slices.command[k as usize] as usize;
        let program = self.trace.program.as_ref();
        program.and_then(|p| p.commands().get(command)).is_some_and(|c| match &c.op {
            Op::Kernel(kernel) => kernel.full_grid || kernel.takes.is_none(),
            op => matches!(op, Op::Memset { .. } | Op::Copy(_)),
        })
    }

    /// Whether one of these lanes is the default stream of a program's device and the other one waits for it.
    fn is_ordered(&self, a: LaneKind, b: LaneKind) -> bool {
        let (LaneKind::Stream { dev: at, stream: a }, LaneKind::Stream { dev, stream: b }) = (a, b) else {
            return false;
        };
        let Some(program) = self.trace.program.as_ref().filter(|_| at == dev) else { return false };
        let id = |stream: i64| usize::try_from(stream).ok().and_then(|id| StreamId::try_from(id).ok());
        let is_default = |id: StreamId| program.names().legacy_device(id).is_some();
        let is_blocking = |id: StreamId| {
            program.commands().iter().any(|c| {
                matches!(&c.op, Op::Stream { stream, kind: StreamKind::Blocking | StreamKind::PerThread, .. } if *stream == id)
            })
        };
        id(a)
            .zip(id(b))
            .is_some_and(|(a, b)| is_default(a) && is_blocking(b) || is_default(b) && is_blocking(a))
    }

    /// How a copy of pageable memory went through the driver's slots, where that is on the timeline.
    fn staged(&self, k: u32) -> Option<String> {
        let slices = &self.trace.slices;
        let command = slices.command[k as usize];
        if command == Slice::NONE || slices.flags[k as usize] & Slice::PAGEABLE == 0 {
            return None;
        }
        let (mut n, mut host, mut link) = (0, 0, 0);
        for o in self.rows.of_command(command).map(|o| o as usize) {
            let took = slices.end[o].saturating_sub(slices.start[o]);
            match (slices.kind[o], self.trace.lanes[slices.lane[o] as usize].kind) {
                (Kind::HostCopy, _) => (n, host) = (n + 1, took.saturating_add(host)),
                (_, LaneKind::Engine { .. }) => link = took.saturating_add(link),
                _ => {}
            }
        }
        (n > 0).then(|| {
            let [host, link] = [host, link].map(text::time);
            format!(
                "staged in {}: the host copies them for {host}, the engine moves them for {link}",
                text::count(n, "piece")
            )
        })
    }

    /// What devices did while a host thread waited that does not say for what: the work of theirs that ended last.
    fn last_within(&self, wait: &Slice) -> Option<String> {
        let slices = &self.trace.slices;
        let mut last: Option<u32> = None;
        for row in &self.rows.by_stream().rows {
            for track in row.tracks.iter().filter(|_| matches!(row.kind, LaneKind::Stream { .. })) {
                let at = track.slices.partition_point(|&o| slices.end[o as usize] <= wait.end.0);
                let Some(&k) = at.checked_sub(1).and_then(|at| track.slices.get(at)) else { continue };
                let end = slices.end[k as usize];
                if wait.start.0 < end && last.is_none_or(|last| slices.end[last as usize] < end) {
                    last = Some(k);
                }
            }
        }
        let last = slices.get(last? as usize);
        let ago = text::time(wait.end.0.saturating_sub(last.end.0));
        let (name, lane) = (self.other(last.name), self.lane_of(&last));
        Some(format!("{name} on {lane} ended last meanwhile, {ago} before the call returned"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Details;
    use super::*;

    /// A kernel waits for a copy of another stream by an event: that is why it began late, unless the copy was over before its call.
    #[test]
    fn a_recorded_wait_for_an_event_is_a_reason_where_it_took_time() {
        for (copied, expected) in [
            (100, "waited for Memcpy HtoD (Pinned -> Device) on stream 13, device 0, which ended at 105 µs"),
            (3, ""),
        ] {
            let event = |cat: &str, name: &str, tid: u32, (ts, dur): (u32, u32), more: &str| {
                format!(
                    r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"device":0,{more}}}}}"#
                )
            };
            let wait =
                r#""stream":7,"correlation":3,"wait_on_stream":13,"wait_on_cuda_event_record_corr_id":2"#;
            let events = [
                event("cuda_runtime", "cudaMemcpyAsync", 1, (0, 4), r#""correlation":1"#),
                event(
                    "gpu_memcpy",
                    "Memcpy HtoD (Pinned -> Device)",
                    13,
                    (5, copied),
                    r#""stream":13,"correlation":1"#,
                ),
                event("cuda_runtime", "cudaEventRecord", 1, (6, 1), r#""correlation":2"#),
                event("cuda_runtime", "cudaStreamWaitEvent", 1, (8, 1), r#""correlation":3"#),
                event("cuda_sync", "Stream Wait Event", 7, (8, 1), wait),
                event("cuda_runtime", "cudaLaunchKernel", 1, (10, 3), r#""correlation":4"#),
                event("kernel", "k", 7, (107, 20), r#""stream":7,"correlation":4"#),
            ];
            let trace = format!("[{}]", events.join(","));
            let model = Model::new("t", spanlift::trace::read(trace.as_bytes()).unwrap());
            assert_eq!(model.details(6).why.join("; "), expected);
        }
    }

    #[test]
    fn a_call_that_was_held_says_for_how_long_and_by_what() {
        let event = |cat: &str, name: &str, tid: u32, (ts, dur): (f64, f64), id: u32| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":7,"correlation":{id}}}}}"#
            )
        };
        let pageable = "Memcpy DtoH (Device -> Pageable)";
        let events = [
            event("kernel", "scale", 7, (20.0, 50.0), 1),
            event("cuda_runtime", "cudaMemcpyAsync", 1, (10.0, 75.375), 2),
            event("gpu_memcpy", pageable, 7, (73.0, 9.216), 2),
            event("cuda_runtime", "cudaStreamSynchronize", 1, (100.0, 30.0), 3),
            event("kernel", "late", 7, (90.0, 37.5), 4),
            event("cuda_runtime", "cudaDeviceSynchronize", 1, (140.0, 1.0), 5),
            event("kernel", "last", 7, (150.0, 20.0), 6),
            event("cuda_runtime", "cudaFree", 1, (160.0, 20.0), 7),
            event("cuda_runtime", "cudaFreeAsync", 1, (165.0, 20.0), 8),
        ];
        let trace = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
        let model = Model::new("t", spanlift::trace::read(trace.as_bytes()).unwrap());
        let why = |name: &str| {
            let strings = &model.trace.strings;
            let mut all = (0..).zip(&model.trace.slices.name);
            let (k, _) = all.find(|(_, id)| strings.get(**id) == name).unwrap();
            model.details(k).why
        };
        let templated = trace.replace("scale", &format!("void scale<{}float>", "float, ".repeat(99)));
        let templated = Model::new("t", spanlift::trace::read(templated.as_bytes()).unwrap());
        let told: Vec<Details> = (0..9).map(|k| templated.details(k)).collect();
        assert!(told.iter().any(|of| of.title.len() > 600), "its own name is whole");
        for line in told.iter().flat_map(|of| of.rows.iter().map(|(_, value)| value).chain(&of.why)) {
            assert!(line.len() < 200, "{line}");
        }
        let held = [
            "the call held the host for 63 µs before its copy began, 9.216 µs during it, 3.159 µs after it: \
             a copy of pageable memory lets it go when it is done, one of pinned memory need not",
            "the stream was idle for 3 µs before, since scale ended",
        ];
        assert_eq!(why("cudaMemcpyAsync"), held);
        assert_eq!(why(pageable), held, "the copy tells what its call does");
        let late = ["late on stream 7, device 0 ended last meanwhile, 2.500 µs before the call returned"];
        assert_eq!(why("cudaStreamSynchronize"), late);
        assert_eq!(why("cudaDeviceSynchronize"), ["no work of a device ended meanwhile"]);
        let freed = ["last on stream 7, device 0 ended last meanwhile, 10 µs before the call returned"];
        assert_eq!(why("cudaFree"), freed);
        assert!(why("cudaFreeAsync").is_empty());
    }

    #[test]
    fn a_copy_that_had_to_wait_for_its_engine_says_so() {
        let text = "stream a, b\npinned x 32MiB\npinned y 32MiB\ndevice d 32MiB\ndevice e 32MiB\ncopy d <- x on a\n\
                    copy e <- y on b\nkernel k on b reads e for 1us\nsync a\nsync b\ncopy d <- x on a\nsync a\n";
        let model = Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap();
        let why = |command: u32| {
            let work = model
                .rows
                .of_command(command)
                .find(|&k| model.trace.slices.kind[k as usize].is_device_work());
            model.details(work.unwrap()).why
        };
        assert!(why(6).is_empty(), "nothing was before it");
        assert_eq!(why(7), ["until it began its engine was busy with d from x of another stream"]);
        assert!(why(8)[0].ends_with("since e from y ended"), "{:?}", why(8));
        let again = why(11);
        assert!(
            again[0].starts_with("the stream was idle for ") && again[0].ends_with("since d from x ended"),
            "{again:?}"
        );
    }

    /// The reasons that a run by the model has: a device that one kernel has to itself, the default stream, the driver's slots.
    #[test]
    fn kernels_and_default_streams_say_what_they_waited_for_and_copies_how_they_were_staged() {
        let why = |text: &str, command: u32| {
            let model = Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap();
            let is_work = |&k: &u32| model.trace.slices.kind[k as usize].is_device_work();
            let k = model.rows.of_command(command).find(is_work).unwrap();
            model.details(k).why
        };
        let busy = ["until it began its engine was busy with first of another stream"];
        let two = |first: &str, second: &str| {
            why(
                &format!(
                    "stream a, b\nkernel first on a for 500us{first}\nkernel second on b for 10us{second}\nsync a\nsync b"
                ),
                3,
            )
        };
        assert_eq!(two(" grid full", " grid full"), busy);
        assert_eq!(two(" grid full", ""), busy);
        assert_eq!(two("", " grid full"), busy);
        assert!(two("", "").is_empty(), "they run side by side");
        // Of two that run side by side the later one, wherever it is drawn.
        let three = "stream a, b, c\nkernel short on a for 100us\nkernel first on b for 500us\nkernel third on c for 1us grid full\nsync cuda:0";
        assert_eq!(why(three, 5), busy);
        let default = |kind: &str, first: &str, second: &str| {
            why(
                &format!(
                    "stream a {kind}\npinned x 64MiB\ndevice d 64MiB\ncopy d <- x on {first}\nkernel k on {second} for 10us\nsync cuda:0"
                ),
                4,
            )
        };
        let ordered = |lane: &str| {
            vec![format!(
                "waited for d from x on {lane}, cuda:0: the default stream waits for blocking ones, and they for it"
            )]
        };
        assert_eq!(default("blocking", "a", "0"), ordered("a"));
        assert_eq!(default("blocking", "0", "a"), ordered("default stream"));
        assert!(default("nonblocking", "a", "0").is_empty());
        let pageable = |size: &str| {
            why(
                &format!("stream s\npageable x {size}\ndevice d {size}\nwrite x\ncopy d <- x on s\nsync s"),
                4,
            )
        };
        assert!(
            pageable("8MiB")[1].starts_with("staged in 8 pieces: the host copies them for "),
            "{:?}",
            pageable("8MiB")
        );
        assert!(pageable("4KiB").iter().any(|why| why.starts_with("staged in 1 piece: ")));
    }

    #[test]
    fn a_call_is_held_by_a_copy_for_as_long_as_it_takes_and_by_no_kernel() {
        let event = |cat: &str, name: &str, tid: u32, (ts, dur): (f64, f64), id: u32| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":{tid},"correlation":{id}}}}}"#
            )
        };
        let why = |(kind, work): (&str, &str), call: (f64, f64), done: (f64, f64)| {
            let events = [event("cuda_runtime", "call", 1, call, 2), event(kind, work, 7, done, 2)];
            let trace = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
            Model::new("t", spanlift::trace::read(trace.as_bytes()).unwrap()).details(0).why
        };
        let copy = ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)");
        assert_eq!(why(copy, (10.0, 20.0), (10.0, 20.0)), ["the call held the host for 20 µs during it"]);
        assert_eq!(
            why(copy, (10.0, 20.0), (12.0, 30.0)),
            ["the call held the host for 2 µs before its copy began, 18 µs during it"]
        );
        assert_eq!(
            why(copy, (10.0, 20.0), (10.0, 5.0)),
            ["the call held the host for 5 µs during it, 15 µs after it"]
        );
        assert_eq!(why(copy, (10.0, 20.0), (30.0, 5.0)), [""; 0], "it was back when the copy began");
        assert_eq!(why(("kernel", "k"), (10.0, 20.0), (12.0, 30.0)), [""; 0]);
    }

    #[test]
    fn what_the_host_and_the_engine_take_for_the_pieces_is_told_of_a_staged_copy() {
        let text = "stream s\npageable x 8MiB\npinned p 64\ndevice d 8MiB\nwrite x\ncopy d <- x on s\ncopy d[0..64] <- p on s\nsync s";
        let model = Model::open(&crate::pack::PageItem::source("p", text, "h200-pcie5")).unwrap();
        let slices = &model.trace.slices;
        let is_engine =
            |k: usize| matches!(model.trace.lanes[slices.lane[k] as usize].kind, LaneKind::Engine { .. });
        for (command, is_staged) in [(5, true), (6, false)] {
            let of = |wanted: &dyn Fn(usize) -> bool| {
                let all = (0..slices.len()).filter(|&k| slices.command[k] == command && wanted(k));
                all.map(|k| slices.end[k] - slices.start[k]).collect::<Vec<_>>()
            };
            let (host, link) = (of(&|k| slices.kind[k] == Kind::HostCopy), of(&is_engine));
            let expected = is_staged.then(|| {
                let [host_ns, link_ns] = [&host, &link].map(|times| text::time(times.iter().sum()));
                format!(
                    "staged in {} pieces: the host copies them for {host_ns}, the engine moves them for {link_ns}",
                    host.len()
                )
            });
            let work = model.rows.of_command(command).find(|&k| slices.kind[k as usize] == Kind::ToDevice);
            let told = model.details(work.unwrap()).why.into_iter().find(|why| why.starts_with("staged"));
            assert_eq!(told, expected);
        }
    }
}
