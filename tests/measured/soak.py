#!/usr/bin/env python3
"""A long run of everything that is drawn by chance, and tests/measured/soak.json with how it went.

    soak.py [--seconds 600]

Programs through the checker, the transitive closure and the explorer, through the simulator and on the driver in software; transfers of
the engine; damaged files through every reader; views and memory maps against sets of bytes; operators against matrices. Each has its share of the time: it runs with twice as many draws as before
for as long as that fits. Ends with 1 at the first failure, which names its seed, and writes nothing then.
"""
import argparse, datetime, json, os, pathlib, re, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = pathlib.Path(os.environ.get("SPANLIFT_MEASURED", ROOT / "tests/measured"))
FUZZED = re.compile(r"^\.*([^.].*): (\d+) files from seed \d+, (\d+) of them usable$", re.M)

# What is drawn, its share of the time, where the number of draws is said, with how many it begins, and the tests.
DRAWN = [
    ("programs, checker and explorer", 0.3, "SPANLIFT_RANDOM_PROGRAMS", 2000, "hazard", ["random::", "explore::", "witness::", "each::"]),
    ("memory maps against a model of bytes", 0.1, "SPANLIFT_SEEDS", 300, "spans", ["maps::random_maps"]),
    ("simulator against one that looks once a nanosecond", 0.15, "SPANLIFT_SEEDS", 300, "lib", ["sim::tests::ticks"]),
    ("programs on the driver in software, against the simulator's values", 0.1, "SPANLIFT_SEEDS", 60, "cuda", ["run::random", "run::kernels"]),
    ("pairs of views against sets of bytes, times 25,000", 0.15, "SPANLIFT_OVERLAP_TIMES", 1, "spans", ["overlap::"]),
]


def which(name):
    """A test program by its name, or those of the libraries."""
    return ["--lib"] if name == "lib" else ["--test", name]


def built(name):
    """Builds a test, whose time is not counted."""
    subprocess.run(["cargo", "test", "--quiet", "--workspace", *which(name), "--no-run"], cwd=ROOT, check=True)


def test(name, words, env, shown=False):
    """Runs tests; gives the seconds they took and what they printed."""
    command = ["cargo", "test", "--quiet", "--workspace", *which(name), "--", *words, *(["--nocapture"] if shown else [])]
    began = time.monotonic()
    ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        sys.exit(f"{ran.stdout}\nfailed: {' '.join(f'{k}={v}' for k, v in env.items())} {' '.join(command)}")
    if not re.search(r"[1-9]\d* passed", ran.stdout):
        sys.exit(f"no test is called so: {' '.join(command)}")
    return time.monotonic() - began, ran.stdout


def doubled(share, variable, draws, name, words):
    """The largest number of draws that was tried within the share, and the seconds of all tries."""
    spent = last = 0.0
    built(name)
    while spent == 0 or spent + 2.2 * last < share:
        draws *= 2 if spent else 1
        last, _ = test(name, words, {variable: str(draws)})
        spent += last
    return draws, spent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    seconds = parser.parse_args().seconds
    runs = []
    for what, share, variable, draws, name, words in DRAWN:
        draws, spent = doubled(share * seconds, variable, draws, name, words)
        runs.append({"what": what, "draws": draws, "by": variable, "seconds": round(spent, 1), "failures": 0})
        print(json.dumps(runs[-1]), flush=True)
    each = max(1, round(0.1 * seconds))
    built("engine")
    spent, _ = test("engine", ["draws::"], {"SPANLIFT_FUZZ_SECONDS": str(each)})
    runs.append({"what": "transfers of three engines against plain copies of bytes", "by": "SPANLIFT_FUZZ_SECONDS", "seconds": round(spent, 1), "failures": 0})
    print(json.dumps(runs[-1]), flush=True)
    built("fuzz")
    spent, said = test("fuzz", ["--test-threads=8"], {"SPANLIFT_FUZZ_SECONDS": str(each)}, shown=True)
    files = {reader: {"files": int(n), "usable": int(good)} for reader, n, good in FUZZED.findall(said)}
    runs.append({"what": "damaged files through every reader", "draws": sum(f["files"] for f in files.values()), "readers": files,
                 "by": "SPANLIFT_FUZZ_SECONDS", "seconds": round(spent, 1), "failures": 0})
    print(json.dumps(runs[-1]), flush=True)
    built("operators")
    spent, _ = test("operators", [], {})
    runs.append({"what": "random expressions, kernels against the reference", "by": "its own seeds", "seconds": round(spent, 1), "failures": 0})
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    found = {
        "what": "long runs of what is drawn by chance, with debug assertions and overflow checks; a run stands here when nothing failed",
        "command": f"python3 tests/measured/soak.py --seconds {seconds:g}",
        "machine": f"{names[0]}, {len(names)} threads", "load_average": os.getloadavg()[0],
        "date": datetime.date.today().isoformat(),
        "seconds": round(sum(run["seconds"] for run in runs), 1), "runs": runs,
    }
    (MEASURED / "soak.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
