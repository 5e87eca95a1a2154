//! What the page opens: items of every kind, traces in columns, and what a reader of the course types into a cell.

use std::collections::BTreeSet;

use spanlift::memory::sample;
use spanlift::trace::{snapshot::Snapshot, write_chrome};
use spanlift::{Program, Trace, machine::Machine, sim};
use spanlift_native::lessons::{self, Cell};
use spanlift_native::tutorial;
use spanlift_viewer::pack::{self, Content, PageItem};
use spanlift_viewer::screen::Screen;
use spanlift_viewer::{Theme, columns, course, snapshot};

use crate::kit::{fuzz, mutated};
use crate::snapshots;

const SOURCE: &str = "stream s, t\nevent e\npinned x 4KiB = f32 ramp 0 1\ndevice d 4KiB\ncopy d <- x on s\nrecord e on s\nwait e on t\nkernel on t reads d\nsync t\nread x\n";

const WORDS: &[&[u8]] = &[
    b"null",
    b"[]",
    b"{}",
    b"0",
    b"-1",
    b"1e400",
    b"9223372036854775807",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\0\0\0\0",
    b"repeat i 300\n",
    b"end\n",
    b"sync s\n",
    b"wait e on s\n",
    b"\"ph\": \"X\",",
    b"\"storages\": [],",
    b"\"ops\": [],",
];

fn trace() -> Trace {
    let program = Program::from_text(SOURCE).expect("a program");
    sim::run(&program, &Machine::default()).expect("a run").trace
}

/// The item that the page would make of a file, opened; what it shows has to be said in words that are there.
fn judge_file(bytes: &[u8]) -> Result<bool, String> {
    let mut item = match PageItem::file("file", bytes.to_vec()) {
        Err(why) if why.is_empty() => return Err("no words".to_owned()),
        Err(_) => return Ok(false),
        Ok(item) => item,
    };
    match &mut item.content {
        Content::Layout { to, .. } => *to = "cuda:0".to_owned(),
        Content::Snapshot(bytes) => {
            let (map, opened) = (snapshot::map(bytes), Snapshot::read(bytes));
            if map.is_ok() && opened.is_err() {
                return Err("a map of no snapshot".to_owned());
            }
        }
        _ => {}
    }
    match Screen::open(&item, Theme::LIGHT) {
        Err(why) if why.is_empty() => Err("no words".to_owned()),
        Err(_) => Ok(false),
        Ok(_) => Ok(true),
    }
}

#[test]
fn damaged_files_in_the_page_get_an_answer() {
    let mut corpus = vec![
        SOURCE.as_bytes().to_vec(),
        Program::from_text(SOURCE).expect("a program").to_json().into_bytes(),
        write_chrome(&trace()).into_bytes(),
        snapshots::snapshot(),
    ];
    corpus.extend(sample::matrices(2).map(|layout| layout.to_json().into_bytes()));
    for file in &corpus {
        assert_eq!(judge_file(file), Ok(true), "{}", file.escape_ascii());
    }
    fuzz("items of a page", 600, |r| mutated(r, &corpus, WORDS, 1 << 14), |bytes, _| judge_file(bytes));
}

/// What is taken out of a page's data goes into another's and comes out again.
fn judge_block(bytes: &[u8]) -> Result<bool, String> {
    let items = match pack::unpack(bytes) {
        Err(why) if why.is_empty() => return Err("no words".to_owned()),
        Err(_) => return Ok(false),
        Ok(items) => items,
    };
    match pack::unpack(&pack::pack(&items)) {
        Ok(again) if again == items => Ok(true),
        again => Err(format!("{items:?} comes out as {again:?}")),
    }
}

#[test]
fn damaged_data_of_a_page_get_an_answer() {
    let items = [PageItem::trace("a", &trace()), PageItem::source("b", SOURCE, "h200-pcie5")];
    let corpus = [pack::pack(&items), pack::pack(&items[1..])];
    assert!(corpus.iter().all(|block| judge_block(block) == Ok(true)));
    fuzz("data of a page", 4000, |r| mutated(r, &corpus, WORDS, 1 << 14), |bytes, _| judge_block(bytes));
}

/// What is read is written with the same bytes again.
fn judge_columns(bytes: &[u8]) -> Result<bool, String> {
    let trace = match columns::read(bytes) {
        Err(why) if why.is_empty() => return Err("no words".to_owned()),
        Err(_) => return Ok(false),
        Ok(trace) => trace,
    };
    let written = columns::write(&trace);
    let again = columns::read(&written).map_err(|why| format!("written, it cannot be read: {why}"))?;
    if columns::write(&again) != written {
        return Err("other columns when they are written again".to_owned());
    }
    Ok(true)
}

#[test]
fn damaged_columns_get_an_answer() {
    let corpus = [columns::write(&trace())];
    assert_eq!(judge_columns(&corpus[0]), Ok(true));
    fuzz("columns", 4000, |r| mutated(r, &corpus, WORDS, 1 << 14), |bytes, _| judge_columns(bytes));
}

const OF_OPERATORS: &[&[u8]] = &[
    b"== other\n",
    b"==\n",
    b"guess 3\n",
    b"tolerance 1e-300\n",
    b"show A\n",
    b"show A -> A^H\n",
    b".normal",
    b".tiles(y=1)",
    b".split(b, 8, [cuda:0, cuda:1])",
    b"^H",
    b"^4000",
    b"A^2^2^2",
    b"48000",
    b"random(3)",
    b"coils",
    b"head",
    b"cap cuda:0 9KiB\n",
    b"ahead 0\n",
    b"input ones\n",
    b"@cuda:1",
];

/// Whether a cell's text has an operator in it, below what it guesses.
fn is_operator(text: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().next() == Some("operator"))
}

/// Where an answer about an operator says that the text is wrong, if it says so.
fn place(words: &str) -> Option<(usize, usize)> {
    let words = words.strip_prefix("not yet: ").unwrap_or(words).strip_prefix("line ")?;
    let (line, rest) = words.split_once(", column ")?;
    let (column, _) = rest.split_once(": ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

#[test]
fn whatever_is_typed_into_a_cell_of_the_course_gets_an_answer() {
    let lessons = lessons::builtin();
    let cells = lessons.iter().flat_map(|lesson| &lesson.cells);
    let acts: Vec<(&str, &str)> = cells
        .filter_map(|cell| {
            if let Cell::Act(act) = cell { Some((act.verb.as_str(), act.text.as_str())) } else { None }
        })
        .collect();
    let verbs: Vec<&str> = acts.iter().map(|(verb, _)| *verb).collect::<BTreeSet<_>>().into_iter().collect();
    assert!(verbs.len() > 10, "{verbs:?}");
    let operators: Vec<(&str, &str)> = acts.iter().copied().filter(|(_, text)| is_operator(text)).collect();
    assert!(operators.len() > 30, "{} cells have operators", operators.len());
    // A cell's own text most of the time, another's now and then; half of them operators.
    let words = [WORDS, OF_OPERATORS].concat();
    let make = |r: &mut crate::kit::Random| {
        let cells = if r.below(2) == 0 { &operators } else { &acts };
        let (verb, text) = *r.pick(cells);
        let verb = if r.below(8) == 0 { *r.pick(&verbs) } else { verb };
        let text = mutated(r, &[text.as_bytes().to_vec()], &words, 1 << 13);
        [verb.as_bytes(), b"\n", &text].concat()
    };
    let judge = |bytes: &[u8]| {
        let typed = String::from_utf8_lossy(bytes);
        let (verb, text) = typed.split_once('\n').unwrap_or((&typed, ""));
        let answer = course::act(verb, text, tutorial::TABLE);
        if answer.plain().trim().is_empty() {
            return Err(format!("{verb} has no words"));
        }
        if let Some((line, column)) = place(answer.plain()) {
            let there = text.lines().nth(line.wrapping_sub(1)).map(|line| line.chars().count() + 1);
            // Behind the last line may be what is missing.
            let most = there.or_else(|| (line == 1 || line == text.lines().count() + 1).then_some(1));
            if column == 0 || most.is_none_or(|most| most < column) {
                return Err(format!("{verb}: no such place: {}", answer.plain()));
            }
        }
        Ok(!answer.is_error())
    };
    fuzz("cells of the course", 400, make, |bytes, _| judge(bytes));
}
