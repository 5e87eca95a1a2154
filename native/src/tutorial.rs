//! The published experiment that the tour repeats: sixteen rows of PyTorch's tutorial on `pin_memory()` and `non_blocking`.
//!
//! Figures are the tutorial's; they lie with their source in `native/data/tutorial-table.json`.

use serde::Deserialize;

/// One published row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "the data file describes its fields")]
pub struct PublishedRow {
    pub row: usize,
    pub id: String,
    pub label: String,
    pub call: String,
    pub tensors: u64,
    pub bytes_each: u64,
    pub published_ms: f64,
}

#[derive(Deserialize)]
struct Table {
    source: String,
    rows: Vec<PublishedRow>,
}

/// The published rows, as their file has them.
pub const TABLE: &str = include_str!("../data/tutorial-table.json");

fn table() -> Table {
    serde_json::from_str(TABLE).expect("bug: the project's own table is read by a test")
}

/// The sixteen rows in the order of the tutorial's tables.
///
/// ```
/// let rows = spanlift_native::tutorial::rows();
/// assert_eq!((rows.len(), rows[0].published_ms), (16, 0.4633));
/// ```
pub fn rows() -> Vec<PublishedRow> {
    table().rows
}

/// Where the figures come from.
pub fn source() -> String {
    table().source
}

/// Calls of CUDA in one of the tutorial's two profiler tables.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PublishedCalls {
    /// The row of [`rows`] that makes the same calls.
    pub row: usize,
    /// What was profiled.
    pub call: String,
    /// The calls by name.
    pub calls: Vec<PublishedCall>,
}

/// All calls of one name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PublishedCall {
    /// Its name.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Their lengths, added up, in microseconds.
    pub total_us: f64,
}

/// The calls of CUDA in the tutorial's two profiler tables: a thousand small tensors, blocking and not.
///
/// Their source stands in `native/data/tutorial-profile.json`.
///
/// ```
/// let [blocking, not] = spanlift_native::tutorial::profiles();
/// assert_eq!((blocking.calls[1].count, not.calls[2].count), (1000, 1));
/// ```
pub fn profiles() -> [PublishedCalls; 2] {
    #[derive(Deserialize)]
    struct Profiles {
        tables: [PublishedCalls; 2],
    }
    let profiles: Profiles = serde_json::from_str(include_str!("../data/tutorial-profile.json"))
        .expect("bug: the project's own table is read by a test");
    profiles.tables
}

/// One of the tutorial's bar charts: its title, and its groups of rows with the label under each group.
#[derive(Debug, Clone, Copy)]
pub struct Chart {
    /// What the chart compares.
    pub title: &'static str,
    /// Groups of bars: a label, and the rows in it with the label of each bar.
    pub groups: &'static [(&'static str, &'static [(&'static str, usize)])],
}

/// The four charts: three bars, two bars, three groups of two, four bars.
pub const CHARTS: [Chart; 4] = [
    Chart {
        title: "One tensor of 4 MB",
        groups: &[("", &[("pageable", 1), ("pinned", 2), ("pin, then copy", 4)])],
    },
    Chart { title: "1,000 tensors of 4 KB", groups: &[("", &[("blocking", 5), ("non_blocking", 6)])] },
    Chart {
        title: "1,000 tensors of 4 MB",
        groups: &[
            ("pageable", &[("blocking", 7), ("non_blocking", 8)]),
            ("pinned", &[("blocking", 9), ("non_blocking", 10)]),
            ("pin and copy", &[("blocking", 11), ("non_blocking", 12)]),
        ],
    },
    Chart {
        title: "A dictionary of 1,000 tensors of 4 MB",
        groups: &[(
            "",
            &[("blocking", 13), ("non_blocking", 14), ("pin, 0 threads", 15), ("pin, 4 threads", 16)],
        )],
    },
];
