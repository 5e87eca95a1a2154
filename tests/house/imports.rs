//! Which rooms of `core` and which files of `wasm` may name which: the order of the design, read from the source.

use std::collections::BTreeMap;

use crate::lexer::{Token, tokens};

/// The rooms of `core`; each may use those that stand before it.
const ORDER: &[&str] = &[
    "error",
    "units",
    "text",
    "id",
    "ordered",
    "json",
    "splitmix",
    "memory",
    "program",
    "machine",
    "trace",
    "hazard",
    "sim",
    "simulated",
    "explore",
    "op",
    "plan",
    "advise",
];

/// Pairs that the order alone would allow: the first must not use the second, and why.
const APART: &[(&str, &str, &str)] = &[
    ("sim", "hazard", "they read the program independently, so that they can disagree"),
    ("op", "program", "operators are algebra; only plan joins them to programs"),
];

/// The only modules of `wasm` that may touch the browser.
const BROWSER: &[&str] = &["entry", "paint", "input"];

/// Words that can stand before a path that starts with `::`.
const KEYWORDS: &[&str] =
    &["use", "return", "in", "as", "dyn", "impl", "for", "where", "mut", "else", "match", "if"];

/// What `core`'s root hands out by name: name to room.
type Exports = BTreeMap<String, String>;

/// Every use in `core/src` (`path` from there, source) that goes against the order.
pub(crate) fn core_violations(files: &[(String, String)]) -> Vec<String> {
    let root = files.iter().find(|(path, _)| path == "lib.rs").map_or("", |(_, source)| source.as_str());
    let exports = exports(root);
    let mut found = Vec::new();
    for (path, source) in files.iter().filter(|(path, _)| path != "lib.rs") {
        let place = module_path(path);
        let room = place[0].as_str();
        if !ORDER.contains(&room) {
            found.push(format!("core/src/{path}: {room} has no place in the order {ORDER:?}"));
            continue;
        }
        for (line, name) in root_names(&place, &tokens(source)) {
            let used = exports.get(&name).map_or(name.as_str(), String::as_str);
            if let Some(why) = refusal(room, used) {
                found.push(format!("core/src/{path}:{line}: {room} uses {name}: {why}"));
            }
        }
    }
    found.dedup(); // `use crate::sim::{self, Run}` is one mistake
    found
}

/// Every file of `wasm/src` that names `web_sys` or `js_sys` and is not there for it.
pub(crate) fn wasm_violations(files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, source) in files {
        if BROWSER.contains(&module_path(path).first().map_or("", String::as_str)) {
            continue;
        }
        for token in tokens(source) {
            if matches!(token.text.as_str(), "web_sys" | "js_sys") {
                found.push(format!(
                    "wasm/src/{path}:{}: names {}, only {BROWSER:?} may",
                    token.line, token.text
                ));
            }
        }
    }
    found
}

/// Why `room` must not use `used`, if so.
fn refusal(room: &str, used: &str) -> Option<String> {
    if room == used {
        return None;
    }
    if let Some((_, _, why)) = APART.iter().find(|(from, to, _)| (*from, *to) == (room, used)) {
        return Some((*why).to_owned());
    }
    let rank = |name: &str| ORDER.iter().position(|other| *other == name);
    match rank(used) {
        None => Some("neither a room nor handed out by lib.rs".to_owned()),
        Some(theirs) if Some(theirs) > rank(room) => Some(format!("{used} stands after {room}")),
        Some(_) => None,
    }
}

/// `memory/view.rs` is `[memory, view]`, `memory/mod.rs` and `memory.rs` are `[memory]`, `lib.rs` is empty.
fn module_path(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib")) {
        parts.pop();
    }
    parts
}

fn exports(root: &str) -> Exports {
    let tokens = tokens(root);
    let mut found = Exports::new();
    for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.text == "use") {
        for path in tree(&tokens, at + 1) {
            let names: Vec<&String> =
                path.segments.iter().filter(|name| *name != "crate" && *name != "self").collect();
            if let (Some(room), Some(last)) = (names.first(), names.last()) {
                found.insert(path.alias.unwrap_or_else(|| (*last).clone()), (*room).clone());
            }
        }
    }
    found
}

/// What a file at `place` names from the crate's root, with the line: `crate::x`, or as many `super` as lead there.
fn root_names(place: &[String], tokens: &[Token]) -> Vec<(usize, String)> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    // inside a longer path, unlike `use ::spanlift::x`
    let continues = |at: usize| {
        let before = text(at.wrapping_sub(3));
        text(at.wrapping_sub(1)) == ":"
            && (before == ">" || is_segment(before))
            && !KEYWORDS.contains(&before)
    };
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut inline: Vec<usize> = Vec::new(); // brace depths of `mod x { … }` around this place
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if inline.last() == Some(&depth) {
                    inline.pop();
                }
            }
            "mod" if text(at + 2) == "{" => inline.push(depth),
            "crate" | "spanlift" | "super" | "self" if !continues(at) => {
                for path in tree(tokens, at) {
                    if let Some(name) = from_root(place.len() + inline.len(), &path) {
                        found.push((token.line, name));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// The first name below the crate's root that `path` leads to from a module at `depth`, if it leaves that module's room.
fn from_root(depth: usize, path: &UsePath) -> Option<String> {
    let mut names = path.segments.iter().map(String::as_str);
    let mut up = 0;
    let first = loop {
        match names.next() {
            Some("crate" | "spanlift") => up = depth,
            Some("super") => up += 1,
            Some("self") => {}
            other => break other,
        }
    };
    // `crate` alone is a visibility, `use crate as x` would hide what comes after it
    match (up == depth, first, &path.alias) {
        (true, Some(name), _) => Some(name.to_owned()),
        (true, None, Some(alias)) => Some(format!("crate as {alias}")),
        _ => None,
    }
}

/// One leaf of a use tree or a plain path.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct UsePath {
    segments: Vec<String>,
    alias: Option<String>,
}

/// All leaves of the use tree (or the one path) that starts at token `at`.
fn tree(tokens: &[Token], at: usize) -> Vec<UsePath> {
    let mut leaves = Vec::new();
    grow(tokens, at, &UsePath::default(), &mut leaves);
    leaves
}

/// Adds the leaves below `stem` and gives the place after them.
fn grow(tokens: &[Token], mut at: usize, stem: &UsePath, leaves: &mut Vec<UsePath>) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut path = stem.clone();
    while text(at) == ":" {
        at += 1;
    }
    loop {
        if text(at) == "{" {
            at += 1;
            while !matches!(text(at), "}" | "") {
                at = grow(tokens, at, &path, leaves);
                if text(at) == "," {
                    at += 1;
                } else if text(at) != "}" {
                    return tokens.len(); // no use tree
                }
            }
            return at + 1;
        }
        path.segments.push(text(at).to_owned());
        at += 1;
        if text(at) == ":" && text(at + 1) == ":" && is_segment(text(at + 2)) {
            at += 2;
            continue;
        }
        if text(at) == "as" {
            path.alias = Some(text(at + 1).to_owned());
            at += 2;
        }
        leaves.push(path);
        return at;
    }
}

fn is_segment(text: &str) -> bool {
    text == "{" || text == "*" || text.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str =
        "pub mod sim; pub use crate::{units::{Bytes, Nanos as Time}, sim::Run}; pub use self::op::Op;";

    /// The violations of one file, each as the name that was used.
    #[track_caller]
    fn check(path: &str, source: &str, expected: &[&str]) {
        let files = [("lib.rs".to_owned(), LIB.to_owned()), (path.to_owned(), source.to_owned())];
        let found = core_violations(&files);
        assert_eq!(found.len(), expected.len(), "{source}: {found:?}");
        for (line, name) in found.iter().zip(expected) {
            assert!(
                line.contains(&format!("uses {name}:")) || line.contains(name),
                "{line} does not name {name}"
            );
        }
    }

    #[test]
    fn each_room_uses_only_what_stands_before_it() {
        check("memory/span.rs", "use crate::units::Bytes;", &[]);
        check("memory/span.rs", "use crate::program::Program;", &["program"]);
        check("program.rs", "use crate::memory::{Span, view::View};", &[]);
        check("units.rs", "use crate::id::Id;", &["id"]);
        check("advise/mod.rs", "use crate::{plan, sim, hazard, op, trace, machine};", &[]);
        check("plan/mod.rs", "fn f() -> crate::advise::Finding { crate::sim::run() }", &["advise"]);
    }

    #[test]
    fn hazard_and_sim_are_apart_and_op_knows_no_program() {
        check("sim/engine.rs", "use crate::hazard::Finding;", &["hazard"]);
        check("hazard/clock.rs", "use crate::sim::Run;", &["sim"]);
        check("op/rules.rs", "use crate::program::Command;", &["program"]);
        check("plan/lower.rs", "use crate::{op::Expr, program::Program};", &[]);
    }

    #[test]
    fn no_way_to_the_root_is_overlooked() {
        check("hazard/clock.rs", "use super::super::sim::Run;", &["sim"]);
        check("hazard/mod.rs", "use super::sim;", &["sim"]);
        check("hazard/mod.rs", "use self::super::sim;", &["sim"]);
        check("hazard.rs", "mod tests { use super::*; use super::super::sim; }", &["sim"]);
        check("hazard.rs", "mod a { fn f() {} } use super::sim;", &["sim"]);
        check(
            "hazard/clock.rs",
            "use crate::{units::Bytes, memory::{span, view}, sim::{self, Run}};",
            &["sim"],
        );
        check("hazard/mod.rs", "use crate::Run;", &["Run"]);
        check("memory/mod.rs", "use crate::Op;", &["Op"]);
        check("hazard/mod.rs", "use crate::{Bytes, Time};", &[]);
        check("hazard/mod.rs", "use crate::*;", &["*"]);
        check("hazard/mod.rs", "use crate as all; use all::sim;", &["crate as all"]);
        check("hazard/mod.rs", "use ::spanlift::sim; extern crate self as spanlift;", &["sim"]);
        check("hazard/mod.rs", "macro_rules! m { () => { $crate::sim::run() } }", &["sim"]);
        check("hazard/mod.rs", "use crate::nowhere;", &["nowhere"]);
        check("policy.rs", "", &["policy has no place in the order"]);
    }

    #[test]
    fn what_is_no_use_is_none() {
        check("hazard/clock.rs", "use super::Finding; use self::x::sim; mod sim;", &[]);
        check("hazard.rs", "mod tests { use super::*; use super::sim_like; }", &[]);
        check("hazard/mod.rs", "// crate::sim\nlet s = \"crate::sim\"; pub(crate) fn sim() {}", &[]);
        check("hazard/mod.rs", "pub(in crate::hazard) struct A; if self.sim { a::<crate::id::Id>() }", &[]);
    }

    #[test]
    fn the_browser_is_named_in_three_places_only() {
        let of = |path: &str, source: &str| wasm_violations(&[(path.to_owned(), source.to_owned())]).len();
        assert_eq!(of("scene.rs", "use web_sys::Element; // web_sys"), 1);
        assert_eq!(of("lib.rs", "fn f() -> js_sys::Array {}"), 1);
        assert_eq!(of("scene/paint.rs", "use web_sys::Element;"), 1);
        assert_eq!(of("paint/canvas.rs", "use web_sys::Element;"), 0);
        assert_eq!(of("entry.rs", "use web_sys::Element;"), 0);
        assert_eq!(of("scene.rs", "// web_sys"), 0);
    }
}
