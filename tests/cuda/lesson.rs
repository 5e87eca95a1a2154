//! Lesson 9 on the software driver: a device is used and called one, and what it does is right.

use spanlift::advise::transfer::{HostMemory, Request, Route};
use spanlift::{Bytes, kib, mib};
use spanlift_native::course::{Here, check_run, check_way};
use spanlift_native::cuda::Driver;
use spanlift_softcuda::Config;
use spanlift_softcuda::Scheduler;
use spanlift_softcuda::kit;

const DOWN_AND_UP: &str = "stream s\npinned x 64KiB = f32 fill 2\npinned y 64KiB = f32 fill 0\ndevice d 64KiB\ncopy d <- x on s\n\
                           copy y <- d on s\nsync s\nread y expect f32 fill 2";

#[test]
fn with_a_device_the_lesson_measures_it() {
    kit::alone(&[Config::under(Scheduler::Eager)], |soft| {
        let here = Here::with_copies_of(Driver::open().map_err(|e| e.to_string()), mib(4));
        if !here.is_device() {
            // Copies took no time that grows with their size: said, not guessed.
            assert!(here.place().contains("no device here: "), "{}", here.place());
            return;
        }
        assert!(here.place().starts_with("cuda:0"), "{}", here.place());
        let profile = here.profile();
        assert!(profile.plain().contains("measured: "), "{}", profile.plain());
        let sizes = [kib(64), mib(1)];
        for figure in [here.copies(&sizes), here.engine(&sizes)] {
            assert_eq!(figure.plain().matches(", measured ").count(), sizes.len(), "{}", figure.plain());
            assert!(!figure.plain().contains("not measured"));
        }
        let run = here.run(DOWN_AND_UP);
        assert!(run.plain().contains("run on cuda:0\nread y: all 16,384 elements right"), "{}", run.plain());
        let racy = check_run(&here, &DOWN_AND_UP.replace("sync s\n", ""));
        assert!(racy.plain().starts_with("not yet: not run: race"), "{}", racy.plain());
        let small = Request::many(Route::Up, HostMemory::Pageable, 1000, Bytes(4_000_000));
        let ways = ["S0", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "driver"];
        let right = ways.iter().filter(|way| check_way(&here, &small, way).plain().starts_with("right: "));
        assert_eq!(right.count(), 1);
        drop(here);
        assert!(soft.report().violations.is_empty(), "{:?}", soft.report().violations);
    });
}
