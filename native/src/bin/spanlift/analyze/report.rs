//! The reports of `spanlift analyze` for people: tables of figures, then what could be better.

use spanlift::Size;
use spanlift::advise::trace::{Findings, MemoryFinding, Moved};
use spanlift::text::grouped;
use spanlift::text::{apart, columns, padded, signed_percent};
use spanlift::trace::analysis::{Figures, Rank};
use spanlift::trace::snapshot;

use crate::help;
use crate::say::{self, Out, Style};

/// Rows of a table at most; `--format json` has all.
const MOST_ROWS: usize = 12;
/// Findings told at most.
const MOST_FINDINGS: usize = 10;
/// What stands before the sentences of a finding.
const INDENT: &str = "     ";
/// Places told of a finding.
const MOST_PLACES: usize = 3;

/// Nanoseconds: `319.627 ms`.
pub(crate) fn time(ns: i128) -> String {
    let (unit, per) = match ns.unsigned_abs() {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..10_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let thousandths = (ns.unsigned_abs() * 1000 + per / 2) / per;
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}.{:03} {unit}", grouped(thousandths / 1000), thousandths % 1000)
}

/// Bytes: `117.9 kB`.
pub(super) fn size(bytes: i128) -> String {
    format!("{:.1}", Size::decimal(bytes))
}

/// A table: the first column to the left, the others to the right.
struct Table {
    /// The head, and the rows that are shown.
    rows: Vec<Vec<String>>,
    n_rows: usize,
}

impl Table {
    fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()], n_rows: 0 }
    }

    fn row(&mut self, cells: Vec<String>) {
        self.n_rows += 1;
        if self.n_rows <= MOST_ROWS {
            self.rows.push(cells);
        }
    }

    /// Prints it below a title, the columns as wide as they have to be. Names are cut to what a terminal shows; columns that it
    /// does not stand below, with the names again.
    fn print(self, title: &str, out: &mut Out) {
        const MOST_CHARS: usize = 56;
        // The name of a copy says last whether host memory was pinned.
        const LEAST_CHARS: usize = "Memcpy HtoD (Pageable -> Device)".len();
        let n = self.n_rows;
        if n == 0 {
            return;
        }
        let names: Vec<String> = self.rows.iter().map(|row| say::one_line(&row[0])).collect();
        let mut rows = self.rows;
        let widest = |rows: &[Vec<String>], column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|c| columns(c)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (1..rows[0].len()).map(|column| 2 + widest(&rows, column)).collect();
        let room = help::WIDTH.saturating_sub(2 + widths.iter().sum::<usize>());
        let most = room.clamp(LEAST_CHARS, MOST_CHARS);
        for (row, name) in rows.iter_mut().zip(apart(&names, most)) {
            row[0] = name;
        }
        let name = widest(&rows, 0);
        out.line(&format!("\n{}", out.paint(Style::Strong, title)));
        let mut from = 0;
        while from < widths.len() {
            let mut to = from + 1;
            let is_full = |to: usize| help::WIDTH < 2 + name + widths[from..to].iter().sum::<usize>();
            while to < widths.len() && !is_full(to + 1) {
                to += 1;
            }
            for row in &rows {
                let mut line = format!("  {}", padded(&row[0], name));
                for (cell, width) in row[1..].iter().zip(&widths).take(to).skip(from) {
                    line += &format!("{cell:>width$}");
                }
                out.line(line.trim_end());
            }
            from = to;
        }
        if MOST_ROWS < n {
            out.line(&format!("  and {} more, which --format json lists", grouped(n - MOST_ROWS)));
        }
    }
}

/// The report of a trace.
pub(super) fn trace(place: &str, figures: &Figures, findings: &Findings, moved: &Moved, out: &mut Out) {
    let n_ops: u64 = figures.gpu_ops.values().sum();
    let span = figures.ts_ns.span.map(|span| format!(" over {}", time(span))).unwrap_or_default();
    let devices = say::counted(figures.devices.len(), "device");
    out.line(&say::one_line(&format!(
        "{place}: {}{span}, {} on {devices}",
        say::counted_u64(figures.n_events, "event"),
        say::counted_u64(n_ops, "operation")
    )));
    let problems: Vec<String> =
        figures.import.problems.iter().map(|(name, n)| format!("{name} {}", grouped(*n))).collect();
    let n_of = |phases: &[&str]| -> u64 {
        let is_one =
            |kind: &str| phases.iter().any(|ph| kind.strip_prefix(*ph).is_some_and(|k| k.starts_with('|')));
        figures.by_phase_cat.iter().filter(|(kind, _)| is_one(kind)).map(|(_, n)| *n).sum()
    };
    let drawn: Vec<(u64, &str)> =
        [(n_of(&["B", "E"]), "slices in two halves (B, E)"), (n_of(&["C"]), "counters (C)")]
            .into_iter()
            .filter(|(n, _)| 0 < *n)
            .collect();
    match (figures.import.dropped_events, problems.as_slice()) {
        (0, []) if drawn.is_empty() => out.line("every event was used"),
        (0, []) => {}
        (dropped, list) => {
            let left_out = format!("{} left out; {}", say::counted_u64(dropped, "event"), list.join(", "));
            wrapped("", &left_out, out);
        }
    }
    for (n, what) in drawn {
        out.line(&format!(
            "{} of {what} counted and in no other figure; `spanlift view` shows them",
            say::counted_u64(n, "event")
        ));
    }
    if let Some(replay) = &findings.replay {
        out.line(&format!(
            "the model behind the predictions repeats the recorded {} with an error of {}",
            time(replay.recorded_ns.into()),
            signed_percent(replay.error)
        ));
    }
    told(findings, out);
    kernels(figures, out);
    copies(figures, out);
    ledger(moved, out);
    streams(figures, out);
    devices_table(figures, out);
    let mut calls: Vec<_> = figures.host_calls.iter().collect();
    calls.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.self_ns));
    let mut table = Table::new(&["", "calls", "self", "share", "total", "mean"]);
    for (name, calls) in calls {
        table.row(vec![
            name.clone(),
            grouped(calls.count),
            time(calls.self_ns),
            format!("{:.1} %", calls.self_share * 100.0),
            time(calls.total_ns),
            time(calls.mean_ns),
        ]);
    }
    table.print("host calls and operators, by their own time", out);
    for missing in &findings.missing {
        out.line(&format!("\n{}; to record it:\n  {}", missing.what, missing.record));
    }
}

fn told(findings: &Findings, out: &mut Out) {
    if findings.findings.is_empty() {
        return;
    }
    out.line(&format!("\n{}", out.paint(Style::Strong, "what could be better, by what it would win")));
    for (n, finding) in findings.findings.iter().take(MOST_FINDINGS).enumerate() {
        let wins = out.paint(Style::May, &format!("[{}]", finding.won()));
        out.line(&format!("{:>3}. {wins} {}", n + 1, say::one_line(&finding.title)));
        wrapped(INDENT, &say::one_line(&finding.why), out);
        wrapped(INDENT, &say::one_line(&format!("do: {}", finding.change)), out);
        if 1 < finding.places.len() {
            for place in finding.places.iter().take(MOST_PLACES) {
                let line = format!("{} x {} ({})", grouped(place.count), place.maker, place.cost());
                out.line(&format!("       - {}", say::one_line(&line)));
            }
        }
        let events: Vec<String> = finding.events.iter().take(6).map(u32::to_string).collect();
        out.line(&format!("     events {}", events.join(", ")));
    }
    if MOST_FINDINGS < findings.findings.len() {
        let n = findings.findings.len() - MOST_FINDINGS;
        out.line(&format!("     and {n} more, which --format json lists"));
    }
}

/// Prints a sentence on lines that a terminal shows whole, with these blanks before each.
fn wrapped(blanks: &str, text: &str, out: &mut Out) {
    let mut line = String::from(blanks);
    for word in text.split(' ') {
        if help::WIDTH < columns(&line) + 1 + columns(word) {
            out.line(&line);
            line = String::from(blanks);
        } else if line != blanks {
            line.push(' ');
        }
        line += word;
    }
    out.line(&line);
}

fn copies(figures: &Figures, out: &mut Out) {
    let mut list: Vec<_> = figures.copies.iter().collect();
    list.sort_by_key(|(_, copies)| std::cmp::Reverse((copies.host_call_ns, copies.time_ns)));
    let head =
        ["", "count", "bytes", "time", "GB/s", "host in call", "before", "during", "after", "blocking"];
    let mut table = Table::new(&head);
    for (name, copies) in list {
        // What the rows state and what is known by calls alone; a rate is of both.
        let bytes = copies.bytes + copies.bytes_from_host_calls.unwrap_or(0);
        let by_calls = (0 < copies.time_ns).then(|| bytes as f64 / copies.time_ns as f64);
        let rate = if copies.bytes_from_host_calls.is_some() { by_calls } else { copies.gbps };
        table.row(vec![
            name.clone(),
            grouped(copies.count),
            size(bytes),
            time(copies.time_ns),
            rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.3}")),
            time(copies.host_call_ns),
            time(copies.host_wait_before_copy_ns),
            time(copies.host_during_copy_ns),
            time(copies.host_after_copy_ns),
            grouped(copies.blocking_host_calls),
        ]);
    }
    table.print("copies and memsets, and how long their calls held the host", out);
}

/// Bytes asked for and moved, and what a trace does not tell of them.
fn ledger(moved: &Moved, out: &mut Out) {
    if moved.payload_bytes == 0 && moved.within_device_bytes == 0 && moved.other_bytes == 0 {
        return;
    }
    let mut table = Table::new(&["", "bytes"]);
    for (name, bytes) in [
        ("payload", moved.payload_bytes),
        ("to a device", moved.to_device_bytes),
        ("to the host", moved.to_host_bytes),
        ("between devices", moved.peer_bytes),
        ("within a device", moved.within_device_bytes),
        ("other copies, in no sum", moved.other_bytes),
    ] {
        if 0 < bytes {
            table.row(vec![name.to_owned(), size(bytes.into())]);
        }
    }
    table.print("bytes moved, as far as the trace tells", out);
    if let (Some(factor), Some(staged)) = (moved.factor, moved.factor_if_staged) {
        let pageable = match moved.pageable_bytes {
            0 => String::new(),
            n => format!("; {staged:.2} if the driver staged all {} of pageable memory", size(n.into())),
        };
        out.line(&format!("  {factor:.2} for each byte of payload{pageable}"));
    }
    if 0 < moved.n_without_bytes {
        out.line(&format!("  {} without bytes", say::counted_u64(moved.n_without_bytes, "copy row")));
    }
    out.line(
        "  not in a trace: staging, copies by host threads, kernels on host memory, pages of managed memory",
    );
}

fn kernels(figures: &Figures, out: &mut Out) {
    let mut list: Vec<_> = figures.kernels.iter().collect();
    list.sort_by_key(|(_, kernels)| std::cmp::Reverse(kernels.time_ns));
    let mut table = Table::new(&["", "count", "time", "share", "mean", "longest"]);
    for (name, kernels) in list {
        table.row(vec![
            name.clone(),
            grouped(kernels.count),
            time(kernels.time_ns),
            format!("{:.1} %", kernels.share * 100.0),
            time(kernels.mean_ns),
            time(kernels.max_ns),
        ]);
    }
    table.print("kernels, by their time", out);
}

fn streams(figures: &Figures, out: &mut Out) {
    let mut list: Vec<_> = figures.streams.iter().collect();
    list.sort_by_key(|(_, stream)| std::cmp::Reverse(stream.busy_ns));
    let mut table = Table::new(&["", "operations", "busy", "most in flight"]);
    for (name, stream) in list {
        let flight = grouped(stream.max_in_flight.unsigned_abs());
        table.row(vec![name.clone(), grouped(stream.ops), time(stream.busy_ns), flight]);
    }
    table.print("streams", out);
}

fn devices_table(figures: &Figures, out: &mut Out) {
    let head =
        ["", "window", "busy", "idle", "kernels", "copies", "both", "to device", "to host", "communication"];
    let mut table = Table::new(&head);
    let maybe = |ns: Option<i128>| ns.map_or_else(|| "-".to_owned(), time);
    for (name, device) in &figures.devices {
        table.row(vec![
            name.clone(),
            maybe(device.window_ns),
            time(device.busy_ns),
            maybe(device.idle_ns),
            time(device.kernel_busy_ns),
            time(device.copy_busy_ns),
            time(device.copy_and_kernel_overlap_ns),
            maybe(device.h2d_busy_ns),
            maybe(device.d2h_busy_ns),
            maybe(device.comm_kernel_busy_ns),
        ]);
    }
    table.print("devices", out);
}

/// Ranks side by side.
pub(super) fn ranks(ranks: &[Rank], out: &mut Out) {
    if ranks.iter().all(|rank| rank.n_collectives == 0) {
        return out.line("no collective that traces have equally often: clocks cannot be aligned");
    }
    let head = [
        "",
        "rank",
        "clock",
        "waits for others",
        "keeps others waiting",
        "last",
        "computes",
        "communicates",
        "idle",
    ];
    let mut table = Table::new(&head);
    for rank in ranks {
        table.row(vec![
            rank.file.clone(),
            rank.rank.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            rank.offset_ns.map_or_else(|| "-".to_owned(), time),
            time(rank.waits_for_others_ns),
            time(rank.keeps_others_waiting_ns),
            format!("{} of {}", grouped(rank.n_last), grouped(rank.n_collectives)),
            time(rank.compute_busy_ns),
            time(rank.comm_busy_ns),
            time(rank.idle_ns),
        ]);
    }
    table.print("ranks, their clocks aligned by collectives", out);
}

/// The report of a memory snapshot of which `devices` is what each holds at the end.
pub(super) fn snapshot(
    place: &str,
    figures: &snapshot::Figures,
    devices: &[(i64, snapshot::Held)],
    found: &[MemoryFinding],
    out: &mut Out,
) {
    // As allocators hand it out.
    let size = |bytes: i128| format!("{:.1}", Size::binary(bytes));
    let n_allocated = figures.blocks_by_state.get("active_allocated").copied().unwrap_or(0);
    out.line(&say::one_line(&format!(
        "{place}: memory snapshot, {} of {}, {} allocated in {}",
        say::counted_u64(figures.segments, "segment"),
        size(figures.reserved_end),
        size(figures.allocated_end),
        say::counted_u64(n_allocated, "block")
    )));
    out.line(&format!(
        "{} free, the largest piece {}; fragmentation {}; rounding takes {}",
        size(figures.external_free),
        size(figures.largest_free.into()),
        fragmentation(figures, devices),
        size(figures.rounding_waste)
    ));
    if !figures.import.problems.is_empty() || figures.segment_block_layout_inconsistencies != 0 {
        let mut problems: Vec<String> =
            figures.import.problems.iter().map(|(name, n)| format!("{name} {}", grouped(*n))).collect();
        if figures.segment_block_layout_inconsistencies != 0 {
            let n = grouped(figures.segment_block_layout_inconsistencies);
            problems.push(format!("blocks or segments out of place {n}"));
        }
        out.line(&problems.join(", "));
    }
    let head =
        ["", "events", "allocated at start", "at the end", "peak", "before event", "reserved peak", "reused"];
    let mut table = Table::new(&head);
    for (device, trace) in &figures.traces {
        table.row(vec![
            format!("device {device}"),
            grouped(trace.events),
            size(trace.allocated_start),
            size(trace.allocated_end),
            size(trace.peak_allocated),
            grouped(trace.peak_before_event_index),
            size(trace.peak_reserved),
            format!("{} x", grouped(trace.address_reuse_max)),
        ]);
    }
    table.print("devices", out);
    if !found.is_empty() {
        out.line(&format!("\n{}", out.paint(Style::Strong, "what could be better")));
    }
    for (n, finding) in found.iter().enumerate() {
        out.line(&format!("{:>3}. {}", n + 1, say::one_line(&finding.title)));
        wrapped(INDENT, &say::one_line(&format!("do: {}", finding.change)), out);
        if 1 < finding.places.len() {
            for place in &finding.places {
                let line = format!("{} x {} ({})", grouped(place.count), place.maker, place.size());
                out.line(&format!("       - {}", say::one_line(&line)));
            }
        }
        if !finding.events.is_empty() {
            let events: Vec<String> =
                finding.events.iter().take(6).map(|(device, event)| format!("{device}:{event}")).collect();
            out.line(&format!("     events {}", events.join(", ")));
        }
    }
}

/// Of all devices together, as the contract has it, and of the worst one where there are several: what is free on one is
/// of no use to another.
fn fragmentation(figures: &snapshot::Figures, devices: &[(i64, snapshot::Held)]) -> String {
    let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let Some(all) = figures.frag_ratio.map(percent) else { return "-".to_owned() };
    let worst = devices.iter().max_by(|a, b| a.1.fragmentation().total_cmp(&b.1.fragmentation()));
    match worst {
        Some((device, held)) if 1 < devices.len() => {
            let n = say::counted(devices.len(), "device");
            format!("{all} over {n}, {} of one at most (device {device})", percent(held.fragmentation()))
        }
        _ => all,
    }
}
