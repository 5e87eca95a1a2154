//! Streams: queues of operations, and the order between them that the documentation gives.

use std::collections::VecDeque;

use crate::clock::{Clock, Lane};
use crate::code::Code;

use super::callback::{self, Callback};
use super::device::{handle_id, handle_of};
use super::op::{Op, Work};
use super::rule::Rule;
use super::state::State;
use super::{Engine, Needs, Session};

const STREAM: u64 = 0x5100_0000_0000;
/// The handle that names the legacy default stream aloud; 0 does so too.
const LEGACY: u64 = 1;
/// The handle of the calling thread's own default stream.
const PER_THREAD: u64 = 2;

/// A queue of operations.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: usize,
    /// Whether the legacy default stream and this one wait for each other.
    pub(crate) blocking: bool,
    pub(crate) lane: Lane,
    /// What is enqueued and did not run.
    pub(crate) queue: VecDeque<u64>,
    /// What its last operation knows.
    pub(crate) frontier: Clock,
    pub(crate) destroyed: bool,
    /// The seeded scheduler leaves it alone until this many calls were made.
    pub(crate) stalled_until: u64,
}

impl State {
    pub(crate) fn add_stream(&mut self, device: usize, blocking: bool, name: &str) -> usize {
        let lane = self.add_lane(name.to_owned());
        self.streams.push(Stream {
            device,
            blocking,
            lane,
            queue: VecDeque::new(),
            frontier: Clock::default(),
            destroyed: false,
            stalled_until: 0,
        });
        self.streams.len() - 1
    }

    /// The streams whose work an operation of `stream` comes after, itself included: the legacy default stream and the
    /// blocking streams of its device wait for each other.
    pub(crate) fn ordered_with(&self, stream: usize) -> Vec<usize> {
        let device = self.streams[stream].device;
        let legacy = self.devices[device].legacy;
        if stream == legacy {
            let of_device = |s: &Stream| s.device == device && (s.blocking || !Rule::NonBlocking.holds());
            (0..self.streams.len()).filter(|id| of_device(&self.streams[*id])).collect()
        } else if self.streams[stream].blocking {
            vec![stream, legacy]
        } else {
            vec![stream]
        }
    }
}

impl Session<'_> {
    /// The stream behind a handle, and that it may be used.
    pub(crate) fn stream(&mut self, handle: u64) -> Result<usize, Code> {
        let device = self.device;
        let stream = match handle {
            0 | LEGACY => self.devices[device].legacy,
            PER_THREAD => self.per_thread(device),
            _ => {
                let id = handle_id(handle, STREAM).filter(|id| *id < self.streams.len());
                id.filter(|id| !self.streams[*id].destroyed).ok_or(Code::INVALID_HANDLE)?
            }
        };
        self.healthy(self.streams[stream].device)?;
        Ok(stream)
    }

    fn per_thread(&mut self, device: usize) -> usize {
        let thread = self.thread;
        if let Some(stream) = self.thread(thread).per_thread.get(&device) {
            return *stream;
        }
        let stream =
            self.add_stream(device, true, &format!("default stream of {thread:?} on device {device}"));
        self.thread(thread).per_thread.insert(device, stream);
        self.trace_stream(stream, "per_thread");
        self.serve(stream);
        stream
    }

    /// Enqueues `work`: after everything before it in its stream, after what the host knows, after what the default
    /// stream's rule adds, and after the operation `also` with what that one knows.
    pub(crate) fn enqueue(&mut self, stream: usize, work: Work, also: Option<(u64, &Clock)>) -> u64 {
        let (thread, call) = (self.thread, self.call);
        let mut clock = Clock::default();
        if Rule::Enqueue.holds() {
            clock.join(&self.host(thread).clock);
        }
        let mut after = Vec::new();
        for id in self.ordered_with(stream) {
            let other = &self.streams[id];
            let rule = if id == stream { Rule::Fifo } else { Rule::Legacy };
            if rule.holds() {
                clock.join(&other.frontier);
            }
            after.extend(other.queue.back());
        }
        if let Some((op, known)) = also {
            if Rule::Event.holds() {
                clock.join(known);
            }
            after.push(op);
        }
        let id = self.next_op;
        self.next_op += 1;
        let target = &mut self.streams[stream];
        let (lane, device) = (target.lane, target.device);
        let seq = clock.tick(lane);
        target.frontier = clock.clone();
        target.queue.push_back(id);
        self.ops.insert(id, Op { id, stream, device, call, lane, seq, clock, after, work, started: false });
        self.activity_call(id);
        id
    }

    /// Waits for streams, and lets the calling thread know what they knew.
    pub(crate) fn join_streams(&mut self, streams: &[usize]) {
        let last: Vec<u64> = streams.iter().filter_map(|s| self.streams[*s].queue.back().copied()).collect();
        let mut known = Clock::default();
        for stream in streams {
            known.join(&self.streams[*stream].frontier);
        }
        self.run_until(&last);
        let thread = self.thread;
        if Rule::HostSync.holds() {
            self.host(thread).clock.join(&known);
        }
    }

    pub(crate) fn streams_of(&self, device: usize) -> Vec<usize> {
        let of_device = |s: &Stream| s.device == device || !Rule::DeviceSync.holds();
        (0..self.streams.len()).filter(|id| of_device(&self.streams[*id])).collect()
    }

    pub(crate) fn join_device(&mut self, device: usize) {
        self.join_streams(&self.streams_of(device));
    }

    /// Runs all of a device's work without telling the host.
    pub(crate) fn drain_device(&mut self, device: usize) {
        let streams = self.streams_of(device);
        let last: Vec<u64> = streams.iter().filter_map(|s| self.streams[*s].queue.back().copied()).collect();
        self.run_until(&last);
    }

    pub(crate) fn drain_all(&mut self) {
        let all: Vec<u64> = self.ops.keys().copied().collect();
        self.run_until(&all);
    }
}

impl Engine {
    pub(crate) fn stream_create(&self, call: &'static str, flags: u32) -> Result<u64, Code> {
        self.call(call, Needs::Context, |s| {
            if flags > 1 {
                return Err(Code::INVALID_VALUE);
            }
            let (device, id) = (s.device, s.streams.len());
            let stream = s.add_stream(device, flags == 0, &format!("stream {id} of device {device}"));
            let thread = s.thread;
            s.streams[stream].frontier = s.host(thread).clock.clone();
            s.trace_stream(stream, if flags == 0 { "blocking" } else { "nonblocking" });
            s.serve(stream);
            Ok(handle_of(stream, STREAM))
        })
    }

    pub(crate) fn stream_destroy(&self, handle: u64) -> Result<(), Code> {
        self.call("cuStreamDestroy_v2", Needs::Context, |s| {
            if handle <= PER_THREAD {
                return Err(Code::INVALID_HANDLE);
            }
            let stream = s.stream(handle)?;
            s.streams[stream].destroyed = true;
            Ok(())
        })
    }

    pub(crate) fn stream_synchronize(&self, handle: u64) -> Result<(), Code> {
        self.call("cuStreamSynchronize", Needs::Context, |s| {
            let stream = s.stream(handle)?;
            let streams = s.sync_scope(stream);
            s.trace_stream_sync(stream);
            s.join_streams(&streams);
            s.settle_pools(s.streams[stream].device);
            s.outcome(s.streams[stream].device)
        })
    }

    pub(crate) fn stream_query(&self, handle: u64) -> Result<(), Code> {
        self.call("cuStreamQuery", Needs::Context, |s| {
            let stream = s.stream(handle)?;
            let streams = s.sync_scope(stream);
            let last: Vec<u64> =
                streams.iter().filter_map(|s2| s.streams[*s2].queue.back().copied()).collect();
            if !s.poll(&last) {
                return Err(Code::NOT_READY);
            }
            // A host function that asks is told, and nobody is ordered by it.
            if callback::inside().is_some() {
                return s.outcome(s.streams[stream].device);
            }
            s.trace_stream_sync(stream);
            s.join_streams(&streams);
            s.settle_pools(s.streams[stream].device);
            s.outcome(s.streams[stream].device)
        })
    }

    pub(crate) fn launch_host(&self, handle: u64, callback: Callback) -> Result<(), Code> {
        self.call("cuLaunchHostFunc", Needs::Context, |s| {
            let stream = s.stream(handle)?;
            s.enqueue(stream, Work::Host { callback: Some(callback), returned: false }, None);
            s.trace_host_function(stream);
            Ok(())
        })
    }
}

impl Session<'_> {
    /// The streams that waiting for `stream` waits for: the legacy default stream brings the blocking ones.
    fn sync_scope(&self, stream: usize) -> Vec<usize> {
        let legacy = self.devices[self.streams[stream].device].legacy;
        if stream == legacy { self.ordered_with(stream) } else { vec![stream] }
    }
}
