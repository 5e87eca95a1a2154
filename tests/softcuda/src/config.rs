//! What a test asks of the driver: scheduler, devices, strictness, faults.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::code::Code;

/// When operations run, within what the documented order allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Scheduler {
    /// As late as can be: only what a wait needs, and only then.
    #[default]
    Lazy,
    /// As early as can be: everything that is ready runs at every call.
    Eager,
    /// At each call a choice drawn from this seed, with long stalls of single streams.
    Seeded(u64),
    /// One thread of the system per stream, each operation late by up to this many microseconds.
    Threads(u32),
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduler::Lazy => write!(f, "lazy"),
            Scheduler::Eager => write!(f, "eager"),
            Scheduler::Seeded(seed) => write!(f, "seed={seed}"),
            Scheduler::Threads(0) => write!(f, "threads"),
            Scheduler::Threads(us) => write!(f, "threads={us}"),
        }
    }
}

impl FromStr for Scheduler {
    type Err = String;

    fn from_str(text: &str) -> Result<Scheduler, String> {
        let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
        match (name, value) {
            ("lazy", None) => Ok(Scheduler::Lazy),
            ("eager", None) => Ok(Scheduler::Eager),
            ("threads", None) => Ok(Scheduler::Threads(0)),
            ("threads", Some(us)) => us.parse().map(Scheduler::Threads).map_err(|e| format!("{text}: {e}")),
            ("seed", Some(seed)) => seed.parse().map(Scheduler::Seeded).map_err(|e| format!("{text}: {e}")),
            _ => Err(format!("{text}: not lazy, eager, seed=N, threads or threads=MICROSECONDS")),
        }
    }
}

impl From<Scheduler> for String {
    fn from(scheduler: Scheduler) -> String {
        scheduler.to_string()
    }
}

impl TryFrom<String> for Scheduler {
    type Error = String;

    fn try_from(text: String) -> Result<Scheduler, String> {
        text.parse()
    }
}

/// What an asynchronous copy promises of pageable memory when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pageable {
    /// What drivers do today: the source was read, the destination is written.
    #[default]
    Kind,
    /// What the documentation promises: nothing.
    Strict,
}

/// How the stand-in for CUPTI gives its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cupti {
    /// As documented.
    #[default]
    Honest,
    /// With records of unknown kinds between them.
    Unknown,
    /// With buffers that end inside of a record.
    Short,
    /// Saying that more of a buffer is valid than there is.
    Beyond,
    /// The same record again and again.
    Backwards,
    /// Records outside of their buffer.
    Outside,
    /// Also a buffer that nobody gave.
    Foreign,
    /// With three records that there was no room for.
    Lost,
    /// Without any: it says that it cannot hand them over, and takes no ids.
    Deaf,
    /// Kernels of which less is told than there should be, with other records right behind.
    Stubby,
    /// Without times, as where none could be had.
    Timeless,
    /// Not at all.
    Refused,
}

/// An error that comes when a test asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The name of a function (`cuMemAlloc_v2`), or `exec:` and a kind of operation (`exec:copy`, `exec:kernel`,
    /// `exec:memset`, `exec:host`, `exec:any`), or `context`: that a device's context is made, which takes long.
    pub at: String,
    /// Only on this device.
    #[serde(default)]
    pub device: Option<usize>,
    /// How many pass before it.
    #[serde(default)]
    pub after: u32,
    /// What is answered.
    pub code: Code,
    /// How often.
    #[serde(default = "once")]
    pub times: u32,
    /// Whether the device answers it from then on.
    #[serde(default)]
    pub sticky: bool,
}

fn once() -> u32 {
    1
}

/// What a test asks of the driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// When operations run.
    pub scheduler: Scheduler,
    /// How many virtual devices there are.
    pub devices: usize,
    /// Memory of each, in bytes.
    pub memory: u64,
    /// What `cuDriverGetVersion` says.
    pub version: i32,
    /// Pageable memory under asynchronous copies.
    pub pageable: Pageable,
    /// Compute capability.
    pub capability: (i32, i32),
    /// What the attribute for copy engines says.
    pub engines: i32,
    /// Whether devices can reach each other's memory.
    pub peers: bool,
    /// Whether devices have memory pools.
    pub pools: bool,
    /// Whether every host thread has a clock of its own. Without, all calls of a process are taken to follow each
    /// other: a driver does not see channels and joins.
    pub host_threads: bool,
    /// Each operation is late by up to this many microseconds of real time.
    pub latency_us: u32,
    /// Instructions after which a launch counts as one that hangs.
    pub steps: u64,
    /// Whether calls are noted as commands of a program.
    pub trace: bool,
    /// Whether a process of [`kit::alone`](crate::kit::alone) finds the stand-ins for NVIDIA's libraries.
    pub libraries: bool,
    /// How the stand-in for CUPTI gives its records.
    pub cupti: Cupti,
    /// Errors to come.
    pub faults: Vec<Fault>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            scheduler: Scheduler::Lazy,
            devices: 2,
            memory: 8 << 30,
            version: 12020,
            pageable: Pageable::Kind,
            capability: (8, 0),
            engines: 2,
            peers: true,
            pools: true,
            host_threads: false,
            latency_us: 0,
            steps: 200_000_000,
            trace: false,
            libraries: false,
            cupti: Cupti::Honest,
            faults: Vec::new(),
        }
    }
}

/// The environment variable that a process without a control table is configured by: the JSON form of [`Config`].
pub(crate) const VARIABLE: &str = "SPANLIFT_SOFTCUDA";

impl Config {
    /// What the environment variable `SPANLIFT_SOFTCUDA` says, or the default.
    ///
    /// # Errors
    /// Where the text is no configuration.
    pub fn from_environment() -> Result<Config, String> {
        match std::env::var(VARIABLE) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{VARIABLE}: {e}")),
            Err(_) => Ok(Config::default()),
        }
    }

    /// The default under another scheduler.
    #[must_use]
    pub fn under(scheduler: Scheduler) -> Config {
        Config { scheduler, ..Config::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_read_what_they_print() {
        for text in ["lazy", "eager", "seed=7", "threads", "threads=200"] {
            assert_eq!(text.parse::<Scheduler>().map(|s| s.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "seed", "seed=x", "lazy=1", "threads=-1"] {
            assert!(text.parse::<Scheduler>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_configuration_survives_its_json_and_refuses_unknown_words() {
        let config = Config { devices: 3, ..Config::under(Scheduler::Seeded(9)) };
        let text = serde_json::to_string(&config).expect("plain data");
        assert_eq!(serde_json::from_str::<Config>(&text).expect("its own text"), config);
        assert!(serde_json::from_str::<Config>(r#"{"device": 3}"#).is_err());
    }
}
