#!/usr/bin/env python3
"""Bytes of code in the viewer's module by area, as JSON: module.py [--into FILE] MODULE.wasm [EXPORT...]

MODULE is the compiler's, before wasm-bindgen, with its names: `viewer build` leaves it in
target/wasm*/wasm32-unknown-unknown/wasm/. Counted are functions that can be reached from exports or from a table; exports that begin
with one of the names given are left out.
wasm-bindgen then drops what describes imports, and padding of calls: about 8 %. With --into they are put into FILE, an earlier
module.json, with the sizes of the pairs in wasm/dist, part by part, and of the page without data that viewer.json beside FILE tells.
Whether the goal holds is said of the first part with the glue, which is all that a trace, a snapshot or a layout loads, and of both parts;
the page's own script, with its style and its elements, is told beside them.
"""
import bisect, collections, datetime, json, lzma, pathlib, re, subprocess, sys

DIST = pathlib.Path(__file__).resolve().parents[2] / "wasm/dist"
AREAS = [
    ("programs: text, JSON, well-formedness, code in three languages, machines", r"spanlift::(program|machine)"),
    ("traces and snapshots: reading, writing", r"spanlift::trace"),
    ("checker and schedules", r"spanlift::(hazard|explore)"),
    ("simulator", r"spanlift::sim"),
    ("memory: layouts, spans, plans", r"spanlift::memory"),
    ("what if, recordings run again", r"spanlift::advise"),
    ("rest of core", r"spanlift::"),
    ("page: memory maps and snapshots", r"spanlift_viewer::(memory|snapshot)"),
    ("page: timeline, tools, panels", r"spanlift_viewer::"),
    ("serde and serde_json", r"serde"),
    ("standard library, allocator, mathematics, wasm-bindgen", r""),
]


class Bytes:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self):
        n = self.number()
        self.at += n
        return self.data[self.at - n : self.at]


def calls(data, at, end):
    """The functions that a body calls."""
    b, found = Bytes(data, at), []
    for _ in range(b.number()):
        b.number(), b.byte()
    while b.at < end:
        op = b.byte()
        if op == 0x10:
            found.append(b.number())
        elif op == 0x0E:
            for _ in range(b.number() + 1):
                b.number()
        elif op == 0x11:
            b.number(), b.number()
        elif op == 0x1C:
            b.at += b.number()
        elif 0x28 <= op <= 0x3E:
            if b.number() & 64:
                b.number()
            b.number()
        elif op in (2, 3, 4, 0x0C, 0x0D, 0xD2) or 0x20 <= op <= 0x26 or 0x3F <= op <= 0x42:
            b.number()
        elif op == 0xD0:
            b.byte()
        elif op == 0x43:
            b.at += 4
        elif op == 0x44:
            b.at += 8
        elif op == 0xFC:
            for _ in range({8: 2, 9: 1, 10: 2, 11: 1, 12: 2, 14: 2}.get(b.number(), 0)):
                b.number()
        elif op in (0xFB, 0xFD, 0xFE):
            raise SystemExit(f"instruction {op:#x} is not known here")
    assert b.at == end
    return found


def read(data):
    b, imported, bodies, names, exports, table, size = Bytes(data, 8), 0, [], {}, {}, [], 0
    while b.at < len(data):
        section, n = b.byte(), b.number()
        end = b.at + n
        if section == 2:
            for _ in range(b.number()):
                b.text(), b.text()
                kind = b.byte()
                imported += kind == 0
                if kind == 0:
                    b.number()
                else:
                    b.at += {1: 1, 2: 0, 3: 2}[kind]
                    if kind != 3 and [b.number(), b.number()][0] & 1:
                        b.number()
        elif section == 7:
            for _ in range(b.number()):
                name, kind, index = b.text().decode(), b.byte(), b.number()
                if kind == 0:
                    exports[name] = index
        elif section == 9:
            for _ in range(b.number()):
                assert b.number() == 0, "a form of table that is not known here"
                b.byte(), b.number(), b.byte()
                table += [b.number() for _ in range(b.number())]
        elif section == 10:
            for _ in range(b.number()):
                n = b.number()
                bodies.append((b.at, b.at + n))
                b.at += n
        elif section == 11:
            size = n
        elif section == 0 and b.text() == b"name":
            while b.at < end:
                part, n = b.byte(), b.number()
                part_end = b.at + n
                if part == 1:
                    for _ in range(b.number()):
                        index = b.number()
                        names[index] = b.text().decode()
                b.at = part_end
        b.at = end
    return imported, bodies, names, exports, table, size


def main(path, left_out):
    data = open(path, "rb").read()
    imported, bodies, names, exports, table, data_bytes = read(data)
    todo = [i for name, i in exports.items() if not name.startswith(("__wbindgen_describe", *left_out))] + table
    reached = set()
    while todo:
        function = todo.pop()
        if function >= imported and function not in reached:
            reached.add(function)
            todo += calls(data, *bodies[function - imported])
    order = sorted(reached)
    plain = subprocess.run(["c++filt", "-s", "rust"], input="\n".join(names.get(i, "?") for i in order), capture_output=True, text=True)
    areas = collections.Counter()
    for function, name in zip(order, plain.stdout.split("\n")):
        # What a generic function is made for comes last: the innermost of our own names.
        own = re.findall(r"spanlift(?:_viewer)?(?:::[a-z_0-9]+)+", re.sub(r"\[[0-9a-f]{1,16}\]", "", name))
        start, end = bodies[function - imported]
        areas[next(area for area, form in AREAS if re.search(form, own[-1] if own else name))] += end - start
    assert areas, "no function is reached"
    return {"code_bytes": sum(areas.values()), "data_bytes": data_bytes, "areas": dict(areas.most_common())}


def pair(name):
    """Sizes of a pair of module and glue as committed: of the first part, of the second, which comes when it is needed, and of both."""
    packed = (DIST / f"{name}.wasm.lzma").read_bytes()
    whole = lzma.decompress(packed)
    first = int.from_bytes(whole[:4], "little")

    def unpacks(n):
        return len(lzma.LZMADecompressor().decompress(packed[:n])) >= 4 + first

    first_packed = bisect.bisect_left(range(len(packed)), True, key=unpacks)
    return {"first_bytes": first, "first_packed_bytes": first_packed, "second_bytes": len(whole) - 4 - first,
            "second_packed_bytes": len(packed) - first_packed, "module_bytes": len(whole), "module_packed_bytes": len(packed),
            "glue_bytes": (DIST / f"{name}.js").stat().st_size}


def put(found, path):
    """Puts figures of today into a file."""
    all = json.loads(path.read_text())
    pairs = {name: pair(name) for name in sorted(packed.name.split(".")[0] for packed in DIST.glob("*.lzma"))}
    viewer, goal = pairs["viewer"], all["goal"]
    for name, part in [("first_part_holds", "first"), ("all_together_holds", "module")]:
        goal[name] = (viewer[f"{part}_bytes"] + viewer["glue_bytes"] <= goal["module_and_glue_bytes"]
                      and viewer[f"{part}_packed_bytes"] <= goal["packed_bytes"])
    page = json.loads((path.parent / "viewer.json").read_text())["page_without_data_bytes"]
    today = datetime.date.today().isoformat()
    all |= {"date": today, "pairs": pairs, **found, "page_script_bytes": (DIST / "page.js").stat().st_size,
            "page_without_data_bytes": page}
    path.write_text(json.dumps(all, indent=1) + "\n")


if __name__ == "__main__":
    args = sys.argv[1:]
    into = pathlib.Path(args.pop(1)) if args[:1] == ["--into"] else None
    args = args[1:] if into else args
    found = main(args[0], tuple(args[1:]))
    put(found, into) if into else print(json.dumps(found, indent=1))
