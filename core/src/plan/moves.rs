//! A move of tensors as a program.

use std::collections::BTreeMap;

use super::PlanError;
use super::devices::{Numbers, Streams};
use crate::memory::{Device, MoveKind, MovePlan, Span};
use crate::op::transfer_stream;
use crate::program::{BufferId, Program, Region, Space};
use crate::units::Bytes;

/// The program that carries out a move: one buffer for each storage and allocation, one strided copy for each copy of the
/// plan, on one stream for each pair of devices; at the end the host waits for all of them.
///
/// Host memory is pageable: nothing says that it is page-locked.
///
/// # Errors
/// [`PlanError`] when devices cannot be numbered.
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
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lower(plan: &MovePlan) -> Result<Program, PlanError> {
    let before = &plan.before;
    let sources = || plan.allocations.iter().map(|a| a.storage);
    let device_of = |storage| before.storage_of(storage).device;
    let numbers = Numbers::of(sources().map(device_of).chain([plan.to]))?;
    let mut program = Program::new();
    let how = if plan.kind == MoveKind::Naive { " naively" } else { "" };
    program.title = format!("move {} tensors{how} to {}", plan.tensors.len(), plan.to);
    let declare = |program: &mut Program, name: &str, device: Device, bytes: Bytes| {
        let (space, number) = numbers.place(device, Space::Pageable);
        program.buffer(name, space, number, bytes, None)
    };
    let mut storages: BTreeMap<_, BufferId> = BTreeMap::new();
    for id in sources() {
        let storage = before.storage_of(id);
        storages
            .entry(id)
            .or_insert_with(|| declare(&mut program, &storage.id, storage.device, storage.bytes));
    }
    let mut allocations = Vec::new();
    for (a, name) in plan.allocations.iter().zip(plan.allocation_names()) {
        allocations.push(declare(&mut program, &name, plan.to, a.bytes));
    }
    let mut streams = Streams::default();
    let mut stream_of = BTreeMap::new();
    for from in sources().map(device_of) {
        let (name, device) = transfer_stream(from, plan.to);
        stream_of.insert(from, streams.get(&mut program, numbers, &name, device)?);
    }
    for copy in &plan.copies {
        let a = &plan.allocations[copy.allocation];
        let src = &copy.span;
        let dst = Span::strided(src.off() - a.start, src.elem(), src.dims().to_vec())
            .unwrap_or_else(|e| unreachable!("bug: a copy reaches outside its allocation: {e}"));
        let region = |buffer, span| Region { buffer, span, opaque: false };
        program
            .copy(region(allocations[copy.allocation], dst), region(storages[&a.storage], src.clone()))
            .on(stream_of[&device_of(a.storage)]);
    }
    for &stream in stream_of.values() {
        program.sync(stream);
    }
    program.check()?;
    Ok(program)
}
