//! `spanlift machines`: the profiles that can be simulated, and where each of their figures is from.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use spanlift::machine::{Figure, Grade, Machine};
use spanlift::text::columns;

use crate::End;
use crate::cli::{Format, ReportArgs};
use crate::say::{self, Fail, Out, Style};
use crate::{input, machine};

/// List the machine profiles, or tell every figure of one and where it is from
///
/// A profile says what a host and its devices cost: links, engines, staging, calls. The ones that come with spanlift are
/// taken by name wherever `--machine` is; so is a JSON file of your own, which needs no more than the rate to the device:
/// {"name": "my-box", "h2d_bw": 26.0}. What a file leaves out is assumed, and marked so here.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  spanlift machines h200-pcie5\n  spanlift machines my-box.json --format json"
)]
pub(crate) struct MachinesArgs {
    /// A profile by name, or a JSON file of profiles [default: all that come with spanlift]
    #[arg(value_name = "NAME")]
    name: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(args: &MachinesArgs, out: &mut Out) -> Result<End, Fail> {
    let machines = match &args.name {
        None => Machine::names().filter_map(Machine::builtin).collect(),
        Some(name) => of(name)?,
    };
    match (args.report.format, &machines[..], &args.name) {
        (Format::Json, machines, _) => {
            let list: Vec<Value> = machines.iter().map(object).collect();
            out.json(&list);
        }
        (Format::Text, [one], Some(_)) => figures(one, out),
        (Format::Text, machines, _) => table(machines, out),
    }
    Ok(End::Done)
}

/// The profile of this name, or all of this file.
fn of(name: &Path) -> Result<Vec<Machine>, Fail> {
    if !machine::is_file(name) {
        return machine::named_at("NAME", &name.to_string_lossy()).map(|chosen| vec![chosen.machine]);
    }
    let bytes = input::read(name)?;
    let machines = Machine::all_from_json(&bytes).map_err(|e| machine::wrong(name, &bytes, e))?;
    if machines.is_empty() {
        return Err(Fail::at(&say::place(name), "the file holds no machine profile"));
    }
    Ok(machines)
}

fn object(machine: &Machine) -> Value {
    let figures: Vec<Value> = machine
        .figures()
        .map(|f| {
            let value: Value = serde_json::from_str(&f.value).unwrap_or_default();
            json!({
                "name": f.name, "value": value, "unit": f.unit,
                "grade": f.source.grade.to_string(), "source": &*f.source.text,
            })
        })
        .collect();
    json!({"name": machine.name, "note": machine.note, "figures": figures, "ignored": machine.ignored})
}

fn table(machines: &[Machine], out: &mut Out) {
    let head = "               to device  to host  both ways  staged hot/cold  copy     between";
    out.line(&out.paint(Style::Strong, head));
    let head = "               GB/s       GB/s     to device  GB/s             engines  devices";
    out.line(&out.paint(Style::Strong, head));
    let mut n_figures = 0;
    let mut grades = [0usize; 5];
    for m in machines {
        let of = |name: &str| m.figure(name).unwrap_or_default();
        let staged = if m.pageable_direct {
            format!("direct {:.1}", of("pageable_h2d_bw"))
        } else {
            format!("{:.1} / {:.1}", of("stage_hot_bw"), of("stage_cold_bw"))
        };
        let peers = if m.p2p_bw.0 == 0 { "via host".to_owned() } else { format!("{:.0} GB/s", of("p2p_bw")) };
        out.line(&format!(
            "{:<14} {:<10.1} {:<8.1} {:<10} {staged:<16} {:<8} {peers}",
            say::one_line(&m.name),
            of("h2d_bw"),
            of("d2h_bw"),
            format!("x {:.2}", of("bidir_factor_h2d")),
            m.copy_engines,
        ));
        for figure in m.figures() {
            n_figures += 1;
            grades[rank(figure.source.grade)] += 1;
        }
    }
    let told: Vec<String> =
        GRADES.iter().zip(grades).filter(|(_, n)| *n > 0).map(|(g, n)| format!("{n} {g}")).collect();
    out.line(&format!(
        "\n{n_figures} figures: {}. `spanlift machines NAME` tells where each is from.",
        told.join(", ")
    ));
    for m in machines.iter().filter(|m| !m.ignored.is_empty()) {
        out.line(&format!("fields of {} that mean nothing here: {}", say::one_line(&m.name), ignored(m)));
    }
}

const GRADES: [Grade; 5] =
    [Grade::Measured, Grade::Derived, Grade::Estimated, Grade::Assumed, Grade::Unstated];

fn rank(grade: Grade) -> usize {
    GRADES.iter().position(|g| *g == grade).unwrap_or(GRADES.len() - 1)
}

fn figures(machine: &Machine, out: &mut Out) {
    out.line(&out.paint(Style::Strong, &say::one_line(&machine.name)));
    if !machine.note.is_empty() {
        out.line(&say::one_line(&machine.note));
    }
    out.line("");
    let value = |f: &Figure| format!("{} {}", f.value, f.unit);
    let width = machine.figures().map(|f| columns(&value(&f))).max().unwrap_or(0);
    for f in machine.figures() {
        let line = format!(
            "  {:<22}  {:<width$}  {:<9}  {}",
            f.name,
            value(&f),
            f.source.grade,
            say::one_line(&f.source.text)
        );
        out.line(line.trim_end());
    }
    if !machine.ignored.is_empty() {
        out.line(&format!("\nfields that mean nothing here: {}", ignored(machine)));
    }
}

fn ignored(machine: &Machine) -> String {
    say::one_line(&machine.ignored.join(", "))
}
