//! Where an iteration stays: transfers to and from the host taken out of an operator.
//!
//! With `T` from the host to the home, `A = T^H A' T`. Whoever applies `A` again and again sends its input once, applies `A'`
//! as often as it likes and fetches the result once: powers do, and solvers.

use super::Space;
use super::operator::{Operator, Zero};
use super::transfer::{DeviceSpec, ToDevice};
use crate::memory::Device;
use crate::ordered::CollectVec;

impl Operator {
    /// The operator with its data on the device that it sends it to first, instead of the host.
    ///
    /// `None` where data does not begin and end on the host, where nothing is sent, and where something is computed on the
    /// host that nobody said may be computed elsewhere: only factors, zeros and identities may.
    pub(crate) fn at_home(&self) -> Option<Operator> {
        if !self.domain().device().is_host() || !self.codomain().device().is_host() {
            return None;
        }
        rehomed(self, first(self)?)
    }

    /// The operator with its data on `home` instead of the host; `None` as for [`Operator::at_home`].
    pub(crate) fn at_home_of(&self, home: Device) -> Option<Operator> {
        rehomed(self, home)
    }
}

/// The first device that data is sent to.
fn first(a: &Operator) -> Option<Device> {
    match a {
        Operator::ToDevice(t) if !t.ospec().device.is_host() => Some(t.ospec().device),
        _ => a.children().iter().find_map(first),
    }
}

fn rehomed(a: &Operator, home: Device) -> Option<Operator> {
    let at = |space: &Space| if space.device().is_host() { space.on(home) } else { space.clone() };
    let end = |spec: &DeviceSpec| if spec.device.is_host() { home.into() } else { spec.clone() };
    let parts: Vec<Operator> = a.children().iter().map(|p| rehomed(p, home)).collect::<Option<_>>()?;
    let mut parts = parts.into_iter();
    let mut next = |part: &Operator| parts.next().unwrap_or_else(|| unreachable!("bug: {part} has no place"));
    Some(match a {
        Operator::Leaf(leaf) if leaf.domain().device().is_host() => return None,
        Operator::Leaf(_) => a.clone(),
        Operator::Identity(_) | Operator::Scale(_) => a.on(at(a.domain()).device()),
        Operator::Zero(_) => Operator::Zero(Zero { domain: at(a.domain()), codomain: at(a.codomain()) }),
        Operator::ToDevice(t) => {
            Operator::to_device(ToDevice::of(end(t.ispec()), end(t.ospec()), t.domain()))
        }
        Operator::Chain(_) => Operator::join(parts.collect_vec()),
        Operator::Sum(sum) => sum.map(next),
        Operator::Concat(concat) => concat.map(next),
        Operator::Stack(stack) => stack.map(next),
        Operator::BlockDiag(blocks) => blocks.map(next),
        Operator::Power(power) => power.map(|base| next(base)),
    })
}
