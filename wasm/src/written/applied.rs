//! The algebra of what is written: operators planned, applied and told of.

use spanlift::op::{Array, Complex64, Operator, Reader, dot_test};
use spanlift::plan::{Plan, PlanError, Script};
use spanlift::trace::Trace;
use spanlift::{Bytes, Program};

use crate::figure::Note;
use crate::text;

/// Operations and elements read or written that one apply may take while somebody waits.
pub(crate) const MOST_WORK: u64 = 100_000_000;

/// Beyond so many parts nothing is simplified while somebody waits for the page.
const MOST_NODES: u64 = 400;

/// Beyond so many elements there is no input where none is given.
const MOST_INPUT: usize = 1 << 20;

/// Beyond so many elements of a vector on the way memory may end before there is a result.
const MOST_ELEMENTS: i64 = 1 << 24;

/// Characters of a formula that are told: more is nothing that anybody reads as one.
const LONGEST_FORMULA: usize = 400;

/// Values of a vector that are told.
const MOST_SHOWN: usize = 4;

/// An operator that was written, in the text form or as JSON.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The operator, as it was written: what is planned may be tiles of it.
    pub operator: Operator,
    /// What it is applied to; nothing where it would be too large.
    pub input: Option<Array>,
    /// Its program, transfers and memory.
    pub plan: Plan,
}

impl Applied {
    /// Reads an operator in the text form, an expression or a plan in JSON; JSON has its weights in it.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn read(source: &str) -> Result<Applied, String> {
        let words = |e: &dyn std::fmt::Display| e.to_string();
        if Script::is_one(source) {
            let script = Script::read(source).map_err(|e| words(&e))?;
            let plan = script.plan().map_err(|e| words(&e))?;
            return Ok(Applied { operator: script.operator().clone(), input: script.input().cloned(), plan });
        }
        let (reader, bytes) = (Reader::new(), source.as_bytes());
        let plan = match (reader.read(bytes), source.contains("\"planning\"")) {
            (Ok(operator), _) => operator.plan().map_err(|e| words(&e))?,
            (Err(_), true) => Plan::read(&reader, bytes).map_err(|e| words(&e))?,
            (Err(e), false) => return Err(words(&e)),
        };
        let operator = plan.operator().clone();
        let domain = operator.domain();
        let ones = usize::try_from(domain.elements()).ok().filter(|n| *n <= MOST_INPUT);
        let input = ones.and_then(|n| Array::new(domain.clone(), vec![1.0; n]).ok());
        Ok(Applied { operator, input, plan })
    }

    /// The program that applies it, for any values.
    pub(super) fn program(&self) -> &Program {
        self.plan.program()
    }

    pub(super) fn name_lanes(&self, trace: &mut Trace) {
        self.plan.name_lanes(trace);
    }

    /// What the operator can be applied to here: there is an input, and memory bears the vectors on the way.
    ///
    /// # Errors
    /// What is too long, or missing.
    pub fn bearable(&self) -> Result<&Array, String> {
        let elements = longest(&self.operator);
        if elements > MOST_ELEMENTS {
            let [elements, most] =
                [elements, MOST_ELEMENTS].map(|n| spanlift::text::grouped(n.unsigned_abs()));
            return Err(format!("a vector has {elements} elements, at most {most} are computed here"));
        }
        Ok(self.input.as_ref().ok_or("its domain is too large for an input that nobody gave")?)
    }

    /// The plan for this input, whose values its program carries, if there is one.
    ///
    /// # Errors
    /// As [`Operator::plan_for`].
    pub fn fed(&self) -> Result<Option<Plan>, PlanError> {
        let planned = |x| self.plan.planning().plan_for(&self.operator, x);
        self.input.as_ref().map(planned).transpose()
    }

    /// What the reference evaluator makes of the input.
    ///
    /// # Errors
    /// Why it is not applied here: too much work, or no input.
    pub fn result(&self) -> Result<Array, String> {
        let input = self.bearable()?;
        let all = work(&self.operator);
        if all > MOST_WORK {
            return Err(format!("{} operations and elements moved", spanlift::text::grouped(all)));
        }
        self.operator.apply(input).map_err(|e| e.to_string())
    }

    /// What the operator is, moves, holds and makes of its input, and the result: `given` where that is known, else what the
    /// reference evaluator says, if it is applied here.
    pub fn told(&self, given: Option<Array>) -> (Vec<Note>, Option<Array>) {
        let operator = &self.operator;
        let of = format!("{} : {} -> {}", cut(operator.formula()), operator.domain(), operator.codomain());
        let mut notes = vec![remark(of)];
        if operator.cost().nodes <= MOST_NODES {
            let simplified = operator.simplify();
            if simplified.formula() != operator.formula() {
                notes.push(remark(format!("simplified {}", cut(simplified.formula()))));
            }
        }
        notes.push(remark(moved(&self.plan)));
        for (device, peak) in self.plan.peaks() {
            notes.push(remark(format!("{device} holds {}: {peak}", peak.total())));
        }
        notes.extend(self.plan.notes().iter().map(|note| remark(note.text.clone())));
        notes.extend(self.input.as_ref().map(|input| remark(shown("x", input))));
        let is_given = given.is_some();
        let result = match given.map_or_else(|| self.result(), Ok) {
            Ok(result) => result,
            Err(why) => {
                notes.push(remark(format!("not applied here: {why}")));
                return (notes, None);
            }
        };
        notes.push(remark(shown("y = A x", &result)));
        if !is_given {
            let report = dot_test(operator, 1);
            notes.push(Note {
                holds: report.error.is_finite().then_some(report.passed()),
                text: format!("the dot test {report}"),
            });
        }
        (notes, Some(result))
    }
}

fn remark(text: String) -> Note {
    Note { holds: None, text }
}

/// A formula without its middle where it is a long one.
fn cut(formula: String) -> String {
    let n = formula.chars().count();
    if n <= LONGEST_FORMULA {
        return formula;
    }
    let (first, last) =
        (formula.chars().take(3 * LONGEST_FORMULA / 4), formula.chars().skip(n - LONGEST_FORMULA / 4));
    first.chain(" … ".chars()).chain(last).collect()
}

/// What one apply takes: operations, and the elements that each part reads and writes.
pub(crate) fn work(a: &Operator) -> u64 {
    let elements = [a.domain(), a.codomain()].map(|space| space.elements().unsigned_abs());
    let times = if let Operator::Power(power) = a { u64::from(power.exponent()) } else { 1 };
    let parts = a.children().iter().map(work).fold(0, u64::saturating_add).saturating_mul(times);
    let own = if a.children().is_empty() { a.cost().flops } else { 0 };
    elements[0].saturating_add(elements[1]).saturating_add(own).saturating_add(parts)
}

/// The elements of the longest vector that an operator reads, writes or holds between two parts.
fn longest(a: &Operator) -> i64 {
    let own = a.domain().elements().max(a.codomain().elements());
    a.children().iter().map(longest).fold(own, i64::max)
}

/// All transfers in words, by the way they take.
fn moved(plan: &Plan) -> String {
    let mut ways: Vec<(String, usize, u64)> = Vec::new();
    let mut sum = 0u64;
    for t in plan.transfers() {
        sum = sum.saturating_add(t.bytes.0);
        let way = format!("{} -> {}", t.from, t.to);
        match ways.iter_mut().find(|(known, ..)| *known == way) {
            Some((_, n, bytes)) => (*n, *bytes) = (*n + 1, bytes.saturating_add(t.bytes.0)),
            None => ways.push((way, 1, t.bytes.0)),
        }
    }
    let mut words = text::count(plan.transfers().len(), "transfer");
    for (k, (way, n, bytes)) in ways.iter().enumerate() {
        let several = if *n > 1 { format!(" in {n}") } else { String::new() };
        words.push_str(&format!("{}{way} {}{several}", if k == 0 { ": " } else { ", " }, Bytes(*bytes)));
    }
    if ways.len() > 1 {
        words.push_str(&format!("; {} in all", Bytes(sum)));
    }
    words
}

/// The norm of a vector and its first values.
fn shown(name: &str, of: &Array) -> String {
    let values = of.values();
    // Of parts of the largest value: squares of the values themselves may leave the range of numbers.
    let sizes = values.iter().map(|z| z.re.abs().max(z.im.abs()));
    let unit = sizes.fold(0.0, f64::max);
    let unit = if 0.0 < unit && unit.is_finite() { unit } else { 1.0 };
    let norm = unit * values.iter().map(|z| (z / unit).norm_sqr()).sum::<f64>().sqrt();
    let first: Vec<String> = values.iter().take(MOST_SHOWN).map(|z| complex(*z)).collect();
    let rest = if values.len() > MOST_SHOWN { ", …" } else { "" };
    let length =
        if norm.is_finite() { format!("of norm {}", real(norm)) } else { "which overflows".to_owned() };
    format!("{name} = [{}{rest}], {length}", first.join(", "))
}

fn complex(z: Complex64) -> String {
    match (z.re, z.im) {
        (re, 0.0) => real(re),
        (0.0, im) => format!("{}i", real(im)),
        (re, im) => format!("{}{}{}i", real(re), if im < 0.0 { "" } else { "+" }, real(im)),
    }
}

/// Five digits.
fn real(v: f64) -> String {
    let size = v.abs();
    if v == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e6).contains(&size) {
        return format!("{v:.4e}");
    }
    let decimals =
        [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3, 1e4].iter().filter(|&&least| size < least).count();
    let text = format!("{v:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest side carries the others: 3, 4 and 5 at every scale that numbers have.
    #[test]
    fn lengths_at_the_ends_of_the_range() {
        let line = spanlift::op::Space::new([("x", 2)], spanlift::memory::Dtype::F64).unwrap();
        let check = |values: [f64; 2], length: &str| {
            let text = shown("x", &Array::new(line.clone(), values).unwrap());
            assert!(text.ends_with(length), "{text}");
        };
        check([3e-200, 4e-200], "of norm 5.0000e-200");
        check([3e200, -4e200], "of norm 5.0000e200");
        check([3.0, 4.0], "of norm 5");
        check([1e200, 1.0], "of norm 1.0000e200");
        check([0.0, 0.0], "of norm 0");
        check([1.7e308, 1.7e308], "which overflows");
    }

    #[test]
    fn digits_are_five() {
        let check = |v: f64, expected: &str| assert_eq!(real(v), expected);
        check(0.0, "0");
        check(1.0, "1");
        check(-12.5, "-12.5");
        check(std::f64::consts::PI, "3.1416");
        check(100.0, "100");
        check(123_456.7, "123457");
        check(0.000_123_456, "0.00012346");
        check(1e-9, "1.0000e-9");
        check(1e6, "1.0000e6");
        check(f64::INFINITY, "inf");
        assert_eq!(complex(Complex64::new(1.0, -2.0)), "1-2i");
        assert_eq!(complex(Complex64::new(0.0, 0.5)), "0.5i");
    }
}
