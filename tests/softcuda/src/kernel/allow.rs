//! What instructions there may be: an opcode with exactly its modifiers, types and operands.

use super::inst::{Compare, One, Operand, Space, Two, Type, What};
use super::names::Names;
use super::parse::{Parsed, bad};
use crate::code::Code;

/// One argument of an instruction.
pub(super) enum Arg<'t> {
    Word(String),
    Address(&'t [String]),
    Vector(Vec<String>),
}

/// Splits at commas outside of brackets; a sign belongs to its number.
pub(super) fn args(tokens: &[String]) -> Parsed<Vec<Arg<'_>>> {
    let mut args = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let close =
            |sign: &str| tokens[i..].iter().position(|t| t == sign).map(|n| i + n).ok_or(Code::INVALID_PTX);
        match tokens[i].as_str() {
            "[" => {
                let end = close("]")?;
                args.push(Arg::Address(&tokens[i + 1..end]));
                i = end + 1;
            }
            "{" => {
                let end = close("}")?;
                args.push(Arg::Vector(tokens[i + 1..end].iter().filter(|t| *t != ",").cloned().collect()));
                i = end + 1;
            }
            "-" => {
                args.push(Arg::Word(format!("-{}", tokens.get(i + 1).ok_or(Code::INVALID_PTX)?)));
                i += 2;
            }
            _ => {
                args.push(Arg::Word(tokens[i].clone()));
                i += 1;
            }
        }
        match tokens.get(i).map(String::as_str) {
            None => break,
            Some(",") if i + 1 < tokens.len() => i += 1,
            _ => return bad(),
        }
    }
    Ok(args)
}

/// The allow-list: opcode with exactly these modifiers, and types that it has.
pub(super) fn what(words: &[&str], args: &[Arg<'_>], names: &Names<'_>) -> Parsed<What> {
    let int = |t: &str| Type::of(t).filter(|t| t.is_int() && t.bits() >= 16).ok_or(Code::INVALID_PTX);
    let float = |t: &str| Type::of(t).filter(|t| t.is_float()).ok_or(Code::INVALID_PTX);
    let bits = |t: &str| {
        let ty = Type::of(t).filter(|ty| (t.starts_with('b') && ty.bits() >= 16) || *ty == Type::Pred);
        ty.ok_or(Code::INVALID_PTX)
    };
    let a = Args { args, names };
    match *words {
        ["mov", t] => a.one(One::Mov, Type::of(t).ok_or(Code::INVALID_PTX)?),
        ["neg", t] => a.one(One::Neg, int(t).or_else(|_| float(t))?),
        ["abs", t] => a.one(One::Abs, int(t).or_else(|_| float(t))?),
        ["not", t] => a.one(One::Not, bits(t)?),
        ["sqrt", "rn", t] => a.one(One::Sqrt, float(t)?),
        ["rcp", "rn", t] => a.one(One::Rcp, float(t)?),
        ["add", "rn", t] => a.two(Two::Add, float(t)?),
        ["add", t] => a.two(Two::Add, int(t).or_else(|_| float(t))?),
        ["sub", "rn", t] => a.two(Two::Sub, float(t)?),
        ["sub", t] => a.two(Two::Sub, int(t).or_else(|_| float(t))?),
        ["mul", "rn", t] | ["mul", t @ ("f32" | "f64")] => a.two(Two::Mul, float(t)?),
        ["mul", "lo", t] => a.two(Two::Mul, int(t)?),
        ["mul", "hi", t] => a.high(int(t)?),
        ["mul", "wide", t] => a.wide(int(t)?, false),
        ["mad", "wide", t] => a.wide(int(t)?, true),
        ["mad", "lo", t] => a.mad(int(t)?),
        ["fma", "rn", t] => a.mad(float(t)?),
        ["div", "rn", t] => a.two(Two::Div, float(t)?),
        ["div", t] => a.two(Two::Div, int(t)?),
        ["rem", t] => a.two(Two::Rem, int(t)?),
        ["min", t] => a.two(Two::Min, int(t).or_else(|_| float(t))?),
        ["max", t] => a.two(Two::Max, int(t).or_else(|_| float(t))?),
        ["and", t] => a.two(Two::And, bits(t)?),
        ["or", t] => a.two(Two::Or, bits(t)?),
        ["xor", t] => a.two(Two::Xor, bits(t)?),
        ["shl", t] => a.shift(Two::Shl, bits(t)?),
        ["shr", t] => a.shift(Two::Shr, int(t)?),
        ["setp", compare, t] => a.compare(compare, Type::of(t).ok_or(Code::INVALID_PTX)?),
        ["selp", t] => a.select(Type::of(t).filter(|t| *t != Type::Pred).ok_or(Code::INVALID_PTX)?),
        ["cvt", "rn", to, from] => {
            let (to, from) = (float(to)?, Type::of(from).ok_or(Code::INVALID_PTX)?);
            if from.is_int() || (to, from) == (Type::F32, Type::F64) { a.convert(to, from) } else { bad() }
        }
        ["cvt", "rzi", to, from] => a.convert(int(to)?, float(from)?),
        ["cvt", "f64", "f32"] => a.convert(Type::F64, Type::F32),
        ["cvt", to, from] => {
            let small = |t: &str| Type::of(t).filter(|t| t.is_int()).ok_or(Code::INVALID_PTX);
            a.convert(small(to)?, small(from)?)
        }
        // Generic addresses of global memory are its own, those of others lie in windows.
        ["cvta", "to", "global", "u64"] | ["cvta", "global", "u64"] => a.one(One::Mov, Type::U(64)),
        ["cvta", "to", "local", "u64"] => a.window(Two::Sub, Space::Local),
        ["cvta", "local", "u64"] => a.window(Two::Add, Space::Local),
        ["cvta", "param", "u64"] => a.window(Two::Add, Space::Entry),
        ["cvta", "to", "shared", "u64"] => a.window(Two::Sub, Space::Shared),
        ["cvta", "shared", "u64"] => a.window(Two::Add, Space::Shared),
        ["bfi", t @ ("b32" | "b64")] => a.insert(bits(t)?),
        ["ld", ref rest @ ..] => {
            let (space, rest) = space(rest);
            // Through a cache that global memory alone has.
            let rest = rest.strip_prefix(&["nc"]).filter(|_| space == Space::Global).unwrap_or(rest);
            let (ty, lanes) = lanes(rest)?;
            a.load(space, ty, lanes)
        }
        ["st", ref rest @ ..] => {
            let (space, rest) = space(rest);
            let (ty, lanes) = lanes(rest)?;
            a.store(space, ty, lanes)
        }
        ["bra"] | ["bra", "uni"] => a.branch(),
        ["bar", "sync"] | ["barrier", "sync"] => match args {
            [Arg::Word(zero)] if zero == "0" => Ok(What::Barrier),
            _ => bad(),
        },
        ["ret"] | ["ret", "uni"] if args.is_empty() => Ok(What::Return),
        ["exit"] if args.is_empty() => Ok(What::Exit),
        _ => bad(),
    }
}

/// The space of a load or store, and what is behind it.
fn space<'w>(words: &'w [&'w str]) -> (Space, &'w [&'w str]) {
    let space = match words.first() {
        Some(&"param") => Space::Param,
        Some(&"global") => Space::Global,
        Some(&"shared") => Space::Shared,
        Some(&"local") => Space::Local,
        _ => return (Space::Generic, words),
    };
    (space, &words[1..])
}

/// The type of a load or store, and how many numbers it moves: at most 16 bytes.
fn lanes(words: &[&str]) -> Parsed<(Type, usize)> {
    let (ty, lanes) = match *words {
        [t] => (t, 1),
        ["v2", t] => (t, 2),
        ["v4", t] => (t, 4),
        _ => return bad(),
    };
    let ty = Type::of(ty).filter(|t| *t != Type::Pred && t.bytes() * lanes <= 16);
    Ok((ty.ok_or(Code::INVALID_PTX)?, lanes))
}

/// The arguments of one instruction.
struct Args<'a, 't> {
    args: &'a [Arg<'t>],
    names: &'a Names<'a>,
}

impl Args<'_, '_> {
    fn target(&self) -> Parsed<usize> {
        match self.args.first() {
            Some(Arg::Word(word)) => self.names.register(word),
            _ => bad(),
        }
    }

    fn operand(&self, i: usize, ty: Type) -> Parsed<Operand> {
        match self.args.get(i) {
            Some(Arg::Word(word)) => self.names.operand(word, ty),
            _ => bad(),
        }
    }

    fn count(&self, wanted: usize) -> Parsed<()> {
        if self.args.len() == wanted { Ok(()) } else { bad() }
    }

    fn one(&self, one: One, ty: Type) -> Parsed<What> {
        self.count(2)?;
        Ok(What::One { one, ty, to: self.target()?, a: self.operand(1, ty)? })
    }

    fn two(&self, two: Two, ty: Type) -> Parsed<What> {
        self.count(3)?;
        Ok(What::Two { two, ty, to: self.target()?, a: self.operand(1, ty)?, b: self.operand(2, ty)? })
    }

    fn shift(&self, two: Two, ty: Type) -> Parsed<What> {
        self.count(3)?;
        Ok(What::Two {
            two,
            ty,
            to: self.target()?,
            a: self.operand(1, ty)?,
            b: self.operand(2, Type::U(32))?,
        })
    }

    fn high(&self, ty: Type) -> Parsed<What> {
        self.count(3)?;
        Ok(What::High { ty, to: self.target()?, a: self.operand(1, ty)?, b: self.operand(2, ty)? })
    }

    fn wide(&self, ty: Type, sum: bool) -> Parsed<What> {
        self.count(3 + usize::from(sum))?;
        if ty.bits() > 32 {
            return bad();
        }
        let double = if matches!(ty, Type::S(_)) { Type::S(2 * ty.bits()) } else { Type::U(2 * ty.bits()) };
        let c = if sum { Some(self.operand(3, double)?) } else { None };
        Ok(What::Wide { ty, to: self.target()?, a: self.operand(1, ty)?, b: self.operand(2, ty)?, c })
    }

    fn mad(&self, ty: Type) -> Parsed<What> {
        self.count(4)?;
        let (a, b, c) = (self.operand(1, ty)?, self.operand(2, ty)?, self.operand(3, ty)?);
        Ok(What::Mad { ty, to: self.target()?, a, b, c })
    }

    fn compare(&self, compare: &str, ty: Type) -> Parsed<What> {
        self.count(3)?;
        let (compare, unordered) = match compare {
            // Unsigned comparisons have names of their own.
            "lo" | "ls" | "hi" | "hs" if matches!(ty, Type::U(_)) => (
                ["lt", "le", "gt", "ge"]
                    [["lo", "ls", "hi", "hs"].iter().position(|c| *c == compare).unwrap_or(0)],
                false,
            ),
            c if ty.is_float() && c.len() == 3 && c.ends_with('u') => (&c[..2], true),
            c => (c, false),
        };
        let compare = match compare {
            "eq" => Compare::Eq,
            "ne" => Compare::Ne,
            "lt" => Compare::Lt,
            "le" => Compare::Le,
            "gt" => Compare::Gt,
            "ge" => Compare::Ge,
            "num" if ty.is_float() => Compare::Num,
            "nan" if ty.is_float() => Compare::Nan,
            _ => return bad(),
        };
        if ty == Type::Pred || ty.bits() < 16 {
            return bad();
        }
        let (a, b) = (self.operand(1, ty)?, self.operand(2, ty)?);
        Ok(What::Compare { compare, unordered, ty, to: self.target()?, a, b })
    }

    fn select(&self, ty: Type) -> Parsed<What> {
        self.count(4)?;
        let (a, b, predicate) = (self.operand(1, ty)?, self.operand(2, ty)?, self.operand(3, Type::Pred)?);
        Ok(What::Select { ty, to: self.target()?, a, b, predicate })
    }

    fn convert(&self, to_type: Type, from_type: Type) -> Parsed<What> {
        self.count(2)?;
        Ok(What::Convert { to_type, from_type, to: self.target()?, a: self.operand(1, from_type)? })
    }

    fn window(&self, two: Two, space: Space) -> Parsed<What> {
        self.count(2)?;
        let (ty, b) = (Type::U(64), Operand::Constant(space.window()));
        Ok(What::Two { two, ty, to: self.target()?, a: self.operand(1, ty)?, b })
    }

    fn insert(&self, ty: Type) -> Parsed<What> {
        self.count(5)?;
        let (a, b) = (self.operand(1, ty)?, self.operand(2, ty)?);
        let (from, count) = (self.operand(3, Type::U(32))?, self.operand(4, Type::U(32))?);
        Ok(What::Insert { ty, to: self.target()?, a, b, from, count })
    }

    fn load(&self, space: Space, ty: Type, lanes: usize) -> Parsed<What> {
        let [to, Arg::Address(tokens)] = self.args else { return bad() };
        let to: Vec<usize> = match to {
            Arg::Word(word) if lanes == 1 => vec![self.names.register(word)?],
            Arg::Vector(words) if lanes > 1 && words.len() == lanes => {
                words.iter().map(|w| self.names.register(w)).collect::<Parsed<_>>()?
            }
            _ => return bad(),
        };
        Ok(What::Load { space, ty, to, from: self.names.address(tokens, space, ty.bytes() * lanes, true)? })
    }

    fn store(&self, space: Space, ty: Type, lanes: usize) -> Parsed<What> {
        let [Arg::Address(tokens), value] = self.args else { return bad() };
        let from: Vec<Operand> = match value {
            Arg::Word(word) if lanes == 1 => vec![self.names.operand(word, ty)?],
            Arg::Vector(words) if lanes > 1 && words.len() == lanes => {
                words.iter().map(|w| self.names.operand(w, ty)).collect::<Parsed<_>>()?
            }
            _ => return bad(),
        };
        Ok(What::Store { space, ty, to: self.names.address(tokens, space, ty.bytes() * lanes, false)?, from })
    }

    /// To a label that whoever knows them puts in.
    fn branch(&self) -> Parsed<What> {
        match self.args {
            [Arg::Word(label)] if !label.starts_with('-') => Ok(What::Branch(usize::MAX)),
            _ => bad(),
        }
    }
}
