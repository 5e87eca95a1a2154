//! What a program asks to be moved, and what is really moved for it, hop by hop.

use std::fmt;

use super::lowered::{Alone, Work};
use crate::ordered::CollectVec;
use crate::trace::Kind;
use crate::units::Bytes;

/// Bytes that are asked for and bytes that are moved.
///
/// The *payload* is what copies, and kernels that reach into host memory, bring from host to device, back, or from one
/// device to another, each byte once. Everything else is what that takes:
///
/// | a copy of `n` bytes | payload | moved | factor |
/// |---|---|---|---|
/// | page-locked memory and a device | `n` | `n` over the link | 1 |
/// | pageable memory and a device, staged | `n` | `n` by the host into or out of staging, `n` over the link | 2 |
/// | two devices with a link | `n` | `n` over it | 1 |
/// | two devices without one | `n` | `n` to the host, `n` to the device | 2 |
/// | none: a kernel reads or writes `n` bytes of host memory | `n` | `n` over the link | 1 |
/// | within the host (pinning a tensor), within a device | 0 | `n` | - |
///
/// So `pin_memory()` and then a copy moves two bytes for one, just as the driver's staging does.
/// # Examples
/// ```
/// use spanlift::{kib, machine::Machine, program::Program, sim};
///
/// let text = "pageable h 4KiB\ndevice d 4KiB\ncopy d <- h blocking on 0\n";
/// let run = sim::run(&Program::from_text(text)?, &Machine::builtin("tutorial-ci").ok_or("unknown")?)?;
/// // The driver copies into its staging buffer, and from there over the link.
/// assert_eq!((run.ledger.payload, run.ledger.staging, run.ledger.to_device), (kib(4), kib(4), kib(4)));
/// assert_eq!(run.ledger.factor(), Some(2.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    /// What is asked for.
    pub payload: Bytes,
    /// Copied by host threads between host buffers of the program.
    pub within_host: Bytes,
    /// Copied by host threads into or out of staging for pageable memory.
    pub staging: Bytes,
    /// Over the link to a device.
    pub to_device: Bytes,
    /// Over the link to the host.
    pub to_host: Bytes,
    /// Over a link between devices.
    pub peer: Bytes,
    /// Copied within one device.
    pub within_device: Bytes,
}

impl Ledger {
    /// The hops with their names, in the order in which they are told.
    pub fn hops(&self) -> [(&'static str, Bytes); 6] {
        [
            ("within_host", self.within_host),
            ("staging", self.staging),
            ("to_device", self.to_device),
            ("to_host", self.to_host),
            ("peer", self.peer),
            ("within_device", self.within_device),
        ]
    }

    /// All bytes that are moved.
    pub fn moved(&self) -> Bytes {
        Bytes(self.hops().iter().fold(0, |sum, hop| sum.saturating_add(hop.1.0)))
    }

    /// Bytes moved for each byte of payload; `None` where nothing is asked for.
    pub fn factor(&self) -> Option<f64> {
        (self.payload.0 > 0).then(|| self.moved().0 as f64 / self.payload.0 as f64)
    }

    /// Adds a node's work on `bytes`, of a command whose slices are of this kind.
    ///
    /// What a kernel reads and writes over a link is told beside it: [`Ledger::add_mapped`].
    pub(super) fn add(&mut self, work: Work, kind: Kind, bytes: u64) {
        match work {
            Work::Dma { rate: Alone::ToDevice | Alone::PageableToDevice, bytes, .. } => {
                self.over(bytes, |l| &mut l.to_device);
            }
            Work::Dma { rate: Alone::ToHost | Alone::PageableToHost, bytes, .. } => {
                self.over(bytes, |l| &mut l.to_host);
            }
            Work::Dma { rate: Alone::Peer, bytes, .. } => self.over(bytes, |l| &mut l.peer),
            Work::TwoHops { .. } => {
                self.over(bytes, |l| &mut l.to_device);
                add(&mut self.to_host, bytes);
            }
            Work::StageIn { .. } => {
                self.over(bytes, |l| &mut l.to_device);
                add(&mut self.staging, bytes);
            }
            Work::StageOut { .. } => {
                self.over(bytes, |l| &mut l.to_host);
                add(&mut self.staging, bytes);
            }
            Work::HostCopy { .. } => self.add_within_host(bytes),
            Work::HostFn { .. } if kind == Kind::OtherCopy => self.add_within_host(bytes),
            Work::Compute { .. } | Work::Mapped { .. } if kind == Kind::WithinDevice => {
                add(&mut self.within_device, bytes);
            }
            Work::HostFn { .. }
            | Work::Compute { .. }
            | Work::Mapped { .. }
            | Work::Host
            | Work::Point
            | Work::Record
            | Work::Wait { .. } => {}
        }
    }

    /// A host thread copies bytes between two host buffers.
    pub(super) fn add_within_host(&mut self, bytes: u64) {
        add(&mut self.within_host, bytes);
    }

    /// A kernel touches host memory: bytes to the device and to the host.
    pub(super) fn add_mapped(&mut self, [to_device, to_host]: [u64; 2]) {
        self.over(to_device, |l| &mut l.to_device);
        self.over(to_host, |l| &mut l.to_host);
    }

    /// Payload that takes one hop.
    fn over(&mut self, bytes: u64, hop: impl FnOnce(&mut Ledger) -> &mut Bytes) {
        add(&mut self.payload, bytes);
        add(hop(self), bytes);
    }
}

/// In one line: `payload 3.81 MiB, moved 7.63 MiB (staging 3.81 MiB, to device 3.81 MiB), 2.00 for each byte`.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "payload {}, moved {}", self.payload, self.moved())?;
        let hops: Vec<String> = self
            .hops()
            .into_iter()
            .filter(|(_, bytes)| *bytes != Bytes(0))
            .map(|(name, bytes)| format!("{} {bytes}", name.replace('_', " ")))
            .collect_vec();
        if !hops.is_empty() {
            write!(f, " ({})", hops.join(", "))?;
        }
        match self.factor() {
            Some(factor) => write!(f, ", {factor:.2} for each byte"),
            None => Ok(()),
        }
    }
}

fn add(sum: &mut Bytes, bytes: u64) {
    sum.0 = sum.0.saturating_add(bytes);
}
