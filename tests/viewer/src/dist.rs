//! The built pairs: glue and packed module of each, and the page's own scripts, with the hashes that tie them together.
//!
//! | line of `inputs.sha256` | hash of |
//! |---|---|
//! | `… inputs` | everything that the pairs are built from (`inputs.rs`) |
//! | `… viewer.js`, `… course.js`, `… operators.js` | the glue |
//! | `… viewer.wasm.lzma`, `… course.wasm.lzma`, `… operators.wasm.lzma` | the module |
//! | `… page.js`, `… lessons.js` | what starts them (`scripts.rs`) |
//! | `by …` | none: what made them, which gives the same bytes of the same inputs |
//!
//! Import names in glue and module carry hashes of one build, so a merge that takes one of each is as wrong as old
//! sources: `check` reports both.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::{fs, path::Path};

use anyhow::{Context, Result, anyhow, ensure};
use lzma_rust2::{LzmaOptions, LzmaWriter};
use wasm_bindgen_cli_support::Bindgen;

use crate::alike;
use crate::inputs::{self, sha256};
use crate::locals;
use crate::scripts::{self, Minifier};
use crate::slim::slim_script;
use crate::split;

/// Where the committed pairs lie.
pub(crate) const FOLDER: &str = "wasm/dist";

/// A module and its glue.
pub(crate) struct Pair {
    /// What both files are called.
    name: &'static str,
    /// The feature of the viewer's package that it has; none for the viewer itself.
    pub(crate) feature: &'static str,
}

/// The pair that has all of the code.
pub(crate) const WHOLE: Pair = Pair { name: "course", feature: "course" };

/// The viewer, which most pages carry, the viewer with what the course's page needs, and the viewer with the algebra of operators.
pub(crate) const PAIRS: [Pair; 3] =
    [Pair { name: "viewer", feature: "" }, WHOLE, Pair { name: "operators", feature: "operators" }];

const HASHES: &str = "inputs.sha256";
/// What the line begins with that says what compiled the pairs.
const BY: &str = "by ";
const REBUILD: &str = "rebuild it: cargo run -p spanlift-viewer-build -- build";

impl Pair {
    fn files(&self) -> [String; 2] {
        [format!("{}.js", self.name), format!("{}.wasm.lzma", self.name)]
    }
}

/// Glue and packed module of a pair, and their sizes in words.
struct Made {
    files: [(String, Vec<u8>); 2],
    sizes: String,
}

/// Runs wasm-bindgen on `wasm` and writes the pair into `out`; gives its sizes in words.
pub(crate) fn write(wasm: &Path, pair: &Pair, minifier: &Minifier, out: &Path) -> Result<String> {
    let Made { files, sizes } = make(wasm, pair, minifier)?;
    for (name, bytes) in files {
        save(&out.join(name), &bytes)?;
    }
    Ok(sizes)
}

/// Writes the page's own scripts into `out`; gives their sizes in words.
pub(crate) fn write_scripts(root: &Path, minifier: &Minifier, out: &Path) -> Result<String> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut sizes = Vec::new();
    for (name, code) in scripts::all(root, minifier)? {
        sizes.push(format!("{name} {} B", code.len()));
        save(&out.join(name), code.as_bytes())?;
    }
    Ok(sizes.join(", "))
}

/// Says that [`WHOLE`], made of `wasm` by `toolchain`, is byte for byte the committed pair, or that another compiler made that.
pub(crate) fn compare(wasm: &Path, root: &Path, minifier: &Minifier, toolchain: &str) -> Result<String> {
    let dist = root.join(FOLDER);
    let recorded = String::from_utf8(read(&dist.join(HASHES))?)?;
    let by =
        recorded.lines().find_map(|line| line.strip_prefix(BY)).unwrap_or("a compiler that is not recorded");
    let Made { files, sizes } = make(wasm, &WHOLE, minifier)?;
    if by != toolchain {
        return Ok(format!("{sizes}; not compared with {FOLDER}, which was built with {by}"));
    }
    let scripts = scripts::all(root, minifier)?;
    let scripts = scripts.into_iter().map(|(name, code)| (name.to_owned(), code.into_bytes()));
    for (name, bytes) in files.into_iter().chain(scripts) {
        ensure!(
            read(&dist.join(&name))? == bytes,
            "{FOLDER}/{name} is not what its sources give with {by}; {REBUILD}"
        );
    }
    Ok(format!("{sizes}: byte for byte those of {FOLDER}"))
}

fn make(wasm: &Path, pair: &Pair, minifier: &Minifier) -> Result<Made> {
    let scratch = wasm.with_extension("bindgen");
    Bindgen::new()
        .input_path(wasm)
        .web(true)?
        .typescript(false)
        // By their names functions are told apart that belong to the second part.
        .remove_name_section(false)
        .remove_producers_section(true)
        .out_name(pair.name)
        .generate(&scratch)?;
    let [glue_name, packed_name] = pair.files();
    let glue = String::from_utf8(read(&scratch.join(&glue_name))?).context("the glue is no UTF-8 text")?;
    let (glue, names) = terse(&of_parts(&plain(&slim_script(&glue)))?);
    let glue = minifier.glue(&glue)?.into_bytes();
    let parts = split::split(&read(&scratch.join(format!("{}_bg.wasm", pair.name)))?)?;
    let [first, second] =
        [parts.first, parts.second].map(|part| alike::beside(&locals::by_use(&part)?, &names));
    let (first, second) = (first?, second?);
    let packed = lzma(&joined(&first, &second)?)?;
    let sizes = format!(
        "{glue_name} {} B, {packed_name} {} B ({} and {} B unpacked)",
        glue.len(),
        packed.len(),
        first.len(),
        second.len()
    );
    Ok(Made { files: [(glue_name, glue), (packed_name, packed)], sizes })
}

/// What is packed: both parts, behind the length of the first. One behind the other they pack smaller than apart, and the page
/// unpacks no more than it needs.
fn joined(first: &[u8], second: &[u8]) -> Result<Vec<u8>> {
    let length = u32::try_from(first.len()).context("a module of four gigabytes")?;
    Ok([&length.to_le_bytes(), first, second].concat())
}

/// Glue of a module in two parts, which the page's own script starts (`page/parts.js`): without what would start it, and with the call
/// that brings the second.
fn of_parts(glue: &str) -> Result<String> {
    const IMPORTS: &str = "const import0 = {\n";
    let (glue, _) = glue.split_once("async function __wbg_load(").context("the glue starts nothing")?;
    ensure!(glue.matches(IMPORTS).count() == 1, "the glue imports in a form that is not known here");
    Ok(glue.replacen(IMPORTS, &format!("{IMPORTS}{},\n", split::NEED), 1))
}

/// A script that exports nothing: it is the worker's too, and of a page that is a file no worker may be a module.
fn plain(glue: &str) -> String {
    let lines = glue.split_inclusive('\n').filter(|line| !line.starts_with("export {"));
    lines.map(|line| line.strip_prefix("export ").unwrap_or(line)).collect()
}

/// A script with numbers for names that nobody writes, those with a hash of 16 digits in them, and the numbers by name. Every page
/// carries these names twice, and hashes do not pack.
fn terse(glue: &str) -> (String, BTreeMap<String, String>) {
    let is_hash = |part: &str| {
        part.len() == 16 && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let (mut names, mut out) = (BTreeMap::new(), String::with_capacity(glue.len()));
    for word in glue.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if name.split('_').any(is_hash) {
            let next = names.len();
            out += names.entry(name.to_owned()).or_insert_with(|| format!("_{next}"));
            out += &word[name.len()..];
        } else {
            out += word;
        }
    }
    (out, names)
}

/// Says in `out` what its pairs were built from, and by what.
pub(crate) fn seal(inputs: &str, toolchain: &str, out: &Path) -> Result<()> {
    let hashes = hashes(inputs, &contents(out)?);
    save(&out.join(HASHES), format!("{hashes}{BY}{toolchain}\n").as_bytes())
}

/// Says that the committed pairs are up to date, or why not.
pub(crate) fn check(root: &Path) -> Result<String> {
    let dist = root.join(FOLDER);
    let recorded = read(&dist.join(HASHES)).and_then(|bytes| Ok(String::from_utf8(bytes)?));
    let found = contents(&dist).and_then(|files| Ok((recorded?, files)));
    let (recorded, files) = found.map_err(|error| anyhow!("{FOLDER} is not built ({error:#}); {REBUILD}"))?;
    verdict(&recorded, &hashes(&inputs::hash(root)?, &files))?;
    Ok(format!("{FOLDER} is up to date"))
}

fn verdict(recorded: &str, found: &str) -> Result<()> {
    for line in found.lines() {
        ensure!(
            recorded.lines().any(|other| other == line),
            "{FOLDER} is stale: {}; {REBUILD}",
            match line.split_whitespace().last() {
                Some("inputs") | None => "its sources or dependencies changed since it was built".to_owned(),
                Some(file) => format!("{file} is not of the same build as {HASHES}"),
            }
        );
    }
    Ok(())
}

/// The names of all files that are built.
fn built() -> impl Iterator<Item = String> {
    PAIRS.iter().flat_map(Pair::files).chain(scripts::NAMES.map(str::to_owned))
}

/// Names and bytes of the files that are built.
fn contents(dist: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    built().map(|name| Ok((name.clone(), read(&dist.join(name))?))).collect()
}

fn hashes(inputs: &str, files: &[(String, Vec<u8>)]) -> String {
    let lines = files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes)));
    format!("{inputs}  inputs\n{}", lines.collect::<String>())
}

/// Packs as tightly as the format allows; one module gives one file, with its length in the header.
fn lzma(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut options = LzmaOptions::with_preset(9);
    // Nothing in a module is aligned; bytes before a byte say more of it than in text.
    (options.lc, options.pb) = (4, 0);
    (options.nice_len, options.depth_limit) = (LzmaOptions::NICE_LEN_MAX, 1000);
    options.dict_size = 1 << 22;
    let mut packer = LzmaWriter::new_use_header(Vec::new(), &options, Some(bytes.len() as u64))?;
    packer.write_all(bytes)?;
    Ok(packer.finish()?)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes of inputs and of the eight files, a letter each.
    fn of(letters: &str) -> String {
        let (inputs, files) = letters.split_at(1);
        let files: Vec<_> = built().zip(files.bytes()).map(|(name, letter)| (name, vec![letter])).collect();
        assert_eq!((files.len(), built().count()), (8, 8));
        hashes(inputs, &files)
    }

    #[track_caller]
    fn check(recorded: &str, found: &str, expected: &str) {
        let verdict = verdict(&of(recorded), &of(found));
        let verdict = verdict.map_or_else(|error| error.to_string(), |()| "ok".to_owned());
        assert!(verdict.contains(expected), "{verdict}");
    }

    #[test]
    fn a_changed_source_or_half_a_pair_is_stale() {
        check("ivwcxopsl", "ivwcxopsl", "ok");
        check("ivwcxopsl", "jvwcxopsl", "sources or dependencies changed");
        check("ivwcxopsl", "ihwcxopsl", "viewer.js is not of the same build");
        check("ivwcxopsl", "ivncxopsl", "viewer.wasm.lzma is not of the same build");
        check("ivwcxopsl", "iwvcxopsl", "viewer.js is not of the same build");
        check("ivwcxopsl", "ivwxxopsl", "course.js is not of the same build");
        check("ivwcxopsl", "icxcxopsl", "viewer.js is not of the same build");
        check("ivwcxopsl", "ivwcwopsl", "course.wasm.lzma is not of the same build");
        check("ivwcxopsl", "ivwcxcxsl", "operators.js is not of the same build");
        check("ivwcxopsl", "ivwcxoxsl", "operators.wasm.lzma is not of the same build");
        check("ivwcxopsl", "ivwcxoptl", "page.js is not of the same build");
        check("ivwcxopsl", "ivwcxopsm", "lessons.js is not of the same build");
    }

    #[test]
    fn glue_does_not_start_its_module_and_brings_the_second_part() {
        let glue =
            "let wasm;\nconst import0 = {\n__proto__: null,\n};\nasync function __wbg_load(module) {\n}\n";
        assert_eq!(of_parts(glue).unwrap(), "let wasm;\nconst import0 = {\nsecond,\n__proto__: null,\n};\n");
        assert!(of_parts("const import0 = {\n").is_err());
        assert!(of_parts("const import1 = {\nasync function __wbg_load(").is_err());
    }

    #[test]
    fn the_first_part_can_be_told_from_the_second() {
        assert_eq!(joined(b"one", b"the other").unwrap(), b"\x03\0\0\0onethe other");
    }

    #[test]
    fn a_script_exports_nothing() {
        assert_eq!(
            plain("export class A {\n}\nf(\"export \");\nexport { A as default };\n"),
            "class A {\n}\nf(\"export \");\n"
        );
    }

    #[test]
    fn names_with_a_hash_become_numbers() {
        let glue = "x: { __wbg_a_0123456789abcdef: f(a_b), __wbg_load, _c_0123456789abcdeg },\nwasm.b_fedcba9876543210__c(__wbg_a_0123456789abcdef)";
        let (short, names) = terse(glue);
        assert_eq!(short, "x: { _0: f(a_b), __wbg_load, _c_0123456789abcdeg },\nwasm._1(_0)");
        assert_eq!(names.len(), 2);
        assert_eq!(names["b_fedcba9876543210__c"], "_1");
    }

    #[test]
    fn packing_twice_gives_the_same_bytes() {
        let packed = lzma(b"module").unwrap();
        assert_eq!(packed, lzma(b"module").unwrap());
        let mut unpacked = Vec::new();
        let mut reader = lzma_rust2::LzmaReader::new_mem_limit(&packed[..], u32::MAX, None).unwrap();
        std::io::Read::read_to_end(&mut reader, &mut unpacked).unwrap();
        assert_eq!(unpacked, b"module");
        assert_eq!(packed[5..13], 6u64.to_le_bytes(), "the page needs to know how much it is");
    }
}
