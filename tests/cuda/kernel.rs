//! The kernels that ship: their PTX is their source's; what that of formulas means is what the reference means.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use spanlift::memory::{Dim, Dtype, Span};
use spanlift::program::{Compute, Func};
use spanlift_softcuda::Interpreted;

use crate::programs::Rng;

pub(crate) fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/kernels")
}

#[test]
fn ptx_is_what_its_source_was_compiled_to() {
    let mut n = 0;
    for entry in std::fs::read_dir(kernels()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "cu") {
            continue;
        }
        n += 1;
        let noted = std::fs::read_to_string(path.with_extension("sha256")).unwrap();
        let noted: Vec<(&str, &str)> = noted.lines().filter_map(|line| line.split_once("  ")).collect();
        let found = ["cu", "ptx"].map(|kind| {
            let file = path.with_extension(kind);
            let digest = Sha256::digest(std::fs::read(&file).unwrap());
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            (hex, file.file_name().unwrap().to_string_lossy().into_owned())
        });
        let found: Vec<(&str, &str)> =
            found.iter().map(|(hex, name)| (hex.as_str(), name.as_str())).collect();
        assert_eq!(noted, found, "compile anew with native/kernels/build");
        let ptx = std::fs::read_to_string(path.with_extension("ptx")).unwrap();
        assert!(ptx.starts_with(".version 8.0\n.target sm_75\n.address_size 64\n"), "{}", path.display());
        assert!(!ptx.contains("fma."), "a fused multiply-add rounds once where the reference rounds twice");
    }
    assert!(n > 0);
}

/// Words of a view: address, bytes of a run, rank, eight counts, eight strides.
fn view(span: &Span) -> Vec<u64> {
    let mut words = vec![span.off().cast_unsigned(), span.elem().unsigned_abs(), span.dims().len() as u64];
    let mut padded = |value: fn(&Dim) -> u64| {
        words.extend((0..8).map(|k| span.dims().get(k).map_or(0, value)));
    };
    padded(|dim| dim.count.unsigned_abs());
    padded(|dim| dim.stride.cast_unsigned());
    words
}

/// Byte positions of a span in order, from its definition alone.
fn positions(span: &Span) -> Vec<usize> {
    let mut runs = vec![span.off()];
    for dim in span.dims() {
        runs = runs.iter().flat_map(|at| (0..dim.count).map(move |k| at + k * dim.stride)).collect();
    }
    let bytes = runs.iter().flat_map(|at| (0..span.elem()).map(move |k| at + k));
    bytes.map(|at| usize::try_from(at).unwrap()).collect()
}

const BLOCK: i64 = 256;

/// A span of `n` bytes or more whose bytes lie in `[lo, lo + BLOCK)`, each counted once.
fn span(rng: &mut Rng, lo: i64) -> Span {
    loop {
        let dims: Vec<Dim> =
            (0..rng.below(4)).map(|_| Dim { count: 1 + rng.below(5), stride: rng.below(80) - 30 }).collect();
        let off = lo + rng.below(BLOCK);
        let span = Span::strided(off, rng.of(&[1, 2, 3, 4, 6, 8, 16, 20]), dims).unwrap();
        let mut all = positions_of(&span, lo);
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        if n > 0 && n == all.len() {
            return span;
        }
    }
}

/// Nothing where the span leaves its block.
fn positions_of(span: &Span, lo: i64) -> Vec<usize> {
    let inside = span.bounds().is_some_and(|(first, end)| lo <= first && end <= lo + BLOCK);
    if inside { positions(span) } else { Vec::new() }
}

/// Bits that matter: every class of float, ends of integers, and noise.
fn bytes(rng: &mut Rng, dtype: Dtype) -> Vec<u8> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        65504.0,
        65519.9,
        65520.0,
        6e-8,
        3e-8,
        1e-40,
        -1e39,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        9.3e18,
        -9.3e18,
        255.5,
    ];
    let mut out = Vec::new();
    while out.len() < usize::try_from(3 * BLOCK).unwrap() {
        let raw = rng.next().to_le_bytes();
        match (rng.below(3), dtype) {
            (0, Dtype::F32 | Dtype::C32) => {
                #[expect(clippy::cast_possible_truncation, reason = "rounded as a float")]
                out.extend((rng.of(&special) as f32).to_le_bytes());
            }
            (0, Dtype::F64 | Dtype::C64) => out.extend(rng.of(&special).to_le_bytes()),
            (0, Dtype::I64) => out.extend(rng.of(&[i64::MIN, i64::MAX, -1, 0, 1 << 40]).to_le_bytes()),
            (0, Dtype::I32) => out.extend(rng.of(&[i32::MIN, i32::MAX, -1, 3]).to_le_bytes()),
            _ => out.extend(&raw[..usize::try_from(dtype.bytes().min(8)).unwrap()]),
        }
    }
    out.truncate(usize::try_from(3 * BLOCK).unwrap());
    out
}

fn funcs() -> [(u64, Func); 6] {
    [
        (0, Func::Fill(-3.7)),
        (0, Func::Fill(1e19)),
        (1, Func::Affine { mul: 0.3, add: -2.0 }),
        (2, Func::Mul { conj: false }),
        (3, Func::Mul { conj: true }),
        (4, Func::Add),
    ]
}

/// Equal, where a not-a-number equals every other.
fn same(dtype: Dtype, a: &[u8], b: &[u8]) -> bool {
    let nan = |bytes: &[u8]| match dtype {
        Dtype::F32 | Dtype::C32 => f32::from_le_bytes(bytes.try_into().unwrap()).is_nan(),
        Dtype::F64 | Dtype::C64 => f64::from_le_bytes(bytes.try_into().unwrap()).is_nan(),
        Dtype::F16 => u16::from_le_bytes(bytes.try_into().unwrap()) & 0x7fff > 0x7c00,
        Dtype::Bf16 => u16::from_le_bytes(bytes.try_into().unwrap()) & 0x7fff > 0x7f80,
        _ => false,
    };
    let size = match dtype {
        Dtype::C32 => 4,
        Dtype::C64 => 8,
        other => usize::try_from(other.bytes()).unwrap(),
    };
    a.len() == b.len()
        && a.chunks(size).zip(b.chunks(size)).all(|(x, y)| x == y || x.len() == size && nan(x) && nan(y))
}

/// A formula over a block of bytes, and the block as the reference leaves it.
struct Case {
    label: String,
    dtype: Dtype,
    /// The kernel's parameter, with addresses that count from the block's begin.
    words: Vec<u64>,
    block: Vec<u8>,
    /// Where the result lies.
    at: Vec<usize>,
    expected: Vec<u8>,
}

/// `n_rounds` of every type and formula.
fn cases(seed: u64, n_rounds: u32) -> Vec<Case> {
    let mut rng = Rng(seed);
    let mut cases = Vec::new();
    for round in 0..n_rounds {
        for dtype in Dtype::ALL {
            for (number, func) in funcs() {
                // Operands and result in a third of the block each.
                let spans = [0, BLOCK, 2 * BLOCK].map(|lo| span(&mut rng, lo));
                let at = spans.each_ref().map(positions);
                let size = usize::try_from(dtype.bytes()).unwrap();
                let block = bytes(&mut rng, dtype);
                let operands = [1, 2].map(|k| at[k].iter().map(|&p| block[p]).collect::<Vec<u8>>());
                let result = Compute { dtype, func }.apply(&operands, at[0].len() as u64);
                let n = result.len() / size;
                let (mul, add) = match func {
                    Func::Fill(value) => (value, 0.0),
                    Func::Affine { mul, add } => (mul, add),
                    _ => (0.0, 0.0),
                };
                let type_number = Dtype::ALL.iter().position(|&other| other == dtype).unwrap();
                let mut words = vec![NUMBERS[type_number], number, n as u64, mul.to_bits(), add.to_bits()];
                spans.iter().for_each(|span| words.extend(view(span)));
                let mut expected = block.clone();
                for (&p, &byte) in at[0].iter().zip(&result) {
                    expected[p] = byte;
                }
                let label = format!("round {round}: {dtype:?} {func:?} of {n}");
                let at = at[0][..result.len()].to_vec();
                cases.push(Case { label, dtype, words, block, at, expected });
            }
        }
    }
    let n_bytes: usize = cases.iter().map(|case| case.at.len()).sum();
    assert!(n_bytes > 300 * n_rounds as usize, "{n_bytes}");
    cases
}

impl Case {
    /// The result is the reference's, and nothing else is touched.
    fn holds(&self, found: &[u8]) {
        let Case { label, dtype, at, expected, .. } = self;
        let result = |bytes: &[u8]| at.iter().map(|&p| bytes[p]).collect::<Vec<u8>>();
        assert!(
            same(*dtype, &result(found), &result(expected)),
            "{label}:\n{:?}\n{:?}",
            result(found),
            result(expected)
        );
        let rest = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            at.iter().for_each(|&p| bytes[p] = 0);
            bytes
        };
        assert_eq!(rest(found), rest(expected), "{label}");
    }
}

#[test]
fn the_source_means_what_the_reference_means() {
    let Some(program) = built("formula") else { return };
    let cases = cases(11, 60);
    let mut input = Vec::new();
    for case in &cases {
        let words = case.words.iter().copied().chain([case.block.len() as u64]);
        input.extend(words.flat_map(u64::to_le_bytes));
        input.extend(&case.block);
    }
    let output = ran(&program, input);
    let blocks = output.chunks(usize::try_from(3 * BLOCK).unwrap());
    assert_eq!(blocks.len(), cases.len());
    cases.iter().zip(blocks).for_each(|(case, block)| case.holds(block));
}

/// The PTX that ships, instruction by instruction, with more threads than elements and with fewer.
#[test]
fn the_ptx_means_what_the_reference_means() {
    const BASE: u64 = 0x7_0000;
    let ptx = std::fs::read_to_string(kernels().join("formula.ptx")).unwrap();
    let ptx = Interpreted::read(&ptx).unwrap();
    for (k, case) in cases(12, 20).into_iter().enumerate() {
        let mut words = case.words.clone();
        // Head, then a view: its address, and eighteen words more.
        (0..3).for_each(|view| words[5 + 19 * view] += BASE);
        let args: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let mut block = case.block.clone();
        let shape = [[1, 1], [3, 5], [2, 64]][k % 3];
        ptx.run("spanlift_formula", shape, &args, (BASE, &mut block)).unwrap();
        case.holds(&block);
    }
}

/// No kernel that ships is unknown to the software driver.
#[test]
fn all_ptx_that_ships_is_interpreted() {
    let mut n = 0;
    for entry in std::fs::read_dir(kernels()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "ptx") {
            let text = std::fs::read_to_string(&path).unwrap();
            let ptx = Interpreted::read(&text).unwrap_or_else(|code| panic!("{}: {code:?}", path.display()));
            let n_entries = text.matches(".entry ").count();
            assert_eq!((ptx.entries().count(), n_entries > 0), (n_entries, true), "{}", path.display());
            n += n_entries;
        }
    }
    assert!(n > 10, "{n}");
}

/// Numbers of the source's types, in the order of `Dtype::ALL`.
const NUMBERS: [u64; 11] = numbers();

const fn numbers() -> [u64; 11] {
    let mut numbers = [0; 11];
    let mut k = 0;
    while k < 11 {
        numbers[k] = match Dtype::ALL[k] {
            Dtype::U8 => 0,
            Dtype::I8 => 1,
            Dtype::I16 => 2,
            Dtype::I32 => 3,
            Dtype::I64 => 4,
            Dtype::F16 => 5,
            Dtype::Bf16 => 6,
            Dtype::F32 => 7,
            Dtype::F64 => 8,
            Dtype::C32 => 9,
            Dtype::C64 => 10,
        };
        k += 1;
    }
    numbers
}

/// A kernel's source as a program of the host; `None` without a C compiler.
pub(crate) fn built(name: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-std=c11", "-Wall", "-Werror", "-DSPANLIFT_HOST", "-ffp-contract=off", "-O1", "-x", "c"]);
    command.arg(kernels().join(name).with_extension("cu")).arg("-o").arg(&program);
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(_) => {
            eprintln!("skipped: no C compiler to build the kernel's source with");
            None
        }
    }
}

pub(crate) fn ran(program: &Path, input: Vec<u8>) -> Vec<u8> {
    let mut command = Command::new(program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    output.stdout
}
