//! Places where memory lies: the host, CUDA devices, and devices that only pretend.

use std::fmt;
use std::str::FromStr;

/// A place where memory lies.
///
/// Written `cpu`, `cuda:N` or `mock:N`. Without an index it is index 0; `gpu` is read as `cuda` and never printed. A
/// mock device has an address space of its own in host memory, so that device properties are tested without a GPU.
///
/// ```
/// use spanlift::memory::{Device, cuda};
/// assert_eq!("gpu:1".parse::<Device>()?, cuda(1));
/// assert_eq!("cuda".parse::<Device>()?.to_string(), "cuda:0");
/// # Ok::<(), spanlift::memory::UnknownDevice>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The host.
    #[default]
    Cpu,
    /// The CUDA device with this index.
    Cuda(u32),
    /// The pretended device with this index.
    Mock(u32),
}

/// The host.
pub const fn cpu() -> Device {
    Device::Cpu
}

/// The CUDA device `index`.
pub const fn cuda(index: u32) -> Device {
    Device::Cuda(index)
}

/// The pretended device `index`.
pub const fn mock(index: u32) -> Device {
    Device::Mock(index)
}

/// A name that is no device.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownDevice(pub String);

impl fmt::Display for UnknownDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownDevice(text) = self;
        write!(f, "unknown device {text:?}: expected `cpu`, `cuda:N` or `mock:N`")
    }
}

crate::error::told!(UnknownDevice);

impl Device {
    /// The CUDA device `ordinal`, or the host for a negative one.
    pub fn from_ordinal(ordinal: i64) -> Option<Device> {
        if ordinal < 0 { Some(Device::Cpu) } else { u32::try_from(ordinal).ok().map(Device::Cuda) }
    }

    /// The index of the device, or -1 for the host.
    pub fn ordinal(self) -> i64 {
        match self {
            Device::Cpu => -1,
            Device::Cuda(n) | Device::Mock(n) => i64::from(n),
        }
    }

    /// Whether it is the host.
    pub fn is_host(self) -> bool {
        self == Device::Cpu
    }

    /// How the device is written in Rust: `cuda(0)`.
    pub fn call(self) -> String {
        match self {
            Device::Cpu => "cpu()".to_owned(),
            Device::Cuda(n) => format!("cuda({n})"),
            Device::Mock(n) => format!("mock({n})"),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.pad("cpu"),
            Device::Cuda(n) => f.pad(&format!("cuda:{n}")),
            Device::Mock(n) => f.pad(&format!("mock:{n}")),
        }
    }
}

impl FromStr for Device {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Device, UnknownDevice> {
        let unknown = || UnknownDevice(name.to_owned());
        let (family, index) = match name.split_once(':') {
            None => (name, None),
            // One spelling per device: digits alone, no leading zero.
            Some((family, digits)) => {
                let canonical =
                    digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
                let index: Option<u32> = if canonical { digits.parse().ok() } else { None };
                (family, Some(index.ok_or_else(unknown)?))
            }
        };
        match (family, index) {
            ("cpu", None) => Ok(Device::Cpu),
            ("cuda" | "gpu", index) => Ok(Device::Cuda(index.unwrap_or(0))),
            ("mock", index) => Ok(Device::Mock(index.unwrap_or(0))),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = text.parse::<Device>().map_or_else(|_| "unknown".to_owned(), |d| d.to_string());
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn names() {
        check("cpu", "cpu");
        check("cuda", "cuda:0");
        check("cuda:0", "cuda:0");
        check("cuda:17", "cuda:17");
        check("gpu", "cuda:0");
        check("gpu:3", "cuda:3");
        check("mock", "mock:0");
        check("mock:1", "mock:1");
        check("", "unknown");
        check("tpu", "unknown");
        check("cpu:0", "unknown");
        check("cuda:", "unknown");
        check("cuda:-1", "unknown");
        check("cuda:+1", "unknown");
        check("cuda:01", "unknown");
        check("cuda:4294967296", "unknown");
        check("CUDA", "unknown");
        check("cuda:1:2", "unknown");
    }

    #[test]
    fn ordinals() {
        assert_eq!(Device::from_ordinal(-1), Some(cpu()));
        assert_eq!(Device::from_ordinal(2), Some(cuda(2)));
        assert_eq!(Device::from_ordinal(i64::MAX), None);
        assert_eq!([cpu().ordinal(), cuda(3).ordinal(), mock(1).ordinal()], [-1, 3, 1]);
    }
}
