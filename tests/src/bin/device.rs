//! What has to be seen on a device, for `native/gpu-check`: each part prints one JSON object.
//!
//! ```text
//! device operators [--little | --seconds N]   every operator on cuda:0 against the reference evaluator; with --little on one
//!                                             side each, with --seconds as many as begin in that time; standard
//!                                             error has each before it runs
//! device lists [--little]                     lists of copies within cuda:0 as one kernel, against copies of bytes; how long one of
//!                                             10,000 pieces of 4 KB takes beside as many calls
//! device lesson [--little]                    what lesson 9 does where there is a device; with --little measured with small
//!                                             copies
//! ```
//!
//! The driver is the machine's, or the one that SPANLIFT_CUDA_LIB names. Exit status: 0 all is right, 1 something is wrong,
//! 2 cannot start.
#![expect(clippy::print_stdout, reason = "its object is what it is for")]
#![expect(clippy::unwrap_used, reason = "the tables are those of tests, where a panic is the report")]

#[path = "../../../core/tests/operators/oracle.rs"]
#[expect(dead_code, reason = "matrices are what the tests of the reference need")]
mod oracle;
#[path = "../../../core/tests/operators/table.rs"]
#[expect(dead_code, reason = "matrices are what the tests of the reference need")]
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spanlift::advise::transfer::{Calibration, Explain};
use spanlift::memory::{cpu, cuda as device};
use spanlift::op::{Array, Operator, to};
use spanlift::{Bytes, chain, kib, mib};
use spanlift_native::course::{Here, check_run};
use spanlift_native::cuda::{self, CudaError, Driver, RunError};
use spanlift_native::engine::{Config, Engine, EngineError};

use oracle::{Random, eps};
use table::{Entry, FIELDS, table};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let part: Box<dyn FnOnce(Driver) -> (Value, bool)> =
        match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["operators"] => Box::new(|driver| operators(&driver, false, Duration::MAX)),
            ["operators", "--little"] => Box::new(|driver| operators(&driver, true, Duration::MAX)),
            ["operators", "--seconds", n] => match n.parse() {
                Ok(n) => Box::new(move |driver| operators(&driver, false, Duration::from_secs(n))),
                Err(_) => return fail("--seconds: a whole number is needed"),
            },
            ["lists"] => Box::new(|driver| lists(&driver, 400, 10_000)),
            ["lists", "--little"] => Box::new(|driver| lists(&driver, 12, 20)),
            ["lesson"] => Box::new(|driver| lesson(Here::on(Ok(driver)), &[kib(64), mib(1), mib(16)])),
            ["lesson", "--little"] => {
                Box::new(|driver| lesson(Here::with_copies_of(Ok(driver), mib(4)), &[kib(64), mib(1)]))
            }
            _ => {
                let all = "operators [--little | --seconds N] | lists [--little] | lesson [--little]";
                return fail(&format!("usage: device {all}"));
            }
        };
    match Driver::open() {
        Ok(driver) => {
            let (object, is_right) = part(driver);
            println!("{object}");
            ExitCode::from(u8::from(!is_right))
        }
        Err(why) => fail(&why.to_string()),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("device: {why}");
    ExitCode::from(2)
}

/// What came of everything that was run.
#[derive(Default)]
struct Found {
    n_runs: usize,
    n_equal: usize,
    /// The largest difference of the others, in units of the last place of the largest value.
    worst: f64,
    wrong: Vec<String>,
    /// What is not run here, and why.
    left_out: Vec<String>,
    /// For how many no time was left.
    n_late: usize,
}

fn operators(driver: &Driver, is_little: bool, time: Duration) -> (Value, bool) {
    let (mut found, began) = (Found::default(), Instant::now());
    // Kept over all runs: a context whose last owner goes is taken down, and one takes longer to make than all of a run.
    let Ok(_context) = driver.context(0).inspect_err(|e| found.wrong.push(e.to_string())) else {
        return found.told();
    };
    for (k, dtype) in FIELDS.into_iter().enumerate() {
        for (n, Entry { name, op, .. }) in table(dtype).into_iter().enumerate() {
            let sides = [("A", op.clone()), ("A^H", op.h()), ("A^T", op.t()), ("A.N", op.n())];
            for (at, (side, a)) in sides.into_iter().enumerate() {
                // A little: of each operator one type and one side, in turn.
                if is_little && (n % FIELDS.len() != k || n / FIELDS.len() % 4 != at) {
                    continue;
                }
                if time <= began.elapsed() {
                    found.n_late += 1;
                } else {
                    found.run(&format!("{name}, {dtype}, {side}"), &a, driver);
                }
            }
        }
    }
    found.told()
}

impl Found {
    fn told(self) -> (Value, bool) {
        let Found { n_runs, n_equal, worst, wrong, left_out, n_late } = self;
        let is_right = wrong.is_empty() && n_runs > 0;
        let object = json!({
            "n_runs": n_runs, "n_equal": n_equal, "worst_in_eps": worst, "n_wrong": wrong.len(), "wrong": wrong,
            "left_out": left_out, "n_late": n_late,
        });
        (object, is_right)
    }

    fn run(&mut self, what: &str, a: &Operator, driver: &Driver) {
        // Told beforehand: of one that ends the process this is all that is left.
        eprintln!("{what}");
        let x = Random(7).array(a.domain());
        let there = chain![to(device(0)), a.on(device(0)), to(cpu())].unwrap();
        // Spaces without elements have no plan.
        let Ok(plan) = there.plan_for(&x) else { return };
        match cuda::run_knowing(plan.program(), driver, 0, &plan) {
            Ok(run) => {
                self.n_runs += 1;
                self.compare(what, &there, &x, plan.result(&run.finals));
            }
            Err(
                e
                @ (RunError::Unsupported { .. } | RunError::Cuda { error: CudaError::NoLibrary { .. }, .. }),
            ) => {
                self.left_out.push(format!("{what}: {e}"));
            }
            Err(e) => self.wrong.push(format!("{what}: {e}")),
        }
    }

    fn compare(&mut self, what: &str, a: &Operator, x: &Array, y: Option<Array>) {
        let (Some(y), expected) = (y, a.apply(x).unwrap()) else {
            return self.wrong.push(format!("{what}: no result"));
        };
        if y == expected {
            self.n_equal += 1;
            return;
        }
        let scale = [x, &expected].iter().flat_map(|a| a.values()).map(|v| v.norm()).fold(0.0, f64::max);
        let errors = y.values().iter().zip(expected.values()).map(|(y, e)| (y - e).norm());
        let error = errors.fold(0.0, f64::max) / (eps(a.domain().dtype()) * scale);
        self.worst = self.worst.max(error);
        // As the kernels of the processor are held to.
        if error.is_nan() || error > 64.0 {
            self.wrong.push(format!("{what}: {error} units of the last place"));
        }
    }
}

/// Lists of copies, drawn: both ends of pieces at each place within 16 bytes, sources that meet one another, and a piece of many
/// parts. What lies between the destinations stays.
fn lists(driver: &Driver, n_lists: u64, n_timed: usize) -> (Value, bool) {
    let (mut n_pieces, mut n_bytes, mut n_listed, mut wrong) = (0, 0, 0, Vec::new());
    let config = Config { calibration: Calibration::recorded("gen5"), ..Config::default() };
    let told = || -> Result<Value, EngineError> {
        let engine = Engine::on(driver, 0, config)?;
        let stream = engine.stream();
        for seed in 0..n_lists {
            let mut random = Random(seed + 1);
            random.warm();
            let mut below = |n: usize| usize::try_from(random.below(n as u64)).unwrap_or(0);
            let source: Vec<u8> = (0..200_000).map(|_| below(256).to_le_bytes()[0]).collect();
            let there = engine.upload(stream, &source)?.share();
            let most = [3, 60, 900, 5000][below(4)];
            // Both ends at each place within 16 bytes, then anywhere, then a long one.
            let mut pieces: Vec<(usize, usize)> = Vec::new();
            let (mut to, mut end) = (Vec::new(), 0);
            let mut add = |at: usize, within: usize, n: usize| {
                let start = end + 1 + (within + 15 - end % 16) % 16;
                pieces.push((at, n));
                to.push(start..start + n);
                end = start + n;
            };
            (0..256).for_each(|k| add(k % 16 + 16 * below(1000), k / 16, below(most)));
            (0..100).for_each(|_| add(below(190_000), below(16), below(most)));
            add(below(16), below(16), 150_000 + below(1000));
            let from: Option<Vec<_>> = pieces.iter().map(|&(at, n)| there.part(at..at + n)).collect();
            let mut found = engine.upload(stream, &vec![0xDB; end + 1])?;
            engine.copy_all(stream, &from.unwrap_or_default(), &mut found.parts(&to)?)?;
            n_listed += engine.explain_each().iter().filter(|explain| is_list(explain)).count();
            let mut expected = vec![0xDB; end + 1];
            for ((at, n), to) in pieces.iter().zip(to) {
                expected[to].copy_from_slice(&source[*at..at + n]);
                (n_pieces, n_bytes) = (n_pieces + 1, n_bytes + n);
            }
            let found = engine.download_vec(stream, &found)?;
            if let Some(at) = found.iter().zip(&expected).position(|(found, byte)| found != byte) {
                wrong.push(format!("list {seed}, byte {at}"));
            }
        }
        timed(&engine, n_timed)
    };
    let (times, is_told) = match told() {
        Ok(times) => (times, true),
        Err(error) => (json!(error.to_string()), false),
    };
    let is_right = is_told && wrong.is_empty() && n_listed as u64 == n_lists;
    let object = json!({
        "n_lists": n_lists, "n_listed": n_listed, "n_pieces": n_pieces, "n_bytes": n_bytes, "wrong": wrong, "times": times,
    });
    (object, is_right)
}

fn is_list(explain: &Explain) -> bool {
    explain.plan.chosen.terms.iter().any(|term| term.name == "list")
}

/// The least of five times, until all is there: of one list, and of a call for each of its pieces.
fn timed(engine: &Engine, n: usize) -> Result<Value, EngineError> {
    let stream = engine.stream();
    let from = engine.upload_all(stream, &vec![[7u8; 4000]; n])?;
    let mut to = Vec::new();
    for _ in 0..n {
        to.push(engine.alloc::<u8>(stream, 4000)?);
    }
    let least = |work: &mut dyn FnMut() -> Result<(), EngineError>| -> Result<[f64; 2], EngineError> {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..5 {
            engine.synchronize()?;
            let began = Instant::now();
            work()?;
            let returned = began.elapsed();
            engine.synchronize()?;
            for (least, time) in least.iter_mut().zip([began.elapsed(), returned]) {
                *least = least.min(time.as_secs_f64() * 1e3);
            }
        }
        Ok(least)
    };
    let [list, list_returned] = least(&mut || engine.copy_all(stream, &from, &mut to))?;
    let [calls, _] =
        least(&mut || from.iter().zip(&mut to).try_for_each(|(from, to)| engine.copy(stream, from, to)))?;
    Ok(json!({"n": n, "list_ms": list, "list_returned_ms": list_returned, "calls_ms": calls}))
}

const DOWN_AND_UP: &str = "stream s\npinned x 64KiB = f32 fill 2\npinned y 64KiB = f32 fill 0\ndevice d 64KiB\n\
                           copy d <- x on s\ncopy y <- d on s\nsync s\nread y expect f32 fill 2";

fn lesson(here: Here, sizes: &[Bytes]) -> (Value, bool) {
    let run = here.run(DOWN_AND_UP).plain().to_owned();
    // The lesson's own judge: what races is not run, whatever the machine.
    let racy = check_run(&here, &DOWN_AND_UP.replace("sync s\n", "")).plain().to_owned();
    let is_right =
        here.is_device() && run.contains("run on cuda:0") && racy.starts_with("not yet: not run: race");
    let object = json!({
        "place": here.place(), "is_device": here.is_device(), "profile": here.profile().plain(),
        "copies": here.copies(sizes).plain(), "engine": here.engine(sizes).plain(), "run": run, "racy": racy,
    });
    (object, is_right)
}
