//! What a framework's own calls take, for `probe --measure --framework PYTHON`: PyTorch is asked in a process of its own.
//!
//! What that process prints is anybody's: it is bounded, and a figure counts only where it is one that a call can take.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::say::{self, Fail};

/// What the interpreter runs.
const SCRIPT: &str = include_str!("framework.py");
/// How long it may take: PyTorch alone can be half a minute on its way from a cold disk.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of an answer at most, and of what is kept of its complaints.
const MOST_BYTES: usize = 64 << 10;
const LAST_BYTES: usize = 4 << 10;
/// Characters of another program's words at most.
const MOST_CHARS: usize = 300;
/// Calls of a round, rounds, and nanoseconds that a call takes at most, as the script has them.
const CALLS: f64 = 1000.0;
const ROUNDS: usize = 9;
const MOST_NS: f64 = 1e7;
/// Threads that a framework copies on at most: more than any machine has processors.
const MOST_THREADS: u64 = 1 << 16;
/// What a framework adds to calls of the driver.
pub(crate) const FIGURES: [&str; 3] = ["framework_to_overhead", "td_leaf_overhead", "pin_overhead"];

/// A call's time in microseconds: the middle one of the rounds, the shortest and the longest.
#[derive(Debug, Clone, PartialEq)]
struct Times {
    middle: f64,
    low: f64,
    high: f64,
}

/// What PyTorch said of itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Framework {
    pytorch: String,
    threads: u64,
    to: Times,
    pin: Times,
    /// tensordict's version with the time of a leaf, or why it does not work there.
    leaf: Result<(String, Times), String>,
}

/// Asks the PyTorch of this interpreter, within a time limit.
pub(crate) fn ask(python: &Path, limit: Duration) -> Result<Framework, Fail> {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).arg(limit.as_secs_f64().to_string());
    let answer = said(command, limit).and_then(|text| read(&text));
    answer.map_err(|why| Fail::at(&format!("--framework {}", python.display()), why))
}

impl Framework {
    /// Puts its figures into a measured profile, each without what the simulator counts beside it, and says so in the note.
    pub(crate) fn fill(&self, profile: &mut Value, version: impl std::fmt::Display) {
        let of = |name: &str| profile[name].as_f64().unwrap_or(0.0);
        let call = of("call_memcpy_async");
        // The wait for the device stands once, behind all leaves of a dictionary.
        let wait = (of("lat") + of("sync_return")) / CALLS;
        let nanos = |us: f64| (us.max(0.0) * 1e3).round() / 1e3;
        let to = nanos(self.to.middle - call);
        let Framework { pytorch, threads, leaf, .. } = self;
        let how = |what: &str, times: &Times| {
            let Times { low, high, .. } = times;
            format!(
                "M {what}; median of 9 rounds of 1,000 after 2, rounds of {low:.3} to {high:.3} us a call"
            )
        };
        let mut put = |name: &str, value: Value, how: String| {
            profile[name] = value;
            profile["conf"][name] = json!(how);
        };
        put(
            "framework_copy_threads",
            json!(threads),
            format!("M torch.get_num_threads() of PyTorch {pytorch}"),
        );
        let what = format!(
            "PyTorch {pytorch}'s tensor.to(\"cuda:0\", non_blocking=True) of 4 pageable bytes, results kept, less call_memcpy_async"
        );
        put(FIGURES[0], json!(to), how(&what, &self.to));
        if let Ok((tensordict, times)) = leaf {
            let what = format!(
                "tensordict {tensordict}'s TensorDict.to(\"cuda:0\") of 1,000 leaves of 4 pageable bytes and the wait for them, results \
                 kept: a leaf's part less framework_to_overhead, call_memcpy_async and its part of lat and sync_return"
            );
            put(FIGURES[1], json!(nanos(times.middle - to - call - wait)), how(&what, times));
        }
        let what = format!(
            "PyTorch {pytorch}'s tensor.pin_memory() of 4 bytes, results kept, into blocks that its cache has"
        );
        put(FIGURES[2], json!(nanos(self.pin.middle)), how(&what, &self.pin));
        let (with, but) = match leaf {
            Ok((tensordict, _)) => (format!(" with tensordict {tensordict}"), String::new()),
            Err(_) => {
                let but = " td_leaf_overhead is not: no tensordict works there, and that of the tutorial's machine holds, \
                           which was fitted to its 16 rows.";
                (String::new(), but.to_owned())
            }
        };
        profile["note"] = json!(format!(
            "Measured by `spanlift probe --measure --framework` on this machine, driver for CUDA {version}, a framework's own \
             times with those of PyTorch {pytorch}{with}, on tensors of 4 bytes.{but}"
        ));
    }

    /// Why a leaf of a dictionary could not be measured.
    pub(crate) fn no_leaf(&self) -> Option<&str> {
        self.leaf.as_ref().err().map(String::as_str)
    }
}

/// The last line that a command prints.
fn said(mut command: Command, limit: Duration) -> Result<String, String> {
    let ends = Instant::now() + limit;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot be run: {}", say::lower(&e)))?;
    let (answers, answer) = mpsc::channel();
    let (complains, complaints) = mpsc::channel();
    if let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) {
        // Neither is joined: who it started may hold the pipes longer than it lives.
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = out.by_ref().take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes);
            let _ = answers.send(bytes);
        });
        std::thread::spawn(move || complains.send(last(&mut err)));
    }
    let ended = ended(&mut child, &answer, ends);
    if ended.is_err() {
        // It may have ended by itself just now.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (bytes, status) = ended.map_err(|why| match why {
        Stop::Late => format!("no answer after {} s", limit.as_secs_f64()),
        Stop::Long => format!("its answer is longer than {} KiB", MOST_BYTES >> 10),
        Stop::Lost(why) => why,
    })?;
    if !status.success() {
        let words = complaints.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let words = last_line(&words).map_or_else(String::new, |line| format!(": {}", shortened(line)));
        return Err(format!("ended with {status}{words}"));
    }
    let text = String::from_utf8_lossy(&bytes);
    last_line(&text).map(str::to_owned).ok_or_else(|| "ended without an answer".to_owned())
}

/// Why a process was not let go on.
enum Stop {
    Late,
    Long,
    Lost(String),
}

/// What it printed and how it ended.
fn ended(
    child: &mut Child,
    answer: &mpsc::Receiver<Vec<u8>>,
    ends: Instant,
) -> Result<(Vec<u8>, std::process::ExitStatus), Stop> {
    let left = || ends.saturating_duration_since(Instant::now());
    let bytes = answer.recv_timeout(left()).map_err(|_| Stop::Late)?;
    if bytes.len() > MOST_BYTES {
        return Err(Stop::Long);
    }
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok((bytes, status)),
            Ok(None) if left().is_zero() => return Err(Stop::Late),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(e) => return Err(Stop::Lost(format!("cannot be waited for: {}", say::lower(&e)))),
        }
    }
}

/// The end of what comes, all of which is taken so that nobody waits with more.
fn last(from: &mut impl Read) -> String {
    let (mut kept, mut some) = (Vec::new(), [0; LAST_BYTES]);
    while let Ok(n @ 1..) = from.read(&mut some) {
        kept.extend_from_slice(&some[..n]);
        kept.drain(..kept.len().saturating_sub(LAST_BYTES));
    }
    String::from_utf8_lossy(&kept).into_owned()
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// Another program's words, cut where they are too many.
fn shortened(words: &str) -> String {
    words.chars().take(MOST_CHARS).collect()
}

/// The script's answer, or why it has none.
fn read(text: &str) -> Result<Framework, String> {
    let answer: Value = serde_json::from_str(text)
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| format!("its answer is no JSON object: {}", shortened(text)))?;
    if let Some(why) = answer["why"].as_str() {
        return Err(shortened(why));
    }
    let threads = answer["threads"].as_u64().filter(|n| (1..=MOST_THREADS).contains(n));
    let threads = threads.ok_or_else(|| no_figure(&answer, "threads", "a number of threads"))?;
    let (to, pin) = (times(&answer, "to_ns")?, times(&answer, "pin_ns")?);
    let leaf = match &answer["dict_ns"] {
        Value::Null => Err(shortened(answer["absent"].as_str().unwrap_or("it is not there"))),
        _ => Ok((version(&answer, "tensordict")?, times(&answer, "dict_ns")?)),
    };
    Ok(Framework { pytorch: version(&answer, "pytorch")?, threads, to, pin, leaf })
}

fn no_figure(answer: &Value, name: &str, what: &str) -> String {
    format!("its answer's {name:?} is not {what}: {}", shortened(&answer[name].to_string()))
}

/// A version as packages have them, which goes into texts as it is.
fn version(answer: &Value, name: &str) -> Result<String, String> {
    let is_one = |text: &&str| {
        (1..=64).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
    };
    let version = answer[name].as_str().filter(is_one);
    version.map(str::to_owned).ok_or_else(|| no_figure(answer, name, "a version"))
}

fn times(answer: &Value, name: &str) -> Result<Times, String> {
    let one = |value: &Value| value.as_f64().filter(|ns| 0.0 < *ns && *ns <= CALLS * MOST_NS);
    let rounds = answer[name].as_array().filter(|rounds| rounds.len() == ROUNDS);
    let rounds: Option<Vec<f64>> = rounds.and_then(|rounds| rounds.iter().map(one).collect());
    let mut rounds = rounds.ok_or_else(|| {
        no_figure(answer, name, "the nanoseconds of 9 rounds, of more than 0 and at most 10 ms a call")
    })?;
    rounds.sort_unstable_by(f64::total_cmp);
    let us = |k: usize| rounds[k] / CALLS / 1e3;
    Ok(Times { middle: us(ROUNDS / 2), low: us(0), high: us(ROUNDS - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        let rounds = |middle: f64| json!([9e6, 1e6, middle, 1e6, 1e6, 1e6, 9e6, 9e6, 9e6]);
        json!({
            "pytorch": "2.11.0+cu128", "tensordict": "0.15.3", "absent": null, "threads": 16,
            "to_ns": rounds(5e6), "pin_ns": rounds(3e6), "dict_ns": rounds(5.5e6),
        })
    }

    /// The shape of what `cuda::measure` gives, as far as it is asked for.
    fn profile(call: f64) -> Value {
        json!({"call_memcpy_async": call, "lat": 1.0, "sync_return": 3.0, "conf": {}})
    }

    #[test]
    fn what_the_simulator_counts_by_itself_is_taken_off() {
        let framework = read(&answer().to_string()).unwrap();
        let mut filled = profile(1.25);
        framework.fill(&mut filled, "13.0");
        let of = |name: &str| filled[name].as_f64().unwrap();
        // 5 less the call; 5.5 less both and a thousandth of 1 + 3; all of 3.
        assert_eq!(FIGURES.map(of), [3.75, 0.496, 3.0]);
        assert_eq!(filled["framework_copy_threads"], 16);
        assert!(FIGURES.iter().all(|name| filled["conf"][name].as_str().unwrap().starts_with("M ")));
        let how = filled["conf"]["pin_overhead"].as_str().unwrap();
        assert!(how.contains("1.000 to 9.000 us a call") && how.contains("2.11.0+cu128"), "{how}");
        // A framework cannot be faster than the call that it makes.
        let mut filled = profile(7.0);
        framework.fill(&mut filled, "13.0");
        assert_eq!(FIGURES.map(|name| filled[name].as_f64().unwrap()), [0.0, 0.0, 3.0]);
    }

    #[test]
    fn answers_that_are_none_are_refused_by_name() {
        let with = |name: &str, value: Value| {
            let mut answer = answer();
            answer[name] = value;
            answer.to_string()
        };
        let nine =
            |text: &str| with("to_ns", json!([0])).replace("[0]", &format!("[{}]", [text; 9].join(",")));
        let deep = "[".repeat(100_000);
        for (text, says) in [
            ("", "no JSON object"),
            ("Hello", "no JSON object: Hello"),
            ("[]", "no JSON object"),
            (&deep, "no JSON object"),
            ("{}", "\"threads\" is not a number of threads: null"),
            (&nine("Infinity"), "no JSON object"),
            (&nine("NaN"), "no JSON object"),
            (&nine("1e999"), "no JSON object"),
            (&nine("1e300"), "\"to_ns\" is not the nanoseconds"),
            (&nine("-1"), "\"to_ns\" is not the nanoseconds"),
            (&nine("0"), "\"to_ns\" is not the nanoseconds"),
            (&nine("\"1\""), "\"to_ns\" is not the nanoseconds"),
            (&with("pin_ns", json!([1, 2, 3])), "\"pin_ns\" is not"),
            (&with("pin_ns", json!(vec![1; 10])), "\"pin_ns\" is not"),
            (&with("pin_ns", Value::Null), "\"pin_ns\" is not"),
            (&with("dict_ns", json!(5)), "\"dict_ns\" is not"),
            (&with("tensordict", Value::Null), "\"tensordict\" is not a version"),
            (&with("pytorch", json!("2\u{1b}[31m")), "\"pytorch\" is not a version"),
            (&with("pytorch", json!("2".repeat(65))), "\"pytorch\" is not a version"),
            (&with("threads", json!(0)), "\"threads\" is not"),
            (&with("threads", json!(1u64 << 40)), "\"threads\" is not"),
            (&with("threads", json!(1.5)), "\"threads\" is not"),
            (&with("why", json!("no PyTorch that works: x")), "no PyTorch that works: x"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(says) && why.chars().count() < 500, "{text:.60}: {why:.600}");
        }
        assert!(read(&answer().to_string()).is_ok());
    }

    /// What is said of a script for the shell in the place of Python, and how long that took.
    #[cfg(unix)]
    fn stand_in(script: &str, limit: Duration) -> (String, Duration) {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        let begun = Instant::now();
        (said(shell, limit).unwrap_err(), begun.elapsed())
    }

    #[cfg(unix)]
    #[test]
    fn one_that_hangs_is_ended_at_the_limit() {
        let limit = Duration::from_millis(500);
        // The last one's own child holds the pipe.
        for script in ["exec sleep 30", "exec sleep 30 >&- 2>&-", "sleep 3 &"] {
            let (why, took) = stand_in(script, limit);
            assert_eq!(why, "no answer after 0.5 s", "{script}");
            assert!(limit <= took && took < Duration::from_secs(20), "{script}: {took:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn one_that_prints_without_end_or_complains_is_told_apart() {
        let limit = Duration::from_secs(60);
        let (why, took) = stand_in("exec yes", limit);
        assert!(why == "its answer is longer than 64 KiB" && took < limit, "{why} {took:?}");
        let (why, _) = stand_in("yes no | head -c 999999 >&2; echo last >&2; exit 3", limit);
        assert_eq!(why, "ended with exit status: 3: last");
        let (why, _) = stand_in("kill -SEGV $$", limit);
        assert!(why.starts_with("ended with signal: 11"), "{why}");
        let (why, _) = stand_in("exit 0", limit);
        assert_eq!(why, "ended without an answer");
    }
}
