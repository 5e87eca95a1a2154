//! Fits figures of a machine to measured rows, and says what the rows cannot determine.
//!
//! The simulated time of every row is compared with the measured one; the logarithms of the fitted figures move until the
//! sum of squared relative residuals is smallest. The derivatives at the end say how far each figure is determined: a
//! direction in which figures can move together without moving a row is named with them.

use std::fmt;

use super::least_squares::{self, Minimum, Stop, Svd, svd};
use super::row::{Row, timed};
use crate::machine::{Grade, Machine, MachineError, Source};
use crate::ordered::{BTreeMap, CollectVec, sort_by};
use crate::program::Program;
use crate::sim::SimError;

/// The figures that are fitted where nobody says which: those that the published rows determine.
pub const USUAL_FIGURES: [&str; 9] = [
    "framework_to_overhead",
    "sync_return",
    "h2d_bw",
    "stage_hot_bw",
    "stage_cold_bw",
    "host_memcpy_hot_bw",
    "host_memcpy_cold_bw",
    "dma_interference",
    "td_leaf_overhead",
];

/// Factors that can be fitted, besides all times and rates.
const FACTORS: [&str; 3] = ["dma_interference", "bidir_factor_h2d", "bidir_factor_d2h"];

/// A direction is not determined when moving along it by a tenth moves no row by more than a thousandth, about.
const WEAK: f64 = 0.01;
/// A figure has no influence when moving it by a tenth moves no row by more than a millionth, of its measured time or its own.
const NOTHING: f64 = 1e-5;
/// A figure is told as part of an undetermined direction from this share on.
const SHARE: f64 = 0.1;
/// Steps at most.
const MOST_STEPS: u32 = 60;

/// Why there is no fit.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum FitError {
    /// No figure that can be fitted has this name.
    Figure(String),
    /// No figure was named.
    NoFigure,
    /// A figure was named twice.
    Twice(String),
    /// A row says something that cannot be.
    Row {
        /// The row.
        id: String,
        /// Its field.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// A row cannot be simulated.
    Simulation {
        /// The row.
        id: String,
        /// Why.
        error: SimError,
    },
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::Figure(text) => {
                write!(f, "{text:?} is no figure that can be fitted: {list}", list = fittable().join(", "))
            }
            FitError::NoFigure => f.write_str("there is no figure to fit"),
            FitError::Twice(text) => write!(f, "{text:?} is named twice"),
            FitError::Row { id, field, message } => write!(f, "row {id:?}, field {field:?}: {message}"),
            FitError::Simulation { id, error } => write!(f, "row {id:?}: {error}"),
        }
    }
}

crate::error::told!(FitError);

/// A machine fitted to rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The machine; its fitted figures say that they are.
    pub machine: Machine,
    /// The fitted figures, in the order asked for.
    pub figures: Vec<FittedFigure>,
    /// The rows, in the order given.
    pub rows: Vec<FittedRow>,
    /// Directions in which figures can move without moving a row.
    pub undetermined: Vec<Direction>,
    /// How many directions the rows determine.
    pub rank: usize,
    /// Steps taken, and why there were no more.
    pub n_steps: u32,
    /// Why the iteration ended.
    pub stop: Stop,
}

/// One figure of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedFigure {
    /// Its name in files.
    pub name: String,
    /// `us`, `GB/s` or empty.
    pub unit: &'static str,
    /// Where it began.
    pub start: f64,
    /// Where it ended.
    pub value: f64,
    /// By how much of a row's time the rows move, root mean square, when the figure moves by a factor of e.
    pub influence: f64,
    /// What the rows say of it.
    pub standing: Standing,
}

/// What the rows say of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Standing {
    /// They determine it; to within this part of it, where there are more rows than figures.
    Determined(Option<f64>),
    /// They leave it open, alone or together with others: see [`Fit::undetermined`].
    Open,
    /// No row depends on it: it is where it began.
    NoInfluence,
}

/// One row of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedRow {
    /// What it is called.
    pub id: String,
    /// The measured time in milliseconds.
    pub measured_ms: f64,
    /// The simulated one.
    pub fitted_ms: f64,
    /// How much of a figure of its own the row has: at 1 its residual says nothing, since a figure follows this row alone.
    pub leverage: f64,
}

impl FittedRow {
    /// `fitted / measured - 1`
    pub fn residual(&self) -> f64 {
        self.fitted_ms / self.measured_ms - 1.0
    }
}

/// A direction of the logarithms of figures, of length 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// The figures that take part, largest share first, each with its component.
    pub parts: Vec<(String, f64)>,
    /// By how much of their times the rows move along it, in all; 0 when it cannot be told from standing still.
    pub moves: f64,
}

/// The names of the figures that can be fitted.
fn fittable() -> Vec<&'static str> {
    let machine = Machine::default();
    let is_fittable = |name: &str, unit: &str| matches!(unit, "us" | "GB/s") || FACTORS.contains(&name);
    machine.figures().filter(|f| is_fittable(f.name, f.unit)).map(|f| f.name).collect_vec()
}

/// Fits `figures` of `start` to `rows`.
///
/// # Errors
/// [`FitError`]: figures that cannot be fitted, or a row that cannot be simulated.
///
/// # Cost
/// About 20 simulations of every row for each step; some ten steps.
///
/// # Source
/// Levenberg 1944, on the logarithms of the figures.
///
/// # Examples
/// One row cannot tell a call's time from the link's:
///
/// ```
/// use spanlift::advise::{Standing, fit, rows};
/// use spanlift::machine::Machine;
///
/// let file = br#"{"rows": [{"tensors": 10, "bytes_each": 4000000, "pinned": true, "measured_ms": 3.0}]}"#;
/// let fit = fit(&rows(file)?, &Machine::default(), &["h2d_bw", "call_memcpy_async", "call_launch"])?;
/// assert!(fit.rows[0].residual().abs() < 1e-4);
/// assert_eq!(fit.undetermined.len(), 1);
/// assert_eq!(fit.figures[2].standing, Standing::NoInfluence); // no row launches a kernel
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit(rows: &[Row], start: &Machine, figures: &[&str]) -> Result<Fit, FitError> {
    if let Some((row, (field, message))) = rows.iter().find_map(|row| Some((row, row.fault()?))) {
        return Err(FitError::Row { id: row.id.clone(), field, message });
    }
    let problem = Problem::new(rows, start, figures)?;
    let x = problem.start();
    // Figures that no row depends on would only slow the search down.
    let (_, mut seen) = problem.look(&x)?;
    let mut x = x;
    loop {
        let Minimum { x: there, n_steps, stop, .. } = problem.minimise(&x, &seen)?;
        x = there;
        // A figure may begin to matter where others have moved to, such as a limit that was out of reach.
        let (columns, is) = problem.look(&x)?;
        let now: Vec<bool> = is.iter().zip(&seen).map(|(is, was)| *is || *was).collect_vec();
        if now == seen {
            return problem.report(&x, &columns, &seen, (n_steps, stop));
        }
        seen = now;
    }
}

fn length(column: &[f64]) -> f64 {
    column.iter().map(|c| c * c).sum::<f64>().sqrt()
}

struct Problem<'a> {
    rows: &'a [Row],
    programs: Vec<Program>,
    start: &'a Machine,
    figures: Vec<(&'a str, &'static str)>,
}

impl<'a> Problem<'a> {
    fn new(rows: &'a [Row], start: &'a Machine, figures: &[&'a str]) -> Result<Problem<'a>, FitError> {
        if figures.is_empty() {
            return Err(FitError::NoFigure);
        }
        let units: BTreeMap<&str, &'static str> = start.figures().map(|f| (f.name, f.unit)).collect();
        let known = fittable();
        let mut checked: Vec<(&str, &'static str)> = Vec::new();
        for &name in figures {
            let unit = units.get(name).filter(|_| known.contains(&name));
            let &unit = unit.ok_or_else(|| FitError::Figure(name.to_owned()))?;
            if checked.iter().any(|(other, _)| *other == name) {
                return Err(FitError::Twice(name.to_owned()));
            }
            checked.push((name, unit));
        }
        let programs = rows.iter().map(Row::program).collect_vec();
        Ok(Problem { rows, programs, start, figures: checked })
    }

    /// The logarithms of the figures; what begins at nothing begins at a thousandth.
    fn start(&self) -> Vec<f64> {
        let value = |name| self.start.figure(name).unwrap_or_default();
        self.figures.iter().map(|(name, _)| value(name).max(1e-3).ln()).collect_vec()
    }

    /// The machine whose figures have these logarithms.
    fn machine(&self, x: &[f64]) -> Result<Machine, MachineError> {
        let mut machine = self.start.clone();
        // What the profile says of itself is of its own figures.
        machine.note.clear();
        let source = Source { grade: Grade::Derived, text: "least-squares fit".into() };
        for ((name, _), x) in self.figures.iter().zip(x) {
            // Of its rate a direction keeps no more than all.
            let most = if name.starts_with("bidir_factor") { 1.0 } else { f64::INFINITY };
            machine.set(name, x.exp().min(most), source.clone())?;
        }
        Ok(machine)
    }

    fn residuals(&self, x: &[f64]) -> Result<Vec<f64>, FitError> {
        // Values that cannot be are as bad as it gets, so that the search turns back.
        let Ok(machine) = self.machine(x) else { return Ok(vec![1e6; self.rows.len()]) };
        let times = self.times(&machine)?;
        Ok(times.iter().zip(self.rows).map(|(ms, row)| ms / row.ms - 1.0).collect_vec())
    }

    /// The derivatives of the residuals, and which figures have any influence.
    fn look(&self, x: &[f64]) -> Result<(Vec<Vec<f64>>, Vec<bool>), FitError> {
        let columns = least_squares::jacobian(&mut |x: &[f64]| self.residuals(x), x)?;
        let residuals = self.residuals(x)?;
        let is_seen = columns.iter().map(|column| {
            // A row that is far too fast hardly changes its residual, and still depends on its figures.
            let parts = residuals.iter().map(|r| (r + 1.0).clamp(f64::MIN_POSITIVE, 1.0));
            NOTHING < length(&column.iter().zip(parts).map(|(c, part)| c / part).collect_vec())
        });
        let is_seen = is_seen.collect_vec();
        Ok((columns, is_seen))
    }

    fn times(&self, machine: &Machine) -> Result<Vec<f64>, FitError> {
        let simulated = self.programs.iter().zip(self.rows).map(|(program, row)| {
            timed(program, machine)
                .map(|t| t.as_millis())
                .map_err(|error| FitError::Simulation { id: row.id.clone(), error })
        });
        simulated.try_collect_vec()
    }

    /// Moves the figures that are `seen`, from `x` on.
    fn minimise(&self, x: &[f64], seen: &[bool]) -> Result<Minimum, FitError> {
        let whole = |part: &[f64]| {
            let mut part = part.iter();
            let moved = x.iter().zip(seen).map(|(x, seen)| if *seen { part.next().unwrap_or(x) } else { x });
            moved.copied().collect_vec()
        };
        let begin: Vec<f64> = x.iter().zip(seen).filter(|(_, seen)| **seen).map(|(x, _)| *x).collect_vec();
        let mut residuals = |part: &[f64]| self.residuals(&whole(part));
        let found = least_squares::minimise(&mut residuals, begin, MOST_STEPS)?;
        Ok(Minimum { x: whole(&found.x), ..found })
    }

    /// What was found at `x`; `moved` says which figures were.
    fn report(
        &self,
        x: &[f64],
        columns: &[Vec<f64>],
        moved: &[bool],
        (n_steps, stop): (u32, Stop),
    ) -> Result<Fit, FitError> {
        let mut machine = self.machine(x).unwrap_or_else(|_| self.start.clone());
        let seen = svd(columns);
        let is_strong = |sigma: f64| WEAK <= sigma;
        let rank = seen.sigma.iter().filter(|s| is_strong(**s)).count();
        let times = self.times(&machine)?;
        let rows: Vec<FittedRow> = self
            .rows
            .iter()
            .zip(times)
            .enumerate()
            .map(|(i, (row, fitted_ms))| FittedRow {
                id: row.id.clone(),
                measured_ms: row.ms,
                fitted_ms,
                leverage: seen.u[..rank].iter().map(|u| u[i] * u[i]).sum(),
            })
            .collect_vec();
        let sum: f64 = rows.iter().map(|r| r.residual() * r.residual()).sum();
        let n_free = rows.len().saturating_sub(rank);
        let spread = (n_free > 0).then(|| (sum / n_free as f64).sqrt());
        let n_rows = rows.len() as f64;
        let figures = self.figures.iter().enumerate().map(|(j, &(name, unit))| {
            let influence = length(&columns[j]);
            let share: f64 = seen.v[rank..].iter().map(|v| v[j] * v[j]).sum();
            let standing = if !moved[j] {
                Standing::NoInfluence
            } else if SHARE < share || influence <= NOTHING {
                Standing::Open
            } else {
                let strong = seen.sigma.iter().zip(&seen.v).take(rank);
                let variance: f64 = strong.map(|(sigma, v)| (v[j] / sigma).powi(2)).sum();
                Standing::Determined(spread.map(|s| s * variance.sqrt()))
            };
            // Of what nothing depends on, 0 stays 0.
            let of = if moved[j] { &machine } else { self.start };
            FittedFigure {
                name: name.to_owned(),
                unit,
                start: self.start.figure(name).unwrap_or_default(),
                value: of.figure(name).unwrap_or_default(),
                influence: influence / n_rows.sqrt(),
                standing,
            }
        });
        let figures: Vec<FittedFigure> = figures.collect_vec();
        let undetermined = self.directions(&seen, rank, &figures);
        for figure in &figures {
            // What the rows do not tell was not derived from them.
            let source = match figure.standing {
                Standing::Determined(_) => continue,
                Standing::NoInfluence => {
                    self.start.figures().find(|f| f.name == figure.name).map(|f| f.source)
                }
                Standing::Open => None,
            };
            let open =
                || Source { grade: Grade::Assumed, text: "fitted to rows that do not determine it".into() };
            // A value that the machine has is one that it can have.
            let _ = machine.set(&figure.name, figure.value, source.unwrap_or_else(open));
        }
        Ok(Fit { machine, figures, rows, undetermined, rank, n_steps, stop })
    }

    /// The directions that the rows do not see, but for figures without any influence.
    fn directions(&self, seen: &Svd, rank: usize, figures: &[FittedFigure]) -> Vec<Direction> {
        let mut found = Vec::new();
        for (sigma, v) in seen.sigma.iter().zip(&seen.v).skip(rank) {
            let mut parts: Vec<(String, f64)> = figures
                .iter()
                .zip(v)
                .filter(|(f, v)| f.standing != Standing::NoInfluence && SHARE < *v * *v)
                .map(|(f, v)| (f.name.clone(), *v))
                .collect_vec();
            sort_by(&mut parts, |a, b| b.1.abs().total_cmp(&a.1.abs()));
            if !parts.is_empty() {
                found.push(Direction { parts, moves: *sigma });
            }
        }
        found
    }
}

impl Fit {
    /// The largest residual, as a part of the measured time.
    pub fn worst(&self) -> f64 {
        self.rows.iter().map(|r| r.residual().abs()).fold(0.0, f64::max)
    }

    /// The root of the mean of the squared residuals.
    pub fn rms(&self) -> f64 {
        let sum: f64 = self.rows.iter().map(|r| r.residual() * r.residual()).sum();
        (sum / self.rows.len().max(1) as f64).sqrt()
    }
}
