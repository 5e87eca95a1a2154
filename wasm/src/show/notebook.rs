//! One viewer for all figures of a notebook.

use std::sync::atomic::{AtomicBool, Ordering};

use super::display::{blocks, write};
use super::{Figure, Show};
use crate::html::carrier_html;

/// What the cell shows.
const WORDS: &str = "The viewer that the figures of this notebook share.";

/// Whether this process showed a [`Notebook`]. Cells that share the library's statics, as through a dylib, need no more; any other cell
/// has a copy of its own, which says no, and its figures are whole.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// The viewer that a notebook's figures share: some 0.9 MB once, where each figure carries 0.6 MB of its own else.
///
/// As the last value of a cell it shows a line, behind which is the module. Figures made by [`Notebook::show`] ask for it, above and
/// below, in JupyterLab, in VS Code and in the page that nbconvert makes; without an answer they are pictures that say which cell to run.
/// Where all cells share one copy of this library (a dylib that re-exports it, as the course has), figures shown after it do so by
/// themselves.
///
/// ```
/// use spanlift::Program;
/// use spanlift_viewer::{Show, notebook};
/// // The last line of one cell is `viewer`.
/// let viewer = notebook();
/// // Any other:
/// let p = Program::from_text("stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n")?;
/// assert!(viewer.show(&p).html().len() * 10 < p.show().html().len());
/// # Ok::<(), spanlift::program::ReadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notebook {}

/// The viewer for all figures of a notebook.
pub fn notebook() -> Notebook {
    Notebook {}
}

impl Notebook {
    /// The figure of a value, without a module of its own.
    pub fn show(&self, value: &(impl Show + ?Sized)) -> Figure {
        Figure { shares: true, ..value.show() }
    }

    /// The line with the module behind it, for a page or a cell's output.
    pub fn html(&self) -> String {
        carrier_html(WORDS)
    }

    /// Shows it as the output of a notebook's cell.
    pub fn evcxr_display(&self) {
        SHOWN.store(true, Ordering::Relaxed);
        write(&blocks(&[("text/plain", WORDS.to_owned()), ("text/html", self.html())]));
    }
}

/// Whether a module was shown that figures of this process can ask for.
pub(super) fn is_shown() -> bool {
    SHOWN.load(Ordering::Relaxed)
}
