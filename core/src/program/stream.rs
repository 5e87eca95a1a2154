//! Program files read one command at a time: each is handed on and forgotten.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;
use std::sync::Arc;

use super::check::Broken;
use super::command::Command;
use super::{Names, Problem, Program, ReadError, json, text};

/// Takes each command with its index, what it declares where it could not be read, and the names so far.
pub(crate) type Taker<'t> = dyn FnMut(&Program, usize, &Command, Option<&Broken>) + 't;

/// What is left of a program whose commands were handed on.
pub(crate) struct Rest {
    /// Names and lines; no command.
    pub(crate) program: Program,
    /// Commands that could not be read.
    pub(crate) problems: Vec<Problem>,
}

/// Reads a program file of either form, as [`Program::read`] does, and hands every command on.
///
/// # Errors
/// [`ReadError::Syntax`] and [`ReadError::Lines`]; whether the commands make a program is the taker's business.
pub(crate) fn read_each(mut input: impl BufRead, take: &mut Taker<'_>) -> Result<Rest, ReadError> {
    let skipped = skip_mark(&mut input)?;
    let (blanks, first) = skip_blanks(&mut input)?;
    match first {
        None => {
            Err(ReadError::Syntax { offset: skipped + blanks.len(), message: "the file is empty".to_owned() })
        }
        // Bytes and lines are counted from the first one.
        Some(b'{') => json::read_each(blanks.as_slice().chain(input), skipped, take),
        Some(_) => text::read_each(blanks.as_slice().chain(input), skipped, take),
    }
}

/// Leaves out a byte order mark; how many bytes that were.
fn skip_mark(input: &mut impl BufRead) -> Result<usize, ReadError> {
    let has_mark = peek(input, 0)?.starts_with(b"\xef\xbb\xbf");
    if has_mark {
        input.consume(3);
    }
    Ok(if has_mark { 3 } else { 0 })
}

/// Blank bytes that a file may begin with.
const MOST_BLANKS: usize = 1 << 20;

/// Takes the blanks in front, and looks at what follows.
fn skip_blanks(input: &mut impl BufRead) -> Result<(Vec<u8>, Option<u8>), ReadError> {
    let mut blanks = Vec::new();
    loop {
        let here = peek(input, blanks.len())?;
        let n = here.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let next = here.get(n).copied();
        blanks.extend_from_slice(&here[..n]);
        input.consume(n);
        if next.is_some() || n == 0 {
            return Ok((blanks, next));
        }
        if MOST_BLANKS < blanks.len() {
            let message = format!("the file begins with more than {MOST_BLANKS} blanks");
            return Err(ReadError::Syntax { offset: blanks.len(), message });
        }
    }
}

fn peek(input: &mut impl BufRead, offset: usize) -> Result<&[u8], ReadError> {
    input.fill_buf().map_err(|e| ReadError::Syntax { offset, message: e.to_string() })
}

impl Program {
    /// Hands all commands on; the names, lines and declarations stay.
    pub(super) fn hand_on(&mut self, take: &mut Taker<'_>, broken: Option<&Broken>) {
        let mut commands = std::mem::take(Arc::make_mut(&mut self.commands));
        for (k, command) in commands.iter().enumerate() {
            let index = self.n_gone + k;
            take(self, index, command, broken.filter(|b| b.index == index));
        }
        self.n_gone += commands.len();
        commands.clear();
        // The room is used again.
        self.commands = Arc::new(commands);
    }

    /// A program of no commands over names that there are already.
    pub(crate) fn over(names: Names) -> Program {
        Program { names: Arc::new(names), ..Program::default() }
    }

    /// Notes the line of all commands that have none yet.
    pub(super) fn note_line(&mut self, line: u32) {
        let n = self.len();
        Arc::make_mut(&mut self.lines).resize(n, line);
    }

    /// Notes the line that names the machine.
    pub(crate) fn note_machine_line(&mut self, line: u32) {
        self.machine_line = Some(line);
    }
}

/// Notes what is read of a file, of which nothing is kept.
pub(super) struct Noted<R> {
    pub(super) inner: R,
    pub(super) lines: Rc<Lines>,
}

/// How many bytes and lines were read, and where the last lines begin.
#[derive(Default)]
pub(super) struct Lines {
    n_bytes: Cell<usize>,
    n: Cell<usize>,
    begin: [Cell<usize>; 16],
}

impl Lines {
    /// Where an error is whose reader has gone on behind it, by a few lines at most; of a value that cannot be, to within the byte
    /// looked ahead at.
    pub(super) fn offset(&self, error: &serde_json::Error) -> usize {
        let line = error.line().saturating_sub(1);
        if self.begin.len() <= self.n.get().saturating_sub(line) {
            return self.n_bytes.get();
        }
        // The column is that of the byte met last, from 1; at the end of the file that is the byte before the missing one.
        self.begin[line % self.begin.len()].get()
            + error.column().saturating_sub(usize::from(!error.is_eof()))
    }
}

impl<R: Read> Read for Noted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(room)?;
        let Lines { n_bytes, n: n_lines, begin } = &*self.lines;
        for byte in &room[..n] {
            n_bytes.set(n_bytes.get() + 1);
            if *byte == b'\n' {
                n_lines.set(n_lines.get() + 1);
                begin[n_lines.get() % begin.len()].set(n_bytes.get());
            }
        }
        Ok(n)
    }
}
