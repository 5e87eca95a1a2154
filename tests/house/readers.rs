//! Every public reader of bytes or of a text that people write is tried with damaged ones: it is named in `tests/fuzz`.

/// What a reader calls the bytes that it reads, and the text.
const BYTES: &[&str] = &["bytes", "file", "piece", "block"];
const TEXTS: &[&str] = &["text", "words"];
/// Readers that another one's trial goes through, with that one's name; the browser alone calls `entry`.
const THROUGH: &[(&str, &str)] = &[("MemoryApp::of_snapshot", "Screen::open("), ("::of", "PageItem::file(")];
const NOT_LOOKED_AT: &[&str] = &["native/src/bin/", "wasm/src/entry"];

/// A public reader by its path, its type or module, and its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    path: String,
    of: String,
    name: String,
}

/// The readers of a file: functions that take bytes or a text and may fail, and `FromStr`.
pub(crate) fn readers(path: &str, source: &str) -> Vec<Reader> {
    let mut found = Vec::new();
    let mut of = String::new();
    let word =
        |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    for (at, line) in
        source.match_indices('\n').map(|(at, _)| at + 1).chain([0]).map(|at| (at, &source[at..]))
    {
        let head = line.split(['{', ';']).next().unwrap_or_default();
        let entry =
            |name: &str, of: &str| Reader { path: path.to_owned(), of: of.to_owned(), name: name.to_owned() };
        if let Some(of_what) =
            head.trim_end().rsplit_once("FromStr for ").filter(|_| head.starts_with("impl"))
        {
            found.push(entry("from_str", &word(of_what.1)));
        }
        let opens_nothing = line.lines().next().is_some_and(|line| line.ends_with("{}"));
        if line.starts_with("impl") && !opens_nothing {
            let of_what =
                head.rsplit_once(" for ").map_or_else(|| head.trim_start_matches("impl"), |(_, of)| of);
            let of_what = match of_what.strip_prefix('<') {
                Some(generic) => generic.split_once("> ").map_or("", |(_, of)| of),
                None => of_what,
            };
            of = word(of_what.trim_start());
        } else if at > 0 && line.starts_with('}') {
            of.clear();
        }
        let Some(signature) = head.trim_start().strip_prefix("pub fn ") else { continue };
        let takes = |names: &[&str], kind: &str| {
            names.iter().any(|name| signature.contains(&format!("{name}: {kind}")))
        };
        if (takes(BYTES, "&[u8]") || takes(TEXTS, "&str")) && signature.contains("-> Result<") {
            found.push(entry(&word(signature), &of));
        }
    }
    found
}

/// Readers that no trial names; `trials` is the text of all of them.
pub(crate) fn left_out(readers: &[Reader], trials: &str) -> Vec<String> {
    let tried = |reader: &&Reader| {
        let Reader { path, of, name } = *reader;
        let full = format!("{of}::{name}");
        if let Some((_, through)) = THROUGH.iter().find(|(name, _)| *name == full) {
            return trials.contains(through);
        }
        let stem = path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        let mut modules =
            stem.rsplit('/').take(2).map(|module| trials.contains(&format!("{module}::{name}(")));
        match (of.as_str(), name.as_str()) {
            (of, "from_str") => {
                [format!("<{of}>"), format!("{of}::from_str")].iter().any(|call| trials.contains(call))
            }
            ("", _) => modules.any(|called| called) || trials.contains(&format!(" {name}(")),
            (of, name) => trials.contains(of) && trials.contains(&format!("{name}(")),
        }
    };
    let missing = readers.iter().filter(|reader| !NOT_LOOKED_AT.iter().any(|p| reader.path.starts_with(p)));
    let missing = missing.filter(|reader| !tried(reader));
    missing.map(|r| format!("{}: {}::{} is tried with no damaged input", r.path, r.of, r.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_readers_are_found() {
        let source = "//! What.\nimpl<'a> Plan<'a> {\n    pub fn read(\n        bytes: &[u8],\n    ) -> Result<Plan, E> {\n    }\n\
                      pub fn size(&self) -> usize {\n    }\n}\nimpl Error for RowsError {}\npub fn rows(bytes: &[u8]) -> Result<Vec<Row>, E> {\n}\n\
                      fn private(bytes: &[u8]) -> Result<(), E> {\n}\nimpl FromStr for Axis {\n}\n";
        let found = readers("core/src/advise/row.rs", source);
        let names: Vec<String> = found.iter().map(|r| format!("{}::{}", r.of, r.name)).collect();
        assert_eq!(names, ["Plan::read", "::rows", "Axis::from_str"]);
        assert_eq!(left_out(&found, "").len(), 3);
        assert_eq!(left_out(&found, "Plan::read(b); advise::rows(b); same::<Axis>(b)").len(), 0);
        assert_eq!(left_out(&found, "Plan; other::rows(b); same::<Axis>(b)").len(), 2);
        let hidden = readers("wasm/src/entry.rs", source);
        assert_eq!(left_out(&hidden, "").len(), 0);
    }
}
