//! Programs of any size, to measure with.

use crate::ordered::CollectVec;
use crate::program::Program;
use crate::units::{mib, us};

/// About `n` commands that do something, dealt out over `n_streams` streams: copy in, kernel, copy out, a record, and a
/// wait of the next stream for it.
///
/// ```
/// let p = spanlift::sim::sample::pipelines(100, 4);
/// assert_eq!(spanlift::sim::sample::n_timed(&p), 104); // and one sync of each stream
/// ```
pub fn pipelines(n: usize, n_streams: usize) -> Program {
    let mut p = Program::new();
    let n_streams = n_streams.max(1);
    let streams: Vec<_> = (0..n_streams)
        .map(|k| {
            let (x, d) = (p.pinned(&format!("x{k}"), mib(4)), p.device(0, &format!("d{k}"), mib(4)));
            let y = p.pinned(&format!("y{k}"), mib(4));
            (p.stream(&format!("s{k}")), p.event(&format!("e{k}")), x, d, y)
        })
        .collect_vec();
    for k in (0..n_streams).cycle().take(n / 5) {
        let (s, e, x, d, y) = streams[k];
        p.copy(d, x).on(s);
        p.kernel("step").reads(d).writes(d).takes(us(50)).on(s);
        p.copy(y, d).on(s);
        p.record(e, s);
        p.wait(streams[(k + 1) % n_streams].0, e);
    }
    for (s, ..) in streams {
        p.sync(s);
    }
    p
}

/// Commands that have a start and a completion in time: all but declarations.
pub fn n_timed(program: &Program) -> usize {
    use crate::program::Op;
    let declares = |op: &Op| matches!(op, Op::Stream { .. } | Op::EventCreate { .. } | Op::Alloc(_));
    program.commands().iter().filter(|c| !declares(&c.op)).count()
}
