// Unpacks the module and every viewer's data, and starts the viewers; says why where that fails.
const unpack = async (base64) => {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
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
const places = [...document.querySelectorAll("[data-spanlift]")];
try {
  await __wbg_init({ module_or_path: await unpack(document.getElementById("spanlift-module").textContent) });
  for (const place of places) {
    try {
      if (place.dataset.height) place.style.setProperty("--sl-height", `${place.dataset.height}px`);
      mount(place, await unpack(place.dataset.spanlift), place.hasAttribute("data-alone"));
    } catch (error) {
      refuse(place, error);
    }
    await new Promise((next) => setTimeout(next));
  }
} catch (error) {
  for (const place of places) refuse(place, error);
}
