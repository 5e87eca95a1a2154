//! Calls that synchronise: what they wait for, and those that have nothing to wait for.

use super::replay::Change;
use super::{Case, Scene, Words, counted, time};
use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::trace::StrId;
use crate::trace::analysis::calls::is_sync;
use crate::trace::analysis::copies::is_copy_call;
use crate::trace::table::Work;

pub(super) fn look(scene: &mut Scene<'_>) {
    let table = scene.table;
    let needless = needless(scene);
    // By name: calls that wait for work, and calls that have nothing to wait for. A call that finds its work done is
    // neither: nothing else says that it was.
    let mut by_name: BTreeMap<StrId, [Vec<u32>; 2]> = BTreeMap::new();
    for (index, call) in (0..).zip(&table.calls) {
        if waits_alone(table.name(call.span)) {
            let named = by_name.entry(table.spans.name[call.span as usize]).or_default();
            if scene.replay.calls[index as usize].waits_for.is_some() {
                named[0].push(index);
            } else if needless[index as usize] {
                named[1].push(index);
            }
        }
    }
    for (name, [waiting, idle]) in by_name {
        let name = table.strings.get(name);
        let case = |&call: &u32| {
            let span = table.calls[call as usize].span;
            let (start, end) = table.spans.interval(span);
            let shows = scene.replay.calls[call as usize].waits_for;
            let shows = shows.map_or(span, |op| table.ops[op as usize].span);
            Case { call: Some(span), shows, cost_ns: i128::from(end) - i128::from(start) }
        };
        let sum = |cases: &[Case]| time(cases.iter().map(|case| case.cost_ns).sum());
        let cases: Vec<Case> = waiting.iter().map(case).collect_vec();
        let idle_cases: Vec<Case> = idle.iter().map(case).collect_vec();
        let words = Words {
            rule: "explicit-sync",
            title: format!(
                "{} of `{name}` {} the host {}",
                counted(cases.len(), "call", "calls"),
                if cases.len() == 1 { "holds" } else { "hold" },
                sum(&cases)
            ),
            why: "each waits for the operation that the first event shows".to_owned(),
            change: "wait for an event of the work that is needed instead of a whole stream or device, as late as \
                     possible; leave out `torch.cuda.synchronize()` that only measures. The prediction is for no wait at all"
                .to_owned(),
        };
        scene.note(cases, words, Change { free_calls: waiting, ..Change::default() });
        let words = Words {
            rule: "idle-sync",
            title: format!(
                "{} of `{name}` {} {}",
                counted(idle_cases.len(), "call", "calls"),
                if idle_cases.len() == 1 { "waits for nothing and takes" } else { "wait for nothing and take" },
                sum(&idle_cases)
            ),
            why: "since the thread last waited, nothing was launched but copies that held it to their end".to_owned(),
            change: "leave them out: after a copy to pageable memory, or a second time in a row, there is nothing \
                     left to wait for. Copies with `non_blocking=True` and one wait for all make none of them"
                .to_owned(),
        };
        scene.note(idle_cases, words, Change { dropped_calls: idle, ..Change::default() });
    }
}

/// Whether a call does nothing but wait.
fn waits_alone(name: &str) -> bool {
    is_sync(name) && !is_copy_call(name)
}

/// Streams looked at for each call that waits.
const MOST_STREAMS: usize = 64;

/// The calls that wait alone and have nothing to wait for, whatever ended when: their thread has waited for everything that
/// was launched before them, by any thread, since copies of pageable memory held it to their end too.
///
/// Which stream a call waits for is known where one call stands for all, or its wait shows it.
fn needless(scene: &Scene<'_>) -> Vec<bool> {
    let table = scene.table;
    let mut found = vec![false; table.calls.len()];
    if MOST_STREAMS < table.streams.len() {
        return found;
    }
    let at = |span: u32| table.spans.interval(span);
    // What happens, in order; at one time launches come first.
    let mut steps: Vec<(i64, bool, usize)> = Vec::new();
    for (k, op) in table.ops.iter().enumerate() {
        steps.push((at(op.call().map_or(op.span, |call| table.calls[call].span)).0, false, k));
    }
    for (k, call) in table.calls.iter().enumerate().filter(|(_, call)| waits_alone(table.name(call.span))) {
        steps.push((at(call.span).0, true, k));
    }
    sort(&mut steps);
    // By stream the last launch, as its place among the steps; by thread and stream how many steps have been waited for.
    let mut launched = vec![None; table.streams.len()];
    let mut waited: BTreeMap<(u32, usize), usize> = BTreeMap::new();
    for (step, &(_, is_wait, k)) in steps.iter().enumerate() {
        if !is_wait {
            let (op, stream) = (&table.ops[k], table.ops[k].stream as usize);
            let held = op.call().map(|call| &table.calls[call]).filter(|call| {
                let waits = is_sync(table.name(call.span)) || table.name(op.span).contains("Pageable");
                waits && op.work == Work::Memcpy && at(op.span).1 <= at(call.span).1
            });
            match held {
                Some(call) => drop(waited.insert((table.spans.row[call.span as usize], stream), step)),
                None => launched[stream] = Some(step),
            }
            continue;
        }
        let span = table.calls[k].span;
        let (row, name) = (table.spans.row[span as usize], table.name(span));
        let is_done = |(stream, launch): (usize, &Option<usize>)| {
            launch.is_none_or(|launch| waited.get(&(row, stream)).is_some_and(|&until| launch < until))
        };
        found[k] = launched.iter().enumerate().all(is_done);
        if name.contains("Event") {
            continue;
        }
        let (n_streams, n_devices) = (table.streams.len(), table.devices.len());
        let one = scene.replay.calls[k].waits_for.map(|op| &table.ops[op as usize]);
        for (stream, (device, _)) in table.streams.iter().enumerate() {
            let is_covered = match one {
                _ if n_streams == 1 => true,
                Some(op) if name.contains("Stream") => op.stream as usize == stream,
                Some(op) => op.device == *device,
                None => !name.contains("Stream") && n_devices == 1,
            };
            if is_covered {
                waited.insert((row, stream), step);
            }
        }
    }
    found
}
