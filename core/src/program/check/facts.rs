//! What a well-formed program says of its streams, buffers and graphs, by id.

use crate::program::command::{AllocVia, BufferId, GraphId, Space, StreamId, StreamKind, ThreadId};

/// What is known of a stream from its declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFacts {
    /// Its device.
    pub dev: u32,
    /// How it stands to the legacy stream.
    pub kind: StreamKind,
    /// The host thread of a per-thread default stream, else `main`.
    pub thread: ThreadId,
    /// The declaring command; `None` for a legacy stream.
    pub declared_at: Option<usize>,
}

/// What is known of a buffer from its declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferFacts {
    /// Its size.
    pub bytes: i64,
    /// Where it lives.
    pub space: Space,
    /// The device whose memory it is.
    pub dev: u32,
    /// How it was allocated.
    pub via: AllocVia,
    /// The stream of its allocation, or its home stream.
    pub stream: Option<StreamId>,
    /// The physical block, named by the first buffer that had it: buffers with one block are the same bytes.
    pub block: BufferId,
    /// Size of the physical block.
    pub block_bytes: i64,
    /// The declaring command.
    pub declared_at: usize,
    /// The command that frees it, if any does.
    pub freed_at: Option<usize>,
}

/// What is known of a captured graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphFacts {
    /// The stream whose capture it is.
    pub origin: StreamId,
    /// The `capture_begin`.
    pub begun_at: usize,
    /// The `capture_end`.
    pub ended_at: usize,
}

/// Tables over a well-formed program, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub(super) streams: Vec<Option<StreamFacts>>,
    pub(super) buffers: Vec<Option<BufferFacts>>,
    pub(super) graphs: Vec<Option<GraphFacts>>,
    /// Largest device number that is mentioned, plus one; at least 1.
    pub n_devices: u32,
}

impl Facts {
    /// What is known of a stream.
    ///
    /// # Panics
    /// When the id comes from another program.
    pub fn stream(&self, id: StreamId) -> StreamFacts {
        self.streams[id.index()].unwrap_or_else(|| unreachable!("bug: an undeclared stream passed the check"))
    }

    /// What is known of a buffer.
    ///
    /// # Panics
    /// When the id comes from another program.
    pub fn buffer(&self, id: BufferId) -> BufferFacts {
        self.buffers[id.index()].unwrap_or_else(|| unreachable!("bug: an undeclared buffer passed the check"))
    }

    /// What is known of a captured graph.
    ///
    /// # Panics
    /// When the id comes from another program.
    pub fn graph(&self, id: GraphId) -> GraphFacts {
        self.graphs[id.index()].unwrap_or_else(|| unreachable!("bug: an undeclared graph passed the check"))
    }
}
