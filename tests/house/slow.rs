//! The tests that `tests/run --fast` leaves out (`tests/slow`) are there: a test that was renamed would be run again unnoticed.

/// The names that are listed.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Names in the list that no test has, and names that stand twice.
pub(crate) fn violations(files: &[(String, String)], list: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (k, name) in listed(list).enumerate() {
        let function = name.rsplit("::").next().unwrap_or(name);
        let declared = format!("fn {function}()");
        if !files.iter().any(|(path, text)| path.ends_with(".rs") && text.contains(&declared)) {
            found.push(format!("tests/slow: no test is called {name}"));
        }
        if listed(list).take(k).any(|before| before == name) {
            found.push(format!("tests/slow: {name} stands twice"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{project, root};

    #[test]
    fn the_slow_tests_are_there() {
        let list = std::fs::read_to_string(root().join("tests/slow")).expect("tests/slow");
        assert!(listed(&list).count() > 5);
        assert_eq!(violations(&project(), &list), [""; 0]);
    }

    #[test]
    fn planted_names_are_found() {
        let files = [("core/src/a.rs".to_owned(), "#[test]\nfn there() {}".to_owned())];
        assert!(violations(&files, "# slow\ntests::there\n").is_empty());
        assert_eq!(violations(&files, "tests::gone\n").len(), 1);
        assert_eq!(violations(&files, "there\nthere\n").len(), 1);
    }
}
