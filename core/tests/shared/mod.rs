//! Where the cases lie that several projects share, for the tests that try them all.

use std::path::PathBuf;

/// The folder of shared cases: beside the checkout, or what `SPANLIFT_SHARED` names; `None`, said aloud, when it is absent.
pub(crate) fn shared() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = std::env::var_os("SPANLIFT_SHARED").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no shared cases beside this checkout");
    None
}
