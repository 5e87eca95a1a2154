// Opens the pages that the executed notebooks became: every figure in them must be alive, and nothing may fetch.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as harness from "./harness.mjs";

const PAGES = join(harness.ROOT, "target/notebooks");
// what nbconvert's own frame of a page asks for, and does without
const OF_NBCONVERT = [/\/require(\.min)?\.js$/, /[/]mathjax/i];

const notebooks = existsSync(PAGES) ? readdirSync(PAGES).filter((name) => name.endsWith(".ipynb")) : [];

let chromium;
if (notebooks.length) {
  // without a test the hooks would start the browser and never end it
  before(async () => (chromium = await harness.browser()));
  after(async () => chromium?.close());
}

/** Frames in which something is seen; the one more has the viewer that they share. */
const SEEN = "iframe[srcdoc]:not([aria-hidden])";

/** How many outputs of the executed notebook hold a frame, but for the one with the viewer that they share. */
function countFrames(name) {
  const { cells } = JSON.parse(readFileSync(join(PAGES, name), "utf8"));
  const html = cells.flatMap((cell) => cell.outputs ?? []).map((output) => [output.data?.["text/html"] ?? ""].flat().join(""));
  const frames = html.flatMap((text) => text.match(/<iframe\b[^>]*?srcdoc=/g) ?? []);
  return frames.filter((frame) => !frame.includes("aria-hidden")).length;
}

/** A slider inside an output changes the machine, and the page simulates the program again: there is no kernel here. */
async function resimulated(frames) {
  const frame = await harness.frameIn(frames.first());
  await harness.ready(frame);
  // The first viewer's: what a change leads to is shown in a second one below it.
  const ask = frame.locator(".sl-if").first();
  await ask.locator("summary").click();
  const then = ask.locator(".sl-then");
  const moved = async (name, value) => {
    const words = await then.innerText();
    await ask.locator(`[name=${name}]`).evaluate((slider, to) => {
      slider.value = to;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    }, value);
    return harness.eventually(async () => {
      const now = await then.innerText();
      return now !== words && now;
    }, `${name} simulated again`);
  };
  // Half the rate of the link: slower; eight times: faster.
  assert.match(await moved("link", "-1"), /^now 147\.8\sµs, then .* lost/);
  assert.match(await moved("link", "3"), /^now 147\.8\sµs, then .* saved/);
  // Another machine, its link as much faster: other times again.
  assert.match(await moved("machine", "tutorial-ci"), /^now 147\.8\sµs, then .* saved/);
}

for (const name of notebooks) {
  test(`the figures of ${name} are alive`, async () => {
    const path = join(PAGES, name.replace(/ipynb$/, "html"));
    const page = readFileSync(path, "utf8");
    if (harness.holdsCommittedViewer(page)) writeFileSync(path, harness.withFreshViewer(page));
    const visit = await chromium.open(path);
    const frames = visit.page.locator(SEEN);
    assert.equal(await visit.page.locator("iframe[srcdoc][aria-hidden]").count(), 1, "one output has the viewer of all");
    assert.equal(await frames.count(), countFrames(name), "a frame was lost on the way to the page");
    for (let i = 0; i < (await frames.count()); i += 1) {
      const canvas = await harness.ready(await harness.frameIn(frames.nth(i)));
      assert.ok((await harness.painted(canvas)) > 500, `figure ${i} shows nothing`);
    }
    if (name.startsWith("01_")) await resimulated(frames);
    const pictures = visit.page.locator(".jp-OutputArea-output img");
    for (let i = 0; i < (await pictures.count()); i += 1) {
      assert.ok(await pictures.nth(i).evaluate((img) => img.naturalWidth > 0), `picture ${i} is broken`);
    }
    await visit.page.screenshot({ path: join(PAGES, name.replace(/ipynb$/, "png")), fullPage: true });
    await visit.close({ knownRequests: OF_NBCONVERT });
  });
}
