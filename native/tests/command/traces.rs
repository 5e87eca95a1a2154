//! Trace files meant to break their reader: more of everything than any machine has, and nesting that could cost its
//! square. Each ends with figures or one line, in bounded memory.
//!
//! With `SPANLIFT_LONG` set (and better in a release build) they have their full size, and a line of figures is printed
//! for each.

use std::fs::File;
use std::io::{BufWriter, Write};

use crate::kit::{Watched, folder, watched};

/// Bytes that a process may have at most, in MiB.
const ROOM: u64 = 2048;

/// Analyses a file of events that `event` writes: ends with `code`, on one line if it is an error, within its room.
#[track_caller]
fn large(name: &str, full: usize, code: i32, mut event: impl FnMut(&mut dyn Write, usize)) {
    let is_long = std::env::var_os("SPANLIFT_LONG").is_some();
    let (n, code) = if is_long { (full, code) } else { (full / 200, 0) };
    let folder = folder(name);
    let path = folder.join("t.json");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&path).unwrap());
    for k in 0..n {
        out.write_all(if k == 0 { b"[" } else { b"," }).unwrap();
        event(&mut out, k);
    }
    out.write_all(b"]").unwrap();
    out.flush().unwrap();
    drop(out);
    for format in ["text", "json"] {
        let Watched { ran, seconds, peak_kib } =
            watched(&folder, &["analyze", "t.json", "--format", format], ROOM);
        assert_eq!(ran.code, code, "{name}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), usize::from(code == 2), "{name}: {}", ran.err);
        assert!(code == 0 || ran.out.is_empty() && ran.err.contains("event "), "{name}: {}", ran.err);
        if is_long {
            let bytes = std::fs::metadata(&path).unwrap().len();
            eprintln!(
                "{{\"name\": {name:?}, \"format\": {format:?}, \"n\": {n}, \"bytes\": {bytes}, \"exit\": {code}, \"wall_s\": {seconds:.2}, \"peak_kib\": {peak_kib}}}"
            );
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn millions_of_streams_threads_and_names() {
    large("streams", 4_000_000, 2, |out, k| {
        write!(out, r#"{{"ph":"X","cat":"kernel","ts":{k},"args":{{"stream":{k}}}}}"#).unwrap();
    });
    large("devices", 4_000_000, 2, |out, k| {
        write!(out, r#"{{"ph":"X","cat":"kernel","ts":{k},"args":{{"device":"d{k}","stream":7}}}}"#).unwrap();
    });
    large("threads", 4_000_000, 2, |out, k| {
        let call = r#""cat":"cuda_runtime","name":"cudaMemcpy","ts":1,"dur":9,"pid":1"#;
        write!(out, r#"{{"ph":"X",{call},"tid":{k}}}"#).unwrap();
    });
    large("names", 4_000_000, 2, |out, k| {
        write!(out, r#"{{"ph":"X","cat":"gpu_memcpy","ts":1,"name":"n{k}"}}"#).unwrap();
    });
    large("categories", 4_000_000, 2, |out, k| write!(out, r#"{{"ph":"X","ts":1,"cat":"c{k}"}}"#).unwrap());
    large("memory", 4_000_000, 2, |out, k| {
        write!(out, r#"{{"ph":"i","name":"[memory]","ts":1,"args":{{"Device Id":{k}}}}}"#).unwrap();
    });
}

#[test]
fn millions_of_events_that_say_little() {
    large("empty", 1_000_000, 0, |out, _| write!(out, "{{}}").unwrap());
    large("arrows", 5_000_000, 0, |out, k| write!(out, r#"{{"ph":"s","ts":1,"id":{k}}}"#).unwrap());
    large("slices", 30_000_000, 2, |out, _| write!(out, r#"{{"ph":"X","ts":1}}"#).unwrap());
    large("pairs", 5_000_000, 2, |out, k| {
        write!(out, r#"{{"ph":"X","ts":{k},"cat":"kernel","args":{{"correlation":{k}}}}},"#).unwrap();
        write!(out, r#"{{"ph":"X","ts":{k},"cat":"runtime","args":{{"correlation":{k}}}}}"#).unwrap();
    });
}

/// Hidden synchronisations inside hundreds of thousands of slices that lie in each other.
#[test]
fn findings_on_nested_slices() {
    for (cat, name) in [("cpu_op", "aten::copy_"), ("python_function", "lib/torch/x.py(1): f")] {
        large(&format!("nested-{cat}"), 400_000, 0, |out, k| {
            if k % 2 == 0 {
                let dur = 10_000_000 - 2 * k;
                write!(
                    out,
                    r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":1,"ts":{k},"dur":{dur}}}"#
                )
                .unwrap();
                return;
            }
            let at = 1_000_000 + 4 * k;
            let call = format!(r#""cat":"cuda_runtime","name":"cudaMemcpyAsync","ts":{at},"dur":3"#);
            let copy = r#""cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","dur":1"#;
            write!(out, r#"{{"ph":"X",{call},"pid":1,"tid":1,"args":{{"correlation":{k}}}}},"#).unwrap();
            let args = format!(r#""device":0,"stream":7,"correlation":{k},"bytes":4"#);
            write!(out, r#"{{"ph":"X",{copy},"pid":0,"tid":7,"ts":{},"args":{{{args}}}}}"#, at + 1).unwrap();
        });
    }
    large("gaps", 200_000, 0, |out, k| {
        let call =
            format!(r#""cat":"cuda_runtime","name":"cudaMalloc{}","ts":{},"dur":60"#, k % 5000, 100 * k);
        write!(out, r#"{{"ph":"X",{call},"pid":1,"tid":1,"args":{{"correlation":{k}}}}},"#).unwrap();
        let args = format!(r#""device":{},"stream":7,"correlation":{k}"#, k % 64);
        write!(
            out,
            r#"{{"ph":"X","cat":"kernel","name":"k","ts":{},"dur":1,"args":{{{args}}}}}"#,
            100 * k + 70
        )
        .unwrap();
    });
}
