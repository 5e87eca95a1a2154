//! Operators, as text and as JSON, where programs are taken: planned, checked, simulated, run and shown.

use std::path::Path;

use serde_json::{Value, json};
use spanlift::memory::{Dtype, cpu, cuda};
use spanlift::op::{Dense, Operator, Space, Tensor, Weights, to};
use spanlift::{Bytes, chain, plan::Planning};
use spanlift_native::programs::OPERATORS;
use spanlift_softcuda::kit::object;

use crate::kit::{Ran, Watched, binary, folder, ran, spanlift, watched};

/// Rows [1, 2, 3] and [4, 5, 6] on [1, 10, 100]: 321 and 654.
const MATRIX: &str = "# a matrix\noperator two rows\nmachine h200-pcie5\ninput [1, 10, 100]\n\
                      W = dense(f64[n=3]@cuda:0, [m=2], [1, 2, 3, 4, 5, 6])\nA = to(cuda:0) -> W -> to(cpu)\n";

fn on_software(folder: &Path, args: &[&str]) -> Ran {
    let mut command = binary(folder);
    command.args(args).env("SPANLIFT_CUDA_LIB", object().unwrap());
    ran(command, b"")
}

fn told(of: &Ran) -> Value {
    assert_eq!((of.code, of.err.as_str()), (0, ""), "{}", of.out);
    serde_json::from_str::<Value>(&of.out).unwrap()["operator"].clone()
}

#[test]
fn an_operator_gives_the_same_wherever_it_runs() {
    let folder = folder("operator");
    std::fs::write(folder.join("a.txt"), MATRIX).unwrap();
    let expected = json!([[321.0, 0.0], [654.0, 0.0]]);
    for on in ["sim", "cpu"] {
        let operator = told(&spanlift(&folder, &["run", "a.txt", "--on", on, "--format", "json"]));
        assert_eq!(operator["result"], expected, "{on}");
        assert_eq!(operator["input"], json!([[1.0, 0.0], [10.0, 0.0], [100.0, 0.0]]));
        assert_eq!(operator["formula"], "T(cuda:0->cpu) · W · T(cpu->cuda:0)");
        let moved: Vec<(&str, u64)> = operator["transfers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| (t["to"].as_str().unwrap(), t["bytes"].as_u64().unwrap()))
            .collect();
        assert_eq!(moved, [("cuda:0", 24), ("cpu", 16)]);
    }
    let text = spanlift(&folder, &["run", "a.txt", "--on", "cpu"]);
    for line in [
        "  2 transfers: cpu -> cuda:0 24 B, cuda:0 -> cpu 16 B; 40 B in all",
        "  cuda:0 holds 88 B: weights 48 B, between 40 B",
        "  x = [1, 10, 100], of norm 100.5",
        "  y = A x = [321, 654], of norm 728.53",
    ] {
        assert!(text.out.lines().any(|said| said == line), "{line:?} in {}", text.out);
    }
}

/// A movement needs none of NVIDIA's libraries: it runs on the software driver.
#[test]
fn an_operator_runs_on_a_device() {
    let folder = folder("operator-device");
    let script =
        "operator\ninput [1, 2, 3, 4]\nA = to(cuda:0) -> roll(x, 1) -> 2 -> to(cpu)\nB = A.over(f32[x=4])\n";
    std::fs::write(folder.join("a.txt"), script).unwrap();
    let args = ["run", "a.txt", "--on", "cuda:0", "--format", "json"];
    assert_eq!(
        told(&on_software(&folder, &args))["result"],
        json!([[8.0, 0.0], [2.0, 0.0], [4.0, 0.0], [6.0, 0.0]])
    );
}

/// What elements go around by is no length: it may be more than any dimension is long.
#[test]
fn elements_roll_by_any_number() {
    let folder = folder("operator-roll");
    for (by, expected) in [("5000000", [2.0, 3.0, 1.0]), ("-5000000", [3.0, 1.0, 2.0])] {
        let script = format!("operator\ninput [1, 2, 3]\nA = roll(x, {by}).over(f64[x=3])\n");
        std::fs::write(folder.join("a.txt"), script).unwrap();
        let operator = told(&spanlift(&folder, &["run", "a.txt", "--on", "cpu", "--format", "json"]));
        assert_eq!(operator["result"], json!(expected.map(|y| [y, 0.0])), "{by}");
    }
}

#[test]
fn json_is_taken_as_well() {
    let folder = folder("operator-json");
    let w = Tensor::new([("m", 2), ("n", 3)], (1..=6).map(f64::from)).unwrap();
    let line = Space::new([("n", 3)], Dtype::F64).unwrap();
    let a: Operator =
        chain![to(cuda(0)), Operator::from(Dense::new(line.on(cuda(0)), &w, ["m"]).unwrap()), to(cpu())]
            .unwrap();
    let plan = Planning::new().cap(cuda(0), Bytes(100)).plan(&a).unwrap();
    std::fs::write(folder.join("a.json"), a.to_json(Weights::Inline).unwrap()).unwrap();
    std::fs::write(folder.join("plan.json"), plan.to_json(Weights::Inline).unwrap()).unwrap();
    for file in ["a.json", "plan.json"] {
        let operator = told(&spanlift(&folder, &["run", file, "--on", "cpu", "--format", "json"]));
        assert_eq!(operator["result"], json!([[6.0, 0.0], [15.0, 0.0]]), "{file}");
        let checked = spanlift(&folder, &["check", file]);
        assert_eq!(checked.code, 0, "{}", checked.err);
        assert!(checked.out.starts_with("safe: "), "{}", checked.out);
    }
}

#[test]
fn every_one_that_ships_is_shown_and_safe_but_the_one_that_forgets_a_transfer() {
    let folder = folder("operators");
    for shipped in OPERATORS {
        std::fs::write(folder.join("a.txt"), shipped.text).unwrap();
        let checked = spanlift(&folder, &["check", "a.txt"]);
        let viewed = spanlift(&folder, &["view", "a.txt", "-o", "a.html", "--format", "json"]);
        if shipped.name == "operators/missing-transfer" {
            let expected = "error: a.txt: line 5, column ";
            for refused in [checked, viewed] {
                assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
                assert!(
                    refused.err.starts_with(expected) && refused.err.lines().count() == 1,
                    "{}",
                    refused.err
                );
                assert!(refused.err.contains("`W` expects f64[x]@cuda:0"), "{}", refused.err);
            }
            continue;
        }
        assert!(checked.code == 0 && checked.out.starts_with("safe: "), "{}: {}", shipped.name, checked.out);
        assert_eq!((viewed.code, viewed.err.as_str()), (0, ""), "{}", shipped.name);
        let object: Value = serde_json::from_str(&viewed.out).unwrap();
        assert_eq!(object["files"][0]["kind"], "operator", "{}", shipped.name);
    }
}

#[test]
fn a_picture_and_a_sentence_say_the_formula() {
    let folder = folder("operator-picture");
    std::fs::write(folder.join("a.txt"), MATRIX).unwrap();
    let ran = spanlift(&folder, &["view", "a.txt", "-o", "a.svg"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let expected = "a.txt: T(cuda:0->cpu) · W · T(cpu->cuda:0) : f64[n]@cpu -> f64[m]@cpu; ";
    assert!(ran.out.starts_with(expected), "{}", ran.out);
    let svg = std::fs::read_to_string(folder.join("a.svg")).unwrap();
    assert!(svg.contains("cpu-to-cuda0"), "{svg}");
}

#[test]
fn what_is_wrong_is_one_line_with_its_place() {
    let folder = folder("operator-wrong");
    for (text, expected) in [
        ("operator\n", "error: a.txt: line "),
        ("operator\nA = to(cuda:0\n", "error: a.txt: line "),
        ("operator\nA = nonsense(x)\n", "error: a.txt: line 2, column 5: "),
        ("{\"operator\": 1}", "error: a.txt: schema_version: "),
        ("operator\nA = identity.over(f64[x=0])\n", "error: a.txt: "),
        // What is the last dimension lies inside of the windows.
        (
            "operator\nA = unblocks(x=[5, 3, 2]).over(f64[x=2, x1=3])\n",
            "error: a.txt: line 2, column 5: `Unblocks(x:3/2)`: f64[x,x1]@cpu has no `x1` that counts windows of `x` in front of \
             their elements",
        ),
    ] {
        std::fs::write(folder.join("a.txt"), text).unwrap();
        for verb in ["check", "run", "view"] {
            let ran = spanlift(&folder, &[verb, "a.txt"]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{text:?} {}", ran.err);
            assert!(ran.err.starts_with(expected) && ran.err.lines().count() == 1, "{text:?}: {}", ran.err);
        }
    }
}

/// Large programs are checked as they are read; an operator is planned as a whole, however long its text is.
#[test]
fn a_large_file_with_an_operator_is_checked() {
    let folder = folder("operator-large");
    let comment = format!("# {}\n", "x".repeat(16 << 20));
    std::fs::write(folder.join("a.txt"), format!("{MATRIX}{comment}")).unwrap();
    let checked = spanlift(&folder, &["check", "a.txt"]);
    assert!(checked.code == 0 && checked.out.starts_with("safe: "), "{} {}", checked.out, checked.err);
    std::fs::write(folder.join("a.txt"), format!("{MATRIX}{comment}B = ftt(x)\n")).unwrap();
    let checked = spanlift(&folder, &["check", "a.txt"]);
    assert_eq!(checked.err, "error: a.txt: line 8, column 5: `ftt` is no function; did you mean `fft`?\n");
    assert_eq!(checked.code, 2);
}

/// Without an input nothing is computed: the command does not end as if it were.
#[test]
fn what_has_no_input_is_not_run() {
    let folder = folder("operator-unfed");
    // One element more than a default input has.
    std::fs::write(folder.join("a.txt"), "operator\nA = flip(x).over(f64[x=1048577])\n").unwrap();
    let why = "not applied here: its domain is too large for an input that nobody gave";
    let ran = spanlift(&folder, &["run", "a.txt"]);
    assert!(ran.code == 0 && ran.out.contains(why), "{}", ran.out);
    let ran = spanlift(&folder, &["run", "a.txt", "--on", "cpu"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err), (2, "", format!("error: a.txt: {why}\n")));
}

/// Lists of values end, and say how long they would be.
#[test]
fn lists_in_json_say_how_many_values_there_are() {
    let folder = folder("operator-listed");
    std::fs::write(folder.join("a.txt"), "operator\nA = slice(x, 0..4097).over(f64[x=5000])\n").unwrap();
    let operator = told(&spanlift(&folder, &["run", "a.txt", "--format", "json"]));
    for (list, n) in [("input", 5000), ("result", 4097)] {
        assert_eq!(operator[format!("n_{list}")], n);
        assert_eq!(operator[list].as_array().unwrap().len(), 4096);
    }
}

/// A convolution needs its vectors and no list of its products, of which there are 44 million here.
#[test]
fn a_convolution_takes_no_memory_for_its_products() {
    let folder = folder("operator-taps");
    let text = "operator\nA = convolution([y=13, x=13], random(1)).over(f32[y=512, x=512])\n";
    std::fs::write(folder.join("a.txt"), text).unwrap();
    let convolve = |on: &str| {
        let Watched { ran, peak_kib, .. } = watched(&folder, &["run", "a.txt", "--on", on], 2048);
        assert!(ran.code == 0 && ran.out.contains("y = A x = "), "{} {}", ran.out, ran.err);
        assert!(peak_kib <= 200 << 10, "{peak_kib} KiB on {on}");
    };
    convolve("sim");
    convolve("cpu");
}

/// What is long without costing an operation is not made to be shown.
#[test]
fn a_result_that_no_memory_holds_is_not_made() {
    let folder = folder("operator-long");
    for lines in [
        "A = zero(f64[x=2], f64[y=4000000, z=4000])",
        "A = (repeat(r, 4194304) -> sum_reduce(r)).over(f64[x=4, y=1000])",
    ] {
        std::fs::write(folder.join("a.txt"), format!("operator\n{lines}\n")).unwrap();
        let ran = spanlift(&folder, &["run", "a.txt"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{lines}");
        assert!(ran.out.contains("not applied here: a vector has 16,"), "{}", ran.out);
        let operator = told(&spanlift(&folder, &["run", "a.txt", "--format", "json"]));
        assert_eq!(operator["result"], Value::Null, "{lines}");
        let ran = spanlift(&folder, &["run", "a.txt", "--on", "cpu"]);
        assert!(ran.code == 2 && ran.err.lines().count() == 1, "{} {}", ran.code, ran.err);
        assert!(ran.err.starts_with("error: a.txt: not applied here: a vector has 16,"), "{}", ran.err);
    }
}
