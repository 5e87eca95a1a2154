//! A buffer that ends before its scope cannot be lent to it.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn short(engine: &Engine) -> Result<(), EngineError> {
    let _ = short;
    let mut there = engine.alloc::<f32>(engine.stream(), 4)?;
    engine.scope(|s| {
        let mut host = engine.pinned::<f32>(4)?;
        std::mem::forget(s.h2d(engine.stream(), &mut host, &mut there)?); //~ E0597
        Ok(())
    })
}
