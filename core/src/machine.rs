//! What a host and its devices cost: engines, links, staging, latencies.
//!
//! A [`Machine`] is data. The simulator reads it; nothing here knows programs or order.

use crate::units::{Bytes, Nanos};

/// Bytes per second; a copy of `n` bytes takes `n / rate`, rounded to the nearest nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// A rate from GB/s (1e9 bytes per second).
    pub fn from_gb_s(gb_s: f64) -> Option<Rate> {
        let rate = (gb_s * 1e9).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "range checked on this line"
        )]
        (1.0 <= rate && rate < 1e18).then_some(Rate(rate as u64))
    }

    /// How long `bytes` take.
    pub fn time(self, bytes: Bytes) -> Nanos {
        let ns = (u128::from(bytes.0) * 1_000_000_000 + u128::from(self.0) / 2) / u128::from(self.0);
        Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
    }
}
