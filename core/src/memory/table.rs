//! What the tables for people have in common: names that cannot break a line, and rows that have an end.

use crate::grouped;

/// Rows of a table in text; data and JSON have all of them.
pub(crate) const MOST_ROWS: usize = 20;
/// Characters of a name in text.
const MOST_CHARS: usize = 60;

/// A name on one line of bounded length: control characters and those that turn the direction of text are escaped.
pub(crate) fn shown(name: &str) -> String {
    let mut text = String::new();
    for (k, c) in name.chars().enumerate() {
        if k == MOST_CHARS {
            text.push('…');
            break;
        }
        let turns = matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

/// The widest of these cells, at least as wide as the head.
pub(crate) fn width<'c>(head: &str, cells: impl IntoIterator<Item = &'c String>) -> usize {
    cells.into_iter().map(|cell| cell.chars().count()).max().unwrap_or(0).max(head.len())
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
