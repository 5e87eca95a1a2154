//! `spanlift tour`: the published experiments, simulated and explained, at the terminal and as a page.
//!
//! [`story`] computes everything once; [`words`], [`json`] and [`page`] write it down. [`device`] runs what a device can.

mod device;
mod json;
mod operators;
mod page;
mod story;
mod words;

use std::path::{Path, PathBuf};

use spanlift::trace::write_chrome;
use spanlift_native::programs;

use crate::End;
use crate::cli::{Format, On, TourArgs};
use crate::output;
use crate::say::{self, Fail, Out};
use device::OnDevice;
use story::Story;

pub(crate) fn run(args: &TourArgs, out: &mut Out) -> Result<End, Fail> {
    // Where other commands take a page's name.
    if output::ends_in(&args.out, "html") && !args.out.is_dir() {
        let words = "-o names a folder here, into which tour.html goes with its traces and programs";
        return Err(Fail::at(&args.out.display().to_string(), words));
    }
    // Why there is no device is the first thing to know.
    let device = match args.on {
        On::Sim => None,
        On::Cpu => {
            return Err(Fail::at("--on cpu", "the tour runs on sim or on a device, such as cuda:0"));
        }
        On::Cuda(first) => {
            let driver = crate::on::driver(first, &format!("--on cuda:{first}"))?;
            Some(OnDevice::new(&driver, first)?)
        }
    };
    let story = Story::new(crate::machine::asked(args.machine.as_deref())?)?;
    let mut written = write_files(&story, &args.out)?;
    if let Some(device) = &device {
        let path = args.out.join("tour-device.trace.json");
        output::write(&path, write_chrome(&device.trace).as_bytes())?;
        written.push((path, "the chain on the device, which says by which clock"));
    }
    match args.report.format {
        Format::Json => {
            let mut object = json::object(&story);
            if let Some(device) = &device {
                object["device"] = device.object();
            }
            out.json(&object);
        }
        Format::Text => {
            words::tell(&story, device.is_none(), out);
            if let Some(device) = &device {
                device.tell(out);
            }
            out.line("\nWritten:\n");
            for (path, what) in written {
                out.line(&format!("  {:<40} {what}", say::written(&path)));
            }
        }
    }
    let is_right = device.is_none_or(|device| device.is_right());
    Ok(if is_right { End::Done } else { End::Hazard })
}

/// Writes the page, the traces and the programs; gives each with what it is.
fn write_files(story: &Story, folder: &Path) -> Result<Vec<(PathBuf, &'static str)>, Fail> {
    output::folder(folder)?;
    let mut written = Vec::new();
    let mut write = |name: &str, text: String, what: &'static str| {
        let path = folder.join(name);
        output::write(&path, text.as_bytes())?;
        written.push((path, what));
        Ok(())
    };
    write("tour.html", page::html(story), "the whole story with pictures: open it in a browser")?;
    let forward = &story.operators.ways[0].run.trace;
    write(
        "tour.trace.json",
        write_chrome(forward),
        "the chain's timeline: `spanlift view` and Perfetto open it",
    )?;
    for run in &story.runs {
        let name = format!("trace_{}.json", run.name.trim_start_matches("run-").replace('-', "_"));
        write(&name, write_chrome(&run.run.trace), "one of the four profiled runs")?;
    }
    let programs_folder = folder.join("tour-programs");
    output::folder(&programs_folder)?;
    for shipped in programs::all() {
        output::write(&programs_folder.join(format!("{}.txt", shipped.name)), shipped.text.as_bytes())?;
    }
    written.push((programs_folder, "every program above: try `spanlift check`, `run` and `view` on them"));
    Ok(written)
}
