//! Slices as a table for other programs.

use spanlift::trace::{LaneKind, Slice};

use super::App;
use crate::rows::{Rows, sorted};
use crate::theme::kind_name;

/// The columns of [`App::csv`].
const HEAD: &str = "start_ns,duration_ns,kind,name,group,lane,bytes,memory,correlation,command\n";
/// The columns of [`App::values`].
const VALUES: &str = "at_ns,value,counter,group,name\n";

impl App {
    /// What is chosen as comma-separated values with a line of names: the slices of the range, those that were searched for,
    /// or the selected one; without any of them what is on screen. Those that a search hides are left out.
    ///
    /// Times count from the file's own zero. A text that holds a comma, a quotation mark or an end of line is in quotes.
    pub fn csv(&self) -> String {
        let slices = &self.model.trace.slices;
        let range = self.saved_range();
        let is_chosen = |&k: &u32| {
            let i = k as usize;
            let (start, end) = (slices.start[i], slices.end[i]);
            let is_in = match range {
                Some((from, to)) => {
                    start < to && from < end || start == end && from <= start && start < self.beyond(to)
                }
                None => self.hits().is_some() || self.selected() == Some(k),
            };
            is_in
                && self.is_lit(k)
                && self.model.rows.place(k) != Rows::NOWHERE
                && self.is_chosen(self.model.rows.place(k).0)
                && !self.is_engine(i)
        };
        let chosen = sorted(&self.model.trace, (0u32..).take(slices.len()).filter(is_chosen).collect());
        let mut csv = HEAD.to_owned();
        for k in chosen {
            self.record(&mut csv, k as usize);
        }
        csv
    }

    /// The time of which all is saved: the range, or what is on screen where no slices are chosen by themselves.
    fn saved_range(&self) -> Option<(i64, i64)> {
        let seen = (self.view().start_ns(), self.view().end_ns());
        self.range().or_else(|| (self.hits().is_none() && self.selected().is_none()).then_some(seen))
    }

    /// The rows of values of the time and the lanes of which all is saved, as comma-separated values with a line of names: of each
    /// counter those within that time, and before them the one that holds when it begins; the counter that begins first comes first.
    ///
    /// # Cost
    /// The values that are written, and a bisection for each row.
    pub fn values(&self) -> String {
        let mut csv = VALUES.to_owned();
        let Some((from, to)) = self.saved_range() else { return csv };
        let (rows, beyond) = (&self.model.rows, self.beyond(to));
        let mut order: Vec<(i64, i64)> = Vec::new();
        for (r, row) in (0u32..).zip(&rows.rows).filter(|(r, _)| self.is_chosen(*r)) {
            let first = row.samples.get(held(&row.samples, from)).filter(|(at, _)| *at < beyond);
            order.extend(first.map(|(at, _)| ((*at).max(from), i64::from(r))));
        }
        order.sort();
        for (_, r) in order {
            let r = usize::try_from(r).unwrap_or(usize::MAX);
            let row = &rows.rows[r];
            let section = rows.sections.iter().find(|section| section.rows.contains(&r));
            let group =
                section.and_then(|section| Some(section.title.split_once(" · ")?.1)).unwrap_or_default();
            for (at, value) in
                row.samples[held(&row.samples, from)..].iter().take_while(|(at, _)| *at < beyond)
            {
                csv.push_str(&format!("{},{},{r}", (*at).max(from), serde_json::Value::from(*value)));
                for text in [group, &row.name] {
                    csv.push(',');
                    field(&mut csv, text);
                }
                csv.push('\n');
            }
        }
        csv
    }

    /// Whether a slice shows work of a stream a second time.
    pub(super) fn is_engine(&self, k: usize) -> bool {
        let trace = &self.model.trace;
        matches!(trace.lanes[trace.slices.lane[k] as usize].kind, LaneKind::Engine { .. })
    }

    fn record(&self, csv: &mut String, k: usize) {
        let trace = &self.model.trace;
        let slice = trace.slices.get(k);
        let lane = trace.lanes[slice.lane as usize];
        let memory = match trace.slices.flags[k] {
            f if f & Slice::PAGEABLE != 0 => "pageable",
            f if f & Slice::PINNED != 0 => "pinned",
            _ => "",
        };
        let length = i128::from(slice.end.0) - i128::from(slice.start.0);
        csv.push_str(&format!("{},{length},{}", slice.start.0, kind_name(slice.kind)));
        for id in [slice.name, lane.group, lane.name] {
            csv.push(',');
            field(csv, trace.strings.get(id));
        }
        let bytes = if slice.bytes > 0 { slice.bytes.to_string() } else { String::new() };
        csv.push_str(&format!(",{bytes},{memory},"));
        if slice.correlation != Slice::NO_CORRELATION {
            csv.push_str(&slice.correlation.to_string());
        }
        csv.push(',');
        if slice.command != Slice::NONE {
            csv.push_str(&slice.command.to_string());
        }
        csv.push('\n');
    }
}

/// Where among samples the one stands that holds at a time, else the first after it.
fn held(samples: &[(i64, f64)], at: i64) -> usize {
    samples.partition_point(|(sample, _)| *sample <= at).saturating_sub(1)
}

fn field(csv: &mut String, text: &str) {
    if text.contains([',', '"', '\n', '\r']) {
        csv.push('"');
        csv.push_str(&text.replace('"', "\"\""));
        csv.push('"');
    } else {
        csv.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::testing::crowd;
    use crate::theme::Theme;

    #[test]
    fn a_table_has_the_slices_of_the_range_and_what_they_say() {
        for seed in 0..10 {
            let mut app = App::new(Model::new("crowd", crowd(seed, 120)), Theme::LIGHT);
            app.resize(900.0, 400.0);
            app.set_range(Some((100_000, 600_000)));
            let csv = app.csv();
            let n: u64 = app.totals().unwrap().kinds.iter().map(|t| t.n).sum();
            assert_eq!(csv.lines().count() as u64, n + 1, "seed {seed}");
            let starts: Vec<i64> =
                csv.lines().skip(1).map(|l| l.split(',').next().unwrap().parse().unwrap()).collect();
            assert!(starts.is_sorted());
            app.set_range(None);
            let first = (0u32..)
                .take(app.model.trace.slices.len())
                .find(|&k| app.model.rows.place(k) != Rows::NOWHERE && !app.is_engine(k as usize));
            app.select(first);
            assert_eq!(app.csv().lines().count(), 2);
        }
    }

    #[test]
    fn a_line_says_all_of_its_slice_and_every_slice_of_the_range_has_one() {
        let mut trace = spanlift::Trace::default();
        let host = trace.lane(LaneKind::Host, "host, \"a\"", "main");
        let stream = trace.lane(LaneKind::Stream { dev: 0, stream: 7 }, "cuda:0", "stream 7");
        let name = trace.strings.intern("k");
        let mut random = crate::testing::Random(5);
        let mut lines = Vec::new();
        for _ in 0..300 {
            let start = random.below(1000) as i64;
            let length = random.pick([0, 1, 7, 200]);
            let (lane, group) =
                random.pick([(host, "\"host, \"\"a\"\"\",main"), (stream, "cuda:0,stream 7")]);
            let (flags, memory) = random.pick([
                (0, ""),
                (Slice::PINNED, "pinned"),
                (Slice::PAGEABLE, "pageable"),
                (Slice::PINNED | Slice::PAGEABLE, "pageable"),
            ]);
            let (bytes, bytes_text) = random.pick([(0, ""), (1, "1"), (4096, "4096")]);
            let (command, command_text) = random.pick([(Slice::NONE, ""), (0, "0"), (3, "3")]);
            let (correlation, correlation_text) =
                random.pick([(Slice::NO_CORRELATION, ""), (0, "0"), (9, "9")]);
            let slice = Slice {
                lane,
                start: spanlift::Nanos(start),
                end: spanlift::Nanos(start + length),
                name,
                kind: spanlift::trace::Kind::Kernel,
                bytes,
                command,
                correlation,
                args: spanlift::trace::StrId::EMPTY,
            };
            trace.slices.push(slice, flags);
            let line = format!(
                "{start},{length},kernel,k,{group},{bytes_text},{memory},{correlation_text},{command_text}"
            );
            lines.push((start, start + length, line));
        }
        let last = lines.iter().map(|line| line.1).max().unwrap();
        let mut app = App::new(Model::new("t", trace), Theme::LIGHT);
        app.resize(900.0, 400.0);
        for (from, to) in [(100, 107), (300, 500), (0, 1), (990, last), (0, last)] {
            app.set_range(Some((from, to)));
            // What has no length belongs to the range that it begins in, at the very end to that which ends there.
            let is_in = |a: i64, b: i64| match a == b {
                true => from <= a && a < to || a == to && to == last,
                false => a < to && from < b,
            };
            let mut expected: Vec<&str> =
                lines.iter().filter(|(a, b, _)| is_in(*a, *b)).map(|(.., line)| &**line).collect();
            let csv = app.csv();
            let mut found: Vec<&str> = csv.lines().skip(1).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{from} to {to}");
            assert!(!found.is_empty());
        }
        // Of a search what it finds, within the range where there is one.
        let wanted: Vec<bool> = app.labels().iter().map(|label| label.ends_with(", pinned")).collect();
        app.find(&wanted);
        for range in [None, Some((300, 500))] {
            app.set_range(range);
            let is_in = |a: i64, b: i64| match range {
                Some((from, to)) => a < to && from < b || a == b && from <= a && a < to,
                None => true,
            };
            let found = lines.iter().filter(|(a, b, line)| is_in(*a, *b) && line.contains(",pinned,"));
            let mut expected: Vec<&str> = found.map(|(.., line)| &**line).collect();
            let csv = app.csv();
            let mut found: Vec<&str> = csv.lines().skip(1).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{range:?}");
        }
        assert_eq!(app.values(), VALUES);
        app.set_range(None);
        assert_eq!(app.values(), VALUES, "slices that were searched for are chosen by themselves");
    }

    #[test]
    fn values_are_those_of_the_range_with_the_ones_that_hold_when_it_begins() {
        let mut trace = crowd(3, 50);
        let mut add = |group: &str, name: &str, samples: &[(i64, f64)]| {
            let [group, name] = [group, name].map(|text| trace.strings.intern(text));
            let samples = samples.iter().map(|&(at, value)| (spanlift::Nanos(at), value)).collect();
            trace.counters.push(spanlift::trace::Counter { group, name, samples });
        };
        add(
            "cuda:0",
            "free, \"used\"",
            &[(300_001, 0.1), (100_000, -3.0), (300_000, f64::NAN), (600_000, 2.0)],
        );
        add(
            "",
            "bytes",
            &[(90_000, 7.0), (99_999, 9_007_199_254_740_992.0), (599_999, 1e300), (600_000, 1.0)],
        );
        add("", "none", &[(5, f64::INFINITY)]);
        add("cuda:0", "late", &[(700_000, 1.0)]);
        let mut app = App::new(Model::new("crowd", trace), Theme::LIGHT);
        app.resize(900.0, 400.0);
        app.set_range(Some((100_000, 600_000)));
        let told = |app: &App| -> Vec<String> {
            // Where a row stands is said by number: here by its name.
            let name = |line: &str| {
                let cells: Vec<&str> = line.splitn(5, ',').collect();
                let row = &app.model.rows.rows[cells[2].parse::<usize>().unwrap()];
                let quoted = cells[4].strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                let text = quoted.map_or(cells[4].to_owned(), |text| text.replace("\"\"", "\""));
                assert_eq!(text, row.name, "{line}");
                [cells[0], cells[1], cells[3], cells[4]].join(",")
            };
            app.values().lines().skip(1).map(name).collect()
        };
        let free = "cuda:0,\"free, \"\"used\"\"\"";
        let expected = [
            "100000,9007199254740992.0,,bytes".to_owned(),
            "599999,1e+300,,bytes".to_owned(),
            format!("100000,-3.0,{free}"),
            format!("300001,0.1,{free}"),
        ];
        assert_eq!(told(&app), expected);
        // Of the chosen lanes alone, and of no slices that are chosen by themselves.
        let row = app.model.rows.rows.iter().position(|row| row.name == "bytes").unwrap();
        app.set_lanes(Some((row, row)));
        assert_eq!(told(&app), expected[..2]);
        app.set_range(None);
        assert_eq!(told(&app).len(), 8, "all that is on screen");
        app.select(Some(0));
        assert_eq!(app.values(), VALUES);
    }

    #[test]
    fn texts_with_commas_and_quotes_are_quoted() {
        let mut csv = String::new();
        for text in ["plain", "a,b", "say \"x\"", "two\nlines"] {
            field(&mut csv, text);
            csv.push(';');
        }
        assert_eq!(csv, "plain;\"a,b\";\"say \"\"x\"\"\";\"two\nlines\";");
    }
}
