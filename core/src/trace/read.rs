//! Reads Chrome Trace Event JSON: the PyTorch profiler's (Kineto) of every generation, and our own.

pub(super) mod event;
use std::fmt;

mod join;
pub(super) mod names;
mod own;
pub(super) mod pieces;
mod place;
mod reading;
pub(super) mod scan;
mod shapes;
pub(super) mod walk;

use std::borrow::Cow;

use event::Fields;
pub(super) use event::members;
use own::Own;
use place::State;
pub use reading::{Finished, Reading, arguments_at, left_in_file};
use scan::{Cursor, Lenient, Value};
use walk::{Sink, Walk};

use super::time::{self, Unusable};
use super::{Source, Trace};

/// Why bytes could not be read as a trace.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are no trace.
    Syntax {
        /// Where reading ended.
        offset: usize,
        /// What was found or missing there.
        message: String,
    },
    /// The text ends too early: it was cut off.
    Truncated {
        /// The length of the text.
        offset: usize,
        /// How many events of it are whole.
        events: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Syntax { offset, message } => write!(f, "byte {offset}: {message}"),
            ReadError::Truncated { offset, events } => write!(
                f,
                "byte {offset}: the text ends here, after {events} whole event{}",
                if *events == 1 { "" } else { "s" }
            ),
        }
    }
}

crate::error::told!(ReadError);

/// Reads a trace in Chrome Trace Event JSON; compressed files have to be unpacked first.
///
/// One pass over the text; no tree of the whole is ever made. What matters, by where it stands:
///
/// | in the file | in the trace |
/// |---|---|
/// | `X` of category `kernel`, `gpu_memcpy`, `gpu_memset`, `mtia_ccp_events` (any case, 2021 names too) | a slice on [`LaneKind::Stream`](super::LaneKind) by (`args.device`, `args.stream`); `pid` and `tid` only stand in where those are absent |
/// | `X` of `cuda_sync` and `cuda_event` | a slice on a lane of its own beside the stream: such a row is no work |
/// | other `X` | a slice on the lane of its (`pid`, `tid`), which is a host lane when host calls or operators lie there |
/// | `B`, `E` | a slice from the one to the other |
/// | `i` | an instant; so is an event of a phase that is not known |
/// | `C` | one counter for each member of `args` |
/// | `M` | names of processes and threads, the last record of each counting |
/// | `s`, `t`, `f` | arrows between the slices around them; launches are joined on `args.correlation` instead |
/// | top-level object `spanlift` | ours: lanes, kinds, arrows and the program are taken as they were written |
/// | other top-level members | [`Import::header`](super::Import), as text |
///
/// Times are taken from the digits, never through a float. `displayTimeUnit` changes nothing, `baseTimeNanoseconds` is
/// kept and not added.
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
    let mut reader = Reader::new(None, false);
    let mut cursor = Cursor::new(&text);
    Walk::new().walk(&mut cursor, true, &mut reader)?;
    if let Some((own, true)) = reader.found.own.take() {
        // Ours came after the events, where another tool put it: once more, knowing it.
        reader = Reader::new(Some(own), false);
        cursor = Cursor::new(&text);
        Walk::new().walk(&mut cursor, true, &mut reader)?;
    }
    Ok(reader.finish(cursor.lenient, invalid))
}

/// Nanoseconds of a member that gives microseconds, as a number or in quotes.
pub(super) fn nanos(value: Option<Value<'_>>) -> Result<i64, Unusable> {
    match value {
        Some(Value::Number(text)) => time::nanos(text),
        Some(Value::Text(quoted)) => time::nanos(quoted.text().trim()),
        _ => Err(Unusable::NotANumber),
    }
}

/// The integer under `name` among the arguments of a slice, as their JSON text.
pub(crate) fn integer_argument(args: &str, name: &str) -> Option<i64> {
    let mut found = None;
    if args.starts_with('{') {
        members(args, |key, value| {
            if key.raw == name {
                found = match value {
                    Value::Number(text) => time::integer(text),
                    Value::Text(quoted) => quoted.text().trim().parse().ok(),
                    _ => None,
                };
            }
        });
    }
    found
}

/// Refuses what the first two bytes show to be no UTF-8 text.
pub(super) fn encoding(bytes: &[u8]) -> Result<(), ReadError> {
    let refuse = |message: &str| Err(ReadError::Syntax { offset: 0, message: message.to_owned() });
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] => {
            refuse("this looks like UTF-16, UTF-8 is needed")
        }
        [0x1f, 0x8b, ..] => refuse("this is gzip data, which has to be unpacked first"),
        _ => Ok(()),
    }
}

/// The bytes as text, invalid ones replaced by `?` so that offsets stay true, and how many runs of them there were.
fn utf8(bytes: &[u8]) -> Result<(Cow<'_, str>, u64), ReadError> {
    encoding(bytes)?;
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

struct Reader {
    state: State,
    found: Found,
}

impl Reader {
    fn new(own: Option<Own>, leaves: bool) -> Reader {
        Reader { state: State::new(own, leaves), found: Found::default() }
    }

    fn finish(self, lenient: Lenient, invalid_utf8: u64) -> Trace {
        let Reader { mut state, found } = self;
        state.problems("invalid_utf8", invalid_utf8);
        for (name, count) in lenient.problems() {
            state.problems(name, count);
        }
        let own = state.own.take();
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

impl Sink for Reader {
    fn event(&mut self, fields: &Fields<'_>) {
        self.state.event(fields);
    }

    fn no_object(&mut self) {
        self.state.no_object();
    }

    fn list(&mut self, again: bool) {
        self.found.events = true;
        if again {
            // As with any name that comes twice, the last one counts.
            self.state = State::new(self.state.own.take(), self.state.leaves);
            self.state.problem("duplicate_key");
        }
    }

    fn problem(&mut self, name: &'static str) {
        self.state.problem(name);
    }

    fn n_events(&self) -> u64 {
        self.state.n_events()
    }

    fn member(&mut self, key: &str, value: Value<'_>, text: &str, offset: usize) -> Result<(), ReadError> {
        match (key, value) {
            ("spanlift", Value::Container(text)) => {
                if let Some(own) = own::read(text, offset)?
                    && self.state.own.is_none()
                {
                    match self.found.events {
                        true => self.found.own = Some((own, true)),
                        // Of a file of our own nothing is left in it.
                        false => (self.state.own, self.state.leaves) = (Some(own), false),
                    }
                }
                return Ok(());
            }
            ("baseTimeNanoseconds", Value::Number(text)) => self.found.base_time_ns = time::integer(text),
            ("traceName", Value::Text(text)) => self.found.title = text.text().into_owned(),
            ("schemaVersion" | "deviceProperties" | "computeProperties", _) => self.found.kineto = true,
            _ => {}
        }
        self.found.header.push((key.to_owned(), text.to_owned()));
        Ok(())
    }
}
