//! A stack machine for pickles that can only build values: no opcode of it names, imports or calls anything.
//!
//! Containers are kept once however often they are referred to, so that a file is never larger in memory than a small
//! multiple of itself. Nothing here recurses.
//!
//! | opcodes | what becomes of them |
//! |---|---|
//! | `PROTO FRAME STOP MARK`, the memo's, containers, text, bytes, numbers, constants | values |
//! | `GLOBAL REDUCE BUILD INST OBJ NEWOBJ PERSID EXT` and their kin, `NEXT_BUFFER` | refused: they would run code or fetch something |
//! | any other | refused: no snapshot has it |

use std::cell::Cell;

use super::ReadError;
use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::{StrId, Strings};

/// Memory that the values of one file may take, as they are counted here.
const MOST_BYTES: usize = 640 << 20;
/// What a new text is counted as: itself and its place in the table.
const TEXT_BYTES: usize = 96;

/// A value in eight bytes: a tag above, a number or the index of what it refers to below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Value(u64);

/// A [`Value`], taken apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    None,
    Bool(bool),
    Int(i64),
    /// An integer beyond signed 64 bits.
    Huge,
    Float(f64),
    Text(StrId),
    Bytes,
    List(Node),
    Tuple(Node),
    Dict(Node),
}

/// A container's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node(u32);

impl Node {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

const TAG: u32 = 60;
const SMALL: i64 = 1 << (TAG - 1);

#[rustfmt::skip]
mod tag {
    pub(super) const INT: u64 = 0;
    pub(super) const WIDE: u64 = 1;
    pub(super) const FLOAT: u64 = 2;
    pub(super) const TEXT: u64 = 3;
    pub(super) const LIST: u64 = 4;
    pub(super) const TUPLE: u64 = 5;
    pub(super) const DICT: u64 = 6;
    pub(super) const WORD: u64 = 7;
}

/// Values without a number: `None`, `False`, `True`, bytes, an integer that is too large, and no value at all.
const WORDS: [Kind; 5] = [Kind::None, Kind::Bool(false), Kind::Bool(true), Kind::Bytes, Kind::Huge];
const NONE: Value = Value::new(tag::WORD, 0);
const FALSE: Value = Value::new(tag::WORD, 1);
const TRUE: Value = Value::new(tag::WORD, 2);
const BYTES: Value = Value::new(tag::WORD, 3);
const HUGE: Value = Value::new(tag::WORD, 4);
const ABSENT: Value = Value::new(tag::WORD, 5);

impl Value {
    const fn new(tag: u64, payload: u64) -> Value {
        Value(tag << TAG | payload)
    }
}

/// A run of items that one opcode put into a container, and the run before it.
#[derive(Debug, Clone, Copy)]
struct Run {
    from: u32,
    len: u32,
    /// The index of the keys in `shapes`, for dicts.
    shape: u32,
    before: u32,
}

const NO_RUN: u32 = u32::MAX;

/// The value of a file, and everything that it refers to.
#[derive(Debug)]
pub(super) struct Pickle {
    pub strings: Strings,
    pub root: Value,
    pub protocol: u8,
    /// Bytes behind the end of the pickle.
    pub trailing: usize,
    /// Texts that were no UTF-8.
    pub invalid_utf8: u64,
    items: Vec<Value>,
    runs: Vec<Run>,
    /// The last run of each container.
    nodes: Vec<u32>,
    /// Where in the file each container was made.
    begins: Vec<u32>,
    shapes: Vec<Box<[Value]>>,
    wide: Vec<i64>,
    floats: Vec<f64>,
    /// Runs that were looked at; see [`Pickle::is_tiring`].
    looked_at: Cell<u64>,
}

impl Pickle {
    /// Whether the same containers were looked through so often that it is no honest file: one that was filled item by
    /// item a million times, and then stands for every event.
    pub(super) fn is_tiring(&self) -> bool {
        // Each dict is asked for a dozen keys, and holds its items in one run.
        10_000_000 + 64 * self.runs.len() as u64 <= self.looked_at.get()
    }

    /// Notes that a run of so many keys was looked through; eight cost about as much as finding the run.
    fn look(&self, keys: usize) {
        self.looked_at.set(self.looked_at.get() + 1 + keys as u64 / 8);
    }

    pub(super) fn kind(&self, value: Value) -> Kind {
        let payload = value.0 & ((1 << TAG) - 1);
        // Every payload but a number's was made from an index of 32 bits.
        let index = u32::try_from(payload).unwrap_or(u32::MAX);
        match value.0 >> TAG {
            tag::INT => Kind::Int((value.0 << 4).cast_signed() >> 4),
            tag::WIDE => Kind::Int(self.wide[index as usize]),
            tag::FLOAT => Kind::Float(self.floats[index as usize]),
            tag::TEXT => Kind::Text(StrId::from_index(index)),
            tag::LIST => Kind::List(Node(index)),
            tag::TUPLE => Kind::Tuple(Node(index)),
            tag::DICT => Kind::Dict(Node(index)),
            _ => WORDS.get(index as usize).copied().unwrap_or(Kind::None),
        }
    }

    /// How many containers there are.
    pub(super) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The byte of the file at which a container was made.
    pub(super) fn begin(&self, node: Node) -> usize {
        self.begins[node.index()] as usize
    }

    /// The items of a list or tuple, in order, as runs.
    pub(super) fn runs(&self, node: Node) -> Vec<&[Value]> {
        let mut found = Vec::new();
        let mut at = self.nodes[node.index()];
        while let Some(run) = self.runs.get(at as usize) {
            self.look(0);
            found.push(self.items_of(run));
            at = run.before;
        }
        found.reverse();
        found
    }

    /// The items of a list or tuple, in order.
    pub(super) fn items(&self, node: Node) -> impl Iterator<Item = Value> + '_ {
        self.runs(node).into_iter().flatten().copied()
    }

    /// How many items a list or tuple has.
    pub(super) fn len(&self, node: Node) -> usize {
        self.runs(node).iter().map(|run| run.len()).sum()
    }

    /// What a dict has for a key; what came last counts.
    pub(super) fn get(&self, node: Node, key: Value) -> Option<Value> {
        let mut at = self.nodes[node.index()];
        while let Some(run) = self.runs.get(at as usize) {
            self.look(run.len as usize);
            if let Some(nth) = self.shapes[run.shape as usize].iter().rposition(|k| *k == key) {
                return Some(self.items_of(run)[nth]);
            }
            at = run.before;
        }
        None
    }

    /// The keys and values of a dict in the order in which they came.
    pub(super) fn entries(&self, node: Node) -> Vec<(Value, Value)> {
        let mut runs = Vec::new();
        let mut at = self.nodes[node.index()];
        while let Some(run) = self.runs.get(at as usize) {
            runs.push(run);
            at = run.before;
        }
        let pairs = runs.iter().rev().flat_map(|run| {
            self.shapes[run.shape as usize].iter().copied().zip(self.items_of(run).iter().copied())
        });
        pairs.collect_vec()
    }

    /// The key for a text, where any dict could have it.
    pub(super) fn key(&self, text: &str) -> Option<Value> {
        let id = self.strings.find(text)?;
        Some(Value::new(tag::TEXT, id.index() as u64))
    }

    fn items_of(&self, run: &Run) -> &[Value] {
        &self.items[run.from as usize..run.from as usize + run.len as usize]
    }
}

/// Runs a pickle.
///
/// # Errors
/// [`ReadError::Pickle`] with the byte and the opcode.
///
/// # Cost
/// Linear in the bytes.
pub(super) fn load(bytes: &[u8]) -> Result<Pickle, ReadError> {
    let mut machine = Machine {
        bytes,
        at: 0,
        opcode: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        known_shapes: BTreeMap::new(),
        recent: [0; RECENT],
        spent_on_texts: 0,
        made: Pickle {
            strings: Strings::default(),
            root: NONE,
            protocol: 0,
            trailing: 0,
            invalid_utf8: 0,
            items: Vec::new(),
            runs: Vec::new(),
            nodes: Vec::new(),
            begins: Vec::new(),
            shapes: Vec::new(),
            wide: Vec::new(),
            floats: Vec::new(),
            looked_at: Cell::new(0),
        },
    };
    machine.run()?;
    Ok(machine.made)
}

/// Shapes that are tried before the map is asked.
const RECENT: usize = 4;

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the opcode that runs stands.
    opcode: usize,
    stack: Vec<Value>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: Vec<Value>,
    known_shapes: BTreeMap<Box<[Value]>, u32>,
    recent: [u32; RECENT],
    spent_on_texts: usize,
    made: Pickle,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<(), ReadError> {
        loop {
            self.opcode = self.at;
            // Every 64 KiB of the file, what was made is held against the limit; no opcode makes much more than it is
            // long, and those that could are checked on their own.
            if self.opcode & 0xffff == 0 {
                self.check_spent(0)?;
            }
            let opcode = self.byte()?;
            match opcode {
                0x80 => self.made.protocol = self.protocol()?,
                0x95 => {
                    let n = self.length(8)?;
                    self.check_left(n)?;
                }
                b'.' => return self.stop(),
                b'(' => self.marks.push(self.stack.len()),
                b'N' => self.stack.push(NONE),
                0x88 => self.stack.push(TRUE),
                0x89 => self.stack.push(FALSE),
                b'J' => {
                    let number = i32::from_le_bytes(self.array()?);
                    self.int(i64::from(number))?;
                }
                b'K' => {
                    let number = self.byte()?;
                    self.int(i64::from(number))?;
                }
                b'M' => {
                    let number = u16::from_le_bytes(self.array()?);
                    self.int(i64::from(number))?;
                }
                0x8a => {
                    let n = self.length(1)?;
                    self.long(n)?;
                }
                b'G' => {
                    let number = f64::from_be_bytes(self.array()?);
                    let index = self.index(self.made.floats.len())?;
                    self.made.floats.push(number);
                    self.stack.push(Value::new(tag::FLOAT, index.into()));
                }
                0x8c => self.text(1)?,
                b'X' => self.text(4)?,
                0x8d => self.text(8)?,
                b'C' => self.opaque(1)?,
                b'B' => self.opaque(4)?,
                b'}' => self.container(tag::DICT)?,
                b']' => self.container(tag::LIST)?,
                b')' => self.tuple(0)?,
                0x85..=0x87 => self.tuple(usize::from(opcode - 0x84))?,
                b't' => {
                    let n = self.above_mark()?;
                    self.marks.pop();
                    self.tuple(n)?;
                }
                b'a' => self.append(1)?,
                b'e' => {
                    let n = self.above_mark()?;
                    self.marks.pop();
                    self.append(n)?;
                }
                b's' => self.set(2)?,
                b'u' => {
                    let n = self.above_mark()?;
                    self.marks.pop();
                    self.set(n)?;
                }
                0x94 => {
                    let top = self.top()?;
                    self.memo.push(top);
                }
                b'q' => {
                    let index = self.length(1)?;
                    self.put(index)?;
                }
                b'r' => {
                    let index = self.length(4)?;
                    self.put(index)?;
                }
                b'h' => {
                    let index = self.length(1)?;
                    self.fetch(index)?;
                }
                b'j' => {
                    let index = self.length(4)?;
                    self.fetch(index)?;
                }
                other => return Err(self.refused(other)),
            }
        }
    }

    fn stop(&mut self) -> Result<(), ReadError> {
        self.made.root = self.pop()?;
        self.made.trailing = self.bytes.len() - self.at;
        Ok(())
    }

    fn protocol(&mut self) -> Result<u8, ReadError> {
        match self.byte()? {
            protocol @ 0..=5 => Ok(protocol),
            other => Err(self.fault(format!("protocol {other}, only those up to 5 are known"))),
        }
    }

    fn refused(&self, opcode: u8) -> ReadError {
        let name = match opcode {
            b'c' => "GLOBAL",
            0x93 => "STACK_GLOBAL",
            b'R' => "REDUCE",
            b'b' => "BUILD",
            b'i' => "INST",
            b'o' => "OBJ",
            0x81 => "NEWOBJ",
            0x92 => "NEWOBJ_EX",
            b'P' => "PERSID",
            b'Q' => "BINPERSID",
            0x82 => "EXT1",
            0x83 => "EXT2",
            0x84 => "EXT4",
            0x97 => "NEXT_BUFFER",
            other => return self.fault(format!("opcode 0x{other:02x}, which no memory snapshot has")),
        };
        self.fault(format!("opcode {name} is refused: a snapshot is plain values and needs no code"))
    }

    fn fault(&self, message: String) -> ReadError {
        ReadError::Pickle { offset: self.opcode, message }
    }

    fn cut_off(&self, wanted: u64) -> ReadError {
        let left = self.bytes.len() - self.at;
        ReadError::Pickle {
            offset: self.bytes.len(),
            message: format!(
                "the pickle ends here; the opcode at byte {} needs {wanted} bytes more, {left} are left",
                self.opcode
            ),
        }
    }

    fn byte(&mut self) -> Result<u8, ReadError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.cut_off(1))?;
        self.at += 1;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let bytes = self.bytes[self.at..].first_chunk::<N>().ok_or_else(|| self.cut_off(N as u64))?;
        self.at += N;
        Ok(*bytes)
    }

    /// An unsigned number of 1, 4 or 8 bytes.
    fn length(&mut self, width: usize) -> Result<u64, ReadError> {
        Ok(match width {
            1 => u64::from(self.byte()?),
            4 => u64::from(u32::from_le_bytes(self.array()?)),
            _ => u64::from_le_bytes(self.array()?),
        })
    }

    fn check_left(&self, n: u64) -> Result<usize, ReadError> {
        let left = self.bytes.len() - self.at;
        usize::try_from(n).ok().filter(|n| *n <= left).ok_or_else(|| self.cut_off(n))
    }

    fn slice(&mut self, n: u64) -> Result<&'a [u8], ReadError> {
        let n = self.check_left(n)?;
        let bytes = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(bytes)
    }

    /// Whether `more` bytes can be spent.
    fn check_spent(&self, more: usize) -> Result<(), ReadError> {
        let made = &self.made;
        let spent = 8 * (self.stack.len() + self.marks.len() + self.memo.len())
            + 8 * (made.items.len() + made.wide.len() + made.floats.len())
            + 16 * made.runs.len()
            + 8 * made.nodes.len()
            + self.spent_on_texts;
        if spent.saturating_add(more) <= MOST_BYTES {
            return Ok(());
        }
        Err(self
            .fault(format!("its values need more than {} MiB, the limit for snapshots", MOST_BYTES >> 20)))
    }

    fn index(&self, n: usize) -> Result<u32, ReadError> {
        u32::try_from(n).map_err(|_| self.fault("more than four billion values".to_owned()))
    }

    /// A container without items.
    fn node(&mut self) -> Result<u32, ReadError> {
        let index = self.index(self.made.nodes.len())?;
        self.made.nodes.push(NO_RUN);
        self.made.begins.push(u32::try_from(self.opcode).unwrap_or(u32::MAX));
        Ok(index)
    }

    fn int(&mut self, number: i64) -> Result<(), ReadError> {
        let value = if -SMALL <= number && number < SMALL {
            Value((number.cast_unsigned() << 4) >> 4)
        } else {
            let index = self.index(self.made.wide.len())?;
            self.made.wide.push(number);
            Value::new(tag::WIDE, index.into())
        };
        self.stack.push(value);
        Ok(())
    }

    /// A signed number of `n` bytes, the least significant first.
    fn long(&mut self, n: u64) -> Result<(), ReadError> {
        let bytes = self.slice(n)?;
        let negative = bytes.last().is_some_and(|b| 0x80 <= *b);
        let fill = if negative { 0xff } else { 0 };
        let (low, high) = bytes.split_at(bytes.len().min(8));
        let mut word = [fill; 8];
        word[..low.len()].copy_from_slice(low);
        let number = i64::from_le_bytes(word);
        if high.iter().any(|b| *b != fill) || negative != (number < 0) {
            self.stack.push(HUGE);
            return Ok(());
        }
        self.int(number)
    }

    fn text(&mut self, width: usize) -> Result<(), ReadError> {
        let n = self.length(width)?;
        let bytes = self.slice(n)?;
        let before = self.made.strings.len();
        let id = match str::from_utf8(bytes) {
            Ok(text) => self.made.strings.intern(text),
            Err(_) => {
                self.made.invalid_utf8 += 1;
                self.made.strings.intern(&String::from_utf8_lossy(bytes))
            }
        };
        if before < self.made.strings.len() {
            // Twice: a text stands in the table and in the map that finds it.
            self.spent_on_texts += TEXT_BYTES + 2 * bytes.len();
        }
        self.stack.push(Value::new(tag::TEXT, id.index() as u64));
        Ok(())
    }

    fn opaque(&mut self, width: usize) -> Result<(), ReadError> {
        let n = self.length(width)?;
        self.slice(n)?;
        self.stack.push(BYTES);
        Ok(())
    }

    fn container(&mut self, tag: u64) -> Result<(), ReadError> {
        let index = self.node()?;
        self.stack.push(Value::new(tag, index.into()));
        Ok(())
    }

    fn tuple(&mut self, n: usize) -> Result<(), ReadError> {
        self.check_above(n)?;
        let from = self.stack.len() - n;
        let index = self.node()?;
        self.add_run(index as usize, from, 0)?;
        self.stack.push(Value::new(tag::TUPLE, index.into()));
        Ok(())
    }

    /// Moves what lies above height `from` of the stack into a container.
    fn add_run(&mut self, node: usize, from: usize, shape: u32) -> Result<(), ReadError> {
        let len = self.stack.len() - from;
        if len == 0 {
            return Ok(());
        }
        let run = Run {
            from: self.index(self.made.items.len())?,
            len: self.index(len)?,
            shape,
            before: self.made.nodes[node],
        };
        self.made.items.extend_from_slice(&self.stack[from..]);
        self.stack.truncate(from);
        self.made.nodes[node] = self.index(self.made.runs.len())?;
        self.made.runs.push(run);
        Ok(())
    }

    fn append(&mut self, n: usize) -> Result<(), ReadError> {
        self.check_above(n)?;
        let from = self.stack.len() - n;
        let node = self.node_below(from, tag::LIST, "a list")?;
        self.add_run(node, from, 0)
    }

    fn set(&mut self, n: usize) -> Result<(), ReadError> {
        self.check_above(n)?;
        let from = self.stack.len() - n;
        let node = self.node_below(from, tag::DICT, "a dict")?;
        if !n.is_multiple_of(2) {
            return Err(self.fault("a key without a value".to_owned()));
        }
        let shape = self.shape(from)?;
        // Values move to where the keys were, keys are dropped.
        for pair in 0..n / 2 {
            self.stack[from + pair] = self.stack[from + 2 * pair + 1];
        }
        self.stack.truncate(from + n / 2);
        self.add_run(node, from, shape)
    }

    /// The index of the keys that stand above height `from`.
    fn shape(&mut self, from: usize) -> Result<u32, ReadError> {
        let keys = || self.stack[from..].iter().step_by(2);
        for &recent in &self.recent {
            if self.made.shapes.get(recent as usize).is_some_and(|shape| shape.iter().eq(keys())) {
                return Ok(recent);
            }
        }
        let keys: Box<[Value]> = keys().copied().collect();
        let shape = match self.known_shapes.get(&keys) {
            Some(shape) => *shape,
            None => {
                // Once in the list and once in the map that finds it.
                self.spent_on_texts += TEXT_BYTES + 16 * keys.len();
                self.check_spent(0)?;
                let next = self.index(self.made.shapes.len())?;
                self.made.shapes.push(keys.clone());
                self.known_shapes.insert(keys, next);
                next
            }
        };
        self.recent.rotate_right(1);
        self.recent[0] = shape;
        Ok(shape)
    }

    /// The container at the top of the stack below height `from`.
    fn node_below(&self, from: usize, tag: u64, what: &str) -> Result<usize, ReadError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if from <= floor {
            return Err(self.underflow());
        }
        let value = self.stack[from - 1];
        if value.0 >> TAG != tag {
            return Err(self.fault(format!("items for what is not {what}")));
        }
        usize::try_from(value.0 & ((1 << TAG) - 1)).map_err(|_| self.underflow())
    }

    fn underflow(&self) -> ReadError {
        self.fault("the opcode takes more from the stack than is on it".to_owned())
    }

    fn check_above(&self, n: usize) -> Result<(), ReadError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() - floor < n { Err(self.underflow()) } else { Ok(()) }
    }

    /// How many values stand above the last mark.
    fn above_mark(&self) -> Result<usize, ReadError> {
        let mark = self.marks.last().ok_or_else(|| self.fault("there is no mark on the stack".to_owned()))?;
        Ok(self.stack.len() - mark)
    }

    fn top(&self) -> Result<Value, ReadError> {
        self.check_above(1)?;
        self.stack.last().copied().ok_or_else(|| self.underflow())
    }

    fn pop(&mut self) -> Result<Value, ReadError> {
        self.check_above(1)?;
        self.stack.pop().ok_or_else(|| self.underflow())
    }

    fn put(&mut self, index: u64) -> Result<(), ReadError> {
        let top = self.top()?;
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if self.memo.len() <= index {
            let more = index - self.memo.len();
            // Writers number what they keep; a hole as large as the file is none of theirs.
            if self.bytes.len() < more {
                return Err(self.fault(format!("memo {index} when there are {}", self.memo.len())));
            }
            self.check_spent(8 * more)?;
            self.memo.resize(index + 1, ABSENT);
        }
        self.memo[index] = top;
        Ok(())
    }

    fn fetch(&mut self, index: u64) -> Result<(), ReadError> {
        let found = usize::try_from(index).ok().and_then(|index| self.memo.get(index));
        match found.filter(|value| **value != ABSENT) {
            Some(value) => {
                self.stack.push(*value);
                Ok(())
            }
            None => Err(self.fault(format!("memo {index} was never put"))),
        }
    }
}
