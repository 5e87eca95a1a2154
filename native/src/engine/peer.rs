//! Elements from one device to another.
//!
//! ```text
//! ready = record(producer's stream)       after the producer's last work
//! wait(transfer stream, ready)
//! copy on the transfer stream             one for each ordered pair of devices, on the source's device
//! done = record(transfer stream)
//! wait(consumer's stream, done)           before the consumer
//! ```
//!
//! Devices that do not reach each other's memory go through page-locked slots, in two hops that overlap; the events are
//! the same for the caller.

use std::sync::Arc;
use std::time::Instant;

use bytemuck::Pod;
use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route};
use spanlift::program::StreamKind;

use crate::cuda::{Event, Place, Stream, Timing};

use super::EngineError;
use super::device::{Block, DevBuf, DeviceSlice, OnDevice};
use super::open::Engine;

impl Engine {
    /// Copies elements to another engine's device: after what `producer`, a stream of this one, was given, and before what
    /// `consumer`, a stream of the other, is given next. The host waits for nothing where the devices reach each other.
    ///
    /// # Errors
    /// A stream or the elements are another device's, the device has not enough memory, or one engine is lost.
    pub fn to_device<T: Pod>(
        &self,
        other: &Engine,
        producer: &Stream,
        consumer: &Stream,
        from: &impl OnDevice<T>,
    ) -> Result<DevBuf<T>, EngineError> {
        let from = from.view();
        let block = other
            .during("allocating device memory", || Ok(Arc::new(other.block(consumer, from.bytes())?)))?;
        self.during("a copy between devices", || {
            self.same_device(producer.context())?;
            self.same_device(from.block.context())?;
            let began = Instant::now();
            let request = Request::one(Route::Peer, HostMemory::Pinned, Bytes(from.bytes() as u64));
            let plan = self.plan(&request);
            // The block is there for the consumer's stream; the transfer waits for that too.
            let (ready, there) = (record(producer)?, record(consumer)?);
            if self.context().enable_peer(other.context())? {
                let transfer = self.transfer_stream(other)?;
                transfer.wait(&ready)?;
                transfer.wait(&there)?;
                let (dst, src) = (block.memory(), from.block.memory());
                transfer.copy_device(Place::Device(dst, 0), Place::Device(src, from.at), from.bytes())?;
                consumer.wait(&record(&transfer)?)?;
                from.used_on(&transfer);
            } else {
                self.hop(other, (&ready, &there), consumer, from, &block)?;
            }
            self.did(&request, plan, began);
            Ok(())
        })?;
        Ok(DevBuf(DeviceSlice::new(&block, 0, from.len())))
    }

    /// The stream of the ordered pair from this device to another; made at its first use, kept for the engine's life.
    fn transfer_stream(&self, other: &Engine) -> Result<Stream, EngineError> {
        let mut pairs = self.inner().pairs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, stream)) = pairs.iter().find(|(ordinal, _)| *ordinal == other.ordinal()) {
            return Ok(stream.clone());
        }
        let stream = Stream::new(self.context(), StreamKind::NonBlocking)?;
        pairs.push((other.ordinal(), stream.clone()));
        Ok(stream)
    }

    /// Two hops through a lane's slots: from this device in the lane's stream, to the other in a stream of its ring.
    fn hop<T: Pod>(
        &self,
        other: &Engine,
        (ready, there): (&Event, &Event),
        consumer: &Stream,
        from: &DeviceSlice<T>,
        to: &Block,
    ) -> Result<(), EngineError> {
        let (Some([_, down]), Some([up, _])) = (&self.inner().rings, &other.inner().rings) else {
            return Err(EngineError::Argument(
                "devices that do not reach each other, and no page-locked memory",
            ));
        };
        // Before the lane is locked, which asking for its size does too.
        let (n, chunk) = (from.bytes(), down.slot());
        let (onward, mut lane) = (up.lane(0).stream.clone(), down.lane(0));
        let stream = lane.stream.clone();
        stream.wait(ready)?;
        onward.wait(there)?;
        for at in (0..n).step_by(chunk) {
            let len = chunk.min(n - at);
            // The slot waits on the host for the copy that sent it on: the hop before last has long begun.
            let slot = lane.slot();
            slot.fetch(&stream, (from.block.memory(), from.at + at), len)?;
            slot.pass_on(&onward, (to.memory(), at), len)?;
        }
        let done = record(&onward)?;
        consumer.wait(&done)?;
        from.used_on(&stream);
        Ok(())
    }
}

/// What a stream was given so far.
fn record(stream: &Stream) -> Result<Event, EngineError> {
    let event = Event::new(stream.context(), Timing::Off)?;
    event.record(stream)?;
    Ok(event)
}
