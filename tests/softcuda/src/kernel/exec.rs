//! Runs the instructions of a kernel: block by block, the threads of a block one after the other between barriers.

use super::inst::{Address, Compare, One, Operand, Space, Two, Type, What};
use super::parse::Program;
use super::{Global, Shape, Stop};
use crate::code::Code;

/// One thread of a block.
struct Thread {
    index: [u32; 3],
    registers: Vec<u64>,
    at: usize,
    over: bool,
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
    mut left: u64,
) -> Result<(), Stop> {
    for [x, y, z] in indices(shape.grid) {
        let shared = vec![0xCD; program.shared + shape.shared as usize];
        let mut run = Run { program, shape, block: [x, y, z], args, shared, global: &mut *global, left };
        run.block()?;
        left = run.left;
    }
    Ok(())
}

fn indices([x, y, z]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])))
}

impl Run<'_> {
    fn block(&mut self) -> Result<(), Stop> {
        let registers = self.program.registers;
        let thread = |index| Thread { index, registers: vec![0; registers], at: 0, over: false };
        let mut threads: Vec<Thread> = indices(self.shape.block).map(thread).collect();
        while threads.iter().any(|t| !t.over) {
            for thread in threads.iter_mut().filter(|t| !t.over) {
                self.until_barrier(thread)?;
            }
        }
        Ok(())
    }

    fn until_barrier(&mut self, thread: &mut Thread) -> Result<(), Stop> {
        loop {
            let Some(inst) = self.program.insts.get(thread.at) else {
                thread.over = true;
                return Ok(());
            };
            self.left = self.left.checked_sub(1).ok_or(Stop(Code::LAUNCH_TIMEOUT))?;
            thread.at += 1;
            if inst.guard.is_some_and(|(predicate, wanted)| (thread.registers[predicate] & 1 == 1) != wanted)
            {
                continue;
            }
            match &inst.what {
                What::Branch(at) => thread.at = *at,
                What::Barrier => return Ok(()),
                What::Exit => {
                    thread.over = true;
                    return Ok(());
                }
                what => self.step(what, thread)?,
            }
        }
    }

    fn value(&self, operand: Operand, thread: &Thread) -> u64 {
        match operand {
            Operand::Register(at) => thread.registers[at],
            Operand::Constant(bits) => bits,
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
                let sum = c.map_or(0, |c| integer(v(c), double));
                (to, cut(integer(v(a), ty) * integer(v(b), ty) + sum, double))
            }
            What::Mad { ty: Type::F32, to, a, b, c } => {
                (to, u64::from(single(v(a)).mul_add(single(v(b)), single(v(c))).to_bits()))
            }
            What::Mad { ty: Type::F64, to, a, b, c } => {
                (to, f64::from_bits(v(a)).mul_add(f64::from_bits(v(b)), f64::from_bits(v(c))).to_bits())
            }
            What::Mad { ty, to, a, b, c } => {
                let product = cut(integer(v(a), ty) * integer(v(b), ty), ty);
                (to, cut(integer(product, ty) + integer(v(c), ty), ty))
            }
            What::Compare { compare, unordered, ty, to, a, b } => {
                (to, u64::from(holds(compare, unordered, ty, v(a), v(b))))
            }
            What::Select { ty, to, a, b, predicate } => {
                let chosen = if v(predicate) & 1 == 1 { v(a) } else { v(b) };
                (to, mask(chosen, ty))
            }
            What::Convert { to_type, from_type, to, a } => (to, convert(to_type, from_type, v(a))),
            What::Load { space, ty, ref to, from } => return self.load(space, ty, to, from, thread),
            What::Store { space, ty, to, ref from } => return self.store(space, ty, to, from, thread),
            What::Branch(_) | What::Barrier | What::Exit => return Ok(()),
        };
        thread.registers[to] = bits;
        Ok(())
    }

    fn address(&self, address: Address, thread: &Thread) -> u64 {
        self.value(address.base, thread).wrapping_add_signed(address.offset)
    }

    fn load(
        &mut self,
        space: Space,
        ty: Type,
        to: &[usize],
        from: Address,
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        let at = self.address(from, thread);
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..ty.bytes() * to.len()];
        match space {
            Space::Global => {
                aligned(at, bytes.len())?;
                self.global.read(at, bytes)?;
            }
            Space::Param => bytes.copy_from_slice(range(self.args, at, bytes.len())?),
            Space::Shared => bytes.copy_from_slice(range(&self.shared, at, bytes.len())?),
        }
        for (register, bytes) in to.iter().zip(bytes.chunks_exact(ty.bytes())) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            // A signed load fills its register with the sign.
            thread.registers[*register] = cut_to_register(integer(u64::from_le_bytes(eight), ty));
        }
        Ok(())
    }

    fn store(
        &mut self,
        space: Space,
        ty: Type,
        to: Address,
        from: &[Operand],
        thread: &Thread,
    ) -> Result<(), Stop> {
        let at = self.address(to, thread);
        let mut bytes = Vec::with_capacity(32);
        for operand in from {
            bytes.extend_from_slice(&self.value(*operand, thread).to_le_bytes()[..ty.bytes()]);
        }
        match space {
            Space::Global => {
                aligned(at, bytes.len())?;
                self.global.write(at, &bytes)
            }
            Space::Param => Err(Stop(Code::ILLEGAL_INSTRUCTION)),
            Space::Shared => {
                let start = usize::try_from(at).unwrap_or(usize::MAX);
                let room = start.checked_add(bytes.len()).and_then(|end| self.shared.get_mut(start..end));
                room.ok_or(Stop(Code::ILLEGAL_ADDRESS))?.copy_from_slice(&bytes);
                Ok(())
            }
        }
    }
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
        (One::Abs, _) => cut(integer(a, ty).abs(), ty),
        _ => cut(-integer(a, ty), ty),
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
    let (x, y) = (integer(a, ty), integer(b, ty));
    match two {
        Two::Add => cut(x + y, ty),
        Two::Sub => cut(x - y, ty),
        Two::Mul => cut(x * y, ty),
        // What hardware gives where there is no quotient is not documented: all bits set.
        Two::Div => x.checked_div(y).map_or(mask(u64::MAX, ty), |q| cut(q, ty)),
        Two::Rem => x.checked_rem(y).map_or(mask(a, ty), |r| cut(r, ty)),
        Two::Min => cut(x.min(y), ty),
        Two::Max => cut(x.max(y), ty),
        Two::And => mask(a & b, ty),
        Two::Or => mask(a | b, ty),
        Two::Xor => mask(a ^ b, ty),
        // A shift by more than there are bits moves them all out.
        Two::Shl => cut(x << (b & 0xffff_ffff).min(u64::from(ty.bits())), ty),
        Two::Shr => cut(x >> (b & 0xffff_ffff).min(u64::from(ty.bits())), ty),
    }
}

fn holds(compare: Compare, unordered: bool, ty: Type, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::F32 => single(a).partial_cmp(&single(b)),
        Type::F64 => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
        _ => Some(integer(a, ty).cmp(&integer(b, ty))),
    };
    order.map_or(unordered, |order| match compare {
        Compare::Eq => order.is_eq(),
        Compare::Ne => order.is_ne(),
        Compare::Lt => order.is_lt(),
        Compare::Le => order.is_le(),
        Compare::Gt => order.is_gt(),
        Compare::Ge => order.is_ge(),
    })
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
        _ => cut(integer(a, from), to),
    }
}
