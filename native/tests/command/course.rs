//! `spanlift course`: one whole page from the lessons that ship or from notebooks, or one line that says what is missing.

use crate::kit::{folder, names, spanlift};

const NOTEBOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../notebooks");

#[test]
fn the_page_holds_every_lesson_and_asks_nobody() {
    let folder = folder("course");
    let ran = spanlift(&folder, &["course"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.starts_with("course.html: 7 lessons, 24 exercises; "), "{}", ran.out);
    assert_eq!(names(&folder), ["course.html"]);
    let page = std::fs::read_to_string(folder.join("course.html")).unwrap();
    assert_eq!(page.matches("Content-Security-Policy").count(), 1);
    assert!(page.contains("default-src 'none'") && !page.contains("connect-src"));
    // Words are those of the notebooks; what only their kernel needs is left out.
    for words in [
        "Asking is not doing.",
        "<h1>3. Races: broken, found, explained, mended</h1>",
        "<math",
        "<h1>7. ToDevice: transfers as factors</h1>",
        "A = to(cuda:0) -&gt; W0 -&gt; to(cuda:1) -&gt; W1 -&gt; to(cpu)",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains(":dep kit") && !page.contains("The first cell "));
    // One module, the course's own, and a page that mail still carries.
    assert_eq!(page.matches("id=\"spanlift-module\"").count(), 1);
    assert!(page.len() < 1_200_000, "{} bytes", page.len());
    // Words so long, or with marks that are no digits, that the packed module does not spell them by chance.
    for script in ["src=\"http", "href=\"http", ":url(", ": url(", "@import", " style=\"", "onclick="] {
        assert!(!page.contains(script), "{script}");
    }
    // The same page from the notebooks themselves.
    let again = spanlift(&folder, &["course", "--notebooks", NOTEBOOKS, "-o", "again.html"]);
    assert_eq!(again.code, 0);
    assert_eq!(std::fs::read_to_string(folder.join("again.html")).unwrap(), page);
}

#[test]
fn a_folder_without_notebooks_is_told_with_the_file_that_was_looked_for() {
    let folder = folder("no-course");
    let ran = spanlift(&folder, &["course", "--notebooks", "notebooks"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 1), "{}", ran.err);
    assert!(ran.err.contains("notebooks/01_streams_and_events.ipynb: no such file"), "{}", ran.err);
    std::fs::create_dir(folder.join("notebooks")).unwrap();
    for (text, words) in [("[]", "it has no cells"), ("{", "EOF"), ("{\"cells\": 5}", "it has no cells")] {
        std::fs::create_dir_all(folder.join("notebooks/page")).unwrap();
        std::fs::create_dir_all(folder.join("notebooks/solutions")).unwrap();
        std::fs::write(folder.join("notebooks/01_streams_and_events.ipynb"), text).unwrap();
        std::fs::write(folder.join("notebooks/page/01_streams_and_events.txt"), "").unwrap();
        std::fs::write(folder.join("notebooks/solutions/01_streams_and_events.rs"), "").unwrap();
        let ran = spanlift(&folder, &["course", "--notebooks", "notebooks"]);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{}", ran.err);
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    // What a page's file says of cells is said of cells that are there.
    std::fs::write(
        folder.join("notebooks/01_streams_and_events.ipynb"),
        "{\"cells\": [{\"cell_type\": \"markdown\", \"id\": \"c00\", \"source\": \"a\"}]}",
    )
    .unwrap();
    for (page, words) in [
        (
            "\n%% c07 show\nstream s\n",
            "page/01_streams_and_events.txt speaks of a cell c07, which is not there",
        ),
        (
            "\n%% c00 words\n- b\n+ c\n",
            "page/01_streams_and_events.txt, cell c00: \"b\" stands there 0 times, not once",
        ),
    ] {
        std::fs::write(folder.join("notebooks/page/01_streams_and_events.txt"), page).unwrap();
        let ran = spanlift(&folder, &["course", "--notebooks", "notebooks"]);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{}", ran.err);
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert_eq!(names(&folder), ["notebooks"]);
}
