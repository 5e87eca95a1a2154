//! When streams did what: as CUPTI records it, or else each piece of work stands between two events that note their time.
//!
//! A device has a clock of its own. One event for each device is recorded while its stream is idle, between two looks at the
//! host's clock; every other time is that event's plus what the driver says lies between the two. What lies between a
//! piece's own events is its length, together with whatever the stream waited for behind its first one.

use std::collections::VecDeque;

use spanlift::Nanos;
use spanlift::program::{Command, Op};

use super::super::error::CudaError;
use super::super::stream::{Event, Stream, Timing};
use super::Clock;
use super::activity::{Capture, Captured, OnHost};
use super::issue::{Issue, Refusal};

/// Looks at the clocks of which the closest is kept.
const LOOKS: usize = 5;
/// Pieces whose events are kept before they are asked: two events each.
const MOST_PENDING: usize = 4096;
/// Behind so many nanoseconds a later event is measured from: milliseconds in single precision are right to 60 ns until then.
const RENEWED: f64 = 1e9;

/// An event whose time by the host's clock is known.
struct Anchor {
    event: Event,
    /// Nanoseconds of the host's clock.
    at: f64,
}

/// Work between two events.
struct Between {
    index: usize,
    dev: usize,
    begun: Event,
    ended: Event,
}

/// A command's time by the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) index: usize,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
}

pub(super) struct Times {
    /// One for each device of the program.
    anchors: Vec<Anchor>,
    /// How far the clocks may be apart.
    within: Nanos,
    pending: VecDeque<Between>,
    /// Events of each device that are free again.
    spare: Vec<Vec<Event>>,
    measured: Vec<Measured>,
}

impl Times {
    /// Ready, with a stream of each device that nothing else uses.
    pub(super) fn new(streams: &[Stream], now: impl Fn() -> Nanos) -> Result<Times, CudaError> {
        let (mut anchors, mut within) = (Vec::new(), 0);
        for stream in streams {
            let mut best: Option<(i64, Anchor)> = None;
            for _ in 0..LOOKS {
                let event = Event::new(stream.context(), Timing::On)?;
                stream.synchronize()?;
                let before = now().0;
                event.record(stream)?;
                event.synchronize()?;
                let apart = (now().0 - before).max(0);
                if best.as_ref().is_none_or(|(least, _)| apart < *least) {
                    best = Some((apart, Anchor { event, at: float(before) + float(apart) / 2.0 }));
                }
            }
            if let Some((apart, anchor)) = best {
                within = within.max(apart / 2 + 1);
                anchors.push(anchor);
            }
        }
        let spare = streams.iter().map(|_| Vec::new()).collect();
        Ok(Times { anchors, within: Nanos(within), pending: VecDeque::new(), spare, measured: Vec::new() })
    }

    /// How far the clocks of a device and of the host may be apart.
    pub(super) fn within(&self) -> Nanos {
        self.within
    }

    /// Notes the time at which a stream of device `dev` comes here.
    pub(super) fn note(&mut self, dev: usize, stream: &Stream) -> Result<Event, CudaError> {
        let event = match self.spare[dev].pop() {
            Some(event) => event,
            None => Event::new(stream.context(), Timing::On)?,
        };
        event.record(stream)?;
        Ok(event)
    }

    /// Takes it that a command's work lies between the events.
    pub(super) fn work(
        &mut self,
        index: usize,
        dev: usize,
        begun: Event,
        ended: Event,
    ) -> Result<(), CudaError> {
        self.pending.push_back(Between { index, dev, begun, ended });
        if self.pending.len() > MOST_PENDING
            && let Some(oldest) = self.pending.pop_front()
        {
            oldest.ended.synchronize()?;
            self.measure(oldest)?;
        }
        Ok(())
    }

    fn measure(&mut self, timed: Between) -> Result<(), CudaError> {
        let Between { index, dev, begun, ended } = timed;
        let anchor = &mut self.anchors[dev];
        let start = anchor.at + begun.nanos_since(&anchor.event)?;
        let len = ended.nanos_since(&begun)?.max(0.0);
        self.measured.push(Measured { index, start: whole(start), end: whole(start + len) });
        self.spare[dev].push(ended);
        if start - anchor.at > RENEWED {
            *anchor = Anchor { event: begun, at: start };
        } else {
            self.spare[dev].push(begun);
        }
        Ok(())
    }

    /// All times in the order of the commands, once everything is done.
    pub(super) fn finish(mut self) -> Result<Vec<Measured>, CudaError> {
        while let Some(timed) = self.pending.pop_front() {
            self.measure(timed)?;
        }
        Ok(self.measured)
    }
}

/// Who knows the devices' own times.
pub(super) enum Timed {
    Events(Times),
    Capture(Capture),
}

impl Issue<'_> {
    /// Has the times of streams told by CUPTI, or else by events.
    pub(super) fn measure(&mut self) -> Result<(), CudaError> {
        if let Some(capture) = Capture::begin(|| self.recorder.now()) {
            self.times = Some(Timed::Capture(capture));
            return Ok(());
        }
        let streams = (0..self.devices.len()).map(|dev| self.aside(u32::try_from(dev).unwrap_or(0)));
        let streams = streams.collect::<Result<Vec<Stream>, _>>()?;
        self.times = Some(Timed::Events(Times::new(&streams, || self.recorder.now())?));
        Ok(())
    }

    /// Issues a command, and has it told when its work began and ended.
    pub(super) fn timed(&mut self, index: usize, command: &Command) -> Result<(), Refusal> {
        let of = command.op.stream().filter(|_| is_work(&command.op));
        let (Some(times), Some(stream)) = (&self.times, of) else { return self.call(index, command) };
        if let Timed::Capture(capture) = times {
            capture.push(index);
            self.call(index, command)?;
            if let Some(Timed::Capture(capture)) = &self.times {
                capture.pop();
            }
            return Ok(());
        }
        let (dev, stream) = (self.number(self.facts.stream(stream).dev), self.stream(stream)?);
        let begun = match &mut self.times {
            Some(Timed::Events(times)) => Some(times.note(dev, &stream)?),
            _ => None,
        };
        self.call(index, command)?;
        if let (Some(begun), Some(Timed::Events(times))) = (begun, &mut self.times) {
            let ended = times.note(dev, &stream)?;
            times.work(index, dev, begun, ended)?;
        }
        Ok(())
    }

    /// Lets a stream call a function of a command on the host, and has it told when that ran where no record tells it.
    pub(super) fn host_fn(
        &self,
        index: usize,
        stream: &Stream,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<(), CudaError> {
        match &self.times {
            Some(Timed::Capture(capture)) => {
                stream.host_fn(capture.witnessed(index, self.recorder.watch(), function))
            }
            _ => stream.host_fn(function),
        }
    }

    /// Puts the devices' own times into the trace.
    pub(super) fn tell_times(&mut self) -> Result<Clock, CudaError> {
        let mut apart = "";
        let clock = match self.times.take() {
            None => return Ok(Clock::Host),
            Some(Timed::Events(times)) => {
                let within = times.within();
                for Measured { index, start, end } in times.finish()? {
                    self.recorder.measured(self.program, self.facts, index, (start, end));
                }
                Clock::Events { within }
            }
            Some(Timed::Capture(capture)) => {
                let Captured { work, on_host, within, n_lost } = capture.end(|| self.recorder.now());
                let first = self.devices.first().map_or(0, |device| device.context.ordinal());
                for (index, seen) in work {
                    self.recorder.seen(self.program, self.facts, (index, first), &seen);
                }
                if !on_host.is_empty() {
                    apart = "; of host functions: the host's clock, noted as they ran";
                }
                for OnHost { start, end, index } in on_host {
                    self.recorder.host_function(self.program, self.facts, index, (start, end));
                }
                Clock::Cupti { within, n_lost }
            }
        };
        if !self.program.is_empty() {
            self.recorder.instant(0, Nanos::ZERO, &format!("times of streams: {clock}{apart}"));
        }
        Ok(clock)
    }
}

/// Whether a stream does something.
pub(super) fn is_work(op: &Op) -> bool {
    matches!(op, Op::Kernel(_) | Op::Copy(_) | Op::Memset { .. } | Op::HostFn { .. })
}

/// Whether a command calls the driver, and then whether it waits for work.
pub(super) fn calls(op: &Op) -> Option<bool> {
    match op {
        Op::EventSync { .. } | Op::StreamSync { .. } | Op::DeviceSync { .. } => Some(true),
        Op::EventQuery { ready, .. } | Op::StreamQuery { ready, .. } => Some(*ready),
        Op::Stream { .. } | Op::Alloc(_) | Op::Free { .. } | Op::Record { .. } | Op::Wait { .. } => {
            Some(false)
        }
        op => is_work(op).then_some(false),
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run: exact up to 104 days")]
fn float(nanos: i64) -> f64 {
    nanos as f64
}

#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn whole(nanos: f64) -> Nanos {
    Nanos(nanos.round() as i64)
}
