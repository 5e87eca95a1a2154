//! One program on many machines and in many forms, in parallel.

use rayon::prelude::*;
use spanlift::advise::whatif::{WhatIf, WhatIfError, what_if};
use spanlift::machine::Machine;
use spanlift::sim::{Ledger, Prepared, SimError};
use spanlift::{Nanos, Program};

/// Cells of a sweep at most.
pub const MAX_CELLS: usize = 10_000;

/// Why there is no sweep.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// More combinations than are run.
    #[error("the axes have {0} combinations, at most {MAX_CELLS} are run")]
    TooMany(usize),
    /// A change that cannot be made.
    #[error(transparent)]
    Change(#[from] WhatIfError),
    /// A changed program that cannot be run.
    #[error("with {changes}: {error}")]
    Simulation {
        /// The changes.
        changes: String,
        /// Why not.
        error: SimError,
    },
}

/// What came of one combination.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Which value of each axis.
    pub at: Vec<usize>,
    /// When the program ends.
    pub end: Nanos,
    /// What it moves.
    pub ledger: Ledger,
}

/// Runs every combination of one value of each axis; the last axis varies fastest.
///
/// An axis is a list of alternatives, each of any number of changes: `[[], ["pin:x"]]` is with and without.
///
/// # Errors
/// [`SweepError`] of the first combination that fails.
///
/// # Cost
/// One simulation for each combination on all cores; programs are looked over once for each form that they take.
///
/// ```
/// use spanlift::{Program, machine::Machine};
/// use spanlift_native::sweep::sweep;
///
/// let p = Program::from_text("stream s\npageable x 4MB\ndevice d 4MB\ncopy d <- x on s\nsync s")?;
/// let pins = [vec![], vec!["pin:x".parse()?]];
/// let rates = [vec!["h2d_bw=12".parse()?], vec!["h2d_bw=24".parse()?], vec!["h2d_bw=48".parse()?]];
/// let cells = sweep(&p, &Machine::default(), &[pins.to_vec(), rates.to_vec()])?;
/// assert_eq!(cells.len(), 6);
/// assert!(cells[3].end > cells[5].end, "pinned memory gains from a faster link");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sweep(
    program: &Program,
    machine: &Machine,
    axes: &[Vec<Vec<WhatIf>>],
) -> Result<Vec<Cell>, SweepError> {
    let n = axes.iter().fold(1usize, |n, axis| n.saturating_mul(axis.len()));
    if MAX_CELLS < n {
        return Err(SweepError::TooMany(n));
    }
    let places = |mut cell: usize| {
        let mut at: Vec<usize> = axes
            .iter()
            .rev()
            .map(|axis| {
                let place = cell % axis.len();
                cell /= axis.len();
                place
            })
            .collect();
        at.reverse();
        at
    };
    // Combinations that change the program alike share what is prepared of it.
    let forms_program = |k: usize| axes[k].iter().flatten().any(|change| !change.is_of_machine());
    let key = |at: &[usize]| -> Vec<usize> {
        (0..at.len()).map(|k| if forms_program(k) { at[k] } else { 0 }).collect()
    };
    let changes = |at: &[usize]| -> Vec<WhatIf> {
        axes.iter().zip(at).flat_map(|(axis, &k)| axis[k].clone()).collect()
    };
    let failed = |changes: &[WhatIf], error| {
        let texts: Vec<String> = changes.iter().map(ToString::to_string).collect();
        SweepError::Simulation { changes: texts.join(", "), error }
    };
    let mut keys: Vec<Vec<usize>> = (0..n).map(|cell| key(&places(cell))).collect();
    keys.sort_unstable();
    keys.dedup();
    let prepared: Vec<Prepared> = keys
        .par_iter()
        .map(|at| {
            let changes = changes(at);
            let changed = what_if(program, machine, &changes)?;
            Prepared::new(&changed.program).map_err(|error| failed(&changes, error))
        })
        .collect::<Result<_, SweepError>>()?;
    (0..n)
        .into_par_iter()
        .map(|cell| {
            let at = places(cell);
            let all = changes(&at);
            let of_machine: Vec<WhatIf> = all.iter().filter(|c| c.is_of_machine()).cloned().collect();
            let machine = what_if(&Program::new(), machine, &of_machine)?.machine;
            let form = keys.binary_search(&key(&at)).unwrap_or(0);
            let run = prepared[form].run(&machine).map_err(|error| failed(&all, error))?;
            Ok(Cell { at, end: run.end, ledger: run.ledger })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use spanlift::sim;

    use super::*;

    #[test]
    fn every_cell_is_the_run_of_its_own_changes() {
        let text = "stream s\nrepeat i 3\npageable x{i} 4MB\ndevice d{i} 4MB\nend\n\
                    repeat i 3\ncopy d{i} <- x{i} on s\nkernel k on s reads d{i} for 300us\nend\nsync s";
        let program = Program::from_text(text).unwrap();
        let machine = Machine::default();
        let axis = |texts: &[&str]| -> Vec<Vec<WhatIf>> {
            texts.iter().map(|t| t.split_whitespace().map(|w| w.parse().unwrap()).collect()).collect()
        };
        let axes = [
            axis(&["", "pin:*", "pin:x1"]),
            axis(&["h2d_bw=10", "h2d_bw=20 lat*2"]),
            axis(&["", "streams=3"]),
        ];
        let cells = sweep(&program, &machine, &axes).unwrap();
        assert_eq!(cells.len(), 12);
        for (k, cell) in cells.iter().enumerate() {
            assert_eq!(cell.at, [k / 4, k / 2 % 2, k % 2]);
            let changes: Vec<WhatIf> = (0..3).flat_map(|a| axes[a][cell.at[a]].clone()).collect();
            let changed = what_if(&program, &machine, &changes).unwrap();
            let run = sim::run(&changed.program, &changed.machine).unwrap();
            assert_eq!((cell.end, cell.ledger), (run.end, run.ledger), "{:?}", cell.at);
        }
        assert_eq!(sweep(&program, &machine, &[]).unwrap().len(), 1);
        assert!(sweep(&program, &machine, &[Vec::new()]).unwrap().is_empty());
        let many = vec![axis(&[""; 101]), axis(&[""; 100])];
        assert_eq!(sweep(&program, &machine, &many), Err(SweepError::TooMany(10_100)));
        assert!(matches!(sweep(&program, &machine, &[axis(&["pin:q"])]), Err(SweepError::Change(_))));
    }
}
