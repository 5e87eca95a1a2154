//! What CUPTI records: pieces of work as they run, and which ids the calls had that enqueued them. Records have the sizes and
//! offsets that CUPTI 12 documents; what nobody reads is zero.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CString, c_char};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

use super::op::{Op, Place, Work};
use super::{Engine, Session};

pub(crate) const MEMCPY: u32 = 1;
pub(crate) const MEMSET: u32 = 2;
pub(crate) const DRIVER: u32 = 4;
pub(crate) const KERNEL: u32 = 10;
pub(crate) const MEMCPY_BETWEEN: u32 = 22;
pub(crate) const EXTERNAL: u32 = 39;

/// CUPTI's time when the first operation begins, and how long each takes: they run one after the other.
const BEGAN: u64 = 1_000_000_000;
const STEP: u64 = 1000;

/// Bytes of the records that are made here.
pub(crate) fn record_bytes(kind: u32) -> usize {
    match kind {
        MEMCPY | MEMCPY_BETWEEN => 96,
        MEMSET => 80,
        KERNEL => 168,
        EXTERNAL => 24,
        DRIVER => 40,
        _ => 64,
    }
}

/// What is recorded.
#[derive(Debug, Default)]
pub(crate) struct Activities {
    on: BTreeSet<u32>,
    /// External ids by thread and kind, the last one uppermost.
    ids: HashMap<(ThreadId, u32), Vec<u64>>,
    records: Vec<Vec<u8>>,
}

/// A record's bytes, with fields at their offsets.
fn record(kind: u32, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; record_bytes(kind)];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    bytes
}

/// The address of a name that stays for as long as the process lives.
fn name(text: &str) -> u64 {
    static NAMES: Mutex<BTreeMap<String, &'static CString>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let name = names.entry(text.to_owned()).or_insert_with(|| {
        Box::leak(Box::new(CString::new(text.replace('\0', " ")).expect("no zero byte is left")))
    });
    let at: *const c_char = name.as_ptr();
    at.expose_provenance() as u64
}

impl Session<'_> {
    /// Notes a call that enqueued something.
    pub(crate) fn activity_call(&mut self, op: u64) {
        if !self.activities.on.contains(&DRIVER) {
            return;
        }
        let (thread, correlation) = (self.thread, correlation(op));
        if self.activities.on.contains(&EXTERNAL) {
            let of_thread = self.activities.ids.iter().filter(|((of, _), _)| *of == thread);
            let ids: BTreeMap<u32, u64> =
                of_thread.filter_map(|((_, kind), ids)| Some((*kind, *ids.last()?))).collect();
            for (kind, id) in ids {
                let fields: [(usize, &[u8]); 3] =
                    [(4, &kind.to_le_bytes()), (8, &id.to_le_bytes()), (16, &correlation.to_le_bytes())];
                self.activities.records.push(record(EXTERNAL, &fields));
            }
        }
        let now = self.activity_now().to_le_bytes();
        let fields: [(usize, &[u8]); 3] = [(8, &now), (16, &now), (32, &correlation.to_le_bytes())];
        self.activities.records.push(record(DRIVER, &fields));
    }

    fn activity_now(&self) -> u64 {
        BEGAN + STEP * self.ran
    }

    /// Notes work that runs now.
    pub(crate) fn activity_work(&mut self, op: &Op) {
        let device_of = |place: &Place| match place {
            Place::Device(at) => self.memory.device_of(*at),
            _ => None,
        };
        let memory = |place: &Place| match place {
            Place::Device(_) => 3u8,
            Place::Pinned(_) => 2,
            Place::Pageable(_) | Place::Staged(_) => 1,
        };
        let (end, correlation) = (self.activity_now(), correlation(op.id).to_le_bytes());
        let (start, end) = ((end - STEP + STEP / 10).to_le_bytes(), end.to_le_bytes());
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let (device, stream) = (small(op.device), small(op.stream));
        let times: [(usize, &[u8]); 2] = [(16, &start), (24, &end)];
        let made = match &op.work {
            Work::Copy { from, to, len, .. } => {
                let way = match (device_of(from), device_of(to)) {
                    (None, Some(_)) => 1u8,
                    (Some(_), None) => 2,
                    (Some(from), Some(to)) if from == to => 8,
                    (Some(_), Some(_)) => 10,
                    (None, None) => 9,
                };
                let (kind, at) = if way == 10 { (MEMCPY_BETWEEN, 60) } else { (MEMCPY, 44) };
                let kinds = [way, memory(from), memory(to)];
                let fields: [(usize, &[u8]); 5] =
                    [(4, &kinds), (8, &len.to_le_bytes()), (32, &device), (40, &stream), (at, &correlation)];
                record(kind, &[&fields[..], &times[..]].concat())
            }
            Work::Fill { len, .. } => {
                let fields: [(usize, &[u8]); 4] =
                    [(8, &len.to_le_bytes()), (32, &device), (40, &stream), (44, &correlation)];
                record(MEMSET, &[&fields[..], &times[..]].concat())
            }
            Work::Launch { kernel, .. } => {
                let name = name(&kernel.name).to_le_bytes();
                let fields: [(usize, &[u8]); 4] =
                    [(40, &device), (48, &stream), (92, &correlation), (104, &name)];
                record(KERNEL, &[&fields[..], &times[..]].concat())
            }
            _ => return,
        };
        let kind = u32::from_le_bytes([made[0], made[1], made[2], made[3]]);
        if self.activities.on.contains(&kind) {
            self.activities.records.push(made);
        }
    }
}

fn correlation(op: u64) -> u32 {
    u32::try_from(op + 1).unwrap_or(u32::MAX)
}

impl Engine {
    /// Whether activities of a kind are recorded from now on.
    pub(crate) fn activity_record(&self, kind: u32, is_on: bool) {
        let mut session = self.session("cuptiActivityEnable");
        if is_on {
            session.activities.on.insert(kind);
        } else {
            session.activities.on.remove(&kind);
        }
    }

    pub(crate) fn activity_time(&self) -> u64 {
        self.session("cuptiGetTimestamp").activity_now()
    }

    pub(crate) fn activity_push(&self, kind: u32, id: u64) {
        let mut session = self.session("cuptiActivityPushExternalCorrelationId");
        let thread = session.thread;
        session.activities.ids.entry((thread, kind)).or_default().push(id);
    }

    /// `None` where nothing was pushed.
    pub(crate) fn activity_pop(&self, kind: u32) -> Option<u64> {
        let mut session = self.session("cuptiActivityPopExternalCorrelationId");
        let thread = session.thread;
        session.activities.ids.get_mut(&(thread, kind))?.pop()
    }

    /// The records so far, which are forgotten.
    pub(crate) fn activity_take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.session("cuptiActivityFlushAll").activities.records)
    }

    /// How the stand-in for CUPTI is to behave.
    pub(crate) fn activity_manner(&self) -> crate::config::Cupti {
        self.session("cupti").config.cupti
    }
}
