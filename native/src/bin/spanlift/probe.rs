//! `spanlift probe`: which devices are there, or why none can be used.

use std::path::Path;

use spanlift::machine::{Figure, Grade, Machine};
use spanlift::program::text;
use spanlift_native::cuda;
use spanlift_native::link::{self, Link};
use spanlift_native::probe::{self, Device, Found, OpenError};

use crate::cli::{Format, ProbeArgs};
use crate::say::{self, Fail, Out, Style};
use crate::{End, framework, on, output};

pub(crate) fn run(args: &ProbeArgs, out: &mut Out) -> Result<End, Fail> {
    if let Some(path) = &args.measure {
        return measured(args, path, out);
    }
    let answer = probe::probe();
    let links = link::read();
    match args.report.format {
        Format::Text => text(&answer, &links, out),
        Format::Json => {
            let object = match &answer {
                Ok(found) => serde_json::json!({
                    "state": "devices", "library": found.library, "cuda_version": found.version,
                    "devices": found.devices, "links": links, "reason": null,
                }),
                Err(why) => serde_json::json!({
                    "state": why.state(), "library": null, "cuda_version": null,
                    "devices": [], "links": links, "reason": why.to_string(),
                }),
            };
            out.json(&object);
        }
    }
    Ok(End::Done)
}

/// Bytes of the largest copies that are measured, from which each smaller one is a quarter: 16 KiB to 4 GiB.
pub(crate) fn largest(word: &str) -> Result<usize, String> {
    let bytes = text::size(word).filter(|bytes| (1 << 14..=1 << 32).contains(&bytes.0));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes.0).ok());
    bytes.ok_or_else(|| "a size from 16KiB to 4GiB such as 64MiB is needed".to_owned())
}

/// Measures device 0 and writes its profile.
fn measured(args: &ProbeArgs, path: &Path, out: &mut Out) -> Result<End, Fail> {
    let driver = on::driver(0, "--measure")?;
    let failed = |e: &dyn std::fmt::Display| Fail::at("--measure", e);
    let name =
        path.file_stem().map_or_else(|| "measured".to_owned(), |stem| stem.to_string_lossy().into_owned());
    output::is_free(path)?;
    // Before anything of ours is on the device: PyTorch takes memory of its own there, and gives it back when it ends.
    let framework =
        args.framework.as_deref().map(|python| framework::ask(python, framework::LIMIT)).transpose()?;
    let context = driver.context(0).map_err(|e| failed(&e))?;
    let mut profile = cuda::measure(&context, &name, args.largest).map_err(|e| failed(&e))?;
    if let Some(framework) = &framework {
        framework.fill(&mut profile, driver.version());
    }
    let text = serde_json::to_string_pretty(&profile).map_err(|e| failed(&e))?;
    let machine = Machine::from_json(text.as_bytes()).map_err(|e| failed(&e))?;
    output::write(path, text.as_bytes())?;
    match args.report.format {
        Format::Json => out.json(&profile),
        Format::Text => {
            out.line(&format!(
                "{name} measured; where each figure is from: spanlift machines {}",
                say::written(path)
            ));
            for figure in machine.figures().filter(|figure| figure.source.grade == Grade::Measured) {
                out.line(&format!("  {:<22} {:>14} {}", figure.name, figure.value, figure.unit));
            }
            let fits = profile["fit"].as_object().into_iter().flatten();
            let left_out: Vec<(&String, &str)> =
                fits.filter_map(|(name, fit)| Some((name, fit["left_out"].as_str()?))).collect();
            if !left_out.is_empty() {
                out.line("measured, but not told by the times, so that what is assumed holds:");
            }
            for (name, why) in left_out {
                out.line(&format!("  {name:<22} {why}"));
            }
            let why = match &framework {
                None => Some(" without --framework PYTHON".to_owned()),
                Some(framework) => framework
                    .no_leaf()
                    .map(|why| format!(", since no tensordict works there ({})", say::one_line(why))),
            };
            if let Some(why) = why {
                out.line(&format!("not measured{why}; of the tutorial's machine, fitted to its 16 rows:"));
            }
            let is_assumed = |figure: &Figure| {
                framework::FIGURES.contains(&figure.name) && figure.source.grade != Grade::Measured
            };
            for figure in machine.figures().filter(is_assumed) {
                out.line(&format!("  {:<22} {:>14} {}", figure.name, figure.value, figure.unit));
            }
        }
    }
    Ok(End::Done)
}

fn text(answer: &Result<Found, OpenError>, links: &[Link], out: &mut Out) {
    match answer {
        Ok(found) => {
            let n = say::counted(found.devices.len(), "device");
            let head = out.paint(Style::Strong, &n);
            out.line(&format!(
                "{head}, driver for CUDA {} ({})",
                found.version,
                say::one_line(&found.library)
            ));
            // Of two devices a word is enough.
            let is_table = found.devices.len() > 2;
            for device in &found.devices {
                describe(device, is_table, out);
            }
            if is_table {
                peers(found, out);
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
    for link in links {
        let most = link.lanes_most.filter(|n| *n != link.lanes_now);
        let of = most.map_or_else(String::new, |n| format!(" of {n}"));
        let id = say::one_line(&link.pci_bus_id);
        out.line(&format!(
            "link    PCI {id}: generation {}, {}{of} lanes (advise --link {link})",
            link.generation_most, link.lanes_now
        ));
    }
}

/// Who reaches whose memory: a row for each device, a column for the memory.
fn peers(found: &Found, out: &mut Out) {
    let names: Vec<String> = found.devices.iter().map(|device| format!("cuda:{}", device.ordinal)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells.map(|cell| format!("  {cell:<width$}")).collect();
        format!("{first:<12}{cells}").trim_end().to_owned()
    };
    out.line(&line("peer access", &mut names.iter().map(String::as_str)));
    for (k, (name, reaches)) in names.iter().zip(found.peer_matrix()).enumerate() {
        let cell = |(other, reaches): (usize, &bool)| match (k == other, reaches) {
            (true, _) => "-",
            (_, true) => "yes",
            (_, false) => "no",
        };
        out.line(&line(name, &mut reaches.iter().enumerate().map(cell)));
    }
}

fn describe(device: &Device, is_table: bool, out: &mut Out) {
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
    if let Some(generation) = device.link_generation {
        let width = device.link_width.map(|n| format!(" x{n}")).unwrap_or_default();
        facts.push(format!("PCIe {generation}.0{width}"));
    }
    match device.copy_engines {
        Some(1) => facts.push("1 copy engine".to_owned()),
        Some(n) => facts.push(format!("{n} copy engines")),
        None => {}
    }
    if let Some(id) = &device.pci_bus_id {
        facts.push(format!("PCI {id}"));
    }
    if !is_table && !device.peers.is_empty() {
        let peers: Vec<String> = device.peers.iter().map(|n| format!("cuda:{n}")).collect();
        facts.push(format!("peer access to {}", peers.join(", ")));
    }
    if !facts.is_empty() {
        out.line(&format!("        {}", facts.join(", ")));
    }
}
