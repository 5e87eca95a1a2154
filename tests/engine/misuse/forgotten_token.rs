//! Forgetting the token unlocks nothing.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn forgotten(engine: &Engine) -> Result<(), EngineError> {
    let _ = forgotten;
    let (mut host, mut there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    engine.scope(|s| {
        std::mem::forget(s.h2d(engine.stream(), &mut host, &mut there)?);
        host[0] = 9.0; //~ E0499
        Ok(())
    })
}
