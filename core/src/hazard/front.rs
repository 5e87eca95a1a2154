//! Which of many spans may meet a given one: a plain list for a few, sorted by where they begin for many.

use crate::memory::Span;
use crate::ordered::{BTreeMap, CollectVec, joined};

/// Where the runs of a span lie modulo a number that divides all its strides: most neighbours in a matrix are told apart
/// by it in a few instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comb {
    /// The greatest common divisor of the strides; 0 for a plain range.
    pitch: i64,
    /// Where a run begins, from 0 up to before `pitch`.
    at: i64,
    /// Bytes of a run.
    elem: i64,
}

impl Comb {
    fn of(span: &Span) -> Comb {
        let pitch = span.dims().iter().fold(0u64, |gcd, d| {
            let (mut a, mut b) = (gcd, if d.count < 2 { 0 } else { d.stride.unsigned_abs() });
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        });
        let pitch = i64::try_from(pitch).unwrap_or_default();
        let at = if pitch == 0 { 0 } else { span.off().rem_euclid(pitch) };
        Comb { pitch, at, elem: span.elem() }
    }

    /// Whether the two surely share no byte; `false` says nothing.
    fn is_apart(self, other: Comb) -> bool {
        if self.pitch == 0 || self.pitch != other.pitch {
            return false;
        }
        // From a run of `self` up to the next one of `other`, and from there up to the next of `self`.
        let ahead = if self.at <= other.at { other.at - self.at } else { other.at - self.at + self.pitch };
        self.elem <= ahead && other.elem <= self.pitch - ahead
    }
}

/// Where the bytes of a span lie, as far as a few instructions tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    lo: i64,
    hi: i64,
    comb: Comb,
}

impl Place {
    /// Of a span that has bytes.
    pub(super) fn of(span: &Span) -> Option<Place> {
        span.bounds().map(|(lo, hi)| Place { lo, hi, comb: Comb::of(span) })
    }

    /// As if all bytes between the first and the last were in it.
    pub(super) fn filled(self) -> Place {
        Place { comb: Comb { pitch: 0, at: 0, elem: 0 }, ..self }
    }

    fn meets(&self, other: &Place) -> bool {
        self.lo < other.hi && other.lo < self.hi && !self.comb.is_apart(other.comb)
    }

    /// The pitch, and the size class: all places of class `k` are shorter than `2^(k + 1)`, so that those that meet
    /// `[lo, hi)` begin close by. Lengths beyond `i64` are in the last one.
    fn class(&self) -> (i64, u32) {
        let size = self.hi.checked_sub(self.lo).map_or(i64::BITS - 1, |len| len.max(1).ilog2());
        (self.comb.pitch, size)
    }
}

/// A set of numbered places.
#[derive(Debug)]
pub(super) enum Front {
    Few(Vec<(Place, u32)>),
    Many(BTreeMap<(i64, u32), Alike>),
}

/// Places of one pitch and size class.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// By where they begin and end.
    by_start: BTreeMap<(i64, i64, u32), Place>,
    /// By where their runs lie modulo the pitch, where there is one.
    by_phase: BTreeMap<(i64, u32), Place>,
    /// No run is longer.
    longest_run: i64,
}

/// Longest list that is looked through as a whole.
const FEW: usize = 64;

impl Default for Front {
    fn default() -> Self {
        Front::Few(Vec::new())
    }
}

/// Puts the numbers of those that are `near` into `ids`. A loop, since chains of adapters are calls where units of code are
/// optimised alone, and this is what every access of a program does.
fn few(list: &[(Place, u32)], ids: &mut Vec<u32>, near: impl Fn(&Place) -> bool) {
    for (place, id) in list {
        if near(place) {
            ids.push(*id);
        }
    }
}

impl Front {
    pub(super) fn insert(&mut self, place: Place, id: u32) {
        match self {
            Front::Few(list) => {
                if list.is_empty() {
                    // Most blocks are touched once.
                    list.reserve_exact(1);
                }
                list.push((place, id));
                if list.len() > FEW {
                    let list = std::mem::take(list);
                    *self = Front::Many(BTreeMap::new());
                    list.into_iter().for_each(|(place, id)| self.insert(place, id));
                }
            }
            Front::Many(classes) => {
                let alike = classes.entry(place.class()).or_default();
                alike.by_start.insert((place.lo, place.hi, id), place);
                if place.comb.pitch != 0 {
                    alike.by_phase.insert((place.comb.at, id), place);
                    alike.longest_run = alike.longest_run.max(place.comb.elem);
                }
            }
        }
    }

    pub(super) fn remove(&mut self, place: Place, id: u32) {
        match self {
            Front::Few(list) => {
                if let Some(k) = list.iter().position(|(_, other)| *other == id) {
                    list.swap_remove(k);
                }
            }
            Front::Many(classes) => {
                if let Some(alike) = classes.get_mut(&place.class()) {
                    alike.by_start.remove(&(place.lo, place.hi, id));
                    alike.by_phase.remove(&(place.comb.at, id));
                    if alike.by_start.is_empty() {
                        classes.remove(&place.class());
                    }
                }
            }
        }
    }

    /// Puts the numbers of all places that are not known to be apart from `place` into `ids`.
    pub(super) fn meeting(&self, place: &Place, ids: &mut Vec<u32>) {
        match self {
            Front::Few(list) => few(list, ids, |p| p.meets(place)),
            Front::Many(classes) => {
                for (&(pitch, size), alike) in classes {
                    if pitch != 0 && pitch == place.comb.pitch {
                        for phases in alike.phases(place.comb) {
                            let near = alike.by_phase.range((phases.start, 0)..(phases.end, 0));
                            ids.extend(near.filter(|(_, p)| p.meets(place)).map(|(&(_, id), _)| id));
                        }
                    } else {
                        let longest = 2i64.checked_pow(size + 1);
                        let from = longest.and_then(|l| place.lo.checked_sub(l)).unwrap_or(i64::MIN);
                        let near = alike.by_start.range((from, i64::MIN, 0)..(place.hi, i64::MIN, 0));
                        ids.extend(near.filter(|(_, p)| p.meets(place)).map(|(&(.., id), _)| id));
                    }
                }
            }
        }
    }

    /// Puts the numbers of all places between the first and the last byte of `place` into `ids`.
    pub(super) fn inside(&self, place: &Place, ids: &mut Vec<u32>) {
        let is_inside = |p: &Place| place.lo <= p.lo && p.hi <= place.hi;
        match self {
            Front::Few(list) => few(list, ids, is_inside),
            Front::Many(classes) => {
                let (_, longest) = place.class();
                for (_, alike) in classes.iter().filter(|((_, size), _)| *size <= longest) {
                    let near = alike.by_start.range((place.lo, i64::MIN, 0)..(place.hi, i64::MIN, 0));
                    ids.extend(near.filter(|(_, p)| is_inside(p)).map(|(&(.., id), _)| id));
                }
            }
        }
    }

    /// Puts the numbers at exactly this place into `ids`.
    pub(super) fn exactly(&self, place: &Place, ids: &mut Vec<u32>) {
        match self {
            Front::Few(list) => few(list, ids, |p| p == place),
            Front::Many(classes) => {
                if let Some(alike) = classes.get(&place.class()) {
                    let near = alike.by_start.range((place.lo, place.hi, 0)..=(place.lo, place.hi, u32::MAX));
                    ids.extend(near.filter(|(_, p)| *p == place).map(|(&(.., id), _)| id));
                }
            }
        }
    }

    /// All numbers.
    pub(super) fn ids(&self) -> Vec<u32> {
        match self {
            Front::Few(list) => list.iter().map(|&(_, id)| id).collect_vec(),
            Front::Many(classes) => {
                joined(classes.values().map(|alike| alike.by_start.keys().map(|&(.., id)| id)))
            }
        }
    }
}

impl Alike {
    /// Where runs begin, modulo the pitch, that may meet those of a comb of the same pitch: one range, or two where it goes
    /// round.
    fn phases(&self, comb: Comb) -> [std::ops::Range<i64>; 2] {
        let Comb { pitch, at, elem } = comb;
        let before = self.longest_run.saturating_sub(1);
        let length = before.saturating_add(elem);
        if pitch <= length {
            return [0..pitch, 0..0];
        }
        let from = (at - before).rem_euclid(pitch);
        match from.checked_add(length) {
            Some(to) if to <= pitch => [from..to, 0..0],
            _ => [from..pitch, 0..length - (pitch - from)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{DEFAULT_LIMIT, Dim, Overlap};

    /// Against the exact test, over all small spans of one and two strides.
    #[test]
    fn what_a_comb_tells_apart_shares_no_byte() {
        let mut spans = Vec::new();
        for off in 0..7 {
            for elem in [1, 2, 5] {
                for stride in [-6, 3, 6, 12] {
                    for second in [0, 4, 12] {
                        let dims = vec![Dim { count: 3, stride }, Dim { count: 2, stride: second }];
                        spans.push(Span::strided(off, elem, dims).unwrap());
                    }
                }
            }
        }
        let mut n_apart = 0;
        for a in &spans {
            for b in &spans {
                if Comb::of(a).is_apart(Comb::of(b)) {
                    n_apart += 1;
                    assert_eq!(a.overlaps(b, DEFAULT_LIMIT), Overlap::No, "{a:?} {b:?}");
                }
            }
        }
        assert!(n_apart > 1_000, "{n_apart}");
    }

    #[test]
    fn few_and_many_find_the_same_places() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: i64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            i64::try_from(state >> 2).unwrap() % below
        };
        let mut place = move |id: u32| {
            let lo = random(1000) - 300;
            let span = match random(3) {
                0 => Span::range(lo, 1 + random(1 << (id % 11))),
                k => {
                    let stride = [0, 24, 60][usize::try_from(k).unwrap()] * (1 - 2 * random(2));
                    Span::strided(lo, 1 + random(26), vec![Dim { count: 2 + random(5), stride }])
                }
            };
            Place::of(&span.unwrap()).unwrap()
        };
        for n in [10, 64, 65, 400] {
            let (mut front, mut plain) = (Front::default(), Vec::new());
            for id in 0..n {
                let new = place(id);
                front.insert(new, id);
                plain.push((new, id));
                if id % 5 == 4 {
                    let (old, id) = plain.swap_remove(id as usize / 3 % 4);
                    front.remove(old, id);
                }
            }
            let endless = Place { lo: i64::MIN, hi: i64::MAX, comb: plain[0].0.filled().comb };
            front.insert(endless, 5000);
            plain.push((endless, 5000));
            for round in 0..400 {
                let asked = if round % 3 == 0 { plain[round % plain.len()].0 } else { place(n) };
                let same = |found: &dyn Fn(&mut Vec<u32>), expected: &dyn Fn(&Place) -> bool| {
                    let mut ids = Vec::new();
                    found(&mut ids);
                    ids.sort_unstable();
                    let mut expected: Vec<u32> =
                        plain.iter().filter(|(p, _)| expected(p)).map(|&(_, id)| id).collect();
                    expected.sort_unstable();
                    assert_eq!(ids, expected, "{asked:?}");
                };
                same(&|ids| front.meeting(&asked, ids), &|p| p.meets(&asked));
                same(&|ids| front.exactly(&asked, ids), &|p| *p == asked);
                same(&|ids| front.inside(&asked, ids), &|p| asked.lo <= p.lo && p.hi <= asked.hi);
            }
            assert_eq!(front.ids().len(), plain.len());
        }
    }
}
