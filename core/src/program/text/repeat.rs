//! `repeat` … `end`: loops of the text form, unrolled while reading.

use super::lex::Fault;

/// Lines that loops may unroll to, and commands that these may add.
pub(super) const MAX_UNROLLED: usize = 2_000_000;
/// Words and marks of those lines, each of which becomes many bytes.
pub(super) const MAX_WORDS: usize = 1 << 25;
/// Bytes of those lines, as they stand or with what loop variables become.
pub(super) const MAX_BYTES: usize = 1 << 28;
/// Loops within loops.
pub(super) const MAX_DEPTH: usize = 8;

/// A loop variable and its value.
pub(super) type Variable = (String, i64);

/// One line, or a loop with what it repeats.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Line {
        line: u32,
        text: &'a str,
    },
    Repeat {
        line: u32,
        header: &'a str,
        body: Vec<Node<'a>>,
        /// Lines and bytes that one round of the body unrolls to at least, as far as the headers in it tell without loop
        /// variables.
        least: [usize; 2],
    },
}

impl Node<'_> {
    pub(super) fn line(&self) -> u32 {
        match self {
            Node::Line { line, .. } | Node::Repeat { line, .. } => *line,
        }
    }

    /// Lines and bytes that it unrolls to at least; a loop itself counts as a line, so that loops around nothing come to an end.
    fn least(&self) -> [usize; 2] {
        match self {
            Node::Line { text, .. } => [1, text.len()],
            Node::Repeat { header, least: [lines, bytes], .. } => {
                let count = without_comment(header).split_whitespace().last().and_then(|n| n.parse().ok());
                let count = count.unwrap_or(0);
                [lines.saturating_mul(count).saturating_add(1), bytes.saturating_mul(count)]
            }
        }
    }
}

/// The lines of a file as a tree of loops; blank lines and comments are left out.
///
/// The first line has the number `first`.
pub(super) fn tree<'a>(text: &'a str, first: u32, mut fault: impl FnMut(u32, Fault)) -> Vec<Node<'a>> {
    let mut open: Vec<(u32, &'a str, Vec<Node<'a>>)> = Vec::new();
    let mut nodes = Vec::new();
    let mut last = 0;
    for (line, text) in (first..).zip(text.lines()) {
        let text = text.trim();
        last = line;
        match first_word(text) {
            "" => {}
            "repeat" => {
                if open.len() == MAX_DEPTH {
                    fault(
                        line,
                        format!("`repeat` within {MAX_DEPTH} others, no more than {MAX_DEPTH} can be nested"),
                    );
                }
                open.push((line, text, std::mem::take(&mut nodes)));
            }
            "end" if closes(text) => {
                match open.pop() {
                    Some((line, header, before)) => {
                        let body = std::mem::replace(&mut nodes, before);
                        // What lies too deep was told above and is not unrolled.
                        if open.len() < MAX_DEPTH {
                            let least = body.iter().map(Node::least).fold([0; 2], |sum: [usize; 2], each| {
                                [0, 1].map(|k| sum[k].saturating_add(each[k]))
                            });
                            nodes.push(Node::Repeat { line, header, body, least });
                        }
                    }
                    None => fault(line, "`end` without a `repeat` above it".to_owned()),
                }
            }
            _ => nodes.push(Node::Line { line, text }),
        }
    }
    // An unclosed loop is told once; its lines are still looked at, as if it ran once.
    while let Some((line, _, mut before)) = open.pop() {
        fault(line, format!("`repeat` is never closed by an `end` (the file ends with line {last})"));
        before.append(&mut nodes);
        nodes = before;
    }
    nodes
}

/// Whether a line that begins with `end` closes a loop; other ends say of what.
pub(super) fn closes(text: &str) -> bool {
    text.strip_prefix("end").is_some_and(|rest| matches!(first_word(rest.trim_start()), "" | "repeat"))
}

/// The first word of a line; empty for a blank line and a comment.
pub(super) fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || c == '#').unwrap_or(text.len());
    &text[..end]
}

/// The line up to a `#` that stands in no quotes.
pub(super) fn without_comment(text: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'#' if !quoted => return &text[..at],
            _ => {}
        }
    }
    text
}

/// Puts the values of loop variables in the place of `{i}`, `{i*4096}`, `{(i+1)%4}`.
pub(super) fn substitute(text: &str, variables: &[Variable]) -> Result<String, Fault> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        let close = from.find('}').ok_or("`{` is never closed by a `}`")?;
        let inner = &from[1..close];
        let value = Expr { rest: inner, variables, depth: 0 }
            .whole()
            .map_err(|why| format!("`{{{inner}}}`: {why}"))?;
        out += before;
        out += &value.to_string();
        rest = &from[close + 1..];
    }
    out += rest;
    Ok(out)
}

/// A sum of products over integers and loop variables, read and worked out in one go.
struct Expr<'a> {
    rest: &'a str,
    variables: &'a [Variable],
    /// Open brackets.
    depth: usize,
}

const OUTSIDE: &str = "the value leaves i64";

impl Expr<'_> {
    fn whole(mut self) -> Result<i64, Fault> {
        let value = self.sum()?;
        match self.next() {
            None => Ok(value),
            Some(c) => Err(format!("{c:?} was not expected")),
        }
    }

    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn sum(&mut self) -> Result<i64, Fault> {
        let mut value = self.product()?;
        while let Some(sign @ ('+' | '-')) = self.next() {
            self.rest = &self.rest[1..];
            let term = self.product()?;
            let sum = if sign == '+' { value.checked_add(term) } else { value.checked_sub(term) };
            value = sum.ok_or(OUTSIDE)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<i64, Fault> {
        let mut value = self.factor()?;
        while let Some(sign @ ('*' | '/' | '%')) = self.next() {
            self.rest = &self.rest[1..];
            let factor = self.factor()?;
            let result = match sign {
                '*' => value.checked_mul(factor),
                _ if factor == 0 => return Err("division by 0".to_owned()),
                '/' => value.checked_div_euclid(factor),
                _ => value.checked_rem_euclid(factor),
            };
            value = result.ok_or(OUTSIDE)?;
        }
        Ok(value)
    }

    fn factor(&mut self) -> Result<i64, Fault> {
        match self.next() {
            Some('(') => {
                self.depth += 1;
                if self.depth > 32 {
                    return Err("more than 32 open brackets".to_owned());
                }
                self.rest = &self.rest[1..];
                let value = self.sum()?;
                if self.next() != Some(')') {
                    return Err("a bracket is never closed".to_owned());
                }
                self.rest = &self.rest[1..];
                self.depth -= 1;
                Ok(value)
            }
            Some(c) if c.is_alphanumeric() || c == '_' => {
                let end =
                    self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                if c.is_ascii_digit() {
                    return word.parse().map_err(|_| format!("{word:?} is no integer within i64"));
                }
                let found = self.variables.iter().rev().find(|(name, _)| *name == word);
                found.map(|&(_, value)| value).ok_or_else(|| format!("{word:?} is no loop variable here"))
            }
            Some(c) => Err(format!("{c:?} was not expected")),
            None => Err("a number or a loop variable is missing".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = substitute(text, &[("i".to_owned(), 7), ("k".to_owned(), -2)]).unwrap_or_else(|e| e);
        assert_eq!(found, expected);
    }

    #[test]
    fn expressions_follow_the_usual_precedence() {
        check("leaf{i} on s", "leaf7 on s");
        check("w{i%4}: x[{i*4096}..{(i+1)*4096}]", "w3: x[28672..32768]");
        check("{ 1 + 2 * 3 }", "7");
        check("{10 - 2 - 3}", "5");
        check("{k%4}{k/4}", "2-1");
        check("{i", "`{` is never closed by a `}`");
        check("{}", "`{}`: a number or a loop variable is missing");
        check("{j}", "`{j}`: \"j\" is no loop variable here");
        check("{i i}", "`{i i}`: 'i' was not expected");
        check("{i/0}", "`{i/0}`: division by 0");
        check("{(i}", "`{(i}`: a bracket is never closed");
        check("{i*9223372036854775807}", "`{i*9223372036854775807}`: the value leaves i64");
        check(
            "{9223372036854775808}",
            "`{9223372036854775808}`: \"9223372036854775808\" is no integer within i64",
        );
        let deep = "(".repeat(100_000);
        assert!(substitute(&format!("{{{deep}"), &[]).is_err());
        assert!(substitute(&format!("{{{deep}}}"), &[]).unwrap_err().ends_with("more than 32 open brackets"));
    }
}
