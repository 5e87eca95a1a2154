//! Streams, events and captures: declared, not destroyed, and within the rules of captures.

use super::capture::{CaptureId, Held, MAX_CAPTURED, MAX_LAUNCHED, NotInCapture};
use super::{Check, GraphFacts, StreamFacts};
use crate::program::command::*;

impl Check<'_> {
    pub(super) fn declare_stream(&mut self, stream: StreamId, dev: u32, kind: StreamKind, thread: ThreadId) {
        let name = self.names.stream(stream);
        match self.facts.streams[stream.index()] {
            Some(StreamFacts { declared_at: None, .. }) => {
                return self
                    .say(format!("stream {name:?} is a legacy default stream and needs no declaration"));
            }
            Some(_) => return self.say(format!("stream {name:?} is declared twice")),
            None => {}
        }
        if kind == StreamKind::Legacy {
            self.say(format!(
                "stream {name:?} cannot be a legacy default stream, these are named \"0\" and \"0@N\""
            ));
        }
        self.device(dev);
        if self.threads[thread.index()].is_none() {
            let index = self.index;
            self.promised.push((index, thread));
        }
        self.facts.streams[stream.index()] =
            Some(StreamFacts { dev, kind, thread, declared_at: Some(self.index) });
    }

    pub(super) fn stream_is_there(&mut self, stream: StreamId) {
        let name = self.names.stream(stream);
        match self.facts.streams[stream.index()] {
            None => self.say(format!("stream {name:?} is not declared")),
            Some(facts) => self.facts.n_devices = self.facts.n_devices.max(facts.dev.saturating_add(1)),
        }
        if let Some(index) = self.destroyed_streams[stream.index()] {
            self.say(format!("stream {name:?} was destroyed by {}", self.at(index)));
        }
    }

    pub(super) fn destroy_stream(&mut self, stream: StreamId) {
        if self.kind(stream) == Some(StreamKind::Legacy) {
            self.say(format!("stream {:?} is a legacy default stream and stays", self.names.stream(stream)));
        } else {
            self.destroyed_streams[stream.index()] = Some(self.index);
        }
    }

    pub(super) fn kind(&self, stream: StreamId) -> Option<StreamKind> {
        self.facts.streams[stream.index()].map(|s| s.kind)
    }

    /// Whether an event can be used.
    pub(super) fn event_is_there(&mut self, event: EventId) -> bool {
        match self.events[event.index()].destroyed_at {
            Some(index) => {
                let name = self.names.event(event);
                self.say(format!(
                    "event handle destroyed: event {name:?} was destroyed by {}",
                    self.at(index)
                ));
                false
            }
            None => true,
        }
    }

    /// Work that a capture would record.
    pub(super) fn work(&mut self, stream: StreamId) {
        self.legacy_is_free(stream);
        if self.captures.work(stream) {
            self.say(format!("too much is captured: graphs hold at most {MAX_CAPTURED} commands in all"));
        }
    }

    pub(super) fn launch(&mut self, graph: GraphId, stream: StreamId) {
        let n_commands = self.graphs[graph.index()];
        if n_commands.is_none() {
            self.say(format!("graph {:?} is not captured", self.names.graph(graph)));
        }
        if let Some(capture) = self.captures.of(stream) {
            let (name, begin) = (self.names.stream(stream), self.at(capture.begun_at));
            self.say_of_capture(format!(
                "launch during capture: stream {name:?} captures since {begin}, and graphs within graphs are not modelled"
            ));
        }
        self.work(stream);
        if self.captures.launch(n_commands.unwrap_or(0)) {
            self.say(format!("too much is launched: graphs run at most {MAX_LAUNCHED} commands in all"));
        }
    }

    /// Every action on a legacy stream waits for blocking streams, which a capture among them forbids.
    pub(super) fn legacy_is_free(&mut self, stream: StreamId) {
        if self.kind(stream) != Some(StreamKind::Legacy) {
            return;
        }
        if let Some(capture) = self.captures.fencing() {
            let message = format!(
                "capture implicit: an action on legacy stream {:?} while stream {:?} captures since {}",
                self.names.stream(stream),
                self.names.stream(capture.origin),
                self.at(capture.begun_at),
            );
            self.say_of_capture(message);
        }
    }

    pub(super) fn wait(&mut self, stream: StreamId, event: EventId) {
        self.legacy_is_free(stream);
        if !self.event_is_there(event) {
            return;
        }
        let held = self.events[event.index()].held;
        if let Held::Captured(capture, _) = held
            && self.kind(stream) == Some(StreamKind::Legacy)
            && self.captures.get(capture).open
        {
            if self.captures.fencing().is_none() {
                self.say_of_capture(self.cannot_capture(stream));
            }
            return;
        }
        let index = self.index;
        if let Err(NotInCapture(capture)) = self.captures.wait(stream, held, index) {
            let event = self.names.event(event);
            self.outside(capture, stream, "wait", format!("event {event:?} was not recorded"));
        }
    }

    /// A call of a capturing stream asks for what its capture does not have.
    pub(super) fn outside(&mut self, capture: CaptureId, stream: StreamId, call: &str, lacks: String) {
        let (name, begin) = (self.names.stream(stream), self.at(self.captures.get(capture).begun_at));
        self.say_of_capture(format!(
            "{call} outside capture: stream {name:?} captures since {begin}, and {lacks} in that capture"
        ));
    }

    /// A host thread cannot wait for this device, nor ask: none of its captures may be open.
    pub(super) fn device_sync(&mut self, dev: u32) {
        self.device(dev);
        if let Some(capture) = self.captures.on_device(dev, false) {
            self.sync_during(capture, format!("of device {dev}"));
        }
    }

    /// Nor can it for what an open capture recorded, which does not run.
    pub(super) fn event_sync(&mut self, event: EventId) {
        if self.event_is_there(event)
            && let Held::Captured(capture, _) = self.events[event.index()].held
            && self.captures.get(capture).open
        {
            self.sync_during(capture, format!("of event {:?} recorded in it", self.names.event(event)));
        }
    }

    fn sync_during(&mut self, capture: CaptureId, of: String) {
        let capture = self.captures.get(capture);
        let (name, begin) = (self.names.stream(capture.origin), self.at(capture.begun_at));
        self.say_of_capture(format!(
            "sync during capture: {of}, while stream {name:?} captures since {begin}"
        ));
    }

    pub(super) fn stream_sync(&mut self, stream: StreamId) {
        if let Some(capture) = self.captures.of(stream) {
            let name = self.names.stream(stream);
            let message =
                format!("sync during capture: stream {name:?} captures since {}", self.at(capture.begun_at));
            self.say_of_capture(message);
        }
        // Whoever asks for the legacy stream asks for the blocking ones.
        if let Some(StreamFacts { dev, kind: StreamKind::Legacy, .. }) = self.facts.streams[stream.index()]
            && let Some(capture) = self.captures.on_device(dev, true)
        {
            self.sync_during(capture, format!("of legacy stream {:?}", self.names.stream(stream)));
        }
    }

    pub(super) fn capture_begin(&mut self, stream: StreamId) {
        let name = self.names.stream(stream);
        if let Some(capture) = self.captures.of(stream) {
            let message = format!("stream {name:?} captures already, since {}", self.at(capture.begun_at));
            return self.say_of_capture(message);
        }
        let kind = self.kind(stream);
        if kind == Some(StreamKind::Legacy) {
            self.say(self.cannot_capture(stream));
        }
        let fences_legacy = matches!(kind, Some(StreamKind::Blocking | StreamKind::PerThread));
        let dev = self.facts.streams[stream.index()].map_or(u32::MAX, |s| s.dev);
        let index = self.index;
        self.captures.begin(stream, dev, fences_legacy, index);
    }

    fn cannot_capture(&self, stream: StreamId) -> String {
        format!("capture of legacy stream: {:?} cannot capture", self.names.stream(stream))
    }

    pub(super) fn capture_end(&mut self, stream: StreamId, graph: GraphId) {
        let name = self.names.stream(stream);
        let n_commands = self.captures.of(stream).map_or(0, |capture| capture.n_commands);
        if self.graphs[graph.index()].replace(n_commands).is_some() {
            self.say(format!("graph {:?} is captured twice", self.names.graph(graph)));
        }
        let (origin, begun_at) = match self.captures.of(stream) {
            None => return self.say_of_capture(format!("stream {name:?} captures nothing that could end")),
            Some(capture) => (capture.origin, capture.begun_at),
        };
        if origin != stream {
            let (origin, begin) = (self.names.stream(origin), self.at(begun_at));
            return self.say_of_capture(format!(
                "the capture of {begin} ends on its stream {origin:?}, not on {name:?}"
            ));
        }
        for (branch, drawn_at) in self.captures.end(stream) {
            let (branch, drawn) = (self.names.stream(branch), self.at(drawn_at));
            self.say_of_capture(format!(
                "unjoined capture: stream {branch:?}, drawn in by {drawn}, never joined back to stream {name:?}"
            ));
        }
        self.facts.graphs[graph.index()] = Some(GraphFacts { origin, begun_at, ended_at: self.index });
    }
}
