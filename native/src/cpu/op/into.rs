//! Results that are added to what is there.

use num_complex::Complex;

use super::real::{Element, Real};
use super::{Runner, RunnerError, Workspace};

impl<R: Real> Runner<R> {
    /// `y = alpha A x + beta y`; where `beta` is 0, `y` is overwritten and never read.
    ///
    /// For the adjoint, `A^H`, see [`Runner::adjoint_into`].
    ///
    /// # Errors
    /// As [`Runner::apply`].
    ///
    /// # Panics
    /// As [`Runner::apply`].
    ///
    /// # Cost
    /// One pass over `y` more than [`Runner::apply`]. With `beta` other than 0 the workspace holds one result more, which is
    /// allocated the first time.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Diagonal, Operator, Space};
    /// use spanlift_native::cpu::Runner;
    /// let a = Operator::from(Diagonal::new(Space::new([("x", 2)], Dtype::F64)?, [1.0, 2.0])?);
    /// let runner = Runner::<f64>::new(&a)?;
    /// let mut y = [100.0, 100.0];
    /// runner.apply_into(2.0, &[3.0, 4.0], 0.5, &mut y, &mut runner.workspace())?;
    /// assert_eq!(y, [56.0, 66.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply_into<X: Element<Real = R>, Y: Element<Real = R>>(
        &self,
        alpha: Y,
        x: &[X],
        beta: Y,
        y: &mut [Y],
        workspace: &mut Workspace<R>,
    ) -> Result<(), RunnerError> {
        if beta == Y::default() {
            self.apply(x, y, workspace)?;
            y.iter_mut().for_each(|y| *y *= alpha);
            return Ok(());
        }
        self.check(x, y, workspace)?;
        let mut extra = std::mem::take(&mut workspace.extra);
        extra.resize(std::mem::size_of_val(y) / size_of::<R>(), R::zero());
        self.run(bytemuck::cast_slice(x), &mut extra, workspace);
        let ax: &[Y] = bytemuck::cast_slice(&extra);
        y.iter_mut().zip(ax).for_each(|(y, ax)| *y = alpha * *ax + beta * *y);
        workspace.extra = extra;
        Ok(())
    }
}

impl<R: Real> Runner<R>
where
    Complex<R>: Element<Real = R>,
{
    /// `x = alpha A^H y + beta x`; where `beta` is 0, `x` is overwritten and never read.
    ///
    /// # Errors
    /// As [`Runner::apply`].
    ///
    /// # Panics
    /// As [`Runner::apply`].
    ///
    /// # Cost
    /// As [`Runner::apply_into`]; the adjoint is planned the first time, and memory for it is allocated with the first use of a
    /// workspace for it.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::dense;
    /// use spanlift_native::cpu::Runner;
    /// let a = dense(["m"], ["n"], [("m", 2), ("n", 3)], (1..=6).map(f64::from), Dtype::F64)?;
    /// let runner = Runner::<f64>::new(&a)?;
    /// let (mut workspace, mut x) = (runner.workspace(), [100.0; 3]);
    /// runner.adjoint_into(1.0, &[1.0, 10.0], 0.5, &mut x, &mut workspace)?;
    /// assert_eq!(x, [91.0, 102.0, 113.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adjoint_into<Y: Element<Real = R>, X: Element<Real = R>>(
        &self,
        alpha: X,
        y: &[Y],
        beta: X,
        x: &mut [X],
        workspace: &mut Workspace<R>,
    ) -> Result<(), RunnerError> {
        if workspace.of != self.id {
            return Err(self.foreign(workspace));
        }
        let runner = match self.adjoint.get() {
            Some(runner) => runner,
            None => {
                let planned = Box::new(Runner::new(&self.operator.adjoint())?);
                self.adjoint.get_or_init(|| planned)
            }
        };
        let mut own = workspace.adjoint.take().unwrap_or_else(|| Box::new(runner.workspace()));
        let done = runner.apply_into(alpha, y, beta, x, &mut own);
        workspace.adjoint = Some(own);
        done
    }
}
