//! A schedule as a trace, so that whatever draws traces draws it: every step takes one unit, whatever it would take.

use super::explain::step_name;
use super::schedule::Schedule;
use crate::hazard::{Part, Relation};
use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::program::{Copy, Op, Space, StreamId, StreamKind, ThreadId};
use crate::trace::{Kind, Lane, LaneKind, Slice, Source, StrId, Trace};
use crate::units::Nanos;

/// What stands for one step in the trace of a schedule.
pub const STEP: Nanos = Nanos(1_000);

impl Schedule {
    /// The schedule as a trace: lanes for the host threads and the streams that do something, one microsecond for each
    /// step in its order. These are no times; they only say what comes first.
    ///
    /// ```
    /// use spanlift::Program;
    /// use spanlift::explore::Schedule;
    /// use spanlift::hazard::{Mode, Relation};
    ///
    /// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy x <- d on s\nread x")?;
    /// let relation = Relation::of(&p, Mode::Contract)?;
    /// let trace = Schedule::replay(&relation, &"w3:c4".parse().unwrap())?.trace(&relation);
    /// let lanes: Vec<&str> = trace.lanes.iter().map(|lane| trace.strings.get(lane.name)).collect();
    /// assert_eq!((lanes, trace.slices.len()), (vec!["main", "s"], 6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace(&self, relation: &Relation<'_>) -> Trace {
        let program = relation.program;
        let names = program.names();
        let mut trace = Trace {
            title: program.title.clone(),
            source: Source::Schedule { replay: self.holds(relation).to_string() },
            program: Some(program.clone()),
            ..Trace::default()
        };
        let mut lanes: BTreeMap<(Option<StreamId>, ThreadId), u32> = BTreeMap::new();
        let ids: Vec<_> = self.ids(relation).collect_vec();
        let place = |id: crate::hazard::StepId| {
            let command = &program.commands()[id.command];
            let stream = command.op.stream().filter(|_| id.part != Part::Call);
            (stream, if stream.is_some() { ThreadId::FIRST } else { command.thread })
        };
        let mut places: Vec<_> = ids.iter().map(|&id| place(id)).collect_vec();
        sort(&mut places);
        places.dedup();
        for (stream, thread) in places {
            let (kind, group, name) = match stream {
                None => (LaneKind::Host, "host".to_owned(), names.thread(thread)),
                Some(s) => {
                    let facts = relation.facts.stream(s);
                    let stream = i64::try_from(s.index()).unwrap_or(i64::MAX);
                    // As in the trace of a simulation.
                    let name =
                        if facts.kind == StreamKind::Legacy { "default stream" } else { names.stream(s) };
                    (
                        LaneKind::Stream { dev: i64::from(facts.dev), stream },
                        format!("cuda:{}", facts.dev),
                        name,
                    )
                }
            };
            let lane = Lane { kind, group: trace.strings.intern(&group), name: trace.strings.intern(name) };
            lanes.insert((stream, thread), u32::try_from(trace.lanes.len()).unwrap_or(u32::MAX));
            trace.lanes.push(lane);
        }
        for (at, &id) in (0i64..).zip(&ids) {
            let index = id.of();
            let command = &program.commands()[index];
            // On a thread's lane stands what it does itself, or the call that asks a stream to do it.
            let is_call = id.part == Part::Call && command.op.stream().is_some();
            let name = if is_call { command.op.name().replace('_', " ") } else { step_name(program, id) };
            let slice = Slice {
                lane: lanes.get(&place(id)).copied().unwrap_or_default(),
                start: Nanos(at.saturating_mul(STEP.0)),
                end: Nanos((at + 1).saturating_mul(STEP.0)),
                name: trace.strings.intern(&name),
                kind: if id.part == Part::Call {
                    of_call(&command.op)
                } else {
                    of_work(relation, &command.op)
                },
                bytes: 0,
                command: u32::try_from(index).unwrap_or(Slice::NONE),
                correlation: Slice::NO_CORRELATION,
                args: StrId::EMPTY,
            };
            trace.slices.push(slice, 0);
        }
        trace
    }
}

fn of_call(op: &Op) -> Kind {
    match op {
        Op::HostRead { .. } | Op::HostWrite { .. } | Op::HostWork { .. } => Kind::Work,
        Op::HostCopy { .. } => Kind::HostCopy,
        Op::StreamSync { .. } | Op::EventSync { .. } | Op::DeviceSync { .. } => Kind::Wait,
        _ => Kind::Call,
    }
}

fn of_work(relation: &Relation<'_>, op: &Op) -> Kind {
    match op {
        Op::Kernel(_) => Kind::Kernel,
        Op::HostFn { .. } => Kind::HostFn,
        Op::Memset { .. } => Kind::Memset,
        Op::Record { .. } => Kind::Record,
        Op::Wait { .. } => Kind::Sync,
        Op::Copy(Copy { dst, src, .. }) => {
            let [from, to] = [src, dst].map(|r| relation.facts.buffer(r.buffer));
            let host = |space| matches!(space, Space::Pinned | Space::Pageable);
            match (host(from.space), host(to.space)) {
                (true, false) => Kind::ToDevice,
                (false, true) => Kind::ToHost,
                (false, false) if from.dev == to.dev => Kind::WithinDevice,
                (false, false) => Kind::Peer,
                (true, true) => Kind::OtherCopy,
            }
        }
        _ => Kind::Other,
    }
}
