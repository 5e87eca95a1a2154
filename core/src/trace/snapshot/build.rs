//! From the values of a pickle to a snapshot: every field is looked at, and what is wrong is told with its place.

use std::cell::Cell;

use super::pickle::{self, Kind, Node, Pickle, Value};
use super::{Annotation, Block, Event, Frame, ReadError, Segment, Snapshot};
use crate::ordered::BTreeMap;
use crate::program::MAX_DEVICES;
use crate::trace::StrId;

pub(super) fn snapshot(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let pickle = pickle::load(bytes)?;
    let mut builder = Builder::new(&pickle);
    builder.read()?;
    let Builder { mut made, problems, .. } = builder;
    made.n_bytes = bytes.len() as u64;
    made.protocol = pickle.protocol;
    made.problems = problems;
    for (name, count) in [("trailing_bytes", pickle.trailing as u64), ("invalid_utf8", pickle.invalid_utf8)] {
        if count != 0 {
            made.problems.insert(name, count);
        }
    }
    made.strings = pickle.strings;
    Ok(made)
}

/// The keys of the file, as values, where the file has them.
struct Keys {
    address: Option<Value>,
    size: Option<Value>,
    requested_size: Option<Value>,
    state: Option<Value>,
    frames: Option<Value>,
    history: Option<Value>,
    action: Option<Value>,
    addr: Option<Value>,
    device_free: Option<Value>,
    stream: Option<Value>,
    time_us: Option<Value>,
    filename: Option<Value>,
    line: Option<Value>,
    name: Option<Value>,
}

const NOT_YET: u32 = u32::MAX;

struct Builder<'a> {
    pickle: &'a Pickle,
    keys: Keys,
    made: Snapshot,
    problems: BTreeMap<&'static str, u64>,
    /// The stack of each list, and the frame of each dict, once known.
    stack_of: Vec<u32>,
    frame_of: Vec<u32>,
    frames: BTreeMap<Frame, u32>,
    /// Where in the file the container was made that is looked at.
    at: Cell<usize>,
}

impl<'a> Builder<'a> {
    fn new(pickle: &'a Pickle) -> Builder<'a> {
        let key = |text| pickle.key(text);
        let keys = Keys {
            address: key("address"),
            size: key("size"),
            requested_size: key("requested_size"),
            state: key("state"),
            frames: key("frames"),
            history: key("history"),
            action: key("action"),
            addr: key("addr"),
            device_free: key("device_free"),
            stream: key("stream"),
            time_us: key("time_us"),
            filename: key("filename"),
            line: key("line"),
            name: key("name"),
        };
        Builder {
            pickle,
            keys,
            made: Snapshot::default(),
            problems: BTreeMap::new(),
            stack_of: vec![NOT_YET; pickle.n_nodes()],
            frame_of: vec![NOT_YET; pickle.n_nodes()],
            frames: BTreeMap::new(),
            at: Cell::new(0),
        }
    }

    /// Something is wrong with what is looked at.
    fn wrong(&self, place: &str, message: &str) -> ReadError {
        ReadError::Form { offset: self.at.get(), place: place.to_owned(), message: message.to_owned() }
    }

    fn look_at(&self, node: Node) {
        self.at.set(self.pickle.begin(node));
    }

    fn read(&mut self) -> Result<(), ReadError> {
        let pickle = self.pickle;
        let none = || ReadError::Pickle {
            offset: 0,
            message: "no memory snapshot: a dict with segments and device_traces is needed".to_owned(),
        };
        let Kind::Dict(root) = pickle.kind(pickle.root) else { return Err(none()) };
        let segments = self.member(root, "segments").ok_or_else(none)?;
        for (key, _) in pickle.entries(root) {
            if let Kind::Text(id) = pickle.kind(key) {
                let name = pickle.strings.get(id);
                if !self.made.keys.iter().any(|known| known == name) {
                    self.made.keys.push(name.to_owned());
                }
            }
        }
        for (index, segment) in self.list(segments, &|| "segments".to_owned())?.enumerate() {
            self.segment(segment, index)?;
        }
        if let Some(traces) = self.member(root, "device_traces") {
            for (device, trace) in self.list(traces, &|| "device_traces".to_owned())?.enumerate() {
                self.trace(trace, device)?;
            }
        }
        if let Some(list) = self.member(root, "external_annotations") {
            for (index, value) in self.list(list, &|| "external_annotations".to_owned())?.enumerate() {
                self.annotation(value, index)?;
            }
        }
        Ok(())
    }

    fn member(&self, node: Node, key: &str) -> Option<Value> {
        self.pickle.get(node, self.pickle.key(key)?)
    }

    fn list(
        &self,
        value: Value,
        place: &dyn Fn() -> String,
    ) -> Result<impl Iterator<Item = Value> + use<'a>, ReadError> {
        match self.pickle.kind(value) {
            Kind::List(node) | Kind::Tuple(node) => {
                self.look_at(node);
                Ok(self.pickle.items(node))
            }
            _ => Err(self.wrong(&place(), "a list is needed")),
        }
    }

    fn dict(&self, value: Value, place: &dyn Fn() -> String) -> Result<Node, ReadError> {
        match self.pickle.kind(value) {
            Kind::Dict(_) if self.pickle.is_tiring() => {
                Err(self.wrong(&place(), "too many items were put one by one into what many refer to"))
            }
            Kind::Dict(node) => {
                self.look_at(node);
                Ok(node)
            }
            _ => Err(self.wrong(&place(), "a dict is needed")),
        }
    }

    fn get(&self, node: Node, key: Option<Value>) -> Option<Value> {
        self.pickle.get(node, key?).filter(|value| self.pickle.kind(*value) != Kind::None)
    }

    /// The whole number that a dict has for a key, where it has any.
    fn maybe(
        &self,
        node: Node,
        key: Option<Value>,
        what: &str,
        place: &dyn Fn() -> String,
    ) -> Result<Option<i64>, ReadError> {
        match self.get(node, key).map(|value| self.pickle.kind(value)) {
            None => Ok(None),
            Some(Kind::Int(number)) => Ok(Some(number)),
            Some(Kind::Bool(value)) => Ok(Some(i64::from(value))),
            Some(Kind::Huge) => Err(self.wrong(&place(), &format!("{what} is beyond signed 64 bits"))),
            Some(_) => Err(self.wrong(&place(), &format!("{what} is no whole number"))),
        }
    }

    fn int(
        &self,
        node: Node,
        key: Option<Value>,
        what: &str,
        place: &dyn Fn() -> String,
    ) -> Result<i64, ReadError> {
        self.maybe(node, key, what, place)?.ok_or_else(|| self.wrong(&place(), &format!("{what} is missing")))
    }

    /// A number of bytes.
    fn size(
        &self,
        node: Node,
        key: Option<Value>,
        what: &str,
        place: &dyn Fn() -> String,
    ) -> Result<i64, ReadError> {
        let size = self.int(node, key, what, place)?;
        // An exabyte more than any machine has, and sums of a hundred million of them are far from overflow.
        if (0..1 << 60).contains(&size) {
            Ok(size)
        } else {
            Err(self.wrong(&place(), &format!("{what} is {size}")))
        }
    }

    fn text(
        &self,
        node: Node,
        key: Option<Value>,
        what: &str,
        place: &dyn Fn() -> String,
    ) -> Result<StrId, ReadError> {
        match self.get(node, key).map(|value| self.pickle.kind(value)) {
            Some(Kind::Text(id)) => Ok(id),
            None => Err(self.wrong(&place(), &format!("{what} is missing"))),
            Some(_) => Err(self.wrong(&place(), &format!("{what} is no text"))),
        }
    }

    fn segment(&mut self, value: Value, index: usize) -> Result<(), ReadError> {
        let place = || format!("segments[{index}]");
        let node = self.dict(value, &place)?;
        let key = |text: &str| self.pickle.key(text);
        let n_before = self.made.blocks.len();
        let stack = self.stack(node, &place)?;
        let mut segment = Segment {
            device: self.maybe(node, key("device"), "device", &place)?.unwrap_or(0),
            address: self.int(node, self.keys.address, "address", &place)?,
            total_size: self.size(node, key("total_size"), "total_size", &place)?,
            allocated_size: self.size(node, key("allocated_size"), "allocated_size", &place)?,
            active_size: self.size(node, key("active_size"), "active_size", &place)?,
            requested_size: self
                .maybe(node, self.keys.requested_size, "requested_size", &place)?
                .unwrap_or(0),
            stream: self.maybe(node, self.keys.stream, "stream", &place)?.unwrap_or(0),
            segment_type: self.text(node, key("segment_type"), "segment_type", &place)?,
            blocks: n_before..n_before,
            stack,
        };
        if let Some(blocks) = self.get(node, key("blocks")) {
            let place = || format!("segments[{index}].blocks");
            for (nth, block) in self.list(blocks, &place)?.enumerate() {
                let place = || format!("segments[{index}].blocks[{nth}]");
                self.block(block, &place)?;
            }
        }
        segment.blocks.end = self.made.blocks.len();
        self.made.segments.push(segment);
        Ok(())
    }

    fn block(&mut self, value: Value, place: &dyn Fn() -> String) -> Result<(), ReadError> {
        let node = self.dict(value, place)?;
        let size = self.size(node, self.keys.size, "size", place)?;
        let mut requested = self.maybe(node, self.keys.requested_size, "requested_size", place)?;
        let mut stack = self.stack(node, place)?;
        // Older files state the size and the stack of a block in its history.
        if let Some(history) = self.get(node, self.keys.history)
            && let Some(first) = self.list(history, place)?.next()
        {
            let first = self.dict(first, place)?;
            if requested.is_none() {
                requested = self.maybe(first, self.pickle.key("real_size"), "real_size", place)?;
            }
            if stack == 0 {
                stack = self.stack(first, place)?;
            }
        }
        self.made.blocks.push(Block {
            address: self.maybe(node, self.keys.address, "address", place)?,
            size,
            requested_size: requested.unwrap_or(size),
            state: self.text(node, self.keys.state, "state", place)?,
            stack,
        });
        Ok(())
    }

    fn trace(&mut self, value: Value, device: usize) -> Result<(), ReadError> {
        let whole = format!("device_traces[{device}]");
        let Kind::List(list) = self.pickle.kind(value) else {
            return Err(self.wrong(&whole, "a list is needed"));
        };
        self.look_at(list);
        // Figures look at all segments and stacks for each device with events.
        if MAX_DEVICES as usize <= device && self.pickle.len(list) != 0 {
            return Err(self.wrong(&whole, &format!("a device is 0 to {}", MAX_DEVICES - 1)));
        }
        let mut events = Vec::with_capacity(self.pickle.len(list));
        for value in self.pickle.items(list) {
            let nth = events.len();
            let place = || format!("device_traces[{device}] event {nth}");
            let node = self.dict(value, &place)?;
            events.push(Event {
                action: self.text(node, self.keys.action, "action", &place)?,
                addr: match self.maybe(node, self.keys.addr, "addr", &place)? {
                    Some(addr) => addr,
                    // The exporter's name for it where memory ran out: what the device had free.
                    None => self.int(node, self.keys.device_free, "addr", &place)?,
                },
                size: self.maybe(node, self.keys.size, "size", &place)?.unwrap_or(0),
                stream: self.maybe(node, self.keys.stream, "stream", &place)?.unwrap_or(0),
                time_us: self.maybe(node, self.keys.time_us, "time_us", &place)?,
                stack: self.stack(node, &place)?,
            });
        }
        self.made.traces.push(events);
        Ok(())
    }

    fn annotation(&mut self, value: Value, index: usize) -> Result<(), ReadError> {
        let place = || format!("external_annotations[{index}]");
        let node = self.dict(value, &place)?;
        let key = |text: &str| self.pickle.key(text);
        let text = |name: &str| match self.get(node, key(name)).map(|value| self.pickle.kind(value)) {
            Some(Kind::Text(id)) => id,
            _ => StrId::EMPTY,
        };
        let annotation = Annotation {
            stage: text("stage"),
            name: text("name"),
            device: self.maybe(node, key("device"), "device", &place)?.unwrap_or(0),
            time_us: self.maybe(node, self.keys.time_us, "time_us", &place)?.unwrap_or(0),
        };
        self.made.annotations.push(annotation);
        Ok(())
    }

    /// The index of the stack that a dict has under `frames`; the empty one where it has none.
    fn stack(&mut self, node: Node, place: &dyn Fn() -> String) -> Result<u32, ReadError> {
        let list = match self.get(node, self.keys.frames).map(|value| self.pickle.kind(value)) {
            None => return Ok(0),
            Some(Kind::List(list) | Kind::Tuple(list)) => list,
            Some(_) => return Err(self.wrong(&place(), "frames is no list")),
        };
        let known = self.stack_of[list.index()];
        if known != NOT_YET {
            return Ok(known);
        }
        let around = self.at.get();
        for value in self.pickle.items(list) {
            self.look_at(list);
            let frame = self.frame(value, place)?;
            self.made.stacks.refs.push(frame);
        }
        self.at.set(around);
        let stacks = &mut self.made.stacks;
        let same = stacks.refs.len() == stacks.ends.last().copied().unwrap_or(0);
        let mut index = 0;
        if !same {
            index = u32::try_from(stacks.ends.len()).map_err(|_| self.wrong(&place(), "too many stacks"))?;
            self.made.stacks.ends.push(self.made.stacks.refs.len());
        }
        self.stack_of[list.index()] = index;
        Ok(index)
    }

    fn frame(&mut self, value: Value, place: &dyn Fn() -> String) -> Result<u32, ReadError> {
        let Kind::Dict(node) = self.pickle.kind(value) else {
            return Err(self.wrong(&place(), "a frame is no dict"));
        };
        self.look_at(node);
        let known = self.frame_of[node.index()];
        if known != NOT_YET {
            return Ok(known);
        }
        let line = match self.get(node, self.keys.line).map(|line| self.pickle.kind(line)) {
            // The line of a frame that is on none, -1, which PyTorch writes without its sign.
            Some(Kind::Huge) => -1,
            _ => self.maybe(node, self.keys.line, "a frame's line", place)?.unwrap_or(0),
        };
        let frame = Frame {
            filename: self.text(node, self.keys.filename, "a frame's filename", place)?,
            line,
            name: self.text(node, self.keys.name, "a frame's name", place)?,
        };
        let next = u32::try_from(self.made.stacks.frames.len())
            .map_err(|_| self.wrong(&place(), "too many frames"))?;
        let frames = &mut self.made.stacks.frames;
        let index = *self.frames.entry(frame).or_insert_with(|| {
            frames.push(frame);
            next
        });
        self.frame_of[node.index()] = index;
        Ok(index)
    }
}
