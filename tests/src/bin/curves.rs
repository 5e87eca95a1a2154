//! Puts what criterion measured into `tests/measured/`, as data and as pictures:
//!
//! ```sh
//! cargo bench -p spanlift --bench sim --bench check && cargo run -p spanlift-tests --bin curves
//! ```
//!
//! Reads `target/criterion`, writes the object `criterion` of `sim.json` and `check.json` and a bar chart beside each; what
//! else those files hold stays. `SPANLIFT_MEASURED` names another folder of such files; the README then stays as it is, and its
//! table is printed. With a word it does one other thing instead:
//!
//! | word | what |
//! |---|---|
//! | `trace` | draws `trace.json`, which `trace.py` there measures |
//! | `memory` | draws `memory.json`, which `tests/memory/measure.py` measures: overlap and move plans |
//! | `readme` | writes the table of figures into the README |

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::{Map, Value, json};
use spanlift_tests::figures;
use spanlift_viewer::bars::{BarChart, Cluster, Entry};
use spanlift_viewer::{Theme, bars_svg};

/// One benchmark: group, what in it, elements in a second with its range.
struct Measured {
    group: String,
    name: String,
    per_s: f64,
    range_per_s: [f64; 2],
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let usual = root.join("tests/measured");
    let measured = env::var_os("SPANLIFT_MEASURED").map_or_else(|| usual.clone(), PathBuf::from);
    match env::args().nth(1).as_deref() {
        None => put_criterion(&root, &measured),
        Some("trace") => draw_trace(&measured),
        Some("memory") => draw_memory(&measured),
        Some("readme") if measured.canonicalize()? != usual.canonicalize()? => {
            Ok(std::io::stdout().write_all(table(&root, &measured)?.as_bytes())?)
        }
        Some("readme") => put_readme(&root, &measured),
        Some(word) => Err(format!("no word of this command: {word:?}; trace, memory or readme").into()),
    }
}

fn put_criterion(root: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut all = Vec::new();
    collect(&target.join("criterion"), &mut all)?;
    let of = |groups: &[&str]| all.iter().filter(|m| groups.contains(&m.group.as_str())).collect::<Vec<_>>();
    let events = (
        "sim",
        "cargo bench -p spanlift --bench sim",
        "events of the simulator, commands x streams",
        "M events/s",
    );
    let ops = ("check", "cargo bench -p spanlift --bench check", "commands of the checker", "M commands/s");
    put(folder, events, &of(&["sim"]))?;
    put(folder, ops, &of(&["length", "streams", "read"]))?;
    Ok(())
}

/// The table of figures, with what was found on devices.
fn table(root: &Path, folder: &Path) -> Result<String, Box<dyn Error>> {
    let mut files = BTreeMap::new();
    for name in figures::files() {
        let bytes = fs::read(folder.join(&name))?;
        files.insert(name, serde_json::from_slice(&bytes)?);
    }
    Ok(figures::table(&files, &figures::devices(&root.join("native/measured"))?)?)
}

/// Writes the table of figures into the README.
fn put_readme(root: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let readme = fs::read_to_string(root.join("README.md"))?;
    let readme = figures::put(&readme, &table(root, folder)?).ok_or("the README has no place for figures")?;
    Ok(fs::write(root.join("README.md"), readme)?)
}

/// Draws how long an overlap test takes beside NumPy's, and what a report and a move plan take by the number of tensors.
fn draw_memory(folder: &Path) -> Result<(), Box<dyn Error>> {
    let data: Map<String, Value> = serde_json::from_slice(&fs::read(folder.join("memory.json"))?)?;
    let rows = |pointer: &str| -> Result<Map<String, Value>, Box<dyn Error>> {
        let object = Value::Object(data.clone()).pointer(pointer).and_then(Value::as_object).cloned();
        object.ok_or_else(|| format!("memory.json has no {pointer}").into())
    };
    let values = |row: &Value, keys: [&str; 2], factor: f64| -> Result<Vec<f64>, Box<dyn Error>> {
        let value =
            |key| row[key].as_f64().map(|v| v * factor).ok_or_else(|| format!("no {key} in {row}").into());
        keys.into_iter().map(value).collect()
    };
    let mut overlap = Vec::new();
    for (kind, row) in rows("/overlap/kinds")? {
        let values = values(&row, ["ours_ns_per_pair", "numpy_ns_per_pair"], 1e-3)?;
        let note = format!("{:.1} x", values[1] / values[0]);
        overlap.push(Entry { label: kind, values, note });
    }
    overlap.sort_by(|a, b| a.values[0].total_cmp(&b.values[0]));
    let mut layouts: Vec<(u64, Entry)> = Vec::new();
    for (tensors, row) in rows("/layouts/tensors")? {
        let n: u64 = tensors.parse()?;
        let values = values(&row, ["report_s", "plan_s"], 1e3)?;
        layouts.push((n, Entry { label: format!("{n} tensors"), values, note: String::new() }));
    }
    layouts.sort_by_key(|(n, _)| *n);
    let chart = |title: &str, unit: &str, series: [&str; 2], entries: Vec<Entry>| BarChart {
        title: title.to_owned(),
        unit: unit.to_owned(),
        series: series.map(str::to_owned).into(),
        clusters: vec![Cluster { label: String::new(), entries }],
        is_log: true,
    };
    let series = ["spanlift", "NumPy's shares_memory, with Python's call"];
    let overlap = chart("whether two views share a byte, a pair, by kind of views", "µs", series, overlap);
    let layouts = layouts.into_iter().map(|(_, entry)| entry).collect();
    let moves = chart("layouts of ten views for each storage", "ms", ["report", "move plan"], layouts);
    for (name, chart) in [("overlap.svg", overlap), ("moves.svg", moves)] {
        fs::write(folder.join(name), bars_svg(&chart, 720.0, &Theme::LIGHT))?;
        writeln!(std::io::stdout(), "{}", folder.join(name).display())?;
    }
    Ok(())
}

/// Draws the seconds of every reader of traces against the size of the file.
fn draw_trace(folder: &Path) -> Result<(), Box<dyn Error>> {
    let data: Value = serde_json::from_slice(&fs::read(folder.join("trace.json"))?)?;
    let rows = ["files", "beside"].into_iter().filter_map(|key| data[key].as_array()).flatten();
    let mut clusters: Vec<Cluster> = Vec::new();
    for row in rows {
        let (Some(what), Some(bytes), Some(cpu_s)) =
            (row["what"].as_str(), row["bytes"].as_f64(), row["cpu_s"].as_f64())
        else {
            return Err(format!("not a row of trace.json: {row}").into());
        };
        let is_ours = data["files"].as_array().is_some_and(|files| files.contains(row));
        let label = if is_ours { format!("spanlift, {what}") } else { what.to_owned() };
        let note = format!("{:.0} MB/s", bytes / cpu_s / 1e6);
        let entry = Entry { label: format!("{:.0} MB", bytes / 1e6), values: vec![cpu_s], note };
        match clusters.iter_mut().find(|cluster| cluster.label == label) {
            Some(cluster) => cluster.entries.push(entry),
            None => clusters.push(Cluster { label, entries: vec![entry] }),
        }
    }
    let chart = BarChart {
        title: "processor seconds to read a file, all figures and findings, by its size".to_owned(),
        unit: "s".to_owned(),
        series: Vec::new(),
        clusters,
        is_log: true,
    };
    fs::write(folder.join("trace.svg"), bars_svg(&chart, 720.0, &Theme::LIGHT))?;
    writeln!(std::io::stdout(), "{}", folder.join("trace.svg").display())?;
    Ok(())
}

/// Every benchmark below a folder.
fn collect(folder: &Path, all: &mut Vec<Measured>) -> Result<(), Box<dyn Error>> {
    let new = folder.join("new");
    if new.join("estimates.json").is_file() {
        let read = |name: &str| -> Result<Value, Box<dyn Error>> {
            Ok(serde_json::from_slice(&fs::read(new.join(name))?)?)
        };
        let (about, estimates) = (read("benchmark.json")?, read("estimates.json")?);
        let Some(n) = about["throughput"]["Elements"].as_f64() else { return Ok(()) };
        let per_s = |ns: &Value| ns.as_f64().map(|ns| n / ns * 1e9).ok_or("an estimate is missing");
        let median = &estimates["median"];
        let interval = &median["confidence_interval"];
        let parts = [&about["function_id"], &about["value_str"]];
        let name: Vec<&str> = parts.iter().filter_map(|part| part.as_str()).collect();
        all.push(Measured {
            group: about["group_id"].as_str().unwrap_or_default().to_owned(),
            name: name.join(" "),
            per_s: per_s(&median["point_estimate"])?,
            range_per_s: [per_s(&interval["upper_bound"])?, per_s(&interval["lower_bound"])?],
        });
        return Ok(());
    }
    let mut below: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    below.retain(|path| path.is_dir());
    below.sort();
    below.iter().try_for_each(|path| collect(path, all))
}

fn put(
    folder: &Path,
    (file, command, title, unit): (&str, &str, &str, &str),
    measured: &[&Measured],
) -> Result<(), Box<dyn Error>> {
    if measured.is_empty() {
        return Err(format!("no benchmark of {file} in target/criterion: run `{command}` first").into());
    }
    let path = folder.join(format!("{file}.json"));
    let mut data: Map<String, Value> = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(_) => Map::new(),
    };
    let figures = measured.iter().map(|m| {
        let [low, high] = m.range_per_s.map(f64::round);
        json!({"group": m.group, "name": m.name, "per_s": m.per_s.round(), "range_per_s": [low, high]})
    });
    let criterion = json!({
        "command": command, "unit": unit.trim_start_matches("M "), "machine": machine(), "date": date()?, "load_average": load(),
        "note": "medians with criterion's 95 % interval; the load is that of the machine after the run",
        "figures": figures.collect::<Vec<_>>(),
    });
    data.insert("criterion".to_owned(), criterion);
    fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&data)?))?;
    let mut clusters: BTreeMap<&str, Vec<Entry>> = BTreeMap::new();
    for m in measured {
        let entry = Entry { label: m.name.clone(), values: vec![m.per_s / 1e6], note: String::new() };
        clusters.entry(&m.group).or_default().push(entry);
    }
    // By the numbers in their names, as people read them.
    let numbers = |label: &str| -> Vec<u64> {
        label.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
    };
    for entries in clusters.values_mut() {
        entries.sort_by_key(|e| {
            let word =
                e.label.split_whitespace().next().filter(|w| !w.starts_with(|c: char| c.is_ascii_digit()));
            (word.map(str::to_owned), numbers(&e.label))
        });
    }
    let clusters = clusters.into_iter().map(|(label, entries)| Cluster { label: label.to_owned(), entries });
    let chart = BarChart {
        title: title.to_owned(),
        unit: unit.to_owned(),
        series: Vec::new(),
        clusters: clusters.collect(),
        is_log: false,
    };
    fs::write(folder.join(format!("{file}.svg")), bars_svg(&chart, 720.0, &Theme::LIGHT))?;
    writeln!(std::io::stdout(), "{}", path.display())?;
    Ok(())
}

/// The processor's name and how many cores there are.
fn machine() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", model.map_or("unknown processor", |(_, name)| name))
}

fn load() -> Value {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse::<f64>().ok()).map_or(Value::Null, Value::from)
}

fn date() -> Result<String, Box<dyn Error>> {
    let output = Command::new("date").args(["-u", "+%F"]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
