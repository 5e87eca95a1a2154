//! Puts functions that are alike behind each other.
//!
//! What packs a module says in fewer bits what stood a short way before, and instances of one generic function lie anywhere in
//! two megabytes. An order in which each function follows the one that it shares most with packs smaller. So does a module that says
//! nothing of how what it reads and writes is aligned: a hint that no engine heeds where any address can be read.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, ExportSection, FunctionSection, ImportSection, MemArg, Module};
use wasmparser::{
    CodeSectionReader, Export, FunctionBody, FunctionSectionReader, Imports, Parser, Payload, TypeRef,
};

/// So many bytes in a row are one thing that two functions may share.
const GRAM: usize = 4;
/// What more functions share says nothing of any two.
const MOST_COMMON: usize = 1500;

/// The module with its functions in another order, other names for what it imports and exports and no hints of alignment, and nothing
/// else changed.
pub(crate) fn beside(module: &[u8], names: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let (n_imported, bodies) = functions(module)?;
    let order = order(&bodies);
    let mut place = vec![0; order.len()];
    for (at, &function) in (n_imported..).zip(&order) {
        place[function] = at;
    }
    let mut moved = Module::new();
    let mut moves = Moves { n_imported, order, place, names };
    moves
        .parse_core_module(&mut moved, Parser::new(0), module)
        .map_err(|error| anyhow!("the module cannot be written anew: {error}"))?;
    Ok(moved.finish())
}

/// How many functions are imported, and the bytes of the others.
fn functions(module: &[u8]) -> Result<(u32, Vec<&[u8]>)> {
    let (mut n_imported, mut bodies) = (0, Vec::new());
    for part in Parser::new(0).parse_all(module) {
        match part.context("no module")? {
            Payload::ImportSection(imports) => {
                for import in imports {
                    match import? {
                        Imports::Single(_, import) => {
                            n_imported += u32::from(matches!(import.ty, TypeRef::Func(_)));
                        }
                        _ => return Err(anyhow!("imports in a form that is not known here")),
                    }
                }
            }
            Payload::CodeSectionEntry(body) => bodies.push(body.as_bytes()),
            _ => {}
        }
    }
    Ok((n_imported, bodies))
}

/// Each function behind the one that it shares most with, of those that are left, and what it shares with the one before that counts
/// half; from the longest on where none shares anything.
fn order(bodies: &[&[u8]]) -> Vec<usize> {
    let (shared, shares) = shared(bodies);
    let mut by_length: Vec<usize> = (0..bodies.len()).collect();
    by_length.sort_by_key(|&k| std::cmp::Reverse(bodies[k].len()));
    let mut by_length = by_length.into_iter();
    let (mut is_left, mut order) = (vec![true; bodies.len()], Vec::<usize>::new());
    let mut in_common = vec![0_u64; bodies.len()];
    while order.len() < bodies.len() {
        let mut near = Vec::new();
        for (&before, counts) in order.iter().rev().zip([2, 1]) {
            let sharing: &Vec<usize> = &shares[before];
            for &other in sharing.iter().flat_map(|&gram| &shared[gram]).filter(|&&other| is_left[other]) {
                if in_common[other] == 0 {
                    near.push(other);
                }
                in_common[other] += counts;
            }
        }
        // Parts of all that the two have, compared as fractions; of equal ones the first.
        let part = |k: usize| {
            let all = 2 * bodies[k].len() + order.last().map_or(0, |&last| bodies[last].len());
            (in_common[k], (all as u64).saturating_sub(in_common[k]).max(1))
        };
        let better = |a: usize, b: usize| {
            let (x, y) = (part(a), part(b));
            if (x.0 * y.1, b) > (y.0 * x.1, a) { a } else { b }
        };
        let next = near.iter().copied().reduce(better).or_else(|| by_length.find(|&k| is_left[k]));
        let Some(next) = next else { break };
        near.iter().for_each(|&k| in_common[k] = 0);
        is_left[next] = false;
        order.push(next);
    }
    order
}

/// The functions that have each of the grams which some share, and the grams of each function.
fn shared(bodies: &[&[u8]]) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let mut having: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (k, body) in bodies.iter().enumerate() {
        for gram in body.windows(GRAM) {
            let having = having.entry(gram).or_default();
            if having.last() != Some(&k) {
                having.push(k);
            }
        }
    }
    let shared: Vec<Vec<usize>> =
        having.into_values().filter(|having| (2..=MOST_COMMON).contains(&having.len())).collect();
    let mut shares = vec![Vec::new(); bodies.len()];
    for (gram, having) in shared.iter().enumerate() {
        having.iter().for_each(|&k| shares[k].push(gram));
    }
    (shared, shares)
}

/// Writes a module anew with its functions in another order.
struct Moves<'n> {
    n_imported: u32,
    /// Which function comes at each place.
    order: Vec<usize>,
    /// The index that each function has afterwards.
    place: Vec<u32>,
    /// New names for old ones.
    names: &'n BTreeMap<String, String>,
}

impl Moves<'_> {
    fn name<'a>(&'a self, old: &'a str) -> &'a str {
        self.names.get(old).map_or(old, String::as_str)
    }
}

impl Reencode for Moves<'_> {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Self::Error>> {
        Ok(function.checked_sub(self.n_imported).map_or(function, |own| self.place[own as usize]))
    }

    fn mem_arg(&mut self, arg: wasmparser::MemArg) -> Result<MemArg, Error<Self::Error>> {
        Ok(MemArg { offset: arg.offset, align: 0, memory_index: arg.memory })
    }

    fn parse_imports(
        &mut self,
        section: &mut ImportSection,
        imports: Imports<'_>,
    ) -> Result<(), Error<Self::Error>> {
        // `functions` has refused the other forms.
        if let Imports::Single(_, import) = imports {
            let ty = self.entity_type(import.ty)?;
            section.import(import.module, self.name(import.name), ty);
        }
        Ok(())
    }

    fn parse_export(
        &mut self,
        exports: &mut ExportSection,
        export: Export<'_>,
    ) -> Result<(), Error<Self::Error>> {
        let (kind, index) = (self.export_kind(export.kind)?, self.external_index(export.kind, export.index)?);
        exports.export(self.name(export.name), kind, index);
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        let types = section.into_iter().collect::<Result<Vec<u32>, _>>()?;
        for &function in &self.order.clone() {
            functions.function(self.type_index(types[function])?);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        let bodies = section.into_iter().collect::<Result<Vec<FunctionBody<'_>>, _>>()?;
        for &function in &self.order.clone() {
            self.parse_function_body(code, bodies[function].clone())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_encoder::{
        ConstExpr, ElementSection, Elements, EntityType, ExportKind, Function, MemorySection, MemoryType,
        RefType, TableSection, TableType, TypeSection, ValType,
    };

    const IMPORTED: &str = "imported";
    const EXPORTED: &str = "exported";

    /// Two imported functions; seven of two kinds, each of which names itself by a number and calls the next one; a table
    /// and exports that name functions.
    fn module() -> Vec<u8> {
        let mut types = TypeSection::new();
        types.ty().function([], []);
        types.ty().function([], [ValType::I64]);
        let mut imports = ImportSection::new();
        imports.import("m", IMPORTED, EntityType::Function(0)).import("m", "b", EntityType::Function(1));
        let (mut functions, mut code, mut exports) =
            (FunctionSection::new(), CodeSection::new(), ExportSection::new());
        for k in 0..7_u32 {
            functions.function(1);
            let mut body = Function::new([]);
            let mut calls = body.instructions();
            for step in 0..20 {
                calls.i64_const(i64::from(step * (1 + k % 2) + 1000)).drop();
            }
            calls.i64_const(i64::from(k)).drop().call(2 + (k + 1) % 7).end();
            code.function(&body);
            exports.export(&format!("{EXPORTED}{k}"), ExportKind::Func, 2 + k);
        }
        let mut tables = TableSection::new();
        tables.table(TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: 8,
            maximum: None,
            shared: false,
        });
        let mut elements = ElementSection::new();
        elements.active(None, &ConstExpr::i32_const(1), Elements::Functions(vec![0, 5, 2].into()));
        let mut module = Module::new();
        module.section(&types).section(&imports).section(&functions).section(&tables).section(&exports);
        module.section(&elements).section(&code);
        module.finish()
    }

    /// For each export what its function says it is and what the one that it calls says; the same for the table.
    fn told(module: &[u8]) -> Vec<(String, u64)> {
        let (n_imported, bodies) = functions(module).unwrap();
        let said = |index: u32| {
            let body = index.checked_sub(n_imported).map(|own| bodies[own as usize]);
            // the last constant, the call's index and the end
            body.map_or(u64::from(index) + 100, |b| {
                u64::from(b[b.len() - 5]) * 10 + {
                    let called = u32::from(b[b.len() - 2]) - n_imported;
                    let c = bodies[called as usize];
                    u64::from(c[c.len() - 5])
                }
            })
        };
        let mut told = Vec::new();
        for part in Parser::new(0).parse_all(module) {
            match part.unwrap() {
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export.unwrap();
                        told.push((export.name.to_owned(), said(export.index)));
                    }
                }
                Payload::ElementSection(elements) => {
                    for element in elements {
                        let wasmparser::ElementItems::Functions(items) = element.unwrap().items else {
                            panic!()
                        };
                        told.extend(
                            items.into_iter().map(|index| ("table".to_owned(), said(index.unwrap()))),
                        );
                    }
                }
                _ => {}
            }
        }
        told
    }

    #[test]
    fn like_comes_beside_like_and_every_name_means_what_it_meant() {
        let (before, after) = (module(), beside(&module(), &BTreeMap::new()).unwrap());
        assert_eq!(told(&before), told(&after));
        assert_eq!(told(&before)[..2], [("exported0".to_owned(), 1), ("exported1".to_owned(), 12)]);
        let kinds = |module: &[u8]| -> Vec<u8> {
            functions(module).unwrap().1.iter().map(|b| b[b.len() - 5] % 2).collect()
        };
        assert_eq!(kinds(&before), [0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(kinds(&after), [0, 0, 0, 0, 1, 1, 1]);
        assert_eq!(after, beside(&module(), &BTreeMap::new()).unwrap());
        let name_of = |module: &[u8]| String::from_utf8_lossy(module).into_owned();
        assert!(name_of(&after).contains(IMPORTED) && name_of(&after).contains(EXPORTED));
        let short = BTreeMap::from([(IMPORTED, "_0"), ("exported3", "_1")]);
        let short = short.into_iter().map(|(old, new)| (old.to_owned(), new.to_owned())).collect();
        let renamed = name_of(&beside(&module(), &short).unwrap());
        assert!(renamed.contains("_0") && renamed.contains("_1"));
        assert!(!renamed.contains(IMPORTED) && !renamed.contains("exported3"));
    }

    #[test]
    fn what_is_read_and_written_is_the_same_without_its_alignment() {
        let with = |align: u32| {
            let mut types = TypeSection::new();
            types.ty().function([ValType::I32, ValType::F64], [ValType::I64]);
            let mut functions = FunctionSection::new();
            functions.function(0);
            let mut memories = MemorySection::new();
            memories.memory(MemoryType {
                minimum: 1,
                maximum: None,
                memory64: false,
                shared: false,
                page_size_log2: None,
            });
            let at = |offset: u64, align: u32| MemArg { offset, align, memory_index: 0 };
            let mut body = Function::new([]);
            body.instructions()
                .local_get(0)
                .local_get(1)
                .f64_store(at(8, align))
                .local_get(0)
                .i64_load32_u(at(70_000, align.min(2)))
                .end();
            let mut code = CodeSection::new();
            code.function(&body);
            let mut module = Module::new();
            module.section(&types).section(&functions).section(&memories).section(&code);
            module.finish()
        };
        assert_ne!(with(3), with(0));
        for align in 0..=3 {
            assert_eq!(beside(&with(align), &BTreeMap::new()).unwrap(), with(0));
        }
    }

    #[test]
    fn what_is_no_module_is_told() {
        assert!(beside(b"no module", &BTreeMap::new()).is_err());
        let mut cut = module();
        cut.truncate(cut.len() - 3);
        assert!(beside(&cut, &BTreeMap::new()).is_err());
    }
}
