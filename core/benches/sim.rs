//! What simulating costs against program length and stream count: `cargo bench -p spanlift --bench sim`.
//!
//! Elements are events, each a start or a completion of a command.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use spanlift::machine::Machine;
use spanlift::sim::{self, Prepared, sample};

fn simulate(c: &mut Criterion) {
    let machine = Machine::builtin("h200-pcie5").expect("it comes with spanlift");
    let mut group = c.benchmark_group("sim");
    group.sample_size(20).measurement_time(Duration::from_secs(3));
    let by_length = [1_000, 10_000, 100_000].map(|n| (n, 16));
    let by_streams = [1, 4, 64, 256].map(|k| (10_000, k));
    for (n, streams) in by_length.into_iter().chain(by_streams) {
        let program = sample::pipelines(n, streams);
        let prepared = Prepared::new(&program).expect("a sample is a program");
        group.throughput(Throughput::Elements(2 * sample::n_timed(&program) as u64));
        let what = format!("{n}x{streams}");
        group.bench_function(BenchmarkId::new("prepared", &what), |b| {
            b.iter_with_large_drop(|| prepared.run(black_box(&machine)));
        });
        group.bench_function(BenchmarkId::new("from_program", &what), |b| {
            b.iter_with_large_drop(|| sim::run(black_box(&program), &machine));
        });
    }
}

criterion_group!(benches, simulate);
criterion_main!(benches);
