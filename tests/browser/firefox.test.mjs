// What a person does in the page, once in Firefox: that another engine reads, paints, searches, selects and edits as Chromium does,
// where every detail is tested. Skipped, with a line, where there is no Firefox, or it does not start.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as harness from "./harness.mjs";

const { FIREFOX } = harness;
/** Why it is not tested here. */
let why = existsSync(FIREFOX) ? null : `no ${FIREFOX}: apt-get install firefox-esr`;
const room = {};
before(async () => {
  if (why) return;
  try {
    room.browser = await harness.browser("firefox");
    room.files = harness.scratch();
  } catch (error) {
    why = `Firefox does not start here: ${String(error.message).split("\n")[0]}`;
  }
});
after(async () => {
  await room.browser?.close();
  room.files?.remove();
});
const tested = (name, act) => test(name, async (context) => (why ? context.skip(why) : act()));

const says = (locator, pattern) => harness.eventually(async () => pattern.test(await harness.words(locator)), String(pattern));
const event = (name, tid, ts, dur, args = {}) => ({ ph: "X", cat: "kernel", name, pid: 0, tid, ts, dur, args: { device: 0, stream: tid, correlation: ts, ...args } });

tested("a program is shown, its race found, a change tried and the text edited", async () => {
  const made = await harness.viewed(room.files, "race.html", room.files.write("race.txt", harness.RACE));
  const visit = await room.browser.open(made);
  const canvas = await harness.ready(visit.page);
  assert.ok((await harness.painted(canvas)) > 2000);
  const ends = async () => Number(await canvas.getAttribute("data-end-ns")) - Number(await canvas.getAttribute("data-start-ns"));
  const whole = await ends();
  await says(visit.page.locator("[data-finding]").first(), /^RAW on d/);
  await visit.page.locator("[data-finding]").first().click();
  await harness.eventually(async () => (await visit.page.locator("[data-finding='0']").getAttribute("aria-current")) === "true", "the finding is not chosen");
  await visit.page.keyboard.press("0");
  await harness.eventually(async () => (await ends()) === whole, "0 did not show all");
  await visit.page.keyboard.press("w");
  await harness.eventually(async () => (await ends()) < whole, "w did not zoom");
  // An error is told with its line, and what is mended has no race.
  await visit.page.keyboard.press("e");
  const area = visit.page.locator(".sl-source");
  await area.fill(harness.RACE.replace("copy d <- x", "copy d <- y"));
  await says(visit.page.locator(".sl-wrong"), /^line 5\b[^]*y[^]* is not declared/);
  await area.fill(harness.RACE.replace("kernel", "sync copy\nkernel"));
  await says(visit.page.locator(".sl-findings"), /Every access is ordered/);
  await visit.close();
});

tested("a large trace is read by a worker, searched and measured", async () => {
  const page = await harness.viewed(room.files, "small.html", room.files.write("small.json", JSON.stringify({ traceEvents: [event("one", 7, 0, 5)] })));
  const visit = await room.browser.open(page);
  await harness.ready(visit.page);
  const events = Array.from({ length: 12_000 }, (_, k) => event(`gemm_${k % 50}`, 7, 20 * k, 10));
  const whole = JSON.stringify({ traceEvents: events });
  assert.ok(whole.length > 1 << 20);
  await visit.page.locator(".sl-files").setInputFiles([{ name: "large.json", mimeType: "application/json", buffer: Buffer.from(whole) }]);
  await says(visit.page.locator(".sl-notes"), /12,000 events, 0 dropped, 12,000 slices/);
  await visit.page.locator(".sl-search").fill("gemm_4[0-4]$");
  await visit.page.locator(".sl-search").press("Enter");
  await says(visit.page.locator(".sl-hits"), /^1 of 1,200$/);
  await says(visit.page.locator("[data-selection]").first(), /gemm_40[^]*took\s+10 µs/);
  // A bad file says why, and the page goes on.
  await visit.page.locator(".sl-files").setInputFiles([{ name: "cut.json", mimeType: "application/json", buffer: Buffer.from(whole.slice(0, -50)) }]);
  await says(visit.page.locator(".sl-refused"), /^cut\.json: byte \d+: the text ends here, after 11,?999 whole events/);
  await says(visit.page.locator(".sl-name"), /large\.json/);
  await visit.close();
});

tested("a memory snapshot is shown over time", async () => {
  const page = await harness.viewed(room.files, "snapshot.html", join(harness.ROOT, "notebooks/data/training.pickle"));
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  assert.ok((await harness.painted(canvas)) > 2000);
  await says(visit.page.locator(".sl-notes"), /2 segments of 4 blocks/);
  await visit.page.locator(".sl-plot").focus();
  await visit.page.keyboard.press("[");
  await says(visit.page.locator(".sl-view"), /event 73 of 74[^]*next: free completed/i);
  await visit.close();
});

tested("a lesson's cell runs, and the page is no wider than a narrow window", async () => {
  const path = join(room.files.folder, "course.html");
  await harness.spanlift("course", "-o", path);
  const html = harness.withFreshViewer(readFileSync(path, "utf8"), harness.viewer("course"));
  const visit = await room.browser.open(room.files.write("course.html", html), { width: 320 });
  const wide = await visit.page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 320, `${wide} pixels wide in a window of 320`);
  await visit.page.locator("body[data-ready]").waitFor();
  const cell = visit.page.locator(".cell[data-verb]").first();
  await cell.locator("> .bar .run").click();
  await harness.eventually(async () => Number(await cell.getAttribute("data-ran")) > 0, "the cell did not run");
  await visit.close();
});
