//! The public names of the published packages, read from the source: what was once there stays, or goes in a breaking version.
//!
//! `pub` alone means public here, since the lint `unreachable_pub` refuses it where nobody outside can see the item. Names have
//! no module path, so that files may move.

use std::collections::BTreeSet;

use crate::lexer::{Token, tokens};

/// Every public name in a file: `struct Layout`, `fn Layout::report`, `field Report.bytes`, `variant Mode::Contract`.
pub(crate) fn names(source: &str) -> BTreeSet<String> {
    let tokens = tokens(source);
    let text = |at: usize| tokens.get(at).map_or("", |token: &Token| token.text.as_str());
    let mut found = BTreeSet::new();
    // The types and traits whose braces are open, with the depth of their inside, and what they are.
    let mut around: Vec<(usize, &str, String)> = Vec::new();
    let mut depth = 0usize;
    let mut at = 0;
    while at < tokens.len() {
        let inside = around
            .last()
            .filter(|(inner, _, _)| *inner == depth)
            .map(|(_, kind, name)| (*kind, name.clone()));
        match (text(at), inside) {
            ("{" | "(" | "[", _) => depth += 1,
            ("}" | ")" | "]", _) => {
                depth = depth.saturating_sub(1);
                around.retain(|(inner, _, _)| *inner <= depth);
            }
            ("mod", _) if text(at + 1) == "tests" => at = closing(&tokens, at),
            ("macro_rules", _) => {
                if (1..8).any(|back| text(at.wrapping_sub(back)) == "macro_export") {
                    found.insert(format!("macro {}", text(at + 2)));
                }
                at = closing(&tokens, at);
            }
            // At the place of an item: `x: impl Trait` is a type.
            ("impl", None) if at == 0 || matches!(text(at - 1), "}" | ";" | "]" | "{" | "unsafe") => {
                let (name, brace) = header(&tokens, at);
                around.push((depth + 1, "impl", name));
                at = brace;
                depth += 1;
            }
            ("pub", inside) if text(at + 1) != "(" => {
                let skipped = ["const", "unsafe", "async", "extern"];
                let mut k = at + 1;
                while skipped.contains(&text(k))
                    && matches!(text(k + 1), "fn" | "unsafe" | "async" | "extern")
                {
                    k += 1;
                }
                let (kind, name) = (text(k), text(k + 1));
                match (kind, inside) {
                    ("fn" | "const" | "type", Some(("impl", of))) => {
                        found.insert(format!("{kind} {of}::{name}"));
                    }
                    ("fn" | "const" | "type" | "static" | "mod", None) => {
                        found.insert(format!("{kind} {name}"));
                    }
                    ("struct" | "enum" | "trait", None) => {
                        found.insert(format!("{kind} {name}"));
                        let brace = body(&tokens, k);
                        if text(brace) == "{" {
                            around.push((depth + 1, kind, name.to_owned()));
                            depth += 1;
                            at = brace;
                        }
                    }
                    (field, Some(("struct", of))) => {
                        found.insert(format!("field {of}.{field}"));
                    }
                    _ => {}
                }
            }
            ("fn" | "type" | "const", Some(("trait", of))) => {
                found.insert(format!("{} {of}::{}", text(at), text(at + 1)));
            }
            ("#", Some(_)) if text(at + 1) == "[" => at = closing(&tokens, at),
            (name, Some(("enum", of)))
                if matches!(text(at.wrapping_sub(1)), "{" | "," | "]") && name != "," =>
            {
                found.insert(format!("variant {of}::{name}"));
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The place of the bracket that closes the first one at or behind `at`.
fn closing(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0usize;
    for (k, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return k;
                }
            }
            ";" if depth == 0 => return k,
            _ => {}
        }
    }
    tokens.len()
}

/// The place behind name and generics of the item at `at`: its brace, its bracket, or the end of the statement.
fn body(tokens: &[Token], at: usize) -> usize {
    let mut angle = 0usize;
    for (k, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "<" => angle += 1,
            ">" if tokens[k - 1].text != "-" => angle = angle.saturating_sub(1),
            "{" | ";" | "(" if angle == 0 => return k,
            _ => {}
        }
    }
    tokens.len()
}

/// What an `impl` at `at` is for, and the place of its brace.
fn header(tokens: &[Token], at: usize) -> (String, usize) {
    let (mut angle, mut name, mut k) = (0usize, String::new(), at + 1);
    while k < tokens.len() && !(tokens[k].text == "{" && angle == 0) {
        match tokens[k].text.as_str() {
            "<" => angle += 1,
            // The arrow of a function's type closes nothing.
            ">" if tokens[k - 1].text != "-" => angle = angle.saturating_sub(1),
            "where" if angle == 0 => break,
            word if angle == 0
                && word.starts_with(|c: char| c == '_' || c.is_alphabetic())
                && word != "for" =>
            {
                name = word.to_owned();
            }
            _ => {}
        }
        k += 1;
    }
    let brace = (k..tokens.len()).find(|k| tokens[*k].text == "{").unwrap_or(tokens.len());
    (name, brace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_names_are_read_from_the_source() {
        let source = r#"
            pub mod a; mod b; pub(crate) fn no() {}
            /// pub fn in_a_comment() {}
            pub struct S<T: Fn() -> u8> { pub x: u8, #[serde(default)] pub y: Vec<T>, z: u8 }
            pub struct Tuple(pub u8, u8);
            #[derive(Debug)] pub enum E { #[error("a, b")] A, B { at: usize, to: u8 }, C(u8, Vec<u8>), #[doc(hidden)] D = 4 }
            pub trait T { const N: usize; fn one(&self) { let x = 1; } fn two(); }
            impl<T> S<T> where T: Clone { pub const K: u8 = 1; pub fn f(&self) -> u8 { fn inner() {} struct L { q: u8 } 1 } fn g() {} pub(super) fn h() {} }
            impl std::fmt::Display for E { fn fmt(&self) {} }
            impl Iterator for S<u8> { type Item = u8; }
            pub const fn make(x: impl Fn() -> u8) -> impl Iterator<Item = u8> {}
            pub const LIMIT: usize = 3;
            #[macro_export] macro_rules! chain { () => { pub fn hidden() {} } }
            macro_rules! own { () => {} }
            mod tests { pub fn t() {} }
        "#;
        let expected = [
            "const LIMIT",
            "const S::K",
            "const T::N",
            "enum E",
            "field S.x",
            "field S.y",
            "fn S::f",
            "fn T::one",
            "fn T::two",
            "fn make",
            "macro chain",
            "mod a",
            "struct S",
            "struct Tuple",
            "trait T",
            "variant E::A",
            "variant E::B",
            "variant E::C",
            "variant E::D",
        ];
        let found = names(source);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }
}
