//! The probe on machines without a driver, with a useless one, and with a small one that the tests build.
//!
//! The driver is `driver.c`, compiled with what is to be wrong with it. Without a C compiler these cases are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use spanlift_softcuda::kit::object;

use crate::kit::{Ran, binary, folder, ran};

fn probe(library: &Path, format: &str) -> Ran {
    let mut command = binary(&folder("probe"));
    command.args(["probe", "--format", format]).env("SPANLIFT_CUDA_LIB", library);
    ran(command, b"")
}

/// Whatever the driver is like, the probe ends with 0, says `state` and `reason`, and nothing else of a device.
#[track_caller]
fn without_device(library: &Path, state: &str, reason: &str) {
    let told = probe(library, "json");
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    let object: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&object["state"], &object["devices"]), (&json!(state), &json!([])), "{object}");
    assert!(object["reason"].as_str().is_some_and(|text| text.contains(reason)), "{object}");
    let told = probe(library, "text");
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    assert!(told.out.lines().next().is_some_and(|line| line.contains(reason)), "{}", told.out);
}

/// Builds the driver with these definitions; `None` without a C compiler.
fn driver(name: &str, definitions: &[&str]) -> Option<PathBuf> {
    let library = folder("driver").join(format!("lib{name}.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/driver.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).args(definitions);
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(library)
        }
        Err(_) => {
            eprintln!("skipped: no C compiler to build a driver with");
            None
        }
    }
}

#[test]
fn a_library_that_cannot_be_opened_is_no_driver() {
    let folder = folder("no-driver");
    let absent = folder.join("libnothing.so");
    without_device(&absent, "no-driver", "no CUDA driver");
    without_device(&absent, "no-driver", "libnothing.so");
    let garbage = folder.join("libgarbage.so");
    std::fs::write(&garbage, b"no library").unwrap();
    without_device(&garbage, "no-driver", "libgarbage.so");
    without_device(&folder, "no-driver", "no CUDA driver");
}

#[test]
fn every_way_to_lack_a_device_has_its_own_words() {
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str, &str)] = &[
        ("none",     &["-DINIT=100"],                "no-device",       "CUDA driver 12.8 without a device: cuInit answered 100 (CUDA_ERROR_NO_DEVICE)"),
        ("empty",    &["-DDEVICES=0"],               "no-device",       "cuDeviceGetCount answered 0 devices"),
        ("negative", &["-DDEVICES=-3"],              "no-device",       "cuDeviceGetCount answered 0 devices"),
        ("stub",     &["-DINIT=34"],                 "no-driver",       "is a stub for linking"),
        ("old",      &["-DVERSION=11040"],           "unusable-driver", "serves CUDA 11.4, 12.2 is needed"),
        ("broken",   &["-DINIT=999"],                "unusable-driver", "cuInit answered 999 (CUDA_ERROR_UNKNOWN)"),
        ("newer",    &["-DINIT=12345"],              "unusable-driver", "cuInit answered 12345"),
        ("lost",     &["-DDEVICES=1", "-DNAME=46"],  "unusable-driver", "cuDeviceGetName answered 46 (CUDA_ERROR_DEVICE_UNAVAILABLE)"),
        ("partial",  &["-DDEVICES=1", "-DPARTIAL"],  "no-driver",       "lacks cuDeviceTotalMem_v2, cuDeviceCanAccessPeer"),
    ];
    for (name, definitions, state, reason) in cases {
        let Some(library) = driver(name, definitions) else { return };
        without_device(&library, state, reason);
    }
}

/// A toolkit's stub on the library path, which calls itself by the driver's name, does not hide the driver.
#[test]
fn a_stub_hides_no_driver() {
    let names_itself = "-Wl,-soname,libcuda.so.1";
    let Some(stub) = driver("a-stub", &["-DINIT=34", names_itself]) else { return };
    let Some(real) = driver("no-stub", &["-DDEVICES=1", names_itself]) else { return };
    // Not under `target`, where such a name would shadow a real driver.
    let own = std::env::temp_dir().join(format!("spanlift-stub-{}", std::process::id()));
    let (stubs, drivers) = (own.join("stubs"), own.join("drivers"));
    std::fs::create_dir_all(&stubs).unwrap();
    std::fs::create_dir_all(&drivers).unwrap();
    std::fs::copy(stub, stubs.join("libcuda.so")).unwrap();
    let asked = |path: &[&Path]| {
        let mut command = binary(&folder("probe"));
        command.args(["probe", "--format", "json"]).env_remove("SPANLIFT_CUDA_LIB");
        command.env("LD_LIBRARY_PATH", std::env::join_paths(path).unwrap());
        let told = ran(command, b"");
        assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
        serde_json::from_str::<Value>(&told.out).unwrap()
    };
    let alone = asked(&[&stubs]);
    std::fs::copy(real, drivers.join("libcuda.so.1")).unwrap();
    let told = asked(&[&stubs, &drivers]);
    std::fs::remove_dir_all(&own).unwrap();
    // A machine may have a driver of its own, which the stub does not hide either.
    let reason = alone["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("libcuda.so is a stub for linking") || alone["library"] == "libcuda.so.1",
        "{alone}"
    );
    assert_eq!((&told["state"], &told["library"]), (&json!("devices"), &json!("libcuda.so.1")), "{told}");
}

#[test]
fn devices_are_described() {
    let Some(library) = driver("two", &["-DDEVICES=2"]) else { return };
    let told = probe(&library, "json");
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    let mut object: Value = serde_json::from_str(&told.out).unwrap();
    // What the kernel tells of links is this computer's own.
    assert!(object["links"].take().is_array(), "{object}");
    object.as_object_mut().unwrap().remove("links");
    let device = |ordinal: u32, bus: &str, peers: &[u32]| {
        json!({
            "ordinal": ordinal, "name": "Test GPU", "uuid": null, "is_mig": false, "memory_bytes": 85_899_345_920u64, "compute_capability": [9, 0],
            "copy_engines": 3, "multiprocessors": 132, "pci_bus_id": bus, "link_generation": null, "link_width": null, "pageable_access": null, "peers": peers,
        })
    };
    let expected = json!({
        "state": "devices", "reason": null, "library": library.to_str(), "cuda_version": "12.8",
        "devices": [device(0, "0001:17:0a.0", &[]), device(1, "0001:18:0a.0", &[0])],
    });
    assert_eq!(object, expected);
    let told = probe(&library, "text").out;
    for fragment in [
        "2 devices, driver for CUDA 12.8",
        "cuda:1",
        "Test GPU, 80.00 GiB",
        "PCI 0001:18:0a.0",
        "peer access to cuda:0",
    ] {
        assert!(told.contains(fragment), "{told}");
    }
}

/// Of three devices who reaches whom is a table.
#[test]
fn peers_of_several_devices_are_a_table() {
    let told = |peers: bool| {
        let mut command = binary(&folder("probe"));
        let config = json!({"devices": 3, "peers": peers}).to_string();
        command.arg("probe").env("SPANLIFT_CUDA_LIB", object().unwrap()).env("SPANLIFT_SOFTCUDA", config);
        let told = ran(command, b"");
        assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
        let lines: Vec<String> = told.out.lines().map(str::to_owned).collect();
        let at = lines.iter().position(|line| line.starts_with("peer access")).expect("a table");
        lines[at..at + 4].to_vec()
    };
    let expected = [
        "peer access   cuda:0  cuda:1  cuda:2",
        "cuda:0        -       yes     yes",
        "cuda:1        yes     -       yes",
        "cuda:2        yes     yes     -",
    ];
    assert_eq!(told(true), expected);
    assert_eq!(told(false)[3], "cuda:2        no      no      -");
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let told = probe(Path::new(""), "json");
    let object: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told.code, 0);
    // What this machine has is not known here, only that the question was put to the usual names.
    let reason = object["reason"].as_str().unwrap_or_default();
    assert!(
        object["state"] != "no-driver" || reason.contains("libcuda.so") || reason.contains("nvcuda.dll"),
        "{object}"
    );
}
