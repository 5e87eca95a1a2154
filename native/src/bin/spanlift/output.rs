//! Outputs: a file is there whole or not at all.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;
use spanlift_native::host;

use crate::say::{self, Fail};

/// Makes a folder and those above it, where there is none.
///
/// # Errors
/// One line with the folder's name.
pub(crate) fn folder(path: &Path) -> Result<(), Fail> {
    let made = match path.as_os_str() == "-" {
        true => Err(io::Error::other("reports go to standard output; give a folder's name")),
        false if path.is_file() => Err(io::Error::other("is a file, not a folder")),
        false => fs::create_dir_all(path),
    };
    made.map_err(|e| Fail::at(&path.display().to_string(), format!("cannot be made: {}", say::lower(&e))))
}

/// The files that this call has read or written.
static TAKEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Notes a file that is read: no output of this call replaces it.
pub(crate) fn keep(path: &Path) {
    if let Some(file) = as_file(path) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
    }
}

/// Whether writing to `path` leaves all that this call has read and written as it is, and can be done: what is long is not
/// begun where its result has no place.
///
/// # Errors
/// One line when it does not.
pub(crate) fn is_free(path: &Path) -> Result<(), Fail> {
    is_other(path)?;
    has_place(path).map_err(|e| cannot(path, &e))
}

/// The same for several outputs of one call, of which no two are one file.
///
/// # Errors
/// As [`is_free`].
pub(crate) fn are_free<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<(), Fail> {
    let mut seen = BTreeSet::new();
    for path in paths {
        is_free(path)?;
        if to_be(path).is_some_and(|file| !seen.insert(file)) {
            return Err(is_taken(path));
        }
    }
    Ok(())
}

fn is_other(path: &Path) -> Result<(), Fail> {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if as_file(path).is_some_and(|file| taken.contains(&file)) { Err(is_taken(path)) } else { Ok(()) }
}

fn is_taken(path: &Path) -> Fail {
    let why = "is an input or another output: give the output another name";
    Fail::at(&path.display().to_string(), why)
}

/// The file that is made or replaced, by the one name that all its paths come to; nothing for what is written to as it is.
fn to_be(path: &Path) -> Option<PathBuf> {
    match target(path).ok()? {
        (file, None) => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
            Some(folder.join(file.file_name()?))
        }
        (file, Some(there)) => there.is_file().then_some(file),
    }
}

/// A file that is there by the one name that all its paths come to; nothing for a pipe or a folder, which are not replaced.
fn as_file(path: &Path) -> Option<PathBuf> {
    let file = fs::canonicalize(path).ok()?;
    file.is_file().then_some(file)
}

/// What the file is called beneath `.gz`, by which its form is chosen.
pub(crate) fn unpacked(path: &Path) -> Cow<'_, Path> {
    if is_packed(path) { path.with_extension("").into() } else { path.into() }
}

fn is_packed(path: &Path) -> bool {
    ends_in(path, "gz")
}

/// Whether a name has this ending, in letters of either case.
pub(crate) fn ends_in(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending))
}

/// Writes `bytes` to `path`: into a file beside it first, which then takes its name. Where that ends in `.gz` they are packed.
///
/// What is no ordinary file, such as a pipe, is written to directly.
///
/// # Errors
/// One line with the path; nothing is left behind, and a file that was there is as it was.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Fail> {
    is_other(path)?;
    let pack = || {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(bytes)?;
        packer.finish()
    };
    let bytes = if is_packed(path) { pack().map(Cow::from) } else { Ok(bytes.into()) };
    bytes.and_then(|bytes| try_write(path, &bytes)).map_err(|e| cannot(path, &e))?;
    keep(path);
    Ok(())
}

fn cannot(path: &Path, why: &io::Error) -> Fail {
    Fail::at(&path.display().to_string(), format!("cannot be written: {}", say::lower(why)))
}

/// Whether a file can be there: a new one beside it can be made.
fn has_place(path: &Path) -> io::Result<()> {
    match target(path)? {
        (_, Some(there)) if !there.is_file() => Ok(()),
        (target, _) => beside(&target, create).and_then(|(beside, _)| fs::remove_file(beside)),
    }
}

/// The file that is replaced, and what is there.
fn target(path: &Path) -> io::Result<(PathBuf, Option<Metadata>)> {
    if path.as_os_str() == "-" {
        return Err(io::Error::other("reports go to standard output; give a file's name"));
    }
    // A pipe behind a link, as `/dev/stdout` may be, has no other name.
    if let Ok(there) = fs::metadata(path)
        && !there.is_file()
        && !there.is_dir()
    {
        return Ok((path.to_owned(), Some(there)));
    }
    // A link stays a link: the file that it names is replaced, or made.
    let target = fs::canonicalize(path).unwrap_or_else(|_| named(path));
    match fs::metadata(&target) {
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(there) if !there.is_file() => Ok((target, Some(there))),
        Ok(there) if there.permissions().readonly() => Err(io::ErrorKind::PermissionDenied.into()),
        Ok(there) => Ok((target, Some(there))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => match target.file_name() {
            Some(_) => Ok((target, None)),
            None => Err(io::ErrorKind::InvalidInput.into()),
        },
        Err(e) => Err(e),
    }
}

/// What a path names through links that lead to nothing yet.
fn named(path: &Path) -> PathBuf {
    let mut target = path.to_owned();
    // As many as Linux follows.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&target) else { break };
        target = target.with_file_name(next);
    }
    target
}

fn try_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (target, there) = target(path)?;
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return File::options().write(true).open(&target)?.write_all(bytes);
    }
    let permissions = there.map(|there| there.permissions());
    // Of a file without a name nothing is left where this process is ended; not every folder knows such files.
    if let Ok(beside) = name_when_whole(&target, bytes, permissions.as_ref()) {
        return put(&beside, &target, Ok(()));
    }
    let (beside, mut file) = beside(&target, create)?;
    let filled = fill(&mut file, bytes, permissions.as_ref());
    drop(file);
    put(&beside, &target, filled)
}

/// A file beside `target` that had no name before it was whole.
fn name_when_whole(target: &Path, bytes: &[u8], permissions: Option<&Permissions>) -> io::Result<PathBuf> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = host::without_name(folder.unwrap_or(Path::new(".")))?;
    fill(&mut file, bytes, permissions)?;
    Ok(beside(target, |path| host::give_name(&file, path))?.0)
}

/// Gives what is beside `target` its name, or takes it away where it was not written.
fn put(beside: &Path, target: &Path, written: io::Result<()>) -> io::Result<()> {
    let put = written.and_then(|()| fs::rename(beside, target));
    if put.is_err() {
        // The first fault is the one to tell.
        let _ = fs::remove_file(beside);
    }
    put
}

/// Writes a new file, which others may see no more of than of the one that it replaces.
fn fill(file: &mut File, bytes: &[u8], permissions: Option<&Permissions>) -> io::Result<()> {
    if let Some(permissions) = permissions {
        file.set_permissions(permissions.clone())?;
    }
    file.write_all(bytes)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// What `make` makes in the folder of `target` of a name that nothing has; the name does not grow with the target's, which may be
/// as long as names can be.
fn beside<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    for k in 0.. {
        let beside = target.with_file_name(format!(".spanlift-{}-{k}.part", std::process::id()));
        match make(&beside) {
            Ok(made) => return Ok((beside, made)),
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
        try_write(&folder.join("a.txt"), b"one").unwrap();
        try_write(&folder.join("a.txt"), b"two").unwrap();
        assert_eq!(fs::read(folder.join("a.txt")).unwrap(), b"two");
        assert!(try_write(&folder, b"x").is_err());
        assert!(try_write(&folder.join("missing/a.txt"), b"x").is_err());
        assert!(try_write(&folder.join("a.txt/b.txt"), b"x").is_err());
        assert!(try_write(&folder.join(".."), b"x").is_err());
        assert_eq!(names(), ["a.txt"]);
        let long = folder.join("n".repeat(250));
        try_write(&long, b"x").unwrap();
        fs::remove_file(&long).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode =
                |mode| fs::set_permissions(folder.join("a.txt"), Permissions::from_mode(mode)).unwrap();
            mode(0o400);
            assert!(try_write(&folder.join("a.txt"), b"x").is_err());
            assert_eq!(fs::read(folder.join("a.txt")).unwrap(), b"two");
            mode(0o600);
            try_write(&folder.join("a.txt"), b"two").unwrap();
            assert_eq!(fs::metadata(folder.join("a.txt")).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(names(), ["a.txt"]);
            std::os::unix::fs::symlink("a.txt", folder.join("link")).unwrap();
            std::os::unix::fs::symlink("link", folder.join("second")).unwrap();
            let is_link = |name| fs::symlink_metadata(folder.join(name)).unwrap().is_symlink();
            // Also where nothing is there yet.
            for (link, text) in [("link", "three"), ("second", "four"), ("second", "five")] {
                try_write(&folder.join(link), text.as_bytes()).unwrap();
                assert_eq!(fs::read(folder.join("a.txt")).unwrap(), text.as_bytes());
                assert!(is_link("link") && is_link("second"));
                if text != "five" {
                    fs::remove_file(folder.join("a.txt")).unwrap();
                }
            }
            std::os::unix::fs::symlink("round", folder.join("round")).unwrap();
            assert!(try_write(&folder.join("round"), b"x").is_err());
            assert!(is_link("round"));
            try_write(Path::new("/dev/null"), b"x").unwrap();
            assert!(!fs::metadata("/dev/null").unwrap().is_file());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
