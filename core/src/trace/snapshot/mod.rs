//! PyTorch memory snapshots: what the caching allocator holds, and how it came to that.
//!
//! A snapshot is a pickle of plain values; it is read by a machine that can build nothing else. The last state is exact
//! (`segments` and their `blocks`); the trace of each device is the tail of what happened, so that earlier states are
//! found by going backwards from the end.
//!
//! **Invariant:** stacks and frames that the file shares stay shared: events refer to stacks by index.
//!
//! Who held most when most was held, by the innermost line of the stack that asked for it:
//!
//! ```
//! # let bytes: &[u8] = b"\x80\x02}(X\x08\x00\x00\x00segments]X\r\x00\x00\x00device_traces]]au.";
//! use spanlift::trace::snapshot::Snapshot;
//! use std::collections::BTreeMap;
//!
//! let snapshot = Snapshot::read(bytes)?;
//! let peak = snapshot.history(0, |_, _| ()).peak_before_event;
//! let past = snapshot.past(0);
//! let mut by_line = BTreeMap::new();
//! for block in past.at(peak).blocks() {
//!     let frame = snapshot.stacks.get(block.stack).first().map(|&frame| &snapshot.stacks.frames[frame as usize]);
//!     let line = frame.map(|frame| (snapshot.strings.get(frame.filename), frame.line));
//!     *by_line.entry(line).or_insert(0) += block.size; // bytes; `None` where the trace does not tell who asked
//! }
//! # assert!(by_line.is_empty());
//! # Ok::<(), spanlift::trace::snapshot::ReadError>(())
//! ```

use std::fmt;

mod build;
mod figures;
mod history;
mod past;
mod pickle;

use std::ops::Range;

pub use figures::{DeviceFigures, Figures};
pub use history::{Alive, History};
pub use past::{Held, Life, Moment, Past};

use super::{StrId, Strings};

/// Why bytes could not be read as a memory snapshot.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The pickle is broken, or has what no snapshot has.
    Pickle {
        /// Where in the file.
        offset: usize,
        /// What was found or missing there.
        message: String,
    },
    /// The pickle's values are no snapshot.
    Form {
        /// Where in the file the container was made that was looked at last: the value itself, or what is around it.
        offset: usize,
        /// Which of the values: `device_traces[0] event 17`.
        place: String,
        /// What is wrong with it.
        message: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Pickle { offset, message } => write!(f, "byte {offset}: {message}"),
            ReadError::Form { offset, place, message } => write!(f, "byte {offset}: {place}: {message}"),
        }
    }
}

crate::error::told!(ReadError);

/// A memory snapshot.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Length of the file.
    pub n_bytes: u64,
    /// The pickle's protocol.
    pub protocol: u8,
    /// What the snapshot has, in the order of the file.
    pub keys: Vec<String>,
    /// Actions, states, names of files and functions.
    pub strings: Strings,
    /// Memory that the allocator holds.
    pub segments: Vec<Segment>,
    /// The parts of all segments, segment by segment.
    pub blocks: Vec<Block>,
    /// What happened, by device.
    pub traces: Vec<Vec<Event>>,
    /// Stacks that segments, blocks and events refer to.
    pub stacks: Stacks,
    /// What a person marked.
    pub annotations: Vec<Annotation>,
    /// Events that are no allocation but end in an error or a mark, and other oddities, by name.
    pub problems: crate::ordered::BTreeMap<&'static str, u64>,
}

/// Memory that the allocator got from the driver in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the file")]
pub struct Segment {
    pub device: i64,
    pub address: i64,
    pub total_size: i64,
    pub allocated_size: i64,
    pub active_size: i64,
    pub requested_size: i64,
    pub stream: i64,
    /// `small` or `large`.
    pub segment_type: StrId,
    /// Indices of its blocks, in the order of their addresses.
    pub blocks: Range<usize>,
    /// Where it was got.
    pub stack: u32,
}

/// A part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the file")]
pub struct Block {
    /// Older files lack it: then blocks follow each other.
    pub address: Option<i64>,
    pub size: i64,
    pub requested_size: i64,
    /// `active_allocated`, `active_awaiting_free`, `active_pending_free` or `inactive`.
    pub state: StrId,
    /// Where it was allocated.
    pub stack: u32,
}

/// One thing that the allocator did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the file")]
pub struct Event {
    /// `alloc`, `free_requested`, `free_completed`, `segment_alloc`, `segment_free`, `segment_map`, `segment_unmap`,
    /// `snapshot`, `oom`.
    pub action: StrId,
    pub addr: i64,
    pub size: i64,
    pub stream: i64,
    /// Older files lack it.
    pub time_us: Option<i64>,
    /// Index of its stack.
    pub stack: u32,
}

/// Something that a person marked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the file")]
pub struct Annotation {
    pub stage: StrId,
    pub name: StrId,
    pub device: i64,
    pub time_us: i64,
}

/// A line of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are those of the file")]
pub struct Frame {
    pub filename: StrId,
    /// Below 1 where the frame is on no line that is known.
    pub line: i64,
    pub name: StrId,
}

/// Stacks, each once; stack 0 is the empty one.
#[derive(Debug, Clone)]
pub struct Stacks {
    /// Every frame that is different.
    pub frames: Vec<Frame>,
    /// The frames of all stacks.
    refs: Vec<u32>,
    /// Where each stack ends in `refs`.
    ends: Vec<usize>,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks { frames: Vec::new(), refs: Vec::new(), ends: vec![0] }
    }
}

impl Stacks {
    /// How many stacks there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none but the empty one.
    pub fn is_empty(&self) -> bool {
        self.ends.len() == 1
    }

    /// The frames of a stack by index, innermost first.
    ///
    /// # Panics
    /// When there is no such stack.
    pub fn get(&self, stack: u32) -> &[u32] {
        let stack = stack as usize;
        let begin = stack.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.refs[begin..self.ends[stack]]
    }
}

impl Snapshot {
    /// Reads a memory snapshot: a pickle of a protocol up to 5.
    ///
    /// Nothing is executed: opcodes that name or call something end the reading.
    ///
    /// # Errors
    /// [`ReadError`] with the byte of the file or the event.
    ///
    /// # Cost
    /// Linear in the file, in time and memory.
    /// # Examples
    /// ```
    /// use spanlift::trace::snapshot::Snapshot;
    ///
    /// // {"segments": [], "device_traces": [[]]}, as Python's pickle writes it.
    /// let file = b"\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces](]eu.";
    /// let snapshot = Snapshot::read(file)?;
    /// assert_eq!((snapshot.protocol, snapshot.segments.len(), snapshot.traces.len()), (2, 0, 1));
    /// assert!(Snapshot::read(b"\x80\x02c__main__\nboom\n.").is_err()); // nothing of a file is run
    /// # Ok::<(), spanlift::trace::snapshot::ReadError>(())
    /// ```
    pub fn read(bytes: &[u8]) -> Result<Snapshot, ReadError> {
        build::snapshot(bytes).map_err(|error| match error {
            // Opcodes are letters too: what the first of a text would stand for tells nobody that the file is none.
            ReadError::Pickle { .. } if !Snapshot::is_pickle(bytes) => {
                let message = match bytes {
                    [] => "the file is empty",
                    [0x1f, 0x8b, ..] => "this is gzip data, which has to be unpacked first",
                    _ => "this is no pickle of protocol 2 or later, which begins with the byte 0x80",
                };
                ReadError::Pickle { offset: 0, message: message.to_owned() }
            }
            error => error,
        })
    }

    /// Whether a file is a pickle of protocol 2 or later, by its first byte, which begins no text.
    pub fn is_pickle(head: &[u8]) -> bool {
        matches!(head, [0x80, ..])
    }

    /// The blocks of a segment with their addresses.
    pub fn placed<'a>(&'a self, segment: &'a Segment) -> impl Iterator<Item = (i64, &'a Block)> {
        // Sizes are checked when the snapshot is read, so that this sum fits.
        let mut next = segment.address;
        self.blocks[segment.blocks.clone()].iter().map(move |block| {
            let at = next;
            next = next.saturating_add(block.size);
            (at, block)
        })
    }
}
