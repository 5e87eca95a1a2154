//! The numbers that kernels work on.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Mul, MulAssign};

use bytemuck::Pod;
use num_complex::{Complex, Complex64};
use rustfft::FftNum;
use spanlift::memory::Dtype;

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A real type of numbers: `f32` or `f64`.
pub trait Real: Element<Real = Self> + FftNum {}

/// An element of a space: a real number or a pair of them.
pub trait Element:
    Pod
    + Debug
    + Default
    + Send
    + Sync
    + Add<Output = Self>
    + AddAssign
    + Mul<Output = Self>
    + MulAssign
    + PartialEq
    + Sealed
{
    /// What its parts are.
    type Real: Real;
    /// What programs call it.
    const DTYPE: Dtype;

    /// The nearest one; a real type drops the imaginary part.
    fn of(z: Complex64) -> Self;

    /// The same number in double precision.
    fn wide(self) -> Complex64;

    /// Its conjugate.
    fn conj(self) -> Self;
}

macro_rules! real {
    ($real:ty, $dtype:ident, $complex:ident) => {
        impl Sealed for $real {}
        impl Sealed for Complex<$real> {}
        impl Real for $real {}

        impl Element for $real {
            type Real = $real;
            const DTYPE: Dtype = Dtype::$dtype;

            fn of(z: Complex64) -> $real {
                narrow::$dtype(z.re)
            }

            fn wide(self) -> Complex64 {
                Complex64::from(f64::from(self))
            }

            #[inline(always)]
            fn conj(self) -> $real {
                self
            }
        }

        impl Element for Complex<$real> {
            type Real = $real;
            const DTYPE: Dtype = Dtype::$complex;

            fn of(z: Complex64) -> Complex<$real> {
                Complex::new(narrow::$dtype(z.re), narrow::$dtype(z.im))
            }

            fn wide(self) -> Complex64 {
                Complex64::new(f64::from(self.re), f64::from(self.im))
            }

            #[inline(always)]
            fn conj(self) -> Complex<$real> {
                Complex::conj(&self)
            }
        }
    };
}
real!(f32, F32, C32);
real!(f64, F64, C64);

#[expect(non_snake_case, reason = "named as the types of elements are")]
mod narrow {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the narrower type is what is asked for")]
    pub(super) fn F32(v: f64) -> f32 {
        v as f32
    }

    pub(super) fn F64(v: f64) -> f64 {
        v
    }
}

/// A buffer of real numbers as the elements that it holds.
pub(super) fn elements<E: Element>(data: &[E::Real]) -> &[E] {
    bytemuck::cast_slice(data)
}

/// The same for writing.
pub(super) fn elements_mut<E: Element>(data: &mut [E::Real]) -> &mut [E] {
    bytemuck::cast_slice_mut(data)
}

/// A buffer of real numbers as complex ones.
pub(super) fn pairs<R: Real>(data: &[R]) -> &[Complex<R>] {
    bytemuck::cast_slice(data)
}

/// The same for writing.
pub(super) fn pairs_mut<R: Real>(data: &mut [R]) -> &mut [Complex<R>] {
    bytemuck::cast_slice_mut(data)
}
