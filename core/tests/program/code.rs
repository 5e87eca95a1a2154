//! Programs in other languages: the Rust text builds the program again, the others are what their compilers take.
//!
//! `UPDATE=1 cargo test -p spanlift --test program` writes the kept texts anew.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spanlift::Program;
use spanlift::program::code::Language;

/// The kept Rust texts, compiled.
#[expect(
    unused_variables,
    non_snake_case,
    reason = "generated: not every name of a program is used, nor a word"
)]
mod built {
    macro_rules! built {
        ($($name:ident $file:literal;)*) => {
            $(pub(super) mod $name {
                include!(concat!("../data/code/", $file, ".rs.txt"));
                pub(in super::super) fn built() -> Program {
                    program()
                }
            })*
        };
    }
    built! {
        demo "demo-h2d-pinned-overwritten";
        loader "loader-pin-thread";
        all0 "random-0";
        all1 "random-1";
        all2 "random-2";
        all3 "random-3";
    }
}

/// Programs that ship.
fn shipped(name: &str) -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/programs").join(format!("{name}.txt"));
    Program::from_text(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn all_shipped() -> Vec<(String, Program)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/programs");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), shipped(&name))).collect()
}

/// What a program says, without the labels that have no place in the builder's calls and are comments there.
fn without_those_labels(program: &Program) -> serde_json::Value {
    let mut json: serde_json::Value = serde_json::from_str(&program.to_json()).unwrap();
    for op in json["ops"].as_array_mut().unwrap() {
        if !["kernel", "host_fn", "mark", "host_work"].contains(&op["op"].as_str().unwrap()) {
            op.as_object_mut().unwrap().remove("label");
        }
    }
    json
}

fn kept(name: &str, ending: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/code").join(format!("{name}.{ending}"))
}

/// The text is the kept one.
fn check_kept(name: &str, program: &Program, languages: &[Language]) {
    for &language in languages {
        let ending = match language {
            Language::PyTorch => "py",
            Language::Cuda => "cu",
            Language::Rust => "rs.txt",
            other => panic!("{other:?} has no kept texts"),
        };
        let (path, text) = (kept(name, ending), program.to_code(language));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, before, "{}: UPDATE=1 writes it anew", path.display());
    }
}

#[test]
fn texts_are_the_kept_ones() {
    for name in ["demo-h2d-pinned-overwritten", "loader-pin-thread"] {
        check_kept(name, &shipped(name), &Language::ALL);
    }
    for seed in 0..4 {
        check_kept(&format!("random-{seed}"), &crate::random::program(seed, 60), &[Language::Rust]);
    }
}

#[test]
fn rust_builds_the_same_program() {
    assert_eq!(built::demo::built(), shipped("demo-h2d-pinned-overwritten"));
    assert_eq!(built::loader::built(), shipped("loader-pin-thread"));
    let random = [built::all0::built(), built::all1::built(), built::all2::built(), built::all3::built()];
    for (seed, built) in (0..).zip(random) {
        assert_eq!(
            without_those_labels(&built),
            without_those_labels(&crate::random::program(seed, 60)),
            "seed {seed}"
        );
    }
}

#[test]
fn nothing_is_left_out_silently() {
    let known = Program::from_text(
        "stream s\nstream old blocking\ndevice d 4KiB\npinned x 4KiB\nhost fn f on s reads x\nrecord_stream d on s\nmark here\n\
         copy d[4 at 0, 8 every 64, 2 every 1024] <- x[4 at 0, 8 every 32, 2 every 1024] on s\n",
    )
    .unwrap();
    let python = known.to_code(Language::PyTorch);
    for words in ["# no PyTorch form: host fn f on s reads x", "# no PyTorch form: mark here", "blocking"] {
        assert!(python.contains(words), "{words}\n{python}");
    }
    let cuda = known.to_code(Language::Cuda);
    for words in [
        "// no CUDA form: record_stream d on s",
        "// no CUDA form: mark here",
        "// no CUDA form: copy d[4 at 0",
    ] {
        assert!(cuda.contains(words), "{words}\n{cuda}");
    }
}

/// The text has these lines, in this order.
#[track_caller]
fn says(program: &str, language: Language, lines: &[&str]) {
    let code = Program::from_text(program).unwrap().to_code(language);
    let mut told = code.lines().map(str::trim_start);
    for line in lines {
        assert!(told.any(|l| l == *line), "{line}\n{code}");
    }
}

#[test]
fn what_was_seen_ready_is_waited_for() {
    let seen = "stream s\nevent e\nrecord e on s\nquery event e ready\nquery s ready\nquery s not ready\n";
    says(
        seen,
        Language::PyTorch,
        &[
            "while not e.query(): pass  # query event e ready",
            "while not s.query(): pass  # query s ready",
            "s.query()  # query s not ready",
        ],
    );
    says(
        seen,
        Language::Cuda,
        &[
            "while (cudaEventQuery(e) != cudaSuccess) {}  // query event e ready",
            "while (cudaStreamQuery(s) != cudaSuccess) {}  // query s ready",
            "cudaStreamQuery(s);  // query s not ready",
        ],
    );
}

#[test]
fn an_await_waits_for_all_signals_before_it_and_for_no_other() {
    let one = "spawn w\nw: signal q\nawait q\nw: signal q\nawait q\njoin w\n";
    says(one, Language::PyTorch, &["q = queue.Queue()", "q.put(None)", "q.put(None)", "q.get()", "q.get()"]);
    says(one, Language::Cuda, &["std::counting_semaphore<> q(0);", "q.release();", "q.acquire();"]);
    // A queue would let the first go on after one signal of the two.
    let two = "spawn w\nw: signal q\nw: signal q\nawait q\nawait q\njoin w\n";
    says(
        two,
        Language::PyTorch,
        &["q = Signals()", "q.signal()", "q.signal()", "q.wait(2)", "pass  # await q"],
    );
    says(
        two,
        Language::Cuda,
        &["std::atomic<int> q(0);", "for (int seen; (seen = q) < 2;) q.wait(seen);", ";  // await q"],
    );
    // Nor is one sender's second signal the other's first.
    let many = "spawn v, w\nawait q\nv: signal q\nw: signal q\nawait q\nw: signal q\njoin v, w\n";
    says(
        many,
        Language::PyTorch,
        &[
            "class Signals:",
            "q_v = Signals()",
            "q_w = Signals()",
            "q_v.signal()",
            "q_w.signal()",
            "q_w.signal()",
            "pass  # await q",
            "q_v.wait(1); q_w.wait(1)  # await q",
        ],
    );
    says(
        many,
        Language::Cuda,
        &[
            "std::atomic<int> q_v(0);",
            "std::atomic<int> q_w(0);",
            "v = std::jthread([&] {",
            "q_v++; q_v.notify_all();",
            ";  // await q",
            "for (int seen; (seen = q_v) < 1;) q_v.wait(seen); for (int seen; (seen = q_w) < 1;) q_w.wait(seen);  // await q",
        ],
    );
    // One signal for two.
    let both = "spawn v\nsignal q\nawait q\nv: await q\n";
    says(both, Language::PyTorch, &["q = Signals()"]);
}

#[test]
fn what_the_list_alone_orders_between_threads_waits_for_its_turn() {
    // A stream that is made after the thread began, an event that is recorded there, and a stream that is taken away.
    let late = "spawn t\nstream s\nt: event e\nt: record e on s\nevent f\nwait e on 0\ndestroy stream s\njoin t\nsync event e\n";
    says(
        late,
        Language::Cuda,
        &[
            "#include <latch>",
            "std::latch turn(1);",
            "std::latch turn_2(1);",
            "std::jthread t;",
            "t = std::jthread([&] {",
            "turn.wait();  // after: stream s",
            "cudaEventRecord(e, s);",
            "turn_2.count_down();",
            "cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);",
            "turn.count_down();",
            "turn_2.wait();  // after: record e on s",
            "cudaStreamWaitEvent(0, e, 0);",
            "cudaStreamDestroy(s);",
        ],
    );
    says(
        late,
        Language::PyTorch,
        &[
            "turn = threading.Event()",
            "turn_2 = threading.Event()",
            "def t_calls():",
            "turn.wait()  # after: stream s",
            "e.record(s)",
            "turn_2.set()",
            "s = torch.cuda.Stream(device=0)",
            "turn.set()",
            "turn_2.wait()  # after: record e on s",
            "torch.cuda.default_stream(0).wait_event(e)",
        ],
    );
    // What a spawn, a signal or a join orders needs none.
    let said = "stream s\nspawn t\nt: event e\nt: record e on s\nt: signal c\nawait c\nwait e on 0\nt: sync s\njoin t\n\
                destroy stream s\n";
    let program = Program::from_text(said).unwrap();
    for language in [Language::Cuda, Language::PyTorch] {
        assert!(!program.to_code(language).contains("turn"), "{}", program.to_code(language));
    }
}

#[test]
fn the_current_device_is_that_of_the_stream_and_the_event() {
    says(
        "stream a on cuda:1\ndevice d 8 on cuda:1 via pool home a\nrecord e on a\nwait e on 0\nwait e on 0@1\n\
         sync 0\nhost fn f on 0@1\nfree d\nrecord late on 0\nevent late\nrecord late on a\n",
        Language::Cuda,
        &[
            "cudaSetDevice(1);",
            "cudaEventCreateWithFlags(&e, cudaEventDisableTiming);",
            "cudaSetDevice(0);",
            "cudaEventCreateWithFlags(&late, cudaEventDisableTiming);",
            "cudaSetDevice(1);",
            "cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);",
            "cudaEventRecord(e, a);",
            "cudaSetDevice(0);",
            "cudaStreamWaitEvent(0, e, 0);",
            "cudaSetDevice(1);",
            "cudaStreamWaitEvent(0, e, 0);",
            "cudaSetDevice(0);",
            "cudaStreamSynchronize(0);",
            "cudaSetDevice(1);",
            "cudaLaunchHostFunc(0, host_fn, nullptr);  // host fn f on 0@1",
            "cudaFreeAsync(d, a);  // free d",
            "cudaSetDevice(0);",
            "cudaEventRecord(late, 0);",
            "cudaSetDevice(1);",
            "cudaEventCreateWithFlags(&late, cudaEventDisableTiming);",
            "cudaEventRecord(late, a);",
        ],
    );
}

#[test]
fn calls_move_the_bytes_of_the_program_and_no_other() {
    // A pitch shorter than a row, rows that go backwards, sides of different size.
    let odd = "stream s\ndevice d 64\npinned x 64\nmemset d[8 at 0, 3 every 4] on s\nmemset d[4 at 16, 3 every -8] on s\n\
               memset d[4 at 0, 3 every 8] on s\ncopy d[0..8] <- x[0..4] on s\ncopy d[4 at 0, 3 every 8] <- x[0..8] on s\n\
               copy d[4 at 0, 3 every 8] <- x[0..12] on s\n";
    says(
        odd,
        Language::Cuda,
        &[
            "// no CUDA form: memset d[8 at 0, 3 every 4] 0 on s",
            "// no CUDA form: memset d[4 at 16, 3 every -8] 0 on s",
            "cudaMemset2DAsync(d, 8, 0, 4, 3, s);",
            "cudaMemcpyAsync(d, x, 4, cudaMemcpyHostToDevice, s);",
            "// no CUDA form: copy d[4 at 0, 3 every 8] <- x[0..8] on s",
            "cudaMemcpy2DAsync(d, 8, x, 4, 4, 3, cudaMemcpyHostToDevice, s);",
        ],
    );
    says(
        odd,
        Language::PyTorch,
        &[
            "# no PyTorch form: memset d[4 at 16, 3 every -8] 0 on s",
            "# no PyTorch form: copy d[0..8] <- x[0..4] on s",
            "# no PyTorch form: copy d[4 at 0, 3 every 8] <- x[0..8] on s",
            "with torch.cuda.stream(s): d.as_strided((3, 4), (8, 1), 0).copy_(x[0:12].reshape(3, 4), non_blocking=True)",
        ],
    );
}

#[test]
fn blocking_calls_stay_on_their_stream() {
    // `cudaMemcpy` is on stream 0, which a non-blocking stream is not ordered with.
    says(
        "stream s\ndevice d 8\npinned x 8\ncopy d <- x on s blocking\nmemset d 0 on s blocking\nmemset x 0 on s blocking\n\
         copy d <- x blocking\nmemset d 0 blocking\ncopy d <- x on 0 blocking\ncapture s\ncopy d <- x on s blocking\n\
         end capture s as g\n",
        Language::Cuda,
        &[
            "cudaMemcpyAsync(d, x, 8, cudaMemcpyHostToDevice, s); cudaStreamSynchronize(s);  // copy d <- x blocking on s",
            "cudaMemsetAsync(d, 0, 8, s);",
            "cudaMemsetAsync(x, 0, 8, s); cudaStreamSynchronize(s);  // memset x 0 blocking on s",
            "cudaMemcpy(d, x, 8, cudaMemcpyHostToDevice);",
            "cudaMemset(d, 0, 8);",
            "cudaMemcpy(d, x, 8, cudaMemcpyHostToDevice);",
            // Nobody waits for what is captured.
            "cudaMemcpyAsync(d, x, 8, cudaMemcpyHostToDevice, s);",
        ],
    );
}

#[test]
fn threads_in_python_take_names_away_from_all() {
    says(
        "spawn w\nw: event e\nw: destroy event e\nstream s\nw: capture s\nend capture s as g\n",
        Language::PyTorch,
        &["def w_calls():", "global e, g"],
    );
}

#[test]
fn where_pytorch_orders_more_the_program_stands_beside_it() {
    says(
        "pageable h 8\npinned p 8\ndevice d 8\ndevice o 8 on cuda:1\nstream s\ncopy d <- h blocking\ncopy d <- p blocking\n\
         copy o <- d on s\nmemset p on s\ncopy h <- p on s\n",
        Language::PyTorch,
        &[
            "d.copy_(h)  # copy d <- h blocking",
            "d.copy_(p)",
            "with torch.cuda.stream(s): o.copy_(d, non_blocking=True)  # copy o <- d on s",
            "with torch.cuda.stream(s): p.fill_(0)  # memset p 0 on s",
            "with torch.cuda.stream(s): h.copy_(p, non_blocking=True)  # copy h <- p on s",
        ],
    );
}

#[test]
fn names_and_labels_cannot_become_code() {
    let program = Program::from_text(
        "stream \"s\\n*/ import os #\"\ndevice \"class\" 16\ndevice \"class_2\" 16\ndevice \"cla ss\" 16\n\
         kernel \"k\\n#include <x> \\\\ \" on \"s\\n*/ import os #\" writes \"class\" for 1us\nmemset \"class\" 0 on \"s\\n*/ import os #\" \"a\\nb\"\n",
    )
    .unwrap();
    for language in Language::ALL {
        let code = program.to_code(language);
        for line in code.lines() {
            let told = line.trim_start();
            assert!(
                !told.starts_with("*/")
                    && !told.starts_with("#include <x>")
                    && !told.starts_with("import os"),
                "{code}"
            );
            assert!(!line.ends_with('\\'), "{code}");
        }
    }
}

/// Gives a text to a command that judges it; `None`, said aloud, where there is none.
fn judged(mut command: Command, text: &str) -> Option<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: {command:?} is not here");
        return None;
    };
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    Some(if output.status.success() {
        String::new()
    } else {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })
}

/// Every program that ships, and random ones with every command.
fn programs() -> Vec<(String, Program)> {
    let random = (0..40).map(|seed| (format!("seed {seed}"), crate::random::program(seed, 60)));
    all_shipped().into_iter().filter(|(_, p)| p.len() < 2000).chain(random).collect()
}

/// PyTorch as far as the texts use it: nothing is moved, but sizes, ends and types are looked at as there, and names that are gone are
/// gone. Each text, apart from the next by a line that none has, is run to its end, its threads too.
const TORCH: &str = r"
import faulthandler, queue, sys, threading, types

faulthandler.dump_traceback_later(60, exit=True)
ENDS = {'uint8': (0, 255), 'int8': (-128, 127), 'int16': (-2**15, 2**15 - 1), 'int32': (-2**31, 2**31 - 1), 'int64': (-2**63, 2**63 - 1),
        'float16': 65504, 'bfloat16': 3.3895313892515355e38, 'float32': 3.4028234663852886e38, 'float64': 1.8e308,
        'complex64': 3.4028234663852886e38, 'complex128': 1.8e308}
BYTES = dict(zip(ENDS, [1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16]))
Dtype = type('Dtype', (str,), {})

def holds(dtype, value):
    ends = ENDS[dtype]
    low, high = ends if isinstance(ends, tuple) else (-ends, ends)
    assert low <= value <= high or abs(value) == float('inf') and not isinstance(ends, tuple), f'{value} is no {dtype}'

class Tensor:
    def __init__(self, n, dtype, shape=None):
        self.n, self.dtype, self.shape = n, dtype, shape or (n,)
    def __getitem__(self, part):
        assert 0 <= part.start <= part.stop <= self.n or part.start == part.stop, part
        return Tensor(part.stop - part.start, self.dtype)
    def as_strided(self, shape, strides, at):
        assert len(shape) == len(strides) and all(s >= 0 for s in strides)
        assert at >= 0 and at + sum((n - 1) * s for n, s in zip(shape, strides)) < self.n or 0 in shape
        n = 1
        for dim in shape:
            n *= dim
        return Tensor(n, self.dtype, shape)
    def reshape(self, *shape):
        made = Tensor(0, self.dtype).as_strided(shape, (0,) * len(shape), -1) if 0 in shape else Tensor(10**18, self.dtype).as_strided(shape, (0,) * len(shape), 0)
        assert made.n == self.n
        return made
    def view(self, dtype):
        n = self.n * BYTES[self.dtype]
        assert n % BYTES[dtype] == 0
        return Tensor(n // BYTES[dtype], dtype)
    def copy_(self, src, non_blocking=False):
        assert self.shape == src.shape and self.dtype == src.dtype, (self.shape, src.shape)
    def fill_(self, value): holds(self.dtype, value)
    def __eq__(self, value): return holds(self.dtype, value) or self
    def all(self): return True
    def sum(self): pass
    def data_ptr(self): return id(self)
    def record_stream(self, stream): assert isinstance(stream, Handle)

class Handle:
    def __init__(self, device=0, priority=0): pass
    def __getattr__(self, name):
        assert name in NAMES[type(self).__name__], name
        return lambda *args, **how: name == 'query'
    def __enter__(self): pass
    def __exit__(self, *why): pass

class Stream(Handle): pass
class Event(Handle): pass
class CUDAGraph(Handle): pass

NAMES = {'Stream': ['synchronize', 'query', 'wait_event'], 'Event': ['record', 'synchronize', 'query'],
         'CUDAGraph': ['capture_begin', 'capture_end', 'replay']}

def made(n, dtype, device=None, pin_memory=False):
    assert not (device and pin_memory)
    return Tensor(n, dtype)

def full(shape, value, dtype, device=None, pin_memory=False):
    holds(dtype, value)
    return made(shape[0], dtype, device, pin_memory)

def done(*args): pass
registered = set()
runtime = types.SimpleNamespace(cudaHostRegister=lambda at, n, flags: registered.add(at), cudaHostUnregister=registered.remove)
torch = types.ModuleType('torch')
torch.empty, torch.full, torch.inf = made, full, float('inf')
vars(torch).update((name, Dtype(name)) for name in ENDS)
torch.cuda = types.SimpleNamespace(
    Stream=Stream, Event=Event, CUDAGraph=CUDAGraph, stream=lambda of: of, default_stream=Stream, synchronize=done, _sleep=done,
    clock_rate=lambda: 1000, cudart=lambda: runtime)
clock = iter(range(10**12))
sys.modules['torch'] = torch
sys.modules['time'] = types.SimpleNamespace(sleep=done, perf_counter=lambda: next(clock) * 1e18)
failed = []
threading.excepthook = lambda why: failed.append(why.exc_value)
for k, text in enumerate(sys.stdin.read().split('\f')):
    try:
        exec(compile(text, f'text {k}', 'exec'), {})
        [thread.join() for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    except Exception as why:
        failed.append(why)
    if failed:
        sys.exit(f'text {k}: {failed[0]!r}\n{text}')
";

#[test]
fn numbers_are_what_their_types_hold() {
    for (contents, told) in [
        ("u8 fill 300", "255"),
        ("u8 fill -0.5", "0"),
        ("i8 fill -300", "-128"),
        ("i16 fill 1.9", "1"),
        ("i64 fill 1e19", "9223372036854775807"),
        ("i64 fill -1e19", "-9223372036854775808"),
        ("f16 fill 65504", "65504.0"),
        ("f16 fill 65519.9", "65504.0"),
        ("f16 fill 65520", "torch.inf"),
        ("f16 fill 0.1", "0.1"),
        ("bf16 fill -3.396e38", "-3.3895313892515355e38"),
        ("bf16 fill 3.3961775292304957e38", "torch.inf"),
        ("f32 fill 3.40282356e38", "3.4028234663852886e38"),
        ("f32 fill -3.4028235677973366e38", "-torch.inf"),
        ("c32 fill 1e39", "torch.inf"),
        ("f64 fill 1e39", "1e39"),
    ] {
        let line = format!(".fill_({told})");
        let code = Program::from_text(&format!("pinned x 4KiB\nwrite x = {contents}\n")).unwrap();
        let code = code.to_code(Language::PyTorch);
        assert!(code.contains(&line), "{contents}: no {line} in\n{code}");
    }
}

#[test]
fn python_runs_the_text() {
    let told = "stream s\npinned r 4KiB = u8 fill 300\ndevice d 4KiB = f16 fill -1e9\ncopy d <- r on s\nsync s\n\
                free r via unregister\nread r expect u8 fill 300\nwrite r = i32 fill 1.5\nread d[0..64] expect f16 fill -1e9\n";
    let told = Program::from_text(told).unwrap();
    // Random programs use what they have freed: here nothing is.
    let kept = |(name, program): (String, Program)| {
        if !name.starts_with("seed") {
            return Some(program);
        }
        let stays = |line: &&str| !line.contains("free ") && !line.contains("destroy ");
        let text = program.to_text();
        let text: Vec<&str> = text.lines().filter(stays).collect();
        Program::from_text(&(text.join("\n") + "\n")).ok()
    };
    let programs: Vec<Program> = programs().into_iter().filter_map(kept).chain([told]).collect();
    assert!(programs.len() > 60, "{}", programs.len());
    let all: Vec<String> = programs.iter().map(|p| p.to_code(Language::PyTorch)).collect();
    let mut python = Command::new("python3");
    python.args(["-c", TORCH]);
    let Some(why) = judged(python, &all.join("\u{c}")) else { return };
    assert_eq!(why, "");
}

/// What of CUDA's header the texts use, as it is declared there.
const HEADER: &str = "
#include <cstddef>
#define __global__
#define __device__
#define CUDART_CB
typedef int cudaError_t; typedef struct S *cudaStream_t; typedef struct E *cudaEvent_t;
typedef struct G *cudaGraph_t; typedef struct X *cudaGraphExec_t;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
enum { cudaStreamDefault, cudaStreamNonBlocking, cudaEventDisableTiming, cudaHostRegisterDefault, cudaSuccess = 0 };
cudaError_t cudaSetDevice(int);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned); cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *, unsigned, int);
template <class T> cudaError_t cudaMalloc(T **, size_t); template <class T> cudaError_t cudaMallocHost(T **, size_t, unsigned = 0);
template <class T> cudaError_t cudaMallocManaged(T **, size_t, unsigned = 1);
template <class T> cudaError_t cudaMallocAsync(T **, size_t, cudaStream_t);
cudaError_t cudaFree(void *); cudaError_t cudaFreeHost(void *); cudaError_t cudaFreeAsync(void *, cudaStream_t);
cudaError_t cudaHostRegister(void *, size_t, unsigned); cudaError_t cudaHostUnregister(void *);
cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpyPeer(void *, int, const void *, int, size_t);
cudaError_t cudaMemcpyPeerAsync(void *, int, const void *, int, size_t, cudaStream_t);
cudaError_t cudaMemset(void *, int, size_t); cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);
cudaError_t cudaMemset2D(void *, size_t, int, size_t, size_t);
cudaError_t cudaMemset2DAsync(void *, size_t, int, size_t, size_t, cudaStream_t);
cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*)(void *), void *);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned); cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t); cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaEventSynchronize(cudaEvent_t); cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaStreamSynchronize(cudaStream_t); cudaError_t cudaStreamQuery(cudaStream_t); cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, unsigned long long = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
void launched(void (*)(long long), cudaStream_t, long long);
static void spin(long long);
";

/// The text with what only CUDA's compiler knows written as C++: launches, and the assembler in `spin`.
fn as_cpp(code: &str) -> String {
    let mut text = String::new();
    let mut in_spin = false;
    for line in code.lines() {
        in_spin |= line.starts_with("static __device__ void spin");
        if let Some((kernel, rest)) = line.split_once("<<<1, 1, 0, ")
            && let Some((stream, rest)) = rest.split_once(">>>(")
        {
            text += &format!("launched({}, {stream}, {rest}\n", kernel.trim());
        } else if !in_spin && !line.contains("cuda_runtime.h") {
            text += &format!("{line}\n");
        }
        in_spin &= line != "}";
    }
    text
}

#[test]
fn a_compiler_takes_the_cuda_text() {
    // One name space each, so that one run of the compiler sees all.
    let mut all = String::from(
        "#include <atomic>\n#include <chrono>\n#include <cstdlib>\n#include <cstring>\n#include <latch>\n#include <semaphore>\n#include <thread>\n",
    );
    all += HEADER;
    for (k, (_, program)) in programs().iter().enumerate() {
        let code = as_cpp(&program.to_code(Language::Cuda)).replace("int main()", "int main_()");
        let code: String =
            code.lines().filter(|l| !l.starts_with("#include")).map(|l| format!("{l}\n")).collect();
        all += &format!("namespace n{k} {{\n{code}}}\n");
    }
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++20", "-fsyntax-only", "-x", "c++", "-"]);
    let Some(why) = judged(compiler, &all) else { return };
    assert!(why.is_empty(), "{}", why.chars().take(2000).collect::<String>());
    // The headers that a text names are the ones it needs.
    for (name, program) in programs() {
        let code = program.to_code(Language::Cuda);
        for (word, header) in [
            ("std::atomic", "atomic"),
            ("std::jthread", "thread"),
            ("std::this_thread", "thread"),
            ("std::latch", "latch"),
            ("std::counting_semaphore", "semaphore"),
            (" memset(", "cstring"),
        ] {
            let n = code.matches(&format!("#include <{header}>")).count();
            assert!(n == 1 || n == 0 && !code.contains(word), "{name}: {header} {n} times");
        }
    }
}
