//! The tour's operators: a chain over two devices, and a module whose weights are views of one buffer and move together.

use spanlift::chain;
use spanlift::machine::Machine;
use spanlift::memory::{Block, Device, DeviceReport, Dtype, Layout, MovePlan, TensorView, View, cpu, cuda};
use spanlift::op::{Diagonal, Operator, Space, to};
use spanlift::plan::Transfer;
use spanlift::sim::{self, Run};
use spanlift::{Bytes, Program, kib};

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

/// A module whose weights are views of one buffer, moved the aware and the naive way.
pub(super) struct Moved {
    pub(super) aware: MovePlan,
    pub(super) naive: MovePlan,
    pub(super) says: String,
    pub(super) lines: Vec<String>,
    /// What each way does: its name, allocations, bytes allocated, bytes copied, and pairs that share bytes after it.
    pub(super) ways: [MovedBy; 2],
}

/// One way of moving, in figures.
pub(super) struct MovedBy {
    pub(super) name: &'static str,
    pub(super) n_allocations: usize,
    pub(super) allocated: Bytes,
    pub(super) copied: Bytes,
    /// Pairs of tensors that share bytes before, and afterwards.
    pub(super) n_shared: (usize, usize),
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
    let fail = |e: &dyn std::fmt::Display| Fail::at("tour", e);
    let layout = Layout::of(&model().map_err(|e| fail(&e))?).map_err(|e| fail(&e))?;
    let to = Device::Cuda(0);
    let aware = layout.move_to(to).map_err(|e| fail(&e))?;
    let naive = layout.move_naively(to);
    let report = layout.report().map_err(|e| fail(&e))?;
    let by = |name, plan: &MovePlan| {
        let bytes = |n| Bytes(u64::try_from(n).unwrap_or(u64::MAX));
        Ok(MovedBy {
            name,
            n_allocations: plan.allocations.len(),
            allocated: bytes(plan.bytes_allocated()),
            copied: bytes(plan.bytes_copied()),
            n_shared: (
                report.overlaps.len(),
                plan.after().map_err(|e| fail(&e))?.report().map_err(|e| fail(&e))?.overlaps.len(),
            ),
        })
    };
    let ways = [by("views kept", &aware)?, by("one by one", &naive)?];
    let lines = ways.iter().map(MovedBy::line).collect();
    let held: Vec<&DeviceReport> = report.devices.values().collect();
    let (listed, unique) =
        held.iter().fold((0, 0), |sum, d| (sum.0 + d.listed_bytes, sum.1 + d.unique_bytes));
    let says = format!(
        "A module's {} tensors are views of one buffer of {}. They list {}, which are {} of memory. On to {to}:",
        layout.tensors().len(),
        layout.storages().first().map_or(Bytes(0), |s| s.bytes),
        Bytes(u64::try_from(listed).unwrap_or(u64::MAX)),
        Bytes(u64::try_from(unique).unwrap_or(u64::MAX)),
    );
    Ok(Moved { aware, naive, says, lines, ways })
}

impl MovedBy {
    fn line(&self) -> String {
        let (before, after) = self.n_shared;
        let pairs = format!("{after} of {before} pairs of tensors still share bytes");
        let n = self.n_allocations;
        let blocks = if n == 1 { "allocation" } else { "allocations" };
        format!("{}: {n} {blocks} of {}, {} copied; {pairs}", self.name, self.allocated, self.copied)
    }
}

/// Up to one device, a weight, on to the next, another weight, and back.
fn chain() -> Result<Operator, Box<dyn std::error::Error>> {
    let image = Space::new([("y", 512), ("x", 512)], Dtype::C32)?;
    let weight = |k: usize| (0..512 * 512).map(move |i| f64::from(u8::from(i % 7 == k)) + 0.5);
    let w0 = Diagonal::new(image.on(cuda(0)), weight(0))?.named("W0");
    let w1 = Diagonal::new(image.on(cuda(1)), weight(1))?.named("W1");
    Ok(chain![to(cuda(0)), w0, to(cuda(1)), w1, to(cpu())]?)
}

/// One attention layer between an embedding and the head that is tied to it.
struct Model {
    embed: TensorView,
    attention: Attention,
    head: TensorView,
}

/// Queries, keys and values are rows of one projection; their biases are one number each, repeated.
struct Attention {
    qkv: TensorView,
    query: TensorView,
    key: TensorView,
    value: TensorView,
    /// The columns of the projection that the first of four heads reads.
    first_head: TensorView,
    bias: TensorView,
}

spanlift::module!(Model: parameter embed; module attention; parameter head);
spanlift::module!(Attention: parameter qkv; buffer query, key, value, first_head, bias);

/// All weights lie in one buffer; between embedding and projection it has room that no tensor uses.
fn model() -> Result<Model, Box<dyn std::error::Error>> {
    const WIDTH: i64 = 64;
    const WORDS: i64 = 512;
    let buffer = Block::new("weights", cpu(), kib(256));
    let embed = buffer.tensor(Dtype::F32, &[WORDS, WIDTH])?;
    let qkv = buffer.tensor(Dtype::F32, &[3 * WIDTH, WIDTH])?.at(WORDS * WIDTH + 4 * 1024);
    let [query, key, value] = [0, 1, 2].map(|k| qkv.narrow(0, k * WIDTH, WIDTH));
    let first_head = qkv.narrow(1, 0, WIDTH / 4)?;
    let bias =
        buffer.view(View { dtype: Dtype::F32, shape: vec![3 * WIDTH], strides: vec![0], offset: 60 * 1024 });
    let attention = Attention { query: query?, key: key?, value: value?, first_head, bias, qkv };
    Ok(Model { head: embed.transpose(0, 1)?, embed, attention })
}
