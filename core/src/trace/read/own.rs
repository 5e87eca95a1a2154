//! Takes over what our own files say of themselves.

use super::ReadError;
use crate::Program;
use crate::json::read;
use crate::ordered::BTreeMap;
use crate::trace::Trace;
use crate::trace::own::{Header, SCHEMA_VERSION};

/// The top-level object of one of our files, ready for use.
#[derive(Debug)]
pub(super) struct Own {
    pub header: Header,
    /// The lane of each row of events.
    pub lane_of: BTreeMap<(i64, i64), u32>,
    program: Option<Program>,
}

/// Reads the object `spanlift`; `None` when it is somebody else's.
pub(super) fn read(text: &str, offset: usize) -> Result<Option<Own>, ReadError> {
    struct Version {
        schema_version: u64,
    }

    read!(Version: schema_version);
    let wrong = |message: String| ReadError::Syntax { offset, message };
    let Ok(Version { schema_version }) = serde_json::from_str(text) else { return Ok(None) };
    if schema_version != SCHEMA_VERSION {
        return Err(wrong(format!(
            "spanlift.schema_version is {schema_version}, only {SCHEMA_VERSION} is known"
        )));
    }
    let header: Header = serde_json::from_str(text).map_err(|e| wrong(format!("spanlift: {e}")))?;
    let mut lane_of = BTreeMap::new();
    for (index, lane) in header.lanes.iter().enumerate() {
        let index = u32::try_from(index).map_err(|e| wrong(format!("spanlift.lanes: {e}")))?;
        lane_of.extend(lane.tids.iter().map(|&tid| ((lane.pid, tid), index)));
    }
    let program = match &header.program {
        Some(json) => Some(
            Program::from_json(json.get().as_bytes()).map_err(|e| wrong(format!("spanlift.program: {e}")))?,
        ),
        None => None,
    };
    Ok(Some(Own { header, lane_of, program }))
}

impl Own {
    /// Puts what stands beside the events into the trace.
    pub(super) fn restore(self, trace: &mut Trace) {
        trace.title = self.header.title;
        trace.source = self.header.source.0;
        trace.program = self.program;
        if let Some(import) = self.header.import {
            trace.import = import;
        }
    }
}
