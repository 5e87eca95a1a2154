//! What `?` at the end of a program or of a notebook's cell prints of an error is its message: no `Debug` of an error is derived.

use std::collections::BTreeSet;

use crate::lexer::tokens;

/// The macros of `core` and `native` that make `Debug` of a message.
const TELLING: &[&str] = &["told", "readable", "wraps"];

/// The errors of a file whose `Debug` is not made of their message.
pub(crate) fn dumped(path: &str, source: &str) -> Vec<String> {
    let found = tokens(source);
    let words: Vec<&str> = found.iter().map(|token| token.text.as_str()).collect();
    let (mut errors, mut told) = (Vec::new(), BTreeSet::new());
    for (at, &word) in words.iter().enumerate() {
        match words.get(at + 1..).unwrap_or_default() {
            ["!", "(", name, ..] if TELLING.contains(&word) => {
                told.insert(*name);
            }
            ["for", name, ..] if word == "Error" => errors.push((*name, found[at].line)),
            after if word == "thiserror" && after.contains(&"]") => {
                let item = after.iter().position(|word| matches!(*word, "struct" | "enum"));
                errors.extend(item.and_then(|item| after.get(item + 1)).map(|name| (*name, found[at].line)));
            }
            _ => {}
        }
    }
    let dumped = errors.into_iter().filter(|(name, _)| !told.contains(name) && !name.starts_with('$'));
    dumped
        .map(|(name, line)| {
            format!(
                "{path}:{line}: {name} is an error, and its `Debug` is not its message: readable!({name})"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_dumps_are_found() {
        #[track_caller]
        fn check(source: &str, n_found: usize) {
            let found = dumped("x.rs", source);
            assert_eq!(found.len(), n_found, "{source}: {found:?}");
        }
        check("#[derive(Debug)]\nstruct E;\nimpl std::error::Error for E {}", 1);
        check("#[derive(Debug)]\nstruct E<B>(B);\nimpl<B> Error for E<B> {}", 1);
        check("struct E;\nimpl std::error::Error for E {}\ncrate::error::readable!(E);", 0);
        check("#[derive(Debug, thiserror::Error)]\n#[error(\"{0}\")]\npub struct E(u8);", 1);
        check("#[derive(thiserror::Error)]\n#[error(\"{0}\")]\npub struct E(u8);\ntold!(E);", 0);
        check(
            "#[derive(thiserror::Error)]\npub enum E {}\ntold!(F);\n/// ? prints Error for people\nstruct G;",
            1,
        );
        check("impl std::error::Error for $error {}", 0);
    }
}
