//! What each device did: busy and idle, by what, and how copies and kernels overlap.

use super::{Union, overlap};
use crate::json::written;
use crate::ordered::{BTreeMap, sort_by_key};
use crate::trace::StrId;
use crate::trace::read::names::communicates;
use crate::trace::table::{Op, Table, Work};

/// One device. A field that is `None` is left out of the JSON form when the device has no such operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "busy: the union of such operations; overlap: both unions at once")]
pub struct Device {
    /// From the first start to the last end of operations of some length.
    pub window_ns: Option<i128>,
    /// Some operation runs.
    pub busy_ns: i128,
    /// The window less the busy time.
    pub idle_ns: Option<i128>,
    pub kernel_busy_ns: i128,
    pub copy_busy_ns: i128,
    pub memset_busy_ns: i128,
    pub copy_and_kernel_overlap_ns: i128,
    pub h2d_busy_ns: Option<i128>,
    pub h2d_and_kernel_overlap_ns: Option<i128>,
    pub d2h_busy_ns: Option<i128>,
    pub d2h_and_kernel_overlap_ns: Option<i128>,
    pub d2d_busy_ns: Option<i128>,
    pub d2d_and_kernel_overlap_ns: Option<i128>,
    pub p2p_busy_ns: Option<i128>,
    pub p2p_and_kernel_overlap_ns: Option<i128>,
    pub h2d_and_d2h_overlap_ns: Option<i128>,
    pub comm_kernel_busy_ns: Option<i128>,
    pub compute_kernel_busy_ns: Option<i128>,
    pub comm_and_compute_overlap_ns: Option<i128>,
}

written!(Device:
    window_ns, busy_ns, idle_ns, kernel_busy_ns, copy_busy_ns, memset_busy_ns, copy_and_kernel_overlap_ns,
    h2d_busy_ns?, h2d_and_kernel_overlap_ns?, d2h_busy_ns?, d2h_and_kernel_overlap_ns?, d2d_busy_ns?,
    d2d_and_kernel_overlap_ns?, p2p_busy_ns?, p2p_and_kernel_overlap_ns?, h2d_and_d2h_overlap_ns?,
    comm_kernel_busy_ns?, compute_kernel_busy_ns?, comm_and_compute_overlap_ns?
);

/// What HolisticTraceAnalysis 0.6.1 reports of files of whole microseconds: matched operations of all devices together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HtaCompatible {
    /// From the first start to the last end.
    pub window_ns: Option<i128>,
    /// Some operation runs.
    pub busy_ns: i128,
    /// The window less the busy time.
    pub idle_ns: Option<i128>,
    /// Kernels that do not communicate.
    pub compute_kernel_busy_ns: i128,
}

written!(HtaCompatible: window_ns, busy_ns, idle_ns, compute_kernel_busy_ns);

/// What an operation counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// A kernel that computes.
    Compute,
    /// A kernel that communicates.
    Comm,
    /// Host to device.
    ToDevice,
    /// Device to host.
    ToHost,
    /// Within a device.
    WithinDevice,
    /// Between devices.
    Peer,
    /// Any other copy.
    OtherCopy,
    /// A memset.
    Memset,
}

/// Groups by name, so that long names are searched once.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<(Work, StrId), Group>);

impl Groups {
    pub(crate) fn of(&mut self, table: &Table, op: &Op) -> Group {
        let name = table.spans.name[op.span as usize];
        *self.0.entry((op.work, name)).or_insert_with(|| group(op.work, table.strings.get(name)))
    }
}

fn group(work: Work, name: &str) -> Group {
    match work {
        Work::Kernel if communicates(name) => Group::Comm,
        Work::Kernel => Group::Compute,
        Work::Memset => Group::Memset,
        Work::Memcpy => match name.strip_prefix("Memcpy ").and_then(|rest| rest.split_whitespace().next()) {
            Some("HtoD") => Group::ToDevice,
            Some("DtoH") => Group::ToHost,
            Some("DtoD") => Group::WithinDevice,
            Some("PtoP") => Group::Peer,
            _ => Group::OtherCopy,
        },
    }
}

pub(super) fn devices(table: &Table) -> BTreeMap<String, Device> {
    let mut groups = Groups::default();
    let mut by_device: Vec<Vec<(Group, (i64, i64))>> = vec![Vec::new(); table.devices.len()];
    for op in &table.ops {
        by_device[op.device as usize].push((groups.of(table, op), table.spans.interval(op.span)));
    }
    (0..).zip(by_device).map(|(index, ops)| (table.device_name(index), device(ops))).collect()
}

fn device(mut ops: Vec<(Group, (i64, i64))>) -> Device {
    // Sorted once here, every union below is linear.
    sort_by_key(&mut ops, |op| op.1);
    let union =
        |wanted: &dyn Fn(Group) -> bool| Union::of(ops.iter().filter(|op| wanted(op.0)).map(|op| op.1));
    let has = |group: Group| ops.iter().any(|op| op.0 == group);
    let is_kernel = |group: Group| matches!(group, Group::Compute | Group::Comm);
    let all = union(&|_| true);
    let kernels = union(&is_kernel);
    let copies = union(&|group| !is_kernel(group) && group != Group::Memset);
    let one = |group: Group| has(group).then(|| union(&|g| g == group));
    let (h2d, d2h) = (one(Group::ToDevice), one(Group::ToHost));
    let (d2d, p2p) = (one(Group::WithinDevice), one(Group::Peer));
    let comm = one(Group::Comm);
    let compute = comm.as_ref().map(|_| union(&|group| group == Group::Compute));
    let busy = |some: &Option<Union>| some.as_ref().map(Union::len);
    let with_kernels = |some: &Option<Union>| some.as_ref().map(|some| overlap(some, &kernels));
    let both = |a: &Option<Union>, b: &Option<Union>| Some(overlap(a.as_ref()?, b.as_ref()?));
    Device {
        window_ns: all.window(),
        busy_ns: all.len(),
        idle_ns: all.window().map(|window| window - all.len()),
        kernel_busy_ns: kernels.len(),
        copy_busy_ns: copies.len(),
        memset_busy_ns: union(&|group| group == Group::Memset).len(),
        copy_and_kernel_overlap_ns: overlap(&copies, &kernels),
        h2d_busy_ns: busy(&h2d),
        h2d_and_kernel_overlap_ns: with_kernels(&h2d),
        d2h_busy_ns: busy(&d2h),
        d2h_and_kernel_overlap_ns: with_kernels(&d2h),
        d2d_busy_ns: busy(&d2d),
        d2d_and_kernel_overlap_ns: with_kernels(&d2d),
        p2p_busy_ns: busy(&p2p),
        p2p_and_kernel_overlap_ns: with_kernels(&p2p),
        h2d_and_d2h_overlap_ns: both(&h2d, &d2h),
        comm_kernel_busy_ns: busy(&comm),
        compute_kernel_busy_ns: busy(&compute),
        comm_and_compute_overlap_ns: both(&comm, &compute),
    }
}

pub(super) fn hta_compatible(table: &Table) -> Option<HtaCompatible> {
    let mut groups = Groups::default();
    let matched = || table.ops.iter().filter(|op| op.call().is_some());
    matched().next()?;
    let all = Union::of(matched().map(|op| table.spans.interval(op.span)));
    let compute = Union::of(
        matched().filter(|op| groups.of(table, op) == Group::Compute).map(|op| table.spans.interval(op.span)),
    );
    Some(HtaCompatible {
        window_ns: all.window(),
        busy_ns: all.len(),
        idle_ns: all.window().map(|window| window - all.len()),
        compute_kernel_busy_ns: compute.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_behind_memcpy_is_the_direction() {
        for (work, name, expected) in [
            (Work::Memcpy, "Memcpy HtoD (Pinned -> Device)", Group::ToDevice),
            (Work::Memcpy, "Memcpy DtoH", Group::ToHost),
            (Work::Memcpy, "Memcpy PtoP (Device -> Device)", Group::Peer),
            (Work::Memcpy, "Memcpy DtoA (Device -> Array)", Group::OtherCopy),
            (Work::Memcpy, "CopyDeviceToDevice", Group::OtherCopy),
            (Work::Kernel, "Memcpy HtoD", Group::Compute),
            (Work::Kernel, "ncclKernel_AllReduce", Group::Comm),
            (Work::Kernel, "HCCL", Group::Comm),
            (Work::Memset, "Memset (Device)", Group::Memset),
        ] {
            assert_eq!(group(work, name), expected, "{name}");
        }
    }
}
