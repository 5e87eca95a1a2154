//! Memory maps of easy and of hard layouts: nothing overlaps, nothing leaves the picture, nothing grows without end.

use super::*;
use crate::testing::{Random, golden, hang, texts_keep_apart};
use spanlift::Bytes;
use spanlift::memory::{Dtype, View, cpu, cuda};

fn view(dtype: Dtype, shape: &[i64], strides: &[i64], offset: i64) -> View {
    View { dtype, shape: shape.to_vec(), strides: strides.to_vec(), offset }
}

/// Three views of one storage: a matrix, its even columns, and a row that both hold; beside it a small storage.
fn three_views() -> Layout {
    let mut layout = Layout::new();
    let w = layout.storage("weights", cpu(), Bytes(4096)).unwrap();
    let b = layout.storage("bias", cpu(), Bytes(64)).unwrap();
    let f32 = |shape: &[i64], strides: &[i64], offset| view(Dtype::F32, shape, strides, offset);
    layout.tensor("left half", w, f32(&[16, 16], &[32, 1], 0)).unwrap();
    layout.tensor("even", w, f32(&[16, 8], &[32, 2], 16)).unwrap();
    layout.tensor("row 3", w, f32(&[32], &[1], 96)).unwrap();
    layout.tensor("b", b, f32(&[16], &[1], 0)).unwrap();
    layout
}

/// Every kind of oddity at once.
fn odd() -> Layout {
    let mut layout = Layout::new();
    let long = "a very long name ".repeat(12);
    let a = layout.storage(&long, cpu(), Bytes(400)).unwrap();
    let b = layout.storage("<script>alert(1)</script> & \"quotes\"", cuda(1), Bytes(0)).unwrap();
    let c =
        layout.storage("日本語のストレージ名がとても長い場合", cuda(0), Bytes(6_000_000_000_000)).unwrap();
    let unused = layout.storage("unused", cpu(), Bytes(100)).unwrap();
    let mut add = |name: &str, of, view| layout.tensor(name, of, view).unwrap();
    add(&long, a, view(Dtype::F32, &[20], &[2], 10));
    add("reversed", a, view(Dtype::F32, &[10], &[-2], 38));
    add("mixed", a, view(Dtype::F32, &[2, 3, 4], &[12, -4, 1], 8));
    add("expanded", a, view(Dtype::F64, &[9, 5], &[0, 1], 3));
    add("bytes", a, view(Dtype::U8, &[7], &[3], 100));
    add("scalar", a, view(Dtype::C64, &[], &[], 5));
    add("empty", a, view(Dtype::F32, &[3, 0], &[1, 1], 0));
    add("<b>nothing</b>", b, view(Dtype::F32, &[0], &[1], 0));
    add("𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u{202e}rtl\u{0}", c, view(Dtype::U8, &[1_000_000, 3_000_000], &[6_000_000, 1], 0));
    add("fine", c, view(Dtype::U8, &[1 << 30, 1 << 10], &[1 << 12, 3], 0));
    let ten: Vec<i64> = vec![2; 10];
    let strides: Vec<i64> = (0..10).map(|k| 1 << (2 * k)).collect();
    add("ten dimensions", c, view(Dtype::U8, &ten, &strides, 7));
    let _ = unused;
    layout
}

/// `n` views in each of `m` storages.
fn crowd(m: usize, n: usize) -> Layout {
    let mut source = Random(7);
    let mut layout = Layout::new();
    for k in 0..m {
        let device = if k % 3 == 2 { cuda(0) } else { cpu() };
        let bytes = Bytes(4000 * (1 + source.below(9)));
        let storage = layout.storage(&format!("s{k}"), device, bytes).unwrap();
        for j in 0..n {
            let (stride, count) = (1 + source.below(3), 1 + source.below(60));
            let [stride, count] = [stride, count].map(|n| i64::try_from(n).unwrap());
            let offset = i64::try_from(source.below(800)).unwrap();
            layout
                .tensor(&format!("s{k}.t{j}"), storage, view(Dtype::F32, &[count], &[stride], offset))
                .unwrap();
        }
    }
    layout
}

#[track_caller]
fn check(name: &str, scene: &Scene) {
    hang(name, scene);
    texts_keep_apart(scene);
    for rect in scene.rects() {
        let inside = rect.x >= -0.01
            && rect.x + rect.w <= scene.width + 0.01
            && rect.y >= -0.01
            && rect.y + rect.h <= scene.height + 0.01;
        assert!(inside && rect.w >= 0.0, "{name}: {rect:?} leaves {} x {}", scene.width, scene.height);
    }
    let svg = crate::svg::svg(scene, name, "");
    assert!(svg.len() < 350_000, "{name}: {} bytes", svg.len());
}

#[test]
fn maps_are_readable_at_every_width_and_in_both_themes() {
    for (name, layout) in [("three", three_views()), ("odd", odd()), ("none", Layout::new())] {
        let plan = layout.move_to(cuda(0)).unwrap();
        let naive = layout.move_naively(cuda(0));
        for width in [320.0, 600.0, 960.0, 1400.0] {
            let theme = if width == 600.0 { Theme::DARK } else { Theme::LIGHT };
            let options = MemoryOptions { title: format!("{name} <views>"), width, theme };
            check(&format!("memory-{name}-{width}"), &super::layout(&layout, &options));
            check(&format!("memory-{name}-move-{width}"), &moved(&plan, &options));
            check(&format!("memory-{name}-naive-{width}"), &moved(&naive, &options));
        }
    }
}

#[test]
fn a_move_of_three_views_is_drawn_as_before() {
    let options = MemoryOptions { title: "three views".into(), ..MemoryOptions::default() };
    golden("move.scene.txt", &moved(&three_views().move_to(cuda(0)).unwrap(), &options).to_text());
}

/// Of a large storage one pixel may be all that is used: no frame lies on it, at either end.
#[test]
fn what_little_a_storage_holds_lies_within_its_frame() {
    for offset in [0, (1 << 30) - 512] {
        let mut layout = Layout::new();
        let storage = layout.storage("s", cpu(), Bytes(1 << 30)).unwrap();
        layout.tensor("t", storage, view(Dtype::U8, &[512], &[1], offset)).unwrap();
        let scene = super::layout(&layout, &MemoryOptions::default());
        let bar = |rect: &&crate::scene::Rect| rect.h >= super::frame::BAR;
        let used = scene.rects().filter(bar).find(|rect| rect.fill.is_some() && rect.w < 3.0).unwrap();
        let (frame, stroke) =
            scene.rects().filter(bar).find_map(|rect| Some((rect, rect.outline?.width))).unwrap();
        let inner = (frame.x + stroke, frame.x + frame.w - stroke);
        assert!(inner.0 <= used.x && used.x + used.w <= inner.1, "{used:?} {frame:?}");
    }
}

/// The shared examples of layouts, where the checkout has them.
#[test]
fn every_example_is_readable() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("SPANLIFT_SHARED").map_or(here, std::path::PathBuf::from);
    let Ok(file) = std::fs::read(shared.join("data/memory/examples.json")) else {
        eprintln!("no shared examples: left out");
        return;
    };
    let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
    for example in file["examples"].as_array().unwrap() {
        let id = example["id"].as_str().unwrap();
        let Ok(layout) = Layout::from_json(example["layout"].to_string().as_bytes()) else {
            assert!(!example["expect_error"].is_null(), "{id}");
            continue;
        };
        let to = example["to"].as_str().unwrap_or("cuda:0").parse().unwrap();
        for theme in [Theme::LIGHT, Theme::DARK] {
            let options = MemoryOptions { title: id.to_owned(), width: 960.0, theme };
            let name = format!("example-{id}-{}", if theme.is_dark { "dark" } else { "light" });
            check(&name, &super::layout(&layout, &options));
            check(&format!("{name}-move"), &moved(&layout.move_to(to).unwrap(), &options));
            check(&format!("{name}-naive"), &moved(&layout.move_naively(to), &options));
        }
    }
}

#[test]
fn the_move_says_what_it_costs() {
    let plan = three_views().move_to(cuda(0)).unwrap();
    let scene = moved(&plan, &MemoryOptions::default());
    let texts: Vec<&str> = scene.texts().map(|t| t.text.as_str()).collect();
    let said = |words: &str| assert!(texts.iter().any(|t| t.contains(words)), "{words}: {texts:#?}");
    said("move to cuda:0, views stay views: 2 allocations of 2.06 KiB, 6 copies of 1.59 KiB");
    said("one view at a time: 4 allocations of 4.06 KiB, 4 copies of 4.06 KiB");
    said("shares with left half, even");
    said("bias@cuda:0: 64 B allocated, 64 B copied");
}

#[test]
fn very_many_stay_few_on_the_picture() {
    for (name, layout) in
        [("many-views", crowd(1, 3000)), ("many-storages", crowd(2000, 2)), ("both", crowd(60, 40))]
    {
        let plan = layout.move_to(cuda(0)).unwrap();
        let options = MemoryOptions { title: name.into(), ..MemoryOptions::default() };
        let scene = super::layout(&layout, &options);
        check(&format!("memory-{name}"), &scene);
        assert!(scene.texts().any(|t| t.text.starts_with("and ")), "{name}");
        assert_eq!(scene, super::layout(&layout, &options));
        let scene = moved(&plan, &options);
        check(&format!("memory-{name}-move"), &scene);
        assert!(scene.shapes.len() < 12_000, "{name}: {} shapes", scene.shapes.len());
    }
}

#[test]
fn rulers_name_whole_bytes() {
    let told = |at: i128, step: i128| draw::label(at, step);
    assert_eq!(told(0, 16), "0 B");
    assert_eq!(told(1536, 256), "1.5 KiB");
    assert_eq!(told(1540, 4), "1,540 B");
    assert_eq!(told(1 << 20, 128 << 10), "1 MiB");
    assert_eq!(told(3 << 40, 1 << 39), "3 TiB");
    assert_eq!(told(5 << 38, 1 << 38), "1.25 TiB");
}

/// What is told of storages and views, against every byte marked by itself.
#[test]
fn details_tell_the_bytes_that_a_count_of_each_byte_gives() {
    let mut n_alone = 0;
    for seed in 0..12 {
        let mut random = Random(seed);
        let mut number = |n: u64| i64::try_from(random.below(n)).unwrap();
        let mut layout = Layout::new();
        let sizes: [usize; 4] = [600, 250, 0, 100];
        // Of each view its name, storage, and every byte as often as it has it.
        let mut views: Vec<(String, usize, Vec<i64>, View)> = Vec::new();
        for (s, size) in sizes.into_iter().enumerate() {
            let storage = layout.storage(&format!("s{s}"), cpu(), Bytes(size as u64)).unwrap();
            for k in 0..[5, 1, 0, 0][s] {
                let (n, m) = (number(5), 1 + number(4));
                let (down, right) = (number(9) - 2, number(5) - 1);
                let offset = 20 + number(15);
                let made = view(Dtype::F32, &[n, m], &[down, right], offset);
                let name = format!("t{s}{k}");
                if layout.tensor(&name, storage, made.clone()).is_err() {
                    continue;
                }
                let elements = (0..n).flat_map(|i| (0..m).map(move |j| offset + i * down + j * right));
                let bytes = elements.flat_map(|e| (0..4).map(move |b| 4 * e + b)).collect();
                views.push((name, s, bytes, made));
            }
        }
        let map = MemoryPicture::of(layout);
        let in_words = |n: usize| crate::text::bytes(n as u64);
        let count = |s: usize, times: usize| {
            let own = views.iter().filter(|view| view.1 == s);
            let of: Vec<Vec<i64>> = own
                .map(|(.., bytes, _)| {
                    let mut bytes = bytes.clone();
                    bytes.sort_unstable();
                    bytes.dedup();
                    bytes
                })
                .collect();
            (0..1000).filter(|b| of.iter().filter(|of| of.contains(b)).count() >= times).count()
        };
        let (mut n_views, mut listed, mut any, mut twice) = (0, 0, 0, 0);
        for (s, size) in sizes.into_iter().enumerate() {
            let own: Vec<_> = views.iter().filter(|view| view.1 == s).collect();
            let own_listed: usize = own.iter().map(|view| view.2.len()).sum();
            let (touched, shared) = (count(s, 1), count(s, 2));
            let details = map.storage_details(s);
            let expected = [
                ("size", format!("{} ({size} B)", in_words(size))),
                ("views", own.len().to_string()),
                ("listed", in_words(own_listed)),
                ("touched", in_words(touched)),
                ("shared", in_words(shared)),
                ("of no view", in_words(size - touched)),
            ];
            let expected = expected.map(|(name, value)| (name.to_owned(), value));
            assert_eq!((&*details.place, details.rows), ("storage on cpu", expected.to_vec()), "seed {seed}");
            (n_views, listed) = (n_views + own.len(), listed + own_listed);
            (any, twice) = (any + touched, twice + shared);
        }
        let (list, touch) = if n_views == 1 { ("lists", "touches") } else { ("list", "touch") };
        let mut told = format!(
            "cpu: 950 B in 4 storages, {} that {list} {} and {touch} {}",
            crate::text::count(n_views, "view"),
            in_words(listed),
            in_words(any)
        );
        if twice > 0 {
            told.push_str(&format!(", {} of them shared", in_words(twice)));
        }
        n_alone += usize::from(twice == 0);
        assert_eq!(map.told()[1], told, "seed {seed}");
        for (k, (name, .., bytes, made)) in views.iter().enumerate() {
            let mut expected = Vec::new();
            if bytes.is_empty() {
                expected.push(
                    "An empty view has no bytes: nothing is allocated for it and nothing copied.".to_owned(),
                );
            } else {
                for d in 0..2 {
                    let n = made.shape[d];
                    match made.strides[d].signum() {
                        0 if n > 1 => expected.push(format!(
                            "Dimension {d} repeats the same bytes {n} times: they are there once."
                        )),
                        -1 if n > 1 => expected.push(format!("Dimension {d} runs backwards.")),
                        _ => {}
                    }
                }
                let (lo, hi) = (*bytes.iter().min().unwrap(), *bytes.iter().max().unwrap() + 1);
                let between = (lo..hi).filter(|byte| !bytes.contains(byte)).count();
                if between > 0 {
                    expected.push(format!(
                        "{} between its first and its last byte are not its own.",
                        in_words(between)
                    ));
                }
            }
            let details = map.tensor_details(k, &[], true);
            assert_eq!((&*details.title, details.why), (&**name, expected), "seed {seed}: {name}");
        }
    }
    assert!(n_alone < 6, "{n_alone}");
}

#[test]
fn a_device_without_views_says_so() {
    let mut layout = Layout::new();
    layout.storage("s", cpu(), Bytes(64)).unwrap();
    let map = MemoryPicture::of(layout);
    assert_eq!(map.told(), ["0 views of 1 storage", "cpu: 64 B in 1 storage, no view"]);
}

#[test]
fn what_is_there_already_and_what_no_view_holds_is_not_moved() {
    let mut layout = Layout::new();
    let f32 = || view(Dtype::F32, &[16], &[1], 0);
    for (name, device, has_view) in
        [("a", cpu(), true), ("b", cuda(0), true), ("c", cuda(0), false), ("d", cpu(), false)]
    {
        let storage = layout.storage(name, device, Bytes(64)).unwrap();
        if has_view {
            layout.tensor(&format!("{name}0"), storage, f32()).unwrap();
        }
    }
    let map = MemoryPicture::moved(layout.move_to(cuda(0)).unwrap());
    let after: Vec<String> = (0..4).map(|k| map.told_after(k)).collect();
    let expected = [
        "a@cuda:0: 64 B allocated, 64 B copied",
        "is on cuda:0 already: nothing is copied",
        "no view, nothing to move",
    ];
    assert_eq!(after[..3], expected);
    assert!(!after[3].contains("copied"), "{after:?}");
    // Each way says what the other one would take.
    let (aware, naive) = (three_views().move_to(cuda(0)).unwrap(), three_views().move_naively(cuda(0)));
    let told = |plan| MemoryPicture::moved(plan).told()[1..].to_vec();
    let (few, many) = (
        "2 allocations of 2.06 KiB, 6 copies of 1.59 KiB",
        "4 allocations of 4.06 KiB, 4 copies of 4.06 KiB",
    );
    assert_eq!(
        told(aware),
        [format!("move to cuda:0, views stay views: {few}"), format!("one view at a time: {many}")]
    );
    assert_eq!(
        told(naive),
        [format!("move to cuda:0, one view at a time: {many}"), format!("a move that keeps views: {few}")]
    );
}

#[test]
fn a_block_of_a_snapshot_is_told_as_one_whether_its_past_was_recorded_or_not() {
    let mut layout = Layout::new();
    let segment = layout.storage("0x7f00 small", cuda(0), Bytes(4096)).unwrap();
    layout.tensor("0x7f02 f (m.py:1)", segment, view(Dtype::U8, &[1024], &[1], 512)).unwrap();
    let map = MemoryPicture::of_segments(layout);
    let told = map.tensor_details(0, &[], true);
    assert_eq!(told.place, "block of 0x7f00 small on cuda:0");
    let rows: Vec<_> = told.rows.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(rows, [("size", "1 KiB"), ("bytes", "[512, 1,536)")]);
    assert_eq!(map.sentence(0), "0x7f02 f (m.py:1), 1 KiB, in 0x7f00 small on cuda:0");
}
