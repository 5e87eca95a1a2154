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

mod whole;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow, ensure};
use wasm_encoder::reencode::{Error, Reencode, RoundtripReencoder, utils};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ElementSection, Elements, EntityType, ExportKind, ExportSection,
    Function, FunctionSection, GlobalSection, GlobalType, ImportSection, Module, StartSection, TableSection,
    TypeSection, ValType,
};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, ExportSectionReader, ExternalKind, FunctionSectionReader,
    GlobalSectionReader, ImportSectionReader, KnownCustom, Parser, Payload, TableSectionReader,
    TypeSectionReader,
};

use whole::Whole;

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
    "spanlift_viewer::entry::asked",
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
mod tests;
