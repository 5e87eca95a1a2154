//! The memory of a program over time: which buffers a place holds, from when to when, and how they lie above each other.
//!
//! Addresses are not known before a program runs, so buffers are stacked: each at the lowest offset that is free as long as
//! it is there, one that takes over the bytes of another where that lay. Buffers too small to be seen on that axis have lines
//! of their own below it, so that none hides another.

use spanlift::program::{Alloc, AllocVia, BufferId, FreeVia, Op, Region, Space};
use spanlift::trace::{LaneKind, Slice, Trace};

use crate::rows::{Rows, Track, tracks};
use crate::text;
use crate::timeline::clock;

/// Where buffers in host memory are.
const HOST: i64 = -1;
/// Buffers of one place that are stacked: the largest.
const MOST: usize = 1000;
/// One that has less than this part of the stack, and is a fourth of the largest at most, is a line below it.
const SMALL: f64 = 1.0 / 24.0;
/// Pixels of the stack for each buffer that is there at a time, at least and at most in all.
const EACH: f64 = 20.0;
const STACK: (f64, f64) = (64.0, 132.0);
/// Pixels of a line, and of all lines at most.
const LINE: f64 = 7.0;
const LINES: f64 = 42.0;

/// What one place, the host or a device, holds over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Place {
    /// `host`, `cuda:0`.
    pub name: String,
    /// The buffers by the beginning of their lives.
    pub blocks: Vec<Block>,
    /// Bytes of the stack.
    pub top: f64,
    /// Lines below it.
    pub lines: f64,
    /// The most bytes that are there at a time.
    pub peak: u64,
    /// Those that are lines have fewer bytes.
    pub small: u64,
    /// Buffers that are not among the largest, and not drawn.
    pub left_out: usize,
    /// The most buffers that are there at a time.
    level: usize,
}

/// A buffer from its allocation to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Which buffer.
    pub buffer: BufferId,
    /// Its name.
    pub name: String,
    /// What memory it is.
    pub space: Space,
    /// Its size.
    pub bytes: u64,
    /// When it is allocated, and when it is freed or everything ends.
    pub life: (i64, i64),
    /// When the last work that touches it is done: a pool takes memory back at the call, whatever streams have yet to do.
    pub used: i64,
    /// Where it lies: bytes above the foot of the stack, or lines.
    pub at: f64,
    /// Whether it is a line.
    pub is_line: bool,
    /// The device whose memory it is, or [`HOST`].
    device: i64,
    /// The slices that read it.
    pub reads: Vec<Track>,
    /// The slices that write it.
    pub writes: Vec<Track>,
    /// Whose bytes it takes over.
    pub reuse: Option<BufferId>,
}

/// The places of a trace's program that hold anything: the host first, then the devices.
///
/// # Cost
/// `n log n` in the commands; stacking looks at the buffers that are there together.
pub(crate) fn places(trace: &Trace, rows: &Rows) -> Vec<Place> {
    let (found, mut slices) = blocks(trace, rows);
    let mut devices: Vec<i64> = found.iter().map(|block| block.device).collect();
    devices.sort_unstable();
    devices.dedup();
    let mut places = Vec::new();
    for device in devices {
        let name = if device == HOST { "host".to_owned() } else { format!("cuda:{device}") };
        let mut place = Place { name, ..Place::default() };
        // The largest, and then by the beginning of their lives.
        let mut order: Vec<(i64, usize)> = Vec::new();
        for (k, block) in found.iter().enumerate() {
            if block.device == device {
                order.push((i64::try_from(block.bytes).unwrap_or(i64::MAX).saturating_neg(), k));
            }
        }
        order.sort_unstable();
        place.left_out = order.len().saturating_sub(MOST);
        order.truncate(MOST);
        for (key, k) in &mut order {
            *key = found[*k].life.0;
        }
        order.sort_unstable();
        for (_, k) in order {
            let mut block = found[k].clone();
            // A command may name several stretches of one buffer.
            let [mut reads, mut writes] = std::mem::take(&mut slices[k]);
            reads.dedup();
            writes.dedup();
            (block.reads, block.writes) = (tracks(trace, reads), tracks(trace, writes));
            place.blocks.push(block);
        }
        place.lay();
        places.push(place);
    }
    places
}

/// A command in time: its call, and its work where that is not the call itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub call: Option<(i64, i64)>,
    pub work: Option<(i64, i64)>,
    /// A slice of the call.
    pub slice: u32,
}

/// When each command of a trace's program was called, and when its work was done; of memory that comes and goes in the order of a
/// stream that is when the work before it there is done.
pub(crate) fn times(trace: &Trace) -> Vec<Times> {
    let commands = trace.program.as_ref().map_or(&[][..], |program| program.commands());
    let mut times = vec![Times { call: None, work: None, slice: 0 }; commands.len()];
    let slices = &trace.slices;
    for (k, (&command, &lane)) in (0u32..).zip(slices.command.iter().zip(&slices.lane)) {
        let Some(of) = usize::try_from(command).ok().and_then(|c| times.get_mut(c)) else { continue };
        if command == Slice::NONE {
            continue;
        }
        let (start, end) = (slices.start[k as usize], slices.end[k as usize]);
        let joined =
            |old: Option<(i64, i64)>| Some(old.map_or((start, end), |(a, b)| (a.min(start), b.max(end))));
        match trace.lanes[lane as usize].kind {
            LaneKind::Host => {
                if of.call.is_none_or(|(first, _)| start <= first) {
                    of.slice = k;
                }
                of.call = joined(of.call);
            }
            LaneKind::Stream { .. } => of.work = joined(of.work),
            _ => {}
        }
    }
    let first = trace.extent().map_or(0, |(first, _)| first.0);
    // When the last call of each thread returned, and the last work of each stream was done.
    let (mut returned, mut done): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    for (command, of) in commands.iter().zip(&mut times) {
        let thread = command.thread.index();
        returned.resize(returned.len().max(thread + 1), first);
        // What takes no time has no slice of its own.
        let (start, end) = of.call.unwrap_or((returned[thread], returned[thread]));
        returned[thread] = returned[thread].max(end);
        let stream = command.op.stream().map_or(0, |stream| stream.index() + 1);
        done.resize(done.len().max(stream + 1), first);
        match (&command.op, of.work) {
            (_, Some((_, end))) => done[stream] = done[stream].max(end),
            (Op::Alloc(Alloc { via: AllocVia::MallocAsync, .. }), _) => {
                of.work = Some((start.max(done[stream]), end.max(done[stream])));
            }
            (Op::Free { via: FreeVia::FreeAsync, .. }, _) => {
                of.work = Some((end.max(done[stream]), end.max(done[stream])));
            }
            (Op::Alloc(_) | Op::Free { .. }, _) if of.call.is_none() => of.work = Some((start, end)),
            _ => {}
        }
    }
    times
}

/// The slices of what a command does: its work on a stream, or where it has none its calls.
pub(crate) fn work(trace: &Trace, rows: &Rows, command: u32) -> Vec<u32> {
    let [mut calls, mut work] = [Vec::new(), Vec::new()];
    for k in rows.of_command(command) {
        match trace.lanes[trace.slices.lane[k as usize] as usize].kind {
            LaneKind::Host => calls.push(k),
            LaneKind::Stream { .. } => work.push(k),
            _ => {}
        }
    }
    if work.is_empty() { calls } else { work }
}

/// The copies of a trace's program by their beginning, as slices of what they do.
pub(crate) fn copies(trace: &Trace, rows: &Rows) -> Vec<u32> {
    let mut found: Vec<(i64, usize)> = Vec::new();
    for (c, command) in (0u32..).zip(trace.program.iter().flat_map(|program| program.commands())) {
        if matches!(command.op, Op::Copy(_) | Op::HostCopy { .. }) {
            for k in work(trace, rows, c) {
                found.push((trace.slices.start[k as usize], k as usize));
            }
        }
    }
    found.sort_unstable();
    found.into_iter().filter_map(|(_, k)| u32::try_from(k).ok()).collect()
}

/// What a command touches, and whether it writes it.
pub(crate) fn touched(op: &Op) -> Vec<(&Region, bool)> {
    let (reads, writes) = op.regions();
    let mut found = Vec::with_capacity(reads.len() + writes.len());
    for region in reads {
        found.push((region, false));
    }
    for region in writes {
        found.push((region, true));
    }
    found
}

/// All buffers in the order of their declarations, and the slices that read and write each.
fn blocks(trace: &Trace, rows: &Rows) -> (Vec<Block>, Vec<[Vec<u32>; 2]>) {
    let (mut found, mut slices): (Vec<Block>, Vec<[Vec<u32>; 2]>) = (Vec::new(), Vec::new());
    let (Some(program), Some((_, last))) = (&trace.program, trace.extent()) else {
        return (found, slices);
    };
    // The life of each buffer that was allocated last.
    let mut latest: Vec<Option<usize>> = Vec::new();
    for ((c, command), of) in (0u32..).zip(program.commands()).zip(times(trace)) {
        let Some((start, end)) = of.work.or(of.call) else { continue };
        match &command.op {
            Op::Alloc(alloc) => {
                let k = alloc.buffer.index();
                latest.resize(latest.len().max(k + 1), None);
                latest[k] = Some(found.len());
                let is_device = matches!(alloc.space, Space::Device | Space::Managed);
                found.push(Block {
                    buffer: alloc.buffer,
                    name: text::clean(program.names().buffer(alloc.buffer)),
                    space: alloc.space,
                    device: if is_device { alloc.dev.into() } else { HOST },
                    bytes: alloc.bytes.unsigned_abs(),
                    life: (start, last.0.max(start)),
                    used: start,
                    at: 0.0,
                    is_line: false,
                    reads: Vec::new(),
                    writes: Vec::new(),
                    reuse: alloc.reuse,
                });
                slices.push([Vec::new(), Vec::new()]);
            }
            Op::Free { buffer, .. } => {
                if let Some(&Some(k)) = latest.get(buffer.index()) {
                    let life = &mut found[k].life;
                    life.1 = end.max(life.0);
                }
            }
            op => {
                let work = work(trace, rows, c);
                for (region, is_write) in touched(op) {
                    if let Some(&Some(k)) = latest.get(region.buffer.index()) {
                        found[k].used = found[k].used.max(end);
                        slices[k][usize::from(is_write)].extend_from_slice(&work);
                    }
                }
            }
        }
    }
    (found, slices)
}

impl Place {
    /// Gives every buffer its place.
    fn lay(&mut self) {
        let largest = self.blocks.iter().map(|block| block.bytes).max().unwrap_or(0);
        // Of many that are alike none is small, however little of the stack each has.
        self.small = whole(self.stack(false) * SMALL).min(largest / 4);
        for block in &mut self.blocks {
            block.is_line = block.bytes < self.small;
        }
        self.top = self.stack(false);
        self.lines = self.stack(true);
    }

    /// Stacks the lines, or all others; gives the height of the stack.
    fn stack(&mut self, lines: bool) -> f64 {
        // Bottom, top and end of what is there, by bottom.
        let mut there: Vec<(f64, f64, i64)> = Vec::new();
        let mut placed: Vec<(BufferId, f64)> = Vec::new();
        let mut top = 0.0f64;
        for block in self.blocks.iter_mut().filter(|block| block.is_line == lines) {
            there.retain(|other| block.life.0 < other.2);
            let size = if lines { 1.0 } else { block.bytes as f64 };
            let old = block.reuse.and_then(|of| placed.iter().rev().find(|(buffer, _)| *buffer == of));
            let is_free = |at: f64| there.iter().all(|other| at + size <= other.0 || other.1 <= at);
            let at = old.map(|(_, at)| *at).filter(|&at| is_free(at)).unwrap_or_else(|| {
                let mut at = 0.0f64;
                for other in &there {
                    if at + size <= other.0 {
                        break;
                    }
                    at = at.max(other.1);
                }
                at
            });
            there.insert(there.partition_point(|other| other.0 < at), (at, at + size, block.life.1));
            placed.push((block.buffer, at));
            block.at = at;
            top = top.max(at + size);
            self.level = self.level.max(there.len());
            let held: f64 = there.iter().map(|other| other.1 - other.0).sum();
            if !lines {
                self.peak = self.peak.max(whole(held));
            }
        }
        top
    }

    /// Pixels of the stack and of the lines below it.
    pub fn heights(&self) -> (f64, f64) {
        let stack = (EACH * self.level as f64).clamp(STACK.0, STACK.1);
        (if self.top > 0.0 { stack } else { 0.0 }, (LINE * self.lines).min(LINES))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to int casts saturate")]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

impl Block {
    /// What is known of it in a line without its name, for those who point at it and those who hear it.
    pub fn told(&self, trace: &Trace, rows: &Rows) -> String {
        let times = |tracks: &[Track]| {
            let mut n = 0;
            for track in tracks {
                n += track.slices.len();
            }
            text::count(n, "time")
        };
        let mut told = format!("{}, {}, from ", self.kind(), text::bytes(self.bytes));
        for words in [
            &*clock(trace, rows, self.life.0),
            " to ",
            &clock(trace, rows, self.life.1),
            ", read ",
            &times(&self.reads),
            ", written ",
            &times(&self.writes),
        ] {
            told.push_str(words);
        }
        if self.life.1 < self.used {
            told += ", used until ";
            told += &clock(trace, rows, self.used);
        }
        told
    }

    /// Who wrote it last before a point in time.
    pub fn writer(&self, trace: &Trace, at: i64) -> Option<u32> {
        let mut last: Option<(i64, u32)> = None;
        for track in &self.writes {
            let n = track.slices.partition_point(|&k| trace.slices.end[k as usize] <= at);
            if let Some(&k) = n.checked_sub(1).and_then(|n| track.slices.get(n)) {
                last = last.max(Some((trace.slices.end[k as usize], k)));
            }
        }
        last.map(|(_, k)| k)
    }

    /// What memory it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self.space {
            Space::Device => "device memory",
            Space::Pinned => "pinned",
            Space::Pageable => "pageable",
            Space::Managed => "managed",
        }
    }
}
