"""Trace files of every generation of profilers, made from a seed: what they have in common, and what is odd in them."""
import copy, json, random

DIRECTIONS = ["HtoD (Pinned -> Device)", "HtoD (Pageable -> Device)", "DtoH (Device -> Pinned)",
              "DtoH (Device -> Pageable)", "DtoD (Device -> Device)", "PtoP (Device -> Device)", "HtoH (Pageable -> Pinned)",
              "HtoA (Pinned -> Array)", "<unknown> (Unknown -> Device)"]
KERNELS = ["void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)", "sgemm_128x64_nn",
           "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "rcclGenericKernel", "größer 🙂 \"quoted\"\\path"]
CALLS = ["cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync", "hipMemcpyWithStream",
         "cudaStreamSynchronize", "cudaDeviceSynchronize", "cuLaunchKernel", "INVALID", "hipMemcpy"]
# Names of categories: host calls, kernels, copies, memsets, operators.
OLD = ("Runtime", "Kernel", "Memcpy", "Memset", "Operator")
NEW = ("cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset", "cpu_op")
STYLES = {
    "2021": dict(cats=OLD, stream_text="stream {}", thread_text="{}", clock=10**12, unit=1000),
    "2022": dict(cats=NEW, clock=10**12, unit=1000),
    "2023": dict(cats=NEW, clock=1_650_000_000_000_000_000, unit=1000, flows="ac2g"),
    "absolute": dict(cats=NEW, clock=1_712_195_495_501_688_612, unit=1, flows="ac2g"),
    "relative": dict(cats=NEW, clock=4_000_000_000_123, unit=1, base=1_712_000_000_000_000_000, flows="ac2g"),
    "2026": dict(cats=NEW, clock=4_000_000_000_123, unit=1, base=1_740_000_000_000_000_000, flows="ac2g", channels=True, sync=1_000_000),
    "rocm": dict(cats=NEW, clock=10**12, unit=1, rocm=True),
    "mtia": dict(cats=("mtia_runtime", "mtia_ccp_events", "gpu_memcpy", "gpu_memset", "cpu_op"), clock=10**12, unit=1, no_stream=True),
    "xpu": dict(cats=("xpu_runtime", "kernel", "gpu_memcpy", "gpu_memset", "cpu_op"), clock=10**12, unit=1),
    "driver": dict(cats=("cuda_driver", "KERNEL", "GPU_Memcpy", "gpu_memset", "cpu_op"), clock=0, unit=1),
}


class Digits:
    """A number that is written with these digits, which a float would lose."""

    def __init__(self, text):
        self.text = text


def written(value, ascii, space):
    """JSON text; `space` follows commas and colons."""
    if isinstance(value, Digits):
        return value.text
    if isinstance(value, dict):
        members = (f"{json.dumps(key)}:{space}{written(of, ascii, space)}" for key, of in value.items())
        return "{" + f",{space}".join(members) + "}"
    if isinstance(value, list):
        return "[" + f",{space}".join(written(of, ascii, space) for of in value) + "]"
    return json.dumps(value, ensure_ascii=ascii)


class Trace:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.style_name = self.r.choice(sorted(STYLES))
        self.style = STYLES[self.style_name]
        self.events = []

    def time(self, ns):
        """Microseconds as this generation writes them, and now and then as no one does."""
        unit = self.style["unit"]
        if unit == 1000:
            return ns // 1000
        sign, ns = ("-" if ns < 0 else ""), abs(ns)
        text = f"{sign}{ns // 1000}.{ns % 1000:03}"
        form = self.r.random()
        if form < 0.03:
            return text
        if form < 0.05:
            return Digits(f"{sign}{ns}e-3")
        if form < 0.07:
            # A digit more, which has to be rounded.
            return Digits(text + self.r.choice("0459"))
        return Digits(text)

    def number(self, n):
        """A number that names something, in one of its spellings."""
        form = self.r.random()
        return n if form < 0.9 else str(n) if form < 0.96 else Digits(f"{n}.0")

    def slice(self, cat, name, pid, tid, a, b, args):
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": self.time(a), "dur": self.time(b - a)}
        if args is not None:
            event["args"] = args
        self.events.append(event)

    def thread(self, n):
        return self.style.get("thread_text", "{}").format(n) if "thread_text" in self.style else n

    def op(self, kind, device, stream, a, b, correlation, size):
        r, style, cats = self.r, self.style, self.style["cats"]
        args = {"device": self.number(device), "stream": self.number(stream), "context": 1}
        if correlation is not None:
            args["correlation"] = self.number(correlation)
        if kind == "kernel":
            cat, name = cats[1], r.choice(KERNELS)
        elif kind == "memset":
            cat, name = cats[3], r.choice(["Memset (Device)", "Memset (Unknown)"])
            args["bytes"] = size
        else:
            cat, name = cats[2], "Memcpy " + r.choice(DIRECTIONS)
            if style.get("rocm"):
                args["kind"] = "HtoD"
            else:
                args["bytes"] = self.number(size)
        if "PtoP" in name and "Memcpy" in name:
            args = {k: v for k, v in args.items() if k not in ("device", "context")}
            args.update(fromDevice=device, inDevice=device, toDevice=1 - device)
        if style.get("channels"):
            args.update({"graph id": 0, "channel": 9, "channel_type": 1})
        if style.get("no_stream") and r.random() < 0.5:
            args.pop("stream", None)
        tid = style["stream_text"].format(stream) if "stream_text" in style else stream
        self.slice(cat, name, device, tid, a, b, args)

    def make(self):
        r, style, clock = self.r, self.style, self.style["clock"]
        n_devices, n_streams = r.randint(1, 3), r.randint(1, 4)
        free = {}
        for k in range(r.randint(0, 60)):
            clock += r.choice([0, 10, 1000, 7_531, 40_000, 1_000_000])
            call_len = r.choice([0, 1, 999, 4_500, 60_000])
            name, thread, correlation = r.choice(CALLS), r.randint(1, 3), k + 1
            around = r.random() < 0.4
            if around:
                self.slice(style["cats"][4], "aten::copy_", 42, self.thread(thread), clock - 500, clock + call_len + 500,
                           {"External id": k, "Ev Idx": k})
            args = {"External id": k, "cbid": 41, "correlation": self.number(correlation)}
            if style.get("rocm"):
                args.update(stream="0x0", src="0x55674ecd4180", size=str(r.randint(0, 1 << 30)))
            if r.random() < 0.85:
                self.slice(style["cats"][0], name, 42, self.thread(thread), clock, clock + call_len, args)
            device, stream = r.randrange(n_devices), r.choice([7, 20, 0, 13][:n_streams])
            for _ in range(r.choice([0, 1, 1, 1, 1, 5])):
                kind = r.choice(["kernel", "kernel", "memcpy", "memcpy", "memset"])
                start = max(clock + r.choice([-2000, 0, 1500, 30_000]), free.get((device, stream), 0))
                end = start + r.choice([0, 1, 2_784, 20_480, 500_000])
                # Branches of graphs overlap on their stream.
                free[device, stream] = end if r.random() < 0.9 else start + (end - start) // 2
                self.op(kind, device, stream, start, end, r.choice([correlation] * 8 + [None, 0]), r.choice([0, 4, 524_288, 1 << 33]))
                if "flows" in style and r.random() < 0.7:
                    flow = {"id": correlation, "cat": style["flows"], "name": style["flows"]}
                    self.events.append({"ph": "s", "pid": 42, "tid": thread, "ts": self.time(clock), **flow})
                    self.events.append({"ph": "f", "pid": device, "tid": stream, "ts": self.time(start), "bp": "e", **flow})
            if r.random() < 0.2:
                wait = {"stream": r.choice([7, -1, 4294967295]), "wait_on_stream": r.choice([20, -1]), "correlation": correlation,
                        "device": device, "cuda_sync_kind": "Stream Wait Event"}
                self.slice("cuda_sync", "Stream Wait Event", device, 7 + style.get("sync", 0), clock, clock + 900, wait)
            if r.random() < 0.2:
                self.events.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 42, "tid": 1,
                                    "ts": self.time(clock), "args": {"Device Type": 1, "Device Id": device, "Bytes": r.choice([-512, 512]),
                                    "Addr": 139926520725504, "Total Allocated": r.randint(0, 1 << 40)}})
            if r.random() < 0.1:
                self.events.append({"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "ts": self.time(clock), "args": {"x": 0.5}})
        for stream in (7, 20):
            self.events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": stream, "ts": 0, "args": {"name": f"stream {stream}"}})
        return self

    def disturb(self):
        """What is odd, and allowed or counted."""
        r = self.r
        for _ in range(r.choice([0, 0, 3, 10])):
            if not self.events:
                break
            event = r.choice(self.events)
            if not isinstance(event, dict):
                continue
            what = r.randrange(12)
            if what == 0:
                event["dur"] = r.choice([-5, None, "x", float("nan"), True, "12.5", [], 9e15])
            elif what == 1:
                event["ts"] = r.choice([None, "x", float("inf"), False, "17", 1e300, {}])
            elif what == 2:
                event["args"] = r.choice([None, [], 7, "text"])
            elif what == 3:
                event.pop(r.choice(["dur", "ts", "args", "cat", "ph", "name", "pid", "tid"]), None)
            elif what == 4 and isinstance(event.get("args"), dict):
                event["args"]["correlation"] = r.choice([1, "1", 0, -1, 2**53 + 1, 18446744073709551615, "0x7"])
            elif what == 5 and isinstance(event.get("args"), dict):
                event["args"]["bytes"] = r.choice([-1, 1.5, "x", "4096", 2**62, None])
            elif what == 6 and isinstance(event.get("args"), dict):
                event["args"][r.choice(["device", "stream"])] = r.choice(["7", "0x0", -1, 7.5])
            elif what == 7:
                event["cat"] = r.choice(["KERNEL", "cuda_Runtime", "Trace", "never seen", None])
            elif what == 8:
                self.events.insert(r.randrange(len(self.events)), r.choice([17, None, "text", [], {}]))
            elif what == 9:
                self.events.append(copy.deepcopy(event))
            elif what == 10:
                event["name"] = r.choice(["", "x" * 5000, "Memcpy HtoD", "cudaMemcpy2D", "Memcpy  DtoH (Device -> Pinned)"])
            else:
                event["ph"] = r.choice(["x", "X", "B", "E", "i", "XX", ""])
        if r.random() < 0.4:
            r.shuffle(self.events)
        return self

    def text(self):
        r, style = self.r, self.style
        top = self.events
        if 0.2 < r.random():
            members = [("schemaVersion", 1), ("deviceProperties", [{"id": 0, "name": "NVIDIA"}]), ("displayTimeUnit", r.choice(["ms", "ns"])),
                       ("traceEvents", self.events)]
            if "base" in style:
                members.append(("baseTimeNanoseconds", style["base"]))
            r.shuffle(members)
            top = dict(members)
        return ("\ufeff" if r.random() < 0.2 else "") + written(top, r.random() < 0.5, r.choice(["", " ", "\n\t "]))


def trace(seed):
    """The text of one file, and what generation it is of."""
    made = Trace(seed).make()
    if made.r.random() < 0.6:
        made.disturb()
    return made.text(), made.style_name
