//! The `spanlift` command: says what to do, does it, and ends with 0, 1 (what it looked at is not right, see `End`) or 2.
//!
//! One file per subcommand; each gives an [`End`] or a [`say::Fail`], and only this file turns these into exit codes. Results
//! go to standard output, problems to standard error, one line each.

mod advise;
mod analyze;
mod bench;
mod bench_copy;
mod bench_device;
mod bench_transfers;
mod check;
mod cli;
mod course;
mod diff;
mod explain;
mod fit;
mod framework;
mod help;
mod input;
mod ledger;
mod machine;
mod machines;
mod manual;
mod memory;
mod nsight;
mod on;
mod output;
mod probe;
mod run;
mod say;
mod schedules;
mod serve;
mod source;
mod sweep;
mod threads;
mod tour;
mod view;
mod whatif;

use std::process::ExitCode;

use cli::Command;
use say::Out;

/// How a command ended that did what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Done.
    Done,
    /// Done, and `check` found a hazard, `diff` a regression, `bench transfers` or `tour` on a device wrong bytes.
    Hazard,
}

fn main() -> ExitCode {
    let cli = match cli::called() {
        Ok(cli) => cli,
        Err(error) => return cli::explain(&error),
    };
    let mut out = Out::stdout();
    let ended = match &cli.command {
        Command::Tour(args) => tour::run(args, &mut out),
        Command::Course(args) => course::run(args, &mut out),
        Command::Check(args) => check::run(args, &mut out),
        Command::Run(args) => run::run(args, &mut out),
        Command::Sweep(args) => sweep::run(args, &mut out),
        Command::View(args) => view::run(args, &mut out),
        Command::Advise(args) => advise::run(args, &mut out),
        Command::Fit(args) => fit::run(args, &mut out),
        Command::Machines(args) => machines::run(args, &mut out),
        Command::Analyze(args) => analyze::run(args, &mut out),
        Command::Diff(args) => diff::run(args, &mut out),
        Command::Memory(args) => memory::run(args, &mut out),
        Command::Bench(args) => bench::run(args, &mut out),
        Command::Probe(args) => probe::run(args, &mut out),
        Command::Man(args) => manual::man(args, &mut out),
        Command::Completions(args) => manual::completions(args, &mut out),
    };
    // What was printed goes out first, also when the command failed after it.
    let printed = out.finish();
    match ended.and_then(|end| printed.map(|()| end)) {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Hazard) => ExitCode::from(1),
        Err(fail) => {
            fail.tell();
            ExitCode::from(2)
        }
    }
}
