//! What a page carries: items to show, as one block of bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the head, little endian |
//! | head | JSON: `{"items": [{"name", "kind", "machine", "to", "one_by_one", "bytes"}]}` |
//! | rest | the items' bytes, one behind the other |
//!
//! The page gets the block packed with gzip and written with 91 digits; its script and the browser undo both.

use serde_json::{Value, json};
use spanlift::memory::{Layout, MoveKind, Target};

use crate::written::is_operator;
use crate::{columns, kind};

/// Where the tensors of a layout go that are copied where they are.
pub const DEEP_COPY: &str = "deepcopy";

/// Something that a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageItem {
    /// What it is called in the list.
    pub name: String,
    /// What it is.
    pub content: Content,
}

/// What an item of a page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A trace file: spanlift's own or the PyTorch profiler's, unpacked, or its [columns].
    Trace(Vec<u8>),
    /// A program, which the page simulates, or an operator, which it plans first.
    Program {
        /// The program in JSON or in the text form, or [what becomes one](crate::written).
        source: String,
        /// The name of a built-in machine profile, or a profile as JSON; empty for the one that the program names.
        machine: String,
    },
    /// A memory layout.
    Layout {
        /// The layout in JSON.
        json: String,
        /// The device that its tensors move to, [`DEEP_COPY`], or nothing.
        to: String,
        /// How they move.
        kind: MoveKind,
    },
    /// A memory snapshot of PyTorch, unpacked.
    Snapshot(Vec<u8>),
}

impl PageItem {
    /// A memory layout, and with `to` what moving its tensors there, or copying them, takes.
    pub fn layout(name: impl Into<String>, layout: &Layout, to: Option<Target>, kind: MoveKind) -> PageItem {
        let to = match to {
            None => String::new(),
            Some(Target::Device(device)) => device.to_string(),
            Some(Target::InPlace) => DEEP_COPY.to_owned(),
        };
        let json = layout.to_json();
        PageItem { name: name.into(), content: Content::Layout { json, to, kind } }
    }

    /// A trace, as the page will read it.
    pub fn trace(name: impl Into<String>, trace: &spanlift::Trace) -> PageItem {
        PageItem { name: name.into(), content: Content::Trace(columns::write(trace)) }
    }

    /// A file, unpacked, as what its bytes say it is.
    ///
    /// # Errors
    /// Why it is nothing that can be shown, in words. Whether it can be read is asked when it is opened.
    pub fn file(name: impl Into<String>, bytes: Vec<u8>) -> Result<PageItem, String> {
        let name = name.into();
        let text = |bytes| {
            String::from_utf8(bytes)
                .map_err(|e| format!("byte {}: no UTF-8 text", e.utf8_error().valid_up_to()))
        };
        let content = match kind::of(&bytes)? {
            kind::Kind::Trace => Content::Trace(bytes),
            kind::Kind::Program | kind::Kind::Operator => {
                Content::Program { source: text(bytes)?, machine: String::new() }
            }
            kind::Kind::Layout => {
                Content::Layout { json: text(bytes)?, to: String::new(), kind: MoveKind::Aware }
            }
            kind::Kind::Snapshot => Content::Snapshot(bytes),
        };
        Ok(PageItem { name, content })
    }

    /// Whether it is a program, or a trace that holds one: it is shown with both parts of the viewer's module, all else with the first.
    pub(crate) fn has_program(&self) -> bool {
        match &self.content {
            Content::Program { .. } => true,
            Content::Trace(bytes) => columns::has_program(bytes),
            Content::Layout { .. } | Content::Snapshot(_) => false,
        }
    }

    /// Whether it is an operator, which only some pages show.
    pub fn is_operator(&self) -> bool {
        matches!(&self.content, Content::Program { source, .. } if is_operator(source))
    }

    /// A memory snapshot of PyTorch, unpacked.
    pub fn snapshot(name: impl Into<String>, bytes: Vec<u8>) -> PageItem {
        PageItem { name: name.into(), content: Content::Snapshot(bytes) }
    }

    /// A trace file, unpacked.
    pub fn trace_file(name: impl Into<String>, bytes: Vec<u8>) -> PageItem {
        PageItem { name: name.into(), content: Content::Trace(bytes) }
    }

    /// A program that the page simulates on a machine: a built-in profile's name, a profile as JSON, or nothing for the
    /// one that the program names.
    pub fn program(
        name: impl Into<String>,
        program: &spanlift::Program,
        machine: impl Into<String>,
    ) -> PageItem {
        PageItem::source(name, program.to_json(), machine)
    }

    /// A program as its author wrote it, comments and all.
    pub fn source(
        name: impl Into<String>,
        source: impl Into<String>,
        machine: impl Into<String>,
    ) -> PageItem {
        let content = Content::Program { source: source.into(), machine: machine.into() };
        PageItem { name: name.into(), content }
    }
}

/// The block that holds `items`.
pub fn pack(items: &[PageItem]) -> Vec<u8> {
    let (mut entries, mut rest) = (Vec::new(), Vec::new());
    for item in items {
        let (kind, bytes): (&str, &[u8]) = match &item.content {
            Content::Trace(bytes) => ("trace", bytes),
            Content::Program { source, .. } => ("program", source.as_bytes()),
            Content::Layout { json, .. } => ("layout", json.as_bytes()),
            Content::Snapshot(bytes) => ("snapshot", bytes),
        };
        let mut entry = json!({"name": item.name, "kind": kind, "bytes": bytes.len()});
        match &item.content {
            Content::Program { machine, .. } if !machine.is_empty() => entry["machine"] = json!(machine),
            Content::Layout { to, kind, .. } => {
                entry["to"] = json!(to);
                entry["one_by_one"] = json!(*kind == MoveKind::Naive);
            }
            _ => {}
        }
        entries.push(entry);
        rest.extend(bytes);
    }
    let head = json!({"items": entries}).to_string();
    let length = u32::try_from(head.len()).unwrap_or_else(|_| unreachable!("bug: a head of four gigabytes"));
    [&length.to_le_bytes(), head.as_bytes(), &rest].concat()
}

/// The items in a block.
///
/// # Errors
/// What is wrong with the block, in words.
pub fn unpack(block: &[u8]) -> Result<Vec<PageItem>, String> {
    let cut = || "the page's data is cut off".to_owned();
    let (length, rest) = block.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| cut())?;
    let (head, mut rest) = rest.split_at_checked(length).ok_or_else(cut)?;
    let wrong = |what: &str| format!("the page's list of items: {what}");
    let head = std::str::from_utf8(head).map_err(|e| wrong(&e.to_string()))?;
    let head: Value = serde_json::from_str(head).map_err(|e| wrong(&e.to_string()))?;
    let mut items = Vec::new();
    for entry in head["items"].as_array().ok_or_else(|| wrong("it has none"))? {
        let word = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let n = entry["bytes"].as_u64().and_then(|n| usize::try_from(n).ok());
        let (bytes, after) = rest.split_at_checked(n.ok_or_else(|| wrong("no bytes"))?).ok_or_else(cut)?;
        rest = after;
        let name = word("name");
        let content = match entry["kind"].as_str() {
            Some("trace") => Content::Trace(bytes.to_vec()),
            Some("snapshot") => Content::Snapshot(bytes.to_vec()),
            Some("program") => Content::Program { source: text(bytes, &name)?, machine: word("machine") },
            Some("layout") => {
                let is_naive = entry["one_by_one"] == true;
                let kind = if is_naive { MoveKind::Naive } else { MoveKind::Aware };
                Content::Layout { json: text(bytes, &name)?, to: word("to"), kind }
            }
            _ => return Err(wrong("a kind that is not known")),
        };
        items.push(PageItem { name, content });
    }
    if rest.is_empty() { Ok(items) } else { Err("bytes behind the page's last item".to_owned()) }
}

fn text(bytes: &[u8], name: &str) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|e| format!("{name:?}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlift::memory::cuda;

    #[test]
    fn a_file_is_what_its_bytes_say() {
        let content = |bytes: &[u8]| PageItem::file("f", bytes.to_vec()).map(|item| item.content);
        assert!(matches!(content(b"stream s\n"), Ok(Content::Program { .. })));
        assert!(matches!(content(b" [{}]"), Ok(Content::Trace(_))));
        assert!(matches!(content(b"{\"tensors\": []}"), Ok(Content::Layout { .. })));
        assert!(matches!(content(&[0x80, 4, b'.']), Ok(Content::Snapshot(_))));
        assert_eq!(content(b"\x89PNG"), Err("byte 0: no UTF-8 text".to_owned()));
        for (bytes, word) in
            [(&b"\x1f\x8b\x08"[..], "gzip"), (b"PK\x03\x04", "zip"), (b"SQLite format 3\0", "SQLite")]
        {
            assert!(content(bytes).is_err_and(|e| e.contains(word)), "{word}");
        }
    }

    #[test]
    fn what_goes_in_comes_out_and_every_cut_is_noticed() {
        let items = vec![
            PageItem::trace("a", &crate::testing::race()),
            PageItem::source("b \"quoted\"", "stream s # é", "h200-pcie5"),
            PageItem::trace_file("empty", Vec::new()),
            PageItem::snapshot("s", vec![0x80, 4, b'.']),
            PageItem::layout("l", &Layout::new(), Some(Target::Device(cuda(1))), MoveKind::Naive),
        ];
        let block = pack(&items);
        assert_eq!(unpack(&block).unwrap(), items);
        for cut in 0..block.len() {
            assert!(unpack(&block[..cut]).is_err(), "cut at {cut}");
        }
        assert!(unpack(&[&block[..], &[0]].concat()).is_err());
    }
}
