#!/usr/bin/env python3
"""Makes a large trace of a real one by repeating its events: repeat_trace.py [--after] IN.json[.gz] N OUT.json

Every copy has the same times and ids; readers see N times the events, calls and operations of the original. With --after each copy
begins when the one before has ended, with ids of its own, as a longer recording would; times have to be whole microseconds then.
"""
import gzip, re, sys

TIME = re.compile(r'"ts": (\d+)(?![\d.])')
ID = re.compile(r'"(correlation|External id|id)": (\d+)(?![\d.])')
APART = 10_000_000

after = "--after" in sys.argv
source, times, target = [arg for arg in sys.argv[1:] if arg != "--after"]
data = open(source, "rb").read()
text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
begin = text.index("[", text.index('"traceEvents"')) + 1
end = text.rindex("]")
events = text[begin:end].strip()
starts = [int(at) for at in TIME.findall(events)]
step = max(starts) - min(starts) + 1_000_000 if after else 0


def copy(k):
    if not after or k == 0:
        return events
    later = TIME.sub(lambda found: f'"ts": {int(found[1]) + k * step}', events)
    return ID.sub(lambda found: f'"{found[1]}": {int(found[2]) + k * APART}', later)


with open(target, "w") as out:
    out.write(text[:begin])
    for k in range(int(times)):
        out.write((",\n" if k else "") + copy(k))
    out.write(text[end:])
