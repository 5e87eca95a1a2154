//! The driver's C interface, over one engine per process.
//!
//! Every exported function comes from one macro, which also holds its argument list against cudarc's declaration: a wrong
//! one does not compile. Enumerations come in as integers, since a value that the enumeration lacks would be undefined
//! behaviour before the first check. Pointers are wrapped where they enter, so that what a function does with them is
//! said in one place.
#![expect(unsafe_code, reason = "C functions with pointers of their callers")]

mod activity;
mod copies;
mod kernels;
mod libraries;
mod memory;
mod open;
mod streams;

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys;

use crate::code::Code;
use crate::config::Config;
use crate::engine::Engine;

/// The engine of this process.
///
/// # Panics
/// Where the environment variable that configures it cannot be read.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(Config::from_environment().expect("the configuration can be read")))
}

/// An argument as C hands it over, and as functions use it.
trait Incoming {
    type Raw;
    type Given;

    /// # Safety
    /// A pointer is null, or holds for the duration of the call what the documentation of the driver asks of it.
    unsafe fn given(raw: Self::Raw) -> Self::Given;
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl Incoming for $ty {
            type Raw = $ty;
            type Given = $ty;

            unsafe fn given(raw: $ty) -> $ty {
                raw
            }
        }
    )*};
}

macro_rules! enumeration {
    ($($ty:ty),*) => {$(
        impl Incoming for $ty {
            type Raw = u32;
            type Given = u32;

            unsafe fn given(raw: u32) -> u32 {
                raw
            }
        }
    )*};
}

plain!(i32, u32, u64, u8, usize, sys::CUhostFn);
enumeration!(
    sys::CUresult,
    sys::CUdevice_attribute,
    sys::CUdevice_P2PAttribute,
    sys::CUmemPool_attribute,
    sys::CUpointer_attribute
);

impl<T> Incoming for *mut T {
    type Raw = *mut T;
    type Given = Out<T>;

    unsafe fn given(raw: *mut T) -> Out<T> {
        Out(raw)
    }
}

impl<T> Incoming for *const T {
    type Raw = *const T;
    type Given = In<T>;

    unsafe fn given(raw: *const T) -> In<T> {
        In(raw)
    }
}

/// A pointer that is null or may be written, or a handle or address that is only a number here.
struct Out<T>(*mut T);

/// A pointer that is null or may be read, or an address that is only a number here.
struct In<T>(*const T);

impl<T> Out<T> {
    fn number(&self) -> u64 {
        self.0.addr() as u64
    }

    /// The address, which an operation may follow later.
    fn address(&self) -> u64 {
        self.0.expose_provenance() as u64
    }

    fn writable(&self) -> Result<(), Code> {
        if self.0.is_null() { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    fn set(&self, value: T) -> Result<(), Code> {
        self.writable()?;
        // SAFETY: not null, and then it points to room for a `T` during this call (`Incoming::given`).
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes where there is somewhere to write.
    fn set_if_wanted(&self, value: T) {
        let _ = self.set(value);
    }
}

impl<T> Out<*mut T> {
    fn set_handle(&self, handle: u64) -> Result<(), Code> {
        self.set(ptr::with_exposed_provenance_mut(usize::try_from(handle).map_err(|_| Code::UNKNOWN)?))
    }
}

impl Out<c_void> {
    /// Writes a value of a type that another argument names.
    fn set_as<V>(&self, value: V) -> Result<(), Code> {
        self.writable()?;
        // SAFETY: not null; by the documentation it points to a value of the type that the attribute has (`Incoming`).
        unsafe { self.0.cast::<V>().write_unaligned(value) };
        Ok(())
    }

    /// Reads a value of a type that another argument names.
    fn get_as<V: Copy>(&self) -> Result<V, Code> {
        self.writable()?;
        // SAFETY: not null; by the documentation it points to a value of the type that the attribute has (`Incoming`).
        Ok(unsafe { self.0.cast::<V>().read_unaligned() })
    }
}

impl Out<c_char> {
    /// Writes as much of `text` as there is room for, and a closing zero.
    fn set_text(&self, text: &str, room: i32) -> Result<(), Code> {
        self.writable()?;
        let room = usize::try_from(room).ok().filter(|r| *r > 0).ok_or(Code::INVALID_VALUE)?;
        let len = text.len().min(room - 1);
        // SAFETY: not null, and the caller gives `room` bytes (`Incoming::given`); `len + 1 <= room` are written.
        let out = unsafe { std::slice::from_raw_parts_mut(self.0.cast::<u8>(), len + 1) };
        out[..len].copy_from_slice(&text.as_bytes()[..len]);
        out[len] = 0;
        Ok(())
    }
}

impl<T> In<T> {
    fn address(&self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// `count` values of another type with the same layout but integers for enumerations.
    fn list<V: Copy>(&self, count: usize) -> Result<&[V], Code> {
        if count == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || !self.0.cast::<V>().is_aligned() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, aligned, and the caller gives `count` values during this call (`Incoming::given`); `V` has the
        // layout of `T` with any bits allowed.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast::<V>(), count) })
    }
}

impl In<c_char> {
    fn text(&self) -> Result<&CStr, Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and then a string that a zero ends, for the duration of this call (`Incoming::given`).
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

/// What works before `cuInit`, which all else needs before its arguments are looked at.
const EARLY: [&str; 5] =
    ["cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress_v2"];

/// What a C function answers for a result. A panic is a defect of this library: it is printed and answered as unknown.
fn answer(call: &str, body: impl FnOnce() -> Result<(), Code>) -> u32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Code::SUCCESS.0,
        Ok(Err(_)) if !EARLY.contains(&call) && !engine().is_initialised() => Code::NOT_INITIALIZED.0,
        Ok(Err(code)) => code.0,
        Err(panic) => {
            eprintln!("softcuda: {call} panicked: {}", words(panic.as_ref()));
            Code::UNKNOWN.0
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

/// Exports functions of the driver, each held against cudarc's declaration of the same name.
macro_rules! exports {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            const _: unsafe fn($($ty),*) -> cudarc::driver::sys::CUresult = cudarc::driver::sys::$name;

            // SAFETY: the name is the driver's, on purpose; the object that carries it is loaded by tests alone.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: <$ty as crate::capi::Incoming>::Raw),*) -> u32 {
                // SAFETY: the caller promises of its pointers what the driver's documentation of this function asks.
                $(let $arg = unsafe { <$ty as crate::capi::Incoming>::given($arg) };)*
                crate::capi::answer(stringify!($name), || $body)
            }
        )*

        /// Names and addresses of the functions of this file.
        pub(super) fn entries() -> Vec<(&'static str, *mut std::ffi::c_void)> {
            vec![$((
                stringify!($name),
                ($name as unsafe extern "C" fn($(<$ty as crate::capi::Incoming>::Raw),*) -> u32) as *mut std::ffi::c_void,
            )),*]
        }
    };
}
use exports;

/// The function that `cuGetProcAddress` answers for a name without suffix: the newest there is.
fn find(name: &str) -> Option<*mut c_void> {
    let all = [open::entries(), streams::entries(), memory::entries(), copies::entries(), kernels::entries()];
    let mut best = None;
    for (full, address) in all.into_iter().flatten() {
        if full == name && best.is_none() {
            best = Some(address);
        }
        if full.strip_suffix("_v2") == Some(name) {
            best = Some(address);
        }
    }
    best
}
