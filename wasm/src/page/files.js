// Reads files that people open: unpacks them, tells how far that is, and gives their bytes. Nothing leaves the machine.

const MANY = 64 << 20;
/** A file may unpack to this many times its size, beyond `MANY` bytes. */
const TIMES = 200;

/** The bytes of a stream, `size` of them where that is known; `tell` is called with how many there are so far, and ends it all by throwing. */
const gathered = async (stream, tell, size) => {
  const [parts, reader] = [[], stream.getReader()];
  let whole = size && new Uint8Array(size);
  let n = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (n + value.length > whole?.length) {
        parts.push(whole.subarray(0, n));
        whole = null;
      }
      if (whole) whole.set(value, n);
      else parts.push(value);
      tell((n += value.length));
    }
  } catch (error) {
    reader.cancel().catch(() => {});
    throw error;
  }
  if (whole) return whole.subarray(0, n);
  const all = new Uint8Array(n);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

/** One member of a gzip file, or several in a row: the browser unpacks one. */
const gunzip = async (bytes, tell) => {
  const limit = Math.max(MANY, TIMES * bytes.length);
  let before = 0;
  const member = (part) =>
    gathered(new Blob([part]).stream().pipeThrough(new DecompressionStream("gzip")), (n) => {
      if (before + n > limit) throw new RangeError(`unpacks to more than ${TIMES} times its size`);
      tell(before + n);
    });
  const starts = [];
  for (let at = bytes.indexOf(0x1f, 1); at >= 0; at = bytes.indexOf(0x1f, at + 1)) {
    if (bytes[at + 1] === 0x8b && bytes[at + 2] === 8 && bytes[at + 3] < 32) starts.push(at);
  }
  const found = [];
  const taken = async (from, to) => {
    try {
      found.push(await member(bytes.subarray(from, to)));
      before += found.at(-1).length;
      return true;
    } catch (error) {
      if (error instanceof RangeError || error.name === "AbortError") throw error;
      return false;
    }
  };
  const whole = async () => new Uint8Array(await new Blob(found).arrayBuffer());
  let from = 0;
  // A member that is cut at the wrong place fails its checksum.
  for (const to of [...(starts.length ? [bytes.length, ...starts] : []), bytes.length]) {
    if (to > from && (await taken(from, to))) from = to;
    if (from === bytes.length) break;
  }
  // Zeros may fill up what is behind the last member, which ends with some of its own.
  const filled = 1 + bytes.findLastIndex((byte) => byte);
  for (let to = filled; from < bytes.length && to < Math.min(filled + 9, bytes.length); to += 1) if (await taken(from, to)) return whole();
  if (from < bytes.length) throw new Error(from ? `gzip data is broken or cut off in the member at byte ${from}` : "gzip data is broken, cut off, or has something behind its end");
  return whole();
};

/** The bytes of a file, unpacked; `tell(words, part)` says how far reading is. */
const opened = async (file, tell) => {
  const bytes = await gathered(file.stream(), (n) => tell(`reading ${file.name}`, n / file.size), file.size);
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  if (bytes.length < 18) throw new Error(`the gzip data ends too early, at byte ${bytes.length}`);
  // The last four bytes say how long the last member is.
  const whole = new DataView(bytes.buffer).getUint32(Math.max(0, bytes.length - 4), true);
  return gunzip(bytes, (n) => tell(`unpacking ${file.name}`, whole > n ? n / whole : null));
};

/** From this many bytes on a trace is read beside the page. */
const LARGE = 1 << 20;

/** Whether bytes look like a trace: its list of events stands near the beginning. */
const isTrace = (bytes) => {
  const text = new TextDecoder().decode(bytes.subarray(0, 4096)).trimStart();
  return text.startsWith("[") || /^\{[^]*"(traceEvents|schemaVersion)"/.test(text);
};

/** Bytes that the worker reads at once, at most. */
const PIECE = 1 << 20;

/** All of a file, piece by piece; what comes of it. For the worker, which says how far it is. */
const fed = async (reading, file) => {
  let [reader, stream, room, n] = [null, file.stream(), new ArrayBuffer(PIECE), 0];
  try {
    // Into the same bytes again and again, where the browser can: new ones cost as much as reading.
    reader = stream.getReader({ mode: "byob" });
  } catch {
    reader = stream.getReader();
  }
  for (;;) {
    const { done, value } = await reader.read(new Uint8Array(room));
    if (done) return reading.finish();
    reading.feed(value);
    room = value.buffer;
    n += value.length;
    if (n % (4 * PIECE) < value.length) postMessage({ part: n / file.size });
  }
};

/** From this many bytes on, arguments that only people read stay in the file until somebody asks for them. */
const LEAVES = 16 << 20;

/** The worker that reads the next large trace, or nothing where there can be none. */
let ready = null;

/** Starts that worker if there is none: it takes a tenth of a second, so that whoever sees a file come asks for it at once. */
const prepare = (module) => {
  ready ??= new Promise((done) => {
    const script = document.getElementById("spanlift-script").textContent;
    const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    // No module: of a page that is a file, browsers refuse those.
    const worker = new Worker(address);
    const settle = (made) => {
      URL.revokeObjectURL(address);
      done(made);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      settle(null);
    };
    worker.onmessage = () => {
      worker.postMessage({ module });
      settle(worker);
    };
  }).catch(() => null);
  return ready;
};

/** A trace as columns, read by a worker; nothing where there can be none, or where it is given no file. */
const inColumns = async (file, module, tell) => {
  let [worker, timer, part, over] = [null, 0, null, false];
  try {
    return await new Promise((done, fail) => {
      timer = setInterval(() => {
        try {
          tell("reading events", part);
        } catch (error) {
          fail(error);
        }
      }, 100);
      prepare(module).then((made) => {
        if (over || !made) return made ? made.terminate() : done(null);
        worker = made;
        worker.onerror = (event) => {
          event.preventDefault();
          done(null);
        };
        worker.onmessage = ({ data }) => {
          if (data.made) done(data.made);
          else if (data.part) part = data.part;
          // What is chosen on a page that is a file, WebKit gives to the page alone.
          else if (data.name === "NotReadableError") done(null);
          else fail(new Error(data.error));
        };
        worker.postMessage({ file, leaves: file.size > LEAVES });
      });
      // Each reads one file.
      ready = null;
    });
  } finally {
    over = true;
    clearInterval(timer);
    worker?.terminate();
  }
};
