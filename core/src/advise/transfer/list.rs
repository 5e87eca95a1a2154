//! Many copies within a device: those that are shorter than the call for them go as one list.

use crate::units::{Bytes, quotient};

use super::formula::{beyond, plain, sum, term, times};
use super::{Calibration, Candidate, Caps, Request, Route, Way};

/// Bytes of an entry of a list, which the kernel reads over the link.
const ENTRY: u64 = 32;

impl Calibration {
    /// Bytes of a piece within a device from which on its copy takes as long as the driver's call for it.
    ///
    /// A shorter one leaves the device waiting for the next call, so that it is better in a list. From there on calls are made
    /// while the device copies, and the driver's copies are as good as any.
    pub fn own_call(&self) -> Bytes {
        let machine = self.machine();
        let call = machine.call_memcpy_async.0.max(0).unsigned_abs();
        let bytes = quotient(u128::from(machine.d2d_bw.0) * u128::from(call), 1_000_000_000);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The fewest of such shorter pieces that go as a list: more calls than a launch and an event are worth.
    pub fn fewest_listed(&self) -> u64 {
        let machine = self.machine();
        let call = machine.call_memcpy_async.0.max(1);
        let list = sum([machine.call_launch, machine.call_event_record]).0;
        u64::try_from(list / call + 1).unwrap_or(0).max(2)
    }
}

/// What a list takes, where the engine copies one.
pub(super) fn listed(request: &Request, of: &Calibration, caps: &Caps) -> Option<Candidate> {
    let (machine, k) = (of.machine(), request.tensors);
    let is_list = caps.list && request.route == Route::Within && of.fewest_listed() <= k;
    if !is_list || of.own_call().0 <= request.mean() {
        return None;
    }
    let entries = times(machine.gather_per_tensor.0, k);
    // The kernel reads entries of some pieces while it copies others.
    let read = machine.mapped_read_bw.time(Bytes(k.saturating_mul(ENTRY)));
    let link = of.link(request.route, request.both_ways).time(request.bytes).max(read);
    let latency = sum([machine.kernel_start_gap, machine.sync_return]);
    // The event that says when the list was read is recorded meanwhile.
    let beside = beyond(machine.call_event_record, sum([machine.kernel_start_gap, link]));
    let calls = sum([machine.call_launch, beside]);
    let terms =
        vec![term("calls", calls), term("list", entries), term("latency", latency), term("link", link)];
    let cpu = sum([machine.call_launch, machine.call_event_record, entries]);
    Some(plain(Way::Device, terms, cpu))
}
