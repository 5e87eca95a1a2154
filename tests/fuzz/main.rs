//! The readers of programs against bytes that somebody damaged: an answer or an error, never a panic, and the same answer
//! whether a file is read first or command by command.
//!
//! Seeded and driven by mutations of good files in both forms. `SPANLIFT_FUZZ` gives the number of inputs; without it the
//! tests try as many as take a few seconds. A failure prints the seed and the input.

use std::panic::{AssertUnwindSafe, catch_unwind};

use spanlift::hazard::{self, Mode, check_read};
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{self, OpError, Operator, Reader, Space, Weights, to};
use spanlift::{Program, chain};

/// A small generator of its own, so that a seed names the same input for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap_or_default()
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Good files to start from: every case of the checker's table, in both forms.
fn corpus() -> Vec<Vec<u8>> {
    let table = include_str!("../../core/tests/data/hazards.txt");
    let cases = table.split("\n#= ").skip(1).filter_map(|case| case.split_once('\n'));
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    for (_, text) in cases {
        let program = Program::from_text(text).expect("a case of the table");
        corpus.push(text.as_bytes().to_vec());
        corpus.push(program.to_json().into_bytes());
    }
    corpus.push(b"repeat i 4\nstream s{i}\nrepeat k 3\ndevice d{i}x{k} 4KiB\nkernel on s{(i+k)%4} writes d{i}x{k}[{k}..]\nend\nend".to_vec());
    corpus.push(b"worker: write x = f32 ramp 0 0.5\nread x[4 at 16, 64 every 256] expect seed 7\nwork pin_overhead 3us".to_vec());
    corpus
}

/// Pieces that mean something to a reader.
const WORDS: &[&str] = &[
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "1e308",
    "0",
    "-1",
    "4294967296",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\\u0000",
    "\u{feff}",
    "repeat i 300\n",
    "repeat i 3000000\n",
    "end\n",
    "{i*i*i}",
    "end capture s as g\n",
    "capture s\n",
    "launch g on s\n",
    "{\"op\":\"capture_begin\",\"s\":\"s\"},",
    "{\"op\":\"free\",\"buf\":\"d\",\"via\":\"free\"},",
    "free d\n",
    "destroy event e\n",
    "destroy stream s\n",
    "wait e on s\n",
    "record e on s\n",
    "sync s\n",
    "join main\n",
    "spawn w\n",
    "\"dims\":[[9223372036854775807,1]],\"elem\":1",
    "\"len\":-1",
    "opaque",
    "via malloc_async",
    "reuse d",
    "blocking",
    " 1099511627776 every -1",
    "0@4095",
    "0@4096",
    "main: ",
];

/// A damaged copy of one of the inputs.
fn mutated(r: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = r.pick(corpus).clone();
    for _ in 0..1 + r.below(6) {
        let at = r.below(bytes.len() + 1);
        match r.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << r.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.splice(at..at, r.pick(WORDS).bytes())),
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
                    drop(bytes.splice(from..end, r.pick(&WORDS[..7]).bytes()));
                }
            }
            _ => {
                // A name becomes another one.
                let (from, to) = (*r.pick(b"sdxabe"), *r.pick(b"sdxabe"));
                bytes.iter_mut().filter(|b| **b == from).take(1 + at % 5).for_each(|b| *b = to);
            }
        }
        bytes.truncate(1 << 16);
    }
    bytes
}

/// Reads and checks an input in every way; what is said must agree.
fn judge(bytes: &[u8]) -> Result<bool, String> {
    let read = Program::read(bytes);
    for mode in [Mode::Contract, Mode::Typical] {
        let whole = match &read {
            Ok(program) => hazard::check(program, mode).map_err(|e| vec![e.to_string()]),
            Err(e) => Err(e.messages()),
        };
        let each = check_read(bytes, mode).map(|found| found.report);
        match (&whole, &each) {
            (Ok(a), Ok(b)) if a == b => {}
            (Err(messages), Err(_)) if !messages.is_empty() => {}
            _ => return Err(format!("{mode:?}: {whole:?}, but as it is read {each:?}")),
        }
    }
    let Ok(program) = &read else { return Ok(false) };
    for again in [Program::from_json(program.to_json().as_bytes()), Program::from_text(&program.to_text())] {
        match again {
            Ok(again) if again == *program => {}
            Ok(_) => return Err("it is written as another program".to_owned()),
            Err(e) => return Err(format!("what is written cannot be read: {e}")),
        }
    }
    Ok(true)
}

#[test]
fn damaged_files_get_an_answer() {
    let n: u64 = std::env::var("SPANLIFT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000);
    let first: u64 = std::env::var("SPANLIFT_FUZZ_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let corpus = corpus();
    let mut n_good = 0;
    for seed in first..first + n {
        let bytes = mutated(&mut Random(seed), &corpus);
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&bytes)));
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        match judged {
            Ok(Ok(is_good)) => n_good += u64::from(is_good),
            Ok(Err(why)) => panic!("seed {seed}: {why}\n{}", text()),
            Err(_) => panic!("seed {seed}: a panic on\n{}", text()),
        }
    }
    assert!(n / 20 < n_good && n_good < n, "{n_good} of {n} inputs were programs");
}

/// Good files of expressions: containers, transfers and every kind of leaf.
fn expressions() -> Result<Vec<Vec<u8>>, OpError> {
    let image = Space::new([("y", 4), ("x", 6)], Dtype::C32)?;
    let weights = op::dense(["m"], ["x"], [("m", 3), ("x", 6)], (0..18).map(f64::from), Dtype::C32)?;
    let diagonal: Operator = op::Diagonal::new(image.clone(), (0..24).map(f64::from))?.into();
    let kernel = op::Tensor::new([("x", 3)], [1.0, -2.0, 0.5])?;
    let f = op::fft(["x"]).over(image.on(mock(0)))?;
    let all = [
        chain![to(mock(0)), f, to(cpu()).after("ready")]?,
        chain![&diagonal, op::roll("y", 1), op::slice("x", 0..4, 1)]?,
        op::stack(Some(("k", 0)), None, [diagonal.clone(), diagonal.h()])?.normal(),
        op::sum([diagonal.clone(), diagonal.conj(), Operator::scale(0.5, image.clone())?])?.pow(2)?,
        op::convolution(["x"], &kernel).over(&image)?,
        op::finite_difference("x", op::Boundary::Periodic).over(&image)?,
        weights.split("x", 3, &[mock(0), mock(1)])?,
        op::block_diag([diagonal.clone(), diagonal])?,
    ];
    Ok(all.iter().filter_map(|a| a.to_json(Weights::Inline).ok()).map(String::into_bytes).collect())
}

#[test]
fn damaged_expressions_get_an_answer() {
    let n: u64 = std::env::var("SPANLIFT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    let corpus = expressions().expect("good expressions");
    assert_eq!(corpus.len(), 8);
    let mut n_good = 0;
    for seed in 1..=n {
        let bytes = mutated(&mut Random(seed), &corpus);
        let judged = catch_unwind(AssertUnwindSafe(|| match Reader::new().read(&bytes) {
            Err(error) => (!error.place.is_empty() && !error.problem.is_empty()).then_some(false),
            Ok(a) => {
                // Whatever is read can be turned, written and read again.
                let written = [a.clone(), a.h()].map(|a| a.to_json(Weights::Inline));
                let again = written.iter().all(|file| {
                    file.as_ref().is_ok_and(|file| {
                        Reader::new()
                            .read(file.as_bytes())
                            .is_ok_and(|b| b.to_json(Weights::Inline).as_ref() == Ok(file))
                    })
                });
                again.then_some(true)
            }
        }));
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        match judged {
            Ok(Some(is_good)) => n_good += u64::from(is_good),
            Ok(None) => panic!("seed {seed}: no place, or another file when it is written again\n{}", text()),
            Err(_) => panic!("seed {seed}: a panic on\n{}", text()),
        }
    }
    assert!(n_good > 0 && n_good < n, "{n_good} of {n} inputs were expressions");
}
