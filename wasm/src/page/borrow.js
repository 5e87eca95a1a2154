// In a frame of a notebook that carries neither module nor script: asks the frames beside it until one gives both. Says so after ten
// seconds without an answer, and goes on listening, since the cell that has them may run later.
await new Promise((have) => {
  const borrower = document.getElementById("spanlift-loader");
  const keys = borrower.dataset.keys.split(" ");
  const waiting = document.querySelector(".spanlift-waiting");
  let [asked, giver] = [0, null];
  const ask = () => {
    if (!giver) for (let k = 0; k < parent.length; k += 1) if (parent[k] !== window) parent[k].postMessage({ spanlift: "where", keys }, "*");
    asked += 1;
    if (asked < 40) return;
    waiting.hidden = false;
    clearInterval(timer);
  };
  const timer = setInterval(ask, 250);
  const hear = ({ data, source }) => {
    if (!keys.includes(data?.key)) return;
    if (data.spanlift === "here" && !giver) {
      giver = source;
      source.postMessage({ spanlift: "give", key: data.key }, "*");
      // Its cell may be gone before it gives.
      setTimeout(() => (giver = null), 2000);
    }
    if (data.spanlift !== "pair") return;
    clearInterval(timer);
    removeEventListener("message", hear);
    waiting.remove();
    const module = Object.assign(document.createElement("script"), { type: "application/x-lzma", id: "spanlift-module" });
    module.textContent = data.module;
    borrower.before(module);
    [borrower.dataset.key, borrower.dataset.script] = [data.key, data.script];
    have();
  };
  addEventListener("message", hear);
  ask();
});
