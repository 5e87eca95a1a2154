//! Operators as answers to the exercises of the page's lessons on them: judged by what they compute, against the reference evaluator,
//! by where they do so, and by what their plans move, hold and take.

use spanlift::machine::Machine;
use spanlift::memory::{Device, cuda};
use spanlift::op::{Array, Complex64, FromFn, Operator, Space};
use spanlift::plan::Plan;
use spanlift::{kib, mib};

use super::formulas::{bearable, pair, read, shortened};
use super::operators::{adjoint_of, at_most, busy, same, within};
use super::to_device::overlapped;
use super::told;
use crate::show::Figure;

/// Lesson 6: the scanner that its exercises ask for.
const SCANNER: &str = "operator
image = c64[y=48, x=48]
C = diagonal(c64[coil=4, y=48, x=48], coils)
A = repeat(coil, 4).at(0).over(image) -> C -> fft(y, x).centered
  -> select(ky, [0, 3, 6, 9, 12, 15, 18, 21..28, 30, 33, 36, 39, 42, 45]).named(line)
";

/// Lesson 6, exercise 3.
const BRIGHTER: &str = "operator\nA = (to(cuda:0) -> 2 -> to(cpu)).over(c64[y=48, x=48])\n";

/// Lesson 6, exercise 4: every row of an image shifted by one more pixel than the row before.
const SHEAR: &str = "operator
image = c64[y=4, x=4]
A = vstack(r, [
  slice(y, 0..1).named(r).over(image), slice(y, 1..2).named(r).over(image) -> roll(x, 1),
  slice(y, 2..3).named(r).over(image) -> roll(x, 2), slice(y, 3..4).named(r).over(image) -> roll(x, 3)]) -> rename(r=y)
";

/// Lesson 7: weights on two devices, complex, so that the adjoint is another operator than the chain.
const WEIGHTS: &str = "operator
images = c32[b=8, y=256, x=256]
W0 = diagonal(images.on(cuda:0), [y, x], random(1))
W1 = diagonal(images.on(cuda:1), [y, x], random(2))
";

/// Lesson 7: the chain over both of them, and its three branches.
const OVER_TWO: &str = "A = to(cuda:0) -> W0 -> to(cuda:1) -> W1 -> to(cpu)\n";
const BRANCHES: &str = "A = (to(cuda:0) -> W0 -> to(cpu)) + (to(cuda:1) -> W1 -> to(cpu)) + (to(cuda:0) -> 2 -> to(cpu)).over(images)\n";

/// An exercise whose answer is an operator; nothing for another name.
pub(super) fn judged(name: &str, answer: &str) -> Option<Figure> {
    let (here, both) = ([cuda(0)], [cuda(0), cuda(1)]);
    let found = match name {
        "on-device" => moved(answer, SCANNER, 2, &here),
        "dealt" => moved(answer, SCANNER, 4, &both),
        "within" => {
            answered(answer, BRIGHTER, &here).and_then(|(plan, asked)| within(&plan, &asked, &here, kib(16)))
        }
        "adjoint" => shear(answer),
        "chain" => moved(answer, &[WEIGHTS, OVER_TWO].concat(), 3, &both),
        "branches" => moved(answer, &[WEIGHTS, BRANCHES].concat(), 4, &both),
        "overlapped" => {
            answered(answer, &[WEIGHTS, OVER_TWO, "show A^H\n"].concat(), &both).and_then(|(plan, asked)| {
                let machine = Machine::builtin("v100-pcie3").ok_or("no machine v100-pcie3")?;
                overlapped(&plan, &asked, mib(2), &machine)
            })
        }
        _ => return None,
    };
    Some(shortened(told(found)))
}

/// The plan of an answer that computes what is asked for on these devices, and what is asked for.
fn answered(answer: &str, asked: &str, devices: &[Device]) -> Result<(Plan, Operator), String> {
    let (answer, asked) = (read(answer)?, read(asked)?);
    bearable(&answer, answer.operator(), 1)?;
    same(answer.operator(), asked.operator())?;
    let plan = answer.plan().map_err(|e| e.to_string())?;
    busy(&plan, devices.iter().copied())?;
    Ok((plan, asked.operator().clone()))
}

fn moved(answer: &str, asked: &str, most: usize, devices: &[Device]) -> Result<String, String> {
    answered(answer, asked, devices).and_then(|(plan, _)| at_most(&plan, most))
}

/// The operator of the fourth exercise of lesson 6, and what its reader takes for the adjoint.
fn shear(answer: &str) -> Result<String, String> {
    let [forward, adjoint] = pair(answer)?;
    let (forward, adjoint, asked) = (read(&forward.1)?, read(&adjoint.1)?, read(SHEAR)?);
    // The dot test is made twenty times.
    for script in [&forward, &adjoint] {
        bearable(script, script.operator(), 400)?;
    }
    let (forward, adjoint) = (forward.operator().clone(), adjoint.operator().clone());
    same(&forward, asked.operator())?;
    let [back, wanted] =
        [&adjoint, &asked.operator().h()].map(|a| [a.domain().clone(), a.codomain().clone()]);
    if back != wanted {
        let spaces = |[from, to]: &[Space; 2]| format!("from {} to {}", from.sized(), to.sized());
        return Err(format!("the adjoint goes {}, and yours {}", spaces(&wanted), spaces(&back)));
    }
    // As a leaf of one's own, of which nothing is known but what it computes.
    let computes = |a: Operator| {
        move |x: &[Complex64], y: &mut [Complex64]| {
            let made = Array::new(a.domain().clone(), x.iter().copied()).and_then(|x| a.apply(&x));
            if let Ok(made) = made {
                y.copy_from_slice(made.values());
            }
        }
    };
    let [from, to] = [forward.domain().clone(), forward.codomain().clone()];
    adjoint_of(&Operator::from(FromFn::new("Shear", from, to, computes(forward), computes(adjoint))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn judge(name: &str, answer: &str, expected: &str) {
        let told = judged(name, answer).unwrap();
        assert!(told.plain().starts_with(expected), "{name}: {expected:?} does not begin {}", told.plain());
    }

    /// Each exercise of lesson 6 with other ways to solve it, and with answers that are wrong in a way of their own.
    #[test]
    fn answers_of_lesson_six_are_judged_by_what_they_do() {
        let lines = "[0, 3, 6, 9, 12, 15, 18, 21..28, 30, 33, 36, 39, 42, 45]";
        let chain = |up: &str, coils: &str, rest: &str| {
            format!(
                "operator\nC = diagonal(c64[coil=4, y=48, x=48], coils)\n\
                 A = repeat(coil, 4).at(0).over(c64[y=48, x=48]){up} -> {coils} -> fft(y, x).centered{rest}"
            )
        };
        let keep = format!(" -> select(ky, {lines}).named(line)");
        let there = "C.on(cuda:0)";
        let right = "right: 2 transfers, no hazard by CUDA's documentation";
        judge("on-device", &chain(" -> to(cuda:0)", there, &format!("{keep} -> to(cpu)")), right);
        let first = "operator\nimage = c64[y=48, x=48]\nC = diagonal(c64[coil=4, y=48, x=48]@cuda:0, coils)\n\
                     A = to(cuda:0).over(image) -> repeat(coil, 4).at(0) -> C -> fft(y, x).centered";
        judge("on-device", &format!("{first}{keep} -> to(cpu)"), right);
        judge(
            "on-device",
            &chain("", there, &format!("{keep} -> to(cpu)")),
            "not yet: line 3, column 52: `C` expects",
        );
        judge(
            "on-device",
            &chain("", "C", &keep),
            "not yet: the right values, but nothing is computed on cuda:0",
        );
        judge(
            "on-device",
            &chain(" -> to(cuda:0)", there, &keep),
            "not yet: the answer reads c64[y=48,x=48]@cpu and gives c64[coil=4,line=20,kx=48]@cuda:0, what is asked for",
        );
        // There and back at the end is nothing at all.
        let again = format!("{keep} -> to(cpu) -> to(cuda:0) -> to(cpu)");
        judge("on-device", &chain(" -> to(cuda:0)", there, &again), right);
        let often = " -> to(cpu) -> roll(kx, 1) -> to(cuda:0) -> roll(kx, -1)";
        judge(
            "on-device",
            &chain(" -> to(cuda:0)", there, &format!("{often}{keep} -> to(cpu)")),
            "not yet: 4 transfers, 2 are enough\ncpu -> cuda:0",
        );
        let others = " -> select(ky, [0..20]).named(line) -> to(cpu)";
        judge(
            "on-device",
            &chain(" -> to(cuda:0)", there, others),
            "not yet: another operator: on a trial input its result is ",
        );

        let split = |how: &str| format!("{}\nshow A{how}", chain("", "C", &keep));
        judge("dealt", &split(".split(coil, 4, [cuda:0, cuda:1])"), "right: 4 transfers");
        judge("dealt", &split(".split(coil, 2, [cuda:1, cuda:0])"), "right: 4 transfers");
        judge(
            "dealt",
            &split(".split(coil, 4, [cuda:0, cuda:1, cuda:0, cuda:1]).simplify"),
            "right: 4 transfers",
        );
        judge(
            "dealt",
            &split(".split(coil, 3, [cuda:0, cuda:1, cuda:2])"),
            "not yet: 6 transfers, 4 are enough",
        );
        judge(
            "dealt",
            &split(".split(coil, 4, [cuda:0])"),
            "not yet: the right values, but nothing is computed on cuda:1",
        );
        judge("dealt", &split(".split(coil, 5, [cuda:0, cuda:1])"), "not yet: line 4, column 8: ");

        let brighter = |line: &str, factor: &str| {
            format!("operator\n{line}\nA = (to(cuda:0) -> {factor} -> to(cpu)).over(c64[y=48, x=48])")
        };
        judge(
            "within",
            &brighter("cap cuda:0 16KiB", "2"),
            "right: 12 transfers, no hazard by CUDA's documentation\ncuda:0 holds 15.75 KiB of 16.00 KiB\nin tiles of y=9",
        );
        judge("within", &brighter("cap cuda:0 9KiB", "2"), "right: ");
        judge("within", &format!("{}\nshow A.tiles(y=1)", brighter("ahead 1", "2")), "right: 96 transfers");
        judge("within", &brighter("", "2"), "not yet: cuda:0 holds 36.00 KiB, 16.00 KiB are allowed");
        judge("within", &brighter("cap cuda:0 20KiB", "2"), "not yet: cuda:0 holds ");
        judge("within", &brighter("cap cuda:1 16KiB", "2"), "not yet: cuda:0 holds 36.00 KiB");
        judge("within", &brighter("cap cuda:0 16KiB", "3"), "not yet: another operator");
        judge(
            "within",
            "operator\ncap cuda:0 16KiB\nA = 2 * identity.over(c64[y=48, x=48])",
            "not yet: the right values, but nothing is computed on cuda:0",
        );

        let rows = |by: [i64; 4]| {
            let row = |(k, by): (usize, &i64)| {
                format!("slice(y, {k}..{}).named(r).over(image) -> roll(x, {by})", k + 1)
            };
            let rows: Vec<String> = by.iter().enumerate().map(row).collect();
            format!("vstack(r, [{}]) -> rename(r=y)", rows.join(", "))
        };
        let both = |forward: &str, adjoint: &str| {
            format!("operator\nimage = c64[y=4, x=4]\n== forward\nA = {forward}\n== adjoint\nB = {adjoint}\n")
        };
        let shear = rows([0, 1, 2, 3]);
        judge(
            "adjoint",
            &both(&shear, &rows([0, -1, -2, -3])),
            "right: the dot test passed for 20 pairs of vectors\nShear : ",
        );
        judge("adjoint", &both(&shear, &rows([0, 3, 2, 1])), "right: ");
        judge("adjoint", &both(&shear, &format!("({shear})^H")), "right: ");
        judge("adjoint", &both(&shear, &shear), "not yet: the dot test failed: ");
        judge("adjoint", &both(&shear, &format!("2 * ({shear})^H")), "not yet: the dot test failed: ");
        let twice = judged("adjoint", &both(&shear, &format!("2 * ({shear})^H"))).unwrap();
        assert!(
            twice.plain().ends_with("\nthe adjoint is 2+0i times what it should be"),
            "{}",
            twice.plain()
        );
        judge("adjoint", &both(&shear, &rows([0, -1, -2, 3])), "not yet: the dot test failed: ");
        judge("adjoint", &both(&rows([0; 4]), &rows([0; 4])), "not yet: another operator");
        judge(
            "adjoint",
            &both(&shear, "flip(x).over(c64[y=4, x=8])"),
            "not yet: the adjoint goes from c64[y=4,x=4]@cpu to c64[y=4,x=4]@cpu, and yours from ",
        );
        judge("adjoint", &both(&shear, "2"), "not yet: line 6, column ");
        judge("adjoint", "operator\nA = flip(x).over(f64[x=2])", "not yet: no operator has a name");
    }

    #[test]
    fn answers_of_lesson_seven_are_judged_by_what_they_do() {
        let chain = |a: &str| format!("{WEIGHTS}A = {a}");
        let right = "to(cuda:0) -> W0 -> to(cuda:1) -> W1 -> to(cpu)";
        judge(
            "chain",
            &chain(right),
            "right: 3 transfers, no hazard by CUDA's documentation\ncpu -> cuda:0  4.00 MiB",
        );
        judge("chain", &chain("to(cuda:1) -> W1 -> to(cuda:0) -> W0 -> to(cpu)"), "right: 3 transfers");
        judge(
            "chain",
            &chain("to(cuda:0) -> W0 -> W1 -> to(cuda:0) -> to(cpu)"),
            "not yet: line 5, column 25: `W1` expects",
        );
        judge("chain", &chain("to(cuda:0) -> W0 -> to(cuda:1) -> W1"), "not yet: the answer reads ");
        judge(
            "chain",
            &chain("to(cuda:0) -> W0 -> to(cpu)"),
            "not yet: another operator: on a trial input its result is ",
        );
        judge(
            "chain",
            &chain("to(cuda:0) -> W0 -> to(cpu) -> to(cuda:1) -> W1 -> to(cpu)"),
            "not yet: 4 transfers, 3 are enough",
        );
        judge(
            "chain",
            &chain("to(cuda:0) -> W0 -> W1.on(cuda:0) -> to(cpu)"),
            "not yet: the right values, but nothing is computed on cuda:1",
        );

        let three = |last: &str| format!("{WEIGHTS}{BRANCHES}{last}");
        judge("branches", &three("show A.simplify"), "right: 4 transfers");
        judge(
            "branches",
            &chain("(to(cuda:0) -> W0 + 2 -> to(cpu)) + (to(cuda:1) -> W1 -> to(cpu))"),
            "right: 4 transfers",
        );
        judge("branches", &three(""), "not yet: 6 transfers, 4 are enough");
        judge(
            "branches",
            &chain("(to(cuda:0) -> W0 -> to(cpu)) + (to(cuda:1) -> W1 -> to(cpu))"),
            "not yet: another operator",
        );
        judge(
            "branches",
            &chain("to(cuda:0) -> W0 + W1.on(cuda:0) + 2 -> to(cpu)"),
            "not yet: the right values, but nothing is computed on cuda:1",
        );

        let adjoint = |line: &str, of: &str| format!("{WEIGHTS}{line}\n{OVER_TWO}show {of}");
        judge("overlapped", &adjoint("ahead 1", "A^H.tiles(b=1)"), "right: 24 transfers, safe by contract");
        judge(
            "overlapped",
            &adjoint("ahead 1\ncap cuda:0 2MiB\ncap cuda:1 2MiB", "A^H"),
            "right: 21 transfers",
        );
        judge("overlapped", &adjoint("", "A^H"), "not yet: cuda:0 holds more than 2.00 MiB");
        judge("overlapped", &adjoint("", "A^H.tiles(b=1)"), "not yet: cuda:0 holds more than 2.00 MiB");
        judge(
            "overlapped",
            &adjoint("ahead 0", "A^H.tiles(b=1)"),
            "not yet: too little at the same time\n24 transfers",
        );
        judge(
            "overlapped",
            &adjoint("ahead 1", "A^H.tiles(b=4)"),
            "not yet: cuda:0 holds more than 2.00 MiB",
        );
        judge("overlapped", &adjoint("ahead 0", "A^H.tiles(b=2)"), "not yet: too little at the same time");
        // Written by hand it is as right; the chain itself goes the other way and turns the phases the other way.
        let by_hand =
            chain("(to(cuda:1) -> W1^H -> to(cuda:0) -> W0^H -> to(cpu))\nahead 1\nshow A.tiles(b=1)");
        judge("overlapped", &by_hand, "right: 24 transfers");
        judge("overlapped", &adjoint("ahead 1", "A.tiles(b=1)"), "not yet: another operator");
        judge("overlapped", &by_hand.replace("W0^H", "W0"), "not yet: another operator");
        let on_one = adjoint("ahead 1", "A^H.simplify.tiles(b=1)");
        judge("overlapped", &on_one, "not yet: the right values, but nothing is computed on cuda:1");
    }
}
