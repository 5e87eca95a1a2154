//! Captures of streams into graphs, as far as a program can get them wrong.
//!
//! What a capture records is kept as nodes that know what they come directly after. At its end, everything recorded must
//! lie before the origin stream's last node; walking back from there meets every node once.

use crate::ordered::{BTreeSet, CollectVec};
use crate::program::command::StreamId;
use crate::program::words::MAX_DEVICES;

/// Commands that all captures of a program may record: a graph keeps each of them as long as the program goes on.
pub(super) const MAX_CAPTURED: u64 = 1 << 20;

/// Captured commands that all launches of a program may run: each counts as often as it runs.
pub(super) const MAX_LAUNCHED: u64 = 1 << 24;

/// Position of a capture in the order in which they began.
pub(super) type CaptureId = usize;

/// A place in the recorded order.
type NodeId = usize;

#[derive(Debug)]
struct Node {
    /// One or two nodes that it comes directly after; a capture's first node has none.
    after: [Option<NodeId>; 2],
    stream: StreamId,
    /// It is work, or the place where a stream was drawn in; else only a knot where orders meet.
    counts: bool,
    /// It lies before the end of the origin stream.
    joined: bool,
}

#[derive(Debug)]
pub(super) struct Capture {
    pub(super) origin: StreamId,
    pub(super) begun_at: usize,
    pub(super) open: bool,
    /// The place of its origin's device.
    dev: usize,
    /// Every stream that takes part, with the command that drew it in.
    streams: Vec<(StreamId, usize)>,
    /// Commands recorded so far.
    pub(super) n_commands: u64,
}

/// What an event holds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Held {
    /// Nothing, or work that runs.
    #[default]
    NoCapture,
    /// A place in a capture.
    Captured(CaptureId, NodeId),
}

#[derive(Debug, Default)]
pub(super) struct Captures {
    captures: Vec<Capture>,
    nodes: Vec<Node>,
    /// The capture that each stream is in, and its last node there.
    of_stream: Vec<Option<(CaptureId, NodeId)>>,
    /// Open captures whose origin stands in order with the legacy stream.
    fencing: BTreeSet<CaptureId>,
    /// Open captures by their origin's device, the fencing ones first; at [`MAX_DEVICES`] those of none.
    on_device: Vec<BTreeSet<(bool, CaptureId)>>,
    /// Commands recorded by all captures.
    n_captured: u64,
    /// Captured commands run by all launches.
    n_launched: u64,
}

/// The place of a device in a list by device.
fn place(dev: u32) -> usize {
    usize::try_from(dev.min(MAX_DEVICES)).unwrap_or(0)
}

/// Why a stream cannot wait for an event.
pub(super) struct NotInCapture(pub(super) CaptureId);

impl Captures {
    /// Makes room for streams with these many names.
    pub(super) fn make_room(&mut self, n_streams: usize) {
        self.of_stream.resize(n_streams, None);
    }

    /// The capture that a stream is in.
    pub(super) fn of(&self, stream: StreamId) -> Option<&Capture> {
        self.id_of(stream).map(|capture| &self.captures[capture])
    }

    pub(super) fn id_of(&self, stream: StreamId) -> Option<CaptureId> {
        self.of_stream[stream.index()].map(|(capture, _)| capture)
    }

    /// An open capture that a sync of this device would break; `fencing`: one that a sync of its legacy stream would.
    pub(super) fn on_device(&self, dev: u32, fencing: bool) -> Option<CaptureId> {
        let &(is_apart, capture) = self.on_device.get(place(dev))?.first()?;
        (!fencing || !is_apart).then_some(capture)
    }

    pub(super) fn get(&self, capture: CaptureId) -> &Capture {
        &self.captures[capture]
    }

    /// An open capture that work on a legacy stream would break.
    pub(super) fn fencing(&self) -> Option<&Capture> {
        self.fencing.first().map(|&capture| &self.captures[capture])
    }

    fn node(&mut self, after: [Option<NodeId>; 2], stream: StreamId, counts: bool) -> NodeId {
        self.nodes.push(Node { after, stream, counts, joined: false });
        self.nodes.len() - 1
    }

    pub(super) fn begin(&mut self, origin: StreamId, dev: u32, fences_legacy: bool, index: usize) {
        let (dev, capture) = (place(dev), self.captures.len());
        self.on_device.resize_with(self.on_device.len().max(dev + 1), BTreeSet::new);
        self.on_device[dev].insert((!fences_legacy, capture));
        self.captures.push(Capture {
            origin,
            begun_at: index,
            open: true,
            dev,
            streams: vec![(origin, index)],
            n_commands: 0,
        });
        if fences_legacy {
            self.fencing.insert(capture);
        }
        let first = self.node([None; 2], origin, false);
        self.of_stream[origin.index()] = Some((capture, first));
    }

    /// Work enqueued on `stream`, which a capture records; says whether it is the first one too many.
    ///
    /// What is too many is not kept.
    pub(super) fn work(&mut self, stream: StreamId) -> bool {
        let Some((capture, last)) = self.of_stream[stream.index()] else { return false };
        self.n_captured += 1;
        self.captures[capture].n_commands += 1;
        if self.n_captured <= MAX_CAPTURED {
            let node = self.node([Some(last), None], stream, true);
            self.of_stream[stream.index()] = Some((capture, node));
        }
        self.n_captured == MAX_CAPTURED + 1
    }

    /// A launch of so many captured commands; says whether it is the first one too many.
    pub(super) fn launch(&mut self, n_commands: u64) -> bool {
        let was_room = self.n_launched <= MAX_LAUNCHED;
        self.n_launched += n_commands;
        was_room && MAX_LAUNCHED < self.n_launched
    }

    /// What an event holds after it is recorded on `stream`.
    pub(super) fn record(&self, stream: StreamId) -> Held {
        match self.of_stream[stream.index()] {
            Some((capture, last)) => Held::Captured(capture, last),
            None => Held::NoCapture,
        }
    }

    /// `stream` waits for an event; one that an open capture recorded draws it in.
    pub(super) fn wait(&mut self, stream: StreamId, held: Held, index: usize) -> Result<(), NotInCapture> {
        match (self.of_stream[stream.index()], held) {
            (Some((capture, last)), Held::Captured(other, node)) if capture == other => {
                let knot = self.node([Some(last), Some(node)], stream, false);
                self.of_stream[stream.index()] = Some((capture, knot));
            }
            (Some((capture, _)), _) => return Err(NotInCapture(capture)),
            (None, Held::Captured(capture, node)) if self.captures[capture].open => {
                let fork = self.node([Some(node), None], stream, true);
                self.of_stream[stream.index()] = Some((capture, fork));
                self.captures[capture].streams.push((stream, index));
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Ends the capture that `origin` is in; gives the streams that never joined back, each with the command that drew it
    /// in.
    pub(super) fn end(&mut self, origin: StreamId) -> Vec<(StreamId, usize)> {
        let Some((capture, last)) = self.of_stream[origin.index()] else { return Vec::new() };
        self.captures[capture].open = false;
        let fenced_legacy = self.fencing.remove(&capture);
        self.on_device[self.captures[capture].dev].remove(&(!fenced_legacy, capture));
        let mut stack = vec![last];
        while let Some(node) = stack.pop() {
            if !std::mem::replace(&mut self.nodes[node].joined, true) {
                stack.extend(self.nodes[node].after.into_iter().flatten());
            }
        }
        let streams = std::mem::take(&mut self.captures[capture].streams);
        let mut left = BTreeSet::new();
        for &(stream, _) in &streams {
            if let Some((_, last)) = self.of_stream[stream.index()].take() {
                stack.push(last);
            }
        }
        while let Some(node) = stack.pop() {
            let node = &mut self.nodes[node];
            if std::mem::replace(&mut node.joined, true) {
                continue;
            }
            if node.counts {
                left.insert(node.stream);
            }
            stack.extend(node.after.into_iter().flatten());
        }
        streams.into_iter().filter(|(stream, _)| left.contains(stream)).collect_vec()
    }
}
