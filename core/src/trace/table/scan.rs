//! Takes a file in pieces: holds back what is not whole yet, and never more of the text than that.

use super::Table;
use super::fill::Fill;
use crate::trace::read::ReadError;
use crate::trace::read::scan::{Cursor, Lenient};
use crate::trace::read::walk::{Sink, Walk};

/// A file that is being read.
///
/// # Cost
/// One walk over the text; besides the table, memory for two pieces and twice the longest event.
///
/// # Examples
/// ```
/// use spanlift::trace::table::Scan;
///
/// let mut scan = Scan::new();
/// for piece in [r#"[{"ph": "X", "na"#, r#"me": "work", "ts": 5, "dur": 0.25}]"#] {
///     scan.feed(piece.as_bytes())?;
/// }
/// assert_eq!(scan.finish()?.spans.end, [5250]);
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
#[derive(Debug)]
pub struct Scan {
    /// Text that is not taken yet.
    text: String,
    /// How much of the whole stands before it.
    base: usize,
    /// The text is looked at again when it is this long.
    enough: usize,
    /// Bytes before the text that are no whole character yet, and the head of the file.
    head: Vec<u8>,
    begun: bool,
    lenient: Lenient,
    invalid_utf8: u64,
    walk: Walk,
    fill: Fill,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan::new()
    }
}

impl Scan {
    /// Bytes that a table and all that is told of it may take; files of more than two thirds of it may take half as much
    /// again as they are long. What needs more has millions of streams, threads or names, as no machine has.
    const MOST_BYTES: u64 = 1_400_000_000;
    /// Bytes of one event, or of one member beside the events, at most.
    const MOST_OF_EVENT: usize = 256 << 20;

    /// Bytes of a piece that are a good size to feed: they stay in a processor's cache.
    pub const PIECE: usize = 256 << 10;

    /// Ready for the first piece.
    pub fn new() -> Scan {
        Scan {
            text: String::new(),
            base: 0,
            enough: 1,
            head: Vec::new(),
            begun: false,
            lenient: Lenient::default(),
            invalid_utf8: 0,
            walk: Walk::new(),
            fill: Fill::default(),
        }
    }

    /// Takes the next piece of the file, of any length.
    ///
    /// # Errors
    /// [`ReadError`] with the byte of the whole file where reading ended; a file whose table would need more memory than
    /// 1.4 GB, and than 1.5 times its own length, is one.
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), ReadError> {
        self.take(piece, false)?;
        if self.enough <= self.text.len() { self.look(false) } else { Ok(()) }
    }

    /// The table, once there are no more pieces.
    ///
    /// # Errors
    /// As [`Scan::feed`]; a file that was cut off says so here.
    pub fn finish(mut self) -> Result<Table, ReadError> {
        self.take(&[], true)?;
        self.look(true)?;
        Ok(self.fill.finish(self.lenient, self.invalid_utf8))
    }

    fn take(&mut self, piece: &[u8], last: bool) -> Result<(), ReadError> {
        let joined;
        let mut bytes = piece;
        if !self.head.is_empty() {
            self.head.extend_from_slice(piece);
            joined = std::mem::take(&mut self.head);
            bytes = &joined;
        }
        if !self.begun {
            // Two bytes tell what is no JSON at all.
            if bytes.len() < 2 && !last {
                self.head = bytes.to_vec();
                return Ok(());
            }
            self.begun = true;
            crate::trace::read::encoding(bytes)?;
        }
        while !bytes.is_empty() {
            match str::from_utf8(bytes) {
                Ok(text) => {
                    self.text.push_str(text);
                    break;
                }
                Err(error) => {
                    let (valid, rest) = bytes.split_at(error.valid_up_to());
                    // What was just found valid is valid.
                    self.text.push_str(str::from_utf8(valid).unwrap_or_default());
                    let wrong = match error.error_len() {
                        None if !last => {
                            self.head = rest.to_vec();
                            break;
                        }
                        wrong => wrong.unwrap_or(rest.len()),
                    };
                    // As many marks as bytes, so that offsets stay true.
                    self.text.extend(std::iter::repeat_n('?', wrong));
                    self.invalid_utf8 += 1;
                    bytes = &rest[wrong..];
                }
            }
        }
        Ok(())
    }

    fn look(&mut self, last: bool) -> Result<(), ReadError> {
        let mut cursor = Cursor::within(&self.text, self.base, self.lenient);
        self.walk.walk(&mut cursor, last, &mut self.fill)?;
        self.lenient = cursor.lenient;
        let taken = cursor.at;
        self.base += taken;
        self.text.drain(..taken);
        let refused =
            |message: &str| Err(ReadError::Syntax { offset: self.base, message: message.to_owned() });
        if Scan::MOST_BYTES.max(self.base as u64 / 2 * 3) < self.fill.spent() {
            return refused(&format!(
                "event {}: more streams, threads, names or events up to here than 1.4 GB of memory hold",
                self.fill.n_events()
            ));
        }
        if Scan::MOST_OF_EVENT < self.text.len() {
            return refused(&format!("event {}: more than 256 MiB as one value", self.fill.n_events()));
        }
        // Where one event is longer than a piece, it is looked at only as often as its length doubles.
        self.enough = 2 * self.text.len();
        Ok(())
    }
}
