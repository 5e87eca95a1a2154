// In a frame of a notebook: tells the frames beside it that the module and the script are here, and gives them to those that ask.
const lender = document.getElementById("spanlift-loader");
const tell = (frame, what) => frame.postMessage({ spanlift: what, key: lender.dataset.key }, "*");
const beside = (act) => {
  for (let k = 0; k < parent.length; k += 1) if (parent[k] !== window) act(parent[k]);
};
addEventListener("message", ({ data, source }) => {
  // Whoever asks gets a word first, and the megabyte once: of many that have it, one is asked for it.
  if (data?.spanlift === "where" && data.keys.includes(lender.dataset.key)) tell(source, "here");
  if (data?.spanlift !== "give" || data.key !== lender.dataset.key) return;
  const { key, script } = lender.dataset;
  source.postMessage({ spanlift: "pair", key, script, module: document.getElementById("spanlift-module").textContent }, "*");
});
beside((frame) => tell(frame, "here"));
