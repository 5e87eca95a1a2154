//! The CPU runner: the same values as the simulator's where nothing races, and tensors that are really moved.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::memory::{
    Block, Device, Dim, Dtype, Layout, MemoryMap, MovePlan, Span, Splitting, Tensor, View, cpu as host, cuda,
    mock,
};
use spanlift::program::{Compute, Contents, Region, Space, StreamId};
use spanlift::{Bytes, Program, plan, sim};
use spanlift_native::cpu::{self, CpuError, Memory, MemoryError};
use spanlift_native::programs;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: i64) -> i64 {
        i64::try_from(self.next() % n.unsigned_abs()).unwrap()
    }

    fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())].clone()
    }
}

fn is_safe(program: &Program) -> bool {
    hazard::check(program, Mode::Contract).unwrap().verdict() == Verdict::Safe
}

/// What a run read, without the times.
fn wrong(reads: &[sim::Reading]) -> Vec<(usize, u64, u64)> {
    reads.iter().map(|r| (r.command, r.n_elements, r.n_wrong)).collect()
}

#[test]
fn shipped_programs_end_with_the_simulators_values() {
    // A hundred rounds of 4 MB each are slow where nothing is optimised.
    let full = std::env::var_os("SPANLIFT_FULL").is_some() || !cfg!(debug_assertions);
    let mut with_values = 0;
    for shipped in programs::all() {
        let program = shipped.program();
        if !is_safe(&program) || (!full && shipped.name == "control-d2h-read-after-sync") {
            continue;
        }
        let (here, there) = (cpu::run(&program).unwrap(), sim::run(&program, &Machine::default()).unwrap());
        assert_eq!(here.finals, there.finals, "{}", shipped.name);
        assert_eq!(wrong(&here.reads), wrong(&there.reads), "{}", shipped.name);
        let labels = |marks: &[sim::Mark]| marks.iter().map(|m| m.label.clone()).collect::<BTreeSet<_>>();
        assert_eq!(labels(&here.marks), labels(&there.marks), "{}", shipped.name);
        with_values += i32::from(!here.finals.is_empty());
    }
    assert!(with_values >= 2, "{with_values} programs carry values");
}

/// A part of a buffer of 64 bytes.
fn part(rng: &mut Rng, buffer: spanlift::program::BufferId) -> Region {
    if rng.below(2) == 0 {
        let off = 8 * rng.below(5);
        return buffer.range(off, 8 * (1 + rng.below(8 - off / 8)));
    }
    loop {
        let dims: Vec<Dim> = (0..1 + rng.below(2))
            .map(|_| Dim { count: 1 + rng.below(4), stride: rng.below(40) - 16 })
            .collect();
        let span = Span::strided(rng.below(56), rng.of(&[1, 2, 4, 8]), dims).unwrap();
        if span.bounds().is_some_and(|(lo, hi)| 0 <= lo && hi <= 64) {
            return buffer.spanned(span);
        }
    }
}

/// A program on several streams that waits often, so that it is often safe.
fn random_program(seed: u64) -> Program {
    let mut rng = Rng(seed);
    let mut p = Program::new();
    let streams: Vec<StreamId> = vec![p.stream("s"), p.stream_on(1, "t"), p.legacy(0)];
    let mut buffers = Vec::new();
    for k in 0..5u32 {
        let space = rng.of(&[Space::Pinned, Space::Pageable, Space::Device, Space::Device]);
        let contents = rng.of(&[Some(Contents::Seed(seed)), None]).or_else(|| {
            let dtype = rng.of(&Dtype::ALL);
            (rng.below(2) == 0).then(|| Contents::ramp(dtype, 1.0, 3.0))
        });
        let dev = if space == Space::Device { k % 2 } else { 0 };
        buffers.push((p.buffer(&format!("b{k}"), space, dev, Bytes(64), contents), space));
    }
    let is_host = |space| matches!(space, Space::Pinned | Space::Pageable);
    for _ in 0..12 {
        let stream = rng.of(&streams[..2]);
        let ((a, space_a), (b, _), (c, _)) = (rng.of(&buffers), rng.of(&buffers), rng.of(&buffers));
        let (at, from, other) = (part(&mut rng, a), part(&mut rng, b), part(&mut rng, c));
        match rng.below(10) {
            0..3 if a != b => {
                p.copy(at, from).on(stream);
            }
            3 => {
                p.memset(at, 7).on(stream);
            }
            4 | 5 => {
                let dtype = rng.of(&[Dtype::U8, Dtype::I16, Dtype::F32, Dtype::I64, Dtype::C32]);
                let compute = rng.of(&[
                    Compute::affine(dtype, 2.0, 1.0),
                    Compute::sum(dtype),
                    Compute::mul_conj(dtype),
                    Compute::fill(dtype, 5.0),
                ]);
                p.kernel("k").reads(from).reads(other).writes(at).computes(compute).on(stream);
            }
            6 if is_host(space_a) => {
                p.host_write(at, Contents::fill(Dtype::I16, 3.0));
            }
            7 if is_host(space_a) => {
                p.host_expect(at, Contents::Seed(seed));
            }
            8 => {
                p.capture(stream);
                p.memset(a.range(0, 8), 9).on(stream);
                if a != b {
                    p.copy(a.range(8, 8), b.range(0, 8)).on(stream);
                }
                let graph = p.end_capture(stream, &format!("g{}", p.len()));
                p.launch(graph, stream);
                p.launch(graph, stream);
            }
            9 => {
                // Its bytes are handed out again: by the stream, or by the host, which waits for all that used them.
                let by_stream = rng.below(2) == 0;
                if by_stream {
                    p.free_async(a, stream);
                } else {
                    p.device_sync(0);
                    p.device_sync(1);
                    p.free(a);
                }
                let (name, k) = (format!("b{}", p.len()), buffers.iter().position(|x| x.0 == a).unwrap());
                let dev = u32::from(space_a == Space::Device && k % 2 == 1);
                let again = p.alloc(space_a, &name, Bytes(64)).dev(dev).reuse(a);
                let again = if by_stream { again.on(stream) } else { again };
                let again = match rng.below(3) {
                    0 => again.declare(),
                    _ => again.holds(Contents::fill(Dtype::U8, 4.0)).declare(),
                };
                buffers[k].0 = again;
            }
            _ => {}
        }
        if rng.below(5) > 0 {
            p.sync(stream);
        }
    }
    streams.iter().for_each(|&s| {
        p.sync(s);
    });
    p
}

#[test]
fn random_safe_programs_end_with_the_simulators_values() {
    let (mut safe, mut moved) = (0, 0);
    for seed in 0..400 {
        let program = random_program(seed);
        if !is_safe(&program) {
            // It runs all the same.
            cpu::run(&program).unwrap();
            continue;
        }
        safe += 1;
        let (here, there) = (cpu::run(&program).unwrap(), sim::run(&program, &Machine::default()).unwrap());
        for (a, b) in here.finals.iter().zip(&there.finals) {
            let name = program.names().buffer(a.buffer);
            assert_eq!(a, b, "seed {seed}: {name}\n{}", program.to_text());
            moved += i32::from(a.bytes.iter().any(|&x| x != 0));
        }
        assert_eq!(here.finals.len(), there.finals.len(), "seed {seed}");
        assert_eq!(wrong(&here.reads), wrong(&there.reads), "seed {seed}\n{}", program.to_text());
    }
    assert!(safe > 100 && moved > 200, "{safe} of 400 are safe, {moved} buffers hold something");
}

#[test]
fn a_graph_that_pulls_in_another_stream_runs_whole() {
    let mut p = Program::new();
    let (s, t) = (p.stream("s"), p.stream("t"));
    let x = p.buffer("x", Space::Pinned, 0, Bytes(4), Contents::fill(Dtype::U8, 3.0));
    let (d, e) = (p.device(0, "d", Bytes(4)), p.device(0, "e", Bytes(4)));
    p.capture(s);
    p.copy(d, x).on(s);
    let fork = p.event_after(s);
    p.wait(t, fork);
    p.copy(e, d).on(t);
    let join = p.event_after(t);
    p.wait(s, join);
    p.kernel("sum").reads(d).reads(e).writes(d).computes(Compute::sum(Dtype::U8)).on(s);
    let graph = p.end_capture(s, "g");
    p.copy(x, e).on(t); // outside of it again: nothing has run yet
    p.launch(graph, s);
    p.sync(t);
    p.sync(s);
    let bytes: Vec<Vec<u8>> = cpu::run(&p).unwrap().finals.into_iter().map(|f| f.bytes).collect();
    assert_eq!(bytes, [vec![0; 4], vec![0; 4], vec![0; 4]]);
}

#[test]
fn what_is_wrong_is_said() {
    let mut p = Program::new();
    let freed = p.pinned("freed", Bytes(1));
    p.free(freed);
    p.free(freed);
    assert!(matches!(cpu::run(&p), Err(CpuError::Problems(_))));
    let mut p = Program::new();
    let x = p.pinned("x", Bytes(8));
    let limit = |given: &[(&str, usize)], limit| {
        let given = given.iter().map(|&(name, n)| (name.to_owned(), vec![0; n])).collect();
        cpu::run_with(&p, given, Bytes(limit)).map(|run| run.finals.len())
    };
    assert_eq!(limit(&[], 0), Ok(0));
    assert_eq!(limit(&[("x", 8)], 8), Ok(1));
    assert_eq!(limit(&[("x", 8)], 7), Err(CpuError::TooManyBytes { bytes: 8, limit: 7 }));
    assert!(matches!(limit(&[("x", 7)], 8), Err(CpuError::WrongLength { bytes: 8, given: 7, .. })));
    assert_eq!(limit(&[("y", 8)], 8), Err(CpuError::NoBuffer("y".to_owned())));
    let everywhere = Span::strided(0, 8, vec![Dim { count: i64::MAX, stride: 0 }]).unwrap();
    p.host_read(x.spanned(everywhere));
    let given = BTreeMap::from([("x".to_owned(), vec![0; 8])]);
    let told = cpu::run_with(&p, given, Bytes(100)).unwrap_err();
    assert!(matches!(told, CpuError::TooManyBytesAt { index: 1, .. }), "{told}");
    let mut layout = Layout::new();
    let w = layout.storage("w", host(), Bytes(1 << 40)).unwrap();
    assert!(matches!(Memory::of(&layout), Err(MemoryError::TooManyBytes { .. })));
    layout
        .tensor("a", w, View { dtype: Dtype::U8, shape: vec![1 << 50], strides: vec![0], offset: 0 })
        .unwrap();
    let memory = Memory::of(&Layout::new()).unwrap();
    assert!(matches!(memory.read(&layout, "a"), Err(MemoryError::TooManyBytes { .. })));
    assert_eq!(memory.read(&layout, "b"), Err(MemoryError::NoTensor("b".to_owned())));
}

/// Every byte position of a view, element by element, from shape and strides alone.
fn positions(view: &View) -> Vec<i64> {
    let item = view.dtype.bytes();
    let mut elements = vec![view.offset];
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        elements = elements.iter().flat_map(|e| (0..size).map(move |i| e + i * stride)).collect();
    }
    elements.iter().flat_map(|e| (0..item).map(move |j| e * item + j)).collect()
}

/// A map of random views of two blocks, and memory with random bytes.
fn random_map(rng: &mut Rng) -> (MemoryMap, Memory, BTreeMap<String, (usize, View)>) {
    let splitting = rng.of(&[Splitting::ALWAYS, Splitting::NEVER, Splitting::at_gaps_of(Bytes(16))]);
    let mut map = MemoryMap::new().splitting(splitting);
    let mut views = BTreeMap::new();
    let blocks =
        [Block::new("v", host(), Bytes(160)), Block::new("w", rng.of(&[host(), cuda(1)]), Bytes(320))];
    while views.len() < 7 {
        let b = rng.index(2);
        let dtype = rng.of(&Dtype::ALL);
        let rank = rng.below(3);
        let shape: Vec<i64> = (0..rank).map(|_| rng.of(&[0, 1, 2, 3, 5])).collect();
        let strides: Vec<i64> = (0..rank).map(|_| rng.of(&[-3, -1, 0, 1, 2, 4, 7])).collect();
        let view = View { dtype, shape, strides, offset: rng.below(300 / dtype.bytes()) };
        let tensor = blocks[b].view(view.clone());
        if map.register(&format!("t{}", views.len()), &tensor).is_ok() {
            views.insert(format!("t{}", views.len()), (b, view));
        }
    }
    let mut memory = Memory::of(&map.layout()).unwrap();
    for storage in map.layout().storages() {
        memory.put(&storage.id, (0..storage.bytes.0).map(|_| rng.next().to_le_bytes()[0]).collect());
    }
    (map, memory, views)
}

fn all(layout: &Layout, memory: &Memory) -> BTreeMap<String, Vec<u8>> {
    let read = |t: &Tensor| (t.name().to_owned(), memory.read(layout, t.name()).unwrap());
    layout.tensors().iter().map(read).collect()
}

/// Writes through one view after the other, and looks through all of them who sees it.
#[track_caller]
fn check_aliasing(
    layout: &Layout,
    memory: &mut Memory,
    views: &BTreeMap<String, (usize, View)>,
    rng: &mut Rng,
    note: &str,
) {
    for (name, (b, view)) in views {
        let before = all(layout, memory);
        let new: Vec<u8> = before[name].iter().map(|_| rng.next().to_le_bytes()[0]).collect();
        memory.write(layout, name, &new).unwrap();
        // By position in the registered block: the last element that lies there wins.
        let written: BTreeMap<i64, u8> = positions(view).into_iter().zip(new).collect();
        for (other, found) in all(layout, memory) {
            let (of, view) = &views[&other];
            let expected: Vec<u8> = positions(view)
                .into_iter()
                .zip(&before[&other])
                .map(|(p, old)| if of == b { written.get(&p).copied().unwrap_or(*old) } else { *old })
                .collect();
            assert_eq!(found, expected, "{note}: written through {name}, read through {other}");
        }
    }
}

#[test]
fn random_modules_are_moved_with_contents_and_aliasing() {
    for seed in 0..120 {
        let rng = &mut Rng(seed);
        let (mut map, mut memory, views) = random_map(rng);
        for step in 0..4 {
            let to: Device = rng.of(&[host(), cuda(0), cuda(1), mock(2)]);
            let before = all(&map.layout(), &memory);
            let plan = map.move_to(to).unwrap();
            let run = memory.carry_out(&plan).unwrap();
            assert!(is_safe(run.trace.program.as_ref().unwrap()), "seed {seed}, step {step}");
            map.apply(&plan).unwrap();
            assert_eq!(all(&map.layout(), &memory), before, "seed {seed}, step {step}: contents on {to}");
            check_aliasing(
                &map.layout(),
                &mut memory,
                &views,
                rng,
                &format!("seed {seed}, step {step} on {to}"),
            );
            assert!(memory.carry_out(&map.move_to(to).unwrap()).unwrap().finals.is_empty(), "again");
        }
        // The copy has the same contents, and nothing of it is the original.
        let original = map.layout();
        let before = all(&original, &memory);
        let plan = map.deepcopy().unwrap();
        memory.carry_out(&plan).unwrap();
        let copy = plan.after().unwrap();
        assert_eq!(all(&copy, &memory), before, "seed {seed}: copied contents");
        check_aliasing(&copy, &mut memory, &views, rng, &format!("seed {seed}: within the copy"));
        assert_eq!(all(&original, &memory), before, "seed {seed}: the original after writes to the copy");
        memory.keep(&copy);
        assert!(memory.block("v").is_none() && all(&copy, &memory).len() == 7);
    }
}

/// Tensors move one after the other, and into blocks that are there, beside what was written there since.
#[test]
fn what_is_there_is_kept_beside_what_comes() {
    let mut n_there = 0;
    for seed in 0..60 {
        let rng = &mut Rng(seed);
        let (mut map, mut memory, views) = random_map(rng);
        for step in 0..6 {
            let to: Device = rng.of(&[host(), cuda(0), cuda(1), mock(2)]);
            let before = all(&map.layout(), &memory);
            let some = views.keys().filter(|_| rng.below(2) == 0);
            let plan = map.move_only(some, to).unwrap();
            n_there += plan.allocations.iter().filter(|a| a.is_there).count();
            let run = memory.carry_out(&plan).unwrap();
            assert!(is_safe(run.trace.program.as_ref().unwrap()), "seed {seed}, step {step}");
            map.apply(&plan).unwrap();
            assert_eq!(all(&map.layout(), &memory), before, "seed {seed}, step {step}: contents on {to}");
            // Those that share elements are told the same.
            let salt = rng.below(251);
            for (name, (b, view)) in &views {
                let byte = |p: i64| (p * (7 + salt) + salt + b.cast_signed() as i64).to_le_bytes()[0];
                let new: Vec<u8> = positions(view).into_iter().map(byte).collect();
                memory.write(&map.layout(), name, &new).unwrap();
            }
        }
    }
    assert!(n_there > 20, "{n_there}");
}

/// The program of a plan, with bytes of a seed in every block that bytes are taken from.
fn seeded(plan: &MovePlan) -> (Program, BTreeMap<String, Vec<u8>>) {
    let program = plan::lower(plan).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&program.to_json()).unwrap();
    let mut given = BTreeMap::new();
    for op in file["ops"].as_array_mut().unwrap() {
        let is_source = plan.copies.iter().any(|c| op["buf"] == plan.before.storage_of(c.from).id);
        if op["op"] == "alloc" && is_source {
            op["contents"] = serde_json::json!({"seed": 5});
            let n = usize::try_from(op["bytes"].as_i64().unwrap()).unwrap();
            given.insert(op["buf"].as_str().unwrap().to_owned(), Contents::Seed(5).bytes(0, n));
        }
    }
    (Program::from_json(file.to_string().as_bytes()).unwrap(), given)
}

#[test]
fn given_bytes_and_declared_ones_end_alike_here_and_in_the_simulator() {
    for seed in 500..560 {
        let rng = &mut Rng(seed);
        let (map, ..) = random_map(rng);
        for plan in [map.move_to(cuda(0)).unwrap(), map.deepcopy().unwrap()] {
            let (declared, given) = seeded(&plan);
            let simulated = sim::run(&declared, &Machine::default()).unwrap().finals;
            assert_eq!(cpu::run(&declared).unwrap().finals, simulated, "seed {seed}");
            let bare = plan::lower(&plan).unwrap();
            assert_eq!(
                cpu::run_with(&bare, given, cpu::DEFAULT_LIMIT).unwrap().finals,
                simulated,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn memory_tells_what_it_holds_and_what_it_held() {
    let all = Block::new("w", spanlift::memory::cpu(), Bytes(16)).tensor(Dtype::U8, &[16]).unwrap();
    let mut map = MemoryMap::new();
    map.register("part", &all.narrow(0, 4, 8).unwrap()).unwrap();
    let mut memory = Memory::of(&map.layout()).unwrap();
    let held = |memory: &Memory| {
        let alive = memory.alive();
        assert_eq!(memory.alive(), alive, "asked twice");
        let of = alive.devices["cpu"].all;
        let sum: u64 = alive.buffers.iter().map(|b| b.bytes).sum();
        assert_eq!(of.bytes, u128::from(sum));
        (alive.buffers.len(), of.bytes, of.peak_bytes)
    };
    assert_eq!(held(&memory), (1, 16, 16));
    let plan = map.move_to(cuda(0)).unwrap();
    memory.carry_out(&plan).unwrap();
    map.apply(&plan).unwrap();
    assert_eq!(held(&memory), (2, 24, 24));
    memory.keep(&map.layout());
    assert_eq!(held(&memory), (1, 8, 24));
    assert!(memory.alive().to_string().contains("not seen:\n- copies of blocks"));
}
