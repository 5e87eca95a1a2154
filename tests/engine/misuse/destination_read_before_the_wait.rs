//! The tutorial's second corruption: the destination is read before the copy has written it.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn early(engine: &Engine) -> Result<f32, EngineError> {
    let _ = early;
    let (mut host, mut there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    engine.scope(|s| {
        let token = s.d2h(engine.stream(), &mut there, &mut host)?;
        let first = host[0]; //~ E0502
        token.wait()?;
        Ok(first)
    })
}
