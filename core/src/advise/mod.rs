//! What to do about transfers: figures of machines fitted to measurements, strategies and what they would take.
//!
//! This room reads all others and none reads it. Whatever it predicts comes from simulating programs, never from a
//! formula beside the simulator.

mod fit;
mod least_squares;
mod row;
pub mod trace;

pub use fit::{Direction, Fit, FitError, FittedFigure, FittedRow, Standing, USUAL_FIGURES, fit};
pub use least_squares::Stop;
pub use row::{Row, RowsError, rows};
