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
    /// `a * b`
    Times(Box<[Node<'t>; 2]>),
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
        self.at >= self.all.len()
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

    /// What stands there up to the end of the line, as it is written.
    pub(super) fn rest(&mut self, what: &str) -> Result<String, ScriptError> {
        if self.ahead(0).token == Token::End {
            return Err(self.expected(what));
        }
        let mut text = String::new();
        while self.ahead(0).token != Token::End {
            text.push_str(self.ahead(0).text);
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
        let Found { place, token, .. } = self.ahead(0);
        let found = match token {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(_) => "a number".to_owned(),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end of the line".to_owned(),
        };
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
        let minus = self.eat("-");
        let first = self.product()?;
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
        if !self.eat("*") {
            return Ok(first);
        }
        let second = self.postfix()?;
        if self.mark_at(0, "*") {
            return Err(self.expected("one `*`; brackets, or `->` between operators"));
        }
        Ok(Node { place, kind: Kind::Times(Box::new([first, second])) })
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
                        node = Node { place: node.place, kind: Kind::Power(Box::new(node), exponent) };
                        continue;
                    }
                    _ => return Err(self.expected("`H`, `T` or a whole number after `^`")),
                };
                self.at += 1;
                node = Node { place, kind: Kind::Call { of: Some(Box::new(node)), name, args: Vec::new() } };
            } else if self.eat(".") {
                let name = self.word("what to make of it, as `h` or `normal`, after `.`")?;
                let args = if self.eat("(") { self.list(")")? } else { Vec::new() };
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
                    return Err(self.expected("`)`"));
                }
                return Ok(inside);
            }
            Token::Mark("[") => {
                self.at += 1;
                Kind::List(self.list("]")?)
            }
            Token::Word(word) => {
                self.at += 1;
                if self.eat("(") {
                    Kind::Call { of: None, name: word, args: self.list(")")? }
                } else if self.eat("[") {
                    let dims = self.list("]")?;
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

    /// What stands between brackets, with commas.
    fn list(&mut self, close: &str) -> Result<Vec<Node<'t>>, ScriptError> {
        let mut list = Vec::new();
        while !self.eat(close) {
            list.push(self.element()?);
            if !self.mark_at(0, close) && !self.eat(",") {
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
        Ok(list)
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
