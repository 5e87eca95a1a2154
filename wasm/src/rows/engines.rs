//! Rows of engines and of kinds, made from the work on streams.

use spanlift::trace::{Engine, Kind, LaneKind, Trace};

use super::{Draft, Group};
use crate::details::stated;
use crate::theme::kind_name;

/// What does work: an engine, and where a copy's file says on which channel it went, the channel with its type before it.
type Doer = (Engine, Option<(i64, i64)>);

/// By what rows are in order: engine or kind, the device of what is in flight, and who does it.
type Key = (u8, Option<i64>, Option<Doer>);

/// Rows of engines made from the work on streams.
pub(super) fn engines(trace: &Trace, streams: &[Draft]) -> Vec<Draft> {
    let mut made: Vec<((i64, Doer), Draft)> = Vec::new();
    for stream in streams {
        let LaneKind::Stream { dev, .. } = stream.kind else { continue };
        for &k in &stream.slices {
            let Some(doer) = doer_of(trace, k) else { continue };
            let kind = LaneKind::Engine { dev, engine: doer.0 };
            add(&mut made, (dev, doer), k, || Draft {
                name: name(doer),
                kind,
                slices: Vec::new(),
                is_home: false,
                is_flight: false,
            });
        }
    }
    made.into_iter().map(|(_, draft)| draft).collect()
}

/// The slices of streams on rows by engine or kind, all of them. By engine, below the rows of a direction, what is in flight there: of
/// copies on a channel too, which may go either way.
pub(super) fn regrouped(trace: &Trace, streams: &[Draft], group: Group) -> Vec<Draft> {
    let mut made: Vec<(Key, Draft)> = Vec::new();
    for stream in streams {
        for &k in &stream.slices {
            let kind = trace.slices.kind[k as usize];
            let mut put = |key, name: String, is_flight: bool| {
                let draft =
                    || Draft { name, kind: stream.kind, slices: Vec::new(), is_home: !is_flight, is_flight };
                add(&mut made, key, k, draft);
            };
            match (group, doer_of(trace, k)) {
                (Group::Engine, Some(doer)) => put((doer.0 as u8, None, Some(doer)), name(doer), false),
                (Group::Engine, None) => put((u8::MAX, None, None), "no engine".to_owned(), false),
                _ => put((kind as u8, None, None), kind_name(kind).to_owned(), false),
            }
            if let (Group::Engine, LaneKind::Stream { dev, .. }, Some(engine)) =
                (group, stream.kind, engine_of(kind))
                && engine != Engine::Compute
            {
                let way = engine.name().trim_start_matches("copy ").to_owned();
                put((engine as u8, Some(dev), None), way, true);
            }
        }
    }
    made.into_iter().map(|(_, draft)| draft).collect()
}

/// Puts a slice on the row of a key, which is made where there is none.
fn add<K: Ord>(made: &mut Vec<(K, Draft)>, key: K, k: u32, draft: impl FnOnce() -> Draft) {
    let place = made.binary_search_by(|(of, _)| of.cmp(&key)).unwrap_or_else(|place| {
        made.insert(place, (key, draft()));
        place
    });
    made[place].1.slices.push(k);
}

/// What does a piece of work: the channel of a copy whose file says it, whatever its direction; else the engine of its kind.
fn doer_of(trace: &Trace, k: u32) -> Option<Doer> {
    let kind = trace.slices.kind[k as usize];
    let args = trace.strings.get(trace.slices.args[k as usize]);
    if kind.is_copy()
        && let Some(channel) = stated(args, "channel").and_then(|channel| channel.as_i64())
    {
        let of = stated(args, "channel_type").and_then(|of| of.as_i64());
        return Some((Engine::ToDevice, Some((of.unwrap_or(0), channel))));
    }
    Some((engine_of(kind)?, None))
}

/// The engine that does work of a kind.
pub(super) fn engine_of(kind: Kind) -> Option<Engine> {
    match kind {
        Kind::ToDevice => Some(Engine::ToDevice),
        Kind::ToHost => Some(Engine::ToHost),
        Kind::Peer => Some(Engine::Peer),
        kind if kind.is_device_work() && kind != Kind::HostFn => Some(Engine::Compute),
        _ => None,
    }
}

fn name((engine, channel): Doer) -> String {
    match channel {
        Some((of, channel)) => format!("copy channel {channel} (type {of})"),
        None => engine.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Rows, Shown};

    /// A copy on each of some channels, by direction, device, type and channel, and a kernel on one of them.
    fn rows(group: Group, copies: &[(&str, u32, &str)]) -> Vec<String> {
        let event = |(n, (way, device, more)): (usize, &(&str, u32, &str))| {
            let (cat, name) = if *way == "kernel" {
                ("kernel", "k".to_owned())
            } else {
                ("gpu_memcpy", format!("Memcpy {way}"))
            };
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{device},"tid":7,"ts":{},"dur":9,"args":{{"device":{device},"stream":7{more}}}}}"#,
                10 * n
            )
        };
        let events: Vec<String> = copies.iter().enumerate().map(event).collect();
        let trace = spanlift::trace::read(format!("[{}]", events.join(",")).as_bytes()).unwrap();
        let rows = Rows::new(&trace, Shown { group, ..Shown::default() });
        let is_engines =
            |row: &&super::super::Row| group == Group::Engine || matches!(row.kind, LaneKind::Engine { .. });
        let told = |row: &super::super::Row| {
            let n: usize = row.tracks.iter().map(|track| track.slices.len()).sum();
            format!("{}: {n}", row.name)
        };
        rows.rows.iter().filter(is_engines).map(told).collect()
    }

    #[test]
    fn copies_stand_on_rows_by_channel_where_their_file_says_it_else_by_direction() {
        let on = |of: u32, channel: u32| format!(r#","channel":{channel},"channel_type":{of}"#);
        let (nine, ten, other) = (on(1, 9), on(1, 10), on(2, 9));
        let copies = [
            ("HtoD (Pinned -> Device)", 0, &*nine),
            ("kernel", 0, &*nine),
            ("DtoH (Device -> Pinned)", 0, &*nine),
            ("HtoD (Pinned -> Device)", 0, &*ten),
            ("DtoD (Device -> Device)", 0, &*other),
            ("DtoH (Device -> Pinned)", 0, ""),
            ("HtoD (Pinned -> Device)", 0, r#","channel":"none""#),
            ("HtoD (Pinned -> Device)", 1, r#", "channel" : 9"#),
        ];
        let of_first = ["copy to device: 1", "copy channel 9 (type 1): 2", "copy channel 10 (type 1): 1"];
        let rest = ["copy channel 9 (type 2): 1", "copy to host: 1", "compute: 1"];
        let expected: Vec<&str> =
            of_first.into_iter().chain(rest).chain(["copy channel 9 (type 0): 1"]).collect();
        assert_eq!(rows(Group::Stream, &copies), expected);
        assert_eq!(rows(Group::Engine, &copies), expected);
    }
}
