//! A trace's first figures: how much of what, for captions and tables.

use std::borrow::Cow;

use super::{Kind, LaneKind, Slice, StrId, Trace};
use crate::ordered::BTreeMap;
use crate::units::{Bytes, Nanos};

/// How often, how much and how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of slices.
    pub count: u64,
    /// Bytes that they moved.
    pub bytes: Bytes,
    /// Their lengths, added up; overlap counts twice.
    pub time: Nanos,
}

/// The figures of [`figures`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of slices.
    pub n_slices: usize,
    /// From the first start to the last end of any slice.
    pub extent: Option<(Nanos, Nanos)>,
    /// By kind. Engine lanes are left out: they show the work of the streams a second time.
    pub by_kind: BTreeMap<Kind, Sum>,
    /// Copies and memsets of streams by name, as in `Memcpy HtoD (Pinned -> Device)`.
    pub copies: BTreeMap<String, Sum>,
}

/// What a stream does, as other tools count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamWork {
    /// A kernel, communication included.
    Kernel,
    /// A copy.
    Memcpy,
    /// A memset.
    Memset,
}

impl StreamWork {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            StreamWork::Kernel => "kernel",
            StreamWork::Memcpy => "memcpy",
            StreamWork::Memset => "memset",
        }
    }
}

impl Sum {
    fn add(&mut self, slice: &Slice) {
        self.count += 1;
        self.bytes = Bytes(self.bytes.0.saturating_add(slice.bytes));
        self.time = Nanos(self.time.0.saturating_add(slice.end.0.saturating_sub(slice.start.0)));
    }
}

/// Counts and adds up the slices of a trace.
///
/// # Cost
/// One walk over the slices.
pub fn figures(trace: &Trace) -> Figures {
    let mut figures = Figures { n_slices: trace.slices.len(), extent: trace.extent(), ..Figures::default() };
    for (index, slice) in trace.slices.iter().enumerate() {
        if !matches!(trace.lanes[slice.lane as usize].kind, LaneKind::Engine { .. }) {
            figures.by_kind.entry(slice.kind).or_default().add(&slice);
        }
        if matches!(stream_work(trace, index), Some(StreamWork::Memcpy | StreamWork::Memset)) {
            let name = device_name(trace, index);
            match figures.copies.get_mut(&*name) {
                Some(sum) => sum.add(&slice),
                None => figures.copies.entry(name.into_owned()).or_default().add(&slice),
            }
        }
    }
    figures
}

/// What the slice at `index` is of a stream's work; `None` for host calls, rows beside a stream and engine lanes.
///
/// The category of a file decides where there was one: what an accelerator calls a DMA request counts as a kernel.
pub fn stream_work(trace: &Trace, index: usize) -> Option<StreamWork> {
    let cat = trace.strings.get(trace.slices.cat[index]);
    if !cat.is_empty() {
        return match &*cat.to_ascii_lowercase() {
            "kernel" | "mtia_ccp_events" => Some(StreamWork::Kernel),
            "gpu_memcpy" | "memcpy" => Some(StreamWork::Memcpy),
            "gpu_memset" | "memset" => Some(StreamWork::Memset),
            _ => None,
        };
    }
    let lane = trace.lanes[trace.slices.lane[index] as usize].kind;
    match trace.slices.kind[index] {
        _ if !matches!(lane, LaneKind::Stream { .. }) => None,
        Kind::Kernel | Kind::Communication => Some(StreamWork::Kernel),
        Kind::Memset => Some(StreamWork::Memset),
        kind if kind.is_copy() => Some(StreamWork::Memcpy),
        _ => None,
    }
}

/// The name that other tools give the work at `index`: `Memcpy HtoD (Pinned -> Device)`, `Memset (Device)`, or its own.
pub fn device_name(trace: &Trace, index: usize) -> Cow<'_, str> {
    let name = trace.strings.get(trace.slices.name[index]);
    if trace.slices.cat[index] != StrId::EMPTY || name.starts_with("Memcpy ") || name.starts_with("Memset ") {
        return name.into();
    }
    let flags = trace.slices.flags[index];
    let host = match (flags & Slice::PAGEABLE != 0, flags & Slice::PINNED != 0) {
        (true, _) => "Pageable",
        (false, true) => "Pinned",
        (false, false) => "Unknown",
    };
    match trace.slices.kind[index] {
        Kind::ToDevice => format!("Memcpy HtoD ({host} -> Device)").into(),
        Kind::ToHost => format!("Memcpy DtoH (Device -> {host})").into(),
        Kind::WithinDevice => "Memcpy DtoD (Device -> Device)".into(),
        Kind::Peer => "Memcpy PtoP (Device -> Device)".into(),
        Kind::Memset => "Memset (Device)".into(),
        _ => name.into(),
    }
}
