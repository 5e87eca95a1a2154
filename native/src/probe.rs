//! Which devices are there: asked before anything else of CUDA, and answered with a typed error where there is none.
//!
//! Every way in which a machine can lack a device has its own [`OpenError`], and none of them is a panic:
//!
//! | step | what can be wrong |
//! |---|---|
//! | open the library | [`OpenError::NoLibrary`], [`OpenError::Stub`] where no other is there |
//! | find every call in it | [`OpenError::MissingSymbols`] |
//! | `cuDriverGetVersion` | [`OpenError::TooOld`], [`OpenError::Stub`] |
//! | `cuInit` | [`OpenError::NoDevice`], [`OpenError::Stub`], [`OpenError::Call`] |
//! | count and describe the devices | [`OpenError::NoDevice`], [`OpenError::Call`] |
//!
//! The environment variable `SPANLIFT_CUDA_LIB` names one library to ask instead of the usual ones; tests use it.

use std::ffi::{OsStr, OsString};
use std::fmt;

use serde::{Serialize, Serializer};
use spanlift::Bytes;

use crate::driver::{self, Code, Driver, Handle, NoDriver};

/// The environment variable that names a library to ask instead of the usual ones.
pub const LIBRARY_VARIABLE: &str = "SPANLIFT_CUDA_LIB";

/// The oldest driver whose calls spanlift uses: that of CUDA 12.2.
pub const OLDEST: Version = Version(12020);

/// Under which names drivers install themselves, in the order in which they are asked for.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };

/// A driver that works, and its devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The name under which the library was opened.
    pub library: String,
    /// The newest CUDA version that the driver serves.
    pub version: Version,
    /// At least one device, by ordinal.
    pub devices: Vec<Device>,
}

impl Found {
    /// Which devices reach each other's memory: row by row, whether a device can use another one's directly.
    pub fn peer_matrix(&self) -> Vec<Vec<bool>> {
        let reaches =
            |device: &Device| self.devices.iter().map(|d| device.peers.contains(&d.ordinal)).collect();
        self.devices.iter().map(reaches).collect()
    }
}

/// What the driver says of one device; `None` where it does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Its number, as in `cuda:0`.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// The driver's lasting name of it, as `GPU-` or `MIG-` tools write it without that prefix.
    pub uuid: Option<String>,
    /// Whether it is a slice of a GPU (MIG): it has its own memory and multiprocessors, and no peers.
    pub is_mig: bool,
    /// Its memory.
    pub memory_bytes: Bytes,
    /// Compute capability, major and minor.
    pub compute_capability: Option<(i32, i32)>,
    /// Copy engines (`asyncEngineCount`): how many copies can run beside a kernel.
    pub copy_engines: Option<i32>,
    /// Streaming multiprocessors.
    pub multiprocessors: Option<i32>,
    /// Domain, bus and device number on the PCI bus; the function is always 0.
    pub pci_bus_id: Option<String>,
    /// Generation of PCI Express that its link can have, as the system tells.
    pub link_generation: Option<u32>,
    /// Lanes that its link can have, as the system tells.
    pub link_width: Option<u32>,
    /// Whether kernels may use pageable host memory in place.
    pub pageable_access: Option<bool>,
    /// Ordinals of the devices whose memory it can use directly.
    pub peers: Vec<u32>,
}

/// A CUDA version as drivers number it: `12080` is 12.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A library that could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its name or path.
    pub name: String,
    /// The loader's reason.
    pub reason: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The loader often begins with the name itself.
        let reason = self.reason.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix(": "));
        write!(f, "{}: {}", self.name, reason.unwrap_or(&self.reason))
    }
}

/// Why no device can be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No driver library could be opened.
    #[error("no CUDA driver ({})", join(.tried, "; "))]
    NoLibrary {
        /// What was asked for, in order.
        tried: Vec<Attempt>,
    },
    /// A library was opened that lacks calls every driver has.
    #[error("no CUDA driver: {library} lacks {}", .names.join(", "))]
    MissingSymbols {
        /// The library.
        library: String,
        /// What it lacks.
        names: Vec<&'static str>,
    },
    /// The library is the one that toolkits bring for linking only.
    #[error(
        "no CUDA driver: {library} is a stub for linking (code 34, CUDA_ERROR_STUB_LIBRARY); take its folder off the library path"
    )]
    Stub {
        /// The library.
        library: String,
    },
    /// The driver is older than the calls that spanlift uses.
    #[error("the CUDA driver is too old: {library} serves CUDA {have}, {need} is needed", need = OLDEST)]
    TooOld {
        /// The library.
        library: String,
        /// What it serves.
        have: Version,
    },
    /// The driver works and has no device.
    #[error("CUDA driver {version} without a device: {call} answered {}", Answer(*.code))]
    NoDevice {
        /// What the driver serves.
        version: Version,
        /// The call that said so.
        call: &'static str,
        /// Its code; 0 where it answered that there are 0 devices.
        code: u32,
    },
    /// A call of the driver failed.
    #[error("the CUDA driver does not work: {call} answered {}", Answer(*.code))]
    Call {
        /// The call.
        call: &'static str,
        /// Its code.
        code: u32,
    },
}

readable!(OpenError);

impl OpenError {
    /// The state in one word: `no-driver`, `no-device` or `unusable-driver`.
    pub fn state(&self) -> &'static str {
        match self {
            OpenError::NoLibrary { .. } | OpenError::MissingSymbols { .. } | OpenError::Stub { .. } => {
                "no-driver"
            }
            OpenError::NoDevice { .. } => "no-device",
            OpenError::TooOld { .. } | OpenError::Call { .. } => "unusable-driver",
        }
    }
}

/// Looks for a CUDA driver and its devices.
///
/// # Errors
/// An [`OpenError`] for every way in which there is none. Never panics.
///
/// # Examples
/// ```
/// match spanlift_native::probe::probe() {
///     Ok(found) => println!("{} devices", found.devices.len()),
///     Err(why) => println!("{why}"), // no CUDA driver (libcuda.so: cannot open shared object file: ...
/// }
/// ```
pub fn probe() -> Result<Found, OpenError> {
    probe_libraries(&names())
}

/// Asks the first of `names` that can be opened.
///
/// # Errors
/// As [`probe`].
pub fn probe_libraries(names: &[impl AsRef<OsStr>]) -> Result<Found, OpenError> {
    Opened::first_of(names)?.describe()
}

/// A driver that works and has at least one device.
pub(crate) struct Opened {
    pub(crate) driver: Driver,
    pub(crate) library: String,
    pub(crate) version: Version,
    pub(crate) devices: Vec<Handle>,
}

/// The names under which to look for a driver.
pub(crate) fn names() -> Vec<OsString> {
    match std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty()) {
        Some(name) => vec![name],
        None => NAMES.iter().map(OsString::from).collect(),
    }
}

/// The first of `names` that can be opened and is more than a stub, with every call the probe makes.
fn open(names: &[impl AsRef<OsStr>]) -> Result<(Driver, String), OpenError> {
    let (mut tried, mut stub) = (Vec::new(), None);
    for name in names {
        let shown = name.as_ref().to_string_lossy().into_owned();
        let library = match driver::open(name.as_ref()) {
            Ok(library) => library,
            Err(reason) => {
                tried.push(Attempt { name: shown, reason });
                continue;
            }
        };
        match Driver::new(library) {
            Ok(driver) => return Ok((driver, shown)),
            Err(NoDriver::Lacks(names)) => return Err(OpenError::MissingSymbols { library: shown, names }),
            Err(NoDriver::Stub) => _ = stub.get_or_insert(shown),
        }
    }
    Err(stub.map_or(OpenError::NoLibrary { tried }, |library| OpenError::Stub { library }))
}

impl Opened {
    /// The first of `names` that can be opened, asked for its version and its devices.
    pub(crate) fn first_of(names: &[impl AsRef<OsStr>]) -> Result<Opened, OpenError> {
        let (driver, library) = open(names)?;
        let version = driver.version().map_err(failed("cuDriverGetVersion", Version(0), &library));
        let version = version.map(Version)?;
        if version < OLDEST {
            return Err(OpenError::TooOld { library, have: version });
        }
        let failed = |call: &'static str| failed(call, version, &library);
        driver.init().map_err(failed("cuInit"))?;
        let n_devices = driver.count().map_err(failed("cuDeviceGetCount"))?;
        if n_devices <= 0 {
            return Err(OpenError::NoDevice { version, call: "cuDeviceGetCount", code: 0 });
        }
        let mut devices = Vec::new();
        for ordinal in 0..n_devices.min(MAX_DEVICES) {
            devices.push(driver.device(ordinal).map_err(failed("cuDeviceGet"))?);
        }
        Ok(Opened { driver, library, version, devices })
    }

    fn describe(self) -> Result<Found, OpenError> {
        let Opened { driver, library, version, devices: handles } = self;
        let failed = |call: &'static str| failed(call, version, &library);
        let mut devices = Vec::with_capacity(handles.len());
        for (ordinal, &handle) in (0u32..).zip(&handles) {
            let ask = |attribute: i32| driver.attribute(handle, attribute).ok();
            let peers = (0u32..).zip(&handles).filter(|&(other, _)| other != ordinal);
            let pci_bus_id = pci_bus_id(&driver, handle);
            let link = |file: &str| link(pci_bus_id.as_deref()?, file);
            let name = driver.name(handle).map_err(failed("cuDeviceGetName"))?;
            devices.push(Device {
                ordinal,
                uuid: driver.uuid(handle).map(hyphenated),
                is_mig: name.split(' ').any(|word| word == "MIG"),
                name,
                memory_bytes: Bytes(driver.memory(handle).map_err(failed("cuDeviceTotalMem_v2"))?),
                compute_capability: ask(CAPABILITY_MAJOR).zip(ask(CAPABILITY_MINOR)),
                copy_engines: ask(ASYNC_ENGINE_COUNT),
                multiprocessors: ask(MULTIPROCESSOR_COUNT),
                link_generation: link("max_link_speed").as_deref().and_then(generation),
                link_width: link("max_link_width").and_then(|text| text.trim().parse().ok()),
                pci_bus_id,
                pageable_access: ask(PAGEABLE_MEMORY_ACCESS).map(|yes| yes != 0),
                peers: peers
                    .filter(|&(_, &peer)| driver.can_access_peer(handle, peer) == Ok(true))
                    .map(|(other, _)| other)
                    .collect(),
            });
        }
        Ok(Found { library, version, devices })
    }
}

/// What a code of `call` means for whoever opens a driver.
fn failed(call: &'static str, version: Version, library: &str) -> impl FnOnce(Code) -> OpenError + use<> {
    let library = library.to_owned();
    move |code: Code| match code {
        STUB => OpenError::Stub { library },
        NO_DEVICE => OpenError::NoDevice { version, call, code },
        code => OpenError::Call { call, code },
    }
}

/// A UUID as everybody writes it.
fn hyphenated(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// What the system says of a device's link; the driver does not.
fn link(pci_bus_id: &str, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/sys/bus/pci/devices/{pci_bus_id}/{file}")).ok()
}

/// The generation of PCI Express with this rate per lane, as in `32.0 GT/s PCIe`.
fn generation(speed: &str) -> Option<u32> {
    let rate = speed.split_whitespace().next()?;
    let rates = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];
    (1u32..).zip(rates).find(|(_, known)| *known == rate).map(|(generation, _)| generation)
}

fn pci_bus_id(driver: &Driver, device: Handle) -> Option<String> {
    let part = |attribute| driver.attribute(device, attribute).ok();
    let (domain, bus, slot) = (part(PCI_DOMAIN_ID)?, part(PCI_BUS_ID)?, part(PCI_DEVICE_ID)?);
    // The driver tells no function number, and a GPU's is 0.
    Some(format!("{domain:04x}:{bus:02x}:{slot:02x}.0"))
}

/// More devices than any machine has: a driver that claims more is believed up to here.
const MAX_DEVICES: i32 = 256;

// Numbers of `CUdevice_attribute`, from the driver API's documentation.
const MULTIPROCESSOR_COUNT: i32 = 16;
const PCI_BUS_ID: i32 = 33;
const PCI_DEVICE_ID: i32 = 34;
const ASYNC_ENGINE_COUNT: i32 = 40;
const PCI_DOMAIN_ID: i32 = 50;
const CAPABILITY_MAJOR: i32 = 75;
const CAPABILITY_MINOR: i32 = 76;
const PAGEABLE_MEMORY_ACCESS: i32 = 88;

const STUB: Code = driver::STUB;
const NO_DEVICE: Code = 100;

/// Names of codes that the calls of the probe can answer, from the driver API's documentation.
#[rustfmt::skip]
const CODES: &[(Code, &str)] = &[
    (1,   "CUDA_ERROR_INVALID_VALUE"),
    (2,   "CUDA_ERROR_OUT_OF_MEMORY"),
    (3,   "CUDA_ERROR_NOT_INITIALIZED"),
    (4,   "CUDA_ERROR_DEINITIALIZED"),
    (34,  "CUDA_ERROR_STUB_LIBRARY"),
    (46,  "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (100, "CUDA_ERROR_NO_DEVICE"),
    (101, "CUDA_ERROR_INVALID_DEVICE"),
    (304, "CUDA_ERROR_OPERATING_SYSTEM"),
    (801, "CUDA_ERROR_NOT_SUPPORTED"),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

/// A code in words.
struct Answer(Code);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, CODES.iter().find(|(code, _)| *code == self.0)) {
            (0, _) => f.write_str("0 devices"),
            (code, Some((_, name))) => write!(f, "{code} ({name})"),
            (code, None) => write!(f, "{code}"),
        }
    }
}

fn join<T: fmt::Display>(parts: &[T], between: &str) -> String {
    parts.iter().map(T::to_string).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_told_by_their_rates() {
        assert_eq!(generation("32.0 GT/s PCIe\n"), Some(5));
        assert_eq!(generation("2.5 GT/s"), Some(1));
        assert_eq!(generation("Unknown"), None);
        assert_eq!(generation(""), None);
    }
}
