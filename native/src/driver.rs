//! The driver's library: found, opened and called, with every unsafe step of the probe in this one file.
//!
//! Codes stay plain integers, since a newer driver may answer with one that no list knows. Nothing here judges them.
#![expect(unsafe_code, reason = "a foreign library is opened and called")]

use std::error::Error;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint};
use std::mem::ManuallyDrop;

use libloading::Library;

/// What a call of the driver answers; 0 is success.
pub(crate) type Code = u32;

/// A device as the driver names it after `cuDeviceGet`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle(c_int);

/// An opened driver library that has every call the probe makes.
pub(crate) struct Driver {
    calls: Calls,
    // Never unloaded: drivers keep threads and exit handlers of their own, and `calls` points into it.
    _library: ManuallyDrop<Library>,
}

macro_rules! calls {
    ($($field:ident = $symbol:literal($($arg:ty),*);)*) => {
        struct Calls {
            $($field: unsafe extern "C" fn($($arg),*) -> Code,)*
        }

        impl Calls {
            /// Every entry, or the names of all that are absent.
            fn find(library: &Library) -> Result<Calls, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the type is the one that CUDA's driver API documentation gives for this symbol; the
                    // symbol is only read here, and called in `Driver`, which keeps the library loaded.
                    let $field = unsafe {
                        library.get::<unsafe extern "C" fn($($arg),*) -> Code>($symbol)
                    };
                    let $field = $field.map(|symbol| *symbol).map_err(|_| missing.push($symbol)).ok();
                )*
                match ($($field,)*) {
                    ($(Some($field),)*) => Ok(Calls { $($field),* }),
                    _ => Err(missing),
                }
            }
        }
    };
}

calls! {
    version = "cuDriverGetVersion"(*mut c_int);
    init = "cuInit"(c_uint);
    count = "cuDeviceGetCount"(*mut c_int);
    device = "cuDeviceGet"(*mut c_int, c_int);
    name = "cuDeviceGetName"(*mut c_char, c_int, c_int);
    memory = "cuDeviceTotalMem_v2"(*mut usize, c_int);
    attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, c_int);
    can_access_peer = "cuDeviceCanAccessPeer"(*mut c_int, c_int, c_int);
}

/// Opens the library `name`.
///
/// # Errors
/// The loader's reason, in words.
pub(crate) fn open(name: &OsStr) -> Result<Library, String> {
    // SAFETY: opening runs the library's own initialisers. The names are those under which CUDA drivers install
    // themselves, or a path that the user gave for this purpose; running that code is what was asked for.
    let library = unsafe { Library::new(name) };
    // The error's own text names the call; its source has the loader's words.
    library.map_err(|e| e.source().map_or_else(|| e.to_string(), ToString::to_string))
}

impl Driver {
    /// The driver in `library`.
    ///
    /// # Errors
    /// The names of the calls that it lacks.
    pub(crate) fn new(library: Library) -> Result<Driver, Vec<&'static str>> {
        Ok(Driver { calls: Calls::find(&library)?, _library: ManuallyDrop::new(library) })
    }

    /// `cuDriverGetVersion`: 1000 times the major version plus 10 times the minor one.
    pub(crate) fn version(&self) -> Result<i32, Code> {
        // SAFETY: the call writes one int through its pointer (`number`), and needs no `cuInit` before it.
        number(|out| unsafe { (self.calls.version)(out) })
    }

    /// `cuInit`.
    pub(crate) fn init(&self) -> Result<(), Code> {
        // SAFETY: takes a plain integer, which must be 0; may be called at any time and from any thread.
        done(unsafe { (self.calls.init)(0) })
    }

    /// `cuDeviceGetCount`.
    pub(crate) fn count(&self) -> Result<i32, Code> {
        // SAFETY: the call writes one int through its pointer (`number`).
        number(|out| unsafe { (self.calls.count)(out) })
    }

    /// `cuDeviceGet`.
    pub(crate) fn device(&self, ordinal: i32) -> Result<Handle, Code> {
        // SAFETY: the call writes one int through its pointer (`number`); a wrong ordinal is answered with a code.
        number(|out| unsafe { (self.calls.device)(out, ordinal) }).map(Handle)
    }

    /// `cuDeviceGetName`, as far as it is text.
    pub(crate) fn name(&self, device: Handle) -> Result<String, Code> {
        const LEN: c_int = 256;
        let mut text = [0u8; LEN as usize];
        // SAFETY: the call writes at most `LEN` bytes, its second argument, and `text` has that many.
        done(unsafe { (self.calls.name)(text.as_mut_ptr().cast(), LEN, device.0) })?;
        let name = CStr::from_bytes_until_nul(&text).map_or(&text[..], CStr::to_bytes);
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// `cuDeviceTotalMem_v2`, in bytes.
    pub(crate) fn memory(&self, device: Handle) -> Result<u64, Code> {
        let mut bytes = 0usize;
        // SAFETY: the call writes one size_t through its pointer, which points at a live usize.
        done(unsafe { (self.calls.memory)(&raw mut bytes, device.0) })?;
        Ok(bytes as u64)
    }

    /// `cuDeviceGetAttribute`; an attribute that the driver does not know is answered with a code.
    pub(crate) fn attribute(&self, device: Handle, attribute: i32) -> Result<i32, Code> {
        // SAFETY: the call writes one int through its pointer (`number`).
        number(|out| unsafe { (self.calls.attribute)(out, attribute, device.0) })
    }

    /// `cuDeviceCanAccessPeer`.
    pub(crate) fn can_access_peer(&self, device: Handle, peer: Handle) -> Result<bool, Code> {
        // SAFETY: the call writes one int through its pointer (`number`).
        number(|out| unsafe { (self.calls.can_access_peer)(out, device.0, peer.0) }).map(|yes| yes != 0)
    }
}

/// The int that `call` writes through the pointer it is given, which points at a live one.
fn number(call: impl FnOnce(*mut c_int) -> Code) -> Result<i32, Code> {
    let mut value: c_int = 0;
    done(call(&raw mut value)).map(|()| value)
}

fn done(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}
