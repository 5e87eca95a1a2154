//! Elements as bytes and as numbers that a program can say.

use num_complex::Complex;

use crate::memory::{Dtype, Element};
use crate::program::Contents;

/// An element that simulated memory holds: integers and numbers of tensors, real and complex.
///
/// It is implemented for those types and no others, since their bytes have to be the same on every machine.
pub trait Value: Element + PartialEq + 'static + bytes::AsBytes {}

pub(super) mod bytes {
    /// A value's little-endian bytes.
    pub trait AsBytes: Sized {
        /// What new memory holds.
        const ZERO: Self;
        /// Appends the bytes.
        fn put(self, out: &mut Vec<u8>);
        /// The value of as many bytes as it has.
        fn get(bytes: &[u8]) -> Self;
        /// As a number from which the same bytes come, where a program can say one.
        fn number(self) -> Option<f64>;
    }
}

use bytes::AsBytes;

/// A number that every form of a program says and that comes back as it was.
fn sayable(number: f64) -> Option<f64> {
    (number.is_finite() && !(number == 0.0 && number.is_sign_negative())).then_some(number)
}

macro_rules! values {
    ($($type:ty: $zero:expr, $number:expr;)*) => {
        $(impl AsBytes for $type {
            const ZERO: $type = $zero;

            fn put(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> $type {
                bytes.first_chunk().map_or($zero, |bytes| <$type>::from_le_bytes(*bytes))
            }

            fn number(self) -> Option<f64> {
                $number(self)
            }
        }

        impl Value for $type {})*
    };
}

values! {
    u8: 0, |v| Some(f64::from(v));
    i8: 0, |v| Some(f64::from(v));
    i16: 0, |v| Some(f64::from(v));
    i32: 0, |v| Some(f64::from(v));
    i64: 0, |v: i64| (v.unsigned_abs() <= 1 << 53).then_some(v as f64);
    f32: 0.0, |v| sayable(f64::from(v));
    f64: 0.0, sayable;
}

macro_rules! complex {
    ($($part:ty),*) => {
        $(impl AsBytes for Complex<$part> {
            const ZERO: Self = Complex::new(0.0, 0.0);

            fn put(self, out: &mut Vec<u8>) {
                self.re.put(out);
                self.im.put(out);
            }

            fn get(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(bytes.len() / 2);
                Complex::new(<$part>::get(re), <$part>::get(im))
            }

            fn number(self) -> Option<f64> {
                // A program says the real part alone, and 0 besides.
                (self.im.to_bits() == 0).then(|| self.re.number()).flatten()
            }
        }

        impl Value for Complex<$part> {})*
    };
}

complex!(f32, f64);

/// What a program says of a buffer with these elements, of which there are some: numbers where it can, else bytes.
pub(super) fn contents<T: Value>(elements: &[T]) -> Contents {
    let numbers: Option<Vec<f64>> = elements.iter().map(|v| v.number()).collect();
    let (dtype, numbers) = numbers.map_or_else(
        || (Dtype::U8, encoded(elements).into_iter().map(f64::from).collect()),
        |numbers| (T::DTYPE, numbers),
    );
    match numbers[..] {
        [first, ref rest @ ..] if rest.iter().all(|v| *v == first) => Contents::fill(dtype, first),
        _ => Contents::values(dtype, numbers),
    }
}

/// The bytes of elements.
fn encoded<T: Value>(elements: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(elements));
    elements.iter().for_each(|v| v.put(&mut bytes));
    bytes
}

/// The elements that bytes are.
pub(super) fn decoded<T: Value>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(T::get).collect()
}
