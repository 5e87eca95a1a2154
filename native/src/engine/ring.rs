//! The staged ring: threads that copy chunks through page-locked slots, each with a stream of its own.
//!
//! ```text
//! job     source, destination, the chunks that are left, what the caller's stream has been given so far
//! lane    its stream waits for that; then, until there are no chunks:
//!             take the next slot in turn            (waits for the copy that used it last: without it bytes are lost)
//!             copy a chunk of the source into it
//!             send it; record the slot's event
//!         record an event behind all of it
//! caller  returns when every chunk was taken from the source; its stream waits for those events
//! ```
//!
//! To the host the same goes backwards: a lane fetches into its slots ahead and drains them in turn.
//!
//! Chunks that are begun together are not to end together, or the link waits for the first of them and has all at once: their
//! sizes are a ramp at the end where only one of the two is busy, as [`Cut`] has it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use spanlift::Bytes;
use spanlift::advise::transfer::Cut;
use spanlift::program::StreamKind;

use crate::cuda::{Context, CudaError, DeviceBlock, Event, HostBlock, Recorder, Stream};

use super::copy::{Packing, Part, Queue, Stores, Workers, copy};
use super::device::Block;
use super::slot::{Planted, Slot};
use super::strips::Strips;
use super::{EngineError, journal};

/// Slots of each lane.
pub(super) const SLOTS: usize = spanlift::advise::transfer::SLOTS as usize;

/// Bytes of a chunk from which on it has left its core's own cache for the one that all cores share when the device reads it, by
/// what its thread fills next: there a device reads as fast as the link goes, and what is written past it crosses the memory
/// twice. Smaller chunks, and those that their thread fills last, lie changed in the core's own cache, where a device reads at half
/// the rate.
///
/// Beside an H100 on 16 cores with 2 MiB each, 1 GB by eight threads: through the cache 41 ms in chunks of 256 KiB, 27 of 512,
/// 22 of 1 MiB and 20 of 2 MiB; past it 27 to 34 ms in chunks of 2.7 MiB. 4 MB by four to eight threads: 210 us and 137. Beside an
/// H200 16 MiB through the cache, two chunks of 1 MiB a thread, took 575 to 589 us, 180 more than predicted.
const EVICTED: usize = 1 << 20;

/// How a chunk of `len` bytes is stored behind which `left` bytes are left for `n_lanes` threads.
fn stores(len: usize, left: usize, n_lanes: usize) -> Stores {
    let is_followed = len.saturating_mul(n_lanes) <= left;
    if EVICTED <= len && is_followed { Stores::Plain } else { Stores::Streaming }
}

/// What one thread has of a ring.
pub(super) struct Lane {
    pub(super) stream: Stream,
    slots: Vec<Slot>,
    next: usize,
}

/// The lanes of one direction.
pub(super) struct Ring {
    lanes: Vec<Mutex<Lane>>,
    /// Of the lanes: known without having one, which may take until a transfer of somebody else's is over.
    streams: Vec<Stream>,
    /// Bytes of a slot.
    slot: usize,
}

/// What a transfer tells its caller, and what it is told, while it runs.
#[derive(Clone, Copy, Default)]
pub struct Watch<'a> {
    /// Told the bytes that are done and the bytes in all, from any thread, at most once for each chunk.
    ///
    /// It stands in the middle of the transfer: transfers that it asks an engine for are refused, and it must not wait for a thread that
    /// waits for an engine. Threads are started for a large transfer that tells somebody, so that none of a pool's calls this.
    pub progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
    /// Set to stop: what is in flight is waited for, then the transfer ends with [`EngineError::Cancelled`], unless all bytes were told.
    pub cancel: Option<&'a AtomicBool>,
}

impl Watch<'_> {
    /// Whether the transfer is to stop.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    /// Tells how far it is.
    pub(super) fn tell(&self, done: usize, total: usize) {
        if let Some(progress) = self.progress {
            journal::telling(|| progress(done, total));
        }
    }
}

/// Transfers that are one to whoever watches.
pub(super) struct Several<'a> {
    watch: Watch<'a>,
    total: usize,
    /// Bytes of those that are done; while they are counted, nothing.
    done: Option<usize>,
}

impl<'a> Several<'a> {
    /// Of so many bytes in all.
    pub(super) fn of(watch: Watch<'a>, total: usize) -> Several<'a> {
        Several { watch, total, done: Some(0) }
    }

    /// Calls `transfers` to have their bytes counted, if somebody wants to know, and then to have them done.
    pub(super) fn counted(
        watch: Watch<'a>,
        mut transfers: impl FnMut(&mut Several<'a>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut several = Several { watch, total: 0, done: None };
        if watch.progress.is_some() {
            transfers(&mut several)?;
        }
        several.done = Some(0);
        transfers(&mut several)
    }

    /// One of them, of `n` bytes, which is watched as a part of all; nothing while they are counted.
    pub(super) fn part(
        &mut self,
        n: usize,
        transfer: impl FnOnce(Watch<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let (all, total) = (self.watch, self.total);
        let Some(before) = self.done else {
            self.total = total.saturating_add(n);
            return Ok(());
        };
        // Of a part without bytes there is nothing to be stopped.
        if n > 0 && all.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        let progress = |done: usize, of: usize| {
            if let Some(progress) = all.progress {
                // What lies between tensors comes along and is nobody's; until it has come, something is left.
                let own = if done < of { done.min(n.saturating_sub(1)) } else { n };
                progress(before.saturating_add(own), total);
            }
        };
        let is_told = all.progress.is_some();
        let own: &(dyn Fn(usize, usize) + Sync) = &progress;
        transfer(Watch { progress: is_told.then_some(own), cancel: all.cancel })?;
        self.done = Some(before.saturating_add(n));
        Ok(())
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// Where bytes for the device come from.
pub(super) enum Source<'a> {
    Bytes(&'a [u8]),
    Packed(&'a [&'a [u8]], &'a Packing),
    /// Strided bytes, from this byte of their block on.
    Strips(&'a Strips<'a>, i64),
    /// Read, not mapped: a mapped file that is cut short while it is read ends the process.
    File(&'a File),
}

impl Source<'_> {
    /// Fills `slot` with what lies from byte `at` on.
    pub(super) fn fill(&self, at: usize, slot: &mut [u8], stores: Stores) -> Result<(), EngineError> {
        match self {
            Source::Bytes(bytes) => copy(slot, &bytes[at..at + slot.len()], stores),
            Source::Packed(tensors, packing) => packing.gather(tensors, at, slot, stores),
            Source::Strips(strips, start) => {
                strips.fill(start + i64::try_from(at).map_err(|_| super::copy::TooLarge)?, slot);
            }
            Source::File(file) => read_at(file, at as u64, slot).map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => Error::new(error.kind(), "it was cut short while it was read"),
                _ => error,
            })?,
        }
        Ok(())
    }
}

#[cfg(unix)]
fn read_at(file: &File, at: u64, to: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, to, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut at: u64, mut to: &mut [u8]) -> std::io::Result<()> {
    while !to.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_read(file, to, at)?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        (at, to) = (at + n as u64, &mut to[n..]);
    }
    Ok(())
}

/// What a job's threads share.
struct Job<'a> {
    start: &'a Event,
    watch: Watch<'a>,
    total: usize,
    done: AtomicUsize,
    failed: Mutex<Option<EngineError>>,
    stop: AtomicBool,
}

impl<'a> Job<'a> {
    fn new(start: &'a Event, watch: Watch<'a>, total: usize) -> Job<'a> {
        let (done, failed, stop) = (AtomicUsize::new(0), Mutex::default(), AtomicBool::new(false));
        Job { start, watch, total, done, failed, stop }
    }

    /// The first error of the greatest weight is told.
    fn fail(&self, error: EngineError) {
        self.stop.store(true, Ordering::Release);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|first| first.weight() < error.weight()) {
            *failed = Some(error);
        }
    }

    /// Whether to go on, looked at before each chunk. Who stops it where it tells of all bytes has them.
    fn goes_on(&self) -> bool {
        if self.watch.is_cancelled() && self.done.load(Ordering::Relaxed) < self.total {
            self.fail(EngineError::Cancelled);
        }
        !self.stop.load(Ordering::Acquire)
    }

    fn advance(&self, n: usize) {
        let done = self.done.fetch_add(n, Ordering::Relaxed) + n;
        self.watch.tell(done, self.total);
    }

    fn result(self) -> Result<(), EngineError> {
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

impl Ring {
    /// Lanes with slots of `slot` bytes out of page-locked memory, and streams of their own.
    pub(super) fn new(
        context: &Context,
        lanes: usize,
        slot: usize,
        planted: Planted,
    ) -> Result<Ring, CudaError> {
        let (mut made, mut streams) = (Vec::with_capacity(lanes), Vec::with_capacity(lanes));
        for _ in 0..lanes {
            let stream = Stream::new(context, StreamKind::NonBlocking)?;
            let slots = Slot::cut(context, HostBlock::new(context, slot * SLOTS)?, SLOTS, planted)?;
            streams.push(stream.clone());
            made.push(Mutex::new(Lane { stream, slots, next: 0 }));
        }
        Ok(Ring { lanes: made, streams, slot })
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Bytes of a slot.
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    pub(super) fn stream(&self, k: usize) -> &Stream {
        &self.streams[k]
    }

    pub(super) fn lane(&self, k: usize) -> MutexGuard<'_, Lane> {
        self.lanes[k].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `n` bytes of `source` to byte `at` of a block, before what `caller` is given next. Tensors that are not to be gathered
    /// have chunks of their own.
    #[expect(clippy::too_many_arguments, reason = "what, from where, to where, in whose order, and how")]
    pub(super) fn up(
        &self,
        workers: &Workers,
        (n_lanes, chunk, is_gathered): (usize, usize, bool),
        source: &Source<'_>,
        (block, at): (&Block, usize),
        n: usize,
        caller: &Stream,
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        let starts = match source {
            Source::Packed(_, packing) if !is_gathered => packing.starts(),
            _ => &[0],
        };
        let cut = cut(chunk, n_lanes.min(self.lanes()));
        let n_lanes = n_lanes.min(chunks(starts, n, cut).take(n_lanes).count());
        let chunks = Queue::new(chunks(starts, n, cut));
        self.run(workers, n_lanes, (caller, block), watch, n, &|_, lane, job| {
            while job.goes_on() {
                let Some(Range { start, end }) = chunks.next() else { break };
                let len = end - start;
                let Lane { stream, .. } = lane;
                let stream = stream.clone();
                let slot = lane.slot()?;
                source.fill(start, slot.fill(len)?, stores(len, n - end, n_lanes))?;
                slot.send(&stream, (block.memory(), at + start), len)?;
                job.advance(len);
            }
            Ok(())
        })
    }

    /// Brings bytes from byte `at` of a block, after what `caller` was given, into pieces of host memory that lie `chunk`
    /// by `chunk` as the packing has them; returns when they are there.
    pub(super) fn down(
        &self,
        workers: &Workers,
        (n_lanes, chunk): (usize, usize),
        (block, at): (&Block, usize),
        (to, packing): (&mut [&mut [u8]], &Packing),
        caller: &Stream,
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        let n = packing.bytes();
        let n_lanes = n_lanes.min(self.lanes());
        // The link is what is first here, and the threads what is last.
        let mut starts: Vec<usize> =
            chunks(&[0], n, cut(chunk, n_lanes)).map(|chunk| n - chunk.end).collect();
        starts.reverse();
        let ends = starts.iter().skip(1).copied().chain([n]);
        let parts = packing.cut(to, &starts);
        let pieces = starts.iter().copied().zip(ends).zip(parts);
        let n_lanes = n_lanes.min(starts.len());
        let pieces = Shares::new(pieces, n_lanes);
        self.run(workers, n_lanes, (caller, block), watch, n, &|k, lane, job| {
            let mut ahead = VecDeque::new();
            let drain = |lane: &mut Lane, (slot, from, parts): (usize, Range<usize>, Vec<Part<'_>>)| {
                let bytes = lane.slots[slot].bytes(from.len())?;
                for part in parts {
                    let start = part.at - from.start;
                    copy(part.to, &bytes[start..start + part.to.len()], Stores::Plain);
                }
                job.advance(from.len());
                Ok::<(), EngineError>(())
            };
            while job.goes_on() {
                let Some(((from, end), parts)) = pieces.next(k, ahead.is_empty()) else {
                    // What others are to have may be left when this is done.
                    match ahead.pop_front() {
                        Some(oldest) => drain(lane, oldest)?,
                        None => break,
                    }
                    continue;
                };
                if ahead.len() == SLOTS
                    && let Some(oldest) = ahead.pop_front()
                {
                    drain(lane, oldest)?;
                }
                let stream = lane.stream.clone();
                let slot = lane.turn()?;
                lane.slots[slot].fetch(&stream, (block.memory(), at + from), end - from)?;
                ahead.push_back((slot, from..end, parts));
            }
            ahead.into_iter().try_for_each(|oldest| drain(lane, oldest))
        })
    }

    /// Runs `part` on lanes, which use `block`; their streams wait for what `caller` was given, and it waits for them.
    fn run(
        &self,
        workers: &Workers,
        n_lanes: usize,
        (caller, block): (&Stream, &Block),
        watch: Watch<'_>,
        total: usize,
        part: &(impl Fn(usize, &mut Lane, &Job<'_>) -> Result<(), EngineError> + Sync),
    ) -> Result<(), EngineError> {
        let n_lanes = n_lanes.clamp(1, self.lanes());
        let start = Event::after(caller)?;
        let job = Job::new(&start, watch, total);
        // Told to the recorder: threads begin after the caller's calls, and it goes on after theirs.
        let recorder = caller.context().recorder();
        let (before, after) = (recorder.map(Recorder::release), Mutex::new(Vec::new()));
        let ends = Mutex::new(Vec::new());
        let of_lane = |k: usize| {
            recorder.zip(before.as_ref()).iter().for_each(|(recorder, before)| recorder.acquire(before));
            let mut lane = self.lane(k);
            let ran = lane
                .stream
                .wait(job.start)
                .map_err(EngineError::from)
                .and_then(|()| part(k, &mut lane, &job));
            // Also after an error: what was sent is waited for.
            let ended = Event::after(&lane.stream)
                .map(|end| ends.lock().unwrap_or_else(PoisonError::into_inner).push(end));
            if let Err(error) = ran.and(ended.map_err(EngineError::from)) {
                job.fail(error);
            }
            after.lock().unwrap_or_else(PoisonError::into_inner).extend(recorder.map(Recorder::release));
        };
        let ran = panic::catch_unwind(AssertUnwindSafe(|| match watch.progress {
            Some(_) => workers.run_apart(n_lanes, &of_lane),
            None => workers.run(n_lanes, &of_lane),
        }));
        for released in after.into_inner().unwrap_or_else(PoisonError::into_inner) {
            recorder.iter().for_each(|recorder| recorder.acquire(&released));
        }
        for end in ends.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if let Err(error) = caller.wait(&end) {
                job.fail(error.into());
            }
        }
        if ran.is_err() {
            job.fail(EngineError::Panicked);
        }
        // Nothing of a transfer that failed is left running, so that its memory can go.
        job.result().map_err(|error| block.given_up(error, &self.streams[..n_lanes]))
    }
}

/// Chunks of at most so many bytes for so many threads.
fn cut(chunk: usize, n_lanes: usize) -> Cut {
    Cut::new(Bytes(chunk as u64), u32::try_from(n_lanes).unwrap_or(u32::MAX))
}

/// Stretches of `n` bytes from each start to the next, cut into chunks.
fn chunks(starts: &[usize], n: usize, cut: Cut) -> impl Iterator<Item = Range<usize>> {
    let (mut stretches, mut left, mut k) = (starts.iter().copied().peekable(), 0..0, 0);
    std::iter::from_fn(move || {
        while left.is_empty() {
            let start = stretches.next()?;
            left = start..stretches.peek().copied().unwrap_or(n);
        }
        let size = usize::try_from(cut.size(k)).unwrap_or(usize::MAX);
        let chunk = left.start..left.end.min(left.start.saturating_add(size));
        (left.start, k) = (chunk.end, k + 1);
        Some(chunk)
    })
}

/// Pieces of work that are dealt to lanes in turn, so that each has its own ahead; what nobody has begun goes to who is idle.
struct Shares<T>(Vec<Mutex<VecDeque<T>>>);

impl<T> Shares<T> {
    fn new(pieces: impl Iterator<Item = T>, n_lanes: usize) -> Shares<T> {
        let mut lanes: Vec<VecDeque<T>> = Vec::new();
        lanes.resize_with(n_lanes.max(1), VecDeque::new);
        pieces.enumerate().for_each(|(j, piece)| lanes[j % n_lanes.max(1)].push_back(piece));
        Shares(lanes.into_iter().map(Mutex::new).collect())
    }

    /// The next of lane `k`, or one of another's where it has none left and is idle.
    fn next(&self, k: usize, is_idle: bool) -> Option<T> {
        // Pieces are taken whole, so the others are as they were where a thread panicked.
        let of = |lane: &Mutex<VecDeque<T>>| lane.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        of(&self.0[k]).or_else(|| is_idle.then(|| self.0.iter().find_map(of)).flatten())
    }
}

impl Lane {
    /// The number of the slot whose turn it is.
    fn turn(&mut self) -> Result<usize, EngineError> {
        let k = self.next;
        self.slots[k].freshen(self.stream.context())?;
        self.next = (k + 1) % self.slots.len();
        Ok(k)
    }

    pub(super) fn slot(&mut self) -> Result<&mut Slot, EngineError> {
        let k = self.turn()?;
        Ok(&mut self.slots[k])
    }

    /// Sends bytes through one slot in the order of the caller's own stream: nobody has to wait for anybody.
    pub(super) fn inline(
        &mut self,
        source: &Source<'_>,
        to: (&DeviceBlock, usize),
        n: usize,
        caller: &Stream,
    ) -> Result<(), EngineError> {
        let slot = self.slot()?;
        source.fill(0, slot.fill(n)?, Stores::Streaming)?;
        slot.send(caller, to, n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_cut_one_after_the_other_along_one_ramp() {
        let sizes = |starts: &[usize], n| -> Vec<usize> {
            let mut at = 0;
            let lens = chunks(starts, n, cut(16 << 10, 4)).map(|chunk| {
                assert_eq!(std::mem::replace(&mut at, chunk.end), chunk.start);
                chunk.len()
            });
            let lens = lens.collect();
            assert_eq!(at, n);
            lens
        };
        assert_eq!(sizes(&[0], 50_000), [4096, 8192, 12_288, 16_384, 9_040]);
        // Two tensors, an empty one, and a third that is smaller than its chunk could be.
        assert_eq!(sizes(&[0, 5_000, 20_000, 20_000], 20_500), [4096, 904, 12_288, 2_712, 500]);
        assert_eq!(sizes(&[0], 0), [0; 0]);
        assert_eq!(sizes(&[0, 0, 0], 0), [0; 0]);
    }

    /// Each thread's last chunk goes past the cache, since nothing that it fills drives it out; small ones always do.
    #[test]
    fn what_nothing_drives_out_of_a_cache_is_stored_past_it() {
        let plain = |chunk: usize, n: usize, n_lanes: usize| {
            let ends = (chunk..=n).step_by(chunk);
            ends.filter(|end| stores(chunk, n - end, n_lanes) == Stores::Plain).count()
        };
        assert_eq!([plain(1 << 20, 16 << 20, 8), plain(1 << 20, 8 << 20, 8)], [8, 0]);
        assert_eq!([plain(4 << 20, 1 << 30, 12), plain(1 << 20, 3 << 20, 1)], [244, 2]);
        assert_eq!([plain(512 << 10, 1 << 30, 8), plain(1 << 20, 1 << 20, usize::MAX)], [0, 0]);
    }

    #[test]
    fn pieces_are_dealt_in_turn_and_those_left_go_to_who_is_idle() {
        let shares = Shares::new(0..8, 3);
        assert_eq!(
            [shares.next(1, false), shares.next(1, true), shares.next(1, false)],
            [Some(1), Some(4), Some(7)]
        );
        // Nothing of its own is left: others' only for who has nothing to do.
        assert_eq!(shares.next(1, false), None);
        assert_eq!([shares.next(1, true), shares.next(0, false)], [Some(0), Some(3)]);
        let rest: Vec<_> = std::iter::from_fn(|| shares.next(2, true)).collect();
        assert_eq!(rest, [2, 5, 6]);
        assert_eq!(shares.next(0, true), None);
    }
}
