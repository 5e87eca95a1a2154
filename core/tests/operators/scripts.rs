//! Operators as text beside the builders that they stand for.

use spanlift::chain;
use spanlift::memory::{Dtype, cpu, cuda};
use spanlift::op::{Complex64, Diagonal, Operator, Space, fft, identity, select, to};
use spanlift::plan::Script;

use crate::oracle::Random;

/// The operator of a script with these lines.
fn read(lines: &str) -> Operator {
    Script::read(&format!("operator\n{lines}"))
        .map(|script| script.operator().clone())
        .unwrap_or_else(|e| panic!("{e}"))
}

/// What a script says is what the builders make: equal as values, and on numbers.
#[track_caller]
fn same(lines: &str, built: &Operator) {
    let found = read(lines);
    assert_eq!(found.to_string(), built.to_string(), "{lines}");
    let x = Random(3).array(built.domain());
    assert_eq!(found.apply(&x), built.apply(&x), "{lines}");
    let y = Random(4).array(built.codomain());
    assert_eq!(found.h().apply(&y), built.h().apply(&y), "{lines}");
}

fn line(n: i64) -> Space {
    Space::new([("x", n)], Dtype::C64).unwrap()
}

#[test]
fn chains_are_those_of_the_builders() {
    let w = Diagonal::new(line(8).on(cuda(0)), (1..=8).map(f64::from)).unwrap().named("W");
    let a = chain![to(cuda(0)), w, fft(["x"]), select("kx", [0, 1, 3, 4, 6]), to(cpu())].unwrap();
    let text = "W = diagonal(c64[x=8]@cuda:0, ramp(1, 1))\n\
                A = to(cuda:0) -> W -> fft(x) -> select(kx, [0, 1, 3, 4, 6]) -> to(cpu)\n";
    same(text, &a);
    same(&format!("{text}show A^H"), &a.h());
    same(&format!("{text}show normal(A)"), &a.normal());
    same(&format!("{text}show A.normal + 0.5"), &(a.normal() + 0.5 * identity()).unwrap());
    same(&format!("{text}show A -> A^H"), &chain![&a, a.h()].unwrap());
    same(&format!("{text}show A - 2i * A"), &(&a - a.times(Complex64::new(0.0, 2.0))).unwrap());
}
