//! Puts events on lanes, into columns, while the text is walked; names and order of the lanes come at the end.

use std::borrow::Cow;

use super::event::{Args, Fields, members};
use super::join::{self, Point, Role, Wait};
use super::names::{self, Class};
use super::nanos;
use super::own::Own;
use super::scan::Value;
use crate::ordered::{BTreeMap, sort_by_key};
use crate::trace::own::{Arrow, Mark};
use crate::trace::time::{self, Unusable};
use crate::trace::{Counter, Flow, Instant, Kind, Lane, Slice, Slices, StrId, Strings, Trace};
use crate::units::{Nanos, float};

/// What stands for arguments that were left in the file, in front of the byte at which they begin there.
pub(super) const LEFT: char = '@';
/// Arguments as short as what stands for them are kept.
const LEFT_BYTES: usize = 16;

mod lanes;

use lanes::{Lanes, Place};

/// A process, a thread, an id: a number, a text, or nothing. `7`, `7.0` and `"7"` are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    #[default]
    None,
    Number(i64),
    /// A text of [`State::keys`].
    Text(StrId),
}

impl Key {
    /// How the profiler writes that there is no stream or no record, in two generations.
    fn is_none(self) -> bool {
        matches!(self, Key::Number(-1 | 4_294_967_295))
    }
}

/// What is known while the events are read.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The file's own account of itself.
    pub own: Option<Own>,
    /// Arguments that only people read stay in the file.
    pub leaves: bool,
    trace: Trace,
    /// Text that is looked at while reading and is no part of the trace.
    keys: Strings,
    lanes: Lanes,
    /// Phases and categories that came together.
    sorts: Vec<Sort>,
    sort_of: BTreeMap<(Key, Key), usize>,
    /// The last sort seen per slot.
    recent_sorts: [usize; RECENT],
    problems: BTreeMap<&'static str, u64>,
    /// Kinds by name of kernels, which are long and have to be searched.
    kernels: Vec<Option<Kind>>,
    /// Host calls with their correlation, and the work that has one.
    calls: Vec<(Key, u32)>,
    work: Vec<(Key, u32)>,
    /// Slices of host calls, the bytes that they were given, and how many copies without bytes they made.
    sizes: Vec<(u32, u64, u32)>,
    waits: Vec<Wait>,
    points: Vec<Point>,
    /// Where slices begin and end that come in two halves.
    halves: Vec<Half>,
    /// The counters of foreign files by process, name and series.
    counters: BTreeMap<(Key, StrId, StrId), usize>,
    /// The samples of our own counters, by position.
    own_samples: BTreeMap<usize, Vec<(Nanos, f64)>>,
}

/// The beginning (`B`) of this slice, or an end (`E`).
#[derive(Debug)]
struct Half {
    thread: (Key, Key),
    at: i64,
    slice: Option<u32>,
}

/// Slots of what was seen last; a power of two.
const RECENT: usize = 16;

/// A phase and a category.
#[derive(Debug, Clone, Copy)]
struct Sort {
    ph: Key,
    cat: Key,
    class: Class,
    /// How many events there were.
    n: u64,
    /// The category among the trace's texts, once a slice has it.
    named: Option<StrId>,
}

/// An event's time, sort and place.
struct Head {
    at: i64,
    sort: usize,
    class: Class,
    pid: Key,
    tid: Key,
}

impl State {
    /// Ready for the events of a file that gives this account of itself.
    pub(super) fn new(own: Option<Own>, leaves: bool) -> State {
        State { own, leaves, ..State::default() }
    }

    pub(super) fn n_events(&self) -> u64 {
        self.trace.import.n_events
    }

    pub(super) fn problem(&mut self, name: &'static str) {
        self.problems(name, 1);
    }

    pub(super) fn problems(&mut self, name: &'static str, count: u64) {
        if 0 < count {
            *self.problems.entry(name).or_default() += count;
        }
    }

    /// An element of the list that is no object.
    pub(super) fn no_object(&mut self) {
        self.trace.import.n_events += 1;
        let sort = self.sort(None, None);
        self.sorts[sort].n += 1;
        self.trace.import.dropped += 1;
        self.problem("event_not_object");
    }

    pub(super) fn event(&mut self, fields: &Fields<'_>) {
        self.trace.import.n_events += 1;
        self.problems("duplicate_key", fields.duplicates);
        if fields.args.wrong {
            self.problem("args_not_object");
        }
        let sort = self.sort(fields.ph, fields.cat);
        self.sorts[sort].n += 1;
        let phase = fields.phase();
        if phase == b'M' {
            return self.metadata(fields);
        }
        let Some(at) = self.time(fields.ts, "bad_ts") else {
            self.trace.import.dropped += 1;
            return;
        };
        let import = &mut self.trace.import;
        import.first_ns = Some(import.first_ns.map_or(at, |first| first.min(at)));
        let (pid, tid) = (self.key(fields.pid), self.key(fields.tid));
        let head = Head { at, sort, class: self.sorts[sort].class, pid, tid };
        match phase {
            b'X' => self.complete(fields, &head),
            b'B' => {
                let slice = self.slice(fields, &head, at);
                self.half(&head, Some(slice));
            }
            b'E' => self.half(&head, None),
            b's' => self.point(fields, &head, Role::Start),
            b't' => self.point(fields, &head, Role::Step),
            b'f' => self.point(fields, &head, Role::End),
            b'C' => self.counter(fields, &head),
            b'i' | b'I' => self.instant(fields, &head),
            _ => {
                let known = matches!(fields.ph, Some(Value::Text(quoted)) if !quoted.raw.is_empty());
                self.problem(if known { "other_phase" } else { "bad_ph" });
                self.instant(fields, &head);
            }
        }
    }

    /// A time in nanoseconds; what is wrong with it is counted.
    fn time(&mut self, value: Option<Value<'_>>, problem: &'static str) -> Option<i64> {
        let problem = match nanos(value) {
            Ok(nanos) => return Some(nanos),
            Err(Unusable::OutOfRange) => "out_of_range",
            Err(Unusable::NotANumber) => problem,
        };
        self.problem(problem);
        None
    }

    /// The index of a phase and a category among the sorts.
    fn sort(&mut self, ph: Option<Value<'_>>, cat: Option<Value<'_>>) -> usize {
        let plain = |value| match value {
            None => Some(None),
            Some(Value::Text(quoted)) => quoted.plain().map(Some),
            _ => None,
        };
        let texts = plain(ph).zip(plain(cat));
        let slot = texts.map_or(0, |(ph, cat)| {
            let byte = |text: &str, at| text.as_bytes().get(at).map_or(0, |byte| usize::from(*byte));
            let (ph, cat) = (ph.unwrap_or_default(), cat.unwrap_or_default());
            (byte(ph, 0) + 3 * byte(cat, 0) + 5 * cat.len() + byte(cat, 5)) % RECENT
        });
        let is = |key: Key, text: Option<&str>| match (key, text) {
            (Key::Text(id), Some(text)) => self.keys.get(id) == text,
            (key, text) => key == Key::None && text.is_none(),
        };
        let recent = self.recent_sorts[slot];
        if let (Some((ph, cat)), Some(sort)) = (texts, self.sorts.get(recent))
            && is(sort.ph, ph)
            && is(sort.cat, cat)
        {
            return recent;
        }
        let cat_shown = shown(cat);
        let mut key = |text: Option<&str>| text.map_or(Key::None, |text| Key::Text(self.keys.intern(text)));
        let (ph, cat) = (key(shown(ph).as_deref()), key(cat_shown.as_deref()));
        let sorts = &mut self.sorts;
        let found = *self.sort_of.entry((ph, cat)).or_insert_with(|| {
            let class = Class::of(cat_shown.as_deref().unwrap_or_default());
            sorts.push(Sort { ph, cat, class, n: 0, named: None });
            sorts.len() - 1
        });
        self.recent_sorts[slot] = found;
        found
    }

    /// The category of a sort among the trace's texts.
    fn cat(&mut self, sort: usize) -> StrId {
        let sort = &mut self.sorts[sort];
        *sort.named.get_or_insert_with(|| match sort.cat {
            Key::Text(id) => self.trace.strings.intern(self.keys.get(id)),
            _ => StrId::EMPTY,
        })
    }

    fn key(&mut self, value: Option<Value<'_>>) -> Key {
        match value {
            None | Some(Value::Null) => Key::None,
            Some(Value::Number(text)) => match time::integer(text) {
                Some(number) => Key::Number(number),
                None => Key::Text(self.keys.intern(text)),
            },
            Some(Value::Text(quoted)) => {
                let text = quoted.text();
                match text.trim().parse() {
                    Ok(number) => Key::Number(number),
                    Err(_) => Key::Text(self.keys.intern(&text)),
                }
            }
            Some(other) => {
                let text = shown(Some(other)).unwrap_or_default();
                Key::Text(self.keys.intern(&text))
            }
        }
    }

    fn complete(&mut self, fields: &Fields<'_>, head: &Head) {
        let dur = match self.time(fields.dur, "bad_dur") {
            Some(dur) if dur < 0 => {
                self.problem("negative_dur");
                0
            }
            dur => dur.unwrap_or(0),
        };
        let end = head.at.checked_add(dur).unwrap_or_else(|| {
            self.problem("out_of_range");
            head.at
        });
        let import = &mut self.trace.import;
        import.last_end_ns = Some(import.last_end_ns.map_or(end, |last| last.max(end)));
        self.slice(fields, head, end);
    }

    /// Adds a slice and gives its index.
    fn slice(&mut self, fields: &Fields<'_>, head: &Head, end: i64) -> u32 {
        let args = &fields.args;
        let name = shown(fields.name).unwrap_or_default();
        let (mark, own_args) = self.mark(args);
        let lane = match self.own_lane(head) {
            Some(lane) => lane,
            None => self.lane(head, args),
        };
        let mut name = self.trace.strings.intern(&name);
        let (mut kind, mut flags) = self.kind(head.class, name, args);
        let mut cat = self.cat(head.sort);
        let is_accelerators = head.class == Class::Accelerator && kind.is_copy();
        // Those of another tool's call are what it was asked for; it moves nothing itself.
        let own = args.bytes.filter(|_| self.own.is_some() || head.class != Class::Launch);
        let mut bytes = self.bytes(own.or(args.size.filter(|_| is_accelerators)));
        // Any value joins; a slice holds numbers.
        let key = self.key(args.correlation);
        let correlation = if let Key::Number(number) = key { Some(number) } else { None };
        let mut command = Slice::NONE;
        let index = u32::try_from(self.trace.slices.len()).expect("bug: fewer than four billion events");
        if let Some(mark) = &mark {
            kind = mark.kind.unwrap_or(kind);
            flags = u8::from(mark.pageable) * Slice::PAGEABLE + u8::from(mark.pinned) * Slice::PINNED;
            if let Some(own) = &mark.name {
                name = self.trace.strings.intern(own);
            }
            cat = mark.cat.as_deref().map_or(StrId::EMPTY, |cat| self.trace.strings.intern(cat));
            bytes = mark.bytes.unwrap_or(bytes);
            command = mark.command.unwrap_or(Slice::NONE);
        } else if key != Key::None {
            match head.class {
                Class::Launch => {
                    self.calls.push((key, index));
                    // Of roctracer the one, of rocprofiler the other.
                    let size = args.size.or(args.bytes).and_then(integer);
                    self.sizes.extend(size.and_then(|n| Some((index, u64::try_from(n).ok()?, 0))));
                }
                Class::Sync => {
                    let wait = self.wait(args, head, index);
                    self.waits.extend(wait);
                }
                class if class.is_stream_work() => self.work.push((key, index)),
                _ => {}
            }
        }
        let correlation = match mark {
            Some(Mark { no_correlation: true, .. }) => None,
            Some(Mark { correlation: Some(own), .. }) => Some(own),
            _ => correlation,
        }
        .unwrap_or(Slice::NO_CORRELATION);
        let args = self.args(args, own_args, head.class);
        let (start, end) = (Nanos(head.at), Nanos(end));
        let slice = Slice { lane, start, end, name, kind, bytes, command, correlation, args };
        self.trace.slices.push(slice, flags);
        self.trace.slices.set_cat(index as usize, cat);
        index
    }

    /// What a row of synchronisation says of a stream that waits for an event recorded on another.
    fn wait(&mut self, args: &Args<'_>, head: &Head, row: u32) -> Option<Wait> {
        let [stream, on] = [args.stream, args.wait_on_stream].map(|stream| self.key(stream));
        let [call, record, device] =
            [args.correlation, args.wait_on_record, args.device].map(|of| self.key(of));
        let device = if device == Key::None { head.pid } else { device };
        // Without a stream it is the host that waits.
        let is_there = [stream, on, record].into_iter().all(|key| key != Key::None && !key.is_none());
        is_there.then_some(Wait { row, call, record, device, stream, on })
    }

    /// What our own writer says of an event, and its arguments without what the writer added.
    fn mark<'a>(&mut self, args: &Args<'a>) -> (Option<Mark<'a>>, Option<Cow<'a, str>>) {
        if self.own.is_none() {
            return (None, None);
        }
        let (Some((text, before)), Some(all)) = (args.mark, args.text) else { return (None, None) };
        let Ok(mark) = serde_json::from_str::<Mark<'_>>(text) else {
            self.problem("bad_mark");
            return (None, None);
        };
        let own_args = match &mark.args {
            Some(text) => text.clone(),
            None if all[1..before].trim().is_empty() => Cow::Borrowed(""),
            None => Cow::Owned(format!("{}}}", &all[..before])),
        };
        (Some(mark), Some(own_args))
    }

    fn args(&mut self, args: &Args<'_>, own: Option<Cow<'_, str>>, class: Class) -> StrId {
        match (own, args.text) {
            (Some(text), _) => self.trace.strings.push(&text),
            // Calls are asked for the size of a copy where its own row has none.
            (None, Some(text))
                if self.leaves && !class.is_asked() && args.size.is_none() && LEFT_BYTES < text.len() =>
            {
                let strings = &mut self.trace.strings;
                strings.push_digits(LEFT, args.at as u64)
            }
            (None, Some(text)) => self.trace.strings.push(text),
            (None, None) => StrId::EMPTY,
        }
    }

    fn own_lane(&mut self, head: &Head) -> Option<u32> {
        let own = self.own.as_ref()?;
        let (Key::Number(pid), Key::Number(tid)) = (head.pid, head.tid) else { return None };
        let lane = *own.lane_of.get(&(pid, tid))?;
        Some(self.lanes.find(Place::Own(lane), false, head.pid, head.tid))
    }

    /// The lane of a foreign event, by its number while reading.
    fn lane(&mut self, head: &Head, args: &Args<'_>) -> u32 {
        let (pid, tid) = (head.pid, head.tid);
        let thread = Place::Thread(pid, tid);
        let is_row = matches!(head.class, Class::Sync | Class::Record);
        if !head.class.is_stream_work() && !is_row {
            let host = matches!(head.class, Class::Launch | Class::Host(_));
            return self.lanes.find(thread, host, pid, tid);
        }
        let or = |key: Key, other: Key| if key == Key::None { other } else { key };
        let device = self.key(args.device);
        let device = or(device, pid);
        let stream = self.key(args.stream);
        let stream = or(stream, tid);
        let place = if is_row {
            Place::Sync(device, if stream.is_none() { Key::None } else { stream })
        } else {
            match (device, stream) {
                (Key::Number(dev), Key::Number(stream)) => Place::Stream(dev, stream),
                _ => Place::Unnumbered(device, stream),
            }
        };
        self.lanes.find(place, false, pid, tid)
    }

    fn kind(&mut self, class: Class, name: StrId, args: &Args<'_>) -> (Kind, u8) {
        let text = self.trace.strings.get(name);
        match class {
            Class::Kernel => {
                let at = name.index();
                if self.kernels.len() <= at {
                    self.kernels.resize(at + 1, None);
                }
                (*self.kernels[at].get_or_insert_with(|| class.kind(text).0), 0)
            }
            Class::Accelerator => match args.direction {
                Some(Value::Text(quoted)) => (names::direction(&quoted.text()).unwrap_or(Kind::Kernel), 0),
                _ => (Kind::Kernel, 0),
            },
            _ => class.kind(text),
        }
    }

    fn bytes(&mut self, value: Option<Value<'_>>) -> u64 {
        match value {
            None | Some(Value::Null) => 0,
            Some(value) => integer(value).and_then(|n| u64::try_from(n).ok()).unwrap_or_else(|| {
                self.problem("bad_bytes");
                0
            }),
        }
    }

    fn half(&mut self, head: &Head, slice: Option<u32>) {
        self.halves.push(Half { thread: (head.pid, head.tid), at: head.at, slice });
    }

    /// Joins beginnings and ends by time, for files are not in its order; at one time they come as they stand in the file.
    fn pair(&mut self) {
        let mut halves = std::mem::take(&mut self.halves);
        sort_by_key(&mut halves, |half| (half.thread, half.at));
        for thread in halves.chunk_by(|a, b| a.thread == b.thread) {
            let mut open = Vec::new();
            for half in thread {
                if let Some(slice) = half.slice {
                    open.push(slice);
                } else if let Some(slice) = open.pop() {
                    self.trace.slices.end[slice as usize] = half.at;
                } else {
                    self.problem("end_without_begin");
                }
            }
            self.problems("begin_without_end", open.len() as u64);
        }
    }

    fn point(&mut self, fields: &Fields<'_>, head: &Head, role: Role) {
        if let (Some(_), Some(mark)) = (&self.own, fields.mark) {
            return match mark {
                // The end says nothing that the start has not said.
                Value::Container(text) if role == Role::Start => self.arrow(text),
                _ => {}
            };
        }
        let id = self.key(fields.id);
        if id == Key::None {
            return self.problem("flow_without_id");
        }
        // Launches are joined on the correlation: these arrows lack partners and use ids twice.
        let cat = if let Key::Text(cat) = self.sorts[head.sort].cat { cat } else { StrId::EMPTY };
        let launch = ["ac2g", "async", "async_cpu_to_gpu"].contains(&self.keys.get(cat));
        if !launch {
            let lane = self.lanes.find(Place::Thread(head.pid, head.tid), false, head.pid, head.tid);
            self.points.push(Point { cat, id, at: head.at, role, lane });
        }
    }

    fn arrow(&mut self, text: &str) {
        match serde_json::from_str::<Arrow>(text) {
            Ok(Arrow { kind, from, to }) => self.trace.flows.push(Flow { kind, from, to }),
            Err(_) => self.problem("bad_mark"),
        }
    }

    fn counter(&mut self, fields: &Fields<'_>, head: &Head) {
        let name = shown(fields.name).unwrap_or_default();
        let own = match (&self.own, fields.mark.and_then(integer)) {
            (Some(own), Some(index)) => {
                usize::try_from(index).ok().filter(|&k| k < own.header.counters.len())
            }
            _ => None,
        };
        let (mut wrong, mut any) = (0, false);
        members(fields.args.text.unwrap_or("{}"), |series, value| {
            let number = match value {
                Value::Number(text) => float(text).filter(|x| x.is_finite()),
                Value::Text(quoted) => float(quoted.text().trim()),
                _ => None,
            };
            any = true;
            let Some(number) = number else {
                wrong += 1;
                return;
            };
            let samples = match own {
                Some(index) => self.own_samples.entry(index).or_default(),
                None => {
                    let key = (head.pid, self.keys.intern(&name), self.keys.intern(&series.text()));
                    let next = self.counters.len();
                    let index = *self.counters.entry(key).or_insert(next);
                    if index == self.trace.counters.len() {
                        self.trace.counters.push(Counter::default());
                    }
                    &mut self.trace.counters[index].samples
                }
            };
            samples.push((Nanos(head.at), number));
        });
        self.problems("bad_counter", wrong + u64::from(!any));
    }

    fn instant(&mut self, fields: &Fields<'_>, head: &Head) {
        let name = shown(fields.name).unwrap_or_default();
        let (mark, own_args) = self.mark(&fields.args);
        let lane = match self.own_lane(head) {
            Some(lane) => lane,
            None => {
                let host = matches!(head.class, Class::Launch | Class::Host(_));
                self.lanes.find(Place::Thread(head.pid, head.tid), host, head.pid, head.tid)
            }
        };
        let name = self.trace.strings.intern(&name);
        let command = mark.and_then(|mark| mark.command).unwrap_or(Slice::NONE);
        let args = self.args(&fields.args, own_args, head.class);
        self.trace.instants.push(Instant { lane, at: Nanos(head.at), name, command, args });
    }

    fn metadata(&mut self, fields: &Fields<'_>) {
        let what = shown(fields.name).unwrap_or_default();
        let (pid, tid) = (self.key(fields.pid), self.key(fields.tid));
        let args = &fields.args;
        match &*what {
            "process_name" => self.lanes.name_process(pid, shown(args.name)),
            "process_labels" => self.lanes.label_process(pid, shown(args.labels)),
            "process_sort_index" => self.lanes.sort_process(pid, args.sort_index.and_then(integer)),
            "thread_name" => self.lanes.name_thread(pid, tid, shown(args.name)),
            "thread_sort_index" => self.lanes.sort_thread(pid, tid, args.sort_index.and_then(integer)),
            _ => {}
        }
    }

    /// The trace, once all events are read.
    pub(super) fn finish(mut self, own: Option<&Own>) -> Trace {
        self.pair();
        let points = std::mem::take(&mut self.points);
        let (arrows, alone) = join::arrows(points, &self.trace.slices);
        let (calls, twice) = join::last_calls(std::mem::take(&mut self.calls));
        let launches = join::launches(&calls, &self.work);
        let lane = |device, stream| self.lanes.of_stream(device, stream);
        let waits = join::waits(&self.waits, &calls, &launches, &self.trace.slices, lane);
        self.problems("flow_without_partner", alone);
        self.problems("duplicate_runtime_correlation", twice);
        self.own_flows();
        self.bytes_by_calls(&launches);
        self.trace.flows.extend(launches);
        self.trace.flows.extend(waits);
        self.trace.flows.extend(arrows);
        self.place(own);
        self.name_counters(own);
        for Sort { ph, cat, n, .. } in std::mem::take(&mut self.sorts) {
            let text = |key| if let Key::Text(id) = key { self.keys.get(id) } else { "None" };
            *self.trace.import.by_phase_cat.entry(format!("{}|{}", text(ph), text(cat))).or_default() += n;
        }
        self.trace.import.problems.extend(self.problems.iter().map(|(name, n)| ((*name).to_owned(), *n)));
        self.trace
    }

    /// Gives copies and memsets whose rows state no bytes (ROCm) those of their calls. Of a call that made several, nobody knows which
    /// moved how much.
    fn bytes_by_calls(&mut self, launches: &[Flow]) {
        let slices = &mut self.trace.slices;
        let lacks = |slices: &Slices, k: u32| {
            let kind = slices.kind[k as usize];
            slices.bytes[k as usize] == 0 && (kind.is_copy() || kind == Kind::Memset)
        };
        for is_counted in [false, true] {
            for flow in launches {
                if let (true, Ok(at)) =
                    (lacks(slices, flow.to), self.sizes.binary_search_by_key(&flow.from, |of| of.0))
                {
                    let (_, bytes, n) = &mut self.sizes[at];
                    match is_counted {
                        false => *n += 1,
                        true if *n == 1 => slices.bytes[flow.to as usize] = *bytes,
                        true => {}
                    }
                }
            }
        }
    }

    /// Arrows that our own file states point at slices that it has.
    fn own_flows(&mut self) {
        let n_slices = self.trace.slices.len();
        let before = self.trace.flows.len();
        self.trace.flows.retain(|f| (f.from as usize) < n_slices && (f.to as usize) < n_slices);
        self.problems("bad_mark", (before - self.trace.flows.len()) as u64);
    }

    fn place(&mut self, own: Option<&Own>) {
        let order = self.lanes.order(own, &self.keys);
        for (lane, group, name) in &order.lanes {
            let (group, name) = (self.trace.strings.intern(group), self.trace.strings.intern(name));
            self.trace.lanes.push(Lane { kind: *lane, group, name });
        }
        for lane in &mut self.trace.slices.lane {
            *lane = order.position[*lane as usize];
        }
        for instant in &mut self.trace.instants {
            instant.lane = order.position[instant.lane as usize];
        }
    }

    fn name_counters(&mut self, own: Option<&Own>) {
        for (&(pid, name, series), &index) in &self.counters {
            let mut same = self.counters.range((pid, name, StrId::EMPTY)..=(pid, name, StrId::LAST));
            let alone = same.nth(1).is_none();
            let (name, series) = (self.keys.get(name), self.keys.get(series));
            let full = if alone { Cow::Borrowed(name) } else { Cow::Owned(format!("{name}: {series}")) };
            let counter = &mut self.trace.counters[index];
            counter.group = self.trace.strings.intern(&self.lanes.group(pid, &self.keys));
            counter.name = self.trace.strings.intern(&full);
        }
        let foreign = std::mem::take(&mut self.trace.counters);
        for (index, form) in own.iter().flat_map(|own| &own.header.counters).enumerate() {
            let (group, name) = (&form.group, &form.name);
            let (group, name) = (self.trace.strings.intern(group), self.trace.strings.intern(name));
            let samples = self.own_samples.remove(&index).unwrap_or_default();
            self.trace.counters.push(Counter { group, name, samples });
        }
        self.trace.counters.extend(foreign);
    }
}

/// A value as people would write it, for names; `None` for an absent or null one.
fn shown<'a>(value: Option<Value<'a>>) -> Option<Cow<'a, str>> {
    match value? {
        Value::Null => None,
        Value::Bool(value) => Some(if value { "true" } else { "false" }.into()),
        Value::Number(text) | Value::NonFinite(text) | Value::Container(text) => Some(text.into()),
        Value::Text(quoted) => Some(quoted.text()),
    }
}

/// The integer that a number or a text is.
fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Number(text) => time::integer(text),
        Value::Text(quoted) => quoted.text().trim().parse().ok(),
        _ => None,
    }
}
