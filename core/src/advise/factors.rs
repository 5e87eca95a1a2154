//! The seven factors that the tutorial tells its readers to check, with this request's and machine's values.
//!
//! # Source
//! PyTorch tutorial "A guide on good usage of `non_blocking` and `pin_memory()` in PyTorch" (`pinmem_nonblock.py`), end of
//! the section on additional considerations: the names are its own, the order too.

use super::predict::{AdviseError, Depth};
use super::rank::best_strategy;
use super::request::{Request, Tensors, exact};
use super::strategy::Strategy;
use crate::machine::{Grade, Machine, MachineError, Source};
use crate::ordered::CollectVec;
use crate::text::grouped;
use crate::units::Bytes;

/// One of the seven factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Factor {
    /// As the tutorial calls it.
    pub name: &'static str,
    /// The value here, in words.
    pub value: String,
    /// What the best strategy would be with other values.
    pub changes: Vec<Change>,
}

/// The best strategy with another value of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The other value, in words.
    pub to: String,
    /// The best strategy then; none when nothing fits.
    pub best: Option<Strategy>,
    /// Whether it is of another kind than the best one here.
    pub differs: bool,
}

/// A transfer with one thing changed.
struct Variant {
    to: String,
    request: Request,
    machine: Machine,
}

/// The seven factors, each with what would change the answer.
///
/// # Errors
/// As [`rank`](super::rank()).
///
/// # Cost
/// About fifteen rankings, in which strategies that are far from the best are only looked at quickly.
/// # Examples
/// ```
/// use spanlift::advise::{Depth, Origin, Request, factors};
/// use spanlift::machine::Machine;
///
/// let machine = Machine::builtin("tutorial-ci").ok_or("unknown")?;
/// let request = Request::new(vec!["100x4KB".parse()?], Origin::Pageable);
/// let factors = factors(&request, &machine, Depth::QUICK)?;
/// let size = factors.iter().find(|f| f.name == "Size of the tensors to be sent").ok_or("absent")?;
/// assert_eq!(size.value, "4KB each");
/// assert!(size.changes.iter().any(|c| c.differs)); // larger ones want another strategy
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn factors(request: &Request, machine: &Machine, depth: Depth) -> Result<Vec<Factor>, AdviseError> {
    let here = best_strategy(request, machine, depth)?;
    let name = |s: Option<Strategy>| s.map(Strategy::name);
    let mut found = Vec::new();
    for (factor, value, variants) in table(request, machine) {
        let mut changes = Vec::new();
        for variant in variants {
            let best = best_strategy(&variant.request, &variant.machine, depth)?;
            changes.push(Change { to: variant.to, best, differs: name(best) != name(here) });
        }
        found.push(Factor { name: factor, value, changes });
    }
    Ok(found)
}

fn table(request: &Request, machine: &Machine) -> [(&'static str, String, Vec<Variant>); 7] {
    let asked = |to: String, change: &dyn Fn(&mut Request)| {
        let mut variant = Variant { to, request: request.clone(), machine: machine.clone() };
        change(&mut variant.request);
        variant
    };
    // A figure that cannot be is no alternative.
    let built = |to: String, change: &dyn Fn(&mut Machine, Source) -> Result<(), MachineError>| {
        let mut variant = Variant { to, request: request.clone(), machine: machine.clone() };
        let source = Source { grade: Grade::Assumed, text: "what if".into() };
        change(&mut variant.machine, source).is_ok().then_some(variant)
    };
    let cores =
        [1, request.cores.saturating_mul(4).clamp(8, 256)].into_iter().filter(|&n| n != request.cores);
    let cores = cores.map(|n| asked(counted(n.into(), "core"), &|r| r.cores = n)).collect_vec();
    let loads = [0.0, 0.9].into_iter().filter(|l| (l - request.load).abs() > 0.05);
    let loads = loads.map(|l| asked(format!("{:.0} % busy", 100.0 * l), &|r| r.load = l)).collect_vec();
    let tight = Bytes(request.total().0 / 16);
    let memory = asked(format!("{tight} free"), &|r| r.free_ram = Some(tight));
    let (engines, to) =
        if machine.copy_engines < 2 { (3, "an engine for each direction") } else { (1, "one engine") };
    let engines = built(to.to_owned(), &|m, source| m.set("copy_engines", engines, source));
    let scaled = |tensors: &[Tensors], count: (u64, u64), size: (u64, u64)| -> Vec<Tensors> {
        let of = |n: u64, (up, down): (u64, u64)| (n.saturating_mul(up) / down).max(1);
        tensors
            .iter()
            .map(|t| Tensors { count: of(t.count, count), bytes: Bytes(of(t.bytes.0, size)) })
            .collect_vec()
    };
    let scale = |count, size, what: &dyn Fn(&Request) -> String| {
        let mut other = request.clone();
        other.tensors = scaled(&request.tensors, count, size);
        let to = what(&other);
        (other != *request).then(|| asked(to, &|r| r.tensors = other.tensors.clone()))
    };
    let tensors = |r: &Request| counted(r.count(), "tensor");
    let sizes = |r: &Request| {
        let most = if r.tensors.windows(2).all(|t| t[0].bytes == t[1].bytes) { "" } else { " at most" };
        format!("{} each{most}", exact(r.largest()))
    };
    let number = [(1, 100), (100, 1)].into_iter().filter_map(|c| scale(c, (1, 1), &tensors)).collect_vec();
    let size = [(1, 100), (100, 1)].into_iter().filter_map(|s| scale((1, 1), s, &sizes)).collect_vec();
    let gb_s = |name: &str| machine.figure(name).unwrap_or_default();
    let links = [0.25, 4.0].into_iter().filter_map(|f| {
        let to = format!("a link of {:.1} GB/s", gb_s("h2d_bw") * f);
        built(to, &|m, source| m.scale_link(f, source))
    });
    let links = links.collect_vec();
    let free = request.free_ram.map_or_else(|| "free memory not known".to_owned(), |b| format!("{b} free"));
    let staging = if machine.pageable_direct {
        "pageable memory read directly".to_owned()
    } else {
        format!("staging at {:.1} GB/s", gb_s("stage_cold_bw"))
    };
    [
        ("Number of available cores", counted(request.cores.into(), "core"), cores),
        ("Core utilization", format!("{:.0} % busy", 100.0 * request.load), loads),
        ("Memory utilization", format!("{free}, {} to be sent", request.total()), vec![memory]),
        (
            "CUDA device capabilities",
            counted(machine.copy_engines.into(), "copy engine"),
            Vec::from_iter(engines),
        ),
        ("Number of tensors to be sent", tensors(request), number),
        ("Size of the tensors to be sent", sizes(request), size),
        ("System architecture", format!("a link of {:.1} GB/s, {staging}", gb_s("h2d_bw")), links),
    ]
}

fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}
