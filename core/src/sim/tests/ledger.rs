//! Bytes asked for and moved, against counts by hand.

use super::*;
use crate::sim::Ledger;

/// Payload, then within the host, staging, to the device, to the host, between devices, within a device.
#[track_caller]
fn check_bytes(text: &str, machine: &Machine, bytes: [u64; 7]) {
    let [payload, within_host, staging, to_device, to_host, peer, within_device] = bytes.map(Bytes);
    let expected = Ledger { payload, within_host, staging, to_device, to_host, peer, within_device };
    let program = Program::from_text(text).unwrap();
    assert_eq!(run(&program, machine).unwrap().ledger, expected, "{text}");
    assert_eq!(crate::sim::ledger(&program, machine), Ok(expected), "{text}");
}

#[test]
fn every_hop_is_counted() {
    let m = &round();
    let head =
        "stream s\npinned x 1000\npageable y 1000\ndevice d 1000\ndevice e 1000\ndevice f 1000 on cuda:1\n";
    let with = |rest: &str| format!("{head}{rest}");
    let check = |rest: &str, bytes| check_bytes(&with(rest), m, bytes);
    check("copy d <- x on s", [1000, 0, 0, 1000, 0, 0, 0]);
    check("copy x <- d on s", [1000, 0, 0, 0, 1000, 0, 0]);
    check("copy d <- y on s", [1000, 0, 1000, 1000, 0, 0, 0]);
    check("copy d[0..64] <- y[0..64] on s", [64, 0, 64, 64, 0, 0, 0]);
    check("copy y <- d blocking", [1000, 0, 1000, 0, 1000, 0, 0]);
    check("copy e <- d on s", [0, 0, 0, 0, 0, 0, 1000]);
    check("copy f <- d on s", [1000, 0, 0, 1000, 1000, 0, 0]);
    check("copy x <- y on s", [0, 1000, 0, 0, 0, 0, 0]);
    // Pinning and then copying is two bytes for one, as staging is.
    check("host copy x <- y\ncopy d <- x on s", [1000, 1000, 0, 1000, 0, 0, 0]);
    // Kernels and memsets move nothing between places.
    check("kernel k on s reads d writes e for 1us\nmemset d 0 on s", [0; 7]);
    // The smaller side moves; a copy of nothing moves nothing.
    check("copy d[0..10] <- x[0..30] on s\ncopy d[0..0] <- x[0..0] on s", [10, 0, 0, 10, 0, 0, 0]);
    let linked = Machine { p2p_bw: Rate(1_000_000_000), copy_engines: 3, ..round() };
    check_bytes(&with("copy f <- d on s"), &linked, [1000, 0, 0, 0, 0, 1000, 0]);
    let direct = Machine { pageable_direct: true, ..round() };
    check_bytes(&with("copy d <- y on s\ncopy y <- d on s"), &direct, [2000, 0, 0, 1000, 1000, 0, 0]);
}

#[test]
fn a_captured_copy_moves_once_for_each_launch() {
    let text = "stream s\npinned x 1000\ndevice d 1000\ncapture s\ncopy d <- x on s\nend capture s as g\n";
    check_bytes(text, &round(), [0; 7]);
    let text = format!("{text}launch g on s\nlaunch g on s\nlaunch g on s");
    check_bytes(&text, &round(), [3000, 0, 0, 3000, 0, 0, 0]);
}

#[test]
fn the_factor_is_moved_over_payload() {
    let ledger = Ledger { payload: Bytes(4), staging: Bytes(4), to_device: Bytes(4), ..Ledger::default() };
    assert_eq!((ledger.moved(), ledger.factor()), (Bytes(8), Some(2.0)));
    assert_eq!(Ledger { within_host: Bytes(9), ..Ledger::default() }.factor(), None);
}
