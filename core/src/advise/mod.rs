//! What to do about transfers: figures of machines fitted to measurements, strategies and what they would take.
//!
//! This room reads all others and none reads it. What is ranked, fitted and asked "what if" is simulated, never taken
//! from a formula beside the simulator. One thing cannot wait for a simulation: the engine that moves bytes chooses a way
//! for every call, within a microsecond. Its closed forms stand in [`transfer`], and tests hold them to the simulator.
//!
//! | what you want | where it is |
//! |---|---|
//! | the ways to send tensors, ranked, and what decided | [`rank()`], [`predict()`], [`factors()`], [`map`] |
//! | the arrangements of a pipeline, and where one overtakes the other | [`compare()`], [`crossings`] |
//! | what a change of a program or a machine would come to | [`whatif`] |
//! | what could be better in a recorded trace or a memory snapshot | [`trace`] |
//! | the figures of a machine from measured rows | [`rows`], [`fit()`] |
//! | the way that the transfer engine takes, and why | [`transfer`] |
//!
//! ```
//! use spanlift::advise::{Depth, Origin, Request, rank};
//! use spanlift::machine::Machine;
//!
//! let request = Request { cores: 4, ..Request::new(vec!["1000x4KB".parse()?], Origin::Pageable) };
//! let ranking = rank(&request, &Machine::default(), Depth::QUICK)?;
//! let best = ranking.best().ok_or("nothing can be done")?;
//! assert_eq!(best.strategy.name(), "coalesced"); // one copy in place of a thousand
//! println!("{}, and once {}; bound by {}", best.time, best.setup, best.bound());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compare;
mod factors;
mod fit;
mod least_squares;
pub mod map;
mod predict;
mod rank;
mod request;
mod row;
mod strategy;
pub mod trace;
pub mod transfer;
pub mod whatif;

pub use compare::{Compared, Crossing, Varies, as_pipeline, compare, crossings};
pub use factors::{Change, Factor, factors};
pub use fit::{Direction, Fit, FitError, FittedFigure, FittedRow, Standing, USUAL_FIGURES, fit};
pub use least_squares::Stop;
pub use predict::{AdviseError, Depth, Memory, Prediction, Spent, predict};
pub use rank::{Decision, Excluded, Ranking, rank};
pub use request::{Origin, Request, Tensors, TensorsError};
pub use row::{Row, RowsError, rows};
pub use strategy::Strategy;
