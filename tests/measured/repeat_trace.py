#!/usr/bin/env python3
"""Makes a large trace of a real one by repeating its events: repeat_trace.py IN.json[.gz] N OUT.json

Every copy has the same times and ids; readers see N times the events, calls and operations of the original.
"""
import gzip, sys

source, times, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
data = open(source, "rb").read()
text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
begin = text.index("[", text.index('"traceEvents"')) + 1
end = text.rindex("]")
with open(target, "w") as out:
    out.write(text[:begin])
    out.write(",\n".join([text[begin:end].strip()] * times))
    out.write(text[end:])
