//! Trace files: other tools' and spanlift's own.

use spanlift::advise::trace::findings;
use spanlift::machine::Machine;
use spanlift::trace::analysis::{Figures, Order, Steps, compare, hta};
use spanlift::trace::table::{Scan, Table};
use spanlift::trace::{self, Finished, ReadError, Reading, Trace, write_chrome};
use spanlift::{Program, sim};

use crate::kit::{Random, fuzz, mutated};

/// What a mutation of JSON puts in.
const WORDS: &[&str] = &[
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "NaN",
    "-Infinity",
    "0",
    "-1",
    "1e400",
    "-1e-400",
    "9223372036854775807",
    "9223372036854775.807",
    "18446744073709551616",
    "0.0005",
    "\"7\"",
    "\"ph\": \"X\",",
    "\"ts\": 1,",
    "\"dur\": -5,",
    "\"args\": null,",
    "\"traceEvents\": [],",
    "\"correlation\": 1,",
    "\"stream\": -1,",
    "\"bytes\": \"x\",",
    "\u{feff}",
    "größer",
    " ",
    "\n",
    "\0",
];

/// A trace with something of everything.
const TRACE: &[u8] =
    br#"{"schemaVersion": 1, "traceEvents": [
 {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":100},
 {"ph":"X","cat":"cpu_op","name":"aten::item","pid":1,"tid":1,"ts":1,"dur":90,"args":{"External id":3,"Call stack":"a.py(1): f"}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":2,"dur":80,"args":{"correlation":5,"External id":3}},
 {"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":70,"dur":2,"args":{"device":0,"stream":7,"correlation":5,"bytes":4}},
 {"ph":"X","cat":"kernel","name":"ncclKernel","pid":0,"tid":9,"ts":20,"dur":60,"args":{"device":0,"stream":9,"correlation":6}},
 {"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":9,"ts":3,"dur":0,"args":{"stream":9,"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":5,"correlation":6,"device":0}},
 {"ph":"s","id":1,"cat":"ac2g","ts":1},{"ph":"f","id":1,"cat":"ac2g","ts":1},{"ph":"M","name":"process_name","args":{"name":"x"}},
 {"ph":"i","name":"[memory]","ts":3,"args":{"Device Type":1,"Device Id":0,"Bytes":-5,"Addr":1}}]}"#;

/// What other tools write although JSON forbids it, in the forms that depend on what comes next.
const ODD: &[u8] = b"\xef\xbb\xbf [{\"ph\": \"X\", \"name\": \"say \"no\" to whoever asks for it\"
 , \"pid\": 1, \"tid\": \"1\", \"ts\": 4e0, \"dur\": -Infinity, \"args\": {\"a\": [NaN, \"b \"c\" and what follows, at length\"

 ], \"b\": [[[{\"c\": \"\\ud83d\\ude00\\\\\"}]]]}} , 17 , null, {\"ph\": \"i\", \"name\": \"x\ty\", \"ts\": \"1.5\"}";

fn scan(bytes: &[u8], piece: usize) -> Result<Table, ReadError> {
    let mut scan = Scan::new();
    for piece in bytes.chunks(piece.max(1)) {
        scan.feed(piece)?;
    }
    scan.finish()
}

/// The trace of a file that comes in pieces.
fn read_in_pieces(bytes: &[u8], piece: usize) -> Result<Trace, ReadError> {
    let mut reading = Reading::new();
    loop {
        for piece in bytes.chunks(piece.max(1)) {
            reading.feed(piece)?;
        }
        match reading.finish()? {
            Finished::Trace(trace) => return Ok(*trace),
            Finished::Again(again) => reading = *again,
        }
    }
}

fn words() -> Vec<&'static [u8]> {
    WORDS.iter().map(|word| word.as_bytes()).collect()
}

/// The same figures in any pieces, the same counts by both readers, and nothing that panics with what was read.
fn judge(bytes: &[u8], random: &mut Random) -> Result<bool, String> {
    let whole = scan(bytes, bytes.len());
    let pieces = scan(bytes, 1 + random.below(200));
    let said = |table: &Result<Table, ReadError>| match table {
        Ok(table) => Figures::of(table).to_json(),
        Err(e) => e.to_string(),
    };
    let (one, several) = (said(&whole), said(&pieces));
    if one != several {
        return Err(format!("in one piece {one}, in several {several}"));
    }
    let written =
        |trace: Result<Trace, ReadError>| trace.map_or_else(|e| e.to_string(), |t| write_chrome(&t));
    if written(trace::read(bytes)) != written(read_in_pieces(bytes, 1 + random.below(200))) {
        return Err("the trace in one piece is not that in several".to_owned());
    }
    // The reader for pictures knows the same files and counts the same events.
    match (trace::read(bytes), &whole) {
        (Ok(trace), Ok(table)) => {
            let counts = |n: u64, dropped: u64, first: Option<i64>| format!("{n} {dropped} {first:?}");
            let pictures = counts(trace.import.n_events, trace.import.dropped, trace.import.first_ns);
            let figures = counts(table.n_events, table.dropped, table.first_ns);
            if pictures != figures {
                return Err(format!("for pictures {pictures}, for figures {figures}"));
            }
        }
        (Err(a), Err(b)) if a.to_string() == b.to_string() => {}
        // Our own mark is read for pictures alone.
        (Err(a), Ok(_)) if a.to_string().contains("spanlift") => {}
        (a, b) => return Err(format!("{:?} for pictures, {:?} for figures", a.err(), b.as_ref().err())),
    }
    let Ok(table) = &whole else { return Ok(false) };
    let found = findings(table, &Order::of(table));
    for finding in &found.findings {
        let is_there = |event: &u32| table.spans.event.binary_search(event).is_ok();
        if finding.title.is_empty() || finding.events.is_empty() || !finding.events.iter().all(is_there) {
            return Err(format!("no words or no events: {finding:?}"));
        }
    }
    let steps = Steps::of(table);
    if compare(&steps, &steps).figures.iter().any(|change| change.more_ns != 0) {
        return Err("it differs from itself".to_owned());
    }
    let _ = hta(table);
    Ok(true)
}

#[test]
fn damaged_traces_get_figures_or_a_place_in_any_pieces() {
    let mut corpus = vec![TRACE.to_vec(), ODD.to_vec()];
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/traces/synthetic_newest_schema.json");
    corpus.extend(std::fs::read(shared));
    let words = words();
    fuzz("traces", 2000, |r| mutated(r, &corpus, &words, 1 << 16), judge);
}

/// A simulated program as spanlift writes it.
fn own() -> Vec<u8> {
    let source = "stream s, t\nevent e\ndevice d 4KiB\nkernel on s writes d\nrecord e on s\nwait e on t\nkernel on t reads d\nsync t\n";
    let program = Program::from_text(source).expect("a program");
    let run = sim::run(&program, &Machine::default()).expect("a run");
    write_chrome(&run.trace).into_bytes()
}

/// What is read is written and read again as it was.
fn judge_own(bytes: &[u8]) -> Result<bool, String> {
    let Ok(read) = trace::read(bytes) else { return Ok(false) };
    let again = trace::read(write_chrome(&read).as_bytes())
        .map_err(|e| format!("written, it cannot be read: {e}"))?;
    if again.slices.len() != read.slices.len() {
        let n = (read.slices.len(), again.slices.len());
        return Err(format!("other slices when it is written again: {n:?}"));
    }
    Ok(true)
}

#[test]
fn damaged_traces_of_our_own_get_an_answer() {
    let corpus = vec![own()];
    assert_eq!(judge_own(&corpus[0]), Ok(true));
    let words = words();
    fuzz("own traces", 1000, |r| mutated(r, &corpus, &words, 1 << 16), |bytes, _| judge_own(bytes));
}
