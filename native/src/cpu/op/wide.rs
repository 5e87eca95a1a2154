//! Loops compiled twice: for every processor of the architecture, and for the wide vectors of newer ones.
//!
//! Wider vectors change no result: each element goes through the same operations, and none is joined with another.

/// A loop. Its `run`, and what it calls, are `#[inline(always)]`, so that they are compiled where they are called from.
pub(super) trait Loop {
    /// What comes out.
    type Out;

    /// Runs it.
    fn run(self) -> Self::Out;
}

/// Runs a loop with the widest vectors that this processor has.
///
/// Always inline: a loop that is handed on by another call is copied between its parts being written and read, and waits.
#[inline(always)]
pub(super) fn widest<L: Loop>(it: L) -> L::Out {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as it was just asked.
        return unsafe { with_avx2(it) };
    }
    it.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<L: Loop>(it: L) -> L::Out {
    it.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `y_i = a x_i + y_i`, and the largest of them.
    struct Scaled<'a>(f64, &'a [f64], &'a mut [f64]);

    impl Loop for Scaled<'_> {
        type Out = f64;

        #[inline(always)]
        fn run(self) -> f64 {
            let Scaled(a, x, y) = self;
            y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
            y.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        }
    }

    #[test]
    fn wide_vectors_have_the_same_bits() {
        for n in [0, 1, 3, 4, 5, 16, 33] {
            let x: Vec<f64> = (0..n).map(|k| 0.1 * f64::from(k) - 1.0).collect();
            let (mut plain, mut wide) = (x.clone(), x.clone());
            let (a, b) = (Scaled(1.0 / 3.0, &x, &mut plain).run(), widest(Scaled(1.0 / 3.0, &x, &mut wide)));
            assert_eq!((a.to_bits(), &plain), (b.to_bits(), &wide), "{n} elements");
        }
    }
}
