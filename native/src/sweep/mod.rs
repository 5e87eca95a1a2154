//! One program on many machines and in many forms, in parallel; [`Axis`] says how what varies is written.

mod axis;

use std::collections::BTreeMap;

pub use axis::{Alternative, Axis, AxisError};
use rayon::prelude::*;
use spanlift::advise::whatif::{Changed, WhatIf, WhatIfError, what_if};
use spanlift::hazard::{self, Mode, Terms, Verdict};
use spanlift::machine::Machine;
use spanlift::sim::{Ledger, Prepared, SimError};
use spanlift::{Nanos, Program};

/// Cells of a sweep at most.
pub const MAX_CELLS: usize = 10_000;
/// Commands that all cells run at most.
pub const MAX_COMMANDS: u64 = 1_000_000_000;

/// Why there is no sweep.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// More combinations than are run.
    #[error("the axes have {0} combinations, at most {MAX_CELLS} are run")]
    TooMany(usize),
    /// More work than is waited for.
    #[error(
        "{cells} combinations of {commands} commands are too much: at most {MAX_COMMANDS} commands are run in all"
    )]
    TooLong {
        /// Combinations.
        cells: usize,
        /// Commands of the program.
        commands: usize,
    },
    /// A value of one axis that nothing would be left of.
    #[error(
        "{later} of a later axis undoes {earlier}: what is set has one axis, or factors (`NAME*1,2`) on the later one"
    )]
    Undone {
        /// The change of the axis before.
        earlier: WhatIf,
        /// The one that is made after it.
        later: WhatIf,
    },
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

readable!(SweepError);

/// What came of one combination.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Which value of each axis.
    pub at: Vec<usize>,
    /// When the program ends.
    pub end: Nanos,
    /// What it moves.
    pub ledger: Ledger,
    /// Whether the changed program is safe by contract.
    pub verdict: Verdict,
}

/// Runs every combination of one value of each axis; the last axis varies fastest.
///
/// A combination's changes are made axis after axis, whole profiles and links before all others, so that a figure varies on
/// each of several machines. Changes of one value are made one after the other: of a figure nothing is left where a profile
/// comes after it.
///
/// # Errors
/// [`SweepError`] of the first combination that fails.
///
/// # Cost
/// One simulation for each combination on all cores; a program is prepared and checked once for each form that it takes,
/// and no more forms are held than there are cores.
///
/// ```
/// use spanlift::{Program, machine::Machine};
/// use spanlift_native::sweep::sweep;
///
/// let p = Program::from_text("stream s\npageable x 4MB\ndevice d 4MB\ncopy d <- x on s\nsync s")?;
/// let cells = sweep(&p, &Machine::default(), &["as-is,pin:x".parse()?, "h2d_bw=12,24,48".parse()?])?;
/// assert_eq!(cells.len(), 6);
/// assert!(cells[3].end > cells[5].end, "pinned memory gains from a faster link");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sweep(program: &Program, machine: &Machine, axes: &[Axis]) -> Result<Vec<Cell>, SweepError> {
    let n = axes.iter().fold(1usize, |n, axis| n.saturating_mul(axis.values.len()));
    if MAX_CELLS < n {
        return Err(SweepError::TooMany(n));
    }
    if MAX_COMMANDS < (n as u64).saturating_mul(program.len() as u64) {
        return Err(SweepError::TooLong { cells: n, commands: program.len() });
    }
    if let Some((earlier, later)) = undone(axes) {
        return Err(SweepError::Undone { earlier: earlier.clone(), later: later.clone() });
    }
    let places: Vec<Vec<usize>> = (0..n).map(|cell| place(axes, cell)).collect();
    // Combinations that change the program alike share what is prepared of it.
    let mut forms: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (cell, at) in places.iter().enumerate() {
        forms.entry(form(axes, at)).or_default().push(cell);
    }
    let forms: Vec<Vec<usize>> = forms.into_values().collect();
    let mut cells: Vec<(usize, Result<Cell, SweepError>)> =
        forms.par_iter().flat_map_iter(|cells| of_form(program, machine, axes, &places, cells)).collect();
    // Whoever fails first in the order of combinations is told, not whoever does on the clock.
    cells.sort_unstable_by_key(|(cell, _)| *cell);
    cells.into_iter().map(|(_, cell)| cell).collect()
}

/// A change of an axis of several values that one of a later axis leaves nothing of: its rows would be told apart by what none
/// of them has. Of an axis of one value, a change that every value of a later axis undoes: no run would have it.
fn undone(axes: &[Axis]) -> Option<(&WhatIf, &WhatIf)> {
    fn changes(axis: &Axis) -> impl Iterator<Item = &WhatIf> {
        axis.values.iter().flat_map(|value| &value.changes)
    }
    // Of different axes a machine is taken before a link, and both before figures.
    fn lost_by<'a>(later: impl IntoIterator<Item = &'a WhatIf>, earlier: &WhatIf) -> Option<&'a WhatIf> {
        let is_kept = matches!(earlier, WhatIf::Figure { .. } | WhatIf::Scale { .. } | WhatIf::LinkRate(_));
        later.into_iter().find(|later| {
            let comes_before = matches!(later, WhatIf::Machine(_) | WhatIf::Link(_)) && is_kept
                || matches!((earlier, later), (WhatIf::Link(_), WhatIf::Machine(_)));
            !comes_before && earlier.is_lost_by(later)
        })
    }
    let in_every = |later: &Axis, earlier: &WhatIf| {
        later.values.iter().all(|value| lost_by(&value.changes, earlier).is_some())
    };
    axes.iter().enumerate().find_map(|(k, axis)| {
        let is_one = axis.values.len() == 1;
        let later = axes[k + 1..].iter();
        let counts = |later: &&Axis, earlier: &WhatIf| !is_one || in_every(later, earlier);
        changes(axis).find_map(|earlier| {
            let by = later.clone().filter(|later| counts(later, earlier)).flat_map(changes);
            Some((earlier, lost_by(by, earlier)?))
        })
    })
}

/// The program and machine of a combination.
///
/// # Errors
/// [`WhatIfError`] of the first change that cannot be made.
///
/// # Panics
/// Where `at` has no value for an axis.
pub fn changed(
    program: &Program,
    machine: &Machine,
    axes: &[Axis],
    at: &[usize],
) -> Result<Changed, WhatIfError> {
    what_if(program, machine, &changes(axes, at))
}

/// Which value of each axis a cell has.
fn place(axes: &[Axis], mut cell: usize) -> Vec<usize> {
    let mut at: Vec<usize> = axes
        .iter()
        .rev()
        .map(|axis| {
            let place = cell % axis.values.len();
            cell /= axis.values.len();
            place
        })
        .collect();
    at.reverse();
    at
}

/// Combinations of one form have the same program.
fn form(axes: &[Axis], at: &[usize]) -> Vec<usize> {
    let keeps = |axis: &Axis, k: usize| axis.values[k].changes.iter().all(WhatIf::is_of_machine);
    // Every value that keeps the program counts as the first place behind those that do not.
    axes.iter().zip(at).map(|(axis, &k)| if keeps(axis, k) { axis.values.len() } else { k }).collect()
}

fn changes(axes: &[Axis], at: &[usize]) -> Vec<WhatIf> {
    let mut all: Vec<WhatIf> =
        axes.iter().zip(at).flat_map(|(axis, &k)| lasting(&axis.values[k].changes)).collect();
    all.sort_by_key(|change| match change {
        WhatIf::Machine(_) => 0,
        WhatIf::Link(_) => 1,
        _ => 2,
    });
    all
}

/// Changes made one after the other, less those of which a whole profile or a link leaves nothing.
fn lasting(changes: &[WhatIf]) -> Vec<WhatIf> {
    let mut lasting: Vec<WhatIf> = Vec::with_capacity(changes.len());
    for change in changes {
        lasting.retain(|earlier| !earlier.is_lost_by(change));
        lasting.push(change.clone());
    }
    lasting
}

/// The cells of one form, the program being prepared and checked once.
fn of_form(
    program: &Program,
    machine: &Machine,
    axes: &[Axis],
    places: &[Vec<usize>],
    cells: &[usize],
) -> Vec<(usize, Result<Cell, SweepError>)> {
    let Some(&first) = cells.first() else { return Vec::new() };
    let failed = |at: &[usize], error: SimError| {
        let texts: Vec<String> = changes(axes, at).iter().map(ToString::to_string).collect();
        let changes = if texts.is_empty() { "no change".to_owned() } else { texts.join(", ") };
        SweepError::Simulation { changes, error }
    };
    let prepared = || {
        let form = changed(program, machine, axes, &places[first])?.program;
        let verdict = |ordered_copies| {
            hazard::check(&form, Terms { mode: Mode::Contract, ordered_copies })
                .map(|report| report.verdict())
                .map_err(|problems| failed(&places[first], SimError::Problems(problems)))
        };
        let prepared = Prepared::new(&form).map_err(|error| failed(&places[first], error))?;
        // Those of devices without and with CUDA's rules.
        Ok((prepared, [verdict(false)?, verdict(true)?]))
    };
    let (prepared, verdicts) = match prepared() {
        Ok(prepared) => prepared,
        Err(error) => return vec![(first, Err(error))],
    };
    let run = |cell: usize| {
        let at = &places[cell];
        let of_machine: Vec<WhatIf> = changes(axes, at).into_iter().filter(WhatIf::is_of_machine).collect();
        let machine = what_if(&Program::new(), machine, &of_machine)?.machine;
        let verdict = verdicts[usize::from(machine.ordered_copies)];
        let run = prepared.run(&machine).map_err(|error| failed(at, error))?;
        Ok(Cell { at: at.clone(), end: run.end, ledger: run.ledger, verdict })
    };
    cells.par_iter().map(|&cell| (cell, run(cell))).collect()
}

#[cfg(test)]
mod tests {
    use spanlift::sim;

    use super::*;

    fn axis(text: &str) -> Axis {
        text.parse().unwrap()
    }

    #[test]
    fn every_cell_is_the_run_of_its_own_changes() {
        let text = "stream s\nrepeat i 3\npageable x{i} 4MB\ndevice d{i} 4MB\nend\n\
                    repeat i 3\ncopy d{i} <- x{i} on s\nkernel k on s reads d{i} for 300us\nend\nwrite x1\nsync s";
        let program = Program::from_text(text).unwrap();
        let machine = Machine::default();
        let axes = [axis("as-is,pin:*,x1"), axis("h2d_bw=10,ordered_copies=false"), axis("streams=1,3")];
        let cells = sweep(&program, &machine, &axes).unwrap();
        assert_eq!(cells.len(), 12);
        let mut ends = std::collections::BTreeSet::new();
        for (k, cell) in cells.iter().enumerate() {
            assert_eq!(cell.at, [k / 4, k / 2 % 2, k % 2]);
            let changes: Vec<WhatIf> =
                (0..3).flat_map(|a| axes[a].values[cell.at[a]].changes.clone()).collect();
            let changed = what_if(&program, &machine, &changes).unwrap();
            let run = sim::run(&changed.program, &changed.machine).unwrap();
            let terms = Terms::of(Mode::Contract, &changed.machine);
            let verdict = hazard::check(&changed.program, terms).unwrap().verdict();
            assert_eq!(
                (cell.end, cell.ledger, cell.verdict),
                (run.end, run.ledger, verdict),
                "{:?}",
                cell.at
            );
            ends.insert(cell.end);
        }
        assert!(ends.len() > 6, "the changes matter");
        assert_eq!(sweep(&program, &machine, &[]).unwrap().len(), 1);
    }

    #[test]
    fn a_figure_varies_on_each_machine() {
        let program =
            Program::from_text("stream s\npinned x 4MB\ndevice d 4MB\ncopy d <- x on s\nsync s").unwrap();
        let axes = [axis("h2d_bw=5,50"), axis("machine=tutorial-ci,h200-pcie5")];
        let cells = sweep(&program, &Machine::default(), &axes).unwrap();
        assert!(cells[0].end > cells[2].end && cells[1].end > cells[3].end);
        assert!(cells[0].end != cells[1].end, "other figures are those of the machines");
    }

    #[test]
    fn what_cannot_be_swept_says_why() {
        let program =
            Program::from_text("stream s\npageable x 4MB\ndevice d 4MB\ncopy d <- x on s\nsync s").unwrap();
        let machine = Machine::default();
        let many = [axis("lat=1..101"), axis("h2d_bw=1..100")];
        assert_eq!(sweep(&program, &machine, &many), Err(SweepError::TooMany(10_100)));
        let told = |axes: &[Axis]| sweep(&program, &machine, axes).unwrap_err().to_string();
        assert_eq!(told(&[axis("pin:q")]), "\"pin:q\": no pageable host buffer is called \"q\"");
        let undone = "h2d_bw=3 of a later axis undoes h2d_bw=1: what is set has one axis, or factors (`NAME*1,2`) on the later one";
        assert_eq!(told(&[axis("h2d_bw=1,2"), axis("as-is,h2d_bw=3")]), undone);
        assert!(
            told(&[axis("as-is,machine=h200-pcie5"), axis("lat=1"), axis("machine=tutorial-ci")])
                .contains("undoes")
        );
        assert!(told(&[axis("lat*1,2"), axis("lat=1,2")]).contains("lat=1 of a later axis undoes lat*1"));
        // What holds everywhere is undone where no run has it.
        assert!(told(&[axis("lat=5"), axis("lat=1..4")]).contains("lat=1 of a later axis undoes lat=5"));
        assert!(
            told(&[axis("machine=h200-pcie5"), axis("lat=5"), axis("machine=tutorial-ci,h200-pcie5")])
                .contains("undoes")
        );
        // Where some have it, it may be changed again, and a figure that is set may be scaled.
        for axes in [[axis("lat=1,2"), axis("lat*1,2")], [axis("lat=5"), axis("as-is,lat=1..3")]] {
            assert_eq!(sweep(&program, &machine, &axes).map(|cells| cells.len()), Ok(4));
        }
        // Made one after the other, as `run` makes them: nothing is left of a figure behind which a profile comes.
        let cells = |texts: &[&str], over: &str| {
            let always = Axis::always(texts.iter().map(|text| text.parse().unwrap()).collect());
            sweep(&program, &machine, &[always, axis(over)]).unwrap()
        };
        let ends = |texts: &[&str], over: &str| cells(texts, over).iter().map(|c| c.end).collect::<Vec<_>>();
        let h200 = ends(&["machine=h200-pcie5"], "lat*1,2");
        assert_eq!(ends(&["h2d_bw=3", "link=a100-pcie4", "machine=h200-pcie5"], "lat*1,2"), h200);
        assert_ne!(ends(&["machine=h200-pcie5", "h2d_bw=3"], "lat*1,2"), h200);
        // The first in order, whichever fails first.
        assert!(told(&[axis("lat=1..50"), axis("as-is,pin:q,r,t")]).starts_with("\"pin:q\""));
        assert!(told(&[axis("copy_engines=1,1.5")]).contains("1.5 is no count"));
        let long = Program::from_text(&format!("repeat i {}\nmark m\nend", 200_000)).unwrap();
        let axes = [axis("lat=1..100"), axis("h2d_bw=1..100")];
        assert_eq!(
            sweep(&long, &machine, &axes),
            Err(SweepError::TooLong { cells: 10_000, commands: 200_000 })
        );
    }
}
