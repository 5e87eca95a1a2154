//! Whether a program is well formed, with all problems at once.
//!
//! Safety is not asked here: a race is no problem of form.

use super::command::{Alloc, AllocVia, BufferId, Copy, Op, Region, Space, StreamId, StreamKind, ThreadId};
use super::names::legacy_device;
use super::{Problem, Problems, Program};
use crate::id::Id;

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
}

/// Tables over a well-formed program, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    streams: Vec<Option<StreamFacts>>,
    buffers: Vec<Option<BufferFacts>>,
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
}

pub(super) fn check(program: &Program) -> Result<Facts, Problems> {
    let names = program.names();
    let legacy = |k: usize| -> Option<StreamFacts> {
        let id = StreamId::try_from(k).ok()?;
        let dev = legacy_device(names.stream(id))?;
        Some(StreamFacts { dev, kind: StreamKind::Legacy, thread: Id::FIRST, declared_at: None })
    };
    let mut facts = Facts {
        streams: (0..names.n_streams()).map(legacy).collect(),
        buffers: vec![None; names.n_buffers()],
        n_devices: 1,
    };
    let mut problems = Vec::new();
    for (index, command) in program.commands().iter().enumerate() {
        let mut say = |message: String| problems.push(Problem { index, line: program.line(index), message });
        match &command.op {
            &Op::Stream { stream, dev, kind, thread, .. } => {
                if facts.streams[stream.index()].is_some() {
                    say(format!("stream {:?} is declared twice", names.stream(stream)));
                }
                facts.n_devices = facts.n_devices.max(dev.saturating_add(1));
                facts.streams[stream.index()] =
                    Some(StreamFacts { dev, kind, thread, declared_at: Some(index) });
                continue;
            }
            Op::Alloc(alloc) => {
                declare_buffer(program, &mut facts, index, alloc, &mut say);
                continue;
            }
            _ => {}
        }
        if let Some(stream) = command.op.stream()
            && facts.streams[stream.index()].is_none()
        {
            say(format!("stream {:?} is not declared", names.stream(stream)));
        }
        let (reads, writes) = command.op.regions();
        for region in reads.iter().chain(writes) {
            check_region(program, &facts, region, &mut say);
        }
        if let Op::Copy(Copy { dst, src, .. }) | Op::HostCopy { dst, src } = &command.op {
            let _ = (dst, src);
        }
    }
    if problems.is_empty() { Ok(facts) } else { Err(Problems(problems)) }
}

fn declare_buffer(
    program: &Program,
    facts: &mut Facts,
    index: usize,
    alloc: &Alloc,
    say: &mut impl FnMut(String),
) {
    let name = program.names().buffer(alloc.buffer);
    if alloc.bytes <= 0 {
        say(format!("buffer {name:?} has {} bytes, at least 1 is needed", alloc.bytes));
    }
    if facts.buffers[alloc.buffer.index()].is_some() {
        say(format!("buffer {name:?} is declared twice"));
    }
    let mut block = (alloc.buffer, alloc.bytes);
    if let Some(reuse) = alloc.reuse {
        match facts.buffers[reuse.index()] {
            Some(old) => block = (old.block, old.block_bytes),
            None => say(format!(
                "buffer {:?}, whose bytes are to be reused, is not declared",
                program.names().buffer(reuse)
            )),
        }
    }
    facts.n_devices = facts.n_devices.max(alloc.dev.saturating_add(1));
    facts.buffers[alloc.buffer.index()] = Some(BufferFacts {
        bytes: alloc.bytes,
        space: alloc.space,
        dev: alloc.dev,
        via: alloc.via,
        stream: alloc.stream,
        block: block.0,
        block_bytes: block.1,
        declared_at: index,
    });
}

fn check_region(program: &Program, facts: &Facts, region: &Region, say: &mut impl FnMut(String)) {
    let name = program.names().buffer(region.buffer);
    let Some(buffer) = facts.buffers[region.buffer.index()] else {
        return say(format!("buffer {name:?} is not declared"));
    };
    if let Some((lo, hi)) = region.span.bounds()
        && (lo < 0 || buffer.block_bytes < hi)
    {
        say(format!("span [{lo}, {hi}) reaches outside buffer {name:?} of {} bytes", buffer.block_bytes));
    }
}
