//! What is alive at a command, against a replay that keeps nothing but the list of held names.

use std::collections::BTreeMap;

use crate::random::{Random, program};
use spanlift::memory::Layout;
use spanlift::program::{Alloc, Op, Program, Space};
use spanlift::{Bytes, mib};

/// The bytes of every place after command `index`, from the definition: every byte of a block once.
fn replay(p: &Program, index: usize) -> BTreeMap<(String, &'static str), u128> {
    let allocs: Vec<&Alloc> = p.commands()[..=index]
        .iter()
        .filter_map(|c| if let Op::Alloc(a) = &c.op { Some(a) } else { None })
        .collect();
    let find = |buffer| *allocs.iter().find(|a| a.buffer == buffer).expect("declared");
    let is_freed = |a: &Alloc| {
        let frees = |op: &Op| matches!(op, Op::Free { buffer, .. } if *buffer == a.buffer);
        p.commands()[..=index].iter().any(|c| frees(&c.op))
    };
    let mut blocks: BTreeMap<usize, u128> = BTreeMap::new();
    for a in &allocs {
        let mut root = *a;
        while let Some(old) = root.reuse {
            root = find(old);
        }
        let held = if is_freed(a) { 0 } else { a.bytes.min(root.bytes) };
        let most = blocks.entry(root.buffer.index()).or_default();
        *most = (*most).max(u128::try_from(held).expect("bytes are not negative"));
    }
    let mut places = BTreeMap::new();
    for a in allocs {
        if let Some(bytes) = blocks.get(&a.buffer.index()) {
            let (device, space) = match a.space {
                Space::Device => (format!("cuda:{}", a.dev), "device"),
                Space::Managed => (format!("cuda:{}", a.dev), "managed"),
                Space::Pinned => ("cpu".to_owned(), "pinned"),
                Space::Pageable => ("cpu".to_owned(), "pageable"),
            };
            *places.entry((device, space)).or_default() += bytes;
        }
    }
    places
}

/// The first command with the largest value.
fn peak(values: &[u128]) -> (u128, Option<usize>) {
    let most = values.iter().copied().max().unwrap_or(0);
    (most, values.iter().position(|&n| n == most).filter(|_| most > 0))
}

#[test]
fn random_programs_hold_what_a_replay_holds() {
    let (mut frees, mut reuses, mut shared) = (0, 0, 0);
    for seed in 0..240 {
        let p = program(seed, 60);
        let n = p.len();
        let all: Vec<_> = (0..n).map(|k| replay(&p, k)).collect();
        let at = |k: usize, device: &str, space: Option<&str>| -> u128 {
            let here = |(d, s): &(String, &str)| d == device && space.is_none_or(|space| *s == space);
            all[k].iter().filter(|(place, _)| here(place)).map(|(_, n)| n).sum()
        };
        let mut random = Random(seed);
        for index in [0, n / 3, random.below(n), n - 1, n + 7] {
            let k = index.min(n - 1);
            let alive = p.alive_at(index).unwrap();
            assert_eq!(p.alive_at(index).unwrap(), alive, "seed {seed}: asked twice");
            assert_eq!(alive.command, Some(k));
            for (device, on) in &alive.devices {
                let values: Vec<u128> = (0..n).map(|k| at(k, device, None)).collect();
                assert_eq!(on.all.bytes, values[k], "seed {seed}, command {k}, {device}");
                assert_eq!((on.all.peak_bytes, on.all.peak_command), peak(&values), "seed {seed}, {device}");
                for (space, part) in &on.spaces {
                    let values: Vec<u128> = (0..n).map(|k| at(k, device, Some(space))).collect();
                    assert_eq!(part.bytes, values[k], "seed {seed}, command {k}, {device} {space}");
                    let found = (part.peak_bytes, part.peak_command);
                    assert_eq!(found, peak(&values), "seed {seed}, {device} {space}");
                }
            }
            let places: Vec<_> = alive
                .devices
                .iter()
                .flat_map(|(d, on)| on.spaces.keys().map(move |space| (d.clone(), *space)))
                .collect();
            assert_eq!(places, all[n - 1].keys().cloned().collect::<Vec<_>>(), "seed {seed}");
            // The buffers as a layout have the same bytes.
            let layout = alive.layout();
            assert_eq!(Layout::from_json(layout.to_json().as_bytes()).unwrap(), layout, "seed {seed}");
            let held: u128 = all[k].values().sum();
            assert_eq!(
                layout.report().unwrap().devices.values().map(|d| d.unique_bytes).sum::<u128>(),
                held,
                "seed {seed}, command {k}"
            );
            shared += usize::from(layout.tensors().len() > layout.storages().len());
        }
        for c in p.commands() {
            frees += usize::from(matches!(c.op, Op::Free { .. }));
            reuses += usize::from(matches!(&c.op, Op::Alloc(a) if a.reuse.is_some()));
        }
    }
    assert!(
        frees > 100 && reuses > 20 && shared > 20,
        "{frees} frees, {reuses} reuses, {shared} shared: one-sided"
    );
}

#[test]
fn what_is_alive_reads_as_a_table_and_as_json() {
    let mut p = Program::new();
    let x = p.pinned("x\n\u{1b}[31m", mib(1));
    let d = p.device(0, "d", mib(4));
    let e = p.device(0, "e", Bytes(999));
    p.free(d);
    let _ = (x, e);
    let alive = p.alive_at(9).unwrap();
    let text = alive.to_string();
    let expected = "\
device  space                 held                peak    first reached
cpu     pinned  1.00 MiB (1.05 MB)  1.00 MiB (1.05 MB)  after command 0
cuda:0  device       999 B (999 B)  4.00 MiB (4.20 MB)  after command 2

";
    assert!(text.starts_with("held after command 3\n"), "{text}");
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("\nx\\n\\u{1b}[31m  cpu     pinned") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("\nseen by the order of the host calls"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&alive.to_json()).unwrap();
    assert_eq!(json["devices"]["cuda:0"]["peak_bytes"], (4 << 20) + 999);
    assert_eq!(json["devices"]["cuda:0"]["spaces"]["device"]["peak_command"], 2);
    assert_eq!(json["buffers"][1]["name"], "e");
    assert!(json["not_seen"].as_array().unwrap().len() > 3);
}

#[test]
fn programs_without_memory_and_wrong_ones() {
    let empty = Program::new().alive_at(0).unwrap();
    assert_eq!((empty.command, empty.devices.len(), empty.buffers.len()), (None, 0, 0));
    assert!(empty.to_string().contains("no memory at any time"));
    let mut p = Program::new();
    let d = p.device(0, "d", mib(4));
    p.free(d);
    p.free(d);
    assert!(p.alive_at(0).unwrap_err().to_string().contains("double free"));
}

#[test]
fn very_many_buffers_are_bounded_in_text() {
    let mut p = Program::new();
    for k in 0..10_000 {
        p.device(0, &format!("d{k}"), Bytes(1 + k));
    }
    let text = p.alive_at(usize::MAX).unwrap().to_string();
    assert!(text.contains("and 9,980 more, 10,000 in all") && text.lines().count() < 50, "{text}");
}
