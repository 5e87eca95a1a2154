//! Host threads in other languages, run: their calls reach streams and events in the order of the list.
//!
//! Programs are drawn, written in CUDA C++ and in Python, and run on a stand-in that notes each call with what it finds; the
//! order that it must find comes from the list alone.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::fmt::Write;
use std::process::{Command, Stdio};

use spanlift::program::code::Language;
use spanlift::program::{EventId, ThreadId};
use spanlift::{Program, kib, us};

use crate::random::Random;

/// A program, and what each of its streams must be told, in order: `k12`, `record`, `wait 2` (for the second record of an
/// event's life).
type Drawn = (Program, Vec<Vec<String>>);

/// Threads that make streams, events and threads, use those of others and take them away, most of it ordered by the list
/// alone.
fn drawn(seed: u64) -> Drawn {
    let rng = &mut Random(seed);
    let mut p = Program::new();
    let d = p.device(0, "d", kib(1));
    let c = p.channel("c");
    let (mut streams, mut told) = (vec![(0, p.stream("s0"))], vec![Vec::new()]);
    let (mut threads, mut n_threads, mut n_signals) = (vec![ThreadId::FIRST], 0, 0);
    // Of each event the records in its life.
    let mut events: Vec<Option<(EventId, usize)>> = vec![None; 4];
    for k in 0..40 {
        let by = threads[rng.below(threads.len())];
        let (at, s) = *streams.get(rng.below(streams.len().max(1))).unwrap_or(&(0, streams[0].1));
        let which = rng.below(events.len());
        p.by(by, |p| match (rng.below(12), events[which]) {
            (0, _) if n_threads < 4 => {
                n_threads += 1;
                threads.push(p.spawn(&format!("t{n_threads}")));
            }
            (1, _) if threads.len() > 2 => {
                let gone = threads[1 + rng.below(threads.len() - 1)];
                if gone != by {
                    p.join(gone);
                    threads.retain(|&thread| thread != gone);
                }
            }
            (2, _) => {
                streams.push((told.len(), p.stream(&format!("s{}", told.len()))));
                told.push(Vec::new());
            }
            (3, _) if streams.len() > 1 => {
                streams.retain(|&(k, _)| k != at);
                p.destroy_stream(s);
            }
            (4, was) => {
                if let Some((event, _)) = was {
                    p.destroy_event(event);
                }
                events[which] = Some((p.create_event(&format!("e{which}")), 0));
            }
            (5, _) => {
                n_signals += 1;
                p.signal(c);
            }
            (6, _) if n_signals > 0 => _ = p.await_signal(c),
            (7, _) => _ = p.sync(s),
            (8 | 9, Some((event, n))) => {
                p.record(event, s);
                events[which] = Some((event, n + 1));
                told[at].push("record".to_owned());
            }
            (10, Some((event, n))) => {
                p.wait(s, event);
                told[at].push(format!("wait {n}"));
            }
            _ => {
                p.kernel(&format!("k{k}")).reads(d).takes(us(k + 1)).on(s);
                told[at].push(format!("k{k}"));
            }
        });
    }
    p.check().unwrap_or_else(|e| panic!("{e}\n{}", p.to_text()));
    (p, told)
}

fn programs() -> Vec<Drawn> {
    (0..60).map(drawn).collect()
}

/// Gives a text to a command and takes what it says; `None`, said aloud, where there is none.
fn answered(mut command: Command, text: &str) -> Option<String> {
    use std::io::Write;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: {command:?} is not here");
        return None;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", why.chars().take(3000).collect::<String>());
    Some(said)
}

/// What a run must say of each program: its streams' calls, whatever the streams are called.
fn expected(told: &[Vec<String>]) -> Vec<String> {
    let mut lines: Vec<String> = told.iter().filter(|t| !t.is_empty()).map(|t| t.join(", ")).collect();
    lines.sort();
    lines
}

#[track_caller]
fn check(said: &str, language: Language) {
    let mut said = said.split("program\n").skip(1);
    for (k, (program, told)) in programs().iter().enumerate() {
        let mut found: Vec<&str> = said.next().unwrap_or_default().lines().collect();
        found.sort_unstable();
        assert_eq!(
            found,
            expected(told),
            "program {k}\n{}\n{}",
            program.to_text(),
            program.to_code(language)
        );
    }
}

/// What stands for CUDA: handles are numbers that are known while they live, streams note what they are told, and every
/// third call takes its time.
const CUDA: &str = r#"
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <map>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#define __global__
#define __device__
typedef int cudaError_t; typedef size_t cudaStream_t; typedef size_t cudaEvent_t;
enum { cudaStreamNonBlocking, cudaEventDisableTiming, cudaSuccess };
static std::mutex lock;
static size_t handles, calls;
static std::map<size_t, std::string> streams, gone;
static std::map<size_t, int> events;
static std::unique_lock<std::mutex> called() {
    std::unique_lock<std::mutex> held(lock);
    if (calls++ % 3 == 0) { held.unlock(); std::this_thread::sleep_for(std::chrono::microseconds(300)); held.lock(); }
    return held;
}
static void tell(size_t stream, const std::string &what) {
    if (!streams.count(stream)) { std::printf("program\n%s on no stream\n", what.c_str()); std::exit(0); }
    streams[stream] += (streams[stream].empty() ? "" : ", ") + what;
}
static int &live(size_t event) {
    if (!events.count(event)) { std::printf("program\nno event\n"); std::exit(0); }
    return events[event];
}
static void cudaStreamCreateWithFlags(size_t *stream, int) { auto h = called(); streams[*stream = ++handles]; }
static void cudaStreamDestroy(size_t stream) {
    auto h = called();
    if (!streams.count(stream)) { std::printf("program\nno stream to destroy\n"); std::exit(0); }
    gone[stream] = streams[stream]; streams.erase(stream);
}
static void cudaEventCreateWithFlags(size_t *event, int) { auto h = called(); events[*event = ++handles]; }
static void cudaEventDestroy(size_t event) { auto h = called(); live(event); events.erase(event); }
static void cudaEventRecord(size_t event, size_t stream) { auto h = called(); live(event)++; tell(stream, "record"); }
static void cudaStreamWaitEvent(size_t stream, size_t event, int) {
    auto h = called(); tell(stream, "wait " + std::to_string(live(event)));
}
static void cudaStreamSynchronize(size_t stream) {
    auto h = called();
    if (!streams.count(stream)) { std::printf("program\nno stream to wait for\n"); std::exit(0); }
}
static void launched(const char *kernel, size_t stream) { auto h = called(); tell(stream, kernel); }
template <class T> void cudaMalloc(T **, size_t) {}
static void ended() {
    std::printf("program\n");
    for (auto &all : {gone, streams}) for (auto &[_, told] : all) if (!told.empty()) std::printf("%s\n", told.c_str());
    streams.clear(); gone.clear(); events.clear();
}
"#;

#[test]
fn threads_in_cuda_call_in_the_order_of_the_list() {
    let mut all = CUDA.to_owned();
    let programs = programs();
    for (k, (program, _)) in programs.iter().enumerate() {
        writeln!(all, "namespace n{k} {{").unwrap();
        let code = program.to_code(Language::Cuda);
        let body = &code[code.find("int main()").unwrap()..];
        for line in body.replace("int main()", "int run()").lines() {
            match line.split_once("<<<1, 1, 0, ") {
                Some((kernel, rest)) => {
                    let stream = rest.split_once(">>>").unwrap().0;
                    writeln!(all, "launched(\"{}\", {stream});", kernel.trim()).unwrap();
                }
                None => writeln!(all, "{line}").unwrap(),
            }
        }
        // A function other than `main` has to give something back.
        assert_eq!(all.pop().zip(all.pop()), Some(('\n', '}')));
        all += "return 0; }\n}\n";
    }
    all += "int main() {\n";
    (0..programs.len()).for_each(|k| writeln!(all, "n{k}::run(); ended();").unwrap());
    all += "}\n";
    let path = std::env::temp_dir().join(format!("spanlift-threads-{}", std::process::id()));
    let mut compiler = Command::new("g++");
    compiler
        .args(["-std=c++20", "-pthread", "-ftrivial-auto-var-init=pattern", "-x", "c++", "-", "-o"])
        .arg(&path);
    let Some(_) = answered(compiler, &all) else { return };
    let said = answered(Command::new(&path), "");
    let _ = std::fs::remove_file(&path);
    check(&said.unwrap(), Language::Cuda);
}

/// What stands for PyTorch, in the same way; texts are apart by a form feed.
const TORCH: &str = r#"
import sys, threading, time, types
lock, calls = threading.Lock(), [0]
streams = []
class Stream:
    def __init__(self, device=0):
        called(); self.told = []; streams.append(self)
    def wait_event(self, event):
        called(); self.told.append(f"wait {event.n}")
    def synchronize(self):
        called()
class Event:
    def __init__(self):
        called(); self.n = 0
    def record(self, stream):
        called(); self.n += 1; stream.told.append("record")
def called():
    with lock:
        calls[0] += 1
        slow = calls[0] % 3 == 0
    if slow: time.sleep(300e-6)
here = threading.local()
class On:
    def __init__(self, stream): self.stream = stream
    def __enter__(self): here.stream = self.stream
    def __exit__(self, *_): here.stream = None
def sleep(cycles):
    called(); here.stream.told.append(f"k{cycles - 1}")
torch = types.ModuleType("torch")
torch.uint8, torch.empty = None, lambda *_, **__: None
torch.cuda = types.SimpleNamespace(Stream=Stream, Event=Event, stream=On, _sleep=sleep, clock_rate=lambda: 1)
sys.modules["torch"] = torch
failed = []
threading.excepthook = lambda args: failed.append(repr(args.exc_value))
for text in sys.stdin.read().split("\f"):
    streams.clear()
    exec(compile(text, "text", "exec"), {})
    for thread in threading.enumerate():
        if thread is not threading.current_thread(): thread.join()
    print("program")
    for line in failed + [", ".join(s.told) for s in streams]:
        if line: print(line)
"#;

#[test]
fn threads_in_python_call_in_the_order_of_the_list() {
    let all: Vec<String> = programs().iter().map(|(p, _)| p.to_code(Language::PyTorch)).collect();
    let mut python = Command::new("python3");
    python.args(["-c", TORCH]);
    let Some(said) = answered(python, &all.join("\u{c}")) else { return };
    check(&said, Language::PyTorch);
}
