#!/usr/bin/env python3
"""How long an incremental `tests/run --fast` takes, and which tests take longest: tests/measured/fast.json.

    python3 tests/measured/fast.py [--touch FILE] [--tests]

Everything is built first, which is not counted. Then twice on the clock of the wall: after FILE got a new time of change, which is
all that cargo looks at, and with nothing changed. With `--tests` each test program then runs by itself, all of it, and says how long each of
its tests takes; those of a second or more are listed (`tests/slow` is made of them). Nothing else should run beside it.
"""
import argparse, collections, datetime, json, os, pathlib, re, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = pathlib.Path(os.environ.get("SPANLIFT_MEASURED", ROOT / "tests/measured"))
LEAST_S = 1.0
TIMED = re.compile(r"^test (\S+).* \.\.\. ok <([0-9.]+)s>$", re.M)


def fast():
    began = time.monotonic()
    ran = subprocess.run(["tests/run", "--fast"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        sys.exit(f"{ran.stdout}\ntests/run --fast: status {ran.returncode}")
    return round(time.monotonic() - began, 1)


def programs():
    """Every test program with the folder that it runs in."""
    words = ["cargo", "test", "--workspace", "--no-run", "--message-format", "json"]
    built = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in built.stdout.splitlines():
        made = json.loads(line)
        if made["reason"] == "compiler-artifact" and made["executable"] and made["profile"]["test"]:
            yield f"{pathlib.Path(made['manifest_path']).parent.relative_to(ROOT)} {made['target']['name']}", made


def slow():
    tests, whole = {}, collections.Counter()
    for name, made in programs():
        env = {**os.environ, "RUSTC_BOOTSTRAP": "1"} # times of tests are not stable yet
        began = time.monotonic()
        words = [made["executable"], "-Zunstable-options", "--report-time"]
        folder = pathlib.Path(made["manifest_path"]).parent
        ran = subprocess.run(words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        whole[name] = round(time.monotonic() - began, 1)
        if ran.returncode != 0:
            sys.exit(f"{ran.stdout}\n{name}: status {ran.returncode}")
        tests |= {f"{name} {test}": float(s) for test, s in TIMED.findall(ran.stdout) if float(s) >= LEAST_S}
    return dict(sorted(tests.items(), key=lambda entry: -entry[1])), dict(whole.most_common(12))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--touch", default="core/src/units.rs")
    parser.add_argument("--tests", action="store_true")
    args = parser.parse_args()
    touched = args.touch
    fast()
    (ROOT / touched).touch()
    after_touch, unchanged = fast(), fast()
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    found = {
        "what": "an incremental tests/run --fast: seconds of the wall after one file of the core was touched, and with nothing changed",
        "command": f"python3 tests/measured/fast.py --touch {touched}{' --tests' if args.tests else ''}",
        "machine": f"{names[0]}, {len(names)} threads", "load_average": os.getloadavg()[0],
        "date": datetime.date.today().isoformat(),
        "settings": {k: v for k, v in sorted(os.environ.items()) if k.startswith("CARGO_") and k != "CARGO_HOME"},
        "after_touch_s": after_touch, "unchanged_s": unchanged,
    }
    if args.tests:
        tests, whole = slow()
        found |= {"slowest_programs_s": whole, f"tests_of_{LEAST_S:g}_s_or_more": tests}
    (MEASURED / "fast.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
