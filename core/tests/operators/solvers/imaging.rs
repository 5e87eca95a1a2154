//! An image from a few of its frequencies, seen by several coils, on two devices.

use spanlift::chain;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::memory::{Device, Dtype, cpu, mock};
use spanlift::op::{
    Array, Diagonal, Operator, Space, Tensor, dot_test, fft, identity, repeat, sampling, stack, to,
};
use spanlift::plan::{Phase, Solver, Stop};
use spanlift::sim;

use super::dense::{C, distance};

const SIZE: i64 = 16;
const COILS: i64 = 4;

fn small(v: i64) -> f64 {
    f64::from(i32::try_from(v).unwrap())
}

fn image() -> Space {
    Space::new([("y", SIZE), ("x", SIZE)], Dtype::C64).unwrap()
}

/// An ellipse with two holes.
fn phantom() -> Array {
    let inside = |y: f64, x: f64, cy: f64, cx: f64, r: f64| f64::from(u8::from((y - cy).hypot(x - cx) < r));
    let values = (0..SIZE * SIZE).map(|k| {
        let (y, x) = (small(k / SIZE), small(k % SIZE));
        inside(y, x, 7.5, 7.5, 6.5) - 0.5 * inside(y, x, 5.0, 6.0, 2.0) - 0.8 * inside(y, x, 10.0, 9.5, 1.5)
    });
    Array::new(image(), values).unwrap()
}

/// How well one coil sees each place: best near its own corner, with a phase of its own.
fn sensitivity(coil: i64) -> Vec<C> {
    let (cy, cx) = (small(coil / 2) * small(SIZE - 1), small(coil % 2) * small(SIZE - 1));
    let at = |k: i64| {
        let (y, x) = (small(k / SIZE) - cy, small(k % SIZE) - cx);
        C::from_polar((-(y * y + x * x) / 200.0).exp(), 0.1 * (x - y) + small(coil))
    };
    (0..SIZE * SIZE).map(at).collect()
}

/// The frequencies that are measured: the middle, and every other line beyond it.
fn measured() -> Vec<(i64, i64)> {
    let rows = (0..SIZE).filter(|k| (k - SIZE / 2).abs() < 3 || k % 2 == 0);
    rows.flat_map(|ky| (0..SIZE).map(move |kx| (ky, kx))).collect()
}

/// What one coil measures: its map, a transform, and the frequencies that are sampled, on `device`.
fn coil(k: i64, device: Device) -> Operator {
    let map = Diagonal::new(image().on(device), sensitivity(k)).unwrap().named(&format!("C{k}"));
    let (ky, kx): (Vec<i64>, Vec<i64>) = measured().into_iter().unzip();
    let mask = sampling([("ky", ky), ("kx", kx)], "sample");
    chain![to(device), map, fft(["y", "x"]).centered(), mask, to(cpu())].unwrap()
}

/// All coils, spread over devices.
fn scanner(devices: &[Device]) -> Operator {
    let coils = (0..COILS).zip(devices.iter().cycle()).map(|(k, device)| coil(k, *device));
    stack(Some(("coil", 0)), None, coils).unwrap()
}

#[test]
fn an_image_comes_back_from_half_of_its_frequencies() {
    let a = scanner(&[mock(0), mock(1)]);
    assert_eq!(a.to_string().rsplit(" : ").next(), Some("c64[y,x]@cpu -> c64[coil,sample]@cpu"));
    let report = dot_test(&a, 5);
    assert!(report.passed(), "{report:?}");
    let truth = phantom();
    let y = a.apply(&truth).unwrap();
    // Fewer samples than the image has elements, for each coil.
    assert!(measured().len() < usize::try_from(SIZE * SIZE).unwrap() * 3 / 4);
    let system = (a.normal() + 1e-6 * identity()).unwrap();
    let b = a.h().apply(&y).unwrap();
    let plan = Solver::cg().tolerance(1e-8).iterations(200).plan(&system, &b).unwrap();
    let found = plan.solve().unwrap();
    assert_eq!(found.stop, Stop::Converged, "{} steps, {}", found.iterations, found.residual);
    let error = distance(found.solution.values(), truth.values());
    assert!(error < 1e-3, "{error}");
    // What the adjoint alone gives is far from it.
    assert!(distance(b.values(), truth.values()) > 0.3);

    // One image goes there and one comes back; in between the devices exchange one in each direction.
    let ends: Vec<(Device, Device)> = [Phase::SetUp, Phase::Finish]
        .iter()
        .flat_map(|phase| plan.transfers(*phase).iter().map(|t| (t.from, t.to)))
        .collect();
    assert_eq!(ends, [(cpu(), mock(0)), (mock(0), cpu())]);
    let step = plan.transfers(Phase::Step);
    assert!(step.iter().all(|t| !t.from.is_host() && !t.to.is_host()), "{step:?}");

    let all = plan.unrolled(3).unwrap();
    assert_eq!(hazard::check(&all, Mode::Contract).unwrap().verdict(), Verdict::Safe);
    let run = sim::run(&all, &Machine::builtin("h200-pcie5").unwrap()).unwrap();
    assert!(run.end.0 > 0);
}

#[test]
fn the_same_scanner_in_one_piece_and_split_by_coils() {
    let maps: Vec<C> = (0..COILS).flat_map(sensitivity).collect();
    let maps = Tensor::new([("coil", COILS), ("y", SIZE), ("x", SIZE)], maps).unwrap();
    let coils = Space::new([("coil", COILS), ("y", SIZE), ("x", SIZE)], Dtype::C64).unwrap();
    let (ky, kx): (Vec<i64>, Vec<i64>) = measured().into_iter().unzip();
    let whole = chain![
        repeat("coil", COILS).at(0).over(image()),
        Diagonal::broadcast(coils, &maps),
        fft(["y", "x"]).centered(),
        sampling([("ky", ky), ("kx", kx)], "sample"),
    ];
    let whole = whole.unwrap();
    let x = phantom();
    let (expected, found) = (scanner(&[mock(0)]).apply(&x).unwrap(), whole.apply(&x).unwrap());
    assert!(distance(found.values(), expected.values()) < 1e-14);
    let split = whole.split("coil", 2, &[mock(0), mock(1)]).unwrap();
    assert_eq!(split.apply(&x).unwrap(), found);
    let b = whole.h().apply(&expected).unwrap();
    let solver = Solver::cg().tolerance(1e-8).iterations(200);
    let one = solver.solve((whole.normal() + 1e-6 * identity()).unwrap(), &b).unwrap();
    let plan = solver.plan((split.normal() + 1e-6 * identity()).unwrap(), &b).unwrap();
    let two = plan.solve().unwrap();
    assert!(distance(two.solution.values(), one.solution.values()) < 1e-6);
    assert_eq!((plan.transfers(Phase::SetUp).len(), plan.transfers(Phase::Finish).len()), (1, 1));
    let exchanged: Vec<String> =
        plan.transfers(Phase::Step).iter().map(|t| format!("{}->{}", t.from, t.to)).collect();
    assert_eq!(exchanged, ["mock:0->mock:1", "mock:1->mock:0"]);
}
