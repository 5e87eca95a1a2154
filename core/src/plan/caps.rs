//! Staying within what a device may hold: an expression in tiles, as few as will do.

use super::expression::{Note, Plan};
use super::planning::Planning;
use super::slots::Ahead;
use super::steps::{MOST_STEPS, count};
use super::{PlanError, write};
use crate::memory::Device;
use crate::op::{Along, Name, Operator};
use crate::ordered::CollectVec;
use crate::units::Bytes;

/// The most tiles.
const MOST_TILES: i64 = 4096;

/// An expression in tiles: sizes by dimension, the expression, and how it is planned.
struct Tiling {
    sizes: Vec<(Name, i64)>,
    operator: Operator,
    planning: Planning,
    /// How many bytes too much, on the device that is furthest beyond its limit; negative for bytes that are left.
    excess: i128,
    /// That device and what it holds.
    at: (Device, Bytes),
}

/// The expression, cut as far as the limits ask for, how to plan it, and what was done.
pub(super) fn within(
    operator: &Operator,
    how: &Planning,
) -> Result<(Operator, Planning, Option<Note>), PlanError> {
    let mut search = Search { operator, how, best: None };
    // Copies beside work are worth more tiles than would do without.
    let (whole, tiled) = match how.ahead_of() {
        None => (vec![None, Some(1), Some(0)], vec![Some(1), Some(0)]),
        Some(0) => (vec![Some(0)], vec![Some(0)]),
        ahead => (vec![ahead, Some(0)], vec![ahead, Some(0)]),
    };
    let mut found = None;
    for ahead in whole {
        found = found.map_or_else(|| search.tried(&[], ahead).map(Result::ok), |t| Ok(Some(t)))?;
    }
    for ahead in tiled {
        found = found.map_or_else(|| search.cut(dims(operator), ahead), |t| Ok(Some(t)))?;
    }
    let done = |t: Tiling| {
        let note = (!t.sizes.is_empty()).then(|| {
            let (device, bytes) = t.at;
            let text =
                format!("{} to stay within {}: {bytes} on {device}", words(&t.sizes), how.caps()[&device]);
            Note { command: None, text }
        });
        (t.operator, t.planning, note)
    };
    match (found, search.best) {
        (Some(tiling), _) => Ok(done(tiling)),
        (None, Some(least)) => {
            let (device, needs) = least.at;
            let tiles = if least.sizes.is_empty() { "uncut".to_owned() } else { words(&least.sizes) };
            let cap = how.caps()[&device];
            Err(PlanError::Cap { operator: operator.formula(), device, needs, cap, tiles })
        }
        (None, None) => unreachable!("bug: nothing was tried"),
    }
}

struct Search<'a> {
    operator: &'a Operator,
    how: &'a Planning,
    /// The tiling that came closest.
    best: Option<Tiling>,
}

impl Search<'_> {
    /// The largest tiles that fit: along one dimension, else along the next too, and so on.
    fn cut(&mut self, mut dims: Vec<(Name, i64)>, ahead: Ahead) -> Result<Option<Tiling>, PlanError> {
        let mut fixed: Vec<(Name, i64)> = Vec::new();
        while !dims.is_empty() {
            // Tiles along another dimension are so many for each of those that there are.
            let most = (MOST_TILES / tiles(self.operator, &fixed)).max(1);
            let mut smallest: Vec<(i128, usize)> = Vec::new();
            let mut found: Option<Tiling> = None;
            for (at, (dim, n)) in dims.iter().enumerate() {
                let with = |size: i64| [&fixed[..], &[(dim.clone(), size)]].concat();
                let least = (n + most - 1) / most;
                let mut fits = match self.tried(&with(least), ahead)? {
                    Ok(tiling) => tiling,
                    Err(excess) => {
                        smallest.push((excess, at));
                        continue;
                    }
                };
                // Larger tiles hold more: between one that fits and one that does not.
                let (mut lo, mut hi) = (least, *n);
                while hi - lo > 1 {
                    let middle = lo + (hi - lo) / 2;
                    match self.tried(&with(middle), ahead)? {
                        Ok(tiling) => (fits, lo) = (tiling, middle),
                        Err(_) => hi = middle,
                    }
                }
                // Fewer transfers, or those that leave less.
                let better = found
                    .as_ref()
                    .is_none_or(|f| tiles(self.operator, &fits.sizes) < tiles(self.operator, &f.sizes));
                if better {
                    found = Some(fits);
                }
            }
            if found.is_some() {
                return Ok(found);
            }
            let Some(&(_, at)) = smallest.iter().min() else { break };
            let (dim, n) = dims.remove(at);
            fixed.push((dim, (n + most - 1) / most));
        }
        Ok(None)
    }

    /// The expression in tiles of these sizes if they fit, else how many bytes too much they hold.
    fn tried(&mut self, sizes: &[(Name, i64)], ahead: Ahead) -> Result<Result<Tiling, i128>, PlanError> {
        let Some(tiling) = self.tiling(sizes, ahead)? else { return Ok(Err(i128::MAX)) };
        let excess = tiling.excess;
        if excess <= 0 {
            return Ok(Ok(tiling));
        }
        if self.best.as_ref().is_none_or(|best| excess < best.excess) {
            self.best = Some(tiling);
        }
        Ok(Err(excess))
    }

    /// What tiles of these sizes hold; `None` where they cannot be made.
    fn tiling(&self, sizes: &[(Name, i64)], ahead: Ahead) -> Result<Option<Tiling>, PlanError> {
        let named: Vec<(String, i64)> =
            sizes.iter().map(|(dim, size)| (dim.to_string(), *size)).collect_vec();
        let operator = if sizes.is_empty() {
            self.operator.clone()
        } else {
            let tiles = self.operator.tiles(named.iter().map(|(dim, size)| (dim.as_str(), *size)));
            let mut steps = 0u64;
            let mut is_short = |tile: &Operator| {
                steps = steps.saturating_add(count(tile));
                steps <= MOST_STEPS
            };
            let joined = tiles.ok().and_then(|tiles| tiles.joined_while(&mut is_short));
            let Some(operator) = joined else { return Ok(None) };
            operator
        };
        let planning = self.how.with_ahead(ahead);
        let plan: Plan = match write::plan(&operator, &planning, None) {
            // More tiles are more steps: only without any is there nothing else to try.
            Err(PlanError::TooManySteps { .. }) if !sizes.is_empty() => return Ok(None),
            plan => plan?,
        };
        let excess = self.how.caps().iter().map(|(device, cap)| {
            let holds = plan.peaks().get(device).map_or(Bytes(0), |peak| peak.total());
            (i128::from(holds.0) - i128::from(cap.0), (*device, holds))
        });
        let Some((excess, at)) = excess.max() else { return Ok(None) };
        Ok(Some(Tiling { sizes: sizes.to_vec(), operator, planning, excess, at }))
    }
}

/// How many tiles of these sizes there are.
fn tiles(whole: &Operator, sizes: &[(Name, i64)]) -> i64 {
    let along = |(dim, size): &(Name, i64)| whole.size(dim).map_or(1, |n| (n + size - 1) / size);
    sizes.iter().map(along).fold(1, i64::saturating_mul)
}

/// The dimensions that can be cut, with their sizes.
fn dims(operator: &Operator) -> Vec<(Name, i64)> {
    let cuttable = operator
        .dims()
        .into_iter()
        .filter(|dim| !matches!(operator.along(dim), Along::Mixed | Along::Absent));
    let sized = cuttable.filter_map(|dim| operator.size(&dim).map(|n| (dim, n)));
    sized.filter(|(_, n)| *n > 1).collect_vec()
}

fn words(sizes: &[(Name, i64)]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|(dim, size)| format!("{dim}={size}")).collect_vec();
    format!("in tiles of {}", sizes.join(", "))
}
