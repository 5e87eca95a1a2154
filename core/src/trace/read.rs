//! Reads Chrome Trace Event JSON: the PyTorch profiler's (Kineto) of every generation, and our own.
//!
//! One pass over the text builds the columns; no tree of the whole is ever made. What matters, by where it stands:
//!
//! | in the file | in the trace |
//! |---|---|
//! | `X` of category `kernel`, `gpu_memcpy`, `gpu_memset`, `mtia_ccp_events` (any case, 2021 names too) | a slice on [`LaneKind::Stream`](super::LaneKind) by (`args.device`, `args.stream`); `pid` and `tid` only stand in where those are absent |
//! | `X` of `cuda_sync` and `cuda_event` | a slice on a lane of its own beside the stream: such a row is no work |
//! | other `X` | a slice on the lane of its (`pid`, `tid`), which is a host lane when host calls or operators lie there |
//! | `B`, `E` | a slice from the one to the other |
//! | `i` | an instant; so is an event of a phase that is not known |
//! | `C` | one counter for each member of `args` |
//! | `M` | names of processes and threads, the last record of each counting |
//! | `s`, `t`, `f` | arrows between the slices around them; launches are joined on `args.correlation` instead |
//! | top-level object `spanlift` | ours: lanes, kinds, arrows and the program are taken as they were written |
//! | other top-level members | [`Import::header`](super::Import), as text |
//!
//! Times are taken from the digits, never through a float. `displayTimeUnit` changes nothing, `baseTimeNanoseconds` is
//! kept and not added.

mod event;
mod join;
mod names;
mod own;
mod place;
pub(super) mod scan;

use std::borrow::Cow;

pub(super) use event::members;
use own::Own;
use place::State;
use scan::{Cursor, Value};

use super::{Source, Trace};

/// Why bytes could not be read as a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are no trace.
    #[error("byte {offset}: {message}")]
    Syntax {
        /// Where reading ended.
        offset: usize,
        /// What was found or missing there.
        message: String,
    },
    /// The text ends too early: it was cut off.
    #[error("byte {offset}: the text ends here, after {events} whole events")]
    Truncated {
        /// The length of the text.
        offset: usize,
        /// How many events of it are whole.
        events: u64,
    },
}

/// Reads a trace in Chrome Trace Event JSON; compressed files have to be unpacked first.
///
/// No event is lost: each is a slice, an instant, a sample, a name or an arrow, or is counted in
/// [`Import`](super::Import) as dropped, with the reason.
///
/// # Errors
/// [`ReadError`] with the byte where reading ended: an empty file, no JSON, no list of events, a text that was cut off,
/// or an object `spanlift` of a version that is not known.
///
/// # Cost
/// Linear in the text; the memory is that of the trace, mostly the arguments' text.
///
/// # Examples
/// ```
/// let trace = spanlift::trace::read(br#"[{"ph": "X", "name": "work", "pid": 1, "tid": 1, "ts": 5, "dur": 0.25}]"#)?;
/// assert_eq!(trace.slices.end, [5250]);
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
pub fn read(bytes: &[u8]) -> Result<Trace, ReadError> {
    let (text, invalid) = utf8(bytes)?;
    let mut reader = Reader { cursor: Cursor::new(&text), state: State::new(None), found: Found::default() };
    reader.file(None)?;
    let own = match reader.found.own.take() {
        // Ours came after the events, where another tool put it: once more, knowing it.
        Some((own, true)) => {
            reader = Reader { cursor: Cursor::new(&text), state: State::new(None), found: Found::default() };
            reader.file(Some(own))?;
            reader.state.own.take()
        }
        _ => reader.state.own.take(),
    };
    Ok(reader.finish(own, invalid))
}

/// The bytes as text, invalid ones replaced by `?` so that offsets stay true, and how many runs of them there were.
fn utf8(bytes: &[u8]) -> Result<(Cow<'_, str>, u64), ReadError> {
    let refuse = |message: &str| Err(ReadError::Syntax { offset: 0, message: message.to_owned() });
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] => {
            return refuse("this looks like UTF-16, UTF-8 is needed");
        }
        [0x1f, 0x8b, ..] => return refuse("this is gzip data, which has to be unpacked first"),
        _ => {}
    }
    if let Ok(text) = str::from_utf8(bytes) {
        return Ok((text.into(), 0));
    }
    let mut text = String::with_capacity(bytes.len());
    let mut invalid = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
        invalid += u64::from(!chunk.invalid().is_empty());
    }
    Ok((text.into(), invalid))
}

/// What stands beside the events.
#[derive(Default)]
struct Found {
    /// There was a list of events.
    events: bool,
    /// Ours, and whether it came after the events.
    own: Option<(Own, bool)>,
    base_time_ns: Option<i64>,
    header: Vec<(String, String)>,
    title: String,
    kineto: bool,
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    state: State,
    found: Found,
}

impl Reader<'_> {
    fn file(&mut self, own: Option<Own>) -> Result<(), ReadError> {
        self.state = State::new(own);
        if self.cursor.peek() == 0xef && self.cursor.starts_with("\u{feff}") {
            self.cursor.at += '\u{feff}'.len_utf8();
        }
        match self.cursor.peek() {
            b'{' => self.object()?,
            b'[' => {
                self.found.events = true;
                self.events(true)?;
            }
            _ if self.cursor.is_at_end() => {
                return Err(ReadError::Syntax {
                    offset: self.cursor.at,
                    message: "the file is empty".to_owned(),
                });
            }
            _ => return Err(self.cursor.error("an object with traceEvents, or a list of events")),
        }
        if !self.found.events {
            let message = "the object has no list traceEvents".to_owned();
            return Err(ReadError::Syntax { offset: self.cursor.at, message });
        }
        self.cursor.peek();
        if !self.cursor.is_at_end() {
            self.state.problem("trailing_text");
        }
        Ok(())
    }

    fn object(&mut self) -> Result<(), ReadError> {
        self.cursor.at += 1;
        if self.cursor.take(b'}') {
            return Ok(());
        }
        loop {
            self.member().map_err(|e| self.cut_off(e))?;
            if !self.cursor.another(b'}').map_err(|e| self.cut_off(e))? {
                return Ok(());
            }
        }
    }

    fn member(&mut self) -> Result<(), ReadError> {
        let key = self.cursor.key()?.text();
        let at_value = {
            self.cursor.peek();
            self.cursor.at
        };
        if key == "traceEvents" && self.cursor.peek() == b'[' {
            if self.found.events {
                // As with any name that comes twice, the last one counts.
                self.state = State::new(self.state.own.take());
                self.state.problem("duplicate_key");
            }
            self.found.events = true;
            return self.events(false);
        }
        let value = self.cursor.value()?;
        match (&*key, value) {
            ("traceEvents", _) => {
                self.cursor.at = at_value;
                return Err(self.cursor.error("a list of events"));
            }
            ("spanlift", Value::Container(text)) => {
                if let Some(own) = own::read(text, at_value)?
                    && self.state.own.is_none()
                {
                    match self.found.events {
                        true => self.found.own = Some((own, true)),
                        false => self.state.own = Some(own),
                    }
                }
                return Ok(());
            }
            ("baseTimeNanoseconds", Value::Number(text)) => {
                self.found.base_time_ns = super::time::integer(text)
            }
            ("traceName", Value::Text(text)) => self.found.title = text.text().into_owned(),
            ("schemaVersion" | "deviceProperties" | "computeProperties", _) => self.found.kineto = true,
            _ => {}
        }
        let text = self.cursor.since(at_value).to_owned();
        self.found.header.push((key.into_owned(), text));
        Ok(())
    }

    /// The list of events whose opening bracket is next.
    fn events(&mut self, bare: bool) -> Result<(), ReadError> {
        self.cursor.at += 1;
        if self.cursor.take(b']') {
            return Ok(());
        }
        loop {
            if bare && self.cursor.peek() == 0 && self.cursor.is_at_end() {
                // In the bare list the closing bracket is optional, so that a crashed program leaves a valid file.
                self.state.problem("truncated");
                return Ok(());
            }
            self.event().map_err(|e| self.cut_off(e))?;
            self.cursor.peek();
            if bare && self.cursor.is_at_end() {
                continue;
            }
            if !self.cursor.another(b']').map_err(|e| self.cut_off(e))? {
                return Ok(());
            }
        }
    }

    fn event(&mut self) -> Result<(), ReadError> {
        if self.cursor.peek() != b'{' {
            self.cursor.value()?;
            self.state.no_object();
            return Ok(());
        }
        let fields = event::fields(&mut self.cursor)?;
        self.state.event(&fields);
        Ok(())
    }

    /// An error at the end of the text is told as what it is.
    fn cut_off(&self, error: ReadError) -> ReadError {
        match error {
            ReadError::Syntax { .. } if self.cursor.is_at_end() => {
                ReadError::Truncated { offset: self.cursor.at, events: self.state.n_events() }
            }
            other => other,
        }
    }

    fn finish(self, own: Option<Own>, invalid_utf8: u64) -> Trace {
        let Reader { cursor, mut state, found } = self;
        for (name, count) in [
            ("invalid_utf8", invalid_utf8),
            ("non_finite_literal", cursor.lenient.non_finite_literal),
            ("control_character", cursor.lenient.control_character),
            ("unescaped_quote", cursor.lenient.unescaped_quote),
        ] {
            state.problems(name, count);
        }
        let mut trace = state.finish(own.as_ref());
        trace.import.base_time_ns = found.base_time_ns;
        match own {
            Some(own) => own.restore(&mut trace),
            None => {
                trace.title = found.title;
                let tool = if found.kineto { "kineto" } else { "chrome" };
                trace.source = Source::Imported { tool: tool.to_owned() };
                trace.import.header = found.header.into_iter().collect();
            }
        }
        trace
    }
}
