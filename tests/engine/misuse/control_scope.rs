//! What is meant to work, in the same words: this one compiles.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn double_buffered(engine: &Engine) -> Result<f32, EngineError> {
    let (mut host, mut there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    engine.scope(|s| {
        let (host, there) = s.h2d(engine.stream(), &mut host, &mut there)?.wait()?;
        host[0] = 1.0;
        let token = s.h2d(engine.stream(), host, there)?;
        std::mem::forget(token);
        Ok(())
    })?;
    let (there, host) = engine.d2h(engine.stream(), there, host)?.wait()?;
    let _ = (double_buffered, there.len());
    Ok(host[0])
}
