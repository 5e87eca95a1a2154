// Unpacks the page's script and starts it where this one stands, under the same policy.
const loader = document.getElementById("spanlift-loader");
try {
  const packed = Uint8Array.from(atob(loader.dataset.script), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  [script.type, script.id, script.nonce] = ["module", "spanlift-script", loader.nonce];
  script.textContent = await new Response(stream).text();
  loader.replaceWith(script);
} catch (error) {
  for (const place of document.querySelectorAll("[data-spanlift], [data-from]")) {
    const line = Object.assign(document.createElement("p"), { className: "sl-error", role: "alert" });
    line.textContent = `The interactive view cannot start: ${(line.dataset.error = error.message)}`;
    place.append(line);
  }
}
