//! Bytes that a trace's copies asked for and moved, and what a trace cannot tell of them.

use crate::json::written;
use crate::trace::Kind;
use crate::trace::analysis::devices::{Group, Groups};
use crate::trace::direction;
use crate::trace::table::{Table, Work};

/// The copies of a trace by where they go, in bytes as the file states them.
///
/// The payload is what copies bring from host to device, back, or from one device to another. A trace tells the hops over
/// links and within devices. It does not tell:
///
/// - what a driver copies on the host to stage pageable memory ([`Moved::pageable_bytes`] at most once more);
/// - what host threads copy, such as `pin_memory()`;
/// - what kernels read and write of mapped host memory, and pages of managed memory that move;
/// - whether a copy between devices went through the host.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moved {
    /// Bytes asked for.
    pub payload_bytes: u64,
    /// Copied to a device.
    pub to_device_bytes: u64,
    /// Copied to the host.
    pub to_host_bytes: u64,
    /// Copied between devices.
    pub peer_bytes: u64,
    /// Copied within a device.
    pub within_device_bytes: u64,
    /// Copied from where and to where the name does not say; in no sum.
    pub other_bytes: u64,
    /// Of the payload, to or from pageable memory.
    pub pageable_bytes: u64,
    /// Copies whose bytes the file does not state.
    pub n_without_bytes: u64,
    /// Bytes moved for each byte of payload, as the file tells; `None` where nothing is asked for.
    pub factor: Option<f64>,
    /// The same if the driver staged every pageable copy.
    pub factor_if_staged: Option<f64>,
}

written!(Moved:
    payload_bytes, to_device_bytes, to_host_bytes, peer_bytes, within_device_bytes, other_bytes,
    pageable_bytes, n_without_bytes, factor, factor_if_staged
);

impl Moved {
    /// The copies of a trace.
    ///
    /// # Cost
    /// Linear in the operations.
    pub fn of(table: &Table) -> Moved {
        let mut groups = Groups::default();
        let mut moved = Moved::default();
        let mut seen = vec![false; table.calls.len()];
        for op in table.ops.iter().filter(|op| op.work == Work::Memcpy || op.direction.is_some()) {
            // What a call says of its size, it says of all copies that it made.
            let by_call = || {
                let call = op.call()?;
                let again = std::mem::replace(&mut seen[call], true);
                table.calls[call].size.map(|size| if again { 0 } else { size })
            };
            let Some(bytes) = op.bytes.or_else(by_call) else {
                moved.n_without_bytes += 1;
                continue;
            };
            let group = match (op.direction, groups.of(table, op)) {
                (Some(direction), _) => towards(direction),
                (None, Group::OtherCopy) => of_name(table.name(op.span)),
                (None, group) => group,
            };
            let hop = match group {
                Group::ToDevice => &mut moved.to_device_bytes,
                Group::ToHost => &mut moved.to_host_bytes,
                Group::Peer => &mut moved.peer_bytes,
                Group::WithinDevice => &mut moved.within_device_bytes,
                Group::Compute | Group::Comm | Group::OtherCopy | Group::Memset => &mut moved.other_bytes,
            };
            *hop = hop.saturating_add(bytes);
            let is_asked_for = matches!(group, Group::ToDevice | Group::ToHost);
            if is_asked_for && table.name(op.span).contains("Pageable") {
                moved.pageable_bytes = moved.pageable_bytes.saturating_add(bytes);
            }
        }
        let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
        moved.payload_bytes = sum(&[moved.to_device_bytes, moved.to_host_bytes, moved.peer_bytes]);
        let all = sum(&[moved.payload_bytes, moved.within_device_bytes]);
        let over = |bytes: u64| {
            let ratio = bytes as f64 / moved.payload_bytes as f64;
            (0 < moved.payload_bytes).then(|| (ratio * 1e6).round() / 1e6)
        };
        moved.factor = over(all);
        moved.factor_if_staged = over(sum(&[all, moved.pageable_bytes]));
        moved
    }
}

/// Where a copy goes that is none of the usual four: an array is on a device, whatever it is copied with; and ROCm's older profiler
/// writes `CopyHostToDevice`, or `CopyHostToDevice2D`. From device to device it does not say whether within one.
fn of_name(name: &str) -> Group {
    match name.strip_prefix("Memcpy ").and_then(|name| name.split(' ').next()) {
        Some("HtoA") => Group::ToDevice,
        Some("AtoH") => Group::ToHost,
        Some("AtoA" | "AtoD" | "DtoA") => Group::WithinDevice,
        _ if name.starts_with("CopyHostToDevice") => Group::ToDevice,
        _ if name.starts_with("CopyDeviceToHost") => Group::ToHost,
        _ => towards(direction(name)),
    }
}

/// Where a copy goes that is not in CUDA's words: in those of XPU, `M` being the host, or in an accelerator's arguments.
fn towards(direction: Kind) -> Group {
    match direction {
        Kind::ToDevice => Group::ToDevice,
        Kind::ToHost => Group::ToHost,
        Kind::WithinDevice => Group::WithinDevice,
        _ => Group::OtherCopy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::table::Scan;

    fn moved(events: &[(&str, &str)]) -> Moved {
        let list: Vec<String> = (0..)
            .zip(events)
            .map(|(k, (name, bytes)): (u32, _)| {
                format!(
                    "{{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"{name}\",\"pid\":0,\"tid\":7,\"ts\":{},\"dur\":5,\
                     \"args\":{{\"device\":0,\"stream\":7,\"correlation\":{k}{bytes}}}}}",
                    10 * k
                )
            })
            .collect();
        let file = format!("{{\"schemaVersion\":1,\"traceEvents\":[{}]}}", list.join(","));
        let mut scan = Scan::new();
        scan.feed(file.as_bytes()).unwrap();
        Moved::of(&scan.finish().unwrap())
    }

    /// What a call says of its size it says of all copies that it made.
    #[test]
    fn a_call_that_was_cut_into_copies_says_its_size_once() {
        let copy = |at: u32| {
            format!(
                r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Host -> Device)","pid":0,"tid":7,"ts":{at},"dur":5,"args":{{"correlation":3}}}}"#
            )
        };
        let call = r#"{"ph":"X","cat":"cuda_runtime","name":"hipMemcpy","pid":1,"tid":1,"ts":0,"dur":40,"args":{"correlation":3,"size":1000000}}"#;
        let mut scan = Scan::new();
        scan.feed(format!("[{call},{},{},{}]", copy(5), copy(10), copy(15)).as_bytes()).unwrap();
        let table = scan.finish().unwrap();
        let found = Moved::of(&table);
        assert_eq!((found.payload_bytes, found.n_without_bytes), (1_000_000, 0));
        let by_name = &crate::trace::analysis::Figures::of(&table).copies["Memcpy HtoD (Host -> Device)"];
        assert_eq!((by_name.bytes, by_name.bytes_from_host_calls), (0, Some(1_000_000)));
    }

    /// Copies of an accelerator count as kernels in every figure but this; what no arguments call a copy is none.
    #[test]
    fn copies_that_arguments_call_so_are_in_the_ledger() {
        let event = |cat: &str, at: u32, args: &str| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"dma_request","pid":9,"tid":4,"ts":{at},"dur":5,"args":{{{args}}}}}"#
            )
        };
        let list = [
            event("mtia_ccp_events", 1, r#""stream":102,"direction":"HOST_TO_DEVICE","size":1852"#),
            event("MTIA_CCP_EVENTS", 2, r#""direction":"DEVICE_TO_HOST","size":70,"sqid":1"#),
            event("mtia_ccp_events", 3, r#""direction":"DEVICE_TO_DEVICE","size":"8""#),
            event("mtia_ccp_events", 4, r#""direction":"DEVICE_TO_HOST","size":4000,"bytes":400"#),
            event("mtia_ccp_events", 5, r#""direction":"DEVICE_TO_HOST""#),
            event("mtia_ccp_events", 6, r#""direction":"SIDEWAYS","size":1"#),
            event("mtia_ccp_events", 7, r#""size":1"#),
            event("kernel", 8, r#""direction":"HOST_TO_DEVICE","size":1"#),
        ];
        let mut scan = Scan::new();
        scan.feed(format!("[{}]", list.join(",")).as_bytes()).unwrap();
        let table = scan.finish().unwrap();
        let found = Moved::of(&table);
        assert_eq!((found.to_device_bytes, found.to_host_bytes, found.within_device_bytes), (1852, 470, 8));
        assert_eq!((found.payload_bytes, found.other_bytes, found.n_without_bytes), (2322, 0, 1));
        assert_eq!(crate::trace::analysis::Figures::of(&table).gpu_ops["kernel"], 8);
    }

    #[test]
    fn arrays_are_on_a_device() {
        let found = moved(&[
            ("Memcpy HtoA (Pageable -> Array)", ",\"bytes\":1000"),
            ("Memcpy HtoA (Pinned -> Array)", ",\"bytes\":200"),
            ("Memcpy AtoH (Array -> Pageable)", ",\"bytes\":30"),
            ("Memcpy AtoA (Array -> Array)", ",\"bytes\":4"),
            ("Memcpy AtoD (Array -> Device)", ",\"bytes\":5"),
            ("Memcpy DtoA (Device -> Array)", ",\"bytes\":6"),
        ]);
        assert_eq!((found.to_device_bytes, found.to_host_bytes, found.within_device_bytes), (1200, 30, 15));
        assert_eq!((found.payload_bytes, found.pageable_bytes, found.other_bytes), (1230, 1030, 0));
    }

    /// What the figures of devices count as other copies says in its name where it goes.
    #[test]
    fn copies_of_older_profilers_of_rocm_are_told_by_their_names() {
        let found = moved(&[
            ("CopyHostToDevice", ",\"bytes\":1000"),
            ("CopyHostToDevice2D", ",\"bytes\":200"),
            ("CopyDeviceToHost", ",\"bytes\":30"),
            ("CopyDeviceToDevice", ",\"bytes\":4"),
        ]);
        assert_eq!((found.to_device_bytes, found.to_host_bytes, found.other_bytes), (1200, 30, 4));
        assert_eq!(found.payload_bytes, 1230);
    }

    #[test]
    fn copies_are_told_by_where_they_go() {
        let found = moved(&[
            ("Memcpy HtoD (Pageable -> Device)", ",\"bytes\":4000"),
            ("Memcpy HtoD (Pinned -> Device)", ",\"bytes\":6000"),
            ("Memcpy DtoH (Device -> Pageable)", ",\"bytes\":1000"),
            ("Memcpy DtoD (Device -> Device)", ",\"bytes\":2500"),
            ("Memcpy PtoP (Device -> Device)", ",\"bytes\":1500"),
            ("Memcpy HtoH (Pageable -> Pinned)", ",\"bytes\":700"),
            ("Memcpy M2D (Memory -> Device)", ",\"bytes\":20"),
            ("Memcpy D2M (Device -> Memory)", ",\"bytes\":30"),
            ("Memcpy D2D (Device -> Device)", ",\"bytes\":40"),
            ("Memcpy HtoD (Pinned -> Device)", ""),
        ]);
        let expected = Moved {
            payload_bytes: 4000 + 6000 + 1000 + 1500 + 50,
            to_device_bytes: 10_020,
            to_host_bytes: 1030,
            peer_bytes: 1500,
            within_device_bytes: 2540,
            other_bytes: 700,
            pageable_bytes: 5000,
            n_without_bytes: 1,
            factor: Some(1.20239),
            factor_if_staged: Some(1.600797),
        };
        assert_eq!(found, expected);
        assert_eq!(moved(&[]), Moved::default());
    }
}
