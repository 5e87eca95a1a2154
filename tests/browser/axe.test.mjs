// axe looks at the pages in light and dark, at every state that people come to: what is only there for a moment, such as
// the bytes of a copy while it runs, has to be readable too.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import * as harness from "./harness.mjs";

const { RACE, SLOW } = harness;
const LAYOUT = {
  storages: [{ id: "w", device: "cpu", bytes: 2400 }, { id: "there", device: "cuda:0", bytes: 400 }],
  tensors: [
    { name: "matrix", storage: "w", dtype: "f32", shape: [20, 20], strides: [20, 1], offset: 0 },
    { name: "column", storage: "w", dtype: "f32", shape: [20], strides: [20], offset: 7 },
    { name: "stays", storage: "there", dtype: "f32", shape: [100], strides: [1], offset: 0 },
  ],
};
const RECORDED = {
  schemaVersion: 1,
  traceEvents: [0, 200, 400].flatMap((ts, k) => [
    { ph: "X", cat: "cuda_runtime", name: "cudaMemcpyAsync", pid: 1, tid: 1, ts, dur: 100, args: { correlation: k } },
    {
      ph: "X", cat: "gpu_memcpy", name: `Memcpy HtoD (${k % 2 ? "Pinned" : "Pageable"} -> Device)`, pid: 0, tid: 7, ts: ts + 10, dur: 90,
      args: { device: 0, stream: 7, correlation: k, bytes: 4_000_000 },
    },
  ]),
};

const room = harness.room();
let slow, race, layout, recorded;

before(async () => {
  const viewed = (name, text, ...more) => harness.viewed(room.files, `${name}.html`, room.files.write(name, text), ...more);
  slow = await viewed("slow.txt", SLOW);
  race = await viewed("race.txt", RACE);
  layout = await viewed("layout.json", JSON.stringify(LAYOUT), "--to", "cuda:0");
  recorded = await viewed("run.json", JSON.stringify(RECORDED));
});

/** Opens a page in light and in dark, and lets `walk` lead through it: `look` is axe's look at what is there now. */
async function inBoth(path, walk) {
  const axe = readFileSync(join(process.env.SPANLIFT_NODE_MODULES, "axe-core/axe.min.js"), "utf8");
  for (const colorScheme of ["light", "dark"]) {
    const visit = await room.browser.open(path, { colorScheme, width: 1024, height: 768 });
    const { page } = visit;
    const canvas = await harness.ready(page);
    await page.evaluate(axe);
    const look = async (what) => {
      const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      const told = found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target} ${n.failureSummary}`).join("; ")}`);
      assert.deepEqual(told, [], `${what} in ${colorScheme}`);
      if (process.env.SPANLIFT_PICTURES) await page.screenshot({ path: join(process.env.SPANLIFT_PICTURES, `${what}-${colorScheme}.png`) });
    };
    const says = (selector, pattern) => harness.eventually(async () => pattern.test(await harness.words(page.locator(selector).first())), `${selector}: ${pattern}`);
    const sees = (selector) => harness.eventually(() => page.locator(selector).first().isVisible(), `no ${selector}`);
    /** One call after the other, each looked at once it is on screen. */
    const steps = async (what) => {
      await page.locator("[data-step=first]").click();
      await says(".sl-steps", /\b1 of/);
      const [, calls] = /1 of (\d+) calls/.exec(await page.locator(".sl-steps").innerText());
      await sees("[data-state]");
      await look(`${what}-1`);
      for (let call = 2; call <= Number(calls); call += 1) {
        await page.locator("[data-step=']']").click();
        await says(".sl-steps", new RegExp(`\\b${call} of`));
        await look(`${what}-${call}`);
      }
    };
    await walk({ page, canvas, look, says, sees, steps });
    await visit.close();
  }
}

test("axe finds nothing in a program, whatever is open", () =>
  inBoth(slow, async ({ page, look, sees, steps }) => {
    await look("opened");
    await page.keyboard.press("?");
    await sees(".sl-keys");
    await look("keys");
    await page.keyboard.press("Escape");
    for (const key of ["ArrowRight", "r", "m"]) await page.keyboard.press(key);
    await sees("[data-totals]");
    await sees(".sl-marks");
    await look("tools");
    await steps("call");
    await page.keyboard.press("i");
    await page.keyboard.press("Space");
    await sees(".sl-beside");
    await look("what-if");
    await page.locator(".sl-plot").first().focus();
    await page.keyboard.press("e");
    await page.locator(".sl-source").first().fill("copy");
    await sees(".sl-wrong");
    await look("editor");
  }));

test("axe finds nothing where a finding is shown, call by call, and in another language", () =>
  inBoth(race, async ({ page, look, says, sees, steps }) => {
    await page.locator(".sl-findings button").first().click();
    await sees(".sl-line.is-second");
    await look("finding");
    await page.locator(".sl-line").last().hover();
    await look("hovered");
    await steps("race-call");
    await page.locator(".sl-as").selectOption({ label: "PyTorch" });
    await says(".sl-code", /torch/);
    await look("pytorch");
  }));

test("axe finds nothing in a map of memory, with a tensor chosen", () =>
  inBoth(layout, async ({ page, canvas, look }) => {
    await look("layout");
    await page.locator(".sl-plot").focus();
    await page.keyboard.press("ArrowDown");
    await harness.eventually(() => canvas.getAttribute("data-tensor"), "nothing is selected");
    await look("tensor");
  }));

test("axe finds nothing in a recording that is searched, measured and run again", () =>
  inBoth(recorded, async ({ page, look, says, sees }) => {
    await page.locator(".sl-search").fill("kind:h2d pinned:no");
    await says(".sl-hits", /2 found/);
    await page.keyboard.press("Enter");
    await says(".sl-hits", /1 of 2/);
    await look("hit");
    await page.locator(".sl-search").fill("(");
    await says(".sl-hits", /group/i);
    await look("no-search");
    await page.locator(".sl-search").fill("");
    await page.locator(".sl-plot").focus();
    await page.keyboard.press("r");
    await sees("[data-totals]");
    await look("range");
    await page.keyboard.press("i");
    await says(".sl-then", /recorded/);
    await look("run-again");
    await page.locator(".sl-files").setInputFiles([{ name: "bad.json", mimeType: "application/octet-stream", buffer: Buffer.from("{") }]);
    await sees(".sl-refused");
    await look("refused");
  }));

test("what has the focus is seen, wherever the keys have taken it, light and dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const visit = await room.browser.open(await harness.viewed(room.files, `focus-${colorScheme}.html`, room.files.write("race.txt", RACE)), { colorScheme });
    await harness.ready(visit.page);
    await visit.page.locator(".sl-if").first().evaluate((part) => (part.open = true));
    const seen = [];
    for (;;) {
      await visit.page.keyboard.press("Tab");
      const at = await visit.page.evaluate(() => {
        const { activeElement: element } = document;
        if (element === document.body || element.dataset.tabbed) return null;
        element.dataset.tabbed = "1";
        const { x, y, width, height } = element.getBoundingClientRect();
        const [left, top] = [Math.max(0, x - 5), Math.max(0, y - 5)];
        const clip = { x: left, y: top, width: Math.min(innerWidth, x + width + 5) - left, height: Math.min(innerHeight, y + height + 5) - top };
        return { clip, name: element.ariaLabel || element.name || element.textContent.slice(0, 40), edge: 2 * (width + Math.min(height, innerHeight - y)) };
      });
      if (!at) break;
      const shot = async () => (await visit.page.screenshot({ clip: at.clip, caret: "hide" })).toString("base64");
      const focused = await shot();
      // As it looks without, and nothing else moves.
      const ring = (color) => visit.page.evaluate((color) => document.activeElement.style.setProperty("outline-color", color, color && "important"), color);
      await ring("transparent");
      const plain = await shot();
      await ring("");
      const differ = await visit.page.evaluate(async (shots) => {
        const [a, b] = await Promise.all(
          shots.map(async (shot) => {
            const image = new Image();
            image.src = `data:image/png;base64,${shot}`;
            await image.decode();
            const pen = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
            pen.drawImage(image, 0, 0);
            return pen.getImageData(0, 0, image.width, image.height).data;
          }),
        );
        let n = 0;
        for (let i = 0; i < a.length; i += 4) if (Math.max(...[0, 1, 2].map((c) => Math.abs(a[i + c] - b[i + c]))) > 70) n += 1;
        return n;
      }, [focused, plain]);
      assert.ok(differ > 0.6 * at.edge, `${at.name}: ${differ} pixels of a ring around ${at.edge}, ${colorScheme}`);
      seen.push(at.name);
    }
    assert.ok(seen.length > 20 && seen.includes("contract") && seen.some((name) => name.startsWith("part of the trace")), seen.join());
    await visit.close();
  }
});
