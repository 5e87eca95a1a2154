//! Just enough of Rust's lexical grammar to look at source without its comments, strings and characters.

/// One token that is left: a word (identifier, keyword or number) or a single sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// The line it stands on, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The tokens of `source`; raw identifiers without `r#`, lifetimes without their quote.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: source, line: 1, found: Vec::new() };
    while lexer.step() {}
    lexer.found
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    found: Vec<Token>,
}

impl Lexer<'_> {
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if self.rest.starts_with("//") {
            self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.skip(block_comment(self.rest));
        } else if let Some(length) = raw_string(self.rest) {
            self.skip(length);
        } else if first == '"' {
            self.skip(quoted(self.rest, '"'));
        } else if first == '\'' {
            let length = if is_character(self.rest) { quoted(self.rest, '\'') } else { 1 };
            self.skip(length);
        } else if first == '_' || first.is_alphanumeric() {
            let raw = usize::from(self.rest.starts_with("r#")) * 2;
            let word = self.rest[raw..].find(|c: char| c != '_' && !c.is_alphanumeric());
            let end = word.map_or(self.rest.len(), |length| raw + length);
            let text = &self.rest[raw..end];
            // the prefix of a string or character is part of it
            if !(matches!(text, "b" | "c") && self.rest[end..].starts_with(['"', '\''])) {
                self.found.push(Token { line: self.line, text: text.to_owned() });
            }
            self.skip(end.max(1));
        } else {
            if !first.is_whitespace() {
                self.found.push(Token { line: self.line, text: first.to_string() });
            }
            self.skip(first.len_utf8());
        }
        true
    }

    fn skip(&mut self, length: usize) {
        let (over, rest) = self.rest.split_at(length);
        self.line += over.matches('\n').count();
        self.rest = rest;
    }
}

/// The length of the block comment at the start of `text`; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(step) = text[at..].find(['/', '*']) {
        at += step;
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of the raw string at the start of `text`, if one starts there.
fn raw_string(text: &str) -> Option<usize> {
    let body = ["br", "cr", "r"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inside = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(text.len() - inside.len() + length)
}

/// The length of the string or character at the start of `text`, with both quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Whether the quote at the start of `text` opens a character, not a lifetime.
fn is_character(text: &str) -> bool {
    let mut after = text.chars().skip(1);
    match after.next() {
        Some('\\') => true,
        Some(_) => after.next() == Some('\''),
        None => false,
    }
}

#[test]
fn only_code_is_left() {
    #[track_caller]
    fn check(source: &str, expected: &str) {
        let words: Vec<String> = tokens(source).into_iter().map(|token| token.text).collect();
        assert_eq!(words.join(" "), expected, "{source}");
    }
    check("a // unsafe\nb", "a b");
    check("a /* x /* unsafe */ y */ b", "a b");
    check("a /* never ends", "a");
    check(r#"let s = "unsafe \" unsafe"; c"#, "let s = ; c");
    check(r###"r#"unsafe " unsafe"# c"###, "c");
    check(r##"b"x" br#"y"# c"z" r"\" d"##, "d");
    check("'\\'' 'x' '\"' b'\\n' d", "d");
    check("fn f<'a>(x: &'a str) {}", "fn f < a > ( x : & a str ) { }");
    check("r#type rust", "type rust");
    check("crate::units::Bytes", "crate : : units : : Bytes");
}

#[test]
fn lines_are_counted_through_everything() {
    let found = tokens("/* a\n b */ x \"\n\n\" y\nr\"\n\" z");
    let lines: Vec<(usize, &str)> = found.iter().map(|token| (token.line, token.text.as_str())).collect();
    assert_eq!(lines, [(2, "x"), (4, "y"), (6, "z")]);
}
