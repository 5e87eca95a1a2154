//! Copies that hold the host, copies of pageable memory, and many small copies in place of one.

use super::replay::Change;
use super::{Case, LARGE_BYTES, Rate, Scene, Words, counted, size, time};
use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::StrId;
use crate::trace::analysis::copies::{host_parts, is_copy_call};
use crate::trace::analysis::devices::{Group, Groups};
use crate::trace::table::Work;

/// Smaller copies cost their launch rather than their bytes.
const SMALL_BYTES: u64 = 64 << 10;
/// Fewer small copies are not worth a buffer.
const FEW: usize = 8;

/// All copies of one name that have a host call which copies.
#[derive(Default)]
struct Named {
    group: Option<Group>,
    pageable: bool,
    copies: Vec<Copied>,
}

/// A copy and the call that made it, which may have made others too.
struct Copied {
    op: u32,
    call: u32,
    bytes: i128,
}

pub(super) fn look(scene: &mut Scene<'_>) {
    let table = scene.table;
    let mut groups = Groups::default();
    let mut by_name: BTreeMap<StrId, Named> = BTreeMap::new();
    let mut seen = vec![false; table.calls.len()];
    for (index, op) in (0..).zip(&table.ops) {
        let (Work::Memcpy, Some(call)) = (op.work, op.call()) else { continue };
        let (Ok(call_index), call) = (u32::try_from(call), table.calls[call]) else { continue };
        if !is_copy_call(table.name(call.span)) {
            continue;
        }
        let named = by_name.entry(table.spans.name[op.span as usize]).or_default();
        if named.group.is_none() {
            named.group = Some(groups.of(table, op));
            named.pageable = table.name(op.span).contains("Pageable");
        }
        let is_first = !std::mem::replace(&mut seen[call_index as usize], true);
        // What a call says of its size, it says of all that it made.
        let bytes = op.bytes.or(call.size.filter(|_| is_first)).unwrap_or(0);
        named.copies.push(Copied { op: index, call: call_index, bytes: bytes.into() });
    }
    let pinned_rate = pinned_rates(scene, &mut groups);
    let (behind, in_front) = (scene.replay.waits_behind(), scene.replay.in_front());
    for (name, named) in &by_name {
        let name = table.strings.get(*name);
        holds_the_host(scene, name, named, &pinned_rate, (&behind, &in_front));
        small(scene, name, named);
    }
}

/// Copies whose call did not return before they had ended, and pageable ones from the host, whose bytes the call stages.
fn holds_the_host(
    scene: &mut Scene<'_>,
    name: &str,
    named: &Named,
    rates: &BTreeMap<Group, Rate>,
    (behind, in_front): (&BTreeMap<u32, u32>, &[[i64; 2]]),
) {
    let table = scene.table;
    let interval = |op: u32| table.spans.interval(table.ops[op as usize].span);
    let call_of = |call: u32| table.spans.interval(table.calls[call as usize].span);
    let upload = named.group == Some(Group::ToDevice);
    let blocks = |copy: &&Copied| interval(copy.op).1 <= call_of(copy.call).1;
    let held: Vec<&Copied> =
        named.copies.iter().filter(|copy| named.pageable && upload || blocks(copy)).collect_vec();
    // A call holds the host once, however many copies it makes: its first, and from the first beginning to the last end.
    let mut calls: BTreeMap<u32, (u32, (i64, i64))> = BTreeMap::new();
    for copy in &held {
        let (start, end) = interval(copy.op);
        let (_, at) = calls.entry(copy.call).or_insert((copy.op, (start, end)));
        *at = (at.0.min(start), at.1.max(end));
    }
    let (mut cases, mut sums, mut queued): (Vec<Case>, [i128; 3], [i128; 2]) = Default::default();
    for (&call, &(op, at)) in &calls {
        let parts = host_parts(call_of(call), at);
        let until = |end: i64| host_parts(call_of(call), (end.min(at.0), at.1))[0];
        queued.iter_mut().zip(in_front[op as usize]).for_each(|(sum, end)| *sum += until(end));
        sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        cases.push(Case {
            call: Some(table.calls[call as usize].span),
            shows: table.ops[op as usize].span,
            cost_ns: parts.iter().sum(),
        });
    }
    let all: i128 = cases.iter().map(|case| case.cost_ns).sum();
    let [before, during, after] = sums;
    let copies = counted(held.len(), "copy", "copies");
    let hold = if held.len() == 1 { "holds" } else { "hold" };
    let bytes: i128 = held.iter().map(|copy| copy.bytes).sum();
    let title = format!("{copies} `{name}` of {} {hold} the host {}", size(bytes), time(all));
    // Told where it explains most of the wait; the rest is the launch, or what the file does not tell.
    let waiting = match queued {
        [own, _] if before < 2 * own => ", waiting for what stands in front of it on the stream",
        [_, all] if before < 2 * all => ", waiting for what another stream has to do first",
        _ => "",
    };
    let mut why = format!(
        "the host is in the call {} before the copy begins{waiting}, {} while it runs and {} after it",
        time(before),
        time(during),
        time(after)
    );
    let mut change = Change { free_calls: calls.keys().copied().collect_vec(), ..Change::default() };
    let mut unknown = "";
    let (rule, advice) = match (named.group, named.pageable) {
        (Some(Group::ToHost), true) => (
            "hidden-sync",
            "a copy to pageable memory returns when it has ended, so each one synchronises. `.item()`, `.cpu()`, `.tolist()`, \
             `print` and `if tensor:` make such copies: keep the value on the device and read it once in many steps, or \
             copy into a `pin_memory=True` buffer with `non_blocking=True`, record an event, and read after \
             `event.synchronize()` when the value is needed. The prediction holds where nothing needs the value at once",
        ),
        (Some(Group::ToDevice), true) => {
            // What PyTorch makes of one blocking copy lies in one operator.
            let waits: Vec<u32> = held
                .iter()
                .filter_map(|copy| {
                    let wait = *behind.get(&copy.op)?;
                    let [a, b] = [copy.call, wait].map(|call| table.calls[call as usize].span);
                    (scene.makers.around(a) == scene.makers.around(b)).then_some(wait)
                })
                .collect_vec();
            if !waits.is_empty() {
                let ns = waits.iter().map(|&wait| length(call_of(wait))).sum();
                why += &format!(
                    "; the wait for the copy behind it, in the same operator, takes {} and goes with it",
                    time(ns)
                );
                change.free_calls.extend(waits);
            }
            let rate = rates.get(&Group::ToDevice);
            if let Some(rate) = rate {
                change.lengths = held
                    .iter()
                    .filter_map(|copy| {
                        let bytes = table.ops[copy.op as usize].bytes?;
                        let len = scene.replay.ops[copy.op as usize].len;
                        // Not slower than it was: small copies cost their launch.
                        Some((copy.op, rate.ns(bytes).min(len)))
                    })
                    .collect_vec();
            } else {
                unknown = ". Nothing in the trace says how fast pinned copies are, so the prediction leaves them as slow as \
                           these";
            }
            (
                "pageable-upload",
                "the call copies pageable memory through the driver's staging buffer while the host waits: load with \
                 `DataLoader(pin_memory=True)` or `tensor.pin_memory()` where the tensor is made, not at each step, \
                 and send with `.to(device, non_blocking=True)`",
            )
        }
        (Some(Group::WithinDevice | Group::Peer), _) => (
            "blocking-copy",
            "the call returns only when the copy has ended, and no host memory takes part in it: copy on a stream \
             (`cudaMemcpyAsync`, `tensor.copy_()`, with `non_blocking=True` between devices) and wait for an event where the \
             result is used",
        ),
        _ => (
            "blocking-copy",
            "the call returns only when the copy has ended: pass `non_blocking=True` with pinned host memory and \
             wait for an event where the result is used",
        ),
    };
    scene.note(cases, Words { rule, title, why, change: format!("{advice}{unknown}") }, change);
}

fn length((start, end): (i64, i64)) -> i128 {
    i128::from(end) - i128::from(start)
}

/// The rates of pinned copies large enough to show it, by direction.
fn pinned_rates(scene: &Scene<'_>, groups: &mut Groups) -> BTreeMap<Group, Rate> {
    let mut sums: BTreeMap<Group, Rate> = BTreeMap::new();
    for op in scene.table.ops.iter().filter(|op| op.work == Work::Memcpy) {
        let (start, end) = scene.table.spans.interval(op.span);
        let Some(bytes) = op.bytes.filter(|bytes| LARGE_BYTES <= *bytes && start < end) else { continue };
        if scene.table.name(op.span).contains("Pinned") {
            let sum = sums.entry(groups.of(scene.table, op)).or_default();
            sum.bytes += i128::from(bytes);
            sum.ns += i128::from(end) - i128::from(start);
        }
    }
    sums
}

/// Runs of small copies of one name that follow each other on a stream.
fn small(scene: &mut Scene<'_>, name: &str, named: &Named) {
    let table = scene.table;
    if !matches!(named.group, Some(Group::ToDevice | Group::ToHost)) {
        return;
    }
    let is_small =
        |copy: &&Copied| table.ops[copy.op as usize].bytes.is_some_and(|bytes| bytes < SMALL_BYTES);
    // Copies that the host waits for one by one are not coalesced by anything but asking for less.
    let waits = |copy: &&Copied| scene.replay.calls[copy.call as usize].waits_for.is_some();
    let copies: Vec<&Copied> =
        named.copies.iter().filter(|copy| is_small(copy) && !waits(copy)).collect_vec();
    // Those of one call are brought together as it is.
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    for copy in &copies {
        first.entry(copy.call).or_insert(copy.op);
    }
    if first.len() < FEW {
        return;
    }
    let case = |(&call, &op): (&u32, &u32)| {
        let span = table.calls[call as usize].span;
        let shows = table.ops[op as usize].span;
        Case { call: Some(span), shows, cost_ns: length(table.spans.interval(span)) }
    };
    let cases: Vec<Case> = first.iter().map(case).collect_vec();
    let bytes: i128 = copies.iter().map(|copy| copy.bytes).sum();
    // One of them stays.
    let dropped_calls = first.keys().skip(1).copied().collect_vec();
    let change = Change { dropped_calls, ..Change::default() };
    let words = Words {
        rule: "small-copies",
        title: format!("{} `{name}` move {} in all", counted(copies.len(), "copy", "copies"), size(bytes)),
        why: format!(
            "none of them has {}: the calls cost more than the bytes",
            size(i128::from(SMALL_BYTES))
        ),
        change: "put the values into one pinned buffer and copy it once, then take views on the other side \
                 (`torch.cat`, `split`); the prediction is for one copy in place of all"
            .to_owned(),
    };
    scene.note(cases, words, change);
}

#[cfg(test)]
mod tests {
    use crate::advise::trace::findings;
    use crate::trace::analysis::Order;
    use crate::trace::table::Scan;

    /// What is said of a call [0, 900) whose copy runs [880, 890) on stream 7, behind a kernel on a stream that ends at `end`;
    /// between their launches stands a call of this name.
    fn said(stream: u32, end: i64, between: &str) -> String {
        let one = |cat: &str, name: &str, ts: i64, dur: i64, args: &str| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
            )
        };
        // Two short ones first, which show what a launch takes.
        let kernels =
            [(-300, 10), (-200, 10), (-90, end + 80)].into_iter().zip(1..).flat_map(|((at, dur), k)| {
                let args = format!(r#""device":0,"stream":{stream},"correlation":{k}"#);
                [
                    one("cuda_runtime", "cudaLaunchKernel", at, 9, &format!(r#""correlation":{k}"#)),
                    one("kernel", "k", at + 10, dur, &args),
                ]
            });
        let copy = r#""device":0,"stream":7,"correlation":5,"bytes":4"#;
        let events = kernels.chain([
            one("cuda_runtime", between, -20, 9, ""),
            one("cuda_runtime", "cudaMemcpyAsync", 0, 900, r#""correlation":5"#),
            one("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 880, 10, copy),
        ]);
        let events: Vec<String> = events.collect();
        let mut scan = Scan::new();
        scan.feed(format!("[{}]", events.join(",")).as_bytes()).unwrap();
        let table = scan.finish().unwrap();
        let found = findings(&table, &Order::of(&table)).findings;
        found.into_iter().find(|finding| finding.rule == "hidden-sync").unwrap().why
    }

    #[test]
    fn what_a_copy_waits_for_is_told_where_that_takes_most_of_the_wait() {
        let check = |stream, end, between, waiting: &str| {
            let expected = format!(
                "the host is in the call 880.000 us before the copy begins{waiting}, 10.000 us while it runs and 10.000 us \
                 after it"
            );
            assert_eq!(said(stream, end, between), expected, "{stream} {end} {between}");
        };
        for end in [441, 880, 885] {
            check(7, end, "cudaEventRecord", ", waiting for what stands in front of it on the stream");
        }
        check(8, 875, "cudaStreamWaitEvent", ", waiting for what another stream has to do first");
        for (stream, end) in [(7, 440), (7, 0), (7, -10), (8, 875)] {
            check(stream, end, "cudaEventRecord", "");
        }
    }
}
