//! What a run needs of a program and no machine changes: its facts, and per command what its slices say.

use super::lowered::{bytes_of, copied};
use super::{Ledger, Run, SimError, lower, names, schedule, values};
use crate::machine::Machine;
use crate::ordered::CollectVec;
use crate::program::{BufferId, Computes, Copy, Facts, Op, Program, Region, Space};
use crate::trace::{Kind, Slice, StrId, Strings};

/// A program that was looked over once, to be run on many machines.
///
/// [`run`](super::run) is `Prepared::new(program)?.run(machine)`: the same trace, byte for byte.
///
/// # Cost
/// Preparing is linear in the commands; it keeps 16 bytes for each command besides the program itself, which is shared.
///
/// # Examples
/// ```
/// use spanlift::{Program, machine::Machine, mib, sim};
///
/// let mut p = Program::new();
/// let (x, d, s) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)), p.stream("s"));
/// p.copy(d, x).on(s);
/// p.sync(s);
/// let prepared = sim::Prepared::new(&p)?;
/// let mut machine = Machine::default();
/// let before = prepared.run(&machine)?.end;
/// machine.h2d_bw.0 *= 2; // a slider moves
/// assert!(prepared.run(&machine)?.end < before);
/// # Ok::<(), sim::SimError>(())
/// ```
#[derive(Debug)]
pub struct Prepared {
    pub(super) program: Program,
    pub(super) facts: Facts,
    /// One for each command.
    pub(super) says: Vec<Says>,
    /// The texts that `says` refers to.
    pub(super) strings: Strings,
    pub(super) carried: values::Carried,
}

/// What the slices of a command say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Says {
    /// The bytes of a copy or a memset.
    pub(super) bytes: u64,
    /// The work.
    pub(super) work: StrId,
    /// The call.
    pub(super) call: StrId,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    /// A device writes memory that threads touch, so that the processor's caches have it no longer.
    pub(super) stales: bool,
}

impl Prepared {
    /// Looks a program over.
    ///
    /// # Errors
    /// [`SimError::Problems`] of a program that is not well formed; [`SimError::TooManyBytes`] and
    /// [`SimError::TooManyBytesAt`].
    pub fn new(program: &Program) -> Result<Prepared, SimError> {
        Prepared::knowing(program, &())
    }

    /// Looks a program over that will be run with what `knows` says; see [`run_knowing`](super::run_knowing).
    pub(super) fn knowing(program: &Program, knows: &dyn Computes) -> Result<Prepared, SimError> {
        let facts = program.check()?;
        let carried = values::Carried::new(program, &facts, knows)?;
        let mut texts = Texts { strings: Strings::default(), calls: Vec::new(), copies: vec![None; COPIES] };
        let says = (0..program.len()).map(|index| says(program, &facts, index, &mut texts)).collect_vec();
        Ok(Prepared { program: program.clone(), facts, says, strings: texts.strings, carried })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Runs the program on a machine.
    ///
    /// # Errors
    /// [`SimError`]: it is too large or too long to be told.
    pub fn run(&self, machine: &Machine) -> Result<Run, SimError> {
        self.run_knowing(machine, &())
    }

    pub(super) fn run_knowing(&self, machine: &Machine, knows: &dyn Computes) -> Result<Run, SimError> {
        machine.check()?;
        let mut lowered = lower::lower(self, machine)?;
        schedule::Sim::new(self, machine, &mut lowered, knows).run()
    }

    /// What the program asks to be moved and what a machine moves for it, without running it.
    ///
    /// # Errors
    /// As [`Prepared::run`], but for times beyond what can be held.
    pub fn ledger(&self, machine: &Machine) -> Result<Ledger, SimError> {
        machine.check()?;
        Ok(lower::lower(self, machine)?.ledger)
    }
}

/// The texts so far, and those found at once.
struct Texts {
    strings: Strings,
    /// Names of calls; there are few.
    calls: Vec<(&'static str, StrId)>,
    /// Names of copies that were met last: loops copy between the same buffers again and again.
    copies: Vec<Option<(BufferId, BufferId, StrId)>>,
}

/// Slots of [`Texts::copies`]; a power of two.
const COPIES: usize = 256;

impl Texts {
    fn call(&mut self, name: &'static str) -> StrId {
        match self.calls.iter().find(|(known, _)| std::ptr::eq(*known, name)) {
            Some(&(_, id)) => id,
            None => {
                let id = self.strings.intern(name);
                self.calls.push((name, id));
                id
            }
        }
    }

    fn work(&mut self, program: &Program, index: usize) -> StrId {
        let command = &program.commands()[index];
        let (dst, src) = match &command.op {
            Op::Copy(Copy { dst, src, .. }) if command.label.is_none() => (dst.buffer, src.buffer),
            op if has_work(op) => return self.strings.intern(&names::of_work(program, index)),
            _ => return StrId::EMPTY,
        };
        let slot = (dst.index() * 31 + src.index()) % COPIES;
        match self.copies[slot] {
            Some((d, s, id)) if (d, s) == (dst, src) => id,
            _ => {
                let id = self.strings.intern(&names::of_work(program, index));
                self.copies[slot] = Some((dst, src, id));
                id
            }
        }
    }
}

fn says(program: &Program, facts: &Facts, index: usize, texts: &mut Texts) -> Says {
    let command = &program.commands()[index];
    let call = texts.call(names::of_call(command));
    let work = texts.work(program, index);
    let stales = |written: &Region| facts.buffer(written.buffer).space != Space::Device;
    let mut says = Says { bytes: 0, work, call, kind: Kind::Other, flags: 0, stales: false };
    match &command.op {
        Op::Kernel(kernel) => {
            says.kind = Kind::Kernel;
            says.stales = kernel.writes.iter().any(stales);
        }
        Op::Memset { dst, .. } => {
            says.kind = Kind::Memset;
            says.bytes = bytes_of(&dst.span);
            says.stales = stales(dst);
        }
        Op::HostFn { .. } => says.kind = Kind::HostFn,
        Op::Record { .. } => says.kind = Kind::Record,
        Op::Wait { .. } => says.kind = Kind::Sync,
        Op::Copy(Copy { src, dst, .. }) => {
            says.bytes = copied(src, dst);
            says.stales = stales(dst);
            let (src, dst) = (facts.buffer(src.buffer), facts.buffer(dst.buffer));
            let host = |space| matches!(space, Space::Pinned | Space::Pageable);
            says.kind = match (host(src.space), host(dst.space)) {
                (true, false) => Kind::ToDevice,
                (false, true) => Kind::ToHost,
                (false, false) if src.dev == dst.dev => Kind::WithinDevice,
                (false, false) => Kind::Peer,
                (true, true) => Kind::OtherCopy,
            };
            let flag = |space, flag| if src.space == space || dst.space == space { flag } else { 0 };
            says.flags = flag(Space::Pageable, Slice::PAGEABLE) | flag(Space::Pinned, Slice::PINNED);
        }
        _ => {}
    }
    says
}

/// Whether a slice may be called after what the command does, besides its call.
fn has_work(op: &Op) -> bool {
    matches!(
        op,
        Op::Kernel(_)
            | Op::Copy(_)
            | Op::Memset { .. }
            | Op::HostRead { .. }
            | Op::HostWrite { .. }
            | Op::HostCopy { .. }
            | Op::HostFn { .. }
            | Op::Record { .. }
            | Op::Wait { .. }
            | Op::HostSleep { .. }
            | Op::HostWork { .. }
    )
}
