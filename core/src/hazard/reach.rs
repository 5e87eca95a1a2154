//! What touches memory that its processor does not reach.

use crate::machine::{Grade, Machine};
use crate::ordered::BTreeMap;
use crate::program::{BufferId, Command, Facts, Names, Op, Problems, Program, Space};

/// A command that touches memory which its processor does not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreached {
    /// The command.
    pub index: usize,
    /// What it touches.
    pub buffer: BufferId,
    /// Why it does not reach it.
    pub why: OutOfReach,
    doer: Doer,
    reads: bool,
    writes: bool,
}

/// Why a processor does not reach some memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OutOfReach {
    /// A device reaches ordinary host memory on few machines.
    Pageable,
    /// The host reaches no memory of a device.
    Device {
        /// The device whose memory it is.
        dev: u32,
    },
    /// A device reaches another one's memory only with peer access.
    Peer {
        /// The device that touches it.
        by: u32,
        /// The device whose memory it is.
        dev: u32,
    },
}

impl OutOfReach {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            OutOfReach::Pageable => "pageable",
            OutOfReach::Device { .. } => "device",
            OutOfReach::Peer { .. } => "peer",
        }
    }

    /// Whether it is reached after all, on this machine or where none is given.
    fn is_reached(self, machine: Option<&Machine>) -> bool {
        match self {
            OutOfReach::Pageable => machine.is_some_and(|m| m.pageable_direct),
            OutOfReach::Device { .. } => false,
            OutOfReach::Peer { .. } => !machine.is_some_and(has_no_peers),
        }
    }
}

/// Whether a machine says that its devices do not reach each other. What a profile leaves out says nothing.
fn has_no_peers(machine: &Machine) -> bool {
    let is_said = |m: &Machine| m.figures().any(|f| f.name == "p2p_bw" && f.source.grade != Grade::Assumed);
    machine.p2p_bw.0 == 0 && is_said(machine)
}

/// Who touches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doer {
    Kernel,
    Memset,
    Host,
    HostFn,
}

/// Lists the commands that touch memory which their processor does not reach, in order, once for each buffer.
///
/// It stands beside the hazards and is none: no order helps where a kernel has no way to what it reads. A verdict is of order
/// alone, as the file contract has it.
///
/// | who | memory | reached |
/// |---|---|---|
/// | kernel, memset | page-locked, managed, of its own device | always |
/// | kernel, memset | ordinary host memory | where the machine says so ([`Machine::pageable_direct`]) |
/// | kernel | of another device | unless the machine says that there are no peers ([`Machine::p2p_bw`] is 0 and not assumed) |
/// | host thread, host function | of a device | never |
/// | copy | any | always: the driver moves it |
///
/// Without a machine, devices do not reach ordinary host memory, and reach one another.
///
/// # Errors
/// The [`Problems`] of form, as [`check`](super::check).
///
/// # Cost
/// One walk over the commands.
///
/// # Examples
/// ```
/// use spanlift::{Program, hazard, machine::Machine};
///
/// let p = Program::from_text("stream s\npageable x 4KiB\ndevice d 4KiB\nkernel on s reads x writes d\nsync s\nread d")?;
/// let told: Vec<String> = hazard::unreached(&p, None)?.iter().map(|found| found.sentence(p.names())).collect();
/// assert_eq!(told[0], "the kernel reads x, ordinary host memory, which devices reach on few machines, such as gh200-c2c: pin it, or copy it to the device");
/// assert_eq!(told[1], "the host reads d, memory of cuda:0, which the host does not reach: copy it to host memory");
///
/// let gh200 = Machine::builtin("gh200-c2c").ok_or("no such machine")?;
/// assert_eq!(hazard::unreached(&p, Some(&gh200))?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn unreached(program: &Program, machine: Option<&Machine>) -> Result<Vec<Unreached>, Problems> {
    let facts = program.check()?;
    let mut found = Vec::new();
    for (index, command) in program.commands().iter().enumerate() {
        look(&facts, index, command, &mut found);
    }
    found.retain(|one| one.is_on(machine));
    Ok(found)
}

impl Unreached {
    /// Whether it holds on a machine, or where none is given.
    pub fn is_on(&self, machine: Option<&Machine>) -> bool {
        !self.why.is_reached(machine)
    }

    /// In words: who touches what, why it does not reach it, what to do.
    pub fn sentence(&self, names: &Names) -> String {
        let doer = match self.doer {
            Doer::Kernel => "the kernel",
            Doer::Memset => "the memset",
            Doer::Host => "the host",
            Doer::HostFn => "the host function",
        };
        let does = match (self.reads, self.writes) {
            (true, true) => "reads and writes",
            (false, true) => "writes",
            _ => "reads",
        };
        let name = names.buffer(self.buffer);
        let (what, mend) = match self.why {
            OutOfReach::Pageable => (
                "ordinary host memory, which devices reach on few machines, such as gh200-c2c".to_owned(),
                "pin it, or copy it to the device".to_owned(),
            ),
            OutOfReach::Device { dev } => (
                format!("memory of cuda:{dev}, which the host does not reach"),
                "copy it to host memory".to_owned(),
            ),
            OutOfReach::Peer { by, dev } => (
                format!(
                    "memory of cuda:{dev}, which cuda:{by} does not reach: the machine has no peer access"
                ),
                format!("copy it to cuda:{by}"),
            ),
        };
        format!("{doer} {does} {name}, {what}: {mend}")
    }
}

/// Notes what a command touches and some machine does not let it reach; `facts` are of the commands before it at least.
pub(super) fn look(facts: &Facts, index: usize, command: &Command, found: &mut Vec<Unreached>) {
    let (doer, device) = match &command.op {
        Op::Kernel(kernel) => (Doer::Kernel, Some(facts.stream(kernel.stream).dev)),
        Op::Memset { stream, .. } => (Doer::Memset, Some(facts.stream(*stream).dev)),
        Op::HostFn { .. } => (Doer::HostFn, None),
        Op::HostRead { .. } | Op::HostWrite { .. } | Op::HostCopy { .. } => (Doer::Host, None),
        _ => return,
    };
    let (reads, writes) = command.op.regions();
    let mut places = BTreeMap::new();
    for (region, is_write) in reads.iter().map(|r| (r, false)).chain(writes.iter().map(|r| (r, true))) {
        let of = facts.buffer(region.buffer);
        let why = match (device, of.space) {
            (Some(_), Space::Pageable) => OutOfReach::Pageable,
            // A driver knows whose memory it sets.
            (Some(by), Space::Device) if by != of.dev && doer == Doer::Kernel => {
                OutOfReach::Peer { by, dev: of.dev }
            }
            (None, Space::Device) => OutOfReach::Device { dev: of.dev },
            _ => continue,
        };
        // No byte is touched of nothing.
        if region.span.bounds().is_none() {
            continue;
        }
        let place = *places.entry(region.buffer).or_insert(found.len());
        if place == found.len() {
            found.push(Unreached { index, buffer: region.buffer, why, doer, reads: false, writes: false });
        }
        let one = &mut found[place];
        (one.reads, one.writes) = (one.reads | !is_write, one.writes | is_write);
    }
}
