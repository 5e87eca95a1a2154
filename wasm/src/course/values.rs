//! What the page's cells on operators are applied to and weigh with: values that no text can say in a few words, each for any space
//! that is large enough, by the names that stand beside `ones` and `random(1)`.

use spanlift::op::{Complex64, Space};
use spanlift::plan::Rule;

/// The rules of the course by name.
pub(super) const RULES: &[(&str, Rule)] = &[("head", head), ("coils", coils)];

/// Pixels along a side of the notebook's image; others are seen through a grid as fine as they are.
const SIDE: f64 = 48.0;

/// The last two sizes of a space, and those in front of them.
fn sides(space: &Space, name: &str, least: usize) -> Result<(Vec<i64>, [i64; 2]), String> {
    match space.shape()[..] {
        [ref rest @ .., rows, columns] if least <= rest.len() + 2 => Ok((rest.to_vec(), [rows, columns])),
        _ => Err(format!(
            "`{name}` is for a space of {least} dimensions or more, and {} has {}",
            space.sized(),
            space.shape().len()
        )),
    }
}

/// Row and column of an element in an image of [`SIDE`] by [`SIDE`], and the number of the image.
#[expect(clippy::cast_precision_loss, reason = "a place in an image")]
fn place(k: i64, [rows, columns]: [i64; 2]) -> (i64, f64, f64) {
    let (y, x) = (k / columns % rows, k % columns);
    (k / (rows * columns), y as f64 * SIDE / rows as f64, x as f64 * SIDE / columns as f64)
}

/// A head of discs: the skull, what is in it, two dark and two bright places.
fn head(space: &Space) -> Result<Vec<Complex64>, String> {
    const DISCS: [(f64, [f64; 3]); 6] = [
        (1.0, [23.5, 23.5, 21.0]),
        (-0.4, [23.5, 23.5, 18.0]),
        (-0.4, [15.0, 17.0, 5.0]),
        (-0.4, [15.0, 30.0, 5.0]),
        (0.3, [31.0, 24.0, 6.0]),
        (0.3, [38.0, 20.0, 1.5]),
    ];
    let (_, image) = sides(space, "head", 2)?;
    let value = |k| {
        let (_, y, x) = place(k, image);
        let inside = DISCS.iter().filter(|(_, [cy, cx, r])| (y - cy).hypot(x - cx) < *r);
        Complex64::from(inside.map(|(brightness, _)| brightness).sum::<f64>())
    };
    Ok((0..space.elements()).map(value).collect())
}

/// What coils see, left and right of the head in turn, each at a height of its own: best what is near, with a phase of its own.
#[expect(clippy::cast_precision_loss, reason = "a place in an image")]
fn coils(space: &Space) -> Result<Vec<Complex64>, String> {
    let (rest, image) = sides(space, "coils", 3)?;
    let n = rest.last().copied().unwrap_or(1).max(1);
    let value = |k| {
        let (coil, y, x) = place(k, image);
        let coil = coil % n;
        let (y, x) =
            (y - coil as f64 * (SIDE - 1.0) / (n - 1).max(1) as f64, x - (coil % 2) as f64 * (SIDE - 1.0));
        Complex64::from_polar((-(y * y + x * x) / 1200.0).exp(), 0.04 * (x - y) + coil as f64)
    };
    Ok((0..space.elements()).map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlift::memory::Dtype;

    fn space(dims: &[(&'static str, i64)]) -> Space {
        Space::new(dims.iter().copied(), Dtype::C64).unwrap()
    }

    /// By hand: the middle of the head, a place outside of it, and the four corners as the coils see them.
    #[test]
    fn values_are_those_of_the_notebook() {
        let image = head(&space(&[("y", 48), ("x", 48)])).unwrap();
        let at = |y: usize, x: usize| image[48 * y + x].re;
        assert_eq!(at(0, 0), 0.0);
        assert!((at(24, 24) - 0.6).abs() < 1e-12, "{}", at(24, 24));
        assert!((at(15, 17) - 0.2).abs() < 1e-12 && (at(31, 24) - 0.9).abs() < 1e-12);
        assert_eq!(at(4, 23), 1.0);
        // Another grid, and several images: the same head.
        let twice = head(&space(&[("n", 2), ("y", 96), ("x", 24)])).unwrap();
        assert_eq!(twice.len(), 2 * 96 * 24);
        assert_eq!(twice[..96 * 24], twice[96 * 24..]);
        assert!((twice[24 * 48 + 12].re - 0.6).abs() < 1e-12);
        let seen = coils(&space(&[("coil", 4), ("y", 48), ("x", 48)])).unwrap();
        let at = |coil: usize, y: usize, x: usize| seen[48 * 48 * coil + 48 * y + x];
        // Each coil stands where it sees everything.
        for (coil, (y, x)) in [(0, (0, 0)), (3, (47, 47))] {
            assert!((at(coil, y, x).norm() - 1.0).abs() < 1e-12, "{coil}");
            assert!((at(coil, y, x).arg() - f64::from(u32::try_from(coil).unwrap())).abs() < 1e-12);
        }
        let far = (-(2.0 * 47.0 * 47.0) / 1200.0_f64).exp();
        assert!((at(0, 47, 47).norm() - far).abs() < 1e-12);
        assert!(
            (at(1, 0, 47)
                - Complex64::from_polar((-(47.0_f64 / 3.0).powi(2) / 1200.0).exp(), 0.04 * 47.0 / 3.0 + 1.0))
            .norm()
                < 1e-12
        );
    }

    #[test]
    fn spaces_that_are_too_small_are_told() {
        let why = head(&space(&[("x", 48)])).unwrap_err();
        assert_eq!(why, "`head` is for a space of 2 dimensions or more, and c64[x=48]@cpu has 1");
        let why = coils(&space(&[("y", 48), ("x", 48)])).unwrap_err();
        assert_eq!(why, "`coils` is for a space of 3 dimensions or more, and c64[y=48,x=48]@cpu has 2");
        for dims in [
            [("coil", 1), ("y", 1), ("x", 1)],
            [("coil", 0), ("y", 2), ("x", 2)],
            [("coil", 2), ("y", 0), ("x", 2)],
        ] {
            let space = space(&dims);
            assert_eq!(coils(&space).unwrap().len() as i64, space.elements());
        }
    }
}
