//! What a program cannot ask for while something is captured.

use crate::check::check;

/// What CUDA refuses in every mode of capture, each beside what it does not refuse in all.
#[test]
fn nothing_waits_for_what_is_captured() {
    let device = |line| {
        format!(
            r#"sync during capture: of device 0, while stream "s" captures since line {line} (command 2)"#
        )
    };
    check("stream s, b; capture s; sync cuda:0", &[&device(2)]);
    check("spawn t; stream s; capture s; t: sync cuda:0", &[&device(3)]);
    check("stream s on cuda:1; stream b; capture s; sync cuda:0; sync b; query b ready", &[]);
    check(
        "stream s on cuda:1; stream b; capture b; capture s; sync cuda:1; end capture s as g; sync cuda:1",
        &[
            r#"line 5 (command 4): sync during capture: of device 1, while stream "s" captures since line 4 (command 3)"#,
        ],
    );
    check("stream s, b; capture s; end capture s as g; sync cuda:0", &[]);
    // Two captures of one device: both have to end.
    check(
        "stream s, b; capture s; capture b; end capture s as g; sync cuda:0; end capture b as h; sync cuda:0",
        &[
            r#"line 5 (command 5): sync during capture: of device 0, while stream "b" captures since line 3 (command 3)"#,
        ],
    );

    let event = |command| {
        format!(
            r#"sync during capture: of event "e" recorded in it, while stream "s" captures since line 2 (command {command})"#
        )
    };
    for ask in ["sync event e", "query event e ready", "query event e not ready"] {
        check(&format!("stream s; capture s; record e on s; {ask}"), &[&event(1)]);
        check(
            &format!("stream s, b; capture s; record f on s; wait f on b; record e on b; {ask}"),
            &[&event(2)],
        );
        check(&format!("stream s, b; record e on s; capture s; {ask}"), &[]);
        check(&format!("stream s, b; capture s; record e on s; record e on b; {ask}"), &[]);
        check(&format!("stream s; capture s; record e on s; end capture s as g; {ask}"), &[]);
        check(&format!("stream s; capture s; {ask}"), &[]);
    }

    check(
        "stream s; capture s; record e on s; wait e on 0; kernel k on 0; end capture s as g",
        &[r#"line 4 (command 3): capture of legacy stream: "0" cannot capture"#],
    );
    check("stream s; capture s; record e on s; end capture s as g; wait e on 0", &[]);
    check(
        "stream s blocking; capture s; record e on s; wait e on 0; end capture s as g",
        &[
            r#"line 4 (command 3): capture implicit: an action on legacy stream "0" while stream "s" captures since line 2 (command 1)"#,
        ],
    );
}

/// A legacy stream stands for the blocking ones of its device: asked for, it asks for what they capture.
#[test]
fn nothing_waits_for_a_legacy_stream_beside_a_capture_that_it_stands_for() {
    let refused = |line: usize| {
        format!(
            r#"sync during capture: of legacy stream "0", while stream "b" captures since line {line} (command {})"#,
            line - 1
        )
    };
    for (kind, ask) in
        [("blocking", "sync 0"), ("per_thread", "query 0 ready"), ("blocking", "query 0 not ready")]
    {
        check(&format!("stream b {kind}; capture b; {ask}"), &[&refused(2)]);
        check(&format!("stream b {kind}; stream n; capture n; capture b; {ask}"), &[&refused(4)]);
        check(&format!("stream b {kind}; stream n; capture n; {ask}; end capture n as g; {ask}"), &[]);
        check(&format!("stream b {kind}; capture b; end capture b as g; {ask}"), &[]);
    }
    check("stream b blocking; capture b; sync 0@1; query 0@1 ready", &[]);
    check("stream b blocking on cuda:1; capture b; sync 0", &[]);
}
