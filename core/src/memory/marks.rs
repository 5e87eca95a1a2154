//! What a tensor is to its module, and which modules there are: names and marks that moves and copies keep.

use std::fmt;

/// What a tensor is to its module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TensorKind {
    /// Something that is learned.
    Parameter,
    /// Anything else that belongs to the module, such as a running mean.
    #[default]
    Buffer,
}

impl TensorKind {
    /// The name in files and tables: `parameter` or `buffer`.
    pub const fn name(self) -> &'static str {
        match self {
            TensorKind::Parameter => "parameter",
            TensorKind::Buffer => "buffer",
        }
    }
}

impl fmt::Display for TensorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The marks of a tensor: what it is to its module, and whether gradients are wanted.
///
/// A tensor without marks is a buffer without gradients.
///
/// ```
/// use spanlift::memory::Marks;
/// assert!(Marks::PARAMETER.requires_grad && !Marks::default().requires_grad);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Parameter or buffer.
    pub kind: TensorKind,
    /// Whether gradients are wanted.
    pub requires_grad: bool,
}

impl Marks {
    /// A parameter with gradients.
    pub const PARAMETER: Marks = Marks { kind: TensorKind::Parameter, requires_grad: true };
    /// A buffer without gradients.
    pub const BUFFER: Marks = Marks { kind: TensorKind::Buffer, requires_grad: false };

    /// The marks that a tensor of this kind has unless it says otherwise: parameters want gradients.
    pub const fn of(kind: TensorKind) -> Marks {
        match kind {
            TensorKind::Parameter => Marks::PARAMETER,
            TensorKind::Buffer => Marks::BUFFER,
        }
    }
}

/// A module of a layout: where it stands and of which type it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleEntry {
    /// Its dotted path, `encoder.layers.0`; empty for the root.
    pub path: String,
    /// Its type's name, `Linear`.
    pub module_type: String,
}
