//! What a sweep varies, as it is typed.

use std::str::FromStr;

use spanlift::advise::whatif::WhatIf;
use spanlift::machine::Machine;

use super::MAX_CELLS;

/// What is varied: alternatives, each of any number of changes.
///
/// An axis is its values between commas, each a change as [`WhatIf`] writes it. What stands before the first value holds
/// for those after it too, and numbers have ranges:
///
/// | written | values |
/// |---|---|
/// | `h2d_bw=6,12,24` | 6, 12 and 24 GB/s |
/// | `copy_engines=1..3` | 1, 2 and 3 |
/// | `h2d_bw=5..50/10` | 10 values from 5 to 50, evenly apart |
/// | `lat=0.5..8*2` | 0.5, 1, 2, 4 and 8: each twice the one before |
/// | `h2d_bw*1,2,4` | the machine's own rate times 1, 2 and 4 |
/// | `machine=tutorial-ci,h200-pcie5` | two profiles |
/// | `streams=1..4` | every stream as it is, and split into 2, 3 and 4 |
/// | `as-is,pin:x,pin:*` | nothing changed, `x` page-locked, all page-locked |
///
/// # Examples
/// ```
/// use spanlift_native::sweep::Axis;
///
/// let axis: Axis = "lat=0.5..8*2".parse()?;
/// assert_eq!(axis.title(), "lat (us)");
/// let values: Vec<_> = axis.values.iter().filter_map(|v| v.value()).collect();
/// assert_eq!(values, ["0.5", "1", "2", "4", "8"]);
/// # Ok::<(), spanlift_native::sweep::AxisError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What all values have in common, `h2d_bw`; `change` where that is nothing.
    pub name: String,
    /// The unit of its figure, or nothing.
    pub unit: &'static str,
    /// The values in the order in which they were given.
    pub values: Vec<Alternative>,
}

/// One value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// What tells it from the others.
    pub label: String,
    /// What it changes; nothing leaves all as it is.
    pub changes: Vec<WhatIf>,
}

/// What is no axis.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what:?}: {message}")]
pub struct AxisError {
    /// The value, as it was written.
    pub what: String,
    /// What is wrong with it.
    pub message: String,
}

readable!(AxisError);

/// The value that changes nothing.
const AS_IS: &str = "as-is";
/// What such a value is called.
const UNCHANGED: &str = "as is";

impl Alternative {
    /// The label for scripts; none where nothing is changed, which is no value of what is varied.
    pub fn value(&self) -> Option<&str> {
        (!self.changes.is_empty() || self.label != UNCHANGED).then_some(&*self.label)
    }
}

impl Axis {
    /// Changes that hold everywhere: an axis of one value.
    pub fn always(changes: Vec<WhatIf>) -> Axis {
        let label: Vec<String> = changes.iter().map(ToString::to_string).collect();
        Axis { name: String::new(), unit: "", values: vec![Alternative { label: label.join(", "), changes }] }
    }

    /// The name with its unit: `h2d_bw (GB/s)`; of streams that the number is of what becomes of each.
    pub fn title(&self) -> String {
        if self.name == "streams" {
            return "streams for each".to_owned();
        }
        if self.unit.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.unit) }
    }
}

impl FromStr for Axis {
    type Err = AxisError;

    fn from_str(text: &str) -> Result<Axis, AxisError> {
        let mut head = "";
        let mut items: Vec<(&str, String)> = Vec::new();
        for item in text.split(',').map(str::trim) {
            let wrong = |message| AxisError { what: item.to_owned(), message };
            if item.is_empty() {
                return Err(AxisError { what: text.to_owned(), message: "a value is missing".to_owned() });
            }
            let value = match split(item) {
                _ if item == AS_IS => {
                    items.push(("", item.to_owned()));
                    continue;
                }
                Some((own, value)) => {
                    head = own;
                    value
                }
                None => item,
            };
            let room = MAX_CELLS.saturating_sub(items.len());
            match value.split_once("..") {
                Some(range) if head.ends_with(['=', '*']) => {
                    items.extend(numbers(range, room).map_err(wrong)?.into_iter().map(|n| (head, n)));
                }
                _ if room == 0 => return Err(wrong(too_many())),
                _ => items.push((head, value.to_owned())),
            }
        }
        let mut heads = items.iter().map(|(head, _)| *head).filter(|head| !head.is_empty());
        let first = heads.next().unwrap_or_default();
        let common = if heads.all(|head| head == first) { first } else { "" };
        let values: Result<Vec<Alternative>, AxisError> =
            items.iter().map(|(head, value)| alternative(head, value, common)).collect();
        let name = common.trim_end_matches(['=', '*', ':']);
        let unit = match common.strip_suffix('=') {
            Some(name) => Machine::default().figures().find(|f| f.name == name).map_or("", |f| f.unit),
            None => "",
        };
        let name = if name.is_empty() { "change" } else { name }.to_owned();
        Ok(Axis { name, unit, values: values? })
    }
}

/// A value's own head, up to and with `=`, `*` or `:`, and what follows it.
fn split(item: &str) -> Option<(&str, &str)> {
    let head = ["pin:", "unpin:"].into_iter().find(|head| item.starts_with(head)).map(str::len);
    let at = head.or_else(|| item.find('=').map(|at| at + 1)).or_else(|| {
        // `h2d_bw*2` has a head, `5..50*2` and the pattern `x*` have none.
        let at = item.find('*')?;
        let is_name = item.starts_with(|c: char| c.is_ascii_alphabetic()) && at + 1 < item.len();
        is_name.then_some(at + 1)
    });
    at.map(|at| item.split_at(at)).or_else(|| item.starts_with("split:").then_some((item, "")))
}

fn alternative(head: &str, value: &str, common: &str) -> Result<Alternative, AxisError> {
    let text = format!("{head}{value}");
    let label = match head {
        "" => UNCHANGED.to_owned(),
        _ if common.is_empty() || value.is_empty() => text.clone(),
        _ if head.ends_with('*') => format!("x{value}"),
        _ => value.to_owned(),
    };
    // One stream is what a stream is.
    let is_one = value == "1" && (head == "streams=" || head.starts_with("split:"));
    if is_one || head.is_empty() && value == AS_IS {
        return Ok(Alternative { label, changes: Vec::new() });
    }
    let change = text.parse::<WhatIf>().map_err(|e| AxisError { what: e.what, message: e.message })?;
    Ok(Alternative { label, changes: vec![change] })
}

fn too_many() -> String {
    format!("more than {MAX_CELLS} values")
}

/// The numbers of a range, written as they are read.
fn numbers((from, rest): (&str, &str), room: usize) -> Result<Vec<String>, String> {
    let (to, n, factor) = match (rest.split_once('/'), rest.split_once('*')) {
        (Some((to, n)), _) => (to, Some(n), None),
        (None, Some((to, factor))) => (to, None, Some(factor)),
        (None, None) => (rest, None, None),
    };
    let (from, to) = (number(from)?, number(to)?);
    if let Some(n) = n {
        let n: usize = n.parse().map_err(|_| format!("{n:?} is no number of values"))?;
        return match n {
            0 | 1 => Err("a range has at least 2 values".to_owned()),
            _ if room < n => Err(too_many()),
            _ => Ok((0..n).map(|k| written(from + (to - from) * (k as f64 / (n - 1) as f64))).collect()),
        };
    }
    if to < from {
        return Err("a range goes up".to_owned());
    }
    let next: Box<dyn Fn(usize) -> f64> = match factor {
        Some(text) => {
            let factor = number(text)?;
            if factor <= 1.0 || from <= 0.0 {
                return Err("a range of factors begins above 0 and has a factor above 1".to_owned());
            }
            Box::new(move |k| from * factor.powf(k as f64))
        }
        None => Box::new(move |k| from + k as f64),
    };
    // Rounding does not cost the last value.
    let last = to * (1.0 + 1e-9);
    let mut numbers = Vec::new();
    for k in 0.. {
        let value = next(k);
        if last < value {
            break;
        }
        if numbers.len() == room {
            return Err(too_many());
        }
        numbers.push(written(value));
    }
    Ok(numbers)
}

fn number(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(value) if f64::is_finite(value) && 0.0 <= value && value <= 1e12 => Ok(value),
        _ => Err(format!("{text:?} is no number between 0 and 1e12")),
    }
}

/// Six digits, which nobody's figure has, but all of a whole number.
fn written(value: f64) -> String {
    let short: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    // A count stays one, where rounding has left something behind its point too.
    if value.fract() == 0.0 || 1e6 <= value { format!("{value:.0}") } else { format!("{short}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: &str, expected: &[(&str, &str)]) {
        let axis: Axis = text.parse().unwrap();
        let values: Vec<(String, String)> = axis
            .values
            .iter()
            .map(|v| {
                let changes: Vec<String> = v.changes.iter().map(ToString::to_string).collect();
                (v.label.clone(), changes.join(" "))
            })
            .collect();
        let values: Vec<(&str, &str)> = values.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!((axis.title().as_str(), &values[..]), (name, expected), "{text}");
    }

    #[test]
    fn values_are_lists_and_ranges_of_changes() {
        check("h2d_bw=6,12", "h2d_bw (GB/s)", &[("6", "h2d_bw=6"), ("12", "h2d_bw=12")]);
        check(
            "h2d_bw=5..15/3",
            "h2d_bw (GB/s)",
            &[("5", "h2d_bw=5"), ("10", "h2d_bw=10"), ("15", "h2d_bw=15")],
        );
        check("lat=8..2/2", "lat (us)", &[("8", "lat=8"), ("2", "lat=2")]);
        check(
            "lat=0..1/4",
            "lat (us)",
            &[("0", "lat=0"), ("0.333333", "lat=0.333333"), ("0.666667", "lat=0.666667"), ("1", "lat=1")],
        );
        // The eleventh step of eighteen is a whole number, though not of the nearest double of 11 / 18.
        let axis: Axis = "stage_chunk=4096..10000000/19".parse().unwrap();
        assert_eq!((axis.values[11].label.as_str(), axis.values[18].label.as_str()), ("6112704", "10000000"));
        check("lat=0.5..2*2", "lat (us)", &[("0.5", "lat=0.5"), ("1", "lat=1"), ("2", "lat=2")]);
        check("copy_engines=1..2", "copy_engines", &[("1", "copy_engines=1"), ("2", "copy_engines=2")]);
        check("h2d_bw*1,2..3", "h2d_bw", &[("x1", "h2d_bw*1"), ("x2", "h2d_bw*2"), ("x3", "h2d_bw*3")]);
        check("streams=1..2", "streams for each", &[("1", ""), ("2", "streams=2")]);
        check("split:s=1,3", "split:s", &[("1", ""), ("3", "split:s=3")]);
        check("as-is, pin:x,y*", "pin", &[("as is", ""), ("x", "pin:x"), ("y*", "pin:y*")]);
        check(
            "as-is,pin:*,h2d_bw=3",
            "change",
            &[("as is", ""), ("pin:*", "pin:*"), ("h2d_bw=3", "h2d_bw=3")],
        );
        check("machine=a,b", "machine", &[("a", "machine=a"), ("b", "machine=b")]);
        check("split:s", "split:s", &[("split:s", "split:s=2")]);
    }

    #[test]
    fn what_is_no_axis_says_why() {
        for (text, expected) in [
            ("", "\"\": a value is missing"),
            ("h2d_bw=1,,2", "\"h2d_bw=1,,2\": a value is missing"),
            ("zork", "\"zork\": expected"),
            ("zork=1", "\"zork=1\": no figure of machines is called \"zork\""),
            ("h2d_bw=NaN", "\"h2d_bw=NaN\": \"NaN\" is neither"),
            ("h2d_bw=NaN..3", "\"h2d_bw=NaN..3\": \"NaN\" is no number"),
            ("h2d_bw=1..inf", "\"h2d_bw=1..inf\": \"inf\" is no number"),
            ("h2d_bw=1..2/1000000000", "\"h2d_bw=1..2/1000000000\": more than 10000 values"),
            ("h2d_bw=1..1e12", "\"h2d_bw=1..1e12\": more than 10000 values"),
            ("lat=1..2*1.0000000001", "\"lat=1..2*1.0000000001\": more than 10000 values"),
            ("lat=0..2*2", "\"lat=0..2*2\": a range of factors begins above 0"),
            ("lat=1..2*1", "\"lat=1..2*1\": a range of factors"),
            ("lat=1..2/1", "\"lat=1..2/1\": a range has at least 2 values"),
            ("lat=1..2/-1", "\"lat=1..2/-1\": \"-1\" is no number of values"),
            ("lat=3..2", "\"lat=3..2\": a range goes up"),
            ("h2d_bw*0,1", "\"h2d_bw*0\": \"0\" is no factor above 0"),
        ] {
            let error = text.parse::<Axis>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let many = format!("lat=1{}", ",2".repeat(MAX_CELLS));
        assert!(many.parse::<Axis>().unwrap_err().to_string().ends_with("more than 10000 values"));
    }
}
