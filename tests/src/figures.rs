//! The table of figures in the README: every number is read from a file of `tests/measured/`, or of `native/measured/` where
//! `native/gpu-check` ran on a device; none is written by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use serde_json::Value;

/// Where the README has the table.
const BEGIN: &str = "<!-- figures: cargo run -p spanlift-tests --bin curves -- readme -->\n";
const END: &str = "<!-- end of the figures -->\n";

/// The table; `{file;pointer;factor;decimals}` is the number of that file at that JSON pointer, times the factor.
const TABLE: &str = "\
| what | measured | files in [`tests/measured/`](tests/measured/README.md) |
|---|---|---|
| finds the races that CUDA's documentation allows, no more and no fewer | the same list as the transitive closure on {closure.json;/programs;1;0} random programs ({closure.json;/differences;1;0} differences); {mutants.json;/n_killed;1;0} of {mutants.json;/n_mutants;1;0} faults planted in the checker noticed | `closure.json`, `mutants.json` |
| checks | {bench.json;/commands/spanlift bench check --format json/0/value;1e-6;1} million commands/s with exact bytes, held in memory; a text file of {check.json;/file_10_million/commands;1e-6;0} million commands, checked as it is read, in {check.json;/file_10_million/wall_s;1;1} s and {check.json;/file_10_million/max_rss_kib;0.0009765625;0} MiB of memory | `bench.json`, `check.json` |
| simulates | {bench.json;/commands/spanlift bench sim --format json/0/value;1e-6;1} million events/s natively, {sim.json;/wasm/rows/2/events_per_s;1e-6;1} million in WebAssembly | `bench.json`, `sim.json` |
| decides whether strided views share a byte, exactly | times as fast as NumPy's `shares_memory`, less the time of Python's call: {memory.json;/overlap/kinds/any/numpy_without_call_over_ours;1;1} (any views), {memory.json;/overlap/kinds/odd/numpy_without_call_over_ours;1;1} (odd ones), {memory.json;/overlap/kinds/hard/numpy_without_call_over_ours;1;1} (hard ones), {memory.json;/overlap/kinds/ranges/numpy_without_call_over_ours;1;1} (ranges); where a look at the ends is enough, NumPy takes no more than that call | `memory.json` |
| describes and moves layouts, keeping aliasing | {memory.json;/whole_command/tensors;1;0} tensors over {memory.json;/whole_command/storages;1;0} storages from file to plan in {memory.json;/whole_command/processor_seconds;1;2} s of processor time | `memory.json` |
| reads traces, with every figure and finding | {trace.json;/files/0/bytes;1e-6;0} MB in {trace.json;/files/0/cpu_s;1;3} s of processor time; HolisticTraceAnalysis takes {trace.json;/beside/2/cpu_s;1;1} s for one of its figures, Python's `json.load` alone {trace.json;/beside/0/cpu_s;1;2} s | `trace.json` |
| opens traces in the page | {viewer.json;/files/0/bytes;1e-6;0} MB in {viewer.json;/files/0/spanlift/first_paint_s;1;2} s and {viewer.json;/files/2/bytes;1e-6;0} MB in {viewer.json;/files/2/spanlift/first_paint_s;1;1} s, without a GPU; Perfetto in the same run {viewer.json;/files/0/perfetto/first_paint_s;1;1} and {viewer.json;/files/2/perfetto/first_paint_s;1;1} s | `viewer.json` |
| applies operators | a chain of ten on 16 elements in {operators.json;/goals/P1 chain of ten, n = 16: at most 80 ns and 0.7 x faer/ns;1;0} ns: {operators.json;/goals/P1 chain of ten, n = 16: at most 80 ns and 0.7 x faer/over_faer;1;2} of faer's time, {operators.json;/goals/over 100 x faster per apply than SciPy, PyLops, SigPy, n = 16/times_faster/scipy;1;0} times as fast as SciPy, {operators.json;/goals/over 100 x faster per apply than SciPy, PyLops, SigPy, n = 16/times_faster/pylops;1;0} as PyLops, {operators.json;/goals/over 100 x faster per apply than SciPy, PyLops, SigPy, n = 16/times_faster/sigpy;1;0} as SigPy | `operators.json` |
| solves | a step of conjugate gradients on 1,024 unknowns in {operators.json;/rows/cg n=1024 k=20/ns/spanlift;1e-3;2} µs: {operators.json;/rows/cg n=1024 k=20/spanlift_over_faer;1;2} of faer's time, {operators.json;/rows/cg n=1024 k=20/spanlift_over_scipy;1;2} of SciPy's | `operators.json` |
";

/// Rows beside PyTorch that the table tells, in words, and those of PyTorch's stronger forms of the same work.
type Beside = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
const BESIDE: [Beside; 8] = [
    (
        "h2d.1x4MB.pageable",
        "a pageable tensor of 4 MB by `.to()`",
        &[("h2d.1x4MB.staged.prealloc", "through a page-locked tensor that it keeps")],
    ),
    (
        "h2d.1000x4KB.blocking",
        "1,000 of 4 KB by as many calls",
        &[
            ("h2d.1000x4KB.cat", "put together by `cat`"),
            ("h2d.1000x4KB.pinned_pack", "packed into a page-locked one"),
        ],
    ),
    (
        "h2d.1000x4MB.pageable.blocking",
        "many of 4 MB",
        &[("h2d.1000x4MB.pageable.non_blocking", "with `non_blocking`")],
    ),
    ("h2d.1000x4MB.pinned.non_blocking", "many pinned ones", &[]),
    ("h2d.1000x4MB.dict.pin_threads4", "a dictionary of many, on four threads", &[]),
    (
        "d2h.800MB.pageable_fresh",
        "800 MB home to fresh memory",
        &[
            ("d2h.800MB.pageable_reused", "to memory in use"),
            ("d2h.800MB.pinned_alloc", "to page-locked memory"),
        ],
    ),
    ("pipe.A.s4", "strategy A, a stream for each item", &[]),
    ("pipe.B.k3", "strategy B, one for each stage, with slots used in turn", &[]),
];

/// The files that the table names.
pub fn files() -> Vec<String> {
    let mut names: Vec<String> =
        cells().map(|cell| cell.split(';').next().unwrap_or_default().to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn cells() -> impl Iterator<Item = &'static str> {
    TABLE.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// What was found on devices, by the names of the files in this folder: none where it is not there.
///
/// # Errors
/// A file that cannot be read.
pub fn devices(folder: &Path) -> io::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.insert(name, serde_json::from_slice(&fs::read(&path)?)?);
        }
    }
    Ok(found)
}

/// The row of one device: what took how much of PyTorch's time, and how near the simulator came.
/// `stronger` are the same rows in PyTorch's other forms, which a run of its own compared.
fn device(name: &str, found: &Value, simulated: Option<&Value>, stronger: Option<&Value>) -> Option<String> {
    let gpu = found["devices"][0]["name"].as_str()?;
    // One part by itself adds rows to another file's, which has the machine's row.
    let is_whole = found["parts"].as_object().is_some_and(|parts| parts.len() > 1);
    if found["times_mean_something"] != true || !is_whole {
        return None;
    }
    let ratio = |of: &Value, id: &str| {
        let ratios = of["parts"]["torch"]["ratios"].as_array()?;
        ratios.iter().find(|row| row["id"] == id)?["ratio"].as_f64()
    };
    let form = |(id, words): &(&str, &str)| {
        let ratio = ratio(found, id).or_else(|| ratio(stronger?, id))?;
        Some(format!("{words} {ratio:.2}"))
    };
    let one = |(id, words, forms): &Beside| {
        let told = form(&(*id, *words))?;
        let forms: Vec<String> = forms.iter().filter_map(form).collect();
        Some(if forms.is_empty() { told } else { format!("{told} ({})", forms.join(", ")) })
    };
    let mut told: Vec<String> = BESIDE.iter().filter_map(one).collect();
    match told.first_mut() {
        Some(first) => {
            first.insert_str(0, "of PyTorch's time in the same run, in brackets of its stronger forms': ");
        }
        None => told.push("not measured beside PyTorch".to_owned()),
    }
    // A profile can be simulated anew where there is no device.
    let simulator = simulated.unwrap_or(&found["parts"]["simulator"]["found"]);
    if let (Some(near), Some(of), Some(aim)) =
        (simulator["n_within_aim"].as_u64(), simulator["n_compared"].as_u64(), simulator["aim"].as_f64())
    {
        told.push(format!("{near} of {of} rows simulated within {:.0} %", aim * 100.0));
    }
    let link = |name: &str| format!("[`{name}`](native/measured/{name})");
    let file = match stronger {
        Some(_) => format!("{}, {}", link(name), link(&of_stronger(name))),
        None => link(name),
    };
    Some(format!("| transfers to a GPU, {gpu} | {} | {file} |\n", told.join("; ")))
}

/// The name of the file of PyTorch's stronger forms beside that of a device.
fn of_stronger(name: &str) -> String {
    format!("{}-stronger.json", name.strip_suffix(".json").unwrap_or(name))
}

/// The table with its numbers from `files` and its last rows from `devices`, both by name.
///
/// # Errors
/// The number that is not where the table says.
pub fn table(files: &BTreeMap<String, Value>, devices: &BTreeMap<String, Value>) -> Result<String, String> {
    let mut text = TABLE.to_owned();
    for cell in cells() {
        let number = cell_value(cell, files).ok_or_else(|| format!("there is no number at {cell:?}"))?;
        text = text.replacen(&format!("{{{cell}}}"), &number, 1);
    }
    let simulated = |name: &str| devices.get(&format!("simulator-{name}"));
    let row = |(name, found): (&String, &Value)| {
        device(name, found, simulated(name), devices.get(&of_stronger(name)))
    };
    let rows: String = devices.iter().filter_map(row).collect();
    Ok(text + if rows.is_empty() { "| transfers to a GPU | not yet measured | - |\n" } else { &rows })
}

fn cell_value(cell: &str, files: &BTreeMap<String, Value>) -> Option<String> {
    let mut parts = cell.split(';');
    let (file, pointer) = (parts.next()?, parts.next()?);
    let (factor, decimals): (f64, usize) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let value = files.get(file)?.pointer(pointer)?.as_f64()?;
    let text = format!("{:.decimals$}", value * factor);
    let (whole, part) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (k, digit) in whole.chars().enumerate() {
        if k > 0 && (whole.len() - k).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    Some(grouped + part)
}

/// The README with this table in the place of the one it has; `None` where it has no place for it.
pub fn put(readme: &str, table: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_scaled_and_grouped() {
        let files = BTreeMap::from([("a.json".to_owned(), serde_json::json!({"x": [1_234_567.0, 0.25]}))]);
        let of = |cell: &str| cell_value(cell, &files);
        assert_eq!(of("a.json;/x/0;1;0").as_deref(), Some("1,234,567"));
        assert_eq!(of("a.json;/x/0;1e-6;1").as_deref(), Some("1.2"));
        assert_eq!(of("a.json;/x/1;1;2").as_deref(), Some("0.25"));
        assert_eq!((of("a.json;/y;1;0"), of("b.json;/x;1;0"), of("a.json;/x/0;1")), (None, None, None));
        assert!(table(&files, &BTreeMap::new()).is_err());
    }

    #[test]
    fn devices_have_rows_where_something_was_measured() {
        let ratio = |id: &str, ratio: f64| serde_json::json!({"id": id, "status": "ok", "ratio": ratio});
        let mut found = serde_json::json!({
            "devices": [{"name": "Stand-in 9000"}], "times_mean_something": true, "parts": {
                "torch": {"ratios": [ratio("h2d.1000x4KB.blocking", 0.043), ratio("no row", 1.0), ratio("h2d.1x4MB.pageable", 0.3)]},
                "simulator": {"found": {"n_within_aim": 14, "n_compared": 16, "aim": 0.15}},
            },
        });
        let said = "of PyTorch's time in the same run, in brackets of its stronger forms': a pageable tensor of 4 MB by \
                    `.to()` 0.30; 1,000 of 4 KB by as many calls 0.04; 14 of 16 rows simulated within 15 %";
        let row = |said: &str| {
            Some(format!(
                "| transfers to a GPU, Stand-in 9000 | {said} | [`a.json`](native/measured/a.json) |\n"
            ))
        };
        assert_eq!(device("a.json", &found, None, None), row(said));
        let anew = serde_json::json!({"n_within_aim": 15, "n_compared": 16, "aim": 0.15});
        assert_eq!(device("a.json", &found, Some(&anew), None), row(&said.replace("14 of", "15 of")));
        let stronger =
            serde_json::json!({"parts": {"torch": {"ratios": [ratio("h2d.1000x4KB.pinned_pack", 0.15)]}}});
        let files =
            BTreeMap::from([("a.json".to_owned(), found.clone()), ("a-stronger.json".to_owned(), stronger)]);
        let told = device("a.json", &found, None, files.get(&of_stronger("a.json"))).unwrap_or_default();
        assert!(told.contains("as many calls 0.04 (packed into a page-locked one 0.15); 14 of"), "{told}");
        assert!(
            told.ends_with(
                "(native/measured/a.json), [`a-stronger.json`](native/measured/a-stronger.json) |\n"
            ),
            "{told}"
        );
        found["parts"] = serde_json::json!({"torch": {"state": "right"}});
        assert_eq!(device("a.json", &found, None, None), None, "rows of another file's machine");
        found["parts"] =
            serde_json::json!({"conformance": {"state": "right"}, "torch": {"state": "left out"}});
        assert!(
            device("a.json", &found, None, None)
                .is_some_and(|row| row.contains("| not measured beside PyTorch |"))
        );
        found["times_mean_something"] = false.into();
        assert_eq!(device("a.json", &found, None, None), None, "a little of everything is no measurement");
    }

    #[test]
    fn the_table_has_its_place() {
        let readme = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(put(&readme, "new\n"), Some(format!("a\n{BEGIN}new\n{END}b\n")));
        assert_eq!(put("a\n", "new\n"), None);
    }
}
