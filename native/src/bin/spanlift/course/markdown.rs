//! Markdown as the notebooks write it, as HTML: headings, paragraphs, lists, tables, emphasis, code and formulas.
//!
//! Everything else is a paragraph; no markup of the source's own is passed on.

use std::fmt::Write as _;

use super::tex;

/// A text as HTML; `link` gives the address for one that stands in the text, or nothing where it leads nowhere.
pub(super) fn html(source: &str, link: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    for block in blocks(source) {
        let first = block[0];
        if let Some((level, text)) = heading(first) {
            let _ = writeln!(out, "<h{level}>{}</h{level}>", inline(text, link));
        } else if first.starts_with("$$") {
            let tex = block.join(" ");
            let _ = writeln!(out, "{}", tex::math(tex.trim_matches('$'), true));
        } else if first.starts_with("- ") {
            list(&block, link, &mut out);
        } else if first.starts_with('|') && block.len() > 1 {
            table(&block, link, &mut out);
        } else {
            let _ = writeln!(out, "<p>{}</p>", inline(&block.join(" "), link));
        }
    }
    out
}

/// Runs of lines without an empty one between them; a heading is a block of its own.
fn blocks(source: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = vec![Vec::new()];
    for line in source.lines().map(str::trim_end) {
        let is_alone = heading(line).is_some();
        if line.is_empty() || is_alone {
            blocks.push(Vec::new());
        }
        if let (false, Some(last)) = (line.is_empty(), blocks.last_mut()) {
            last.push(line);
        }
        if is_alone {
            blocks.push(Vec::new());
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    let text = line[level..].strip_prefix(' ')?;
    (1..=4).contains(&level).then_some((level, text))
}

fn list(block: &[&str], link: &dyn Fn(&str) -> Option<String>, out: &mut String) {
    let mut items: Vec<String> = Vec::new();
    for line in block {
        match (line.strip_prefix("- "), items.last_mut()) {
            (Some(item), _) => items.push(item.to_owned()),
            (None, Some(last)) => *last = format!("{last} {}", line.trim()),
            (None, None) => {}
        }
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>", inline(item, link))).collect();
    let _ = writeln!(out, "<ul>{items}</ul>");
}

fn table(block: &[&str], link: &dyn Fn(&str) -> Option<String>, out: &mut String) {
    let row = |line: &str, tag: &str| -> String {
        let cells = line.trim_matches('|').split('|');
        let cells: String =
            cells.map(|cell| format!("<{tag}>{}</{tag}>", inline(cell.trim(), link))).collect();
        format!("<tr>{cells}</tr>")
    };
    let body: String = block.iter().skip(2).map(|line| row(line, "td")).collect();
    let _ = writeln!(
        out,
        "<div class=\"wide\"><table><thead>{}</thead><tbody>{body}</tbody></table></div>",
        row(block[0], "th")
    );
}

/// Emphasis, code, formulas and links within a line.
fn inline(text: &str, link: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '$', '[']) {
        out.push_str(&escaped(&rest[..at]));
        let here = &rest[at..];
        let spans: [(&str, &str); 4] = [("`", "`"), ("**", "**"), ("*", "*"), ("$", "$")];
        let found = spans.iter().find_map(|(open, close)| {
            let behind = here.strip_prefix(open)?;
            let end = behind.find(close).filter(|end| *end > 0)?;
            Some((*open, &behind[..end], &behind[end + close.len()..]))
        });
        rest = match found {
            Some(("`", code, behind)) => {
                let _ = write!(out, "<code>{}</code>", escaped(code));
                behind
            }
            Some(("$", formula, behind)) => {
                out.push_str(&tex::math(formula, false));
                behind
            }
            Some((mark, inside, behind)) => {
                let tag = if mark == "**" { "strong" } else { "em" };
                let _ = write!(out, "<{tag}>{}</{tag}>", inline(inside, link));
                behind
            }
            None => linked(here, link, &mut out),
        };
    }
    out.push_str(&escaped(rest));
    out
}

/// `[words](address)`, `[words]` without an address, or just the character; gives what stands behind.
fn linked<'t>(here: &'t str, link: &dyn Fn(&str) -> Option<String>, out: &mut String) -> &'t str {
    let words = here.strip_prefix('[').and_then(|behind| behind.split_once(']'));
    match words {
        Some((words, behind)) if !words.is_empty() => {
            let address = behind.strip_prefix('(').and_then(|b| b.split_once(')'));
            let target = address.and_then(|(address, _)| link(address));
            let inside = inline(words, link);
            match target {
                Some(to) => drop(write!(out, "<a href=\"{}\">{inside}</a>", escaped(&to))),
                None if words.starts_with('`') || address.is_some() => out.push_str(&inside),
                None => drop(write!(out, "[{inside}]")),
            }
            address.map_or(behind, |(_, behind)| behind)
        }
        _ => {
            let n = here.chars().next().map_or(0, char::len_utf8);
            out.push_str(&escaped(&here[..n]));
            &here[n..]
        }
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let link = |to: &str| to.strip_prefix('#').map(|to| format!("#{to}"));
        assert_eq!(html(source, &link).trim_end(), expected);
    }

    #[test]
    fn what_notebooks_write_becomes_html() {
        check("## Head `x`\ntext", "<h2>Head <code>x</code></h2>\n<p>text</p>");
        check("a **b *c* d**\ne", "<p>a <strong>b <em>c</em> d</strong> e</p>");
        check("- one\n  more\n- two", "<ul><li>one more</li><li>two</li></ul>");
        check(
            "| a | b |\n|---|---|\n| `x` | 2 |",
            "<div class=\"wide\"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td><code>x</code></td><td>2</td></tr></tbody></table></div>",
        );
        check(
            "[here](#there) and [away](x.ipynb), [`T`], [3]",
            "<p><a href=\"#there\">here</a> and away, <code>T</code>, [3]</p>",
        );
        check("d <- x & 2 * 3 `<b>`", "<p>d &lt;- x &amp; 2 * 3 <code>&lt;b&gt;</code></p>");
        check("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>");
        check("cost $5 and *", "<p>cost $5 and *</p>");
        check("", "");
    }
}
