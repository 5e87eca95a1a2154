//! PTX text to instructions. Everything is on a list of what is allowed: an opcode, modifier, operand or directive that
//! is not known is an error here, never ignored later.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use super::allow::{args, what};
use super::inst::{Call, Formal, Function, Guard, Inst, Program, Type, What};
use super::names::{Names, Role, Shared};
use super::{Body, Kernel, rust};
use crate::code::Code;

pub(super) type Tokens<'t> = Peekable<std::slice::Iter<'t, String>>;

/// Something read, or what is wrong with it: code 218.
pub(super) type Parsed<T> = Result<T, Code>;

pub(super) fn bad<T>() -> Parsed<T> {
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
    // By its first word a driver tells text to be compiled from other images, of which this one knows none.
    expect(&mut tokens, ".version").map_err(|_| Code::INVALID_IMAGE)?;
    let ptx = next(&mut tokens)?.split_once('.').and_then(|(major, minor)| {
        let major = major.parse::<u32>().ok().filter(|m| *m < 100)?;
        Some(10 * major + minor.parse::<u32>().ok().filter(|m| *m < 10)?)
    });
    if ptx.ok_or(Code::INVALID_PTX)? > newest_ptx(version) {
        return Err(Code::UNSUPPORTED_PTX_VERSION);
    }
    expect(&mut tokens, ".target")?;
    let target = next(&mut tokens)?.strip_prefix("sm_").and_then(|n| n.parse::<i32>().ok());
    if target.ok_or(Code::INVALID_PTX)? > 10 * capability.0 + capability.1 {
        return bad();
    }
    let mut unit = Unit::default();
    while let Some(token) = tokens.next() {
        match token.as_str() {
            ".address_size" => expect(&mut tokens, "64")?,
            ".visible" | ".weak" => {}
            ".extern" if tokens.peek().is_some_and(|t| *t == ".shared" || *t == ".func") => {}
            ".shared" => unit.shared.declare(&mut tokens)?,
            // Data that no instruction can name, since its symbol is unknown.
            ".global" | ".const" => while next(&mut tokens)? != ";" {},
            ".func" => unit.function(&mut tokens)?,
            ".entry" => unit.entry(&mut tokens)?,
            _ => return bad(),
        }
    }
    unit.kernels()
}

/// Words, numbers and single signs, without comments.
pub(super) fn tokens(text: &str) -> Vec<String> {
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

pub(super) fn next<'t>(tokens: &mut Tokens<'t>) -> Parsed<&'t str> {
    tokens.next().map(String::as_str).ok_or(Code::INVALID_PTX)
}

pub(super) fn expect(tokens: &mut Tokens<'_>, wanted: &str) -> Parsed<()> {
    if next(tokens)? == wanted { Ok(()) } else { bad() }
}

fn comes(tokens: &mut Tokens<'_>, wanted: &str) -> bool {
    tokens.next_if(|t| *t == wanted).is_some()
}

pub(super) fn number(word: &str) -> Parsed<usize> {
    word.parse().map_err(|_| Code::INVALID_PTX)
}

/// `[.align N] .type name[[count]]`: name, alignment, bytes.
pub(super) fn declaration(tokens: &mut Tokens<'_>) -> Parsed<(String, usize, usize)> {
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
    if comes(tokens, "[") {
        let count = if tokens.peek().is_some_and(|t| *t == "]") { 0 } else { number(next(tokens)?)? };
        expect(tokens, "]")?;
        bytes = size.checked_mul(count).filter(|b| *b <= 1 << 20).ok_or(Code::INVALID_PTX)?;
    }
    Ok((name, align, bytes))
}

/// A parameter as a head declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Declared {
    name: String,
    align: usize,
    bytes: usize,
    /// Of a function's parameter that is a register.
    register: Option<Type>,
}

impl Declared {
    /// All but the name, in which a declaration and its definition may differ.
    fn shape(&self) -> (usize, usize, Option<Type>) {
        (self.align, self.bytes, self.register)
    }
}

/// `(.param .b64 a, .reg .b32 b)`, or nothing.
fn declared(tokens: &mut Tokens<'_>) -> Parsed<Vec<Declared>> {
    let mut all = Vec::new();
    if !comes(tokens, "(") || comes(tokens, ")") {
        return Ok(all);
    }
    loop {
        let register = match next(tokens)? {
            ".param" => false,
            ".reg" => true,
            _ => return bad(),
        };
        let ty = tokens.peek().and_then(|t| t.strip_prefix('.')).and_then(Type::of);
        let (name, align, bytes) = declaration(tokens)?;
        let register = if register { Some(ty.ok_or(Code::INVALID_PTX)?) } else { None };
        if register.is_some_and(|ty| ty.bytes() != bytes) {
            return bad();
        }
        all.push(Declared { name, align, bytes, register });
        match next(tokens)? {
            "," => {}
            ")" => return Ok(all),
            _ => return bad(),
        }
    }
}

/// The tokens between a body's braces, the first of which is behind.
fn braced(tokens: &mut Tokens<'_>) -> Parsed<Vec<String>> {
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
            return Ok(body);
        }
        body.push(token.to_owned());
    }
}

/// A function as its head says it is called.
#[derive(Debug)]
struct Head {
    outputs: Vec<Declared>,
    inputs: Vec<Declared>,
    source: Option<Source>,
}

impl Head {
    /// Where calls put what a frame begins with, and where they find what it gives: in the order of [`Known::body`].
    fn formals(&self) -> (Vec<Formal>, Vec<Formal>) {
        let (mut n_registers, mut end) = (0, 0usize);
        let mut of = |declared: &[Declared]| {
            let formal = |d: &Declared| match d.register {
                Some(ty) => {
                    n_registers += 1;
                    Formal::Register { at: n_registers - 1, ty }
                }
                None => {
                    let offset = end.next_multiple_of(d.align);
                    end = offset + d.bytes;
                    Formal::Param { offset, bytes: d.bytes }
                }
            };
            declared.iter().map(formal).collect()
        };
        (of(&self.inputs), of(&self.outputs))
    }

    fn has_shape_of(&self, other: &Head) -> bool {
        let same =
            |a: &[Declared], b: &[Declared]| a.iter().map(Declared::shape).eq(b.iter().map(Declared::shape));
        same(&self.outputs, &other.outputs) && same(&self.inputs, &other.inputs)
    }
}

/// A body to be read, with how much is known where it stands.
#[derive(Debug)]
struct Source {
    body: Vec<String>,
    is_entry: bool,
    n_functions: usize,
    n_shared: usize,
    shared_bytes: usize,
}

/// A module as it is read: heads first, bodies once it is known which entries have a stand-in.
#[derive(Debug, Default)]
struct Unit {
    functions: Vec<Head>,
    entries: Vec<(String, Vec<Declared>, Source)>,
    /// Numbers of functions; entries have none that a call could find.
    by_name: BTreeMap<String, usize>,
    shared: Shared,
}

impl Unit {
    fn source(&self, body: Vec<String>, is_entry: bool) -> Source {
        let (n_shared, shared_bytes) = (self.shared.names.len(), self.shared.bytes);
        Source { body, is_entry, n_functions: self.functions.len(), n_shared, shared_bytes }
    }

    /// A function, or its declaration.
    fn function(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        let outputs = declared(tokens)?;
        let name = next(tokens)?.to_owned();
        let head = Head { outputs, inputs: declared(tokens)?, source: None };
        comes(tokens, ".noreturn");
        let at = *self.by_name.entry(name).or_insert(self.functions.len());
        if at == self.functions.len() {
            self.functions.push(head);
        } else if self.functions.get(at).is_some_and(|known| known.has_shape_of(&head)) {
            // A body speaks of its own head's names.
            let known = &mut self.functions[at];
            if known.source.is_none() {
                (known.outputs, known.inputs) = (head.outputs, head.inputs);
            }
        } else {
            return bad();
        }
        match next(tokens)? {
            ";" => Ok(()),
            "{" if self.functions[at].source.is_none() => {
                self.functions[at].source = Some(self.source(braced(tokens)?, false));
                Ok(())
            }
            _ => bad(),
        }
    }

    fn entry(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        let name = next(tokens)?.to_owned();
        let params = declared(tokens)?;
        let is_known = self.by_name.insert(name.clone(), usize::MAX).is_some();
        if is_known || params.iter().any(|p| p.register.is_some()) {
            return bad();
        }
        // Bounds on launches, which an interpreter does not need.
        while !comes(tokens, "{") {
            match next(tokens)? {
                ".maxntid" | ".reqntid" | ".minnctapersm" | ".maxnreg" | "," => {}
                word => drop(number(word)?),
            }
        }
        let source = self.source(braced(tokens)?, true);
        self.entries.push((name, params, source));
        Ok(())
    }

    fn kernels(self) -> Parsed<Vec<Kernel>> {
        let known = Known { unit: &self };
        let mut wanted = Vec::new();
        let mut entries = Vec::new();
        for (name, params, source) in &self.entries {
            let body = match rust::find(name) {
                Some(kernel) => Err(kernel),
                None => Ok(known.body(&[], params, source, &mut wanted)?),
            };
            entries.push((name, params, body));
        }
        // What only entries call that have a stand-in is not looked at, as they are not.
        if entries.iter().all(|(.., body)| body.is_ok()) {
            wanted.extend((0..self.functions.len()).filter(|i| self.functions[*i].source.is_some()));
        }
        let mut functions: Vec<Option<Function>> = self.functions.iter().map(|_| None).collect();
        while let Some(i) = wanted.pop() {
            if functions[i].is_none() {
                let Head { outputs, inputs, source } = &self.functions[i];
                let source = source.as_ref().ok_or(Code::INVALID_PTX)?;
                functions[i] = Some(known.body(outputs, inputs, source, &mut wanted)?.0);
            }
        }
        let functions = Arc::new(functions.into_iter().map(Option::unwrap_or_default).collect());
        let kernels = entries.into_iter().map(|(name, params, body)| {
            let body = match body {
                Err(kernel) => Body::Rust(kernel),
                Ok((entry, shared)) => {
                    Body::Ptx(Arc::new(Program { entry, functions: Arc::clone(&functions), shared }))
                }
            };
            let params = params.iter().scan(0usize, |end, param| {
                let offset = end.next_multiple_of(param.align);
                *end = offset + param.bytes;
                Some((offset, param.bytes))
            });
            Kernel { name: name.clone(), params: params.collect(), body }
        });
        Ok(kernels.collect())
    }
}

/// What bodies speak of.
struct Known<'u> {
    unit: &'u Unit,
}

impl Known<'_> {
    /// A body, and its bytes of shared memory; adds what it calls to `wanted`.
    fn body(
        &self,
        outputs: &[Declared],
        inputs: &[Declared],
        source: &Source,
        wanted: &mut Vec<usize>,
    ) -> Parsed<(Function, usize)> {
        let mut names = Names::new(&self.unit.shared, source.n_shared, source.shared_bytes);
        for (declared, role) in
            inputs.iter().map(|d| (d, Role::Input)).chain(outputs.iter().map(|d| (d, Role::Output)))
        {
            match declared.register {
                Some(_) => names.declare_register(&declared.name)?,
                None => names.declare_param(&declared.name, declared.align, declared.bytes, role)?,
            }
        }
        let tokens = &source.body[..];
        let mut insts: Vec<Inst> = Vec::new();
        let mut labels = BTreeMap::new();
        let mut branches = Vec::new();
        let mut start = 0;
        let mut i = 0;
        while i < tokens.len() {
            let is_first = i == start;
            let mut rest = tokens[i + 1..].iter().peekable();
            match tokens[i].as_str() {
                "{" if is_first => names.open()?,
                "}" if is_first => names.close()?,
                ".reg" if is_first => names.declare_registers(&mut rest)?,
                ".local" if is_first => names.declare_local(&mut rest)?,
                // A function's would have to be had by every entry that calls it.
                ".shared" if is_first && source.is_entry => names.declare_shared(&mut rest)?,
                ".param" if is_first => {
                    let (name, align, bytes) = declaration(&mut rest)?;
                    expect(&mut rest, ";")?;
                    names.declare_param(&name, align, bytes, Role::Call)?;
                }
                ":" if i == start + 1 => {
                    if labels.insert(tokens[start].as_str(), insts.len()).is_some() {
                        return bad();
                    }
                }
                // Advice about loops, or nothing.
                ";" if is_first || tokens[start] == ".pragma" => {}
                ";" => {
                    let (guard, words) = guarded(&tokens[start..i], &names)?;
                    let what = self.instruction(words, &names, source.n_functions)?;
                    match &what {
                        What::Call(call) => wanted.push(call.function),
                        What::Branch(_) => branches.push((insts.len(), words.last())),
                        _ => {}
                    }
                    insts.push(Inst { guard, what });
                }
                _ => {
                    i += 1;
                    continue;
                }
            }
            i = tokens.len() - rest.len();
            start = i;
        }
        if start != tokens.len() || !names.is_outermost() {
            return bad();
        }
        for (at, label) in branches {
            let to = label.and_then(|label| labels.get(label.as_str())).ok_or(Code::INVALID_PTX)?;
            insts[at].what = What::Branch(*to);
        }
        let Names { n_registers: registers, n_params: params, local, local_align, shared_bytes, .. } = names;
        Ok((Function { insts, registers, params, local, local_align }, shared_bytes))
    }

    fn instruction(&self, words: &[String], names: &Names<'_>, n_functions: usize) -> Parsed<What> {
        let (opcode, rest) = words.split_first().ok_or(Code::INVALID_PTX)?;
        if opcode == "call" || opcode == "call.uni" {
            return self.call(rest, names, n_functions);
        }
        let opcode: Vec<&str> = opcode.split('.').collect();
        what(&opcode, &args(rest)?, names)
    }

    /// `(results), function, (arguments)`: each list may be left out where it is empty.
    fn call(&self, tokens: &[String], names: &Names<'_>, n_functions: usize) -> Parsed<What> {
        let mut tokens = tokens.iter().peekable();
        let mut results = Vec::new();
        if tokens.peek().is_some_and(|t| *t == "(") {
            results = listed(&mut tokens)?;
            expect(&mut tokens, ",")?;
        }
        let function = self.unit.by_name.get(next(&mut tokens)?).copied();
        let function = function.filter(|function| *function < n_functions).ok_or(Code::INVALID_PTX)?;
        let arguments = if comes(&mut tokens, ",") { listed(&mut tokens)? } else { Vec::new() };
        let (takes, gives) = self.unit.functions[function].formals();
        if tokens.next().is_some() || arguments.len() != takes.len() || results.len() != gives.len() {
            return bad();
        }
        let inputs = arguments.into_iter().zip(takes);
        let inputs = inputs.map(|(word, formal)| Ok((names.actual(word, formal, true)?, formal)));
        let outputs = results.into_iter().zip(gives);
        let outputs = outputs.map(|(word, formal)| Ok((formal, names.actual(word, formal, false)?)));
        let (inputs, outputs) = (inputs.collect::<Parsed<_>>()?, outputs.collect::<Parsed<_>>()?);
        Ok(What::Call(Box::new(Call { function, inputs, outputs })))
    }
}

/// `(a, b)`
fn listed<'t>(tokens: &mut Tokens<'t>) -> Parsed<Vec<&'t str>> {
    expect(tokens, "(")?;
    let mut words = Vec::new();
    if comes(tokens, ")") {
        return Ok(words);
    }
    loop {
        words.push(next(tokens)?);
        match next(tokens)? {
            "," => {}
            ")" => return Ok(words),
            _ => return bad(),
        }
    }
}

/// A statement's guard, and what stands behind it.
fn guarded<'t>(statement: &'t [String], names: &Names<'_>) -> Parsed<(Option<Guard>, &'t [String])> {
    if statement.first().is_none_or(|t| t != "@") {
        return Ok((None, statement));
    }
    let negated = statement.get(1).is_some_and(|t| t == "!");
    let name = statement.get(1 + usize::from(negated)).ok_or(Code::INVALID_PTX)?;
    Ok((Some((names.register(name)?, !negated)), &statement[2 + usize::from(negated)..]))
}
