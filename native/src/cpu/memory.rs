//! Memory that stays: the blocks of a layout with real bytes in them, whose tensors are read, written and moved.

use std::collections::BTreeMap;

use spanlift::Bytes;
use spanlift::memory::{Layout, MovePlan, Tensor};
use spanlift::plan::{self, PlanError};
use spanlift::program::Alive;

use super::{CpuError, DEFAULT_LIMIT, Run, run_with};

/// Blocks of memory by name, on this machine whatever device they stand for.
///
/// # Examples
/// ```
/// use spanlift::memory::{Block, Dtype, MemoryMap, cpu, cuda};
/// use spanlift::Bytes;
/// use spanlift_native::cpu::Memory;
///
/// let all = Block::new("w", cpu(), Bytes(16)).tensor(Dtype::U8, &[4, 4])?;
/// let mut map = MemoryMap::new();
/// map.register("all", &all)?;
/// map.register("column", &all.select(1, 2)?)?;
/// let mut memory = Memory::of(&map.layout())?;
/// memory.write(&map.layout(), "all", &(0..16).collect::<Vec<u8>>())?;
///
/// let plan = map.move_to(cuda(0))?;
/// memory.carry_out(&plan)?;
/// map.apply(&plan)?;
/// memory.write(&map.layout(), "column", &[100, 101, 102, 103])?; // seen through both
/// assert_eq!(memory.read(&map.layout(), "all")?[..8], [0, 1, 100, 3, 4, 5, 101, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    blocks: BTreeMap<String, Vec<u8>>,
    limit: Bytes,
    /// The most bytes that the blocks ever came to.
    peak: u128,
}

/// Equal blocks; what was held before does not count.
impl PartialEq for Memory {
    fn eq(&self, other: &Memory) -> bool {
        (&self.blocks, self.limit) == (&other.blocks, other.limit)
    }
}

impl Eq for Memory {}

/// What [`Memory::alive`] cannot see.
const NOT_IN_BLOCKS: [&str; 4] = [
    "copies of blocks that a move works on while it runs",
    "what the allocator adds and keeps, and the blocks' names",
    "pages that were never written, which the system may not have given yet",
    "other memory of this process, and other processes",
];

/// Why memory cannot be made, read, written or moved.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Blocks or elements are more than is to be kept in memory.
    #[error("the bytes come to {bytes} bytes, at most {limit} are kept in memory")]
    TooManyBytes {
        /// What they come to.
        bytes: u128,
        /// What is allowed.
        limit: u64,
    },
    /// No tensor is called so.
    #[error("no tensor is called {0:?}")]
    NoTensor(String),
    /// No block is called so, or it has another size.
    #[error("there is no block {storage:?} of {bytes} bytes here")]
    NoBlock {
        /// The storage.
        storage: String,
        /// Its size in the layout.
        bytes: u64,
    },
    /// Other bytes are given than the tensor has.
    #[error("tensor {tensor:?} has {bytes} bytes, {given} are given")]
    WrongLength {
        /// The tensor.
        tensor: String,
        /// What it has.
        bytes: u64,
        /// What is given.
        given: usize,
    },
    /// The move has no program.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The program cannot be run.
    #[error(transparent)]
    Cpu(#[from] CpuError),
}

readable!(MemoryError);

impl Memory {
    /// Zeros in every block of a layout.
    ///
    /// # Errors
    /// [`MemoryError::TooManyBytes`] beyond [`DEFAULT_LIMIT`].
    pub fn of(layout: &Layout) -> Result<Memory, MemoryError> {
        Memory::within(layout, DEFAULT_LIMIT)
    }

    /// The same with another limit, which holds for later moves too.
    ///
    /// # Errors
    /// [`MemoryError::TooManyBytes`] beyond `limit`.
    pub fn within(layout: &Layout, limit: Bytes) -> Result<Memory, MemoryError> {
        let bytes: u128 = layout.storages().iter().map(|s| u128::from(s.bytes.0)).sum();
        if bytes > u128::from(limit.0) {
            return Err(MemoryError::TooManyBytes { bytes, limit: limit.0 });
        }
        let zeros = |n: u64| vec![0; usize::try_from(n).unwrap_or(usize::MAX)];
        let blocks = layout.storages().iter().map(|s| (s.id.clone(), zeros(s.bytes.0)));
        Ok(Memory { blocks: blocks.collect(), limit, peak: bytes })
    }

    /// The bytes of a block.
    pub fn block(&self, storage: &str) -> Option<&[u8]> {
        self.blocks.get(storage).map(Vec::as_slice)
    }

    /// Puts a block there, in the place of one of that name.
    pub fn put(&mut self, storage: &str, bytes: Vec<u8>) {
        self.blocks.insert(storage.to_owned(), bytes);
        self.see();
    }

    /// The blocks that are held, on this machine whatever device they stand for, and the most that they ever came to.
    pub fn alive(&self) -> Alive {
        let blocks = self.blocks.iter().map(|(name, block)| (name.as_str(), block.len() as u64));
        Alive::of_blocks(
            blocks,
            self.peak,
            "the blocks of an engine on this machine's processor",
            &NOT_IN_BLOCKS,
        )
    }

    fn see(&mut self) {
        let bytes = self.blocks.values().map(|block| block.len() as u128).sum();
        self.peak = self.peak.max(bytes);
    }

    /// The bytes of a tensor, element by element in row-major order.
    ///
    /// # Errors
    /// No such tensor in the layout, or no such block here.
    pub fn read(&self, layout: &Layout, tensor: &str) -> Result<Vec<u8>, MemoryError> {
        let t = find(layout, tensor)?;
        let listed = t.listed_bytes().0;
        if listed > self.limit.0 {
            // An expanded view lists far more bytes than its block has.
            return Err(MemoryError::TooManyBytes { bytes: listed.into(), limit: self.limit.0 });
        }
        if t.span().is_empty() {
            return Ok(Vec::new());
        }
        let (name, bytes) = block_of(layout, t);
        let block = self.blocks.get(name).filter(|b| b.len() as u64 == bytes);
        let block = block.ok_or_else(|| MemoryError::NoBlock { storage: name.to_owned(), bytes })?;
        let mut out = Vec::new();
        positions(t, |at, len| out.extend_from_slice(&block[at..at + len]));
        Ok(out)
    }

    /// Writes a tensor, element by element in row-major order; elements that lie in one place get the last one's bytes.
    ///
    /// # Errors
    /// No such tensor in the layout, no such block here, or not as many bytes as the tensor has.
    pub fn write(&mut self, layout: &Layout, tensor: &str, new: &[u8]) -> Result<(), MemoryError> {
        let t = find(layout, tensor)?;
        let has = t.listed_bytes().0;
        if has != new.len() as u64 {
            return Err(MemoryError::WrongLength { tensor: tensor.to_owned(), bytes: has, given: new.len() });
        }
        if t.span().is_empty() {
            return Ok(());
        }
        let (name, bytes) = block_of(layout, t);
        let block = self.blocks.get_mut(name).filter(|b| b.len() as u64 == bytes);
        let block = block.ok_or_else(|| MemoryError::NoBlock { storage: name.to_owned(), bytes })?;
        let mut done = 0;
        positions(t, |at, len| {
            block[at..at + len].copy_from_slice(&new[done..done + len]);
            done += len;
        });
        Ok(())
    }

    /// Carries out a move: its program is run on these blocks, and its allocations are among them afterwards. Blocks that
    /// were there stay, also those that no tensor views any more; [`Memory::keep`] drops them.
    ///
    /// # Errors
    /// A block of the layout before that is not here, or a program that cannot be run; then nothing has changed.
    pub fn carry_out(&mut self, plan: &MovePlan) -> Result<Run, MemoryError> {
        let program = plan::lower(plan)?;
        let mut given = BTreeMap::new();
        for copy in &plan.copies {
            let storage = plan.before.storage_of(copy.from);
            let bytes = self.block(&storage.id).filter(|b| b.len() as u64 == storage.bytes.0);
            let missing = || MemoryError::NoBlock { storage: storage.id.clone(), bytes: storage.bytes.0 };
            let bytes = bytes.ok_or_else(missing)?;
            given.entry(storage.id.clone()).or_insert_with(|| bytes.to_vec());
        }
        for a in plan.allocations.iter().filter(|a| program.names().find_buffer(&a.name).is_some()) {
            let zeros = || vec![0; usize::try_from(a.bytes.0).unwrap_or(usize::MAX)];
            let held = self.blocks.get(&a.name).filter(|b| a.is_there && b.len() as u64 == a.bytes.0);
            if a.bytes.0 > self.limit.0 {
                return Err(MemoryError::TooManyBytes { bytes: a.bytes.0.into(), limit: self.limit.0 });
            }
            given.entry(a.name.clone()).or_insert_with(|| held.cloned().unwrap_or_else(zeros));
        }
        let mut run = run_with(&program, given, self.limit)?;
        for last in std::mem::take(&mut run.finals) {
            self.blocks.insert(program.names().buffer(last.buffer).to_owned(), last.bytes.clone());
            run.finals.push(last);
        }
        self.see();
        Ok(run)
    }

    /// Drops the blocks that a layout does not have.
    pub fn keep(&mut self, layout: &Layout) {
        let names: std::collections::BTreeSet<&str> =
            layout.storages().iter().map(|s| s.id.as_str()).collect();
        self.blocks.retain(|name, _| names.contains(name.as_str()));
    }
}

fn find<'l>(layout: &'l Layout, tensor: &str) -> Result<&'l Tensor, MemoryError> {
    layout.find(tensor).ok_or_else(|| MemoryError::NoTensor(tensor.to_owned()))
}

fn block_of<'l>(layout: &'l Layout, tensor: &Tensor) -> (&'l str, u64) {
    let storage = layout.storage_of(tensor.storage());
    (&storage.id, storage.bytes.0)
}

/// Calls `f` for the runs of a tensor in the order of its elements.
fn positions(tensor: &Tensor, f: impl FnMut(usize, usize)) {
    super::blocks::runs(tensor.span(), f);
}
