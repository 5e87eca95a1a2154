//! Operators in a text, for the page's lessons on them: what the notebooks' cells say of expressions in Rust.
//!
//! The text is an operator in the text form ([`spanlift::plan::Script`]), with the values of [`super::values`] beside `ones`. Several
//! operators stand under lines `== NAME`; what stands above the first of these belongs to all of them.
//!
//! | `operator …` | what comes of it |
//! |---|---|
//! | `input`, `result NAME` | pictures of what it is applied to, and of what it makes of that |
//! | `formula`, `dot`, `rules` | the formula with its spaces; the dot test; what it can be simplified to, rule by rule |
//! | `plan`, `text`, `program` | what moves and is held; its program as text; that program simulated and checked |
//! | `refused` | why it cannot be built |
//! | `transfers WORDS`, `time WORDS` | `guess N` or `guess TIME` above the operator, beside what is counted and simulated |
//! | `ways`, `times`, `timelines WORDS` | of several operators: transfers counted, times with what is held, times drawn |
//! | `solve`, `moves`, `step` | `tolerance N` above two operators, a scanner and the system of its least squares: solved by conjugate gradients; what that moves; one step |

use spanlift::Program;
use spanlift::machine::USUAL;
use spanlift::op::{Array, Operator, dot_test};
use spanlift::plan::{Phase, Plan, Script, SolveError, SolvePlan, Solver, Transfer};
use spanlift::sim::{self, Run};

use super::page::{Settings, placed};
use super::strategies::timelines;
use super::to_device::{Way, counted};
use super::{guessed, values};
use crate::image::images;
use crate::model::machine_of;
use crate::show::{Figure, Show};
use crate::text;
use crate::written::{MOST_WORK, work};

/// Operators of one text.
const MOST_OPERATORS: usize = 8;

/// What all steps of a solver may take together.
const MOST_SOLVING: u64 = 1_000_000_000;

/// Beyond so many parts nothing is simplified.
const MOST_NODES: u64 = 400;

/// Lines, and characters in a line, of what is told.
const MOST_LINES: usize = 200;
const LONGEST_LINE: usize = 2_000;

/// What a cell says and shows of its text.
pub(super) fn act(verb: &str, source: &str) -> Result<Figure, String> {
    let (name, rest) = verb.split_once(' ').unwrap_or((verb, ""));
    let figure = match name {
        "input" => input(&read(source)?)?.show(),
        "result" => {
            let script = read(source)?;
            images([(rest, &applied(&script, script.operator(), input(&script)?)?)])
        }
        "formula" => read(source)?.operator().show(),
        "dot" => {
            let script = read(source)?;
            // Where it does not pass rounding is measured, which takes as many applies.
            bearable(&script, script.operator(), 20)?;
            dot_test(script.operator(), 1).show()
        }
        "rules" => rules(&read(source)?)?,
        "plan" => planned(source)?.show(),
        "text" => Figure::words(planned(source)?.program().to_text()),
        "program" => planned(source)?.program().show(),
        "refused" => match read(source) {
            Ok(script) => Figure::words(format!("nothing is refused: {}", script.operator())),
            Err(why) => Figure::words(why),
        },
        "transfers" => {
            let (settings, source) = Settings::before(source, &["guess"])?;
            guessed(rest, settings.number("guess")?, planned(&source)?.transfers().len())
        }
        "time" => timed(rest, source)?,
        "ways" => {
            let ways = several(source)?.into_iter().map(|(name, text)| Ok(Way::of(&name, &planned(&text)?)));
            counted(&ways.collect::<Result<Vec<Way>, String>>()?)
        }
        "times" => times(source)?,
        "timelines" => {
            let runs = several(source)?.into_iter().map(|(name, text)| Ok((name, run(&planned(&text)?)?)));
            let runs: Vec<(String, Run)> = runs.collect::<Result<_, String>>()?;
            timelines(rest, runs.iter().map(|(name, run)| (name.as_str(), run)))
        }
        "solve" => solved(source)?,
        "moves" => moves(source)?,
        "step" => solver(source)?.1.program(Phase::Step).show(),
        _ => return Err(format!("an operator cannot {name:?}")),
    };
    Ok(shortened(figure))
}

pub(super) fn read(source: &str) -> Result<Script, String> {
    Script::read_with(source, values::RULES).map_err(|e| e.to_string())
}

fn planned(source: &str) -> Result<Plan, String> {
    let script = read(source)?;
    let plan = script.plan().map_err(|e| e.to_string())?;
    // What is simulated is simulated on that machine.
    let name = plan.program().machine.as_deref().unwrap_or(USUAL);
    machine_of(&Program::new(), name).map_err(|why| match plan.program().machine_line() {
        Some(number) => {
            let number = number as usize;
            let line = source.lines().nth(number.saturating_sub(1)).unwrap_or_default();
            let at = line.find("machine").map_or(0, |at| at + "machine".len());
            let before = line[at..].find(name).map_or(line, |more| &line[..at + more]);
            let column = before.chars().count() + 1;
            placed((number, column), &why)
        }
        None => why,
    })?;
    Ok(plan)
}

fn run(plan: &Plan) -> Result<Run, String> {
    let program = plan.program();
    sim::run(program, &machine_of(program, "")?).map_err(|e| e.to_string())
}

fn input(script: &Script) -> Result<&Array, String> {
    let why = "its domain is too large for an input that nobody gave";
    script.input().ok_or_else(|| placed(script.place(), why))
}

/// Refuses what would take too long to apply so often, where the script says the operator.
pub(super) fn bearable(script: &Script, a: &Operator, applies: u64) -> Result<(), String> {
    let all = work(a).saturating_mul(applies);
    if all <= MOST_WORK {
        return Ok(());
    }
    let [all, most] = [all, MOST_WORK].map(spanlift::text::grouped);
    let why = format!("that takes {all} operations, and at most {most} are made here: take smaller spaces");
    Err(placed(script.place(), &why))
}

fn applied(script: &Script, a: &Operator, x: &Array) -> Result<Array, String> {
    bearable(script, a, 1)?;
    a.apply(x).map_err(|e| e.to_string())
}

fn rules(script: &Script) -> Result<Figure, String> {
    let nodes = script.operator().cost().nodes;
    if MOST_NODES < nodes {
        let why = format!("of {nodes} parts nothing is simplified here, of at most {MOST_NODES} it is");
        return Err(placed(script.place(), &why));
    }
    Ok(script.operator().simplify_traced().show())
}

/// The operators of a text by their names, each with blank lines where the others stand, so that places are those of the text.
fn several(source: &str) -> Result<Vec<(String, String)>, String> {
    let named = |(k, line): (usize, &str)| line.strip_prefix("==").map(|name| (k, name.trim().to_owned()));
    let heads: Vec<(usize, String)> = source.lines().enumerate().filter_map(named).collect();
    let Some((first, _)) = heads.first() else {
        return Err("no operator has a name: what shows one stands under a line == NAME".to_owned());
    };
    if let Some((k, _)) = heads.iter().find(|(_, name)| name.is_empty()) {
        return Err(format!("line {}: a name is missing: == NAME", k + 1));
    }
    if let Some((k, _)) = heads.get(MOST_OPERATORS) {
        return Err(format!("line {}: more than {MOST_OPERATORS} operators", k + 1));
    }
    let mut found = Vec::new();
    for (i, (from, name)) in heads.iter().enumerate() {
        let end = heads.get(i + 1).map_or(usize::MAX, |(k, _)| *k);
        let mut text = String::new();
        for (k, line) in source.lines().enumerate() {
            if k < *first || (from + 1..end).contains(&k) {
                text.push_str(line);
            }
            text.push('\n');
        }
        found.push((name.clone(), text));
    }
    Ok(found)
}

/// Exactly two of them.
pub(super) fn pair(source: &str) -> Result<[(String, String); 2], String> {
    let found = several(source)?;
    let n = found.len();
    found.try_into().map_err(|_| format!("two operators stand here, each under a line == NAME; found {n}"))
}

/// A guess of how long the operator takes.
fn timed(what: &str, source: &str) -> Result<Figure, String> {
    let (settings, source) = Settings::before(source, &["guess"])?;
    let plan = planned(&source)?;
    let figure = guessed(what, settings.time("guess")?, run(&plan)?.end);
    let plain = format!("{}\n{}", text::count(plan.transfers().len(), "transfer"), figure.plain());
    Ok(figure.saying(plain))
}

/// A line for each operator: how long it takes, and what devices hold.
fn times(source: &str) -> Result<Figure, String> {
    let found = several(source)?;
    let width = found.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = found.iter().map(|(name, text)| {
        let plan = planned(text)?;
        let peaks = plan.peaks().iter().map(|(device, peak)| format!("{device} {}", peak.total()));
        let peaks = peaks.collect::<Vec<String>>().join(", ");
        Ok(format!("{name:width$}  {:7.3} ms   {peaks}", run(&plan)?.end.as_millis()))
    });
    Ok(Figure::words(lines.collect::<Result<Vec<String>, String>>()?.join("\n")))
}

/// A scanner, what it measures of the input, and the solver of its least squares.
fn solver(source: &str) -> Result<(Measured, SolvePlan), String> {
    let (settings, source) = Settings::before(source, &["tolerance"])?;
    let [scanner, system] = pair(&source)?;
    let (scanner, system) = (read(&scanner.1)?, read(&system.1)?);
    let truth = input(&scanner)?;
    let measured = applied(&scanner, scanner.operator(), truth)?;
    let ghosts = applied(&scanner, &scanner.operator().h(), &measured)?;
    let (place, own) = (system.place(), system.operator());
    bearable(&system, own, 1)?;
    let steps = usize::try_from(MOST_SOLVING / work(own).max(1)).unwrap_or(usize::MAX).clamp(1, 10_000);
    let solver = Solver::cg().tolerance(settings.number("tolerance")?).iterations(steps);
    let solver = solver.plan(own, &ghosts).map_err(|e| match e {
        SolveError::Argument { .. } => e.to_string(),
        e => placed(place, &e.to_string()),
    })?;
    Ok((Measured { truth: truth.clone(), ghosts, tolerance: settings.number("tolerance")? }, solver))
}

/// What a solver begins with.
struct Measured {
    truth: Array,
    ghosts: Array,
    tolerance: f64,
}

fn solved(source: &str) -> Result<Figure, String> {
    let (measured, solver) = solver(source)?;
    let found = solver.solve().map_err(|e| e.to_string())?;
    let pictures = [
        ("truth", &measured.truth),
        ("adjoint alone", &measured.ghosts),
        ("conjugate gradients", &found.solution),
    ];
    let figure = images(pictures);
    let Measured { tolerance, .. } = measured;
    let stop =
        format!("{:?}, relative residual below {tolerance:e}: {}", found.stop, found.residual <= tolerance);
    let steps = text::count(found.iterations, "step");
    let plain = format!("{stop}\n{steps}\n{}", figure.plain());
    Ok(figure.saying(plain))
}

/// What each program of a solver moves.
fn moves(source: &str) -> Result<Figure, String> {
    let (_, solver) = solver(source)?;
    let line = |(name, phase): (&str, Phase)| {
        let way = |t: &Transfer| format!("  {} -> {} {}", t.from, t.to, t.bytes);
        format!("{name}{}", solver.transfers(phase).iter().map(way).collect::<String>())
    };
    let phases = [
        ("set up   ", Phase::SetUp),
        ("each step", Phase::Step),
        ("look     ", Phase::Check),
        ("finish   ", Phase::Finish),
    ];
    Ok(Figure::words(phases.map(line).join("\n")))
}

/// The same figure with as many lines, and as much of each, as anybody reads.
pub(super) fn shortened(figure: Figure) -> Figure {
    let plain = figure.plain();
    let n = plain.lines().count();
    if n <= MOST_LINES && plain.lines().all(|line| line.len() <= LONGEST_LINE) {
        return figure;
    }
    let cut = |line: &str| match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = plain.lines().take(MOST_LINES).map(cut).collect();
    if MOST_LINES < n {
        lines.push(format!("and {} more", text::count(n - MOST_LINES, "line")));
    }
    let plain = lines.join("\n");
    figure.saying(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::course;

    const ON_DEVICE: &str = "operator
W = diagonal(c64[y=2, x=3]@cuda:0, ramp(1, 1))
A = to(cuda:0) -> W -> to(cpu)
";

    #[track_caller]
    fn check(verb: &str, text: &str, expected: &str) {
        let told = course::act(verb, text, "");
        assert!(told.plain().contains(expected), "{verb}: {expected:?} is not in {}", told.plain());
        assert!(told.plain().lines().count() <= MOST_LINES + 1, "{verb}");
    }

    /// What is said is what the library says of the operator that the text is.
    #[test]
    fn cells_say_what_the_operator_is_and_does() {
        let operator = read(ON_DEVICE).unwrap().operator().clone();
        let plan = operator.plan().unwrap();
        check("operator formula", ON_DEVICE, &operator.to_string());
        check("operator plan", ON_DEVICE, plan.to_string().trim_end());
        check("operator text", ON_DEVICE, &plan.program().to_text());
        check("operator dot", ON_DEVICE, "passed: <Ax, y> = <x, A^H y> up to ");
        check("operator program", ON_DEVICE, " on tutorial-ci: ");
        check("operator program", &ON_DEVICE.replace("W =", "machine h200-pcie5\nW ="), " on h200-pcie5: ");
        check(
            "operator transfers moved",
            &format!("guess 3\n{ON_DEVICE}"),
            "moved\nguessed: number 3\ncounted: number 2",
        );
        check(
            "operator rules",
            &format!("{ON_DEVICE}show A -> A^H"),
            "= (W W)   (2 nodes, 0 B, 12 flops -> 1 nodes, 0 B, 6 flops)\nT(cuda:0->cpu) · (W W) · T(cpu->cuda:0)",
        );
        check("operator input", &format!("{ON_DEVICE}input ramp(0, 1)"), "y,x: 2 x 3, from 0 to 5");
        check("operator result b", &format!("{ON_DEVICE}input ones"), "b: 2 x 3, from 1 to 6");
        check("operator refused", ON_DEVICE, "nothing is refused: T(cuda:0->cpu) · W");
        check(
            "operator refused",
            "operator\nA = fft(x)",
            "line 2, column 5: an operator that takes its space",
        );
        let two = format!("{ON_DEVICE}\n== there and back\nshow A\n\n==normal\nshow normal(A)\n");
        check(
            "operator ways",
            &two,
            "there and back  2 transfers  192 B  cpu -> cuda:0 -> cpu\nnormal          2 transfers",
        );
        check("operator times", &two, "there and back    0.0");
        check("operator timelines both", &two, "both\nthere and back: ");
        for verb in ["plan", "ways", "timelines t", "transfers t", "result r", "input", "program"] {
            let source = match verb {
                "ways" | "timelines t" => two.clone(),
                _ => format!("guess 1\n{ON_DEVICE}")[if verb == "transfers t" { 0 } else { 8 }..].to_owned(),
            };
            assert!(act(verb, &source).unwrap().svg().starts_with("<svg "), "{verb} has no picture");
        }
    }

    /// `(A^H A + 1) x = A^H y` for `A` = diag(1, 2, 4) and `y = A [1, 1, 1]`: by hand `x` = [1/2, 4/5, 16/17].
    #[test]
    fn least_squares_are_solved() {
        let text = "tolerance 1e-9\noperator\ninput ones\nW = diagonal(f64[x=3]@cuda:0, [1, 2, 4])\n\
                    A = to(cuda:0) -> W -> to(cpu)\n== scanner\nshow A\n== system\nshow normal(A) + 1\n";
        check("operator solve", text, "Converged, relative residual below 1e-9: true\n10 steps\n");
        check(
            "operator solve",
            text,
            "truth: 1 x 3, from 1 to 1\nadjoint alone: 1 x 3, from 1 to 16\nconjugate gradients: 1 x 3, from 0.5 to 0.941",
        );
        check(
            "operator moves",
            text,
            "set up     cpu -> cuda:0 24 B\neach step\nlook       cuda:0 -> cpu 8 B\nfinish     cuda:0 -> cpu 24 B",
        );
        check("operator step", text, " commands on tutorial-ci: ");
        check("operator solve", &text.replace("+ 1", "- 100"), "Breakdown(Indefinite");
        check("operator solve", &text.replace("1e-9", "2"), "the tolerance is 2: it lies from 0 to below 1");
        check("operator solve", &text.replace("1e-9", "small"), "tolerance small: no such number");
        check(
            "operator solve",
            &text.replace("== system\nshow normal(A) + 1\n", ""),
            "two operators stand here",
        );
        check(
            "operator solve",
            &text.replace("show normal(A) + 1", "show A -> dense(f64[x=3], [m=2], ones)"),
            "line 9, column 6: cg needs an operator from a space to itself",
        );
    }

    #[test]
    fn places_are_those_of_the_whole_text() {
        let two = format!("{ON_DEVICE}\n== one\nshow A\n\n== other\n  show A.foo\n");
        check("operator ways", &two, "line 9, column 10: an operator has no `foo`");
        check("operator times", &format!("# mine\n\n{two}"), "line 11, column 10");
        check(
            "operator transfers t",
            "\nguess 4\n\noperator\nA = foo\n",
            "line 5, column 5: `foo` is not defined",
        );
        check("operator solve", "tolerance 1\noperator\n== a\nA = foo\n== b\nB = 1", "line 4, column 5");
        check(
            "operator plan",
            "operator\ncap cuda:0 8B\nA = to(cuda:0) -> diagonal(f64[x=2]@cuda:0, ones)",
            "line 2, column 12: ",
        );
        check(
            "check within",
            "operator\n\ncap cuda:0 3B\nA = (to(cuda:0) -> 2 -> to(cpu)).over(c64[y=48, x=48])",
            "not yet: line 3, column 12: ",
        );
        check(
            "operator ways",
            "operator\nA = B",
            "no operator has a name: what shows one stands under a line == NAME",
        );
        check("operator ways", &format!("{ON_DEVICE}==\nshow A"), "line 4: a name is missing: == NAME");
        check(
            "operator ways",
            &format!("{ON_DEVICE}{}", "== n\nshow A\n".repeat(9)),
            "line 20: more than 8 operators",
        );
        check(
            "operator time t",
            "guess 1us\noperator\n  machine  mars\nA = flip(x).over(f64[x=2])",
            "line 3, column 12: no machine profile \"mars\"",
        );
        check(
            "operator times",
            &two.replace("operator\n", "operator\nmachine mars\n").replace(".foo", ""),
            "line 2, column 9: no machine profile",
        );
        check(
            "operator time t",
            "\n guess  soon\noperator\nA = flip(x).over(f64[x=2])",
            "line 2, column 9: guess soon: no time such as 20us",
        );
        check("operator sing", ON_DEVICE, "an operator cannot \"sing\"");
        check("operator transfers t", ON_DEVICE, "a line is missing: guess ...");
    }

    /// Nothing is computed that somebody would have to wait for.
    #[test]
    fn what_takes_too_long_is_refused_with_what_it_takes() {
        let large = "operator\nA = fft(y, x).over(c64[b=64, y=512, x=512])\n";
        check("operator dot", large, "line 2, column 5: that takes ");
        check("operator result r", large, "its domain is too large for an input that nobody gave");
        let between = "operator\nA = (repeat(r, 4194304) -> sum_reduce(r)).over(f64[x=4, y=100])\n";
        check("operator result r", between, "operations, and at most");
        check("operator result r", &format!("{between}show A^20"), "operations, and at most");
        check("check on-device", between, "not yet: line 2, column 6: that takes ");
        let many = format!("operator\nA = flip(x).over(f64[x=2])\nshow {}A", "A -> ".repeat(500));
        check(
            "operator rules",
            &many,
            "line 3, column 6: of 501 parts nothing is simplified here, of at most 400 it is",
        );
        let told = act("formula", &many).unwrap();
        assert!(told.plain().ends_with(" …") && told.plain().chars().count() < 2_100);
        let long =
            "operator\nA = to(cuda:0) -> diagonal(f64[x=300]@cuda:0, ones) -> to(cpu)\nshow A.tiles(x=1)";
        check("operator text", long, "more");
        check("operator plan", long, "lines more");
    }
}
