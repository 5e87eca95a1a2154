//! Expressions on devices: plans run by the kernels that ship, which the software driver interprets instruction by
//! instruction, with every access held against every other. The reference's bits, since the kernels add in its order and
//! round as often.

use spanlift::chain;
use spanlift::hazard::{self, Mode, Relation, Verdict};
use spanlift::memory::{Dtype, cpu, cuda};
use spanlift::op::{
    self, Array, Boundary, Complex64, Dense, Diagonal, Fourier, FromFn, Operator, Space, Tensor, convolution,
    fft, finite_difference, permute, rfft, roll, sum, to,
};
use spanlift::plan::{Phase, Plan, Planning, Solver};
use spanlift::program::{Edit, Op, Program, Space as Place};
use spanlift::sim::Final;
use spanlift_native::cuda::{self, By, CudaError, Driver, RunError, placed};
use spanlift_softcuda::kit::{self, Driver as Soft};
use spanlift_softcuda::{Config, Launch, Pageable, Scheduler, ViolationKind};

use crate::agreement::{close, sides};
use crate::oracle::{Random, eps};
use crate::random;
use crate::table::{Entry, FIELDS, table};

/// As late as can be, as early as can be, `n` orders between; and as strict with pageable memory as the documentation is.
fn everywhere(n: u64) -> Vec<Config> {
    let mut all = vec![Scheduler::Lazy, Scheduler::Eager];
    all.extend((1..=n).map(Scheduler::Seeded));
    let strict = |scheduler| Config { pageable: Pageable::Strict, ..Config::under(scheduler) };
    all.iter()
        .copied()
        .map(Config::under)
        .chain([strict(Scheduler::Lazy), strict(Scheduler::Eager)])
        .collect()
}

fn with_libraries(scheduler: Scheduler) -> Config {
    Config { libraries: true, ..Config::under(scheduler) }
}

/// Whether a leaf of the expression needs a library of NVIDIA's.
fn needs_library(a: &Operator) -> bool {
    match a {
        Operator::Leaf(leaf) => leaf.downcast::<Dense>().is_some() || leaf.downcast::<Fourier>().is_some(),
        a => a.children().iter().any(needs_library),
    }
}

fn there(a: &Operator) -> Operator {
    on(0, a)
}

fn on(device: u32, a: &Operator) -> Operator {
    chain![to(cuda(device)), a.on(cuda(device)), to(cpu())].unwrap()
}

/// Runs a plan on the software driver's devices; its result has the reference's bits, or is close where a library adds in
/// an order of its own.
#[track_caller]
fn check(what: &str, plan: &Plan, x: &Array, driver: &Driver) {
    let run = cuda::run_knowing(plan.program(), driver, 0, plan);
    let run = run.unwrap_or_else(|e| panic!("{what}: {e}\n{}", plan.program().to_text()));
    assert_eq!(hazard::check(&run.issued, Mode::Contract).unwrap().verdict(), Verdict::Safe, "{what}");
    says_what_it_takes(what, plan, &run.issued);
    let (found, expected) = (plan.result(&run.finals).unwrap(), plan.operator().apply(x).unwrap());
    if needs_library(plan.operator()) {
        return close(what, plan.operator(), x, &found);
    }
    let bits = |a: &Array| -> Vec<(u64, u64)> {
        a.values().iter().map(|v| (v.re.to_bits(), v.im.to_bits())).collect()
    };
    assert_eq!(bits(&found), bits(&expected), "{what}: {}\n{found:?}\n{expected:?}", plan.operator());
}

/// What steps take beside the plan's own buffers stands in the program that was issued: tables are read by a kernel, scratch memory is
/// written by one and freed.
#[track_caller]
fn says_what_it_takes(what: &str, plan: &Plan, issued: &Program) {
    let names = issued.names();
    let is_fresh = |name: &str| plan.program().names().find_buffer(name).is_none();
    let (mut made, mut used, mut freed) = (Vec::new(), Vec::new(), Vec::new());
    for command in issued.commands() {
        match &command.op {
            Op::Alloc(alloc) if is_fresh(names.buffer(alloc.buffer)) => made.push(alloc.buffer),
            Op::Kernel(kernel) => used.extend(kernel.reads.iter().chain(&kernel.writes).map(|r| r.buffer)),
            Op::Free { buffer, .. } => freed.push(*buffer),
            _ => {}
        }
    }
    for buffer in made {
        let name = names.buffer(buffer);
        assert!(used.contains(&buffer), "{what}: {name}\n{}", issued.to_text());
        let n_freed = freed.iter().filter(|other| **other == buffer).count();
        assert_eq!(n_freed, usize::from(name.starts_with("scratch")), "{what}: {name}\n{}", issued.to_text());
    }
}

#[track_caller]
fn broke_no_rule(soft: &Soft, what: &str) {
    let violations = soft.report().violations;
    assert!(violations.is_empty(), "{what}: {violations:?}");
}

/// Runs every operator of a type on the sides that are asked for.
fn every_operator(soft: &Soft, asked: &[(Dtype, &[&str])]) -> usize {
    let driver = Driver::open().unwrap();
    let mut n_runs = 0;
    for (dtype, of) in asked {
        for Entry { name, op, .. } in table(*dtype) {
            for (side, a) in sides(&op).into_iter().filter(|(side, _)| of.contains(side)) {
                let what = format!("{name}, {dtype}, {side}");
                let is_empty = a.domain().elements() == 0 || a.codomain().elements() == 0;
                let x = Random(7).array(a.domain());
                let Ok(plan) = there(&a).plan_for(&x) else {
                    assert!(is_empty, "{what}");
                    continue;
                };
                if placed(&plan).iter().any(|p| p.by == By::Nothing) {
                    continue;
                }
                check(&what, &plan, &x, &driver);
                n_runs += 1;
            }
        }
    }
    broke_no_rule(soft, "operators");
    n_runs
}

#[test]
fn every_operator_on_real_numbers_has_the_references_bits_on_a_device() {
    kit::alone(&[Scheduler::Lazy, Scheduler::Eager].map(with_libraries), |soft| {
        let n_runs = every_operator(soft, &[(Dtype::F32, &["A"]), (Dtype::F64, &["A^H"])]);
        assert!(n_runs > 100, "{n_runs}");
    });
}

#[test]
fn every_operator_on_complex_numbers_has_the_references_bits_on_a_device() {
    kit::alone(&[Scheduler::Lazy, Scheduler::Threads(0)].map(with_libraries), |soft| {
        let n_runs = every_operator(soft, &[(Dtype::C32, &["A^T", "A.N"]), (Dtype::C64, &["A"])]);
        assert!(n_runs > 150, "{n_runs}");
    });
}

#[test]
fn random_expressions_have_the_references_bits_on_devices() {
    let configs: Vec<Config> =
        everywhere(3).into_iter().map(|config| Config { libraries: true, ..config }).collect();
    kit::alone(&configs, |soft| {
        let driver = Driver::open().unwrap();
        let mut n_runs = 0;
        for seed in 1..=40 {
            for dtype in [Dtype::F32, Dtype::C64] {
                let a = random::expression(&mut Random(seed), dtype);
                let x = Random(seed).array(a.domain());
                let ahead = Planning::new().ahead(usize::from(seed % 2 == 0));
                for planning in [Planning::new(), ahead] {
                    let Ok(plan) = planning.plan_for(&there(&a), &x) else { continue };
                    let what = format!("seed {seed}, {dtype}");
                    check(&what, &plan, &x, &driver);
                    n_runs += 1;
                }
            }
        }
        assert!(n_runs > 100, "{n_runs}");
        broke_no_rule(soft, "random expressions");
    });
}

/// A sum of rows over a stencil, cut into tiles that go to two devices in turn.
fn tiled(dtype: Dtype) -> Operator {
    let space = Space::new([("c", 6), ("y", 5), ("x", 8)], dtype).unwrap();
    let kernel = Tensor::new([("x", 3)], [0.5, -1.0, 0.25]).unwrap();
    let smooth = convolution(["x"], &kernel).over(&space).unwrap();
    let steps = finite_difference("y", Boundary::Periodic).over(&space).unwrap();
    let turned = permute(["c", "x", "y"]).over(&space).unwrap();
    chain![sum([smooth, steps]).unwrap(), turned].unwrap()
}

/// Pairs of a copy to a device and a kernel of that device that nothing orders, in the program that the driver was asked for.
fn n_at_the_same_time(soft: &Soft) -> usize {
    let log = Program::read(soft.report().program().to_string().as_bytes()).unwrap();
    let facts = log.check().unwrap();
    let relation = Relation::of(&log, Mode::Contract).unwrap();
    let on_host = |buffer| facts.buffer(buffer).space != Place::Device;
    let (mut copies, mut kernels) = (Vec::new(), Vec::new());
    for (k, command) in log.commands().iter().enumerate() {
        match &command.op {
            Op::Copy(c) if on_host(c.src.buffer) && !on_host(c.dst.buffer) => copies.push((k, c.stream)),
            Op::Kernel(kernel) => kernels.push((k, kernel.stream)),
            _ => {}
        }
    }
    let dev = |stream| facts.stream(stream).dev;
    let unordered = |a: usize, b: usize| {
        // The work itself is the last step of its command.
        let (a, b) = (relation.of_command(a).end - 1, relation.of_command(b).end - 1);
        !relation.before(a, b) && !relation.before(b, a)
    };
    let pairs = copies.iter().flat_map(|a| kernels.iter().map(move |b| (a, b)));
    pairs.filter(|(a, b)| dev(a.1) == dev(b.1) && unordered(a.0, b.0)).count()
}

#[test]
fn tiles_of_two_devices_are_sent_while_others_are_worked_on() {
    let logged: Vec<Config> =
        everywhere(4).into_iter().map(|config| Config { trace: true, ..config }).collect();
    kit::alone(&logged, |soft| {
        let driver = Driver::open().unwrap();
        let turns = [0, 1, 0, 1, 0, 1].map(cuda);
        let a = tiled(Dtype::F32).tiles([("c", 1)]).unwrap().on(&turns).unwrap();
        let x = Random(3).array(a.domain());
        // One set of buffers first: what is logged stays.
        let plan = Planning::new().ahead(0).plan_for(&a, &x).unwrap();
        check("one set of buffers", &plan, &x, &driver);
        let few = n_at_the_same_time(soft);
        let plan = Planning::new().plan_for(&a, &x).unwrap();
        assert!(plan.work().any(|(_, on)| on == cuda(1)), "{plan}");
        check("as much as possible", &plan, &x, &driver);
        let more = n_at_the_same_time(soft) - few;
        assert!(few < more, "{few} and {more} pairs: {plan}");
        broke_no_rule(soft, "tiles");
    });
}

#[test]
fn what_no_kernel_computes_is_refused_by_name() {
    kit::alone(&everywhere(0), |soft| {
        let driver = Driver::open().unwrap();
        let line = Space::new([("x", 4)], Dtype::F32).unwrap();

        let same = |x: &[Complex64], y: &mut [Complex64]| y.copy_from_slice(x);
        let own = Operator::from(FromFn::new("Mine", line.clone(), line.clone(), same, same));
        let plan = there(&own).plan_for(&Random(1).array(&line)).unwrap();
        let told = cuda::run_knowing(plan.program(), &driver, 0, &plan).unwrap_err();
        assert!(matches!(told, RunError::Unsupported { .. }), "{told:?}");
        let expected = "kernel is `Mine`, which no kernel computes on a device; put it on the host";
        assert!(told.to_string().contains(expected), "{told}");
        assert_eq!(placed(&plan)[0].by, By::Nothing);
        // On the host, between two transfers, it runs there.
        let twice = Operator::scale(2.0, line.on(cuda(0))).unwrap();
        let a = chain![own, to(cuda(0)), twice, to(cpu())].unwrap();
        let x = Random(2).array(&line);
        let plan = a.plan_for(&x).unwrap();
        check("on the host", &plan, &x, &driver);
        assert_eq!(placed(&plan).into_iter().map(|p| p.device).collect::<Vec<_>>(), [cpu(), cuda(0)]);
        broke_no_rule(soft, "refusals");
    });
}

/// The first words of a launch of `spanlift_move`, and where they say that `y` and `x` begin.
fn ends(launch: &Launch<'_>) -> (u64, u64) {
    let word = |k: usize| u64::from_le_bytes(launch.arg_bytes(0)[8 * k..8 * k + 8].try_into().unwrap());
    (word(7), word(7 + 15))
}

/// A movement of four elements by a kernel that stands in for the one that ships.
fn moved_by(soft: &Soft, function: spanlift_softcuda::Function) -> (Result<bool, RunError>, usize) {
    soft.kernel("spanlift_move_f32", function);
    let driver = Driver::open().unwrap();
    let line = Space::new([("x", 4)], Dtype::F32).unwrap();
    let a = there(&roll("x", 1).over(&line).unwrap());
    let x = Random(5).array(&line);
    let plan = a.plan_for(&x).unwrap();
    let run = cuda::run_knowing(plan.program(), &driver, 0, &plan);
    let is_right = run.map(|run| plan.result(&run.finals) == Some(a.apply(&x).unwrap()));
    (is_right, soft.report().count(ViolationKind::OutOfBounds))
}

#[test]
fn a_planted_kernel_that_only_copies_is_found() {
    kit::alone_unchecked(&[Config::under(Scheduler::Lazy)], |soft| {
        let told = moved_by(soft, |launch| {
            let (y, x) = ends(launch);
            let values = launch.read::<f32>(x, 4)?;
            launch.write(y, &values)
        });
        assert_eq!(told, (Ok(false), 0));
    });
}

#[test]
fn a_planted_kernel_that_leaves_its_block_is_found() {
    kit::alone_unchecked(&[Config::under(Scheduler::Lazy)], |soft| {
        let (run, n_outside) = moved_by(soft, |launch| launch.write(ends(launch).0 + 16, &[0u8; 4]));
        assert!(matches!(run, Err(RunError::Cuda { .. })) && n_outside == 1, "{run:?}, {n_outside}");
    });
}

/// Without a wait that orders it the program is not run any more.
#[test]
fn a_plan_without_one_of_its_waits_is_not_run() {
    kit::alone(&everywhere(0), |_| {
        let driver = Driver::open().unwrap();
        let space = Space::new([("x", 6)], Dtype::C32).unwrap();
        let weights =
            |k: u32| Operator::from(Diagonal::new(space.on(cuda(k)), (1..7).map(f64::from)).unwrap());
        let a = chain![to(cuda(0)), weights(0), to(cuda(1)), weights(1), to(cpu())].unwrap();
        let x = Random(9).array(&space);
        let plan = a.plan_for(&x).unwrap();
        check("whole", &plan, &x, &driver);
        let commands = plan.program().commands().iter().enumerate();
        let waits: Vec<usize> =
            commands.filter(|(_, c)| matches!(c.op, Op::Wait { .. })).map(|(k, _)| k).collect();
        assert_eq!(waits.len(), 4, "{}", plan.program().to_text());
        for wait in waits {
            let program = plan.program().edited(&[Edit::Remove(wait)]);
            let told = cuda::run(&program, &driver, 0).unwrap_err();
            assert!(matches!(told, RunError::NotSafe { .. }), "{told}");
        }
    });
}

#[test]
fn a_library_that_is_not_there_is_named() {
    kit::alone(&everywhere(0), |_| {
        let driver = Driver::open().unwrap();
        let line = Space::new([("n", 3)], Dtype::C32).unwrap();
        let dense = op::dense(["m"], ["n"], [("m", 2), ("n", 3)], [1.0; 6], Dtype::C32).unwrap();
        let transform = op::fft(["n"]).over(&line).unwrap();
        for (a, library, name) in [(dense, "cuBLAS", "libcublas.so"), (transform, "cuFFT", "libcufft.so")] {
            let x = Random(4).array(&line);
            let plan = there(&a).plan_for(&x).unwrap();
            assert_eq!(placed(&plan)[0].by, By::Library(library));
            let told = cuda::run_knowing(plan.program(), &driver, 0, &plan).unwrap_err();
            let RunError::Cuda { error: CudaError::NoLibrary { library: named, .. }, .. } = &told else {
                panic!("{told:?}");
            };
            assert_eq!(*named, library);
            let text = told.to_string();
            let says = [library, "cannot be used", name, "SPANLIFT_CUDA_LIBRARIES"];
            assert!(says.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{text}");
        }
    });
}

/// Every arrangement of the names of a product, on every side: batches, sums over two names, results in any order.
#[test]
fn products_of_every_arrangement_are_right() {
    kit::alone(&[Scheduler::Lazy, Scheduler::Seeded(2)].map(with_libraries), |soft| {
        let driver = Driver::open().unwrap();
        let size = |name: &str| {
            ["b", "m", "k", "l", "r"].iter().zip([2, 3, 4, 2, 3]).find(|(n, _)| **n == name).unwrap().1
        };
        let dims = |names: &[&'static str]| names.iter().map(|n| (*n, size(n))).collect::<Vec<_>>();
        let mut random = Random(17);
        let mut n_runs = 0;
        for dtype in FIELDS {
            for round in 0..8 {
                let mut shuffled = |names: &[&'static str]| {
                    let mut names = names.to_vec();
                    for k in (1..names.len()).rev() {
                        let other = usize::try_from(random.below(k as u64 + 1)).unwrap();
                        names.swap(k, other);
                    }
                    names
                };
                let (x, y) = (shuffled(&["b", "k", "l", "r"]), shuffled(&["b", "m", "r"]));
                let w = dims(&shuffled(&["b", "m", "k", "l"]));
                let n = w.iter().map(|dim| dim.1).product::<i64>();
                let values: Vec<Complex64> = (0..n).map(|_| random.value(dtype)).collect();
                let w = Tensor::new(w, values).unwrap();
                let domain = Space::new(dims(&x), dtype).unwrap();
                let a = Operator::from(Dense::new(domain, &w, y.iter().copied()).unwrap());
                for (side, a) in sides(&a).into_iter().take(4) {
                    let x = random.array(a.domain());
                    // Libraries belong to a device, whichever a thread had to do with last.
                    let plan = on(n_runs % 2, &a).plan_for(&x).unwrap();
                    check(&format!("{dtype}, round {round}, {side}"), &plan, &x, &driver);
                    n_runs += 1;
                }
            }
        }
        assert_eq!(n_runs, 4 * 8 * 4);
        broke_no_rule(soft, "products");
    });
}

/// Every arrangement of what is transformed: any dimensions in any order, more of them than one plan of the library takes, real data and
/// half spectra, origins in the middle.
#[test]
fn transforms_of_every_arrangement_are_right() {
    kit::alone(&[Scheduler::Lazy, Scheduler::Seeded(2)].map(with_libraries), |soft| {
        let driver = Driver::open().unwrap();
        let mut random = Random(23);
        let mut n_passes = [0; 2];
        for round in 0..24 {
            for dtype in FIELDS {
                let mut below = |n: u64| usize::try_from(random.below(n)).unwrap();
                let mut names = ["a", "b", "c", "d", "e"][..1 + below(5)].to_vec();
                let sizes: Vec<(&str, i64)> =
                    names.iter().map(|name| (*name, [1, 2, 3, 4][below(4)])).collect();
                for k in (1..names.len()).rev() {
                    names.swap(k, below(k as u64 + 1));
                }
                names.truncate(1 + below(names.len() as u64));
                let space = Space::new(sizes, dtype).unwrap();
                let a = match (space.is_complex(), below(2)) {
                    (false, _) => rfft(names.iter().copied()),
                    (true, 0) => fft(names.iter().copied()),
                    (true, _) => fft(names.iter().copied()).centered(),
                };
                n_passes[usize::from(names.len() > 3)] += 1;
                for (k, (side, a)) in (0..4).zip(sides(&a.over(&space).unwrap())) {
                    let x = random.array(a.domain());
                    let plan = on(k % 2, &a).plan_for(&x).unwrap();
                    check(&format!("round {round}, {dtype}, {names:?}, {side}"), &plan, &x, &driver);
                }
            }
        }
        assert!(n_passes.iter().all(|n| *n > 10), "{n_passes:?}");
        broke_no_rule(soft, "transforms");
    });
}

/// Solvers on a device: right-hand side up, vectors there, one scalar back at each look, solution down.
#[test]
fn solvers_stay_on_their_device() {
    kit::alone(&[Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(3)].map(with_libraries), |soft| {
        let driver = Driver::open().unwrap();
        for dtype in FIELDS {
            let line = Space::new([("x", 24)], dtype).unwrap();
            let steps = finite_difference("x", Boundary::Zero).over(&line).unwrap();
            let weights = Diagonal::new(line.clone(), (0..24).map(|k| 1.0 + f64::from(k) / 24.0)).unwrap();
            let normal = sum([steps.n(), weights.into()]).unwrap();
            let a = there(&normal);
            let b = Random(6).array(&line);
            let solvers = [("cg", Solver::cg()), ("lsqr", Solver::lsqr()), ("fista", Solver::fista(0.01))];
            for (name, solver) in solvers {
                let what = format!("{name}, {dtype}");
                let plan = solver.plan(&a, &b).unwrap();
                let issued = plan.issued(4).unwrap();
                let run = cuda::run_knowing(issued.program(), &driver, 0, &issued);
                let run = run.unwrap_or_else(|e| panic!("{what}: {e}\n{}", issued.program().to_text()));
                let host = spanlift_native::cpu::run_knowing(issued.program(), &issued).unwrap();
                let names = issued.program().names();
                let solution = |finals: &[Final]| {
                    let last = finals.iter().find(|last| names.buffer(last.buffer) == "solution").unwrap();
                    last.bytes.clone()
                };
                let (found, expected) = (solution(&run.finals), solution(&host.finals));
                let numbers = |bytes: &[u8]| -> Vec<f64> {
                    match dtype {
                        Dtype::F32 | Dtype::C32 => {
                            bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
                        }
                        _ => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
                    }
                };
                let scale = numbers(&expected).iter().fold(0.0f64, |most, v| most.max(v.abs()));
                // Products over a whole vector are summed in another order, four iterations long.
                let tolerance = 4096.0 * eps(dtype) * scale;
                for (v, e) in numbers(&found).iter().zip(numbers(&expected)) {
                    assert!((v - e).abs() <= tolerance, "{what}: {v} and not {e}");
                }
                let up = plan.transfers(Phase::SetUp).len() + plan.transfers(Phase::Finish).len();
                assert_eq!((up, plan.transfers(Phase::Step).len()), (2, 0), "{what}");
            }
        }
        broke_no_rule(soft, "solvers");
    });
}
