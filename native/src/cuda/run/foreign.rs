//! Steps that NVIDIA's libraries carry out: products of cuBLAS and transforms of cuFFT, between moves of our own.

use std::rc::Rc;

use spanlift::op::{Complex64, Leaf};
use spanlift::program::{Command, Kernel, StreamId};

use super::super::error::CudaError;
use super::super::stream::Stream;
use super::formula::{Scratch, shape};
use super::issue::{Issue, Refusal};
use super::kernels::{Elementwise, Type, View};
use super::libraries::{Blas, Transforms, blas, transforms};
use super::product::Product;
use super::steps::{Handles, Held, Step, other_bytes, type_of};
use super::tables::{Move, Sections};
use super::transform::Transform;
use crate::cpu::blocks::bytes_of;
use crate::driver::Precision;

/// Where work of one command goes.
struct At<'c> {
    command: &'c Command,
    stream_id: StreamId,
    stream: Stream,
    /// Memory that is taken for this command alone.
    scratches: Vec<Scratch>,
}

impl Issue<'_> {
    /// A dense operator made ready; `None` for another leaf.
    pub(super) fn prepare_product(
        &mut self,
        leaf: &Leaf,
        at: (u32, StreamId),
        handles: &mut Handles,
    ) -> Result<Option<Step>, Refusal> {
        let Some(product) = Product::of(leaf) else { return Ok(None) };
        let ty = type_of(leaf.domain().dtype())?;
        let handle = self.blas(at, handles)?;
        let mut sections = Sections::default();
        product.pack.iter().chain(&product.unpack).for_each(|moved| sections.moved(moved));
        product.weights.iter().for_each(|weights| sections.add(encoded(weights, ty)));
        let held = self.hold(at.0, sections)?;
        Ok(Some(Step::Product { leaf: leaf.clone(), product: Rc::new(product), handle, held }))
    }

    /// A Fourier transform made ready; `None` for another leaf.
    pub(super) fn prepare_transform(&mut self, leaf: &Leaf, dev: u32) -> Result<Option<Step>, Refusal> {
        let Some(transform) = Transform::of(leaf) else { return Ok(None) };
        let plans = self.plans(leaf, &transform, dev)?;
        let mut sections = Sections::default();
        transform.moves.iter().for_each(|moved| sections.moved(moved));
        let held = self.hold(dev, sections)?;
        Ok(Some(Step::Transform { leaf: leaf.clone(), transform: Rc::new(transform), plans, held }))
    }

    /// A plan of cuFFT for each pass of a transform.
    pub(super) fn plans(
        &self,
        leaf: &Leaf,
        transform: &Transform,
        dev: u32,
    ) -> Result<Vec<Transforms>, Refusal> {
        let single = is_single(type_of(leaf.domain().dtype())?);
        let context = self.context(dev);
        let plans = transform.passes.iter();
        let plans = plans.map(|pass| transforms(context, &pass.lens, pass.batch, single));
        Ok(plans.collect::<Result<Vec<Transforms>, CudaError>>()?)
    }

    /// cuBLAS for a stream, opened when it is first needed.
    pub(super) fn blas(&self, at: (u32, StreamId), handles: &mut Handles) -> Result<Rc<Blas>, CudaError> {
        if let Some(handle) = handles.get(&at) {
            return Ok(Rc::clone(handle));
        }
        let handle = Rc::new(blas(self.context(at.0))?);
        handles.insert(at, Rc::clone(&handle));
        Ok(handle)
    }

    /// Carries out a product; gives the memory that it takes besides.
    pub(super) fn product(
        &mut self,
        command: &Command,
        kernel: &Kernel,
        (leaf, product, handle): (&Leaf, &Product, &Blas),
        held: &Held,
    ) -> Result<Vec<Scratch>, Refusal> {
        let ty = type_of(leaf.domain().dtype())?;
        let [w, x] = self.operands(kernel)?;
        let n_weights = product.n_weights * ty.bytes();
        let [n_in, n_out] = [leaf.domain(), leaf.codomain()].map(|space| space.elements().unsigned_abs());
        let y = self.written(kernel, n_out * ty.bytes())?;
        if bytes_of(&x.span) != n_in * ty.bytes() || bytes_of(&w.span) != n_weights || self.meets(x, y) {
            return Err(other_bytes());
        }
        let mut at = self.at(command, kernel.stream)?;
        let (from, to) = (self.whole(&at.stream, x, ty)?, self.whole(&at.stream, y, ty)?);
        let base = self.blocks.address(held.region.buffer, &at.stream)?.unwrap_or_default();
        let section = |k: usize| base + held.sections.get(k).map_or(0, |at| *at as u64);
        let stored = self.whole(&at.stream, w, ty)?;
        let weights = match &product.weights {
            Some(_) => section(held.sections.len() - 1),
            None => self.in_a_row(&mut at, stored, ty, product.n_weights)?,
        };
        let read = match &product.pack {
            Some(pack) => {
                let room = self.room_for(&mut at, n_in * ty.bytes())?;
                self.moved(
                    &at,
                    pack,
                    [section(0), section(1)],
                    ty,
                    (&View::row(room, n_in * ty.bytes()), &from),
                )?;
                room
            }
            None => self.in_a_row(&mut at, from, ty, n_in)?,
        };
        let direct = product.unpack.is_none() && to.is_row();
        let written = if direct { to.base() } else { self.room_for(&mut at, n_out * ty.bytes())? };
        let gemm = &product.gemm;
        let (a, b) = if product.weights_first { (weights, read) } else { (read, weights) };
        let precision = Precision { single: is_single(ty), complex: matches!(ty, Type::C32 | Type::C64) };
        self.blocks.product(handle, &at.stream, precision, gemm, [a, b, written])?;
        let result = View::row(written, n_out * ty.bytes());
        if let Some(unpack) = &product.unpack {
            let first = if product.pack.is_some() { 2 } else { 0 };
            self.moved(&at, unpack, [section(first), section(first + 1)], ty, (&to, &result))?;
        } else if !direct {
            self.scaled(&at, Complex64::ONE, ty, n_out, (&to, &result))?;
        }
        Ok(at.scratches)
    }

    /// Carries out a transform; gives the memory that it takes besides.
    pub(super) fn transform(
        &mut self,
        command: &Command,
        kernel: &Kernel,
        (leaf, transform, plans): (&Leaf, &Transform, &[Transforms]),
        held: &Held,
    ) -> Result<Vec<Scratch>, Refusal> {
        let (reads, writes) = (type_of(leaf.domain().dtype())?, type_of(leaf.codomain().dtype())?);
        let [x] = self.operands(kernel)?;
        let [n_in, n_out] = [leaf.domain(), leaf.codomain()].map(|space| space.elements().unsigned_abs());
        let y = self.written(kernel, n_out * writes.bytes())?;
        if bytes_of(&x.span) != n_in * reads.bytes() || self.meets(x, y) {
            return Err(other_bytes());
        }
        let (real, complex) = if is_single(reads) { (Type::F32, Type::C32) } else { (Type::F64, Type::C64) };
        let mut at = self.at(command, kernel.stream)?;
        let (from, to) = (self.whole(&at.stream, x, reads)?, self.whole(&at.stream, y, writes)?);
        let scale = Complex64::from(transform.scale);
        if transform.is_plain && from.is_row() && to.is_row() {
            let places = [from.base(), to.base()];
            self.blocks.transform(&plans[0], &at.stream, transform.inverse, places)?;
            self.scaled(&at, scale, writes, n_out, (&to, &to))?;
            return Ok(at.scratches);
        }
        let base = self.blocks.address(held.region.buffer, &at.stream)?.unwrap_or_default();
        let section = |k: usize| base + held.sections.get(k).map_or(0, |at| *at as u64);
        let tables = |k: usize| [section(2 * k), section(2 * k + 1)];
        let bytes = transform.n * complex.bytes();
        let row = |place: u64| View::row(place, bytes);
        // The real parts of complex numbers in a row.
        let reals = |place: u64| View::every(place, transform.n, (real.bytes(), complex.bytes()));
        let mut here = self.room_for(&mut at, bytes)?;
        if transform.real[0] {
            let n = 2 * transform.n;
            let words = Elementwise::zeros().words(n, &row(here), &[]);
            let function = &self.device(&at.stream)?.operators()?.elementwise[real as usize];
            self.blocks.launch(function, &at.stream, shape(n), &words)?;
            self.moved(&at, &transform.moves[0], tables(0), real, (&reals(here), &from))?;
        } else {
            self.moved(&at, &transform.moves[0], tables(0), complex, (&row(here), &from))?;
        }
        for (k, plan) in plans.iter().enumerate() {
            if k > 0 {
                let there = self.room_for(&mut at, bytes)?;
                self.moved(&at, &transform.moves[k], tables(k), complex, (&row(there), &row(here)))?;
                here = there;
            }
            self.blocks.transform(plan, &at.stream, transform.inverse, [here, here])?;
        }
        let last = transform.moves.len() - 1;
        let (ty, parts) = if transform.real[1] { (real, reals(here)) } else { (complex, row(here)) };
        self.moved(&at, &transform.moves[last], tables(last), ty, (&to, &parts))?;
        self.scaled(&at, scale, writes, n_out, (&to, &to))?;
        Ok(at.scratches)
    }

    fn at<'c>(&mut self, command: &'c Command, stream_id: StreamId) -> Result<At<'c>, Refusal> {
        Ok(At { command, stream_id, stream: self.stream(stream_id)?, scratches: Vec::new() })
    }

    /// Memory in the order of the stream, until the command is done.
    fn room_for(&mut self, at: &mut At<'_>, bytes: u64) -> Result<u64, Refusal> {
        let scratch = self.room(at.command, at.stream_id, bytes)?;
        let address = self.blocks.address(scratch.buffer, &at.stream)?;
        at.scratches.push(scratch);
        Ok(address.unwrap_or_default())
    }

    /// The address of a region whose elements lie in a row, or of a copy of it.
    fn in_a_row(&mut self, at: &mut At<'_>, view: View, ty: Type, n: u64) -> Result<u64, Refusal> {
        if view.is_row() {
            return Ok(view.base());
        }
        let room = self.room_for(at, n * ty.bytes())?;
        self.scaled(at, Complex64::ONE, ty, n, (&View::row(room, n * ty.bytes()), &view))?;
        Ok(room)
    }

    fn moved(
        &self,
        at: &At<'_>,
        moved: &Move,
        tables: [u64; 2],
        ty: Type,
        (to, from): (&View, &View),
    ) -> Result<(), Refusal> {
        let function = &self.device(&at.stream)?.operators()?.moves[ty as usize];
        Ok(self.blocks.launch(function, &at.stream, shape(moved.n()), &moved.words(tables, to, from))?)
    }

    /// Every element times a factor; 1 copies.
    fn scaled(
        &self,
        at: &At<'_>,
        factor: Complex64,
        ty: Type,
        n: u64,
        (to, from): (&View, &View),
    ) -> Result<(), Refusal> {
        let words = Elementwise::scale(factor).words(n, to, std::slice::from_ref(from));
        let function = &self.device(&at.stream)?.operators()?.elementwise[ty as usize];
        Ok(self.blocks.launch(function, &at.stream, shape(n), &words)?)
    }
}

/// Weights as the bytes of their type.
fn encoded(weights: &[Complex64], ty: Type) -> Vec<u8> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to the type of the weights, which they have already"
    )]
    let single = |v: f64| (v as f32).to_le_bytes();
    match ty {
        Type::F32 => weights.iter().flat_map(|w| single(w.re)).collect(),
        Type::F64 => weights.iter().flat_map(|w| w.re.to_le_bytes()).collect(),
        Type::C32 => weights.iter().flat_map(|w| [w.re, w.im]).flat_map(single).collect(),
        Type::C64 => weights.iter().flat_map(|w| [w.re, w.im]).flat_map(f64::to_le_bytes).collect(),
    }
}

fn is_single(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::C32)
}
