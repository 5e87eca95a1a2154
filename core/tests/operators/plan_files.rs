//! Plans in files: written, read again and run, and refused where the file disagrees with itself.

use serde_json::{Value, json};
use spanlift::machine::Machine;
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{Array, Diagonal, Operator, Reader, Weights, fft, to};
use spanlift::plan::{Plan, Planning};
use spanlift::{Bytes, chain, sim};

use crate::memory::random_expression;
use crate::oracle::Random;
use crate::table::{space, weights};

fn result(plan: &Plan) -> Option<Array> {
    let machine = Machine::builtin("h200-pcie5").unwrap();
    plan.result(&sim::run_knowing(plan.program(), &machine, plan).unwrap().finals)
}

#[track_caller]
fn comes_back(what: &str, plan: &Plan) {
    for how in [Weights::Inline, Weights::ByName] {
        let file = plan.to_json(how).unwrap_or_else(|e| panic!("{what}: {e}"));
        let reader = Reader::new().weights(plan.operator().weights());
        let again = Plan::read(&reader, file.as_bytes()).unwrap_or_else(|e| panic!("{what}: {e}\n{file}"));
        assert_eq!(again.program(), plan.program(), "{what}");
        assert_eq!(again.transfers(), plan.transfers(), "{what}");
        assert_eq!((again.peaks(), again.notes()), (plan.peaks(), plan.notes()), "{what}");
        assert_eq!((again.planning(), again.input()), (plan.planning(), plan.input()), "{what}");
        assert_eq!(again.to_json(how).unwrap(), file, "{what}");
        assert_eq!(result(&again), result(plan), "{what}");
    }
}

#[test]
fn random_plans_come_back_and_run_the_same() {
    let mut random = Random(41);
    for round in 0..40 {
        let a = random_expression(&mut random);
        let x = random.array(a.domain());
        let on = Planning::new().compute_on(mock(0), "mine").compute_on(cpu(), "host");
        let planning = [Planning::new(), Planning::new().ahead(0), Planning::new().ahead(1), on];
        for how in planning {
            comes_back(&format!("round {round}, {a}"), &how.plan(&a).unwrap());
            let plan = how.plan_for(&a, &x).unwrap();
            comes_back(&format!("round {round}, {a} of values"), &plan);
        }
    }
}

/// A transform of an image on a device, within a limit that takes tiles.
fn tiled() -> Plan {
    let image = space(&[("y", 8), ("x", 4)], Dtype::C32);
    let d = Diagonal::new(image.on(mock(0)), weights(32, Dtype::C32)).unwrap();
    let w = Operator::from(d);
    let a = chain![to(mock(0)), w, fft(["x"]), to(cpu())].unwrap();
    Planning::new().cap(mock(0), Bytes(400)).plan_for(&a, &Random(2).array(&image)).unwrap()
}

#[test]
fn weights_of_the_same_values_stay_apart() {
    let line = space(&[("x", 4)], Dtype::F64);
    // Two storages, which a name cannot tell apart.
    let twin = || Operator::from(Diagonal::new(line.clone(), weights(4, Dtype::F64)).unwrap());
    let a = chain![twin(), twin()].unwrap();
    comes_back("twins", &a.plan().unwrap());
    // Where only one is given it stands for both.
    let file = a.to_json(Weights::ByName).unwrap();
    let b = Reader::new().weights(twin().weights()).read(file.as_bytes()).unwrap();
    let x = Random(3).array(&line);
    assert_eq!(a.apply(&x).unwrap(), b.apply(&x).unwrap());
}

#[test]
fn plans_within_a_limit_come_back_with_their_tiles() {
    let plan = tiled();
    assert!(plan.transfers().len() > 2 && !plan.notes().is_empty(), "{plan}");
    comes_back("tiles", &plan);
}

#[test]
fn a_file_that_disagrees_with_its_expression_is_refused() {
    let plan = tiled();
    let good: Value = serde_json::from_str(&plan.to_json(Weights::Inline).unwrap()).unwrap();
    let says = |pointer: &str, value: Value| {
        let mut file = good.clone();
        *file.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not there")) = value;
        Plan::read(&Reader::new(), file.to_string().as_bytes()).map(|_| ()).unwrap_err().to_string()
    };
    let check = |pointer: &str, value: Value, expected: &str| {
        let said = says(pointer, value);
        assert!(said.starts_with(expected), "{pointer}: {said}");
        assert!(!said.contains('\n'), "{said}");
    };
    let bytes = plan.transfers()[0].bytes.0;
    check(
        "/transfers/0/bytes",
        json!(1),
        &format!("transfers[0].bytes: is 1, the expression asks for {bytes}"),
    );
    check(
        "/transfers/0/from",
        json!("mock:0"),
        "transfers[0].from: is \"mock:0\", the expression asks for \"cpu\"",
    );
    check("/transfers", json!([]), "transfers: 0 entries, the expression asks for ");
    check("/memory/mock:0/weights", json!(0), "memory.mock:0.weights: is 0, ");
    check("/memory/cpu", json!(7), "memory.cpu: is 7, the expression asks for an object");
    check("/program/ops", json!([]), "program.ops: 0 entries, ");
    check("/program/ops/3/bytes", json!(-4), "program.ops[3].bytes: is -4, ");
    check("/schema_version", json!(2), "schema_version: only version 1 is known");
    check("/operator/operator/op", json!("train"), "operator.operator.op: \"train\" is no operator");
    check("/planning/ahead", json!(-1), "planning.ahead: expected a number of tiles or null");
    check("/planning/caps/mock:0", json!("all"), "planning.caps.mock:0: expected a number of bytes");
    check("/planning/caps/mock:0", json!(8), "memory.mock:0: ");
    check("/planning/caps", json!({"tpu:0": 1}), "planning.caps.tpu:0: ");
    let streams = |streams: Value| {
        let mut planning = good["planning"].clone();
        planning["streams"] = streams;
        planning
    };
    check("/planning", streams(json!([])), "planning.streams: expected names by device");
    check("/planning", streams(json!({"mock:0": 1})), "planning.streams.mock:0: expected a name");
    check("/planning", streams(json!({"tpu:0": "s"})), "planning.streams.tpu:0: ");
    check("/planning", streams(json!({"mock:0": "mine"})), "program.ops[");
    check("/input", json!({"real": [1.0]}), "input.complex: expected a list");
    check("/input/complex", json!([1.0]), "input.complex: expected pairs of numbers");
    check("/input/complex", json!([1.0, 2.0]), "input.complex: ");
    check("/input/complex/0", json!("x"), "input.complex: expected numbers");
    check("/notes", json!([{"text": 1}]), "notes[0].text: expected a text");
    check("/notes", json!([{"command": 3, "text": "no"}]), "notes: 1 entries, the expression asks for 0");
    for field in ["operator", "planning", "program", "transfers", "memory", "input", "notes"] {
        let mut file = good.clone();
        file.as_object_mut().unwrap().remove(field);
        let said = Plan::read(&Reader::new(), file.to_string().as_bytes()).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{field}: is missing")), "{said}");
    }
    for text in ["", "[]", "7", "{", "{\"schema_version\": 1}"] {
        assert!(Plan::read(&Reader::new(), text.as_bytes()).is_err(), "{text:?}");
    }
    // Weights that the file leaves out have to be there, and to be those that were written.
    let named = plan.to_json(Weights::ByName).unwrap();
    let said = Plan::read(&Reader::new(), named.as_bytes()).unwrap_err().to_string();
    assert!(said.starts_with("operator.weights[0].name: no weights are called "), "{said}");
}

/// Every cut of a file, and numbers replaced anywhere, are a plan or an error.
#[test]
fn damaged_files_never_panic() {
    let file = tiled().to_json(Weights::Inline).unwrap().into_bytes();
    for end in (0..file.len()).step_by(97) {
        assert!(Plan::read(&Reader::new(), &file[..end]).is_err(), "cut at {end}");
    }
    let mut random = Random(19);
    let words = ["-1", "0", "9223372036854775807", "1e308", "null", "[]", "{}", "\"x\"", "4294967296"];
    let digits: Vec<usize> = (0..file.len()).filter(|&k| file[k].is_ascii_digit()).collect();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..400 {
        let at = digits[usize::try_from(random.below(digits.len() as u64)).unwrap()];
        let word = words[usize::try_from(random.below(words.len() as u64)).unwrap()];
        let mut bytes = file.clone();
        bytes.splice(at..=at, word.bytes());
        match Plan::read(&Reader::new(), &bytes) {
            Ok(plan) => {
                // Weights or values of another size: a plan like any other.
                assert!(plan.to_json(Weights::Inline).is_ok());
                read += 1;
            }
            Err(error) => {
                assert!(!error.place.is_empty() && !error.problem.contains('\n'), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{read} read, {refused} refused");
}
