//! What people write for movements: slices, pads, reorderings, repeats, windows.

use std::ops::Range;

use super::build::{Kind, Movement, Window};
use crate::ordered::CollectVec;

fn movement(kind: Kind) -> Movement {
    Movement { kind, named: Vec::new(), at: None, avoid: Vec::new() }
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect_vec()
}

/// Other names for the same data, all at once, so that a swap of names is a swap.
///
/// `y = x`; the adjoint names back.
///
/// # Errors
/// When it is built: an old name that is not there, one that should get two names, a new name that something else has, and a
/// swap of names whose sizes differ, since a name has one size ([`permute`] changes the order instead).
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Space, rename};
/// let image = Space::new([("y", 3), ("x", 3)], Dtype::C32)?;
/// let a = rename([("y", "x"), ("x", "y")]).over(&image)?;
/// assert_eq!(a.to_string(), "Rename(y->x,x->y) : c32[y,x]@cpu -> c32[x,y]@cpu");
/// let wide = rename([("y", "x"), ("x", "y")]).over(Space::new([("y", 2), ("x", 3)], Dtype::C32)?);
/// assert!(wide.unwrap_err().to_string().starts_with("`y` is 2 long in the input"));
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn rename<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Movement {
    movement(Kind::Rename(pairs.into_iter().map(|(o, n)| (o.to_owned(), n.to_owned())).collect_vec()))
}

/// The dimensions in another order.
///
/// `y[i, j] = x[j, i]`; the adjoint orders back, the normal is the identity.
///
/// # Errors
/// When it is built: an order that is not one of all names.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, permute};
/// let a = permute(["x", "y"]).over(Space::new([("y", 2), ("x", 3)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), (0..6).map(f64::from))?;
/// assert_eq!(a.apply(&x)?.reals(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn permute<'a>(order: impl IntoIterator<Item = &'a str>) -> Movement {
    movement(Kind::Permute(owned(order)))
}

/// Neighbouring dimensions as one.
///
/// `y[i n_j + j] = x[i, j]`; the adjoint splits again.
///
/// # Errors
/// When it is built: names that do not follow each other, or a new name that is taken.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Space, merge_dims};
/// let a = merge_dims(["y", "x"], "pixel").over(Space::new([("c", 2), ("y", 3), ("x", 4)], Dtype::F64)?)?;
/// assert_eq!(a.codomain().sized(), "f64[c=2,pixel=12]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn merge_dims<'a>(dims: impl IntoIterator<Item = &'a str>, into: &str) -> Movement {
    movement(Kind::Merge(owned(dims), into.to_owned()))
}

/// One dimension as several, outermost first.
///
/// `y[i, j] = x[i n_j + j]`; the adjoint merges again.
///
/// # Errors
/// When it is built: sizes whose product is not that of the dimension, or new names that are taken.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Space, split_dim};
/// let a = split_dim("pixel", [("y", 3), ("x", 4)]).over(Space::new([("pixel", 12)], Dtype::F64)?)?;
/// assert_eq!(a.codomain().sized(), "f64[y=3,x=4]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn split_dim<'a>(dim: &str, into: impl IntoIterator<Item = (&'a str, i64)>) -> Movement {
    movement(Kind::Split(dim.to_owned(), into.into_iter().map(|(n, s)| (n.to_owned(), s)).collect_vec()))
}

/// The elements of `range` along `dim`, every `step`-th: from its beginning, or from its end backwards for a negative step.
///
/// `y_i = x[start + i step]`; the adjoint fills with zeros, the normal is a mask.
///
/// Shapes: `dim` gets a fresh name, since a name has one size; [`Movement::named`] chooses it.
///
/// # Errors
/// When it is built: a range that leaves the dimension, or a step of 0.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, slice};
/// let a = slice("x", 1..6, -2).over(Space::new([("x", 6)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), (0..6).map(f64::from))?;
/// assert_eq!(a.apply(&x)?.reals(), [5.0, 3.0, 1.0]);
/// assert_eq!(a.codomain().sized(), "f64[x1=3]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn slice(dim: &str, range: Range<i64>, step: i64) -> Movement {
    movement(Kind::Slice { dim: dim.to_owned(), range, step })
}

/// Zeros around the data, so that the centre (index `n/2`) goes to the centre.
///
/// `y[i + to/2 - n/2] = x[i]`; the adjoint is [`crop`], the normal the identity.
///
/// Shapes: `dim` gets a fresh name; [`Movement::named`] chooses it.
///
/// # Errors
/// When it is built: a size that is smaller than that of the dimension.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, pad};
/// let a = pad("x", 6).over(Space::new([("x", 3)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [1.0, 2.0, 3.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [0.0, 0.0, 1.0, 2.0, 3.0, 0.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn pad(dim: &str, to: i64) -> Movement {
    movement(Kind::Pad { dim: dim.to_owned(), to })
}

/// `before` and `after` zeros around the data.
///
/// `y[i + before] = x[i]`; the adjoint drops them, the normal is the identity.
///
/// Shapes: `dim` gets a fresh name; [`Movement::named`] chooses it.
///
/// # Errors
/// When it is built: negative numbers.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, end_pad};
/// let a = end_pad("x", 1, 2).over(Space::new([("x", 2)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [1.0, 2.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [0.0, 1.0, 2.0, 0.0, 0.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn end_pad(dim: &str, before: i64, after: i64) -> Movement {
    movement(Kind::EndPad { dim: dim.to_owned(), before, after })
}

/// The middle of the data: the inverse positions of [`pad`].
///
/// `y[i] = x[i + n/2 - to/2]`; the adjoint pads, the normal is a mask.
///
/// Shapes: `dim` gets a fresh name; [`Movement::named`] chooses it.
///
/// # Errors
/// When it is built: a size that is larger than that of the dimension.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, crop};
/// let a = crop("x", 3).over(Space::new([("x", 6)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), (0..6).map(f64::from))?;
/// assert_eq!(a.apply(&x)?.reals(), [2.0, 3.0, 4.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn crop(dim: &str, to: i64) -> Movement {
    movement(Kind::Crop { dim: dim.to_owned(), to })
}

/// The data shifted around along `dim`.
///
/// `y_i = x[(i - by) mod n]`; the adjoint shifts back, the normal is the identity.
///
/// # Errors
/// When it is built: a name that is not there.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, roll};
/// let a = roll("x", 1).over(Space::new([("x", 3)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [1.0, 2.0, 3.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [3.0, 1.0, 2.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn roll(dim: &str, by: i64) -> Movement {
    movement(Kind::Roll { dim: dim.to_owned(), by })
}

/// The data backwards along `dims`.
///
/// `y_i = x[n - 1 - i]`; its own adjoint and inverse.
///
/// # Errors
/// When it is built: a name that is not there, or is listed twice.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, flip};
/// let a = flip(["x"]).over(Space::new([("y", 2), ("x", 2)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [2.0, 1.0, 4.0, 3.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn flip<'a>(dims: impl IntoIterator<Item = &'a str>) -> Movement {
    movement(Kind::Flip(owned(dims)))
}

/// The data `n` times along a new dimension, the innermost or where [`Movement::at`] says.
///
/// `y[.., r] = x`; the adjoint adds up, the normal is the factor `n`.
///
/// # Errors
/// When it is built: a name that is taken, a negative `n`, a place beyond the rank.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, repeat};
/// let a = repeat("r", 3).over(Space::new([("x", 2)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [1.0, 2.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
/// assert_eq!(a.normal().formula(), "3");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn repeat(dim: &str, n: i64) -> Movement {
    movement(Kind::Repeat { dim: dim.to_owned(), n })
}

/// The sum over `dims`, which are gone afterwards.
///
/// `y = sum_r x[.., r]`; the adjoint repeats.
///
/// # Errors
/// When it is built: a name that is not there, or is listed twice.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, sum_reduce};
/// let a = sum_reduce(["b"]).over(Space::new([("a", 2), ("b", 3)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), (0..6).map(f64::from))?;
/// assert_eq!(a.apply(&x)?.reals(), [3.0, 12.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn sum_reduce<'a>(dims: impl IntoIterator<Item = &'a str>) -> Movement {
    movement(Kind::SumReduce(owned(dims)))
}

/// The elements of `dim` at the indices `keep`, in that order.
///
/// `y_k = x[keep_k]`; the adjoint is [`embed`], the normal a mask.
///
/// Shapes: `dim` gets a fresh name; [`Movement::named`] chooses it.
///
/// # Errors
/// When it is built: an index outside the dimension, or one that is there twice; [`sampling`](crate::op::sampling()) takes repeats.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, select};
/// let a = select("x", [3, 1]).over(Space::new([("x", 4)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [10.0, 11.0, 12.0, 13.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [13.0, 11.0]);
/// assert_eq!(a.normal().apply(&x)?.reals(), [0.0, 11.0, 0.0, 13.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn select(dim: &str, keep: impl IntoIterator<Item = i64>) -> Movement {
    movement(Kind::Select { dim: dim.to_owned(), keep: keep.into_iter().collect_vec() })
}

/// The elements of `dim` put at the indices `keep` of a dimension of `n`, zeros elsewhere.
///
/// `y[keep_k] = x_k`; the adjoint is [`select`], the normal the identity.
///
/// Shapes: `dim` gets a fresh name; [`Movement::named`] chooses it.
///
/// # Errors
/// As [`select`]; another number of indices than the dimension has.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, embed};
/// let a = embed("x", [3, 1], 5).over(Space::new([("x", 2)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [7.0, 8.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [0.0, 8.0, 0.0, 7.0, 0.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn embed(dim: &str, keep: impl IntoIterator<Item = i64>, n: i64) -> Movement {
    movement(Kind::Embed { dim: dim.to_owned(), keep: keep.into_iter().collect_vec(), n })
}

/// Windows of `block` elements, one every `stride`, along each listed dimension `(dim, block, stride)`.
///
/// `y[c, b] = x[c stride + b]` for every whole window. The adjoint adds where windows overlap; the normal counts how often
/// each element is covered, which is not the identity where windows overlap or leave elements out.
///
/// Shapes: each dimension becomes its number of windows, under a fresh name; the dimensions inside the windows follow
/// all others, in the order of the list. [`Movement::named`] chooses the names: all counts, then all insides.
///
/// # Errors
/// When it is built: a block that is longer than the dimension or empty, or a stride below 1.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, blocks};
/// let a = blocks([("x", 3, 2)]).over(Space::new([("x", 6)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), (0..6).map(f64::from))?;
/// assert_eq!(a.apply(&x)?.reals(), [0.0, 1.0, 2.0, 2.0, 3.0, 4.0]);
/// assert_eq!(a.normal().apply(&x)?.reals(), [0.0, 1.0, 4.0, 3.0, 4.0, 0.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn blocks<'a>(windows: impl IntoIterator<Item = (&'a str, i64, i64)>) -> Movement {
    movement(Kind::Blocks(windows_of(windows)))
}

/// Windows added where they came from: the adjoint of [`blocks`] on dimensions `(dim, size, block, stride)`.
///
/// `y[c stride + b] += x[c, b]`, into zeros. Its input is what [`blocks`] with these dimensions writes, which names the result.
///
/// # Errors
/// As [`blocks`]; an input that is not what [`blocks`] writes.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, unblocks};
/// let windows = Space::new([("x1", 2), ("x2", 3)], Dtype::F64)?;
/// let a = unblocks([("x", 5, 3, 2)]).over(&windows)?;
/// assert_eq!(a.apply(&Array::new(windows, [1.0; 6])?)?.reals(), [1.0, 1.0, 2.0, 1.0, 1.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn unblocks<'a>(windows: impl IntoIterator<Item = (&'a str, i64, i64, i64)>) -> Movement {
    let (mut found, mut sizes) = (Vec::new(), Vec::new());
    for (dim, size, block, stride) in windows {
        found.push((dim, block, stride));
        sizes.push(size);
    }
    movement(Kind::Unblocks(windows_of(found), sizes))
}

fn windows_of<'a>(windows: impl IntoIterator<Item = (&'a str, i64, i64)>) -> Vec<Window> {
    windows
        .into_iter()
        .map(|(dim, block, stride)| Window { dim: dim.to_owned(), block, stride })
        .collect_vec()
}

impl Movement {
    /// Names the dimensions that would get fresh names; an error where none would.
    #[must_use]
    pub fn named<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Movement {
        Movement { named: owned(names), ..self }
    }

    /// Where the dimension of [`repeat`] is inserted, 0 being the outermost; an error for other movements.
    #[must_use]
    pub fn at(self, place: usize) -> Movement {
        Movement { at: Some(place), ..self }
    }
}
