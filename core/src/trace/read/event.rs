//! One event: which of its members are known, and what stands in them.

use super::ReadError;
use super::scan::{Cursor, Quoted, Value};

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
    /// It is something else than an object.
    pub wrong: bool,
    pub device: Option<Value<'a>>,
    pub stream: Option<Value<'a>>,
    pub correlation: Option<Value<'a>>,
    pub bytes: Option<Value<'a>>,
    pub direction: Option<Value<'a>>,
    /// What joins an operator and the host calls made for it.
    pub external: Option<Value<'a>>,
    /// A host call's size, where the device's row has none (ROCm).
    pub size: Option<Value<'a>>,
    /// The Python or TorchScript stack of an operator, innermost first.
    pub call_stack: Option<Value<'a>>,
    pub wait_on_stream: Option<Value<'a>>,
    pub wait_on_record: Option<Value<'a>>,
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

/// The event whose opening brace is next, into fields that are empty: they are too large to be handed over.
pub(in crate::trace) fn fields<'a>(
    cursor: &mut Cursor<'a>,
    fields: &mut Fields<'a>,
) -> Result<(), ReadError> {
    cursor.at += 1;
    if cursor.take(b'}') {
        return Ok(());
    }
    loop {
        let name = cursor.key()?;
        let unescaped;
        let key = match name.plain() {
            Some(key) => key,
            None => {
                unescaped = name.text();
                &*unescaped
            }
        };
        let slot = match key.as_bytes() {
            b"ph" => Some(&mut fields.ph),
            b"cat" => Some(&mut fields.cat),
            b"name" => Some(&mut fields.name),
            b"ts" => Some(&mut fields.ts),
            b"dur" => Some(&mut fields.dur),
            b"pid" => Some(&mut fields.pid),
            b"tid" => Some(&mut fields.tid),
            b"id" => Some(&mut fields.id),
            b"spanlift" => Some(&mut fields.mark),
            b"args" => {
                if fields.args.text.is_some() || fields.args.wrong {
                    fields.duplicates += 1;
                    fields.args = Args::default();
                }
                if cursor.peek() == b'{' {
                    args(cursor, &mut fields.args, &mut fields.duplicates)?;
                } else {
                    fields.args.wrong = cursor.value()? != Value::Null;
                }
                if cursor.another(b'}')? {
                    continue;
                }
                break;
            }
            _ => None,
        };
        match slot {
            Some(slot) => fields.duplicates += u64::from(cursor.value_into(slot)?),
            None => {
                cursor.value()?;
            }
        }
        if !cursor.another(b'}')? {
            break;
        }
    }
    Ok(())
}

fn args<'a>(cursor: &mut Cursor<'a>, args: &mut Args<'a>, duplicates: &mut u64) -> Result<(), ReadError> {
    let from = cursor.at;
    cursor.at += 1;
    // Where the comma in front of the member stands.
    let mut comma = from + 1;
    if !cursor.take(b'}') {
        loop {
            let name = cursor.key()?;
            let unescaped;
            let key = match name.plain() {
                Some(key) => key,
                None => {
                    unescaped = name.text();
                    &*unescaped
                }
            };
            let slot = match key.as_bytes() {
                b"device" => Some(&mut args.device),
                b"stream" => Some(&mut args.stream),
                b"correlation" => Some(&mut args.correlation),
                b"bytes" => Some(&mut args.bytes),
                b"direction" => Some(&mut args.direction),
                b"External id" | b"external id" => Some(&mut args.external),
                b"size" => Some(&mut args.size),
                b"Call stack" => Some(&mut args.call_stack),
                b"wait_on_stream" => Some(&mut args.wait_on_stream),
                b"wait_on_cuda_event_record_corr_id" => Some(&mut args.wait_on_record),
                b"Bytes" => Some(&mut args.allocated),
                b"Addr" => Some(&mut args.addr),
                b"Device Type" => Some(&mut args.device_type),
                b"Device Id" => Some(&mut args.device_id),
                b"Total Allocated" => Some(&mut args.total_allocated),
                b"Total Reserved" => Some(&mut args.total_reserved),
                b"name" => Some(&mut args.name),
                b"labels" => Some(&mut args.labels),
                b"sort_index" => Some(&mut args.sort_index),
                _ => None,
            };
            match slot {
                Some(slot) => *duplicates += u64::from(cursor.value_into(slot)?),
                None => {
                    let value = cursor.value()?;
                    if let (Value::Container(text), b"spanlift") = (value, key.as_bytes()) {
                        args.mark = Some((text, comma - from));
                    }
                }
            }
            cursor.peek();
            comma = cursor.at;
            if !cursor.another(b'}')? {
                break;
            }
        }
    }
    args.text = Some(cursor.since(from));
    Ok(())
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
