// Unpacks the page's script and starts it where this one stands, under the same policy. It needs the digits too.
const loader = document.getElementById("spanlift-loader");
try {
  const stream = new Blob([digits(loader.dataset.script)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  [script.type, script.id, script.nonce] = ["module", "spanlift-script", loader.nonce];
  script.textContent = `${digits}\n${await new Response(stream).text()}`;
  loader.replaceWith(script);
} catch (error) {
  for (const place of document.querySelectorAll("[data-spanlift], [data-from]")) {
    const line = Object.assign(document.createElement("p"), { className: "sl-error", role: "alert" });
    line.textContent = `The interactive view cannot start: ${(line.dataset.error = error.message)}`;
    place.append(line);
  }
}
