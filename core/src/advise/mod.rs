//! What to do about transfers: figures of machines fitted to measurements, strategies and what they would take.
//!
//! This room reads all others and none reads it. What is ranked, fitted and asked "what if" is simulated, never taken
//! from a formula beside the simulator. One thing cannot wait for a simulation: the engine that moves bytes chooses a way
//! for every call, within a microsecond. Its closed forms stand in [`transfer`], and tests hold them to the simulator.

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
