//! What can be read of this computer's host: cores, how busy they are, and free memory; and files that it keeps without a name.
//!
//! Nothing is measured: the operating system is asked. What it does not tell is `None`.

use std::fs::File;
use std::io;
use std::path::Path;

use spanlift::{Bytes, Nanos};

/// This computer's host, as far as it tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Processors that this process may use (`nproc`).
    pub cores: Option<u32>,
    /// The cores that these are of: where a core has two threads there are half as many
    /// (`/sys/devices/system/cpu/cpu*/topology/thread_siblings_list`).
    pub physical_cores: Option<u32>,
    /// The part of them that was busy over the last minute, from 0 to 1 (`/proc/loadavg`).
    pub load: Option<f64>,
    /// Memory that can be taken without swapping (`MemAvailable` of `/proc/meminfo`).
    pub free_ram: Option<Bytes>,
}

/// Asks the operating system.
///
/// ```
/// let host = spanlift_native::host::read();
/// assert!(host.cores.is_none_or(|n| n >= 1));
/// assert!(host.load.is_none_or(|l| 0.0 <= l && l <= 1.0));
/// ```
pub fn read() -> Host {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok());
    let siblings = (0..MOST_PROCESSORS)
        .map(|n| file(&format!("/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list")));
    Host {
        cores,
        physical_cores: cores.map(|n| physical(siblings, n)),
        load: cores.and_then(|n| load(&file("/proc/loadavg"), n)),
        free_ram: available(&file("/proc/meminfo")),
    }
}

/// Makes a file in a folder that has no name yet, so that nothing is left of it however this process ends.
///
/// [`give_name`] gives it one.
///
/// # Errors
/// Those of the system; [`Unsupported`](std::io::ErrorKind::Unsupported) where it or the folder knows no such files. Linux does.
///
/// # Examples
/// ```
/// use std::io::Write;
/// let folder = std::env::temp_dir();
/// if let Ok(mut file) = spanlift_native::host::without_name(&folder) {
///     file.write_all(b"whole")?;
///     let path = folder.join(format!("named-{}", std::process::id()));
///     spanlift_native::host::give_name(&file, &path)?;
///     assert_eq!(std::fs::read(&path)?, b"whole");
///     std::fs::remove_file(&path)?;
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn without_name(folder: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        File::options().write(true).custom_flags(libc::O_TMPFILE).open(folder)
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("{}: no files without a name", folder.display())))
}

/// Gives a file [`without_name`] this one, in the same folder or another of its disk.
///
/// # Errors
/// Those of the system: above all where something has that name.
pub fn give_name(file: &File, path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::processor::link(file, path);
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("{}: {file:?} has a name", path.display())))
}

/// Time of processors that this process has used so far, all threads together, in steps of 10 ms (`/proc/self/stat`).
pub fn cpu_time() -> Option<Nanos> {
    cpu_ticks(&std::fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| Nanos(ticks * 10_000_000))
}

/// User and system time, the 14th and 15th field; the second one is a name in brackets that may hold anything.
fn cpu_ticks(stat: &str) -> Option<i64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<i64>().ok();
    next()?.checked_add(next()?)
}

/// How many processors the kernel numbers at most.
const MOST_PROCESSORS: u32 = 8192;

/// How many different groups of processors share a core, at most `cores`; where the kernel does not tell, each is a core.
fn physical(siblings: impl Iterator<Item = String>, cores: u32) -> u32 {
    let told = siblings.take_while(|group| !group.is_empty());
    let groups: std::collections::BTreeSet<String> = told.collect();
    u32::try_from(groups.len()).ok().filter(|n| (1..cores).contains(n)).unwrap_or(cores)
}

/// The first number of `/proc/loadavg` over the processors.
fn load(loadavg: &str, cores: u32) -> Option<f64> {
    let minute: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    minute.is_finite().then(|| (minute / f64::from(cores.max(1))).clamp(0.0, 1.0))
}

/// `MemAvailable`, which the kernel gives in KiB and calls kB.
fn available(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_or_absent() {
        assert_eq!(load("0.50 0.40 0.30 1/234 5678\n", 2), Some(0.25));
        assert_eq!(load("7.00 0.40", 2), Some(1.0));
        assert_eq!(load("", 2), None);
        assert_eq!(load("nan", 2), None);
        let groups =
            |all: &[&str]| all.iter().map(|group| format!("{group}\n")).collect::<Vec<_>>().into_iter();
        assert_eq!(physical(groups(&["0,2", "1,3", "0,2", "1,3"]), 4), 2);
        assert_eq!(physical(groups(&["0,2", "1,3", "0,2", "1,3"]), 1), 1, "it may use one processor");
        assert_eq!(physical(groups(&["0", "1", "2"]), 3), 3);
        assert_eq!(physical(groups(&[]), 6), 6);
        assert_eq!(cpu_ticks("7 (a b) c) R 1 2 3 4 5 6 7 8 9 10 40 2 0"), Some(42));
        assert_eq!(cpu_ticks("7 (a) R 1"), None);
        let text = "MemTotal:       24000000 kB\nMemFree:         1000 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(available(text), Some(Bytes(20_000_000 << 10)));
        assert_eq!(available("MemTotal: 1 kB"), None);
        assert_eq!(available("MemAvailable: many kB"), None);
        assert_eq!(available("MemAvailable: 99999999999999999999 kB"), None);
        assert_eq!(available("MemAvailable: 18446744073709551615 kB"), None);
    }
}
