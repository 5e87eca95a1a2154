//! Moving data between devices as an operator.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

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

    /// Which family of devices it is of: `cpu`, `cuda` or `mock`.
    pub fn kind(&self) -> &'static str {
        match self.device {
            Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda",
            Device::Mock(_) => "mock",
        }
    }

    /// The stream of work here: the named one, else that of the device.
    pub fn computes_on(&self) -> String {
        self.compute_stream.clone().unwrap_or_else(|| compute_stream(self.device))
    }

    /// The stream of copies from here to `other`: the named one, else that of the pair.
    pub fn copies_on(&self, other: Device) -> String {
        self.transfer_stream.clone().unwrap_or_else(|| transfer_stream(self.device, other).0)
    }

    /// This end of a transfer with `other` at the far end, both streams named: on two devices of one family that are not
    /// the host, the compute stream of the device and the transfer stream of the pair where none was named. Other pairs
    /// need no set-up and stay as they are.
    ///
    /// ```
    /// use spanlift::memory::{cpu, cuda};
    /// use spanlift::op::DeviceSpec;
    /// let (near, far) = (DeviceSpec::new(cuda(0)), DeviceSpec::new(cuda(1)).compute_on("work"));
    /// let set = near.p2p_setup(&far);
    /// assert_eq!(set.compute_stream.as_deref(), Some("compute-cuda0"));
    /// assert_eq!(set.transfer_stream.as_deref(), Some("cuda0-to-cuda1"));
    /// assert_eq!(far.p2p_setup(&near).compute_stream.as_deref(), Some("work"));
    /// assert_eq!(near.p2p_setup(&DeviceSpec::new(cpu())), near);
    /// ```
    #[must_use]
    pub fn p2p_setup(&self, other: &DeviceSpec) -> DeviceSpec {
        if self.device.is_host() || self.kind() != other.kind() || self.device == other.device {
            return self.clone();
        }
        DeviceSpec {
            device: self.device,
            compute_stream: Some(self.computes_on()),
            transfer_stream: Some(self.copies_on(other.device)),
        }
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

/// The name of a device that needs no quotation marks in the text form of programs: `cuda0`.
fn word(device: Device) -> String {
    device.to_string().replace(':', "")
}

/// The registry of compute streams: one for each device, found by its name.
///
/// ```
/// assert_eq!(spanlift::op::compute_stream(spanlift::memory::cuda(1)), "compute-cuda1");
/// ```
pub fn compute_stream(device: Device) -> String {
    format!("compute-{}", word(device))
}

/// The registry of transfer streams: one for each ordered pair of devices, found by its name, with the device that has it:
/// the source, or the target when data leaves the host.
///
/// All transfers of a pair share it; nothing is created by asking.
///
/// ```
/// use spanlift::memory::{cpu, cuda};
/// use spanlift::op::transfer_stream;
/// assert_eq!(transfer_stream(cuda(0), cuda(1)), ("cuda0-to-cuda1".to_owned(), cuda(0)));
/// assert_eq!(transfer_stream(cpu(), cuda(1)), ("cpu-to-cuda1".to_owned(), cuda(1)));
/// ```
pub fn transfer_stream(from: Device, to: Device) -> (String, Device) {
    (format!("{}-to-{}", word(from), word(to)), if from.is_host() { to } else { from })
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
#[derive(Clone, PartialEq, Eq)]
pub struct ToDevice(Arc<Transfer>);

/// What a transfer is; shared, since expressions hold it in many places.
#[derive(Clone, PartialEq, Eq)]
struct Transfer {
    from: DeviceSpec,
    to: DeviceSpec,
    domain: Space,
    codomain: Space,
    /// The event that says that the input is written; chosen by the plan when `None`.
    listener: Option<String>,
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
    /// The event that the copy waits for; see [`Route::after`].
    pub listener: Option<String>,
}

/// A transfer to `end` from wherever the data is.
pub fn to(end: impl Into<DeviceSpec>) -> Route {
    Route { from: None, to: end.into(), listener: None }
}

impl ToDevice {
    /// Begins a transfer at `end`.
    pub fn from(end: impl Into<DeviceSpec>) -> FromDevice {
        FromDevice(end.into())
    }

    pub(super) fn of(from: DeviceSpec, to: DeviceSpec, space: &Space) -> ToDevice {
        let (domain, codomain) = (space.on(from.device), space.on(to.device));
        ToDevice(Arc::new(Transfer { from, to, domain, codomain, listener: None }))
    }

    /// The same transfer after the event `listener`.
    pub(super) fn listening(self, listener: Option<String>) -> ToDevice {
        if listener == self.0.listener {
            return self;
        }
        ToDevice(Arc::new(Transfer { listener, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The event that says that its input is written, where one was named.
    ///
    /// It is recorded by the stream that writes the input: the plan does that, or the caller for an input on a device.
    /// Without a name the plan makes an event of its own where one is needed. An adjoint reads something else, so it has
    /// none.
    pub fn listener(&self) -> Option<&str> {
        self.0.listener.as_deref()
    }

    /// The end where data comes from.
    pub fn ispec(&self) -> &DeviceSpec {
        &self.0.from
    }

    /// The end where data goes to.
    pub fn ospec(&self) -> &DeviceSpec {
        &self.0.to
    }

    /// Whether both ends are devices and not the host.
    pub fn is_gpu2gpu(&self) -> bool {
        !self.0.from.device.is_host() && !self.0.to.device.is_host()
    }

    /// What it reads.
    pub fn domain(&self) -> &Space {
        &self.0.domain
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        &self.0.codomain
    }

    pub(super) fn cut(&self, tile: &Tile) -> ToDevice {
        let (domain, codomain) = (tile.space(self.domain()), tile.space(self.codomain()));
        ToDevice(Arc::new(Transfer { domain, codomain, ..(*self.0).clone() }))
    }

    pub(super) fn adjoint(&self) -> ToDevice {
        let Transfer { from, to, domain, codomain, .. } = (*self.0).clone();
        ToDevice(Arc::new(Transfer {
            from: to,
            to: from,
            domain: codomain,
            codomain: domain,
            listener: None,
        }))
    }
}

impl FromDevice {
    /// Ends the transfer at `end`.
    pub fn to(self, end: impl Into<DeviceSpec>) -> Route {
        Route { from: Some(self.0), to: end.into(), listener: None }
    }
}

impl Route {
    /// Lets the copy wait for the event `name`, which the stream records that writes its input.
    ///
    /// A wait that orders nothing is kept and noted in the plan ([`Plan::notes`](crate::plan::Plan::notes)).
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::{Dtype, cuda};
    /// use spanlift::op::{Diagonal, Space, to};
    ///
    /// let line = Space::new([("x", 4)], Dtype::F32)?;
    /// let w = Diagonal::new(line.on(cuda(0)), [1.0, 2.0, 3.0, 4.0])?;
    /// let plan = chain![to(cuda(0)), w, to(cuda(1)).after("filled")]?.plan()?;
    /// assert!(plan.program().to_text().contains("record  filled"));
    /// assert!(plan.notes().is_empty()); // the copy needs it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn after(self, name: &str) -> Route {
        Route { listener: Some(name.to_owned()), ..self }
    }

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
        Ok(Operator::to_device(ToDevice::of(from, self.to, &space).listening(self.listener)))
    }
}

/// Both devices, the streams of the copy and of the work behind it, and what the copy waits for: the event that says that
/// its input is written. `(cuda:0 -> cuda:1, transfer cuda0-to-cuda1, compute compute-cuda1, on: input)`
///
/// A transfer has no adjoint or normal inside it, so this never goes round in circles.
impl fmt::Debug for ToDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.ispec(), self.ospec());
        let (transfer, compute) = (from.copies_on(to.device), to.computes_on());
        let on = self.listener().unwrap_or("input");
        write!(f, "({} -> {}, transfer {transfer}, compute {compute}, on: {on})", from.device, to.device)
    }
}

impl fmt::Display for ToDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T({}->{})", self.0.from.device, self.0.to.device)
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
