//! Many items through one device: copy in, work, copy out, with streams arranged in one of two ways.

use std::fmt;

use crate::error::wraps;
use crate::memory::Dtype;
use crate::program::command::*;
use crate::program::{Problems, Program};
use crate::units::{Bytes, Nanos};

/// Which streams there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arrangement {
    /// Strategy A: a stream for each item in flight.
    PerItem(IssueOrder),
    /// Strategy B: a stream for each stage, and events between them.
    PerStage,
}

/// In which order the host issues the stages of items that have streams of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IssueOrder {
    /// All stages of an item, then the next item.
    DepthFirst,
    /// A stage of all items in flight, then their next stage.
    BreadthFirst,
}

/// Items that go through a device; [`Pipeline::program`] writes them down.
///
/// | | A: [`Arrangement::PerItem`] | B: [`Arrangement::PerStage`] |
/// |---|---|---|
/// | streams | one for each item in flight | one for each stage: up, compute, down |
/// | order within an item | its stream | events |
/// | a slot's device memory is free again | when its stream is there | the input once the work is done, the output once it is copied |
/// | work of different items | may run side by side | one after the other |
///
/// At most `in_flight` items are under way: items take slots of memory in turn, host and device side. That is the
/// back-pressure: before the host fills a slot's input anew it waits for the copy that read it, and before it lets the next
/// result come it takes the last one. Everything is ordered by events and streams, so the programs are safe by contract
/// for all parameters.
///
/// # Examples
/// ```
/// use spanlift::hazard::{self, Mode, Verdict};
/// use spanlift::program::{Arrangement, Pipeline};
/// use spanlift::{mib, us};
///
/// let b = Pipeline { in_flight: Some(3), work: us(600), ..Pipeline::new(Arrangement::PerStage, 12, mib(32)) };
/// let program = b.program()?;
/// assert_eq!(hazard::check(&program, Mode::Contract)?.verdict(), Verdict::Safe);
/// assert_eq!(b.footprint(), mib(64)); // an input and an output on the device
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipeline {
    /// Which streams there are.
    pub arrangement: Arrangement,
    /// How many items there are, at least one.
    pub items: u32,
    /// Bytes of an item on its way in, at least one.
    pub bytes_in: Bytes,
    /// Bytes of its result; with 0 nothing comes back.
    pub bytes_out: Bytes,
    /// How long the device works on an item.
    pub work: Nanos,
    /// Whether that work fills the device, so that no two items are worked on at the same time.
    pub fills_device: bool,
    /// How many items are under way at most; all of them when `None`.
    pub in_flight: Option<u32>,
    /// Where items lie on the host: pinned or pageable.
    pub host: Space,
}

/// Why there is no such pipeline.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum PipelineError {
    /// No item.
    NoItem,
    /// More items than are written down.
    TooManyItems(u32),
    /// Items of no bytes.
    NoBytes,
    /// None may be under way.
    NoSlot,
    /// An item takes more memory of the device than there is.
    TooLarge { footprint: Bytes, cap: Bytes },
    /// Items that lie in no memory of the host.
    Host(Space),
    /// The program that came of it is not well formed.
    Program(Problems),
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PipelineError::NoItem => f.write_str("a pipeline of no items: there is nothing to do"),
            PipelineError::TooManyItems(n) => write!(f, "{n} items: at most {MOST_ITEMS} are written down"),
            PipelineError::NoBytes => f.write_str("items of 0 bytes: there is nothing to copy"),
            PipelineError::NoSlot => f.write_str("no item may be under way: at least one has to"),
            PipelineError::TooLarge { footprint, cap } => {
                write!(f, "an item takes {footprint} on the device, more than the {cap} that it may have")
            }
            PipelineError::Host(space) => {
                write!(f, "items in {space:?} memory: they come from the host, pinned or pageable")
            }
            PipelineError::Program(problems) => problems.fmt(f),
        }
    }
}

wraps!(PipelineError { Program(Problems) });

/// Items that are written down at most.
const MOST_ITEMS: u32 = 1_000_000;

impl Pipeline {
    /// Items of `bytes` that come back as large as they went, in pinned memory, all under way at the same time, with work
    /// that fills the device and takes no time.
    pub fn new(arrangement: Arrangement, items: u32, bytes: Bytes) -> Pipeline {
        Pipeline {
            arrangement,
            items,
            bytes_in: bytes,
            bytes_out: bytes,
            work: Nanos::ZERO,
            fills_device: true,
            in_flight: None,
            host: Space::Pinned,
        }
    }

    /// Device memory of one item.
    pub fn footprint(&self) -> Bytes {
        Bytes(self.bytes_in.0.saturating_add(self.bytes_out.0))
    }

    /// The same with as many items under way as `cap` of device memory holds.
    ///
    /// # Errors
    /// [`PipelineError::TooLarge`] when it does not hold one: nothing would ever begin.
    pub fn within(self, cap: Bytes) -> Result<Pipeline, PipelineError> {
        let n = cap.0 / self.footprint().0.max(1);
        if n == 0 {
            return Err(PipelineError::TooLarge { footprint: self.footprint(), cap });
        }
        let n = u32::try_from(n).unwrap_or(u32::MAX).min(self.in_flight.unwrap_or(u32::MAX));
        Ok(Pipeline { in_flight: Some(n), ..self })
    }

    /// Slots of memory: how many items are under way at most.
    pub fn slots(&self) -> u32 {
        self.in_flight.unwrap_or(self.items).min(self.items)
    }

    /// The program, its time between the marks `begin` and `end`.
    ///
    /// # Errors
    /// [`PipelineError`] for parameters that make no pipeline.
    pub fn program(&self) -> Result<Program, PipelineError> {
        self.write(false)
    }

    /// The same with values: item `i` is filled with `i`, the work makes `2 x + 1` of it, and the host expects that back:
    /// as many bytes of it as the item has.
    ///
    /// # Errors
    /// As [`Pipeline::program`].
    pub fn program_with_values(&self) -> Result<Program, PipelineError> {
        self.write(true)
    }

    fn write(&self, values: bool) -> Result<Program, PipelineError> {
        let mut program = self.write_into(Program::new(), None, values, |_| ())?;
        program.title = self.title();
        program.check()?;
        Ok(program)
    }

    fn title(&self) -> String {
        let n = self.slots();
        let cap = match n < self.items {
            true => format!(", at most {n} under way"),
            false => String::new(),
        };
        match self.arrangement {
            Arrangement::PerItem(IssueOrder::DepthFirst) => format!("A: a stream for each item{cap}"),
            Arrangement::PerItem(IssueOrder::BreadthFirst) => {
                format!("A: a stream for each item, stage after stage{cap}")
            }
            Arrangement::PerStage => format!("B: a stream for each stage{cap}"),
        }
    }

    /// Adds the pipeline to a program; items come from `sources` where there are any, one for each item.
    ///
    /// `begin` is called between the declarations and the first item.
    pub(crate) fn write_into(
        &self,
        program: Program,
        sources: Option<&[Source]>,
        values: bool,
        begin: impl FnOnce(&mut Program),
    ) -> Result<Program, PipelineError> {
        match () {
            () if self.items == 0 => return Err(PipelineError::NoItem),
            () if self.items > MOST_ITEMS => return Err(PipelineError::TooManyItems(self.items)),
            () if self.bytes_in.0 == 0 => return Err(PipelineError::NoBytes),
            () if self.slots() == 0 => return Err(PipelineError::NoSlot),
            () if !matches!(self.host, Space::Pinned | Space::Pageable) => {
                return Err(PipelineError::Host(self.host));
            }
            () => {}
        }
        let mut writer = Writer::new(*self, program, sources, values);
        begin(&mut writer.program);
        writer.program.mark("begin");
        match self.arrangement {
            Arrangement::PerStage | Arrangement::PerItem(IssueOrder::DepthFirst) => {
                for i in 0..self.items {
                    writer.copy_in(i);
                    writer.work(i);
                    writer.copy_out(i);
                }
            }
            Arrangement::PerItem(IssueOrder::BreadthFirst) => {
                let mut first = 0;
                while first < self.items {
                    let wave = first..self.items.min(first.saturating_add(self.slots()));
                    wave.clone().for_each(|i| writer.copy_in(i));
                    wave.clone().for_each(|i| writer.work(i));
                    wave.clone().for_each(|i| writer.copy_out(i));
                    first = wave.end;
                }
            }
        }
        for i in self.items - self.slots()..self.items {
            writer.take(i);
        }
        writer.program.mark("end");
        Ok(writer.program)
    }
}

/// Where an item is before it goes on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    /// Its memory.
    pub(crate) buffer: BufferId,
    /// Its size, at most [`Pipeline::bytes_in`].
    pub(crate) bytes: i64,
    /// Whether the host copies it into a slot first.
    pub(crate) is_staged: bool,
}

/// One slot: memory that items take in turn.
struct Slot {
    /// Where the host puts items; none where they are sent from where they are.
    host_in: Option<BufferId>,
    host_out: Option<BufferId>,
    device_in: BufferId,
    device_out: Option<BufferId>,
    up: StreamId,
    compute: StreamId,
    down: StreamId,
}

struct Writer<'s> {
    pipeline: Pipeline,
    sources: Option<&'s [Source]>,
    values: bool,
    program: Program,
    slots: Vec<Slot>,
}

impl<'s> Writer<'s> {
    fn new(pipeline: Pipeline, mut p: Program, sources: Option<&'s [Source]>, values: bool) -> Writer<'s> {
        let stages = match pipeline.arrangement {
            Arrangement::PerStage => Some(["up", "compute", "down"].map(|name| p.stream(name))),
            Arrangement::PerItem(_) => None,
        };
        let mut slots = Vec::new();
        for k in 0..pipeline.slots() {
            let [up, compute, down] = stages.unwrap_or_else(|| [p.stream(&format!("s{k}")); 3]);
            let mut buffer = |name: &str, space, bytes: Bytes| -> Option<BufferId> {
                (bytes.0 > 0).then(|| p.buffer(&format!("{name}{k}"), space, 0, bytes, None))
            };
            let host_out = buffer("out", pipeline.host, pipeline.bytes_out);
            let device_out = buffer("y", Space::Device, pipeline.bytes_out);
            let host_in = match sources.is_none_or(|s| s.iter().any(|s| s.is_staged)) {
                true => buffer("in", pipeline.host, pipeline.bytes_in),
                false => None,
            };
            let device_in = p.device(0, &format!("x{k}"), pipeline.bytes_in);
            slots.push(Slot { host_in, host_out, device_in, device_out, up, compute, down });
        }
        Writer { pipeline, sources, values, program: p, slots }
    }

    fn slot(&self, i: u32) -> &Slot {
        &self.slots[(i % self.pipeline.slots()) as usize]
    }

    /// The item that had the slot of item `i` before.
    fn before(&self, i: u32) -> Option<u32> {
        i.checked_sub(self.pipeline.slots())
    }

    /// Whether another item takes the slot of item `i` after it.
    fn is_followed(&self, i: u32) -> bool {
        u64::from(i) + u64::from(self.pipeline.slots()) < u64::from(self.pipeline.items)
    }

    fn event(&mut self, name: &str, i: u32) -> EventId {
        self.program.event(&format!("{name}{i}"))
    }

    fn is_staged(&self) -> bool {
        self.pipeline.arrangement == Arrangement::PerStage
    }

    fn copy_in(&mut self, i: u32) {
        let &Slot { host_in, device_in, up, .. } = self.slot(i);
        let source = self.sources.and_then(|s| s.get(i as usize).copied());
        if let Some(before) = self.before(i) {
            if host_in.is_some() {
                // The copy of the item before still reads the host's side of the slot.
                let event = self.event("up", before);
                self.program.event_sync(event);
            }
            if self.is_staged() {
                // And its work still reads the device's side.
                let event = self.event("done", before);
                self.program.wait(up, event);
            }
        }
        match (source, host_in) {
            (None, Some(host_in)) => {
                let contents = self.values.then(|| Contents::fill(Dtype::F32, f64::from(i)));
                self.program.host_write(host_in, contents);
                self.program.copy(device_in, host_in).on(up);
            }
            (Some(Source { buffer, bytes, .. }), host_in) => {
                let mut from = buffer.range(0, bytes);
                if let Some(host_in) = host_in {
                    let staged = host_in.range(0, bytes);
                    self.program.host_copy(staged.clone(), from);
                    from = staged;
                }
                self.program.host_cost(HostCost::FrameworkTo);
                self.program.copy(device_in.range(0, bytes), from).on(up);
            }
            (None, None) => unreachable!("bug: items without a source have a slot to be written into"),
        }
        if self.is_staged() || host_in.is_some() && self.is_followed(i) {
            let event = self.event("up", i);
            self.program.record(event, up);
        }
    }

    /// The part of a slot that an item fills, and its result.
    fn filled(&self, i: u32, slot: BufferId, bytes: Bytes) -> Region {
        let source = self.sources.and_then(|s| s.get(i as usize));
        let whole = i64::try_from(bytes.0).unwrap_or(i64::MAX);
        slot.range(0, source.map_or(whole, |source| source.bytes.min(whole)))
    }

    fn work(&mut self, i: u32) {
        let &Slot { device_in, device_out, compute, .. } = self.slot(i);
        let from = self.filled(i, device_in, self.pipeline.bytes_in);
        let to = device_out.map(|out| self.filled(i, out, self.pipeline.bytes_out));
        if self.is_staged() {
            let event = self.event("up", i);
            self.program.wait(compute, event);
            if let (Some(before), true) = (self.before(i), device_out.is_some()) {
                // The result of the item before still leaves the slot.
                let event = self.event("down", before);
                self.program.wait(compute, event);
            }
        }
        let mut kernel = self.program.kernel(&format!("work {i}")).reads(from).takes(self.pipeline.work);
        if let Some(to) = to {
            kernel = kernel.writes(to);
            if self.values {
                kernel = kernel.computes(Compute::affine(Dtype::F32, 2.0, 1.0));
            }
        }
        if self.pipeline.fills_device {
            kernel = kernel.full_grid();
        }
        kernel.on(compute);
        let is_last_stage = device_out.is_none();
        if is_last_stage || self.is_staged() {
            let event = self.event("done", i);
            self.program.record(event, compute);
        }
    }

    fn copy_out(&mut self, i: u32) {
        let &Slot { host_out, device_out, down, .. } = self.slot(i);
        if let Some(before) = self.before(i) {
            self.take(before);
        }
        let (Some(host_out), Some(device_out)) = (host_out, device_out) else { return };
        if self.sources.is_some() {
            self.program.host_cost(HostCost::FrameworkTo);
        }
        if self.is_staged() {
            let event = self.event("done", i);
            self.program.wait(down, event);
        }
        let [to, from] = [host_out, device_out].map(|slot| self.filled(i, slot, self.pipeline.bytes_out));
        self.program.copy(to, from).on(down);
        let event = self.event("down", i);
        self.program.record(event, down);
    }

    /// The host waits for an item and takes its result.
    fn take(&mut self, i: u32) {
        let Some(host_out) = self.slot(i).host_out else {
            let event = self.event("done", i);
            self.program.event_sync(event);
            return;
        };
        let event = self.event("down", i);
        self.program.event_sync(event);
        let Pipeline { bytes_in, bytes_out, .. } = self.pipeline;
        if self.values {
            // Of a result longer than the item, no more than the item says is known.
            let result = self.filled(i, host_out, bytes_out.min(bytes_in));
            let expected = Contents::fill(Dtype::F32, 2.0 * f64::from(i) + 1.0);
            self.program.host_expect(result, expected);
        } else {
            let result = self.filled(i, host_out, bytes_out);
            self.program.host_read(result);
        }
    }
}
