//! A memory snapshot of PyTorch as a memory map: segments are storages, the blocks in use are views of their bytes.

use std::sync::Arc;

use spanlift::Bytes;
use spanlift::memory::{Device, Dtype, Layout, Span, Storage, StorageId, Tensor, View, cuda};
use spanlift::ordered::BTreeMap;
use spanlift::text::grouped;
use spanlift::trace::StrId;
use spanlift::trace::snapshot::{self, Alive, Figures, History, Life, Past, Segment, Snapshot};

use crate::memory::frame::NAME;
use crate::memory::past::OverTime;
use crate::text;

/// The map of what the allocator holds at the end, and what there is to tell of it, a line each.
///
/// # Errors
/// What is no snapshot, with the byte or the value; a snapshot whose segments have no place.
pub fn map(bytes: &[u8]) -> Result<(Layout, Vec<String>), String> {
    let (snapshot, layout, mut told) = open(bytes)?;
    told.extend(told_before(&snapshot, &histories(&snapshot, &mut |_, _, _| ())));
    Ok((layout, told))
}

/// The same with the snapshot itself, and without what there is to tell of the time before the end.
pub(crate) fn open(bytes: &[u8]) -> Result<(Snapshot, Layout, Vec<String>), String> {
    let snapshot = Snapshot::read(bytes).map_err(|e| e.to_string())?;
    let (layout, told) = (layout(&snapshot, |_| true)?, told(&snapshot));
    Ok((snapshot, layout, told))
}

/// What segments and blocks of any moment are named by.
#[derive(Debug)]
pub(crate) struct Names {
    snapshot: Arc<Snapshot>,
    /// The devices that were recorded, with their lives.
    pub(crate) pasts: Vec<(usize, Past)>,
    /// The kinds of the segments that are there at the end, by address.
    kinds: Vec<(i64, StrId)>,
    /// At most how wide the name of a segment or a block is.
    width: f64,
}

impl Names {
    pub(crate) fn of(snapshot: &Arc<Snapshot>, pasts: Vec<(usize, Past)>) -> Names {
        let kinds = snapshot.segments.iter().map(|segment| (segment.address, segment.segment_type));
        let mut kinds: Vec<(i64, StrId)> = kinds.collect();
        kinds.sort_unstable();
        Names { snapshot: Arc::clone(snapshot), pasts, kinds, width: name_width(snapshot) }
    }
}

/// The segments of one moment as storages and their blocks as views, each named only when somebody looks at it.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    names: Arc<Names>,
    segments: Vec<Held>,
    /// Blocks in the order of their segments: places in the past of the segment's device.
    places: Vec<u32>,
}

/// A segment and what it holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) device: u32,
    /// Which of the pasts is the device's.
    past: usize,
    pub(crate) segment: Life,
    pub(crate) sums: Sums,
    /// Where its blocks end among those of all segments.
    pub(crate) end: usize,
}

/// The blocks of a segment together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) listed: u128,
    /// Bytes that any of them has, and bytes that several have.
    pub(crate) any: i64,
    pub(crate) twice: i64,
    /// How far any of them reaches, and two do.
    one: i64,
    two: i64,
}

impl Sums {
    /// The next block by address; in a broken file they may overlap.
    fn add(&mut self, lo: i64, size: i64) {
        let hi = lo + size;
        let both = hi.min(self.one);
        self.listed += u128::from(size.unsigned_abs());
        self.twice += (both - lo.max(self.two)).max(0);
        self.any += (hi - lo.max(self.one)).max(0);
        (self.one, self.two) = (hi.max(self.one), both.max(self.two));
    }
}

/// The bytes of a segment that no block has.
#[derive(Debug, Clone, Copy, Default)]
struct Free {
    /// Up to where it is known.
    at: i64,
    all: i64,
    largest: i64,
}

impl Free {
    /// The next block by address is at `addr..end`. All gaps of a segment together are no longer than it is.
    fn until(&mut self, addr: i64, end: i64) {
        let gap = addr.saturating_sub(self.at).max(0);
        self.all += gap;
        self.largest = self.largest.max(gap);
        self.at = self.at.max(end);
    }
}

impl Held {
    pub(crate) fn device(&self) -> Device {
        cuda(self.device)
    }

    /// What a segment keeps as long as it is there.
    pub(crate) fn place(&self) -> (u32, i64, Option<i64>) {
        (self.device, self.segment.addr, self.segment.stream)
    }
}

impl Blocks {
    /// What is there at the moment, of the devices that were recorded; nothing where a broken file has sizes below zero.
    ///
    /// # Cost
    /// Linear in what is there then and in some thousand events. A hand that moves through a snapshot waits for it: blocks
    /// are gone through once, for their segments, what those hold and the sums over all.
    pub(crate) fn at(over: &OverTime) -> Option<Blocks> {
        let names = over.names();
        let (mut segments, mut places): (Vec<Held>, Vec<u32>) = Default::default();
        for (past, (device, moment)) in over.moments().into_iter().enumerate() {
            let (device, spans) = (u32::try_from(device).ok()?, names.pasts[past].1.spans());
            let (mut all, begin) = (snapshot::Held::default(), places.len());
            // Blocks that are held move to the front of their list.
            let (mut list, mut next, mut kept) = (moment.places, 0, 0);
            // Far apart in memory: fetched by a loop that does nothing else, many are on their way at once.
            let near: Vec<(i64, i64)> = list.iter().map(|&k| spans[k as usize]).collect();
            for segment in moment.segments {
                let (mut sums, mut free) = (Sums::default(), Free { at: segment.addr, ..Free::default() });
                while let Some(&(addr, size)) = near.get(next) {
                    if past_of(&segment) <= addr {
                        break;
                    }
                    let k = list[next];
                    next += 1;
                    all.allocated += i128::from(size);
                    // A block that its segment does not hold is counted among the layout's inconsistencies.
                    if addr < segment.addr {
                        continue;
                    }
                    let end = addr.saturating_add(size);
                    free.until(addr, end);
                    if 0 <= size && end <= past_of(&segment) {
                        sums.add(addr - segment.addr, size);
                        list[kept] = k;
                        kept += 1;
                    }
                }
                free.until(past_of(&segment), 0);
                all.reserved += i128::from(segment.size);
                all.free += i128::from(free.all);
                all.largest_free = all.largest_free.max(free.largest.into());
                segments.push(Held { device, past, segment, sums, end: begin + kept });
            }
            all.allocated += near[next..].iter().map(|block| i128::from(block.1)).sum::<i128>();
            over.held(past, all);
            list.truncate(kept);
            if places.is_empty() { places = list } else { places.extend_from_slice(&list) }
        }
        let is_well = segments.iter().all(|held| 0 <= held.segment.size);
        is_well.then(|| Blocks { names: Arc::clone(names), segments, places })
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// At most how wide the name of a segment or a block is, at any moment: names do not move with the hand that looks
    /// through them.
    pub(crate) fn name_width(&self) -> f64 {
        self.names.width
    }

    pub(crate) fn segments(&self) -> &[Held] {
        &self.segments
    }

    /// A block and its segment.
    fn block(&self, k: usize) -> (&Life, &Held) {
        let held = &self.segments[self.segment_of(k)];
        (&self.names.pasts[held.past].1.blocks()[self.places[k] as usize], held)
    }

    /// A segment as a storage.
    pub(crate) fn storage(&self, segment: usize) -> Storage {
        let held = &self.segments[segment];
        let life = &held.segment;
        let mut id = address(life.addr);
        let Names { snapshot, kinds, .. } = &*self.names;
        if let Ok(k) = kinds.binary_search_by_key(&life.addr, |kind| kind.0) {
            id.push(' ');
            id.push_str(snapshot.strings.get(kinds[k].1));
        }
        if let Some(stream) = life.stream {
            id.push_str(", stream ");
            id.push_str(&stream.to_string());
        }
        Storage { id, device: held.device(), bytes: Bytes(life.size.unsigned_abs()) }
    }

    /// The segment of a block.
    pub(crate) fn segment_of(&self, k: usize) -> usize {
        self.segments.partition_point(|held| held.end <= k)
    }

    /// The bytes of its storage that a block has.
    pub(crate) fn bytes(&self, k: usize) -> (i64, i64) {
        let (block, held) = self.block(k);
        let offset = block.addr - held.segment.addr;
        (offset, offset + block.size)
    }

    /// The bytes of the blocks of a segment, by address.
    pub(crate) fn bounds(&self, segment: usize) -> impl Iterator<Item = (i64, i64)> {
        let held = &self.segments[segment];
        let begin = segment.checked_sub(1).map_or(0, |before| self.segments[before].end);
        let spans = self.names.pasts[held.past].1.spans();
        self.places[begin..held.end].iter().map(move |&k| {
            let (addr, size) = spans[k as usize];
            (addr - held.segment.addr, addr - held.segment.addr + size)
        })
    }

    pub(crate) fn span(&self, k: usize) -> Span {
        let (lo, hi) = self.bytes(k);
        Span::range(lo, hi - lo).unwrap_or_else(|e| unreachable!("bug: a block within its segment: {e}"))
    }

    pub(crate) fn name(&self, k: usize) -> String {
        let life = self.block(k).0;
        address(life.addr) + &asked_by(&self.names.snapshot, life.stack)
    }

    /// A block as a view of a storage.
    pub(crate) fn tensor(&self, k: usize, storage: StorageId) -> Tensor {
        let (lo, hi) = self.bytes(k);
        Tensor::of_bytes(self.name(k), storage, lo, hi - lo)
            .unwrap_or_else(|e| unreachable!("bug: a block within its segment: {e}"))
    }

    /// The device of a block and its life.
    pub(crate) fn life(&self, k: usize) -> Option<(usize, Life)> {
        (k < self.len()).then(|| self.block(k)).map(|(life, held)| (held.device as usize, *life))
    }

    /// The segment of a device that has an address.
    pub(crate) fn segment_at(&self, device: usize, addr: i64) -> Option<usize> {
        let has = |held: &Held| held.segment.addr <= addr && addr < past_of(&held.segment);
        self.segments.iter().position(|held| held.device as usize == device && has(held))
    }

    /// The place of the block that is the same one as a block of another moment.
    pub(crate) fn find(&self, life: (usize, Life)) -> Option<usize> {
        let at = self.segment_at(life.0, life.1.addr)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.segments[before].end);
        (begin..self.segments[at].end).find(|&k| self.life(k) == Some(life))
    }
}

/// One past the last byte of a life.
fn past_of(life: &Life) -> i64 {
    life.addr.saturating_add(life.size)
}

/// Who asked for something, by the innermost line of its stack, with a blank before it.
pub(crate) fn asked_by(snapshot: &Snapshot, stack: u32) -> String {
    snapshot.stacks.get(stack).first().map_or_else(String::new, |&frame| asker(snapshot, frame))
}

/// Characters of a function's or a file's name in that line: a file may have one of a megabyte in each of its stacks.
const LONGEST: usize = 500;

fn asker(snapshot: &Snapshot, frame: u32) -> String {
    let cut = |name: &str| name.chars().take(LONGEST).collect::<String>();
    let frame = snapshot.stacks.frames[frame as usize];
    let file = snapshot.strings.get(frame.filename);
    let file = file.rsplit('/').next().unwrap_or(file);
    format!(" {} ({})", cut(snapshot.strings.get(frame.name)), place(&cut(file), frame.line))
}

/// `train.py:31`, or the file alone where the line is not known.
pub(crate) fn place(file: &str, line: i64) -> String {
    if line < 1 { file.to_owned() } else { format!("{file}:{line}") }
}

/// At most how wide the name of a segment or a block is in a map, whatever its kind and whoever asked for it.
fn name_width(snapshot: &Snapshot) -> f64 {
    let stacks = (0..).take(snapshot.stacks.len());
    let mut innermost: Vec<u32> =
        stacks.filter_map(|stack| snapshot.stacks.get(stack).first().copied()).collect();
    innermost.sort_unstable();
    innermost.dedup();
    let width = |name: &str| text::width(&text::clean(name), NAME, true);
    let askers = innermost.iter().map(|&frame| width(&asker(snapshot, frame)));
    let mut kinds: Vec<StrId> = snapshot.segments.iter().map(|segment| segment.segment_type).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds = kinds.iter().map(|&kind| width(" ") + width(snapshot.strings.get(kind)));
    width(&address(0x7f00_0000_0000)) + askers.chain(kinds).fold(0.0, f64::max)
}

/// The last state, of the segments that are wanted.
pub(crate) fn layout(snapshot: &Snapshot, is_wanted: impl Fn(&Segment) -> bool) -> Result<Layout, String> {
    let mut layout = Layout::new();
    let mut again = BTreeMap::new();
    for segment in snapshot.segments.iter().filter(|segment| is_wanted(segment)) {
        let device = u32::try_from(segment.device).map_err(|_| format!("no device {}", segment.device))?;
        let size =
            u64::try_from(segment.total_size).map_err(|_| format!("no size {}", segment.total_size))?;
        let id = segment_name(snapshot, segment);
        let storage = layout.storage(&id, cuda(device), Bytes(size)).or_else(|_| {
            let id = numbered(&mut again, id);
            layout.storage(&id, cuda(device), Bytes(size)).map_err(|e| e.to_string())
        })?;
        for (at, block) in snapshot.placed(segment) {
            let state = snapshot.strings.get(block.state);
            if state == "inactive" {
                continue;
            }
            let offset = at.saturating_sub(segment.address);
            // A block that its segment does not hold is counted among the layout's inconsistencies.
            let is_inside =
                0 <= offset && 0 <= block.size && offset.saturating_add(block.size) <= segment.total_size;
            if !is_inside {
                continue;
            }
            let mut name = address(at) + &asked_by(snapshot, block.stack);
            if state != "active_allocated" {
                name.push_str(", ");
                name.push_str(&state.replace('_', " "));
            }
            let view = || View { dtype: Dtype::U8, shape: vec![block.size], strides: vec![1], offset };
            if layout.tensor(&name, storage, view()).is_err() {
                let name = numbered(&mut again, name);
                layout.tensor(&name, storage, view()).map_err(|e| e.to_string())?;
            }
        }
    }
    Ok(layout)
}

fn segment_name(snapshot: &Snapshot, segment: &Segment) -> String {
    let kind = snapshot.strings.get(segment.segment_type);
    address(segment.address) + " " + kind + ", stream " + &segment.stream.to_string()
}

/// A name that was there before, with a number behind it: broken files have an address twice.
fn numbered(again: &mut BTreeMap<String, u64>, name: String) -> String {
    let n = again.entry(name.clone()).or_insert(1);
    *n += 1;
    format!("{name} #{n}")
}

/// An address as `0x7f00`; thousands of them are written for one picture.
fn address(at: i64) -> String {
    let at = at.cast_unsigned();
    let digits = (67 - at.leading_zeros().min(63)) / 4;
    let mut written = String::with_capacity(48);
    written.push_str("0x");
    for k in (0..digits).rev() {
        written.extend(char::from_digit(u32::try_from(at >> (4 * k) & 15).unwrap_or(0), 16));
    }
    written
}

fn bytes(n: i128) -> String {
    text::bytes(u64::try_from(n).unwrap_or(0))
}

/// What going backwards through the events of each device that was recorded finds; `each` is given device, event and the
/// state before it.
///
/// # Cost
/// `n log n` in the events.
pub(crate) fn histories(
    snapshot: &Snapshot,
    each: &mut dyn FnMut(usize, usize, Alive),
) -> Vec<(usize, History)> {
    let recorded = (0..snapshot.traces.len()).filter(|&device| !snapshot.traces[device].is_empty());
    recorded.map(|device| (device, snapshot.history(device, |k, alive| each(device, k, alive)))).collect()
}

/// When a device ran out of memory, as places among its events.
pub(crate) fn ooms(snapshot: &Snapshot, device: usize) -> Vec<usize> {
    let mut ooms = Vec::new();
    for (k, event) in snapshot.traces[device].iter().enumerate() {
        if snapshot.strings.get(event.action) == "oom" {
            ooms.push(k);
        }
    }
    ooms
}

/// What there is to tell of the time before the end, a line for each device that was recorded.
pub(crate) fn told_before(snapshot: &Snapshot, histories: &[(usize, History)]) -> Vec<String> {
    let line = |&(device, History { peak, .. }): &(usize, History)| {
        let ooms = ooms(snapshot, device);
        let words = ooms.first().map(|&first| {
            format!(", out of memory {}, first at event {}", text::count(ooms.len(), "time"), grouped(first))
        });
        format!(
            "cuda:{device}: {} recorded, at the peak {} allocated, {} reserved{}",
            text::count(snapshot.traces[device].len(), "event"),
            bytes(peak.allocated),
            bytes(peak.reserved),
            words.unwrap_or_default()
        )
    };
    histories.iter().map(line).collect()
}

fn told(snapshot: &Snapshot) -> Vec<String> {
    let figures = Figures::at_end(snapshot);
    // What was asked for is told of both.
    let (waits, both) = match figures.active_end - figures.allocated_end {
        more if 0 < more => (format!(", {} waiting to be freed", bytes(more)), " of both"),
        _ => (String::new(), ""),
    };
    let mut told = vec![
        format!(
            "{} of {}: {} reserved, {} allocated{waits}, {} asked for{both}",
            text::count(snapshot.segments.len(), "segment"),
            text::count(snapshot.blocks.len(), "block"),
            bytes(figures.reserved_end),
            bytes(figures.allocated_end),
            bytes(figures.requested_end)
        ),
        format!("{} lost to rounding of blocks in use", bytes(figures.rounding_waste)),
    ];
    if let Some(ratio) = figures.frag_ratio {
        told.push(format!(
            "{} free within segments, the largest piece {}: fragmentation {:.1} %{}",
            bytes(figures.external_free),
            text::bytes(figures.largest_free.unsigned_abs()),
            100.0 * ratio,
            match snapshot.held_at_end().len() {
                0 | 1 => String::new(),
                n => format!(" over {n} devices"),
            }
        ));
    }
    if figures.segment_block_layout_inconsistencies > 0 {
        let n = grouped(figures.segment_block_layout_inconsistencies);
        told.push(format!("segments that their blocks do not fill, or blocks out of place: {n}"));
    }
    told.extend(snapshot.problems.iter().map(|(what, n)| format!("{what}: {}", grouped(*n))));
    told
}

#[cfg(test)]
mod tests {
    /// A file that says a name once, and that name in each of its stacks, is not written out as often.
    #[test]
    fn of_names_as_long_as_a_file_the_beginning_is_told() {
        let mut file = b"\x80\x04}(".to_vec();
        let text = |file: &mut Vec<u8>, text: &str| {
            file.push(b'X');
            file.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            file.extend(text.as_bytes());
        };
        let long = "é".repeat(100_000);
        text(&mut file, "segments");
        file.push(b']');
        text(&mut file, "device_traces");
        file.extend(b"](](}(");
        for (key, value) in [("action", "alloc"), ("addr", "\x01"), ("size", "\x08"), ("stream", "\0")] {
            text(&mut file, key);
            if key == "action" { text(&mut file, value) } else { file.extend([b'K', value.as_bytes()[0]]) }
        }
        text(&mut file, "frames");
        file.extend(b"](}(");
        for key in ["filename", "name"] {
            text(&mut file, key);
            text(&mut file, &long);
        }
        text(&mut file, "line");
        file.extend(b"K\x07ueueeu.");
        let snapshot = super::Snapshot::read(&file).unwrap();
        let asked = super::asked_by(&snapshot, snapshot.traces[0][0].stack);
        assert_eq!(asked, format!(" {0} ({0}:7)", "é".repeat(500)));
    }

    #[test]
    fn addresses_are_written_as_everywhere() {
        for at in [0, 1, 15, 16, 255, 256, 0x7f00_0000_0000, i64::MAX, -1, i64::MIN] {
            assert_eq!(super::address(at), format!("{at:#x}"));
        }
    }

    #[test]
    fn the_end_has_every_block_that_is_in_use_within_its_segment() {
        use super::{Segment, Snapshot};
        use spanlift::trace::snapshot::Block;

        let mut found = Snapshot::default();
        let names = ["small", "active_allocated", "inactive", "active_pending_free"];
        let [small, used, unused, pending] = names.map(|name| found.strings.intern(name));
        // Each begins where the one before it ends: of the last two one reaches beyond the segment, one lies there.
        let blocks = [
            (100, unused),
            (50, used),
            (30, pending),
            (0, used),
            (5, unused),
            (15, used),
            (1, used),
            (4, used),
        ];
        let n = blocks.len();
        for (size, state) in blocks {
            found.blocks.push(Block { address: None, size, requested_size: size, state, stack: 0 });
        }
        for (device, blocks) in [(0, 0..n), (1, n..n)] {
            found.segments.push(Segment {
                device,
                address: 0x1000,
                total_size: 200,
                allocated_size: 0,
                active_size: 0,
                requested_size: 0,
                stream: 3,
                segment_type: small,
                blocks,
                stack: 0,
            });
        }
        let layout = super::layout(&found, |segment| segment.device == 0).unwrap();
        let segments: Vec<_> = layout.storages().iter().map(|s| (&*s.id, s.bytes.0)).collect();
        assert_eq!(segments, [("0x1000 small, stream 3", 200)]);
        let told = |tensor: &spanlift::memory::Tensor| {
            (tensor.name().to_owned(), tensor.view().offset, tensor.view().shape.clone())
        };
        let expected = [
            ("0x1064", 100, 50),
            ("0x1096, active pending free", 150, 30),
            ("0x10b4", 180, 0),
            ("0x10b9", 185, 15),
        ];
        let expected = expected.map(|(name, at, size)| (name.to_owned(), at, vec![size]));
        assert_eq!(layout.tensors().iter().map(told).collect::<Vec<_>>(), expected);
        assert_eq!(super::layout(&found, |_| true).unwrap().storages().len(), 2);
    }

    #[test]
    fn the_end_is_told_in_sums_of_its_segments() {
        use super::{Segment, Snapshot};
        use spanlift::trace::snapshot::Block;

        let told = |pending: i64, gap: Option<i64>| {
            let mut found = Snapshot::default();
            let names = ["small", "active_allocated", "inactive", "active_pending_free"];
            let [small, used, unused, waiting] = names.map(|name| found.strings.intern(name));
            let mut add = |address, size, requested_size, state| {
                found.blocks.push(Block { address, size, requested_size, state, stack: 0 });
            };
            add(None, 1024, 1000, used);
            add(None, 512, 0, unused);
            add(None, pending, pending, waiting);
            add(gap, 4096 - 1536 - pending, 0, unused);
            found.segments.push(Segment {
                device: 0,
                address: 0x1000,
                total_size: 4096,
                allocated_size: 1024,
                active_size: 1024 + pending,
                requested_size: 1000 + pending,
                stream: 0,
                segment_type: small,
                blocks: 0..4,
                stack: 0,
            });
            super::told(&found)
        };
        let expected = [
            "1 segment of 4 blocks: 4 KiB reserved, 1 KiB allocated, 512 B waiting to be freed, 1.48 KiB asked for of both",
            "24 B lost to rounding of blocks in use",
            "2.50 KiB free within segments, the largest piece 2 KiB: fragmentation 20.0 %",
        ];
        assert_eq!(told(512, None), expected);
        let told_none = told(0, None);
        assert_eq!(told_none[0], "1 segment of 4 blocks: 4 KiB reserved, 1 KiB allocated, 1000 B asked for");
        assert_eq!(told_none.len(), 3);
        let odd = "segments that their blocks do not fill, or blocks out of place: 1";
        assert_eq!(told(512, Some(0x1)).last().unwrap(), odd);
    }
}
