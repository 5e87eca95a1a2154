//! Lesson 7: what chains over several devices move, and plans as answers.

use std::collections::BTreeSet;

use spanlift::hazard::{self, Mode};
use spanlift::machine::Machine;
use spanlift::memory::Device;
use spanlift::op::Operator;
use spanlift::plan::{Plan, PlanError};
use spanlift::sim::{self, Run};
use spanlift::trace::LaneKind;
use spanlift::{Bytes, Program};

use super::operators::{busy, safe, same};
use super::{Expression, told};
use crate::scene::{Scene, Text};
use crate::show::Figure;
use crate::svg::svg;
use crate::text;
use crate::theme::Theme;

/// The transfers of several operators, counted: a line for each one, with the way that its data takes.
///
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, cuda};
/// use spanlift::op::{Operator, Space, to};
/// let there = Space::new([("x", 256)], Dtype::F32)?.on(cuda(0));
/// let a = chain![to(cuda(0)), Operator::scale(2.0, there)?, to(cpu())]?;
/// let told = spanlift_viewer::course::transfers([("forward", &a), ("nothing", &Operator::scale(2.0, a.domain().clone())?)]);
/// assert_eq!(told.plain(), "forward  2 transfers  2.00 KiB  cpu -> cuda:0 -> cpu\nnothing  0 transfers  0 B");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn transfers<'a, E: Expression + 'a>(ways: impl IntoIterator<Item = (&'a str, E)>) -> Figure {
    let planned = |(name, way): (&str, E)| {
        let plan = way.operator()?.plan().map_err(|e| e.to_string())?;
        Ok(Way::of(name, &plan))
    };
    match ways.into_iter().map(planned).collect::<Result<Vec<Way>, String>>() {
        Ok(ways) => counted(&ways),
        Err(why) => Figure::error(&why),
    }
}

/// A line and a row for each way.
pub(super) fn counted(ways: &[Way]) -> Figure {
    let width = ways.iter().map(|way| way.columns[0].chars().count()).max().unwrap_or(0);
    let line = |way: &Way| {
        let [name, count, bytes] = &way.columns;
        format!("{name:width$}  {count}  {bytes}  {}", way.route).trim_end().to_owned()
    };
    let told = ways.iter().map(line).collect::<Vec<String>>().join("\n");
    let drawn = svg(&scene(ways, &Theme::LIGHT), "transfers", &told);
    Figure::still(told, "transfers", drawn)
}

/// What an operator moves.
pub(super) struct Way {
    /// Its name, how many transfers it takes, and their bytes.
    columns: [String; 3],
    /// From device to device.
    route: String,
}

impl Way {
    pub(super) fn of(name: &str, plan: &Plan) -> Way {
        let all = plan.transfers();
        let bytes = Bytes(all.iter().map(|t| t.bytes.0).fold(0, u64::saturating_add));
        let mut route = String::new();
        let mut at: Option<Device> = None;
        for t in all {
            match at {
                Some(here) if here == t.from => route.push_str(&format!(" -> {}", t.to)),
                Some(_) => route.push_str(&format!(", {} -> {}", t.from, t.to)),
                None => route.push_str(&format!("{} -> {}", t.from, t.to)),
            }
            at = Some(t.to);
        }
        let columns = [name.to_owned(), text::count(all.len(), "transfer"), bytes.to_string()];
        Way { columns, route }
    }
}

const SIZE: f64 = 12.0;

/// A row for each way; a long route goes on below.
fn scene(ways: &[Way], theme: &Theme) -> Scene {
    let mut scene = Scene::new(860.0, 0.0, theme.ground);
    let widest =
        |k: usize| ways.iter().map(|w| text::width(&w.columns[k], SIZE, true)).fold(0.0, f64::max).min(200.0);
    let left = [0, 1, 2].map(|k| 12.0 + (0..k).map(|k| widest(k) + 18.0).sum::<f64>());
    let routes = left[2] + widest(2) + 18.0;
    let mut y = 16.0;
    for way in ways {
        for (k, (words, x)) in way.columns.iter().zip(left).enumerate() {
            let words = text::fit(words, SIZE, true, 200.0).unwrap_or_default();
            let words = Text::new(x, y, SIZE, theme.ink, words);
            scene.add(if k == 0 { words.bold() } else { words });
        }
        let lines = text::wrap(&way.route, SIZE, scene.width - routes - 12.0);
        for line in &lines {
            scene.add(Text::new(routes, y, SIZE, theme.ink, line.as_str()));
            y += 18.0;
        }
        y += if lines.is_empty() { 22.0 } else { 4.0 };
    }
    scene.height = y - 4.0;
    scene
}

/// How long the busiest engine of a run works: nothing can be done sooner.
fn busiest(run: &Run) -> i64 {
    let mut busy = vec![0i64; run.trace.lanes.len()];
    for slice in run.trace.slices.iter() {
        if matches!(run.trace.lanes[slice.lane as usize].kind, LaneKind::Engine { .. }) {
            busy[slice.lane as usize] += slice.end.0 - slice.start.0;
        }
    }
    busy.into_iter().max().unwrap_or(0)
}

fn simulated(program: &Program, machine: &Machine) -> Result<Run, String> {
    sim::run(program, machine).map_err(|e| e.to_string())
}

/// Lesson 7, exercise 3: a plan of what was asked for, on the devices that it computes on, that keeps its busiest engine busy, within
/// a limit on each device.
///
/// The busiest engine of the plan without tiles says how long it takes at least; a third more is allowed for what cannot overlap,
/// the beginning and the end.
pub fn check_overlapped(
    answer: Result<Plan, PlanError>,
    asked: &Operator,
    cap: Bytes,
    machine: &Machine,
) -> Figure {
    told(answer.map_err(|e| e.to_string()).and_then(|plan| overlapped(&plan, asked, cap, machine)))
}

pub(super) fn overlapped(
    plan: &Plan,
    asked: &Operator,
    cap: Bytes,
    machine: &Machine,
) -> Result<String, String> {
    same(plan.operator(), asked)?;
    let whole = asked.plan().map_err(|e| e.to_string())?;
    let devices: BTreeSet<Device> = whole.work().map(|(_, at)| at).filter(|at| !at.is_host()).collect();
    busy(plan, devices)?;
    safe(plan.program())?;
    let least = busiest(&simulated(whole.program(), machine)?);
    let took = simulated(plan.program(), machine)?.end.0;
    let peaks: Vec<String> = plan
        .peaks()
        .iter()
        .filter(|(device, _)| !device.is_host())
        .map(|(device, peak)| format!("\n{device} holds {}", peak.total()))
        .collect();
    let n = text::count(plan.transfers().len(), "transfer");
    let report = hazard::check(plan.program(), Mode::Contract).map_err(|e| e.to_string())?;
    let sums = format!(
        "{n}, {} by contract, {}; the busiest engine alone takes {}{}",
        report.verdict().name(),
        text::time(took),
        text::time(least),
        peaks.concat()
    );
    let over = plan.peaks().iter().find(|(device, peak)| !device.is_host() && cap < peak.total());
    if let Some((device, _)) = over {
        return Err(format!("{device} holds more than {cap}\n{sums}"));
    }
    match took <= least + least / 3 {
        true => Ok(sums),
        false => Err(format!("too little at the same time\n{sums}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlift::chain;
    use spanlift::memory::{Dtype, cpu, cuda};
    use spanlift::op::{Complex64, Diagonal, Space, Tensor, to};
    use spanlift::plan::Planning;

    /// Large enough for copies to take longer than the calls that ask for them.
    const N: i64 = 256;

    fn weight(device: Device, name: &str) -> Operator {
        let images = Space::new([("b", 8), ("y", N), ("x", N)], Dtype::C32).unwrap().on(device);
        let phase = |k: i64| Complex64::from_polar(1.0, (k % 7) as f64);
        let w = Tensor::new([("y", N), ("x", N)], (0..N * N).map(phase));
        Operator::from(Diagonal::broadcast(images, &w.unwrap()).unwrap().named(name))
    }

    fn over_two() -> Operator {
        chain![to(cuda(0)), weight(cuda(0), "W0"), to(cuda(1)), weight(cuda(1), "W1"), to(cpu())].unwrap()
    }

    #[track_caller]
    fn check(figure: &Figure, expected: &str) {
        assert!(figure.plain().contains(expected), "{expected:?} is not in {}", figure.plain());
    }

    #[test]
    fn ways_are_counted_with_their_routes() {
        let a = over_two();
        let told = transfers([("forward", a.clone()), ("normal", a.normal())]);
        assert_eq!(
            told.plain(),
            "forward  3 transfers  12.00 MiB  cpu -> cuda:0 -> cuda:1 -> cpu\n\
             normal   4 transfers  16.00 MiB  cpu -> cuda:0 -> cuda:1 -> cuda:0 -> cpu"
        );
        let plan = a.plan().unwrap();
        let long = Way { route: ["cuda:0 -> cuda:1"; 20].join(", "), ..Way::of("a name", &plan) };
        crate::testing::texts_keep_apart(&scene(&[long, Way::of("b", &plan)], &Theme::LIGHT));
        let wrong = chain![to(cuda(0)), weight(cuda(1), "W1")];
        check(&transfers([("wrong", wrong)]), "`W1` expects");
    }

    /// The whole at once overlaps nothing; tiles one ahead do; too many sets of buffers are too much memory.
    #[test]
    fn plans_are_judged_by_time_and_memory() {
        let (asked, machine) = (over_two(), Machine::builtin("v100-pcie3").unwrap());
        let judge = |plan, kib: u64| check_overlapped(plan, &asked, Bytes(kib << 10), &machine);
        let tiles = asked.tiles([("b", 1)]).unwrap().joined().unwrap();
        check(&judge(asked.plan(), 8192), "not yet: too little at the same time\n3 transfers");
        let none = Planning::new().ahead(0).plan(&tiles);
        check(&judge(none, 8192), "not yet: too little at the same time\n24 transfers");
        let one = Planning::new().ahead(1).plan(&tiles);
        check(&judge(one.clone(), 2048), "right: 24 transfers, safe by contract");
        check(&judge(one, 1024), "not yet: cuda:0 holds more than 1.00 MiB");
        check(&judge(asked.h().plan(), 8192), "not yet: another operator");
        // The same values on one device are another exercise.
        let one = asked.simplify().tiles([("b", 1)]).unwrap().joined().unwrap();
        let one = Planning::new().ahead(1).plan(&one);
        check(&judge(one, 2048), "not yet: the right values, but nothing is computed on cuda:");
        let adjoint = asked.h().tiles([("b", 1)]).unwrap().joined().unwrap();
        let (adjoint, chain) =
            (Planning::new().ahead(1).plan(&adjoint), Planning::new().ahead(1).plan(&tiles));
        let judge = |plan| check_overlapped(plan, &asked.h(), Bytes(2048 << 10), &machine);
        check(&judge(adjoint), "right: 24 transfers, safe by contract");
        check(&judge(chain), "not yet: another operator");
    }
}
