//! Kernels: PTX text run by an interpreter, or stood in for by Rust functions of the same name.

mod allow;
pub(crate) mod exec;
pub(crate) mod inst;
mod names;
mod parse;
pub(crate) mod rust;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use crate::code::Code;
use crate::config::Config;

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
    Ptx(Arc<inst::Program>),
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

/// Memory that a kernel has alone, from an address on.
struct Alone<'m> {
    base: u64,
    bytes: &'m mut [u8],
}

impl Alone<'_> {
    fn at(&mut self, address: u64, len: usize) -> Result<&mut [u8], Stop> {
        let start = address.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let room = start.and_then(|start| self.bytes.get_mut(start..start.checked_add(len)?));
        room.ok_or(Stop(Code::ILLEGAL_ADDRESS))
    }
}

impl Global for Alone<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), Stop> {
        out.copy_from_slice(self.at(address, out.len())?);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Stop> {
        self.at(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

/// The entries of PTX text, to be run without a driver around them, on memory that each has alone.
#[derive(Debug)]
pub struct Interpreted(Vec<Arc<Kernel>>);

impl Interpreted {
    /// Reads PTX text.
    ///
    /// # Errors
    /// Text that a module is not loaded from.
    pub fn read(text: &str) -> Result<Interpreted, Code> {
        let config = Config::default();
        load(text, config.version, config.capability).map(Interpreted)
    }

    /// The entries that are interpreted, with the bytes of their arguments.
    pub fn entries(&self) -> impl Iterator<Item = (&str, usize)> {
        let own = self.0.iter().filter(|kernel| matches!(kernel.body, Body::Ptx(_)));
        own.map(|kernel| (kernel.name.as_str(), kernel.param_bytes()))
    }

    /// Runs an entry with so many blocks of so many threads; `bytes` lie at `base`.
    ///
    /// # Errors
    /// There is no such entry, the arguments are not as long, or the kernel ends as kernels do that fail.
    pub fn run(
        &self,
        name: &str,
        [grid, block]: [u32; 2],
        args: &[u8],
        (base, bytes): (u64, &mut [u8]),
    ) -> Result<(), Code> {
        let kernel = self.0.iter().find(|kernel| kernel.name == name).ok_or(Code::NOT_FOUND)?;
        let Body::Ptx(program) = &kernel.body else { return Err(Code::NOT_FOUND) };
        if args.len() != kernel.param_bytes() {
            return Err(Code::INVALID_VALUE);
        }
        let shape = Shape { grid: [grid, 1, 1], block: [block, 1, 1], shared: 0 };
        let steps = Config::default().steps;
        exec::run(program, shape, args, &mut Alone { base, bytes }, steps).map_err(|Stop(code)| code)
    }
}

/// The kernels of a module: PTX text that this driver version and these devices take.
///
/// What was loaded lately is kept, as drivers keep what they compiled: another module of the same text costs nothing.
pub(crate) fn load(text: &str, version: i32, capability: (i32, i32)) -> Result<Vec<Arc<Kernel>>, Code> {
    /// Texts that are kept: more than one program under test loads.
    const KEPT: usize = 8;
    /// The latest last.
    static LATELY: Mutex<Vec<(Key, Vec<Arc<Kernel>>)>> = Mutex::new(Vec::new());
    let asked = (version, capability, rust::generation());
    let mut lately = LATELY.lock().unwrap_or_else(PoisonError::into_inner);
    let known = lately.iter().position(|((known, for_whom), _)| *for_whom == asked && known == text);
    let loaded = if let Some(known) = known {
        lately.remove(known)
    } else {
        let kernels = parse::module(text, version, capability)?;
        ((text.to_owned(), asked), kernels.into_iter().map(Arc::new).collect())
    };
    // Each module has kernels of its own, by which its launches are told from those of others.
    let kernels = loaded.1.iter().map(|kernel| Arc::new(Kernel::clone(kernel))).collect();
    let too_many = (lately.len() + 1).saturating_sub(KEPT);
    lately.drain(..too_many);
    lately.push(loaded);
    Ok(kernels)
}

/// Text, and driver version, capability and which kernels stand in.
type Key = (String, (i32, (i32, i32), u64));
