//! The result of an owning transfer is in its token.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn early(engine: &Engine) -> Result<f32, EngineError> {
    let _ = early;
    let (host, there) = (engine.pinned::<f32>(4)?, engine.alloc::<f32>(engine.stream(), 4)?);
    let _token = engine.d2h(engine.stream(), there, host)?;
    Ok(host[0]) //~ E0382
}
