//! How a program is made of an expression.

use crate::ordered::BTreeMap;

use super::expression::Plan;
use super::{PlanError, caps, write};
use crate::memory::Device;
use crate::op::{Array, Operator};
use crate::units::Bytes;

/// How a program is made of an expression: the memory that it may take for the sake of doing things at the same time.
///
/// | tiles ahead | buffers | what overlaps |
/// |---|---|---|
/// | any (the default) | a value gets another one's buffer only where no wait is needed for it | everything that may |
/// | `ahead(1)` | two sets, used in turn | the copy of a tile and the work on the one before |
/// | `ahead(0)` | one set | nothing between tiles |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planning {
    ahead: Option<usize>,
    caps: BTreeMap<Device, Bytes>,
    streams: BTreeMap<Device, String>,
}

impl Planning {
    /// As much as possible at the same time, whatever memory that takes.
    pub fn new() -> Planning {
        Planning::default()
    }

    /// Lets at most `tiles` tiles begin before the one at work is done; beyond that their buffers are taken over.
    #[must_use]
    pub fn ahead(self, tiles: usize) -> Planning {
        Planning { ahead: Some(tiles), ..self }
    }

    pub(super) fn with_ahead(&self, ahead: Option<usize>) -> Planning {
        Planning { ahead, ..self.clone() }
    }

    /// How many tiles may begin before the one at work is done; `None` for any number.
    pub fn ahead_of(&self) -> Option<usize> {
        self.ahead
    }

    /// Lets the plan hold at most `bytes` on `device`, input, result and weights included.
    ///
    /// An expression that needs more is cut into tiles, as few as will do: with two sets of buffers in turn where tiles can be
    /// small enough for that, else with one. Weights stay where they are, whole.
    ///
    /// # Examples
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::{Dtype, cpu, cuda};
    /// use spanlift::op::{Operator, Space, to};
    /// use spanlift::plan::Planning;
    /// use spanlift::Bytes;
    ///
    /// let image = Space::new([("y", 64), ("x", 64)], Dtype::F32)?;
    /// let twice = chain![to(cuda(0)), Operator::scale(2.0, image.on(cuda(0)))?, to(cpu())]?;
    /// let plan = Planning::new().cap(cuda(0), Bytes(4096)).plan(&twice)?;
    /// assert!(plan.peaks()[&cuda(0)].total() <= Bytes(4096)); // a quarter of the image
    /// assert_eq!(plan.transfers().len(), 16);
    /// let refused = Planning::new().cap(cuda(0), Bytes(3)).plan(&twice).unwrap_err();
    /// assert!(refused.to_string().contains("at least 4 B on cuda:0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cap(mut self, device: Device, bytes: Bytes) -> Planning {
        self.caps.insert(device, bytes);
        self
    }

    /// What the plan may hold on each device that has a limit.
    pub fn caps(&self) -> &BTreeMap<Device, Bytes> {
        &self.caps
    }

    /// Lets work on `device` run on the stream `name`, as that of the caller; a transfer that names another one at its end goes first.
    ///
    /// A plan is the same on any stream: what begins or ends on the device is ordered with that stream by events. The default stream
    /// of device 0 is called `0`, that of device `N` `0@N`, as in programs.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, cuda};
    /// use spanlift::op::{Diagonal, Operator, Space};
    /// use spanlift::plan::Planning;
    /// let line = Space::new([("x", 2)], Dtype::F32)?.on(cuda(0));
    /// let a = Operator::from(Diagonal::new(line, [1.0, 2.0])?);
    /// let plan = Planning::new().compute_on(cuda(0), "mine").plan(&a)?;
    /// assert!(plan.program().to_text().contains("kernel  D on mine"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compute_on(mut self, device: Device, name: &str) -> Planning {
        self.streams.insert(device, name.to_owned());
        self
    }

    /// The streams of work that were named.
    pub fn streams(&self) -> &BTreeMap<Device, String> {
        &self.streams
    }

    /// The program that applies `operator`, for data of any value.
    ///
    /// # Errors
    /// As [`Operator::plan`]; [`PlanError::Cap`] where no tiles are small enough.
    pub fn plan(&self, operator: &Operator) -> Result<Plan, PlanError> {
        self.planned(operator, None)
    }

    fn planned(&self, operator: &Operator, x: Option<&Array>) -> Result<Plan, PlanError> {
        one_device_each(operator)?;
        if let Some(error) = operator.misfit() {
            return Err(PlanError::Operator(error));
        }
        if self.caps.is_empty() {
            return write::plan(operator, self, x);
        }
        let (tiled, planning, note) = caps::within(operator, self)?;
        let mut plan = write::plan(&tiled, &planning, x)?;
        plan.notes.extend(note);
        Ok(plan)
    }

    /// The same with input and weights declared; see [`Operator::plan_for`].
    ///
    /// # Errors
    /// As [`Operator::plan_for`].
    pub fn plan_for(&self, operator: &Operator, x: &Array) -> Result<Plan, PlanError> {
        self.planned(operator, Some(x))
    }
}

/// Refuses leaves that read on one device and write on another, wherever they stand.
fn one_device_each(a: &Operator) -> Result<(), PlanError> {
    if let Operator::Leaf(leaf) = a
        && let Some((reads, writes)) = leaf.torn()
    {
        return Err(PlanError::TwoDevices { operator: a.formula(), reads, writes });
    }
    a.children().iter().try_for_each(one_device_each)
}
