//! Writes the samples of `spanlift::memory::sample` as JSON, for what is not Rust to be measured beside.
//!
//! `samples pairs N` prints the first `N` pairs of each kind, a line each; `samples layout N` a layout of `N` storages; `samples
//! trace` and `samples snapshot` are the recordings of the course.

use std::io::{self, BufWriter, Write};

use serde_json::json;
use spanlift::memory::sample::{Pair, matrices};
use spanlift_tests::{numpys_view, training};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut out = BufWriter::new(io::stdout().lock());
    match (args.first().map(String::as_str), args.get(1).map(|n| n.parse())) {
        (Some("pairs"), Some(Ok(n))) => {
            for kind in Pair::ALL {
                for seed in 0..n {
                    let [a, b] = kind.views(seed).each_ref().map(numpys_view);
                    writeln!(out, "{}", json!([kind.name(), a, b]))?;
                }
            }
        }
        (Some("layout"), Some(Ok(n))) => {
            let layout = matrices(usize::try_from(n)?)?;
            let storages = layout.storages().iter();
            let storages: Vec<_> = storages
                .map(|s| json!({"id": s.id, "device": s.device.to_string(), "bytes": s.bytes.0}))
                .collect();
            let tensors = layout.tensors().iter().map(|t| {
                let (view, storage) = (t.view(), &layout.storage_of(t.storage()).id);
                json!({"name": t.name(), "storage": storage, "dtype": view.dtype.to_string(),
                    "shape": view.shape, "strides": view.strides, "offset": view.offset})
            });
            let tensors: Vec<_> = tensors.collect();
            writeln!(out, "{}", json!({"storages": storages, "tensors": tensors}))?;
        }
        (Some("trace"), None) => out.write_all(training::trace()?.as_bytes())?,
        (Some("snapshot"), None) => out.write_all(&training::snapshot())?,
        _ => return Err("samples pairs N, samples layout N, samples trace, or samples snapshot".into()),
    }
    Ok(out.flush()?)
}
