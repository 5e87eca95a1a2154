//! A view or a storage in words: for the panel of details, the tooltip, the announcement and the table.

use super::comb::Comb;
use super::map::{MemoryPicture, bytes, form, place};
use crate::details::Details;
use crate::text;
use spanlift::text::grouped;

/// Names that are listed of those that share bytes.
const NAMED: usize = 12;

impl MemoryPicture {
    /// Everything that is known of a tensor; `partners` share bytes with it, and others may unless `is_all`.
    pub(crate) fn tensor_details(&self, k: usize, partners: &[usize], is_all: bool) -> Details {
        let tensor = self.tensor(k);
        let (view, storage) = (tensor.view(), tensor.storage().index());
        let list = |v: &[i64]| v.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let home = self.storage(storage);
        let mut out = Details {
            title: text::clean(tensor.name()),
            place: format!("view of {} on {}", text::clean(&home.id), home.device),
            ..Details::default()
        };
        let mut row = |name: &str, value: String| out.rows.push((name.to_owned(), value));
        if let (true, Some((lo, hi))) = (self.is_snapshot, tensor.span().bounds()) {
            // A block of an allocator is bytes and nothing else.
            out.place = format!("block of {} on {}", text::clean(&home.id), home.device);
            row("size", text::bytes((hi - lo).unsigned_abs()));
            row("bytes", format!("[{}, {})", grouped(lo), grouped(hi)));
            return out;
        }
        let item = view.dtype.bytes();
        let marks = tensor.marks();
        let wants = if marks.requires_grad { "wants gradients" } else { "no gradients" };
        row("kind", format!("{}, {wants}", marks.kind.name()));
        row("type", format!("{}, {item} B an element", view.dtype));
        row(
            "shape",
            if view.shape.is_empty() { "scalar".to_owned() } else { format!("[{}]", list(&view.shape)) },
        );
        if !view.strides.is_empty() {
            row("strides", format!("[{}] elements", list(&view.strides)));
        }
        let at = view.offset.saturating_mul(item);
        row("offset", format!("{} elements, byte {}", grouped(view.offset), grouped(at)));
        match (tensor.elements(), tensor.span().bounds()) {
            (Some((first, last)), Some((lo, hi))) => {
                row("span", format!("elements {} to {}, both inclusive", grouped(first), grouped(last)));
                row("bytes", format!("[{}, {})", grouped(lo), grouped(hi)));
            }
            _ => row("bytes", "none: a size is 0".to_owned()),
        }
        if let Some(comb) = Comb::of(tensor.span()) {
            let touched = comb.bytes().map_or("not counted".to_owned(), |n| text::bytes(n.unsigned_abs()));
            row("touches", touched);
        }
        row("lists", text::bytes(tensor.listed_bytes().0));
        if !partners.is_empty() {
            let names = partners.iter().take(NAMED).map(|&p| text::short(&self.name(p)));
            let mut names = names.collect::<Vec<_>>().join(", ");
            match (partners.len().saturating_sub(NAMED), is_all) {
                (_, false) => names.push_str(" and others"),
                (0, true) => {}
                (n, true) => names.push_str(&format!(" and {} more", grouped(n))),
            }
            row("shares with", names);
        }
        if let (Some((name, (start, _))), Some(offset)) = (self.allocation_of(k), self.offset_after(k)) {
            row("after", format!("{}, offset {offset} elements", text::clean(name)));
            if let Some((lo, hi)) = tensor.span().bounds() {
                row("bytes there", format!("[{}, {})", grouped(lo - start), grouped(hi - start)));
            }
        }
        out.why = self.peculiar(k);
        out
    }

    /// What is special about a tensor, in sentences.
    fn peculiar(&self, k: usize) -> Vec<String> {
        let tensor = self.tensor(k);
        let view = tensor.view();
        if tensor.span().is_empty() {
            return vec![
                "An empty view has no bytes: nothing is allocated for it and nothing copied.".to_owned(),
            ];
        }
        let mut said = Vec::new();
        for (d, (&n, &stride)) in view.shape.iter().zip(&view.strides).enumerate() {
            match stride {
                0 if n > 1 => {
                    said.push(format!("Dimension {d} repeats the same bytes {n} times: they are there once."))
                }
                s if s < 0 && n > 1 => said.push(format!("Dimension {d} runs backwards.")),
                _ => {}
            }
        }
        match Comb::of(tensor.span()).and_then(|comb| comb.bytes().map(|n| (n, comb.bounds()))) {
            Some((n, (lo, hi))) if n < hi - lo => {
                said.push(format!(
                    "{} between its first and its last byte are not its own.",
                    text::bytes((hi - lo - n).unsigned_abs())
                ));
            }
            _ => {}
        }
        said
    }

    /// Everything that is known of a storage.
    pub(crate) fn storage_details(&self, k: usize) -> Details {
        let (storage, held) = (self.storage(k), &self.held[k]);
        let mut out = Details {
            title: text::clean(&storage.id),
            place: format!("{} on {}", self.called().0, storage.device),
            ..Details::default()
        };
        let mut row = |name: &str, value: String| out.rows.push((name.to_owned(), value));
        row("size", format!("{} ({} B)", text::bytes(storage.bytes.0), grouped(storage.bytes.0)));
        row(if self.is_snapshot { "blocks" } else { "views" }, grouped(held.tensors.len()));
        if let (true, Some((any, _))) = (self.is_snapshot, held.bytes) {
            row("in blocks", text::bytes(any.unsigned_abs()));
            row("free", text::bytes(storage.bytes.0.saturating_sub(any.unsigned_abs())));
            return out;
        }
        row("listed", bytes(held.listed));
        if let Some((any, twice)) = held.bytes {
            row("touched", text::bytes(any.unsigned_abs()));
            row("shared", text::bytes(twice.unsigned_abs()));
            let gap = if storage.bytes.0 == 0 { 0 } else { self.end(k) - any };
            row("of no view", text::bytes(gap.unsigned_abs()));
        }
        let after = self.told_after(k);
        if !after.is_empty() {
            row("after", after);
        }
        out
    }

    /// A tensor in one line, for those who hear it.
    pub(crate) fn sentence(&self, k: usize) -> String {
        let tensor = self.tensor(k);
        let touched = Comb::of(tensor.span()).map_or(Some(0), |comb| comb.bytes());
        let home = self.storage(tensor.storage().index());
        let name = text::clean(tensor.name());
        if let (true, Some((lo, hi))) = (self.is_snapshot, tensor.span().bounds()) {
            let size = text::bytes((hi - lo).unsigned_abs());
            return format!("{name}, {size}, in {} on {}", text::clean(&home.id), home.device);
        }
        format!(
            "{name}, {}, {}, in {} on {}",
            form(&tensor),
            place(&tensor, touched),
            text::clean(&home.id),
            home.device
        )
    }
}
