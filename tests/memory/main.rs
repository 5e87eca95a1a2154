//! Whether two views share memory: the same verdict as NumPy's exact `shares_memory`, pair by pair. Beside it, the answers
//! of whole layouts against a second implementation.
//!
//! Python with NumPy is named by the variable `SPANLIFT_PYTHON`, which `tests/run` sets; without it nothing is compared.

mod reference;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spanlift::memory::sample::Pair;
use spanlift::memory::{DEFAULT_LIMIT, Overlap};
use spanlift_tests::numpys_view;

/// Pairs of all kinds together; fewer of the kinds that leave little to decide.
const PAIRS: [(Pair, u64); 8] = [
    (Pair::Apart, 2_000),
    (Pair::Ranges, 4_000),
    (Pair::Columns, 10_000),
    (Pair::Blocks, 12_000),
    (Pair::Mixed, 12_000),
    (Pair::Any, 40_000),
    (Pair::Odd, 19_700),
    (Pair::Hard, 300),
];

/// Every how many pairs a wrong verdict is planted.
const PLANTED: usize = 997;

fn comparer(python: &Path) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/memory/shares.py");
    let mut command = Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Gives the lines to NumPy and reads what it says of them.
fn numpy_says(python: &Path, lines: &[u8]) -> Value {
    let mut child = comparer(python).spawn().unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let mut stdin = child.stdin.take().expect("piped");
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(lines).expect("the comparer reads all pairs"));
        let output = child.wait_with_output().expect("the comparer ends");
        assert!(output.status.success(), "the comparer failed: {}", output.status);
        serde_json::from_slice(&output.stdout).expect("the comparer prints JSON")
    })
}

#[test]
fn numpy_says_the_same_of_100_000_pairs() {
    let Some(python) = std::env::var_os("SPANLIFT_PYTHON").map(PathBuf::from) else {
        eprintln!("skipped: SPANLIFT_PYTHON names no Python with NumPy");
        return;
    };
    let pairs = PAIRS.iter().flat_map(|&(kind, n)| (0..n).map(move |seed| (kind, seed)));
    let pairs: Vec<(Pair, u64)> = pairs.collect();
    assert_eq!(pairs.len(), 100_000);
    let mut lines = Vec::new();
    let (mut planted, mut met) = (Vec::new(), 0);
    for (k, &(kind, seed)) in pairs.iter().enumerate() {
        let views = kind.views(seed);
        let [a, b] = views.each_ref().map(|v| v.span().unwrap_or_else(|e| panic!("{kind:?} {seed}: {e}")));
        let answer = a.overlaps(&b, DEFAULT_LIMIT);
        assert_ne!(answer, Overlap::May, "{kind:?} {seed}: {views:?}");
        assert_eq!(answer, b.overlaps(&a, DEFAULT_LIMIT), "{kind:?} {seed}: {views:?}");
        let shares = answer == Overlap::Yes;
        met += usize::from(shares);
        let told = if k % PLANTED == PLANTED - 1 {
            planted.push(k);
            !shares
        } else {
            shares
        };
        let [a, b] = views.each_ref().map(numpys_view);
        serde_json::to_writer(&mut lines, &json!([a, b, told])).expect("memory");
        lines.push(b'\n');
    }
    assert!((30_000..70_000).contains(&met), "{met} of 100,000 pairs meet: the cases are one-sided");
    let said = numpy_says(&python, &lines);
    let list = |key: &str| -> Vec<usize> { serde_json::from_value(said[key].clone()).expect("indices") };
    let (differ, too_hard) = (list("differ"), list("too_hard"));
    let name = |k: &usize| {
        let (kind, seed) = pairs[*k];
        format!("{kind:?} {seed}: {:?}", kind.views(seed))
    };
    let wrong: Vec<String> = differ.iter().filter(|k| !planted.contains(k)).take(10).map(name).collect();
    assert!(wrong.is_empty(), "NumPy says otherwise of {} pairs:\n{}", differ.len(), wrong.join("\n"));
    let unseen: Vec<&usize> =
        planted.iter().filter(|k| !differ.contains(k) && !too_hard.contains(k)).collect();
    assert!(unseen.is_empty(), "planted wrong verdicts went unseen: {unseen:?}");
    assert_eq!(said["pairs"], 100_000);
    assert!(too_hard.len() <= 200, "NumPy gave up {} pairs", too_hard.len());
    eprintln!(
        "NumPy {}: the same verdict on {} pairs, {met} of 100,000 meet; {} left out, which it gave up after {} steps",
        said["numpy"].as_str().unwrap_or("?"),
        100_000 - too_hard.len() - planted.len(),
        too_hard.len(),
        said["max_work"],
    );
}
