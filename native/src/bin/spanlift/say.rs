//! What the command says and where: results to standard output, problems to standard error, one line each.
//!
//! Text from files is shown with its control characters escaped: it can neither break a line nor reach the terminal.

use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::Path;

use crate::help;
use spanlift::text::grouped;

/// Problems said at most, of one input.
const MOST_LINES: usize = 100;
/// Characters of one line said at most, and how many of them are its end, which says what is wrong.
const MOST_CHARS: usize = 4000;
const END_CHARS: usize = 1000;

/// Why a command could not do what it was asked for; every entry is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fail {
    lines: Vec<String>,
}

impl Fail {
    /// One problem of the call.
    pub(crate) fn new(message: impl Into<String>) -> Fail {
        Fail { lines: vec![message.into()] }
    }

    /// One problem of an input.
    pub(crate) fn at(place: &str, message: impl std::fmt::Display) -> Fail {
        Fail::new(format!("{place}: {message}"))
    }

    /// All problems of an input, of which there is at least one.
    pub(crate) fn all(place: &str, messages: &[String]) -> Fail {
        let mut lines: Vec<String> =
            messages.iter().take(MOST_LINES).map(|m| format!("{place}: {m}")).collect();
        if MOST_LINES < messages.len() {
            lines.push(format!("{place}: and {} more problems", messages.len() - MOST_LINES));
        }
        Fail { lines }
    }

    /// All problems of an input, however many they are.
    pub(crate) fn every(place: &str, messages: &[String]) -> Fail {
        Fail { lines: messages.iter().map(|m| format!("{place}: {m}")).collect() }
    }

    /// The first problem alone.
    pub(crate) fn first(mut self) -> Fail {
        self.lines.truncate(1);
        self
    }

    /// Says it on standard error as what is no failure here.
    pub(crate) fn warn(&self) {
        for line in &self.lines {
            warning_line(line);
        }
    }

    /// Says it on standard error.
    pub(crate) fn tell(&self) {
        for line in &self.lines {
            error_line(line);
        }
    }
}

/// `error: …` on standard error.
pub(crate) fn error_line(message: &str) {
    headed_line(Style::Error, "error: ", message);
}

/// `warning: …` on standard error.
pub(crate) fn warning_line(message: &str) {
    headed_line(Style::May, "warning: ", message);
}

fn headed_line(style: Style, head: &str, message: &str) {
    let head = paint(coloured(&io::stderr()), style, head);
    // Nobody is left to be told when standard error is gone.
    let _ = writeln!(io::stderr(), "{head}{}", one_line(message));
}

/// Further text on standard error, as it is.
pub(crate) fn hint(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Text on one line of bounded length, control characters escaped.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(MOST_CHARS));
    let left_out = match text.chars().count() {
        n if n <= MOST_CHARS => n..n,
        n => MOST_CHARS - END_CHARS..n - END_CHARS,
    };
    for (k, c) in text.chars().enumerate() {
        if k == left_out.start && !left_out.is_empty() {
            line.push('…');
        }
        if !left_out.contains(&k) {
            push_escaped(&mut line, c);
        }
    }
    line
}

/// Text of any number of lines, other control characters escaped.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' { safe.push(c) } else { push_escaped(&mut safe, c) }
    }
    safe
}

fn push_escaped(text: &mut String, c: char) {
    if c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    {
        let _ = write!(text, "{}", c.escape_default());
    } else {
        text.push(c);
    }
}

/// How a path is called in messages.
pub(crate) fn place(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

/// A file that was written, by its name on one line.
pub(crate) fn written(path: &Path) -> String {
    one_line(&path.display().to_string())
}

/// `1 hazard`, `2 hazards`.
pub(crate) fn counted(n: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// As [`counted`], for any count.
pub(crate) fn counted_u64(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// What colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// A hazard or a wrong value.
    Error,
    /// A possible hazard.
    May,
    /// All is well.
    Good,
    /// A heading.
    Strong,
}

fn coloured(stream: &impl IsTerminal) -> bool {
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    stream.is_terminal() && unset("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn paint(on: bool, style: Style, text: &str) -> String {
    let code = match style {
        Style::Error => "1;31",
        Style::May => "1;33",
        Style::Good => "1;32",
        Style::Strong => "1",
    };
    if on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Standard output: a reader that goes away ends it quietly, every other fault is told by [`Out::finish`].
pub(crate) struct Out {
    to: Box<dyn Write>,
    colour: bool,
    /// People read it as it comes.
    is_terminal: bool,
    fault: Option<io::Error>,
}

impl Out {
    pub(crate) fn stdout() -> Out {
        let stdout = io::stdout();
        Out {
            colour: coloured(&stdout),
            is_terminal: stdout.is_terminal(),
            to: Box::new(BufWriter::new(stdout)),
            fault: None,
        }
    }

    /// Prints text as it is.
    pub(crate) fn text(&mut self, text: &str) {
        if self.fault.is_none()
            && let Err(fault) = self.to.write_all(text.as_bytes())
        {
            self.fault = Some(fault);
        }
    }

    /// Prints text and ends the line. At a terminal, lines that are too long for it are cut between words; for other programs
    /// a line stays a line.
    pub(crate) fn line(&mut self, text: &str) {
        match self.is_terminal {
            true => self.text(&help::folded(text)),
            false => self.text(text),
        }
        self.text("\n");
    }

    /// Prints text that is JSON on a line, which stays one at a terminal too: cut between words it would be no JSON.
    pub(crate) fn json_text(&mut self, text: &str) {
        self.text(text);
        self.text("\n");
    }

    /// Prints a value as JSON on a line, without ever holding its text.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) {
        if self.fault.is_none()
            && let Err(fault) = serde_json::to_writer(&mut self.to, value)
        {
            self.fault = Some(fault.into());
        }
        self.text("\n");
    }

    /// The text in the style's colour, where standard output is a terminal.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        paint(self.colour, style, text)
    }

    /// Writes out what there is by now, for those who wait for it.
    pub(crate) fn flush(&mut self) {
        if self.fault.is_none() {
            self.fault = self.to.flush().err();
        }
    }

    /// Writes out what is left.
    ///
    /// # Errors
    /// What went wrong with any of the output, unless its reader went away.
    pub(crate) fn finish(mut self) -> Result<(), Fail> {
        let fault = self.fault.take().or_else(|| self.to.flush().err());
        match fault {
            Some(fault) if fault.kind() != ErrorKind::BrokenPipe => {
                Err(Fail::at("standard output", lower(&fault)))
            }
            _ => Ok(()),
        }
    }
}

/// An operating system's error in words that begin small.
pub(crate) fn lower(error: &io::Error) -> String {
    let text = match error.kind() {
        ErrorKind::NotFound => "no such file or folder".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "is a folder, not a file".to_owned(),
        ErrorKind::NotADirectory => "part of the path is not a folder".to_owned(),
        _ => error.to_string(),
    };
    let mut chars = text.chars();
    // Abbreviations such as `I/O` stay as they are.
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            format!("{}{second}{}", first.to_lowercase(), chars.as_str())
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_files_stays_on_its_line() {
        assert_eq!(one_line("a\nb\u{1b}[31m\u{202e}"), r"a\nb\u{1b}[31m\u{202e}");
        assert_eq!(harmless("a\nb\rc"), "a\nb\\rc");
        assert_eq!(one_line(&"x".repeat(MOST_CHARS + 9)).chars().count(), MOST_CHARS + 1);
        assert_eq!(one_line("größer → 7"), "größer → 7");
    }

    #[test]
    fn one_is_counted_alone() {
        assert_eq!(counted(1, "hazard"), "1 hazard");
        assert_eq!(counted(1200, "hazard"), "1,200 hazards");
    }

    #[test]
    fn many_problems_are_told_up_to_a_bound() {
        let messages: Vec<String> = (0..MOST_LINES + 7).map(|k| format!("command {k}: wrong")).collect();
        let fail = Fail::all("p.json", &messages);
        assert_eq!(fail.lines.len(), MOST_LINES + 1);
        assert_eq!(fail.lines[0], "p.json: command 0: wrong");
        assert_eq!(fail.lines[MOST_LINES], "p.json: and 7 more problems");
        assert_eq!(Fail::all("p.json", &messages[..MOST_LINES]).lines.len(), MOST_LINES);
    }
}
