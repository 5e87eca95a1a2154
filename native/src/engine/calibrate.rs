//! Measures, in a few milliseconds, what choices depend on: the link, a core's copies, a call, waking threads.
//!
//! Bounded twice: by a deadline, which no figure's next run begins behind, and by a number of runs, so that a fast machine
//! does not spend it all. A figure that there was no time for stays assumed. What was measured in full is kept for the next engine.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use spanlift::advise::transfer::Calibration;
use spanlift::machine::{Grade, Machine, Source};
use spanlift::program::StreamKind;

use crate::cuda::{Context, CudaError, DeviceBlock, HostBlock, Stream};
use crate::probe::Version;

use super::EngineError;
use super::copy::{Stores, Workers, copy};
use super::pool::is_refused;

/// Bytes of the copies that are timed: long against a call, short against the budget.
const BYTES: usize = 4 << 20;
/// Runs of each figure at most: the least of so many is what is kept, the first of them meets page faults.
const ROUNDS: usize = 16;
/// After so long threads do not look out for the next work any more: they sleep, and have to be woken.
const ASLEEP: Duration = Duration::from_micros(100);
/// Bytes of a large page, and so many that every allocator asks the system for them anew.
const PAGE: usize = 2 << 20;
const ANEW: usize = 40 << 20;
/// How many figures there are.
const FIGURES: u32 = 7;
/// Those of several threads beside each other.
const OF_SEVERAL: u32 = 2;

/// What figures are of: a device by its lasting name, its driver, and how many threads copy. The processor is the process's.
type Of = ([u8; 16], Version, usize);
/// What was measured in full.
static KNOWN: Mutex<Vec<(Of, Machine)>> = Mutex::new(Vec::new());

/// Measures a machine's figures within `budget`; those that are not measured are assumed, as the profile says.
///
/// # Errors
/// The driver refuses a copy or device memory. That it refuses page-locked memory leaves figures assumed.
///
/// # Cost
/// Five figures copy `ROUNDS` times 4 MiB at most, together 320 MiB.
pub(super) fn calibrate(
    context: &Context,
    workers: &Workers,
    budget: Duration,
) -> Result<Calibration, EngineError> {
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let of = context.uuid().map(|uuid| (uuid, context.driver().version(), workers.count()));
    if let Some((_, machine)) = known().iter().find(|(known, _)| Some(*known) == of) {
        return Ok(Calibration::of(machine.clone()));
    }
    let (mut n_measured, n_several) = (0, if workers.count() > 1 { OF_SEVERAL } else { 0 });
    let mut machine = Machine { name: format!("cuda:{}", context.ordinal()), ..Machine::default() };
    let mut clock = Clock { ends: Instant::now() + budget, left: FIGURES };
    for (name, value) in host(workers, &mut clock).into_iter().chain(link(context, &mut clock)?) {
        let source =
            Source { grade: Grade::Measured, text: Arc::from("measured when the engine was opened") };
        // A figure out of range, as of a clock that stood still, stays assumed.
        n_measured += u32::from(machine.set(name, value, source).is_ok());
    }
    bound_cold(&mut machine);
    if let Some(of) = of.filter(|_| n_measured == FIGURES - OF_SEVERAL + n_several) {
        known().push((of, machine.clone()));
    }
    Ok(Calibration::of(machine))
}

/// There is no time to measure copies of what lies in no cache; they are no faster than those that were measured.
fn bound_cold(machine: &mut Machine) {
    if let Some(hot) = machine.figure("host_memcpy_hot_bw")
        && machine.host_memcpy_hot_bw < machine.host_memcpy_cold_bw
    {
        let text = Arc::from("no faster than what is in the cache, which was measured");
        let _ = machine.set("host_memcpy_cold_bw", hot, Source { grade: Grade::Assumed, text });
    }
}

/// Rates and times of the host, in the units of profiles.
fn host(workers: &Workers, clock: &mut Clock) -> Vec<(&'static str, f64)> {
    let (from, mut to) = (vec![1u8; BYTES], vec![0u8; BYTES]);
    // As slots are filled.
    let hot = clock.least(|| copy(&mut to, black_box(&from), Stores::Streaming)).map(gb_s);
    let all = clock.least(|| workers.copy(&mut to, black_box(&from), Stores::Streaming)).map(gb_s);
    let wake = clock.least_of(|| {
        idle(ASLEEP);
        timed(|| workers.run(workers.count(), &|_| {}))
    });
    let fresh = clock.least_of(|| into_fresh(black_box(&from))).map(gb_s);
    let mut found: Vec<_> = hot.map(|hot| ("host_memcpy_hot_bw", hot)).into_iter().collect();
    found.extend(fresh.map(|fresh| ("host_fault_bw", fresh)));
    if workers.count() > 1 {
        found.extend(hot.zip(all).map(|(hot, all)| ("host_memcpy_cap_bw", all.max(hot))));
        found.extend(wake.map(|wake| ("thread_wake", wake.as_secs_f64() * 1e6)));
    }
    found
}

/// A copy into memory that nobody has touched, as downloads have it for their results.
fn into_fresh(from: &[u8]) -> Duration {
    // Where there is not as much it is not measured: no figure is as slow as this.
    let Ok(mut memory) = bytemuck::try_zeroed_vec::<u8>(ANEW) else { return Duration::MAX };
    let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
    let to = &mut memory[start..start + from.len()];
    crate::processor::ask_for_large_pages(to);
    timed(|| copy(black_box(to), from, Stores::Plain))
}

/// Rates and times of the link; nothing where no memory is page-locked.
fn link(context: &Context, clock: &mut Clock) -> Result<Vec<(&'static str, f64)>, EngineError> {
    let mut host = match HostBlock::new(context, BYTES) {
        Ok(host) => host,
        Err(error) if is_refused(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let stream = Stream::new(context, StreamKind::NonBlocking)?;
    let block = DeviceBlock::new(context, BYTES)?;
    let mut failed: Option<CudaError> = None;
    let mut timed = |is_down: bool, n: usize| {
        clock.least(|| {
            // One copy, waited for.
            let mut work = [(&stream, &block, &mut host, is_down)];
            let done = Stream::copies_and_wait(&mut work, n, 1);
            failed = failed.take().or(done.err());
        })
    };
    let [small, up, down] = [timed(false, 64), timed(false, BYTES), timed(true, BYTES)];
    if let Some(error) = failed {
        return Err(error.into());
    }
    // What a small copy takes is in the time of a large one too.
    let rate = |time: Duration| gb_s(time.saturating_sub(small.unwrap_or_default()));
    let rates = [("h2d_bw", up), ("d2h_bw", down)].into_iter();
    let mut found: Vec<_> = rates.filter_map(|(name, time)| Some((name, rate(time?)))).collect();
    found.extend(small.map(|small| ("sync_return", small.as_secs_f64() * 1e6 / 2.0)));
    Ok(found)
}

fn gb_s(time: Duration) -> f64 {
    BYTES as f64 / 1e9 / time.as_secs_f64()
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Lets so much time go by without going to sleep, after which this thread would have to be woken too.
fn idle(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What is left of the budget, and of the figures that share it.
struct Clock {
    ends: Instant,
    left: u32,
}

impl Clock {
    /// The least time that `work` takes, over `ROUNDS` runs at most and within this figure's share of what is left; none
    /// where nothing is.
    fn least(&mut self, mut work: impl FnMut()) -> Option<Duration> {
        self.least_of(|| timed(&mut work))
    }

    /// The same of what times itself.
    fn least_of(&mut self, mut run: impl FnMut() -> Duration) -> Option<Duration> {
        let now = Instant::now();
        let ends = now + self.ends.saturating_duration_since(now) / self.left.max(1);
        self.left = self.left.saturating_sub(1);
        let mut least = None;
        for _ in 0..ROUNDS {
            if ends <= Instant::now() {
                break;
            }
            let time = run();
            least = Some(least.map_or(time, |least: Duration| least.min(time)));
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_cache_is_copied_no_faster() {
        let slow = || Source { grade: Grade::Measured, text: Arc::from("here") };
        let assumed = Machine::default().figure("host_memcpy_cold_bw").unwrap();
        for (hot, cold) in [(3.0, 3.0), (6.5, 6.5), (20.0, assumed)] {
            let mut machine = Machine::default();
            machine.set("host_memcpy_hot_bw", hot, slow()).unwrap();
            bound_cold(&mut machine);
            assert_eq!(machine.figure("host_memcpy_cold_bw"), Some(cold), "{hot}");
        }
    }

    /// Memory that there was not is no figure.
    #[test]
    fn a_rate_of_no_time_is_not_taken() {
        let mut machine = Machine::default();
        let none = Source { grade: Grade::Measured, text: Arc::from("here") };
        assert!(machine.set("host_fault_bw", gb_s(Duration::MAX), none).is_err());
        assert_eq!(machine, Machine::default());
    }

    #[test]
    fn a_figure_has_so_many_runs_at_most_and_none_when_the_time_is_over() {
        let mut n = 0;
        let mut clock = Clock { ends: Instant::now() + Duration::from_secs(3600), left: FIGURES };
        assert!(clock.least(|| n += 1).is_some());
        assert_eq!(n, ROUNDS);
        let mut clock = Clock { ends: Instant::now(), left: FIGURES };
        assert_eq!(clock.least(|| n += 1), None);
        assert_eq!(n, ROUNDS);
    }
}
