"""Times operators beside faer, NumPy, SciPy, PyLops and SigPy, and writes tests/measured/operators.json.

    python3 tests/operators/measure.py [--budget SECONDS] [--only BENCH,...] [--cpu N]

`--only` measures these rows anew and keeps the others of the file: each row says when it was measured and beside which load.
The bench `clean` is a clean release build of the core; what is timed is built as other programs build a library, by cargo's own
choice, which is this workspace's profile `library`.

One core and one thread for everybody, processor time of the thread, batches of at least 5 ms, contenders in turns
(A B C, C B A, ...), the least of all batches. Results are compared with NumPy's before anything is timed. The Python side
lies in an environment of its own under ${SPANLIFT_CACHE:-${XDG_CACHE_HOME:-~/.cache}/spanlift}, made on the first run.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/operators"
BATCH = 0.005
CORES = os.sched_getaffinity(0)
THREADS = {f"{name}_NUM_THREADS": "1" for name in ["OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON"]}


def environment():
    """The Python with the pinned libraries, made where it is missing; this script goes on in it."""
    cache = os.environ.get("SPANLIFT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "spanlift"
    )
    pinned = HERE / "requirements.txt"
    key = hashlib.sha256(pinned.read_bytes() + sys.version.encode()).hexdigest()[:12]
    venv = pathlib.Path(cache) / f"operators-{key}"
    python = venv / "bin/python"
    if not (venv / ".complete").exists():
        print(f"measure: installing {pinned.name} into {venv}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", pinned]
        subprocess.run(pip, check=True)
        (venv / ".complete").touch()
    if pathlib.Path(sys.prefix).resolve() != venv.resolve():
        os.execve(python, [str(python), *sys.argv], {**os.environ, **THREADS})


class Ours:
    """The compiled side, which answers one line for each line."""

    def __init__(self, threads=1):
        command = ["cargo", "build", "--profile", "library", "--quiet", "-p", "spanlift-tests", "--features", "peers", "--bin", "peers"]
        subprocess.run(command, cwd=ROOT, check=True)
        pipe = subprocess.PIPE
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        env = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen([target / "library/peers"], stdin=pipe, stdout=pipe, text=True, env=env)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"measure: no answer to {line!r}")
        return json.loads(answer)


def timed(call, repeats):
    begun = time.thread_time()
    for _ in range(repeats):
        call()
    return time.thread_time() - begun


def least(batches, budget):
    """The least seconds of one call of each contender; `batches` time so many calls."""
    repeats = {}
    for name, batch in batches.items():
        batch(1)
        repeats[name] = 1
        while batch(repeats[name]) < BATCH and repeats[name] < 1 << 24:
            repeats[name] *= 2
    best = dict.fromkeys(batches, float("inf"))
    rounds, begun = 0, time.monotonic()
    # Twice the budget at most on the clock of the wall: others may have the machine too.
    while rounds < 6 or (time.monotonic() - begun < budget * len(batches) and rounds < 400):
        names = list(batches)
        for name in names if rounds % 2 == 0 else reversed(names):
            best[name] = min(best[name], batches[name](repeats[name]) / repeats[name])
        rounds += 1
    return best, rounds


def row(ours, libraries, bench, keys, budget):
    import numpy as np

    import peers

    words = " ".join(f"{k}={v}" for k, v in keys.items())
    batches = {}
    names = ours.ask(f"row {bench} {words}")
    for name in names:
        batches[name] = lambda n, name=name: ours.ask(f"time {name} {n}")
    calls = peers.contenders(libraries, bench, keys)
    if calls:
        expected = np.ravel(calls["numpy"]())[:4096]
        scale, tolerance = np.abs(expected).max(), 1e-5 if expected.dtype == np.complex64 else 1e-9
        values = {name: np.ravel(call())[:4096] for name, call in calls.items()}
        for name in names:
            batches[name](1)
            value = np.array(ours.ask(f"value {name}"))
            values[name] = value.view(complex) if np.iscomplexobj(expected) else value
        for name, value in values.items():
            n = min(len(value), len(expected))
            worst = np.abs(value[:n] - expected[:n]).max()
            if not worst <= tolerance * scale and not (bench == "cg" and keys["n"] > 4096):
                sys.exit(f"measure: {name} is {worst} off in {bench} {words}")
    for name, call in calls.items():
        batches[name] = lambda n, call=call: timed(call, n)
    best, rounds = least(batches, budget)
    per = keys["k"] if bench == "cg" else 1
    ns = {name: float(f"{seconds / per * 1e9:.4g}") for name, seconds in best.items()}
    first = names[0]
    ratios = {f"{first}_over_{name}": round(ns[first] / v, 4) for name, v in ns.items() if name != first}
    print(f"{bench} {words}: {ratios}", file=sys.stderr, flush=True)
    return f"{bench} {words}", {**ratios, "ns": ns, "batches": rounds}


def threaded(ours, _libraries, bench, keys, budget):
    """One thread beside two, on the clock of the wall; the second process has the cores that this one was given."""
    words = " ".join(f"{k}={v}" for k, v in keys.items())
    two = Ours(threads=2)
    os.sched_setaffinity(two.process.pid, CORES)
    batches = {}
    for name, side in [("one", ours), ("two", two)]:
        side.ask(f"row {bench} {words}")
        batches[name] = lambda n, side=side: side.ask(f"wall spanlift {n}")
    best, rounds = least(batches, budget)
    two.process.stdin.close()
    two.process.wait()
    ns = {name: float(f"{seconds * 1e9:.4g}") for name, seconds in best.items()}
    ratio = {"one_over_two": round(ns["one"] / ns["two"], 3)}
    print(f"{bench} {words}: {ratio} {ns}", file=sys.stderr, flush=True)
    return f"{bench} {words}", {**ratio, "ns": ns, "batches": rounds}


def clean_build(_ours, _libraries, _bench, _keys, _budget):
    """Processor time of a clean build of the core, for release and as a dependency, the least of three, and how many packages."""
    seconds = {"release": [], "library": []}
    for profile in ["release", "library"] * 3:
        with tempfile.TemporaryDirectory() as target:
            env = {**os.environ, "CARGO_TARGET_DIR": target}
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = ["cargo", "build", "--profile", profile, "--package", "spanlift", "--message-format", "json"]
            built = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds[profile].append(round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 1))
    made = [json.loads(line) for line in built.stdout.splitlines()]
    packages = {m["package_id"] for m in made if m["reason"] == "compiler-artifact"}
    release, library = min(seconds["release"]), min(seconds["library"])
    return "clean", {
        "cpu_s": release, "as_a_dependency_cpu_s": library, "all_cpu_s": seconds, "crates": len(packages),
        "ns": {"spanlift": release * 1e9}}


def plan_of_rows():
    rows = []
    for n in [1, 16, 1024, 4096, 1_000_000]:
        for k in [1, 3, 10, 30]:
            if n == 1_000_000 and k == 30:
                continue
            for what in ["forward"] if k in (1, 3) or n == 1_000_000 else ["forward", "adjoint", "normal"]:
                rows.append(("chain", {"n": n, "k": k, "what": what}))
    rows.append(("pass", {"n": 1_000_000}))
    rows.append(("dispatch", {"k": 10}))
    rows += [("fft", {"side": side}) for side in [64, 128, 256, 512]]
    for what in ["sum", "stack"]:
        rows += [("sum", {"what": what, "n": n, "m": m}) for n in [16, 65536] for m in [2, 4, 8, 32]]
        rows += [("gram", {"what": what, "n": 512, "m": m}) for m in [2, 4, 8]]
    rows += [("cg", {"n": n, "k": k}) for n, k in [(256, 20), (1024, 20), (65536, 20)]]
    rows += [("build", {"k": k}) for k in [10, 30, 100]]
    rows += [("split", {"n": 16, "devices": d}) for d in [2, 8]]
    rows += [("threads", {"what": "product", "n": 1 << k}) for k in [12, 14, 15, 16, 17, 18, 20]]
    rows += [("threads", {"what": "fft", "n": 1 << k}) for k in [8, 10, 12, 14, 16, 18]]
    rows.append(("clean", {}))
    return rows


def goals(rows):
    """What the figures say of each goal, with the figures."""

    def at(name):
        return rows.get(name)

    found = {}
    if r := at("chain n=16 k=10 what=forward"):
        ns, over = r["ns"]["spanlift"], r["spanlift_over_faer"]
        found["P1 chain of ten, n = 16: at most 80 ns and 0.7 x faer"] = {
            "holds": ns <= 80 and over <= 0.7, "ns": ns, "over_faer": over}
        slower = {lib: round(r["ns"][lib] / ns, 1) for lib in ["scipy", "pylops", "sigpy"]}
        found["over 100 x faster per apply than SciPy, PyLops, SigPy, n = 16"] = {
            "holds": min(slower.values()) > 100, "times_faster": slower}
    if (r := at("chain n=1 k=10 what=forward")) and (d := at("dispatch k=10")):
        each = {"diagonals": r["ns"]["spanlift"] / 10, "matrices": d["ns"]["spanlift"] / 10,
                "diagonals_and_matrices_in_turn": d["ns"]["kinds"] / 10,
                "matrices_between_one_element_and_two": d["ns"]["shapes"] / 10}
        found["P2 dispatch: at most 3 ns for each of ten stages, n = 1"] = {
            "holds": max(each.values()) <= 3, "ns_each": {k: round(v, 2) for k, v in each.items()},
            "ns_each_of_ten_steps": round(d["ns"]["apart"] / 10, 2),
            "ns_each_of_the_prototype": round(r["ns"]["prototype"] / 10, 2),
            "note": "stages on a few elements are one step; ten steps are movements of two elements; the prototype is ten "
                    "multiplications behind pointers, without names or checks, in the same run"}
    if (r := at("chain n=1000000 k=10 what=forward")) and (p := at("pass n=1000000")):
        unfused, fused = r["spanlift_over_loops"], p["spanlift-simplified_over_one-pass"]
        apart = round(r["ns"]["loops"] / r["ns"]["spanlift-simplified"], 2)
        own = round(r["ns"]["spanlift"] / r["ns"]["spanlift-simplified"], 2)
        found["P3 n = 1e6: not simplified at most 1.05 x loops; simplified at most 1.10 x one pass, so 8 x faster"] = {
            "holds": {"not simplified over loops": unfused <= 1.05, "simplified over one pass": fused <= 1.1,
                      "8 x faster than the loops": apart >= 8, "8 x faster than not simplified": own >= 8},
            "not_simplified_over_loops": unfused, "simplified_over_one_pass": fused,
            "loops_over_simplified": apart, "not_simplified_over_simplified": own,
            "note": "what is not simplified reads ten weights in one pass, 12 vectors against 3 of what is simplified, and is "
                    "ahead of the loops, which pass ten times: the further ahead, the less is left for simplifying"}
    if r := at("build k=100"):
        each = {what: round(r["ns"][what] / n, 1) for what, n in
                [("h", 100), ("normal", 100), ("add", 1), ("multiply", 1), ("chain", 100)]}
        found["P5 building: at most 100 ns for each node"] = {"holds": max(each.values()) <= 100, "ns_each": each}
    if r := at("cg n=1024 k=20"):
        found["P6 conjugate gradients, n = 1024: at most 1.6 us, 0.25 x faer, 0.15 x SciPy"] = {
            "holds": r["ns"]["spanlift"] <= 1600 and r["spanlift_over_faer"] <= 0.25 and r["spanlift_over_scipy"] <= 0.15,
            "us": r["ns"]["spanlift"] / 1e3, "over_faer": r["spanlift_over_faer"], "over_scipy": r["spanlift_over_scipy"]}
    if grams := {k: v["spanlift_over_there-and-back"] for k, v in rows.items() if k.startswith("gram")}:
        found["P7 normal of a sum or stack: at most 1.05 x both sides in turn"] = {
            "holds": max(grams.values()) <= 1.05, "over": grams}
    if splits := {k: v for k, v in rows.items() if k.startswith("split")}:
        cost = {k: round(v["ns"]["split"] - v["ns"]["whole"], 1) for k, v in splits.items()}
        found["P8 split over d devices: at most 5 us + 4 us for each, no thread created"] = {
            "holds": all(c <= 5000 + 4000 * int(k.rsplit("=", 1)[1]) for k, c in cost.items()),
            "ns": cost, "note": "tiles run one after the other on this processor"}
    if r := at("clean"):
        found["P10 clean release build of the core: at most 60 s of processor time and 40 crates"] = {
            "holds": r["cpu_s"] <= 60 and r["crates"] <= 40, "cpu_s": r["cpu_s"],
            "as_a_dependency_cpu_s": r["as_a_dependency_cpu_s"], "crates": r["crates"],
            "note": "of the profile `release`; a program that depends on it builds it by its own, by cargo's choice the second figure"}
    if (r := at("build k=100")) and (q := at("build k=30")):
        found["P9 simplify 100 nodes: at most 100 us; plan 30 nodes: at most 20 us"] = {
            "holds": r["ns"]["simplify"] <= 100e3 and q["ns"]["plan"] <= 20e3 and q["ns"]["runner"] <= 20e3,
            "simplify_us": r["ns"]["simplify"] / 1e3, "program_us": q["ns"]["plan"] / 1e3, "runner_us": q["ns"]["runner"] / 1e3}
    libs = ["numpy", "scipy", "pylops", "sigpy", "faer"]
    for key, bench in [("transform, mask, transform back", "fft"), ("conjugate gradients, n = 65536", "cg n=65536")]:
        over = {k: max(v.get(f"spanlift_over_{lib}", 0.0) for lib in libs) for k, v in rows.items() if k.startswith(bench)}
        if over:
            found[f"{key}: at most 1.1 x the fastest of the others"] = {
                "holds": max(over.values()) <= 1.1, "over_the_fastest": over}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=0.4, help="seconds for each contender of a row")
    parser.add_argument("--only", default="", help="benches, separated by commas")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="the core that is used")
    parser.add_argument("--note", default="", help="goes to the file beside the load")
    parser.add_argument("--short", action="store_true", help="the first row of each bench, briefly: to see that all of it runs")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/measured/operators.json")
    args = parser.parse_args()
    environment()
    import peers

    libraries = [make() for make in peers.LIBRARIES]
    ours = Ours()
    os.sched_setaffinity(0, {args.cpu})
    os.sched_setaffinity(ours.process.pid, {args.cpu})
    chosen = [b for b in args.only.split(",") if b]
    rows = json.loads(args.out.read_text())["rows"] if chosen and args.out.exists() else {}
    planned = plan_of_rows()
    if args.short:
        firsts = {bench: keys for bench, keys in reversed(planned) if bench != "clean"}
        planned, args.budget = list(firsts.items()), 0.0
        rows = json.loads(args.out.read_text())["rows"]
    for bench, keys in planned:
        if not chosen or bench in chosen:
            before = os.getloadavg()[0]
            measured = {"clean": clean_build, "threads": threaded}.get(bench, row)
            name, figures = measured(ours, libraries, bench, keys, args.budget)
            when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
            rows[name] = {**figures, "load": [round(before, 1), round(os.getloadavg()[0], 1)], "at": when}
    wanted = [" ".join([bench, *(f"{k}={v}" for k, v in keys.items())]) for bench, keys in plan_of_rows()]
    rows = {name: rows[name] for name in wanted if name in rows}
    loads = [load for figures in rows.values() for load in figures.get("load", [])]
    cpu = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
    result = {
        "goals": goals(rows),
        "rows": rows,
        "machine": {
            "cpu": cpu[0].split(":", 1)[1].strip() if cpu else platform.processor(),
            "cores": len(CORES),
            "used": "one core, one thread",
            "load": {"least": min(loads), "most": max(loads), "of_cores": len(CORES)},
            "note": args.note,
        },
        "clock": "processor time of the thread, least of all batches of at least 5 ms, contenders in turns",
        "versions": {
            **{lib.name: lib.version for lib in libraries},
            "python": platform.python_version(),
            "rust": subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[1],
            "faer": "0.24.4",
        },
        "command": f"python3 tests/operators/measure.py --budget {args.budget}, in pieces by --only where rows differ in time",
        "date": datetime.date.today().isoformat(),
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
