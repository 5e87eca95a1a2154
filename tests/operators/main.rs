//! The operators' side of a comparison with other libraries: makes contenders and times them when asked.
//!
//! `tests/operators/measure.py` runs it and takes turns between its contenders and those in Python. One line in, one line out:
//!
//! | asks | answers |
//! |---|---|
//! | `row BENCH key=value...` | the names of the contenders, which are now ready |
//! | `time NAME REPEATS` | seconds of processor time of this thread for so many calls |
//! | `wall NAME REPEATS` | the same on the clock of the wall, for what runs on several threads |
//! | `value NAME` | the first 4096 numbers of the last result |

mod contenders;
mod data;
mod faer_side;

use std::io::{BufRead, Write};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Something that is timed.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Does it so many times.
    pub(crate) run: Box<dyn FnMut(u64)>,
    /// The numbers that came out last, where there are any.
    pub(crate) value: Box<dyn Fn() -> Vec<f64>>,
}

/// Processor time of this thread in seconds.
fn now() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "a process does not run for months")]
    let seconds = t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9;
    seconds
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut row: Vec<Contender> = Vec::new();
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["row", bench, ref keys @ ..] => {
                row.clear();
                row = contenders::row(bench, keys)?;
                serde_json::to_string(&row.iter().map(|c| c.name).collect::<Vec<_>>())?
            }
            [clock @ ("time" | "wall"), name, repeats] => {
                let c = row.iter_mut().find(|c| c.name == name).ok_or("no such contender")?;
                let repeats = repeats.parse()?;
                let begun = (now(), Instant::now());
                (c.run)(repeats);
                let took = (now() - begun.0, begun.1.elapsed().as_secs_f64());
                format!("{:e}", if clock == "wall" { took.1 } else { took.0 })
            }
            ["value", name] => {
                let c = row.iter().find(|c| c.name == name).ok_or("no such contender")?;
                let mut value = (c.value)();
                value.truncate(4096);
                serde_json::to_string(&value)?
            }
            _ => return Err(format!("unknown request {line:?}").into()),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
