//! The transfer engine: moves tensors between host and device memory at the rate of the link.
//!
//! Which way is taken is decided in [`spanlift::advise::transfer`]; here it is done.
//!
//! | what moves | call | returns when |
//! |---|---|---|
//! | a slice | [`Engine::upload`], [`Engine::upload_into`] | the source was consumed |
//! | many tensors | [`Engine::upload_all`] | all sources were consumed |
//! | a file | [`Engine::upload_file`] | it was read |
//! | a layout's move plan | [`Engine::carry_out`] | the host's side is done |
//! | back to a slice, to many | [`Engine::download`], [`Engine::download_all`] | everything is there |
//! | a page-locked buffer | [`Engine::h2d`], [`Engine::d2h`], in a [`Engine::scope`] | at once |
//! | within the device | [`Engine::copy`], [`Engine::compact`] | at once |
//! | many pieces within the device | [`Engine::copy_all`], [`Engine::compact_all`] | at once |
//! | nothing: a formula is computed | [`Engine::compute`], [`Engine::update`] | at once |
//! | to another device | [`Engine::to_device`] | at once |
//! | item after item, with work between | [`Pipeline`] | there is room for the item |
//!
//! **Order:** every call takes a stream. On the device the transfer comes after what that stream was given before, and
//! before what it is given next.
//!
//! **Threads:** calls are made from any thread. What waits takes up nothing else meanwhile, also on a thread of a rayon pool: where
//! several threads copy, such a call starts one that waits in its place.
//!
//! **Watching:** calls that end in `_with` or `_watched`, and [`Engine::upload_file`], tell how far they are and can be stopped
//! ([`Watch`]); lists and move plans as one.
//!
//! **Safety:** pageable memory is never touched by a device: it is copied into slots by the processor, and the call returns
//! when that is done. Page-locked buffers are taken by transfers, or borrowed exclusively for a scope that waits for all of
//! them before it ends. No guard has to be dropped for memory to be safe, so forgetting one harms nobody.
//!
//! **Without a device:** [`spanlift::simulated`] has scopes, tokens, buffers and slices on the simulator, for tests and for who has no GPU.
//!
//! **Failure:** every error of the driver comes out as an error of the call that met it, and the engine stays usable, with
//! these exceptions. Refused memory is made up for: device memory is asked for once more after what is free was given
//! back, page-locked memory in smaller pieces, lists within a device by a call for each piece, and what could not be had at open
//! stands in [`Engine::notes`]. What a drop is
//! refused is leaked. A sticky error, any error that a wait for the device is told, which is of work that nobody knows, a panic of a copy
//! thread, or a failure after which nothing tells what the device still does ends the engine: each later call answers [`EngineError::ContextLost`] with the first error without asking the driver,
//! and memory that a copy may still touch is leaked. A lost context gives nothing back, so then all of the engine's is.
//!
//! # Examples
//! A stream beside the engine's own waits for a copy, and the host waits for nothing:
//!
//! ```
//! use spanlift::program::StreamKind;
//! use spanlift_native::cuda::Stream;
//! use spanlift_native::engine::{Config, Engine};
//!
//! let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) }; // no device
//! let (up, down) = (engine.stream(), Stream::new(engine.context(), StreamKind::NonBlocking)?);
//! let mut sent = engine.pin(&[1f32, 2.0, 3.0])?;
//! let (mut there, mut back) = (engine.alloc(up, 3)?, vec![0f32; 3]);
//! engine.scope(|s| {
//!     let flight = s.h2d(up, &mut sent, &mut there)?; // returns at once
//!     flight.on(&down)?; // what `down` is given next comes after it
//!     Ok(())
//! })?;
//! engine.download(&down, &there, &mut back)?;
//! assert_eq!(back, [1.0, 2.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod calibrate;
pub mod copy;
mod device;
mod error;
mod journal;
mod list;
mod moves;
mod open;
mod peer;
mod pinned;
mod pipeline;
mod pool;
mod ring;
mod scope;
mod slot;
mod strips;
mod transfer;

pub use device::{DevBuf, DevPart, DeviceSlice, OnDevice, OwnOnDevice};
pub use error::{EngineError, Lost, Refused};
pub use moves::{Moved, Store};
pub use open::{Config, Engine};
pub use pinned::PinnedBuf;
pub use pipeline::{Limits, Mode, Pipeline, Ticket};
pub use ring::Watch;
pub use scope::{InFlight, Scope};
#[doc(hidden)]
pub use slot::Planted;
