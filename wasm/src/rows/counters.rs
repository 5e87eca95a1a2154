//! A row for each counter: those of the file, and what an allocator says of itself where memory changes.

use spanlift::ordered::BTreeMap;
use spanlift::trace::Trace;

use super::{Row, Rows, Section};
use crate::text::clean;

/// Group, name and values over time.
type Values = (String, String, Vec<(i64, f64)>);

impl Rows {
    /// A row for each counter, below the lanes; a counter without a number that is finite has none.
    pub(super) fn counters(&mut self, trace: &Trace) {
        let named = |id| clean(trace.strings.get(id));
        let values = trace.counters.iter().map(|counter| {
            let samples = counter.samples.iter().map(|(at, value)| (at.0, *value)).collect();
            (named(counter.group), named(counter.name), samples)
        });
        let mut list: Vec<Values> = values.collect();
        totals(trace, &mut list);
        list.sort_by(|a, b| a.0.cmp(&b.0));
        for (group, name, mut samples) in list {
            samples.retain(|(_, value)| value.is_finite());
            samples.sort_by_key(|(at, _)| *at);
            if samples.is_empty() {
                continue;
            }
            let title = if group.is_empty() { "COUNTERS".to_owned() } else { format!("COUNTERS · {group}") };
            let at = self.rows.len();
            self.rows.push(Row { name, samples, ..Row::empty() });
            match self.sections.last_mut().filter(|section| section.title == title) {
                Some(section) => section.rows.end = at + 1,
                None => self.sections.push(Section { title, rows: at..at + 1 }),
            }
        }
    }
}

/// What PyTorch's allocator has handed out and holds, which a profile of memory says at every change (`[memory]`).
fn totals(trace: &Trace, list: &mut Vec<Values>) {
    let mut found: BTreeMap<(String, &str), Vec<(i64, f64)>> = BTreeMap::new();
    for mark in &trace.instants {
        if trace.strings.get(mark.name) != "[memory]" {
            continue;
        }
        let args = trace.strings.get(mark.args);
        let group = match (number(args, "\"Device Type\""), number(args, "\"Device Id\"")) {
            (Some(1), Some(device)) => format!("GPU {device}"),
            (Some(0), _) => "CPU".to_owned(),
            _ => continue,
        };
        for (key, name) in
            [("\"Total Allocated\"", "bytes allocated"), ("\"Total Reserved\"", "bytes reserved")]
        {
            let Some(value) = number(args, key) else { continue };
            found.entry((group.clone(), name)).or_default().push((mark.at.0, value as f64));
        }
    }
    // Nothing is reserved for a processor.
    for ((group, name), samples) in found {
        if samples.iter().any(|(_, value)| *value > 0.0) {
            list.push((group, name.to_owned(), samples));
        }
    }
}

/// The whole number behind a key of an object's text, as digits or as text of digits.
fn number(args: &str, key: &str) -> Option<u64> {
    let (_, value) = args.split_once(key)?;
    let value = value.trim_start_matches([':', ' ', '"']);
    value[..value.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Shown;

    #[test]
    fn an_allocator_is_counted_where_a_profile_of_memory_says_its_totals() {
        let mark = |ts: u32, args: &str| {
            format!(
                r#"{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":{ts},"s":"t","args":{{{args}}}}}"#
            )
        };
        let gpu = r#""Device Type": 1, "Device Id": 1, "Addr": 9, "Bytes": 8"#;
        let events = [
            mark(9, &format!(r#"{gpu}, "Total Allocated": 24, "Total Reserved": 64"#)),
            mark(7, &format!(r#"{gpu},"Total Allocated":"16","Total Reserved":32"#)),
            mark(
                8,
                r#""Device Type": 0, "Device Id": -1, "Bytes": 8, "Total Allocated": 5, "Total Reserved": 0"#,
            ),
            mark(6, &format!(r#"{gpu}, "Total Allocated": null"#)),
            mark(5, gpu),
            r#"{"ph":"C","name":"c","pid":1,"ts":1,"args":{"v":3}}"#.to_owned(),
        ];
        let trace =
            spanlift::trace::read(format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")).as_bytes()).unwrap();
        let rows = Rows::new(&trace, Shown::default());
        let told: Vec<_> = rows.rows.iter().map(|row| (&*row.name, row.samples.clone())).collect();
        assert_eq!(
            told,
            [
                ("bytes allocated", vec![(8_000, 5.0)]),
                ("bytes allocated", vec![(7_000, 16.0), (9_000, 24.0)]),
                ("bytes reserved", vec![(7_000, 32.0), (9_000, 64.0)]),
                ("c", vec![(1_000, 3.0)]),
            ]
        );
        let titles: Vec<&str> = rows.sections.iter().map(|section| &*section.title).collect();
        assert_eq!(titles[..2], ["COUNTERS · CPU", "COUNTERS · GPU 1"]);
    }
}
