//! The tutorial's rows on the profile of a machine with a device, beside PyTorch's times there: what `native/measured/` says the simulator
//! makes of them is what it makes of them today. Nothing of the profile is fitted to these rows.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanlift::machine::Machine;
use spanlift::sim;
use spanlift_native::{programs, tutorial};

/// How far a row's simulated time may lie from the measured one.
const AIM: f64 = 0.15;
const MEASURED: &str = "h100-2026-11-26.json";
const PROFILE: &str = "profile-h100-2026-11-26.json";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/measured")
}

fn json_of(name: &str) -> Value {
    let text = std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What the simulator makes of the rows, with the errors.
fn today() -> Value {
    let machine = Machine::from_json(json_of(PROFILE).to_string().as_bytes()).expect("a profile");
    let measured = json_of(MEASURED);
    let measured = measured["parts"]["simulator"]["rows"].as_array().expect("a list");
    let mut rows = Vec::new();
    for (shipped, published) in programs::ROWS.iter().zip(tutorial::rows()) {
        let row =
            measured.iter().find(|row| row["id"] == published.id.as_str()).expect("every row was measured");
        let run = sim::run(&shipped.program(), &machine).expect("it ships");
        let ms = run.between("begin", "end").expect("it has marks").0 as f64 / 1e6;
        // `h2d.1000x4MB.dict.blocking`: where fewer tensors were measured each is held to take as long.
        let tensors = published.id.split('.').nth(1).and_then(|of| of.split('x').next()?.parse::<f64>().ok());
        let simulated_ms =
            ms * row["count"].as_f64().expect("a number") / tensors.expect("a number of tensors");
        let torch_ms = row["torch_ms"].as_f64().expect("a number");
        let error = simulated_ms / torch_ms - 1.0;
        rows.push(json!({
            "id": published.id, "count": row["count"], "torch_ms": torch_ms, "simulated_ms": simulated_ms, "error": error,
        }));
    }
    let errors: Vec<f64> = rows.iter().map(|row| row["error"].as_f64().expect("a number").abs()).collect();
    json!({
        "what": "the tutorial's rows simulated on a measured profile, beside PyTorch's times on that machine; nothing is fitted to them",
        "command": "SPANLIFT_BLESS=1 cargo test -p spanlift-tests --test sim beside_torch",
        "profile": PROFILE,
        "torch": MEASURED,
        "aim": AIM,
        "n_compared": errors.len(),
        "n_within_aim": errors.iter().filter(|&&error| error <= AIM).count(),
        "largest_error": errors.into_iter().fold(0.0, f64::max),
        "rows": rows,
    })
}

fn table(told: &Value) -> String {
    let ms = |ms: f64| if ms < 10.0 { format!("{ms:.3} ms") } else { format!("{ms:.1} ms") };
    let mut table = "| row | PyTorch | simulated | error |\n|---|---|---|---|\n".to_owned();
    for row in told["rows"].as_array().expect("a list") {
        let of = |name: &str| row[name].as_f64().expect("a number");
        let id = row["id"].as_str().expect("a text");
        let (torch, simulated) = (ms(of("torch_ms")), ms(of("simulated_ms")));
        table += &format!("| `{id}` | {torch} | {simulated} | {:+.0} % |\n", 100.0 * of("error"));
    }
    table
}

#[test]
fn what_the_files_say_of_the_simulator_is_what_it_does() {
    let told = today();
    let (file, readme) = (folder().join(format!("simulator-{MEASURED}")), folder().join("README.md"));
    let text = std::fs::read_to_string(&readme).unwrap();
    let begins = text.find("| row | PyTorch | simulated |").expect("it has the table");
    let ends = begins + text[begins..].find("\n\n").expect("something follows it") + 1;
    if std::env::var_os("SPANLIFT_BLESS").is_some() {
        std::fs::write(&file, serde_json::to_string_pretty(&told).unwrap() + "\n").unwrap();
        std::fs::write(&readme, format!("{}{}{}", &text[..begins], table(&told), &text[ends..])).unwrap();
        return;
    }
    let said: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        said,
        told,
        "{} is of another simulator: look, then run with SPANLIFT_BLESS=1",
        file.display()
    );
    assert_eq!(&text[begins..ends], table(&told), "{}", readme.display());
}
