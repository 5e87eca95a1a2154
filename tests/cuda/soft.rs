//! The kernel that ships as the software driver runs it: the reference's formula over the parameter's regions.

use spanlift::memory::Dtype;
use spanlift::program::{Compute, Func};
use spanlift_softcuda::{Function, Launch};

/// Words before the views, and of a view: address, bytes of a run, rank, eight counts, eight strides.
const HEAD: usize = 5;
const VIEW: usize = 19;

/// Stands in for `spanlift_formula`.
pub(crate) const FORMULA: Function = |launch| {
    let words: Vec<u64> = launch
        .arg_bytes(0)
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let dtype = match words[0] {
        0 => Dtype::U8,
        1 => Dtype::I8,
        2 => Dtype::I16,
        3 => Dtype::I32,
        4 => Dtype::I64,
        5 => Dtype::F16,
        6 => Dtype::Bf16,
        7 => Dtype::F32,
        8 => Dtype::F64,
        9 => Dtype::C32,
        10 => Dtype::C64,
        other => panic!("type {other}"),
    };
    let (mul, add) = (f64::from_bits(words[3]), f64::from_bits(words[4]));
    let (func, n_operands) = match words[1] {
        0 => (Func::Fill(mul), 0),
        1 => (Func::Affine { mul, add }, 1),
        2 => (Func::Mul { conj: false }, 2),
        3 => (Func::Mul { conj: true }, 2),
        4 => (Func::Add, 2),
        other => panic!("formula {other}"),
    };
    let n = words[2] * dtype.bytes().unsigned_abs();
    let mut operands = Vec::new();
    for k in 0..n_operands {
        let mut bytes = Vec::new();
        for (at, len) in runs(&words, 1 + k, n) {
            bytes.extend(launch.read::<u8>(at, len)?);
        }
        operands.push(bytes);
    }
    let result = Compute { dtype, func }.apply(&operands, n);
    assert_eq!(result.len() as u64, n, "as many elements as the parameter says");
    let mut done = 0;
    for (at, len) in runs(&words, 0, n) {
        launch.write(at, &result[done..done + len])?;
        done += len;
    }
    // Every thread of the grid takes part: a single one where a byte is counted twice, so that the last one wins.
    assert!(threads(launch) >= 1);
    Ok(())
};

fn threads(launch: &Launch<'_>) -> u64 {
    launch.grid().iter().chain(&launch.block()).map(|n| u64::from(*n)).product()
}

/// Address and length of the runs of the first `n` bytes of a view.
fn runs(words: &[u64], view: usize, n: u64) -> Vec<(u64, usize)> {
    let words = &words[HEAD + view * VIEW..][..VIEW];
    let (base, elem, rank) = (words[0], words[1], usize::try_from(words[2]).unwrap());
    let mut out = Vec::new();
    let mut left = n;
    let mut run = 0u64;
    while left > 0 {
        let mut at = base;
        let mut index = run;
        for k in (0..rank).rev() {
            let (count, stride) = (words[3 + k], words[11 + k]);
            at = at.wrapping_add((index % count).wrapping_mul(stride));
            index /= count;
        }
        let len = elem.min(left);
        out.push((at, usize::try_from(len).unwrap()));
        left -= len;
        run += 1;
    }
    out
}
