//! How wide text will be at most, how it is cut to fit, and how quantities are written.
//!
//! Widths are guesses from above: those of DejaVu Sans, one of the widest common faces, so that text which fits here
//! fits with every face that a reader's machine may choose for `sans-serif`.

use spanlift::text::grouped;
use spanlift::{Bytes, Nanos};

/// At most how wide `text` is at `size` pixels.
pub fn width(text: &str, size: f64, bold: bool) -> f64 {
    let units: f64 = text.chars().map(advance).sum();
    units * size * if bold { 1.13 } else { 1.0 }
}

/// At most how wide `text` is at `size` pixels in a face of equal widths.
pub fn mono_width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| if c.is_ascii() { 0.61 } else { 1.0 }).sum::<f64>() * size
}

/// The advance of a character in units of the size.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' => 0.29,
        ' ' | '.' | ',' | '·' | '|' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '\\' | ':' | ';' | 'I' | 'J' | '-' => 0.42,
        's' | 'z' | 'c' | '_' | '!' | '"' | '?' | '*' => 0.55,
        'a'
        | 'b'
        | 'd'
        | 'e'
        | 'g'
        | 'h'
        | 'k'
        | 'n'
        | 'o'
        | 'p'
        | 'q'
        | 'u'
        | 'v'
        | 'x'
        | 'y'
        | '0'..='9'
        | 'µ' => 0.64,
        'L' | 'F' | 'E' | 'S' | 'T' | 'P' | 'B' | 'Z' | '$' => 0.69,
        'm' | 'W' | '@' | '%' | '…' | '—' => 1.0,
        'w' | 'M' | 'O' | 'Q' | 'G' | 'D' | 'N' | 'H' | 'U' | '<' | '>' | '=' | '+' | '~' | '→' | '←'
        | '×' | '#' => 0.87,
        'A'..='Z' | '&' | '{' | '}' | '^' | '`' => 0.75,
        _ => 1.0,
    }
}

/// `text` cut with an ellipsis to at most `room` pixels; `None` when fewer than three of its characters would remain.
pub fn fit(text: &str, size: f64, bold: bool, room: f64) -> Option<String> {
    if width(text, size, bold) <= room {
        return Some(text.to_owned());
    }
    let scale = if bold { 1.13 } else { 1.0 };
    let (mut end, mut units) = (0, 0.0);
    for c in text.chars() {
        units += advance(c);
        if (units + advance('…')) * size * scale > room {
            break;
        }
        end += c.len_utf8();
    }
    let kept = text[..end].trim_end();
    (kept.chars().count() >= 3).then(|| format!("{kept}…"))
}

/// The end of `text` behind an ellipsis, in at most `room` pixels.
pub fn end(text: &str, size: f64, bold: bool, room: f64) -> String {
    let cuts = text.char_indices().map(|(k, _)| format!("…{}", &text[k..]));
    cuts.skip(1).find(|cut| width(cut, size, bold) <= room).unwrap_or_default()
}

/// `text` broken at spaces into lines of at most `room` pixels; a longer word is cut.
pub fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // How wide the last line is: measured anew for each word, a long text would take its square.
    let mut units = 0.0;
    for word in text.split_whitespace() {
        let word = fit(word, size, false, room).unwrap_or_default();
        let longer = word.chars().fold(units + advance(' '), |sum, c| sum + advance(c));
        match lines.last_mut() {
            Some(line) if longer * size <= room => {
                line.push(' ');
                line.push_str(&word);
                units = longer;
            }
            _ => {
                units = word.chars().map(advance).sum();
                lines.push(word);
            }
        }
    }
    lines
}

/// A length of time with its unit, four digits or as many as are known: `98 µs`, `5.300 µs`, `12,345.6 s`. Just below a unit it is
/// `1.000 ms`.
pub fn time(ns: i64) -> String {
    let written = Nanos(ns).to_string();
    let (number, unit) = written.split_once(' ').unwrap_or_default();
    let unit = if unit == "us" { "µs" } else { unit };
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    // Nine hundred and more of the unit below are rounded to one of this, and not known to be it.
    let is_below = matches!(whole, "1" | "-1") && ns.unsigned_abs().to_string().starts_with('9');
    let rest = if rest.bytes().all(|digit| digit == b'0') && !is_below { "" } else { rest };
    let point = if rest.is_empty() { "" } else { "." };
    format!("{}{point}{rest} {unit}", grouped(whole))
}

/// A number of bytes with its unit: `4 MiB`, `3.81 MiB`, `999 B`.
pub fn bytes(n: u64) -> String {
    Bytes(n).to_string().replace(".00 ", " ")
}

/// Bytes per second with a unit: `42.8 GB/s`; `None` when no time passed. No thousand of a unit is written that has a next one.
pub fn rate(bytes: u64, ns: i64) -> Option<String> {
    if ns <= 0 || bytes == 0 {
        return None;
    }
    Some(gb_s(bytes as f64 / ns as f64))
}

/// A rate in bytes per nanosecond, which are GB/s.
pub fn gb_s(gb_s: f64) -> String {
    for (scale, unit, most) in [(1e9, "B/s", 5), (1e6, "kB/s", 5), (1e3, "MB/s", 5), (1.0, "GB/s", 4)] {
        let number = format!("{:.1}", gb_s * scale);
        // Up to 999.9; what is rounded to more is one of the next unit.
        if number.len() <= most {
            return format!("{number} {unit}");
        }
    }
    format!("{} GB/s", grouped(format!("{gb_s:.0}")))
}

/// Running text in which no line ends between a figure and its unit; `us`, as the command has it, becomes `µs`.
pub fn unbroken(text: &str) -> String {
    const UNITS: &str = "% × ns us µs ms s B KiB MiB GiB TiB B/s kB/s MB/s GB/s";
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(' ') {
        let is_unit = |unit: &str| {
            after
                .strip_prefix(unit)
                .is_some_and(|next| !next.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/'))
        };
        let is_figure = before.ends_with(|c: char| c.is_ascii_digit()) && UNITS.split(' ').any(is_unit);
        out.push_str(before);
        out.push(if is_figure { '\u{a0}' } else { ' ' });
        rest = after;
        if is_figure && let Some(second) = rest.strip_prefix('u') {
            out.push('µ');
            rest = second;
        }
    }
    out + rest
}

/// A number of things: `1 view`, `3 views`, `2 copies`.
pub fn count(n: usize, what: &str) -> String {
    let n_digits = grouped(n);
    match (n, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{n_digits} {stem}ies"),
        _ => format!("{n_digits} {what}s"),
    }
}

/// `text` without characters that neither a picture nor a page may hold, nor those that turn the letters behind them.
pub fn clean(text: &str) -> String {
    // Nearly all names are.
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return text.to_owned();
    }
    let turns = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_none = |c: char| {
        c.is_control() || turns(c) || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
    };
    text.chars().map(|c| if is_none(c) { '\u{fffd}' } else { c }).collect()
}

/// `text` with a mark where words from right to left end: what is written behind them, as figures and brackets, would go to their left.
pub(crate) fn marked(text: &str) -> String {
    let is_turned =
        |c| matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}');
    let (mut out, mut after) = (String::with_capacity(text.len()), false);
    for c in text.chars() {
        if after && !is_turned(c) && c != ' ' && c != '_' {
            out.push('\u{200e}');
            after = false;
        }
        after |= is_turned(c);
        out.push(c);
    }
    out
}

/// `text` cleaned and cut to some 24 letters, to stand in a sentence.
pub fn short(text: &str) -> String {
    fit(&clean(text), 1.0, false, 18.0).unwrap_or_else(|| "…".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_words_from_right_to_left_stays_behind_them() {
        for (text, expected) in [
            ("copy d <- x · 4 MiB", "copy d <- x · 4 MiB"),
            ("وجهة[0..64] on 复制", "وجهة~[0..64] on 复制"),
            // Words of one name stay a name.
            ("نسخ الذاكرة_ב · 4 MiB", "نسخ الذاكرة_ב ~· 4 MiB"),
            ("نواة", "نواة"),
        ] {
            assert_eq!(marked(text), expected.replace('~', "\u{200e}"));
        }
    }

    #[test]
    fn a_figure_and_its_unit_stay_on_one_line() {
        for (text, expected) in [
            ("71.3 %", "71.3~%"),
            ("98 µs, 4.00 MiB at 42.8 GB/s", "98~µs, 4.00~MiB at 42.8~GB/s"),
            ("took 4 s · 12 B", "took 4~s · 12~B"),
            ("880.000 us before, 10 us.", "880.000~µs before, 10~µs."),
            ("3 users, 5 us/x, told us", "3 users, 5 us/x, told us"),
            ("500.0 kB/s ± 50 %", "500.0~kB/s ± 50~%"),
            ("4 streams, 3 bytes, 2 sB, 5 B/x, x s, 1  s", "4 streams, 3 bytes, 2 sB, 5 B/x, x s, 1  s"),
            ("0 to 9 ns\\nbusy 3 ns", "0 to 9~ns\\nbusy 3~ns"),
            ("", ""),
        ] {
            assert_eq!(unbroken(text), expected.replace('~', "\u{a0}"));
        }
    }

    #[test]
    fn cut_text_fits_and_says_that_it_was_cut() {
        for text in ["Memcpy HtoD (Pinned -> Device)", "iiiiiiiiii", "WWWWWW", "日本語のカーネル"] {
            for room in 0..200 {
                let room = f64::from(room);
                match fit(text, 11.5, false, room) {
                    Some(kept) => {
                        assert!(width(&kept, 11.5, false) <= room, "{kept} in {room}");
                        assert!(kept == text || kept.ends_with('…'));
                    }
                    None => assert!(width(text, 11.5, false) > room),
                }
            }
        }
    }

    #[test]
    fn quantities_carry_units() {
        assert_eq!(time(98_000), "98 µs");
        assert_eq!(time(98_010), "98.01 µs");
        assert_eq!(time(5_300), "5.300 µs");
        assert_eq!(time(-1), "-1 ns");
        assert_eq!(time(12_345_600_000_000), "12,345.6 s");
        assert_eq!(time(-4_000_000_000_000), "-4,000 s");
        assert_eq!(bytes(4 << 20), "4 MiB");
        assert_eq!(bytes(4_000_000), "3.81 MiB");
        assert_eq!(rate(4 << 20, 98_000).as_deref(), Some("42.8 GB/s"));
        assert_eq!(rate(4096, 0), None);
        assert_eq!(grouped(4_194_304), "4,194,304");
        assert_eq!(grouped(7), "7");
        assert_eq!(
            [count(1, "copy"), count(0, "copy"), count(1200, "view")],
            ["1 copy", "0 copies", "1,200 views"]
        );
    }

    #[test]
    fn at_the_border_of_a_unit_the_next_one_is_written() {
        for (ns, words) in [
            (999, "999 ns"),
            (1_000, "1 µs"),
            (999_949, "999.9 µs"),
            (999_951, "1.000 ms"),
            (999_999, "1.000 ms"),
            (-999_999, "-1.000 ms"),
            (1_000_000, "1 ms"),
            (999_949_999, "999.9 ms"),
            (999_950_001, "1.000 s"),
            (999_999_000, "1.000 s"),
            (1_000_000_000, "1 s"),
            (9_999_600, "10 ms"),
            (98_004, "98 µs"),
        ] {
            assert_eq!(time(ns), words, "{ns}");
        }
        let all = [
            (1, 1_000_000_000, "1.0 B/s"),
            (949, 1_000_000_000, "949.0 B/s"),
            (950, 1_000_000_000, "950.0 B/s"),
            (1_000, 1_000_000_000, "1.0 kB/s"),
            (999_940, 1_000_000_000, "999.9 kB/s"),
            (999_960, 1_000_000_000, "1.0 MB/s"),
            (99_994, 100_000, "999.9 MB/s"),
            (99_996, 100_000, "1.0 GB/s"),
            (9_994, 100, "99.9 GB/s"),
            (9_996, 100, "100 GB/s"),
            (12_345, 1, "12,345 GB/s"),
        ];
        for (bytes, ns, words) in all {
            assert_eq!(rate(bytes, ns).as_deref(), Some(words), "{bytes} in {ns}");
        }
    }

    #[test]
    fn no_name_turns_what_follows() {
        assert_eq!(clean("a\u{202e}b\u{0}c\u{2066}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(short("weights"), "weights");
        assert!(short(&"name ".repeat(40)).ends_with('…') && short(&"日".repeat(40)).chars().count() < 20);
    }

    #[test]
    fn lines_hold_every_word_in_order() {
        let text = "the copy still writes it while the kernel reads";
        let lines = wrap(text, 12.0, 90.0);
        assert!(lines.len() > 2);
        assert_eq!(lines.join(" "), text);
    }
}
