//! Copies that run beside no kernel although there are kernels: which condition fails, and how links are used.

use super::migrations::is_migration;
use super::replay::Change;
use super::{Case, LARGE_BYTES, Predicted, Rate, Scene, Words, counted, size, time};
use crate::ordered::{BTreeMap, CollectVec, sort_by_key};
use crate::trace::analysis::Union;
use crate::trace::analysis::devices::{Group, Groups};
use crate::trace::table::{Num, Work};

pub(super) fn look(scene: &mut Scene<'_>) {
    let table = scene.table;
    let mut groups = Groups::default();
    let of: Vec<Group> = table.ops.iter().map(|op| groups.of(table, op)).collect_vec();
    for device in scene.devices() {
        let kernels = Kernels::of(scene, &of, device);
        for direction in [Group::ToDevice, Group::ToHost] {
            let ops = scene.ops_of[device as usize].iter();
            let is_here =
                |k: &&u32| of[**k as usize] == direction && !is_migration(table, &table.ops[**k as usize]);
            let here: Vec<u32> = ops.filter(is_here).copied().collect_vec();
            if !kernels.busy.is_empty() {
                missed(scene, &kernels, device, direction, &here);
            }
            link(scene, device, direction, &here);
        }
    }
    through_host(scene, &of);
}

fn word(direction: Group) -> &'static str {
    if direction == Group::ToDevice { "to the device" } else { "to the host" }
}

/// The kernels of a device.
struct Kernels {
    /// Some of them runs.
    busy: Union,
    /// Whether a stream has any.
    on_stream: Vec<bool>,
}

impl Kernels {
    fn of(scene: &Scene<'_>, of: &[Group], device: u32) -> Kernels {
        let table = scene.table;
        let is_kernel = |k: &&u32| matches!(of[**k as usize], Group::Compute | Group::Comm);
        let kernels = scene.ops_of[device as usize].iter().filter(is_kernel).map(|k| &table.ops[*k as usize]);
        let mut on_stream = vec![false; table.streams.len()];
        kernels.clone().for_each(|op| on_stream[op.stream as usize] = true);
        Kernels { busy: Union::of(kernels.map(|op| table.spans.interval(op.span))), on_stream }
    }
}

/// Copies outside of kernels, by the first condition for overlap that does not hold: pinned memory, a stream without
/// kernels, a free engine.
fn missed(scene: &mut Scene<'_>, kernels: &Kernels, device: u32, direction: Group, here: &[u32]) {
    let table = scene.table;
    let at = |k: u32| table.spans.interval(table.ops[k as usize].span);
    let mut ends: Vec<(i64, i64)> = here.iter().map(|&k| at(k)).collect_vec();
    ends.sort();
    let mut conditions: BTreeMap<&'static str, i128> = BTreeMap::new();
    let (mut cases, mut movable) = (Vec::new(), Vec::new());
    for &k in here {
        let op = &table.ops[k as usize];
        let (start, end) = at(k);
        let alone = i128::from(end) - i128::from(start) - kernels.busy.within(start, end);
        if alone <= 0 {
            continue;
        }
        let launched = op.call().map(|call| table.spans.start[table.calls[call].span as usize]);
        // A copy of the same direction that ended after this one was launched had the engine.
        let before = ends.partition_point(|other| other.0 < start);
        let engine_busy = before.checked_sub(1).is_some_and(|b| launched.is_some_and(|l| l < ends[b].1));
        let condition = if table.name(op.span).contains("Pageable") {
            "the host memory is pageable"
        } else if kernels.on_stream[op.stream as usize] {
            "the stream runs kernels too"
        } else if engine_busy {
            "the copy engine is busy with another copy"
        } else {
            "all conditions hold, and no kernel was there to run beside it"
        };
        *conditions.entry(condition).or_default() += alone;
        cases.push(Case {
            call: op.call().map(|call| table.calls[call].span),
            shows: op.span,
            cost_ns: alone,
        });
        movable.push(k);
    }
    let all: i128 = cases.iter().map(|case| case.cost_ns).sum();
    let mut told: Vec<(&str, i128)> = conditions.into_iter().collect_vec();
    sort_by_key(&mut told, |(_, ns)| std::cmp::Reverse(*ns));
    let told: Vec<String> =
        told.into_iter().map(|(condition, ns)| format!("{}: {condition}", time(ns))).collect_vec();
    // However early such a copy could begin, it hides no more than it took.
    let predicted = Predicted {
        what: Some(Change { own_stream: movable, ..Change::default() }),
        most_ns: Some(i64::try_from(all).unwrap_or(i64::MAX)),
    };
    let words = Words {
        rule: "missed-overlap",
        title: format!(
            "{} {} on {} {} {} without a kernel beside {}",
            counted(cases.len(), "copy", "copies"),
            word(direction),
            table.device_name(device),
            if cases.len() == 1 { "runs" } else { "run" },
            time(all),
            if cases.len() == 1 { "it" } else { "them" }
        ),
        why: told.join("; "),
        change: "three conditions: pinned host memory, a stream that runs no kernels, a free copy engine. Copy the next \
                 batch under `with torch.cuda.stream(copy_stream):` with `non_blocking=True` while this one is \
                 computed, and let the compute stream wait (`wait_stream`). The prediction moves these copies to \
                 such a stream and is at most the time that they run alone; it does not know which kernels need \
                 which copy"
            .to_owned(),
    };
    scene.note(cases, words, predicted);
}

/// Large copies against the best one of their direction.
fn link(scene: &mut Scene<'_>, device: u32, direction: Group, here: &[u32]) {
    let table = scene.table;
    let large = |&k: &u32| {
        let op = &table.ops[k as usize];
        let (start, end) = table.spans.interval(op.span);
        let bytes = op.bytes.filter(|bytes| LARGE_BYTES <= *bytes && start < end)?;
        Some((k, bytes, end.saturating_sub(start)))
    };
    let copies: Vec<(u32, u64, i64)> = here.iter().filter_map(large).collect_vec();
    let rate = |copy: &(u32, u64, i64)| Rate { bytes: i128::from(copy.1), ns: i128::from(copy.2) };
    let all = copies
        .iter()
        .map(rate)
        .fold(Rate::default(), |a, b| Rate { bytes: a.bytes + b.bytes, ns: a.ns + b.ns });
    let best = copies.iter().map(rate).max_by(|a, b| a.gbps().total_cmp(&b.gbps())).unwrap_or_default();
    if copies.len() < 2 || 0.8 * best.gbps() < all.gbps() {
        return;
    }
    let could = |copy: &(u32, u64, i64)| best.ns(copy.1).min(copy.2);
    let cases = copies.iter().map(|copy| {
        let op = &table.ops[copy.0 as usize];
        let call = op.call().map(|call| table.calls[call].span);
        Case { call, shows: op.span, cost_ns: i128::from(copy.2.saturating_sub(could(copy))) }
    });
    let cases: Vec<Case> = cases.filter(|case| 0 < case.cost_ns).collect_vec();
    let change = Change {
        lengths: copies.iter().map(|copy| (copy.0, could(copy))).collect_vec(),
        ..Change::default()
    };
    let words = Words {
        rule: "link-use",
        title: format!(
            "{} of 1 MiB or more {} on {} reach {:.1} GB/s, the best of them {:.1} GB/s",
            counted(copies.len(), "copy", "copies"),
            word(direction),
            table.device_name(device),
            all.gbps(),
            best.gbps()
        ),
        why: format!("{} in {}", size(all.bytes), time(all.ns)),
        change: "pageable memory, several copies on one link at once and other devices on the same switch make copies \
                 slow: pin the memory, copy in larger pieces, and see `nvidia-smi topo -m` for what shares the link"
            .to_owned(),
    };
    scene.note(cases, words, change);
}

/// Copies to the host that are followed by one of the same size to another device.
fn through_host(scene: &mut Scene<'_>, of: &[Group]) {
    let table = scene.table;
    /// A copy that comes later is another matter.
    const SOON_NS: i64 = 1_000_000;
    let mut copies: Vec<(i64, u32)> = (0..)
        .zip(&table.ops)
        .filter(|(_, op)| op.work == Work::Memcpy && op.bytes.is_some_and(|bytes| SMALLEST <= bytes))
        .map(|(k, op): (u32, _)| (table.spans.start[op.span as usize], k))
        .collect_vec();
    /// Numbers that happen to be equal are small.
    const SMALLEST: u64 = 4096;
    copies.sort();
    // The last copy to the host by size.
    let mut to_host: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut cases, mut downloads) = (Vec::new(), Vec::new());
    for (start, k) in copies {
        let op = &table.ops[k as usize];
        let bytes = op.bytes.unwrap_or(0);
        match of[k as usize] {
            Group::ToHost => {
                to_host.insert(bytes, k);
            }
            Group::ToDevice => {
                let Some(from) = to_host.remove(&bytes) else { continue };
                let source = &table.ops[from as usize];
                let (began, ended) = table.spans.interval(source.span);
                let real = |device: u32| matches!(table.devices[device as usize], Num::Int(n) if 0 <= n);
                let soon = ended <= start && start.saturating_sub(ended) <= SOON_NS;
                if source.device != op.device && soon && real(op.device) && real(source.device) {
                    let cost_ns = i128::from(table.spans.end[op.span as usize]) - i128::from(began);
                    let call = op.call().map(|call| table.calls[call].span);
                    cases.push(Case { call, shows: source.span, cost_ns });
                    downloads.push(from);
                }
            }
            _ => {}
        }
    }
    let words = Words {
        rule: "peer-through-host",
        title: format!("{} between devices went through the host", counted(cases.len(), "copy", "copies")),
        why:
            "each copy to the host is followed within a millisecond by one of the same size to another device"
                .to_owned(),
        change:
            "copy from device to device: `tensor.to('cuda:1')` on the device's tensor, not on its `.cpu()`; \
                 `torch.cuda.can_device_access_peer` says whether the link allows it. The prediction is for the \
                 second copy alone, as fast as it was"
                .to_owned(),
    };
    let change = Change {
        dropped_calls: downloads.iter().filter_map(|&k| scene.replay.ops[k as usize].call).collect_vec(),
        lengths: downloads.iter().map(|&k| (k, 0)).collect_vec(),
        ..Change::default()
    };
    scene.note(cases, words, change);
}
