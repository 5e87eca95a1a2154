//! A move of tensors as a program.

use crate::ordered::{BTreeMap, BTreeSet};

use super::PlanError;
use super::devices::{Numbers, Streams};
use crate::memory::{Device, MoveKind, MovePlan, Storage};
use crate::op::transfer_stream;
use crate::program::{BufferId, Program, Space};
use crate::units::Bytes;

/// The program that carries out a move: one buffer for each storage and allocation, one strided copy for each copy of the
/// plan, on one stream for each pair of devices; at the end the host waits for all of them.
///
/// Host memory is pageable: nothing says that it is page-locked. Copies within the host are the calling thread's.
///
/// # Errors
/// [`PlanError`] when devices cannot be numbered, or the plan's fields were changed so that they do not fit each other.
///
/// # Examples
/// ```
/// use spanlift::Bytes;
/// use spanlift::memory::{Dtype, Layout, View, cpu, cuda};
///
/// let mut layout = Layout::new();
/// let w = layout.storage("w", cpu(), Bytes(400))?;
/// // The fourth column of a matrix of 10 x 10.
/// layout.tensor("column", w, View { dtype: Dtype::F32, shape: vec![10], strides: vec![10], offset: 3 })?;
/// let program = spanlift::plan::lower(&layout.move_to(cuda(0))?)?;
/// assert_eq!(program.len(), 5); // a storage, an allocation, a stream, one strided copy, a wait
/// assert_eq!(program.title, "move 1 tensor to cuda:0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lower(plan: &MovePlan) -> Result<Program, PlanError> {
    plan.check()?;
    let before = &plan.before;
    let devices = || plan.copies.iter().map(|c| before.storage_of(c.from).device);
    let numbers = Numbers::of(devices().chain(plan.allocations.iter().map(|a| a.device)))?;
    let mut program = Program::new();
    let tensors = if plan.tensors.len() == 1 { "tensor" } else { "tensors" };
    program.title = match (plan.kind, plan.tensors.len()) {
        (MoveKind::DeepCopy, n) => format!("copy {n} {tensors} on the same device"),
        (MoveKind::Naive, n) => format!("move {n} {tensors} naively to {}", plan.to),
        (MoveKind::Aware, n) => format!("move {n} {tensors} to {}", plan.to),
    };
    // One buffer a name: a block that gets bytes may be one that others are taken from.
    let mut buffers: BTreeMap<&str, BufferId> = BTreeMap::new();
    let declare = |program: &mut Program, name: &str, device: Device, bytes: Bytes| {
        let (space, number) = numbers.place(device, Space::Pageable);
        program.buffer(name, space, number, bytes, None)
    };
    for copy in &plan.copies {
        let Storage { id, device, bytes } = before.storage_of(copy.from);
        buffers.entry(id).or_insert_with(|| declare(&mut program, id, *device, *bytes));
    }
    let used: BTreeSet<usize> = plan.copies.iter().map(|c| c.allocation).collect();
    for (k, a) in plan.allocations.iter().enumerate() {
        // What is there and gets nothing has no part in this.
        if !a.is_there || used.contains(&k) {
            buffers.entry(&a.name).or_insert_with(|| declare(&mut program, &a.name, a.device, a.bytes));
        }
    }
    let mut streams = Streams::default();
    let mut stream_of = BTreeMap::new();
    for copy in &plan.copies {
        let (from, to) = (before.storage_of(copy.from).device, plan.allocations[copy.allocation].device);
        // Host to host is the calling thread's own work.
        if !(from.is_host() && to.is_host()) {
            let (name, device) = transfer_stream(from, to);
            stream_of.insert((from, to), streams.get(&mut program, numbers, &name, device)?);
        }
    }
    for copy in &plan.copies {
        let (a, from) = (&plan.allocations[copy.allocation], before.storage_of(copy.from));
        let dst = buffers[a.name.as_str()].spanned(copy.target());
        let src = buffers[from.id.as_str()].spanned(copy.span.clone());
        match stream_of.get(&(from.device, a.device)) {
            Some(&stream) => program.copy(dst, src).on(stream),
            None => program.host_copy(dst, src),
        };
    }
    for &stream in stream_of.values() {
        program.sync(stream);
    }
    program.check()?;
    Ok(program)
}
