//! The closed form of each way, and the rules that exclude it.

use crate::machine::Rate;
use crate::units::{Bytes, Nanos};

use super::{Calibration, Candidate, Caps, HostMemory, Request, Route, SLOTS, Term, Way};

/// Bytes of a slot, at least and at most.
const CHUNK: (u64, u64) = (256 << 10, 4 << 20);
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
        Way::Ring | Way::Coalesce | Way::Drain => form.workers().map(|w| form.staged(way, w)).collect(),
        Way::Register => vec![form.register()],
        Way::Mapped => vec![form.mapped()],
        Way::Batch => vec![form.batch()],
        Way::Device => vec![form.device()],
        Way::Driver => vec![form.driver()],
    })
}

/// Bytes that are copied at a time when `workers` share `total`; no more than a slot has.
pub(super) fn chunk(total: Bytes, workers: u32, caps: &Caps) -> Bytes {
    let half = (total.0 / (2 * u64::from(workers.max(1)))).clamp(CHUNK.0, CHUNK.1);
    Bytes((half & !4095).min(caps.slot().0))
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
                (!self.caps.batch || self.of.machine().batch_bw.0 == 0, "the driver has no such call"),
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

    /// Numbers of threads that are tried.
    fn workers(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.caps.workers.max(1)
    }

    fn link(&self) -> Rate {
        self.of.link(self.request.route, self.request.both_ways)
    }

    /// The terms that every way with one call or more has.
    fn calls(&self, n: u64) -> [Term; 2] {
        let machine = self.of.machine();
        let calls = times(machine.call_memcpy_async.0, n);
        [term("calls", calls), term("latency", Nanos(machine.lat.0.saturating_add(machine.sync_return.0)))]
    }

    fn direct(&self) -> Candidate {
        let [calls, latency] = self.calls(self.request.tensors);
        // Calls and the link work side by side: the longer one is what is seen.
        let (link, cpu) = (self.link().time(self.request.bytes), calls.ns);
        let calls = hidden(calls, link);
        plain(Way::Direct, vec![calls, latency, term("link", link)], cpu)
    }

    fn inline(&self) -> Candidate {
        let [calls, latency] = self.calls(1);
        let copy = self.core().time(self.request.bytes);
        let terms =
            vec![calls, latency, term("host copy", copy), term("link", self.link().time(self.request.bytes))];
        let chunk = Bytes(self.request.bytes.0.max(1).next_multiple_of(4096));
        Candidate { workers: 1, slots: 1, chunk, ..plain(Way::Inline, terms, sum([calls.ns, copy])) }
    }

    /// A core's rate; page faults bound writes to fresh memory.
    fn core(&self) -> Rate {
        let core = self.of.core(self.request.bytes);
        match (self.request.host, self.request.route) {
            (HostMemory::Fresh, Route::Down) => core.min(self.of.machine().host_fault_bw),
            _ => core,
        }
    }

    /// Threads that copy into or out of slots beside the link: the slower of the two is seen, and the other one's chunk at
    /// the end of the pipeline.
    fn staged(&self, way: Way, workers: u32) -> Candidate {
        let (machine, bytes) = (self.of.machine(), self.request.bytes);
        let chunk = chunk(bytes, workers, self.caps);
        let n_chunks = bytes.0.div_ceil(chunk.0.max(1)).max(1);
        // Tensors that are not gathered have chunks of their own.
        let n_chunks = if way == Way::Coalesce { n_chunks } else { n_chunks.max(self.request.tensors) };
        let busy = u64::from(workers).min(n_chunks);
        let core = self.core();
        // Chunks are whole: one thread may have one more than the others.
        let most = Bytes(n_chunks.div_ceil(busy).saturating_mul(chunk.0).min(bytes.0));
        let copies = core.time(most).max(machine.host_memcpy_cap_bw.time(bytes));
        let per_call = machine.call_memcpy_async.0.saturating_add(machine.call_event_record.0);
        let calls = times(per_call, n_chunks);
        let gathers = match way {
            Way::Coalesce => times(machine.gather_per_tensor.0, self.request.tensors),
            _ => Nanos::ZERO,
        };
        let share = |ns: Nanos| Nanos(ns.0 / i64::try_from(busy).unwrap_or(i64::MAX));
        let host = [term("host copy", copies), term("calls", share(calls)), term("gather", share(gathers))];
        // The engine starts on every chunk anew.
        let link = sum([self.link().time(bytes), times(machine.lat.0, n_chunks - 1)]);
        let last = Bytes(chunk.0.min(bytes.0));
        let wake = if workers > 1 { machine.thread_wake } else { Nanos::ZERO };
        let mut terms = vec![term("wake", wake), self.calls(0)[1]];
        if link.0 < sum(host.map(|t| t.ns)).0 {
            terms.extend(host);
            terms.push(term("last chunk", self.link().time(last)));
        } else {
            terms.push(term("link", link));
            terms.push(term("first chunk", core.time(last)));
        }
        // Threads that were woken spin while they wait.
        let cpu = sum([core.time(bytes), calls, gathers, times(wake.0, u64::from(workers))]);
        Candidate { workers, slots: SLOTS, chunk, ..plain(way, terms, cpu) }
    }

    fn register(&self) -> Candidate {
        let machine = self.of.machine();
        let uses = i64::from(self.request.uses.unwrap_or(1).max(1));
        // Locked once and unlocked once; each use has its share.
        let pages = self.request.bytes.0.div_ceil(4096).saturating_mul(2);
        let lock = Nanos(times(machine.host_register_per_4k.0, pages).0 / uses);
        let [calls, latency] = self.calls(self.request.tensors);
        let link = self.link().time(self.request.bytes);
        let cpu = sum([lock, calls.ns]);
        let terms = vec![hidden(calls, link), latency, term("page-locking", lock), term("link", link)];
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
        let [call, latency] = self.calls(1);
        let pieces = times(machine.batch_per_copy.0, self.request.tensors);
        let link = machine.batch_bw.min(self.link()).time(self.request.bytes);
        let cpu = sum([call.ns, pieces]);
        plain(Way::Batch, vec![call, latency, hidden(term("pieces", pieces), link), term("link", link)], cpu)
    }

    fn device(&self) -> Candidate {
        let machine = self.of.machine();
        let [calls, latency] = self.calls(self.request.tensors);
        let cpu = calls.ns;
        if self.request.route == Route::Peer && (!self.caps.peer || machine.p2p_bw.0 == 0) {
            let slowest = machine.h2d_bw.min(machine.d2h_bw);
            let chunk = chunk(self.request.bytes, 1, self.caps);
            let hops = slowest.time(self.request.bytes);
            let first = slowest.time(Bytes(chunk.0.min(self.request.bytes.0)));
            let terms =
                vec![hidden(calls, hops), latency, term("two hops", hops), term("first chunk", first)];
            return Candidate { slots: SLOTS, chunk, ..plain(Way::Device, terms, cpu) };
        }
        let link = self.link().time(self.request.bytes);
        plain(Way::Device, vec![hidden(calls, link), latency, term("link", link)], cpu)
    }

    fn driver(&self) -> Candidate {
        let machine = self.of.machine();
        let each = machine.call_memcpy_async.0.saturating_add(machine.sync_return.0);
        let calls = times(each, self.request.tensors);
        let mut staged = self.of.driver(self.request.bytes, self.request.route);
        if (self.request.host, self.request.route) == (HostMemory::Fresh, Route::Down) {
            staged = staged.min(machine.host_fault_bw);
        }
        let copy = staged.time(self.request.bytes);
        let terms = vec![term("calls", calls), term("latency", machine.lat), term("driver's staging", copy)];
        plain(Way::Driver, terms, sum([calls, copy]))
    }
}

fn term(name: &'static str, ns: Nanos) -> Term {
    Term { name, ns }
}

/// What is left of a term beside work of this length that goes on at the same time.
fn hidden(term: Term, beside: Nanos) -> Term {
    Term { ns: Nanos((term.ns.0 - beside.0).max(0)), ..term }
}

fn sum(all: impl IntoIterator<Item = Nanos>) -> Nanos {
    Nanos(all.into_iter().fold(0, |sum, ns| sum.saturating_add(ns.0)))
}

fn times(ns: i64, n: u64) -> Nanos {
    Nanos(ns.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX)))
}

fn plain(way: Way, terms: Vec<Term>, cpu: Nanos) -> Candidate {
    let predicted = sum(terms.iter().map(|t| t.ns));
    Candidate { way, workers: 0, slots: 0, chunk: Bytes(0), predicted, terms, cpu }
}
