//! Plans: an expression with the program, the transfers and the memory that follow from it.

use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{self, Array, Operator, Reader, Space, Weights, to};
use spanlift::plan::{Plan, Planning};
use spanlift::{Bytes, chain};

use crate::kit::{fuzz, mutated};

const WORDS: &[&[u8]] = &[
    b"null",
    b"[]",
    b"{}",
    b"0",
    b"-1",
    b"1e400",
    b"9223372036854775807",
    b"\"mock:1\"",
    b"\"cpu\"",
    b"\"ahead\":true,",
    b"\"caps\":{\"mock:0\":16},",
    b"\"input\":{\"real\":[1,2,3]},",
    b"\"input\":null,",
    b"\"bytes\":12,",
    b"\"schema_version\":2,",
    b"\"notes\":[],",
    b"\"op\":\"chain\",",
];

/// A chain over a device, plainly, for one input, and in tiles that fit.
fn corpus() -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let line = Space::new([("x", 6), ("b", 4)], Dtype::F64)?;
    let weights = op::Diagonal::new(line.on(mock(0)), (0..24).map(f64::from))?;
    let a: Operator = chain![to(mock(0)), weights, op::roll("x", 1), to(cpu())]?;
    let x = Array::new(line, vec![0.5; 24])?;
    let plans = [a.plan()?, a.plan_for(&x)?, Planning::new().cap(mock(0), Bytes(400)).plan(&a)?];
    Ok(plans.iter().filter_map(|plan| plan.to_json(Weights::Inline).ok()).map(String::into_bytes).collect())
}

/// What is read is written as it was, and its program is one.
fn judge(bytes: &[u8]) -> Result<bool, String> {
    let plan = match Plan::read(&Reader::new(), bytes) {
        Err(e) if e.place.is_empty() || e.problem.is_empty() => return Err("no place".to_owned()),
        Err(_) => return Ok(false),
        Ok(plan) => plan,
    };
    plan.program().check().map_err(|e| format!("its program: {e}"))?;
    let written = plan.to_json(Weights::Inline).map_err(|e| e.to_string())?;
    let again =
        Plan::read(&Reader::new(), written.as_bytes()).map_err(|e| format!("{}: {}", e.place, e.problem))?;
    if again.to_json(Weights::Inline).as_ref() != Ok(&written) {
        return Err("another file when it is written again".to_owned());
    }
    Ok(true)
}

#[test]
fn damaged_plans_get_an_answer() {
    let corpus = corpus().expect("good plans");
    assert_eq!(corpus.len(), 3);
    assert!(corpus.iter().all(|file| judge(file) == Ok(true)), "good plans");
    fuzz("plans", 1500, |r| mutated(r, &corpus, WORDS, 1 << 16), |bytes, _| judge(bytes));
}
