//! Files that a command writes: whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::say::{self, Fail};

/// Makes a folder and those above it, where there is none.
///
/// # Errors
/// One line with the folder's name.
pub(crate) fn folder(path: &Path) -> Result<(), Fail> {
    fs::create_dir_all(path).map_err(|e| Fail::at(&say::place(path), say::lower(&e)))
}

/// Writes a file: first beside its place, then in it, so that nobody ever finds half of one.
///
/// # Errors
/// One line with the file's name; nothing is left behind.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Fail> {
    let fail = |e: io::Error| Fail::at(&say::place(path), say::lower(&e));
    let name = path.file_name().ok_or_else(|| Fail::at(&say::place(path), "is no file's name"))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(beside);
    let whole = fs::File::create(&beside)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&beside, path));
    whole.map_err(|e| {
        // What cannot be removed either is the lesser evil.
        let _ = fs::remove_file(&beside);
        fail(e)
    })
}
