//! What checking a program costs: by its length, by how many streams it has, and read from a file at once or command by
//! command.
//!
//! `cargo bench -p spanlift --bench check`; results stand in `tests/measured/check.json`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use spanlift::hazard::{Mode, check, check_each, check_read, sample};

fn by_length(c: &mut Criterion) {
    let mut group = c.benchmark_group("length");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    for n in [1_000, 10_000, 100_000, 1_000_000] {
        let program = sample::columns(n, 16);
        group.throughput(Throughput::Elements(program.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(n), &program, |b, program| {
            b.iter(|| check(black_box(program), Mode::Contract));
        });
    }
    group.finish();
}

fn by_streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("streams");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    for n_streams in [1, 4, 16, 64, 256] {
        let program = sample::columns(100_000, n_streams);
        group.throughput(Throughput::Elements(program.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(2 * n_streams), &program, |b, program| {
            b.iter(|| check(black_box(program), Mode::Contract));
        });
    }
    group.finish();
}

fn as_it_is_read(c: &mut Criterion) {
    let mut group = c.benchmark_group("read");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let program = sample::columns(100_000, 16);
    group.throughput(Throughput::Elements(program.len() as u64));
    group.bench_function("commands", |b| {
        b.iter(|| check_each(program.names(), program.commands().iter().cloned(), Mode::Contract));
    });
    let (text, json) = (program.to_text(), program.to_json());
    group.bench_function("text", |b| b.iter(|| check_read(black_box(text.as_bytes()), Mode::Contract)));
    group.bench_function("json", |b| b.iter(|| check_read(black_box(json.as_bytes()), Mode::Contract)));
    group.finish();
}

criterion_group!(benches, by_length, by_streams, as_it_is_read);
criterion_main!(benches);
