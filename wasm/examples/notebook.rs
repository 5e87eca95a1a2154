//! What a notebook's cells show, one below the other: `cargo run -p spanlift-viewer --example notebook -- notebook.html`.
//!
//! One output carries the viewer, those of [`Notebook::show`](spanlift_viewer::Notebook::show) ask for it, above and below; each is some
//! kilobytes. In a notebook the last value of each cell is enough: `evcxr_display` writes what is gathered here into a page.

use spanlift::Program;
use spanlift::memory::{Dtype, Layout, View, cpu};
use spanlift_viewer::{Show, notebook};

const PROGRAM: &str = "stream s\npageable x 64MiB\ndevice d 64MiB\ncopy d <- x on s\nkernel scale on s reads d writes d for 3ms\nsync s\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).unwrap_or_else(|| "notebook.html".to_owned());
    let program = Program::from_text(PROGRAM)?;
    let mut layout = Layout::new();
    let weights = layout.storage("weights", cpu(), spanlift::Bytes(4096))?;
    layout.tensor(
        "columns",
        weights,
        View { dtype: Dtype::F32, shape: vec![16, 8], strides: vec![8, 2], offset: 0 },
    )?;

    let viewer = notebook();
    let outputs = [
        ("a figure that asks", viewer.show(&program).html()),
        ("the cell that has the viewer", viewer.html()),
        ("another that asks", viewer.show(&layout).html()),
        ("one that carries its own", layout.show().html()),
    ];
    let cells: String = outputs
        .iter()
        .map(|(title, html)| format!("<h2>{title}</h2>\n<section>{html}</section>\n"))
        .collect();
    let head = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>A notebook's outputs</title>\n\
                <style>body { max-width: 1100px; margin: 2em auto; padding: 0 1em; font: 16px/1.5 Georgia, serif }</style>\n";
    std::fs::write(out, format!("{head}{cells}</html>\n"))?;
    Ok(())
}
