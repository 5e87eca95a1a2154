//! The shared operator cases: input and expected result.

use serde_json::Value;
use spanlift::chain;
use spanlift::memory::{Device, Dtype};
use spanlift::op::{
    Array, Dense, Diagonal, Mode, NamedShape, OpError, Operator, Roles, Space, Tensor, Tile, ToDevice, block,
    broadcast, convolution, dense, dims, fft, hstack, pad, partition, repeat, sampling, stack, sum_reduce,
    vstack,
};

use crate::oracle::{C, Matrix, eps};
use crate::shared::shared;

fn list(v: &Value) -> &[Value] {
    v.as_array().map_or(&[], Vec::as_slice)
}

fn strings(v: &Value) -> Vec<&str> {
    list(v).iter().filter_map(Value::as_str).collect()
}

fn integers(v: &Value) -> Vec<i64> {
    list(v).iter().filter_map(Value::as_i64).collect()
}

/// Numbers of nested lists; in complex types a pair is one number.
fn numbers(v: &Value, complex: bool) -> Vec<C> {
    match v {
        Value::Array(pair) if complex && pair.len() == 2 && pair.iter().all(Value::is_number) => {
            vec![C::new(pair[0].as_f64().unwrap(), pair[1].as_f64().unwrap())]
        }
        Value::Array(all) => all.iter().flat_map(|v| numbers(v, complex)).collect(),
        number => vec![C::from(number.as_f64().unwrap())],
    }
}

/// The lengths of nested lists.
fn shape(v: &Value, complex: bool) -> Vec<i64> {
    match v {
        Value::Array(pair) if complex && pair.len() == 2 && pair.iter().all(Value::is_number) => Vec::new(),
        Value::Array(all) => {
            let n = i64::try_from(all.len()).unwrap();
            std::iter::once(n).chain(all.first().map_or(Vec::new(), |v| shape(v, complex))).collect()
        }
        _ => Vec::new(),
    }
}

fn dtype(v: &Value, otherwise: Dtype) -> Dtype {
    v["dtype"].as_str().map_or(otherwise, |t| t.parse().unwrap())
}

fn device(v: &Value) -> Device {
    v.as_str().unwrap().parse().unwrap()
}

fn slot(v: &Value) -> Option<(&str, i64)> {
    Some((v[0].as_str()?, v[1].as_i64()?))
}

/// The operator that a case describes.
fn read(v: &Value) -> Result<Operator, OpError> {
    let parts = || list(&v["parts"]).iter().map(read).collect::<Vec<_>>();
    match v["op"].as_str().unwrap() {
        "dense" => read_dense(v),
        "diagonal" => {
            let dtype = dtype(v, Dtype::F64);
            let w = numbers(&v["weight"], matches!(dtype, Dtype::C32 | Dtype::C64));
            let names = strings(&v["dims"]);
            let sizes = shape(&v["weight"], matches!(dtype, Dtype::C32 | Dtype::C64));
            let space = Space::new(names.into_iter().zip(sizes), dtype)?;
            Ok(Diagonal::new(space, w)?.into())
        }
        "chain" => spanlift::op::chain(list(&v["first_to_last"]).iter().map(|p| read(p).into())),
        "normal" => Ok(read(&v["of"])?.normal()),
        "to_device" => {
            let space = Space::new([("N", 3)], Dtype::F64)?.on(device(&v["from"]));
            ToDevice::from(device(&v["from"])).to(device(&v["to"])).over(space)
        }
        "concat" => match (v["out_dim"].as_str(), v["in_dim"].as_str()) {
            (Some(out), None) => vstack(out, parts()),
            (None, Some(into)) => hstack(into, parts()),
            (Some(out), Some(into)) => block(out, into, parts()),
            (None, None) => panic!("{v}"),
        },
        "stack" => stack(slot(&v["out_dim"]), slot(&v["in_dim"]), parts()),
        "fft" => {
            let names = strings(&v["dims"]);
            let n = v["size"].as_i64().unwrap();
            let space = Space::new(names.iter().map(|name| (*name, n)), dtype(v, Dtype::C64))?;
            let plain = fft(names);
            if v["centered"] == true { plain.centered() } else { plain }.over(space)
        }
        "sampling" => {
            let (from, to) = (strings(&v["in"])[0], strings(&v["out"])[0]);
            let space = Space::new([(from, v["size"].as_i64().unwrap())], Dtype::F64)?;
            sampling([(from, integers(&v["index"]))], to).over(space)
        }
        "sum_reduce" | "repeat" => {
            let size = |name: &str| v["sizes"][name].as_i64().unwrap();
            let (from, to) = (strings(&v["in"]), strings(&v["out"]));
            let space = Space::new(from.iter().map(|n| (*n, size(n))), Dtype::F64)?;
            if from.len() > to.len() {
                return sum_reduce(from.into_iter().filter(|n| !to.contains(n))).over(space);
            }
            let new = to.iter().position(|n| !from.contains(n)).unwrap();
            repeat(to[new], size(to[new])).at(new).over(space)
        }
        "convolution" => {
            let kernel = numbers(&v["kernel"], false);
            let kernel = Tensor::new([("X", i64::try_from(kernel.len()).unwrap())], kernel)?;
            let space = Space::new([("X", v["size"].as_i64().unwrap())], Dtype::F64)?;
            let conv = convolution(["X"], &kernel).mode(Mode::Same);
            if v["boundary"] == "periodic" { conv.periodic() } else { conv }.over(space)
        }
        other => panic!("no operator {other}"),
    }
}

fn read_dense(v: &Value) -> Result<Operator, OpError> {
    let (out, into) = (strings(&v["out"]), strings(&v["in"]));
    let dtype = dtype(v, Dtype::F64);
    let complex = matches!(dtype, Dtype::C32 | Dtype::C64);
    let names: Vec<&str> = out.iter().chain(into.iter().filter(|n| !out.contains(n))).copied().collect();
    let sizes: Vec<(&str, i64)> = match (&v["sizes"], v["rows"].as_i64(), v["cols"].as_i64()) {
        (Value::Object(sizes), ..) => sizes.iter().map(|(n, s)| (n.as_str(), s.as_i64().unwrap())).collect(),
        (_, Some(rows), Some(columns)) => vec![(out[0], rows), (into[0], columns)],
        _ => names.iter().copied().zip(shape(&v["weight"], complex)).collect(),
    };
    let weights = if v["weight"] == "count" {
        let size = |n: &&str| sizes.iter().find(|(m, _)| m == n).unwrap().1;
        let count: i64 = names.iter().map(size).product();
        (1..=count).map(|k| C::from(f64::from(i32::try_from(k).unwrap()))).collect()
    } else {
        numbers(&v["weight"], complex)
    };
    let batch = out.iter().filter(|n| into.contains(n)).count();
    if batch == 0 {
        return dense(out, into, sizes, weights, dtype);
    }
    // A name on both sides is there once, among those of the output.
    let size = |n: &str| sizes.iter().find(|(m, _)| *m == n).map(|s| (s.0, s.1)).unwrap();
    let w = Tensor::new(names.iter().map(|n| size(n)), weights)?;
    let domain = Space::new(into.iter().map(|n| size(n)), dtype)?;
    Ok(Dense::new(domain, &w, out)?.into())
}

#[track_caller]
fn close(what: &str, found: &[C], expected: &[C]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().map(|v| v.norm()).fold(1.0, f64::max);
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).norm() <= 1e-6 * scale, "{what}: {found:?} and not {expected:?}");
    }
}

fn values(space: &Space, v: &Value) -> Array {
    Array::new(space.clone(), numbers(v, space.is_complex())).unwrap()
}

/// One described apply: whichever of forward, adjoint and normal the inputs give.
fn apply(id: &str, inputs: &Value, expected: &Value, place: Option<usize>) {
    let a = read(&inputs["operator"]).unwrap();
    let of = |v: &Value| place.map_or(v.clone(), |k| v[k].clone());
    for (side, operator) in [("forward", a.clone()), ("adjoint", a.h()), ("normal", a.normal())] {
        if inputs[side].is_array() && expected[side].is_array() && !of(&expected[side]).is_null() {
            let y = operator.apply(&values(operator.domain(), &inputs[side])).unwrap();
            close(
                &format!("{id} {side}"),
                y.values(),
                &numbers(&of(&expected[side]), y.space().is_complex()),
            );
        }
    }
    if let Some(name) = inputs["size_of"].as_str() {
        assert_eq!(a.size(&name.parse().unwrap()), expected["size"].as_i64(), "{id}");
    }
    if expected["out_dims"].is_array() {
        let names: Vec<String> = a.oshape().iter().map(ToString::to_string).collect();
        assert_eq!(names, strings(&expected["out_dims"]), "{id}");
    }
    if let Some(n) = inputs["wrong_input_length"].as_i64() {
        let dims = a.domain().dims().iter().map(|(name, _)| (name.to_string(), n)).collect::<Vec<_>>();
        let wrong = Space::new(dims.iter().map(|(m, n)| (m.as_str(), *n)), a.domain().dtype()).unwrap();
        let x = Array::new(wrong.clone(), vec![1.0; usize::try_from(n).unwrap()]).unwrap();
        let message = a.apply(&x).unwrap_err().to_string();
        for word in strings(&expected["error_mentions"]) {
            assert!(message.contains(word), "{id}: {message}");
        }
    }
    for index in integers(&inputs["bad_index"]) {
        let mut bad = inputs["operator"].clone();
        bad["index"] = vec![index].into();
        assert!(read(&bad).is_err(), "{id}: index {index}");
    }
    if expected["normal_is"] == "identity" {
        assert!(matches!(a.normal(), Operator::Identity(_)), "{id}");
    }
    if expected["adjoint_of_forward"].is_string() {
        let x = values(a.domain(), &inputs["forward"]);
        close(id, a.h().apply(&a.apply(&x).unwrap()).unwrap().values(), x.values());
    }
    if expected["adjoint_of_repeat"] == "row sums" && inputs["operator"]["op"] == "repeat" {
        let m = Matrix::read(&a.h());
        let rows: Vec<C> = (0..m.rows).map(|i| (0..m.columns).map(|j| m.at(i, j)).sum()).collect();
        assert_eq!(rows, vec![C::from(3.0); m.rows], "{id}");
    }
}

fn expression(a: &Operator, text: &str) -> Result<Operator, OpError> {
    match text {
        "-a" => Ok(-a),
        "a - a" => a - a.clone(),
        "2 * a" => 2 * a,
        "a * 2" => a * 2,
        other => panic!("no expression {other}"),
    }
}

/// Levels of batches as the library takes them.
fn levels(v: &Value) -> Vec<(String, i64)> {
    v.as_object().unwrap().iter().map(|(n, s)| (n.clone(), s.as_i64().unwrap())).collect()
}

fn batches(id: &str, inputs: &Value, expected: &Value) {
    let a = read(&inputs["operator"]).unwrap();
    let whole = Matrix::read(&a);
    let specs: Vec<Vec<(String, i64)>> = list(&inputs["batches"]).iter().map(levels).collect();
    let owned: Vec<Vec<(&str, i64)>> =
        specs.iter().map(|l| l.iter().map(|(n, s)| (n.as_str(), *s)).collect()).collect();
    let each = owned.iter().map(|level| a.batch(&[level]).unwrap());
    let all: Vec<&[(&str, i64)]> = owned.iter().map(Vec::as_slice).collect();
    for b in each.chain([a.batch(&all).unwrap()]) {
        let close = |x: &Operator, m: &Matrix| Matrix::read(x).distance(m) <= 1e-6 * m.size();
        assert!(close(&b, &whole), "{id}: {b}");
        assert!(close(&b.h(), &whole.h()), "{id}: {b}");
        assert!(close(&b.normal(), &whole.h().times(&whole)), "{id}: {b}");
        if expected["top"] == "sum" {
            let Operator::Sum(sum) = &b else { panic!("{id}: {b}") };
            assert_eq!(
                Some(sum.parts().len()),
                expected["terms"].as_u64().map(|n| usize::try_from(n).unwrap())
            );
        }
    }
}

fn check(case: &Value) -> bool {
    let (id, inputs, expected) = (case["id"].as_str().unwrap(), &case["inputs"], &case["expected"]);
    match case["operation"].as_str().unwrap() {
        "operator.apply" if inputs["cases"].is_array() => {
            for (k, one) in list(&inputs["cases"]).iter().enumerate() {
                apply(id, one, expected, Some(k));
            }
        }
        "operator.apply" => apply(id, inputs, expected, None),
        "operator.expressions" => {
            let a = read(&inputs["a"]).unwrap();
            let x = values(a.domain(), &inputs["x"]);
            for (text, y) in strings(&inputs["expressions"]).iter().zip(list(&expected["values"])) {
                let found = expression(&a, text).unwrap().apply(&x).unwrap();
                close(&format!("{id} {text}"), found.values(), &numbers(y, false));
            }
        }
        "operator.build_error" => {
            let (a, b) = (read(&inputs["a"]).unwrap(), read(&inputs["b"]).unwrap());
            for (text, words) in strings(&inputs["expressions"]).iter().zip(list(&expected["error_mentions"]))
            {
                let built = if *text == "a * a" { &a * &a } else { &a + &b };
                let message = built.unwrap_err().to_string();
                assert!(strings(words).iter().all(|w| message.contains(w)), "{id}: {message}");
                assert!(message.contains("second of two"), "{id}: {message}");
            }
        }
        "operator.build_or_apply_error" => {
            for one in list(&inputs["cases"]) {
                let Ok(a) = read(&one["operator"]) else { continue };
                let sizes = integers(&one["x_shape"]);
                let names: Vec<String> = a.ishape().iter().map(ToString::to_string).collect();
                let space =
                    Space::new(names.iter().map(String::as_str).zip(sizes), a.domain().dtype()).unwrap();
                let n = usize::try_from(space.elements()).unwrap();
                assert!(a.apply(&Array::new(space, vec![1.0; n]).unwrap()).is_err(), "{id}: {a}");
            }
        }
        "operator.split_grid" => {
            let a = read(&inputs["operator"]).unwrap();
            // Names of an object are in no order; the expected grid is that of N, then M.
            let size = |name: &str| inputs["batch"][name].as_i64().unwrap();
            let tiles = a.tiles([("N", size("N")), ("M", size("M"))]).unwrap();
            let grid: Vec<i64> = tiles.grid().iter().map(|n| i64::try_from(*n).unwrap()).collect();
            assert_eq!(grid, integers(&expected["grid"]), "{id}");
            let tile = tiles.tile(&[3, 0]).unwrap();
            for (name, range) in expected["tile_3_0_in"].as_object().unwrap() {
                let found = tile.range(&name.parse().unwrap());
                assert_eq!(
                    found.map(|(lo, hi)| vec![lo, hi]),
                    range.as_array().map(|_| integers(range)),
                    "{id}"
                );
            }
        }
        "operator.batch" => batches(id, inputs, expected),
        "batch.reproducible" => reproducible(id, inputs),
        "leaf.centered_pad" => {
            for (sizes, ends) in list(&inputs["cases"]).iter().zip(list(&expected["left_right"])) {
                let (sizes, ends) = (integers(sizes), integers(ends));
                let a = pad("x", sizes[1]).over(Space::new([("x", sizes[0])], Dtype::F64).unwrap()).unwrap();
                let ones = vec![1.0; usize::try_from(sizes[0]).unwrap()];
                let y = a.apply(&Array::new(a.domain().clone(), ones).unwrap()).unwrap().reals();
                let left = y.iter().take_while(|v| **v == 0.0).count();
                let right = y.iter().rev().take_while(|v| **v == 0.0).count();
                assert_eq!(vec![i64::try_from(left).unwrap(), i64::try_from(right).unwrap()], ends, "{id}");
            }
        }
        "dims.partition" => {
            let edges = integers(&inputs["edges"]);
            let slice = integers(&inputs["slice"]);
            let parts = partition(&edges, slice[0]..slice[1], 1).unwrap();
            let parts: Vec<Vec<i64>> =
                parts.into_iter().map(|(k, r)| vec![i64::try_from(k).unwrap(), r.start, r.end]).collect();
            assert_eq!(parts, list(&expected["parts"]).iter().map(integers).collect::<Vec<_>>(), "{id}");
            for bad in list(&inputs["bad"]).iter().map(integers) {
                assert!(partition(&edges, bad[0]..bad[1], bad[2]).is_err(), "{id}: {bad:?}");
            }
        }
        "device.broadcast" => {
            for (one, placed) in list(&inputs["cases"]).iter().zip(list(&expected["placed"])) {
                let devices = integers(&one["devices"]);
                let grid: Vec<usize> =
                    integers(&one["grid"]).into_iter().map(|n| usize::try_from(n).unwrap()).collect();
                let found = broadcast(&devices, &[devices.len()], &grid).unwrap();
                let flat: Vec<i64> =
                    numbers(placed, false).iter().map(|v| format!("{}", v.re).parse().unwrap()).collect();
                assert_eq!(found, flat, "{id}");
            }
        }
        "tiling.transfers" => {
            let devices: Vec<Device> = list(&inputs["devices"]).iter().map(device).collect();
            let tiles = usize::try_from(inputs["tiles"].as_u64().unwrap()).unwrap();
            let roles = Roles::round_robin(tiles, device(&inputs["roles"]["in"]), &devices);
            let expected = list(&expected["transfers"])
                .iter()
                .map(|t| (usize::try_from(t[0].as_u64().unwrap()).unwrap(), device(&t[1]), device(&t[2])));
            assert_eq!(roles.sent(), expected.collect::<Vec<_>>(), "{id}");
        }
        "device.round_trip" => {
            let a = read(&inputs["operator"]).unwrap();
            let x = Array::new(a.domain().clone(), [1.0, 10.0, 100.0]).unwrap();
            let y = a.apply(&x).unwrap();
            if let Some(there) = expected["device_after_forward"].as_str() {
                assert_eq!(y.space().device().to_string(), there, "{id}");
                let back = a.h().apply(&y).unwrap();
                assert_eq!(back.space().device(), device(&expected["device_after_adjoint"]), "{id}");
                assert_eq!((y.values(), back.values()), (x.values(), x.values()), "{id}");
                assert_eq!(a.h().h(), a, "{id}");
            } else {
                let plan = a.plan().unwrap();
                assert_eq!(Some(plan.transfers().len() as u64), expected["copies"].as_u64(), "{id}");
                assert_eq!(plan.input() == plan.output(), expected["same_buffer"] == true, "{id}");
            }
        }
        "plan.transfers" => {
            let plan = read(&inputs["operator"]).unwrap_or_else(|_| normal_between(inputs)).plan().unwrap();
            let found: Vec<Vec<String>> =
                plan.transfers().iter().map(|t| vec![t.from.to_string(), t.to.to_string()]).collect();
            let wanted: Vec<Vec<&str>> = list(&expected["transfers"]).iter().map(strings).collect();
            assert_eq!(found, wanted, "{id}");
        }
        "dims.parse" => {
            for (text, entries) in strings(&inputs["texts"]).iter().zip(list(&expected["dims"])) {
                let found: Vec<String> = dims(text).unwrap().iter().map(ToString::to_string).collect();
                assert_eq!(found, strings(entries), "{id}");
            }
        }
        "dims.rename" | "dims.rename_error" => {
            let entries = |v: &Value| strings(v).iter().map(|n| n.parse().unwrap()).collect::<Vec<_>>();
            let shape = NamedShape::new(entries(&inputs["in"]), entries(&inputs["out"]));
            let renamed = shape.with_domain(&entries(&inputs["rename_in"]));
            match expected["errors"].as_u64() {
                Some(_) => assert!(renamed.is_err(), "{id}"),
                None => {
                    let renamed = renamed.unwrap();
                    assert_eq!(renamed.domain(), entries(&expected["in"]), "{id}");
                    assert_eq!(renamed.codomain(), entries(&expected["out"]), "{id}");
                }
            }
        }
        // Memory has tests of its own.
        _ => return false,
    }
    true
}

/// The normal of a chain whose parts name no device: they work where the transfer before them ends.
fn normal_between(inputs: &Value) -> Operator {
    let parts = list(&inputs["operator"]["of"]["first_to_last"]);
    let there = device(&parts[0]["to"]);
    let transfer = |v: &Value| ToDevice::from(device(&v["from"])).to(device(&v["to"]));
    let work = read(&parts[1]).unwrap().on(there);
    chain![transfer(&parts[0]), work, transfer(&parts[2])].unwrap().normal()
}

fn reproducible(id: &str, inputs: &Value) {
    let a = read(&inputs["operator"]).unwrap();
    let x = Array::new(a.domain().clone(), (0..70).map(|k| f64::from(k).sin())).unwrap();
    let whole = a.apply(&x).unwrap();
    for spec in list(&inputs["batches"]).iter().map(levels) {
        let (dim, size) = &spec[0];
        let tiles = usize::try_from(a.size(&dim.parse().unwrap()).unwrap() / size).unwrap();
        let mut results = Vec::new();
        for workers in integers(&inputs["workers"]) {
            let devices: Vec<Device> =
                (0..workers).map(|k| Device::Mock(u32::try_from(k).unwrap())).collect();
            let b = a.split_fixed(dim, tiles, &devices).unwrap();
            let y = b.apply(&x).unwrap();
            for (u, v) in y.values().iter().zip(whole.values()) {
                assert!((u - v).norm() <= 1e-6 * v.norm() + eps(Dtype::F64), "{id}");
            }
            results.push(y);
        }
        assert!(results.windows(2).all(|w| w[0] == w[1]), "{id}: bits depend on the number of devices");
    }
}

#[test]
fn shared_cases() {
    let Some(folder) = shared() else { return };
    let text = std::fs::read_to_string(folder.join("data/operators/visible_cases.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let done = list(&file["cases"]).iter().filter(|case| check(case)).count();
    assert!(done >= 30, "only {done} cases");
    // A tile of an operator that a case describes, so that cuts of count weights are seen once by hand.
    let a = dense(["M"], ["N"], [("M", 2), ("N", 3)], (1..=6).map(f64::from), Dtype::F64).unwrap();
    let corner = a.cut(&Tile::new([("M", 1..2), ("N", 1..3)]).unwrap()).unwrap();
    assert_eq!(Matrix::read(&corner).entries, [C::from(5.0), C::from(6.0)]);
}
