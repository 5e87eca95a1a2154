//! Memory pools: each context has its own, which keeps what is freed and ends with it; and devices without any.

use spanlift::Program;
use spanlift::program::StreamKind;
use spanlift_native::cuda::{self, Context, DeviceBlock, Driver, MemoryInfo, RunError, Stream};
use spanlift_softcuda::kit::{self, Driver as Soft};
use spanlift_softcuda::{Code, Config, Fault};

use crate::programs::{Kinds, is_safe, random};
use crate::run::agrees;

const MIB: usize = 1 << 20;

fn free(context: &Context) -> usize {
    let MemoryInfo { free, total } = context.memory().unwrap();
    total - free
}

fn calls(soft: &Soft, call: &str) -> u64 {
    soft.report().calls.get(call).copied().unwrap_or(0)
}

#[test]
fn what_is_freed_is_kept_until_its_context_ends() {
    kit::alone(&crate::everywhere(2), |soft| {
        let driver = Driver::open().unwrap();
        let other = driver.context(0).unwrap();
        assert!(other.has_pool().unwrap());
        let context = driver.context(0).unwrap();
        let stream = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        // Nobody asks for a pool before there is need of it.
        assert_eq!(calls(soft, "cuMemPoolCreate"), 1);
        for _ in 0..20 {
            let block = DeviceBlock::on(&stream, MIB).unwrap();
            stream.fill((&block, 0), 1, MIB).unwrap();
            block.free_on(&stream).unwrap();
            stream.synchronize().unwrap();
        }
        // The system was asked once, and what the device's default pool does is nobody's business here.
        assert_eq!((soft.report().mapped, calls(soft, "cuMemAllocFromPoolAsync")), (1, 20));
        assert_eq!([calls(soft, "cuDeviceGetDefaultMemPool"), calls(soft, "cuMemAllocAsync")], [0, 0]);
        assert_eq!((calls(soft, "cuMemPoolSetAttribute"), free(&context)), (2, MIB));
        // Another context gives it back as well: of the process all is one device's memory.
        other.trim(0).unwrap();
        assert_eq!(free(&other), 0);
        let block = DeviceBlock::on(&stream, MIB).unwrap();
        block.free_on(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(free(&other), MIB);
        drop((stream, context));
        assert_eq!((free(&other), calls(soft, "cuMemPoolDestroy")), (0, 1));
        // A block keeps its context, and so the pool.
        let context = driver.context(0).unwrap();
        let stream = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let block = DeviceBlock::on(&stream, MIB).unwrap();
        drop((stream, context));
        assert_eq!((free(&other), calls(soft, "cuMemPoolDestroy")), (MIB, 1));
        drop(block);
        assert_eq!(calls(soft, "cuMemPoolDestroy"), 2);
    });
}

/// Scratch of a program that waits again and again: as much memory for fifty rounds as for one.
#[test]
fn scratch_is_asked_for_once() {
    kit::alone(&crate::everywhere(2), |soft| {
        let driver = Driver::open().unwrap();
        let mapped = |n: usize| {
            let before = soft.report().mapped;
            let text = format!(
                "stream s\ndevice d 64KiB\nmemset d 1 on s\nrepeat i {n}\ncopy d[8..65536] <- d[0..65528] on s\nsync s\nend\n"
            );
            let program = Program::read(text.as_bytes()).unwrap();
            assert!(is_safe(&program));
            cuda::run(&program, &driver, 0).unwrap();
            soft.report().mapped - before
        };
        assert_eq!([mapped(1), mapped(50)], [1, 1]);
        assert_eq!(calls(soft, "cuMemPoolDestroy"), 2);
        assert_eq!(free(&driver.context(0).unwrap()), 0);
    });
}

/// What one context keeps is given back where another one's program needs it.
#[test]
fn what_others_keep_is_no_lack_of_memory() {
    let small = |config: Config| Config { memory: 16 * MIB as u64, ..config };
    kit::alone(&crate::everywhere(1).into_iter().map(small).collect::<Vec<_>>(), |soft| {
        let driver = Driver::open().unwrap();
        let context = driver.context(0).unwrap();
        let stream = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let program = |via: &str| {
            let text = format!("stream s\ndevice d 12MiB {via}\nmemset d 1 on s\nsync s\n");
            Program::read(text.as_bytes()).unwrap()
        };
        for via in ["", "via malloc_async on s"] {
            DeviceBlock::on(&stream, 12 * MIB).unwrap().free_on(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(free(&context), 12 * MIB);
            cuda::run(&program(via), &driver, 0).unwrap();
        }
        assert!(calls(soft, "cuMemPoolTrimTo") >= 2);
        // What is in use is a lack.
        let held = DeviceBlock::on(&stream, 12 * MIB).unwrap();
        let told = cuda::run(&program(""), &driver, 0).unwrap_err();
        assert!(matches!(&told, RunError::Cuda { error, .. } if error.is_out_of_memory()), "{told}");
        drop(held);
        cuda::run(&program(""), &driver, 0).unwrap();
    });
}

/// A context that somebody forgot keeps its pool; what is free in it is still everybody's.
#[test]
fn what_a_forgotten_context_keeps_is_no_lack_of_memory() {
    let small = |config: Config| Config { memory: 16 << 20, ..config };
    kit::alone_unchecked(&crate::everywhere(1).into_iter().map(small).collect::<Vec<_>>(), |soft| {
        let driver = Driver::open().unwrap();
        for _ in 0..5 {
            let context = driver.context(0).unwrap();
            let stream = Stream::new(&context, StreamKind::NonBlocking).unwrap();
            // More than half of the device: the one that was forgotten before has to give it up.
            let block = DeviceBlock::on(&stream, 12 * MIB).or_else(|error| {
                assert!(error.is_out_of_memory(), "{error}");
                context.trim(0)?;
                DeviceBlock::on(&stream, 12 * MIB)
            });
            block.unwrap().free_on(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(free(&context), 12 * MIB);
            std::mem::forget((context, stream));
        }
        let context = driver.context(0).unwrap();
        context.trim(0).unwrap();
        assert_eq!((free(&context), calls(soft, "cuMemPoolDestroy")), (0, 0));
        assert_eq!(soft.finish().violations, []);
    });
}

/// Kernels of one device reach what streams of another allocate, whether the pool is there before the right or after.
#[test]
fn rights_reach_pools_that_are_made_later() {
    kit::alone(&[Config::default()], |soft| {
        let driver = Driver::open().unwrap();
        for early in [false, true] {
            let (near, far) = (driver.context(0).unwrap(), driver.context(1).unwrap());
            let before = calls(soft, "cuMemPoolSetAccess");
            if early {
                assert!(far.has_pool().unwrap());
            }
            // Twice is once.
            assert!(near.enable_peer(&far).unwrap() && near.enable_peer(&far).unwrap());
            assert_eq!(calls(soft, "cuMemPoolSetAccess") - before, u64::from(early));
            assert!(far.has_pool().unwrap());
            assert_eq!(calls(soft, "cuMemPoolSetAccess") - before, 1);
        }
    });
}

#[test]
fn without_pools_memory_is_asked_for_and_freed_behind_a_wait() {
    let without = |config: Config| Config { pools: false, ..config };
    kit::alone(&crate::everywhere(3).into_iter().map(without).collect::<Vec<_>>(), |soft| {
        let driver = Driver::open().unwrap();
        let context = driver.context(0).unwrap();
        assert_eq!(context.has_pool(), Ok(false));
        assert_eq!(context.trim(0), Ok(()));
        let stream = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        for way in [0, 1] {
            let block = DeviceBlock::on(&stream, MIB).unwrap();
            stream.fill((&block, 0), 7, MIB).unwrap();
            match way {
                0 => block.free_on(&stream).unwrap(),
                _ => drop(block),
            }
            assert_eq!(free(&context), 0);
        }
        // A block of nobody's stream is not freed on one, here as elsewhere.
        assert!(DeviceBlock::new(&context, 8).unwrap().free_on(&stream).is_err());
        for seed in 0..30 {
            let program = random(seed, Kinds { kernels: true });
            if is_safe(&program) {
                agrees(&program, &driver, &format!("seed {seed}"));
            }
        }
        assert_eq!(calls(soft, "cuMemPoolCreate") + calls(soft, "cuMemFreeAsync"), 0);
        soft.assert_clean();
    });
}

fn refused(at: &str, code: u32) -> Config {
    let fault = Fault { at: at.into(), device: None, after: 0, code: Code(code), times: 1, sticky: false };
    Config { faults: vec![fault], ..Config::default() }
}

/// A pool that is refused, at whichever call, is told, and the next one who asks gets one.
#[test]
fn a_pool_that_is_refused_is_asked_for_again() {
    let configs =
        ["cuMemPoolCreate", "cuMemPoolSetAttribute", "cuMemPoolSetAccess"].map(|call| refused(call, 2));
    kit::alone(&configs, |soft| {
        let driver = Driver::open().unwrap();
        let (near, far) = (driver.context(0).unwrap(), driver.context(1).unwrap());
        near.enable_peer(&far).unwrap();
        assert!(far.has_pool().unwrap_err().is_out_of_memory());
        assert!(far.has_pool().unwrap());
        drop((near, far));
        assert_eq!(soft.report().leaked, Vec::<String>::new());
    });
}

/// A device that says that it has pools and makes none has none.
#[test]
fn a_device_that_makes_no_pool_has_none() {
    kit::alone(&[refused("cuMemPoolCreate", 801)], |_| {
        let context = Driver::open().unwrap().context(0).unwrap();
        assert_eq!((context.has_pool(), context.has_pool()), (Ok(false), Ok(false)));
    });
}
