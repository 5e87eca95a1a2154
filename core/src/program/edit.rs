//! Programs made from others: commands put in, taken out and replaced.

use std::sync::Arc;

use super::command::Command;
use super::{Program, json, text};

/// A change to a program; positions are those before any change.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// A command in front of the one at `before`, or at the end; several at one place stay in their order.
    Insert {
        /// Index of the command that it goes before.
        before: usize,
        /// What is put in.
        command: Command,
    },
    /// The command at this index goes.
    Remove(usize),
    /// The command at `at` becomes another.
    Replace {
        /// Its index.
        at: usize,
        /// What stands there instead.
        command: Command,
    },
}

impl Program {
    /// The program with these changes; commands of it have no lines, since no text says them yet.
    ///
    /// Nothing is judged: see [`Program::check`].
    ///
    /// ```
    /// use spanlift::Program;
    /// use spanlift::program::{Command, Edit, Op, ThreadId};
    ///
    /// let p = Program::from_text("stream s\npinned x 8\nwrite x")?;
    /// let command = Command { op: p.commands()[2].op.clone(), thread: ThreadId::FIRST, label: Some("again".into()) };
    /// let q = p.edited(&[Edit::Insert { before: 2, command }, Edit::Remove(0)]);
    /// assert_eq!(q.to_text(), "pinned  x 8\nwrite   x \"again\"\nwrite   x\n");
    /// # Ok::<(), spanlift::program::ReadError>(())
    /// ```
    #[must_use = "the program itself stays as it is"]
    pub fn edited(&self, edits: &[Edit]) -> Program {
        let mut out = Program {
            title: self.title.clone(),
            machine: self.machine.clone(),
            names: Arc::clone(&self.names),
            ..Program::default()
        };
        for index in 0..=self.len() {
            let mut here = self.commands().get(index);
            for edit in edits {
                match edit {
                    Edit::Insert { before, command } if *before == index => out.append(command),
                    Edit::Remove(at) if *at == index => here = None,
                    Edit::Replace { at, command } if *at == index => here = Some(command),
                    _ => {}
                }
            }
            if let Some(command) = here {
                out.append(command);
            }
        }
        out
    }

    /// Puts a command in front of the one at `at`: as [`Program::edited`] does, in place.
    pub(crate) fn insert(&mut self, at: usize, command: Command) {
        (self.machine_line, self.lines) = (None, Arc::default());
        Arc::make_mut(&mut self.commands).insert(at, command);
        for declared in Arc::make_mut(&mut self.allocs).iter_mut().flatten() {
            declared.index += usize::from(at <= declared.index);
        }
    }

    /// Adds a command as it is, thread and label included.
    pub(crate) fn append(&mut self, command: &Command) {
        let Command { op, thread, label } = command.clone();
        self.by(thread, |p| p.push_labelled(op, label.as_deref()));
    }

    /// Command `index` as a line of the text form.
    ///
    /// # Panics
    /// When there is no such command.
    pub fn command_text(&self, index: usize) -> String {
        self.text_of(&self.commands()[index], index)
    }

    /// A command over this program's names as the line that would say it in front of command `index`.
    pub fn text_of(&self, command: &Command, index: usize) -> String {
        text::write_command(self, command, index)
    }

    /// A command over this program's names as an object of the JSON form.
    pub fn json_of(&self, command: &Command) -> String {
        json::write_command(self, command)
    }
}
