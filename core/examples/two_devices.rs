//! A chain over two devices: its formula, its adjoint and normal, and what each of them moves.
//!
//! `cargo run -p spanlift --example two_devices`
#![expect(clippy::print_stdout, reason = "an example that prints")]

use spanlift::chain;
use spanlift::hazard::{self, Mode};
use spanlift::memory::{Dtype, cpu, cuda};
use spanlift::op::{Array, Diagonal, Space, to};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = Space::new([("y", 2), ("x", 2)], Dtype::C32)?;
    let w0 = Diagonal::new(image.on(cuda(0)), [1.0, 2.0, 3.0, 4.0])?.named("W0");
    let w1 = Diagonal::new(image.on(cuda(1)), [5.0, 6.0, 7.0, 8.0])?.named("W1");
    let a = chain![to(cuda(0)), w0, to(cuda(1)), w1, to(cpu())]?;
    let x = Array::new(image, [1.0, 1.0, 1.0, 1.0])?;
    for (name, operator) in [("A", a.clone()), ("A^H", a.h()), ("A^H A", a.normal())] {
        let plan = operator.plan_for(&x)?;
        println!("{name} = {plan}");
        println!("  on ones: {:?}", operator.apply(&x)?.reals());
        println!("  {} by contract\n", hazard::check(plan.program(), Mode::Contract)?.verdict().name());
    }
    println!("{}", a.plan()?.program().to_text());
    Ok(())
}
