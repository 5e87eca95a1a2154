"""Stands for PyTorch and for threads, where programs written with PyTorch are run.

Programs come on standard input, apart by form feeds; the first argument says in how many interleavings each is run. As in
`cuda_runtime.h` each call is one line, one thread runs at a time, and after each call the next is drawn.
"""

import random
import re
import sys
import threading
import types


class Over(BaseException):
    """Thrown at whoever calls after the run was given up."""


class Run:
    def __init__(self, seed):
        self.drawn = random.Random(seed)
        self.gates = {0: threading.Semaphore(0)}  # of each thread that lives
        self.n_threads, self.n_handles, self.n_waits = 0, 0, 0
        self.is_over = False
        self.current = {}  # streams by thread and device
        self.defaults = {}


run = None
local = threading.local()


def give_up(why):
    print(local.me, 0, why)
    run.is_over = True
    for gate in run.gates.values():
        gate.release()
    raise Over


def pass_on():
    chosen = run.drawn.choice(sorted(run.gates))
    run.gates[chosen].release()


def go_on():
    """Any thread may go on."""
    if run.is_over:
        raise Over
    pass_on()
    run.gates[local.me].acquire()
    if run.is_over:
        raise Over


def wait_until(is_ready):
    go_on()
    while not is_ready():
        run.n_waits += 1
        if run.n_waits > 400 * len(run.gates):
            give_up("deadlock")
        go_on()
    run.n_waits = 0


def say(*words):
    if run.is_over:
        raise Over
    print(local.me, 0, *words)
    run.n_waits = 0
    go_on()
    run.n_waits = 0


def made(kind):
    run.n_handles += 1
    return f"{kind}{run.n_handles}"


# -- threads and what they wait for ------------------------------------------------------------------------------------


class Thread:
    def __init__(self, target):
        self.target, self.is_done = target, False

    def start(self):
        run.n_threads += 1
        self.number = run.n_threads
        say("spawn", self.number)
        run.gates[self.number] = threading.Semaphore(0)
        threading.Thread(target=self.calls, daemon=True).start()

    def calls(self):
        local.me = self.number
        run.gates[self.number].acquire()
        try:
            if not run.is_over:
                self.target()
        except Over:
            pass
        except Exception as error:
            print(self.number, 0, "failed", repr(error))
            run.is_over = True
        self.is_done = True
        del run.gates[self.number]
        run.n_waits = 0
        pass_on()

    def join(self):
        wait_until(lambda: self.is_done)
        say("join", self.number)


class Turn:
    def __init__(self):
        self.is_set = False

    def set(self):
        self.is_set = True

    def wait(self):
        wait_until(lambda: self.is_set)


class Condition:
    def __init__(self):
        self.handle = made("c")

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass

    def notify_all(self):
        say("raise", self.handle)

    def wait_for(self, predicate):
        wait_until(predicate)
        say("seen", self.handle, sys.maxsize)


class Queue:
    def __init__(self):
        self.n, self.handle = 0, made("c")

    def put(self, _):
        self.n += 1
        say("put", self.handle)

    def get(self):
        wait_until(lambda: self.n > 0)
        self.n -= 1
        say("get", self.handle)


# -- PyTorch -----------------------------------------------------------------------------------------------------------


def device_of(name):
    return int(name.removeprefix("cuda:"))


class Stream:
    def __init__(self, device=0, is_default=False):
        self.device = device
        self.handle = ("s0" if device == 0 else f"s0@{device}") if is_default else made("s")
        if not is_default:
            say("stream", self.handle, device)

    def synchronize(self):
        say("sync_stream", self.handle)

    def query(self):
        is_ready = run.drawn.randrange(2)
        say("query_stream", self.handle, is_ready)
        return is_ready

    def wait_event(self, event):
        say("wait", self.handle, event.handle)


def default_stream(device):
    return run.defaults.setdefault(device, Stream(device, True))


def current(device=None):
    """The stream that takes work for a device; without one, for the device that is current."""
    device = run.current.get((local.me, "device"), 0) if device is None else device
    return run.current.get((local.me, device)) or default_stream(device)


class On:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.before = dict(run.current)
        run.current[local.me, "device"] = self.stream.device
        run.current[local.me, self.stream.device] = self.stream

    def __exit__(self, *_):
        for key in [(local.me, "device"), (local.me, self.stream.device)]:
            run.current[key] = self.before.get(key)
            if run.current[key] is None:
                del run.current[key]


class Event:
    def __init__(self):
        self.handle, self.device = made("e"), None
        say("event", self.handle)

    def record(self, stream):
        # An event is of the device that records it first, and no other device's stream records it.
        self.device = stream.device if self.device is None else self.device
        if self.device != stream.device:
            give_up("records on another device")
        say("record", self.handle, stream.handle)

    def synchronize(self):
        say("sync_event", self.handle)

    def query(self):
        is_ready = run.drawn.randrange(2)
        say("query_event", self.handle, is_ready)
        return is_ready


class CUDAGraph:
    def __init__(self):
        self.handle = made("g")

    def capture_begin(self, capture_error_mode="global"):
        say("begin_capture", current().handle, self.handle)

    def capture_end(self):
        say("end_capture", current().handle, self.handle)

    def replay(self):
        say("launch", self.handle, current().handle)


class Block:
    def __init__(self, size, device, is_pinned):
        self.size, self.device, self.handle = size, device, made("b")
        place = f"cuda:{device}" if device is not None else "pinned" if is_pinned else "cpu"
        say("alloc", self.handle, size, place, *([current(device).handle] if device is not None else []))


class Tensor:
    """Bytes of a block in order, in this shape."""

    def __init__(self, block, at, shape, is_view=True):
        self.block, self.at, self.shape, self.is_view = block, at, shape, is_view

    def words(self):
        runs = []
        for at in self.at:
            if runs and sum(runs[-1]) == at:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((at, 1))
        return self.block.handle, ",".join(f"{at}+{n}" for at, n in runs) or "-"

    def __getitem__(self, part):
        assert self.shape == (self.block.size,) and 0 <= part.start <= part.stop <= self.block.size
        return Tensor(self.block, self.at[part], (part.stop - part.start,))

    def as_strided(self, shape, strides, offset):
        assert len(shape) == len(strides) and min(strides) >= 0 and offset >= 0
        at = [offset]
        for n, stride in zip(shape, strides):
            at = [a + k * stride for a in at for k in range(n)]
        assert all(a < self.block.size for a in at)
        return Tensor(self.block, at, shape)

    def reshape(self, *shape):
        # What has gaps is copied.
        is_dense = all(b == a + 1 for a, b in zip(self.at, self.at[1:]))
        return Tensor(self.block, self.at, shape, is_dense)

    def copy_(self, source, non_blocking=False):
        assert self.shape == source.shape and self.is_view
        if len(set(self.at)) < len(self.at):
            raise RuntimeError("a byte is written twice")
        sides = {t.block.device for t in (self, source)} - {None}
        how = "async" if non_blocking else "sync"
        on = [current(source.block.device if len(sides) > 1 else min(sides)).handle] if sides else []
        say("copy", how, *self.words(), *source.words(), *on)

    def fill_(self, value):
        device = self.block.device
        say("fill", *self.words(), value, *([current(device).handle] if device is not None else []))

    def sum(self):
        say("sum", *self.words())

    def data_ptr(self):
        return self.block.handle

    def record_stream(self, stream):
        say("record_stream", self.block.handle, stream.handle)


def empty(size, dtype, device=None, pin_memory=False):
    block = Block(size, device and device_of(device), pin_memory)
    return Tensor(block, range(size), (size,))


runtime = types.SimpleNamespace(
    cudaHostRegister=lambda at, size, _: say("register", at, size),
    cudaHostUnregister=lambda at: say("unregister", at),
)
torch = types.ModuleType("torch")
torch.uint8, torch.empty = "uint8", empty
torch.cuda = types.SimpleNamespace(
    Stream=Stream,
    Event=Event,
    CUDAGraph=CUDAGraph,
    stream=On,
    default_stream=default_stream,
    synchronize=lambda device: say("sync_device", device),
    cudart=lambda: runtime,
)
modules = {
    "torch": torch,
    "threading": types.SimpleNamespace(Thread=Thread, Event=Turn, Condition=Condition),
    "queue": types.SimpleNamespace(Queue=Queue),
    "time": types.SimpleNamespace(sleep=lambda seconds: say("sleep", round(seconds * 1e6))),
}
calls = {
    "kernel": lambda us: say("kernel", current().handle, round(us * 1000)),
    "busy": lambda us: say("busy", round(us * 1000)),
    "no_form": lambda command: say("no_form", command),
    "gone": lambda name: say("del", name),
}


def prepared(text):
    """What only a device could do is said, and what is not called too."""
    text = re.sub(r"(?m)^( *)# no PyTorch form: (\w+).*", r"\1no_form('\2')", text)
    text = re.sub(r"(?m)^( *)del (\w+)", r"\1gone('\2'); del \2", text)
    text = re.sub(r"(?ms)^def (kernel|busy)\(us\):\n.*?\n\n", "", text)
    return re.sub(r"(?m)^import (\w+)$", "", text)


def main(n_runs, texts):
    global run
    for k, text in enumerate(texts):
        code = compile(prepared(text), f"text {k}", "exec")
        for seed in range(n_runs):
            print(f"program {k} {seed}")
            run, local.me = Run(1000 * k + seed), 0
            try:
                exec(code, {**modules, **calls})
                wait_until(lambda: len(run.gates) == 1)
            except Over:
                pass
            except Exception as error:
                print(0, 0, "failed", repr(error).replace("\n", " "))
                run.is_over = True
                for gate in run.gates.values():
                    gate.release()


main(int(sys.argv[1]), sys.stdin.read().split("\f"))
