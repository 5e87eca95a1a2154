//! Page-locked buffers and device memory.
//!
//! Types keep a buffer from whoever must not touch it, so here nobody has to ask whether a copy is over.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::value::{contents, decoded};
use super::{EngineError, Shared, Stream, Value};
use crate::memory::Dtype;
use crate::program::{BufferId, Contents, Region, Space, StreamId};
use crate::units::Bytes;

/// Elements in page-locked memory: a slice as long as no transfer has it.
///
/// # Panics
/// Looking at what a transfer brought panics where all calls so far are more than can be simulated.
pub struct PinnedBuf<T> {
    shared: Shared,
    id: BufferId,
    len: usize,
    /// What the host knows of it; empty since a device wrote it, until somebody looks.
    elements: OnceCell<Vec<T>>,
    /// Whether the host may have written it since it was told of in the program.
    is_changed: bool,
}

impl<T> fmt::Debug for PinnedBuf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuf({} elements)", self.len)
    }
}

impl<T: Value> PinnedBuf<T> {
    pub(super) fn new(shared: &Shared, len: usize) -> Result<PinnedBuf<T>, EngineError> {
        let id = declared(shared, Space::Pinned, "host", (len, size_of::<T>()))?;
        let elements = vec![T::ZERO; len].into();
        Ok(PinnedBuf { shared: shared.clone(), id, len, elements, is_changed: false })
    }

    /// Takes it that the host writes these elements, without a look at what was there.
    pub(super) fn hold(&mut self, elements: &[T]) {
        self.elements = elements.to_vec().into();
        self.is_changed = true;
    }

    /// How many elements there are; also while nobody has looked at them.
    pub(super) fn n_elements(&self) -> usize {
        self.len
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// All of its elements.
    pub(super) fn part(&self) -> Region {
        part_of(self.id, 0, self.len * size_of::<T>())
    }

    /// Tells the program what the host wrote, before a device reads or overwrites it.
    pub(super) fn tell(&mut self) {
        let elements = self.elements.get().filter(|elements| self.is_changed && !elements.is_empty());
        if let Some(elements) = elements {
            self.shared.program().host_write(self.part(), contents(elements));
        }
        self.is_changed = false;
    }

    /// Takes it that a device writes it: what the host knew, and has [told](PinnedBuf::tell), is over.
    pub(super) fn forget(&mut self) {
        self.elements.take();
    }

    fn found(&self) -> Vec<T> {
        let found = self.shared.look(self.id, self.len * size_of::<T>());
        decoded(&found.unwrap_or_else(|error| panic!("what was brought: {error}")))
    }
}

impl<T: Value> Deref for PinnedBuf<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements.get_or_init(|| self.found())
    }
}

impl<T: Value> DerefMut for PinnedBuf<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        if self.elements.get().is_none() {
            self.elements = OnceCell::from(self.found());
        }
        self.is_changed = true;
        self.elements.get_mut().map_or(&mut [], Vec::as_mut_slice)
    }
}

/// A block of device memory with a home stream: it is freed in that stream's order, after what others were given on it.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) shared: Shared,
    pub(super) id: BufferId,
    home: StreamId,
    /// Streams beside the home one that have used it.
    others: RefCell<Vec<StreamId>>,
}

impl Block {
    /// Takes it that `stream` was given work on the block that the home stream does not wait for.
    pub(super) fn used_on(&self, stream: StreamId) {
        let mut others = self.others.borrow_mut();
        if stream != self.home && !others.contains(&stream) {
            others.push(stream);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut program = self.shared.program();
        for other in self.others.take() {
            let event = program.event_after(other);
            program.wait(self.home, event);
        }
        program.free_async(self.id, self.home);
    }
}

/// Elements in a device's memory that one owner has: what transfers take and give back.
pub struct DevBuf<T> {
    /// In one place, so that results which give buffers back stay small.
    pub(super) block: Box<Block>,
    len: usize,
    of: PhantomData<T>,
}

impl<T> fmt::Debug for DevBuf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevBuf({} elements)", self.len)
    }
}

impl<T: Value> DevBuf<T> {
    pub(super) fn new(home: &Stream, len: usize) -> Result<DevBuf<T>, EngineError> {
        let shared = home.shared.clone();
        let bytes = shared.room(len, size_of::<T>())?;
        let mut program = shared.program();
        let name = program.names_mut().buffers.unused("there");
        let draft = program.alloc(Space::Device, &name, Bytes(bytes.max(1))).dev(shared.dev());
        let id = draft.on(home.id).declare();
        drop(program);
        let block = Block { shared, id, home: home.id, others: RefCell::default() };
        Ok(DevBuf { block: Box::new(block), len, of: PhantomData })
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of its elements.
    pub(super) fn part(&self) -> Region {
        part_of(self.block.id, 0, self.len * size_of::<T>())
    }
}

/// Memory of the host that carries bytes, all of them 0: so many elements of so many bytes.
pub(super) fn declared(
    shared: &Shared,
    space: Space,
    word: &str,
    (len, size): (usize, usize),
) -> Result<BufferId, EngineError> {
    let bytes = shared.room(len, size)?;
    let mut program = shared.program();
    let name = program.names_mut().buffers.unused(word);
    // Of no elements too there is memory.
    let draft = program.alloc(space, &name, Bytes(bytes.max(1)));
    Ok(draft.holds(Contents::fill(Dtype::U8, 0.0)).declare())
}

/// So many bytes of a buffer; they were counted when it was made, so they are within an `i64`.
pub(super) fn part_of(id: BufferId, at: usize, len: usize) -> Region {
    let number = |n| i64::try_from(n).unwrap_or(i64::MAX);
    id.range(number(at), number(len))
}
