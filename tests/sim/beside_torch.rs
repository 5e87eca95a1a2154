//! The tutorial's rows on the profile of a machine with a device, beside PyTorch's times there: what `native/measured/` says the simulator
//! makes of them is what it makes of them today. Nothing of the profile is fitted to these rows.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanlift::machine::Machine;
use spanlift::sim;
use spanlift_native::{programs, tutorial};

/// How far a row's simulated time may lie from the measured one.
const AIM: f64 = 0.15;
/// What was measured on each machine, the newest first; its profile has the same name behind `profile-`.
const MEASURED: [&str; 2] = ["h200-2026-11-28.json", "h100-2026-11-26.json"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/measured")
}

fn json_of(name: &str) -> Value {
    let text = std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What the simulator makes of the rows of one machine, with the errors.
fn today(file: &str) -> Value {
    let profile = format!("profile-{file}");
    let machine = Machine::from_json(json_of(&profile).to_string().as_bytes()).expect("a profile");
    let measured = json_of(file);
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
        "profile": profile,
        "torch": file,
        "aim": AIM,
        "n_compared": errors.len(),
        "n_within_aim": errors.iter().filter(|&&error| error <= AIM).count(),
        "largest_error": errors.into_iter().fold(0.0, f64::max),
        "rows": rows,
    })
}

/// The rows of all machines beside each other.
fn table(told: &[Value]) -> String {
    let ms = |ms: f64| if ms < 10.0 { format!("{ms:.3} ms") } else { format!("{ms:.1} ms") };
    let mut table = "| row |".to_owned();
    for of in told {
        let gpu = of["torch"].as_str().expect("a text").split('-').next().expect("a word").to_uppercase();
        table += &format!(" {gpu}: PyTorch | simulated | error |");
    }
    table += &format!("\n|---|{}\n", "---|".repeat(3 * told.len()));
    let rows: Vec<_> = told.iter().map(|of| of["rows"].as_array().expect("a list")).collect();
    for k in 0..rows[0].len() {
        table += &format!("| `{}` |", rows[0][k]["id"].as_str().expect("a text"));
        for rows in &rows {
            let of = |name: &str| rows[k][name].as_f64().expect("a number");
            let (torch, simulated) = (ms(of("torch_ms")), ms(of("simulated_ms")));
            table += &format!(" {torch} | {simulated} | {:+.0} % |", 100.0 * of("error"));
        }
        table += "\n";
    }
    table
}

#[test]
fn what_the_files_say_of_the_simulator_is_what_it_does() {
    let told = MEASURED.map(today);
    let readme = folder().join("README.md");
    let text = std::fs::read_to_string(&readme).unwrap();
    let heading = "The simulator, on the profile alone";
    let begins =
        text.find(heading).and_then(|at| Some(at + text[at..].find("| row |")?)).expect("it has the table");
    let ends = begins + text[begins..].find("\n\n").expect("something follows it") + 1;
    let files = MEASURED.map(|name| folder().join(format!("simulator-{name}")));
    if std::env::var_os("SPANLIFT_BLESS").is_some() {
        for (file, told) in files.iter().zip(&told) {
            std::fs::write(file, serde_json::to_string_pretty(told).unwrap() + "\n").unwrap();
        }
        std::fs::write(&readme, format!("{}{}{}", &text[..begins], table(&told), &text[ends..])).unwrap();
        return;
    }
    for (file, told) in files.iter().zip(&told) {
        let said: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let file = file.display();
        assert_eq!(said, *told, "{file} is of another simulator: look, then run with SPANLIFT_BLESS=1");
    }
    assert_eq!(&text[begins..ends], table(&told), "{}", readme.display());
}
