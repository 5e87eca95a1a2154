//! `spanlift course`: lessons 1 to 7 with their exercises as one page that works offline.

mod markdown;
mod page;
mod tex;

use std::fs;

use crate::End;
use crate::cli::CourseArgs;
use crate::output;
use crate::say::{self, Fail, Out};
use spanlift_native::lessons;

pub(crate) fn run(args: &CourseArgs, out: &mut Out) -> Result<End, Fail> {
    let lessons = match &args.notebooks {
        Some(folder) => {
            // No lesson is replaced by the page of them.
            for folder in [folder.clone(), folder.join("page"), folder.join("solutions")] {
                fs::read_dir(folder)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .for_each(|file| output::keep(&file.path()));
            }
            lessons::read(folder).map_err(Fail::new)?
        }
        None => lessons::builtin(),
    };
    output::is_free(&args.out)?;
    let html = page::html(&lessons);
    output::write(&args.out, html.as_bytes())?;
    let cells = lessons.iter().flat_map(|lesson| &lesson.cells);
    let exercises = cells.filter(|cell| matches!(cell, lessons::Cell::Act(act) if act.is_exercise())).count();
    out.line(&format!(
        "{}: {} lessons, {exercises} exercises; open it in a browser, no network is needed",
        say::written(&args.out),
        lessons.len()
    ));
    Ok(End::Done)
}
