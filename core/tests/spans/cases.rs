//! Layouts, reports and moves against a reference that lists every byte.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use spanlift::Bytes;
use spanlift::memory::{
    Device, Dim, Dtype, Layout, LayoutError, MovePlan, Report, Span, Tensor, View, cpu, cuda, mock,
};

use crate::rng::Rng;
use crate::shared::shared;

/// Every byte of a span, found by walking all index tuples.
fn bytes_of(span: &Span) -> BTreeSet<i64> {
    let mut offsets = vec![span.off()];
    for &Dim { count, stride } in span.dims() {
        offsets = offsets.iter().flat_map(|o| (0..count).map(move |i| o + i * stride)).collect();
    }
    offsets.iter().flat_map(|o| (0..span.elem()).map(move |j| o + j)).collect()
}

/// Every byte position of a tensor, element by element in row-major order, from shape and strides alone.
fn positions(view: &View) -> Vec<i64> {
    let item = view.dtype.bytes();
    let mut elements = vec![view.offset];
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        elements = elements.iter().flat_map(|e| (0..size).map(move |i| e + i * stride)).collect();
    }
    elements.iter().flat_map(|e| (0..item).map(move |j| e * item + j)).collect()
}

fn touched(tensor: &Tensor) -> BTreeSet<i64> {
    positions(tensor.view()).into_iter().collect()
}

fn json_of(report: &Report, plan: Option<&MovePlan>) -> Value {
    serde_json::from_str(&report.to_json(plan)).unwrap()
}

/// Compares report and move of a small layout with the bytes that its tensors list, and moves real bytes.
#[track_caller]
fn check_against_bytes(layout: &Layout, to: Device, note: &str) {
    let report = layout.report().unwrap();
    let mut unique: BTreeMap<String, BTreeSet<(usize, i64)>> = BTreeMap::new();
    let mut listed: BTreeMap<String, u128> = BTreeMap::new();
    let mut sets = Vec::new();
    for s in layout.storages() {
        unique.entry(s.device.to_string()).or_default();
        listed.entry(s.device.to_string()).or_default();
    }
    for t in layout.tensors() {
        let set = touched(t);
        let device = layout.storage_of(t.storage()).device.to_string();
        unique.get_mut(&device).unwrap().extend(set.iter().map(|&b| (t.storage().index(), b)));
        *listed.get_mut(&device).unwrap() += positions(t.view()).len() as u128;
        assert_eq!(&bytes_of(t.span()), &set, "{note}: span of {}", t.name());
        let range = set.first().map(|lo| (*lo, set.last().unwrap() + 1));
        assert_eq!(report.tensors[t.name()].bytes, range, "{note}: range of {}", t.name());
        sets.push((t, set));
    }
    for (device, d) in &report.devices {
        assert_eq!(d.unique_bytes, unique[device].len() as u128, "{note}: unique on {device}");
        assert_eq!(d.listed_bytes, listed[device], "{note}: listed on {device}");
    }
    let mut pairs: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    for (k, (a, in_a)) in sets.iter().enumerate() {
        for (b, in_b) in &sets[k + 1..] {
            if a.storage() == b.storage() && !in_a.is_disjoint(in_b) {
                let (a, b): (Arc<str>, Arc<str>) = (a.name().into(), b.name().into());
                pairs.push(if a < b { (a, b) } else { (b, a) });
            }
        }
    }
    pairs.sort();
    assert_eq!(report.overlaps, pairs, "{note}: overlaps");

    let plan = layout.move_to(to).unwrap();
    let moving: Vec<&(&Tensor, BTreeSet<i64>)> =
        sets.iter().filter(|(t, _)| layout.storage_of(t.storage()).device != to).collect();
    // Every byte once, gaps never.
    let mut copied = BTreeSet::new();
    for c in &plan.copies {
        let storage = plan.allocations[c.allocation].storage;
        let bytes = bytes_of(&c.span);
        assert_eq!(bytes.len() as u64, c.bytes.0, "{note}: a copy meets a byte twice");
        for b in bytes {
            assert!(copied.insert((storage.index(), b)), "{note}: byte {b} is copied twice");
        }
    }
    let wanted: BTreeSet<(usize, i64)> =
        moving.iter().flat_map(|(t, set)| set.iter().map(|&b| (t.storage().index(), b))).collect();
    assert_eq!(copied, wanted, "{note}: what is copied");
    assert_eq!(plan.bytes_copied(), wanted.len() as u128);
    check_blocks(layout, &plan, note);

    // Real bytes: each storage's byte has a value of its own, gaps of an allocation have none.
    let mut blocks: Vec<Vec<Option<(usize, i64)>>> =
        plan.allocations.iter().map(|a| vec![None; usize::try_from(a.bytes.0).unwrap()]).collect();
    for c in &plan.copies {
        let a = &plan.allocations[c.allocation];
        for b in bytes_of(&c.span) {
            blocks[c.allocation][usize::try_from(b - a.start).unwrap()] = Some((a.storage.index(), b));
        }
    }
    assert_eq!(plan.tensors.len(), moving.len(), "{note}: tensors that move");
    for placed in &plan.tensors {
        let before = &layout.tensors()[placed.tensor];
        assert_eq!(placed.view.strides, before.view().strides);
        let old = positions(before.view());
        let new = positions(&placed.view);
        assert_eq!(placed.allocation.is_none(), old.is_empty(), "{note}: allocation of {}", before.name());
        for (old, new) in old.into_iter().zip(new) {
            let found = blocks[placed.allocation.unwrap()][usize::try_from(new).unwrap()];
            // The value says which byte it was, so equal values are also equal aliasing.
            assert_eq!(found, Some((before.storage().index(), old)), "{note}: byte of {}", before.name());
        }
    }
    let after = plan.after().unwrap();
    assert_eq!(after.tensors().len(), layout.tensors().len());
    let overlaps_after = after.report().unwrap().overlaps;
    assert_eq!(overlaps_after, pairs, "{note}: aliasing after the move");
    let again = after.move_to(to).unwrap();
    assert!(again.tensors.is_empty() && again.copies.is_empty(), "{note}: a second move moves");
}

/// The rules of a move for the sizes and starts of allocations.
#[track_caller]
fn check_blocks(layout: &Layout, plan: &MovePlan, note: &str) {
    let mut ends: BTreeMap<usize, (i64, i64, i64)> = BTreeMap::new();
    for placed in &plan.tensors {
        let t = &layout.tensors()[placed.tensor];
        let item = t.view().dtype.bytes();
        let Some((lo, hi)) = t.span().bounds() else {
            assert_eq!(placed.view.offset, 0, "{note}: offset of an empty tensor");
            continue;
        };
        let end = ends.entry(t.storage().index()).or_insert((lo, hi, item));
        *end = (end.0.min(lo), end.1.max(hi), end.2.max(item));
        let a = &plan.allocations[placed.allocation.unwrap()];
        assert_eq!(a.start + placed.view.offset * item, t.view().offset * item, "{note}: {}", t.name());
    }
    let mut allocated: BTreeMap<usize, i64> = BTreeMap::new();
    for a in &plan.allocations {
        let bytes = i64::try_from(a.bytes.0).unwrap();
        let inside = 0 <= a.start && a.start + bytes <= layout.storage_of(a.storage).bytes.0.cast_signed();
        assert!(bytes >= 1 && inside, "{note}: {a:?}");
        *allocated.entry(a.storage.index()).or_default() += bytes;
    }
    for (storage, bytes) in allocated {
        let (lo, hi, widest) = ends[&storage];
        assert!(bytes <= hi - lo / widest * widest, "{note}: storage {storage} needs {bytes} bytes");
    }
}

/// A random view that lies in a storage of `bytes`.
fn random_view(rng: &mut Rng, bytes: i64) -> View {
    loop {
        let dtype = Dtype::ALL[rng.index(11)];
        let rank = rng.below(5);
        let shape: Vec<i64> = (0..rank).map(|_| [0, 1, 2, 3, 4, 5, 7, 7, 7, 7][rng.index(10)]).collect();
        let steps = [-9, -4, -3, -1, 0, 1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 12, 20, 30];
        let mut strides: Vec<i64> = (0..rank).map(|_| steps[rng.index(18)]).collect();
        if rng.below(2) == 0 {
            // Often as real tensors are: nested, with a pitch.
            let mut pitch = 1 + rng.below(3);
            for k in (0..strides.len()).rev() {
                strides[k] = pitch;
                pitch *= shape[k].max(1) + rng.below(3);
            }
        }
        let view = View { dtype, shape, strides, offset: rng.below(bytes / dtype.bytes() + 1) };
        match view.span().unwrap().bounds() {
            Some((lo, hi)) if lo < 0 || bytes < hi => {}
            _ => return view,
        }
    }
}

pub(crate) fn random_layout(rng: &mut Rng) -> Layout {
    let mut layout = Layout::new();
    let devices = [cpu(), cpu(), cuda(0), cuda(1), mock(0)];
    for s in 0..1 + rng.below(3) {
        let bytes = 40 + rng.below(600);
        let device = devices[rng.index(5)];
        let storage = layout.storage(&format!("s{s}"), device, Bytes(bytes.unsigned_abs())).unwrap();
        for t in 0..rng.below(6) {
            let view = random_view(rng, bytes);
            layout.tensor(&format!("t{t}s{s}"), storage, view).unwrap();
        }
    }
    layout
}

#[test]
fn random_layouts_agree_with_their_bytes() {
    for seed in 0..4000 {
        let layout = random_layout(&mut Rng(seed));
        check_against_bytes(&layout, cuda(0), &format!("seed {seed}"));
    }
}

#[test]
fn many_views_of_one_matrix_agree_with_their_bytes() {
    for seed in 0..300 {
        let mut rng = Rng(1_000_000 + seed);
        let mut layout = Layout::new();
        let w = layout.storage("w", cpu(), Bytes(4 * 24 * 30)).unwrap();
        for t in 0..12 {
            let (row, col) = (rng.below(24), rng.below(30));
            let (step, skip) = (1 + rng.below(3), 1 + rng.below(4));
            let shape =
                vec![1 + rng.below((24 - row - 1) / step + 1), 1 + rng.below((30 - col - 1) / skip + 1)];
            let view =
                View { dtype: Dtype::F32, shape, strides: vec![30 * step, skip], offset: row * 30 + col };
            layout.tensor(&format!("t{t}"), w, view).unwrap();
        }
        check_against_bytes(&layout, mock(0), &format!("seed {seed}"));
    }
}

#[test]
fn every_shared_example() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/memory/examples.json")).unwrap();
    let table: Value = serde_json::from_str(&text).unwrap();
    for case in table["examples"].as_array().unwrap() {
        let id = &case["id"];
        let read = Layout::from_json(case["layout"].to_string().as_bytes());
        if let Some(mentions) = case.get("expect_error").map(|e| e["stderr_mentions"].as_array().unwrap()) {
            let message = read.expect_err("this example is wrong").to_string();
            for word in mentions {
                assert!(message.contains(word.as_str().unwrap()), "{id}: {message}");
            }
            continue;
        }
        let layout = read.unwrap_or_else(|e| panic!("{id}: {e}"));
        let to: Device = case["to"].as_str().unwrap().parse().unwrap();
        let found = json_of(&layout.report().unwrap(), Some(&layout.move_to(to).unwrap()));
        for part in ["tensors", "devices", "overlaps"] {
            assert_eq!(found[part], case["expect"][part], "{id}: {part}");
        }
        let expected = &case["expect"]["move"];
        assert_eq!(found["move"]["bytes_copied"], expected["bytes_copied"], "{id}");
        let at_most = expected["bytes_allocated_at_most"].as_u64().unwrap();
        assert!(found["move"]["bytes_allocated"].as_u64().unwrap() <= at_most, "{id}");
        check_against_bytes(&layout, to, id.as_str().unwrap());
    }
}

/// Reads a layout from its tensors, on one storage `w` of 400 bytes on the host.
fn read(tensors: &Value) -> Result<Layout, LayoutError> {
    let storages = json!([{"id": "w", "device": "cpu", "bytes": 400}]);
    Layout::from_json(json!({"storages": storages, "tensors": tensors}).to_string().as_bytes())
}

fn f32s(name: &str, shape: &[i64], strides: &[i64], offset: i64) -> Value {
    json!({"name": name, "storage": "w", "dtype": "f32", "shape": shape, "strides": strides, "offset": offset})
}

#[test]
fn the_json_form_to_the_byte() {
    let layout = read(&json!([f32s("a", &[2, 3], &[3, 1], 0)])).unwrap();
    let plan = layout.move_to(cuda(0)).unwrap();
    let expected = concat!(
        r#"{"tensors":{"a":{"span":[0,5],"bytes":[0,24]}},"devices":{"cpu":{"unique_bytes":24,"listed_bytes":24}},"#,
        r#""overlaps":[],"move":{"to":"cuda:0","allocations":[{"storage":"w","start":0,"bytes":24}],"#,
        r#""bytes_allocated":24,"bytes_copied":24,"#,
        r#""tensors":{"a":{"allocation":0,"offset":0,"strides":[3,1]}}}}"#,
    );
    assert_eq!(layout.report().unwrap().to_json(Some(&plan)), expected);
    assert!(!layout.report().unwrap().to_json(None).contains("move"));
}

/// Problems of the tensors, one line each.
#[track_caller]
fn check_problems(tensors: Value, expected: &[&str]) {
    let found = read(&tensors).map_or_else(|e| e.to_string(), |_| "fine".to_owned());
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{tensors}");
}

#[test]
fn problems_name_tensor_and_reason() {
    const BIG: i64 = i64::MAX;
    let overflow = r#"tensor "a": overflow: an element count, element position or byte position leaves i64"#;
    let with = |key: &str, value: Value| {
        let mut t = f32s("a", &[4], &[1], 0);
        t[key] = value;
        json!([t])
    };
    check_problems(
        json!([f32s("a", &[10, 10], &[10, 1], 1)]),
        &[r#"tensor "a": outside storage: it needs bytes [4, 404) of "w", which has 400 bytes"#],
    );
    check_problems(
        json!([f32s("a", &[4], &[-1], 2)]),
        &[r#"tensor "a": outside storage: it needs bytes [-4, 12) of "w", which has 400 bytes"#],
    );
    check_problems(json!([f32s("a", &[4], &[1], -1)]), &[r#"tensor "a": outside storage: its offset is -1"#]);
    check_problems(json!([f32s("a", &[0], &[1], -1)]), &[r#"tensor "a": outside storage: its offset is -1"#]);
    check_problems(json!([f32s("a", &[0, BIG, BIG], &[BIG, BIG, 1], BIG)]), &["fine"]);
    check_problems(json!([f32s("a", &[100], &[1], 0)]), &["fine"]);
    check_problems(json!([f32s("a", &[1], &[BIG], 99)]), &["fine"]);
    check_problems(
        with("dtype", json!("f8")),
        &[r#"tensor "a": unknown dtype "f8"; known are u8 i8 i16 f16 bf16 i32 f32 i64 f64 c32 c64"#],
    );
    check_problems(with("storage", json!("v")), &[r#"tensor "a": unknown storage "v""#]);
    check_problems(with("shape", json!([-4])), &[r#"tensor "a": negative size -4"#]);
    check_problems(
        with("shape", json!([0, -4])),
        &[r#"tensor "a": rank mismatch: shape has 2 entries, strides 1"#, r#"tensor "a": negative size -4"#],
    );
    check_problems(json!([f32s("a", &[1 << 40, 1 << 40], &[0, 0], 0)]), &[overflow]);
    check_problems(json!([f32s("a", &[1 << 62], &[0], 0)]), &[overflow]);
    check_problems(json!([f32s("a", &[BIG], &[1], 0)]), &[overflow]);
    check_problems(json!([f32s("a", &[], &[], BIG)]), &[overflow]);
    check_problems(json!([f32s("a", &[2], &[BIG], 0)]), &[overflow]);
    check_problems(
        json!([f32s("a", &[4], &[1], 0), f32s("a", &[4], &[1], 99)]),
        &[
            r#"tensor "a": duplicate name"#,
            r#"tensor "a": outside storage: it needs bytes [396, 412) of "w", which has 400 bytes"#,
        ],
    );
    let mut both = f32s("b", &[-1], &[], -2);
    both["dtype"] = json!("x");
    both["storage"] = json!("y");
    check_problems(
        json!([both]),
        &[
            r#"tensor "b": unknown dtype "x"; known are u8 i8 i16 f16 bf16 i32 f32 i64 f64 c32 c64"#,
            r#"tensor "b": unknown storage "y""#,
            r#"tensor "b": rank mismatch: shape has 1 entries, strides 0"#,
            r#"tensor "b": negative size -1"#,
            r#"tensor "b": outside storage: its offset is -2"#,
        ],
    );
}

#[test]
fn problems_of_storages() {
    let file = json!({"storages": [
        {"id": "w", "device": "cpu", "bytes": 4}, {"id": "w", "device": "tpu", "bytes": -1},
    ], "tensors": [{"name": "a", "storage": "w", "dtype": "u8", "shape": [5], "strides": [1]}]});
    let found = Layout::from_json(file.to_string().as_bytes()).unwrap_err().to_string();
    let expected = [
        r#"storage "w": duplicate name"#,
        r#"storage "w": unknown device "tpu": expected `cpu`, `cuda:N` or `mock:N`"#,
        r#"storage "w": negative size: -1 bytes"#,
        r#"tensor "a": outside storage: it needs bytes [0, 5) of "w", which has 4 bytes"#,
    ];
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_no_layout_is_refused() {
    for text in ["", "{", "[]", "{}", "null", r#"{"storages": 1, "tensors": []}"#] {
        let found = Layout::from_json(text.as_bytes());
        assert!(matches!(found, Err(LayoutError::Syntax(_))), "{text}: {found:?}");
    }
    for number in ["9223372036854775808", "-9223372036854775809", "1e3", "4.0"] {
        let text =
            format!(r#"{{"storages": [{{"id": "w", "device": "cpu", "bytes": {number}}}], "tensors": []}}"#);
        let found = Layout::from_json(text.as_bytes());
        assert!(matches!(found, Err(LayoutError::Syntax(_))), "{number}: {found:?}");
    }
    let empty = Layout::from_json(br#"{"storages": [], "tensors": [], "note": {"deep": [1]}}"#).unwrap();
    assert_eq!(empty.report().unwrap().to_json(None), r#"{"tensors":{},"devices":{},"overlaps":[]}"#);
}

#[test]
fn nothing_grows_with_bytes() {
    const TERA: i64 = 1 << 40;
    let mut layout = Layout::new();
    let w = layout.storage("w", cpu(), Bytes(1 << 62)).unwrap();
    let mut add = |name: &str, dtype, shape: &[i64], strides: &[i64], offset| {
        let view = View { dtype, shape: shape.to_vec(), strides: strides.to_vec(), offset };
        layout.tensor(name, w, view).unwrap();
    };
    // Every second and every third byte of six terabytes: four of six.
    add("two", Dtype::U8, &[3 * TERA], &[2], 0);
    add("three", Dtype::I8, &[2 * TERA], &[3], 0);
    // A matrix of 2^20 x 2^20, every second column and the third row.
    add("columns", Dtype::F32, &[1 << 20, 1 << 19], &[1 << 20, 2], 4 * TERA);
    add("row", Dtype::F32, &[1 << 20], &[1], 4 * TERA + (3 << 20));
    let report = layout.report().unwrap();
    let unique = 4 * TERA + (1 << 39) * 4 + (1 << 19) * 4;
    assert_eq!(report.devices["cpu"].unique_bytes, u128::try_from(unique).unwrap());
    let pair = |a: &str, b: &str| (a.into(), b.into());
    assert_eq!(report.overlaps, [pair("columns", "row"), pair("three", "two")]);
    let plan = layout.move_to(cuda(0)).unwrap();
    assert_eq!(plan.bytes_copied(), u128::try_from(unique).unwrap());
    assert!(plan.copies.len() < 20, "{} copies", plan.copies.len());
}

#[test]
fn the_naive_move_copies_gaps_and_shared_bytes_again() {
    let layout = read(&json!([
        f32s("all", &[10, 10], &[10, 1], 0),
        f32s("row", &[10], &[1], 30),
        f32s("column", &[10], &[10], 3),
    ]))
    .unwrap();
    let (aware, naive) = (layout.move_to(cuda(0)).unwrap(), layout.move_naively(cuda(0)));
    assert_eq!((aware.bytes_copied(), aware.copies.len(), aware.allocations.len()), (400, 1, 1));
    assert_eq!((naive.bytes_copied(), naive.copies.len(), naive.allocations.len()), (400 + 40 + 364, 3, 3));
    assert_eq!(aware.after().unwrap().report().unwrap().overlaps.len(), 3);
    assert_eq!(naive.after().unwrap().report().unwrap().overlaps.len(), 0);
    assert_eq!(
        aware.to_string(),
        "to cuda:0, views stay views: 400 B allocated in 1 block, 400 B copied in 1 copy, 3 views rebuilt\n  \
         w[0, 400): all, row, column\n"
    );
    // A column alone: its ten runs are one strided copy of 40 bytes.
    let column = read(&json!([f32s("column", &[10], &[10], 3)])).unwrap().move_to(cuda(0)).unwrap();
    assert_eq!((column.bytes_copied(), column.copies.len(), column.bytes_allocated()), (40, 1, 364));
}

#[test]
fn regions_are_apart_unless_one_block_is_smaller() {
    let layout = |tensors: &Value| read(tensors).unwrap().move_to(cuda(0)).unwrap();
    let far =
        layout(&json!([f32s("a", &[4], &[1], 10), f32s("b", &[4], &[2], 12), f32s("c", &[2], &[1], 90)]));
    assert_eq!(far.bytes_allocated(), 36 + 8);
    // Two views that only touch are one block and one copy.
    let touching = layout(&json!([f32s("a", &[4], &[1], 0), f32s("b", &[4], &[1], 4)]));
    assert_eq!((touching.allocations.len(), touching.copies.len()), (1, 1));
    // The wide region's start, rounded down, lies before the region ahead of it: one block is less.
    let bytes = |name: &str, offset: i64, n: i64| json!({"name": name, "storage": "w", "dtype": "u8", "shape": [n], "strides": [1], "offset": offset});
    let wide =
        json!({"name": "z", "storage": "w", "dtype": "c64", "shape": [1], "strides": [1], "offset": 2});
    let mixed = json!([bytes("u", 2, 12), bytes("v", 15, 25), wide]);
    let plan = layout(&mixed);
    assert_eq!((plan.allocations.len(), plan.bytes_allocated(), plan.bytes_copied()), (1, 48, 12 + 33));
    check_blocks(&read(&mixed).unwrap(), &plan, "mixed");
}

/// Views that end at the last position there is, with strides that barely fit: answered or refused, never a panic.
#[test]
fn layouts_at_the_end_of_i64() {
    const END: i64 = i64::MAX;
    let mut random = Rng(99);
    for case in 0..60 {
        let mut layout = Layout::new();
        let w = layout.storage("w", cpu(), Bytes(END.unsigned_abs())).unwrap();
        let mut kept = 0;
        for t in 0..2 + random.below(5) {
            let dtype = [Dtype::U8, Dtype::F32, Dtype::C64][random.index(3)];
            let rank = random.below(4);
            let shape: Vec<i64> = (0..rank)
                .map(|_| if random.below(4) == 0 { END >> random.below(63) } else { 1 + random.below(5) })
                .collect();
            let strides: Vec<i64> = (0..rank)
                .map(|_| {
                    let stride = (END >> random.below(63)).saturating_add(random.below(3) - 1);
                    if random.below(4) == 0 { -stride } else { stride }
                })
                .collect();
            let offset = (END >> random.below(8)) / dtype.bytes() - random.below(20);
            let offset = if random.below(2) == 0 { random.below(100) } else { offset.max(0) };
            let view = View { dtype, shape, strides, offset };
            kept += usize::from(layout.tensor(&format!("t{t}"), w, view).is_ok());
        }
        assert_eq!(layout.tensors().len(), kept, "case {case}");
        let (report, plan) = (layout.report(), layout.move_to(cuda(0)));
        if let (Ok(report), Ok(plan)) = (report, plan) {
            assert_eq!(report.devices["cpu"].unique_bytes, plan.bytes_copied(), "case {case}");
            let after = plan.after().unwrap().report().unwrap();
            assert_eq!(after.overlaps, report.overlaps, "case {case}");
        }
    }
}

#[test]
fn what_cannot_be_counted_is_said_to_be_undecided() {
    let mut layout = Layout::new();
    let w = layout.storage("w", cpu(), Bytes(1 << 62)).unwrap();
    for (name, stride) in [("a", (1i64 << 31) - 1), ("b", (1 << 31) - 19)] {
        let view = View { dtype: Dtype::U8, shape: vec![1 << 30], strides: vec![stride], offset: 0 };
        layout.tensor(name, w, view).unwrap();
    }
    let message = layout.report().unwrap_err().to_string();
    assert!(message.contains(r#"storage "w""#) && message.contains("undecided"), "{message}");
    assert!(layout.move_to(cuda(0)).is_err());
}

#[test]
fn every_shared_memory_case() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/operators/visible_cases.json")).unwrap();
    let table: Value = serde_json::from_str(&text).unwrap();
    let mut done = 0;
    for case in table["cases"].as_array().unwrap() {
        let (id, inputs, expected) = (&case["id"], &case["inputs"], &case["expected"]);
        let list = |key: &str| -> Vec<i64> { serde_json::from_value(inputs[key].clone()).unwrap() };
        match case["operation"].as_str().unwrap() {
            "memory.span" => {
                let mut layout = Layout::new();
                let w = layout.storage("w", cpu(), Bytes(400)).unwrap();
                let offset = inputs["offset"].as_i64().unwrap();
                let view = View { dtype: Dtype::F32, shape: list("shape"), strides: list("strides"), offset };
                layout.tensor("a", w, view).unwrap();
                assert_eq!(json!(layout.find("a").unwrap().elements()), expected["span"], "{id}");
            }
            "memory.move" => {
                let layout = Layout::from_json(inputs["layout"].to_string().as_bytes()).unwrap();
                let to: Device = inputs["to"].as_str().unwrap().parse().unwrap();
                check_against_bytes(&layout, to, id.as_str().unwrap());
                let found = json_of(&layout.report().unwrap(), Some(&layout.move_to(to).unwrap()));
                let found = &found["move"];
                assert_eq!(found["bytes_copied"], expected["bytes_copied"], "{id}");
                let at_most = expected["bytes_allocated_at_most"].as_u64().unwrap();
                assert!(found["bytes_allocated"].as_u64().unwrap() <= at_most, "{id}");
                for pair in expected["same_allocation"].as_array().into_iter().flatten() {
                    let at = |k: usize| &found["tensors"][pair[k].as_str().unwrap()]["allocation"];
                    assert_eq!(at(0), at(1), "{id}");
                }
            }
            "report.total" => {
                let layout = Layout::from_json(inputs["layout"].to_string().as_bytes()).unwrap();
                let found = json_of(&layout.report().unwrap(), None);
                assert_eq!(found["devices"]["cpu"]["unique_bytes"], expected["unique_bytes"], "{id}");
            }
            _ => continue,
        }
        done += 1;
    }
    assert!(done >= 17, "{done} cases");
}
