//! One event: which of its members are known, and what stands in them.

use super::ReadError;
use super::scan::{Cursor, Quoted, Value};
use super::shapes::Shapes;

/// The members that any reader of an event needs; the rest is walked over.
#[derive(Debug, Default)]
pub(in crate::trace) struct Fields<'a> {
    pub ph: Option<Value<'a>>,
    pub cat: Option<Value<'a>>,
    pub name: Option<Value<'a>>,
    pub ts: Option<Value<'a>>,
    pub dur: Option<Value<'a>>,
    pub pid: Option<Value<'a>>,
    pub tid: Option<Value<'a>>,
    pub id: Option<Value<'a>>,
    /// What our own writer says of a counter's sample or an arrow.
    pub mark: Option<Value<'a>>,
    pub args: Args<'a>,
    /// Members that came twice, the last of which is kept.
    pub duplicates: u64,
}

/// The members of `args` that say where an event belongs and what it moved.
#[derive(Debug, Default)]
pub(in crate::trace) struct Args<'a> {
    /// The object's text; `None` when it is absent or null.
    pub text: Option<&'a str>,
    /// The byte of the whole file at which `text` begins.
    pub at: usize,
    /// It is something else than an object.
    pub wrong: bool,
    pub device: Option<Value<'a>>,
    pub stream: Option<Value<'a>>,
    pub correlation: Option<Value<'a>>,
    pub bytes: Option<Value<'a>>,
    pub direction: Option<Value<'a>>,
    /// What joins an operator and the host calls made for it.
    pub external: Option<Value<'a>>,
    /// The bytes of a copy that has a `direction` (MTIA), or those that a host call was given (ROCm, where newer files call them
    /// `bytes` as on devices).
    pub size: Option<Value<'a>>,
    /// The Python or TorchScript stack of an operator, innermost first.
    pub call_stack: Option<Value<'a>>,
    pub wait_on_stream: Option<Value<'a>>,
    pub wait_on_record: Option<Value<'a>>,
    /// Who takes part in a collective: what the group is called, and its ranks.
    pub group_name: Option<Value<'a>>,
    pub group_ranks: Option<Value<'a>>,
    /// Of memory instants, as are the five below it.
    pub allocated: Option<Value<'a>>,
    pub addr: Option<Value<'a>>,
    pub device_type: Option<Value<'a>>,
    pub device_id: Option<Value<'a>>,
    pub total_allocated: Option<Value<'a>>,
    pub total_reserved: Option<Value<'a>>,
    pub name: Option<Value<'a>>,
    pub labels: Option<Value<'a>>,
    pub sort_index: Option<Value<'a>>,
    /// What our own writer says of the event, and how many bytes of `text` stand before it.
    pub mark: Option<(&'a str, usize)>,
}

/// What comes next in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The end of the object.
    Close,
    /// A member of the event.
    Member(Member),
    /// The object of arguments.
    Args,
    /// A member of `args`.
    Arg(Arg),
    /// What our own writer says of the event, among its arguments.
    Mark,
    /// A member that nobody asks for.
    Other,
}

/// The members of [`Fields`] that are values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    Ph,
    Cat,
    Name,
    Ts,
    Dur,
    Pid,
    Tid,
    Id,
    Mark,
}

/// The members of [`Args`] that are values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arg {
    Device,
    Stream,
    Correlation,
    Bytes,
    Direction,
    External,
    Size,
    CallStack,
    WaitOnStream,
    WaitOnRecord,
    GroupName,
    GroupRanks,
    Allocated,
    Addr,
    DeviceType,
    DeviceId,
    TotalAllocated,
    TotalReserved,
    Name,
    Labels,
    SortIndex,
}

fn member(name: &[u8]) -> Part {
    Part::Member(match name {
        b"ph" => Member::Ph,
        b"cat" => Member::Cat,
        b"name" => Member::Name,
        b"ts" => Member::Ts,
        b"dur" => Member::Dur,
        b"pid" => Member::Pid,
        b"tid" => Member::Tid,
        b"id" => Member::Id,
        b"spanlift" => Member::Mark,
        b"args" => return Part::Args,
        _ => return Part::Other,
    })
}

fn arg(name: &[u8]) -> Part {
    Part::Arg(match name {
        b"device" => Arg::Device,
        b"stream" => Arg::Stream,
        b"correlation" => Arg::Correlation,
        b"bytes" => Arg::Bytes,
        b"direction" => Arg::Direction,
        b"External id" | b"external id" => Arg::External,
        b"size" => Arg::Size,
        b"Call stack" => Arg::CallStack,
        b"wait_on_stream" => Arg::WaitOnStream,
        b"wait_on_cuda_event_record_corr_id" => Arg::WaitOnRecord,
        b"Process Group Name" => Arg::GroupName,
        b"Process Group Ranks" => Arg::GroupRanks,
        b"Bytes" => Arg::Allocated,
        b"Addr" => Arg::Addr,
        b"Device Type" => Arg::DeviceType,
        b"Device Id" => Arg::DeviceId,
        b"Total Allocated" => Arg::TotalAllocated,
        b"Total Reserved" => Arg::TotalReserved,
        b"name" => Arg::Name,
        b"labels" => Arg::Labels,
        b"sort_index" => Arg::SortIndex,
        b"spanlift" => return Part::Mark,
        _ => return Part::Other,
    })
}

impl<'a> Fields<'a> {
    /// The letter that the phase is; 0 for an absent, empty or longer one.
    pub(in crate::trace) fn phase(&self) -> u8 {
        match self.ph {
            Some(Value::Text(quoted)) => {
                <[u8; 1]>::try_from(quoted.text().as_bytes()).map_or(0, |[byte]| byte)
            }
            _ => 0,
        }
    }

    fn slot(&mut self, member: Member) -> &mut Option<Value<'a>> {
        match member {
            Member::Ph => &mut self.ph,
            Member::Cat => &mut self.cat,
            Member::Name => &mut self.name,
            Member::Ts => &mut self.ts,
            Member::Dur => &mut self.dur,
            Member::Pid => &mut self.pid,
            Member::Tid => &mut self.tid,
            Member::Id => &mut self.id,
            Member::Mark => &mut self.mark,
        }
    }
}

impl<'a> Args<'a> {
    fn slot(&mut self, arg: Arg) -> &mut Option<Value<'a>> {
        match arg {
            Arg::Device => &mut self.device,
            Arg::Stream => &mut self.stream,
            Arg::Correlation => &mut self.correlation,
            Arg::Bytes => &mut self.bytes,
            Arg::Direction => &mut self.direction,
            Arg::External => &mut self.external,
            Arg::Size => &mut self.size,
            Arg::CallStack => &mut self.call_stack,
            Arg::WaitOnStream => &mut self.wait_on_stream,
            Arg::WaitOnRecord => &mut self.wait_on_record,
            Arg::GroupName => &mut self.group_name,
            Arg::GroupRanks => &mut self.group_ranks,
            Arg::Allocated => &mut self.allocated,
            Arg::Addr => &mut self.addr,
            Arg::DeviceType => &mut self.device_type,
            Arg::DeviceId => &mut self.device_id,
            Arg::TotalAllocated => &mut self.total_allocated,
            Arg::TotalReserved => &mut self.total_reserved,
            Arg::Name => &mut self.name,
            Arg::Labels => &mut self.labels,
            Arg::SortIndex => &mut self.sort_index,
        }
    }
}

/// The event whose opening brace is next, into fields that are empty: they are too large to be handed over.
pub(super) fn fields<'a>(
    cursor: &mut Cursor<'a>,
    shapes: &mut Shapes,
    fields: &mut Fields<'a>,
) -> Result<(), ReadError> {
    cursor.at += 1;
    shapes.begin();
    let mut first = true;
    loop {
        match part(cursor, shapes, first, member)? {
            Part::Close => return Ok(()),
            Part::Member(member) => {
                fields.duplicates += u64::from(cursor.value_into(fields.slot(member))?);
            }
            Part::Args => {
                if fields.args.text.is_some() || fields.args.wrong {
                    fields.duplicates += 1;
                    fields.args = Args::default();
                }
                if cursor.peek() == b'{' {
                    args(cursor, shapes, &mut fields.args, &mut fields.duplicates)?;
                } else {
                    fields.args.wrong = cursor.value()? != Value::Null;
                    // What was learned to follow is what begins an object.
                    shapes.lose();
                }
            }
            Part::Arg(_) | Part::Mark | Part::Other => cursor.skip()?,
        }
        first = false;
    }
}

fn args<'a>(
    cursor: &mut Cursor<'a>,
    shapes: &mut Shapes,
    args: &mut Args<'a>,
    duplicates: &mut u64,
) -> Result<(), ReadError> {
    let from = cursor.at;
    cursor.at += 1;
    let mut first = true;
    loop {
        let before = cursor.at;
        match part(cursor, shapes, first, arg)? {
            Part::Close => break,
            Part::Arg(arg) => *duplicates += u64::from(cursor.value_into(args.slot(arg))?),
            Part::Mark => {
                // The comma in front of it, which no white space is.
                let comma = if first { before } else { cursor.after_space(before) };
                if let Value::Container(text) = cursor.value()? {
                    args.mark = Some((text, comma - from));
                }
            }
            Part::Args | Part::Member(_) | Part::Other => cursor.skip()?,
        }
        first = false;
    }
    args.text = Some(cursor.since(from));
    args.at = cursor.offset(from);
    Ok(())
}

/// What comes next in an object, up to the value of a member.
#[inline(always)]
fn part(
    cursor: &mut Cursor<'_>,
    shapes: &mut Shapes,
    first: bool,
    called: fn(&[u8]) -> Part,
) -> Result<Part, ReadError> {
    match shapes.guess(cursor.rest()) {
        Some((part, len)) => {
            cursor.at += len;
            Ok(part)
        }
        None => walked(cursor, shapes, first, called),
    }
}

/// The same where no guess holds.
#[cold]
fn walked(
    cursor: &mut Cursor<'_>,
    shapes: &mut Shapes,
    first: bool,
    called: fn(&[u8]) -> Part,
) -> Result<Part, ReadError> {
    let (from, lenient) = (cursor.at, cursor.lenient);
    let ends = if first { cursor.take(b'}') } else { !cursor.another(b'}')? };
    let mut part = Part::Close;
    if !ends {
        let name = cursor.key()?;
        part = called(name.text().as_bytes());
        cursor.peek();
    }
    // What is let through is counted each time, and where a mark begins is asked for.
    if cursor.lenient == lenient && part != Part::Mark && !cursor.is_at_end() {
        shapes.learn(cursor.since(from).as_bytes(), part);
    } else {
        shapes.lose();
    }
    Ok(part)
}

/// The arguments of an event, by a text that was walked before; none where it is no object's.
pub(in crate::trace) fn arguments(text: &str) -> Args<'_> {
    let mut args = Args::default();
    if text.starts_with('{') {
        members(text, |key, value| {
            if let Part::Arg(arg) = arg(key.raw.as_bytes()) {
                *args.slot(arg) = Some(value);
            }
        });
    }
    args
}

/// The members of an object that was walked before, in order.
pub(in crate::trace) fn members<'a>(object: &'a str, mut each: impl FnMut(Quoted<'a>, Value<'a>)) {
    let mut cursor = Cursor::new(object);
    cursor.at = 1;
    // It was walked before, so nothing here fails.
    while let Ok(key) = cursor.key() {
        let Ok(value) = cursor.value() else { return };
        each(key, value);
        if !matches!(cursor.another(b'}'), Ok(true)) {
            return;
        }
    }
}
