//! Modules: structs whose fields are tensors and other modules, and how a layout is made of them.
//!
//! A module tells a [`Visitor`] its fields; [`module!`](crate::module) writes that down.

use std::sync::Arc;

use super::handle::{AsTensor, Block, Source, TensorRef};
use super::layout::{Layout, LayoutProblem, LayoutProblems, Reason, StorageId};
use super::marks::{Marks, ModuleEntry, TensorKind};
use super::plan::Names;
use super::{Device, View};
use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::units::Bytes;

/// Something with tensors and other modules in it.
///
/// [`module!`](crate::module) implements it for structs. `Option`, `Vec`, arrays, boxes and maps of modules are modules:
/// the entries of a list are named `0`, `1`, ..., those of a map by their keys.
pub trait Module {
    /// Its type's name, `Linear`.
    fn module_type(&self) -> &str {
        let name = std::any::type_name::<Self>();
        let plain = name.split_once('<').map_or(name, |(head, _)| head);
        plain.rsplit("::").next().unwrap_or(plain)
    }

    /// Tells `visitor` every tensor and module in it, in the order in which they are listed.
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>);

    /// Whether it is there at all; `false` for an `Option` that holds nothing, which is skipped.
    fn is_present(&self) -> bool {
        true
    }
}

/// Takes down what modules say of themselves.
#[derive(Debug, Default)]
pub struct Visitor<'a> {
    path: String,
    pub(super) found: Vec<Found<'a>>,
    pub(super) modules: Vec<ModuleEntry>,
}

/// A tensor as its module named it.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) name: String,
    pub(super) marks: Marks,
    pub(super) tensor: TensorRef<'a>,
}

impl<'a> Visitor<'a> {
    /// Everything in `module`, which stands at `path`.
    pub(super) fn walk<M: Module + ?Sized>(path: &str, module: &'a M) -> Visitor<'a> {
        let mut visitor = Visitor { path: path.to_owned(), ..Visitor::default() };
        visitor.enter(module);
        visitor
    }

    /// A parameter; nothing happens where it is absent.
    pub fn parameter<T: AsTensor + ?Sized>(&mut self, name: &str, tensor: &'a T) {
        self.tensor(name, TensorKind::Parameter, tensor);
    }

    /// A buffer; nothing happens where it is absent.
    pub fn buffer<T: AsTensor + ?Sized>(&mut self, name: &str, tensor: &'a T) {
        self.tensor(name, TensorKind::Buffer, tensor);
    }

    /// A module in this one; nothing happens where it is absent.
    pub fn module<M: Module + ?Sized>(&mut self, name: &str, module: &'a M) {
        let outer = self.join(name);
        let outer = std::mem::replace(&mut self.path, outer);
        self.enter(module);
        self.path = outer;
    }

    fn enter<M: Module + ?Sized>(&mut self, module: &'a M) {
        if module.is_present() {
            let module_type = module.module_type().to_owned();
            self.modules.push(ModuleEntry { path: self.path.clone(), module_type });
            module.visit(self);
        }
    }

    fn tensor<T: AsTensor + ?Sized>(&mut self, name: &str, kind: TensorKind, tensor: &'a T) {
        if let Some(tensor) = tensor.as_tensor() {
            let usual = Marks::of(kind);
            let requires_grad = tensor.requires_grad.unwrap_or(usual.requires_grad);
            self.found.push(Found { name: self.join(name), marks: Marks { kind, requires_grad }, tensor });
        }
    }

    fn join(&self, name: &str) -> String {
        match (self.path.as_str(), name) {
            ("", name) => name.to_owned(),
            (path, "") => path.to_owned(),
            (path, name) => format!("{path}.{name}"),
        }
    }
}

/// Implements [`Module`] for a struct: its name, then its fields as `parameter`, `buffer` or
/// `module`.
///
/// ```
/// use spanlift::memory::TensorView;
///
/// struct Norm { scale: TensorView, shift: Option<TensorView>, mean: [f32; 4], eps: f64 }
/// spanlift::module!(Norm: parameter scale, shift; buffer mean); // `eps` is no tensor and stays out
///
/// struct Block { norm: Norm, rest: Vec<Norm> }
/// spanlift::module!(Block: module norm, rest);
/// ```
#[macro_export]
macro_rules! module {
    // Each word before a list is the visitor's method for its fields.
    ($type:ty : $($kind:ident $($field:ident),+);+ $(;)?) => {
        impl $crate::memory::Module for $type {
            fn module_type(&self) -> &str {
                stringify!($type)
            }

            fn visit<'a>(&'a self, visitor: &mut $crate::memory::Visitor<'a>) {
                $($(visitor.$kind(stringify!($field), &self.$field);)+)+
            }
        }
    };
}

macro_rules! as_its_content {
    ($($type:ty),*) => {
        $(impl<M: Module + ?Sized> Module for $type {
            fn module_type(&self) -> &str {
                (**self).module_type()
            }

            fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
                (**self).visit(visitor);
            }

            fn is_present(&self) -> bool {
                (**self).is_present()
            }
        })*
    };
}

as_its_content!(&M, Box<M>, Arc<M>, std::rc::Rc<M>);

impl<M: Module> Module for Option<M> {
    fn module_type(&self) -> &str {
        self.as_ref().map_or("", Module::module_type)
    }

    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        if let Some(module) = self {
            module.visit(visitor);
        }
    }

    fn is_present(&self) -> bool {
        self.as_ref().is_some_and(Module::is_present)
    }
}

impl<M: Module> Module for [M] {
    fn module_type(&self) -> &str {
        "ModuleList"
    }

    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        for (k, module) in self.iter().enumerate() {
            visitor.module(&k.to_string(), module);
        }
    }
}

impl<M: Module> Module for Vec<M> {
    fn module_type(&self) -> &str {
        self.as_slice().module_type()
    }

    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        self.as_slice().visit(visitor);
    }
}

impl<M: Module, const N: usize> Module for [M; N] {
    fn module_type(&self) -> &str {
        self.as_slice().module_type()
    }

    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        self.as_slice().visit(visitor);
    }
}

impl<M: Module> Module for std::collections::BTreeMap<String, M> {
    fn module_type(&self) -> &str {
        "ModuleDict"
    }

    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        for (name, module) in self {
            visitor.module(name, module);
        }
    }
}

impl Layout {
    /// The layout of a module: every tensor in it by its dotted name, every block that they view.
    ///
    /// A block is a storage, whoever views it; slices that share bytes are one storage. Storages are called as their
    /// blocks, or after their first tensor where those have no name, with a number where two would be called alike.
    ///
    /// # Errors
    /// Every problem of the tensors at once, such as a view outside its block or two tensors with one name.
    ///
    /// # Examples
    /// ```
    /// use spanlift::memory::{Block, Dtype, Layout, TensorView, cpu, cuda};
    /// use spanlift::{kib, module};
    ///
    /// struct Linear {
    ///     weight: TensorView,
    ///     bias: Option<TensorView>, // absent ones are skipped
    /// }
    /// module!(Linear: parameter weight, bias);
    ///
    /// struct Encoder {
    ///     layers: Vec<Linear>,
    ///     mean: Vec<f32>, // real data
    /// }
    /// module!(Encoder: buffer mean; module layers);
    ///
    /// let block = Block::new("weights", cpu(), kib(8)); // both layers are views of one block
    /// let rows = block.tensor(Dtype::F32, &[64, 32])?;
    /// let layer = |first| -> Result<_, Box<dyn std::error::Error>> {
    ///     Ok(Linear { weight: rows.narrow(0, first, 32)?, bias: None })
    /// };
    /// let model = Encoder { layers: vec![layer(0)?, layer(16)?], mean: vec![0.0; 32] };
    ///
    /// let layout = Layout::of(&model)?;
    /// let names: Vec<&str> = layout.tensors().iter().map(|t| t.name()).collect();
    /// assert_eq!(names, ["mean", "layers.0.weight", "layers.1.weight"]);
    /// assert_eq!(layout.move_to(cuda(0))?.bytes_copied(), 48 * 32 * 4 + 128); // shared rows once
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of<M: Module + ?Sized>(module: &M) -> Result<Layout, LayoutProblems> {
        let visitor = Visitor::walk("", module);
        let mut layout = Layout::new();
        let mut problems = Vec::new();
        let places = places(&visitor.found);
        let (mut storages, mut names) = (BTreeMap::<Identity, StorageId>::new(), Names::default());
        for (found, place) in visitor.found.iter().zip(&places) {
            let storage = match storages.get(&place.identity) {
                Some(&storage) => storage,
                None => {
                    let name = names.free(&place.name(found), |name| layout.has_storage(name));
                    match layout.storage(&name, place.device, place.bytes) {
                        Ok(storage) => *storages.entry(place.identity).or_insert(storage),
                        Err(wrong) => {
                            problems.extend(wrong.0);
                            continue;
                        }
                    }
                }
            };
            let added = place.view(found).map_err(|reason| one(&found.name, reason));
            let added = added.and_then(|view| layout.marked(&found.name, storage, view, found.marks));
            problems.extend(added.err().into_iter().flat_map(|wrong| wrong.0));
        }
        layout.set_modules(visitor.modules);
        if problems.is_empty() { Ok(layout) } else { Err(LayoutProblems(problems)) }
    }
}

fn one(name: &str, reason: Reason) -> LayoutProblems {
    LayoutProblems(vec![LayoutProblem { of_tensor: true, name: name.to_owned(), reason }])
}

/// What makes two tensors views of one storage: the same handle, or slices in one region of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    Block(usize),
    Region(usize),
}

/// The storage of one found tensor.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) identity: Identity,
    pub(super) block: Option<Block>,
    pub(super) device: Device,
    pub(super) bytes: Bytes,
    /// Bytes from the storage's start to where the tensor's offset counts from.
    shift: usize,
}

impl Place {
    /// What the storage is to be called.
    pub(super) fn name(&self, first: &Found<'_>) -> String {
        self.block.as_ref().map(Block::id).filter(|id| !id.is_empty()).unwrap_or(&first.name).to_owned()
    }

    /// The tensor's view of the whole storage.
    pub(super) fn view(&self, found: &Found<'_>) -> Result<View, Reason> {
        let view = found.tensor.view.clone();
        let item = view.dtype.bytes();
        let shift = i64::try_from(self.shift).map_err(|_| Reason::Overflow)?;
        if shift % item != 0 {
            return Err(Reason::Unaligned { item, shift });
        }
        let offset = view.offset.checked_add(shift / item).ok_or(Reason::Overflow)?;
        Ok(View { offset, ..view })
    }
}

/// For each tensor its storage: the block of its handle, or all slices whose bytes cross.
pub(super) fn places(found: &[Found<'_>]) -> Vec<Place> {
    let mut slices: Vec<(usize, usize)> = Vec::new();
    for f in found {
        if let Source::Slice { address, bytes, .. } = f.tensor.source {
            slices.push((address, address.saturating_add(bytes)));
        }
    }
    sort(&mut slices);
    let mut regions: Vec<(usize, usize)> = Vec::new();
    for (start, end) in slices {
        match regions.last_mut() {
            // Slices that only touch may be two allocations side by side; empty ones may lie anywhere.
            Some(last) if start < last.1 || (start == end && start == last.1) => last.1 = last.1.max(end),
            _ => regions.push((start, end)),
        }
    }
    let place = |f: &Found<'_>| match &f.tensor.source {
        Source::Block(block) => Place {
            identity: Identity::Block(block.address()),
            device: block.device(),
            bytes: block.bytes(),
            block: Some(block.clone()),
            shift: 0,
        },
        &Source::Slice { address, .. } => {
            // The last region that begins at or before the slice holds it.
            let k = regions.partition_point(|&(start, _)| start <= address).saturating_sub(1);
            let (start, end) = regions.get(k).copied().unwrap_or((address, address));
            Place {
                identity: Identity::Region(k),
                block: None,
                device: Device::Cpu,
                bytes: Bytes((end - start) as u64),
                shift: address - start,
            }
        }
    };
    found.iter().map(place).collect_vec()
}
