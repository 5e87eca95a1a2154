//! A trace of a file that comes in pieces.

use super::pieces::Pieces;
use super::place::LEFT;
use super::scan::Cursor;
use super::{ReadError, Reader};
use crate::trace::Trace;

/// A trace that is being read: as [`read`](super::read()), of a file that is never held as a whole.
///
/// # Cost
/// One walk over the text; besides the trace, memory for two pieces and twice the longest event, of which one may have
/// 256 MiB. A file of our own in which another tool put our object behind the events is walked twice.
///
/// # Examples
/// ```
/// use spanlift::trace::{Finished, Reading};
///
/// let mut reading = Reading::new();
/// for piece in [r#"[{"ph": "X", "name": "wo"#, r#"rk", "pid": 1, "tid": 1, "ts": 5, "dur": 0.25}]"#] {
///     reading.feed(piece.as_bytes())?;
/// }
/// let Finished::Trace(trace) = reading.finish()? else { unreachable!("it has no object of ours") };
/// assert_eq!(trace.slices.end, [5250]);
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
pub struct Reading {
    pieces: Pieces,
    reader: Reader,
}

/// What comes of a file once all of it was fed.
#[derive(Debug)]
pub enum Finished {
    /// The trace.
    Trace(Box<Trace>),
    /// What our own object says has to be known before the events, and it came behind them: the file is to be fed once
    /// more, from its beginning, to this.
    Again(Box<Reading>),
}

impl Default for Reading {
    fn default() -> Reading {
        Reading::new()
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("bytes", &self.pieces.base()).finish_non_exhaustive()
    }
}

impl Reading {
    /// Ready for the first piece.
    pub fn new() -> Reading {
        Reading { pieces: Pieces::new(), reader: Reader::new(None, false) }
    }

    /// As [`Reading::new`], of a file that stays at hand: arguments that only people read are left in it.
    ///
    /// These are the arguments of operators, functions, kernels and annotations, most of the text of a profile. The trace
    /// holds the byte at which they begin ([`left_in_file`]), so that those which are asked for can be read from the file
    /// ([`arguments_at`]). Arguments of copies and waits are kept: a recording that is run again needs them. Of a file of our
    /// own all are.
    pub fn leaving_arguments() -> Reading {
        Reading { pieces: Pieces::new(), reader: Reader::new(None, true) }
    }

    /// Takes the next piece of the file, of any length.
    ///
    /// # Errors
    /// [`ReadError`] with the byte of the whole file where reading ended.
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), ReadError> {
        self.pieces.feed(piece, &mut self.reader).map(|_| ())
    }

    /// What came of the pieces, once there are no more.
    ///
    /// # Errors
    /// As [`Reading::feed`]; a file that was cut off says so here.
    pub fn finish(mut self) -> Result<Finished, ReadError> {
        self.pieces.end(&mut self.reader)?;
        if let Some((own, true)) = self.reader.found.own.take() {
            let reader = Reader::new(Some(own), false);
            return Ok(Finished::Again(Box::new(Reading { pieces: Pieces::new(), reader })));
        }
        let trace = self.reader.finish(self.pieces.lenient, self.pieces.invalid_utf8);
        Ok(Finished::Trace(Box::new(trace)))
    }
}

/// The byte of the file at which arguments begin that [`Reading::leaving_arguments`] left there; `None` for others.
pub fn left_in_file(args: &str) -> Option<u64> {
    args.strip_prefix(LEFT)?.parse().ok()
}

/// The object that `bytes`, a part of a file, begin with, as text; `None` where they begin with none or end within it.
pub fn arguments_at(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut cursor = Cursor::new(&text);
    if cursor.peek() != b'{' {
        return None;
    }
    let from = cursor.at;
    cursor.skip().ok()?;
    Some(cursor.since(from).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{read, write_chrome};

    /// What a file is when it is fed in pieces of so many bytes.
    fn in_pieces(file: &[u8], n: usize) -> Result<Trace, ReadError> {
        let mut reading = Reading::new();
        loop {
            for piece in file.chunks(n) {
                reading.feed(piece)?;
            }
            match reading.finish()? {
                Finished::Trace(trace) => return Ok(*trace),
                Finished::Again(again) => reading = *again,
            }
        }
    }

    #[track_caller]
    fn check(file: &[u8]) {
        let told =
            |trace: Result<Trace, ReadError>| trace.map(|t| (write_chrome(&t), format!("{:?}", t.import)));
        let whole = told(read(file));
        for n in [1, 2, 3, 7, 64, 1000, file.len().max(1)] {
            assert_eq!(
                told(in_pieces(file, n)),
                whole,
                "{n} bytes a piece of {}",
                String::from_utf8_lossy(file)
            );
        }
    }

    #[test]
    fn pieces_of_any_length_give_what_the_whole_gives() {
        let event = r#"{"ph":"X","cat":"kernel","name":"k\u00e9\"é","pid":0,"tid":7,"ts":1.5,"dur":2,"args":{"stream":7,"device":0}}"#;
        check(format!("[{event}, {event}\n]").as_bytes());
        check(
            format!("\u{feff}{{\"schemaVersion\": 1, \"traceEvents\": [{event}], \"traceName\": \"é\"}}")
                .as_bytes(),
        );
        check(format!("[{event}, {event}").as_bytes());
        check(format!("{{\"traceEvents\": [{event}, {event}").as_bytes());
        for file in
            ["", "[", "{", "[]", "[1, NaN, {}]", "{\"a\": 1}", "no", "[{\"ph\":\"X\",\"ts\":1e}]", "[]x"]
        {
            check(file.as_bytes());
        }
        check(b"[{\"ph\":\"i\",\"name\":\"\xff\xc3\",\"ts\":1}]");
        check(b"[\xc3");
        check(b"\x1f\x8b");
    }

    #[test]
    fn arguments_that_were_left_are_where_it_says() {
        let operator = r#"{"ph":"X","cat":"cpu_op","name":"é","pid":1,"tid":1,"ts":1,"dur":2,"args": {"sizes é": [[1, 2], {"a": "}"}], "n": 1e5}}"#;
        let short = r#"{"ph":"X","cat":"cpu_op","name":"o","pid":1,"tid":1,"ts":1,"dur":2,"args":{"n": 1}}"#;
        let kernel = r#"{"ph":"X","cat":"gpu_memset","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7,"grid":[1,1,1]}}"#;
        let instant =
            r#"{"ph":"i","cat":"x","name":"i","pid":1,"tid":1,"ts":1,"args":{"long enough": 1234567}}"#;
        let file = format!("\u{feff}[{operator}, {short},\n{kernel}, {instant}, {operator}]");
        let whole = read(file.as_bytes()).unwrap();
        for n in [1, 7, 64, file.len()] {
            let mut reading = Reading::leaving_arguments();
            file.as_bytes().chunks(n).for_each(|piece| reading.feed(piece).unwrap());
            let Ok(Finished::Trace(mut trace)) = reading.finish() else { panic!("not of ours") };
            let given = |trace: &Trace| -> Vec<String> {
                let ids = trace.slices.args.iter().copied().chain(trace.instants.iter().map(|i| i.args));
                ids.map(|id| trace.strings.get(id).to_owned()).collect()
            };
            let left: Vec<Option<u64>> = given(&trace).iter().map(|args| left_in_file(args)).collect();
            assert_eq!(
                left.iter().map(Option::is_some).collect::<Vec<_>>(),
                [true, false, false, true, true]
            );
            for ((left, now), before) in left.iter().zip(given(&trace)).zip(given(&whole)) {
                let there =
                    left.map(|at| arguments_at(&file.as_bytes()[usize::try_from(at).unwrap()..]).unwrap());
                assert_eq!(there.unwrap_or(now), before);
            }
            // Nothing else differs.
            trace.slices.args.clone_from(&whole.slices.args);
            trace.strings.clone_from(&whole.strings);
            trace.instants.clone_from(&whole.instants);
            assert_eq!(write_chrome(&trace), write_chrome(&whole));
        }
        for bytes in [&b""[..], b"[1]", b"{\"a\": 1", b"1"] {
            assert_eq!(arguments_at(bytes), None);
        }
    }

    #[test]
    fn our_object_behind_the_events_is_known_the_second_time() {
        let foreign = r#"[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1.5,"dur":2,"args":{"stream":7,"device":0}}]"#;
        let file = write_chrome(&read(foreign.as_bytes()).unwrap());
        check(file.as_bytes());
        let parsed: serde_json::Value = serde_json::from_str(&file).unwrap();
        let behind =
            format!("{{\"traceEvents\": {}, \"spanlift\": {}}}", parsed["traceEvents"], parsed["spanlift"]);
        check(behind.as_bytes());
        let mut reading = Reading::new();
        reading.feed(behind.as_bytes()).unwrap();
        assert!(matches!(reading.finish(), Ok(Finished::Again(_))));
    }
}
