//! The host's part of a transfer: copies into and out of page-locked memory, on several cores.
//!
//! A pageable tensor crosses the host's memory once more than a page-locked one, so these copies are what bounds it. One
//! core copies 6 to 9 GB/s on server processors; a link of the fifth generation takes 55. Hence threads that stay, pieces
//! that they take one after the other, and stores that pass the cache by into slots: beside an H100 a copy of 4 MB took 80 us
//! from memory, 100 from lines that one core had just changed and 160 to 175 from those of four to twelve.
//!
//! ```
//! use spanlift_native::engine::copy::{Packing, Stores, Workers};
//!
//! let workers = Workers::new(2)?;
//! let tensors = [&b"one"[..], b"", b"three"];
//! let packing = Packing::new(tensors.iter().map(|t| t.len()), 8)?;
//! let mut block = vec![0; packing.bytes()];
//! workers.gather(&tensors, &packing, &mut block, Stores::Plain);
//! assert_eq!(&block, b"one\0\0\0\0\0three\0\0\0");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod packing;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use packing::Part;
pub use packing::{Packing, TooLarge};

/// How bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Through the cache: what a processor reads again soon.
    Plain,
    /// Past the cache, where the processor can: what no processor reads soon, such as a small slot that a device reads next: it
    /// takes twice as long to read what lies changed in the caches of several cores.
    Streaming,
}

/// Copies all of `from`.
///
/// # Panics
/// The lengths differ.
pub fn copy(to: &mut [u8], from: &[u8], stores: Stores) {
    copy_part(to, from, stores);
    fence(stores);
}

/// What follows [`copy_part`] before anybody is told that it is done.
fn fence(stores: Stores) {
    if stores == Stores::Streaming {
        crate::processor::fence();
    }
}

/// One of several copies that are done with the [`fence`] behind them.
fn copy_part(to: &mut [u8], from: &[u8], stores: Stores) {
    assert_eq!(to.len(), from.len(), "bug: a copy between different lengths");
    match stores {
        Stores::Plain => to.copy_from_slice(from),
        Stores::Streaming => crate::processor::copy_streaming(to, from),
    }
}

/// Pieces of work that threads take one after the other.
pub(crate) struct Queue<I>(Mutex<I>);

impl<I: Iterator> Queue<I> {
    pub(crate) fn new(pieces: impl IntoIterator<IntoIter = I>) -> Queue<I> {
        Queue(Mutex::new(pieces.into_iter()))
    }

    /// The next piece. A thread that panicked took whole pieces only, so the rest is as it was.
    pub(crate) fn next(&self) -> Option<I::Item> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// Bytes of a piece that one thread copies at a time.
const PIECE: usize = 1 << 20;
/// Bytes for which a thread is woken.
const LEAST: usize = 256 << 10;
/// Pieces for each thread: one that wakes late, or whose core somebody else has, leaves its own to the others.
const PIECES_EACH: usize = 4;

/// More threads than anything copies with.
const MOST: usize = 1024;

/// Threads that stay for as long as the engine does; the calling thread takes part beside them.
#[derive(Debug)]
pub struct Workers {
    /// Absent where the calling thread is enough.
    pool: Option<rayon::ThreadPool>,
    count: usize,
    /// How often they were called, for those on the lookout.
    calls: Arc<AtomicUsize>,
}

/// So long a thread that has done its part looks out for the next call before it sleeps: transfers come in a row, and waking it takes
/// a good part of a small one.
///
/// On a virtual machine with two cores, a call of both that does nothing took 33 to 58 us when it came 20 to 40 us after the one before,
/// and takes 4 now; one that comes later takes as long as before. Beside an H100 waking three to seven threads took 15 to 24 us, a
/// tenth of a transfer of 4 MB.
const LOOKOUT: Duration = Duration::from_micros(50);

/// Keeps a thread of the pool awake for a while, until there is another call than `seen`. Whoever else wants the core has it meanwhile.
fn look_out(calls: &AtomicUsize, seen: usize) {
    let began = Instant::now();
    while calls.load(Ordering::Relaxed) == seen && began.elapsed() < LOOKOUT {
        std::thread::yield_now();
    }
}

/// Whether the calling thread is of a pool of rayon's, whosever it is.
fn is_of_rayon() -> bool {
    rayon::current_thread_index().is_some()
}

/// A thread that does `work`; none where the system has no more of them.
fn started<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    k: usize,
    work: impl FnOnce() + Send + 'scope,
) -> Option<std::thread::ScopedJoinHandle<'scope, ()>> {
    std::thread::Builder::new().name(format!("spanlift-copy-{k}")).spawn_scoped(scope, work).ok()
}

/// Threads could not be started.
#[derive(thiserror::Error)]
#[error("{count} copy threads: {reason}")]
pub struct ThreadError {
    /// How many were asked for.
    pub count: usize,
    /// Why not.
    pub reason: String,
}

readable!(ThreadError);

impl Workers {
    /// `count` threads, the calling one included; at least one, and at most 1024.
    ///
    /// # Errors
    /// [`ThreadError`]: more than that, or the operating system gives no more threads.
    pub fn new(count: usize) -> Result<Workers, ThreadError> {
        let count = count.max(1);
        // Else a number that is no number of threads takes minutes and all that there is of them.
        if count > MOST {
            return Err(ThreadError { count, reason: format!("{MOST} are the most") });
        }
        let build = || {
            let builder = rayon::ThreadPoolBuilder::new();
            builder.num_threads(count - 1).thread_name(|k| format!("spanlift-copy-{k}")).build()
        };
        let pool = (count > 1).then(build).transpose();
        let pool = pool.map_err(|e| ThreadError { count, reason: e.to_string() })?;
        Ok(Workers { pool, count, calls: Arc::default() })
    }

    /// As many as copy best on this machine: three quarters of its cores, at most twelve.
    ///
    /// Beside an H100 on 16 cores eight threads filled slots as fast as the link takes them, and no more make it faster; but other
    /// machines share that memory, and where a core copied 6 GB/s instead of 8 eight of them were too few. To fetch into fresh memory
    /// took eight threads 78 ms, twelve 59 and sixteen 48.
    ///
    /// # Errors
    /// As [`Workers::new`].
    pub fn usual() -> Result<Workers, ThreadError> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Workers::new((cores * 3 / 4).clamp(1, 12))
    }

    /// How many threads there are, the calling one included.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs `job` on `n` threads at most, each with a number of its own from 0, which is the calling thread's; returns
    /// when all are done.
    ///
    /// Nothing else runs on the calling thread meanwhile. One of rayon's waits for a pool by taking other tasks of its own, which may want
    /// what it holds: for such a caller a thread that is none takes its part, and it sleeps.
    ///
    /// # Panics
    /// Passes on the panic of a job once the others are done.
    pub(crate) fn run(&self, n: usize, job: &(impl Fn(usize) + Sync)) {
        match &self.pool {
            Some(pool) if n > 1 && is_of_rayon() => {
                let all = std::thread::scope(|scope| {
                    // Refused, all of it is done here, one after the other.
                    let thread = started(scope, 0, || self.spread(pool, n, job));
                    thread.map(std::thread::ScopedJoinHandle::join)
                });
                match all {
                    Some(Ok(())) => {}
                    Some(Err(payload)) => std::panic::resume_unwind(payload),
                    None => (0..n.min(self.count)).for_each(job),
                }
            }
            Some(pool) if n > 1 => self.spread(pool, n, job),
            _ => job(0),
        }
    }

    /// The same on threads that are none of a pool's, for jobs that call what is the caller's: that may ask rayon to do something, which
    /// on a pool's thread takes that pool's other tasks meanwhile, and so may wait for what the job itself has.
    ///
    /// # Cost
    /// Threads are started and end.
    ///
    /// # Panics
    /// As [`Workers::run`].
    pub(crate) fn run_apart(&self, n: usize, job: &(impl Fn(usize) + Sync)) {
        let first = usize::from(!is_of_rayon());
        let ended = std::thread::scope(|scope| {
            let (mut threads, mut here) = (Vec::new(), Vec::new());
            for k in first..n.clamp(1, self.count) {
                match started(scope, k, move || job(k)) {
                    Some(thread) => threads.push(thread),
                    None => here.push(k),
                }
            }
            (0..first).chain(here).for_each(job);
            // One that nobody joins has its message replaced.
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).fold(Ok(()), Result::and)
        });
        if let Err(payload) = ended {
            std::panic::resume_unwind(payload);
        }
    }

    /// The same from a thread that is none of rayon's.
    fn spread(&self, pool: &rayon::ThreadPool, n: usize, job: &(impl Fn(usize) + Sync)) {
        let seen = self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        pool.in_place_scope(|scope| {
            for k in 1..n.min(self.count) {
                let calls = Arc::clone(&self.calls);
                scope.spawn(move |_| {
                    job(k);
                    // In its own queue, so that it is what this thread takes next.
                    rayon::spawn(move || look_out(&calls, seen));
                });
            }
            job(0);
        });
    }

    /// Copies all of `from`, on as many threads as it is worth waking.
    ///
    /// # Panics
    /// The lengths differ.
    pub fn copy(&self, to: &mut [u8], from: &[u8], stores: Stores) {
        assert_eq!(to.len(), from.len(), "bug: a copy between different lengths");
        let n_threads = (to.len() / LEAST).clamp(1, self.count);
        let piece = to.len().div_ceil(n_threads * PIECES_EACH).next_multiple_of(4096).clamp(4096, PIECE);
        let pieces = Queue::new(to.chunks_mut(piece).zip(from.chunks(piece)));
        self.run(n_threads, &|_| {
            while let Some((to, from)) = pieces.next() {
                copy(to, from, stores);
            }
        });
    }

    /// Lays tensors into one block, each at its start. Bytes between them stay as they are.
    ///
    /// # Panics
    /// The packing is not that of these tensors, or the block is not as large as it.
    pub fn gather(&self, from: &[&[u8]], packing: &Packing, block: &mut [u8], stores: Stores) {
        packing.expect(from.iter().map(|t| t.len()), block.len());
        let pieces = Queue::new(block.chunks_mut(PIECE).enumerate());
        self.run(packing.bytes().div_ceil(PIECE), &|_| {
            while let Some((k, piece)) = pieces.next() {
                packing.gather(from, k * PIECE, piece, stores);
            }
        });
    }

    /// Takes tensors out of one block, the other way round.
    ///
    /// # Panics
    /// As [`Workers::gather`].
    pub fn scatter(&self, block: &[u8], packing: &Packing, to: &mut [&mut [u8]], stores: Stores) {
        packing.expect(to.iter().map(|t| t.len()), block.len());
        let starts: Vec<usize> = (0..packing.bytes()).step_by(PIECE).collect();
        let pieces = packing.cut(to, &starts);
        let n_pieces = pieces.len();
        let pieces = Queue::new(pieces);
        self.run(n_pieces, &|_| {
            while let Some(piece) = pieces.next() {
                for part in piece {
                    copy(part.to, &block[part.at..part.at + part.to.len()], stores);
                }
            }
        });
    }
}
