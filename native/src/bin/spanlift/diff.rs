//! `spanlift diff`: two traces compared by the medians of their training steps, with an exit code for regressions.

use std::path::Path;
use std::str::FromStr;

use serde::Serialize;
use spanlift::text::{apart, grouped, signed_percent};
use spanlift::trace::analysis::{Change, Comparison, Steps, compare};

use crate::End;
use crate::analyze;
use crate::cli::{DiffArgs, Format};
use crate::help;
use crate::say::{self, Fail, Out, Style};

/// Rows told of each kind.
const MOST_ROWS: usize = 10;

/// How much more of a figure is a regression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    name: String,
    more: More,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum More {
    /// Of the first trace's median.
    Percent(f64),
    Nanoseconds(i128),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let wrong = || format!("{text:?} is not of the form step_ns>5% or h2d_busy_ns>100us");
        // Names of copies have arrows in them.
        let (name, amount) = text.rsplit_once('>').ok_or_else(wrong)?;
        let amount = amount.trim();
        let digits = amount.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(amount.len());
        let number: f64 = amount[..digits].parse().map_err(|_| wrong())?;
        let per = match amount[digits..].trim() {
            "%" => return Ok(Limit { name: name.trim().to_owned(), more: More::Percent(number) }),
            "ns" => 1.0,
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return Err(wrong()),
        };
        let ns = format!("{:.0}", number * per).parse().map_err(|_| wrong())?;
        Ok(Limit { name: name.trim().to_owned(), more: More::Nanoseconds(ns) })
    }
}

impl Limit {
    /// The change that goes beyond the limit.
    fn passed_by<'a>(&self, found: &'a Comparison) -> Result<Option<&'a Change>, Fail> {
        let all = || found.figures.iter().chain(&found.work).chain(&found.calls);
        let change = all().find(|change| change.name == self.name).ok_or_else(|| {
            let known: Vec<&str> = found.figures.iter().map(|change| change.name.as_str()).collect();
            Fail::new(format!(
                "neither trace has {:?}: {}, or the name of a kernel, copy or host call",
                self.name,
                known.join(", ")
            ))
        })?;
        let passed = match self.more {
            // Whole percents are exact: what grew by 29 % of 100 ns has not passed 29 %.
            More::Percent(percent) => 100.0 * change.more_ns as f64 > percent * change.a_ns as f64,
            More::Nanoseconds(ns) => ns < change.more_ns,
        };
        Ok((passed && 0 < change.more_ns).then_some(change))
    }
}

/// What is printed.
#[derive(Serialize)]
struct Report<'a> {
    n_steps_a: usize,
    n_steps_b: usize,
    figures: &'a [Change],
    work: &'a [Change],
    calls: &'a [Change],
    regressions: Vec<&'a Change>,
}

pub(crate) fn run(args: &DiffArgs, out: &mut Out) -> Result<End, Fail> {
    let (a, b) = (steps(&args.a)?, steps(&args.b)?);
    let found = compare(&a, &b);
    let [a_is_one, b_is_one] = found.n_steps.map(|n| n == 1);
    if a_is_one != b_is_one {
        let place = say::place(if a_is_one { &args.a } else { &args.b });
        say::warning_line(&format!(
            "{place}: one step, where the other trace has more: one without marks `ProfilerStep#N` counts as one"
        ));
    }
    let mut regressions = Vec::new();
    for limit in &args.fail_if {
        regressions.extend(limit.passed_by(&found)?);
    }
    match args.report.format {
        Format::Json => {
            let [n_steps_a, n_steps_b] = found.n_steps;
            let Comparison { figures, work, calls, .. } = &found;
            out.json(&Report {
                n_steps_a,
                n_steps_b,
                figures,
                work,
                calls,
                regressions: regressions.clone(),
            });
        }
        Format::Text => text(args, &found, &regressions, out),
    }
    Ok(if regressions.is_empty() { End::Done } else { End::Hazard })
}

fn steps(path: &Path) -> Result<Steps, Fail> {
    Ok(Steps::of(analyze::trace(path)?.as_ref()))
}

fn text(args: &DiffArgs, found: &Comparison, regressions: &[&Change], out: &mut Out) {
    let [a, b] = found.n_steps.map(|n| say::counted(n, "step"));
    out.line(&say::one_line(&format!(
        "{}: {a}; {}: {b}; medians of a step",
        say::place(&args.a),
        say::place(&args.b)
    )));
    for (title, changes) in
        [("figures", &found.figures), ("kernels, copies, memsets", &found.work), ("host calls", &found.calls)]
    {
        let changed: Vec<&Change> = changes.iter().filter(|c| c.more_ns != 0 || title == "figures").collect();
        if changed.is_empty() {
            continue;
        }
        out.line(&format!("\n{}", out.paint(Style::Strong, title)));
        let head = format!("  {:>12}  {:>12}  {:>10}", "before", "after", "change");
        out.line(&out.paint(Style::Strong, &head));
        let names: Vec<String> =
            changed.iter().take(MOST_ROWS).map(|change| say::one_line(&change.name)).collect();
        // What the figures leave of a terminal's line.
        for (change, name) in changed.iter().zip(apart(&names, help::WIDTH - 42)) {
            let relative = match change.relative {
                Some(relative) => signed_percent(relative),
                None if change.more_ns == 0 => signed_percent(0.0),
                None => "from 0".to_owned(),
            };
            out.line(&format!(
                "  {:>12}  {:>12}  {relative:>10}  {name}",
                analyze::time(change.a_ns),
                analyze::time(change.b_ns)
            ));
        }
        if MOST_ROWS < changed.len() {
            let n = grouped(changed.len() - MOST_ROWS);
            out.line(&format!("  and {n} more, which --format json lists"));
        }
    }
    for change in regressions {
        let name = say::one_line(&change.name);
        let grew =
            format!("{name} grew from {} to {}", analyze::time(change.a_ns), analyze::time(change.b_ns));
        out.line(&format!("\n{} {grew}", out.paint(Style::Error, "regression:")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shares_or_times() {
        let limit = |text: &str| text.parse::<Limit>().ok().map(|limit| limit.more);
        assert_eq!(limit("step_ns>5%"), Some(More::Percent(5.0)));
        assert_eq!(limit("step_ns > 1.5 ms"), Some(More::Nanoseconds(1_500_000)));
        assert_eq!(limit("cudaLaunchKernel>7ns"), Some(More::Nanoseconds(7)));
        for wrong in ["step_ns", "step_ns>", "step_ns>5", "step_ns<5%", "step_ns>x%", "step_ns>5h"] {
            assert_eq!(limit(wrong), None, "{wrong}");
        }
    }
}
