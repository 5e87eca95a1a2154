//! Where each row of a memory map stands: headings, storages, their views, and what is left out.

use super::map::{MemoryPicture, form, place};
use crate::text;
use spanlift::text::grouped;

pub(crate) const NAME: f64 = 11.0;
pub(crate) const SMALL: f64 = 10.0;
/// Height of a storage's bar.
pub(crate) const BAR: f64 = 20.0;
/// Height of the ruler below it.
pub(crate) const RULER: f64 = 16.0;
/// Height of a view's bar.
pub(crate) const TEETH: f64 = 12.0;
const LINE: f64 = 14.0;
/// Between the panels before and after.
const BETWEEN: f64 = 34.0;
/// Narrower pictures have the panel after below the one before.
const SIDE_BY_SIDE: f64 = 720.0;

/// How much is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Storages of all devices together; each device has at least three.
    pub(crate) storages: usize,
    /// Views of all storages together; each storage has at least three, or of a snapshot those that are asked for.
    pub(crate) views: usize,
    /// Views with words below them; when there are more, none has.
    pub(crate) words: usize,
}

/// What decides the scale of a map: the room for its names before that is cut to a part of the width, and the bytes of its
/// largest storage.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Extent {
    pub(crate) names: f64,
    pub(crate) largest: i64,
}

/// Where the panels are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Panels {
    pub(crate) gutter: f64,
    pub(crate) width: f64,
    /// Left end of the panel after and how far below the one before it is.
    pub(crate) after: Option<(f64, bool)>,
}

/// What a row shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Title,
    Remark,
    Parts,
    Device,
    Storage(usize),
    View {
        storage: usize,
        nth: usize,
        tensor: usize,
    },
    /// The views of a storage from the `from`th on.
    MoreViews {
        storage: usize,
        from: usize,
    },
    MoreStorages,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) y: f64,
    pub(crate) h: f64,
    pub(crate) item: Item,
    /// What it says before, and after.
    pub(crate) before: Vec<String>,
    pub(crate) after: Vec<String>,
}

/// The rows of a map on a width.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) panels: Panels,
    pub(crate) rows: Vec<Row>,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Bytes that are as wide as the panel: those of the largest storage that is drawn, here or in what is compared.
    pub(crate) largest: i64,
    /// What this map itself takes.
    pub(crate) own: Extent,
    /// Whether views have words below them.
    pub(crate) has_words: bool,
}

impl Frame {
    /// `extra` says how many more views of a storage are wanted than `limits` give it, `least` to whose scale it is drawn where
    /// that is the larger one.
    pub(crate) fn new(
        map: &MemoryPicture,
        title: &str,
        width: f64,
        limits: Limits,
        extra: &dyn Fn(usize) -> usize,
        least: Extent,
    ) -> Frame {
        let per_device = (limits.storages / map.devices.len().max(1)).max(3);
        let chosen: Vec<Vec<usize>> =
            map.devices.iter().map(|(_, all)| largest(map, all, per_device)).collect();
        let n: usize = chosen.iter().map(Vec::len).sum();
        // Blocks of a snapshot lie beside each other: the bars of their segments show them all.
        let each = if map.is_snapshot { 0 } else { (limits.views / n.max(1)).max(3) };
        let shown = |storage: usize| {
            let all = map.held[storage].tensors.len();
            let wanted = each.saturating_add(extra(storage));
            // One that is left out would take the row that says so.
            if 0 < wanted && all <= wanted.saturating_add(1) { all } else { wanted }
        };
        let n_views: usize = chosen.iter().flatten().map(|&k| shown(k)).sum();
        let names = chosen.iter().flatten().filter(|_| map.name_width().is_none()).flat_map(|&k| {
            let tensors = map.tensors(k)[..shown(k)].iter().map(|&t| map.name(t));
            tensors.chain([map.label(k).0.into()])
        });
        // What tells segments apart is the end of an address.
        let most = (width * 0.25).max(if map.is_snapshot { 106.0 } else { 84.0 });
        let mut wanted = (map.name_width().unwrap_or(0.0) + 26.0).max(84.0);
        for name in names {
            // Names that are wider are cut, so the others need not be made.
            if most <= wanted {
                break;
            }
            wanted = wanted.max(text::width(&text::clean(&name), NAME, true) + 26.0);
        }
        let gutter = wanted.max(least.names).min(most);
        let room = width - gutter - 16.0;
        let has_after = map.plan.is_some();
        let stacked = width < SIDE_BY_SIDE;
        let panels = match has_after {
            true if stacked => Panels { gutter, width: room, after: Some((gutter, true)) },
            true => {
                let w = (room - BETWEEN) / 2.0;
                Panels { gutter, width: w, after: Some((gutter + w + BETWEEN, false)) }
            }
            false => Panels { gutter, width: room, after: None },
        };
        let own = Extent {
            names: wanted,
            largest: chosen.iter().flatten().map(|&k| map.end(k)).max().unwrap_or(1),
        };
        let largest = own.largest.max(least.largest);
        let has_words = 0 < each && n_views <= limits.words;
        let mut frame = Frame { panels, rows: Vec::new(), width, height: 10.0, largest, own, has_words };
        if !title.is_empty() {
            frame.push(Item::Title, 28.0, vec![title.to_owned()], Vec::new());
        }
        // The heading of a device says what a map without a move has to say.
        let told = if has_after { map.told() } else { Vec::new() };
        for line in told.iter().skip(1).flat_map(|line| text::wrap(line, 12.0, width - 24.0)) {
            frame.push(Item::Remark, 18.0, vec![line], Vec::new());
        }
        if has_after && !stacked {
            frame.push(Item::Parts, 22.0, Vec::new(), Vec::new());
        }
        for ((device, all), chosen) in map.devices.iter().zip(&chosen) {
            let told = format!("{device}: {}", map.told_of(all));
            // Drawn bold.
            let lines = text::wrap(&told, 1.13 * NAME, width - 24.0);
            frame.push(Item::Device, 6.0 + 16.0 * lines.len() as f64, lines, Vec::new());
            for &storage in chosen {
                frame.storage(map, storage, shown(storage), stacked);
            }
            if chosen.len() < all.len() {
                let mut rest = Vec::with_capacity(all.len() - chosen.len());
                let mut next = 0;
                // A plain loop, as all that a step of the time cursor waits for.
                for &k in all {
                    if chosen.get(next) == Some(&k) { next += 1 } else { rest.push(k) }
                }
                let told = format!("and {} more: {}", grouped(rest.len()), map.told_of(&rest));
                let lines = text::wrap(&told, NAME, panels.width);
                frame.push(Item::MoreStorages, 8.0 + 16.0 * lines.len() as f64, lines, Vec::new());
            }
        }
        frame
    }

    fn push(&mut self, item: Item, h: f64, before: Vec<String>, after: Vec<String>) {
        self.rows.push(Row { y: self.height, h, item, before, after });
        self.height += h;
    }

    fn storage(&mut self, map: &MemoryPicture, storage: usize, shown: usize, stacked: bool) {
        let room = self.panels.width;
        let after = text::wrap(&map.told_after(storage), SMALL, room);
        let n = after.len() as f64;
        let h = match (map.plan.is_some(), stacked) {
            (false, _) => BAR + RULER,
            (true, false) => BAR + RULER.max(2.0 + LINE * n),
            (true, true) if map.draws_blocks(storage) => BAR + RULER + BAR + 4.0 + LINE * n,
            (true, true) => BAR + RULER + 2.0 + LINE * n,
        };
        self.push(Item::Storage(storage), h + 6.0, Vec::new(), after);
        let whole = || map.field(storage, 0, (0, map.end(storage)));
        let field = self.has_words.then(whole);
        let tensors = map.tensors(storage);
        for (nth, &tensor) in tensors[..shown].iter().enumerate() {
            let item = Item::View { storage, nth, tensor };
            let stack = if stacked && map.moves(storage) { TEETH + 3.0 } else { 0.0 };
            let Some(field) = &field else {
                self.push(item, TEETH + 3.0 + stack, Vec::new(), Vec::new());
                continue;
            };
            let touched = field.comb(nth).map_or(Some(0), super::comb::Comb::bytes);
            let mut words =
                format!("{} · {}", form(&map.tensor(tensor)), place(&map.tensor(tensor), touched));
            words.push_str(&shares(map, field, storage, nth));
            let before = cut(text::wrap(&words, SMALL, room), 3);
            let mut after = Vec::new();
            if let (Some((name, _)), Some(offset)) = (map.allocation_of(tensor), map.offset_after(tensor)) {
                after = cut(text::wrap(&format!("{} offset {offset}", text::short(name)), SMALL, room), 2);
            }
            let n = if stacked { before.len() + after.len() } else { before.len().max(after.len()) };
            self.push(item, TEETH + 3.0 + stack + LINE * n as f64 + 3.0, before, after);
        }
        // Of a bar that shows its views itself nothing is left out.
        if 0 < shown && shown < tensors.len() {
            // Its words are found when it is drawn: of a thousand such rows a few are in sight.
            self.push(Item::MoreViews { storage, from: shown }, TEETH + 8.0 + LINE, Vec::new(), Vec::new());
        }
        self.height += 8.0;
    }
}

impl Frame {
    /// The views of a row: its own, or those of a storage below whose bar none are listed.
    pub(crate) fn views<'m>(&self, k: usize, map: &'m MemoryPicture) -> &'m [usize] {
        match self.rows[k].item {
            Item::View { storage, nth, .. } => &map.tensors(storage)[nth..=nth],
            Item::Storage(storage) if !self.is_listed(k) => map.tensors(storage),
            _ => &[],
        }
    }

    /// Whether the row below is one of a view.
    pub(crate) fn is_listed(&self, k: usize) -> bool {
        self.rows.get(k + 1).is_some_and(|next| matches!(next.item, Item::View { .. }))
    }

    /// The position of the row at a height.
    pub(crate) fn row_at(&self, y: f64) -> Option<usize> {
        let k = self.rows.partition_point(|r| r.y + r.h <= y);
        self.rows.get(k).is_some_and(|r| r.y <= y).then_some(k)
    }
}

/// With whom a view shares bytes, in words.
fn shares(map: &MemoryPicture, field: &super::field::Field, storage: usize, nth: usize) -> String {
    let (partners, is_all) = field.partners(nth);
    if partners.is_empty() {
        return String::new();
    }
    let name = |&k: &usize| text::short(&map.name(map.tensors(storage)[k]));
    let named: Vec<String> = partners.iter().take(3).map(name).collect();
    let rest = partners.len() - named.len();
    let more = match (rest, is_all) {
        (_, false) => " and others".to_owned(),
        (0, true) => String::new(),
        (n, true) => format!(" and {} more", grouped(n)),
    };
    format!(" · shares with {}{more}", named.join(", "))
}

/// The first lines, the last of them with an ellipsis when there are more.
fn cut(mut lines: Vec<String>, most: usize) -> Vec<String> {
    if most < lines.len() {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let kept = last.chars().count().saturating_sub(2);
            *last = last.chars().take(kept).chain(['…']).collect();
        }
    }
    lines
}

/// The `most` largest storages in the order of the layout.
fn largest(map: &MemoryPicture, all: &[usize], most: usize) -> Vec<usize> {
    // One that is left out would take the row that says so.
    if all.len() <= most.saturating_add(1) {
        return all.to_vec();
    }
    let mut sizes: Vec<i64> = Vec::with_capacity(all.len());
    for &k in all {
        sizes.push(-map.end(k));
    }
    let by_place = sizes.clone();
    // Not unstable: where the standard library is built small that is a heap's sort, several times slower.
    sizes.sort();
    let least = sizes[most - 1];
    // Of those that are as large as the smallest one that is drawn, the first.
    let mut room = sizes[..most].iter().filter(|&&size| size == least).count();
    let mut chosen = Vec::with_capacity(most);
    for (&k, size) in all.iter().zip(by_place) {
        if size == least && 0 < room {
            room -= 1;
            chosen.push(k);
        } else if size < least {
            chosen.push(k);
        }
    }
    chosen
}
