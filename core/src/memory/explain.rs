//! A layout module by module: every tensor with what it is, where it lies, with whom it shares bytes, and what a move
//! does with it. As data, as JSON and as text.

use std::fmt;

use super::budget::{Budget, Undecided};
use super::layout::Layout;
use super::plan::{MoveKind, MovePlan};
use super::report::{DeviceReport, count, size};
use super::table::escaped;
use crate::json::written;
use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::text::{columns, padded};

/// Others that are named in text; data and JSON have all of them.
const MOST_OTHERS: usize = 3;

/// A layout module by module; see [`Layout::explain`] and [`MovePlan::explain`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The modules in the order of the walk; tensors that are in none are in a first one without a type.
    pub modules: Vec<ExplainedModule>,
    /// By device name, what all tensors there touch.
    pub devices: BTreeMap<String, DeviceReport>,
    /// What the move does in all, where it is one.
    pub total: Option<ExplainedMove>,
}

written!(Explanation: modules, devices, total as "move"?);

/// One module and the tensors that are its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedModule {
    /// Its dotted path; empty for the root.
    pub path: String,
    /// Its type's name.
    pub module_type: String,
    /// Its own tensors, without those of its modules.
    pub tensors: Vec<ExplainedTensor>,
}

written!(ExplainedModule: path, module_type as "type", tensors);

/// One tensor of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedTensor {
    /// Its full name.
    pub name: String,
    /// `parameter` or `buffer`.
    pub kind: &'static str,
    /// Whether gradients are wanted.
    pub requires_grad: bool,
    /// The name of its dtype.
    pub dtype: &'static str,
    /// Elements along each dimension.
    pub shape: Vec<i64>,
    /// Elements from one index to the next along each dimension.
    pub strides: Vec<i64>,
    /// Where it lies.
    pub device: String,
    /// The block that it views.
    pub storage: String,
    /// Lowest byte of the block that it touches and one past the highest; `None` when empty.
    pub bytes: Option<(i64, i64)>,
    /// Number of elements times element size.
    pub listed_bytes: u64,
    /// Tensors that are the same view of the same block.
    pub tied_to: Vec<String>,
    /// Other tensors that share a byte with it.
    pub shares_with: Vec<String>,
    /// What the move does with it; `None` where it stays, or where there is no move.
    pub goes: Option<Goes>,
}

written!(ExplainedTensor:
    name, kind, requires_grad, dtype, shape, strides, device, storage, bytes, listed_bytes, tied_to,
    shares_with, goes as "move"?
);

/// Where a move puts a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goes {
    /// The block; `None` for an empty tensor, which needs none.
    pub block: Option<String>,
    /// Lowest byte of the block that it touches then and one past the highest.
    pub bytes: Option<(i64, i64)>,
    /// Whether the block is there already.
    pub is_there: bool,
}

written!(Goes: block, bytes, is_there);

/// What a move does in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedMove {
    /// The target; `None` for a deep copy.
    pub to: Option<String>,
    /// Blocks that are allocated.
    pub allocations: usize,
    /// Their bytes.
    pub bytes_allocated: u128,
    /// Copies.
    pub copies: usize,
    /// Their bytes.
    pub bytes_copied: u128,
    /// Pairs that share bytes before and not after.
    pub severed: Vec<(String, String)>,
}

written!(ExplainedMove: to, allocations, bytes_allocated, copies, bytes_copied, severed);

impl Layout {
    /// The layout module by module.
    ///
    /// # Errors
    /// [`Undecided`] for views that are interleaved beyond counting.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, Layout, TensorView, cpu};
    ///
    /// struct Linear { weight: TensorView, bias: Option<TensorView> }
    /// spanlift::module!(Linear: parameter weight, bias);
    ///
    /// let weight = TensorView::new(cpu(), Dtype::F32, &[8, 4])?;
    /// let explained = Layout::of(&Linear { weight, bias: None })?.explain()?;
    /// assert_eq!(explained.to_string().lines().nth(2), Some(": Linear"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self) -> Result<Explanation, Undecided> {
        let devices = self.report()?.devices;
        let mut others: Vec<Vec<usize>> = vec![Vec::new(); self.tensors().len()];
        for (a, b) in self.pairs(&mut Budget::of(self.tensors().len()))? {
            others[a].push(b);
            others[b].push(a);
        }
        let mut modules: Vec<ExplainedModule> = self
            .modules()
            .iter()
            .map(|m| ExplainedModule {
                path: m.path.clone(),
                module_type: m.module_type.clone(),
                tensors: Vec::new(),
            })
            .collect_vec();
        // The first module of a path has its tensors.
        let mut by_path: BTreeMap<&str, usize> = BTreeMap::new();
        for (k, m) in self.modules().iter().enumerate() {
            by_path.entry(&m.path).or_insert(k);
        }
        let mut loose = Vec::new();
        for (k, of) in others.iter_mut().enumerate() {
            sort(of);
            let tensor = self.explained(k, of);
            match module_of(&by_path, &tensor.name) {
                Some(m) => modules[m].tensors.push(tensor),
                None => loose.push(tensor),
            }
        }
        if !loose.is_empty() {
            let (path, module_type) = (String::new(), String::new());
            modules.insert(0, ExplainedModule { path, module_type, tensors: loose });
        }
        Ok(Explanation { modules, devices, total: None })
    }

    fn explained(&self, k: usize, others: &[usize]) -> ExplainedTensor {
        let t = &self.tensors()[k];
        let storage = self.storage_of(t.storage());
        let (tied, sharing): (Vec<usize>, Vec<usize>) =
            others.iter().partition(|&&o| self.tensors()[o].view() == t.view());
        let names =
            |list: Vec<usize>| list.iter().map(|&o| self.tensors()[o].name().to_owned()).collect_vec();
        ExplainedTensor {
            name: t.name().to_owned(),
            kind: t.marks().kind.name(),
            requires_grad: t.marks().requires_grad,
            dtype: t.view().dtype.name(),
            shape: t.view().shape.clone(),
            strides: t.view().strides.clone(),
            device: storage.device.to_string(),
            storage: storage.id.clone(),
            bytes: t.span().bounds(),
            listed_bytes: t.listed_bytes().0,
            tied_to: names(tied),
            shares_with: names(sharing),
            goes: None,
        }
    }
}

/// The innermost module that a tensor is in.
fn module_of(by_path: &BTreeMap<&str, usize>, name: &str) -> Option<usize> {
    let mut path = name;
    while let Some((outer, _)) = path.rsplit_once('.') {
        if let Some(&m) = by_path.get(outer) {
            return Some(m);
        }
        path = outer;
    }
    by_path.get("").copied()
}

impl MovePlan {
    /// The layout before the move, module by module, and what the move does with each tensor.
    ///
    /// # Errors
    /// [`Undecided`] for views that are interleaved beyond counting.
    pub fn explain(&self) -> Result<Explanation, Undecided> {
        let mut explained = self.before.explain()?;
        let mut goes: BTreeMap<&str, Goes> = BTreeMap::new();
        for p in &self.tensors {
            let Some(tensor) = self.before.tensors().get(p.tensor) else { continue };
            let allocation = p.allocation.and_then(|a| self.allocations.get(a));
            let placed = Goes {
                block: allocation.map(|a| a.name.clone()),
                bytes: p.view.span().ok().and_then(|span| span.bounds()),
                is_there: allocation.is_some_and(|a| a.is_there),
            };
            goes.insert(tensor.name(), placed);
        }
        for tensor in explained.modules.iter_mut().flat_map(|m| &mut m.tensors) {
            tensor.goes = goes.remove(tensor.name.as_str());
        }
        explained.total = Some(ExplainedMove {
            to: (self.kind != MoveKind::DeepCopy).then(|| self.to.to_string()),
            allocations: self.new_allocations().count(),
            bytes_allocated: self.bytes_allocated(),
            copies: self.copies.len(),
            bytes_copied: self.bytes_copied(),
            severed: self.severed.clone(),
        });
        Ok(explained)
    }
}

impl Explanation {
    /// The explanation as one JSON object; no line end.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self)
            .unwrap_or_else(|e| unreachable!("bug: an explanation that cannot be written: {e}"))
    }
}

impl ExplainedTensor {
    /// Name within its module, then the columns.
    fn cells(&self, module: &str) -> [String; 5] {
        let own = self.name.strip_prefix(module).map_or(&self.name[..], |n| n.trim_start_matches('.'));
        let frozen = match (self.kind, self.requires_grad) {
            ("parameter", false) => ", no gradient",
            ("buffer", true) => ", gradient",
            _ => "",
        };
        let shape: Vec<String> = self.shape.iter().map(ToString::to_string).collect_vec();
        [
            escaped(own),
            format!("{}{frozen}", self.kind),
            format!("{}[{}]", self.dtype, shape.join(", ")),
            size(self.listed_bytes.into()),
            format!("{} {}", self.device, place(Some(&self.storage), self.bytes)),
        ]
    }

    /// What is said behind the columns.
    fn remarks(&self, moves: bool) -> String {
        let mut remarks = Vec::new();
        if !self.tied_to.is_empty() {
            remarks.push(format!("is {}", some(&self.tied_to)));
        }
        if !self.shares_with.is_empty() {
            remarks.push(format!("shares bytes with {}", some(&self.shares_with)));
        }
        match &self.goes {
            Some(goes) if goes.is_there => {
                remarks.push(format!("-> {}, which is there", place(goes.block.as_deref(), goes.bytes)))
            }
            Some(goes) => remarks.push(format!("-> {}", place(goes.block.as_deref(), goes.bytes))),
            None if moves => remarks.push("stays".to_owned()),
            None => {}
        }
        remarks.join("; ")
    }
}

fn place(block: Option<&str>, bytes: Option<(i64, i64)>) -> String {
    match (block, bytes) {
        (Some(block), Some((lo, hi))) => format!("{}[{lo}..{hi}]", escaped(block)),
        (Some(block), None) => format!("{}, no bytes", escaped(block)),
        (None, _) => "needs no bytes".to_owned(),
    }
}

fn some(names: &[String]) -> String {
    let first = escaped(&names[..names.len().min(MOST_OTHERS)].join(", "));
    match names.len().saturating_sub(MOST_OTHERS) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The walk for people: totals, then each module with its tensors in columns.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_tensors = self.modules.iter().map(|m| m.tensors.len()).sum();
        let n_modules = self.modules.iter().filter(|m| !m.module_type.is_empty()).count();
        write!(f, "{} in {}", count(n_tensors, "tensor"), count(n_modules, "module"))?;
        for (name, device) in &self.devices {
            let (unique, listed) = (size(device.unique_bytes), size(device.listed_bytes));
            write!(f, "; {name}: {unique} unique, {listed} listed")?;
        }
        writeln!(f)?;
        if let Some(total) = &self.total {
            let to = total.to.as_deref().map_or("a copy beside it".to_owned(), |to| format!("to {to}"));
            let blocks = count(total.allocations, "block");
            let copies = count(total.copies, "copy");
            let (allocated, copied) = (size(total.bytes_allocated), size(total.bytes_copied));
            writeln!(f, "{to}: {allocated} allocated in {blocks}, {copied} copied in {copies}")?;
            for (moves, stays) in &total.severed {
                let [moves, stays] = [moves, stays].map(|name| escaped(name));
                writeln!(f, "{moves} no longer shares bytes with {stays}, which does not move")?;
            }
        }
        let rows = self.modules.iter().flat_map(|m| m.tensors.iter().map(|t| t.cells(&m.path)));
        let mut widths = [0; 5];
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(&row) {
                *width = (*width).max(columns(cell));
            }
        }
        for module in &self.modules {
            writeln!(f)?;
            if !module.module_type.is_empty() {
                writeln!(f, "{}: {}", escaped(&module.path), escaped(&module.module_type))?;
            }
            for tensor in &module.tensors {
                let [name, kind, form, bytes, at] = tensor.cells(&module.path);
                let [w0, w1, w2, w3, w4] = widths;
                let [name, kind, at] = [(name, w0), (kind, w1), (at, w4)].map(|(cell, w)| padded(&cell, w));
                let line = format!(
                    "  {name}  {kind}  {form:w2$}  {bytes:>w3$}  {at}  {}",
                    tensor.remarks(self.total.is_some())
                );
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}
