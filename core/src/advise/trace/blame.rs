//! From a host call to who made it: the operator, the part of the program that a person marked, and the line of Python.

use std::collections::BTreeMap;

use crate::trace::StrId;
use crate::trace::analysis::Order;
use crate::trace::table::{CatRole, Table};

/// Who made a host call, as far as the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maker {
    /// The line of Python, the innermost one that is no library's: `train.py:212 step`.
    pub line: Option<String>,
    /// The operator that a person called: `aten::item` rather than the `aten::_local_scalar_dense` inside it.
    pub operator: Option<String>,
    /// What stands around the operator: another library's operator or a mark.
    pub within: Option<String>,
}

impl Maker {
    /// In words: `train.py:212 step: aten::item in ## forward ##`; `call` where nothing is known.
    pub fn words(&self, call: &str) -> String {
        let operator = self.operator.as_deref().unwrap_or(call);
        let line = self.line.as_ref().map(|line| format!("{line}: ")).unwrap_or_default();
        let within = self.within.as_ref().map(|within| format!(" in {within}")).unwrap_or_default();
        format!("{line}{operator}{within}")
    }
}

/// The makers of some host calls, by the index of their slices, found in one walk over the rows that they lie on.
///
/// A call belongs to the slices of its thread that lie around it. Where none does, it belongs to the operator that has
/// its `External id`, which is on another thread then.
///
/// # Cost
/// One walk over the slices of the rows concerned.
pub(super) fn makers(table: &Table, order: &Order, calls: &[u32]) -> BTreeMap<u32, Maker> {
    let mut wanted = calls.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    let mut rows: Vec<u32> = wanted.iter().map(|&call| table.spans.row[call as usize]).collect();
    rows.sort_unstable();
    rows.dedup();
    let external = External::of(table, &wanted);
    let mut found = BTreeMap::new();
    let mut open: Vec<(i64, u32)> = Vec::new();
    for row in rows {
        open.clear();
        for &span in order.row(row) {
            let (start, end) = table.spans.interval(span);
            let role = table.cat(span).role;
            let is_wanted = role == CatRole::Call && wanted.binary_search(&span).is_ok();
            if !is_wanted && !matches!(role, CatRole::Operator | CatRole::Note | CatRole::Python) {
                continue;
            }
            while open.pop_if(|(last, _)| *last <= start && (*last, start) != (end, end)).is_some() {}
            if is_wanted {
                let mut chain: Vec<u32> = open.iter().map(|(_, span)| *span).collect();
                if !chain.iter().any(|span| table.cat(*span).role == CatRole::Operator) {
                    chain.extend(external.operator(span));
                }
                found.insert(span, maker(table, &chain));
            } else {
                open.push((end, span));
            }
        }
    }
    found
}

/// Operators by `External id`, for the calls that may need it.
struct External {
    /// The id of each call that is asked for.
    ids: BTreeMap<u32, i64>,
    operators: BTreeMap<i64, u32>,
}

impl External {
    fn of(table: &Table, wanted: &[u32]) -> External {
        let ids: BTreeMap<u32, i64> =
            table.external.iter().filter(|(span, _)| wanted.binary_search(span).is_ok()).copied().collect();
        let asked: std::collections::BTreeSet<i64> = ids.values().copied().collect();
        let of_operators = table.external.iter().filter(|(span, id)| {
            table.cat(*span).role == CatRole::Operator && *id != 0 && asked.contains(id)
        });
        External { operators: of_operators.map(|(span, id)| (*id, *span)).collect(), ids }
    }

    fn operator(&self, call: u32) -> Option<u32> {
        self.operators.get(self.ids.get(&call)?).copied()
    }
}

/// The maker that a chain of slices tells, outermost first.
fn maker(table: &Table, chain: &[u32]) -> Maker {
    let named = |role: CatRole| {
        move |span: &&u32| table.cat(**span).role == role && !table.name(**span).trim().is_empty()
    };
    let operators: Vec<&str> =
        chain.iter().filter(named(CatRole::Operator)).map(|span| table.name(*span)).collect();
    // The framework calls its own operators: the outermost one of the innermost run is what a person wrote.
    let is_own = |name: &str| name.starts_with("aten::");
    let run = operators.iter().rev().take_while(|name| is_own(name)).count().max(1);
    let operator = operators.len().checked_sub(run).map(|at| operators[at].to_owned());
    let around = operators.len().checked_sub(run + 1).map(|at| operators[at]);
    let note = chain.iter().rev().find(named(CatRole::Note)).map(|span| table.name(*span));
    Maker { line: line(table, chain), operator, within: around.or(note).map(|name| name.trim().to_owned()) }
}

/// The innermost line of Python that is no library's, from the functions around a call or an operator's own stack.
fn line(table: &Table, chain: &[u32]) -> Option<String> {
    let functions = chain.iter().rev().filter(|span| table.cat(**span).role == CatRole::Python);
    let found = functions.map(|span| table.name(*span)).find_map(own_line);
    found.or_else(|| chain.iter().rev().find_map(|span| stack(table, *span)?.split(';').find_map(own_line)))
}

fn stack(table: &Table, span: u32) -> Option<&str> {
    let at = table.stacks.binary_search_by_key(&span, |(span, _)| *span).ok()?;
    let id: StrId = table.stacks[at].1;
    Some(table.strings.get(id))
}

/// `train.py(212): step` as `train.py:212 step`, unless it is a library's.
fn own_line(frame: &str) -> Option<String> {
    let (file, rest) = frame.trim().split_once(".py(")?;
    let (number, function) = rest.split_once(')')?;
    let libraries = ["site-packages/", "dist-packages/", "<frozen", "/lib/python", "lib64/python", "torch/"];
    if libraries.iter().any(|library| file.contains(library)) {
        return None;
    }
    Some(format!("{file}.py:{number} {}", function.trim_start_matches(':').trim()).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::table::Scan;

    #[test]
    fn lines_of_libraries_are_passed_over() {
        for (frame, expected) in [
            ("train.py(212): step", Some("train.py:212 step")),
            ("/data/run/train.py(7): <module>", Some("/data/run/train.py:7 <module>")),
            ("torch/nn/modules/module.py(1501): _call_impl", None),
            ("/usr/lib/python3.12/threading.py(3): run", None),
            ("/x/site-packages/torch/optim/adam.py(3): step", None),
            ("<built-in method item of Tensor object at 0x7f>", None),
            ("nn.Module: Linear_0", None),
        ] {
            assert_eq!(own_line(frame).as_deref(), expected, "{frame}");
        }
    }

    #[track_caller]
    fn check(around: &[(&str, &str, i64, i64)], args: &str, expected: &str) {
        let mut text = String::from("[");
        for (cat, name, ts, dur) in around {
            text += &format!(
                r#"{{"ph":"X","pid":1,"tid":1,"cat":"{cat}","name":"{name}","ts":{ts},"dur":{dur},"args":{{{args}}}}},"#
            );
        }
        text += r#"{"ph":"X","pid":1,"tid":1,"cat":"cuda_runtime","name":"cudaMemcpyAsync","ts":50,"dur":10,"args":{"External id":4}},"#;
        text += r#"{"ph":"X","pid":1,"tid":2,"cat":"cpu_op","name":"aten::elsewhere","ts":50,"dur":10,"args":{"External id":4}}]"#;
        let mut scan = Scan::new();
        scan.feed(text.as_bytes()).unwrap();
        let table = scan.finish().unwrap();
        let call = table.calls[0].span;
        let found = makers(&table, &Order::of(&table), &[call]);
        assert_eq!(found[&call].words("cudaMemcpyAsync"), expected);
    }

    #[test]
    fn a_call_belongs_to_what_lies_around_it() {
        check(
            &[
                ("python_function", "train.py(9): main", 0, 100),
                ("python_function", "train.py(12): log", 10, 80),
                ("python_function", "<built-in method item>", 20, 60),
                ("user_annotation", "ProfilerStep#4", 5, 90),
                ("cpu_op", "aten::item", 30, 40),
                ("cpu_op", "aten::_local_scalar_dense", 35, 30),
                ("cpu_op", "aten::ended", 36, 4),
            ],
            "",
            "train.py:12 log: aten::item in ProfilerStep#4",
        );
        check(&[], "", "aten::elsewhere");
        let stack = r#""Call stack": "torch/x.py(1): f;lib/model.py(33): forward;train.py(2): main""#;
        check(&[("cpu_op", "aten::to", 0, 100)], stack, "lib/model.py:33 forward: aten::to");
        check(
            &[("cpu_op", "fbgemm::permute", 0, 100), ("cpu_op", "aten::item", 40, 30)],
            "",
            "aten::item in fbgemm::permute",
        );
    }
}
