//! Predict, then run: what a reader guessed beside what came out, as bars or as two orders.

use spanlift::sim::{self, Run};
use spanlift::trace::{Kind, LaneKind};
use spanlift::{Bytes, Nanos};

use super::Answer;
use crate::bars::{BarChart, Cluster, Entry};
use crate::model::machine_of;
use crate::scene::{Anchor, Scene, Stroke, Text};
use crate::show::{Figure, Show};
use crate::svg::svg;
use crate::text;
use crate::theme::{TO_HOST, Theme};

/// Things of which an order can be guessed, at most.
const MOST: usize = 40;

/// What can be guessed as a figure: a time, bytes, how many.
pub trait Quantity: Copy {
    /// The word for it.
    const WORD: &'static str;
    /// The unit on the axis.
    const UNIT: &'static str;
    /// How what came out was found.
    const FOUND: &'static str;

    /// In that unit.
    fn in_units(self) -> f64;
}

impl Quantity for Nanos {
    const WORD: &'static str = "time";
    const UNIT: &'static str = "us";
    const FOUND: &'static str = "simulated";

    fn in_units(self) -> f64 {
        // To a hundredth: a figure that people compare with their guess.
        (self.0 / 10) as f64 / 100.0
    }
}

impl Quantity for Bytes {
    const WORD: &'static str = "bytes";
    const UNIT: &'static str = "B";
    const FOUND: &'static str = "counted";

    fn in_units(self) -> f64 {
        self.0 as f64
    }
}

impl Quantity for usize {
    const WORD: &'static str = "number";
    const UNIT: &'static str = "";
    const FOUND: &'static str = "counted";

    fn in_units(self) -> f64 {
        self as f64
    }
}

/// A guess beside what came out.
///
/// ```
/// use spanlift::Nanos;
/// let figure = spanlift_viewer::course::guessed("the host waits", Nanos(10_000), Nanos(12_500));
/// assert_eq!(figure.plain(), "the host waits\nguessed: time 10 us\nsimulated: time 12.5 us");
/// ```
pub fn guessed<Q: Quantity>(what: &str, guess: Q, found: Q) -> Figure {
    beside(what, guess, Q::FOUND, found)
}

/// The same with another word for how it was found.
pub(super) fn beside<Q: Quantity>(what: &str, guess: Q, how: &str, found: Q) -> Figure {
    let entry = |label: &str, value: Q| Entry {
        label: label.to_owned(),
        values: vec![value.in_units()],
        note: String::new(),
    };
    let chart = BarChart {
        title: what.to_owned(),
        unit: Q::UNIT.to_owned(),
        series: vec![Q::WORD.to_owned()],
        clusters: vec![Cluster {
            label: String::new(),
            entries: vec![entry("guessed", guess), entry(how, found)],
        }],
        is_log: false,
    };
    chart.show()
}

/// The order in which a reader thinks that a program's calls and their work end, beside the simulated one.
///
/// Calls have the names that CUDA gives them, the device's work those of the timeline; the second of a name is `NAME 2`.
///
/// ```
/// let program = "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n";
/// let guess = ["d from x", "cudaMemcpyAsync", "cudaStreamSynchronize"];
/// let figure = spanlift_viewer::course::guessed_order("what ends when", guess, program);
/// assert!(figure.plain().ends_with("the other way round: cudaMemcpyAsync, then d from x"));
/// ```
pub fn guessed_order<'a>(
    what: &str,
    guess: impl IntoIterator<Item = &'a str>,
    answer: &(impl Answer + ?Sized),
) -> Figure {
    let guess: Vec<&str> = guess.into_iter().collect();
    orders(what, &guess, &answer).unwrap_or_else(|why| Figure::error(&why))
}

fn orders(what: &str, guess: &[&str], answer: &dyn Answer) -> Result<Figure, String> {
    let program = answer.program()?;
    let found = ended(&sim::run(&program, &machine_of(&program, "")?).map_err(|e| e.to_string())?)?;
    if let Some(unknown) = guess.iter().find(|name| !found.iter().any(|f| f == *name)) {
        return Err(format!("nothing here is called {unknown:?}; what ends: {}", found.join(", ")));
    }
    // Where in the guess each thing stands that ended, in the order in which they did.
    let places = found.iter().map(|name| {
        let mut at = guess.iter().enumerate().filter(|(_, g)| *g == name).map(|(k, _)| k);
        match (at.next(), at.next()) {
            (Some(place), None) => Ok(place),
            (None, _) => Err(format!("{name:?} has no place in the guess")),
            _ => Err(format!("{name:?} stands in the guess twice")),
        }
    });
    let places = places.collect::<Result<Vec<usize>, String>>()?;
    let turned: Vec<(usize, usize)> = (0..places.len())
        .flat_map(|a| (a + 1..places.len()).map(move |b| (a, b)))
        .filter(|&(a, b)| places[a] > places[b])
        .collect();
    let verdict = match turned.as_slice() {
        [] => "every two of them in the order in which they end".to_owned(),
        pairs => {
            let pairs: Vec<String> =
                pairs.iter().map(|&(a, b)| format!("{}, then {}", found[a], found[b])).collect();
            format!("the other way round: {}", pairs.join("; "))
        }
    };
    let plain = format!("{what}\nguessed: {}\nsimulated: {}\n{verdict}", guess.join(", "), found.join(", "));
    let scene = lines(what, guess, &found, &places, &turned);
    Ok(Figure::still(plain.clone(), what, svg(&scene, what, &plain)))
}

/// What calls and the device's work are called, in the order in which they end.
fn ended(run: &Run) -> Result<Vec<String>, String> {
    let slices = run.trace.slices.iter().filter_map(|slice| {
        let is_work = match run.trace.lanes[slice.lane as usize].kind {
            LaneKind::Host if matches!(slice.kind, Kind::Call | Kind::Wait) => false,
            LaneKind::Stream { .. } if slice.kind.is_device_work() => true,
            _ => return None,
        };
        Some((slice.command, is_work, slice))
    });
    let mut slices: Vec<_> = slices.collect();
    slices.sort_by_key(|&(command, is_work, _)| (command, is_work));
    // Of a command's call, and of its work, the last slice ends it and the longest names it.
    let sides = slices.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    let ends = sides.filter_map(|side| {
        let end = side.iter().map(|(.., s)| s.end).max()?;
        let (.., longest) = side.iter().max_by_key(|(.., s)| s.end.0 - s.start.0)?;
        Some((end, side[0].0, run.trace.strings.get(longest.name)))
    });
    let mut ends: Vec<_> = ends.collect();
    if ends.len() > MOST {
        return Err(format!("{} things end here, an order of at most {MOST} can be guessed", ends.len()));
    }
    ends.sort_unstable();
    let names: Vec<&str> = ends.into_iter().map(|(.., name)| name).collect();
    let named = names.iter().enumerate().map(|(k, name)| {
        match names[..k].iter().filter(|earlier| *earlier == name).count() {
            0 => (*name).to_owned(),
            n => format!("{name} {}", n + 1),
        }
    });
    Ok(named.collect())
}

/// Both orders from top to bottom, and a line for each thing: lines that cross are pairs the other way round.
fn lines(what: &str, guess: &[&str], found: &[String], places: &[usize], turned: &[(usize, usize)]) -> Scene {
    const ROW: f64 = 24.0;
    const TOP: f64 = 62.0;
    const SIZE: f64 = 12.0;
    let theme = &Theme::LIGHT;
    let width = |name: &str| text::width(name, SIZE, false);
    let column = found.iter().map(|name| width(name)).fold(60.0, f64::max).min(260.0);
    let (left, right) = (12.0 + column + 10.0, 12.0 + column + 150.0);
    let title_room = text::width(what, 13.0, true).min(600.0);
    let whole = (right + 10.0 + column + 12.0).max(24.0 + title_room);
    let mut scene = Scene::new(whole, TOP + ROW * found.len() as f64 + 4.0, theme.ground);
    let put = |scene: &mut Scene, x: f64, y: f64, name: &str, color, anchor| {
        let name = text::fit(name, SIZE, false, column).unwrap_or_default();
        scene.add(Text::new(x, y, SIZE, color, name).anchored(anchor));
    };
    let title = text::fit(what, 13.0, true, whole - 24.0).unwrap_or_default();
    scene.add(Text::new(12.0, 16.0, 13.0, theme.ink, title).bold());
    put(&mut scene, left - 10.0, 40.0, "guessed", theme.dim, Anchor::End);
    put(&mut scene, right + 10.0, 40.0, "simulated", theme.dim, Anchor::Start);
    let y = |k: usize| TOP + ROW * (k as f64 + 0.4);
    for (k, name) in guess.iter().enumerate() {
        put(&mut scene, left - 10.0, y(k), name, theme.ink, Anchor::End);
    }
    for (k, (name, &place)) in found.iter().zip(places).enumerate() {
        put(&mut scene, right + 10.0, y(k), name, theme.ink, Anchor::Start);
        let is_turned = turned.iter().any(|&(a, b)| a == k || b == k);
        let stroke = match is_turned {
            true => Stroke::dashed(TO_HOST, 2.0),
            false => Stroke::solid(theme.good, 2.0),
        };
        scene.line((left, y(place)), (right, y(k)), stroke);
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "machine h200-pcie5\nstream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\n\
                           kernel scale on s reads d writes d for 60us\nsync s\n";
    const ENDS: [&str; 5] =
        ["cudaMemcpyAsync", "cudaLaunchKernel", "d from x", "scale", "cudaStreamSynchronize"];

    #[test]
    fn guesses_of_times_bytes_and_numbers_stand_beside_what_came_out() {
        let time = guessed("the host waits", Nanos(10_000), Nanos(12_500));
        assert_eq!(time.plain(), "the host waits\nguessed: time 10 us\nsimulated: time 12.5 us");
        let bytes = guessed("copied", Bytes(1024), Bytes(2048));
        assert_eq!(bytes.plain(), "copied\nguessed: bytes 1024 B\ncounted: bytes 2048 B");
        let number = guessed("transfers", 8, 4);
        assert_eq!(number.plain(), "transfers\nguessed: number 8\ncounted: number 4");
        for figure in [time, bytes, number] {
            assert!(figure.svg().starts_with("<svg ") && !figure.is_error());
        }
    }

    #[test]
    fn calls_and_their_work_end_in_the_order_that_the_simulator_says() {
        let right = guessed_order("what ends when", ENDS, PROGRAM);
        assert!(
            right.plain().ends_with("every two of them in the order in which they end"),
            "{}",
            right.plain()
        );
        // Each way to exchange two neighbours is told, and nothing else.
        for k in 0..ENDS.len() - 1 {
            let mut guess = ENDS;
            guess.swap(k, k + 1);
            let told = guessed_order("what ends when", guess, PROGRAM);
            let expected = format!("\nthe other way round: {}, then {}", ENDS[k], ENDS[k + 1]);
            assert!(told.plain().ends_with(&expected), "{}", told.plain());
            // Title, two headings, two columns.
            assert_eq!(told.svg().matches("<text").count(), 3 + 2 * ENDS.len());
        }
        // The times themselves, apart from the names: each end is what the trace says.
        let program = PROGRAM.program().unwrap();
        let run = sim::run(&program, &machine_of(&program, "").unwrap()).unwrap();
        let end = |name: &str| {
            let of = run.trace.slices.iter().filter(|s| run.trace.strings.get(s.name) == name);
            of.map(|s| s.end).max().unwrap()
        };
        assert!(ENDS.windows(2).all(|pair| end(pair[0]) < end(pair[1])));
    }

    #[test]
    fn every_name_has_one_place_and_no_text_touches_another() {
        let told = |guess: &[&str]| guessed_order("t", guess.iter().copied(), PROGRAM).plain().to_owned();
        let names = ENDS.join(", ");
        assert_eq!(told(&["scal"]), format!("nothing here is called \"scal\"; what ends: {names}"));
        assert_eq!(told(&ENDS[1..]), "\"cudaMemcpyAsync\" has no place in the guess");
        let twice = [&ENDS[..], &ENDS[..1]].concat();
        assert_eq!(told(&twice), "\"cudaMemcpyAsync\" stands in the guess twice");
        assert!(told(&[]).contains("has no place"));
        let again = PROGRAM.replace("sync s", "copy d <- x on s\nsync s");
        assert!(guessed_order("t", ["no"], again.as_str()).plain().contains("cudaMemcpyAsync 2"));
        let many = "stream s\nrepeat i 50\n    sync s\nend\n";
        assert!(guessed_order("t", [], many).plain().starts_with("50 things end here"));
        let long =
            PROGRAM.replace("scale", "a_kernel_with_a_name_that_is_far_too_long_for_any_column_at_all");
        let found = ended(&sim::run(&long.program().unwrap(), &Default::default()).unwrap()).unwrap();
        let guess: Vec<&str> = found.iter().rev().map(String::as_str).collect();
        let places: Vec<usize> = (0..found.len()).rev().collect();
        crate::testing::texts_keep_apart(&lines("what ends when", &guess, &found, &places, &[(0, 1)]));
    }
}
