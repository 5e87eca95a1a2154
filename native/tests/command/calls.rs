//! Calls: help, versions, wrong flags, broken pipes.

use std::process::Stdio;

use crate::kit::{binary, folder, names, spanlift};

/// A wrong call ends with 2 and one line that holds `fragment` and a hint; nothing is printed as a result.
#[track_caller]
fn wrong(args: &[&str], fragment: &str, hint: &str) {
    let ran = spanlift(&folder("calls"), args);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    let [line] = lines[..] else { panic!("{args:?}: {} lines: {}", lines.len(), ran.err) };
    assert!(
        line.starts_with("error: ") && line.contains(fragment) && line.contains(hint),
        "{args:?}: {line}"
    );
}

#[test]
fn a_wrong_call_is_told_in_one_line_with_a_hint() {
    wrong(&[], "a command is missing: tour, ", "try 'spanlift --help'");
    wrong(&["bench"], "a command is missing: memory, ", "try 'spanlift bench --help'");
    wrong(&["chek"], "'chek'; did you mean \"check\"?", "usage: spanlift");
    wrong(&["analyze"], "<FILE>", "try 'spanlift analyze --help'");
    wrong(&["--colour"], "'--colour'", "usage: spanlift");
    wrong(&["check"], "<PROGRAM>", "try 'spanlift check --help'");
    wrong(&["check", "a", "b"], "'b'", "try 'spanlift check --help'");
    wrong(&["check", "a", "--mod", "typical"], "did you mean \"--mode\"?", "usage: spanlift check");
    wrong(&["check", "a", "--mode", "typicl"], "did you mean \"typical\"?", "--help");
    wrong(&["check", "a", "--format", "xml"], "'xml'", "--help");
    wrong(&["check", "a", "--format"], "--format", "--help");
    wrong(&["run", "a", "--on", "tpu"], "one of sim, cpu, cuda:0", "try 'spanlift run --help'");
    wrong(&["run", "a", "--on", "cuda:-1"], "'cuda:-1'", "--help");
    wrong(&["run", "a", "--schedules", "-1"], "'-1' for '--schedules <N|all>'", "try 'spanlift run --help'");
    wrong(&["run", "a", "--mode", "typical"], "<--schedules <N|all>|--replay <NAME>>", "--help");
    wrong(&["run", "a", "--seed", "2"], "--schedules <N|all>", "--help");
    // What another option keeps away has no use either.
    for other in [&["--trace", "o.json"][..], &["--what-if", "lat=1"], &["--replay", "-"]] {
        wrong(&[&["run", "a", "--seed", "2"], other].concat(), "cannot be used with", "--help");
    }
    wrong(
        &["view", "a", "-o", "a.html", "--port", "80"],
        "cannot be used with",
        "try 'spanlift view --help'",
    );
    wrong(&["view", "a", "--serve", "--port", "-1"], "-1 is not in 0..=65535", "try 'spanlift view --help'");
    wrong(&["bench", "copy", "--threads", "-1"], "-1 is not in 1..=64", "try 'spanlift bench copy --help'");
    let work = ["advise", "--tensors", "1x4KB", "--work", "-1us"];
    wrong(&work, "'-1us' for '--work <TIME>'", "try 'spanlift advise --help'");
    wrong(&["advise", "--back", "-1us"], "'-1us' for '--back'", "try 'spanlift advise --help'");
    wrong(&["check", "--format=json", "-1"], "'-1'", "usage: spanlift check");
    wrong(&["run", "--", "--", "-1"], "'-1'", "usage: spanlift run");
    wrong(&["run", "a", "-1"], "'-1'", "usage: spanlift run");
    wrong(&["probe", "--weigh"], "'--weigh'", "usage: spanlift probe");
    wrong(&["tour", "lesson.txt"], "'lesson.txt'", "usage: spanlift tour");
    wrong(&["bench", "sim", "--commands", "1"], "1 is not in 100..", "try 'spanlift bench sim --help'");
    wrong(&["bench", "transfers", "--on", "sim", "--rows", "nope*"], "\"nope*\" fits none of ", "h2d.1x4MB");
    wrong(&["bench", "transfers", "--machine", "h200-pcie5"], "--machine", "--on sim");
    for of_devices in [&["--quick"][..], &["--dry"], &["--compute-steps", "2"]] {
        wrong(&[&["bench", "transfers", "--on", "sim"], of_devices].concat(), of_devices[0], "--on cuda:0");
    }
    wrong(&["bench", "transfers", "--compute-steps", "4294967295"], "is not in 0..=100000", "--help");
    for from in ["pinned", "file"] {
        let same = ["advise", "--tensors", "1x4KB", "--same-memory", "--from", from];
        wrong(&same, "--same-memory", "--from pageable");
    }
    wrong(&["advise", "--tensors", "1x4KB", "--link", "x"], "`here`", "try 'spanlift advise --help'");
}

#[test]
fn help_and_version_are_results() {
    let folder = folder("help");
    for args in [&["--help"][..], &["help"], &["check", "--help"], &["help", "bench", "sim"]] {
        let ran = spanlift(&folder, args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(ran.out.contains("Usage: spanlift"), "{args:?}: {}", ran.out);
    }
    let version = spanlift(&folder, &["--version"]);
    assert_eq!((version.code, version.out), (0, format!("spanlift {}\n", env!("CARGO_PKG_VERSION"))));
}

/// The names under `Commands:` of a help text.
fn commands(help: &str) -> Vec<String> {
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names =
        listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn help_fits_a_terminal() {
    let folder = folder("help-width");
    let mut left = vec![Vec::new()];
    let mut n = 0;
    while let Some(words) = left.pop() {
        for option in ["-h", "--help"] {
            let args: Vec<&str> = words.iter().map(String::as_str).chain([option]).collect();
            let ran = spanlift(&folder, &args);
            let mut is_listed = false;
            for line in ran.out.lines() {
                if !line.starts_with(' ') && !line.is_empty() {
                    is_listed = ["Commands:", "Arguments:", "Options:"].contains(&line);
                }
                // What is typed stays on its line.
                let is_typed = line.starts_with("  ") && !is_listed || line.starts_with("Usage:");
                assert!(is_typed || line.chars().count() <= 80, "{args:?}: {line}");
            }
            n += 1;
        }
        let help =
            spanlift(&folder, &[&words.iter().map(String::as_str).collect::<Vec<_>>()[..], &["-h"]].concat());
        let within = commands(&help.out).into_iter().filter(|name| name != "help");
        left.extend(within.map(|name| [&words[..], &[name]].concat()));
    }
    assert!(40 < n, "{n} texts");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    for args in [&["--help"][..], &["probe"], &["probe", "--format", "json"]] {
        let mut command = binary(&folder("pipe"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.args(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

/// The file has `.exe` behind its name on Windows, and any name elsewhere.
#[test]
#[cfg(unix)]
fn usage_names_the_command_whatever_its_file_is_called() {
    use std::os::unix::process::CommandExt as _;
    let output = binary(&folder("calls")).arg0("/bin/lift.exe").args(["check", "a", "b"]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("usage: spanlift check ") && !err.contains("lift.exe"), "{err}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = binary(&folder("full")).arg("probe").stdout(full).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.starts_with("error: standard output: ") && err.lines().count() == 1, "{err}");
}

/// Whoever ends the command while it writes finds nothing of it. Here the system does, at the first byte past its limit.
#[test]
#[cfg(target_os = "linux")]
fn what_is_half_written_is_gone_with_the_command() {
    use std::os::unix::process::ExitStatusExt as _;
    const SIGXFSZ: i32 = 25;
    let folder = folder("ended");
    std::fs::write(folder.join("p.txt"), "work 1us").unwrap();
    let program = binary(&folder).get_program().to_owned();
    for (args, out) in [(&["view", "p.txt", "-o"][..], "p.html"), (&["view", "p.txt", "-o"], "p.txt.html")] {
        let mut command = std::process::Command::new("sh");
        command.current_dir(&folder).args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]);
        let output = command.arg(&program).args(args).arg(out).output().unwrap();
        assert_eq!(output.status.signal(), Some(SIGXFSZ), "{output:?}");
        assert_eq!(names(&folder), ["p.txt"]);
    }
}

/// Where the system has no threads to give, the first one does it all.
#[test]
#[cfg(target_os = "linux")]
fn without_threads_it_takes_longer() {
    // No address space has room for such a stack.
    let stack = (1u64 << 47).to_string();
    let folder = folder("no-threads");
    std::fs::write(folder.join("a.json"), "[]").unwrap();
    std::fs::write(folder.join("p.txt"), "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s")
        .unwrap();
    for args in [
        &["analyze", "a.json", "a.json"][..],
        &["sweep", "p.txt", "--over", "h2d_bw=5,10,20"],
        &[
            "advise",
            "--tensors",
            "3x4KB",
            "-o",
            "map.svg",
            "--idle",
            "1",
            "--cores",
            "2",
            "--load",
            "0",
            "--free-ram",
            "8GiB",
        ],
    ] {
        let of = |command: &mut std::process::Command| {
            let output = command.args(args).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
            output.stdout
        };
        let usual = of(&mut binary(&folder));
        assert!(usual == of(binary(&folder).env("RUST_MIN_STACK", &stack)), "{args:?}");
    }
}
