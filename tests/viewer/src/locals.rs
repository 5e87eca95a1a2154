//! Numbers the locals of each function by how often it names them.
//!
//! A compiler numbers them as it comes across them, so that a number says little; when the lowest is the one that is named most, in every
//! function, what packs a module tells the next from those before in fewer bits, and functions that do alike look more alike.

use anyhow::{Context, Result, anyhow};
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, Function, Instruction, Module, ValType};
use wasmparser::{FunctionBody, Operator, Parser, Payload};

/// The module with its locals numbered so, and nothing else changed. Parameters keep their numbers, since callers count on them.
pub(crate) fn by_use(module: &[u8]) -> Result<Vec<u8>> {
    let n_params = n_params(module)?;
    let mut numbered = Module::new();
    let mut by_use = ByUse { n_params: n_params.into_iter(), number: Vec::new() };
    by_use
        .parse_core_module(&mut numbered, Parser::new(0), module)
        .map_err(|error| anyhow!("the locals cannot be numbered anew: {error}"))?;
    Ok(numbered.finish())
}

/// How many parameters each function has that is not imported.
fn n_params(module: &[u8]) -> Result<Vec<u32>> {
    let (mut of_types, mut of_functions) = (Vec::new(), Vec::new());
    for part in Parser::new(0).parse_all(module) {
        match part.context("no module")? {
            Payload::TypeSection(types) => {
                for ty in types.into_iter_err_on_gc_types() {
                    of_types.push(u32::try_from(ty?.params().len())?);
                }
            }
            Payload::FunctionSection(functions) => {
                for ty in functions {
                    of_functions.push(*of_types.get(ty? as usize).context("a function without a type")?);
                }
            }
            _ => {}
        }
    }
    Ok(of_functions)
}

struct ByUse {
    n_params: std::vec::IntoIter<u32>,
    /// The number that each local of the function has afterwards.
    number: Vec<u32>,
}

impl ByUse {
    /// Numbers the locals of a function; gives how many there are of each type, in their order.
    fn count(
        &mut self,
        body: &FunctionBody<'_>,
    ) -> Result<Vec<(u32, ValType)>, Error<std::convert::Infallible>> {
        let n_params = self.n_params.next().unwrap_or_else(|| unreachable!("bug: a body without a function"));
        let (mut types, mut of_type) = (Vec::<ValType>::new(), Vec::new());
        for group in body.get_locals_reader()? {
            let (n, ty) = group?;
            let ty = self.val_type(ty)?;
            let place = types.iter().position(|known| *known == ty).unwrap_or_else(|| {
                types.push(ty);
                types.len() - 1
            });
            of_type.extend(std::iter::repeat_n(place, n as usize));
        }
        let mut uses = vec![0_u32; of_type.len()];
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            if let Operator::LocalGet { local_index }
            | Operator::LocalSet { local_index }
            | Operator::LocalTee { local_index } = reader.read()?
                && let Some(own) = local_index.checked_sub(n_params)
            {
                uses[own as usize] += 1;
            }
        }
        let mut order: Vec<usize> = (0..uses.len()).collect();
        order.sort_by_key(|&own| (of_type[own], std::cmp::Reverse(uses[own])));
        self.number = (0..n_params + u32::try_from(order.len()).unwrap_or(u32::MAX)).collect();
        for (number, &own) in (n_params..).zip(&order) {
            self.number[n_params as usize + own] = number;
        }
        let n_of = |place| of_type.iter().filter(|of| **of == place).count();
        Ok(types
            .iter()
            .enumerate()
            .map(|(place, ty)| (u32::try_from(n_of(place)).unwrap_or(u32::MAX), *ty))
            .collect())
    }
}

impl Reencode for ByUse {
    type Error = std::convert::Infallible;

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error<Self::Error>> {
        let mut function = Function::new(self.count(&body)?);
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            function.instruction(&self.parse_instruction(&mut reader)?);
        }
        code.function(&function);
        Ok(())
    }

    fn instruction<'a>(&mut self, read: Operator<'a>) -> Result<Instruction<'a>, Error<Self::Error>> {
        let number = |local: u32| self.number[local as usize];
        Ok(match read {
            Operator::LocalGet { local_index } => Instruction::LocalGet(number(local_index)),
            Operator::LocalSet { local_index } => Instruction::LocalSet(number(local_index)),
            Operator::LocalTee { local_index } => Instruction::LocalTee(number(local_index)),
            other => utils::instruction(self, other)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_encoder::{FunctionSection, TypeSection};

    /// A function: parameters, declared locals, and the locals that it names, in order.
    type Told<'a> = (&'a [ValType], &'a [(u32, ValType)], &'a [u32]);

    fn module(functions: &[Told<'_>]) -> Vec<u8> {
        let (mut types, mut own, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
        for (k, (params, locals, named)) in (0..).zip(functions) {
            types.ty().function(params.iter().copied(), []);
            own.function(k);
            let mut body = Function::new(locals.iter().copied());
            for &local in *named {
                body.instructions().local_get(local).drop();
            }
            body.instructions().end();
            code.function(&body);
        }
        let mut module = Module::new();
        module.section(&types).section(&own).section(&code);
        module.finish()
    }

    #[test]
    fn the_local_that_is_named_most_comes_first_of_its_type() {
        use ValType::{F64, I32, I64};
        let before = module(&[
            // 2..4 and 6 of 32 bits, 5 of 64; 4 is named most, then 6, then 2; 3 is not.
            (&[I64, I32], &[(3, I32), (1, I64), (1, I32)], &[4, 0, 2, 6, 4, 6, 5, 4, 1]),
            (&[], &[(2, F64)], &[0, 1, 0]),
            (&[F64], &[], &[0]),
        ]);
        let after = module(&[
            (&[I64, I32], &[(4, I32), (1, I64)], &[2, 0, 4, 3, 2, 3, 6, 2, 1]),
            (&[], &[(2, F64)], &[0, 1, 0]),
            (&[F64], &[], &[0]),
        ]);
        wasmparser::validate(&before).unwrap();
        assert_eq!(by_use(&before).unwrap(), after);
        assert_eq!(by_use(&after).unwrap(), after);
    }
}
