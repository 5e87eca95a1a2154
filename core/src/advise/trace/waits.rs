//! Calls that synchronise: what they wait for, and those that wait for nothing.

use super::replay::Change;
use super::{Case, Scene, Words, counted, time};
use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::StrId;
use crate::trace::analysis::calls::is_sync;
use crate::trace::analysis::copies::is_copy_call;

pub(super) fn look(scene: &mut Scene<'_>) {
    let table = scene.table;
    // By name: calls that wait for work, and calls that find nothing to wait for.
    let mut by_name: BTreeMap<StrId, [Vec<u32>; 2]> = BTreeMap::new();
    for (index, call) in (0..).zip(&table.calls) {
        let name = table.name(call.span);
        if is_sync(name) && !is_copy_call(name) {
            let for_nothing = scene.replay.calls[index as usize].waits_for.is_none();
            let named = by_name.entry(table.spans.name[call.span as usize]).or_default();
            named[usize::from(for_nothing)].push(index);
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
            why: "no operation that was launched before ended while they ran".to_owned(),
            change: "leave them out: after a copy to pageable memory, or a second time in a row, there is nothing \
                     left to wait for. Copies with `non_blocking=True` and one wait for all make none of them"
                .to_owned(),
        };
        scene.note(idle_cases, words, Change { dropped_calls: idle, ..Change::default() });
    }
}
