//! `spanlift memory`: what the tensors of a layout touch, and what moving them takes.

use spanlift::memory::{Layout, LayoutError};
use spanlift_viewer::kind::Kind;

use crate::End;
use crate::cli::{Format, MemoryArgs};
use crate::input;
use crate::say::{self, Fail, Out};

pub(crate) fn run(args: &MemoryArgs, out: &mut Out) -> Result<End, Fail> {
    let place = say::place(&args.layout);
    let layout = parse(&input::read(&args.layout)?, &place)?;
    let undecided = |e| Fail::at(&place, e);
    let report = layout.report().map_err(undecided)?;
    let plan = args.to.map(|to| layout.move_to(to)).transpose().map_err(undecided)?;
    match args.report.format {
        Format::Json => out.json_text(&report.to_json(plan.as_ref())),
        Format::Text => {
            let mut tell = |text: String| out.line(say::harmless(&text).trim_end_matches('\n'));
            tell(report.to_string());
            // The report is whole without it, and so is its JSON.
            match layout.inventory() {
                Ok(inventory) => tell(format!("\n{inventory}")),
                Err(why) => tell(format!("\nwhich tensor owns which bytes is left out: {why}")),
            }
            if let Some(plan) = plan {
                tell(format!("\n{plan}"));
                let moved = report.moved(&plan);
                out.line(&format!("bytes: {moved}"));
                if 0 < moved.to_device_bytes + moved.to_host_bytes {
                    out.line("a driver that stages pageable memory copies those of host memory once more, which a layout does not tell");
                }
            }
        }
    }
    Ok(End::Done)
}

/// The layout in the bytes of the file `place`.
///
/// # Errors
/// One line for each problem.
pub(crate) fn parse(bytes: &[u8], place: &str) -> Result<Layout, Fail> {
    Layout::from_json(bytes).map_err(|e| match e {
        LayoutError::Problems(problems) => {
            let messages: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            Fail::every(place, &messages)
        }
        e => match input::instead(bytes, Kind::Layout) {
            Some(what) => Fail::at(place, what),
            None => Fail::at(place, e),
        },
    })
}
