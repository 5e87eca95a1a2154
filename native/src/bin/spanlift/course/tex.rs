//! The few words of TeX that the lessons use, as MathML.

/// A formula; one that stands alone is set larger. What is not understood is shown as it is written.
pub(super) fn math(tex: &str, alone: bool) -> String {
    let display = if alone { " display=\"block\"" } else { "" };
    let mut rest = tex.trim();
    let inside = row(&mut rest, alone);
    format!("<math{display}><mrow>{inside}</mrow></math>")
}

/// Everything up to a closing brace.
fn row(rest: &mut &str, alone: bool) -> String {
    let mut out = String::new();
    loop {
        *rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with('}') {
            return out;
        }
        let (base, is_large) = atom(rest, alone);
        let mut marks: [Option<String>; 2] = [None, None];
        loop {
            let at = match rest.chars().next() {
                Some('_') => 0,
                Some('^') => 1,
                _ => break,
            };
            *rest = rest[1..].trim_start();
            marks[at] = Some(atom(rest, alone).0);
        }
        let [sub, over] = if is_large { ["munder", "mover"] } else { ["msub", "msup"] };
        out.push_str(&match marks {
            [None, None] => base,
            [Some(below), None] => format!("<{sub}>{base}{below}</{sub}>"),
            [None, Some(above)] => format!("<{over}>{base}{above}</{over}>"),
            [Some(below), Some(above)] => format!("<msubsup>{base}{below}{above}</msubsup>"),
        });
    }
}

/// One thing, and whether marks stand below and above it.
fn atom(rest: &mut &str, alone: bool) -> (String, bool) {
    let Some(first) = rest.chars().next() else { return (String::new(), false) };
    if let Some(behind) = rest.strip_prefix('{') {
        *rest = behind;
        let inside = row(rest, alone);
        *rest = rest.strip_prefix('}').unwrap_or(rest);
        return (format!("<mrow>{inside}</mrow>"), false);
    }
    if first == '\\' {
        let name: String = rest[1..].chars().take_while(char::is_ascii_alphabetic).collect();
        *rest = &rest[1 + name.len()..];
        return command(&name, rest, alone);
    }
    if first.is_ascii_digit() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let number = &rest[..end];
        *rest = &rest[end..];
        return (format!("<mn>{number}</mn>"), false);
    }
    *rest = &rest[first.len_utf8()..];
    if matches!(first, '(' | ')') {
        // As high as what stands beside them.
        return (format!("<mo stretchy=\"false\">{first}</mo>"), false);
    }
    let tag = if first.is_alphabetic() { "mi" } else { "mo" };
    let shown =
        if first == '-' { "\u{2212}".to_owned() } else { super::markdown::escaped(&first.to_string()) };
    (format!("<{tag}>{shown}</{tag}>"), false)
}

fn command(name: &str, rest: &mut &str, alone: bool) -> (String, bool) {
    let words = |rest: &mut &str| {
        let inside = rest.strip_prefix('{').and_then(|r| r.split_once('}'));
        inside.map_or_else(String::new, |(words, behind)| {
            *rest = behind;
            super::markdown::escaped(words)
        })
    };
    match name {
        "text" | "mathrm" => (format!("<mtext>{}</mtext>", words(rest)), false),
        "frac" => {
            let (over, under) = (atom(rest, alone).0, atom(rest, alone).0);
            (format!("<mfrac>{over}{under}</mfrac>"), false)
        }
        "sum" => ("<mo>\u{2211}</mo>".to_owned(), alone),
        "min" | "max" | "log" => (format!("<mi>{name}</mi>"), false),
        "qquad" | "quad" => ("<mspace width=\"2em\"></mspace>".to_owned(), false),
        "cdot" => ("<mo>\u{22c5}</mo>".to_owned(), false),
        "langle" => ("<mo>\u{27e8}</mo>".to_owned(), false),
        "rangle" => ("<mo>\u{27e9}</mo>".to_owned(), false),
        "lambda" => ("<mi>\u{3bb}</mi>".to_owned(), false),
        "le" => ("<mo>\u{2264}</mo>".to_owned(), false),
        "ldots" | "dots" => ("<mo>\u{2026}</mo>".to_owned(), false),
        "" => {
            // An escaped character.
            let c = rest.chars().next().unwrap_or(' ');
            *rest = &rest[c.len_utf8().min(rest.len())..];
            (format!("<mo>{}</mo>", super::markdown::escaped(&c.to_string())), false)
        }
        other => (format!("<mtext>\\{other}</mtext>"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::math;

    #[test]
    fn formulas_of_the_lessons_are_set() {
        assert_eq!(math("n_k", false), "<math><mrow><msub><mi>n</mi><mi>k</mi></msub></mrow></math>");
        let sum = math(r"\text{lo} = \sum_k \min(0, 12)", true);
        assert!(
            sum.contains(
                "<mtext>lo</mtext><mo>=</mo><munder><mo>\u{2211}</mo><mi>k</mi></munder><mi>min</mi>"
            ),
            "{sum}"
        );
        assert_eq!(
            math("x^{2}", false),
            "<math><mrow><msup><mi>x</mi><mrow><mn>2</mn></mrow></msup></mrow></math>"
        );
        assert!(math(r"\nothing <", false).contains(r"<mtext>\nothing</mtext><mo>&lt;</mo>"));
        for broken in ["{", "}", "_", r"\frac", r"\", "a_^", r"\text{"] {
            assert!(math(broken, false).ends_with("</math>"), "{broken}");
        }
    }
}
