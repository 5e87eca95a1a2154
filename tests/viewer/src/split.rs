//! Cuts a module in two: the first part opens traces, snapshots and layouts; the second does all else and comes when it is needed.
//!
//! The first part has memory, tables, globals and data. Of each function of the second that it names it has a stub of the same
//! type:
//!
//! | in the first part | what |
//! |---|---|
//! | import [`NEED`] | a call that instantiates the second part, or throws |
//! | a stub | `call $ensure`, its own arguments, `call_indirect` through the function's slot of the table |
//! | `$ensure` | calls [`NEED`] unless the global [`THERE`] is set |
//! | exports `0`, `1`, … | what the second part calls of the first |
//!
//! The second part puts its functions into their slots and then sets [`THERE`]. A call through the table meets the stub before that
//! and the function afterwards. So everything works wherever the cut lies; where it lies says what is loaded when.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow, ensure};
use wasm_encoder::reencode::{Error, Reencode, RoundtripReencoder, utils};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ElementSection, Elements, EntityType, ExportKind, ExportSection,
    Function, FunctionSection, GlobalSection, GlobalType, ImportSection, Module, StartSection, TableSection,
    TypeSection, ValType,
};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, ElementItems, ElementKind, ExportSectionReader, ExternalKind,
    FunctionBody, FunctionSectionReader, GlobalSectionReader, Import, ImportSectionReader, Imports,
    KnownCustom, Name, Operator, Parser, Payload, TableSectionReader, TypeRef, TypeSectionReader,
};

/// What the second part is of: the functions of these modules and of those below them, and what nothing else calls.
const ROOMS: &[&str] = &[
    "spanlift::advise",
    "spanlift::explore",
    "spanlift::hazard",
    "spanlift::machine",
    "spanlift::op",
    "spanlift::plan",
    "spanlift::program",
    "spanlift::sim",
    "spanlift_viewer::explained",
    "spanlift_viewer::memory::against::compare",
    "spanlift_viewer::orders",
    "spanlift_viewer::written",
];

/// Of those, what opening a trace calls all the same.
const STAY: &[&str] = &[
    "spanlift::machine::Machine::names",
    "spanlift::program::Program::commands",
    "spanlift::program::Program::len",
    "spanlift::program::command::Op::regions",
];

/// The call that brings the second part, imported from where all other imports are from.
pub(crate) const NEED: &str = "second";
/// The global that says that the second part is there.
const THERE: &str = "there";
/// What the second part calls the first.
const FIRST: &str = "first";

/// A module in two parts.
pub(crate) struct Parts {
    pub(crate) first: Vec<u8>,
    pub(crate) second: Vec<u8>,
}

/// Cuts a module that has its names.
pub(crate) fn split(module: &[u8]) -> Result<Parts> {
    cut(module, is_of_second)
}

/// Whether a function is of the rooms of the second part, by its name as Rust writes it: `<a::B as c::D>::e` is of `a`.
fn is_of_second(name: &str) -> bool {
    let path = path(name);
    let is_below =
        |room: &&str| path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    ROOMS.iter().any(is_below) && !STAY.iter().any(is_below)
}

/// The path that a name begins with, without marks around types and hashes of crates: of `<&mut a[0f]::B>::e` it is `a::B::e`.
fn path(name: &str) -> String {
    let (mut path, mut is_hash) = (String::new(), false);
    let mut rest = name;
    while let Some(shorter) =
        ["<", "&", "(", "[", "*", "mut ", "const ", "dyn "].iter().find_map(|mark| rest.strip_prefix(mark))
    {
        rest = shorter;
    }
    for c in rest.chars() {
        match c {
            '[' => is_hash = true,
            ']' => is_hash = false,
            _ if is_hash => {}
            '>' => {}
            c if c.is_alphanumeric() || c == '_' || c == ':' => path.push(c),
            _ => break,
        }
    }
    path
}

fn cut(module: &[u8], is_of_second: impl Fn(&str) -> bool) -> Result<Parts> {
    let whole = Whole::read(module)?;
    let is_second = whole.second(is_of_second);
    let plan = Plan::new(&whole, is_second)?;
    Ok(Parts { first: plan.first()?, second: plan.second()? })
}

/// What the cut asks of a module; functions by their index, imported ones first.
#[derive(Default)]
struct Whole<'m> {
    bytes: &'m [u8],
    /// The parameters of each type.
    types: Vec<Vec<ValType>>,
    /// The imported functions.
    imports: Vec<Import<'m>>,
    /// The type of each function.
    of_type: Vec<u32>,
    bodies: Vec<FunctionBody<'m>>,
    /// Which functions each of the module's own names, and which globals.
    names: Vec<(BTreeSet<u32>, BTreeSet<u32>)>,
    tables: Vec<wasmparser::TableType>,
    memory: Option<wasmparser::MemoryType>,
    globals: Vec<wasmparser::GlobalType>,
    exports: Vec<wasmparser::Export<'m>>,
    start: Option<u32>,
    /// The functions in the table of functions, with their slots, and which table that is.
    slots: Vec<(u32, u32)>,
    table: u32,
    /// What each function is called.
    called: BTreeMap<u32, String>,
}

impl<'m> Whole<'m> {
    fn read(bytes: &'m [u8]) -> Result<Whole<'m>> {
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
    fn element(&mut self, element: wasmparser::Element<'m>) -> Result<()> {
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
    fn n_imported(&self) -> u32 {
        index(self.imports.len())
    }

    /// The module's own functions.
    fn own(&self) -> std::ops::Range<u32> {
        self.n_imported()..index(self.of_type.len())
    }

    /// What a function of the module names.
    fn named(&self, function: u32) -> &(BTreeSet<u32>, BTreeSet<u32>) {
        &self.names[(function - self.n_imported()) as usize]
    }

    /// What can be called from outside.
    fn doors(&self) -> impl Iterator<Item = u32> {
        let exported = self.exports.iter().filter(|e| e.kind == ExternalKind::Func).map(|e| e.index);
        exported.chain(self.slots.iter().map(|&(_, function)| function)).chain(self.start)
    }

    /// The functions of the second part: those of its rooms, and all that cannot be reached without one of them.
    fn second(&self, is_of_second: impl Fn(&str) -> bool) -> BTreeSet<u32> {
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

/// What comes behind so many others has this index.
fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or_else(|_| unreachable!("bug: so many were read from 32 bits"))
}

/// Which function is where, by the index that it had.
struct Plan<'w> {
    whole: &'w Whole<'w>,
    /// The functions of the second part.
    is_second: BTreeSet<u32>,
    /// Those of them that the first names, with the slot through which it calls them.
    slots: BTreeMap<u32, u32>,
    /// How many slots the table has then.
    n_slots: u32,
    /// Indices in the first part, and in the second.
    first: BTreeMap<u32, u32>,
    second: BTreeMap<u32, u32>,
    /// What is imported from outside, by the first part and by the second.
    outside: [Vec<u32>; 2],
    /// What the second part imports from the first: functions and globals.
    shared: (Vec<u32>, Vec<u32>),
    /// What of the first part has a name for that.
    exported: BTreeMap<(u8, u32), String>,
}

const FUNCTION: u8 = 0;
const TABLE: u8 = 1;
const MEMORY: u8 = 2;
const GLOBAL: u8 = 3;

impl<'w> Plan<'w> {
    fn new(whole: &'w Whole<'w>, is_second: BTreeSet<u32>) -> Result<Plan<'w>> {
        ensure!(
            whole.start.is_none_or(|start| !is_second.contains(&start)),
            "the module starts in its second part"
        );
        let (mut by_first, mut by_second, mut globals) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        by_first.extend(whole.doors());
        for function in whole.own() {
            let (functions, of_globals) = whole.named(function);
            if is_second.contains(&function) {
                by_second.extend(functions);
                globals.extend(of_globals);
            } else {
                by_first.extend(functions);
            }
        }
        let old = &whole.tables.get(whole.table as usize).context("the module has no table of functions")?;
        let mut n_slots = u32::try_from(old.initial)?;
        let mut slots: BTreeMap<u32, u32> =
            whole.slots.iter().map(|&(slot, function)| (function, slot)).collect();
        slots.retain(|function, _| is_second.contains(function));
        for function in by_first.iter().filter(|function| is_second.contains(function)) {
            slots.entry(*function).or_insert_with(|| {
                n_slots += 1;
                n_slots - 1
            });
        }
        let is_outside = |function: &&u32| **function < whole.n_imported();
        let outside =
            [&by_first, &by_second].map(|named| named.iter().filter(is_outside).copied().collect::<Vec<_>>());
        let shared: Vec<u32> =
            by_second.iter().filter(|f| !is_second.contains(f) && !is_outside(f)).copied().collect();
        let kept = whole.own().filter(|f| !is_second.contains(f) || slots.contains_key(f));
        // The call for the second part comes behind the other imports.
        let own = index(outside[0].len()) + 1;
        let mut first: BTreeMap<u32, u32> = outside[0].iter().copied().zip(0..).collect();
        first.extend(kept.zip(own..));
        let second = outside[1].iter().chain(&shared).chain(&is_second).copied().zip(0..).collect();
        let globals: Vec<u32> = globals.into_iter().collect();
        let mut plan = Plan {
            whole,
            is_second,
            slots,
            n_slots,
            first,
            second,
            outside,
            shared: (shared, globals),
            exported: BTreeMap::new(),
        };
        plan.name();
        Ok(plan)
    }

    /// Gives names to what the second part imports from the first.
    fn name(&mut self) {
        let kinds = |kind| match kind {
            ExternalKind::Table => TABLE,
            ExternalKind::Memory => MEMORY,
            ExternalKind::Global => GLOBAL,
            _ => FUNCTION,
        };
        let known = self.whole.exports.iter().map(|e| ((kinds(e.kind), e.index), e.name.to_owned()));
        self.exported = known.collect();
        let mut wanted = vec![(MEMORY, 0)];
        wanted.extend((0..index(self.whole.tables.len())).map(|table| (TABLE, table)));
        wanted.extend(self.shared.1.iter().map(|&global| (GLOBAL, global)));
        wanted.extend(self.shared.0.iter().map(|&function| (FUNCTION, function)));
        for (k, what) in wanted.into_iter().enumerate() {
            self.exported.entry(what).or_insert_with(|| k.to_string());
        }
    }

    /// The index in the first part of the call that brings the second, behind all other imports.
    fn call(&self) -> u32 {
        index(self.outside[0].len())
    }

    /// That of the function which sees to it that the second part is there, behind all other functions.
    fn ensure(&self) -> u32 {
        self.call() + 1 + index(self.kept().count())
    }

    /// The index of the type of both, behind all other types.
    fn call_type(&self) -> u32 {
        index(self.whole.types.len())
    }

    /// The index of [`THERE`] in the first part.
    fn there(&self) -> u32 {
        index(self.whole.globals.len())
    }

    /// The module's own functions that the first part has, be it as stubs.
    fn kept(&self) -> impl Iterator<Item = u32> {
        self.first.keys().copied().filter(|&function| function >= self.whole.n_imported())
    }

    fn first(&self) -> Result<Vec<u8>> {
        let mut module = Module::new();
        First(self)
            .parse_core_module(&mut module, Parser::new(0), self.whole.bytes)
            .map_err(|e| anyhow!("the first part cannot be written: {e}"))?;
        Ok(module.finish())
    }

    /// What stands for a function of the second part in the first.
    fn stub(&self, function: u32, slot: u32) -> Function {
        let ty = self.whole.of_type[function as usize];
        let mut stub = Function::new([]);
        let mut code = stub.instructions();
        code.call(self.ensure());
        for k in 0..index(self.whole.types[ty as usize].len()) {
            code.local_get(k);
        }
        code.i32_const(slot.cast_signed()).call_indirect(self.whole.table, ty).end();
        stub
    }

    fn second(&self) -> Result<Vec<u8>> {
        let failed = |e: Error| anyhow!("the second part cannot be written: {e}");
        let whole = self.whole;
        let mut module = Module::new();
        let mut types = TypeSection::new();
        First(self).all_types(&mut types).map_err(failed)?;
        module.section(&types);

        let mut imports = ImportSection::new();
        for &function in &self.outside[1] {
            let import = &whole.imports[function as usize];
            imports.import(
                import.module,
                import.name,
                EntityType::Function(whole.of_type[function as usize]),
            );
        }
        let name = |kind, index| self.exported[&(kind, index)].as_str();
        for &function in &self.shared.0 {
            let ty = EntityType::Function(whole.of_type[function as usize]);
            imports.import(FIRST, name(FUNCTION, function), ty);
        }
        let memory = whole.memory.context("the module has no memory")?;
        imports.import(FIRST, name(MEMORY, 0), RoundtripReencoder.memory_type(memory).map_err(failed)?);
        for (k, &table) in (0..).zip(&whole.tables) {
            imports.import(FIRST, name(TABLE, k), First(self).table_of(k, table).map_err(failed)?);
        }
        let mut global_places = BTreeMap::new();
        for (place, &global) in (0..).zip(&self.shared.1) {
            global_places.insert(global, place);
            let ty = RoundtripReencoder.global_type(whole.globals[global as usize]).map_err(failed)?;
            imports.import(FIRST, name(GLOBAL, global), ty);
        }
        imports.import(FIRST, THERE, FLAG);
        module.section(&imports);

        let mut functions = FunctionSection::new();
        self.is_second.iter().for_each(|&function| {
            functions.function(whole.of_type[function as usize]);
        });
        functions.function(self.call_type());
        module.section(&functions);
        let start = index(self.second.len());
        module.section(&StartSection { function_index: start });

        let mut elements = ElementSection::new();
        let mut by_slot: Vec<(u32, u32)> =
            self.slots.iter().map(|(&function, &slot)| (slot, function)).collect();
        by_slot.sort_unstable();
        for run in by_slot.chunk_by(|a, b| a.0 + 1 == b.0) {
            let functions: Vec<u32> = run.iter().map(|(_, function)| self.second[function]).collect();
            let at = ConstExpr::i32_const(run[0].0.cast_signed());
            let table = (whole.table > 0).then_some(whole.table);
            elements.active(table, &at, Elements::Functions(functions.into()));
        }
        module.section(&elements);

        let mut code = CodeSection::new();
        let mut moves = Second { functions: &self.second, globals: &global_places };
        for &function in &self.is_second {
            let body = whole.bodies[(function - whole.n_imported()) as usize].clone();
            moves.parse_function_body(&mut code, body).map_err(failed)?;
        }
        let mut there = Function::new([]);
        there.instructions().i32_const(1).global_set(index(self.shared.1.len())).end();
        code.function(&there);
        module.section(&code);
        Ok(module.finish())
    }
}

/// The type of the global that says whether the second part is there.
const FLAG: GlobalType = GlobalType { val_type: ValType::I32, mutable: true, shared: false };

/// Writes the first part.
struct First<'p>(&'p Plan<'p>);

impl First<'_> {
    /// The types of the module, and that of a call without arguments.
    fn all_types(&mut self, types: &mut TypeSection) -> Result<(), Error> {
        for part in Parser::new(0).parse_all(self.0.whole.bytes) {
            if let Payload::TypeSection(section) = part? {
                self.parse_type_section(types, section)?;
            }
        }
        Ok(())
    }

    /// A table, which has room for the second part if it is that of functions.
    fn table_of(&mut self, k: u32, table: wasmparser::TableType) -> Result<wasm_encoder::TableType, Error> {
        let mut table = self.table_type(table)?;
        if k == self.0.whole.table {
            table.minimum = self.0.n_slots.into();
            table.maximum = table.maximum.map(|most| most.max(table.minimum));
        }
        Ok(table)
    }
}

impl Reencode for First<'_> {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error> {
        Ok(self.0.first[&function])
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_type_section(self, types, section)?;
        types.ty().function([], []);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        _: ImportSectionReader<'_>,
    ) -> Result<(), Error> {
        let Plan { whole, outside, .. } = self.0;
        for &function in &outside[0] {
            let import = &whole.imports[function as usize];
            imports.import(
                import.module,
                import.name,
                EntityType::Function(whole.of_type[function as usize]),
            );
        }
        let from = whole.imports.first().map_or(FIRST, |import| import.module);
        imports.import(from, NEED, EntityType::Function(self.0.call_type()));
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        _: FunctionSectionReader<'_>,
    ) -> Result<(), Error> {
        for function in self.0.kept() {
            functions.function(self.0.whole.of_type[function as usize]);
        }
        functions.function(self.0.call_type());
        Ok(())
    }

    fn parse_table_section(
        &mut self,
        tables: &mut TableSection,
        section: TableSectionReader<'_>,
    ) -> Result<(), Error> {
        for (k, table) in (0..).zip(section) {
            tables.table(self.table_of(k, table?.ty)?);
        }
        Ok(())
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_global_section(self, globals, section)?;
        globals.global(FLAG, &ConstExpr::i32_const(0));
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_export_section(self, exports, section)?;
        let is_new = |name: &String| !self.0.whole.exports.iter().any(|export| export.name == name);
        for (&(kind, index), name) in self.0.exported.iter().filter(|&(_, name)| is_new(name)) {
            match kind {
                FUNCTION => exports.export(name, ExportKind::Func, self.0.first[&index]),
                TABLE => exports.export(name, ExportKind::Table, index),
                MEMORY => exports.export(name, ExportKind::Memory, index),
                _ => exports.export(name, ExportKind::Global, index),
            };
        }
        exports.export(THERE, ExportKind::Global, self.0.there());
        Ok(())
    }

    fn parse_code_section(&mut self, code: &mut CodeSection, _: CodeSectionReader<'_>) -> Result<(), Error> {
        let plan = self.0;
        for function in plan.kept() {
            match plan.slots.get(&function) {
                Some(&slot) => {
                    code.function(&plan.stub(function, slot));
                }
                None => {
                    let own = (function - plan.whole.n_imported()) as usize;
                    self.parse_function_body(code, plan.whole.bodies[own].clone())?;
                }
            }
        }
        let mut sees = Function::new([]);
        sees.instructions()
            .global_get(plan.there())
            .i32_eqz()
            .if_(BlockType::Empty)
            .call(plan.call())
            .end()
            .end();
        code.function(&sees);
        Ok(())
    }

    fn parse_custom_section(
        &mut self,
        module: &mut Module,
        section: CustomSectionReader<'_>,
    ) -> Result<(), Error> {
        match section.as_known() {
            KnownCustom::Name(_) => Ok(()),
            _ => utils::parse_custom_section(self, module, section),
        }
    }
}

/// Writes functions of the second part.
struct Second<'p> {
    functions: &'p BTreeMap<u32, u32>,
    globals: &'p BTreeMap<u32, u32>,
}

impl Reencode for Second<'_> {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error> {
        Ok(self.functions[&function])
    }

    fn global_index(&mut self, global: u32) -> Result<u32, Error> {
        Ok(self.globals[&global])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    use wasm_encoder::{MemorySection, MemoryType, NameMap, NameSection, RefType, TableType};
    use wasmparser::Validator;

    /// Functions behind the two imported ones, `note` and `other`: what each calls, and its name.
    const FUNCTIONS: [(&[u32], &str); 11] = [
        (&[3, 4, 9], "shown"),          // 2, exported
        (&[1], "shared"),               // 3
        (&[3, 5, 6, 1], "<far::A>::b"), // 4, which the first part calls
        (&[6], "helps"),                // 5, which only the second part calls
        (&[3], "far::c"),               // 6
        (&[3, 12], "in the table"),     // 7
        (&[5], "far::in_the_table"),    // 8
        (&[], "far::Stays::at_home"),   // 9, which the first part calls
        (&[5, 9], "far[0f]::shown"),    // 10, exported
        (&[6], "near::far"),            // 11, in the table
        (&[], "near"),                  // 12, which only the first part calls
    ];

    fn is_far(name: &str) -> bool {
        path(name).starts_with("far") && !name.contains("Stays")
    }

    /// Each function takes two numbers, notes which it is and both of them, calls others, and gives a number of its own. The table of
    /// functions is the second one, and what is of the second part has a global that no other asks for.
    fn module() -> Vec<u8> {
        let (mut types, mut imports) = (TypeSection::new(), ImportSection::new());
        types.ty().function([ValType::I64], []);
        types.ty().function([ValType::I64; 2], [ValType::I64]);
        imports.import("m", "note", EntityType::Function(0)).import("m", "other", EntityType::Function(1));
        let (mut functions, mut code, mut names) =
            (FunctionSection::new(), CodeSection::new(), NameMap::new());
        for (k, (calls, name)) in (2_u32..).zip(FUNCTIONS) {
            functions.function(1);
            names.append(k, name);
            let mut body = Function::new([]);
            let mut code_of = body.instructions();
            code_of.i64_const(k.into()).call(0).local_get(0).call(0).local_get(1).call(0);
            for &called in calls {
                code_of.i64_const((100 * k).into()).i64_const((100 * called).into()).call(called).call(0);
            }
            code_of.global_get(u32::from(k == 6)).call(0).i64_const((7 * k).into()).end();
            code.function(&body);
        }
        let table = |element_type, minimum| TableType {
            element_type,
            table64: false,
            minimum,
            maximum: Some(minimum),
            shared: false,
        };
        let mut tables = TableSection::new();
        tables.table(table(RefType::EXTERNREF, 3)).table(table(RefType::FUNCREF, 5));
        let mut memories = MemorySection::new();
        let (maximum, page_size_log2) = (None, None);
        memories.memory(MemoryType { minimum: 1, maximum, memory64: false, shared: false, page_size_log2 });
        let mut globals = GlobalSection::new();
        for value in [40, 41] {
            let ty = GlobalType { val_type: ValType::I64, ..FLAG };
            globals.global(ty, &ConstExpr::i64_const(value));
        }
        let mut exports = ExportSection::new();
        exports.export("memory", ExportKind::Memory, 0).export("shown", ExportKind::Func, 2);
        exports.export("far", ExportKind::Func, 10).export("home", ExportKind::Func, 9);
        let mut elements = ElementSection::new();
        elements.active(Some(1), &ConstExpr::i32_const(1), Elements::Functions(vec![7, 8, 3, 11].into()));
        let mut named = NameSection::new();
        named.functions(&names);
        let mut module = Module::new();
        module.section(&types).section(&imports).section(&functions).section(&tables).section(&memories);
        module.section(&globals).section(&exports).section(&elements).section(&code).section(&named);
        module.finish()
    }

    /// What an import or a slot leads to: a function of an instance, or something outside.
    #[derive(Clone)]
    enum Target {
        Note,
        Other,
        Second,
        Of(usize, u32),
    }

    /// Carries modules out, as far as those here go: the first is linked to what stands outside, the second to the first.
    #[derive(Default)]
    struct Run {
        modules: Vec<Vec<u8>>,
        /// What the functions of each instance are, imported ones first.
        functions: RefCell<Vec<Vec<Target>>>,
        /// For each instance the place of each of its globals among those of the first.
        globals_of: RefCell<Vec<Vec<usize>>>,
        globals: RefCell<Vec<i64>>,
        table: RefCell<BTreeMap<u32, Target>>,
        noted: RefCell<Vec<i64>>,
        brought: Cell<usize>,
    }

    impl Run {
        fn of(modules: &[&[u8]]) -> Run {
            for module in modules {
                Validator::new().validate_all(module).unwrap();
            }
            let run = Run { modules: modules.iter().map(|m| m.to_vec()).collect(), ..Run::default() };
            run.link(0);
            run
        }

        fn link(&self, k: usize) {
            let mut functions = Vec::new();
            let mut globals = Vec::new();
            let first = |name: &str| exports(&self.modules[0])[name];
            for part in Parser::new(0).parse_all(&self.modules[k]) {
                match part.unwrap() {
                    Payload::ImportSection(imports) => {
                        for import in imports {
                            let Imports::Single(_, import) = import.unwrap() else { panic!() };
                            match (import.module, import.name, import.ty) {
                                ("m", "note", _) => functions.push(Target::Note),
                                ("m", "other", _) => functions.push(Target::Other),
                                ("m", "second", _) => functions.push(Target::Second),
                                ("first", name, TypeRef::Func(_)) => {
                                    functions.push(self.functions.borrow()[0][first(name) as usize].clone())
                                }
                                ("first", name, TypeRef::Global(_)) => globals.push(first(name) as usize),
                                ("first", name, _) => assert!(exports(&self.modules[0]).contains_key(name)),
                                _ => panic!("{import:?}"),
                            }
                        }
                    }
                    Payload::FunctionSection(own) => {
                        functions.extend((0..own.count()).map(|f| Target::Of(k, f)));
                        self.functions.borrow_mut().push(functions.clone());
                    }
                    Payload::GlobalSection(own) => {
                        globals.extend(0..own.count() as usize);
                        self.globals.borrow_mut().extend(own.into_iter().map(|global| {
                            match global.unwrap().init_expr.get_operators_reader().read().unwrap() {
                                Operator::I64Const { value } => value,
                                Operator::I32Const { value } => value.into(),
                                other => panic!("{other:?}"),
                            }
                        }));
                    }
                    Payload::ElementSection(elements) => {
                        for element in elements {
                            let mut whole = Whole::default();
                            whole.element(element.unwrap()).unwrap();
                            for (slot, function) in whole.slots {
                                self.table.borrow_mut().insert(slot, functions[function as usize].clone());
                            }
                        }
                    }
                    _ => {}
                }
            }
            self.globals_of.borrow_mut().push(globals);
            for part in Parser::new(0).parse_all(&self.modules[k]) {
                if let Payload::StartSection { func, .. } = part.unwrap() {
                    self.call(&functions[func as usize], &[]);
                }
            }
        }

        fn call(&self, target: &Target, arguments: &[i64]) -> Option<i64> {
            let (k, own) = match *target {
                Target::Note => {
                    self.noted.borrow_mut().push(arguments[0]);
                    return None;
                }
                Target::Other => return Some(arguments[0] - arguments[1]),
                Target::Second => {
                    self.brought.set(self.brought.get() + 1);
                    self.link(1);
                    return None;
                }
                Target::Of(k, own) => (k, own),
            };
            let mut bodies =
                Parser::new(0).parse_all(&self.modules[k]).filter_map(|part| match part.unwrap() {
                    Payload::CodeSectionEntry(body) => Some(body),
                    _ => None,
                });
            let body = bodies.nth(own as usize).unwrap();
            let global = |index: u32| self.globals_of.borrow()[k][index as usize];
            let (mut stack, mut skips) = (Vec::new(), false);
            for operator in body.get_operators_reader().unwrap() {
                let operator = operator.unwrap();
                if skips {
                    skips = !matches!(operator, Operator::End);
                    continue;
                }
                match operator {
                    Operator::I64Const { value } => stack.push(value),
                    Operator::I32Const { value } => stack.push(value.into()),
                    Operator::LocalGet { local_index } => stack.push(arguments[local_index as usize]),
                    Operator::Drop => drop(stack.pop().unwrap()),
                    Operator::GlobalGet { global_index } => {
                        stack.push(self.globals.borrow()[global(global_index)])
                    }
                    Operator::GlobalSet { global_index } => {
                        self.globals.borrow_mut()[global(global_index)] = stack.pop().unwrap()
                    }
                    Operator::I32Eqz => {
                        let is_zero = stack.pop().unwrap() == 0;
                        stack.push(is_zero.into());
                    }
                    Operator::If { .. } => skips = stack.pop().unwrap() == 0,
                    Operator::End => {}
                    Operator::Call { function_index } => {
                        let called = self.functions.borrow()[k][function_index as usize].clone();
                        let takes = match called {
                            Target::Note => 1,
                            Target::Of(k, own) => takes(&self.modules[k], own),
                            Target::Second => 0,
                            Target::Other => 2,
                        };
                        let given = stack.split_off(stack.len() - takes);
                        stack.extend(self.call(&called, &given));
                    }
                    Operator::CallIndirect { table_index, .. } => {
                        assert_eq!(table_index, 1);
                        let slot = u32::try_from(stack.pop().unwrap()).unwrap();
                        let called = self.table.borrow()[&slot].clone();
                        let given = stack.split_off(stack.len() - 2);
                        stack.extend(self.call(&called, &given));
                    }
                    other => panic!("{other:?}"),
                }
            }
            stack.pop()
        }

        /// Calls an export, or what a slot holds; gives what came of it and all that was noted.
        fn asked(&self, door: Result<&str, u32>) -> (Option<i64>, Vec<i64>) {
            let target = match door {
                Ok(name) => self.functions.borrow()[0][exports(&self.modules[0])[name] as usize].clone(),
                Err(slot) => self.table.borrow()[&slot].clone(),
            };
            let given = self.call(&target, &[1, 2]);
            (given, self.noted.take())
        }
    }

    fn exports(module: &[u8]) -> BTreeMap<String, u32> {
        let mut found = BTreeMap::new();
        for part in Parser::new(0).parse_all(module) {
            if let Payload::ExportSection(exports) = part.unwrap() {
                found.extend(exports.into_iter().map(|e| e.map(|e| (e.name.to_owned(), e.index)).unwrap()));
            }
        }
        found
    }

    /// How many numbers an own function of a module takes.
    fn takes(module: &[u8], own: u32) -> usize {
        let (mut params, mut of_type) = (Vec::new(), Vec::new());
        for part in Parser::new(0).parse_all(module) {
            match part.unwrap() {
                Payload::TypeSection(types) => {
                    params = types.into_iter_err_on_gc_types().map(|ty| ty.unwrap().params().len()).collect();
                }
                Payload::FunctionSection(types) => of_type = types.into_iter().map(Result::unwrap).collect(),
                _ => {}
            }
        }
        params[of_type[own as usize] as usize]
    }

    const DOORS: [Result<&str, u32>; 7] =
        [Ok("home"), Ok("shown"), Ok("far"), Err(1), Err(2), Err(3), Err(4)];

    #[test]
    fn a_function_is_of_the_module_that_it_is_written_in() {
        for name in [
            "spanlift[cb7382097b3e6bbd]::sim::run",
            "<spanlift[cb7382097b3e6bbd]::program::text::Statement>::each::<u32>",
            "<&mut <spanlift[cb7]::sim::Prepared>::knowing::{closure#0} as core[fa]::ops::FnOnce<(usize,)>>::call_once",
            "<&[spanlift[cb7]::program::Region] as core[fa]::iter::IntoIterator>::into_iter",
            "spanlift::hazard::check",
        ] {
            assert!(is_of_second(name), "{name}: {}", path(name));
        }
        for name in [
            "spanlift[cb7382097b3e6bbd]::trace::read::read",
            "spanlift[cb7]::simple::run",
            "spanlift_viewer[64]::programs",
            "<alloc[43]::vec::Vec<spanlift[cb7]::sim::Node>>::push",
            "core[fa]::ptr::drop_in_place::<spanlift[cb7]::program::Program>",
            "<spanlift[cb7]::program::Program>::commands",
            "view_what_if",
            "",
        ] {
            assert!(!is_of_second(name), "{name}: {}", path(name));
        }
    }

    #[test]
    fn a_module_that_cannot_be_cut_is_told() {
        assert!(split(b"no module").is_err());
        let mut short = module();
        short.truncate(short.len() / 2);
        assert!(split(&short).is_err());
        assert!(split(&Module::new().finish()).is_err());
        // Nothing of it is of the second part.
        let parts = split(&module()).unwrap();
        assert_eq!(
            Run::of(&[&parts.first, &parts.second]).asked(Ok("far")),
            Run::of(&[&module()]).asked(Ok("far"))
        );
    }

    #[test]
    fn whatever_is_called_first_does_what_it_did_and_brings_the_second_part_once() {
        let whole = module();
        let parts = cut(&whole, is_far).unwrap();
        for first in DOORS {
            let (before, after) = (Run::of(&[&whole]), Run::of(&[&parts.first, &parts.second]));
            assert_eq!(before.asked(first), after.asked(first), "{first:?}");
            let needs = ![Ok("home"), Err(1), Err(3)].contains(&first);
            assert_eq!(after.brought.get(), usize::from(needs), "{first:?}");
            for again in DOORS {
                assert_eq!(before.asked(again), after.asked(again), "{first:?}, then {again:?}");
            }
            assert_eq!(after.brought.get(), 1);
        }
    }
}
