//! JSON: values read strictly, and how structs and names become JSON and come back.
//!
//! The forms are written down by declarative macros: derives would make everybody who builds this library build a parser of
//! Rust first.

mod object;
mod strict;

pub(crate) use object::{Choice, Name, Optional, named, object, read, written};
pub(crate) use strict::value;

/// What is wrong with a text that is no JSON: its reader's words where they say it, else ours, with the line and the column.
pub(crate) fn told(error: &serde_json::Error) -> String {
    const OURS: [(&str, &str); 3] = [
        ("expected ident", "expected `true`, `false` or `null`"),
        ("EOF while parsing a value", "the text ends where a value is expected"),
        ("EOF while parsing", "the text ends inside"),
    ];
    let text = error.to_string();
    let ours = OURS.iter().find_map(|(theirs, ours)| Some(format!("{ours}{}", text.strip_prefix(theirs)?)));
    ours.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    /// A reader that comes to say it otherwise is to be noticed.
    #[test]
    fn what_is_no_json_is_told_without_words_of_its_reader() {
        for (text, told) in [
            ("", "the text ends where a value is expected at line 1 column 0"),
            ("[1, ", "the text ends where a value is expected at line 1 column 4"),
            ("{\"a\": [1", "the text ends inside a list at line 1 column 8"),
            ("{\"a\"", "the text ends inside an object at line 1 column 4"),
            ("\"a", "the text ends inside a string at line 1 column 2"),
            ("foo: bar", "expected `true`, `false` or `null` at line 1 column 2"),
            ("[nul]", "expected `true`, `false` or `null` at line 1 column 5"),
            ("[1,\n]", "trailing comma at line 2 column 1"),
        ] {
            assert_eq!(super::value(text.as_bytes()), Err(told.to_owned()), "{text:?}");
        }
    }
}
