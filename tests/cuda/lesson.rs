//! Lesson 9 on the software driver: a device is used and called one, and what it does is right.

use serde_json::Value;
use spanlift::advise::transfer::{HostMemory, Request, Route};
use spanlift::{Bytes, Nanos, kib, mib};
use spanlift_native::course::{Here, check_line, check_run, check_way};
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
        what_depends_on_the_machine_says_so(&here);
        drop(here);
        assert!(soft.report().violations.is_empty(), "{:?}", soft.report().violations);
    });
}

/// What the exercises answer before they are solved is compared with the published copy, unless the cell's tag says that it is of
/// the machine that it runs on: with a device it may not be what it is without one.
fn what_depends_on_the_machine_says_so(here: &Here) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../notebooks/09_on_a_gpu.ipynb");
    let notebook: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cell = |id: &str| notebook["cells"].as_array().unwrap().iter().find(|cell| cell["id"] == id).unwrap();
    let source: String = cell("c19")["source"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let (_, racy) = source.split_once("r#\"").unwrap();
    let racy = racy.trim_end_matches("\"#)");
    let sizes = [kib(64), mib(1), mib(16), mib(64)];
    let small = Request::many(Route::Up, HostMemory::Pageable, 1000, Bytes(4_000_000));
    let answers = |here: &Here| {
        let line = check_line(here, &sizes, Nanos(0), 50.0);
        [("c09", line), ("c17", check_way(here, &small, "S2")), ("c19", check_run(here, racy))]
            .map(|(id, figure)| (id, figure.plain().to_owned()))
    };
    let nowhere = Here::on(Err("none is looked for".to_owned()));
    for ((id, with), (_, without)) in answers(here).into_iter().zip(answers(&nowhere)) {
        assert!(with.starts_with("not yet: ") && without.starts_with("not yet: "), "{id}: {with}");
        let is_here =
            cell(id)["metadata"]["tags"].as_array().is_some_and(|tags| tags.contains(&"here".into()));
        assert_eq!(is_here, with != without, "{id}: {with}, and without a device {without}");
        let published: String = cell(id)["outputs"][0]["data"]["text/plain"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(published.trim_end(), without.trim_end(), "{id}");
    }
}
