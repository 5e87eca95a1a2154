//! A hazard told at length: its two places, the fix line by line, and the schedules that bring it about.

use spanlift::Program;
use spanlift::explore::{Explanation, Shown, Witness, lane_of, order_in_words, seen_in_words, step_name};
use spanlift::hazard::{Hazard, HazardKind, Part, Relation, StepId};
use spanlift::text::{columns, padded};

use crate::say::{self, Out, Style};

/// Characters of a command's text that are shown.
const MOST_TEXT: usize = 72;

/// Characters of a step's name beside its id.
const MOST_NAME: usize = 40;

/// Prints everything about a hazard below its sentence.
pub(crate) fn print(relation: &Relation<'_>, hazard: &Hazard, out: &mut Out) {
    let program = relation.program;
    let told = Explanation::of(relation, hazard);
    let head = |out: &Out, text: &str| out.paint(Style::Strong, &format!("  {text:<9}"));
    for (name, place) in ["first", "second"].into_iter().zip(&told.places) {
        let site = site(program, place.command);
        let head = head(out, name);
        out.line(&format!("{head}{site:<20} {:<5}  {}", place.does, short(&place.text)));
    }
    if let [Some(first), Some(second)] = told.places.each_ref().map(|p| p.step)
        && hazard.kind != HazardKind::UseAfterFree
    {
        let head = head(out, "missing");
        let [first, second] = [first, second].map(|id| match say::one_line(&step_name(program, id)) {
            name if name.chars().count() <= MOST_NAME => format!("{id} ({name})"),
            _ => id.to_string(),
        });
        out.line(&format!("{head}nothing makes {first} come before {second}"));
    }
    let mut name = "fix";
    for line in told.fix_lines(program) {
        let head = head(out, std::mem::take(&mut name));
        let text = short(&line.text);
        let text = match line.is_new {
            true => out.paint(Style::Good, &format!("+ {text}")),
            false => out.paint(Style::Error, &format!("- {text}")),
        };
        out.line(&format!("{head}{:<27} {text}", say::one_line(&line.place)));
    }
    match &told.witness {
        Ok(None) => {}
        Ok(Some(witness)) => {
            for shown in &witness.shown {
                schedule(relation, hazard, shown, witness, out);
            }
        }
        Err(why) => out.line(&format!("  no schedule is shown: {why}")),
    }
    out.line("");
}

fn schedule(relation: &Relation<'_>, hazard: &Hazard, shown: &Shown, witness: &Witness, out: &mut Out) {
    let (program, sites) = (relation.program, &witness.sites);
    let title = say::one_line(&order_in_words(relation, witness, shown));
    let head = out.paint(Style::Strong, "  schedule ");
    out.line(&format!("{head}{} ({title})", shown.holds));
    let steps = shown.schedule.around(relation, sites);
    let lane_of = |id: StepId| say::one_line(&lane_of(program, id));
    let width = steps.iter().flatten().map(|&id| columns(&lane_of(id))).max().unwrap_or_default();
    for step in steps {
        let Some(id) = step else {
            out.line("        \u{22ee}");
            continue;
        };
        let lane = lane_of(id);
        // What a thread does itself is no call.
        let is_call = id.part == Part::Call && program.commands()[id.of()].op.stream().is_some();
        let verb = if is_call { "call " } else { "" };
        let is_site = sites.contains(&id);
        let mark = if is_site { "\u{25b8}" } else { " " };
        let text = format!(
            "    {mark} {:<6} {}  {verb}{}",
            id.to_string(),
            padded(&lane, width),
            short(&program.command_text(id.of()))
        );
        out.line(text.trim_end());
        if id == shown.seen.by {
            let seen = say::one_line(&seen_in_words(relation, hazard, &shown.seen));
            let seen = out.paint(Style::May, &seen);
            out.line(&format!("             {:<width$}  \u{2514} {seen}", ""));
        }
    }
}

/// `command 3 (line 7)`.
fn site(program: &Program, command: usize) -> String {
    match program.line(command) {
        Some(line) => format!("command {command} (line {line})"),
        None => format!("command {command}"),
    }
}

/// A command's text with single blanks, cut where it is long.
pub(crate) fn short(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = say::one_line(&text);
    if text.chars().count() <= MOST_TEXT {
        return text;
    }
    text.chars().take(MOST_TEXT - 1).chain(['\u{2026}']).collect()
}
