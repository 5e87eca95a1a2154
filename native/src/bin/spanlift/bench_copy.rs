//! `spanlift bench copy`: what the host's part of a transfer could reach on this machine, without a device.

use std::hint::black_box;
use std::time::{Duration, Instant};

use spanlift_native::engine::copy::{Packing, Stores, Workers};

use crate::bench::Figure;
use crate::say::Fail;

/// Bytes that are read, walked through so that they come from memory: more than caches have.
const SOURCE: usize = 256 << 20;
/// Bytes that are written again and again, as slots are.
const RINGS: [(usize, &str); 3] = [(8 << 20, "8MiB"), (64 << 20, "64MiB"), (256 << 20, "256MiB")];

pub(crate) fn figures(threads: Option<u32>) -> Result<Vec<Figure>, Fail> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let most = threads.map_or(cores.min(16), |n| n as usize);
    let source = vec![1u8; SOURCE];
    let mut found = Vec::new();
    let mut ring = vec![0u8; SOURCE];
    for n_threads in (0..7).map(|k| 1usize << k).filter(|n| *n <= most) {
        let workers = Workers::new(n_threads).map_err(|e| Fail::new(e.to_string()))?;
        for (bytes, name) in RINGS {
            for (stores, how) in [(Stores::Plain, "plain"), (Stores::Streaming, "streaming")] {
                let rate = walk(&workers, &source, &mut ring[..bytes], stores);
                let name = format!("copy.{how}.ring_{name}.threads_{n_threads}");
                found.push(figure(name, rate, "B/s"));
            }
        }
    }
    let limit = found.iter().map(|f| f.value).fold(0.0, f64::max);
    found.insert(0, figure("copy.limit_bytes_per_s".to_owned(), limit, "B/s"));
    let one = found.iter().find(|f| f.name == "copy.plain.ring_8MiB.threads_1").map_or(0.0, |f| f.value);
    found.insert(1, figure("copy.bytes_per_s_per_thread".to_owned(), one, "B/s"));
    let workers = Workers::new(most).map_err(|e| Fail::new(e.to_string()))?;
    found.extend(small(&workers)?);
    found.push(figure("copy.first_touch_bytes_per_s".to_owned(), first_touch(&source), "B/s"));
    Ok(found)
}

fn figure(name: String, value: f64, unit: &'static str) -> Figure {
    Figure { name: name.into(), value, unit }
}

/// Bytes a second of copies from everywhere in the source into one ring.
fn walk(workers: &Workers, source: &[u8], ring: &mut [u8], stores: Stores) -> f64 {
    let n = ring.len();
    let mut at = 0;
    let time = least(|| {
        workers.copy(ring, black_box(&source[at..at + n]), stores);
        at = (at + n) % (source.len() - n + 1).max(1);
    });
    n as f64 / time.as_secs_f64()
}

/// A thousand tensors of 4 KB into one block and out of it.
fn small(workers: &Workers) -> Result<Vec<Figure>, Fail> {
    let tensors = vec![vec![1u8; 4000]; 1000];
    let from: Vec<&[u8]> = tensors.iter().map(Vec::as_slice).collect();
    let packing = Packing::new(from.iter().map(|t| t.len()), 512).map_err(|e| Fail::new(e.to_string()))?;
    let mut block = vec![0u8; packing.bytes()];
    let gather = least(|| workers.gather(black_box(&from), &packing, &mut block, Stores::Plain));
    let mut back = vec![vec![0u8; 4000]; 1000];
    let scatter = least(|| {
        let mut to: Vec<&mut [u8]> = back.iter_mut().map(Vec::as_mut_slice).collect();
        workers.scatter(black_box(&block), &packing, &mut to, Stores::Plain);
    });
    let rate = |time: Duration| 4_000_000.0 / time.as_secs_f64();
    Ok(vec![
        figure("copy.gather_1000x4KB_bytes_per_s".to_owned(), rate(gather), "B/s"),
        figure("copy.scatter_1000x4KB_bytes_per_s".to_owned(), rate(scatter), "B/s"),
    ])
}

/// Writes to memory that was never touched: page faults bound them.
fn first_touch(source: &[u8]) -> f64 {
    let n = 64 << 20;
    let time = least(|| {
        let mut fresh = Vec::with_capacity(n);
        fresh.extend_from_slice(black_box(&source[..n]));
        black_box(&mut fresh);
    });
    n as f64 / time.as_secs_f64()
}

/// The least time, over a fifth of a second and at least three times.
fn least(mut work: impl FnMut()) -> Duration {
    let began = Instant::now();
    let (mut least, mut times) = (Duration::MAX, 0);
    while times < 3 || began.elapsed() < Duration::from_millis(200) {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed());
        times += 1;
    }
    least
}
