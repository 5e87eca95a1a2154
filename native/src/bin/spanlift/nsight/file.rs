//! A database opened such that nothing is written where it lies.
//!
//! Of a database with a write-ahead log SQLite makes `-wal` and `-shm` beside the file even for those who only read. Where no log
//! has anything in it the file is all there is, and SQLite is told that it does not change. What a log holds is not in the file
//! yet, so file and log are copied into the folder for temporary files, where SQLite joins them.
//!
//! A page that names itself, or others that name one page many times, would be read without an end: what SQLite does is limited by
//! the length of the file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::{Connection, OpenFlags};

/// What SQLite keeps beside a file: changes that are to be made, or to be taken back.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// Steps of SQLite's machine at once.
const STEPS: i32 = 10_000;
/// Steps that any file may take.
const FREE_STEPS: u64 = 1_000_000;
/// Steps for each byte beyond that. A row takes one for each column and a few more, at least five bytes of the file, and is read twice.
const STEPS_OF_BYTE: u64 = 16;

/// An open database, and the copy that it is of.
pub(super) struct File {
    // Closed before the copy is removed.
    pub(super) db: Connection,
    /// How long it is, with its logs.
    pub(super) n_bytes: u64,
    _copy: Option<Copy>,
}

/// Why it could not be opened.
pub(super) enum Broken {
    Database(rusqlite::Error),
    /// The copy could not be made.
    Copy(io::Error),
}

impl From<rusqlite::Error> for Broken {
    fn from(e: rusqlite::Error) -> Self {
        Broken::Database(e)
    }
}

impl File {
    pub(super) fn open(path: &Path) -> Result<File, Broken> {
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let logs: Vec<&str> = LOGS.into_iter().filter(|log| has_content(&beside(path, log))).collect();
        let files = logs.iter().map(|log| beside(path, log)).chain([path.to_owned()]);
        let n_bytes = files.filter_map(|file| Some(fs::metadata(file).ok()?.len())).sum();
        let file = if logs.is_empty() {
            let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            File { db: Connection::open_with_flags(unchanging(path), flags)?, n_bytes, _copy: None }
        } else {
            let copy = Copy::of(path, &logs).map_err(Broken::Copy)?;
            let db = Connection::open_with_flags(&copy.file, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            File { db, n_bytes, _copy: Some(copy) }
        };
        file.limited()
    }

    /// The file, whose reading ends where it takes far more steps than its bytes can hold rows for.
    fn limited(mut self) -> Result<File, Broken> {
        let steps = STEPS_OF_BYTE.saturating_mul(self.n_bytes).saturating_add(FREE_STEPS);
        let mut left = steps / u64::from(STEPS.unsigned_abs());
        let is_over = move || {
            left = left.saturating_sub(1);
            left == 0
        };
        self.db.progress_handler(STEPS, Some(is_over))?;
        Ok(self)
    }
}

fn beside(path: &Path, log: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(log);
    PathBuf::from(name)
}

fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|of| of.is_file() && 0 < of.len())
}

/// The address by which SQLite takes a file for one that nobody changes.
fn unchanging(path: &Path) -> String {
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => address.push(char::from(*byte)),
            // Slashes too: two at the beginning would name a machine.
            _ => address.push_str(&format!("%{byte:02x}")),
        }
    }
    address + "?immutable=1"
}

/// A file and its logs in a folder of their own, which is removed.
struct Copy {
    folder: PathBuf,
    file: PathBuf,
}

impl Copy {
    fn of(path: &Path, logs: &[&str]) -> io::Result<Copy> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("spanlift-export-{}-{n}", std::process::id()));
        // Refused where somebody has made one of that name.
        fs::create_dir(&folder)?;
        let copy = Copy { file: folder.join("export.sqlite"), folder };
        fs::copy(path, &copy.file)?;
        for log in logs {
            fs::copy(beside(path, log), beside(&copy.file, log))?;
        }
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What cannot be removed is left to the system, as all in that folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
