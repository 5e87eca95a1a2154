//! Programs made from others, command by command.

use super::command::{Alloc, BufferId, Copy, EventId, Kernel, Op, Region, StreamId};
use super::{Command, Program};

impl Program {
    /// The program that `with` makes of each command in turn, and which command each of its own was made for. Names,
    /// title and machine are kept, and so are lines of the text form.
    ///
    /// Nothing is judged: see [`Program::check`].
    pub(crate) fn rewritten(
        &self,
        mut with: impl FnMut(&mut Program, usize, &Command),
    ) -> (Program, Vec<usize>) {
        let mut out = Program {
            title: self.title.clone(),
            machine: self.machine.clone(),
            machine_line: self.machine_line,
            names: self.names.clone(),
            ..Program::default()
        };
        let (mut from, mut lines) = (Vec::with_capacity(self.len()), Vec::new());
        for (index, command) in self.commands().iter().enumerate() {
            with(&mut out, index, command);
            from.resize(out.len(), index);
            if let Some(line) = self.line(index) {
                lines.resize(out.len(), line);
            }
        }
        out.lines = lines.into();
        (out, from)
    }
}

/// What streams, buffers and events of one program are called in another, each by its position in the tables of the one.
///
/// # Examples
/// ```
/// use spanlift::Program;
/// use spanlift::program::Renaming;
///
/// let p = Program::from_text("stream s\ndevice d 8\nkernel on s reads d")?;
/// let mut q = Program::new();
/// let (_, d) = (q.device(0, "other", spanlift::Bytes(8)), q.device(0, "D", spanlift::Bytes(8)));
/// let to = Renaming { streams: vec![q.stream("S")], buffers: vec![d], events: vec![] };
/// q.push(to.op(&p.commands()[2].op));
/// assert!(q.to_text().ends_with("kernel  on S reads D\n"));
/// # Ok::<(), spanlift::program::ReadError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Renaming {
    /// The names of streams.
    pub streams: Vec<StreamId>,
    /// The names of buffers.
    pub buffers: Vec<BufferId>,
    /// The names of events.
    pub events: Vec<EventId>,
}

impl Renaming {
    /// The same command under its new names; devices, threads, channels and graphs keep theirs.
    ///
    /// # Panics
    /// When the command names what is not in the tables.
    pub fn op(&self, op: &Op) -> Op {
        let mut op = op.clone();
        let on = |stream: &mut StreamId| *stream = self.streams[stream.index()];
        let of = |buffer: &mut BufferId| *buffer = self.buffers[buffer.index()];
        let at = |region: &mut Region| of(&mut region.buffer);
        let by = |event: &mut EventId| *event = self.events[event.index()];
        match &mut op {
            Op::Kernel(Kernel { stream, reads, writes, .. }) | Op::HostFn { stream, reads, writes, .. } => {
                on(stream);
                reads.iter_mut().chain(writes).for_each(at);
            }
            Op::Copy(Copy { stream, dst, src, .. }) => {
                on(stream);
                [dst, src].into_iter().for_each(at);
            }
            Op::Memset { stream, dst, .. } => {
                on(stream);
                at(dst);
            }
            Op::HostCopy { dst, src } => [dst, src].into_iter().for_each(at),
            Op::HostRead { region, .. } | Op::HostWrite { region, .. } => at(region),
            Op::Alloc(Alloc { buffer, stream, reuse, .. }) => {
                of(buffer);
                stream.iter_mut().for_each(on);
                reuse.iter_mut().for_each(of);
            }
            Op::Free { buffer, stream, .. } => {
                of(buffer);
                stream.iter_mut().for_each(on);
            }
            Op::RecordStream { buffer, stream } => {
                of(buffer);
                on(stream);
            }
            Op::Record { event, stream } | Op::Wait { event, stream } => {
                by(event);
                on(stream);
            }
            Op::EventCreate { event }
            | Op::EventDestroy { event }
            | Op::EventSync { event }
            | Op::EventQuery { event, .. } => by(event),
            Op::Stream { stream, .. }
            | Op::StreamDestroy { stream }
            | Op::StreamSync { stream }
            | Op::StreamQuery { stream, .. }
            | Op::CaptureBegin { stream }
            | Op::CaptureEnd { stream, .. }
            | Op::GraphLaunch { stream, .. } => on(stream),
            Op::DeviceSync { .. }
            | Op::ThreadSpawn { .. }
            | Op::ThreadJoin { .. }
            | Op::Signal { .. }
            | Op::Await { .. }
            | Op::HostSleep { .. }
            | Op::HostWork { .. }
            | Op::Mark => {}
        }
        op
    }
}
