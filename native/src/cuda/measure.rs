//! What a device and its link cost, as a machine profile that the simulator reads.
//!
//! Times are those of the host's clock around work that was enqueued as a whole and waited for, the least of some rounds.
//! Rates and the latency come from a straight line through sizes, `t = lat + n / rate`, weighted so that relative errors
//! count alike; how far each size lies off its line is told beside it. What cannot be measured without a framework is
//! left out: the profile's note says whose figures hold for it. What threads do in caches is left out where the times do not
//! show it: the profile says why.

mod caches;

use std::thread::Builder;
use std::time::Instant;

use serde_json::{Map, Value, json};
use spanlift::memory::Dtype;
use spanlift::program::{Compute, StreamKind};

use super::context::Context;
use super::error::CudaError;
use super::memory::{DeviceBlock, HostBlock};
use super::place::Place;
use super::run::Kernels;
use super::stream::{Event, Stream, Timing};
use caches::Gate;

/// Rounds of which the least counts.
const ROUNDS: usize = 5;
/// Rounds of what runs through the host's memory, of which the middle one counts: how fast that is changes from one to the next,
/// and programs meet all of it. Each reads another part, so that none of it is in a cache.
const PARTS: usize = 9;
/// Threads that copy side by side at most.
const THREADS: usize = 16;
/// Calls of one round for what a call costs.
const CALLS: usize = 64;
/// Bytes of a copy that takes hardly longer than one of nothing; no measurement has smaller blocks.
const SMALL: usize = 4 << 10;
/// `CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT`
const ENGINES: i32 = 40;

/// Why nothing could be measured.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The driver did not do what it was asked.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The host has not as much memory as copies of these sizes take.
    #[error(
        "{needed} bytes more of the host's memory are needed, and it has not as many: smaller copies take less"
    )]
    OutOfHostMemory {
        /// What was asked for.
        needed: usize,
    },
    /// Larger copies did not take longer.
    #[error("the times of {0} do not grow with the sizes: nothing can be said of the rate")]
    Rate(&'static str),
}

readable!(MeasureError);

/// A straight line through times of sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Where it begins, in nanoseconds; at least 0.
    pub latency_ns: f64,
    /// Its slope as a rate, in bytes per nanosecond (GB/s).
    pub rate: f64,
    /// Size in bytes, time in nanoseconds, and how far the line lies off it, relative to the time.
    pub points: Vec<(usize, f64, f64)>,
}

impl Line {
    /// The line with the least sum of squared relative errors; `None` where the times do not grow.
    ///
    /// With `u = 1 / t`, `v = n / t` that is least squares of `1 = lat u + v / rate`.
    ///
    /// ```
    /// use spanlift_native::cuda::Line;
    /// let line = Line::through(&[(1000, 600.0), (2000, 1100.0), (4000, 2100.0)]).ok_or("no line")?;
    /// assert!((line.latency_ns - 100.0).abs() < 1e-6 && (line.rate - 2.0).abs() < 1e-9);
    /// assert!(Line::through(&[(1000, 5.0), (2000, 5.0)]).is_none_or(|line| line.rate > 1e9));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn through(points: &[(usize, f64)]) -> Option<Line> {
        let sum =
            |f: fn(f64, f64) -> f64| -> f64 { points.iter().map(|&(n, t)| f(1.0 / t, n as f64 / t)).sum() };
        let (uu, uv, vv) = (sum(|u, _| u * u), sum(|u, v| u * v), sum(|_, v| v * v));
        let (u, v) = (sum(|u, _| u), sum(|_, v| v));
        let determinant = uu * vv - uv * uv;
        let mut latency_ns = (u * vv - v * uv) / determinant;
        let mut slope = (v * uu - u * uv) / determinant;
        if latency_ns < 0.0 {
            // Through the origin instead: no copy begins before it is asked for.
            (latency_ns, slope) = (0.0, v / vv);
        }
        let is_line = latency_ns.is_finite() && slope.is_finite() && slope > 0.0;
        let off = |n: usize, t: f64| (latency_ns + n as f64 * slope) / t - 1.0;
        let points = points.iter().map(|&(n, t)| (n, t, off(n, t))).collect();
        is_line.then_some(Line { latency_ns, rate: 1.0 / slope, points })
    }

    /// The largest relative distance of a point.
    pub fn worst(&self) -> f64 {
        self.points.iter().map(|point| point.2.abs()).fold(0.0, f64::max)
    }
}

/// A profile being filled.
struct Profile {
    figures: Map<String, Value>,
    conf: Map<String, Value>,
    lines: Map<String, Value>,
}

impl Profile {
    fn put(&mut self, name: &str, value: f64, how: &str) {
        self.figures.insert(name.to_owned(), json!(value));
        self.conf.insert(name.to_owned(), json!(format!("M {how}")));
    }

    fn line(&mut self, name: &str, line: &Line) {
        let points = line.points.iter().map(|(n, t, off)| json!({"bytes": n, "ns": t, "residual": off}));
        self.points(name, line.worst(), points.collect());
    }

    fn points(&mut self, name: &str, worst: f64, points: Vec<Value>) {
        self.lines.insert(name.to_owned(), json!({"worst_residual": worst, "points": points}));
    }

    /// Notes why a figure is not there, so that what is assumed holds, and what was measured of it.
    fn left_out(&mut self, name: &str, why: &str, points: Vec<Value>) {
        self.lines.insert(name.to_owned(), json!({"left_out": why, "points": points}));
    }
}

/// Measures a device with copies of up to `largest` bytes and gives the profile as JSON, for
/// [`Machine::from_json`](spanlift::machine::Machine::from_json); fields that are no figures (`fit`) are the residuals, and why a
/// figure is left out where its times say nothing of it.
///
/// # Errors
/// [`MeasureError`].
///
/// # Cost
/// Page-locked memory of twice `largest`, as much of the device, nine times as much that is not page-locked, and some fifty
/// copies of that size; with 64 MiB somewhat more than a second.
pub fn measure(context: &Context, name: &str, largest: usize) -> Result<Value, MeasureError> {
    let mut profile = Profile { figures: Map::new(), conf: Map::new(), lines: Map::new() };
    let bench = Bench::new(context, largest.max(4 * SMALL))?;
    let call = bench.calls(&mut profile)?;
    bench.links(&mut profile, call)?;
    let cap = bench.pageable(&mut profile)?;
    bench.caches(&mut profile, cap)?;
    bench.locking(&mut profile)?;
    if let Some(engines) = context.driver().attribute(context.ordinal(), ENGINES).filter(|n| *n > 0) {
        profile.put("copy_engines", f64::from(engines), "told by the driver");
        profile.figures.insert("copy_engines".to_owned(), json!(engines));
    }
    if let Some(cores) = crate::host::read().physical_cores {
        profile.figures.insert("framework_copy_threads".to_owned(), json!(cores));
        let how = "D the system's cores, which is as many threads as PyTorch takes by itself";
        profile.conf.insert("framework_copy_threads".to_owned(), json!(how));
    }
    let Profile { mut figures, conf, lines } = profile;
    figures.insert("name".to_owned(), json!(name));
    let version = context.driver().version();
    let note = format!(
        "Measured by `spanlift probe --measure` on this machine, driver for CUDA {version}. A framework's own times \
         (framework_to_overhead, td_leaf_overhead, pin_overhead) are not, which takes `--framework PYTHON`: those of the tutorial's \
         machine hold, which were fitted to its 16 rows. That a framework copies on framework_copy_threads threads is its \
         own choice where nobody makes another."
    );
    figures.insert("note".to_owned(), json!(note));
    figures.insert("conf".to_owned(), Value::Object(conf));
    figures.insert("fit".to_owned(), Value::Object(lines));
    Ok(Value::Object(figures))
}

/// Bytes that are written, so that their pages are there.
fn filled(needed: usize) -> Result<Vec<u8>, MeasureError> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(needed).map_err(|_| MeasureError::OutOfHostMemory { needed })?;
    bytes.resize(needed, 1);
    Ok(bytes)
}

/// GB/s of threads that each copy a range of their own out of these, beginning together, and how many there were: the system may
/// have no more of them.
fn side_by_side(
    parts: &[Vec<u8>],
    threads: usize,
    builder: impl Fn(usize) -> Builder,
) -> Result<(f64, usize), MeasureError> {
    let gate = Gate::new(threads);
    let one = |k: usize| {
        let from = &parts[k % parts.len()];
        // Each thread's own stretch: what another one reads is in a cache for both.
        let n = from.len() / threads.div_ceil(parts.len());
        let at = k / parts.len() * n;
        let to = filled(n);
        // Also who has nothing to copy to: the others wait for all.
        gate.pass(0);
        let mut to = to?;
        let begun = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from[at..at + n]));
        std::hint::black_box(&mut to);
        Ok::<f64, MeasureError>(n as f64 / begun.elapsed().as_nanos().max(1) as f64)
    };
    let one = &one;
    std::thread::scope(|scope| {
        let begun = (0..threads).map_while(|k| builder(k).spawn_scoped(scope, move || one(k)).ok());
        let copying: Vec<_> = begun.collect();
        let n_begun = copying.len();
        if n_begun < threads {
            gate.open();
        }
        let rates = copying.into_iter().map(|thread| thread.join().unwrap_or(Ok(0.0)));
        Ok((rates.sum::<Result<f64, MeasureError>>()?, n_begun))
    })
}

/// What is measured with.
struct Bench {
    context: Context,
    streams: [Stream; 2],
    device: [DeviceBlock; 2],
    largest: usize,
}

/// The least time of some rounds, in nanoseconds, at least 1.
fn least<R>(mut round: impl FnMut() -> Result<R, CudaError>) -> Result<f64, CudaError> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        round()?;
        best = best.min(begun.elapsed().as_nanos() as f64);
    }
    Ok(best.max(1.0))
}

/// The middle of as many rounds as there are parts, in nanoseconds, at least 1; each is told which part is its own.
fn middle(mut round: impl FnMut(usize) -> Result<(), CudaError>) -> Result<f64, CudaError> {
    let mut times = Vec::new();
    for part in 0..PARTS {
        let begun = Instant::now();
        round(part)?;
        times.push(begun.elapsed().as_nanos() as f64);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[PARTS / 2].max(1.0))
}

impl Bench {
    fn new(context: &Context, largest: usize) -> Result<Bench, CudaError> {
        let stream = || Stream::new(context, StreamKind::NonBlocking);
        let block = || DeviceBlock::new(context, largest);
        let (streams, device) = ([stream()?, stream()?], [block()?, block()?]);
        Ok(Bench { context: context.clone(), streams, device, largest })
    }

    /// From a 64th of the largest size up, in steps of 4.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let largest = self.largest;
        (0..4).rev().map(move |k| largest >> (2 * k))
    }

    /// Rates, latency, and what a host that waits for a copy needs to come back; `call` is what the call of a copy takes, in
    /// nanoseconds.
    fn links(&self, profile: &mut Profile, call: f64) -> Result<(), MeasureError> {
        let [s, t] = &self.streams;
        let [a, b] = &self.device;
        let mut up = HostBlock::new(&self.context, self.largest)?;
        let mut down = HostBlock::new(&self.context, self.largest)?;
        up.settle_and_fill(1)?;
        let mut directions = Vec::new();
        for (is_up, name, figure) in
            [(true, "copies to the device", "h2d_bw"), (false, "copies to the host", "d2h_bw")]
        {
            let mut points = Vec::new();
            for n in self.sizes() {
                let times = 4;
                let host = if is_up { &mut up } else { &mut down };
                let ns = least(|| Stream::copies_and_wait(&mut [(s, a, &mut *host, !is_up)], n, times))?;
                points.push((n, ns / times as f64));
            }
            let line = Line::through(&points).ok_or(MeasureError::Rate(name))?;
            let how =
                format!("line through {} sizes, worst residual {:.1} %", points.len(), 100.0 * line.worst());
            profile.put(figure, line.rate, &how);
            if is_up {
                profile.put("lat", line.latency_ns / 1e3, &how);
                let alone = least(|| Stream::copies_and_wait(&mut [(s, a, &mut up, false)], SMALL, 1))?;
                let back = (alone - call - line.latency_ns - SMALL as f64 / line.rate).max(0.0);
                profile.put(
                    "sync_return",
                    back / 1e3,
                    "a copy of 4 KiB alone, without its call, latency and bytes",
                );
            }
            profile.line(figure, &line);
            directions.push(points.last().map_or(1.0, |point| point.1));
        }
        let both = least(|| {
            Stream::copies_and_wait(&mut [(s, a, &mut up, false), (t, b, &mut down, true)], self.largest, 4)
        })? / 4.0;
        for (figure, alone) in ["bidir_factor_h2d", "bidir_factor_d2h"].into_iter().zip(directions) {
            profile.put(figure, (alone / both).clamp(0.01, 1.0), "both directions at once against one alone");
        }
        let mut points = Vec::new();
        for n in self.sizes() {
            let ns = least(|| {
                for _ in 0..4 {
                    s.copy_device(Place::Device(b, 0), Place::Device(a, 0), n)?;
                }
                s.synchronize()
            })?;
            points.push((n, ns / 4.0));
        }
        let line = Line::through(&points).ok_or(MeasureError::Rate("copies within the device"))?;
        profile.put("d2d_bw", line.rate, "line through sizes");
        profile.line("d2d_bw", &line);
        Ok(())
    }

    /// The driver's staging and the processor's own copies; cold is what lies in no cache.
    /// Gives what all threads get together out of memory, in bytes per nanosecond.
    fn pageable(&self, profile: &mut Profile) -> Result<f64, MeasureError> {
        let n = self.largest;
        let mut parts = (0..PARTS).map(|_| filled(n)).collect::<Result<Vec<_>, _>>()?;
        let small = (n / 16).max(1);
        let [s, _] = &self.streams;
        let [a, _] = &self.device;
        let hot = middle(|_| s.upload_and_wait(a, &mut parts[0], small))? / small as f64;
        let cold = middle(|part| s.upload_and_wait(a, &mut parts[part], n))? / n as f64;
        profile.put("stage_hot_bw", 1.0 / hot, "pageable copies of one small range, again and again");
        profile.put("stage_cold_bw", (1.0 / cold).min(1.0 / hot), "pageable copies of large ranges in turn");
        let mut target = filled(n)?;
        let mut copied = |from: &[u8]| {
            target[..from.len()].copy_from_slice(from);
            std::hint::black_box(&mut target);
            Ok(())
        };
        let hot = 1.0 / (middle(|_| copied(&parts[0][..small]))? / small as f64);
        let cold = (1.0 / (middle(|part| copied(&parts[part]))? / n as f64)).min(hot);
        profile.put("host_memcpy_hot_bw", hot, "one thread's copies of one small range");
        profile.put("host_memcpy_cold_bw", cold, "one thread's copies of large ranges in turn");
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(THREADS);
        let (together, n_begun) = side_by_side(&parts, threads, |_| Builder::new())?;
        let how = format!("copies of large ranges by {n_begun} threads side by side");
        let cap = together.max(cold);
        profile.put("host_memcpy_cap_bw", cap, &how);
        Ok(cap)
    }

    /// What it costs to page-lock memory, and to give it back; in microseconds, by pages of 4 KiB as the model counts.
    fn locking(&self, profile: &mut Profile) -> Result<(), MeasureError> {
        let pages = |n: usize| n as f64 / 4096.0;
        let (mut points, mut free) = (Vec::new(), f64::INFINITY);
        for n in self.sizes() {
            let mut alloc = f64::INFINITY;
            free = f64::INFINITY;
            for _ in 0..ROUNDS {
                let begun = Instant::now();
                let block = HostBlock::new(&self.context, n)?;
                alloc = alloc.min(begun.elapsed().as_nanos() as f64);
                let begun = Instant::now();
                drop(block);
                free = free.min(begun.elapsed().as_nanos() as f64);
            }
            points.push((n, alloc.max(1.0)));
        }
        // A driver that puts the work off answers in the same time for every size.
        let line = Line::through(&points);
        let fixed =
            line.as_ref().map_or_else(|| points.iter().map(|p| p.1).fold(0.0, f64::max), |l| l.latency_ns);
        let each = line.as_ref().map_or(0.0, |l| 4096.0 / l.rate);
        let how = line.as_ref().map_or_else(
            || format!("the longest of {} sizes, whose times do not grow", points.len()),
            |l| format!("line through {} sizes, worst residual {:.1} %", points.len(), 100.0 * l.worst()),
        );
        profile.put("host_alloc_fixed", fixed / 1e3, &how);
        profile.put("host_alloc_per_4k", each / 1e3, &how);
        if let Some(line) = &line {
            profile.line("host_alloc_per_4k", line);
        }
        let largest = "of the largest size, the least of 5 rounds";
        profile.put("host_free_per_4k", free / pages(self.largest) / 1e3, largest);
        let mut lock = f64::INFINITY;
        for _ in 0..ROUNDS {
            // With its pages there: what is measured is the locking.
            let bytes = filled(self.largest)?.into_boxed_slice();
            let begun = Instant::now();
            let block = HostBlock::register(&self.context, bytes)?;
            lock = lock.min(begun.elapsed().as_nanos() as f64);
            drop(block);
        }
        profile.put("host_register_per_4k", lock / pages(self.largest) / 1e3, largest);
        Ok(())
    }

    /// What calls cost the host, in microseconds; gives that of a copy in nanoseconds.
    fn calls(&self, profile: &mut Profile) -> Result<f64, MeasureError> {
        let [s, t] = &self.streams;
        let [a, _] = &self.device;
        let event = Event::new(&self.context, Timing::Off)?;
        let mut put = |name: &str, call: &mut dyn FnMut() -> Result<(), CudaError>| {
            let mut best = f64::INFINITY;
            for _ in 0..ROUNDS {
                let begun = Instant::now();
                for _ in 0..CALLS {
                    call()?;
                }
                best = best.min(begun.elapsed().as_nanos() as f64 / CALLS as f64);
                s.synchronize()?;
                t.synchronize()?;
            }
            profile.put(name, best / 1e3, "mean of 64 calls, the least of 5 rounds");
            Ok::<f64, CudaError>(best)
        };
        // Of one number.
        let (kernels, formula) = (Kernels::load(&self.context)?, Compute::affine(Dtype::F32, 1.0, 0.0));
        put("call_launch", &mut || kernels.compute(s, formula, 1, (a, 0), &[(a, 0)]))?;
        put("call_event_record", &mut || event.record(s))?;
        put("call_stream_wait", &mut || t.wait(&event))?;
        put("call_event_query", &mut || event.is_done().map(|_| ()))?;
        let mut blocks = Vec::new();
        put("call_malloc", &mut || DeviceBlock::new(&self.context, 1 << 16).map(|block| blocks.push(block)))?;
        put("call_free", &mut || {
            drop(blocks.pop());
            Ok(())
        })?;
        let mut blocks = Vec::new();
        put("call_malloc_async", &mut || DeviceBlock::on(s, 1 << 16).map(|block| blocks.push(block)))?;
        put("call_free_async", &mut || blocks.pop().map_or(Ok(()), |block| block.free_on(s)))?;
        let (mut host, mut copy) = (HostBlock::new(&self.context, SMALL)?, f64::INFINITY);
        for _ in 0..ROUNDS {
            let called = Stream::copies_and_wait(&mut [(s, a, &mut host, false)], 64, CALLS)?;
            copy = copy.min(called.as_nanos() as f64 / CALLS as f64);
        }
        profile.put(
            "call_memcpy_async",
            copy / 1e3,
            "of page-locked memory; mean of 64 calls, the least of 5 rounds",
        );
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No address space has room for such a stack.
    const TOO_LARGE: usize = 1 << 47;

    #[test]
    fn threads_that_the_system_does_not_have_are_waited_for_by_nobody() {
        let parts = vec![vec![1; 1 << 16]; 2];
        for n_begun in [0, 1, 3] {
            let builder = |k| match k < n_begun {
                true => Builder::new(),
                false => Builder::new().stack_size(TOO_LARGE),
            };
            let (rate, n) = side_by_side(&parts, 4, builder).unwrap();
            assert_eq!((0.0 < rate, n), (0 < n_begun, n_begun));
        }
        let (rate, n) = side_by_side(&parts, 4, |_| Builder::new()).unwrap();
        assert!(0.0 < rate && n == 4);
    }
}
