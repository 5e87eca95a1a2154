//! A remedy as commands to put into the program.

use super::Terms;
use super::later::freed_later;
use super::many::insertions;
use super::remedy::{Remedy, remedy};
use super::report::Hazard;
use crate::id::Id;
use crate::ordered::{CollectVec, sort_by_key};
use crate::program::{ChannelId, Command, Edit, EventId, Op, Program, ThreadId};

/// The smallest change of a program that mends one hazard, ready to be applied.
///
/// ```
/// use spanlift::Program;
/// use spanlift::hazard::{Fix, Mode, Verdict, check};
///
/// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy x <- d on s\nread x")?;
/// let race = &check(&p, Mode::Contract)?.hazards[0];
/// let mended = Fix::of(&p, race, Mode::Contract).apply(&p);
/// assert_eq!(mended.command_text(4), "sync    s");
/// assert_eq!(check(&mended, Mode::Contract)?.verdict(), Verdict::Safe);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Fix {
    /// What it does, in the terms of order.
    pub remedy: Remedy,
    /// What changes, by positions in the program that it mends; may name the event or channel below. Nothing where no place is
    /// left for a free behind its last use, as within a capture that never ends, and where an allocation or a free has to leave a
    /// capture.
    pub edits: Vec<Edit>,
    /// A new event that the edits need.
    pub new_event: Option<String>,
    /// A new channel that the edits need.
    pub new_channel: Option<String>,
}

impl Fix {
    /// The fix of a hazard that [`check`](super::check) found in this program and mode.
    ///
    /// # Cost
    /// Linear in the number of commands; for a use after a free a few checks of the program.
    pub fn of(program: &Program, hazard: &Hazard, terms: impl Into<Terms>) -> Fix {
        let remedy = remedy(program, hazard);
        match remedy {
            Remedy::FreeLater { after, .. } => freed_later(program, hazard, after, terms.into()),
            _ => inserted(program, remedy),
        }
    }

    /// Uses an event that is there already: it is recorded anew right before it is waited for, behind what else waited for it.
    pub(super) fn again(&mut self, there: Option<EventId>) {
        let Some(there) = there else { return };
        let places = self.edits.iter().filter_map(|edit| match edit {
            Edit::Insert { before, .. } => Some(*before),
            _ => None,
        });
        let last = places.max();
        for edit in &mut self.edits {
            if let (Edit::Insert { before, command }, Some(last)) = (edit, last)
                && let Op::Record { event, .. } | Op::Wait { event, .. } | Op::EventSync { event } =
                    &mut command.op
            {
                (*before, *event) = (last, there);
            }
        }
        self.new_event = None;
    }

    /// The mended program; other hazards may be left in it.
    #[must_use = "the program itself stays as it is"]
    pub fn apply(&self, program: &Program) -> Program {
        self.named(program).edited(&self.edits)
    }

    /// The program with the names that the edits use.
    pub fn named(&self, program: &Program) -> Program {
        let mut program = program.clone();
        if let Some(event) = &self.new_event {
            program.event(event);
        }
        if let Some(channel) = &self.new_channel {
            program.channel(channel);
        }
        program
    }
}

/// A name that nothing has yet.
pub(super) fn fresh(word: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2u64..).map(|k| format!("{word}{k}"));
    std::iter::once(word.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

pub(super) fn inserted(program: &Program, remedy: Remedy) -> Fix {
    let names = program.names();
    let caller = |index: usize| program.commands()[index].thread;
    let mut fix = Fix { remedy, edits: Vec::new(), new_event: None, new_channel: None };
    let mut put = |before: usize, thread: ThreadId, op: Op| {
        fix.edits.push(Edit::Insert { before, command: Command { op, thread, label: None } });
    };
    // Names that do not exist yet come last in their tables, which have room: a program of 2^32 names is none.
    let event = EventId::try_from(names.n_events()).unwrap_or(Id::FIRST);
    let channel = ChannelId::try_from(names.n_channels()).unwrap_or(Id::FIRST);
    match remedy {
        Remedy::Event { on, after, waits, before } | Remedy::InCapture { on, after, waits, before } => {
            put(after + 1, caller(after), Op::Record { event, stream: on });
            put(before, caller(before), Op::Wait { stream: waits, event });
        }
        Remedy::Wait { event, waits, before, .. } => {
            put(before, caller(before), Op::Wait { stream: waits, event });
        }
        Remedy::EventSync { on, after, thread, before } => {
            put(after + 1, caller(after), Op::Record { event, stream: on });
            put(before, thread, Op::EventSync { event });
        }
        Remedy::Sync { event, thread, before, .. } => put(before, thread, Op::EventSync { event }),
        Remedy::StreamSync { on, thread, before } => put(before, thread, Op::StreamSync { stream: on }),
        Remedy::Signal { from, after, to, before } => {
            put(after + 1, from, Op::Signal { channel });
            put(before, to, Op::Await { channel });
        }
        Remedy::RecordStream { buffer, stream, before } => {
            put(before, caller(before), Op::RecordStream { buffer, stream });
        }
        Remedy::FreeLater { .. } | Remedy::OutOfCapture { .. } => {}
    }
    let uses = |wanted: fn(&Op) -> bool| {
        fix.edits.iter().any(|e| matches!(e, Edit::Insert { command, .. } if wanted(&command.op)))
    };
    if uses(|op| matches!(op, Op::Record { .. })) {
        fix.new_event = Some(fresh("mended", |name| names.find_event(name).is_some()));
    }
    if uses(|op| matches!(op, Op::Signal { .. })) {
        fix.new_channel = Some(fresh("mended", |name| names.find_channel(name).is_some()));
    }
    fix
}

/// A program that is changed several times, and where its commands come from.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) program: Program,
    pub(super) origin: Vec<Origin>,
}

/// Where a command of a draft comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Its position before all changes.
    Old(usize),
    /// The change that put it there.
    New(usize),
}

impl Origin {
    pub(super) fn change(self) -> Option<usize> {
        match self {
            Origin::New(change) => Some(change),
            Origin::Old(_) => None,
        }
    }
}

impl Draft {
    pub(super) fn new(program: &Program) -> Draft {
        Draft { program: program.clone(), origin: (0..program.len()).map(Origin::Old).collect_vec() }
    }

    /// One change, with its number.
    pub(super) fn edit(&mut self, edits: &[Edit], change: usize) {
        let mut origin = Vec::with_capacity(self.origin.len() + edits.len());
        for index in 0..=self.origin.len() {
            let here = edits.iter().filter(|e| matches!(e, Edit::Insert { before, .. } if *before == index));
            origin.extend(here.map(|_| Origin::New(change)));
            if index < self.origin.len() && !edits.contains(&Edit::Remove(index)) {
                origin.push(self.origin[index]);
            }
        }
        self.program = self.program.edited(edits);
        self.origin = origin;
    }

    /// With one change, where that leaves it well formed.
    pub(super) fn with(&self, edits: &[Edit]) -> Option<Draft> {
        let mut draft = self.clone();
        draft.edit(edits, 0);
        draft.program.check().is_ok().then_some(draft)
    }

    /// As [`Draft::edit`] where all edits put commands in, without a new list.
    pub(super) fn insert(&mut self, edits: &[Edit], change: usize) {
        let mut commands: Vec<(usize, &Command)> = Vec::new();
        for edit in edits {
            if let Edit::Insert { before, command } = edit {
                commands.push((*before, command));
            }
        }
        sort_by_key(&mut commands, |(before, _)| *before);
        for (at, (_, command)) in insertions(edits).into_iter().zip(commands) {
            self.program.insert(at, command.clone());
            self.origin.insert(at, Origin::New(change));
        }
    }

    /// All changes at once, by positions in `old`.
    pub(super) fn edits(&self, old: &Program) -> Vec<Edit> {
        let mut is_left = vec![false; old.len()];
        for origin in &self.origin {
            if let Origin::Old(at) = *origin {
                is_left[at] = true;
            }
        }
        let removed = (0..old.len()).filter(|&at| !is_left[at]);
        let mut edits: Vec<Edit> = removed.map(Edit::Remove).collect_vec();
        let mut before = 0;
        for (command, origin) in self.program.commands().iter().zip(&self.origin) {
            match *origin {
                Origin::New(_) => {
                    // In front of the next command that stays, wherever removed ones stood.
                    before += is_left[before..].iter().take_while(|left| !**left).count();
                    edits.push(Edit::Insert { before, command: command.clone() });
                }
                Origin::Old(at) => {
                    before = at + 1;
                    if *command != old.commands()[at] {
                        edits.push(Edit::Replace { at, command: command.clone() });
                    }
                }
            }
        }
        edits
    }
}
