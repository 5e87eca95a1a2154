"""The contract of `spanlift memory` once more, by sets of bytes: slow, small and without a line in common with the crate.

`reference.py make N SEED` prints N random layouts, a JSON line `{"layout": TEXT, "to": DEVICE}` each.
`reference.py check` reads lines `{"layout": TEXT, "to": DEVICE, "answer": TEXT}` or, for one that was refused,
`{..., "problems": [LINE, ...]}`, and prints what is wrong with them.
`reference.py try BINARY N SEED` does both with a command, one process for each layout.
"""

import itertools
import json
import random
import subprocess
import sys

ITEM = {"u8": 1, "i8": 1, "i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "c32": 8, "c64": 16}
DEVICES = ["cpu", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:12", "mock", "mock:0", "mock:3"]
MOST = 2**63 - 1
NAMES = ["a", "B", "weight", "Z", "é", "ﬀ", "\U0001f600", "\uffff", "", " ", 'q"uote', "new\nline", "tab\t", "back\\slash", "\u2028", "layer.0.w", "layer.10.w", "0", "\x7f", "\x1b[31m"]


def full_name(device):
    return device + ":0" if device in ("cuda", "mock") else device


def elements(tensor):
    """Every element position, each as often as it is listed."""
    sizes = [range(n) for n in tensor["shape"]]
    steps = tensor["strides"]
    return [tensor.get("offset", 0) + sum(i * s for i, s in zip(index, steps)) for index in itertools.product(*sizes)]


def touched(tensor):
    item = ITEM[tensor["dtype"]]
    return {position * item + k for position in elements(tensor) for k in range(item)}


def problems(layout):
    """What is wrong, as pairs of a name and the words that its line holds; small layouts only."""
    found, storages, names = [], {}, set()
    for storage in layout["storages"]:
        if storage["id"] in storages:
            found.append((storage["id"], "duplicate name"))
        storages.setdefault(storage["id"], storage)
    for tensor in layout["tensors"]:
        name, shape, strides, offset = tensor["name"], tensor["shape"], tensor["strides"], tensor.get("offset", 0)
        if name in names:
            found.append((name, "duplicate name"))
        names.add(name)
        formed = True
        if tensor["dtype"] not in ITEM:
            found.append((name, f"unknown dtype {json.dumps(tensor['dtype'])}"))
            formed = False
        if tensor["storage"] not in storages:
            found.append((name, f"unknown storage {json.dumps(tensor['storage'])}"))
            formed = False
        if len(shape) != len(strides):
            found.append((name, "rank mismatch"))
            formed = False
        if any(n < 0 for n in shape):
            found.append((name, "negative size"))
            formed = False
        if offset < 0:
            found.append((name, "outside storage"))
        if not formed or 0 in shape:
            continue
        item = ITEM[tensor["dtype"]]
        reach = [(n - 1) * s for n, s in zip(shape, strides)]
        lo, hi = (offset + sum(r for r in reach if keep(r)) for keep in (lambda r: r < 0, lambda r: r > 0))
        count = 1
        for n in shape:
            count *= n
        figures = [count * item, lo * item, (hi + 1) * item, offset * item]
        if any(not -MOST - 1 <= figure <= MOST for figure in figures):
            found.append((name, "overflow"))
        elif offset >= 0 and (lo < 0 or (hi + 1) * item > storages[tensor["storage"]]["bytes"]):
            found.append((name, "outside storage"))
    return found


class Wrong(Exception):
    pass


def need(condition, *what):
    if not condition:
        raise Wrong(*what)


def ordered(pairs):
    keys = [key.encode(errors="surrogatepass") for key, _ in pairs]
    need(len(set(keys)) == len(keys), "a key twice", keys)
    return dict(pairs)


def check_answer(layout, to, text):
    answer = json.loads(text, object_pairs_hook=ordered)
    need(set(answer) == {"tensors", "devices", "overlaps"} | ({"move"} if to else set()), "keys", list(answer))
    device_of = {s["id"]: full_name(s["device"]) for s in layout["storages"]}
    bytes_of = {t["name"]: touched(t) for t in layout["tensors"]}
    by_name = sorted((t["name"] for t in layout["tensors"]), key=lambda name: name.encode())
    tensors, devices = {}, {device: {"unique_bytes": 0, "listed_bytes": 0} for device in device_of.values()}
    for tensor in layout["tensors"]:
        positions, item = elements(tensor), ITEM[tensor["dtype"]]
        span = [min(positions), max(positions)] if positions else None
        ends = [min(bytes_of[tensor["name"]]), max(bytes_of[tensor["name"]]) + 1] if positions else None
        tensors[tensor["name"]] = {"span": span, "bytes": ends}
        devices[device_of[tensor["storage"]]]["listed_bytes"] += len(positions) * item
    of_storage = {s: [t for t in layout["tensors"] if t["storage"] == s] for s in device_of}
    for storage, views in of_storage.items():
        unique = set().union(*(bytes_of[t["name"]] for t in views))
        devices[device_of[storage]]["unique_bytes"] += len(unique)
    storage_of = {t["name"]: t["storage"] for t in layout["tensors"]}
    overlaps = [
        [a, b]
        for a, b in itertools.combinations(by_name, 2)
        if storage_of[a] == storage_of[b] and bytes_of[a] & bytes_of[b]
    ]
    need(answer["tensors"] == tensors, "tensors", tensors)
    need(list(answer["tensors"]) == by_name, "order of the tensors", by_name)
    need(answer["devices"] == devices, "devices", devices)
    need(answer["overlaps"] == overlaps, "overlaps", overlaps)
    if to:
        check_move(layout, full_name(to), answer["move"], device_of, of_storage, bytes_of, overlaps)


def check_move(layout, to, move, device_of, of_storage, bytes_of, overlaps):
    need(set(move) == {"to", "allocations", "bytes_allocated", "bytes_copied", "tensors"}, "keys of move", list(move))
    need(move["to"] == to, "to", to)
    moving = {t["name"]: t for t in layout["tensors"] if device_of[t["storage"]] != to}
    need(list(move["tensors"]) == sorted(moving, key=lambda name: name.encode()), "the tensors that move", list(moving))
    blocks = move["allocations"]
    sizes = {s["id"]: s["bytes"] for s in layout["storages"]}
    for block in blocks:
        need(set(block) == {"storage", "start", "bytes"}, "keys of an allocation", block)
        inside = block["bytes"] >= 1 and 0 <= block["start"] <= sizes[block["storage"]] - block["bytes"]
        need(inside and device_of[block["storage"]] != to, "an allocation", block)
    need(move["bytes_allocated"] == sum(block["bytes"] for block in blocks), "bytes_allocated")
    used = set()
    for name, tensor in moving.items():
        placed, item = move["tensors"][name], ITEM[tensor["dtype"]]
        need(set(placed) == {"allocation", "offset", "strides"}, "keys of a placed tensor", placed)
        need(placed["strides"] == tensor["strides"], "strides of", name)
        if not bytes_of[name]:
            need(placed["allocation"] is None and placed["offset"] == 0, "an empty tensor", name, placed)
            continue
        used.add(placed["allocation"])
        block = blocks[placed["allocation"]]
        need(block["storage"] == tensor["storage"], "the storage of", name, block)
        need(block["start"] + placed["offset"] * item == tensor.get("offset", 0) * item, "the offset of", name, placed)
        lo, hi = min(bytes_of[name]), max(bytes_of[name]) + 1
        need(block["start"] <= lo and hi <= block["start"] + block["bytes"], "the allocation holds not all of", name)
        need((lo - block["start"]) % item == 0, "not addressable in its dtype:", name)
    need(used == set(range(len(blocks))), "an allocation that no tensor uses")
    for a, b in overlaps:
        if a in moving:
            need(move["tensors"][a]["allocation"] == move["tensors"][b]["allocation"], "torn apart:", a, b)
    copied = 0
    for storage, views in of_storage.items():
        views = [t for t in views if t["name"] in moving and bytes_of[t["name"]]]
        unique = set().union(*(bytes_of[t["name"]] for t in views))
        copied += len(unique)
        widest = max((ITEM[t["dtype"]] for t in views), default=1)
        one_block = max(unique) + 1 - min(unique) // widest * widest if unique else 0
        allocated = sum(block["bytes"] for block in blocks if block["storage"] == storage)
        need(allocated <= one_block, "more than one block of", storage, one_block)
    need(move["bytes_copied"] == copied, "bytes_copied", copied)


def escaped(name):
    """The part of a name that a message shows as it is, whatever it does with quotes and control characters."""
    plain, longest = "", ""
    for c in name:
        plain = plain + c if c.isprintable() and c not in "\"\\'" else ""
        longest = max(longest, plain, key=len)
    return longest


def check_problems(expected, lines):
    """One line for each problem: a perfect matching of problems and lines that fit them, by augmenting paths."""
    need(len(lines) == len(expected), len(lines), "lines for", expected)
    need(not any(c in line for line in lines for c in "\n\r"), "a line that breaks", lines)
    fits = [[k for k, line in enumerate(lines) if words in line and escaped(name) in line] for name, words in expected]
    problem_of = {}

    def place(problem, seen):
        for line in fits[problem]:
            if line not in seen:
                seen.add(line)
                if line not in problem_of or place(problem_of[line], seen):
                    problem_of[line] = problem
                    return True
        return False

    for problem, what in enumerate(expected):
        need(place(problem, set()), "no line of its own for", what)


def check(layout, to, answer, lines):
    """What is wrong with an answer, or with the problems said instead of one; None when all is right."""
    layout, expected = json.loads(layout), problems(json.loads(layout))
    try:
        if lines is not None:
            need(expected, "refused, though nothing is wrong", lines)
            check_problems(expected, lines)
        else:
            need(not expected, "not refused:", expected)
            check_answer(layout, to, answer)
    except Wrong as e:
        return " ".join(map(str, e.args))
    except (KeyError, IndexError, TypeError, ValueError) as e:
        return f"{type(e).__name__}: {e}"
    return None


def storage(rng, name):
    return {"id": name, "device": rng.choice(DEVICES), "bytes": rng.choice([0, 1, 7, 16, 64, 100, 250, 400, rng.randrange(600)])}


def tensor(rng, name, storages, earlier):
    """A view that mostly lies inside its storage."""
    block = rng.choice(storages)
    if earlier and rng.random() < 0.2:
        other = dict(rng.choice(earlier), name=name)
        if rng.random() < 0.5:
            other["offset"] = max(0, other.get("offset", 0) + rng.choice([-1, 1]))
        if rng.random() < 0.3:
            other["dtype"] = rng.choice(list(ITEM))
        block = next((s for s in storages if s["id"] == other["storage"]), block)
        made = other
    else:
        rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 4])
        shape = [rng.choice([1, 2, 2, 3, 4, 5]) for _ in range(rank)]
        if rank and rng.random() < 0.05:
            shape[rng.randrange(rank)] = 0
        way = rng.random()
        if way < 0.4:
            strides, step = [0] * rank, rng.choice([1, 1, 2, 3])
            for k in rng.sample(range(rank), rank) if way < 0.1 else reversed(range(rank)):
                strides[k] = step
                step *= max(shape[k], 1) + rng.choice([0, 0, 0, 1])
        else:
            strides = [rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 10]) for _ in range(rank)]
        strides = [-s if rng.random() < 0.2 else s for s in strides]
        if 0 in shape and rng.random() < 0.5:
            strides = [rng.choice([s, 10**18]) for s in strides]
        made = {"name": name, "storage": block["id"], "dtype": rng.choice(list(ITEM)), "shape": shape, "strides": strides, "offset": 0}
    if 0 in made["shape"]:
        made["offset"] = rng.choice([0, made["offset"], 10**6])
        return made
    for _ in range(8):  # to where it fits, smaller if need be
        item = ITEM[made["dtype"]]
        made["offset"] = 0
        positions = elements(made)
        room = block["bytes"] // item - (max(positions) - min(positions) + 1)
        if room >= 0:
            made["offset"] = rng.choice([0, room, rng.randrange(room + 1)]) - min(positions)
            return made
        made = dict(made, dtype="u8") if item > 1 else dict(made, shape=[(n + 1) // 2 for n in made["shape"]])
    return dict(made, shape=[0] + made["shape"], strides=[3] + made["strides"], offset=0)


def spoiled(rng, layout):
    """The layout with up to three problems."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        views = layout["tensors"]
        if not views:
            return
        t = rng.choice(views)
        kind = rng.randrange(9)
        if kind == 0:
            t["offset"] = t.get("offset", 0) + rng.choice([1, 500, 2**40])
        elif kind == 1:
            t["offset"] = rng.choice([-1, -7, -(2**40)])
        elif kind == 2:
            t["dtype"] = rng.choice(["f31", "", "F32", "float", "c128"])
        elif kind == 3:
            t["storage"] = rng.choice(["nowhere", "", "w0 "])
        elif kind == 4 and t["shape"]:
            t["shape"][rng.randrange(len(t["shape"]))] = rng.choice([-1, -3])
        elif kind == 5:
            t["strides"] = t["strides"] + [1]
        elif kind == 6:
            t["shape"], t["strides"] = [2**32, 2**32], rng.choice([[0, 0], [1, 1], [2**32, 1]])
        elif kind == 7:
            views.append(dict(rng.choice(views), name=t["name"]))
        else:
            layout["storages"].append(dict(rng.choice(layout["storages"])))


def layouts(n, seed):
    for k in range(n):
        rng = random.Random(f"{seed}/{k}")
        ids = rng.sample(NAMES + ["w0", "w1", "w2"], rng.choice([1, 1, 2, 3, 4]))
        storages = [storage(rng, name) for name in ids]
        names = rng.sample(NAMES, rng.randrange(9))
        views = []
        for name in names:
            views.append(tensor(rng, name, storages, views))
        for view in views:
            if view["offset"] == 0 and rng.random() < 0.3:
                del view["offset"]
        # The same lists must not stand in two tensors, one of which is spoiled later.
        layout = json.loads(json.dumps({"storages": storages, "tensors": views, "made by": ["chance", {"bytes": -1}]}))
        if rng.random() < 0.25:
            spoiled(rng, layout)
        devices = sorted({s["device"] for s in storages})
        to = rng.choice([None, "cpu", "cuda", "cuda:0", "cuda:1", "mock", "mock:3", *devices])
        yield json.dumps(layout, ensure_ascii=rng.random() < 0.5), to


def main(what, *args):
    if what == "make":
        for layout, to in layouts(int(args[0]), args[1]):
            print(json.dumps({"layout": layout, "to": to}))
        return 0
    wrong = refused = n = 0
    if what == "check":
        cases = ((case["layout"], case["to"], case.get("answer"), case.get("problems")) for case in map(json.loads, sys.stdin))
    else:
        cases = (answered(args[0], *case) for case in layouts(int(args[1]), args[2]))
    for n, (layout, to, answer, lines) in enumerate(cases, 1):
        refused += lines is not None
        message = check(layout, to, answer, lines)
        if message is not None:
            wrong += 1
            if wrong <= 10:
                print(json.dumps({"wrong": message, "layout": layout, "to": to, "answer": answer, "problems": lines}))
    print(json.dumps({"checked": n, "refused": refused, "wrong": wrong}))
    return int(wrong > 0)


def answered(binary, layout, to):
    """What the command says of a layout; anything but an answer or problems is a problem of its own."""
    command = [binary, "memory", "-", "--format", "json"] + (["--to", to] if to else [])
    ran = subprocess.run(command, input=layout.encode(), capture_output=True)
    lines = ran.stderr.decode().split("\n")[:-1]
    if ran.returncode == 2:
        return layout, to, None, lines if not ran.stdout else ["output beside problems"]
    if ran.returncode or lines or ran.stdout.count(b"\n") != 1 or not ran.stdout.endswith(b"\n"):
        return layout, to, None, [f"status {ran.returncode}, {ran.stdout!r}, {ran.stderr!r}"]
    return layout, to, ran.stdout.decode(), None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
