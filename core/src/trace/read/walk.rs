//! The walk over a trace file's outline: the top-level object or list, its members, its events one after the other.
//!
//! It works on a window of the text and can stop wherever the window ends, so that a file of any size is read in
//! pieces. Who wants the events is a [`Sink`].

use super::ReadError;
use super::event::{self, Fields};
use super::scan::{Cursor, Lenient, Value};
use super::shapes::Shapes;

/// Who takes what the walk finds.
pub(in crate::trace) trait Sink {
    /// An event.
    fn event(&mut self, fields: &Fields<'_>);

    /// An element of the list that is no object.
    fn no_object(&mut self);

    /// A list of events begins; `again` when there was one before, which no longer counts.
    fn list(&mut self, again: bool);

    /// A top-level member other than the list of events: its value, and the text that it stands in from byte `offset`.
    ///
    /// # Errors
    /// What is wrong with it so that nothing of the file can be used.
    fn member(&mut self, key: &str, value: Value<'_>, text: &str, offset: usize) -> Result<(), ReadError>;

    /// Something is wrong with the file that no event is to blame for.
    fn problem(&mut self, name: &'static str);

    /// How many events there were.
    fn n_events(&self) -> u64;
}

/// Where in the outline the walk is: what is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Start,
    FirstMember,
    Member,
    FirstEvent,
    Event,
    /// A comma or the list's end.
    AfterEvent,
    /// A comma or the object's end.
    AfterMember,
    /// White space up to the end.
    Nothing,
}

/// A walk that was begun.
#[derive(Debug)]
pub(in crate::trace) struct Walk {
    due: Due,
    /// The events are a bare list.
    bare: bool,
    /// There was a list of events.
    listed: bool,
    trailing: bool,
    /// Where the last thing ended that was taken as a whole, and what was let through up to there.
    whole: (usize, Lenient),
    shapes: Shapes,
    names: Names,
}

/// The names of the top-level members so far, in order, to see which one comes twice.
///
/// It stops taking new ones at [`Names::MOST`]: no trace has so many, and a hostile one costs no more than that.
#[derive(Debug, Default)]
struct Names {
    known: Vec<Box<str>>,
    /// How many came again and are not told yet.
    again: u64,
}

impl Names {
    const MOST: usize = 4096;

    fn take(&mut self, name: &str) {
        match self.known.binary_search_by(|known| (**known).cmp(name)) {
            Ok(_) => self.again += 1,
            Err(at) if self.known.len() < Names::MOST && name.len() <= Names::MOST => {
                self.known.insert(at, name.into());
            }
            Err(_) => {}
        }
    }
}

impl Walk {
    pub(in crate::trace) fn new() -> Walk {
        Walk {
            due: Due::Start,
            bare: false,
            listed: false,
            trailing: false,
            whole: (0, Lenient::default()),
            shapes: Shapes::new(),
            names: Names::default(),
        }
    }

    /// Walks on, from the cursor to the end of its window; `last` when the text ends there too.
    ///
    /// Where more text is needed, the cursor is left at the beginning of what is not whole yet.
    ///
    /// # Errors
    /// The first thing that makes the file unusable, with its place in the whole text.
    pub(in crate::trace) fn walk(
        &mut self,
        cursor: &mut Cursor<'_>,
        last: bool,
        sink: &mut impl Sink,
    ) -> Result<(), ReadError> {
        while self.due != Due::Nothing {
            self.whole = (cursor.at, cursor.lenient);
            let Err(error) = self.step(cursor, last, sink) else { continue };
            if !last && cursor.is_near_end() {
                (cursor.at, cursor.lenient) = self.whole;
                return Ok(());
            }
            return Err(match error {
                // What is missing at the end is told as what it is.
                ReadError::Syntax { .. } if cursor.is_at_end() && self.due != Due::Start => {
                    ReadError::Truncated { offset: cursor.offset(cursor.at), events: sink.n_events() }
                }
                other => other,
            });
        }
        if !self.listed {
            return Err(cursor.fault("the object has no list traceEvents"));
        }
        // Told last: a second list of events forgets the problems of the first.
        for _ in 0..std::mem::take(&mut self.names.again) {
            sink.problem("duplicate_key");
        }
        cursor.peek();
        if !cursor.is_at_end() {
            if !self.trailing {
                self.trailing = true;
                sink.problem("trailing_text");
            }
            cursor.skip_rest();
        }
        Ok(())
    }

    /// Takes what is due as a whole, or fails and leaves no trace of it in the sink.
    fn step(&mut self, cursor: &mut Cursor<'_>, last: bool, sink: &mut impl Sink) -> Result<(), ReadError> {
        match self.due {
            Due::Start => self.start(cursor, sink),
            Due::FirstMember => {
                if cursor.take(b'}') {
                    self.due = Due::Nothing;
                } else if cursor.is_at_end() {
                    return Err(cursor.error("a name in quotes"));
                } else {
                    self.due = Due::Member;
                }
                Ok(())
            }
            Due::Member => self.member(cursor, sink),
            Due::AfterMember => {
                self.due = if cursor.another(b'}')? { Due::Member } else { Due::Nothing };
                Ok(())
            }
            Due::FirstEvent => {
                if cursor.take(b']') {
                    self.due = self.after_list();
                } else if cursor.is_at_end() && !(self.bare && last) {
                    return Err(cursor.error("an event"));
                } else {
                    self.due = Due::Event;
                }
                Ok(())
            }
            Due::Event | Due::AfterEvent => self.events(cursor, last, sink),
            Due::Nothing => Ok(()),
        }
    }

    fn start(&mut self, cursor: &mut Cursor<'_>, sink: &mut impl Sink) -> Result<(), ReadError> {
        if cursor.peek() == 0xef && cursor.starts_with("\u{feff}") {
            cursor.at += '\u{feff}'.len_utf8();
        }
        match cursor.peek() {
            b'{' => self.due = Due::FirstMember,
            b'[' => {
                (self.bare, self.listed, self.due) = (true, true, Due::FirstEvent);
                sink.list(false);
            }
            _ if cursor.is_at_end() => return Err(cursor.fault("the file is empty")),
            _ => return Err(cursor.error("an object with traceEvents, or a list of events")),
        }
        cursor.at += 1;
        Ok(())
    }

    fn member(&mut self, cursor: &mut Cursor<'_>, sink: &mut impl Sink) -> Result<(), ReadError> {
        let key = cursor.key()?.text();
        let next = cursor.peek();
        let from = cursor.at;
        if key == "traceEvents" {
            if next != b'[' {
                return Err(cursor.error("a list of events"));
            }
            cursor.at += 1;
            sink.list(self.listed);
            (self.listed, self.due) = (true, Due::FirstEvent);
            return Ok(());
        }
        let value = cursor.value()?;
        // What follows a value up to the comma is not of it.
        let text = cursor.since(from).trim_end_matches([' ', '\t', '\n', '\r']);
        // A number may go on behind the window, so what follows it belongs to the step.
        let due = if cursor.another(b'}')? { Due::Member } else { Due::Nothing };
        sink.member(&key, value, text, cursor.offset(from))?;
        self.names.take(&key);
        self.due = due;
        Ok(())
    }

    /// Events, as many as there are.
    fn events(&mut self, cursor: &mut Cursor<'_>, last: bool, sink: &mut impl Sink) -> Result<(), ReadError> {
        loop {
            self.whole = (cursor.at, cursor.lenient);
            let next = cursor.peek();
            if self.bare && last && cursor.is_at_end() {
                // In the bare list the closing bracket is optional, so that a crashed program leaves a valid file.
                sink.problem("truncated");
                self.due = Due::Nothing;
                return Ok(());
            }
            if self.due == Due::AfterEvent {
                if !cursor.another(b']')? {
                    self.due = self.after_list();
                    return Ok(());
                }
                self.due = Due::Event;
            } else if next == b'{' {
                let mut fields = Fields::default();
                event::fields(cursor, &mut self.shapes, &mut fields)?;
                sink.event(&fields);
                self.due = Due::AfterEvent;
            } else {
                cursor.value()?;
                cursor.peek();
                if cursor.is_at_end() && !last {
                    return Err(cursor.error("',' or ']'"));
                }
                sink.no_object();
                self.due = Due::AfterEvent;
            }
        }
    }

    fn after_list(&self) -> Due {
        if self.bare { Due::Nothing } else { Due::AfterMember }
    }
}
