//! Runs the instructions of a kernel: block by block, the threads of a block one after the other between barriers.

use super::inst::{
    Actual, Address, Call, Compare, Formal, Function, Inst, One, Operand, Program, Space, Two, Type, WINDOW,
    What,
};
use super::names::PARAM_ALIGN;
use super::{Global, Shape, Stop};
use crate::code::Code;

/// Bytes that calls may take in one thread: its registers, parameters and local memory.
const STACK: usize = 512 << 10;

/// What memory holds that nothing was written to.
const UNWRITTEN: u8 = 0xCD;

/// Bytes of fresh memory that cost as much as an instruction.
const FILLED: usize = 64;

/// Where a function has its part of a thread's memory.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    /// The function that runs, `None` for the entry.
    function: Option<usize>,
    at: usize,
    registers: usize,
    params: usize,
    local: usize,
}

/// One thread of a block. It has memory while it runs.
struct Thread {
    index: [u32; 3],
    registers: Vec<u64>,
    params: Vec<u8>,
    local: Vec<u8>,
    frame: Frame,
    callers: Vec<Frame>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Over,
}

impl Thread {
    fn new(index: [u32; 3]) -> Thread {
        let (registers, params, local) = (Vec::new(), Vec::new(), Vec::new());
        let (frame, callers) = (Frame::default(), Vec::new());
        Thread { index, registers, params, local, frame, callers, state: State::Waiting }
    }

    /// Gives the entry its frame; `args` are the first of its parameters.
    fn begin(&mut self, entry: &Function, args: &[u8]) {
        self.registers = vec![0; entry.registers];
        self.params = args.to_vec();
        self.params.resize(entry.params.max(args.len()), UNWRITTEN);
        self.local = vec![UNWRITTEN; entry.local];
        self.state = State::Running;
    }

    fn end(&mut self) {
        *self = Thread { state: State::Over, ..Thread::new(self.index) };
    }

    fn bytes(&self) -> usize {
        8 * self.registers.len() + self.params.len() + self.local.len()
    }

    fn set(&mut self, register: usize, bits: u64) {
        self.registers[self.frame.registers + register] = bits;
    }
}

/// A block as it runs.
struct Run<'r> {
    program: &'r Program,
    shape: Shape,
    block: [u32; 3],
    args: &'r [u8],
    shared: Vec<u8>,
    global: &'r mut dyn Global,
    left: u64,
}

/// Runs a launch, which counts as one that hangs after `left` instructions.
pub(crate) fn run(
    program: &Program,
    shape: Shape,
    args: &[u8],
    global: &mut dyn Global,
    left: u64,
) -> Result<(), Stop> {
    let shared = vec![UNWRITTEN; program.shared + shape.shared as usize];
    let mut run = Run { program, shape, block: [0; 3], args, shared, global, left };
    for block in indices(shape.grid) {
        run.block = block;
        run.block()?;
    }
    Ok(())
}

fn indices([x, y, z]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])))
}

impl<'r> Run<'r> {
    fn block(&mut self) -> Result<(), Stop> {
        self.filled(self.shared.len())?;
        self.shared.fill(UNWRITTEN);
        let mut threads: Vec<Thread> = indices(self.shape.block).map(Thread::new).collect();
        while threads.iter().any(|t| t.state != State::Over) {
            for thread in threads.iter_mut().filter(|t| t.state != State::Over) {
                if thread.state == State::Waiting {
                    thread.begin(&self.program.entry, self.args);
                    self.filled(thread.bytes())?;
                }
                self.until_barrier(thread)?;
            }
        }
        Ok(())
    }

    fn costs(&mut self, instructions: u64) -> Result<(), Stop> {
        self.left = self.left.checked_sub(instructions).ok_or(Stop(Code::LAUNCH_TIMEOUT))?;
        Ok(())
    }

    /// Takes what fresh memory costs, so that no launch of few instructions takes long.
    fn filled(&mut self, bytes: usize) -> Result<(), Stop> {
        self.costs(1 + (bytes / FILLED) as u64)
    }

    fn function(&self, function: Option<usize>) -> &'r Function {
        let program = self.program;
        function.map_or(&program.entry, |function| &program.functions[function])
    }

    fn until_barrier(&mut self, thread: &mut Thread) -> Result<(), Stop> {
        let mut insts: &'r [Inst] = &self.function(thread.frame.function).insts;
        loop {
            self.costs(1)?;
            let inst = insts.get(thread.frame.at);
            thread.frame.at += 1;
            if let Some((predicate, wanted)) = inst.and_then(|inst| inst.guard)
                && (thread.registers[thread.frame.registers + predicate] & 1 == 1) != wanted
            {
                continue;
            }
            // The end of a body returns.
            match inst.map_or(&What::Return, |inst| &inst.what) {
                What::Branch(at) => thread.frame.at = *at,
                What::Barrier => return Ok(()),
                What::Return if !thread.callers.is_empty() => {
                    self.back(thread);
                    insts = &self.function(thread.frame.function).insts;
                }
                What::Return | What::Exit => {
                    thread.end();
                    return Ok(());
                }
                What::Call(call) => {
                    self.call(call, thread)?;
                    insts = &self.function(thread.frame.function).insts;
                }
                what => self.step(what, thread)?,
            }
        }
    }

    /// Goes into a function, whose frame lies behind all that the thread has.
    fn call(&mut self, call: &Call, thread: &mut Thread) -> Result<(), Stop> {
        let function = &self.program.functions[call.function];
        let old = thread.frame;
        let params = thread.params.len().next_multiple_of(PARAM_ALIGN);
        let local = thread.local.len().next_multiple_of(function.local_align.max(1));
        let frame =
            Frame { function: Some(call.function), at: 0, registers: thread.registers.len(), params, local };
        let before = thread.bytes();
        let grown = 8 * function.registers + (params + function.params) + (local + function.local)
            - thread.params.len()
            - thread.local.len();
        let entry = 8 * self.program.entry.registers + self.args.len();
        let frames = size_of::<Frame>() * (thread.callers.len() + 1);
        if before.saturating_sub(entry) + grown + frames > STACK {
            return Err(Stop(Code::HARDWARE_STACK_ERROR));
        }
        self.filled(grown)?;
        thread.registers.resize(frame.registers + function.registers, 0);
        thread.params.resize(frame.params + function.params, UNWRITTEN);
        thread.local.resize(frame.local + function.local, UNWRITTEN);
        for (actual, formal) in &call.inputs {
            match (*actual, *formal) {
                (Actual::Param(from), Formal::Param { offset, bytes }) => {
                    let from = old.params + from;
                    thread.params.copy_within(from..from + bytes, params + offset);
                }
                (Actual::Param(from), Formal::Register { at, ty }) => {
                    let bits = little(&thread.params[old.params + from..][..ty.bytes()]);
                    thread.registers[frame.registers + at] = bits;
                }
                (Actual::Value(operand), Formal::Param { offset, bytes }) => {
                    let bits = self.value(operand, thread).to_le_bytes();
                    thread.params[params + offset..][..bytes].copy_from_slice(&bits[..bytes]);
                }
                (Actual::Value(operand), Formal::Register { at, ty }) => {
                    thread.registers[frame.registers + at] = mask(self.value(operand, thread), ty);
                }
            }
        }
        thread.callers.push(old);
        thread.frame = frame;
        Ok(())
    }

    /// Goes back to the caller with what the function gives.
    fn back(&self, thread: &mut Thread) {
        let frame = thread.frame;
        let caller = thread.callers.pop().expect("bug: nobody called");
        // The call stands before the instruction that comes next.
        let What::Call(call) = &self.function(caller.function).insts[caller.at - 1].what else {
            unreachable!("bug: a frame that no call made")
        };
        thread.frame = caller;
        for (formal, actual) in &call.outputs {
            let (bits, bytes) = match *formal {
                Formal::Param { offset, bytes } => {
                    let from = frame.params + offset;
                    if let Actual::Param(to) = *actual {
                        thread.params.copy_within(from..from + bytes, caller.params + to);
                        continue;
                    }
                    (little(&thread.params[from..][..bytes]), bytes)
                }
                Formal::Register { at, ty } => (thread.registers[frame.registers + at], ty.bytes()),
            };
            match *actual {
                Actual::Param(to) => {
                    thread.params[caller.params + to..][..bytes]
                        .copy_from_slice(&bits.to_le_bytes()[..bytes]);
                }
                Actual::Value(Operand::Register(at)) => thread.set(at, bits),
                Actual::Value(_) => unreachable!("bug: a result that goes nowhere"),
            }
        }
        thread.registers.truncate(frame.registers);
        thread.params.truncate(frame.params);
        thread.local.truncate(frame.local);
    }

    fn value(&self, operand: Operand, thread: &Thread) -> u64 {
        match operand {
            Operand::Register(at) => thread.registers[thread.frame.registers + at],
            Operand::Constant(bits) => bits,
            Operand::Local(offset) => thread.frame.local as u64 + offset,
            Operand::Special(which, axis) => {
                let values = [thread.index, self.shape.block, self.block, self.shape.grid];
                u64::from(values[which][axis])
            }
        }
    }

    fn step(&mut self, what: &What, thread: &mut Thread) -> Result<(), Stop> {
        let v = |operand: Operand| self.value(operand, thread);
        let (to, bits) = match *what {
            What::One { one, ty, to, a } => (to, apply_one(one, ty, v(a))),
            What::Two { two, ty, to, a, b } => (to, apply_two(two, ty, v(a), v(b))),
            What::High { ty, to, a, b } => {
                let product = integer(v(a), ty) * integer(v(b), ty);
                (to, cut(product >> ty.bits(), ty))
            }
            What::Wide { ty, to, a, b, c } => {
                let double = Type::U(2 * ty.bits());
                let product = low(v(a), ty).wrapping_mul(low(v(b), ty));
                let sum = c.map_or(0, |c| mask(v(c), double));
                (to, mask(product.wrapping_add(sum), double))
            }
            What::Mad { ty: Type::F32, to, a, b, c } => {
                (to, u64::from(single(v(a)).mul_add(single(v(b)), single(v(c))).to_bits()))
            }
            What::Mad { ty: Type::F64, to, a, b, c } => {
                (to, f64::from_bits(v(a)).mul_add(f64::from_bits(v(b)), f64::from_bits(v(c))).to_bits())
            }
            What::Mad { ty, to, a, b, c } => (to, mask(v(a).wrapping_mul(v(b)).wrapping_add(v(c)), ty)),
            What::Compare { compare, unordered, ty, to, a, b } => {
                (to, u64::from(holds(compare, unordered, ty, v(a), v(b))))
            }
            What::Select { ty, to, a, b, predicate } => {
                let chosen = if v(predicate) & 1 == 1 { v(a) } else { v(b) };
                (to, mask(chosen, ty))
            }
            What::Convert { to_type, from_type, to, a } => (to, convert(to_type, from_type, v(a))),
            What::Insert { ty, to, a, b, from, count } => (to, insert(ty, v(a), v(b), v(from), v(count))),
            What::Load { space, ty, ref to, from } => return self.load(space, ty, to, from, thread),
            What::Store { space, ty, to, ref from } => return self.store(space, ty, to, from, thread),
            What::Branch(_) | What::Barrier | What::Exit | What::Return | What::Call(_) => return Ok(()),
        };
        thread.set(to, bits);
        Ok(())
    }

    /// The space and the address there of `bytes` bytes.
    fn place(
        &self,
        space: Space,
        address: Address,
        bytes: usize,
        thread: &Thread,
    ) -> Result<(Space, u64), Stop> {
        let at = self.value(address.base, thread).wrapping_add_signed(address.offset);
        aligned(at, bytes)?;
        if space != Space::Generic {
            return Ok((space, at));
        }
        for window in [Space::Local, Space::Shared, Space::Entry] {
            let within = at.wrapping_sub(window.window());
            if within < WINDOW {
                return Ok((window, within));
            }
        }
        Ok((Space::Global, at))
    }

    fn load(
        &mut self,
        space: Space,
        ty: Type,
        to: &[usize],
        from: Address,
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        let len = ty.bytes() * to.len();
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..len];
        match self.place(space, from, len, thread)? {
            (Space::Global | Space::Generic, at) => self.global.read(at, bytes)?,
            (Space::Param, at) => {
                bytes.copy_from_slice(range(&thread.params[thread.frame.params..], at, len)?);
            }
            (Space::Entry, at) => bytes.copy_from_slice(range(&thread.params, at, len)?),
            (Space::Shared, at) => bytes.copy_from_slice(range(&self.shared, at, len)?),
            (Space::Local, at) => bytes.copy_from_slice(range(&thread.local, at, len)?),
        }
        for (register, bytes) in to.iter().zip(bytes.chunks_exact(ty.bytes())) {
            // A signed load fills its register with the sign.
            thread.set(*register, low(little(bytes), ty));
        }
        Ok(())
    }

    fn store(
        &mut self,
        space: Space,
        ty: Type,
        to: Address,
        from: &[Operand],
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        let len = ty.bytes() * from.len();
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..len];
        for (room, operand) in bytes.chunks_exact_mut(ty.bytes()).zip(from) {
            room.copy_from_slice(&self.value(*operand, thread).to_le_bytes()[..ty.bytes()]);
        }
        let (room, at) = match self.place(space, to, len, thread)? {
            (Space::Global | Space::Generic, at) => return self.global.write(at, bytes),
            (Space::Entry, _) => return Err(Stop(Code::ILLEGAL_ADDRESS)),
            (Space::Param, at) => (&mut thread.params[thread.frame.params..], at),
            (Space::Shared, at) => (&mut self.shared[..], at),
            (Space::Local, at) => (&mut thread.local[..], at),
        };
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let room = start.checked_add(len).and_then(|end| room.get_mut(start..end));
        room.ok_or(Stop(Code::ILLEGAL_ADDRESS))?.copy_from_slice(bytes);
        Ok(())
    }
}

/// The number of at most eight bytes.
fn little(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(eight)
}

fn aligned(at: u64, bytes: usize) -> Result<(), Stop> {
    if at.is_multiple_of(bytes as u64) { Ok(()) } else { Err(Stop(Code::MISALIGNED_ADDRESS)) }
}

fn range(bytes: &[u8], at: u64, len: usize) -> Result<&[u8], Stop> {
    let start = usize::try_from(at).unwrap_or(usize::MAX);
    start.checked_add(len).and_then(|end| bytes.get(start..end)).ok_or(Stop(Code::ILLEGAL_ADDRESS))
}

fn single(bits: u64) -> f32 {
    f32::from_bits(u32::try_from(bits & 0xffff_ffff).unwrap_or(0))
}

fn mask(bits: u64, ty: Type) -> u64 {
    if ty.bits() == 64 { bits } else { bits & ((1 << ty.bits()) - 1) }
}

/// The number that bits stand for.
fn integer(bits: u64, ty: Type) -> i128 {
    let bits = mask(bits, ty);
    match ty {
        Type::S(n) if bits >> (n - 1) & 1 == 1 => i128::from(bits) - (1i128 << n),
        _ => i128::from(bits),
    }
}

/// The number that bits stand for, in 64 of them.
fn low(bits: u64, ty: Type) -> u64 {
    let unused = 64 - ty.bits();
    match ty {
        Type::S(_) => (bits << unused).cast_signed().wrapping_shr(unused).cast_unsigned(),
        _ => mask(bits, ty),
    }
}

/// The low bits of a number.
fn cut(number: i128, ty: Type) -> u64 {
    mask(cut_to_register(number), ty)
}

#[expect(clippy::cast_possible_truncation, reason = "a register keeps the low 64 bits")]
fn cut_to_register(number: i128) -> u64 {
    number.cast_unsigned() as u64
}

fn apply_one(one: One, ty: Type, a: u64) -> u64 {
    match (one, ty) {
        (One::Mov, _) => mask(a, ty),
        (One::Not, _) => mask(!a, ty),
        (_, Type::F32) => {
            let a = single(a);
            let result = match one {
                One::Neg => -a,
                One::Abs => a.abs(),
                One::Sqrt => a.sqrt(),
                _ => a.recip(),
            };
            u64::from(result.to_bits())
        }
        (_, Type::F64) => {
            let a = f64::from_bits(a);
            let result = match one {
                One::Neg => -a,
                One::Abs => a.abs(),
                One::Sqrt => a.sqrt(),
                _ => a.recip(),
            };
            result.to_bits()
        }
        (One::Abs, _) => mask(low(a, ty).cast_signed().unsigned_abs(), ty),
        _ => mask(a.wrapping_neg(), ty),
    }
}

macro_rules! float_two {
    ($two:expr, $a:expr, $b:expr) => {
        match $two {
            Two::Add => $a + $b,
            Two::Sub => $a - $b,
            Two::Mul => $a * $b,
            Two::Div => $a / $b,
            Two::Min => $a.min($b),
            _ => $a.max($b),
        }
    };
}

fn apply_two(two: Two, ty: Type, a: u64, b: u64) -> u64 {
    match ty {
        Type::F32 => return u64::from(float_two!(two, single(a), single(b)).to_bits()),
        Type::F64 => return float_two!(two, f64::from_bits(a), f64::from_bits(b)).to_bits(),
        _ => {}
    }
    let (x, y) = (low(a, ty), low(b, ty));
    let signed = matches!(ty, Type::S(_));
    let (i, j) = (x.cast_signed(), y.cast_signed());
    let is_less = if signed { i < j } else { x < y };
    // A shift by more than there are bits moves them all out, or only the sign stays.
    let by = u32::try_from(b & 0xffff_ffff).unwrap_or(u32::MAX);
    let bits = match two {
        Two::Add => x.wrapping_add(y),
        Two::Sub => x.wrapping_sub(y),
        Two::Mul => x.wrapping_mul(y),
        // What hardware gives where there is no quotient is not documented: all bits set.
        Two::Div if y == 0 => u64::MAX,
        Two::Div if signed => i.wrapping_div(j).cast_unsigned(),
        Two::Div => x / y,
        Two::Rem if y == 0 => x,
        Two::Rem if signed => i.wrapping_rem(j).cast_unsigned(),
        Two::Rem => x % y,
        Two::Min => {
            if is_less {
                x
            } else {
                y
            }
        }
        Two::Max => {
            if is_less {
                y
            } else {
                x
            }
        }
        Two::And => x & y,
        Two::Or => x | y,
        Two::Xor => x ^ y,
        Two::Shl => {
            if by < ty.bits() {
                x << by
            } else {
                0
            }
        }
        Two::Shr if signed => (i >> by.min(63)).cast_unsigned(),
        Two::Shr => {
            if by < ty.bits() {
                x >> by
            } else {
                0
            }
        }
    };
    mask(bits, ty)
}

/// `b` with `count` bits of `a` from bit `from` on, each of the two counted by its low byte.
fn insert(ty: Type, a: u64, b: u64, from: u64, count: u64) -> u64 {
    let (from, count) = ((from & 0xff).min(64), (count & 0xff).min(64));
    let ones = |n: u64| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    let field = if from >= 64 { 0 } else { ones(count) << from };
    let moved = if from >= 64 { 0 } else { a << from };
    mask(b & !field | moved & field, ty)
}

fn holds(compare: Compare, unordered: bool, ty: Type, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::F32 => single(a).partial_cmp(&single(b)),
        Type::F64 => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
        Type::S(_) => Some(low(a, ty).cast_signed().cmp(&low(b, ty).cast_signed())),
        _ => Some(mask(a, ty).cmp(&mask(b, ty))),
    };
    let Some(order) = order else { return unordered || compare == Compare::Nan };
    match compare {
        Compare::Eq => order.is_eq(),
        Compare::Ne => order.is_ne(),
        Compare::Lt => order.is_lt(),
        Compare::Le => order.is_le(),
        Compare::Gt => order.is_gt(),
        Compare::Ge => order.is_ge(),
        Compare::Num => true,
        Compare::Nan => false,
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "conversions round to nearest and saturate, as the instructions do"
)]
fn convert(to: Type, from: Type, a: u64) -> u64 {
    match (to, from) {
        (Type::F64, Type::F32) => f64::from(single(a)).to_bits(),
        (Type::F32, Type::F64) => u64::from((f64::from_bits(a) as f32).to_bits()),
        (Type::F32, _) => u64::from((integer(a, from) as f32).to_bits()),
        (Type::F64, _) => (integer(a, from) as f64).to_bits(),
        (_, Type::F32 | Type::F64) => {
            let value = if from == Type::F32 { f64::from(single(a)) } else { f64::from_bits(a) };
            let (least, most) = match to {
                Type::S(bits) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                _ => (0, (1i128 << to.bits()) - 1),
            };
            cut((value as i128).clamp(least, most), to)
        }
        // A signed number fills a wider register with its sign.
        _ => mask(low(a, from), to),
    }
}
