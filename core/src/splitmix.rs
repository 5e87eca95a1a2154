//! SplitMix64: numbers without pattern that depend on a seed alone, the same on every machine and for ever.
//!
//! `x_n = mix(seed + n g)` for `n = 1, 2, ...`, where `g` is odd, so that `2^64` states come before one comes again. Any seed is
//! a good one (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The next number; `state` is the seed at first.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    mix(*state)
}

/// The number that [`next`] gives at its `n`-th call, counted from 1.
pub(crate) fn nth(seed: u64, n: u64) -> u64 {
    mix(seed.wrapping_add(n.wrapping_mul(STEP)))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567 as other implementations give them.
    #[test]
    fn it_is_splitmix64() {
        let mut state = 1_234_567;
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for (n, expected) in (1..).zip(known) {
            assert_eq!((next(&mut state), nth(1_234_567, n)), (expected, expected));
        }
    }
}
