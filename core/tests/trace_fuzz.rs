//! Readers of traces and snapshots on mutated files: each gives a result or an error, the same in any pieces, and the two
//! readers of trace files agree on what is usable.
//!
//! `SPANLIFT_FUZZ_SECONDS=600` goes on for as long for each reader; without it a fixed number of files is tried. A failure
//! names its seed.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod shared;

use std::time::{Duration, Instant};

use spanlift::advise::trace::{findings, memory_findings};
use spanlift::trace::analysis::{Figures, Order, Steps, compare, hta};
use spanlift::trace::snapshot::{self, Snapshot};
use spanlift::trace::table::{Scan, Table};
use spanlift::trace::{self, ReadError};

use shared::shared;

/// SplitMix64: small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n.max(1) as u64).unwrap()
    }
}

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

fn mutate(bytes: &mut Vec<u8>, words: &[&[u8]], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            2 => bytes.truncate(at),
            3 => {
                let to = (at + random.below(40)).min(bytes.len());
                bytes.drain(at..to);
            }
            4 => {
                let to = (at + random.below(400)).min(bytes.len());
                let piece = bytes[at..to].to_vec();
                let again = random.below(bytes.len() + 1);
                bytes.splice(again..again, piece);
            }
            _ => {
                let word = words[random.below(words.len())];
                bytes.splice(at..at, word.iter().copied());
            }
        }
    }
}

/// Calls `each` with a seed until there were enough files.
fn fuzz(n_files: u64, mut each: impl FnMut(u64)) {
    let seconds = std::env::var("SPANLIFT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut seed = 0;
    while until.map_or(seed < n_files, |until| Instant::now() < until) {
        each(seed);
        seed += 1;
    }
}

/// A trace with something of everything.
fn trace_file() -> Vec<u8> {
    if let Some(shared) = shared() {
        return std::fs::read(shared.join("traces/synthetic_newest_schema.json")).unwrap();
    }
    br#"{"schemaVersion": 1, "traceEvents": [
 {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":100},
 {"ph":"X","cat":"cpu_op","name":"aten::item","pid":1,"tid":1,"ts":1,"dur":90,"args":{"External id":3,"Call stack":"a.py(1): f"}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":2,"dur":80,"args":{"correlation":5,"External id":3}},
 {"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":70,"dur":2,"args":{"device":0,"stream":7,"correlation":5,"bytes":4}},
 {"ph":"X","cat":"kernel","name":"ncclKernel","pid":0,"tid":9,"ts":20,"dur":60,"args":{"device":0,"stream":9,"correlation":6}},
 {"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":9,"ts":3,"dur":0,"args":{"stream":9,"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":5,"correlation":6,"device":0}},
 {"ph":"s","id":1,"cat":"ac2g","ts":1},{"ph":"f","id":1,"cat":"ac2g","ts":1},{"ph":"M","name":"process_name","args":{"name":"x"}},
 {"ph":"i","name":"[memory]","ts":3,"args":{"Device Type":1,"Device Id":0,"Bytes":-5,"Addr":1}}]}"#
        .to_vec()
}

fn scan(bytes: &[u8], piece: usize) -> Result<Table, ReadError> {
    let mut scan = Scan::new();
    for piece in bytes.chunks(piece.max(1)) {
        scan.feed(piece)?;
    }
    scan.finish()
}

#[test]
fn mutated_traces_give_figures_or_a_place_in_any_pieces() {
    let file = trace_file();
    let words: Vec<&[u8]> = WORDS.iter().map(|word| word.as_bytes()).collect();
    fuzz(2000, |seed| {
        let mut random = Random(seed);
        let mut bytes = file.clone();
        mutate(&mut bytes, &words, &mut random);
        let whole = scan(&bytes, bytes.len());
        let pieces = scan(&bytes, 1 + random.below(200));
        match (&whole, &pieces) {
            (Ok(a), Ok(b)) => {
                let (a, b) = (Figures::of(a).to_json(), Figures::of(b).to_json());
                assert_eq!(a, b, "seed {seed}");
            }
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "seed {seed}"),
            _ => panic!("seed {seed}: {:?} in one piece, {:?} in several", whole.err(), pieces.err()),
        }
        // The reader for pictures knows the same files and counts the same events.
        match (trace::read(&bytes), &whole) {
            (Ok(trace), Ok(table)) => {
                assert_eq!(trace.import.n_events, table.n_events, "seed {seed}");
                assert_eq!(trace.import.dropped, table.dropped, "seed {seed}");
                assert_eq!(trace.import.first_ns, table.first_ns, "seed {seed}");
            }
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "seed {seed}"),
            (a, b) => panic!("seed {seed}: {:?} for pictures, {:?} for figures", a.err(), b.as_ref().err()),
        }
        if let Ok(table) = &whole {
            let found = findings(table, &Order::of(table));
            assert!(found.findings.iter().all(|finding| !finding.title.is_empty()), "seed {seed}");
            let steps = Steps::of(table);
            assert!(compare(&steps, &steps).figures.iter().all(|change| change.more == 0), "seed {seed}");
            let _ = hta(table);
        }
    });
}

#[test]
fn mutated_snapshots_give_figures_or_a_place() {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return };
    let file = std::fs::read(folder.join("snapshot_small_p5.pickle")).unwrap();
    let words: Vec<&[u8]> = vec![
        b"(",
        b"}",
        b"]",
        b")",
        b"u",
        b"e",
        b"a",
        b"s",
        b"t",
        b"\x85",
        b"\x94",
        b"h\x00",
        b"q\x00",
        b"N",
        b".",
        b"K\x01",
        b"\x8a\x01\xff",
        b"\x8a\x09\0\0\0\0\0\0\0\0\x01",
        b"\x8c\x04addr",
        b"cos\nsystem\n",
        b"R",
        b"\x95\0\0\0\0\0\0\0\0",
        b"j\xff\xff\xff\x7f",
        b"X\xff\xff\xff\xff",
    ];
    fuzz(300, |seed| {
        let mut random = Random(seed);
        let mut bytes = file.clone();
        // Near the beginning, where keys and shapes are made, and anywhere.
        let mut head = bytes.split_off(random.below(bytes.len()).min(20_000));
        std::mem::swap(&mut head, &mut bytes);
        mutate(&mut head, &words, &mut random);
        head.append(&mut bytes);
        if let Ok(snapshot) = Snapshot::read(&head) {
            let figures = snapshot::Figures::of(&snapshot);
            let _ = (figures.to_json(), memory_findings(&snapshot, &figures));
        }
    });
}
