//! Outputs: a file is there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::say::{self, Fail};

/// Makes a folder and those above it, where there is none.
///
/// # Errors
/// One line with the folder's name.
pub(crate) fn folder(path: &Path) -> Result<(), Fail> {
    fs::create_dir_all(path)
        .map_err(|e| Fail::at(&path.display().to_string(), format!("cannot be made: {}", say::lower(&e))))
}

/// Writes `bytes` to `path`: into a file beside it first, which then takes its name.
///
/// What is no ordinary file, such as a pipe, is written to directly.
///
/// # Errors
/// One line with the path; nothing is left behind, and a file that was there is as it was.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Fail> {
    try_write(path, bytes)
        .map_err(|e| Fail::at(&path.display().to_string(), format!("cannot be written: {}", say::lower(&e))))
}

/// Whether writing to `path` leaves `input` as it is.
///
/// # Errors
/// One line when both are the same file.
pub(crate) fn differs_from(path: &Path, input: &Path) -> Result<(), Fail> {
    let same = match (fs::canonicalize(path), fs::canonicalize(input)) {
        (Ok(a), Ok(b)) => a == b && a.is_file(),
        _ => false,
    };
    if same {
        return Err(Fail::at(&path.display().to_string(), "is an input: give the output another name"));
    }
    Ok(())
}

fn try_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.as_os_str() == "-" {
        return Err(io::Error::other("reports go to standard output; give a file's name"));
    }
    // A link stays a link: the file that it names is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(there) if !there.is_file() => return File::options().write(true).open(&target)?.write_all(bytes),
        _ => {}
    }
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let (beside, mut file) = create_beside(&target, name)?;
    let written = file.write_all(bytes).and_then(|()| {
        drop(file);
        fs::rename(&beside, &target)
    });
    if written.is_err() {
        // The first fault is the one to tell.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn create_beside(target: &Path, name: &std::ffi::OsStr) -> io::Result<(PathBuf, File)> {
    for k in 0.. {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{k}.part", std::process::id()));
        let beside = target.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            Ok(file) => return Ok((beside, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && k < 100 => {}
            Err(e) => return Err(e),
        }
    }
    unreachable!("bug: the loop above ends by returning")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("spanlift-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        write(&folder.join("a.txt"), b"one").unwrap();
        write(&folder.join("a.txt"), b"two").unwrap();
        assert_eq!(fs::read(folder.join("a.txt")).unwrap(), b"two");
        assert!(write(&folder, b"x").is_err());
        assert!(write(&folder.join("missing/a.txt"), b"x").is_err());
        assert!(write(&folder.join("a.txt/b.txt"), b"x").is_err());
        assert!(write(&folder.join(".."), b"x").is_err());
        assert_eq!(names(), ["a.txt"]);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("a.txt", folder.join("link")).unwrap();
            write(&folder.join("link"), b"three").unwrap();
            assert_eq!(fs::read(folder.join("a.txt")).unwrap(), b"three");
            assert!(fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
            write(Path::new("/dev/null"), b"x").unwrap();
            assert!(!fs::metadata("/dev/null").unwrap().is_file());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
