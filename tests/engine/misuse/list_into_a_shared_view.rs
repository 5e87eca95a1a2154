//! A list of copies into views that others may have too.
use spanlift_native::engine::{DeviceSlice, Engine, EngineError};

fn main() {}

fn shared(engine: &Engine, from: &[DeviceSlice<u8>], to: &mut [DeviceSlice<u8>]) -> Result<(), EngineError> {
    let _ = shared;
    engine.copy_all(engine.stream(), from, to) //~ E0277
}
