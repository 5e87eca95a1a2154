// The course's page: every cell runs, every solution is judged right and no exercise is before it is solved; nothing is fetched.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as harness from "./harness.mjs";

const FOLDER = join(harness.ROOT, "notebooks");
const LESSONS = ["01_streams_and_events", "02_memory_maps", "03_races", "04_pageable_and_pinned", "05_strategies", "06_operators", "07_to_device"];
// The whole pipeline is there to be looked at, and right as it stands.
const RIGHT_AS_IT_STANDS = ["l3-c28"];

/** Answers by the cell's name in the page: those written for it, else the program in the notebook's solution. */
function solutions() {
  const found = new Map();
  LESSONS.forEach((name, k) => {
    for (const part of readFileSync(join(FOLDER, "solutions", `${name}.rs`), "utf8").split("\n// cell ").slice(1)) {
      const raw = part.match(/r#"([^]*?)"#/);
      if (raw) found.set(`l${k + 1}-${part.split(":")[0]}`, raw[1]);
    }
    for (const part of readFileSync(join(FOLDER, "page", `${name}.txt`), "utf8").split("\n%% ").slice(1)) {
      const [head, ...lines] = part.split("\n");
      const [id, verb] = head.split(" ");
      if (verb === "solved") found.set(`l${k + 1}-${id}`, lines.join("\n"));
    }
  });
  return found;
}

let chromium, files, path;
before(async () => {
  chromium = await harness.browser();
  files = harness.scratch();
  path = join(files.folder, "course.html");
  await harness.spanlift("course", "-o", path);
  writeFileSync(path, harness.withFreshViewer(readFileSync(path, "utf8"), harness.viewer("course")));
});
after(async () => {
  await chromium?.close();
  files?.remove();
});

/** Runs a cell, with another text where one is given; gives its verdict and words. */
async function run(page, id, text) {
  const cell = page.locator(`#${id}`);
  const ran = Number((await cell.getAttribute("data-ran")) ?? 0);
  if (text !== undefined) await cell.locator("> textarea").fill(text);
  // By key: above it a viewer may take its place just then, and a click that begins on the button would end beside it.
  await cell.locator("> .bar .run").press("Enter");
  await harness.eventually(async () => Number(await cell.getAttribute("data-ran")) > ran, `${id} ran`);
  return { verdict: await cell.getAttribute("data-verdict"), words: await cell.locator(".out > pre").innerText() };
}

test("every cell runs and shows a picture where its notebook does", async () => {
  const visit = await chromium.open(path);
  await visit.page.locator("body[data-ready]").waitFor();
  const ids = await visit.page.locator(".cell[data-verb]").evaluateAll((cells) => cells.map((cell) => cell.id));
  assert.ok(ids.length > 60, `${ids.length} cells`);
  for (const id of ids) {
    const { verdict, words } = await run(visit.page, id);
    assert.notEqual(verdict, "error", `${id}: ${words}`);
    assert.ok(words.trim(), `${id} says nothing`);
  }
  // A timeline is a viewer that paints, a chart a picture that loads.
  const canvas = await harness.ready(visit.page.locator("#l1-c03"));
  assert.ok((await harness.painted(canvas)) > 500, "the timeline shows nothing");
  const pictures = visit.page.locator(".out > img");
  assert.ok((await pictures.count()) >= 15, "pictures");
  for (let k = 0; k < (await pictures.count()); k += 1) {
    assert.ok(await pictures.nth(k).evaluate((img) => img.decode().then(() => img.naturalWidth > 100)), `picture ${k}`);
  }
  await visit.close();
});

/** What the module in the page says of operators is what the notebooks' published copies say, and its pictures are there. */
test("operators are planned, simulated and solved in the page", async () => {
  const visit = await chromium.open(path, { width: 1024 });
  const { page } = visit;
  await page.locator("body[data-ready]").waitFor();
  const said = async (id, ...parts) => {
    const { words } = await run(page, id);
    for (const part of parts) assert.ok(words.includes(part), `${id}: ${part} is not in ${words}`);
  };
  await said("l6-c03", "y,x: 48 x 48, from 0 to 1");
  await said("l6-c07", "Select(ky) · F(y,x) · C · Repeat(coil) : c64[y,x]@cpu -> c64[coil,line,kx]@cpu");
  await said("l6-c13", "4 transfers, 132.00 KiB", "cuda:1               210.00 KiB weights 72.00 KiB, between 138.00 KiB");
  await said("l6-c17", "51 commands on tutorial-ci: 116.1 µs, safe");
  await said("l6-c21", "line 8, column 8: `F(y,x)` cannot be cut along `x`");
  await said("l6-c27", "Converged, relative residual below 1e-6: true", "adjoint alone: 48 x 48, from 0 to 1.523", "conjugate gradients: 48 x 48, from 0 to 1.002");
  await said("l6-c29", "each step  cuda:0 -> cuda:1 36.00 KiB  cuda:1 -> cuda:0 36.00 KiB");
  await said("l7-c09", "normal   4 transfers  16.00 MiB  cpu -> cuda:0 -> cuda:1 -> cuda:0 -> cpu");
  await said("l7-c15", "by contract order, race");
  await said("l7-c24", "24 transfers", "simulated: time 535.81 us");
  for (const id of ["l6-c03", "l6-c13", "l6-c27", "l7-c09", "l7-c24"]) {
    const img = page.locator(`#${id} .out > img`);
    assert.ok(await img.evaluate((img) => img.decode().then(() => img.naturalWidth > 100)), `${id} has no picture`);
  }
  assert.ok((await harness.painted(await harness.ready(page.locator("#l6-c17")))) > 500, "the timeline shows nothing");
  await visit.close();
});

test("an operator is mended with the keyboard alone, and an error has a band behind its line", async () => {
  const visit = await chromium.open(path, { width: 1024 });
  const { page } = visit;
  await page.locator("body[data-ready]").waitFor();
  const cell = page.locator("#l6-c11");
  const text = cell.locator("> textarea");
  const band = () => text.evaluate((area) => getComputedStyle(area).backgroundImage);
  const before = await text.inputValue();
  await text.focus();
  await page.keyboard.press("Shift+Enter");
  await harness.eventually(async () => (await cell.getAttribute("data-verdict")) === "not-yet", "judged");
  const words = () => cell.locator(".out > pre").innerText();
  const [, line] = /^not yet: line (\d+), column 6: `C` expects .* insert `to\(cuda:0\)` between them$/.exec(await words());
  assert.equal(before.split("\n")[line - 1].trim(), "-> C.on(cuda:0)");
  assert.match(await band(), /gradient/);
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(before.replace("  -> C.on", "  -> to(cuda:0)\n  -> C.on"));
  assert.equal(await band(), "none");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await harness.eventually(async () => (await cell.getAttribute("data-verdict")) === "right", "right");
  assert.match(await words(), /^right: 2 transfers, no hazard/);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await text.inputValue(), before);
  assert.ok(await text.evaluate((area) => area === document.activeElement), "the text has the focus again");
  // What nobody understands, and what would take too long, is an answer.
  for (const [typed, told] of [
    ["operator\nA = <img src=x onerror=alert(1)>", /^not yet: line 2, column 5: .*found|^not yet: line 2, column \d+: character/],
    ["operator\nA = diagonal(c64[coil=4, y=512, x=1024], coils)", /^not yet: line 2, column \d+: 2097152 values here make more/],
    ["operator\nA = fft(y, x).over(c64[b=64, y=512, x=512])", /^not yet: line 2, column 5: that takes [\d,]+ operations/],
  ]) {
    const answer = await run(page, "l6-c11", typed);
    assert.equal(answer.verdict, "not-yet");
    assert.match(answer.words, told);
  }
  await visit.close();
});

test("axe finds nothing in the lessons, and in those on operators run, wrong and solved; nothing is wider than the page", async () => {
  const axe = readFileSync(join(process.env.SPANLIFT_NODE_MODULES, "axe-core/axe.min.js"), "utf8");
  const answers = solutions();
  for (const colorScheme of ["light", "dark"]) {
    const visit = await chromium.open(path, { colorScheme, width: 1024, height: 768 });
    const { page } = visit;
    await page.locator("body[data-ready]").waitFor();
    await page.evaluate(axe);
    const look = async (what, where = ["html"]) => {
      const found = await page.evaluate((include) => globalThis.axe.run({ include }, { resultTypes: ["violations"] }), where);
      const told = found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target} ${n.failureSummary}`).join("; ")}`);
      assert.deepEqual(told, [], `${what} in ${colorScheme}`);
      const wide = await page.evaluate(() => [document.documentElement, ...document.querySelectorAll("#lesson-6 .out > *, #lesson-7 .out > *")].filter((e) => e.clientWidth < e.scrollWidth).map((e) => e.outerHTML.slice(0, 80)));
      assert.deepEqual(wide, [], `${what} in ${colorScheme}`);
    };
    const ids = await page.locator("#lesson-6 .cell, #lesson-7 .cell").evaluateAll((cells) => cells.map((cell) => [cell.id, cell.matches(".exercise")]));
    assert.ok(ids.length > 30, `${ids.length} cells`);
    for (const [id] of ids) await run(page, id);
    await look("run");
    for (const [id, isExercise] of ids) if (isExercise) await run(page, id, answers.get(id));
    for (const id of ["l6-c03", "l6-c17", "l7-c22"]) assert.equal((await run(page, id, "operator\nA = ftt(x)")).verdict, "error", id);
    await look("solved, and wrong", ["#lesson-6", "#lesson-7"]);
    await visit.close();
  }
});

test("exercises are judged: not as they stand, and right when solved", async () => {
  const visit = await chromium.open(path);
  const { page } = visit;
  await page.locator("body[data-ready]").waitFor();
  const answers = solutions();
  const ids = await page.locator(".cell.exercise").evaluateAll((cells) => cells.map((cell) => cell.id));
  for (const id of ids) {
    const before = await run(page, id);
    if (RIGHT_AS_IT_STANDS.includes(id)) {
      assert.equal(before.verdict, "right", `${id}: ${before.words}`);
      continue;
    }
    assert.equal(before.verdict, "not-yet", `${id}: ${before.words}`);
    assert.ok(answers.has(id), `${id} has no solution`);
    const solved = await run(page, id, answers.get(id));
    assert.equal(solved.verdict, "right", `${id}: ${solved.words}`);
  }
  assert.equal(await page.locator("#course-score").innerText(), `${ids.length} of ${ids.length} exercises right`);
  // As it was, with a key, and what nobody understands.
  const cell = page.locator(`#${ids[0]}`);
  await cell.locator("> .bar .reset").click();
  await cell.locator("> textarea").press("Shift+Enter");
  assert.equal(await cell.getAttribute("data-verdict"), "not-yet");
  const wrong = await run(page, ids[0], "copy <script>alert(1)</script>");
  assert.match(wrong.words, /line 1/);
  assert.equal(await page.locator("#course-score").innerText(), `${ids.length - 1} of ${ids.length} exercises right`);
  await visit.close();
});

/** A table of many more runs natively, through the same cells: native/src/lessons.rs. */
test("answers that leave out what is asked for are not right, and another way to give it is", async () => {
  const visit = await chromium.open(path);
  const { page } = visit;
  await page.locator("body[data-ready]").waitFor();
  const answers = solutions();
  const without = (text, line) => text.split("\n").filter((l) => !l.startsWith(line)).join("\n");
  const kernel = "kernel  step on 0 reads y writes y for 400us";
  for (const [id, change, verdict, told] of [
    ["l1-c16", (text) => without(text, "read ").replace("copy    y", "read    y\ncopy    y"), "not-yet", /read y stands where what it needs is not there yet/],
    ["l1-c16", (text) => text.replace("read    y", "read    y[0..0]"), "not-yet", /missing: read y$/],
    ["l1-c16", (text) => text.replace("sync    back", "sync    cuda:0"), "right", /no hazard/],
    ["l2-c07", (text) => text.replace("step(1, 5)", "step(1, 16)").replace("255", "240"), "not-yet", /only `guess` may change/],
    ["l2-c28", (text) => text.replace("map a, b", "map weight"), "not-yet", /for two devices/],
    ["l3-c40", (text) => text.replace(" reuse t", ""), "not-yet", /missing: device u 4MiB on cuda:0 via pool home main_stream reuse t/],
    ["l4-c14", (text) => text.replace("64MiB", "1GiB"), "not-yet", /only `guess` may change/],
    ["l5-c13", (text) => without(text, "kernel  step").replace("wait    there on 0", `wait    there on 0\n${kernel}`), "not-yet", /no longer runs beside the first kernel/],
    ["l5-c31", (text) => text.replace("h100-pcie5", "gh200-c2c"), "not-yet", /only `strategy` and `in_flight` may change/],
    ["l5-c39", (text) => without(text, "copy      w").replace("device  w 1MiB", "device  w 1MiB = f32 fill 3"), "not-yet", /w is on the device without a copy/],
    ["l5-c39", (text) => text.replace("pageable weights", "pinned weights"), "right", /are needed on the device/],
  ]) {
    const solved = answers.get(id);
    const changed = change(solved);
    assert.notEqual(changed, solved, id);
    const answer = await run(page, id, changed);
    assert.equal(answer.verdict, verdict, `${id}: ${answer.words}`);
    assert.match(answer.words, told);
  }
  await visit.close();
});

test("neither this page nor the tour's is wider than a narrow window", async () => {
  await harness.spanlift("tour", "-o", files.folder);
  for (const page of [path, join(files.folder, "tour.html")]) {
    const visit = await chromium.open(page, { width: 320 });
    const wide = () => visit.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    const [found, has] = await wide();
    assert.ok(found <= has, `${page} is ${found} pixels wide in a window of ${has}`);
    await visit.close();
  }
});
