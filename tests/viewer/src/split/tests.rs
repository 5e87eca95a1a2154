//! The cut held against an interpreter: what a module does is what its parts do.

use super::*;
use std::cell::{Cell, RefCell};

use wasm_encoder::{MemorySection, MemoryType, NameMap, NameSection, RefType, TableType};
use wasmparser::{Imports, Operator, TypeRef, Validator};

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
    let (mut functions, mut code, mut names) = (FunctionSection::new(), CodeSection::new(), NameMap::new());
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
        let mut bodies = Parser::new(0).parse_all(&self.modules[k]).filter_map(|part| match part.unwrap() {
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

const DOORS: [Result<&str, u32>; 7] = [Ok("home"), Ok("shown"), Ok("far"), Err(1), Err(2), Err(3), Err(4)];

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
