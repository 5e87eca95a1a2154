//! A program with an error at every call of the driver that it comes to, and in every piece of its work: typed, no values that
//! are wrong without one, nothing misused and nothing left behind.

use spanlift::memory::Dtype;
use spanlift::program::{Compute, Contents, Space};
use spanlift::sim::Final;
use spanlift::{Bytes, Program};
use spanlift_native::cuda::{self, Driver as Cuda, RunError};
use spanlift_softcuda::kit::{self, Driver};
use spanlift_softcuda::{Code, Config, Fault, Pageable};

/// Two streams, memory of every kind, a kernel and a function of the host.
fn mixed() -> Program {
    let mut p = Program::new();
    let (s, t) = (p.stream("s"), p.stream("t"));
    // The first that goes, and touched by a function of the host alone.
    let out = p.buffer("out", Space::Pinned, 0, Bytes(256), None);
    let ramp = Contents::ramp(Dtype::I32, 1.0, 1.0);
    let x = p.buffer("x", Space::Pinned, 0, Bytes(256), ramp.clone());
    let y = p.buffer("y", Space::Pageable, 0, Bytes(256), ramp);
    let home = p.buffer("home", Space::Pinned, 0, Bytes(256), None);
    let d = p.alloc(Space::Device, "d", Bytes(256)).on(s).declare();
    let e = p.device(0, "e", Bytes(256));
    p.copy(d, x).on(s);
    p.kernel("twice").reads(d).writes(d).computes(Compute::affine(Dtype::I32, 2.0, 0.0)).on(s);
    p.copy(e, y).on(t);
    let ready = p.event_after(s);
    p.wait(t, ready);
    p.kernel("sum").reads(d).reads(e).writes(e).computes(Compute::sum(Dtype::I32)).on(t);
    p.copy(home, e).on(t);
    p.host_fn("add").reads(home).writes(out).computes(Compute::affine(Dtype::I32, 1.0, 4.0)).on(t);
    let done = p.event_after(t);
    p.memset(d, 0).on(t);
    p.event_sync(done);
    p.host_expect(out, Contents::ramp(Dtype::I32, 7.0, 3.0));
    p.sync(t);
    p
}

fn base() -> Config {
    Config::from_environment().unwrap()
}

/// Runs it with these faults; the values, if there was no error.
fn run(driver: &Driver, faults: Vec<Fault>) -> Result<Vec<Final>, RunError> {
    driver.reset(Config { faults, ..base() });
    let cuda = Cuda::open_first(&["libcuda.so"]).unwrap();
    let ran = cuda::run(&mixed(), &cuda, 0)?;
    assert!(ran.reads.iter().all(|read| read.is_right()), "wrong values without an error");
    Ok(ran.finals)
}

fn fault(at: &str, after: u64, code: u32, sticky: bool) -> Fault {
    let after = u32::try_from(after).unwrap();
    Fault { at: at.to_owned(), device: None, after, code: Code(code), times: 1, sticky }
}

#[test]
fn a_program_survives_an_error_at_every_call_and_in_every_piece_of_work() {
    let strict = Config { pageable: Pageable::Strict, ..Config::default() };
    kit::alone_unchecked(&[Config::default(), strict], |driver| {
        let expected = run(driver, Vec::new()).unwrap();
        driver.assert_clean();
        let report = driver.report();
        // Before there is a driver nothing of it can be refused here.
        let asked_first =
            |call: &str| call.starts_with("cuDevice") || ["cuDriverGetVersion", "cuInit"].contains(&call);
        let calls = report.calls.iter().filter(|(call, _)| !asked_first(call));
        let calls = calls.map(|(call, n)| (call.clone(), *n));
        let work =
            ["copy", "kernel", "memset", "host"].map(|kind| (format!("exec:{kind}"), report.ops[kind]));
        let mut n_told = 0;
        for (at, n) in calls.chain(work) {
            for k in 0..n {
                for (code, sticky) in [(1, false), (2, false), (719, true)] {
                    let what = format!("{at} {k}: {code}");
                    match run(driver, vec![fault(&at, k, code, sticky)]) {
                        Ok(finals) => assert_eq!(finals, expected, "{what}"),
                        Err(error) => {
                            n_told += 1;
                            assert!(error.to_string().contains(&code.to_string()), "{what}: {error}");
                        }
                    }
                    let report = driver.finish();
                    assert_eq!(report.violations, [], "{what}");
                    // What nobody can show to be idle, or is refused to be freed, stays.
                    let may_leak = sticky
                        || at.contains("Free")
                        || at.contains("Synchronize")
                        || at.starts_with("exec:");
                    let may_leak = may_leak || at == "cuCtxSetCurrent" || at == "cuMemPoolDestroy";
                    assert!(may_leak || report.leaked.is_empty(), "{what}: {:?}", report.leaked);
                }
            }
        }
        assert!(n_told > 100, "{n_told}");
    });
}

/// A function of the host is still to write page-locked memory when the program ends with an error and no wait succeeds: the
/// memory stays.
#[test]
fn memory_of_functions_that_nobody_could_wait_for_stays() {
    kit::alone_unchecked(&[Config::default()], |driver| {
        let waits = Fault { times: 1000, ..fault("cuCtxSynchronize", 0, 1, false) };
        run(driver, Vec::new()).unwrap();
        // The last one is the program's own, behind the function.
        let n_memsets = driver.report().calls["cuMemsetD8Async"];
        let stops = fault("cuMemsetD8Async", n_memsets - 1, 1, false);
        assert!(run(driver, vec![stops, waits]).is_err());
        assert_eq!(driver.finish().violations, []);
    });
}
