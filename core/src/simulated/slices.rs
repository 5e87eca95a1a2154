//! Slices of the host's ordinary memory, which no device touches: the processor copies them through page-locked slots.

use super::memory::{declared, part_of};
use super::value::{contents, decoded};
use super::{DevBuf, Engine, EngineError, Stream, Value};
use crate::program::{BufferId, EventId, Program, Space};

/// Bytes of a slot.
const CHUNK: usize = 1 << 20;
/// How many there are.
const SLOTS: usize = 3;

/// What an engine stages with, made when it is needed first.
#[derive(Debug, Default)]
pub(super) struct Staging {
    /// A slot, and the copy that has it.
    slots: Vec<(BufferId, Option<EventId>)>,
    /// The one whose turn it is.
    next: usize,
    /// What stands for the caller's slices, as large as the largest so far.
    pageable: Option<(BufferId, u64)>,
}

impl Staging {
    /// So many bytes in pieces: the slot whose turn it is, where the piece begins, how long it is.
    fn chunks(&mut self, bytes: usize) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let slots = (0..SLOTS).cycle().skip(self.next);
        // Turns go on from call to call, so that nobody waits for a copy that has just begun.
        self.next = (self.next + bytes.div_ceil(CHUNK)) % SLOTS;
        (0..bytes).step_by(CHUNK).zip(slots).map(move |(at, k)| (k, at, CHUNK.min(bytes - at)))
    }
}

impl Engine {
    /// Sends a slice into memory of the device; returns when the slice was consumed, whatever the device does.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`], or the stream is another engine's.
    ///
    /// # Examples
    /// ```
    /// use spanlift::{machine::Machine, simulated::Engine};
    ///
    /// let engine = Engine::open(0, Machine::default())?;
    /// let mut host = vec![1f32; 1000];
    /// let there = engine.upload(engine.stream(), &host)?;
    /// host.fill(2.0);
    /// assert_eq!(engine.download_vec(engine.stream(), &there)?, [1.0; 1000]);
    /// # Ok::<(), spanlift::simulated::EngineError>(())
    /// ```
    pub fn upload<T: Value>(&self, stream: &Stream, from: &[T]) -> Result<DevBuf<T>, EngineError> {
        let mut to = self.alloc(stream, from.len())?;
        self.upload_into(stream, from, &mut to)?;
        Ok(to)
    }

    /// The same into memory that is there.
    ///
    /// # Errors
    /// The lengths differ, and as [`Engine::upload`].
    pub fn upload_into<T: Value>(
        &self,
        stream: &Stream,
        from: &[T],
        to: &mut DevBuf<T>,
    ) -> Result<(), EngineError> {
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        self.of_here(stream, to)?;
        if from.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(from);
        let pageable = self.stage(bytes)?;
        to.block.used_on(stream.id);
        let mut staging = self.staging.borrow_mut();
        let mut program = self.shared.program();
        program.host_write(part_of(pageable, 0, bytes), contents(from));
        for (k, at, len) in staging.chunks(bytes) {
            let (slot, busy) = &mut staging.slots[k];
            // Else the copy before it would send the bytes of this one.
            busy.take().map(|done| program.event_sync(done));
            let staged = part_of(*slot, 0, len);
            program.host_copy(staged.clone(), part_of(pageable, at, len));
            program.copy(part_of(to.block.id, at, len), staged).on(stream.id);
            *busy = Some(program.event_after(stream.id));
        }
        Ok(())
    }

    /// Brings memory of the device into a slice; returns when everything is there.
    ///
    /// # Errors
    /// The lengths differ, and as [`Engine::upload`]; or all calls so far are more than can be simulated.
    pub fn download<T: Value>(
        &self,
        stream: &Stream,
        from: &DevBuf<T>,
        to: &mut [T],
    ) -> Result<(), EngineError> {
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        self.of_here(stream, from)?;
        if to.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(to);
        let pageable = self.stage(bytes)?;
        from.block.used_on(stream.id);
        self.bring(stream, from.block.id, pageable, bytes);
        let found = decoded(&self.shared.look(pageable, bytes)?);
        to.iter_mut().zip(found).for_each(|(to, found)| *to = found);
        Ok(())
    }

    /// The same into a vector.
    ///
    /// # Errors
    /// As [`Engine::download`].
    pub fn download_vec<T: Value>(&self, stream: &Stream, from: &DevBuf<T>) -> Result<Vec<T>, EngineError> {
        let mut to = vec![T::ZERO; from.len()];
        self.download(stream, from, &mut to)?;
        Ok(to)
    }

    fn of_here<T>(&self, stream: &Stream, memory: &DevBuf<T>) -> Result<(), EngineError> {
        self.shared.is(&stream.shared)?;
        self.shared.is(&memory.block.shared)
    }

    /// Chunk by chunk through the slots, as many copies under way as there are slots.
    fn bring(&self, stream: &Stream, from: BufferId, pageable: BufferId, bytes: usize) {
        let mut staging = self.staging.borrow_mut();
        let mut program = self.shared.program();
        let all: Vec<_> = staging.chunks(bytes).collect();
        let mut ahead = all.iter();
        let mut begin = |program: &mut Program, slots: &mut [(BufferId, Option<EventId>)]| {
            if let Some(&(k, at, len)) = ahead.next() {
                let (slot, busy) = &mut slots[k];
                // A copy to the device may still read it; the host need not wait for that.
                busy.take().map(|done| program.wait(stream.id, done));
                program.copy(part_of(*slot, 0, len), part_of(from, at, len)).on(stream.id);
                *busy = Some(program.event_after(stream.id));
            }
        };
        (0..SLOTS).for_each(|_| begin(&mut program, &mut staging.slots));
        for &(k, at, len) in &all {
            let (slot, busy) = &mut staging.slots[k];
            busy.take().map(|done| program.event_sync(done));
            program.host_copy(part_of(pageable, at, len), part_of(*slot, 0, len));
            begin(&mut program, &mut staging.slots);
        }
    }

    /// Makes what is not there yet for a slice of so many bytes; gives what stands for the slice.
    fn stage(&self, bytes: usize) -> Result<BufferId, EngineError> {
        let mut staging = self.staging.borrow_mut();
        while staging.slots.len() < SLOTS {
            staging.slots.push((declared(&self.shared, Space::Pinned, "slot", (CHUNK, 1))?, None));
        }
        match staging.pageable {
            Some((pageable, room)) if bytes as u64 <= room => Ok(pageable),
            _ => {
                let pageable = declared(&self.shared, Space::Pageable, "slice", (bytes, 1))?;
                staging.pageable = Some((pageable, bytes as u64));
                Ok(pageable)
            }
        }
    }
}
