//! A buffer is used while a list of copies has parts of it.
use spanlift_native::engine::{DevBuf, DeviceSlice, Engine, EngineError};

fn main() {}

fn read(engine: &Engine, from: &[DeviceSlice<u8>], buffer: &mut DevBuf<u8>) -> Result<(), EngineError> {
    let _ = read;
    let mut parts = buffer.parts(&[0..4, 4..9])?;
    engine.download(engine.stream(), buffer, &mut [0; 9])?; //~ E0502
    engine.copy_all(engine.stream(), from, &mut parts)
}
