//! The bytes of blocks, and strided reads, writes and copies of them.

use std::collections::BTreeMap;

use spanlift::memory::{Dim, Span};
use spanlift::program::{BufferId, Facts};
use spanlift::sim::Final;

/// The bytes of the blocks that carry any, by the buffer that names the block; others hold zeros and take nothing.
#[derive(Debug, Default)]
pub(super) struct Blocks(Vec<Option<Vec<u8>>>);

impl Blocks {
    /// Zeros in every block that carries bytes.
    pub(super) fn new(facts: &Facts, carried: &[bool]) -> Blocks {
        let bytes = |k: usize| {
            let block = BufferId::try_from(k).unwrap_or(BufferId::FIRST);
            vec![0; length(facts.buffer(block).block_bytes.unsigned_abs())]
        };
        Blocks(carried.iter().enumerate().map(|(k, &carries)| carries.then(|| bytes(k))).collect())
    }

    pub(super) fn carries(&self, block: BufferId) -> bool {
        self.get(block).is_some()
    }

    fn get(&self, block: BufferId) -> Option<&Vec<u8>> {
        self.0.get(block.index())?.as_ref()
    }

    fn get_mut(&mut self, block: BufferId) -> Option<&mut Vec<u8>> {
        self.0.get_mut(block.index())?.as_mut()
    }

    /// Puts bytes in the place of a block's.
    pub(super) fn give(&mut self, block: BufferId, bytes: Vec<u8>) {
        if let Some(held) = self.get_mut(block) {
            *held = bytes;
        }
    }

    /// The first `n` bytes of a span, in the order of its elements.
    pub(super) fn read(&self, block: BufferId, span: &Span, n: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(length(n));
        match self.get(block) {
            None => out.resize(length(n), 0),
            Some(bytes) => Runs::new(span).take(n, |at, len| out.extend_from_slice(&bytes[at..at + len])),
        }
        out
    }

    /// Writes bytes in the order of a span's elements.
    pub(super) fn write(&mut self, block: BufferId, span: &Span, new: &[u8]) {
        let Some(bytes) = self.get_mut(block) else { return };
        let mut done = 0;
        Runs::new(span).take(new.len() as u64, |at, len| {
            bytes[at..at + len].copy_from_slice(&new[done..done + len]);
            done += len;
        });
    }

    pub(super) fn fill(&mut self, block: BufferId, span: &Span, value: u8) {
        if let Some(bytes) = self.get_mut(block) {
            Runs::new(span).take(bytes_of(span), |at, len| bytes[at..at + len].fill(value));
        }
    }

    /// Copies `n` bytes; within one block as if all were read before any is written.
    pub(super) fn copy(&mut self, to: (BufferId, &Span), from: (BufferId, &Span), n: u64) {
        if !self.carries(to.0) {
            return;
        }
        if to.0 == from.0 || !self.carries(from.0) {
            let bytes = self.read(from.0, from.1, n);
            return self.write(to.0, to.1, &bytes);
        }
        // Taken out for as long as it is written, so that the other one can be read.
        let Some(mut dst) = self.0.get_mut(to.0.index()).and_then(Option::take) else { return };
        if let Some(src) = self.get(from.0) {
            copy_runs((&mut dst, to.1), (src, from.1), n);
        }
        if let Some(held) = self.0.get_mut(to.0.index()) {
            *held = Some(dst);
        }
    }

    /// The bytes of each block, under the last buffer that had it.
    pub(super) fn finals(self, owners: &BTreeMap<BufferId, BufferId>) -> Vec<Final> {
        let blocks = self.0.into_iter().enumerate();
        let finals = blocks.filter_map(|(k, bytes)| {
            let buffer = *owners.get(&BufferId::try_from(k).ok()?)?;
            Some(Final { buffer, bytes: bytes? })
        });
        finals.collect()
    }
}

/// Calls `f` with offset and length of every run of a span, in the order of its elements.
pub(crate) fn runs(span: &Span, f: impl FnMut(usize, usize)) {
    Runs::new(span).take(bytes_of(span), f);
}

/// Copies run by run: as much at once as both sides have in a row.
fn copy_runs((dst, dst_span): (&mut [u8], &Span), (src, src_span): (&[u8], &Span), n: u64) {
    pairs(dst_span, src_span, n, |to, from, len| dst[to..to + len].copy_from_slice(&src[from..from + len]));
}

/// Calls `f` with destination, source and length of every piece that both sides of a copy have in a row.
pub(crate) fn pairs(dst: &Span, src: &Span, n: u64, mut f: impl FnMut(usize, usize, usize)) {
    let (mut to, mut from) = (Runs::new(dst), Runs::new(src));
    let mut left = length(n);
    let (mut dst_run, mut src_run) = ((0, 0), (0, 0));
    while left > 0 {
        if dst_run.1 == 0 {
            let Some(next) = to.next() else { return };
            dst_run = next;
        }
        if src_run.1 == 0 {
            let Some(next) = from.next() else { return };
            src_run = next;
        }
        let len = dst_run.1.min(src_run.1).min(left);
        f(dst_run.0, src_run.0, len);
        dst_run = (dst_run.0 + len, dst_run.1 - len);
        src_run = (src_run.0 + len, src_run.1 - len);
        left -= len;
    }
}

/// The runs of a span, as offset and length, the last dimension fastest.
struct Runs {
    dims: Vec<Dim>,
    /// How often each dimension was stepped.
    index: Vec<i64>,
    at: i64,
    run: usize,
    is_done: bool,
}

impl Runs {
    fn new(span: &Span) -> Runs {
        let mut dims: Vec<Dim> = span.dims().iter().copied().filter(|d| d.count != 1).collect();
        let mut run = span.elem();
        // Elements in a row are one run.
        while let Some(last) = dims.last().filter(|d| d.stride == run && !span.is_empty()) {
            run *= last.count;
            dims.pop();
        }
        let index = vec![0; dims.len()];
        Runs { dims, index, at: span.off(), run: length(run.unsigned_abs()), is_done: span.is_empty() }
    }

    /// Calls `f` for the runs of the first `n` bytes.
    fn take(mut self, n: u64, mut f: impl FnMut(usize, usize)) {
        let mut left = length(n);
        while left > 0
            && let Some((at, len)) = self.next()
        {
            let len = len.min(left);
            f(at, len);
            left -= len;
        }
    }
}

impl Iterator for Runs {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        if self.is_done {
            return None;
        }
        let at = usize::try_from(self.at).unwrap_or_else(|_| unreachable!("bug: a span outside its block"));
        self.is_done = true;
        for (index, d) in self.index.iter_mut().zip(&self.dims).rev() {
            *index += 1;
            self.at += d.stride;
            if *index < d.count {
                self.is_done = false;
                break;
            }
            self.at -= *index * d.stride;
            *index = 0;
        }
        Some((at, self.run))
    }
}

/// Bytes of a span, each as often as it is counted; the largest number where that is too large.
pub(crate) fn bytes_of(span: &Span) -> u64 {
    if span.is_empty() {
        return 0;
    }
    span.dims().iter().fold(span.elem().unsigned_abs(), |n, d| n.saturating_mul(d.count.unsigned_abs()))
}

/// A number of bytes that are within the limit.
fn length(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_index_tuples_in_order() {
        let mut state = 3u64;
        let mut below = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(state >> 33).unwrap() % n
        };
        for case in 0..2_000 {
            let dims: Vec<Dim> =
                (0..below(4)).map(|_| Dim { count: below(4), stride: below(12) - 4 }).collect();
            let span = Span::strided(100, below(5), dims.clone()).unwrap();
            let mut offsets = vec![span.off()];
            for d in &dims {
                offsets = offsets.iter().flat_map(|o| (0..d.count).map(move |i| o + i * d.stride)).collect();
            }
            let expected: Vec<i64> =
                offsets.iter().flat_map(|o| (0..span.elem()).map(move |j| o + j)).collect();
            assert_eq!(bytes_of(&span), expected.len() as u64, "case {case}");
            for n in [expected.len(), expected.len() / 2] {
                let mut found = Vec::new();
                Runs::new(&span).take(n as u64, |at, len| found.extend(at..at + len));
                let expected: Vec<usize> =
                    expected[..n].iter().map(|&b| usize::try_from(b).unwrap()).collect();
                assert_eq!(found, expected, "case {case}: {span:?}");
            }
        }
    }
}
