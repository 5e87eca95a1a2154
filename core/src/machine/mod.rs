//! What a host and its devices cost: engines, links, staging, latencies.
//!
//! A [`Machine`] is data. The simulator reads it; nothing here knows programs or order. Every figure keeps where it is
//! from ([`Machine::figures`]), and a figure that a file leaves out has a stated default, marked as assumed.
//!
//! A file holds profiles over common figures, or one profile by itself:
//!
//! ```json
//! {"schema_version": 1, "common": {"call_launch": 4.5, ...},
//!  "profiles": {"my-box": {"h2d_bw": 26.0, "lat": 1.3, "conf": {"h2d_bw": "M my own probe", "rest": "E"}}}}
//! {"name": "my-box", "h2d_bw": 26.0}
//! ```
//!
//! Rates are in GB/s (1e9 bytes per second), times in us, sizes in bytes. `conf` tells of each figure whether it is
//! measured (`M`), derived (`D`) or an estimate (`E`), and its source; as plain text it holds for all figures of its
//! object. Unknown fields are ignored and listed in [`Machine::ignored`].
//!
//! ```
//! use spanlift::Bytes;
//! use spanlift::machine::{Grade, Machine, Source};
//!
//! let mut machine = Machine::builtin("h200-pcie5").ok_or("no such profile")?;
//! println!("4 MB at the link's rate take {}", machine.h2d_bw.time(Bytes(4_000_000)));
//! for figure in machine.figures().filter(|figure| figure.source.grade == Grade::Assumed) {
//!     println!("nobody said {}: {} {} is assumed", figure.name, figure.value, figure.unit);
//! }
//! machine.set("h2d_bw", 25.0, Source { grade: Grade::Measured, text: "my own probe".into() })?;
//! assert_eq!(Machine::from_json(machine.to_json().as_bytes())?.h2d_bw, machine.h2d_bw);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod figure;
mod read;

use std::sync::{Arc, OnceLock};

use figure::Value;
pub(crate) use figure::whole;
pub use figure::{Figure, Grade, Source};
pub use read::MachineError;
pub(crate) use read::object;

use crate::ordered::CollectVec;
use crate::units::{Bytes, Nanos, float, quotient};

/// Bytes per second; a copy of `n` bytes takes `n / rate`, rounded to the nearest nanosecond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// A rate from GB/s (1e9 bytes per second).
    pub fn from_gb_s(gb_s: f64) -> Option<Rate> {
        let rate = (gb_s * 1e9).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "range checked on this line"
        )]
        (1.0 <= rate && rate < 1e18).then_some(Rate(rate as u64))
    }

    /// How long `bytes` take; a rate of 0 takes for ever.
    pub fn time(self, bytes: Bytes) -> Nanos {
        if self.0 == 0 {
            return Nanos(i64::MAX);
        }
        let ns = quotient(u128::from(bytes.0) * 1_000_000_000 + u128::from(self.0 / 2), self.0);
        Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
    }
}

/// A factor in billionths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(pub u64);

impl Ratio {
    /// The factor 1.
    pub const ONE: Ratio = Ratio(1_000_000_000);

    /// `n` divided by this, rounded down; too much is `u64::MAX`.
    pub(crate) fn part(self, n: u64) -> u64 {
        let part = quotient(u128::from(n) * u128::from(Self::ONE.0), self.0.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// `n` times this, rounded down; too much is `u64::MAX`.
    pub(crate) fn of(self, n: u64) -> u64 {
        // n = whole * ONE + rest, and the first part needs no division: nothing is lost
        let (whole, rest) = (n / Self::ONE.0, n % Self::ONE.0);
        let rest = quotient(u128::from(rest) * u128::from(self.0), Self::ONE.0);
        whole.saturating_mul(self.0).saturating_add(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}

/// Makes the struct and the table of its fields from one list, so that neither forgets the other.
macro_rules! machine {
    ($( $(#[$doc:meta])* $field:ident: $type:ty, $unit:literal, $default:expr; )*) => {
        /// A host and its devices, as the simulator sees them.
        ///
        /// All devices of a machine are alike; a program may name as many as it likes.
        ///
        /// ```
        /// use spanlift::machine::Machine;
        /// let machine = Machine::builtin("tutorial-ci").ok_or("unknown machine")?;
        /// assert_eq!(machine.copy_engines, 2);
        /// assert_eq!(machine.h2d_bw.time(spanlift::Bytes(4_000_000)).0, 345_379);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Debug, Clone, PartialEq)]
        pub struct Machine {
            /// What the profile is called.
            pub name: String,
            /// What its author says about it.
            pub note: String,
            /// Fields of the file that mean nothing here.
            pub ignored: Vec<String>,
            /// Where each figure is from, in the order of [`Machine::figures`]; figures that have none are not told.
            pub sources: Vec<Source>,
            $( $(#[$doc])* pub $field: $type, )*
        }

        impl Machine {
            /// A machine that has every figure still to come.
            fn blank(name: &str) -> Machine {
                Machine {
                    name: name.to_owned(),
                    note: String::new(),
                    ignored: Vec::new(),
                    sources: Vec::new(),
                    $( $field: Default::default(), )*
                }
            }
        }

        /// Every figure, in the order of the struct.
        const FIELDS: &[Field] = &[
            $( Field {
                name: stringify!($field),
                unit: $unit,
                read: |m, v| { m.$field = Value::read(v)?; Ok(()) },
                show: |m| m.$field.show(),
                can_be: |m| m.$field.can_be(),
                default: $default,
            }, )*
        ];
    };
}

/// One figure of a [`Machine`] and how it is read, shown and filled in.
struct Field {
    name: &'static str,
    unit: &'static str,
    read: fn(&mut Machine, &serde_json::Value) -> Result<(), String>,
    show: fn(&Machine) -> String,
    can_be: fn(&Machine) -> bool,
    default: Missing,
}

/// What happens to a figure that the profile leaves out.
enum Missing {
    /// The common figure of the same file holds, or else that of the machines that come with spanlift.
    Common,
    /// There is no profile without it.
    Refused,
    /// This holds; fields further up are there already.
    Assumed(fn(&mut Machine), &'static str),
}
use Missing::{Assumed, Common, Refused};

#[rustfmt::skip]
machine! {
    /// Copies from pageable memory up to this size ride in the command stream.
    inline_h2d_bytes: Bytes, "bytes", Common;
    /// Work that a stream holds before the next enqueue blocks its host thread.
    queue_depth_per_stream: u32, "", Common;
    /// Kernels that run side by side on one device.
    max_resident_grids: u32, "", Common;
    /// Host time of a kernel launch, a memset or a host function.
    call_launch: Nanos, "us", Common;
    /// Host time of a copy's call.
    call_memcpy_async: Nanos, "us", Common;
    /// Host time of an event's record.
    call_event_record: Nanos, "us", Common;
    /// Host time of letting a stream wait for an event.
    call_stream_wait: Nanos, "us", Common;
    /// Host time of asking an event or a stream.
    call_event_query: Nanos, "us", Common;
    /// Host time from the end of what a thread waits for to the call's return.
    sync_return: Nanos, "us", Common;
    /// Host time of allocating device memory.
    call_malloc: Nanos, "us", Common;
    /// Host time of freeing device memory.
    call_free: Nanos, "us", Common;
    /// Host time of a stream-ordered allocation.
    call_malloc_async: Nanos, "us", Common;
    /// Host time of a stream-ordered free.
    call_free_async: Nanos, "us", Common;
    /// Host time of launching a graph.
    graph_launch: Nanos, "us", Common;
    /// From the moment a kernel could run to its start.
    kernel_start_gap: Nanos, "us", Common;
    /// Fixed host time of allocating page-locked memory.
    host_alloc_fixed: Nanos, "us", Common;
    /// Host time of page-locking 4 KiB in an allocation.
    host_alloc_per_4k: Nanos, "us", Common;
    /// Host time of releasing 4 KiB of page-locked memory.
    host_free_per_4k: Nanos, "us", Common;
    /// Host time of page-locking or unlocking 4 KiB in place.
    host_register_per_4k: Nanos, "us", Common;

    /// Copy engines: from 2 on one per direction, from 3 on one for peers, with 1 all copies share it.
    copy_engines: u32, "", Assumed(|m| m.copy_engines = 2, "one engine per direction");
    /// Page-locked host memory to a device.
    h2d_bw: Rate, "GB/s", Refused;
    /// A device to page-locked host memory.
    d2h_bw: Rate, "GB/s", Assumed(|m| m.d2h_bw = m.h2d_bw, "as to the device");
    /// What is left of `h2d_bw` while the other direction is busy.
    bidir_factor_h2d: Ratio, "", Assumed(|m| m.bidir_factor_h2d = Ratio::ONE, "both directions at full rate");
    /// What is left of `d2h_bw` while the other direction is busy.
    bidir_factor_d2h: Ratio, "", Assumed(|m| m.bidir_factor_d2h = Ratio::ONE, "both directions at full rate");
    /// From an engine's start on a copy to its first byte.
    lat: Nanos, "us", Assumed(|m| m.lat = Nanos(1500), "a usual figure");
    /// Copies within a device, in bytes copied; its memory reads and writes at twice this rate.
    d2d_bw: Rate, "GB/s", Assumed(|m| m.d2d_bw = Rate(300_000_000_000), "a data-centre card of the tutorial's time");
    /// Copies between devices; 0: there is no such link and they go through the host in two hops.
    p2p_bw: Rate, "GB/s", Assumed(|m| m.p2p_bw = Rate(0), "no link between devices");
    /// Pageable memory is copied by the engine itself, without staging.
    pageable_direct: bool, "", Assumed(|m| m.pageable_direct = false, "pageable memory is staged");
    /// Whether copies keep CUDA's rules; where not, an asynchronous copy is ordered with nothing before it and nothing after
    /// it but a sync, and its host memory is nobody's until then.
    ordered_copies: bool, "", Assumed(|m| m.ordered_copies = true, "as CUDA's devices");
    /// The link's rate for pageable memory where it is not staged.
    pageable_h2d_bw: Rate, "GB/s", Assumed(|m| m.pageable_h2d_bw = m.h2d_bw, "as page-locked memory; unused where staged");
    /// The same from the device; unused where staged.
    pageable_d2h_bw: Rate, "GB/s", Assumed(|m| m.pageable_d2h_bw = m.d2h_bw.min(m.pageable_h2d_bw), "as page-locked memory, at most as to the device; unused where staged");
    /// The link's rate for write-combined memory, which no program can ask for yet.
    write_combined_h2d_bw: Rate, "GB/s", Assumed(|m| m.write_combined_h2d_bw = m.h2d_bw, "as page-locked memory");
    /// The driver's copy into or out of a staging slot, the pageable side being in the cache.
    stage_hot_bw: Rate, "GB/s", Assumed(|m| m.stage_hot_bw = Rate(12_000_000_000), "about the tutorial's machine");
    /// The same, the pageable side being in memory.
    stage_cold_bw: Rate, "GB/s", Assumed(|m| m.stage_cold_bw = Rate(8_000_000_000).min(m.stage_hot_bw), "about the tutorial's machine");
    /// Bytes of one staging slot.
    stage_chunk: Bytes, "bytes", Assumed(|m| m.stage_chunk = Bytes(1 << 20), "as on the tutorial's machine");
    /// Staging slots of one host thread.
    stage_slots: u32, "", Assumed(|m| m.stage_slots = 4, "as on the tutorial's machine");
    /// A thread's own copy within host memory, the source being in the cache.
    host_memcpy_hot_bw: Rate, "GB/s", Assumed(|m| m.host_memcpy_hot_bw = m.stage_hot_bw, "as staging");
    /// The same, the source being in memory.
    host_memcpy_cold_bw: Rate, "GB/s", Assumed(|m| m.host_memcpy_cold_bw = m.stage_cold_bw, "as staging");
    /// What all threads that copy at the same time get together.
    host_memcpy_cap_bw: Rate, "GB/s", Assumed(|m| m.host_memcpy_cap_bw = Rate(m.host_memcpy_hot_bw.0.saturating_mul(2)), "two threads' worth");
    /// How much longer a host copy takes while an engine moves bytes over a link.
    dma_interference: Ratio, "", Assumed(|m| m.dma_interference = Ratio(94_294_220), "as on the tutorial's machine");
    /// The last-level cache: host memory touched last is hot up to this size.
    last_level_cache: Bytes, "bytes", Assumed(|m| m.last_level_cache = Bytes(32 << 20), "a server processor's share");
    /// A framework's own time for one copy call.
    framework_to_overhead: Nanos, "us", Assumed(|m| m.framework_to_overhead = Nanos(13_330), "as on the tutorial's machine");
    /// A framework's own time for one leaf of a dictionary of tensors.
    td_leaf_overhead: Nanos, "us", Assumed(|m| m.td_leaf_overhead = Nanos(6_738), "as on the tutorial's machine");
    /// A framework's own time for pinning one tensor into a block that it has.
    pin_overhead: Nanos, "us", Assumed(|m| m.pin_overhead = Nanos(2_000), "as on the tutorial's machine");
    /// Threads among which a framework divides the copy of one tensor within host memory, at most.
    framework_copy_threads: u32, "", Assumed(|m| m.framework_copy_threads = 1, "the calling thread alone");
    /// Bytes that each of these gets, at least.
    framework_copy_grain: Bytes, "bytes", Assumed(|m| m.framework_copy_grain = Bytes(128 << 10), "PyTorch's grain of 32,768 elements, of four bytes");
    /// How many times `host_memcpy_cap_bw` these threads get together where the source is in the cache: they write there too.
    framework_hot_factor: Ratio, "", Assumed(|m| m.framework_hot_factor = Ratio::ONE, "as from memory");
    /// Bytes that each of these threads leaves changed in the cache of its core, of those that it wrote last.
    core_cache: Bytes, "bytes", Assumed(|m| m.core_cache = Bytes(1 << 20), "half of a server core's own 2 MiB: the other has what was read");
    /// How fast a device's copy gets changed bytes out of these caches before it reads them; 0: in no time.
    changed_read_bw: Rate, "GB/s", Assumed(|m| m.changed_read_bw = Rate(0), "as fast as from memory");

    /// From waking sleeping threads until they work.
    thread_wake: Nanos, "us", Assumed(|m| m.thread_wake = Nanos(24_000), "a thread parked and unparked on a virtual machine");
    /// A thread's writes to memory that was never touched: page faults bound them.
    host_fault_bw: Rate, "GB/s", Assumed(|m| m.host_fault_bw = Rate(1_500_000_000), "pages of 4 KiB on a virtual machine: 0.7 to 2.0");
    /// A thread's own time for each of many small tensors that it gathers or scatters.
    gather_per_tensor: Nanos, "us", Assumed(|m| m.gather_per_tensor = Nanos(40), "a few cache misses");
    /// A kernel that reads page-locked host memory over the link.
    mapped_read_bw: Rate, "GB/s", Assumed(|m| m.mapped_read_bw = if m.pageable_direct { m.h2d_bw } else { m.h2d_bw.min(Rate(35_000_000_000)) }, "the link, at most 35 where pageable memory is staged");
    /// Many pieces copied by one call of the driver; 0: it has no such call.
    batch_bw: Rate, "GB/s", Assumed(|m| m.batch_bw = Rate(0), "no such call");
    /// Time of that call for each piece.
    batch_per_copy: Nanos, "us", Assumed(|m| m.batch_per_copy = Nanos(900), "a third less than a call of its own");
}

/// The profiles that come with spanlift.
const BUILTIN: &str = include_str!("../../data/machines.json");

impl Machine {
    /// Among how many threads a framework divides the copy of so many bytes.
    pub(crate) fn framework_copy_parts(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.framework_copy_grain.0.max(1)).min(self.framework_copy_threads.into()).max(1)
    }

    /// The profile of this name among those that come with spanlift.
    pub fn builtin(name: &str) -> Option<Machine> {
        builtin().iter().find(|m| m.name == name).cloned()
    }

    /// The names of the profiles that come with spanlift.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.into_iter()
    }

    /// Reads a file that holds exactly one profile.
    ///
    /// # Errors
    /// [`MachineError`] with the profile and the field; all figures are looked at, the first wrong one is told.
    ///
    /// ```
    /// use spanlift::machine::Machine;
    /// let machine = Machine::from_json(br#"{"name": "my-box", "h2d_bw": 26.0}"#)?;
    /// assert_eq!(machine.stage_slots, 4); // assumed
    /// let error = Machine::from_json(br#"{"name": "my-box", "h2d_bw": -1}"#).unwrap_err();
    /// assert_eq!(error.to_string(), r#"machine "my-box", field "h2d_bw": -1 is no rate between 1e-9 and 1e6 GB/s"#);
    /// # Ok::<(), spanlift::machine::MachineError>(())
    /// ```
    pub fn from_json(bytes: &[u8]) -> Result<Machine, MachineError> {
        let mut machines = Machine::all_from_json(bytes)?;
        match machines.pop() {
            Some(machine) if machines.is_empty() => Ok(machine),
            Some(last) => {
                let names = machines.into_iter().chain([last]).map(|m| m.name).collect_vec();
                Err(MachineError::Several { names })
            }
            None => Err(MachineError::NoProfile),
        }
    }

    /// Reads every profile of a file, with or without a byte order mark, in the order of their names.
    ///
    /// # Errors
    /// As [`Machine::from_json`], but for the number of profiles.
    pub fn all_from_json(bytes: &[u8]) -> Result<Vec<Machine>, MachineError> {
        read::read(bytes)
    }

    /// Whether every figure is one that a file can say, as those of every machine are whose fields nobody changed.
    ///
    /// # Errors
    /// [`MachineError::Figure`] with the first that is not.
    ///
    /// ```
    /// use spanlift::machine::{Machine, Rate};
    /// let mut machine = Machine::default();
    /// assert_eq!(machine.check(), Ok(()));
    /// machine.h2d_bw = Rate(0);
    /// assert_eq!(machine.check().unwrap_err().to_string(), "machine \"tutorial-ci\", field \"h2d_bw\": 0 GB/s cannot be");
    /// ```
    pub fn check(&self) -> Result<(), MachineError> {
        for field in FIELDS {
            if !(field.can_be)(self) && !read::may_be_absent(self, field.name) {
                let told = format!("{} {}", (field.show)(self), field.unit);
                return Err(read::wrong(&self.name, field.name, &format!("{} cannot be", told.trim_end())));
            }
            if let Some(why) = read::fault(self, field.name) {
                return Err(read::wrong(&self.name, field.name, why));
            }
        }
        Ok(())
    }

    /// The value of a figure by its name in files, in the unit of files; `None` for an unknown name and for yes and no.
    ///
    /// ```
    /// use spanlift::machine::Machine;
    /// let machine = Machine::default();
    /// assert_eq!(machine.figure("lat"), Some(1.5));
    /// assert_eq!(machine.figure("colour"), None);
    /// ```
    pub fn figure(&self, name: &str) -> Option<f64> {
        let field = FIELDS.iter().find(|f| f.name == name)?;
        float(&(field.show)(self))
    }

    /// Gives the machine another value for a figure, by its name and in the unit of files. Nothing else changes, not even
    /// a figure that was assumed to be the same.
    ///
    /// # Errors
    /// [`MachineError`] with the figure: an unknown name, or a value that cannot be. The machine is as it was then.
    ///
    /// ```
    /// use spanlift::machine::{Grade, Machine, Source};
    /// let mut machine = Machine::default();
    /// machine.set("h2d_bw", 25.0, Source { grade: Grade::Assumed, text: "what if".into() })?;
    /// assert_eq!(machine.h2d_bw.0, 25_000_000_000);
    /// let error = machine.set("h2d_bw", "fast", Source { grade: Grade::Assumed, text: "".into() }).unwrap_err();
    /// assert!(error.to_string().contains("no rate"));
    /// # Ok::<(), spanlift::machine::MachineError>(())
    /// ```
    pub fn set(
        &mut self,
        name: &str,
        value: impl Into<serde_json::Value>,
        source: Source,
    ) -> Result<(), MachineError> {
        let Some(k) = FIELDS.iter().position(|f| f.name == name) else {
            return Err(MachineError::Unknown { profile: self.name.clone(), field: name.to_owned() });
        };
        let mut changed = self.clone();
        let value = value.into();
        // What JSON makes of numbers that it does not know.
        if value.is_null() {
            return Err(read::wrong(&self.name, name, "neither NaN nor an infinite number is a figure"));
        }
        read::assign(&mut changed, &FIELDS[k], &value).map_err(|e| read::wrong(&self.name, name, &e))?;
        if let Some(told) = changed.sources.get_mut(k) {
            *told = source;
        }
        *self = changed;
        Ok(())
    }

    /// Gives the machine a link between host and devices that is `factor` times as fast: all rates over it, of page-locked,
    /// write-combined and, where the link reads it itself, pageable memory. A device's reads of mapped memory and copies of many
    /// pieces by one call stay as they are: they have limits of their own.
    ///
    /// # Errors
    /// As [`Machine::set`].
    ///
    /// ```
    /// use spanlift::machine::{Grade, Machine, Source};
    /// let mut machine = Machine::builtin("gh200-c2c").ok_or("unknown machine")?;
    /// machine.scale_link(0.5, Source { grade: Grade::Assumed, text: "half of its lanes".into() })?;
    /// assert_eq!((machine.figure("h2d_bw"), machine.figure("pageable_h2d_bw")), (Some(52.3), Some(49.9)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scale_link(&mut self, factor: f64, source: Source) -> Result<(), MachineError> {
        let mut changed = self.clone();
        for name in ["h2d_bw", "d2h_bw", "pageable_h2d_bw", "pageable_d2h_bw", "write_combined_h2d_bw"] {
            let rate = changed.figure(name).unwrap_or_default();
            changed.set(name, rate * factor, source.clone())?;
        }
        *self = changed;
        Ok(())
    }

    /// The profile as a file that [`Machine::from_json`] reads: every figure with where it is from. Figures that were
    /// assumed stand in it as estimates.
    pub fn to_json(&self) -> String {
        use serde_json::{Map, Value, json};
        let mut file = Map::new();
        file.insert("schema_version".to_owned(), json!(1));
        file.insert("name".to_owned(), json!(self.name));
        if !self.note.is_empty() {
            file.insert("note".to_owned(), json!(self.note));
        }
        let mut conf = Map::new();
        for figure in self.figures() {
            // What is shown is what JSON calls the same number.
            let value = serde_json::from_str(&figure.value).unwrap_or(Value::Null);
            file.insert(figure.name.to_owned(), value);
            conf.insert(figure.name.to_owned(), json!(figure.source.conf()));
        }
        file.insert("conf".to_owned(), Value::Object(conf));
        let mut text = serde_json::to_string_pretty(&file)
            .unwrap_or_else(|e| unreachable!("bug: an object of plain values is JSON: {e}"));
        text.push('\n');
        text
    }

    /// Every figure with its unit and where it is from.
    pub fn figures(&self) -> impl Iterator<Item = Figure> + '_ {
        FIELDS.iter().zip(&self.sources).map(|(field, source)| Figure {
            name: field.name,
            value: (field.show)(self),
            unit: field.unit,
            source: source.clone(),
        })
    }
}

/// The profile that holds where nobody names one: the machine of the published rows.
pub const USUAL: &str = NAMES[0];

/// The names of [`BUILTIN`], the machine of the published rows first.
const NAMES: [&str; 8] = [
    "tutorial-ci",
    "v100-pcie3",
    "a100-pcie4",
    "h100-pcie5",
    "h200-pcie5",
    "rtx4090-pcie4",
    "rtx5090-pcie5",
    "gh200-c2c",
];

/// Read once: whoever simulates in a loop asks for one each time.
fn builtin() -> &'static [Machine] {
    static READ: OnceLock<Vec<Machine>> = OnceLock::new();
    READ.get_or_init(|| {
        read::read(BUILTIN.as_bytes()).unwrap_or_else(|e| unreachable!("bug: the built-in machines: {e}"))
    })
}

impl Default for Machine {
    fn default() -> Machine {
        Machine::builtin(NAMES[0]).unwrap_or_else(|| unreachable!("bug: the first built-in machine is there"))
    }
}

fn source(grade: Grade, text: &str) -> Source {
    Source { grade, text: Arc::from(text) }
}

#[cfg(test)]
mod tests;
