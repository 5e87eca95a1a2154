#!/usr/bin/env python3
"""Times `spanlift analyze` on traces and snapshots of growing size, with other readers beside it in the same run.

    trace.py SPANLIFT TRACES [HTA_PYTHON] [--short] >trace.json

TRACES is the folder of example traces, HTA_PYTHON a Python that has HolisticTraceAnalysis. Seconds are user and system
time of the process, the least of several runs; the peak is that of resident memory. Nothing else should run beside it.
With --short small files alone: to see that all of it runs.
"""
import datetime, gzip, json, os, subprocess, sys, tempfile

here = os.path.dirname(os.path.abspath(__file__))
short = "--short" in sys.argv
if short:
    sys.argv.remove("--short")
spanlift, traces = sys.argv[1], sys.argv[2]
hta_python = sys.argv[3] if len(sys.argv) > 3 else None
SOURCE = os.path.join(traces, "cudagraph_copies.json.gz")
HTA = """import sys, logging; logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
TraceAnalysis(trace_files={0: sys.argv[1]}).get_temporal_breakdown(visualize=False)"""


def cost(command, runs):
    """Least processor seconds of some runs of a command, and its peak of memory in bytes."""
    least, peak = None, 0
    for _ in range(runs):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        if status != 0:
            sys.exit(f"{command}: status {status}")
        seconds = used.ru_utime + used.ru_stime
        least = seconds if least is None else min(least, seconds)
        peak = max(peak, used.ru_maxrss * 1024)
    return {"cpu_s": round(least, 3), "peak_rss_bytes": peak}


def measured(what, path, size, runs=5):
    row = {"what": what, "bytes": size, **cost([spanlift, "analyze", path, "--format", "json"], runs)}
    row["bytes_per_cpu_s"] = round(size / row["cpu_s"], -6)
    row["peak_over_bytes"] = round(row["peak_rss_bytes"] / size, 3)
    return row


def inside(path):
    """Figures that the command measures of itself: reading alone, and with all figures."""
    said = subprocess.run([spanlift, "bench", "trace", path, "--format", "json"], capture_output=True, check=True)
    return {figure["name"]: round(figure["value"], -6) for figure in json.loads(said.stdout)}


files, others, insides = [], [], []
with tempfile.TemporaryDirectory() as folder:
    for times in (1, 10) if short else (1, 3, 10, 30):
        path = os.path.join(folder, f"x{times}.json")
        subprocess.run([sys.executable, os.path.join(here, "repeat_trace.py"), SOURCE, str(times), path], check=True)
        size = os.path.getsize(path)
        files.append(measured("trace", path, size))
        if times == 10:
            insides.append({"bytes": size, **inside(path)})
            packed = path + ".gz"
            with open(path, "rb") as plain, gzip.open(packed, "wb", 6) as out:
                while piece := plain.read(1 << 20):
                    out.write(piece)
            files.append(measured("trace, gzip", packed, size))
            os.remove(packed)
        if times <= 3:
            load = "import json, sys; json.load(open(sys.argv[1]))"
            reference = os.path.join(here, "../traces/reference.py")
            rows = [("Python, json.load alone", [sys.executable, "-c", load, path]),
                    ("Python reference of the figures", [sys.executable, reference, path])]
            if hta_python:
                rows.append(("HolisticTraceAnalysis, temporal breakdown", [hta_python, "-c", HTA, path]))
            for what, command in rows:
                others.append({"what": what, "bytes": size, **cost(command, 1)})
        os.remove(path)
    plain = os.path.join(folder, "ns.json")
    with gzip.open(os.path.join(traces, "ns_resolution.json.gz")) as packed, open(plain, "wb") as out:
        out.write(packed.read())
    files.append(measured("trace with nanoseconds", plain, os.path.getsize(plain)))
    for events in (100_000,) if short else (100_000, 1_000_000):
        path = os.path.join(folder, "s.pickle")
        script = os.path.join(traces, "make_snapshot.py")
        subprocess.run([sys.executable, script, path, "--events", str(events), "--max-entries", str(events), "--seed", "9"],
                       check=True, stdout=subprocess.DEVNULL)
        size = os.path.getsize(path)
        files.append({"events": events, **measured("snapshot", path, size)})
        load = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
        others.append({"what": "Python, pickle.load alone", "bytes": size, **cost([sys.executable, "-c", load, path], 1)})

cpu = next(line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
version = "import importlib.metadata as m; print(m.version('HolisticTraceAnalysis'))"
report = {
    "what": "spanlift analyze on files of growing size: processor seconds of one core, all figures and findings included",
    "machine": f"{cpu}, {os.cpu_count()} cores, a virtual machine",
    "load_average": os.getloadavg()[0],
    "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    "command": "python3 tests/measured/trace.py target/release/spanlift TRACES HTA_PYTHON",
    "source": "cudagraph_copies.json.gz, its events 1, 3, 10 and 30 times (tests/measured/repeat_trace.py)",
    "hta": subprocess.run([hta_python, "-c", version], capture_output=True, text=True).stdout.strip() if hta_python else None,
    "python": sys.version.split()[0],
    "files": files,
    "beside": others,
    "reading_alone": insides,
}
print(json.dumps(report, indent=1))
