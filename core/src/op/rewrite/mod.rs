//! Rewriting: expressions that do the same with less.
//!
//! A rule matches a node, or two or three neighbours of a chain, and offers something else; it is taken when the cost
//! (nodes, then bytes of transfers, then operations) falls, so that rewriting ends. Parts are rewritten before what they
//! are part of, from the first applied on; after a success the engine goes back one step. Knows nothing of programs.
//!
//! Nothing is rewritten behind anybody's back: [`Operator::simplify`] does it, and says what it did.

mod batched;
mod cost;
mod fourier;
mod kron;
mod nodes;
mod pairs;
mod rules;
mod transfers;

use std::fmt;

use super::operator::Operator;
use crate::memory::Device;

pub use cost::Cost;
use rules::Apply;
pub use rules::{RULES, Rule};

/// What a rule may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing: the result keeps every bit where no number on the way is infinite, but for the sign of a zero: a mask
    /// multiplies with 0 where elements were left out before.
    Bitwise,
    /// How results are rounded.
    Rounding,
    /// More than that, or only worth it by cost.
    Approximate,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Bitwise => "bitwise",
            Level::Rounding => "rounding",
            Level::Approximate => "approximate",
        })
    }
}

/// One use of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewrite {
    /// Name of the rule in [`RULES`].
    pub rule: &'static str,
    /// Where: the places of the parts from the outermost in, counted from 0.
    pub at: Vec<usize>,
    /// The formula of what was there.
    pub before: String,
    /// The formula of what is there instead.
    pub after: String,
    /// Cost of the two.
    pub cost: [Cost; 2],
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at: Vec<String> = self.at.iter().map(ToString::to_string).collect();
        let at = if at.is_empty() { "top".to_owned() } else { at.join(".") };
        let [before, after] = self.cost;
        write!(f, "{:16} at {at:8} {} = {}   ({before} -> {after})", self.rule, self.before, self.after)
    }
}

/// Why rewriting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// No rule applies any more.
    Done,
    /// That many rules were used; more may apply.
    Steps(usize),
}

/// A rewritten expression, and how it came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Simplified {
    /// The expression, with the spaces of the one before.
    pub operator: Operator,
    /// Every use of a rule, in order.
    pub log: Vec<Rewrite>,
    /// Why rewriting ended.
    pub stop: Stop,
}

/// One line for each use of a rule, and what is left.
impl fmt::Display for Simplified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.log.iter().try_for_each(|rewrite| writeln!(f, "{rewrite}"))?;
        match self.stop {
            Stop::Done => write!(f, "{}", self.operator),
            Stop::Steps(n) => write!(f, "stopped after {n} steps, more would apply: {}", self.operator),
        }
    }
}

/// How to rewrite.
#[derive(Debug, Clone, Copy)]
pub struct Simplify {
    level: Level,
    steps: usize,
    direct: fn(Device, Device) -> bool,
}

impl Default for Simplify {
    /// Rules up to [`Level::Rounding`], 10,000 steps, and a direct route between any two devices of one family.
    fn default() -> Simplify {
        Simplify { level: Level::Rounding, steps: 10_000, direct: same_family }
    }
}

/// Whether data goes from one device to the other without a stop on the host.
fn same_family(a: Device, b: Device) -> bool {
    !matches!((a, b), (Device::Cuda(_), Device::Mock(_)) | (Device::Mock(_), Device::Cuda(_)))
}

impl Simplify {
    /// The highest level of rules that are used.
    #[must_use]
    pub fn level(self, level: Level) -> Simplify {
        Simplify { level, ..self }
    }

    /// How many rules are used at most; [`Simplified::stop`] says when there would have been more.
    #[must_use]
    pub fn steps(self, steps: usize) -> Simplify {
        Simplify { steps, ..self }
    }

    /// Which devices have a direct route, so that a stop in between is left out.
    #[must_use]
    pub fn direct(self, direct: fn(Device, Device) -> bool) -> Simplify {
        Simplify { direct, ..self }
    }

    /// Rewrites an expression.
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::{Dtype, cpu, cuda};
    /// use spanlift::op::{Diagonal, Simplify, Space, Stop, to};
    ///
    /// let space = Space::new([("x", 2)], Dtype::F64)?.on(cuda(0));
    /// let d = |w: f64| Diagonal::new(space.clone(), [w, w + 1.0]);
    /// let a = chain![to(cuda(0)), d(1.0)?, to(cpu()), to(cuda(0)), d(2.0)?, to(cpu())]?;
    /// let simple = Simplify::default().run(&a);
    /// assert_eq!(simple.operator.formula(), "T(cuda:0->cpu) · (D D) · T(cpu->cuda:0)");
    /// assert_eq!(simple.log[0].rule, "diagonals");
    /// assert_eq!(simple.stop, Stop::Done);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn run(self, operator: &Operator) -> Simplified {
        let mut engine = Engine { how: self, log: Vec::new(), more: false };
        let operator = engine.node(operator.clone(), &mut Vec::new());
        let stop = if engine.more { Stop::Steps(self.steps) } else { Stop::Done };
        Simplified { operator, log: engine.log, stop }
    }
}

impl Operator {
    /// The same operator with less to do, up to rounding; see [`Simplify`] for levels, limits and the log.
    #[must_use]
    pub fn simplify(&self) -> Operator {
        Simplify::default().run(self).operator
    }

    /// The same, with every rule that was used; see [`Simplify`].
    pub fn simplify_traced(&self) -> Simplified {
        Simplify::default().run(self)
    }
}

struct Engine {
    how: Simplify,
    log: Vec<Rewrite>,
    /// Whether a rule applied beyond the limit.
    more: bool,
}

/// What rules know besides what they match.
pub(super) struct Known {
    pub(super) direct: fn(Device, Device) -> bool,
    /// Whether every bit is kept, so that nothing may be added in another order.
    pub(super) exact: bool,
}

impl Known {
    /// Whether parts may be what they become: what is itself added up would be flattened, and added in another order where it is not
    /// the first.
    pub(super) fn may_add(&self, container: &Operator, parts: &[Operator]) -> bool {
        !self.exact || !parts.iter().skip(1).any(|part| regrouped(container, part))
    }
}

/// Whether a part of something that adds its parts up would come apart in it.
fn regrouped(container: &Operator, part: &Operator) -> bool {
    match (container, part) {
        (Operator::Sum(outer), Operator::Sum(inner)) => !outer.tree() && !inner.tree(),
        (Operator::Concat(outer), Operator::Concat(inner)) => {
            outer.odim().is_none() && outer.kind() == inner.kind() && !outer.tree() && !inner.tree()
        }
        _ => false,
    }
}

impl Engine {
    fn rules(&self) -> impl Iterator<Item = &'static Rule> + use<> {
        let level = self.how.level;
        RULES.iter().filter(move |rule| rule.level <= level)
    }

    fn known(&self) -> Known {
        Known { direct: self.how.direct, exact: self.how.level == Level::Bitwise }
    }

    /// Takes `after` for `before` if that costs less, and says so in the log.
    fn takes(&mut self, rule: &'static Rule, before: &[Operator], after: &[Operator], at: &[usize]) -> bool {
        let ends = |parts: &[Operator]| {
            let (first, last) = (parts.first()?, parts.last()?);
            Some((first.domain().clone(), last.codomain().clone()))
        };
        assert_eq!(ends(before), ends(after), "bug: rule {} changes the spaces", rule.name);
        let costs = [Cost::of(before), Cost::of(after)];
        if costs[1] >= costs[0] {
            return false;
        }
        if self.log.len() >= self.how.steps {
            self.more = true;
            return false;
        }
        let formula = |parts: &[Operator]| Operator::join(parts.to_vec()).formula();
        self.log.push(Rewrite {
            rule: rule.name,
            at: at.to_vec(),
            before: formula(before),
            after: formula(after),
            cost: costs,
        });
        true
    }

    /// Rewrites an operator, its parts first.
    fn node(&mut self, operator: Operator, at: &mut Vec<usize>) -> Operator {
        let mut operator = self.parts(&operator, at);
        let known = self.known();
        // Once one of the factors is in a neighbour, the others stay where they are.
        while let Some(after) = self.rules().find_map(|rule| {
            let Apply::First(apply) = rule.apply else { return None };
            let after = apply(&operator, &known)?;
            self.takes(rule, std::slice::from_ref(&operator), std::slice::from_ref(&after), at)
                .then_some(after)
        }) {
            operator = after;
        }
        if let Operator::Chain(chain) = &operator {
            operator = self.chain(chain.parts().to_vec(), at);
        }
        for rule in self.rules() {
            let (Apply::Node(apply) | Apply::First(apply)) = rule.apply else { continue };
            if let Some(after) = apply(&operator, &known)
                && self.takes(rule, std::slice::from_ref(&operator), std::slice::from_ref(&after), at)
            {
                return self.node(after, at);
            }
        }
        operator
    }

    /// The operator with its parts rewritten.
    fn parts(&mut self, operator: &Operator, at: &mut Vec<usize>) -> Operator {
        let mut k = 0;
        let exact = self.known().exact;
        let mut each = |part: &Operator| {
            at.push(k);
            k += 1;
            let (uses, more) = (self.log.len(), self.more);
            let mut new = self.node(part.clone(), at);
            at.pop();
            // What became a sum would be added in another order where it is not the first.
            if exact && k > 1 && regrouped(operator, &new) && !regrouped(operator, part) {
                self.log.truncate(uses);
                (new, self.more) = (part.clone(), more);
            }
            new
        };
        match operator {
            Operator::Chain(chain) => Operator::join(chain.parts().iter().map(each).collect()),
            Operator::Sum(sum) => sum.map(each),
            Operator::Concat(concat) => concat.map(each),
            Operator::Stack(stack) => stack.map(each),
            Operator::BlockDiag(blocks) => blocks.map(each),
            Operator::Power(power) => power.map(each),
            Operator::Leaf(_)
            | Operator::Identity(_)
            | Operator::Zero(_)
            | Operator::Scale(_)
            | Operator::ToDevice(_) => {
                let _ = &mut each;
                operator.clone()
            }
        }
    }

    /// Rewrites neighbours of a chain until no rule applies.
    fn chain(&mut self, mut parts: Vec<Operator>, at: &mut Vec<usize>) -> Operator {
        let known = self.known();
        let mut k = 0;
        while k < parts.len() {
            let found = self.rules().find_map(|rule| {
                let (n, after) = match rule.apply {
                    Apply::Pair(apply) => (2, apply(parts.get(k)?, parts.get(k + 1)?, &known)?),
                    Apply::Triple(apply) => (3, apply(parts.get(k)?, parts.get(k + 1)?, parts.get(k + 2)?)?),
                    Apply::Node(_) | Apply::First(_) | Apply::Built => return None,
                };
                at.push(k);
                let taken = self.takes(rule, &parts[k..k + n], &after, at);
                at.pop();
                taken.then_some((n, after))
            });
            let Some((n, after)) = found else {
                k += 1;
                continue;
            };
            at.push(k);
            let after: Vec<Operator> = after.into_iter().map(|part| self.node(part, at)).collect();
            at.pop();
            parts.splice(k..k + n, after.iter().flat_map(Operator::parts).cloned());
            if parts.is_empty() {
                return Operator::Identity(after[0].domain().clone());
            }
            // What the new part can do with the one before it was not asked yet.
            k = k.saturating_sub(2);
        }
        Operator::join(parts)
    }
}
