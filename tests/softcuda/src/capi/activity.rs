//! A stand-in for CUPTI's activity interface: buffers asked for and given back as documented, with what the engine recorded;
//! and, where a test asks for it, otherwise than documented.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use super::engine;
use crate::config::Cupti;
use crate::engine::{KERNEL, MEMCPY, MEMCPY_BETWEEN, MEMSET, record_bytes};

/// `CUPTI_ERROR_INVALID_PARAMETER`
const INVALID: c_int = 1;
/// `CUPTI_ERROR_MAX_LIMIT_REACHED`
const NO_MORE: c_int = 12;
/// `CUPTI_ERROR_NOT_INITIALIZED`
const NOT_INITIALIZED: c_int = 15;
/// `CUPTI_ERROR_QUEUE_EMPTY`
const EMPTY: c_int = 19;
/// Records of a buffer at most, so that there are several.
const MOST: usize = 40;
/// Bytes of a kernel's record that ends before its name.
const STUB: usize = 96;
/// Kinds whose records have a beginning and an end at 16 and 24.
const TIMED: [u32; 4] = [MEMCPY, MEMSET, KERNEL, MEMCPY_BETWEEN];

fn kind_of(record: &[u8]) -> u32 {
    record.first_chunk().map_or(0, |kind| u32::from_le_bytes(*kind))
}

type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

static CALLBACKS: Mutex<Option<(Requested, Completed)>> = Mutex::new(None);

// SAFETY: the name is CUPTI's, on purpose; the object that carries it is loaded by tests alone.
#[unsafe(no_mangle)]
extern "C" fn cuptiActivityRegisterCallbacks(
    requested: Option<Requested>,
    completed: Option<Completed>,
) -> c_int {
    let Some(both) = requested.zip(completed) else { return INVALID };
    *CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner) = Some(both);
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnable(kind: u32) -> c_int {
    if engine().activity_manner() == Cupti::Refused {
        return NOT_INITIALIZED;
    }
    engine().activity_record(kind, true);
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cuptiActivityDisable(kind: u32) -> c_int {
    engine().activity_record(kind, false);
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetTimestamp(time: *mut u64) -> c_int {
    if time.is_null() {
        return INVALID;
    }
    // SAFETY: not null, and then it points to room for a number.
    unsafe { time.write(engine().activity_time()) };
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cuptiActivityPushExternalCorrelationId(kind: u32, id: u64) -> c_int {
    if engine().activity_manner() == Cupti::Deaf {
        return INVALID;
    }
    engine().activity_push(kind, id);
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityPopExternalCorrelationId(kind: u32, last: *mut u64) -> c_int {
    let Some(id) = engine().activity_pop(kind) else { return EMPTY };
    if !last.is_null() {
        // SAFETY: not null, and then it points to room for a number.
        unsafe { last.write(id) };
    }
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(_: *mut c_void, _: u32, dropped: *mut usize) -> c_int {
    if dropped.is_null() {
        return INVALID;
    }
    let n = if engine().activity_manner() == Cupti::Lost { 3 } else { 0 };
    // SAFETY: not null, and then it points to room for a number.
    unsafe { dropped.write(n) };
    0
}

/// The kind of the record at `at` of a buffer.
///
/// # Safety
/// Four bytes lie there.
unsafe fn kind_at(buffer: *mut u8, at: usize) -> u32 {
    // SAFETY: the caller's promise.
    u32::from_le_bytes(unsafe { buffer.wrapping_add(at).cast::<[u8; 4]>().read_unaligned() })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid: usize,
    record: *mut *mut u8,
) -> c_int {
    if buffer.is_null() || record.is_null() {
        return INVALID;
    }
    // SAFETY: not null, and then it points to null or to the record before.
    let before = unsafe { record.read() };
    let next = if before.is_null() {
        0
    } else {
        let at = before.addr() - buffer.addr();
        // SAFETY: the record before was found here, with at least four bytes.
        let kind = unsafe { kind_at(buffer, at) };
        at + if kind == KERNEL && engine().activity_manner() == Cupti::Stubby {
            STUB
        } else {
            record_bytes(kind)
        }
    };
    if valid < next + 4 {
        return NO_MORE;
    }
    let found = match engine().activity_manner() {
        // The same record for ever, or one that lies nowhere.
        Cupti::Backwards if next > 0 => before,
        Cupti::Outside if next > 0 => buffer.wrapping_add(1 << 40),
        _ => buffer.wrapping_add(next),
    };
    // SAFETY: not null, and then it points to room for a pointer.
    unsafe { record.write(found) };
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityFlushAll(_flags: u32) -> c_int {
    let callbacks = *CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((requested, completed)) = callbacks else { return NOT_INITIALIZED };
    let manner = engine().activity_manner();
    if manner == Cupti::Deaf {
        return NOT_INITIALIZED;
    }
    for records in engine().activity_take().chunks(MOST) {
        let mut bytes: Vec<u8> = Vec::new();
        for record in records {
            bytes.extend(record);
            if manner == Cupti::Timeless && bytes.len() >= record.len() && TIMED.contains(&kind_of(record)) {
                let at = bytes.len() - record.len();
                bytes[at + 16..at + 32].fill(0);
            }
            if manner == Cupti::Stubby && kind_of(record) == KERNEL {
                // What is read as the name would be an address of nothing.
                bytes.truncate(bytes.len() - record.len() + STUB);
                bytes.extend(4711u32.to_le_bytes());
                bytes.resize(bytes.len() + 60, 0x5a);
            }
            if manner == Cupti::Unknown {
                // Of a version that is not there yet.
                bytes.extend(4711u32.to_le_bytes());
                bytes.resize(bytes.len() + 60, 0xff);
            }
        }
        if manner == Cupti::Short {
            bytes.truncate(bytes.len() - 50);
        }
        let (mut buffer, mut size, mut most) = (std::ptr::null_mut(), 0usize, 0usize);
        // SAFETY: a function of the caller's, with three pointers to live variables, as documented.
        unsafe { requested(&raw mut buffer, &raw mut size, &raw mut most) };
        if buffer.is_null() || size < bytes.len() {
            continue;
        }
        // SAFETY: the caller gave `size` bytes, at least as many.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer, bytes.len()) };
        if manner == Cupti::Foreign {
            let mut other = [0u64; 4];
            // SAFETY: a function of the caller's, which must not follow the address of a buffer that it did not give.
            unsafe { completed(std::ptr::null_mut(), 0, (&raw mut other).cast(), 32, 32) };
        }
        let valid = if manner == Cupti::Beyond { usize::MAX } else { bytes.len() };
        // SAFETY: a function of the caller's, with the buffer that it gave.
        unsafe { completed(std::ptr::null_mut(), 0, buffer, size, valid) };
    }
    0
}
