//! The built pair: glue (`viewer.js`) and packed module (`viewer.wasm.gz`), with the hashes that tie them together.
//!
//! | line of `inputs.sha256` | hash of |
//! |---|---|
//! | `… inputs` | everything that the pair is built from (`inputs.rs`) |
//! | `… viewer.js` | the glue |
//! | `… viewer.wasm.gz` | the module |
//!
//! Import names in glue and module carry hashes of one build, so a merge that takes one of each is as wrong as old
//! sources: `check` reports both.

use std::{fs, path::Path};

use anyhow::{Context, Result, anyhow, ensure};
use wasm_bindgen_cli_support::Bindgen;

use crate::inputs::{self, sha256};

/// Where the committed pair lies.
pub(crate) const FOLDER: &str = "wasm/dist";

const GLUE: &str = "viewer.js";
const MODULE: &str = "viewer.wasm.gz";
const HASHES: &str = "inputs.sha256";
const REBUILD: &str = "rebuild it: cargo run -p spanlift-tests --features viewer-build --bin viewer -- build";

/// Runs wasm-bindgen on `wasm` and writes the pair into `out`; gives its sizes in words.
pub(crate) fn write(wasm: &Path, inputs: &str, out: &Path) -> Result<String> {
    let scratch = wasm.with_extension("bindgen");
    Bindgen::new()
        .input_path(wasm)
        .web(true)?
        .typescript(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .out_name("viewer")
        .generate(&scratch)?;
    let glue = String::from_utf8(read(&scratch.join(GLUE))?).context("the glue is no UTF-8 text")?;
    let glue = spanlift_viewer::slim_script(&glue).into_bytes();
    let module = read(&scratch.join("viewer_bg.wasm"))?;
    let packed = gzip(&module)?;
    let hashes = hashes(inputs, &glue, &packed);
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    for (name, bytes) in [(GLUE, &glue), (MODULE, &packed), (HASHES, &hashes.into_bytes())] {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(format!("{GLUE} {} B, {MODULE} {} B ({} B unpacked)", glue.len(), packed.len(), module.len()))
}

/// Says that the committed pair is up to date, or why not.
pub(crate) fn check(root: &Path) -> Result<String> {
    let dist = root.join(FOLDER);
    let recorded = read(&dist.join(HASHES)).and_then(|bytes| Ok(String::from_utf8(bytes)?));
    let recorded = recorded.map_err(|error| anyhow!("{FOLDER} is not built ({error:#}); {REBUILD}"))?;
    let pair = (read(&dist.join(GLUE))?, read(&dist.join(MODULE))?);
    verdict(&recorded, &hashes(&inputs::hash(root)?, &pair.0, &pair.1))?;
    Ok(format!("{FOLDER} is up to date"))
}

fn verdict(recorded: &str, found: &str) -> Result<()> {
    for (line, name) in found.lines().zip(["inputs", GLUE, MODULE]) {
        ensure!(
            recorded.lines().any(|other| other == line),
            "{FOLDER} is stale: {}; {REBUILD}",
            match name {
                "inputs" => "its sources or dependencies changed since it was built".to_owned(),
                file => format!("{file} is not of the same build as {HASHES}"),
            }
        );
    }
    Ok(())
}

fn hashes(inputs: &str, glue: &[u8], packed: &[u8]) -> String {
    format!("{inputs}  inputs\n{}  {GLUE}\n{}  {MODULE}\n", sha256(glue), sha256(packed))
}

/// Packs as tightly as the format allows, without a time stamp, so that one module gives one file.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    zopfli::compress(zopfli::Options::default(), zopfli::Format::Gzip, bytes, &mut packed)?;
    Ok(packed)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(recorded: (&str, &str, &str), found: (&str, &str, &str), expected: &str) {
        let of =
            |(inputs, glue, module): (&str, &str, &str)| hashes(inputs, glue.as_bytes(), module.as_bytes());
        let verdict =
            verdict(&of(recorded), &of(found)).map_or_else(|error| error.to_string(), |()| "ok".to_owned());
        assert!(verdict.contains(expected), "{verdict}");
    }

    #[test]
    fn a_changed_source_or_half_a_pair_is_stale() {
        check(("i", "g", "m"), ("i", "g", "m"), "ok");
        check(("i", "g", "m"), ("j", "g", "m"), "sources or dependencies changed");
        check(("i", "g", "m"), ("i", "h", "m"), "viewer.js is not of the same build");
        check(("i", "g", "m"), ("i", "g", "n"), "viewer.wasm.gz is not of the same build");
        check(("i", "g", "m"), ("i", "m", "g"), "viewer.js is not of the same build");
    }

    #[test]
    fn packing_twice_gives_the_same_bytes() {
        let packed = gzip(b"module").unwrap();
        assert_eq!(packed, gzip(b"module").unwrap());
        assert_eq!(packed[4..8], [0; 4], "no time stamp");
    }
}
