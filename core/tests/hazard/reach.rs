//! What is out of reach: told where no order helps, and nowhere else.

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::{Program, mib};

use crate::{shared::shared, table};

const NAMES: &str = "stream a, b
stream far on cuda:1
pageable x 64
pinned p 64
managed m 64
device d 64
device e 64 on cuda:1
device pool 64 via pool home a
device ordered 64 via malloc_async on a
pinned cached 64 via pinned_pool
sync a
";

/// A line of the text form and what of it is out of reach: words of [`hazard::OutOfReach`] with their buffers.
#[track_caller]
fn check(machine: Option<&Machine>, line: &str, expected: &str) {
    let program = Program::from_text(&format!("{NAMES}{line}\n")).unwrap();
    let found = hazard::unreached(&program, machine).unwrap();
    let told: Vec<_> =
        found.iter().map(|f| format!("{} {}", f.why.name(), program.names().buffer(f.buffer))).collect();
    assert_eq!(told.join(", "), expected, "{line}");
    let line_of = NAMES.lines().count() + 1;
    assert!(found.iter().all(|f| program.line(f.index).is_some_and(|line| line as usize == line_of)));
}

#[test]
fn every_pair_of_processor_and_memory() {
    let gh200 = Machine::builtin("gh200-c2c").unwrap();
    let no_peers = Machine::builtin("rtx4090-pcie4").unwrap();
    let peers = Machine::builtin("a100-pcie4").unwrap();
    // What a profile leaves out is assumed to be 0, and says nothing.
    let silent = Machine::from_json(br#"{"name": "silent", "h2d_bw": 26.0}"#).unwrap();
    assert_eq!((silent.p2p_bw.0, no_peers.p2p_bw.0), (0, 0));
    #[rustfmt::skip]
    let table = [
        // line                                            usually                  gh200     without peers
        ("kernel on a reads x writes d",                   "pageable x",            "",       "pageable x"),
        ("kernel on a reads d, x writes x",                "pageable x",            "",       "pageable x"),
        ("kernel on a reads p, m, cached, pool, ordered",  "",                      "",       ""),
        ("kernel on a reads d writes e",                   "",                      "",       "peer e"),
        ("kernel on far reads d writes e, x",              "pageable x",            "",       "peer d, pageable x"),
        ("kernel on far reads m, p",                       "",                      "",       ""),
        ("kernel on a reads x[0..0], e[8..8]",             "",                      "",       ""),
        ("kernel on a reads x opaque",                     "pageable x",            "",       "pageable x"),
        ("memset x 1 on a",                                "pageable x",            "",       "pageable x"),
        ("memset p 1 on a",                                "",                      "",       ""),
        ("memset e 1 on a",                                "",                      "",       ""),
        ("copy d <- x on a",                               "",                      "",       ""),
        ("copy x <- e blocking",                           "",                      "",       ""),
        ("copy e <- d on a",                               "",                      "",       ""),
        ("read d[0..8]",                                   "device d",              "device d", "device d"),
        ("write e",                                        "device e",              "device e", "device e"),
        ("host copy d <- x",                               "device d",              "device d", "device d"),
        ("host copy pool <- ordered",                      "device ordered, device pool", "device ordered, device pool", "device ordered, device pool"),
        ("host copy x <- m",                               "",                      "",       ""),
        ("host fn on a reads d, x writes p",               "device d",              "device d", "device d"),
        ("read x",                                         "",                      "",       ""),
        ("free d",                                         "",                      "",       ""),
    ];
    for (line, usually, on_gh200, without_peers) in table {
        for machine in [None, Some(&peers), Some(&silent)] {
            check(machine, line, usually);
        }
        check(Some(&gh200), line, on_gh200);
        check(Some(&no_peers), line, without_peers);
    }
}

#[test]
fn a_verdict_is_of_order_alone_and_words_say_what_to_do() {
    let mut p = Program::new();
    let s = p.stream("s");
    let (x, d) = (p.pageable("x", mib(1)), p.device(0, "d", mib(1)));
    let kernel = p.kernel("scale").reads(x).writes(x).writes(d).on(s);
    p.sync(s);
    let read = p.host_read(d);
    assert_eq!(hazard::check(&p, Mode::Contract).unwrap().verdict(), Verdict::Safe);
    let found = hazard::unreached(&p, None).unwrap();
    assert_eq!(found.iter().map(|f| (f.index, f.buffer)).collect::<Vec<_>>(), [(kernel, x), (read, d)]);
    assert!(
        found[0].sentence(p.names()).starts_with("the kernel reads and writes x, ordinary host memory, ")
    );
    assert_eq!(
        found[1].sentence(p.names()),
        "the host reads d, memory of cuda:0, which the host does not reach: copy it to host memory"
    );
}

/// The commands inside a graph are told where they stand, and a program read as a stream tells the same.
#[test]
fn a_program_that_is_read_as_a_stream_tells_the_same() {
    let text = format!(
        "{NAMES}capture a\nkernel on a reads x\nend capture a as g\nlaunch g on a\nrepeat i 3\nread d\nend\n\
         kernel on far reads d\n"
    );
    let program = Program::from_text(&text).unwrap();
    let read = hazard::check_read(text.as_bytes(), Mode::Contract).unwrap();
    for (machine, n) in [(None, 4), (Some("gh200-c2c"), 3), (Some("rtx4090-pcie4"), 5)] {
        let machine = machine.map(|name| Machine::builtin(name).unwrap());
        let expected = hazard::unreached(&program, machine.as_ref()).unwrap();
        assert_eq!(expected.len(), n);
        let found = read.unreached.iter().filter(|one| one.is_on(machine.as_ref()));
        assert_eq!(found.copied().collect::<Vec<_>>(), expected);
    }
}

/// No case of either table was written with an access in mind that CUDA refuses.
#[test]
fn nothing_is_told_of_the_cases_that_ask_for_order() {
    for case in table::cases() {
        let found = hazard::unreached(&case.program, None).unwrap();
        let told: Vec<_> = found.iter().map(|f| f.sentence(case.program.names())).collect();
        assert_eq!(told, [""; 0], "{}", case.title);
    }
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/programs/hazards.json")).unwrap();
    let table: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut n = 0;
    for case in table["cases"].as_array().unwrap() {
        let file = serde_json::json!({"schema_version": 1, "ops": case["ops"]}).to_string();
        // Cases in error have no accesses to judge.
        let Ok(found) = Program::from_json(file.as_bytes()).map(|p| hazard::unreached(&p, None)) else {
            continue;
        };
        let Ok(found) = found else { continue };
        assert_eq!(found, [], "{}", case["id"]);
        n += 1;
    }
    assert!(80 < n, "{n} cases");
}
