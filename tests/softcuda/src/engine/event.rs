//! Events: each record is a version, and a wait takes the version that was there when it was called.

use crate::clock::Clock;
use crate::code::Code;

use super::device::{handle_id, handle_of};
use super::op::Work;
use super::rule::Rule;
use super::{Engine, Needs, Session};

const EVENT: u64 = 0x5200_0000_0000;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// The latest record of an event.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    op: u64,
    stream: usize,
    clock: Clock,
    /// Tells it from earlier records.
    number: u64,
    /// When it ran.
    at: Option<u64>,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: usize,
    timed: bool,
    record: Option<Record>,
    pub(crate) destroyed: bool,
}

impl Event {
    /// Notes when a record ran, unless it was replaced meanwhile.
    pub(crate) fn ran(&mut self, number: u64, now: u64) {
        if let Some(record) = self.record.as_mut().filter(|r| r.number == number) {
            record.at = Some(now);
        }
    }
}

impl Session<'_> {
    fn event(&self, handle: u64) -> Result<usize, Code> {
        let id = handle_id(handle, EVENT).filter(|id| *id < self.events.len());
        let id = id.filter(|id| !self.events[*id].destroyed).ok_or(Code::INVALID_HANDLE)?;
        self.healthy(self.events[id].device)?;
        Ok(id)
    }

    fn known(&mut self, record: &Record) -> Result<(), Code> {
        let thread = self.thread;
        if Rule::EventSync.holds() {
            self.host(thread).clock.join(&record.clock);
        } else {
            let all = self.streams[record.stream].frontier.clone();
            self.host(thread).clock.join(&all);
        }
        self.outcome(self.streams[record.stream].device)
    }
}

impl Engine {
    pub(crate) fn event_create(&self, flags: u32) -> Result<u64, Code> {
        self.call("cuEventCreate", Needs::Context, |s| {
            if flags > 7 || (flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0) {
                return Err(Code::INVALID_VALUE);
            }
            let (device, timed) = (s.device, flags & DISABLE_TIMING == 0);
            s.events.push(super::event::Event { device, timed, record: None, destroyed: false });
            Ok(handle_of(s.events.len() - 1, EVENT))
        })
    }

    pub(crate) fn event_destroy(&self, handle: u64) -> Result<(), Code> {
        self.call("cuEventDestroy_v2", Needs::Context, |s| {
            let event = s.event(handle)?;
            s.events[event].destroyed = true;
            Ok(())
        })
    }

    pub(crate) fn event_record(&self, handle: u64, stream: u64) -> Result<(), Code> {
        self.call("cuEventRecord", Needs::Context, |s| {
            let event = s.event(handle)?;
            let stream = s.stream(stream)?;
            if s.events[event].device != s.streams[stream].device {
                return Err(Code::INVALID_HANDLE);
            }
            let number = s.next_op;
            let op = s.enqueue(stream, Work::Record { event, number }, None);
            s.trace_event("record", event, stream);
            let clock = s.streams[stream].frontier.clone();
            s.events[event].record = Some(Record { op, stream, clock, number, at: None });
            Ok(())
        })
    }

    pub(crate) fn stream_wait(&self, stream: u64, handle: u64, flags: u32) -> Result<(), Code> {
        self.call("cuStreamWaitEvent", Needs::Context, |s| {
            if flags > 1 {
                return Err(Code::INVALID_VALUE);
            }
            let stream = s.stream(stream)?;
            let event = s.event(handle)?;
            s.trace_event("wait", event, stream);
            // For nothing: then nothing is put on the stream, and even the legacy one fences nobody.
            let Some(mut record) = s.events[event].record.clone() else { return Ok(()) };
            if !Rule::Version.holds() {
                record.clock = s.streams[record.stream].frontier.clone();
            }
            s.enqueue(stream, Work::Wait, Some((record.op, &record.clock)));
            Ok(())
        })
    }

    pub(crate) fn event_synchronize(&self, handle: u64) -> Result<(), Code> {
        self.call("cuEventSynchronize", Needs::Context, |s| {
            let event = s.event(handle)?;
            let Some(record) = s.events[event].record.clone() else { return Ok(()) };
            s.trace_event_sync(event);
            s.run_until(&[record.op]);
            s.settle_pools(s.events[event].device);
            s.known(&record)
        })
    }

    pub(crate) fn event_query(&self, handle: u64) -> Result<(), Code> {
        self.call("cuEventQuery", Needs::Context, |s| {
            let event = s.event(handle)?;
            let Some(record) = s.events[event].record.clone() else { return Ok(()) };
            if !s.poll(&[record.op]) {
                return Err(Code::NOT_READY);
            }
            s.trace_event_sync(event);
            s.known(&record)
        })
    }

    /// Milliseconds between two records: a count of operations, which says nothing about time.
    pub(crate) fn event_elapsed(&self, start: u64, end: u64) -> Result<f32, Code> {
        self.call("cuEventElapsedTime", Needs::Context, |s| {
            let (start, end) = (s.event(start)?, s.event(end)?);
            let (start, end) = (&s.events[start], &s.events[end]);
            if !start.timed || !end.timed || start.device != end.device {
                return Err(Code::INVALID_HANDLE);
            }
            let (Some(start), Some(end)) = (&start.record, &end.record) else {
                return Err(Code::INVALID_HANDLE);
            };
            let (Some(start), Some(end)) = (start.at, end.at) else { return Err(Code::NOT_READY) };
            #[expect(clippy::cast_precision_loss, reason = "a made-up duration")]
            Ok((end as f32 - start as f32) / 1000.0)
        })
    }
}
