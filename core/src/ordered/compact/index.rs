//! An order of slots, as lists of at most [`CHUNK`] numbers: the part of a map that every map shares.

use std::cmp::Ordering;

/// Longest chunk: inserting moves at most so many numbers, and one list of chunks.
pub(super) const CHUNK: usize = 256;

/// Slots in the order of their keys. No chunk is empty.
#[derive(Debug, Clone)]
pub(super) struct Index {
    chunks: Vec<Vec<u32>>,
    /// Slots that had an entry.
    free: Vec<u32>,
    /// How many slots there are, the free ones too.
    n_slots: usize,
}

/// What is looked for. Closures would be compiled thrice for every map: as `Fn`, `FnMut` and `FnOnce`.
pub(super) trait Sought {
    /// How a slot lies to it.
    fn lies(&self, slot: u32) -> Ordering;
}

/// A place in the order: one that has a slot, or the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    chunk: usize,
    place: usize,
}

impl At {
    /// The first place, or the end where there is none.
    pub(super) const START: At = At { chunk: 0, place: 0 };
}

impl Index {
    pub(super) const fn new() -> Index {
        Index { chunks: Vec::new(), free: Vec::new(), n_slots: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.n_slots - self.free.len()
    }

    /// Behind the last slot.
    pub(super) fn end(&self) -> At {
        At { chunk: self.chunks.len(), place: 0 }
    }

    pub(super) fn get(&self, at: At) -> Option<u32> {
        self.chunks.get(at.chunk)?.get(at.place).copied()
    }

    /// The slots in their order: a list, since walking through chunks would be compiled for every map.
    #[inline(never)]
    pub(super) fn order(&self) -> Vec<u32> {
        self.chunks.concat()
    }

    /// The first place whose slot is not before what is sought, and that slot where it is what is sought.
    #[inline(never)]
    pub(super) fn lower(&self, sought: &dyn Sought) -> (At, Option<u32>) {
        let lies_before = |slot: Option<&u32>| slot.is_some_and(|&slot| sought.lies(slot).is_lt());
        // Keys that come in their order are looked for once.
        if lies_before(self.chunks.last().and_then(|chunk| chunk.last())) {
            return (self.end(), None);
        }
        let (mut chunk, mut end) = (0, self.chunks.len());
        while chunk < end {
            let middle = usize::midpoint(chunk, end);
            match lies_before(self.chunks[middle].last()) {
                true => chunk = middle + 1,
                false => end = middle,
            }
        }
        let Some(slots) = self.chunks.get(chunk) else { return (self.end(), None) };
        let (mut place, mut end, mut found) = (0, slots.len(), None);
        while place < end {
            let middle = usize::midpoint(place, end);
            match sought.lies(slots[middle]) {
                Ordering::Less => place = middle + 1,
                Ordering::Equal => (end, found) = (middle, Some(slots[middle])),
                Ordering::Greater => end = middle,
            }
        }
        (At { chunk, place }, found)
    }

    /// Finds a slot for an entry before the one at `at`: a free one, or one behind all others.
    #[inline(never)]
    pub(super) fn insert(&mut self, at: At) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.n_slots += 1;
            u32::try_from(self.n_slots - 1).expect("bug: more entries than memory holds")
        });
        self.put(at, slot);
        slot
    }

    fn put(&mut self, at: At, slot: u32) {
        let n = self.chunks.len();
        let Some(slots) = self.chunks.get_mut(at.chunk) else {
            // Behind the last: keys that come in their order fill every chunk.
            match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
                Some(last) => last.push(slot),
                None => self.chunks.push(vec![slot]),
            }
            return;
        };
        debug_assert!(at.chunk < n && at.place < slots.len(), "bug: a place outside the order");
        slots.insert(at.place, slot);
        if CHUNK < slots.len() {
            let half = slots.split_off(slots.len() / 2);
            self.chunks.insert(at.chunk + 1, half);
        }
    }

    /// Takes the slot at `at` out of the order, and frees it.
    #[inline(never)]
    pub(super) fn remove(&mut self, at: At) -> Option<u32> {
        let slot = self.get(at)?;
        self.free.push(slot);
        self.chunks[at.chunk].remove(at.place);
        let len = self.chunks[at.chunk].len();
        if len == 0 {
            self.chunks.remove(at.chunk);
        } else if let Some(next) = self.chunks.get(at.chunk + 1)
            && len + next.len() <= CHUNK / 2
        {
            let next = self.chunks.remove(at.chunk + 1);
            self.chunks[at.chunk].extend(next);
        }
        Some(slot)
    }

    pub(super) fn after(&self, at: At) -> At {
        match self.chunks.get(at.chunk) {
            Some(slots) if at.place + 1 < slots.len() => At { chunk: at.chunk, place: at.place + 1 },
            _ => At { chunk: at.chunk + 1, place: 0 },
        }
    }

    pub(super) fn before(&self, at: At) -> Option<At> {
        match at.place.checked_sub(1) {
            Some(place) => Some(At { chunk: at.chunk, place }),
            None => {
                let chunk = at.chunk.checked_sub(1)?;
                Some(At { chunk, place: self.chunks.get(chunk)?.len() - 1 })
            }
        }
    }
}
