//! Engines that move the same bytes at the same time: who comes to which byte first.
//!
//! Each engine goes through its bytes in address order at a rate that is constant between two looks, so that on a piece of time
//! one of two is mostly ahead of the other all along, and all that it moves comes before what the other does. Where they cross the
//! piece is halved, down to a nanosecond; within that the order of devices and engines counts. It counts for all that is left when a run
//! has been cut into [`MOST_PIECES`].

use super::schedule::Sim;
use super::values::{Place, byte_at};
use crate::memory::{Overlap, Span};
use crate::ordered::CollectVec;
use crate::program::Op;

/// Pieces of time that are looked at in one run: a second's work.
const MOST_PIECES: u32 = 1 << 20;
/// Steps to find out whether two regions have a common byte; beyond them they may.
const OVERLAP_STEPS: u64 = 1 << 12;

const BILLION: i128 = 1_000_000_000;

/// Which of two engines has to move first what both move on a piece of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// They do not meet.
    Either,
    This,
    Other,
    /// Neither is ahead all along, or nobody can tell.
    Unclear,
}

impl First {
    fn and(self, other: First) -> First {
        match (self, other) {
            (First::Either, first) | (first, First::Either) => first,
            (a, b) if a == b => a,
            _ => First::Unclear,
        }
    }
}

/// Bytes that an engine reads or writes: the region, the byte of it that is the engine's first, and whether it writes.
#[derive(Clone, Copy)]
struct Touched<'a> {
    block: usize,
    span: &'a Span,
    offset: u64,
    writes: bool,
}

impl<'a> Sim<'a> {
    /// What an engine's copy reads and writes of memory that is carried.
    fn touched(&self, engine: u32) -> Vec<Touched<'a>> {
        let program = self.program;
        let Some(moving) = self.values.moving.get(&engine) else { return Vec::new() };
        let command = self.nodes[moving.node as usize].command;
        let Op::Copy(copy) = &program.commands()[command as usize].op else { return Vec::new() };
        let sides = [(&copy.src, moving.from, false), (&copy.dst, moving.to, true)];
        let in_memory = sides.into_iter().filter(|(_, place, _)| *place == Place::Region);
        let touched = in_memory.map(|(region, _, writes)| Touched {
            block: self.facts.buffer(region.buffer).block.index(),
            span: &region.span,
            offset: moving.offset,
            writes,
        });
        touched.filter(|t| self.values.blocks[t.block].is_some()).collect_vec()
    }

    /// Pairs of regions of two engines of which one is written.
    fn shared(&self, a: u32, b: u32) -> Vec<(Touched<'a>, Touched<'a>)> {
        let mut shared = Vec::new();
        for x in self.touched(a) {
            for y in self.touched(b) {
                if x.block == y.block && (x.writes || y.writes) {
                    shared.push((x, y));
                }
            }
        }
        shared
    }

    /// Whether any two engines that work now move a common byte, one of them to it.
    pub(super) fn engines_meet(&self) -> bool {
        let engines: Vec<u32> = self.values.moving.keys().copied().collect_vec();
        let meet = |a: u32, b: u32| {
            self.shared(a, b).iter().any(|(x, y)| x.span.overlaps(y.span, OVERLAP_STEPS) != Overlap::No)
        };
        engines.iter().enumerate().any(|(k, &a)| engines[k + 1..].iter().any(|&b| meet(a, b)))
    }

    /// Moves what engines that meet have moved from `begin`, up to where all is settled, to `end`.
    pub(super) fn interleave(&mut self, begin: i64, end: i64) {
        if end <= begin {
            return;
        }
        let engines: Vec<u32> = self.values.moving.keys().copied().collect_vec();
        let starts = engines.iter().filter_map(|&e| self.engines[e as usize].job.map(|job| job.moves_from()));
        // An engine at rest and then at work is never ahead all along.
        let inside = starts.filter(|at| begin < *at && *at < end).min();
        let order = if inside.is_none() { self.order_of(&engines, begin, end) } else { None };
        self.values.pieces += 1;
        match order {
            Some(order) => order.into_iter().for_each(|engine| self.move_until(engine, end)),
            None if end - begin == 1 || self.values.pieces > MOST_PIECES => {
                engines.into_iter().for_each(|engine| self.move_until(engine, end));
            }
            None => {
                let middle = inside.unwrap_or(begin + (end - begin) / 2);
                self.interleave(begin, middle);
                self.interleave(middle, end);
            }
        }
    }

    fn move_until(&mut self, engine: u32, time: i64) {
        if let Some(job) = self.engines[engine as usize].job {
            self.move_up_to(engine, job.moved(time));
        }
    }

    /// An order in which engines can move one after the other all that they move from `begin` to `end`.
    fn order_of(&self, engines: &[u32], begin: i64, end: i64) -> Option<Vec<u32>> {
        let mut before = Vec::new();
        for (k, &a) in engines.iter().enumerate() {
            for &b in &engines[k + 1..] {
                match self.first(a, b, begin, end) {
                    First::Either => {}
                    First::This => before.push((a, b)),
                    First::Other => before.push((b, a)),
                    First::Unclear => return None,
                }
            }
        }
        let mut left = engines.to_vec();
        let mut order = Vec::new();
        while !left.is_empty() {
            let waits = |e: &u32| before.iter().any(|(first, then)| then == e && left.contains(first));
            let next = left.iter().position(|e| !waits(e))?;
            order.push(left.remove(next));
        }
        Some(order)
    }

    /// Which of two engines, `a` being the one that goes first within a nanosecond, is ahead from `begin` to `end`.
    fn first(&self, a: u32, b: u32, begin: i64, end: i64) -> First {
        let moved = |engine: u32, time| self.engines[engine as usize].job.map_or(0, |job| job.moved(time));
        let place = |engine: u32, time| self.engines[engine as usize].job.map_or(0, |job| job.place(time));
        let pieces = [a, b].map(|engine| (moved(engine, begin), moved(engine, end)));
        if pieces.iter().any(|(lo, hi)| lo == hi) {
            return First::Either;
        }
        let mut first = First::Either;
        for (x, y) in self.shared(a, b) {
            let (of_x, of_y) = (x.bounds(pieces[0]), y.bounds(pieces[1]));
            if of_x.1 <= of_y.0 || of_y.1 <= of_x.0 {
                continue;
            }
            let (Some(from_x), Some(from_y)) = bases(&x, &y) else { return First::Unclear };
            // Places on a common line, which change evenly but for the last nanosecond of a copy.
            let at_x = |time| from_x + place(a, time);
            let at_y = |time| from_y + place(b, time);
            first = first.and(if [begin, end - 1, end].iter().all(|&t| at_x(t) >= at_y(t)) {
                First::This
            } else if [begin, begin.max(end - 2), end - 1].iter().all(|&t| at_y(t) >= at_x(t + 1)) {
                First::Other
            } else {
                First::Unclear
            });
        }
        first
    }
}

/// Where the first bytes of two regions stand on a line along which both are gone through, if there is one.
fn bases(x: &Touched, y: &Touched) -> (Option<i128>, Option<i128>) {
    let of = |t: &Touched, off: i64| Some((i128::from(off) + i128::from(t.offset)) * BILLION);
    match (x.span.dims().is_empty(), y.span.dims().is_empty()) {
        (true, true) => (of(x, x.span.off()), of(y, y.span.off())),
        // Byte after byte of the same elements.
        _ if x.span == y.span => (of(x, 0), of(y, 0)),
        _ => (None, None),
    }
}

impl Touched<'_> {
    /// A range around the bytes from the engine's byte `lo` to before `hi`, of which there is one.
    fn bounds(&self, (lo, hi): (u64, u64)) -> (i128, i128) {
        let around = || self.span.bounds().map_or((0, 0), |(lo, hi)| (lo.into(), hi.into()));
        if !goes_up(self.span) {
            return around();
        }
        (byte_at(self.span, self.offset + lo), byte_at(self.span, self.offset + hi - 1) + 1)
    }
}

/// Whether later bytes of a region stand behind earlier ones.
fn goes_up(span: &Span) -> bool {
    let mut extent = i128::from(span.elem());
    span.dims().iter().rev().all(|dim| {
        let is_behind = dim.count == 1 || i128::from(dim.stride) >= extent;
        extent += i128::from(dim.stride) * i128::from(dim.count - 1);
        is_behind
    })
}
