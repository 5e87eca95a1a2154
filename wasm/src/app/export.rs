//! Slices as a table for other programs.

use spanlift::trace::{LaneKind, Slice};

use super::App;
use crate::rows::{Rows, sorted};
use crate::theme::kind_name;

/// The columns of [`App::csv`].
const HEAD: &str = "start_ns,duration_ns,kind,name,group,lane,bytes,memory,correlation,command\n";

impl App {
    /// What is chosen as comma-separated values with a line of names: the slices of the range, those that were searched for,
    /// or the selected one; without any of them what is on screen. Those that a search hides are left out.
    ///
    /// Times count from the file's own zero. A text that holds a comma, a quotation mark or an end of line is in quotes.
    pub fn csv(&self) -> String {
        let slices = &self.model.trace.slices;
        let seen = (self.view().start_ns(), self.view().end_ns());
        let range =
            self.range().or_else(|| (self.hits().is_none() && self.selected().is_none()).then_some(seen));
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
    fn texts_with_commas_and_quotes_are_quoted() {
        let mut csv = String::new();
        for text in ["plain", "a,b", "say \"x\"", "two\nlines"] {
            field(&mut csv, text);
            csv.push(';');
        }
        assert_eq!(csv, "plain;\"a,b\";\"say \"\"x\"\"\";\"two\nlines\";");
    }
}
