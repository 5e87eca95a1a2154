//! Layouts: blocks of memory, and the named views of them.

use std::fmt;

use serde_json::value::RawValue;

use super::grid::Grid;
use super::marks::{Marks, ModuleEntry, TensorKind};
use super::write::FileModule;
use super::{Device, Dtype, Span, SpanError, UnknownDevice, UnknownDtype, View, ViewError};
use crate::error::wraps;
use crate::id::Id;
use crate::json::{read, told};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec};
use crate::units::Bytes;

/// A storage by its position in its layout.
pub type StorageId = Id<Storage>;

/// One block of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Its unique name.
    pub id: String,
    /// Where it lies.
    pub device: Device,
    /// Its size.
    pub bytes: Bytes,
}

/// A named view of a storage, known to lie inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    name: String,
    storage: StorageId,
    view: View,
    span: Span,
    marks: Marks,
}

impl Tensor {
    /// A view of `bytes` plain bytes from `offset` on, outside of any layout: that the block holds them is the caller's
    /// to know.
    ///
    /// # Errors
    /// A negative number of bytes, or an end outside `i64`.
    ///
    /// # Examples
    /// ```
    /// use spanlift::memory::{StorageId, Tensor};
    /// let block = Tensor::of_bytes("block".to_owned(), StorageId::FIRST, 512, 64)?;
    /// assert_eq!(block.span().bounds(), Some((512, 576)));
    /// # Ok::<(), spanlift::memory::SpanError>(())
    /// ```
    pub fn of_bytes(name: String, storage: StorageId, offset: i64, bytes: i64) -> Result<Tensor, SpanError> {
        let span = Span::range(offset, bytes)?;
        let view = View { dtype: Dtype::U8, shape: vec![bytes], strides: vec![1], offset };
        Ok(Tensor { name, storage, view, span, marks: Marks::default() })
    }

    /// Its unique name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The block that it views.
    pub fn storage(&self) -> StorageId {
        self.storage
    }

    /// Type, shape, strides and offset.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Parameter or buffer, and whether gradients are wanted.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// The bytes of the storage that it touches.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Lowest and highest element position in the storage, both inclusive; `None` when empty.
    pub fn elements(&self) -> Option<(i64, i64)> {
        let item = self.view.dtype.bytes();
        // Both bounds lie a whole number of elements from the storage's start.
        self.span.bounds().map(|(lo, hi)| (lo / item, hi / item - 1))
    }

    /// Number of elements times element size, so that repeats count again.
    pub fn listed_bytes(&self) -> Bytes {
        if self.span.is_empty() {
            return Bytes(0);
        }
        let elements: i64 = self.view.shape.iter().product();
        Bytes((elements * self.view.dtype.bytes()).unsigned_abs())
    }

    pub(super) fn grid(&self) -> Option<Grid> {
        Grid::of(&self.span)
    }
}

/// Blocks of memory and the named views of them.
///
/// A [`Layout`] is valid from birth: every view lies inside its storage and every position fits `i64`. It is built
/// with methods or read from JSON:
///
/// ```json
/// {"storages": [{"id": "w", "device": "cpu", "bytes": 4000}],
///  "tensors":  [{"name": "a", "storage": "w", "dtype": "f32", "shape": [2, 3], "strides": [3, 1], "offset": 0}]}
/// ```
///
/// | field | meaning |
/// |---|---|
/// | `storages[].id` | unique name of one block of memory |
/// | `storages[].device` | `cpu`, `cuda:N` or `mock:N`; without an index it is index 0 |
/// | `storages[].bytes` | size of the block, may be 0 |
/// | `tensors[].name` | unique name |
/// | `tensors[].storage` | the block that it views |
/// | `tensors[].dtype` | a name of [`Dtype`] |
/// | `tensors[].shape`, `strides` | same length, in elements; none for a scalar; strides may be negative or 0 |
/// | `tensors[].offset` | where the element with index `(0, ..., 0)` lies, not negative; 0 when absent |
/// | `tensors[].kind` | `parameter`, else a buffer |
/// | `tensors[].requires_grad` | whether gradients are wanted; when absent, parameters want them |
/// | `modules[].path`, `type` | a module's dotted path, empty for the root, and its type's name |
///
/// Unknown fields are ignored. A tensor with a size of 0 is *empty*: it touches no byte.
///
/// # Examples
/// ```
/// use spanlift::memory::{Dtype, Layout, View, cpu, cuda};
/// use spanlift::Bytes;
///
/// let mut layout = Layout::new();
/// let w = layout.storage("w", cpu(), Bytes(400))?;
/// layout.tensor("a", w, View { dtype: Dtype::F32, shape: vec![4], strides: vec![1], offset: 10 })?;
/// layout.tensor("b", w, View { dtype: Dtype::F32, shape: vec![4], strides: vec![2], offset: 12 })?;
/// let plan = layout.move_to(cuda(0))?;
/// assert_eq!(plan.bytes_copied(), 28); // two of the 36 bytes listed twice are one element
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    storages: Vec<Storage>,
    tensors: Vec<Tensor>,
    storage_by_id: BTreeMap<String, StorageId>,
    tensor_by_name: BTreeMap<String, usize>,
    modules: Vec<ModuleEntry>,
}

/// What is wrong with a storage or tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutProblem {
    /// Whether a tensor has it, or a storage.
    pub of_tensor: bool,
    /// The tensor's name or the storage's id.
    pub name: String,
    /// What is wrong.
    pub reason: Reason,
}

/// What can be wrong with a storage or tensor.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Reason {
    /// A view that leaves its storage.
    OutsideStorage { lo: i64, hi: i64, storage: String, bytes: u64 },
    /// An offset before the storage.
    NegativeOffset(i64),
    /// A name that is no element type.
    UnknownDtype(UnknownDtype),
    /// A storage that the layout does not have.
    UnknownStorage(String),
    /// A name that is no device.
    UnknownDevice(UnknownDevice),
    /// A view that cannot be described.
    View(ViewError),
    /// A storage of a negative size.
    NegativeBytes(i64),
    /// Elements that do not begin at a multiple of their size.
    Unaligned { item: i64, shift: i64 },
    /// A copy in a block that is known to hold other bytes.
    OtherBytes(String),
    /// A copy that differs in dtype, shape or strides.
    NotACopy,
    /// More than an `i64` counts.
    Overflow,
    /// A name that stands for something else already.
    DuplicateName,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::OutsideStorage { lo, hi, storage, bytes } => write!(
                f,
                "outside storage: it needs bytes [{lo}, {hi}) of {storage:?}, which has {bytes} bytes"
            ),
            Reason::NegativeOffset(n) => write!(f, "outside storage: its offset is {n}"),
            Reason::UnknownDtype(error) => error.fmt(f),
            Reason::UnknownStorage(text) => write!(f, "unknown storage {text:?}"),
            Reason::UnknownDevice(error) => error.fmt(f),
            Reason::View(error) => error.fmt(f),
            Reason::NegativeBytes(n) => write!(f, "negative size: {n} bytes"),
            Reason::Unaligned { item, shift } => write!(
                f,
                "outside storage: its data begin {shift} bytes into it, no whole number of elements of {item} bytes"
            ),
            Reason::OtherBytes(text) => write!(f, "not a copy: block {text:?} is known to hold other bytes"),
            Reason::NotACopy => {
                f.write_str("not a copy: the existing tensor has another dtype, shape or strides")
            }
            Reason::Overflow => f.write_str("overflow: its bytes leave i64"),
            Reason::DuplicateName => f.write_str("duplicate name"),
        }
    }
}

wraps!(Reason { UnknownDtype(UnknownDtype), UnknownDevice(UnknownDevice), View(ViewError) });

impl fmt::Display for LayoutProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.of_tensor { "tensor" } else { "storage" };
        write!(f, "{what} {:?}: {}", self.name, self.reason)
    }
}

/// Everything that is wrong with a layout, storages first; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct LayoutProblems(pub Vec<LayoutProblem>);

impl fmt::Display for LayoutProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, problem) in self.0.iter().enumerate() {
            if k > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

crate::error::told!(LayoutProblems);

/// Why a file gave no layout.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// It is no JSON of the layout's form; the message names line and column.
    Syntax(String),
    /// It is one, but not a valid one.
    Problems(LayoutProblems),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Syntax(text) => write!(f, "not a layout: {text}"),
            LayoutError::Problems(problems) => problems.fmt(f),
        }
    }
}

wraps!(LayoutError { Problems(LayoutProblems) });

impl Layout {
    /// A layout without storages.
    pub fn new() -> Layout {
        Layout::default()
    }

    /// Reads the JSON form, with or without a byte order mark.
    ///
    /// # Errors
    /// [`LayoutError::Syntax`] for bytes that are no such JSON, integers outside `i64` included;
    /// [`LayoutError::Problems`] with every problem of the storages and tensors otherwise.
    pub fn from_json(bytes: &[u8]) -> Result<Layout, LayoutError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let no_text = |e: std::str::Utf8Error| format!("byte {}: no UTF-8 text", e.valid_up_to());
        let text = std::str::from_utf8(bytes).map_err(|e| LayoutError::Syntax(no_text(e)))?;
        let file: File = serde_json::from_str(text).map_err(|e| LayoutError::Syntax(told(&e)))?;
        file.read()
    }

    /// Adds a block of memory.
    ///
    /// # Errors
    /// `duplicate name`, or `overflow` for a size outside `i64`.
    pub fn storage(&mut self, id: &str, device: Device, bytes: Bytes) -> Result<StorageId, LayoutProblems> {
        let mut problems = Vec::new();
        if self.storage_by_id.contains_key(id) {
            problems.push(Reason::DuplicateName);
        }
        if i64::try_from(bytes.0).is_err() {
            problems.push(Reason::Overflow);
        }
        refuse(false, id, problems)?;
        Ok(self.add_storage(Storage { id: id.to_owned(), device, bytes }))
    }

    /// The block of this name, added when there is none.
    pub(super) fn storage_or_new(
        &mut self,
        id: &str,
        device: Device,
        bytes: Bytes,
    ) -> Result<StorageId, LayoutProblems> {
        match self.storage_by_id.get(id) {
            Some(&storage) => Ok(storage),
            None => self.storage(id, device, bytes),
        }
    }

    fn add_storage(&mut self, storage: Storage) -> StorageId {
        // Four billion storages would need hundreds of gigabytes first.
        let id = Id::try_from(self.storages.len()).unwrap_or_else(|e| panic!("{e}"));
        self.storage_by_id.insert(storage.id.clone(), id);
        self.storages.push(storage);
        id
    }

    /// Adds a named view of `storage`: a buffer without gradients.
    ///
    /// # Errors
    /// Every problem of the view at once.
    ///
    /// # Panics
    /// When `storage` comes from a larger layout.
    pub fn tensor(&mut self, name: &str, storage: StorageId, view: View) -> Result<(), LayoutProblems> {
        self.marked(name, storage, view, Marks::default())
    }

    /// Adds a named view of `storage` with its marks.
    ///
    /// # Errors
    /// Every problem of the view at once.
    ///
    /// # Panics
    /// When `storage` comes from a larger layout.
    pub fn marked(
        &mut self,
        name: &str,
        storage: StorageId,
        view: View,
        marks: Marks,
    ) -> Result<(), LayoutProblems> {
        let mut problems = Vec::new();
        if self.tensor_by_name.contains_key(name) {
            problems.push(Reason::DuplicateName);
        }
        let span = view_problems(&view, &self.storages[storage.index()], &mut problems);
        refuse(true, name, problems)?;
        let span = span.unwrap_or_else(|| unreachable!("bug: a view without problems has a span"));
        self.add_tensor(Tensor { name: name.to_owned(), storage, view, span, marks });
        Ok(())
    }

    fn add_tensor(&mut self, tensor: Tensor) {
        self.tensor_by_name.insert(tensor.name.clone(), self.tensors.len());
        self.tensors.push(tensor);
    }

    /// The blocks in the order in which they were added.
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// A block by its position.
    ///
    /// # Panics
    /// When the id comes from a larger layout.
    pub fn storage_of(&self, id: StorageId) -> &Storage {
        &self.storages[id.index()]
    }

    /// The tensors in the order in which they were added.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// A tensor by its name.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensor_by_name.get(name).map(|&k| &self.tensors[k])
    }

    /// The modules whose tensors these are, each before the modules in it; none unless the layout was made of modules.
    pub fn modules(&self) -> &[ModuleEntry] {
        &self.modules
    }

    /// Says which modules there are.
    pub fn set_modules(&mut self, modules: Vec<ModuleEntry>) {
        self.modules = modules;
    }

    pub(super) fn add_module(&mut self, module: ModuleEntry) {
        self.modules.push(module);
    }

    /// The positions of the tensor of this name and of those in the module of this path; the empty path is everything.
    pub(super) fn under(&self, path: &str) -> Vec<usize> {
        if path.is_empty() {
            return (0..self.tensors.len()).collect_vec();
        }
        // What begins with the path and a point comes before what begins with the path and the next character.
        let inside = self.tensor_by_name.range(format!("{path}.")..format!("{path}/")).map(|(_, &k)| k);
        self.position(path).into_iter().chain(inside).collect_vec()
    }

    /// A tensor's position by its name.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.tensor_by_name.get(name).copied()
    }

    /// For each storage, the positions of its tensors.
    pub(super) fn tensors_by_storage(&self) -> Vec<Vec<usize>> {
        let mut by_storage = vec![Vec::new(); self.storages.len()];
        for (k, tensor) in self.tensors.iter().enumerate() {
            by_storage[tensor.storage.index()].push(k);
        }
        by_storage
    }

    pub(super) fn has_storage(&self, id: &str) -> bool {
        self.storage_by_id.contains_key(id)
    }

    /// The storages in order of the bytes of their ids.
    pub(super) fn storages_by_id(&self) -> impl Iterator<Item = StorageId> + '_ {
        self.storage_by_id.values().copied()
    }
}

fn of(of_tensor: bool, name: &str, reasons: Vec<Reason>) -> impl Iterator<Item = LayoutProblem> {
    reasons.into_iter().map(move |reason| LayoutProblem { of_tensor, name: name.to_owned(), reason })
}

fn refuse(of_tensor: bool, name: &str, reasons: Vec<Reason>) -> Result<(), LayoutProblems> {
    if reasons.is_empty() { Ok(()) } else { Err(LayoutProblems(of(of_tensor, name, reasons).collect_vec())) }
}

/// The view's bytes, and what is wrong with it; without problems there is always a span.
pub(super) fn view_problems(view: &View, storage: &Storage, problems: &mut Vec<Reason>) -> Option<Span> {
    form_problems(&view.shape, &view.strides, view.offset, problems);
    if problems.iter().any(|p| matches!(p, Reason::View(_))) {
        return None;
    }
    let listed = || view.shape.iter().try_fold(view.dtype.bytes(), |n, &size| n.checked_mul(size));
    // An empty view is empty whatever its other sizes are.
    let span = match view.span() {
        Ok(span) if span.is_empty() || listed().is_some() => span,
        Ok(_) => {
            problems.push(ViewError::Overflow.into());
            return None;
        }
        Err(e) => {
            problems.push(e.into());
            return None;
        }
    };
    if let Some((lo, hi)) = span.bounds()
        && view.offset >= 0
        && (lo < 0 || storage.bytes.0 < hi.unsigned_abs())
    {
        let (storage, bytes) = (storage.id.clone(), storage.bytes.0);
        problems.push(Reason::OutsideStorage { lo, hi, storage, bytes });
    }
    Some(span)
}

/// What is wrong whatever the dtype and the storage are.
fn form_problems(shape: &[i64], strides: &[i64], offset: i64, problems: &mut Vec<Reason>) {
    if shape.len() != strides.len() {
        problems.push(ViewError::RankMismatch { shape: shape.len(), strides: strides.len() }.into());
    }
    if let Some(&n) = shape.iter().find(|&&n| n < 0) {
        problems.push(ViewError::NegativeSize(n).into());
    }
    if offset < 0 {
        problems.push(Reason::NegativeOffset(offset));
    }
}

struct File<'a> {
    storages: Vec<FileStorage>,
    tensors: Vec<FileTensor<'a>>,
    modules: Option<&'a RawValue>,
}

read!(File<'de>, "an object with the lists `storages` and `tensors`": storages, tensors, modules?);

struct FileStorage {
    id: String,
    device: String,
    bytes: i64,
}

read!(FileStorage, "an object that describes a storage": id, device, bytes);

struct FileTensor<'a> {
    name: String,
    storage: String,
    dtype: String,
    shape: Vec<i64>,
    strides: Vec<i64>,
    offset: i64,
    // Other writers may mean something else by these names: what is no mark is an unknown field.
    kind: Option<&'a RawValue>,
    requires_grad: Option<&'a RawValue>,
}

read!(FileTensor<'de>, "an object that describes a tensor":
    name, storage, dtype, shape, strides, offset?, kind?, requires_grad?
);

impl FileTensor<'_> {
    fn marks(&self) -> Marks {
        let kind = self.kind.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let usual = Marks::of(if kind.as_deref() == Some(TensorKind::Parameter.name()) {
            TensorKind::Parameter
        } else {
            TensorKind::Buffer
        });
        let requires_grad = self.requires_grad.and_then(|raw| serde_json::from_str(raw.get()).ok());
        Marks { requires_grad: requires_grad.unwrap_or(usual.requires_grad), ..usual }
    }
}

impl File<'_> {
    fn read(self) -> Result<Layout, LayoutError> {
        let mut layout = Layout::new();
        let mut problems = Vec::new();
        // Refused storages are remembered too: their tensors are looked at all the same.
        let mut known: BTreeMap<&str, Storage> = BTreeMap::new();
        for file in &self.storages {
            let mut reasons = Vec::new();
            if known.contains_key(&file.id[..]) {
                reasons.push(Reason::DuplicateName);
            }
            let device = file.device.parse().unwrap_or_else(|e: UnknownDevice| {
                reasons.push(e.into());
                Device::Cpu
            });
            let bytes = u64::try_from(file.bytes).unwrap_or_else(|_| {
                reasons.push(Reason::NegativeBytes(file.bytes));
                // Of what lies where no end is known, nothing lies beyond it.
                i64::MAX.unsigned_abs()
            });
            let storage = Storage { id: file.id.clone(), device, bytes: Bytes(bytes) };
            if reasons.is_empty() {
                layout.add_storage(storage.clone());
            }
            known.entry(&file.id[..]).or_insert(storage);
            problems.extend(of(false, &file.id, reasons));
        }
        let mut names = BTreeSet::new();
        for file in self.tensors {
            let mut reasons = Vec::new();
            if !names.insert(file.name.clone()) {
                reasons.push(Reason::DuplicateName);
            }
            let dtype = file.dtype.parse::<Dtype>().map_err(|e| reasons.push(e.into()));
            let storage = known.get(&file.storage[..]);
            if storage.is_none() {
                reasons.push(Reason::UnknownStorage(file.storage.clone()));
            }
            let (Ok(dtype), Some(storage)) = (dtype, storage) else {
                form_problems(&file.shape, &file.strides, file.offset, &mut reasons);
                problems.extend(of(true, &file.name, reasons));
                continue;
            };
            let marks = file.marks();
            let view = View { dtype, shape: file.shape, strides: file.strides, offset: file.offset };
            let span = view_problems(&view, storage, &mut reasons);
            problems.extend(of(true, &file.name, reasons));
            // Ids of storages mean something only while none was refused; after the first problem nothing is kept.
            if let Some(span) = span
                && problems.is_empty()
            {
                let storage = layout.storage_by_id[&file.storage];
                layout.add_tensor(Tensor { name: file.name, storage, view, span, marks });
            }
        }
        let modules = self.modules.and_then(|raw| serde_json::from_str::<Vec<FileModule>>(raw.get()).ok());
        layout.modules = modules.into_iter().flatten().map(FileModule::entry).collect_vec();
        if problems.is_empty() { Ok(layout) } else { Err(LayoutProblems(problems).into()) }
    }
}
