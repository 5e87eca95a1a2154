//! Lesson 9 of the course: the machine that this is, or a simulated one in its place, which then stands with every figure.
//!
//! | call | on a device | without one |
//! |---|---|---|
//! | [`Here::open`] | the driver, its first device and an engine for it | why there is none |
//! | [`Here::profile`] | what was measured just now | the figures of a profile, each with its own source |
//! | [`Here::copies`], [`Here::engine`] | simulated beside measured | simulated |
//! | [`Here::run`] | the driver's calls | the same program in the host's memory |
//!
//! **Invariant:** nothing that was not measured here is called measured.

use std::fmt;
use std::time::Instant;

use spanlift::advise::transfer::{Calibration, Caps, Explain, HostMemory, Request, Route, Way, choose};
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::{Grade, Machine};
use spanlift::program::{BufferId, Op, Region};
use spanlift::text::signed_percent;
use spanlift::{Bytes, Nanos, Program, sim};
use spanlift_viewer::bars::{BarChart, Cluster, Entry};
use spanlift_viewer::course::{Answer, told};
use spanlift_viewer::{Figure, Show};

use crate::cuda::{self, Driver};
use crate::engine::{Config, Engine, EngineError};
use crate::{cpu, probe};

/// The profile in the place of a device.
const STAND_IN: &str = "h200-pcie5";
/// The largest copies that a profile is measured with.
const LARGEST: Bytes = Bytes(64 << 20);
/// Rounds of which the least counts.
const ROUNDS: usize = 7;
/// How far a line may lie off a copy's time.
const CLOSE: f64 = 0.05;

/// This machine's first device with an engine, or why there is none.
pub struct Here {
    device: Result<Device, String>,
    machine: Machine,
}

struct Device {
    driver: Driver,
    engine: Engine,
    name: String,
}

impl fmt::Debug for Here {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Here({})", self.place())
    }
}

impl Here {
    /// Looks for a driver and a device, and measures the device, which takes some seconds.
    ///
    /// ```
    /// let here = spanlift_native::course::Here::open();
    /// // Whatever this machine has, it is said.
    /// assert_eq!(here.is_device(), here.place().starts_with("cuda:0"));
    /// ```
    pub fn open() -> Here {
        Here::on(Driver::open().map_err(|e| e.to_string()))
    }

    /// The same with a driver that was opened, or the reason why there is none.
    pub fn on(driver: Result<Driver, String>) -> Here {
        Here::with_copies_of(driver, LARGEST)
    }

    /// The same, measured with copies of at most this many bytes: quicker, and less exact.
    pub fn with_copies_of(driver: Result<Driver, String>, largest: Bytes) -> Here {
        match driver.and_then(|driver| Here::measured(driver, largest).map_err(|e| e.to_string())) {
            Ok((device, machine)) => Here { device: Ok(device), machine },
            Err(why) => {
                let machine = Machine::builtin(STAND_IN).unwrap_or_default();
                Here { device: Err(why), machine }
            }
        }
    }

    fn measured(driver: Driver, largest: Bytes) -> Result<(Device, Machine), Box<dyn std::error::Error>> {
        let context = driver.context(0)?;
        let profile = cuda::measure(&context, "here", usize::try_from(largest.0)?)?;
        let machine = Machine::from_json(profile.to_string().as_bytes())?;
        let engine = Engine::on(&driver, 0, Config::default())?;
        let found = probe::probe().ok();
        let name =
            found.and_then(|found| found.devices.into_iter().next()).map_or_else(String::new, |d| d.name);
        Ok((Device { driver, engine, name }, machine))
    }

    /// Whether there is a device.
    pub fn is_device(&self) -> bool {
        self.device.is_ok()
    }

    /// Where the lesson runs, in words.
    pub fn place(&self) -> String {
        match &self.device {
            Ok(device) => format!("cuda:0 {}", device.name).trim_end().to_owned(),
            Err(why) => format!("no device here: {why}\nwhat follows is simulated on {STAND_IN}"),
        }
    }

    /// The machine that programs are simulated on: the measured one, or the one in its place.
    pub fn machine(&self) -> Machine {
        self.machine.clone()
    }

    /// The figures of the link and of calls, each with where it is from.
    pub fn profile(&self) -> Figure {
        const SHOWN: [&str; 10] = [
            "h2d_bw",
            "d2h_bw",
            "lat",
            "call_memcpy_async",
            "call_launch",
            "call_event_record",
            "sync_return",
            "stage_cold_bw",
            "host_memcpy_cold_bw",
            "copy_engines",
        ];
        let measured =
            |figure: &spanlift::machine::Figure| self.is_device() && figure.source.grade == Grade::Measured;
        let lines = self.machine.figures().filter(|f| measured(f) || SHOWN.contains(&f.name)).map(|figure| {
            let value = format!("{} {}", figure.value, figure.unit);
            let source = match figure.source.text.trim() {
                "" => String::new(),
                text => format!(": {text}"),
            };
            format!("\n{:<22} {:>16}  {}{source}", figure.name, value.trim_end(), figure.source.grade)
        });
        let head = match self.device {
            Ok(_) => "this device; what could not be measured is assumed, and says so".to_owned(),
            Err(_) => {
                format!("{STAND_IN}: nothing of this was measured here, each figure says where it is from")
            }
        };
        Figure::words(head + &lines.collect::<String>())
    }

    /// Copies of page-locked memory to the device, one by one: simulated, and on a device measured.
    pub fn copies(&self, sizes: &[Bytes]) -> Figure {
        let simulated = |bytes: Bytes| {
            let text = format!(
                "stream s\npinned x {}\ndevice d {}\nmark a\ncopy d <- x on s\nsync s\nmark b",
                bytes.0, bytes.0
            );
            self.simulated(&text)
        };
        let measured = |device: &Device, bytes: Bytes| device.copy(bytes);
        self.chart(
            "A copy of page-locked memory, until it is done",
            "simulated",
            sizes,
            &simulated,
            &measured,
        )
    }

    /// The same bytes from pageable memory through the transfer engine: as its closed form predicts, and on a device measured.
    pub fn engine(&self, sizes: &[Bytes]) -> Figure {
        let predicted = |bytes: Bytes| Ok(self.plan(&pageable(bytes)).plan.chosen.predicted);
        let measured = |device: &Device, bytes: Bytes| device.upload(bytes);
        self.chart("The engine, from pageable memory", "predicted", sizes, &predicted, &measured)
    }

    /// What the driver alone takes for them, simulated.
    pub fn by_the_driver(&self, sizes: &[Bytes]) -> Figure {
        let simulated = |bytes: Bytes| {
            let text = format!(
                "stream s\npageable x {}\ndevice d {}\nmark a\ncopy d <- x on s\nsync s\nmark b",
                bytes.0, bytes.0
            );
            self.simulated(&text)
        };
        let bars = sizes.iter().map(|&bytes| Ok((bytes, vec![simulated(bytes)?])));
        bar_chart("The driver alone, from pageable memory", &["simulated"], bars.collect())
    }

    /// What the engine does for a request, and why not something else.
    pub fn explain(&self, request: &Request) -> Figure {
        Figure::words(self.plan(request).to_string())
    }

    /// Runs a program: on the device, or in the host's memory. What is not safe is run by neither.
    pub fn run(&self, answer: &(impl Answer + ?Sized)) -> Figure {
        match self.ran(&answer) {
            Ok(words) => Figure::words(words),
            Err(why) => Figure::error(&why),
        }
    }

    fn plan(&self, request: &Request) -> Explain {
        match &self.device {
            Ok(device) => device.engine.explain(request),
            Err(_) => {
                let calibration = Calibration::of(self.machine());
                let plan = choose(request, &calibration, &Caps::ALL);
                Explain::new(request, &calibration, plan)
            }
        }
    }

    /// The time between the marks `a` and `b`.
    fn simulated(&self, text: &str) -> Result<Nanos, String> {
        let program = Program::from_text(text).map_err(|e| e.to_string())?;
        let run = sim::run(&program, &self.machine).map_err(|e| e.to_string())?;
        run.between("a", "b").ok_or_else(|| "no marks".to_owned())
    }

    fn chart(
        &self,
        title: &str,
        how: &str,
        sizes: &[Bytes],
        told: &dyn Fn(Bytes) -> Result<Nanos, String>,
        measured: &dyn Fn(&Device, Bytes) -> Result<Nanos, EngineError>,
    ) -> Figure {
        let bars = sizes.iter().map(|&bytes| {
            let mut times = vec![told(bytes)?];
            if let Ok(device) = &self.device {
                times.push(measured(device, bytes).map_err(|e| e.to_string())?);
            }
            Ok((bytes, times))
        });
        match self.device {
            Ok(_) => bar_chart(title, &[how, "measured"], bars.collect()),
            Err(_) => bar_chart(&format!("{title} ({STAND_IN}, not measured)"), &[how], bars.collect()),
        }
    }

    fn ran(&self, answer: &dyn Answer) -> Result<String, String> {
        let program = answer.program()?;
        let report = hazard::check(&program, Mode::Contract).map_err(|e| e.to_string())?;
        if report.verdict() != Verdict::Safe {
            let first = report.hazards.first().map(|h| hazard::sentence(&program, h)).unwrap_or_default();
            return Err(format!("not run: {}\n{first}", report.verdict().name()));
        }
        let (place, reads) = match &self.device {
            Ok(device) => {
                let run = cuda::run(&program, &device.driver, 0).map_err(|e| e.to_string())?;
                ("on cuda:0", run.reads)
            }
            Err(_) => (
                "in the host's memory, since there is no device",
                cpu::run(&program).map_err(|e| e.to_string())?.reads,
            ),
        };
        let reads: Vec<_> = reads.iter().filter(|r| r.expected.is_some()).collect();
        if let Some(wrong) = reads.iter().find(|r| !r.is_right()) {
            return Err(format!("run {place}: read {}", wrong.sentence(&program)));
        }
        let lines: String = reads.iter().map(|r| format!("\nread {}", r.sentence(&program))).collect();
        Ok(format!("{} commands run {place}{lines}", program.len()))
    }
}

/// Where the lesson runs.
impl Show for Here {
    fn show(&self) -> Figure {
        Figure::words(self.place())
    }
}

impl Device {
    fn copy(&self, bytes: Bytes) -> Result<Nanos, EngineError> {
        let n = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        let stream = self.engine.stream();
        let to = self.engine.alloc::<u8>(stream, n)?;
        let from = self.engine.pinned::<u8>(n)?;
        self.engine.synchronize()?;
        let mut buffers = Some((from, to));
        self.least(|engine| {
            // They were given back by the round before, or the work has failed.
            let Some((from, to)) = buffers.take() else { return engine.synchronize() };
            let flight = engine.h2d(stream, from, to).map_err(|refused| refused.error)?;
            buffers = Some(flight.wait()?);
            Ok(())
        })
    }

    fn upload(&self, bytes: Bytes) -> Result<Nanos, EngineError> {
        let from = vec![1u8; usize::try_from(bytes.0).unwrap_or(usize::MAX)];
        let mut to = self.engine.alloc::<u8>(self.engine.stream(), from.len())?;
        self.engine.synchronize()?;
        self.least(|engine| {
            engine.upload_into(engine.stream(), &from, &mut to)?;
            engine.synchronize()
        })
    }

    /// The least time of some rounds, the first of which warms up.
    fn least(&self, mut work: impl FnMut(&Engine) -> Result<(), EngineError>) -> Result<Nanos, EngineError> {
        work(&self.engine)?;
        let mut best = i64::MAX;
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            work(&self.engine)?;
            best = best.min(i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX));
        }
        Ok(Nanos(best))
    }
}

fn pageable(bytes: Bytes) -> Request {
    Request::one(Route::Up, HostMemory::Pageable, bytes)
}

type Bars = Result<Vec<(Bytes, Vec<Nanos>)>, String>;

fn bar_chart(title: &str, series: &[&str], bars: Bars) -> Figure {
    // To a hundredth: a figure that people compare.
    let us = |time: &Nanos| ((time.0 + 5) / 10) as f64 / 100.0;
    let entry = |(bytes, times): (Bytes, Vec<Nanos>)| Entry {
        label: bytes.to_string(),
        values: times.iter().map(us).collect(),
        note: String::new(),
    };
    match bars {
        Err(why) => Figure::error(&why),
        Ok(bars) => BarChart {
            title: title.to_owned(),
            unit: "us".to_owned(),
            series: series.iter().map(|s| (*s).to_owned()).collect(),
            clusters: vec![Cluster { label: String::new(), entries: bars.into_iter().map(entry).collect() }],
            is_log: true,
        }
        .show(),
    }
}

/// Exercise 2: the way that the engine takes for a request, by its letter and number.
pub fn check_way(here: &Here, request: &Request, way: &str) -> Figure {
    let plan = here.plan(request);
    let found = Way::ALL.into_iter().find(|w| w.id().eq_ignore_ascii_case(way.trim()));
    told(match found {
        None => Err(format!("{way:?} is no way; they are {}", Way::ALL.map(Way::id).join(", "))),
        Some(way) if way == plan.plan.chosen.way => Ok(plan.to_string()),
        Some(way) => {
            let forced = here.plan(&Request { force: Some(way), ..request.clone() });
            match forced.plan.forced {
                true => Err(format!(
                    "{} {} would take {}, and another way less",
                    way.id(),
                    way.name(),
                    forced.plan.chosen.predicted
                )),
                false => Err(format!("{} {} is for other requests", way.id(), way.name())),
            }
        }
    })
}

/// Exercise 1: a latency and a rate in GB/s that give the times of copies of these sizes to within a twentieth.
pub fn check_line(here: &Here, sizes: &[Bytes], latency: Nanos, gb_s: f64) -> Figure {
    let times = sizes.iter().map(|&bytes| {
        let text = format!(
            "stream s\npinned x {}\ndevice d {}\nmark a\ncopy d <- x on s\nsync s\nmark b",
            bytes.0, bytes.0
        );
        here.simulated(&text).map(|time| (bytes, time))
    });
    let found = || -> Result<String, String> {
        let times = times.collect::<Result<Vec<_>, String>>()?;
        if times.len() < 2 {
            return Err("one time lies on many lines".to_owned());
        }
        if !(gb_s.is_finite() && gb_s > 0.0) {
            return Err(format!("{gb_s} GB/s is no rate"));
        }
        let by_line = |bytes: Bytes| latency.0 as f64 + bytes.0 as f64 / gb_s;
        let off = |&(bytes, time): &(Bytes, Nanos)| by_line(bytes) / time.0 as f64 - 1.0;
        let line = |at: &(Bytes, Nanos)| {
            #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
            let told = Nanos(by_line(at.0) as i64);
            let percent = signed_percent(off(at));
            format!("\n{}: simulated {}, by your line {told}, {percent}", at.0, at.1)
        };
        let lines: String = times.iter().map(line).collect();
        match times.iter().all(|at| off(at).abs() <= CLOSE) {
            true => Ok(format!("every copy to within {:.0} %{lines}", 100.0 * CLOSE)),
            false => Err(format!("a copy is off by more than {:.0} %{lines}", 100.0 * CLOSE)),
        }
    };
    told(found())
}

/// Exercise 3: a program that a device may be given, and that reads what it says.
pub fn check_run(here: &Here, answer: &(impl Answer + ?Sized)) -> Figure {
    let found = here.ran(&answer).and_then(|words| {
        let program = answer.program()?;
        // What is read was brought back before, and what was brought back was computed before.
        let ops = || program.commands().iter().map(|c| &c.op).enumerate();
        let is_computed = |upto: usize, from: BufferId| {
            ops()
                .take(upto)
                .any(|(_, op)| matches!(op, Op::Kernel(k) if k.writes.iter().any(|w| w.buffer == from)))
        };
        let is_back = |upto: usize, read: &Region| {
            ops().take(upto).any(|(k, op)| {
                matches!(op, Op::Copy(copy) if copy.dst == *read && is_computed(k, copy.src.buffer))
            })
        };
        let is_whole =
            ops().any(|(k, op)| matches!(op, Op::HostRead { region, expect: Some(_) } if is_back(k, region)));
        if is_whole {
            Ok(words)
        } else {
            Err("the program no longer copies, computes and reads the result".to_owned())
        }
    });
    told(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> Here {
        Here::on(Err("no driver was looked for".to_owned()))
    }

    #[track_caller]
    fn check(figure: &Figure, expected: &str) {
        assert!(figure.plain().contains(expected), "{expected:?} is not in {}", figure.plain());
    }

    #[test]
    fn without_a_device_nothing_is_called_measured_that_was_not() {
        let here = nowhere();
        assert!(!here.is_device());
        check(
            &here.show(),
            "no device here: no driver was looked for\nwhat follows is simulated on h200-pcie5",
        );
        let profile = here.profile();
        check(&profile, "nothing of this was measured here");
        check(&profile, "us  estimated\n");
        assert!(!profile.plain().lines().any(|line| line.trim_end().ends_with(':')), "{}", profile.plain());
        let sizes = [Bytes(4096), Bytes(1 << 24)];
        for figure in [here.copies(&sizes), here.engine(&sizes)] {
            check(&figure, "not measured");
            assert!(!figure.plain().contains("measured "), "{}", figure.plain());
        }
        check(&here.by_the_driver(&sizes), "16.00 MiB: simulated");
    }

    #[test]
    fn ways_and_lines_are_judged_by_what_they_take() {
        let here = nowhere();
        let small = Request::many(Route::Up, HostMemory::Pageable, 1000, Bytes(4_000_000));
        check(&check_way(&here, &small, "s4"), "right: S4 coalesce");
        check(&check_way(&here, &small, "S2"), "not yet: S2 ring");
        check(&check_way(&here, &small, "S0"), "not yet: S0 direct");
        check(&check_way(&here, &small, "S77"), "is no way");
        let sizes = [Bytes(1 << 16), Bytes(1 << 20), Bytes(1 << 26)];
        check(&check_line(&here, &sizes, Nanos(0), 1.0), "not yet: a copy is off");
        check(&check_line(&here, &sizes, Nanos(0), f64::NAN), "is no rate");
        check(&check_line(&here, &[], Nanos(0), 1.0), "not yet: one time lies on many lines");
    }

    #[test]
    fn only_safe_programs_are_run_and_their_values_are_real() {
        let here = nowhere();
        let safe = "stream s\npinned x 64 = f32 fill 2\npinned y 64 = f32 fill 0\ndevice d 64\ncopy d <- x on s\n\
                    kernel k on s reads d writes d for 5us computes f32 affine 3 0\ncopy y <- d on s\nsync s\nread y expect f32 fill 6";
        check(&check_run(&here, safe), "right: ");
        check(&here.run(safe), "in the host's memory, since there is no device");
        check(&check_run(&here, &safe.replace("sync s\n", "")), "not yet: not run: race");
        check(&check_run(&here, &safe.replace("fill 6", "fill 7")), "not yet: run in the host's memory");
        check(&check_run(&here, "stream s\nsync s"), "no longer copies");
        // A read of what was there before, of a part, and of what no kernel computed.
        let early = safe
            .replace("copy y", "read y expect f32 fill 0\ncopy y")
            .replace("read y expect f32 fill 6", "");
        check(&check_run(&here, &early), "no longer copies");
        check(&check_run(&here, &safe.replace("read y expect", "read y[0..4] expect")), "no longer copies");
        let by_hand = safe.replace("copy y <- d on s\n", "").replace("fill 6", "fill 0");
        check(&check_run(&here, &by_hand), "no longer copies");
    }
}
