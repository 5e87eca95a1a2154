//! A token that outlives its scope would outlive what was lent.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn escaped(engine: &Engine) -> Result<(), EngineError> {
    let _ = escaped;
    let (mut host, mut there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    let mut kept = None;
    engine.scope(|s| {
        kept = Some(s.h2d(engine.stream(), &mut host, &mut there)?); //~ E0521
        Ok(())
    })?;
    drop(kept);
    Ok(())
}
