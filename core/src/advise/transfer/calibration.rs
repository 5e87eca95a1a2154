//! A machine's figures as the closed forms take them.

use std::sync::OnceLock;

use crate::machine::{Machine, Rate};
use crate::units::Bytes;

use super::Route;

/// A machine profile and the cores that may copy: all that a choice depends on beside the request.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    machine: Machine,
}

/// Profiles of kinds of machines, kept to test choices on, each figure with its source.
const RECORDED: &str = include_str!("../../../data/calibrations.json");

impl Calibration {
    /// The figures of a machine profile.
    pub fn of(machine: Machine) -> Calibration {
        Calibration { machine }
    }

    /// A recorded calibration: `gen3`, `gen5`, `slow-cores` or `no-batch`; or a machine profile by its name.
    pub fn recorded(name: &str) -> Option<Calibration> {
        let found = recorded().iter().find(|m| m.name == name);
        found.cloned().or_else(|| Machine::builtin(name)).map(Calibration::of)
    }

    /// The profile.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The link's rate along a route, less what the other direction takes.
    pub(super) fn link(&self, route: Route, both_ways: bool) -> Rate {
        let m = &self.machine;
        let (rate, factor) = match route {
            Route::Up => (m.h2d_bw, m.bidir_factor_h2d),
            Route::Down => (m.d2h_bw, m.bidir_factor_d2h),
            Route::Within => return m.d2d_bw,
            Route::Peer => return m.p2p_bw,
        };
        if both_ways { part(rate, factor.0, 1_000_000_000) } else { rate }
    }

    /// Whether `bytes` that were used last are in the processor's cache.
    fn is_hot(&self, bytes: Bytes) -> bool {
        bytes <= self.machine.last_level_cache
    }

    /// The rate of one core that copies a part of `bytes`.
    pub(super) fn core(&self, bytes: Bytes) -> Rate {
        let m = &self.machine;
        if self.is_hot(bytes) { m.host_memcpy_hot_bw } else { m.host_memcpy_cold_bw }
    }

    /// The rate of the driver's own copies into and out of its slots.
    pub(super) fn staging(&self, bytes: Bytes) -> Rate {
        let m = &self.machine;
        if self.is_hot(bytes) { m.stage_hot_bw } else { m.stage_cold_bw }
    }
}

/// The recorded profiles, read once.
pub(super) fn recorded() -> &'static [Machine] {
    static READ: OnceLock<Vec<Machine>> = OnceLock::new();
    READ.get_or_init(|| {
        Machine::all_from_json(RECORDED.as_bytes())
            .unwrap_or_else(|e| unreachable!("bug: the recorded calibrations: {e}"))
    })
}

/// `rate * of / whole`, at least 1.
fn part(rate: Rate, of: u64, whole: u64) -> Rate {
    let scaled = u128::from(rate.0) * u128::from(of) / u128::from(whole.max(1));
    Rate(u64::try_from(scaled).unwrap_or(u64::MAX).max(1))
}
