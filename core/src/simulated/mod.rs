//! The transfer engine's safe interface on a simulated device: the same calls and the same types, without a GPU and without
//! unsafe code.
//!
//! Code that is written against `spanlift_native::engine` compiles here and moves real values: what is refused by the compiler there is
//! refused here, at the same place. Every call adds what a driver would be asked for to a [`Program`]; contents of a buffer are what the
//! [simulator](crate::sim) finds in it on a machine of your choice. So a transfer can be tested, timed, checked and looked at
//! where nobody has a device:
//!
//! ```
//! use spanlift::hazard::{self, Mode};
//! use spanlift::machine::Machine;
//! use spanlift::simulated::Engine;
//!
//! let machine = Machine::builtin("h200-pcie5").ok_or("no such machine")?;
//! let engine = Engine::open(0, machine)?;
//! let stream = engine.stream();
//! let mut sent = engine.pin(&[1f32, 2.0, 3.0])?;
//! let (mut there, mut back) = (engine.alloc(stream, 3)?, engine.pinned(3)?);
//! engine.scope(|s| {
//!     let up = s.h2d(stream, &mut sent, &mut there)?; // returns at once
//!     // sent[0] = 0.0; // does not compile: it is lent
//!     let (_, there) = up.wait()?;
//!     let _ = s.d2h(stream, there, &mut back)?; // nobody waits for it: the scope does
//!     Ok(())
//! })?;
//! assert_eq!(back[..], [1.0, 2.0, 3.0]);
//!
//! assert!(hazard::check(&engine.program(), Mode::Contract)?.hazards.is_empty());
//! assert!(engine.run()?.trace.slices.len() >= 2); // two copies, with the calls that made them
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | misuse | why it does not compile |
//! |---|---|
//! | writing the source while it is in flight | it is lent exclusively to the scope, or was moved |
//! | reading the destination before the wait | the same |
//! | two transfers with one destination | it is lent once |
//! | a token that leaves its scope | its lifetime is the scope's |
//! | waiting twice | waiting takes the token |
//!
//! ```compile_fail,E0499
//! # use spanlift::{machine::Machine, simulated::Engine};
//! let engine = Engine::open(0, Machine::default())?;
//! let mut sent = engine.pin(&[1f32, 2.0])?;
//! let mut there = engine.alloc(engine.stream(), 2)?;
//! engine.scope(|s| {
//!     std::mem::forget(s.h2d(engine.stream(), &mut sent, &mut there)?); // unlocks nothing
//!     sent[0] = 9.0;
//!     Ok(())
//! })?;
//! # Ok::<(), spanlift::simulated::EngineError>(())
//! ```
//!
//! What types cannot see is the checker's: work on two streams that nothing orders is issued as it is written, the simulator shows
//! what one schedule makes of it, and [`hazard::check`](crate::hazard::check()) names the two sites.
//!
//! ```
//! use spanlift::hazard::{self, Mode};
//! use spanlift::machine::Machine;
//! use spanlift::memory::Dtype;
//! use spanlift::program::{Compute, StreamKind};
//! use spanlift::simulated::{Engine, Event, Stream};
//!
//! let engine = Engine::open(0, Machine::default())?;
//! let (copy, compute) = (engine.stream(), Stream::new(&engine, StreamKind::NonBlocking));
//! let (_, mut there) = engine.h2d(copy, engine.pin(&[1i32; 4])?, engine.alloc(copy, 4)?)?.wait()?;
//! engine.update(&compute, Compute::affine(Dtype::I32, 2.0, 0.0), &mut there)?;
//! // copy.wait(&Event::after(&compute))?; // is missing
//! let (_, back) = engine.d2h(copy, there, engine.pinned(4)?)?.wait()?;
//! let hazards = hazard::check(&engine.program(), Mode::Contract)?.hazards;
//! assert!(hazard::sentence(&engine.program(), &hazards[0]).starts_with("race: "));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | here | on a device |
//! |---|---|
//! | an engine and what it made stay on one thread; it has no clones | calls from any thread, by clones too |
//! | `Stream::new(&engine, kind)` | `Stream::new(engine.context(), kind)?` |
//! | a pinned buffer holds zeros at first | unspecified values |
//! | [`Engine::compute`] takes the formula | the kernels too |
//! | elements are [`Value`]s, whose bytes are the same on every machine | any plain type |
//! | nothing but a wrong call fails | memory runs out, devices are lost |
//! | slices are staged on the calling thread by three slots of 1 MiB | the way that a cost model chooses |
//! | no copies and views within the device, lists, files, peers and pipelines, no way that is asked for and nobody watching; no question whether a transfer is done: what it would be answered is a matter of times, which [`Engine::run`] tells | all of them |
//!
//! # Cost
//! A call adds a few commands. Looking at a pinned buffer that was brought from the device simulates all calls so far, unless nothing
//! was issued since the last look. Contents that the host writes are kept in the program, where each element that is no repetition
//! takes eight bytes, and eight for each byte where its value is none that a program can say as a number (complex numbers, numbers
//! that are not finite).

mod flight;
mod memory;
mod slices;
mod stream;
mod value;

use std::cell::{Ref, RefCell, RefMut};
use std::fmt;
use std::rc::Rc;

use crate::machine::Machine;
use crate::program::{BufferId, Compute, Func, Program, StreamKind};
use crate::sim::{self, Final, Run, SimError};

use memory::part_of;
use slices::Staging;

pub use flight::{InFlight, Scope};
pub use memory::{DevBuf, PinnedBuf};
pub use stream::{Event, Stream};
pub use value::Value;

/// Bytes of all buffers together: what the simulator carries.
const MOST_BYTES: u64 = 1 << 30;

/// Why a call is refused.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineError {
    /// Source and destination differ in length.
    Length {
        /// Elements of the source.
        from: usize,
        /// Elements of the destination.
        to: usize,
    },
    /// A stream, an event or memory of another engine.
    OtherEngine,
    /// The buffers of an engine come to more bytes than the simulator carries.
    TooLarge {
        /// What they would come to.
        needed: u64,
        /// What is possible.
        limit: u64,
    },
    /// What was asked for cannot be.
    Argument(&'static str),
    /// The calls so far cannot be simulated.
    Sim(Box<SimError>),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Length { from, to } => write!(f, "{from} elements do not fit {to}"),
            EngineError::OtherEngine => f.write_str("a stream, an event or memory of another engine"),
            EngineError::TooLarge { needed, limit } => {
                write!(f, "the engine's buffers come to {needed} bytes, at most {limit} are carried")
            }
            EngineError::Argument(what) => f.write_str(what),
            EngineError::Sim(error) => error.fmt(f),
        }
    }
}

crate::error::readable!(EngineError);

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EngineError::Sim(error) => error.source(), // its message is part of this one's
            _ => None,
        }
    }
}

impl From<SimError> for EngineError {
    fn from(error: SimError) -> EngineError {
        EngineError::Sim(Box::new(error))
    }
}

/// A call that takes buffers was refused: why, and the buffers.
///
/// Only the error is kept by `?` where an [`EngineError`] is expected. It can be sent to other threads, as errors have to for `anyhow`;
/// simulated buffers stay on theirs, so it is taken out first.
///
/// ```
/// use spanlift::{machine::Machine, simulated::{Engine, EngineError}};
///
/// fn up(engine: &Engine) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     let (from, to) = (engine.pin(&[1f32, 2.0])?, engine.alloc(engine.stream(), 3)?);
///     let flight = engine.h2d(engine.stream(), from, to).map_err(EngineError::from)?;
///     flight.wait().map_err(EngineError::from)?;
///     Ok(())
/// }
/// let told = up(&Engine::open(0, Machine::default())?).unwrap_err().to_string();
/// assert!(told.contains("2") && told.contains("3"), "{told}");
/// # Ok::<(), EngineError>(())
/// ```
pub struct Refused<B> {
    /// Why.
    pub error: EngineError,
    /// What was given; always there, as nothing is lost here. On a device it may be.
    pub buffers: Option<B>,
}

impl<B> fmt::Display for Refused<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

crate::error::told!(Refused<B>);

impl<B> From<Refused<B>> for EngineError {
    fn from(refused: Refused<B>) -> EngineError {
        refused.error
    }
}

/// What was asked of an engine.
#[derive(Debug)]
struct Issued {
    program: Program,
    /// Bytes of all buffers so far.
    bytes: u64,
    /// What buffers held after so many commands.
    known: Option<(usize, Vec<Final>)>,
}

/// What an engine and all that it made have together; its identity is the engine's.
#[derive(Debug, Clone)]
struct Shared(Rc<Device>);

#[derive(Debug)]
struct Device {
    issued: RefCell<Issued>,
    machine: Machine,
    dev: u32,
}

impl Shared {
    fn dev(&self) -> u32 {
        self.0.dev
    }

    /// The program, to add to.
    ///
    /// Borrows end within the call that makes them, none of which calls another's code.
    fn program(&self) -> RefMut<'_, Program> {
        RefMut::map(self.0.issued.borrow_mut(), |issued| &mut issued.program)
    }

    fn is(&self, other: &Shared) -> Result<(), EngineError> {
        if Rc::ptr_eq(&self.0, &other.0) { Ok(()) } else { Err(EngineError::OtherEngine) }
    }

    /// Counts one more buffer, of so many elements of so many bytes; gives its bytes.
    fn room(&self, len: usize, size: usize) -> Result<u64, EngineError> {
        let bytes = (len as u64).saturating_mul(size as u64);
        let mut issued = self.0.issued.borrow_mut();
        let needed = issued.bytes.saturating_add(bytes);
        if needed > MOST_BYTES {
            return Err(EngineError::TooLarge { needed, limit: MOST_BYTES });
        }
        issued.bytes = needed;
        Ok(bytes)
    }

    /// What the host finds in the first bytes of a buffer that it looks at now.
    fn look(&self, buffer: BufferId, bytes: usize) -> Result<Vec<u8>, SimError> {
        let mut issued = self.0.issued.borrow_mut();
        let finals = match issued.known.take() {
            Some((then, finals)) if then == issued.program.len() => finals,
            _ => sim::run(&issued.program, &self.0.machine)?.finals,
        };
        let found = finals.iter().find(|found| found.buffer == buffer);
        let found = found.and_then(|found| found.bytes.get(..bytes)).map(<[u8]>::to_vec);
        // Looking changes nothing, so what is known stays so.
        issued.program.host_read(part_of(buffer, 0, bytes));
        issued.known = Some((issued.program.len(), finals));
        Ok(found.unwrap_or_else(|| unreachable!("bug: memory of the host carries bytes")))
    }
}

/// A simulated device with the calls of the transfer engine.
///
/// It stays on its thread, with all that it made.
#[derive(Debug)]
pub struct Engine {
    shared: Shared,
    stream: Stream,
    staging: RefCell<Staging>,
}

impl Engine {
    /// Opens device `ordinal` of a machine; a machine has as many devices as are asked for.
    ///
    /// # Errors
    /// A figure of the machine is none that a file could say.
    ///
    /// # Examples
    /// ```
    /// use spanlift::{machine::Machine, simulated::Engine};
    ///
    /// let engine = Engine::open(0, Machine::default())?;
    /// assert_eq!(engine.ordinal(), 0);
    /// assert_eq!(engine.program().to_text(), "machine tutorial-ci\nstream  s0\n");
    /// # Ok::<(), spanlift::simulated::EngineError>(())
    /// ```
    pub fn open(ordinal: u32, machine: Machine) -> Result<Engine, EngineError> {
        // Tried once, so that no later call fails for it.
        sim::run(&Program::new(), &machine)?;
        let mut program = Program::new();
        // So that whoever is handed the program simulates it on the same one, where a name says it.
        if Machine::builtin(&machine.name).is_some_and(|known| known == machine) {
            program.machine = Some(machine.name.clone());
        }
        let issued = Issued { program, bytes: 0, known: None };
        let device = Device { issued: RefCell::new(issued), machine, dev: ordinal };
        let shared = Shared(Rc::new(device));
        let stream = Stream::made(&shared, StreamKind::NonBlocking);
        Ok(Engine { shared, stream, staging: RefCell::default() })
    }

    /// Which device it is.
    pub fn ordinal(&self) -> u32 {
        self.shared.dev()
    }

    /// A stream of the engine's own.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// All that was issued so far, to be checked, shown or simulated.
    pub fn program(&self) -> Program {
        Ref::map(self.shared.0.issued.borrow(), |issued| &issued.program).clone()
    }

    /// What all that was issued so far does on the machine, and when.
    ///
    /// # Errors
    /// [`EngineError::Sim`]: it is more than can be simulated.
    pub fn run(&self) -> Result<Run, EngineError> {
        Ok(sim::run(&self.program(), &self.shared.0.machine)?)
    }

    /// A page-locked buffer of zeros.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`].
    pub fn pinned<T: Value>(&self, len: usize) -> Result<PinnedBuf<T>, EngineError> {
        PinnedBuf::new(&self.shared, len)
    }

    /// A page-locked buffer with these elements.
    ///
    /// # Errors
    /// As [`Engine::pinned`].
    pub fn pin<T: Value>(&self, from: &[T]) -> Result<PinnedBuf<T>, EngineError> {
        let mut pinned = self.pinned(from.len())?;
        pinned.hold(from);
        Ok(pinned)
    }

    /// Fills a page-locked buffer.
    ///
    /// # Errors
    /// [`EngineError::Length`].
    pub fn pin_into<T: Value>(&self, from: &[T], to: &mut PinnedBuf<T>) -> Result<(), EngineError> {
        if from.len() != to.n_elements() {
            return Err(EngineError::Length { from: from.len(), to: to.n_elements() });
        }
        to.hold(from);
        Ok(())
    }

    /// Elements in the device's memory, whose values are unspecified, allocated in the order of `stream` and freed in it.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`], or the stream is another engine's.
    pub fn alloc<T: Value>(&self, stream: &Stream, len: usize) -> Result<DevBuf<T>, EngineError> {
        self.shared.is(&stream.shared)?;
        DevBuf::new(stream, len)
    }

    /// The host waits for all work of the device.
    ///
    /// # Errors
    /// None; a device's engine has some.
    pub fn synchronize(&self) -> Result<(), EngineError> {
        self.shared.program().device_sync(self.shared.dev());
        Ok(())
    }

    /// Computes a formula of one operand, element by element, in the order of `stream`: `y = f(x)`.
    ///
    /// # Errors
    /// The lengths differ, the formula is not of this type or takes no single operand, or one is another engine's.
    ///
    /// # Examples
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::program::Compute;
    /// use spanlift::{machine::Machine, simulated::Engine};
    ///
    /// let engine = Engine::open(0, Machine::default())?;
    /// let stream = engine.stream();
    /// let (x, there) = engine.h2d(stream, engine.pin(&[1f32, 2.0])?, engine.alloc(stream, 2)?)?.wait()?;
    /// let mut result = engine.alloc(stream, 2)?;
    /// engine.compute(stream, Compute::affine(Dtype::F32, 3.0, 1.0), &there, &mut result)?; // y = 3 x + 1
    /// let (_, y) = engine.d2h(stream, result, engine.pinned(2)?)?.wait()?;
    /// assert_eq!((&x[..], &y[..]), (&[1.0, 2.0][..], &[4.0, 7.0][..]));
    /// # Ok::<(), spanlift::simulated::EngineError>(())
    /// ```
    pub fn compute<T: Value>(
        &self,
        stream: &Stream,
        formula: Compute,
        x: &DevBuf<T>,
        y: &mut DevBuf<T>,
    ) -> Result<(), EngineError> {
        if x.len() != y.len() {
            return Err(EngineError::Length { from: x.len(), to: y.len() });
        }
        self.launch(stream, formula, x, y)
    }

    /// The same in place: `x = f(x)`.
    ///
    /// # Errors
    /// As [`Engine::compute`].
    pub fn update<T: Value>(
        &self,
        stream: &Stream,
        formula: Compute,
        x: &mut DevBuf<T>,
    ) -> Result<(), EngineError> {
        self.launch(stream, formula, x, x)
    }

    fn launch<T: Value>(
        &self,
        stream: &Stream,
        formula: Compute,
        x: &DevBuf<T>,
        y: &DevBuf<T>,
    ) -> Result<(), EngineError> {
        if formula.dtype != T::DTYPE {
            return Err(EngineError::Argument("a formula of elements of another type"));
        }
        // The one that kernels compute of a single operand.
        if !matches!(formula.func, Func::Affine { .. }) {
            return Err(EngineError::Argument("a formula that takes no single operand"));
        }
        for shared in [&stream.shared, &x.block.shared, &y.block.shared] {
            self.shared.is(shared)?;
        }
        if x.is_empty() {
            return Ok(());
        }
        x.block.used_on(stream.id);
        y.block.used_on(stream.id);
        let mut program = self.shared.program();
        program.kernel("compute").reads(x.part()).writes(y.part()).computes(formula).on(stream.id);
        Ok(())
    }
}
