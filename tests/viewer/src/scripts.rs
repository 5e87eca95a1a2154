//! The page's own scripts, as one and made small: pages carry them packed, and each byte is one in every page.
//!
//! | file | what it is |
//! |---|---|
//! | `page.js` | what unpacks a module and shows what a page holds, with its style and its elements |
//! | `lessons.js` | the same behind what does the cells of the course |
//!
//! Either stands behind a pair's glue, whose names it uses and which calls it by one name, and uses `digits`, which the loader puts in
//! front.

use std::{
    env,
    fmt::{self, Display, Formatter},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, ensure};

use crate::slim::slim_script;
use crate::split;

/// What the built scripts are called.
pub(crate) const NAMES: [&str; 2] = ["page.js", "lessons.js"];
/// Where their sources lie.
const FOLDER: &str = "wasm/src/page";
/// The sources, in their order: the last starts the viewers.
const SOURCES: [&str; 12] = [
    "lzma", "parts", "files", "keys", "menu", "perfetto", "paper", "tools", "advice", "against", "program",
    "boot",
];
const LESSONS: &str = "lesson";

/// The scripts by name.
pub(crate) fn all(root: &Path, minifier: &Minifier) -> Result<[(&'static str, String); 2]> {
    let folder = root.join(FOLDER);
    let read = |name: String| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    // Ends of lines are blanks between elements, and nothing between rules.
    let style = slim_script(&read("viewer.css".to_owned())?).replace("}\n", "}");
    let [style, body] =
        [style, slim_script(&read("viewer.html".to_owned())?)].map(|text| format!("{text:?}"));
    let mut page = format!("const STYLE={style},BODY={body};\n");
    for source in SOURCES {
        page += &read(format!("{source}.js"))?;
    }
    let lessons = read(format!("{LESSONS}.js"))? + &page;
    let [page_name, lessons_name] = NAMES;
    Ok([(page_name, minifier.page(&page)?), (lessons_name, minifier.page(&lessons)?)])
}

/// terser, from the packages of the tests in the browser.
pub(crate) struct Minifier {
    program: PathBuf,
    version: String,
}

impl Display for Minifier {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "terser {}", self.version)
    }
}

impl Minifier {
    /// The one in `SPANLIFT_NODE_MODULES`, or beside the tests in the browser.
    ///
    /// # Errors
    /// It is not there: how to get it.
    pub(crate) fn find(root: &Path) -> Result<Minifier> {
        let modules = env::var_os("SPANLIFT_NODE_MODULES")
            .map_or_else(|| root.join("tests/browser/node_modules"), PathBuf::from);
        let program = modules.join("terser/bin/terser");
        let get = || {
            format!(
                "no terser in {}: npm ci --prefix tests/browser --ignore-scripts, or its place in SPANLIFT_NODE_MODULES",
                modules.display()
            )
        };
        ensure!(program.is_file(), get());
        let version = run(&program, &["--version"], "").with_context(get)?;
        let version = version.trim().trim_start_matches("terser ").to_owned();
        Ok(Minifier { program, version })
    }

    /// The glue with short names within its functions; those of its functions are the page's script's, too.
    pub(crate) fn glue(&self, code: &str) -> Result<String> {
        self.minified(code, &["--compress", "passes=3", "--mangle"])
    }

    /// A script with short names, but what the glue calls it by.
    fn page(&self, code: &str) -> Result<String> {
        let compress = format!("passes=3,top_retain=[{}]", split::NEED);
        let mangle = format!("reserved=[{}]", split::NEED);
        self.minified(code, &["--toplevel", "--compress", &compress, "--mangle", &mangle])
    }

    fn minified(&self, code: &str, how: &[&str]) -> Result<String> {
        let small = run(&self.program, &[&["--ecma", "2022"], how].concat(), code)?;
        // What follows begins on a line of its own.
        Ok(small.trim_end().to_owned() + "\n")
    }
}

/// What node prints that runs `program` on `input`.
fn run(program: &Path, args: &[&str], input: &str) -> Result<String> {
    let mut node = Command::new("node")
        .arg(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run node")?;
    let mut stdin = node.stdin.take().context("node reads nothing")?;
    let output = thread::scope(|scope| {
        // Beside it, since both ends may fill; whoever refuses the input says why.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        node.wait_with_output()
    })?;
    ensure!(output.status.success(), "terser: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?)
}
