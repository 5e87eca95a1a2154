// What stands in the address, the menu over the picture, lanes in another order, a drag with alt, and slices for Perfetto.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, test } from "node:test";
import * as harness from "./harness.mjs";

const { RACE } = harness;
// On one stream a kernel within another and one that overlaps both; times that no number of the page could hold.
const kernel = (name, ts, dur) => ({ ph: "X", cat: "kernel", name, pid: 0, tid: 7, ts, dur, args: { device: 0, stream: 7, correlation: 7 } });
const OVERLAPPING = JSON.stringify({ traceEvents: [kernel("outer", 0, 30), kernel('in, "quoted"', 5, 10), kernel("across", 20, 25), kernel("moment", 50, 0)] })
  .replace(/"ts":(\d+)/g, (_, ts) => `"ts":${1712195495501688n + BigInt(ts)}.612`);

const room = harness.room();
let page;
before(async () => {
  page = await harness.viewed(room.files, "race.html", room.files.write("race.txt", RACE), room.files.write("overlapping.json", OVERLAPPING));
});

const state = (canvas) =>
  canvas.evaluate(({ dataset: d }) => ({
    // The difference of numbers beyond 2^53 would be off by hundreds.
    span: Number(BigInt(d.endNs ?? 0) - BigInt(d.startNs ?? 0)), start: Number(d.startNs), end: Number(d.endNs), x: Number(d.plotX), width: Number(d.plotWidth), slice: d.slice, range: d.range, at: d.at, order: d.order,
  }));
const until = (canvas, is, what) => harness.until(state, canvas, is, what);
const says = (locator, pattern) => harness.eventually(async () => pattern.test(await harness.words(locator)), String(pattern));
const hash = (visit) => visit.page.evaluate(() => location.hash);
const holds = (visit, pattern) => harness.eventually(async () => pattern.test(await hash(visit)), `the address holds no ${pattern}`);

/** The fields of a message of protocol buffers: numbers, of those with eight bytes too, and bytes of those with a length. */
function fields(bytes) {
  const found = [];
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at];
      at += 1;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(number());
    if ((key & 7) === 1) {
      found.push([key >> 3, new DataView(bytes.buffer, bytes.byteOffset + at, 8).getBigUint64(0, true)]);
      at += 8;
      continue;
    }
    const value = number();
    assert.ok([0, 2].includes(key & 7), `wire type ${key & 7}`);
    if ((key & 7) === 0) found.push([key >> 3, value]);
    else {
      found.push([key >> 3, bytes.subarray(at, at + Number(value))]);
      at += Number(value);
    }
  }
  return found;
}
const one = (list, number) => list.find(([field]) => field === number)?.[1];

test("the address brings back range, point in time, marks, order and finding, also where it changes", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  await visit.page.locator(".sl-plot").focus();
  for (const key of ["]", "m", "]", "r", "y"]) await visit.page.keyboard.press(key);
  const seen = await until(canvas, (s) => s.at && s.range, "no range and no point in time");
  await holds(visit, /at=\d+&range=\d+%2C\d+&marks=\d+&mode=typical/);
  const first = await hash(visit);
  for (const key of ["Escape", "Escape", "y"]) await visit.page.keyboard.press(key);
  await visit.page.locator("[data-finding]").first().click();
  await until(canvas, (s) => s.range === "" && s.at === "" && s.slice !== "", "the finding is not shown");
  await visit.page.keyboard.press("o");
  await until(canvas, (s) => s.order === "0", "no order is shown");
  await holds(visit, /finding=0&order=0/);
  const second = await hash(visit);
  // In a new tab.
  const again = await room.browser.open(page);
  await again.page.goto("about:blank");
  await again.page.goto((await visit.page.evaluate(() => location.href)).split("#")[0] + first);
  const other = await harness.ready(again.page);
  await until(other, (s) => s.range === seen.range && s.at === seen.at, "another range or point in time");
  await says(again.page.locator(".sl-marks"), /^A/);
  assert.equal(await again.page.locator("[data-mode=typical]").getAttribute("aria-pressed"), "true");
  await holds(again, new RegExp(`${first.slice(1).replaceAll("%", "%")}$`));
  // In the same one.
  await again.page.evaluate((hash) => (location.hash = hash), second);
  await until(other, (s) => s.order === "0" && s.range === "" && s.at === "", "the order is not shown");
  assert.equal(await again.page.locator("[data-mode=contract]").getAttribute("aria-pressed"), "true");
  await again.page.evaluate(() => (location.hash = "#item=1&q=outer"));
  await says(again.page.locator(".sl-name").first(), /overlapping/);
  await says(again.page.locator(".sl-hits").first(), /1 found/);
  await holds(again, /item=1.*q=outer/);
  for (const each of [visit, again]) await each.close();
});

test("an address with a finding shows it, and what was chosen beside it where an order is shown", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  await visit.page.locator("[data-finding]").first().click();
  const found = await until(canvas, (s) => s.slice !== "", "the finding chooses no slice");
  await holds(visit, /slice=\d+&finding=0$/);
  const again = await room.browser.open(page);
  const other = await harness.ready(again.page);
  const goes = (hash) => again.page.evaluate((hash) => (location.hash = hash), hash);
  const current = again.page.locator("[data-finding='0'][aria-current=true]");
  const lines = (visit) => visit.page.locator(".sl-line:is(.is-selected, .is-second)").count();
  // The finding marks the lines of both its commands; a slice that is chosen for itself takes it away.
  for (const hash of [await visit.page.evaluate(() => location.hash), "#finding=0"]) {
    await goes("#slice=0");
    await until(other, (s) => s.slice === "0", "no slice is chosen");
    assert.equal(await current.count(), 0);
    await goes(hash);
    await until(other, (s) => s.slice === found.slice, `${hash} chooses another slice`);
    await holds(again, /slice=\d+&finding=0$/);
    assert.deepEqual([await current.count(), await lines(again)], [1, 2], hash);
  }
  await visit.page.keyboard.press("o");
  const own = await until(canvas, (s) => s.order === "0", "no order is shown");
  await holds(visit, /finding=0&order=0$/);
  const order = await visit.page.evaluate(() => location.hash);
  await visit.page.locator(".sl-plot").first().focus();
  await visit.page.keyboard.press("ArrowUp");
  const beside = await until(canvas, (s) => s.slice !== own.slice && s.slice !== "", "no other slice is chosen");
  await holds(visit, new RegExp(`slice=${beside.slice}&.*finding=0&order=0$`));
  const chosen = await visit.page.evaluate(() => location.hash);
  for (const [hash, slice] of [[chosen, beside.slice], [order, own.slice], [chosen.replace(/slice=\d+&/, ""), ""]]) {
    await goes("");
    await until(other, (s) => s.order === "" && s.slice === "", "the order stays");
    await goes(hash);
    await until(other, (s) => s.order === "0" && s.slice === slice, `${hash} does not choose ${slice || "nothing"}`);
    await harness.eventually(async () => (await again.page.evaluate(() => location.hash)) === hash, `the address is not ${hash}`);
    assert.equal(await current.count(), 1);
    if (hash === order) assert.equal(await lines(again), 2);
  }
  // What is not there chooses nothing.
  await goes("#slice=1&finding=7");
  await until(other, (s) => s.order === "" && s.slice === "1", "the slice is not chosen");
  for (const each of [visit, again]) await each.close();
});

test("the address brings back what if, and what is compared", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const below = (of) => of.page.locator(".sl-beside canvas.sl-canvas[data-ready]");
  await visit.page.keyboard.press("i");
  await visit.page.locator(".sl-if [name=link]").first().fill("2");
  await visit.page.locator(".sl-if [name=engines]").first().selectOption("2");
  await holds(visit, /if=link%3D2%26engines%3D2$/);
  await visit.page.locator(".sl-if [name=link]").first().fill("-1");
  await holds(visit, /if=link%3D-1%26engines%3D2$/);
  const changed = await hash(visit);
  const then = (of) => of.page.locator(".sl-then").first();
  await says(then(visit), /lost/);
  const said = await harness.words(then(visit));
  await visit.page.locator(".sl-beside-head button", { hasText: "close" }).click();
  await harness.eventually(async () => !(await hash(visit)).includes("if="), "the address keeps what was closed");
  await visit.page.locator(".sl-plot").first().focus();
  await visit.page.keyboard.press("c");
  await harness.eventually(async () => (await below(visit).count()) === 1, "nothing is compared");
  for (const each of [canvas, below(visit)]) {
    await each.evaluate((element) => element.closest(".sl-plot").focus());
    for (const key of ["Escape", "ArrowRight", "ArrowDown"]) await visit.page.keyboard.press(key);
    await until(each, (s) => s.slice !== "", "nothing is selected");
  }
  await visit.page.locator(".sl-beside-head button", { hasText: "align" }).click();
  await holds(visit, /beside=1%2C-?\d+$/);
  const [compared, seen, seenBelow] = [await hash(visit), await state(canvas), await state(below(visit))];
  const again = await room.browser.open(page);
  await again.page.goto("about:blank");
  await again.page.goto((await visit.page.evaluate(() => location.href)).split("#")[0] + changed);
  const other = await harness.ready(again.page);
  await harness.eventually(async () => (await harness.words(then(again))) === said, "other changes, or none");
  assert.deepEqual(await again.page.locator(".sl-if form").first().evaluate(({ elements: { link, engines } }) => [link.value, engines.value]), ["-1", "2"]);
  await harness.eventually(async () => (await below(again).count()) === 1, "no changed timeline below");
  // In the same page the other one, aligned as it was, and none.
  await again.page.evaluate((hash) => (location.hash = hash), compared);
  const near = (a, b) => Math.abs(a.start - b.start) + Math.abs(a.end - b.end) <= (b.end - b.start) / 100;
  await until(other, (s) => near(s, seen), "another time");
  await until(below(again), (s) => near(s, seenBelow), "another time below");
  assert.equal(await again.page.locator(".sl-beside-head select").inputValue(), "overlapping.json");
  await holds(again, /beside=1%2C-?\d+$/);
  // An address that names no slices does not speak of any.
  await again.page.evaluate(() => (location.hash = "#beside=1,20000"));
  await says(again.page.locator(".sl-beside-head b"), /^aligned, 20 µs later:$/);
  await again.page.evaluate(() => (location.hash = "#beside=7"));
  await says(again.page.locator(".sl-refused").first(), /^item 8 is not in the page/);
  await again.page.evaluate(() => (location.hash = "#"));
  await harness.eventually(async () => !(await again.page.locator(".sl-beside").isVisible()), "the second timeline stayed");
  for (const each of [visit, again]) await each.close();
});

test("the menu does what its keys do, by the right button and by keys", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const { x } = await state(canvas);
  const menu = visit.page.getByRole("menu");
  const items = menu.getByRole("menuitem");
  // The first lane is the host's.
  await canvas.click({ button: "right", position: { x: x + 300, y: 60 }, force: true });
  await harness.eventually(() => menu.isVisible(), "no menu");
  const tip = visit.page.locator(".sl-tip").first();
  assert.deepEqual([await tip.evaluate((t) => t.hidden), await tip.isVisible()], [false, false], "words beside the pointer stand behind the menu");
  await visit.page.keyboard.press("Escape");
  assert.equal(await menu.count(), 0);
  const plot = visit.page.locator(".sl-plot").first();
  assert.ok(await plot.evaluate((element) => element === document.activeElement), "the focus is lost");
  for (const key of ["Escape", "ArrowRight", "ArrowDown"]) await visit.page.keyboard.press(key);
  await until(canvas, (s) => s.slice !== "", "nothing is selected");
  await visit.page.keyboard.press("Shift+F10");
  await harness.eventually(() => menu.isVisible(), "no menu by key");
  const words = await items.allInnerTexts();
  for (const wanted of [/^fit\s+F$/, /^a range with its totals\s+R$/, /^lane down/, /^save as CSV\s+V$/, /^save for Perfetto/]) assert.ok(words.some((line) => wanted.test(line)), `${wanted} in ${words}`);
  const focused = () => visit.page.evaluate(() => document.activeElement.textContent);
  assert.match(await focused(), /^fit/);
  await visit.page.keyboard.press("ArrowUp");
  assert.match(await focused(), /^save as PNG/);
  await visit.page.keyboard.press("Home");
  await visit.page.keyboard.press("ArrowDown");
  await visit.page.keyboard.press("Escape");
  await visit.page.keyboard.press("Shift+F10");
  await items.filter({ hasText: "a range with its totals" }).click();
  await until(canvas, (s) => s.range !== "", "the menu chose no range");
  assert.equal(await menu.count(), 0);
  await visit.close();
});

test("lanes are moved by key and by the menu, and the address keeps their order", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  await visit.page.locator(".sl-line", { hasText: /^\d+kernel / }).click();
  await until(canvas, (s) => s.slice !== "", "the kernel is not selected");
  const before = await harness.look(canvas);
  await visit.page.locator(".sl-plot").first().focus();
  await visit.page.keyboard.press("Alt+ArrowUp");
  await holds(visit, /lanes=2u/);
  await harness.eventually(async () => (await harness.look(canvas)) !== before, "the lane did not move");
  await visit.page.keyboard.press("Alt+ArrowDown");
  await holds(visit, /lanes=2u%2C1d/);
  await harness.eventually(async () => (await harness.look(canvas)) === before, "the lane did not come back");
  await visit.page.keyboard.press("Shift+F10");
  await visit.page.getByRole("menuitem", { name: /^lane to the top/ }).click();
  await holds(visit, /lanes=2u%2C1d%2C2t/);
  const moved = await harness.eventually(async () => (await harness.look(canvas)) !== before && harness.look(canvas), "the lane is not at the top");
  const address = await visit.page.evaluate(() => location.href);
  await visit.page.goto("about:blank");
  await visit.page.goto(address);
  const again = await harness.ready(visit.page);
  await harness.eventually(async () => (await harness.look(again)) === moved, "the lanes have another order");
  await visit.close();
});

test("work stands on lanes by engine and by kind, the address keeps it, and alt left takes it back with what was chosen", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const rest = () => new Promise((wake) => setTimeout(wake, 500));
  const caption = visit.page.locator("caption").first();
  const by = async (kind) => {
    await visit.page.keyboard.press("Shift+F10");
    await visit.page.getByRole("menuitemradio", { name: `lanes by ${kind}` }).click();
  };
  await visit.page.locator(".sl-line", { hasText: /^\d+kernel / }).click();
  const { slice } = await until(canvas, (s) => s.slice !== "", "the kernel is not selected");
  await says(caption, /^compute, /);
  await visit.page.locator(".sl-plot").first().focus();
  await rest();
  const before = await harness.look(canvas);
  await by("kind");
  await says(caption, /^kernel, /);
  await holds(visit, /group=kind/);
  await visit.page.keyboard.press("Alt+ArrowUp");
  await holds(visit, /group=kind&lanes=2u/);
  const moved = await harness.look(canvas);
  const address = await visit.page.evaluate(() => location.href);
  await by("engine");
  await holds(visit, /group=engine(?!&lanes)/);
  const again = await room.browser.open(page);
  await again.page.goto("about:blank");
  await again.page.goto(address);
  const other = await harness.ready(again.page);
  await harness.eventually(async () => (await harness.look(other)) === moved, "the address brings other lanes");
  // And the page still knows them once something else is chosen.
  await again.page.locator(".sl-plot").first().focus();
  await again.page.keyboard.press("Escape");
  await until(other, (s) => s.slice === "", "Escape selects nothing");
  await rest();
  await holds(again, /^#group=kind&lanes=2u/);
  await again.close();
  for (const expected of [/group=kind&lanes=2u/, /group=kind(?!&lanes)/, /^#slice=\d+$/]) {
    await visit.page.keyboard.press("Alt+ArrowLeft");
    await holds(visit, expected);
    await rest();
  }
  assert.equal((await state(canvas)).slice, slice);
  assert.equal(await harness.look(canvas), before, "not the lanes of the file");
  await visit.page.keyboard.press("Escape");
  await until(canvas, (s) => s.slice === "", "Escape selects nothing");
  await rest();
  await visit.page.keyboard.press("Alt+ArrowLeft");
  await until(canvas, (s) => s.slice === slice, "what was chosen did not come back");
  await visit.close();
});

test("two fingers zoom as far as they go apart, and one pans", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const whole = await state(canvas);
  const box = await canvas.boundingBox();
  const client = await visit.page.context().newCDPSession(visit.page);
  const touch = (type, ...xs) => client.send("Input.dispatchTouchEvent", { type, touchPoints: xs.map((x, id) => ({ x: box.x + whole.x + x, y: box.y + 100, id })) });
  await touch("touchStart", 200);
  await touch("touchStart", 200, 300);
  for (let k = 1; k <= 10; k += 1) await touch("touchMove", 200 - 5 * k, 300 + 5 * k);
  await touch("touchEnd");
  const near = await until(canvas, (s) => s.end - s.start < (whole.end - whole.start) * 0.6, "two fingers do not zoom");
  const at = (s) => s.start + (250 / s.width) * (s.end - s.start);
  assert.ok(Math.abs((near.end - near.start) / (whole.end - whole.start) - 0.5) < 0.05, "not as far as they went apart");
  assert.ok(Math.abs(at(near) - at(whole)) < (near.end - near.start) / 100, "not where they are");
  await touch("touchStart", 200);
  for (let k = 1; k <= 5; k += 1) await touch("touchMove", 200 + 10 * k);
  await touch("touchEnd");
  const panned = await until(canvas, (s) => s.start < near.start, "one finger does not pan");
  assert.equal(panned.range + panned.slice, "");
  await visit.close();
});

test("a drag with alt zooms to what it went over, and a close look says how long it is", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const whole = await state(canvas);
  const box = await canvas.boundingBox();
  await visit.page.keyboard.down("Alt");
  await visit.page.mouse.move(box.x + whole.x + whole.width * 0.25, box.y + 60);
  await visit.page.mouse.down();
  await visit.page.mouse.move(box.x + whole.x + whole.width * 0.5, box.y + 60, { steps: 4 });
  assert.ok(await visit.page.locator(".sl-plot .sl-chosen").first().isVisible());
  await visit.page.mouse.up();
  await visit.page.keyboard.up("Alt");
  const length = whole.end - whole.start;
  const near = await until(canvas, (s) => s.end - s.start < length / 2, "nothing was zoomed");
  assert.ok(Math.abs(near.start - whole.start - length / 4) < length / 100 && Math.abs(near.end - whole.start - length / 2) < length / 100, JSON.stringify([whole, near]));
  assert.equal(near.slice + near.range, "");
  for (let k = 0; k < 30; k += 1) await visit.page.keyboard.press("Shift+W");
  await says(visit.page.locator(".sl-range").first(), /^\d+ ns from \d+(\.\d+)? µs$/);
  await visit.close();
});

test("in the pane below keys and drags do what its list says, and the list says no more", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  await visit.page.keyboard.press("c");
  const pane = visit.page.locator(".sl-beside");
  const below = pane.locator(".sl-canvas[data-ready]");
  await below.waitFor();
  const plot = pane.locator(".sl-plot");
  await plot.focus();
  await visit.page.keyboard.press("?");
  await harness.eventually(() => pane.locator(".sl-keys").isVisible(), "? did nothing");
  const listed = (list) => list.locator("dt:visible").allTextContents();
  const here = await listed(pane.locator(".sl-keys"));
  await visit.page.locator("[data-do=keys]").first().click();
  const all = await listed(visit.page.locator(".sl-keys").first());
  assert.deepEqual(all.filter((key) => !here.includes(key)), ["drag the strip", "shift F10", "E", "L, X, P", "V"]);
  assert.ok(here.every((key) => all.includes(key)));
  assert.doesNotMatch(await harness.words(pane.locator(".sl-keys")), /lane moves/);
  for (const list of [plot, visit.page.locator(".sl-plot").first()]) {
    await list.focus();
    await visit.page.keyboard.press("?");
  }
  // None of those does anything there.
  const shown = () => visit.page.evaluate(() => JSON.stringify([[...document.querySelectorAll(".sl-canvas")].map(({ dataset }) => ({ ...dataset })), document.querySelectorAll(".sl-menu").length, document.activeElement.className]));
  await plot.focus();
  const still = await shown();
  for (const key of ["Shift+F10", "e", "Alt+ArrowUp"]) await visit.page.keyboard.press(key);
  await new Promise((wake) => setTimeout(wake, 400));
  assert.equal(await shown(), still);
  assert.ok(await pane.isVisible());
  const themes = () => visit.page.evaluate(() => [...document.querySelectorAll("[data-theme]")].map(({ dataset }) => dataset.theme).join());
  await visit.page.keyboard.press("t");
  await harness.eventually(async () => (await themes()) === "dark,dark", "one of both is light");
  const before = await until(below, (s) => s.end > s.start, "nothing is below");
  const box = await below.boundingBox();
  const at = (part) => [box.x + before.x + part * before.width, box.y + box.height / 2];
  await visit.page.keyboard.down("Alt");
  await visit.page.mouse.move(...at(0.5));
  await visit.page.mouse.down();
  await visit.page.mouse.move(...at(0.6));
  await visit.page.mouse.up();
  await visit.page.keyboard.up("Alt");
  const near = await until(below, (s) => s.span < before.span / 8, "the drag does not zoom");
  await until(canvas, (s) => Math.abs(s.span / near.span - 1) < 0.01, "what is above does not follow");
  await visit.close();
});

test("from the pane below keys search, ask what if, go back and close it, and what is chosen there is told", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  await visit.page.keyboard.press("c");
  const pane = visit.page.locator(".sl-beside");
  const below = pane.locator(".sl-canvas[data-ready]");
  await below.waitFor();
  const right = visit.page.locator(".sl-right").first();
  const tells = (pattern) => harness.eventually(async () => pattern.test(await harness.words(right)), String(pattern));
  const plot = pane.locator(".sl-plot");
  await plot.focus();
  await visit.page.keyboard.press("ArrowRight");
  await until(below, (s) => s.slice !== "", "nothing is chosen below");
  await tells(/SELECTED\s+below\s+outer/i);
  await visit.page.keyboard.press("r");
  await tells(/below\s+outer[^]*0 ns to 30 µs: 30 µs[^]*kernel/);
  assert.equal((await state(canvas)).range, "");
  await visit.page.locator("[data-finding]").first().click();
  await tells(/SELECTED\s+scale/i);
  assert.doesNotMatch(await harness.words(right), /outer/);
  await holds(visit, /finding=0/);
  await plot.focus();
  await visit.page.keyboard.press("/");
  assert.ok(await visit.page.locator(".sl-search").first().evaluate((field) => field === document.activeElement));
  await plot.focus();
  await visit.page.keyboard.press("Alt+ArrowLeft");
  await harness.eventually(async () => !/finding=0/.test(await hash(visit)), "alt left did nothing");
  await plot.focus();
  await visit.page.keyboard.press("i");
  await harness.eventually(() => visit.page.locator(".sl-if form").first().isVisible(), "I did nothing");
  await plot.focus();
  await visit.page.keyboard.press("c");
  await harness.eventually(() => pane.isHidden(), "C did nothing");
  await visit.close();
});

test("marks in an order are its own, and the address has them", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const marks = visit.page.locator(".sl-marks").first();
  await visit.page.locator(".sl-plot").focus();
  for (const key of ["]", "m", "Escape"]) await visit.page.keyboard.press(key);
  await says(marks, /^A\s*[\d.]+ .s$/);
  for (const key of ["n", "o"]) await visit.page.keyboard.press(key);
  await until(canvas, (s) => s.order === "0", "no order is shown");
  await harness.eventually(() => marks.isHidden(), "a mark of the times is in the order");
  for (const key of ["m", "r"]) await visit.page.keyboard.press(key);
  await says(marks, /^A\s*step \d+$/);
  await says(visit.page.locator("[data-totals] > b").first(), /^step \d+ to step \d+$/);
  await holds(visit, /marks=\d+.*order=0/);
  const again = await room.browser.open(page);
  await harness.ready(again.page);
  await again.page.evaluate((hash) => (location.hash = hash), await hash(visit));
  await says(again.page.locator(".sl-marks").first(), /^A\s*step \d+$/);
  await visit.page.locator(".sl-plot").focus();
  for (const key of ["Escape", "Escape"]) await visit.page.keyboard.press(key);
  await until(canvas, (s) => s.order === "", "the order stays");
  await says(marks, /^A\s*[\d.]+ .s$/);
  for (const each of [visit, again]) await each.close();
});

test("alt and an arrow on the strip goes back as it does anywhere", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const whole = await state(canvas);
  await visit.page.waitForTimeout(500);
  await visit.page.keyboard.press("w");
  const near = await until(canvas, (s) => s.end - s.start < whole.end - whole.start, "not zoomed");
  await visit.page.waitForTimeout(500);
  await visit.page.locator(".sl-strip").first().focus();
  await visit.page.keyboard.press("Alt+ArrowLeft");
  await until(canvas, (s) => s.start === whole.start && s.end === whole.end, `not back from ${near.start}`);
  await visit.close();
});

test("keys of one letter are switched off, and others stay", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const whole = await state(canvas);
  await visit.page.keyboard.press("?");
  await visit.page.getByLabel("keys of one letter").first().uncheck();
  await visit.page.locator(".sl-plot").first().focus();
  await visit.page.keyboard.press("w");
  await visit.page.keyboard.press("ArrowRight");
  const now = await until(canvas, (s) => s.slice !== "", "the arrow does nothing");
  assert.equal(now.end, whole.end, "w still zooms");
  await visit.page.getByLabel("keys of one letter").first().check();
  await visit.page.locator(".sl-plot").first().focus();
  await visit.page.keyboard.press("w");
  await until(canvas, (s) => s.end !== whole.end, "w does not zoom again");
  await visit.close();
});

test("keys of one letter are found by their places where another script is written, and those for its own signs are nobody's", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const whole = await state(canvas);
  const keyboard = await visit.page.context().newCDPSession(visit.page);
  const press = async (key, code, modifiers = 0) => {
    for (const type of ["keyDown", "keyUp"]) await keyboard.send("Input.dispatchKeyEvent", { type, key, code, modifiers, ...(type === "keyDown" ? { text: key } : {}) });
  };
  // Russian.
  await press("ц", "KeyW");
  const near = await until(canvas, (s) => s.end - s.start < whole.end - whole.start, "the key in the place of W does nothing");
  // What other keyboards have in its place, and what is no letter there.
  await press("z", "KeyW");
  await press("ö", "Semicolon");
  await press("ц", "KeyW", 2);
  await visit.page.locator(".sl-search").focus();
  await press("ц", "KeyW");
  assert.equal(await visit.page.locator(".sl-search").inputValue(), "ц");
  assert.deepEqual([(await state(canvas)).start, (await state(canvas)).end], [near.start, near.end]);
  await visit.page.locator(".sl-plot").focus();
  await press("Ф", "KeyA", 8);
  await until(canvas, (s) => s.start < near.start - 0.3 * (near.end - near.start), "with shift it does not pan five times as far");
  await press("у", "KeyE");
  await harness.eventually(() => visit.page.locator(".sl-source").isVisible(), "the program is not edited");
  await visit.close();
});

test("slices are saved for Perfetto with their times, and overlapping ones on tracks of their own", async () => {
  const visit = await room.browser.open(page);
  await harness.ready(visit.page);
  await visit.page.locator("button[data-item='1']").click();
  await says(visit.page.locator(".sl-notes").first(), /4 events, 0 dropped, 4 slices/);
  const [download] = await Promise.all([visit.page.waitForEvent("download"), visit.page.keyboard.press("Shift+V")]);
  assert.equal(download.suggestedFilename(), "overlapping.json.pftrace");
  const packets = fields(readFileSync(await download.path())).map(([field, bytes]) => {
    assert.equal(field, 1);
    return fields(bytes);
  });
  assert.ok(packets.every((packet) => one(packet, 10) === 1n), "packets of one sequence");
  assert.equal(one(packets[0], 13), 1n);
  const text = (bytes) => Buffer.from(bytes).toString();
  const tracks = new Map();
  const open = new Map();
  const slices = [];
  for (const packet of packets.slice(1)) {
    const descriptor = one(packet, 60);
    if (descriptor) {
      const told = fields(descriptor);
      tracks.set(one(told, 1), text(one(told, 2)));
      if (one(told, 5)) assert.ok(tracks.has(one(told, 5)), "the group is told before its lanes");
      continue;
    }
    const [at, event] = [one(packet, 8), fields(one(packet, 11))];
    const [type, track] = [one(event, 9), one(event, 11)];
    const stack = open.get(track) ?? open.set(track, []).get(track);
    assert.ok(tracks.has(track));
    if (type === 1n) stack.push([text(one(event, 23)), at, track]);
    else {
      const [name, from] = stack.pop();
      slices.push([name, Number(from - 1712195495501688612n), Number(at - from), track]);
    }
  }
  assert.ok([...open.values()].every((stack) => stack.length === 0), "each slice ends");
  const sorted = slices.sort((a, b) => a[1] - b[1]);
  assert.deepEqual(sorted.map(([name, from, took]) => [name, from, took]), [["outer", 0, 30_000], ['in, "quoted"', 5_000, 10_000], ["across", 20_000, 25_000], ["moment", 50_000, 0]]);
  const [outer, inner, across] = sorted.map((slice) => slice[3]);
  assert.ok(outer === inner && outer !== across, "nested below each other, overlapping apart");
  assert.equal(tracks.get(outer), tracks.get(across));
  await visit.close();
});

test("what is saved for Perfetto joins calls and their work by arrows", async () => {
  const slice = (cat, name, tid, ts, correlation) => ({ ph: "X", cat, name, pid: 0, tid, ts, dur: 5, args: { device: 0, stream: 7, correlation } });
  const events = [slice("cuda_runtime", "cudaLaunchKernel", 1, 0, 7), slice("kernel", "a", 7, 10, 7), slice("kernel", "b", 7, 20, 0), slice("cpu_op", "c", 1, 30)];
  const visit = await room.browser.open(page);
  await harness.ready(visit.page);
  await visit.page.locator(".sl-files").setInputFiles([{ name: "joined.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify({ traceEvents: events })) }]);
  await says(visit.page.locator(".sl-notes").first(), /4 events, 0 dropped, 4 slices/);
  const [download] = await Promise.all([visit.page.waitForEvent("download"), visit.page.keyboard.press("Shift+V")]);
  const told = fields(readFileSync(await download.path())).map(([, packet]) => one(fields(packet), 11)).filter(Boolean).map(fields);
  const flows = told.filter((event) => one(event, 9) === 1n).map((event) => [Buffer.from(one(event, 23)).toString(), one(event, 47) ?? null]);
  assert.deepEqual(flows, [["cudaLaunchKernel", 7n], ["a", 7n], ["b", null], ["c", null]]);
  await visit.close();
});

test("what is saved for Perfetto holds long names and large numbers whole, and the page goes on meanwhile", async () => {
  const long = "é".repeat(100_000);
  const sizes = [0, 1, 127, 128, 16_383, 16_384, 2 ** 49].map(String).concat(["9007199254740991", "9007199254740993", "9223372036854775807"]);
  const copy = (size, k) => `{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD ${k === 3 ? long : k}","pid":0,"tid":7,"ts":${20 * k},"dur":10,"args":{"device":0,"stream":7,"correlation":${k},"bytes":${size}}}`;
  const visit = await room.browser.open(page);
  await harness.ready(visit.page);
  await visit.page.locator(".sl-files").setInputFiles([{ name: "sizes.json", mimeType: "application/json", buffer: Buffer.from(`{"traceEvents":[${sizes.map(copy)}]}`) }]);
  await says(visit.page.locator(".sl-notes").first(), /10 events, 0 dropped, 10 slices/);
  // For this clock every slice takes long, so that there is a rest at each.
  await visit.page.evaluate(() => {
    let [now, { setTimeout }] = [0, globalThis];
    performance.now = () => (now += 1000);
    globalThis.rests = 0;
    globalThis.setTimeout = (act, ms, ...more) => ((rests += ms === undefined), setTimeout(act, ms, ...more));
  });
  const [download] = await Promise.all([visit.page.waitForEvent("download"), visit.page.keyboard.press("Shift+V")]);
  assert.ok((await visit.page.evaluate(() => globalThis.rests)) >= sizes.length, "the page stands still");
  const events = fields(readFileSync(await download.path())).map(([, packet]) => one(fields(packet), 11)).filter(Boolean).map(fields);
  const begun = events.filter((event) => one(event, 9) === 1n);
  assert.equal(Buffer.from(one(begun[3], 23)).toString(), `Memcpy HtoD ${long}`);
  const said = begun.map((event) => {
    const notes = event.filter(([field]) => field === 4).map(([, note]) => fields(note));
    const bytes = notes.find((note) => Buffer.from(one(note, 10)).toString() === "bytes");
    return bytes ? one(bytes, 3) : 0n;
  });
  assert.deepEqual(said, sizes.map(BigInt));
  await visit.close();
});

test("what is saved for Perfetto has the counters: whole numbers as such, others as doubles, each at its nanosecond", async () => {
  const base = 1712195495501688n;
  const count = (pid, ts, args) => `{"ph":"C","name":"queue","pid":${pid},"ts":${base + BigInt(ts)}.001,"args":${args}}`;
  const slice = JSON.stringify(kernel("k", 0, 40)).replace('"ts":0', `"ts":${base + 5n}.612`);
  const events = [
    '{"ph":"M","name":"process_name","pid":3,"args":{"name":"python"}}', slice,
    count(3, 10, '{"length":1}'), count(3, 20, '{"length":-5}'), count(3, 30, '{"length":0.1}'), count(3, 40, `{"length":${2 ** 60}}`),
    count(4, 12, '{"length":1e300,"depth":0}'), count(4, 14, '{"length":"NaN","depth":-1e19}'),
  ];
  const visit = await room.browser.open(page);
  await harness.ready(visit.page);
  await visit.page.locator(".sl-files").setInputFiles([{ name: "counted.json", mimeType: "application/json", buffer: Buffer.from(`{"traceEvents":[${events}]}`) }]);
  await says(visit.page.locator(".sl-notes").first(), /8 events, 0 dropped, 1 slice/);
  const [download] = await Promise.all([visit.page.waitForEvent("download"), visit.page.keyboard.press("Shift+V")]);
  const packets = fields(readFileSync(await download.path())).map(([, packet]) => fields(packet));
  const double = (bits) => new Float64Array(new BigUint64Array([bits]).buffer)[0];
  const [tracks, found] = [new Map(), {}];
  for (const packet of packets) {
    const [track, event] = [60, 11].map((field) => one(packet, field) && fields(one(packet, field)));
    if (track) tracks.set(one(track, 1), { name: Buffer.from(one(track, 2)).toString(), group: tracks.get(one(track, 5))?.name, counter: one(track, 8) });
    if (!event || one(event, 9) !== 4n) continue;
    const { name, group, counter } = tracks.get(one(event, 11));
    assert.equal(counter?.length, 0, `${name} is a counter's track`);
    const [whole, other] = [one(event, 30), one(event, 44)];
    assert.ok((whole === undefined) !== (other === undefined));
    (found[`${group}: ${name}`] ??= []).push([one(packet, 8) - 1000n * base, whole === undefined ? double(other) : BigInt.asIntN(64, whole)]);
  }
  assert.deepEqual(found, {
    "python 3: queue": [[10_001n, 1n], [20_001n, -5n], [30_001n, 0.1], [40_001n, 2n ** 60n]],
    "process 4: queue: length": [[12_001n, 1e300]],
    "process 4: queue: depth": [[12_001n, 0n], [14_001n, -1e19]],
  });
  await visit.close();
});
