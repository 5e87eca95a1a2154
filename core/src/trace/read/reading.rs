//! A trace of a file that comes in pieces.

use super::pieces::Pieces;
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
        Reading { pieces: Pieces::new(), reader: Reader::new(None) }
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
            let reader = Reader::new(Some(own));
            return Ok(Finished::Again(Box::new(Reading { pieces: Pieces::new(), reader })));
        }
        let trace = self.reader.finish(self.pieces.lenient, self.pieces.invalid_utf8);
        Ok(Finished::Trace(Box::new(trace)))
    }
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
