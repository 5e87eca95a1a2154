//! `spanlift bench transfers --on cuda:N`: the rows through the transfer engine, each verified.
//!
//! A sample is: wait for the device, clock, the work, clock (until it returned), wait for the device, clock. Results are
//! dropped behind it. After the samples the sources are inverted and the work is done once more: what comes out must be the
//! inverse, so that nothing that lay there from before passes.

mod jobs;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use spanlift::advise::transfer::Way;
use spanlift::program::StreamKind;
use spanlift_native::cuda::{DeviceBlock, HostBlock, Stream};
use spanlift_native::engine::copy::{Stores, copy};
use spanlift_native::engine::{Config, Engine, EngineError};
use spanlift_native::host;

use self::jobs::{Job, Jobs};
use crate::bench_transfers::Row;
use crate::cli::BenchTransfersArgs;
use crate::say::Fail;

/// How long a row is measured, and all of them.
struct Effort {
    target: Duration,
    min_samples: usize,
    max_samples: usize,
    budget: Duration,
}

impl Effort {
    fn of(args: &BenchTransfersArgs) -> Effort {
        let seconds = Duration::from_secs_f64;
        let (target, min_samples, max_samples, budget) = match (args.dry, args.quick) {
            (true, _) => (0.0, 3, 3, 165.0),
            (_, true) => (0.5, 3, 300, 150.0),
            _ => (2.0, 9, 2000, 1500.0),
        };
        Effort { target: seconds(target), min_samples, max_samples, budget: seconds(budget) }
    }
}

/// Measured rows, and the link before and after them.
pub(crate) struct Measured {
    pub(crate) rows: Vec<Value>,
    pub(crate) probe: Value,
    /// Whether a row brought wrong bytes or failed.
    pub(crate) is_wrong: bool,
}

/// Measures the rows on a device.
pub(crate) fn rows(
    args: &BenchTransfersArgs,
    ordinal: u32,
    rows: &[Row],
    force: Option<Way>,
) -> Result<Measured, Fail> {
    let on = format!("--on cuda:{ordinal}");
    let engine = Engine::open(ordinal, Config::default()).map_err(|e| Fail::at(&on, e))?;
    let effort = Effort::of(args);
    let jobs = Jobs::new(&engine, force, args.compute_steps);
    let bytes = if args.dry { 1 << 16 } else { 256 << 20 };
    let probed = || probe(&engine, bytes).map_err(|e| Fail::at(&on, e));
    let (began, first) = (Instant::now(), probed()?);
    let mut is_wrong = false;
    let mut measured = Vec::new();
    for row in rows {
        let mut object = row.object("the engine");
        let told = match effort.budget < began.elapsed() {
            true => Err(Told::Skipped("time budget".to_owned())),
            false => one(&engine, &jobs, row, &effort),
        };
        let fields = match told {
            Ok(fields) => fields,
            Err(told) => told.fields(),
        };
        is_wrong |= fields["status"] == "wrong" || fields["status"] == "failed";
        object.extend(fields);
        measured.push(Value::Object(object));
    }
    let probe = json!({"first": first, "last": probed()?, "bytes": bytes});
    Ok(Measured { rows: measured, probe, is_wrong })
}

/// Why a row has no figures.
enum Told {
    Skipped(String),
    Failed(EngineError),
}

impl From<EngineError> for Told {
    fn from(error: EngineError) -> Told {
        Told::Failed(error)
    }
}

impl Told {
    fn fields(self) -> Map<String, Value> {
        let (status, reason) = match self {
            Told::Skipped(why) => ("skipped", why),
            Told::Failed(error) => ("failed", error.to_string()),
        };
        fields(json!({"verified": false, "status": status, "reason": reason}))
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Milliseconds of each sample, until the work returned and until it was done.
struct Samples {
    returned: Vec<f64>,
    done: Vec<f64>,
    cpu_s: Option<f64>,
}

fn one(engine: &Engine, jobs: &Jobs<'_>, row: &Row, effort: &Effort) -> Result<Map<String, Value>, Told> {
    let mut job = jobs.of(row)?;
    let Samples { mut returned, mut done, cpu_s } = samples(engine, job.as_mut(), effort)?;
    // What the engine has no plan of, a pipeline or pinning, has none.
    let explain = job.engine().unwrap_or(engine).explain_last().filter(|_| job.strategy().is_none());
    job.flip()?;
    let results = job.run()?;
    engine.synchronize()?;
    let is_right = job.is_right(results)?;
    let bytes = row.bytes() as f64;
    let median = quantile(&mut done, 0.5);
    let strategy = job.strategy().or_else(|| Some(explain.as_ref()?.plan.chosen.way.id()));
    let mut object = fields(json!({
        "median_ms": median, "min_ms": quantile(&mut done, 0.0), "p25_ms": quantile(&mut done, 0.25),
        "p75_ms": quantile(&mut done, 0.75), "return_median_ms": quantile(&mut returned, 0.5),
        "samples": done.len(), "gb_s": bytes / 1e6 / median, "cpu_s_per_gb": cpu_s.map(|s| s / (bytes / 1e9)),
        "peak_device_bytes": job.device_bytes(), "verified": is_right,
        "status": if is_right { "ok" } else { "wrong" }, "strategy": strategy, "explain": explain,
    }));
    if !is_right {
        object.insert("reason".to_owned(), json!("bytes differ from the sources'"));
    }
    object.extend(fields(job.more()));
    Ok(object)
}

/// Two runs to warm up, then as many as the effort allows.
fn samples(engine: &Engine, job: &mut dyn Job, effort: &Effort) -> Result<Samples, EngineError> {
    for _ in 0..2 {
        drop(job.run()?);
        engine.synchronize()?;
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (mut returned, mut done) = (Vec::new(), Vec::new());
    let (began, cpu) = (Instant::now(), host::cpu_time());
    while done.len() < effort.min_samples
        || (done.len() < effort.max_samples && began.elapsed() < effort.target)
    {
        engine.synchronize()?;
        let start = Instant::now();
        let results = job.run()?;
        returned.push(ms(start.elapsed()));
        engine.synchronize()?;
        done.push(ms(start.elapsed()));
        drop(results);
    }
    let used = cpu.zip(host::cpu_time()).map(|(before, after)| (after.0 - before.0) as f64 / 1e9);
    Ok(Samples { cpu_s: used.map(|s| s / done.len() as f64), returned, done })
}

/// The value below which this part of the samples lies, between neighbours as the straight line.
fn quantile(samples: &mut [f64], part: f64) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    let Some(last) = samples.len().checked_sub(1) else { return 0.0 };
    let at = part * last as f64;
    // At most `last`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position among samples")]
    let below = (at as usize).min(last);
    let above = (below + 1).min(last);
    samples[below] + (samples[above] - samples[below]) * (at - below as f64)
}

/// Rates of the link and of a copy in the host's memory, in GB/s: the median of five.
fn probe(engine: &Engine, bytes: usize) -> Result<Value, EngineError> {
    let context = engine.context();
    let new = || Stream::new(context, StreamKind::NonBlocking);
    let (up, down) = (new()?, new()?);
    let (here, there) = (DeviceBlock::new(context, bytes)?, DeviceBlock::new(context, bytes)?);
    let (mut from, mut to) = (HostBlock::new(context, bytes)?, HostBlock::new(context, bytes)?);
    from.settle_and_fill(1)?;
    to.settle_and_fill(2)?;
    let gb_s = |time: f64, n: usize| (bytes * n) as f64 / 1e9 / time;
    let alone = |stream, device, host: &mut HostBlock, to_host, n| {
        let start = Instant::now();
        Stream::copies_and_wait(&mut [(stream, device, host, to_host)], bytes, n)?;
        Ok::<f64, EngineError>(start.elapsed().as_secs_f64())
    };
    let mut times = [(); 4].map(|()| Vec::new());
    for _ in 0..5 {
        times[0].push(alone(&up, &here, &mut from, false, 2)?);
        times[1].push(alone(&down, &there, &mut to, true, 2)?);
        // Both at once, each by its own clock: a link may give one direction more than the other.
        let gate = Barrier::new(2);
        let both = thread::scope(|scope| {
            let other = scope.spawn(|| {
                gate.wait();
                alone(&down, &there, &mut to, true, 4)
            });
            gate.wait();
            let one = alone(&up, &here, &mut from, false, 4);
            Ok::<_, EngineError>([one?, other.join().unwrap_or(Err(EngineError::Panicked))?])
        })?;
        times[2].push(both[0]);
        times[3].push(both[1]);
    }
    let [h2d, d2h, both_h2d, both_d2h] = times.map(|mut times| quantile(&mut times, 0.5));
    let mut idle: Vec<f64> = Vec::new();
    for _ in 0..50 {
        let start = Instant::now();
        engine.synchronize()?;
        idle.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let memcpy = |n: usize, runs: usize| {
        let (source, mut copied) = (vec![1u8; n], vec![0u8; n]);
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..runs {
            let start = Instant::now();
            copy(&mut copied, std::hint::black_box(&source), Stores::Plain);
            times.push(start.elapsed().as_secs_f64());
        }
        n as f64 / 1e9 / quantile(&mut times, 0.5)
    };
    Ok(json!({
        "h2d_gb_s": gb_s(h2d, 2), "d2h_gb_s": gb_s(d2h, 2),
        "bidir_h2d_gb_s": gb_s(both_h2d, 4), "bidir_d2h_gb_s": gb_s(both_d2h, 4),
        "idle_sync_us": quantile(&mut idle, 0.5),
        // Larger than caches, where the link is measured with as much.
        "memcpy_hot_gb_s": memcpy(1 << 20, 50), "memcpy_cold_gb_s": memcpy(bytes.min(64 << 20), 10),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let mut samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|part| quantile(&mut samples, part)), [1.0, 1.75, 2.5, 4.0]);
        assert_eq!(quantile(&mut [7.0], 0.75), 7.0);
    }
}
