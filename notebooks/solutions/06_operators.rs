//! Lesson 6. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c11: right: 2 transfers
check_moves(chain![
    repeat("coil", COILS).at(0).over(&image),
    to(cuda(0)),
    Operator::from(coils.clone()).on(cuda(0)),
    fft(["y", "x"]).centered(),
    select("ky", lines.clone()).named(["line"]),
    to(cpu()),
], &scanner, &[cuda(0)], 2)

// cell c19: right: 4 transfers
check_moves(
    scanner.tiles([("coil", 1)])?.on(&[cuda(0), cuda(0), cuda(1), cuda(1)])?.simplify(),
    &scanner,
    &[cuda(0), cuda(1)],
    4,
)

// cell c33: right:
let brighter = chain![to(cuda(0)), Operator::scale(2.0, image.on(cuda(0))), to(cpu())]?;
check_within(Planning::new().cap(cuda(0), kib(16)).plan(&brighter), &brighter, &[cuda(0)], kib(16))

// cell c35: right: the dot test passed
#[derive(Debug)]
pub struct Shear(LeafFacts);

impl LeafOp for Shear {
    fn facts(&self) -> &LeafFacts { &self.0 }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        let n = self.0.domain.shape()[1] as usize;
        for k in 0..x.len() {
            let moved = k / n * n + (k % n + k / n) % n;
            match side {
                Side::Forward => y[moved] = x[k],
                Side::Adjoint => y[k] = x[moved],
            }
        }
    }
}

let small = Space::new([("y", 4), ("x", 4)], Dtype::C64)?;
check_adjoint(Operator::leaf(Shear(LeafFacts::new("Shear", small.clone(), small.clone()))))
