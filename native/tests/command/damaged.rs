//! What only the command reads, compressed files and databases of SQLite, against bytes that somebody damaged: figures or
//! one line with its place.

#[path = "../../../tests/fuzz/kit.rs"]
mod damage;

use std::io::Write as _;
use std::path::Path;

use damage::{fuzz, mutated};

use crate::kit::{folder, spanlift};
use crate::tables::export;

/// Runs `analyze` on a file of these bytes: whether they were usable, or what is wrong with what was said.
fn analyzed(folder: &Path, name: &str, bytes: &[u8]) -> Result<bool, String> {
    std::fs::write(folder.join(name), bytes).map_err(|e| e.to_string())?;
    let ran = spanlift(folder, &["analyze", name, "--format", "json"]);
    let (lines, place) =
        (ran.err.lines().count(), ran.err.contains(": byte ") || ran.err.contains(": event "));
    match ran.code {
        0 if lines == 0 && ran.out.starts_with('{') && ran.out.ends_with("}\n") => Ok(true),
        2 if lines == 1 && place && ran.out.is_empty() => Ok(false),
        code => Err(format!("exit {code}: {}{}", ran.err, &ran.out[..ran.out.len().min(200)])),
    }
}

fn gz(plain: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn damaged_gzip_is_read_or_refused() {
    let folder = folder("damaged-gzip");
    let event = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5,"dur":2}"#;
    let plain = format!("[{event}{}]", format!(",{event}").repeat(300));
    let (head, tail) = plain.as_bytes().split_at(99);
    let corpus =
        [gz(plain.as_bytes(), 9), gz(plain.as_bytes(), 0), [gz(head, 1), gz(tail, 6), vec![0; 64]].concat()];
    let words: [&[u8]; 6] =
        [b"\x1f\x8b\x08", b"\0\0\0\0", b"\xff\xff\xff\xff", &gz(b"", 6), &gz(b" ", 0), &corpus[2]];
    let judge = |bytes: &[u8]| analyzed(&folder, "t.json", bytes);
    assert!(corpus.iter().all(|file| judge(file) == Ok(true)));
    // What is no gzip any more has its own readers.
    let still = |bytes: Vec<u8>| [&[0x1f, 0x8b][..], bytes.get(2..).unwrap_or_default()].concat();
    fuzz("gzip", 40, |r| still(mutated(r, &corpus, &words, 1 << 16)), |bytes, _| judge(bytes));
}

#[test]
fn damaged_databases_are_read_or_refused() {
    let folder = folder("damaged-sqlite");
    export(&folder.join("run.sqlite"), &[1]);
    export(&folder.join("two.sqlite"), &[1, 2]);
    let corpus = ["run.sqlite", "two.sqlite"].map(|name| std::fs::read(folder.join(name)).unwrap());
    let words: [&[u8]; 7] = [
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\x0d\0\0\0",
        b"VIEW",
        b"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start, end)",
        b"\x7f",
        b"\x05\x10\0",
    ];
    let judge = |bytes: &[u8]| analyzed(&folder, "d.sqlite", bytes);
    assert!(corpus.iter().all(|file| judge(file) == Ok(true)));
    let still = |bytes: Vec<u8>| [b"SQLite format 3\0", bytes.get(16..).unwrap_or_default()].concat();
    fuzz("databases", 40, |r| still(mutated(r, &corpus, &words, 1 << 18)), |bytes, _| judge(bytes));
}
