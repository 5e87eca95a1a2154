//! The rules that hold as soon as an expression is built, on random expressions.

use serde_json::json;
use spanlift::chain;
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{Level, Operator, Simplify, sum, to};

use crate::oracle::Matrix;
use crate::rules::{Draw, expression, same};
use crate::soak::{draws, record};
use crate::table::FIELDS;

/// Names of the rules that are tried here and not on what `simplify` is given.
pub(crate) const RULES_OF_BUILDING: [&str; 10] = [
    "double",
    "turns",
    "real",
    "distribute",
    "flatten",
    "identity",
    "no transfer",
    "round trip",
    "back",
    "gram",
];

#[track_caller]
fn is(what: &str, a: &Operator, expected: &Matrix) {
    let found = Matrix::read(a);
    let eps = crate::oracle::eps(a.domain().dtype());
    let scale = expected.size().max(found.size()).max(1.0);
    assert!(found.distance(expected) <= 4096.0 * eps * scale, "{what}: {a}");
}

/// Asserts the rule on operators that are drawn for it.
fn holds(rule: &str, d: &mut Draw) {
    let (a, b, c) = (expression(d, 2), expression(d, 2), expression(d, 1));
    let m = Matrix::read(&a);
    let what = &format!("{rule}: {a}");
    let there = a.domain().on(mock(0));
    let up = || spanlift::op::ToDevice::from(cpu()).to(mock(0)).over(a.domain()).unwrap();
    match rule {
        "double" => {
            assert_eq!((a.h().h(), a.t().t(), a.conj().conj()), (a.clone(), a.clone(), a.clone()), "{what}");
            same(what, &a, &a.h().h(), Level::Bitwise);
        }
        "turns" => {
            assert_eq!((a.h().conj(), a.t().conj(), a.h().t()), (a.t(), a.h(), a.conj()), "{what}");
            is(what, &a.t(), &m.transpose());
            is(what, &a.conj(), &m.conj());
        }
        "real" => {
            is(what, &a.h(), &m.h());
            if m.entries.iter().all(|z| z.im == 0.0) {
                same(what, &a, &a.conj(), Level::Bitwise);
                same(what, &a.h(), &a.t(), Level::Bitwise);
            }
        }
        "distribute" => {
            let product = chain![&a, &b].unwrap();
            same(what, &product.h(), &chain![b.h(), a.h()].unwrap(), Level::Bitwise);
            same(what, &(&a + &b).unwrap().h(), &(a.h() + b.h()).unwrap(), Level::Bitwise);
            is(what, &product.h(), &Matrix::read(&b).times(&m).h());
        }
        "flatten" => {
            let one = chain![&chain![&a, &b], &c].unwrap();
            assert_eq!(one, chain![&a, &chain![&b, &c]].unwrap(), "{what}");
            assert_eq!(sum([sum([&a, &b]), Ok(c.clone())]).unwrap(), sum([&a, &b, &c]).unwrap(), "{what}");
        }
        "identity" => {
            let i = Operator::identity(a.domain().clone());
            assert_eq!(chain![&i, &a, &i].unwrap(), a, "{what}");
            assert_eq!(sum([&a]).unwrap(), a, "{what}");
        }
        "no transfer" => {
            assert_eq!(chain![to(cpu()), &a, to(cpu())].unwrap(), a, "{what}");
        }
        "round trip" => {
            let round = chain![&a, to(mock(0)), to(cpu()), &b].unwrap();
            assert_eq!(round, chain![&a, &b].unwrap(), "{what}");
        }
        "back" => {
            let back = spanlift::op::ToDevice::from(mock(0)).to(cpu()).over(&there).unwrap();
            assert_eq!((up().h(), up().normal()), (back, Operator::identity(a.domain().clone())), "{what}");
        }
        "gram" => {
            same(what, &a.h().gram(), &a.cogram(), Level::Bitwise);
            is(what, &a.cogram(), &m.times(&m.h()));
            is(what, &a.gram(), &m.h().times(&m));
        }
        rule => panic!("no rule of building: {rule}"),
    }
}

#[test]
fn every_rule_of_building_holds() {
    let instances = draws(12, 1000);
    for rule in RULES_OF_BUILDING {
        assert!(spanlift::op::RULES.iter().any(|r| r.name == rule), "{rule} is in no table");
        for seed in 1..=instances {
            let dtype = FIELDS[usize::try_from(seed % 4).unwrap()];
            holds(rule, &mut Draw::new(seed * 0x51_7cc1_b727 + 5, dtype));
        }
    }
    record("rules of building", json!({"instances_of_each": instances, "rules": RULES_OF_BUILDING}));
}

/// What a rule of building does is not undone by another: nothing is left for `simplify` to find.
#[test]
fn transfers_that_cancel_are_gone_before_anything_is_simplified() {
    for seed in 1..=40 {
        let a = expression(&mut Draw::new(seed, Dtype::F64), 2);
        let round = chain![to(mock(0)), to(cpu()), &a].unwrap();
        assert_eq!(round, a);
        assert!(Simplify::default().run(&round).log.iter().all(|r| r.rule != "round trip"));
    }
}
