//! Two transfers into one destination.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn twice(engine: &Engine) -> Result<(), EngineError> {
    let _ = twice;
    let (mut a, mut b) = (engine.pinned::<f32>(4)?, engine.pinned::<f32>(4)?);
    let mut there = engine.alloc::<f32>(engine.stream(), 4)?;
    engine.scope(|s| {
        let first = s.h2d(engine.stream(), &mut a, &mut there)?;
        let second = s.h2d(engine.stream(), &mut b, &mut there)?; //~ E0499
        first.wait()?;
        second.wait()?;
        Ok(())
    })
}
