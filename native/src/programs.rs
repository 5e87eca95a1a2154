//! The programs that ship with spanlift, in the text form: the tutorial's rows and runs, the demonstrations, the strategies.
//!
//! They are files under `native/programs/`, so that `spanlift check`, `run` and `view` open them like anybody's.

use spanlift::Program;

/// A program file that ships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// The file's name without its ending.
    pub name: &'static str,
    /// What the file says.
    pub text: &'static str,
}

impl Shipped {
    /// The program in the file.
    ///
    /// # Panics
    /// Never for a shipped file: a test reads each of them.
    pub fn program(&self) -> Program {
        Program::from_text(self.text).unwrap_or_else(|e| panic!("bug: shipped program {}: {e}", self.name))
    }
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../programs/", $name, ".txt")) }),*]
    };
}

/// The sixteen rows of the tutorial's tables, in order; the timed part of each lies between the marks `begin` and `end`.
pub const ROWS: &[Shipped] = shipped![
    "row01-h2d.1x4MB.pageable",
    "row02-h2d.1x4MB.pinned",
    "row03-pin.1x4MB",
    "row04-h2d.1x4MB.pin_copy",
    "row05-h2d.1000x4KB.blocking",
    "row06-h2d.1000x4KB.non_blocking",
    "row07-h2d.1000x4MB.pageable.blocking",
    "row08-h2d.1000x4MB.pageable.non_blocking",
    "row09-h2d.1000x4MB.pinned.blocking",
    "row10-h2d.1000x4MB.pinned.non_blocking",
    "row11-h2d.1000x4MB.pin_copy.blocking",
    "row12-h2d.1000x4MB.pin_copy.non_blocking",
    "row13-h2d.1000x4MB.dict.blocking",
    "row14-h2d.1000x4MB.dict.non_blocking",
    "row15-h2d.1000x4MB.dict.pin_threads0",
    "row16-h2d.1000x4MB.dict.pin_threads4",
];

/// The profiled runs, the demonstrations with their mended forms and controls, the strategies, and what
/// further claims of the tutorial are tested with.
const OTHERS: &[Shipped] = shipped![
    "run-streamed0-pinned0",
    "run-streamed0-pinned1",
    "run-streamed1-pinned0",
    "run-streamed1-pinned1",
    "demo-h2d-pinned-overwritten",
    "demo-h2d-pinned-overwritten-mended",
    "demo-d2h-read-before-sync",
    "demo-d2h-read-before-sync-mended",
    "control-h2d-pageable-overwritten",
    "control-d2h-read-after-sync",
    "strategy-a",
    "strategy-a-two",
    "strategy-b",
    "pin-first-call",
    "loader-main-thread",
    "loader-pin-thread",
];

/// Operators in the text form: chains over devices, their normals, splits and tiles, and one that forgets a transfer.
pub const OPERATORS: &[Shipped] = shipped![
    "operators/there-and-back",
    "operators/normal",
    "operators/two-devices",
    "operators/tiles",
    "operators/scanner",
    "operators/least-squares",
    "operators/missing-transfer",
];

/// The four profiled runs: name, whether the copy has a stream of its own, whether its source is pinned.
#[rustfmt::skip]
pub const RUNS: [(&str, bool, bool); 4] = [
    ("run-streamed0-pinned0", false, false),
    ("run-streamed0-pinned1", false, true),
    ("run-streamed1-pinned0", true, false),
    ("run-streamed1-pinned1", true, true),
];

/// Every program that ships.
pub fn all() -> impl Iterator<Item = &'static Shipped> {
    OTHERS.iter().chain(ROWS)
}

/// The shipped program of this name.
///
/// ```
/// let run = spanlift_native::programs::named("run-streamed1-pinned1").expect("it ships");
/// assert!(run.program().check().is_ok());
/// ```
pub fn named(name: &str) -> Option<&'static Shipped> {
    all().find(|s| s.name == name)
}

#[cfg(test)]
mod tests {
    use spanlift::hazard::{self, Mode, Verdict};

    use super::*;

    /// Which of the shipped programs are hazardous, by contract and typically: everything else is safe in both modes.
    const HAZARDOUS: [(&str, Verdict, Verdict); 3] = [
        ("demo-h2d-pinned-overwritten", Verdict::Race, Verdict::Race),
        ("demo-d2h-read-before-sync", Verdict::Race, Verdict::Race),
        ("control-h2d-pageable-overwritten", Verdict::Race, Verdict::Safe),
    ];

    #[test]
    fn every_program_is_well_formed_and_judged_as_it_is_told() {
        for shipped in all() {
            let program = shipped.program();
            let verdict = |mode| hazard::check(&program, mode).expect(shipped.name).verdict();
            let told = HAZARDOUS.into_iter().find(|h| h.0 == shipped.name);
            let (_, contract, typical) = told.unwrap_or((shipped.name, Verdict::Safe, Verdict::Safe));
            assert_eq!(verdict(Mode::Contract), contract, "{} by contract", shipped.name);
            assert_eq!(verdict(Mode::Typical), typical, "{} typically", shipped.name);
        }
    }

    /// The page lists them by their titles.
    #[test]
    fn no_two_programs_are_called_the_same() {
        let mut titles: Vec<String> = all().map(|shipped| shipped.program().title).collect();
        titles.sort();
        let n = titles.len();
        titles.dedup();
        assert_eq!(titles.len(), n);
    }

    /// What is written by hand for people to read says what the builder writes.
    #[test]
    fn strategies_are_the_pipelines_that_they_show() {
        use spanlift::program::{Arrangement, IssueOrder, Pipeline};
        use spanlift::{mib, us};
        let a = Arrangement::PerItem(IssueOrder::DepthFirst);
        for (name, arrangement, in_flight) in [
            ("strategy-a", a, None),
            ("strategy-a-two", a, Some(2)),
            ("strategy-b", Arrangement::PerStage, Some(2)),
        ] {
            let pipeline = Pipeline { in_flight, work: us(600), ..Pipeline::new(arrangement, 12, mib(32)) };
            // Declarations may stand in another order.
            let lines = |program: &Program| {
                let mut lines: Vec<String> =
                    program.to_json().lines().map(|l| l.trim_end_matches(',').to_owned()).collect();
                let begin = lines.iter().position(|l| l.contains("begin")).expect("a mark");
                lines[..begin].sort();
                lines.retain(|l| l.contains("\"op\": ") || l.contains("\"op\":"));
                lines
            };
            let (shipped, built) = (named(name).expect(name).program(), pipeline.program().expect(name));
            assert_eq!(lines(&shipped), lines(&built), "{name}");
        }
    }

    #[test]
    fn rows_and_runs_ship() {
        assert_eq!(ROWS.len(), 16);
        for (name, ..) in RUNS {
            assert!(named(name).is_some(), "{name}");
        }
    }
}
