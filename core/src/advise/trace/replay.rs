//! A trace run again: what was recorded as costs and dependencies, so that some of them can be changed.
//!
//! The model knows what the file tells and nothing else:
//!
//! - A host call begins as long after the call before it as it did. Before it stands the last call of its thread; after
//!   a pause of more than a millisecond, the last call of any thread, since a thread that pauses waits for another.
//! - A call that was still running when its operation began waits for that beginning. A call that synchronises waits for
//!   the operation that was the last to end while it ran (`synced`). Any other call takes as long as it took.
//! - An operation begins once its call has launched it, the operation before it on its stream has ended, and what its
//!   stream was told to wait for has ended, which is taken from times where the file does not say it (`held`). Copies of one
//!   direction share an engine. What none of this explains keeps its distance to the operation before it: something that
//!   the file does not tell held it up. So do operations without a call.
//!
//! How far such a run is from the recorded time is said before anything that follows from it.

use std::borrow::Cow;

use super::held::held;
use super::recorded::{ENGINES, Op, Recorded};
use super::synced::Synced;
use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::StrId;

/// After a longer pause a thread is taken to wait for another one.
const PAUSE_NS: i64 = 1_000_000;
/// Operations begin so much later than they could by chance.
pub(super) const LEAST_LATE_NS: i64 = 5_000;

/// Costs and dependencies of a trace.
#[derive(Debug)]
pub(super) struct Replay {
    /// Calls and operations in the order in which they began.
    steps: Vec<Step>,
    pub calls: Vec<CallCost>,
    pub ops: Vec<OpCost>,
    /// From the first start to the last end, as recorded.
    pub recorded_ns: i64,
    /// The operations of each stream in order, and behind them two empty streams of each device for those that a change moves.
    queues: Vec<Vec<u32>>,
    n_streams: usize,
    n_engines: usize,
    /// From a call's beginning to that of its operation where nothing stands before it: the median.
    usual_launch: i64,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Call(u32),
    Op(u32),
}

/// What a call costs and waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallCost {
    /// The call before it, and how long after its end this one begins; without one, when it begins.
    after: Option<u32>,
    gap: i64,
    /// What it takes when it waits for nothing.
    pub own: i64,
    /// The operation that it waits for.
    pub waits_for: Option<u32>,
    /// It waits for the operation's beginning, else for its end.
    for_start: bool,
    /// What is left of it once the wait is over.
    tail: i64,
    /// It waits for the end of what the call before it on its thread launched.
    is_behind: bool,
}

/// What an operation costs and waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpCost {
    pub call: Option<u32>,
    /// From its call's beginning until it can begin.
    launch: i64,
    pub stream: u32,
    engine: Option<u32>,
    pub len: i64,
    /// When it began. Without a call, it begins as long after the operation before it on its stream as it did.
    begin: i64,
    /// An operation that its stream waits for, which begins before it; and how long after its end this one begins at least.
    waits_for: Option<u32>,
    lag: i64,
    /// How long after the operation before it, where it was there in time.
    pause: i64,
    /// How much longer it was kept on its stream by something that the file does not tell.
    kept: i64,
}

/// What is changed in a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Change {
    /// Calls that wait for nothing.
    pub free_calls: Vec<u32>,
    /// Calls that are not made, and their operations take no time.
    pub dropped_calls: Vec<u32>,
    /// Operations of another length.
    pub lengths: Vec<(u32, i64)>,
    /// Copies on streams of their own: of each device one for copies to the host, and one for the others.
    pub own_stream: Vec<u32>,
    /// Calls that follow the one before them at once.
    pub prompt_calls: Vec<u32>,
    /// Operations that wait for no other stream, and begin as soon as they are launched.
    pub prompt_ops: Vec<u32>,
}

/// A saturating sum: times of hostile files may lie anywhere.
fn sum(a: i64, b: i64) -> i64 {
    a.saturating_add(b)
}

impl Replay {
    /// `None` without a host call and an operation of it.
    pub(super) fn of(recorded: &Recorded) -> Option<Replay> {
        let Recorded { calls, ops, .. } = recorded;
        if calls.is_empty() || ops.iter().all(|op| op.call.is_none()) {
            return None;
        }
        // At the same time calls come first, so operations are counted on from them.
        let n_calls = u32::try_from(calls.len()).ok()?;
        let mut steps: Vec<(i64, u32)> = Vec::with_capacity(calls.len() + ops.len());
        steps.extend((0..).zip(calls).map(|(k, call)| (call.at.0, k)));
        steps.extend((n_calls..).zip(ops).map(|(k, op)| (op.at.0, k)));
        steps.sort();
        let first = steps.first().map_or(0, |step| step.0);
        let last = calls.iter().map(|c| c.at.1).chain(ops.iter().map(|o| o.at.1)).max().unwrap_or(first);
        let steps: Vec<Step> = steps
            .into_iter()
            .map(|(_, k)| k.checked_sub(n_calls).map_or(Step::Call(k), Step::Op))
            .collect_vec();
        let (mut op_costs, usual_launch) = op_costs(recorded, &steps);
        let waiting = recorded.waiting();
        let mut place = vec![0_usize; if waiting.is_empty() { 0 } else { ops.len() }];
        for (at, step) in steps.iter().enumerate() {
            if let (Step::Op(k), false) = (step, waiting.is_empty()) {
                place[*k as usize] = at;
            }
        }
        for (waits, on) in waiting {
            let begins_before = place[on as usize] < place[waits as usize];
            op_costs[waits as usize].waits_for = begins_before.then_some(on);
        }
        Some(Replay {
            calls: call_costs(recorded, &steps),
            ops: op_costs,
            usual_launch,
            recorded_ns: last.saturating_sub(first),
            queues: queues(&steps, n_queues(recorded.n_streams, recorded.n_engines), |k| {
                ops[k as usize].stream
            }),
            n_streams: recorded.n_streams,
            n_engines: recorded.n_engines,
            steps,
        })
    }

    /// How many calls and operations a run goes through.
    pub(super) fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// Calls that wait for the end of an operation right behind the call that launched it, by that operation: a copy of
    /// PyTorch's that blocks makes two calls.
    pub(super) fn waits_behind(&self) -> BTreeMap<u32, u32> {
        let behind = (0..).zip(&self.calls).filter(|(_, call)| call.is_behind);
        behind.filter_map(|(k, call)| Some((call.waits_for?, k))).collect()
    }

    /// When all that stands before each operation on its stream had ended, and with it what its stream was told to wait for.
    pub(super) fn in_front(&self) -> Vec<[i64; 2]> {
        let mut found = vec![[i64::MIN; 2]; self.ops.len()];
        let end = |op: u32| sum(self.ops[op as usize].begin, self.ops[op as usize].len);
        for queue in &self.queues {
            let mut own = i64::MIN;
            for &op in queue {
                let on = self.ops[op as usize].waits_for;
                found[op as usize] = [own, on.map_or(own, |on| own.max(end(on)))];
                own = own.max(end(op));
            }
        }
        found
    }

    /// Runs it and gives the time from the first start to the last end.
    ///
    /// # Cost
    /// Linear in calls and operations.
    pub(super) fn run(&self, change: &Change) -> i64 {
        self.times(change).length_ns
    }

    /// Runs it and gives when everything happens.
    ///
    /// # Cost
    /// Linear in calls and operations.
    pub(super) fn times(&self, change: &Change) -> Times {
        let mut run = Run::new(self, change);
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        for step in &self.steps {
            let at = match *step {
                Step::Call(k) => run.call(k as usize),
                Step::Op(k) => run.op(k),
            };
            (first, last) = (first.min(at.0), last.max(at.1));
        }
        Times { length_ns: last.saturating_sub(first), calls: run.call_at, ops: run.op_at }
    }
}

/// When everything of a run happens.
#[derive(Debug)]
pub(super) struct Times {
    /// From the first start to the last end.
    pub length_ns: i64,
    /// Of each call.
    pub calls: Vec<Option<(i64, i64)>>,
    /// Of each operation.
    pub ops: Vec<Option<(i64, i64)>>,
}

/// What a change makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    AsRecorded,
    WaitsForNothing,
    NotAtAll,
}

/// A run under way.
struct Run<'a> {
    replay: &'a Replay,
    made: Vec<Made>,
    lengths: Vec<i64>,
    streams: Vec<u32>,
    prompt_ops: Vec<bool>,
    prompt_calls: Vec<bool>,
    /// The operations of each stream in order.
    queues: Cow<'a, [Vec<u32>]>,
    /// How many of them have their place.
    placed: Vec<usize>,
    call_at: Vec<Option<(i64, i64)>>,
    op_at: Vec<Option<(i64, i64)>>,
    /// The last operation and the greatest end on each stream.
    last: Vec<Option<(u32, i64)>>,
    engine_free: Vec<i64>,
    /// Operations that get their place first, the last one before the others.
    wanted: Vec<u32>,
}

impl<'a> Run<'a> {
    fn new(replay: &'a Replay, change: &Change) -> Run<'a> {
        let mut made = vec![Made::AsRecorded; replay.calls.len()];
        change.free_calls.iter().for_each(|&call| made[call as usize] = Made::WaitsForNothing);
        change.dropped_calls.iter().for_each(|&call| made[call as usize] = Made::NotAtAll);
        let mut lengths: Vec<i64> = replay.ops.iter().map(|op| op.len).collect_vec();
        change.lengths.iter().for_each(|&(op, len)| lengths[op as usize] = len);
        let mut streams: Vec<u32> = replay.ops.iter().map(|op| op.stream).collect_vec();
        let first_own = u32::try_from(replay.n_streams).unwrap_or(u32::MAX);
        for &op in &change.own_stream {
            // Devices share no stream, and none of their own copies waits for another device's.
            if let Some(engine) = replay.ops[op as usize].engine {
                let (device, to_host) = (engine / ENGINES, engine % ENGINES == 1);
                streams[op as usize] = first_own + 2 * device + u32::from(to_host);
            }
        }
        let queues = match change.own_stream.as_slice() {
            [] => Cow::Borrowed(replay.queues.as_slice()),
            _ => Cow::Owned(queues(&replay.steps, replay.queues.len(), |k| streams[k as usize])),
        };
        let marked = |which: &[u32], n: usize| {
            let mut marked = vec![false; n];
            which.iter().for_each(|&k| marked[k as usize] = true);
            marked
        };
        Run {
            replay,
            made,
            prompt_ops: marked(&change.prompt_ops, replay.ops.len()),
            prompt_calls: marked(&change.prompt_calls, replay.calls.len()),
            lengths,
            streams,
            placed: vec![0; queues.len()],
            last: vec![None; queues.len()],
            queues,
            call_at: vec![None; replay.calls.len()],
            op_at: vec![None; replay.ops.len()],
            engine_free: vec![i64::MIN; replay.n_engines],
            wanted: Vec::new(),
        }
    }

    fn call(&mut self, k: usize) -> (i64, i64) {
        let cost = self.replay.calls[k];
        let before = cost.after.and_then(|before| self.call_at[before as usize]);
        let gap = if self.prompt_calls[k] { cost.gap.min(0) } else { cost.gap };
        let begin = before.map_or(cost.gap, |before| sum(before.1, gap));
        self.call_at[k] = Some((begin, begin));
        let end = match (self.made[k], cost.waits_for) {
            (Made::NotAtAll, _) => begin,
            (Made::AsRecorded, Some(op)) => {
                let at = self.op(op);
                let until = if cost.for_start { at.0 } else { at.1 };
                sum(until, cost.tail).max(sum(begin, cost.own))
            }
            _ => sum(begin, cost.own),
        };
        self.call_at[k] = Some((begin, end));
        (begin, end)
    }

    /// The place of an operation: everything before it on its stream gets one first, and what these wait for.
    fn op(&mut self, op: u32) -> (i64, i64) {
        let mut wanted = op;
        loop {
            if let Some(at) = self.op_at[wanted as usize] {
                match self.wanted.pop() {
                    Some(next) => wanted = next,
                    None => return at,
                }
                continue;
            }
            let stream = self.streams[wanted as usize] as usize;
            let due = self.queues[stream][self.placed[stream]];
            // What is waited for began before, so this comes to an end.
            if let Some(on) = self.waits_for(due).filter(|on| self.op_at[*on as usize].is_none()) {
                self.wanted.push(wanted);
                wanted = on;
                continue;
            }
            self.placed[stream] += 1;
            self.place(due, stream);
        }
    }

    /// The operation on another stream whose end an operation waits for.
    fn waits_for(&self, op: u32) -> Option<u32> {
        if self.prompt_ops[op as usize] { None } else { self.replay.ops[op as usize].waits_for }
    }

    fn place(&mut self, op: u32, stream: usize) {
        let cost = self.replay.ops[op as usize];
        let before = self.last[stream];
        // A call that began after its operation, by the file's own times, launched it at no time that is known.
        let start = match (cost.call.and_then(|call| self.call_at[call as usize]), before) {
            (Some(call), before) => {
                let is_prompt = self.prompt_ops[op as usize];
                let launch = if is_prompt { cost.launch.min(self.replay.usual_launch) } else { cost.launch };
                let launched = sum(call.0, launch);
                let pause = match is_prompt {
                    true => cost.pause.min(0),
                    false if stream == cost.stream as usize => sum(cost.pause, cost.kept),
                    false => cost.pause,
                };
                let stream_free = before.map_or(i64::MIN, |before| sum(before.1, pause));
                let event = self.waits_for(op).and_then(|on| self.op_at[on as usize]);
                let event = event.map_or(i64::MIN, |at| sum(at.1, cost.lag));
                let engine = cost.engine.map_or(i64::MIN, |engine| self.engine_free[engine as usize]);
                launched.max(stream_free).max(event).max(engine)
            }
            // As far behind the operation before it as it was, be that one of its own stream or one moved here.
            (None, Some((before, _))) => {
                let at = self.op_at[before as usize].map_or(i64::MIN, |at| at.0);
                sum(at, cost.begin.saturating_sub(self.replay.ops[before as usize].begin))
            }
            (None, None) => cost.begin,
        };
        let dropped = cost.call.is_some_and(|call| self.made[call as usize] == Made::NotAtAll);
        let end = sum(start, if dropped { 0 } else { self.lengths[op as usize] });
        self.op_at[op as usize] = Some((start, end));
        self.last[stream] = Some((op, before.map_or(end, |before| before.1.max(end))));
        if let Some(engine) = cost.engine {
            let free = &mut self.engine_free[engine as usize];
            *free = (*free).max(end);
        }
    }
}

/// How many streams there are, with two more for each device.
fn n_queues(n_streams: usize, n_engines: usize) -> usize {
    n_streams + 2 * (n_engines / ENGINES as usize)
}

/// The operations of each stream.
fn queues(steps: &[Step], n_queues: usize, stream: impl Fn(u32) -> u32) -> Vec<Vec<u32>> {
    let mut queues = vec![Vec::new(); n_queues];
    for step in steps {
        if let Step::Op(k) = *step {
            queues[stream(k) as usize].push(k);
        }
    }
    queues
}

fn call_costs(recorded: &Recorded, steps: &[Step]) -> Vec<CallCost> {
    let Recorded { calls, ops, .. } = recorded;
    let mut waits: Vec<Option<(u32, bool)>> = vec![None; calls.len()];
    for (index, op) in (0..).zip(ops) {
        let Some(call) = op.call.map(|call| call as usize) else { continue };
        // It did not return before its operation began.
        if op.at.0 < calls[call].at.1 && waits[call].is_none() {
            waits[call] = Some((index, true));
        }
    }
    let synced = Synced::of(recorded, (0..).zip(ops).map(|(op, _)| op));
    for (waits, (k, call)) in waits.iter_mut().zip((0..).zip(calls)) {
        if waits.is_none() && call.syncs {
            *waits = synced.waits_for(k).map(|op| (op, false));
        }
    }
    let usual = usual_lengths(recorded, &waits);
    let n_rows = calls.iter().map(|call| call.row as usize + 1).max().unwrap_or(0);
    let mut last_of_row: Vec<Option<u32>> = vec![None; n_rows];
    let mut last_of_all: Option<u32> = None;
    let mut costs = vec![
        CallCost {
            after: None,
            gap: 0,
            own: 0,
            waits_for: None,
            for_start: false,
            tail: 0,
            is_behind: false
        };
        calls.len()
    ];
    for step in steps {
        let Step::Call(k) = *step else { continue };
        let call = calls[k as usize];
        let (start, end) = call.at;
        let end_of = |call: u32| calls[call as usize].at.1;
        let own = last_of_row[call.row as usize];
        let pauses = |call: u32| PAUSE_NS < start.saturating_sub(end_of(call));
        let after = match (own, last_of_all) {
            (Some(own), Some(any)) if pauses(own) && end_of(own) < end_of(any) && end_of(any) <= start => {
                Some(any)
            }
            (Some(own), _) => Some(own),
            (None, Some(any)) if end_of(any) <= start => Some(any),
            (None, _) => None,
        };
        let len = end.saturating_sub(start);
        let cost = &mut costs[k as usize];
        cost.after = after;
        cost.gap = after.map_or(start, |before| start.saturating_sub(end_of(before)));
        cost.own = len;
        if let Some((op, for_start)) = waits[k as usize] {
            let op_at = ops[op as usize].at;
            let until = if for_start { op_at.0 } else { op_at.1 };
            cost.waits_for = Some(op);
            cost.for_start = for_start;
            cost.is_behind = !for_start && own.is_some() && own == ops[op as usize].call;
            cost.tail = end.saturating_sub(until);
            let usual = usual.binary_search_by_key(&call.name, |of| of.0).map_or(0, |at| usual[at].1);
            cost.own = len.min(usual);
        }
        last_of_row[call.row as usize] = Some(k);
        if last_of_all.is_none_or(|any| end_of(any) <= end) {
            last_of_all = Some(k);
        }
    }
    costs
}

/// What calls of each name take that wait for nothing: their median, by name in order.
fn usual_lengths(recorded: &Recorded, waits: &[Option<(u32, bool)>]) -> Vec<(StrId, i64)> {
    let free = recorded.calls.iter().zip(waits).filter(|(_, waits)| waits.is_none());
    let mut lengths: BTreeMap<StrId, Vec<i64>> = BTreeMap::new();
    for (call, _) in free {
        lengths.entry(call.name).or_default().push(call.at.1.saturating_sub(call.at.0));
    }
    lengths.into_iter().map(|(name, mut list)| (name, median(&mut list))).collect_vec()
}

fn median(list: &mut [i64]) -> i64 {
    if list.is_empty() {
        return 0;
    }
    list.sort_unstable();
    list[list.len() / 2]
}

/// The operations' costs, and how long a launch takes.
fn op_costs(recorded: &Recorded, steps: &[Step]) -> (Vec<OpCost>, i64) {
    let Recorded { calls, ops, .. } = recorded;
    let mut last_of_stream: Vec<Option<(i64, i64)>> = vec![None; recorded.n_streams];
    // Where the operation before had ended when this one was launched, the delay is the launch's own; where this one could
    // have begun before that end, the pause between both is the stream's own.
    let (mut launches, mut waited, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
    let mut befores: Vec<Option<(i64, i64)>> = vec![None; ops.len()];
    let mut engine_free = vec![i64::MIN; recorded.n_engines];
    let mut engine_befores = vec![i64::MIN; ops.len()];
    for step in steps {
        let Step::Op(k) = *step else { continue };
        let op = &ops[k as usize];
        let (start, end) = op.at;
        let before = last_of_stream[op.stream as usize];
        befores[k as usize] = before;
        if let Some(call) = op.call {
            let launched = calls[call as usize].at.0;
            match before {
                Some((_, free)) if launched < free => waited.push((launched, free, start)),
                _ => launches.push(start.saturating_sub(launched)),
            }
        }
        last_of_stream[op.stream as usize] = Some((start, before.map_or(end, |before| before.1.max(end))));
        if let Some(engine) = op.engine {
            let free = &mut engine_free[engine as usize];
            engine_befores[k as usize] = *free;
            *free = (*free).max(end);
        }
    }
    let launch = median(&mut launches);
    for (launched, free, start) in waited {
        if sum(launched, launch) <= free && free <= start {
            pauses.push(start.saturating_sub(free));
        }
    }
    let pause = median(&mut pauses);
    let launched = |op: &Op| op.call.map(|call| calls[call as usize].at.0);
    // When each could have begun but for other streams.
    let ready = |(k, op): (usize, &Op)| {
        let usual = |from: i64, takes: i64| sum(from, takes.min(op.at.0.saturating_sub(from)));
        let free = befores[k].map_or(i64::MIN, |before| usual(before.1, pause));
        Some(usual(launched(op)?, launch).max(free).max(engine_befores[k]))
    };
    let ready: Vec<Option<i64>> = ops.iter().enumerate().map(ready).collect_vec();
    let held = if recorded.waits.is_empty() { held(recorded, &ready) } else { vec![None; ops.len()] };
    let cost = |(k, op): (usize, &Op)| {
        let (before, held, ready) = (befores[k], held[k], ready[k]);
        let (start, end) = op.at;
        let launched = launched(op);
        let delay = launched.map_or(launch, |launched| start.saturating_sub(launched));
        let free = before.map_or(i64::MIN, |before| before.1);
        // Launched when the operation before it was nearly over, it shows its launch too.
        let idle = launched.is_none_or(|launched| free < sum(launched, launch.max(1)));
        let late = ready.map_or(0, |ready| start.saturating_sub(ready));
        OpCost {
            call: op.call,
            // An idle stream shows the launch itself; a busy one hides it, and so does what held it up.
            launch: if idle && held.is_none() { delay } else { launch.min(delay) },
            stream: op.stream,
            engine: op.engine,
            len: end.saturating_sub(start),
            begin: start,
            waits_for: held.map(|held| held.on),
            lag: held.map_or(0, |held| held.lag),
            // Operations that overlapped on their stream may do so again.
            pause: if idle { 0 } else { pause.min(start.saturating_sub(free)) },
            kept: if idle || held.is_some() || late < LEAST_LATE_NS { 0 } else { late },
        }
    };
    (ops.iter().enumerate().map(cost).collect_vec(), launch)
}
