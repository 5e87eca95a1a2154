//! From a host call to who made it: the operator, the part of the program that a person marked, and the line of Python.

use crate::ordered::{BTreeMap, CollectVec};
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

/// No slice.
const NONE: u32 = u32::MAX;

/// The makers of host calls: what lies around every slice, found in one walk, and what that says, found once.
///
/// A call belongs to the slices of its thread that lie around it. Where no operator does, it belongs to the one that has
/// its `External id`, which is on another thread then.
///
/// # Cost
/// One walk over the slices; for the calls that are asked for, once each slice around any of them.
pub(super) struct Makers<'a> {
    table: &'a Table,
    /// The innermost operator, mark or function of Python around each slice of such a kind and each call.
    around: Vec<u32>,
    /// What is known of slices with what is around them.
    told: BTreeMap<u32, Told>,
    /// Lines of Python, each once.
    lines: Vec<String>,
    line_of: BTreeMap<String, u32>,
    external: Option<External>,
}

/// The id of each call, in the order of calls, and the last operator of each id.
type External = (Vec<(u32, i64)>, BTreeMap<i64, u32>);

/// Who made a host call, as slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Told {
    /// The operator that a person called: the outermost of the innermost run of the framework's own.
    operator: u32,
    /// The operator around that run.
    within: u32,
    innermost: u32,
    note: u32,
    /// The innermost line of a function of Python, and that of an operator's own stack.
    line: u32,
    stack_line: u32,
}

impl Told {
    const NOTHING: Told =
        Told { operator: NONE, within: NONE, innermost: NONE, note: NONE, line: NONE, stack_line: NONE };
}

impl<'a> Makers<'a> {
    pub(super) fn of(table: &'a Table, order: &Order) -> Makers<'a> {
        let mut around = vec![NONE; table.spans.len()];
        let mut open: Vec<(i64, u32)> = Vec::new();
        for row in order.rows() {
            open.clear();
            for &span in row {
                let role = table.cat(span).role;
                if !matches!(role, CatRole::Call | CatRole::Operator | CatRole::Note | CatRole::Python) {
                    continue;
                }
                let (start, end) = table.spans.interval(span);
                while open.pop_if(|(last, _)| *last <= start && (*last, start) != (end, end)).is_some() {}
                around[span as usize] = open.last().map_or(NONE, |(_, span)| *span);
                if role != CatRole::Call {
                    open.push((end, span));
                }
            }
        }
        Makers {
            table,
            around,
            told: BTreeMap::new(),
            lines: Vec::new(),
            line_of: BTreeMap::new(),
            external: None,
        }
    }

    /// The innermost slice around a call that says who made it.
    pub(super) fn around(&self, call: u32) -> u32 {
        self.around[call as usize]
    }

    /// Whether some call has no operator around it.
    ///
    /// # Cost
    /// One walk over the slices, however deep they lie in each other.
    pub(super) fn any_alone(&self, order: &Order) -> bool {
        let mut has_operator = vec![false; self.around.len()];
        // What lies around a slice stands before it on its row.
        order.rows().flatten().any(|&span| {
            let (around, role) = (self.around(span), |span: u32| self.table.cat(span).role);
            let has = around != NONE && (has_operator[around as usize] || role(around) == CatRole::Operator);
            has_operator[span as usize] = has;
            !has && role(span) == CatRole::Call
        })
    }

    /// Who made the call that has this slice.
    pub(super) fn told(&mut self, call: u32) -> Told {
        // Up to what is known, and down again.
        let mut unknown = Vec::new();
        let mut at = self.around[call as usize];
        let mut told = loop {
            if at == NONE {
                break Told::NOTHING;
            }
            if let Some(told) = self.told.get(&at) {
                break *told;
            }
            unknown.push(at);
            at = self.around[at as usize];
        };
        for span in unknown.into_iter().rev() {
            told = self.within(told, span);
            self.told.insert(span, told);
        }
        if told.innermost == NONE
            && let Some(operator) = self.external(call)
        {
            told = self.within(told, operator);
        }
        told
    }

    /// What is known of a slice inside what something is known of.
    fn within(&mut self, mut told: Told, span: u32) -> Told {
        let name = self.table.name(span);
        let is_blank = name.trim().is_empty();
        match self.table.cat(span).role {
            CatRole::Operator => {
                // The framework calls its own operators: the outermost one of a run is what a person wrote.
                let is_own = |span: u32| self.table.name(span).starts_with("aten::");
                if !is_blank {
                    if told.innermost == NONE || !is_own(told.innermost) || !is_own(span) {
                        (told.operator, told.within) = (span, told.innermost);
                    }
                    told.innermost = span;
                }
                if let Some(line) =
                    stack(self.table, span).and_then(|stack| stack.split(';').find_map(own_line))
                {
                    told.stack_line = self.line(line);
                }
            }
            CatRole::Note if !is_blank => told.note = span,
            CatRole::Python => {
                if let Some(line) = own_line(name) {
                    told.line = self.line(line);
                }
            }
            _ => {}
        }
        told
    }

    fn line(&mut self, line: String) -> u32 {
        let lines = &mut self.lines;
        *self.line_of.entry(line).or_insert_with_key(|line| {
            lines.push(line.clone());
            u32::try_from(lines.len() - 1).unwrap_or(NONE)
        })
    }

    /// The operator that has the `External id` of a call.
    fn external(&mut self, call: u32) -> Option<u32> {
        let table = self.table;
        let (calls, operators) = self.external.get_or_insert_with(|| {
            let role = |span: u32| table.cat(span).role;
            let calls = table.external.iter().filter(|(span, _)| role(*span) == CatRole::Call);
            let operators =
                table.external.iter().filter(|(span, id)| role(*span) == CatRole::Operator && *id != 0);
            (calls.copied().collect(), operators.map(|(span, id)| (*id, *span)).collect())
        });
        let at = calls.binary_search_by_key(&call, |(span, _)| *span).ok()?;
        operators.get(&calls[at].1).copied()
    }

    /// The same in words.
    pub(super) fn maker(&self, told: Told) -> Maker {
        let name = |span: u32| (span != NONE).then(|| self.table.name(span));
        let line = [told.line, told.stack_line].into_iter().find_map(|line| self.lines.get(line as usize));
        Maker {
            line: line.cloned(),
            operator: name(told.operator).map(str::to_owned),
            within: name(told.within).or_else(|| name(told.note)).map(|name| name.trim().to_owned()),
        }
    }

    /// What calls of the same maker have in common, so that a maker's words are made once.
    pub(super) fn key(&self, told: Told) -> (StrId, StrId, u32) {
        let name = |span: u32| self.table.spans.name.get(span as usize).copied().unwrap_or(StrId::LAST);
        let within = if told.within == NONE { told.note } else { told.within };
        let line = if told.line == NONE { told.stack_line } else { told.line };
        (name(told.operator), name(within), line)
    }
}

fn stack(table: &Table, span: u32) -> Option<&str> {
    let at = table.stacks.binary_search_by_key(&span, |(span, _)| *span).ok()?;
    let id: StrId = table.stacks[at].1;
    Some(table.strings.get(id))
}

/// `train.py(212): step` as `train.py:212 step`, unless it is a library's.
fn own_line(frame: &str) -> Option<String> {
    let frame = frame.trim();
    // Older notebooks have no file for a cell.
    let end = if frame.starts_with("<ipython-input-") { ">(" } else { ".py(" };
    let (file, rest) = frame.split_at(frame.find(end)? + end.len() - 1);
    let (number, function) = rest.strip_prefix('(')?.split_once(')')?;
    let function = function.trim_start_matches(':').trim();
    (!is_library(file)).then(|| format!("{file}:{number} {function}").trim_end().to_owned())
}

/// Whether a file of Python is of a library rather than of the program: by the folders that it lies in, whole names of which are
/// compared, as a program may well lie in one called `pytorch`.
pub(super) fn is_library(file: &str) -> bool {
    if file.contains("<frozen") {
        return true;
    }
    let mut before = "";
    let mut folders = file.split(['/', '\\']).collect_vec();
    folders.pop();
    folders.into_iter().any(|folder| {
        let is_pythons = matches!(std::mem::replace(&mut before, folder), "lib" | "lib64");
        matches!(folder, "site-packages" | "dist-packages" | "torch")
            || is_pythons && folder.starts_with("python")
    })
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
            ("/opt/lib64/python3.9/runpy.py(3): run", None),
            ("/workspace/pytorch/torch/nn/modules/module.py(3): call", None),
            ("/workspace/pytorch/train.py(12): step", Some("/workspace/pytorch/train.py:12 step")),
            ("/x/my-site-packages/a.py(1): f", Some("/x/my-site-packages/a.py:1 f")),
            ("/x/mylib/python/a.py(1): f", Some("/x/mylib/python/a.py:1 f")),
            ("/x/torch.py(1): f", Some("/x/torch.py:1 f")),
            ("/tmp/ipykernel_7/12.py(3): <module>", Some("/tmp/ipykernel_7/12.py:3 <module>")),
            ("<ipython-input-7-0c9e5b>(12): train", Some("<ipython-input-7-0c9e5b>:12 train")),
            ("<ipython-input-7-0c9e5b>", None),
            ("<string>(2): __init__", None),
            ("<frozen importlib._bootstrap>(241): _call", None),
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
        let mut makers = Makers::of(&table, &Order::of(&table));
        let told = makers.told(call);
        assert_eq!(makers.maker(told).words("cudaMemcpyAsync"), expected);
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
