//! The tutorial's first corruption: the source of an asynchronous copy is written before the copy has read it.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn overwritten(engine: &Engine) -> Result<(), EngineError> {
    let _ = overwritten;
    let (mut host, mut there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    engine.scope(|s| {
        let token = s.h2d(engine.stream(), &mut host, &mut there)?;
        host[0] = 1.0; //~ E0499
        token.wait()?;
        Ok(())
    })
}
