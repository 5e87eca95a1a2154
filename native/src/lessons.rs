//! Lessons of the course as a page has them: texts from the notebooks' own cells, and for each cell of code what the page does.
//!
//! A notebook's cells of code are Rust, which no page runs. `notebooks/page/NAME.txt` says for each one, behind a line
//! `%% CELL VERB`, what [`act`](spanlift_viewer::course::act) is to do and the text that the reader edits; without a text
//! that is the program in the notebook's cell. `%% CELL solved` holds an answer for the tests, `@NAME` in place of a text
//! stands for the one behind `%% @NAME`. The verbs `code` and `skip` show a cell as it is, or not at all.
//!
//! `native/data/lessons.json` holds what is made of the notebooks, so that an installed command has the course too.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What [`builtin`] gives; a test holds it to the notebooks.
const SHIPPED: &str = include_str!("../data/lessons.json");

/// The notebooks that become a page.
pub const NAMES: [&str; 5] =
    ["01_streams_and_events", "02_memory_maps", "03_races", "04_pageable_and_pinned", "05_strategies"];

/// One lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// Its file without the ending.
    pub name: String,
    /// What it consists of, in order.
    pub cells: Vec<Cell>,
}

/// A part of a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Words, in Markdown.
    Words(String),
    /// Code that is read and not run, and what the notebook's kernel said to it.
    Code {
        /// As it stands in the notebook.
        source: String,
    },
    /// Something that the page does.
    Act(Act),
}

/// What a cell does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The cell's name in its notebook: `c07`.
    pub id: String,
    /// What is done, for [`act`](spanlift_viewer::course::act).
    pub verb: String,
    /// The text that the reader edits.
    pub text: String,
    /// An answer that is right, where the cell is an exercise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solved: Option<String>,
    /// What the notebook's published copy says; nothing in the lessons that ship.
    #[serde(skip)]
    pub published: Vec<String>,
}

impl Act {
    /// Whether it is an exercise that says `right` or `not yet`.
    pub fn is_exercise(&self) -> bool {
        self.verb.split(' ').any(|word| word == "check") || self.verb == "break-even"
    }
}

/// The lessons that ship with the package: those of the notebooks, less what their published copies say.
///
/// ```
/// let lessons = spanlift_native::lessons::builtin();
/// assert_eq!(lessons[2].name, "03_races");
/// ```
pub fn builtin() -> Vec<Lesson> {
    serde_json::from_str(SHIPPED).expect("bug: the project's own lessons are read by a test")
}

/// Reads the lessons from the folder of the notebooks.
///
/// # Errors
/// The file, and what is wrong with it or missing.
pub fn read(folder: &Path) -> Result<Vec<Lesson>, String> {
    NAMES.iter().map(|name| lesson(folder, name)).collect()
}

fn lesson(folder: &Path, name: &str) -> Result<Lesson, String> {
    let file = |path: &Path| {
        std::fs::read_to_string(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => format!("{}: no such file", path.display()),
            ErrorKind::NotADirectory => format!("{}: part of the path is not a folder", path.display()),
            _ => format!("{}: {e}", path.display()),
        })
    };
    let path = folder.join(format!("{name}.ipynb"));
    let at = |why: String| format!("{}: {why}", path.display());
    let notebook: Value = serde_json::from_str(&file(&path)?).map_err(|e| at(e.to_string()))?;
    let page = Page::read(&file(&folder.join("page").join(format!("{name}.txt")))?);
    let solutions = file(&folder.join("solutions").join(format!("{name}.rs")))?;
    let listed = notebook["cells"].as_array().ok_or_else(|| at("no notebook: it has no cells".to_owned()))?;
    let mut cells = Vec::new();
    for cell in listed {
        let source = joined(&cell["source"]);
        let id = cell["id"].as_str().unwrap_or_default();
        if cell["cell_type"] == "markdown" {
            cells.push(Cell::Words(source));
            continue;
        }
        // What only a kernel needs.
        if source.trim_start().starts_with(":dep") {
            continue;
        }
        let Some((verb, text)) = page.cells.get(id) else {
            return Err(at(format!("page/{name}.txt says nothing of the cell {id}")));
        };
        match verb.as_str() {
            "skip" => {}
            "code" => cells.push(Cell::Code { source }),
            _ => {
                let text = match text.trim() {
                    "" => raw(&source)
                        .ok_or_else(|| at(format!("the cell {id} has no program in it")))?
                        .to_owned(),
                    word if word.starts_with('@') => {
                        let shared = page.cells.get(word).map(|(_, text)| text.clone());
                        shared.ok_or_else(|| at(format!("page/{name}.txt has no {word}")))?
                    }
                    _ => text.clone(),
                };
                let solved = page.solved.get(id).cloned().or_else(|| solution(&solutions, id));
                let published = cell["outputs"].as_array().into_iter().flatten().map(said).collect();
                cells.push(Cell::Act(Act { id: id.to_owned(), verb: verb.clone(), text, solved, published }));
            }
        }
    }
    Ok(Lesson { name: name.to_owned(), cells })
}

/// A page's file.
#[derive(Debug, Default)]
struct Page {
    /// Verb and text by the cell's name.
    cells: BTreeMap<String, (String, String)>,
    solved: BTreeMap<String, String>,
}

impl Page {
    fn read(file: &str) -> Page {
        let mut page = Page::default();
        for part in file.split("\n%% ").skip(1) {
            let (head, text) = part.split_once('\n').unwrap_or((part, ""));
            let (id, verb) = head.trim().split_once(' ').unwrap_or((head.trim(), ""));
            let text = format!("{}\n", text.trim_end());
            match verb {
                "solved" => drop(page.solved.insert(id.to_owned(), text)),
                _ => drop(page.cells.insert(id.to_owned(), (verb.to_owned(), text))),
            }
        }
        page
    }
}

/// A list of lines, or one text.
fn joined(source: &Value) -> String {
    match source {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

/// What an output says in words.
fn said(output: &Value) -> String {
    let text = if output["text"].is_null() { &output["data"]["text/plain"] } else { &output["text"] };
    joined(text).trim_end().to_owned()
}

/// The text between the last `r#"` and its end.
fn raw(source: &str) -> Option<&str> {
    let (_, behind) = source.rsplit_once("r#\"")?;
    behind.split_once("\"#").map(|(text, _)| text)
}

/// The program in the part of a file of solutions that stands for a cell.
fn solution(file: &str, id: &str) -> Option<String> {
    let (_, part) = file.split_once(&format!("// cell {id}: "))?;
    raw(part.split("\n// cell ").next()?).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lessons() -> Vec<Lesson> {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../notebooks")).unwrap()
    }

    fn acts(lessons: &[Lesson]) -> impl Iterator<Item = (&str, &Act)> {
        lessons.iter().flat_map(|lesson| {
            lesson.cells.iter().filter_map(|cell| match cell {
                Cell::Act(act) => Some((lesson.name.as_str(), act)),
                _ => None,
            })
        })
    }

    fn told(act: &Act, text: &str) -> spanlift_viewer::Figure {
        spanlift_viewer::course::act(&act.verb, text, crate::tutorial::TABLE)
    }

    #[test]
    fn every_exercise_is_judged_and_its_solution_is_right() {
        let mut n = 0;
        for (lesson, act) in acts(&lessons()).filter(|(_, act)| act.is_exercise()) {
            let at = format!("{lesson} {}", act.id);
            // The whole pipeline is one to look at: it is right as it stands.
            if act.text.contains("wait    stored{i%2} on load") {
                continue;
            }
            let untouched = told(act, &act.text);
            assert!(untouched.plain().starts_with("not yet: "), "{at}: {}", untouched.plain());
            let solved = act.solved.as_ref().unwrap_or_else(|| panic!("{at} has no solution"));
            let answer = told(act, solved);
            assert!(answer.plain().starts_with("right: "), "{at}: {}", answer.plain());
            n += 1;
        }
        assert_eq!(n, 16, "exercises of the first five lessons");
    }

    #[test]
    fn cells_say_in_the_page_what_they_say_in_the_notebook() {
        // Those whose text is another one in the page.
        let others = ["c05", "c09", "c23"];
        let (mut n, mut differ) = (0, Vec::new());
        for (lesson, act) in acts(&lessons()) {
            let figure = told(act, &act.text);
            assert!(!figure.is_error(), "{lesson} {}: {}", act.id, figure.plain());
            if lesson == "02_memory_maps" && others.contains(&act.id.as_str())
                || act.verb == "check result-back"
            {
                continue;
            }
            // Programs that Rust builds have no lines.
            let words = |text: &str| -> String {
                let parts = text.split(", line ");
                parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit())).collect()
            };
            let plain = words(figure.plain());
            let told: Vec<String> =
                act.published.iter().map(|said| words(said)).filter(|s| s != "()").collect();
            let last = told.last().cloned().unwrap_or_default();
            match plain.contains(last.trim()) {
                true => n += 1,
                false => differ.push(format!("{lesson} {}: {plain:?}, published {last:?}", act.id)),
            }
        }
        assert!(differ.is_empty(), "{n} agree\n{}", differ.join("\n"));
    }

    #[test]
    fn the_lessons_that_ship_are_those_of_the_notebooks() {
        let mut read = lessons();
        for cell in read.iter_mut().flat_map(|lesson| &mut lesson.cells) {
            if let Cell::Act(act) = cell {
                act.published.clear();
            }
        }
        let written = serde_json::to_string_pretty(&read).unwrap() + "\n";
        if std::env::var_os("SPANLIFT_BLESS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/lessons.json");
            return std::fs::write(path, written).unwrap();
        }
        assert!(
            written == SHIPPED,
            "native/data/lessons.json is older than the notebooks: \
             SPANLIFT_BLESS=1 cargo test -p spanlift-native --lib lessons"
        );
        assert_eq!(builtin(), read);
    }

    #[test]
    fn what_is_missing_is_told_with_its_file() {
        let why = read(Path::new("/nonexistent")).unwrap_err();
        assert!(why.starts_with("/nonexistent/01_streams_and_events.ipynb: "), "{why}");
    }
}
