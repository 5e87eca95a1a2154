// Viewers in pages of other people: the example of the documentation, a page in a frame, and a page that is served.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import * as harness from "./harness.mjs";

const room = harness.room();

/** The documentation's example of a page of one's own. */
async function embedded() {
  const made = join(room.files.folder, "made.html");
  // built with what all packages together ask for, as every test is: a package by itself would build the library anew
  await promisify(execFile)("cargo", ["build", "-q", "--workspace", "--example", "embed"], { cwd: harness.ROOT });
  await promisify(execFile)(join(harness.ROOT, "target/debug/examples/embed"), [made], { cwd: harness.ROOT });
  return harness.withFreshViewer(readFileSync(made, "utf8"));
}

test("the documentation's example has two viewers in a page of its own", async () => {
  const visit = await room.browser.open(room.files.write("embed.html", await embedded()));
  const places = visit.page.locator("[data-spanlift]");
  assert.equal(await places.count(), 2);
  for (let k = 0; k < 2; k += 1) {
    const canvas = await harness.ready(places.nth(k));
    assert.ok((await harness.painted(canvas)) > 2000, `viewer ${k} shows nothing`);
    assert.equal(await places.nth(k).locator(".spanlift-still").isVisible(), false);
  }
  // The page around keeps its own looks, and its wheel until a viewer was clicked.
  assert.match(await visit.page.locator("body > h1").evaluate((h) => getComputedStyle(h).fontFamily), /Georgia/);
  await visit.page.evaluate(() => scrollTo(0, 0));
  await visit.page.mouse.move(400, 300);
  await visit.page.mouse.wheel(0, 200);
  await harness.eventually(() => visit.page.evaluate(() => scrollY > 100), "the wheel did not scroll the page");
  await visit.close();
});

test("a finger over the picture scrolls the page around it, and once it was tapped its lanes", async () => {
  const visit = await room.browser.open(room.files.write("embed-touch.html", await embedded()), { width: 1100, height: 500, hasTouch: true });
  const canvas = await harness.ready(visit.page.locator("[data-spanlift]").first());
  const fingers = await visit.page.context().newCDPSession(visit.page);
  const top = () => visit.page.evaluate(() => scrollY);
  const drag = async () => {
    const box = await canvas.boundingBox();
    const touch = (type, ...at) => fingers.send("Input.dispatchTouchEvent", { type, touchPoints: at.map((y) => ({ x: box.x + 0.7 * box.width, y })) });
    const from = Math.min(450, box.y + box.height - 20);
    await touch("touchStart", from);
    for (let k = 1; k <= 8; k += 1) await touch("touchMove", from - 15 * k);
    await touch("touchEnd");
  };
  const before = await top();
  await drag();
  await harness.eventually(async () => (await top()) > before + 50, "the page does not scroll");
  await canvas.tap();
  const tapped = await top();
  await drag();
  await new Promise((wake) => setTimeout(wake, 300));
  assert.equal(await top(), tapped, "the tapped viewer lets the finger go");
  await visit.close();
});

test("a page of spanlift view lives in a frame of another page", async () => {
  const inner = await harness.viewed(room.files, "inner.html", join(harness.ROOT, "native/programs/strategy-b.txt"));
  const outer = room.files.write("outer.html", `<!doctype html><title>outer</title><iframe src="${inner.split("/").at(-1)}" width="1000" height="600"></iframe>`);
  const visit = await room.browser.open(outer);
  const canvas = await harness.ready(await harness.frameIn(visit.page.locator("iframe")));
  assert.ok((await harness.painted(canvas)) > 2000);
  await visit.close();
});

/** Serves a file until `end` is called; gives the address. */
async function served(file) {
  const child = spawn(join(harness.ROOT, "target/debug/spanlift"), ["view", "--serve", file], { cwd: room.files.folder });
  let said = "";
  child.stdout.on("data", (text) => (said += text));
  const address = await harness.eventually(() => /^(http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/) /m.exec(said)?.[1], "no address was said");
  return { address, end: () => child.kill("SIGINT"), ended: new Promise((done) => child.on("exit", (code, signal) => done({ code, signal }))) };
}

test("a served page gets its data from beside it, and nothing else answers", async () => {
  const file = room.files.write("p.txt", "machine h200-pcie5\nstream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n");
  const { address, end, ended } = await served(file);
  try {
    const visit = await room.browser.open(address);
    const canvas = await harness.ready(visit.page);
    assert.ok((await harness.painted(canvas)) > 1000);
    assert.match(await visit.page.locator(".sl-lines").innerText(), /copy d <- x on s/);
    await visit.close();
    const { origin } = new URL(address);
    for (const path of ["/", "/data", "/0123456789abcdef0123456789abcdef/", `${new URL(address).pathname}other`]) {
      assert.equal((await fetch(origin + path)).status, 404, path);
    }
    assert.equal((await fetch(address, { method: "POST", body: "x" })).status, 400);
    const page = await fetch(address);
    assert.match(await page.text(), /data-from="data"/);
    assert.equal(page.headers.get("cache-control"), "no-store");
  } finally {
    end();
  }
  assert.deepEqual(await ended, { code: null, signal: "SIGINT" });
});
