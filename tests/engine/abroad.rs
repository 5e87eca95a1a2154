//! Memory that is used on another stream than its home, and what is another device's.

use std::panic::{AssertUnwindSafe, catch_unwind};

use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift::memory::Dtype;
use spanlift::program::{Compute, StreamKind};
use spanlift_native::cuda::{Driver as Cuda, Kernels, Stream};
use spanlift_native::engine::{DevBuf, Engine, EngineError, Watch};
use spanlift_softcuda::{Code, Config, Fault, Pageable, kit};

use crate::{bytes, engine, n_wrong, with_slots};

/// Several chunks of the slots here.
const N: usize = 9_000;

/// Two devices, a stream of the first that is no memory's home, and memory of both whose homes have nothing left to do.
struct Bench {
    here: Engine,
    there: Engine,
    away: Stream,
    kernels: Kernels,
}

/// Gives the stream something to do with memory, which is dropped when it returns.
type Work = fn(&Bench, DevBuf<u8>, DevBuf<u8>) -> Result<(), EngineError>;

fn request(way: Way) -> Request {
    Request { force: Some(way), ..Request::one(Route::Up, HostMemory::Pageable, Bytes(N as u64)) }
}

const WORK: [(&str, Work); 13] = [
    ("ring", |b, mut x, _| {
        b.here.upload_with(&request(Way::Ring), &b.away, &bytes(N, 2), &mut x, Watch::default())
    }),
    ("staged by the driver", |b, mut x, _| {
        b.here.upload_with(&request(Way::Driver), &b.away, &bytes(N, 2), &mut x, Watch::default())
    }),
    ("a part", |b, mut x, _| {
        let piece = b.here.upload(&b.away, &bytes(900, 2))?;
        b.here.copy_all(&b.away, &[piece], &mut x.parts(std::slice::from_ref(&(5..905)))?)
    }),
    ("home", |b, x, _| {
        let mut back = vec![0; N];
        b.here.download(&b.away, &x, &mut back)?;
        assert_eq!(n_wrong(&back, &bytes(N, 1)), 0);
        Ok(())
    }),
    ("h2d", |b, x, _| {
        b.here.h2d(&b.away, b.here.pinned(N)?, x)?.wait()?;
        Ok(())
    }),
    ("d2h", |b, x, _| {
        let (_, host) = b.here.d2h(&b.away, x, b.here.pinned(N)?)?.wait()?;
        assert_eq!(n_wrong(&host, &bytes(N, 1)), 0);
        Ok(())
    }),
    ("lent", |b, mut x, _| {
        let mut host = b.here.pinned(N)?;
        b.here.scope(|s| s.d2h(&b.away, &mut x, &mut host).map(std::mem::forget))?;
        assert_eq!(n_wrong(&host, &bytes(N, 1)), 0);
        Ok(())
    }),
    ("copy", |b, x, mut y| {
        b.here.copy(&b.away, &x, &mut y)?;
        drop(x);
        Ok(())
    }),
    ("list", |b, x, mut y| {
        let ranges: Vec<_> = (0..N).step_by(100).map(|at| at..at + 100).collect();
        let x = x.share();
        let views: Vec<_> = ranges.iter().filter_map(|range| x.part(range.clone())).collect();
        b.here.copy_all(&b.away, &views, &mut y.parts(&ranges)?)
    }),
    ("compute", |b, x, mut y| {
        b.here.compute(&b.away, &b.kernels, Compute::affine(Dtype::U8, 3.0, 1.0), &x, &mut y)?;
        drop(x);
        Ok(())
    }),
    ("update", |b, mut x, _| {
        b.here.update(&b.away, &b.kernels, Compute::affine(Dtype::U8, 3.0, 1.0), &mut x)
    }),
    ("to another device", |b, x, _| {
        let across = b.here.to_device(&b.there, &b.away, b.there.stream(), &x)?;
        assert_eq!(n_wrong(&b.there.download_vec(b.there.stream(), &across)?, &bytes(N, 1)), 0);
        Ok(())
    }),
    ("from another device", |b, x, y| {
        drop((x, y));
        let there = b.there.upload(b.there.stream(), &bytes(N, 3))?;
        b.there.to_device(&b.here, b.there.stream(), &b.away, &there).map(drop)
    }),
];

/// How often each call was made before the work and in all, and what it told.
type Ran = ([std::collections::BTreeMap<String, u64>; 2], Result<(), EngineError>);

fn run(driver: &kit::Driver, config: Config, work: Work) -> Ran {
    driver.reset(config);
    let cuda = Cuda::open_first(&["libcuda.so"]).expect("the software driver is loaded");
    let [here, there] = [0, 1].map(|k| Engine::on(&cuda, k, with_slots(1, 4096)).expect("opens"));
    let away = Stream::new(here.context(), StreamKind::NonBlocking).expect("a stream");
    let kernels = Kernels::load(here.context()).expect("loads");
    let memory = [1, 2].map(|seed| here.upload(here.stream(), &bytes(N, seed)).expect("up"));
    here.synchronize().expect("everything is there");
    let bench = Bench { here, there, away, kernels };
    let before = driver.report().calls;
    let [x, y] = memory;
    let told = work(&bench, x, y);
    // Somebody else has the memory at once.
    let next = [0u64, 1].map(|_| bench.here.upload(bench.here.stream(), &bytes(N, 4)));
    drop((next, bench));
    ([before, driver.report().calls], told)
}

const WAIT: &str = "cuStreamSynchronize";

fn refused(at: &str, after: u64, times: u32) -> Fault {
    let after = u32::try_from(after).expect("few calls");
    Fault { at: at.to_owned(), device: None, after, code: Code(1), times, sticky: false }
}

/// Memory goes to nobody else before every stream is done with it, also where the driver refuses whatever would have told so, once or
/// several times in a row.
#[test]
fn memory_is_nobody_else_s_before_the_last_stream_is_done() {
    let no_pages = Fault { code: Code(2), ..refused("cuMemHostAlloc", 0, 1 << 20) };
    let configs = [
        Config::default(),
        Config { peers: false, pageable: Pageable::Strict, faults: vec![no_pages], ..Config::default() },
    ];
    kit::alone_unchecked(&configs, |driver| {
        let base = Config::from_environment().expect("a configuration");
        let has_pages = base.faults.is_empty();
        let (mut n_refused, mut n_told) = (0, 0);
        for (name, work) in WORK {
            if !has_pages && ["h2d", "d2h", "lent"].contains(&name) {
                continue;
            }
            let ([before, all], told) = run(driver, base.clone(), work);
            told.unwrap_or_else(|error| panic!("{name}: {error}"));
            driver.assert_clean();
            for (at, n) in all {
                let is_order = ["Synchronize", "Record", "WaitEvent", "Memcpy", "Launch"];
                if !is_order.iter().any(|part| at.contains(part)) {
                    continue;
                }
                let first = before.get(&at).copied().unwrap_or(0);
                for (k, times, is_deaf) in
                    (first..n).flat_map(|k| [(k, 1, false), (k, 3, false), (k, 1, true)])
                {
                    let mut faults = base.faults.clone();
                    faults.push(refused(&at, k, times));
                    // No stream tells any more when it is done.
                    let waits = before.get(WAIT).copied().unwrap_or(0);
                    faults.extend(is_deaf.then(|| refused(WAIT, waits, 1 << 20)));
                    let (_, told) = run(driver, Config { faults, ..base.clone() }, work);
                    assert_eq!(
                        driver.finish().violations,
                        [],
                        "{name}: {at}, {k} of {n}, {times} times, {is_deaf}"
                    );
                    (n_refused, n_told) = (n_refused + 1, n_told + u32::from(told.is_err()));
                }
            }
        }
        assert!(n_told > 100 && n_told < n_refused, "{n_told} of {n_refused}");
    });
}

/// Memory and streams of another device, wherever they are given: nothing is asked of the driver.
#[test]
fn what_is_another_device_s_is_refused() {
    kit::alone(&[Config::default()], |driver| {
        let (here, there) = (engine(), Engine::open(1, crate::config()).expect("two devices"));
        let (near, far) = (here.stream(), there.stream());
        let room = |engine: &Engine| engine.alloc::<u8>(engine.stream(), 64).expect("room");
        let [(mut a, mut b), (mut x, y)] = [&here, &there].map(|engine| (room(engine), room(engine)));
        let (kernels, formula) =
            (Kernels::load(here.context()).expect("loads"), Compute::affine(Dtype::U8, 1.0, 0.0));
        let (source, mut back) = ([1u8; 64], [7u8; 64]);
        let pinned = || here.pinned::<u8>(64).expect("pinned");
        let (own, p, q, r, s) = ((room(&here), room(&there)), pinned(), pinned(), pinned(), pinned());
        let (others, view) = ((room(&here), room(&there)), room(&there).share());
        let before = driver.report().calls;
        let plain = |refused: spanlift_native::engine::Refused<_>| refused.error;
        let plain_home = |refused: spanlift_native::engine::Refused<_>| refused.error;
        let told = [
            here.alloc::<u8>(far, 64).map(drop).err(),
            here.upload(far, &source).map(drop).err(),
            here.upload_into(far, &source, &mut a).err(),
            here.upload_into(near, &source, &mut x).err(),
            here.upload_all(far, &[source]).map(drop).err(),
            here.download(far, &a, &mut back).err(),
            here.download(near, &x, &mut back).err(),
            here.download_all(near, std::slice::from_ref(&view), &mut [&mut back[..]]).err(),
            here.copy(far, &a, &mut b).err(),
            here.copy(near, &x, &mut b).err(),
            here.copy(near, &a, &mut x).err(),
            here.copy_all(far, std::slice::from_ref(&a), std::slice::from_mut(&mut b)).err(),
            here.copy_all(near, std::slice::from_ref(&x), std::slice::from_mut(&mut b)).err(),
            here.copy_all(near, std::slice::from_ref(&a), std::slice::from_mut(&mut x)).err(),
            here.compute(far, &kernels, formula, &a, &mut b).err(),
            here.compute(near, &kernels, formula, &y, &mut b).err(),
            here.compute(near, &kernels, formula, &a, &mut x).err(),
            here.update(far, &kernels, formula, &mut a).err(),
            here.update(near, &kernels, formula, &mut x).err(),
            here.to_device(&there, far, far, &a).map(drop).err(),
            here.to_device(&there, near, far, &y).map(drop).err(),
            here.h2d(far, p, own.0).map(drop).map_err(plain).err(),
            here.h2d(near, q, own.1).map(drop).map_err(plain).err(),
            here.d2h(far, others.0, r).map(drop).map_err(plain_home).err(),
            here.d2h(near, others.1, s).map(drop).map_err(plain_home).err(),
        ];
        for (k, told) in told.iter().enumerate() {
            let is_told = matches!(told, Some(EngineError::OtherDevice { expected: 0, found: 1 }));
            assert!(is_told, "call {k}: {told:?}");
        }
        let told = here.to_device(&there, near, near, &a).map(drop);
        assert!(matches!(told, Err(EngineError::OtherDevice { expected: 1, found: 0 })), "{told:?}");
        let n_moved = |calls: &std::collections::BTreeMap<String, u64>| -> u64 {
            let of = calls.iter().filter(|(call, _)| call.contains("cpy") || call.contains("Launch"));
            of.map(|(_, n)| n).sum()
        };
        assert_eq!(n_moved(&driver.report().calls), n_moved(&before));
        assert_eq!(back, [7; 64]);
    });
}

/// A buffer that a copy may be using still, since nobody could wait for it, stays out of reach for whoever has it: its owner, and other
/// engines, which are not lost.
#[test]
fn a_buffer_that_nobody_could_wait_for_is_refused_by_other_engines() {
    kit::alone_unchecked(&[Config::default()], |driver| {
        let prepared = |faults| {
            driver.reset(Config { faults, ..Config::default() });
            let cuda = Cuda::open_first(&["libcuda.so"]).expect("the software driver is loaded");
            let engines = [(); 2].map(|()| Engine::on(&cuda, 0, with_slots(1, 4096)).expect("opens"));
            let host = engines[0].pinned::<u8>(N).expect("pinned");
            let there = engines[0].upload(engines[0].stream(), &bytes(N, 1)).expect("up");
            engines[0].synchronize().expect("everything is there");
            (engines, host, there)
        };
        for is_down in [true, false] {
            let before = prepared(Vec::new());
            let calls = driver.report().calls;
            drop(before);
            let n = |at: &str| calls.get(at).copied().unwrap_or(0);
            let deaf = ["cuEventSynchronize", WAIT].map(|at| refused(at, n(at), 1 << 20));
            let ([engine, other], mut host, mut there) = prepared(deaf.to_vec());
            let told = engine.scope(|s| match is_down {
                true => s.d2h(engine.stream(), &mut there, &mut host).map(std::mem::forget),
                false => s.h2d(engine.stream(), &mut host, &mut there).map(std::mem::forget),
            });
            assert!(matches!(told, Err(EngineError::ContextLost(_))), "{told:?}");
            let mut room = other.alloc::<u8>(other.stream(), N).expect("room");
            let told = other.scope(|s| s.h2d(other.stream(), &mut host, &mut room).map(drop));
            let told = told.expect_err("refused").to_string();
            assert_eq!(told, "a buffer that a copy may still be using");
            // What a copy reads can be read by others, and no more.
            let read = catch_unwind(AssertUnwindSafe(|| host[0]));
            assert_eq!(read.is_err(), is_down);
            assert!(catch_unwind(AssertUnwindSafe(|| host[0] = 1)).is_err());
            drop((host, there, room, engine, other));
            assert_eq!(driver.finish().violations, []);
        }
    });
}
