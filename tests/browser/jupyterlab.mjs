// The course as its reader has it: `notebooks/start` opens JupyterLab, figures are alive in it, and lesson 3 goes to a mended race.
//
// Everything is done with the keyboard and the mouse. What JupyterLab would save is kept from it, so the notebooks stay as they are.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import * as harness from "./harness.mjs";

const NOTEBOOKS = join(harness.ROOT, "notebooks");
const SHOTS = join(harness.ROOT, "target/notebooks/jupyterlab");
const SETTLED_MS = 600_000; // a cold cache builds spanlift before JupyterLab opens
const CELL_MS = 60_000;
const RACES = "03_races.ipynb";

let files, chromium, started, context, page;
const asked = [];
const errors = [];
const bytes = () => readdirSync(NOTEBOOKS).filter((name) => name.endsWith(".ipynb")).map((name) => readFileSync(join(NOTEBOOKS, name), "utf8"));
const asTheyWere = bytes();

before(async () => {
  files = harness.scratch();
  rmSync(SHOTS, { recursive: true, force: true });
  mkdirSync(SHOTS, { recursive: true });
  // In the place of the reader's browser: it notes which page it was to open.
  const browser = files.write("browser", `#!/bin/sh\nprintf '%s' "$1" >"${join(files.folder, "page")}"\n`);
  chmodSync(browser, 0o755);
  // Part notebooks has opened the course before, so its build folder is there.
  started = spawn(join(NOTEBOOKS, "start"), [], {
    detached: true,
    env: { ...process.env, BROWSER: browser },
    stdio: ["ignore", "pipe", "pipe"],
  });
  started.said = "";
  for (const pipe of [started.stdout, started.stderr]) pipe.on("data", (words) => (started.said += words));
  const note = join(files.folder, "page");
  await harness.eventually(
    () => {
      assert.equal(started.exitCode, null, `notebooks/start ended: ${started.said}`);
      return existsSync(note) && readFileSync(note, "utf8");
    },
    "notebooks/start opens no browser",
    SETTLED_MS,
  );
  chromium = await harness.browser();
  context = await chromium.context({ viewport: { width: 1400, height: 950 } });
  await context.route(/^(https?|wss?):/, (route) => {
    const url = new URL(route.request().url());
    if (url.hostname !== "localhost" && url.hostname !== "127.0.0.1") {
      asked.push(url.href);
      return route.abort();
    }
    // A save is answered as if it had been one.
    if (url.pathname.includes("/api/workspaces/") && route.request().method() === "PUT") return route.fulfill({ status: 204 });
    if (url.pathname.includes("/api/contents/") && route.request().method() !== "GET") return unsaved(route);
    return route.continue();
  });
  page = await context.newPage();
  page.on("pageerror", (error) => errors.push(String(error)));
  // The page that hands over the address, without what an earlier session left open.
  const handed = readFileSync(new URL(readFileSync(note, "utf8")), "utf8").match(/href="(http[^"]+)"/)[1];
  await page.goto(`${handed.replaceAll("&amp;", "&")}&reset`);
  await page.locator("#jupyterlab-splash").waitFor({ state: "detached" });
});

afterEach(async (one) => {
  if (!one.passed) await shot(`failed-${one.name.slice(0, 20)}`);
});

// JupyterLab ends its kernels, which are groups of their own; also where this test is ended from outside.
const end = () => started && started.exitCode === null && process.kill(-started.pid, "SIGTERM");
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) {
  process.once(signal, () => {
    end();
    process.exit(1);
  });
}

after(async () => {
  await context?.close();
  await chromium?.close();
  if (started && started.exitCode === null) {
    const ended = new Promise((done) => started.once("exit", done));
    end();
    const late = setTimeout(() => process.kill(-started.pid, "SIGKILL"), 20_000);
    await ended;
    clearTimeout(late);
  }
  files?.remove();
});

async function unsaved(route) {
  const { pathname, origin } = new URL(route.request().url());
  if (pathname.endsWith("/checkpoints")) {
    const told = { id: "checkpoint", last_modified: new Date().toISOString() };
    return route.fulfill({ status: 201, contentType: "application/json", body: JSON.stringify(told) });
  }
  const headers = await route.request().allHeaders();
  const model = await context.request.get(`${origin}${pathname}?content=0`, { headers });
  return route.fulfill({ status: 200, contentType: "application/json", body: await model.text() });
}

const shot = (name) => page.screenshot({ path: join(SHOTS, `${name}.png`) });
const notebook = () => page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook");
/** The first cell of code that holds these words. */
const cellWith = (words) => notebook().locator(".jp-CodeCell", { hasText: words }).first();
const number = async (cell) => Number((await cell.locator(".jp-InputPrompt").innerText()).match(/\[(\d+)\]/)?.[1] ?? 0);

/** Selects the first cell once the kernel has started: JupyterLab drops what it is asked to run while one connects. */
async function begin() {
  const bar = page.locator("#jp-main-statusbar");
  await harness.eventually(async () => (await bar.innerText()).includes("Rust | Idle"), "the kernel starts", CELL_MS);
  await notebook().locator(".jp-Cell").first().click();
}

/** Runs the selected cell with the keyboard, waits for its answer and goes on to the next one. */
async function step() {
  const active = notebook().locator(".jp-Cell.jp-mod-active");
  const at = await active.getAttribute("data-windowed-list-index");
  const cell = notebook().locator(`.jp-Cell[data-windowed-list-index="${at}"]`);
  const isCode = (await cell.getAttribute("class")).includes("jp-CodeCell");
  const before = isCode ? await number(cell) : 0;
  await page.keyboard.press("Shift+Enter");
  // The first cell of a kernel builds what is not built yet, which its own guide says takes minutes.
  const patience = at === "1" ? 5 * CELL_MS : CELL_MS;
  if (isCode) await harness.eventually(async () => (await number(cell)) > before, `cell ${at} answers`, patience);
  return cell;
}

/** Steps until the cell with these words has run. */
async function stepTo(words) {
  for (;;) {
    const cell = await step();
    if ((await cell.getAttribute("class")).includes("jp-CodeCell") && (await cell.innerText()).includes(words)) return cell;
  }
}

/** Every output of a cell shows once: one figure, alive where it has a viewer, its picture loaded. */
async function figuresAlive(cell, n) {
  const figures = cell.locator(".jp-OutputArea-output:has(img), .jp-OutputArea-output:has(svg)");
  assert.equal(await figures.count(), n, "each figure shows once");
  for (let k = 0; k < n; k += 1) {
    const figure = figures.nth(k);
    assert.equal(await figure.locator("img").count(), 1, "one picture");
    assert.ok(await figure.locator("img").evaluate((img) => img.decode().then(() => img.naturalWidth > 100)), "the picture is broken");
    if (!(await figure.locator("iframe[srcdoc]").count())) continue;
    const frame = await harness.frameIn(figure.locator("iframe[srcdoc]"));
    const canvas = await harness.ready(frame);
    assert.ok((await harness.painted(canvas)) > 500, "the viewer shows nothing");
  }
  return figures;
}

test("the first lesson opens and its published pictures are there before anything runs", async () => {
  await notebook().locator(".jp-Cell").first().waitFor();
  assert.match(await page.title(), /^01_streams/);
  const pictures = notebook().locator(".jp-OutputArea-output svg, .jp-OutputArea-output img");
  await harness.eventually(async () => (await pictures.count()) >= 5, "the published copy shows its pictures");
  await pictures.first().scrollIntoViewIfNeeded();
  await shot("1-opened");
});

test("a figure is alive, follows keys and mouse, and its slider simulates again without the kernel", async () => {
  await begin();
  const cell = await stepTo("p.show()");
  const [figure] = await (await figuresAlive(cell, 1)).all();
  const frame = await harness.frameIn(figure.locator("iframe[srcdoc]"));
  const canvas = await harness.ready(frame);
  const before = await harness.look(canvas);
  await canvas.click({ position: { x: 300, y: 60 } });
  await page.keyboard.press("w");
  await harness.eventually(async () => (await harness.look(canvas)) !== before, "W zooms");
  await shot("2-figure");
  const ask = frame.locator(".sl-if").first();
  await ask.locator("summary").click();
  const then = ask.locator(".sl-then");
  const words = await then.innerText();
  await ask.locator("[name=link]").focus();
  await page.keyboard.press("ArrowLeft");
  await harness.eventually(async () => (await then.innerText()) !== words, "the slider simulates again");
  assert.match(await then.innerText(), /^now 147\.8\sµs, then .* lost/);
  await shot("3-slider");
});

test("lesson 3: from the file list to the mended race", async () => {
  await page.locator(".jp-DirListing-item", { hasText: RACES }).dblclick();
  await harness.eventually(async () => (await page.title()).startsWith("03_races"), "lesson 3 opens");
  await begin();
  const explained = await stepTo("explain(&early");
  await figuresAlive(explained, 1);
  await shot("4-explained");
  const exercise = await stepTo("check_read_back(");
  const answer = exercise.locator(".jp-OutputArea-output");
  assert.match(await answer.innerText(), /^not yet: 1 hazard by CUDA's documentation/);
  // What does not help is seen not to: a sleep.
  await instead(exercise, "# your line here", "sleep   5ms");
  assert.match(await answer.innerText(), /^not yet: 1 hazard/);
  await shot("5-not-yet");
  await instead(exercise, "sleep   5ms", "sync    s");
  assert.match(await answer.innerText(), /^right: /);
  await shot("6-mended");
});

/** Puts another text in the place of a line of a cell, as one does by hand, and runs the cell. */
async function instead(cell, line, text) {
  await cell.locator(".cm-line", { hasText: line }).click();
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+End");
  await page.keyboard.type(text);
  const before = await number(cell);
  await page.keyboard.press("Shift+Enter");
  await harness.eventually(async () => (await number(cell)) > before, "the edited cell answers", CELL_MS);
}

test("a figure that is broken is seen to be", async () => {
  const at = await cellWith("let sleepy").getAttribute("data-windowed-list-index");
  const next = notebook().locator(`.jp-Cell[data-windowed-list-index="${at}"]`);
  const planted = (body) => `println!("EVCXR_BEGIN_CONTENT text/html\\n${body}\\nEVCXR_END_CONTENT");`;
  const picture = "<img src='data:image/svg+xml,<svg/>'>";
  const frame = "<iframe sandbox='allow-scripts' srcdoc='<p data-error=planted>'></iframe>";
  for (const [body, expected] of [
    [picture, /decode|broken/],
    [`<p>${picture}</p>${picture}`, /one picture/],
    [`<img src='data:image/svg+xml,<svg xmlns=%22http://www.w3.org/2000/svg%22 width=%22200%22 height=%2220%22/>'>${frame}`, /planted/],
  ]) {
    await next.locator(".cm-content").click();
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText(planted(body));
    const before = await number(next);
    await page.keyboard.press("Shift+Enter");
    await harness.eventually(async () => (await number(next)) > before, "the planted cell answers", CELL_MS);
    await assert.rejects(figuresAlive(next, 1), expected);
  }
});

test("nothing was fetched, nothing failed, and the notebooks are as they were", () => {
  assert.deepEqual(asked, []);
  assert.deepEqual(errors, []);
  assert.ok(bytes().every((text, k) => text === asTheyWere[k]), "a notebook was written");
});
