//! Prints what a driver does, a line per observation: the same program on the software driver and on hardware.
//!
//! ```text
//! conformance                    the machine's driver
//! conformance --soft SCHEDULER   the software driver: lazy, eager, seed=N, threads
//! ```
#![expect(unsafe_code, reason = "host functions of the observations")]
#![expect(clippy::print_stdout, reason = "its lines are what it is for")]

mod observe;
mod table;

use std::process::ExitCode;

use spanlift_softcuda::{Config, kit};
use table::Table;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => {}
        ["--soft", scheduler] => match scheduler.parse() {
            Ok(scheduler) => drop(kit::preload(Config::under(scheduler))),
            Err(e) => return fail(&e),
        },
        _ => return fail("usage: conformance [--soft lazy|eager|seed=N|threads]"),
    }
    match Table::open() {
        Ok(driver) => {
            observe::all(driver, &mut |name, value| println!("{name} {value}"));
            ExitCode::SUCCESS
        }
        Err(e) => fail(&e),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("conformance: {why}");
    ExitCode::from(2)
}
