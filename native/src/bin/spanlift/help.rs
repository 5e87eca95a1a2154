//! Help texts and results in lines that a terminal shows whole.

use spanlift::text::columns;

/// Columns of the narrowest terminal that people read in.
pub(crate) const WIDTH: usize = 80;
/// Where the text of an option stands that has a line of its own for it.
const BELOW: usize = 10;

/// The text with its prose in short lines, each below what it belongs to. Commands to type keep their lines.
pub(crate) fn wrapped(help: &str) -> String {
    let mut text = String::with_capacity(help.len() + help.len() / 20);
    let mut is_listed = false;
    let mut paragraph = String::new();
    for line in help.lines().map(str::trim_end) {
        let indent = line.chars().take_while(|c| *c == ' ').count();
        let is_prose = indent == 0 && !line.is_empty() && !line.starts_with("Usage:");
        if is_prose {
            is_listed = matches!(line, "Commands:" | "Arguments:" | "Options:");
            // A line as long as this one goes on in the next.
            let goes_on = WIDTH < columns(line);
            paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
            paragraph.push_str(line);
            if goes_on {
                continue;
            }
        }
        fill(&mut text, &std::mem::take(&mut paragraph), 0);
        if is_prose {
            continue;
        }
        match hanging(line, indent).filter(|_| is_listed) {
            Some(hang) => fill(&mut text, line, hang),
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    fill(&mut text, &paragraph, 0);
    text
}

/// The column where the text of a listed line begins; `None` where it has none.
fn hanging(line: &str, indent: usize) -> Option<usize> {
    let words = &line[indent..];
    if BELOW <= indent {
        return Some(indent + if words.starts_with("- ") { 2 } else { 0 });
    }
    let gap = indent + words.find("  ")?;
    Some(gap + line[gap..].chars().take_while(|c| *c == ' ').count())
}

/// The text with what is longer than a line cut between words, each part below what it belongs to: the last column of a
/// table, or what stands behind a number or a dash. Words that are longer stay whole.
pub(crate) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for (k, line) in text.split('\n').enumerate() {
        folded.push_str(if k == 0 { "" } else { "\n" });
        if shown(line) <= WIDTH {
            folded.push_str(line);
            continue;
        }
        fill(&mut folded, line, below(line));
        folded.pop();
    }
    folded
}

/// Columns that a line takes at a terminal, which shows no colours as such.
fn shown(line: &str) -> usize {
    let mut parts = line.split('\u{1b}');
    let n = parts.next().map_or(0, columns);
    parts.fold(n, |n, part| n + part.split_once('m').map_or(0, |(_, text)| columns(text)))
}

/// The byte from which on a long line may be cut, below whose column its parts stand.
fn below(line: &str) -> usize {
    /// Further to the right there is no room for words.
    const MOST: usize = 56;
    let blanks = |from: usize| from + line[from..].len() - line[from..].trim_start_matches(' ').len();
    let mut at = blanks(0);
    if let Some((mark, _)) = line[at..].split_once(' ').filter(|(mark, _)| is_mark(mark)) {
        at += mark.len() + 1;
    }
    // Columns of a table are two blanks apart.
    while let Some(gap) = line[at..].find("  ") {
        match blanks(at + gap) {
            column if column <= MOST => at = column,
            _ => break,
        }
    }
    at
}

/// Whether a word begins an item of a list: `-`, `12.`.
fn is_mark(word: &str) -> bool {
    let number = word.strip_suffix('.').filter(|n| !n.is_empty());
    word == "-" || number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// Adds a line, cut between words, the later parts from a column on.
fn fill(text: &mut String, line: &str, hang: usize) {
    if line.is_empty() {
        return;
    }
    let (head, words) = line.split_at(hang);
    text.push_str(head);
    let hang = shown(head);
    let mut column = hang;
    for word in words.split(' ') {
        let width = shown(word);
        if column > hang && WIDTH < column + 1 + width {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', hang));
            column = hang;
        } else if column > hang {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_below_what_they_belong_to() {
        let row = |n: usize| vec!["word"; n].join(" ");
        for (head, first, hang) in [
            ("", 16, 0),
            ("     ", 15, 5),
            ("  12. ", 15, 6),
            ("   - ", 15, 5),
            ("  lat    1.5 us  ", 12, 17),
            // No room is left behind the last column.
            (&format!("  lat  {}", "x".repeat(60)), 2, 7),
            ("  \u{1b}[1mlat\u{1b}[0m  ", 14, 15),
        ] {
            let told = folded(&format!("{head}{}\nshort", row(20)));
            let lines: Vec<&str> = told.lines().collect();
            assert_eq!(lines[0], format!("{head}{}", row(first)), "{told}");
            let blanks = lines[1].chars().take_while(|c| *c == ' ').count();
            assert_eq!(blanks, if head.contains('\u{1b}') { 7 } else { hang }, "{told}");
            assert_eq!(lines.last(), Some(&"short"));
            assert!(lines.iter().all(|line| shown(line) <= WIDTH), "{told}");
            assert_eq!(told.matches("word").count(), 20);
        }
        let long = "x".repeat(200);
        assert_eq!(folded(&format!("a {long} b")), format!("a\n{long}\nb"));
        assert_eq!(folded(&"y".repeat(80)), "y".repeat(80));
    }

    #[test]
    fn prose_is_cut_between_words_and_commands_are_not() {
        let long = "word ".repeat(30);
        let long = long.trim_end();
        let help = format!(
            "{long}\nand on\n\nUsage: x {long}\n\nOptions:\n  -o <A>  {long}\n      --on\n          {long}\n          - a: {long}\n\n\
             Examples:\n  x {long}\n\nThe end\n"
        );
        let told = wrapped(&help);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&told), words(&help));
        for line in told.lines() {
            let is_command = line.starts_with("Usage:") || line.starts_with("  x ");
            assert!(is_command || line.chars().count() <= WIDTH, "{line}");
        }
        let row = |n: usize| vec!["word"; n].join(" ");
        assert!(told.starts_with(&format!("{}\n{} and on\n\nUsage: x {long}\n", row(16), row(14))), "{told}");
        assert!(told.contains(&format!("  -o <A>  {}\n          {}\n", row(14), row(14))), "{told}");
        assert!(told.contains(&format!("          - a: {}\n            {}\n", row(13), row(13))), "{told}");
        assert!(told.ends_with(&format!("Examples:\n  x {long}\n\nThe end\n")), "{told}");
        assert_eq!(wrapped(&told.replace(" and on", "")), told.replace(" and on", ""));
    }
}
