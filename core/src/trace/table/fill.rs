//! Puts events into the columns of a [`Table`], one after the other, and joins operations with their host calls.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::num::{integer, text_of};
use super::{Call, Cat, CatRole, Num, Op, Row, Sync, Table, Work};
use crate::trace::read::event::{Args, Fields};
use crate::trace::read::scan::{Lenient, Value};
use crate::trace::read::walk::Sink;
use crate::trace::read::{ReadError, names, nanos};
use crate::trace::tally::Tally;
use crate::trace::time::Unusable;
use crate::trace::{StrId, Strings};

/// The table so far, and what finds things in it while it grows.
#[derive(Debug, Default)]
pub(super) struct Fill {
    table: Table,
    /// Events by phase and category.
    counts: Tally<Pair>,
    rows: BTreeMap<(StrId, StrId), u32>,
    last_row: Option<((StrId, StrId), u32)>,
    cats: BTreeMap<StrId, u16>,
    last_cat: Option<(StrId, u16)>,
    devices: BTreeMap<Num, u32>,
    streams: BTreeMap<(Num, Num), (u32, u32)>,
    last_stream: Option<((Num, Num), (u32, u32))>,
}

/// Phase and category.
type Pair = (StrId, StrId);

/// Categories beyond this many share the last one's place: no file has them, and a hostile one costs no more memory.
const MOST_CATS: usize = u16::MAX as usize;

impl Sink for Fill {
    fn no_object(&mut self) {
        self.table.n_events += 1;
        let none = self.table.strings.intern("None");
        self.counts.add((none, none));
        self.drop_event("event_not_object");
    }

    fn list(&mut self, again: bool) {
        if again {
            // As with any name that comes twice, the last one counts.
            let header = std::mem::take(&mut self.table.header);
            *self = Fill::default();
            self.table.header = header;
            self.problem("duplicate_key");
        }
    }

    fn member(&mut self, key: &str, _: Value<'_>, text: &str, _: usize) -> Result<(), ReadError> {
        // What a report shows of it; a member of megabytes is not for people.
        const MOST: usize = 64 << 10;
        if text.len() <= MOST && self.table.header.len() < 256 {
            self.table.header.insert(key.to_owned(), text.to_owned());
        }
        Ok(())
    }

    fn problem(&mut self, name: &'static str) {
        self.table.problems.entry(name).or_default().count += 1;
    }

    fn n_events(&self) -> u64 {
        self.table.n_events
    }

    fn event(&mut self, fields: &Fields<'_>) {
        self.table.n_events += 1;
        if fields.duplicates != 0 {
            self.problem_here("duplicate_key", fields.duplicates);
        }
        if fields.args.wrong {
            self.problem_here("args_not_object", 1);
        }
        let cat = self.intern(fields.cat);
        let ph = self.intern(fields.ph);
        self.counts.add((ph, cat));
        let phase = match fields.ph {
            Some(Value::Text(quoted)) if quoted.raw.len() == 1 => quoted.raw.as_bytes()[0],
            Some(Value::Text(quoted)) if !quoted.raw.is_empty() => 0,
            _ => {
                self.problem_here("bad_ph", 1);
                0
            }
        };
        if phase == b'M' {
            return;
        }
        let Some(at) = self.time(fields.ts, "bad_ts") else {
            self.table.dropped += 1;
            return;
        };
        let table = &mut self.table;
        table.first_ns = Some(table.first_ns.map_or(at, |first| first.min(at)));
        match phase {
            b'X' => self.slice(fields, cat, at),
            b's' | b'f' => self.arrow_end(fields, cat, phase == b's'),
            b'i' | b'I' => self.instant(fields),
            _ => {}
        }
    }
}

impl Fill {
    fn drop_event(&mut self, problem: &'static str) {
        self.table.dropped += 1;
        self.problem_here(problem, 1);
    }

    /// Counts a problem of the event that came last.
    #[cold]
    fn problem_here(&mut self, name: &'static str, count: u64) {
        let event = self.table.n_events - 1;
        let problem = self.table.problems.entry(name).or_default();
        problem.count += count;
        if problem.events.len() < super::Problem::MOST_PLACES {
            problem.events.push(event);
        }
    }

    /// A value as text; `None` for an absent one.
    fn intern(&mut self, value: Option<Value<'_>>) -> StrId {
        let text = value.map_or(Cow::Borrowed("None"), text_of);
        self.table.strings.intern(&text)
    }

    /// A time in nanoseconds; what is wrong with it is counted.
    fn time(&mut self, value: Option<Value<'_>>, problem: &'static str) -> Option<i64> {
        let problem = match nanos(value) {
            Ok(nanos) => return Some(nanos),
            Err(Unusable::OutOfRange) => "out_of_range",
            Err(Unusable::NotANumber) => problem,
        };
        self.problem_here(problem, 1);
        None
    }

    fn slice(&mut self, fields: &Fields<'_>, cat: StrId, at: i64) {
        let dur = match self.time(fields.dur, "bad_dur") {
            Some(dur) if dur < 0 => {
                self.problem_here("negative_dur", 1);
                0
            }
            dur => dur.unwrap_or(0),
        };
        let end = at.checked_add(dur).unwrap_or_else(|| {
            self.problem_here("out_of_range", 1);
            at
        });
        let name = fields.name.map_or(StrId::EMPTY, |name| self.intern(Some(name)));
        let row = self.row(fields);
        let cat = self.cat(cat);
        let table = &mut self.table;
        table.last_end_ns = Some(table.last_end_ns.map_or(end, |last| last.max(end)));
        let bug = "bug: fewer than four billion events";
        let span = u32::try_from(table.spans.len()).expect(bug);
        table.spans.event.push(u32::try_from(table.n_events - 1).expect(bug));
        table.spans.row.push(row);
        table.spans.cat.push(cat);
        table.spans.start.push(at);
        table.spans.end.push(end);
        table.spans.name.push(name);
        let args = &fields.args;
        match table.cats[cat as usize].role {
            CatRole::Op(work) => self.op(fields, span, work),
            CatRole::Call => {
                let correlation = self.num(args.correlation);
                let size = args.size.and_then(integer).and_then(|size| u64::try_from(size).ok());
                self.table.calls.push(Call { span, correlation, size });
                self.external(span, args);
            }
            CatRole::Operator => {
                self.external(span, args);
                if let Some(Value::Text(stack)) = args.call_stack
                    && !stack.raw.is_empty()
                {
                    let text = self.table.strings.intern(&stack.text());
                    self.table.stacks.push((span, text));
                }
            }
            CatRole::Sync => self.sync(span, args),
            CatRole::Note | CatRole::Python | CatRole::Other => {}
        }
    }

    fn op(&mut self, fields: &Fields<'_>, span: u32, work: Work) {
        let args = &fields.args;
        let key =
            |value: Option<Value<'_>>, strings: &mut Strings| Num::of(value.unwrap_or(Value::Null), strings);
        let strings = &mut self.table.strings;
        let device = key(args.device.or(fields.pid), strings);
        let stream = key(args.stream.or(fields.tid), strings);
        let (device, stream) = self.stream(device, stream);
        let bytes = match args.bytes.filter(|value| *value != Value::Null) {
            None => None,
            Some(value) => match integer(value).and_then(|bytes| u64::try_from(bytes).ok()) {
                Some(bytes) => Some(bytes),
                None => {
                    self.problem_here("bad_bytes", 1);
                    None
                }
            },
        };
        let correlation = self.num(args.correlation);
        self.table.ops.push(Op { span, work, device, stream, correlation, bytes, call: Op::NONE });
    }

    fn stream(&mut self, device: Num, stream: Num) -> (u32, u32) {
        let key = (device, stream);
        if let Some((last, found)) = self.last_stream
            && last == key
        {
            return found;
        }
        let found = match self.streams.get(&key) {
            Some(found) => *found,
            None => {
                let table = &mut self.table;
                let next = |n: usize| u32::try_from(n).expect("bug: fewer than four billion events");
                let index = *self.devices.entry(device).or_insert_with(|| {
                    table.devices.push(device);
                    next(table.devices.len() - 1)
                });
                table.streams.push((index, stream));
                let found = (index, next(table.streams.len() - 1));
                self.streams.insert(key, found);
                found
            }
        };
        self.last_stream = Some((key, found));
        found
    }

    fn sync(&mut self, span: u32, args: &Args<'_>) {
        // How the profiler writes that there is none, in two generations.
        let some = |num: &Num| !matches!(num, Num::Int(-1 | 4_294_967_295));
        let device = self.num(args.device);
        let stream = self.num(args.stream).filter(some);
        let wait_on_stream = self.num(args.wait_on_stream).filter(some);
        let wait_on_record = self.num(args.wait_on_record).filter(some);
        let correlation = self.num(args.correlation);
        self.table.syncs.push(Sync { span, device, stream, wait_on_stream, wait_on_record, correlation });
    }

    fn external(&mut self, span: u32, args: &Args<'_>) {
        if let Some(id) = args.external.and_then(integer) {
            self.table.external.push((span, id));
        }
    }

    fn num(&mut self, value: Option<Value<'_>>) -> Option<Num> {
        match value {
            None | Some(Value::Null) => None,
            Some(value) => Some(Num::of(value, &mut self.table.strings)),
        }
    }

    fn row(&mut self, fields: &Fields<'_>) -> u32 {
        let key = (self.intern(fields.pid), self.intern(fields.tid));
        if let Some((last, row)) = self.last_row
            && last == key
        {
            return row;
        }
        let rows = &mut self.table.rows;
        let row = *self.rows.entry(key).or_insert_with(|| {
            rows.push(Row { pid: key.0, tid: key.1 });
            u32::try_from(rows.len() - 1).expect("bug: fewer than four billion events")
        });
        self.last_row = Some((key, row));
        row
    }

    fn cat(&mut self, name: StrId) -> u16 {
        if let Some((last, cat)) = self.last_cat
            && last == name
        {
            return cat;
        }
        let table = &mut self.table;
        let cat = *self.cats.entry(name).or_insert_with(|| {
            if table.cats.len() < MOST_CATS {
                let role = role(table.strings.get(name));
                table.cats.push(Cat { name, role });
            }
            u16::try_from(table.cats.len() - 1).unwrap_or(u16::MAX)
        });
        self.last_cat = Some((name, cat));
        cat
    }

    fn arrow_end(&mut self, fields: &Fields<'_>, cat: StrId, starts: bool) {
        let flows = &mut self.table.flows;
        *(if starts { &mut flows.n_starts } else { &mut flows.n_ends }) += 1;
        let Some(id) = self.num(fields.id) else { return self.problem_here("flow_without_id", 1) };
        let flows = &mut self.table.flows;
        (if starts { &mut flows.starts } else { &mut flows.ends }).push((cat, id));
    }

    fn instant(&mut self, fields: &Fields<'_>) {
        if !matches!(fields.name, Some(Value::Text(name)) if name.raw == "[memory]") {
            return;
        }
        let args = &fields.args;
        let mut key =
            |value: Option<Value<'_>>| Num::of(value.unwrap_or(Value::Null), &mut self.table.strings);
        let device = (key(args.device_type), key(args.device_id));
        let sums = self.table.memory.entry(device).or_default();
        let int = |value: Option<Value<'_>>| value.and_then(integer);
        let bytes = i128::from(int(args.allocated).unwrap_or(0));
        sums.n_events += 1;
        if bytes < 0 {
            sums.n_frees += 1;
            sums.freed -= bytes;
        } else {
            sums.n_allocs += 1;
            sums.allocated += bytes;
        }
        // A total that is not given is less than any that is.
        sums.peak_allocated = sums.peak_allocated.max(int(args.total_allocated));
        sums.peak_reserved = sums.peak_reserved.max(int(args.total_reserved));
        sums.n_with_addr += u64::from(args.addr.is_some_and(|addr| addr != Value::Null));
    }

    pub(super) fn finish(self, lenient: Lenient, invalid_utf8: u64) -> Table {
        let mut table = self.table;
        for ((ph, cat), n) in self.counts.into_counts() {
            let pair = format!("{}|{}", table.strings.get(ph), table.strings.get(cat));
            *table.by_phase_cat.entry(pair).or_default() += n;
        }
        let twice = join(&mut table);
        let rest = [("invalid_utf8", invalid_utf8), ("duplicate_runtime_correlation", twice)];
        for (name, count) in rest.into_iter().chain(lenient.problems()).filter(|(_, count)| *count != 0) {
            table.problems.entry(name).or_default().count += count;
        }
        table
    }
}

/// Gives every operation the last call of the file that has its correlation; says how many calls another one hides.
fn join(table: &mut Table) -> u64 {
    let mut calls: Vec<(Num, u32)> =
        (0..).zip(&table.calls).filter_map(|(index, call)| Some((call.correlation?, index))).collect();
    let n_calls = calls.len();
    // Almost in order already, which this sort makes use of.
    calls.sort();
    calls.reverse();
    calls.dedup_by_key(|(correlation, _)| *correlation);
    calls.reverse();
    // Operations come in the order of their calls, more or less: look near the last one first.
    let mut near = 0;
    for op in &mut table.ops {
        let Some(correlation) = op.correlation else { continue };
        let found = match calls.get(near + 1) {
            Some(next) if next.0 == correlation => Some(near + 1),
            _ => calls.binary_search_by_key(&correlation, |call| call.0).ok(),
        };
        if let Some(found) = found {
            near = found;
            op.call = calls[found].1;
        }
    }
    (n_calls - calls.len()) as u64
}

fn role(cat: &str) -> CatRole {
    match &*cat.to_ascii_lowercase() {
        "kernel" | "mtia_ccp_events" => CatRole::Op(Work::Kernel),
        "gpu_memcpy" | "memcpy" => CatRole::Op(Work::Memcpy),
        "gpu_memset" | "memset" => CatRole::Op(Work::Memset),
        "cpu_op" | "operator" => CatRole::Operator,
        "user_annotation" => CatRole::Note,
        "python_function" => CatRole::Python,
        "cuda_sync" | "xpu_sync" => CatRole::Sync,
        lower if names::is_host_call(lower) => CatRole::Call,
        _ => CatRole::Other,
    }
}
