//! The closed form of each way, and the rules that exclude it.

use crate::machine::Rate;
use crate::ordered::CollectVec;
use crate::units::{Bytes, Nanos};

use super::lanes::Lanes;
use super::list::listed;
use super::{Calibration, Candidate, Caps, Cut, HostMemory, Request, Route, SLOTS, Term, Way};

/// Bytes of a chunk, at least and at most.
const CHUNK: (u64, u64) = (256 << 10, 4 << 20);
/// So many chunks each thread has of what is large, so that the link begins early; but not for smaller chunks than this, of which
/// each has two: what one costs is seen.
const PARTS: (u64, u64) = (6, 1 << 20);
/// Inline transfers are at most this large, whatever the figures say: the caller does not wait for long copies.
const INLINE: u64 = 4 << 20;
/// The mean size from which tensors are copied one by one out of a ring.
const SMALL: u64 = 64 << 10;
/// Pieces that a kernel reads best over the link.
const MAPPED: (u64, u64) = (28 << 10, 64);

/// What a way would take with each set of parameters that is worth a look, or the rule that excludes it.
pub(super) fn candidates(
    way: Way,
    request: &Request,
    of: &Calibration,
    caps: &Caps,
) -> Result<Vec<Candidate>, &'static str> {
    let form = Form { request, of, caps };
    form.refusal(way).map_or(Ok(()), Err)?;
    Ok(match way {
        Way::Direct => vec![form.direct()],
        Way::Inline => vec![form.inline()],
        Way::Ring | Way::Coalesce | Way::Drain => form.workers().map(|w| form.staged(way, w)).collect_vec(),
        Way::Register => vec![form.register()],
        Way::Mapped => vec![form.mapped()],
        Way::Batch => vec![form.batch()],
        Way::Device => vec![form.device()],
        Way::Driver => vec![form.driver()],
    })
}

/// Bytes that are copied at a time, at most, when `workers` share `total`; no more than a slot has.
pub(super) fn chunk(total: Bytes, workers: u32, caps: &Caps) -> Bytes {
    let workers = u64::from(workers.max(1));
    let part = |of_each: u64| total.0.div_ceil(of_each.saturating_mul(workers));
    let chunk = part(PARTS.0).max(part(2).min(PARTS.1)).clamp(CHUNK.0, CHUNK.1);
    Bytes(chunk.next_multiple_of(4096).min(caps.slot().0))
}

struct Form<'a> {
    request: &'a Request,
    of: &'a Calibration,
    caps: &'a Caps,
}

impl Form<'_> {
    /// The rule that excludes a way.
    fn refusal(&self, way: Way) -> Option<&'static str> {
        use HostMemory::{File, Fresh, Pinned};
        let Request { route, host, .. } = *self.request;
        let between = matches!(route, Route::Within | Route::Peer);
        if between != (way == Way::Device) {
            return Some(if between {
                "no memory of the host takes part"
            } else {
                "memory of the host takes part"
            });
        }
        let is_staged = matches!(way, Way::Inline | Way::Ring | Way::Coalesce | Way::Drain);
        let fewest = chunk(self.request.bytes, 1, self.caps).0;
        let (is_locked, mean) = (host == Pinned, self.request.mean());
        let rules: &[(bool, &'static str)] = match way {
            Way::Direct => &[(!is_locked, "the host's memory is not page-locked")],
            Way::Driver => &[
                (is_locked, "the host's memory is page-locked"),
                // Without slots whoever asks has to read it into memory of its own, and then this is the one way left.
                (host == File && fewest > 0, "a mapped file is never the source of a direct copy"),
            ],
            Way::Inline => &[
                (route != Route::Up, "it goes to the host"),
                (self.request.tensors > 1, "there are several tensors"),
                (self.request.bytes.0 > INLINE, "it is larger than 4 MiB"),
                (self.request.bytes > self.caps.slot(), "no slot is large enough"),
            ],
            Way::Ring => &[(route != Route::Up, "it goes to the host")],
            Way::Coalesce => &[
                (route != Route::Up, "it goes to the host"),
                (self.request.tensors < 2, "there is one tensor"),
                (!self.request.views, "the results are no views of one block"),
                (mean >= SMALL && is_locked, "the tensors are large and page-locked"),
            ],
            Way::Drain => &[(route != Route::Down, "it goes to a device")],
            Way::Register => &[
                (is_locked, "the host's memory is page-locked"),
                (
                    matches!(host, File | Fresh),
                    "only memory that is in use and no file's is page-locked in place",
                ),
                (self.request.uses.is_none(), "nobody said that the memory is used again"),
                (!self.caps.register, "the engine does not page-lock in place"),
            ],
            Way::Mapped => &[
                (!is_locked, "the host's memory is not page-locked"),
                (route != Route::Up, "it goes to the host"),
                (mean >= MAPPED.0, "the pieces are not small"),
                (self.request.tensors < MAPPED.1, "the pieces are few"),
                (!self.caps.mapped, "the engine has no kernel for it"),
            ],
            Way::Batch => &[
                (!is_locked, "the host's memory is not page-locked"),
                (self.request.tensors < 2, "there is one tensor"),
                (mean < SMALL, "the pieces are small"),
                (!self.caps.batch, "the engine makes no such call"),
                (self.of.machine().batch_bw.0 == 0, "the driver has no such call"),
            ],
            Way::Device => &[],
        };
        let staged = [
            (is_staged && fewest == 0, "nothing could be page-locked for slots"),
            (is_staged && is_locked && way != Way::Coalesce, "the host's memory is page-locked"),
            (way == Way::Inline && host == Fresh && route == Route::Up, "the memory was never written"),
        ];
        rules.iter().chain(&staged).find(|rule| rule.0).map(|rule| rule.1)
    }

    /// Numbers of threads that are tried: one where there is one chunk, however many there are.
    fn workers(&self) -> impl Iterator<Item = u32> + use<> {
        let all = self.caps.workers.max(1);
        let is_one =
            self.tensors() == 1 && self.request.bytes.0 <= CHUNK.0.min(self.caps.slot().0) / u64::from(all);
        1..=if is_one { 1 } else { all }
    }

    fn link(&self) -> Rate {
        self.of.link(self.request.route, self.request.both_ways)
    }

    /// At least one.
    fn tensors(&self) -> u64 {
        self.request.tensors.max(1)
    }

    /// `k` asynchronous copies on one stream at `rate`, and the wait for the last: the engine starts on each anew, and the
    /// longer of a call and a copy is what is seen of all but one of them.
    fn queued(&self, rate: Rate) -> Vec<Term> {
        let machine = self.of.machine();
        let (k, bytes) = (self.tensors(), self.request.bytes);
        let (call, lat) = (machine.call_memcpy_async, machine.lat);
        let each = sum([rate.time(Bytes(bytes.0 / k)), lat]);
        let (n_calls, n_copies) = if each < call { (k, 1) } else { (1, k) };
        let link = rate.time(Bytes(if n_copies == k { bytes.0 } else { bytes.0 / k }));
        let latency = sum([times(lat.0, n_copies), machine.sync_return]);
        vec![term("calls", times(call.0, n_calls)), term("latency", latency), term("link", link)]
    }

    fn direct(&self) -> Candidate {
        let cpu = times(self.of.machine().call_memcpy_async.0, self.request.tensors);
        plain(Way::Direct, self.queued(self.link()), cpu)
    }

    fn inline(&self) -> Candidate {
        let copy = self.core(self.request.bytes.0).time(self.request.bytes);
        let mut terms = self.queued(self.link());
        let cpu = sum([terms[0].ns, copy]);
        terms.push(term("host copy", copy));
        let chunk = Bytes(self.request.bytes.0.max(1).next_multiple_of(4096));
        Candidate { workers: 1, slots: 1, chunk, ..plain(Way::Inline, terms, cpu) }
    }

    /// A core's rate beside so many bytes of slots, which lie in the cache too; what a device has just written lies in none, and page
    /// faults bound writes to fresh memory.
    fn core(&self, slots: u64) -> Rate {
        let machine = self.of.machine();
        match (self.request.route, self.request.host) {
            (Route::Down, HostMemory::Fresh) => machine.host_memcpy_cold_bw.min(machine.host_fault_bw),
            (Route::Down, _) => machine.host_memcpy_cold_bw,
            _ => self.of.core(Bytes(self.request.bytes.0.saturating_add(slots))),
        }
    }

    /// The processor's own time for many tensors.
    fn gathers(&self) -> Nanos {
        match self.tensors() {
            1 => Nanos::ZERO,
            k => times(self.of.machine().gather_per_tensor.0, k),
        }
    }

    /// Threads that copy into or out of slots, in rounds of a chunk each, beside the link.
    fn staged(&self, way: Way, workers: u32) -> Candidate {
        let (machine, bytes) = (self.of.machine(), self.request.bytes.0);
        let chunk = chunk(Bytes(bytes), workers, self.caps);
        // Tensors that are not gathered have chunks of their own.
        let k = if way == Way::Ring { self.tensors() } else { 1 };
        let of_each = (bytes / k).div_ceil(chunk.0.max(1)).max(1);
        let piece = if k == 1 { chunk.0 } else { bytes.div_ceil(of_each.saturating_mul(k)) };
        let cut = Cut::new(chunk, workers).capped(piece);
        let n_chunks = cut.count(bytes).max(1);
        let busy = u64::from(workers).min(n_chunks);
        let n_rounds = n_chunks.div_ceil(busy);
        let gathers = if way == Way::Ring { Nanos::ZERO } else { self.gathers() };
        let slots = u64::from(SLOTS).min(n_rounds) * busy;
        let (is_down, core) = (way == Way::Drain, self.core(slots.saturating_mul(piece.min(bytes))));
        let (record, wait) = (machine.call_event_record.0, machine.call_stream_wait.0);
        let call = machine.call_memcpy_async.0.saturating_add(record);
        // A slot's copy is waited for before the processor has the slot again; on the way down, before it has it at all, and the
        // first copies are called for before any of them is.
        let is_again = n_rounds > u64::from(SLOTS);
        let called = if is_down && !is_again { 0 } else { call };
        let waited = if is_down || is_again { machine.sync_return.0 } else { 0 };
        let gather = gathers.0 / i64::try_from(n_chunks).unwrap_or(i64::MAX);
        let lanes = Lanes {
            cut,
            bytes,
            n: n_chunks,
            busy,
            core: core.min(Rate((machine.host_memcpy_cap_bw.0 / busy).max(1))),
            calls: sum([called, waited, gather].map(Nanos)),
            link: self.link(),
            lat: machine.lat,
            interference: machine.dma_interference,
            is_down,
        };
        let waits = times(wait, busy);
        let wake = if workers > 1 { machine.thread_wake } else { Nanos::ZERO };
        let mut terms = vec![term("wake", wake)];
        if is_down {
            let ahead = times(call, u64::from(SLOTS).min(n_rounds));
            let ahead = beyond(ahead, sum([machine.call_memcpy_async, lanes.round()]));
            let start = sum([Nanos(record), Nanos(wait), machine.call_memcpy_async, ahead]);
            terms.extend([term("start", start), term("end", sum([Nanos(record), waits]))]);
        } else {
            // While the link has the last chunks.
            let end = term("end", beyond(sum([Nanos(record), waits]), lanes.last()));
            terms.extend([term("start", sum([Nanos(record), Nanos(wait)])), end]);
            terms.push(term("latency", machine.sync_return));
        }
        terms.extend(lanes.terms());
        // Threads that were woken spin while they wait.
        let calls = times(call, n_chunks);
        let cpu = sum([core.time(Bytes(bytes)), calls, gathers, times(wake.0, u64::from(workers))]);
        Candidate { workers, slots: SLOTS, chunk, ..plain(way, terms, cpu) }
    }

    fn register(&self) -> Candidate {
        let machine = self.of.machine();
        let uses = i64::from(self.request.uses.unwrap_or(1).max(1));
        // Locked once and unlocked once; each use has its share.
        let pages = self.request.bytes.0.div_ceil(4096).saturating_mul(2);
        let lock = Nanos(times(machine.host_register_per_4k.0, pages).0 / uses);
        let mut terms = self.queued(self.link());
        terms.push(term("page-locking", lock));
        let cpu = sum([lock, times(machine.call_memcpy_async.0, self.request.tensors)]);
        plain(Way::Register, terms, cpu)
    }

    fn mapped(&self) -> Candidate {
        let machine = self.of.machine();
        let read = machine.mapped_read_bw.min(self.link()).time(self.request.bytes);
        let start = sum([machine.call_launch, machine.kernel_start_gap, machine.sync_return]);
        plain(Way::Mapped, vec![term("launch", start), term("mapped read", read)], machine.call_launch)
    }

    fn batch(&self) -> Candidate {
        let machine = self.of.machine();
        let call = term("calls", machine.call_memcpy_async);
        let latency = term("latency", sum([machine.lat, machine.sync_return]));
        let pieces = times(machine.batch_per_copy.0, self.request.tensors);
        let link = machine.batch_bw.min(self.link()).time(self.request.bytes);
        let cpu = sum([call.ns, pieces]);
        plain(Way::Batch, vec![call, latency, term("pieces", beyond(pieces, link)), term("link", link)], cpu)
    }

    fn device(&self) -> Candidate {
        let machine = self.of.machine();
        if self.request.route == Route::Peer && (!self.caps.peer || machine.p2p_bw.0 == 0) {
            return self.hops();
        }
        if let Some(listed) = listed(self.request, self.of, self.caps) {
            return listed;
        }
        let cpu = times(machine.call_memcpy_async.0, self.request.tensors);
        plain(Way::Device, self.queued(self.link()), cpu)
    }

    /// To another device through the slots of one thread.
    fn hops(&self) -> Candidate {
        let (machine, bytes) = (self.of.machine(), self.request.bytes.0);
        let chunk = chunk(Bytes(bytes), 1, self.caps);
        let n_chunks = bytes.div_ceil(chunk.0.max(1)).max(1);
        let hop = |rate: Rate, bytes: u64| sum([rate.time(Bytes(bytes)), machine.lat]);
        let piece = chunk.0.min(bytes);
        let last = bytes.saturating_sub((n_chunks - 1).saturating_mul(piece));
        let two = |rate| (hop(rate, piece), hop(rate, last));
        let ((down, last_down), (up, last_up)) = (two(machine.d2h_bw), two(machine.h2d_bw));
        let hops = pipelined(n_chunks, (down, last_down), (up, last_up));
        let waits = if n_chunks > u64::from(SLOTS) { machine.sync_return.0 } else { 0 };
        let [call, record, wait] =
            [machine.call_memcpy_async, machine.call_event_record, machine.call_stream_wait].map(|ns| ns.0);
        let each = times(call.saturating_add(record), 2).0.saturating_add(wait).saturating_add(waits);
        // The thread makes both calls of a chunk before those of the next, and the second hop of one begins with its own call.
        let onward = Nanos(record.saturating_add(wait).saturating_add(call));
        let called = sum([times(each, n_chunks - 1), last_down.max(onward), last_up]);
        let hops = sum([hops, beyond(onward, if n_chunks > 1 { down } else { last_down })]);
        let calls = beyond(called, hops);
        let around = times(record.saturating_add(wait), 2).0.saturating_add(call);
        // While the second hop of the last chunk goes on.
        let end = beyond(sum([times(record, 3), Nanos(wait)]), last_up);
        let terms = vec![
            term("calls", sum([Nanos(around), calls, end])),
            term("latency", machine.sync_return),
            term("two hops", hops),
        ];
        Candidate { slots: SLOTS, chunk, ..plain(Way::Device, terms, times(each, n_chunks)) }
    }

    /// The engine's own copy, for no device touches memory of the caller's, and what the driver does with that.
    fn driver(&self) -> Candidate {
        let (machine, route) = (self.of.machine(), self.request.route);
        let bytes = self.request.bytes;
        // Of tensors that become views of one block the copy is one.
        let k = if self.request.views { 1 } else { self.tensors() };
        let own = self.of.core(bytes).min(machine.host_fault_bw).time(bytes);
        let own = sum([own, self.gathers()]);
        let each = bytes.0 / k;
        let copy = if machine.pageable_direct {
            let rate = if route == Route::Down { machine.pageable_d2h_bw } else { machine.pageable_h2d_bw };
            sum([rate.time(Bytes(each)), machine.lat])
        } else {
            let is_inline = route == Route::Up && each <= machine.inline_h2d_bytes.0;
            let piece = if is_inline { each } else { each.min(machine.stage_chunk.0) };
            let cut = Cut::new(Bytes(piece), 1);
            let lanes = Lanes {
                cut,
                bytes: each,
                n: cut.count(each).max(1),
                busy: 1,
                core: self.of.staging(bytes),
                calls: Nanos::ZERO,
                link: self.link(),
                lat: machine.lat,
                interference: machine.dma_interference,
                is_down: route == Route::Down,
            };
            sum(lanes.terms().iter().map(|t| t.ns))
        };
        // A copy that the call itself waits for is waited for twice.
        let n_waits = if route == Route::Down || machine.pageable_direct { 2 } else { 1 };
        let calls = sum([machine.call_memcpy_async, times(machine.sync_return.0, n_waits)]);
        let calls = times(calls.0, k);
        let staging = times(copy.0, k);
        let terms = vec![term("own copy", own), term("calls", calls), term("driver's staging", staging)];
        plain(Way::Driver, terms, sum([own, calls, staging]))
    }
}

/// When the last of `n` rounds leaves the second of two stages that work side by side; each stage's time for one of the first
/// `n - 1` rounds, and for the last.
fn pipelined(n: u64, (a, last_a): (Nanos, Nanos), (b, last_b): (Nanos, Nanos)) -> Nanos {
    if n < 2 {
        return sum([last_a, last_b]);
    }
    let first_bound = sum([times(a.0, n - 1), last_a.max(b), last_b]);
    let second_bound = sum([a, times(b.0, n - 1), last_b]);
    first_bound.max(second_bound)
}

pub(super) fn term(name: &'static str, ns: Nanos) -> Term {
    Term { name, ns }
}

/// What is left of a time beside another that passes meanwhile.
pub(super) fn beyond(time: Nanos, beside: Nanos) -> Nanos {
    Nanos(time.0.saturating_sub(beside.0).max(0))
}

pub(super) fn sum(all: impl IntoIterator<Item = Nanos>) -> Nanos {
    Nanos(all.into_iter().fold(0, |sum, ns| sum.saturating_add(ns.0)))
}

pub(super) fn times(ns: i64, n: u64) -> Nanos {
    Nanos(ns.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX)))
}

pub(super) fn plain(way: Way, terms: Vec<Term>, cpu: Nanos) -> Candidate {
    let predicted = sum(terms.iter().map(|t| t.ns));
    Candidate { way, workers: 0, slots: 0, chunk: Bytes(0), predicted, terms, cpu }
}
