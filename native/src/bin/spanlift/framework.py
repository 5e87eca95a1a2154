"""What PyTorch's own calls take on device 0, as one line of JSON, the last of standard output.

Run as `PYTHON -c THIS SECONDS`; after so many seconds it ends by itself, whoever still waits for it.

Each figure has the nanoseconds of 1,000 calls, round by round. What the calls gave is kept while the clock runs and released
afterwards, so that no time of releasing is in it, and the rounds before those that count have filled PyTorch's caches of blocks.
"""
import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]  # what lies in the folder where somebody called is no package of theirs

import faulthandler
import gc
import json
import time

CALLS = 1000
WARM_UPS = 2
ROUNDS = 9


def rounds(call, settle):
    """`call` makes all of the calls and gives what they gave; before each round nothing is under way."""
    times = []
    for _ in range(WARM_UPS + ROUNDS):
        settle()
        begun = time.perf_counter_ns()
        kept = call()
        times.append(time.perf_counter_ns() - begun)
        settle()
        del kept
    return times[WARM_UPS:]


def measured():
    try:
        import torch
    except Exception as why:  # a package that is broken raises what it likes
        return {"why": f"no PyTorch that works: {told(why)}"}
    if not torch.cuda.is_available():
        return {"why": f"PyTorch {torch.__version__} is there and finds no device"}
    try:
        import tensordict
        from tensordict import TensorDict
        absent = None
    except Exception as why:
        absent = told(why)
    settle = torch.cuda.synchronize
    tensors = [torch.zeros(1, dtype=torch.float32) for _ in range(CALLS)]
    answer = {
        "pytorch": str(torch.__version__),
        # It has none where it was not installed as a package.
        "tensordict": str(getattr(tensordict, "__version__", None) or "unknown") if absent is None else None,
        "absent": absent,
        "threads": torch.get_num_threads(),
    }
    # The cyclic collector looks at the program's objects, and how many those are is not the framework's doing.
    gc.collect()
    gc.disable()
    answer["to_ns"] = rounds(lambda: [tensor.to("cuda:0", non_blocking=True) for tensor in tensors], settle)
    answer["pin_ns"] = rounds(lambda: [tensor.pin_memory() for tensor in tensors], settle)
    answer["dict_ns"] = None
    if absent is None:
        leaves = TensorDict({f"x{k}": tensor for k, tensor in enumerate(tensors)}, batch_size=[])

        def moved():
            # Some versions wait for the device before they come back and some do not: here it is waited for, within the clock.
            there = leaves.to("cuda:0")
            settle()
            return there

        answer["dict_ns"] = rounds(moved, settle)
    return answer


def told(why):
    return f"{type(why).__name__}: {why}"


faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True)
try:
    found = measured()
except Exception as why:
    found = {"why": told(why)}
print("\n" + json.dumps(found), flush=True)
