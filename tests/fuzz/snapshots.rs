//! Memory snapshots: pickles.

use spanlift::advise::trace::memory_findings;
use spanlift::trace::snapshot::{Figures, Snapshot};

use crate::kit::{fuzz, mutated};

const WORDS: &[&[u8]] = &[
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
    b"\x8c\x06frames",
    b"cos\nsystem\n",
    b"R",
    b"\x95\0\0\0\0\0\0\0\0",
    b"j\xff\xff\xff\x7f",
    b"X\xff\xff\xff\xff",
    b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
];

/// Writes pickles by hand.
struct Writer(Vec<u8>);

impl Writer {
    fn text(&mut self, text: &str) -> &mut Writer {
        self.op(&[0x8c, u8::try_from(text.len()).unwrap_or_default()]).op(text.as_bytes())
    }

    fn int(&mut self, number: i32) -> &mut Writer {
        self.op(b"J").op(&number.to_le_bytes())
    }

    fn op(&mut self, opcodes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(opcodes);
        self
    }

    fn dict(&mut self, ints: &[(&str, i32)], texts: &[(&str, &str)]) -> &mut Writer {
        self.op(b"}(");
        for (key, number) in ints {
            self.text(key).int(*number);
        }
        for (key, text) in texts {
            self.text(key).text(text);
        }
        self.op(b"u")
    }
}

/// Two segments and a history that ends with what is in them.
pub(crate) fn snapshot() -> Vec<u8> {
    let mut writer = Writer(b"\x80\x04}(".to_vec());
    writer.text("segments").op(b"](");
    for (at, kind) in [(4096, "small"), (65536, "large")] {
        let sizes =
            [("total_size", 2048), ("allocated_size", 512), ("active_size", 512), ("requested_size", 500)];
        writer.dict(&sizes, &[("segment_type", kind)]);
        writer.text("address").int(at).op(b"s").text("device").int(0).op(b"s").text("stream").int(0).op(b"s");
        writer.text("blocks").op(b"](");
        writer.dict(
            &[("address", at), ("size", 512), ("requested_size", 500)],
            &[("state", "active_allocated")],
        );
        writer
            .dict(&[("address", at + 512), ("size", 1536), ("requested_size", 0)], &[("state", "inactive")]);
        writer.op(b"es");
    }
    writer.op(b"e").text("device_traces").op(b"](](");
    for (k, action) in
        (0..).zip(["segment_alloc", "alloc", "free_requested", "free_completed", "alloc", "oom", "snapshot"])
    {
        let size = if action == "segment_alloc" { 2048 } else { 512 };
        writer.dict(&[("addr", 4096), ("size", size), ("stream", 0), ("time_us", k)], &[("action", action)]);
        writer.text("frames").op(b"]");
        writer.dict(&[("line", k % 2)], &[("filename", "train.py"), ("name", "step")]).op(b"as");
    }
    writer.op(b"eeu.");
    writer.0
}

fn judge(bytes: &[u8]) -> Result<bool, String> {
    match Snapshot::read(bytes) {
        Err(e) if !e.to_string().starts_with("byte ") && !e.to_string().contains("event ") => {
            Err(format!("no place: {e}"))
        }
        Err(_) => Ok(false),
        Ok(snapshot) => {
            let figures = Figures::of(&snapshot);
            let _ = (figures.to_json(), memory_findings(&snapshot));
            Ok(true)
        }
    }
}

#[test]
fn damaged_snapshots_get_an_answer() {
    let mut corpus = vec![snapshot()];
    assert_eq!(judge(&corpus[0]), Ok(true));
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/traces/snapshot_small_p5.pickle");
    corpus.extend(std::fs::read(shared));
    fuzz("snapshots", 600, |r| mutated(r, &corpus, WORDS, 1 << 16), |bytes, _| judge(bytes));
}
