//! Scripts as pages carry them; the builder of `wasm/dist` compiles this file in, too.

/// A script without what only its readers need: lines that are comments, and what lines are indented by.
///
/// For scripts of which no text goes over several lines, which this would change: those of the page, and the glue when it
/// is built.
pub(crate) fn slim_script(script: &str) -> String {
    let mut slim = String::with_capacity(script.len());
    let mut is_comment = false;
    for line in script.lines().map(str::trim) {
        let begins = !is_comment && line.starts_with("/*") && (!line.contains("*/") || line.ends_with("*/"));
        if !is_comment && !begins && !line.is_empty() && !line.starts_with("//") {
            slim.push_str(line);
            slim.push('\n');
        }
        is_comment = (is_comment || begins) && !line.contains("*/");
    }
    slim
}
