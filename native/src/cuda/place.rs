//! Where bytes lie that are copied, and what the driver calls that place.

use std::ffi::c_void;

use cudarc::driver::sys::CUdeviceptr;

use super::context::Context;
use super::error::CudaError;
use super::memory::{DeviceBlock, HostBlock};

/// Where bytes lie that are copied.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// From this byte of a block of a device on.
    Device(&'a DeviceBlock, usize),
    /// From this byte of a page-locked block on.
    Host(&'a HostBlock, usize),
    /// From this address of the host on, pageable or not.
    Raw(*mut u8),
}

/// A place as the driver takes it.
pub(super) enum Address {
    Device(CUdeviceptr),
    Host(*mut c_void),
}

impl Address {
    pub(super) fn number(&self) -> u64 {
        match self {
            Address::Device(at) => *at,
            Address::Host(at) => at.addr() as u64,
        }
    }
}

impl Place<'_> {
    /// The address of `len` bytes that lie inside their block.
    pub(super) fn address(self, len: usize) -> Result<Address, CudaError> {
        let inside = |at: usize, has: usize| match at.checked_add(len) {
            Some(end) if end <= has => Ok(()),
            _ => Err(CudaError::Outside { at, len, has }),
        };
        match self {
            Place::Device(block, at) => {
                inside(at, block.len())?;
                Ok(Address::Device(block.address() + at as u64))
            }
            Place::Host(block, at) => {
                inside(at, block.len())?;
                Ok(Address::Host(block.as_ptr().wrapping_add(at).cast()))
            }
            Place::Raw(at) => Ok(Address::Host(at.cast())),
        }
    }

    pub(super) fn used_by(self, context: &Context) {
        match self {
            Place::Device(block, _) => block.used_by(context),
            Place::Host(block, _) => block.used_by(context),
            Place::Raw(_) => {}
        }
    }
}

/// Marks both blocks before the call, so that a call that fails half-way leaves nothing unmarked.
pub(super) fn used((dst, src): (Place<'_>, Place<'_>), context: &Context) {
    dst.used_by(context);
    src.used_by(context);
}
