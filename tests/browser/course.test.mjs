// The course's page: every cell runs, every solution is judged right and no exercise is before it is solved; nothing is fetched.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as harness from "./harness.mjs";

const FOLDER = join(harness.ROOT, "notebooks");
const LESSONS = ["01_streams_and_events", "02_memory_maps", "03_races", "04_pageable_and_pinned", "05_strategies"];
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
  await cell.locator("> .bar .run").click();
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
