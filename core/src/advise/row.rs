//! Measured rows: what was sent in which way and how long it took, and the program that does the same.

use std::fmt;

use serde_json::{Map, Value};

use crate::machine::{Machine, object, whole};
use crate::ordered::CollectVec;
use crate::program::{AllocVia, BufferId, HostCost, Program, Space};
use crate::sim::{self, SimError};
use crate::units::{Bytes, Nanos};

/// One measured row.
///
/// A file of rows is a JSON object with a list `rows`. The fields of a row are those of the published table that ships with
/// the command:
///
/// | field | meaning | default |
/// |---|---|---|
/// | `tensors`, `bytes_each` | how many, of which size | required |
/// | `measured_ms` or `published_ms` | how long the timed call took | required |
/// | `id` or `label` | what the row is called, text or a number | its number |
/// | `pinned` | the source is page-locked already | `false` |
/// | `pin_call` | `pin_memory()` is part of the timed call | `false` |
/// | `copy` | a copy to the device is part of it | `true` |
/// | `non_blocking` | one wait at the end instead of one after each copy | `false` |
/// | `repeat_same` | the same source as in an untimed call before | `false` |
/// | `tensordict` | through a dictionary of tensors | `false` |
/// | `pin_threads` | threads that pin the leaves; 0 is the calling one | `null` |
///
/// `row`, `table` and `call` tell where in that table a row stands. Unknown fields are ignored and listed in [`Row::ignored`].
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the table above says what each is")]
pub struct Row {
    pub id: String,
    pub tensors: u64,
    pub bytes_each: u64,
    pub pinned: bool,
    pub pin_call: bool,
    pub copy: bool,
    pub non_blocking: bool,
    pub repeat_same: bool,
    pub tensordict: bool,
    pub pin_threads: Option<u32>,
    /// The measured time in milliseconds.
    pub ms: f64,
    /// Fields that mean nothing here, such as a misspelled one, whose default holds in its place.
    pub ignored: Vec<String>,
}

/// Why bytes are no list of rows.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowsError {
    /// The bytes are no JSON object with a list `rows`.
    Syntax(String),
    /// `schema_version` is there and not 1.
    Version(String),
    /// A row that cannot be.
    Row {
        /// Its number, counted from 1.
        row: usize,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// More than can be simulated again and again in reasonable time.
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: u64,
        /// How much is possible.
        most: u64,
    },
}

impl fmt::Display for RowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowsError::Syntax(text) => write!(f, "no file of rows: {text}"),
            RowsError::Version(text) => write!(f, "schema_version is {text}, only 1 is known"),
            RowsError::Row { row, field, message } => write!(f, "row {row}, field {field:?}: {message}"),
            RowsError::TooMuch { what, found, most } => {
                write!(f, "the rows send {found} {what} in all, at most {most} are simulated")
            }
        }
    }
}

crate::error::told!(RowsError);

const MOST_ROWS: usize = 1000;
const MOST_TENSORS: u64 = 200_000;
const MOST_BYTES: u64 = 1 << 40;
const MOST_THREADS: u64 = 256;
/// The fields of a row, and those by which the published table names its own.
const FIELDS: [&str; 16] = [
    "tensors",
    "bytes_each",
    "measured_ms",
    "published_ms",
    "id",
    "label",
    "pinned",
    "pin_call",
    "copy",
    "non_blocking",
    "repeat_same",
    "tensordict",
    "pin_threads",
    "row",
    "table",
    "call",
];
/// Milliseconds that a row may take.
const TIMES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// Reads a file of rows, with or without a byte order mark.
///
/// # Errors
/// [`RowsError`] with the first row and field that are wrong.
///
/// ```
/// use spanlift::advise::rows;
/// let file = br#"{"rows": [{"id": "one", "tensors": 1, "bytes_each": 4000000, "measured_ms": 0.46}]}"#;
/// assert_eq!(rows(file)?[0].ms, 0.46);
/// let file = br#"{"rows": [{"tensors": 1, "bytes_each": 8, "measured_ms": 1, "nonblocking": true}]}"#;
/// assert_eq!(rows(file)?[0].ignored, ["nonblocking"]);
/// let error = rows(br#"{"rows": [{"tensors": 1, "bytes_each": 0, "measured_ms": 1}]}"#).unwrap_err();
/// assert_eq!(error.to_string(), r#"row 1, field "bytes_each": 0 is no number between 1 and 1099511627776"#);
/// # Ok::<(), spanlift::advise::RowsError>(())
/// ```
pub fn rows(bytes: &[u8]) -> Result<Vec<Row>, RowsError> {
    let syntax = |message: &str| RowsError::Syntax(message.to_owned());
    let file = object(bytes).map_err(RowsError::Syntax)?;
    if let Some(version) = file.get("schema_version").filter(|v| v.as_i64() != Some(1)) {
        return Err(RowsError::Version(version.to_string()));
    }
    let Some(Value::Array(list)) = file.get("rows") else {
        return Err(syntax("a list `rows` is missing"));
    };
    if list.is_empty() {
        return Err(syntax("the list `rows` is empty"));
    }
    let too_much = |what, found, most| Err(RowsError::TooMuch { what, found, most });
    if MOST_ROWS < list.len() {
        return too_much("rows", list.len() as u64, MOST_ROWS as u64);
    }
    let rows = list.iter().zip(1..).map(|(row, number)| match row {
        Value::Object(fields) => read(fields, number),
        _ => Err(RowsError::Row { row: number, field: "rows", message: "it is no object".to_owned() }),
    });
    let rows = rows.try_collect_vec()?;
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let tensors = sum(|r| r.tensors);
    if MOST_TENSORS < tensors {
        return too_much("tensors", tensors, MOST_TENSORS);
    }
    let total = sum(|r| r.tensors.saturating_mul(r.bytes_each));
    if MOST_BYTES < total {
        return too_much("bytes", total, MOST_BYTES);
    }
    Ok(rows)
}

fn read(fields: &Map<String, Value>, number: usize) -> Result<Row, RowsError> {
    let wrong = |field, message: String| RowsError::Row { row: number, field, message };
    let given = |field: &str| fields.get(field).filter(|v| !v.is_null());
    let count = |field: &'static str, lo: u64, hi: u64| match given(field) {
        None => Err(wrong(field, "it is missing".to_owned())),
        Some(v) => whole(v, &format!("number between {lo} and {hi}"), lo, hi).map_err(|e| wrong(field, e)),
    };
    let flag = |field: &'static str, default: bool| match given(field) {
        None => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(v) => Err(wrong(field, format!("{v} is neither true nor false"))),
    };
    let time = ["measured_ms", "published_ms"].into_iter().find_map(|f| Some((f, given(f)?)));
    let ms = match time {
        None => return Err(wrong("measured_ms", "it is missing".to_owned())),
        Some((field, v)) => match v.as_f64() {
            Some(ms) if TIMES.contains(&ms) => ms,
            _ => return Err(wrong(field, format!("{v} is no time between 1e-6 and 1e9 ms"))),
        },
    };
    let id = match ["id", "label"].into_iter().find_map(|f| Some((f, given(f)?))) {
        None => format!("row {number}"),
        Some((_, Value::String(name))) => name.clone(),
        Some((_, name @ Value::Number(_))) => name.to_string(),
        Some((field, v)) => return Err(wrong(field, format!("{v} is no text"))),
    };
    let pin_threads = match given("pin_threads") {
        None => None,
        Some(_) => u32::try_from(count("pin_threads", 0, MOST_THREADS)?).ok(),
    };
    let row = Row {
        id,
        tensors: count("tensors", 1, MOST_TENSORS)?,
        bytes_each: count("bytes_each", 1, MOST_BYTES)?,
        pinned: flag("pinned", false)?,
        pin_call: flag("pin_call", false)?,
        copy: flag("copy", true)?,
        non_blocking: flag("non_blocking", false)?,
        repeat_same: flag("repeat_same", false)?,
        tensordict: flag("tensordict", false)?,
        pin_threads,
        ms,
        ignored: fields.keys().filter(|name| !FIELDS.contains(&name.as_str())).cloned().collect_vec(),
    };
    match row.clash() {
        Some((field, message)) => Err(wrong(field, message.to_owned())),
        None => Ok(row),
    }
}

/// Buffers of one tensor.
struct Leaf {
    source: BufferId,
    /// The page-locked copy that is made first, if one is.
    pinned: Option<BufferId>,
    device: Option<BufferId>,
}

impl Row {
    fn clash(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Row { copy: false, pin_call: false, .. } => {
                Some(("copy", "neither a copy nor pin_memory() is timed"))
            }
            Row { pinned: true, pin_call: true, .. } => Some(("pin_call", "the source is pinned already")),
            Row { pin_threads: Some(_), pin_call: false, .. } => Some(("pin_threads", "nothing is pinned")),
            _ => None,
        }
    }

    /// What no row of a file has, for one that was built.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let count = |field, n: u64, most| {
            let is_one = (1..=most).contains(&n);
            (!is_one).then(|| (field, format!("{n} is no number between 1 and {most}")))
        };
        let ms = self.ms;
        let time = (!TIMES.contains(&ms)).then(|| ("ms", format!("{ms} is no time between 1e-6 and 1e9 ms")));
        count("tensors", self.tensors, MOST_TENSORS)
            .or_else(|| count("bytes_each", self.bytes_each, MOST_BYTES))
            .or(time)
            .or_else(|| self.clash().map(|(field, why)| (field, why.to_owned())))
    }

    /// The program that does what the row measured, between the marks `begin` and `end`.
    ///
    /// Sources are written before the clock starts, one after the other, so that as much of them is in the cache as a
    /// loop over all of them leaves there. `pin_memory()` finds a cached block. With `repeat_same` one untimed call comes
    /// first.
    pub fn program(&self) -> Program {
        let mut p = Program::new();
        p.title = self.id.clone();
        let leaves: Vec<Leaf> = (0..self.tensors).map(|i| self.declare(&mut p, i)).collect_vec();
        for leaf in &leaves {
            p.host_write(leaf.source, None);
        }
        if self.repeat_same {
            self.call(&mut p, &leaves, "warm ");
        }
        p.mark("begin");
        self.call(&mut p, &leaves, "");
        p.mark("end");
        p
    }

    fn declare(&self, p: &mut Program, i: u64) -> Leaf {
        let size = Bytes(self.bytes_each);
        let pool = |p: &mut Program, name: String| {
            p.alloc(Space::Pinned, &name, size).pool(AllocVia::PinnedPool, None).declare()
        };
        let source = match self.pinned {
            true => pool(p, format!("x{i}")),
            false => p.pageable(&format!("x{i}"), size),
        };
        Leaf {
            source,
            pinned: self.pin_call.then(|| pool(p, format!("p{i}"))),
            device: self.copy.then(|| p.device(0, &format!("d{i}"), size)),
        }
    }

    /// One call over all leaves; names of threads and channels begin with `name`.
    fn call(&self, p: &mut Program, leaves: &[Leaf], name: &str) {
        let n_threads = self.pin_threads.unwrap_or(0);
        if n_threads == 0 {
            for leaf in leaves {
                if self.tensordict {
                    p.host_cost(HostCost::DictLeaf);
                }
                pin(p, leaf);
                self.send(p, leaf);
            }
        } else {
            self.pin_beside(p, leaves, name, n_threads);
        }
        if self.copy && (self.non_blocking || n_threads > 0) {
            let stream = p.legacy(0);
            p.sync(stream);
        }
    }

    fn pin_beside(&self, p: &mut Program, leaves: &[Leaf], name: &str, n_threads: u32) {
        if self.tensordict {
            leaves.iter().for_each(|_| {
                p.host_cost(HostCost::DictLeaf);
            });
        }
        let threads: Vec<_> = (0..n_threads).map(|t| p.spawn(&format!("{name}pin{t}"))).collect_vec();
        let mut ready = Vec::with_capacity(leaves.len());
        for ((i, leaf), &thread) in leaves.iter().enumerate().zip(threads.iter().cycle()) {
            let channel = p.channel(&format!("{name}ready{i}"));
            p.by(thread, |p| {
                pin(p, leaf);
                p.signal(channel);
            });
            ready.push(channel);
        }
        for (leaf, channel) in leaves.iter().zip(ready) {
            p.await_signal(channel);
            self.send(p, leaf);
        }
    }

    fn send(&self, p: &mut Program, leaf: &Leaf) {
        let Some(device) = leaf.device else { return };
        let stream = p.legacy(0);
        p.host_cost(HostCost::FrameworkTo);
        p.copy(device, leaf.pinned.unwrap_or(leaf.source)).on(stream);
        if !self.non_blocking && self.pin_threads.is_none_or(|n| n == 0) {
            p.sync(stream);
        }
    }

    /// How long a machine takes for what the row measured.
    ///
    /// # Errors
    /// As [`sim::run`].
    pub fn time(&self, machine: &Machine) -> Result<Nanos, SimError> {
        timed(&self.program(), machine)
    }
}

/// The time between the marks of a program of this module.
pub(super) fn timed(program: &Program, machine: &Machine) -> Result<Nanos, SimError> {
    let run = sim::run(program, machine)?;
    Ok(run.between("begin", "end").unwrap_or(run.end))
}

fn pin(p: &mut Program, leaf: &Leaf) {
    if let Some(pinned) = leaf.pinned {
        p.host_cost(HostCost::PinOverhead);
        p.host_copy(pinned, leaf.source);
    }
}
