//! A line as tokens, and a cursor over them that says what it expected.

use crate::memory::Dtype;
use crate::program::command::{Compute, Contents, Func};
use crate::program::text::quantity::{SIZES, SLEEPS, TIMES, number};
use crate::program::words::MAX_DEVICES;
use crate::units::{Nanos, float};

/// What is wrong with a line, in words.
pub(super) type Fault = String;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    /// A keyword, bare name or number.
    Word(&'a str),
    /// A name in quotes; never a keyword.
    Quoted(String),
    /// One of `<-` `..` `,` `:` `=` `[` `]`.
    Mark(&'static str),
}

/// Tokens of a line at most: each takes many times the byte that it may be in the file.
const MOST: usize = 1 << 24;

/// The mark that `rest` begins with: asked before a word is, which may have a dot in it. By bytes, since it is asked at every word.
fn mark(rest: &str) -> Option<&'static str> {
    match rest.as_bytes() {
        [b'<', b'-', ..] => Some("<-"),
        [b'.', b'.', ..] => Some(".."),
        [b',', ..] => Some(","),
        [b':', ..] => Some(":"),
        [b'=', ..] => Some("="),
        [b'[', ..] => Some("["),
        [b']', ..] => Some("]"),
        _ => None,
    }
}

/// Whether a character may stand in a bare word.
pub(super) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '@' | '/' | '%')
}

pub(super) fn lex(line: &str) -> Result<Vec<Token<'_>>, Fault> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(c) = rest.chars().next() {
        if c == '#' {
            break;
        }
        if tokens.len() == MOST {
            return Err(format!("more than {MOST} words and marks"));
        }
        if let Some(mark) = mark(rest) {
            tokens.push(Token::Mark(mark));
            rest = &rest[mark.len()..];
        } else if c == '"' {
            let end = quoted_len(rest).ok_or("the quotation mark `\"` is never closed")?;
            // The escapes are those of JSON.
            let name = serde_json::from_str(&rest[..end])
                .map_err(|_| format!("{} has a bad escape or a control character in it", &rest[..end]))?;
            tokens.push(Token::Quoted(name));
            rest = &rest[end..];
        } else if is_word_char(c) {
            let end = word_len(rest);
            tokens.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
        } else {
            let hint = if c == '>' { "; copies go to the left, `d <- x`" } else { "" };
            return Err(format!(
                "character {c:?} has no meaning here; names with it need quotation marks{hint}"
            ));
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// Length of the bare word that `rest` begins with, which `..` ends too.
fn word_len(rest: &str) -> usize {
    let mut after_dot = false;
    for (at, c) in rest.char_indices() {
        if !is_word_char(c) {
            return at;
        }
        if after_dot && c == '.' {
            return at - 1;
        }
        after_dot = c == '.';
    }
    rest.len()
}

/// Length of the quoted text that `rest` starts with, both quotation marks included.
fn quoted_len(rest: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Reads the tokens of one line from left to right.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a str) -> Result<Cursor<'a>, Fault> {
        Ok(Cursor { tokens: lex(line)?, at: 0 })
    }

    /// Tokens of the whole line.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    /// Whether the token `n` places ahead is this mark.
    pub(super) fn mark_ahead(&self, n: usize, mark: &str) -> bool {
        matches!(self.tokens.get(self.at + n), Some(Token::Mark(m)) if *m == mark)
    }

    pub(super) fn peek_word(&self) -> Option<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Steps over this keyword, if it comes next.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let found = self.peek_word() == Some(word);
        self.at += usize::from(found);
        found
    }

    /// Steps over this mark, if it comes next.
    pub(super) fn eat_mark(&mut self, mark: &str) -> bool {
        let found = self.mark_ahead(0, mark);
        self.at += usize::from(found);
        found
    }

    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    /// The fault that something else was expected.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T, Fault> {
        Err(self.unexpected(what))
    }

    fn unexpected(&self, what: &str) -> Fault {
        let found = match self.peek() {
            None => "the end of the line".to_owned(),
            Some(Token::Word(word)) => format!("`{word}`"),
            Some(Token::Quoted(name)) => format!("{name:?}"),
            Some(Token::Mark(mark)) => format!("`{mark}`"),
        };
        format!("expected {what}, found {found}")
    }

    pub(super) fn keyword(&mut self, word: &str) -> Result<(), Fault> {
        if self.eat(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    pub(super) fn end(&self) -> Result<(), Fault> {
        if self.peek().is_none() { Ok(()) } else { self.expected("the end of the line") }
    }

    /// A name, bare or in quotes.
    pub(super) fn name(&mut self, what: &str) -> Result<&str, Fault> {
        if !matches!(self.peek(), Some(Token::Word(_) | Token::Quoted(_))) {
            return self.expected(what);
        }
        self.at += 1;
        match &self.tokens[self.at - 1] {
            Token::Word(word) => Ok(word),
            Token::Quoted(name) => Ok(name),
            Token::Mark(_) => unreachable!("bug: looked at above"),
        }
    }

    /// One or more names with commas between them.
    pub(super) fn names(&mut self, what: &str) -> Result<Vec<String>, Fault> {
        let mut names = vec![self.name(what)?.to_owned()];
        while self.eat_mark(",") {
            names.push(self.name(what)?.to_owned());
        }
        Ok(names)
    }

    /// A label in quotes, if one comes next.
    pub(super) fn label(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Quoted(label)) => {
                let label = label.clone();
                self.at += 1;
                Some(label)
            }
            _ => None,
        }
    }

    /// One word of a table.
    pub(super) fn one_of<T: Copy>(&mut self, what: &str, table: &[(&'static str, T)]) -> Result<T, Fault> {
        match self.peek_word().and_then(|word| crate::program::words::value(table, word)) {
            Some(value) => {
                self.at += 1;
                Ok(value)
            }
            None => self.expected(&format!("{what} ({})", crate::program::words::list(table))),
        }
    }

    /// A number of bytes: `4096`, `4MiB`, `4 MiB`; signs are for offsets and strides.
    pub(super) fn size(&mut self, what: &str) -> Result<i64, Fault> {
        self.quantity(what, &SIZES, true)
    }

    /// A time: `120us`, `1.5 ms`; the unit is needed.
    pub(super) fn time(&mut self, what: &str) -> Result<Nanos, Fault> {
        self.quantity(what, &TIMES, false).map(Nanos)
    }

    /// A sleep in whole microseconds.
    pub(super) fn sleep(&mut self) -> Result<i64, Fault> {
        self.quantity("a time in microseconds", &SLEEPS, false)
    }

    fn quantity(&mut self, what: &str, units: &[(&'static str, i128)], plain: bool) -> Result<i64, Fault> {
        let Some(word) = self.peek_word() else { return self.expected(what) };
        let Some(number) = number(word) else { return self.expected(what) };
        let list = || crate::program::words::list(units);
        let scale = |unit| crate::program::words::value(units, unit);
        let (scale, n_words) = match (number.unit, self.tokens.get(self.at + 1)) {
            ("", Some(Token::Word(unit))) if scale(unit).is_some() => (scale(unit), 2),
            ("", _) if plain => (Some(1), 1),
            ("", _) => return Err(format!("{what}: `{word}` needs a unit ({})", list())),
            (unit, _) => (scale(unit), 1),
        };
        let Some(scale) = scale else {
            return Err(format!("{what}: `{word}` has no known unit ({})", list()));
        };
        match number.times(scale) {
            Some(value) => {
                self.at += n_words;
                Ok(value)
            }
            None => Err(format!("{what}: `{word}` is no whole number within i64")),
        }
    }

    /// A plain integer.
    pub(super) fn int(&mut self, what: &str) -> Result<i64, Fault> {
        match self.peek_word().and_then(number).filter(|n| n.unit.is_empty()).map(|n| n.times(1)) {
            Some(Some(value)) => {
                self.at += 1;
                Ok(value)
            }
            Some(None) => self.expected(&format!("{what}, an integer within i64")),
            None => self.expected(what),
        }
    }

    fn float(&mut self, what: &str) -> Result<f64, Fault> {
        match self.peek_word().and_then(float).filter(|v| v.is_finite()) {
            Some(value) => {
                self.at += 1;
                Ok(value)
            }
            None => self.expected(what),
        }
    }

    /// `cuda:N`, if it comes next, also as `gpu:N`, and either word alone, device 0, unless it is the name of something else.
    pub(super) fn device(&mut self, is_name: impl FnOnce(&str) -> bool) -> Result<Option<u32>, Fault> {
        let family = self.peek_word().filter(|word| matches!(*word, "cuda" | "gpu"));
        match (family, self.mark_ahead(1, ":")) {
            (Some(_), true) => {
                self.at += 2;
                self.device_number().map(Some)
            }
            (None, true) => self.expected("a device such as `cuda:0`"),
            (Some(word), false) if !is_name(word) => {
                self.at += 1;
                Ok(Some(0))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn device_number(&mut self) -> Result<u32, Fault> {
        let device = self.peek_word().and_then(|word| word.parse().ok()).filter(|&dev| dev < MAX_DEVICES);
        match device {
            Some(dev) => {
                self.at += 1;
                Ok(dev)
            }
            None => self.expected(&format!("a device, 0 to {}", MAX_DEVICES - 1)),
        }
    }

    fn dtype(&mut self) -> Result<Dtype, Fault> {
        match self.peek_word().and_then(|word| word.parse().ok()) {
            Some(dtype) => {
                self.at += 1;
                Ok(dtype)
            }
            None => self.expected("a dtype such as f32"),
        }
    }

    /// Declared bytes: `f32 fill 1`, `f32 ramp 0 1`, `f32 values 1 2 3`, `seed 7`.
    pub(super) fn contents(&mut self) -> Result<Contents, Fault> {
        if self.eat("seed") {
            let Some(seed) = self.peek_word().and_then(|word| word.parse().ok()) else {
                return self.expected("a seed, an integer from 0");
            };
            self.at += 1;
            return Ok(Contents::Seed(seed));
        }
        if self.peek_word().is_none_or(|word| word.parse::<Dtype>().is_err()) {
            return self.expected("contents such as `f32 fill 1` or `seed 7`");
        }
        let dtype = self.dtype()?;
        if self.eat("fill") {
            Ok(Contents::Fill { dtype, value: self.float("a number")? })
        } else if self.eat("ramp") {
            Ok(Contents::Ramp {
                dtype,
                start: self.float("the first number")?,
                step: self.float("the step")?,
            })
        } else if self.eat("values") {
            let mut values = vec![self.float("a number")?];
            while self.eat_mark(",") || self.peek_word().is_some_and(|word| float(word).is_some()) {
                values.push(self.float("a number")?);
            }
            Ok(Contents::Values { dtype, values })
        } else {
            self.expected("`fill`, `ramp` or `values`")
        }
    }

    /// What a kernel computes: `f32 fill 1`, `f32 affine 2 1`, `f32 mul`, `f32 mul conj`, `f32 add`.
    pub(super) fn compute(&mut self) -> Result<Compute, Fault> {
        let dtype = self.dtype()?;
        let func = if self.eat("fill") {
            Func::Fill(self.float("a number")?)
        } else if self.eat("affine") {
            Func::Affine { mul: self.float("the factor")?, add: self.float("the summand")? }
        } else if self.eat("mul") {
            Func::Mul { conj: self.eat("conj") }
        } else if self.eat("add") {
            Func::Add
        } else if self.eat("dot") {
            Func::Dot
        } else if self.eat("multiple") {
            Func::Multiple { factor: self.float("the factor")? }
        } else if self.eat("divide") {
            Func::Divide
        } else if self.eat("sqrt") {
            Func::Sqrt
        } else if self.eat("where") {
            Func::Where { above: self.float("the bound")? }
        } else if self.eat("guard") {
            Func::Guard { strict: self.eat("strict") }
        } else if self.eat("shrink") {
            Func::Shrink { by: self.float("a number")? }
        } else {
            return self.expected("a formula such as `fill`, `affine`, `mul`, `add` or `dot`");
        };
        Ok(Compute { dtype, func })
    }
}
