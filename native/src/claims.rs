//! What the tutorial concludes, as a table of claims that are tested by simulation on any machine.
//!
//! The table is `native/data/claims.json`: each claim with the programs that test it, the relation that it expects, and what
//! holds where it does not. Claims are facts of a platform: on which of the profiles each fails stands beside it.

use std::collections::BTreeMap;

use serde::Deserialize;
use spanlift::hazard::{self, Mode};
use spanlift::machine::Machine;
use spanlift::sim::{self, SimError};
use spanlift::trace::{Engine, LaneKind, Trace};
use spanlift::{Nanos, Program, advise};

use crate::programs;

/// One claim.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// The claim, where it holds.
    pub says: String,
    /// The profiles that come with spanlift on which it fails.
    pub fails: Vec<String>,
    /// What is tested.
    #[serde(flatten)]
    pub test: Test,
}

/// What a claim is tested by.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Test {
    /// The time of one program over that of another.
    Ratio {
        /// The program above the line.
        over: String,
        /// The program below the line.
        under: String,
        /// The smallest ratio with which the claim holds.
        min: Option<f64>,
        /// The largest one.
        max: Option<f64>,
        /// Two programs whose ratio is taken off first.
        like: Option<(String, String)>,
        /// What holds when the ratio is smaller.
        below: String,
        /// What holds when it is larger.
        above: String,
    },
    /// Whether a program's copy and kernels run at the same time.
    Overlap {
        /// The program.
        program: String,
        /// Whether they should.
        overlap: bool,
        /// What holds otherwise.
        otherwise: String,
    },
    /// What the checker says of a program, whatever the machine.
    Verdict {
        /// The program.
        program: String,
        /// By contract.
        contract: String,
        /// In typical mode.
        typical: String,
        /// What holds otherwise.
        otherwise: String,
    },
}

/// A claim tested on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Whether it holds.
    pub holds: bool,
    /// What holds: the claim, or what does instead.
    pub says: String,
    /// The ratio, of claims that are one.
    pub ratio: Option<f64>,
}

#[derive(Deserialize)]
struct Table {
    source: String,
    claims: Vec<Claim>,
}

fn table() -> Table {
    serde_json::from_str(include_str!("../data/claims.json"))
        .expect("bug: the project's own table is read by a test")
}

/// All claims, in the order of the tutorial.
///
/// ```
/// use spanlift::machine::Machine;
/// use spanlift_native::claims::{self, Bench};
///
/// let claim = claims::all().into_iter().find(|c| c.id == "pin-for-one-copy").expect("it is there");
/// let outcome = Bench::new(&Machine::default()).judge(&claim)?;
/// assert!(outcome.holds);
/// assert_eq!(outcome.says, "pinning only for the copy costs more than it saves");
/// # Ok::<(), spanlift::sim::SimError>(())
/// ```
pub fn all() -> Vec<Claim> {
    table().claims
}

/// Where the claims are from.
pub fn source() -> String {
    table().source
}

/// A machine on which claims are tested; what was simulated once is kept.
#[derive(Debug, Clone)]
pub struct Bench<'m> {
    machine: &'m Machine,
    /// Tensors in the loops of the published rows.
    loops: Option<u64>,
    times: BTreeMap<String, Nanos>,
}

impl<'m> Bench<'m> {
    /// A bench where nothing was simulated yet.
    pub fn new(machine: &'m Machine) -> Bench<'m> {
        Bench { machine, loops: None, times: BTreeMap::new() }
    }

    /// The same with loops of `n` tensors in the published rows instead of 1,000: such loops are periodic.
    #[must_use]
    pub fn with_loops_of(self, n: u64) -> Bench<'m> {
        Bench { loops: Some(n), ..self }
    }

    /// Makes it known how long a program takes on the machine.
    pub fn know(&mut self, program: &str, time: Nanos) {
        self.times.insert(program.to_owned(), time);
    }

    /// Tests a claim.
    ///
    /// # Errors
    /// A program that cannot be simulated on the machine, such as one that would take years.
    pub fn judge(&mut self, claim: &Claim) -> Result<Outcome, SimError> {
        let (holds, otherwise, ratio) = match &claim.test {
            Test::Ratio { over, under, min, max, like, below, above } => {
                let ratio = self.ratio(over, under)?;
                let off = match like {
                    Some((over, under)) => ratio - self.ratio(over, under)?,
                    None => ratio,
                };
                let (low, high) = (min.is_some_and(|min| off < min), max.is_some_and(|max| max < off));
                (!low && !high, if low { below } else { above }, Some(ratio))
            }
            Test::Overlap { program, overlap, otherwise } => {
                let run = sim::run(&self.program(program), self.machine)?;
                ((together(&run.trace) > Nanos::ZERO) == *overlap, otherwise, None)
            }
            Test::Verdict { program, contract, typical, otherwise } => {
                let program = self.program(program);
                let verdict = |mode| hazard::check(&program, mode).map(|report| report.verdict().name());
                let found = [verdict(Mode::Contract)?, verdict(Mode::Typical)?];
                (found == [contract, typical], otherwise, None)
            }
        };
        Ok(Outcome { holds, says: if holds { &claim.says } else { otherwise }.clone(), ratio })
    }

    fn ratio(&mut self, over: &str, under: &str) -> Result<f64, SimError> {
        let (over, under) = (self.time(over)?, self.time(under)?);
        Ok(over.0 as f64 / under.0.max(1) as f64)
    }

    fn time(&mut self, name: &str) -> Result<Nanos, SimError> {
        if let Some(&time) = self.times.get(name) {
            return Ok(time);
        }
        let run = sim::run(&self.program(name), self.machine)?;
        let time = run.between("begin", "end").unwrap_or(run.end);
        self.know(name, time);
        Ok(time)
    }

    fn program(&self, name: &str) -> Program {
        let shipped = programs::named(name).unwrap_or_else(|| panic!("bug: {name} does not ship"));
        let loops = self.loops.zip(programs::ROWS.iter().position(|row| row.name == name));
        match loops {
            None => shipped.program(),
            Some((n, place)) => {
                let rows = advise::rows(include_bytes!("../data/tutorial-table.json"));
                let mut row =
                    rows.unwrap_or_else(|e| panic!("bug: the published rows: {e}")).swap_remove(place);
                row.tensors = row.tensors.min(n);
                row.program()
            }
        }
    }
}

/// How long the engine to the device and the compute units of device 0 were busy at the same time.
fn together(trace: &Trace) -> Nanos {
    let busy = |engine| {
        let lane = LaneKind::Engine { dev: 0, engine };
        let slices = trace.slices.iter().filter(move |s| trace.lanes[s.lane as usize].kind == lane);
        slices.map(|s| (s.start.0, s.end.0)).collect::<Vec<_>>()
    };
    let (copies, kernels) = (busy(Engine::ToDevice), busy(Engine::Compute));
    let common =
        copies.iter().flat_map(|&(a, b)| kernels.iter().map(move |&(c, d)| (b.min(d) - a.max(c)).max(0)));
    Nanos(common.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each claim on each machine: it fails exactly where the table says so. In loops of 60 tensors every day.
    #[test]
    fn every_claim_holds_and_fails_where_the_table_says() {
        let mut wrong = Vec::new();
        for name in Machine::names() {
            let machine = Machine::builtin(name).expect(name);
            let mut bench = Bench::new(&machine);
            if std::env::var_os("SPANLIFT_LONG").is_none() {
                bench = bench.with_loops_of(60);
            }
            for claim in all() {
                let outcome = bench.judge(&claim).expect(&claim.id);
                if outcome.holds == claim.fails.iter().any(|f| f == name) {
                    wrong.push(format!("{} on {name}: {outcome:?}", claim.id));
                }
                assert!(!outcome.says.is_empty(), "{} on {name}: {outcome:?}", claim.id);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The published times themselves: the tutorial's conclusions hold on its own machine.
    #[test]
    fn every_claim_about_rows_holds_of_the_published_times() {
        let machine = Machine::default();
        let mut bench = Bench::new(&machine);
        for (row, shipped) in crate::tutorial::rows().iter().zip(programs::ROWS) {
            #[expect(clippy::cast_possible_truncation, reason = "published times are below a second")]
            bench.know(shipped.name, Nanos((row.published_ms * 1e6) as i64));
        }
        for claim in
            all().iter().filter(|c| matches!(&c.test, Test::Ratio { over, .. } if over.starts_with("row")))
        {
            assert!(bench.judge(claim).expect(&claim.id).holds, "{}", claim.id);
        }
    }

    #[test]
    fn names_are_unique_and_machines_known() {
        let claims = all();
        for (k, claim) in claims.iter().enumerate() {
            assert!(claims[..k].iter().all(|c| c.id != claim.id), "{}", claim.id);
            assert!(claim.fails.iter().all(|f| Machine::names().any(|n| n == f)), "{}", claim.id);
        }
        assert!(!source().is_empty());
    }
}
