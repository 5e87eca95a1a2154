//! What is lent to a scope is not dropped inside of it.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn freed(engine: &Engine) -> Result<(), EngineError> {
    let _ = freed;
    let (mut host, mut there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    engine.scope(|s| {
        let token = s.h2d(engine.stream(), &mut host, &mut there)?; //~ E0597
        drop(host); //~ E0505
        token.wait()?;
        Ok(())
    })
}
