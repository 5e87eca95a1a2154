// Unpacks the module and every viewer's data, and starts the viewers; says why where that fails.
const unpack = async (text) => {
  const stream = new Blob([digits(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};
const refuse = (place, error) => {
  const line = document.createElement("p");
  line.className = "sl-error";
  line.setAttribute("role", "alert");
  line.dataset.error = String(error?.message ?? error);
  line.textContent = `The interactive view cannot start: ${line.dataset.error}`;
  place.append(line);
};
/** The block of a page whose data lies beside it. */
const served = async (place) => {
  const answer = await fetch(place.dataset.from);
  if (!answer.ok) throw new Error(`its data is not there: ${answer.status} ${answer.statusText}`);
  const bar = make("progress", { className: "sl-loading", ariaLabel: "loading" });
  place.append(bar);
  try {
    const all = Number(answer.headers.get("content-length"));
    return await gathered(answer.body, (n) => (bar.value = n / all));
  } finally {
    bar.remove();
  }
};
const start = async () => {
  // Under the same policy, and behind the little that stands in the page as it is.
  const script = document.getElementById("spanlift-script");
  script.before(make("style", { textContent: STYLE, nonce: script.nonce }));
  const places = [...document.querySelectorAll("[data-spanlift], [data-from]")];
  try {
    const { dataset, textContent } = document.getElementById("spanlift-module");
    const packed = ("sixes" in dataset ? fives : digits)(textContent);
    const { startLessons } = globalThis;
    const module = await started({ packed }, startLessons || places.some((place) => "all" in place.dataset));
    startLessons?.(module);
    for (const place of places) {
      try {
        if (place.dataset.height) place.style.setProperty("--sl-height", `${place.dataset.height}px`);
        const alone = place.hasAttribute("data-alone");
        const { from, spanlift } = place.dataset;
        const view = mounted(place, from ? await served(place) : await unpack(spanlift), alone);
        const { examples } = document.body.dataset;
        tools(view, place, alone, { module, examples: examples ? await unpack(examples) : null });
      } catch (error) {
        refuse(place, error);
      }
      await new Promise((next) => setTimeout(next));
    }
  } catch (error) {
    for (const place of places) refuse(place, error);
  }
};
// This script is the worker's too: there it is given the module, and then one file.
if (globalThis.document) start();
else {
  let start;
  onmessage = async ({ data: { module, file, leaves } }) => {
    start ??= started(module);
    try {
      await start;
      if (!file) return;
      const reading = new Columns(leaves);
      const made = await fed(reading, file) ?? await fed(reading, file);
      postMessage({ made }, [made.buffer]);
    } catch (error) {
      if (file) postMessage({ error: String(error?.message ?? error), name: error?.name });
    }
  };
  postMessage("ready");
}
