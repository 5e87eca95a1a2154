//! The orders that show a finding: schedules of the program's relation, as traces to draw and as one picture.

use spanlift::explore::{self, STEP, Shown as Seen, Witness};
use spanlift::hazard::{self, Hazard, Mode, Relation};
use spanlift::program::Op;
use spanlift::text::grouped;
use spanlift::trace::{Slices, Trace};
use spanlift::{Nanos, Program};

use crate::figure::{self, Note, Panel, PanelOptions};
use crate::finding::Finding;
use crate::rows::Shown;
use crate::scene::Scene;
use crate::theme::Theme;

/// Commands of a program whose orders are made while somebody waits.
const MOST_COMMANDS: usize = 20_000;
/// Steps of an order that a still picture shows as a whole.
const WHOLE: usize = 48;
/// Steps before and after the two accesses that a still picture of a longer one shows.
const AROUND: usize = 8;

/// One order of all steps that shows a finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// By its two accesses: `copy, then scale`.
    pub title: String,
    /// Its name, with which `spanlift run --replay` makes it again.
    pub replay: String,
    /// What is found or left in the bytes in conflict: `scale: finds bytes that nothing has written`.
    pub seen: String,
    /// The two accesses, by the slices of the trace.
    pub finding: Finding,
    /// A microsecond for each step.
    pub trace: Trace,
}

/// The orders that show the `k`-th finding of a program: two for a race, one for memory that is not there, none for what is
/// not certain.
///
/// # Errors
/// Why there are none, in words: no such finding, or a program so long that making them takes too long.
///
/// ```
/// use spanlift_viewer::orders::orders;
/// let p = spanlift::Program::from_text("stream a, b\ndevice d 8\nkernel fill on a writes d\nkernel use on b reads d")?;
/// let both = orders(&p, spanlift::hazard::Mode::Contract, 0)?;
/// assert_eq!([&both[0].title, &both[1].title], ["fill, then use", "use, then fill"]);
/// assert_eq!(both[1].seen, "use: finds bytes that nothing has written");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn orders(program: &Program, mode: Mode, k: usize) -> Result<Vec<Order>, String> {
    if program.len() > MOST_COMMANDS {
        return Err(format!("orders are made of up to {} commands", grouped(MOST_COMMANDS)));
    }
    let report = hazard::check(program, mode).map_err(|e| e.to_string())?;
    let hazard = report.hazards.get(k).ok_or_else(|| format!("there is no finding {k}"))?;
    let relation = Relation::of(program, mode).map_err(|e| e.to_string())?;
    of_hazard(&relation, hazard)
}

/// As [`orders`], where hazard and relation are known.
///
/// # Errors
/// That making them takes too long.
pub fn of_hazard(relation: &Relation<'_>, hazard: &Hazard) -> Result<Vec<Order>, String> {
    let witness = explore::witness(relation, hazard).map_err(|e| e.to_string())?;
    let Some(witness) = witness else { return Ok(Vec::new()) };
    Ok(witness.shown.iter().map(|shown| order(relation, hazard, &witness, shown)).collect())
}

fn order(relation: &Relation<'_>, hazard: &Hazard, witness: &Witness, shown: &Seen) -> Order {
    let program = relation.program;
    let place =
        |site| shown.schedule.ids(relation).position(|id| id == site).and_then(|k| u32::try_from(k).ok());
    let who = explore::step_name(program, shown.seen.by);
    Order {
        title: explore::order_in_words(relation, witness, shown),
        replay: shown.holds.to_string(),
        seen: format!("{who}: {}", explore::seen_in_words(relation, hazard, &shown.seen)),
        finding: Finding {
            first: witness.sites[0].of(),
            second: witness.sites[1].of(),
            slices: place(witness.sites[0]).zip(place(witness.sites[1])),
            is_certain: true,
            ..Finding::default()
        },
        trace: shown.schedule.trace(relation),
    }
}

/// The lanes of an order: who runs a step, not what moves its bytes.
pub fn lanes() -> Shown {
    Shown { engines: false, ..Shown::default() }
}

impl Order {
    /// Which steps a picture shows: of many those around the two accesses, of few all but the declarations before them.
    fn window(&self) -> (usize, usize) {
        let n = self.trace.slices.len();
        let (a, b) = self.finding.slices.unwrap_or((0, 0));
        let (first, last) = (a.min(b) as usize, a.max(b) as usize);
        if n > WHOLE {
            return (first.saturating_sub(AROUND), (last + 1 + AROUND).min(n));
        }
        let declares = |step: usize| {
            let command = usize::try_from(self.trace.slices.command[step]).unwrap_or(usize::MAX);
            let command = self.trace.program.as_ref().and_then(|p| p.commands().get(command));
            command.is_some_and(|c| match &c.op {
                Op::Stream { .. } | Op::EventCreate { .. } => true,
                Op::Alloc(alloc) => alloc.stream.is_none(),
                _ => false,
            })
        };
        ((0..first).find(|&step| !declares(step)).unwrap_or(first), n)
    }

    /// The time of the steps that a picture shows.
    pub fn around(&self) -> (Nanos, Nanos) {
        let at = |step: usize| Nanos(i64::try_from(step).unwrap_or(i64::MAX).saturating_mul(STEP.0));
        let (first, end) = self.window();
        (at(first), at(end))
    }

    /// The same with those steps only.
    fn shortened(&self) -> Order {
        let (first, end) = self.window();
        let mut trace = Trace { slices: Slices::default(), ..self.trace.clone() };
        for k in first..end {
            trace.slices.push(self.trace.slices.get(k), 0);
        }
        let skipped = u32::try_from(first).unwrap_or(u32::MAX);
        let slices = self.finding.slices.map(|(a, b)| (a.saturating_sub(skipped), b.saturating_sub(skipped)));
        Order { trace, finding: Finding { slices, ..self.finding.clone() }, ..self.clone() }
    }

    fn panel<'a>(&'a self) -> Panel<'a> {
        let note = Note { holds: None, text: self.seen.clone() };
        Panel {
            title: self.title.clone(),
            trace: &self.trace,
            findings: vec![self.finding.clone()],
            notes: vec![note],
        }
    }
}

/// One picture of a finding's orders, one below the other.
pub fn scene(orders: &[Order], width: f64, theme: &Theme) -> Scene {
    let short: Vec<Order> = orders.iter().map(Order::shortened).collect();
    let panels: Vec<Panel<'_>> = short.iter().map(Order::panel).collect();
    let options = PanelOptions { title: String::new(), width, columns: 1, theme: *theme, shown: lanes() };
    figure::panels(&panels, &options)
}
