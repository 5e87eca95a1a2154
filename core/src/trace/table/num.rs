//! Numbers that name things: devices, streams, correlations. `7`, `7.0` and `"7"` are the same.

use std::borrow::Cow;
use std::fmt;

use super::super::read::scan::Value;
use super::super::time;
use super::super::{StrId, Strings};
use crate::units;

/// A number, or a text that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Num {
    /// A whole number.
    Int(i64),
    /// Anything else, in the table's strings.
    Text(StrId),
}

impl Num {
    /// What a value names; a null is the text `None`.
    pub(super) fn of(value: Value<'_>, strings: &mut Strings) -> Num {
        let text: Cow<'_, str> = match value {
            Value::Number(text) => match time::integer(text) {
                Some(number) => return Num::Int(number),
                None => float(text).into(),
            },
            Value::Text(quoted) => {
                let text = quoted.text();
                match whole(&text) {
                    Some(number) => return Num::Int(number),
                    None => text,
                }
            }
            other => text_of(other),
        };
        Num::Text(strings.intern(&text))
    }

    /// The whole number that it is.
    pub fn int(self) -> Option<i64> {
        match self {
            Num::Int(number) => Some(number),
            Num::Text(_) => None,
        }
    }

    /// Shows it as it is called in reports.
    pub fn shown(self, strings: &Strings) -> impl fmt::Display + '_ {
        Shown(self, strings)
    }
}

struct Shown<'a>(Num, &'a Strings);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Num::Int(number) => write!(f, "{number}"),
            Num::Text(id) => f.write_str(self.1.get(id)),
        }
    }
}

/// The whole number that a text looks like.
fn whole(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// A value as text: numbers in their shortest form, `None`, `True` and `False` as the profiler's own tools write them.
pub(super) fn text_of(value: Value<'_>) -> Cow<'_, str> {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.into(),
        Value::Number("-0") => "0".into(),
        Value::Number(text) if text.bytes().skip(1).all(|b| b.is_ascii_digit()) => text.into(),
        Value::Number(text) => float(text).into(),
        Value::NonFinite(text) | Value::Container(text) => text.into(),
        Value::Text(quoted) => quoted.text(),
    }
}

/// One spelling for all spellings of a number that is not whole, or too large for one.
fn float(text: &str) -> String {
    if text.bytes().skip(1).all(|b| b.is_ascii_digit()) {
        return text.to_owned();
    }
    units::float(text).map_or_else(|| text.to_owned(), |number| format!("{number:?}"))
}

/// The whole number that a value is.
pub(super) fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Number(text) => time::integer(text),
        Value::Text(quoted) => whole(&quoted.text()),
        _ => None,
    }
}
