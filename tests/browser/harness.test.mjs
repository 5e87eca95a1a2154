// The harness proves on pages of its own that it sees what it is for, and that each planted fault fails.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as harness from "./harness.mjs";

const RED = "#d02030";
const room = harness.room();

// A canvas with a red square at its scale; a click reports its place, the wheel doubles the square.
const canvasPage = (extra = "") => `<!doctype html><meta charset="utf-8"><canvas width="200" height="100"></canvas>
<p data-selection>nothing</p><script>
const canvas = document.querySelector("canvas"), paint = canvas.getContext("2d");
let size = 10;
const draw = () => { paint.fillStyle = "#fff"; paint.fillRect(0, 0, 200, 100); paint.fillStyle = "${RED}"; paint.fillRect(0, 0, size, size); };
canvas.onclick = (e) => document.querySelector("[data-selection]").textContent = e.offsetX + "," + e.offsetY;
canvas.onwheel = (e) => { e.preventDefault(); size *= e.deltaY < 0 ? 2 : 0.5; draw(); };
requestAnimationFrame(() => { draw(); ${extra || 'canvas.dataset.ready = ""'} });
</script>`;
// without a border: the driver forgets its width when it points into a sandboxed frame
const framed = (html) =>
  `<!doctype html><div style="height:3000px">far above</div><iframe sandbox="allow-scripts" width="300" height="200"
   style="border:0" srcdoc="${html.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}"></iframe>`;

async function looksAtTheCanvas(page, frame) {
  const canvas = await harness.ready(frame);
  assert.equal(await harness.pixels(canvas, RED), 100);
  assert.equal(await harness.pixels(canvas, "#00ff00"), 0);
  assert.equal(await harness.painted(canvas), 100);
  assert.equal(await harness.selection(frame), "nothing");
  await harness.click(canvas, 40, 30);
  assert.equal(await harness.selection(frame), "40,30");
  const before = await harness.look(canvas);
  await harness.wheel(page, canvas, 50, 50, -100);
  await harness.eventually(async () => (await harness.pixels(canvas, RED)) === 400, "the wheel changed nothing");
  assert.notEqual(await harness.look(canvas), before);
}

test("a page is waited for, clicked, wheeled and read", async () => {
  const visit = await room.browser.open(room.files.write("plain.html", canvasPage()));
  await looksAtTheCanvas(visit.page, visit.page.mainFrame());
  await visit.close();
});

test("so is a sandboxed frame far down a page", async () => {
  const visit = await room.browser.open(room.files.write("framed.html", framed(canvasPage())));
  await looksAtTheCanvas(visit.page, await harness.frameIn(visit.page.locator("iframe")));
  await visit.close();
});

// what the page does instead of being ready, and what the harness must say
for (const [name, fault, message] of [
  ["an uncaught error", 'canvas.dataset.ready = ""; throw new Error("planted")', /reported errors/],
  ["console.error", 'canvas.dataset.ready = ""; console.error("planted")', /reported errors/],
  ["a request", 'fetch("https://example.invalid/x").catch(() => canvas.dataset.ready = "")', /asked the network/],
  ["data-error", 'canvas.dataset.error = "planted"', /the page says: planted/],
  ["silence", "0", /became data-ready/],
]) {
  test(`planted ${name} fails`, async () => {
    const visit = await room.browser.open(room.files.write("fault.html", canvasPage(fault)));
    await assert.rejects(async () => {
      // Only of silence is it known that waiting is in vain.
      await harness.ready(visit.page.mainFrame(), name === "silence" ? 1000 : undefined);
      await visit.page.evaluate(() => new Promise((wake) => setTimeout(wake))); // let a throw be reported
      await visit.close();
    }, message);
    await visit.page.context().close();
  });
}

test("a request that the test names is fine, and never leaves", async () => {
  const html = canvasPage('fetch("https://example.invalid/known").catch(() => canvas.dataset.ready = "")');
  const visit = await room.browser.open(room.files.write("known.html", html));
  await harness.ready(visit.page.mainFrame());
  assert.deepEqual(visit.requests, ["https://example.invalid/known"]);
  await visit.close({ knownRequests: [/\/known$/] });
});

test("the built viewer starts in a sandboxed frame and knows its version", async () => {
  const { glue, module } = harness.viewer();
  const html = `<!doctype html><canvas></canvas><script type="module">${glue}
${harness.UNPACKING}
await started({ packed: digits("${module}") });
document.querySelector("canvas").dataset.ready = version();
</script>`;
  const visit = await room.browser.open(room.files.write("viewer.html", framed(html)));
  const canvas = await harness.ready(await harness.frameIn(visit.page.locator("iframe")));
  assert.match(await canvas.getAttribute("data-ready"), /^\d+\.\d+\.\d+$/);
  await visit.close();
});

/** A thousand bytes 7, packed by liblzma with other settings than the module. */
const SEVENS = "ZgAAAQDoAwAAAAAAAAAD7/u//qOwumyq9///n+wAAA==";

test("the page's script unpacks what was packed", () => {
  for (const pair of ["viewer", "course", "operators"]) {
    harness.parts(harness.viewer(pair)).forEach((part, k) => assert.ok(WebAssembly.validate(part), `part ${k} of ${pair} is no module`));
  }
  for (const n of [0, 1, 4, 5, 6, 4096]) {
    const bytes = Buffer.from(Array.from({ length: n }, (_, k) => (k % 11 ? (k * k * 37) % 256 : 255)));
    const held = harness.fives(harness.writtenInSixes(bytes));
    assert.ok(bytes.equals(held.subarray(0, n)) && held.subarray(n).every((byte) => byte === 0) && held.length < n + 5, `${n} bytes`);
  }
  // Every number of twenty bits, in either half.
  const numbers = Buffer.from(Array.from({ length: 1 << 20 }, (_, n) => n.toString(16).padStart(5, "0") + (0xfffff - n).toString(16).padStart(5, "0")).join(""), "hex");
  assert.ok(numbers.equals(harness.fives(harness.writtenInSixes(numbers))));
  const sevens = { module: harness.written(Buffer.from(SEVENS, "base64")) };
  assert.deepEqual([...harness.unpacked(sevens)], Array.from({ length: 1000 }, () => 7));
  // However it is asked for, it is the same.
  const whole = Buffer.from(harness.unpacked(harness.viewer()));
  for (const piece of [1000, 4093, 1 << 20]) assert.ok(whole.equals(harness.unpacked(harness.viewer(), piece)), `in pieces of ${piece}`);
});

test("a fresh viewer takes the committed one's place, however the page is quoted", () => {
  const old = { name: "viewer", script: "let a = 1;", module: "b2xk", inSixes: "<<six" };
  const now = { name: "viewer", script: "let a = '$&';", module: "bm$&3", inSixes: "<<s$&x" };
  const packed = ({ script }) => harness.packedData(script);
  for (const quote of ['"', '\\"', "&quot;", "&amp;quot;"]) {
    const page = (pair) => `<script data-script=${quote}${packed(pair)}${quote}>${pair.module} ${pair.module} ${pair.inSixes}</script>`;
    assert.equal(harness.withFreshViewer(page(old), now, old), page(now));
    assert.throws(() => harness.withFreshViewer(page(now), now, old), /does not hold the committed viewer\.js/);
    const other = { ...old, module: "b3Ro", inSixes: "<<sax" };
    assert.throws(() => harness.withFreshViewer(page(other), now, old), /does not hold the committed viewer\.wasm\.lzma/);
  }
  assert.throws(() => harness.withFreshViewer("b2xk", now, old), /does not hold the committed viewer\.js/);
});
