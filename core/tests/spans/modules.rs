//! Modules of tensors: names, marks, blocks, real data, and what is written and read back.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::collections::BTreeMap;

use spanlift::memory::{
    AsTensor, Block, Dtype, Layout, Marks, Module, TensorKind, TensorRef, TensorView, View, ViewError,
    Visitor, cpu, cuda,
};
use spanlift::{Bytes, kib, module};

struct Linear {
    weight: TensorView,
    bias: Option<TensorView>,
}
module!(Linear: parameter weight, bias);

struct Norm {
    scale: Vec<f32>,
    mean: [f64; 3],
    steps: Vec<i64>,
    #[expect(dead_code, reason = "what is no tensor stays out")]
    eps: f64,
}
module!(Norm: parameter scale; buffer mean, steps);

struct Model {
    embed: Linear,
    layers: Vec<Linear>,
    norm: Option<Norm>,
    tail: Option<Norm>,
    heads: BTreeMap<String, Linear>,
    tied: TensorView,
}
module!(Model: parameter tied; module embed, layers, norm, tail, heads);

fn model() -> Model {
    let block = Block::new("weights", cpu(), kib(4));
    let all = block.tensor(Dtype::F32, &[32, 32]).unwrap();
    let rows = |first, n| all.narrow(0, first, n).unwrap();
    let bias = || Some(TensorView::new(cpu(), Dtype::F32, &[8]).unwrap().requires_grad(false));
    let head = |bias| Linear { weight: rows(16, 4).transpose(0, 1).unwrap(), bias };
    Model {
        embed: Linear { weight: rows(0, 8), bias: bias() },
        layers: vec![Linear { weight: rows(4, 8), bias: bias() }, Linear { weight: rows(8, 8), bias: None }],
        norm: Some(Norm { scale: vec![1.0; 8], mean: [0.0; 3], steps: vec![], eps: 1e-5 }),
        tail: None,
        heads: BTreeMap::from([("a".to_owned(), head(None)), ("b".to_owned(), head(bias()))]),
        tied: rows(0, 8),
    }
}

#[test]
fn a_module_is_a_layout_of_its_tensors() {
    let layout = Layout::of(&model()).unwrap();
    let row = |t: &spanlift::memory::Tensor| {
        let storage = layout.storage_of(t.storage()).id.clone();
        (t.name().to_owned(), storage, t.marks().kind.name(), t.marks().requires_grad)
    };
    let rows: Vec<_> = layout.tensors().iter().map(row).collect();
    let expected = [
        ("tied", "weights", "parameter", true),
        ("embed.weight", "weights", "parameter", true),
        ("embed.bias", "embed.bias", "parameter", false),
        ("layers.0.weight", "weights", "parameter", true),
        ("layers.0.bias", "layers.0.bias", "parameter", false),
        ("layers.1.weight", "weights", "parameter", true),
        ("norm.scale", "norm.scale", "parameter", true),
        ("norm.mean", "norm.mean", "buffer", false),
        ("norm.steps", "norm.steps", "buffer", false),
        ("heads.a.weight", "weights", "parameter", true),
        ("heads.b.weight", "weights", "parameter", true),
        ("heads.b.bias", "heads.b.bias", "parameter", false),
    ];
    let expected = expected.map(|(n, s, k, g)| (n.to_owned(), s.to_owned(), k, g));
    assert_eq!(rows, expected);
    let modules: Vec<_> = layout.modules().iter().map(|m| format!("{}:{}", m.path, m.module_type)).collect();
    assert_eq!(
        modules,
        [
            ":Model",
            "embed:Linear",
            "layers:ModuleList",
            "layers.0:Linear",
            "layers.1:Linear",
            "norm:Norm",
            "heads:ModuleDict",
            "heads.a:Linear",
            "heads.b:Linear"
        ]
    );
    // Tied and overlapping rows count once: rows 0 to 16 and 16 to 20 of 32 elements.
    let unique = 20 * 32 * 4 + 3 * 32 + 8 * 4 + 3 * 8;
    assert_eq!(layout.report().unwrap().devices["cpu"].unique_bytes, unique);
    let plan = layout.move_to(cuda(0)).unwrap();
    assert_eq!(plan.bytes_copied(), unique);
    let after = plan.after().unwrap();
    assert_eq!(after.modules(), layout.modules());
    for (a, b) in after.tensors().iter().zip(layout.tensors()) {
        assert_eq!((a.name(), a.marks(), &a.view().shape), (b.name(), b.marks(), &b.view().shape));
    }
}

#[test]
fn layouts_read_back_as_they_were_written() {
    let layout = Layout::of(&model()).unwrap();
    for layout in [layout.move_to(cuda(1)).unwrap().after().unwrap(), Layout::new(), layout] {
        let text = layout.to_json();
        assert_eq!(Layout::from_json(text.as_bytes()).unwrap(), layout, "{text}");
        assert_eq!(Layout::from_json(text.as_bytes()).unwrap().to_json(), text);
    }
    // What is no mark is an unknown field, whatever it holds.
    for odd in [
        r#""kind": 7"#,
        r#""kind": {"deep": [[]]}"#,
        r#""requires_grad": "yes""#,
        r#""kind": null, "requires_grad": []"#,
        r#""kind": "PARAMETER""#,
    ] {
        let text = format!(
            r#"{{"modules": {{"x": 1}}, "storages": [{{"id": "w", "device": "cpu", "bytes": 4}}],
                "tensors": [{{"name": "a", "storage": "w", "dtype": "f32", "shape": [1], "strides": [1], {odd}}}]}}"#
        );
        let layout = Layout::from_json(text.as_bytes()).unwrap_or_else(|e| panic!("{odd}: {e}"));
        assert_eq!((layout.tensors()[0].marks(), layout.modules().len()), (Marks::BUFFER, 0), "{odd}");
    }
}

/// Slices of one buffer of real data.
struct Slices<'d> {
    all: &'d [f32],
    low: &'d [f32],
    high: &'d [f32],
    other: &'d [i64],
}

impl Module for Slices<'_> {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.buffer("high", self.high);
        v.buffer("low", &self.low);
        v.parameter("all", self.all);
        v.buffer("other", self.other);
    }
}

#[test]
fn slices_of_one_buffer_are_one_storage() {
    let (data, other) = (vec![0.0f32; 100], [1i64, 2]);
    let slices = Slices { all: &data, low: &data[10..40], high: &data[90..], other: &other };
    assert_eq!(slices.module_type(), "Slices");
    let layout = Layout::of(&slices).unwrap();
    let of = |name: &str| {
        let t = layout.find(name).unwrap();
        (layout.storage_of(t.storage()).id.as_str(), t.elements().unwrap())
    };
    assert_eq!(
        [of("all"), of("low"), of("high")],
        [("high", (0, 99)), ("high", (10, 39)), ("high", (90, 99))]
    );
    assert_eq!(of("other"), ("other", (0, 1)));
    assert_eq!(layout.report().unwrap().devices["cpu"].unique_bytes, 416);
    // Parts that only touch may be two allocations side by side, so they stay two.
    let (low, high) = data.split_at(50);
    let parted = Layout::of(&Slices { all: &[], low, high, other: &[] }).unwrap();
    let storage = |name: &str| parted.find(name).unwrap().storage();
    assert_ne!(storage("low"), storage("high"));
}

/// A matrix of the user's own.
struct Matrix {
    data: Vec<f64>,
    rows: i64,
}

impl AsTensor for Matrix {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        let columns = i64::try_from(self.data.len()).ok()? / self.rows;
        let view = View::contiguous(Dtype::F64, &[self.rows, columns]).ok()?;
        Some(TensorRef::within(&self.data, view).requires_grad(false))
    }
}

struct Tall {
    a: Matrix,
    b: std::sync::Arc<Matrix>,
}
module!(Tall: parameter a, b);

#[test]
fn tensor_types_of_ones_own() {
    let b = std::sync::Arc::new(Matrix { data: vec![0.0; 6], rows: 6 });
    let layout = Layout::of(&[
        Tall { a: Matrix { data: vec![0.0; 12], rows: 3 }, b: b.clone() },
        Tall { a: Matrix { data: vec![0.0; 4], rows: 1 }, b },
    ])
    .unwrap();
    let shape = |name: &str| layout.find(name).unwrap().view().shape.clone();
    assert_eq!((shape("0.a"), shape("1.a"), shape("0.b")), (vec![3, 4], vec![1, 4], vec![6, 1]));
    assert_eq!(layout.find("0.b").unwrap().storage(), layout.find("1.b").unwrap().storage(), "one Arc");
    assert_eq!(
        layout.find("0.a").unwrap().marks(),
        Marks { kind: TensorKind::Parameter, requires_grad: false }
    );
}

#[test]
fn problems_of_modules_are_named() {
    let block = Block::new("w", cpu(), Bytes(16));
    let far = block.tensor(Dtype::F32, &[4]).unwrap().at(1);
    let odd = Linear { weight: far.clone(), bias: Some(far) };
    let message = Layout::of(&odd).unwrap_err().to_string();
    assert_eq!(
        message.lines().collect::<Vec<_>>(),
        [
            r#"tensor "weight": outside storage: it needs bytes [4, 20) of "w", which has 16 bytes"#,
            r#"tensor "bias": outside storage: it needs bytes [4, 20) of "w", which has 16 bytes"#,
        ]
    );
    struct Twice(TensorView);
    impl Module for Twice {
        fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
            v.parameter("a", &self.0);
            v.parameter("a", &self.0);
        }
    }
    let twice = Layout::of(&Twice(block.tensor(Dtype::F32, &[4]).unwrap())).unwrap_err();
    assert_eq!(twice.to_string(), r#"tensor "a": duplicate name"#);
    // Blocks that are called alike are two storages all the same.
    let same = Linear {
        weight: block.tensor(Dtype::U8, &[16]).unwrap(),
        bias: Some(Block::new("w", cuda(0), Bytes(4)).tensor(Dtype::F32, &[1]).unwrap()),
    };
    let layout = Layout::of(&same).unwrap();
    let ids: Vec<_> = layout.storages().iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["w", "w#2"]);
}

/// Every element position of a view, in row-major order, from shape and strides alone.
fn positions(view: &View) -> Vec<i64> {
    let mut at = vec![view.offset];
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        at = at.iter().flat_map(|e| (0..size).map(move |i| e + i * stride)).collect();
    }
    at
}

#[test]
fn views_of_views_hold_the_elements_that_indexing_names() {
    let base = View::contiguous(Dtype::F32, &[4, 5, 6]).unwrap();
    let index = |i: i64, j: i64, k: i64| i * 30 + j * 6 + k;
    let all = |f: &dyn Fn(i64, i64) -> i64, n: i64, m: i64| -> Vec<i64> {
        (0..n).flat_map(|a| (0..m).map(move |b| (a, b))).map(|(a, b)| f(a, b)).collect()
    };
    let plane = base.select(0, 2).unwrap();
    assert_eq!(positions(&plane), all(&|j, k| index(2, j, k), 5, 6));
    assert_eq!(positions(&plane.transpose(0, 1).unwrap()), all(&|k, j| index(2, j, k), 6, 5));
    assert_eq!(positions(&plane.narrow(1, 2, 3).unwrap()), all(&|j, k| index(2, j, 2 + k), 5, 3));
    assert_eq!(positions(&plane.flip(0).unwrap()), all(&|j, k| index(2, 4 - j, k), 5, 6));
    assert_eq!(positions(&plane.step(1, 4).unwrap()), all(&|j, k| index(2, j, 4 * k), 5, 2));
    assert_eq!(
        positions(&plane.flip(1).unwrap().step(1, 5).unwrap()),
        all(&|j, k| index(2, j, 5 - 5 * k), 5, 2)
    );
    let row = plane.select(0, 4).unwrap();
    assert_eq!(positions(&row.expand(3).unwrap()), all(&|_, k| index(2, 4, k), 3, 6));
    assert_eq!(base.narrow(2, 6, 0).unwrap().n_elements(), Some(0));
    assert_eq!(base.narrow(0, 0, 0).unwrap().flip(0).unwrap().n_elements(), Some(0));
    assert_eq!(base.select(1, 5), Err(ViewError::OutOfDim { dim: 1, size: 5, index: 5 }));
    assert_eq!(base.narrow(0, 3, 2).unwrap_err().to_string(), "dimension 0 has 4 entries, 5 is outside them");
    assert_eq!(base.flip(3), Err(ViewError::NoDim { dim: 3, rank: 3 }));
    assert_eq!(base.step(0, 0), Err(ViewError::Step(0)));
    assert_eq!(base.expand(-1), Err(ViewError::NegativeSize(-1)));
}

#[test]
fn more_elements_than_are_counted_are_refused_at_once() {
    let block = Block::new("w", cpu(), Bytes(8));
    for shape in [&[1 << 62, 4][..], &[1 << 32, 1 << 31], &[2; 63], &[0, 1 << 62, 4]] {
        let overflows = Err(ViewError::Overflow);
        assert_eq!(View::contiguous(Dtype::U8, shape), overflows, "{shape:?}");
        assert_eq!(block.tensor(Dtype::U8, shape).map(|t| t.view().clone()), overflows, "{shape:?}");
    }
    for (shape, strides) in
        [(&[i64::MAX][..], &[1][..]), (&[i64::MAX, 0], &[1, 1]), (&[], &[]), (&[3, 0, 2], &[2, 2, 1])]
    {
        assert_eq!(View::contiguous(Dtype::U8, shape).unwrap().strides, strides, "{shape:?}");
    }
}
