//! CUPTI's records as pieces of work, read by their offsets, and a capture from its beginning to its end.
//!
//! Records only ever grow at their end, so that the places below hold for CUPTI 11.6 to 13. Offsets in bytes:
//!
//! | record | fields |
//! |---|---|
//! | memcpy, memcpy2 | copy kind 4, source kind 5, destination kind 6; bytes 8; start 16, end 24; device 32, stream 40; correlation 44 in memcpy, 60 in memcpy2, which is between devices |
//! | memset | bytes 8; start 16, end 24; device 32, stream 40, correlation 44 |
//! | kernel | start 16, end 24; device 40, stream 48, correlation 92, address of the name 104 |
//! | external correlation | external kind 4, external id 8, correlation 16 |
//!
//! What refers to a command of the program is told by external ids: each command's calls carry its index.
//!
//! Functions that a stream calls on the host have no records. Each is [wrapped](Capture::witnessed) in two looks at the host's
//! clock, which is the one that the records are brought to.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use spanlift::Nanos;
use spanlift::trace::{Kind, Slice};

use super::libraries::activities;
use crate::cpu::record::Seen;
use crate::driver::{Activities, RawRecord};

const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
/// Calls of the driver: external ids are recorded where they are.
const DRIVER: u32 = 4;
const KERNEL: u32 = 10;
const MEMCPY_BETWEEN: u32 = 22;
const EXTERNAL: u32 = 39;
/// What is asked for.
const KINDS: [u32; 6] = [MEMCPY, MEMSET, DRIVER, KERNEL, MEMCPY_BETWEEN, EXTERNAL];

/// Looks at both clocks of which the closest is kept.
const LOOKS: usize = 5;

/// What a record says.
#[derive(Debug, PartialEq)]
enum Activity {
    Work(Work),
    /// A call with this correlation belongs to this command.
    Command {
        index: usize,
        correlation: u32,
    },
    /// Something that nobody asked for.
    Other,
}

/// Work of a device, by CUPTI's clock.
#[derive(Debug, Clone, PartialEq)]
struct Work {
    kind: Kind,
    bytes: u64,
    flags: u8,
    start: u64,
    end: u64,
    device: u32,
    stream: u32,
    correlation: u32,
    name: Option<String>,
}

/// `None` for a record that ends too early or before it begins.
fn read(record: &RawRecord) -> Option<Activity> {
    let byte = |at: usize| record.bytes.get(at).copied();
    let (kind, bytes, flags) = match record.u32(0)? {
        MEMCPY | MEMCPY_BETWEEN => {
            // Unknown and array kinds too are copies in a direction that is not told.
            let kind = match byte(4)? {
                1 => Kind::ToDevice,
                2 => Kind::ToHost,
                8 => Kind::WithinDevice,
                10 => Kind::Peer,
                _ => Kind::OtherCopy,
            };
            let memory = |kind: u8| match kind {
                1 => Slice::PAGEABLE,
                2 => Slice::PINNED,
                _ => 0,
            };
            (kind, record.u64(8)?, memory(byte(5)?) | memory(byte(6)?))
        }
        MEMSET => (Kind::Memset, record.u64(8)?, 0),
        kind if RawRecord::KERNELS.contains(&kind) => (Kind::Kernel, 0, 0),
        EXTERNAL if record.u32(4)? == Activities::OURS => {
            let (id, correlation) = (record.u64(8)?, record.u32(16)?);
            return Some(
                usize::try_from(id).map_or(Activity::Other, |index| Activity::Command { index, correlation }),
            );
        }
        _ => return Some(Activity::Other),
    };
    let [device, stream, correlation] = match (kind, record.u32(0)?) {
        (Kind::Kernel, _) => [40, 48, 92],
        (_, MEMCPY_BETWEEN) => [32, 40, 60],
        _ => [32, 40, 44],
    };
    let (device, stream, correlation) = (record.u32(device)?, record.u32(stream)?, record.u32(correlation)?);
    let (start, end, name) = (record.u64(16)?, record.u64(24)?, record.name.clone());
    (start <= end).then_some(Activity::Work(Work {
        kind,
        bytes,
        flags,
        start,
        end,
        device,
        stream,
        correlation,
        name,
    }))
}

/// A moment by both clocks, and how far they may be apart.
#[derive(Debug, Clone, Copy)]
struct Moment {
    host: i64,
    cupti: u64,
    within: i64,
}

/// CUPTI records, from here to [`Capture::end`] or to the drop.
pub(super) struct Capture {
    activities: &'static Activities,
    first: Moment,
    is_over: bool,
    /// Commands whose index CUPTI did not take.
    n_unnamed: Cell<usize>,
    /// When functions ran on the host.
    on_host: Arc<Mutex<Vec<OnHost>>>,
    /// There is one capture at a time, as CUPTI has one subscriber.
    _alone: MutexGuard<'static, ()>,
}

/// When a command's function ran, by the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OnHost {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) index: usize,
}

/// What was captured: work with the command that it belongs to, if one is known.
#[derive(Debug)]
pub(super) struct Captured {
    pub(super) work: Vec<(Option<usize>, Seen)>,
    pub(super) on_host: Vec<OnHost>,
    pub(super) within: Nanos,
    /// Records that were lost or that are none.
    pub(super) n_lost: usize,
}

impl Capture {
    /// `None` where CUPTI is not there, refuses or is used by somebody else.
    pub(super) fn begin(now: impl Fn() -> Nanos) -> Option<Capture> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = taken(&ALONE)?;
        let activities = activities().ok()?;
        activities.begin(&KINDS).ok()?;
        let first = moment(activities, now);
        let at = first.unwrap_or(Moment { host: 0, cupti: 0, within: 0 });
        let (n_unnamed, on_host) = (Cell::new(0), Arc::default());
        let capture = Capture { activities, first: at, is_over: false, n_unnamed, on_host, _alone: alone };
        first.map(|_| capture)
    }

    /// A command's function with looks at the host's clock before and behind it, also where it panics.
    pub(super) fn witnessed<N, F>(
        &self,
        index: usize,
        now: N,
        function: F,
    ) -> impl FnOnce() + Send + 'static + use<N, F>
    where
        N: Fn() -> Nanos + Send + 'static,
        F: FnOnce() + Send + 'static,
    {
        let on_host = Arc::clone(&self.on_host);
        move || {
            let _witness = Witness { index, start: now(), now, on_host };
            function();
        }
    }

    /// Calls from here on belong to a command. Where CUPTI refuses, its work is not known as a command's; the run goes on.
    pub(super) fn push(&self, index: usize) {
        if self.activities.push(index as u64).is_err() {
            self.n_unnamed.set(self.n_unnamed.get().saturating_add(1));
        }
    }

    /// They do not any more.
    pub(super) fn pop(&self) {
        let _ = self.activities.pop();
    }

    /// What was recorded, once all work is done.
    pub(super) fn end(mut self, now: impl Fn() -> Nanos) -> Captured {
        let last = moment(self.activities, now);
        self.is_over = true;
        let records = self.activities.end(&KINDS);
        let clock = Clocks { first: self.first, last: last.unwrap_or(self.first) };
        let mut n_lost = records.n_lost.saturating_add(self.n_unnamed.get());
        let (mut commands, mut found) = (BTreeMap::new(), Vec::new());
        for record in &records.found {
            match read(record) {
                Some(Activity::Work(work)) if clock.holds(&work, last.is_some()) => found.push(work),
                Some(Activity::Command { index, correlation }) => _ = commands.insert(correlation, index),
                Some(Activity::Other) => {}
                Some(Activity::Work(_)) | None => n_lost = n_lost.saturating_add(1),
            }
        }
        // Records come back buffer by buffer, not in the order of time.
        found.sort_by_key(|work| (work.start, work.end));
        let seen = |work: Work| {
            let seen = Seen {
                kind: work.kind,
                bytes: work.bytes,
                flags: work.flags,
                start: clock.host(work.start),
                end: clock.host(work.end),
                device: work.device,
                stream: work.stream,
                name: work.name,
            };
            (commands.get(&work.correlation).copied(), seen)
        };
        let within = Nanos(clock.first.within.max(clock.last.within));
        let mut on_host = std::mem::take(&mut *self.on_host.lock().unwrap_or_else(PoisonError::into_inner));
        on_host.sort_unstable();
        Captured { work: found.into_iter().map(seen).collect(), on_host, within, n_lost }
    }
}

/// Notes when a function ended.
struct Witness<N: Fn() -> Nanos> {
    index: usize,
    start: Nanos,
    now: N,
    on_host: Arc<Mutex<Vec<OnHost>>>,
}

impl<N: Fn() -> Nanos> Drop for Witness<N> {
    fn drop(&mut self) {
        let Witness { index, start, .. } = *self;
        let seen = OnHost { start, end: (self.now)(), index };
        self.on_host.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    }
}

/// A lock that nobody has; somebody who panicked has it no more.
fn taken(alone: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    match alone.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(left)) => Some(left.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.is_over {
            // A command that failed left its index.
            let _ = self.activities.pop();
            let _ = self.activities.end(&KINDS);
        }
    }
}

fn moment(activities: &Activities, now: impl Fn() -> Nanos) -> Option<Moment> {
    let look = || {
        let before = now().0;
        let cupti = activities.now().ok()?;
        let apart = now().0.saturating_sub(before);
        Some(Moment { host: before.saturating_add(apart / 2), cupti, within: apart / 2 + 1 })
    };
    (0..LOOKS).filter_map(|_| look()).min_by_key(|moment| moment.within)
}

/// The host's clock from CUPTI's, by a moment before and one behind.
struct Clocks {
    first: Moment,
    last: Moment,
}

/// How far a record may lie outside of the capture that it is of, in nanoseconds: clocks of devices are brought to the
/// processor's now and then only.
const SLACK: u64 = 1_000_000_000;

impl Clocks {
    /// Whether work lies where the capture does. Zeros mean that there is no time, as CUPTI documents, and others may be left of
    /// a capture before.
    fn holds(&self, work: &Work, is_ended: bool) -> bool {
        let end = if is_ended { self.last.cupti.saturating_add(SLACK) } else { u64::MAX };
        work.end != 0 && self.first.cupti.saturating_sub(SLACK) <= work.start && work.end <= end
    }

    fn host(&self, cupti: u64) -> Nanos {
        let (a, b) = (self.first, self.last);
        let since = i128::from(cupti) - i128::from(a.cupti);
        let (ran, told) =
            (i128::from(b.cupti) - i128::from(a.cupti), i128::from(b.host) - i128::from(a.host));
        // Both count nanoseconds; what they drift apart by is spread over the run.
        let drift = if ran > 0 { since.saturating_mul(told - ran) / ran } else { 0 };
        let host = i128::from(a.host).saturating_add(since).saturating_add(drift);
        let host = host.clamp(i64::MIN.into(), i64::MAX.into());
        Nanos(i64::try_from(host).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &[(usize, &[u8])], len: usize) -> RawRecord {
        let mut bytes = vec![0; len];
        for (at, field) in fields {
            bytes[*at..at + field.len()].copy_from_slice(field);
        }
        RawRecord { bytes, name: None }
    }

    fn word(value: u32) -> [u8; 4] {
        value.to_le_bytes()
    }

    fn long(value: u64) -> [u8; 8] {
        value.to_le_bytes()
    }

    #[test]
    fn records_are_read_by_their_offsets() {
        let times: [(usize, &[u8]); 2] = [(16, &long(100)), (24, &long(250))];
        let copy = |kind: u32, copy: u8, correlation: usize| {
            let kind = word(kind);
            let kinds: [(usize, &[u8]); 4] = [(0, &kind), (4, &[copy]), (5, &[1]), (6, &[3])];
            let fields: [(usize, &[u8]); 4] =
                [(8, &long(4096)), (32, &word(1)), (40, &word(7)), (correlation, &word(99))];
            read(&record(&[&kinds[..], &fields[..], &times[..]].concat(), 88))
        };
        let work = |kind, bytes, flags| Work {
            kind,
            bytes,
            flags,
            start: 100,
            end: 250,
            device: 1,
            stream: 7,
            correlation: 99,
            name: None,
        };
        for (number, kind) in
            [(1, Kind::ToDevice), (2, Kind::ToHost), (8, Kind::WithinDevice), (77, Kind::OtherCopy)]
        {
            let expected = Activity::Work(work(kind, 4096, Slice::PAGEABLE));
            assert_eq!(copy(MEMCPY, number, 44), Some(expected));
        }
        assert_eq!(
            copy(MEMCPY_BETWEEN, 10, 60),
            Some(Activity::Work(work(Kind::Peer, 4096, Slice::PAGEABLE)))
        );
        let fields: [(usize, &[u8]); 4] =
            [(0, &word(KERNEL)), (40, &word(1)), (48, &word(7)), (92, &word(99))];
        let kernel = record(&[&fields[..], &times[..]].concat(), 112);
        assert_eq!(read(&kernel), Some(Activity::Work(work(Kind::Kernel, 0, 0))));
        let command = record(&[(0, &word(EXTERNAL)), (4, &word(3)), (8, &long(12)), (16, &word(5))], 24);
        assert_eq!(read(&command), Some(Activity::Command { index: 12, correlation: 5 }));
    }

    /// However short a record is and whatever is in it, it is read or refused.
    #[test]
    fn damaged_records_are_values() {
        for kind in [0, MEMCPY, MEMSET, 3, DRIVER, KERNEL, MEMCPY_BETWEEN, EXTERNAL, 1000, u32::MAX] {
            for fill in [0u8, 1, 0x7f, 0xff] {
                let whole = RawRecord { bytes: [&word(kind)[..], &[fill; 108]].concat(), name: None };
                for len in 0..=whole.bytes.len() {
                    let cut = RawRecord { bytes: whole.bytes[..len].to_vec(), name: None };
                    // What the whole record says, a part of it says too, or nothing.
                    assert!(read(&cut).is_none() || read(&cut) == read(&whole), "{kind}, {fill}, {len}");
                }
            }
        }
        let backwards = record(&[(0, &word(MEMSET)), (16, &long(9)), (24, &long(8))], 56);
        assert_eq!(read(&backwards), None);
    }

    /// No times, times of another capture, and times that no clock shows: none of them becomes a time of the trace.
    #[test]
    fn work_without_a_time_is_none_of_the_captures() {
        let at = |host, cupti| Moment { host, cupti, within: 1 };
        let clock = Clocks { first: at(0, 5 * SLACK), last: at(1, 6 * SLACK) };
        let is_held = |start, end, is_ended| {
            let fields: [(usize, &[u8]); 3] = [(0, &word(MEMSET)), (16, &long(start)), (24, &long(end))];
            let Some(Activity::Work(work)) = read(&record(&fields, 56)) else { panic!("{start}, {end}") };
            clock.holds(&work, is_ended)
        };
        assert!(is_held(5 * SLACK, 6 * SLACK, true) && is_held(4 * SLACK, 7 * SLACK, true));
        assert!(!is_held(0, 0, true) && !is_held(4 * SLACK - 1, 6 * SLACK, true));
        assert!(!is_held(5 * SLACK, 7 * SLACK + 1, true) && !is_held(5 * SLACK, u64::MAX, true));
        // Without a look at the end nobody knows when that was.
        assert!(is_held(5 * SLACK, 70 * SLACK, false) && !is_held(0, 0, false));
        // Also where a clock begins with 0.
        let young = Clocks { first: at(0, 0), last: at(1, SLACK) };
        let zero = record(&[(0, &word(MEMSET))], 56);
        let Some(Activity::Work(zero)) = read(&zero) else { panic!("a record of zeros is one") };
        assert!(!young.holds(&zero, true));
    }

    #[test]
    fn clocks_that_jump_are_numbers_all_the_same() {
        let at = |host, cupti| Moment { host, cupti, within: 1 };
        for (first, last) in [
            (at(0, 0), at(1, 1)),
            (at(i64::MIN, 0), at(i64::MAX, 1)),
            (at(i64::MAX, u64::MAX - 1), at(i64::MIN, u64::MAX)),
            (at(0, u64::MAX), at(i64::MAX, 0)),
        ] {
            let clock = Clocks { first, last };
            for cupti in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
                let told = clock.host(cupti);
                assert!(cupti != first.cupti || told.0 == first.host, "{first:?}, {last:?}: {told}");
            }
        }
    }

    /// A run that panicked leaves the next one its capture.
    #[test]
    fn a_panic_does_not_keep_the_capture_for_ever() {
        let alone = Mutex::new(());
        let guard = taken(&alone);
        assert!(guard.is_some() && taken(&alone).is_none());
        drop(guard);
        let panicked = std::thread::scope(|scope| {
            let holds = || {
                let _guard = taken(&alone);
                panic!("in the middle of a run");
            };
            scope.spawn(holds).join().is_err()
        });
        assert!(panicked && alone.is_poisoned() && taken(&alone).is_some());
    }

    #[test]
    fn clocks_that_drift_are_brought_together() {
        let at = |host, cupti| Moment { host, cupti, within: 1 };
        let clock = Clocks { first: at(0, 1000), last: at(2_000_000, 1000 + 1_000_000) };
        assert_eq!([1000, 501_000, 1_001_000].map(|t| clock.host(t).0), [0, 1_000_000, 2_000_000]);
        // Without a second moment, or with one that lies before: nanosecond for nanosecond.
        let still = Clocks { first: at(5, 1000), last: at(5, 1000) };
        assert_eq!([0, 1000, u64::MAX].map(|t| still.host(t).0), [-995, 5, i64::MAX]);
    }
}
