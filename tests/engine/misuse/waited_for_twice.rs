//! A token is good for one wait.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn again(engine: &Engine) -> Result<(), EngineError> {
    let _ = again;
    let (host, there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    let token = engine.h2d(engine.stream(), host, there)?;
    token.wait()?;
    token.wait()?; //~ E0382
    Ok(())
}
