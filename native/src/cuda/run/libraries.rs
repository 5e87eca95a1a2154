//! cuBLAS and cuFFT, found at run time by whoever needs them first.
//!
//! Nothing of them is needed to build. They are looked for in the folders that [`LIBRARIES_VARIABLE`] lists, then under
//! their names wherever the loader looks; wheels such as `nvidia-cublas-cu12` put them into folders of their own.

use std::ffi::OsString;
use std::path::Path;
use std::rc::Rc;

use super::super::context::Context;
use super::super::error::CudaError;
use crate::driver::{self, Fourier, FourierPlan, Refused};

/// Folders with NVIDIA's libraries, listed as in `PATH`.
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

impl Wanted {
    fn absent(self, why: String) -> CudaError {
        CudaError::NoLibrary { library: self.library, why }
    }

    /// The first that can be opened.
    fn open(self) -> Result<libloading::Library, CudaError> {
        let mut places: Vec<OsString> = Vec::new();
        let folders = std::env::var_os(LIBRARIES_VARIABLE).unwrap_or_default();
        for folder in std::env::split_paths(&folders).filter(|folder| folder != Path::new("")) {
            places.extend(self.names.iter().map(|name| folder.join(name).into_os_string()));
        }
        places.retain(|place| Path::new(place).exists());
        places.extend(self.names.iter().map(OsString::from));
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

/// cuBLAS in one context.
pub(super) struct Blas {
    context: Context,
    handle: Option<driver::Blas>,
}

impl Blas {
    pub(super) fn open(context: &Context) -> Result<Blas, CudaError> {
        let library = CUBLAS.open()?;
        context.calls()?;
        context.bind()?;
        let handle = driver::Blas::new(library).map_err(|why| CUBLAS.absent(why))?;
        Ok(Blas { context: context.clone(), handle: Some(handle) })
    }

    pub(super) fn handle(&self) -> Result<&driver::Blas, CudaError> {
        self.context.calls()?;
        self.context.bind()?;
        self.handle.as_ref().ok_or(CudaError::Argument("cuBLAS without a handle"))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        let is_current = self.context.lost().is_none() && self.context.bind().is_ok();
        match self.handle.take() {
            Some(handle) if !is_current => std::mem::forget(handle),
            _ => {}
        }
    }
}

/// A plan of cuFFT in one context.
pub(super) struct Transforms {
    context: Context,
    plan: Option<FourierPlan>,
}

/// cuFFT, opened.
pub(super) fn fourier() -> Result<Rc<Fourier>, CudaError> {
    Fourier::new(CUFFT.open()?).map(Rc::new).map_err(|why| CUFFT.absent(why))
}

impl Transforms {
    pub(super) fn new(
        context: &Context,
        fourier: &Rc<Fourier>,
        lens: &[i32],
        batch: i32,
        single: bool,
    ) -> Result<Transforms, CudaError> {
        context.calls()?;
        context.bind()?;
        let plan = FourierPlan::new(fourier, lens, batch, single).map_err(refused)?;
        Ok(Transforms { context: context.clone(), plan: Some(plan) })
    }

    pub(super) fn plan(&self) -> Result<&FourierPlan, CudaError> {
        self.context.calls()?;
        self.context.bind()?;
        self.plan.as_ref().ok_or(CudaError::Argument("cuFFT without a plan"))
    }
}

impl Drop for Transforms {
    fn drop(&mut self) {
        let is_current = self.context.lost().is_none() && self.context.bind().is_ok();
        match self.plan.take() {
            Some(plan) if !is_current => std::mem::forget(plan),
            _ => {}
        }
    }
}

/// A library's status as an error.
pub(super) fn refused((call, status): Refused) -> CudaError {
    CudaError::Library { call, status }
}
