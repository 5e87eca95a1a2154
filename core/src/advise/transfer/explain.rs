//! What was chosen, predicted and measured, as a value that prints and serializes.

use std::fmt;

use super::{Calibration, Plan, Rejected, Request, Way};
use crate::json::written;
use crate::units::Nanos;

/// The reasons of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explain {
    /// What was asked for.
    pub request: Request,
    /// The profile that the choice was made with.
    pub calibration: String,
    /// What was chosen and what not.
    pub plan: Plan,
    /// What it took, once it ran.
    pub measured: Option<Nanos>,
    /// What went differently than planned: memory that could not be page-locked, a capability that is not there.
    pub notes: Vec<String>,
}

written!(Explain: request, calibration, plan, measured, notes);

impl Explain {
    /// The reasons of `plan` before it ran.
    pub fn new(request: &Request, calibration: &Calibration, plan: Plan) -> Explain {
        let calibration = calibration.machine().name.clone();
        Explain { request: request.clone(), calibration, plan, measured: None, notes: Vec::new() }
    }
}

/// ```
/// use spanlift::Bytes;
/// use spanlift::advise::transfer::{Calibration, Caps, Explain, HostMemory, Request, Route, choose};
///
/// let gen3 = Calibration::recorded("gen3").ok_or("unknown")?;
/// let request = Request::one(Route::Up, HostMemory::Pinned, Bytes(12_000_000));
/// let explain = Explain::new(&request, &gen3, choose(&request, &gen3, &Caps::ALL));
/// assert!(explain.to_string().starts_with("S0 direct, 1.011 ms predicted by gen3: "), "{explain}");
/// # Ok::<(), &str>(())
/// ```
impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: Nanos| ns.0 as f64 / 1e6;
        let Plan { chosen, rejected, forced } = &self.plan;
        write!(f, "{}", called(chosen.way))?;
        if chosen.workers > 0 {
            let s = if chosen.workers == 1 { "" } else { "s" };
            write!(f, ", {} thread{s}, {} slots of {}", chosen.workers, chosen.slots, chosen.chunk)?;
        }
        let how = if *forced { "forced, " } else { "" };
        write!(f, ", {how}{:.3} ms predicted by {}: ", ms(chosen.predicted), self.calibration)?;
        for (k, term) in chosen.terms.iter().filter(|t| t.ns.0 > 0).enumerate() {
            let comma = if k == 0 { "" } else { ", " };
            write!(f, "{comma}{} {:.3}", term.name, ms(term.ns))?;
        }
        if let Some(measured) = self.measured {
            write!(f, "\nmeasured {:.3} ms", ms(measured))?;
        }
        for other in rejected {
            match other {
                Rejected::Slower(c) => {
                    write!(f, "\nnot {}: {:.3} ms", called(c.way), ms(c.predicted))?;
                }
                Rejected::Excluded { way, rule } => write!(f, "\nnot {}: {rule}", called(*way))?,
            }
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}

/// `S2 ring`.
fn called(way: Way) -> String {
    match way {
        // The only one that is not the engine's own has a name and no number.
        Way::Driver => "driver, from a copy made first".to_owned(),
        way => format!("{} {}", way.id(), way.name()),
    }
}
