//! What the colours and patterns of a picture mean, as swatches with words.

use spanlift::trace::{Kind, Slice, Trace};

use crate::color::Color;
use crate::rows::Rows;
use crate::scene::{Anchor, Rect, Scene, Text};
use crate::text;
use crate::theme::{Look, Theme, kind_letter, kind_name};

/// Every kind, in the order of legends.
pub const KINDS: [Kind; 17] = [
    Kind::ToDevice,
    Kind::ToHost,
    Kind::WithinDevice,
    Kind::Peer,
    Kind::OtherCopy,
    Kind::Memset,
    Kind::Kernel,
    Kind::Communication,
    Kind::HostFn,
    Kind::Record,
    Kind::Sync,
    Kind::Call,
    Kind::Wait,
    Kind::Work,
    Kind::HostCopy,
    Kind::Annotation,
    Kind::Other,
];

/// One swatch and its words.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// How the swatch looks.
    pub look: Look,
    /// What it means.
    pub name: &'static str,
    /// The letter that slices of it have.
    pub letter: Option<&'static str>,
}

/// Swatches for what occurs in the traces.
pub fn entries<'t>(traces: impl IntoIterator<Item = &'t Trace>, theme: &Theme) -> Vec<Entry> {
    let mut seen = [false; KINDS.len()];
    let mut pageable = false;
    for trace in traces {
        let mut before = None;
        for (kind, flags) in trace.slices.kind.iter().zip(&trace.slices.flags) {
            // Like stands beside like; of a million slices few are looked up.
            if before.replace((kind, flags)) == Some((kind, flags)) {
                continue;
            }
            if let Some(at) = KINDS.iter().position(|k| k == kind) {
                seen[at] = true;
            }
            pageable |= flags & Slice::PAGEABLE != 0;
        }
    }
    let kinds = KINDS.iter().zip(seen).filter(|(_, seen)| *seen);
    let entry =
        |&kind: &Kind| Entry { look: theme.look(kind, 0), name: kind_name(kind), letter: kind_letter(kind) };
    let mut list: Vec<Entry> = kinds.map(|(kind, _)| entry(kind)).collect();
    if pageable {
        let look = theme.look(Kind::OtherCopy, Slice::PAGEABLE);
        list.push(Entry { look, name: "pageable memory", letter: None });
    }
    list
}

/// Swatches for the memory of a program, where it is shown.
pub fn of_memory(rows: &Rows, theme: &Theme) -> Vec<Entry> {
    if rows.rows.iter().all(|row| row.memory.is_none()) {
        return Vec::new();
    }
    let around = theme.dim.toward(theme.lane, 35);
    let entry = |name, fill: Color, outline| Entry {
        look: Look { fill, pattern: None, outline },
        name,
        letter: None,
    };
    vec![
        entry("buffer", theme.panel, Some(around)),
        entry("bytes written", theme.dim, None),
        entry("bytes read", theme.dim.toward(theme.panel, 65), Some(theme.dim)),
    ]
}

const SIZE: f64 = 11.0;
const ROW: f64 = 20.0;

/// The swatches in lines of at most `width` pixels.
pub fn scene(entries: &[Entry], width: f64, theme: &Theme) -> Scene {
    let mut scene = Scene::new(width, 0.0, theme.ground);
    let (mut x, mut y) = (0.0, 0.0);
    for entry in entries {
        let w = 22.0 + text::width(entry.name, SIZE, false);
        if x > 0.0 && x + w > width {
            x = 0.0;
            y += ROW;
        }
        scene.add(Rect::with_look(x, y + 4.0, 14.0, 12.0, entry.look).rounded(2.0));
        if let Some(letter) = entry.letter {
            let ink = entry.look.fill.ink();
            scene.add(Text::new(x + 7.0, y + 10.0, SIZE - 2.0, ink, letter).anchored(Anchor::Middle).bold());
        }
        scene.add(Text::new(x + 20.0, y + 10.0, SIZE, theme.dim, entry.name));
        x += w + 14.0;
        scene.height = y + ROW;
    }
    scene
}
