//! Lessons of the course as a page has them: texts from the notebooks' own cells, and for each cell of code what the page does.
//!
//! A notebook's cells of code are Rust, which no page runs. `notebooks/page/NAME.txt` says for each one, behind a line
//! `%% CELL VERB`, what [`act`](spanlift_viewer::course::act) is to do and the text that the reader edits; without a text
//! that is the program in the notebook's cell. `%% CELL solved` holds an answer for the tests, `@NAME` in place of a text
//! stands for the one behind `%% @NAME`. The verbs `code` and `skip` show a cell as it is, or not at all.
//!
//! Words are the notebook's. Where those speak of Rust that is not in the page, `%% CELL words` says what stands there instead:
//! lines `- ` are found in the cell as they are, the lines `+ ` behind them are what the page has in their place.
//!
//! `native/data/lessons.json` holds what is made of the notebooks, so that an installed command has the course too.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What [`builtin`] gives; a test holds it to the notebooks.
const SHIPPED: &str = include_str!("../data/lessons.json");

/// The notebooks that become a page.
pub const NAMES: [&str; 7] = [
    "01_streams_and_events",
    "02_memory_maps",
    "03_races",
    "04_pageable_and_pinned",
    "05_strategies",
    "06_operators",
    "07_to_device",
];

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
    let known: BTreeSet<&str> = listed.iter().filter_map(|cell| cell["id"].as_str()).collect();
    let strange = page
        .cells
        .keys()
        .chain(page.solved.keys())
        .find(|id| !id.starts_with('@') && !known.contains(id.as_str()));
    if let Some(id) = strange {
        return Err(at(format!("page/{name}.txt speaks of a cell {id}, which is not there")));
    }
    let mut cells = Vec::new();
    for cell in listed {
        let source = joined(&cell["source"]);
        let id = cell["id"].as_str().unwrap_or_default();
        if cell["cell_type"] == "markdown" {
            let words = match page.cells.get(id) {
                Some((verb, changes)) if verb == "words" => reworded(&source, changes)
                    .map_err(|why| at(format!("page/{name}.txt, cell {id}: {why}")))?,
                _ => source,
            };
            cells.push(Cell::Words(words));
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

/// Words with changes: lines that begin with `- `, and those behind them that begin with `+ `, which stand in their place.
fn reworded(words: &str, changes: &str) -> Result<String, String> {
    let mut words = words.to_owned();
    let mut lines = changes.lines().peekable();
    while lines.peek().is_some() {
        let mut taken = |sign: char| {
            let mut found = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with(sign)) {
                let line = &line[1..];
                found.push(line.strip_prefix(' ').unwrap_or(line));
            }
            found.join("\n")
        };
        let (old, new) = (taken('-'), taken('+'));
        if old.is_empty() {
            let line = lines.next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            return Err(format!("{line:?} begins with neither - nor +"));
        }
        if words.matches(&old).count() != 1 {
            return Err(format!("{old:?} stands there {} times, not once", words.matches(&old).count()));
        }
        words = words.replacen(&old, &new, 1);
    }
    Ok(words)
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
        assert_eq!(n, 23, "exercises of the lessons");
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
            // What Rust builds has no lines, and its own way to write a device.
            let words = |text: &str| -> String {
                let text = text.replace("cuda(0)", "cuda:0").replace("cuda(1)", "cuda:1");
                let text = match text.split_once("not yet: line ") {
                    Some(("", placed)) => placed.split_once(": ").map(|(_, why)| format!("not yet: {why}")),
                    _ => None,
                }
                .unwrap_or(text);
                let parts = text.split(", line ");
                parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit())).collect()
            };
            let plain = words(figure.plain());
            let told: Vec<String> =
                act.published.iter().map(|said| words(said)).filter(|s| s != "()").collect();
            let last = told.last().cloned().unwrap_or_default();
            let agrees = match act.verb.as_str() {
                // With what devices hold behind each line.
                "operator times" => {
                    let flat = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
                    let lines: Vec<String> = plain.lines().map(flat).collect();
                    last.lines().zip(&lines).all(|(line, told)| told.starts_with(&flat(line)))
                        && last.lines().count() == lines.len()
                }
                _ => plain.contains(last.trim()),
            };
            match agrees {
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

    /// What the page has in place of words is in the page file alone where the notebook has those words, once.
    #[test]
    fn words_are_changed_where_they_stand_once() {
        let words = "`chain!` lists them.\nIn order,\nsays `Planning`. In turn.";
        let check = |changes: &str, expected: Result<&str, &str>| {
            let found = reworded(words, changes);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{changes}");
        };
        check("\n", Ok(words));
        check("- `chain!`\n+ `->`\n", Ok("`->` lists them.\nIn order,\nsays `Planning`. In turn."));
        let two = "- In order,\n- says `Planning`.\n+ Says `cap`.\n\n-  In turn.\n";
        check(two, Ok("`chain!` lists them.\nSays `cap`."));
        check("- In\n+ Out", Err("\"In\" stands there 2 times, not once"));
        check("- Out\n+ In", Err("\"Out\" stands there 0 times, not once"));
        check("In\n", Err("\"In\" begins with neither - nor +"));
    }

    /// Operators are texts in the page: no word there is Rust.
    #[test]
    fn words_about_operators_speak_of_what_is_in_the_page() {
        for lesson in lessons().iter().filter(|lesson| "06" <= lesson.name.as_str()) {
            for cell in &lesson.cells {
                let words = match cell {
                    Cell::Words(words) => words,
                    Cell::Code { source } => panic!("{}: {source}", lesson.name),
                    Cell::Act(_) => continue,
                };
                let spans = words.split('`').skip(1).step_by(2);
                let rust = spans.filter(|span| {
                    ["::", "?", "!", "()", "&", "Planning"].iter().any(|sign| span.contains(sign))
                });
                assert_eq!(rust.collect::<Vec<_>>(), [""; 0], "{}", lesson.name);
            }
        }
    }

    /// What only a notebook has is not spoken of in the page.
    #[test]
    fn words_of_the_page_name_nothing_that_only_the_notebook_has() {
        let only_there = [
            "MemoryMap`",
            "`Torch`",
            "`Pipeline`",
            "`few`",
            "event_after",
            "Arrangement::",
            ".show()",
            "cell of your own",
            "is compiled",
            "in the text form",
        ];
        for lesson in lessons() {
            for cell in &lesson.cells {
                let Cell::Words(words) = cell else { continue };
                let found: Vec<_> = only_there.iter().filter(|name| words.contains(**name)).collect();
                assert_eq!(found, [&""; 0], "{}: {words}", lesson.name);
            }
        }
    }

    /// As many moves as are asked about are told.
    #[test]
    fn the_moves_of_lesson_two_are_six() {
        let lessons = lessons();
        let (_, late) = acts(&lessons).find(|(_, act)| act.verb == "views late").unwrap();
        assert_eq!(told(late, &late.text).plain().lines().count(), 6);
    }

    /// Other answers than the solutions: some right, and those that are wrong in a way of their own. Each is the solution (`+`) or the
    /// text as it stands (`-`) of a cell, changed.
    #[test]
    fn answers_are_judged_by_what_they_do() {
        const MISSING: &str = "not yet: the program no longer does what it did; missing: ";
        const DATA: &str = "not yet: the program no longer does what it did; ";
        const TOO_LATE: &str = "not yet: safe, but the copy no longer runs beside";
        type Answer = (&'static str, &'static [(&'static str, &'static str)], &'static str);
        #[rustfmt::skip]
        const ANSWERS: &[Answer] = &[
            // The result is read: all of it, behind the copy, and it is the kernel's.
            ("+1 c16", &[("sync    back\nread    y", "sync    back"), ("copy    y", "read    y\ncopy    y")], DATA),
            ("+1 c16", &[("read    y", "read    y[0..0]")], MISSING),
            ("-1 c16", &[("read    y", "read    y[0..0]")], MISSING),
            ("+1 c16", &[("read    y", "")], MISSING),
            ("+1 c16", &[("copy    y <- d on back\n", "")], MISSING),
            ("+1 c16", &[("copy    y <- d", "copy    y[0..4096] <- d[0..4096]")], MISSING),
            ("+1 c16", &[("d 4MiB", "d, other 4MiB"), ("copy    y <- d", "copy    y <- other")], "not yet: "),
            ("+1 c16", &[("reads d writes d for 60us\n", "reads d writes d for 60us\n# "), ("copy    y <- d on back\n", "copy    y <- d on back\nread    y\n")], "not yet: "),
            ("+1 c16", &[("h200-pcie5", "gh200-c2c")], MISSING),
            ("-1 c16", &[("# your line here", "sync    cuda:0")], "right: "),
            ("-1 c16", &[("# your line here", "record  done on back\nsync    event done")], "right: "),
            ("-1 c16", &[("on back\n", "on compute\n"), ("# your line here", "sync    compute")], "right: "),
            ("+1 c16", &[("read    y", "read    y\nread    y")], "right: "),
            // Another question is no answer.
            ("+2 c07", &[("step(1, 5)", "step(1, 16)"), ("guess 0, 255", "guess 0, 240")], "not yet: another question"),
            ("+2 c07", &[("guess 0, 255", "guess 255, 0")], "not yet: elements"),
            ("+2 c21", &[("attention.key, attention.value", "attention.key"), ("1, 32768", "1, 16384")], "not yet: another question"),
            ("+2 c21", &[("1, 32768", "1, 32KiB")], "right: "),
            ("+2 c28", &[("map a, b", "map weight")], "not yet: 1 tile"),
            ("+2 c28", &[("narrow(0, 0, 600)", "narrow(0, 0, 100)"), ("narrow(0, 600, 424)", "narrow(0, 100, 924)")], "right: "),
            ("+4 c14", &[("64MiB", "1GiB")], "not yet: another question"),
            ("+4 c14", &[("guess   24", "guess   23")], "not yet: too few"),
            ("+4 c14", &[("guess   24", "guess   -3")], "not yet: -3 copies: a number of copies is not below zero"),
            // What is read is what was asked for.
            ("-3 c07", &[("# your line here\nread    host expect f64 ramp 1 1", "sync s"), ("copy", "read    host expect f64 fill 0\ncopy")], MISSING),
            ("+3 c07", &[("read    host ", "read    host[0..8] ")], MISSING),
            ("-3 c07", &[("# your line here", "sync    cuda:0")], "right: "),
            // The second item has to be sent, behind the refill.
            ("+3 c17", &[("write   x = f32 fill 5\ncopy    d <- x on s\n", "write   x = f32 fill 5\n"), ("record", "copy    d <- x on s\nrecord")], DATA),
            ("-3 c17", &[("400us", "4us")], MISSING),
            ("-3 c17", &[("sync    s                        # too much: wait for the event instead\n", ""), ("write   x = f32 fill 5\n", "")], MISSING),
            // Fast by less work, or on another machine.
            ("-3 c33", &[("60us", "1us")], MISSING),
            ("-3 c33", &[("h200-pcie5", "gh200-c2c")], MISSING),
            ("+3 c33", &[("reads d{i%2} writes", "writes")], MISSING),
            ("-3 c35", &[("record  done on store              # and so is that, says the same event\n", "")], "right: "),
            ("-3 c35", &[("copy    last <- b on store         # meanwhile the last result goes out\n", ""), ("record  done on store              # and so is that, says the same event\n", "")], MISSING),
            ("-3 c35", &[("wait    done on work", "sync    load")], "right: "),
            ("-3 c37", &[("free    t via free_async on work\n", "")], MISSING),
            ("-3 c37", &[("free    t via free_async on work", "free    t via free_async on store")], "right: "),
            ("-3 c37", &[("# what must", "sync    store\n# what must")], "right: "),
            // A block that nobody takes again is no danger, and the pool was told nothing.
            ("-3 c40", &[(" reuse t", "")], MISSING),
            ("+3 c40", &[(" reuse t", "")], MISSING),
            ("+3 c40", &[("record_stream t on side\n", ""), ("free    t via pool", "record_stream t on main_stream\nfree    t via pool")], "not yet: "),
            ("-3 c40", &[("free    t via pool", "sync    side\nfree    t via pool")], "right: "),
            ("-4 c31", &[("4ms", "40ms")], MISSING),
            ("-4 c31", &[("    sync    0                               # loss.item()\nend", "end\nsync 0")], "not yet: safe, but 1 of 6 losses"),
            ("+4 c31", &[("    pin: work pin_overhead\n", "")], MISSING),
            ("+5 c13", &[("kernel  step on 0 reads y writes y for 400us\n", ""), ("wait    there on 0", "wait    there on 0\nkernel  step on 0 reads y writes y for 400us")], TOO_LATE),
            ("-5 c13", &[("next on 0 reads x", "next on 0 reads y")], MISSING),
            ("-5 c13", &[("# your lines here", "sync    side")], "right: "),
            ("-5 c31", &[("h100-pcie5", "gh200-c2c")], "not yet: another machine: only `strategy` and `in_flight` may change"),
            ("+5 c31", &[("24", "4")], "not yet: another question"),
            ("+5 c31", &[("in_flight 2", "in_flight 1")], "not yet: "),
            ("-5 c35", &[("600us", "6us")], MISSING),
            ("-5 c35", &[("wait    done{i} on copies", "wait    done{i} on compute"), ("y{i} on copies", "y{i} on compute")], "not yet: safe, but copies stand in 2 streams"),
            ("-5 c39", &[("    copy      w <- weights on s               # model.to(\"cuda\")\n", ""), ("device  w 1MiB", "device  w 1MiB = f32 fill 3")], "not yet: w is on the device without a copy"),
            ("+5 c39", &[("pageable weights", "pinned weights")], "right: "),
            // Few enough bytes by page-locking everything, and the weights still sent four times.
            ("-5 c39", &[("pageable weights", "pinned weights"), ("pageable batch", "pinned batch"), ("    host copy p{i} <- batch{i}                # batch.pin_memory()\n", ""), ("<- p{i}", "<- batch{i}")], "not yet: safe and right, but copy w <- weights brings once more what is there already"),
            ("+5 c39", &[("    host copy p{i} <- batch{i}\n", ""), ("x{i} <- p{i}", "x{i} <- batch{i}")], "right: "),
        ];
        let lessons = lessons();
        for (cell, edits, expected) in ANSWERS {
            let (lesson, id) = cell[1..].split_once(' ').unwrap();
            let (_, act) =
                acts(&lessons).find(|(name, act)| name[1..].starts_with(lesson) && act.id == id).unwrap();
            let text = if cell.starts_with('+') { act.solved.as_ref().unwrap() } else { &act.text };
            let answer = edits.iter().fold(text.clone(), |text, (from, to)| {
                assert!(text.contains(from), "{cell}: no {from:?}");
                text.replace(from, to)
            });
            let said = told(act, &answer);
            assert!(said.plain().starts_with(expected), "{cell} {edits:?}: {}", said.plain());
        }
    }

    /// The program that lesson 7 takes a wait out of is the one that the cell above it shows.
    #[test]
    fn the_broken_program_is_the_plans_without_a_wait() {
        let lessons = lessons();
        let find = |id: &str| {
            acts(&lessons).find(|(lesson, act)| *lesson == "07_to_device" && act.id == id).unwrap().1
        };
        let whole = told(find("c13"), &find("c13").text);
        let mended = find("c15").text.replacen("# wait", "wait", 1);
        assert_eq!(whole.plain().trim_end(), mended.trim_end());
    }

    #[test]
    fn what_is_missing_is_told_with_its_file() {
        let why = read(Path::new("/nonexistent")).unwrap_err();
        assert!(why.starts_with("/nonexistent/01_streams_and_events.ipynb: "), "{why}");
    }
}
