//! The page of the course: words from the notebooks, cells that the course's module runs.

use std::fmt::Write as _;

use spanlift_native::lessons::{Act, Cell, Lesson};
use spanlift_native::tutorial;
use spanlift_viewer::{lesson_assets_html, page_head};

use super::markdown::{self, escaped};

/// The one word that the page's own style and scripts carry.
const NONCE: &str = "spanlift-course";
const CSS: &str = include_str!("page.css");
/// How the paragraphs begin that speak of the notebook's kernel.
const OF_THE_KERNEL: [&str; 2] = ["The first cell builds spanlift", "The first cell loads spanlift"];

/// The page.
pub(super) fn html(lessons: &[Lesson]) -> String {
    let mut page = format!(
        "{}<style nonce=\"{NONCE}\">{}</style></head>\n<body><header>\
         <h1>How data moves between a host and its devices</h1>\
         <p>Seven lessons, learned by doing. Everything runs in this page: nothing is installed, nothing is sent anywhere. \
         Change any text and run it again (Shift-Enter does, too).</p><nav>",
        page_head("spanlift course", NONCE),
        // Spaces of the file are for its readers.
        CSS.replace(" { ", "{").replace("; ", ";").replace(";}", "}").replace(" }", "}").replace(": ", ":")
    );
    for (n, lesson) in (1..).zip(lessons) {
        let title = title(lesson);
        let _ = write!(page, "<a href=\"#lesson-{n}\">{}</a>", escaped(title));
    }
    page.push_str(
        "</nav><p id=\"course-score\" role=\"status\"></p></header>\n<main spellcheck=\"false\">\n",
    );
    for (n, lesson) in (1..).zip(lessons) {
        self::lesson(n, lesson, &mut page);
    }
    page.push_str("</main>\n<noscript>This page runs its cells with a script.</noscript>\n");
    let _ = writeln!(
        page,
        "<script type=\"application/json\" id=\"course-rows\">{}</script>",
        serde_json::from_str::<serde_json::Value>(tutorial::TABLE)
            .map_or_else(|_| tutorial::TABLE.to_owned(), |table| table.to_string())
            .replace("</", "<\\/")
    );
    page.push_str(&lesson_assets_html(NONCE));
    page.push_str("</body></html>\n");
    page
}

/// The first heading.
fn title(lesson: &Lesson) -> &str {
    let heading = lesson.cells.iter().find_map(|cell| match cell {
        Cell::Words(words) => words.lines().find_map(|line| line.strip_prefix("# ")),
        _ => None,
    });
    heading.unwrap_or(&lesson.name)
}

fn lesson(n: usize, lesson: &Lesson, page: &mut String) {
    let link = |to: &str| {
        let number: usize = to.split('_').next()?.parse().ok()?;
        to.ends_with(".ipynb").then(|| format!("#lesson-{number}"))
    };
    let _ = writeln!(page, "<article id=\"lesson-{n}\">");
    for cell in &lesson.cells {
        match cell {
            Cell::Words(words) => {
                let paragraphs =
                    words.split("\n\n").filter(|p| !OF_THE_KERNEL.iter().any(|words| p.starts_with(words)));
                page.push_str(&markdown::html(&paragraphs.collect::<Vec<_>>().join("\n\n"), &link));
            }
            Cell::Code { source } => {
                let _ = writeln!(
                    page,
                    "<figure class=\"code\"><pre tabindex=\"0\"><code>{}</code></pre><figcaption>Rust, to read: it is compiled in the notebook, not in this page.</figcaption></figure>",
                    escaped(source)
                );
            }
            Cell::Act(act) => self::act(n, act, page),
        }
    }
    page.push_str("</article>\n");
}

fn act(n: usize, act: &Act, page: &mut String) {
    let text = act.text.trim_end();
    let (kind, button) = if act.is_exercise() { (" exercise", "Check") } else { ("", "Run") };
    let _ = writeln!(
        page,
        "<section class=\"cell{kind}\" id=\"l{n}-{}\" data-verb=\"{}\"><textarea autocomplete=\"off\" \
         aria-label=\"cell {} of lesson {n}\" rows=\"{}\">\n{}</textarea>\
         <div class=\"bar\"><button class=\"run\" disabled>{button}</button></div>\
         <div class=\"out\" aria-live=\"polite\"></div></section>",
        act.id,
        escaped(&act.verb),
        act.id,
        text.lines().count().max(1),
        escaped(text)
    );
}
