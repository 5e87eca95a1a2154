//! Hazards told at length in one picture: the sentence, the fix line by line, and the orders that show it.

use std::collections::BTreeSet;

use spanlift::Program;
use spanlift::explore::Explanation;
use spanlift::hazard::{self, Certainty, Hazard, Mode, Relation, Report, Verdict};
use spanlift::text::grouped;

use crate::orders;
use crate::scene::{Face, Rect, Scene, Text};
use crate::svg::svg;
use crate::text;
use crate::theme::Theme;

/// Findings that a picture tells at most.
const MOST: usize = 12;
const EDGE: f64 = 12.0;
const INDENT: f64 = 28.0;

/// A report on a program as SVG: each finding with its fix and the orders that show it; of many the first twelve.
///
/// `report` and `relation` are of the same program and mode.
///
/// ```
/// use spanlift::{Program, hazard};
/// use spanlift::hazard::{Mode, Relation};
/// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy x <- d on s\nread x")?;
/// let report = hazard::check(&p, Mode::Contract)?;
/// let svg = spanlift_viewer::explained_svg(&Relation::of(&p, Mode::Contract)?, &report, 900.0);
/// assert!(svg.contains("copy to x, then host reads x") && svg.contains("host reads x, then copy to x"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn explained_svg(relation: &Relation<'_>, report: &Report, width: f64) -> String {
    let program = relation.program;
    let title = if program.title.is_empty() { "hazards" } else { &program.title };
    svg(&scene(relation, report, width, &Theme::LIGHT), title, &told(relation, report))
}

/// The same in words: sentences, fixes and orders.
pub(crate) fn told(relation: &Relation<'_>, report: &Report) -> String {
    let program = relation.program;
    let mut out = verdict_line(program, report);
    let mut seen = BTreeSet::new();
    let alike = hazard::alike(program, report);
    for (hazard, n) in alike.iter().take(MOST) {
        out.push_str(&format!("\n{}", sentence(program, hazard, *n)));
        if !seen.insert((hazard.first, hazard.second, hazard.captured)) {
            continue;
        }
        for line in Explanation::of(relation, hazard).fix_lines(program) {
            out.push_str(&format!("\n  fix, {line}"));
        }
        for order in orders::of_hazard(relation, hazard).unwrap_or_default() {
            out.push_str(&format!("\n  order {}: {}; {}", order.replay, order.title, order.seen));
        }
    }
    if alike.len() > MOST {
        out.push_str(&format!("\nand {} more", alike.len() - MOST));
    }
    out
}

/// The sentence of a hazard that stands for `n`.
fn sentence(program: &Program, hazard: &Hazard, n: usize) -> String {
    let told = hazard::sentence(program, hazard);
    match n {
        0 | 1 => told,
        2 => format!("{told} The same holds once more between these lines."),
        n => format!("{told} The same holds {} more times between these lines.", grouped(n - 1)),
    }
}

fn verdict_line(program: &Program, report: &Report) -> String {
    let by = match report.mode {
        Mode::Contract => "by CUDA's documentation",
        Mode::Typical => "on today's drivers",
    };
    let n = text::count(program.len(), "command");
    match report.verdict() {
        Verdict::Safe => format!("safe: {n}, no hazard {by}"),
        _ => {
            format!("{}: {n}, {} {by}", report.verdict().name(), text::count(report.hazards.len(), "hazard"))
        }
    }
}

/// The picture.
fn scene(relation: &Relation<'_>, report: &Report, width: f64, theme: &Theme) -> Scene {
    let program = relation.program;
    let mut out = Scene::new(width, 0.0, theme.ground);
    let mut y = 18.0;
    let head = verdict_line(program, report);
    let head =
        if program.title.is_empty() { head } else { format!("{}: {head}", text::clean(&program.title)) };
    out.add(
        Text::new(
            EDGE,
            y,
            14.0,
            theme.ink,
            text::fit(&head, 14.0, true, width - 2.0 * EDGE).unwrap_or_default(),
        )
        .bold(),
    );
    y += 20.0;
    let mut seen = BTreeSet::new();
    let alike = hazard::alike(program, report);
    for (hazard, n) in alike.iter().take(MOST) {
        let color = if hazard.certainty == Certainty::Must { theme.hazard } else { theme.dim };
        let top = y;
        for line in text::wrap(&sentence(program, hazard, *n), 12.5, width - EDGE - INDENT) {
            out.add(Text::new(INDENT, y + 9.0, 12.5, theme.ink, line));
            y += 18.0;
        }
        y += 4.0;
        // The same two commands, so the same fix and the same two orders.
        if !seen.insert((hazard.first, hazard.second, hazard.captured)) {
            out.add(Rect::filled(EDGE, top, 4.0, y - top - 4.0, color));
            y += 8.0;
            continue;
        }
        for line in Explanation::of(relation, hazard).fix_lines(program) {
            let sign = if line.is_new { '+' } else { '-' };
            let what = Text::new(INDENT, y + 9.0, 12.0, theme.dim, text::clean(&line.place));
            let color = if line.is_new { theme.good } else { theme.hazard };
            let code = text::fit(&text::clean(&line.text), 12.0, false, width - 260.0).unwrap_or_default();
            out.add(what);
            out.add(Text {
                face: Face::Mono,
                ..Text::new(248.0, y + 9.0, 12.0, color, format!("{sign} {code}"))
            });
            y += 18.0;
        }
        out.add(Rect::filled(EDGE, top, 4.0, y - top, color));
        y += 8.0;
        match orders::of_hazard(relation, hazard) {
            Ok(orders) if orders.is_empty() => {}
            Ok(orders) => {
                let shown = orders::scene(&orders, width - INDENT, theme);
                let height = shown.height;
                out.place(shown, INDENT - EDGE, y);
                y += height;
            }
            Err(why) => {
                let why = format!("no order is shown: {why}");
                out.add(Text::new(
                    INDENT,
                    y + 9.0,
                    12.0,
                    theme.dim,
                    text::fit(&why, 12.0, false, width - 40.0).unwrap_or_default(),
                ));
                y += 18.0;
            }
        }
        y += 14.0;
    }
    if alike.len() > MOST {
        let more = format!("and {} more", grouped(alike.len() - MOST));
        out.add(Text::new(INDENT, y + 9.0, 12.0, theme.dim, more));
        y += 22.0;
    }
    out.height = y;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(source: &str) -> (Scene, String) {
        let program = Program::from_text(source).unwrap();
        let report = hazard::check(&program, Mode::Contract).unwrap();
        let relation = Relation::of(&program, Mode::Contract).unwrap();
        (scene(&relation, &report, 900.0, &Theme::LIGHT), explained_svg(&relation, &report, 900.0))
    }

    fn says(scene: &Scene, words: &str) -> bool {
        scene.texts().any(|t| t.text.contains(words))
    }

    #[test]
    fn a_race_is_told_with_its_fix_and_both_orders() {
        let (scene, svg) =
            picture("stream a, b\ndevice d 64\nkernel fill on a writes d\nkernel use on b reads d[0..8]");
        for words in [
            "race: `use` on b",
            "+ record mended on a",
            "+ wait mended on b",
            "fill, then use",
            "use, then fill",
        ] {
            assert!(says(&scene, words), "{words}");
        }
        assert!(says(&scene, "use: finds bytes that nothing has written"));
        // Two timelines, in each both accesses outlined.
        let red = scene.rects().filter(|r| r.outline.is_some_and(|o| o.color == Theme::LIGHT.hazard)).count();
        assert_eq!(red, 4);
        assert!(scene.texts().all(|t| t.bounds().2 <= scene.width + 0.5), "a text leaves the picture");
        assert!(svg.starts_with("<svg ") && svg.contains("order w3:w4: use, then fill"), "{}", &svg[..400]);
    }

    #[test]
    fn one_order_for_lifetimes_none_for_what_may_be_and_long_ones_cut() {
        let (scene, _) = picture(
            "stream a\ndevice d 8 via malloc_async on a\nkernel late on a reads d\nfree d via free_async on a\nkernel after on a reads d",
        );
        assert!(says(&scene, "use after free"));
        assert!(says(&scene, "free of d, then after"));
        let (scene, _) = picture("stream a, b\ndevice d 8\nkernel on a writes d opaque\nkernel on b reads d");
        assert!(says(&scene, "possible race") && !says(&scene, ", then"));
        let many = "kernel on a\n".repeat(300);
        let (scene, svg) = picture(&format!(
            "stream a, b\ndevice d 8\n{many}kernel fill on a writes d\nkernel use on b reads d\n{many}"
        ));
        assert!(says(&scene, "fill, then use"));
        assert!(svg.len() < 60_000, "{}", svg.len());
    }

    #[test]
    fn very_many_hazards_stay_a_picture() {
        let pairs: String = (0..60)
            .map(|k| format!("device d{k} 8\nkernel on a writes d{k}\nkernel on b reads d{k}\n"))
            .collect();
        let (scene, svg) = picture(&format!("stream a, b\n{pairs}"));
        assert!(says(&scene, "and 48 more"));
        assert!(svg.len() < 500_000, "{}", svg.len());
    }
}
