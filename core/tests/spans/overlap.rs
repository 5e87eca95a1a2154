//! Exact overlap of strided spans against sets of bytes written out one by one.

use std::collections::BTreeSet;

use spanlift::memory::{DEFAULT_LIMIT, Dim, Overlap, Span};

/// A small generator of its own, so that a seed names the same cases for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in `lo..=hi`.
    fn pick(&mut self, lo: i64, hi: i64) -> i64 {
        lo + i64::try_from(self.next() % (hi - lo + 1).unsigned_abs()).expect("small")
    }
}

/// `n`, times the number that the variable `SPANLIFT_OVERLAP_TIMES` holds: with 100 two and a half million pairs are looked at.
fn cases(n: u64) -> u64 {
    let times = std::env::var("SPANLIFT_OVERLAP_TIMES").ok().and_then(|times| times.parse().ok());
    n * times.unwrap_or(1)
}

fn span(off: i64, elem: i64, dims: &[(i64, i64)]) -> Span {
    let dims = dims.iter().map(|&(count, stride)| Dim { count, stride }).collect();
    Span::strided(off, elem, dims).expect("in range")
}

/// Every byte, by counting through all index tuples.
fn bytes(s: &Span) -> BTreeSet<i64> {
    let mut starts = vec![s.off()];
    for d in s.dims() {
        starts = starts.iter().flat_map(|&p| (0..d.count).map(move |i| p + i * d.stride)).collect();
    }
    starts.iter().flat_map(|&p| p..p + s.elem()).collect()
}

#[track_caller]
fn check(a: &Span, b: &Span) {
    let (in_a, in_b) = (bytes(a), bytes(b));
    let meet = in_a.intersection(&in_b).next().is_some();
    let expected = if meet { Overlap::Yes } else { Overlap::No };
    assert_eq!(a.overlaps(b, DEFAULT_LIMIT), expected, "{a:?}\n{b:?}");
    assert_eq!(b.overlaps(a, DEFAULT_LIMIT), expected, "{b:?}\n{a:?}");
    match a.common(b, DEFAULT_LIMIT) {
        Some((lo, hi)) => {
            assert!(
                lo < hi && (lo..hi).all(|byte| in_a.contains(&byte) && in_b.contains(&byte)),
                "{a:?}\n{b:?}"
            );
        }
        None => assert!(!meet, "{a:?}\n{b:?}"),
    }
}

#[test]
fn hand_written_pairs() {
    let every = |off, count, stride, elem| span(off, elem, &[(count, stride)]);
    check(&span(0, 0, &[]), &span(0, 8, &[])); // empty
    check(&every(0, 0, 8, 4), &span(0, 100, &[]));
    check(&span(0, 4, &[]), &every(0, 100, 0, 4)); // expanded
    check(&every(1020, 256, -4, 4), &span(512, 16, &[])); // flipped
    check(&every(0, 64, 512, 256), &every(256, 64, 512, 256)); // left and right half of each row
    check(&every(0, 64, 260, 4), &every(4, 63, 260, 4)); // diagonal and the one beside it
    check(&every(0, 512, 8, 4), &every(4, 512, 8, 4)); // real and imaginary parts
    check(&every(0, 4, 35, 1), &every(21, 3, 55, 1)); // gcd 5
    check(&every(0, 300, 4, 1), &every(2, 200, 6, 1));
    check(&span(0, 128, &[(8, 4096), (8, 256)]), &span(128, 128, &[(8, 4096), (8, 256)]));
    check(&every(0, 10, 3, 5), &span(29, 2, &[])); // runs that overlap themselves
}

#[test]
fn random_small_spans_of_up_to_four_dimensions() {
    for seed in 1..=cases(15_000) {
        let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let [a, b] = [(); 2].map(|()| {
            let rank = r.pick(0, 4);
            let dims: Vec<_> = (0..rank)
                .map(|_| (r.pick(0, 6).max(i64::from(r.pick(0, 9) > 0)), r.pick(-12, 12) * r.pick(1, 4)))
                .collect();
            span(r.pick(-40, 60), r.pick(0, 9).min(4).max(i64::from(r.pick(0, 9) > 0)), &dims)
        });
        check(&a, &b);
    }
}

#[test]
fn sparse_spans_whose_bounds_meet() {
    // Large strides that share factors: most pairs cross without meeting, or meet in few bytes.
    for seed in 1..=cases(10_000) {
        let mut r = Random(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let scale = [1, 2, 3, 4, 6, 12, 35][usize::try_from(r.pick(0, 6)).unwrap()];
        let [a, b] = [(); 2].map(|()| {
            let rank = r.pick(1, 3);
            let dims: Vec<_> =
                (0..rank).map(|_| (r.pick(1, 9), scale * r.pick(1, 90) * r.pick(-1, 1).signum())).collect();
            span(r.pick(0, 300), r.pick(1, 3), &dims)
        });
        check(&a, &b);
    }
}

#[test]
fn two_strides_with_large_counts_need_no_search() {
    // Compared with a scan over the rows of one side; every answer within 64 units of work.
    for seed in 1..=cases(3_000) {
        let mut r = Random(seed.wrapping_mul(0xa076_1d64_78bd_642f));
        let (ca, sa, ea) = (r.pick(1, 3000), r.pick(50, 5000), r.pick(1, 40));
        let (cb, sb, eb) = (r.pick(1, 3000), r.pick(50, 5000), r.pick(1, 40));
        let off = r.pick(0, 2_000_000);
        let (a, b) = (span(0, ea, &[(ca, sa)]), span(off, eb, &[(cb, sb)]));
        let meet = (0..ca).any(|i| {
            let (lo, hi) = (i * sa - eb + 1 - off, i * sa + ea - 1 - off); // starts of b that meet run i
            let first = lo.div_euclid(sb) + i64::from(lo.rem_euclid(sb) > 0);
            first.max(0) <= hi.div_euclid(sb).min(cb - 1)
        });
        assert_eq!(a.overlaps(&b, 64), if meet { Overlap::Yes } else { Overlap::No }, "{a:?}\n{b:?}");
    }
}

/// 65,536 and more index tuples on each side, three unrelated strides each: compared with sorted runs.
#[test]
fn large_three_dimensional_spans_are_decided() {
    for seed in 1..=8u64 {
        let mut r = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let [a, b] = [(); 2].map(|()| {
            let dims = [(); 3].map(|()| (r.pick(41, 44), r.pick(1_000, 90_000_000) * 2));
            span(r.pick(0, 1_000_000) * 2 + r.pick(0, 1), r.pick(1, 2), &dims)
        });
        let starts = |s: &Span| {
            let mut starts = vec![s.off()];
            for d in s.dims() {
                starts = starts.iter().flat_map(|&p| (0..d.count).map(move |i| p + i * d.stride)).collect();
            }
            starts.sort_unstable();
            starts
        };
        let in_b = starts(&b);
        let meet = starts(&a).iter().any(|&p| {
            let k = in_b.partition_point(|&q| q + b.elem() <= p);
            k < in_b.len() && in_b[k] < p + a.elem()
        });
        let expected = if meet { Overlap::Yes } else { Overlap::No };
        assert_eq!(a.overlaps(&b, DEFAULT_LIMIT), expected, "{a:?}\n{b:?}");
    }
}

#[test]
fn extreme_numbers_neither_overflow_nor_hang() {
    let huge = i64::MAX / 2;
    let ends = span(0, 1, &[(2, i64::MAX - 1)]);
    assert_eq!(ends.overlaps(&Span::range(1, i64::MAX - 2).unwrap(), DEFAULT_LIMIT), Overlap::No);
    assert_eq!(ends.overlaps(&Span::range(i64::MAX - 1, 1).unwrap(), DEFAULT_LIMIT), Overlap::Yes);
    let expanded = span(5, 1, &[(i64::MAX, 0), (i64::MAX, 0)]);
    assert_eq!(expanded.overlaps(&span(i64::MIN, 1, &[(2, i64::MAX), (2, 6)]), DEFAULT_LIMIT), Overlap::Yes);
    let comb = |off: i64, step: i64| span(off, 1, &[((huge - off) / step, step)]);
    assert_eq!(comb(0, 2 * 3 * 5 * 7).overlaps(&comb(1, 2 * 11 * 13), DEFAULT_LIMIT), Overlap::No);
    assert_eq!(comb(0, 3 * 5 * 7).overlaps(&comb(1, 2 * 11 * 13), DEFAULT_LIMIT), Overlap::Yes);
    // Hundreds of strides that neither fill up nor continue each other: undecided, and said so.
    let odd: Vec<_> = (0..900i64).map(|k| (2, 2 * (1_000_003 + 7919 * k * k))).collect();
    let answer = span(0, 1, &odd).overlaps(&span(1, 1, &odd[..1]), 1000);
    assert!(matches!(answer, Overlap::No | Overlap::May));
    assert!(matches!(span(0, 1, &odd).overlaps(&span(999_999_999, 1, &odd[..70]), 0), Overlap::May));
    // Tens of thousands of strides meet, and nobody halves each of them to say where.
    let many = span(0, 1, &(0..20_000i64).map(|k| (2, k)).collect::<Vec<_>>());
    assert_eq!(many.overlaps(&many, DEFAULT_LIMIT), Overlap::Yes);
    assert_eq!(many.common(&many, DEFAULT_LIMIT), None);
}

#[test]
fn a_small_limit_only_ever_says_may() {
    for seed in 1..=cases(5_000) {
        let mut r = Random(seed.wrapping_mul(0x9fb2_1c65_1e98_df25));
        let [a, b] = [(); 2].map(|()| {
            let dims = [(); 3].map(|()| (r.pick(1, 6), r.pick(1, 400)));
            span(r.pick(0, 200), r.pick(1, 3), &dims)
        });
        let exact = a.overlaps(&b, DEFAULT_LIMIT);
        assert_ne!(exact, Overlap::May);
        for limit in [0, 1, 2, 5, 20] {
            let answer = a.overlaps(&b, limit);
            assert!(answer == exact || answer == Overlap::May, "limit {limit}: {answer:?}, not {exact:?}");
        }
    }
}
