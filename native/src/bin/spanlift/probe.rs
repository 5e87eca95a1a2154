//! `spanlift probe`: which devices are there, or why none can be used.

use spanlift_native::probe::{self, Device, Found, OpenError};

use crate::End;
use crate::cli::{Format, ProbeArgs};
use crate::say::{self, Fail, Out, Style};

pub(crate) fn run(args: &ProbeArgs, out: &mut Out) -> Result<End, Fail> {
    let answer = probe::probe();
    match args.report.format {
        Format::Text => text(&answer, out),
        Format::Json => {
            let object = match &answer {
                Ok(found) => serde_json::json!({
                    "state": "devices", "library": found.library, "cuda_version": found.version,
                    "devices": found.devices, "reason": null,
                }),
                Err(why) => serde_json::json!({
                    "state": why.state(), "library": null, "cuda_version": null,
                    "devices": [], "reason": why.to_string(),
                }),
            };
            out.line(&object.to_string());
        }
    }
    Ok(End::Done)
}

fn text(answer: &Result<Found, OpenError>, out: &mut Out) {
    match answer {
        Ok(found) => {
            let n = say::counted(found.devices.len(), "device");
            let head = out.paint(Style::Strong, &n);
            out.line(&format!(
                "{head}, driver for CUDA {} ({})",
                found.version,
                say::one_line(&found.library)
            ));
            for device in &found.devices {
                describe(device, out);
            }
        }
        Err(why) => {
            out.line(&say::one_line(&why.to_string()));
            if let (OpenError::NoDevice { .. }, Some(list)) = (why, std::env::var_os("CUDA_VISIBLE_DEVICES"))
            {
                out.line(&format!("CUDA_VISIBLE_DEVICES is set to {list:?} and may hide them"));
            }
            out.line("simulation, checks and pictures need no device: spanlift tour");
        }
    }
}

fn describe(device: &Device, out: &mut Out) {
    let name = out.paint(Style::Strong, &format!("cuda:{}", device.ordinal));
    out.line(&format!("{name}  {}, {}", say::one_line(&device.name), device.memory_bytes));
    let mut facts = Vec::new();
    if device.is_mig {
        facts.push("a MIG slice".to_owned());
    }
    if let Some((major, minor)) = device.compute_capability {
        facts.push(format!("compute capability {major}.{minor}"));
    }
    if let Some(n) = device.multiprocessors {
        facts.push(format!("{n} multiprocessors"));
    }
    match device.copy_engines {
        Some(1) => facts.push("1 copy engine".to_owned()),
        Some(n) => facts.push(format!("{n} copy engines")),
        None => {}
    }
    if let Some(id) = &device.pci_bus_id {
        facts.push(format!("PCI {id}"));
    }
    if !device.peers.is_empty() {
        let peers: Vec<String> = device.peers.iter().map(|n| format!("cuda:{n}")).collect();
        facts.push(format!("peer access to {}", peers.join(", ")));
    }
    if !facts.is_empty() {
        out.line(&format!("        {}", facts.join(", ")));
    }
}
