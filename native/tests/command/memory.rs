//! `spanlift memory`: the shared examples by their answers, and what is refused.

use serde_json::{Value, json};

use crate::kit::{folder, shared, spanlift, spanlift_reading};

#[test]
fn every_shared_example_has_its_answer() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/memory/examples.json")).unwrap();
    let examples: Value = serde_json::from_str(&text).unwrap();
    let folder = folder("layouts");
    for example in examples["examples"].as_array().unwrap() {
        let (id, expect) = (&example["id"], &example["expect"]);
        let layout = example["layout"].to_string();
        let to = example["to"].as_str().unwrap();
        let args = ["memory", "-", "--to", to, "--format", "json"];
        let ran = spanlift_reading(&folder, &args, layout.as_bytes());
        if let Some(error) = example.get("expect_error") {
            assert_eq!(
                (ran.code, ran.out.as_str(), ran.err.lines().count()),
                (2, "", 1),
                "{id}: {}",
                ran.err
            );
            for part in error["stderr_mentions"].as_array().unwrap().iter().filter_map(Value::as_str) {
                assert!(ran.err.contains(part), "{id}: {part:?} in {}", ran.err);
            }
            continue;
        }
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{id}");
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        for field in ["tensors", "devices", "overlaps"] {
            assert_eq!(found[field], expect[field], "{id}: {field}");
        }
        assert_eq!(found["move"]["bytes_copied"], expect["move"]["bytes_copied"], "{id}");
        let most = expect["move"]["bytes_allocated_at_most"].as_i64().unwrap();
        assert!(found["move"]["bytes_allocated"].as_i64().unwrap() <= most, "{id}");
        assert_eq!(
            spanlift_reading(&folder, &args, layout.as_bytes()).out,
            ran.out,
            "{id}: the same bytes again"
        );
    }
}

#[test]
fn text_tells_spans_and_the_move() {
    let folder = folder("layout-text");
    let layout = json!({
        "storages": [{"id": "w", "device": "cpu", "bytes": 80}],
        "tensors": [{"name": "a", "storage": "w", "dtype": "f32", "shape": [2, 3], "strides": [3, 1]}],
    });
    std::fs::write(folder.join("l.json"), layout.to_string()).unwrap();
    let ran = spanlift(&folder, &["memory", "l.json", "--to", "cuda"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let ledger = "bytes: payload 24 B, moved 24 B (to a device 24 B), 1.00 for each byte";
    for part in ["cpu: ", "[0, 24)", "to cuda:0", ledger] {
        assert!(ran.out.contains(part), "{part} in {}", ran.out);
    }
    // Of bytes that no host memory takes part in, no driver stages any.
    assert!(ran.out.contains("a driver that stages"), "{}", ran.out);
    std::fs::write(folder.join("l.json"), layout.to_string().replace("cpu", "cuda:1")).unwrap();
    let ran = spanlift(&folder, &["memory", "l.json", "--to", "cuda"]);
    assert!(ran.out.ends_with("moved 24 B (between devices 24 B), 1.00 for each byte\n"), "{}", ran.out);
}

/// Totals of a device in units of 1024 and of 1000, each under its name.
#[test]
fn totals_have_both_kinds_of_units() {
    let folder = folder("layout-units");
    let layout = json!({
        "storages": [{"id": "w", "device": "cpu", "bytes": 3_000_000_000_u64}],
        "tensors": [
            {"name": "a", "storage": "w", "dtype": "u8", "shape": [2_500_000_000_u64], "strides": [1]},
            {"name": "b", "storage": "w", "dtype": "u8", "shape": [999], "strides": [1]},
        ],
    });
    let ran = spanlift_reading(&folder, &["memory", "-"], layout.to_string().as_bytes());
    let line = "cpu: 2 tensors, 1 owner; 2.33 GiB (2.50 GB) unique of 2.33 GiB (2.50 GB) listed, in 1 block with 2.79 GiB (3.00 GB)";
    assert!(ran.out.lines().any(|l| l == line), "{}", ran.out);
}

#[test]
fn a_wrong_layout_is_refused_tensor_by_tensor() {
    let folder = folder("bad-layout");
    let tensor = |name: &str, dtype: &str, storage: &str, offset: i64| json!({"name": name, "storage": storage, "dtype": dtype, "shape": [4], "strides": [1], "offset": offset});
    let layout = json!({
        "storages": [{"id": "w", "device": "cpu", "bytes": 16}],
        "tensors": [tensor("far", "f32", "w", 1), tensor("odd", "f31", "w", 0), tensor("lost", "f32", "v", 0)],
    });
    let ran = spanlift_reading(&folder, &["memory", "-"], layout.to_string().as_bytes());
    assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 3), "{}", ran.err);
    for (line, parts) in ran.err.lines().zip([
        ["far", "outside storage"],
        ["odd", "unknown dtype"],
        ["lost", "unknown storage"],
    ]) {
        assert!(parts.iter().all(|p| line.contains(p)), "{line}");
    }
    for (text, args) in
        [("{", vec!["memory", "-"]), ("", vec!["memory", "-"]), ("{}", vec!["memory", "-", "--to", "mars"])]
    {
        let ran = spanlift_reading(&folder, &args, text.as_bytes());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{text:?}: {}", ran.err);
    }
    assert_eq!(spanlift(&folder, &["memory", "absent.json"]).code, 2);
}

#[test]
fn bench_gives_one_array_of_figures() {
    let ran = spanlift(&folder("bench"), &["bench", "memory", "--tensors", "50", "--format", "json"]);
    assert_eq!((ran.code, ran.err.as_str(), ran.out.lines().count()), (0, "", 1));
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    for figure in found.as_array().unwrap() {
        assert!(figure["value"].as_f64().unwrap() > 0.0 && figure["unit"].is_string(), "{figure}");
    }
    assert_eq!(found[0]["name"], "memory.tensors_per_s");
}

/// A block whose bytes are decided while who owns which is not: text and JSON tell the same, and the text says what it leaves out.
#[test]
fn what_is_undecided_is_left_out_of_the_text_alone() {
    let folder = folder("layout-owners");
    // Every sum of some of twenty strides that have nothing in common is a byte, and three of them are tensors of their own.
    let strides = [
        281_782, 132_344, 534_918, 247_293, 1_039_002, 942_651, 990_370, 796_110, 440_307, 196_837,
        1_023_109, 59_448, 817_488, 907_578, 4416, 934_044, 558_535, 479_749, 214_385, 665_698,
    ];
    let tensor = |name: &str, shape: &[i64], strides: &[i64], offset: i64| json!({"name": name, "storage": "w", "dtype": "u8", "shape": shape, "strides": strides, "offset": offset});
    let layout = json!({
        "storages": [{"id": "w", "device": "cpu", "bytes": 11_268_064}],
        "tensors": [
            tensor("a", &[2; 20], &strides, 0), tensor("b0", &[], &[], 9_124_021), tensor("b1", &[], &[], 2_761_966),
            tensor("b2", &[], &[], 5_848_904),
        ],
    });
    std::fs::write(folder.join("l.json"), layout.to_string()).unwrap();
    for format in ["json", "text"] {
        let ran = spanlift(&folder, &["memory", "l.json", "--format", format]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{format}");
        let left_out = ran
            .out
            .contains("which tensor owns which bytes is left out: storage \"w\": its bytes are undecided");
        assert_eq!(left_out, format == "text", "{}", ran.out);
    }
    // Of a block whose size is wrong nothing else is said.
    let wrong = json!({
        "storages": [{"id": "w", "device": "cpu", "bytes": -1}],
        "tensors": [tensor("a", &[4], &[1], 0)],
    });
    std::fs::write(folder.join("l.json"), wrong.to_string()).unwrap();
    let ran = spanlift(&folder, &["memory", "l.json"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(ran.err.contains("negative size: -1 bytes"), "{}", ran.err);
}

/// Rows of names as long as they come and of wide characters: no line is longer than a terminal's, names stay apart, and columns
/// stand below each other.
#[test]
fn tables_of_memory_are_no_wider_than_a_terminal() {
    let folder = folder("layout-wide");
    let long = "encoder.layers.11.self_attention.query_key_value.weight";
    let names = [
        format!("{long}.master_copy.of_rank_0.shard"),
        format!("{long}.master_copy.of_rank_1.shard"),
        "权重".to_owned(),
        "e\u{301}te\u{301}".to_owned(),
        "bias".to_owned(),
    ];
    let storage =
        |k: usize| json!({"id": format!("storage of {}", names[k]), "device": "cpu", "bytes": 4 << 20});
    let tensor = |k: usize| {
        json!({
            "name": names[k], "storage": format!("storage of {}", names[k]), "dtype": "f32", "shape": [1000, 1000 + k],
            "strides": [1000, 1], "offset": 0,
        })
    };
    let of = |list: &[usize]| {
        let layout = json!({
            "storages": list.iter().map(|k| storage(*k)).collect::<Vec<_>>(),
            "tensors": list.iter().map(|k| tensor(*k)).collect::<Vec<_>>(),
        });
        std::fs::write(folder.join("l.json"), layout.to_string()).unwrap();
        let ran = spanlift(&folder, &["memory", "l.json"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        ran.out
    };
    for list in [&[0, 1, 2, 3, 4][..], &[2, 3, 4]] {
        let told = of(list);
        let tables: Vec<Vec<&str>> = told
            .split("\n\n")
            .flat_map(|part| {
                let heads = ["tensor", "  owner", "  block"];
                let lines: Vec<&str> = part.lines().collect();
                let at: Vec<usize> = (0..lines.len())
                    .filter(|&k| heads.iter().any(|head| lines[k].starts_with(head)))
                    .collect();
                at.into_iter().map(move |k| lines[k..=k + list.len()].to_vec()).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(tables.len(), 3, "{told}");
        for table in tables {
            let mut seen = std::collections::BTreeSet::new();
            for line in &table {
                // Two columns for each of the wide characters, none for an accent.
                let n_wide = line.matches(['权', '重']).count();
                let columns = line.chars().count() + n_wide - line.matches('\u{301}').count();
                assert_eq!(columns, table[0].chars().count(), "{told}");
                assert!(columns <= 80, "{columns}: {line}");
                assert!(seen.insert(line.split("  ").find(|cell| !cell.is_empty()).unwrap()), "{told}");
            }
        }
    }
}
