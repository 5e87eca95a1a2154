// Slices as Perfetto reads them: a trace of packets in the form of protocol buffers.

/** Fields of a message by their numbers: text and bytes with their length, all else as a number of any length. */
const message = (...fields) => {
  const out = [];
  const number = (value) => {
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
    out.push(Number(rest));
  };
  for (const [field, value] of fields) {
    if (value === undefined) continue;
    const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
    number(field * 8 + (bytes.length === undefined ? 0 : 2));
    if (bytes.length === undefined) number(bytes);
    else {
      number(bytes.length);
      for (const byte of bytes) out.push(byte);
    }
  }
  return out;
};

/** The cells of comma-separated values, a list a line. */
const cells = (csv) => {
  const lines = [[""]];
  for (const [, quoted, plain, mark] of csv.matchAll(/"([^"]*(?:""[^"]*)*)"|([^",\n]+)|([,\n])/g)) {
    if (mark === "\n") lines.push([""]);
    else if (mark) lines.at(-1).push("");
    else lines.at(-1)[lines.at(-1).length - 1] = plain ?? quoted.replaceAll('""', '"');
  }
  return lines.slice(1, -1);
};

/** A trace of the slices of `csv`: a track for each lane below one for its group, and more where slices overlap and do not nest. */
const perfetto = (csv) => {
  const [packets, ids, tracks] = [[], new Map(), new Map()];
  const packet = (...fields) => packets.push(new Uint8Array(message([1, message(...fields, [10, 1])])));
  // Times of Perfetto have no sign.
  const slices = cells(csv).map(([start, took, ...words]) => [BigInt(start), BigInt(took), ...words]);
  const first = slices.reduce((least, [start]) => (start < least ? start : least), 0n);
  const track = (key, name, parent) => {
    if (!ids.has(key)) {
      ids.set(key, ids.size + 1);
      packet([60, message([1, ids.get(key)], [2, name], [5, parent])]);
    }
    return ids.get(key);
  };
  packet([13, 1]);
  // Each track in the order in which its slices begin and end: of times that are alike, the file's order counts.
  const event = (at, type, id, ...fields) => packet([8, at - first], [11, message([9, type], [11, id], ...fields)]);
  const ended = (open, at, id) => {
    while (open.length && (at === null || open.at(-1) <= at)) event(open.pop(), 2, id);
  };
  for (const [start, took, kind, name, group, lane, bytes, memory, correlation, command] of slices) {
    const [of, end] = [`${group}\n${lane}`, start + took];
    if (!tracks.has(of)) tracks.set(of, []);
    const beside = tracks.get(of);
    let k = beside.findIndex(({ open }) => {
      const above = open.findLast((until) => until > start);
      return above === undefined || end <= above;
    });
    if (k < 0) {
      k = beside.length;
      const parent = group && track(group, group);
      beside.push({ open: [], id: track(`${of}\n${k}`, lane || group, parent || undefined) });
    }
    const { open, id } = beside[k];
    ended(open, start, id);
    const said = [["bytes", bytes], ["memory", memory], ["correlation", correlation], ["command", command]].filter(([, value]) => value);
    const notes = said.map(([what, value]) => [4, message([10, what], /^\d+$/.test(value) ? [3, BigInt(value)] : [6, value])]);
    event(start, 1, id, [22, kind], [23, name], ...notes);
    open.push(end);
  }
  for (const beside of tracks.values()) for (const { open, id } of beside) ended(open, null, id);
  return new Blob(packets);
};
