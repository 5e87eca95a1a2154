//! The arrows of one kind, found by what is on screen and by their slices without asking each.

use spanlift::trace::{Flow, Trace};

/// Arrows that are passed over together.
const CHUNK: usize = 64;

/// Arrows in the order of their trace, by index. Those that follow each other in a file are near each other in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Arrows {
    list: Vec<u32>,
    chunks: Vec<Chunk>,
}

/// What holds of `CHUNK` arrows together.
#[derive(Debug, Clone, PartialEq)]
struct Chunk {
    /// No view sees both ends of any of them that ends before `seen.0` or begins after `seen.1`.
    seen: (i64, i64),
    /// The least and the greatest slice at which one of them begins or ends.
    slices: (u32, u32),
}

impl Arrows {
    /// Adds the arrow at `index`; one whose slices are not there is left out.
    pub(super) fn push(&mut self, trace: &Trace, index: u32, flow: Flow) {
        let Some((first, last)) = seen(trace, flow) else { return };
        let slices = (flow.from.min(flow.to), flow.from.max(flow.to));
        match self.chunks.last_mut().filter(|_| !self.list.len().is_multiple_of(CHUNK)) {
            Some(chunk) => {
                chunk.seen = (chunk.seen.0.min(first), chunk.seen.1.max(last));
                chunk.slices = (chunk.slices.0.min(slices.0), chunk.slices.1.max(slices.1));
            }
            None => self.chunks.push(Chunk { seen: (first, last), slices }),
        }
        self.list.push(index);
    }

    /// Gives `each` those whose slices both have a part between two moments, or all those of one slice, until it says no.
    pub(crate) fn near(
        &self,
        trace: &Trace,
        (first, last): (i64, i64),
        of: Option<u32>,
        each: &mut dyn FnMut(u32) -> bool,
    ) {
        let is_near = |(from, until): (i64, i64)| from <= last && first <= until;
        for (list, chunk) in self.list.chunks(CHUNK).zip(&self.chunks) {
            let may_be_of = |slice| chunk.slices.0 <= slice && slice <= chunk.slices.1;
            if !of.map_or_else(|| is_near(chunk.seen), may_be_of) {
                continue;
            }
            for &k in list {
                let flow = trace.flows[k as usize];
                let is_of = |slice| flow.from == slice || flow.to == slice;
                let is_wanted = of.map_or_else(|| seen(trace, flow).is_some_and(is_near), is_of);
                if is_wanted && !each(k) {
                    return;
                }
            }
        }
    }
}

/// The later of the beginnings of an arrow's slices, and the earlier of their ends.
fn seen(trace: &Trace, flow: Flow) -> Option<(i64, i64)> {
    let slices = &trace.slices;
    let (a, b) = (flow.from as usize, flow.to as usize);
    Some(((*slices.start.get(a)?).max(*slices.start.get(b)?), (*slices.end.get(a)?).min(*slices.end.get(b)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, crowd};
    use spanlift::trace::FlowKind;

    #[test]
    fn what_is_found_is_what_asking_each_finds() {
        for seed in 0..20 {
            let mut random = Random(seed);
            let mut trace = crowd(seed, 300);
            let n = u64::try_from(trace.slices.len()).unwrap();
            let slice = |random: &mut Random, most| u32::try_from(random.below(most)).unwrap();
            for k in 0..random.below(400) {
                // Mostly neighbours, some anywhere, and a few at slices that are not there.
                let from = if k % 7 == 0 { slice(&mut random, n + 3) } else { u32::try_from(k % n).unwrap() };
                let to = if k % 5 == 0 { slice(&mut random, n + 3) } else { from.saturating_sub(1) };
                trace.flows.push(Flow { kind: FlowKind::Launch, from, to });
            }
            let mut arrows = Arrows::default();
            for (k, flow) in (0u32..).zip(&trace.flows) {
                arrows.push(&trace, k, *flow);
            }
            let slices = &trace.slices;
            let is_there = |f: &Flow| (f.from.max(f.to) as usize) < slices.len();
            for _ in 0..50 {
                let at = i64::try_from(random.below(1_000_000)).unwrap();
                let view = (at, at + i64::try_from(random.below(200_000)).unwrap());
                let on = |k: u32| slices.start[k as usize] <= view.1 && view.0 <= slices.end[k as usize];
                let near = |k: &u32| {
                    let f = &trace.flows[*k as usize];
                    is_there(f) && on(f.from) && on(f.to)
                };
                let all = 0..u32::try_from(trace.flows.len()).unwrap();
                let found = |of| {
                    let mut found = Vec::new();
                    arrows.near(&trace, view, of, &mut |k| {
                        found.push(k);
                        true
                    });
                    found
                };
                let expected: Vec<u32> = all.clone().filter(near).collect();
                assert_eq!(found(None), expected, "seed {seed}: {view:?}");
                let slice = slice(&mut random, n);
                let is_of = |k: &u32| {
                    let f = &trace.flows[*k as usize];
                    f.from == slice || f.to == slice
                };
                let of: Vec<u32> = all.filter(|k| is_there(&trace.flows[*k as usize]) && is_of(k)).collect();
                assert_eq!(found(Some(slice)), of, "seed {seed}: {view:?} of {slice}");
                let mut left = 3;
                arrows.near(&trace, view, None, &mut |_| {
                    left -= 1;
                    left > 0
                });
                assert_eq!(left, 3 - expected.len().min(3), "seed {seed}: it ends when it is told");
            }
        }
    }
}
