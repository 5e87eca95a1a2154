//! What the driver answers when a call does not succeed.

use std::fmt;

use crate::driver::Code;

/// A call of the driver that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The call that reported it; an asynchronous error is reported by some later call.
    pub call: &'static str,
    /// The code; a newer driver may answer with one that no list knows.
    pub code: u32,
    /// The driver's name of the code, where it has one.
    pub name: Option<String>,
}

impl Failure {
    /// The device has no more memory of the kind asked for; not sticky.
    pub const OUT_OF_MEMORY: u32 = 2;
    /// Work is not finished yet: an answer, not an error.
    pub(crate) const NOT_READY: u32 = 600;
    /// The device or the driver has no such thing.
    pub(crate) const NOT_SUPPORTED: u32 = 801;
    /// Peer access is on already.
    pub(crate) const PEER_ENABLED: u32 = 704;

    /// Whether the driver lets a device have no part of another's memory: it cannot (217, 801), may not (800), or has as many peers as
    /// it may have (711).
    pub(crate) fn is_no_peer(&self) -> bool {
        matches!(self.code, 217 | 711 | 800 | 801)
    }

    /// Whether a wait or a question reported it: an error of some earlier command, and nobody knows of which.
    pub(crate) fn is_of_a_wait(&self) -> bool {
        matches!(
            self.call,
            "cuStreamSynchronize"
                | "cuEventSynchronize"
                | "cuCtxSynchronize"
                | "cuStreamQuery"
                | "cuEventQuery"
        )
    }

    /// Whether the context is unusable from here on.
    ///
    /// The documentation says of each of these codes that the process or the context must be ended, or that existing
    /// allocations can no longer be used.
    pub fn is_sticky(&self) -> bool {
        matches!(self.code, 4 | 46 | 214 | 220 | 226 | 227 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 999)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_sticky() {
            // An earlier command failed; which one, the driver does not say.
            write!(f, "an error of the device, detected at {}: {}", self.call, self.code)?;
        } else {
            write!(f, "{} answered {}", self.call, self.code)?;
        }
        match &self.name {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

/// Why work on a device did not happen.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// A call of the driver failed.
    #[error("{0}")]
    Driver(Failure),
    /// An earlier error ended the context; nothing was asked of the driver.
    #[error("the context of cuda:{ordinal} was lost to {first}")]
    Lost {
        /// The device.
        ordinal: u32,
        /// The first sticky error.
        first: Failure,
    },
    /// The driver has no such call.
    #[error("the CUDA driver lacks {call}")]
    Absent {
        /// The call.
        call: &'static str,
    },
    /// A library that some work needs cannot be used.
    #[error("{library} cannot be used: {why}")]
    NoLibrary {
        /// Its name.
        library: &'static str,
        /// Why not, in words.
        why: String,
    },
    /// A library refused a call.
    #[error("{call} answered {status}")]
    Library {
        /// The call.
        call: &'static str,
        /// The library's own status.
        status: i32,
    },
    /// There is no such device.
    #[error("there is no cuda:{ordinal}; the driver has {n_devices} device(s)")]
    NoSuchDevice {
        /// What was asked for.
        ordinal: u32,
        /// How many there are.
        n_devices: usize,
    },
    /// Bytes outside their block.
    #[error("bytes {at} to {} lie outside a block of {has} bytes", .at.saturating_add(*.len))]
    Outside {
        /// The first byte.
        at: usize,
        /// How many.
        len: usize,
        /// The size of the block.
        has: usize,
    },
    /// Memory of one device on a stream of another, where the call takes one device only.
    #[error("memory of cuda:{memory} on a stream of cuda:{stream}")]
    OtherDevice {
        /// The device of the memory.
        memory: u32,
        /// The device of the stream.
        stream: u32,
    },
    /// An argument that no call takes, such as a name with a zero byte.
    #[error("{0}")]
    Argument(&'static str),
}

readable!(CudaError);

impl CudaError {
    /// The driver's answer, if it is one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            CudaError::Driver(failure) | CudaError::Lost { first: failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// The context is unusable from here on.
    pub fn is_sticky(&self) -> bool {
        self.failure().is_some_and(Failure::is_sticky)
    }

    /// There was not enough memory; the context stays usable.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, CudaError::Driver(failure) if failure.code == Failure::OUT_OF_MEMORY)
    }
}

/// A call's answer as a result.
pub(crate) fn answer(
    call: &'static str,
    code: Code,
    name: impl FnOnce() -> Option<String>,
) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure { call, code, name: name() }) }
}
