//! Which accesses of a program nothing orders.
//!
//! [`check`] walks a program once. Every stream and host thread has a vector clock; every physical block has the
//! accesses that something could still race with; two of them are a hazard when they share a byte (decided exactly), at
//! least one writes, and neither's clock knows of the other. Nothing here knows times: a schedule proves nothing safe,
//! and `sim` is not imported, so that the two can disagree.
//!
//! The relation is the contract's, with or without what today's drivers add ([`Mode`]); [`Rule`] lists it as a table. On a
//! device without CUDA's rules ([`Terms::ordered_copies`]) an asynchronous copy stands in no stream's order.
//!
//! | hazard | first | second |
//! |---|---|---|
//! | `RAW` `WAR` `WAW` | the earlier command | the later one, unordered with it |
//! | `use-before-alloc` | the stream-ordered allocation | an access that it need not come before |
//! | `use-after-free` | the free | a later access under the same name, ordered or not |
//! | `free-in-flight` | an access | a free that it need not come before |
//!
//! # What hardware answered
//!
//! One machine was asked: an H100 (driver 580.159.04, CUDA 13.0) in a virtual machine, on 2026-11-26; its answers are
//! `native/measured/probe-h100-2026-11-26.json`, under the names of the last column. A "yes" to an order is what one machine did and no
//! promise: which rules count in [`Mode::Contract`] the documentation says, a "no" takes a rule away in both modes. A test holds every
//! such answer against the checker, and this table against the file.
//!
//! | asked | answer | here | finding |
//! |---|---|---|---|
//! | Do the legacy stream and blocking or per-thread streams wait for each other? | yes, 16 of 16 | [`Rule::LegacyWaits`], [`Rule::LegacyHolds`] | `stream.legacy_after_blocking` `stream.blocking_after_legacy` `stream.per_thread_after_legacy` `stream.legacy_after_per_thread` |
//! | Do it and non-blocking streams? | no, 8 of 8 | no rule | `stream.legacy_after_nonblocking` `stream.nonblocking_after_legacy` |
//! | Does a record on the legacy stream fence blocking streams, and hold their work? | yes, 8 of 8 | [`Rule::RecordActs`] | `legacy.record_fences` `legacy.record_captures_blocking` |
//! | Does a wait there fence them, for an event that was never recorded? | no, 4 of 4 | no action; for a recorded event, which was not asked, [`Rule::WaitActs`] as documented | `legacy.wait_empty_event_fences` |
//! | Is waiting transitive, and does a wait outlive its event? | yes, 8 of 8 | [`Rule::Wait`] | `event.wait_is_transitive` `event.destroy_keeps_wait` |
//! | Does a later record change an earlier wait? | no, 8 of 8 | [`Rule::Wait`] | `event.rerecord_weakens_wait` `event.rerecord_strengthens_wait` |
//! | Do a sync and a query of the legacy stream, and a sync with an event recorded there, cover blocking streams? | yes, 12 of 12 | [`Rule::SyncCovers`], [`Rule::RecordActs`] | `sync.legacy_covers_blocking` `query.legacy_sees_blocking` `sync.event_on_legacy` |
//! | Does a sync of an idle blocking stream wait for the legacy stream, or for another? | no, 8 of 8 | no rule | `sync.blocking_*` |
//! | Is a synchronous copy from pageable memory still under way when the call returns? | yes, 84 of 84 | [`Rule::StagedSync`]: the source is free, the target is not there | `sync_form.h2d_pageable.dma_pending_at_return.*` |
//! | Is one from page-locked memory? | no, 64 of 64 | [`Rule::SyncFromPinned`] | `sync_form.h2d_pinned.dma_pending_at_return.*` |
//! | Does a copy from host to host return after its stream's work only? | yes, 16 of 16 | [`Rule::HostCopyReturns`] | `*_form.h2h_*` |
//! | May pageable memory be overwritten when an asynchronous copy from it returns? | yes, 44 of 44 | [`Rule::StagedRead`], typical | `h2d.pageable_async_*.source_free.*` |
//! | Does that copy return while its stream is held, with up to 1 MiB? | yes, 16 of 16 | a schedule; there 2 MiB did and 2,162,688 bytes did not. It had read its source by then: what a host function of that stream writes there later is missed, against the documented order, so the runner waits for the stream | `h2d.pageable_async_held.returns_early.1024` `h2d.pageable_async_held.returns_early.6553*` `h2d.pageable_async_held.returns_early.1048576` |
//! | With 16 MiB and more? | no, 6 of 6 | a schedule, not a rule: no order is taken from it | `h2d.pageable_async_held.returns_early.16777216` `h2d.pageable_async_held.returns_early.67108864` |
//! | Does an asynchronous copy to pageable memory return before it is done? | no, 44 of 44 | [`Rule::PageableArrives`], typical | `d2h.pageable_async_*.returns_early.*` |
//! | Do cuMemFree, cuMemFreeHost and cuMemHostUnregister wait for other streams? | yes, 24 of 24 | [`Rule::FreeWaits`], typical; for other devices it was not asked | `alloc.cuMemAlloc.put_waits.*` `alloc.cuMemHost*.put_waits.*` |
//! | Does cuMemFreeAsync? | no, 4 of 4 | no rule | `alloc.cuMemAllocAsync.put_waits.*` |
//! | Do allocating, registering and making a stream? | no, 32 of 32 | no rule | `alloc.*.get_waits.*` `busy.stream_create` |
//! | Does cuModuleLoadData? | yes, 4 of 4 | no command loads modules; undocumented, so that nothing is ordered by it | `busy.module_load` |
//! | Is a graph ordered behind its own earlier launch? | yes, 4 of 4 | [`Rule::Relaunch`] | `graph.one_executable_two_streams` |
//! | Are two executables of one graph in order? | no, 4 of 4 | no rule | `graph.two_executables_two_streams` |
//! | Is cuStreamQuery refused in a host function? | no, 1 of 1 | wrong by the documentation all the same (cuMemAlloc was refused), and orders nothing | `hostfn.driver_call_refused` |
//! | Do host functions of two streams run at a time? | no, 4 of 4 | a schedule | `hostfn.two_streams_parallel` |
//! | Do copies of one direction, page-locked, overlap? | no, 12 of 12 | a schedule: one engine each way | `overlap.h2d_h2d` `overlap.d2h_d2h` `overlap.h2d_x3` |
//! | Do two of both directions? | yes, 4 of 4 | a schedule | `overlap.h2d_d2h` |
//! | Do a copy to the device and one within it take less than 0.85 of both times? | no, 4 of 4 | says nothing: the one within was over after 0.049 of the whole | `overlap.h2d_d2d` |
//! | Does a call wait where much is enqueued on a stream? | yes, 8 of 8 | a schedule: after 1,020 launches, records or copies of each stream there | `queue.*` |
//! | Are a copy within the device and a memset over while a one-block kernel runs? | yes, 8 of 8 | a schedule; the simulator has them wait, as beside a full device | `with_one_block_kernel.d2d` `with_one_block_kernel.memset` |
//! | While a kernel fills the device? | no, 8 of 8 | a schedule | `with_full_kernel.d2d` `with_full_kernel.memset` |
//!
//! # Examples
//! A buffer is filled again while it may still be read. The finding has both sites, and the fix is applied:
//!
//! ```
//! use spanlift::hazard::{Fix, Mode, Verdict, check, mend};
//! use spanlift::{Program, mib};
//!
//! let mut p = Program::new();
//! let s = p.stream("s");
//! let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
//! let sent = p.copy(d, x).on(s);
//! let filled = p.host_write(x, None);
//! let report = check(&p, Mode::Contract)?;
//! let race = &report.hazards[0];
//! assert_eq!((race.kind.name(), race.first, race.second), ("WAR", sent, filled));
//! let mended = Fix::of(&p, race, Mode::Contract).apply(&p); // one; `mend` goes on until none is left
//! assert_eq!(check(&mended, Mode::Contract)?.verdict(), Verdict::Safe);
//! assert_eq!(mend(&p, Mode::Contract, 10)?.program, mended);
//! # Ok::<(), spanlift::program::Problems>(())
//! ```

mod access;
mod capture;
mod clock;
mod each;
mod fix;
mod found;
mod front;
mod history;
mod host_wait;
mod later;
mod many;
mod mend;
mod order;
mod reach;
mod relation;
mod remedy;
mod report;
mod rules;
pub mod sample;
mod walk;
mod words;

pub use access::Certainty;
pub use each::{Streamed, check_each, check_read};
pub use fix::Fix;
pub use found::HazardKind;
pub use mend::{Mended, mend};
pub use reach::{OutOfReach, Unreached, unreached};
pub(crate) use relation::Line;
pub use relation::{Life, Part, Relation, Step, StepId, Touch, UnknownStep};
pub use remedy::{Remedy, remedy};
pub use report::{Hazard, Report, Verdict, alike};
pub use rules::{Mutation, Rule};
pub use words::{sentence, short_sentence};

use crate::machine::Machine;
use crate::program::{Problems, Program};
use rules::Rules;

/// Whose word on order counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// What the documentation guarantees, and nothing else.
    #[default]
    Contract,
    /// That, and what today's drivers for discrete GPUs do anyway: pageable copies staged before the call returns, frees
    /// that wait.
    Typical,
}

impl Mode {
    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Contract => "contract",
            Mode::Typical => "typical",
        }
    }
}

/// What is asked for: whose word on order counts, and whose rules the device keeps.
///
/// A [`Mode`] alone stands for CUDA's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Whose word counts.
    pub mode: Mode,
    /// Whether copies keep CUDA's rules. Where not, an asynchronous copy comes after what its caller did and before what
    /// comes after a sync of its stream or its device; nothing else orders it, and its host memory is in use until then.
    pub ordered_copies: bool,
}

impl Terms {
    /// The terms of a machine.
    ///
    /// ```
    /// use spanlift::{Program, machine::Machine};
    /// use spanlift::hazard::{Mode, Terms, Verdict, check};
    ///
    /// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy d <- x on s\nkernel on s reads d\nsync s")?;
    /// assert_eq!(check(&p, Mode::Contract)?.verdict(), Verdict::Safe);
    /// let machine = Machine { ordered_copies: false, ..Machine::default() };
    /// assert_eq!(check(&p, Terms::of(Mode::Contract, &machine))?.verdict(), Verdict::Race);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(mode: Mode, machine: &Machine) -> Terms {
        Terms { mode, ordered_copies: machine.ordered_copies }
    }
}

impl From<Mode> for Terms {
    fn from(mode: Mode) -> Terms {
        Terms { mode, ordered_copies: true }
    }
}

/// Finds the hazards of a program.
///
/// # Errors
/// The [`Problems`] of form that [`Program::check`] finds; only a well-formed program is safe or not.
///
/// # Cost
/// For each access, one comparison with each access to the same block whose bounds meet its own and that no later one
/// covers; reads are compared with writes alone. What one access knew all of is passed over by others that know as much,
/// so that streams which share a block cost steps by their number, not by their pairs. See [`Span::overlaps`](crate::memory::Span::overlaps) for those that meet unordered.
///
/// ```
/// use spanlift::{Program, hazard, mib};
/// use spanlift::hazard::{Mode, Verdict};
///
/// let mut p = Program::new();
/// let copy = p.stream("copy");
/// let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
/// let sent = p.copy(d, x).on(copy);
/// let reused = p.host_write(x, None);
/// let report = hazard::check(&p, Mode::Contract)?;
/// assert_eq!(report.verdict(), Verdict::Race);
/// assert_eq!(report.verdict().to_string(), "race");
/// assert_eq!((report.hazards[0].first, report.hazards[0].second), (sent, reused));
/// # Ok::<(), spanlift::program::Problems>(())
/// ```
pub fn check(program: &Program, terms: impl Into<Terms>) -> Result<Report, Problems> {
    check_with(program, Rules::of(terms.into()))
}

/// As [`check`], with a fault put in: tests show so that every rule decides some verdict.
///
/// # Errors
/// As [`check`].
#[doc(hidden)]
pub fn check_mutant(
    program: &Program,
    terms: impl Into<Terms>,
    mutation: Mutation,
) -> Result<Report, Problems> {
    check_with(program, Rules { mutation: Some(mutation), ..Rules::of(terms.into()) })
}

fn check_with(program: &Program, rules: Rules) -> Result<Report, Problems> {
    program.check()?;
    let mut walk = walk::Walk::new(rules, walk::last_calls(program));
    for (index, command) in program.commands().iter().enumerate() {
        walk.step(index, command, program.names());
    }
    Ok(Report::new(program.names(), rules.terms, walk.into_found()))
}
