#!/usr/bin/env python3
"""The figures of trace files, computed a second time from their definitions, with nothing but Python's own library.

    reference.py FILE[.gz]...    one JSON object for each file, one a line
    reference.py make N SEED     N made traces, one a line: {"generation", "text"}
    reference.py check           reads lines {"generation", "text", "answer"} and says which answers are wrong

It reads a file into objects and follows each definition word by word, so it is slow and easy to check. What `spanlift
analyze` adds (findings, the ledger, names of problems) is not computed.
"""
import gzip, json, re, sys
from collections import Counter, defaultdict
from fractions import Fraction

WORK = {"kernel": "kernel", "mtia_ccp_events": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy",
        "gpu_memset": "memset", "memset": "memset"}
HOST = {"cuda_runtime", "cuda_driver", "runtime", "mtia_runtime", "xpu_runtime", "xpu_driver"}
SYNCS = set("""cudaDeviceSynchronize cudaStreamSynchronize cudaEventSynchronize cudaMemcpy cudaMemcpy2D cudaMemcpyToSymbol
cudaMemcpyFromSymbol cuCtxSynchronize cuStreamSynchronize cuEventSynchronize hipDeviceSynchronize hipStreamSynchronize
hipEventSynchronize hipMemcpy hipMemcpyWithStream mtia_synchronize""".split())
DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")
INTEGER = re.compile(r"[+-]?\d+\Z")


class Float(str):
    """A number that is no plain integer, as its digits."""


class NonFinite(str):
    """NaN or an infinity."""


def exact(text):
    """The value of decimal digits; `None` where they are none or beyond all use."""
    found = DECIMAL.match(text)
    if not found:
        return None
    exponent = int(found[3][1:]) if found[3] else 0
    if 400 < abs(exponent):
        return Fraction(0) if exponent < 0 else None
    return Fraction(text)


def ns(x):
    """Nanoseconds of a number of microseconds; `None` where it is unusable."""
    if isinstance(x, bool) or isinstance(x, NonFinite):
        return None
    if isinstance(x, int):
        value = Fraction(x)
    elif isinstance(x, str):
        value = exact(x.strip())
    else:
        value = None
    if value is None:
        return None
    rounded = round(value * 1000)  # Python rounds fractions half to even
    return rounded if abs(rounded) < 2**63 else None


def num(x):
    """A number, where `x` is one or looks like a whole one; else `x` itself."""
    if isinstance(x, Float):
        value = exact(x)
        if value is not None and value.denominator == 1 and abs(value) < 2**63:
            return int(value)
        return float(x)
    if isinstance(x, str) and not isinstance(x, NonFinite) and INTEGER.match(x.strip()):
        return int(x)
    if isinstance(x, (dict, list)):
        return json.dumps(x)
    return x


def text(x):
    """How a value is written where it names a row, a phase or a category."""
    return "None" if x is None else str(num(x) if isinstance(x, Float) else x)


def union(intervals):
    """Sorted disjoint intervals, without empty ones; what touches is merged."""
    merged = []
    for a, b in sorted(i for i in intervals if i[0] < i[1]):
        if merged and a <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], b)
        else:
            merged.append([a, b])
    return merged


def length(u):
    return sum(b - a for a, b in u)


def both(u, v):
    """The length of the intersection of two unions."""
    total = i = j = 0
    while i < len(u) and j < len(v):
        total += max(0, min(u[i][1], v[j][1]) - max(u[i][0], v[j][0]))
        if u[i][1] < v[j][1]:
            i += 1
        else:
            j += 1
    return total


def window(u):
    return u[-1][1] - u[0][0] if u else None


def unpacked(path):
    data = open(path, "rb").read()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def read(file):
    """The events of a file's text."""
    top = json.loads(file.removeprefix("\ufeff"), parse_float=Float, parse_constant=NonFinite, strict=False)
    return top if isinstance(top, list) else top["traceEvents"]


class Slice:
    """An X event with a usable time."""

    def __init__(self, event, ts):
        dur = ns(event.get("dur"))
        self.a = ts
        self.b = ts + max(dur, 0) if dur is not None else ts
        if 2**63 <= self.b:
            self.b = ts
        args = event.get("args")
        self.args = args if isinstance(args, dict) else {}
        self.cat = text(event.get("cat"))
        self.name = text(event["name"]) if "name" in event else ""
        self.pid, self.tid = event.get("pid"), event.get("tid")
        self.at = (self.a, self.b)
        self.correlation = num(self.args.get("correlation"))
        self.type = WORK.get(self.cat.lower())
        self.call = None

    def bytes(self):
        value = num(self.args.get("bytes"))
        good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
        return value if good else 0

    def group(self):
        if self.type == "kernel":
            return "comm" if re.search("nccl|rccl|hccl", self.name, re.I) else "compute"
        if self.type == "memset":
            return "memset"
        word = re.match(r"Memcpy\s+(\S+)", self.name)
        return {"HtoD": "h2d", "DtoH": "d2h", "DtoD": "d2d", "PtoP": "p2p", "HtoH": "h2h"}.get(word and word[1], "copy_other")


def copies(ops):
    found = {}
    for name in {op.name for op in ops if op.type != "kernel"}:
        of = [op for op in ops if op.type != "kernel" and op.name == name]
        time, size = sum(op.b - op.a for op in of), sum(op.bytes() for op in of)
        held = [op for op in of if op.call and re.search("[mM]emcpy", op.call.name)]
        found[name] = {
            "count": len(of), "bytes": size, "time_ns": time, "GBps_aggregate": round(size / time, 6) if time else None,
            "matched_host_calls": len(held),
            "host_call_ns": sum(op.call.b - op.call.a for op in held),
            "blocking_host_calls": sum(op.call.b >= op.b for op in held),
            "host_wait_before_copy_ns": sum(max(0, min(op.call.b, op.a) - op.call.a) for op in held),
            "host_during_copy_ns": sum(max(0, min(op.call.b, op.b) - max(op.call.a, op.a)) for op in held),
            "host_after_copy_ns": sum(max(0, op.call.b - max(op.call.a, op.b)) for op in held),
        }
    return found


def streams(ops):
    groups = defaultdict(list)
    for op in ops:
        groups[f"dev{op.device}/stream{op.stream}"].append(op)
    found = {}
    for name, of in groups.items():
        ordered = sorted(op.at for op in of)
        steps = sorted([(op.call.a, 1) for op in of if op.call] + [(op.b, -1) for op in of if op.call])
        now = most = 0
        for _, step in steps:
            now += step
            most = max(most, now)
        found[name] = {
            "ops": len(of), "by_type": dict(Counter(op.type for op in of)), "busy_ns": length(union(ordered)),
            "sum_dur_ns": sum(b - a for a, b in ordered), "first_ns": ordered[0][0],
            "last_end_ns": max(b for _, b in ordered), "max_in_flight": most,
            "adjacent_overlaps_on_stream": sum(y[0] < x[1] for x, y in zip(ordered, ordered[1:])),
        }
    return found


def device(of):
    def one(*groups):
        return union(op.at for op in of if op.group() in groups)

    there = {op.group() for op in of}
    every, kernels = union(op.at for op in of), one("compute", "comm")
    copied = union(op.at for op in of if op.type == "memcpy")
    found = {
        "window_ns": window(every), "busy_ns": length(every),
        "idle_ns": window(every) - length(every) if every else None,
        "kernel_busy_ns": length(kernels), "copy_busy_ns": length(copied), "memset_busy_ns": length(one("memset")),
        "copy_and_kernel_overlap_ns": both(copied, kernels),
    }
    for group in ("h2d", "d2h", "d2d", "p2p"):
        if group in there:
            found[f"{group}_busy_ns"] = length(one(group))
            found[f"{group}_and_kernel_overlap_ns"] = both(one(group), kernels)
    if {"h2d", "d2h"} <= there:
        found["h2d_and_d2h_overlap_ns"] = both(one("h2d"), one("d2h"))
    if "comm" in there:
        found["comm_kernel_busy_ns"], found["compute_kernel_busy_ns"] = length(one("comm")), length(one("compute"))
        found["comm_and_compute_overlap_ns"] = both(one("comm"), one("compute"))
    return found


def launch(ops):
    delays = defaultdict(list)
    for op in ops:
        if op.call:
            delays[op.type].append(op.a - op.call.a)
    found = {}
    for kind, x in delays.items():
        x.sort()
        found[kind] = {"n": len(x), "min": x[0], "max": x[-1], "sum": sum(x)}
        found[kind].update({f"p{p}": x[(p * (len(x) - 1) + 50) // 100] for p in (50, 90, 99)})
    return {"gpu_ops_without_host_launch": sum(op.call is None for op in ops), "delay_ns": found,
            "negative_delay": sum(d < 0 for x in delays.values() for d in x)}


def partial_overlaps(slices):
    rows, by_cat = defaultdict(list), Counter()
    for s in slices:
        rows[text(s.pid), text(s.tid)].append(s)
    for row in rows.values():
        open_ends = []
        for s in sorted(row, key=lambda s: (s.a, -s.b)):
            while open_ends and open_ends[-1] <= s.a:
                open_ends.pop()
            if open_ends and open_ends[-1] < s.b:
                by_cat[s.cat] += 1
            else:
                open_ends.append(s.b)
    return {"total": sum(by_cat.values()), "by_cat": dict(by_cat)}


def matched_only(ops):
    matched = [op for op in ops if op.call]
    if not matched:
        return None
    every = union(op.at for op in matched)
    return {"window_ns": window(every), "busy_ns": length(every),
            "idle_ns": window(every) - length(every) if every else None,
            "compute_kernel_busy_ns": length(union(op.at for op in matched if op.group() == "compute"))}


def host_sync(slices):
    of = [s for s in slices if s.cat.lower() in HOST and s.name in SYNCS]
    threads = defaultdict(list)
    for s in of:
        threads[text(s.pid), text(s.tid)].append(s.at)
    times = Counter()
    for s in of:
        times[s.name] += s.b - s.a
    return {"calls": dict(Counter(s.name for s in of)), "time_ns_by_call": dict(times), "threads": len(threads),
            "stall_ns_union_per_thread_sum": sum(length(union(at)) for at in threads.values())}


def figures(file):
    events = read(file)
    counts, times, slices = Counter(), [], []
    for event in events:
        is_object = isinstance(event, dict)
        event = event if is_object else {}
        ph = event.get("ph")
        counts[f"{text(ph)}|{text(event.get('cat'))}"] += 1
        ts = ns(event.get("ts")) if is_object and ph != "M" else None
        if ts is not None:
            times.append(ts)
            if ph == "X":
                slices.append(Slice(event, ts))
    ops = [s for s in slices if s.type]
    launches = {s.correlation: s for s in slices if s.cat.lower() in HOST and s.correlation is not None}
    for op in ops:
        op.call = launches.get(op.correlation) if op.correlation is not None else None
        op.device = num(op.args["device"] if "device" in op.args else op.pid)
        op.stream = num(op.args["stream"] if "stream" in op.args else op.tid)
    end = max((s.b for s in slices), default=None)
    first = min(times, default=None)
    span = end - first if end is not None else 0 if events else None
    return {
        "n_events": len(events), "by_phase_cat": dict(counts),
        "ts_ns": {"min": first, "max_end": end, "span": span},
        "gpu_ops": dict(Counter(op.type for op in ops)), "copies": copies(ops), "streams": streams(ops),
        "devices": {f"dev{d}": device([op for op in ops if op.device == d]) for d in {op.device for op in ops}},
        "launch": launch(ops), "partially_overlapping_X_on_same_tid": partial_overlaps(slices),
        "hta_compatible_matched_only": matched_only(ops), "host_sync": host_sync(slices),
    }


# What has no keys but those of the reference.
EXACT = {"by_phase_cat", "gpu_ops", "copies", "streams", "devices", "by_type", "by_cat", "calls", "time_ns_by_call"}


def differences(path, found, expected):
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return [] if found == expected else [f"{path}: {found}, expected {expected}"]
    told = [line for key, value in expected.items() for line in differences(f"{path}/{key}", found.get(key), value)]
    extra = set(found) - set(expected) if path.split("/")[-1] in EXACT else ()
    return told + [f"{path}/{key}: not in the reference" for key in extra]


def check(lines):
    checked, wrong = {}, 0
    for line in lines:
        case = json.loads(line)
        expected = json.loads(json.dumps(figures(case["text"])))
        told = differences("", json.loads(case["answer"]), expected)
        if told:
            wrong += 1
            print(json.dumps({"generation": case["generation"], "differs": told[:5]}))
        checked[case["generation"]] = checked.get(case["generation"], 0) + 1
    print(json.dumps({"checked": checked, "wrong": wrong}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", n, seed]:
            import make

            for k in range(int(n)):
                text, generation = make.trace(int(seed) * 1_000_003 + k)
                print(json.dumps({"generation": generation, "text": text}))
        case ["check"]:
            check(sys.stdin)
        case files:
            for path in files:
                print(json.dumps(figures(unpacked(path))))
