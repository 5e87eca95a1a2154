//! Lesson 4: a copy from pageable memory as a picture that moves with the simulation, and what page-locking costs.
//!
//! Everything that moves is taken from a simulated trace. Pages that lie in swap are scenery: the simulator knows no page
//! faults, and the picture says so.

mod draw;

use spanlift::advise::Row;
use spanlift::machine::Machine;
use spanlift::program::{Op, Space};
use spanlift::sim::{self, SimError};
use spanlift::text::grouped;
use spanlift::text::signed_percent;
use spanlift::trace::{Kind, LaneKind, Slice};
use spanlift::{Bytes, Nanos, Program};

use super::strategies::with_notes;
use super::{Answer, judged, safe, told};
use crate::bars::{BarChart, Cluster, Entry};
use crate::model::machine_of;
use crate::show::Figure;
use crate::text;

/// Boxes of a picture at most: parts of the copied memory, each of the size of a staging slot.
const MOST_PARTS: usize = 24;
/// Moments that a film shows.
const MOMENTS: i64 = 16;

/// A part of a copy that a host thread or an engine did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    start: i64,
    end: i64,
    bytes: u64,
}

/// The first copy of a program from the host to a device, as it happened.
#[derive(Debug, Clone, PartialEq)]
struct Watched {
    machine: String,
    source: String,
    target: String,
    space: Space,
    bytes: u64,
    /// Bytes of a part: of a staging slot.
    part: u64,
    slots: usize,
    /// When the host was inside the call.
    call: (i64, i64),
    /// What the host staged, and what the engine moved.
    staged: Vec<Piece>,
    moved: Vec<Piece>,
}

impl Watched {
    fn of(program: &Program) -> Result<Watched, String> {
        let machine = machine_of(program, "")?;
        let facts = program.check().map_err(|e| e.to_string())?;
        let on_host = |s: Space| matches!(s, Space::Pageable | Space::Pinned);
        let copies = program.commands().iter().enumerate().filter_map(|(k, c)| match &c.op {
            Op::Copy(copy) => Some((k, copy)),
            _ => None,
        });
        let mut up = copies.filter(|(_, copy)| {
            on_host(facts.buffer(copy.src.buffer).space)
                && facts.buffer(copy.dst.buffer).space == Space::Device
        });
        let (k, copy) = up.next().ok_or("the program copies nothing to a device")?;
        let run = sim::run(program, &machine).map_err(|e| e.to_string())?;
        let lane = |s: &Slice| run.trace.lanes[s.lane as usize].kind;
        let of_copy = |s: &Slice| s.command as usize == k;
        let pieces = |is: &dyn Fn(&Slice) -> bool| -> Vec<Piece> {
            let found = run.trace.slices.iter().filter(of_copy).filter(|s| is(s));
            found.map(|s| Piece { start: s.start.0, end: s.end.0, bytes: s.bytes }).collect()
        };
        let staged = pieces(&|s| lane(s) == LaneKind::Host && s.kind == Kind::HostCopy);
        let moved = pieces(&|s| matches!(lane(s), LaneKind::Engine { .. }));
        let called = pieces(&|s| lane(s) == LaneKind::Host);
        let call = (
            called.iter().map(|p| p.start).min().unwrap_or(0),
            called.iter().map(|p| p.end).max().unwrap_or(0),
        );
        let bytes = moved.iter().map(|p| p.bytes).sum();
        let watched = Watched {
            machine: machine.name.clone(),
            source: program.names().buffer(copy.src.buffer).to_owned(),
            target: program.names().buffer(copy.dst.buffer).to_owned(),
            space: facts.buffer(copy.src.buffer).space,
            bytes,
            part: machine.stage_chunk.0.max(1),
            slots: usize::try_from(machine.stage_slots).unwrap_or(usize::MAX).clamp(1, 8),
            call,
            staged,
            moved,
        };
        match watched.n_parts() {
            0 => Err("the copy moves nothing".to_owned()),
            n if n > MOST_PARTS => {
                let part = Bytes(watched.part);
                Err(format!("the copy has {n} parts of {part}, at most {MOST_PARTS} are drawn: copy less"))
            }
            _ => Ok(watched),
        }
    }

    fn n_parts(&self) -> usize {
        usize::try_from(self.bytes.div_ceil(self.part)).unwrap_or(usize::MAX)
    }

    fn is_pageable(&self) -> bool {
        self.space == Space::Pageable
    }

    /// When the last byte is on the device and the call has returned.
    fn end(&self) -> i64 {
        self.moved.iter().map(|p| p.end).max().unwrap_or(0).max(self.call.1)
    }

    /// The moments of a film, from the call to the end.
    fn moments(&self) -> Vec<i64> {
        let (from, to) = (self.call.0, self.end());
        (0..MOMENTS).map(|k| from + (to - from) * k / (MOMENTS - 1)).collect()
    }

    /// What the picture at a moment says, in a line.
    fn told(&self, at: i64) -> String {
        let done = |pieces: &[Piece]| Bytes(pieces.iter().map(|p| p.done(at)).sum());
        let host = if at < self.call.1 { "inside the call" } else { "free again" };
        let staged = match self.staged.is_empty() {
            true => String::new(),
            false => format!("{} staged, ", done(&self.staged)),
        };
        format!("at {}: {staged}{} on the device, the host is {host}", text::time(at), done(&self.moved))
    }

    fn title(&self) -> String {
        let kind = if self.is_pageable() { "pageable" } else { "page-locked" };
        format!(
            "{} <- {}, {} of {kind} memory, on {}",
            self.target,
            self.source,
            Bytes(self.bytes),
            self.machine
        )
    }
}

impl Piece {
    /// Bytes done at a moment, as if a copy went on evenly.
    fn done(&self, at: i64) -> u64 {
        if at >= self.end {
            return self.bytes;
        }
        let part = i128::from((at - self.start).max(0)) * i128::from(self.bytes);
        u64::try_from(part / i128::from((self.end - self.start).max(1))).unwrap_or(0)
    }
}

/// The first copy of a program to a device as a picture that moves: pages, staging slots, link and device memory.
///
/// Where motion is not wanted, or not shown, the picture stands at its middle.
///
/// ```
/// let program = "machine tutorial-ci\nstream s\npageable x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s";
/// let film = spanlift_viewer::course::film(program);
/// assert!(film.plain().starts_with("d <- x, 4.00 MiB of pageable memory, on tutorial-ci\nat 0 ns: 0 B staged, "));
/// assert!(film.svg().contains("@keyframes"));
/// ```
pub fn film(answer: &(impl Answer + ?Sized)) -> Figure {
    match answer.program().and_then(|p| Watched::of(&p)) {
        Err(why) => Figure::error(&why),
        Ok(watched) => {
            let moments = watched.moments();
            let told = [0, 4, 8, 12, 15].map(|k| watched.told(moments[k]));
            let plain = format!("{}\n{}", watched.title(), told.join("\n"));
            Figure::still(plain.clone(), &watched.title(), draw::moving(&watched, &moments, &plain))
        }
    }
}

/// The same picture at one moment.
pub fn at_moment(answer: &(impl Answer + ?Sized), at: Nanos) -> Figure {
    match answer.program().and_then(|p| Watched::of(&p)) {
        Err(why) => Figure::error(&why),
        Ok(watched) => {
            let plain = format!("{}\n{}", watched.title(), watched.told(at.0));
            Figure::still(plain.clone(), &watched.title(), draw::still(&watched, at.0, &plain))
        }
    }
}

/// What page-locking a buffer takes, and what it saves each time that the buffer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Price {
    /// A new page-locked block, by `cudaHostAlloc`.
    lock: Nanos,
    pageable: Nanos,
    pinned: Nanos,
}

impl Price {
    fn of(bytes: Bytes, machine: &Machine) -> Result<Price, SimError> {
        let timed = |write: &dyn Fn(&mut Program)| {
            let mut p = Program::new();
            write(&mut p);
            p.mark("end");
            sim::run(&p, machine).map(|run| run.between("begin", "end").unwrap_or(run.end))
        };
        let sent = |space: Space| {
            timed(&|p| {
                let (x, s) = (p.buffer("x", space, 0, bytes, None), p.stream("s"));
                let d = p.device(0, "d", bytes);
                p.host_write(x, None);
                p.mark("begin");
                p.copy(d, x).on(s);
                p.sync(s);
            })
        };
        let lock = timed(&|p| {
            p.mark("begin");
            p.pinned("x", bytes);
        })?;
        Ok(Price { lock, pageable: sent(Space::Pageable)?, pinned: sent(Space::Pinned)? })
    }

    fn saved(self) -> Nanos {
        Nanos(self.pageable.0 - self.pinned.0)
    }

    /// After how many copies page-locking has paid; `None` where it never does.
    fn copies(self) -> Option<i64> {
        (self.saved().0 > 0).then(|| (self.lock.0 + self.saved().0 - 1) / self.saved().0)
    }
}

/// What page-locking buffers costs on a machine: the time of the allocation, what each copy saves, and the memory that is left.
///
/// `free` is the host memory that is not in use. Page-locked memory is taken from it for good: it is never swapped out, and
/// no file is cached in it.
///
/// ```
/// use spanlift::{machine::Machine, mib};
/// let told = spanlift_viewer::course::pinning_price(&Machine::default(), mib(1024), &[mib(16)]);
/// assert!(told.plain().contains("pays after "));
/// assert!(told.plain().ends_with(", 1008.00 MiB left)"));
/// ```
pub fn pinning_price(machine: &Machine, free: Bytes, sizes: &[Bytes]) -> Figure {
    let bars = sizes.iter().map(|&bytes| {
        let price = Price::of(bytes, machine).map_err(|e| e.to_string())?;
        let pays = match price.copies() {
            Some(n) => {
                format!("pays after {}", text::count(usize::try_from(n).unwrap_or(usize::MAX), "copy"))
            }
            None => "never pays".to_owned(),
        };
        let left = match free.0.checked_sub(bytes.0) {
            Some(left) => format!("{} left", Bytes(left)),
            None => format!("more than the {free} that are free"),
        };
        let values = [price.lock, price.saved()].map(|t| (t.0 as f64 / 1e3).round() / 1e3);
        Ok(Entry { label: bytes.to_string(), values: values.to_vec(), note: format!("({pays}, {left})") })
    });
    match bars.collect::<Result<Vec<Entry>, String>>() {
        Err(why) => Figure::error(&why),
        Ok(entries) => with_notes(&BarChart {
            title: format!("Page-locking on {}", machine.name),
            unit: "ms".to_owned(),
            series: vec!["to page-lock".to_owned(), "saved by each copy".to_owned()],
            clusters: vec![Cluster { label: String::new(), entries }],
            is_log: true,
        }),
    }
}

/// Published times of rows beside those that a machine takes for the same calls.
pub fn tutorial_chart(rows: &[Row], machine: &Machine) -> Figure {
    let mut clusters: Vec<Cluster> = Vec::new();
    for row in rows {
        let time = match row.time(machine) {
            Ok(time) => time.as_millis(),
            Err(why) => return Figure::error(&why),
        };
        let what = if row.tensordict { "a dictionary of " } else { "" };
        let label = format!(
            "{what}{} of {} bytes",
            text::count(usize::try_from(row.tensors).unwrap_or(usize::MAX), "tensor"),
            grouped(row.bytes_each)
        );
        let entry = Entry {
            label: row.id.clone(),
            values: vec![row.ms, (time * 1e4).round() / 1e4],
            note: format!("({})", signed_percent(time / row.ms - 1.0)),
        };
        match clusters.last_mut() {
            Some(last) if last.label == label => last.entries.push(entry),
            _ => clusters.push(Cluster { label, entries: vec![entry] }),
        }
    }
    with_notes(&BarChart {
        title: format!("Published, and simulated on {}", machine.name),
        unit: "ms".to_owned(),
        series: vec!["published".to_owned(), "simulated".to_owned()],
        clusters,
        is_log: true,
    })
}

/// Lesson 4, exercise 1: after how many copies page-locking a buffer has paid.
pub fn check_break_even(guess: i64, bytes: Bytes, machine: &Machine) -> Figure {
    let found = || -> Result<String, String> {
        if guess < 0 {
            return Err(format!("{guess} copies: a number of copies is not below zero"));
        }
        let price = Price::of(bytes, machine).map_err(|e| e.to_string())?;
        let t = |time: i64| text::time(time);
        let saved = price.saved().0.saturating_mul(guess);
        let copies = text::count(usize::try_from(guess).unwrap_or(0), "copy");
        let sums = format!("page-locking takes {}; saved by {copies}: {}", t(price.lock.0), t(saved));
        match price.copies() {
            None => Err(format!("on {} a copy from page-locked memory saves nothing", machine.name)),
            Some(n) if n == guess => Ok(sums),
            Some(n) if n > guess => Err(format!("too few: {sums}")),
            Some(_) => Err(format!("fewer are enough: {sums}")),
        }
    };
    told(found())
}

/// A training loop that pins its batches itself.
pub fn loader() -> String {
    LOADER.to_owned()
}

const LOADER: &str = "\
machine tutorial-ci
repeat i 6
    pageable b{i} 16MB
    pinned  p{i} 16MB via pinned_pool
    device  d{i} 16MB
    write   b{i}                            # by a worker, before the loop begins
end

repeat i 6
    work    pin_overhead
    host copy p{i} <- b{i}                  # batch.pin_memory()
    work    framework_to
    copy    d{i} <- p{i} on 0               # .to(\"cuda\", non_blocking=True)
    kernel  \"step {i}\" on 0 reads d{i} for 4ms
    sync    0                               # loss.item()
end
";

/// Lesson 4, exercise 2: the same loop, whose thread pins nothing: a thread of the loader does it beside it.
pub fn check_loader(answer: &(impl Answer + ?Sized)) -> Figure {
    told(judged(&answer, LOADER).and_then(|passed| {
        let host = |kinds: &[Kind]| -> Vec<(u32, i64)> {
            let slices = passed.run.trace.slices.iter();
            let found = slices.filter(|s| kinds.contains(&s.kind) && s.bytes > 0);
            found.map(|s| (s.lane, s.end.0 - s.start.0)).collect()
        };
        let engine = |lane: u32| matches!(passed.run.trace.lanes[lane as usize].kind, LaneKind::Engine { .. });
        let pinned = host(&[Kind::HostCopy]);
        let sum = |kind: Kind| -> i64 {
            let slices = passed.run.trace.slices.iter().filter(|s| s.kind == kind && engine(s.lane));
            slices.map(|s| s.end.0 - s.start.0).sum()
        };
        let waits = |op: &Op| {
            matches!(op, Op::StreamSync { .. } | Op::DeviceSync { .. } | Op::EventSync { .. })
        };
        let n = passed.program.commands().iter().filter(|c| waits(&c.op)).count();
        if n < 6 {
            return Err(format!("safe, but {n} of 6 losses are waited for: the loop reads each of them"));
        }
        let first = pinned.first().map_or(0, |(_, time)| *time);
        let least = first + sum(Kind::ToDevice) + sum(Kind::Kernel);
        let took = passed.run.end.0;
        let least_told = text::time(least);
        if took <= least + least / 10 {
            return Ok(format!("{}\none batch pinned, then all copies and steps: {least_told}", safe(&passed).trim_end()));
        }
        Err(format!(
            "safe, but it takes {}: one batch pinned and then all copies and steps are {least_told}. The device stands still \
             while the loop pins",
            text::time(took)
        ))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlift::mib;

    #[track_caller]
    fn check(figure: &Figure, expected: &str) {
        assert!(figure.plain().contains(expected), "{expected:?} is not in {}", figure.plain());
    }

    fn copy(kind: &str, size: &str) -> String {
        format!(
            "machine tutorial-ci\nstream s\n{kind} x {size}\ndevice d {size}\nwrite x\ncopy d <- x on s\nsync s\n"
        )
    }

    /// At each moment as many bytes are staged, under way and there as all pieces together say; none is lost.
    #[test]
    fn what_is_drawn_is_what_was_simulated() {
        let program = Program::from_text(&copy("pageable", "8MB")).unwrap();
        let watched = Watched::of(&program).unwrap();
        assert_eq!((watched.n_parts(), watched.bytes, watched.staged.len()), (8, 8_000_000, 8));
        let sum = |pieces: &[Piece], at| pieces.iter().map(|p| p.done(at)).sum::<u64>();
        let mut before = (0, 0);
        for at in watched.moments() {
            let (staged, moved) = (sum(&watched.staged, at), sum(&watched.moved, at));
            assert!(moved <= staged && before <= (staged, moved), "{at}: {staged} {moved}");
            before = (staged, moved);
        }
        assert_eq!(before, (8_000_000, 8_000_000));
        let pinned = Watched::of(&Program::from_text(&copy("pinned", "8MB")).unwrap()).unwrap();
        assert!(pinned.staged.is_empty() && pinned.call.1 < pinned.end());
        assert_eq!(sum(&pinned.moved, pinned.end()), 8_000_000);
    }

    #[test]
    fn moments_are_told() {
        let told = at_moment(&copy("pageable", "8MB"), Nanos(400_000));
        check(&told, "at 400 µs: 4.");
        check(&told, "the host is inside the call");
        check(&at_moment(&copy("pinned", "8MB"), Nanos(400_000)), "on the device, the host is free again");
        check(&film(&copy("pageable", "100MB")), "at most 24 are drawn: copy less");
        check(&film("stream s"), "copies nothing to a device");
        check(&film("strem s"), "line 1");
    }

    #[test]
    fn page_locking_pays_after_enough_copies() {
        let machine = Machine::default();
        let price = Price::of(mib(16), &machine).unwrap();
        let n = price.copies().unwrap();
        assert!(price.lock.0 <= n * price.saved().0 && price.lock.0 > (n - 1) * price.saved().0);
        check(&check_break_even(n, mib(16), &machine), "right: page-locking takes ");
        check(&check_break_even(n - 1, mib(16), &machine), "not yet: too few");
        check(&check_break_even(n + 1, mib(16), &machine), "not yet: fewer are enough");
        check(&check_break_even(0, mib(16), &machine), "not yet: too few");
        check(
            &check_break_even(-3, mib(16), &machine),
            "not yet: -3 copies: a number of copies is not below zero",
        );
        let told = pinning_price(&machine, mib(64), &[mib(16), mib(128)]);
        check(&told, "48.00 MiB left");
        check(&told, "more than the 64.00 MiB that are free");
    }

    #[test]
    fn a_loop_that_pins_holds_its_device() {
        check(&check_loader(&loader()), "not yet: safe, but it takes ");
        let (head, _) = LOADER.split_once("\nrepeat i 6\n    work    pin").unwrap();
        let beside = format!(
            "{head}
spawn   pin
repeat i 6
    pin: work pin_overhead
    pin: host copy p{{i}} <- b{{i}}
    pin: signal ready{{i}}
end
repeat i 6
    await   ready{{i}}
    work    framework_to
    copy    d{{i}} <- p{{i}} on 0
    kernel  \"step {{i}}\" on 0 reads d{{i}} for 4ms
    sync    0
end
"
        );
        check(&check_loader(&beside), "right: ");
        check(&check_loader(&beside.replace("    await   ready{i}\n", "")), "race: ");
        check(
            &check_loader(
                &LOADER.replace("    host copy p{i} <- b{i}                  # batch.pin_memory()\n", ""),
            ),
            "missing: host copy p0 <- b0",
        );
        // Nobody waits for the losses: the loop pins beside the device, and does not do what it did.
        let blind = LOADER.replace("    sync    0                               # loss.item()\n", "");
        check(&check_loader(&format!("{blind}sync 0\n")), "safe, but 1 of 6 losses are waited for");
        // A long step hides the pinning, a small tensor has none.
        check(&check_loader(&LOADER.replace("4ms", "40ms")), "missing: kernel \"step 0\" reads d0 for 4ms");
        check(&check_loader(&LOADER.replace("16MB", "16KB")), "missing: pageable b0 15625KiB");
    }

    #[test]
    fn rows_stand_beside_their_simulation() {
        let file = br#"{"rows": [
            {"id": "a", "tensors": 1, "bytes_each": 4000000, "repeat_same": true, "measured_ms": 0.4633},
            {"id": "b", "tensors": 2, "bytes_each": 4000, "measured_ms": 1.0}]}"#;
        let told = tutorial_chart(&spanlift::advise::rows(file).unwrap(), &Machine::default());
        check(&told, "\n1 tensor of 4,000,000 bytes\n  a: published 0.4633 ms, simulated 0.4633 ms (+");
        check(&told, "\n2 tensors of 4,000 bytes\n  b: published 1 ms, simulated 0.");
    }
}
