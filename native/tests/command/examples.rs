//! The examples of every help text and guide are commands that work, in a folder with the files that they name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use spanlift_native::programs::OPERATORS;

use crate::analyze::gz;
use crate::kit::{Ran, folder, ran, spanlift};

/// The program of the README and of the first lesson.
const LESSON: &str = "\
machine h200-pcie5
stream  copy, compute
pinned  x 4MiB
device  d 4MiB on cuda:0

copy    d <- x on copy
kernel  scale on compute reads d writes d for 120us
sync    compute
";

/// Five training steps with a kernel of `kernel` microseconds and `.item()` behind it.
fn items(kernel: i64) -> String {
    let step = |k: i64| {
        let (at, of_kernel) = (1000 * k, 100 + k);
        let event = |cat: &str, name: &str, pid: i64, at: i64, dur: i64, args: &str| {
            let tid = if pid == 0 { 7 } else { 1 };
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{at},"dur":{dur},"args":{{{args}}}}}"#
            )
        };
        let device = r#""device":0,"stream":7,"bytes":4"#;
        [
            event("user_annotation", &format!("ProfilerStep#{k}"), 1, at, 900 + kernel, ""),
            event(
                "cuda_runtime",
                "cudaLaunchKernel",
                1,
                at + 10,
                5,
                &format!(r#""correlation":{of_kernel}"#),
            ),
            event(
                "kernel",
                "gemm",
                0,
                at + 30,
                kernel,
                &format!(r#""device":0,"stream":7,"correlation":{of_kernel}"#),
            ),
            event("cpu_op", "aten::item", 1, at + 20, kernel + 40, ""),
            event(
                "cuda_runtime",
                "cudaMemcpyAsync",
                1,
                at + 25,
                kernel + 30,
                &format!(r#""correlation":{k}"#),
            ),
            event(
                "gpu_memcpy",
                "Memcpy DtoH (Device -> Pageable)",
                0,
                at + 40 + kernel,
                2,
                &format!(r#"{device},"correlation":{k}"#),
            ),
        ]
        .join(",\n")
    };
    format!("[{}]", (0..5).map(step).collect::<Vec<_>>().join(",\n"))
}

/// A folder with every file that an example names, and the command on its `PATH`.
pub(crate) fn stage(name: &str) -> PathBuf {
    let folder = folder(name);
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    put("lesson1.txt", LESSON.as_bytes());
    let scanner = OPERATORS.iter().find(|shipped| shipped.name == "operators/scanner").unwrap();
    put("scanner.txt", scanner.text.as_bytes());
    for (name, kernel) in
        [("before", 600), ("after", 300), ("run.pt.trace", 600), ("rank0", 600), ("rank1", 500)]
    {
        put(&format!("{name}.json.gz"), &gz(items(kernel).as_bytes()));
    }
    put("my-box.json", br#"{"name": "my-box", "h2d_bw": 26.0}"#);
    let row = |tensors: u32, bytes: u32, ms: f64, non_blocking: bool| json!({"tensors": tensors, "bytes_each": bytes, "measured_ms": ms, "non_blocking": non_blocking});
    let rows = [row(1, 4_000_000, 0.6, false), row(20, 4_000, 0.5, true), row(20, 4_000, 0.6, false)];
    put("rows.json", json!({ "rows": rows }).to_string().as_bytes());
    let tensor = |name: &str, offset: u64| json!({"name": name, "storage": "s", "dtype": "f32", "shape": [4, 4], "strides": [8, 1], "offset": offset});
    let layout = json!({"storages": [{"id": "s", "device": "cpu", "bytes": 128}], "tensors": [tensor("a", 0), tensor("b", 4)]});
    put("layout.json", layout.to_string().as_bytes());
    let notebooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../notebooks");
    std::os::unix::fs::symlink(notebooks, folder.join("notebooks")).unwrap();
    folder
}

/// Runs a line as a shell does in this folder, where `spanlift` is the built binary.
pub(crate) fn shell(folder: &Path, line: &str) -> Ran {
    let binary = Path::new(env!("CARGO_BIN_EXE_spanlift"));
    let mut path = binary.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.current_dir(folder).args(["-c", line]).env("PATH", path);
    command.env_remove("SPANLIFT_CUDA_LIB").env_remove("CUDA_VISIBLE_DEVICES");
    ran(command, b"")
}

/// The names under `Commands:` of a help text, but for `help`.
fn commands(help: &str) -> Vec<String> {
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let name = |line: &str| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned);
    listed.filter(|line| !line.starts_with("   ")).filter_map(name).filter(|name| name != "help").collect()
}

/// The lines below `Example:` or `Examples:`, up to the next empty one.
fn examples(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|line| !matches!(*line, "Example:" | "Examples:")).skip(1);
    below.take_while(|line| !line.is_empty()).map(|line| line.trim().to_owned()).collect()
}

/// Commands that measure for seconds, need a device or wait for a browser: their words are checked, and they are not carried out.
fn only_parsed(line: &str) -> bool {
    line.starts_with("spanlift bench ") || line.contains("--measure") || line.contains("--serve")
}

#[test]
fn every_example_of_the_help_works() {
    let folder = stage("examples");
    let mut seen = BTreeSet::new();
    let mut left: Vec<Vec<String>> =
        commands(&spanlift(&folder, &["--help"]).out).into_iter().map(|name| vec![name]).collect();
    assert!(left.len() > 12, "{left:?}");
    while let Some(words) = left.pop() {
        let args: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = spanlift(&folder, &args);
        assert_eq!((help.code, help.err.as_str()), (0, ""), "{words:?}");
        left.extend(commands(&help.out).into_iter().map(|name| [&words[..], &[name]].concat()));
        let lines = examples(&help.out);
        let own = format!("spanlift {}", words.join(" "));
        assert!(lines.iter().any(|line| line.starts_with(&own)), "{own} has no example:\n{}", help.out);
        for line in lines.iter().filter(|line| !line.starts_with('#')) {
            assert!(line.starts_with("spanlift "), "{own}: {line}");
            let parsed = only_parsed(line);
            let told = shell(&folder, &if parsed { format!("{line} --help") } else { line.clone() });
            // The program of the lesson has a race, which is what `check` is shown for.
            let expected = i32::from(line.starts_with("spanlift check ") && !parsed);
            assert_eq!(told.code, expected, "{line}: {}{}", told.out, told.err);
            assert!(!told.err.contains("error"), "{line}: {}", told.err);
        }
        seen.insert(own);
    }
    for own in ["spanlift tour", "spanlift bench transfers", "spanlift man", "spanlift completions"] {
        assert!(seen.contains(own), "{own} in {seen:?}");
    }
}

#[test]
fn examples_are_found_where_they_stand() {
    let help = "About\n\nCommands:\n  tour  Tell\n          more\n  help  Print\n\nExamples:\n  spanlift a\n  # b\n\nNotes:\n  spanlift c\n";
    assert_eq!(commands(help), ["tour"]);
    assert_eq!(examples(help), ["spanlift a", "# b"]);
    assert_eq!(examples("Example:\n  spanlift a\n"), ["spanlift a"]);
    assert!(examples("spanlift a\n").is_empty());
}

/// The commands of a guide's `console` blocks, each with the lines that it is shown to print.
fn session(guide: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in guide.lines() {
        match (inside, line.strip_prefix("$ ")) {
            (false, _) => inside = line == "```console",
            (true, _) if line == "```" => inside = false,
            (true, Some(command)) => found.push((command.to_owned(), Vec::new())),
            (true, None) => found.last_mut().expect("a command comes first").1.push(line.to_owned()),
        }
    }
    found
}

/// The files that a guide shows: its blocks behind a line that ends with a name, as in "`ring.txt`:".
fn files(guide: &str) -> Vec<(&str, &str)> {
    let mut parts = guide.split("\n```").peekable();
    let mut found = Vec::new();
    while let (Some(before), Some(block)) = (parts.next(), parts.peek()) {
        let name = before.trim_end().strip_suffix("`:").and_then(|line| Some(line.rsplit_once('`')?.1));
        let text = block.split_once('\n').map(|(_, text)| text);
        found.extend(name.zip(text));
    }
    found
}

fn has_python() -> bool {
    Command::new("python3").arg("--version").output().is_ok_and(|told| told.status.success())
}

/// Every guide works as it is read, from the first command to the last in one folder; `...` stands for lines left out.
#[test]
fn every_command_of_the_guides_prints_what_they_show() {
    let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("guide");
    let mut n = 0;
    for entry in std::fs::read_dir(guides).unwrap() {
        let path = entry.unwrap().path();
        let folder = stage("guide");
        let guide = std::fs::read_to_string(&path).unwrap();
        for (name, text) in files(&guide) {
            std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
        }
        for (command, shown) in session(&guide) {
            if command.starts_with("python3 ") && !has_python() {
                eprintln!("left out: no python3 for {command}");
                continue;
            }
            let told = shell(&folder, &command);
            let printed = told.out + &told.err;
            let mut rest = printed.lines();
            let mut skipping = false;
            for line in &shown {
                if line == "..." {
                    skipping = true;
                    continue;
                }
                let met =
                    if skipping { rest.any(|printed| printed == line) } else { rest.next() == Some(line) };
                assert!(met, "{}: {command}\nshown: {line:?}\nprinted:\n{printed}", path.display());
                skipping = false;
            }
            assert!(
                skipping || rest.next().is_none(),
                "{}: {command} prints more:\n{printed}",
                path.display()
            );
            n += 1;
        }
    }
    assert!(n >= 8, "{n} commands");
}

/// A mistyped figure is put right, a word that is near none is not; `streams=1` is the same everywhere.
#[test]
fn words_that_are_wrong_get_what_was_meant() {
    let folder = stage("meant");
    let figure = r#": "h2dbw=6": no figure of machines is called "h2dbw"; did you mean "h2d_bw"?; `spanlift machines NAME` lists them"#;
    for (command, option) in [("run", "--what-if"), ("sweep", "--over")] {
        let ran = spanlift(&folder, &[command, "lesson1.txt", option, "h2dbw=6"]);
        assert_eq!((ran.code, ran.err), (2, format!("error: {option}{figure}\n")));
    }
    assert!(!spanlift(&folder, &["nosuch"]).err.contains("did you mean"));
    assert!(spanlift(&folder, &["chekc"]).err.contains("did you mean \"check\"?"));
    let table = spanlift(&folder, &["sweep", "lesson1.txt", "--over", "streams=1..2"]);
    assert!(table.out.contains("\n  streams for each  "), "{}", table.out);
    let same = spanlift(&folder, &["run", "lesson1.txt", "--what-if", "streams=1", "--format", "json"]);
    assert_eq!(same.code, 0, "{}", same.err);
}

#[test]
fn guides_are_printed_offline_and_help_says_so() {
    let folder = folder("guides");
    let [check, memory, man] = ["check", "memory", "man"].map(|c| spanlift(&folder, &[c, "--help"]).out);
    for help in [&check, &memory] {
        assert!(help.contains("spanlift man programs"), "{help}");
    }
    let guides = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("guide")).unwrap();
    for path in guides.map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(man.contains(name), "{name} in {man}");
        let told = spanlift(&folder, &["man", name]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!((told.code, told.out.lines().next()), (0, text.lines().next()));
        assert!(!told.out.contains("\\["), "{}", told.out);
    }
    assert_eq!(spanlift(&folder, &["man", "nosuch"]).code, 2);
    assert_eq!(spanlift(&folder, &["man", "programs", "-o", "man"]).code, 2);
}

/// Every command of the text form stands in its guide: a user needs no documentation of the library.
#[test]
fn the_guide_to_programs_has_every_line_of_the_text_form() {
    let native = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(native.join(path)).unwrap();
    let (guide, reference) = (read("guide/programs.md"), read("../core/src/program/text.rs"));
    let mut n = 0;
    for row in reference.lines().filter_map(|line| line.strip_prefix("//! | `")) {
        for word in row.split_once(" | ").unwrap().0.split('`').step_by(2).flat_map(str::split_whitespace) {
            assert!(guide.contains(word), "{word} of {row}");
            n += 1;
        }
    }
    assert!(60 < n, "{n} words");
}

/// The long options that a help text lists.
fn options(help: &str) -> Vec<&str> {
    let listed = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    listed.filter_map(|line| line[line.find("--")?..].split_whitespace().next()).collect()
}

#[test]
fn manual_pages_and_completions_know_every_option() {
    let folder = folder("manual");
    let made = spanlift(&folder, &["man", "-o", "man"]);
    assert_eq!((made.code, made.err.as_str()), (0, ""));
    let page = |name: &str| std::fs::read_to_string(folder.join("man").join(name)).unwrap();
    assert_eq!(spanlift(&folder, &["man"]).out, page("spanlift.1"));
    let bash = spanlift(&folder, &["completions", "bash"]).out;
    let mut n = 0;
    for command in commands(&spanlift(&folder, &["--help"]).out) {
        let help = spanlift(&folder, &[&command, "--help"]).out;
        let page = page(&format!("spanlift-{command}.1"));
        assert!(page.contains(".SH EXAMPLES"), "{command}: {page}");
        for option in options(&help) {
            assert!(page.contains(&option.replace('-', "\\-")), "{command} {option}: {page}");
            assert!(bash.contains(option), "{command} {option}");
            n += 1;
        }
    }
    assert!(n > 60, "{n} options");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let told = spanlift(&folder, &["completions", shell]);
        assert_eq!((told.code, told.err.as_str()), (0, ""), "{shell}");
        assert!(told.out.contains("mended"), "{shell}");
    }
    assert_eq!(spanlift(&folder, &["completions", "tcsh"]).code, 2);
    std::fs::write(folder.join("file"), "").unwrap();
    let ran = spanlift(&folder, &["man", "-o", "file"]);
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: file: cannot be made: is a file, not a folder\n"));
    let told = "error: -: cannot be made: reports go to standard output; give a folder's name\n";
    assert_eq!(spanlift(&folder, &["man", "-o", "-"]).err, told);
    assert!(!folder.join("-").exists());
}

/// Bash itself, where there is one, completes a command, an option and a value.
#[test]
fn bash_completes_with_the_script() {
    let folder = folder("completions");
    std::fs::write(folder.join("spanlift.bash"), spanlift(&folder, &["completions", "bash"]).out).unwrap();
    if Command::new("bash").arg("--version").output().is_err() {
        return eprintln!("skipped: there is no bash here");
    }
    let complete = |words: &[&str]| {
        let script = format!(
            "source spanlift.bash; COMP_WORDS=({}); COMP_CWORD={}; _spanlift spanlift {:?} {:?}; echo ${{COMPREPLY[@]}}",
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let mut command = Command::new("bash");
        command.current_dir(&folder).args(["--norc", "-c", &script]);
        ran(command, b"").out.trim().to_owned()
    };
    assert_eq!(complete(&["spanlift", "swe"]), "sweep");
    assert_eq!(complete(&["spanlift", "check", "--ment"]), "");
    assert_eq!(complete(&["spanlift", "check", "--mend"]), "--mended");
    assert_eq!(complete(&["spanlift", "check", "--mode", "t"]), "typical");
    assert_eq!(complete(&["spanlift", "bench", "transf"]), "transfers");
}
