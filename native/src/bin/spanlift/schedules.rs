//! `spanlift run --schedules` and `--replay`: which results a program can have, and one order of its steps step by step.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Value, json};
use spanlift::Program;
use spanlift::explore::{self, ExploreError, Explored, Find, Holds, Outcome, Schedule, Stamp, lane_of};
use spanlift::hazard::{Mode, Part, Relation, StepId};
use spanlift::text::{columns, grouped, padded};
use spanlift::trace;

use crate::End;
use crate::cli::{Format, RunArgs, Schedules};
use crate::explain::short;
use crate::say::{self, Fail, Out, Style};
use crate::{check, input, machine, output};

/// Results told at most in text; `--format json` lists more.
const MOST_RESULTS: usize = 12;
/// Steps of a replay told at most in text.
const MOST_STEPS: usize = 200;

fn relation<'p>(args: &RunArgs, program: &'p Program) -> Result<Relation<'p>, Fail> {
    let place = say::place(&args.program);
    let terms = machine::terms(args.machine.as_deref(), args.mode.into(), program)?;
    Relation::of(program, terms).map_err(|e| Fail::all(&place, &input::messages(&e)))
}

/// Explores all orders, or a number of them.
pub(crate) fn explored(
    args: &RunArgs,
    how: Schedules,
    program: &Program,
    out: &mut Out,
) -> Result<End, Fail> {
    if how == Schedules::All && args.seed.is_some() {
        return Err(Fail::at("--seed", "--schedules all draws nothing; a seed is for --schedules N"));
    }
    let relation = relation(args, program)?;
    let found = match how {
        Schedules::All => explore::explore(&relation),
        Schedules::Some(n) => explore::sample(&relation, n, args.seed.unwrap_or(1)),
    };
    let found = found.map_err(|e| {
        // What else is too much for all of them is so for some.
        let hint = if matches!(e, ExploreError::TooManyStates(_)) { ": try --schedules 1000" } else { "" };
        Fail::at(&say::place(&args.program), format!("{e}{hint}"))
    })?;
    match args.report.format {
        Format::Json => out.json(&object(&relation, &found)),
        Format::Text => text(&relation, &found, out),
    }
    Ok(End::Done)
}

/// Runs one order.
pub(crate) fn replayed(args: &RunArgs, holds: &Holds, program: &Program, out: &mut Out) -> Result<End, Fail> {
    let relation = relation(args, program)?;
    let schedule =
        Schedule::replay(&relation, holds).map_err(|e| Fail::at("--replay", format!("{holds}: {e}")))?;
    if let Some(path) = &args.trace {
        output::is_free(path)?;
        output::write(path, trace::write_chrome(&schedule.trace(&relation)).as_bytes())?;
    }
    let finds =
        explore::replayed(&relation, &schedule).map_err(|e| Fail::at(&say::place(&args.program), e))?;
    match args.report.format {
        Format::Json => {
            let order: Vec<String> = schedule.ids(&relation).map(|id| id.to_string()).collect();
            let finds: Vec<Value> = finds.iter().map(|find| find_json(program, find)).collect();
            let mode = Mode::from(args.mode).name();
            out.json(&json!({
                "mode": mode, "replay": holds.to_string(), "order": order, "finds": finds,
                "trace": args.trace.as_ref().map(|path| path.display().to_string()),
            }));
        }
        Format::Text => {
            steps(&relation, &schedule, &finds, out);
            if let Some(path) = &args.trace {
                out.line(&format!("\ntrace written to {}", say::one_line(&path.display().to_string())));
            }
        }
    }
    Ok(End::Done)
}

/// What was found, for programs: written as it is, since a [`Value`] holds no number of 128 bits.
#[derive(Serialize)]
struct Report {
    mode: &'static str,
    is_complete: bool,
    n_steps: usize,
    n_racing: usize,
    n_schedules: Option<u128>,
    n_orders: u128,
    n_results: usize,
    results: Vec<OneResult>,
}

#[derive(Serialize)]
struct OneResult {
    replay: String,
    n_late: usize,
    n_orders: u128,
    finds: Vec<Value>,
}

fn object(relation: &Relation<'_>, found: &Explored) -> Report {
    let one = |o: &Outcome| OneResult {
        replay: o.schedule.holds(relation).to_string(),
        n_late: o.n_late,
        n_orders: o.n_orders,
        finds: o.finds.iter().map(|find| find_json(relation.program, find)).collect(),
    };
    Report {
        mode: relation.terms.mode.name(),
        is_complete: found.is_complete,
        n_steps: found.n_steps,
        n_racing: found.n_racing,
        n_schedules: found.n_schedules,
        n_orders: found.n_orders,
        n_results: found.n_results,
        results: found.outcomes.iter().map(one).collect(),
    }
}

fn find_json(program: &Program, find: &Find) -> Value {
    json!({
        "by": find.by.map(|id| id.to_string()), "buffer": program.names().buffer(find.buffer),
        "stamps": find.stamps.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn text(relation: &Relation<'_>, found: &Explored, out: &mut Out) {
    let steps = |n: usize, what: &str| format!("{} {what}", say::counted(n, "step"));
    let by = check::by(relation.terms);
    let racing = match found.n_racing {
        0 => "none of them race".to_owned(),
        1 => "1 of them races".to_owned(),
        n => format!("{} of them race", grouped(n)),
    };
    out.line(&format!(
        "{}, {racing} {by}",
        steps(found.n_steps, if found.n_steps == 1 { "touches memory" } else { "touch memory" })
    ));
    let results = say::counted(found.n_results, "result");
    let results = out.paint(if found.n_results == 1 { Style::Good } else { Style::Error }, &results);
    if found.is_complete {
        let in_all = match found.n_schedules {
            Some(n) => format!("{} in all", counted(n, "schedule")),
            None => "more schedules than can be counted".to_owned(),
        };
        out.line(&format!("{in_all}, {} of what races: {results}", counted(found.n_orders, "order")));
    } else {
        let more = if found.n_racing == 0 { "" } else { "; there may be more" };
        out.line(&format!("{} sampled: {results}{more}", counted(found.n_orders, "schedule")));
    }
    if found.is_complete && found.n_results == 1 && 0 < found.n_racing {
        out.line("the races change nothing that is left in memory or read without being written on");
    }
    let everywhere = everywhere(found);
    let is_told = |find: &Find| found.n_results == 1 || !everywhere.contains(find);
    let what = if found.is_complete { "order" } else { "schedule" };
    for (k, outcome) in found.outcomes.iter().take(MOST_RESULTS).enumerate() {
        let holds = outcome.schedule.holds(relation);
        let how = match holds.0.len() {
            0 => "in the order of the list".to_owned(),
            _ => format!("--replay {holds}"),
        };
        let head = out.paint(Style::Strong, &format!("result {}", k + 1));
        let late = match outcome.n_late {
            0 => String::new(),
            n => format!(", {}", steps(n, "late")),
        };
        out.line(&format!("\n{head}  {}  ({}{late})", say::one_line(&how), counted(outcome.n_orders, what)));
        for find in outcome.finds.iter().filter(|find| is_told(find)) {
            out.line(&format!("  {}", say::one_line(&find_in_words(relation.program, find))));
        }
    }
    let is_one_of_many = |o: &Outcome| 1 < o.n_orders && o.finds.iter().any(is_told);
    if 0 < found.n_racing && found.outcomes.iter().any(is_one_of_many) {
        out.line(&format!(
            "\n{what}s of one result leave the same behind; what is found on the way is told of the one that is named"
        ));
    }
    if MOST_RESULTS < found.n_results {
        let n = grouped(found.n_results - MOST_RESULTS);
        out.line(&format!("\nand {n} more results, of which --format json lists the first"));
    }
}

fn counted(n: u128, what: &str) -> String {
    match u64::try_from(n) {
        Ok(1) => format!("1 {what}"),
        Ok(n) => format!("{} {what}s", grouped(n)),
        Err(_) => format!("{n} {what}s"),
    }
}

/// What is found in every outcome, and sets none apart.
fn everywhere(found: &Explored) -> HashSet<&Find> {
    let mut finds = found.outcomes.iter().map(|o| o.finds.iter().collect::<HashSet<_>>());
    let first = finds.next().unwrap_or_default();
    finds.fold(first, |mut common, finds| {
        common.retain(|find| finds.contains(find));
        common
    })
}

fn find_in_words(program: &Program, find: &Find) -> String {
    let name = program.names().buffer(find.buffer);
    let list: Vec<String> = find.stamps.iter().map(stamp_in_words).collect();
    let list = list.join(", ");
    match find.by {
        Some(id) => {
            let text = short(&program.command_text(id.of()));
            format!("{:<6} {} finds in {name}: {list}   ({text})", id.to_string(), lane_of(program, id))
        }
        None => format!("at the end {name} holds: {list}"),
    }
}

fn stamp_in_words(stamp: &Stamp) -> String {
    match stamp {
        Stamp::By(id) => format!("{id}'s bytes"),
        Stamp::Unwritten => "what was there from the beginning".to_owned(),
        Stamp::Outside => "no memory".to_owned(),
    }
}

/// The steps of one order, each read with what it found.
fn steps(relation: &Relation<'_>, schedule: &Schedule, finds: &[Find], out: &mut Out) {
    let program = relation.program;
    let ids: Vec<StepId> = schedule.ids(relation).collect();
    let lane_of = |id: StepId| say::one_line(&lane_of(program, id));
    let width = ids.iter().map(|&id| columns(&lane_of(id))).max().unwrap_or_default().min(40);
    for &id in ids.iter().take(MOST_STEPS) {
        let lane = lane_of(id);
        let is_call = id.part == Part::Call && program.commands()[id.of()].op.stream().is_some();
        let verb = if is_call { "call " } else { "" };
        let text = short(&program.command_text(id.of()));
        out.line(&format!("{:<6} {}  {verb}{text}", id.to_string(), padded(&lane, width)));
        for find in finds.iter().filter(|find| find.by == Some(id)) {
            let name = program.names().buffer(find.buffer);
            let list: Vec<String> = find.stamps.iter().map(stamp_in_words).collect();
            let found = say::one_line(&format!("finds in {name}: {}", list.join(", ")));
            let found = out.paint(Style::May, &found);
            out.line(&format!("       {:<width$}  \u{2514} {found}", ""));
        }
    }
    if MOST_STEPS < ids.len() {
        let n = grouped(ids.len() - MOST_STEPS);
        out.line(&format!("and {n} more steps, which --format json lists"));
    }
    for find in finds.iter().filter(|find| find.by.is_none()) {
        out.line(&say::one_line(&find_in_words(program, find)));
    }
}
