"""Compares verdicts on pairs of views with NumPy's exact shares_memory.

Reads JSON lines `[[item, offset, shape, strides], [item, offset, shape, strides], verdict]`, offsets and strides in bytes of
one block. Prints one JSON object: the indices of the pairs where NumPy says otherwise (`differ`) and of those that it gave
up after `max_work` steps (`too_hard`). Views are rebuilt from addresses alone: nothing is allocated or read.
"""

import json
import sys

import numpy as np

BLOCK = 1 << 40  # where the block is said to begin
MAX_WORK = 3_000_000  # about a second for one pair


class Described:
    """What `np.asarray` makes a view of, without looking at the memory."""

    def __init__(self, item, offset, shape, strides):
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{item}",
            "data": (BLOCK + offset, False),
            "shape": tuple(shape),
            "strides": tuple(strides),
        }


def view(description):
    made = np.asarray(Described(*description))
    item, offset, shape, strides = description
    assert made.itemsize == item and list(made.shape) == shape and list(made.strides) == strides
    assert made.__array_interface__["data"][0] == BLOCK + offset
    return made


def main():
    differ, too_hard, pairs = [], [], 0
    for index, line in enumerate(sys.stdin):
        a, b, verdict = json.loads(line)
        pairs += 1
        try:
            shares = np.shares_memory(view(a), view(b), max_work=MAX_WORK)
        except np.exceptions.TooHardError:
            too_hard.append(index)
            continue
        if bool(shares) != verdict:
            differ.append(index)
    said = {"numpy": np.__version__, "pairs": pairs, "differ": differ, "too_hard": too_hard, "max_work": MAX_WORK}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
