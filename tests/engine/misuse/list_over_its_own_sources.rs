//! A list of copies whose destinations are sources too.
use spanlift_native::engine::{DevBuf, Engine, EngineError};

fn main() {}

fn rotated(engine: &Engine, mut buffers: Vec<DevBuf<f32>>) -> Result<(), EngineError> {
    let _ = rotated;
    engine.copy_all(engine.stream(), &buffers[1..], &mut buffers[..9]) //~ E0502
}
