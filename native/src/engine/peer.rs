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
//! the same for the caller. Without page-locked memory the driver stages.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use bytemuck::Pod;
use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route};
use spanlift::program::StreamKind;

use crate::cuda::{Event, Place, Stream};

use super::device::{Block, DevBuf, DeviceSlice, OnDevice};
use super::journal::By;
use super::open::Engine;
use super::transfer::shape;
use super::{EngineError, slot};

impl Engine {
    /// Copies elements to another engine's device: after what `producer`, a stream of this one, was given, and before what
    /// `consumer`, a stream of the other, is given next. The host waits for nothing where the devices reach each other, and
    /// `producer` for nothing either: what this engine's calls write to the elements next comes after the copy all the same.
    ///
    /// # Errors
    /// A stream or the elements are another device's, the device has not enough memory, or one engine is lost. The end of
    /// the other device is not this engine's, unless this device was writing its memory. Where this device is lost before the copy was
    /// made, whoever brings the elements home, or what was computed of them, is told ([`EngineError::PeerLost`]).
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
        let what = "a copy between devices";
        let copied = self.during(what, || match self.cross(other, (producer, consumer), from, &block) {
            // A lost device's error comes out of whatever touches it, this engine's copies among them.
            Err(error) if is_sticky(&error) && is_well(producer) && !is_well(consumer) => Ok(Err(error)),
            done => done.map(Ok),
        })?;
        copied.map_err(|error| other.journal().judge(what, error))?;
        Ok(DevBuf(DeviceSlice::new(&block, 0, from.len())))
    }

    /// The copy to a block of the other engine.
    fn cross<T: Pod>(
        &self,
        other: &Engine,
        (producer, consumer): (&Stream, &Stream),
        from: &DeviceSlice<T>,
        block: &Block,
    ) -> Result<(), EngineError> {
        self.same_device(producer.context())?;
        self.same_device(from.block.context())?;
        let began = Instant::now();
        // The block is there for the consumer's stream; the transfer waits for that too.
        let (ready, there) = (Event::after(producer)?, Event::after(consumer)?);
        let transfer = self.transfer_stream(other)?;
        block.comes_of(&from.block);
        // Within the device, for two engines of one.
        let is_near = self.context() == other.context();
        let (route, by) = match &transfer {
            Some(_) if is_near => (Route::Within, By::Plan),
            Some(_) => (Route::Peer, By::Direct),
            None => (Route::Peer, By::Hops),
        };
        match transfer {
            Some(transfer) => {
                let done = direct(&transfer, (&ready, &there), consumer, from, block);
                done.map_err(|error| block.given_up(error, [&transfer]))?;
            }
            None => self.hop(other, (&ready, &there), (producer, consumer), from, block)?,
        }
        let request = Request::one(route, HostMemory::Pinned, Bytes(from.bytes() as u64));
        self.journal().went(request, began, by);
        Ok(())
    }

    /// The stream of the ordered pair from this device to another, or to itself, if they reach each other; made at the
    /// first use and kept for the engine's life.
    fn transfer_stream(&self, other: &Engine) -> Result<Option<Stream>, EngineError> {
        // Two engines of one device are no devices apart: a copy within it is all that there is to do. Those of another device have
        // memory of their own each, which is opened to this one by itself.
        let is_near = self.context() == other.context();
        if !is_near && !self.context().enable_peer(other.context())? {
            return Ok(None);
        }
        let mut pairs = self.inner().pairs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, stream)) = pairs.iter().find(|(context, _)| context == other.context()) {
            return Ok(Some(stream.clone()));
        }
        let stream = Stream::new(self.context(), StreamKind::NonBlocking)?;
        pairs.push((other.context().clone(), stream.clone()));
        Ok(Some(stream))
    }

    /// Two hops through a lane's slots: from this device in the lane's stream, to the other in a stream of its ring.
    fn hop<T: Pod>(
        &self,
        other: &Engine,
        (ready, there): (&Event, &Event),
        (producer, consumer): (&Stream, &Stream),
        from: &DeviceSlice<T>,
        to: &Block,
    ) -> Result<(), EngineError> {
        let (Some([_, down]), Some([up, _])) = (&self.inner().rings, &other.inner().rings) else {
            return staged((producer, consumer), from, to);
        };
        let request = Request::one(Route::Peer, HostMemory::Pinned, Bytes(from.bytes() as u64));
        let (n, chunk) = (from.bytes(), shape(&self.planned(&request, By::Hops), down).1);
        let (onward, stream, mut lane) = (up.stream(0), down.stream(0), down.lane(0));
        from.used_on(stream);
        let mut hops = || -> Result<(), EngineError> {
            stream.wait(ready)?;
            onward.wait(there)?;
            for at in (0..n).step_by(chunk) {
                let len = chunk.min(n - at);
                // The slot waits on the host for the copy that sent it on: the hop before last has long begun.
                let slot = lane.slot()?;
                slot.fetch(stream, (from.block.memory(), from.at + at), len)?;
                slot.pass_on(onward, (to.memory(), at), len)?;
            }
            from.block.read_on(stream)?;
            to.comes_with(Event::after(stream)?);
            Ok(consumer.wait(&Event::after(onward)?)?)
        };
        hops().map_err(|error| to.given_up(error, [stream, onward]))
    }
}

fn is_sticky(error: &EngineError) -> bool {
    matches!(error, EngineError::Cuda(error) if error.is_sticky())
}

/// Whether the device of a stream is not lost.
fn is_well(stream: &Stream) -> bool {
    !stream.is_done().is_err_and(|error| error.is_sticky())
}

/// Where nothing could be page-locked either: the driver stages both hops, and the host waits for each.
fn staged<T: Pod>(
    (producer, consumer): (&Stream, &Stream),
    from: &DeviceSlice<T>,
    to: &Block,
) -> Result<(), EngineError> {
    let n = from.bytes();
    if n == 0 {
        return Ok(());
    }
    from.used_on(producer);
    slot::fetch_staged(producer, (from.block.memory(), from.at), n, |at, bytes| {
        slot::send_staged(consumer, (to.memory(), at), bytes.len(), |_, sent| {
            sent.copy_from_slice(bytes);
            Ok(())
        })
    })
}

/// One copy on the transfer stream, after `ready` and `there` and before what `consumer` is given next.
fn direct<T: Pod>(
    transfer: &Stream,
    (ready, there): (&Event, &Event),
    consumer: &Stream,
    from: &DeviceSlice<T>,
    to: &Block,
) -> Result<(), EngineError> {
    transfer.wait(ready)?;
    transfer.wait(there)?;
    from.used_on(transfer);
    let (dst, src) = (Place::Device(to.memory(), 0), Place::Device(from.block.memory(), from.at));
    transfer.copy_device(dst, src, from.bytes())?;
    from.block.read_on(transfer)?;
    let done = Event::after(transfer)?;
    consumer.wait(&done)?;
    if transfer.context() != consumer.context() {
        to.comes_with(done);
    }
    Ok(())
}
