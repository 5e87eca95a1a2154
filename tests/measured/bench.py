#!/usr/bin/env python3
"""Runs `spanlift bench` for each subject that needs no file, and prints what it says of this machine.

    bench.py target/release/spanlift >bench.json

Nothing else should run beside it.
"""
import datetime, json, os, pathlib, subprocess, sys, tempfile, time

spanlift = os.path.abspath(sys.argv[1])
root = pathlib.Path(__file__).resolve().parents[2]


def figures(subject):
    said = subprocess.run([spanlift, "bench", subject, "--format", "json"], capture_output=True, check=True)
    return json.loads(said.stdout)


def whole_command():
    """`spanlift memory` on a large layout, from file to plan, with its peak of memory."""
    samples = ["cargo", "run", "--release", "-qp", "spanlift-tests", "--bin", "samples", "--", "layout", "10000"]
    layout = subprocess.run(samples, cwd=root, capture_output=True, check=True).stdout
    walls, peak = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layout.json")
        pathlib.Path(path).write_bytes(layout)
        for _ in range(3):
            began = time.monotonic()
            child = subprocess.Popen([spanlift, "memory", path, "--to", "cuda:0", "--format", "json"], stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(child.pid, 0)
            if status != 0:
                sys.exit(f"spanlift memory: status {status}")
            walls.append(round(time.monotonic() - began, 2))
            peak = max(peak, used.ru_maxrss * 1024)
    return {"command": "spanlift memory LAYOUT --to cuda:0 --format json",
            "layout": f"10,000 storages of a matrix with 10 views each, {len(layout) / 1e6:.1f} MB of JSON",
            "wall_s": sorted(walls), "peak_bytes": peak}


load = os.getloadavg()[0]
lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
print(json.dumps({
    "what": "spanlift bench, one run of each subject",
    "machine": f"{names[0]}, {len(names)} cores", "load_average": load, "date": datetime.date.today().isoformat(),
    "build": "cargo build --release",
    "commands": {f"spanlift bench {subject} --format json": figures(subject) for subject in ("memory", "sim", "check")},
    "whole_command": whole_command(),
}, indent=1))
