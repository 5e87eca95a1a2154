//! Solvers on devices: a loop that ends when it is near enough, on buffers that stay. The oracle is a loop of its own over the
//! recipe's acts, which adds up inner products in the order that the kernel documents, and so has its bits.

use spanlift::chain;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Dtype, cpu, cuda};
use spanlift::op::{
    Array, Boundary, Complex64, Diagonal, Operator, Space, fft, finite_difference, identity, select, sum, to,
};
use spanlift::plan::{Act, Engine, Phase, Recipe, SolveError, Solver, Stop, VectorId, scalar_formula};
use spanlift::program::{Op, Program, Space as Place};
use spanlift_native::cuda::{self, CudaError, Driver, RunError, Solving};
use spanlift_softcuda::kit::{self, Driver as Soft};
use spanlift_softcuda::{Code, Config, Fault, Scheduler};

use crate::oracle::Random;

/// Threads of the kernel that makes inner products.
const THREADS: usize = 256;

/// Carries out acts on plain numbers.
struct Acting {
    recipe: Recipe,
    given: Array,
    vectors: Vec<Vec<Complex64>>,
    scalars: Vec<f64>,
}

impl Acting {
    fn new(recipe: Recipe, given: &Array) -> Acting {
        Acting { recipe, given: given.clone(), vectors: Vec::new(), scalars: Vec::new() }
    }

    /// Each thread sums every so-manieth product, then halves are added to halves.
    fn dot(&self, x: VectorId, y: VectorId) -> f64 {
        let mut sums = [0.0; THREADS];
        let pairs = self.vectors[x.index()].iter().zip(&self.vectors[y.index()]);
        for (k, (x, y)) in pairs.enumerate() {
            sums[k % THREADS] += x.re * y.re + x.im * y.im;
        }
        let mut half = THREADS / 2;
        while half > 0 {
            for k in 0..half {
                sums[k] += sums[k + half];
            }
            half /= 2;
        }
        sums[0]
    }

    fn act(&mut self, act: &Act) {
        let recipe = self.recipe.clone();
        let rounded = |v: VectorId, z: Complex64| match recipe.space(v).dtype() {
            #[expect(clippy::cast_possible_truncation, reason = "rounding to the type of the vector")]
            Dtype::F32 | Dtype::C32 => Complex64::new(f64::from(z.re as f32), f64::from(z.im as f32)),
            _ => z,
        };
        match act {
            Act::Move { y, x } => self.vectors[y.index()] = self.vectors[x.index()].clone(),
            Act::Apply { y, operator, x } => {
                let a = &recipe.operators()[*operator];
                let x = Array::new(a.domain().clone(), self.vectors[x.index()].clone()).unwrap();
                self.vectors[y.index()] = a.apply(&x).unwrap().values().to_vec();
            }
            Act::Clear { y } => self.vectors[y.index()].fill(Complex64::ZERO),
            Act::Multiple { y, factor, s, x, a } => {
                let s = self.scalars[s.index()];
                let by = if s.is_finite() { factor * s } else { 0.0 };
                let value = |k: usize| {
                    let a = a.map_or(Complex64::ZERO, |a| self.vectors[a.index()][k]);
                    let x = self.vectors[x.index()][k];
                    rounded(*y, if by == 0.0 { a } else { x * by + a })
                };
                self.vectors[y.index()] = (0..self.vectors[y.index()].len()).map(value).collect();
            }
            Act::Shrink { y, x, by } => {
                let shrunk = self.vectors[x.index()].iter().map(|z| {
                    let size = z.norm();
                    rounded(*y, if size > *by { z * (1.0 - by / size) } else { Complex64::ZERO })
                });
                self.vectors[y.index()] = shrunk.collect();
            }
            Act::Dot { s, x, y } => self.scalars[s.index()] = self.dot(*x, *y),
            Act::Scalar { s, func, of } => {
                let [first, last] = [of[0], of[of.len() - 1]].map(|of| self.scalars[of.index()]);
                self.scalars[s.index()] = scalar_formula(*func, first, last);
            }
        }
    }
}

impl Engine for Acting {
    type Error = SolveError;

    fn run(&mut self, phase: Phase) -> Result<(), SolveError> {
        if phase == Phase::SetUp {
            let zeros = |space: &Space| vec![Complex64::ZERO; usize::try_from(space.elements()).unwrap()];
            self.vectors = self.recipe.vectors().map(zeros).collect();
            self.vectors[self.recipe.given()[0].index()] = self.given.values().to_vec();
            self.scalars = self.recipe.scalars().collect();
        }
        self.recipe.clone().acts(phase).iter().for_each(|act| self.act(act));
        Ok(())
    }

    fn scalar(&mut self, name: &str) -> Result<f64, SolveError> {
        Ok(self.scalars[self.recipe.scalar(name).unwrap().index()])
    }

    fn vector(&mut self, _: &str) -> Result<Vec<Complex64>, SolveError> {
        Ok(self.vectors[self.recipe.solution().index()].clone())
    }
}

fn there(a: &Operator) -> Operator {
    chain![to(cuda(0)), a.on(cuda(0)), to(cpu())].unwrap()
}

/// Differences between neighbours, squared, with weights: what kernels that ship compute with the reference's bits.
fn springs(dtype: Dtype, n: i64) -> Operator {
    let line = Space::new([("x", n)], dtype).unwrap();
    let steps = finite_difference("x", Boundary::Zero).over(&line).unwrap();
    let weights = (0..n).map(|k| 1.0 + f64::from(i32::try_from(k).unwrap()) / 24.0);
    sum([steps.n(), Diagonal::new(line, weights).unwrap().into()]).unwrap()
}

/// The same on two devices, one half of the sum on each.
fn on_two(dtype: Dtype, n: i64) -> Operator {
    let a = springs(dtype, n);
    let there = |k: u32| chain![to(cuda(k)), a.on(cuda(k)), to(cpu())].unwrap();
    sum([there(0), there(1)]).unwrap()
}

/// Solves on devices; every number is that of the oracle, or of the reference where the iteration is on the host.
#[track_caller]
fn solves(what: &str, (solver, a): (&Solver, &Operator), is_there: bool, b: &Array, driver: &Driver) {
    let plan = solver.plan(a, b).unwrap();
    let found = cuda::solve(&plan, driver, 0).unwrap_or_else(|e| panic!("{what}: {e}"));
    let reference = plan.solve().unwrap();
    let expected = match is_there {
        true => plan.drive(&mut Acting::new(solver.recipe(a).unwrap(), b)).unwrap(),
        false => reference.clone(),
    };
    assert_eq!(found, expected, "{what}");
    assert_eq!(found.stop, Stop::Converged, "{what}: {found:?}");
    assert!(found.n_checks > 2, "{what}: {found:?}");
    // And near what the reference finds, which adds up in another order.
    let off = found.solution.values().iter().zip(reference.solution.values()).map(|(x, e)| (x - e).norm());
    let scale = reference.solution.values().iter().map(|e| e.norm()).fold(0.0, f64::max);
    let off = off.fold(0.0, f64::max);
    assert!(off <= 1e-3 * scale, "{what}: {off} of {scale}");
}

#[track_caller]
fn broke_no_rule(soft: &Soft) {
    let violations = soft.report().violations;
    assert!(violations.is_empty(), "{violations:?}");
}

#[test]
fn solvers_go_on_until_they_are_near_enough() {
    let orders = [
        Scheduler::Lazy,
        Scheduler::Eager,
        Scheduler::Seeded(3),
        Scheduler::Seeded(8),
        Scheduler::Threads(0),
    ];
    kit::alone(&orders.map(Config::under), |soft| {
        let driver = Driver::open().unwrap();
        for dtype in [Dtype::F32, Dtype::F64, Dtype::C64] {
            let normal = springs(dtype, 24);
            let (a, b) = (there(&normal), Random(6).array(normal.domain()));
            let near = Operator::scale(0.5, normal.domain().clone()).unwrap();
            let single = matches!(dtype, Dtype::F32);
            let near_enough = |solver: Solver| solver.tolerance(if single { 1e-4 } else { 1e-8 });
            let cg = near_enough(Solver::cg().check_every(2));
            let mut solvers = vec![
                ("cg", cg.clone(), &a),
                ("pcg", near_enough(Solver::pcg(&near).check_every(3)), &a),
                ("lsqr", near_enough(Solver::lsqr().damp(0.1).check_every(4)), &a),
                ("power", Solver::power().tolerance(0.02).iterations(200).check_every(3), &a),
            ];
            // Magnitudes of complex numbers are rounded otherwise.
            if dtype != Dtype::C64 {
                let fista =
                    Solver::fista(0.01).lipschitz(40.0).tolerance(1e-2).iterations(400).check_every(3);
                solvers.push(("fista", fista, &a));
            }
            for (name, solver, a) in solvers {
                solves(&format!("{name}, {dtype}"), (&solver, a), true, &b, &driver);
            }
            // The sum over two devices is iterated on the first of them.
            for (name, a, is_there) in
                [("on two devices", &on_two(dtype, 24), true), ("on the host", &normal, false)]
            {
                solves(&format!("cg {name}, {dtype}"), (&cg, a), is_there, &b, &driver);
            }
        }
        broke_no_rule(soft);
    });
}

/// Bytes of each copy from and to the host that the driver was asked for.
fn over_the_link(log: &Program) -> (Vec<i64>, Vec<i64>) {
    let facts = log.check().unwrap();
    let is_host = |buffer| facts.buffer(buffer).space != Place::Device;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for command in log.commands() {
        let Op::Copy(copy) = &command.op else { continue };
        let bytes = copy.dst.span.bounds().map_or(0, |(lo, hi)| hi - lo);
        match (is_host(copy.src.buffer), is_host(copy.dst.buffer)) {
            (true, false) => up.push(bytes),
            (false, true) => down.push(bytes),
            _ => {}
        }
    }
    (up, down)
}

/// What the driver was asked for, by its own log: one vector up, one down, a number at every look, and nothing else, however
/// many steps it takes.
#[test]
fn two_vectors_move_and_one_number_at_each_look() {
    let logged = |scheduler| Config { trace: true, ..Config::under(scheduler) };
    kit::alone(&[Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(2)].map(logged), |soft| {
        let driver = Driver::open().unwrap();
        let n = 37;
        let vector = 8 * n;
        // Nothing else of the operator is as large as a vector.
        let line = Space::new([("x", n)], Dtype::F64).unwrap();
        let steps = finite_difference("x", Boundary::Zero).over(&line).unwrap();
        let a = there(&(steps.n() + 0.5 * identity()).unwrap());
        let b = Random(5).array(a.domain());
        let mut before: Option<(usize, usize)> = None;
        let (mut n_up, mut n_down) = (0, 0);
        for tolerance in [1e-2, 1e-9] {
            let plan = Solver::cg().tolerance(tolerance).check_every(2).plan(&a, &b).unwrap();
            let solved = cuda::solve(&plan, &driver, 0).unwrap();
            assert_eq!(
                (solved.stop, solved.transfers, plan.n_vectors(solved.iterations)),
                (Stop::Converged, 2, 2)
            );
            let log = Program::read(soft.report().program().to_string().as_bytes()).unwrap();
            // Every wait that the contract asks for was asked of the driver.
            assert_eq!(hazard::check(&log, Mode::Contract).unwrap().verdict(), Verdict::Safe);
            let (up, down) = over_the_link(&log);
            let (up, down) = (&up[n_up..], &down[n_down..]);
            let of = |list: &[i64], bytes: i64| list.iter().filter(|b| **b == bytes).count();
            assert_eq!((of(up, vector), of(down, vector)), (1, 1), "{up:?}, {down:?}");
            // Looks are listed apart.
            assert_eq!((of(down, 8), down.len()), (solved.n_checks, solved.n_checks + 1), "{down:?}");
            // What goes up before the loop does not depend on how long that is.
            if let Some((len, iterations)) = before.replace((up.len(), solved.iterations)) {
                assert!(len == up.len() && iterations + 4 < solved.iterations, "{iterations}: {solved:?}");
            }
            (n_up, n_down) = (n_up + up.len(), n_down + down.len());
        }
        broke_no_rule(soft);
    });
}

/// Step by step, with looks at a vector in between, and from the beginning again.
#[test]
fn a_loop_of_ones_own_sees_every_step() {
    kit::alone(&[Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(6)].map(Config::under), |soft| {
        let driver = Driver::open().unwrap();
        let a = there(&springs(Dtype::F64, 9));
        let b = Random(4).array(a.domain());
        let solver = Solver::lsqr();
        let plan = solver.plan(&a, &b).unwrap();
        let (mut gpu, mut oracle) =
            (Solving::new(&plan, &driver, 0).unwrap(), Acting::new(solver.recipe(&a).unwrap(), &b));
        for _ in 0..2 {
            gpu.run(Phase::SetUp).unwrap();
            oracle.run(Phase::SetUp).unwrap();
            for step in 0..6 {
                for phase in [Phase::Step, Phase::Check] {
                    gpu.run(phase).unwrap();
                    oracle.run(phase).unwrap();
                }
                for name in ["check", "alpha", "sign"] {
                    assert_eq!(gpu.scalar(name).unwrap(), oracle.scalar(name).unwrap(), "{step}, {name}");
                }
                // Right behind a step, which is still on its way.
                gpu.run(Phase::Step).unwrap();
                oracle.run(Phase::Step).unwrap();
                oracle.run(Phase::Finish).unwrap();
                assert_eq!(gpu.vector("x").unwrap(), oracle.vector("x").unwrap(), "{step}");
            }
            gpu.run(Phase::Finish).unwrap();
            assert_eq!(gpu.vector("solution").unwrap(), oracle.vector("solution").unwrap());
        }
        for name in ["", "nothing", "x-host"] {
            assert!(matches!(gpu.vector(name), Err(RunError::Unknown(_))), "{name}");
        }
        drop(gpu);
        broke_no_rule(soft);
    });
}

/// A transform whose steps take memory of their own, so that there may be too little of it in the middle.
fn imaging() -> Operator {
    let line = Space::new([("x", 8)], Dtype::C64).unwrap();
    let weights = Diagonal::new(line, (1..9).map(f64::from)).unwrap();
    let a = chain![weights, fft(["x"]).centered(), select("kx", [0, 1, 3, 4, 6])].unwrap();
    there(&(a.normal() + 0.5 * identity()).unwrap())
}

/// A wait that is refused is an error, whichever it is: what it was for is not known to be there.
#[test]
fn a_wait_that_is_refused_is_told() {
    kit::alone_unchecked(&[Config { libraries: true, ..Config::default() }], |soft| {
        let a = imaging();
        let b = Random(4).array(a.domain());
        let plan = Solver::cg().iterations(4).check_every(2).plan(&a, &b).unwrap();
        let run = |faults: Vec<Fault>| {
            soft.reset(Config { libraries: true, faults, ..Config::default() });
            let driver = Driver::open_first(&["libcuda.so"]).unwrap();
            cuda::solve(&plan, &driver, 0).map(drop)
        };
        run(Vec::new()).unwrap();
        let at = "cuStreamSynchronize";
        let n = soft.report().calls[at];
        assert!(n > 4, "{n}");
        for after in 0..u32::try_from(n).unwrap() {
            let (at, code) = (at.to_owned(), Code(1));
            let told = run(vec![Fault { at, device: None, after, code, times: 1, sticky: false }]);
            assert!(told.is_err(), "{after} of {n}");
            assert!(soft.finish().violations.is_empty(), "{after} of {n}");
        }
    });
}

/// Whatever fails in whichever step: an error in words, the caller's numbers as they were, and where the device is not lost,
/// the same solver solves it afterwards.
#[test]
fn a_fault_in_the_middle_leaves_what_was_given() {
    let fault = |at: &str, after, code, sticky| Fault {
        at: at.to_owned(),
        device: None,
        after,
        code: Code(code),
        // Memory of a device is asked for once more.
        times: if at.starts_with("cuMemAlloc") { 2 } else { 1 },
        sticky,
    };
    let faults = [
        // Out of memory: at the beginning, and in a step.
        fault("cuMemAlloc_v2", 4, 2, false),
        fault("cuMemAllocFromPoolAsync", 9, 2, false),
        fault("cuMemHostAlloc", 1, 2, false),
        fault("cuLaunchKernel", 40, 2, false),
        // A launch that fails, an address that is wrong, a device that is lost.
        fault("exec:kernel", 30, 719, true),
        fault("exec:kernel", 61, 700, true),
        fault("exec:copy", 9, 46, true),
        fault("cuStreamSynchronize", 3, 214, true),
        fault("cuMemcpyDtoHAsync_v2", 2, 719, true),
        fault("cuEventRecord", 2, 999, true),
    ];
    let of = |fault: &Fault, scheduler| Config {
        libraries: true,
        faults: vec![fault.clone()],
        ..Config::under(scheduler)
    };
    let orders = [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(4)];
    let configs: Vec<Config> =
        faults.iter().flat_map(|fault| orders.map(|scheduler| of(fault, scheduler))).collect();
    kit::alone_unchecked(&configs, |soft| {
        let config = Config::from_environment().unwrap();
        let is_sticky = config.faults[0].sticky;
        let driver = Driver::open().unwrap();
        let a = imaging();
        let b = Random(4).array(a.domain());
        let given = b.clone();
        let solver = Solver::cg().tolerance(1e-9).check_every(1);
        let plan = solver.plan(&a, &b).unwrap();
        let expected = plan.solve().unwrap();
        let told = cuda::solve(&plan, &driver, 0).expect_err("a fault is told").to_string();
        assert!(told.starts_with("the runner: ") && !told.contains('\n'), "{told}");
        assert_eq!((&b, plan.solve().unwrap()), (&given, expected.clone()), "{told}");
        let report = soft.report();
        assert!(report.violations.is_empty(), "{told}: {:?}", report.violations);
        if !is_sticky {
            let again = cuda::solve(&plan, &driver, 0).unwrap();
            assert_eq!((again.stop, again.iterations), (expected.stop, expected.iterations));
            soft.assert_clean();
        }
    });
}

/// Steps take memory and give it back, and the host waits for each: the system is asked for it once all the same.
#[test]
fn steps_ask_the_system_for_no_memory() {
    kit::alone(&[Config { libraries: true, ..Config::default() }], |soft| {
        let driver = Driver::open().unwrap();
        let a = imaging();
        let b = Random(4).array(a.domain());
        let asked = |n| {
            let plan = Solver::cg().tolerance(0.0).iterations(n).check_every(1).plan(&a, &b).unwrap();
            let before = soft.report();
            cuda::solve(&plan, &driver, 0).unwrap();
            let after = soft.report();
            let allocations = |report: &spanlift_softcuda::Report| report.calls["cuMemAllocFromPoolAsync"];
            let before_it =
                if before.calls.contains_key("cuMemAllocFromPoolAsync") { allocations(&before) } else { 0 };
            (after.mapped - before.mapped, allocations(&after) - before_it)
        };
        let (few, many) = (asked(2), asked(7));
        assert!(few.1 < many.1, "{few:?} {many:?}");
        assert_eq!(few.0, many.0, "{few:?} {many:?}");
    });
}

/// After an error every call answers it, and the memory is given back.
#[test]
fn a_solver_that_failed_stays_so() {
    let fault = Fault {
        at: "cuLaunchKernel".to_owned(),
        device: None,
        after: 30,
        code: Code(2),
        times: 1,
        sticky: false,
    };
    kit::alone(&[Config { faults: vec![fault], ..Config::default() }], |soft| {
        let driver = Driver::open().unwrap();
        let a = there(&springs(Dtype::F64, 6));
        let plan = Solver::cg().plan(&a, &Random(4).array(a.domain())).unwrap();
        let mut gpu = Solving::new(&plan, &driver, 0).unwrap();
        gpu.run(Phase::SetUp).unwrap();
        let told = (0..20).find_map(|_| gpu.run(Phase::Step).err()).expect("a fault is told");
        let RunError::Cuda { error, command, .. } = &told else { panic!("{told:?}") };
        assert!(matches!(error, CudaError::Driver(_)) && error.is_out_of_memory() && *command == "kernel");
        assert_eq!(gpu.run(Phase::SetUp), Err(told.clone()));
        assert_eq!(gpu.scalar("check"), Err(told.clone()));
        assert_eq!(gpu.vector("x"), Err(told));
        assert!(soft.report().leaked.is_empty(), "{:?}", soft.report().leaked);
    });
}
