//! `spanlift analyze --parquet DIR`: traces as tables for DuckDB, Polars, DataFusion or Spark.
//!
//! Four files; every row begins with `trace`, the file that it is from, and a time is a whole number of nanoseconds.
//!
//! | file | a row is | columns |
//! |---|---|---|
//! | `events.parquet` | a slice, in the order of the file | `event` (position in the list of events), `process`, `thread`, `category`, `name`, `start_ns`, `end_ns` |
//! | `copies.parquet` | a copy or a memset of a device | `event`, `kind`, `name`, `device`, `stream`, `correlation`, `bytes`, `start_ns`, `end_ns`; of its host call `call_event`, `call`, `call_start_ns`, `call_end_ns`, and `wait_before_ns`, `during_ns`, `after_ns`: how long the call held the host before, during and after the copy (null for a call that does not copy, as one that launches a graph) |
//! | `streams.parquet` | a stream | `stream`, `ops`, `kernels`, `memcpys`, `memsets`, `busy_ns`, `sum_dur_ns`, `first_ns`, `last_end_ns`, `max_in_flight` |
//! | `findings.parquet` | a finding, the most worth first | `rank`, `rule`, `title`, `why`, `change`, `count`, `cost_ns`, `wins_ns`, and `replay_error`, that of the model that predicts `wins_ns` |

use std::path::Path;

use parquet::data_type::ByteArray;
use spanlift::advise::trace::Findings;
use spanlift::trace::StrId;
use spanlift::trace::analysis::{Figures, Stream, host_parts, is_copy_call};
use spanlift::trace::table::{Op, Table, Work};

use super::sheet::{Sheet, floats, ints, parquet, texts};
use crate::output;
use crate::say::Fail;

/// A trace that was read, and what is said of it.
pub(super) struct Traced<'a> {
    pub(super) place: &'a str,
    pub(super) table: &'a Table,
    pub(super) figures: &'a Figures,
    pub(super) findings: &'a Findings,
}

/// Writes the four files into a folder, made when there is none.
///
/// # Errors
/// One line with the file's name.
pub(super) fn write(traces: &[Traced<'_>], folder: &Path) -> Result<(), Fail> {
    output::folder(folder)?;
    let moves: Vec<Moves<'_>> = traces.iter().map(Moves::of).collect();
    let streams: Vec<Streams<'_>> = traces.iter().map(Streams::of).collect();
    save(folder, "events.parquet", &traces.iter().map(events).collect::<Vec<_>>())?;
    save(folder, "copies.parquet", &moves.iter().map(Moves::sheet).collect::<Vec<_>>())?;
    save(folder, "streams.parquet", &streams.iter().map(Streams::sheet).collect::<Vec<_>>())?;
    save(folder, "findings.parquet", &traces.iter().map(findings).collect::<Vec<_>>())
}

fn save(folder: &Path, name: &str, sheets: &[Sheet<'_>]) -> Result<(), Fail> {
    let path = folder.join(name);
    let bytes = parquet(sheets)
        .map_err(|e| Fail::at(&path.display().to_string(), format!("cannot be written: {e}")))?;
    output::write(&path, &bytes)
}

/// A text as a cell.
fn text(text: &str) -> Option<ByteArray> {
    Some(ByteArray::from(text))
}

/// A number as a cell; null where it does not fit.
fn whole(number: impl TryInto<i64>) -> Option<i64> {
    number.try_into().ok()
}

fn events<'a>(trace: &Traced<'a>) -> Sheet<'a> {
    let &Traced { place, table, .. } = trace;
    let spans = &table.spans;
    let said = |id: StrId| text(table.strings.get(id));
    Sheet {
        columns: vec![
            texts("trace", move |_| text(place)),
            ints("event", |k| Some(spans.event[k].into())),
            texts("process", move |k| said(table.rows[spans.row[k] as usize].pid)),
            texts("thread", move |k| said(table.rows[spans.row[k] as usize].tid)),
            texts("category", move |k| said(table.cats[usize::from(spans.cat[k])].name)),
            texts("name", move |k| said(spans.name[k])),
            ints("start_ns", |k| Some(spans.start[k])),
            ints("end_ns", |k| Some(spans.end[k])),
        ],
        n_rows: spans.len(),
    }
}

/// The copies and memsets of a trace.
struct Moves<'a> {
    place: &'a str,
    table: &'a Table,
    ops: Vec<&'a Op>,
}

impl<'a> Moves<'a> {
    fn of(trace: &Traced<'a>) -> Moves<'a> {
        let ops = trace.table.ops.iter().filter(|op| op.work != Work::Kernel).collect();
        Moves { place: trace.place, table: trace.table, ops }
    }

    /// The slice of the host call of a row.
    fn call(&self, row: usize) -> Option<u32> {
        self.ops[row].call().map(|call| self.table.calls[call].span)
    }

    /// How long the host call of a row held the host before, during or after the copy, where it copies.
    fn held(&self, row: usize, part: usize) -> Option<i64> {
        let spans = &self.table.spans;
        let call = self.call(row).filter(|&call| is_copy_call(self.table.name(call)))?;
        whole(host_parts(spans.interval(call), spans.interval(self.ops[row].span))[part])
    }

    fn sheet(&self) -> Sheet<'_> {
        let &Moves { place, table, ref ops } = self;
        let event = |span: u32| Some(i64::from(table.spans.event[span as usize]));
        let (start, end) =
            (|span: u32| Some(table.spans.interval(span).0), |span: u32| Some(table.spans.interval(span).1));
        Sheet {
            columns: vec![
                texts("trace", move |_| text(place)),
                ints("event", move |k| event(ops[k].span)),
                texts("kind", |k| text(ops[k].work.name())),
                texts("name", |k| text(table.name(ops[k].span))),
                texts("device", |k| text(&table.device_name(ops[k].device))),
                texts("stream", |k| text(&table.stream_name(ops[k].stream))),
                texts("correlation", |k| text(&ops[k].correlation?.shown(&table.strings).to_string())),
                ints("bytes", |k| whole(ops[k].bytes?)),
                ints("start_ns", move |k| start(ops[k].span)),
                ints("end_ns", move |k| end(ops[k].span)),
                ints("call_event", move |k| event(self.call(k)?)),
                texts("call", |k| text(table.name(self.call(k)?))),
                ints("call_start_ns", move |k| start(self.call(k)?)),
                ints("call_end_ns", move |k| end(self.call(k)?)),
                ints("wait_before_ns", |k| self.held(k, 0)),
                ints("during_ns", |k| self.held(k, 1)),
                ints("after_ns", |k| self.held(k, 2)),
            ],
            n_rows: ops.len(),
        }
    }
}

/// The streams of a trace.
struct Streams<'a> {
    place: &'a str,
    rows: Vec<(&'a str, &'a Stream)>,
}

impl<'a> Streams<'a> {
    fn of(trace: &Traced<'a>) -> Streams<'a> {
        let rows = trace.figures.streams.iter().map(|(name, stream)| (name.as_str(), stream)).collect();
        Streams { place: trace.place, rows }
    }

    fn sheet(&self) -> Sheet<'_> {
        let stream = |k: usize| self.rows[k].1;
        let n = move |k: usize, work: Work| whole(stream(k).by_type.get(work.name()).copied().unwrap_or(0));
        Sheet {
            columns: vec![
                texts("trace", |_| text(self.place)),
                texts("stream", |k| text(self.rows[k].0)),
                ints("ops", move |k| whole(stream(k).ops)),
                ints("kernels", move |k| n(k, Work::Kernel)),
                ints("memcpys", move |k| n(k, Work::Memcpy)),
                ints("memsets", move |k| n(k, Work::Memset)),
                ints("busy_ns", move |k| whole(stream(k).busy_ns)),
                ints("sum_dur_ns", move |k| whole(stream(k).sum_dur_ns)),
                ints("first_ns", move |k| Some(stream(k).first_ns)),
                ints("last_end_ns", move |k| Some(stream(k).last_end_ns)),
                ints("max_in_flight", move |k| Some(stream(k).max_in_flight)),
            ],
            n_rows: self.rows.len(),
        }
    }
}

fn findings<'a>(trace: &Traced<'a>) -> Sheet<'a> {
    let &Traced { place, findings, .. } = trace;
    let rows = &findings.findings;
    Sheet {
        columns: vec![
            texts("trace", move |_| text(place)),
            ints("rank", |k| whole(k + 1)),
            texts("rule", |k| text(rows[k].rule)),
            texts("title", |k| text(&rows[k].title)),
            texts("why", |k| text(&rows[k].why)),
            texts("change", |k| text(&rows[k].change)),
            ints("count", |k| whole(rows[k].count)),
            ints("cost_ns", |k| whole(rows[k].cost_ns)),
            ints("wins_ns", |k| rows[k].wins_ns),
            floats("replay_error", |_| findings.replay.map(|replay| replay.error)),
        ],
        n_rows: rows.len(),
    }
}
