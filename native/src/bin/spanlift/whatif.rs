//! `spanlift run --what-if`: a changed program or machine beside the one that was given.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use spanlift::advise::whatif::{Changed, Comparison, WhatIf, compare, what_if};
use spanlift::hazard::{self, Mode, Terms, Verdict};
use spanlift::machine::Machine;
use spanlift::program::Op;
use spanlift::sim::{self, Run};
use spanlift::text::grouped;
use spanlift::{Nanos, Program};

use crate::machine;
use crate::run::{self, heading, pad, widest};
use crate::say::{self, Fail, Out, Style};

/// Commands told at most in text; `--format json` lists all.
const MOST_COMMANDS: usize = 8;

/// The changed run.
pub(crate) struct Made {
    changes: Vec<WhatIf>,
    /// The program and the machine of it.
    pub(crate) changed: Changed,
    /// What it did.
    pub(crate) run: Run,
    verdicts: [Verdict; 2],
    compared: Comparison,
}

/// The changes as they are typed, with the profiles of the files that they name.
///
/// # Errors
/// One line for each that is none; or for a file that is no profile.
pub(crate) fn read(texts: &[String]) -> Result<Vec<WhatIf>, Fail> {
    let read: Vec<_> = texts.iter().map(|text| text.parse::<WhatIf>()).collect();
    let wrong: Vec<String> = read.iter().filter_map(|r| r.as_ref().err().map(pointed)).collect();
    if !wrong.is_empty() {
        return Err(Fail::all("--what-if", &wrong));
    }
    let mut changes: Vec<WhatIf> = read.into_iter().flatten().collect();
    give("--what-if", &mut changes)?;
    Ok(changes)
}

/// What is wrong with a change; of an unknown figure also where the known ones are listed.
pub(crate) fn pointed(error: impl std::fmt::Display) -> String {
    let told = error.to_string();
    let pointer = if told.contains("no figure of machines is called") {
        "; `spanlift machines NAME` lists them"
    } else {
        ""
    };
    told + pointer
}

/// Gives changes the profiles that they name, where they are not built in; `place` is what the call calls them.
///
/// # Errors
/// As [`machine::named`].
pub(crate) fn give<'a>(place: &str, changes: impl IntoIterator<Item = &'a mut WhatIf>) -> Result<(), Fail> {
    for change in changes {
        let place = format!("{place}: {:?}", change.to_string());
        if let Some(profile) = change.profile_mut() {
            profile.given = Some(Box::new(machine::named_at(&place, &profile.name)?.machine));
        }
    }
    Ok(())
}

/// Makes the changes and runs what comes of them; nothing where there are none.
///
/// # Errors
/// One line: a change that cannot be made, or a changed program that cannot be run.
pub(crate) fn make(
    changes: Vec<WhatIf>,
    (program, machine): (&Program, &Machine),
    before: &Run,
    verdict: Verdict,
) -> Result<Option<Made>, Fail> {
    if changes.is_empty() {
        return Ok(None);
    }
    let changed = what_if(program, machine, &changes).map_err(|e| Fail::at("--what-if", e))?;
    for idle in idle(&changes, program, machine) {
        say::warning_line(&format!(
            "--what-if: {:?}: all work of a stream touches common memory, so nothing goes to another",
            idle.to_string()
        ));
    }
    let run = sim::run(&changed.program, &changed.machine).map_err(|e| run::failed("--what-if", &e))?;
    let report = hazard::check(&changed.program, Terms::of(Mode::Contract, &changed.machine))
        .map_err(|e| Fail::at("--what-if", e))?;
    let compared = compare(before, &run, &changed.from);
    Ok(Some(Made { changes, changed, run, verdicts: [verdict, report.verdict()], compared }))
}

/// The changes that split streams of which no work can go elsewhere.
fn idle<'c>(changes: &'c [WhatIf], program: &Program, machine: &Machine) -> Vec<&'c WhatIf> {
    let busy = |program: &Program| {
        // All that a split deals out, whether or not it touches memory.
        let working = program.commands().iter().filter(|command| {
            matches!(
                command.op,
                Op::Kernel(_)
                    | Op::HostFn { .. }
                    | Op::Copy(_)
                    | Op::Memset { .. }
                    | Op::Alloc(_)
                    | Op::Free { .. }
            )
        });
        working.filter_map(|command| command.op.stream()).collect::<BTreeSet<_>>().len()
    };
    let before = |k: usize| what_if(program, machine, &changes[..k]).map(|made| busy(&made.program));
    let split = (0..changes.len()).filter(|&k| is_split(&changes[k]));
    split.filter(|&k| before(k) == before(k + 1)).map(|k| &changes[k]).collect()
}

/// Whether work is dealt out; one of each stream is that stream.
fn is_split(change: &WhatIf) -> bool {
    matches!(change, WhatIf::Split { n: 2.., .. } | WhatIf::Streams(2..))
}

impl Made {
    pub(crate) fn object(&self) -> Value {
        let Comparison { end, lanes, commands, marks, ledger } = &self.compared;
        let lanes = lanes.iter().map(|l| {
            let [before, after] = l.busy;
            json!({
                "group": l.group, "name": l.name, "is_engine": l.is_engine,
                "before_busy_ns": before, "after_busy_ns": after, "saved_ns": l.saved(),
            })
        });
        let commands = commands.iter().map(|c| {
            let [before, after] =
                c.span.map(|span| span.map(|(start, end)| json!({"start_ns": start, "end_ns": end})));
            json!({
                "command": c.index, "name": c.name, "before": before, "after": after, "saved_ns": c.saved(),
            })
        });
        json!({
            "changes": self.changes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "machine": self.changed.machine.name, "n_commands": self.changed.program.len(),
            "verdict": self.verdicts[1].name(), "end_ns": end[1], "saved_ns": self.compared.saved(),
            "marks": marks.iter().map(|m| {
                let [before, after] = m.at;
                json!({"label": m.label, "before_at_ns": before, "after_at_ns": after})
            }).collect::<Vec<_>>(),
            "ledger": crate::ledger::object(&ledger[1]),
            "lanes": lanes.collect::<Vec<_>>(), "commands": commands.collect::<Vec<_>>(),
        })
    }

    pub(crate) fn text(&self, out: &mut Out) {
        let Comparison { end: [before, after], lanes, commands, marks, ledger } = &self.compared;
        let changes: Vec<String> = self.changes.iter().map(ToString::to_string).collect();
        let sooner = self.compared.saved();
        let by = Nanos(sooner.0.abs());
        let difference = match sooner.0 {
            0 => "as before".to_owned(),
            ..0 => out.paint(Style::May, &format!("{by} later")),
            _ => out.paint(Style::Good, &format!("{by} sooner")),
        };
        let times = if 0 < after.0 && sooner != Nanos(0) {
            format!(", {:.2} times as fast", before.0 as f64 / after.0 as f64)
        } else {
            String::new()
        };
        out.line(&format!("what if {}: {after}, {difference}{times}", say::one_line(&changes.join(", "))));
        if let [was, is] = self.verdicts
            && was != is
        {
            let text = format!("verdict by contract: {} before, {} after", was.name(), is.name());
            out.line(&out.paint(if is == Verdict::Safe { Style::Good } else { Style::Error }, &text));
            if was == Verdict::Safe && self.changes.iter().any(is_split) {
                out.line(
                    "  order that only a default stream or a call's return kept does not outlast a split",
                );
            }
        }
        if !marks.is_empty() {
            heading(out, "from mark to mark               before          after     difference");
            let mut last = [Some(Nanos(0)); 2];
            for mark in marks.iter().take(MOST_COMMANDS) {
                let since = [0, 1].map(|k| Some(Nanos(mark.at[k]?.0 - last[k]?.0)));
                row(out, &mark.label, 26, since);
                last = mark.at;
            }
        }
        heading(out, "busy                            before          after     difference");
        let titles = run::titles(lanes.iter().map(|l| (l.group.as_str(), l.name.as_str(), l.is_engine)));
        let width = widest(titles.iter().map(String::as_str)).max(26);
        for (lane, title) in lanes.iter().zip(&titles) {
            row(out, title, width, lane.busy);
        }
        let mut moved: Vec<_> = commands.iter().filter(|c| c.saved() != Nanos(0)).collect();
        moved.sort_by_key(|c| (std::cmp::Reverse(c.saved().0.abs()), c.index));
        if !moved.is_empty() {
            heading(out, "commands that differ most, from call to end");
            let width = widest(moved.iter().take(MOST_COMMANDS).map(|c| c.name.as_str())).max(20);
            for change in moved.iter().take(MOST_COMMANDS) {
                let [before, after] = change.span.map(|span| {
                    span.map_or_else(|| "-".to_owned(), |(start, end)| millis(Nanos(end.0 - start.0)))
                });
                let difference = signed(Nanos(-change.saved().0));
                let index = format!("command {}", change.index);
                out.line(&format!(
                    "  {index:<14}  {}  {before:>11}  {after:>11}  {difference:>12}",
                    pad(&change.name, width)
                ));
            }
            if MOST_COMMANDS < moved.len() {
                let more = grouped(moved.len() - MOST_COMMANDS);
                out.line(&format!("  and {more} more, which --format json lists"));
            }
        }
        if ledger[0] != ledger[1] {
            crate::ledger::text(&ledger[1], out);
        }
    }
}

/// A name with the times before and after.
fn row(out: &mut Out, name: &str, width: usize, times: [Option<Nanos>; 2]) {
    let [before, after] = times.map(|t| t.map_or_else(|| "-".to_owned(), millis));
    let [was, is] = times.map(|t| t.unwrap_or_default().0);
    let difference = signed(Nanos(is - was));
    out.line(&format!("  {}  {before:>11}  {after:>13}  {difference:>13}", pad(name, width)));
}

/// Milliseconds with three decimals, as differences are compared.
fn millis(time: Nanos) -> String {
    format!("{:.3} ms", time.as_millis())
}

fn signed(time: Nanos) -> String {
    match time.0 {
        0 => "0".to_owned(),
        ns if ns.abs() < 500 => format!("{ns:+} ns"),
        _ => format!("{:+.3} ms", time.as_millis()),
    }
}
