//! A strict walk over JSON text that builds nothing: values are given as the text they stand in.
//!
//! Containers are walked without recursion, so nesting costs one byte of memory per level and no stack. Three things
//! that JSON forbids and profilers write are let through and counted: `NaN` and `Infinity`, raw control characters in
//! strings, and quotes inside a string that nobody escaped.

use std::borrow::Cow;

use super::ReadError;

/// A value, as the text it stands in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    /// `NaN`, `Infinity` or `-Infinity`.
    NonFinite(&'a str),
    Text(Quoted<'a>),
    /// An object or a list, with its brackets.
    Container(&'a str),
}

/// The inside of a string's quotes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quoted<'a> {
    /// The text between the quotes, escapes and all.
    pub raw: &'a str,
    /// Whether there is a backslash in it.
    escaped: bool,
}

impl<'a> Quoted<'a> {
    /// The text, where it stands as it is meant.
    #[inline(always)]
    pub(crate) fn plain(self) -> Option<&'a str> {
        if self.escaped { None } else { Some(self.raw) }
    }

    /// The text that is meant. A surrogate without its partner becomes U+FFFD.
    pub(crate) fn text(self) -> Cow<'a, str> {
        if self.escaped { unescape(self.raw).into() } else { self.raw.into() }
    }
}

/// What was let through although JSON forbids it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lenient {
    pub non_finite_literal: u64,
    pub control_character: u64,
    pub unescaped_quote: u64,
}

impl Lenient {
    /// The problems by name, and how often.
    pub(crate) fn problems(self) -> [(&'static str, u64); 3] {
        [
            ("non_finite_literal", self.non_finite_literal),
            ("control_character", self.control_character),
            ("unescaped_quote", self.unescaped_quote),
        ]
    }
}

/// A place in the text.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pub at: usize,
    pub lenient: Lenient,
    /// The brackets that close what is open while a container is skipped.
    open: Vec<u8>,
    /// How many bytes of the whole stand before `text`.
    base: usize,
    /// The end of `text` was met where more of it could have decided otherwise.
    ran_out: bool,
}

/// Stands for the end of the text where a byte is asked for; no JSON has it outside of a string.
const END: u8 = 0;

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor::within(text, 0, Lenient::default())
    }

    /// At the beginning of a piece of text that has `base` bytes and this much that was let through before it.
    pub(crate) fn within(text: &'a str, base: usize, lenient: Lenient) -> Cursor<'a> {
        Cursor { text, bytes: text.as_bytes(), at: 0, lenient, open: Vec::new(), base, ran_out: false }
    }

    /// The place in the whole text of byte `at` of this piece.
    pub(crate) fn offset(&self, at: usize) -> usize {
        self.base + at
    }

    /// Whether an error here could come from the piece's end alone.
    pub(crate) fn is_near_end(&self) -> bool {
        // Nothing looks further ahead than the longest word, except for a stray quote's end.
        self.bytes.len() < self.at + 16 || self.ran_out
    }

    /// Leaves out what is left.
    pub(crate) fn skip_rest(&mut self) {
        self.at = self.bytes.len();
    }

    /// The text from `from` up to here.
    #[inline(always)]
    pub(crate) fn since(&self, from: usize) -> &'a str {
        // Both ends are beside ASCII, so it is always there; asked for so, it takes one call in the module instead of three.
        self.text.get(from..self.at).unwrap_or_default()
    }

    /// The bytes from here on.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// The first byte from `at` on that is no white space.
    pub(crate) fn after_space(&self, at: usize) -> usize {
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        at + self.bytes[at..].iter().take_while(is_space).count()
    }

    /// Whether `text` is next.
    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.bytes[self.at..].starts_with(text.as_bytes())
    }

    /// Whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.len() <= self.at
    }

    /// The next byte that is no white space; `END` when there is none.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> u8 {
        match self.bytes.get(self.at) {
            Some(&byte) if b' ' < byte => byte,
            _ => self.peek_on(),
        }
    }

    /// The same where white space, the end or a byte that no JSON has is next.
    fn peek_on(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(&byte) => return byte,
                None => return END,
            }
        }
    }

    /// Takes `byte` if it is next.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && !self.is_at_end();
        self.at += usize::from(found);
        found
    }

    /// An error at this place.
    pub(crate) fn error(&self, expected: &str) -> ReadError {
        self.fault(&format!("expected {expected}"))
    }

    /// An error at this place, in other words.
    pub(crate) fn fault(&self, message: &str) -> ReadError {
        ReadError::Syntax { offset: self.offset(self.at), message: message.to_owned() }
    }

    /// After a member or an element: `true` when another follows, `false` when `close` ended the container.
    #[inline]
    pub(crate) fn another(&mut self, close: u8) -> Result<bool, ReadError> {
        match self.peek() {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            byte if byte == close && !self.is_at_end() => {
                self.at += 1;
                Ok(false)
            }
            _ if close == b'}' => Err(self.error("',' or '}'")),
            _ => Err(self.error("',' or ']'")),
        }
    }

    /// A member's name and its colon.
    #[inline(always)]
    pub(crate) fn key(&mut self) -> Result<Quoted<'a>, ReadError> {
        if self.peek() != b'"' {
            return Err(self.error("a name in quotes"));
        }
        let key = self.quoted()?;
        if !self.take(b':') {
            return Err(self.error("':'"));
        }
        Ok(key)
    }

    /// Any value, walked to its end and put into a slot; says whether there was one before.
    ///
    /// Through the slot, a value's parts never go over the stack as one, which costs more than finding them.
    pub(crate) fn value_into(&mut self, slot: &mut Option<Value<'a>>) -> Result<bool, ReadError> {
        let before = slot.is_some();
        *slot = Some(match self.peek() {
            b'{' | b'[' => {
                let from = self.at;
                self.container()?;
                Value::Container(self.since(from))
            }
            _ => self.scalar()?,
        });
        Ok(before)
    }

    /// Walks over any value.
    pub(crate) fn skip(&mut self) -> Result<(), ReadError> {
        match self.peek() {
            b'{' | b'[' => self.container(),
            _ => self.scalar().map(drop),
        }
    }

    /// Any value, walked to its end.
    pub(crate) fn value(&mut self) -> Result<Value<'a>, ReadError> {
        match self.peek() {
            b'{' | b'[' => {
                let from = self.at;
                self.container()?;
                Ok(Value::Container(self.since(from)))
            }
            _ => self.scalar(),
        }
    }

    /// Walks a container to its end.
    fn container(&mut self) -> Result<(), ReadError> {
        self.open.clear();
        loop {
            // A value is due.
            match self.peek() {
                b'{' => {
                    self.at += 1;
                    if !self.take(b'}') {
                        self.open.push(b'}');
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    if !self.take(b']') {
                        self.open.push(b']');
                        continue;
                    }
                }
                _ => {
                    self.scalar()?;
                }
            }
            // It has ended, and so may what is around it.
            loop {
                let Some(&close) = self.open.last() else { return Ok(()) };
                if self.another(close)? {
                    if close == b'}' {
                        self.key()?;
                    }
                    break;
                }
                self.open.pop();
            }
        }
    }

    #[inline(always)]
    fn scalar(&mut self) -> Result<Value<'a>, ReadError> {
        match self.peek() {
            b'"' => {
                let value = self.quoted()?;
                let end = self.at;
                match self.peek() {
                    b',' | b'}' | b']' => Ok(Value::Text(value)),
                    _ => Ok(Value::Text(self.with_stray_quotes(value, end)?)),
                }
            }
            b'-' if !self.bytes[self.at..].starts_with(b"-I") => self.number(),
            b'0'..=b'9' => self.number(),
            b't' if self.word("true") => Ok(Value::Bool(true)),
            b'f' if self.word("false") => Ok(Value::Bool(false)),
            b'n' if self.word("null") => Ok(Value::Null),
            _ => {
                let from = self.at;
                if self.word("NaN") || self.word("Infinity") || self.word("-Infinity") {
                    self.lenient.non_finite_literal += 1;
                    return Ok(Value::NonFinite(self.since(from)));
                }
                Err(self.error("a value"))
            }
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    #[inline(always)]
    fn digits(&mut self) -> Result<(), ReadError> {
        let from = self.at;
        while let Some(word) = self.bytes.get(self.at..self.at + 8).and_then(|w| w.try_into().ok()) {
            let n = leading_digits(u64::from_le_bytes(word));
            self.at += n;
            if n < 8 {
                return if self.at == from { Err(self.error("a digit")) } else { Ok(()) };
            }
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == from { Err(self.error("a digit")) } else { Ok(()) }
    }

    #[inline(always)]
    fn number(&mut self) -> Result<Value<'a>, ReadError> {
        let from = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        let first = self.at;
        self.digits()?;
        if self.bytes[first] == b'0' && first + 1 < self.at {
            self.at = first + 1;
            return Err(self.error("no digit after a leading zero"));
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Value::Number(self.since(from)))
    }

    /// A string whose opening quote is next.
    #[inline(always)]
    fn quoted(&mut self) -> Result<Quoted<'a>, ReadError> {
        let from = self.at + 1;
        let end = special(self.bytes, from);
        if self.bytes.get(end) != Some(&b'"') {
            return self.quoted_with_escapes(from, end);
        }
        self.at = end;
        let raw = self.since(from);
        self.at += 1;
        Ok(Quoted { raw, escaped: false })
    }

    /// The same for a string that begins at `from` and has its first escape or control character at `at`.
    #[cold]
    fn quoted_with_escapes(&mut self, from: usize, at: usize) -> Result<Quoted<'a>, ReadError> {
        self.at = at;
        let mut escaped = false;
        loop {
            self.at = special(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    let raw = self.since(from);
                    self.at += 1;
                    return Ok(Quoted { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => {
                    self.lenient.control_character += 1;
                    self.at += 1;
                }
                None => return Err(self.error("the string's closing quote")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ReadError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                for k in 2..6 {
                    if !self.bytes.get(self.at + k).is_some_and(u8::is_ascii_hexdigit) {
                        self.at = (self.at + k).min(self.bytes.len());
                        return Err(self.error("four hexadecimal digits"));
                    }
                }
                self.at += 6;
            }
            _ => {
                self.at = (self.at + 1).min(self.bytes.len());
                return Err(self.error("an escape such as \\n"));
            }
        }
        Ok(())
    }

    /// A string was closed, and what follows cannot follow a value: the quote was part of the text. Takes the first
    /// quote of the same line that can end it.
    #[cold]
    fn with_stray_quotes(&mut self, value: Quoted<'a>, end: usize) -> Result<Quoted<'a>, ReadError> {
        if self.is_at_end() {
            return Ok(value); // what is around it will say what is missing
        }
        let error = self.error("',' or '}'");
        let from = end - 1 - value.raw.len();
        let mut probe = end;
        let mut escaped = value.escaped;
        loop {
            match self.bytes.get(probe) {
                Some(b'"') => {
                    let mut next = probe + 1;
                    while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(next) {
                        next += 1;
                    }
                    match self.bytes.get(next) {
                        Some(b',' | b'}' | b']') => {
                            self.lenient.unescaped_quote += 1;
                            self.at = probe + 1;
                            return Ok(Quoted { raw: &self.text[from..probe], escaped });
                        }
                        // More text says whether this is the end.
                        None => break,
                        _ => probe += 1,
                    }
                }
                Some(b'\\') => {
                    escaped = true;
                    probe += 2;
                }
                Some(b'\n') => return Err(error),
                None => break,
                Some(_) => probe += 1,
            }
        }
        self.ran_out = true;
        Err(error)
    }
}

/// How many of eight bytes are digits before the first that is none.
#[inline(always)]
pub(in crate::trace) fn leading_digits(word: u64) -> usize {
    const ONES: u64 = u64::MAX / 255;
    // Digits become 0 to 9; what is larger carries into its own top bit. Only bytes above the first hit can be marked
    // wrongly.
    let digits = word ^ (ONES * b'0' as u64);
    let hit = (digits.wrapping_add(ONES * 0x76) | digits) & (ONES << 7);
    hit.trailing_zeros() as usize / 8
}

/// The first quote, backslash or control character at or after `at`; the length when there is none.
#[inline]
fn special(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Eight bytes at once: a byte that becomes zero, or one below 32, borrows into its own top bit. Only bytes above
    // the first hit can be marked wrongly.
    while let Some(word) = bytes.get(at..at + 8).and_then(|w| w.try_into().ok()).map(u64::from_le_bytes) {
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        let hit = (quote.wrapping_sub(ONES) & !quote
            | slash.wrapping_sub(ONES) & !slash
            | word.wrapping_sub(ONES * 32) & !word)
            & HIGH;
        if hit != 0 {
            return at + hit.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|&b| 32 <= b && b != b'"' && b != b'\\') {
        at += 1;
    }
    at.min(bytes.len())
}

/// The text that a string's inside means; escapes that are none stay as they stand.
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match rest.as_bytes().get(1) {
            Some(b'u') => {
                let unit =
                    |from: usize| rest.get(from..from + 4).and_then(|hex| u16::from_str_radix(hex, 16).ok());
                let Some(first) = unit(2) else {
                    out.push('\\');
                    rest = &rest[1..];
                    continue;
                };
                let second = if rest.get(6..8) == Some("\\u") { unit(8) } else { None };
                match (char::from_u32(u32::from(first)), second) {
                    (Some(c), _) => {
                        out.push(c);
                        6
                    }
                    (None, Some(second)) => match char::decode_utf16([first, second]).next() {
                        Some(Ok(c)) => {
                            out.push(c);
                            12
                        }
                        _ => {
                            out.push(char::REPLACEMENT_CHARACTER);
                            6
                        }
                    },
                    (None, None) => {
                        out.push(char::REPLACEMENT_CHARACTER);
                        6
                    }
                }
            }
            Some(byte) => {
                let meant = match byte {
                    b'b' => '\u{8}',
                    b'f' => '\u{c}',
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    b'"' => '"',
                    b'/' => '/',
                    _ => '\\',
                };
                out.push(meant);
                if meant == '\\' && *byte != b'\\' { 1 } else { 2 }
            }
            None => {
                out.push('\\');
                1
            }
        };
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks one value and says what the whole text was, like an independent reader would.
    fn walk(text: &str) -> Result<(), ReadError> {
        let mut cursor = Cursor::new(text);
        cursor.value()?;
        cursor.peek();
        if cursor.is_at_end() { Ok(()) } else { Err(cursor.error("the end")) }
    }

    #[test]
    fn accepts_and_refuses_what_serde_json_does() {
        let texts = [
            "null",
            "true",
            "falsey",
            "nul",
            "0",
            "-0",
            "01",
            "-",
            "1.",
            "1.5",
            "1.e3",
            "1e",
            "1e+5",
            "1E-5",
            ".5",
            "+1",
            "\"\"",
            "\"a\\n\\u00e4\\ud83d\\ude00\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"open",
            "[]",
            "[1,]",
            "[1 2]",
            "[,]",
            "{}",
            "{\"a\":1}",
            "{\"a\" 1}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "[[[[{\"a\":[]}]]]]",
            "[}",
            "{]",
            "[[]",
            "]",
            "",
            " ",
            "{\"a\":1}x",
            "\u{e4}",
            "[\"\u{e4}\"]",
            " \r\n\t[ 1 , 2 ] ",
            "{\"k\":\"0123456789abcdefghijklmnopqrstuvwxyz\\\\\"}",
        ];
        for text in texts {
            let ours = walk(text).is_ok();
            let theirs = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(ours, theirs, "{text:?}");
        }
    }

    #[test]
    fn strings_mean_what_serde_json_says() {
        for raw in [
            "",
            "plain",
            "a\\\"b",
            "\\\\",
            "\\/\\b\\f\\n\\r\\t",
            "\\u0041",
            "\\ud83d\\ude00x",
            "x\\u00e4\u{e4}\\\\n",
            "0123456\\\"",
            "01234567\\\"89",
        ] {
            let text = format!("\"{raw}\"");
            let Ok(Value::Text(quoted)) = Cursor::new(&text).value() else { panic!("{raw}") };
            assert_eq!(quoted.text(), serde_json::from_str::<String>(&text).unwrap(), "{raw}");
        }
        for lone in ["\\ud83d", "\\ude00", "\\ud83d\\u0041"] {
            let text = format!("\"{lone}\"");
            let Ok(Value::Text(quoted)) = Cursor::new(&text).value() else { panic!("{lone}") };
            assert!(quoted.text().starts_with('\u{fffd}'), "{lone}");
        }
    }

    #[test]
    fn nesting_needs_no_stack() {
        for depth in [100_000, 1_000_000] {
            let open = "[".repeat(depth);
            assert!(walk(&format!("{open}{}", "]".repeat(depth))).is_ok());
            assert!(walk(&open).is_err());
            assert!(walk(&"{\"a\":".repeat(depth)).is_err());
        }
    }

    #[test]
    fn lets_through_what_profilers_write() {
        let mut cursor =
            Cursor::new("{\"a\": \"say \"hi\" twice\", \"b\": [NaN, -Infinity], \"c\": \"x\ty\"}");
        assert!(cursor.value().is_ok());
        assert_eq!(cursor.lenient.unescaped_quote, 1);
        assert_eq!(cursor.lenient.non_finite_literal, 2);
        assert_eq!(cursor.lenient.control_character, 1);
        // No quote of the line can end it: an error at what followed the first.
        let error = walk("[\"a\" b]").unwrap_err();
        assert_eq!(error, ReadError::Syntax { offset: 5, message: "expected ',' or '}'".into() });
    }

    #[test]
    fn special_bytes_are_found_wherever_they_stand() {
        for at in 0..20 {
            for byte in [b'"', b'\\', 0, 31, b'\n'] {
                let mut bytes = [b'a'; 20];
                for filler in [b'a', 0x80, 0xff, b' ', b'!', b'#', b'[', b']'] {
                    bytes.fill(filler);
                    bytes[at] = byte;
                    assert_eq!(special(&bytes, 0), at, "{byte} after {filler}");
                    bytes[at] = filler;
                    assert_eq!(special(&bytes, 0), 20);
                }
            }
        }
    }
}
