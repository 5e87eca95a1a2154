//! What overlap tests, reports and move plans cost: `cargo bench -p spanlift --bench memory`.
//!
//! `tests/memory/measure.py` runs this, sets NumPy beside it and writes `tests/measured/memory.json`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use spanlift::memory::sample::{Pair, matrices};
use spanlift::memory::{DEFAULT_LIMIT, Span, cuda};

/// Pairs of each kind; the first seeds.
const PAIRS: u64 = 512;

/// Whether two spans meet, for each kind of pair; one iteration asks all of them.
fn overlap(c: &mut Criterion) {
    let mut group = c.benchmark_group("overlap");
    group.throughput(Throughput::Elements(PAIRS));
    for kind in Pair::ALL {
        let pairs: Vec<[Span; 2]> = (0..PAIRS)
            .map(|seed| kind.views(seed).each_ref().map(|v| v.span().expect("a sample has a span")))
            .collect();
        group.bench_function(kind.name(), |b| {
            b.iter(|| {
                for [a, b] in &pairs {
                    black_box(a.overlaps(b, DEFAULT_LIMIT));
                }
            });
        });
    }
}

/// Report and move plan against the number of tensors, ten views for each storage.
fn layouts(c: &mut Criterion) {
    let mut group = c.benchmark_group("layout");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    for tensors in [100, 1_000, 10_000, 100_000] {
        let layout = matrices(tensors / 10).expect("a sample is a layout");
        group.throughput(Throughput::Elements(tensors as u64));
        group.bench_function(BenchmarkId::new("report", tensors), |b| {
            b.iter(|| black_box(layout.report().expect("a sample is decided")));
        });
        group.bench_function(BenchmarkId::new("plan", tensors), |b| {
            b.iter(|| black_box(layout.move_to(cuda(0)).expect("a sample is decided")));
        });
    }
}

criterion_group!(benches, overlap, layouts);
criterion_main!(benches);
