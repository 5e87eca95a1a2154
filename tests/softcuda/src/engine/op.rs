//! Operations: what was enqueued and did not run yet.

use std::sync::Arc;

use crate::clock::{Clock, Lane};
use crate::kernel::{Kernel, Shape};

use super::callback::Callback;
use super::race::Touch;

/// Where the bytes of a copy are.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In the address range of a device.
    Device(u64),
    /// In pinned or registered host memory.
    Pinned(u64),
    /// In host memory that the driver knows nothing of.
    Pageable(u64),
    /// Read already.
    Staged(Vec<u8>),
}

impl Place {
    /// Its first address, where the driver keeps a history for it.
    pub(crate) fn address(&self) -> Option<u64> {
        match self {
            Place::Device(at) | Place::Pinned(at) | Place::Pageable(at) => Some(*at),
            Place::Staged(_) => None,
        }
    }
}

/// What an operation does when it runs.
#[derive(Debug)]
pub(crate) enum Work {
    Copy {
        from: Place,
        to: Place,
        len: u64,
        sum: Option<u64>,
    },
    Fill {
        to: Place,
        len: u64,
        byte: u8,
    },
    Record {
        event: usize,
        number: u64,
    },
    Wait,
    Host {
        callback: Option<Callback>,
        returned: bool,
    },
    Alloc {
        block: u64,
    },
    Free {
        block: u64,
    },
    Launch {
        kernel: Arc<Kernel>,
        shape: Shape,
        args: Vec<u8>,
    },
    /// Touches ranges and nothing else.
    #[cfg(test)]
    Touch {
        spans: Vec<Span>,
    },
}

/// One range that an operation touches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) touch: Touch,
}

impl Work {
    /// The kind by which faults and counts name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Work::Copy { .. } => "copy",
            Work::Fill { .. } => "memset",
            Work::Record { .. } => "record",
            Work::Wait => "wait",
            Work::Host { .. } => "host",
            Work::Alloc { .. } => "alloc",
            Work::Free { .. } => "free",
            Work::Launch { .. } => "kernel",
            #[cfg(test)]
            Work::Touch { .. } => "kernel",
        }
    }

    /// The ranges that it is known to touch before it runs.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let span = |place: &Place, len: u64, touch| {
            place.address().filter(|_| len > 0).map(|start| Span {
                start,
                end: start.saturating_add(len),
                touch,
            })
        };
        match self {
            Work::Copy { from, to, len, .. } => {
                [span(from, *len, Touch::Read), span(to, *len, Touch::Write)].into_iter().flatten().collect()
            }
            Work::Fill { to, len, .. } => span(to, *len, Touch::Write).into_iter().collect(),
            #[cfg(test)]
            Work::Touch { spans } => spans.clone(),
            // A kernel's ranges are known when it ran.
            _ => Vec::new(),
        }
    }
}

/// Something enqueued.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) id: u64,
    pub(crate) stream: usize,
    pub(crate) device: usize,
    pub(crate) call: &'static str,
    pub(crate) lane: Lane,
    pub(crate) seq: u32,
    /// Everything that the documented order puts before it, itself included.
    pub(crate) clock: Clock,
    /// Operations that must have run.
    pub(crate) after: Vec<u64>,
    pub(crate) work: Work,
    pub(crate) started: bool,
}
