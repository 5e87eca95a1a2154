//! What people write: programs, and operators, which become the programs that apply them.

#[cfg(all(target_arch = "wasm32", not(feature = "operators")))]
mod absent;
#[cfg(any(not(target_arch = "wasm32"), feature = "operators"))]
mod applied;

use spanlift::Program;
use spanlift::trace::Trace;

#[cfg(all(target_arch = "wasm32", not(feature = "operators")))]
pub use absent::Applied;
#[cfg(any(not(target_arch = "wasm32"), feature = "operators"))]
pub use applied::Applied;
#[cfg(any(not(target_arch = "wasm32"), feature = "course"))]
pub(crate) use applied::{MOST_WORK, work};

use crate::figure::Note;
use crate::kind::{self, Kind};

/// A program, and what there is to say of the operator that it applies.
#[derive(Debug, Clone)]
pub struct Written {
    /// The program.
    pub program: Program,
    /// What it applies, where that was written.
    pub operator: Option<Box<Applied>>,
}

/// Whether a text says an operator, which is planned, rather than a program.
pub fn is_operator(source: &str) -> bool {
    kind::of(source.as_bytes()) == Ok(Kind::Operator)
}

impl Written {
    /// Reads a program in either form, or an operator.
    ///
    /// # Errors
    /// What is wrong with it, a line each with its place.
    pub fn read(source: &str) -> Result<Written, String> {
        if !is_operator(source) {
            let program = Program::read(source.as_bytes()).map_err(|e| e.to_string())?;
            return Ok(Written { program, operator: None });
        }
        let applied = Applied::read(source)?;
        Ok(Written { program: applied.program().clone(), operator: Some(Box::new(applied)) })
    }

    /// Calls the lanes of a run's trace what the operator calls its devices.
    pub fn name_lanes(&self, trace: &mut Trace) {
        if let Some(applied) = &self.operator {
            applied.name_lanes(trace);
        }
    }

    /// What there is to say of an operator: what it is, moves, holds and gives. Nothing of a program.
    pub fn told(&self) -> Vec<Note> {
        self.operator.as_ref().map_or_else(Vec::new, |applied| applied.told(None).0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use spanlift::chain;
    use spanlift::memory::{Dtype, cpu, cuda};
    use spanlift::op::{Diagonal, Space, Weights, to};
    use spanlift::plan::Planning;

    use spanlift::Bytes;
    use spanlift::op::{Array, Operator};

    use super::*;
    use crate::model::Model;
    use crate::pack::PageItem;

    const SCRIPT: &str = "operator doubled on a device\nmachine h200-pcie5\ninput [1, -2]\n\
                          W = diagonal(f64[x=2]@cuda:0, fill(2))\nA = to(cuda:0) -> W -> to(cpu)\n";

    fn lines(notes: &[Note]) -> Vec<&str> {
        notes.iter().map(|note| note.text.as_str()).collect()
    }

    fn there_and_back() -> Operator {
        let line = Space::new([("x", 2)], Dtype::F64).unwrap();
        let w = Diagonal::new(line.on(cuda(0)), [2.0, 2.0]).unwrap();
        chain![to(cuda(0)), w, to(cpu())].unwrap()
    }

    #[test]
    fn an_operator_says_what_it_is_moves_holds_and_gives() {
        let written = Written::read(SCRIPT).unwrap();
        assert_eq!(
            lines(&written.told()),
            [
                "T(cuda:0->cpu) · W · T(cpu->cuda:0) : f64[x]@cpu -> f64[x]@cpu",
                "2 transfers: cpu -> cuda:0 16 B, cuda:0 -> cpu 16 B; 32 B in all",
                "cpu holds 32 B: input 16 B, result 16 B",
                "cuda:0 holds 32 B: weights 16 B, between 16 B",
                "x = [1, -2], of norm 2.2361",
                "y = A x = [2, -4], of norm 4.4721",
                "the dot test passed: <Ax, y> = <x, A^H y> up to 5.3e-15",
            ]
        );
        assert_eq!(written.program.title, "doubled on a device");
        let model = Model::open(&PageItem::source("o", SCRIPT, "")).unwrap();
        assert_eq!(model.origin, "simulated on h200-pcie5");
        assert!(
            model.listing.is_some_and(|listing| listing.lines.iter().any(|line| line.starts_with("copy")))
        );
        assert!(model.told.iter().any(|note| note.text == "y = A x = [2, -4], of norm 4.4721"));
    }

    /// Devices that are pretended are called so, and not by the numbers that the program has for them.
    #[test]
    fn lanes_are_called_what_the_operator_calls_its_devices() {
        let script = "operator o\nmachine h200-pcie5\nW = diagonal(f64[x=2]@mock:0, [x], ramp(1, 1))\n\
                      A = to(mock:0) -> W -> to(cuda:1) -> to(cpu)\n";
        let model = Model::open(&PageItem::source("o", script, "")).unwrap();
        let trace = &model.trace;
        let groups: BTreeSet<&str> = trace.lanes.iter().map(|lane| trace.strings.get(lane.group)).collect();
        assert_eq!(groups, ["cuda:1", "host", "mock:0"].into());
    }

    /// What a runner found is told in place of what the reference says.
    #[test]
    fn a_result_that_is_known_is_told() {
        let written = Written::read(SCRIPT).unwrap();
        let applied = written.operator.unwrap();
        let plan = applied.fed().unwrap().unwrap();
        let machine = spanlift::machine::Machine::builtin("h200-pcie5").unwrap();
        let run = spanlift::sim::run_knowing(plan.program(), &machine, &plan).unwrap();
        let result = plan.result(&run.finals).unwrap();
        assert_eq!(result.reals(), [2.0, -4.0]);
        let other = Array::new(result.space().clone(), [7.0, 0.5]).unwrap();
        assert_eq!(applied.told(Some(other)).0.last().unwrap().text, "y = A x = [7, 0.5], of norm 7.0178");
    }

    #[test]
    fn expressions_and_plans_in_json_are_operators_too() {
        let a = there_and_back();
        let plan = Planning::new().cap(cuda(0), Bytes(100)).plan(&a).unwrap();
        for file in [a.to_json(Weights::Inline).unwrap(), plan.to_json(Weights::Inline).unwrap()] {
            assert!(is_operator(&file), "{file}");
            let written = Written::read(&file).unwrap();
            assert_eq!(written.program, *a.plan().unwrap().program());
            assert!(lines(&written.told()).contains(&"y = A x = [2, 2], of norm 2.8284"), "{file}");
        }
        let named = a.to_json(Weights::ByName).unwrap();
        let why = Written::read(&named).map(|written| written.program).unwrap_err();
        assert!(why.starts_with("weights[0]"), "{why}");
    }

    /// Of a long formula both ends are told, and the spaces whole.
    #[test]
    fn a_long_formula_is_cut_in_its_middle() {
        let told = |n: usize| {
            let parts = "W, ".repeat(n);
            let source = format!("operator\nW = diagonal(f64[x=2], ones)\nshow stack([{parts}], out=k)");
            Written::read(&source).unwrap().told()[0].text.clone()
        };
        assert_eq!(told(3), "stack[W; W; W] : f64[x]@cpu -> f64[k,x]@cpu");
        let long = told(500);
        assert_eq!(long.chars().count(), 403 + " : f64[x]@cpu -> f64[k,x]@cpu".len());
        assert!(long.starts_with("stack[W; W; W;") && long.contains(" … "), "{long}");
        assert!(long.ends_with("W; W] : f64[x]@cpu -> f64[k,x]@cpu"), "{long}");
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let check = |source: &str, expected: &str| {
            let why = Written::read(source).map(|written| written.program).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        };
        check("operator\nA = to(cuda:0)", "line ");
        check(
            "operator\nA = roll(x, 1).over(f64[x=2]@cuda:0) -> roll(x, 1).over(f64[x=2])",
            "line 2, column ",
        );
        check(r#"{"operator": {}}"#, "schema_version");
        check(r#"{"operator": {}, "planning": 1}"#, "schema_version");
        check("operator_ x", "line 1");
    }

    /// Nothing is computed that keeps the page waiting.
    #[test]
    fn large_operators_are_planned_alone() {
        let large =
            "operator\nA = to(cuda:0) -> fft(y, x).over(c64[b=512, y=512, x=512]@cuda:0) -> to(cpu)\n";
        let told = Written::read(large).unwrap().told();
        assert_eq!(
            lines(&told)[3..],
            [
                "cuda:0 holds 4.00 GiB: between 4.00 GiB",
                "not applied here: a vector has 134,217,728 elements, at most 16,777,216 are computed here"
            ]
        );
        // Nobody gave an input, and a default one would be too long.
        let unfed = "operator\nA = flip(x).over(f64[x=1048577])\n";
        let told = Written::read(unfed).unwrap().told();
        assert_eq!(
            lines(&told).last(),
            Some(&"not applied here: its domain is too large for an input that nobody gave")
        );
        // No operation at all, but so many passes over 2^20 elements: each reads and writes them once, and so does the whole.
        let moved = "operator\nA = flip(x).over(f64[x=1048576])^9999\n";
        let told = Written::read(moved).unwrap().told();
        let passes = 2 * 1_048_576 * 10_000_u64;
        assert_eq!(
            lines(&told).last().copied(),
            Some(&*format!(
                "not applied here: {} operations and elements moved",
                spanlift::text::grouped(passes)
            ))
        );
        // A short input, no operations, and a vector between that no memory holds.
        let between =
            "operator\nA = (repeat(r, 4194304) -> sum_reduce(r)).over(f64[x=4, y=1000])\nshow A + 1\n";
        let told = Written::read(between).unwrap().told();
        assert_eq!(
            lines(&told).last(),
            Some(
                &"not applied here: a vector has 16,777,216,000 elements, at most 16,777,216 are computed here"
            ),
            "{told:?}"
        );
        let many = "operator\nA = fft(y, x).over(c64[y=1024, x=1024])\nshow A -> A^H -> A\n";
        let told = Written::read(many).unwrap().told();
        assert!(lines(&told).last().unwrap().starts_with("not applied here: "), "{told:?}");
    }
}
