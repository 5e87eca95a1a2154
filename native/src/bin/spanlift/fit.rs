//! `spanlift fit`: figures of a machine from measured rows, and what the rows cannot determine.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use spanlift::advise::{self, Fit, FitError, FittedFigure, FittedRow, Standing, Stop, USUAL_FIGURES};
use spanlift::text::{apart, columns, padded};

use crate::End;
use crate::cli::{Format, ReportArgs};
use crate::say::{self, Fail, Out, Style};
use crate::{input, machine, output};

/// Fit figures of a machine to measured rows, and say what the rows cannot determine
///
/// ROWS.json holds {"rows": [{"tensors": 1000, "bytes_each": 4000, "measured_ms": 25.2}, ...]}; a row may also say
/// `id`, `pinned`, `pin_call`, `copy`, `non_blocking`, `repeat_same`, `tensordict` and `pin_threads`, as the published
/// table does (native/data/tutorial-table.json, whose 16 rows are fitted within 1 % by nine figures). Every row is simulated;
/// the figures move until the relative residuals are smallest. A figure that no row depends on keeps its value and is named,
/// and so are figures of which the rows see only a combination.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  spanlift fit rows.json --machine h100-pcie5 -o my-box.json\n  \
    spanlift advise --tensors 1000x4KB --machine my-box.json")]
pub(crate) struct FitArgs {
    /// Measured rows, as JSON
    #[arg(value_name = "ROWS.json")]
    rows: PathBuf,
    /// Machine profile to begin with: a name or a JSON file [default: tutorial-ci]
    #[arg(long, value_name = "START")]
    machine: Option<String>,
    /// The figures to fit, by their names in profiles [default: the nine that the published table determines]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    figures: Vec<String>,
    /// Write the fitted profile here, for `--machine`
    #[arg(short, long, value_name = "OUT.json")]
    out: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(args: &FitArgs, out: &mut Out) -> Result<End, Fail> {
    let place = say::place(&args.rows);
    let bytes = input::read(&args.rows)?;
    let rows = advise::rows(&bytes).map_err(|e| match input::instead_of(&bytes, "a file of rows") {
        Some(what) => Fail::at(&place, what),
        None => Fail::at(&place, e),
    })?;
    let ignored: BTreeSet<&str> = rows.iter().flat_map(|row| &row.ignored).map(String::as_str).collect();
    if !ignored.is_empty() {
        let names = say::one_line(&ignored.into_iter().collect::<Vec<_>>().join(", "));
        say::warning_line(&format!("{place}: fields of rows that mean nothing here: {names}"));
    }
    let mut start = machine::asked(args.machine.as_deref())?.machine;
    let figures: Vec<&str> = match args.figures.len() {
        0 => USUAL_FIGURES.to_vec(),
        _ => args.figures.iter().map(String::as_str).collect(),
    };
    if let Some(path) = &args.out {
        output::is_free(path)?;
    }
    start.name = format!("{}, fitted", start.name);
    let fit = advise::fit(&rows, &start, &figures).map_err(|e| match e {
        FitError::Simulation { .. } => Fail::at(&place, e),
        _ => Fail::at("--figures", e),
    })?;
    if let Some(path) = &args.out {
        output::write(path, fit.machine.to_json().as_bytes())?;
    }
    match args.report.format {
        Format::Json => out.json(&object(&fit)),
        Format::Text => text(&fit, out),
    }
    if let (Some(path), Format::Text) = (&args.out, args.report.format) {
        out.line(&format!("\nWritten: {}", say::written(path)));
    }
    Ok(End::Done)
}

fn object(fit: &Fit) -> Value {
    let rows: Vec<Value> = fit
        .rows
        .iter()
        .map(|r| {
            json!({
                "id": r.id, "measured_ms": r.measured_ms, "fitted_ms": r.fitted_ms, "residual": r.residual(),
                "leverage": r.leverage,
            })
        })
        .collect();
    let figures: Vec<Value> = fit
        .figures
        .iter()
        .map(|f| {
            let error = if let Standing::Determined(error) = f.standing { error } else { None };
            json!({
                "name": f.name, "unit": f.unit, "start": f.start, "value": f.value, "influence": f.influence,
                "standing": standing(f.standing), "relative_error": error,
            })
        })
        .collect();
    let open: Vec<Value> = fit
        .undetermined
        .iter()
        .map(|d| {
            let parts: Vec<Value> =
                d.parts.iter().map(|(name, part)| json!({"name": name, "component": part})).collect();
            json!({"figures": parts, "moves_rows_by": d.moves})
        })
        .collect();
    let silent: Vec<&str> = silent(fit).map(|f| f.name.as_str()).collect();
    json!({
        "rows": rows, "worst_residual": fit.worst(), "rms_residual": fit.rms(), "figures": figures, "n_determined": fit.rank,
        "cannot_determine": {"no_influence": silent, "combinations": open},
        "n_steps": fit.n_steps, "settled": fit.stop == Stop::Settled,
        "profile": serde_json::from_str::<Value>(&fit.machine.to_json()).unwrap_or_default(),
    })
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Determined(_) => "determined",
        Standing::Open => "not determined",
        Standing::NoInfluence => "no influence",
    }
}

fn silent(fit: &Fit) -> impl Iterator<Item = &FittedFigure> {
    fit.figures.iter().filter(|f| f.standing == Standing::NoInfluence)
}

fn text(fit: &Fit, out: &mut Out) {
    let ids: Vec<String> = fit.rows.iter().map(|r| say::one_line(&r.id)).collect();
    let ids = apart(&ids, 36);
    let width = ids.iter().map(|id| columns(id)).max().unwrap_or(0).max(4);
    out.line(&out.paint(Style::Strong, &format!("{:<width$}  measured ms    fitted ms  residual", "row")));
    let is_alone = |r: &FittedRow| r.leverage > 0.99;
    for (r, id) in fit.rows.iter().zip(&ids) {
        let alone = if is_alone(r) { "  alone" } else { "" };
        let line = format!(
            "{} {:>12.4} {:>12.4} {:>+8.2} %{alone}",
            padded(id, width),
            r.measured_ms,
            r.fitted_ms,
            100.0 * r.residual()
        );
        out.line(&line);
    }
    if fit.rows.iter().any(is_alone) {
        out.line("alone: with its figure, and so says nothing of the fit");
    }
    let n_figures = fit.figures.len() - silent(fit).count();
    out.line(&format!(
        "\nworst {:.2} %, rms {:.2} %, with {} for {}",
        100.0 * fit.worst(),
        100.0 * fit.rms(),
        say::counted(n_figures, "fitted figure"),
        say::counted(fit.rows.len(), "row"),
    ));
    match fit.stop {
        Stop::Settled => {}
        Stop::StepLimit(n) => out.line(&format!("stopped after {n} steps, still getting better")),
    }
    out.line(&format!(
        "\n{}",
        out.paint(Style::Strong, "figure                        start        value       standard error")
    ));
    for f in &fit.figures {
        let said = match f.standing {
            Standing::Determined(Some(error)) => format!("± {:.1} %", 100.0 * error),
            Standing::Determined(None) => "as many figures as rows: no error can be told".to_owned(),
            Standing::Open => out.paint(Style::May, "not determined by these rows"),
            Standing::NoInfluence => out.paint(Style::May, "no influence on any row: left as it was"),
        };
        out.line(&format!("{:<24} {:>10.4} {:>12.4} {:<5} {said}", f.name, f.start, f.value, f.unit));
    }
    if silent(fit).next().is_none() && fit.undetermined.is_empty() {
        return out.line("\nThe rows determine every one of them.");
    }
    out.line(&format!("\n{}", out.paint(Style::Strong, "What these rows cannot determine")));
    for f in silent(fit) {
        out.line(&format!("  {}: no row depends on it", f.name));
    }
    for d in &fit.undetermined {
        let parts: Vec<String> = d.parts.iter().map(|(name, part)| format!("{part:+.2} {name}")).collect();
        let how = match d.parts.len() {
            1 => "hardly moves a row",
            _ => "these together hardly move a row, so that only another combination of them is seen",
        };
        out.line(&format!("  {}: {how}", parts.join(", ")));
    }
}
