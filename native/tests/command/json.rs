//! What `--format json` prints: one line, whatever reads it, and no field that its guide does not have, nor the other way.
//! Names are those of one vocabulary, whose rules stand at the top of the guide.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use spanlift_softcuda::kit::object;

use crate::examples::stage;
use crate::kit::{binary, ran, spanlift};

/// The command's standard output as a terminal gets it; `None` without the system's `script`.
fn at_a_terminal(folder: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("script");
    let program = binary(folder).get_program().to_string_lossy().into_owned();
    let line = format!("{program} {}", args.join(" "));
    command.current_dir(folder).args(["-qc", &line, "/dev/null"]).env("TERM", "xterm");
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no script here");
        return None;
    }
    Some(ran(command, b"").out.replace('\r', ""))
}

/// Lines for people are cut between words at a terminal; JSON that is cut within a text is none.
#[test]
fn json_is_the_same_line_at_a_terminal() {
    let folder = stage("json-terminal");
    std::fs::write(folder.join("wrong.json"), r#"{"schema_version": 1, "ops": [{"op": "host_read", "span": {"buf": "a buffer that nobody has declared anywhere in this program", "off": 0, "len": 4}}]}"#).unwrap();
    for args in [
        &["check", "lesson1.txt"][..],
        &["check", "lesson1.txt", "--explain"],
        &["check", "wrong.json"],
        &["run", "lesson1.txt", "--replay", "-"],
        &["memory", "layout.json", "--to", "cuda:0"],
    ] {
        let args = [args, &["--format", "json"]].concat();
        let Some(shown) = at_a_terminal(&folder, &args) else { return };
        let printed = spanlift(&folder, &args);
        assert_eq!(printed.out.lines().count(), 1, "{args:?}: {}", printed.out);
        assert!(shown.contains(&printed.out), "{args:?}: {shown}");
    }
}

/// The steps to a value: names of fields, `[]` for the elements of a list.
type Steps = Vec<String>;

/// A field as a table of the guide has it; `*` stands for any name.
struct Row {
    section: String,
    field: String,
    steps: Steps,
    /// It is not always there.
    is_marked: bool,
    /// The section that has what is in it; `...` where that is described elsewhere.
    within: Option<String>,
    says: String,
}

/// A row where a section has it, or one that is named there.
struct Place {
    steps: Steps,
    row: usize,
    /// It is of one of several sections for one field, so that nothing of it needs to be there.
    is_either: bool,
}

fn steps(field: &str) -> Steps {
    let mut steps = Vec::new();
    for part in field.split('.') {
        let name = part.trim_end_matches("[]");
        steps.extend((!name.is_empty()).then(|| name.to_owned()));
        steps.extend(vec!["[]".to_owned(); (part.len() - name.len()) / 2]);
    }
    steps
}

/// As the guide writes them.
fn shown(steps: &[String]) -> String {
    steps.join(".").replace(".[]", "[]")
}

/// Without the elements of a list that are no objects: they are told with it.
fn bare(steps: &[String]) -> &[String] {
    let n = steps.iter().rev().take_while(|step| *step == "[]").count();
    &steps[..steps.len() - n]
}

/// Whether a row's steps are those to a value.
fn is_at(row: &[String], value: &[String]) -> bool {
    let is_same = |(row, value): (&String, &String)| row == value || row == "*" && value != "[]";
    row.len() == value.len() && row.iter().zip(value).all(is_same)
}

/// The tables of the guide.
fn rows(guide: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut section = "";
    for line in guide.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        let Some(cells) = line.strip_prefix("| `") else { continue };
        let (fields, says) = cells.split_once(" | ").unwrap();
        let mut first: Option<String> = None;
        for field in fields.trim_end_matches('`').split("`, `") {
            let (field, within) = match field.split_once('{') {
                Some((field, within)) => (field, Some(within.trim_end_matches('}').to_owned())),
                None => (field, None),
            };
            let (field, is_marked) = match field.strip_suffix('?') {
                Some(field) => (field, true),
                None => (field, false),
            };
            let beside = first.as_deref().and_then(|first| Some(first.rsplit_once('.')?.0));
            let field = match (field.strip_prefix('.'), beside) {
                (Some(last), Some(beside)) => format!("{beside}.{last}"),
                (last, _) => last.unwrap_or(field).to_owned(),
            };
            first.get_or_insert_with(|| field.clone());
            rows.push(Row {
                section: section.to_owned(),
                steps: steps(&field),
                field,
                is_marked,
                within,
                says: says.to_owned(),
            });
        }
    }
    rows
}

/// The rows of a section and of those that it names, by the steps from the report.
fn places(rows: &[Row], section: &str, from: &[String], is_either: bool) -> Vec<Place> {
    let own = || rows.iter().enumerate().filter(|(_, row)| row.section == section);
    assert!(own().next().is_some(), "the guide has no section {section:?}");
    let mut found = Vec::new();
    for (k, row) in own() {
        let steps = [from, &row.steps].concat();
        let alike = own().filter(|(_, other)| other.steps == row.steps).count();
        if let Some(within) = row.within.as_deref().filter(|within| *within != "...") {
            found.extend(places(rows, within, &steps, is_either || 1 < alike));
        }
        found.push(Place { steps, row: k, is_either });
    }
    found
}

/// What reports had, and what of it is wrong.
struct Seen<'a> {
    rows: &'a [Row],
    is_printed: Vec<bool>,
    is_left_out: Vec<bool>,
    /// What fields of a name were, and where each first was so.
    kinds: BTreeMap<String, BTreeMap<&'static str, String>>,
    wrong: BTreeSet<String>,
}

/// Whether a field is called as a contract, a profile or a file that a device measured has it.
fn is_given(section: &str, at: &[String]) -> bool {
    let own: &[&str] = match section {
        "trace" | "snapshot" | "analyze" => {
            &["file", "findings", "hta", "ledger", "missing", "ranks", "replay_error"]
        }
        "memory" | "machines" | "bench" | "bench transfers" | "probe --measure" => &[],
        _ => return false,
    };
    let first = at.iter().find(|step| !matches!(step.as_str(), "files" | "[]"));
    first.is_some_and(|first| !own.contains(&first.as_str()))
}

/// Whether a name says a unit, or that it counts.
fn says_unit(name: &str) -> bool {
    is_count(name) || ["ns", "bytes", "byte", "gb_s"].into_iter().any(|unit| ends_in(name, unit))
}

fn is_count(name: &str) -> bool {
    name.starts_with("n_") || ends_in(name, "count")
}

fn ends_in(name: &str, word: &str) -> bool {
    name == word || name.strip_suffix(word).is_some_and(|rest| rest.ends_with('_'))
}

/// What a value is to those who read it.
fn kind(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => "a truth",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    })
}

impl Seen<'_> {
    /// Looks at a value and all within it; gives the objects and the names of their fields.
    fn look(&mut self, section: &str, places: &[Place], value: &Value) -> Vec<(Steps, BTreeSet<String>)> {
        let mut objects = Vec::new();
        let mut left = vec![(Steps::new(), value)];
        while let Some((at, value)) = left.pop() {
            let said: Vec<usize> = places
                .iter()
                .filter(|place| is_at(bare(&place.steps), bare(&at)))
                .map(|place| place.row)
                .collect();
            said.iter().for_each(|&row| self.is_printed[row] = true);
            if said.iter().any(|&row| self.rows[row].within.as_deref() == Some("...")) {
                continue;
            }
            self.judge(&format!("{section}: {}", shown(&at)), &at, value, &said);
            if !is_given(section, &at) {
                self.judge_name(section, &at, value, &said);
            }
            let goes_on =
                |place: &Place| at.len() < place.steps.len() && is_at(&place.steps[..at.len()], &at);
            let is_scalar = !value.is_object() && !value.is_array();
            if said.is_empty() && (is_scalar || !places.iter().any(goes_on)) {
                self.wrong.insert(format!("{section}: {} is not in the guide", shown(&at)));
                continue;
            }
            let below = |step: &str| [&at[..], &[step.to_owned()]].concat();
            match value {
                Value::Object(fields) => {
                    left.extend(fields.iter().map(|(name, value)| (below(name), value)));
                    objects.push((at, fields.keys().cloned().collect()));
                }
                Value::Array(list) => left.extend(list.iter().map(|value| (below("[]"), value))),
                _ => {}
            }
        }
        objects
    }

    /// What holds for all reports: units by names, and nothing without a word of it.
    fn judge(&mut self, what: &str, at: &[String], value: &Value, said: &[usize]) {
        let says = |word: &str| said.iter().any(|&row| self.rows[row].says.contains(word));
        let name = bare(at).last().map_or("", String::as_str);
        let is_scalar = !value.is_object() && !value.is_array();
        let is_whole = value.is_i64() || value.is_u64() || value.is_null();
        let is_set = said.iter().any(|&row| {
            let Row { section, field, .. } = &self.rows[row];
            SETS.contains(&(section.as_str(), field.as_str()))
        });
        let wrong = if value.is_null() && !says("`null`") {
            "is null, and its row does not say when"
        } else if is_scalar && name.ends_with("_ns") && !is_whole && !says("fractions") {
            "is no whole number of nanoseconds"
        } else if is_scalar && name.contains("bytes") && !is_whole {
            "is no whole number of bytes"
        } else if is_count(name) && value.as_f64().is_some_and(|n| n.fract() != 0.0) {
            "is no whole number"
        } else if let (true, Some(word)) = (is_set, value.as_str())
            && !says(&format!("`{word}`"))
        {
            "has a word that its row does not have"
        } else {
            return;
        };
        self.wrong.insert(format!("{what} {wrong}: {value}"));
    }

    /// The vocabulary: a name is one thing everywhere, and says the unit of a number.
    fn judge_name(&mut self, section: &str, at: &[String], value: &Value, said: &[usize]) {
        let place = || format!("{section}: {}", shown(at));
        let Some((name, around)) = at.split_last() else { return };
        // What stands in an object that says the unit is the kinds of one thing.
        let is_kind = around.iter().any(|step| says_unit(step));
        if let Some(kind) = kind(value)
            && !is_kind
            && name != "[]"
            && !VALUES.contains(&name.as_str())
        {
            self.kinds.entry(name.clone()).or_default().entry(kind).or_insert_with(place);
        }
        // Of names that the input has, the one around them says it.
        let of_row =
            |&row: &usize| self.rows[row].steps.iter().rfind(|step| !matches!(step.as_str(), "[]" | "*"));
        let of_row = said.iter().find_map(of_row).map_or("", String::as_str);
        let is_pure = || PURE.contains(&of_row) || VALUES.contains(&of_row);
        if value.is_number() && !is_kind && !says_unit(name) && !is_pure() {
            self.wrong.insert(format!("{} does not say its unit", place()));
        }
    }

    /// Whether what is not marked was everywhere; notes what was not.
    fn compare(&mut self, section: &str, places: &[Place], objects: &[(Steps, BTreeSet<String>)]) {
        let mut fields: BTreeMap<&[String], bool> = BTreeMap::new();
        for place in places.iter().filter(|place| !place.is_either) {
            for n in 1..=place.steps.len() {
                let field = &place.steps[..n];
                if !matches!(field[n - 1].as_str(), "[]" | "*") {
                    *fields.entry(field).or_default() |=
                        bare(&place.steps) == field && self.rows[place.row].is_marked;
                }
            }
        }
        for (field, is_marked) in fields {
            let Some((name, around)) = field.split_last() else { continue };
            let lacks = |(at, names): &&(Steps, BTreeSet<String>)| is_at(around, at) && !names.contains(name);
            if objects.iter().find(lacks).is_none() {
                continue;
            }
            if !is_marked {
                self.wrong.insert(format!("{section}: {} is not always there", shown(field)));
            }
            for place in places.iter().filter(|place| bare(&place.steps) == field) {
                self.is_left_out[place.row] = true;
            }
        }
    }
}

/// Fields whose words are those that their rows have in full.
const SETS: &[(&str, &str)] = &[
    ("check", "verdict"),
    ("check", "unreached[].why"),
    ("hazard", "kind"),
    ("hazard", "certainty"),
    ("hazard", "sites[].does"),
    ("run --schedules", "mode"),
    ("run --replay", "mode"),
    ("view", "files[].kind"),
    ("trace", "findings[].rule"),
    ("snapshot", "findings[].rule"),
    ("diff", "figures[].name"),
    ("advise", "request.from"),
    ("advise", "strategies[].strategy"),
    ("advise", "strategies[].bound_by"),
    ("advise", "decided_by.what"),
    ("advise", "pipelines[].issue_order"),
    ("advise", "crossings[].varies"),
    ("machines", "[].figures[].grade"),
    ("fit", "figures[].standing"),
    ("bench transfers", "rows[].direction"),
    ("bench transfers", "rows[].status"),
    ("bench transfers", "rows[].explain.request.route"),
    ("bench transfers", "rows[].explain.request.host"),
    ("probe", "state"),
];

/// Values of what the call is about, as it has them: text, or numbers in the unit that stands beside them.
const VALUES: &[&str] = &["at", "expected", "input", "mended_read", "read", "result", "start", "value"];

/// Names of numbers without a unit, or with one that is not this vocabulary's.
#[rustfmt::skip]
const PURE: &[&str] = &[
    // Positions: of commands, lines, elements, cells, events, devices, ranks, rows of the tutorial.
    "best_cell", "command", "events", "first", "index", "indices", "insert_before", "line", "ordinal", "peers", "rank", "remove",
    "replace", "second", "tutorial_row",
    // Parts, ratios and what else is one number by another.
    "component", "factor", "factor_if_staged", "influence", "leverage", "load", "moves_rows_by", "ratio", "relative",
    "relative_error", "residual", "rms_residual", "worst_residual",
    // What a machine has or a call asks for, as its profile or its option calls it.
    "compute_capability", "copy_engines", "cores", "generation_most", "generation_now", "in_flight", "items", "lanes_most",
    "lanes_now", "link_generation", "link_width", "multiprocessors", "repeat", "threads",
    // As the contract for traces has them.
    "dropped_events", "problems",
    // As the tutorial's table and files of measured rows have them.
    "fitted_ms", "measured_ms", "published_ms", "simulated_ms",
];

/// Fields that not every machine prints.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("probe", "links[].pci_bus_id", "what Linux tells of a GPU on its bus"),
    ("probe", "links[].generation_most", "the same"),
    ("probe", "links[].lanes_now", "the same"),
    ("probe", "links[].generation_now", "the same"),
    ("probe", "links[].lanes_most", "the same"),
    (
        "probe --measure",
        "fit.*.points[].again_ns",
        "copies of all threads, which many cores make larger than this one's largest",
    ),
];

/// What a call finds for a driver.
#[derive(Clone, Copy)]
enum Driver {
    Absent,
    Software,
    /// The same, which refuses a copy within the device.
    Faulty,
}
use Driver::{Absent, Faulty, Software};

/// Calls by the section that has their report, with how they end.
#[rustfmt::skip]
const CALLS: &[(&str, i32, Driver, &str)] = &[
    ("check", 1, Absent, "check lesson1.txt"),
    ("check", 1, Absent, "check lesson1.txt --explain"),
    ("check", 1, Absent, "check freed.txt --explain"),
    ("check", 1, Absent, "check maybe.txt --explain"),
    ("check", 1, Absent, "check far.txt --explain"),
    ("check", 1, Absent, "check full.txt"),
    ("check", 0, Absent, "check reach.txt"),
    ("check", 2, Absent, "check wrong.json"),
    ("run", 0, Absent, "run values.txt --what-if lat=2 --trace v.trace.json --record v.txt"),
    ("run", 0, Absent, "run values.txt --on cpu"),
    ("run", 0, Absent, "run split.txt --what-if split:s=2"),
    ("run", 0, Software, "run split.txt --on cuda:0"),
    ("run", 0, Absent, "run operator.txt"),
    ("run", 0, Absent, "run no-input.txt"),
    ("run", 0, Absent, "run overflow.txt"),
    ("run", 0, Software, "run operator.txt --on cuda:0 --trace o.trace.json"),
    ("run --schedules", 0, Absent, "run lesson1.txt --schedules all"),
    ("run --schedules", 0, Absent, "run many.txt --schedules 2"),
    ("run --replay", 0, Absent, "run lesson1.txt --replay - --trace l.trace.json"),
    ("sweep", 0, Absent, "sweep lesson1.txt --over as-is,h2d_bw=20 -o s.svg"),
    ("sweep", 0, Absent, "sweep values.txt --over machine=h200-pcie5,h100-pcie5 --what-if lat=2"),
    ("view", 0, Absent, "view lesson1.txt operator.txt all.json layout.json damaged.pickle -o all.html"),
    ("view", 0, Absent, "view layout.json --to cuda:0 -o layout.html"),
    ("trace", 0, Absent, "analyze notebooks/data/training.pt.trace.json"),
    ("trace", 0, Absent, "analyze all.json --hta"),
    ("trace", 0, Absent, "analyze none.json --hta"),
    ("snapshot", 0, Absent, "analyze notebooks/data/training.pickle"),
    ("snapshot", 0, Absent, "analyze damaged.pickle"),
    ("analyze", 0, Absent, "analyze rank0.json rank1.json damaged.pickle all.json"),
    ("diff", 1, Absent, "diff rank0.json notebooks/data/training.pt.trace.json --fail-if step_ns>1% --fail-if h2d_busy_ns>1us"),
    ("memory", 0, Absent, "memory layout.json"),
    ("memory", 0, Absent, "memory layout.json --to cuda:0"),
    ("advise", 0, Absent, "advise --tensors 12x32MiB --from pinned --work 600us --back --in-flight 2 --machine h100-pcie5 --cores 8 --link 20"),
    ("advise", 0, Absent, "advise --tensors 100x4KB --machine h100-pcie5"),
    ("machines", 0, Absent, "machines"),
    ("machines", 0, Absent, "machines box.json"),
    ("fit", 0, Absent, "fit rows.json"),
    ("bench", 0, Absent, "bench memory --tensors 10"),
    ("bench transfers", 0, Absent, "bench transfers"),
    ("bench transfers", 0, Absent, "bench transfers --on sim --big-count 2 --rows h2d.1x4MB.* --rows pipe.A.s2 --rows pin.*"),
    ("bench transfers", 1, Faulty, "bench transfers --dry --strategy S2 --rows h2d.1x4MB.* --rows pipe.A.s2 --rows pin.* --rows d2d.*"),
    ("probe", 0, Absent, "probe"),
    ("probe", 0, Software, "probe"),
    ("probe --measure", 0, Software, "probe --measure m.json --largest 16KiB"),
    ("tour", 0, Absent, "tour -o tour"),
    ("tour", 0, Software, "tour --on cuda:0 -o device"),
];

/// Puts what the calls name into the folder.
fn inputs(folder: &Path) {
    let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    put("reach.txt", "stream s\npageable x 8\ndevice d 8\nkernel on s reads x writes d\nsync s\nread d\n");
    put(
        "freed.txt",
        "stream s\ndevice d 64 via malloc_async on s\nfree d on s\ndevice e 64 via malloc_async on s reuse d\nkernel k on s reads d\n",
    );
    put("maybe.txt", "stream a, b\ndevice d 64\nkernel on a writes d opaque\nkernel on b reads d\n");
    // So many streams wait for the copy that no order is made in which it comes late.
    let streams: Vec<String> = (0..1000).map(|k| format!("s{k}")).collect();
    let each = |line: &dyn Fn(&String) -> String| streams.iter().map(line).collect::<String>();
    put(
        "far.txt",
        &format!(
            "pinned x 64\ndevice d 64\nstream a, {}\nevent e\ncopy x <- d on a\nrecord e on a\n{}repeat k 68\n{}end\nread x\n",
            streams.join(", "),
            each(&|s| format!("wait e on {s}\n")),
            each(&|s| format!("kernel on {s} for 1us\n"))
        ),
    );
    put(
        "many.txt",
        "stream a, b\ndevice d 8\nrepeat k 100\nkernel on a writes d\nkernel on b writes d\nend\n",
    );
    // More pairs of commands than a list of hazards has.
    let [first, second] = ["a", "b"].map(|on| format!("repeat k 300\nkernel on {on} writes d\nend\n"));
    put("full.txt", &format!("stream a, b\ndevice d 8\n{first}{second}"));
    put(
        "wrong.json",
        r#"{"schema_version": 1, "ops": [{"op": "host_read", "span": {"buf": "b", "off": 0, "len": 4}}]}"#,
    );
    put(
        "values.txt",
        "stream s\npinned x 64 = f32 fill 1\ndevice d 64\npinned y 64 = f32 fill 0\nmark begin\ncopy d <- x on s\n\
         kernel k on s reads d writes d for 10us\ncopy y <- d on s\nsync s\nread y expect f32 fill 2\nread y\nmark end\n",
    );
    put("split.txt", "stream s\npinned x, y 4\ndevice d, e 4\ncopy d <- x on s\ncopy e <- y on s\nsync s\n");
    let operator =
        "operator doubled\nW = diagonal(f64[x=2]@cuda:0, fill(2))\nA = to(cuda:0) -> W -> to(cpu)\n";
    put("no-input.txt", operator);
    put("operator.txt", &operator.replacen('\n', "\ninput [1, -2]\n", 1));
    put("overflow.txt", &operator.replacen('\n', "\ninput [1e308, -2]\n", 1));
    let tensor = |name: &str, shape: &[u32], strides: &[u32]| json!({"name": name, "storage": "w", "dtype": "f32", "shape": shape, "strides": strides});
    let tensors = [tensor("a", &[32, 32], &[32, 1]), tensor("b", &[32], &[32]), tensor("empty", &[0], &[1])];
    let layout = json!({"storages": [{"id": "w", "device": "cpu", "bytes": 4096}], "tensors": tensors});
    put("layout.json", &layout.to_string());
    put("box.json", r#"{"name": "my-box", "h2d_bw": 26.0, "colour": 1}"#);
    put("all.json", &trace().to_string());
    put("none.json", "[]");
    let kernel = json!({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": 1, "dur": 3});
    put("rank0.json", &json!([kernel]).to_string());
    put("rank1.json", &json!({"distributedInfo": {"rank": 1}, "traceEvents": [kernel]}).to_string());
    let snapshot = std::fs::read(folder.join("notebooks/data/training.pickle")).unwrap();
    std::fs::write(folder.join("damaged.pickle"), [&snapshot[..], b"more"].concat()).unwrap();
}

/// A trace with some of everything, and something wrong with it.
fn trace() -> Value {
    let mut events = Vec::new();
    let slice = |cat: &str, name: &str, [tid, ts, dur]: [i64; 3], args: Value| json!({"ph": "X", "cat": cat, "name": name, "pid": i64::from(tid < 7), "tid": tid, "ts": ts, "dur": dur, "args": args});
    for (k, (cat, call, name)) in (1i64..).zip([
        ("gpu_memcpy", "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)"),
        ("gpu_memcpy", "cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)"),
        ("gpu_memcpy", "cudaMemcpyAsync", "Memcpy DtoD (Device -> Device)"),
        ("gpu_memcpy", "cudaMemcpyAsync", "Memcpy PtoP (Device -> Device)"),
        ("kernel", "cudaLaunchKernel", "ncclDevKernel_AllReduce"),
        ("kernel", "cudaLaunchKernel", "gemm"),
    ]) {
        let args = json!({"device": 0, "stream": 7, "correlation": k, "bytes": 4096});
        events.push(slice("cuda_runtime", call, [1, 100 * k, 4], json!({"correlation": k})));
        events.push(slice(cat, name, [7, 100 * k + 5, 50], args));
    }
    // Of ROCm the call says how much is copied.
    events.push(slice("cuda_runtime", "hipMemcpyAsync", [1, 690, 5], json!({"correlation": 9, "size": 500})));
    events.push(slice(
        "gpu_memcpy",
        "CopyHostToDevice",
        [7, 700, 5],
        json!({"device": 0, "stream": 7, "correlation": 9}),
    ));
    events.push(slice("kernel", "of no length", [9, 3, 0], json!({"device": 1, "stream": 9})));
    events.push(slice("cpu_op", "half", [2, 0, 10], json!({})));
    events.push(slice("cpu_op", "other half", [2, 5, 10], json!(3)));
    events.push(json!({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 3, "s": "t",
        "args": {"Device Type": 1, "Device Id": 0, "Bytes": 64, "Addr": 5}}));
    events.push(json!(7));
    json!(events)
}

/// The report of a call.
fn report(folder: &Path, (_, code, driver, call): &(&str, i32, Driver, &str)) -> Value {
    let mut command = binary(folder);
    command.args(call.split(' ')).args(["--format", "json"]);
    match driver {
        Absent => command.env("SPANLIFT_CUDA_LIB", folder.join("libnothing.so")),
        Software | Faulty => command.env("SPANLIFT_CUDA_LIB", object().unwrap()),
    };
    if let Faulty = driver {
        let fault = json!({"at": "cuMemcpyDtoDAsync_v2", "after": 3, "code": 1});
        command.env("SPANLIFT_SOFTCUDA", json!({"faults": [fault]}).to_string());
    }
    let told = ran(command, b"");
    assert_eq!((told.code, told.out.lines().count()), (*code, 1), "{call}: {}", told.err);
    assert!(*code < 2 || told.err.starts_with("error: "), "{call}: {}", told.err);
    serde_json::from_str(&told.out).unwrap()
}

/// What a server prints before it serves.
fn served(folder: &Path) -> Value {
    let mut command = binary(folder);
    command.args(["view", "--serve", "lesson1.txt", "--format", "json"]).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    let read = BufReader::new(server.stdout.take().unwrap()).read_line(&mut line);
    server.kill().unwrap();
    server.wait().unwrap();
    read.unwrap();
    serde_json::from_str(&line).unwrap()
}

/// The reports of all calls, as many at once as there are processors.
fn reports(folder: &Path) -> Vec<(&'static str, Value)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let calls = std::iter::from_fn(|| CALLS.get(next.fetch_add(1, Ordering::Relaxed)));
        calls.map(|call| (call.0, report(folder, call))).collect::<Vec<_>>()
    };
    let n = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n).map(|_| scope.spawn(work)).collect();
        let found = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        found.chain([("view", served(folder))]).collect()
    })
}

/// Every field that a command prints stands in its section of the guide, and every field there is printed by some call; what is
/// not marked is always there, and what is null says when.
#[test]
fn the_guide_has_every_field_that_is_printed_and_no_other() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("guide/json.md");
    let rows = rows(&std::fs::read_to_string(guide).unwrap());
    let folder = stage("json-guide");
    inputs(&folder);
    let (is_printed, is_left_out) = (vec![false; rows.len()], vec![false; rows.len()]);
    let (kinds, wrong) = (BTreeMap::new(), BTreeSet::new());
    let mut seen = Seen { rows: &rows, is_printed, is_left_out, kinds, wrong };
    let mut objects: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (section, report) in reports(&folder) {
        let places = places(&rows, section, &[], false);
        objects.entry(section).or_default().extend(seen.look(section, &places, &report));
    }
    for (section, objects) in objects {
        seen.compare(section, &places(&rows, section, &[], false), &objects);
    }
    for (k, row) in rows.iter().enumerate() {
        let Row { section, field, .. } = row;
        if !seen.is_printed[k] && !ELSEWHERE.iter().any(|(of, name, _)| of == section && name == field) {
            seen.wrong.insert(format!("{section}: {field} is printed by no call"));
        }
        if row.is_marked && !seen.is_left_out[k] && seen.is_printed[k] {
            seen.wrong.insert(format!("{section}: {field} is marked and always there"));
        }
    }
    for (name, kinds) in seen.kinds.iter().filter(|(_, kinds)| 1 < kinds.len()) {
        seen.wrong.insert(format!("{name} is {kinds:?}"));
    }
    assert!(600 < rows.len(), "{} fields", rows.len());
    let wrong: Vec<String> = seen.wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
