//! A module as it is read before it is cut.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow, ensure};
use wasm_encoder::ValType;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasmparser::{
    ElementItems, ElementKind, ExternalKind, FunctionBody, Import, Imports, KnownCustom, Name, Operator,
    Parser, Payload, TypeRef,
};

use super::index;

/// What the cut asks of a module; functions by their index, imported ones first.
#[derive(Default)]
pub(super) struct Whole<'m> {
    pub(super) bytes: &'m [u8],
    /// The parameters of each type.
    pub(super) types: Vec<Vec<ValType>>,
    /// The imported functions.
    pub(super) imports: Vec<Import<'m>>,
    /// The type of each function.
    pub(super) of_type: Vec<u32>,
    pub(super) bodies: Vec<FunctionBody<'m>>,
    /// Which functions each of the module's own names, and which globals.
    pub(super) names: Vec<(BTreeSet<u32>, BTreeSet<u32>)>,
    pub(super) tables: Vec<wasmparser::TableType>,
    pub(super) memory: Option<wasmparser::MemoryType>,
    pub(super) globals: Vec<wasmparser::GlobalType>,
    pub(super) exports: Vec<wasmparser::Export<'m>>,
    pub(super) start: Option<u32>,
    /// The functions in the table of functions, with their slots, and which table that is.
    pub(super) slots: Vec<(u32, u32)>,
    pub(super) table: u32,
    /// What each function is called.
    pub(super) called: BTreeMap<u32, String>,
}

impl<'m> Whole<'m> {
    pub(super) fn read(bytes: &'m [u8]) -> Result<Whole<'m>> {
        let mut whole = Whole { bytes, ..Whole::default() };
        for part in Parser::new(0).parse_all(bytes) {
            match part.context("no module")? {
                Payload::TypeSection(types) => {
                    for ty in types.into_iter_err_on_gc_types() {
                        let ty = ty?;
                        let params = ty.params().iter().map(|&param| RoundtripReencoder.val_type(param));
                        whole.types.push(params.collect::<Result<_, _>>().map_err(|e| anyhow!("{e}"))?);
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports {
                        let Imports::Single(_, import) = import? else {
                            return Err(anyhow!("imports in a form that is not known here"));
                        };
                        let TypeRef::Func(ty) = import.ty else {
                            return Err(anyhow!(
                                "{}.{} is imported and no function",
                                import.module,
                                import.name
                            ));
                        };
                        whole.imports.push(import);
                        whole.of_type.push(ty);
                    }
                }
                Payload::FunctionSection(types) => {
                    for ty in types {
                        whole.of_type.push(ty?);
                    }
                }
                Payload::TableSection(tables) => {
                    for table in tables {
                        whole.tables.push(table?.ty);
                    }
                }
                Payload::MemorySection(memories) => {
                    for memory in memories {
                        ensure!(whole.memory.replace(memory?).is_none(), "there are two memories");
                    }
                }
                Payload::GlobalSection(globals) => {
                    for global in globals {
                        whole.globals.push(global?.ty);
                    }
                }
                Payload::ExportSection(exports) => {
                    whole.exports = exports.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::StartSection { func, .. } => whole.start = Some(func),
                Payload::ElementSection(elements) => {
                    for element in elements {
                        whole.element(element?)?;
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    let mut named = (BTreeSet::new(), BTreeSet::new());
                    for operator in body.get_operators_reader()? {
                        match operator? {
                            Operator::Call { function_index } | Operator::RefFunc { function_index } => {
                                named.0.insert(function_index);
                            }
                            Operator::GlobalGet { global_index } | Operator::GlobalSet { global_index } => {
                                named.1.insert(global_index);
                            }
                            Operator::ReturnCall { .. } => {
                                return Err(anyhow!("a call that is not known here"));
                            }
                            _ => {}
                        }
                    }
                    whole.names.push(named);
                    whole.bodies.push(body);
                }
                Payload::CustomSection(section) => {
                    let KnownCustom::Name(names) = section.as_known() else { continue };
                    for name in names {
                        let Name::Function(names) = name? else { continue };
                        for naming in names {
                            let naming = naming?;
                            whole.called.insert(naming.index, naming.name.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(whole)
    }

    /// Notes which functions a segment puts into which slots.
    pub(super) fn element(&mut self, element: wasmparser::Element<'m>) -> Result<()> {
        let (ElementKind::Active { table_index, offset_expr }, ElementItems::Functions(functions)) =
            (element.kind, element.items)
        else {
            return Err(anyhow!("a segment of a table in a form that is not known here"));
        };
        let mut offset = offset_expr.get_operators_reader();
        let Operator::I32Const { value } = offset.read()? else {
            return Err(anyhow!("a segment of a table at a place that is not known here"));
        };
        self.table = table_index.unwrap_or(0);
        for (slot, function) in (u32::try_from(value)?..).zip(functions) {
            self.slots.push((slot, function?));
        }
        Ok(())
    }

    /// How many functions are imported.
    pub(super) fn n_imported(&self) -> u32 {
        index(self.imports.len())
    }

    /// The module's own functions.
    pub(super) fn own(&self) -> std::ops::Range<u32> {
        self.n_imported()..index(self.of_type.len())
    }

    /// What a function of the module names.
    pub(super) fn named(&self, function: u32) -> &(BTreeSet<u32>, BTreeSet<u32>) {
        &self.names[(function - self.n_imported()) as usize]
    }

    /// What can be called from outside.
    pub(super) fn doors(&self) -> impl Iterator<Item = u32> {
        let exported = self.exports.iter().filter(|e| e.kind == ExternalKind::Func).map(|e| e.index);
        exported.chain(self.slots.iter().map(|&(_, function)| function)).chain(self.start)
    }

    /// The functions of the second part: those of its rooms, and all that cannot be reached without one of them.
    pub(super) fn second(&self, is_of_second: impl Fn(&str) -> bool) -> BTreeSet<u32> {
        let named = |function: u32| self.called.get(&function).is_some_and(|name| is_of_second(name));
        let mut second: BTreeSet<u32> = self.own().collect();
        let mut todo: Vec<u32> = self.doors().collect();
        while let Some(function) = todo.pop() {
            if second.contains(&function) && !named(function) {
                second.remove(&function);
                todo.extend(&self.named(function).0);
            }
        }
        second
    }
}
