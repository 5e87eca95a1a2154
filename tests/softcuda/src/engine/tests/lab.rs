//! An engine with pinned memory of its own, and short words for calls that succeed.

use crate::code::Code;
use crate::config::Config;
use crate::host;
use crate::report::Report;

use super::super::{Callback, Engine, Way};

/// A stream, an event, an address.
pub(super) type Handle = u64;

/// Bytes of every buffer.
pub(super) const LEN: u64 = 64;
/// The same as a size.
pub(super) const SIZE: usize = 64;

pub(super) struct Lab {
    pub(super) engine: Engine,
    contexts: Vec<Handle>,
}

impl Lab {
    pub(super) fn new(config: Config) -> Lab {
        let devices = i32::try_from(config.devices).expect("few devices");
        let engine = Engine::new(config);
        engine.init(0).expect("init");
        let contexts = (0..devices).map(|d| engine.retain(d).expect("a device")).collect();
        let lab = Lab { engine, contexts };
        lab.on(0);
        lab
    }

    pub(super) fn on(&self, device: usize) -> &Lab {
        self.engine.set_current(self.contexts[device]).expect("a context");
        self
    }

    pub(super) fn stream(&self) -> Handle {
        self.engine.stream_create("cuStreamCreate", 1).expect("a stream")
    }

    pub(super) fn blocking(&self) -> Handle {
        self.engine.stream_create("cuStreamCreate", 0).expect("a stream")
    }

    pub(super) fn device(&self) -> Handle {
        self.engine.alloc(LEN).expect("room")
    }

    /// A pinned buffer that holds `byte`.
    pub(super) fn pinned(&self, byte: u8) -> Handle {
        let at = self.engine.host_alloc(LEN, 0).expect("pinned");
        host::fill(at, LEN, byte);
        at
    }

    pub(super) fn up(&self, to: Handle, from: Handle, stream: Handle) {
        self.engine.copy_async("cuMemcpyHtoDAsync_v2", Way::HostToDevice, to, from, LEN, stream).expect("up");
    }

    pub(super) fn down(&self, to: Handle, from: Handle, stream: Handle) {
        self.engine
            .copy_async("cuMemcpyDtoHAsync_v2", Way::DeviceToHost, to, from, LEN, stream)
            .expect("down");
    }

    /// On one device.
    pub(super) fn copy(&self, to: Handle, from: Handle, stream: Handle) {
        self.copy_of(to, from, LEN, stream);
    }

    pub(super) fn copy_of(&self, to: Handle, from: Handle, len: u64, stream: Handle) {
        self.engine
            .copy_async("cuMemcpyDtoDAsync_v2", Way::DeviceToDevice, to, from, len, stream)
            .expect("copied");
    }

    pub(super) fn peer(&self, to: (Handle, usize), from: (Handle, usize), stream: Handle) {
        let (to, from) = ((to.0, self.contexts[to.1]), (from.0, self.contexts[from.1]));
        self.engine.copy_peer(to, from, LEN, stream).expect("across");
    }

    pub(super) fn fill(&self, to: Handle, byte: u8, stream: Handle) {
        self.engine.fill_async(to, byte, LEN, stream).expect("filled");
    }

    pub(super) fn event(&self) -> Handle {
        self.engine.event_create(2).expect("an event")
    }

    pub(super) fn record(&self, event: Handle, stream: Handle) {
        self.engine.event_record(event, stream).expect("recorded");
    }

    pub(super) fn wait(&self, stream: Handle, event: Handle) {
        self.engine.stream_wait(stream, event, 0).expect("waits");
    }

    /// A new event recorded on one stream that the other waits for.
    pub(super) fn edge(&self, from: Handle, to: Handle) {
        let event = self.event();
        self.record(event, from);
        self.wait(to, event);
    }

    pub(super) fn sync(&self, stream: Handle) {
        self.engine.stream_synchronize(stream).expect("synchronised");
    }

    pub(super) fn host_write(&self, at: Handle, byte: u8) {
        self.engine.host_access(at, LEN, true);
        host::fill(at, LEN, byte);
    }

    pub(super) fn host_read(&self, at: Handle) -> [u8; SIZE] {
        self.engine.host_access(at, LEN, false);
        Self::look(at)
    }

    /// Reads without telling the driver.
    pub(super) fn look(at: Handle) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        host::read(at, &mut bytes);
        bytes
    }

    pub(super) fn call(&self, stream: Handle, body: impl FnOnce() + Send + 'static) {
        self.engine.launch_host(stream, Callback::Rust(Box::new(body))).expect("enqueued");
    }

    pub(super) fn free(&self, at: Handle) -> Result<(), Code> {
        self.engine.free(at)
    }

    pub(super) fn end(&self) -> Report {
        self.engine.finish()
    }
}
