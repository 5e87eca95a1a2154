//! A hazard with all that helps to understand and to mend it, as one value: sites, missing edge, fix, schedules.

use std::fmt;

use serde_json::{Map, Value, json};

use super::schedule::{ReplayError, Schedule};
use super::witness::{Seen, Shown, Stamp, Witness, witness};
use crate::hazard::{self, Fix, Hazard, HazardKind, Part, Relation, Report, StepId};
use crate::ordered::{CollectVec, sort_by_key};
use crate::program::{BufferId, Command, Edit, Op, Program, ThreadId};

/// One of the two places of a hazard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Index of the command; of a captured one its own, not that of the launch.
    pub command: usize,
    /// Its line in the text form, where there is one.
    pub line: Option<u32>,
    /// The step that takes part, where schedules show one.
    pub step: Option<StepId>,
    /// `read`, `write`, `alloc` or `free`.
    pub does: &'static str,
    /// The stream it is on, if any.
    pub stream: Option<String>,
    /// The host thread that calls.
    pub thread: String,
    /// Its label.
    pub label: Option<String>,
    /// The command in the text form.
    pub text: String,
}

/// Everything that is said of a hazard.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The first and the second place.
    pub places: [Place; 2],
    /// Block and bytes in conflict `[lo, hi)`, where they are known.
    pub bytes: Option<(BufferId, i64, i64)>,
    /// What to change.
    pub fix: Fix,
    /// Schedules that show it; none where none is owed.
    pub witness: Result<Option<Witness>, ReplayError>,
}

/// One change of a fix, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixLine {
    /// Where: `before command 5 (line 6)`.
    pub place: String,
    /// Whether the line is put in; otherwise it is taken out.
    pub is_new: bool,
    /// The command in the text form.
    pub text: String,
}

impl fmt::Display for FixLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.place, if self.is_new { '+' } else { '-' }, self.text)
    }
}

/// Steps up to which JSON lists a schedule as a whole; its short string makes it again in any case.
const MOST_LISTED: usize = 2_000;
/// Hazards that JSON explains, the first ones.
const MOST_EXPLAINED: usize = 1_000;
/// Steps that are looked at for all of them together, about.
const MOST_WORK: usize = 20_000_000;

impl Explanation {
    /// Explains a hazard that [`check`](hazard::check) found with the program and mode of `relation`.
    ///
    /// # Cost
    /// As [`witness()`] and [`Fix::of`].
    ///
    /// ```
    /// use spanlift::Program;
    /// use spanlift::explore::Explanation;
    /// use spanlift::hazard::{Mode, Relation, check};
    ///
    /// let p = Program::from_text("stream a, b\ndevice d 8\nkernel on a writes d\nkernel on b reads d")?;
    /// let found = check(&p, Mode::Contract)?;
    /// let explained = Explanation::of(&Relation::of(&p, Mode::Contract)?, &found.hazards[0]);
    /// let lines: Vec<String> = explained.fix_lines(&p).iter().map(ToString::to_string).collect();
    /// assert_eq!(lines[0], "before command 4 (line 4): + record mended on a");
    /// assert_eq!(lines[1], "before command 4 (line 4): + wait mended on b");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(relation: &Relation<'_>, hazard: &Hazard) -> Explanation {
        let program = relation.program;
        let witness = witness(relation, hazard);
        let steps = witness.as_ref().ok().and_then(Option::as_ref).map(|w| w.sites);
        let shown = witness.as_ref().ok().and_then(Option::as_ref).map(|w| w.bytes);
        let known = hazard.bytes.map(|(lo, hi)| (relation.facts.buffer(hazard.buffer).block, lo, hi));
        let (does_first, does_second) = match hazard.kind {
            HazardKind::Raw => ("write", "read"),
            HazardKind::War => ("read", "write"),
            HazardKind::Waw => ("write", "write"),
            HazardKind::FreeInFlight => ("use", "free"),
            HazardKind::UseAfterFree => ("free", "use"),
            HazardKind::UseBeforeAlloc => ("alloc", "use"),
        };
        let place = |k: usize, index: usize, does: &'static str| {
            let inner = hazard.captured[k].unwrap_or(index);
            let command = &program.commands()[inner];
            let does = match does {
                "use" => {
                    let (_, writes) = command.op.regions();
                    if writes.iter().any(|r| r.buffer == hazard.buffer) { "write" } else { "read" }
                }
                other => other,
            };
            Place {
                command: inner,
                line: program.line(inner),
                step: steps.map(|steps| steps[k]),
                does,
                stream: command.op.stream().map(|s| program.names().stream(s).to_owned()),
                thread: program.names().thread(command.thread).to_owned(),
                label: command.label.as_deref().map(str::to_owned),
                text: program.command_text(inner),
            }
        };
        Explanation {
            places: [place(0, hazard.first, does_first), place(1, hazard.second, does_second)],
            bytes: known.or(shown),
            fix: Fix::of(program, hazard, relation.terms),
            witness,
        }
    }

    /// What the fix changes, line by line.
    pub fn fix_lines(&self, program: &Program) -> Vec<FixLine> {
        let named = self.fix.named(program);
        let line = |edit: &Edit| {
            let (what, at, text) = match edit {
                Edit::Insert { before, command } => ("before", *before, named.text_of(command, *before)),
                Edit::Remove(at) => ("without", *at, program.command_text(*at)),
                Edit::Replace { at, command } => ("instead of", *at, named.text_of(command, *at)),
            };
            let place = match program.line(at) {
                Some(line) => format!("{what} command {at} (line {line})"),
                None if at < program.len() => format!("{what} command {at}"),
                None => "at the end".to_owned(),
            };
            let text = text.split_whitespace().collect_vec().join(" ");
            FixLine { place, is_new: !matches!(edit, Edit::Remove(_)), text }
        };
        self.fix.edits.iter().map(line).collect_vec()
    }

    /// The fields that stand beside those of the file contract.
    pub fn to_json(&self, relation: &Relation<'_>, hazard: &Hazard) -> Map<String, Value> {
        let program = relation.program;
        let names = program.names();
        let place = |p: &Place| {
            json!({
                "command": p.command, "line": p.line, "step": p.step.map(|s| s.to_string()), "does": p.does,
                "stream": p.stream, "thread": p.thread, "label": p.label, "text": p.text,
            })
        };
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
        put("sentence", json!(hazard::sentence(program, hazard)));
        put("also", json!(hazard.also.map(|b| names.buffer(b))));
        put("sites", json!(self.places.each_ref().map(place)));
        let overlap =
            |(block, lo, hi)| json!({"block": names.buffer(block), "start_byte": lo, "end_byte": hi});
        put("overlap", self.bytes.map_or(Value::Null, overlap));
        let mut steps = self.places.each_ref().map(|p| p.step.map(|s| s.to_string()));
        if hazard.kind == HazardKind::UseAfterFree {
            // The use has to come before the free.
            steps.reverse();
        }
        put("missing_edge", json!({"from": steps[0], "to": steps[1]}));
        put("fix", self.fix_json(program));
        match &self.witness {
            Ok(witness) => {
                let shown = witness.as_ref().map(|witness| schedules(relation, hazard, witness));
                put("schedules", json!(shown.unwrap_or_default()))
            }
            Err(why) => put("no_schedules", json!(why.to_string())),
        };
        fields
    }

    fn fix_json(&self, program: &Program) -> Value {
        let named = self.fix.named(program);
        let command =
            |command: &Command| serde_json::from_str::<Value>(&named.json_of(command)).unwrap_or_default();
        let edit = |edit: &Edit| match edit {
            Edit::Insert { before, command: c } => json!({
                "insert_before": before, "line": program.line(*before), "json": command(c),
                "text": named.text_of(c, *before),
            }),
            Edit::Remove(at) => json!({
                "remove": at, "line": program.line(*at), "text": program.command_text(*at),
            }),
            Edit::Replace { at, command: c } => json!({
                "replace": at, "line": program.line(*at), "json": command(c), "text": named.text_of(c, *at),
            }),
        };
        json!(self.fix.edits.iter().map(edit).collect_vec())
    }
}

fn schedules(relation: &Relation<'_>, hazard: &Hazard, witness: &Witness) -> Vec<Value> {
    let one = |shown: &Shown| {
        let is_short = shown.schedule.order().len() <= MOST_LISTED;
        let order = is_short.then(|| shown.schedule.ids(relation).map(|id| id.to_string()).collect_vec());
        let Seen { by, is_read, stamp } = shown.seen;
        json!({
            "replay": shown.holds.to_string(), "title": order_in_words(relation, witness, shown), "order": order,
            "seen": {
                "step": by.to_string(), "is_read": is_read, "stamp": stamp.to_string(),
                "sentence": seen_in_words(relation, hazard, &shown.seen),
            },
        })
    };
    witness.shown.iter().map(one).collect_vec()
}

/// The object of the file contract with an explanation beside the fields of each hazard; of very long lists the first.
pub fn explained_json(relation: &Relation<'_>, report: &Report) -> String {
    let names = relation.program.names();
    let n_explained = MOST_EXPLAINED.min(MOST_WORK / relation.steps().len().max(1)).max(1);
    let entry = |(k, h): (usize, &Hazard)| {
        let text = |text: &str| Value::from(text).to_string();
        let more = if k < n_explained {
            let fields = Explanation::of(relation, h).to_json(relation, h);
            fields.iter().map(|(key, value)| format!(",{}:{value}", text(key))).collect()
        } else {
            String::new()
        };
        format!(
            "{{\"kind\":\"{}\",\"buffer\":{},\"first\":{},\"second\":{},\"certainty\":\"{}\"{more}}}",
            h.kind.name(),
            text(names.buffer(h.buffer)),
            h.first,
            h.second,
            h.certainty.name(),
        )
    };
    let hazards: Vec<String> = report.hazards.iter().enumerate().map(entry).collect_vec();
    let verdict = report.verdict().name();
    format!("{{\"verdict\":\"{verdict}\",\"hazards\":[{}],\"errors\":[]}}", hazards.join(","))
}

/// A schedule by the order of its two places, in words: `copy, then scale`.
///
/// # Cost
/// Linear in the number of steps.
pub fn order_in_words(relation: &Relation<'_>, witness: &Witness, shown: &Shown) -> String {
    let program = relation.program;
    let place = |id: StepId| shown.schedule.ids(relation).position(|other| other == id);
    let mut sites = witness.sites;
    sort_by_key(&mut sites, |&id| place(id));
    match sites.map(|id| step_name(program, id)) {
        [first, second] if first == second => {
            format!("{first} {}, then {second} {}", sites[0], sites[1])
        }
        [first, second] => format!("{first}, then {second}"),
    }
}

/// What a step does, in a few words: its label, or `copy to d`, `host reads x`.
pub fn step_name(program: &Program, id: StepId) -> String {
    let names = program.names();
    let command = &program.commands()[id.of()];
    if let Some(label) = command.label.as_deref().filter(|label| !label.is_empty()) {
        return label.to_owned();
    }
    match &command.op {
        Op::Copy(copy) => format!("copy to {}", names.buffer(copy.dst.buffer)),
        Op::HostCopy { dst, .. } => format!("host copies to {}", names.buffer(dst.buffer)),
        Op::Memset { dst, .. } => format!("memset of {}", names.buffer(dst.buffer)),
        Op::HostRead { region, .. } => format!("host reads {}", names.buffer(region.buffer)),
        Op::HostWrite { region, .. } => format!("host writes {}", names.buffer(region.buffer)),
        Op::Alloc(alloc) => format!("allocation of {}", names.buffer(alloc.buffer)),
        Op::Free { buffer, .. } => format!("free of {}", names.buffer(*buffer)),
        Op::Record { event, .. } => format!("record {}", names.event(*event)),
        Op::Wait { event, .. } => format!("wait for {}", names.event(*event)),
        op => op.name().replace('_', " "),
    }
}

/// A command that wrote something: `` `fill` (command 4) ``.
fn writer(program: &Program, command: usize) -> String {
    match program.commands()[command].label.as_deref().filter(|label| !label.is_empty()) {
        Some(label) => format!("`{label}` (command {command})"),
        None => format!("command {command}"),
    }
}

/// Whether a buffer says what it holds at first.
fn is_declared(program: &Program, buffer: BufferId) -> bool {
    let holds = |op: &Op| matches!(op, Op::Alloc(a) if a.buffer == buffer && a.contents.is_some());
    program.commands().iter().any(|c| holds(&c.op))
}

/// What a step finds or leaves, in words: `finds what command 4 wrote`.
pub fn seen_in_words(relation: &Relation<'_>, hazard: &Hazard, seen: &Seen) -> String {
    let verb = if seen.is_read { "finds" } else { "leaves" };
    match seen.stamp {
        Stamp::By(StepId { command, part: Part::Captured(inner) }) => {
            let who = writer(relation.program, inner);
            format!("{verb} what {who} wrote in the launch of command {command}")
        }
        Stamp::By(StepId { command, .. }) => {
            format!("{verb} what {} wrote", writer(relation.program, command))
        }
        Stamp::Unwritten if is_declared(relation.program, hazard.buffer) => {
            format!("{verb} what was there from the beginning")
        }
        Stamp::Unwritten => format!("{verb} bytes that nothing has written"),
        Stamp::Outside => {
            let name = relation.program.names().buffer(hazard.buffer);
            let when = if hazard.kind == HazardKind::UseBeforeAlloc { "not there yet" } else { "freed" };
            let verb = if seen.is_read { "reads" } else { "writes" };
            format!("{verb} {name}, which is {when}")
        }
    }
}

/// Where a step runs: a host thread or a stream.
pub fn lane_of(program: &Program, id: StepId) -> String {
    let names = program.names();
    let command = &program.commands()[id.of()];
    match (id.part, command.op.stream()) {
        (Part::Call, _) | (_, None) if command.thread == ThreadId::FIRST => "host".to_owned(),
        (Part::Call, _) | (_, None) => format!("host {}", names.thread(command.thread)),
        (Part::Captured(_), Some(own)) => match program.commands()[id.command].op {
            Op::GraphLaunch { stream, graph } => {
                format!("{} in {} on {}", names.stream(own), names.graph(graph), names.stream(stream))
            }
            _ => names.stream(own).to_owned(),
        },
        (Part::Work, Some(stream)) => names.stream(stream).to_owned(),
    }
}

impl Schedule {
    /// The steps from two before the first of `sites` to one after the last, for showing; `None` stands for a gap.
    pub fn around(&self, relation: &Relation<'_>, sites: &[StepId]) -> Vec<Option<StepId>> {
        let ids: Vec<StepId> = self.ids(relation).collect_vec();
        let calls = sites.iter().map(|site| StepId { part: Part::Call, ..*site });
        let wanted: Vec<StepId> = sites.iter().copied().chain(calls).collect_vec();
        let mut shown = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            let near = |k: usize| ids.get(k).is_some_and(|other| sites.contains(other));
            if wanted.contains(id) || near(at + 1) || (at > 0 && near(at - 1)) {
                shown.push(Some(*id));
            } else if shown.last().is_some_and(Option::is_some) || at == 0 {
                shown.push(None);
            }
        }
        shown
    }
}
