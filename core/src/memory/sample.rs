//! Layouts to measure with: as large as asked for, the same every time.

use super::{Dtype, Layout, LayoutProblems, View, cpu};
use crate::Bytes;

/// Rows and columns of each matrix.
const SIDE: i64 = 64;

/// `n_storages` matrices of 64 x 64 `f32` on the host, each seen through ten views that interleave and overlap.
///
/// # Errors
/// More bytes or names than a layout holds; not below billions of storages.
///
/// # Examples
/// ```
/// let layout = spanlift::memory::sample::matrices(3)?;
/// assert_eq!(layout.tensors().len(), 30);
/// assert_eq!(layout.report()?.devices["cpu"].unique_bytes, 3 * 64 * 64 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn matrices(n_storages: usize) -> Result<Layout, LayoutProblems> {
    let half = SIDE / 2;
    let f32s = |shape: &[i64], strides: &[i64], offset| View {
        dtype: Dtype::F32,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        offset,
    };
    let views = [
        ("left", f32s(&[SIDE, half], &[SIDE, 1], 0)),
        ("right", f32s(&[SIDE, half], &[SIDE, 1], half)),
        ("even", f32s(&[half, SIDE], &[2 * SIDE, 1], 0)),
        ("odd", f32s(&[half, SIDE], &[2 * SIDE, 1], SIDE)),
        ("column", f32s(&[SIDE], &[SIDE], 5)),
        ("diagonal", f32s(&[SIDE], &[SIDE + 1], 0)),
        ("reversed", f32s(&[SIDE], &[-1], 8 * SIDE - 1)),
        ("transposed", f32s(&[half, half], &[1, SIDE], half * (SIDE + 1))),
        ("third", f32s(&[SIDE, SIDE / 3], &[SIDE, 3], 1)),
        ("bytes", View { dtype: Dtype::U8, shape: vec![4 * SIDE], strides: vec![1], offset: 2 }),
    ];
    let mut layout = Layout::new();
    for k in 0..n_storages {
        let storage = layout.storage(&format!("w{k}"), cpu(), Bytes((4 * SIDE * SIDE).unsigned_abs()))?;
        for (name, view) in &views {
            layout.tensor(&format!("w{k}.{name}"), storage, view.clone())?;
        }
    }
    Ok(layout)
}
