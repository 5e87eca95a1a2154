//! A program as numbered lines, and which line belongs to which command.

use spanlift::Program;

/// The text of a program beside its timeline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The lines of the text form.
    pub lines: Vec<String>,
    /// For each command the position of its line.
    of_command: Vec<usize>,
    /// For each line its first command.
    of_line: Vec<Option<usize>>,
}

impl Listing {
    /// The listing of a program that nobody wrote by hand, and the program that knows its lines.
    pub fn written(program: &Program) -> (Listing, Program) {
        let text = program.to_text();
        let again = Program::from_text(&text).ok().filter(|again| again.len() == program.len());
        let program = again.unwrap_or_else(|| program.clone());
        (Listing::of(&text, &program), program)
    }

    /// The listing of the text that a program was read from, comments and loops as their author wrote them.
    pub fn of(text: &str, program: &Program) -> Listing {
        let lines: Vec<String> =
            text.lines().map(|line| crate::text::clean(&line.replace('\t', "    "))).collect();
        let line = |k: usize| {
            let number = usize::try_from(program.line(k)?).ok()?;
            number.checked_sub(1).filter(|&line| line < lines.len())
        };
        let of_command: Vec<usize> = (0..program.len()).map(|k| line(k).unwrap_or(usize::MAX)).collect();
        let mut of_line = vec![None; lines.len()];
        for (command, &line) in of_command.iter().enumerate() {
            if let Some(slot) = of_line.get_mut(line)
                && slot.is_none()
            {
                *slot = Some(command);
            }
        }
        Listing { lines, of_command, of_line }
    }

    /// The position of a command's line.
    pub fn line_of(&self, command: usize) -> Option<usize> {
        self.of_command.get(command).copied().filter(|&line| line != usize::MAX)
    }

    /// The first command of a line; blank lines and headings have none.
    pub fn command_of(&self, line: usize) -> Option<usize> {
        self.of_line.get(line).copied().flatten()
    }

    /// A command's line in words, without its blanks at the ends.
    pub fn text_of(&self, command: usize) -> Option<&str> {
        self.line_of(command).map(|line| self.lines[line].trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlift::{mib, us};

    #[test]
    fn commands_and_lines_find_each_other() {
        let mut p = Program::new();
        let (copy, compute) = (p.stream("copy"), p.stream("compute"));
        let x = p.pinned("x", mib(4));
        let d = p.device(0, "d", mib(4));
        let up = p.copy(d, x).on(copy);
        let kernel = p.kernel("scale").reads(d).writes(d).takes(us(120)).on(compute);
        let (listing, again) = Listing::written(&p);
        assert_eq!(again, p);
        assert!(listing.text_of(up).unwrap().starts_with("copy"), "{listing:?}");
        assert!(listing.text_of(kernel).unwrap().contains("scale"));
        for command in 0..p.len() {
            let line = listing.line_of(command).unwrap();
            assert!(listing.command_of(line).unwrap() <= command);
        }
        assert_eq!(listing.line_of(99), None);
    }

    #[test]
    fn a_loop_is_listed_as_it_was_written() {
        let text = "stream s\npinned x 4\ndevice d 4   # one\nrepeat i 3\n\tcopy d <- x on s\nend\nsync s\n";
        let program = Program::from_text(text).unwrap();
        let listing = Listing::of(text, &program);
        assert_eq!(listing.lines.len(), 7);
        assert_eq!([3, 4, 5].map(|k| listing.line_of(k)), [Some(4); 3]);
        assert_eq!((listing.command_of(4), listing.command_of(5)), (Some(3), None));
        assert_eq!(listing.text_of(3), Some("copy d <- x on s"));
    }
}
