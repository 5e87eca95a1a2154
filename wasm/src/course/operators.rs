//! Lesson 6: expressions as answers, judged by the dot test, the planner and the checker.

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::Device;
use spanlift::op::{Array, Complex64, OpError, Operator, Space, diagnose, dot_test};
use spanlift::plan::{Plan, PlanError, Transfer};
use spanlift::{Bytes, Program};

use super::told;
use crate::show::Figure;
use crate::text;

/// What can be handed in as an answer: an expression, or what came of building it.
pub trait Expression {
    /// The operator.
    ///
    /// # Errors
    /// Why it could not be built, in words.
    fn operator(&self) -> Result<Operator, String>;
}

impl Expression for Operator {
    fn operator(&self) -> Result<Operator, String> {
        Ok(self.clone())
    }
}

impl Expression for Result<Operator, OpError> {
    fn operator(&self) -> Result<Operator, String> {
        self.clone().map_err(|e| e.to_string())
    }
}

impl<E: Expression + ?Sized> Expression for &E {
    fn operator(&self) -> Result<Operator, String> {
        (**self).operator()
    }
}

/// Numbers for every element of a space, the same every time.
fn trial(space: &Space) -> Result<Array, String> {
    let value = |k: i64| {
        // Nothing repeats soon, and nothing is zero for long.
        #[expect(clippy::cast_precision_loss, reason = "spaces of a lesson are small")]
        let at = k as f64;
        let imaginary = if space.is_complex() { (at * 0.61).cos() } else { 0.0 };
        Complex64::new((at * 0.37).sin(), imaginary)
    };
    Array::new(space.clone(), (0..space.elements()).map(value)).map_err(|e| e.to_string())
}

/// Refuses what does not compute what was asked for.
pub(super) fn same(answer: &Operator, asked: &Operator) -> Result<(), String> {
    let spaces = |a: &Operator| format!("reads {} and gives {}", a.domain().sized(), a.codomain().sized());
    if (answer.domain(), answer.codomain()) != (asked.domain(), asked.codomain()) {
        return Err(format!("the answer {}, what is asked for {}", spaces(answer), spaces(asked)));
    }
    let x = trial(asked.domain())?;
    let [found, wanted] = [answer, asked].map(|a| a.apply(&x).map_err(|e| e.to_string()));
    let (found, wanted) = (found?, wanted?);
    let size = |values: &mut dyn Iterator<Item = Complex64>| values.map(|v| v.norm_sqr()).sum::<f64>().sqrt();
    let off = size(&mut found.values().iter().zip(wanted.values()).map(|(a, b)| a - b));
    let whole = size(&mut wanted.values().iter().copied());
    if off > 1e-5 * whole {
        let part = off / whole.max(f64::MIN_POSITIVE);
        return Err(format!("another operator: on a trial input its result is {:.0} % off", 100.0 * part));
    }
    Ok(())
}

/// Refuses a program that the checker does not call safe.
pub(super) fn safe(program: &Program) -> Result<(), String> {
    let report = hazard::check(program, Mode::Contract).map_err(|e| e.to_string())?;
    match (report.verdict(), report.hazards.first()) {
        (Verdict::Safe, _) => Ok(()),
        (_, Some(first)) => Err(hazard::sentence(program, first)),
        (verdict, None) => Err(verdict.name().to_owned()),
    }
}

fn listed(transfers: &[Transfer]) -> String {
    let line = |t: &Transfer| format!("\n{} -> {}  {}  {}", t.from, t.to, t.bytes, t.why);
    transfers.iter().map(line).collect()
}

/// An answer that computes what was asked for, something of it on each of these devices, with at most so many transfers, as
/// planned and checked.
pub fn check_moves(answer: impl Expression, asked: &Operator, devices: &[Device], most: usize) -> Figure {
    told(answer.operator().and_then(|a| {
        same(&a, asked)?;
        let plan = a.plan().map_err(|e| e.to_string())?;
        busy(&plan, devices.iter().copied())?;
        at_most(&plan, most)
    }))
}

/// Refuses a plan that leaves a device without work: what moves nothing has the fewest transfers.
pub(super) fn busy(plan: &Plan, devices: impl IntoIterator<Item = Device>) -> Result<(), String> {
    match devices.into_iter().find(|device| !plan.work().any(|(_, at)| at == *device)) {
        Some(idle) => Err(format!("the right values, but nothing is computed on {idle}")),
        None => Ok(()),
    }
}

pub(super) fn at_most(plan: &Plan, most: usize) -> Result<String, String> {
    safe(plan.program())?;
    let (n, list) = (text::count(plan.transfers().len(), "transfer"), listed(plan.transfers()));
    if plan.transfers().len() > most {
        return Err(format!("{n}, {most} are enough{list}"));
    }
    Ok(format!("{n}, no hazard by CUDA's documentation{list}"))
}

/// An operator whose adjoint is its adjoint: the dot test, and its diagnosis where it fails.
pub fn check_adjoint(answer: impl Expression) -> Figure {
    told(answer.operator().and_then(|a| adjoint_of(&a)))
}

pub(super) fn adjoint_of(a: &Operator) -> Result<String, String> {
    let failed = (1..=20).map(|seed| dot_test(a, seed)).find(|report| !report.passed());
    let Some(report) = failed else {
        return Ok(format!("the dot test passed for 20 pairs of vectors\n{a}"));
    };
    let fault = diagnose(a).map_or_else(String::new, |fault| format!("\n{fault}"));
    Err(format!("the dot test {report}{fault}"))
}

/// A plan of what was asked for that computes on each of these devices and holds at most so much there.
pub fn check_within(
    answer: Result<Plan, PlanError>,
    asked: &Operator,
    devices: &[Device],
    cap: Bytes,
) -> Figure {
    told(answer.map_err(|e| e.to_string()).and_then(|plan| within(&plan, asked, devices, cap)))
}

pub(super) fn within(
    plan: &Plan,
    asked: &Operator,
    devices: &[Device],
    cap: Bytes,
) -> Result<String, String> {
    same(plan.operator(), asked)?;
    busy(plan, devices.iter().copied())?;
    safe(plan.program())?;
    let mut held = String::new();
    for device in devices {
        let peak = plan.peaks().get(device).map_or(Bytes(0), |peak| peak.total());
        if peak > cap {
            return Err(format!("{device} holds {peak}, {cap} are allowed"));
        }
        held.push_str(&format!("\n{device} holds {peak} of {cap}"));
    }
    let n = text::count(plan.transfers().len(), "transfer");
    let notes: String = plan.notes().iter().map(|note| format!("\n{}", note.text)).collect();
    Ok(format!("{n}, no hazard by CUDA's documentation{held}{notes}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlift::chain;
    use spanlift::memory::{Dtype, cpu, cuda};
    use spanlift::op::{Diagonal, FromFn, dense, to};
    use spanlift::plan::Planning;

    #[track_caller]
    fn check(figure: &Figure, expected: &str) {
        assert!(
            figure.plain().starts_with(expected),
            "{expected:?} is not the beginning of {}",
            figure.plain()
        );
    }

    fn matrix() -> Operator {
        let w = (0..24).map(|k| f64::from(k) - 11.5);
        dense(["m"], ["n"], [("m", 4), ("n", 6)], w, Dtype::F64).unwrap()
    }

    #[test]
    fn answers_are_judged_by_what_they_compute_and_move() {
        let a = matrix();
        let there = a.on(cuda(0));
        let on_one = |answer: Result<Operator, OpError>| check_moves(answer, &a, &[cuda(0)], 2);
        check(&on_one(chain![to(cuda(0)), &there, to(cpu())]), "right: 2 transfers, no hazard");
        check(&on_one(chain![&there, to(cpu())]), "not yet: the answer reads f64[n=6]@cuda:0");
        check(&on_one(chain![to(cuda(1)), &there, to(cpu())]), "not yet: `W` expects");
        let twice = "not yet: another operator: on a trial input its result is 100 %";
        check(&on_one(chain![to(cuda(0)), there.times(2.0), to(cpu())]), twice);
        let split = |devices: &[Device]| check_moves(a.split("m", 4, devices), &a, &[cuda(0), cuda(1)], 4);
        let apart = a.tiles([("m", 1)]).unwrap().on(&[cuda(0), cuda(1), cuda(0), cuda(1)]);
        let apart = check_moves(apart, &a, &[cuda(0), cuda(1)], 4);
        check(&apart, "not yet: 8 transfers, 4 are enough\ncpu -> cuda:0  48 B  `W`");
        check(&split(&[cuda(0), cuda(1)]), "right: 4 transfers");
        check(&split(&[cuda(1), cuda(0)]), "right: 4 transfers");
        check(&split(&[cuda(0)]), "not yet: the right values, but nothing is computed on cuda:1");
        // What is asked for, handed in as it is: right values, and no transfer is the fewest.
        let idle = "not yet: the right values, but nothing is computed on cuda:0";
        check(&check_moves(&a, &a, &[cuda(0)], 2), idle);
        check(&check_moves(chain![to(cuda(0)), to(cpu()), &a], &a, &[cuda(0)], 2), idle);
        check(&check_moves(&a, &a, &[], 0), "right: 0 transfers");
    }

    #[test]
    fn wrong_adjoints_are_named() {
        let line = Space::new([("x", 3)], Dtype::F64).unwrap();
        let twice = FromFn::new(
            "A",
            line.clone(),
            line,
            |x, y| y.copy_from_slice(x),
            |y, x| x.iter_mut().zip(y).for_each(|(x, y)| *x = 2.0 * y),
        );
        let told = check_adjoint(Operator::from(twice));
        check(&told, "not yet: the dot test failed: ");
        assert!(told.plain().ends_with("\nthe adjoint is 2+0i times what it should be"), "{}", told.plain());
        check(&check_adjoint(matrix()), "right: the dot test passed for 20 pairs of vectors\nW : ");
    }

    #[test]
    fn limits_are_looked_at() {
        let line = Space::new([("b", 8), ("x", 16)], Dtype::F64).unwrap();
        let d = Diagonal::broadcast(
            line.on(cuda(0)),
            &spanlift::op::Tensor::new([("x", 16)], (0..16).map(f64::from)).unwrap(),
        );
        let a = chain![to(cuda(0)), d, to(cpu())].unwrap();
        let cap = Bytes(512);
        check(&check_within(a.plan(), &a, &[cuda(0)], cap), "not yet: cuda:0 holds ");
        let plan = Planning::new().cap(cuda(0), cap).plan(&a);
        let told = check_within(plan, &a, &[cuda(0)], cap);
        check(&told, "right: ");
        let here = Operator::from(
            Diagonal::broadcast(
                line.clone(),
                &spanlift::op::Tensor::new([("x", 16)], (0..16).map(f64::from)).unwrap(),
            )
            .unwrap(),
        );
        check(
            &check_within(here.plan(), &a, &[cuda(0)], cap),
            "not yet: the right values, but nothing is computed on cuda:0",
        );
        assert!(told.plain().contains("in tiles of b="), "{}", told.plain());
        check(
            &check_within(Planning::new().cap(cuda(0), Bytes(1)).plan(&a), &a, &[cuda(0)], cap),
            "not yet: ",
        );
    }
}
