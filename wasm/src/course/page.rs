//! What a cell of the course's page does with its text: the functions of the notebooks' cells by name, for where no kernel runs.
//!
//! A cell is a verb and a text that the reader edits. The text is a program; or several, each under a line `== NAME`; or settings, a
//! line each, before a program or alone. `guess` is a setting like others. Places in messages are those of the whole text.
//!
//! | verb | text |
//! |---|---|
//! | `show`, `verdict`, `explain`, `readings`, `modes`, `mended`, `stack`, `film` | a program |
//! | `at` | `at TIME`, and a program |
//! | `wait WORDS` | `guess TIME`, and a program that marks `begin` and `end` |
//! | `order WORDS` | `guess NAME, NAME`, and a program |
//! | `timelines WORDS`, `ledgers`, `verdicts` | programs |
//! | `pinning`, `break-even`, `rows WORDS`, `chart`, `machines` | settings |
//! | `pipeline ACT` | the settings of a pipeline |
//! | `views ACT` | views of blocks ([`super::views`]) |
//! | `operator ACT` | an operator ([`super::formulas`]) |
//! | `check NAME` | an answer to the exercise of that name |

use std::collections::BTreeMap;
use std::str::FromStr;

use spanlift::advise::{self, Row, Varies};
use spanlift::hazard::{self, Mode};
use spanlift::machine::Machine;
use spanlift::program::{Arrangement, IssueOrder, Pipeline, text as quantity};
use spanlift::sim::{self, Run};
use spanlift::{Bytes, Nanos, Program, mib, us};

use super::*;
use crate::show::{Figure, Show, explain, verdict};

/// The words and the picture of a cell; `data` is the file of published rows.
///
/// ```
/// let told = spanlift_viewer::course::act("verdict", "stream s\npinned x 8\ndevice d 8\ncopy d <- x on s\nsync s\n", "");
/// assert_eq!(told.plain(), "by contract order, safe");
/// ```
pub fn act(verb: &str, source: &str, data: &str) -> Figure {
    match found(verb, source, data) {
        Ok(figure) if figure.plain().trim().is_empty() => Figure::error(&"nothing is asked for"),
        Ok(figure) => figure,
        Err(why) => Figure::error(&why),
    }
}

fn found(verb: &str, source: &str, data: &str) -> Result<Figure, String> {
    let (name, rest) = verb.split_once(' ').unwrap_or((verb, ""));
    let program = || Program::from_text(source).map_err(|e| e.to_string());
    Ok(match name {
        "show" => program()?.show(),
        "verdict" => verdict(&program()?, Mode::Contract),
        "explain" => explain(&program()?, Mode::Contract),
        "readings" => readings(source),
        "modes" => modes(&program()?)?,
        "mended" => mended(&program()?)?,
        "stack" => call_stack(&run(source)?),
        "film" => film(source),
        "at" => at(source)?,
        "wait" => waited(rest, source)?,
        "order" => order(rest, source)?,
        "timelines" => side_by_side_runs(rest, source)?,
        "verdicts" => verdicts(parts(source)?),
        "ledgers" => {
            let runs = runs(source)?;
            ledgers(runs.iter().map(|(name, run)| (name.as_str(), run.ledger)))
        }
        "pinning" => pinning(source)?,
        "break-even" => break_even(source)?,
        "rows" => some_rows(rest, source, &rows(data)?)?,
        "chart" => tutorial_chart(&rows(data)?, &Settings::read(source)?.machine()?),
        "machines" => machines(source, &rows(data)?)?,
        "pipeline" => pipelines(rest, source)?,
        "views" => views::act(rest, source)?,
        "operator" => formulas::act(rest, source)?,
        "check" => judged_by(rest, source)?,
        _ => return Err(format!("no verb {name:?}")),
    })
}

/// The exercises whose answer is a program or an operator.
fn judged_by(name: &str, source: &str) -> Result<Figure, String> {
    if let Some(figure) = answers::judged(name, source) {
        return Ok(figure);
    }
    Ok(match name {
        "result-back" => check_result_back(source),
        "read-back" => check_read_back(source),
        "refill" => check_refill(source),
        "pipeline" => check_pipeline(source),
        "events" => check_events(source),
        "free" => check_free(source),
        "pool" => check_pool(source),
        "loader" => check_loader(source),
        "side-copy" => check_side_copy(source),
        "order" => check_order(source),
        "moved" => check_moved(source),
        _ => return Err(format!("no exercise {name:?}")),
    })
}

fn run(source: &str) -> Result<Run, String> {
    let program = Program::from_text(source).map_err(|e| e.to_string())?;
    sim::run(&program, &machine_of(&program, "")?).map_err(|e| e.to_string())
}

fn modes(program: &Program) -> Result<Figure, String> {
    let name = |mode| hazard::check(program, mode).map(|r| r.verdict().name()).map_err(|e| e.to_string());
    Ok(Figure::words(format!("contract: {}\ntypical:  {}", name(Mode::Contract)?, name(Mode::Typical)?)))
}

fn mended(program: &Program) -> Result<Figure, String> {
    let mended = hazard::mend(program, Mode::Contract, 10).map_err(|e| e.to_string())?;
    let figure = mended.program.show();
    let change = text::count(mended.n_fixes, "change");
    let plain = format!("{change}: {}\n{}", mended.report.verdict().name(), figure.plain());
    Ok(figure.saying(plain))
}

fn at(source: &str) -> Result<Figure, String> {
    let (settings, program) = Settings::before(source, &["at"])?;
    Ok(at_moment(&program, settings.time("at")?))
}

/// A guess beside the time between two marks.
fn waited(what: &str, source: &str) -> Result<Figure, String> {
    let (settings, program) = Settings::before(source, &["guess"])?;
    let between = run(&program)?.between("begin", "end").ok_or("the program marks no begin and end")?;
    Ok(guessed(what, settings.time("guess")?, between))
}

/// The order in which things are thought to end.
fn order(what: &str, source: &str) -> Result<Figure, String> {
    let (settings, program) = Settings::before(source, &["guess"])?;
    Ok(guessed_order(what, settings.get("guess")?.split(',').map(str::trim), &program))
}

/// Texts under lines `== NAME`, each below as many blank lines as stand above it.
fn parts(source: &str) -> Result<Vec<(&str, String)>, String> {
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (above, line) in (1..).zip(source.lines()) {
        if let Some(name) = line.strip_prefix("== ") {
            parts.push((name.trim(), "\n".repeat(above)));
            continue;
        }
        match parts.last_mut() {
            Some((_, text)) => *text = format!("{text}{line}\n"),
            None if line.trim().is_empty() => {}
            None => return Err("the first line names the program below it: == NAME".to_owned()),
        }
    }
    if parts.is_empty() { Err("no program: each stands under a line == NAME".to_owned()) } else { Ok(parts) }
}

fn runs(source: &str) -> Result<Vec<(String, Run)>, String> {
    let parts = parts(source)?.into_iter();
    parts.map(|(name, text)| Ok((name.to_owned(), run(&text).map_err(|e| format!("{name}: {e}"))?))).collect()
}

fn side_by_side_runs(title: &str, source: &str) -> Result<Figure, String> {
    let runs = runs(source)?;
    Ok(timelines(title, runs.iter().map(|(name, run)| (name.as_str(), run))))
}

/// Settings: a word, what stands behind it, and where that is.
#[derive(Debug, Default)]
pub(super) struct Settings<'a>(BTreeMap<&'a str, (&'a str, Place)>);

/// Line and column, counted from 1.
type Place = (usize, usize);

pub(super) fn placed((line, column): Place, why: &str) -> String {
    format!("line {line}, column {column}: {why}")
}

impl<'a> Settings<'a> {
    /// Every line is one; a comment begins with `#`.
    fn read(source: &'a str) -> Result<Settings<'a>, String> {
        let mut found = Settings::default();
        for (number, whole) in (1..).zip(source.lines()) {
            let line = whole.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let first = whole.chars().take_while(|c| c.is_whitespace()).count() + 1;
            let (name, rest) = line
                .split_once(' ')
                .ok_or_else(|| placed((number, first), &format!("{line:?} has no value")))?;
            let value = rest.trim();
            let before = name.chars().count() + rest.chars().take_while(|c| c.is_whitespace()).count() + 1;
            if found.0.insert(name, (value, (number, first + before))).is_some() {
                return Err(placed((number, first), &format!("{name} stands there twice")));
            }
        }
        Ok(found)
    }

    /// The first lines that set one of `names`, and what stands behind as many blank ones.
    pub(super) fn before(source: &'a str, names: &[&str]) -> Result<(Settings<'a>, String), String> {
        let mut end = 0;
        for line in source.split_inclusive('\n') {
            let word = line.split_whitespace().next().unwrap_or_default();
            if !(word.is_empty() || word.starts_with('#') || names.contains(&word)) {
                break;
            }
            end += line.len();
        }
        let above = "\n".repeat(source[..end].matches('\n').count());
        Ok((Settings::read(&source[..end])?, above + &source[end..]))
    }

    fn get(&self, name: &str) -> Result<&'a str, String> {
        self.0.get(name).map(|(value, _)| *value).ok_or_else(|| format!("a line is missing: {name} ..."))
    }

    /// What is wrong with a setting, and where it stands.
    fn wrong(&self, name: &str, why: String) -> String {
        self.0.get(name).map_or(why.clone(), |(_, place)| placed(*place, &why))
    }

    pub(super) fn time(&self, name: &str) -> Result<Nanos, String> {
        let word = self.get(name)?;
        // As figures have it, too: `20 µs`.
        let plain = word.replace(' ', "").replace(['µ', 'μ'], "u");
        quantity::time(&plain).ok_or_else(|| self.wrong(name, format!("{name} {word}: no time such as 20us")))
    }

    fn bytes(&self, name: &str) -> Result<Bytes, String> {
        let word = self.get(name)?;
        quantity::size(word).ok_or_else(|| self.wrong(name, format!("{name} {word}: no size such as 4MiB")))
    }

    fn all_bytes(&self, name: &str) -> Result<Vec<Bytes>, String> {
        let words = self.get(name)?.split_whitespace();
        let wrong = |word: &str| self.wrong(name, format!("{name}: {word} is no size such as 4MiB"));
        words.map(|word| quantity::size(word).ok_or_else(|| wrong(word))).collect()
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let word = self.get(name)?;
        word.parse().map_err(|_| self.wrong(name, format!("{name} {word}: no such number")))
    }

    /// The machine that is named, the usual one where none is.
    fn machine(&self) -> Result<Machine, String> {
        let Some((name, place)) = self.0.get("machine") else { return Ok(Machine::default()) };
        Machine::builtin(name).ok_or_else(|| placed(*place, &format!("no machine {name:?}")))
    }
}

fn pinning(source: &str) -> Result<Figure, String> {
    let settings = Settings::read(source)?;
    Ok(pinning_price(&settings.machine()?, settings.bytes("free")?, &settings.all_bytes("sizes")?))
}

fn break_even(source: &str) -> Result<Figure, String> {
    let settings = Settings::read(source)?;
    let (guess, buffer, machine) =
        (settings.number("guess")?, settings.bytes("buffer")?, settings.machine()?);
    Ok(match buffer == mib(64) && machine.name == "tutorial-ci" {
        true => check_break_even(guess, buffer, &machine),
        false => told(Err("another question: only `guess` may change".to_owned())),
    })
}

fn rows(data: &str) -> Result<Vec<Row>, String> {
    advise::rows(data.as_bytes()).map_err(|e| e.to_string())
}

fn row(rows: &[Row], number: usize) -> Result<&Row, String> {
    number.checked_sub(1).and_then(|k| rows.get(k)).ok_or_else(|| format!("no row {number}"))
}

/// Lines `ratio A B`, `tensors N` and `row N NAME`: how much longer one row takes than another, and timelines of a few tensors.
fn some_rows(title: &str, source: &str, rows: &[Row]) -> Result<Figure, String> {
    let machine = Machine::default();
    let time = |row: &Row| row.time(&machine).map(|t| t.as_millis()).map_err(|e| e.to_string());
    let (mut told, mut tensors, mut runs) = (Vec::new(), 4, Vec::new());
    for line in source.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let mut words = line.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let mut number = || {
            words.next().and_then(|w| w.parse::<usize>().ok()).ok_or_else(|| format!("{line:?}: no number"))
        };
        match kind {
            "ratio" => {
                let (over, under) = (number()?, number()?);
                let (a, b) = (row(rows, over)?, row(rows, under)?);
                let [published, simulated] = [a.ms / b.ms, time(a)? / time(b)?];
                told.push(format!(
                    "row {over} takes {published:.2} times as long as row {under}; simulated {simulated:.2}"
                ));
            }
            "tensors" => tensors = number()? as u64,
            "row" => {
                let at = number()?;
                let row = row(rows, at)?;
                let short = Row { tensors: row.tensors.min(tensors), ..row.clone() };
                let run = sim::run(&short.program(), &machine).map_err(|e| e.to_string())?;
                let name = words.collect::<Vec<_>>().join(" ");
                runs.push((format!("row {at}: {name}"), run));
            }
            _ => return Err(format!("{line:?} is no ratio, tensors or row")),
        }
    }
    if runs.is_empty() {
        return Ok(Figure::words(told.join("\n")));
    }
    let figure = timelines(title, runs.iter().map(|(name, run)| (name.as_str(), run)));
    told.push(figure.plain().to_owned());
    Ok(figure.saying(told.join("\n")))
}

/// What a pinned source and `pin_memory()` are worth on machines, a name each line.
fn machines(source: &str, rows: &[Row]) -> Result<Figure, String> {
    let lines = source.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).map(|name| {
        let machine = Machine::builtin(name).ok_or_else(|| format!("no machine {name:?}"))?;
        let time = |k: usize| row(rows, k)?.time(&machine).map(|t| t.as_millis()).map_err(|e| e.to_string());
        let [pinned, by_hand] = [time(2)? / time(1)?, time(4)? / time(1)?];
        Ok(format!("{name:12} pinned {pinned:.2} of pageable, pin_memory().to() {by_hand:.2}"))
    });
    Ok(Figure::words(lines.collect::<Result<Vec<_>, String>>()?.join("\n")))
}

/// A pipeline from its settings.
fn pipeline_of(settings: &Settings<'_>) -> Result<Pipeline, String> {
    let arrangement = match settings.get("strategy")? {
        "A" => Arrangement::PerItem(IssueOrder::DepthFirst),
        "B" => Arrangement::PerStage,
        other => {
            let why = format!("strategy {other}: A is a stream for each item, B one for each stage");
            return Err(settings.wrong("strategy", why));
        }
    };
    let in_flight = match settings.0.get("in_flight") {
        None | Some(("all", _)) => None,
        Some(_) => Some(settings.number("in_flight")?),
    };
    let new = Pipeline::new(arrangement, settings.number("items")?, settings.bytes("bytes")?);
    Ok(Pipeline { work: settings.time("work")?, in_flight, ..new })
}

fn pipelines(what: &str, source: &str) -> Result<Figure, String> {
    let settings = Settings::read(source)?;
    let (pipeline, machine) = (pipeline_of(&settings)?, settings.machine()?);
    let program = |pipeline: &Pipeline| {
        let mut program = pipeline.program().map_err(|e| e.to_string())?;
        program.machine = Some(machine.name.clone());
        Ok::<_, String>(program)
    };
    let other = match pipeline.arrangement {
        Arrangement::PerStage => Arrangement::PerItem(IssueOrder::DepthFirst),
        Arrangement::PerItem(_) => Arrangement::PerStage,
    };
    let per_item = Arrangement::PerItem(IssueOrder::DepthFirst);
    let [a, b] = if pipeline.arrangement == Arrangement::PerStage {
        [other, Arrangement::PerStage]
    } else {
        [per_item, other]
    }
    .map(|arrangement| Pipeline { arrangement, ..pipeline });
    Ok(match what {
        "show" => program(&pipeline)?.show(),
        "room" => {
            let slots = pipeline.slots();
            let all = Bytes(pipeline.footprint().0.saturating_mul(u64::from(slots)));
            let within = pipeline.within(settings.bytes("limit")?);
            let told = within.map_or_else(|e| e.to_string(), |w| format!("{} may be under way", w.slots()));
            Figure::words(format!(
                "{} for one item, {all} for the {slots} that may be under way\n{told}",
                pipeline.footprint()
            ))
        }
        "both" => {
            let run = |p: &Pipeline| sim::run(&program(p)?, &machine).map_err(|e| e.to_string());
            let (with_a, with_b) = (run(&a)?, run(&b)?);
            let title = format!("{} items, {} slots", pipeline.items, pipeline.slots());
            timelines(
                &title,
                [("A: a stream for each item", &with_a), ("B: a stream for each stage", &with_b)],
            )
        }
        "text" => {
            let of = |p: &Pipeline| p.program().map_err(|e| e.to_string());
            let (a, b) = (of(&a)?, of(&b)?);
            let b_text = b.to_text();
            let lines = b_text.lines().skip_while(|line| !line.starts_with("mark")).take(10);
            let shown: Vec<&str> = lines.collect();
            Figure::words(format!("A: {} commands, B: {} commands\n{}", a.len(), b.len(), shown.join("\n")))
        }
        "compare" => side_by_side(&advise::compare(&pipeline, &machine).map_err(|e| e.to_string())?),
        "caps" => under_caps(&pipeline, &settings.all_bytes("limits")?, &machine),
        "crossing" => {
            let crossings = advise::crossings(&pipeline, &machine).map_err(|e| e.to_string())?;
            let found =
                crossings.iter().find(|c| c.varies == Varies::Work).ok_or("neither overtakes the other")?;
            let figure = guessed(
                "work on an item from which on A overtakes B",
                settings.time("guess")?,
                Nanos(found.at as i64),
            );
            let plain = format!("{} below, {} from there on\n{}", found.below, found.above, figure.plain());
            figure.saying(plain)
        }
        "check" => {
            let asked = Pipeline { work: us(300), ..Pipeline::new(per_item, 24, mib(16)) };
            match machine.name == "h100-pcie5" {
                true => check_strategy(pipeline, &asked, mib(64), us(9_000), &machine),
                false => told(Err("another machine: only `strategy` and `in_flight` may change".to_owned())),
            }
        }
        _ => return Err(format!("a pipeline cannot {what:?}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(verb: &str, source: &str, expected: &str) {
        let told = act(verb, source, "");
        assert!(told.plain().contains(expected), "{expected:?} is not in {}", told.plain());
    }

    #[test]
    fn what_a_reader_may_type_wrongly_is_told_in_words() {
        check("nothing", "", "no verb \"nothing\"");
        check("check nothing", "", "no exercise \"nothing\"");
        check("show", "strem s", "line 1");
        check("timelines t", "stream s", "== NAME");
        check("timelines t", "== a\nstrem s", "a: line 2");
        check("timelines t", "== a\nstream s\n\n== b\nstream s\nstrem s", "b: line 6");
        check("verdicts", "== a\nstream s\n== b\nstrem s", "line 4");
        check("verdicts", "== a\nstream s", "a  safe");
        check("order o", "# which?\n\nguess a\n\nstream s\nstrem t", "line 6");
        check("at", "stream s", "a line is missing: at ...");
        check("wait w", "guess 20\nstream s", "marks no begin");
        check("wait w", "guess 20\nmark begin\nmark end", "guess 20: no time such as 20us");
        check("wait w", "guess 20 µs\nmark begin\nmark end", "guessed: time 20 us");
        check("order o", "stream s", "a line is missing: guess ...");
        check("order o", "guess a, b\nstream s\nsync s", "nothing here is called \"a\"");
        check("pinning", "free 8GiB\n sizes  1 MiB", "line 2, column 9: sizes: MiB is no size such as 4MiB");
        check("pinning", "machine mine\nfree 8GiB\nsizes 1MiB", "line 1, column 9: no machine \"mine\"");
        check("pinning", "free 8GiB\n\n  sizes", "line 3, column 3: \"sizes\" has no value");
        check("pinning", "free 8GiB\nfree 4GiB", "line 2, column 1: free stands there twice");
        check("pipeline show", "items 0\nbytes 1MiB\nwork 1us\nstrategy A", "");
        check("pipeline show", "items 2\nbytes 1MiB\nwork 1us\nstrategy C", "line 4, column 10: strategy C");
        check("pipeline sing", "items 2\nbytes 1MiB\nwork 1us\nstrategy A", "cannot \"sing\"");
        check("rows r", "ratio 1 99", "no file of rows");
        check("break-even", "guess many\nbuffer 1MiB", "line 1, column 7: guess many: no such number");
    }
}
