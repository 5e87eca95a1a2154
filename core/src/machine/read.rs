//! Reads machine profiles from JSON.

use std::fmt;

use serde_json::{Map, Value};

use super::{BUILTIN, FIELDS, Field, Grade, Machine, Missing, Rate, Ratio, Source, source};
use crate::json;
use crate::ordered::CollectVec;

/// Why bytes could not be read as a machine.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MachineError {
    /// The bytes are no JSON object.
    Syntax(String),
    /// `schema_version` is there and not 1.
    Version(String),
    /// A list of profiles without a profile.
    NoProfile,
    /// One profile was wanted.
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// A figure without which there is no machine.
    Missing {
        /// The profile.
        profile: String,
        /// The figure.
        field: &'static str,
    },
    /// No figure has this name.
    Unknown {
        /// The profile.
        profile: String,
        /// The name.
        field: String,
    },
    /// A figure that cannot be.
    Figure {
        /// The profile.
        profile: String,
        /// The figure.
        field: String,
        /// What is wrong with it.
        message: String,
    },
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineError::Syntax(text) => write!(f, "no machine file: {text}"),
            MachineError::Version(text) => write!(f, "schema_version is {text}, only 1 is known"),
            MachineError::NoProfile => f.write_str("the file holds no machine profile"),
            MachineError::Several { names } => write!(
                f,
                "the file holds {} machine profiles, one is wanted: {}",
                names.len(),
                names.join(", ")
            ),
            MachineError::Missing { profile, field } => {
                write!(f, "machine {profile:?}, field {field:?}: it is missing")
            }
            MachineError::Unknown { profile, field } => {
                write!(f, "machine {profile:?}: no figure is called {field:?}")
            }
            MachineError::Figure { profile, field, message } => {
                write!(f, "machine {profile:?}, field {field:?}: {message}")
            }
        }
    }
}

crate::error::told!(MachineError);

type Object = Map<String, Value>;

pub(super) fn read(bytes: &[u8]) -> Result<Vec<Machine>, MachineError> {
    let file = object(bytes).map_err(MachineError::Syntax)?;
    if let Some(version) = file.get("schema_version").filter(|v| v.as_i64() != Some(1)) {
        return Err(MachineError::Version(version.to_string()));
    }
    let common = match file.get("common") {
        None => None,
        Some(Value::Object(common)) => Some(common),
        Some(_) => return Err(wrong("", "common", "it is no object")),
    };
    let Some(profiles) = file.get("profiles") else {
        let name = match file.get("name") {
            Some(Value::String(name)) => name.as_str(),
            Some(_) => return Err(wrong("", "name", "it is no text")),
            None => "unnamed",
        };
        return Ok(vec![profile(name, &file, common)?]);
    };
    let Value::Object(profiles) = profiles else {
        return Err(wrong("", "profiles", "it is no object"));
    };
    let beside = file.keys().filter(|key| *key != "profiles" && !OTHERS.contains(&key.as_str()));
    let read = profiles.iter().map(|(name, fields)| match fields {
        Value::Object(fields) => {
            let mut machine = profile(name, fields, common)?;
            // Figures hold for all profiles in `common` alone.
            machine.ignored.extend(beside.clone().cloned());
            Ok(machine)
        }
        _ => Err(wrong(name, "profiles", "the profile is no object")),
    });
    read.try_collect_vec()
}

/// A file's one object, with or without a byte order mark.
pub(crate) fn object(bytes: &[u8]) -> Result<Object, String> {
    match json::value(bytes)? {
        Value::Object(object) => Ok(object),
        _ => Err("it is no object".to_owned()),
    }
}

pub(super) fn wrong(profile: &str, field: &str, message: &str) -> MachineError {
    MachineError::Figure { profile: profile.into(), field: field.into(), message: message.into() }
}

/// Fields of a profile that are no figures.
const OTHERS: [&str; 7] = ["conf", "note", "name", "schema_version", "common", "units", "fit"];

fn profile(name: &str, fields: &Object, common: Option<&Object>) -> Result<Machine, MachineError> {
    let built_in;
    let layers: &[&Object] = match common {
        // The built-in file stands under every other, but not under itself.
        Some(common) if FIELDS.iter().all(|f| !is_common(&f.default) || common.contains_key(f.name)) => {
            &[fields, common]
        }
        _ => {
            built_in = object(BUILTIN.as_bytes()).map_err(MachineError::Syntax)?;
            let Some(Value::Object(under)) = built_in.get("common") else {
                unreachable!("bug: the built-in machines have no common figures")
            };
            &[fields, common.unwrap_or(under), under]
        }
    };
    let mut machine = Machine::blank(name);
    machine.note = fields.get("note").and_then(Value::as_str).unwrap_or_default().to_owned();
    for field in FIELDS {
        let found = layers.iter().find_map(|layer| Some((layer.get(field.name)?, *layer)));
        let from = match (found, &field.default) {
            (Some((value, layer)), _) => {
                assign(&mut machine, field, value).map_err(|e| wrong(name, field.name, &e))?;
                source_of(layer, field.name)
            }
            (None, Missing::Assumed(fill, why)) => {
                fill(&mut machine);
                source(Grade::Assumed, why)
            }
            (None, _) => return Err(MachineError::Missing { profile: name.into(), field: field.name }),
        };
        machine.sources.push(from);
    }
    let known = |key: &str| OTHERS.contains(&key) || FIELDS.iter().any(|f| f.name == key);
    let keys = fields.keys().chain(common.into_iter().flat_map(Map::keys));
    machine.ignored = keys.filter(|key| !known(key)).cloned().collect_vec();
    Ok(machine)
}

/// Gives a machine one figure.
pub(super) fn assign(machine: &mut Machine, field: &Field, value: &Value) -> Result<(), String> {
    // There may be no link between devices and no call for many pieces, and that is written as 0.
    let may_be_absent = match field.name {
        "p2p_bw" => Some(&mut machine.p2p_bw),
        "batch_bw" => Some(&mut machine.batch_bw),
        "changed_read_bw" => Some(&mut machine.changed_read_bw),
        _ => None,
    };
    if let (Some(rate), Some(0.0)) = (may_be_absent, value.as_f64()) {
        *rate = Rate(0);
        return Ok(());
    }
    (field.read)(machine, value)?;
    fault(machine, field.name).map_or(Ok(()), |why| Err(why.to_owned()))
}

/// Whether a figure is the 0 that stands for what is not there.
pub(super) fn may_be_absent(machine: &Machine, name: &str) -> bool {
    match name {
        "p2p_bw" => machine.p2p_bw.0 == 0,
        "batch_bw" => machine.batch_bw.0 == 0,
        "changed_read_bw" => machine.changed_read_bw.0 == 0,
        _ => false,
    }
}

/// What is wrong with a figure that its type does not say.
pub(super) fn fault(machine: &Machine, name: &str) -> Option<&'static str> {
    let factor = match name {
        "stage_chunk" if machine.stage_chunk.0 == 0 => return Some("0 bytes hold nothing"),
        "framework_hot_factor" if machine.framework_hot_factor < Ratio::ONE => {
            return Some("caches are no slower than memory");
        }
        "framework_copy_grain" if machine.framework_copy_grain.0 == 0 => return Some("0 bytes are no part"),
        "bidir_factor_h2d" => machine.bidir_factor_h2d,
        "bidir_factor_d2h" => machine.bidir_factor_d2h,
        _ => return None,
    };
    let keeps = 1_000_000 <= factor.0 && factor <= Ratio::ONE;
    (!keeps).then_some("a direction keeps between 0.001 and 1 of its rate")
}

fn is_common(missing: &Missing) -> bool {
    matches!(missing, Missing::Common)
}

fn source_of(layer: &Object, field: &str) -> Source {
    match layer.get("conf") {
        Some(Value::String(all)) => Source::parse(all),
        Some(Value::Object(each)) => {
            let conf = each.get(field).or_else(|| each.get("rest")).and_then(Value::as_str);
            Source::parse(conf.unwrap_or_default())
        }
        _ => source(Grade::Unstated, ""),
    }
}
