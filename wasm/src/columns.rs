//! A trace as columns of bytes: what a page carries, and what is handed from the thread that reads a file to the one that draws.
//!
//! | bytes | what |
//! |---|---|
//! | [`MAGIC`] | the form and its version |
//! | text | the title |
//! | number, text | the source and its name |
//! | text | the program as JSON, or nothing |
//! | text | what was read of the file, as JSON |
//! | list of texts | every text, once; columns refer to them by their place |
//! | lists | lanes, slices column by column, arrows, instants, counters |
//!
//! Numbers are of variable length, seven bits a byte, the lowest first; numbers with a sign are folded (0, -1, 1, -2, …), and
//! times are written as differences in 64 bits, so that gzip finds what repeats. A list or text begins with its length.

use spanlift::trace::{
    Counter, Engine, Flow, FlowKind, Import, Instant, Kind, Lane, LaneKind, Slice, Source, StrId, Trace,
};
use spanlift::{Nanos, Program};

/// What columns begin with.
pub const MAGIC: &[u8] = b"spanlift columns 2\n";

#[rustfmt::skip]
const KINDS: [Kind; 17] = [
    Kind::Call, Kind::Wait, Kind::Work, Kind::HostCopy, Kind::ToDevice, Kind::ToHost, Kind::WithinDevice, Kind::Peer,
    Kind::OtherCopy, Kind::Memset, Kind::Kernel, Kind::Communication, Kind::HostFn, Kind::Record, Kind::Sync,
    Kind::Annotation, Kind::Other,
];
const FLOWS: [FlowKind; 4] = [FlowKind::Launch, FlowKind::Event, FlowKind::Sync, FlowKind::Other];
const ENGINES: [Engine; 4] = [Engine::ToDevice, Engine::ToHost, Engine::Peer, Engine::Compute];

/// Whether columns hold a program.
pub(crate) fn has_program(bytes: &[u8]) -> bool {
    let rest = bytes.strip_prefix(MAGIC).unwrap_or_default();
    let mut reader = Reader { all: bytes.len(), rest, texts: Vec::new() };
    reader.head().is_ok_and(|(_, program)| !program.is_empty())
}

/// The trace as columns.
///
/// # Cost
/// Linear in the trace.
pub fn write(trace: &Trace) -> Vec<u8> {
    let mut out = Writer { bytes: MAGIC.to_vec(), places: Vec::new(), texts: Vec::new() };
    out.text(&trace.title);
    let (tag, name) = match &trace.source {
        Source::Unknown => (0, ""),
        Source::Simulated { machine } => (1, machine.as_str()),
        Source::Schedule { replay } => (2, replay.as_str()),
        Source::Imported { tool } => (3, tool.as_str()),
    };
    out.number(tag);
    out.text(name);
    out.text(&trace.program.as_ref().map_or_else(String::new, Program::to_json));
    out.text(
        &serde_json::to_string(&trace.import).unwrap_or_else(|e| unreachable!("bug: counts are JSON: {e}")),
    );
    let mut rest = Writer { bytes: Vec::new(), places: vec![0; trace.strings.len()], texts: Vec::new() };
    rest.lanes(trace);
    rest.slices(trace);
    rest.others(trace);
    out.number(rest.texts.len() as u64);
    for &id in &rest.texts {
        out.text(trace.strings.get(id));
    }
    out.bytes.append(&mut rest.bytes);
    out.bytes
}

/// The seven lowest bits.
fn low(n: u64) -> u8 {
    u8::try_from(n & 0x7f).unwrap_or(0)
}

struct Writer {
    bytes: Vec<u8>,
    /// The place of each text among those that are written, from 1; 0 for those that are not.
    places: Vec<u32>,
    texts: Vec<StrId>,
}

impl Writer {
    fn number(&mut self, mut n: u64) {
        while n > 0x7f {
            self.bytes.push(low(n) | 0x80);
            n >>= 7;
        }
        self.bytes.push(low(n));
    }

    /// A number with a sign, folded.
    fn signed(&mut self, n: i64) {
        self.number((n << 1 ^ n >> 63) as u64);
    }

    /// What is from `before` to `n`; where that takes more than 64 bits it comes round from the other side, here and in reading.
    fn step(&mut self, before: i64, n: i64) {
        self.signed(n.wrapping_sub(before));
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// A text by its place.
    fn id(&mut self, id: StrId) {
        let place = &mut self.places[id.index()];
        if *place == 0 {
            self.texts.push(id);
            *place = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        }
        let place = *place;
        self.number(u64::from(place) - 1);
    }

    fn lanes(&mut self, trace: &Trace) {
        self.number(trace.lanes.len() as u64);
        for lane in &trace.lanes {
            let place =
                |list: &[Engine; 4], engine| list.iter().position(|e| *e == engine).unwrap_or(0) as i64;
            let (tag, a, b) = match lane.kind {
                LaneKind::Host => (0, 0, 0),
                LaneKind::Stream { dev, stream } => (1, dev, stream),
                LaneKind::Engine { dev, engine } => (2, dev, place(&ENGINES, engine)),
                LaneKind::Other => (3, 0, 0),
            };
            self.number(tag);
            self.signed(a);
            self.signed(b);
            self.id(lane.group);
            self.id(lane.name);
        }
    }

    fn slices(&mut self, trace: &Trace) {
        let slices = &trace.slices;
        self.number(slices.len() as u64);
        let mut before = 0;
        for &start in &slices.start {
            self.step(before, start);
            before = start;
        }
        for (&start, &end) in slices.start.iter().zip(&slices.end) {
            self.step(start, end);
        }
        slices.lane.iter().for_each(|&lane| self.number(lane.into()));
        for kind in &slices.kind {
            self.number(KINDS.iter().position(|k| k == kind).unwrap_or(0) as u64);
        }
        slices.flags.iter().for_each(|&flags| self.number(flags.into()));
        slices.bytes.iter().for_each(|&bytes| self.number(bytes));
        // No command is 0, which all of an imported trace are.
        slices.command.iter().for_each(|&command| self.number(command.wrapping_add(1).into()));
        // None is a step of its own: the least number, which no correlation is.
        let mut before = 0;
        for &correlation in &slices.correlation {
            if correlation == Slice::NO_CORRELATION {
                self.number(0);
                continue;
            }
            self.number(1);
            self.step(before, correlation);
            before = correlation;
        }
        for ids in [&slices.name, &slices.cat, &slices.args] {
            ids.iter().for_each(|&id| self.id(id));
        }
    }

    fn others(&mut self, trace: &Trace) {
        self.number(trace.flows.len() as u64);
        let mut before = 0;
        for flow in &trace.flows {
            self.number(FLOWS.iter().position(|k| *k == flow.kind).unwrap_or(0) as u64);
            self.step(before, flow.from.into());
            self.step(flow.from.into(), flow.to.into());
            before = flow.from.into();
        }
        self.number(trace.instants.len() as u64);
        let mut before = 0;
        for instant in &trace.instants {
            self.number(instant.lane.into());
            self.step(before, instant.at.0);
            self.id(instant.name);
            self.number(instant.command.wrapping_add(1).into());
            self.id(instant.args);
            before = instant.at.0;
        }
        self.number(trace.counters.len() as u64);
        for counter in &trace.counters {
            self.id(counter.group);
            self.id(counter.name);
            self.number(counter.samples.len() as u64);
            let mut before = 0;
            for (at, value) in &counter.samples {
                self.step(before, at.0);
                self.bytes.extend(value.to_le_bytes());
                before = at.0;
            }
        }
    }
}

/// The trace in columns.
///
/// # Errors
/// What is wrong with them, with the byte.
///
/// # Cost
/// Linear in the bytes; nothing is allocated that they do not pay for.
pub fn read(bytes: &[u8]) -> Result<Trace, String> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err("no columns of this version".to_owned()) };
    let mut reader = Reader { all: bytes.len(), rest, texts: Vec::new() };
    let read = reader.trace();
    read.map_err(|what| format!("byte {}: {what}", reader.all - reader.rest.len()))
}

struct Reader<'a> {
    all: usize,
    rest: &'a [u8],
    texts: Vec<StrId>,
}

type Read<T> = Result<T, &'static str>;

impl<'a> Reader<'a> {
    #[inline(always)]
    fn number(&mut self) -> Read<u64> {
        match self.rest {
            &[byte, ref rest @ ..] if byte < 0x80 => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_number(),
        }
    }

    /// A number of several bytes.
    fn long_number(&mut self) -> Read<u64> {
        let mut n = 0u64;
        for (k, &byte) in self.rest.iter().enumerate().take(10) {
            // The tenth byte has the last bit alone.
            if k == 9 && byte > 1 {
                break;
            }
            n |= u64::from(byte & 0x7f) << (7 * k);
            if byte < 0x80 {
                self.rest = &self.rest[k + 1..];
                return Ok(n);
            }
        }
        Err(if self.rest.len() < 10 { "the columns end here" } else { "a number that is too long" })
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Read<T> {
        T::try_from(self.number()?).map_err(|_| "a number that is too large")
    }

    /// What is a step after `before`.
    fn after(&mut self, before: i64) -> Read<i64> {
        let folded = self.number()?;
        let step = (folded >> 1) as i64 ^ -((folded & 1) as i64);
        Ok(before.wrapping_add(step))
    }

    /// The length of a list whose entries take at least a byte each.
    fn length(&mut self) -> Read<usize> {
        let n: usize = self.small()?;
        if n <= self.rest.len() { Ok(n) } else { Err("a list longer than the columns") }
    }

    fn text(&mut self) -> Read<&'a str> {
        let n = self.length()?;
        let (text, rest) = self.rest.split_at(n);
        self.rest = rest;
        str::from_utf8(text).map_err(|_| "no UTF-8 text")
    }

    fn id(&mut self) -> Read<StrId> {
        let place: usize = self.small()?;
        self.texts.get(place).copied().ok_or("a text that is not there")
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> Read<T> {
        let place: usize = self.small()?;
        list.get(place).copied().ok_or("a kind that is none")
    }

    fn column<T: Clone>(
        &mut self,
        n: usize,
        blank: T,
        mut entry: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        if n > self.rest.len() {
            return Err("the columns end here");
        }
        // Filled in place, since the module has a call for each that is pushed.
        let mut column = vec![blank; n];
        for place in &mut column {
            *place = entry(self)?;
        }
        Ok(column)
    }

    /// What stands before the counts: title and source, and the program as text.
    fn head(&mut self) -> Read<(Trace, &'a str)> {
        let mut trace = Trace { title: self.text()?.to_owned(), ..Trace::default() };
        let tag: u8 = self.small()?;
        let name = self.text()?.to_owned();
        trace.source = match tag {
            0 => Source::Unknown,
            1 => Source::Simulated { machine: name },
            2 => Source::Schedule { replay: name },
            3 => Source::Imported { tool: name },
            _ => return Err("a source that is none"),
        };
        Ok((trace, self.text()?))
    }

    fn trace(&mut self) -> Read<Trace> {
        let (mut trace, program) = self.head()?;
        if !program.is_empty() {
            trace.program =
                Some(Program::from_json(program.as_bytes()).map_err(|_| "a program that is none")?);
        }
        let import = self.text()?;
        trace.import = serde_json::from_str::<Import>(import).map_err(|_| "counts that are none")?;
        let n = self.length()?;
        let mut ahead = Reader { all: self.all, rest: self.rest, texts: Vec::new() };
        let mut n_bytes = 0;
        for _ in 0..n {
            let n = ahead.length()?;
            (n_bytes, ahead.rest) = (n_bytes + n, &ahead.rest[n..]);
        }
        trace.strings.reserve(n, n_bytes);
        for _ in 0..n {
            let text = self.text()?;
            // Arguments are hardly ever the same twice.
            let is_object = matches!(text.as_bytes(), [b'{' | b'@', ..]);
            self.texts.push(if is_object { trace.strings.push(text) } else { trace.strings.intern(text) });
        }
        self.lanes(&mut trace)?;
        self.slices(&mut trace)?;
        self.others(&mut trace)?;
        if self.rest.is_empty() { Ok(trace) } else { Err("bytes behind the last column") }
    }

    fn lanes(&mut self, trace: &mut Trace) -> Read<()> {
        for _ in 0..self.length()? {
            let tag: u8 = self.small()?;
            let (dev, b) = (self.after(0)?, self.after(0)?);
            let kind = match tag {
                0 => LaneKind::Host,
                1 => LaneKind::Stream { dev, stream: b },
                2 => {
                    let engine = usize::try_from(b).ok().and_then(|b| ENGINES.get(b).copied());
                    LaneKind::Engine { dev, engine: engine.ok_or("an engine that is none")? }
                }
                3 => LaneKind::Other,
                _ => return Err("a lane that is none"),
            };
            let (group, name) = (self.id()?, self.id()?);
            trace.lanes.push(Lane { kind, group, name });
        }
        Ok(())
    }

    fn slices(&mut self, trace: &mut Trace) -> Read<()> {
        let n = self.length()?;
        let n_lanes = trace.lanes.len();
        let slices = &mut trace.slices;
        let mut before = 0;
        slices.start = self.column(n, 0, |r| {
            before = r.after(before)?;
            Ok(before)
        })?;
        let mut k = 0;
        let starts = &slices.start;
        slices.end = self.column(n, 0, |r| {
            let end = r.after(starts[k])?;
            k += 1;
            if end < starts[k - 1] { Err("a slice that ends before it begins") } else { Ok(end) }
        })?;
        slices.lane = self.column(n, 0, |r| {
            let lane: u32 = r.small()?;
            if (lane as usize) < n_lanes { Ok(lane) } else { Err("a lane that is not there") }
        })?;
        slices.kind = self.column(n, Kind::Other, |r| r.one_of(&KINDS))?;
        slices.flags = self.column(n, 0, Reader::small)?;
        slices.bytes = self.column(n, 0, Reader::small)?;
        slices.command = self.column(n, 0, |r| Ok(r.small::<u32>()?.wrapping_sub(1)))?;
        let mut before = 0;
        slices.correlation = self.column(n, 0, |r| {
            if r.number()? == 0 {
                return Ok(Slice::NO_CORRELATION);
            }
            before = r.after(before)?;
            Ok(before)
        })?;
        slices.name = self.column(n, StrId::EMPTY, Reader::id)?;
        slices.cat = self.column(n, StrId::EMPTY, Reader::id)?;
        slices.args = self.column(n, StrId::EMPTY, Reader::id)?;
        Ok(())
    }

    fn others(&mut self, trace: &mut Trace) -> Read<()> {
        let n_slices = trace.slices.len();
        let slice = |at: i64| match u32::try_from(at) {
            Ok(at) if (at as usize) < n_slices => Ok(at),
            _ => Err("a slice that is not there"),
        };
        let mut before = 0;
        for _ in 0..self.length()? {
            let kind = self.one_of(&FLOWS)?;
            let from = self.after(before)?;
            let to = self.after(from)?;
            trace.flows.push(Flow { kind, from: slice(from)?, to: slice(to)? });
            before = from;
        }
        let mut before = 0;
        for _ in 0..self.length()? {
            let lane: u32 = self.small()?;
            before = self.after(before)?;
            let name = self.id()?;
            let command = self.small::<u32>()?.wrapping_sub(1);
            let args = self.id()?;
            trace.instants.push(Instant { lane, at: Nanos(before), name, command, args });
        }
        for _ in 0..self.length()? {
            let (group, name) = (self.id()?, self.id()?);
            let mut samples = Vec::new();
            let mut before = 0;
            for _ in 0..self.length()? {
                before = self.after(before)?;
                let (value, rest) = self.rest.split_first_chunk::<8>().ok_or("the columns end here")?;
                self.rest = rest;
                samples.push((Nanos(before), f64::from_le_bytes(*value)));
            }
            trace.counters.push(Counter { group, name, samples });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, crowd, race};

    fn traces() -> Vec<Trace> {
        let mut far = race();
        far.slices.start[0] = i64::MIN + 1;
        far.slices.end[0] = i64::MAX;
        far.slices.correlation[0] = i64::MAX;
        far.slices.correlation[1] = i64::MIN + 1;
        far.slices.bytes[1] = u64::MAX;
        far.source = Source::Imported { tool: "kineto".to_owned() };
        let (group, name) = (far.strings.intern("g"), far.strings.intern("µ \u{0}"));
        let samples = vec![(Nanos(5), f64::NAN), (Nanos(-7), -0.5), (Nanos(i64::MAX), f64::INFINITY)];
        far.counters.push(Counter { group, name, samples });
        far.import.problems.insert("odd".to_owned(), 3);
        vec![Trace::default(), race(), far, crowd(1, 300), crowd(2, 40)]
    }

    #[test]
    fn what_goes_in_comes_out() {
        for trace in traces() {
            let bytes = write(&trace);
            assert_eq!(read(&bytes), Ok(trace));
        }
    }

    #[test]
    fn cut_and_broken_columns_are_refused_or_a_trace() {
        for trace in traces() {
            let bytes = write(&trace);
            for cut in 0..bytes.len() {
                assert!(read(&bytes[..cut]).is_err(), "cut at {cut} of {}", bytes.len());
            }
            let mut random = Random(9);
            for _ in 0..3000 {
                let mut broken = bytes.clone();
                for _ in 0..=random.below(3) {
                    let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
                    broken[at] = u8::try_from(random.below(256)).unwrap();
                }
                if let Ok(trace) = read(&broken) {
                    // Whatever it is, it can be drawn.
                    crate::rows::Rows::new(&trace, crate::rows::Shown::default());
                    assert_eq!(read(&write(&trace)), Ok(trace));
                }
            }
        }
        assert!(read(b"{}").is_err());
    }

    #[test]
    fn real_traces_take_a_dozen_bytes_an_event_at_most() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
        let Ok(entries) = std::fs::read_dir(&folder) else {
            eprintln!("skipped: no folder {}", folder.display());
            return;
        };
        for path in entries.map(|e| e.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let packed = std::fs::read(&path).unwrap();
            if !name.contains(".json") || name.contains("reference") {
                continue;
            }
            let mut json = Vec::new();
            if packed.starts_with(&[0x1f, 0x8b]) {
                std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(&packed[..]), &mut json)
                    .unwrap();
            } else {
                json = packed;
            }
            let trace = spanlift::trace::read(&json).unwrap();
            let columns = write(&trace);
            assert_eq!(read(&columns), Ok(trace.clone()), "{name}");
            let mut reading = spanlift::trace::Reading::leaving_arguments();
            reading.feed(&json).unwrap();
            if let Ok(spanlift::trace::Finished::Trace(leaving)) = reading.finish() {
                // What stays in the file is nothing that a program made of it needs.
                let range = trace.extent().map_or((0, 1), |(a, b)| (a.0, b.0.min(a.0 + 40_000_000)));
                let program = |trace: &Trace| {
                    let made = spanlift::advise::trace::skeleton(trace, range.0, range.1);
                    made.map(|made| made.program.to_text()).map_err(|why| why.to_string())
                };
                assert_eq!(program(&leaving), program(&trace), "{name}");
                eprintln!("{name}: {} of {} bytes of columns", write(&leaving).len(), columns.len());
            }
            let size = |bytes: &[u8]| {
                let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                std::io::Write::write_all(&mut packer, bytes).unwrap();
                packer.finish().unwrap().len()
            };
            let n = trace.import.n_events.max(1) as f64;
            eprintln!(
                "{name}: {:.1} bytes an event as columns, {:.1} as JSON",
                size(&columns) as f64 / n,
                size(&json) as f64 / n
            );
        }
    }
}
