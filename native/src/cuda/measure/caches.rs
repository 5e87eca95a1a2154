//! What threads do in their caches: how fast they copy there together, and what it costs a device to read bytes that they
//! have just changed.
//!
//! Both are what a framework's copy of a tensor meets, which it divides among threads: each copies a range of its own, by
//! plain writes, which stay in its core's cache. What is fitted is told apart from what is measured, so that tests make up times.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Instant;

use serde_json::json;

use super::{Bench, MeasureError, Profile, THREADS, filled};
use crate::cuda::error::CudaError;
use crate::cuda::memory::HostBlock;
use crate::cuda::stream::Stream;

/// Bytes that each thread changes: the least, and how often twice as many are taken.
const LEAST: usize = 64 << 10;
const DOUBLED: u32 = 6;
/// Rounds of each size, of which the middle times count.
const ROUNDS: usize = 7;
/// Bytes that each thread copies within its caches, and rounds of that, of which the middle one counts.
const HOT: usize = 256 << 10;
const HOT_ROUNDS: usize = 65;
/// Copies this small are made by plain writes; larger ones may go past the caches.
const PIECE: usize = 1 << 10;

/// Sizes without which nothing is said.
const MIN_SIZES: usize = 4;
/// The part of a copy's time that changed bytes add at least, where that is told from none.
const MIN_PART: f64 = 0.05;
/// How far times may lie off what is fitted, as logarithms: each where they grow, and all of them, root mean square.
const MOST_OFF: f64 = 0.3;
/// Steps of a factor of 2 in which the size of the caches is sought.
const STEPS: f64 = 32.0;
/// A cache is told where sizes go beyond it by this factor.
const BEYOND: f64 = 1.5;
/// How many times as fast as out of memory copies within caches are at least, where that is told from none.
const MIN_FACTOR: f64 = 1.1;

/// Times of the copies to a device of what threads have written, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Changed {
    /// Bytes of each thread.
    bytes: usize,
    /// The first copy, of bytes that were just changed.
    first: f64,
    /// The second one, of the same bytes.
    again: f64,
}

/// What such times say.
#[derive(Debug, Clone, PartialEq)]
struct Fetched {
    /// How fast changed bytes come out of the caches, in bytes per nanosecond.
    rate: f64,
    /// Bytes that each thread leaves changed, where there were sizes beyond.
    cache: Option<f64>,
    /// How far the fit lies off each extra time, relative to it.
    residuals: Vec<f64>,
}

impl Fetched {
    /// Fits `first - again = threads min(bytes, cache) / rate`, with the least sum of squares of the logarithms, so that relative
    /// errors count alike.
    ///
    /// # Errors
    /// Why nothing can be said: the extra times are none, or grow in another way.
    fn from(threads: usize, times: &[Changed]) -> Result<Fetched, &'static str> {
        let ([_, least, .., last], true) = (times, MIN_SIZES <= times.len()) else {
            return Err("there are too few sizes");
        };
        let extra = |t: &Changed| t.first - t.again;
        if !times.iter().all(|t| 0.0 < extra(t)) {
            return Err("at some size bytes that were just changed take no longer");
        }
        // Of caches of this size: the logarithm of what a byte takes by each time.
        let each = |cache: f64| -> Vec<f64> {
            let part = |t: &Changed| threads as f64 * (t.bytes as f64).min(cache);
            times.iter().map(|t| (extra(t) / part(t)).ln()).collect()
        };
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        let variance = |logs: &[f64]| {
            let middle = mean(logs);
            logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / logs.len() as f64
        };
        // Two sizes fit into the smallest.
        let (least, most) = (least.bytes as f64, last.bytes as f64);
        let caches = (0..).map(|k| least * (f64::from(k) / STEPS).exp2()).take_while(|cache| *cache < most);
        let tried = caches.chain([most]).map(|cache| (variance(&each(cache)), cache));
        // Of those that fit alike the largest.
        let (variance, cache) =
            tried.fold((f64::INFINITY, most), |best, next| if next.0 <= best.0 { next } else { best });
        let logs = each(cache);
        let middle = mean(&logs);
        let grows = |t: &Changed| t.bytes as f64 <= cache;
        let rising = || times.iter().zip(&logs).filter(|(t, _)| grows(t));
        if variance.sqrt() > MOST_OFF || rising().any(|(_, log)| (log - middle).abs() > MOST_OFF) {
            return Err(
                "how much longer bytes take that were just changed does not grow with them up to some size",
            );
        }
        if rising().any(|(t, _)| extra(t) < MIN_PART * t.again) {
            return Err("bytes that were just changed take hardly longer");
        }
        let residuals = logs.iter().map(|log| (middle - log).exp_m1()).collect();
        Ok(Fetched { rate: (-middle).exp(), cache: (cache * BEYOND <= most).then_some(cache), residuals })
    }

    fn worst(&self) -> f64 {
        self.residuals.iter().map(|off| off.abs()).fold(0.0, f64::max)
    }
}

/// How many times `cap`, in bytes per nanosecond, threads get that copy `bytes` in all in these times; and the least and the
/// greatest of the middle half.
///
/// # Errors
/// Why nothing can be said.
fn hot_factor(bytes: usize, times: &mut [f64], cap: f64) -> Result<[f64; 3], &'static str> {
    times.sort_unstable_by(f64::total_cmp);
    let n = times.len();
    let factor = |k: usize| times.get(k).map_or(f64::NAN, |ns| bytes as f64 / ns.max(1.0) / cap);
    if times.is_empty() {
        return Err("the system has no threads for it");
    }
    let [middle, low, high] = [factor(n / 2), factor(n * 3 / 4), factor(n / 4)];
    if !middle.is_finite() || middle < MIN_FACTOR {
        return Err("within caches threads are hardly faster together than out of memory");
    }
    if 2.0 * low < high {
        return Err("within caches the threads' times differ by more than a factor of 2");
    }
    Ok([middle, low, high])
}

/// Where threads meet, without going to sleep: waking up takes longer than what they do next.
pub(super) struct Gate {
    threads: usize,
    arrived: AtomicUsize,
}

impl Gate {
    pub(super) fn new(threads: usize) -> Gate {
        Gate { threads, arrived: AtomicUsize::new(0) }
    }

    /// Waits until all threads have come `round + 1` times, or somebody [opens](Gate::open) it.
    pub(super) fn pass(&self, round: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0u32;
        while self.arrived.load(Ordering::Acquire) < self.threads * (round + 1) {
            looks = looks.wrapping_add(1);
            // Whoever is waited for may need this processor.
            if looks.is_multiple_of(1 << 10) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    /// Lets everybody pass for good, since not all will come.
    pub(super) fn open(&self) {
        self.arrived.fetch_add(usize::MAX / 2, Ordering::AcqRel);
    }
}

/// Copies by plain writes, which stay in the cache.
fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
        to.copy_from_slice(std::hint::black_box(from));
    }
}

/// A thread for each range of both, which copies it; what the system has no thread for stays as it is.
fn copied(to: &mut [u8], from: &[u8], each: usize) {
    std::thread::scope(|scope| {
        for (to, from) in to.chunks_mut(each).zip(from.chunks(each)) {
            let _ = Builder::new().spawn_scoped(scope, move || copy(to, from));
        }
    });
}

/// The times of the slowest of these threads in each round in which they begin together, in nanoseconds; none where the system has
/// no such threads.
fn within_caches(threads: usize) -> Result<Vec<f64>, MeasureError> {
    let (mut to, from) = (filled(threads * HOT)?, filled(threads * HOT)?);
    let gate = &Gate::new(threads);
    let mut slowest = vec![0.0f64; HOT_ROUNDS];
    let mut n_ended = 0;
    std::thread::scope(|scope| {
        let mut copying = Vec::new();
        for (to, from) in to.chunks_mut(HOT).zip(from.chunks(HOT)) {
            let round = move |k| {
                gate.pass(k);
                let begun = Instant::now();
                copy(to, from);
                std::hint::black_box(&mut *to);
                begun.elapsed().as_nanos() as f64
            };
            let thread =
                Builder::new().spawn_scoped(scope, || (0..HOT_ROUNDS).map(round).collect::<Vec<f64>>());
            match thread {
                Ok(thread) => copying.push(thread),
                Err(_) => return gate.open(),
            }
        }
        for times in copying.into_iter().filter_map(|thread| thread.join().ok()) {
            slowest.iter_mut().zip(times).for_each(|(slowest, ns)| *slowest = ns.max(*slowest));
            n_ended += 1;
        }
    });
    Ok(if n_ended == threads { slowest } else { Vec::new() })
}

impl Bench {
    /// What a framework's copies within the host find in caches and leave there; `cap` is what all threads get out of memory,
    /// in bytes per nanosecond.
    pub(super) fn caches(&self, profile: &mut Profile, cap: f64) -> Result<(), MeasureError> {
        let threads = crate::host::read().physical_cores.and_then(|n| usize::try_from(n).ok());
        let threads = threads.unwrap_or(1).clamp(1, THREADS);
        if threads == 1 {
            profile.left_out(
                "framework_hot_factor",
                "one thread has no others to share the memory with",
                Vec::new(),
            );
        } else {
            match hot_factor(threads * HOT, &mut within_caches(threads)?, cap) {
                Ok([factor, low, high]) => {
                    let how = format!(
                        "{threads} threads that copy {} KiB each again and again, over host_memcpy_cap_bw; the middle half of \
                         {HOT_ROUNDS} rounds {low:.2} to {high:.2}",
                        HOT >> 10
                    );
                    profile.put("framework_hot_factor", factor, &how);
                }
                Err(why) => profile.left_out("framework_hot_factor", why, Vec::new()),
            }
        }
        let times = self.changed(threads)?;
        let fetched = Fetched::from(threads, &times);
        let point = |(k, t): (usize, &Changed)| {
            let off = fetched.as_ref().ok().and_then(|fetched| fetched.residuals.get(k));
            json!({"bytes": t.bytes, "ns": t.first - t.again, "again_ns": t.again, "residual": off})
        };
        let points: Vec<_> = times.iter().enumerate().map(point).collect();
        let fetched = match &fetched {
            Ok(fetched) => fetched,
            Err(why) => {
                profile.left_out("core_cache", why, Vec::new());
                profile.left_out("changed_read_bw", why, points);
                return Ok(());
            }
        };
        let how = format!(
            "how much longer a first copy to the device takes than a second, of {} sizes that {threads} threads just wrote; \
             worst residual {:.1} %",
            times.len(),
            100.0 * fetched.worst()
        );
        profile.put("changed_read_bw", fetched.rate, &how);
        profile.points("changed_read_bw", fetched.worst(), points);
        match fetched.cache {
            Some(cache) => {
                profile.put("core_cache", cache, &how);
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a size between those that were measured"
                )]
                profile.figures.insert("core_cache".to_owned(), json!(cache as u64));
            }
            None => profile.left_out("core_cache", "no size went beyond it", Vec::new()),
        }
        Ok(())
    }

    /// Times of copies to the device of what so many threads have just written, and of the same again.
    fn changed(&self, threads: usize) -> Result<Vec<Changed>, MeasureError> {
        let sizes = (0..=DOUBLED).map(|k| LEAST << k).take_while(|each| threads * each <= self.largest);
        let sizes: Vec<usize> = sizes.collect();
        let Some(most) = sizes.last().filter(|_| sizes.len() >= MIN_SIZES).map(|each| each * threads) else {
            return Ok(Vec::new());
        };
        let from = filled(most)?;
        let mut block = HostBlock::new(&self.context, most)?;
        block.settle_and_fill(1)?;
        let mut times = Vec::new();
        for each in sizes {
            let (n, mut first, mut again) = (threads * each, Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                copied(&mut block.settled()?[..n], &from, each);
                first.push(self.copy_up(&mut block, n)?);
                // As many threads that change nothing: what else they leave behind is the same for both.
                std::thread::scope(|scope| {
                    (0..threads).for_each(|_| drop(Builder::new().spawn_scoped(scope, || {})));
                });
                again.push(self.copy_up(&mut block, n)?);
            }
            let [first, again] = [first, again].map(|mut times| {
                times.sort_unstable_by(f64::total_cmp);
                times[ROUNDS / 2]
            });
            times.push(Changed { bytes: each, first, again });
        }
        Ok(times)
    }

    /// Nanoseconds of one copy to the device.
    fn copy_up(&self, block: &mut HostBlock, n: usize) -> Result<f64, CudaError> {
        let ([s, _], [a, _]) = (&self.streams, &self.device);
        let begun = Instant::now();
        Stream::copies_and_wait(&mut [(s, a, block, false)], n, 1)?;
        Ok(begun.elapsed().as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Numbers from -1 to 1 without pattern, by an xorshift.
    fn drawn(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        }
    }

    /// Times of a link of 55 GB/s beside caches of this size, each off by up to `noise` of itself; a rate of 0 changes nothing.
    fn made_up(threads: usize, (rate, cache): (f64, f64), noise: f64, seed: u64) -> Vec<Changed> {
        let mut random = drawn(seed);
        let mut off = |ns: f64| ns * (1.0 + noise * random());
        let size = |k: u32| {
            let bytes = LEAST << k;
            let again = 9_000.0 + (threads * bytes) as f64 / 55.0;
            let extra = if rate > 0.0 { threads as f64 * (bytes as f64).min(cache) / rate } else { 0.0 };
            Changed { bytes, first: off(again + extra), again: off(again) }
        };
        (0..=DOUBLED).map(size).collect()
    }

    #[test]
    fn rate_and_cache_come_back_from_made_up_times() {
        for threads in [1, 2, 4, 16] {
            for (rate, cache) in [(52.0, 1e6), (52.0, 3e5), (20.0, 5e5), (52.0, 2.5e6), (90.0, 1.5e6)] {
                let exact = Fetched::from(threads, &made_up(threads, (rate, cache), 0.0, 0)).unwrap();
                // As fine as caches are sought.
                assert!((exact.rate / rate - 1.0).abs() < 0.01, "{rate} {cache}: {exact:?}");
                assert!((exact.cache.unwrap() / cache - 1.0).abs() < 0.02, "{rate} {cache}: {exact:?}");
                assert!(exact.worst() < 0.02, "{exact:?}");
                for seed in 0..100 {
                    let found = Fetched::from(threads, &made_up(threads, (rate, cache), 0.01, seed)).unwrap();
                    assert!(
                        (found.rate / rate - 1.0).abs() < 0.15,
                        "{threads} {rate} {cache}, seed {seed}: {found:?}"
                    );
                    let size = found.cache.unwrap();
                    assert!(
                        (size / cache - 1.0).abs() < 0.25,
                        "{threads} {rate} {cache}, seed {seed}: {found:?}"
                    );
                }
            }
        }
        // Caches that no size went beyond: the rate alone.
        let beyond = Fetched::from(8, &made_up(8, (50.0, 1e9), 0.01, 3)).unwrap();
        assert!(beyond.cache.is_none() && (beyond.rate / 50.0 - 1.0).abs() < 0.05, "{beyond:?}");
    }

    #[test]
    fn times_that_say_nothing_give_nothing() {
        for threads in [1, 4, 16] {
            for noise in [0.0, 0.001, 0.01, 0.1, 0.3] {
                for seed in 0..1000 {
                    let flat = made_up(threads, (0.0, 1e6), noise, seed);
                    let found = Fetched::from(threads, &flat);
                    assert!(found.is_err(), "{threads}, {noise}, seed {seed}: {found:?}");
                }
            }
            let mut times = made_up(threads, (50.0, 1e6), 0.0, 0);
            assert_eq!(Fetched::from(threads, &times[..3]), Err("there are too few sizes"));
            assert_eq!(Fetched::from(threads, &[]), Err("there are too few sizes"));
            // A first copy that is always later by the same has nothing to do with what was changed.
            times.iter_mut().for_each(|t| t.first = t.again + 5_000.0);
            assert!(Fetched::from(threads, &times).unwrap_err().contains("does not grow"));
            // A hundredth more than what the copy takes is within what measurements differ by.
            times.iter_mut().for_each(|t| t.first = t.again + (threads * t.bytes) as f64 / 5_500.0);
            assert!(Fetched::from(threads, &times).unwrap_err().contains("hardly longer"));
            for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                times[2].first = broken;
                assert!(Fetched::from(threads, &times).is_err());
            }
        }
    }

    /// What was measured otherwise, by copies of PyTorch's threads: the profile's figures, which were read off two of these sizes,
    /// come back from all of them.
    #[test]
    fn copies_of_a_frameworks_threads_say_the_same() {
        let read = |name: &str| -> Value {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("measured").join(name);
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
        };
        let (calls, profile) = (read("calls-h200-2026-11-28.json"), read("profile-h200-2026-11-28.json"));
        let known = |name: &str| profile[name].as_f64().unwrap();
        for threads in [1, 4, 16] {
            let of = calls["host_copies"]["of_mb"].as_object().unwrap();
            let mut times: Vec<Changed> = of
                .iter()
                .map(|(mb, row)| {
                    let us = |name: &str| row[name].as_f64().unwrap() * 1e3;
                    // A sixteenth of a MiB at least.
                    let sixteenths =
                        (mb.parse::<f64>().unwrap() * 16.0).to_string().parse::<usize>().unwrap();
                    let first = us(&format!("h2d_dirty_{threads}"));
                    Changed { bytes: (sixteenths << 16) / threads, first, again: us("h2d_clean") }
                })
                .collect();
            times.sort_unstable_by_key(|t| t.bytes);
            let found = Fetched::from(threads, &times).unwrap();
            assert!((found.rate / known("changed_read_bw") - 1.0).abs() < 0.15, "{threads}: {found:?}");
            // Other sizes and threads say 0.5 to 2 MB, by the profile.
            let cache = found.cache.unwrap();
            assert!(0.5e6 < cache && cache < 2e6, "{threads}: {found:?}");
        }
        let us = calls["host_copies"]["of_mb"]["4"]["copy_pinned_16"].as_f64().unwrap();
        let cap = known("host_memcpy_cap_bw");
        let [factor, ..] = hot_factor(4 << 20, &mut [us * 1e3; 9], cap).unwrap();
        assert!((factor / known("framework_hot_factor") - 1.0).abs() < 1e-3, "{factor}");
    }

    /// Who waits for a thread that could not be made waits no longer.
    #[test]
    fn an_open_gate_holds_nobody() {
        let gate = &Gate { threads: 3, arrived: AtomicUsize::new(0) };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..HOT_ROUNDS).for_each(|round| gate.pass(round)));
            }
            gate.open();
        });
        let whole = within_caches(2).unwrap();
        assert!(whole.len() == HOT_ROUNDS && whole.iter().all(|ns| 0.0 < *ns), "{whole:?}");
    }

    #[test]
    fn how_much_faster_caches_are_comes_back() {
        let mut random = drawn(7);
        // 40 us, off by up to a tenth, and a few rounds in which a thread had to wait.
        let mut times: Vec<f64> = (0..HOT_ROUNDS)
            .map(|k| 40_000.0 + 4_000.0 * random() + if k % 9 == 0 { 1e6 } else { 0.0 })
            .collect();
        let [factor, low, high] = hot_factor(16 * HOT, &mut times, 50.0).unwrap();
        let exact = (16 * HOT) as f64 / 40_000.0 / 50.0;
        assert!(
            (factor / exact - 1.0).abs() < 0.05 && low <= factor && factor <= high,
            "{factor} {low} {high}"
        );
        let refused = |times: &mut [f64], cap| hot_factor(1 << 20, times, cap).unwrap_err();
        assert!(refused(&mut [1e5; 9], 10.0).contains("hardly faster"));
        assert!(refused(&mut [], 10.0).contains("no threads"));
        assert!(refused(&mut [1e5; 9], f64::NAN).contains("hardly faster"));
        let mut apart = [1e4, 1e4, 1e4, 1e4, 2e4, 5e4, 5e4, 5e4, 5e4];
        assert!(refused(&mut apart, 10.0).contains("differ by more"));
    }
}
