//! Takes a file in pieces: holds back what is not whole yet, and never more of the text than that.

use super::ReadError;
use super::scan::{Cursor, Lenient};
use super::walk::{Sink, Walk};

/// The text of a file that comes in pieces, and how far it has been walked.
#[derive(Debug)]
pub(in crate::trace) struct Pieces {
    /// Text that is not taken yet.
    text: String,
    /// How much of the whole stands before it.
    base: usize,
    /// The text is looked at again when it is this long.
    enough: usize,
    /// Bytes before the text that are no whole character yet, and the head of the file.
    head: Vec<u8>,
    begun: bool,
    pub(in crate::trace) lenient: Lenient,
    pub(in crate::trace) invalid_utf8: u64,
    walk: Walk,
}

impl Pieces {
    /// Bytes of one event, or of one member beside the events, at most.
    const MOST_OF_EVENT: usize = 256 << 20;

    /// Ready for the first piece.
    pub(in crate::trace) fn new() -> Pieces {
        Pieces {
            text: String::new(),
            base: 0,
            enough: 1,
            head: Vec::new(),
            begun: false,
            lenient: Lenient::default(),
            invalid_utf8: 0,
            walk: Walk::new(),
        }
    }

    /// How much of the file has been walked.
    pub(in crate::trace) fn base(&self) -> usize {
        self.base
    }

    /// Takes the next piece, of any length; says whether the sink has anything new.
    ///
    /// # Errors
    /// [`ReadError`] with the byte of the whole file where reading ended.
    pub(in crate::trace) fn feed(&mut self, piece: &[u8], sink: &mut impl Sink) -> Result<bool, ReadError> {
        self.take(piece, false)?;
        let looks = self.enough <= self.text.len();
        if looks {
            self.look(false, sink)?;
        }
        Ok(looks)
    }

    /// There are no more pieces.
    ///
    /// # Errors
    /// As [`Pieces::feed`]; a file that was cut off says so here.
    pub(in crate::trace) fn end(&mut self, sink: &mut impl Sink) -> Result<(), ReadError> {
        self.take(&[], true)?;
        self.look(true, sink)
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
            super::encoding(bytes)?;
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

    fn look(&mut self, last: bool, sink: &mut impl Sink) -> Result<(), ReadError> {
        let mut cursor = Cursor::within(&self.text, self.base, self.lenient);
        self.walk.walk(&mut cursor, last, sink)?;
        self.lenient = cursor.lenient;
        let taken = cursor.at;
        self.base += taken;
        self.text.drain(..taken);
        if Pieces::MOST_OF_EVENT < self.text.len() {
            let message = format!("event {}: more than 256 MiB as one value", sink.n_events());
            return Err(ReadError::Syntax { offset: self.base, message });
        }
        // Where one event is longer than a piece, it is looked at only as often as its length doubles.
        self.enough = 2 * self.text.len();
        Ok(())
    }
}
