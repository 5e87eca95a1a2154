//! How bytes are cut into chunks: in a ramp, so that threads that begin together do not end together.

use crate::units::Bytes;

/// The sizes of the chunks that `W` threads take one after the other: `c/W, 2c/W, .., c`, then all of `c`, in whole pages.
///
/// Chunks of equal size that are begun together are done together: the link idles until then, and has `W` of them at once. In
/// a ramp it has the first after `1/W` of the time, and from then on one at a time.
///
/// ```text
/// size(k)  = min((k + 1) s, c)                s = c/W in whole pages
/// first(k) = size(0) + .. + size(k - 1)       where chunk k begins
/// ```
///
/// On the way to the device chunks are taken in this order; on the way back in the reverse order, as the link is what is
/// first there.
///
/// # Examples
/// ```
/// use spanlift::Bytes;
/// use spanlift::advise::transfer::Cut;
///
/// let cut = Cut::new(Bytes(16 << 10), 4);
/// let kib: Vec<u64> = cut.sizes(60 << 10).map(|n| n >> 10).collect();
/// assert_eq!(kib, [4, 8, 12, 16, 16, 4]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    chunk: u64,
    step: u64,
    /// How many are smaller than all others.
    ramp: u64,
}

/// Chunks end where pages do.
const PAGE: u64 = 4096;

impl Cut {
    /// Chunks of at most `chunk` bytes for `workers` threads; both count as at least 1.
    pub fn new(chunk: Bytes, workers: u32) -> Cut {
        let chunk = chunk.0.max(1);
        let step = chunk.div_ceil(u64::from(workers.max(1)));
        let step = step.checked_next_multiple_of(PAGE).unwrap_or(step);
        Cut { chunk, step, ramp: (chunk - 1) / step }
    }

    /// The same ramp with chunks of at most `chunk` bytes.
    pub(super) fn capped(self, chunk: u64) -> Cut {
        let chunk = chunk.clamp(1, self.chunk);
        Cut { chunk, ramp: (chunk - 1) / self.step, ..self }
    }

    /// Bytes of chunk `k`, unless it is the last.
    pub fn size(&self, k: u64) -> u64 {
        self.step.saturating_mul(k.saturating_add(1)).min(self.chunk)
    }

    /// Bytes of the first `k` of them.
    fn ramped(&self, k: u64) -> u64 {
        let sum = u128::from(k) * (u128::from(k) + 1) / 2;
        u64::try_from(sum).unwrap_or(u64::MAX).saturating_mul(self.step)
    }

    /// Bytes before chunk `k`.
    pub fn first(&self, k: u64) -> u64 {
        let ramp = self.ramp.min(k);
        self.ramped(ramp).saturating_add(self.chunk.saturating_mul(k - ramp))
    }

    /// How many chunks `n` bytes are.
    pub fn count(&self, n: u64) -> u64 {
        match n.checked_sub(self.ramped(self.ramp)) {
            Some(whole) => self.ramp + whole.div_ceil(self.chunk),
            None => least(0, self.ramp, |k| n <= self.ramped(k)),
        }
    }

    /// The chunks' bytes, all of them `n`.
    pub fn sizes(self, n: u64) -> impl Iterator<Item = u64> {
        (0..self.count(n)).map(move |k| self.size(k).min(n - self.first(k)))
    }
}

/// The least of `low..high` of which `holds` is true, as it is of all after it; `high` if it is true of none.
pub(super) fn least(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes one after the other, by their definition.
    fn by_hand(chunk: u64, workers: u64, n: u64) -> Vec<u64> {
        let step = chunk.div_ceil(workers).next_multiple_of(4096);
        let (mut sizes, mut left) = (Vec::new(), n);
        for k in 1.. {
            if left == 0 {
                break;
            }
            let size = (k * step).min(chunk).min(left);
            left -= size;
            sizes.push(size);
        }
        sizes
    }

    #[test]
    fn sizes_starts_and_counts_are_those_of_a_loop() {
        for chunk in [1, 4095, 4096, 5000, 1 << 16, 300_000, 4 << 20] {
            for workers in [1, 2, 3, 8, 100] {
                let cut = Cut::new(Bytes(chunk), workers);
                for n in [0, 1, 4096, 4097, 100_000, 5_000_000].map(|n: u64| n.min(chunk * 300)) {
                    let expected = by_hand(chunk, u64::from(workers), n);
                    assert_eq!(cut.sizes(n).collect::<Vec<_>>(), expected, "{chunk} {workers} {n}");
                    let starts = (0..expected.len()).map(|k| expected[..k].iter().sum());
                    let first: Vec<u64> = (0..cut.count(n)).map(|k| cut.first(k)).collect();
                    assert_eq!(first, starts.collect::<Vec<u64>>());
                }
            }
        }
    }

    #[test]
    fn numbers_without_end_are_cut_too() {
        for (chunk, workers, n) in [(0, 0, 9), (1, 1, u64::MAX), (u64::MAX, 3, u64::MAX), (4096, 8, u64::MAX)]
        {
            let cut = Cut::new(Bytes(chunk), workers);
            let k = cut.count(n);
            assert!(n <= cut.first(k) && cut.first(k - 1) < n, "{cut:?} {k}");
        }
    }
}
