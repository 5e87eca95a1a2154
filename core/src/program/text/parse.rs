//! Reads a text: its lines and loops, from the top.

use std::io::{BufRead, Read};

use super::lex::{Cursor, Fault, is_word_char};
use super::repeat::{
    MAX_BYTES, MAX_UNROLLED, MAX_WORDS, Node, Variable, closes, first_word, substitute, tree, without_comment,
};
use super::statement::{Statement, fits};
use crate::ordered::sort_by_key;
use crate::program::check::problems_above;
use crate::program::command::ThreadId;
use crate::program::stream::{Rest, Taker};
use crate::program::{LineProblem, LineProblems, Problem, Program, ReadError};

/// Bad lines that are told of.
const MAX_FAULTS: usize = 50;

pub(in crate::program) fn read(text: &str) -> Result<Program, ReadError> {
    let mut reader = Reader::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let nodes = tree(text, 1, |line, message| reader.faults.push(LineProblem { line, message }));
    reader.nodes(&nodes, &mut Vec::new());
    let Reader { program, faults, .. } = reader;
    if let Some(first) = faults.iter().map(|fault| fault.line).min() {
        return Err(LineProblems(faults).and_above(problems_above(&program, first)).into());
    }
    program.check()?;
    Ok(program)
}

impl LineProblems {
    /// With problems of commands, as far as those stand above the first bad line.
    ///
    /// Commands below a line that says nothing may be wrong because of it; those above are wrong without it.
    pub(crate) fn and_above(self, problems: Vec<Problem>) -> LineProblems {
        let LineProblems(mut faults) = self;
        let first = faults.iter().map(|fault| fault.line).min();
        let above = |Problem { line, message, .. }: Problem| {
            line.filter(|line| first.is_none_or(|first| *line < first))
                .map(|line| LineProblem { line, message })
        };
        faults.extend(problems.into_iter().filter_map(above));
        sort_by_key(&mut faults, |fault| fault.line);
        faults.truncate(MAX_FAULTS);
        LineProblems(faults)
    }
}

/// Bytes that a line, or a loop with all lines in it, may have where a file is not read as a whole.
const MAX_PIECE: usize = 1 << 26;

/// Hands every command on as soon as its line is read; `skipped` bytes stood before.
pub(in crate::program) fn read_each(
    mut input: impl BufRead,
    skipped: usize,
    take: &mut Taker<'_>,
) -> Result<Rest, ReadError> {
    let mut reader = Reader { take: Some(take), ..Reader::default() };
    let (mut line, mut offset) = (0u32, skipped);
    let mut piece = String::new();
    loop {
        // A line, and from a `repeat` on all lines up to its `end`.
        piece.clear();
        let (first, mut depth) = (line.saturating_add(1), 0usize);
        loop {
            let begins = piece.len();
            let syntax = |message: String| ReadError::Syntax { offset: offset + begins, message };
            let room = (MAX_PIECE - begins.min(MAX_PIECE)) as u64 + 1;
            let mut bytes = Vec::new();
            let n =
                (&mut input).take(room).read_until(b'\n', &mut bytes).map_err(|e| syntax(e.to_string()))?;
            let text =
                std::str::from_utf8(&bytes).map_err(|_| syntax("the file is no UTF-8 text".to_owned()))?;
            piece.push_str(text);
            if MAX_PIECE < piece.len() {
                return Err(syntax(format!("a line or loop of more than {MAX_PIECE} bytes")));
            }
            line = line.saturating_add(u32::from(0 < n));
            let text = text.trim();
            match first_word(text) {
                "repeat" => depth += 1,
                "end" if closes(text) => depth = depth.saturating_sub(1),
                _ => {}
            }
            if n == 0 || depth == 0 {
                break;
            }
        }
        if piece.is_empty() {
            break;
        }
        offset += piece.len();
        let faults = &mut reader.faults;
        let nodes = tree(&piece, first, |line, message| faults.push(LineProblem { line, message }));
        reader.nodes(&nodes, &mut Vec::new());
        if MAX_FAULTS <= reader.faults.len() {
            break;
        }
    }
    let Reader { program, faults, .. } = reader;
    if !faults.is_empty() {
        return Err(LineProblems(faults).and_above(Vec::new()).into());
    }
    Ok(Rest { program, problems: Vec::new() })
}

#[derive(Default)]
struct Reader<'t, 'u> {
    program: Program,
    /// Who takes the commands, where they are not kept.
    take: Option<&'t mut Taker<'u>>,
    faults: Vec<LineProblem>,
    /// Commands of lines that stand in no loop.
    n_plain: usize,
    /// Lines that loops have unrolled to.
    n_unrolled: usize,
    /// Words and marks of those lines.
    n_words: usize,
    /// Bytes of those lines.
    n_bytes: usize,
    has_title: bool,
}

impl Reader<'_, '_> {
    /// Reads lines and loops; `false` when a line was bad and no more rounds should be made.
    fn nodes(&mut self, nodes: &[Node<'_>], variables: &mut Vec<Variable>) -> bool {
        let n_faults = self.faults.len();
        for node in nodes {
            if MAX_FAULTS <= self.faults.len() {
                break;
            }
            if let Err(message) = self.node(node, variables) {
                self.faults.push(LineProblem { line: node.line(), message });
            }
        }
        self.faults.len() == n_faults
    }

    fn node(&mut self, node: &Node<'_>, variables: &mut Vec<Variable>) -> Result<(), Fault> {
        match node {
            Node::Line { line, text } => {
                let n = self.program.len();
                let had_machine = self.program.machine.is_some();
                let result = if variables.is_empty() {
                    let result = self.line(text, false);
                    self.n_plain += self.program.len() - n;
                    result
                } else {
                    self.n_unrolled += 1;
                    self.n_bytes += text.len();
                    let now = substitute(without_comment(text), variables)?;
                    self.n_bytes += now.len().saturating_sub(text.len());
                    self.line(&now, true)
                };
                self.program.note_line(*line);
                if !had_machine && self.program.machine.is_some() {
                    self.program.note_machine_line(*line);
                }
                if let Some(take) = &mut self.take {
                    self.program.hand_on(&mut **take, None);
                }
                result
            }
            Node::Repeat { header, body, least, .. } => {
                if !variables.is_empty() {
                    self.n_unrolled += 1;
                }
                let header_now = substitute(without_comment(header), variables)?;
                let mut c = Cursor::new(&header_now)?;
                c.step();
                let name = c.name("a name that counts the rounds")?.to_owned();
                let count = c.int("the number of rounds")?;
                c.end()?;
                if count < 0 {
                    return Err(format!("{count} rounds, at least 0 are needed"));
                }
                self.rounds(name, count, body, *least, variables)
            }
        }
    }

    fn rounds(
        &mut self,
        name: String,
        count: i64,
        body: &[Node<'_>],
        least: [usize; 2],
        variables: &mut Vec<Variable>,
    ) -> Result<(), Fault> {
        // Mostly known before the first round; a loop without lines takes no time at all.
        let all = least.map(|of_round| usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(of_round));
        self.unrolls_to(all)?;
        if body.is_empty() {
            return Ok(());
        }
        variables.push((name, 0));
        for round in 0..count {
            if let Some((_, value)) = variables.last_mut() {
                *value = round;
            }
            if !self.nodes(body, variables) {
                break; // the other rounds would say the same
            }
            if let Err(too_long) = self.unrolls_to([0; 2]) {
                variables.pop();
                return Err(too_long);
            }
        }
        variables.pop();
        Ok(())
    }

    /// Whether loops unroll to no more than they may, with so many more lines and bytes.
    fn unrolls_to(&self, [lines, bytes]: [usize; 2]) -> Result<(), Fault> {
        let n_lines = self.n_unrolled.saturating_add(lines).max(self.program.len() - self.n_plain);
        let limits = [
            (n_lines, MAX_UNROLLED, "lines"),
            (self.n_words, MAX_WORDS, "words and marks"),
            (self.n_bytes.saturating_add(bytes), MAX_BYTES, "bytes"),
        ];
        match limits.into_iter().find(|(n, most, _)| most < n) {
            Some((_, most, what)) => Err(format!("the loops unroll to more than {most} {what}")),
            None => Ok(()),
        }
    }

    fn line(&mut self, text: &str, repeated: bool) -> Result<(), Fault> {
        if let Some(rest) = text.strip_prefix("title")
            && !rest.starts_with(|c| is_word_char(c) || c == ':')
        {
            return if repeated {
                Err("`title` stands outside of loops".to_owned())
            } else {
                self.title(rest)
            };
        }
        let mut c = Cursor::new(text)?;
        self.n_words += if repeated { c.len() } else { 0 };
        if c.mark_ahead(1, ":") {
            let thread = self.thread(c.name("a host thread")?)?;
            c.step();
            let mine = matches!(c.peek_word(), Some("stream" | "spawn" | "join" | "machine" | "title"));
            if mine && thread != ThreadId::FIRST {
                return c.expected("a call that other threads than `main` can make");
            }
            let mut done = Ok(());
            self.program.by(thread, |program| {
                done = Statement { program, repeated }.read(&mut c);
            });
            done
        } else {
            Statement { program: &mut self.program, repeated }.read(&mut c)
        }
    }

    fn title(&mut self, rest: &str) -> Result<(), Fault> {
        let rest = rest.trim();
        if std::mem::replace(&mut self.has_title, true) {
            return Err("the program has a title already".to_owned());
        }
        self.program.title = if rest.starts_with('"') {
            let mut c = Cursor::new(rest)?;
            let title = c.name("a title")?.to_owned();
            c.end()?;
            title
        } else {
            rest.to_owned()
        };
        Ok(())
    }

    fn thread(&mut self, name: &str) -> Result<ThreadId, Fault> {
        fits(self.program.names_mut().threads.intern(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that are long by what loop variables become, or by words, are counted as they are read.
    #[test]
    fn what_loops_unroll_to_is_bounded_in_words_and_bytes() {
        let text = "stream s\nrepeat i 9\nrepeat j {i}\nsync s\nend\nend";
        let read = |before: Reader<'_, '_>| {
            let mut reader = before;
            let nodes = tree(text, 1, |_, _| unreachable!("loops are closed"));
            reader.nodes(&nodes, &mut Vec::new());
            reader.faults.into_iter().map(|fault| (fault.line, fault.message)).collect::<Vec<_>>()
        };
        assert_eq!(read(Reader::default()), []);
        let room = MAX_WORDS - 36 * 2;
        assert_eq!(read(Reader { n_words: room, ..Reader::default() }), []);
        let told = (3, format!("the loops unroll to more than {MAX_WORDS} words and marks"));
        assert_eq!(read(Reader { n_words: room + 1, ..Reader::default() }), [told]);
        let room = MAX_BYTES - 36 * "sync s".len();
        assert_eq!(read(Reader { n_bytes: room, ..Reader::default() }), []);
        let told = (3, format!("the loops unroll to more than {MAX_BYTES} bytes"));
        assert_eq!(read(Reader { n_bytes: room + 1, ..Reader::default() }), [told]);
    }
}
