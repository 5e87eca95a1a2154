//! Moving data between devices as an operator.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use super::cut::Tile;
use super::operator::Operator;
use super::{OpError, Space};
use crate::memory::{Device, UnknownDevice};

/// A device as one end of a transfer, with the streams to use there.
///
/// Streams that are not named are chosen by the plan: one compute stream per device, one transfer stream per pair of
/// devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceSpec {
    /// The device.
    pub device: Device,
    /// The stream of the work that reads what arrives here.
    pub compute_stream: Option<String>,
    /// The stream of copies that leave from here.
    pub transfer_stream: Option<String>,
}

impl DeviceSpec {
    /// The device with the streams that the plan chooses.
    pub fn new(device: Device) -> DeviceSpec {
        DeviceSpec { device, compute_stream: None, transfer_stream: None }
    }

    /// Lets work on the device run on the stream `name`.
    #[must_use]
    pub fn compute_on(self, name: &str) -> DeviceSpec {
        DeviceSpec { compute_stream: Some(name.to_owned()), ..self }
    }

    /// Lets copies that leave the device run on the stream `name`.
    #[must_use]
    pub fn transfer_on(self, name: &str) -> DeviceSpec {
        DeviceSpec { transfer_stream: Some(name.to_owned()), ..self }
    }
}

impl From<Device> for DeviceSpec {
    fn from(device: Device) -> DeviceSpec {
        DeviceSpec::new(device)
    }
}

impl FromStr for DeviceSpec {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<DeviceSpec, UnknownDevice> {
        name.parse().map(DeviceSpec::new)
    }
}

/// `y = x` on another device.
///
/// The adjoint goes back with the ends swapped, the normal is the identity. Nothing else moves data: an operator on
/// another device than its input is an error when the expression is built.
///
/// # Examples
/// ```
/// use spanlift::memory::{Dtype, cpu, cuda};
/// use spanlift::op::{Space, ToDevice};
///
/// let space = Space::new([("y", 4), ("x", 5)], Dtype::C32)?;
/// let up = ToDevice::from(cpu()).to(cuda(0)).over(space)?;
/// assert_eq!(up.to_string(), "T(cpu->cuda:0) : c32[y,x]@cpu -> c32[y,x]@cuda:0");
/// assert_eq!(up.h().to_string(), "T(cuda:0->cpu) : c32[y,x]@cuda:0 -> c32[y,x]@cpu");
/// assert_eq!(up.normal().to_string(), "I : c32[y,x]@cpu -> c32[y,x]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToDevice {
    from: DeviceSpec,
    to: DeviceSpec,
    domain: Space,
    codomain: Space,
}

/// The beginning of a transfer that has no end yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "name the other end with `to`"]
pub struct FromDevice(DeviceSpec);

/// A transfer that takes its space from its neighbours in a chain, and its beginning too where that is not named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The beginning; where the data is when `None`, and the host for the first of a chain.
    pub from: Option<DeviceSpec>,
    /// The end.
    pub to: DeviceSpec,
}

/// A transfer to `end` from wherever the data is.
pub fn to(end: impl Into<DeviceSpec>) -> Route {
    Route { from: None, to: end.into() }
}

impl ToDevice {
    /// Begins a transfer at `end`.
    pub fn from(end: impl Into<DeviceSpec>) -> FromDevice {
        FromDevice(end.into())
    }

    pub(super) fn of(from: DeviceSpec, to: DeviceSpec, space: &Space) -> ToDevice {
        let (domain, codomain) = (space.on(from.device), space.on(to.device));
        ToDevice { from, to, domain, codomain }
    }

    /// The end where data comes from.
    pub fn ispec(&self) -> &DeviceSpec {
        &self.from
    }

    /// The end where data goes to.
    pub fn ospec(&self) -> &DeviceSpec {
        &self.to
    }

    /// Whether both ends are devices and not the host.
    pub fn is_gpu2gpu(&self) -> bool {
        !self.from.device.is_host() && !self.to.device.is_host()
    }

    /// What it reads.
    pub fn domain(&self) -> &Space {
        &self.domain
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        &self.codomain
    }

    pub(super) fn cut(&self, tile: &Tile) -> ToDevice {
        ToDevice { domain: tile.space(&self.domain), codomain: tile.space(&self.codomain), ..self.clone() }
    }

    pub(super) fn adjoint(&self) -> ToDevice {
        ToDevice {
            from: self.to.clone(),
            to: self.from.clone(),
            domain: self.codomain.clone(),
            codomain: self.domain.clone(),
        }
    }
}

impl FromDevice {
    /// Ends the transfer at `end`.
    pub fn to(self, end: impl Into<DeviceSpec>) -> Route {
        Route { from: Some(self.0), to: end.into() }
    }
}

impl Route {
    /// The transfer of everything in `space`, which lies on the device where it begins.
    ///
    /// # Errors
    /// A space on another device than the named beginning.
    pub fn over(self, space: impl Borrow<Space>) -> Result<Operator, OpError> {
        let space = space.borrow().clone();
        let operator = self.to_string();
        let from = self.from.unwrap_or_else(|| space.device().into());
        if from.device != space.device() {
            let expects = Box::new(space.on(from.device));
            return Err(OpError::Input { operator, expects, gives: Box::new(space) });
        }
        Ok(Operator::to_device(ToDevice::of(from, self.to, &space)))
    }
}

impl fmt::Display for ToDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T({}->{})", self.from.device, self.to.device)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Some(from) => write!(f, "T({}->{})", from.device, self.to.device),
            None => write!(f, "to({})", self.to.device.call()),
        }
    }
}
