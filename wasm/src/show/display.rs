//! Figures as a notebook's kernel reads them, and as pieces of pages.

use std::io::Write as _;

use spanlift::op::Operator;

use super::{Figure, notebook};
use crate::html::{figure_html, img, sharing_html};
use crate::svg::escaped;

/// Room for what is selected: a cell's output is too narrow for it to stand beside the picture, so it stands below.
const BELOW_PX: u32 = 260;

impl Figure {
    /// The picture for a page or a cell's output; needs no other file, and no other output unless a
    /// [`Notebook`](crate::Notebook) made it.
    pub fn html(&self) -> String {
        if self.error {
            return format!(
                "<pre role=\"alert\" style=\"border-left:4px solid #c8102e;padding:8px 12px;white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere\">{}</pre>",
                escaped_lines(&self.plain)
            );
        }
        if self.items.is_empty() {
            return match self.svg.is_empty() {
                true => format!(
                    "<pre style=\"white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere\">{}</pre>",
                    escaped_lines(&self.plain)
                ),
                false => img(&self.svg, &self.title, "style=\"display:block;max-width:100%;height:auto\""),
            };
        }
        let html = if self.shares { sharing_html } else { figure_html };
        html(&self.items, &self.svg, &self.title, self.height_px + BELOW_PX)
    }

    /// The blocks that a notebook's kernel reads.
    pub fn blocks(&self) -> String {
        blocks(&[("text/plain", self.plain.clone()), ("text/html", self.html())])
    }

    /// Shows it as the output of a notebook's cell.
    pub fn evcxr_display(&self) {
        let shares = self.shares || notebook::is_shown();
        write(&Figure { shares, ..self.clone() }.blocks());
    }
}

/// Shows a formula, set as mathematics where a page shows it.
pub(super) fn formula(operator: &Operator) {
    write(&formula_blocks(operator));
}

pub(super) fn blocks(bodies: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (mime, body) in bodies {
        // The kernel takes any line that begins so for one of its own.
        let body = body.replace("EVCXR_", "EVCXR ").replace('\r', "");
        out.push_str(&format!(
            "EVCXR_BEGIN_CONTENT {mime}\n{}\nEVCXR_END_CONTENT\n",
            body.trim_matches('\n')
        ));
    }
    out
}

/// Writes what a notebook's kernel reads, all at once.
pub(super) fn write(blocks: &str) {
    let mut out = std::io::stdout().lock();
    // A closed output has nobody to tell.
    let _ = out.write_all(blocks.as_bytes()).and_then(|()| out.flush());
}

fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

pub(super) fn formula_blocks(a: &Operator) -> String {
    blocks(&[
        ("text/plain", a.to_string()),
        ("text/html", a.to_mathml()),
        ("text/latex", format!("${}$", a.to_latex())),
    ])
}
