//! What is public is written with the names that others know: rustdoc prints a type as its source has it, an alias of a `use` too.

use std::collections::BTreeSet;

use crate::lexer::{Token, tokens};

/// Public signatures, fields and variants of a file that say a type by the name that a `use` of that file gives it.
pub(crate) fn aliased(path: &str, source: &str) -> Vec<String> {
    let tokens = tokens(source);
    let text = |at: usize| tokens.get(at).map_or("", |token: &Token| token.text.as_str());
    let (mut known, mut found) = (BTreeSet::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        match text(at) {
            "use" => {
                // What is renamed as it is handed on is the old name in every signature of where it is from.
                let is_handed_on = text(at.wrapping_sub(1)) == "pub";
                while at < tokens.len() && text(at) != ";" {
                    let name = text(at + 1);
                    match text(at) == "as" && name.starts_with(|c: char| c.is_uppercase()) {
                        true if is_handed_on => {
                            found.push(format!("{path}:{}: handed on as {name}", tokens[at].line));
                        }
                        true => _ = known.insert(name.to_owned()),
                        false => {}
                    }
                    at += 1;
                }
            }
            "mod" if text(at + 1) == "tests" => break,
            "pub" if text(at + 1) != "(" && text(at + 1) != "use" => {
                let end = end(&tokens, at);
                let said = (at..end).filter(|k| known.contains(text(*k)) && text(k + 1) != ":");
                found.extend(said.map(|k| {
                    format!("{path}:{}: {} is the name that a `use` gives it here", tokens[k].line, text(k))
                }));
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Where what is public of the item at `at` ends: a signature at its body, a field at its comma, an enum or a trait at its last brace.
fn end(tokens: &[Token], at: usize) -> usize {
    let all = tokens[at..].iter().take(3).any(|token| matches!(token.text.as_str(), "enum" | "trait"));
    let is_field = tokens.get(at + 2).is_some_and(|token| token.text == ":");
    let (mut braces, mut open) = (0usize, 0usize);
    for (k, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" if all => braces += 1,
            "}" if all => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return k;
                }
            }
            "{" | "}" => return k,
            "=" if !all && open == 0 => return k,
            ";" if braces == 0 => return k,
            "<" | "(" | "[" => open += 1,
            ">" if tokens[k - 1].text == "-" => {}
            ">" | ")" | "]" => open = open.saturating_sub(1),
            "," if is_field && open == 0 => return k,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_aliases_are_found() {
        #[track_caller]
        fn check(source: &str, n_found: usize) {
            let found = aliased("x.rs", source);
            assert_eq!(found.len(), n_found, "{source}: {found:?}");
        }
        check("use a::Space as Vectors;\npub fn f(&self) -> Option<&Vectors> { 1 }", 1);
        check("use a::Space as Vectors;\nfn f(&self) -> Option<&Vectors> { 1 }", 0);
        check("use a::Space as Vectors;\npub fn f() { let x: Vectors = 1; }", 0);
        check("use a::{B, C as D};\npub struct E { pub x: Vec<(u8, D)>, pub y: B }", 1);
        check("use a::{B, C as D};\npub struct E { pub x: B, y: D }", 0);
        check("use a::{B, C as D};\npub enum E { X { y: D }, Y(D) }", 2);
        check("pub use a::{S as D, b as c};\npub use a::E as _;", 1);
        check("use a::{B as D};\npub const TABLE: &[u8] = &[D];\npub const N: D = 1;", 1);
        check("use std::fmt::Write as _;\npub fn f(x: T as usize) {}", 0);
    }
}
