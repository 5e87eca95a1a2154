//! Which streams and events take part in a capture, command by command.

use super::command::{EventId, Op, StreamId};
use crate::ordered::BTreeMap;

/// Who takes part in the captures that are open, by the stream that each began on.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    streams: BTreeMap<StreamId, StreamId>,
    events: BTreeMap<EventId, StreamId>,
}

impl Captured {
    /// Takes the next command of the list.
    pub(crate) fn step(&mut self, op: &Op) {
        match op {
            Op::CaptureBegin { stream } => _ = self.streams.insert(*stream, *stream),
            Op::Record { stream, event } => match self.streams.get(stream) {
                Some(&begun) => _ = self.events.insert(*event, begun),
                None => _ = self.events.remove(event),
            },
            Op::EventCreate { event } | Op::EventDestroy { event } => _ = self.events.remove(event),
            Op::Wait { stream, event } => {
                if let Some(&begun) = self.events.get(event) {
                    self.streams.entry(*stream).or_insert(begun);
                }
            }
            Op::CaptureEnd { stream, .. } => {
                self.streams.retain(|_, begun| begun != stream);
                self.events.retain(|_, begun| begun != stream);
            }
            _ => {}
        }
    }

    /// Who takes part in the capture that began on this stream.
    pub(crate) fn by(
        &self,
        begun: StreamId,
    ) -> (impl Iterator<Item = StreamId>, impl Iterator<Item = EventId>) {
        (
            self.streams.iter().filter(move |(_, of)| **of == begun).map(|(stream, _)| *stream),
            self.events.iter().filter(move |(_, of)| **of == begun).map(|(event, _)| *event),
        )
    }

    /// Whether a capture is open.
    pub(crate) fn is_any(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether a command is captured.
    pub(crate) fn has(&self, op: &Op) -> bool {
        op.stream().is_some_and(|stream| self.streams.contains_key(&stream))
    }
}
