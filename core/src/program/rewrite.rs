//! Programs made from others, command by command.

use super::{Command, Program};

impl Program {
    /// The program that `with` makes of each command in turn, and which command each of its own was made for. Names,
    /// title and machine are kept, and so are lines of the text form.
    ///
    /// Nothing is judged: see [`Program::check`].
    pub(crate) fn rewritten(
        &self,
        mut with: impl FnMut(&mut Program, usize, &Command),
    ) -> (Program, Vec<usize>) {
        let mut out = Program {
            title: self.title.clone(),
            machine: self.machine.clone(),
            names: self.names.clone(),
            ..Program::default()
        };
        let (mut from, mut lines) = (Vec::with_capacity(self.len()), Vec::new());
        for (index, command) in self.commands().iter().enumerate() {
            with(&mut out, index, command);
            from.resize(out.len(), index);
            if let Some(line) = self.line(index) {
                lines.resize(out.len(), line);
            }
        }
        out.lines = lines.into();
        (out, from)
    }
}
