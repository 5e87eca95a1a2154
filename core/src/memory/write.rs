//! The JSON form of layouts, written; it reads back as an equal layout.

use super::layout::{Layout, Tensor};
use super::marks::{Marks, ModuleEntry, TensorKind};
use crate::json::{object, written};
use crate::ordered::CollectVec;

struct File<'a> {
    storages: Vec<FileStorage<'a>>,
    tensors: Vec<FileTensor<'a>>,
    modules: Vec<FileModule>,
}

written!(File<'a>: storages, tensors, modules?);

struct FileStorage<'a> {
    id: &'a str,
    device: String,
    bytes: u64,
}

written!(FileStorage<'a>: id, device, bytes);

struct FileTensor<'a> {
    name: &'a str,
    storage: &'a str,
    dtype: &'static str,
    shape: &'a [i64],
    strides: &'a [i64],
    offset: i64,
    kind: Option<&'static str>,
    requires_grad: Option<bool>,
}

written!(FileTensor<'a>: name, storage, dtype, shape, strides, offset, kind?, requires_grad?);

/// A module in the file.
pub(super) struct FileModule {
    path: String,
    module_type: String,
}

object!(FileModule: path, module_type as "type");

impl FileModule {
    pub(super) fn entry(self) -> ModuleEntry {
        ModuleEntry { path: self.path, module_type: self.module_type }
    }
}

impl Layout {
    /// The JSON form, which [`Layout::from_json`] reads back as an equal layout; marks only where they are not the usual
    /// ones, modules only where there are any.
    ///
    /// ```
    /// use spanlift::memory::Layout;
    ///
    /// let text = r#"{"storages":[{"id":"w","device":"cpu","bytes":16}],"tensors":[{"name":"a","storage":"w","dtype":"f32","shape":[4],"strides":[1],"offset":0,"kind":"parameter"}]}"#;
    /// assert_eq!(Layout::from_json(text.as_bytes())?.to_json(), text);
    /// # Ok::<(), spanlift::memory::LayoutError>(())
    /// ```
    pub fn to_json(&self) -> String {
        let storages = self.storages().iter();
        let storages =
            storages.map(|s| FileStorage { id: &s.id, device: s.device.to_string(), bytes: s.bytes.0 });
        let modules = self.modules().iter().cloned();
        let modules = modules.map(|ModuleEntry { path, module_type }| FileModule { path, module_type });
        let file = File {
            storages: storages.collect_vec(),
            tensors: self.tensors().iter().map(|t| self.file_tensor(t)).collect_vec(),
            modules: modules.collect_vec(),
        };
        serde_json::to_string(&file)
            .unwrap_or_else(|e| unreachable!("bug: a layout that cannot be written: {e}"))
    }

    fn file_tensor<'a>(&'a self, t: &'a Tensor) -> FileTensor<'a> {
        let (view, Marks { kind, requires_grad }) = (t.view(), t.marks());
        FileTensor {
            name: t.name(),
            storage: &self.storage_of(t.storage()).id,
            dtype: view.dtype.name(),
            shape: &view.shape,
            strides: &view.strides,
            offset: view.offset,
            kind: (kind != TensorKind::default()).then_some(kind.name()),
            requires_grad: (requires_grad != Marks::of(kind).requires_grad).then_some(requires_grad),
        }
    }
}
