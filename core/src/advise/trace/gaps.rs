//! Pauses of a device, and what the host did instead of launching work.

use super::replay::Change;
use super::{Case, Predicted, Scene, Words, counted, time};
use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::trace::StrId;
use crate::trace::analysis::Union;

/// Shorter pauses are launches that follow each other closely.
const LEAST_NS: i64 = 20_000;
/// Host calls looked at for one pause.
const MOST_CALLS: usize = 100;

/// What a pause is put down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// The host was in calls of this name for most of it.
    Call(StrId),
    /// The host was between calls.
    Between,
    /// The next operation had been launched: something else kept it.
    Launched,
}

/// Pauses by device and cause: each with its cost, and the calls or operations that are to blame for all of them.
type Pauses = BTreeMap<(u32, Cause), (Vec<Case>, Vec<u32>)>;

pub(super) fn look(scene: &mut Scene<'_>) {
    let table = scene.table;
    for ((device, cause), (cases, culprits)) in pauses(scene) {
        let call = if let Cause::Call(name) = cause { Some(table.strings.get(name)) } else { None };
        let n = counted(cases.len(), "pause", "pauses");
        let total = cases.iter().map(|case| case.cost_ns).sum::<i128>();
        let (device, total_time) = (table.device_name(device), time(total));
        let (what, why, change) = told(cause, call);
        let words = Words {
            rule: "device-gap",
            title: format!("{device} idles {total_time} in {n} {what}"),
            why,
            change: change.to_owned(),
        };
        let what = match cause {
            Cause::Call(_) if call.is_some_and(is_set_up) => {
                Change { dropped_calls: culprits, ..Change::default() }
            }
            Cause::Call(_) => Change { free_calls: culprits, ..Change::default() },
            Cause::Between => Change { prompt_calls: culprits, ..Change::default() },
            Cause::Launched => Change { prompt_ops: culprits, ..Change::default() },
        };
        let most_ns = if call.is_some() { None } else { i64::try_from(total).ok() };
        scene.note(cases, words, Predicted { what: Some(what), most_ns });
    }
}

fn pauses(scene: &Scene<'_>) -> Pauses {
    let table = scene.table;
    // The calls of each row by their start.
    let mut calls: BTreeMap<u32, Vec<(i64, u32)>> = BTreeMap::new();
    for (index, call) in (0..).zip(&table.calls) {
        let span = call.span as usize;
        calls.entry(table.spans.row[span]).or_default().push((table.spans.start[span], index));
    }
    calls.values_mut().for_each(|list| list.sort());
    let mut starts: Vec<(u32, i64, u32)> = (0..)
        .zip(&table.ops)
        .map(|(k, op)| (op.device, table.spans.start[op.span as usize], k))
        .collect_vec();
    // In order already, more or less, which this sort makes use of.
    sort(&mut starts);
    let mut found = Pauses::new();
    for device in scene.devices() {
        let of_device = scene.ops_of[device as usize].iter().map(|k| &table.ops[*k as usize]);
        let busy = Union::of(of_device.map(|op| table.spans.interval(op.span)));
        for pair in busy.parts().windows(2) {
            let (begin, end) = (pair[0].1, pair[1].0);
            if end.saturating_sub(begin) < LEAST_NS {
                continue;
            }
            let next = starts.partition_point(|start| *start < (device, end, 0));
            let Some(&(_, _, index)) = starts.get(next) else { continue };
            let op = &table.ops[index as usize];
            let Some(call) = op.call() else { continue };
            let span = table.calls[call].span;
            let launched = table.spans.start[span as usize];
            // What is to blame: calls, or the operation where it had been launched.
            let (cause, blamed) = if launched <= begin {
                (Cause::Launched, vec![index])
            } else {
                cause(scene, &calls[&table.spans.row[span as usize]], begin, launched)
            };
            let shown = match (cause, blamed.as_slice()) {
                (Cause::Call(_), &[call]) => table.calls[call as usize].span,
                _ => span,
            };
            let cost_ns = i128::from(end) - i128::from(begin);
            let (cases, culprits) = found.entry((device, cause)).or_default();
            cases.push(Case { call: Some(shown), shows: op.span, cost_ns });
            culprits.extend(blamed);
        }
    }
    found
}

/// When the device idled, why, and what to change.
fn told(cause: Cause, call: Option<&str>) -> (&'static str, String, &'static str) {
    match cause {
        Cause::Call(_) => {
            let call = call.unwrap_or_default();
            let change = if is_set_up(call) {
                "the driver is asked for memory or a stream while the device has nothing to do: warm up before measuring, keep \
                 `torch.cuda.empty_cache()` out of loops, and see the memory snapshot for thrash. The prediction \
                 is for none of these calls"
            } else if call.contains("Launch") {
                "a first launch makes the context or loads its kernel's code (`CUDA_MODULE_LOADING`): warm up before \
                 measuring. The prediction is for launches that wait for nothing"
            } else {
                "what the call waits for has ended by then, or nearly: launch the next work before waiting, so that the \
                 device has some in its queue. The prediction is for calls that wait for nothing"
            };
            ("while the host is in a call", format!("the host was in `{call}` for most of each"), change)
        }
        Cause::Between => (
            "while the host prepares the next launch",
            "the host was between calls of the library, in Python or an operator".to_owned(),
            "launch more work ahead: fewer and larger operators, `torch.compile`, CUDA graphs for repeated steps, \
             and `DataLoader(num_workers=…)` where the host prepares data. The prediction is for calls that \
             follow each other at once, and is at most the pauses",
        ),
        Cause::Launched => (
            "although work is launched",
            "the next operation had been launched before the pause began: an event, another stream or the \
             launch itself kept it"
                .to_owned(),
            "look at what the stream waits for (`wait_event`, `wait_stream`); with synchronisation events recorded, \
             the trace names it. The prediction is for operations that wait for nothing but their launch",
        ),
    }
}

/// Whether a call sets something up that is used many times.
fn is_set_up(call: &str) -> bool {
    let rest = ["cuda", "hip", "cu"].iter().find_map(|library| call.strip_prefix(library)).unwrap_or(call);
    [
        "Malloc",
        "Free",
        "HostAlloc",
        "HostRegister",
        "StreamCreate",
        "EventCreate",
        "MemAlloc",
        "MemFree",
        "ModuleLoad",
    ]
    .iter()
    .any(|what| rest.starts_with(what))
}

/// What the thread of the next launch did most of between `begin` and the launch: the call, or all calls where it was
/// between them, the launch itself too.
fn cause(scene: &Scene<'_>, calls: &[(i64, u32)], begin: i64, launched: i64) -> (Cause, Vec<u32>) {
    let table = scene.table;
    let until = calls.partition_point(|(start, _)| *start < launched);
    let mut in_calls = 0_i128;
    let mut all: Vec<u32> = calls.get(until).map(|(_, call)| *call).into_iter().collect_vec();
    let mut longest: Option<(i64, u32)> = None;
    for &(start, call) in calls[..until].iter().rev().take(MOST_CALLS) {
        let end = table.spans.end[table.calls[call as usize].span as usize];
        let inside = end.min(launched).saturating_sub(start.max(begin)).max(0);
        in_calls += i128::from(inside);
        if longest.is_none_or(|(most, _)| most < inside) {
            longest = Some((inside, call));
        }
        if begin <= start {
            all.push(call);
        }
        if start < begin {
            break;
        }
    }
    match longest {
        Some((_, call)) if i128::from(launched) - i128::from(begin) <= 2 * in_calls => {
            (Cause::Call(table.spans.name[table.calls[call as usize].span as usize]), vec![call])
        }
        _ => (Cause::Between, all),
    }
}
