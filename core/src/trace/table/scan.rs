//! A table of a file that comes in pieces.

use super::Table;
use super::fill::Fill;
use crate::trace::read::ReadError;
use crate::trace::read::pieces::Pieces;
use crate::trace::read::walk::Sink;

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
    pieces: Pieces,
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

    /// Bytes of a piece that are a good size to feed: they stay in a processor's cache.
    pub const PIECE: usize = 256 << 10;

    /// Ready for the first piece.
    pub fn new() -> Scan {
        Scan { pieces: Pieces::new(), fill: Fill::default() }
    }

    /// Takes the next piece of the file, of any length.
    ///
    /// # Errors
    /// [`ReadError`] with the byte of the whole file where reading ended; a file whose table would need more memory than
    /// 1.4 GB, and than 1.5 times its own length, is one.
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), ReadError> {
        if self.pieces.feed(piece, &mut self.fill)? { self.within_memory() } else { Ok(()) }
    }

    /// The table, once there are no more pieces.
    ///
    /// # Errors
    /// As [`Scan::feed`]; a file that was cut off says so here.
    pub fn finish(mut self) -> Result<Table, ReadError> {
        self.pieces.end(&mut self.fill)?;
        self.within_memory()?;
        Ok(self.fill.finish(self.pieces.lenient, self.pieces.invalid_utf8))
    }

    fn within_memory(&self) -> Result<(), ReadError> {
        let offset = self.pieces.base();
        if self.fill.spent() <= Scan::MOST_BYTES.max(offset as u64 / 2 * 3) {
            return Ok(());
        }
        let message = format!(
            "event {}: more streams, threads, names or events up to here than 1.4 GB of memory hold",
            self.fill.n_events()
        );
        Err(ReadError::Syntax { offset, message })
    }
}
