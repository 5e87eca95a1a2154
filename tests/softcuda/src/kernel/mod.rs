//! Kernels: PTX text run by an interpreter, or stood in for by Rust functions of the same name.

pub(crate) mod exec;
pub(crate) mod inst;
pub(crate) mod parse;
pub(crate) mod rust;

use std::sync::{Arc, Mutex, PoisonError};

use crate::code::Code;

/// One entry of a module.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Offset and size of each parameter in the bytes of the arguments.
    pub(crate) params: Vec<(usize, usize)>,
    pub(crate) body: Body,
}

impl Kernel {
    /// Bytes of all arguments.
    pub(crate) fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |(offset, size)| offset + size)
    }
}

/// What runs.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Rust(rust::RustKernel),
    Ptx(Arc<parse::Program>),
}

/// The shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

/// Memory as a kernel sees it: each call is checked, and remembered for the races.
pub(crate) trait Global {
    /// Reads bytes, or says that the address is illegal.
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), Stop>;
    /// Writes bytes, or says that the address is illegal.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Stop>;
}

/// Why a kernel ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop(pub(crate) Code);

/// The kernels of a module: PTX text that this driver version and these devices take.
///
/// What was loaded last is kept, as drivers keep what they compiled: a second module of the same text costs nothing.
pub(crate) fn load(text: &str, version: i32, capability: (i32, i32)) -> Result<Vec<Arc<Kernel>>, Code> {
    static LAST: Mutex<Option<(Key, Vec<Arc<Kernel>>)>> = Mutex::new(None);
    let key: Key = (text.to_owned(), version, capability, rust::generation());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, kernels)) = last.as_ref().filter(|(known, _)| *known == key) {
        // Each module has kernels of its own, by which its launches are told from those of others.
        return Ok(kernels.iter().map(|kernel| Arc::new(Kernel::clone(kernel))).collect());
    }
    let kernels = parse::module(text, version, capability)?;
    let kernels: Vec<Arc<Kernel>> = kernels.into_iter().map(Arc::new).collect();
    *last = Some((key, kernels.clone()));
    Ok(kernels)
}

/// Text, driver version, capability, and which kernels stand in.
type Key = (String, i32, (i32, i32), u64);
