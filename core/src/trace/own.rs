//! The object `spanlift` in our own files: what the Chrome format cannot say.
//!
//! | member | type | what |
//! |---|---|---|
//! | `schema_version` | int | 1 |
//! | `title` | str | what the trace shows |
//! | `source` | `{"simulated": machine}`, `{"schedule": name}`, `{"imported": tool}` or null | where it came from |
//! | `lanes` | list of `{"kind", "group", "name", "pid", "tids"}` | one per lane, in order; several `tids` where slices overlap. `kind`: `"host"`, `{"stream": [dev, stream]}`, `{"engine": [dev, "to_device"\|"to_host"\|"peer"\|"compute"]}`, `"other"` |
//! | `counters` | list of `{"group", "name"}` | one per counter |
//! | `import` | object, absent for traces that were no file | the counts of the file that the trace was first read from |
//! | `program` | object, absent when not known | the program in its JSON form |
//!
//! Events carry the rest: `args.spanlift` of a slice or an instant is a [`Mark`], and everything in `args` before it is
//! the slice's own arguments, everything after it repeats in Kineto's words what other tools look for. The member
//! `spanlift` of a flow's start is an [`Arrow`], that of a counter's sample the counter's position.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Engine, FlowKind, Import, Kind, LaneKind, Source};

/// The version that is written and read.
pub(super) const SCHEMA_VERSION: u64 = 1;

/// The top-level object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub schema_version: u64,
    pub title: String,
    pub source: SourceForm,
    pub lanes: Vec<LaneForm>,
    pub counters: Vec<CounterForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<Import>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<RawValue>>,
}

/// [`Source`] in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SourceForm {
    Simulated(String),
    Schedule(String),
    Imported(String),
    #[default]
    Unknown,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LaneForm {
    pub kind: LaneKindForm,
    pub group: String,
    pub name: String,
    pub pid: i64,
    pub tids: Vec<i64>,
}

/// [`LaneKind`] in a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LaneKindForm {
    Host,
    Stream(i64, i64),
    Engine(i64, Engine),
    Other,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CounterForm {
    pub group: String,
    pub name: String,
}

/// What a slice or an instant is to us.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Mark<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The name, where the event's own is Kineto's word for the operation.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub pageable: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
    /// The category of the file that the slice was first read from.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub cat: Option<Cow<'a, str>>,
    /// The bytes, where the event's `args.bytes` is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// There is no correlation, whatever the event's `args.correlation` says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_correlation: bool,
    /// The correlation, where the event's `args.correlation` is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<i64>,
    /// The arguments, where they are no object with members.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Cow<'a, str>>,
}

/// An arrow between two slices, by their positions among the slices of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Arrow {
    pub kind: FlowKind,
    pub from: u32,
    pub to: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl From<&Source> for SourceForm {
    fn from(source: &Source) -> SourceForm {
        match source {
            Source::Simulated { machine } => SourceForm::Simulated(machine.clone()),
            Source::Schedule { replay } => SourceForm::Schedule(replay.clone()),
            Source::Imported { tool } => SourceForm::Imported(tool.clone()),
            Source::Unknown => SourceForm::Unknown,
        }
    }
}

impl From<SourceForm> for Source {
    fn from(source: SourceForm) -> Source {
        match source {
            SourceForm::Simulated(machine) => Source::Simulated { machine },
            SourceForm::Schedule(replay) => Source::Schedule { replay },
            SourceForm::Imported(tool) => Source::Imported { tool },
            SourceForm::Unknown => Source::Unknown,
        }
    }
}

impl From<LaneKind> for LaneKindForm {
    fn from(kind: LaneKind) -> LaneKindForm {
        match kind {
            LaneKind::Host => LaneKindForm::Host,
            LaneKind::Stream { dev, stream } => LaneKindForm::Stream(dev, stream),
            LaneKind::Engine { dev, engine } => LaneKindForm::Engine(dev, engine),
            LaneKind::Other => LaneKindForm::Other,
        }
    }
}

impl From<&LaneKindForm> for LaneKind {
    fn from(kind: &LaneKindForm) -> LaneKind {
        match *kind {
            LaneKindForm::Host => LaneKind::Host,
            LaneKindForm::Stream(dev, stream) => LaneKind::Stream { dev, stream },
            LaneKindForm::Engine(dev, engine) => LaneKind::Engine { dev, engine },
            LaneKindForm::Other => LaneKind::Other,
        }
    }
}
