//! Managed memory that moved by itself, because one side touched what lay with the other.

use super::{Case, Predicted, Rate, Scene, Words, counted, size, time};
use crate::trace::table::{Op, Table, Work};

/// Whether an operation moves managed memory without a copy that somebody asked for.
pub(super) fn is_migration(table: &Table, op: &Op) -> bool {
    op.work == Work::Memcpy && op.call().is_none() && table.name(op.span).contains("Managed")
}

/// Whether nobody asked for a migration: `cudaMemPrefetchAsync` does.
fn is_unasked(table: &Table, op: &Op) -> bool {
    is_migration(table, op) && !table.name(op.span).ends_with("prefetched")
}

pub(super) fn look(scene: &mut Scene<'_>) {
    let table = scene.table;
    for device in scene.devices() {
        let (mut cases, mut moved) = (Vec::new(), Rate::default());
        for &k in &scene.ops_of[device as usize] {
            let op = &table.ops[k as usize];
            if !is_unasked(table, op) {
                continue;
            }
            let (start, end) = table.spans.interval(op.span);
            let cost_ns = i128::from(end) - i128::from(start);
            (moved.bytes, moved.ns) = (moved.bytes + i128::from(op.bytes.unwrap_or(0)), moved.ns + cost_ns);
            cases.push(Case { call: None, shows: op.span, cost_ns });
        }
        let n = cases.len();
        let words = Words {
            rule: "managed-migration",
            title: format!(
                "{} of managed memory {} {} in {} on {}",
                counted(n, "migration", "migrations"),
                if n == 1 { "moves" } else { "move" },
                size(moved.bytes),
                time(moved.ns),
                table.device_name(device)
            ),
            why: format!(
                "{} each on average, {:.1} GB/s while they run: pages move when one side touches what lies with the other, \
                 and what touches them waits",
                size(moved.bytes / i128::try_from(n.max(1)).unwrap_or(1)),
                moved.gbps()
            ),
            change: "`cudaMemPrefetchAsync` before the kernel moves the memory at once, beside other work; `cudaMemAdvise` \
                     keeps what both sides touch from moving back and forth; what one side alone touches needs no managed \
                     memory"
                .to_owned(),
        };
        // How long kernels waited for their pages is part of their length.
        scene.note(cases, words, Predicted::default());
    }
}
