//! The object `spanlift` in our own files, as [`write_chrome`](super::write_chrome) describes it.

use std::borrow::Cow;

use serde_core::de::Error;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{FlowKind, Import, Kind, LaneKind, Source};
use crate::json::object;

/// The version that is written and read.
pub(super) const SCHEMA_VERSION: u64 = 1;

/// The top-level object.
#[derive(Debug)]
pub(super) struct Header {
    pub schema_version: u64,
    pub title: String,
    pub source: SourceForm,
    pub lanes: Vec<LaneForm>,
    pub counters: Vec<CounterForm>,
    pub import: Option<Import>,
    pub program: Option<Box<RawValue>>,
}

object!(Header: schema_version, title, source, lanes, counters, import?, program?);

/// [`Source`] in a file.
#[derive(Debug)]
pub(super) struct SourceForm(pub Source);

impl Serialize for SourceForm {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (tag, name) = match &self.0 {
            Source::Simulated { machine } => ("simulated", machine),
            Source::Schedule { replay } => ("schedule", replay),
            Source::Imported { tool } => ("imported", tool),
            Source::Unknown => return to.serialize_str("unknown"),
        };
        to.collect_map([(tag, name)])
    }
}

impl<'de> Deserialize<'de> for SourceForm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SourceForm, D::Error> {
        let value = Value::deserialize(from)?;
        let name = |name: &Value| String::deserialize(name).map_err(D::Error::custom);
        Ok(SourceForm(match tagged(&value) {
            Some(("unknown", Value::Null)) => Source::Unknown,
            Some(("simulated", machine)) => Source::Simulated { machine: name(machine)? },
            Some(("schedule", replay)) => Source::Schedule { replay: name(replay)? },
            Some(("imported", tool)) => Source::Imported { tool: name(tool)? },
            _ => return Err(D::Error::custom(format_args!("{value} is no source"))),
        }))
    }
}

/// A choice in a file: the tag alone, or an object of the tag and what comes with it.
fn tagged(value: &Value) -> Option<(&str, &Value)> {
    match value {
        Value::String(tag) => Some((tag, &Value::Null)),
        Value::Object(map) if map.len() == 1 => map.iter().next().map(|(tag, with)| (&tag[..], with)),
        _ => None,
    }
}

#[derive(Debug)]
pub(super) struct LaneForm {
    pub kind: LaneKindForm,
    pub group: String,
    pub name: String,
    pub pid: i64,
    pub tids: Vec<i64>,
}

object!(LaneForm: kind, group, name, pid, tids);

/// [`LaneKind`] in a file.
#[derive(Debug)]
pub(super) struct LaneKindForm(pub LaneKind);

impl Serialize for LaneKindForm {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            LaneKind::Host => to.serialize_str("host"),
            LaneKind::Stream { dev, stream } => to.collect_map([("stream", (dev, stream))]),
            LaneKind::Engine { dev, engine } => to.collect_map([("engine", (dev, engine))]),
            LaneKind::Other => to.serialize_str("other"),
        }
    }
}

impl<'de> Deserialize<'de> for LaneKindForm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LaneKindForm, D::Error> {
        let value = Value::deserialize(from)?;
        Ok(LaneKindForm(match tagged(&value) {
            Some(("host", Value::Null)) => LaneKind::Host,
            Some(("other", Value::Null)) => LaneKind::Other,
            Some(("stream", of)) => {
                let (dev, stream) = Deserialize::deserialize(of).map_err(D::Error::custom)?;
                LaneKind::Stream { dev, stream }
            }
            Some(("engine", of)) => {
                let (dev, engine) = Deserialize::deserialize(of).map_err(D::Error::custom)?;
                LaneKind::Engine { dev, engine }
            }
            _ => return Err(D::Error::custom(format_args!("{value} is no kind of lane"))),
        }))
    }
}

#[derive(Debug)]
pub(super) struct CounterForm {
    pub group: String,
    pub name: String,
}

object!(CounterForm: group, name);

/// What a slice or an instant is to us.
#[derive(Debug, Default)]
pub(super) struct Mark<'a> {
    pub kind: Option<Kind>,
    /// The name, where the event's own is Kineto's word for the operation.
    pub name: Option<Cow<'a, str>>,
    pub command: Option<u32>,
    pub pageable: bool,
    pub pinned: bool,
    /// The category of the file that the slice was first read from.
    pub cat: Option<Cow<'a, str>>,
    /// The bytes, where the event's `args.bytes` is not ours.
    pub bytes: Option<u64>,
    /// There is no correlation, whatever the event's `args.correlation` says.
    pub no_correlation: bool,
    /// The correlation, where the event's `args.correlation` is not ours.
    pub correlation: Option<i64>,
    /// The arguments, where they are no object with members.
    pub args: Option<Cow<'a, str>>,
}

object!(Mark<'de>:
    kind?, name?, command?, pageable?, pinned?, cat?, bytes?, no_correlation?, correlation?, args?
);

/// An arrow between two slices, by their positions among the slices of the file.
#[derive(Debug)]
pub(super) struct Arrow {
    pub kind: FlowKind,
    pub from: u32,
    pub to: u32,
}

object!(Arrow: kind, from, to);
