// Slices and counters as Perfetto reads them: a trace of packets in the form of protocol buffers.

/**
 * What writes the fields of a message by their numbers: fields and text with their length, eight bytes as they are, all else as a
 * number of up to 64 bits.
 * From the end, so that a length is known where it is to stand; the bytes are there until the next message.
 */
const writing = () => {
  const [utf8, known] = [new TextEncoder(), new Map()];
  let [room, at] = [new Uint8Array(1 << 16), 0];
  const put = (byte) => (room[(at -= 1)] = byte);
  const number = (value) => {
    if (value <= 127) put(value);
    else if (value <= Number.MAX_SAFE_INTEGER) {
      number(Math.floor(value / 128));
      put((value % 128) | 128);
    } else {
      // Big numbers are slow: the lower seven bytes of it at once.
      number(Number(value >> 49n));
      const low = Number(value & 0x1ffffffffffffn);
      for (let bits = 42; bits >= 0; bits -= 7) put((Math.floor(low / 2 ** bits) % 128) | 128);
    }
  };
  const text = (value) => {
    // Most come again and again.
    if (!known.has(value)) known.set(value, utf8.encode(value));
    at -= known.get(value).length;
    if (at >= 0) room.set(known.get(value), at);
  };
  const write = (fields) => {
    for (let k = fields.length - 1; k >= 0; k -= 1) {
      const [field, value] = fields[k];
      const end = at;
      const isNumber = typeof value === "number" || typeof value === "bigint";
      const isFixed = value instanceof Uint8Array;
      if (isNumber) number(value);
      else if (isFixed) {
        at -= 8;
        if (at >= 0) room.set(value, at);
      } else {
        if (typeof value === "string") text(value);
        else write(value);
        number(end - at);
      }
      number(field * 8 + (isNumber ? 0 : isFixed ? 1 : 2));
    }
  };
  const message = (fields) => {
    at = room.length;
    write(fields);
    if (at >= 0) return room.subarray(at);
    // What did not fit has said how long it is.
    room = new Uint8Array(2 * (room.length - at));
    return message(fields);
  };
  return message;
};

/** A number, or what its digits say: a big one where no other holds it. */
const exact = (value) => (value > Number.MAX_SAFE_INTEGER ? BigInt(value) : Number(value));

/** The cells of comma-separated values behind their head, line by line. */
const cells = function* (csv) {
  for (let [at, end] = [csv.indexOf("\n") + 1, 0]; at < csv.length; at = end + 1) {
    end = csv.indexOf("\n", at);
    const text = csv.slice(at, end);
    if (!text.includes('"')) yield text.split(",");
    else {
      // There may be commas in quotes, and ends of lines.
      const line = [];
      const cell = /(?:"([^"]*(?:""[^"]*)*)"|([^",\n]*))([,\n])/y;
      cell.lastIndex = at;
      for (let mark; mark !== "\n"; ) {
        const [, quoted, plain, then] = cell.exec(csv);
        line.push(plain ?? quoted.replaceAll('""', '"'));
        mark = then;
      }
      yield line;
      end = cell.lastIndex - 1;
    }
  }
};

/**
 * A trace of the slices of `csv`, which stand there as they begin: a track for each lane below one for its group, and more where
 * slices overlap and do not nest; and of the `values` of counters, of which that comes first that begins first, a track for each. The
 * page goes on meanwhile.
 */
const perfetto = async (csv, values) => {
  const [parts, ids, tracks, message] = [[], new Map(), new Map(), writing()];
  let [part, n, rests] = [new Uint8Array(1 << 20), 0, performance.now() + 30];
  // Times of Perfetto have no sign.
  const begins = [csv, values].map((text) => BigInt(cells(text).next().value?.[0] ?? 0));
  const first = begins.reduce((least, at) => (at < least ? at : least), 0n);
  const isLong = () => performance.now() > rests;
  const rest = async () => {
    await new Promise((next) => setTimeout(next));
    rests = performance.now() + 30;
  };
  const packet = (...fields) => {
    const bytes = message([[1, [...fields, [10, 1]]]]);
    if (n + bytes.length > part.length) {
      parts.push(part.subarray(0, n));
      [part, n] = [new Uint8Array(Math.max(1 << 20, bytes.length)), 0];
    }
    part.set(bytes, n);
    n += bytes.length;
  };
  const track = (key, name, group, ...more) => {
    if (!ids.has(key)) {
      const parent = group && key !== group ? [[5, track(group, group)]] : [];
      ids.set(key, ids.size + 1);
      packet([60, [[1, ids.get(key)], [2, name], ...parent, ...more]]);
    }
    return ids.get(key);
  };
  packet([13, 1]);
  // Each track in the order in which its slices begin and end: of times that are alike, the file's order counts.
  const event = (at, type, id, ...fields) => packet([8, exact(at - first)], [11, [[9, type], [11, id], ...fields]]);
  const ended = (open, at, id) => {
    while (open.length && (at === null || open.at(-1) <= at)) event(open.pop(), 2, id);
  };
  for (const [from, took, kind, name, group, lane, bytes, memory, correlation, command] of cells(csv)) {
    if (isLong()) await rest();
    const start = BigInt(from);
    const [of, end] = [`${group}\n${lane}`, start + BigInt(took)];
    if (!tracks.has(of)) tracks.set(of, []);
    const beside = tracks.get(of);
    let k = beside.findIndex(({ open }) => {
      const above = open.findLast((until) => until > start);
      return above === undefined || end <= above;
    });
    if (k < 0) {
      k = beside.length;
      beside.push({ open: [], id: track(`${of}\n${k}`, lane || group, group) });
    }
    const { open, id } = beside[k];
    ended(open, start, id);
    const said = [["bytes", bytes], ["memory", memory], ["correlation", correlation], ["command", command]].filter(([, value]) => value);
    const notes = said.map(([what, value]) => [4, [[10, what], /^\d+$/.test(value) ? [3, exact(value)] : [6, value]]]);
    // What belongs together, as a call and its work, is joined by arrows; profilers write 0 where nothing is joined.
    const flow = correlation === "0" ? "" : correlation || command;
    const flows = flow ? [[47, new Uint8Array(new BigUint64Array([BigInt(flow)]).buffer)]] : [];
    event(start, 1, id, [22, kind], [23, name], ...notes, ...flows);
    open.push(end);
  }
  for (const beside of tracks.values()) for (const { open, id } of beside) ended(open, null, id);
  for (const [at, said, row, group, name] of cells(values)) {
    if (isLong()) await rest();
    const value = Number(said);
    const isWhole = Number.isInteger(value) && Math.abs(value) < 2 ** 63;
    // Where a number has a sign, it stands as what it is modulo 2 to the 64.
    const field = isWhole ? [30, exact(BigInt.asUintN(64, BigInt(value)))] : [44, new Uint8Array(new Float64Array([value]).buffer)];
    packet([8, exact(BigInt(at) - first)], [11, [[9, 4], [11, track(Number(row), name, group, [8, []])], field]]);
  }
  return new Blob([...parts, part.subarray(0, n)]);
};
