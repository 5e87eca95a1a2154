//! Why a transfer did not happen.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cuda::{CudaError, Failure};
use crate::probe::OpenError;

use super::copy::{ThreadError, TooLarge};
use spanlift::memory::Device;

/// What ended an engine: every later call of it answers this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// What the engine was doing when it was told; the cause may be an earlier command of anybody's.
    pub during: &'static str,
    /// The first error, in words.
    pub first: String,
}

/// Why a call of the engine failed. The caller's data are intact after each of them, but for destinations, whose contents
/// are then unspecified.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is no device to open.
    #[error(transparent)]
    Open(#[from] Arc<OpenError>),
    /// A call of the driver failed and the engine stays usable.
    #[error(transparent)]
    Cuda(CudaError),
    /// The device, or a worker, is in a state that nothing is known of.
    #[error("the engine is lost, detected during {}: {}", .0.during, .0.first)]
    ContextLost(Lost),
    /// The device has not enough memory, also after all that could be given back was.
    #[error("{needed} bytes of device memory are needed, {free} of {total} are free")]
    OutOfMemory {
        /// What was asked for.
        needed: usize,
        /// What is free.
        free: usize,
        /// What there is in all.
        total: usize,
    },
    /// What another device was to copy here never came: it was lost before. This engine goes on.
    #[error("what cuda:{peer} was to bring never came: {first}")]
    PeerLost {
        /// The device that was lost.
        peer: u32,
        /// What it was lost to.
        first: Failure,
    },
    /// The host has not enough memory.
    #[error("{needed} bytes of the host's memory are needed, and it has not as many")]
    OutOfHostMemory {
        /// What was asked for.
        needed: usize,
    },
    /// The operating system or the driver page-locks no more memory.
    #[error("{needed} bytes of page-locked memory were refused: {reason}")]
    PinnedRefused {
        /// What was asked for.
        needed: usize,
        /// The driver's answer.
        reason: CudaError,
    },
    /// Source and destination differ in length.
    #[error("{from} elements do not fit {to}")]
    Length {
        /// Elements of the source.
        from: usize,
        /// Elements of the destination.
        to: usize,
    },
    /// Memory or a stream of another device than the engine's.
    #[error("a stream or memory of cuda:{found} in an engine of cuda:{expected}")]
    OtherDevice {
        /// The engine's device.
        expected: u32,
        /// Whose it is.
        found: u32,
    },
    /// The caller asked to stop.
    #[error("the transfer was cancelled")]
    Cancelled,
    /// A call failed, and the wait that should have told what the device still does failed too. The engine is lost.
    #[error("what the device still does is not known: {0}")]
    Unsettled(CudaError),
    /// A thread of the transfer panicked: its message was printed then. The engine is lost.
    #[error("a thread of the transfer panicked")]
    Panicked,
    /// The process is a copy of the one that opened the engine.
    #[error("the engine was opened before a fork: a device cannot be used from the copy of a process")]
    Forked,
    /// An item of a pipeline that would never fit its limits.
    #[error("an item takes {needed} bytes of {what} memory, the limit is {limit}")]
    OverLimit {
        /// `device` or `pinned`.
        what: &'static str,
        /// What it takes.
        needed: u64,
        /// What is allowed.
        limit: u64,
    },
    /// More bytes than there are addresses.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Threads could not be started.
    #[error("{0}")]
    Threads(String),
    /// A file could not be read; what the system said of it is the source.
    #[error(transparent)]
    File(Arc<std::io::Error>),
    /// A storage of a move plan is not there.
    #[error("the plan has {name:?} with {bytes} bytes on {device}: {found}")]
    Storage {
        /// The storage, or the allocation that is there already.
        name: String,
        /// Where the plan has it.
        device: Device,
        /// Its bytes.
        bytes: u64,
        /// What there is instead.
        found: String,
    },
    /// What was asked for cannot be.
    #[error("{0}")]
    Argument(&'static str),
}

readable!(EngineError);

impl EngineError {
    /// Which of two errors of one transfer is told: what its threads met rather than that it was stopped, and rather still what
    /// ends the engine.
    pub(super) fn weight(&self) -> u8 {
        match self {
            EngineError::Cancelled => 0,
            other => 1 + u8::from(other.is_the_end()),
        }
    }

    /// Whether nothing is known any more of a device or of a thread: the engine ends with it. An error that a wait is told may be of
    /// anybody's work, whatever its code: nobody could say whose bytes are right.
    pub(super) fn is_the_end(&self) -> bool {
        match self {
            EngineError::Cuda(error) => {
                error.is_sticky() || error.failure().is_some_and(Failure::is_of_a_wait)
            }
            EngineError::Panicked | EngineError::Unsettled(_) => true,
            _ => false,
        }
    }

    /// An error after which nothing told what the device still does; a sticky one says enough by itself.
    pub(super) fn unsettled(error: CudaError) -> EngineError {
        if error.is_sticky() { EngineError::Cuda(error) } else { EngineError::Unsettled(error) }
    }
}

/// A call that takes buffers failed: why, and the buffers.
///
/// Only the error is kept by `?` where an [`EngineError`] is expected.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Refused<B> {
    /// Why.
    pub error: EngineError,
    /// What was given; `None` where a device that is lost may still be using it.
    pub buffers: Option<B>,
}

readable!(Refused<B>);

impl<B> From<Refused<B>> for EngineError {
    fn from(refused: Refused<B>) -> EngineError {
        refused.error
    }
}

impl From<CudaError> for EngineError {
    fn from(error: CudaError) -> EngineError {
        EngineError::Cuda(error)
    }
}

impl From<OpenError> for EngineError {
    fn from(error: OpenError) -> EngineError {
        EngineError::Open(Arc::new(error))
    }
}

impl From<ThreadError> for EngineError {
    fn from(error: ThreadError) -> EngineError {
        EngineError::Threads(error.to_string())
    }
}

impl From<std::io::Error> for EngineError {
    fn from(error: std::io::Error) -> EngineError {
        EngineError::File(Arc::new(error))
    }
}

/// An error of a file with its name, of the same kind.
pub(super) fn of_file(path: &Path, error: impl Into<Arc<std::io::Error>>) -> EngineError {
    let of_file = OfFile { path: path.to_owned(), error: error.into() };
    std::io::Error::new(of_file.error.kind(), of_file).into()
}

struct OfFile {
    path: PathBuf,
    error: Arc<std::io::Error>,
}

impl fmt::Display for OfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

readable!(OfFile);

impl std::error::Error for OfFile {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.error)
    }
}
