//! What was found, as data and in the form of the file contract.

use super::access::{Access, Certainty};
use super::found::{Evidence, Found, HazardKind, Key};
use super::{Mode, Terms};
use crate::json::written;
use crate::memory::DEFAULT_LIMIT;
use crate::ordered::{BTreeMap, CollectVec, sort_by_key};
use crate::program::{BufferId, Names, Program};

/// The answer to "is it safe?".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// No hazard.
    Safe,
    /// Hazards, none of which is certain.
    May,
    /// At least one certain hazard.
    Race,
}

impl Verdict {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Safe => "safe",
            Verdict::May => "may",
            Verdict::Race => "race",
        }
    }
}

/// One hazard: two commands that nothing orders, or an access outside the life of its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hazard {
    /// What is wrong.
    pub kind: HazardKind,
    /// The buffer by the name that the first command's access uses; for lifetimes, the one that is used.
    pub buffer: BufferId,
    /// The other name of the block, where the second command's access uses one.
    pub also: Option<BufferId>,
    /// Index of the command that stands first; equal to `second` for two commands of one graph launch.
    pub first: usize,
    /// Index of the command that stands second.
    pub second: usize,
    /// Where `first` or `second` launches a graph: the captured command whose bytes are in conflict.
    pub captured: [Option<usize>; 2],
    /// Whether it is certain.
    pub certainty: Certainty,
    /// Bytes in conflict `[lo, hi)`, counted from the start of the block; of strided spans one run as an example. `None`
    /// when no common byte is known for sure.
    pub bytes: Option<(i64, i64)>,
    /// Whose order was asked where it was found.
    pub mode: Mode,
    /// Whether copies keep CUDA's rules where it was found: [`Terms::ordered_copies`].
    pub ordered_copies: bool,
}

/// Every hazard of a program in one mode.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Whose order was asked.
    pub mode: Mode,
    /// Whether copies keep CUDA's rules there: [`Terms::ordered_copies`].
    pub ordered_copies: bool,
    /// By first command, second command, kind and buffer name.
    pub hazards: Vec<Hazard>,
    /// Whether the list has every hazard; very long lists end early, with the verdict still exact.
    pub complete: bool,
}

impl Report {
    pub(super) fn new(names: &Names, terms: Terms, found: Found) -> Report {
        let Terms { mode, ordered_copies } = terms;
        let mut hazards: Vec<Hazard> =
            found.pairs.iter().map(|(key, evidence)| hazard(key, evidence, terms)).collect_vec();
        sort_by_key(&mut hazards, |h| (h.first, h.second, h.kind, names.buffer(h.buffer)));
        Report { mode, ordered_copies, hazards, complete: found.complete }
    }

    /// The worst that was found.
    pub fn verdict(&self) -> Verdict {
        match self.hazards.iter().map(|h| h.certainty).max() {
            None => Verdict::Safe,
            Some(Certainty::May) => Verdict::May,
            Some(Certainty::Must) => Verdict::Race,
        }
    }

    /// The object of the file contract: verdict, hazards, no errors.
    pub fn to_json(&self, program: &Program) -> String {
        let entry = |h: &Hazard| Entry {
            kind: h.kind.name(),
            buffer: program.names().buffer(h.buffer).to_owned(),
            first: h.first,
            second: h.second,
            certainty: h.certainty.name(),
        };
        let hazards = self.hazards.iter().map(entry).collect_vec();
        Object { verdict: self.verdict().name(), hazards, errors: [] }.to_json()
    }
}

/// The hazards that stand for all others between the same lines, and how many each stands for.
///
/// A loop in the text form makes many commands of one line. Where there are no lines, each hazard stands for itself.
///
/// ```
/// use spanlift::{Program, hazard};
/// let p = Program::from_text("stream a, b\ndevice d 8\nrepeat i 3\nkernel on a writes d\nkernel on b reads d\nend")?;
/// let report = hazard::check(&p, hazard::Mode::Contract)?;
/// let told: Vec<_> = hazard::alike(&p, &report).iter().map(|(h, n)| (h.kind.name(), *n)).collect();
/// assert_eq!((report.hazards.len(), told), (9, vec![("RAW", 6), ("WAR", 3)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn alike<'a>(program: &Program, report: &'a Report) -> Vec<(&'a Hazard, usize)> {
    let mut groups: Vec<(&Hazard, usize)> = Vec::new();
    let mut by_lines = BTreeMap::new();
    // Which of the hazards of its two commands: several are of several buffers, and each is told.
    let (mut pair, mut nth) = (None, 0);
    for found in &report.hazards {
        nth = if pair == Some((found.first, found.second)) { nth + 1 } else { 0 };
        pair = Some((found.first, found.second));
        let (Some(first), Some(second)) = (program.line(found.first), program.line(found.second)) else {
            groups.push((found, 1));
            continue;
        };
        let group = *by_lines.entry((found.kind, found.certainty, first, second, nth)).or_insert_with(|| {
            groups.push((found, 0));
            groups.len() - 1
        });
        groups[group].1 += 1;
    }
    groups
}

/// The file contract's object, fields in its order.
struct Object {
    verdict: &'static str,
    hazards: Vec<Entry>,
    /// A program in error has no report.
    errors: [String; 0],
}

written!(Object: verdict, hazards, errors);

struct Entry {
    kind: &'static str,
    buffer: String,
    first: usize,
    second: usize,
    certainty: &'static str,
}

written!(Entry: kind, buffer, first, second, certainty);

impl Object {
    fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|e| unreachable!("bug: plain data is always JSON: {e}"))
    }
}

fn hazard(key: &Key, evidence: &Evidence, terms: Terms) -> Hazard {
    let Evidence { certainty, first, second } = evidence;
    let captured =
        |access: &Access, index: usize| Some(access.named_by).filter(|&by| access.op == index && by != index);
    Hazard {
        kind: key.kind,
        buffer: key.buffer,
        also: Some(second.region.buffer).filter(|&other| other != first.region.buffer),
        first: key.first,
        second: key.second,
        captured: [captured(first, key.first), captured(second, key.second)],
        certainty: *certainty,
        bytes: first.region.span.common(&second.region.span, DEFAULT_LIMIT),
        mode: terms.mode,
        ordered_copies: terms.ordered_copies,
    }
}
