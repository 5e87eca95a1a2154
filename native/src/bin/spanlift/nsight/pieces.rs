//! Events written as JSON, a piece at a time.

use std::io::Write;

use super::Broken;
use crate::say::Fail;

/// What an export may always make.
pub(super) const FREE: u64 = 64 << 20;
/// How many times its own size it may make beyond that: each row may name the same text of megabytes.
pub(super) const TIMES: u64 = 200;

/// What is to be written.
pub(super) struct Event {
    /// Its phase; but for a slice (`X`), its end is not looked at.
    pub(super) ph: char,
    pub(super) cat: &'static str,
    pub(super) name: String,
    pub(super) pid: Option<i64>,
    pub(super) tid: Option<i64>,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) correlation: Option<i64>,
    pub(super) args: Vec<(&'static str, i64)>,
}

/// Nanoseconds as a decimal number of microseconds.
fn micros(ns: i128) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    format!("{sign}{}.{:03}", ns / 1000, ns % 1000)
}

/// How many bytes may come of a file of so many.
fn most(n_bytes: u64) -> u64 {
    FREE.max(n_bytes.saturating_mul(TIMES))
}

/// Gives what is written to a sink, a piece at a time.
pub(super) struct Pieces<S> {
    bytes: Vec<u8>,
    pub(super) n_events: u64,
    /// How many bytes were given, and how many may be.
    given: u64,
    most: u64,
    sink: S,
}

impl<S: FnMut(&[u8]) -> Result<(), Fail>> Pieces<S> {
    /// What begins with `head`, from a file of so many bytes.
    pub(super) fn new(head: String, n_bytes: u64, sink: S) -> Pieces<S> {
        Pieces { bytes: head.into_bytes(), n_events: 0, given: 0, most: most(n_bytes), sink }
    }

    /// The end of it.
    pub(super) fn end(mut self, tail: &str) -> Result<(), Fail> {
        self.bytes.extend_from_slice(tail.as_bytes());
        self.give()
    }

    fn give(&mut self) -> Result<(), Fail> {
        self.given += self.bytes.len() as u64;
        (self.sink)(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }

    /// # Errors
    /// What the sink says, or that there is too much of it.
    pub(super) fn event(&mut self, event: &Event) -> Result<(), Broken> {
        let comma = if self.n_events == 0 { "" } else { "," };
        self.n_events += 1;
        let number = |number: Option<i128>| number.map_or("null".to_owned(), micros);
        let id = |id: Option<i64>| id.map_or("null".to_owned(), |id| id.to_string());
        let (start, end) = (event.start.map(i128::from), event.end.map(i128::from));
        let dur = match event.ph {
            'X' => format!("\"dur\":{},", number(start.zip(end).map(|(start, end)| end - start))),
            _ => String::new(),
        };
        let name = serde_json::Value::from(event.name.as_str());
        let mut args: Vec<String> =
            event.args.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        args.extend(event.correlation.iter().map(|id| format!("\"correlation\":{id}")));
        let written = write!(
            self.bytes,
            "{comma}{{\"ph\":\"{}\",\"cat\":\"{}\",\"name\":{name},\"pid\":{},\"tid\":{},\"ts\":{},{dur}\"args\":{{{}}}}}",
            event.ph,
            event.cat,
            id(event.pid),
            id(event.tid),
            number(start),
            args.join(",")
        );
        written.map_err(|e| Broken::Sink(Fail::new(e.to_string())))?;
        if self.most < self.given + self.bytes.len() as u64 {
            return Err(Broken::TooMuch);
        }
        if 1 << 16 < self.bytes.len() {
            self.give().map_err(Broken::Sink)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_one_name_over_and_over_ends_at_a_multiple_of_its_file() {
        assert_eq!([0, 1000, 1 << 20, u64::MAX].map(most), [FREE, FREE, 200 << 20, u64::MAX]);
        let event = |at| Event {
            ph: 'i',
            cat: "user_annotation",
            name: "x".repeat(10_000),
            pid: None,
            tid: None,
            start: Some(at),
            end: None,
            correlation: None,
            args: Vec::new(),
        };
        let mut given = 0;
        let mut to = Pieces::new("[".to_owned(), 0, |piece: &[u8]| {
            given += piece.len();
            Ok(())
        });
        to.most = 1_000_000;
        let n = (0..500).take_while(|at| to.event(&event(*at)).is_ok()).count();
        assert!(n == 99 && given <= 1_000_000, "{n} events of 10 kB, {given} bytes");
    }
}
