//! The exercises of the course that check themselves, and what its cells show besides pictures.
//!
//! No solution is stored. An answer is a program: the checker says whether it is safe, the simulator what it reads and how
//! long it takes, and a list of what an exercise asks for says whether the work is still done.

mod answers;
mod formulas;
mod guess;
mod myths;
mod operators;
mod page;
mod pageable;
mod strategies;
mod to_device;
#[cfg(not(target_arch = "wasm32"))]
mod traces;
mod values;
mod views;

use spanlift::Program;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::program::{Op, ReadError};
use spanlift::sim::{self, Run};

use crate::model::machine_of;
use crate::show::Figure;
use crate::text;

pub use guess::{Quantity, guessed, guessed_order};
pub use myths::verdicts;
pub use operators::{Expression, check_adjoint, check_moves, check_within};
pub use page::act;
pub use pageable::{at_moment, check_break_even, check_loader, film, loader, pinning_price, tutorial_chart};
pub use strategies::{
    call_stack, check_moved, check_order, check_side_copy, check_strategy, ledgers, one_copy_stream,
    sent_again, side_by_side, side_copy, timelines, under_caps,
};
pub use to_device::{check_overlapped, transfers};
#[cfg(not(target_arch = "wasm32"))]
pub use traces::{
    Recorded, check_change, check_holder, check_memory, check_steps, snapshot_at_end, snapshot_findings,
};
pub use views::{check_allocations, check_span, check_tiles};

/// What can be handed in as an answer: a program, its text, or what came of reading it.
pub trait Answer {
    /// The program.
    ///
    /// # Errors
    /// What is wrong with the text, line by line.
    fn program(&self) -> Result<Program, String>;
}

impl Answer for Program {
    fn program(&self) -> Result<Program, String> {
        Ok(self.clone())
    }
}

impl Answer for str {
    fn program(&self) -> Result<Program, String> {
        Program::from_text(self).map_err(|e| e.to_string())
    }
}

impl Answer for String {
    fn program(&self) -> Result<Program, String> {
        self.as_str().program()
    }
}

impl Answer for Result<Program, ReadError> {
    fn program(&self) -> Result<Program, String> {
        match self {
            Ok(program) => Ok(program.clone()),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl<A: Answer + ?Sized> Answer for &A {
    fn program(&self) -> Result<Program, String> {
        (**self).program()
    }
}

/// What a program asks for: an answer may order it otherwise, but not leave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    copies: usize,
    kernels: usize,
    /// Reads by the host that say what they expect.
    reads: usize,
    /// Writes by the host.
    writes: usize,
    allocations: usize,
    frees: usize,
}

impl Work {
    fn of(program: &Program) -> Work {
        let count = |is: fn(&Op) -> bool| program.commands().iter().filter(|c| is(&c.op)).count();
        Work {
            copies: count(|op| matches!(op, Op::Copy(copy) if !copy.sync)),
            kernels: count(|op| matches!(op, Op::Kernel(_))),
            reads: count(|op| matches!(op, Op::HostRead { expect: Some(_), .. })),
            writes: count(|op| matches!(op, Op::HostWrite { .. })),
            allocations: count(|op| matches!(op, Op::Alloc(_))),
            frees: count(|op| matches!(op, Op::Free { .. })),
        }
    }

    /// What is asked for and not there, in words.
    fn lacking(&self, there: &Work) -> Option<String> {
        let parts = [
            (self.copies, there.copies, "asynchronous copies"),
            (self.kernels, there.kernels, "kernels"),
            (self.reads, there.reads, "reads with what they expect"),
            (self.writes, there.writes, "writes by the host"),
            (self.allocations, there.allocations, "allocations"),
            (self.frees, there.frees, "frees"),
        ];
        let lacking = parts.into_iter().find(|(asked, there, _)| asked != there);
        lacking.map(|(asked, there, what)| format!("{what} asked for: {asked}, here: {there}"))
    }
}

/// An answer that has passed everything but what an exercise alone asks for.
struct Passed {
    program: Program,
    run: Run,
}

/// Looks at an answer: well formed, all work there, safe by contract, every value right.
fn judged(answer: &dyn Answer, work: Work) -> Result<Passed, String> {
    let program = answer.program()?;
    let report = hazard::check(&program, Mode::Contract).map_err(|e| e.to_string())?;
    if let Some(lacking) = work.lacking(&Work::of(&program)) {
        return Err(format!("the program no longer does what it did; {lacking}"));
    }
    let machine = machine_of(&program, "")?;
    let run = sim::run(&program, &machine).map_err(|e| e.to_string())?;
    if report.verdict() != Verdict::Safe {
        let n = text::count(report.hazards.len(), "hazard");
        let first = hazard::sentence(&program, &report.hazards[0]);
        return Err(format!(
            "{n} by CUDA's documentation, the first one\n{first}\n{}",
            read_lines(&program, &run)
        ));
    }
    if run.reads.iter().any(|r| r.expected.is_some() && !r.is_right()) {
        return Err(format!("no hazard, but not the right values\n{}", read_lines(&program, &run)));
    }
    Ok(Passed { program, run })
}

/// The answer to an answer: `right: ` and what was found, or `not yet: ` and why.
pub fn told(found: Result<String, String>) -> Figure {
    match found {
        Ok(right) => Figure::words(format!("right: {right}")),
        Err(why) => Figure::words(format!("not yet: {}", why.trim_end())),
    }
}

fn safe(passed: &Passed) -> String {
    let n = text::count(passed.program.len(), "command");
    format!(
        "{n}, no hazard by CUDA's documentation, done after {}\n{}",
        text::time(passed.run.end.0),
        read_lines(&passed.program, &passed.run)
    )
}

fn read_lines(program: &Program, run: &Run) -> String {
    let told = run.reads.iter().filter(|r| r.expected.is_some());
    let lines: Vec<String> = told.map(|r| format!("read {}", r.sentence(program))).collect();
    lines.join("\n")
}

/// What the host's reads find on the simulated machine that the program names.
pub fn readings(answer: &(impl Answer + ?Sized)) -> Figure {
    let found = || -> Result<String, String> {
        let program = answer.program()?;
        let run = sim::run(&program, &machine_of(&program, "")?).map_err(|e| e.to_string())?;
        Ok(read_lines(&program, &run))
    };
    match found() {
        Ok(lines) if lines.is_empty() => Figure::words("no read says what it expects".to_owned()),
        Ok(lines) => Figure::words(lines),
        Err(why) => Figure::error(&why),
    }
}

/// Lesson 1: the result is copied back and read by the host.
pub fn check_result_back(answer: &(impl Answer + ?Sized)) -> Figure {
    let work = Work { copies: 1, kernels: 1, reads: 0, writes: 0, allocations: 2, frees: 0 };
    let reads = |p: &Program| p.commands().iter().any(|c| matches!(c.op, Op::HostRead { .. }));
    told(judged(&answer, work).and_then(|passed| match reads(&passed.program) {
        true => Ok(safe(&passed)),
        false => Err("the host no longer reads the result".to_owned()),
    }))
}

/// Lesson 3, exercise 1: a result is read when it has arrived.
pub fn check_read_back(answer: &(impl Answer + ?Sized)) -> Figure {
    let work = Work { copies: 1, kernels: 0, reads: 1, writes: 0, allocations: 2, frees: 0 };
    told(judged(&answer, work).map(|passed| safe(&passed)))
}

/// Lesson 3, exercise 2: a pinned source is refilled when it has been read, while a kernel still runs.
pub fn check_refill(answer: &(impl Answer + ?Sized)) -> Figure {
    let work = Work { copies: 3, kernels: 2, reads: 1, writes: 1, allocations: 3, frees: 0 };
    told(judged(&answer, work).and_then(|passed| {
        let of = |is: fn(&Op) -> bool| {
            let commands = passed.program.commands();
            passed.run.trace.slices.iter().filter(move |s| commands.get(s.command as usize).is_some_and(|c| is(&c.op)))
        };
        let written = of(|op| matches!(op, Op::HostWrite { .. })).map(|s| s.start.0).min().unwrap_or(0);
        let worked = of(|op| matches!(op, Op::Kernel(_))).filter(|s| s.kind.is_device_work());
        let worked = worked.map(|s| s.end.0).min().unwrap_or(0);
        if written < worked {
            let early = text::time(worked - written);
            Ok(format!("{}\nthe refill begins {early} before the first kernel ends", safe(&passed)))
        } else {
            let late = text::time(written - worked);
            Err(format!(
                "safe and right, but the host waits too long: the refill begins {late} after the first kernel ended, and the copy \
                 that read the source was done before that kernel began. A sync waits for the whole stream; an event marks \
                 one point in it."
            ))
        }
    }))
}

/// Lesson 3, exercise 3: a pipeline of items through two slots, safe, right and still overlapping.
pub fn check_pipeline(answer: &(impl Answer + ?Sized)) -> Figure {
    let asked = Program::from_text(&pipeline()).map_err(|e| e.to_string());
    told(asked.and_then(|asked| {
        let passed = judged(&answer, Work::of(&asked))?;
        let reference = sim::run(&asked, &machine_of(&asked, "")?).map_err(|e| e.to_string())?.end;
        let took = passed.run.end;
        if took.0 <= reference.0 + reference.0 / 8 {
            return Ok(safe(&passed));
        }
        let (took, reference) = (text::time(took.0), text::time(reference.0));
        Err(format!(
            "safe and right, but it takes {took} where {reference} are enough: something waits that need not"
        ))
    }))
}

/// Lesson 3, exercise 4: a wait is for what its event was recorded after last.
pub fn check_events(answer: &(impl Answer + ?Sized)) -> Figure {
    let work = Work { copies: 3, kernels: 1, reads: 1, writes: 0, allocations: 5, frees: 0 };
    told(judged(&answer, work).map(|passed| safe(&passed)))
}

/// Lesson 3, exercise 5: memory of a stream's order is freed when nobody needs it any more.
pub fn check_free(answer: &(impl Answer + ?Sized)) -> Figure {
    let work = Work { copies: 1, kernels: 1, reads: 1, writes: 0, allocations: 2, frees: 1 };
    told(judged(&answer, work).map(|passed| safe(&passed)))
}

/// Lesson 3, exercise 6: a pool is told who else uses a block.
pub fn check_pool(answer: &(impl Answer + ?Sized)) -> Figure {
    let work = Work { copies: 1, kernels: 2, reads: 1, writes: 0, allocations: 3, frees: 1 };
    told(judged(&answer, work).map(|passed| safe(&passed)))
}

/// The pipeline of lesson 3 as text: six items through two slots of device memory, on three streams.
pub fn pipeline() -> String {
    PIPELINE.to_owned()
}

const PIPELINE: &str = "\
machine h200-pcie5
stream  load, work, store
device  d0, d1 1MiB
event   loaded0, loaded1, worked0, worked1, stored0, stored1
repeat i 6
    pinned  x{i} 1MiB = f32 fill {i+1}
    pinned  y{i} 1MiB = f32 fill 0
end

repeat i 6
    wait    stored{i%2} on load           # the slot is free again
    copy    d{i%2} <- x{i} on load
    record  loaded{i%2} on load

    wait    loaded{i%2} on work           # the item is there
    kernel  double on work reads d{i%2} writes d{i%2} for 60us computes f32 affine 2 0
    record  worked{i%2} on work

    wait    worked{i%2} on store          # the item is done
    copy    y{i} <- d{i%2} on store
    record  stored{i%2} on store
end

sync    store
repeat i 6
    read    y{i} expect f32 fill {2*(i+1)}
end
";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(figure: &Figure, expected: &str) {
        assert!(figure.plain().contains(expected), "{expected:?} in {}", figure.plain());
        assert!(figure.html().starts_with("<pre"), "{}", figure.html());
    }

    #[test]
    fn the_pipeline_is_safe_right_and_fast_and_every_wait_is_needed() {
        check(
            &check_pipeline(&pipeline()),
            "right: 84 commands, no hazard by CUDA's documentation, done after ",
        );
        for wait in ["stored{i%2} on load", "loaded{i%2} on work", "worked{i%2} on store"] {
            let without: String =
                PIPELINE.lines().filter(|l| !l.contains(wait)).map(|l| format!("{l}\n")).collect();
            let told = check_pipeline(&without);
            check(&told, "not yet: ");
            check(&told, "race: ");
            check(&told, "elements wrong");
        }
        // Safe, but nothing overlaps any more.
        let slow = PIPELINE.replace(
            "    record  stored{i%2} on store\n",
            "    record  stored{i%2} on store\n    sync    store\n",
        );
        check(&check_pipeline(&slow), "not yet: safe and right, but it takes");
        let short = PIPELINE.replace("repeat i 6", "repeat i 5");
        check(
            &check_pipeline(&short),
            "not yet: the program no longer does what it did; asynchronous copies asked for: 12, here: 10",
        );
        check(&check_pipeline("copy d <- x"), "not yet: line 1");
        check(&check_pipeline(&Program::from_text("stream s\nstream s")), "not yet: ");
    }

    #[test]
    fn readings_are_shown() {
        let early = "stream s\ndevice d 64 = f64 ramp 1 1\npinned y 64 = f64 fill 0\ncopy y <- d on s\nread y expect f64 ramp 1 1";
        assert_eq!(
            readings(early).plain(),
            "read y: 8 of 8 elements wrong, the first at 0: expected 1, read 0"
        );
        assert_eq!(readings("stream s").plain(), "no read says what it expects");
        assert!(readings("strem s").plain().contains("line 1"));
        check(&check_read_back(early), "race: the host");
        check(&check_read_back(&early.replace("read", "sync s\nread")), "right: ");
        check(&check_read_back(&early.replace("read", "sleep 1ms\nread")), "race: the host");
    }
}
