//! What names mean in a body, scope by scope.

use std::collections::BTreeMap;

use super::inst::{Actual, Address, Formal, Operand, Space, Type};
use super::parse::{Parsed, Tokens, bad, declaration, expect, next, number};
use crate::code::Code;

/// Registers, bytes of parameters and bytes of local memory of one body.
const MOST_REGISTERS: usize = 1 << 16;
const MOST_PARAMS: usize = 1 << 16;
const MOST_LOCAL: usize = 512 << 10;

/// How far parameters are aligned at most.
pub(super) const PARAM_ALIGN: usize = 128;

/// How deep scopes may lie in each other.
const MOST_SCOPES: usize = 64;

/// A variable in the space of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Param {
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) role: Role,
}

/// Whose parameter it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Of the body itself, to read.
    Input,
    /// Of the body itself, to write.
    Output,
    /// Of calls that it makes.
    Call,
}

#[derive(Debug, Clone, Copy)]
enum Name {
    Register(usize),
    /// As many registers as `<count>` says, whose names end in their number.
    Registers(usize, usize),
    Param(Param),
    Shared(usize),
    Local(usize),
}

/// Names of a scope; what it took of registers and parameters is free again at its end.
#[derive(Debug, Default)]
struct Scope {
    names: BTreeMap<String, Name>,
    registers: usize,
    params: usize,
}

/// The names of a body, and what its frame has to hold.
#[derive(Debug)]
pub(super) struct Names<'u> {
    scopes: Vec<Scope>,
    registers: usize,
    params: usize,
    pub(super) n_registers: usize,
    pub(super) n_params: usize,
    pub(super) local: usize,
    pub(super) local_align: usize,
    /// The module's shared memory, of which so many names stand before the body, and all bytes that the body has.
    module: &'u Shared,
    n_shared: usize,
    pub(super) shared_bytes: usize,
}

/// What a module declares in shared memory: where it lies, and how many stand before it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) names: BTreeMap<String, (usize, usize)>,
    pub(super) bytes: usize,
}

impl Shared {
    pub(super) fn declare(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        let (name, at, end) = shared(tokens, self.bytes)?;
        let n = self.names.len();
        self.bytes = end;
        if self.names.insert(name, (at, n)).is_some() { bad() } else { Ok(()) }
    }
}

/// `.align 4 .b8 name[64];`, or `name[]` for what a launch brings, behind `before` bytes: name, begin, end.
fn shared(tokens: &mut Tokens<'_>, before: usize) -> Parsed<(String, usize, usize)> {
    let (name, align, bytes) = declaration(tokens)?;
    expect(tokens, ";")?;
    let at = before.next_multiple_of(align);
    // What a device gives a block without asking.
    if at + bytes > 48 << 10 { bad() } else { Ok((name, at, at + bytes)) }
}

impl<'u> Names<'u> {
    pub(super) fn new(module: &'u Shared, n_shared: usize, shared_bytes: usize) -> Names<'u> {
        let (registers, params, n_registers, n_params) = (0, 0, 0, 0);
        Names {
            scopes: vec![Scope::default()],
            registers,
            params,
            n_registers,
            n_params,
            local: 0,
            local_align: 1,
            module,
            n_shared,
            shared_bytes,
        }
    }

    pub(super) fn open(&mut self) -> Parsed<()> {
        if self.scopes.len() == MOST_SCOPES {
            return bad();
        }
        let (registers, params) = (self.registers, self.params);
        self.scopes.push(Scope { names: BTreeMap::new(), registers, params });
        Ok(())
    }

    pub(super) fn close(&mut self) -> Parsed<()> {
        let scope = self.scopes.pop().filter(|_| !self.scopes.is_empty()).ok_or(Code::INVALID_PTX)?;
        (self.registers, self.params) = (scope.registers, scope.params);
        Ok(())
    }

    /// Whether every scope but the body's own is closed.
    pub(super) fn is_outermost(&self) -> bool {
        self.scopes.len() == 1
    }

    fn put(&mut self, name: &str, meaning: Name) -> Parsed<()> {
        let scope = self.scopes.last_mut().ok_or(Code::INVALID_PTX)?;
        if scope.names.insert(name.to_owned(), meaning).is_some() { bad() } else { Ok(()) }
    }

    fn take_registers(&mut self, count: usize) -> Parsed<usize> {
        let at = self.registers;
        let end = at.checked_add(count).filter(|end| *end <= MOST_REGISTERS).ok_or(Code::INVALID_PTX)?;
        self.registers = end;
        self.n_registers = self.n_registers.max(end);
        Ok(at)
    }

    /// `.b32 %r<5>;`
    pub(super) fn declare_registers(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        let ty = next(tokens)?.strip_prefix('.').and_then(Type::of);
        ty.ok_or(Code::INVALID_PTX)?;
        loop {
            let name = next(tokens)?;
            let mut sign = next(tokens)?;
            if sign == "<" {
                let count = number(next(tokens)?)?;
                expect(tokens, ">")?;
                let at = self.take_registers(count)?;
                self.put(name, Name::Registers(at, count))?;
                sign = next(tokens)?;
            } else {
                self.declare_register(name)?;
            }
            match sign {
                "," => {}
                ";" => return Ok(()),
                _ => return bad(),
            }
        }
    }

    pub(super) fn declare_register(&mut self, name: &str) -> Parsed<()> {
        let at = self.take_registers(1)?;
        self.put(name, Name::Register(at))
    }

    pub(super) fn declare_param(&mut self, name: &str, align: usize, bytes: usize, role: Role) -> Parsed<()> {
        let offset = self.params.next_multiple_of(align);
        if bytes == 0 || offset + bytes > MOST_PARAMS || align > PARAM_ALIGN {
            return bad();
        }
        self.put(name, Name::Param(Param { offset, bytes, role }))?;
        self.params = offset + bytes;
        self.n_params = self.n_params.max(self.params);
        Ok(())
    }

    pub(super) fn declare_shared(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        let (name, at, end) = shared(tokens, self.shared_bytes)?;
        self.shared_bytes = end;
        self.put(&name, Name::Shared(at))
    }

    pub(super) fn declare_local(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        let (name, align, bytes) = declaration(tokens)?;
        expect(tokens, ";")?;
        let at = self.local.next_multiple_of(align);
        if at + bytes > MOST_LOCAL {
            return bad();
        }
        self.put(&name, Name::Local(at))?;
        self.local = at + bytes;
        self.local_align = self.local_align.max(align);
        Ok(())
    }

    /// What a name means where it stands, from the innermost scope outwards.
    fn find(&self, name: &str) -> Option<Name> {
        self.scopes.iter().rev().find_map(|scope| {
            if let Some(found) = scope.names.get(name) {
                return (!matches!(found, Name::Registers(..))).then_some(*found);
            }
            // `%r12` may be the second of `%r1<3>` as well as the twelfth of `%r<13>`.
            let digits = name.bytes().rev().take_while(u8::is_ascii_digit).take(5).count();
            (1..=digits).find_map(|n| {
                let (stem, digits) = name.split_at(name.len() - n);
                let Some(Name::Registers(at, count)) = scope.names.get(stem) else { return None };
                let i: usize = digits.parse().ok().filter(|i| i < count)?;
                (n == 1 || !digits.starts_with('0')).then_some(Name::Register(at + i))
            })
        })
    }

    pub(super) fn register(&self, name: &str) -> Parsed<usize> {
        match self.find(name) {
            Some(Name::Register(at)) => Ok(at),
            _ => bad(),
        }
    }

    /// The caller's side of a parameter: a variable of as many bytes, a register, or, to be read alone, a number.
    pub(super) fn actual(&self, word: &str, formal: Formal, is_read: bool) -> Parsed<Actual> {
        let (bytes, ty) = match formal {
            Formal::Param { bytes, .. } => (bytes, Type::bits_of_bytes(bytes)),
            Formal::Register { ty, .. } => (ty.bytes(), Some(ty)),
        };
        if let Some(Name::Param(param)) = self.find(word) {
            let fits = param.role == Role::Call && param.bytes == bytes;
            return if fits { Ok(Actual::Param(param.offset)) } else { bad() };
        }
        match self.operand(word, ty.ok_or(Code::INVALID_PTX)?)? {
            operand @ Operand::Register(_) => Ok(Actual::Value(operand)),
            operand @ Operand::Constant(_) if is_read => Ok(Actual::Value(operand)),
            _ => bad(),
        }
    }

    pub(super) fn operand(&self, word: &str, ty: Type) -> Parsed<Operand> {
        match self.find(word) {
            Some(Name::Register(at)) => return Ok(Operand::Register(at)),
            // Addresses of parameters, of shared and of local memory are offsets, for loads from these spaces alone.
            Some(Name::Shared(at)) => return Ok(Operand::Constant(at as u64)),
            Some(Name::Param(param)) if param.role == Role::Input => {
                return Ok(Operand::Constant(param.offset as u64));
            }
            Some(Name::Local(at)) => return Ok(Operand::Local(at as u64)),
            Some(Name::Param(_) | Name::Registers(..)) => return bad(),
            None => {}
        }
        if let Some((at, _)) = self.module.names.get(word).filter(|(_, before)| *before < self.n_shared) {
            return Ok(Operand::Constant(*at as u64));
        }
        if let Some((name, axis)) = word.split_once('.').filter(|(name, _)| name.starts_with('%')) {
            let which = ["%tid", "%ntid", "%ctaid", "%nctaid"].iter().position(|n| *n == name);
            let axis = ["x", "y", "z"].iter().position(|a| *a == axis);
            return which.zip(axis).map(|(w, a)| Operand::Special(w, a)).ok_or(Code::INVALID_PTX);
        }
        constant(word, ty).map(Operand::Constant).ok_or(Code::INVALID_PTX)
    }

    /// An address of so many bytes, to be read or written.
    pub(super) fn address(
        &self,
        tokens: &[String],
        space: Space,
        bytes: usize,
        is_read: bool,
    ) -> Parsed<Address> {
        let (first, rest) = tokens.split_first().ok_or(Code::INVALID_PTX)?;
        let offset = match rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => 0,
            ["+", n] => n.parse().map_err(|_| Code::INVALID_PTX)?,
            ["+", "-", n] => -n.parse::<i64>().map_err(|_| Code::INVALID_PTX)?,
            _ => return bad(),
        };
        let base = match (space, self.find(first)) {
            (Space::Param, Some(Name::Param(param))) => {
                // An input is read, an output written, and what calls take and give both.
                let other = if is_read { Role::Output } else { Role::Input };
                let end = usize::try_from(offset).ok().and_then(|from| from.checked_add(bytes));
                if param.role == other || end.is_none_or(|end| end > param.bytes) {
                    return bad();
                }
                Operand::Constant(param.offset as u64)
            }
            // Only the address of an input can be had.
            (Space::Param, Some(Name::Register(at))) if is_read => Operand::Register(at),
            (Space::Param | Space::Entry, _) => return bad(),
            (Space::Shared | Space::Local, _) => {
                let base = self.operand(first, Type::U(64))?;
                let is_other = match base {
                    Operand::Register(_) => false,
                    Operand::Local(_) => space != Space::Local,
                    Operand::Constant(_) => space != Space::Shared,
                    Operand::Special(..) => true,
                };
                if is_other {
                    return bad();
                }
                base
            }
            (Space::Global | Space::Generic, _) => Operand::Register(self.register(first)?),
        };
        Ok(Address { base, offset })
    }
}

/// The bits of a constant: decimal, hexadecimal, or a float in hexadecimal.
fn constant(word: &str, ty: Type) -> Option<u64> {
    if let Some(hex) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
        return (ty == Type::F32 || ty == Type::U(32))
            .then(|| u32::from_str_radix(hex, 16).ok().map(u64::from))?;
    }
    if let Some(hex) = word.strip_prefix("0d").or_else(|| word.strip_prefix("0D")) {
        return (ty == Type::F64 || ty == Type::U(64)).then(|| u64::from_str_radix(hex, 16).ok())?;
    }
    if ty.is_float() {
        return None;
    }
    if let Some(hex) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    word.parse::<u64>().ok().or_else(|| word.parse::<i64>().ok().map(i64::cast_unsigned))
}
