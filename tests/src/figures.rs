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
        "many of 4 MB from pageable memory, by blocking calls",
        &[("h2d.1000x4MB.pageable.non_blocking", "with `non_blocking`")],
    ),
    ("h2d.1000x4MB.pinned.non_blocking", "many of 4 MB from page-locked memory, with `non_blocking`", &[]),
    ("h2d.1000x4MB.dict.pin_threads4", "a dictionary of many of 4 MB, on four threads", &[]),
    (
        "d2h.800MB.pageable_fresh",
        "800 MB to the host, into fresh memory",
        &[
            ("d2h.800MB.pageable_reused", "into memory in use"),
            ("d2h.800MB.pinned_alloc", "into page-locked memory"),
        ],
    ),
    ("pipe.A.s4", "in, kernel, out: strategy A, a stream for each item", &[]),
    ("pipe.B.k3", "in, kernel, out: strategy B, one for each stage, slots used in turn", &[]),
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

/// The column of one device beside PyTorch: its name and day, a cell for each row of [`rows`], and the files.
struct Column {
    day: String,
    cells: Vec<String>,
}

/// The rows of every device's column: the id of the ratio and its words, those of PyTorch's stronger forms set in.
fn rows() -> impl Iterator<Item = (&'static str, String)> {
    BESIDE.iter().flat_map(|(id, words, forms)| {
        let forms = forms.iter().map(|(id, words)| (*id, format!("&emsp;{words}")));
        std::iter::once((*id, (*words).to_owned())).chain(forms)
    })
}

/// What was found on one device: what took how much of PyTorch's time, and how near the simulator came.
/// `stronger` are rows of PyTorch's other forms, which a run of its own compared; `simulated` is what the simulator makes of
/// the profile since, which needs no device.
fn column(name: &str, found: &Value, simulated: Option<&Value>, stronger: Option<&Value>) -> Option<Column> {
    let gpu = found["devices"][0]["name"].as_str()?;
    // One part by itself adds rows to another file's, which has the machine's column.
    let is_whole = found["parts"].as_object().is_some_and(|parts| parts.len() > 1);
    if found["times_mean_something"] != true || !is_whole {
        return None;
    }
    let ratio = |of: &Value, id: &str| {
        let ratios = of["parts"]["torch"]["ratios"].as_array()?;
        ratios.iter().find(|row| row["id"] == id)?["ratio"].as_f64()
    };
    let simulator = simulated.unwrap_or(&found["parts"]["simulator"]["found"]);
    let near = || {
        let (near, of) = (simulator["n_within_aim"].as_u64()?, simulator["n_compared"].as_u64()?);
        Some(format!("{near} of {of} within {:.0} %", simulator["aim"].as_f64()? * 100.0))
    };
    let link = |words: &str, name: &str| format!("[{words}](native/measured/{name})");
    let told = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let day = found["date"].as_str().and_then(|date| date.get(..10)).unwrap_or_default().to_owned();
    let mut cells = vec![format!("{gpu}<br>{day}")];
    cells.extend(rows().map(|(id, _)| {
        let ratio = ratio(found, id).or_else(|| ratio(stronger?, id));
        told(ratio.map(|ratio| format!("{ratio:.2}")))
    }));
    cells.push(told(near()));
    let more = stronger.map(|_| format!(", {}", link("stronger forms", &of_stronger(name))));
    cells.push(link("all rows", name) + &more.unwrap_or_default());
    Some(Column { day, cells })
}

/// The table of what was measured beside PyTorch, a column for each device, the newest first.
fn beside_pytorch(mut columns: Vec<Column>) -> String {
    if columns.is_empty() {
        return "\nTransfers to a GPU are not yet measured beside PyTorch.\n".to_owned();
    }
    columns.sort_by(|a, b| b.day.cmp(&a.day).then_with(|| a.cells.cmp(&b.cells)));
    let mut lines = vec!["transfers to a GPU, time over PyTorch's in the same run".to_owned()];
    lines.extend(rows().map(|(_, words)| words));
    lines.push("PyTorch's rows as the simulator has them".to_owned());
    lines.push("files".to_owned());
    let mut text = "\n".to_owned();
    for (k, line) in lines.iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|column| column.cells[k].as_str()).collect();
        text += &format!("| {line} | {} |\n", cells.join(" | "));
        if k == 0 {
            text += &format!("|---|{}\n", "---:|".repeat(cells.len()));
        }
    }
    text
}

/// The name of the file of PyTorch's stronger forms beside that of a device.
fn of_stronger(name: &str) -> String {
    format!("{}-stronger.json", name.strip_suffix(".json").unwrap_or(name))
}

/// The table with its numbers from `files`, and the one beside PyTorch with those from `devices`, both by name.
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
    let column = |(name, found): (&String, &Value)| {
        column(name, found, simulated(name), devices.get(&of_stronger(name)))
    };
    Ok(text + &beside_pytorch(devices.iter().filter_map(column).collect()))
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

    /// The table of these files of `native/measured/`.
    fn told(files: &[(&str, &Value)]) -> String {
        let files: BTreeMap<String, Value> =
            files.iter().map(|(name, found)| ((*name).to_owned(), (*found).clone())).collect();
        let column = |(name, found): (&String, &Value)| {
            let anew = files.get(&format!("simulator-{name}"));
            column(name, found, anew, files.get(&of_stronger(name)))
        };
        beside_pytorch(files.iter().filter_map(column).collect())
    }

    #[test]
    fn devices_have_columns_where_something_was_measured() {
        let ratio = |id: &str, ratio: f64| serde_json::json!({"id": id, "status": "ok", "ratio": ratio});
        let found = |gpu: &str, date: &str, parts: Value| {
            let devices = serde_json::json!([{"name": gpu}]);
            serde_json::json!({"devices": devices, "date": date, "times_mean_something": true, "parts": parts})
        };
        let first = found(
            "Stand-in 9000",
            "2031-05-06T07:08:09+00:00",
            serde_json::json!({
                "torch": {"ratios": [ratio("h2d.1000x4KB.blocking", 0.043), ratio("no row", 1.0), ratio("h2d.1x4MB.pageable", 0.3)]},
                "simulator": {"found": {"n_within_aim": 14, "n_compared": 16, "aim": 0.15}},
            }),
        );
        let table = told(&[("a.json", &first)]);
        let has = |table: &str, line: &str| assert!(table.lines().any(|l| l == line), "{line}\nin\n{table}");
        has(
            &table,
            "| transfers to a GPU, time over PyTorch's in the same run | Stand-in 9000<br>2031-05-06 |",
        );
        has(&table, "|---|---:|");
        has(&table, "| a pageable tensor of 4 MB by `.to()` | 0.30 |");
        has(&table, "| 1,000 of 4 KB by as many calls | 0.04 |");
        has(&table, "| &emsp;packed into a page-locked one | - |");
        has(&table, "| PyTorch's rows as the simulator has them | 14 of 16 within 15 % |");
        has(&table, "| files | [all rows](native/measured/a.json) |");

        // The newest first; what another file says of the same card stands in its column.
        let anew = serde_json::json!({"n_within_aim": 15, "n_compared": 16, "aim": 0.15});
        let stronger = serde_json::json!({"parts": {"torch": {"ratios": [
            ratio("h2d.1000x4KB.pinned_pack", 0.15), ratio("h2d.1x4MB.pageable", 0.9),
        ]}}});
        let parts = serde_json::json!({"conformance": {"state": "right"}, "torch": {"state": "left out"}});
        let second = found("Later", "2031-05-07T00:00:00+00:00", parts);
        let files = [
            ("a.json", &first),
            ("a-stronger.json", &stronger),
            ("b.json", &second),
            ("simulator-a.json", &anew),
        ];
        let table = told(&files);
        has(&table, "| &emsp;packed into a page-locked one | - | 0.15 |");
        has(&table, "| a pageable tensor of 4 MB by `.to()` | - | 0.30 |");
        has(&table, "| PyTorch's rows as the simulator has them | - | 15 of 16 within 15 % |");
        has(
            &table,
            "| files | [all rows](native/measured/b.json) | [all rows](native/measured/a.json), \
             [stronger forms](native/measured/a-stronger.json) |",
        );

        let mut part = first.clone();
        part["parts"] = serde_json::json!({"torch": {"state": "right"}});
        let mut little = first.clone();
        little["times_mean_something"] = false.into();
        for no_measurement in [part, little] {
            let none = told(&[("a.json", &no_measurement)]);
            assert_eq!(none, "\nTransfers to a GPU are not yet measured beside PyTorch.\n");
        }
    }

    #[test]
    fn the_table_has_its_place() {
        let readme = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(put(&readme, "new\n"), Some(format!("a\n{BEGIN}new\n{END}b\n")));
        assert_eq!(put("a\n", "new\n"), None);
    }
}
