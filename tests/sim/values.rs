//! The demonstrations: what programs read when they do not wait, and what their mended forms read.

use spanlift::sim::Reading;

use crate::shipped;

/// The reads of a shipped program that expect something.
fn reads(name: &str) -> Vec<Reading> {
    shipped(name).reads.into_iter().filter(|r| r.expected.is_some()).collect()
}

#[track_caller]
fn check_all_right(name: &str, n: usize) {
    let reads = reads(name);
    assert_eq!(reads.len(), n, "{name}");
    assert_eq!(reads.iter().filter(|r| r.is_right()).count(), n, "{name}");
    assert!(reads.iter().all(|r| r.n_elements > 0), "{name}");
}

#[track_caller]
fn check_wrong(name: &str, n_elements: u64, n_wrong: u64, expected: &str, read: &str) {
    let found = &reads(name)[0];
    assert_eq!((found.n_elements, found.n_wrong), (n_elements, n_wrong), "{name}");
    let first = found.first_wrong.as_ref().expect("a wrong element");
    assert_eq!((first.index, first.expected.as_str(), first.read.as_str()), (0, expected, read), "{name}");
}

#[test]
fn a_pinned_source_that_is_overwritten_in_flight_arrives_wrong() {
    check_wrong("demo-h2d-pinned-overwritten", 1 << 20, 1 << 20, "1", "0");
    check_all_right("demo-h2d-pinned-overwritten-mended", 1);
}

#[test]
fn a_result_that_is_read_before_a_sync_is_not_there() {
    check_wrong("demo-d2h-read-before-sync", 999_999, 999_999, "1", "0");
    check_all_right("demo-d2h-read-before-sync-mended", 1);
}

#[test]
fn the_controls_are_right_a_hundred_times() {
    check_all_right("control-h2d-pageable-overwritten", 100);
    check_all_right("control-d2h-read-after-sync", 100);
}
