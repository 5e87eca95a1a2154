//! Stand-ins for cuBLAS and cuFFT: the entry points that spanlift calls, each as work of a stream whose accesses count like
//! those of a kernel. Under the names of the libraries (links to this object) a loader finds them as it finds the real ones.
//!
//! Matrices lie as cuBLAS documents it, columns first, `ld` elements from one column to the next; transforms one behind the
//! other, without scale. Sums are made in double precision. Arguments that the documentation refuses are refused.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use super::engine;
use crate::kernel::Stop;
use crate::kernel::rust::Launch;

/// `CUBLAS_STATUS_NOT_INITIALIZED`
const NO_HANDLE: c_int = 1;
/// `CUBLAS_STATUS_INVALID_VALUE`
const INVALID_VALUE: c_int = 7;
/// `CUBLAS_STATUS_EXECUTION_FAILED`
const FAILED: c_int = 13;
/// `CUFFT_INVALID_PLAN`
const NO_PLAN: c_int = 1;
/// `CUFFT_ALLOC_FAILED`
const NO_ROOM: c_int = 2;
/// `CUFFT_INVALID_VALUE`
const INVALID_TRANSFORM: c_int = 4;
/// `CUFFT_EXEC_FAILED`
const TRANSFORM_FAILED: c_int = 6;

/// A complex number.
type Z = (f64, f64);

/// Bytes of a component, and components of an element.
#[derive(Debug, Clone, Copy)]
struct Type {
    component: u64,
    parts: u64,
}

impl Type {
    /// From its number: 0 to 3 for f32, f64, c32, c64.
    fn of(number: u64) -> Type {
        Type { component: if number.is_multiple_of(2) { 4 } else { 8 }, parts: 1 + number / 2 }
    }

    fn bytes(self) -> u64 {
        self.component * self.parts
    }

    fn read(self, launch: &Launch<'_>, at: u64) -> Result<Z, Stop> {
        let n = usize::try_from(self.parts).unwrap_or(1);
        let parts: Vec<f64> = match self.component {
            4 => launch.read::<f32>(at, n)?.into_iter().map(f64::from).collect(),
            _ => launch.read::<f64>(at, n)?,
        };
        Ok((parts[0], parts.get(1).copied().unwrap_or(0.0)))
    }

    fn write(self, launch: &Launch<'_>, at: u64, (re, im): Z) -> Result<(), Stop> {
        let parts = &[re, im][..usize::try_from(self.parts).unwrap_or(1)];
        #[expect(clippy::cast_possible_truncation, reason = "rounding to the type of the result")]
        let single = |v: &f64| *v as f32;
        match self.component {
            4 => launch.write(at, &parts.iter().map(single).collect::<Vec<f32>>()),
            _ => launch.write(at, parts),
        }
    }
}

fn times(a: Z, b: Z) -> Z {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn words(launch: &Launch<'_>) -> Vec<u64> {
    let bytes = launch.arg_bytes(0).chunks_exact(8);
    bytes.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

// -- cuBLAS -----------------------------------------------------------------------------------------------------------

/// `CUBLAS_STATUS_ALLOC_FAILED`
const NO_MEMORY: c_int = 3;

/// What cuBLAS keeps for a context.
#[derive(Debug, Clone, Copy)]
struct Handle {
    /// The device whose context was current when it was made, and is to be at each call.
    device: i32,
    stream: u64,
    /// Memory of the device that every product writes. Real handles have areas for several streams, and add up in another order
    /// where these are used at a time: "one handle per stream" is what their documentation asks for the same bits every time.
    /// Here, where that is not so, two products at a time are a race.
    work: u64,
}

static HANDLES: Mutex<BTreeMap<u64, Handle>> = Mutex::new(BTreeMap::new());

fn handles() -> std::sync::MutexGuard<'static, BTreeMap<u64, Handle>> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: the name is cuBLAS's, on purpose; the object that carries it is loaded by tests alone.
#[unsafe(no_mangle)]
unsafe extern "C" fn cublasCreate_v2(handle: *mut *mut c_void) -> c_int {
    if handle.is_null() {
        return INVALID_VALUE;
    }
    let Ok(device) = engine().current_device() else { return NO_HANDLE };
    let Ok(work) = engine().alloc(8) else { return NO_MEMORY };
    let mut handles = handles();
    let number = handles.keys().next_back().map_or(0x1000, |last| last + 16);
    handles.insert(number, Handle { device, stream: 0, work });
    // SAFETY: not null, and then it points to room for a handle.
    unsafe { handle.write(std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0))) };
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cublasDestroy_v2(handle: *mut c_void) -> c_int {
    match handles().remove(&(handle.addr() as u64)) {
        Some(handle) => engine().free(handle.work).map_or(FAILED, |()| 0),
        None => NO_HANDLE,
    }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cublasSetStream_v2(handle: *mut c_void, stream: *mut c_void) -> c_int {
    match handles().get_mut(&(handle.addr() as u64)) {
        Some(of) => {
            of.stream = stream.addr() as u64;
            0
        }
        None => NO_HANDLE,
    }
}

/// `C = alpha op(A) op(B) + beta C` for each matrix of a batch, from the words that [`product`] puts together.
fn multiply(launch: &Launch<'_>) -> Result<(), Stop> {
    let w = words(launch);
    let ty = Type::of(w[0]);
    let (turn_a, turn_b, m, n, k, batch) = (w[1], w[2], w[3], w[4], w[5], w[6]);
    let factor = |at: usize| (f64::from_bits(w[at]), f64::from_bits(w[at + 1]));
    let (alpha, beta) = (factor(7), factor(9));
    let [a, b, c] = [11, 14, 17].map(|at| (w[at], w[at + 1], w[at + 2]));
    launch.write(w[20], &[batch])?;
    // Row and column of what is stored, in the matrix of a batch.
    let at = |(base, ld, apart): (u64, u64, u64), row: u64, column: u64, which: u64| {
        base.wrapping_add(which.wrapping_mul(apart).wrapping_add(row + column * ld).wrapping_mul(ty.bytes()))
    };
    let turned = |matrix, turn: u64, row, column, which| {
        let place = if turn == 0 { at(matrix, row, column, which) } else { at(matrix, column, row, which) };
        ty.read(launch, place).map(|(re, im)| if turn == 2 { (re, -im) } else { (re, im) })
    };
    for which in 0..batch {
        for (column, row) in (0..n).flat_map(|column| (0..m).map(move |row| (column, row))) {
            let mut sum = (0.0, 0.0);
            for p in 0..k {
                let product = times(turned(a, turn_a, row, p, which)?, turned(b, turn_b, p, column, which)?);
                sum = (sum.0 + product.0, sum.1 + product.1);
            }
            sum = times(alpha, sum);
            if beta != (0.0, 0.0) {
                let old = times(beta, ty.read(launch, at(c, row, column, which))?);
                sum = (sum.0 + old.0, sum.1 + old.1);
            }
            ty.write(launch, at(c, row, column, which), sum)?;
        }
    }
    Ok(())
}

/// A factor of a type, real part first.
///
/// # Safety
/// `at` points to a number of the type.
unsafe fn factor(at: *const c_void, number: u64) -> Z {
    match number {
        // SAFETY: the caller's promise, for a number of four bytes.
        0 => (f64::from(unsafe { at.cast::<f32>().read_unaligned() }), 0.0),
        // SAFETY: the caller's promise, for a number of eight bytes.
        1 => (unsafe { at.cast::<f64>().read_unaligned() }, 0.0),
        2 => {
            // SAFETY: the caller's promise, for a pair of numbers of four bytes.
            let [re, im] = unsafe { at.cast::<[f32; 2]>().read_unaligned() };
            (f64::from(re), f64::from(im))
        }
        _ => {
            // SAFETY: the caller's promise, for a pair of numbers of eight bytes.
            let [re, im] = unsafe { at.cast::<[f64; 2]>().read_unaligned() };
            (re, im)
        }
    }
}

macro_rules! products {
    ($($name:ident: $number:literal;)*) => {$(
        // SAFETY: the name is cuBLAS's, on purpose; the object that carries it is loaded by tests alone.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            handle: *mut c_void, turn_a: c_int, turn_b: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void,
            a: u64, lda: c_int, apart_a: i64, b: u64, ldb: c_int, apart_b: i64, beta: *const c_void, c: u64, ldc: c_int,
            apart_c: i64, batch: c_int,
        ) -> c_int {
            let Some(of) = handles().get(&(handle.addr() as u64)).copied() else { return NO_HANDLE };
            // A real one reads a number at once, and the process ends where it lies across its alignment.
            let is_apart = |at: *const c_void| !(at.addr() as u64).is_multiple_of(Type::of($number).bytes());
            if alpha.is_null() || beta.is_null() || is_apart(alpha) || is_apart(beta) {
                return INVALID_VALUE;
            }
            // SAFETY: not null; by the documentation they point to numbers of the type that the name says.
            let factors = unsafe { [factor(alpha, $number), factor(beta, $number)] };
            let turns = [turn_a, turn_b];
            let matrices = [(a, lda, apart_a), (b, ldb, apart_b), (c, ldc, apart_c)];
            product(stringify!($name), ($number, of), turns, [m, n, k, batch], factors, matrices)
        }
    )*};
}

products! {
    cublasSgemmStridedBatched: 0;
    cublasDgemmStridedBatched: 1;
    cublasCgemmStridedBatched: 2;
    cublasZgemmStridedBatched: 3;
}

fn product(
    call: &'static str,
    (number, of): (u64, Handle),
    turns: [c_int; 2],
    sizes: [c_int; 4],
    factors: [Z; 2],
    matrices: [(u64, c_int, i64); 3],
) -> c_int {
    let [m, n, k, _] = sizes;
    // What is stored has so many rows, and no fewer to the next column.
    let rows = [if turns[0] == 0 { m } else { k }, if turns[1] == 0 { k } else { n }, m];
    let fits = matrices.iter().zip(rows).all(|(matrix, rows)| rows.max(1) <= matrix.1);
    if !fits || sizes.iter().any(|n| *n < 0) || turns.iter().any(|turn| !(0..=2).contains(turn)) {
        return INVALID_VALUE;
    }
    // Of another device's context, or elements across their alignment: a real one fails at best.
    let is_apart = matrices.iter().any(|matrix| !matrix.0.is_multiple_of(Type::of(number).bytes()));
    if engine().current_device() != Ok(of.device) || is_apart {
        return FAILED;
    }
    let mut words = vec![number];
    words.extend(turns.iter().chain(&sizes).map(|n| u64::from(n.unsigned_abs())));
    words.extend(factors.iter().flat_map(|(re, im)| [re.to_bits(), im.to_bits()]));
    words.extend(
        matrices
            .iter()
            .flat_map(|(at, ld, apart)| [*at, u64::from(ld.unsigned_abs()), apart.cast_unsigned()]),
    );
    words.push(of.work);
    let args = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    engine().library(call, multiply, args, of.stream).map_or(FAILED, |()| 0)
}

// -- cuFFT ------------------------------------------------------------------------------------------------------------

/// Transforms of up to three dimensions, one behind the other.
#[derive(Debug, Clone)]
struct Plan {
    /// As of a [`Handle`].
    device: i32,
    lens: Vec<u64>,
    batch: u64,
    single: bool,
    stream: u64,
    /// Memory of the device that every transform writes: two at a time of one plan are a race, as they would be of a real one.
    work: u64,
}

static PLANS: Mutex<BTreeMap<c_int, Plan>> = Mutex::new(BTreeMap::new());

fn plans() -> std::sync::MutexGuard<'static, BTreeMap<c_int, Plan>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: the name is cuFFT's, on purpose; the object that carries it is loaded by tests alone.
#[unsafe(no_mangle)]
unsafe extern "C" fn cufftPlanMany(
    plan: *mut c_int,
    rank: c_int,
    n: *mut c_int,
    inembed: *mut c_int,
    _istride: c_int,
    _idist: c_int,
    onembed: *mut c_int,
    _ostride: c_int,
    _odist: c_int,
    kind: c_int,
    batch: c_int,
) -> c_int {
    // Layouts of one's own and other kinds of transforms are not modelled.
    let is_known = inembed.is_null() && onembed.is_null() && [0x29, 0x69].contains(&kind);
    let rank = usize::try_from(rank).unwrap_or(0);
    if plan.is_null() || n.is_null() || !(1..=3).contains(&rank) || batch < 1 || !is_known {
        return INVALID_TRANSFORM;
    }
    // SAFETY: not null, and by the documentation it points to `rank` lengths.
    let lens = unsafe { std::slice::from_raw_parts(n, rank) };
    if lens.iter().any(|n| *n < 1) {
        return INVALID_TRANSFORM;
    }
    let lens = lens.iter().map(|n| u64::from(n.unsigned_abs())).collect();
    let Ok(device) = engine().current_device() else { return NO_ROOM };
    let Ok(work) = engine().alloc(8) else { return NO_ROOM };
    let mut plans = plans();
    let number = plans.keys().next_back().map_or(1, |last| last + 1);
    let batch = u64::from(batch.unsigned_abs());
    plans.insert(number, Plan { device, lens, batch, single: kind == 0x29, stream: 0, work });
    // SAFETY: not null, and then it points to room for a plan.
    unsafe { plan.write(number) };
    0
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cufftSetStream(plan: c_int, stream: *mut c_void) -> c_int {
    match plans().get_mut(&plan) {
        Some(of) => {
            of.stream = stream.addr() as u64;
            0
        }
        None => NO_PLAN,
    }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cufftDestroy(plan: c_int) -> c_int {
    match plans().remove(&plan) {
        Some(plan) => engine().free(plan.work).map_or(TRANSFORM_FAILED, |()| 0),
        None => NO_PLAN,
    }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cufftExecC2C(plan: c_int, from: u64, to: u64, direction: c_int) -> c_int {
    transform("cufftExecC2C", true, plan, [from, to], direction)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cufftExecZ2Z(plan: c_int, from: u64, to: u64, direction: c_int) -> c_int {
    transform("cufftExecZ2Z", false, plan, [from, to], direction)
}

fn transform(call: &'static str, single: bool, plan: c_int, [from, to]: [u64; 2], direction: c_int) -> c_int {
    let Some(plan) = plans().get(&plan).filter(|plan| plan.single == single).cloned() else { return NO_PLAN };
    let is_apart = [from, to].iter().any(|at| !at.is_multiple_of(if single { 8 } else { 16 }));
    if ![-1, 1].contains(&direction) || is_apart {
        return INVALID_TRANSFORM;
    }
    if engine().current_device() != Ok(plan.device) {
        return TRANSFORM_FAILED;
    }
    let mut words = vec![from, to, u64::from(single), u64::from(direction == 1), plan.batch, plan.work];
    words.extend(&plan.lens);
    let args = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    engine().library(call, spectrum, args, plan.stream).map_or(TRANSFORM_FAILED, |()| 0)
}

/// `y_k = sum_j x_j exp(-+ 2 pi i <j, k/n>)`, one dimension after the other, by the definition.
fn spectrum(launch: &Launch<'_>) -> Result<(), Stop> {
    let w = words(launch);
    let (ty, sign) = (Type::of(if w[2] == 1 { 2 } else { 3 }), if w[3] == 1 { 1.0 } else { -1.0 });
    launch.write(w[5], &[w[4]])?;
    let lens: Vec<usize> = w[6..].iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
    let n: usize = lens.iter().product();
    for which in 0..w[4] {
        let place = |base: u64, k: usize| base + (which * n as u64 + k as u64) * ty.bytes();
        let mut data = (0..n).map(|k| ty.read(launch, place(w[0], k))).collect::<Result<Vec<Z>, Stop>>()?;
        for (axis, &len) in lens.iter().enumerate() {
            let stride: usize = lens[axis + 1..].iter().product();
            let before = data.clone();
            for (at, value) in data.iter_mut().enumerate() {
                let (k, first) = (at / stride % len, at - at / stride % len * stride);
                *value = (0..len).fold((0.0, 0.0), |sum, j| {
                    #[expect(clippy::cast_precision_loss, reason = "lengths of tests")]
                    let angle = sign * std::f64::consts::TAU * ((j * k) % len) as f64 / len as f64;
                    let term = times(before[first + j * stride], (angle.cos(), angle.sin()));
                    (sum.0 + term.0, sum.1 + term.1)
                });
            }
        }
        for (k, value) in data.into_iter().enumerate() {
            ty.write(launch, place(w[1], k), value)?;
        }
    }
    Ok(())
}
