// The module is packed as one and comes in two parts: the first opens traces, snapshots and layouts, and brings the second, which
// does all else, as soon as it needs it. What is packed begins with the length of the first.

/** Gives the bytes of the second part. */
let others;

/** Links the second part to the first; its bytes are of no use then. */
const link = (part) => {
  new WebAssembly.Instance(part, { ...__wbg_get_imports(), first: wasm });
  others = null;
};

/** Starts the module, all of it where it is known to be needed; gives it with its first part compiled, as a worker starts sooner with. */
const started = async ({ packed, first }, all) => {
  const until = unlzma(packed);
  const length = () => 4 + new DataView(until(4).buffer).getUint32(0, true);
  others = () => until().subarray(length());
  const compiled = first ?? WebAssembly.compile(until(length()).subarray(4));
  // Unpacked while the first is compiled beside. Where it is damaged, what needs it says so.
  const rest = all && WebAssembly.compile(others()).catch(() => null);
  first = await compiled;
  __wbg_finalize_init(await WebAssembly.instantiate(first, __wbg_get_imports()), first);
  if (await rest) link(await rest);
  return { packed, first };
};

/** Brings the second part if it is not there; throws words. At once, since what called for it waits. */
const second = () => {
  if (wasm.there.value) return;
  try {
    link(new WebAssembly.Module(others()));
  } catch (error) {
    throw `a part of this page is damaged, or this browser refuses it: ${error.message}`;
  }
};

/** The same with nothing that waits: it is compiled beside the page. What is wrong with it is told to what needs it. */
const soon = async () => {
  if (wasm.there.value) return;
  try {
    const part = await WebAssembly.compile(others());
    if (!wasm.there.value) link(part);
  } catch {}
};
