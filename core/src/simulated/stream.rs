//! Streams and events.

use super::{Engine, EngineError, Shared};
use crate::program::{EventId, StreamId, StreamKind};

/// A queue of work of the simulated device, which does it in order.
#[derive(Debug, Clone)]
pub struct Stream {
    pub(super) shared: Shared,
    pub(super) id: StreamId,
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        self.shared.is(&other.shared).is_ok() && self.id == other.id
    }
}

impl Eq for Stream {}

impl Stream {
    /// A stream of this kind; [`StreamKind::Legacy`] and [`StreamKind::PerThread`] are the ones that are there already.
    pub fn new(engine: &Engine, kind: StreamKind) -> Stream {
        Stream::made(&engine.shared, kind)
    }

    pub(super) fn made(shared: &Shared, kind: StreamKind) -> Stream {
        let mut program = shared.program();
        let dev = shared.dev();
        let id = match kind {
            StreamKind::Legacy => program.legacy(dev),
            _ => {
                let name = program.names_mut().streams.unused("s");
                program.stream_of_kind(dev, &name, kind)
            }
        };
        drop(program);
        Stream { shared: shared.clone(), id }
    }

    /// Later work of the stream waits for what `event` holds. The host waits for nothing.
    ///
    /// # Errors
    /// The event is another engine's.
    pub fn wait(&self, event: &Event) -> Result<(), EngineError> {
        self.shared.is(&event.shared)?;
        self.shared.program().wait(self.id, event.id);
        Ok(())
    }

    /// The host waits for all work of the stream.
    ///
    /// # Errors
    /// None; a device's stream has some.
    pub fn synchronize(&self) -> Result<(), EngineError> {
        self.shared.program().sync(self.id);
        Ok(())
    }
}

/// A point in the work of a stream.
#[derive(Debug, Clone)]
pub struct Event {
    shared: Shared,
    id: EventId,
}

impl Event {
    /// The point behind all that the stream was given so far.
    ///
    /// # Errors
    /// None; a device has some.
    pub fn after(stream: &Stream) -> Result<Event, EngineError> {
        let id = stream.shared.program().event_after(stream.id);
        Ok(Event { shared: stream.shared.clone(), id })
    }

    /// The host waits until it is reached.
    ///
    /// # Errors
    /// None; a device has some.
    pub fn synchronize(&self) -> Result<(), EngineError> {
        self.shared.program().event_sync(self.id);
        Ok(())
    }
}
