//! Markdown as HTML: formulas as MathML, links where the page has something to lead to; markup of the source's own is shown
//! as text.

use pulldown_cmark::{BrokenLink, CowStr, Event, Options, Parser, Tag, TagEnd, html::push_html};

use super::tex;

/// A text as HTML; `link` gives the address for one that stands in the text, or nothing where it leads nowhere.
pub(super) fn html(source: &str, link: &dyn Fn(&str) -> Option<String>) -> String {
    // Names of Rust stand in brackets, as in its documentation, and lead nowhere here.
    let named = |broken: BrokenLink<'_>| {
        broken.reference.starts_with('`').then_some((CowStr::Borrowed(""), CowStr::Borrowed("")))
    };
    let options = Options::ENABLE_TABLES | Options::ENABLE_MATH;
    let parser = Parser::new_with_broken_link_callback(source, options, Some(named));
    // Whether each link that is open leads somewhere.
    let mut leads: Vec<bool> = Vec::new();
    let events = parser.flat_map(|event| {
        let (first, second) = match event {
            Event::InlineMath(formula) => (Some(Event::InlineHtml(tex::math(&formula, false).into())), None),
            // Around it, since Firefox scrolls no formula by itself.
            Event::DisplayMath(formula) => (
                Some(Event::Html(
                    format!("<span class=\"wide\">{}</span>", tex::math(&formula, true)).into(),
                )),
                None,
            ),
            Event::Html(text) | Event::InlineHtml(text) => (Some(Event::Text(text)), None),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let to = link(&dest_url);
                leads.push(to.is_some());
                let tag = |to: String| Tag::Link { link_type, dest_url: to.into(), title, id };
                (to.map(|to| Event::Start(tag(to))), None)
            }
            Event::End(TagEnd::Link) => (leads.pop().unwrap_or(false).then_some(event), None),
            Event::Start(Tag::Table(_)) => (Some(Event::Html("<div class=\"wide\">".into())), Some(event)),
            Event::End(TagEnd::Table) => (Some(event), Some(Event::Html("</div>".into()))),
            event => (Some(event), None),
        };
        first.into_iter().chain(second)
    });
    let mut out = String::new();
    push_html(&mut out, events);
    out
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
        check("a **b *c* d**\ne", "<p>a <strong>b <em>c</em> d</strong>\ne</p>");
        check("- one\n  more\n- two", "<ul>\n<li>one\nmore</li>\n<li>two</li>\n</ul>");
        check(
            "| a | b |\n|---|---|\n| `x` | 2 |",
            "<div class=\"wide\"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>\n<tr><td><code>x</code></td><td>2</td></tr>\n</tbody></table>\n</div>",
        );
        check(
            "[here](#there) and [away](x.ipynb), [`T`], [3]",
            "<p><a href=\"#there\">here</a> and away, <code>T</code>, [3]</p>",
        );
        check("d <- x & 2 * 3 `<b>`", "<p>d &lt;- x &amp; 2 * 3 <code>&lt;b&gt;</code></p>");
        check("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;");
        check(
            "a <b>c</b> $n_k$",
            "<p>a &lt;b&gt;c&lt;/b&gt; <math><mrow><msub><mi>n</mi><mi>k</mi></msub></mrow></math></p>",
        );
        check(
            "$$n$$",
            "<p><span class=\"wide\"><math display=\"block\"><mrow><mi>n</mi></mrow></math></span></p>",
        );
        check("cost $5 and *", "<p>cost $5 and *</p>");
        check("", "");
    }
}
