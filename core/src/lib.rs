//! How data moves between a host and its devices, as values: programs, machines, traces, spans and operators.
//!
//! Everything meets in two values. A [`Program`] says what host threads ask of devices; a [`Trace`] says what happened
//! when. Readers of programs (the hazard checker, the simulator) and writers of traces know these two and not each other.
//!
//! A kernel on one stream reads what a copy on another may still write. The checker names both sites and the missing edge,
//! makes the wait that mends it, and the simulator says what that costs on a machine that nobody has to own:
//!
//! ```
//! use spanlift::hazard::{self, Fix, Mode};
//! use spanlift::machine::Machine;
//! use spanlift::{Program, mib, sim, us};
//!
//! let mut p = Program::new();
//! let (copy, compute) = (p.stream("copy"), p.stream("compute"));
//! let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
//! p.copy(d, x).on(copy); // d <- x, asynchronous
//! p.kernel("scale").reads(d).takes(us(120)).on(compute);
//! p.sync(compute);
//!
//! let found = hazard::check(&p, Mode::Contract)?.hazards;
//! assert_eq!(
//!     hazard::sentence(&p, &found[0]),
//!     "race: `scale` on compute (command 5) reads d[0..4 MiB] while the copy on \
//!      copy (command 4) may still write it; nothing orders them. Record an event on \
//!      copy after command 4 and let compute wait for it before command 5.",
//! );
//! let mended = Fix::of(&p, &found[0], Mode::Contract).apply(&p);
//! assert!(hazard::check(&mended, Mode::Contract)?.hazards.is_empty());
//!
//! let machine = Machine::builtin("h200-pcie5").ok_or("no such machine")?;
//! let (racy, safe) = (sim::run(&p, &machine)?.end, sim::run(&mended, &machine)?.end);
//! assert!(racy < safe, "the copy no longer overlaps the kernel");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what you want | where it is |
//! |---|---|
//! | write a program, read one from text or JSON, show it as code for PyTorch, CUDA C++ or Rust | [`Program`], [`program::text`], [`program::json`], [`program::code`] |
//! | know whether it is safe, and what would mend it | [`hazard::check()`], [`hazard::Fix`] |
//! | see two orders that show a race, or go through all of them | [`explore::witness()`], [`explore::explore()`] |
//! | know how long it takes, and why | [`sim::run()`], [`machine::Machine`] |
//! | rank ways to transfer, ask what a change would save, fit a machine to measurements | [`advise`], [`advise::whatif`], [`advise::fit()`] |
//! | write transfers that the types keep safe, and try them without a device | [`simulated`] |
//! | know which bytes strided views share, and move tensors with their aliasing | [`memory::Layout`], [`memory::Module`], [`memory::Span`] |
//! | compose linear operators over devices, and solve with them | [`op`], [`op::Operator`], [`plan::Solver`] |
//! | turn an expression or a move into a program | [`op::Operator::plan`], [`plan::lower`] |
//! | read PyTorch's traces and memory snapshots, with figures and findings | [`trace::read()`], [`trace::analysis`], [`trace::snapshot`] |
//!
//! Nothing here reads a file or a clock, or starts a thread: orders, times and verdicts are the same on every machine and in
//! WebAssembly. The package `spanlift-native` runs programs on processors and on CUDA devices and has the
//! command; `spanlift-viewer` draws.
#![forbid(unsafe_code)]
// What readers copy from the examples gives them no warning of a result that is left.
#![doc(test(attr(deny(unused_must_use))))]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod advise;
mod error;
pub mod explore;
pub mod hazard;
pub mod id;
mod json;
pub mod machine;
pub mod memory;
pub mod op;
pub mod ordered;
pub mod plan;
pub mod program;
pub mod sim;
pub mod simulated;
mod splitmix;
pub mod text;
pub mod trace;
mod units;

pub use program::Program;
pub use trace::Trace;
pub use units::{Bytes, Nanos, Size, kib, mib, us};
