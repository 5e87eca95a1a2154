//! cuBLAS, cuFFT and CUPTI, found at run time by whoever needs them first.
//!
//! Nothing of them is needed to build. They are looked for in the folders that [`LIBRARIES_VARIABLE`] lists, then under
//! their names wherever the loader looks; wheels such as `nvidia-cublas-cu12` put them into folders of their own. Where no
//! folders are listed a toolkit's are looked into last: not every one of them tells the loader where it lies.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::super::context::Context;
use super::super::error::CudaError;
use crate::driver::{self, Activities, BlasLibrary, Fourier, FourierPlan, Refused};

/// Folders with NVIDIA's libraries, listed as in `PATH`, instead of a toolkit's; read when a library is first needed.
pub const LIBRARIES_VARIABLE: &str = "SPANLIFT_CUDA_LIBRARIES";

/// One of the libraries, by the names under which it installs itself, of the newest supported version first.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    library: &'static str,
    names: &'static [&'static str],
}

const CUBLAS: Wanted = Wanted {
    library: "cuBLAS",
    names: &["libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"],
};
const CUFFT: Wanted = Wanted {
    library: "cuFFT",
    names: &["libcufft.so.12", "libcufft.so.11", "libcufft.so.10", "libcufft.so"],
};

const CUPTI: Wanted =
    Wanted { library: "CUPTI", names: &["libcupti.so.13", "libcupti.so.12", "libcupti.so"] };

/// Where toolkits install themselves.
const TOOLKIT: &str = "/usr/local/cuda";
/// Where in a toolkit libraries lie.
const IN_TOOLKITS: [&str; 2] = ["lib64", "extras/CUPTI/lib64"];

impl Wanted {
    fn absent(self, why: String) -> CudaError {
        CudaError::NoLibrary { library: self.library, why }
    }

    /// Where to look, in order: folders that are listed, the loader's, and a toolkit's where none are.
    fn places(self, listed: Option<&OsStr>, toolkits: &[PathBuf]) -> Vec<OsString> {
        let within = |folder: &Path| {
            let places = self.names.iter().map(|name| folder.join(name));
            places.filter(|place| place.exists()).map(PathBuf::into_os_string).collect::<Vec<_>>()
        };
        let mut places: Vec<OsString> = Vec::new();
        for folder in std::env::split_paths(listed.unwrap_or_default()).filter(|f| f != Path::new("")) {
            places.extend(within(&folder));
        }
        places.extend(self.names.iter().map(OsString::from));
        for toolkit in toolkits.iter().filter(|_| listed.is_none()) {
            places.extend(IN_TOOLKITS.iter().flat_map(|folder| within(&toolkit.join(folder))));
        }
        places
    }

    /// The first that can be opened.
    fn open(self) -> Result<libloading::Library, CudaError> {
        let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
        let toolkits: Vec<PathBuf> = named.map(PathBuf::from).chain([PathBuf::from(TOOLKIT)]).collect();
        let places = self.places(std::env::var_os(LIBRARIES_VARIABLE).as_deref(), &toolkits);
        let mut reasons = Vec::new();
        for place in places {
            match driver::open(&place) {
                Ok(library) => return Ok(library),
                Err(why) => reasons.push(why),
            }
        }
        // The first name's reason stands for all: they differ in the name alone.
        let first = reasons.into_iter().next().unwrap_or_default();
        Err(self.absent(format!("{first}; {LIBRARIES_VARIABLE} names folders to look in")))
    }
}

/// A library that is opened once, by whoever needs it first; one that could not be is looked for again.
fn opened<L: Send + Sync + 'static>(
    found: &'static OnceLock<L>,
    wanted: Wanted,
    new: impl FnOnce(libloading::Library) -> Result<L, String>,
) -> Result<&'static L, CudaError> {
    if let Some(library) = found.get() {
        return Ok(library);
    }
    let library = new(wanted.open()?).map_err(|why| wanted.absent(why))?;
    Ok(found.get_or_init(|| library))
}

/// What a library keeps for one context. It ends when the work that may use it is done; where that is not known, as in a
/// context that is lost, it stays.
pub(super) struct Kept<H> {
    context: Context,
    /// Present until it is dropped.
    held: Option<H>,
}

impl<H> Kept<H> {
    fn new(context: &Context, new: impl FnOnce() -> Result<H, Refused>) -> Result<Kept<H>, CudaError> {
        context.bind()?;
        Ok(Kept { held: Some(new().map_err(refused)?), context: context.clone() })
    }

    /// For calls on it: its context is current.
    pub(super) fn get(&self) -> Result<&H, CudaError> {
        self.context.bind()?;
        self.held.as_ref().ok_or(CudaError::Argument("a library's handle that is gone"))
    }
}

impl<H> Drop for Kept<H> {
    fn drop(&mut self) {
        // Ends here, while the context is held.
        let held = self.held.take();
        if self.context.synchronize().is_err() {
            std::mem::forget(held);
        }
    }
}

/// cuBLAS in one context.
pub(super) type Blas = Kept<driver::Blas>;

/// A plan of cuFFT in one context.
pub(super) type Transforms = Kept<FourierPlan>;

pub(super) fn blas(context: &Context) -> Result<Blas, CudaError> {
    static FOUND: OnceLock<BlasLibrary> = OnceLock::new();
    let library = opened(&FOUND, CUBLAS, BlasLibrary::new)?;
    Kept::new(context, || driver::Blas::new(library))
}

/// `batch` transforms of these lengths, one behind the other.
pub(super) fn transforms(
    context: &Context,
    lens: &[i32],
    batch: i32,
    single: bool,
) -> Result<Transforms, CudaError> {
    static FOUND: OnceLock<Fourier> = OnceLock::new();
    let library = opened(&FOUND, CUFFT, Fourier::new)?;
    Kept::new(context, || FourierPlan::new(library, lens, batch, single))
}

/// CUPTI, which records what devices do.
pub(super) fn activities() -> Result<&'static Activities, CudaError> {
    static FOUND: OnceLock<&'static Activities> = OnceLock::new();
    opened(&FOUND, CUPTI, Activities::new).copied()
}

/// A library's status as an error.
pub(super) fn refused((call, status): Refused) -> CudaError {
    CudaError::Library { call, status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_folders_come_first_and_toolkits_last() {
        let own = std::env::temp_dir().join(format!("spanlift-libraries-{}", std::process::id()));
        let (listed, toolkit) = (own.join("listed"), own.join("toolkit"));
        let make = |folder: &Path, name: &str| {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(name), b"").unwrap();
            folder.join(name).into_os_string()
        };
        let first = make(&listed, "libcupti.so.12");
        let last = make(&toolkit.join("extras/CUPTI/lib64"), "libcupti.so.13");
        let cublas = make(&toolkit.join("lib64"), "libcublas.so.13");
        let loaders = |wanted: Wanted| wanted.names.iter().map(OsString::from).collect::<Vec<_>>();
        let toolkits = [own.join("none"), toolkit];
        let places = |wanted: Wanted, listed: Option<&OsStr>| wanted.places(listed, &toolkits);
        assert_eq!(places(CUPTI, None), [loaders(CUPTI), vec![last]].concat());
        assert_eq!(places(CUPTI, Some(listed.as_os_str())), [vec![first], loaders(CUPTI)].concat());
        // Who lists none wants none.
        assert_eq!(places(CUPTI, Some(OsStr::new(""))), loaders(CUPTI));
        assert_eq!(places(CUBLAS, None), [loaders(CUBLAS), vec![cublas]].concat());
        std::fs::remove_dir_all(own).unwrap();
    }
}
