//! The tour's operators: a chain over two devices, and views of one storage that move together.

use spanlift::chain;
use spanlift::machine::Machine;
use spanlift::memory::{Device, Dtype, Layout, MovePlan, View};
use spanlift::memory::{cpu, cuda};
use spanlift::op::{Diagonal, Operator, Space, to};
use spanlift::plan::Transfer;
use spanlift::sim::{self, Run};
use spanlift::{Bytes, Program};

use crate::say::Fail;

/// What the tour shows of operators and memory.
pub(super) struct Operators {
    /// The chain forward, adjoint and normal.
    pub(super) ways: Vec<Way>,
    pub(super) memory: Moved,
}

/// A chain in one direction: its formula, its transfers and its simulated program.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) formula: String,
    pub(super) transfers: Vec<Transfer>,
    pub(super) bytes: Bytes,
    pub(super) program: Program,
    pub(super) run: Run,
}

/// Three views of one storage, moved the aware and the naive way.
pub(super) struct Moved {
    pub(super) aware: MovePlan,
    pub(super) naive: MovePlan,
    pub(super) says: String,
    pub(super) lines: Vec<String>,
}

impl Operators {
    pub(super) fn new(machine: &Machine) -> Result<Operators, Fail> {
        let chain = chain().map_err(|e| Fail::at("tour", e))?;
        let ways = [("forward", chain.clone()), ("adjoint", chain.h()), ("normal", chain.normal())];
        let ways = ways.into_iter().map(|(name, operator)| way(name, &operator, machine));
        Ok(Operators { ways: ways.collect::<Result<_, _>>()?, memory: moved()? })
    }
}

fn way(name: &'static str, operator: &Operator, machine: &Machine) -> Result<Way, Fail> {
    let plan = operator.plan().map_err(|e| Fail::at(name, e))?;
    let run = sim::run(plan.program(), machine).map_err(|e| Fail::at(name, e))?;
    let transfers = plan.transfers().to_vec();
    let bytes = Bytes(transfers.iter().map(|t| t.bytes.0).sum());
    let program = plan.program().clone();
    Ok(Way { name, formula: operator.to_string(), transfers, bytes, program, run })
}

fn moved() -> Result<Moved, Fail> {
    let layout = views().map_err(|e| Fail::at("tour", e))?;
    let to = Device::Cuda(0);
    let aware = layout.move_to(to).map_err(|e| Fail::at("tour", e))?;
    let naive = layout.move_naively(to);
    let line = |name: &str, plan: &MovePlan| {
        format!(
            "{name}: {} allocations of {} bytes, {} bytes copied",
            plan.allocations.len(),
            plan.bytes_allocated(),
            plan.bytes_copied()
        )
    };
    let shares = "aliasing kept: what shared bytes before shares them after";
    let lines = vec![
        format!("{}; {shares}", line("aware", &aware)),
        format!("{}; aliasing lost", line("naive", &naive)),
    ];
    Ok(Moved {
        aware,
        naive,
        says: "Three views of one storage of 8,192 bytes move to cuda:0:".to_owned(),
        lines,
    })
}

/// Up to one device, a weight, on to the next, another weight, and back.
fn chain() -> Result<Operator, Box<dyn std::error::Error>> {
    let image = Space::new([("y", 512), ("x", 512)], Dtype::C32)?;
    let weight = |k: usize| (0..512 * 512).map(move |i| f64::from(u8::from(i % 7 == k)) + 0.5);
    let w0 = Diagonal::new(image.on(cuda(0)), weight(0))?.named("W0");
    let w1 = Diagonal::new(image.on(cuda(1)), weight(1))?.named("W1");
    Ok(chain![to(cuda(0)), w0, to(cuda(1)), w1, to(cpu())]?)
}

/// Every second row of a 32x64 matrix of floats, a corner that shares bytes with it, and the last rows.
fn views() -> Result<Layout, Box<dyn std::error::Error>> {
    let mut layout = Layout::new();
    let weights = layout.storage("weights", Device::Cpu, Bytes(32 * 64 * 4))?;
    let view = |shape: [i64; 2], strides: [i64; 2], offset: i64| View {
        dtype: Dtype::F32,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        offset,
    };
    layout.tensor("even rows", weights, view([8, 64], [128, 1], 0))?;
    layout.tensor("corner", weights, view([16, 16], [64, 1], 0))?;
    layout.tensor("last rows", weights, view([4, 64], [64, 1], 28 * 64))?;
    Ok(layout)
}
