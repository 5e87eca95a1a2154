//! Files damaged by chance: how, how many, and what is said of one that breaks a reader.
//!
//! `SPANLIFT_FUZZ_SECONDS` goes on for as long with each reader, `SPANLIFT_FUZZ` for so many files; without either as many
//! are tried as take a second or two. `SPANLIFT_FUZZ_SEED` is the first seed. A failure prints the seed and the file; the
//! file tried last lies in `target/tmp/fuzz`, for a reader that ends the process or never comes back.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// A small generator of its own, so that a seed names the same input for ever.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap_or_default()
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Numbers at the edges of what can be held.
const NUMBERS: [&str; 10] = [
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "9223372036854775.807",
    "1e308",
    "-1e-400",
    "0.0005",
    "0",
    "-1",
    "4294967296",
];

/// A damaged copy of one of the inputs; `words` mean something to its reader.
pub(crate) fn mutated(r: &mut Random, corpus: &[Vec<u8>], words: &[&[u8]], most_bytes: usize) -> Vec<u8> {
    let mut bytes = r.pick(corpus).clone();
    for _ in 0..1 + r.below(6) {
        let at = r.below(bytes.len() + 1);
        match r.below(10) {
            0 if at < bytes.len() => bytes[at] ^= 1 << r.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.splice(at..at, r.pick(words).iter().copied())),
            3 => {
                let end = bytes.len().min(at + 1 + r.below(12));
                bytes.drain(at..end);
            }
            4 => {
                // A piece twice: double frees, declarations, records.
                let end = bytes.len().min(at + r.below(80));
                let piece = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            5 => {
                // A line or command elsewhere.
                let by = if bytes.starts_with(b"{") { &b",\n"[..] } else { b"\n" };
                let mut lines: Vec<Vec<u8>> = bytes.split(|b| by.contains(b)).map(<[u8]>::to_vec).collect();
                let (a, b) = (r.below(lines.len()), r.below(lines.len()));
                lines.swap(a, b);
                bytes = lines.join(&by[by.len() - 1]);
            }
            6 => {
                let other = r.pick(corpus);
                let from = r.below(other.len());
                let piece = other[from..other.len().min(from + r.below(200))].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            7 => {
                // A number becomes another.
                if let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|k| at + k) {
                    let end = from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
                    drop(bytes.splice(from..end, r.pick(&NUMBERS).bytes()));
                }
            }
            8 if at < bytes.len() => bytes[at] = u8::try_from(r.below(256)).unwrap_or_default(),
            _ => {
                // A name becomes another one.
                let (from, to) = (*r.pick(b"sdxabe"), *r.pick(b"sdxabe"));
                bytes.iter_mut().filter(|b| **b == from).take(1 + at % 5).for_each(|b| *b = to);
            }
        }
        bytes.truncate(most_bytes);
    }
    bytes
}

/// Hands damaged files to a reader until there were enough: `judge` says whether one was usable, or what is wrong with the
/// answer. Some have to be usable, and some not.
pub(crate) fn fuzz(
    name: &str,
    n_files: u64,
    make: impl Fn(&mut Random) -> Vec<u8>,
    judge: impl Fn(&[u8], &mut Random) -> Result<bool, String>,
) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let until = number("SPANLIFT_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let n_files = number("SPANLIFT_FUZZ").unwrap_or(n_files);
    let first = number("SPANLIFT_FUZZ_SEED").unwrap_or(1);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let tried = folder.join(name);
    let (mut n, mut n_good) = (0, 0);
    while until.map_or(n < n_files, |until| Instant::now() < until) {
        let seed = first + n;
        let mut random = Random::new(seed);
        let bytes = make(&mut random);
        fs::write(&tried, &bytes).unwrap_or_else(|e| panic!("{}: {e}", tried.display()));
        let text = || bytes.escape_ascii().to_string();
        match catch_unwind(AssertUnwindSafe(|| judge(&bytes, &mut random))) {
            Ok(Ok(is_good)) => n_good += u64::from(is_good),
            Ok(Err(why)) => panic!("{name}, seed {seed}: {why}\n{}", text()),
            Err(_) => panic!("{name}, seed {seed}: a panic on\n{}", text()),
        }
        n += 1;
    }
    assert!(0 < n_good && n_good < n, "{name}: {n_good} of {n} files were usable");
    eprintln!("{name}: {n} files from seed {first}, {n_good} of them usable");
}
