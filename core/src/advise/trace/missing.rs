//! What a file does not have, and the call of the profiler that would record it.

use super::Missing;
use crate::trace::analysis::calls::is_sync;
use crate::trace::table::{CatRole, Table, Work};

pub(super) fn missing(table: &Table) -> Vec<Missing> {
    let mut found = Vec::new();
    let has = |role: CatRole| table.cats.iter().any(|cat| cat.role == role);
    let stacks = has(CatRole::Python) || !table.stacks.is_empty();
    if !table.calls.is_empty() && !stacks {
        found.push(Missing {
            what: "no Python stacks: findings name operators, not lines",
            record: "torch.profiler.profile(..., with_stack=True, \
                     experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True))",
        });
    }
    let syncs = table.calls.iter().any(|call| is_sync(table.name(call.span)));
    if syncs && table.syncs.is_empty() {
        found.push(Missing {
            what: "no synchronisation events: what a call or a stream waits for is taken from times",
            record: "torch.profiler.profile(..., \
                     experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True))",
        });
    }
    let copies = || table.ops.iter().filter(|op| op.work == Work::Memcpy);
    let sized = |op: &crate::trace::table::Op| {
        op.bytes.is_some() || op.call().is_some_and(|call| table.calls[call].size.is_some())
    };
    if copies().next().is_some() && !copies().any(sized) {
        found.push(Missing {
            what: "no sizes of copies: rates and small copies cannot be told",
            record: "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], ...)",
        });
    }
    if !table.ops.is_empty() && table.ops.iter().all(|op| op.call().is_none()) {
        found.push(Missing {
            what: "no host calls that operations are joined with: what held the host cannot be told",
            record: "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], ...)",
        });
    }
    found
}
