"""Measures overlap tests beside NumPy, and reports and move plans against the number of tensors.

Run it with a Python that has NumPy, on a machine with nothing else to do; it writes tests/measured/memory.json. Each time
is the least of many: ours from the samples of `cargo bench`, NumPy's from as many passes over the same pairs.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

from shares import view

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAIRS = 512
SECONDS = 1.0


def run(*command, **options):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def least_ns(benchmark):
    """The least time of one iteration among criterion's samples."""
    sample = json.loads((ROOT / "target/criterion" / benchmark / "new/sample.json").read_text())
    return min(t / n for t, n in zip(sample["times"], sample["iters"]))


def numpy_ns(pairs, seconds):
    """The least time of one call of shares_memory, over passes through all pairs."""
    least, until = float("inf"), time.perf_counter() + seconds
    shares = np.shares_memory
    while time.perf_counter() < until:
        start = time.perf_counter_ns()
        for a, b in pairs:
            shares(a, b)
        least = min(least, time.perf_counter_ns() - start)
    return least / len(pairs)


def overlaps(seconds):
    kinds = {}
    for line in run("cargo", "run", "--release", "-qp", "spanlift-tests", "--bin", "samples", "--", "pairs", str(PAIRS)).splitlines():
        kind, a, b = json.loads(line)
        kinds.setdefault(kind, []).append((view(a), view(b)))
    far = [(view([1, 0, [1], [1]]), view([1, 1000 * k, [1], [1]])) for k in range(1, PAIRS + 1)]
    call = numpy_ns(far, seconds)
    rows = {}
    for kind, pairs in kinds.items():
        ours, numpys = least_ns(f"overlap/{kind}") / PAIRS, numpy_ns(pairs, seconds)
        rows[kind] = {
            "numpy_over_ours": round(numpys / ours, 2),
            "numpy_without_call_over_ours": round(max(numpys - call, 0.0) / ours, 2),
            "ours_ns_per_pair": round(ours, 1),
            "numpy_ns_per_pair": round(numpys, 1),
        }
    return {"kinds": rows, "numpy_call_ns": round(call, 1), "pairs_of_each_kind": PAIRS}


def layouts():
    rows = {}
    for tensors in [100, 1_000, 10_000, 100_000]:
        report, plan = (least_ns(f"layout/{what}/{tensors}") for what in ["report", "plan"])
        rows[tensors] = {
            "ns_per_tensor": round((report + plan) / tensors, 1),
            "report_s": report / 1e9,
            "plan_s": plan / 1e9,
        }
    each = [row["ns_per_tensor"] for row in rows.values()]
    return {"ns_per_tensor_largest_over_smallest_layout": round(each[-1] / each[0], 2), "tensors": rows}


def command():
    """The command on 100,000 tensors over 10,000 storages, with its peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        layout = pathlib.Path(folder, "layout.json")
        layout.write_text(
            run("cargo", "run", "--release", "-qp", "spanlift-tests", "--bin", "samples", "--", "layout", "10000")
        )
        binary = ROOT / "target/release/spanlift"
        # Processor time and peak of that command alone: compilers that ran before are children too.
        asked = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
        asked += "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
        words = [sys.executable, "-c", asked, binary, "memory", layout, "--to", "cuda:0", "--format", "json"]
        used = [run(*words).split() for _ in range(5)]
        return {
            "command": "spanlift memory LAYOUT --to cuda:0 --format json",
            "tensors": 100_000,
            "storages": 10_000,
            "processor_seconds": round(min(float(seconds) for seconds, _ in used), 3),
            "peak_bytes": max(int(peak) for _, peak in used) * 1024,
            "layout_bytes": layout.stat().st_size,
        }


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} threads"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/measured/memory.json")
    parser.add_argument("--short", action="store_true", help="as quick as can be: to see that all of it runs")
    args = parser.parse_args()
    run("cargo", "build", "--release", "-q")
    run("cargo", "bench", "-qp", "spanlift", "--bench", "memory", "--", *(["--quick"] if args.short else []))
    measured = {
        "overlap": overlaps(0.05 if args.short else SECONDS),
        "layouts": layouts(),
        "whole_command": command(),
        "machine": f"{processor()}; {platform.system()} {platform.release()}",
        "versions": {"rustc": run("rustc", "-V").strip(), "numpy": np.__version__, "python": platform.python_version()},
        "load_average": os.getloadavg()[0],
        "command": "python tests/memory/measure.py",
        "date": datetime.date.today().isoformat(),
    }
    args.out.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
