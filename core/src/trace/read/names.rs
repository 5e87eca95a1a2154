//! What categories and names of foreign events mean.

use super::super::{Kind, Slice};

/// The category, in lower case, of an accelerator's work.
pub(in crate::trace) const ACCELERATOR: &str = "mtia_ccp_events";

/// What a category says of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Work of a stream.
    Kernel,
    Memcpy,
    Memset,
    /// Work of an accelerator whose copies carry a direction in their arguments.
    Accelerator,
    /// A row that tells of a synchronisation; no work.
    Sync,
    /// A row that tells of an event's record; no work.
    Record,
    /// A call that can launch work.
    Launch,
    /// Something else that a host thread does.
    Host(Kind),
    /// Anything else.
    Other(Kind),
}

impl Class {
    /// The class of a category; upper and lower case are the same.
    pub(super) fn of(cat: &str) -> Class {
        match &*cat.to_ascii_lowercase() {
            "kernel" => Class::Kernel,
            "gpu_memcpy" | "memcpy" => Class::Memcpy,
            "gpu_memset" | "memset" => Class::Memset,
            ACCELERATOR => Class::Accelerator,
            "cuda_sync" | "xpu_sync" => Class::Sync,
            "cuda_event" => Class::Record,
            lower if is_host_call(lower) => Class::Launch,
            "privateuse1_runtime" | "privateuse1_driver" | "glow_runtime" => Class::Host(Kind::Call),
            "cpu_op" | "operator" | "user_annotation" | "python_function" => Class::Host(Kind::Annotation),
            "cpu_instant_event" => Class::Host(Kind::Other),
            "overhead" => Class::Host(Kind::Work),
            "gpu_user_annotation" | "trace" => Class::Other(Kind::Annotation),
            _ => Class::Other(Kind::Other),
        }
    }

    /// Whether arguments of its events are asked for when a recording is run again: of which devices and which records.
    pub(super) fn is_asked(self) -> bool {
        matches!(self, Class::Memcpy | Class::Memset | Class::Accelerator | Class::Sync | Class::Record)
    }

    pub(super) fn is_stream_work(self) -> bool {
        matches!(self, Class::Kernel | Class::Memcpy | Class::Memset | Class::Accelerator)
    }

    /// What an event of this class and name is, and what its name says of the host memory.
    pub(super) fn kind(self, name: &str) -> (Kind, u8) {
        match self {
            Class::Kernel if communicates(name) => (Kind::Communication, 0),
            Class::Kernel | Class::Accelerator => (Kind::Kernel, 0),
            Class::Memcpy => (copy(name), memory(name)),
            Class::Memset => (Kind::Memset, memory(name)),
            Class::Sync => (Kind::Sync, 0),
            Class::Record => (Kind::Record, 0),
            Class::Launch if contains(name, b"synchronize") => (Kind::Wait, 0),
            Class::Launch => (Kind::Call, 0),
            Class::Host(kind) | Class::Other(kind) => (kind, 0),
        }
    }
}

/// Whether a category, in lower case, is of calls that can launch work.
pub(crate) fn is_host_call(lower: &str) -> bool {
    matches!(
        lower,
        "cuda_runtime" | "cuda_driver" | "runtime" | "mtia_runtime" | "xpu_runtime" | "xpu_driver"
    )
}

/// The direction that a copy's name states, as in `Memcpy HtoD (Pageable -> Device)`, or `Memcpy M2D` of XPU.
pub(crate) fn copy(name: &str) -> Kind {
    match name.strip_prefix("Memcpy ").and_then(|rest| rest.trim_start().split([' ', '(']).next()) {
        Some("HtoD" | "M2D") => Kind::ToDevice,
        Some("DtoH" | "D2M") => Kind::ToHost,
        Some("DtoD" | "D2D") => Kind::WithinDevice,
        Some("PtoP") => Kind::Peer,
        _ => Kind::OtherCopy,
    }
}

/// The direction that an accelerator's copy states in its arguments.
pub(in crate::trace) fn direction(text: &str) -> Option<Kind> {
    match text {
        "HOST_TO_DEVICE" => Some(Kind::ToDevice),
        "DEVICE_TO_HOST" => Some(Kind::ToHost),
        "DEVICE_TO_DEVICE" => Some(Kind::WithinDevice),
        _ => None,
    }
}

/// The kind of host memory that stands in a copy's brackets.
fn memory(name: &str) -> u8 {
    let Some((_, kinds)) = name.split_once('(') else { return 0 };
    kinds.trim_end_matches(')').split(" -> ").fold(0, |flags, kind| {
        flags
            | match kind {
                "Pageable" => Slice::PAGEABLE,
                "Pinned" => Slice::PINNED,
                _ => 0,
            }
    })
}

pub(in crate::trace) fn communicates(name: &str) -> bool {
    [b"nccl", b"rccl", b"hccl"].iter().any(|tool| contains(name, *tool))
}

/// Whether `word`, which is lower case, stands in `name` in any case.
fn contains(name: &str, word: &[u8]) -> bool {
    name.as_bytes().windows(word.len()).any(|w| w.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cat: &str, name: &str, kind: Kind, flags: u8) {
        assert_eq!(Class::of(cat).kind(name), (kind, flags), "{cat} {name}");
    }

    #[test]
    fn names_say_what_an_operation_is() {
        check("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", Kind::ToDevice, Slice::PAGEABLE);
        check("Memcpy", "Memcpy DtoH (Device -> Pinned)", Kind::ToHost, Slice::PINNED);
        check("gpu_memcpy", "Memcpy DtoD (Device -> Device)", Kind::WithinDevice, 0);
        check("gpu_memcpy", "Memcpy PtoP (Device -> Device)", Kind::Peer, 0);
        check("gpu_memcpy", "Memcpy HtoD (Host -> Device)", Kind::ToDevice, 0);
        check(
            "gpu_memcpy",
            "Memcpy HtoH (Pageable -> Pinned)",
            Kind::OtherCopy,
            Slice::PAGEABLE | Slice::PINNED,
        );
        check("gpu_memcpy", "Memcpy <unknown> (Unknown -> Unknown)", Kind::OtherCopy, 0);
        check("gpu_memcpy", "CopyHostToDevice", Kind::OtherCopy, 0);
        check("gpu_memset", "Memset (Device)", Kind::Memset, 0);
        check("kernel", "ncclDevKernel_AllReduce", Kind::Communication, 0);
        check("KERNEL", "void foo_RCCL()", Kind::Communication, 0);
        check("kernel", "nccnccl", Kind::Communication, 0);
        check("kernel", "nccll", Kind::Communication, 0);
        check("kernel", "ncc l", Kind::Kernel, 0);
        check("cuda_runtime", "ncclLaunch", Kind::Call, 0);
        check("cuda_runtime", "cudaDeviceSynchronize", Kind::Wait, 0);
        check("cuda_sync", "Stream Sync", Kind::Sync, 0);
        check("Operator", "aten::add", Kind::Annotation, 0);
        check("brand new", "x", Kind::Other, 0);
    }
}
