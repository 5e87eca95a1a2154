//! Text as tokens with their places. Line ends are tokens of their own, except inside brackets and where an expression goes on.

use super::{MOST_TOKENS, Place, ScriptError};
use crate::op::Complex64;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'t> {
    /// A name, a keyword, a device, or a number with a unit.
    Word(&'t str),
    Number(Complex64),
    /// One of [`MARKS`].
    Mark(&'static str),
    /// The end of a statement.
    End,
}

const MARKS: [&str; 15] = ["->", "..", "^", "+", "-", "*", "/", "(", ")", "[", "]", ",", "=", "@", "."];

/// Behind these an expression goes on, whatever stands on the next line.
const GOES_ON: [&str; 7] = ["->", "+", "-", "*", "/", "=", ","];

/// What a line begins with that goes on with the expression of the line above.
const GOES_ON_BEFORE: [&str; 6] = ["->", "+", "-", "*", "/", "."];

/// A token where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found<'t> {
    pub(super) place: Place,
    pub(super) token: Token<'t>,
    /// As it is written.
    pub(super) text: &'t str,
}

impl Found<'_> {
    fn end(line: usize, column: usize) -> Found<'static> {
        Found { place: Place { line, column }, token: Token::End, text: "" }
    }
}

/// All tokens, ended by [`Token::End`].
pub(super) fn lex(text: &str) -> Result<Vec<Found<'_>>, ScriptError> {
    let mut tokens: Vec<Found<'_>> = Vec::new();
    let mut depth = 0_usize;
    for (number, line) in (1..).zip(text.lines()) {
        let (mut at, mut column) = (0, 1);
        let mut first = true;
        loop {
            let space = line[at..].len() - line[at..].trim_start().len();
            column += line[at..at + space].chars().count();
            at += space;
            let rest = &line[at..];
            let place = Place { line: number, column };
            let Some(c) = rest.chars().next().filter(|c| *c != '#') else { break };
            let is_fraction =
                rest.strip_prefix('.').is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
            let (token, length) = if c.is_ascii_digit() || is_fraction {
                let length = number_length(rest);
                (quantity(&rest[..length]), length)
            } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
                (Token::Mark(mark), mark.len())
            } else if c.is_alphabetic() || c == '_' {
                let length = word_length(rest);
                (Token::Word(&rest[..length]), length)
            } else {
                return Err(place.error(format!("character {c:?} has no meaning here")));
            };
            if first {
                let goes_on = matches!(&token, Token::Mark(mark) if GOES_ON_BEFORE.contains(mark));
                if goes_on && tokens.last().is_some_and(|last| last.token == Token::End) {
                    tokens.pop();
                }
                first = false;
            }
            match &token {
                Token::Mark("(" | "[") => depth += 1,
                Token::Mark(")" | "]") => depth = depth.saturating_sub(1),
                _ => {}
            }
            if tokens.len() == MOST_TOKENS {
                return Err(place.error(format!("more than {MOST_TOKENS} words, numbers and signs")));
            }
            tokens.push(Found { place, token, text: &rest[..length] });
            column += rest[..length].chars().count();
            at += length;
        }
        let unfinished = match tokens.last().map(|last| &last.token) {
            None | Some(Token::End) => true,
            Some(Token::Mark(mark)) => GOES_ON.contains(mark),
            Some(_) => false,
        };
        if depth == 0 && !unfinished {
            tokens.push(Found::end(number, line.chars().count() + 1));
        }
    }
    if tokens.last().is_none_or(|last| last.token != Token::End) {
        let last = text.lines().last().map_or(0, |line| line.chars().count());
        tokens.push(Found::end(text.lines().count().max(1), last + 1));
    }
    Ok(tokens)
}

/// A word, with the index of a device behind a colon.
fn word_length(rest: &str) -> usize {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_';
    let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
    match rest[end..].strip_prefix(':') {
        Some(index) if index.starts_with(|c: char| c.is_ascii_digit()) => {
            end + 1 + index.find(|c: char| !c.is_ascii_digit()).unwrap_or(index.len())
        }
        _ => end,
    }
}

/// Digits, a fraction, an exponent and a unit; `..` ends it.
fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let inside = match byte {
            // `2.` is a number, `2.h` and `0..8` are not.
            b'.' => bytes.get(at + 1).is_none_or(|next| {
                next.is_ascii_digit() || !(next.is_ascii_alphabetic() || matches!(next, b'.' | b'_'))
            }),
            b'+' | b'-' => {
                matches!(bytes[at - 1], b'e' | b'E') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
            }
            _ => byte.is_ascii_alphanumeric() || byte == b'_',
        };
        if !inside {
            break;
        }
        at += 1;
    }
    at
}

/// `2`, `1.5e-3` and `2i` are numbers, whatever else begins with a digit is a word, as `4MiB`.
fn quantity(word: &str) -> Token<'_> {
    let parsed = |text: &str| text.parse::<f64>().ok().filter(|v| v.is_finite());
    match (parsed(word), word.strip_suffix('i').and_then(parsed)) {
        (Some(real), _) => Token::Number(Complex64::new(real, 0.0)),
        (None, Some(imaginary)) => Token::Number(Complex64::new(0.0, imaginary)),
        (None, None) => Token::Word(word),
    }
}
