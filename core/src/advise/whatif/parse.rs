//! Reads a change as it is typed.

use std::str::FromStr;

use super::{MAX_STREAMS, Profile, WhatIf, WhatIfError};
use crate::machine::Machine;
use crate::ordered::CollectVec;
use crate::program::text::nearest;
use crate::units::float;

impl FromStr for WhatIf {
    type Err = WhatIfError;

    fn from_str(text: &str) -> Result<WhatIf, WhatIfError> {
        read(text.trim()).map_err(|message| WhatIfError { what: text.to_owned(), message })
    }
}

fn read(text: &str) -> Result<WhatIf, String> {
    if let Some(buffers) = text.strip_prefix("pin:") {
        return Ok(WhatIf::Pin { buffers: some(buffers, "a buffer")?, pinned: true });
    }
    if let Some(buffers) = text.strip_prefix("unpin:") {
        return Ok(WhatIf::Pin { buffers: some(buffers, "a buffer")?, pinned: false });
    }
    if let Some(rest) = text.strip_prefix("split:") {
        let (stream, n) = match rest.rsplit_once('=') {
            Some((stream, n)) => (stream, count(n)?),
            None => (rest, 2),
        };
        return Ok(WhatIf::Split { stream: some(stream, "a stream")?, n });
    }
    // A figure as tables have it, with blanks around its sign.
    let parts = |sign| text.split_once(sign).map(|(name, rest)| (name.trim(), rest.trim()));
    if let Some((name, value)) = parts('=') {
        return match name {
            "streams" => Ok(WhatIf::Streams(count(value)?)),
            "link" => Ok(WhatIf::Link(profile(value)?)),
            "machine" => Ok(WhatIf::Machine(profile(value)?)),
            "pin" | "unpin" => Err(format!("write {name}:{value}")),
            "split" => Err(format!("write split:{value}, or split:{value}=N for N streams")),
            name => {
                let name = figure(name)?;
                let value = match serde_json::from_str(value) {
                    Ok(value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_))) => value,
                    _ => return Err(format!("{value:?} is neither a number nor true or false")),
                };
                Ok(WhatIf::Figure { name, value })
            }
        };
    }
    if let Some((name, factor)) = parts('*') {
        let name = if name == "link" { None } else { Some(figure(name)?) };
        return match float(factor) {
            Some(factor) if factor.is_finite() && 0.0 < factor => {
                Ok(name.map_or(WhatIf::LinkRate(factor), |name| WhatIf::Scale { name, factor }))
            }
            _ => Err(format!("{factor:?} is no factor above 0")),
        };
    }
    Err("expected pin:BUFFERS, unpin:BUFFERS, split:STREAM=N, streams=N, link=MACHINE, link*FACTOR, machine=MACHINE, \
         FIGURE=VALUE or FIGURE*FACTOR"
        .to_owned())
}

fn profile(name: &str) -> Result<Profile, String> {
    Ok(Profile { name: some(name, "a machine")?, given: None })
}

fn some(text: &str, what: &str) -> Result<String, String> {
    if text.is_empty() { Err(format!("the name of {what} is missing")) } else { Ok(text.to_owned()) }
}

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n) if 1 <= n && n <= MAX_STREAMS => Ok(n),
        _ => Err(format!("{text:?} is no number of streams between 1 and {MAX_STREAMS}")),
    }
}

fn figure(name: &str) -> Result<String, String> {
    let machine = Machine::default();
    if machine.figures().any(|f| f.name == name) {
        return Ok(name.to_owned());
    }
    // Whoever types a part of a name means one of those that have it.
    let like: Vec<&str> = machine
        .figures()
        .map(|f| f.name)
        .filter(|known| 1 < name.len() && known.contains(name))
        .collect_vec();
    let hint = match (like.is_empty(), nearest(name, &mut machine.figures().map(|f| f.name))) {
        (false, _) => format!("; there are {}", like.join(", ")),
        (true, Some(close)) => format!("; did you mean {close:?}?"),
        (true, None) => String::new(),
    };
    Err(format!("no figure of machines is called {name:?}{hint}"))
}

/// Whether a name is like a pattern in which `*` stands for any letters.
///
/// Linear in the name times the stars: each star takes the first place where what follows it fits.
pub(super) fn is_like(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
