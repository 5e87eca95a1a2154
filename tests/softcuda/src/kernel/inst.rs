//! Instructions of PTX as they run: what is not here is refused when a module is loaded.

/// A number's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// Bits or unsigned, by number of bits.
    U(u32),
    S(u32),
    F32,
    F64,
    Pred,
}

impl Type {
    pub(crate) fn of(word: &str) -> Option<Type> {
        Some(match word {
            "pred" => Type::Pred,
            "f32" => Type::F32,
            "f64" => Type::F64,
            _ => {
                let (kind, bits) = word.split_at_checked(1)?;
                let bits = match bits {
                    "8" => 8,
                    "16" => 16,
                    "32" => 32,
                    "64" => 64,
                    _ => return None,
                };
                match kind {
                    "b" | "u" => Type::U(bits),
                    "s" => Type::S(bits),
                    _ => return None,
                }
            }
        })
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Type::U(bits) | Type::S(bits) => bits,
            Type::F32 => 32,
            Type::F64 => 64,
            Type::Pred => 1,
        }
    }

    pub(crate) fn bytes(self) -> usize {
        (self.bits() as usize).div_ceil(8)
    }

    /// Bits of so many bytes, where a register holds them.
    pub(crate) fn bits_of_bytes(bytes: usize) -> Option<Type> {
        [8, 16, 32, 64].into_iter().find(|bits| *bits as usize == 8 * bytes).map(Type::U)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Type::F32 | Type::F64)
    }

    pub(crate) fn is_int(self) -> bool {
        matches!(self, Type::U(_) | Type::S(_))
    }
}

/// A comparison; unordered ones are true where a number is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Both are numbers, or one is none.
    Num,
    Nan,
}

/// Two operands to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Two {
    Add,
    Sub,
    /// The low half of a product, or a float's.
    Mul,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// One operand to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum One {
    Mov,
    Neg,
    Abs,
    Not,
    Sqrt,
    Rcp,
}

/// Where a load or store goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Param,
    /// The kernel's own parameters, which generic addresses reach from every function and nothing writes.
    Entry,
    /// Global memory, or one of the windows.
    Generic,
    Global,
    Shared,
    Local,
}

/// Bytes of a window through which generic addresses reach memory that is no global memory.
pub(crate) const WINDOW: u64 = 1 << 32;

impl Space {
    /// Where generic addresses of this space begin; addresses of the host and of devices lie far below.
    pub(crate) fn window(self) -> u64 {
        match self {
            Space::Entry => 1 << 60,
            Space::Shared => 1 << 61,
            Space::Local => 1 << 62,
            Space::Param | Space::Generic | Space::Global => 0,
        }
    }
}

/// Something to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(usize),
    /// Bits of a constant.
    Constant(u64),
    /// The address of something in the local memory of the function that runs, from where that begins.
    Local(u64),
    /// `%tid`, `%ntid`, `%ctaid`, `%nctaid` (0 to 3) along x, y, z.
    Special(usize, usize),
}

/// An address: base and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: Operand,
    pub(crate) offset: i64,
}

/// What an instruction does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    One {
        one: One,
        ty: Type,
        to: usize,
        a: Operand,
    },
    Two {
        two: Two,
        ty: Type,
        to: usize,
        a: Operand,
        b: Operand,
    },
    /// The whole product of two halves, and a third number added.
    Wide {
        ty: Type,
        to: usize,
        a: Operand,
        b: Operand,
        c: Option<Operand>,
    },
    /// The high half of a product.
    High {
        ty: Type,
        to: usize,
        a: Operand,
        b: Operand,
    },
    /// A product and a sum: rounded once for floats.
    Mad {
        ty: Type,
        to: usize,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    Compare {
        compare: Compare,
        unordered: bool,
        ty: Type,
        to: usize,
        a: Operand,
        b: Operand,
    },
    Select {
        ty: Type,
        to: usize,
        a: Operand,
        b: Operand,
        predicate: Operand,
    },
    Convert {
        to_type: Type,
        from_type: Type,
        to: usize,
        a: Operand,
    },
    Load {
        space: Space,
        ty: Type,
        to: Vec<usize>,
        from: Address,
    },
    Store {
        space: Space,
        ty: Type,
        to: Address,
        from: Vec<Operand>,
    },
    /// Puts the low bits of `a` into `b`, so many from so high on.
    Insert {
        ty: Type,
        to: usize,
        a: Operand,
        b: Operand,
        from: Operand,
        count: Operand,
    },
    Branch(usize),
    Call(Box<Call>),
    Return,
    Barrier,
    Exit,
}

/// A call: what goes where in the callee's frame, and what comes back from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) function: usize,
    pub(crate) inputs: Vec<(Actual, Formal)>,
    pub(crate) outputs: Vec<(Formal, Actual)>,
}

/// A side of a parameter that the callee sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Formal {
    Param { offset: usize, bytes: usize },
    Register { at: usize, ty: Type },
}

/// A side of a parameter that the caller sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actual {
    Param(usize),
    Value(Operand),
}

/// A predicate and the value that it must have.
pub(crate) type Guard = (usize, bool);

/// An instruction and its guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inst {
    pub(crate) guard: Option<Guard>,
    pub(crate) what: What,
}

/// The body of an entry or of a function, and what a frame of it holds.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) insts: Vec<Inst>,
    pub(crate) registers: usize,
    /// Bytes of parameters: its own, and those of the calls that it makes.
    pub(crate) params: usize,
    /// Bytes of local memory, and how they are aligned.
    pub(crate) local: usize,
    pub(crate) local_align: usize,
}

/// An entry, and the functions of its module.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) entry: Function,
    pub(crate) functions: std::sync::Arc<Vec<Function>>,
    /// Bytes of shared memory that is declared.
    pub(crate) shared: usize,
}
