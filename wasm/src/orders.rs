//! The orders that show a finding: schedules of the program's relation, as traces to draw and as one picture.

use spanlift::explore::{self, STEP, Shown, Witness};
use spanlift::hazard::{self, Hazard, Mode, Relation};
use spanlift::trace::{Slice, Trace};
use spanlift::{Nanos, Program};

use crate::figure::{self, Note, Panel, PanelOptions};
use crate::finding::Finding;
use crate::rows;
use crate::scene::Scene;
use crate::text;
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
        return Err(format!("orders are made of up to {} commands", text::thousands(MOST_COMMANDS as u64)));
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

fn order(relation: &Relation<'_>, hazard: &Hazard, witness: &Witness, shown: &Shown) -> Order {
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

impl Order {
    /// The time from a few steps before the two accesses to a few after them.
    pub fn around(&self) -> (Nanos, Nanos) {
        let (a, b) = self.finding.slices.unwrap_or((0, 0));
        let n = self.trace.slices.len();
        let (first, last) = (a.min(b) as usize, a.max(b) as usize);
        let at = |step: usize| Nanos(i64::try_from(step).unwrap_or(i64::MAX).saturating_mul(STEP.0));
        (at(first.saturating_sub(AROUND)), at((last + 1 + AROUND).min(n)))
    }

    /// The same with the steps around the two accesses only, where there are many.
    fn shortened(&self) -> Order {
        let n = self.trace.slices.len();
        if n <= WHOLE {
            return self.clone();
        }
        let (start, end) = self.around();
        let mut trace = Trace { slices: Default::default(), ..self.trace.clone() };
        let mut ends = self.finding.slices;
        let mut n_before = 0;
        for k in 0..n {
            let slice: Slice = self.trace.slices.get(k);
            if start <= slice.start && slice.end <= end {
                trace.slices.push(slice, 0);
            } else if slice.end <= start {
                n_before += 1;
            }
        }
        if let Some((a, b)) = &mut ends {
            (*a, *b) = (a.saturating_sub(n_before), b.saturating_sub(n_before));
        }
        Order { trace, finding: Finding { slices: ends, ..self.finding.clone() }, ..self.clone() }
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
    let options = PanelOptions {
        title: String::new(),
        width,
        columns: 1,
        theme: *theme,
        shown: rows::Shown::default(),
    };
    figure::panels(&panels, &options)
}
