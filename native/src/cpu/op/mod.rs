//! Operators on host memory: a plan that is made once, and applies that allocate nothing.
//!
//! A [`Runner`] holds kernels for one real type with everything they need: weights in the order in which they are read,
//! tables of what moves where, Fourier transforms with their twiddle factors. What changes during an apply is in a
//! [`Workspace`], so that threads share the runner and each has a workspace of its own.
//!
//! | of the expression | here |
//! |---|---|
//! | diagonals, factors, identities in a row, and sums of such chains | one pass: eight elements go through all weights in registers |
//! | a matrix of 4,096 weights or more | its weights are in memory once for all its sides: an adjoint adds up rows |
//! | matrices, diagonals and factors in a row, all of at most four elements | one step, with what is between them in registers |
//! | a transform, weights, the inverse transform | the last pass of the first, the weights and the first pass of the second are one |
//! | transforms, element-wise chains | in place where their input is not needed any more |
//! | movements | runs at equal distances; renaming and reshaping cost nothing |
//! | differences, convolutions | one run for each diagonal of the matrix |
//! | samples, interpolation | rows of places and weights |
//! | vertical joins along the first dimension | parts write where their result belongs |
//! | `ToDevice` | nothing: all devices are this machine's memory here |
//! | a leaf of the user's | its reference, in double precision |
//!
//! The same terms are added in the same order as by the reference evaluator wherever that is written down (sums, fixed
//! trees, points), but each kernel rounds to its type as it goes and may add in parts: the largest difference from
//! [`Operator::apply`](spanlift::op::Operator::apply) stays below `64 eps` times the largest element that comes up on the
//! way. Element-wise chains on real types have the same bits.

mod fourier;
mod halves;
mod into;
mod kernel;
mod lower;
mod matrix;
mod place;
mod product;
mod real;
mod short;
mod solving;
mod table;

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use num_complex::{Complex, Complex64};
use spanlift::Bytes;
use spanlift::memory::Dtype;
use spanlift::op::{Array, OpError, Operator, Space};

use crate::processor as wide;
use kernel::{Kernel, Scratch};
use lower::Steps;
use place::{Home, Places};
pub use real::{Element, Real};
pub use solving::Solving;

/// Why an operator has no runner, or cannot be applied.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// A space of another precision than the runner.
    #[error("`{operator}` works on {space}, which a runner for {real} does not hold{}", other_runner(space))]
    Precision {
        /// The operator.
        operator: String,
        /// The space.
        space: Box<Space>,
        /// What the runner is for.
        real: Dtype,
    },
    /// A side that has more elements than tables count.
    #[error("`{operator}` has {elements} elements between its parts, at most {} are handled", u32::MAX)]
    TooLarge {
        /// The operator.
        operator: String,
        /// How many.
        elements: i64,
    },
    /// Other values than the operator reads or writes.
    #[error("`{operator}` {verb} {n} elements of {dtype}, given are {given} of {given_dtype}")]
    Values {
        /// The operator.
        operator: String,
        /// Whether it reads or writes them.
        verb: &'static str,
        /// How many it wants.
        n: i64,
        /// Of which type.
        dtype: Dtype,
        /// How many there are.
        given: usize,
        /// Of which type.
        given_dtype: Dtype,
    },
    /// A workspace of another runner.
    #[error(
        "this workspace was made for `{of}` by another runner than this one of `{operator}`; take one from its `workspace()`"
    )]
    Workspace {
        /// The operator of the runner.
        operator: String,
        /// The operator that the workspace was made for.
        of: String,
    },
    /// What the reference evaluator refuses too.
    #[error(transparent)]
    Operator(#[from] OpError),
}

readable!(RunnerError);

/// The runner that holds a space, for messages.
fn other_runner(space: &Space) -> &'static str {
    match space.dtype() {
        Dtype::F32 | Dtype::C32 => "; `Runner::<f32>` does",
        Dtype::F64 | Dtype::C64 => "; `Runner::<f64>` does",
        _ => "",
    }
}

/// An operator ready to be applied to memory of this machine, in the precision of `R`.
///
/// Elements are `R` where a space is real and `Complex<R>` where it is complex. Whatever device a space names, its memory
/// is that of the host.
///
/// # Examples
/// ```
/// use spanlift::chain;
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Diagonal, Space, fft};
/// use spanlift_native::cpu::Runner;
/// use num_complex::Complex;
///
/// let line = Space::new([("x", 4)], Dtype::C32)?;
/// let mask = Diagonal::new(Space::new([("kx", 4)], Dtype::C32)?, [1.0, 0.0, 0.0, 0.0])?;
/// let a = chain![fft(["x"]).over(&line)?, mask]?.normal();
///
/// let runner = Runner::<f32>::new(&a)?;
/// let mut workspace = runner.workspace();
/// let x: Vec<Complex<f32>> = [1.0_f32, 2.0, 3.0, 6.0].map(Complex::from).into();
/// let mut y = vec![Complex::<f32>::ZERO; 4];
/// runner.apply(&x, &mut y, &mut workspace)?; // the mean, and nothing is allocated
/// assert!(y.iter().all(|v| (v - 3.0).norm() < 1e-6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Runner<R: Real> {
    id: u64,
    operator: Operator,
    steps: Vec<Placed<R>>,
    /// The lengths of the buffers between steps.
    slots: Vec<usize>,
    scratch: (usize, usize),
    sides: [(usize, Dtype); 2],
    /// The runner of the adjoint, planned when it is first asked for.
    adjoint: OnceLock<Box<Runner<R>>>,
}

/// What one thread needs to apply a [`Runner`].
#[derive(Debug, Clone)]
pub struct Workspace<R> {
    of: u64,
    made_for: Operator,
    /// A result on its way to being added; empty until it is needed.
    extra: Vec<R>,
    /// The buffers between steps, one after the other.
    between: Vec<R>,
    scratch: Scratch<R>,
    /// That of the adjoint's runner, once it was needed.
    adjoint: Option<Box<Workspace<R>>>,
}

/// A step whose buffers have places.
struct Placed<R> {
    kernel: Box<dyn Kernel<R>>,
    homes: (Home, Home),
    reads: Range<usize>,
    writes: Range<usize>,
}

impl<R: Real> fmt::Debug for Runner<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("operator", &self.operator.to_string())
            .field("steps", &self.steps.len())
            .field("temporaries", &self.temporaries())
            .field("workspace", &self.workspace_bytes())
            .finish()
    }
}

impl<R: Real> Runner<R>
where
    Complex<R>: Element<Real = R>,
{
    /// Plans an operator.
    ///
    /// # Errors
    /// [`RunnerError::Precision`] for a space of another precision, [`RunnerError::TooLarge`] beyond `u32::MAX` elements.
    ///
    /// # Cost
    /// Every weight is copied once; tables of movements grow with the elements that do not lie at equal distances.
    pub fn new(operator: &Operator) -> Result<Runner<R>, RunnerError> {
        check::<R>(operator)?;
        let Steps { steps, lens, .. } = Steps::<R>::of(operator);
        let places = Places::find(&steps, &lens);
        let needs = steps.iter().map(|step| step.kernel.scratch());
        let scratch = needs.fold((0, 0), |all, need| (all.0.max(need.0), all.1.max(need.1)));
        let placed = steps.into_iter().map(|step| {
            let ((from, reads), (to, writes)) = (places.of(step.reads), places.of(step.writes));
            Placed { kernel: step.kernel, homes: (from, to), reads, writes }
        });
        let side = |space: &Space| (lower::len(space.elements()), space.dtype());
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Runner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            steps: placed.collect(),
            slots: places.slots,
            scratch,
            sides: [side(operator.domain()), side(operator.codomain())],
            operator: operator.clone(),
            adjoint: OnceLock::new(),
        })
    }
}

/// Refuses spaces of another precision, or with more elements than tables count, anywhere in the expression.
fn check<R: Real>(a: &Operator) -> Result<(), RunnerError> {
    for space in [a.domain(), a.codomain()] {
        let real = match space.dtype() {
            Dtype::F32 | Dtype::C32 => Dtype::F32,
            _ => Dtype::F64,
        };
        if real != R::DTYPE {
            let (operator, space) = (a.formula(), Box::new(space.clone()));
            return Err(RunnerError::Precision { operator, space, real: R::DTYPE });
        }
        if space.elements() > i64::from(u32::MAX) {
            return Err(RunnerError::TooLarge { operator: a.formula(), elements: space.elements() });
        }
    }
    a.children().iter().try_for_each(check::<R>)
}

impl<R: Real> Runner<R> {
    /// The operator.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Memory for applies by one thread at a time.
    pub fn workspace(&self) -> Workspace<R> {
        let zeros = |n: usize| vec![R::zero(); n];
        let scratch = Scratch { reals: zeros(self.scratch.0), wide: vec![Complex64::ZERO; self.scratch.1] };
        let between = zeros(self.slots.iter().sum());
        Workspace {
            of: self.id,
            made_for: self.operator.clone(),
            extra: Vec::new(),
            between,
            scratch,
            adjoint: None,
        }
    }

    /// How many kernels an apply runs.
    pub fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// The buffers between steps, each as long as the largest vector that it ever holds.
    pub fn temporaries(&self) -> Vec<Bytes> {
        self.slots.iter().map(|n| Bytes((n * size_of::<R>()) as u64)).collect()
    }

    /// What a workspace holds: temporaries, and the scratch of the kernel that needs most.
    pub fn workspace_bytes(&self) -> Bytes {
        let reals = self.slots.iter().sum::<usize>() + self.scratch.0;
        Bytes((reals * size_of::<R>() + self.scratch.1 * size_of::<Complex64>()) as u64)
    }

    /// `y = A x`; `y` is overwritten and never read.
    ///
    /// # Errors
    /// [`RunnerError::Values`] for other lengths or types than those of the operator, [`RunnerError::Workspace`] for a
    /// workspace of another runner.
    ///
    /// # Panics
    /// When a leaf of the user's panics.
    ///
    /// # Cost
    /// No allocation. Large steps run on all threads of the current rayon pool, which allocates a little now and then when it
    /// is called from outside.
    pub fn apply<X: Element<Real = R>, Y: Element<Real = R>>(
        &self,
        x: &[X],
        y: &mut [Y],
        workspace: &mut Workspace<R>,
    ) -> Result<(), RunnerError> {
        self.check(x, y, workspace)?;
        self.run(bytemuck::cast_slice(x), bytemuck::cast_slice_mut(y), workspace);
        Ok(())
    }

    /// Refuses vectors and workspaces that do not belong to this runner.
    #[inline]
    fn check<X: Element, Y: Element>(
        &self,
        x: &[X],
        y: &[Y],
        workspace: &Workspace<R>,
    ) -> Result<(), RunnerError> {
        let fits = [(x.len(), X::DTYPE), (y.len(), Y::DTYPE)] == self.sides && workspace.of == self.id;
        if fits { Ok(()) } else { Err(self.refuse((x.len(), X::DTYPE), (y.len(), Y::DTYPE), workspace)) }
    }

    #[inline]
    fn run(&self, x: &[R], y: &mut [R], workspace: &mut Workspace<R>) {
        for step in &self.steps {
            step.run(x, y, workspace);
        }
    }

    #[cold]
    fn refuse(&self, x: (usize, Dtype), y: (usize, Dtype), workspace: &Workspace<R>) -> RunnerError {
        let operator = self.operator.formula();
        for (k, verb, (given, given_dtype)) in [(0, "reads", x), (1, "writes", y)] {
            let (n, dtype) = self.sides[k];
            if (n, dtype) != (given, given_dtype) {
                let n = i64::try_from(n).unwrap_or(i64::MAX);
                return RunnerError::Values { operator, verb, n, dtype, given, given_dtype };
            }
        }
        self.foreign(workspace)
    }

    #[cold]
    fn foreign(&self, workspace: &Workspace<R>) -> RunnerError {
        RunnerError::Workspace { operator: self.operator.formula(), of: workspace.made_for.formula() }
    }
}

impl<R: Real> Placed<R> {
    #[inline]
    fn run(&self, x: &[R], y: &mut [R], Workspace { between, scratch, .. }: &mut Workspace<R>) {
        let (reads, writes) = (self.reads.clone(), self.writes.clone());
        let kernel = &*self.kernel;
        match self.homes {
            (Home::Input, Home::Output) => kernel.apply(&x[reads], &mut y[writes], scratch),
            (Home::Input, Home::Between) => kernel.apply(&x[reads], &mut between[writes], scratch),
            (Home::Between, Home::Output) => kernel.apply(&between[reads], &mut y[writes], scratch),
            (Home::Output, Home::Between) => kernel.apply(&y[reads], &mut between[writes], scratch),
            (Home::Between, Home::Between) => within(kernel, between, reads, writes, scratch),
            (Home::Output, Home::Output) => within(kernel, y, reads, writes, scratch),
            (_, Home::Input) => unreachable!("bug: a step writes the input"),
        }
    }
}

/// Runs a kernel inside one buffer: in place, or from one part to another.
// Steps of a few elements are over before a call with so many arguments is.
#[inline(always)]
fn within<R: Real>(
    kernel: &dyn Kernel<R>,
    buffer: &mut [R],
    reads: Range<usize>,
    writes: Range<usize>,
    scratch: &mut Scratch<R>,
) {
    if reads == writes {
        kernel.in_place(&mut buffer[writes], scratch);
    } else if reads.end <= writes.start {
        let (before, after) = buffer.split_at_mut(writes.start);
        kernel.apply(&before[reads], &mut after[..writes.end - writes.start], scratch);
    } else {
        let (before, after) = buffer.split_at_mut(reads.start);
        kernel.apply(&after[..reads.end - reads.start], &mut before[writes], scratch);
    }
}

/// `A x` on this machine for values of any type: [`Operator::apply`](spanlift::op::Operator::apply) by the kernels of a
/// [`Runner`].
///
/// # Errors
/// As [`Runner::new`]; [`OpError::Input`] for values of another space, device included.
///
/// # Cost
/// A runner is planned for the one apply; who applies again keeps a [`Runner`].
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, fft};
/// use spanlift_native::cpu;
/// let f = fft(["x"]).over(Space::new([("x", 4)], Dtype::C32)?)?;
/// let y = cpu::op::apply(&f, &Array::new(f.domain().clone(), [1.0; 4])?)?;
/// assert_eq!(y.reals(), [2.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn apply(operator: &Operator, x: &Array) -> Result<Array, RunnerError> {
    fn by<X: Element, Y: Element<Real = X::Real>>(a: &Operator, x: &Array) -> Result<Array, RunnerError>
    where
        Complex<X::Real>: Element<Real = X::Real>,
    {
        let runner = Runner::<X::Real>::new(a)?;
        let x: Vec<X> = x.values().iter().map(|z| X::of(*z)).collect();
        let mut y = vec![Y::default(); lower::len(a.codomain().elements())];
        runner.apply(&x, &mut y, &mut runner.workspace())?;
        Ok(Array::computed(a.codomain().clone(), y.into_iter().map(Element::wide))?)
    }
    let spaces = (operator.domain(), operator.codomain());
    if spaces.0 != x.space() {
        return Err(RunnerError::Operator(OpError::Input {
            operator: operator.formula(),
            expects: Box::new(spaces.0.clone()),
            gives: Box::new(x.space().clone()),
        }));
    }
    let single = matches!(spaces.0.dtype(), Dtype::F32 | Dtype::C32);
    match (single, spaces.0.is_complex(), spaces.1.is_complex()) {
        (true, false, false) => by::<f32, f32>(operator, x),
        (true, false, true) => by::<f32, Complex<f32>>(operator, x),
        (true, true, false) => by::<Complex<f32>, f32>(operator, x),
        (true, true, true) => by::<Complex<f32>, Complex<f32>>(operator, x),
        (false, false, false) => by::<f64, f64>(operator, x),
        (false, false, true) => by::<f64, Complex<f64>>(operator, x),
        (false, true, false) => by::<Complex<f64>, f64>(operator, x),
        (false, true, true) => by::<Complex<f64>, Complex<f64>>(operator, x),
    }
}
