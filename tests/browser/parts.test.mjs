// The module comes in two parts: what shows traces, snapshots and layouts, and what is brought when something else is asked for.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import * as harness from "./harness.mjs";

const event = (cat, name, tid, ts, dur, args) => ({ ph: "X", cat, name, pid: 0, tid, ts, dur, args });
const RECORDED = JSON.stringify({
  traceEvents: [
    event("cuda_runtime", "cudaMemcpyAsync", 1, 0, 5, { correlation: 1 }),
    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, 10, 90, { device: 0, stream: 7, correlation: 1, bytes: 4_000_000 }),
  ],
});
/** More slices than are looked through without being asked. */
const many = () => {
  const host = Array.from({ length: 100_001 }, (_, k) => event("cpu_op", "aten::to", 1, 100 + k, 1, {}));
  return JSON.stringify({ traceEvents: [...JSON.parse(RECORDED).traceEvents, ...host] });
};
const LAYOUT = JSON.stringify({
  storages: [{ id: "w", device: "cpu", bytes: 80 }],
  tensors: [{ name: "a", storage: "w", dtype: "f32", shape: [2, 2], strides: [4, 1] }],
});

const room = harness.room();
const pages = {};

before(async () => {
  const programs = join(harness.ROOT, "native/programs");
  const trace = room.files.write("trace.json", RECORDED);
  const program = join(programs, "strategy-b.txt");
  pages.trace = await harness.viewed(room.files, "trace.html", trace);
  pages.large = await harness.viewed(room.files, "large.html", room.files.write("large.json", many()));
  pages.layout = await harness.viewed(room.files, "layout.html", room.files.write("layout.json", LAYOUT), "--to", "cuda:0");
  pages.program = await harness.viewed(room.files, "program.html", program);
  const own = join(room.files.folder, "own.json");
  await harness.spanlift("run", program, "--trace", own);
  pages.own = await harness.viewed(room.files, "own.html", own);
  pages.both = await harness.viewed(room.files, "both.html", trace, program);
});

const says = (locator, pattern) => harness.eventually(async () => pattern.test(await harness.words(locator)), String(pattern));
const file = (name, contents) => ({ name, mimeType: "application/octet-stream", buffer: Buffer.from(contents) });

/** Notes in a page how many parts are there. */
const counting = () => {
  const { Instance, instantiate } = WebAssembly;
  globalThis.parts = 0;
  WebAssembly.Instance = class extends Instance {
    constructor(...of) {
      super(...of);
      globalThis.parts += 1;
    }
  };
  WebAssembly.instantiate = (...of) => {
    globalThis.parts += 1;
    return instantiate.apply(WebAssembly, of);
  };
};

/** Opens a page in which the parts are counted. */
const open = async (path) => {
  const visit = await room.browser.open(path, { script: counting });
  return { ...visit, parts: () => visit.page.evaluate(() => globalThis.parts) };
};

test("large traces and layouts are shown, and looked at, with the first part alone; what if brings the second", async () => {
  for (const path of [pages.large, pages.layout]) {
    const visit = await open(path);
    const canvas = await harness.ready(visit.page);
    await visit.page.locator(".sl-plot").focus();
    const { width, height } = await canvas.boundingBox();
    for (const y of [0.1, 0.3, 0.5, 0.7]) {
      await harness.click(canvas, width * 0.5, height * y);
      for (const key of ["w", "d", "ArrowRight", "f", "0", "m", "/", "Escape"]) await visit.page.keyboard.press(key);
    }
    await visit.page.waitForTimeout(500);
    assert.equal(await visit.parts(), 1, path);
    if (path === pages.large) {
      await visit.page.locator(".sl-plot").focus();
      await visit.page.keyboard.press("i");
      await says(visit.page.locator(".sl-then").first(), /the error of the model/);
      assert.equal(await visit.parts(), 2);
    }
    await visit.close();
  }
});

test("findings bring the second part: of a trace that is not large by themselves, behind its first picture", async () => {
  const visit = await open(pages.trace);
  await harness.ready(visit.page);
  await says(visit.page.locator(".sl-advice"), /^FINDINGS 1\s+no win by this model/);
  assert.equal(await visit.parts(), 2);
  await visit.close();
  const large = await open(pages.large);
  await harness.ready(large.page);
  const panel = large.page.locator(".sl-advice");
  await harness.eventually(() => panel.isVisible(), "a recording has no findings");
  await large.page.waitForTimeout(2500);
  assert.equal(await large.parts(), 1);
  await panel.locator("summary").first().click();
  await says(panel, /^FINDINGS 1\s+no win by this model/);
  assert.equal(await large.parts(), 2);
  await large.close();
});

test("a program needs both, and so does a trace that has one, and each comes once", async () => {
  for (const path of [pages.program, pages.own]) {
    const visit = await open(path);
    await harness.ready(visit.page);
    assert.equal(await visit.parts(), 2, path);
    await visit.page.locator(".sl-files").setInputFiles([file("p.txt", harness.RACE)]);
    await says(visit.page.locator(".sl-name"), /p\.txt/);
    assert.equal(await visit.parts(), 2, path);
    await visit.close();
  }
});

test("a frame that may only run scripts, as a cell of a notebook has, brings the second part too", async () => {
  // What the driver puts into such a frame may come behind the page's own scripts: this comes before them.
  const counted = readFileSync(pages.trace, "utf8").replace("<head>", `<head><script>(${counting})()</script>`);
  const inside = counted.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  const html = `<!doctype html><iframe sandbox="allow-scripts" style="width:1100px;height:700px" srcdoc="${inside}"></iframe>`;
  const visit = await room.browser.open(room.files.write("frame.html", html));
  const frame = await harness.frameIn(visit.page.locator("iframe"));
  await harness.ready(frame);
  await frame.locator(".sl-plot").focus();
  await visit.page.keyboard.press("i");
  await says(frame.locator(".sl-then").first(), /the error of the model/);
  assert.equal(await frame.evaluate(() => globalThis.parts), 2);
  await visit.close();
});

test("a worker that reads a large trace with a program brings the second part for itself", async () => {
  const copies = "copy d <- x on s\n".repeat(3000);
  const program = room.files.write("long.txt", `stream s\npinned x 4KiB\ndevice d 4KiB\n${copies}sync s\n`);
  const long = join(room.files.folder, "long.json");
  await harness.spanlift("run", program, "--machine", "h200-pcie5", "--trace", long);
  // With its events at the beginning, by which the page knows a trace.
  const { traceEvents, ...rest } = JSON.parse(readFileSync(long, "utf8"));
  const text = JSON.stringify({ traceEvents, ...rest });
  assert.ok(text.length > 1 << 20, "it is read by the page itself");
  const visit = await open(pages.trace);
  await harness.ready(visit.page);
  await visit.page.evaluate(() => {
    const { postMessage } = Worker.prototype;
    Worker.prototype.postMessage = function (...sent) {
      this.addEventListener("message", ({ data }) => (globalThis.made ??= data.made?.length));
      return postMessage.apply(this, sent);
    };
  });
  await visit.page.locator(".sl-files").setInputFiles([file("long.json", text)]);
  await says(visit.page.locator(".sl-name"), /long\.json/);
  assert.equal(await visit.page.locator(".sl-refused").isVisible(), false);
  assert.ok((await visit.page.evaluate(() => globalThis.made)) > 10_000, "the page read the file itself");
  assert.equal(await visit.parts(), 2);
  await visit.close();
});

/** A page whose module is damaged where `part` of it is behind, be it in bytes. */
const damaged = (path, part) => {
  const html = readFileSync(path, "utf8");
  const pair = harness.viewer();
  const bytes = Buffer.from(harness.packed(pair));
  const at = Math.floor(part > 1 ? part : bytes.length * part);
  bytes.fill(0xa5, at, at + 9);
  assert.ok(html.includes(pair.inSixes));
  return room.files.write("damaged.html", html.replace(pair.inSixes, () => harness.writtenInSixes(bytes)));
};
const DAMAGED = /a part of this page is damaged, or this browser refuses it: [^\n]+$/m;

test("where the second part is damaged, what needs it says so, and all else goes on", async () => {
  const visit = await open(damaged(pages.both, 0.9));
  const canvas = await harness.ready(visit.page);
  const moves = async () => {
    const before = await harness.look(canvas);
    await visit.page.locator(".sl-plot").focus();
    for (const key of ["w", "d"]) await visit.page.keyboard.press(key);
    await harness.eventually(async () => (await harness.look(canvas)) !== before, "the picture does not move");
    await visit.page.keyboard.press("0");
  };
  await moves();
  const items = visit.page.locator("button[data-item]");
  // A program that the page holds, one that is opened, and a change to what is shown.
  await items.nth(1).click();
  await says(visit.page.locator(".sl-error").first(), DAMAGED);
  await items.nth(0).click();
  await moves();
  await visit.page.locator(".sl-files").setInputFiles([file("p.txt", harness.RACE)]);
  await says(visit.page.locator(".sl-refused"), DAMAGED);
  await moves();
  await visit.page.keyboard.press("i");
  await says(visit.page.locator(".sl-then").first(), DAMAGED);
  await moves();
  assert.equal(await visit.parts(), 1);
  await visit.close();
});

test("where the first part is damaged, the page says that it cannot start", async () => {
  // At its beginning stands how long the first part is.
  for (const place of [0.3, 16, 20, 24]) {
    const visit = await room.browser.open(damaged(pages.trace, place));
    await says(visit.page.locator(".sl-error"), /^The interactive view cannot start: /);
    await visit.close();
  }
});
