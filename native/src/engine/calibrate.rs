//! Measures, in a few milliseconds, what choices depend on: the link, a core's copies, a call, waking threads.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlift::advise::transfer::Calibration;
use spanlift::machine::{Grade, Machine, Source};
use spanlift::program::StreamKind;

use crate::cuda::{Context, CudaError, DeviceBlock, Stream};

use super::EngineError;
use super::copy::{Stores, Workers, copy};
use super::pinned::{HostPool, Piece};

/// Bytes of the copies that are timed: long against a call, short against the budget.
const BYTES: usize = 4 << 20;

/// Measures a machine's figures within `budget`; those that are not measured are assumed, as the profile says.
///
/// # Errors
/// The device is lost. What it refuses, such as page-locked memory, leaves figures assumed.
pub(super) fn calibrate(
    context: &Context,
    workers: &Workers,
    pool: &HostPool,
    budget: Duration,
) -> Result<Calibration, EngineError> {
    let mut machine = Machine { name: format!("cuda:{}", context.ordinal()), ..Machine::default() };
    // Each figure has a sixth of the time.
    let share = budget / 6;
    for (name, value) in host(workers, share).into_iter().chain(link(context, pool, share)?) {
        let source =
            Source { grade: Grade::Measured, text: Arc::from("measured when the engine was opened") };
        // A figure out of range, as of a clock that stood still, stays assumed.
        let _ = machine.set(name, value, source);
    }
    Ok(Calibration::of(machine))
}

/// Rates and times of the host, in the units of profiles.
fn host(workers: &Workers, share: Duration) -> Vec<(&'static str, f64)> {
    let (from, mut to) = (vec![1u8; BYTES], vec![0u8; BYTES]);
    let hot = least(share / 2, || copy(&mut to, black_box(&from), Stores::Plain));
    let all = least(share / 2, || workers.copy(&mut to, black_box(&from), Stores::Plain));
    let wake = least(share / 2, || workers.run(workers.count(), &|_| {}));
    let gb_s = |time: Duration| BYTES as f64 / 1e9 / time.as_secs_f64();
    let mut found = vec![("host_memcpy_hot_bw", gb_s(hot))];
    if workers.count() > 1 {
        found.push(("host_memcpy_cap_bw", gb_s(all).max(gb_s(hot))));
        found.push(("thread_wake", wake.as_secs_f64() * 1e6));
    }
    found
}

/// Rates and times of the link; nothing where no memory is page-locked.
fn link(
    context: &Context,
    pool: &HostPool,
    share: Duration,
) -> Result<Vec<(&'static str, f64)>, EngineError> {
    let Ok(piece) = pool.piece(BYTES) else { return Ok(Vec::new()) };
    let stream = Stream::new(context, StreamKind::NonBlocking)?;
    let block = DeviceBlock::new(context, BYTES)?;
    let mut failed = None;
    let mut timed = |is_down: bool, n: usize| {
        least(share, || {
            let done = once(&stream, &piece, &block, is_down, n);
            failed = failed.take().or(done.err());
        })
    };
    let [up, down] = [timed(false, BYTES), timed(true, BYTES)];
    let small = timed(false, 64);
    if let Some(error) = failed {
        piece.lose(true);
        return Err(error.into());
    }
    // What a small copy takes is in the time of a large one too.
    let gb_s = |time: Duration| BYTES as f64 / 1e9 / time.saturating_sub(small).as_secs_f64();
    Ok(vec![("h2d_bw", gb_s(up)), ("d2h_bw", gb_s(down)), ("sync_return", small.as_secs_f64() * 1e6 / 2.0)])
}

/// One copy, waited for.
#[expect(unsafe_code, reason = "copies a piece of the pool that nobody else has")]
fn once(
    stream: &Stream,
    piece: &Piece,
    block: &DeviceBlock,
    is_down: bool,
    n: usize,
) -> Result<(), CudaError> {
    let called = match is_down {
        // SAFETY: the piece is the caller's alone, who touches none of its bytes and gives it up if this fails.
        true => unsafe { piece.fetch(stream, (block, 0), n) },
        // SAFETY: as above.
        false => unsafe { piece.send(stream, (block, 0), 0, n) },
    };
    called.and(stream.synchronize())
}

/// The least time that `work` takes, at least twice, and again until the share is used up.
fn least(share: Duration, mut work: impl FnMut()) -> Duration {
    let began = Instant::now();
    let (mut least, mut n) = (Duration::MAX, 0);
    while n < 2 || (n < 1000 && began.elapsed() < share) {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed());
        n += 1;
    }
    least
}
