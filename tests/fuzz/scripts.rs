//! Operators as text.

use spanlift::op::{Complex64, Space, Weights};
use spanlift::plan::Script;

use crate::kit::{fuzz, mutated};

/// Good scripts: every statement, functions of every kind, and what is made of operators.
const GOOD: &[&str] = &[
    "operator three # of them\nW = diagonal(f64[x=3]@cuda:0, [1, 2, 3])\ninput ones\nshow to(cuda:0) -> W.tiles(x=2) -> to(cpu)",
    "# first\noperator\nmachine h200-pcie5\ncap cuda:0 4MiB\nahead 1\nX = c64[y=2, x=8]\ninput random(7)\n\
     A = fft(x).over(X) -> select(kx, [0, 1, 3..6])\n  -> to(mock:0)\nB = A.normal + 0.5\nshow normal(B) - 2i * B",
    "operator\nD = dense(f32[x=4], [m=3], ramp(0, 0.5))\nE = D.split(x, 2, [cuda:0, cuda:1])\nshow (E^H -> E)^2^T",
    "operator\nL = f64[x=12]\nG = gradient(g, x).boundary(zero).over(L)\nC = convolution([x=3], [1, -2, 1]).mode(full).over(L)\n\
     show stack([(G -> G^H), finite_difference(x, periodic).over(L).simplify, C -> C.h], out=k)",
    "operator\nP = pad(x, 16).named(z) -> fft(z).centered.named(u) -> crop(u, 12).named(v) -> roll(v, -3) -> flip(v)\n\
     show block_diag([P.over(c32[x=8]), blocks(x=[3, 2]).over(c32[x=7])])",
    "operator\nN = nufft(k, x=[0.25, -1.5, 3e-1]).width(4).over(c64[x=8])\nI = interpolate(p, x=[0.5, 2.5]).kernel(linear, 2)\n\
     show (N -> N^H).polynomial([1, 0.5])\n",
];

const WORDS: &[&[u8]] = &[
    b"->",
    b"..",
    b"^H",
    b"^4000000000",
    b"^2^2^2^2",
    b".normal",
    b".tiles(x=1)",
    b".over(f64[x=4194304])",
    b"(((((((((((((((((",
    b"[[[[[[",
    b"))",
    b"]",
    b"-",
    b"- - -",
    b" / 0",
    b" * 1e308",
    b"#",
    b"\r\n",
    b"\0",
    b"=",
    b"@cuda:18446744073709551615",
    b"4194304",
    b"2i",
    b"1e308",
    b"random(9)",
    b"brought",
    b"repeat(r, 4000000)",
    b"pad(x, 4194304)",
    b"show ",
    b"input ",
    b"ahead 18446744073709551615\n",
    b"cap cuda:0 0\n",
    "\u{feff}".as_bytes(),
    "\u{3b1}".as_bytes(),
];

/// A rule that has values for some spaces only.
fn brought(space: &Space) -> Result<Vec<Complex64>, String> {
    match space.elements() {
        n if n < 100 => Ok((0..n).map(|_| Complex64::from(0.5)).collect()),
        n => Err(format!("nothing for {n} elements")),
    }
}

/// What is read has a formula and an input that fits, and is written as JSON; an error has a line of the text and words.
fn judge(bytes: &[u8]) -> Result<bool, String> {
    let text = String::from_utf8_lossy(bytes);
    let script = match Script::read_with(&text, &[("brought", brought)]) {
        Err(e) if e.line == 0 || text.lines().count().max(1) < e.line => {
            return Err(format!("no such line: {e}"));
        }
        Err(e) if e.message.is_empty() || e.message.contains('\n') => {
            return Err(format!("not one line: {e}"));
        }
        Err(e) => {
            let line = text.lines().nth(e.line - 1).unwrap_or_default();
            let beyond = e.column == 0 || line.chars().count() + 1 < e.column;
            return if beyond { Err(format!("no such column: {e}")) } else { Ok(false) };
        }
        Ok(script) => script,
    };
    let operator = script.operator();
    if script.input().is_some_and(|x| x.space() != operator.domain()) {
        return Err("an input of another space".to_owned());
    }
    operator.to_json(Weights::Inline).map_err(|e| e.to_string())?;
    Ok(Script::is_one(&text))
}

#[test]
fn damaged_scripts_get_an_answer() {
    let corpus: Vec<Vec<u8>> = GOOD.iter().map(|text| text.as_bytes().to_vec()).collect();
    for text in GOOD {
        assert_eq!(judge(text.as_bytes()), Ok(true), "{:?}\n{text}", Script::read(text).err());
    }
    fuzz("scripts", 4000, |r| mutated(r, &corpus, WORDS, 1 << 16), |bytes, _| judge(bytes));
}
