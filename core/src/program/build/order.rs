//! Streams, events, host threads and captures: who waits for whom.

use super::fits;
use crate::id::Id;
use crate::program::Program;
use crate::program::command::*;
use crate::units::Nanos;

/// Streams and waiting for them.
///
/// ```
/// use spanlift::Program;
///
/// let mut p = Program::new();
/// let (copy, other) = (p.stream("copy"), p.stream_on(1, "other")); // non-blocking, on devices 0 and 1
/// let old = p.blocking_stream(0, "old"); // ordered against the default stream of device 0 ..
/// let default = p.legacy(0);             // .. which is always there
/// p.sync(copy);
/// p.sync(default);
/// p.device_sync(1);
/// assert_eq!(p.len(), 6);
/// # let _ = (other, old);
/// ```
impl Program {
    /// Declares a non-blocking stream of device 0.
    pub fn stream(&mut self, name: &str) -> StreamId {
        self.stream_on(0, name)
    }

    /// Declares a non-blocking stream of device `dev`.
    pub fn stream_on(&mut self, dev: u32, name: &str) -> StreamId {
        self.stream_of_kind(dev, name, StreamKind::NonBlocking)
    }

    /// Declares a stream of device `dev` that is ordered against its legacy stream.
    pub fn blocking_stream(&mut self, dev: u32, name: &str) -> StreamId {
        self.stream_of_kind(dev, name, StreamKind::Blocking)
    }

    /// Declares a stream of any declared kind; a per-thread one is that of `main`.
    pub fn stream_of_kind(&mut self, dev: u32, name: &str, kind: StreamKind) -> StreamId {
        let stream = self.stream_id(name);
        self.push(Op::Stream { stream, dev, kind, thread: Id::FIRST, priority: 0 });
        stream
    }

    /// Declares the per-thread default stream of a host thread.
    pub fn thread_stream(&mut self, dev: u32, name: &str, thread: ThreadId) -> StreamId {
        let stream = self.stream_id(name);
        self.push(Op::Stream { stream, dev, kind: StreamKind::PerThread, thread, priority: 0 });
        stream
    }

    /// The legacy default stream of device `dev`, which needs no declaration.
    pub fn legacy(&mut self, dev: u32) -> StreamId {
        if dev == 0 { self.stream_id("0") } else { self.stream_id(&format!("0@{dev}")) }
    }

    /// Destroys a stream; it waits for nothing.
    pub fn destroy_stream(&mut self, stream: StreamId) -> usize {
        self.push(Op::StreamDestroy { stream })
    }

    /// The calling thread waits for everything in `stream`.
    pub fn sync(&mut self, stream: StreamId) -> usize {
        self.push(Op::StreamSync { stream })
    }

    /// The calling thread asks whether `stream` is done, and was told `ready`.
    pub fn stream_query(&mut self, stream: StreamId, ready: bool) -> usize {
        self.push(Op::StreamQuery { stream, ready })
    }

    /// The calling thread waits for everything on device `dev`.
    pub fn device_sync(&mut self, dev: u32) -> usize {
        self.push(Op::DeviceSync { dev })
    }
}

/// Events.
///
/// ```
/// use spanlift::Program;
///
/// let mut p = Program::new();
/// let (copy, compute) = (p.stream("copy"), p.stream("compute"));
/// let ready = p.event_after(copy); // a new event, recorded on `copy`
/// p.wait(compute, ready);          // `compute` goes on once everything so far on `copy` is done
/// p.event_sync(ready);             // and so does the host
/// p.record(ready, compute);        // recorded anew: it holds what is on `compute` now
/// assert!(p.check().is_ok());
/// ```
impl Program {
    /// Creates an event.
    pub fn create_event(&mut self, name: &str) -> EventId {
        let event = self.event(name);
        self.push(Op::EventCreate { event });
        event
    }

    /// A new event that holds everything so far on `stream`.
    pub fn event_after(&mut self, stream: StreamId) -> EventId {
        let name = self.names_mut().events.unused("e");
        let event = self.event(&name);
        self.record(event, stream);
        event
    }

    /// Destroys an event.
    pub fn destroy_event(&mut self, event: EventId) -> usize {
        self.push(Op::EventDestroy { event })
    }

    /// Records what `stream` holds now into `event`.
    pub fn record(&mut self, event: EventId, stream: StreamId) -> usize {
        self.push(Op::Record { event, stream })
    }

    /// Lets later work of `stream` wait for what `event` holds now.
    pub fn wait(&mut self, stream: StreamId, event: EventId) -> usize {
        self.push(Op::Wait { stream, event })
    }

    /// The calling thread waits for what `event` holds now.
    pub fn event_sync(&mut self, event: EventId) -> usize {
        self.push(Op::EventSync { event })
    }

    /// The calling thread asks whether `event` has happened, and was told `ready`.
    pub fn event_query(&mut self, event: EventId, ready: bool) -> usize {
        self.push(Op::EventQuery { event, ready })
    }
}

/// Host threads, channels between them, and their time; see [`Program::by`] for whose calls are whose.
impl Program {
    /// Starts a host thread.
    pub fn spawn(&mut self, name: &str) -> ThreadId {
        let thread = fits(self.names_mut().threads.intern(name));
        self.push(Op::ThreadSpawn { thread });
        thread
    }

    /// Waits for the end of a host thread.
    pub fn join(&mut self, thread: ThreadId) -> usize {
        self.push(Op::ThreadJoin { thread })
    }

    /// Signals whoever awaits the channel from here on.
    pub fn signal(&mut self, channel: ChannelId) -> usize {
        self.push(Op::Signal { channel })
    }

    /// The calling thread goes on behind everything that the channel was signalled so far.
    pub fn await_signal(&mut self, channel: ChannelId) -> usize {
        self.push(Op::Await { channel })
    }

    /// The calling thread sleeps, whole microseconds (rounded up).
    pub fn sleep(&mut self, time: Nanos) -> usize {
        let micros = time.0.div_euclid(1000) + i64::from(time.0.rem_euclid(1000) != 0);
        self.push(Op::HostSleep { micros })
    }

    /// Time of the calling thread.
    pub fn host_work(&mut self, time: Nanos, label: &str) -> usize {
        self.push_labelled(Op::HostWork { time, cost: None }, Some(label))
    }

    /// Time of the calling thread as the machine has it.
    pub fn host_cost(&mut self, cost: HostCost) -> usize {
        self.push(Op::HostWork { time: Nanos::ZERO, cost: Some(cost) })
    }

    /// Notes the calling thread's time under a name.
    pub fn mark(&mut self, label: &str) -> usize {
        self.push_labelled(Op::Mark, Some(label))
    }
}

/// Captures of streams into graphs.
///
/// ```
/// use spanlift::{Program, mib};
///
/// let mut p = Program::new();
/// let s = p.stream("s");
/// let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
/// p.capture(s);
/// p.copy(d, x).on(s); // recorded, not run
/// let step = p.end_capture(s, "step");
/// p.launch(step, s);
/// p.launch(step, s);
/// assert!(p.check().is_ok());
/// ```
impl Program {
    /// Begins to record what is enqueued on `stream` instead of running it.
    pub fn capture(&mut self, stream: StreamId) -> usize {
        self.push(Op::CaptureBegin { stream })
    }

    /// Ends the capture of `stream` and names the graph.
    pub fn end_capture(&mut self, stream: StreamId, graph: &str) -> GraphId {
        let graph = self.graph(graph);
        self.push(Op::CaptureEnd { stream, graph });
        graph
    }

    /// Runs a captured graph on `stream`.
    pub fn launch(&mut self, graph: GraphId, stream: StreamId) -> usize {
        self.push(Op::GraphLaunch { graph, stream })
    }
}
