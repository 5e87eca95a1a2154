//! Elements with pointers or padding are not sent as bytes.
use spanlift_native::engine::{Engine, EngineError};

fn main() {}

fn texts(engine: &Engine) -> Result<(), EngineError> {
    let _ = texts;
    drop(engine.pinned::<String>(4)?); //~ E0277
    Ok(())
}
