//! Tokens as statements and expressions.

use super::lex::{Found, Token};
use super::{Place, ScriptError};
use crate::op::Complex64;

/// How deep expressions may lie in each other.
const DEEPEST: usize = 40;

/// An expression, and where it begins.
#[derive(Debug, Clone)]
pub(super) struct Node<'t> {
    pub(super) place: Place,
    pub(super) kind: Kind<'t>,
}

impl Node<'_> {
    /// Where it begins; what is made of an expression is itself placed where that is said.
    pub(super) fn start(&self) -> Place {
        let mut node = self;
        while let Kind::Call { of: Some(base), .. } | Kind::Power(base, _) = &node.kind {
            node = base;
        }
        node.place
    }
}

#[derive(Debug, Clone)]
pub(super) enum Kind<'t> {
    Number(Complex64),
    /// A name of the script, a dimension, a device or a choice.
    Word(&'t str),
    /// `[a, b]`
    List(Vec<Node<'t>>),
    /// `0..8`
    Range(Box<[Node<'t>; 2]>),
    /// `x=8`
    Pair(&'t str, Box<Node<'t>>),
    /// `c64[y=2, x=8]@cuda:0`
    Space {
        dtype: &'t str,
        dims: Vec<Node<'t>>,
        device: Option<&'t str>,
    },
    /// `f(a, b)`, or of something, `a.f(b)`
    Call {
        of: Option<Box<Node<'t>>>,
        name: &'t str,
        args: Vec<Node<'t>>,
    },
    /// `a -> b`
    Chain(Vec<Node<'t>>),
    /// `a + b - c`, with whether a part is taken away
    Sum(Vec<(bool, Node<'t>)>),
    /// `a * b / c`, with whether it is divided by a part
    Times(Vec<(bool, Node<'t>)>),
    /// `a^3`
    Power(Box<Node<'t>>, u32),
}

/// Tokens, and how far they were read.
pub(super) struct Tokens<'s, 't> {
    all: &'s [Found<'t>],
    at: usize,
    depth: usize,
}

impl<'s, 't> Tokens<'s, 't> {
    /// `all` ends with [`Token::End`].
    pub(super) fn new(all: &'s [Found<'t>]) -> Tokens<'s, 't> {
        Tokens { all, at: 0, depth: 0 }
    }

    pub(super) fn place(&self) -> Place {
        self.ahead(0).place
    }

    /// The token `n` further on; behind the last one, that.
    fn ahead(&self, n: usize) -> &'s Found<'t> {
        let last = self.all.len().saturating_sub(1);
        &self.all[last.min(self.at + n)]
    }

    pub(super) fn is_over(&self) -> bool {
        self.all[self.at..].iter().all(|found| found.token == Token::End)
    }

    fn mark_at(&self, n: usize, mark: &str) -> bool {
        matches!(&self.ahead(n).token, Token::Mark(found) if *found == mark)
    }

    pub(super) fn eat(&mut self, mark: &str) -> bool {
        let found = self.mark_at(0, mark);
        self.at += usize::from(found);
        found
    }

    /// The name in front of a `=`, with which a definition begins.
    pub(super) fn defined(&mut self) -> Option<&'t str> {
        let (Token::Word(word), true) = (&self.ahead(0).token, self.mark_at(1, "=")) else { return None };
        self.at += 2;
        Some(word)
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'t str, ScriptError> {
        let Token::Word(word) = &self.ahead(0).token else { return Err(self.expected(what)) };
        self.at += 1;
        Ok(word)
    }

    /// What stands there without a gap, as it is written.
    pub(super) fn rest(&mut self, what: &str) -> Result<String, ScriptError> {
        if self.ahead(0).token == Token::End {
            return Err(self.expected(what));
        }
        let mut text = String::new();
        let mut next = self.place();
        while self.ahead(0).token != Token::End && self.place() == next {
            text.push_str(self.ahead(0).text);
            next.column += self.ahead(0).text.chars().count();
            self.at += 1;
        }
        Ok(text)
    }

    pub(super) fn end(&mut self) -> Result<(), ScriptError> {
        match self.ahead(0).token {
            Token::End => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.expected("the end of the line")),
        }
    }

    pub(super) fn expected(&self, what: &str) -> ScriptError {
        let Found { place, token, text } = self.ahead(0);
        let found = if *token == Token::End { "the end of the line".to_owned() } else { format!("`{text}`") };
        place.error(format!("expected {what}, found {found}"))
    }

    /// `sum -> sum -> …`
    pub(super) fn expression(&mut self) -> Result<Node<'t>, ScriptError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.place().error(format!("more than {DEEPEST} expressions inside each other")));
        }
        let place = self.place();
        let first = self.sum()?;
        let mut parts = vec![first];
        while self.eat("->") {
            parts.push(self.sum()?);
        }
        self.depth -= 1;
        Ok(match (parts.len(), parts.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                parts.extend(last);
                Node { place, kind: Kind::Chain(parts) }
            }
        })
    }

    fn sum(&mut self) -> Result<Node<'t>, ScriptError> {
        let place = self.place();
        let mut minus = self.eat("-");
        let mut first = self.product()?;
        // `-2 * A` and `-A / 2` are multiples of `A`.
        if minus {
            minus = match &mut first.kind {
                Kind::Number(n) => {
                    *n = -*n;
                    false
                }
                Kind::Times(factors) => {
                    let one = Node { place, kind: Kind::Number(Complex64::new(-1.0, 0.0)) };
                    factors.insert(0, (false, one));
                    false
                }
                _ => true,
            };
        }
        if !minus && !self.mark_at(0, "+") && !self.mark_at(0, "-") {
            return Ok(first);
        }
        let mut parts = vec![(minus, first)];
        while self.mark_at(0, "+") || self.mark_at(0, "-") {
            let minus = self.mark_at(0, "-");
            self.at += 1;
            parts.push((minus, self.product()?));
        }
        Ok(Node { place, kind: Kind::Sum(parts) })
    }

    fn product(&mut self) -> Result<Node<'t>, ScriptError> {
        let place = self.place();
        let first = self.postfix()?;
        if !self.mark_at(0, "*") && !self.mark_at(0, "/") {
            return Ok(first);
        }
        let mut factors = vec![(false, first)];
        while self.mark_at(0, "*") || self.mark_at(0, "/") {
            let divides = self.mark_at(0, "/");
            self.at += 1;
            factors.push((divides, self.postfix()?));
        }
        Ok(Node { place, kind: Kind::Times(factors) })
    }

    fn postfix(&mut self) -> Result<Node<'t>, ScriptError> {
        let mut node = self.atom()?;
        for _ in 0..DEEPEST {
            let place = self.place();
            if self.eat("^") {
                let name = match &self.ahead(0).token {
                    Token::Word("H") => "h",
                    Token::Word("T") => "t",
                    Token::Number(n) => {
                        let whole = whole(*n).and_then(|n| u32::try_from(n).ok());
                        let exponent =
                            whole.ok_or_else(|| self.expected("an exponent, a whole number from 0"))?;
                        self.at += 1;
                        node = Node { place, kind: Kind::Power(Box::new(node), exponent) };
                        continue;
                    }
                    _ => return Err(self.expected("`H`, `T` or a whole number after `^`")),
                };
                self.at += 1;
                node = Node { place, kind: Kind::Call { of: Some(Box::new(node)), name, args: Vec::new() } };
            } else if self.eat(".") {
                let place = self.place();
                let name = self.word("what to make of it, as `h` or `normal`, after `.`")?;
                let args = if self.eat("(") { self.list("(", ")")? } else { Vec::new() };
                node = Node { place, kind: Kind::Call { of: Some(Box::new(node)), name, args } };
            } else {
                return Ok(node);
            }
        }
        Err(self.place().error(format!("more than {DEEPEST} expressions inside each other")))
    }

    fn atom(&mut self) -> Result<Node<'t>, ScriptError> {
        let Found { place, token, .. } = self.ahead(0);
        let place = *place;
        let kind = match token {
            Token::Number(n) => {
                self.at += 1;
                Kind::Number(*n)
            }
            Token::Mark("(") => {
                self.at += 1;
                let inside = self.expression()?;
                if !self.eat(")") {
                    return Err(self.unclosed("(", ")", place));
                }
                return Ok(inside);
            }
            Token::Mark("[") => {
                self.at += 1;
                Kind::List(self.list("[", "]")?)
            }
            Token::Word(word) => {
                self.at += 1;
                if self.eat("(") {
                    Kind::Call { of: None, name: word, args: self.list("(", ")")? }
                } else if self.eat("[") {
                    let dims = self.list("[", "]")?;
                    let device = if self.eat("@") { Some(self.word("a device after `@`")?) } else { None };
                    Kind::Space { dtype: word, dims, device }
                } else {
                    Kind::Word(word)
                }
            }
            _ => return Err(self.expected("an operator, a number or a name")),
        };
        Ok(Node { place, kind })
    }

    /// What stands between brackets, with commas; the first bracket was eaten.
    fn list(&mut self, open: &str, close: &str) -> Result<Vec<Node<'t>>, ScriptError> {
        let from = self.all[self.at - 1].place;
        let mut list = Vec::new();
        while !self.eat(close) {
            if self.ahead(0).token == Token::End {
                return Err(self.unclosed(open, close, from));
            }
            list.push(self.element()?);
            if !self.mark_at(0, close) && !self.eat(",") {
                return Err(self.unclosed(open, &format!(",` or `{close}"), from));
            }
        }
        Ok(list)
    }

    /// Something else than the end of brackets; if that is in another line they may be what is wrong.
    fn unclosed(&self, open: &str, close: &str, from: Place) -> ScriptError {
        let mut error = self.expected(&format!("`{close}`"));
        let Place { line, column } = from;
        if error.line != line || self.ahead(0).token == Token::End {
            error.message.push_str(&format!("; `{open}` at line {line}, column {column} is open"));
        }
        error
    }

    /// An expression, `name=…`, or a range.
    fn element(&mut self) -> Result<Node<'t>, ScriptError> {
        let place = self.place();
        let pair = self.defined();
        let first = self.expression()?;
        let value = if self.eat("..") {
            let last = self.expression()?;
            Node { place: first.place, kind: Kind::Range(Box::new([first, last])) }
        } else {
            first
        };
        Ok(match pair {
            Some(name) => Node { place, kind: Kind::Pair(name, Box::new(value)) },
            None => value,
        })
    }
}

/// A real whole number.
pub(super) fn whole(n: Complex64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "compared afterwards")]
    let int = n.re as i64;
    #[expect(clippy::cast_precision_loss, reason = "compared with what it came from")]
    let same = n.im == 0.0 && n.re.abs() < 9e15 && int as f64 == n.re;
    same.then_some(int)
}
