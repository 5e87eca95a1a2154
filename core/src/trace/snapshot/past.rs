//! What a device's memory held at any event of its trace, without going through the events before or after it.
//!
//! Going backwards once gives every block and every piece of reserved memory a life: the events between which it was
//! there. At every so many events a list says which lives run; a moment is the list before it, without what has ended,
//! and with what has begun since.

use super::Snapshot;
use super::history::{Step, Steps};
use crate::ordered::{BTreeMap, CollectVec, sort_by_key};

/// Places in the lists of all moments together: some 16 MB.
const LISTED: usize = 4 << 20;
/// Events from one list to the next, where the lists have room for all that is there.
const LEAST: usize = 1000;

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

/// Lives by their address, and which of them run at every so many moments.
#[derive(Debug, Clone, Default)]
struct Lives {
    /// Those of one address by their beginning.
    lives: Vec<Life>,
    /// The last moment of each, and its address and size. What is asked of all that are there at a moment lies close
    /// together: looking up that many lives is waiting for memory.
    last: Vec<u32>,
    spans: Vec<(i64, i64)>,
    /// Their places by their beginning.
    begun: Vec<u32>,
    every: usize,
    /// Where each list ends in `listed`.
    ends: Vec<usize>,
    /// The places of the lives of each list, in order: whoever looks them up goes through memory in one direction.
    listed: Vec<u32>,
}

/// A device's memory at one moment.
#[derive(Debug, Clone)]
pub struct Moment<'p> {
    past: &'p Past,
    /// Memory that the allocator holds, by address; pieces of one segment that touch are one.
    pub segments: Vec<Life>,
    /// Blocks that are not free, by address: their places in [`Past::blocks`].
    pub places: Vec<u32>,
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

impl<'p> Moment<'p> {
    /// The blocks that are not free, by address.
    pub fn blocks(&self) -> impl Iterator<Item = &'p Life> {
        let lives = self.past.blocks();
        self.places.iter().map(move |&k| &lives[k as usize])
    }

    /// The sums.
    ///
    /// # Cost
    /// Linear in segments and blocks.
    pub fn held(&self) -> Held {
        let mut held = Held::default();
        let mut largest = 0;
        let spans = self.past.spans();
        for &k in &self.places {
            held.allocated += i128::from(spans[k as usize].1);
        }
        let mut blocks = self.places.iter().map(|&k| spans[k as usize]).peekable();
        for segment in &self.segments {
            held.reserved += i128::from(segment.size);
            // Sizes are below 2^60, so that only a broken file's ends are cut.
            let (mut at, end) = (segment.addr, segment.addr.saturating_add(segment.size));
            let mut free = 0;
            // All gaps of a segment together are no longer than it is.
            let mut gap = |from: i64, to: i64| {
                let gap = to.saturating_sub(from).max(0);
                free += gap;
                largest = largest.max(gap);
            };
            // Blocks outside of segments are the file's mistake, and free nothing.
            while blocks.next_if(|block| block.0 < at).is_some() {}
            while let Some((addr, size)) = blocks.next_if(|block| block.0 < end) {
                gap(at, addr);
                at = at.max(addr.saturating_add(size));
            }
            gap(at, end);
            held.free += i128::from(free);
        }
        held.largest_free = largest.into();
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
    /// `n log n` in events and blocks; some 70 bytes for each block that was ever there, and up to 16 MB for all moments.
    ///
    /// # Examples
    /// ```
    /// # let bytes: &[u8] = b"\x80\x02}(X\x08\x00\x00\x00segments]X\r\x00\x00\x00device_traces]]au.";
    /// let snapshot = spanlift::trace::snapshot::Snapshot::read(bytes)?;
    /// let past = snapshot.past(0);
    /// assert!(past.at(past.n_events()).places.is_empty());
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

/// Reserved memory began here: all of a segment, or a piece, which is cut out of what it lies in. Of what grew at once, parts may
/// have gone since, and some of those have come again.
fn grown(
    segments: &mut Vec<Life>,
    held: &mut BTreeMap<i64, usize>,
    addr: i64,
    size: i64,
    (from, stack): (u32, u32),
) {
    let end = addr.saturating_add(size);
    while let Some((_, &k)) = held.range(..end).next_back() {
        let whole = segments[k];
        let whole_end = whole.addr.saturating_add(whole.size);
        let (first, last) = (whole.addr.max(addr), whole_end.min(end));
        if last <= addr {
            return;
        }
        held.remove(&whole.addr);
        let is_piece = whole.is_piece || last - first < whole.size;
        segments[k] = Life { addr: first, size: last - first, from, stack, is_piece, ..whole };
        // What is left and right of it was there before.
        for (addr, end) in [(whole.addr, first), (last, whole_end)] {
            if addr < end {
                held.insert(addr, segments.len());
                segments.push(Life { addr, size: end - addr, is_piece: true, ..whole });
            }
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
        sort_by_key(&mut lives, |life| (life.addr, life.from));
        let mut begun: Vec<u32> = (0u32..).take(lives.len()).collect_vec();
        sort_by_key(&mut begun, |&k| lives[k as usize].from);
        let running: usize = lives.iter().map(|life| (life.to - life.from) as usize + 1).sum();
        let every = LEAST.max(running / LISTED + 1);
        let n_lists = n_events / every + 1;
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
        for (k, life) in (0u32..).zip(&lives) {
            for list in lists(life) {
                listed[next[list]] = k;
                next[list] += 1;
            }
        }
        let last = lives.iter().map(|life| life.to).collect_vec();
        let spans = lives.iter().map(|life| (life.addr, life.size)).collect_vec();
        Lives { lives, last, spans, begun, every, ends, listed }
    }

    /// The places of those that run at a moment, by address.
    fn at(&self, m: usize) -> Vec<u32> {
        if self.ends.is_empty() {
            return Vec::new();
        }
        let list = (m / self.every).min(self.ends.len() - 1);
        let begin = list.checked_sub(1).map_or(0, |before| self.ends[before]);
        let (listed_at, m) = (moment(list * self.every), moment(m));
        let begun = |at: u32| self.begun.partition_point(|&k| self.lives[k as usize].from <= at);
        let is_there = |k: &u32| m <= self.last[*k as usize];
        let mut new: Vec<u32> = self.begun[begun(listed_at)..begun(m)].to_vec();
        new.retain(is_there);
        sort_by_key(&mut new, |&k| k);
        let old = &self.listed[begin..self.ends[list]];
        let mut all = Vec::with_capacity(old.len() + new.len());
        // Plain loops: a hand that moves through a snapshot waits for them.
        let mut next = 0;
        for k in old.iter().filter(|k| is_there(k)) {
            while next < new.len() && new[next] < *k {
                all.push(new[next]);
                next += 1;
            }
            all.push(*k);
        }
        all.extend_from_slice(&new[next..]);
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
    pub fn at(&self, moment: usize) -> Moment<'_> {
        let moment = moment.min(self.n_events);
        let mut segments: Vec<Life> = Vec::new();
        for k in self.segments.at(moment) {
            let life = self.segments.lives[k as usize];
            match segments.last_mut() {
                Some(last)
                    if (last.is_piece || life.is_piece)
                        && last.stream == life.stream
                        && last.addr.saturating_add(last.size) == life.addr =>
                {
                    last.size = last.size.saturating_add(life.size);
                    last.is_piece = life.is_piece;
                    last.from = last.from.min(life.from);
                    last.to = last.to.min(life.to);
                }
                _ => segments.push(life),
            }
        }
        Moment { past: self, segments, places: self.blocks.at(moment) }
    }

    /// The lives of blocks by their address, and those of one address by their beginning.
    pub fn blocks(&self) -> &[Life] {
        &self.blocks.lives
    }

    /// Address and size of each of them, which is all that most questions about very many need.
    pub fn spans(&self) -> &[(i64, i64)] {
        &self.blocks.spans
    }
}
