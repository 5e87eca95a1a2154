//! An owning transfer has its buffers.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn moved(engine: &Engine) -> Result<(), EngineError> {
    let _ = moved;
    let (mut host, there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    let token = engine.h2d(engine.stream(), host, there)?;
    host[0] = 1.0; //~ E0382
    token.wait()?;
    Ok(())
}
