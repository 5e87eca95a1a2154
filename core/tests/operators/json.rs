//! Expressions in files: written, read again, and refused with the place of the mistake.

use std::collections::BTreeSet;

use num_complex::Complex64;
use serde_json::{Value, json};
use spanlift::chain;
use spanlift::memory::{Dtype, cpu, cuda, mock};
use spanlift::op::{
    Diagonal, FromFn, LeafFacts, LeafOp, Mode, Operator, Reader, Side, Space, Tensor, Tile, Weights,
    block_diag, convolution, dense, flip, pad, to,
};

use crate::memory::random_expression;
use crate::oracle::Random;
use crate::table::{Entry, FIELDS, table};

#[track_caller]
fn round_trip(what: &str, a: &Operator, random: &mut Random) {
    let file = a.to_json(Weights::Inline).unwrap_or_else(|e| panic!("{what}: {e}"));
    let b = Reader::new().read(file.as_bytes()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(b.to_json(Weights::Inline).unwrap(), file, "{what}");
    assert_eq!(b.to_string(), a.to_string(), "{what}");
    let x = random.array(a.domain());
    assert_eq!(b.apply(&x).unwrap(), a.apply(&x).unwrap(), "{what}");
    assert_eq!(b.linearity(), a.linearity(), "{what}");
    let named = a.to_json(Weights::ByName).unwrap();
    let c = Reader::new().weights(a.weights()).read(named.as_bytes()).unwrap();
    assert_eq!(c.to_string(), a.to_string(), "{what}");
    assert_eq!(c.apply(&x).unwrap(), a.apply(&x).unwrap(), "{what}");
    // Storages of the same values have the same name and come back as one.
    let names: BTreeSet<String> = a.weights().into_iter().map(|(name, _)| name).collect();
    if names.len() == a.weights().len() {
        assert_eq!(c.to_json(Weights::Inline).unwrap(), file, "{what}");
    }
    if a.weights().iter().any(|(_, values)| values.len() > 8) {
        assert!(named.len() < file.len(), "{what}");
    }
}

#[test]
fn every_operator_comes_back() {
    let mut random = Random(31);
    let mut n = 0;
    for dtype in FIELDS {
        for Entry { name, op, .. } in table(dtype) {
            if op.to_json(Weights::Inline).is_err_and(|e| e.problem.contains("no recipe")) {
                continue;
            }
            for a in [op.clone(), op.h(), op.conj(), op.normal(), op.on(mock(1)), op.simplify()] {
                round_trip(&name, &a, &mut random);
                n += 1;
            }
        }
    }
    assert!(n > 500, "only {n} operators");
}

/// An `f32` in a formula, in a plan and in a file has no more digits than tell it from its neighbours, and is the same again.
#[test]
fn a_factor_of_single_precision_is_written_as_one() {
    let line = |dtype| Space::new([("x", 2)], dtype).unwrap();
    let tenth = Operator::scale(0.1, line(Dtype::F32)).unwrap();
    assert_eq!(tenth.formula(), "0.1");
    assert!(tenth.to_latex().starts_with("0.1 :") && tenth.to_mathml().contains("<mn>0.1</mn>"));
    assert!(tenth.to_json(Weights::Inline).unwrap().contains(r#""factor":[0.1,0.0]"#));
    let labelled = tenth.plan().unwrap().program().to_text();
    assert!(labelled.contains("fn 0.1 on"), "{labelled}");
    let z = Operator::scale(Complex64::new(0.1, -0.7), line(Dtype::C32)).unwrap();
    assert_eq!((z.formula(), z.h().formula()), ("(0.1-0.7i)".to_owned(), "(0.1+0.7i)".to_owned()));
    // What the type holds is what is written, not what was asked for.
    assert_eq!(Operator::scale(1.0 / 3.0, line(Dtype::F32)).unwrap().formula(), "0.33333334");
    assert_eq!(Operator::scale(1.0 / 3.0, line(Dtype::F64)).unwrap().formula(), "0.3333333333333333");

    let mut random = Random(35);
    for k in 0..2_000u32 {
        let bits = u32::try_from(random.below(1 << 32)).unwrap();
        let v = if k < 8 {
            [0.0, -0.0, f32::MIN_POSITIVE, f32::MAX, 1e-45, 16_777_217.0, 0.1, -1.5e-7][k as usize]
        } else {
            f32::from_bits(bits)
        };
        if !v.is_finite() {
            continue;
        }
        for dtype in [Dtype::F32, Dtype::C32] {
            for a in [f64::from(v), -f64::from(v)].map(|v| Operator::scale(v, line(dtype)).unwrap()) {
                for a in [a.h(), a] {
                    let Operator::Scale(scale) = &a else { panic!("{a}") };
                    let text = a.formula().parse::<f32>().map(f32::to_bits);
                    #[expect(clippy::cast_possible_truncation, reason = "it is one")]
                    let own = scale.factor().re as f32;
                    assert_eq!(text, Ok(own.to_bits()), "{a}");
                    let (short, shortest) = (a.formula(), format!("{own:e}"));
                    let digits = |t: &str| {
                        t.split('e')
                            .next()
                            .unwrap()
                            .chars()
                            .filter(char::is_ascii_digit)
                            .collect::<String>()
                            .trim_matches('0')
                            .len()
                    };
                    assert_eq!(digits(&short), digits(&shortest), "{short} and {shortest}");
                    let file = a.to_json(Weights::Inline).unwrap();
                    let Operator::Scale(again) = Reader::new().read(file.as_bytes()).unwrap() else {
                        panic!("{file}")
                    };
                    let bits = |z: Complex64| [z.re.to_bits(), z.im.to_bits()];
                    assert_eq!(bits(again.factor()), bits(scale.factor()), "{file}");
                }
            }
        }
    }
}

/// So are weights, bit for bit, whoever else has the same storage.
#[test]
fn weights_of_single_precision_are_written_as_such() {
    let line = |dtype| Space::new([("x", 3)], dtype).unwrap();
    let tenths = Diagonal::new(line(Dtype::F32), [0.1, -0.7, 1.0 / 3.0]).unwrap();
    let file = Operator::from(tenths.clone()).to_json(Weights::Inline).unwrap();
    assert!(file.contains(r#""weights":[{"dtype":"f32","real":[0.1,-0.7,0.33333334]}]"#), "{file}");
    // Numbers of double precision, and those whose text is as short, are written as they were.
    for (dtype, values, text) in [
        (Dtype::F64, [0.1, 0.5, 2.0], r#"[{"real":[0.1,0.5,2.0]}]"#),
        (Dtype::F32, [-0.0, 0.5, 16_777_216.0], r#"[{"real":[-0.0,0.5,16777216.0]}]"#),
    ] {
        let file =
            Operator::from(Diagonal::new(line(dtype), values).unwrap()).to_json(Weights::Inline).unwrap();
        assert!(file.contains(text), "{file}");
    }
    let complex =
        Diagonal::new(line(Dtype::C32), [Complex64::new(0.1, -0.0), Complex64::I, 0.3.into()]).unwrap();
    let file = Operator::from(complex).to_json(Weights::Inline).unwrap();
    assert!(file.contains(r#"{"complex":[0.1,-0.0,0.0,1.0,0.3,0.0],"dtype":"c32"}"#), "{file}");

    // One storage that two leaves share is one again.
    let whole = Operator::from(tenths);
    let part = whole.cut(&Tile::new([("x", 1..3)]).unwrap()).unwrap();
    let both = block_diag([whole, part]).unwrap();
    assert_eq!(both.weights().len(), 1);
    let mut random = Random(7);
    let mut any = move |n: usize| -> Vec<Complex64> {
        let mut number = || loop {
            #[expect(clippy::cast_possible_truncation, reason = "the low half of the bits")]
            let v = f32::from_bits(random.below(1 << 32) as u32);
            // Squares stay in the range.
            if v.is_finite() && v.abs() < 1e18 {
                return f64::from(v);
            }
        };
        (0..n).map(|_| Complex64::new(number(), number())).collect()
    };
    let square = |dtype| Space::new([("y", 3), ("x", 3)], dtype).unwrap();
    let mut all = vec![both];
    for _ in 0..50 {
        let kernel = Tensor::new([("y", 3), ("x", 3)], any(9)).unwrap();
        all.push(Diagonal::broadcast(square(Dtype::C32), &kernel).unwrap().into());
        all.push(convolution(["y", "x"], &kernel).over(square(Dtype::C32)).unwrap());
        let reals = any(9).into_iter().map(|z| z.re);
        all.push(dense(["m"], ["x"], [("m", 3), ("x", 3)], reals, Dtype::F32).unwrap());
    }
    let bits = |a: &Operator| -> Vec<Vec<[u64; 2]>> {
        let of = |values: &[Complex64]| values.iter().map(|z| [z.re.to_bits(), z.im.to_bits()]).collect();
        a.weights().iter().map(|(_, values)| of(values)).collect()
    };
    for a in all {
        let file = a.to_json(Weights::Inline).unwrap();
        let b = Reader::new().read(file.as_bytes()).unwrap();
        assert_eq!(bits(&b), bits(&a), "{file}");
        assert_eq!(b.to_json(Weights::Inline).unwrap(), file);
    }
    let wrong = file.replace(r#"],"dtype":"c32"}"#, r#"],"dtype":"i8"}"#);
    let error = Reader::new().read(wrong.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "weights[0].dtype: expected `f32`, `c32`, `f64` or `c64`");
}

/// What rewriting makes one of movements that were made on two devices is on one.
#[test]
fn movements_from_two_devices_come_back_as_one() {
    let image = |device| Space::new([("y", 2), ("x", 3)], Dtype::F64).unwrap().on(device);
    let flipped = flip(["x"]).over(image(cpu())).unwrap().on(mock(1));
    let a = chain![flipped, pad("y", 4).over(image(mock(1)))].unwrap().simplify();
    assert_eq!(a.parts().len(), 1, "{a}");
    for a in [a.on(cpu()), a.clone(), a.h(), chain![to(mock(1)), &a, to(cpu())].unwrap()] {
        round_trip(&a.to_string(), &a, &mut Random(5));
    }
}

#[test]
fn tuples_in_tuples_and_what_reads_nothing_come_back() {
    let line = |n| Space::new([("x", n)], Dtype::F64).unwrap();
    let pair = |a: &Space, b: &Space| Space::tuple([a.clone(), b.clone()]).unwrap();
    let nested = pair(&pair(&line(2), &line(3)), &line(1));
    let kernel = Tensor::new([("x", 3)], [1.0, 2.0, 3.0]).unwrap();
    let edges = convolution(["x"], &kernel).mode(Mode::Full).over(line(0)).unwrap();
    for a in [Operator::identity(nested.clone()), Operator::scale(2.0, nested).unwrap(), edges] {
        round_trip("nested", &a, &mut Random(3));
    }
    let depth = 40;
    let deep = format!("{}{}", r#"{"members": ["#.repeat(depth), "]}".repeat(depth));
    let file = format!(
        r#"{{"schema_version": 1, "operator": {{"op": "identity", "space": {deep}}}, "leaves": [], "weights": []}}"#
    );
    let error = Reader::new().read(file.as_bytes()).unwrap_err();
    assert!(error.problem.contains("tuples in each other"), "{error}");
}

#[test]
fn random_expressions_come_back() {
    let mut random = Random(77);
    for round in 0..200 {
        let a = random_expression(&mut random);
        round_trip(&format!("round {round}"), &a, &mut random);
        let file = a.to_json(Weights::Inline).unwrap();
        let b = Reader::new().read(file.as_bytes()).unwrap();
        let (p, q) = (a.plan().unwrap(), b.plan().unwrap());
        assert_eq!(p.program().to_text(), q.program().to_text(), "round {round}");
    }
}

/// A leaf with a recipe, from outside.
#[derive(Debug)]
struct Power(LeafFacts, f64);

impl LeafOp for Power {
    fn facts(&self) -> &LeafFacts {
        &self.0
    }

    fn apply(&self, _: Side, x: &[Complex64], y: &mut [Complex64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * self.1);
    }

    fn recipe(&self) -> Option<(&'static str, Value)> {
        Some(("power", json!({"by": self.1})))
    }
}

#[test]
fn operators_of_ones_own_are_read_by_their_kind() {
    let line = Space::new([("x", 3)], Dtype::F64).unwrap();
    let make = |by: f64| {
        let line = Space::new([("x", 3)], Dtype::F64).unwrap();
        Operator::leaf(Power(LeafFacts::new("P", line.clone(), line), by))
    };
    let a = chain![to(cuda(0)), make(3.0).on(cuda(0)), to(cpu())].unwrap();
    let file = a.to_json(Weights::Inline).unwrap();
    let reader = Reader::new().kind("power", move |recipe| {
        recipe["by"].as_f64().map(make).ok_or_else(|| "expected a number `by`".to_owned())
    });
    let x = Random(2).array(&line);
    assert_eq!(reader.read(file.as_bytes()).unwrap().apply(&x).unwrap(), a.apply(&x).unwrap());
    let error = Reader::new().read(file.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "leaves[0].kind: \"power\" is no kind of leaf that is known here");
    let broken = file.replace("\"by\"", "\"bye\"");
    let error = reader.read(broken.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "leaves[0].recipe: expected a number `by`");
    let same = |x: &[Complex64], y: &mut [Complex64]| y.copy_from_slice(x);
    let closures: Operator = FromFn::new("f", line.clone(), line, same, same).into();
    let error = closures.to_json(Weights::Inline).unwrap_err();
    assert_eq!(error.to_string(), "operator: `f` has no recipe to write");
}

/// A good file with one value replaced, and what is said of it.
#[test]
fn mistakes_are_named_with_their_place() {
    let w: Vec<f64> = (0..6).map(f64::from).collect();
    let d = spanlift::op::dense(["m"], ["x"], [("m", 2), ("x", 3)], w, Dtype::F64).unwrap();
    let a = chain![to(mock(0)), d.on(mock(0)), to(cpu())].unwrap();
    let good: Value = serde_json::from_str(&a.to_json(Weights::Inline).unwrap()).unwrap();
    let says = |pointer: &str, value: Value| {
        let mut file = good.clone();
        *file.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} in {good}")) = value;
        Reader::new().read(file.to_string().as_bytes()).map(|_| ()).unwrap_err().to_string()
    };
    let check = |pointer: &str, value: Value, expected: &str| assert_eq!(says(pointer, value), expected);
    check("/schema_version", json!(2), "schema_version: only version 1 is known");
    check("/operator/op", json!("train"), "operator.op: \"train\" is no operator");
    check("/operator/parts", json!([]), "operator.parts: expected at least one");
    check("/operator/parts/1/leaf", json!(7), "operator.parts[1].leaf: is the index of no leaf");
    assert!(says("/operator/parts/1/device", json!("tpu:0")).starts_with("operator.parts[1].device: "));
    check(
        "/operator/parts/1/device",
        json!("cuda:1"),
        "operator.parts[1]: reads f64[x=3]@cuda:1 but f64[x=3]@mock:0 comes",
    );
    check(
        "/leaves/0/kind",
        json!("sorcery"),
        "leaves[0].kind: \"sorcery\" is no kind of leaf that is known here",
    );
    check("/leaves/0/domain/dims/0/1", json!(-3), "leaves[0].domain: dimension `x` has negative size -3");
    let huge = says("/leaves/0/domain/dims/0/1", json!(i64::MAX));
    assert!(huge.contains("leaves[0].domain") && huge.contains("overflow"), "{huge}");
    check(
        "/leaves/0/weights/dims/0/1",
        json!(1i64 << 40),
        "leaves[0].weights.dims: more elements than the 6 of the storage",
    );
    check("/leaves/0/weights/storage", json!(1), "leaves[0].weights.storage: is the index of no weights");
    assert!(says("/leaves/0/weights/offset", json!(4)).starts_with("leaves[0].weights"));
    check("/weights/0/real", json!("many"), "weights[0].real: expected a list");
    check("/weights/0/real/3", json!(null), "weights[0].real: expected numbers");
    check("/weights/0", json!({"name": "x"}), "weights[0].name: no weights are called \"x\"");
    // Numbers beyond the range, and parts that lie deep in each other, end at the reader of JSON or here.
    let bytes = |text: &str| Reader::new().read(text.as_bytes()).unwrap_err().to_string();
    assert!(bytes("{\"schema_version\": 1e999}").starts_with("the file: "));
    assert!(bytes("{\"weights\": [{\"real\": [NaN]}]}").starts_with("the file: "));
    assert!(bytes(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))).starts_with("the file: "));
    let mut deep = json!({"op": "identity", "space": {"dims": [], "dtype": "f32", "device": "cpu"}});
    for _ in 0..40 {
        deep = json!({"op": "sum", "tree": true, "parts": [deep]});
    }
    let file = json!({"schema_version": 1, "operator": deep, "leaves": [], "weights": []});
    let error = Reader::new().read(file.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.ends_with("more than 32 parts in each other") || error.contains("recursion"), "{error}");
    let long = json!({"schema_version": 1, "weights": [], "operator": {"op": "leaf", "leaf": 0, "adjoint": false,
        "conj": false, "device": "cpu"}, "leaves": [{"kind": "fft", "name": "F", "adjoint_name": null,
        "dims": [["x", "kx"]], "centered": false, "domain": {"dims": [["x", 1i64 << 40]], "dtype": "c32", "device": "cpu"}}]});
    let error = Reader::new().read(long.to_string().as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "leaves[0].dims[0]: 1099511627776 points, at most 16777216 are read");
    // Many leaves ask for no more than one does: a thousand rounded copies of one long storage end at the same limit.
    let leaf = json!({"kind": "diagonal", "name": "D", "adjoint_name": null,
        "domain": {"dims": [["x", 1]], "dtype": "f32", "device": "cpu"},
        "weights": {"storage": 0, "dims": [["x", 1]], "strides": [1], "offset": 0}});
    let many = json!({"schema_version": 1, "weights": [{"real": vec![0.1; 40_000]}], "leaves": vec![leaf; 1000],
        "operator": {"op": "leaf", "leaf": 0, "adjoint": false, "conj": false, "device": "cpu"}});
    let error = Reader::new().read(many.to_string().as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "leaves[419].weights: 16800000 points, at most 16777216 are read");
}

/// A new dimension has a place from 0 to the rank, as `stack` has it.
#[test]
fn a_place_beyond_the_rank_is_refused_where_it_stands() {
    let line = spanlift::op::Space::new([("x", 3)], Dtype::F64).unwrap();
    let parts = [1.0, 2.0].map(|f| Operator::scale(f, line.clone()).unwrap());
    let a = spanlift::op::stack(Some(("s", 1)), Some(("t", 0)), parts).unwrap();
    let good: Value = serde_json::from_str(&a.to_json(Weights::Inline).unwrap()).unwrap();
    let read = |field: &str, place: i64| {
        let mut file = good.clone();
        file["operator"][field][1] = json!(place);
        Reader::new().read(file.to_string().as_bytes()).map_err(|e| e.to_string())
    };
    assert_eq!(read("out", 1), Ok(a.clone()));
    assert!(read("out", 0).is_ok_and(|b| b != a));
    for (field, name) in [("out", "s"), ("into", "t")] {
        for place in [2, 9] {
            let said = format!(
                "operator.{field}: `{name}` cannot be inserted at {place} of f64[x]@cpu: choose 0 to 1"
            );
            assert_eq!(read(field, place), Err(said));
        }
    }
}

/// Damaged files are an answer or an error, and whatever is read can be looked at.
#[test]
fn damaged_files_never_panic() {
    let mut random = Random(13);
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    for Entry { op, .. } in table(Dtype::C32) {
        corpus.extend(op.to_json(Weights::Inline).ok().map(String::into_bytes));
    }
    let words =
        ["-1", "0", "9223372036854775807", "1e308", "null", "[]", "{}", "\"x\"", "true", "4294967296"];
    let (mut read, mut refused) = (0, 0);
    for _ in 0..6000 {
        let at = usize::try_from(random.below(corpus.len() as u64)).unwrap();
        let mut bytes = corpus[at].clone();
        for _ in 0..1 + random.below(3) {
            let Some(from) = (0..40).find_map(|_| {
                let k = usize::try_from(random.below(bytes.len() as u64)).unwrap();
                bytes[k].is_ascii_digit().then_some(k)
            }) else {
                continue;
            };
            let start = (0..=from)
                .rev()
                .take_while(|&k| bytes[k].is_ascii_digit() || bytes[k] == b'-')
                .last()
                .unwrap_or(from);
            let end = from + bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
            let word = words[usize::try_from(random.below(words.len() as u64)).unwrap()];
            bytes.splice(start..end, word.bytes());
        }
        match Reader::new().read(&bytes) {
            Ok(a) => {
                read += 1;
                let _ = (a.to_string(), a.h().to_string(), a.to_json(Weights::Inline).is_ok());
                let elements = a.domain().elements().max(a.codomain().elements());
                if elements < 1 << 12 {
                    let _ = a.apply(&random.array(a.domain()));
                }
            }
            Err(error) => {
                assert!(!error.place.is_empty() && !error.problem.contains('\n'), "{error}");
                refused += 1;
            }
        }
    }
    assert!(read > 200 && refused > 2000, "{read} read, {refused} refused");
}
