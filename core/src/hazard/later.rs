//! A free that moves behind the last use of its memory: the waits that it needs there, and the order that others had from it
//! where it stood.

use std::cmp::Reverse;

use super::fix::{Draft, Fix, Origin, inserted};
use super::found::HazardKind;
use super::remedy::{Remedy, free_stream, remedy};
use super::report::{Hazard, Report};
use super::{Mode, Terms, check};
use crate::ordered::{BTreeSet, CollectVec, sort_by_key};
use crate::program::{Alloc, Command, Edit, FreeVia, Op, Program};

/// Places that a free is tried at.
const MAX_PLACES: usize = 16;
/// Changes that are tried to keep order.
const MAX_TRIES: usize = 64;

/// The free goes behind the last use of its name, and waits there for what it must wait for.
pub(super) fn freed_later(program: &Program, hazard: &Hazard, after: usize, terms: Terms) -> Fix {
    let uses = |op: &Op| {
        let (reads, writes) = op.regions();
        reads.iter().chain(writes).any(|r| r.buffer == hazard.buffer && !r.span.is_empty())
    };
    // A launch uses what was captured before it.
    let launched = |index: usize| matches!(program.commands()[index].op, Op::GraphLaunch { .. });
    let last = (after..program.len())
        .rev()
        .find(|&k| uses(&program.commands()[k].op) || (k == after && launched(k)))
        .unwrap_or(after);
    // Where a capture forbids it, behind the end of one.
    let ends =
        (last + 1..program.len()).filter(|&k| matches!(program.commands()[k].op, Op::CaptureEnd { .. }));
    let mut places = std::iter::once(last).chain(ends).map(|k| k + 1).take(MAX_PLACES);
    let found = places.find_map(|place| {
        let insert = Edit::Insert { before: place, command: free_at(program, hazard.first, place, last) };
        Some((place, Draft::new(program).with(&[Edit::Remove(hazard.first), insert])?))
    });
    let on = free_stream(program, hazard.first, last + 1, last);
    let remedy = Remedy::FreeLater { after, on };
    let Some((place, mut draft)) = found else {
        return Fix { remedy, edits: Vec::new(), new_event: None, new_channel: None };
    };
    // Whoever got the bytes before they are free by now gets others.
    for index in 0..place - 1 {
        let command = &draft.program.commands()[index];
        if let Op::Alloc(alloc @ Alloc { reuse: Some(old), .. }) = &command.op
            && *old == hazard.buffer
        {
            let op = Op::Alloc(Alloc { reuse: None, ..alloc.clone() });
            draft.edit(&[Edit::Replace { at: index, command: Command { op, ..command.clone() } }], 0);
        }
    }
    let moved = Moved { draft, new_event: None, new_channel: None }.in_order(program, hazard, terms);
    let Moved { draft, new_event, new_channel } = moved;
    Fix { remedy, edits: draft.edits(program), new_event, new_channel }
}

/// The free as it stands at a place, behind the last use: where its own stream is gone by then, on that of the use.
fn free_at(program: &Program, free: usize, place: usize, last: usize) -> Command {
    let mut command = program.commands()[free].clone();
    let on = free_stream(program, free, place, last);
    if let Op::Free { via: via @ FreeVia::FreeAsync, stream, .. } = &mut command.op {
        if on.is_none() {
            *via = FreeVia::Free;
        }
        *stream = on;
    }
    command
}

/// What is mended, as it was before.
struct Before<'a> {
    program: &'a Program,
    hazard: &'a Hazard,
    terms: Terms,
    /// What was found in it.
    known: BTreeSet<(HazardKind, usize, usize)>,
}

/// A program whose free has moved, with the names that its changes use: of a kind, one can be new.
#[derive(Clone)]
struct Moved {
    draft: Draft,
    new_event: Option<String>,
    new_channel: Option<String>,
}

impl Moved {
    /// Gives back the order that others had from the free, and gives the free what it needs, change by change while each
    /// leaves less to do.
    ///
    /// What hung on the free: it waited for devices, as drivers do, or stood on a stream behind what its caller had waited for.
    fn in_order(mut self, program: &Program, hazard: &Hazard, terms: Terms) -> Moved {
        let Ok(old) = check(program, terms) else { return self };
        let before = Before {
            program,
            hazard,
            terms,
            known: old.hazards.iter().map(|h| (h.kind, h.first, h.second)).collect(),
        };
        let Ok(mut report) = check(&self.draft.program, terms) else { return self };
        let mut n_tries = 0;
        while let Some(better) = self.better(&report, &before, &mut n_tries) {
            (self, report) = better;
        }
        self
    }

    /// With the first change that leaves less to do, and what is found then.
    fn better(&self, report: &Report, before: &Before<'_>, n_tries: &mut usize) -> Option<(Moved, Report)> {
        let mut open = self.open(report, before);
        // What is lost comes first. Then a record takes what is on its stream before it, a signal what its thread has done: the
        // last use, and the others with it.
        sort_by_key(&mut open, |h| (self.is_ours(h, before.hazard), Reverse(h.first)));
        for found in &open {
            for better in self.candidates(found, before) {
                *n_tries += 1;
                if MAX_TRIES < *n_tries {
                    return None;
                }
                if let Ok(now) = check(&better.draft.program, before.terms)
                    && better.open(&now, before).len() < open.len()
                {
                    return Some((better, now));
                }
            }
        }
        None
    }

    /// Hazards between old commands that are new, and those of the free itself.
    fn open<'r>(&self, report: &'r Report, before: &Before<'_>) -> Vec<&'r Hazard> {
        let is_lost = |h: &Hazard| match [h.first, h.second].map(|k| self.draft.origin[k]) {
            [Origin::Old(first), Origin::Old(second)] => !before.known.contains(&(h.kind, first, second)),
            _ => false,
        };
        report.hazards.iter().filter(|h| is_lost(h) || self.is_ours(h, before.hazard)).collect_vec()
    }

    fn is_ours(&self, h: &Hazard, hazard: &Hazard) -> bool {
        let is_new = matches!(self.draft.origin[h.second], Origin::New(_));
        is_new && h.buffer == hazard.buffer && h.kind == HazardKind::FreeInFlight
    }

    /// Changes that may mend a hazard, the best first, each of which leaves the program well formed.
    fn candidates(&self, found: &Hazard, before: &Before<'_>) -> impl Iterator<Item = Moved> {
        let &Before { program, hazard, terms, .. } = before;
        let mut syncs = Vec::new();
        let free = &program.commands()[hazard.first];
        // A free that waited for all devices leaves waits behind for those whose work something relied on.
        if let (false, Mode::Typical, Op::Free { stream: None, .. }) =
            (self.is_ours(found, hazard), terms.mode, &free.op)
            && let Ok(facts) = program.check()
        {
            match self.draft.program.commands()[found.first].op.stream() {
                // While something of the device captures, only a stream can be waited for.
                Some(stream) => {
                    let dev = facts.stream(stream).dev;
                    syncs.extend([Op::DeviceSync { dev }, Op::StreamSync { stream }]);
                }
                None => syncs.extend((0..facts.n_devices).map(|dev| Op::DeviceSync { dev })),
            }
        }
        let is_behind = |origin: &Origin| matches!(*origin, Origin::Old(k) if hazard.first < k);
        let place = self.draft.origin.iter().position(is_behind).unwrap_or(self.draft.origin.len());
        let sync = move |op: Op| {
            let command = Command { op, thread: free.thread, label: None };
            let draft = self.draft.with(&[Edit::Insert { before: place, command }])?;
            Some(Moved { draft, ..self.clone() })
        };
        syncs.into_iter().filter_map(sync).chain(self.mended(found))
    }

    /// With the remedy of a hazard, as any other gets it.
    fn mended(&self, found: &Hazard) -> Option<Moved> {
        let program = &self.draft.program;
        let mut next = inserted(program, remedy(program, found));
        // Only one new name of a kind can be kept.
        if next.edits.is_empty() || next.new_channel.is_some() && self.new_channel.is_some() {
            return None;
        }
        if let Some(event) = self.new_event.as_deref().filter(|_| next.new_event.is_some()) {
            next.again(program.names().find_event(event));
        }
        let mut named = self.draft.clone();
        named.program = next.named(program);
        let draft = named.with(&next.edits)?;
        let (new_event, new_channel) = (self.new_event.clone(), self.new_channel.clone());
        Some(Moved {
            draft,
            new_event: new_event.or(next.new_event),
            new_channel: new_channel.or(next.new_channel),
        })
    }
}
