//! What a device's memory held at any event of its trace, without going through the events before or after it.
//!
//! Going backwards once gives every block and every piece of reserved memory a life: the events between which it was
//! there. At every so many events a list says which lives run; a moment is the list before it, without what has ended,
//! and with what has begun since.

use super::Snapshot;
use super::history::{Step, Steps};
use crate::ordered::{BTreeMap, sort_by_key};

/// Places in the lists of all moments together: some 16 MB.
const LISTED: usize = 4 << 20;
/// Events from one list to the next at least.
const LEAST: usize = 1024;

/// How long something was there.
///
/// It is there at the moments `from..=to`; moment `m` is the state before event `m`, and the number of events is the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Life {
    /// Where it begins.
    pub addr: i64,
    /// Bytes.
    pub size: i64,
    /// The stack that asked for it; 0 where the trace does not tell.
    pub stack: u32,
    /// The stream that it belongs to, where the trace tells.
    pub stream: Option<i64>,
    /// The first moment at which it is there.
    pub from: u32,
    /// The last one.
    pub to: u32,
    /// Whether it is a piece of a segment that grew or shrank.
    is_piece: bool,
}

/// The lives of a device's memory.
#[derive(Debug, Clone, Default)]
pub struct Past {
    blocks: Lives,
    segments: Lives,
    n_events: usize,
}

/// Lives by their beginning, and which of them run at every so many moments.
#[derive(Debug, Clone, Default)]
struct Lives {
    lives: Vec<Life>,
    every: usize,
    /// Where each list ends in `listed`.
    ends: Vec<usize>,
    /// The lives of each list by address.
    listed: Vec<u32>,
}

/// A device's memory at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moment {
    /// Memory that the allocator holds, by address; pieces of one segment that touch are one.
    pub segments: Vec<Life>,
    /// Blocks that are not free, by address.
    pub blocks: Vec<Life>,
}

/// Sums over a [`Moment`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes of segments.
    pub reserved: i128,
    /// Bytes of blocks.
    pub allocated: i128,
    /// Bytes within segments that no block has.
    pub free: i128,
    /// The largest piece of them.
    pub largest_free: i128,
}

impl Held {
    /// `1 - largest_free / free`; 0 when nothing is free.
    pub fn fragmentation(&self) -> f64 {
        if self.free <= 0 { 0.0 } else { 1.0 - self.largest_free as f64 / self.free as f64 }
    }
}

impl Moment {
    /// The sums.
    ///
    /// # Cost
    /// Linear in segments and blocks.
    pub fn held(&self) -> Held {
        let sum = |lives: &[Life]| lives.iter().map(|life| i128::from(life.size)).sum();
        let mut held =
            Held { reserved: sum(&self.segments), allocated: sum(&self.blocks), ..Held::default() };
        let mut next = 0;
        for segment in &self.segments {
            // Sizes are below 2^60, so that only a broken file's ends are cut.
            let (mut at, end) = (segment.addr, segment.addr.saturating_add(segment.size));
            let mut gap = |from: i64, to: i64| {
                if from < to {
                    let gap = i128::from(to) - i128::from(from);
                    held.free += gap;
                    held.largest_free = held.largest_free.max(gap);
                }
            };
            // Blocks outside of segments are the file's mistake, and free nothing.
            while self.blocks.get(next).is_some_and(|block| block.addr < at) {
                next += 1;
            }
            while let Some(block) = self.blocks.get(next).filter(|block| block.addr < end) {
                gap(at, block.addr);
                at = at.max(block.addr.saturating_add(block.size));
                next += 1;
            }
            gap(at, end);
        }
        held
    }
}

impl Snapshot {
    /// The lives of a device's memory.
    ///
    /// # Panics
    /// When there is no such device.
    ///
    /// # Cost
    /// `n log n` in events and blocks; some 20 MB for a million events.
    ///
    /// # Examples
    /// ```
    /// # let bytes: &[u8] = b"\x80\x02}(X\x08\x00\x00\x00segments]X\r\x00\x00\x00device_traces]]au.";
    /// let snapshot = spanlift::trace::snapshot::Snapshot::read(bytes)?;
    /// let past = snapshot.past(0);
    /// assert!(past.at(past.n_events()).blocks.is_empty());
    /// # Ok::<(), spanlift::trace::snapshot::ReadError>(())
    /// ```
    pub fn past(&self, device: usize) -> Past {
        let events = &self.traces[device];
        let end = moment(events.len());
        let life =
            |addr, size, stack, stream, to| Life { addr, size, stack, stream, from: 0, to, is_piece: false };
        let of_device = || self.segments.iter().filter(|s| usize::try_from(s.device) == Ok(device));
        let mut segments: Vec<Life> = Vec::new();
        let mut blocks: Vec<Life> = Vec::new();
        for segment in of_device() {
            segments.push(life(
                segment.address,
                segment.total_size,
                segment.stack,
                Some(segment.stream),
                end,
            ));
            for (at, block) in self.placed(segment) {
                if self.strings.get(block.state) != "inactive" {
                    blocks.push(life(at, block.size, block.stack, Some(segment.stream), end));
                }
            }
        }
        let by_address = |lives: &[Life]| -> BTreeMap<i64, usize> {
            lives.iter().enumerate().map(|(k, life)| (life.addr, k)).collect()
        };
        let (mut held, mut alive) = (by_address(&segments), by_address(&blocks));
        let mut steps = Steps::default();
        for (index, event) in events.iter().enumerate().rev() {
            let (before, after) = (moment(index), moment(index + 1));
            match steps.of(event, &self.strings) {
                Step::Alloc => {
                    if let Some(k) = alive.remove(&event.addr) {
                        (blocks[k].from, blocks[k].stack) = (after, event.stack);
                    }
                }
                Step::Free => {
                    // Two lives of one address cannot run at once.
                    if let Some(k) = alive.insert(event.addr, blocks.len()) {
                        blocks[k].from = after;
                    }
                    blocks.push(life(event.addr, event.size, 0, Some(event.stream), before));
                }
                Step::Grow => grown(&mut segments, &mut held, event.addr, event.size, (after, event.stack)),
                Step::Shrink => {
                    if let Some(k) = held.insert(event.addr, segments.len()) {
                        segments[k].from = after;
                    }
                    let mut piece = life(event.addr, event.size, 0, Some(event.stream), before);
                    piece.is_piece = self.strings.get(event.action) == "segment_unmap";
                    segments.push(piece);
                }
                Step::Nothing => {}
            }
        }
        let n_events = events.len();
        Past { blocks: Lives::new(blocks, n_events), segments: Lives::new(segments, n_events), n_events }
    }
}

/// Reserved memory began here: all of a segment, or a piece of one, which is cut out of it.
fn grown(
    segments: &mut Vec<Life>,
    held: &mut BTreeMap<i64, usize>,
    addr: i64,
    size: i64,
    (from, stack): (u32, u32),
) {
    let Some((_, &k)) = held.range(..=addr).next_back() else { return };
    let whole = segments[k];
    let (end, whole_end) = (addr.saturating_add(size), whole.addr.saturating_add(whole.size));
    if size <= 0 || whole_end < end {
        return;
    }
    if (whole.addr, whole.size) == (addr, size) {
        (segments[k].from, segments[k].stack) = (from, stack);
        held.remove(&addr);
        return;
    }
    // What is left and right of it was there before.
    held.remove(&whole.addr);
    segments[k] = Life { addr, size, from, stack, is_piece: true, ..whole };
    for (addr, end) in [(whole.addr, addr), (end, whole_end)] {
        if addr < end {
            held.insert(addr, segments.len());
            segments.push(Life { addr, size: end - addr, is_piece: true, ..whole });
        }
    }
}

/// A file has fewer events than a `u32` counts; a hostile one of more shows the first of them.
fn moment(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl Lives {
    fn new(mut lives: Vec<Life>, n_events: usize) -> Lives {
        lives.retain(|life| life.from <= life.to);
        // In a module whose standard library is built small its unstable sort is a heap's, several times slower.
        sort_by_key(&mut lives, |life| (life.from, life.addr));
        let running: usize = lives.iter().map(|life| (life.to - life.from) as usize + 1).sum();
        let every = LEAST.max(running / LISTED + 1);
        let n_lists = n_events / every + 1;
        let mut by_address: Vec<u32> = (0u32..).take(lives.len()).collect();
        sort_by_key(&mut by_address, |&k| lives[k as usize].addr);
        // Counted first, so that all lists are one.
        let lists = |life: &Life| (life.from as usize).div_ceil(every)..life.to as usize / every + 1;
        let mut ends = vec![0; n_lists];
        for life in &lives {
            lists(life).for_each(|list| ends[list] += 1);
        }
        let mut all = 0;
        let mut next: Vec<usize> = Vec::with_capacity(n_lists);
        for end in &mut ends {
            next.push(all);
            all += *end;
            *end = all;
        }
        let mut listed = vec![0; all];
        for &k in &by_address {
            for list in lists(&lives[k as usize]) {
                listed[next[list]] = k;
                next[list] += 1;
            }
        }
        Lives { lives, every, ends, listed }
    }

    /// Those that run at a moment, by address.
    fn at(&self, m: usize) -> Vec<Life> {
        if self.ends.is_empty() {
            return Vec::new();
        }
        let list = (m / self.every).min(self.ends.len() - 1);
        let begin = list.checked_sub(1).map_or(0, |before| self.ends[before]);
        let (listed_at, m) = (moment(list * self.every), moment(m));
        let first = self.lives.partition_point(|life| life.from <= listed_at);
        let last = self.lives.partition_point(|life| life.from <= m);
        let mut new: Vec<&Life> = self.lives[first..last].iter().filter(|life| m <= life.to).collect();
        sort_by_key(&mut new, |life| life.addr);
        let old = &self.listed[begin..self.ends[list]];
        let mut all = Vec::with_capacity(old.len() + new.len());
        // Plain loops: a hand that moves through a snapshot waits for them.
        let mut next = 0;
        for &k in old {
            let life = &self.lives[k as usize];
            if life.to < m {
                continue;
            }
            while next < new.len() && new[next].addr < life.addr {
                all.push(*new[next]);
                next += 1;
            }
            all.push(*life);
        }
        all.extend(new[next..].iter().map(|life| **life));
        all
    }
}

impl Past {
    /// How many events there are; the moments are one more.
    pub fn n_events(&self) -> usize {
        self.n_events
    }

    /// The memory before event `moment`, or at the end.
    ///
    /// # Cost
    /// Linear in what is there then and in some thousand events, wherever the moment is.
    pub fn at(&self, moment: usize) -> Moment {
        let moment = moment.min(self.n_events);
        let mut segments: Vec<Life> = Vec::new();
        for life in self.segments.at(moment) {
            match segments.last_mut() {
                Some(last)
                    if (last.is_piece || life.is_piece)
                        && last.stream == life.stream
                        && last.addr.saturating_add(last.size) == life.addr =>
                {
                    last.size = last.size.saturating_add(life.size);
                    last.from = last.from.min(life.from);
                    last.to = last.to.min(life.to);
                }
                _ => segments.push(life),
            }
        }
        Moment { segments, blocks: self.blocks.at(moment) }
    }

    /// The lives of blocks by their beginning.
    pub fn blocks(&self) -> &[Life] {
        &self.blocks.lives
    }
}
