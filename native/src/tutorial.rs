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

const TABLE: &str = include_str!("../data/tutorial-table.json");

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

/// A comparison that the tutorial draws a conclusion from: the time of one row over that of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The row above the line, counted from 1.
    pub over: usize,
    /// The row below the line, counted from 1.
    pub under: usize,
    /// What the ratio says.
    pub says: &'static str,
}

#[rustfmt::skip]
const fn compare(over: usize, under: usize, says: &'static str) -> Comparison {
    Comparison { over, under, says }
}

/// The comparisons, in the order of the tables.
#[rustfmt::skip]
pub const COMPARISONS: [Comparison; 13] = [
    //      over under what the ratio says
    compare( 2,  1, "a source that is pinned already copies faster than a pageable one"),
    compare( 4,  1, "pinning only for the copy costs more than it saves"),
    compare( 3,  2, "pinning alone takes about as long as the copy that it prepares"),
    compare( 6,  5, "many small copies: one wait at the end instead of one per copy saves a quarter"),
    compare( 8,  7, "large pageable copies: the host is busy staging either way, so less is saved"),
    compare(10,  9, "large pinned copies: the link was the limit already"),
    compare(12, 11, "pin and copy: without the waits, pinning the next overlaps with copying this one"),
    compare( 9,  7, "pinned beforehand against pageable, both waiting after every copy"),
    compare(12,  8, "pin and copy against the plain pageable copy, neither waiting: pinning still loses"),
    compare(14, 13, "a dictionary of tensors: one wait at the end is worth as much as in the plain loop"),
    compare(15, 14, "pinning on the calling thread slows the dictionary down"),
    compare(16, 14, "pinning on four threads beside the copies makes it faster"),
    compare(16, 10, "and comes close to a source that was pinned all along"),
];

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
