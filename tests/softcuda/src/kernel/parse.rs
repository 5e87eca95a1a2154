//! PTX text to instructions. Everything is on a list of what is allowed: an opcode, modifier, operand or directive that
//! is not known is an error here, never ignored later.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::inst::{Address, Compare, Inst, One, Operand, Space, Two, Type, What};
use super::{Body, Kernel, rust};
use crate::code::Code;

/// The body of an entry.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) insts: Vec<Inst>,
    pub(crate) registers: usize,
    /// Bytes of shared memory that it declares itself.
    pub(crate) shared: usize,
}

type Tokens<'t> = std::iter::Peekable<std::slice::Iter<'t, String>>;

/// An entry, or what is wrong with it: code 218.
type Parsed<T> = Result<T, Code>;

fn bad<T>() -> Parsed<T> {
    Err(Code::INVALID_PTX)
}

/// The newest PTX version that a driver of this CUDA version takes, times ten.
fn newest_ptx(driver: i32) -> u32 {
    match driver {
        ..12020 => 81,
        12020..12030 => 82,
        12030..12040 => 83,
        12040..12050 => 84,
        12050..12080 => 85,
        12080..12090 => 87,
        12090..13000 => 88,
        _ => 90,
    }
}

/// The entries of a module.
pub(crate) fn module(text: &str, version: i32, capability: (i32, i32)) -> Parsed<Vec<Kernel>> {
    let tokens = tokens(text);
    let mut tokens = tokens.iter().peekable();
    expect(&mut tokens, ".version")?;
    let ptx = next(&mut tokens)?.split_once('.').and_then(|(major, minor)| {
        Some(10 * major.parse::<u32>().ok()? + minor.parse::<u32>().ok().filter(|m| *m < 10)?)
    });
    if ptx.ok_or(Code::INVALID_PTX)? > newest_ptx(version) {
        return Err(Code::UNSUPPORTED_PTX_VERSION);
    }
    expect(&mut tokens, ".target")?;
    let target = next(&mut tokens)?.strip_prefix("sm_").and_then(|n| n.parse::<i32>().ok());
    if target.ok_or(Code::INVALID_PTX)? > 10 * capability.0 + capability.1 {
        return bad();
    }
    let mut kernels = Vec::new();
    let mut symbols = Symbols::default();
    while let Some(token) = tokens.next() {
        match token.as_str() {
            ".address_size" => expect(&mut tokens, "64")?,
            ".visible" | ".weak" => {}
            ".extern" if tokens.peek().is_some_and(|t| *t == ".shared") => {}
            ".shared" => symbols.declare_shared(&mut tokens)?,
            // Data that no instruction can name, since its symbol is unknown.
            ".global" | ".const" => while next(&mut tokens)? != ";" {},
            // What entries call: one that is interpreted is refused at the call, one with a stand-in calls nothing.
            ".func" => skip_function(&mut tokens)?,
            ".entry" => kernels.push(entry(&mut tokens, &symbols)?),
            _ => return bad(),
        }
    }
    Ok(kernels)
}

/// Words, numbers and single signs, without comments.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else if first.is_whitespace() {
            rest = &rest[first.len_utf8()..];
        } else {
            let word = |c: char| c.is_ascii_alphanumeric() || "._$%".contains(c);
            let len = rest.find(|c| !word(c)).unwrap_or(rest.len()).max(if word(first) {
                0
            } else {
                first.len_utf8()
            });
            tokens.push(rest[..len].to_owned());
            rest = &rest[len..];
        }
    }
    tokens
}

fn next<'t>(tokens: &mut Tokens<'t>) -> Parsed<&'t str> {
    tokens.next().map(String::as_str).ok_or(Code::INVALID_PTX)
}

fn expect(tokens: &mut Tokens<'_>, wanted: &str) -> Parsed<()> {
    if next(tokens)? == wanted { Ok(()) } else { bad() }
}

/// Past the end of a function, or of its declaration.
fn skip_function(tokens: &mut Tokens<'_>) -> Parsed<()> {
    let mut depth = 0usize;
    loop {
        match next(tokens)? {
            "{" => depth += 1,
            "}" if depth <= 1 => return Ok(()),
            "}" => depth -= 1,
            ";" if depth == 0 => return Ok(()),
            _ => {}
        }
    }
}

fn number(word: &str) -> Parsed<usize> {
    word.parse().map_err(|_| Code::INVALID_PTX)
}

/// What names mean.
#[derive(Debug, Default, Clone)]
struct Symbols {
    registers: BTreeMap<String, usize>,
    params: BTreeMap<String, usize>,
    shared: BTreeMap<String, usize>,
    shared_bytes: usize,
    labels: BTreeMap<String, usize>,
}

impl Symbols {
    /// `.align 4 .b8 name[64];`, or `name[]` for what a launch brings.
    fn declare_shared(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        let (name, align, bytes) = declaration(tokens)?;
        expect(tokens, ";")?;
        self.shared_bytes = self.shared_bytes.next_multiple_of(align);
        self.shared.insert(name, self.shared_bytes);
        self.shared_bytes += bytes;
        Ok(())
    }

    /// `.b32 %r<5>;`
    fn declare_registers(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        Type::of(next(tokens)?.strip_prefix('.').unwrap_or("")).ok_or(Code::INVALID_PTX)?;
        loop {
            let name = next(tokens)?;
            let mut sign = next(tokens)?;
            if sign == "<" {
                let count = number(next(tokens)?)?;
                if count > 1 << 16 {
                    return bad();
                }
                expect(tokens, ">")?;
                for i in 0..count {
                    let at = self.registers.len();
                    self.registers.insert(format!("{name}{i}"), at);
                }
                sign = next(tokens)?;
            } else {
                let at = self.registers.len();
                self.registers.insert(name.to_owned(), at);
            }
            match sign {
                "," => {}
                ";" => return Ok(()),
                _ => return bad(),
            }
        }
    }

    fn register(&self, name: &str) -> Parsed<usize> {
        self.registers.get(name).copied().ok_or(Code::INVALID_PTX)
    }
}

/// `[.align N] .type name[[count]]`: name, alignment, bytes.
fn declaration(tokens: &mut Tokens<'_>) -> Parsed<(String, usize, usize)> {
    let (mut align, mut size, mut pointer) = (None, None, false);
    let name = loop {
        match next(tokens)? {
            // Behind `.ptr` it is what the pointer points to that is aligned.
            ".align" if pointer => drop(number(next(tokens)?)?),
            ".align" => align = Some(number(next(tokens)?)?),
            ".ptr" => pointer = true,
            ".global" => {}
            word => match word.strip_prefix('.') {
                Some(ty) => size = Some(Type::of(ty).ok_or(Code::INVALID_PTX)?.bytes()),
                None => break word.to_owned(),
            },
        }
    };
    let size = size.ok_or(Code::INVALID_PTX)?;
    let align = align.unwrap_or(size);
    if !align.is_power_of_two() || align > 4096 {
        return bad();
    }
    let mut bytes = size;
    if tokens.peek().is_some_and(|t| *t == "[") {
        tokens.next();
        let count = if tokens.peek().is_some_and(|t| *t == "]") { 0 } else { number(next(tokens)?)? };
        expect(tokens, "]")?;
        bytes = size.checked_mul(count).filter(|b| *b <= 1 << 20).ok_or(Code::INVALID_PTX)?;
    }
    Ok((name, align, bytes))
}

fn entry(tokens: &mut Tokens<'_>, outer: &Symbols) -> Parsed<Kernel> {
    let name = next(tokens)?.to_owned();
    let mut symbols = outer.clone();
    let mut params = Vec::new();
    let mut end = 0usize;
    if tokens.peek().is_some_and(|t| *t == "(") {
        tokens.next();
        loop {
            match next(tokens)? {
                ")" => break,
                "," => {}
                ".param" => {
                    let (name, align, bytes) = declaration(tokens)?;
                    let offset = end.next_multiple_of(align);
                    symbols.params.insert(name, offset);
                    params.push((offset, bytes));
                    end = offset + bytes;
                }
                _ => return bad(),
            }
        }
    }
    // Bounds on launches, which an interpreter does not need.
    while tokens.peek().is_none_or(|t| *t != "{") {
        match next(tokens)? {
            ".maxntid" | ".reqntid" | ".minnctapersm" | ".maxnreg" | "," => {}
            word => drop(number(word)?),
        }
    }
    tokens.next();
    let mut depth = 1;
    let mut body = Vec::new();
    loop {
        let token = next(tokens)?;
        match token {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        body.push(token.to_owned());
    }
    let body = match rust::find(&name) {
        Some(kernel) => Body::Rust(kernel),
        None => Body::Ptx(Arc::new(program(&body, symbols)?)),
    };
    Ok(Kernel { name, params, body })
}

/// Instructions of a body: statements first, so that labels are known.
fn program(body: &[String], mut symbols: Symbols) -> Parsed<Program> {
    let mut statements: Vec<&[String]> = Vec::new();
    let mut start = 0;
    let mut i = 0;
    while i < body.len() {
        match body[i].as_str() {
            ".reg" => {
                let mut tokens = body[i + 1..].iter().peekable();
                symbols.declare_registers(&mut tokens)?;
                i = body.len() - tokens.len();
                start = i;
            }
            ".shared" => {
                let mut tokens = body[i + 1..].iter().peekable();
                symbols.declare_shared(&mut tokens)?;
                i = body.len() - tokens.len();
                start = i;
            }
            ":" if i == start + 1 => {
                symbols.labels.insert(body[start].clone(), statements.len());
                i += 1;
                start = i;
            }
            ";" => {
                let statement = &body[start..i];
                i += 1;
                start = i;
                match statement.first().map(String::as_str) {
                    // Advice about loops.
                    Some(".pragma") | None => {}
                    Some(_) => statements.push(statement),
                }
            }
            _ => i += 1,
        }
    }
    if start != body.len() {
        return bad();
    }
    let insts = statements.iter().map(|s| instruction(s, &symbols)).collect::<Parsed<Vec<Inst>>>()?;
    Ok(Program { insts, registers: symbols.registers.len(), shared: symbols.shared_bytes })
}

/// One argument of an instruction.
enum Arg<'t> {
    Word(String),
    Address(&'t [String]),
    Vector(Vec<String>),
}

/// Splits at commas outside of brackets; a sign belongs to its number.
fn args(tokens: &[String]) -> Parsed<Vec<Arg<'_>>> {
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

impl Symbols {
    fn operand(&self, word: &str, ty: Type) -> Parsed<Operand> {
        if let Some(at) = self.registers.get(word) {
            return Ok(Operand::Register(*at));
        }
        // Addresses of parameters and of shared memory are offsets, for loads from these spaces alone.
        if let Some(at) = self.shared.get(word).or_else(|| self.params.get(word)) {
            return Ok(Operand::Constant(*at as u64));
        }
        if let Some((name, axis)) = word.split_once('.').filter(|(name, _)| name.starts_with('%')) {
            let which = ["%tid", "%ntid", "%ctaid", "%nctaid"].iter().position(|n| *n == name);
            let axis = ["x", "y", "z"].iter().position(|a| *a == axis);
            return which.zip(axis).map(|(w, a)| Operand::Special(w, a)).ok_or(Code::INVALID_PTX);
        }
        constant(word, ty).map(Operand::Constant).ok_or(Code::INVALID_PTX)
    }

    fn address(&self, tokens: &[String], space: Space) -> Parsed<Address> {
        let (first, rest) = tokens.split_first().ok_or(Code::INVALID_PTX)?;
        let offset = match rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => 0,
            ["+", n] => n.parse().map_err(|_| Code::INVALID_PTX)?,
            ["+", "-", n] => -n.parse::<i64>().map_err(|_| Code::INVALID_PTX)?,
            _ => return bad(),
        };
        let base = match space {
            Space::Param => match self.params.get(first) {
                Some(at) => Operand::Constant(*at as u64),
                None => Operand::Register(self.register(first)?),
            },
            Space::Shared => self.operand(first, Type::U(32))?,
            Space::Global => Operand::Register(self.register(first)?),
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

fn instruction(statement: &[String], symbols: &Symbols) -> Parsed<Inst> {
    let mut tokens = statement;
    let mut guard = None;
    if tokens.first().is_some_and(|t| t == "@") {
        let negated = tokens.get(1).is_some_and(|t| t == "!");
        let name = tokens.get(1 + usize::from(negated)).ok_or(Code::INVALID_PTX)?;
        guard = Some((symbols.register(name)?, !negated));
        tokens = &tokens[2 + usize::from(negated)..];
    }
    let (opcode, rest) = tokens.split_first().ok_or(Code::INVALID_PTX)?;
    let words: Vec<&str> = opcode.split('.').collect();
    let args = args(rest)?;
    let what = super::parse::what(&words, &args, symbols)?;
    Ok(Inst { guard, what })
}

/// The allow-list: opcode with exactly these modifiers, and types that it has.
fn what(words: &[&str], args: &[Arg<'_>], symbols: &Symbols) -> Parsed<What> {
    let int = |t: &str| Type::of(t).filter(|t| t.is_int() && t.bits() >= 16).ok_or(Code::INVALID_PTX);
    let float = |t: &str| Type::of(t).filter(|t| t.is_float()).ok_or(Code::INVALID_PTX);
    let bits = |t: &str| {
        let ty = Type::of(t).filter(|ty| (t.starts_with('b') && ty.bits() >= 16) || *ty == Type::Pred);
        ty.ok_or(Code::INVALID_PTX)
    };
    let a = Args { args, symbols };
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
        // One address space for everything but shared memory, whose addresses none turns into generic ones: those are global.
        ["cvta", "to", "global", "u64"] | ["cvta", "global", "u64"] => a.one(One::Mov, Type::U(64)),
        ["ld", "param", t] => a.load(Space::Param, t, 1),
        ["ld", t] | ["ld", "global", t] | ["ld", "global", "nc", t] => a.load(Space::Global, t, 1),
        ["ld", "v2", t] | ["ld", "global", "v2", t] | ["ld", "global", "nc", "v2", t] => {
            a.load(Space::Global, t, 2)
        }
        ["ld", "global", "v4", t] | ["ld", "global", "nc", "v4", t] => a.load(Space::Global, t, 4),
        ["ld", "shared", t] => a.load(Space::Shared, t, 1),
        ["st", t] | ["st", "global", t] => a.store(Space::Global, t, 1),
        ["st", "v2", t] | ["st", "global", "v2", t] => a.store(Space::Global, t, 2),
        ["st", "global", "v4", t] => a.store(Space::Global, t, 4),
        ["st", "shared", t] => a.store(Space::Shared, t, 1),
        ["bra"] | ["bra", "uni"] => a.branch(),
        ["bar", "sync"] | ["barrier", "sync"] => match args {
            [Arg::Word(zero)] if zero == "0" => Ok(What::Barrier),
            _ => bad(),
        },
        ["ret"] | ["exit"] if args.is_empty() => Ok(What::Exit),
        _ => bad(),
    }
}

/// The arguments of one instruction.
struct Args<'a, 't> {
    args: &'a [Arg<'t>],
    symbols: &'a Symbols,
}

impl Args<'_, '_> {
    fn target(&self) -> Parsed<usize> {
        match self.args.first() {
            Some(Arg::Word(word)) => self.symbols.register(word),
            _ => bad(),
        }
    }

    fn operand(&self, i: usize, ty: Type) -> Parsed<Operand> {
        match self.args.get(i) {
            Some(Arg::Word(word)) => self.symbols.operand(word, ty),
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

    fn load(&self, space: Space, ty: &str, lanes: usize) -> Parsed<What> {
        let ty = Type::of(ty).filter(|t| *t != Type::Pred).ok_or(Code::INVALID_PTX)?;
        let to: Vec<usize> = match self.args {
            [Arg::Word(word), _] if lanes == 1 => vec![self.symbols.register(word)?],
            [Arg::Vector(words), _] if words.len() == lanes => {
                words.iter().map(|w| self.symbols.register(w)).collect::<Parsed<_>>()?
            }
            _ => return bad(),
        };
        match self.args {
            [_, Arg::Address(tokens)] => {
                Ok(What::Load { space, ty, to, from: self.symbols.address(tokens, space)? })
            }
            _ => bad(),
        }
    }

    fn store(&self, space: Space, ty: &str, lanes: usize) -> Parsed<What> {
        let ty = Type::of(ty).filter(|t| *t != Type::Pred).ok_or(Code::INVALID_PTX)?;
        let [Arg::Address(tokens), value] = self.args else { return bad() };
        let from: Vec<Operand> = match value {
            Arg::Word(word) if lanes == 1 => vec![self.symbols.operand(word, ty)?],
            Arg::Vector(words) if words.len() == lanes => {
                words.iter().map(|w| self.symbols.operand(w, ty)).collect::<Parsed<_>>()?
            }
            _ => return bad(),
        };
        Ok(What::Store { space, ty, to: self.symbols.address(tokens, space)?, from })
    }

    fn branch(&self) -> Parsed<What> {
        match self.args {
            [Arg::Word(label)] => {
                self.symbols.labels.get(label).map(|at| What::Branch(*at)).ok_or(Code::INVALID_PTX)
            }
            _ => bad(),
        }
    }
}
