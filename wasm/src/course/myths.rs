//! The page of myths: programs side by side under three verdicts that are never mixed.
//!
//! | verdict | what it says |
//! |---|---|
//! | contract | what CUDA's documentation guarantees, for every order that it allows |
//! | typical | the same with what drivers do today |
//! | this schedule | one run on one simulated machine: when it is done, and what the host reads |

use spanlift::hazard::{self, Mode};
use spanlift::sim;

use super::Answer;
use crate::color::Color;
use crate::model::machine_of;
use crate::scene::{Anchor, Rect, Scene, Text};
use crate::show::Figure;
use crate::svg::svg;
use crate::text;
use crate::theme::Theme;

/// Programs by their names, each with its verdict by contract, the typical one, and what one simulated run does.
///
/// The first hazard of each is told in a sentence below.
///
/// ```
/// let early = "stream s\ndevice d 64 = f64 ramp 1 1\npinned y 64 = f64 fill 0\ncopy y <- d on s\nsleep 1ms\nread y expect f64 ramp 1 1";
/// let told = spanlift_viewer::course::verdicts([("after a sleep", early)]);
/// assert!(told.plain().contains("\nafter a sleep  race      race     read y: all 8 elements right, done after "));
/// ```
pub fn verdicts<'a, A: Answer>(programs: impl IntoIterator<Item = (&'a str, A)>) -> Figure {
    let rows: Result<Vec<Verdicts>, String> =
        programs.into_iter().map(|(name, p)| Verdicts::of(name, &p)).collect();
    match rows {
        Ok(rows) => {
            let told = table(&rows);
            let drawn = svg(&scene(&rows, &Theme::LIGHT), "verdicts", &told);
            Figure::still(told, "verdicts", drawn)
        }
        Err(why) => Figure::error(&why),
    }
}

struct Verdicts {
    name: String,
    contract: &'static str,
    typical: &'static str,
    schedule: String,
    /// The first hazard, in a sentence.
    because: Option<String>,
}

impl Verdicts {
    fn of(name: &str, answer: &dyn Answer) -> Result<Verdicts, String> {
        let program = answer.program()?;
        let check = |mode| hazard::check(&program, mode).map_err(|e| e.to_string());
        let (contract, typical) = (check(Mode::Contract)?, check(Mode::Typical)?);
        let run = sim::run(&program, &machine_of(&program, "")?).map_err(|e| e.to_string())?;
        let took = text::time(run.between("begin", "end").unwrap_or(run.end).0);
        let reads: Vec<String> = run
            .reads
            .iter()
            .filter(|r| r.expected.is_some())
            .map(|r| format!("read {}, ", r.sentence(&program)))
            .collect();
        Ok(Verdicts {
            name: name.to_owned(),
            contract: contract.verdict().name(),
            typical: typical.verdict().name(),
            schedule: format!("{}done after {took}", reads.concat()),
            because: contract.hazards.first().map(|h| hazard::sentence(&program, h)),
        })
    }
}

const WIDTH: f64 = 900.0;
const SIZE: f64 = 12.0;
const LINE: f64 = 17.0;
const CHIP: f64 = 76.0;

/// The rows with their verdicts as chips, and below each what is wrong with it.
fn scene(rows: &[Verdicts], theme: &Theme) -> Scene {
    let mut scene = Scene::new(WIDTH, 0.0, theme.ground);
    let widest = rows.iter().map(|r| text::width(&r.name, SIZE, true)).fold(60.0, f64::max);
    let names = widest.min(WIDTH * 0.25);
    let [contract, typical] = [1.0, 2.0].map(|k| 12.0 + names + 18.0 + (k - 1.0) * (CHIP + 10.0));
    let schedule = typical + CHIP + 18.0;
    for (x, head) in [(contract, "contract"), (typical, "typical")] {
        scene.add(Text::new(x + CHIP / 2.0, 14.0, 11.0, theme.dim, head).anchored(Anchor::Middle));
    }
    scene.add(Text::new(schedule, 14.0, 11.0, theme.dim, "this schedule"));
    let mut y = 28.0;
    for row in rows {
        let name = text::fit(&row.name, SIZE, true, names).unwrap_or_default();
        scene.add(Text::new(12.0, y + 9.0, SIZE, theme.ink, name).bold());
        for (x, verdict) in [(contract, row.contract), (typical, row.typical)] {
            let fill = if verdict == "safe" { theme.good } else { theme.hazard };
            scene.add(Rect::filled(x, y, CHIP, 18.0, fill).rounded(4.0));
            let words = Text::new(x + CHIP / 2.0, y + 9.0, 11.0, Color::hex(0xFF_FF_FF), verdict).bold();
            scene.add(words.anchored(Anchor::Middle));
        }
        let lines = text::wrap(&row.schedule, SIZE, WIDTH - schedule - 12.0);
        let n = lines.len().max(1);
        for (k, line) in lines.into_iter().enumerate() {
            scene.add(Text::new(schedule, y + 9.0 + LINE * k as f64, SIZE, theme.ink, line));
        }
        y += LINE * n as f64 + 8.0;
        if let Some(because) = &row.because {
            for line in text::wrap(because, 11.0, WIDTH - contract - 12.0) {
                scene.add(Text::new(contract, y + 5.0, 11.0, theme.dim, line));
                y += 15.0;
            }
            y += 8.0;
        }
    }
    scene.height = y + 2.0;
    scene
}

fn table(rows: &[Verdicts]) -> String {
    let width =
        |least: usize, of: &dyn Fn(&Verdicts) -> usize| rows.iter().map(of).max().unwrap_or(0).max(least);
    let name = width(0, &|r| r.name.chars().count());
    let contract = width("contract".len(), &|r| r.contract.len());
    let typical = width("typical".len(), &|r| r.typical.len());
    let mut out = format!("{:name$}  {:contract$}  {:typical$}  this schedule", "", "contract", "typical");
    for r in rows {
        let line =
            format!("\n{:name$}  {:contract$}  {:typical$}  {}", r.name, r.contract, r.typical, r.schedule);
        out.push_str(&line);
    }
    for r in rows {
        if let Some(because) = &r.because {
            out.push_str(&format!("\n{}: {because}", r.name));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_place() {
        let early = "stream s\ndevice d 8MB = f64 ramp 1 1\npinned y 8MB = f64 fill 0\ncopy y <- d on s\nread y expect f64 ramp 1 1";
        for names in
            [["read at once", "b"], ["a name that is so long that it has to be cut somewhere", "and another"]]
        {
            let rows: Vec<Verdicts> = names.iter().map(|name| Verdicts::of(name, &early).unwrap()).collect();
            let scene = scene(&rows, &Theme::LIGHT);
            crate::testing::texts_keep_apart(&scene);
            crate::testing::hang(&format!("verdicts-{}", names[1]), &scene);
            assert_eq!(scene.texts().filter(|t| t.text == "race").count(), 4);
        }
    }

    #[test]
    fn the_three_verdicts_are_kept_apart() {
        let pageable = "stream s\npageable x 4MiB = f32 fill 1\ndevice d 4MiB\npinned y 4MiB = f32 fill 0\n\
                        copy d <- x on s\nwrite x = f32 fill 5\ncopy y <- d on s\nsync s\nread y expect f32 fill 1\n";
        let told = verdicts([
            ("pageable", pageable),
            ("a longer name", "stream s\nmark begin\nsleep 2us\nmark end\nsleep 1ms"),
        ]);
        let lines: Vec<&str> = told.plain().lines().collect();
        assert_eq!(lines[0], "               contract  typical  this schedule");
        assert!(lines[1].starts_with(
            "pageable       race      safe     read y: all 1,048,576 elements right, done after "
        ));
        assert_eq!(lines[2], "a longer name  safe      safe     done after 2 µs");
        assert!(lines[3].starts_with("pageable: race: the host (command "), "{}", lines[3]);
        assert_eq!(lines.len(), 4);
        assert!(verdicts([("wrong", "strem s")]).plain().contains("line 1"));
    }
}
