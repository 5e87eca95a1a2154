//! What a file is, told from its first bytes: a program, an operator, a trace, a memory layout or a memory snapshot.

use std::borrow::Cow;
use std::fmt;

use serde_core::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use spanlift::plan::Script;
use spanlift::trace::snapshot::Snapshot;

use crate::columns;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A program, in JSON or in the text form.
    Program,
    /// An operator in the text form, an expression or a plan in JSON: what becomes a program by being planned.
    Operator,
    /// A trace in a form of Chrome Trace JSON, or in columns.
    Trace,
    /// A memory layout in JSON.
    Layout,
    /// A memory snapshot of PyTorch: a pickle.
    Snapshot,
}

/// What an object with a `schema` and `nodes` is.
pub const EXECUTION_TRACE: &str = "an execution trace of PyTorch (ExecutionTraceObserver), which has no times; open what its profiler exports \
     (export_chrome_trace)";

/// What packed a file that nothing here unpacks, by its first bytes; the program is called the same.
pub fn packer(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y', ..] => Some("bzip2"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        _ => None,
    }
}

/// What the bytes are.
///
/// A JSON object is what the first of its keys `ops`, `operator`, `traceEvents` and `storages` says; nothing behind that key is read. A
/// JSON list is a trace; whatever is no JSON is an operator or a program in the text form, by its first word.
///
/// # Errors
/// One line for a JSON object that is none of them, for a list of lists, for markup, and for a packed or an SQLite file.
pub fn of(bytes: &[u8]) -> Result<Kind, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Some(packer) = packer(bytes) {
        return Err(format!("packed with {packer}, which has to be undone first"));
    }
    match bytes {
        [0x1f, 0x8b, ..] => return Err("gzip data, which has to be unpacked first".to_owned()),
        [b'P', b'K', 3, 4, ..] => return Err("a zip archive; open the files in it".to_owned()),
        _ if bytes.starts_with(b"SQLite format 3\0") => {
            return Err(
                "an SQLite file, such as an export of Nsight Systems: `spanlift view` reads those".to_owned()
            );
        }
        _ if bytes.starts_with(columns::MAGIC) => return Ok(Kind::Trace),
        _ if Snapshot::is_pickle(bytes) => return Ok(Kind::Snapshot),
        _ => {}
    }
    match bytes.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'[') if holds_lists(bytes) => {
            Err("a list of lists, such as a memory timeline of PyTorch, which has sums alone; open a memory snapshot \
                 (torch.cuda.memory._dump_snapshot)"
                .to_owned())
        }
        Some(b'[') => Ok(Kind::Trace),
        Some(b'{') => of_object(bytes),
        Some(b'<') => Err("a web page or other markup, which a browser opens".to_owned()),
        _ if Script::is_one(&String::from_utf8_lossy(bytes)) => Ok(Kind::Operator),
        _ => Ok(Kind::Program),
    }
}

fn of_object(bytes: &[u8]) -> Result<Kind, String> {
    struct Keys<'a>(&'a mut Option<Kind>, &'a mut u32);
    impl<'de> Visitor<'de> for Keys<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<Cow<'_, str>>()? {
                *self.0 = match &*key {
                    "ops" => Some(Kind::Program),
                    "operator" => Some(Kind::Operator),
                    "traceEvents" => Some(Kind::Trace),
                    "storages" | "tensors" => Some(Kind::Layout),
                    "schema" | "nodes" => {
                        *self.1 += 1;
                        None
                    }
                    _ => None,
                };
                if self.0.is_some() {
                    return Ok(());
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let (mut kind, mut n_execution) = (None, 0);
    // What is no text comes after what is looked at, or its reader is asked.
    let text = std::str::from_utf8(bytes).or_else(|e| std::str::from_utf8(&bytes[..e.valid_up_to()]));
    let keys = Keys(&mut kind, &mut n_execution);
    let read = serde_json::Deserializer::from_str(text.unwrap_or_default()).deserialize_map(keys);
    match (kind, read) {
        (Some(kind), _) => Ok(kind),
        // The reader of traces takes what JSON does not allow, such as the NaN of Python.
        (None, Err(_)) if holds_events(bytes) => Ok(Kind::Trace),
        (None, _) if n_execution == 2 => Err(EXECUTION_TRACE.to_owned()),
        // A broken program says where: its reader is asked.
        (None, Err(_)) => Ok(Kind::Program),
        (None, Ok(())) => {
            Err("neither a program (no list \"ops\") nor an operator (no \"operator\") nor a trace (no list \"traceEvents\") nor a memory layout (no \
                 list \"storages\")"
                .to_owned())
        }
    }
}

/// Whether the list of a trace's events is named somewhere.
fn holds_events(bytes: &[u8]) -> bool {
    const KEY: &[u8] = b"\"traceEvents\"";
    bytes.windows(KEY.len()).any(|window| window == KEY)
}

/// Whether a list begins with a list, and nothing in it can be an event.
fn holds_lists(bytes: &[u8]) -> bool {
    bytes.iter().filter(|b| !b.is_ascii_whitespace()).nth(1) == Some(&b'[') && !bytes.contains(&b'{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Kind>) {
        assert_eq!(of(text.as_bytes()).ok(), expected, "{text}");
    }

    #[test]
    fn the_first_key_that_decides_does() {
        check(r#"{"schema_version": 1, "ops": []}"#, Some(Kind::Program));
        check(r#"{"schemaVersion": 1, "traceEvents": [], "spanlift": {"ops": []}}"#, Some(Kind::Trace));
        check(r#"{"a": {"ops": []}, "b": ["traceEvents"], "traceEvents": [{"#, Some(Kind::Trace));
        check("\u{feff} \n[{}]", Some(Kind::Trace));
        check(r#"{"loss": NaN, "traceEvents": []}"#, Some(Kind::Trace));
        check("{\"note\": \"a\tb\", \"traceEvents\": []}", Some(Kind::Trace));
        check(r#"{"loss": NaN, "ops": []}"#, Some(Kind::Program));
        check("machine tutorial-ci\nstream s\n", Some(Kind::Program));
        check("", Some(Kind::Program));
        check("# mine\n operator\nA = identity", Some(Kind::Operator));
        check("operators\n", Some(Kind::Program));
        check(r#"{"leaves": [], "operator": {"op": "chain"}, "ops": 1}"#, Some(Kind::Operator));
        check("{", Some(Kind::Program));
        check(r#"{"a": 1, "b": "#, Some(Kind::Program));
        check(r#"{"op\u0073": []}"#, Some(Kind::Program));
        check("{}", None);
        check("\n<!doctype html>", None);
        check(r#"{"storages": []}"#, Some(Kind::Layout));
        check(r#"{"note": "ops", "tensors": [], "storages": []}"#, Some(Kind::Layout));
    }

    #[test]
    fn what_pytorch_writes_beside_traces_is_told_by_what_it_is() {
        let told = |text: &str| of(text.as_bytes()).unwrap_err();
        for nodes in
            [r#"[{"id": 1, "name": "run"}], "finish_ts": 9}"#, r#"[{"inputs": [NaN]}]}"#, r#"[{"id": 1"#]
        {
            assert_eq!(
                told(&format!(r#"{{"schema": "1.1.1", "start_ts": 5, "nodes": {nodes}"#)),
                EXECUTION_TRACE
            );
        }
        check(r#"{"schema": 1, "nodes": [], "ops": []}"#, Some(Kind::Program));
        check(r#"{"schema": 1, "nodes": [], "traceEvents": []}"#, Some(Kind::Trace));
        check(r#"{"schema": 1, "nodes": [NaN], "traceEvents": []}"#, Some(Kind::Trace));
        assert!(told(r#"{"nodes": [], "edges": []}"#).starts_with("neither"));
        for list in ["[[0, 1], [[0, 4], [0, 8]]]", "\u{feff} [\n[0, 0, 512, 3]]", "[[]]"] {
            assert!(told(list).starts_with("a list of lists, such as a memory timeline"), "{list}");
        }
        for list in ["[]", "[1]", r#"[[], {"ph": "X"}]"#, r#"[{"ph": "X", "args": [[1]]}]"#] {
            check(list, Some(Kind::Trace));
        }
    }

    #[test]
    fn what_is_packed_in_another_way_is_told_by_which() {
        for (head, packer) in
            [(&b"\xfd7zXZ\0\0"[..], "xz"), (b"BZh91AY&SY", "bzip2"), (b"\x28\xb5\x2f\xfd\x04", "zstd")]
        {
            assert_eq!(of(head), Err(format!("packed with {packer}, which has to be undone first")));
        }
        assert_eq!(packer(b"BZh: sync s"), None, "a thread may be called so");
    }
}
