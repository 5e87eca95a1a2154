//! A row of a table, and what stands in the numbers of several.

use rusqlite::types::ValueRef;

/// A row of a table.
pub(super) struct Row<'a> {
    pub(super) columns: &'a [&'static str],
    pub(super) values: Vec<ValueRef<'a>>,
}

impl Row<'_> {
    fn get(&self, column: &str) -> ValueRef<'_> {
        self.columns.iter().position(|name| *name == column).map_or(ValueRef::Null, |k| self.values[k])
    }

    pub(super) fn int(&self, column: &str) -> Option<i64> {
        match self.get(column) {
            ValueRef::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn text(&self, column: &str) -> Option<String> {
        match self.get(column) {
            ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }
}

/// The process of a global id: its middle 24 bits.
pub(super) fn process(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

/// What a record of an event and what waits for it have in common; nothing where no event is waited for.
pub(super) fn record_of(row: &Row<'_>) -> Option<(Option<i64>, i64)> {
    let id = row.int("eventSyncId").filter(|id| 0 < *id && *id != 0xffff_ffff)?;
    Some((row.int("globalPid").map(process), id))
}
