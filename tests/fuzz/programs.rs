//! Programs in both forms, and expressions of operators.

use spanlift::hazard::{self, Mode, check_read};
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{self, OpError, Operator, Reader, Space, Weights, to};
use spanlift::{Program, chain};

use crate::kit::{fuzz, mutated};

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
fn damaged_programs_get_an_answer_and_the_same_as_they_are_read() {
    let corpus = corpus();
    let words = words();
    fuzz("programs", 4000, |r| mutated(r, &corpus, &words, 1 << 16), |bytes, _| judge(bytes));
}

fn words() -> Vec<&'static [u8]> {
    WORDS.iter().map(|word| word.as_bytes()).collect()
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

/// Whatever is read can be turned, written and read again.
fn judge_expression(bytes: &[u8]) -> Result<bool, String> {
    let a = match Reader::new().read(bytes) {
        Err(e) if e.place.is_empty() || e.problem.is_empty() => return Err("no place".to_owned()),
        Err(_) => return Ok(false),
        Ok(a) => a,
    };
    for written in [a.to_json(Weights::Inline), a.h().to_json(Weights::Inline)] {
        let file = written.map_err(|e| e.to_string())?;
        let again = Reader::new().read(file.as_bytes()).map_err(|e| format!("{}: {}", e.place, e.problem))?;
        if again.to_json(Weights::Inline).as_ref() != Ok(&file) {
            return Err("another file when it is written again".to_owned());
        }
    }
    Ok(true)
}

#[test]
fn damaged_expressions_get_an_answer() {
    let corpus = expressions().expect("good expressions");
    assert_eq!(corpus.len(), 8);
    let words = words();
    fuzz("expressions", 3000, |r| mutated(r, &corpus, &words, 1 << 16), |bytes, _| judge_expression(bytes));
}
