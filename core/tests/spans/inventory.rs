//! Inventories and explanations of layouts against sets of bytes.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spanlift::memory::{Block, Dtype, Layout, MemoryMap, Module, TensorView, View, Visitor, cpu, cuda};
use spanlift::{Bytes, kib};

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap() % n
    }
}

/// The bytes that a view touches, element by element, from shape and strides alone.
fn bytes_of(view: &View) -> BTreeSet<i64> {
    let item = view.dtype.bytes();
    let mut elements = vec![view.offset];
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        elements = elements.iter().flat_map(|e| (0..size).map(move |i| e + i * stride)).collect();
    }
    elements.iter().flat_map(|e| (0..item).map(move |j| e * item + j)).collect()
}

fn random_layout(seed: u64) -> Layout {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut layout = Layout::new();
    for s in 0..2 {
        let bytes = 60 + rng.below(500);
        let device = if rng.below(2) == 0 { cpu() } else { cuda(1) };
        let storage = layout.storage(&format!("s{s}"), device, Bytes(bytes.unsigned_abs())).unwrap();
        let mut n = 0;
        let n_tensors = rng.below(8);
        while n < n_tensors {
            let dtype = Dtype::ALL[usize::try_from(rng.below(11)).unwrap()];
            let rank = rng.below(4);
            let shape: Vec<i64> =
                (0..rank).map(|_| [0, 1, 2, 3, 5, 8, 8][usize::try_from(rng.below(7)).unwrap()]).collect();
            let strides: Vec<i64> = (0..rank)
                .map(|_| [-4, -1, 0, 1, 1, 2, 3, 8, 16][usize::try_from(rng.below(9)).unwrap()])
                .collect();
            let view = View { dtype, shape, strides, offset: rng.below(bytes / dtype.bytes() + 1) };
            if view.span().unwrap().bounds().is_none_or(|(lo, hi)| 0 <= lo && hi <= bytes) {
                layout.tensor(&format!("s{s}t{n}"), storage, view).unwrap();
                n += 1;
            }
        }
    }
    layout
}

#[test]
fn random_layouts_agree_with_sets_of_bytes() {
    let (mut partly, mut inside) = (0, 0);
    for seed in 0..1200 {
        let layout = random_layout(seed);
        let found = layout.inventory().unwrap();
        assert_eq!(layout.inventory().unwrap(), found, "seed {seed}: asked twice");
        let report = layout.report().unwrap();
        assert_eq!(found.devices.keys().collect::<Vec<_>>(), report.devices.keys().collect::<Vec<_>>());
        for (name, device) in &found.devices {
            let expected = report.devices[name];
            let sums = (device.unique_bytes, device.listed_bytes);
            assert_eq!(sums, (expected.unique_bytes, expected.listed_bytes), "seed {seed}: {name}");
            let owned: u128 = device.roots.iter().map(|r| u128::from(r.bytes)).sum();
            assert_eq!(owned, device.unique_bytes, "seed {seed}: what is owned on {name}");
        }
        let roots: BTreeMap<&str, u64> =
            found.devices.values().flat_map(|d| &d.roots).map(|r| (r.name.as_str(), r.bytes)).collect();
        let segments = found.devices.values().flat_map(|d| &d.segments);
        let segments: BTreeMap<&str, _> = segments.map(|s| (s.storage.as_str(), s)).collect();
        for (s, storage) in layout.storages().iter().enumerate() {
            let mut tensors: Vec<(BTreeSet<i64>, &str)> = layout
                .tensors()
                .iter()
                .filter(|t| t.storage().index() == s)
                .map(|t| (bytes_of(t.view()), t.name()))
                .collect();
            let all: BTreeSet<i64> = tensors.iter().flat_map(|t| t.0.iter().copied()).collect();
            let size = storage.bytes.0.cast_signed();
            let (mut gap, mut longest) = (0, 0);
            for byte in 0..size {
                gap = if all.contains(&byte) { 0 } else { gap + 1 };
                longest = longest.max(gap);
            }
            let segment = segments[storage.id.as_str()];
            assert_eq!(segment.largest_gap, Some(longest), "seed {seed}: {}", storage.id);
            assert_eq!((segment.used, segment.n_tensors), (all.len() as u64, tensors.len()));
            assert_eq!(segment.used + segment.unused, storage.bytes.0);
            // The sort is stable: of equal sizes the earlier tensor comes first.
            tensors.sort_by_key(|t| std::cmp::Reverse(t.0.len()));
            let mut owned: BTreeSet<i64> = BTreeSet::new();
            for (bytes, name) in tensors {
                let new = bytes.difference(&owned).count();
                assert_eq!(roots.get(name).copied().unwrap_or(0), new as u64, "seed {seed}: {name}");
                partly += i32::from(new > 0 && new < bytes.len());
                inside += i32::from(new == 0 && !bytes.is_empty());
                owned.extend(bytes);
            }
        }
    }
    assert!(partly > 200 && inside > 200, "{partly} own a part, {inside} nothing");
}

/// Rows by the million are owned as three of them are, though they are not written out one by one.
#[test]
fn what_is_owned_grows_with_the_rows() {
    let (mut partly, mut nothing) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let n_tensors = 2 + rng.below(4);
        // Of each row of 32 bytes some columns, every, every second or every third one; or all of the memory.
        let columns: Vec<(i64, i64, i64)> = (0..n_tensors)
            .map(|_| {
                let (step, first) = (1 + rng.below(3), rng.below(20));
                (first, step, 1 + rng.below((31 - first) / step + 1))
            })
            .collect();
        let whole = rng.below(8);
        let owned = |rows: i64| -> BTreeMap<String, u64> {
            let mut layout = Layout::new();
            let storage = layout.storage("s", cpu(), Bytes(32 * rows.unsigned_abs())).unwrap();
            for (k, &(offset, step, n)) in (0..).zip(&columns) {
                let (shape, strides) = (vec![rows, n], vec![32, step]);
                let view = match k == whole {
                    true => View { dtype: Dtype::U8, shape: vec![32 * rows], strides: vec![1], offset: 0 },
                    false => View { dtype: Dtype::U8, shape, strides, offset },
                };
                layout.tensor(&format!("t{k}"), storage, view).unwrap();
            }
            let roots = layout.inventory().unwrap().devices.remove("cpu").unwrap().roots;
            roots.into_iter().map(|root| (root.name, root.bytes / rows.unsigned_abs())).collect()
        };
        let (few, many) = (owned(3), owned(1 << 20));
        assert_eq!(many, few, "seed {seed}: {columns:?}, {whole}");
        nothing += columns.len() - few.len();
        partly += few
            .iter()
            .filter(|(name, bytes)| {
                let k: usize = name[1..].parse().unwrap();
                **bytes < columns[k].2.unsigned_abs()
            })
            .count();
    }
    assert!(partly > 10 && nothing > 20, "{partly} own a part, {nothing} nothing");
}

#[test]
fn random_explanations_name_who_shares() {
    for seed in 0..300 {
        let layout = random_layout(seed);
        let explained = layout.move_to(cuda(1)).unwrap().explain().unwrap();
        let after = layout.move_to(cuda(1)).unwrap().after().unwrap();
        let rows: Vec<_> = explained.modules.iter().flat_map(|m| &m.tensors).collect();
        assert_eq!(rows.len(), layout.tensors().len());
        for row in rows {
            let t = layout.find(&row.name).unwrap();
            let mine = bytes_of(t.view());
            for other in layout.tensors().iter().filter(|o| o.name() != t.name()) {
                let shares = other.storage() == t.storage() && !bytes_of(other.view()).is_disjoint(&mine);
                let same = other.view() == t.view();
                let name = other.name().to_owned();
                assert_eq!(row.tied_to.contains(&name), shares && same, "seed {seed}: {} {name}", t.name());
                assert_eq!(
                    row.shares_with.contains(&name),
                    shares && !same,
                    "seed {seed}: {} {name}",
                    t.name()
                );
            }
            let now = after.find(&row.name).unwrap();
            let stays = row.device == "cuda:1";
            assert_eq!(row.goes.is_none(), stays, "seed {seed}: {}", t.name());
            if let Some(goes) = &row.goes {
                assert_eq!((goes.bytes, goes.is_there), (now.span().bounds(), false));
                let block = after.storage_of(now.storage()).id.clone();
                assert_eq!(goes.block, goes.bytes.is_some().then_some(block));
            }
        }
        let json: Value = serde_json::from_str(&explained.to_json()).unwrap();
        assert_eq!(json["move"]["to"], "cuda:1");
    }
}

struct Linear {
    weight: TensorView,
    bias: Option<TensorView>,
}
spanlift::module!(Linear: parameter weight, bias);

struct Model {
    embed: Linear,
    layers: Vec<Linear>,
    tied: TensorView,
    steps: Vec<i64>,
}
spanlift::module!(Model: parameter tied; buffer steps; module embed, layers);

fn model() -> Model {
    let all = Block::new("weights", cpu(), kib(4)).tensor(Dtype::F32, &[32, 32]).unwrap();
    let rows = |first, n| all.narrow(0, first, n).unwrap();
    let bias = TensorView::new(cpu(), Dtype::F32, &[8]).unwrap().requires_grad(false);
    Model {
        embed: Linear { weight: rows(0, 8), bias: Some(bias) },
        layers: vec![Linear { weight: rows(4, 8), bias: None }, Linear { weight: rows(24, 8), bias: None }],
        tied: rows(0, 8),
        steps: vec![],
    }
}

#[test]
fn a_model_is_explained_module_by_module() {
    let mut map = MemoryMap::of(&model()).unwrap();
    let expected = "\
6 tensors in 5 modules; cpu: 2.53 KiB unique, 4.03 KiB listed
to cuda:0: 2.53 KiB allocated in 3 blocks, 2.53 KiB copied in 3 copies

: Model
  tied    parameter               f32[8, 32]  1.00 KiB  cpu weights[0..1024]     is embed.weight; shares bytes with layers.0.weight; -> weights@cuda:0[0..1024]
  steps   buffer                  i64[0]           0 B  cpu steps, no bytes      -> needs no bytes

embed: Linear
  weight  parameter               f32[8, 32]  1.00 KiB  cpu weights[0..1024]     is tied; shares bytes with layers.0.weight; -> weights@cuda:0[0..1024]
  bias    parameter, no gradient  f32[8]          32 B  cpu embed.bias[0..32]    -> embed.bias@cuda:0[0..32]

layers: ModuleList

layers.0: Linear
  weight  parameter               f32[8, 32]  1.00 KiB  cpu weights[512..1536]   shares bytes with tied, embed.weight; -> weights@cuda:0[512..1536]

layers.1: Linear
  weight  parameter               f32[8, 32]  1.00 KiB  cpu weights[3072..4096]  -> weights@cuda:0#2[0..1024]
";
    let plan = map.move_to(cuda(0)).unwrap();
    assert_eq!(plan.explain().unwrap().to_string(), expected);
    map.apply(&plan).unwrap();
    let there = map.move_to(cuda(0)).unwrap().explain().unwrap();
    assert!(there.modules.iter().flat_map(|m| &m.tensors).all(|t| t.goes.is_none()));
    assert!(there.to_string().contains("stays"), "{there}");
    let inventory = map.layout().inventory().unwrap().to_string();
    let expected = "\
cuda:0: 6 tensors, 4 owners; 2.53 KiB (2.59 kB) unique of 4.03 KiB (4.13 kB) listed, in 4 blocks with 2.53 KiB (2.59 kB)
  owner             bytes owned
  layers.1.weight      1.00 KiB
  tied                 1.00 KiB
  layers.0.weight         512 B
  embed.bias               32 B
  block                      size          used        unused   largest gap
  weights@cuda:0         1.50 KiB      1.50 KiB           0 B           0 B
  steps@cuda:0                0 B           0 B           0 B           0 B
  embed.bias@cuda:0          32 B          32 B           0 B           0 B
  weights@cuda:0#2       1.00 KiB      1.00 KiB           0 B           0 B
";
    assert_eq!(inventory, expected);
}

#[test]
fn what_is_interleaved_beyond_counting_has_a_gap_of_unknown_length() {
    let mut layout = Layout::new();
    let w = layout.storage("w", cpu(), Bytes(1 << 62)).unwrap();
    let view = |shape: &[i64], strides: &[i64], offset| View {
        dtype: Dtype::U8,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        offset,
    };
    // Terabytes with one longest gap: between the rows of a matrix of 2^20 x 2^19 bytes, one of two in use.
    layout.tensor("a", w, view(&[1 << 20, 1 << 19], &[1 << 21, 2], 0)).unwrap();
    let gap = |layout: &Layout| layout.inventory().unwrap().devices["cpu"].segments[0].largest_gap;
    let rest = (1u64 << 62) - (((1 << 20) - 1) * (1 << 21) + ((1 << 19) - 1) * 2 + 1);
    assert_eq!(gap(&layout), Some(rest));
    // Every second and every third of many bytes.
    layout.tensor("b", w, view(&[1 << 40], &[2], 1 << 50)).unwrap();
    layout.tensor("c", w, view(&[1 << 39], &[3], 1 << 50)).unwrap();
    assert_eq!(gap(&layout), None);
    assert!(layout.inventory().unwrap().to_string().contains("unknown"));
}

#[test]
fn a_move_into_what_is_there_says_so() {
    let all = Block::new("w", cpu(), kib(4)).tensor(Dtype::F32, &[1024]).unwrap();
    let mut map = MemoryMap::new();
    map.register("end", &all.narrow(0, 1000, 24).unwrap()).unwrap();
    let away = map.move_to(cuda(0)).unwrap();
    assert!(away.to_string().ends_with("\n  w[4000, 4096): end\n"), "{away}");
    map.apply(&away).unwrap();
    // Home is all of `w`: more than the 96 bytes that come from `w@cuda:0`.
    let home = map.move_to(cpu()).unwrap();
    assert!(
        home.to_string().ends_with(
            "0 B allocated in 0 blocks, 96 B copied in 1 copy, 1 view rebuilt\n  w, which is there: end\n"
        ),
        "{home}"
    );
}

#[test]
fn no_name_breaks_a_line_of_a_walk() {
    struct Odd(&'static str, TensorView, TensorView);
    impl Module for Odd {
        fn module_type(&self) -> &str {
            "Odd\nType"
        }
        fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
            visitor.parameter(self.0, &self.1);
            visitor.buffer("b\r", &self.2);
        }
    }
    let all = Block::new("w\u{1b}[31m", cpu(), kib(4)).tensor(Dtype::F32, &[1024]).unwrap();
    let mut map = MemoryMap::new();
    map.register_module_at("m\n", &Odd("a\n", all.clone(), all)).unwrap();
    let plan = map.move_only(["m\n.a\n"], cuda(0)).unwrap();
    let told = plan.explain().unwrap().to_string();
    assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{told:?}");
    assert_eq!(told.lines().count(), 7, "{told}");
    assert!(told.contains("m\\n.a\\n no longer shares bytes with m\\n.b\\r, which does not move"), "{told}");
}

#[test]
fn the_payload_is_that_of_what_moves() {
    let mut map = MemoryMap::of(&model()).unwrap();
    let told = |map: &MemoryMap, names: &[&str]| {
        let plan = map.move_only(names, cuda(0)).unwrap();
        (map.layout().report().unwrap().moved(&plan).to_string(), plan)
    };
    // Rows 4 to 12, and rows 0 to 8 twice; the others and their bytes stay.
    let (some, plan) = told(&map, &["layers.0", "tied", "embed.weight"]);
    assert_eq!(some, "payload 1.50 KiB, moved 1.50 KiB (to a device 1.50 KiB), 1.00 for each byte");
    map.apply(&plan).unwrap();
    assert_eq!(told(&map, &["tied"]).0, "payload 0 B, moved 0 B");
    assert_eq!(
        told(&map, &["steps", "embed"]).0,
        "payload 32 B, moved 32 B (to a device 32 B), 1.00 for each byte"
    );
    assert_eq!(
        told(&map, &[""]).0,
        "payload 1.03 KiB, moved 1.03 KiB (to a device 1.03 KiB), 1.00 for each byte"
    );
}
