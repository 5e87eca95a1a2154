//! Devices and streams of a program: numbers and names.

use crate::ordered::{BTreeMap, CollectVec};

use super::PlanError;
use crate::memory::Device;
use crate::program::{Program, Space, StreamId};

/// The number of each device in a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    /// The number of `mock:0`: one more than the largest CUDA index, so that the two families never meet.
    first_mock: u32,
}

impl Numbers {
    pub(super) fn of(devices: impl IntoIterator<Item = Device>) -> Result<Numbers, PlanError> {
        let devices: Vec<Device> = devices.into_iter().collect_vec();
        let after = |d: &Device| if let Device::Cuda(n) = d { u64::from(*n) + 1 } else { 0 };
        let first_mock = devices.iter().map(after).max().unwrap_or(0);
        for &device in &devices {
            if let Device::Mock(n) = device {
                u32::try_from(first_mock + u64::from(n)).map_err(|_| PlanError::DeviceNumber(device))?;
            }
        }
        // Without a mock device it is never used.
        let first_mock = u32::try_from(first_mock).unwrap_or(u32::MAX);
        Ok(Numbers { first_mock })
    }

    /// The device's number; the host's memory counts as that of device 0.
    pub(super) fn number(self, device: Device) -> u32 {
        match device {
            Device::Cpu => 0,
            Device::Cuda(n) => n,
            Device::Mock(n) => self.first_mock + n,
        }
    }

    /// Where a buffer on `device` lies, when host memory is of kind `host`.
    pub(super) fn place(self, device: Device, host: Space) -> (Space, u32) {
        (if device.is_host() { host } else { Space::Device }, self.number(device))
    }
}

/// The streams of a program by name, each on one device.
#[derive(Debug, Default)]
pub(super) struct Streams(BTreeMap<String, (Device, StreamId)>);

impl Streams {
    /// The stream `name` of `device`, declared when it is new.
    pub(super) fn get(
        &mut self,
        program: &mut Program,
        numbers: Numbers,
        name: &str,
        device: Device,
    ) -> Result<StreamId, PlanError> {
        match self.0.get(name) {
            Some(&(first, stream)) if first == device => Ok(stream),
            Some(&(first, _)) => {
                Err(PlanError::StreamOnTwoDevices { name: name.to_owned(), first, second: device })
            }
            None => {
                let number = numbers.number(device);
                // A default stream is there without a word, on the device that its name says.
                let stream = program.stream_id(name);
                match program.names().legacy_device(stream) {
                    None => _ = program.stream_on(number, name),
                    Some(own) if own == number => {}
                    Some(own) => {
                        let (name, first) = (name.to_owned(), Device::Cuda(own));
                        return Err(PlanError::StreamOnTwoDevices { name, first, second: device });
                    }
                }
                self.0.insert(name.to_owned(), (device, stream));
                Ok(stream)
            }
        }
    }
}
