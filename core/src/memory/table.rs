//! What the tables for people have in common: names that cannot break a line, and rows that have an end.

use std::fmt;

use crate::ordered::CollectVec;
use crate::text::{apart, columns, grouped, padded};

/// Rows of a table in text; data and JSON have all of them.
pub(crate) const MOST_ROWS: usize = 20;
/// Characters of a name in text.
const MOST_CHARS: usize = 60;
/// Columns of a line, as a terminal shows it whole.
const LINE: usize = 80;
/// Columns of a name at least, where the others of its row leave no room.
const LEAST: usize = 24;

/// A name on one line of bounded length.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", escaped(&name[..end])),
        None => escaped(name),
    }
}

/// A name on one line: control characters and those that turn the direction of text are escaped.
pub(super) fn escaped(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        let turns = matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

/// The widest of these cells, at least as wide as the head.
pub(crate) fn width<'c>(head: &str, cells: impl IntoIterator<Item = &'c String>) -> usize {
    cells.into_iter().map(|cell| columns(cell)).max().unwrap_or(0).max(head.len())
}

/// Rows of a name and cells, below a head. The cells are as wide as `usual` where the rows fit a terminal then, else as wide as they
/// must be; names are cut to what is left of a line, and still told apart.
pub(crate) fn rows(
    f: &mut fmt::Formatter<'_>,
    indent: &str,
    usual: &[usize],
    rows: &[(&str, Vec<String>)],
) -> fmt::Result {
    let names: Vec<String> = rows.iter().map(|row| escaped(row.0)).collect_vec();
    let room =
        |widths: &[usize]| LINE.saturating_sub(indent.len() + widths.iter().map(|w| 2 + w).sum::<usize>());
    let mut widths = usual.to_vec();
    if room(usual) < width("", &names) {
        widths =
            (0..usual.len()).map(|c| width("", rows.iter().filter_map(|row| row.1.get(c)))).collect_vec();
    }
    let names = apart(&names, room(&widths).clamp(LEAST, MOST_CHARS));
    let first = width("", &names);
    for (name, row) in names.iter().zip(rows) {
        write!(f, "{indent}{}", padded(name, first))?;
        for (cell, w) in row.1.iter().zip(&widths) {
            write!(f, "  {cell:>w$}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

/// The line that stands for the rows beyond [`MOST_ROWS`]: `and 9,980 more`.
pub(crate) fn more(n: usize) -> Option<String> {
    n.checked_sub(MOST_ROWS).filter(|&rest| rest > 0).map(|rest| format!("and {} more", grouped(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_their_line_and_rows_end() {
        assert_eq!(shown("a\nb\u{1b}[31m\u{202e}x\t"), "a\\nb\\u{1b}[31m\\u{202e}x\\t");
        assert_eq!(shown(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
        assert_eq!(shown(&"é".repeat(60)), "é".repeat(60));
        assert_eq!((more(0), more(20), more(21).as_deref()), (None, None, Some("and 1 more")));
        assert_eq!(more(10_000).as_deref(), Some("and 9,980 more"));
    }
}
