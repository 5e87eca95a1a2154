//! A program as source code: for PyTorch, in CUDA C++, and with this library's builder.
//!
//! | language | what stands for a kernel | what a buffer is |
//! |---|---|---|
//! | PyTorch | a call that keeps the device busy as long | a tensor of `uint8` |
//! | CUDA C++ | a kernel of that name that spins as long | a pointer to bytes |
//! | Rust | [`Program::kernel`] | [`Program::alloc`]: the text builds this program again, but for labels of copies and their like |
//!
//! A command that a language has no form for is a comment that says so. Declared contents and formulas are comments where
//! a language has no short form for them. Where a call orders more or less than its command does (a caching allocator's
//! reuse, PyTorch's copies between devices and blocking ones of pageable memory), the command stands beside it. Host threads run
//! freely there: where nothing but the list has one's call before another's, the later one waits for its turn.

mod cuda;
mod rust;
mod torch;
mod turns;

use super::captured::Captured;
use super::command::{Alloc, Command, FreeVia, Op, Region, ThreadId};
use super::names::legacy_device;
use super::{Program, text};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec};

/// A language that programs are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Language {
    /// Python with PyTorch.
    PyTorch,
    /// CUDA C++.
    Cuda,
    /// Rust, with the builder of this library.
    Rust,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 3] = [Language::PyTorch, Language::Cuda, Language::Rust];

    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Language::PyTorch => "PyTorch",
            Language::Cuda => "CUDA C++",
            Language::Rust => "Rust",
        }
    }
}

impl Program {
    /// The program in a language; see [`code`](super::code) for what stands for what.
    ///
    /// A comment that says so where a command names what another program has and this one has not.
    ///
    /// # Cost
    /// Linear in the commands, times the host threads where those wait for each other.
    ///
    /// # Examples
    /// ```
    /// use spanlift::program::code::Language;
    ///
    /// let p = spanlift::Program::from_text("stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n")?;
    /// let code = p.to_code(Language::PyTorch);
    /// assert!(code.contains("with torch.cuda.stream(s): d.copy_(x, non_blocking=True)\n"));
    /// # Ok::<(), spanlift::program::ReadError>(())
    /// ```
    pub fn to_code(&self, language: Language) -> String {
        if let Some(problem) = super::check::foreign(self) {
            return format!("{} {problem}\n", if language == Language::PyTorch { "#" } else { "//" });
        }
        match language {
            Language::PyTorch => torch::write(self),
            Language::Cuda => cuda::write(self),
            Language::Rust => rust::write(self),
        }
    }
}

/// What the names of a program are called in a language.
struct Idents {
    streams: Vec<String>,
    buffers: Vec<String>,
    events: Vec<String>,
    threads: Vec<String>,
    channels: Vec<String>,
    graphs: Vec<String>,
    /// Of each buffer its declaration.
    allocs: Vec<Option<Alloc>>,
    /// Of each buffer whether it is unregistered instead of freed: whoever made its memory pinned did not allocate it so.
    is_registered: Vec<bool>,
    /// Of each stream its device.
    devices: Vec<u32>,
    /// Of each thread its commands.
    calls: Vec<Vec<usize>>,
    /// The joins that are no calls: the thread was joined before, or calls on.
    idle_joins: BTreeSet<usize>,
    /// The records of an event on another device than before: handles are of one device, so another is made.
    moved: BTreeSet<usize>,
    /// All names that there are.
    taken: BTreeMap<String, u64>,
}

impl Idents {
    /// Words of the language, and whatever else its text uses, are no names; nor is what looks foreign.
    fn of(program: &Program, reserved: &str, is_foreign: fn(&str) -> bool) -> Idents {
        let names = program.names();
        let mut taken: BTreeMap<String, u64> =
            reserved.split_whitespace().map(|word| (word.to_owned(), 1)).collect();
        let mut ident = |name: &str| match is_foreign(name) {
            true => unique(&mut taken, &format!("{name}_")),
            false => unique(&mut taken, name),
        };
        // The streams that nobody declares have numbers for names.
        let stream = |name| if legacy_device(name).is_some() { "default_stream" } else { name };
        let (mut allocs, mut is_registered) = (vec![None; names.n_buffers()], vec![false; names.n_buffers()]);
        let mut devices: Vec<u32> =
            names.streams.names().map(|name| legacy_device(name).unwrap_or(0)).collect_vec();
        let mut calls = vec![Vec::new(); names.n_threads()];
        let mut joins = Vec::new();
        let (mut recorded, mut moved) = (BTreeMap::new(), BTreeSet::new());
        for (index, command) in program.commands().iter().enumerate() {
            calls[command.thread.index()].push(index);
            match &command.op {
                Op::Alloc(alloc) => {
                    let _ = allocs[alloc.buffer.index()].get_or_insert_with(|| alloc.clone());
                }
                Op::Free { buffer, via: FreeVia::Unregister, .. } => is_registered[buffer.index()] = true,
                Op::Stream { stream, dev, .. } => devices[stream.index()] = *dev,
                Op::ThreadJoin { thread } => joins.push((*thread, index)),
                Op::EventCreate { event } => _ = recorded.remove(event),
                Op::Record { event, stream } => {
                    let dev = devices[stream.index()];
                    let is_moved = recorded.insert(*event, dev).is_some_and(|before| before != dev);
                    moved.extend(is_moved.then_some(index));
                }
                _ => {}
            }
        }
        let mut joined = BTreeSet::new();
        joins.retain(|(thread, join)| calls[thread.index()].last() > Some(join) || !joined.insert(*thread));
        let idle_joins = joins.into_iter().map(|(_, join)| join).collect();
        Idents {
            streams: names.streams.names().map(stream).map(&mut ident).collect_vec(),
            buffers: names.buffers.names().map(&mut ident).collect_vec(),
            events: names.events.names().map(&mut ident).collect_vec(),
            threads: names.threads.names().map(&mut ident).collect_vec(),
            channels: names.channels.names().map(&mut ident).collect_vec(),
            graphs: names.graphs.names().map(&mut ident).collect_vec(),
            allocs,
            is_registered,
            devices,
            calls,
            idle_joins,
            moved,
            taken,
        }
    }

    /// The events that are there from the beginning: used before anybody creates them, or created by nobody.
    fn implicit_events(&self, program: &Program) -> Vec<usize> {
        let mut is_first_created = vec![None; self.events.len()];
        for command in program.commands() {
            let (Op::EventCreate { event }
            | Op::EventDestroy { event }
            | Op::EventSync { event }
            | Op::EventQuery { event, .. }
            | Op::Record { event, .. }
            | Op::Wait { event, .. }) = command.op
            else {
                continue;
            };
            let is_created = matches!(command.op, Op::EventCreate { .. });
            let _ = is_first_created[event.index()].get_or_insert(is_created);
        }
        (0..self.events.len()).filter(|&event| is_first_created[event] != Some(true)).collect_vec()
    }

    fn bytes(&self, region: &Region) -> i64 {
        self.allocs[region.buffer.index()].as_ref().map_or(0, |alloc| alloc.bytes)
    }

    /// Whether a region is its whole buffer.
    fn is_whole(&self, region: &Region) -> bool {
        let span = &region.span;
        span.is_range() && span.off() == 0 && span.elem() == self.bytes(region)
    }
}

/// The name with letters, digits and underscores alone, that nothing else has.
fn unique(taken: &mut BTreeMap<String, u64>, name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut base: String = name.chars().map(word).collect();
    if !base.starts_with(|c: char| c.is_ascii_alphabetic()) {
        base.insert(0, 'n');
    }
    // Each base counts on from where it was, or names that differ in nothing but signs would take the square of their number.
    let mut n = taken.get(&base).copied().unwrap_or(0);
    let mut tried = base.clone();
    while taken.contains_key(&tried) {
        n += 1;
        tried = format!("{base}_{n}");
    }
    taken.insert(base, n.max(1));
    taken.insert(tried.clone(), 1);
    tried
}

/// Whether something is asked or waited for while a capture is open, which by its default a capture does not allow; nor is memory made or
/// freed then, but for an allocator that sees to that. Threads run freely: what one calls may fall into another's capture, or end it.
fn is_relaxed(program: &Program, has_allocator: bool) -> bool {
    if 1 < program.names().n_threads() {
        return true;
    }
    let mut captured = Captured::default();
    program.commands().iter().any(|command| {
        captured.step(&command.op);
        let is_apart = match &command.op {
            Op::Alloc(_) | Op::Free { .. } => !has_allocator,
            Op::DeviceSync { .. }
            | Op::EventSync { .. }
            | Op::StreamSync { .. }
            | Op::EventQuery { .. }
            | Op::StreamQuery { .. } => true,
            Op::Copy(copy) => copy.sync,
            Op::Memset { sync, .. } => *sync,
            _ => false,
        };
        is_apart && captured.is_any() && !captured.has(&command.op)
    })
}

/// What stands for the channels.
///
/// A queue hands each signal to one `await`. An `await` is more: it comes after every signal before it in the list, however
/// many those are and whoever else awaited them, and where there is none it does not wait. Where a queue does not say that,
/// each sender has a count of its own, since the signals of several come in any order.
struct Counted {
    /// By channel: what each sender's count is called, by thread; `None` for a queue.
    counts: Vec<Option<BTreeMap<usize, String>>>,
    /// Of each command that awaits, whose signals it waits for, and how many.
    awaited: BTreeMap<usize, Vec<(usize, usize)>>,
}

impl Counted {
    fn of(program: &Program, ids: &mut Idents) -> Counted {
        let n = program.names().n_channels();
        let mut is_counted = vec![false; n];
        let mut awaited = BTreeMap::new();
        // Of each channel who signalled, one after the other, each with the number of his signal.
        let mut sent: Vec<Vec<(usize, usize)>> = vec![Vec::new(); n];
        let mut by_sender: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); n];
        let (mut taken, mut receiver) = (vec![0; n], vec![None; n]);
        let mut knows: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (index, command) in program.commands().iter().enumerate() {
            let me = command.thread.index();
            match command.op {
                Op::Signal { channel } => {
                    let channel = channel.index();
                    let count = by_sender[channel].entry(me).or_default();
                    *count += 1;
                    sent[channel].push((me, *count));
                    is_counted[channel] |= by_sender[channel].len() > 1;
                }
                Op::Await { channel } => {
                    let channel = channel.index();
                    taken[channel] += 1;
                    let is_other = *receiver[channel].get_or_insert(me) != me;
                    is_counted[channel] |= is_other || sent[channel].len() != taken[channel];
                    let known = knows.insert((channel, me), sent[channel].len()).unwrap_or(0);
                    let new: BTreeMap<usize, usize> = sent[channel][known..].iter().copied().collect();
                    awaited.insert(index, new.into_iter().collect_vec());
                }
                _ => {}
            }
        }
        let mut named = |channel: usize| {
            let senders: Vec<usize> = by_sender[channel].keys().copied().collect();
            let name = |&sender: &usize| match senders.len() {
                1 => ids.channels[channel].clone(),
                _ => unique(&mut ids.taken, &format!("{}_{}", ids.channels[channel], ids.threads[sender])),
            };
            let names: Vec<String> = senders.iter().map(name).collect_vec();
            senders.iter().copied().zip(names).collect()
        };
        let counts = (0..n).map(|channel| is_counted[channel].then(|| named(channel))).collect();
        Counted { counts, awaited }
    }

    /// The counts that a command awaits, each with how many signals it must have.
    fn awaited(&self, index: usize, channel: usize) -> Option<impl Iterator<Item = (&str, usize)>> {
        let counts = self.counts[channel].as_ref()?;
        let of = self.awaited.get(&index).into_iter().flatten();
        Some(of.map(|(sender, n)| (counts[sender].as_str(), *n)))
    }
}

/// Text that grows line by line.
struct Lines {
    text: String,
    depth: usize,
    /// What begins a comment.
    comment: &'static str,
}

impl Lines {
    fn new(comment: &'static str) -> Lines {
        Lines { text: String::new(), depth: 0, comment }
    }

    fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", self.depth));
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A line with what it means behind it.
    fn told(&mut self, line: &str, words: &str) {
        let comment = self.comment;
        self.line(&format!("{line}  {comment} {}", one_line(words)));
    }

    /// A line that does nothing but tell.
    fn tell(&mut self, words: &str) {
        let comment = self.comment;
        self.line(&format!("{comment} {}", one_line(words)));
    }

    /// Title, machine, and what is not meant literally.
    fn head(&mut self, program: &Program, note: &str) {
        if !program.title.is_empty() {
            self.tell(&program.title);
        }
        if let Some(machine) = &program.machine {
            self.tell(&format!("written for {machine}"));
        }
        self.tell(note);
    }
}

/// Text that cannot end its line, nor hide what stands behind it.
fn one_line(text: &str) -> String {
    // Marks of direction make a line look like another one, and compilers refuse them.
    let hides = |c| matches!(c, '\\' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() || hides(c) { ' ' } else { c }).collect()
}

/// A command as a line of the text form, without the thread that calls.
fn told(program: &Program, command: &Command, index: usize) -> String {
    let bare = Command { thread: ThreadId::FIRST, ..command.clone() };
    let line = text::write_command(program, &bare, index);
    line.split_whitespace().collect_vec().join(" ")
}

/// Microseconds as languages write numbers.
fn micros(ns: i64) -> String {
    if ns % 1000 == 0 { (ns / 1000).to_string() } else { format!("{}", ns as f64 / 1000.0) }
}
