//! What a run needs of a program and no machine changes: its facts, and per command what its slices say.

use super::lowered::{bytes_of, copied};
use super::{Run, SimError, lower, names, schedule, values};
use crate::machine::Machine;
use crate::program::{Copy, Facts, Op, Program, Space};
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
    /// An engine that does the copy writes host memory, so that the processor's caches have it no longer.
    pub(super) stales: bool,
}

impl Prepared {
    /// Looks a program over.
    ///
    /// # Errors
    /// [`SimError::Problems`] of a program that is not well formed; [`SimError::TooManyBytes`] and
    /// [`SimError::TooManyBytesAt`].
    pub fn new(program: &Program) -> Result<Prepared, SimError> {
        let facts = program.check()?;
        let carried = values::Carried::new(program, &facts)?;
        let mut strings = Strings::default();
        let mut calls: Vec<(&'static str, StrId)> = Vec::new();
        let says =
            (0..program.len()).map(|index| says(program, &facts, index, &mut strings, &mut calls)).collect();
        Ok(Prepared { program: program.clone(), facts, says, strings, carried })
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
    /// [`SimError`]: it awaits what is never signalled, or is too large or too long to be told.
    pub fn run(&self, machine: &Machine) -> Result<Run, SimError> {
        let mut lowered = lower::lower(self, machine)?;
        schedule::Sim::new(self, machine, &mut lowered).run()
    }
}

fn says(
    program: &Program,
    facts: &Facts,
    index: usize,
    strings: &mut Strings,
    calls: &mut Vec<(&'static str, StrId)>,
) -> Says {
    let command = &program.commands()[index];
    let call = names::of_call(command);
    let call = match calls.iter().find(|(known, _)| std::ptr::eq(*known, call)) {
        Some(&(_, id)) => id,
        None => {
            let id = strings.intern(call);
            calls.push((call, id));
            id
        }
    };
    let work =
        if has_work(&command.op) { strings.intern(&names::of_work(program, index)) } else { StrId::EMPTY };
    let mut says = Says { bytes: 0, work, call, kind: Kind::Other, flags: 0, stales: false };
    match &command.op {
        Op::Kernel(_) => says.kind = Kind::Kernel,
        Op::Memset { dst, .. } => {
            says.kind = Kind::Memset;
            says.bytes = bytes_of(&dst.span);
        }
        Op::HostFn { .. } => says.kind = Kind::HostFn,
        Op::Record { .. } => says.kind = Kind::Record,
        Op::Wait { .. } => says.kind = Kind::Sync,
        Op::Copy(Copy { src, dst, .. }) => {
            says.bytes = copied(src, dst);
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
            says.stales = host(dst.space);
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
