//! Puts events into the columns of a [`Table`], one after the other, and joins operations with their host calls.

use std::borrow::Cow;

use super::num::{integer, text_of};
use super::{Call, Cat, CatRole, Num, Op, Row, Sync, Table, Work};
use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::trace::read::event::{Args, Fields};
use crate::trace::read::scan::{Lenient, Value};
use crate::trace::read::walk::Sink;
use crate::trace::read::{ReadError, names, nanos};
use crate::trace::time::Unusable;
use crate::trace::{StrId, Strings};

/// The table so far, and what finds things in it while it grows.
#[derive(Debug, Default)]
pub(super) struct Fill {
    table: Table,
    /// Phases and categories that came together.
    kinds: Vec<Kind>,
    kind_of: BTreeMap<(StrId, StrId), u32>,
    /// The last kind seen per slot.
    recent_kinds: [u32; RECENT],
    rows: BTreeMap<(StrId, StrId), u32>,
    /// The last row seen per slot, with the digits of its process and thread.
    recent_rows: [(String, String, u32); RECENT],
    cats: BTreeMap<StrId, u16>,
    devices: BTreeMap<Num, u32>,
    streams: BTreeMap<(Num, Num), (u32, u32)>,
    last_stream: Option<((Num, Num), (u32, u32))>,
}

/// Phase and category.
#[derive(Debug, Clone, Copy)]
struct Kind {
    ph: StrId,
    cat: StrId,
    /// How many events there were.
    n: u64,
    /// The index of the category, once a slice has it.
    index: Option<u16>,
}

/// Slots of what was seen last; a power of two.
const RECENT: usize = 16;

/// Categories beyond this many share the last one's place: no file has them, and a hostile one costs no more memory.
pub(super) const MOST_CATS: usize = u16::MAX as usize;

impl Sink for Fill {
    fn no_object(&mut self) {
        self.table.n_events += 1;
        let kind = self.kind(None, None);
        self.kinds[kind].n += 1;
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
        // What a report shows of it; a member of megabytes is not for people. That which says the rank lists the ranks of each group.
        const MOST: usize = 64 << 10;
        let most = if key == "distributedInfo" { 256 * MOST } else { MOST };
        if text.len() <= most && self.table.header.len() < 256 {
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
        let kind = self.kind(fields.ph, fields.cat);
        self.kinds[kind].n += 1;
        let phase = fields.phase();
        let has_phase = matches!(fields.ph, Some(Value::Text(quoted)) if !quoted.raw.is_empty());
        if phase == 0 && !has_phase {
            self.problem_here("bad_ph", 1);
        }
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
            b'X' => self.slice(fields, kind, at),
            b's' | b'f' => self.arrow_end(fields, self.kinds[kind].cat, phase == b's'),
            b'i' | b'I' => self.instant(fields),
            // Counters, halves of slices and steps of arrows are in pictures only.
            b'B' | b'E' | b'C' | b't' => {}
            _ if phase == 0 && !has_phase => {}
            _ => self.problem_here("other_phase", 1),
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

    /// The index of a phase and a category among the kinds.
    fn kind(&mut self, ph: Option<Value<'_>>, cat: Option<Value<'_>>) -> usize {
        let mut slot = None;
        if let (Some(Value::Text(ph)), Some(Value::Text(cat))) = (ph, cat)
            && let (Some(ph), Some(cat)) = (ph.plain(), cat.plain())
        {
            let byte = |text: &str, at: usize| text.as_bytes().get(at).map_or(0, |byte| usize::from(*byte));
            let at = (byte(ph, 0) + 3 * byte(cat, 0) + 5 * cat.len() + byte(cat, 5)) % RECENT;
            let recent = self.recent_kinds[at] as usize;
            let strings = &self.table.strings;
            if self.kinds.get(recent).is_some_and(|k| strings.get(k.ph) == ph && strings.get(k.cat) == cat) {
                return recent;
            }
            slot = Some(at);
        }
        let key = (self.intern(ph), self.intern(cat));
        let kinds = &mut self.kinds;
        let found = *self.kind_of.entry(key).or_insert_with(|| {
            kinds.push(Kind { ph: key.0, cat: key.1, n: 0, index: None });
            u32::try_from(kinds.len() - 1).expect("bug: fewer than four billion events")
        });
        if let Some(at) = slot {
            self.recent_kinds[at] = found;
        }
        found as usize
    }

    fn slice(&mut self, fields: &Fields<'_>, kind: usize, at: i64) {
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
        let Kind { cat, index, .. } = self.kinds[kind];
        let cat = index.unwrap_or_else(|| self.cat(cat));
        self.kinds[kind].index = Some(cat);
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
            CatRole::Call => table.call(span, args),
            CatRole::Operator => table.operator(span, args),
            CatRole::Sync => table.sync(span, args),
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
        let direction = match args.direction {
            Some(Value::Text(way)) if self.is_accelerators(span) => names::direction(&way.text()),
            _ => None,
        };
        let bytes = args.bytes.or(args.size.filter(|_| direction.is_some()));
        let bytes = match bytes.filter(|value| *value != Value::Null) {
            None => None,
            Some(value) => match integer(value).and_then(|bytes| u64::try_from(bytes).ok()) {
                Some(bytes) => Some(bytes),
                None => {
                    self.problem_here("bad_bytes", 1);
                    None
                }
            },
        };
        if work == Work::Kernel
            && let Some(name) = args.group_name.or(args.group_ranks)
        {
            let (name, ranks) = (text_of(name), text_of(args.group_ranks.unwrap_or(Value::Null)));
            let group = self.table.strings.intern(&format!("{name} {ranks}"));
            self.table.process_groups.push((span, group));
        }
        let correlation = self.table.num(args.correlation);
        self.table.ops.push(Op { span, work, device, stream, correlation, bytes, direction, call: Op::NONE });
    }

    /// Whether the arguments of a slice may say that it is a copy.
    fn is_accelerators(&self, span: u32) -> bool {
        let cat = self.table.cat(span).name;
        self.table.strings.get(cat).eq_ignore_ascii_case(names::ACCELERATOR)
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

    fn row(&mut self, fields: &Fields<'_>) -> u32 {
        let Some((Value::Number(pid), Value::Number(tid))) = fields.pid.zip(fields.tid) else {
            return self.find_row(fields);
        };
        let last = |text: &str| text.as_bytes().last().map_or(0, |byte| usize::from(*byte));
        let at = (last(pid) + 5 * last(tid) + tid.len()) % RECENT;
        let recent = &self.recent_rows[at];
        if recent.0 == pid && recent.1 == tid {
            return recent.2;
        }
        let row = self.find_row(fields);
        let recent = &mut self.recent_rows[at];
        recent.0.clear();
        recent.1.clear();
        // Longer ones than any real one are not kept: none is empty.
        if pid.len() + tid.len() <= 64 {
            recent.0.push_str(pid);
            recent.1.push_str(tid);
            recent.2 = row;
        }
        row
    }

    fn find_row(&mut self, fields: &Fields<'_>) -> u32 {
        let key = (self.intern(fields.pid), self.intern(fields.tid));
        let rows = &mut self.table.rows;
        *self.rows.entry(key).or_insert_with(|| {
            rows.push(Row { pid: key.0, tid: key.1 });
            u32::try_from(rows.len() - 1).expect("bug: fewer than four billion events")
        })
    }

    fn cat(&mut self, name: StrId) -> u16 {
        let table = &mut self.table;
        *self.cats.entry(name).or_insert_with(|| {
            if table.cats.len() < MOST_CATS {
                table.cats.push(Cat { name, role: role(table.strings.get(name)) });
            }
            u16::try_from(table.cats.len() - 1).unwrap_or(u16::MAX)
        })
    }

    fn arrow_end(&mut self, fields: &Fields<'_>, cat: StrId, starts: bool) {
        let flows = &mut self.table.flows;
        *(if starts { &mut flows.n_starts } else { &mut flows.n_ends }) += 1;
        let Some(id) = self.table.num(fields.id) else { return self.problem_here("flow_without_id", 1) };
        let flows = &mut self.table.flows;
        (if starts { &mut flows.starts } else { &mut flows.ends }).push((cat, id));
    }

    fn instant(&mut self, fields: &Fields<'_>) {
        if !matches!(fields.name, Some(Value::Text(name)) if name.text() == "[memory]") {
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

    /// Bytes that the table takes with all that is told of it: about the most that files of nothing but one such thing
    /// were seen to need.
    pub(super) fn spent(&self) -> u64 {
        let table = &self.table;
        let parts = [
            (table.spans.len(), 60),
            (table.ops.len(), 250),
            (table.calls.len(), 150),
            (table.syncs.len() + table.flows.starts.len() + table.flows.ends.len(), 90),
            (table.external.len() + table.stacks.len() + table.process_groups.len(), 16),
            (table.streams.len(), 1200),
            (table.memory.len(), 700),
            (table.rows.len(), 350),
            (self.kinds.len(), 350),
            (table.strings.len(), 500),
            (table.strings.n_bytes(), 2),
        ];
        parts.iter().map(|&(n, bytes)| n as u64 * bytes).sum()
    }

    pub(super) fn finish(self, lenient: Lenient, invalid_utf8: u64) -> Table {
        let mut table = self.table;
        for Kind { ph, cat, n, .. } in self.kinds {
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

impl Table {
    fn call(&mut self, span: u32, args: &Args<'_>) {
        let correlation = self.num(args.correlation);
        self.calls.push(Call { span, correlation, size: size(args) });
        self.external(span, args);
    }

    pub(super) fn operator(&mut self, span: u32, args: &Args<'_>) {
        self.external(span, args);
        if let Some(Value::Text(stack)) = args.call_stack
            && !stack.raw.is_empty()
        {
            let text = self.strings.intern(&stack.text());
            self.stacks.push((span, text));
        }
    }

    pub(super) fn sync(&mut self, span: u32, args: &Args<'_>) {
        // How the profiler writes that there is none, in two generations.
        let some = |num: &Num| !matches!(num, Num::Int(-1 | 4_294_967_295));
        let device = self.num(args.device);
        let stream = self.num(args.stream).filter(some);
        let wait_on_stream = self.num(args.wait_on_stream).filter(some);
        let wait_on_record = self.num(args.wait_on_record).filter(some);
        let correlation = self.num(args.correlation);
        self.syncs.push(Sync { span, device, stream, wait_on_stream, wait_on_record, correlation });
    }

    pub(super) fn external(&mut self, span: u32, args: &Args<'_>) {
        if let Some(id) = args.external.and_then(integer) {
            self.external.push((span, id));
        }
    }

    fn num(&mut self, value: Option<Value<'_>>) -> Option<Num> {
        match value {
            None | Some(Value::Null) => None,
            Some(value) => Some(Num::of(value, &mut self.strings)),
        }
    }
}

/// The bytes that a host call was given: of roctracer the one, of rocprofiler the other.
pub(super) fn size(args: &Args<'_>) -> Option<u64> {
    args.size.or(args.bytes).and_then(integer).and_then(|size| u64::try_from(size).ok())
}

/// Gives every operation the last call of the file that has its correlation; says how many calls another one hides.
fn join(table: &mut Table) -> u64 {
    let mut calls: Vec<(Num, u32)> =
        (0..).zip(&table.calls).filter_map(|(index, call)| Some((call.correlation?, index))).collect_vec();
    let n_calls = calls.len();
    // Almost in order already, which this sort makes use of.
    sort(&mut calls);
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

pub(super) fn role(cat: &str) -> CatRole {
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
