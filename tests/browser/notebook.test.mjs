// Outputs of one notebook: one carries the viewer, and the others ask for it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { promisify } from "node:util";
import * as harness from "./harness.mjs";

const room = harness.room();
const outputs = {};

before(async () => {
  const made = join(room.files.folder, "made.html");
  await promisify(execFile)("cargo", ["build", "-q", "--workspace", "--example", "notebook"], { cwd: harness.ROOT });
  await promisify(execFile)(join(harness.ROOT, "target/debug/examples/notebook"), [made], { cwd: harness.ROOT });
  outputs.page = readFileSync(made, "utf8");
  [outputs.asks, outputs.carrier, outputs.asksToo, outputs.whole] = outputs.page.match(/<section>.*?<\/section>/gs);
});

/** Notes in a frame what it is sent. */
const noting = () => {
  globalThis.told = {};
  addEventListener("message", ({ data }) => (globalThis.told[data?.spanlift] = (globalThis.told[data?.spanlift] ?? 0) + 1));
};
/** An output whose frame does so; what the driver puts into such a frame may come behind the page's own scripts. */
const noted = (output) => output.replace("<head>", () => `<head><script>(${noting})()</script>`.replaceAll("&", "&amp;").replaceAll('"', "&quot;"));
/** Opens a page of outputs. */
const open = (name, ...parts) =>
  room.browser.open(room.files.write(name, `<!doctype html><title>outputs</title>${parts.map(noted).join("\n")}`));
const frames = (visit) => visit.page.locator("iframe[srcdoc]");
const alive = async (visit, k) => {
  const frame = await harness.frameIn(frames(visit).nth(k));
  assert.ok((await harness.painted(await harness.ready(frame))) > 500, `figure ${k} shows nothing`);
  return frame;
};
const append = (visit, output) => visit.page.evaluate((html) => document.body.insertAdjacentHTML("beforeend", html), output);

test("figures above and below the cell that has the viewer are alive, and none but it is large", async () => {
  const sizes = [outputs.asks, outputs.asksToo, outputs.carrier].map((output) => output.length);
  assert.ok(sizes[0] < 100_000 && sizes[1] < 40_000 && sizes[2] < 1_000_000, String(sizes));
  const visit = await open("outputs.html", outputs.asks, outputs.carrier, outputs.asksToo);
  for (const k of [0, 2]) {
    const frame = await alive(visit, k);
    assert.equal(await frame.evaluate(() => globalThis.told.pair), 1, "the megabyte came once");
    assert.equal(await frame.locator(".spanlift-waiting").count(), 0);
  }
  const carrier = await frames(visit).nth(1).boundingBox();
  assert.ok(carrier.width <= 1 && carrier.height <= 1, "the frame that has it is not seen");
  await visit.close();
});

test("who has been given the viewer gives it on, after the cell that had it is gone", async () => {
  const visit = await open("given-on.html", outputs.carrier, outputs.asks);
  await alive(visit, 1);
  await visit.page.locator("section").first().evaluate((section) => section.remove());
  await append(visit, outputs.asksToo);
  await alive(visit, 1);
  await visit.close();
});

test("a figure that carries its own viewer lends it", async () => {
  const visit = await open("lent.html", outputs.asks, outputs.whole);
  await alive(visit, 0);
  await visit.close();
});

test("without the cell a figure is its picture and says what to do; another version's viewer is none; a late one is taken", async () => {
  const key = /data-key=&quot;([0-9a-f]{16})&quot;/.exec(outputs.carrier)[1];
  const other = outputs.carrier.replaceAll(key, "0".repeat(16));
  const visit = await open("late.html", other, outputs.asks);
  const frame = await harness.frameIn(frames(visit).nth(1));
  const line = frame.locator(".spanlift-waiting");
  assert.equal(await line.isVisible(), false);
  await harness.eventually(() => line.isVisible(), "the figure says what to do");
  assert.match(await line.innerText(), /^Run the cell that shows notebook\(\)/);
  const picture = visit.page.locator("section img");
  assert.ok(await picture.evaluate((img) => img.decode().then(() => img.naturalWidth > 100)), "the picture is there");
  assert.equal(await frame.locator("[data-ready]").count(), 0);
  await append(visit, outputs.carrier);
  await alive(visit, 1);
  assert.equal(await line.count(), 0);
  await visit.close();
});
