//! The exercises of the course that check themselves, and what its cells show besides pictures.
//!
//! No solution is stored. An answer is a program: the checker says whether it is safe, the simulator what it reads and how
//! long it takes, and a list of what an exercise asks for says whether the work is still done.

mod answers;
#[cfg(not(target_arch = "wasm32"))]
mod flow;
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
mod work;

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

/// An answer that has passed everything but what an exercise alone asks for.
struct Passed {
    program: Program,
    run: Run,
}

/// Looks at an answer: well formed, all work of what was asked for there, safe by contract, every value right, from the same data.
fn judged(answer: &dyn Answer, asked: &str) -> Result<Passed, String> {
    let asked = Program::from_text(asked).map_err(|e| e.to_string())?;
    let passed = judged_by(answer, &asked, |_| true)?;
    work::same_data(&asked, &passed.program)?;
    Ok(passed)
}

/// The same for an exercise in which only some commands have to stay, whatever their data came by.
fn judged_by(answer: &dyn Answer, asked: &Program, stays: fn(&Op) -> bool) -> Result<Passed, String> {
    let program = answer.program()?;
    let report = hazard::check(&program, Mode::Contract).map_err(|e| e.to_string())?;
    work::same_work(asked, &program, stays)?;
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
    told(judged(&answer, RESULT_BACK).map(|passed| safe(&passed)))
}

/// Lesson 3, exercise 1: a result is read when it has arrived.
pub fn check_read_back(answer: &(impl Answer + ?Sized)) -> Figure {
    told(judged(&answer, READ_BACK).map(|passed| safe(&passed)))
}

/// Lesson 3, exercise 2: a pinned source is refilled when it has been read, while a kernel still runs.
pub fn check_refill(answer: &(impl Answer + ?Sized)) -> Figure {
    told(judged(&answer, REFILL).and_then(|passed| {
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
    told(judged(&answer, PIPELINE).and_then(|passed| {
        let asked = Program::from_text(PIPELINE).map_err(|e| e.to_string())?;
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
    told(judged(&answer, EVENTS).map(|passed| safe(&passed)))
}

/// Lesson 3, exercise 5: memory of a stream's order is freed when nobody needs it any more.
pub fn check_free(answer: &(impl Answer + ?Sized)) -> Figure {
    told(judged(&answer, FREE).map(|passed| safe(&passed)))
}

/// Lesson 3, exercise 6: a pool is told who else uses a block.
pub fn check_pool(answer: &(impl Answer + ?Sized)) -> Figure {
    told(judged(&answer, POOL).map(|passed| safe(&passed)))
}

/// The pipeline of lesson 3 as text: six items through two slots of device memory, on three streams.
pub fn pipeline() -> String {
    PIPELINE.to_owned()
}

// What stands in the exercises, less streams, events and waits, which are what they ask for.

const RESULT_BACK: &str = "\
machine h200-pcie5
device  d 4MiB
pinned  y 4MiB
kernel  scale on 0 reads d writes d for 60us
copy    y <- d on 0
read    y
";

const READ_BACK: &str = "\
machine tutorial-ci
device  d 8MB = f64 ramp 1 1
pinned  host 8MB = f64 fill 0
copy    host <- d on 0
read    host expect f64 ramp 1 1
";

const REFILL: &str = "\
machine h200-pcie5
pinned  x 4MiB = f32 fill 1
pinned  y 4MiB = f32 fill 0
device  d 4MiB
copy    d <- x on 0
kernel  double on 0 reads d writes d for 400us computes f32 affine 2 0
copy    y <- d on 0
write   x = f32 fill 5
copy    d <- x on 0
kernel  double on 0 reads d writes d for 400us computes f32 affine 2 0
read    y expect f32 fill 2
";

const EVENTS: &str = "\
machine h200-pcie5
device  a, b 4MiB
pinned  x 4MiB = f32 fill 1
pinned  last 4MiB
pinned  y 4MiB = f32 fill 0
copy    a <- x on 0
copy    last <- b on 0
kernel  double on 0 reads a writes a for 60us computes f32 affine 2 0
copy    y <- a on 0
read    y expect f32 fill 2
";

const FREE: &str = "\
machine h200-pcie5
pinned  y 4MiB = f32 fill 0
device  t 4MiB via malloc_async on 0
kernel  make on 0 writes t for 60us computes f32 fill 3
copy    y <- t on 0
free    t via free_async on 0
read    y expect f32 fill 3
";

const POOL: &str = "\
machine h200-pcie5
stream  main_stream
device  t 4MiB via pool home main_stream
pinned  y 4MiB = f32 fill 0
kernel  make on 0 writes t for 60us computes f32 fill 3
copy    y <- t on 0
free    t via pool
device  u 4MiB via pool home main_stream reuse t
kernel  next on 0 writes u for 60us computes f32 fill 9
read    y expect f32 fill 3
";

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
            "not yet: the program no longer does what it did; missing: pinned x5 1MiB = f32 fill 6",
        );
        // Faster by less work, or on another machine, is no faster.
        let less = slow.replace("for 60us", "for 1us");
        check(&check_pipeline(&less), "missing: kernel double reads d0 writes d0 for 60us");
        let other = slow.replace("h200-pcie5", "gh200-c2c");
        check(&check_pipeline(&other), "missing: machine h200-pcie5");
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
        check(&check_read_back(READ_BACK), "race: the host");
        check(&check_read_back(&READ_BACK.replace("read", "sync 0\nread")), "right: ");
        check(&check_read_back(&READ_BACK.replace("read", "sleep 1ms\nread")), "race: the host");
    }

    /// A copy whose call waits is the same work as one and a wait: what that orders is for the checker and the time to say.
    #[test]
    fn a_blocking_copy_is_the_copy_that_was_asked_for() {
        check(&check_read_back(&READ_BACK.replace("host <- d on 0", "host <- d blocking")), "right: ");
        let on = |stream: &str, waits: &str| {
            let text =
                RESULT_BACK.replace("kernel  scale on 0", &format!("stream s\nkernel scale on {stream}"));
            check_result_back(&text.replace("copy    y <- d on 0", &format!("{waits}copy y <- d blocking")))
        };
        check(&on("0", ""), "right: ");
        check(&on("s", ""), "not yet: 1 hazard");
        check(&on("s", "sync s\n"), "right: ");
        let first = REFILL.replacen("copy    d <- x on 0", "copy d <- x blocking", 1);
        check(&check_refill(&first.replace("read    y", "sync 0\nread y")), "before the first kernel ends");
        let slow = PIPELINE.replace("<- d{i%2} on store", "<- d{i%2} on store blocking");
        check(&check_pipeline(&slow), "not yet: safe and right, but it takes");
    }
}
