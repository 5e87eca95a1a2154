//! What a program does apart from streams, events and waits: what an answer may order otherwise, and not leave out.

use std::collections::BTreeMap;

use spanlift::Program;
use spanlift::memory::{DEFAULT_LIMIT, Overlap};
use spanlift::program::{BufferId, Command, Copy, Op, Region};

/// Commands of a program as text, without streams and threads, each with what its data came from.
///
/// What came from where follows from the order of the commands: a program without a race does nothing else in any other order.
struct Work {
    done: Vec<(String, usize)>,
}

/// A number for each content that a buffer can have had, the same in both programs.
type Contents = BTreeMap<(String, Vec<usize>), usize>;

impl Work {
    fn of(program: &Program, contents: &mut Contents) -> Work {
        let mut held: BTreeMap<BufferId, usize> = BTreeMap::new();
        let machine = program.machine.iter().map(|name| (format!("machine {name}"), 0));
        let mut done: Vec<(String, usize)> = machine.collect();
        for (index, command) in program.commands().iter().enumerate() {
            let Some(text) = words(program, command, index) else { continue };
            let (reads, writes) = command.op.regions();
            // What is written over counts too: a part of it may stay.
            let of = reads.iter().chain(writes).map(|r| held.get(&r.buffer).copied().unwrap_or(0)).collect();
            let next = contents.len() + 1;
            let made = *contents.entry((text.clone(), of)).or_insert(next);
            match &command.op {
                Op::Alloc(alloc) => _ = held.insert(alloc.buffer, made),
                _ => held.extend(writes.iter().map(|r| (r.buffer, made))),
            }
            done.push((text, made));
        }
        Work { done }
    }
}

/// A command as the text form says it, less its stream and its thread; nothing for what is no work.
fn words(program: &Program, command: &Command, index: usize) -> Option<String> {
    match &command.op {
        // How something is freed is a matter of order.
        Op::Free { buffer, .. } => return Some(format!("free {}", program.names().buffer(*buffer))),
        Op::Alloc(_)
        | Op::Kernel(_)
        | Op::Copy(_)
        | Op::Memset { .. }
        | Op::HostRead { .. }
        | Op::HostWrite { .. }
        | Op::HostFn { .. }
        | Op::HostCopy { .. }
        | Op::HostWork { .. } => {}
        _ => return None,
    }
    let text = program.text_of(command, index);
    let text = match text.strip_prefix(&format!("{}:", program.names().thread(command.thread))) {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    let stream = command.op.stream().map(|stream| format!(" on {} ", program.names().stream(stream)));
    // With a blank behind the last word too.
    let text = stream.map_or(text.clone(), |stream| format!("{text} ").replacen(&stream, " ", 1));
    // Whether its call waits for it is a matter of order too.
    let text = match command.op {
        Op::Copy(_) | Op::Memset { .. } => text.trim_end().trim_end_matches(" blocking"),
        _ => &text,
    };
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Refuses an answer in which something of the work is missing, or too much.
pub(super) fn same_work(asked: &Program, answer: &Program, counts: fn(&Op) -> bool) -> Result<(), String> {
    let list = |program: &Program| -> Vec<String> {
        let counted = program.commands().iter().enumerate().filter(|(_, c)| counts(&c.op));
        let mut list: Vec<String> = counted.filter_map(|(k, c)| words(program, c, k)).collect();
        list.extend(program.machine.iter().map(|name| format!("machine {name}")));
        list
    };
    let (asked, mut here) = (list(asked), list(answer));
    for text in asked {
        match here.iter().position(|other| *other == text) {
            Some(k) => _ = here.remove(k),
            None => return Err(format!("the program no longer does what it did; missing: {text}")),
        }
    }
    // Who only looks does no harm.
    let is_look = |text: &&String| text.starts_with("read ") && !text.contains(" expect ");
    match here.iter().find(|text| !is_look(text)) {
        Some(text) => Err(format!("the program no longer does what it did; nobody asked for: {text}")),
        None => Ok(()),
    }
}

/// Refuses an answer in which a copy brings what it has brought already: to the same bytes, and nobody has written there or at its
/// source since.
pub(super) fn nothing_again(program: &Program) -> Result<(), String> {
    let meets = |a: &Region, b: &Region| {
        a.buffer == b.buffer && a.span.overlaps(&b.span, DEFAULT_LIMIT) != Overlap::No
    };
    let mut brought: Vec<(&Region, &Region)> = Vec::new();
    for (index, command) in program.commands().iter().enumerate() {
        let (_, writes) = command.op.regions();
        let ends = match &command.op {
            Op::Copy(Copy { dst, src, .. }) | Op::HostCopy { dst, src } => Some((dst, src)),
            _ => None,
        };
        if ends.is_some_and(|ends| brought.contains(&ends)) {
            let text = words(program, command, index).unwrap_or_default();
            return Err(format!(
                "{text} brings once more what is there already: neither end was written to since"
            ));
        }
        brought.retain(|(dst, src)| !writes.iter().any(|w| meets(w, dst) || meets(w, src)));
        brought.extend(ends);
    }
    Ok(())
}

/// Refuses an answer in which something has other data than it had, in the order of the commands.
pub(super) fn same_data(asked: &Program, answer: &Program) -> Result<(), String> {
    let mut contents = Contents::new();
    let mut asked = Work::of(asked, &mut contents).done;
    for (text, made) in Work::of(answer, &mut contents).done {
        if let Some(k) = asked.iter().position(|other| other.0 == text && other.1 == made) {
            asked.remove(k);
        }
    }
    match asked.first() {
        None => Ok(()),
        Some((text, _)) => Err(format!(
            "the program no longer does what it did; {text} stands where what it needs is not there yet, or no longer"
        )),
    }
}
